#include "compute_client/loader/source/local_source.h"

#include "datasets/manifest/manifest.h"
#include "support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#define NUM_FILES 40

struct record {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned answers[NUM_FILES];
    sluice_status status[NUM_FILES];
    char error[NUM_FILES][200];
    size_t num_answers, num_wrong;
};

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct record *r = ctx;
    char want[32];
    snprintf(want, sizeof(want), "content of %d", (int)result->ticket);
    pthread_mutex_lock(&r->lock);
    r->answers[result->ticket]++;
    r->status[result->ticket] = result->status;
    memcpy(r->error[result->ticket], result->error, sizeof(result->error));
    if (result->status == SLUICE_OK) {
        const struct sluice_sample *sample = &result->sample;
        r->num_wrong +=
            sample->kind != SLUICE_KIND_FILE || sample->ops_done != 0 ||
            sample->key.sample_id != result->ticket || result->disk_busy_ns > result->disk_ns ||
            result->payload_bytes != sample->data->len || sample->data->len != strlen(want) ||
            memcmp(sample->data->data, want, strlen(want)) != 0;
    }
    r->num_answers++;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock);
    sluice_sample_clear(&result->sample);
}

static void on_failed(void *ctx, sluice_status status, const char *text)
{
    (void)status, (void)text;
    struct record *r = ctx;
    pthread_mutex_lock(&r->lock);
    r->num_wrong++;
    pthread_mutex_unlock(&r->lock);
}

TEST(every_file_is_read_once_and_a_bad_one_is_its_own_error)
{
    static struct record r = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    char path[700], names[NUM_FILES][32];
    struct sluice_source_item items[NUM_FILES];
    for (int i = 0; i < NUM_FILES; i++) {
        char content[200];
        snprintf(names[i], sizeof(names[i]), "%d.jpg", i);
        snprintf(path, sizeof(path), "%s/%s", sluice_test_dir(), names[i]);
        snprintf(content, sizeof(content), "content of %d", i);
        if (i == 7) {
            mkdir(path, 0700);
        } else if (i == 8) {
            memset(content, 'x', sizeof(content)); /* above the limit */
            sluice_test_write_file(path, content, sizeof(content));
        } else if (i != 9) { /* 9 is missing */
            sluice_test_write_file(path, content, strlen(content));
        }
        items[i] = (struct sluice_source_item){
            .ticket = (uint64_t)i,
            .key = {.sample_id = (uint64_t)i},
            .path = names[i],
            .split = 3, /* not looked at */
            .form = SLUICE_FORM_U8,
        };
    }
    const struct sluice_roots here = sluice_roots_one(sluice_test_dir());
    const struct sluice_local_source_options options = {
        .roots = &here,
        .num_threads = 3,
        .max_items = NUM_FILES,
        .max_file_bytes = 100,
        .events = {.on_result = on_result, .on_failed = on_failed, .ctx = &r},
    };
    struct sluice_source *source = NULL;
    REQUIRE_OK(sluice_local_source_create(&options, &source, NULL));
    CHECK_OK(source->request(source, items, NUM_FILES));
    pthread_mutex_lock(&r.lock);
    while (r.num_answers < NUM_FILES)
        pthread_cond_wait(&r.changed, &r.lock);
    pthread_mutex_unlock(&r.lock);
    source->close(source);
    source->close(source);
    CU_ASSERT_EQUAL(source->request(source, items, 1), SLUICE_E_CLOSED);
    CU_ASSERT_EQUAL(source->wire_bytes(source), 0);
    source->destroy(source);
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    CU_ASSERT_EQUAL(r.num_answers, NUM_FILES);
    for (int i = 0; i < NUM_FILES; i++) {
        CU_ASSERT_EQUAL(r.answers[i], 1);
        CU_ASSERT_EQUAL(r.status[i], i == 7   ? SLUICE_E_INVALID
                                     : i == 8 ? SLUICE_E_UNSUPPORTED
                                     : i == 9 ? SLUICE_E_NOT_FOUND
                                              : SLUICE_OK);
        if (r.status[i] != SLUICE_OK)
            CU_ASSERT_PTR_NOT_NULL(strstr(r.error[i], names[i]));
    }
}

/* Asks for one item and waits for the answer. */
static void ask(struct record *r, struct sluice_source *source, struct sluice_source_item *item)
{
    pthread_mutex_lock(&r->lock);
    const size_t before = r->num_answers;
    pthread_mutex_unlock(&r->lock);
    REQUIRE_OK(source->request(source, item, 1));
    pthread_mutex_lock(&r->lock);
    while (r->num_answers == before)
        pthread_cond_wait(&r->changed, &r->lock);
    pthread_mutex_unlock(&r->lock);
}

TEST(a_replaced_file_is_stale_and_a_lost_root_is_no_missing_file)
{
    static struct record r = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    char path[700];
    const char *root = sluice_test_path("listed");
    const char *away = sluice_test_path("away");
    snprintf(path, sizeof(path), "%s/0.jpg", root);
    mkdir(root, 0700);
    sluice_test_write_file(path, "content of 0", 12);

    const char *classes[] = {""};
    const struct sluice_manifest_entry entries[] = {
        {.path = "0.jpg",
         .bytes = 12,
         .has_hash = true,
         .hash = sluice_hash128("content of 0", 12)},
        {.path = "1.jpg", .bytes = 12},
    };
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(entries, 2, classes, 1, &manifest, NULL));
    const struct sluice_roots roots = sluice_roots_one(root);
    const struct sluice_local_source_options options = {
        .roots = &roots,
        .num_threads = 1,
        .max_items = 1,
        .manifest = manifest,
        .events = {.on_result = on_result, .on_failed = on_failed, .ctx = &r},
    };
    struct sluice_source *source = NULL;
    REQUIRE_OK(sluice_local_source_create(&options, &source, NULL));
    struct sluice_source_item items[] = {
        {.ticket = 0, .key = {.sample_id = 0}, .path = "0.jpg"},
        {.ticket = 1, .key = {.sample_id = 1}, .path = "1.jpg"},
    };
    ask(&r, source, &items[0]);
    CHECK_OK(r.status[0]);
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    ask(&r, source, &items[1]);
    CU_ASSERT_EQUAL(r.status[1], SLUICE_E_NOT_FOUND);

    CU_ASSERT_EQUAL_FATAL(unlink(path), 0);
    sluice_test_write_file(path, "consent of 0", 12);
    const struct timespec times[] = {{.tv_sec = 1}, {.tv_sec = 1}};
    CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, times, 0), 0);
    ask(&r, source, &items[0]);
    CU_ASSERT_EQUAL(r.status[0], SLUICE_E_STALE);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.error[0], "0.jpg: other content"));

    CU_ASSERT_EQUAL_FATAL(rename(root, away), 0);
    ask(&r, source, &items[1]);
    CU_ASSERT_EQUAL(r.status[1], SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.error[1], "the folder is gone"));
    source->destroy(source);
    sluice_manifest_destroy(manifest);
}

TEST(a_member_of_a_shard_is_read_where_its_row_says)
{
    static struct record r = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    char path[700];
    const char *root = sluice_test_path("sharded");
    snprintf(path, sizeof(path), "%s/x.tar", root);
    mkdir(root, 0700);
    sluice_test_write_file(path, "...content of 0content of 1", 27);
    const char *classes[] = {""};
    const struct sluice_manifest_entry entries[] = {
        {.path = "x.tar/0.jpg", .offset = 3, .bytes = 12},
        {.path = "x.tar/1.jpg", .offset = 15, .bytes = 12},
        {.path = "x.tar/2.jpg", .offset = 16, .bytes = 12}, /* behind the end */
    };
    struct sluice_manifest *manifest = NULL;
    REQUIRE_OK(sluice_manifest_create(entries, 3, classes, 1, &manifest, NULL));
    const struct sluice_roots roots = sluice_roots_one(root);
    const struct sluice_local_source_options options = {
        .roots = &roots,
        .num_threads = 2,
        .max_items = 3,
        .max_file_bytes = 12, /* of the member: the shard is larger */
        .manifest = manifest,
        .events = {.on_result = on_result, .on_failed = on_failed, .ctx = &r},
    };
    struct sluice_source *source = NULL;
    REQUIRE_OK(sluice_local_source_create(&options, &source, NULL));
    for (uint64_t i = 0; i < 3; i++) {
        struct sluice_source_item item = {
            .ticket = i, .key = {.sample_id = i}, .path = entries[i].path};
        ask(&r, source, &item);
        CU_ASSERT_EQUAL(r.status[i], i < 2 ? SLUICE_OK : SLUICE_E_STALE);
    }
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.error[2], "x.tar"));
    source->destroy(source);
    sluice_manifest_destroy(manifest);
}

/* The first part of a path names the folder; one that is gone takes no other with it. */
TEST(files_of_several_folders_are_read_by_their_names)
{
    static struct record r = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    char path[700];
    const char *left = sluice_test_path("left");
    const char *right = sluice_test_path("right");
    const char *away = sluice_test_path("right-away");
    mkdir(left, 0700);
    mkdir(right, 0700);
    snprintf(path, sizeof(path), "%s/x.jpg", left);
    sluice_test_write_file(path, "content of 0", 12);
    snprintf(path, sizeof(path), "%s/x.jpg", right);
    sluice_test_write_file(path, "content of 1", 12);
    const struct sluice_roots roots = {.num = 2, .at = {{"l", left}, {"r", right}}};
    const struct sluice_local_source_options options = {
        .roots = &roots,
        .num_threads = 1,
        .max_items = 1,
        .events = {.on_result = on_result, .on_failed = on_failed, .ctx = &r},
    };
    struct sluice_source *source = NULL;
    REQUIRE_OK(sluice_local_source_create(&options, &source, NULL));
    struct sluice_source_item items[] = {
        {.ticket = 0, .path = "l/x.jpg"},
        {.ticket = 1, .key = {.sample_id = 1}, .path = "r/x.jpg"},
        {.ticket = 2, .key = {.sample_id = 2}, .path = "x.jpg"},
    };
    static const sluice_status wanted[] = {SLUICE_OK, SLUICE_OK, SLUICE_E_NOT_FOUND};
    for (int i = 0; i < 3; i++) {
        ask(&r, source, &items[i]);
        CU_ASSERT_EQUAL(r.status[i], wanted[i]);
    }
    CU_ASSERT_EQUAL(r.num_wrong, 0);
    CU_ASSERT_EQUAL_FATAL(rename(right, away), 0);
    ask(&r, source, &items[1]);
    CU_ASSERT_EQUAL(r.status[1], SLUICE_E_IO);
    ask(&r, source, &items[0]);
    CHECK_OK(r.status[0]);
    source->destroy(source);
}
