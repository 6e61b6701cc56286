#include "compute_client/loader/batch/held.h"

#include "gpu/place.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct sluice_held_home {
    pthread_mutex_t lock;     /* is taken before the prefetcher's */
    struct sluice_held *free; /* headers */
    size_t num_refs;          /* headers that are out, and the prefetcher */
    bool is_closed;

    /* Constant. */
    struct sluice_held_home_options options;
    struct sluice_gpu_place *place; /* or NULL */
};

sluice_status sluice_held_home_create(const struct sluice_held_home_options *options,
                                      struct sluice_held_home **out, struct sluice_err *err)
{
    struct sluice_held_home *home = calloc(1, sizeof(*home));
    if (!home)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for batches that are held");
    pthread_mutex_init(&home->lock, NULL);
    home->num_refs = 1;
    home->options = *options;
    *out = home;
    return SLUICE_OK;
}

static void free_header(struct sluice_held *held)
{
    free(held->labels);
    free(held->ids);
    free(held->draw_epochs);
    free(held->geometry);
    free(held->images);
    free(held);
}

void sluice_held_home_unref(struct sluice_held_home *home)
{
    if (!home)
        return;
    pthread_mutex_lock(&home->lock);
    const bool is_last = --home->num_refs == 0;
    pthread_mutex_unlock(&home->lock);
    if (!is_last)
        return;
    while (home->free) {
        struct sluice_held *held = home->free;
        home->free = held->next;
        free_header(held);
    }
    pthread_mutex_destroy(&home->lock);
    sluice_gpu_place_destroy(home->place);
    free(home);
}

void sluice_held_home_take_place(struct sluice_held_home *home, struct sluice_gpu_place *place)
{
    home->place = place;
}

void sluice_held_home_close(struct sluice_held_home *home)
{
    if (!home)
        return;
    pthread_mutex_lock(&home->lock);
    home->is_closed = true;
    pthread_mutex_unlock(&home->lock);
}

static struct sluice_held *make_header(struct sluice_held_home *home)
{
    struct sluice_held *held = calloc(1, sizeof(*held));
    if (!held)
        return NULL;
    held->labels = calloc(home->options.batch_size, sizeof(*held->labels));
    held->ids = calloc(home->options.batch_size, sizeof(*held->ids));
    held->draw_epochs = calloc(home->options.batch_size, sizeof(*held->draw_epochs));
    held->images = calloc(home->options.batch_size, sizeof(*held->images));
    const size_t num_geometries = (size_t)home->options.batch_size * home->options.geometry_views;
    if (num_geometries > 0)
        held->geometry = calloc(num_geometries, sizeof(*held->geometry));
    if (!held->labels || !held->ids || !held->draw_epochs || !held->images ||
        (num_geometries > 0 && !held->geometry)) {
        free_header(held);
        return NULL;
    }
    held->home = home;
    return held;
}

sluice_status sluice_held_create(struct sluice_held_home *home, struct sluice_held **out,
                                 struct sluice_err *err)
{
    pthread_mutex_lock(&home->lock);
    struct sluice_held *held = home->free;
    if (held) {
        home->free = held->next;
        home->num_refs++;
    }
    pthread_mutex_unlock(&home->lock);
    if (!held) {
        held = make_header(home);
        if (!held)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for another batch");
        pthread_mutex_lock(&home->lock);
        home->num_refs++;
        pthread_mutex_unlock(&home->lock);
    }
    held->pixels = NULL;
    held->block = NULL;
    held->num_rows = 0;
    *out = held;
    return SLUICE_OK;
}

/* Releases a header; its device block is already back at its place. */
static void release(struct sluice_held *held)
{
    struct sluice_held_home *home = held->home;
    const bool is_on_host = !held->block;
    pthread_mutex_lock(&home->lock);
    void *memory = held->pixels;
    /* The lock keeps the prefetcher alive meanwhile. */
    if (memory && !home->is_closed)
        memory = home->options.take_back(home->options.ctx, held);
    held->next = home->free;
    home->free = held;
    pthread_mutex_unlock(&home->lock);
    if (memory && is_on_host)
        home->options.free(home->options.memory_ctx, memory, home->options.bytes);
    sluice_held_home_unref(home);
}

void sluice_held_release(struct sluice_held *held)
{
    if (!held)
        return;
    if (held->block)
        sluice_gpu_block_give(held->block);
    release(held);
}

void sluice_held_release_after(struct sluice_held *held, void *stream)
{
    if (!held)
        return;
    if (held->block)
        sluice_gpu_block_give_after(held->block, stream);
    release(held);
}
