#ifndef SLUICE_BENCH_BENCH_READER_LOAD_H
#define SLUICE_BENCH_BENCH_READER_LOAD_H

#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

/* An offload_server under full load: the server, and an offload_train that asks it for more than it
 * can do.  Both end with this process, and what fails ends the program, but for a server that
 * refuses its flags.
 *
 * Threads: all functions from one. */

struct load_options {
    const char *bin;    /* folder of the programs */
    const char *images; /* the server's root */
    const char *mode;   /* the client's --dataset-mode */
    uint64_t prep_workers, io_workers;
    cpu_set_t storage, client; /* CPUs of either */
};

struct load;

/* Returns once samples flow.  `flags`: of the server, until NULL.  NULL: the server refused them.
 */
struct load *load_start(const struct load_options *options, const char *const *flags);

uint64_t load_samples(struct load *load); /* that the server has answered so far */

/* CPU seconds that the server has had so far, and the client if it is to count. */
double load_cpu_s(const struct load *load, bool with_client);

void load_stop(struct load *load);

#endif
