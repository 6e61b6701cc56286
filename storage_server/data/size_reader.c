#include "storage_server/data/size_reader.h"

#include "datasets/manifest/manifest.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/side_thread.h"
#include "store/store.h"

#include <pthread.h>
#include <stdlib.h>

struct sluice_size_reader {
    pthread_mutex_t lock;
    struct sluice_sample_list *list; /* a reference; whose sizes these are; NULL: none yet */
    struct sluice_image_sizes *sizes;
    bool is_reading;      /* or is to; list and sizes stay as they are meanwhile */
    bool is_complete;     /* all sizes are known */
    sluice_status status; /* of a reading that failed, until a client has heard of it */
    struct sluice_err why;
    struct sluice_side_thread thread;

    struct sluice_size_reader_options options; /* constant */
};

static void read_all(struct sluice_size_reader *reader)
{
    struct sluice_err why = {0};
    const struct sluice_image_sizes_source source = {
        .manifest = reader->list->manifest,
        .store = reader->options.store,
        .num_threads = reader->options.num_threads,
        .is_cancelled = &reader->thread.is_stopping,
        .owner = reader,
    };
    const sluice_status status = sluice_image_sizes_read(reader->sizes, &source, &why);
    pthread_mutex_lock(&reader->lock);
    reader->is_reading = false;
    reader->is_complete = status == SLUICE_OK;
    reader->status = status;
    reader->why = why;
    pthread_mutex_unlock(&reader->lock);
}

static void *reader_main(void *ctx)
{
    struct sluice_size_reader *reader = ctx;
    pthread_setname_np(pthread_self(), "sizes");
    pthread_mutex_lock(&reader->lock);
    for (;;) {
        while (!reader->is_reading && !reader->thread.is_stopping)
            pthread_cond_wait(&reader->thread.changed, &reader->lock);
        if (reader->thread.is_stopping)
            break;
        pthread_mutex_unlock(&reader->lock);
        read_all(reader);
        pthread_mutex_lock(&reader->lock);
    }
    pthread_mutex_unlock(&reader->lock);
    return NULL;
}

sluice_status sluice_size_reader_create(const struct sluice_size_reader_options *options,
                                        struct sluice_size_reader **reader, struct sluice_err *err)
{
    struct sluice_size_reader *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the sizes of images");
    pthread_mutex_init(&made->lock, NULL);
    made->options = *options;
    const sluice_status status = sluice_side_thread_open(&made->thread, &made->lock, reader_main,
                                                         made, "the reader of images' sizes", err);
    if (status == SLUICE_OK)
        *reader = made;
    else
        sluice_size_reader_destroy(made);
    return status;
}

void sluice_size_reader_destroy(struct sluice_size_reader *reader)
{
    if (!reader)
        return;
    atomic_store(&reader->thread.is_stopping, true);
    reader->options.store->cancel(reader->options.store, reader);
    sluice_side_thread_clear(&reader->thread);
    sluice_image_sizes_destroy(reader->sizes);
    sluice_sample_list_unref(reader->list);
    pthread_mutex_destroy(&reader->lock);
    free(reader);
}

/* Under the lock: begins a table, unless the one here serves or is still being filled in. */
static sluice_status start(struct sluice_size_reader *reader, struct sluice_sample_list *list,
                           bool is_upright, struct sluice_err *err)
{
    struct sluice_image_sizes *sizes;
    const bool is_right =
        reader->list == list && (!is_upright || sluice_image_sizes_is_upright(reader->sizes));
    if (reader->is_reading || (is_right && reader->is_complete))
        return SLUICE_OK;
    if (!is_right) {
        const sluice_status status =
            sluice_image_sizes_create(list->manifest->num_entries, is_upright, &sizes, err);
        if (status != SLUICE_OK)
            return status;
        sluice_image_sizes_destroy(reader->sizes);
        sluice_sample_list_unref(reader->list);
        reader->sizes = sizes;
        reader->list = sluice_sample_list_ref(list);
        reader->is_complete = false;
    }
    reader->is_reading = true;
    pthread_cond_signal(&reader->thread.changed);
    return SLUICE_OK;
}

sluice_status sluice_size_reader_get(struct sluice_size_reader *reader,
                                     struct sluice_sample_list *list, bool is_upright, size_t first,
                                     size_t most, struct sluice_image_size *sizes, size_t *num,
                                     struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    if (reader->options.parses_no_images)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the sizes of its images are not in its list, and with "
                           "--isolate-decoders it reads no headers: run offload_dataset index on "
                           "the dataset");
    *num = 0;
    pthread_mutex_lock(&reader->lock);
    if (reader->status != SLUICE_OK) {
        status = sluice_fail(err, reader->status, "%s", reader->why.text);
        reader->status = SLUICE_OK;
    } else {
        status = start(reader, list, is_upright, err);
    }
    const size_t end = list->manifest->num_entries;
    const bool is_served = status == SLUICE_OK && reader->list == list &&
                           (!is_upright || sluice_image_sizes_is_upright(reader->sizes));
    while (is_served && *num < most && first + *num < end &&
           sluice_image_sizes_get(reader->sizes, first + *num, &sizes[*num]))
        ++*num;
    pthread_mutex_unlock(&reader->lock);
    return status;
}
