/* Where a run stood, as its checkpoint tells: what --resume makes of any text there is a place or a
 * failure with words. */

#include "compute_client/run/run_state.h"

#include "base/log.h"
#include "fuzz.h"

static const uint8_t *input;
static size_t input_size;

/* The checkpoint's text is the input; the rest of the file is fuzz_checkpoint's. */
sluice_status __wrap_sluice_trainer_load(struct sluice_trainer *trainer, const char *path,
                                         char **extra, struct sluice_err *err);
sluice_status __wrap_sluice_trainer_load(struct sluice_trainer *trainer, const char *path,
                                         char **extra, struct sluice_err *err)
{
    (void)trainer, (void)path, (void)err;
    *extra = malloc(input_size + 1);
    FUZZ_CHECK(*extra);
    if (input_size)
        memcpy(*extra, input, input_size);
    (*extra)[input_size] = '\0';
    return SLUICE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* What a loader says of it is fuzz_loader_state's. */
    static const struct sluice_options options = {
        .resume = "run.ckpt", .checkpoint = "run.ckpt", .is_evaluate = true};
    static struct run run = {.options = &options};
    sluice_log_set_level(SLUICE_LOG_ERROR);
    input = data;
    input_size = size;
    struct place place = {0};
    struct sluice_err err = {{0}};
    if (run_resume(&run, &place, &err) != SLUICE_OK) {
        FUZZ_CHECK(err.text[0]);
        return 0;
    }
    FUZZ_CHECK(place.epoch <= INT64_MAX && place.batch <= INT64_MAX);
    /* The loader is given what was read. */
    struct sluice_place again;
    FUZZ_CHECK(sluice_state_place(place.state, &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(again.epoch == place.epoch && again.batch == place.batch);
    return 0;
}
