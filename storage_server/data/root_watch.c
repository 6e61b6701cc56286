#include "storage_server/data/root_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/roots.h"
#include "datasets/manifest/manifest.h"
#include "datasets/shards/shard.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/side_thread.h"
#include "storage_server/tuning.h"
#include "store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The watch of one root. */
struct watch {
    pthread_mutex_t lock;
    uint64_t looking_ns;     /* since when; 0: no look is under way */
    struct sluice_err wrong; /* what the last look said; empty: nothing */

    bool was_here; /* is_here()'s own */

    const char *root; /* its name; constant from here */
    struct sluice_store *store;
    struct sluice_sample_lists *lists;
    struct sluice_side_thread thread;
};

struct sluice_root_watch {
    size_t num;
    struct watch *of[SLUICE_MAX_ROOTS];
};

/* The first row whose path is not before NAME/, which is the root's first, if it has one. */
static size_t find_first(const struct sluice_manifest *manifest, const char *root)
{
    char begin[SLUICE_ROOT_NAME_BYTES + 1];
    snprintf(begin, sizeof(begin), "%s/", root);
    return root[0] ? sluice_manifest_find_first(manifest, begin) : 0;
}

static sluice_status look(struct watch *watch, struct sluice_err *wrong)
{
    struct sluice_sample_list *list = sluice_sample_lists_now(watch->lists);
    const struct sluice_manifest *manifest = list->manifest;
    char itself[SLUICE_ROOT_NAME_BYTES + 2], shard[SLUICE_MAX_PATH_BYTES];
    snprintf(itself, sizeof(itself), "%s%s.", watch->root, watch->root[0] ? "/" : "");
    struct sluice_store_known known = {.path = itself};
    const size_t row = find_first(manifest, watch->root);
    if (row < manifest->num_entries &&
        sluice_root_rest(watch->root, sluice_manifest_at(manifest, row).path)) {
        const struct sluice_manifest_entry first = sluice_manifest_at(manifest, row);
        const bool is_member = first.offset && sluice_shard_split(first.path, shard);
        known = (struct sluice_store_known){
            .path = is_member ? shard : first.path,
            .offset = first.offset,
            .bytes = first.bytes,
        };
    }
    const sluice_status status = watch->store->look(watch->store, &known, wrong);
    sluice_sample_list_unref(list);
    return status;
}

static void *watch_main(void *ctx)
{
    struct watch *watch = ctx;
    pthread_setname_np(pthread_self(), "root-watch");
    pthread_mutex_lock(&watch->lock);
    while (!watch->thread.is_stopping) {
        watch->looking_ns = sluice_clock_ns();
        pthread_mutex_unlock(&watch->lock);
        struct sluice_err wrong = {0};
        const sluice_status status = look(watch, &wrong);
        pthread_mutex_lock(&watch->lock);
        watch->looking_ns = 0;
        watch->wrong = status == SLUICE_OK ? (struct sluice_err){0} : wrong;
        (void)sluice_side_thread_sleep(&watch->thread, sluice_clock_ns() + ROOT_LOOK_NS);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

static void close_one(struct watch *watch)
{
    sluice_side_thread_clear(&watch->thread);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

static sluice_status open_one(const struct watch *what, struct watch **out, struct sluice_err *err)
{
    struct watch *watch = malloc(sizeof(*watch));
    if (!watch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch the root");
    *watch = *what;
    pthread_mutex_init(&watch->lock, NULL);
    const sluice_status status = sluice_side_thread_open(
        &watch->thread, &watch->lock, watch_main, watch, "the thread that watches the root", err);
    if (status == SLUICE_OK)
        *out = watch;
    else
        close_one(watch);
    return status;
}

sluice_status sluice_root_watch_open(struct sluice_store *store, const struct sluice_roots *roots,
                                     struct sluice_sample_lists *lists,
                                     struct sluice_root_watch **out, struct sluice_err *err)
{
    struct sluice_root_watch *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to watch the root");
    for (size_t i = 0; i < roots->num; i++) {
        const struct watch what = {
            .store = store, .was_here = true, .lists = lists, .root = roots->at[i].name};
        const sluice_status status = open_one(&what, &made->of[i], err);
        if (status != SLUICE_OK) {
            sluice_root_watch_close(made);
            return status;
        }
        made->num++;
    }
    *out = made;
    return SLUICE_OK;
}

void sluice_root_watch_close(struct sluice_root_watch *watch)
{
    if (!watch)
        return;
    for (size_t i = 0; i < watch->num; i++)
        close_one(watch->of[i]);
    free(watch);
}

static bool is_one_here(struct watch *watch, uint64_t now_ns)
{
    pthread_mutex_lock(&watch->lock);
    struct sluice_err wrong = watch->wrong;
    if (watch->looking_ns && now_ns > watch->looking_ns + ROOT_HANGS_NS && !wrong.text[0])
        snprintf(wrong.text, sizeof(wrong.text), "the root %s%sdoes not answer", watch->root,
                 watch->root[0] ? " " : "");
    pthread_mutex_unlock(&watch->lock);
    const bool is_here = !wrong.text[0];
    if (is_here != watch->was_here) {
        if (is_here)
            sluice_log(SLUICE_LOG_INFO, "the root %s%sis there again", watch->root,
                       watch->root[0] ? " " : "");
        else
            sluice_log(SLUICE_LOG_ERROR, "%s; health is NOT_SERVING until it is there again",
                       wrong.text);
    }
    watch->was_here = is_here;
    return is_here;
}

bool sluice_root_watch_is_here(struct sluice_root_watch *watch, uint64_t now_ns)
{
    bool are_here = true;
    for (size_t i = 0; i < watch->num; i++)
        are_here &= is_one_here(watch->of[i], now_ns);
    return are_here;
}
