#include "lend/switch/training.h"

#include "base/log.h"
#include "base/rng.h"
#include "sluice/lend.h"
#include "train/train.h"

#include <unistd.h>

/* The published program has 0.1; random labels ask for less. */
#define LEARNING_RATE 0.001
#define PROBE_SECONDS 20
/* The steps after which the trainer's graph is captured, with its points. */
#define WARM_STEPS 4
/* Device none, so that it does not fill a processor. */
#define NONE_ROWS_PER_S 2000

struct training {
    const struct switch_options *options;
    struct switch_board *board;
    struct sluice_lend *lend;
    struct sluice_trainer *trainers[SWITCH_MAX_MODELS];
    float table[3][256];
    uint8_t *pixels; /* the first trainer's memory; labels lie behind */
    uint32_t *labels;
};

static sluice_status point(void *data, void *stream, struct sluice_err *err)
{
    return sluice_lend_point(data, stream, err);
}

static sluice_status open_lend(struct training *training, const char *path, struct sluice_err *err)
{
    const bool is_cuda = training->options->is_cuda;
    const struct sluice_lend_options options = {.path = path, .device = is_cuda ? 0 : -1};
    sluice_status status = SLUICE_OK;
    alarm(PROBE_SECONDS); /* a driver that hangs ends this process, not the server */
    if (is_cuda)
        status = sluice_lend_probe(0, err);
    alarm(0);
    return status == SLUICE_OK ? sluice_lend_open(&options, &training->lend, err) : status;
}

static sluice_status create_trainers(struct training *training, struct sluice_err *err)
{
    const struct switch_options *o = training->options;
    for (unsigned t = 0; t < o->num_models; t++) {
        const struct sluice_train_options options = {
            .device = o->device,
            .model = o->models[t].name,
            .num_classes = (unsigned)o->num_classes,
            .height = SWITCH_SIDE,
            .width = SWITCH_SIDE,
            .batch_size = (unsigned)o->train_batch_size,
            .lr = LEARNING_RATE,
            .momentum = 0.9,
            .weight_decay = 1e-4,
            .table = training->table,
            .consume_rate = NONE_ROWS_PER_S,
            .precision = o->is_cuda ? o->precision : SLUICE_PRECISION_DEFAULT,
            .gate = {.point = point, .data = training->lend},
            .dropout = -1,
        };
        const sluice_status status = sluice_trainer_create(&options, &training->trainers[t], err);
        if (status != SLUICE_OK)
            return status;
    }
    return SLUICE_OK;
}

static sluice_status make_rows(struct training *training, struct sluice_err *err)
{
    const size_t n = training->options->train_batch_size;
    const size_t bytes = n * SWITCH_SIDE * SWITCH_SIDE * 3;
    void *memory = NULL;
    sluice_status status = sluice_trainer_host_alloc(training->trainers[0],
                                                     bytes + n * sizeof(uint32_t), &memory, err);
    if (status != SLUICE_OK)
        return status;
    training->pixels = memory;
    training->labels = (uint32_t *)(void *)(training->pixels + bytes); /* a multiple of 4 */
    struct sluice_rng rng = sluice_rng_init(0, 0, 0, 0);
    for (size_t i = 0; i < n; i++)
        training->labels[i] = sluice_rng_below(&rng, (uint32_t)training->options->num_classes);
    for (size_t i = 0; i < bytes; i++)
        training->pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    return SLUICE_OK;
}

static void publish(struct training *training)
{
    struct switch_board *const board = training->board;
    struct sluice_lend_counters counters;
    sluice_lend_counters(training->lend, &counters);
    board->lent_requests = counters.requests;
    board->lent_ns = counters.lent_ns;
    board->lending_cost_ns = counters.cost_ns;
    board->taken_back = counters.taken_back;
}

static sluice_status step(struct training *training, unsigned model, struct sluice_err *err)
{
    const struct sluice_train_batch batch = {.pixels = training->pixels,
                                             .labels = training->labels,
                                             .n = (unsigned)training->options->train_batch_size};
    return sluice_trainer_step(training->trainers[model], &batch, err);
}

static sluice_status prepare(struct training *training, const char *lend, struct sluice_err *err)
{
    for (unsigned i = 0; i < 3 * 256; i++)
        training->table[i / 256][i % 256] = ((float)(i % 256) / 255 - 0.5F) / 0.25F;
    sluice_status status = open_lend(training, lend, err);
    if (status == SLUICE_OK)
        status = create_trainers(training, err);
    if (status == SLUICE_OK)
        status = make_rows(training, err);
    for (unsigned t = 0; status == SLUICE_OK && t < training->options->num_models; t++) {
        struct sluice_train_totals totals;
        for (unsigned s = 0; status == SLUICE_OK && s < WARM_STEPS; s++)
            status = step(training, t, err);
        if (status == SLUICE_OK)
            status = sluice_trainer_collect(training->trainers[t], &totals, err);
    }
    return status;
}

/* Until a STOP, or the server ends, which is ENDED. */
static enum switch_next train(struct training *training, unsigned model)
{
    struct sluice_err err = {0};
    struct sluice_train_totals totals;
    struct switch_order order;
    enum switch_next next = SWITCH_NEXT_NONE;
    sluice_status status = SLUICE_OK;
    while (next == SWITCH_NEXT_NONE && status == SLUICE_OK) {
        status = step(training, model, &err);
        training->board->training_steps += status == SLUICE_OK;
        publish(training);
        next = switch_next_order(false, &order);
    }
    if (status == SLUICE_OK)
        status = sluice_trainer_collect(training->trainers[model], &totals, &err);
    switch_send_note(status == SLUICE_OK ? SWITCH_NOTE_DONE : SWITCH_NOTE_FAILED, err.text);
    return next;
}

int switch_training_serve(const struct switch_options *options, struct switch_board *board,
                          const char *lend)
{
    struct sluice_err err = {0};
    struct training training = {.options = options, .board = board};
    struct switch_order order;
    const sluice_status status = prepare(&training, lend, &err);
    enum switch_next next = SWITCH_NEXT_NONE;
    if (status == SLUICE_OK)
        switch_send_note(SWITCH_NOTE_READY, "");
    else
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
    while (status == SLUICE_OK && next != SWITCH_NEXT_ENDED) {
        next = switch_next_order(true, &order);
        if (next == SWITCH_NEXT_ORDER && order.kind == SWITCH_ORDER_TRAIN)
            next = train(&training, order.model);
    }
    if (training.lend) {
        sluice_lend_stop(training.lend);
        publish(&training);
    }
    if (training.pixels)
        sluice_trainer_host_free(training.trainers[0], training.pixels);
    for (unsigned t = options->num_models; t-- > 0;)
        sluice_trainer_destroy(training.trainers[t]);
    sluice_lend_close(training.lend);
    return status != SLUICE_OK;
}
