#include "train/train.h"

#include "train_support.h"

#include "support/test.h"

/* Takes steps of a model for compare_train_with_pytorch.py.
 *
 *     golden_train_tool DEVICE PRECISION STEPS FOLDER MODEL IMAGE_SIZE NUM_CLASSES BATCH SEED LR
 *         MOMENTUM WEIGHT_DECAY DROPOUT
 *
 * PRECISION is fp32, tf32 or bf16; from MODEL on as in train_reference.txt's case lines.  Prints the
 * mean loss of each step.  Writes the initial values of all parameters, float32, into
 * FOLDER/initial/PARAMETER, and the gradients of the first step into FOLDER/PARAMETER. */

static void require(sluice_status status, const struct sluice_err *err)
{
    if (!status)
        return;
    fprintf(stderr, "%s\n", err->text);
    exit(1);
}

static void write_params(struct sluice_trainer *trainer, const char *folder, bool is_initial)
{
    for (size_t i = 0; i < sluice_trainer_num_params(trainer); i++) {
        const char *name = sluice_trainer_param_name(trainer, i);
        if (!is_initial && strstr(name, ".running_"))
            continue;
        struct sluice_err err = {{0}};
        const size_t count = sluice_trainer_param_count(trainer, i);
        float *values = calloc(count, sizeof(*values));
        require(is_initial ? sluice_trainer_get_param(trainer, i, values, &err)
                           : sluice_trainer_get_grad(trainer, i, values, &err),
                &err);
        char path[1024];
        snprintf(path, sizeof(path), "%s/%s%s", folder, is_initial ? "initial/" : "", name);
        sluice_test_write_file(path, values, count * sizeof(*values));
        free(values);
    }
}

int main(int argc, char **argv)
{
    if (argc != 14) {
        fprintf(stderr, "13 arguments, not %d: see train_tool.c\n", argc - 1);
        return 2;
    }
    enum sluice_precision precision;
    if (!sluice_precision_parse(argv[2], &precision)) {
        fprintf(stderr, "no precision %s\n", argv[2]);
        return 2;
    }
    train_test_fill_table();
    const struct sluice_train_options options = {
        .device = argv[1],
        .precision = precision,
        .model = argv[5],
        .height = (unsigned)atoi(argv[6]),
        .width = (unsigned)atoi(argv[6]),
        .num_classes = (unsigned)atoi(argv[7]),
        .batch_size = (unsigned)atoi(argv[8]),
        .seed = strtoull(argv[9], NULL, 10),
        .lr = atof(argv[10]),
        .momentum = atof(argv[11]),
        .weight_decay = atof(argv[12]),
        .dropout = atof(argv[13]),
        .table = train_test_table,
    };
    struct sluice_trainer *trainer = train_test_create(&options);
    const unsigned n = options.batch_size, size = options.height;
    uint8_t *pixels = calloc((size_t)n * size * size, 3);
    uint32_t *labels = calloc(n, sizeof(*labels));
    train_test_fill_batch(n, size, options.num_classes, 0, pixels, labels);
    const struct sluice_train_batch batch = {.pixels = pixels, .labels = labels, .n = n};
    write_params(trainer, argv[4], true);
    for (int step = 0; step < atoi(argv[3]); step++) {
        struct sluice_err err = {{0}};
        struct sluice_train_totals totals;
        require(sluice_trainer_step(trainer, &batch, &err), &err);
        require(sluice_trainer_collect(trainer, &totals, &err), &err);
        printf("%.9e\n", totals.loss_sum / (double)totals.samples);
        if (step == 0)
            write_params(trainer, argv[4], false);
    }
    free(pixels);
    free(labels);
    sluice_trainer_destroy(trainer);
    return 0;
}
