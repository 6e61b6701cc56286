#include "compute_client/api/loader_state.h"

void loader_set_servers(struct sluice_loader *loader, struct sluice_servers *servers)
{
    pthread_mutex_lock(&loader->lock);
    loader->servers = servers;
    if (loader->is_stopped)
        sluice_servers_stop(servers);
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

void sluice_loader_stop(struct sluice_loader *loader)
{
    /* Under the lock, so that neither is destroyed meanwhile.  The prefetcher first: a source that
     * lost its server may not fail it then. */
    pthread_mutex_lock(&loader->lock);
    loader->is_stopped = true;
    if (loader->prefetcher)
        sluice_prefetcher_stop(loader->prefetcher);
    if (loader->servers)
        sluice_servers_stop(loader->servers);
    pthread_mutex_unlock(&loader->lock);
}

bool loader_is_stopped(struct sluice_loader *loader)
{
    pthread_mutex_lock(&loader->lock);
    const bool is_stopped = loader->is_stopped;
    pthread_mutex_unlock(&loader->lock);
    return is_stopped;
}
