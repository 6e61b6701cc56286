#ifndef SLUICE_BASE_CLOCK_H
#define SLUICE_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Clocks for measurements and deadlines.  Threads: any.  Cannot fail. */

uint64_t sluice_clock_ns(void);       /* monotonic, from an arbitrary start */
uint64_t sluice_thread_cpu_ns(void);  /* CPU time of the calling thread */
uint64_t sluice_process_cpu_ns(void); /* of all threads of this process */

/* Adds CPU time of another process, spent for the calling thread, to both CPU clocks above. */
void sluice_clock_add_cpu_ns(uint64_t ns);

struct timespec sluice_clock_timespec(uint64_t ns); /* a moment or a length */
void sluice_clock_sleep_until(uint64_t ns); /* of sluice_clock_ns(); signals do not end it */

#endif
