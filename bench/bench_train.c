#include "bench/bench.h"

#include "base/clock.h"
#include "bench/bench_train_parts.h"
#include "cli/cli.h"
#include "train/model_names.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Samples a second that a trainer takes when batches are always ready: the rate that a loader has
 * to feed.  Each step uploads its batch anew. */

struct bench {
    const char *device, *model, *precision;
    uint64_t batch_size, image_size, num_classes, steps, rounds, gpus;
    unsigned rank; /* of `gpus` processes */
    bool is_parts;
};

static void run(const struct bench *b, bool is_json)
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
    sluice_precision_parse(b->precision, &options.precision);
    struct sluice_trainer *trainer = NULL;
    if (sluice_trainer_create(&options, &trainer, &err))
        bench_die("%s", err.text);
    const size_t bytes = (size_t)(b->batch_size * b->image_size * b->image_size * 3);
    void *memory = NULL;
    uint32_t *labels = calloc((size_t)b->batch_size, sizeof(*labels));
    double *rates = calloc((size_t)b->rounds, sizeof(*rates));
    if (!labels || !rates || sluice_trainer_host_alloc(trainer, bytes, &memory, &err))
        bench_die("%s", err.text);
    uint8_t *pixels = memory;
    for (size_t i = 0; i < bytes; i++)
        pixels[i] = (uint8_t)((i * 2654435761u) >> 13);
    for (size_t i = 0; i < b->batch_size; i++)
        labels[i] = (uint32_t)(i % b->num_classes);

    const struct sluice_train_batch batch = {
        .pixels = pixels, .labels = labels, .n = (unsigned)b->batch_size};
    struct sluice_train_totals totals = {0};
    for (uint64_t round = 0; round <= b->rounds; round++) { /* the first one warms up */
        const uint64_t start = sluice_clock_ns();
        for (uint64_t i = 0; i < b->steps; i++) {
            if (sluice_trainer_step(trainer, &batch, &err))
                bench_die("%s", err.text);
        }
        if (sluice_trainer_collect(trainer, &totals, &err))
            bench_die("%s", err.text);
        const double seconds = (double)(sluice_clock_ns() - start) * 1e-9;
        if (round > 0)
            rates[round - 1] = (double)totals.samples / seconds;
    }
    const double median = bench_quantile(rates, (size_t)b->rounds, 0.5);
    char name[64];
    snprintf(name, sizeof(name), "%s %s %s", b->model, b->device,
             sluice_precision_name(sluice_trainer_precision(trainer)));
    struct bench_report report = {.is_json = is_json};
    bench_row_begin(&report, name);
    bench_row_number(&report, "us", 1, 1e6 / median); /* for one sample */
    bench_row_number(&report, "bytes", 0, (double)bytes / (double)b->batch_size);
    bench_row_number(&report, "reference_us", 1, NAN);
    bench_row_number(&report, "ratio", 2, NAN);
    bench_row_number(&report, "samples_per_s", 0, median);
    bench_row_number(&report, "least", 0, bench_quantile(rates, (size_t)b->rounds, 0));
    bench_row_number(&report, "most", 0, bench_quantile(rates, (size_t)b->rounds, 1));
    bench_row_number(&report, "batch", 0, (double)b->batch_size);
    bench_row_number(&report, "image_size", 0, (double)b->image_size);
    struct sluice_train_memory memory_bytes;
    sluice_trainer_memory(trainer, &memory_bytes);
    bench_row_number(&report, "memory_mib", 0, (double)memory_bytes.total / (1 << 20));
    bench_row_end(&report);
    sluice_trainer_host_free(trainer, memory);
    free(labels);
    free(rates);
    sluice_trainer_destroy(trainer);
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
