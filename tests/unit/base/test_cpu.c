#include "base/cpu.h"

#include "support/capture.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sluice_test_output output;

#if defined(__x86_64__)
/* Does a line of /proc/cpuinfo's flags hold the word?  The kernel lists an
 * instruction set only if it also saves its registers. */
static bool has_flag(const char *word)
{
    static char flags[16384];
    FILE *file = fopen("/proc/cpuinfo", "r");
    bool found = false;
    while (file && !found && fgets(flags, sizeof(flags), file)) {
        if (strncmp(flags, "flags", 5) != 0)
            continue;
        for (char *save, *flag = strtok_r(flags, " \t\n", &save); flag;
             flag = strtok_r(NULL, " \t\n", &save))
            found = found || strcmp(flag, word) == 0;
        break;
    }
    if (file)
        fclose(file);
    return found;
}
#endif

static enum sluice_cpu_level expected_level(void)
{
#if defined(__x86_64__)
    if (!has_flag("avx2") || !has_flag("fma"))
        return SLUICE_CPU_C;
    return has_flag("avx512f") && has_flag("avx512bw") && has_flag("avx512vl") &&
                   has_flag("avx512vbmi") && has_flag("avx512_vnni")
               ? SLUICE_CPU_AVX512
               : SLUICE_CPU_AVX2;
#elif defined(__aarch64__)
    return SLUICE_CPU_NEON;
#else
    return SLUICE_CPU_C;
#endif
}

/* The level is decided once in a process, so each wish has its own. */
static int level_under_wish(void *ctx)
{
    const char *wish = ctx;
    if (wish)
        setenv("SLUICE_CPU", wish, 1);
    else
        unsetenv("SLUICE_CPU");
    const enum sluice_cpu_level level = sluice_cpu_level();
    setenv("SLUICE_CPU", "c", 1); /* too late to matter */
    if (sluice_cpu_level() != level || sluice_cpu_detected() != expected_level())
        return 99;
    return (int)level;
}

static int run_wish(const char *wish)
{
    const int status = sluice_test_child(level_under_wish, (void *)wish, &output);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Each process remembers its first call: the children that make wishes come first. */
TEST(takes_the_best_without_a_wish)
{
    CU_ASSERT_EQUAL(run_wish(NULL), (int)expected_level());
    CU_ASSERT_STRING_EQUAL(output.err, "");
}

TEST(a_wish_lowers_the_level)
{
    CU_ASSERT_EQUAL(run_wish("c"), SLUICE_CPU_C);
    CU_ASSERT_STRING_EQUAL(output.err, "");
    if (expected_level() == SLUICE_CPU_AVX2 || expected_level() == SLUICE_CPU_AVX512) {
        CU_ASSERT_EQUAL(run_wish("avx2"), SLUICE_CPU_AVX2);
        CU_ASSERT_STRING_EQUAL(output.err, "");
    }
    CU_ASSERT_EQUAL(run_wish(sluice_cpu_level_name(expected_level())), (int)expected_level());
    CU_ASSERT_STRING_EQUAL(output.err, "");
}

TEST(a_wish_that_cannot_be_met_is_a_warning_once)
{
    const char *foreign =
        expected_level() == SLUICE_CPU_NEON ? "avx2" : "neon"; /* never on one machine */
    const char *const wishes[] = {foreign, "sse9", "AVX2"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wishes); i++) {
        CU_ASSERT_EQUAL(run_wish(wishes[i]), (int)expected_level());
        CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(output.err, "warning: SLUICE_CPU="));
        CU_ASSERT_PTR_NOT_NULL(strstr(output.err, wishes[i]));
        CU_ASSERT_PTR_EQUAL(strchr(output.err, '\n'), output.err + strlen(output.err) - 1);
    }
}

TEST(detects_what_the_kernel_lists)
{
    CU_ASSERT_EQUAL(sluice_cpu_detected(), expected_level());
}

TEST(levels_have_the_names_of_the_variable)
{
    CU_ASSERT_STRING_EQUAL(sluice_cpu_level_name(SLUICE_CPU_C), "c");
    CU_ASSERT_STRING_EQUAL(sluice_cpu_level_name(SLUICE_CPU_AVX2), "avx2");
    CU_ASSERT_STRING_EQUAL(sluice_cpu_level_name(SLUICE_CPU_AVX512), "avx512");
    CU_ASSERT_STRING_EQUAL(sluice_cpu_level_name(SLUICE_CPU_NEON), "neon");
}

static int count_on_one_cpu(void *ctx)
{
    (void)ctx;
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        return 99;
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    }
    if (sched_setaffinity(0, sizeof(one), &one) != 0)
        return 98;
    return (int)sluice_cpu_count();
}

TEST(counts_the_cpus_of_this_process)
{
    cpu_set_t set;
    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(0, sizeof(set), &set), 0);
    CU_ASSERT_EQUAL(sluice_cpu_count(), (unsigned)CPU_COUNT(&set));
    const int status = sluice_test_child(count_on_one_cpu, NULL, &output);
    CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

struct other {
    pthread_t thread;
    pid_t tid;
    sem_t is_bound, may_end;
};

static void *bind_and_wait(void *arg)
{
    struct other *other = arg;
    other->tid = count_on_one_cpu(NULL) == 1 ? gettid() : 0;
    sem_post(&other->is_bound);
    while (sem_wait(&other->may_end) != 0)
        ;
    return NULL;
}

TEST(counts_the_cpus_of_another_thread)
{
    const unsigned ours = sluice_cpu_count();
    struct other other = {.tid = 0};
    sem_init(&other.is_bound, 0, 0);
    sem_init(&other.may_end, 0, 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&other.thread, NULL, bind_and_wait, &other), 0);
    while (sem_wait(&other.is_bound) != 0)
        ;
    CU_ASSERT(other.tid > 0);
    CU_ASSERT_EQUAL(sluice_cpu_count_of(other.tid), 1);
    CU_ASSERT_EQUAL(sluice_cpu_count_of(0), ours);
    sem_post(&other.may_end);
    pthread_join(other.thread, NULL);
}
