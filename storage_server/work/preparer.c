#include "storage_server/work/preparer.h"

#include "op/geometry.h"

#include <stdlib.h>

struct sluice_preparer {
    struct sluice_scratch *scratch;
    struct sluice_decoder *decoder; /* NULL: none, and the scratch does it all */
};

sluice_status sluice_preparer_create(const struct sluice_preparer_options *options,
                                     struct sluice_preparer **out, struct sluice_err *err)
{
    struct sluice_preparer *preparer = calloc(1, sizeof(*preparer));
    if (!preparer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a worker");
    const struct sluice_scratch_options scratch = {
        .pool = options->buffers,
        .max_image_pixels = options->max_image_pixels,
    };
    sluice_status status = sluice_scratch_create(&scratch, &preparer->scratch, err);
    if (status == SLUICE_OK && options->decoders) {
        const struct sluice_decoder_options decoder = {
            .decoders = options->decoders,
            .limits = options->limits,
            .timeout_ns = options->timeout_ns,
            .buffers = options->buffers,
            .worker = options->worker,
        };
        status = sluice_decoder_create(&decoder, &preparer->decoder, err);
    }
    if (status != SLUICE_OK) {
        sluice_preparer_destroy(preparer);
        return status;
    }
    *out = preparer;
    return SLUICE_OK;
}

void sluice_preparer_destroy(struct sluice_preparer *preparer)
{
    if (!preparer)
        return;
    sluice_decoder_destroy(preparer->decoder);
    sluice_scratch_destroy(preparer->scratch);
    free(preparer);
}

/* The decoder's work ends with pixels at the latest: the tail, a table of what each u8 value
 * becomes, parses nothing, and its floats are four times the bytes to copy. */
static sluice_status run_isolated(struct sluice_preparer *preparer,
                                  const struct sluice_pipeline *pipeline,
                                  struct sluice_decoder_work *work, struct sluice_sample *sample,
                                  struct sluice_err *err)
{
    const unsigned end = work->end, u8_split = sluice_pipeline_u8_split(pipeline);
    const bool has_tail = sluice_form_type(work->form)->is_plain && end > u8_split;
    if (has_tail)
        work->end = u8_split;
    const sluice_status status = sluice_decoder_run(preparer->decoder, pipeline, work, sample, err);
    work->end = end;
    if (status != SLUICE_OK || !has_tail)
        return status;
    return sluice_pipeline_run(pipeline, preparer->scratch, sample, end, err);
}

sluice_status sluice_preparer_run(struct sluice_preparer *preparer,
                                  const struct sluice_pipeline *pipeline,
                                  struct sluice_decoder_work *work, struct sluice_sample *sample,
                                  struct sluice_err *err)
{
    if (preparer->decoder)
        return run_isolated(preparer, pipeline, work, sample, err);
    if (work->reads_image) {
        const sluice_status status = sluice_file_image_read(pipeline, sample, &sample->image, err);
        if (status != SLUICE_OK)
            return status;
    }
    return sluice_sample_encode(pipeline, preparer->scratch, sample, work->end, work->form,
                                &work->options, err);
}
