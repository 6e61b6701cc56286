#ifndef SLUICE_METRICS_EXPOSITION_H
#define SLUICE_METRICS_EXPOSITION_H

#include "metrics/histogram.h"

#include <stddef.h>
#include <stdint.h>

/* Writes a page of counters for a monitoring system: Prometheus' text format 0.0.4
 * (https://prometheus.io/docs/instrumenting/exposition_formats/).
 *
 *     family  ->  its samples, one for each set of labels  ->  the next family  ->  ...
 *
 * Promises: each family has one HELP and one TYPE line before its samples, which stand together;
 * label values may be any bytes and come out as valid UTF-8, escaped; a histogram's buckets are
 * cumulative and end with +Inf, which equals its _count.  Our own names are asserted: they are
 * valid, begin with sluice_, are used once on a page, and a counter's, and no other's, ends in
 * _total.
 *
 * Threads: one at a time for each page. */

struct sluice_exposition;

enum sluice_metric_type { SLUICE_COUNTER, SLUICE_GAUGE, SLUICE_HISTOGRAM };

struct sluice_label {
    const char *name, *value; /* the value: any text */
};

/* NULL: no memory. */
struct sluice_exposition *sluice_exposition_create(void);
/* Ends the page and frees *page.  The text, to be freed; NULL: there was no memory for it. */
char *sluice_exposition_finish(struct sluice_exposition *page);

/* Begins a family.  `help` is one sentence; both are borrowed until the page ends. */
void sluice_exposition_family(struct sluice_exposition *page, const char *name,
                              enum sluice_metric_type type, const char *help);

/* Samples of the counter or gauge that began last. */
void sluice_exposition_count(struct sluice_exposition *page, const struct sluice_label *labels,
                             size_t num_labels, uint64_t value);
void sluice_exposition_value(struct sluice_exposition *page, const struct sluice_label *labels,
                             size_t num_labels, double value);
/* A sample of the histogram that began last, in seconds. */
void sluice_exposition_histogram(struct sluice_exposition *page, const struct sluice_label *labels,
                                 size_t num_labels, const struct sluice_histogram *histogram);
/* The same of counts[num_bounds + 1] with upper bounds of their own, ascending. */
void sluice_exposition_buckets(struct sluice_exposition *page, const struct sluice_label *labels,
                               size_t num_labels, const uint64_t *bounds_ns, size_t num_bounds,
                               const uint64_t *counts, uint64_t sum_ns);

/* A family with one sample and no labels. */
void sluice_exposition_counter(struct sluice_exposition *page, const char *name, uint64_t value,
                               const char *help);
void sluice_exposition_seconds(struct sluice_exposition *page, const char *name, double seconds,
                               const char *help); /* a counter of time */
void sluice_exposition_gauge(struct sluice_exposition *page, const char *name, double value,
                             const char *help);

/* Writes `text` to out[room] (room > 0) as a label shows it, on one line of valid UTF-8: U+FFFD for
 * each byte that belongs to no character, and control characters as sluice_escape_line() has them.
 * Text that does not fit is cut between two characters. */
void sluice_label_text(char *out, size_t room, const char *text);

#endif
