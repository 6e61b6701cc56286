/* Beneath a build of the extension for tests: batches of the host that it takes for a CUDA
 * device's, and a list of how they were released.  The linker puts the functions here between the
 * extension and libsluice (--wrap). */

#include <sluice/sluice.h>

#include <pthread.h>

#define VISIBLE __attribute__((visibility("default")))

enum { MAX_RELEASED = 4096 };

struct release {
    uint64_t index; /* of the batch */
    uint64_t stream;
    int is_after; /* whether a stream was named */
};

VISIBLE int fake_device = -1;
VISIBLE struct release fake_released[MAX_RELEASED];
VISIBLE unsigned fake_num_released;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void note(const struct sluice_batch *batch, void *stream, bool is_after)
{
    pthread_mutex_lock(&lock);
    if (batch && fake_num_released < MAX_RELEASED)
        fake_released[fake_num_released++] =
            (struct release){batch->index, (uint64_t)(uintptr_t)stream, is_after};
    pthread_mutex_unlock(&lock);
}

void __real_sluice_batch_release(const struct sluice_batch *batch);
void __wrap_sluice_batch_release(const struct sluice_batch *batch);
void __wrap_sluice_batch_release(const struct sluice_batch *batch)
{
    note(batch, NULL, false);
    __real_sluice_batch_release(batch);
}

void __wrap_sluice_batch_release_after(const struct sluice_batch *batch, void *stream);
void __wrap_sluice_batch_release_after(const struct sluice_batch *batch, void *stream)
{
    note(batch, stream, true);
    __real_sluice_batch_release(batch); /* there is no such stream */
}

int __wrap_sluice_loader_device(const struct sluice_loader *loader);
int __wrap_sluice_loader_device(const struct sluice_loader *loader)
{
    (void)loader;
    return fake_device;
}
