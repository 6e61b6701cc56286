#include "host/machine.h"

#include "support/test.h"

#include <math.h>

#define V2 "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

static char root[512];

/* A machine whose processes are in a group with that cpu.max. */
static void new_machine(const char *boot_id, const char *cpu_max)
{
    static int count;
    snprintf(root, sizeof(root), "%s/machine-%d", sluice_test_dir(), count++);
    sluice_test_put_text(root, "/proc/sys/kernel/random/boot_id", boot_id);
    sluice_test_put_text(root, "/proc/self/mountinfo", V2);
    sluice_test_put_text(root, "/proc/thread-self/cgroup", "0::/job\n");
    sluice_test_put_text(root, "/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
    sluice_test_put_text(root, "/sys/fs/cgroup/job/cpu.max", cpu_max);
    sluice_test_put_text(root, "/sys/fs/cgroup/job/cpu.stat",
                         "usage_usec 2500000\nuser_usec 2000000\nsystem_usec 500000\n");
}

static struct sluice_machine machine_of(uint64_t boot, uint8_t cpus)
{
    return (struct sluice_machine){
        .boot = boot, .quota = INFINITY, .num_cpu_bytes = 1, .cpus = {cpus}};
}

TEST(names_the_boot_and_the_group_that_has_a_quota)
{
    struct sluice_machine a, b;
    new_machine("2f1c0f44\n", "150000 100000\n");
    sluice_machine_here(root, &a);
    CU_ASSERT(a.boot != 0 && a.group != 0 && a.num_cpu_bytes > 0);
    CU_ASSERT_DOUBLE_EQUAL(a.quota, 1.5, 1e-9);
    new_machine("another\n", "max 100000\n");
    sluice_machine_here(root, &b);
    CU_ASSERT(b.boot != 0 && b.boot != a.boot);
    CU_ASSERT_EQUAL(b.group, 0);
    CU_ASSERT(isinf(b.quota));
    sluice_machine_here("/no/such/folder", &b);
    CU_ASSERT_EQUAL(b.boot, 0);
}

TEST(shares_the_union_of_sets_that_meet)
{
    static const struct {
        struct {
            uint64_t boot;
            uint8_t cpus;
        } a, b;
        double cores;
    } cases[] = {
        {{1, 0x03}, {1, 0x03}, 2}, /* everybody's first try */
        {{1, 0xff}, {1, 0x03}, 8}, /* the trainer in a smaller container */
        {{1, 0x01}, {1, 0x02}, 0}, /* pinned to a core each */
        {{1, 0x03}, {2, 0x03}, 0}, /* two machines */
        {{0, 0x03}, {0, 0x03}, 0}, /* not told */
    };
    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        const struct sluice_machine a = machine_of(cases[k].a.boot, cases[k].a.cpus);
        const struct sluice_machine b = machine_of(cases[k].b.boot, cases[k].b.cpus);
        CU_ASSERT_EQUAL(sluice_machine_shared_cores(&a, &b), cases[k].cores);
        CU_ASSERT_EQUAL(sluice_machine_shared_cores(&b, &a), cases[k].cores);
    }
}

TEST(a_common_quota_is_shared_whatever_the_sets)
{
    struct sluice_machine a = machine_of(1, 0x0f), b = machine_of(1, 0xf0);
    a.group = b.group = 5;
    a.quota = b.quota = 2.5;
    CU_ASSERT_EQUAL(sluice_machine_shared_cores(&a, &b), 2.5);
    b.group = 6; /* another container with the same quota */
    CU_ASSERT_EQUAL(sluice_machine_shared_cores(&a, &b), 0);
}

TEST(servers_of_one_machine_are_merged_and_of_two_are_none)
{
    struct sluice_machine sum = machine_of(1, 0x01);
    struct sluice_machine other = machine_of(1, 0x02);
    other.cpus[1] = 0x80;
    other.num_cpu_bytes = 2;
    sluice_machine_merge(&sum, &other);
    CU_ASSERT_EQUAL(sum.num_cpu_bytes, 2);
    CU_ASSERT(sum.cpus[0] == 0x03 && sum.cpus[1] == 0x80);
    other.boot = 2;
    sluice_machine_merge(&sum, &other);
    CU_ASSERT_EQUAL(sum.boot, 0);
    CU_ASSERT_EQUAL(sluice_machine_shared_cores(&sum, &other), 0);
}

TEST(busy_is_what_these_cpus_did)
{
    new_machine("x\n", "max 100000\n");
    sluice_test_put_text(root, "/proc/stat",
                         "cpu  600 0 600 6000 60 6 6 6 0 0\n"
                         "cpu0 100 10 200 5000 50 3 4 5 90 0\n"
                         "cpu1 1000 0 0 1000 10 0 0 0 0 0\n"
                         "cpu10 7000 0 0 1000 10 0 0 0 0 0\n"
                         "intr 12345 0 1\n");
    const struct sluice_machine first = machine_of(1, 0x01), second = machine_of(1, 0x02);
    const struct sluice_machine third = machine_of(1, 0x04);
    /* user, nice, system, irq, softirq and steal; ticks of 10 ms */
    CU_ASSERT_DOUBLE_EQUAL(sluice_machine_busy_s(root, &first, &first), 3.22, 1e-9);
    CU_ASSERT_DOUBLE_EQUAL(sluice_machine_busy_s(root, &first, &second), 13.22, 1e-9);
    CU_ASSERT(sluice_machine_busy_s(root, &first, &third) < 0); /* CPU 2 is not told of */
    CU_ASSERT(sluice_machine_busy_s("/no/such/folder", &first, &first) < 0);
}

TEST(busy_under_a_quota_is_what_the_group_did)
{
    new_machine("x\n", "50000 100000\n");
    struct sluice_machine a = machine_of(1, 0x03);
    a.group = 5;
    a.quota = 0.5;
    CU_ASSERT_DOUBLE_EQUAL(sluice_machine_busy_s(root, &a, &a), 2.5, 1e-9);
}
