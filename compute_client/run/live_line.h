#ifndef SLUICE_COMPUTE_CLIENT_RUN_LIVE_LINE_H
#define SLUICE_COMPUTE_CLIENT_RUN_LIVE_LINE_H

#include "op/form_words.h"
#include "sluice/sluice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The line that shows how an epoch goes, from the counters of a loader:
 *
 *     live counters -> meter: recent rates -> view: what there is to say -> text of a width
 *
 *     epoch 0 ━━━━━━╸─────  47%  1834 samples/s  0:41 left  loss 2.3145  498 Mbit/s
 *     limited by network  lent 4%  crop 93% raw 7%    (one line, if it is wide enough)
 *
 * Pure: the time comes from outside.
 * Threads: one at a time for each meter. */

/* --- recent rates --- */

/* Rates of the last seconds (EWMA: sums that decay, of what came and of the time it took). */
struct sluice_live_meter {
    uint64_t start_ns, seen_ns;
    uint64_t first_samples;                       /* at the start */
    uint64_t first_forms[SLUICE_MAX_FORMS];       /* the same */
    uint64_t first_on_gpu;                        /* the same */
    uint64_t last_samples, last_step, stepped_ns; /* the trainer takes them batch by batch */
    double samples, samples_s;                    /* of the last seconds */
    double many_samples, many_samples_s;          /* of ten times as many, for what is left */
    uint64_t last_bytes;
    double bytes, bytes_s;
    uint64_t last_stall_ns[SLUICE_NUM_RESOURCES];
    double stall_s[SLUICE_NUM_RESOURCES];
    uint64_t last_lent_ns, lent_seen_ns; /* 0: never seen */
    double lent_s, lent_of_s;
};

void sluice_live_meter_start(struct sluice_live_meter *meter, const struct sluice_counters *live,
                             uint64_t now_ns);
/* Something else begins, which is counted from 0; the rates go on. */
void sluice_live_meter_go_on(struct sluice_live_meter *meter, const struct sluice_counters *live);
/* As often as it is shown. */
void sluice_live_meter_see(struct sluice_live_meter *meter, const struct sluice_counters *live,
                           uint64_t now_ns);
/* The same for how long the GPU was lent, in sum. */
void sluice_live_meter_see_lent(struct sluice_live_meter *meter, uint64_t lent_ns, uint64_t now_ns);

/* --- what there is to say --- */

struct sluice_live_view {
    char what[96];           /* "epoch 0" */
    char what_brief[32];     /* may be "" */
    char detail[48];         /* "(JPEG crops)"; may be "" */
    uint64_t done, total;    /* samples */
    double samples_per_s;    /* NaN: not known yet */
    double left_s;           /* the same */
    double loss;             /* NaN: none; set by the caller */
    double wire_bytes_per_s; /* NaN: no network */
    double lent;             /* the share of the time that the GPU is lent */
    const char *limit;       /* "network"; "": not known yet */
    char choices[64];        /* "crop 93% raw 7% +gpu 98%", the most frequent first */
    double lost_s;           /* s since the server was lost; 0: it is not */
    double waits_s;          /* the trainer waits unusually long; 0: it does not */
};

/* The finished part of `total`, of which `first` were done before the meter's start; then come
 * `more`, at the same rate.  The names, the loss and has_network are the caller's. */
struct sluice_live_view sluice_live_view_of(const struct sluice_live_meter *meter,
                                            const struct sluice_counters *live, uint64_t first,
                                            uint64_t total, uint64_t more, bool has_network,
                                            uint64_t now_ns);

/* --- text --- */

/* At most `columns` wide; returns the columns that are taken. */
unsigned sluice_live_line(const struct sluice_live_view *view, unsigned columns, bool has_utf8,
                          char *out, size_t size);

/* All of it, for a log. */
void sluice_live_text(const struct sluice_live_view *view, char *out, size_t size);

#endif
