#include "host/cgroup.h"

#include "base/c_locale.h"
#include "base/cpu.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The fields of a line of /proc/self/mountinfo that matter here. */
struct mount {
    int version; /* 0: no cgroups */
    char controllers[256];
    char top[SLUICE_CGROUP_PATH]; /* the group that is mounted; "" for that of all */
    char point[SLUICE_CGROUP_PATH];
};

static bool has_word(const char *list, const char *word)
{
    char sought[64];
    return sluice_print(sought, sizeof(sought), ",%s,", word) && strstr(list, sought) != NULL;
}

/* mountinfo writes blanks as \040, and so on. */
static void unescape(char *text)
{
    char *out = text;
    for (const char *in = text; *in; out++) {
        if (in[0] == '\\' && in[1] >= '0' && in[1] <= '3' && in[2] >= '0' && in[2] <= '7' &&
            in[3] >= '0' && in[3] <= '7') {
            *out = (char)((in[1] - '0') * 64 + (in[2] - '0') * 8 + (in[3] - '0'));
            in += 4;
        } else {
            *out = *in++;
        }
    }
    *out = '\0';
}

/* The controllers of a version 2 hierarchy, which mountinfo does not name. */
static void read_controllers(const char *root, struct mount *mount)
{
    char path[2 * SLUICE_CGROUP_PATH], line[256] = "";
    if (!sluice_print(path, sizeof(path), "%s%s/cgroup.controllers", root, mount->point))
        return;
    FILE *file = fopen(path, "re");
    if (!file)
        return;
    if (fgets(line, sizeof(line) - 2, file)) {
        line[strcspn(line, "\n")] = '\0';
        for (char *space = line; (space = strchr(space, ' '));)
            *space = ',';
    }
    fclose(file);
    if (!sluice_print(mount->controllers, sizeof(mount->controllers), ",%s,", line))
        mount->controllers[0] = '\0';
}

/*     36 35 98:0 /top /point rw,noatime master:1 - type source rw,options
 * The line is taken apart. */
static struct mount parse_mount(char *line)
{
    struct mount mount = {0};
    line[strcspn(line, "\n")] = '\0';
    char *tail = strstr(line, " - ");
    if (!tail)
        return mount;
    *tail = '\0';
    char *rest = NULL, *top = NULL, *point = NULL;
    char *word = strtok_r(line, " ", &rest);
    for (int i = 0; word && i < 5; i++, word = strtok_r(NULL, " ", &rest)) {
        if (i == 3)
            top = word;
        else if (i == 4)
            point = word;
    }
    const char *type = strtok_r(tail + 3, " ", &rest);
    (void)strtok_r(NULL, " ", &rest); /* the source */
    const char *options = strtok_r(NULL, " ", &rest);
    if (!point || !type)
        return mount;
    unescape(top);
    unescape(point);
    if (!sluice_print(mount.top, sizeof(mount.top), "%s", strcmp(top, "/") == 0 ? "" : top) ||
        !sluice_print(mount.point, sizeof(mount.point), "%s", point) ||
        !sluice_print(mount.controllers, sizeof(mount.controllers), ",%s,", options ? options : ""))
        return mount;
    mount.version = strcmp(type, "cgroup2") == 0 ? 2 : strcmp(type, "cgroup") == 0 ? 1 : 0;
    return mount;
}

/* If `path` is `folder` or lies beneath it, the rest of `path`; else NULL. */
static const char *beneath(const char *path, const char *folder)
{
    const size_t len = strlen(folder);
    if (strncmp(path, folder, len) != 0 || (path[len] && path[len] != '/'))
        return NULL;
    return path + len;
}

static FILE *open_proc(const char *root, const char *name, struct sluice_err *err)
{
    char path[SLUICE_CGROUP_PATH];
    errno = ENAMETOOLONG;
    FILE *file =
        sluice_print(path, sizeof(path), "%s/proc/%s", root, name) ? fopen(path, "re") : NULL;
    if (!file)
        (void)sluice_fail(err, SLUICE_E_IO, "/proc/%s: %s", name, strerror(errno));
    return file;
}

/* The path that the thread's line of this hierarchy has, "" for "/"; false if it has none.
 *     4:cpu,cpuacct:/user      version 1
 *     0::/user                 version 2 */
static bool find_path(FILE *file, const struct mount *mount, char *path, size_t room)
{
    bool is_found = false;
    char *line = NULL;
    size_t line_room = 0;
    rewind(file);
    while (!is_found && getline(&line, &line_room, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *where = names ? strchr(names + 1, ':') : NULL;
        if (!where)
            continue;
        *where++ = '\0';
        names++;
        bool is_same = mount->version == 2 ? !names[0] && strtol(line, NULL, 10) == 0 : names[0];
        char *rest = NULL;
        for (char *name = strtok_r(names, ",", &rest); is_same && name;
             name = strtok_r(NULL, ",", &rest))
            is_same = has_word(mount->controllers, name);
        is_found = is_same && sluice_print(path, room, "%s", strcmp(where, "/") == 0 ? "" : where);
    }
    free(line);
    return is_found;
}

/* Finds the hierarchy by controller or, if that is NULL, by the path `sought`. */
static sluice_status find(const char *root, const char *controller, const char *sought, pid_t tid,
                          struct sluice_cgroup *group, struct sluice_err *err)
{
    char name[64] = "thread-self/cgroup";
    if (tid)
        (void)sluice_print(name, sizeof(name), "self/task/%ld/cgroup", (long)tid);
    FILE *mounts = open_proc(root, "self/mountinfo", err);
    FILE *groups = mounts ? open_proc(root, name, err) : NULL;
    sluice_status status = groups ? SLUICE_E_NOT_FOUND : SLUICE_E_IO;
    struct sluice_cgroup best = {0};
    size_t best_rank = 0;
    char *line = NULL;
    size_t line_room = 0;
    while (groups && getline(&line, &line_room, mounts) > 0) {
        struct mount mount = parse_mount(line);
        char path[SLUICE_CGROUP_PATH];
        if (mount.version == 2)
            read_controllers(root, &mount);
        if (!mount.version || (controller && !has_word(mount.controllers, controller)) ||
            (sought && !beneath(sought, mount.point)) ||
            !find_path(groups, &mount, path, sizeof(path)))
            continue;
        /* If a hierarchy has several mounts, take the one that shows the group and the most of
         * what is above it. */
        const char *below = beneath(path, mount.top);
        const size_t rank = below ? 2 + strlen(below) : 1;
        struct sluice_cgroup found = {.version = mount.version};
        memcpy(found.controllers, mount.controllers, sizeof(found.controllers));
        if (rank <= best_rank ||
            !sluice_print(found.mount, sizeof(found.mount), "%s%s", root, mount.point) ||
            !sluice_print(found.folder, sizeof(found.folder), "%s%s%s", root, mount.point,
                          below ? below : ""))
            continue;
        best = found;
        best_rank = rank;
    }
    free(line);
    if (mounts)
        fclose(mounts);
    if (groups)
        fclose(groups);
    if (best_rank) {
        *group = best;
        return SLUICE_OK;
    }
    if (status == SLUICE_E_NOT_FOUND && controller)
        (void)sluice_fail(err, status, "no mounted cgroup hierarchy has the %s controller",
                          controller);
    else if (status == SLUICE_E_NOT_FOUND)
        (void)sluice_fail(err, status, "%s lies in no mounted cgroup hierarchy", sought);
    return status;
}

sluice_status sluice_cgroup_find(const char *root, const char *controller, pid_t tid,
                                 struct sluice_cgroup *group, struct sluice_err *err)
{
    return find(root, controller, NULL, tid, group, err);
}

sluice_status sluice_cgroup_find_at(const char *root, const char *path, pid_t tid,
                                    struct sluice_cgroup *group, struct sluice_err *err)
{
    return find(root, NULL, path, tid, group, err);
}

/* Reads the first `count` words of a file, each a number ("max" is -1). */
static bool read_numbers(const char *folder, const char *name, long long *numbers, int count)
{
    char path[SLUICE_CGROUP_PATH + 64], text[128];
    (void)sluice_print(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    const bool is_read = fgets(text, sizeof(text), file) != NULL;
    fclose(file);
    char *rest = NULL;
    char *word = is_read ? strtok_r(text, " \n", &rest) : NULL;
    for (int i = 0; i < count; i++, word = strtok_r(NULL, " \n", &rest)) {
        if (!word)
            return false;
        char *end;
        numbers[i] = strcmp(word, "max") == 0 ? -1 : strtoll(word, &end, 10);
        if (numbers[i] != -1 && (end == word || *end))
            return false;
    }
    return true;
}

static double quota_of(int version, const char *folder)
{
    long long us[2]; /* quota and period */
    const bool is_read = version == 2 ? read_numbers(folder, "cpu.max", us, 2)
                                      : read_numbers(folder, "cpu.cfs_quota_us", &us[0], 1) &&
                                            read_numbers(folder, "cpu.cfs_period_us", &us[1], 1);
    return is_read && us[0] > 0 && us[1] > 0 ? (double)us[0] / (double)us[1] : INFINITY;
}

/* Goes to the parent group; false: the parent is not visible. */
static bool go_up(struct sluice_cgroup *group)
{
    if (strlen(group->folder) <= strlen(group->mount))
        return false;
    *strrchr(group->folder, '/') = '\0';
    return true;
}

double sluice_cgroup_quota(const char *root, pid_t tid)
{
    struct sluice_cgroup group;
    if (sluice_cgroup_find(root, "cpu", tid, &group, NULL) != SLUICE_OK)
        return INFINITY;
    double least = INFINITY;
    do
        least = fmin(least, quota_of(group.version, group.folder));
    while (go_up(&group));
    return least;
}

static uint64_t memory_of(int version, const char *folder)
{
    long long bytes;
    const char *name = version == 2 ? "memory.max" : "memory.limit_in_bytes";
    /* Version 1 writes "no limit" as a number near 2^63. */
    return read_numbers(folder, name, &bytes, 1) && bytes > 0 && bytes < INT64_MAX / 2
               ? (uint64_t)bytes
               : UINT64_MAX;
}

uint64_t sluice_cgroup_memory(const char *root, pid_t tid)
{
    struct sluice_cgroup group;
    if (sluice_cgroup_find(root, "memory", tid, &group, NULL) != SLUICE_OK)
        return UINT64_MAX;
    uint64_t least = UINT64_MAX;
    do {
        const uint64_t its = memory_of(group.version, group.folder);
        least = its < least ? its : least;
    } while (go_up(&group));
    return least;
}

double sluice_cgroup_cores(void)
{
    return fmin(sluice_cpu_count(), sluice_cgroup_quota("", 0));
}

void sluice_cgroup_why_cores(const char *root, pid_t tid, char *text, size_t room)
{
    const unsigned cpus = sluice_cpu_count_of(tid);
    const double quota = sluice_cgroup_quota(root, tid);
    const long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (quota < cpus)
        sluice_snprintf(text, room, "a control group's quota is %.3g CPUs", quota);
    else if (all > (long)cpus)
        snprintf(text, room, "the process may run on %u of %ld CPUs", cpus, all);
    else
        snprintf(text, room, "the machine has %u CPU%s", cpus, cpus == 1 ? "" : "s");
}
