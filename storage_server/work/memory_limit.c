#include "storage_server/work/memory_limit.h"

#include "host/cgroup.h"
#include "storage_server/tuning.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t least_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* A line "name:   123 kB" of a file of /proc, in bytes; 0: there is none. */
static uint64_t read_kb(const char *root, const char *path, const char *name)
{
    char full[SLUICE_CGROUP_PATH + 64], line[256];
    snprintf(full, sizeof(full), "%s%s", root, path);
    FILE *file = fopen(full, "re");
    if (!file)
        return 0;
    unsigned long long kb = 0;
    const size_t len = strlen(name);
    while (!kb && fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, len) == 0)
            (void)sscanf(line + len, ": %llu", &kb);
    }
    fclose(file);
    return (uint64_t)kb * 1024;
}

/* The bytes that a limit leaves after `used` and the threads; UINT64_MAX: the limit is not set. */
static uint64_t left_of(rlim_t limit, uint64_t used, uint64_t threads)
{
    if (limit == RLIM_INFINITY)
        return UINT64_MAX;
    return limit > used + threads ? limit - used - threads : 0;
}

sluice_status sluice_memory_limit_default(const char *root, unsigned num_threads, uint64_t *bytes,
                                          struct sluice_err *err)
{
    uint64_t all = sluice_cgroup_memory(root, 0);
    const uint64_t machine = read_kb(root, "/proc/meminfo", "MemTotal");
    if (machine)
        all = least_of(all, machine);
    if (all == UINT64_MAX)
        all = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    struct rlimit as, data, stack;
    uint64_t left = UINT64_MAX;
    if (getrlimit(RLIMIT_AS, &as) == 0 && getrlimit(RLIMIT_DATA, &data) == 0 &&
        getrlimit(RLIMIT_STACK, &stack) == 0) {
        const uint64_t of_stack =
            stack.rlim_cur == RLIM_INFINITY ? 2u << 20 : (uint64_t)stack.rlim_cur;
        const uint64_t threads =
            (num_threads + MEMORY_OTHER_THREADS) * (of_stack + MEMORY_THREAD_BYTES);
        left =
            least_of(left_of(as.rlim_cur, read_kb("", "/proc/self/status", "VmSize"), threads),
                     left_of(data.rlim_cur, read_kb("", "/proc/self/status", "VmData"), threads));
    }
    const uint64_t limit = least_of(all, left) / 2;
    if (limit < MEMORY_LEAST_LIMIT)
        return sluice_fail(
            err, SLUICE_E_NO_MEMORY,
            "only %llu MB of memory are left for samples (of the machine, the control "
            "group, or ulimit -v and -d); at least %u MB are needed: raise the limit, "
            "or start fewer threads",
            (unsigned long long)(limit >> 20), MEMORY_LEAST_LIMIT >> 20);
    *bytes = limit;
    return SLUICE_OK;
}

void sluice_memory_limit_apply(uint64_t limit)
{
    if (limit / MEMORY_TRIM_PART < MEMORY_MOST_TRIM)
        mallopt(M_TRIM_THRESHOLD, (int)(limit / MEMORY_TRIM_PART));
    if (limit / MEMORY_MMAP_PART < MEMORY_MOST_MMAP)
        mallopt(M_MMAP_THRESHOLD, (int)(limit / MEMORY_MMAP_PART));
    struct rlimit as;
    if (getrlimit(RLIMIT_AS, &as) == 0 && as.rlim_cur != RLIM_INFINITY) {
        mallopt(M_ARENA_MAX, 1); /* each arena but the first reserves 64 MB and more */
        mallopt(M_TOP_PAD, 1 << 20);
    }
}

struct sluice_memory_parts sluice_memory_limit_part(uint64_t limit)
{
    const uint64_t part = limit / 16;
    return (struct sluice_memory_parts){
        .budget = MEMORY_BUDGET_16THS * part,
        .live = (MEMORY_BUDGET_16THS + MEMORY_WORK_16THS) * part,
        .cached = least_of(MEMORY_CACHE_16THS * part, MEMORY_MAX_CACHE_BYTES),
        .grpc = MEMORY_GRPC_16THS * part,
    };
}

uint64_t sluice_memory_resident(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file)
        return 0;
    unsigned long long size = 0, resident = 0;
    const bool is_read = fscanf(file, "%llu %llu", &size, &resident) == 2;
    fclose(file);
    return is_read ? (uint64_t)resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}
