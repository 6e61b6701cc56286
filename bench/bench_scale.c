/* What a long list of samples costs: seconds until a server is ready and until a client has its
 * first batch, and the memory of both.  docs/BENCHMARKING.md
 *
 * The samples are made up: rows of a manifest that are all the same few bytes of one file, so that
 * ten million need no more than the manifest.  Server and client are processes of their own. */

#include "base/clock.h"
#include "base/file.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "datasets/manifest/binary.h"
#include "sluice/sluice.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIDE 32
#define OFFSET 512 /* of the one image in the file that stands for a tar */
#define NUM_CLASSES 1000
#define BATCH "256"

/* Resident memory of one process, in bytes. */
struct memory {
    double anonymous; /* its own */
    double files;     /* pages of files that it alone maps, which the kernel may drop */
    double rss, peak;
};

struct seen {
    double seconds;
    struct memory memory;
    char address[64];
};

struct scale {
    char folder[256];
    size_t num_samples;
    const char *mode;
    bool should_keep; /* the data */
    struct bench_report report;
};

/* --- data --- */

static void put_image(const char *path, size_t *bytes, int64_t *mtime_ns)
{
    static char file[OFFSET + 32 + SIDE * SIDE * 3];
    const int head = snprintf(file + OFFSET, 32, "P6\n%d %d\n255\n", SIDE, SIDE);
    for (size_t i = 0; i < (size_t)SIDE * SIDE * 3; i++)
        file[OFFSET + (size_t)head + i] = (char)(i * 7);
    *bytes = (size_t)head + (size_t)SIDE * SIDE * 3;
    struct sluice_err err = {0};
    bench_check(sluice_file_write_atomic(path, file, OFFSET + *bytes, &err), &err);
    struct stat st;
    if (stat(path, &st) != 0)
        bench_die("%s cannot be looked at", path);
    *mtime_ns = sluice_file_mtime_ns(&st);
}

static void make_data(const struct scale *scale)
{
    char tar[300], text[300], path[80], names[NUM_CLASSES][16];
    const char *classes[NUM_CLASSES];
    size_t bytes;
    struct sluice_manifest_entry row = {.offset = OFFSET, .has_hash = true, .width = SIDE};
    snprintf(tar, sizeof(tar), "%s/all.tar", scale->folder);
    snprintf(text, sizeof(text), "%s/" SLUICE_MANIFEST_FILE, scale->folder);
    put_image(tar, &bytes, &row.mtime_ns);
    row.height = SIDE;
    row.bytes = bytes;
    row.path = path;
    for (size_t i = 0; i < NUM_CLASSES; i++) {
        snprintf(names[i], sizeof(names[i]), "n%08zu", i);
        classes[i] = names[i];
    }
    const struct sluice_manifest_writer_options options = {.num_entries = scale->num_samples,
                                                           .num_classes = NUM_CLASSES,
                                                           .has_offsets = true,
                                                           .has_mtimes = true,
                                                           .has_hashes = true};
    struct sluice_manifest_writer *writer = NULL;
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    bench_check(sluice_manifest_writer_create(&options, &writer, &err), &err);
    for (size_t i = 0; i < scale->num_samples; i++) {
        row.label = (uint32_t)(i * NUM_CLASSES / scale->num_samples);
        row.hash = sluice_hash128(&i, sizeof(i)); /* as unlike as real ones; nobody compares them */
        snprintf(path, sizeof(path), "all.tar/train/n%08u/n%08u_%09zu.ppm", row.label, row.label,
                 i);
        bench_check(sluice_manifest_writer_add(writer, &row, &err), &err);
    }
    const struct sluice_manifest_ending ending = {.classes = classes};
    bench_check(sluice_manifest_writer_commit(writer, &ending, &manifest, &err), &err);
    sluice_manifest_writer_destroy(writer);
    bench_check(sluice_manifest_write(manifest, text, &err), &err);
    bench_check(sluice_manifest_write_binary(manifest, text, &err), &err);
    sluice_manifest_destroy(manifest);
}

static void remove_data(const struct scale *scale)
{
    if (scale->should_keep) {
        fprintf(stderr, "%s is kept\n", scale->folder);
        return;
    }
    static const char *const names[] = {"all.tar", SLUICE_MANIFEST_FILE, "sluice-manifest.bin"};
    char path[300];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        snprintf(path, sizeof(path), "%s/%s", scale->folder, names[i]);
        (void)unlink(path);
    }
    snprintf(path, sizeof(path), "rm -rf '%s/cache'", scale->folder);
    if (system(path) != 0 || rmdir(scale->folder) != 0)
        fprintf(stderr, "%s is left behind\n", scale->folder);
}

/* --- a process --- */

static double kilobytes(const char *file, const char *key)
{
    FILE *in = fopen(file, "re");
    char line[256];
    double sum = 0;
    while (in && fgets(line, sizeof(line), in)) {
        if (strncmp(line, key, strlen(key)) == 0)
            sum += atof(line + strcspn(line, " ")) * 1024;
    }
    if (in)
        (void)fclose(in);
    return sum;
}

static struct memory memory_now(void)
{
    static const char rollup[] = "/proc/self/smaps_rollup";
    return (struct memory){
        .anonymous = kilobytes(rollup, "Anonymous:"),
        .files = kilobytes(rollup, "Private_") - kilobytes(rollup, "Anonymous:"),
        .rss = kilobytes(rollup, "Rss:"),
        .peak = kilobytes("/proc/self/status", "VmHWM:"),
    };
}

static void serve(const struct scale *scale, int control)
{
    const struct sluice_setting settings[] = {{"listen", "127.0.0.1:0"}};
    struct sluice_server *server = NULL;
    struct sluice_err err = {0};
    const uint64_t start_ns = sluice_clock_ns();
    bench_check(sluice_server_start(scale->folder, settings, 1, &server, &err), &err);
    struct seen seen = {.seconds = (double)(sluice_clock_ns() - start_ns) * 1e-9};
    snprintf(seen.address, sizeof(seen.address), "%s", sluice_server_address(server));
    seen.memory = memory_now();
    char word;
    do { /* a word asks how it stands; the end of the pipe ends it */
        bench_write_all(control, &seen, sizeof(seen));
        if (!bench_read_all(control, &word, 1))
            break;
        seen.memory = memory_now();
    } while (true);
    sluice_server_stop(server);
}

static void fetch(const struct scale *scale, const char *address, int control)
{
    const struct sluice_setting settings[] = {{"host", address},
                                              {"dataset-mode", scale->mode},
                                              {"batch-size", BATCH},
                                              {"image-size", "32"},
                                              {"workers", "2"}};
    struct sluice_loader *loader = NULL;
    const struct sluice_batch *batch = NULL;
    const struct sluice_epoch_start start = {.part = SLUICE_TRAIN};
    struct sluice_err err = {0};
    const uint64_t start_ns = sluice_clock_ns();
    bench_check(sluice_loader_create(settings, SLUICE_ARRAY_LEN(settings), &loader, &err), &err);
    bench_check(sluice_loader_open(loader, &err), &err);
    bench_check(sluice_loader_start(loader, &start, &err), &err);
    bench_check(sluice_loader_next(loader, -1, &batch, &err), &err);
    struct seen seen = {.seconds = (double)(sluice_clock_ns() - start_ns) * 1e-9,
                        .memory = memory_now()};
    sluice_batch_release(batch);
    bench_write_all(control, &seen, sizeof(seen));
    sluice_loader_close(loader);
}

/* --- rows --- */

static void tell(struct scale *scale, const char *who, const struct seen *seen)
{
    char name[64];
    const struct memory *m = &seen->memory;
    snprintf(name, sizeof(name), "%s, %zu samples", who, scale->num_samples);
    bench_row_begin(&scale->report, name);
    bench_row_number(&scale->report, "us", 0, seen->seconds * 1e6);
    bench_row_number(&scale->report, "bytes", 0, m->anonymous);
    bench_row_number(&scale->report, "own_per_sample", 1,
                     m->anonymous / (double)scale->num_samples);
    bench_row_number(&scale->report, "files_per_sample", 1, m->files / (double)scale->num_samples);
    bench_row_number(&scale->report, "rss_mb", 0, m->rss * 1e-6);
    bench_row_number(&scale->report, "peak_mb", 0, m->peak * 1e-6);
    bench_row_number(&scale->report, "reference_us", 0, NAN);
    bench_row_number(&scale->report, "ratio", 0, NAN);
    bench_row_end(&scale->report);
}

static void run_client(struct scale *scale, const char *address, const char *who)
{
    int control;
    struct seen seen;
    const pid_t pid = bench_fork(&control);
    if (pid == 0) {
        fetch(scale, address, control);
        exit(0);
    }
    if (!bench_read_all(control, &seen, sizeof(seen)))
        bench_die("the client ended too early");
    (void)close(control);
    (void)waitpid(pid, NULL, 0);
    tell(scale, who, &seen);
}

static void measure(struct scale *scale)
{
    int control;
    struct seen seen;
    int maker;
    const pid_t made_by = bench_fork(&maker); /* so that its memory is not the others' */
    if (made_by == 0) {
        make_data(scale);
        exit(0);
    }
    int exit_status = -1;
    if (waitpid(made_by, &exit_status, 0) != made_by || exit_status != 0)
        bench_die("the data could not be made");
    (void)close(maker);
    const pid_t pid = bench_fork(&control);
    if (pid == 0) {
        serve(scale, control);
        exit(0);
    }
    if (!bench_read_all(control, &seen, sizeof(seen)))
        bench_die("the server ended too early");
    tell(scale, "server, ready", &seen);
    run_client(scale, seen.address, "client, first");
    run_client(scale, seen.address, "client, again");
    bench_write_all(control, "?", 1);
    if (!bench_read_all(control, &seen, sizeof(seen)))
        bench_die("the server ended too early");
    tell(scale, "server, after clients", &seen);
    (void)close(control);
    (void)waitpid(pid, NULL, 0);
    remove_data(scale);
}

int main(int argc, char **argv)
{
    uint64_t num_samples = 1000000;
    const char *folder = "/tmp", *mode = "remote_auto";
    bool is_json = false, should_keep = false;
    const struct sluice_option table[] = {
        {.name = "samples",
         SLUICE_VALUE_UINT(num_samples, "N"),
         .help = "samples in the list",
         SLUICE_RANGE(NUM_CLASSES, 100000000)},
        {.name = "folder",
         SLUICE_VALUE_STRING(folder, "DIR"),
         .help = "where a folder is made for the data"},
        {.name = "mode", SLUICE_VALUE_STRING(mode, "MODE"), .help = "the client's --dataset-mode"},
        {.name = "keep", SLUICE_VALUE_FLAG(should_keep), .help = "leave the data where it is"},
        {.name = "json", SLUICE_VALUE_FLAG(is_json), .help = "one JSON object a line"},
    };
    const struct sluice_cli cli = {
        .program = "bench_scale",
        .summary = "Start and memory of server and client with a list of many samples.",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    struct scale scale = {.num_samples = (size_t)num_samples,
                          .mode = mode,
                          .should_keep = should_keep,
                          .report = {.is_json = is_json}};
    char cache[300];
    snprintf(scale.folder, sizeof(scale.folder), "%.200s/sluice-scale-XXXXXX", folder);
    if (!mkdtemp(scale.folder))
        bench_die("no folder can be made in %s", folder);
    snprintf(cache, sizeof(cache), "%s/cache", scale.folder);
    setenv("XDG_CACHE_HOME", cache, 1); /* the user's own stays as it is */
    signal(SIGPIPE, SIG_IGN);
    bench_print_machine();
    measure(&scale);
    return 0;
}
