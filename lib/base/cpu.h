#ifndef SLUICE_BASE_CPU_H
#define SLUICE_BASE_CPU_H

#include "base/error.h"

#include <sys/types.h>

/* The instruction set for kernels, chosen once at start.
 *
 * The environment variable SLUICE_CPU=c|avx2|avx512|neon lowers the level (for tests, and to
 * reproduce another machine); an unsupported or invalid name is logged once as a warning, and the
 * best level is used.
 *
 * Threads: any. */

enum sluice_cpu_level {
    SLUICE_CPU_C,
    SLUICE_CPU_AVX2,   /* and FMA, which nearly every machine with AVX2 has */
    SLUICE_CPU_AVX512, /* F, BW, VL, VBMI and VNNI together */
    SLUICE_CPU_NEON,
};

enum sluice_cpu_level sluice_cpu_level(void);    /* with SLUICE_CPU applied; constant */
enum sluice_cpu_level sluice_cpu_detected(void); /* the machine's best */
const char *sluice_cpu_level_name(enum sluice_cpu_level level);

unsigned sluice_cpu_count(void);         /* CPUs this process may run on (affinity), at least 1 */
unsigned sluice_cpu_count_of(pid_t tid); /* for another thread; 0: the calling one */

#endif
