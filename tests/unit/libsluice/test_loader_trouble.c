#include "sluice/sluice.h"

#include "base/hash.h"
#include "fixture.h"
#include "support/test.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>

/* Loaders among other loaders, among threads, without memory, over data that changes. */

#define REPEAT 5
#define NUM_ITEMS (NUM_IMAGES * REPEAT)
#define BATCH 8
#define NUM_BATCHES ((NUM_ITEMS + BATCH - 1) / BATCH)

/* --- a loader, and what an epoch came to --- */

/* How many loaders are stopped, with a server and as often with a folder; more with
 * SLUICE_TORTURE=long. */
static unsigned num_stops(void)
{
    const char *form = getenv("SLUICE_TORTURE");
    return form && strcmp(form, "long") == 0 ? 300 : 30;
}

/* ctest runs all this again with batches on a GPU that the CPU stands in for. */
static bool is_on_gpu(void)
{
    return getenv("SLUICE_GPU");
}

/* Of a server, or of a folder if `host` is NULL.  `more`: other settings, six at most; they win. */
static struct sluice_loader *make_with(const char *host, const char *dir, const char *mode,
                                       const struct sluice_setting *more, size_t num_more)
{
    struct sluice_setting settings[16] = {
        {"pipeline", PIPELINE},
        {"repeat", "5"},
        {"batch-size", "8"},
        {"workers", "2"},
        {"rank", "0"},
        {"world-size", "1"},
        {"prefetch-bytes", "1MiB"},
        {"dataset-mode", mode},
        {host ? "host" : "dir", host ? host : dir},
    };
    size_t num_settings = 9;
    if (is_on_gpu())
        settings[num_settings++] = (struct sluice_setting){"gpu-decode", "on"};
    for (size_t i = 0; i < num_more; i++)
        settings[num_settings++] = more[i];
    struct sluice_loader *loader = NULL;
    struct sluice_err err = {0};
    CHECK_OK(sluice_loader_create(settings, num_settings, &loader, &err));
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(loader);
    return loader;
}

static struct sluice_loader *make(const char *host, const char *mode)
{
    return make_with(host, image_root(), mode, NULL, 0);
}

static struct sluice_loader *opened(const char *host, const char *mode)
{
    struct sluice_loader *loader = make(host, mode);
    REQUIRE_OK(sluice_loader_open(loader, NULL));
    return loader;
}

static sluice_status begin(struct sluice_loader *loader, uint64_t epoch, struct sluice_err *err)
{
    return sluice_loader_start(loader, &(struct sluice_epoch_start){.epoch = epoch}, err);
}

struct sum {
    uint64_t hash; /* of all rows in their order */
    unsigned num_rows;
};

static void add(struct sum *sum, const struct sluice_batch *batch)
{
    const size_t bytes = (size_t)batch->num_rows * batch->height * batch->width * 3;
    const uint64_t parts[] = {
        sum->hash, sluice_hash64(batch->pixels, bytes),
        sluice_hash64(batch->ids, batch->num_rows * sizeof(*batch->ids)),
        sluice_hash64(batch->labels, batch->num_rows * sizeof(*batch->labels))};
    sum->hash = sluice_hash64(parts, sizeof(parts));
    sum->num_rows += batch->num_rows;
}

/* The rest of the epoch. */
static sluice_status drain(struct sluice_loader *loader, struct sum *sum, struct sluice_err *err)
{
    for (;;) {
        const struct sluice_batch *batch;
        const sluice_status status = sluice_loader_next(loader, -1, &batch, err);
        if (status != SLUICE_OK || !batch)
            return status;
        add(sum, batch);
        sluice_batch_release(batch);
    }
}

static struct sum whole(struct sluice_loader *loader, uint64_t epoch)
{
    struct sum sum = {0};
    CHECK_OK(begin(loader, epoch, NULL));
    CHECK_OK(drain(loader, &sum, NULL));
    return sum;
}

static void check_sum(struct sum sum, struct sum expected)
{
    CU_ASSERT_EQUAL(expected.num_rows, NUM_ITEMS);
    CU_ASSERT_EQUAL(sum.num_rows, expected.num_rows);
    CU_ASSERT_EQUAL(sum.hash, expected.hash);
}

/* Of the folder. */
static struct sum reference(uint64_t epoch)
{
    struct sluice_loader *loader = opened(NULL, "local");
    const struct sum sum = whole(loader, epoch);
    sluice_loader_close(loader);
    return sum;
}

static struct sluice_server *serve(const char *root)
{
    struct sluice_server *server = NULL;
    REQUIRE_OK(sluice_server_start(root, NULL, 0, &server, NULL));
    return server;
}

/* --- several at once --- */

struct client {
    const char *host, *mode;
    struct sum sums[3];
};

static void *client_main(void *ctx)
{
    struct client *client = ctx;
    struct sluice_loader *loader = opened(client->host, client->mode);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        client->sums[epoch] = whole(loader, epoch);
    sluice_loader_close(loader);
    return NULL;
}

TEST(two_loaders_at_once_get_what_one_after_the_other_gets)
{
    struct sluice_server *server = serve(image_root());
    struct client clients[2] = {{sluice_server_address(server), "remote_auto", {{0}}},
                                {sluice_server_address(server), "remote_alloff", {{0}}}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, client_main, &clients[i]), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (uint64_t epoch = 0; epoch < 3; epoch++) {
        const struct sum expected = reference(epoch);
        check_sum(clients[0].sums[epoch], expected);
        check_sum(clients[1].sums[epoch], expected);
    }
    sluice_server_stop(server);
}

/* --- somebody who looks on --- */

struct onlooker {
    struct sluice_loader *loader;
    atomic_bool is_over;
    struct sluice_counters last;
};

static void *onlooker_main(void *ctx)
{
    struct onlooker *onlooker = ctx;
    struct sluice_loader_pass pass = {.number = 0};
    bool is_over = false;
    while (!is_over) {
        is_over = atomic_load(&onlooker->is_over); /* one look after the end */
        struct sluice_counters counters;
        const uint64_t number = pass.number;
        sluice_loader_counters(onlooker->loader, &counters);
        sluice_loader_pass(onlooker->loader, &pass);
        CU_ASSERT(counters.samples >= onlooker->last.samples);
        CU_ASSERT(pass.number >= number);
        onlooker->last = counters;
        sched_yield();
    }
    CU_ASSERT_EQUAL(pass.number, 3);
    CU_ASSERT_EQUAL(pass.epoch, 2);
    return NULL;
}

TEST(another_thread_reads_the_counters)
{
    struct onlooker onlooker = {.loader = opened(NULL, "local")};
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, onlooker_main, &onlooker), 0);
    for (uint64_t epoch = 0; epoch < 3; epoch++)
        CU_ASSERT_EQUAL(whole(onlooker.loader, epoch).num_rows, NUM_ITEMS);
    atomic_store(&onlooker.is_over, true);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(onlooker.last.samples, 3 * NUM_ITEMS);
    sluice_loader_close(onlooker.loader);
}

/* --- a stop at any moment --- */

/* Stops the loader once its thread has taken `at` steps, and `spins` turns of the CPU later. */
struct stopper {
    struct sluice_loader *loader;
    sem_t steps;
    unsigned at, spins;
};

static void *stopper_main(void *ctx)
{
    struct stopper *stopper = ctx;
    for (unsigned i = 0; i < stopper->at; i++)
        CU_ASSERT_EQUAL(sem_wait(&stopper->steps), 0);
    for (unsigned i = 0; i < stopper->spins; i++)
        sched_yield();
    sluice_loader_stop(stopper->loader);
    return NULL;
}

/* Opens, starts and takes batches until one of them fails. */
static sluice_status use(struct stopper *stopper)
{
    struct sluice_loader *loader = stopper->loader;
    sem_post(&stopper->steps);
    sluice_status status = sluice_loader_open(loader, NULL);
    for (uint64_t epoch = 0; status == SLUICE_OK; epoch++) {
        sem_post(&stopper->steps);
        status = begin(loader, epoch, NULL);
        const struct sluice_batch *batch = NULL;
        do {
            sem_post(&stopper->steps);
            if (status == SLUICE_OK)
                status = sluice_loader_next(loader, -1, &batch, NULL);
            if (status == SLUICE_OK)
                sluice_batch_release(batch);
        } while (status == SLUICE_OK && batch);
    }
    return status;
}

static void stop_at_any_moment(const char *host, const char *mode)
{
    const unsigned num_rounds = num_stops();
    for (unsigned round = 0; round < num_rounds; round++) {
        struct stopper stopper = {
            .loader = make(host, mode), .at = 1 + round % 5, .spins = round * 50 / num_rounds};
        CU_ASSERT_EQUAL_FATAL(sem_init(&stopper.steps, 0, 0), 0);
        pthread_t thread;
        CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stopper_main, &stopper), 0);
        CU_ASSERT_EQUAL(use(&stopper), SLUICE_E_CLOSED);
        pthread_join(thread, NULL);
        sem_destroy(&stopper.steps);
        const sluice_status status = begin(stopper.loader, 0, NULL);
        CU_ASSERT(status == SLUICE_E_CLOSED || status == SLUICE_E_INVALID); /* it is not open */
        const struct sluice_batch *batch = NULL;
        CU_ASSERT_EQUAL(sluice_loader_next(stopper.loader, 0, &batch, NULL), SLUICE_E_CLOSED);
        sluice_loader_close(stopper.loader);
    }
}

TEST(a_stop_ends_what_is_under_way_with_a_server)
{
    struct sluice_server *server = serve(image_root());
    stop_at_any_moment(sluice_server_address(server), "remote_auto");
    sluice_server_stop(server);
}

TEST(a_stop_ends_what_is_under_way_with_a_folder)
{
    stop_at_any_moment(NULL, "local");
}

TEST(a_stop_before_open_is_heard)
{
    struct sluice_server *server = serve(image_root());
    struct sluice_loader *loaders[] = {
        make(sluice_server_address(server), "remote_auto"),
        make(NULL, "local"),
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(loaders); i++) {
        sluice_loader_stop(loaders[i]);
        CU_ASSERT_EQUAL(sluice_loader_open(loaders[i], NULL), SLUICE_E_CLOSED);
        CU_ASSERT_EQUAL(sluice_loader_open(loaders[i], NULL), SLUICE_E_INVALID);
        sluice_loader_close(loaders[i]);
    }
    sluice_server_stop(server);
}

/* --- batches that outlive their loader --- */

struct releaser {
    const struct sluice_batch *batches[NUM_BATCHES];
    unsigned num;
    struct sum sums[NUM_BATCHES];
};

static void *releaser_main(void *ctx)
{
    struct releaser *releaser = ctx;
    for (unsigned i = releaser->num; i-- > 0;) {
        struct sum sum = {0};
        add(&sum, releaser->batches[i]);
        CU_ASSERT_EQUAL(sum.hash, releaser->sums[i].hash);
        char state[SLUICE_MAX_STATE];
        sluice_batch_state(releaser->batches[i], state);
        CU_ASSERT_EQUAL(state[0], '{');
        sluice_batch_release(releaser->batches[i]);
    }
    return NULL;
}

/* `late`: the threads begin when the loader is closed; else they release while it closes. */
static void release_elsewhere(bool late)
{
    struct releaser releasers[3] = {{.num = 0}};
    pthread_t threads[3];
    struct sluice_loader *loader = opened(NULL, "local");
    REQUIRE_OK(begin(loader, 0, NULL));
    const unsigned num = is_on_gpu() ? 5 : NUM_BATCHES; /* a GPU's batches are so many */
    for (unsigned i = 0; i < num; i++) {
        struct releaser *releaser = &releasers[i % 3];
        const struct sluice_batch **batch = &releaser->batches[releaser->num];
        REQUIRE_OK(sluice_loader_next(loader, -1, batch, NULL));
        CU_ASSERT_PTR_NOT_NULL_FATAL(*batch);
        add(&releaser->sums[releaser->num++], *batch);
    }
    if (late)
        sluice_loader_close(loader);
    for (int i = 0; i < 3; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, releaser_main, &releasers[i]), 0);
    if (!late)
        sluice_loader_close(loader);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
}

TEST(other_threads_release_after_close)
{
    for (int i = 0; i < 5; i++)
        release_elsewhere(true);
}

TEST(other_threads_release_during_close)
{
    for (int i = 0; i < 20; i++)
        release_elsewhere(false);
}

/* --- memory --- */

/* The caller's memory: allocation `first_failure` fails, and from `often` on every second one. */
struct memory {
    atomic_uint num_asked, num_made, num_freed;
    unsigned first_failure, often;
};

static sluice_status alloc_some(void *ctx, size_t bytes, void **memory, struct sluice_err *err)
{
    struct memory *mine = ctx;
    const unsigned asked = atomic_fetch_add(&mine->num_asked, 1);
    if (asked == mine->first_failure || (asked >= mine->often && asked % 2 == 0)) {
        snprintf(err->text, sizeof(err->text), "no page-locked memory");
        return SLUICE_E_NO_MEMORY;
    }
    *memory = aligned_alloc(64, (bytes + 63) / 64 * 64);
    atomic_fetch_add(&mine->num_made, 1);
    return SLUICE_OK;
}

static void free_some(void *ctx, void *memory, size_t bytes)
{
    struct memory *mine = ctx;
    memset(memory, 0xee, bytes < 64 ? bytes : 64); /* it is all there */
    atomic_fetch_add(&mine->num_freed, 1);
    free(memory);
}

static void use_memory(struct sluice_loader *loader, struct memory *memory)
{
    const struct sluice_host_memory mine = {.alloc = alloc_some, .free = free_some, .ctx = memory};
    sluice_loader_set_memory(loader, &mine);
}

/* A whole epoch, three batches held at a time; where memory was short it goes on from the last
 * batch that came.  Counts the failures. */
static unsigned epoch_in_spite(struct sluice_loader *loader, struct sum *sum)
{
    char state[SLUICE_MAX_STATE] = "";
    const struct sluice_batch *held[3] = {NULL};
    unsigned num_failures = 0, num_taken = 0;
    for (bool is_over = false; !is_over && num_failures < 1000;) {
        struct sluice_err err = {0};
        const struct sluice_epoch_start start = {.epoch = 4, .state = state[0] ? state : NULL};
        sluice_status status = sluice_loader_start(loader, &start, &err);
        while (status == SLUICE_OK && !is_over) {
            const struct sluice_batch *batch = NULL;
            status = sluice_loader_next(loader, -1, &batch, &err);
            is_over = status == SLUICE_OK && !batch;
            if (!batch)
                continue;
            add(sum, batch);
            sluice_batch_state(batch, state);
            sluice_batch_release(held[num_taken % 3]);
            held[num_taken++ % 3] = batch;
        }
        if (status != SLUICE_OK) {
            num_failures++;
            CU_ASSERT_EQUAL(status, SLUICE_E_NO_MEMORY);
            CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "no page-locked memory"));
            sluice_batch_release(held[num_taken % 3]); /* the oldest */
            held[num_taken % 3] = NULL;
        }
    }
    for (int i = 0; i < 3; i++)
        sluice_batch_release(held[i]);
    return num_failures;
}

/* Blocks that the first start takes. */
static unsigned slots_of(const char *mode, const char *host)
{
    struct memory memory = {.first_failure = UINT_MAX, .often = UINT_MAX};
    struct sluice_loader *loader = make(host, mode);
    use_memory(loader, &memory);
    REQUIRE_OK(sluice_loader_open(loader, NULL));
    REQUIRE_OK(begin(loader, 0, NULL));
    const unsigned num_slots = atomic_load(&memory.num_made);
    sluice_loader_close(loader);
    CU_ASSERT(num_slots >= 3);
    return num_slots;
}

static void run_short_of_memory(const char *host, const char *mode)
{
    const struct sum expected = reference(4);
    const unsigned num_slots = slots_of(mode, host);
    const unsigned more = is_on_gpu() ? 0 : 4; /* a GPU's batches take none of this memory */
    for (unsigned first = 0; first < num_slots + more;
         first += first < 2 || first >= num_slots ? 1 : 5) {
        struct memory memory = {.first_failure = first,
                                .often = first < num_slots ? UINT_MAX : num_slots};
        struct sluice_loader *loader = make(host, mode);
        use_memory(loader, &memory);
        REQUIRE_OK(sluice_loader_open(loader, NULL));
        struct sum sum = {0};
        CU_ASSERT(epoch_in_spite(loader, &sum) >= 1);
        check_sum(sum, expected);
        sluice_loader_close(loader);
        CU_ASSERT_EQUAL(atomic_load(&memory.num_made), atomic_load(&memory.num_freed));
    }
}

TEST(goes_on_when_memory_was_short)
{
    run_short_of_memory(NULL, "local");
}

TEST(goes_on_when_memory_was_short_with_a_server)
{
    struct sluice_server *server = serve(image_root());
    run_short_of_memory(sluice_server_address(server), "remote_auto");
    sluice_server_stop(server);
}

/* --- orders and timeouts --- */

TEST(a_bad_order_is_refused_and_the_next_one_works)
{
    static const uint64_t beyond[] = {0, NUM_IMAGES}, huge[] = {UINT64_MAX}, good[] = {3, 11};
    const struct sum expected = reference(0);
    struct sluice_loader *loader = opened(NULL, "local");
    for (int round = 0; round < 2; round++) {
        const struct sluice_epoch_start starts[] = {{.order = beyond, .num_order = 2},
                                                    {.order = huge, .num_order = 1}};
        for (int i = 0; i < 2; i++) {
            const struct sluice_batch *batch = NULL;
            CHECK_FAILS(SLUICE_E_INVALID, "samples 0 to 11",
                        sluice_loader_start(loader, &starts[i], sluice_test_err()));
            CHECK_OK(sluice_loader_next(loader, 0, &batch, NULL));
            CU_ASSERT_PTR_NULL(batch);
        }
        struct sum sum = {0};
        const struct sluice_epoch_start start = {.order = good, .num_order = 2};
        CHECK_OK(sluice_loader_start(loader, &start, NULL));
        CHECK_OK(drain(loader, &sum, NULL));
        CU_ASSERT_EQUAL(sum.num_rows, 2);
        check_sum(whole(loader, 0), expected);
    }
    sluice_loader_close(loader);
}

TEST(an_empty_order_is_an_empty_epoch)
{
    static const uint64_t none[1];
    struct sluice_loader *loader = opened(NULL, "local");
    const struct sluice_epoch_start start = {.order = none, .num_order = 0};
    struct sum sum = {0};
    CHECK_OK(sluice_loader_start(loader, &start, NULL));
    CHECK_OK(drain(loader, &sum, NULL));
    CU_ASSERT_EQUAL(sum.num_rows, 0);
    sluice_loader_close(loader);
}

TEST(a_timeout_of_0_never_waits_and_loses_nothing)
{
    struct sluice_server *server = serve(image_root());
    struct sluice_loader *loader = opened(sluice_server_address(server), "remote_auto");
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        REQUIRE_OK(begin(loader, epoch, NULL));
        struct sum sum = {0};
        bool is_over = false;
        while (!is_over) {
            const struct sluice_batch *const untouched = (const struct sluice_batch *)&sum;
            const struct sluice_batch *batch = untouched;
            const sluice_status status = sluice_loader_next(loader, 0, &batch, NULL);
            if (status == SLUICE_E_AGAIN) {
                CU_ASSERT_PTR_EQUAL(batch, untouched);
                sched_yield();
                continue;
            }
            REQUIRE_OK(status);
            is_over = !batch;
            if (batch)
                add(&sum, batch);
            sluice_batch_release(batch);
        }
        check_sum(sum, reference(epoch));
    }
    sluice_loader_close(loader);
    sluice_server_stop(server);
}

/* --- data that changes --- */

/* Image `to` of the folder becomes what image `from` of image_root() is. */
static void put_image(const char *root, unsigned from, unsigned to)
{
    char path[700];
    size_t len;
    uint8_t *bytes = sluice_test_read_file(image_path(from), &len);
    snprintf(path, sizeof(path), "%s/%s", root, image_name(to));
    sluice_test_put_text(root, image_name(to), "");
    sluice_test_write_file(path, bytes, len);
    free(bytes);
}

/* A folder of its own with the first `num` images. */
static void make_folder(const char *name, unsigned num, char root[600])
{
    snprintf(root, 600, "%s/%s", sluice_test_dir(), name);
    for (unsigned id = 0; id < num; id++)
        put_image(root, id, id);
}

/* Reads the list again, until it has `num` samples. */
static void reread(struct sluice_server *server, uint64_t num)
{
    sluice_server_reread(server);
    for (uint64_t found = 0; found != num;) {
        struct sluice_loader *loader = make(sluice_server_address(server), "remote_auto");
        const sluice_status status = sluice_loader_open(loader, NULL);
        CU_ASSERT(status == SLUICE_OK || status == SLUICE_E_STALE); /* it is read just now */
        if (status == SLUICE_OK)
            found = sluice_loader_info(loader)->num_samples[SLUICE_TRAIN];
        sluice_loader_close(loader);
    }
}

TEST(an_open_loader_keeps_the_list_that_it_began_with)
{
    char root[600];
    make_folder("growing", NUM_IMAGES - 1, root);
    struct sluice_server *server = serve(root);
    struct sluice_loader *loader = opened(sluice_server_address(server), "remote_auto");
    const struct sum before = whole(loader, 0);
    CU_ASSERT_EQUAL(before.num_rows, (NUM_IMAGES - 1) * REPEAT);

    const struct sluice_batch *batch = NULL;
    REQUIRE_OK(begin(loader, 0, NULL));
    REQUIRE_OK(sluice_loader_next(loader, -1, &batch, NULL));
    struct sum sum = {0};
    add(&sum, batch);
    sluice_batch_release(batch);
    put_image(root, NUM_IMAGES - 1, NUM_IMAGES - 1);
    reread(server, NUM_IMAGES);
    CHECK_OK(drain(loader, &sum, NULL));
    CU_ASSERT_EQUAL(sum.num_rows, before.num_rows);
    CU_ASSERT_EQUAL(sum.hash, before.hash);
    const struct sum after = whole(loader, 0);
    CU_ASSERT_EQUAL(after.hash, before.hash);
    sluice_loader_close(loader);
    sluice_server_stop(server);
}

TEST(a_loader_from_before_a_change_is_told_to_open_anew)
{
    char root[600];
    make_folder("grown", NUM_IMAGES - 1, root);
    struct sluice_server *server = serve(root);
    struct sluice_loader *loader = opened(sluice_server_address(server), "remote_nooff");
    put_image(root, NUM_IMAGES - 1, NUM_IMAGES - 1);
    reread(server, NUM_IMAGES);
    CHECK_OK(begin(loader, 0, NULL));
    struct sum sum = {0};
    CHECK_FAILS(SLUICE_E_INVALID, "other data: the client has dataset",
                drain(loader, &sum, sluice_test_err()));
    CHECK_SAYS("start the client anew");
    CHECK_SAYS(sluice_loader_info(loader)->id);
    CU_ASSERT_EQUAL(sum.num_rows, 0);
    sluice_loader_close(loader);
    sluice_server_stop(server);
}

TEST(a_replaced_file_is_named)
{
    static const struct sluice_setting settings[] = {{"on-error", "fail"}, {"retry-for", "1s"}};
    char root[600];
    make_folder("replaced", NUM_IMAGES, root);
    struct sluice_server *server = serve(root);
    const char *address = sluice_server_address(server);
    struct sluice_loader *loaders[] = {
        make_with(address, NULL, "remote_auto", settings, 2),
        make_with(NULL, root, "local", settings, 2),
    };
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(sluice_loader_open(loaders[i], NULL));
    put_image(root, 7, 3);
    for (int i = 0; i < 2; i++) {
        struct sum sum = {0};
        CHECK_OK(begin(loaders[i], 0, NULL));
        CHECK_FAILS(SLUICE_E_STALE, image_name(3), drain(loaders[i], &sum, sluice_test_err()));
        sluice_loader_close(loaders[i]);
    }
    sluice_server_stop(server);
}

/* Rank 1 of 2 pads its last batch, of 3 rows, with the first of the order, whose file is bad. */
TEST(a_bad_padded_row_is_not_counted_as_padded)
{
    static const char *const on_errors[] = {"skip", "substitute"};
    char root[600];
    make_folder("padded", 11, root);
    sluice_test_put_text(root, image_name(0), "no image");
    for (int k = 0; k < 2; k++) {
        const struct sluice_setting settings[] = {
            {"on-error", on_errors[k]}, {"shuffle", "false"}, {"rank", "1"},
            {"world-size", "2"},        {"tail", "pad"},      {"max-errors", "10"}};
        struct sluice_loader *loader = make_with(NULL, root, "local", settings, 6);
        REQUIRE_OK(sluice_loader_open(loader, NULL));
        REQUIRE_OK(begin(loader, 0, NULL));
        unsigned num_rows = 0, num_padded = 0;
        for (;;) {
            const struct sluice_batch *batch = NULL;
            REQUIRE_OK(sluice_loader_next(loader, -1, &batch, NULL));
            if (!batch)
                break;
            CU_ASSERT_EQUAL(num_padded, 0); /* of the batches before the last */
            num_rows = batch->num_rows;
            num_padded = batch->num_padded;
            sluice_batch_release(batch);
        }
        CU_ASSERT_EQUAL(num_rows, k ? 4 : 3);
        CU_ASSERT_EQUAL(num_padded, k ? 1 : 0);
        sluice_loader_close(loader);
    }
}
