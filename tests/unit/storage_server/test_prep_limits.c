#include "storage_server/work/prep_limits.h"

#include "base/cpu.h"
#include "base/file.h"
#include "support/capture.h"
#include "support/test.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Linked with --wrap: a kernel that refuses. */
int __real_setpriority(int which, id_t who, int value);
int __wrap_setpriority(int which, id_t who, int value);
static int nice_error;

int __wrap_setpriority(int which, id_t who, int value)
{
    if (!nice_error)
        return __real_setpriority(which, who, value);
    errno = nice_error;
    return -1;
}

/* --- a made-up machine: files in a folder of their own --- */

static char root[512];
static char refused[128]; /* a write to a file whose path ends so gets this error */
static int refused_error;
static int make_error, remove_error;

static void put(const char *path, const char *text)
{
    sluice_test_put_text(root, path, text);
}

static bool is_there(const char *path)
{
    char full[2048];
    snprintf(full, sizeof(full), "%s%s", root, path);
    return access(full, F_OK) == 0;
}

/* What a file holds; of one that threads are written to, how many were. */
static const char *text_of(const char *path)
{
    static char text[4096];
    char full[2048];
    snprintf(full, sizeof(full), "%s%s", root, path);
    size_t len;
    uint8_t *data = sluice_test_read_file(full, &len);
    snprintf(text, sizeof(text), "%.*s", (int)len, (char *)data);
    free(data);
    return text;
}

static unsigned threads_of(const char *path)
{
    unsigned count = 0;
    for (const char *at = text_of(path); (at = strstr(at, "tid ")); at++)
        count++;
    return count;
}

/* As the kernel does, a new group has its files at once. */
static void put_group(const char *folder, bool has_cpu)
{
    char path[2048];
    const bool is_v2 = is_there("/sys/fs/cgroup/cgroup.controllers");
    const struct {
        const char *name, *text;
        bool is_here;
    } files[] = {
        {"cgroup.threads", "", is_v2},
        {"cgroup.type", "domain\n", is_v2},
        {"cgroup.controllers", "", is_v2},
        {"cgroup.subtree_control", "", is_v2},
        {"tasks", "", !is_v2},
        {"cpu.max", "max 100000\n", is_v2 && has_cpu},
        {"cpu.cfs_quota_us", "-1\n", !is_v2 && has_cpu},
        {"cpu.cfs_period_us", "100000\n", !is_v2 && has_cpu},
        {"cpu.shares", "1024\n", !is_v2 && has_cpu},
        {"cpu.weight.nice", "0\n", is_v2 && has_cpu},
        {"cpu.idle", "0\n", has_cpu},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, files[i].name);
        if (files[i].is_here)
            put(path, files[i].text);
    }
}

static int make(const char *folder)
{
    if (make_error)
        return make_error;
    if (mkdir(folder, 0755) != 0)
        return errno;
    put_group(folder + strlen(root), strstr(folder, "/cgroup/cpu") != NULL);
    return 0;
}

static int remove_group(const char *folder)
{
    if (remove_error)
        return remove_error;
    char command[1024];
    snprintf(command, sizeof(command), "rm -r '%s'", folder);
    return system(command) == 0 ? 0 : EIO;
}

static pid_t expected_tid; /* 0: the caller's */

static int write_text(const char *path, const char *text)
{
    const size_t len = strlen(path), refused_len = strlen(refused);
    if (refused_len && len >= refused_len && strcmp(path + len - refused_len, refused) == 0)
        return refused_error;
    FILE *file = fopen(path, "r+e");
    if (!file)
        return errno;
    const bool are_threads = strstr(path, "threads") || strstr(path, "tasks");
    const bool is_control = strstr(path, "subtree_control") != NULL;
    fseek(file, 0, SEEK_END);
    if (!are_threads && ftruncate(fileno(file), 0) != 0)
        return EIO;
    rewind(file);
    if (are_threads) {
        fseek(file, 0, SEEK_END);
        fprintf(file, "tid %s\n", text);
        CU_ASSERT_EQUAL(atol(text), (long)(expected_tid ? expected_tid : gettid()));
    } else if (is_control) {
        fputs(strcmp(text, "+cpu") == 0 ? "cpu\n" : "\n", file);
    } else if (strstr(path, "cpu.max")) {
        fprintf(file, strchr(text, ' ') ? "%s\n" : "%s 100000\n", text);
    } else {
        fprintf(file, "%s\n", text);
    }
    fclose(file);
    if (is_control && strcmp(text, "+cpu") == 0) { /* the children get its files */
        char child[1024];
        snprintf(child, sizeof(child), "%.*s/prep", (int)(strrchr(path, '/') - path), path);
        if (access(child, F_OK) == 0) {
            snprintf(child, sizeof(child), "%.*s/prep/cpu.max",
                     (int)(strrchr(path, '/') - path - (long)strlen(root)), path + strlen(root));
            put(child, "max 100000\n");
        }
    }
    return 0;
}

static const struct sluice_cgroup_files files = {
    .root = root, .make = make, .remove = remove_group, .write = write_text};

static void new_machine(void)
{
    static int count;
    snprintf(root, sizeof(root), "%s/machine-%d", sluice_test_dir(), count++);
    refused[0] = '\0';
    make_error = remove_error = nice_error = 0;
}

/* Version 1, cpu and blkio and cpuset apart; the process is in /own. */
static void new_v1(void)
{
    new_machine();
    put("/proc/self/mountinfo",
        "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
        "33 31 0:30 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio\n"
        "34 31 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
    put("/proc/thread-self/cgroup", "3:cpuset:/own\n2:blkio:/own\n1:cpu:/own\n");
    put_group("/sys/fs/cgroup/cpu/own", true);
    put_group("/sys/fs/cgroup/blkio/own", false);
    put_group("/sys/fs/cgroup/cpuset/own", false);
}

/* Version 2; the process is in /own, which may give its children the cpu controller. */
static void new_v2(void)
{
    new_machine();
    put("/proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    put("/proc/thread-self/cgroup", "0::/own\n");
    put("/sys/fs/cgroup/cgroup.controllers", "cpu io memory\n");
    put_group("/sys/fs/cgroup/own", true);
    put("/sys/fs/cgroup/own/cgroup.controllers", "cpu memory\n");
}

static struct sluice_prep_limits *must_open(struct sluice_prep_limits_options options)
{
    struct sluice_prep_limits *limits = NULL;
    struct sluice_err err = {0};
    options.files = options.files ? options.files : &files;
    if (sluice_prep_limits_open(&options, &limits, &err) != SLUICE_OK) {
        printf("%s\n", err.text);
        CU_FAIL_FATAL("not opened");
    }
    return limits;
}

/* It names the words, and leaves *limits alone. */
static void must_refuse(struct sluice_prep_limits_options options, const char *word,
                        const char *other_word)
{
    struct sluice_prep_limits *limits = NULL;
    struct sluice_err err = {0};
    options.files = &files;
    const sluice_status status = sluice_prep_limits_open(&options, &limits, &err);
    CU_ASSERT(status == SLUICE_E_INVALID || status == SLUICE_E_IO);
    CU_ASSERT_PTR_NULL(limits);
    if (!strstr(err.text, word) || !strstr(err.text, other_word)) {
        printf("'%s' has no '%s' or no '%s'\n", err.text, word, other_word);
        CU_FAIL("the error says something else");
    }
}

/* --- version 1 --- */

TEST(version_1_makes_sets_enters_and_removes)
{
    new_v1();
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 1.5});
    CU_ASSERT(is_there("/sys/fs/cgroup/cpu/own/prep"));
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/blkio/own/prep"));
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/cpuset/own/prep"));
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.cfs_quota_us"), "150000\n");

    /* It was tried once, and the thread is back. */
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/prep/tasks"), 1);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/tasks"), 1);

    CHECK_OK(sluice_prep_limits_enter(limits, true, NULL));
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/prep/tasks"), 2);
    CHECK_OK(sluice_prep_limits_enter(limits, false, NULL)); /* reads files */
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/prep/tasks"), 2);
    sluice_prep_limits_leave(limits, false);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/tasks"), 1);
    sluice_prep_limits_leave(limits, true);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/tasks"), 2);
    sluice_prep_limits_close(limits);
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/cpu/own/prep"));
    CU_ASSERT(is_there("/sys/fs/cgroup/cpu/own"));
}

TEST(version_1_joins_what_blkio_and_cpuset_have)
{
    new_v1();
    put_group("/sys/fs/cgroup/blkio/own/prep", false);
    put_group("/sys/fs/cgroup/cpuset/own/prep", false);
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep"});
    CHECK_OK(sluice_prep_limits_enter(limits, false, NULL));
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/prep/tasks"), 1);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/blkio/own/prep/tasks"), 2); /* all who read */
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpuset/own/prep/tasks"), 1);
    CHECK_OK(sluice_prep_limits_enter(limits, true, NULL));
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/own/prep/tasks"), 2);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/blkio/own/prep/tasks"), 3);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpuset/own/prep/tasks"), 2);
    sluice_prep_limits_close(limits);
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/cpu/own/prep"));
    CU_ASSERT(is_there("/sys/fs/cgroup/blkio/own/prep")); /* not ours */
    CU_ASSERT(is_there("/sys/fs/cgroup/cpuset/own/prep"));
}

TEST(a_group_that_is_there_gets_its_quota_back)
{
    new_v1();
    put_group("/sys/fs/cgroup/cpu/site", true);
    put("/sys/fs/cgroup/cpu/site/cpu.cfs_quota_us", "30000\n");
    put("/sys/fs/cgroup/cpu/site/cpu.cfs_period_us", "10000\n");
    struct sluice_prep_limits *limits = must_open(
        (struct sluice_prep_limits_options){.cgroup = "/sys/fs/cgroup/cpu/site/", .cpu_max = 0.25});
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/site/cpu.cfs_quota_us"), "2500\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/site/cpu.cfs_period_us"), "10000\n");
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/site/cpu.cfs_quota_us"), "30000\n");

    /* Without a quota of ours it keeps its own. */
    limits = must_open((struct sluice_prep_limits_options){.cgroup = "/sys/fs/cgroup/cpu/site"});
    CHECK_OK(sluice_prep_limits_enter(limits, true, NULL));
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/site/cpu.cfs_quota_us"), "30000\n");
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/cpu/site/tasks"), 3);
}

TEST(a_quota_alone_has_a_group_of_this_process)
{
    new_v1();
    char path[256];
    snprintf(path, sizeof(path), "/sys/fs/cgroup/cpu/own/sluice-prep-%ld", (long)getpid());
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cpu_max = 2});
    CU_ASSERT(is_there(path));
    sluice_prep_limits_close(limits);
    CU_ASSERT_FALSE(is_there(path));
}

/* --- version 2 --- */

TEST(version_2_makes_a_threaded_group_and_passes_cpu_on)
{
    new_v2();
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 0.75});
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cgroup.type"), "threaded\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/cgroup.subtree_control"), "cpu\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cpu.max"), "75000 100000\n");
    CHECK_OK(sluice_prep_limits_enter(limits, true, NULL));
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/own/prep/cgroup.threads"), 2);
    CHECK_OK(sluice_prep_limits_enter(limits, false, NULL));
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/own/prep/cgroup.threads"), 2);
    sluice_prep_limits_leave(limits, true);
    CU_ASSERT_EQUAL(threads_of("/sys/fs/cgroup/own/cgroup.threads"), 2);
    sluice_prep_limits_close(limits);
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/own/prep"));
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/cgroup.subtree_control"), "\n");
}

TEST(version_2_leaves_what_others_need)
{
    /* Another group beneath the same one may live by the controller that was passed on. */
    new_v2();
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 1});
    put_group("/sys/fs/cgroup/own/later", true);
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/cgroup.subtree_control"), "cpu\n");

    /* And what was passed on before stays so. */
    new_v2();
    put("/sys/fs/cgroup/own/cgroup.subtree_control", "pids cpu\n");
    put_group("/sys/fs/cgroup/own/prep", true);
    put("/sys/fs/cgroup/own/prep/cgroup.type", "threaded\n");
    put("/sys/fs/cgroup/own/prep/cpu.max", "200000 50000\n");
    limits = must_open((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 1});
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cpu.max"), "50000 100000\n");
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cpu.max"), "200000 50000\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/cgroup.subtree_control"), "pids cpu\n");
}

TEST(a_domain_that_is_invalid_becomes_threaded)
{
    new_v2();
    put_group("/sys/fs/cgroup/own/prep", true);
    put("/sys/fs/cgroup/own/prep/cgroup.type", "domain invalid\n");
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep"});
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cgroup.type"), "threaded\n");
    sluice_prep_limits_close(limits);

    new_v2();
    put_group("/sys/fs/cgroup/own/prep", true);
    put("/sys/fs/cgroup/own/prep/cgroup.type", "domain invalid\n");
    snprintf(refused, sizeof(refused), "cgroup.type");
    refused_error = EOPNOTSUPP;
    must_refuse((struct sluice_prep_limits_options){.cgroup = "prep"}, "--prep-cgroup prep",
                "prep/cgroup.type ('domain invalid'): Operation not supported");
    CU_ASSERT(is_there("/sys/fs/cgroup/own/prep"));
}

TEST(a_hybrid_takes_cpu_from_version_1)
{
    new_v1();
    put("/proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
                                "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    put("/proc/thread-self/cgroup", "1:cpu:/own\n0::/two\n");
    put("/sys/fs/cgroup/unified/cgroup.controllers", "memory\n");
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 1});
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.cfs_quota_us"), "100000\n");
    sluice_prep_limits_close(limits);
    must_refuse((struct sluice_prep_limits_options){.cgroup = "/sys/fs/cgroup/unified/two/prep",
                                                    .cpu_max = 1},
                "--prep-cpu-max needs the cpu controller", "/sys/fs/cgroup/unified");
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/unified/two/prep"));
}

TEST(a_group_has_the_weight_of_its_threads)
{
    new_v1();
    put_group("/sys/fs/cgroup/cpu/own/prep", true);
    struct sluice_prep_limits_options options = {.cgroup = "prep", .has_nice = true, .nice = 19};
    struct sluice_prep_limits *limits = must_open(options);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.shares"), "15\n");
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.shares"), "1024\n");
    options.policy = "idle";
    limits = must_open(options);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.idle"), "1\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.shares"), "1024\n");
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.idle"), "0\n");
    options = (struct sluice_prep_limits_options){.cgroup = "prep", .policy = "normal"};
    limits = must_open(options);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.idle"), "0\n");
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/cpu/own/prep/cpu.shares"), "1024\n");
    sluice_prep_limits_close(limits);

    new_v2();
    put_group("/sys/fs/cgroup/own/prep", true);
    put("/sys/fs/cgroup/own/prep/cgroup.type", "threaded\n");
    put("/sys/fs/cgroup/own/prep/cpu.weight.nice", "5\n");
    options = (struct sluice_prep_limits_options){.cgroup = "prep", .has_nice = true, .nice = 11};
    limits = must_open(options);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cpu.weight.nice"), "11\n");
    sluice_prep_limits_close(limits);
    CU_ASSERT_STRING_EQUAL(text_of("/sys/fs/cgroup/own/prep/cpu.weight.nice"), "5\n");

    /* Without the controller there is no weight to set. */
    new_v2();
    put_group("/sys/fs/cgroup/own/prep", false);
    sluice_prep_limits_close(must_open(options));
}

TEST(a_weight_that_is_refused_is_a_warning)
{
    static struct sluice_test_output output;
    new_v1();
    snprintf(refused, sizeof(refused), "cpu.idle");
    refused_error = ENOENT;
    sluice_test_capture_begin();
    struct sluice_prep_limits *limits = must_open(
        (struct sluice_prep_limits_options){.cgroup = "prep", .policy = "idle", .cpu_max = 1});
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "--prep-sched: "));
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "cpu.idle, 1: No such file"));
    sluice_prep_limits_close(limits);
}

/* --- what cannot be had --- */

TEST(a_file_system_that_is_read_only_is_an_error)
{
    new_v1();
    make_error = EROFS;
    must_refuse((struct sluice_prep_limits_options){.cgroup = "prep"}, "--prep-cgroup prep",
                "/sys/fs/cgroup/cpu/own/prep: Read-only file system");
    must_refuse((struct sluice_prep_limits_options){.cpu_max = 1.5}, "--prep-cpu-max 1.5",
                "Read-only file system");
}

TEST(nothing_is_left_of_what_failed)
{
    static const struct {
        const char *file;
        int error;
        const char *word;
        bool is_v1;
    } cases[] = {
        {"cgroup.type", EPERM, "prep/cgroup.type ('domain'): Operation not permitted", false},
        {"cgroup.subtree_control", EBUSY, "own/cgroup.subtree_control, +cpu: Device or", false},
        {"cpu.max", EACCES, "prep/cpu.max, 50000: Permission denied", false},
        {"prep/cgroup.threads", EOPNOTSUPP, "Operation not supported: threads can only go", false},
        {"cpu.cfs_quota_us", EINVAL, "cpu.cfs_quota_us, 50000: Invalid argument (more", true},
        {"prep/tasks", ENOSPC, "prep/tasks: No space left on device", true},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        if (cases[i].is_v1)
            new_v1();
        else
            new_v2();
        snprintf(refused, sizeof(refused), "%s", cases[i].file);
        refused_error = cases[i].error;
        must_refuse((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 0.5},
                    "--prep-c", cases[i].word);
        CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/own/prep"));
        CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/cpu/own/prep"));
        if (!cases[i].is_v1 && strcmp(cases[i].file, "cgroup.subtree_control") != 0)
            CU_ASSERT_STRING_NOT_EQUAL(text_of("/sys/fs/cgroup/own/cgroup.subtree_control"),
                                       "cpu\n");
    }
}

TEST(a_missing_controller_is_an_error)
{
    new_v2();
    put("/sys/fs/cgroup/own/cgroup.controllers", "memory pids\n");
    must_refuse((struct sluice_prep_limits_options){.cgroup = "prep", .cpu_max = 0.5},
                "own/cgroup.controllers ('memory pids')", "Delegate=cpu");
    CU_ASSERT_FALSE(is_there("/sys/fs/cgroup/own/prep"));

    put("/sys/fs/cgroup/cgroup.controllers", "memory pids\n"); /* nor has the machine one */
    must_refuse((struct sluice_prep_limits_options){.cgroup = "prep"}, "--prep-cgroup prep",
                "no mounted cgroup hierarchy has the cpu controller");
    new_machine();
    must_refuse((struct sluice_prep_limits_options){.cpu_max = 1}, "--prep-cpu-max 1",
                "/proc/self/mountinfo");
}

TEST(a_path_that_names_no_group_is_an_error)
{
    new_v1();
    const char *const names[] = {"",
                                 ".",
                                 "..",
                                 "a/../b",
                                 "a//b",
                                 "./a",
                                 "a/..",
                                 "/tmp/x",
                                 "/",
                                 "/sys/fs/cgroup",
                                 "/sys/fs/cgroup/cpus/x"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++)
        must_refuse((struct sluice_prep_limits_options){.cgroup = names[i]}, "--prep-cgroup ",
                    names[i]);
    must_refuse((struct sluice_prep_limits_options){.cgroup = "a/b"}, "--prep-cgroup a/b",
                "own/a/b: No such file");
    char name[3000];
    memset(name, 'x', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    must_refuse((struct sluice_prep_limits_options){.cgroup = name}, "--prep-cgroup",
                "the path is too long");
}

TEST(what_is_refused_later_is_said)
{
    static struct sluice_test_output output;
    new_v1();
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.cgroup = "prep"});
    snprintf(refused, sizeof(refused), "prep/tasks");
    refused_error = ENODEV; /* somebody removed it */
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_prep_limits_enter(limits, true, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "prep/tasks: No such device"));
    remove_error = EBUSY;
    sluice_test_capture_begin();
    sluice_prep_limits_close(limits);
    sluice_test_capture_end(&output);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(output.err, "own/prep: cannot remove it: Device or resource busy"));
    CU_ASSERT(is_there("/sys/fs/cgroup/cpu/own/prep"));
}

/* --- nice values and classes --- */

struct seen {
    struct sluice_prep_limits *limits;
    int nice, io, policy;
    sluice_status status;
};

static void *read_limits(void *arg)
{
    struct seen *seen = arg;
    seen->status = sluice_prep_limits_enter(seen->limits, false, NULL);
    seen->nice = getpriority(PRIO_PROCESS, (id_t)gettid());
    seen->policy = sched_getscheduler(0);
    seen->io = (int)syscall(SYS_ioprio_get, 1, (int)gettid());
    sluice_prep_limits_leave(seen->limits, false);
    return NULL;
}

static struct seen limits_of_a_thread(struct sluice_prep_limits *limits)
{
    struct seen seen = {.limits = limits};
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, read_limits, &seen), 0);
    pthread_join(thread, NULL);
    return seen;
}

TEST(nice_policy_and_class_are_of_the_thread_alone)
{
    const int ours = getpriority(PRIO_PROCESS, 0);
    static const struct {
        const char *io_class;
        int value;
    } classes[] = {{"normal", -1}, {"low", 2 << 13 | 7}, {"idle", 3 << 13}, {NULL, -1}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(classes); i++) {
        struct sluice_prep_limits *limits = must_open((struct sluice_prep_limits_options){
            .has_nice = true, .nice = 19, .io_class = classes[i].io_class});
        const struct seen seen = limits_of_a_thread(limits);
        CHECK_OK(seen.status);
        CU_ASSERT_EQUAL(seen.nice, 19);
        CU_ASSERT_EQUAL(seen.policy, SCHED_OTHER);
        if (classes[i].value >= 0)
            CU_ASSERT_EQUAL(seen.io, classes[i].value);
        CU_ASSERT_EQUAL(getpriority(PRIO_PROCESS, 0), ours);
        sluice_prep_limits_close(limits);
    }
    struct sluice_prep_limits *limits = must_open((struct sluice_prep_limits_options){.nice = 7});
    CU_ASSERT_EQUAL(limits_of_a_thread(limits).nice, ours); /* not given */
    sluice_prep_limits_close(limits);
    limits = must_open((struct sluice_prep_limits_options){.policy = "idle"});
    CU_ASSERT_EQUAL(limits_of_a_thread(limits).policy, SCHED_IDLE);
    CU_ASSERT_EQUAL(sched_getscheduler(0), SCHED_OTHER);
    sluice_prep_limits_close(limits);
    CU_ASSERT_EQUAL(limits_of_a_thread(NULL).nice, ours);
    sluice_prep_limits_close(NULL);
}

TEST(a_decoder_has_its_workers_limits)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) { /* until it is let go */
        char byte;
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    const int ours = getpriority(PRIO_PROCESS, 0);
    struct sluice_prep_limits *limits = must_open(
        (struct sluice_prep_limits_options){.has_nice = true, .nice = 17, .policy = "idle"});
    CHECK_OK(sluice_prep_limits_enter_decoder(limits, pid, NULL));
    CU_ASSERT_EQUAL(getpriority(PRIO_PROCESS, (id_t)pid), 17);
    CU_ASSERT_EQUAL(sched_getscheduler(pid), SCHED_IDLE);
    CU_ASSERT_EQUAL(getpriority(PRIO_PROCESS, 0), ours);
    CU_ASSERT_EQUAL(sched_getscheduler(0), SCHED_OTHER);
    CHECK_OK(sluice_prep_limits_enter_decoder(NULL, pid, NULL));
    sluice_prep_limits_close(limits);

    new_v1();
    limits = must_open((struct sluice_prep_limits_options){.cgroup = "prep"});
    expected_tid = pid;
    CHECK_OK(sluice_prep_limits_enter_decoder(limits, pid, NULL));
    expected_tid = 0;
    char line[32];
    snprintf(line, sizeof(line), "tid %ld\n", (long)pid);
    CU_ASSERT_PTR_NOT_NULL(strstr(text_of("/sys/fs/cgroup/cpu/own/prep/tasks"), line));
    sluice_prep_limits_close(limits);
    close(ends[0]);
    close(ends[1]);
    int status;
    CU_ASSERT_EQUAL(waitpid(pid, &status, 0), pid);
}

TEST(a_nice_value_that_is_refused_is_one_warning)
{
    static struct sluice_test_output output;
    new_machine();
    struct sluice_prep_limits *limits =
        must_open((struct sluice_prep_limits_options){.has_nice = true, .nice = 3});
    nice_error = EACCES;
    sluice_test_capture_begin();
    const struct seen first = limits_of_a_thread(limits), second = limits_of_a_thread(limits);
    sluice_test_capture_end(&output);
    nice_error = 0;
    CHECK_OK(first.status);
    CHECK_OK(second.status);
    CU_ASSERT_PTR_NOT_NULL_FATAL(strstr(output.err, "--prep-nice 3: Permission denied"));
    CU_ASSERT_PTR_EQUAL(strchr(output.err, '\n'), output.err + strlen(output.err) - 1);
    sluice_prep_limits_close(limits);
}

/* --- cores --- */

TEST(cores_are_the_least_of_cpus_quotas_and_our_own)
{
    const double cpus = sluice_cpu_count();
    new_v1();
    struct sluice_prep_limits *limits = must_open((struct sluice_prep_limits_options){0});
    CU_ASSERT_EQUAL(sluice_prep_limits_cores(limits, 0), cpus);
    put("/sys/fs/cgroup/cpu/own/cpu.cfs_quota_us", "62500\n"); /* it may change at any time */
    CU_ASSERT_DOUBLE_EQUAL(sluice_prep_limits_cores(limits, 0), 0.625, 1e-12);
    sluice_prep_limits_close(limits);
    limits = must_open((struct sluice_prep_limits_options){.cpu_max = 0.5});
    CU_ASSERT_DOUBLE_EQUAL(sluice_prep_limits_cores(limits, 0), 0.5, 1e-12);
    put("/sys/fs/cgroup/cpu/own/cpu.cfs_quota_us", "40000\n");
    CU_ASSERT_DOUBLE_EQUAL(sluice_prep_limits_cores(limits, 0), 0.4, 1e-12);
    sluice_prep_limits_close(limits);
    CU_ASSERT(sluice_prep_limits_cores(NULL, 0) > 0 && sluice_prep_limits_cores(NULL, 0) <= cpus);
}

/* --- this machine --- */

struct visit {
    struct sluice_prep_limits *limits;
    char group[1024];
    double cores;
    sluice_status status;
};

static void *visit_main(void *arg)
{
    struct visit *visit = arg;
    visit->status = sluice_prep_limits_enter(visit->limits, true, NULL);
    FILE *file = fopen("/proc/thread-self/cgroup", "re");
    const size_t len = file ? fread(visit->group, 1, sizeof(visit->group) - 1, file) : 0;
    visit->group[len] = '\0';
    if (file)
        fclose(file);
    visit->cores = sluice_prep_limits_cores(NULL, gettid());
    sluice_prep_limits_leave(visit->limits, true);
    return NULL;
}

TEST(the_kernel_takes_what_is_written)
{
    char name[64], line[80];
    snprintf(name, sizeof(name), "sluice-test-%ld", (long)getpid());
    snprintf(line, sizeof(line), "/%s\n", name);
    const struct sluice_prep_limits_options options = {
        .cgroup = name, .cpu_max = 0.5, .has_nice = true, .nice = 19};
    struct visit visit = {.limits = NULL};
    struct sluice_err err = {0};
    static struct sluice_test_output output;
    sluice_test_capture_begin();
    const sluice_status status = sluice_prep_limits_open(&options, &visit.limits, &err);
    sluice_test_capture_end(&output);
    if (status != SLUICE_OK) {
        printf("not on this machine: %s\n", err.text);
        return;
    }
    pthread_t thread;
    CU_ASSERT_PTR_NULL(strstr(output.err, "warning")); /* such as of a weight */
    sluice_test_capture_begin();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, visit_main, &visit), 0);
    pthread_join(thread, NULL);
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "");
    CHECK_OK(visit.status);
    CU_ASSERT_PTR_NOT_NULL(strstr(visit.group, line));
    CU_ASSERT_DOUBLE_EQUAL(visit.cores, 0.5, 1e-12);

    sluice_test_capture_begin();
    sluice_prep_limits_close(visit.limits); /* could not remove a group with a thread in it */
    sluice_test_capture_end(&output);
    CU_ASSERT_STRING_EQUAL(output.err, "");
}
