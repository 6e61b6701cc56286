#include "sluice/sluice.h"

#include "base/buf.h"
#include "base/cpu.h"
#include "base/file.h"
#include "datasets/jpeg_index/jpeg_indexer.h"
#include "image_support.h"
#include "plan/choice_cost.h"
#include "plan/form_table.h"
#include "plan/model_file.h"
#include "support/test.h"

#include <math.h>
#include <sys/stat.h>

/* Loaders whose batches are on a GPU, which the CPU stands in for, against loaders without. */

#define NUM_TRAIN 45
#define NUM_VAL 13
#define NUM_BAD 3
#define PIPELINE "decode,random_resized_crop=32,hflip=0.5,to_tensor,normalize=imagenet"
#define MOST_HELD 7

/* --- a folder of files of many kinds, some of them bad --- */

static char root[600];

static void put(const char *part, const char *name, unsigned i, bool is_bad)
{
    static const enum image_test_kind kinds[] = {IMAGE_TEST_BASELINE, IMAGE_TEST_GRAY,
                                                 IMAGE_TEST_PNG, IMAGE_TEST_PROGRESSIVE,
                                                 IMAGE_TEST_RESTARTS};
    char folder[700], path[800];
    snprintf(folder, sizeof(folder), "%s/%s", root, part);
    (void)mkdir(folder, 0700);
    snprintf(folder, sizeof(folder), "%s/%s/%s", root, part, name);
    (void)mkdir(folder, 0700);
    const enum image_test_kind kind = kinds[i % SLUICE_ARRAY_LEN(kinds)];
    struct sluice_buf *file = image_test_file(kind, 50 + 3 * i, 150 - i);
    snprintf(path, sizeof(path), "%s/%02u.%s", folder, i, kind == IMAGE_TEST_PNG ? "png" : "jpg");
    sluice_test_write_file(path, file->data, is_bad ? file->len / 2 : file->len);
    sluice_buf_unref(file);
}

/* Made on the first call, in a test. */
static const char *folder(void)
{
    if (root[0])
        return root;
    snprintf(root, sizeof(root), "%s/data", sluice_test_dir());
    (void)mkdir(root, 0700);
    for (unsigned i = 0; i < NUM_TRAIN; i++)
        put("train", i % 2 ? "ant" : "bee", i, i % 15 == 5);
    for (unsigned i = 0; i < NUM_VAL; i++)
        put("val", i % 2 ? "ant" : "bee", i, false);
    return root;
}

/* A folder of files large enough that decoding one takes longer than cutting it. */
static const char *folder_of_photographs(void)
{
    static char path[600];
    if (path[0])
        return path;
    snprintf(path, sizeof(path), "%s/photographs", sluice_test_dir());
    for (unsigned i = 0; i < 3; i++) {
        static const char *const parts[] = {"", "/train", "/train/bee"};
        char name[700];
        snprintf(name, sizeof(name), "%s%s", path, parts[i]);
        (void)mkdir(name, 0700);
    }
    for (unsigned i = 0; i < NUM_TRAIN; i++) {
        char name[700];
        struct sluice_buf *file = image_test_file(IMAGE_TEST_BASELINE, 500 + i, 375);
        snprintf(name, sizeof(name), "%s/train/bee/%02u.jpg", path, i);
        sluice_test_write_file(name, file->data, file->len);
        sluice_buf_unref(file);
    }
    return path;
}

/* --- loaders --- */

/* more: pairs of key and value, NULL at the end. */
static struct sluice_loader *make(const char *const *more, const char *gpu_decode)
{
    struct sluice_setting settings[24] = {{"pipeline", PIPELINE}, {"batch-size", "8"},
                                          {"workers", "2"},       {"rank", "0"},
                                          {"world-size", "1"},    {"max-errors", "100%"},
                                          {"tail", "pad"},        {"gpu-decode", gpu_decode}};
    size_t num = 8;
    for (size_t i = 0; more[i]; i += 2)
        settings[num++] = (struct sluice_setting){more[i], more[i + 1]};
    struct sluice_loader *loader = NULL;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_loader_create(settings, num, &loader, &err));
    return loader;
}

static struct sluice_loader *opened(const char *const *more, const char *gpu_decode)
{
    struct sluice_loader *loader = make(more, gpu_decode);
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_loader_open(loader, &err));
    CU_ASSERT_EQUAL(sluice_loader_device(loader), -1); /* the host's memory */
    return loader;
}

static void begin(struct sluice_loader *loader, enum sluice_part part)
{
    struct sluice_err err = {0};
    const struct sluice_epoch_start start = {.part = part, .epoch = 2};
    REQUIRE_OK(sluice_loader_start(loader, &start, &err));
}

static char *stats_of(struct sluice_loader *loader, enum sluice_part part)
{
    char *json = NULL;
    REQUIRE_OK(sluice_loader_stats(loader, part, &json, NULL));
    return json;
}

/* What an epoch came to, as its statistics say. */
struct outcome {
    char digest[64], choices[200];
};

static void copy_value(const char *json, const char *key, char until, char *out, size_t size)
{
    const char *at = strstr(json, key);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at += strlen(key);
    const char *end = strchr(at, until);
    CU_ASSERT_FATAL(end && (size_t)(end - at) < size);
    memcpy(out, at, (size_t)(end - at));
    out[end - at] = '\0';
}

static struct outcome whole(struct sluice_loader *loader, enum sluice_part part)
{
    begin(loader, part);
    const struct sluice_batch *batch = NULL;
    unsigned num_rows = 0;
    struct sluice_err err = {0};
    do {
        sluice_batch_release(batch);
        REQUIRE_OK(sluice_loader_next(loader, -1, &batch, &err));
        num_rows += batch ? batch->num_rows : 0;
    } while (batch);
    CU_ASSERT(num_rows >= (part == SLUICE_VAL ? NUM_VAL : NUM_TRAIN - NUM_BAD));
    struct outcome outcome;
    char *json = stats_of(loader, part);
    copy_value(json, "\"digest\":\"", '"', outcome.digest, sizeof(outcome.digest));
    copy_value(json, "\"choices\":{", '}', outcome.choices, sizeof(outcome.choices));
    sluice_free(json);
    return outcome;
}

static uint64_t num_on_gpu(const struct sluice_loader *loader)
{
    struct sluice_counters counters;
    sluice_loader_counters(loader, &counters);
    uint64_t sum = 0;
    for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
        CU_ASSERT(counters.on_gpu[form] <= counters.choices[0][form]);
        sum += counters.on_gpu[form];
    }
    return sum;
}

/* The sum of the counts in "\"raw@0\":3,\"raw@0+gpu\":5". */
static uint64_t sum_of(const char *choices, const char *suffix)
{
    uint64_t sum = 0;
    for (const char *at = choices; (at = strstr(at, suffix)) != NULL; at++)
        sum += strtoull(at + strlen(suffix), NULL, 10);
    return sum;
}

/* --- tests --- */

static const char *const on_errors[] = {"skip", "substitute"};

static void check_mode(const char *const *settings, const struct outcome expected[2],
                       int decodes_train)
{
    struct sluice_loader *loader = opened(settings, "on");
    for (int part = SLUICE_TRAIN; part <= SLUICE_VAL; part++) {
        const uint64_t before = num_on_gpu(loader);
        const struct outcome outcome = whole(loader, (enum sluice_part)part);
        const uint64_t decoded = num_on_gpu(loader) - before;
        CU_ASSERT_STRING_EQUAL(outcome.digest, expected[part].digest);
        CU_ASSERT_EQUAL(sum_of(outcome.choices, "+gpu\":"), decoded);
        CU_ASSERT_EQUAL(sum_of(outcome.choices, "\":"), part ? NUM_VAL : NUM_TRAIN - NUM_BAD);
        if (part == SLUICE_TRAIN && decodes_train < 2)
            CU_ASSERT_EQUAL(decoded > 0, decodes_train);
    }
    sluice_loader_close(loader);
}

TEST(every_mode_gives_the_hosts_batches_of_both_parts)
{
    static const struct {
        const char *mode, *form;
        int decodes; /* 2: as the plan says */
    } modes[] = {
        {"remote_nooff", "raw", 1}, {"remote_nooff", "jpeg_crop", 1}, {"remote_auto", "auto", 2},
        {"remote_auto", "raw", 2},  {"remote_piloff", "raw", 0},      {"remote_alloff", "raw", 0},
    };
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(folder(), NULL, 0, &server, NULL));
    for (size_t e = 0; e < SLUICE_ARRAY_LEN(on_errors); e++) {
        const char *const local[] = {"dir", folder(), "on-error", on_errors[e], NULL};
        struct sluice_loader *host = opened(local, "off");
        const struct outcome expected[2] = {whole(host, SLUICE_TRAIN), whole(host, SLUICE_VAL)};
        CU_ASSERT_EQUAL(num_on_gpu(host), 0);
        sluice_loader_close(host);
        check_mode(local, expected, 1);
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(modes); i++) {
            const char *const remote[] = {"host",
                                          sluice_server_address(server),
                                          "dataset-mode",
                                          modes[i].mode,
                                          "remote-form",
                                          modes[i].form,
                                          "on-error",
                                          on_errors[e],
                                          NULL};
            check_mode(remote, expected, modes[i].decodes);
        }
    }
    sluice_server_stop(server);
}

/* Indexes the files of the folder's part, with so many MCUs from a point to the next. */
static void index_part(struct sluice_jpeg_indexer *indexer, const char *part)
{
    static const char *const names[] = {"ant", "bee"};
    char path[800], full[1500];
    for (unsigned i = 0; i < NUM_TRAIN * 2; i++) {
        struct sluice_buf *file = NULL;
        struct stat st;
        snprintf(path, sizeof(path), "%s/%s/%02u.jpg", part, names[i % 2], i / 2);
        snprintf(full, sizeof(full), "%s/%s", folder(), path);
        if (sluice_file_read_stat(full, 1 << 20, NULL, &file, &st, NULL) != SLUICE_OK)
            continue;
        CHECK_OK(sluice_jpeg_indexer_add(indexer, path, &st, file, NULL));
        sluice_buf_unref(file);
    }
}

TEST(an_index_changes_no_row_and_no_count)
{
    struct outcome plain[2];
    uint64_t num_plain = 0;
    const char *path = sluice_test_path("index.bin");
    for (uint32_t step = 0; step < 4; step++) {
        struct sluice_jpeg_indexer *indexer = NULL;
        struct sluice_jpeg_indexer_summary summary;
        REQUIRE_OK(sluice_jpeg_indexer_create(path, step, 1000, &indexer, NULL));
        index_part(indexer, "train");
        index_part(indexer, "val");
        CHECK_OK(sluice_jpeg_indexer_commit(indexer, &summary, NULL));
        CU_ASSERT(summary.made + summary.kept > NUM_VAL);
        sluice_jpeg_indexer_destroy(indexer);
        const char *const local[] = {"dir", folder(), "jpeg-index", step ? path : "off", NULL};
        struct sluice_loader *host = opened(local, "off"), *gpu = opened(local, "on");
        for (int part = SLUICE_TRAIN; part <= SLUICE_VAL; part++) {
            const struct outcome on_host = whole(host, (enum sluice_part)part);
            const struct outcome on_gpu = whole(gpu, (enum sluice_part)part);
            CU_ASSERT_STRING_EQUAL(on_gpu.digest, on_host.digest);
            if (step == 0)
                plain[part] = on_gpu;
            CU_ASSERT_STRING_EQUAL(on_gpu.digest, plain[part].digest);
            CU_ASSERT_STRING_EQUAL(on_gpu.choices, plain[part].choices);
        }
        num_plain = step ? num_plain : num_on_gpu(gpu);
        CU_ASSERT(num_plain > 0);
        CU_ASSERT_EQUAL(num_on_gpu(gpu), num_plain);
        sluice_loader_close(host);
        sluice_loader_close(gpu);
    }
}

/* Of JPEGs with an index the server sends the rows under the crop, which the GPU decodes by it. */
TEST(rows_go_to_the_gpu_as_they_come)
{
    static const char *const modes[] = {"nooff", "auto"};
    const char *path = sluice_test_path("rows.bin");
    struct sluice_jpeg_indexer *indexer = NULL;
    struct sluice_jpeg_indexer_summary summary;
    REQUIRE_OK(sluice_jpeg_indexer_create(path, 2, 1000, &indexer, NULL));
    index_part(indexer, "train");
    index_part(indexer, "val");
    REQUIRE_OK(sluice_jpeg_indexer_commit(indexer, &summary, NULL));
    sluice_jpeg_indexer_destroy(indexer);
    const struct sluice_setting setting = {"jpeg-index", path};
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(folder(), &setting, 1, &server, NULL));
    for (size_t e = 0; e < SLUICE_ARRAY_LEN(on_errors); e++) {
        const char *const local[] = {"dir", folder(), "on-error", on_errors[e], NULL};
        struct sluice_loader *host = opened(local, "off");
        const struct outcome expected[2] = {whole(host, SLUICE_TRAIN), whole(host, SLUICE_VAL)};
        sluice_loader_close(host);
        for (int m = 0; m < 4; m++) {
            const char *const remote[] = {"host",
                                          sluice_server_address(server),
                                          "remote-form",
                                          "jpeg_rows",
                                          "dataset-mode",
                                          modes[m % 2],
                                          "on-error",
                                          on_errors[e],
                                          NULL};
            struct sluice_loader *loader = opened(remote, m < 2 ? "on" : "off");
            for (int part = SLUICE_TRAIN; part <= SLUICE_VAL; part++) {
                const struct outcome outcome = whole(loader, (enum sluice_part)part);
                CU_ASSERT_STRING_EQUAL(outcome.digest, expected[part].digest);
                if (m % 2 == 0 && sluice_cpu_level() != SLUICE_CPU_C)
                    CU_ASSERT_PTR_NOT_NULL(
                        strstr(outcome.choices, m ? "jpeg_rows@0\"" : "jpeg_rows@0+gpu\""));
            }
            sluice_loader_close(loader);
        }
    }
    sluice_server_stop(server);
}

TEST(only_crops_with_restart_markers_go_to_the_gpu)
{
    static const char *const intervals[] = {"0", "1"}, *const modes[] = {"nooff", "auto"};
    const char *const local[] = {"dir", folder(), NULL};
    struct sluice_loader *host = opened(local, "off");
    const struct outcome expected = whole(host, SLUICE_TRAIN);
    sluice_loader_close(host);
    for (int i = 0; i < 2; i++) {
        const struct sluice_setting setting = {"jpeg-crop-restart", intervals[i]};
        struct sluice_server *server = NULL;
        REQUIRE_OK(sluice_server_start(folder(), &setting, 1, &server, NULL));
        for (int m = 0; m < 2; m++) {
            const char *const remote[] = {"host",
                                          sluice_server_address(server),
                                          "remote-form",
                                          "jpeg_crop",
                                          "dataset-mode",
                                          modes[m],
                                          NULL};
            struct sluice_loader *loader = opened(remote, "on");
            const struct outcome outcome = whole(loader, SLUICE_TRAIN);
            CU_ASSERT_STRING_EQUAL(outcome.digest, expected.digest);
            if (i == 0)
                CU_ASSERT_PTR_NULL(strstr(outcome.choices, "jpeg_crop@0+gpu"));
            if (i == 1 && m == 0)
                CU_ASSERT_PTR_NOT_NULL(strstr(outcome.choices, "jpeg_crop@0+gpu"));
            sluice_loader_close(loader);
        }
        sluice_server_stop(server);
    }
}

TEST(next_refuses_while_every_batch_is_held_and_goes_on)
{
    const char *const local[] = {"dir", folder(), "batch-size", "4", NULL};
    struct sluice_loader *host = opened(local, "off");
    const struct outcome expected = whole(host, SLUICE_TRAIN);
    sluice_loader_close(host);

    struct sluice_loader *loader = opened(local, "on");
    begin(loader, SLUICE_TRAIN);
    const struct sluice_batch *held[MOST_HELD] = {NULL}, *batch = NULL;
    unsigned num = 0;
    for (struct sluice_err err = {0}; sluice_loader_next(loader, -1, &batch, &err) == SLUICE_OK;)
        held[num++] = batch;
    CU_ASSERT_EQUAL_FATAL(num, MOST_HELD);
    for (int i = 0; i < 2; i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_loader_next(loader, -1, &batch, &err), SLUICE_E_NO_MEMORY);
        CU_ASSERT_PTR_NOT_NULL(
            strstr(err.text, "every one of the 7 batches on the device is held"));
    }
    char state[SLUICE_MAX_STATE];
    struct sluice_place place;
    sluice_loader_state(loader, state);
    CHECK_OK(sluice_state_place(state, &place, NULL));
    CU_ASSERT_EQUAL(place.batch, MOST_HELD);
    for (unsigned i = 0;; i = (i + 1) % MOST_HELD) {
        sluice_batch_release_after(held[i], NULL);
        struct sluice_err err = {0};
        REQUIRE_OK(sluice_loader_next(loader, -1, &held[i], &err));
        if (!held[i])
            break;
    }
    char *json = stats_of(loader, SLUICE_TRAIN);
    CU_ASSERT_PTR_NOT_NULL(strstr(json, expected.digest));
    sluice_free(json);
    sluice_loader_close(loader);
    for (unsigned i = 0; i < MOST_HELD; i++)
        sluice_batch_release(held[i]);
}

TEST(what_cannot_be_is_an_error_or_the_hosts)
{
    const char *const little[] = {"dir", folder(), "gpu-memory", "1MB", NULL};
    struct sluice_loader *loader = make(little, "on");
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_loader_open(loader, &err), SLUICE_E_NO_MEMORY);
    CU_ASSERT_PTR_EQUAL(strstr(err.text, "gpu-decode: "), err.text);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "MB"));
    sluice_loader_close(loader);
    loader = opened(little, "auto");
    const struct outcome with_auto = whole(loader, SLUICE_TRAIN);
    CU_ASSERT_EQUAL(num_on_gpu(loader), 0);
    sluice_loader_close(loader);
    const char *const local[] = {"dir", folder(), NULL};
    loader = opened(local, "on");
    const struct outcome on_gpu = whole(loader, SLUICE_TRAIN);
    CU_ASSERT(num_on_gpu(loader) > 0);
    sluice_loader_close(loader);
    CU_ASSERT_STRING_EQUAL(with_auto.digest, on_gpu.digest);
}

/* A step that is slower than the workers leaves the GPU no time to decode; a fast one does.  Where
 * the workers decode a file sooner than they cut it, they do. */
TEST(a_folder_is_planned_between_workers_and_gpu)
{
    static const char *const rates[] = {"0.01", "1000000", "0"};
    struct outcome outcomes[SLUICE_ARRAY_LEN(rates)];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(rates); i++) {
        const char *const settings[] = {"dir", folder_of_photographs(), "gpu-rate", rates[i], NULL};
        struct sluice_loader *loader = opened(settings, "auto");
        outcomes[i] = whole(loader, SLUICE_TRAIN);
        CU_ASSERT_EQUAL(num_on_gpu(loader) > NUM_TRAIN / 2, i > 0);
        CU_ASSERT(i > 0 || num_on_gpu(loader) == 0);
        CU_ASSERT_STRING_EQUAL(outcomes[i].digest, outcomes[0].digest);
        sluice_loader_close(loader);
        /* Whoever says on wants no plan. */
        loader = opened(settings, "on");
        (void)whole(loader, SLUICE_TRAIN);
        CU_ASSERT(num_on_gpu(loader) >= NUM_TRAIN);
        sluice_loader_close(loader);
    }
    const char *const small[] = {"dir", folder(), NULL};
    struct sluice_loader *loader = opened(small, "auto");
    (void)whole(loader, SLUICE_TRAIN);
    CU_ASSERT_EQUAL(num_on_gpu(loader), 0);
    sluice_loader_close(loader);
}

TEST(a_pipeline_that_a_gpu_cannot_do_is_the_workers)
{
    const char *const padded[] = {"dir",
                                  root,
                                  "pipeline",
                                  "decode,center_crop=64,hflip,to_tensor",
                                  "val-pipeline",
                                  "decode,hflip,center_crop=64,to_tensor",
                                  NULL};
    struct sluice_loader *host = opened(padded, "off"), *gpu = opened(padded, "on");
    for (int part = SLUICE_TRAIN; part <= SLUICE_VAL; part++) {
        const struct outcome a = whole(host, (enum sluice_part)part);
        const uint64_t before = num_on_gpu(gpu);
        const struct outcome b = whole(gpu, (enum sluice_part)part);
        CU_ASSERT_STRING_EQUAL(a.digest, b.digest);
        CU_ASSERT_EQUAL(num_on_gpu(gpu) > before, part == SLUICE_TRAIN);
    }
    sluice_loader_close(host);
    sluice_loader_close(gpu);
}

/* Of both of its choices, with the seconds that its stand-in took. */
TEST(a_profile_measures_what_the_gpu_decodes)
{
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(folder(), NULL, 0, &server, NULL));
    char out[700];
    for (int on_gpu = 0; on_gpu < 2; on_gpu++) {
        snprintf(out, sizeof(out), "%s/profile%d", sluice_test_dir(), on_gpu);
        (void)mkdir(out, 0700);
        const char *const remote[] = {"host",
                                      sluice_server_address(server),
                                      "dataset-mode",
                                      "remote_nooff",
                                      "repeat",
                                      "1",
                                      "profiling",
                                      "true",
                                      "write-profile-folder",
                                      out,
                                      NULL};
        struct sluice_loader *loader = on_gpu ? opened(remote, "on") : make(remote, "off");
        if (!on_gpu)
            REQUIRE_OK(sluice_loader_open(loader, NULL));
        (void)whole(loader, SLUICE_TRAIN);
        CU_ASSERT_EQUAL(num_on_gpu(loader), 0); /* op by op */
        struct sluice_err err = {0};
        CHECK_OK(sluice_loader_write_profile(loader, &err));
        sluice_loader_close(loader);

        struct sluice_pipeline *pipeline = NULL;
        REQUIRE_OK(sluice_pipeline_parse(PIPELINE, &pipeline, NULL));
        struct sluice_choices choices = sluice_choices_of(pipeline);
        sluice_choices_add_gpu(&choices, pipeline, true);
        struct sluice_form_table forms = {0};
        CHECK_OK(sluice_form_table_read(out, &choices, &forms, &err));
        size_t num_rows[2] = {0}; /* cut there, and here */
        for (size_t i = 0; i < forms.num_rows; i++) {
            const struct sluice_choice choice = choices.at[forms.rows[i].choice];
            num_rows[choice.form == SLUICE_FORM_RAW] += choice.on_gpu;
        }
        CU_ASSERT_EQUAL(num_rows[0] > 0, on_gpu);
        CU_ASSERT_EQUAL(num_rows[1] > 0, on_gpu);
        sluice_form_table_clear(&forms);

        struct sluice_model_file file;
        REQUIRE_OK(sluice_model_file_read(out, &choices, &file, &err));
        const struct sluice_choice_model usual = sluice_choice_model_default(&choices);
        const unsigned c = choices.num - 1;
        for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++) {
            const double weight = usual.weights[0][c][SLUICE_GPU].per[f];
            const double measured = file.model.weights[0][c][SLUICE_GPU].per[f];
            CU_ASSERT(weight > 0 ? measured > 0 : measured == 0);
            /* A CPU takes longer. */
            CU_ASSERT(on_gpu && weight > 0 ? measured > 2 * weight
                                           : fabs(measured - weight) <= 1e-8 * weight);
        }
        sluice_pipeline_destroy(pipeline);
    }
    sluice_server_stop(server);
}

int main(void)
{
    setenv("SLUICE_GPU", "host", 1);
    sluice_set_log(NULL, NULL, SLUICE_LOG_ERROR);
    return sluice_test_main();
}
