#include "compute_client/loader/batch/prefetcher.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "gpu/place.h"
#include "image/jpeg/index.h"
#include "image_support.h"
#include "op/form.h"
#include "support/test.h"

#include <pthread.h>

/* A prefetcher with a device, which the CPU stands in for, against one without: the same source
 * gives both the same samples. */

#define NUM 96
#define BATCH 7
#define SEED 5
#define LANES 3
#define BLOCKS 5
#define STAGINGS 1

#define ONE_VIEW "decode,random_resized_crop=24,hflip,to_tensor"
#define VIEWS                                                                                      \
    "decode,views(2x[random_resized_crop=24,hflip,solarize=128:p=0.5],[random_resized_crop=9x13:"  \
    "scale=0.05-0.3:filter=bicubic]),to_tensor"

static struct sluice_pipeline *pipeline;
static struct sluice_row_layout layout;
static struct sluice_manifest_entry entries[NUM];
static struct sluice_manifest manifest = {.rows = entries, .num_entries = NUM, .num_classes = 9};
static struct sluice_sampler_item items[NUM];
static struct sluice_choice choices[NUM];
static uint32_t ids[NUM];
static char paths[NUM][16];

static void use_pipeline(const char *text)
{
    sluice_pipeline_destroy(pipeline);
    if (sluice_pipeline_parse(text, &pipeline, NULL) != SLUICE_OK)
        abort();
    layout = sluice_row_layout_of(pipeline, 0);
}

/* --- files --- */

static struct sluice_buf *files[NUM], *whole[NUM]; /* as they are, and as they were indexed */
static bool is_cut[NUM];                           /* by the source, for the item's crop */
static bool is_damaged[NUM];                       /* when it is cut */
static bool has_index;                             /* those that have an index come with it */
static bool is_broken[NUM];                        /* after it was indexed */

static struct sluice_buf *make_file(size_t i)
{
    static const enum image_test_kind kinds[] = {
        IMAGE_TEST_BASELINE, IMAGE_TEST_GRAY,     IMAGE_TEST_PNG,      IMAGE_TEST_RESTARTS,
        IMAGE_TEST_CMYK,     IMAGE_TEST_BASELINE, IMAGE_TEST_BASELINE, IMAGE_TEST_PROGRESSIVE};
    return image_test_file(kinds[i % SLUICE_ARRAY_LEN(kinds)], (uint32_t)(40 + i * 2 % 130),
                           (uint32_t)(200 - i));
}

static void flip_bits(struct sluice_buf *file, struct sluice_rng *rng)
{
    for (int k = 0; k < 3; k++)
        file->data[file->len / 2 + sluice_rng_below(rng, (uint32_t)(file->len / 2))] ^=
            (uint8_t)(1u << sluice_rng_below(rng, 8));
}

/* With damage some are short, others have flipped bits; some come as cut files, of which the same
 * holds. */
static void make_files(bool has_damage)
{
    struct sluice_rng rng = sluice_rng_init(SEED, 0, 0, 0);
    for (size_t i = 0; i < NUM; i++) {
        sluice_buf_unref(files[i]);
        sluice_buf_unref(whole[i]);
        files[i] = make_file(i);
        whole[i] = make_file(i);
        is_broken[i] = false;
        is_cut[i] = i % 8 == 5 || i % 8 == 6;
        is_damaged[i] = has_damage && i % 8 == 6;
        if (has_damage && i % 16 == 8)
            files[i]->len /= 2;
        if (has_damage && i % 8 == 3)
            flip_bits(files[i], &rng);
    }
}

/* --- a source that answers at once --- */

struct source {
    struct sluice_source source;
    struct sluice_source_events events;
    struct sluice_scratch *scratch;
    size_t num_given, most;   /* answers; the rest is kept */
    _Atomic size_t num_taken; /* items of batches that next() gave */
    size_t most_ahead;        /* answers beyond these */
};

/* The rows of a whole file with an index of it, as a server sends them. */
static void take_rows(struct sluice_source_result *result)
{
    struct sluice_sample *sample = &result->sample;
    struct sluice_buf *copy;
    if (sluice_sample_form(sample) == SLUICE_FORM_JPEG_CROP)
        return;
    REQUIRE_OK(sluice_buf_create(NULL, sample->data->len, &copy, NULL));
    memcpy(copy->data, sample->data->data, sample->data->len);
    copy->len = sample->data->len;
    sluice_buf_unref(sample->data);
    sample->data = copy;
    if (sluice_pipeline_take_rows(pipeline, NULL, sample, NULL) == SLUICE_OK)
        result->form = SLUICE_FORM_JPEG_ROWS;
}

static void give(struct source *source, const struct sluice_source_item *item)
{
    const size_t i = item->key.sample_id;
    struct sluice_source_result result = {
        .ticket = item->ticket,
        .form = SLUICE_FORM_RAW,
        .sample = {.key = item->key, .kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(files[i])},
    };
    if (is_cut[i] && sluice_pipeline_cut_for_gpu(pipeline, source->scratch, &result.sample, 8,
                                                 NULL) == SLUICE_OK) {
        struct sluice_rng rng = sluice_rng_init(SEED, item->key.epoch, i, 1);
        result.form = SLUICE_FORM_JPEG_CROP;
        if (is_damaged[i] && i % 16 == 6)
            result.sample.data->len /= 2;
        else if (is_damaged[i])
            flip_bits(result.sample.data, &rng);
    }
    struct sluice_jpeg_index *index = has_index ? calloc(1, sizeof(*index)) : NULL;
    if (index &&
        sluice_jpeg_index_build(whole[i]->data, whole[i]->len, 0, 2, index, NULL) != SLUICE_OK) {
        free(index);
        index = NULL;
    }
    result.sample.jpeg_index = index;
    if (index && i % 3 == 1 && sluice_codec_uses_index())
        take_rows(&result);
    result.payload_bytes = result.sample.data->len;
    source->events.on_result(source->events.ctx, &result);
}

static sluice_status request(struct sluice_source *base, const struct sluice_source_item *asked,
                             size_t num_items)
{
    struct source *source = SLUICE_CONTAINER_OF(base, struct source, source);
    const size_t ahead = source->num_given + num_items - source->num_taken;
    source->most_ahead = ahead > source->most_ahead ? ahead : source->most_ahead;
    for (size_t i = 0; i < num_items && source->num_given < source->most; i++, source->num_given++)
        give(source, &asked[i]);
    return SLUICE_OK;
}

static void consumed(struct sluice_source *source, uint32_t origin, size_t payload_bytes)
{
    (void)source, (void)origin, (void)payload_bytes;
}

static uint64_t wire_bytes(struct sluice_source *source)
{
    (void)source;
    return 0;
}

/* --- a prefetcher and its epoch --- */

static sluice_status alloc_memory(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    (void)ctx, (void)err;
    *memory = malloc(bytes);
    return *memory ? SLUICE_OK : SLUICE_E_NO_MEMORY;
}

static void free_memory(void *ctx, void *memory, size_t bytes)
{
    (void)ctx, (void)bytes;
    free(memory);
}

static sluice_status alloc_locked(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    return sluice_gpu_host_alloc(ctx, bytes, memory, err);
}

static void free_locked(void *ctx, void *memory, size_t bytes)
{
    sluice_gpu_host_free(ctx, memory, bytes);
}

/* A place for the pipeline's views, or for views that are larger. */
static struct sluice_gpu_place *make_place(uint32_t larger)
{
    struct sluice_gpu_place_options options = {
        .is_host = true,
        .max_rows = BATCH,
        .num_views = layout.num_views,
        .num_blocks = BLOCKS,
        .num_lanes = LANES,
        .num_stagings = STAGINGS,
        .memory_bytes = 256 << 20,
    };
    for (unsigned v = 0; v < layout.num_views; v++)
        options.views[v] = (struct sluice_gpu_view_size){layout.views[v].width + larger,
                                                         layout.views[v].height + larger};
    struct sluice_gpu_place *place = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_gpu_place_create(&options, &place, &err));
    return place;
}

struct rig {
    struct sluice_prefetcher *prefetcher;
    bool has_gpu;
    struct source source;
    struct sluice_live live;
    _Atomic unsigned num_decoded;     /* as on_decoded() tells */
    _Atomic unsigned num_broken_kept; /* by workers, for the device */
};

static void rig_open_with(struct rig *rig, struct sluice_gpu_place *place,
                          enum sluice_on_error on_error, unsigned num_slots, size_t payload_bytes)
{
    *rig = (struct rig){
        .source = {.source = {.request = request, .consumed = consumed, .wire_bytes = wire_bytes},
                   .most = SIZE_MAX},
        .has_gpu = place};
    const struct sluice_prefetcher_options options = {
        .num_workers = 2,
        .batch_size = BATCH,
        .num_slots = num_slots,
        .row_bytes = layout.bytes,
        .payload_bytes = payload_bytes,
        .on_error = on_error,
        .has_digest = true,
        .gpu = place,
        .live = &rig->live,
        .alloc = place ? alloc_locked : alloc_memory,
        .free = place ? free_locked : free_memory,
        .memory_ctx = place,
    };
    REQUIRE_OK(sluice_prefetcher_create(&options, &rig->prefetcher, NULL));
    REQUIRE_OK(sluice_scratch_create(NULL, &rig->source.scratch, NULL));
    rig->source.events = sluice_prefetcher_events(rig->prefetcher);
}

static void rig_open(struct rig *rig, struct sluice_gpu_place *place, enum sluice_on_error on_error)
{
    rig_open_with(rig, place, on_error, 4, 1 << 20);
}

static void rig_close(struct rig *rig)
{
    sluice_prefetcher_destroy(rig->prefetcher);
    sluice_scratch_destroy(rig->source.scratch);
}

static struct sluice_ask choose(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way)
{
    (void)ctx, (void)index, (void)under_way;
    return (struct sluice_ask){
        .choice = choices[item->position], .max_away = UINT32_MAX, .max_unfinished = UINT32_MAX};
}

static void on_decoded(void *ctx, unsigned n, double device_s)
{
    struct rig *rig = ctx;
    rig->num_decoded += n;
    if (n == 0 || device_s < 0)
        abort(); /* several threads: CUnit counts in one */
}

static void on_row(void *ctx, const struct sluice_row_seen *seen)
{
    struct rig *rig = ctx;
    rig->num_broken_kept += seen->got.on_gpu && is_broken[items[seen->index].position];
}

static void start(struct rig *rig, size_t first)
{
    const struct sluice_epoch epoch = {
        .source = &rig->source.source,
        .pipeline = pipeline,
        .manifest = &manifest,
        .ids = ids,
        .chooser = {.choose = choose, .on_row = on_row, .on_decoded = on_decoded, .ctx = rig},
        .seed = SEED,
        .items = items,
        .num_items = NUM,
        .first_item = first,
    };
    REQUIRE_OK(sluice_prefetcher_start(rig->prefetcher, &epoch, NULL));
}

/* What an epoch came to. */
struct outcome {
    uint64_t hash; /* of all batches, row by row */
    sluice_status status;
    struct sluice_err err;
    struct sluice_epoch_stats stats;
};

static uint64_t hash_batch(const struct sluice_held *batch, uint64_t before)
{
    for (unsigned v = 0; v < layout.num_views; v++) {
        const uint8_t *pixels = batch->pixels + sluice_row_place(&layout, BATCH, 0, v);
        before ^= sluice_hash64(pixels, batch->num_rows * layout.views[v].bytes);
        before = sluice_hash64(&before, sizeof(before));
    }
    const uint64_t parts[] = {
        before,
        sluice_hash64(batch->labels, batch->num_rows * sizeof(*batch->labels)),
        sluice_hash64(batch->ids, batch->num_rows * sizeof(*batch->ids)),
        sluice_hash64(batch->draw_epochs, batch->num_rows * sizeof(*batch->draw_epochs)),
        sluice_hash64(batch->errors, sizeof(batch->errors)),
        batch->index,
    };
    return sluice_hash64(parts, sizeof(parts));
}

/* Takes the epoch to its end, `num_held` batches held at a time. */
static struct outcome take_all(struct rig *rig, unsigned num_held)
{
    struct outcome outcome = {0};
    struct sluice_held *held[BLOCKS] = {NULL};
    for (unsigned i = 0;; i++) {
        struct sluice_held *batch = NULL;
        sluice_held_release(held[i % num_held]);
        held[i % num_held] = NULL;
        outcome.status = sluice_prefetcher_next(rig->prefetcher, -1, &batch, &outcome.err);
        if (!batch)
            break;
        CU_ASSERT_EQUAL(batch->block != NULL, rig->has_gpu);
        rig->source.num_taken += BATCH;
        outcome.hash = hash_batch(batch, outcome.hash);
        held[i % num_held] = batch;
    }
    outcome.stats = sluice_prefetcher_finish(rig->prefetcher);
    for (unsigned i = 0; i < num_held; i++)
        sluice_held_release(held[i]);
    return outcome;
}

static void check_counts(const struct rig *rig, const struct sluice_epoch_stats *stats)
{
    uint64_t on_gpu = 0;
    for (int form = 0; form < SLUICE_MAX_FORMS; form++) {
        on_gpu += stats->on_gpu[form];
        CU_ASSERT_EQUAL(rig->live.on_gpu[form], stats->on_gpu[form]);
        CU_ASSERT_EQUAL(rig->live.choices[0][form], stats->choices[0][form]);
        CU_ASSERT(stats->on_gpu[form] <= stats->choices[0][form]);
    }
    CU_ASSERT_EQUAL(rig->num_decoded, on_gpu);
}

static struct outcome run_kept(struct sluice_gpu_place *place, enum sluice_on_error on_error,
                               unsigned num_held, unsigned *num_broken_kept)
{
    struct rig rig;
    rig_open(&rig, place, on_error);
    start(&rig, 0);
    const struct outcome outcome = take_all(&rig, num_held);
    /* Of an epoch that failed, batches under way go on to count after its end. */
    if (outcome.status == SLUICE_OK)
        check_counts(&rig, &outcome.stats);
    if (num_broken_kept)
        *num_broken_kept = rig.num_broken_kept;
    rig_close(&rig);
    return outcome;
}

static struct outcome run(struct sluice_gpu_place *place, enum sluice_on_error on_error,
                          unsigned num_held)
{
    return run_kept(place, on_error, num_held, NULL);
}

static void check_same(const struct outcome *a, const struct outcome *b)
{
    CU_ASSERT_EQUAL(a->status, b->status);
    CU_ASSERT_STRING_EQUAL(a->err.text, b->err.text);
    CU_ASSERT_EQUAL(a->hash, b->hash);
    CU_ASSERT_STRING_EQUAL(a->stats.digest, b->stats.digest);
    CU_ASSERT_EQUAL(a->stats.samples, b->stats.samples);
    CU_ASSERT_EQUAL(a->stats.errors, b->stats.errors);
    CU_ASSERT_EQUAL_FATAL(a->stats.num_named, b->stats.num_named);
    for (size_t i = 0; i < a->stats.num_named; i++) {
        CU_ASSERT_EQUAL(a->stats.named[i].sample_id, b->stats.named[i].sample_id);
        CU_ASSERT_EQUAL(a->stats.named[i].status, b->stats.named[i].status);
        CU_ASSERT_STRING_EQUAL(a->stats.named[i].text, b->stats.named[i].text);
    }
}

/* --- tests --- */

static void check_files_of_every_kind(void)
{
    make_files(false);
    const struct outcome host = run(NULL, SLUICE_ON_ERROR_FAIL, 1);
    CU_ASSERT_EQUAL(host.stats.samples, NUM);
    for (unsigned num_held = 1; num_held < BLOCKS; num_held++) {
        const struct outcome gpu = run(make_place(0), SLUICE_ON_ERROR_FAIL, num_held);
        check_same(&gpu, &host);
        CU_ASSERT(gpu.stats.stall_ns[SLUICE_STALL_GPU] > 0);
        CU_ASSERT_EQUAL(host.stats.stall_ns[SLUICE_STALL_GPU], 0);
        /* Of eight kinds those that are neither PNG, CMYK nor progressive. */
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_JPEG_CROP] > NUM / 8);
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_RAW] > NUM / 4);
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_RAW] + gpu.stats.on_gpu[SLUICE_FORM_JPEG_CROP] <=
                  NUM / 8 * 5);
        for (int form = 0; form < SLUICE_MAX_FORMS; form++)
            CU_ASSERT_EQUAL(gpu.stats.choices[0][form], host.stats.choices[0][form]);
    }
}

TEST(files_of_every_kind_give_the_hosts_batches)
{
    check_files_of_every_kind();
    use_pipeline(VIEWS);
    check_files_of_every_kind();
    use_pipeline(ONE_VIEW);
}

static void check_damage(void)
{
    make_files(true);
    for (int on_error = SLUICE_ON_ERROR_FAIL; on_error <= SLUICE_ON_ERROR_SUBSTITUTE; on_error++) {
        const struct outcome host = run(NULL, (enum sluice_on_error)on_error, 1);
        const struct outcome gpu = run(make_place(0), (enum sluice_on_error)on_error, 2);
        check_same(&gpu, &host);
        if (on_error == SLUICE_ON_ERROR_FAIL) {
            CU_ASSERT_NOT_EQUAL(host.status, SLUICE_OK);
            continue;
        }
        CHECK_OK(host.status);
        CU_ASSERT(host.stats.errors >= NUM / 16);
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_RAW] > 0);
        /* The CPU makes some that the device declines, and others fail there, too. */
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_JPEG_CROP] <
                  gpu.stats.choices[0][SLUICE_FORM_JPEG_CROP]);
        CU_ASSERT_EQUAL(gpu.stats.choices[0][SLUICE_FORM_JPEG_CROP],
                        host.stats.choices[0][SLUICE_FORM_JPEG_CROP]);
    }
}

TEST(damage_is_told_skipped_and_replaced_as_on_the_host)
{
    check_damage();
    use_pipeline(VIEWS);
    check_damage();
    use_pipeline(ONE_VIEW);
}

/* Seven of eight files, and the cut ones once more when they are cut.  With an index no files with
 * inks: the CPU reads all of such a file, and a cut only the rows that it needs, so that damage in
 * the others is the end of the one and nothing to the other. */
static unsigned damage_files(uint64_t round)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, round, 0);
    unsigned num_damaged = 0;
    make_files(false);
    for (size_t i = 0; i < NUM; i++) {
        if (i % 8 == round % 8 || (has_index && i % 8 == 4))
            continue;
        struct sluice_buf *file = files[i];
        is_damaged[i] = is_cut[i];
        num_damaged++;
        for (uint32_t n = 1 + sluice_rng_below(&rng, 3); n > 0; n--) {
            const size_t at = sluice_rng_below(&rng, (uint32_t)file->len);
            switch (sluice_rng_below(&rng, 8)) {
            case 0:
                file->len = at + 1;
                break;
            case 1:
                file->data[at] = 0xFF;
                break;
            case 2:
                memmove(file->data + at, file->data + at + 1, file->len - at - 1);
                break;
            default:
                file->data[at] ^= (uint8_t)(1u << sluice_rng_below(&rng, 8));
                break;
            }
        }
    }
    return num_damaged;
}

/* Its status and what is said of it, and no other sample's row, with an index and without. */
TEST(any_damage_ends_as_on_the_host)
{
    const uint64_t num_rounds = sluice_test_is_long() ? 132 : 4;
    unsigned num_damaged = 0, num_decoded = 0, num_failed = 0;
    for (uint64_t round = 0; round < num_rounds; round++) {
        has_index = round % 2;
        num_damaged += damage_files(round);
        const struct outcome host = run(NULL, SLUICE_ON_ERROR_SKIP, 1);
        const struct outcome gpu = run(make_place(0), SLUICE_ON_ERROR_SKIP, 1);
        check_same(&gpu, &host);
        num_failed += (unsigned)host.stats.errors;
        for (int form = 0; form < SLUICE_MAX_FORMS; form++)
            num_decoded += (unsigned)gpu.stats.on_gpu[form];
    }
    has_index = false;
    printf("(%u damaged files: %u samples fail, %u are decoded on the device) ", num_damaged,
           num_failed, num_decoded);
    CU_ASSERT(num_failed > num_damaged / 8 && num_decoded > 0);
}

/* A marker within the scan, so that no worker can cut the file; it does no harm to an indexed file
 * whose crop lies elsewhere. */
static void break_files(void)
{
    for (size_t i = 0; i < NUM; i += 8) {
        struct sluice_buf *file = files[i];
        size_t at = file->len / 3 * 2;
        while (file->data[at - 1] == 0xFF || file->data[at] == 0xFF || file->data[at + 1] == 0xFF)
            at++;
        file->data[at] = 0xFF;
        file->data[at + 1] = 0x01;
        is_broken[i] = true;
    }
}

TEST(files_with_an_index_are_the_devices_without_a_cut)
{
    unsigned wanted = 0;
    for (size_t i = 0; i < NUM; i++)
        wanted += i % 8 == 0 && choices[i].on_gpu;
    for (int is_indexed = 0; is_indexed < 2; is_indexed++) {
        has_index = is_indexed;
        make_files(false);
        const struct outcome host = run(NULL, SLUICE_ON_ERROR_SKIP, 1);
        const struct outcome gpu = run(make_place(0), SLUICE_ON_ERROR_SKIP, 1);
        check_same(&gpu, &host);
        CU_ASSERT_EQUAL(gpu.stats.errors, 0);
        const uint64_t rows = gpu.stats.on_gpu[SLUICE_FORM_JPEG_ROWS];
        CU_ASSERT(gpu.stats.on_gpu[SLUICE_FORM_RAW] + rows > NUM / 4);
        CU_ASSERT(is_indexed && sluice_codec_uses_index() ? rows > NUM / 16 : rows == 0);

        break_files();
        unsigned num_kept = 0;
        const struct outcome bad_host = run(NULL, SLUICE_ON_ERROR_SKIP, 1);
        const struct outcome bad = run_kept(make_place(0), SLUICE_ON_ERROR_SKIP, 1, &num_kept);
        check_same(&bad, &bad_host);
        /* But not where the crop lies there. */
        CU_ASSERT(is_indexed ? num_kept > 0 && num_kept <= wanted : num_kept == 0);
    }
    has_index = false;
}

TEST(a_batch_of_bad_samples_alone_is_passed_over)
{
    make_files(false);
    for (size_t i = BATCH; i < 2 * BATCH; i++)
        files[items[i].position]->len = 3;
    const struct outcome host = run(NULL, SLUICE_ON_ERROR_SUBSTITUTE, 1);
    const struct outcome gpu = run(make_place(0), SLUICE_ON_ERROR_SUBSTITUTE, 1);
    check_same(&gpu, &host);
    CU_ASSERT_EQUAL(gpu.stats.errors, BATCH);
    CU_ASSERT_EQUAL(gpu.stats.samples, NUM - BATCH);
}

TEST(whoever_holds_every_batch_is_told_and_goes_on_after_a_release)
{
    make_files(false);
    const struct outcome host = run(NULL, SLUICE_ON_ERROR_FAIL, 1);
    struct rig rig;
    rig_open(&rig, make_place(0), SLUICE_ON_ERROR_FAIL);
    start(&rig, 0);
    struct outcome gpu = {0};
    struct sluice_held *held[BLOCKS];
    unsigned num = 0, num_refused = 0;
    for (bool is_over = false; !is_over;) {
        struct sluice_held *batch = NULL;
        gpu.err.text[0] = '\0';
        gpu.status = sluice_prefetcher_next(rig.prefetcher, -1, &batch, &gpu.err);
        if (batch) {
            CU_ASSERT_FATAL(num < BLOCKS);
            gpu.hash = hash_batch(batch, gpu.hash);
            held[num++] = batch;
            continue;
        }
        is_over = gpu.status == SLUICE_OK;
        if (!is_over) {
            CU_ASSERT_EQUAL_FATAL(gpu.status, SLUICE_E_NO_MEMORY);
            CU_ASSERT(sluice_prefetcher_needs_release(rig.prefetcher));
            CU_ASSERT_FALSE(sluice_prefetcher_has_lost_source(rig.prefetcher));
            CU_ASSERT_PTR_NOT_NULL(
                strstr(gpu.err.text, "every one of the 5 batches on the device"));
            CU_ASSERT_EQUAL(num, BLOCKS);
            num_refused++;
        }
        for (unsigned keep = num_refused % BLOCKS; num > keep;)
            sluice_held_release(held[--num]);
    }
    CU_ASSERT(num_refused > 2);
    gpu.stats = sluice_prefetcher_finish(rig.prefetcher);
    for (; num > 0; num--)
        sluice_held_release(held[num - 1]);
    check_same(&gpu, &host);
    rig_close(&rig);
}

/* With next to no memory for them a batch's files come all the same, but not more: besides those of
 * the blocks there is one batch that waits for a block. */
TEST(cut_files_count_until_their_batch_is_made)
{
    make_files(false);
    const struct outcome host = run(NULL, SLUICE_ON_ERROR_FAIL, 1);
    for (size_t bytes = 1; bytes <= 1 << 20; bytes <<= 20) {
        struct rig rig;
        rig_open_with(&rig, make_place(0), SLUICE_ON_ERROR_FAIL, 13, bytes);
        start(&rig, 0);
        if (bytes > 1) { /* all that the slots have room for is read meanwhile */
            while (sluice_live_get(&rig.live.rows) < 10 * BATCH)
                sched_yield();
        }
        const struct outcome gpu = take_all(&rig, 1);
        check_same(&gpu, &host);
        CU_ASSERT_EQUAL(rig.source.most_ahead > (BLOCKS + 2) * BATCH, bytes > 1);
        rig_close(&rig);
    }
}

TEST(a_left_epoch_and_held_batches_leave_the_next_one_right)
{
    make_files(false);
    const struct outcome host = run(NULL, SLUICE_ON_ERROR_FAIL, 1);
    struct rig rig;
    rig_open(&rig, make_place(0), SLUICE_ON_ERROR_FAIL);
    for (unsigned taken = 0; taken < 9; taken++) {
        struct sluice_held *held = NULL;
        rig.source.num_given = 0;
        rig.source.most = taken * BATCH + 4; /* more of the batch after it never comes */
        start(&rig, 0);
        for (unsigned i = 0; i < taken; i++) {
            sluice_held_release(held);
            CHECK_OK(sluice_prefetcher_next(rig.prefetcher, -1, &held, NULL));
        }
        (void)sluice_prefetcher_finish(rig.prefetcher);
        sluice_prefetcher_abandon(rig.prefetcher);
        rig.source.most = SIZE_MAX;
        start(&rig, 0);
        const struct outcome gpu = take_all(&rig, 1);
        check_same(&gpu, &host);
        sluice_held_release(held);
    }
    rig_close(&rig);
}

TEST(goes_on_where_an_epoch_was_left)
{
    make_files(false);
    struct outcome outcomes[2];
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        struct rig rig;
        rig_open(&rig, is_gpu ? make_place(0) : NULL, SLUICE_ON_ERROR_SKIP);
        start(&rig, (size_t)5 * BATCH);
        outcomes[is_gpu] = take_all(&rig, 1);
        CU_ASSERT_EQUAL(outcomes[is_gpu].stats.samples, NUM - 5 * BATCH);
        rig_close(&rig);
    }
    check_same(&outcomes[1], &outcomes[0]);
}

struct ending {
    struct rig *rig;
    unsigned after_us;
};

static void *ending_main(void *ctx)
{
    struct ending *ending = ctx;
    const uint64_t until_ns = sluice_clock_ns() + ending->after_us * UINT64_C(1000);
    while (sluice_clock_ns() < until_ns)
        sched_yield();
    sluice_prefetcher_stop(ending->rig->prefetcher);
    return NULL;
}

TEST(a_stop_at_any_moment_ends_every_wait)
{
    make_files(false);
    for (unsigned i = 0; i < 40; i++) {
        struct rig rig;
        rig_open(&rig, make_place(0), SLUICE_ON_ERROR_FAIL);
        pthread_t thread;
        struct ending ending = {&rig, i * 1000};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, ending_main, &ending), 0);
        start(&rig, 0);
        struct sluice_held *held = NULL;
        sluice_status status;
        do {
            sluice_held_release(held);
            held = NULL;
            status = sluice_prefetcher_next(rig.prefetcher, -1, &held, NULL);
        } while (held);
        CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_CLOSED);
        pthread_join(thread, NULL);
        (void)sluice_prefetcher_finish(rig.prefetcher);
        rig_close(&rig);
    }
}

static void *release_main(void *ctx)
{
    struct sluice_held **held = ctx;
    for (int i = 0; i < BLOCKS - 1; i++)
        sluice_held_release_after(held[i], NULL);
    return NULL;
}

TEST(batches_outlive_the_prefetcher_with_their_place)
{
    make_files(false);
    for (int late = 0; late < 2; late++) {
        struct rig rig;
        rig_open(&rig, make_place(0), SLUICE_ON_ERROR_FAIL);
        start(&rig, 0);
        struct sluice_held *held[BLOCKS - 1];
        uint64_t hashes[BLOCKS - 1];
        for (int i = 0; i < BLOCKS - 1; i++) {
            REQUIRE_OK(sluice_prefetcher_next(rig.prefetcher, -1, &held[i], NULL));
            hashes[i] = hash_batch(held[i], 0);
        }
        (void)sluice_prefetcher_finish(rig.prefetcher);
        pthread_t thread;
        if (late)
            rig_close(&rig);
        for (int i = 0; i < BLOCKS - 1; i++)
            CU_ASSERT_EQUAL(hash_batch(held[i], 0), hashes[i]);
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, release_main, held), 0);
        if (!late)
            rig_close(&rig);
        pthread_join(thread, NULL);
    }
}

/* A request that the device takes for wrong stands for a device that fails. */
TEST(a_device_that_fails_ends_the_epoch_with_its_words)
{
    make_files(false);
    struct rig rig;
    rig_open(&rig, make_place(1), SLUICE_ON_ERROR_SKIP);
    start(&rig, 0);
    struct sluice_held *held = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_prefetcher_next(rig.prefetcher, -1, &held, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NULL(held);
    CU_ASSERT_PTR_EQUAL(strstr(err.text, "the GPU cannot make a batch: "), err.text);
    CU_ASSERT_FALSE(sluice_prefetcher_has_lost_source(rig.prefetcher));
    CU_ASSERT_FALSE(sluice_prefetcher_needs_release(rig.prefetcher));
    (void)sluice_prefetcher_finish(rig.prefetcher);
    sluice_prefetcher_abandon(rig.prefetcher);
    rig_close(&rig);
}

int main(void)
{
    sluice_log_set_level(SLUICE_LOG_ERROR);
    use_pipeline(ONE_VIEW);
    const struct sluice_sampler sampler = {
        .seed = SEED, .num_samples = NUM, .repeat = 1, .is_shuffled = true};
    if (sluice_sampler_fill(&sampler, 0, items, NULL) != SLUICE_OK)
        return 1;
    for (uint32_t i = 0; i < NUM; i++) {
        ids[i] = i;
        snprintf(paths[i], sizeof(paths[i]), "%u", i);
        entries[i] =
            (struct sluice_manifest_entry){.path = paths[i], .bytes = 3000, .label = i % 9};
        choices[i] = (struct sluice_choice){.form = i % 3 ? SLUICE_FORM_RAW : SLUICE_FORM_JPEG_CROP,
                                            .on_gpu = i % 11 > 0};
    }
    const int failed = sluice_test_main();
    for (size_t i = 0; i < NUM; i++) {
        sluice_buf_unref(files[i]);
        sluice_buf_unref(whole[i]);
    }
    sluice_pipeline_destroy(pipeline);
    return failed;
}
