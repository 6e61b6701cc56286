#ifndef SLUICE_BENCH_BENCH_H
#define SLUICE_BENCH_BENCH_H

#include "base/cpu.h"
#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Shared by the bench programs: statistics, pinning, and rows of results.
 *
 * Threads: one at a time. */

double bench_mean(const double *values, size_t num_values);
/* Sorts `values`.  0.5 is the median: between the middle two if their number is even. */
double bench_quantile(double *values, size_t num_values, double q);

/* Binds the process to the n-th of the CPUs it was started on, round and round.  Call it first,
 * and once per process: what is forked later inherits it. */
void bench_pin(unsigned n);

/* A child of this program; both get one end of a socket pair.  0 in the child. */
pid_t bench_fork(int *control);

/* Ends the program with a message. */
_Noreturn void bench_die(const char *fmt, ...);
/* The same with the error's text, unless the status is OK. */
void bench_check(sluice_status status, const struct sluice_err *err);
/* As calloc(), and `count` may be 0; ends the program without memory. */
void *bench_alloc(size_t count, size_t size);

/* All of `len` bytes, or the program ends; false if the other end is closed at the first. */
bool bench_read_all(int fd, void *out, size_t len);
void bench_write_all(int fd, const void *data, size_t len);

/* The best CPU level of this machine.  Asked in a process of its own: this one, and what it forks,
 * may still choose another by SLUICE_CPU. */
enum sluice_cpu_level bench_best_level(void);

/* Which machine and what build, for people and on stderr: times mean nothing without. */
void bench_print_machine(void);

/* Rows, as a table for people or (is_json) as one JSON object a line:
 *
 *     bench_row_begin(&report, "exact f32");
 *     bench_row_number(&report, "us", 1, 751.2);
 *     bench_row_end(&report);
 *
 * A table's head is printed whenever the columns change. */
#define BENCH_MAX_CELLS 18

struct bench_report {
    bool is_json;
    const char *name; /* the row in hand */
    struct bench_cell {
        const char *key, *text; /* text NULL: a number */
        double number;
        int digits;
    } cells[BENCH_MAX_CELLS];
    size_t num_cells;
    char head[256]; /* the one printed last */
};

void bench_row_begin(struct bench_report *report, const char *name); /* borrows the name */
/* NaN stands for "not measured": null, or a dash.  `digits` after the point. */
void bench_row_number(struct bench_report *report, const char *key, int digits, double number);
void bench_row_text(struct bench_report *report, const char *key, const char *text);
void bench_row_end(struct bench_report *report);

#endif
