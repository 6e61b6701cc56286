/* jpeg_rows: the parts of an indexed JPEG that the crop op needs, unchanged. */

#include "base/buf.h"
#include "image/jpeg/rows.h"
#include "op/form.h"
#include "op/run_region.h"

#include <math.h>
#include <stdlib.h>

extern const struct sluice_form_type sluice_form_jpeg_rows;

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
    if (sample->ops_done > 0 || sample->kind != SLUICE_KIND_FILE || sample->coding || !index)
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
    sample->coding = &sluice_form_jpeg_rows;
    return SLUICE_OK;
}

/* Decodes to a file that was read in part, with its index. */
static sluice_status open_rows(const struct sluice_pipeline *pipeline,
                               struct sluice_scratch *scratch, struct sluice_sample *sample,
                               struct sluice_err *err)
{
    (void)pipeline, (void)scratch;
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
    sample->coding = NULL;
    return SLUICE_OK;
}

static sluice_status encode(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err)
{
    (void)split, (void)options; /* 0; of crops */
    return sluice_pipeline_take_rows(pipeline, scratch->pool, sample, err);
}

static bool takes_box(const struct sluice_pipeline *pipeline, unsigned split)
{
    (void)pipeline;
    return split == 0;
}

/* Estimates, not measured: a look-up and a few kB of points, two hashes and a move of the rows; and
 * on the other side these points. */
#define TAKE_ROWS                                                                                  \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(CROP_BYTE, 0.2e-9)                               \
        }                                                                                          \
    }
#define OPEN_ROWS                                                                                  \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 6e-6)                                                               \
        }                                                                                          \
    }
static const struct sluice_choice_weights take_cost[SLUICE_NUM_FILE_CLASSES] = {
    TAKE_ROWS, TAKE_ROWS, TAKE_ROWS};
static const struct sluice_choice_weights open_cost[SLUICE_NUM_FILE_CLASSES] = {
    OPEN_ROWS, OPEN_ROWS, OPEN_ROWS};

/* The rows, 7 bytes for each of their points, at most 8 of a row of MCUs
 * (SLUICE_JPEG_INDEX_AUTO_STEP), and 4 for each row. */
static double exact_bytes(const struct sluice_sample_facts *facts)
{
    const struct sluice_mcu_rows under = sluice_mcu_rows_of(facts);
    const double points = fmin(ceil(under.columns / 8), 8);
    return under.bytes + under.rows * (4 + 7 * points);
}

const struct sluice_form_type sluice_form_jpeg_rows = {
    .form = SLUICE_FORM_JPEG_ROWS,
    .name = "jpeg_rows",
    .brief = "rows",
    .words = "JPEG rows",
    .kind = SLUICE_KIND_FILE,
    .needs_index = true,
    .retry_as_file = true,
    .max_percent = SLUICE_JPEG_ROWS_MAX_PERCENT,
    .cost = {.encode = take_cost,
             .open = open_cost,
             .decode = sluice_decode_window_cost,
             .exact_bytes = exact_bytes},
    .suits = sluice_pipeline_can_take_rows,
    .takes_box = takes_box,
    .encode = encode,
    .open = open_rows,
};
