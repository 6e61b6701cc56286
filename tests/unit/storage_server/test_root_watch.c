#include "storage_server/data/root_watch.h"

#include "base/clock.h"
#include "base/roots.h"
#include "datasets/manifest/manifest.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/tuning.h"
#include "store/store.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

/* Linked with --wrap: the clock runs, and the test puts it forward. */
static atomic_uint_fast64_t skipped_ns;
uint64_t __real_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return __real_sluice_clock_ns() + atomic_load(&skipped_ns);
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool is_gone, hangs;
static atomic_uint num_looks;

static sluice_status look(struct sluice_store *store, const struct sluice_store_known *known,
                          struct sluice_err *err)
{
    (void)store;
    CU_ASSERT_STRING_EQUAL(known->path, "a.jpg");
    CU_ASSERT_EQUAL(known->bytes, 7);
    atomic_fetch_add(&num_looks, 1);
    pthread_mutex_lock(&lock);
    while (hangs)
        pthread_cond_wait(&changed, &lock);
    const bool gone = is_gone;
    pthread_mutex_unlock(&lock);
    return gone ? sluice_fail(err, SLUICE_E_IO, "gone") : SLUICE_OK;
}

static void set(bool *flag, bool value)
{
    pthread_mutex_lock(&lock);
    *flag = value;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static struct sluice_sample_lists *lists;
static struct sluice_store store = {.look = look};
static struct sluice_roots roots;

static struct sluice_root_watch *open_watch(void)
{
    const char *classes[] = {""};
    const struct sluice_manifest_entry entry = {.path = "a.jpg", .bytes = 7};
    roots = sluice_roots_one("/data");
    struct sluice_root_watch *watch = NULL;
    struct sluice_manifest *manifest = NULL;
    struct sluice_sample_list *list = NULL;
    atomic_store(&num_looks, 0);
    REQUIRE_OK(sluice_manifest_create(&entry, 1, classes, 1, &manifest, NULL));
    REQUIRE_OK(sluice_sample_list_create(manifest, NULL, false, &list, NULL));
    REQUIRE_OK(sluice_sample_lists_create(list, &lists, NULL));
    REQUIRE_OK(sluice_root_watch_open(&store, &roots, lists, &watch, NULL));
    return watch;
}

static void close_watch(struct sluice_root_watch *watch)
{
    sluice_root_watch_close(watch);
    sluice_sample_lists_destroy(lists);
}

static void await_answer(struct sluice_root_watch *watch, bool is_here)
{
    while (sluice_root_watch_is_here(watch, sluice_clock_ns()) != is_here)
        sched_yield();
}

TEST(a_root_that_is_gone_at_the_start_is_noticed)
{
    set(&is_gone, true);
    struct sluice_root_watch *watch = open_watch();
    await_answer(watch, false);
    set(&is_gone, false);
    await_answer(watch, true); /* at the next look */
    close_watch(watch);
}

TEST(a_look_that_hangs_counts_as_gone)
{
    set(&hangs, true);
    struct sluice_root_watch *watch = open_watch();
    while (!atomic_load(&num_looks))
        sched_yield();
    CU_ASSERT(sluice_root_watch_is_here(watch, sluice_clock_ns()));
    atomic_fetch_add(&skipped_ns, ROOT_HANGS_NS);
    await_answer(watch, false);
    set(&hangs, false);
    await_answer(watch, true);
    close_watch(watch);
}

/* --- several --- */

static atomic_uint num_looks_at[2];
static atomic_bool is_second_gone;

static sluice_status look_at_one(struct sluice_store *of, const struct sluice_store_known *known,
                                 struct sluice_err *err)
{
    (void)of;
    const bool is_second = known->path[0] == 'b';
    CU_ASSERT_STRING_EQUAL(known->path, is_second ? "b/2.jpg" : "a/.");
    CU_ASSERT_EQUAL(known->bytes, is_second ? 8 : 0);
    atomic_fetch_add(&num_looks_at[is_second], 1);
    return is_second && atomic_load(&is_second_gone) ? sluice_fail(err, SLUICE_E_IO, "b is gone")
                                                     : SLUICE_OK;
}

/* Each is looked for by its own first sample; one that has none by itself. */
TEST(each_root_is_looked_for)
{
    const char *classes[] = {""};
    const struct sluice_manifest_entry entries[] = {{.path = "a-b/1.jpg", .bytes = 7},
                                                    {.path = "b/2.jpg", .bytes = 8},
                                                    {.path = "b/3.jpg", .bytes = 9}};
    struct sluice_root_watch *watch = NULL;
    struct sluice_manifest *manifest = NULL;
    struct sluice_sample_list *list = NULL;
    struct sluice_store several = {.look = look_at_one};
    REQUIRE_OK(sluice_roots_parse((const char *const[]){"a=/x", "b=/y"}, 2, &roots, NULL));
    REQUIRE_OK(sluice_manifest_create(entries, 3, classes, 1, &manifest, NULL));
    REQUIRE_OK(sluice_sample_list_create(manifest, NULL, false, &list, NULL));
    REQUIRE_OK(sluice_sample_lists_create(list, &lists, NULL));
    REQUIRE_OK(sluice_root_watch_open(&several, &roots, lists, &watch, NULL));
    while (!atomic_load(&num_looks_at[0]) || !atomic_load(&num_looks_at[1]))
        sched_yield();
    CU_ASSERT(sluice_root_watch_is_here(watch, sluice_clock_ns()));
    atomic_store(&is_second_gone, true);
    await_answer(watch, false);
    atomic_store(&is_second_gone, false);
    await_answer(watch, true);
    close_watch(watch);
}
