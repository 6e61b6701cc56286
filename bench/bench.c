#include "bench/bench.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

double bench_mean(const double *values, size_t num_values)
{
    double sum = 0;
    for (size_t i = 0; i < num_values; i++)
        sum += values[i];
    return num_values ? sum / (double)num_values : NAN;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(double *values, size_t num_values, double q)
{
    if (!num_values)
        return NAN;
    qsort(values, num_values, sizeof(*values), compare);
    const double place = q * (double)(num_values - 1);
    const size_t below = (size_t)place;
    const size_t above = below + 1 < num_values ? below + 1 : below;
    return values[below] + (values[above] - values[below]) * (place - (double)below);
}

void bench_pin(unsigned n)
{
    cpu_set_t allowed, one;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
        return; /* more CPUs than the set holds; the times are then a little noisier */
    n %= (unsigned)CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || n-- > 0)
            continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)sched_setaffinity(0, sizeof(one), &one);
        return;
    }
}

void bench_die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    fprintf(stderr, "%s: ", program_invocation_short_name);
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void bench_check(sluice_status status, const struct sluice_err *err)
{
    if (status != SLUICE_OK)
        bench_die("%s", err->text);
}

void *bench_alloc(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        bench_die("no memory");
    return memory;
}

pid_t bench_fork(int *control)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        bench_die("socketpair: %s", strerror(errno));
    fflush(NULL);
    const pid_t pid = fork();
    if (pid < 0)
        bench_die("fork: %s", strerror(errno));
    *control = ends[pid == 0];
    close(ends[pid != 0]);
    return pid;
}

bool bench_read_all(int fd, void *out, size_t len)
{
    size_t have = 0;
    while (have < len) {
        ssize_t got = read(fd, (char *)out + have, len - have);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == ECONNRESET) /* it ended, and left something of ours unread */
            got = 0;
        if (got < 0)
            bench_die("read: %s", strerror(errno));
        if (got == 0 && have == 0)
            return false;
        if (got == 0)
            bench_die("the other process ended in the middle");
        have += (size_t)got;
    }
    return true;
}

void bench_write_all(int fd, const void *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        const ssize_t put = write(fd, (const char *)data + done, len - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            bench_die("write: %s", strerror(errno));
        done += (size_t)put;
    }
}

enum sluice_cpu_level bench_best_level(void)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0)
        _exit((int)sluice_cpu_detected());
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
        bench_die("cannot fork: %s", strerror(errno));
    return (enum sluice_cpu_level)WEXITSTATUS(status);
}

static void processor_name(char *name, size_t room)
{
    snprintf(name, room, "unknown processor");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof(line), file)) {
        const char *colon = strchr(line, ':');
        if (!colon || strncmp(line, "model name", 10) != 0)
            continue;
        snprintf(name, room, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
        break;
    }
    fclose(file);
}

void bench_print_machine(void)
{
    char name[160];
    processor_name(name, sizeof(name));
    double load[1] = {0};
    (void)getloadavg(load, 1);
    fprintf(stderr, "%s: sluice %s on %s, %u CPUs, %s at best, load %.1f\n",
            program_invocation_short_name, SLUICE_VERSION, name, sluice_cpu_count(),
            sluice_cpu_level_name(bench_best_level()), load[0]);
#ifndef NDEBUG
    fprintf(stderr,
            "%s: built with assertions and little optimisation: these are not the times "
            "of a release build\n",
            program_invocation_short_name);
#endif
}

void bench_row_begin(struct bench_report *report, const char *name)
{
    report->name = name;
    report->num_cells = 0;
}

static struct bench_cell *add_cell(struct bench_report *report, const char *key)
{
    if (report->num_cells == BENCH_MAX_CELLS)
        bench_die("too many columns");
    struct bench_cell *cell = &report->cells[report->num_cells++];
    *cell = (struct bench_cell){.key = key};
    return cell;
}

void bench_row_number(struct bench_report *report, const char *key, int digits, double number)
{
    struct bench_cell *cell = add_cell(report, key);
    cell->number = number;
    cell->digits = digits;
}

void bench_row_text(struct bench_report *report, const char *key, const char *text)
{
    add_cell(report, key)->text = text;
}

static void print_json(const struct bench_report *report)
{
    /* Names and texts are our own and hold nothing that JSON would want escaped. */
    printf("{\"name\":\"%s\"", report->name);
    for (size_t i = 0; i < report->num_cells; i++) {
        const struct bench_cell *cell = &report->cells[i];
        if (cell->text)
            printf(",\"%s\":\"%s\"", cell->key, cell->text);
        else if (isfinite(cell->number))
            printf(",\"%s\":%.*f", cell->key, cell->digits, cell->number);
        else
            printf(",\"%s\":null", cell->key);
    }
    printf("}\n");
}

static int width_of(const struct bench_cell *cell)
{
    const int len = (int)strlen(cell->key);
    return len < 9 ? 9 : len;
}

static void print_line(struct bench_report *report)
{
    char head[sizeof(report->head)];
    int len = snprintf(head, sizeof(head), "%-34s", "");
    for (size_t i = 0; i < report->num_cells && len < (int)sizeof(head); i++)
        len += snprintf(head + len, sizeof(head) - (size_t)len, "  %*s",
                        width_of(&report->cells[i]), report->cells[i].key);
    if (strcmp(head, report->head) != 0) {
        printf("%s%s\n", report->head[0] ? "\n" : "", head);
        memcpy(report->head, head, sizeof(head));
    }
    printf("%-34s", report->name);
    for (size_t i = 0; i < report->num_cells; i++) {
        const struct bench_cell *cell = &report->cells[i];
        if (cell->text)
            printf("  %*s", width_of(cell), cell->text);
        else if (isfinite(cell->number))
            printf("  %*.*f", width_of(cell), cell->digits, cell->number);
        else
            printf("  %*s", width_of(cell), "-");
    }
    printf("\n");
}

void bench_row_end(struct bench_report *report)
{
    if (report->is_json)
        print_json(report);
    else
        print_line(report);
    fflush(stdout);
}
