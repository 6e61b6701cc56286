/* Where a run stood, as its checkpoint tells: what --resume makes of any text there is a place or a
 * failure with words. */

#include "compute_client/run/run_state.h"

#include "base/log.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_CHECK(condition) ((condition) ? (void)0 : abort())

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
    static struct sluice_options options = {.resume = "run.ckpt",
                                            .checkpoint = "run.ckpt",
                                            .batch_size = 64,
                                            .world_size = 1,
                                            .repeat = 1,
                                            .seed = 7};
    static struct sluice_loader loader = {.dataset_id = "0123456789abcdef0123456789abcdef"};
    static struct run run = {.options = &options, .loader = &loader};
    if (!loader.train.pipeline) {
        sluice_log_set_level(SLUICE_LOG_ERROR);
        FUZZ_CHECK(sluice_pipeline_parse("decode,resize=8", &loader.train.pipeline, NULL) ==
                   SLUICE_OK);
        loader.train.num_ids = 1000;
    }
    input = data;
    input_size = size;
    for (int i = 0; i < 2; i++) {
        struct place place = {0};
        struct sluice_err err = {{0}};
        options.is_evaluate = i == 1;
        if (run_resume(&run, &place, &err) == SLUICE_OK)
            FUZZ_CHECK(place.epoch <= INT64_MAX && place.batch <= INT64_MAX);
        else
            FUZZ_CHECK(err.text[0]);
    }
    return 0;
}
