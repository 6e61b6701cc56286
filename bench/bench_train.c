#include "bench/bench.h"

#include "base/clock.h"
#include "bench/bench_train_parts.h"
#include "cli/cli.h"
#include "sluice/lend.h"
#include "train/model_names.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Samples a second that a trainer takes when batches are always ready: the rate that a loader has
 * to feed.  Each step uploads its batch anew. */

struct bench {
    const char *device, *model, *precision;
    uint64_t batch_size, image_size, num_classes, steps, rounds, gpus;
    unsigned rank; /* of `gpus` processes */
    bool is_parts, has_gate;
};

/* A trainer and its batch. */
struct subject {
    struct sluice_trainer *trainer;
    struct sluice_train_batch batch;
    void *pixels;
    uint32_t *labels;
    double *rates;            /* samples a second, of each round */
    struct sluice_lend *lend; /* NULL: no gate */
    uint64_t num_points, num_steps;
};

static sluice_status add_point(void *data, void *stream, struct sluice_err *err)
{
    struct subject *subject = data;
    subject->num_points++;
    return sluice_lend_point(subject->lend, stream, err);
}

/* A GPU that is lent, and that nobody borrows. */
static struct sluice_lend *open_lend(const struct bench *b)
{
    char path[64];
    struct sluice_err err = {{0}};
    struct sluice_lend *lend = NULL;
    const int device = strcmp(b->device, "cuda") == 0 ? 0 : -1;
    snprintf(path, sizeof(path), "/tmp/bench_train_%d", (int)getpid());
    const struct sluice_lend_options options = {.path = path, .device = device};
    bench_check(sluice_lend_open(&options, &lend, &err), &err);
    return lend;
}

static void open_subject(const struct bench *b, bool has_gate, struct subject *subject)
{
    struct sluice_err err = {{0}};
    static float table[3][256];
    for (int c = 0; c < 3; c++) {
        for (int v = 0; v < 256; v++)
            table[c][v] = ((float)v - 118) / 58;
    }
    struct sluice_train_options options = {
        .device = b->device,
        .model = b->model,
        .num_classes = (unsigned)b->num_classes,
        .height = (unsigned)b->image_size,
        .width = (unsigned)b->image_size,
        .batch_size = (unsigned)b->batch_size,
        .lr = 1e-4,
        .momentum = 0.9,
        .weight_decay = 1e-4,
        .table = table,
        .dropout = -1,
    };
    char key[32];
    if (b->gpus > 1) {
        snprintf(key, sizeof(key), "bench_train_%d", (int)getppid());
        options.rank = b->rank;
        options.gpu = (int)b->rank;
        options.world_size = (unsigned)b->gpus;
        options.rendezvous = key;
    }
    *subject = (struct subject){.lend = NULL};
    if (has_gate) {
        subject->lend = open_lend(b);
        options.gate = (struct sluice_train_gate){add_point, subject};
    }
    sluice_precision_parse(b->precision, &options.precision);
    bench_check(sluice_trainer_create(&options, &subject->trainer, &err), &err);
    const size_t bytes = (size_t)(b->batch_size * b->image_size * b->image_size * 3);
    bench_check(sluice_trainer_host_alloc(subject->trainer, bytes, &subject->pixels, &err), &err);
    subject->labels = bench_alloc((size_t)b->batch_size, sizeof(*subject->labels));
    subject->rates = bench_alloc((size_t)b->rounds, sizeof(*subject->rates));
    uint8_t *pixels = subject->pixels;
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)((i * 2654435761u) >> 13);
    for (size_t i = 0; i < b->batch_size; i++)
        subject->labels[i] = (uint32_t)(i % b->num_classes);
    subject->batch = (struct sluice_train_batch){
        .pixels = pixels, .labels = subject->labels, .n = (unsigned)b->batch_size};
}

static void close_subject(struct subject *subject)
{
    sluice_trainer_host_free(subject->trainer, subject->pixels);
    sluice_trainer_destroy(subject->trainer);
    sluice_lend_close(subject->lend);
    free(subject->labels);
    free(subject->rates);
}

/* Samples a second. */
static double time_round(const struct bench *b, struct subject *subject)
{
    struct sluice_err err = {{0}};
    struct sluice_train_totals totals = {0};
    const uint64_t start = sluice_clock_ns();
    for (uint64_t i = 0; i < b->steps; i++)
        bench_check(sluice_trainer_step(subject->trainer, &subject->batch, &err), &err);
    bench_check(sluice_trainer_collect(subject->trainer, &totals, &err), &err);
    subject->num_steps += b->steps;
    return (double)totals.samples / ((double)(sluice_clock_ns() - start) * 1e-9);
}

/* reference: without a gate, and the rounds' ratios to it; NULL: this is it.  Sorts the numbers. */
static void print_row(const struct bench *b, struct bench_report *report, struct subject *subject,
                      const struct subject *reference, double *ratios)
{
    const size_t rounds = (size_t)b->rounds;
    const double median = bench_quantile(subject->rates, rounds, 0.5);
    char name[64];
    snprintf(name, sizeof(name), "%s %s %s%s", b->model, b->device,
             sluice_precision_name(sluice_trainer_precision(subject->trainer)),
             reference ? " gate" : "");
    bench_row_begin(report, name);
    bench_row_number(report, "us", 1, 1e6 / median); /* for one sample */
    bench_row_number(report, "bytes", 0, (double)(b->image_size * b->image_size * 3));
    bench_row_number(report, "reference_us", 1,
                     reference ? 1e6 / bench_quantile(reference->rates, rounds, 0.5) : NAN);
    bench_row_number(report, "ratio", 4, reference ? bench_quantile(ratios, rounds, 0.5) : NAN);
    bench_row_number(report, "samples_per_s", 0, median);
    bench_row_number(report, "least", 0, bench_quantile(subject->rates, rounds, 0));
    bench_row_number(report, "most", 0, bench_quantile(subject->rates, rounds, 1));
    bench_row_number(report, "batch", 0, (double)b->batch_size);
    bench_row_number(report, "image_size", 0, (double)b->image_size);
    struct sluice_train_memory memory_bytes;
    sluice_trainer_memory(subject->trainer, &memory_bytes);
    bench_row_number(report, "memory_mib", 0, (double)memory_bytes.total / (1 << 20));
    if (reference) {
        bench_row_number(report, "ratio_least", 4, bench_quantile(ratios, rounds, 0));
        bench_row_number(report, "ratio_most", 4, bench_quantile(ratios, rounds, 1));
        /* Each step has one, and a graph the others, once. */
        bench_row_number(report, "points", 0,
                         (double)(subject->num_points - subject->num_steps + 1));
    }
    bench_row_end(report);
}

/* Both kinds by turns, and each first every other time. */
static void run(const struct bench *b, bool is_json)
{
    struct subject subjects[2];
    const int count = b->has_gate ? 2 : 1;
    for (int i = 0; i < count; i++)
        open_subject(b, i == 1, &subjects[i]);
    for (uint64_t round = 0; round <= b->rounds; round++) { /* the first one warms up */
        for (int i = 0; i < count; i++) {
            struct subject *subject = &subjects[(i + (int)(round & 1)) % count];
            const double rate = time_round(b, subject);
            if (round > 0)
                subject->rates[round - 1] = rate;
        }
    }
    struct bench_report report = {.is_json = is_json};
    double *ratios = bench_alloc((size_t)b->rounds, sizeof(*ratios));
    for (uint64_t i = 0; b->has_gate && i < b->rounds; i++)
        ratios[i] = subjects[1].rates[i] / subjects[0].rates[i];
    for (int i = 0; i < count; i++)
        print_row(b, &report, &subjects[i], i == 1 ? &subjects[0] : NULL, ratios);
    free(ratios);
    for (int i = 0; i < count; i++)
        close_subject(&subjects[i]);
}

/* A process a GPU, as CUDA does not survive a fork; ranks wait for each other in every step, so each
 * one's row has the rate of one GPU among them. */
static int run_ranks(struct bench *b, bool is_json)
{
    int exit_code = 0;
    for (b->rank = 0; b->rank < b->gpus; b->rank++) {
        fflush(NULL);
        if (fork() == 0) {
            run(b, is_json);
            fflush(NULL);
            _exit(0);
        }
    }
    for (uint64_t i = 0; i < b->gpus; i++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0)
            exit_code = 1;
    }
    return exit_code;
}

int main(int argc, char **argv)
{
    static const char *const devices[] = {"cpu", "cuda", NULL};
    static const char *const models[] = {SLUICE_MODEL_NAMES, NULL};
    static const char *const precisions[] = {"bf16", "tf32", "fp32", NULL};
    struct bench b = {.device = "cpu",
                      .model = "resnet18",
                      .batch_size = 64,
                      .image_size = 224,
                      .num_classes = 1000,
                      .steps = 20,
                      .rounds = 5,
                      .gpus = 1};
    const struct sluice_option table[] = {
        {.name = "device",
         .type = SLUICE_OPTION_CHOICE,
         .value = &b.device,
         .choices = devices,
         .help = "Where the model learns."},
        {.name = "arch",
         .short_name = 'a',
         .type = SLUICE_OPTION_CHOICE,
         .value = &b.model,
         .choices = models,
         .help = "The model."},
        {.name = "batch-size",
         .short_name = 'b',
         SLUICE_VALUE_UINT(b.batch_size, "N"),
         SLUICE_RANGE(1, 65536),
         .help = "Samples in a batch."},
        {.name = "image-size",
         SLUICE_VALUE_UINT(b.image_size, "N"),
         SLUICE_RANGE(8, 4096),
         .help = "Side of the images."},
        {.name = "num-classes",
         SLUICE_VALUE_UINT(b.num_classes, "N"),
         SLUICE_RANGE(1, 1000000),
         .help = "Outputs of the model."},
        {.name = "steps",
         SLUICE_VALUE_UINT(b.steps, "N"),
         SLUICE_RANGE(1, 1000000),
         .help = "Steps in a round; their time is measured together."},
        {.name = "rounds",
         SLUICE_VALUE_UINT(b.rounds, "N"),
         SLUICE_RANGE(1, 1000),
         .help = "Rounds measured; the median counts."},
        {.name = "precision",
         .type = SLUICE_OPTION_CHOICE,
         .value = &b.precision,
         .choices = precisions,
         .help = "How --device cuda multiplies.",
         .default_text = "bf16 on a GPU that has it, else fp32"},
        {.name = "gpus",
         SLUICE_VALUE_UINT(b.gpus, "N"),
         SLUICE_RANGE(1, 64),
         .help = "Train on as many GPUs, a process each; each prints its own rate."},
        {.name = "gate",
         SLUICE_VALUE_FLAG(b.has_gate),
         .help = "Also train with a GPU that is lent and that nobody borrows, by turns: `ratio` is "
                 "the median of the rounds' rates with to without."},
        {.name = "parts",
         SLUICE_VALUE_FLAG(b.is_parts),
         .help = "Time each kernel of device cuda by itself, at the models' shapes, instead."},
    };
    const struct sluice_cli cli = {
        .program = "bench_train",
        .summary = "Measures the samples a second that a trainer takes.",
        .options = table,
        .num_options = SLUICE_ARRAY_LEN(table),
    };
    const struct sluice_cli_result result = sluice_cli_parse(&cli, argc, argv);
    if (result.should_exit)
        return result.exit_code;
    if (b.has_gate && b.gpus > 1)
        bench_die("--gate: of one GPU, not with --gpus %u", (unsigned)b.gpus);
    bench_print_machine();
    if (!b.is_parts && b.gpus > 1)
        return run_ranks(&b, result.is_json);
    if (!b.is_parts) {
        run(&b, result.is_json);
        return 0;
    }
#ifdef SLUICE_HAVE_CUDA
    bench_train_parts(result.is_json);
#else
    bench_die("--parts: device cuda is not in this build: configure with -DSLUICE_CUDA=ON");
#endif
    return 0;
}
