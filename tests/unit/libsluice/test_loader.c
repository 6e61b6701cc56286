#include "sluice/sluice.h"

#include "base/hash.h"
#include "fixture.h"
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    CU_ASSERT_EQUAL_FATAL(sluice_loader_open(loader, &err), SLUICE_OK);
    return loader;
}

static void begin(struct sluice_loader *loader, uint64_t epoch, const char *state)
{
    struct sluice_err err = {0};
    const struct sluice_epoch_start start = {.epoch = epoch, .state = state};
    const sluice_status status = sluice_loader_start(loader, &start, &err);
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT_EQUAL_FATAL(status, SLUICE_OK);
}

static const struct sluice_batch *next(struct sluice_loader *loader)
{
    const struct sluice_batch *batch = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_loader_next(loader, -1, &batch, &err), SLUICE_OK);
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

static void every_mode_gives_the_same_rows(void)
{
    struct sluice_server *server = NULL;
    CU_ASSERT_EQUAL_FATAL(sluice_server_start(image_root(), NULL, 0, &server, NULL), SLUICE_OK);
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

static void ranks_share_one_global_order(void)
{
    const char *const one[] = {"dir", image_root(), "batch-size", "12", NULL};
    const struct rows all = whole(one, 1);
    static const char *const worlds[] = {"2", "3", "4", "6"};
    for (size_t w = 0; w < SLUICE_ARRAY_LEN(worlds); w++) {
        const unsigned size = (unsigned)atoi(worlds[w]), part = 12 / size;
        struct sluice_loader *loaders[6];
        char batch_size[8];
        snprintf(batch_size, sizeof(batch_size), "%u", part);
        for (unsigned rank = 0; rank < size; rank++) {
            char number[8];
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

static void goes_on_from_a_state_of_any_batch(void)
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

static void an_epoch_may_be_left_in_the_middle(void)
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

static void batches_that_are_held_stay_as_they_are(void)
{
    struct sluice_loader *loader = opened(local());
    const struct sluice_batch *held[16];
    uint64_t hashes[16][8];
    unsigned num = 0;
    begin(loader, 0, NULL);
    for (; (held[num] = next(loader)); num++) {
        for (unsigned i = 0; i < held[num]->num_rows; i++)
            hashes[num][i] = hash_row(held[num], i);
    }
    CU_ASSERT_EQUAL(num, 8);
    sluice_loader_close(loader);
    for (unsigned k = num; k-- > 0;) {
        for (unsigned i = 0; i < held[k]->num_rows; i++)
            CU_ASSERT_EQUAL(hash_row(held[k], i), hashes[k][i]);
        sluice_batch_release(held[k]);
    }
}

static void takes_an_order_of_the_callers(void)
{
    static const uint64_t order[] = {5, 0, 11, 5, 2, 7, 7, 7, 1};
    struct sluice_loader *loader = opened(local());
    struct sluice_epoch_start start = {.epoch = 6, .order = order, .num_order = 9};
    CU_ASSERT_EQUAL_FATAL(sluice_loader_start(loader, &start, NULL), SLUICE_OK);
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
    CU_ASSERT_EQUAL_FATAL(sluice_loader_start(loader, &start, NULL), SLUICE_OK);
    struct rows rest = {.num = 0};
    drain(loader, &rest);
    check_same(&rest, &rows, 8);
    struct sluice_err err = {0};
    start = (struct sluice_epoch_start){.order = (const uint64_t[]){12}, .num_order = 1};
    CU_ASSERT_EQUAL(sluice_loader_start(loader, &start, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "samples 0 to 11"));
    sluice_loader_close(loader);
}

static void tells_what_an_epoch_came_to(void)
{
    struct sluice_loader *loader = opened(local());
    char *json = NULL;
    CU_ASSERT_EQUAL(sluice_loader_stats(loader, &json, NULL), SLUICE_E_INVALID);
    struct rows rows = {.num = 0};
    begin(loader, 2, NULL);
    drain(loader, &rows);
    CU_ASSERT_EQUAL_FATAL(sluice_loader_stats(loader, &json, NULL), SLUICE_OK);
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

static void refuses_in_words(void)
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
        struct sluice_err err = {0};
        CU_ASSERT_PTR_NULL(make(all[i].settings, &err));
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, all[i].words));
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
    struct sluice_err err = {0};
    const struct sluice_epoch_start start = {.state = state};
    CU_ASSERT_EQUAL(sluice_loader_start(loader, &start, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "seed"));
    sluice_loader_close(loader);
}

static void a_stop_ends_every_wait(void)
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

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(every_mode_gives_the_same_rows),
        SLUICE_TEST(ranks_share_one_global_order),
        SLUICE_TEST(goes_on_from_a_state_of_any_batch),
        SLUICE_TEST(an_epoch_may_be_left_in_the_middle),
        SLUICE_TEST(batches_that_are_held_stay_as_they_are),
        SLUICE_TEST(takes_an_order_of_the_callers),
        SLUICE_TEST(tells_what_an_epoch_came_to),
        SLUICE_TEST(refuses_in_words),
        SLUICE_TEST(a_stop_ends_every_wait),
    };
    return sluice_test_run("loader", tests, SLUICE_TEST_COUNT(tests));
}
