#include "host/machine.h"

#include "base/hash.h"
#include "base/text.h"
#include "host/cgroup.h"

#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The file's text, to be freed; NULL: it cannot be read.  Files of /proc do not tell their length.
 */
static char *read_text(const char *root, const char *path)
{
    char full[SLUICE_CGROUP_PATH + 64];
    FILE *file = sluice_print(full, sizeof(full), "%s%s", root, path) ? fopen(full, "re") : NULL;
    if (!file)
        return NULL;
    char *text = NULL;
    size_t room = 0;
    if (getdelim(&text, &room, '\0', file) < 0) {
        free(text);
        text = NULL;
    }
    fclose(file);
    return text;
}

static void read_cpus(struct sluice_machine *machine)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0)
        return; /* the kernel's set is larger than 1,024 CPUs */
    for (size_t c = 0; c < 8 * SLUICE_MACHINE_CPU_BYTES; c++) {
        if (!CPU_ISSET(c, &set))
            continue;
        machine->cpus[c / 8] |= (uint8_t)(1u << c % 8);
        machine->num_cpu_bytes = c / 8 + 1;
    }
}

/* The namespace tells apart two containers that both see their group as "/". */
static uint64_t hash_of_group(const char *root, uint64_t boot)
{
    struct sluice_cgroup group;
    if (sluice_cgroup_find(root, "cpu", 0, &group, NULL) != SLUICE_OK)
        return 0;
    char path[SLUICE_CGROUP_PATH + 64], name[64] = "", text[2 * SLUICE_CGROUP_PATH + 128];
    if (sluice_print(path, sizeof(path), "%s/proc/self/ns/cgroup", root))
        (void)!readlink(path, name, sizeof(name) - 1);
    if (!sluice_print(text, sizeof(text), "%llx %s %s", (unsigned long long)boot, name,
                      group.folder + strlen(root)))
        return 0;
    return sluice_hash64(text, strlen(text));
}

void sluice_machine_here(const char *root, struct sluice_machine *machine)
{
    *machine = (struct sluice_machine){.quota = INFINITY};
    char *boot_id = read_text(root, "/proc/sys/kernel/random/boot_id");
    read_cpus(machine);
    if (boot_id && machine->num_cpu_bytes > 0)
        machine->boot = sluice_hash64(boot_id, strlen(boot_id));
    free(boot_id);
    if (machine->boot == 0)
        return;
    machine->quota = sluice_cgroup_quota(root, 0);
    if (isfinite(machine->quota))
        machine->group = hash_of_group(root, machine->boot);
}

static bool has_cpu(const struct sluice_machine *machine, size_t cpu)
{
    return cpu / 8 < machine->num_cpu_bytes && (machine->cpus[cpu / 8] >> cpu % 8 & 1);
}

static bool is_in_union(const struct sluice_machine *a, const struct sluice_machine *b, size_t cpu)
{
    return has_cpu(a, cpu) || has_cpu(b, cpu);
}

static double count_union(const struct sluice_machine *a, const struct sluice_machine *b)
{
    double sum = 0;
    for (size_t c = 0; c < 8 * SLUICE_MACHINE_CPU_BYTES; c++)
        sum += is_in_union(a, b, c);
    return sum;
}

static bool share_cpus(const struct sluice_machine *a, const struct sluice_machine *b)
{
    for (size_t i = 0; i < a->num_cpu_bytes && i < b->num_cpu_bytes; i++) {
        if (a->cpus[i] & b->cpus[i])
            return true;
    }
    return false;
}

static bool share_quota(const struct sluice_machine *a, const struct sluice_machine *b)
{
    return a->group != 0 && a->group == b->group && isfinite(a->quota);
}

double sluice_machine_shared_cores(const struct sluice_machine *a, const struct sluice_machine *b)
{
    if (a->boot == 0 || a->boot != b->boot || (!share_cpus(a, b) && !share_quota(a, b)))
        return 0;
    const double cpus = count_union(a, b);
    return share_quota(a, b) ? fmin(cpus, a->quota) : cpus;
}

void sluice_machine_merge(struct sluice_machine *sum, const struct sluice_machine *other)
{
    if (sum->boot != other->boot) {
        *sum = (struct sluice_machine){.quota = INFINITY};
        return;
    }
    if (sum->group != other->group)
        sum->group = 0;
    for (size_t i = 0; i < other->num_cpu_bytes; i++)
        sum->cpus[i] |= other->cpus[i];
    if (sum->num_cpu_bytes < other->num_cpu_bytes)
        sum->num_cpu_bytes = other->num_cpu_bytes;
}

/* "usage_usec 123" of version 2; < 0: it does not say. */
static double group_busy_s(const char *root)
{
    struct sluice_cgroup group;
    char path[SLUICE_CGROUP_PATH + 16];
    if (sluice_cgroup_find(root, "cpu", 0, &group, NULL) != SLUICE_OK ||
        !sluice_print(path, sizeof(path), "%s/cpu.stat", group.folder))
        return -1;
    char *text = read_text("", path);
    const char *line = text ? strstr(text, "usage_usec ") : NULL;
    const double busy_s =
        line ? (double)strtoull(line + strlen("usage_usec "), NULL, 10) * 1e-6 : -1;
    free(text);
    return busy_s;
}

/* "cpu7 user nice system idle iowait irq softirq steal ...", in ticks; idle and iowait do not count
 * as work.
 */
static double cpu_busy_s(const char *line)
{
    double ticks = 0;
    char *at = (char *)(uintptr_t)strchr(line, ' ');
    for (int field = 0; field < 8 && at && *at == ' '; field++) {
        const double value = (double)strtoull(at, &at, 10);
        ticks += field == 3 || field == 4 ? 0 : value;
    }
    return ticks / (double)sysconf(_SC_CLK_TCK);
}

double sluice_machine_busy_s(const char *root, const struct sluice_machine *a,
                             const struct sluice_machine *b)
{
    const double cpus = count_union(a, b);
    if (share_quota(a, b) && a->quota < cpus)
        return group_busy_s(root);
    char *text = read_text(root, "/proc/stat");
    double busy_s = 0, num_seen = 0;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!sluice_starts_with(line, "cpu") || line[3] < '0' || line[3] > '9')
            continue;
        if (!is_in_union(a, b, strtoul(line + 3, NULL, 10)))
            continue;
        busy_s += cpu_busy_s(line);
        num_seen++;
    }
    free(text);
    return num_seen == cpus ? busy_s : -1;
}
