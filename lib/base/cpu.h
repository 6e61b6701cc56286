#ifndef SLUICE_BASE_CPU_H
#define SLUICE_BASE_CPU_H

#include "base/error.h"

#include <sys/types.h>

/* Which instruction set the kernels may use, decided once at start.
 *
 * The environment variable SLUICE_CPU=c|avx2|avx512|neon lowers the level (for
 * tests, and to reproduce another machine); a name this machine cannot run, or
 * no name at all, is logged once as a warning and the best level is taken.
 *
 * Threads: any. */

enum sluice_cpu_level {
    SLUICE_CPU_C,
    SLUICE_CPU_AVX2,   /* and FMA, which nearly every machine with AVX2 has */
    SLUICE_CPU_AVX512, /* F, BW, VL, VBMI and VNNI together */
    SLUICE_CPU_NEON,
};

enum sluice_cpu_level sluice_cpu_level(void);    /* after SLUICE_CPU; the same at every call */
enum sluice_cpu_level sluice_cpu_detected(void); /* what the machine has */
const char *sluice_cpu_level_name(enum sluice_cpu_level level);

unsigned sluice_cpu_count(void);         /* CPUs this process may run on (affinity), at least 1 */
unsigned sluice_cpu_count_of(pid_t tid); /* the same of another thread; 0: the calling one */

#endif
