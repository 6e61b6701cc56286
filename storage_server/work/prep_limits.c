#include "storage_server/work/prep_limits.h"

#include "base/c_locale.h"
#include "base/cpu.h"
#include "base/log.h"
#include "base/text.h"
#include "host/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_GROUPS 3 /* version 1: cpu, blkio, cpuset */

/* As linux/ioprio.h has them, which older headers lack. */
#define IOPRIO_WHO_THREAD 1
#define IOPRIO_LOW (2 << 13 | 7) /* best effort, the last level */
#define IOPRIO_IDLE (3 << 13)

typedef char path_text[SLUICE_CGROUP_PATH + 256];

/* A group that threads are to join. */
struct group {
    int version;
    bool is_made;
    bool is_for_all; /* not only for workers that preprocess */
    path_text folder;
    path_text home; /* the process's group, where threads return to */
};

struct sluice_prep_limits {
    struct sluice_prep_limits_options options;
    struct sluice_cgroup_files files;
    bool is_idle; /* the scheduler's policy */
    struct group groups[MAX_GROUPS];
    size_t num_groups;
    path_text name; /* of the group, as given or made up */
    char flag[300]; /* the flag that asked for the group, with its value, for errors */
    struct {
        const char *file;
        char text[64];
    } found[2]; /* what the first group had, if it existed: to be restored */
    size_t num_found;
    bool has_delegated;        /* the group above passes the cpu controller on, because of us */
    atomic_bool has_warned[4]; /* of each enum thing, once; relaxed */
};

/* --- files --- */

static int make_folder(const char *folder)
{
    return mkdir(folder, 0755) == 0 ? 0 : errno;
}

static int remove_folder(const char *folder)
{
    return rmdir(folder) == 0 ? 0 : errno;
}

static int write_text(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    const ssize_t put = write(fd, text, strlen(text));
    const int error = put < 0 ? errno : 0;
    (void)close(fd);
    return error;
}

/* The first line, without its end; "" if there is no such file. */
static void read_line(const char *folder, const char *name, char *text, size_t room)
{
    path_text path;
    text[0] = '\0';
    FILE *file =
        sluice_print(path, sizeof(path_text), "%s/%s", folder, name) ? fopen(path, "re") : NULL;
    if (!file)
        return;
    if (!fgets(text, (int)room, file))
        text[0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

static bool has_word(const char *line, const char *word)
{
    char padded[300], sought[32];
    snprintf(padded, sizeof(padded), " %s ", line);
    snprintf(sought, sizeof(sought), " %s ", word);
    return strstr(padded, sought) != NULL;
}

static int write_file(const struct sluice_prep_limits *limits, const char *folder, const char *name,
                      const char *text)
{
    path_text path;
    return sluice_print(path, sizeof(path_text), "%s/%s", folder, name)
               ? limits->files.write(path, text)
               : ENAMETOOLONG;
}

/* --- in and out of groups --- */

static const char *threads_file(const struct group *group)
{
    return group->version == 2 ? "cgroup.threads" : "tasks";
}

static sluice_status move(const struct sluice_prep_limits *limits, const struct group *group,
                          const char *folder, pid_t tid, struct sluice_err *err)
{
    char text[24];
    snprintf(text, sizeof(text), "%ld", (long)tid);
    const int error = write_file(limits, folder, threads_file(group), text);
    if (!error)
        return SLUICE_OK;
    const char *hint = "";
    if (group->version == 2 && error == EOPNOTSUPP)
        hint = ": threads can only go to groups beneath that of their process";
    return sluice_fail(err, SLUICE_E_IO, "%s: %s/%s: %s%s", limits->flag, folder,
                       threads_file(group), strerror(error), hint);
}

enum thing { NICE, POLICY, IO_CLASS, HOME };

static void warn_once(struct sluice_prep_limits *limits, enum thing thing, const char *text)
{
    if (!atomic_exchange_explicit(&limits->has_warned[thing], true, memory_order_relaxed))
        sluice_log(SLUICE_LOG_WARN, "%s", text);
}

static void leave_first(struct sluice_prep_limits *limits, size_t num_groups, bool is_preprocessing)
{
    for (size_t i = 0; i < num_groups; i++) {
        const struct group *group = &limits->groups[i];
        struct sluice_err err = {0};
        if ((is_preprocessing || group->is_for_all) &&
            move(limits, group, group->home, gettid(), &err) != SLUICE_OK)
            warn_once(limits, HOME, err.text);
    }
}

static sluice_status join_groups(struct sluice_prep_limits *limits, bool is_preprocessing,
                                 pid_t tid, struct sluice_err *err)
{
    for (size_t i = 0; i < limits->num_groups; i++) {
        const struct group *group = &limits->groups[i];
        if (!is_preprocessing && !group->is_for_all)
            continue;
        const sluice_status status = move(limits, group, group->folder, tid, err);
        if (status != SLUICE_OK) {
            if (tid == gettid())
                leave_first(limits, i, is_preprocessing);
            return status;
        }
    }
    return SLUICE_OK;
}

/* --- making groups --- */

static sluice_status add_group(struct sluice_prep_limits *limits, const struct sluice_cgroup *own,
                               const char *folder, struct sluice_err *err)
{
    struct group *group = &limits->groups[limits->num_groups];
    *group = (struct group){.version = own->version};
    if (!sluice_print(group->folder, sizeof(path_text), "%s", folder) ||
        !sluice_print(group->home, sizeof(path_text), "%s", own->folder))
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the path is too long", limits->flag);
    group->is_for_all = own->version == 1 && strstr(own->controllers, ",blkio,") &&
                        !strstr(own->controllers, ",cpu,");
    limits->num_groups++;
    return SLUICE_OK;
}

static bool is_name_beneath(const char *name)
{
    if (!name[0] || name[0] == '/')
        return false;
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t len = strcspn(part, "/");
        if (!len || (len == 1 && part[0] == '.') || (len == 2 && part[0] == '.' && part[1] == '.'))
            return false;
    }
    return true;
}

/* Fills `groups`: the hierarchies and folders that the threads are to join. */
static sluice_status find_groups(struct sluice_prep_limits *limits, struct sluice_err *err)
{
    const char *root = limits->files.root, *name = limits->name;
    struct sluice_cgroup own;
    struct sluice_err cause = {0};
    path_text folder;
    if (name[0] == '/') {
        if (sluice_cgroup_find_at(root, name, 0, &own, &cause) != SLUICE_OK)
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s", limits->flag, cause.text);
        if (limits->options.cpu_max > 0 && !strstr(own.controllers, ",cpu,"))
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s: --prep-cpu-max needs the cpu controller, which %s has not",
                               limits->flag, own.mount);
        if (!sluice_print(folder, sizeof(path_text), "%s%s", root, name))
            folder[0] = '\0';
        return add_group(limits, &own, folder, err);
    }
    if (!is_name_beneath(name))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: neither the path of a folder nor a name beneath a cgroup",
                           limits->flag);
    static const char *const controllers[] = {"cpu", "blkio", "cpuset"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(controllers); i++) {
        if (sluice_cgroup_find(root, controllers[i], 0, &own, &cause) != SLUICE_OK) {
            if (i == 0)
                return sluice_fail(err, SLUICE_E_INVALID, "%s: %s", limits->flag, cause.text);
            continue;
        }
        if (!sluice_print(folder, sizeof(path_text), "%s/%s", own.folder, name))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: the path is too long", limits->flag);
        bool is_known = false;
        for (size_t k = 0; k < limits->num_groups; k++)
            is_known |= strcmp(limits->groups[k].folder, folder) == 0;
        /* Only cpu's is made if it is missing: a new group of blkio has no limits, and a new one of
         * cpuset has no CPUs. */
        if (is_known || (i > 0 && access(folder, F_OK) != 0))
            continue;
        const sluice_status status = add_group(limits, &own, folder, err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

static sluice_status make_group(struct sluice_prep_limits *limits, struct group *group,
                                struct sluice_err *err)
{
    const int error = limits->files.make(group->folder);
    group->is_made = error == 0;
    if (error && error != EEXIST)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: cannot make %s: %s", limits->flag,
                           group->folder, strerror(error));
    if (group->version == 1)
        return SLUICE_OK;

    /* A group accepts single threads only if it is "threaded".  A new one is a domain, or, beneath
     * threaded groups, an invalid one. */
    char type[64];
    read_line(group->folder, "cgroup.type", type, sizeof(type));
    if (strcmp(type, "threaded") == 0 || strcmp(type, "domain threaded") == 0)
        return SLUICE_OK;
    const int refused = write_file(limits, group->folder, "cgroup.type", "threaded");
    if (!refused)
        return SLUICE_OK;
    const char *hint = "";
    if (refused == EOPNOTSUPP)
        hint = ": it holds processes, or the group above has controllers like memory or io";
    return sluice_fail(err, SLUICE_E_INVALID, "%s: %s/cgroup.type ('%s'): %s%s", limits->flag,
                       group->folder, type, strerror(refused), hint);
}

/* Version 2: a group has the cpu controller only if the group above passes it on. */
static sluice_status delegate_cpu(struct sluice_prep_limits *limits, const struct group *group,
                                  struct sluice_err *err)
{
    path_text above;
    char line[256];
    memcpy(above, group->folder, sizeof(above));
    *strrchr(above, '/') = '\0';
    read_line(above, "cgroup.subtree_control", line, sizeof(line));
    if (has_word(line, "cpu"))
        return SLUICE_OK;
    read_line(above, "cgroup.controllers", line, sizeof(line));
    if (!has_word(line, "cpu"))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--prep-cpu-max: no cpu in %s/cgroup.controllers ('%s'): it is not "
                           "passed on to this group (systemd: Delegate=cpu)",
                           above, line);
    const int error = write_file(limits, above, "cgroup.subtree_control", "+cpu");
    if (error)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--prep-cpu-max: %s/cgroup.subtree_control, +cpu: %s", above,
                           strerror(error));
    limits->has_delegated = true;
    return SLUICE_OK;
}

static const char *quota_file(const struct group *group)
{
    return group->version == 2 ? "cpu.max" : "cpu.cfs_quota_us";
}

static void remember(struct sluice_prep_limits *limits, const struct group *group, const char *file,
                     const char *text)
{
    if (group->is_made || !text[0])
        return;
    limits->found[limits->num_found].file = file;
    snprintf(limits->found[limits->num_found++].text, sizeof(limits->found[0].text), "%s", text);
}

static sluice_status set_quota(struct sluice_prep_limits *limits, const struct group *group,
                               struct sluice_err *err)
{
    char old[64], period[64] = "";
    if (group->version == 2) {
        const sluice_status status = delegate_cpu(limits, group, err);
        if (status != SLUICE_OK)
            return status;
    }
    read_line(group->folder, quota_file(group), old, sizeof(old));
    if (group->version == 1)
        read_line(group->folder, "cpu.cfs_period_us", period, sizeof(period));
    else if (strchr(old, ' '))
        snprintf(period, sizeof(period), "%s", strchr(old, ' ') + 1);
    const double period_us = sluice_strtod(period, NULL);
    if (!(period_us > 0))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--prep-cpu-max: no period in %s/%s: the group has no cpu controller",
                           group->folder, group->version == 2 ? "cpu.max" : "cpu.cfs_period_us");
    char quota[64]; /* without a period, version 2 keeps the one there is */
    sluice_snprintf(quota, sizeof(quota), "%.0f", limits->options.cpu_max * period_us);
    const int error = write_file(limits, group->folder, quota_file(group), quota);
    if (error)
        return sluice_fail(err, SLUICE_E_INVALID, "--prep-cpu-max %g: %s/%s, %s: %s%s",
                           limits->options.cpu_max, group->folder, quota_file(group), quota,
                           strerror(error),
                           error == EINVAL ? " (more than a group above has, or below 1 ms)" : "");
    remember(limits, group, quota_file(group), old);
    return SLUICE_OK;
}

/* The scheduler compares a group with its neighbours by the group's weight, whatever the nice
 * values of the threads in it.  So the group gets the weight of the nice value or policy that was
 * asked for.  A group without the cpu controller has no weight, and its threads count by
 * themselves. If the kernel refuses it, that is a warning, as for a thread. */
static void set_weight(struct sluice_prep_limits *limits, const struct group *group)
{
    /* The kernel's weights of nice values 0 to 19, for threads. */
    static const int shares[] = {1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
                                 110,  87,  70,  56,  45,  36,  29,  23,  18,  15};
    const bool is_v2 = group->version == 2;
    const char *file = is_v2 ? "cpu.weight.nice" : "cpu.shares";
    char old[64], text[24];
    path_text path;
    if (!sluice_print(path, sizeof(path_text), "%s/%s", group->folder, file) ||
        access(path, F_OK) != 0)
        return;
    if (limits->is_idle) {
        file = "cpu.idle";
        snprintf(text, sizeof(text), "1");
    } else if (limits->options.has_nice) {
        snprintf(text, sizeof(text), "%d",
                 is_v2 ? limits->options.nice : shares[limits->options.nice]);
    } else {
        return;
    }
    read_line(group->folder, file, old, sizeof(old));
    const int error = write_file(limits, group->folder, file, text);
    if (error)
        sluice_log(SLUICE_LOG_WARN,
                   "%s: %s/%s, %s: %s; the group counts as much as one of other programs",
                   limits->is_idle ? "--prep-sched" : "--prep-nice", group->folder, file, text,
                   strerror(error));
    else
        remember(limits, group, file, old);
}

static bool has_children(const char *folder)
{
    bool is_found = false;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && !is_found && (entry = readdir(dir));)
        is_found = entry->d_type == DT_DIR && strcmp(entry->d_name, ".") != 0 &&
                   strcmp(entry->d_name, "..") != 0;
    if (dir)
        closedir(dir);
    return is_found;
}

static void folder_above(const struct group *group, path_text above)
{
    memcpy(above, group->folder, sizeof(path_text));
    *strrchr(above, '/') = '\0';
}

void sluice_prep_limits_folders(const struct sluice_prep_limits *limits,
                                void (*visit)(void *ctx, const char *folder, bool is_above),
                                void *ctx)
{
    for (size_t i = 0; limits && i < limits->num_groups; i++) {
        path_text above;
        folder_above(&limits->groups[i], above);
        visit(ctx, limits->groups[i].folder, false);
        visit(ctx, limits->groups[i].home, false);
        visit(ctx, above, true);
    }
}

/* Takes back what open did, as far as it came. */
static void undo(struct sluice_prep_limits *limits)
{
    for (size_t i = limits->num_groups; i-- > 0;) {
        const struct group *group = &limits->groups[i];
        path_text above;
        folder_above(group, above);
        int error = 0;
        const char *what = "";
        for (size_t k = limits->num_found; i == 0 && !error && k-- > 0;) {
            what = limits->found[k].file;
            error = write_file(limits, group->folder, what, limits->found[k].text);
        }
        if (!error && group->is_made) {
            error = limits->files.remove(group->folder);
            what = "cannot remove it";
        }
        /* The controller's limits of other groups there would go, too; so not if there are any. */
        if (!error && i == 0 && limits->has_delegated && !has_children(above)) {
            error = write_file(limits, above, "cgroup.subtree_control", "-cpu");
            what = "cannot take back its cpu controller";
        }
        if (error)
            sluice_log(SLUICE_LOG_WARN, "cgroup %s: %s: %s", group->folder, what, strerror(error));
    }
}

static sluice_status set_up(struct sluice_prep_limits *limits, struct sluice_err *err)
{
    sluice_status status = find_groups(limits, err);
    for (size_t i = 0; status == SLUICE_OK && i < limits->num_groups; i++)
        status = make_group(limits, &limits->groups[i], err);
    if (status == SLUICE_OK && limits->options.cpu_max > 0)
        status = set_quota(limits, &limits->groups[0], err);
    if (status != SLUICE_OK)
        return status;
    set_weight(limits, &limits->groups[0]);

    /* Whether threads may join shows only if one tries: better now than when workers start. */
    status = join_groups(limits, true, gettid(), err);
    if (status == SLUICE_OK)
        leave_first(limits, limits->num_groups, true);
    return status;
}

sluice_status sluice_prep_limits_open(const struct sluice_prep_limits_options *options,
                                      struct sluice_prep_limits **out, struct sluice_err *err)
{
    struct sluice_prep_limits *limits = calloc(1, sizeof(*limits));
    if (!limits)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the workers' limits");
    limits->options = *options;
    limits->is_idle = options->policy && strcmp(options->policy, "idle") == 0;
    limits->files = options->files ? *options->files : (struct sluice_cgroup_files){.root = ""};
    if (!limits->files.make)
        limits->files.make = make_folder;
    if (!limits->files.remove)
        limits->files.remove = remove_folder;
    if (!limits->files.write)
        limits->files.write = write_text;

    sluice_status status = SLUICE_OK;
    if (options->cgroup || options->cpu_max > 0) {
        if (options->cgroup)
            snprintf(limits->flag, sizeof(limits->flag), "--prep-cgroup %s", options->cgroup);
        else
            sluice_snprintf(limits->flag, sizeof(limits->flag), "--prep-cpu-max %g",
                            options->cpu_max);
        if (!options->cgroup)
            (void)sluice_print(limits->name, sizeof(path_text), "sluice-prep-%ld", (long)getpid());
        else if (!sluice_print(limits->name, sizeof(path_text), "%s", options->cgroup))
            status = sluice_fail(err, SLUICE_E_INVALID, "--prep-cgroup: the path is too long");
        /* Without slashes at the end, as the last one ends the name of the group above. */
        for (size_t len = strlen(limits->name); len > 1 && limits->name[len - 1] == '/'; len--)
            limits->name[len - 1] = '\0';
        if (status == SLUICE_OK)
            status = set_up(limits, err);
        if (status != SLUICE_OK) {
            undo(limits);
            free(limits);
            return status;
        }
        char quota[64] = "";
        if (options->cpu_max > 0)
            sluice_snprintf(quota, sizeof(quota), ", which may take %g CPUs", options->cpu_max);
        sluice_log(SLUICE_LOG_INFO, "workers that preprocess are in cgroup %s (version %d)%s",
                   limits->groups[0].folder, limits->groups[0].version, quota);
    }
    limits->options.cgroup = NULL; /* borrowed, and not needed again */
    *out = limits;
    return SLUICE_OK;
}

void sluice_prep_limits_close(struct sluice_prep_limits *limits)
{
    if (!limits)
        return;
    undo(limits);
    free(limits);
}

/* --- on workers --- */

static sluice_status enter(struct sluice_prep_limits *limits, bool is_preprocessing, pid_t tid,
                           struct sluice_err *err)
{
    if (!limits)
        return SLUICE_OK;
    char text[128];
    const pid_t who = tid == gettid() ? 0 : tid; /* the sandbox knows no thread's own number */
    if (limits->options.has_nice &&
        setpriority(PRIO_PROCESS, (id_t)who, limits->options.nice) != 0) {
        snprintf(text, sizeof(text), "--prep-nice %d: %s; the workers go on without it",
                 limits->options.nice, strerror(errno));
        warn_once(limits, NICE, text);
    }
    const struct sched_param none = {0};
    if (limits->is_idle && sched_setscheduler(who, SCHED_IDLE, &none) != 0) {
        snprintf(text, sizeof(text), "--prep-sched idle: %s; the workers go on without it",
                 strerror(errno));
        warn_once(limits, POLICY, text);
    }
    const char *io_class = limits->options.io_class;
    int priority = 0;
    if (io_class && strcmp(io_class, "idle") == 0)
        priority = IOPRIO_IDLE;
    else if (io_class && strcmp(io_class, "low") == 0)
        priority = IOPRIO_LOW;
    if (priority && syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, (int)who, priority) != 0) {
        snprintf(text, sizeof(text), "--prep-io %s: %s; the workers go on without it", io_class,
                 strerror(errno));
        warn_once(limits, IO_CLASS, text);
    }
    return join_groups(limits, is_preprocessing, tid, err);
}

sluice_status sluice_prep_limits_enter(struct sluice_prep_limits *limits, bool is_preprocessing,
                                       struct sluice_err *err)
{
    return enter(limits, is_preprocessing, gettid(), err);
}

sluice_status sluice_prep_limits_enter_decoder(struct sluice_prep_limits *limits, pid_t pid,
                                               struct sluice_err *err)
{
    return enter(limits, true, pid, err);
}

void sluice_prep_limits_leave(struct sluice_prep_limits *limits, bool is_preprocessing)
{
    if (limits)
        leave_first(limits, limits->num_groups, is_preprocessing);
}

double sluice_prep_limits_cores(const struct sluice_prep_limits *limits, pid_t tid)
{
    const double cpus = (double)sluice_cpu_count_of(tid);
    const double cores = fmin(cpus, sluice_cgroup_quota(limits ? limits->files.root : "", tid));
    return limits && limits->options.cpu_max > 0 ? fmin(cores, limits->options.cpu_max) : cores;
}

void sluice_prep_limits_why_cores(const struct sluice_prep_limits *limits, pid_t tid, char *text,
                                  size_t room)
{
    const char *root = limits ? limits->files.root : "";
    const double max = limits ? limits->options.cpu_max : 0;
    if (max > 0 && max <= fmin(sluice_cpu_count_of(tid), sluice_cgroup_quota(root, tid)))
        sluice_snprintf(text, room, "--prep-cpu-max is %g", max);
    else
        sluice_cgroup_why_cores(root, tid, text, room);
}
