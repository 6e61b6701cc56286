#include "base/cpu.h"

#include "base/log.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char *const level_names[] = {
    [SLUICE_CPU_C] = "c",
    [SLUICE_CPU_AVX2] = "avx2",
    [SLUICE_CPU_AVX512] = "avx512",
    [SLUICE_CPU_NEON] = "neon",
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static enum sluice_cpu_level detected = SLUICE_CPU_C;
static enum sluice_cpu_level chosen = SLUICE_CPU_C;

static enum sluice_cpu_level detect(void)
{
#if defined(__x86_64__)
    /* The compiler's support code asks XGETBV too: an instruction set whose
     * registers the operating system does not save counts as absent. */
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return SLUICE_CPU_C;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
        __builtin_cpu_supports("avx512vnni"))
        return SLUICE_CPU_AVX512;
    return SLUICE_CPU_AVX2;
#elif defined(__aarch64__)
    return SLUICE_CPU_NEON; /* part of the base architecture */
#else
    return SLUICE_CPU_C;
#endif
}

/* The x86 levels contain each other; NEON contains none but C. */
static bool can_run(enum sluice_cpu_level machine, enum sluice_cpu_level level)
{
    if (level == SLUICE_CPU_C || level == machine)
        return true;
    return level == SLUICE_CPU_AVX2 && machine == SLUICE_CPU_AVX512;
}

static void decide(void)
{
    detected = detect();
    chosen = detected;

    const char *wish = getenv("SLUICE_CPU");
    if (!wish || !wish[0])
        return;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(level_names); i++) {
        if (strcmp(wish, level_names[i]) != 0)
            continue;
        if (can_run(detected, (enum sluice_cpu_level)i)) {
            chosen = (enum sluice_cpu_level)i;
        } else {
            sluice_log(SLUICE_LOG_WARN, "SLUICE_CPU=%s: this machine cannot run it; using %s", wish,
                       level_names[chosen]);
        }
        return;
    }
    sluice_log(SLUICE_LOG_WARN, "SLUICE_CPU=%s is none of c, avx2, avx512, neon; using %s", wish,
               level_names[chosen]);
}

enum sluice_cpu_level sluice_cpu_level(void)
{
    pthread_once(&once, decide);
    return chosen;
}

enum sluice_cpu_level sluice_cpu_detected(void)
{
    pthread_once(&once, decide);
    return detected;
}

const char *sluice_cpu_level_name(enum sluice_cpu_level level)
{
    return level_names[level];
}

unsigned sluice_cpu_count_of(pid_t tid)
{
    /* The kernel refuses a set that is smaller than its own, and does not tell its size. */
    for (int cpus = 1024; cpus <= 1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC((size_t)cpus);
        if (!set)
            return 1;
        const size_t bytes = CPU_ALLOC_SIZE((size_t)cpus);
        const bool is_read = sched_getaffinity(tid, bytes, set) == 0;
        const int count = is_read ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (is_read)
            return count > 0 ? (unsigned)count : 1;
    }
    return 1;
}

unsigned sluice_cpu_count(void)
{
    return sluice_cpu_count_of(0);
}
