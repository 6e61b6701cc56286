#include "host/cgroup.h"

#include "base/cpu.h"
#include "base/file.h"
#include "support/test.h"

#include <math.h>
#include <stdarg.h>
#include <unistd.h>

static char root[512];

/* A machine without any file yet. */
static void new_machine(void)
{
    static int count;
    snprintf(root, sizeof(root), "%s/machine-%d", sluice_test_dir(), count++);
}

static void put(const char *path, const char *text)
{
    sluice_test_put_text(root, path, text);
}

static void is_at(const struct sluice_cgroup *group, const char *mount, const char *folder)
{
    char full[2048];
    snprintf(full, sizeof(full), "%s%s", root, mount);
    CU_ASSERT_STRING_EQUAL(group->mount, full);
    snprintf(full, sizeof(full), "%s%s", root, folder);
    CU_ASSERT_STRING_EQUAL(group->folder, full);
}

#define TMPFS "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
#define V1_CPU                                                                                     \
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
#define V1_SET "33 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
#define V2_HYBRID "41 31 0:38 / /sys/fs/cgroup/unified rw shared:10 master:2 - cgroup2 cgroup2 rw\n"
#define V2 "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n"

TEST(finds_the_group_of_version_1)
{
    new_machine();
    put("/proc/self/mountinfo", "22 1 254:0 / / rw - ext4 /dev/vda rw\n" TMPFS V1_SET V1_CPU);
    put("/proc/thread-self/cgroup", "9:name=systemd:/\n5:cpuset:/\n4:cpu,cpuacct:/user/a b\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    CU_ASSERT_EQUAL(group.version, 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(group.controllers, ",cpuacct,"));
    is_at(&group, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/user/a b");
    REQUIRE_OK(sluice_cgroup_find(root, "cpuset", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpuset");
}

TEST(finds_the_group_of_version_2)
{
    new_machine();
    put("/proc/self/mountinfo", V2);
    put("/proc/thread-self/cgroup", "0::/system.slice/sluice.service\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    CU_ASSERT_EQUAL(group.version, 2);
    CU_ASSERT_STRING_EQUAL(group.controllers, ",cpuset,cpu,io,memory,");
    is_at(&group, "/sys/fs/cgroup", "/sys/fs/cgroup/system.slice/sluice.service");
}

TEST(a_hybrid_has_each_controller_in_one_version)
{
    new_machine();
    put("/proc/self/mountinfo", TMPFS V2_HYBRID V1_CPU);
    put("/proc/thread-self/cgroup", "4:cpu,cpuacct:/one\n0::/two\n");
    put("/sys/fs/cgroup/unified/cgroup.controllers", "memory\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    CU_ASSERT_EQUAL(group.version, 1);
    is_at(&group, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/one");
    REQUIRE_OK(sluice_cgroup_find(root, "memory", 0, &group, NULL));
    CU_ASSERT_EQUAL(group.version, 2);
    is_at(&group, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/two");
}

TEST(a_container_sees_its_part)
{
    /* Version 1 without a namespace: the container's group is mounted, and paths are the host's. */
    new_machine();
    put("/proc/self/mountinfo",
        "50 49 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n");
    put("/proc/thread-self/cgroup", "4:cpu:/docker/abc/inner\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu/inner");
    put("/proc/thread-self/cgroup", "4:cpu:/docker/abc\n");
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu");

    /* A group that is not beneath what is mounted: all that can be seen is the mount. */
    put("/proc/thread-self/cgroup", "4:cpu:/docker/abcdef\n");
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu");
}

TEST(of_several_mounts_the_one_that_shows_most_above_counts)
{
    static const char all[] = "50 49 0:29 / /all rw - cgroup cgroup rw,cpu\n";
    static const char part[] = "51 49 0:29 /a /part rw - cgroup cgroup rw,cpu\n";
    static const char other[] = "52 49 0:29 /b /other rw - cgroup cgroup rw,cpu\n";
    const char *const orders[][3] = {{all, part, other}, {other, part, all}, {part, other, all}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(orders); i++) {
        char text[512];
        snprintf(text, sizeof(text), "%s%s%s", orders[i][0], orders[i][1], orders[i][2]);
        new_machine();
        put("/proc/self/mountinfo", text);
        put("/proc/thread-self/cgroup", "4:cpu:/a/x\n");
        struct sluice_cgroup group;
        REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
        is_at(&group, "/all", "/all/a/x");
    }
}

TEST(finds_the_groups_of_other_threads)
{
    new_machine();
    put("/proc/self/mountinfo", V1_CPU);
    put("/proc/thread-self/cgroup", "4:cpu,cpuacct:/mine\n");
    put("/proc/self/task/1234/cgroup", "4:cpu,cpuacct:/its\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 1234, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/its");
    CU_ASSERT_EQUAL(sluice_cgroup_find(root, "cpu", 99, &group, NULL), SLUICE_E_IO);
}

TEST(reads_escaped_mount_points)
{
    new_machine();
    put("/proc/self/mountinfo", "32 31 0:29 / /my\\040cpu\\134 rw - cgroup cgroup rw,cpu\n");
    put("/proc/thread-self/cgroup", "4:cpu:/a\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    is_at(&group, "/my cpu\\", "/my cpu\\/a");
}

TEST(finds_the_hierarchy_of_a_path)
{
    new_machine();
    put("/proc/self/mountinfo", TMPFS V1_CPU V1_SET V2_HYBRID);
    put("/proc/thread-self/cgroup", "5:cpuset:/s\n4:cpu,cpuacct:/c\n0::/u\n");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find_at(root, "/sys/fs/cgroup/cpuset/x/y", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpuset", "/sys/fs/cgroup/cpuset/s");
    REQUIRE_OK(sluice_cgroup_find_at(root, "/sys/fs/cgroup/unified", 0, &group, NULL));
    CU_ASSERT_EQUAL(group.version, 2);
    is_at(&group, "/sys/fs/cgroup/unified", "/sys/fs/cgroup/unified/u");

    const char *const nowhere[] = {"/sys/fs/cgroup/cpusets/x", "/sys/fs/cgroup", "/tmp/x", "/", ""};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(nowhere); i++) {
        group.version = 77;
        CHECK_FAILS(SLUICE_E_NOT_FOUND, nowhere[i],
                    sluice_cgroup_find_at(root, nowhere[i], 0, &group, sluice_test_err()));
        CU_ASSERT_EQUAL(group.version, 77);
    }
}

TEST(says_what_is_missing)
{
    struct sluice_cgroup group = {.version = 77};
    new_machine();
    CHECK_FAILS(SLUICE_E_IO, "/proc/self/mountinfo: No such file",
                sluice_cgroup_find(root, "cpu", 0, &group, sluice_test_err()));
    CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY);

    put("/proc/self/mountinfo", TMPFS V1_SET V2_HYBRID);
    put("/proc/thread-self/cgroup", "5:cpuset:/\n0::/\n");
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "cpu controller",
                sluice_cgroup_find(root, "cpu", 0, &group, sluice_test_err()));
    CU_ASSERT_EQUAL(group.version, 77);
    CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY);
}

TEST(passes_over_lines_that_are_none)
{
    new_machine();
    char mounts[8192], name[4000];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    snprintf(mounts, sizeof(mounts),
             "\n - \n1 2 3 - cgroup cgroup cpu\n1 2 3 / /x rw\n1 2 3 / /y rw - \n"
             "1 2 3 / /z rw - cgroup\n1 2 3 / /%s rw - cgroup cgroup rw,cpu\n%s",
             name, V1_CPU);
    put("/proc/self/mountinfo", mounts);
    put("/proc/thread-self/cgroup", "\n4\n4:cpu\n:::\n4:cpu,memory:/wrong\n4:cpu,cpuacct:/right");
    struct sluice_cgroup group;
    REQUIRE_OK(sluice_cgroup_find(root, "cpu", 0, &group, NULL));
    is_at(&group, "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/cpu,cpuacct/right");
}

TEST(the_quota_is_the_least_from_the_group_upward)
{
    new_machine();
    put("/proc/self/mountinfo", V2);
    put("/proc/thread-self/cgroup", "0::/pod/box/prep\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put("/sys/fs/cgroup/other/cpu.max", "1000 100000\n");
    CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY);
    put("/sys/fs/cgroup/pod/box/prep/cpu.max", "max 100000\n");
    CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY);
    put("/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 3.5, 1e-12);
    put("/sys/fs/cgroup/pod/box/cpu.max", "25000 50000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 0.5, 1e-12);
    put("/sys/fs/cgroup/pod/box/prep/cpu.max", "200000 100000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 0.5, 1e-12);
    put("/sys/fs/cgroup/cpu.max", "10000 100000\n"); /* what a container sees of its own group */
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 0.1, 1e-12);

    new_machine();
    put("/proc/self/mountinfo", V1_CPU);
    put("/proc/thread-self/cgroup", "4:cpu,cpuacct:/a/b\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "150000\n");
    CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY); /* of what period? */
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 1.5, 1e-12);
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "20000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "10000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_cgroup_quota(root, 0), 1.5, 1e-12);
}

TEST(a_quota_that_is_no_number_is_none)
{
    const char *const texts[] = {"",          "\n",        "100000",   "fast 100000",
                                 "5x 100000", "100000 y2", "0 100000", "100000 0\n",
                                 "-5 100000", "100000 max"};
    new_machine();
    put("/proc/self/mountinfo", V2);
    put("/proc/thread-self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        put("/sys/fs/cgroup/a/cpu.max", texts[i]);
        CU_ASSERT_EQUAL(sluice_cgroup_quota(root, 0), INFINITY);
    }
}

TEST(says_why_there_are_so_few_cores)
{
    char why[128];
    new_machine();
    sluice_cgroup_why_cores(root, 0, why, sizeof(why));
    CU_ASSERT_PTR_NOT_NULL(strstr(why, " CPU"));
    CU_ASSERT(strstr(why, "the machine has ") == why ||
              strstr(why, "the process may run on ") == why);
    put("/proc/self/mountinfo", V2);
    put("/proc/thread-self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
    put("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");
    sluice_cgroup_why_cores(root, 0, why, sizeof(why));
    CU_ASSERT_STRING_EQUAL(why, "a control group's quota is 0.5 CPUs");
}

TEST(reads_this_machine)
{
    struct sluice_cgroup group;
    struct sluice_err err = {0};
    CU_ASSERT(sluice_cgroup_quota("", 0) > 0);
    CU_ASSERT_EQUAL(sluice_cgroup_quota("", 0), sluice_cgroup_quota("", gettid()));
    CU_ASSERT_EQUAL(sluice_cgroup_cores(), fmin(sluice_cpu_count(), sluice_cgroup_quota("", 0)));
    if (sluice_cgroup_find("", "cpu", 0, &group, &err) != SLUICE_OK) {
        printf("not on this machine: %s\n", err.text);
        return;
    }
    CU_ASSERT_EQUAL(access(group.folder, F_OK), 0);
    CU_ASSERT_EQUAL(strncmp(group.folder, group.mount, strlen(group.mount)), 0);
}

#define V1_MEMORY "35 31 0:33 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

TEST(the_memory_is_the_least_limit_of_the_groups_above)
{
    new_machine();
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), UINT64_MAX);
    put("/proc/self/mountinfo", V2);
    put("/proc/thread-self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), UINT64_MAX);
    put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), UINT64_MAX);
    put("/sys/fs/cgroup/a/memory.max", "1073741824\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), 1073741824);
    put("/sys/fs/cgroup/a/b/memory.max", "5000000\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), 5000000);

    new_machine();
    put("/proc/self/mountinfo", TMPFS V1_MEMORY);
    put("/proc/thread-self/cgroup", "4:memory:/a\n");
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), UINT64_MAX);
    put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000000000\n");
    CU_ASSERT_EQUAL(sluice_cgroup_memory(root, 0), 2000000000);
}
