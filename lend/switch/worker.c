#include "lend/switch/worker.h"

#include "base/log.h"
#include "lend/switch/aside.h"
#include "lend/switch/training.h"
#include "sluice/lend.h"
#include "train/infer.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The paper's least group: 2 MB. */
#define MIN_GROUP_BYTES 2000000
/* How long a request waits for an owner that lends nothing at the moment. */
#define TAKE_TIMEOUT_MS 10000

/* The models: one block of the GPU's memory for all, and a CUDA graph for each, which copies its weights and
 * computes. */
struct models {
    const struct switch_options *options;
    struct sluice_infer *infers[SWITCH_MAX_MODELS];
    struct sluice_infer_plan *plans[SWITCH_MAX_MODELS];
    size_t offsets[SWITCH_MAX_MODELS + 1]; /* of their images in `weights` */
    uint8_t *weights;                      /* the memory file, which all processes map */
    bool is_pinned;
};

static sluice_status create_infers(struct models *models, const char *device,
                                   struct sluice_err *err)
{
    const struct switch_options *o = models->options;
    for (unsigned m = 0; m < o->num_models; m++) {
        const struct sluice_infer_options options = {.device = device,
                                                     .model = o->models[m].name,
                                                     .num_classes = (unsigned)o->num_classes,
                                                     .height = SWITCH_SIDE,
                                                     .width = SWITCH_SIDE,
                                                     .batch_size = (unsigned)o->batch_size,
                                                     .precision = o->precision};
        const sluice_status status = sluice_infer_create(&options, &models->infers[m], err);
        if (status != SLUICE_OK)
            return status;
        const size_t bytes = sluice_infer_weight_bytes(models->infers[m]);
        models->offsets[m + 1] = models->offsets[m] + (bytes + 4095) / 4096 * 4096;
    }
    return SLUICE_OK;
}

static sluice_status map_weights(struct models *models, int fd, struct sluice_err *err)
{
    const size_t bytes = models->offsets[models->options->num_models];
    struct stat st;
    if (fstat(fd, &st) != 0 || st.st_size != (off_t)bytes)
        return sluice_fail(err, SLUICE_E_INTERNAL, "weights of other models");
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for weights: %s", strerror(errno));
    models->weights = memory;
    return SLUICE_OK;
}

static void close_models(struct models *models)
{
    for (unsigned m = 0; m < SWITCH_MAX_MODELS; m++)
        sluice_infer_plan_destroy(models->plans[m]);
    if (models->is_pinned)
        sluice_infer_unpin(models->infers[0], models->weights);
    for (unsigned m = 0; m < SWITCH_MAX_MODELS; m++)
        sluice_infer_destroy(models->infers[m]);
    if (models->weights)
        munmap(models->weights, models->offsets[models->options->num_models]);
    *models = (struct models){.options = models->options};
}

sluice_status switch_load_weights(const struct switch_options *options, int fd,
                                  struct sluice_err *err)
{
    struct models models = {.options = options};
    sluice_status status = create_infers(&models, "none", err);
    if (status == SLUICE_OK && ftruncate(fd, (off_t)models.offsets[options->num_models]) != 0)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for weights: %s", strerror(errno));
    if (status == SLUICE_OK)
        status = map_weights(&models, fd, err);
    for (unsigned m = 0; status == SLUICE_OK && m < options->num_models; m++)
        status = sluice_infer_load(models.infers[m], options->models[m].path,
                                   models.weights + models.offsets[m], err);
    close_models(&models);
    return status;
}

static sluice_status find_groups(struct models *models, unsigned model, struct switch_board *board,
                                 struct sluice_err *err)
{
    static struct sluice_grouping grouping; /* 16 KB */
    struct sluice_grouping_costs costs;
    const sluice_status status =
        sluice_grouping_measure(models->infers[model], models->weights + models->offsets[model],
                                MIN_GROUP_BYTES, &costs, &grouping, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(board->groups[model].last_stages, grouping.last_stages, sizeof grouping.last_stages);
    board->groups[model].num_groups = (uint32_t)grouping.num_groups;
    sluice_log(SLUICE_LOG_INFO, "%s: %zu groups of weights, %.2f ms expected",
               models->options->models[model].name, grouping.num_groups, grouping.seconds * 1e3);
    return SLUICE_OK;
}

/* SLUICE_E_NO_MEMORY: the GPU's is short. */
static sluice_status open_models(struct models *models, struct switch_board *board,
                                 struct sluice_err *err)
{
    const struct switch_options *options = models->options;
    sluice_status status = create_infers(models, options->device, err);
    if (status == SLUICE_OK)
        status = map_weights(models, SWITCH_FD_WEIGHTS, err);
    if (status == SLUICE_OK)
        status = sluice_infer_place(models->infers, options->num_models, err);
    if (status == SLUICE_OK)
        status = sluice_infer_pin(models->infers[0], models->weights,
                                  models->offsets[options->num_models], err);
    models->is_pinned = status == SLUICE_OK;
    for (unsigned m = 0; status == SLUICE_OK && m < options->num_models; m++) {
        if (board->groups[m].num_groups == 0)
            status = find_groups(models, m, board, err);
        struct sluice_infer_plan_options o = {.is_pipelined = true};
        o.image = models->weights + models->offsets[m];
        o.last_stages = board->groups[m].last_stages;
        o.num_groups = board->groups[m].num_groups;
        if (status == SLUICE_OK)
            status = sluice_infer_plan_create(models->infers[m], &o, &models->plans[m], err);
        if (status == SLUICE_OK) /* the first run of a graph is slow */
            status = sluice_infer_run(models->plans[m], err);
    }
    if (status != SLUICE_OK)
        close_models(models);
    return status;
}

struct worker {
    struct models models; /* closed while the GPU's memory is short */
    struct switch_board *board;
    const char *lend; /* NULL: nobody lends */
    struct sluice_borrower *borrower;
    bool is_short;
    bool is_broken; /* after an error on the GPU a process may be of no use there */
};

/* Where nobody lends, the GPU needs no taking, and *is_taken is false. */
static sluice_status take(struct worker *worker, bool *is_taken, uint32_t *ticket,
                          struct sluice_err *err)
{
    const struct sluice_borrower_options options = {.path = worker->lend};
    sluice_status status = SLUICE_OK;
    struct sluice_err why = {0};
    *is_taken = false;
    if (worker->lend && !worker->borrower)
        status = sluice_borrower_open(&options, &worker->borrower, &why);
    if (status == SLUICE_OK && worker->borrower) {
        status = sluice_borrower_take(worker->borrower, TAKE_TIMEOUT_MS, ticket, &why);
        *is_taken = status == SLUICE_OK;
    }
    if (status == SLUICE_E_CLOSED) { /* the next request looks for another owner */
        sluice_borrower_close(worker->borrower);
        worker->borrower = NULL;
    }
    if (status == SLUICE_OK || status == SLUICE_E_CLOSED || status == SLUICE_E_NOT_FOUND)
        return SLUICE_OK;
    return sluice_fail(err, status, "%s", why.text);
}

static sluice_status run(struct worker *worker, const struct switch_order *order,
                         struct sluice_err *err)
{
    const struct switch_options *o = worker->models.options;
    struct sluice_infer *const infer = worker->models.infers[order->model];
    memcpy(sluice_infer_input(infer), switch_board_input(worker->board, o, order->slot),
           order->num_rows * SWITCH_ROW_BYTES);
    const sluice_status status = sluice_infer_run(worker->models.plans[order->model], err);
    if (status == SLUICE_OK && order->wants_logits)
        memcpy(switch_board_reply(worker->board, o, order->slot) + SWITCH_REPLY_HEAD,
               sluice_infer_logits(infer), sizeof(float) * order->num_rows * o->num_classes);
    worker->is_broken = status != SLUICE_OK;
    return status;
}

static sluice_status run_lent(struct worker *worker, const struct switch_order *order,
                              struct sluice_err *err)
{
    uint32_t ticket = 0;
    bool is_taken = false;
    sluice_status status = take(worker, &is_taken, &ticket, err);
    if (status == SLUICE_OK)
        status = run(worker, order, err);
    if (is_taken && !sluice_borrower_give(worker->borrower, ticket))
        sluice_log(SLUICE_LOG_WARN, "the owner took the GPU back during a request");
    return status;
}

/* With the owner put aside, which takes seconds, as all is prepared anew. */
static sluice_status run_aside(struct worker *worker, const struct switch_order *order,
                               struct sluice_err *err)
{
    sluice_status status = switch_aside_put(worker->lend, err);
    if (status != SLUICE_OK)
        return status;
    status = open_models(&worker->models, worker->board, err);
    if (status == SLUICE_OK)
        status = run(worker, order, err);
    close_models(&worker->models);
    const sluice_status returned = switch_aside_return(worker->lend, err);
    return status != SLUICE_OK ? status : returned;
}

static sluice_status prepare(struct worker *worker, struct sluice_err *err)
{
    const bool is_aside = worker->models.options->is_aside;
    struct sluice_err why = {0};
    /* A worker that died may have left the owner aside. */
    if (is_aside && switch_aside_return(worker->lend, &why) != SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "nobody to put aside so far: %s", why.text);
    why.text[0] = 0;
    const sluice_status status = open_models(&worker->models, worker->board, &why);
    worker->is_short = status == SLUICE_E_NO_MEMORY && is_aside;
    if (worker->is_short)
        sluice_log(SLUICE_LOG_WARN, "%s: requests will put the owner aside", why.text);
    return status == SLUICE_OK || worker->is_short ? SLUICE_OK
                                                   : sluice_fail(err, status, "%s", why.text);
}

static int serve_inference(struct worker *worker)
{
    struct sluice_err err = {0};
    struct switch_order order;
    if (prepare(worker, &err) != SLUICE_OK) {
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
        return 1;
    }
    switch_send_note(SWITCH_NOTE_READY, "");
    while (switch_next_order(true, &order) == SWITCH_NEXT_ORDER) {
        err.text[0] = 0;
        const sluice_status status =
            worker->is_short ? run_aside(worker, &order, &err) : run_lent(worker, &order, &err);
        if (worker->is_broken) {
            /* Without a note: after one, the server would send the next request here. */
            sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
            _exit(1); /* an orderly end may hang in the driver */
        }
        switch_send_note(status == SLUICE_OK ? SWITCH_NOTE_DONE : SWITCH_NOTE_FAILED, err.text);
    }
    sluice_borrower_close(worker->borrower);
    close_models(&worker->models);
    return 0;
}

int switch_worker_main(int argc, char **argv)
{
    const struct switch_options *options = NULL;
    int exit_code = 1;
    if (argc < 4 || !switch_options_parse(argc - 3, argv + 3, &options, &exit_code))
        return exit_code;
    sluice_log_set_program("offload_switch");
    setpgid(0, 0); /* so that Ctrl-C on a terminal reaches the server alone */
    const size_t bytes = switch_board_bytes(options);
    struct stat st;
    void *board = MAP_FAILED;
    if (fstat(SWITCH_FD_BOARD, &st) == 0 && st.st_size == (off_t)bytes)
        board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, SWITCH_FD_BOARD, 0);
    if (board == MAP_FAILED) {
        sluice_log(SLUICE_LOG_ERROR, "a worker is started by offload_switch alone");
        return 1;
    }
    if (strcmp(argv[2], "training") == 0)
        return switch_training_serve(options, board, argv[3]);
    struct worker worker = {
        .models = {.options = options}, .board = board, .lend = argv[3][0] ? argv[3] : NULL};
    return serve_inference(&worker);
}
