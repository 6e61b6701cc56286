#ifndef SLUICE_STORAGE_SERVER_FETCH_OPTIONS_H
#define SLUICE_STORAGE_SERVER_FETCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sluice_buf_pool;
struct sluice_client_table;
struct sluice_disk_clock;
struct sluice_memory_budget;
struct sluice_sample_lists;
struct sluice_stats;
struct sluice_store;
struct sluice_tracer;
struct sluice_watchdog;
struct sluice_workers;

/* The parts of the server that the Fetch service uses, and its limits. */
struct sluice_fetch_options {
    struct sluice_sample_lists *lists;
    struct sluice_store *store;
    struct sluice_disk_clock *disk;
    struct sluice_buf_pool *buffers;
    struct sluice_workers *workers;
    struct sluice_watchdog *watchdog; /* of the workers */
    struct sluice_memory_budget *memory;
    struct sluice_client_table *clients;
    struct sluice_stats *stats;
    struct sluice_tracer *tracer; /* NULL: nothing is traced */
    size_t max_in_flight;         /* samples of one stream between request and reply */
    uint64_t hold_ns;             /* how long a reply waits for others at most (fetch.h) */
    bool reads_first;             /* IO reads, then PREP works: the store is remote */
    bool has_optimal_crops;       /* Huffman tables made for each JPEG crop */
    uint32_t min_crop_restart;    /* MCUs; 0: no restart markers but one for each row of a crop */
};

#endif
