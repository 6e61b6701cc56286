#include "bench/bench.h"

#include "base/clock.h"
#include "base/hash.h"
#include "bench/bench_reader_load.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What a program that reads the storage node's disk feels of offload_server: the latency of its
 * reads beside a server under full load, with each of the limits that the server has, over that
 * without a server. */

#define PAGE 4096u
#define MAX_ROUNDS 64
#define MAX_FLAGS 12
/* So often everything that the server may have cached of its images is dropped. */
#define DROP_PERIOD_MS 100
/* Busy time of the storage node's CPUs; a clock tick is 1 % of a second. */
#define MOST_OTHERS 0.04

struct bench {
    const char *images, *read_dir, *bin, *mode, *cgroup;
    double rate, seconds, warm_up_s, cpu_max;
    uint64_t read_bytes, touch_us, rounds, attempts, prep_workers, io_workers, client_cpus, nice;
    bool is_cached; /* --keep-cache */
    cpu_set_t storage, client;
};

/* --- files --- */

struct file {
    char *path;
    uint64_t bytes;
};
struct files {
    struct file *items;
    size_t num_items;
};

static struct files *listed; /* nftw has no argument for it */

static int list_file(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type != FTW_F || stat->st_size < (off_t)PAGE)
        return 0;
    struct file *items = realloc(listed->items, (listed->num_items + 1) * sizeof(*items));
    char *copy = strdup(path);
    if (!items || !copy)
        bench_die("no memory");
    items[listed->num_items++] = (struct file){copy, (uint64_t)stat->st_size};
    listed->items = items;
    return 0;
}

static struct files list_files(const char *folder)
{
    struct files files = {0};
    listed = &files;
    if (nftw(folder, list_file, 16, FTW_PHYS) != 0)
        bench_die("%s: %s", folder, strerror(errno));
    if (!files.num_items)
        bench_die("%s: no file of %u bytes or more", folder, PAGE);
    return files;
}

/* --- the server's page cache --- */

struct dropper {
    const struct files *files;
    const cpu_set_t *cpus;
    atomic_bool is_over;
};

/* A dataset larger than memory is read from the disk: so shall this one be. */
static void *drop_main(void *arg)
{
    struct dropper *dropper = arg;
    const struct timespec pause = {.tv_nsec = DROP_PERIOD_MS * 1000000L};
    (void)sched_setaffinity(0, sizeof(*dropper->cpus), dropper->cpus);
    while (!atomic_load(&dropper->is_over)) {
        for (size_t i = 0; i < dropper->files->num_items; i++) {
            const int fd = open(dropper->files->items[i].path, O_RDONLY | O_CLOEXEC);
            if (fd < 0)
                continue;
            (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
            close(fd);
        }
        (void)nanosleep(&pause, NULL);
    }
    return NULL;
}

/* --- the reader --- */

struct reader {
    const struct bench *bench;
    const struct files *files;
    uint8_t *room;
    uint64_t draw; /* state of the draws */
    int direct;    /* O_DIRECT, or 0 where the file system has none */
};

static uint64_t draw(struct reader *reader)
{
    uint64_t z = reader->draw += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* One read at a random page of a random file, past the page cache, and some work on what came. */
static void read_once(struct reader *reader)
{
    const struct file *file = &reader->files->items[draw(reader) % reader->files->num_items];
    const uint64_t pages = file->bytes / PAGE, wanted = reader->bench->read_bytes / PAGE;
    const uint64_t len = (pages < wanted ? pages : wanted) * PAGE;
    const uint64_t from = draw(reader) % (pages - len / PAGE + 1) * PAGE;
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC | reader->direct);
    if (fd < 0)
        bench_die("%s: %s", file->path, strerror(errno));
    if (pread(fd, reader->room, len, (off_t)from) != (ssize_t)len)
        bench_die("%s: cannot read %llu bytes at %llu: %s", file->path, (unsigned long long)len,
                  (unsigned long long)from, strerror(errno));
    if (!reader->direct)
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    const uint64_t end_ns = sluice_thread_cpu_ns() + reader->bench->touch_us * 1000;
    do
        (void)sluice_hash64(reader->room, len);
    while (sluice_thread_cpu_ns() < end_ns);
}

/* A file system without O_DIRECT refuses to open, or to read. */
static bool can_read_directly(const struct file *file, void *room)
{
    const int fd = open(file->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    const bool can = fd >= 0 && pread(fd, room, PAGE, 0) == (ssize_t)PAGE;
    if (fd >= 0)
        close(fd);
    return can;
}

/* Reads come at moments of their own, however long those before them took; a latency counts from
 * that moment.  Adds them in microseconds. */
static size_t read_for(struct reader *reader, double seconds, double *latencies, size_t room)
{
    const uint64_t start_ns = sluice_clock_ns();
    size_t count = 0;
    double at_s = 0;
    while (count < room) {
        /* Between half and one and a half of the mean, so that no period is met again and again. */
        at_s += (0.5 + (double)(draw(reader) >> 11) * 0x1p-53) / reader->bench->rate;
        if (at_s >= seconds)
            break;
        const uint64_t due_ns = start_ns + (uint64_t)(at_s * 1e9);
        sluice_clock_sleep_until(due_ns);
        read_once(reader);
        latencies[count++] = (double)(sluice_clock_ns() - due_ns) * 1e-3;
    }
    return count;
}

static const double quantiles[] = {0.5, 0.9, 0.99, 0.999};
#define NUM_QUANTILES SLUICE_ARRAY_LEN(quantiles)
#define P99 2

/* --- neighbours --- */

/* CPU seconds that anybody had of the storage node's CPUs, interrupts included. */
static double busy_s(const struct bench *b)
{
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        bench_die("/proc/stat: %s", strerror(errno));
    char line[512];
    unsigned long long ticks = 0;
    while (fgets(line, sizeof(line), file)) {
        int cpu;
        unsigned long long user, nice, system, irq, softirq, steal;
        if (sscanf(line, "cpu%d %llu %llu %llu %*u %*u %llu %llu %llu", &cpu, &user, &nice, &system,
                   &irq, &softirq, &steal) == 7 &&
            cpu < CPU_SETSIZE && CPU_ISSET(cpu, &b->storage))
            ticks += user + nice + system + irq + softirq + steal;
    }
    fclose(file);
    return (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

/* CPU time of this program, the server and everything on the server's CPUs. */
static double our_s(const struct bench *b, const struct load *load)
{
    const bool is_shared = CPU_EQUAL(&b->storage, &b->client);
    const double reader_s =
        (double)(is_shared ? sluice_process_cpu_ns() : sluice_thread_cpu_ns()) * 1e-9;
    return reader_s + (load ? load_cpu_s(load, is_shared) : 0);
}

/* --- cases --- */

struct a_case {
    const char *name;
    bool has_server;
    const char *flags[MAX_FLAGS]; /* NULL at the end */
    bool is_refused;
    double us[NUM_QUANTILES][MAX_ROUNDS];
    double others[MAX_ROUNDS];      /* their share of the storage node's CPUs */
    double per_s[MAX_ROUNDS];       /* samples, of the server */
    double alone_per_s[MAX_ROUNDS]; /* without the reader */
};

/* The server's rate while the reader is idle. */
static double measure_alone(const struct bench *b, struct load *load)
{
    const uint64_t start_ns = sluice_clock_ns();
    sluice_clock_sleep_until(start_ns + (uint64_t)(b->warm_up_s * 1e9));
    const uint64_t from = load_samples(load), from_ns = sluice_clock_ns();
    sluice_clock_sleep_until(from_ns + (uint64_t)(b->seconds * 0.5e9));
    const uint64_t count = load_samples(load) - from;
    return (double)count / ((double)(sluice_clock_ns() - from_ns) * 1e-9);
}

static void run_case(const struct bench *b, struct reader *reader, struct a_case *c, size_t round,
                     double *latencies, size_t room)
{
    const struct load_options options = {
        .bin = b->bin,
        .images = b->images,
        .mode = b->mode,
        .prep_workers = b->prep_workers,
        .io_workers = b->io_workers,
        .storage = b->storage,
        .client = b->client,
    };
    struct load *load = NULL;
    if (c->has_server && !(load = load_start(&options, c->flags))) {
        c->is_refused = true;
        fprintf(stderr, "bench_reader: '%s' is left out: the server refused it\n", c->name);
        return;
    }
    c->alone_per_s[round] = load ? measure_alone(b, load) : NAN;
    (void)read_for(reader, b->warm_up_s, latencies, room);
    /* A round that others disturbed is measured again, and counts only if there is no better. */
    for (uint64_t attempt = 0; attempt < b->attempts; attempt++) {
        const uint64_t from = load ? load_samples(load) : 0, start_ns = sluice_clock_ns();
        const double busy_from_s = busy_s(b), our_from_s = our_s(b, load);
        const size_t count = read_for(reader, b->seconds, latencies, room);
        const double elapsed_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
        const double others_s = busy_s(b) - busy_from_s - (our_s(b, load) - our_from_s);
        const double others = fmax(others_s / elapsed_s / CPU_COUNT(&b->storage), 0);
        const double per_s = load ? (double)(load_samples(load) - from) / elapsed_s : NAN;
        if (attempt && others >= c->others[round])
            continue;
        c->others[round] = others;
        c->per_s[round] = per_s;
        for (size_t q = 0; q < NUM_QUANTILES; q++)
            c->us[q][round] = bench_quantile(latencies, count, quantiles[q]);
        if (others < MOST_OTHERS)
            break;
    }
    load_stop(load);
}

/* What a neighbour disturbs is one round; the median over the rounds does not show it. */
static double median(const double *values, size_t num_values)
{
    double copy[MAX_ROUNDS];
    memcpy(copy, values, num_values * sizeof(*values));
    return bench_quantile(copy, num_values, 0.5);
}

static void report_case(struct bench_report *report, const struct bench *b, const struct a_case *c,
                        const struct a_case *off)
{
    if (c->is_refused)
        return;
    double over_off[MAX_ROUNDS], us[NUM_QUANTILES];
    for (size_t i = 0; i < b->rounds; i++)
        over_off[i] = c->us[P99][i] / off->us[P99][i];
    for (size_t q = 0; q < NUM_QUANTILES; q++)
        us[q] = median(c->us[q], b->rounds);
    const double off_p99 = median(off->us[P99], b->rounds);
    const bool is_off = c == off;
    bench_row_begin(report, c->name);
    bench_row_number(report, "us", 1, us[P99]);
    bench_row_number(report, "bytes", 0, (double)b->read_bytes);
    bench_row_number(report, "reference_us", 1, is_off ? NAN : off_p99);
    bench_row_number(report, "ratio", 3, is_off ? NAN : off_p99 / us[P99]);
    bench_row_number(report, "p50_us", 1, us[0]);
    bench_row_number(report, "p90_us", 1, us[1]);
    bench_row_number(report, "p99_us", 1, us[P99]);
    bench_row_number(report, "p999_us", 1, us[3]);
    bench_row_number(report, "over_off", 2, median(over_off, b->rounds));
    bench_row_number(report, "over_off_min", 2, bench_quantile(over_off, b->rounds, 0));
    bench_row_number(report, "over_off_max", 2, bench_quantile(over_off, b->rounds, 1));
    bench_row_number(report, "offload_per_s", 0, median(c->per_s, b->rounds));
    bench_row_number(report, "alone_per_s", 0, median(c->alone_per_s, b->rounds));
    bench_row_number(report, "others", 3, median(c->others, b->rounds));
    bench_row_end(report);
}

static void run(const struct bench *b, bool is_json)
{
    char nice[32], cgroup[64], cpu_max[32], cgroup_name[96];
    snprintf(nice, sizeof(nice), "%llu", (unsigned long long)b->nice);
    snprintf(cgroup, sizeof(cgroup), "bench-reader-%ld", (long)getpid());
    snprintf(cpu_max, sizeof(cpu_max), "%g", b->cpu_max);
    snprintf(cgroup_name, sizeof(cgroup_name), "on, quota of %s CPUs", cpu_max);
    char nice_name[64];
    snprintf(nice_name, sizeof(nice_name), "on, nice %s", nice);
    struct a_case cases[] = {
        {.name = "off"},
        {.name = "on", .has_server = true},
        {.name = nice_name, .has_server = true, .flags = {"--prep-nice", nice}},
        {.name = "on, idle", .has_server = true, .flags = {"--prep-sched", "idle"}},
        {.name = "on, idle reads", .has_server = true, .flags = {"--prep-io", "idle"}},
        {.name = cgroup_name,
         .has_server = true,
         .flags = {"--prep-cgroup", cgroup, "--prep-cpu-max", cpu_max}},
        {.name = "on, cgroup given",
         .has_server = true,
         .flags = {"--prep-cgroup", b->cgroup},
         .is_refused = !b->cgroup},
        {.name = "on, all limits",
         .has_server = true,
         .flags = {"--prep-nice", nice, "--prep-sched", "idle", "--prep-io", "idle",
                   "--prep-cgroup", cgroup, "--prep-cpu-max", cpu_max}},
    };

    const struct files images = list_files(b->images), read = list_files(b->read_dir);
    struct reader reader = {.bench = b, .files = &read, .draw = 1};
    reader.room = aligned_alloc(PAGE, b->read_bytes);
    /* Two reads an interval at most, warming up apart. */
    const double longest_s = fmax(b->seconds, b->warm_up_s);
    const size_t room = (size_t)(2 * b->rate * longest_s) + 1;
    double *latencies = calloc(room, sizeof(*latencies));
    if (!latencies || !reader.room)
        bench_die("no memory");
    reader.direct = can_read_directly(&read.items[0], reader.room) ? O_DIRECT : 0;
    fprintf(
        stderr,
        "bench_reader: reads of up to %llu bytes at random places of %zu files, %s, %g a second, "
        "%llu us of CPU on each; the server has %d of the CPUs, shared with the reader, and %llu "
        "prep workers; its files are %s\n",
        (unsigned long long)b->read_bytes, read.num_items,
        reader.direct ? "O_DIRECT" : "each file dropped from the page cache after its read",
        b->rate, (unsigned long long)b->touch_us, CPU_COUNT(&b->storage),
        (unsigned long long)b->prep_workers,
        b->is_cached ? "left in the page cache" : "dropped from the page cache all the time");

    struct dropper dropper = {.files = &images, .cpus = &b->client};
    pthread_t thread;
    if (!b->is_cached && pthread_create(&thread, NULL, drop_main, &dropper) != 0)
        bench_die("cannot start a thread");
    (void)sched_setaffinity(0, sizeof(b->storage), &b->storage);
    (void)prctl(PR_SET_TIMERSLACK, 1ul); /* sleeps to the microsecond */
    for (size_t round = 0; round < b->rounds; round++) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
            if (!cases[i].is_refused)
                run_case(b, &reader, &cases[i], round, latencies, room);
        }
    }
    if (!b->is_cached) {
        atomic_store(&dropper.is_over, true);
        pthread_join(thread, NULL);
    }

    struct bench_report report = {.is_json = is_json};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        report_case(&report, b, &cases[i], &cases[0]);
    free(latencies);
    free(reader.room);
    const struct files *const lists[] = {&images, &read};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(lists); k++) {
        for (size_t i = 0; i < lists[k]->num_items; i++)
            free(lists[k]->items[i].path);
        free(lists[k]->items);
    }
}

/* The last of our CPUs to the client, the others to the storage node; all to both if there are too
 * few. */
static void share_cpus(struct bench *b)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    if (sched_getaffinity(0, sizeof(all), &all) != 0)
        bench_die("more CPUs than a cpu_set_t holds");
    b->storage = b->client = all;
    const int num_storage = CPU_COUNT(&all) - (int)b->client_cpus;
    if (num_storage < 1 || !b->client_cpus)
        return;
    CPU_ZERO(&b->storage);
    CPU_ZERO(&b->client);
    for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &all))
            CPU_SET(cpu, seen++ < num_storage ? &b->storage : &b->client);
    }
}

/* Where the other programs of this build are. */
static const char *bin_beside_us(void)
{
    static char path[PATH_MAX + 16];
    const ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
    path[len > 0 ? len : 0] = '\0';
    for (int i = 0; i < 2 && strrchr(path, '/'); i++)
        *strrchr(path, '/') = '\0';
    strcat(path, "/bin");
    return path;
}

int main(int argc, char **argv)
{
    struct bench b = {
        .bin = bin_beside_us(),
        .mode = "remote_alloff",
        .rate = 500,
        .seconds = 1,
        .warm_up_s = 0.2,
        .read_bytes = 64 << 10,
        .touch_us = 100,
        .rounds = 5,
        .attempts = 3,
        .io_workers = 2,
        .client_cpus = 1,
        .nice = 19,
    };
    const struct sluice_option options[] = {
        {.name = "read",
         SLUICE_VALUE_STRING(b.read_dir, "FOLDER"),
         .help = "Files that the reader reads; not given: the images."},
        {.name = "rate",
         SLUICE_VALUE_DOUBLE(b.rate, "N"),
         .help = "Reads that come in a second.",
         SLUICE_RANGE(0.1, 1e5)},
        {.name = "read-bytes",
         SLUICE_VALUE_BYTES(b.read_bytes, "SIZE"),
         .help = "Of a read; whole pages of 4 kB.",
         SLUICE_RANGE(PAGE, 64 << 20)},
        {.name = "touch-us",
         SLUICE_VALUE_UINT(b.touch_us, "N"),
         .help = "CPU time that the reader spends on what it read, at least.",
         SLUICE_RANGE(0, 1e6)},
        {.name = "seconds",
         SLUICE_VALUE_DOUBLE(b.seconds, "S"),
         .help = "Time of each case in each round.",
         SLUICE_RANGE(0.05, 3600)},
        {.name = "warm-up",
         SLUICE_VALUE_DOUBLE(b.warm_up_s, "S"),
         .help = "Time before it that does not count.",
         SLUICE_RANGE(0, 3600)},
        {.name = "rounds",
         SLUICE_VALUE_UINT(b.rounds, "N"),
         .help = "Rounds of all cases.",
         SLUICE_RANGE(1, MAX_ROUNDS)},
        {.name = "attempts",
         SLUICE_VALUE_UINT(b.attempts, "N"),
         .help = "Of a round in which other programs have more than 4 % of the storage CPUs.",
         SLUICE_RANGE(1, 100)},
        {.name = "mode",
         SLUICE_VALUE_STRING(b.mode, "MODE"),
         .help = "What the server is asked for: offload_train's --dataset-mode."},
        {.name = "prep-workers",
         SLUICE_VALUE_UINT(b.prep_workers, "N"),
         .help = "Of the server; 0 is one for each of the storage node's CPUs.",
         SLUICE_RANGE(0, 1024)},
        {.name = "io-workers",
         SLUICE_VALUE_UINT(b.io_workers, "N"),
         .help = "Of the server; raw files (--mode remote_nooff) are theirs.",
         SLUICE_RANGE(1, 1024)},
        {.name = "nice",
         SLUICE_VALUE_UINT(b.nice, "N"),
         .help = "The server's --prep-nice.",
         SLUICE_RANGE(0, 19)},
        {.name = "cpu-max",
         SLUICE_VALUE_DOUBLE(b.cpu_max, "CORES"),
         .help = "The server's --prep-cpu-max; not given: half of the storage node's CPUs.",
         SLUICE_RANGE(0.01, 65536)},
        {.name = "cgroup",
         SLUICE_VALUE_STRING(b.cgroup, "PATH"),
         .help = "One more case, with this --prep-cgroup as it stands."},
        {.name = "client-cpus",
         SLUICE_VALUE_UINT(b.client_cpus, "N"),
         .help = "CPUs, the last ones, that only the client uses; 0, or too many: all share all.",
         SLUICE_RANGE(0, 1024)},
        {.name = "keep-cache",
         SLUICE_VALUE_FLAG(b.is_cached),
         .help = "Let the server's images stay in the page cache, as a small dataset would."},
        {.name = "bin",
         SLUICE_VALUE_STRING(b.bin, "FOLDER"),
         .help = "Where offload_server and offload_train are."},
    };
    const struct sluice_cli cli = {
        .program = "bench_reader",
        .summary = "Latency of a co-running reader of the disk, with offload_server off and on.",
        .positional = "IMAGES",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .epilog = "us and p99_us are the 99th percentile, the median over the rounds; over_off is\n"
                  "that over the one without a server, round by round, with the least and the\n"
                  "most; offload_per_s is what the server did meanwhile, alone_per_s what it did\n"
                  "without the reader, others the share of its CPUs that went to other programs.\n",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    b.images = parsed.positional[0];
    if (!b.read_dir)
        b.read_dir = b.images;
    b.read_bytes -= b.read_bytes % PAGE;
    share_cpus(&b);
    if (!b.prep_workers)
        b.prep_workers = (uint64_t)CPU_COUNT(&b.storage);
    if (b.cpu_max <= 0)
        b.cpu_max = CPU_COUNT(&b.storage) / 2.0;
    bench_print_machine();
    run(&b, parsed.is_json);
    return 0;
}
