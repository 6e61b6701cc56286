#include "libsluice/loader_state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void loader_init(struct sluice_loader *loader, const struct sluice_options *options)
{
    *loader = (struct sluice_loader){
        .options = options,
        .train.name = "train",
        .val.name = "val",
        .live = {.loss = NAN, .top1 = NAN},
    };
    pthread_mutex_init(&loader->lock, NULL);
}

static void part_close(struct part *part)
{
    if (part->source)
        part->source->close(part->source);
}

static void part_clear(struct part *part)
{
    if (part->source)
        part->source->destroy(part->source);
    sluice_pipeline_destroy(part->pipeline);
    free(part->ids);
    free(part->choices);
}

void loader_clear(struct sluice_loader *loader)
{
    if (loader->client)
        sluice_client_stop(
            loader->client); /* a fetcher may be on its way to a server that is gone */
    part_close(&loader->train);
    part_close(&loader->val);
    /* Nobody may stop what is destroyed. */
    struct sluice_prefetcher *prefetcher = loader->prefetcher;
    struct sluice_client *client = loader->client;
    pthread_mutex_lock(&loader->lock);
    loader->prefetcher = NULL;
    loader->client = NULL;
    pthread_mutex_unlock(&loader->lock);
    sluice_prefetcher_destroy(prefetcher);
    part_clear(&loader->train);
    part_clear(&loader->val);
    sluice_client_destroy(client);
    sluice_replan_destroy(loader->replan);
    sluice_buf_pool_destroy(loader->pool);
    sluice_cost_table_clear(&loader->profile);
    sluice_manifest_destroy(loader->manifest);
    free(loader->items);
}

void loader_set_client(struct sluice_loader *loader, struct sluice_client *client)
{
    pthread_mutex_lock(&loader->lock);
    loader->client = client;
    if (loader->is_stopped)
        sluice_client_stop(client);
    pthread_mutex_unlock(&loader->lock);
}

void loader_set_prefetcher(struct sluice_loader *loader, struct sluice_prefetcher *prefetcher)
{
    pthread_mutex_lock(&loader->lock);
    loader->prefetcher = prefetcher;
    if (loader->is_stopped)
        sluice_prefetcher_stop(prefetcher);
    pthread_mutex_unlock(&loader->lock);
}

void loader_stop(struct sluice_loader *loader)
{
    /* Under the lock, so that neither is destroyed meanwhile.  The prefetcher first: a source that
     * lost its server may not fail it then. */
    pthread_mutex_lock(&loader->lock);
    loader->is_stopped = true;
    if (loader->prefetcher)
        sluice_prefetcher_stop(loader->prefetcher);
    if (loader->client)
        sluice_client_stop(loader->client);
    pthread_mutex_unlock(&loader->lock);
}

bool loader_is_stopped(struct sluice_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const bool is_stopped = loader->is_stopped;
    pthread_mutex_unlock(&loader->lock);
    return is_stopped;
}
