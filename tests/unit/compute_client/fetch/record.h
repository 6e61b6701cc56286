#ifndef SLUICE_TESTS_FETCH_RECORD_H
#define SLUICE_TESTS_FETCH_RECORD_H

#include "compute_client/loader/source/source.h"

#include <pthread.h>

/* All that a source says, by ticket, and what it is asked for: ticket t is sample t %
 * RECORD_SAMPLES.
 *
 * Threads: fields under the lock while the source is open. */

#define RECORD_SAMPLES 30
#define RECORD_MAX_ITEMS 6000

struct record {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned answers[RECORD_MAX_ITEMS];
    sluice_status status[RECORD_MAX_ITEMS];
    uint32_t origin[RECORD_MAX_ITEMS];
    unsigned ops_done[RECORD_MAX_ITEMS];
    bool is_jpeg_crop[RECORD_MAX_ITEMS];
    struct sluice_file_image images[RECORD_MAX_ITEMS];
    char error[RECORD_MAX_ITEMS][200];
    uint64_t order[RECORD_MAX_ITEMS]; /* tickets as they came */
    /* wrong: the bytes of another sample, or an event after the failure. */
    size_t num_answers, num_good, num_wrong;
    size_t from[8]; /* answers by origin */
    double cores;   /* storage_cores as last told */
    bool has_failed;
    sluice_status failure;
    char failure_text[400];
    struct sluice_source *source; /* told of what was consumed unless keeps_payload */
    bool keeps_payload;
    size_t kept_bytes;
};

void record_init(struct record *r); /* zeroed */
void record_clear(struct record *r);

struct sluice_source_events record_events(struct record *r);

/* Tickets first .. first + count at `split`; `file_bytes` of each, 0: not known. */
sluice_status record_ask(struct record *r, uint64_t first, size_t count, unsigned split,
                         uint64_t file_bytes);

/* True once so many answers are in, false if the source failed before. */
bool record_wait_answers(struct record *r, size_t count);
void record_wait_failed(struct record *r);

/* Tickets below `count` were answered once, and no other. */
bool record_has_each_once(const struct record *r, size_t count);

#endif
