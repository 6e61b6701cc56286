/* Reads all objects of a store, with many threads: bytes per second and CPU time.  The objects are
 * those of a folder with the same files.  docs/BENCHMARKING.md */

#include "base/array.h"
#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "store/open.h"
#include "store/store_cache.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_OBJECT_BYTES (64u << 20)

struct work {
    struct sluice_store *store;
    struct sluice_object *objects; /* as the store has them */
    size_t num_objects, capacity;
    uint64_t passes;
    atomic_size_t next; /* of all passes together; relaxed: a ticket */
    atomic_uint_fast64_t bytes;
};

static sluice_status add(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)err;
    struct work *work = ctx;
    const char *dot = strrchr(object->key, '.');
    if (!dot || (strcasecmp(dot, ".jpg") != 0 && strcasecmp(dot, ".jpeg") != 0 &&
                 strcasecmp(dot, ".png") != 0))
        return SLUICE_OK;
    if (!sluice_array_reserve(&work->objects, &work->capacity, work->num_objects + 1,
                              sizeof(*work->objects)))
        bench_die("no memory");
    work->objects[work->num_objects] = *object;
    work->objects[work->num_objects++].key = strdup(object->key);
    return SLUICE_OK;
}

/* Versions of the store, which the folder's are not. */
static void *describe_all(void *ctx)
{
    struct work *work = ctx;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->num_objects;) {
        struct sluice_err err = {0};
        const char *key = work->objects[i].key;
        bench_check(work->store->describe(work->store, key, &work->objects[i], &err), &err);
    }
    return NULL;
}

static void *read_all(void *ctx)
{
    struct work *work = ctx;
    uint64_t bytes = 0;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->num_objects * work->passes;) {
        const struct sluice_object *object = &work->objects[i % work->num_objects];
        const struct sluice_store_read read = {
            .key = object->key, .bytes = object->bytes, .version = object->version};
        struct sluice_err err = {0};
        struct sluice_buf *buf = NULL;
        bench_check(work->store->read(work->store, &read, &buf, &err), &err);
        bytes += buf->len;
        sluice_buf_unref(buf);
    }
    atomic_fetch_add(&work->bytes, bytes);
    return NULL;
}

static void run(struct work *work, unsigned num_threads, void *(*fn)(void *))
{
    pthread_t threads[256];
    atomic_store(&work->next, 0);
    atomic_store(&work->bytes, 0);
    for (unsigned i = 0; i < num_threads; i++) {
        if (pthread_create(&threads[i], NULL, fn, work))
            bench_die("no threads");
    }
    for (unsigned i = 0; i < num_threads; i++)
        pthread_join(threads[i], NULL);
}

static void open_store(struct work *work, const char *root, const char *endpoint, const char *cache,
                       uint64_t cache_bytes)
{
    struct sluice_err err = {0};
    const struct sluice_store_options options = {
        .root = root, .max_object_bytes = MAX_OBJECT_BYTES, .s3_endpoint = endpoint};
    bench_check(sluice_store_open(&options, &work->store, &err), &err);
    if (!cache)
        return;
    const struct sluice_store_cache_options kept = {cache, cache_bytes};
    bench_check(sluice_store_cache_prepare(cache, &err), &err);
    bench_check(sluice_store_cache_open(&kept, work->store, &work->store, &err), &err);
}

int main(int argc, char **argv)
{
    const char *root = NULL, *like = NULL, *endpoint = NULL, *cache = NULL;
    uint64_t num_threads = 64, repeats = 3, passes = 10, cache_bytes = UINT64_C(1) << 40;
    bool is_json = false;
    const struct sluice_option options[] = {
        {.name = "root",
         SLUICE_VALUE_STRING(root, "URL"),
         .is_required = true,
         .help = "As of offload_server."},
        {.name = "like",
         SLUICE_VALUE_STRING(like, "DIR"),
         .is_required = true,
         .help = "Folder with the same files, whose names are read."},
        {.name = "s3-endpoint",
         SLUICE_VALUE_STRING(endpoint, "URL"),
         .help = "As of offload_server."},
        {.name = "cache",
         SLUICE_VALUE_STRING(cache, "DIR"),
         .help = "The same; it is filled before anything is timed."},
        {.name = "threads",
         SLUICE_VALUE_UINT(num_threads, "N"),
         SLUICE_RANGE(1, 256),
         .help = "That read."},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         SLUICE_RANGE(1, 1000),
         .help = "Rows."},
        {.name = "passes",
         SLUICE_VALUE_UINT(passes, "N"),
         SLUICE_RANGE(1, 1000000),
         .help = "Over the files, in each."},
        {.name = "json", SLUICE_VALUE_FLAG(is_json), .help = "An object for each row."},
    };
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Reads all objects of a store.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    struct work work = {.passes = 1};
    struct sluice_store *folder = NULL;
    struct sluice_err err = {0};
    const struct sluice_store_options of_folder = {.root = like,
                                                   .max_object_bytes = MAX_OBJECT_BYTES};
    bench_check(sluice_store_open(&of_folder, &folder, &err), &err);
    bench_check(folder->list(folder, "", add, &work, &err), &err);
    folder->destroy(folder);
    if (!work.num_objects)
        bench_die("%s: no images", like);
    open_store(&work, root, endpoint, cache, cache_bytes);
    bench_print_machine();
    run(&work, (unsigned)num_threads, describe_all);
    run(&work, (unsigned)num_threads, read_all); /* a warm-up, which fills caches */
    work.passes = passes;
    struct bench_report report = {.is_json = is_json};
    for (uint64_t i = 0; i < repeats; i++) {
        const uint64_t began_ns = sluice_clock_ns(), cpu_ns = sluice_process_cpu_ns();
        run(&work, (unsigned)num_threads, read_all);
        const double seconds = (double)(sluice_clock_ns() - began_ns) * 1e-9;
        const double bytes = (double)atomic_load(&work.bytes);
        bench_row_begin(&report, "read");
        bench_row_number(&report, "objects_per_s", 1,
                         (double)(work.num_objects * passes) / seconds);
        bench_row_number(&report, "mb_per_s", 2, bytes * 1e-6 / seconds);
        bench_row_number(&report, "cpu_s_per_gb", 3,
                         (double)(sluice_process_cpu_ns() - cpu_ns) / bytes);
        bench_row_end(&report);
    }
    work.store->destroy(work.store);
    for (size_t i = 0; i < work.num_objects; i++)
        free((char *)(uintptr_t)work.objects[i].key);
    free(work.objects);
    return 0;
}
