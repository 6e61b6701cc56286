#include "datasets/manifest/stat_pool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#define AT_ONCE 16 /* files that a thread takes: a hundredth of what a lock costs, by file */

struct sluice_stat_pool {
    pthread_mutex_t lock;
    pthread_cond_t has_work, has_ended;
    bool is_closed;
    int folder_fd;
    struct sluice_stat *files;
    size_t num_files, next, num_working; /* threads that have some */

    unsigned num_threads; /* constant from here */
    pthread_t threads[];
};

static void look(int folder_fd, struct sluice_stat *files, size_t num_files)
{
    for (size_t i = 0; i < num_files; i++)
        files[i].error =
            fstatat(folder_fd, files[i].name, &files[i].st, AT_SYMLINK_NOFOLLOW) == 0 ? 0 : errno;
}

/* Under the lock: takes some, looks at them without it, until none are left. */
static void work(struct sluice_stat_pool *pool)
{
    pool->num_working++;
    while (pool->next < pool->num_files) {
        const size_t left = pool->num_files - pool->next;
        const size_t num = left < AT_ONCE ? left : AT_ONCE;
        struct sluice_stat *files = pool->files + pool->next;
        const int folder_fd = pool->folder_fd;
        pool->next += num;
        pthread_mutex_unlock(&pool->lock);
        look(folder_fd, files, num);
        pthread_mutex_lock(&pool->lock);
    }
    if (--pool->num_working == 0)
        pthread_cond_signal(&pool->has_ended);
}

static void *pool_main(void *ctx)
{
    struct sluice_stat_pool *pool = ctx;
    pthread_mutex_lock(&pool->lock);
    while (!pool->is_closed) {
        if (pool->next < pool->num_files)
            work(pool);
        else
            pthread_cond_wait(&pool->has_work, &pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

sluice_status sluice_stat_pool_create(unsigned num_threads, struct sluice_stat_pool **out,
                                      struct sluice_err *err)
{
    struct sluice_stat_pool *pool =
        calloc(1, sizeof(*pool) + num_threads * sizeof(pool->threads[0]));
    if (!pool)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u threads", num_threads);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->has_work, NULL);
    pthread_cond_init(&pool->has_ended, NULL);
    while (pool->num_threads + 1 < num_threads &&
           pthread_create(&pool->threads[pool->num_threads], NULL, pool_main, pool) == 0)
        pool->num_threads++;
    *out = pool;
    return SLUICE_OK;
}

void sluice_stat_pool_destroy(struct sluice_stat_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->is_closed = true;
    pthread_cond_broadcast(&pool->has_work);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->num_threads; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->has_work);
    pthread_cond_destroy(&pool->has_ended);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

void sluice_stat_pool_run(struct sluice_stat_pool *pool, int folder_fd, struct sluice_stat *files,
                          size_t num_files)
{
    if (!pool || num_files <= AT_ONCE) {
        look(folder_fd, files, num_files);
        return;
    }
    pthread_mutex_lock(&pool->lock);
    pool->folder_fd = folder_fd;
    pool->files = files;
    pool->num_files = num_files;
    pool->next = 0;
    pthread_cond_broadcast(&pool->has_work);
    work(pool);
    while (pool->num_working > 0)
        pthread_cond_wait(&pool->has_ended, &pool->lock);
    pool->num_files = pool->next = 0;
    pthread_mutex_unlock(&pool->lock);
}
