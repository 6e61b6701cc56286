#include "sluice/lend.h"
#include "sluice/sluice.h"

#include "base/hash.h"
#include "fixture.h"
#include "support/capture.h"
#include "support/test.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

/* Twelve images, so most epochs here repeat them: 12 x 5 items. */
#define REPEAT 5
#define NUM_ITEMS (NUM_IMAGES * REPEAT)

/* The rows of an epoch, by the place in its global order. */
struct rows {
    uint64_t id[NUM_ITEMS * 2];
    uint32_t draw_epoch[NUM_ITEMS * 2];
    int64_t label[NUM_ITEMS * 2];
    uint64_t pixels[NUM_ITEMS * 2]; /* a hash */
    unsigned num;
};

/* settings: pairs of key and value, NULL at the end. */
static struct sluice_loader *make(const char *const *settings, struct sluice_err *err)
{
    struct sluice_setting all[32] = {{"pipeline", PIPELINE}, {"repeat", "5"}, {"tail", "pad"},
                                     {"workers", "2"},       {"rank", "0"},   {"world-size", "1"}};
    size_t num = 6;
    if (getenv("SLUICE_GPU"))
        all[num++] = (struct sluice_setting){"gpu-decode", "on"};
    for (size_t i = 0; settings[i]; i += 2)
        all[num++] = (struct sluice_setting){settings[i], settings[i + 1]};
    struct sluice_loader *loader = NULL;
    (void)!sluice_loader_create(all, num, &loader, err);
    return loader;
}

static struct sluice_loader *opened(const char *const *settings)
{
    struct sluice_err err = {0};
    struct sluice_loader *loader = make(settings, &err);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(loader);
    REQUIRE_OK(sluice_loader_open(loader, &err));
    return loader;
}

static void begin(struct sluice_loader *loader, uint64_t epoch, const char *state)
{
    struct sluice_err err = {0};
    const struct sluice_epoch_start start = {.epoch = epoch, .state = state};
    const sluice_status status = sluice_loader_start(loader, &start, &err);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    REQUIRE_OK(status);
}

static const struct sluice_batch *next(struct sluice_loader *loader)
{
    const struct sluice_batch *batch = NULL;
    struct sluice_err err = {0};
    CHECK_OK(sluice_loader_next(loader, -1, &batch, &err));
    CU_ASSERT_STRING_EQUAL(err.text, "");
    return batch;
}

static uint64_t hash_row(const struct sluice_batch *batch, unsigned row)
{
    const size_t bytes = (size_t)batch->height * batch->width * 3;
    return sluice_hash64(batch->pixels + row * bytes, bytes);
}

static void add(struct rows *rows, const struct sluice_batch *batch)
{
    for (unsigned i = 0; i < batch->num_rows; i++) {
        CU_ASSERT_FATAL(rows->num < SLUICE_ARRAY_LEN(rows->id));
        rows->id[rows->num] = batch->ids[i];
        rows->draw_epoch[rows->num] = batch->draw_epochs[i];
        rows->label[rows->num] = batch->labels[i];
        rows->pixels[rows->num++] = hash_row(batch, i);
    }
}

/* The rest of the epoch. */
static void drain(struct sluice_loader *loader, struct rows *rows)
{
    for (const struct sluice_batch *batch; (batch = next(loader));) {
        add(rows, batch);
        sluice_batch_release(batch);
    }
}

static void check_same(const struct rows *a, const struct rows *b, unsigned first_of_b)
{
    CU_ASSERT_EQUAL_FATAL(a->num, b->num - first_of_b);
    for (unsigned i = 0; i < a->num; i++) {
        CU_ASSERT_EQUAL(a->id[i], b->id[first_of_b + i]);
        CU_ASSERT_EQUAL(a->draw_epoch[i], b->draw_epoch[first_of_b + i]);
        CU_ASSERT_EQUAL(a->label[i], b->label[first_of_b + i]);
        CU_ASSERT_EQUAL(a->pixels[i], b->pixels[first_of_b + i]);
    }
}

static struct rows whole(const char *const *settings, uint64_t epoch)
{
    struct sluice_loader *loader = opened(settings);
    struct rows rows = {.num = 0};
    begin(loader, epoch, NULL);
    drain(loader, &rows);
    sluice_loader_close(loader);
    return rows;
}

static const char *const local_8[] = {"dir", NULL, "batch-size", "8", NULL};

static const char *const *local(void)
{
    static const char *settings[8];
    memcpy(settings, local_8, sizeof(local_8));
    settings[1] = image_root();
    return settings;
}

TEST(every_mode_gives_the_same_rows)
{
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(image_root(), NULL, 0, &server, NULL));
    const struct rows here = whole(local(), 3);
    CU_ASSERT_EQUAL(here.num, NUM_ITEMS);
    static const char *const modes[] = {"remote_auto", "remote_nooff", "remote_piloff",
                                        "remote_alloff"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(modes); i++) {
        const char *const settings[] = {
            "host", sluice_server_address(server), "dataset-mode", modes[i], "batch-size", "8",
            NULL};
        const struct rows there = whole(settings, 3);
        check_same(&there, &here, 0);
    }
    sluice_server_stop(server);
}

TEST(ranks_share_one_global_order)
{
    const char *const one[] = {"dir", image_root(), "batch-size", "12", NULL};
    const struct rows all = whole(one, 1);
    static const char *const worlds[] = {"2", "3", "4", "6"};
    for (size_t w = 0; w < SLUICE_ARRAY_LEN(worlds); w++) {
        const unsigned size = (unsigned)atoi(worlds[w]), part = 12 / size;
        struct sluice_loader *loaders[6];
        char batch_size[12];
        snprintf(batch_size, sizeof(batch_size), "%u", part);
        for (unsigned rank = 0; rank < size; rank++) {
            char number[12];
            snprintf(number, sizeof(number), "%u", rank);
            const char *const settings[] = {"dir",  image_root(), "batch-size", batch_size, "rank",
                                            number, "world-size", worlds[w],    NULL};
            loaders[rank] = opened(settings);
            begin(loaders[rank], 1, NULL);
        }
        struct rows together = {.num = 0};
        for (bool is_over = false; !is_over;) {
            for (unsigned rank = 0; rank < size; rank++) {
                const struct sluice_batch *batch = next(loaders[rank]);
                is_over = !batch;
                if (batch)
                    add(&together, batch);
                sluice_batch_release(batch);
            }
        }
        check_same(&together, &all, 0);
        for (unsigned rank = 0; rank < size; rank++)
            sluice_loader_close(loaders[rank]);
    }
}

TEST(goes_on_from_a_state_of_any_batch)
{
    const struct rows all = whole(local(), 2);
    for (unsigned taken = 1; taken <= 8; taken++) {
        struct sluice_loader *loader = opened(local());
        char state[SLUICE_MAX_STATE];
        begin(loader, 2, NULL);
        for (unsigned i = 0; i < taken; i++) {
            const struct sluice_batch *batch = next(loader);
            CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
            CU_ASSERT_EQUAL(batch->index, i);
            sluice_batch_state(batch, state);
            sluice_batch_release(batch);
        }
        sluice_loader_close(loader);
        struct rows rest = {.num = 0};
        loader = opened(local());
        begin(loader, 77, state);
        drain(loader, &rest);
        CU_ASSERT_EQUAL(rest.num, taken * 8 < NUM_ITEMS ? NUM_ITEMS - taken * 8 : 0);
        if (rest.num)
            check_same(&rest, &all, taken * 8);
        sluice_loader_close(loader);
    }
}

static uint64_t num_on_gpu(struct sluice_loader *loader)
{
    struct sluice_counters counters;
    uint64_t sum = 0;
    sluice_loader_counters(loader, &counters);
    for (int form = 0; form < SLUICE_NUM_FORMS; form++)
        sum += counters.on_gpu[form];
    return sum;
}

/* The kernels run on the CPU here, so the rows are in the host's memory. */
TEST(a_state_goes_on_with_the_gpu_and_without)
{
    const struct rows all = whole(local(), 1);
    const bool is_set = getenv("SLUICE_GPU");
    setenv("SLUICE_GPU", "host", 1);
    for (int first = 0; first < 2; first++) {
        const char *settings[8] = {"dir", image_root(), "batch-size",
                                   "8",   "gpu-decode", first ? "on" : "off"};
        struct sluice_loader *loader = opened(settings);
        CU_ASSERT_EQUAL(sluice_loader_device(loader), -1);
        begin(loader, 1, NULL);
        struct rows rows = {.num = 0};
        char state[SLUICE_MAX_STATE];
        for (unsigned i = 0; i < 3; i++) {
            const struct sluice_batch *batch = next(loader);
            CU_ASSERT_PTR_NOT_NULL_FATAL(batch);
            add(&rows, batch);
            sluice_batch_state(batch, state);
            sluice_batch_release(batch);
        }
        CU_ASSERT_EQUAL(num_on_gpu(loader) > 0, first);
        sluice_loader_close(loader);
        settings[5] = first ? "off" : "on";
        loader = opened(settings);
        begin(loader, 0, state);
        drain(loader, &rows);
        CU_ASSERT_EQUAL(num_on_gpu(loader) > 0, !first);
        sluice_loader_close(loader);
        check_same(&rows, &all, 0);
    }
    if (!is_set)
        unsetenv("SLUICE_GPU");
}

TEST(an_epoch_may_be_left_in_the_middle)
{
    const struct rows all = whole(local(), 0);
    struct sluice_loader *loader = opened(local());
    for (int i = 0; i < 3; i++) {
        begin(loader, 4, NULL);
        sluice_batch_release(next(loader));
    }
    struct rows rows = {.num = 0};
    begin(loader, 0, NULL);
    drain(loader, &rows);
    check_same(&rows, &all, 0);
    sluice_loader_close(loader);
}

TEST(batches_that_are_held_stay_as_they_are)
{
    struct sluice_loader *loader = opened(local());
    const struct sluice_batch *held[16];
    uint64_t hashes[16][8];
    unsigned num = 0;
    const unsigned most = getenv("SLUICE_GPU") ? 7 : 8; /* a GPU's batches are so many */
    begin(loader, 0, NULL);
    for (; num < most && (held[num] = next(loader)); num++) {
        for (unsigned i = 0; i < held[num]->num_rows; i++)
            hashes[num][i] = hash_row(held[num], i);
    }
    CU_ASSERT_EQUAL(num, most);
    sluice_loader_close(loader);
    for (unsigned k = num; k-- > 0;) {
        for (unsigned i = 0; i < held[k]->num_rows; i++)
            CU_ASSERT_EQUAL(hash_row(held[k], i), hashes[k][i]);
        sluice_batch_release(held[k]);
    }
}

/* A loader of the folder by this pipeline, at the beginning of epoch 0. */
static struct sluice_loader *begun_with(const char *pipeline)
{
    const char *const settings[] = {"dir",      image_root(), "batch-size", "8",
                                    "pipeline", pipeline,     NULL};
    struct sluice_loader *loader = opened(settings);
    begin(loader, 0, NULL);
    return loader;
}

/* Ops with the same number of draws draw the same in any pipeline. */
TEST(each_view_of_a_batch_is_the_array_of_its_own_pipeline)
{
    struct sluice_loader *loader =
        begun_with("decode,views([random_resized_crop=24x32:draws=1],[random_resized_crop=17:"
                   "draws=2,hflip=0.5:draws=3])");
    struct sluice_loader *alone[] = {
        begun_with("decode,random_resized_crop=24x32:draws=1"),
        begun_with("decode,random_resized_crop=17:draws=2,hflip=0.5:draws=3"),
    };
    CU_ASSERT_EQUAL(sluice_loader_num_views(loader, SLUICE_TRAIN), 2);
    CU_ASSERT_EQUAL(sluice_loader_num_views(loader, SLUICE_VAL), 1);
    CU_ASSERT_EQUAL(sluice_loader_num_views(alone[0], SLUICE_TRAIN), 1);
    const struct sluice_view size = sluice_loader_view(loader, SLUICE_TRAIN, 1);
    CU_ASSERT(size.height == 17 && size.width == 17 && !size.pixels);
    CU_ASSERT_EQUAL(sluice_loader_view(loader, SLUICE_TRAIN, 2).height, 0);
    const struct sluice_batch *batch;
    unsigned num_rows = 0;
    while ((batch = next(loader))) {
        CU_ASSERT(sluice_batch_view(batch, 0).pixels == batch->pixels);
        CU_ASSERT(batch->height == 24 && batch->width == 32);
        CU_ASSERT_PTR_NULL(sluice_batch_view(batch, 2).pixels);
        for (unsigned i = 0; i < 2; i++) {
            const struct sluice_batch *want = next(alone[i]);
            const struct sluice_view view = sluice_batch_view(batch, i);
            CU_ASSERT_FATAL(want && want->num_rows == batch->num_rows);
            CU_ASSERT(view.height == want->height && view.width == want->width);
            CU_ASSERT_EQUAL(memcmp(view.pixels, want->pixels,
                                   (size_t)want->num_rows * want->height * want->width * 3),
                            0);
            sluice_batch_release(want);
        }
        num_rows += batch->num_rows;
        sluice_batch_release(batch);
    }
    CU_ASSERT_EQUAL(num_rows, NUM_ITEMS);
    for (unsigned i = 0; i < 2; i++)
        sluice_loader_close(alone[i]);

    /* A batch outlives its loader. */
    begin(loader, 1, NULL);
    batch = next(loader);
    const struct sluice_view before = sluice_batch_view(batch, 1);
    sluice_loader_close(loader);
    const struct sluice_view after = sluice_batch_view(batch, 1);
    CU_ASSERT(after.pixels == before.pixels && after.height == 17 && after.width == 17);
    sluice_batch_release(batch);
}

static bool is_same_geometry(const struct sluice_geometry *a, const struct sluice_geometry *b)
{
    return memcmp(a->matrix, b->matrix, sizeof(a->matrix)) == 0 && a->height == b->height &&
           a->width == b->width && a->orientation == b->orientation && a->crop_top == b->crop_top &&
           a->crop_left == b->crop_left && a->crop_height == b->crop_height &&
           a->crop_width == b->crop_width && a->is_flipped == b->is_flipped;
}

TEST(rows_have_their_geometry_in_every_mode)
{
    static const char views[] = "decode,views([random_resized_crop=24x32,hflip],[resize=9x9])";
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(image_root(), NULL, 0, &server, NULL));
    const char *const here[] = {"dir",  image_root(), "batch-size", "8", "geometry",
                                "true", "pipeline",   views,        NULL};
    static const char *const modes[] = {"remote_nooff", "remote_piloff", "remote_alloff"};
    for (size_t m = 0; m < SLUICE_ARRAY_LEN(modes); m++) {
        const char *const there[] = {"host",
                                     sluice_server_address(server),
                                     "dataset-mode",
                                     modes[m],
                                     "batch-size",
                                     "8",
                                     "geometry",
                                     "true",
                                     "pipeline",
                                     views,
                                     NULL};
        struct sluice_loader *loaders[] = {opened(here), opened(there)};
        begin(loaders[0], 2, NULL);
        begin(loaders[1], 2, NULL);
        unsigned num_rows = 0;
        for (const struct sluice_batch *a, *b;
             (void)(a = next(loaders[0])), (void)(b = next(loaders[1])), a && b;) {
            CU_ASSERT_EQUAL_FATAL(a->num_rows, b->num_rows);
            CU_ASSERT_PTR_NULL(sluice_batch_geometry(a, 2));
            for (unsigned view = 0; view < 2; view++) {
                const struct sluice_geometry *of_a = sluice_batch_geometry(a, view);
                const struct sluice_geometry *of_b = sluice_batch_geometry(b, view);
                CU_ASSERT_FATAL(of_a && of_b);
                for (uint32_t i = 0; i < a->num_rows; i++) {
                    CU_ASSERT(is_same_geometry(&of_a[i], &of_b[i]));
                    CU_ASSERT(of_a[i].width > 0 && of_a[i].matrix[8] == 1);
                    /* A resize of all takes the image's corner to the row's. */
                    CU_ASSERT(view == 0 || fabs(of_a[i].matrix[0] * of_a[i].width - 9) < 1e-9);
                    num_rows++;
                }
            }
            sluice_batch_release(a);
            sluice_batch_release(b);
        }
        CU_ASSERT_EQUAL(num_rows, 2 * NUM_ITEMS);
        sluice_loader_close(loaders[0]);
        sluice_loader_close(loaders[1]);
    }
    sluice_server_stop(server);
    struct sluice_loader *plain = opened(local());
    begin(plain, 0, NULL);
    const struct sluice_batch *batch = next(plain);
    CU_ASSERT_PTR_NULL(sluice_batch_geometry(batch, 0));
    sluice_batch_release(batch);
    sluice_loader_close(plain);
}

TEST(takes_an_order_of_the_callers)
{
    static const uint64_t order[] = {5, 0, 11, 5, 2, 7, 7, 7, 1};
    struct sluice_loader *loader = opened(local());
    struct sluice_epoch_start start = {.epoch = 6, .order = order, .num_order = 9};
    REQUIRE_OK(sluice_loader_start(loader, &start, NULL));
    struct rows rows = {.num = 0};
    const struct sluice_batch *batch = next(loader);
    char state[SLUICE_MAX_STATE];
    sluice_batch_state(batch, state);
    add(&rows, batch);
    sluice_batch_release(batch);
    drain(loader, &rows);
    CU_ASSERT_EQUAL(rows.num, 9);
    for (unsigned i = 0; i < rows.num; i++)
        CU_ASSERT_EQUAL(rows.id[i], order[i]);
    start.state = state;
    REQUIRE_OK(sluice_loader_start(loader, &start, NULL));
    struct rows rest = {.num = 0};
    drain(loader, &rest);
    check_same(&rest, &rows, 8);
    start = (struct sluice_epoch_start){.order = (const uint64_t[]){12}, .num_order = 1};
    CHECK_FAILS(SLUICE_E_INVALID, "samples 0 to 11",
                sluice_loader_start(loader, &start, sluice_test_err()));
    sluice_loader_close(loader);
}

TEST(tells_what_an_epoch_came_to)
{
    struct sluice_loader *loader = opened(local());
    char *json = NULL;
    CU_ASSERT_EQUAL(sluice_loader_stats(loader, SLUICE_TRAIN, &json, NULL), SLUICE_E_INVALID);
    struct rows rows = {.num = 0};
    begin(loader, 2, NULL);
    drain(loader, &rows);
    REQUIRE_OK(sluice_loader_stats(loader, SLUICE_TRAIN, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "{\"epoch\":2,\"mode\":\"local\",\"samples\":60,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"loss\":null"));
    CU_ASSERT_PTR_NULL(strchr(json, '\n'));
    sluice_free(json);
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->num_samples[SLUICE_TRAIN], NUM_IMAGES);
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->width, 32);
    CU_ASSERT_STRING_EQUAL(sluice_loader_path(loader, 0), image_name(0));
    CU_ASSERT_PTR_NULL(sluice_loader_path(loader, NUM_IMAGES));
    sluice_loader_close(loader);
}

TEST(reports_tell_what_was_lent_from_the_first_epoch_on)
{
    struct sluice_err err = {0};
    struct sluice_lend *lend = NULL;
    const struct sluice_lend_options options = {.path = sluice_test_path("gpu"), .device = -1};
    REQUIRE_OK(sluice_lend_open(&options, &lend, &err));
    struct sluice_loader *loader = opened(local());
    REQUIRE_OK(sluice_loader_set_lend(loader, lend, &err));
    struct rows rows = {.num = 0};
    begin(loader, 0, NULL);
    drain(loader, &rows);
    CU_ASSERT_EQUAL(rows.num, NUM_ITEMS);
    char *json = NULL;
    REQUIRE_OK(sluice_loader_stats(loader, SLUICE_TRAIN, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"lend\":{\"requests\":0,\"lent_ms\":0.0,"));
    sluice_free(json);
    CHECK_FAILS(SLUICE_E_INVALID, "from its first epoch on",
                sluice_loader_set_lend(loader, NULL, sluice_test_err()));
    sluice_loader_close(loader);
    sluice_lend_close(lend);
}

static void check_targets(const char *const *settings)
{
    struct sluice_loader *loader = opened(settings);
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->target_kind, SLUICE_TARGETS_BYTES);
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->target_dim, 0);
    for (unsigned i = 0; i < NUM_IMAGES; i++) {
        size_t bytes = 99;
        const char *target = sluice_loader_target(loader, i, &bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(target);
        CU_ASSERT_EQUAL_FATAL(bytes, i);
        CU_ASSERT(i == 0 || (target[0] == 'a' + (int)i && target[i - 1] == 'a' + (int)i));
    }
    size_t bytes;
    CU_ASSERT_PTR_NULL(sluice_loader_target(loader, NUM_IMAGES, &bytes));
    CU_ASSERT_EQUAL_FATAL(sluice_loader_num_fields(loader), 1);
    const struct sluice_field field = sluice_loader_field(loader, 0);
    CU_ASSERT_EQUAL(field.kind, SLUICE_FIELD_BYTES);
    CU_ASSERT_STRING_EQUAL(field.name, "target");
    CU_ASSERT_PTR_EQUAL(sluice_loader_field_value(loader, 0, 1, &bytes),
                        sluice_loader_target(loader, 1, &bytes));
    CU_ASSERT_PTR_NULL(sluice_loader_field_value(loader, 1, 1, &bytes));
    CU_ASSERT_EQUAL(sluice_loader_field(loader, 1).kind, SLUICE_FIELD_NONE);
    sluice_loader_close(loader);
}

static void check_fields(const char *const *settings)
{
    struct sluice_loader *loader = opened(settings);
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->target_kind, SLUICE_TARGETS_BYTES);
    CU_ASSERT_EQUAL_FATAL(sluice_loader_num_fields(loader), 2);
    CU_ASSERT_STRING_EQUAL(sluice_loader_field(loader, 0).name, "caption");
    CU_ASSERT_EQUAL(sluice_loader_field(loader, 0).kind, SLUICE_FIELD_TEXT);
    CU_ASSERT_STRING_EQUAL(sluice_loader_field(loader, 1).name, "boxes");
    CU_ASSERT_EQUAL(sluice_loader_field(loader, 1).kind, SLUICE_FIELD_BOXES);
    for (unsigned i = 0; i < NUM_IMAGES; i++) {
        const float corners[4] = {0, 0, (float)i, (float)i};
        size_t bytes = 99;
        const char *caption = sluice_loader_field_value(loader, 0, i, &bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(caption);
        CU_ASSERT_EQUAL_FATAL(bytes, i);
        CU_ASSERT(i == 0 || caption[i - 1] == 'a' + (int)i);
        CU_ASSERT_PTR_EQUAL(sluice_loader_target(loader, i, &bytes), caption);
        const char *box = sluice_loader_field_value(loader, 1, i, &bytes);
        CU_ASSERT_EQUAL_FATAL(bytes, i ? 20 : 0);
        CU_ASSERT(i == 0 || (memcmp(box, corners, sizeof(corners)) == 0 && (uint8_t)box[16] == i));
        CU_ASSERT_EQUAL((uintptr_t)box % 4, 0);
    }
    sluice_loader_close(loader);
}

TEST(fields_are_there_from_a_folder_and_from_a_server)
{
    write_fields();
    check_fields(local());
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(image_root(), NULL, 0, &server, NULL));
    const char *const remote[] = {"host", sluice_server_address(server), "dataset-mode",
                                  "remote_nooff", NULL};
    check_fields(remote);
    sluice_server_stop(server);
    remove_targets();
}

TEST(targets_are_there_from_a_folder_and_from_a_server)
{
    size_t bytes;
    struct sluice_loader *loader = opened(local());
    CU_ASSERT_EQUAL(sluice_loader_info(loader)->target_kind, SLUICE_TARGETS_NONE);
    CU_ASSERT_PTR_NULL(sluice_loader_target(loader, 0, &bytes));
    sluice_loader_close(loader);
    write_targets();
    check_targets(local());
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(image_root(), NULL, 0, &server, NULL));
    const char *const remote[] = {"host", sluice_server_address(server), "dataset-mode",
                                  "remote_nooff", NULL};
    check_targets(remote);
    sluice_server_stop(server);
    remove_targets();
}

TEST(the_place_is_that_after_the_batch_given_last)
{
    struct sluice_loader *loader = opened(local());
    char state[SLUICE_MAX_STATE], of_batch[SLUICE_MAX_STATE];
    struct sluice_place place;
    begin(loader, 2, NULL);
    sluice_loader_state(loader, state);
    REQUIRE_OK(sluice_state_place(state, &place, NULL));
    CU_ASSERT(place.part == SLUICE_TRAIN && place.epoch == 2 && place.batch == 0);
    uint64_t num = 0;
    for (const struct sluice_batch *batch; (batch = next(loader));) {
        sluice_batch_state(batch, of_batch);
        sluice_batch_release(batch);
        sluice_loader_state(loader, state);
        CU_ASSERT_STRING_EQUAL(state, of_batch);
        REQUIRE_OK(sluice_state_place(state, &place, NULL));
        CU_ASSERT(place.epoch == 2 && place.batch == ++num);
    }
    CU_ASSERT_EQUAL(num, sluice_loader_num_batches(loader, SLUICE_TRAIN));
    sluice_loader_state(loader, state);
    REQUIRE_OK(sluice_state_place(state, &place, NULL));
    CU_ASSERT(place.epoch == 3 && place.batch == 0);
    CHECK_OK(sluice_loader_check_state(loader, state, NULL));
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_state_place("{}", &place, &err), SLUICE_E_CORRUPT);
    CU_ASSERT(place.epoch == 3 && err.text[0]);
    sluice_loader_close(loader);
    const char *const other[] = {"dir", image_root(), "repeat", "4", NULL};
    loader = opened(other);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(sluice_loader_check_state(loader, state, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "repeat"));
    sluice_loader_close(loader);
}

TEST(what_was_learned_is_in_the_statistics)
{
    struct sluice_loader *loader = opened(local());
    struct rows rows = {.num = 0};
    const struct sluice_learned learned = {
        .samples = NUM_ITEMS, .loss_sum = 30, .top1 = 15, .top5 = 45, .lr = 0.25};
    sluice_loader_learned(loader, SLUICE_TRAIN, &learned); /* no epoch has ended: nothing */
    char text[SLUICE_MAX_SUMMARY], *json = NULL;
    CU_ASSERT_EQUAL(sluice_loader_summary(loader, SLUICE_TRAIN, false, text, NULL),
                    SLUICE_E_INVALID);
    begin(loader, 0, NULL);
    drain(loader, &rows);
    sluice_loader_learned(loader, SLUICE_TRAIN, &learned);
    REQUIRE_OK(sluice_loader_stats(loader, SLUICE_TRAIN, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"loss\":0.5,\"top1\":0.25,\"top5\":0.75"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"lr\":0.25"));
    sluice_free(json);
    CHECK_OK(sluice_loader_summary(loader, SLUICE_TRAIN, false, text, NULL));
    const size_t first = strcspn(text, "\n");
    CU_ASSERT(first <= 80 && strcspn(text + first + 1, "\n") <= 80);
    CU_ASSERT_STRING_EQUAL(strrchr(text, '\n'), "\n");
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "loss 0.500"));
    CHECK_OK(sluice_loader_summary(loader, SLUICE_TRAIN, true, text, NULL));
    CU_ASSERT_PTR_NULL(strchr(text, '\n'));
    CU_ASSERT_EQUAL(sluice_loader_stats(loader, SLUICE_VAL, &json, NULL), SLUICE_E_INVALID);
    sluice_loader_close(loader);
}

TEST(counters_and_the_pass_follow_the_batches)
{
    struct sluice_loader *loader = opened(local());
    struct sluice_counters counters;
    struct sluice_loader_pass pass;
    sluice_loader_counters(loader, &counters);
    sluice_loader_pass(loader, &pass);
    CU_ASSERT(counters.samples == 0 && counters.batches == 0 && pass.number == 0);
    char state[SLUICE_MAX_STATE];
    begin(loader, 1, NULL);
    const struct sluice_batch *batch = next(loader);
    sluice_batch_state(batch, state);
    sluice_batch_release(batch);
    sluice_loader_counters(loader, &counters);
    CU_ASSERT(counters.samples == 8 && counters.batches == 0);
    sluice_batch_release(next(loader));
    sluice_loader_counters(loader, &counters);
    sluice_loader_pass(loader, &pass);
    CU_ASSERT(counters.samples == 16 && counters.batches == 1);
    CU_ASSERT(counters.wait_ns[SLUICE_GPU] > 0 && counters.lost_s == 0);
    CU_ASSERT(counters.choices[0][SLUICE_FORM_RAW] >= 16);
    struct sluice_choice_count counts[2];
    CU_ASSERT_EQUAL(sluice_loader_choices(loader, counts, 2), 1);
    CU_ASSERT(counts[0].split == 0 && counts[0].samples >= 16);
    CU_ASSERT_STRING_EQUAL(counts[0].form, "raw");
    CU_ASSERT_EQUAL(sluice_loader_choices(loader, NULL, 0), 1);
    CU_ASSERT(pass.number == 1 && pass.epoch == 1 && pass.first == 0 && pass.total == NUM_ITEMS);
    CU_ASSERT_STRING_EQUAL(pass.name, "");
    begin(loader, 0, state); /* after the first batch */
    sluice_loader_pass(loader, &pass);
    CU_ASSERT(pass.number == 2 && pass.first == 8 && pass.total == NUM_ITEMS);
    sluice_loader_close(loader);
}

TEST(writes_a_profile)
{
    char folder[] = "/tmp/sluice-profile-XXXXXX", path[64];
    CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
    const char *const settings[] = {
        "dir", image_root(),           "repeat", "1", "profiling", "true", "batch-size",
        "4",   "write-profile-folder", folder,   NULL};
    struct sluice_loader *loader = opened(settings);
    CHECK_FAILS(SLUICE_E_INVALID, "profiling",
                sluice_loader_write_profile(loader, sluice_test_err()));
    struct rows rows = {.num = 0};
    begin(loader, 0, NULL);
    drain(loader, &rows);
    struct sluice_loader_pass pass;
    sluice_loader_pass(loader, &pass);
    CU_ASSERT_PTR_NOT_NULL(strstr(pass.name, "part 1 of"));
    const uint64_t before = pass.number;
    CHECK_OK(sluice_loader_write_profile(loader, NULL));
    sluice_loader_pass(loader, &pass);
    CU_ASSERT(pass.number > before + 1 && pass.continues && pass.detail[0] == '(');
    static const char *const files[] = {"prep_sizes.csv", "prep_times.csv"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        FILE *file = fopen(path, "r");
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        unsigned lines = 0;
        for (int c; (c = getc(file)) != EOF;)
            lines += c == '\n';
        fclose(file);
        CU_ASSERT_EQUAL(lines, NUM_IMAGES + 1);
    }
    sluice_loader_close(loader);
    DIR *dir = opendir(folder);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dir);
    for (const struct dirent *entry; (entry = readdir(dir));)
        (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    CU_ASSERT_EQUAL(rmdir(folder), 0);
}

TEST(refuses_in_words)
{
    static const struct {
        const char *settings[8], *words;
    } all[] = {
        {{"dir", "x", "lr", "0.1", NULL}, "lr is for offload_train"},
        {{"dir", "x", "metrics", "9464", NULL}, "metrics is for offload_train"},
        {{"dir", "x", "batch-sise", "8", NULL}, "batch-size"},
        {{"dir", "x", "batch-size", "0", NULL}, "batch-size"},
        {{"dir", "x", "rank", "4", "world-size", "4", NULL}, "rank"},
        {{"dataset-mode", "local", NULL}, "DIR"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        CU_ASSERT_PTR_NULL(make(all[i].settings, sluice_test_err()));
        CHECK_SAYS(all[i].words);
    }
    /* A state of another seed. */
    struct sluice_loader *loader = opened(local());
    begin(loader, 0, NULL);
    const struct sluice_batch *batch = next(loader);
    char state[SLUICE_MAX_STATE];
    sluice_batch_state(batch, state);
    sluice_batch_release(batch);
    sluice_loader_close(loader);
    const char *const other[] = {"dir", image_root(), "batch-size", "8", "seed", "4", NULL};
    loader = opened(other);
    const struct sluice_epoch_start start = {.state = state};
    CHECK_FAILS(SLUICE_E_INVALID, "seed", sluice_loader_start(loader, &start, sluice_test_err()));
    sluice_loader_close(loader);
}

TEST(a_stop_ends_every_wait)
{
    struct sluice_loader *loader = opened(local());
    begin(loader, 0, NULL);
    sluice_loader_stop(loader);
    const struct sluice_batch *batch = NULL;
    CU_ASSERT_EQUAL(sluice_loader_next(loader, -1, &batch, NULL), SLUICE_E_CLOSED);
    const struct sluice_epoch_start start = {.epoch = 1};
    CU_ASSERT_EQUAL(sluice_loader_start(loader, &start, NULL), SLUICE_E_CLOSED);
    sluice_loader_close(loader);
}

/* The number of the call that was not refused with words about fork(); 0: all were. */
static int use_in_child(void *ctx)
{
    struct sluice_loader *loader = ctx, *another = NULL;
    const struct sluice_epoch_start start = {.epoch = 1};
    const struct sluice_batch *batch = NULL;
    struct sluice_err err[4] = {0};
    char *json = NULL;
    const sluice_status statuses[] = {
        sluice_loader_next(loader, -1, &batch, &err[0]),
        sluice_loader_start(loader, &start, &err[1]),
        sluice_loader_stats(loader, SLUICE_TRAIN, &json, &err[2]),
        sluice_loader_create(NULL, 0, &another, &err[3]),
    };
    sluice_loader_finish(loader); /* waits for nobody */
    sluice_loader_close(loader);
    for (int i = 0; i < (int)SLUICE_ARRAY_LEN(statuses); i++) {
        if (statuses[i] != SLUICE_E_INVALID || !strstr(err[i].text, "fork"))
            return i + 1;
    }
    return 0;
}

TEST(a_forked_child_is_told)
{
    struct sluice_loader *loader = opened(local());
    begin(loader, 0, NULL);
    sluice_batch_release(next(loader));
    static struct sluice_test_output output;
    CU_ASSERT_EQUAL(sluice_test_child(use_in_child, loader, &output), 0);
    struct rows rows = {.num = 0};
    drain(loader, &rows);
    CU_ASSERT_EQUAL(rows.num, NUM_ITEMS - 8);
    sluice_loader_close(loader);
}
