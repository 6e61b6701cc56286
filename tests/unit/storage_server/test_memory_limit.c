#include "storage_server/work/memory_limit.h"

#include "support/test.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[512];

static void new_machine(const char *meminfo)
{
    static int count;
    snprintf(root, sizeof(root), "%s/machine-%d", sluice_test_dir(), count++);
    sluice_test_put_text(root, "/proc/meminfo", meminfo);
}

static uint64_t limit_of(const char *its_root)
{
    uint64_t bytes = 0;
    CHECK_OK(sluice_memory_limit_default(its_root, 4, &bytes, NULL));
    return bytes;
}

TEST(is_half_of_the_machine_or_of_its_group)
{
    new_machine("MemTotal:        4000000 kB\nMemFree:          100 kB\n");
    CU_ASSERT_EQUAL(limit_of(root), 2000000ull * 1024);
    sluice_test_put_text(root, "/proc/self/mountinfo",
                         "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    sluice_test_put_text(root, "/proc/thread-self/cgroup", "0::/a\n");
    sluice_test_put_text(root, "/sys/fs/cgroup/cgroup.controllers", "memory\n");
    sluice_test_put_text(root, "/sys/fs/cgroup/a/memory.max", "1000000000\n");
    CU_ASSERT_EQUAL(limit_of(root), 500000000);
}

TEST(too_little_is_refused_by_words)
{
    new_machine("MemTotal:        40000 kB\n");
    uint64_t bytes = 7;
    CHECK_FAILS(SLUICE_E_NO_MEMORY, "19 MB",
                sluice_memory_limit_default(root, 4, &bytes, sluice_test_err()));
    CU_ASSERT_EQUAL(bytes, 7);
}

/* In a process of its own: the limit cannot be taken back. */
static int child_with_limit(int which, uint64_t most, unsigned num_threads)
{
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {most, most};
        uint64_t bytes = 0;
        if (setrlimit(which, &limit) != 0)
            _exit(3);
        if (sluice_memory_limit_default("", num_threads, &bytes, NULL) != SLUICE_OK)
            _exit(2);
        _exit(bytes < most / 2 ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(a_ulimit_leaves_room_for_stacks)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return; /* a sanitizer's address space is larger than any ulimit */
#endif
    CU_ASSERT_EQUAL(child_with_limit(RLIMIT_AS, 2000u << 20, 4), 0);
    CU_ASSERT_EQUAL(child_with_limit(RLIMIT_DATA, 2000u << 20, 4), 0);
    CU_ASSERT_EQUAL(child_with_limit(RLIMIT_AS, 2000u << 20, 10000), 2);
}

TEST(the_parts_leave_some_of_the_limit)
{
    for (uint64_t limit = 32u << 20; limit < 1ull << 40; limit *= 2) {
        const struct sluice_memory_parts parts = sluice_memory_limit_part(limit);
        CU_ASSERT(parts.budget > 0 && parts.live > parts.budget);
        CU_ASSERT(parts.live + parts.cached + parts.grpc < limit);
    }
    CU_ASSERT(sluice_memory_resident() > 100000);
}
