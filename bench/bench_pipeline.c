/* CPU time and bytes per sample of every route through the pipeline, at every CPU level, beside
 * Pillow and torchvision on the same crops.  Each level is a process of its own, as is the
 * reference; they take turns on one core.
 *
 * The headline is the ratio of `exact u8`: a file to the u8 image after the last u8 op, as the
 * workers of offload_train make it, beside Pillow and torchvision up to the same point.  The rows
 * `exact f32` go on to the float32 tensor, for programs that want it from sluice_pipeline_finish().
 *
 * docs/BENCHMARKING.md */

#include "bench/bench_pipeline.h"

#include "base/buf.h"
#include "base/compiler.h"
#include "base/cpu.h"
#include "bench/bench.h"
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct bench {
    struct bench_image *images;
    size_t num_images;
    struct bench_task *tasks;
    size_t num_tasks;
    size_t repeats;
    bool is_compare; /* the checks, and no times */
    struct bench_report report;
};

/* A tensor, or that there is none in this way. */
struct answer {
    struct sluice_hash128 hash;
    bool is_declined;
};

/* A process that runs the routes at one level. */
struct worker {
    const char *level;
    int control;
    pid_t pid;
    double *us;             /* [route][task][repeat] */
    double *bytes;          /* [route][task] */
    struct answer *answers; /* [route or check][task] */
};

static void *new_array(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        bench_die("no memory");
    return memory;
}

static void make_tasks(struct bench *b, size_t epochs)
{
    b->num_tasks = b->num_images * epochs;
    b->tasks = new_array(b->num_tasks, sizeof(*b->tasks));
    for (size_t t = 0; t < b->num_tasks; t++) {
        const size_t i = t % b->num_images;
        b->tasks[t] = (struct bench_task){
            &b->images[i], {.seed = 1, .epoch = (uint32_t)(t / b->num_images), .sample_id = i}};
    }
}

/* --- what is compared: the checks, or else the routes --- */

static size_t num_compared(const struct bench *b)
{
    return b->is_compare ? bench_num_checks : bench_num_routes;
}

static const char *compared_name(const struct bench *b, size_t c)
{
    return b->is_compare ? bench_check_name(c) : bench_routes[c].name;
}

static enum bench_tensor compared_tensor(const struct bench *b, size_t c)
{
    return b->is_compare ? bench_check_tensor(c) : bench_routes[c].tensor;
}

static struct answer answer_of(const struct bench *b, size_t c, struct routes *routes,
                               const struct bench_task *task)
{
    struct answer answer;
    memset(&answer, 0, sizeof(answer)); /* it goes through a pipe */
    if (b->is_compare)
        answer.is_declined = !bench_check_run(c, routes, task);
    else
        (void)bench_routes[c].run(routes, task);
    if (!answer.is_declined)
        answer.hash = bench_routes_hash(routes);
    return answer;
}

/* --- a worker --- */

static _Noreturn void serve(const struct bench *b, const char *level, int control)
{
    /* Before anything asks for the level, which is decided once. */
    if (setenv("SLUICE_CPU", level, 1) != 0)
        bench_die("setenv: %s", strerror(errno));
    /* libjpeg-turbo's scalar code too defines the result, where nothing is timed. */
    if (b->is_compare && strcmp(level, "c") == 0 && setenv("JSIMD_FORCENONE", "1", 1) != 0)
        bench_die("setenv: %s", strerror(errno));
    struct routes *routes = bench_routes_create();
    /* Said a route at a time: whoever listens would wake up on this core in mid-route. */
    struct bench_outcome *outcomes = new_array(b->num_tasks, sizeof(*outcomes));
    struct answer *answers = new_array(b->num_tasks, sizeof(*answers));
    char command;
    while (bench_read_all(control, &command, 1)) {
        for (size_t c = 0; command == 'h' && c < num_compared(b); c++) {
            if (compared_tensor(b, c) == TENSOR_NONE)
                continue;
            for (size_t t = 0; t < b->num_tasks; t++)
                answers[t] = answer_of(b, c, routes, &b->tasks[t]);
            bench_write_all(control, answers, b->num_tasks * sizeof(*answers));
        }
        for (size_t r = 0; command == 't' && r < bench_num_routes; r++) {
            for (size_t t = 0; t < b->num_tasks; t++)
                outcomes[t] = bench_routes[r].run(routes, &b->tasks[t]);
            bench_write_all(control, outcomes, b->num_tasks * sizeof(*outcomes));
        }
    }
    _exit(0);
}

static void must_read(int control, void *out, size_t len)
{
    if (!bench_read_all(control, out, len))
        bench_die("a worker is gone");
}

static void ask_times(const struct bench *b, struct worker *worker, size_t repeat)
{
    bench_write_all(worker->control, "t", 1);
    for (size_t r = 0; r < bench_num_routes; r++) {
        for (size_t t = 0; t < b->num_tasks; t++) {
            struct bench_outcome outcome;
            must_read(worker->control, &outcome, sizeof(outcome));
            worker->us[(r * b->num_tasks + t) * b->repeats + repeat] = outcome.us;
            worker->bytes[r * b->num_tasks + t] = (double)outcome.bytes;
        }
    }
}

static void ask_answers(const struct bench *b, struct worker *worker)
{
    bench_write_all(worker->control, "h", 1);
    for (size_t c = 0; c < num_compared(b); c++) {
        for (size_t t = 0; compared_tensor(b, c) != TENSOR_NONE && t < b->num_tasks; t++)
            must_read(worker->control, &worker->answers[c * b->num_tasks + t],
                      sizeof(struct answer));
    }
}

/* --- the reference --- */

struct reference {
    bool is_there;
    pid_t pid;
    int control;
    double *us; /* [kind][task][repeat] */
};

static void write_tasks(const struct bench *b, const struct sluice_pipeline *train, char *path)
{
    const int fd = mkstemp(path);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w");
    if (!file)
        bench_die("cannot make %s: %s", path, strerror(errno));
    for (size_t t = 0; t < b->num_tasks; t++) {
        const struct bench_image *image = b->tasks[t].image;
        const struct sluice_draws draws =
            sluice_pipeline_draws(train, &b->tasks[t].key, image->info.width, image->info.height);
        fprintf(file, "%u %u %u %u %d %s\n", draws.top, draws.left, draws.height, draws.width,
                draws.flip, image->path);
    }
    if (fclose(file) != 0)
        bench_die("cannot write %s: %s", path, strerror(errno));
}

static void command(struct reference *ref, const char *text)
{
    bench_write_all(ref->control, text, strlen(text));
}

/* In the source tree that this program was built from, or in $SLUICE_SOURCE on another machine. */
static void find_reference(char *path, size_t size)
{
    const char *source = getenv("SLUICE_SOURCE");
    if (source)
        snprintf(path, size, "%s/bench/sluice_bench/reference.py", source);
    else
        snprintf(path, size, "%s", SLUICE_BENCH_REFERENCE);
}

/* Not there, with its own words on stderr, if the program ends at once. */
static void start_reference(const struct bench *b, struct reference *ref, const char *python,
                            const char *tasks)
{
    ref->pid = bench_fork(&ref->control);
    if (ref->pid == 0) {
        if (dup2(ref->control, 0) < 0 || dup2(ref->control, 1) < 0)
            bench_die("dup2: %s", strerror(errno));
        char path[4096];
        find_reference(path, sizeof(path));
        execl(python, python, path, tasks, (char *)NULL);
        fprintf(stderr, "SKIPPED: cannot run %s: %s\n", python, strerror(errno));
        _exit(77);
    }
    ref->us = new_array((size_t)NUM_REFERENCES * b->num_tasks * b->repeats, sizeof(double));
    /* The first answer shows that it is there, and warms it up. */
    (void)send(ref->control, "times\n", 6, MSG_NOSIGNAL);
    double first[NUM_REFERENCES];
    if (!bench_read_all(ref->control, first, sizeof(first))) {
        fprintf(stderr, "no reference: Pillow and torchvision cannot be run here\n");
        (void)waitpid(ref->pid, NULL, 0);
        return;
    }
    for (size_t t = 1; t < b->num_tasks; t++)
        must_read(ref->control, first, sizeof(first));
    ref->is_there = true;
}

static void ask_reference_times(const struct bench *b, struct reference *ref, size_t repeat)
{
    command(ref, "times\n");
    for (size_t t = 0; t < b->num_tasks; t++) {
        double us[NUM_REFERENCES];
        must_read(ref->control, us, sizeof(us));
        for (size_t k = 0; k < NUM_REFERENCES; k++)
            ref->us[(k * b->num_tasks + t) * b->repeats + repeat] = us[k];
    }
}

/* --- the results --- */

/* The median over the repeats, for each sample. */
static double *medians(const struct bench *b, const double *us)
{
    double *of_task = new_array(b->num_tasks, sizeof(double));
    double *values = new_array(b->repeats, sizeof(double));
    for (size_t t = 0; t < b->num_tasks; t++) {
        memcpy(values, us + t * b->repeats, b->repeats * sizeof(double));
        of_task[t] = bench_quantile(values, b->repeats, 0.5);
    }
    free(values);
    return of_task;
}

static double mean_file_bytes(const struct bench *b)
{
    double bytes = 0;
    for (size_t t = 0; t < b->num_tasks; t++)
        bytes += (double)b->tasks[t].image->file->len;
    return bytes / (double)b->num_tasks;
}

static void print_row(struct bench *b, const char *name, const char *level, double *us,
                      double bytes, double reference_us)
{
    const double mean = bench_mean(us, b->num_tasks);
    bench_row_begin(&b->report, name);
    bench_row_number(&b->report, "us", 1, mean);
    bench_row_number(&b->report, "bytes", 0, bytes);
    bench_row_number(&b->report, "reference_us", 1, reference_us);
    bench_row_number(&b->report, "ratio", 2, reference_us / mean);
    bench_row_number(&b->report, "of_file", 3, bytes / mean_file_bytes(b));
    bench_row_number(&b->report, "p50_us", 1, bench_quantile(us, b->num_tasks, 0.5));
    bench_row_number(&b->report, "p90_us", 1, bench_quantile(us, b->num_tasks, 0.9));
    bench_row_text(&b->report, "level", level);
    bench_row_end(&b->report);
}

static void print_worker(struct bench *b, const struct worker *worker, bool is_best,
                         const struct reference *ref)
{
    const size_t per_route = b->num_tasks * b->repeats;
    for (size_t r = 0; r < bench_num_routes; r++) {
        const struct bench_route *route = &bench_routes[r];
        double reference_us = NAN;
        if (ref->is_there && route->reference != REFERENCE_NONE) {
            double *us = medians(b, ref->us + route->reference * per_route);
            reference_us = bench_mean(us, b->num_tasks);
            free(us);
        }
        char name[96];
        snprintf(name, sizeof(name), "%s%s%s", route->name, is_best ? "" : ", ",
                 is_best ? "" : worker->level);
        double *us = medians(b, worker->us + r * per_route);
        const double bytes = bench_mean(worker->bytes + r * b->num_tasks, b->num_tasks);
        print_row(b, name, worker->level, us, bytes, reference_us);
        free(us);
    }
}

static size_t route_of(const char *name)
{
    for (size_t r = 0; r < bench_num_routes; r++) {
        if (strcmp(bench_routes[r].name, name) == 0)
            return r;
    }
    bench_die("no route %s", name);
}

/* Each sample in the form of the fewest bytes, as a plan for a slow link has it. */
static void print_fewest_bytes(struct bench *b, const struct worker *worker)
{
    const size_t crop = route_of("jpeg_crop@0 storage"), packed = route_of("u8_packed@3 storage");
    const double *crop_bytes = worker->bytes + crop * b->num_tasks;
    const double *packed_bytes = worker->bytes + packed * b->num_tasks;
    double *us = medians(b, worker->us + crop * b->num_tasks * b->repeats);
    double *packed_us = medians(b, worker->us + packed * b->num_tasks * b->repeats);
    double bytes = 0;
    for (size_t t = 0; t < b->num_tasks; t++) {
        const bool is_packed = packed_bytes[t] < crop_bytes[t];
        bytes += is_packed ? packed_bytes[t] : crop_bytes[t];
        if (is_packed)
            us[t] = packed_us[t];
    }
    print_row(b, "smaller of jpeg_crop@0 u8_packed@3", worker->level, us,
              bytes / (double)b->num_tasks, NAN);
    free(us);
    free(packed_us);
}

/* The hashes that all others must have: torchvision's, or those of the last worker, which is the
 * scalar one if all are there, in the first way that gives such a tensor. */
static struct sluice_hash128 *wanted(const struct bench *b, const struct worker *last,
                                     struct reference *ref)
{
    struct sluice_hash128 *want = new_array((TENSOR_VAL + 1) * b->num_tasks, sizeof(*want));
    for (size_t c = num_compared(b); c-- > 0;) {
        for (size_t t = 0; t < b->num_tasks; t++)
            want[compared_tensor(b, c) * b->num_tasks + t] =
                last->answers[c * b->num_tasks + t].hash;
    }
    if (!ref->is_there)
        return want;
    const size_t tensor_len = 3 * 224 * 224 * sizeof(float);
    uint8_t *tensor = new_array(tensor_len, 1);
    command(ref, "tensors\n");
    for (size_t t = 0; t < b->num_tasks; t++) {
        for (int kind = TENSOR_TRAIN; kind <= TENSOR_VAL; kind++) {
            must_read(ref->control, tensor, tensor_len);
            want[(size_t)kind * b->num_tasks + t] = sluice_hash128(tensor, tensor_len);
        }
    }
    free(tensor);
    return want;
}

/* Every tensor of every way and level must be the wanted one.  Returns how many are not. */
static size_t compare(struct bench *b, const struct worker *workers, size_t num_workers,
                      struct reference *ref)
{
    struct sluice_hash128 *want = wanted(b, &workers[num_workers - 1], ref);
    size_t all_wrong = 0, all = 0;
    for (size_t c = 0; c < num_compared(b); c++) {
        const enum bench_tensor tensor = compared_tensor(b, c);
        size_t num_wrong = 0, num_declined = 0, num_equal = 0;
        for (size_t w = 0; tensor != TENSOR_NONE && w < num_workers; w++) {
            for (size_t t = 0; t < b->num_tasks; t++) {
                const struct answer *answer = &workers[w].answers[c * b->num_tasks + t];
                if (answer->is_declined) {
                    num_declined++;
                } else if (memcmp(&answer->hash, &want[tensor * b->num_tasks + t],
                                  sizeof(answer->hash)) == 0) {
                    num_equal++;
                } else if (num_wrong++ < 10) {
                    fprintf(stderr, "%s, epoch %u: %s at %s differs\n", b->tasks[t].image->path,
                            b->tasks[t].key.epoch, compared_name(b, c), workers[w].level);
                }
            }
        }
        all_wrong += num_wrong;
        all += num_wrong + num_equal;
        if (!b->is_compare)
            continue;
        bench_row_begin(&b->report, compared_name(b, c));
        bench_row_number(&b->report, "compared", 0, (double)(num_equal + num_wrong));
        bench_row_number(&b->report, "differ", 0, (double)num_wrong);
        bench_row_number(&b->report, "declined", 0, (double)num_declined);
        bench_row_end(&b->report);
    }
    free(want);
    fprintf(stderr, "%zu tensors at %zu CPU levels compared with %s, bit for bit: %zu differ\n",
            all, num_workers, ref->is_there ? "torchvision's" : "each other", all_wrong);
    return all_wrong;
}

static size_t choose_levels(const char *wish, const char **levels)
{
    const enum sluice_cpu_level best = bench_best_level();
    size_t count = 0;
    if (strcmp(wish, "all") != 0) {
        levels[count++] = wish;
        return count;
    }
    levels[count++] = sluice_cpu_level_name(best);
    if (best == SLUICE_CPU_AVX512)
        levels[count++] = "avx2";
    if (best != SLUICE_CPU_C)
        levels[count++] = "c";
    return count;
}

int main(int argc, char **argv)
{
    static const char *const level_choices[] = {"all", "avx512", "avx2", "neon", "c", NULL};
    uint64_t max_images = 0, epochs = 1, repeats = 3;
    bool with_reference = false, is_compare = false;
    const char *level = "all", *python = "/usr/bin/python3";
    const struct sluice_option options[] = {
        {.name = "images",
         SLUICE_VALUE_UINT(max_images, "N"),
         .help = "At most so many of the folder, spread over it; 0: all."},
        {.name = "epochs",
         SLUICE_VALUE_UINT(epochs, "N"),
         .help = "A crop of every image in each.",
         SLUICE_RANGE(1, 100)},
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "Times that each sample is run; its median counts.",
         SLUICE_RANGE(1, 1000)},
        {.name = "level",
         SLUICE_VALUE_CHOICE(level, "LEVEL"),
         .help = "The kernels' CPU level.",
         .choices = level_choices},
        {.name = "compare",
         SLUICE_VALUE_FLAG(is_compare),
         .help = "Time nothing, and compare the tensors of every form, split, way of decoding and "
                 "level."},
        {.name = "reference",
         SLUICE_VALUE_FLAG(with_reference),
         .help = "Run Pillow and torchvision on the same crops too, and compare every tensor."},
        {.name = "python",
         SLUICE_VALUE_STRING(python, "PROGRAM"),
         .help = "The Python that has them."},
    };
    const struct sluice_cli cli = {
        .program = "bench_pipeline",
        .summary = "Time every route through the pipeline on a folder of images.",
        .positional = "DIR",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;

    signal(SIGPIPE, SIG_IGN);
    bench_print_machine();
    bench_pin(0);
    struct bench b = {
        .repeats = repeats, .is_compare = is_compare, .report = {.is_json = args.is_json}};
    b.images = bench_images_load(args.positional[0], max_images, &b.num_images);
    make_tasks(&b, epochs);

    const char *levels[4];
    struct worker workers[4];
    const size_t num_workers = choose_levels(level, levels);
    const size_t per_route = b.num_tasks * b.repeats;
    for (size_t w = 0; w < num_workers; w++) {
        workers[w] = (struct worker){
            .level = levels[w],
            .us = new_array(bench_num_routes * per_route, sizeof(double)),
            .bytes = new_array(bench_num_routes * b.num_tasks, sizeof(double)),
            .answers = new_array(num_compared(&b) * b.num_tasks, sizeof(struct answer)),
        };
        workers[w].pid = bench_fork(&workers[w].control);
        if (workers[w].pid == 0)
            serve(&b, levels[w], workers[w].control);
    }
    struct reference ref = {0};
    char tasks[] = "/tmp/sluice-bench-tasks-XXXXXX";
    if (with_reference) {
        struct sluice_pipeline *train;
        if (sluice_pipeline_parse(BENCH_TRAIN, &train, NULL))
            bench_die("no memory");
        write_tasks(&b, train, tasks);
        sluice_pipeline_destroy(train);
        start_reference(&b, &ref, python, tasks);
        unlink(tasks);
    }

    for (size_t w = 0; w < num_workers; w++)
        ask_answers(&b, &workers[w]); /* warms them up too */
    const size_t num_wrong = compare(&b, workers, num_workers, &ref);
    for (size_t r = 0; !is_compare && r < b.repeats; r++) {
        for (size_t w = 0; w < num_workers; w++)
            ask_times(&b, &workers[w], r);
        if (ref.is_there)
            ask_reference_times(&b, &ref, r);
    }
    fprintf(stderr, "%zu images, %zu epochs", b.num_images, (size_t)epochs);
    if (!is_compare)
        fprintf(stderr, ", medians of %zu", b.repeats);
    fprintf(stderr, "\n");
    for (size_t w = 0; !is_compare && w < num_workers; w++)
        print_worker(&b, &workers[w], w == 0, &ref);
    if (!is_compare)
        print_fewest_bytes(&b, &workers[0]);

    /* All at once, as a later one holds the earlier ones' ends too. */
    for (size_t w = 0; w < num_workers; w++)
        close(workers[w].control);
    if (ref.is_there) {
        close(ref.control);
        (void)waitpid(ref.pid, NULL, 0);
    }
    for (size_t w = 0; w < num_workers; w++) {
        (void)waitpid(workers[w].pid, NULL, 0);
        free(workers[w].us);
        free(workers[w].bytes);
        free(workers[w].answers);
    }
    free(ref.us);
    bench_images_free(b.images, b.num_images);
    free(b.tasks);
    return num_wrong ? 1 : 0;
}
