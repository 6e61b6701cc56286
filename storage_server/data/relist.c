#include "storage_server/data/relist.h"

#include "base/log.h"
#include "datasets/manifest/drift.h"
#include "datasets/manifest/join.h"
#include "datasets/manifest/manifest.h"
#include "storage_server/session/memory_budget.h"
#include "storage_server/side_thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sluice_relist {
    pthread_mutex_t lock;
    bool is_wanted; /* `thread.changed` */

    struct sluice_relist_options options; /* constant from here */
    struct sluice_side_thread thread;
};

static void on_gone(void *memory, uint64_t bytes)
{
    sluice_memory_budget_shift(memory, -(int64_t)bytes);
}

static void tell(const struct sluice_sample_list *old, const struct sluice_sample_list *list)
{
    if (strcmp(old->dataset_id, list->dataset_id) == 0)
        sluice_log(SLUICE_LOG_INFO,
                   "the list of samples was read again: %zu samples, dataset %s as before",
                   list->manifest->num_entries, list->dataset_id);
    else
        sluice_log(SLUICE_LOG_INFO,
                   "the list of samples was read again: %zu samples in %zu classes, dataset %s "
                   "(before: %zu in %zu, dataset %s); open streams keep the old list, and clients "
                   "of it that connect again are refused",
                   list->manifest->num_entries, list->manifest->num_classes, list->dataset_id,
                   old->manifest->num_entries, old->manifest->num_classes, old->dataset_id);
}

static void read_again(struct sluice_relist *relist)
{
    const struct sluice_relist_options *o = &relist->options;
    struct sluice_sample_list *list = NULL;
    struct sluice_err err = {0};
    if (sluice_sample_list_read(&o->source, &list, &err) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s; the list of samples stays as it was", err.text);
        return;
    }
    struct sluice_sample_list *old = sluice_sample_lists_now(o->lists);
    if (o->memory)
        sluice_memory_budget_shift(o->memory, (int64_t)list->bytes);
    tell(old, list);
    sluice_sample_lists_replace(o->lists, list, o->memory ? on_gone : NULL, o->memory);
    sluice_sample_list_unref(old);
}

/* Whether the list of this root, a folder, is up to date. */
static void look_at_root(struct sluice_relist *relist, const struct sluice_sample_list *list,
                         size_t root)
{
    const struct sluice_sample_list_source *source = &relist->options.source;
    const char *name = source->roots->at[root].name, *place = source->roots->at[root].place;
    struct sluice_manifest *of_root = NULL;
    struct sluice_err err = {0};
    char then[64];
    snprintf(then, sizeof(then), "send SIGHUP to this server (kill -HUP %d)", (int)getpid());
    if (name[0] && sluice_manifest_of_root(list->manifest, name, &of_root, &err) != SLUICE_OK)
        sluice_log(SLUICE_LOG_WARN, "%s: whether its list is up to date cannot be told: %s", place,
                   err.text);
    else
        sluice_manifest_tell_drift(of_root ? of_root : list->manifest, place, source->manifest,
                                   then, &relist->thread.is_stopping); /* which ends the look */
    sluice_manifest_destroy(of_root);
}

static void look(struct sluice_relist *relist)
{
    const struct sluice_relist_options *o = &relist->options;
    struct sluice_sample_list *list = sluice_sample_lists_now(o->lists);
    for (size_t i = 0; i < o->source.roots->num; i++) {
        if (!o->source.stores[i] && !list->is_walked[i])
            look_at_root(relist, list, i);
    }
    sluice_manifest_rest(list->manifest);
    sluice_sample_list_unref(list);
}

static void *relist_main(void *ctx)
{
    struct sluice_relist *relist = ctx;
    pthread_setname_np(pthread_self(), "relist");
    look(relist);
    pthread_mutex_lock(&relist->lock);
    for (;;) {
        while (!relist->is_wanted && !relist->thread.is_stopping)
            pthread_cond_wait(&relist->thread.changed, &relist->lock);
        if (relist->thread.is_stopping)
            break;
        relist->is_wanted = false;
        pthread_mutex_unlock(&relist->lock);
        read_again(relist);
        look(relist);
        pthread_mutex_lock(&relist->lock);
    }
    pthread_mutex_unlock(&relist->lock);
    return NULL;
}

sluice_status sluice_relist_open(const struct sluice_relist_options *options,
                                 struct sluice_relist **out, struct sluice_err *err)
{
    struct sluice_relist *relist = malloc(sizeof(*relist));
    if (!relist)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read lists of samples again");
    *relist = (struct sluice_relist){.options = *options};
    /* At the start a scan replaces a damaged manifest.  Here the server has a good list, and keeps
     * it. */
    relist->options.source.needs_whole = true;
    pthread_mutex_init(&relist->lock, NULL);
    const sluice_status status =
        sluice_side_thread_open(&relist->thread, &relist->lock, relist_main, relist,
                                "the thread that reads lists of samples again", err);
    if (status == SLUICE_OK)
        *out = relist;
    else
        sluice_relist_close(relist);
    return status;
}

void sluice_relist_close(struct sluice_relist *relist)
{
    if (!relist)
        return;
    sluice_side_thread_clear(&relist->thread);
    pthread_mutex_destroy(&relist->lock);
    free(relist);
}

void sluice_relist_request(struct sluice_relist *relist)
{
    pthread_mutex_lock(&relist->lock);
    relist->is_wanted = true;
    pthread_cond_signal(&relist->thread.changed);
    pthread_mutex_unlock(&relist->lock);
}
