/* The parts of a JPEG that a crop needs, as a form to send. */

#include "base/buf.h"
#include "image/jpeg_rows.h"
#include "pipeline/run_region.h"

#include <stdlib.h>

_Static_assert(SLUICE_PIPELINE_ROWS_PERCENT == SLUICE_JPEG_ROWS_MAX_PERCENT,
               "pipeline.h says what image/jpeg_rows.h keeps to");

bool sluice_pipeline_can_take_rows(const struct sluice_pipeline *pipeline)
{
    return sluice_pipeline_can_crop_jpeg(pipeline) && !sluice_pipeline_is_upright(pipeline);
}

sluice_status sluice_pipeline_take_rows(const struct sluice_pipeline *pipeline,
                                        struct sluice_buf_pool *pool, struct sluice_sample *sample,
                                        struct sluice_err *err)
{
    const struct sluice_jpeg_index *index = sample->jpeg_index;
    if (!sluice_pipeline_can_take_rows(pipeline))
        return sluice_fail(err, SLUICE_E_INVALID, "this pipeline does not crop what it decodes");
    if (sample->ops_done > 0 || sample->kind != SLUICE_KIND_FILE || sample->is_jpeg_crop ||
        sample->is_jpeg_rows || !index)
        return sluice_fail(err, SLUICE_E_INVALID, "only a file with an index has rows");
    struct sluice_box box;
    if (!sluice_file_crop_box(pipeline, &sample->key,
                              (struct sluice_size){index->width, index->height}, &box))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the crop of an image of %u x %u pixels is over the limit", index->width,
                           index->height);
    const sluice_status status = sluice_jpeg_rows_pack(index, &box, pool, &sample->data, err);
    if (status != SLUICE_OK)
        return status;
    sluice_jpeg_index_destroy(sample->jpeg_index);
    sample->jpeg_index = NULL;
    sample->is_jpeg_rows = true;
    return SLUICE_OK;
}

sluice_status sluice_sample_open_rows(struct sluice_sample *sample, struct sluice_err *err)
{
    if (!sample->is_jpeg_rows)
        return SLUICE_OK;
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    if (!index)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the points of a JPEG");
    const sluice_status status = sluice_jpeg_rows_open(sample->data->data, sample->data->len,
                                                       &sample->data->len, index, err);
    if (status != SLUICE_OK) {
        free(index);
        return status;
    }
    sluice_jpeg_index_destroy(sample->jpeg_index);
    sample->jpeg_index = index;
    sample->is_jpeg_rows = false;
    return SLUICE_OK;
}
