/* jpeg_crop: a JPEG cut, without decoding, to the MCUs that the crop op needs. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/jpeg/crop.h"
#include "op/form.h"
#include "op/run_region.h"

extern const struct sluice_form_type sluice_form_jpeg_crop;

bool sluice_pipeline_can_crop_jpeg(const struct sluice_pipeline *pipeline)
{
    return pipeline->stage_end[0] > 0;
}

/* Cuts the sample's file; adds the options that depend on the sample and the scratch. */
static sluice_status cut_jpeg(const struct sluice_pipeline *pipeline,
                              struct sluice_scratch *scratch, struct sluice_sample *sample,
                              struct sluice_jpeg_crop_options options, struct sluice_err *err)
{
    if (!sluice_pipeline_can_crop_jpeg(pipeline))
        return sluice_fail(err, SLUICE_E_INVALID, "this pipeline does not crop what it decodes");
    if (sample->ops_done > 0 || sample->kind != SLUICE_KIND_FILE || sluice_sample_is_window(sample))
        return sluice_fail(err, SLUICE_E_INVALID, "only a whole file can be cut");
    sluice_status status = sluice_sample_open(pipeline, scratch, sample, err);
    if (status)
        return status;
    const struct sluice_buf *file = sample->data;
    struct sluice_image_info info;
    status = sluice_image_probe(file->data, file->len, &info, err);
    if (status)
        return status;
    if (info.format != SLUICE_IMAGE_JPEG)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "only a JPEG can be cut");
    if (sluice_file_orientation(pipeline, file->data, file->len) != 1)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a JPEG that has to be turned is not cut");
    struct sluice_box box;
    const struct sluice_size size = {info.width, info.height};
    if (!sluice_file_crop_box(pipeline, &sample->key, size, &box))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the crop of an image of %u x %u pixels is "
                           "over the limit",
                           size.width, size.height);
    options.max_pixels = scratch->max_pixels;
    options.index = sluice_scratch_index(scratch, sample);
    struct sluice_buf *crop;
    status =
        sluice_jpeg_crop(file->data, file->len, &box, &options, scratch->pool, &crop, NULL, err);
    if (status)
        return status;
    sluice_buf_unref(sample->data);
    sample->data = crop;
    sample->coding = &sluice_form_jpeg_crop;
    return SLUICE_OK;
}

sluice_status sluice_pipeline_crop_jpeg(const struct sluice_pipeline *pipeline,
                                        struct sluice_scratch *scratch,
                                        struct sluice_sample *sample, bool optimal_huffman,
                                        uint32_t restart_interval, struct sluice_err *err)
{
    const struct sluice_jpeg_crop_options options = {
        .optimal_huffman = optimal_huffman,
        .restart_interval = restart_interval,
    };
    return cut_jpeg(pipeline, scratch, sample, options, err);
}

sluice_status sluice_pipeline_cut_for_gpu(const struct sluice_pipeline *pipeline,
                                          struct sluice_scratch *scratch,
                                          struct sluice_sample *sample, uint32_t restart_interval,
                                          struct sluice_err *err)
{
    const struct sluice_jpeg_crop_options options = {
        .restart_interval = restart_interval,
        .allow_larger = true,
        .route = SLUICE_JPEG_CROP_BY_OURS,
    };
    return cut_jpeg(pipeline, scratch, sample, options, err);
}

static sluice_status encode(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err)
{
    (void)split; /* 0 */
    return sluice_pipeline_crop_jpeg(pipeline, scratch, sample, options->has_optimal_huffman,
                                     options->restart_interval, err);
}

static bool takes_box(const struct sluice_pipeline *pipeline, unsigned split)
{
    (void)pipeline;
    return split == 0;
}

/* Measured as plan/choice_cost.c describes. */
static const struct sluice_choice_weights cut_cost[SLUICE_NUM_FILE_CLASSES] = {
    [SLUICE_CLASS_WINDOW] = {{SLUICE_PER(SAMPLE, 39e-6), SLUICE_PER(BYTE_TO_CROP, 2.17e-9),
                              SLUICE_PER(PIXEL, 0.1e-9), SLUICE_PER(CROP_PIXEL, 0.19e-9)}},
    [SLUICE_CLASS_JPEG] = {{SLUICE_PER(SAMPLE, 25e-6), SLUICE_PER(FILE_BYTE, 27.2e-9),
                            SLUICE_PER(PIXEL, 2.6e-9), SLUICE_PER(CROP_PIXEL, 2.3e-9)}},
};
static const struct sluice_choice_weights cut_bytes[SLUICE_NUM_FILE_CLASSES] = {
    [SLUICE_CLASS_WINDOW] = {{SLUICE_PER(SAMPLE, 180), SLUICE_PER(CROP_BYTE, 0.965),
                              SLUICE_PER(CHROMA_SAMPLE, 0.0195)}},
    [SLUICE_CLASS_JPEG] = {{SLUICE_PER(SAMPLE, 180), SLUICE_PER(CROP_BYTE, 1.03),
                            SLUICE_PER(CHROMA_SAMPLE, 0.077)}},
};

const struct sluice_form_type sluice_form_jpeg_crop = {
    .form = SLUICE_FORM_JPEG_CROP,
    .name = "jpeg_crop",
    .brief = "crop",
    .words = "JPEG crops",
    .kind = SLUICE_KIND_FILE,
    .is_work = true,
    .is_window = true,
    .max_percent = 100,
    .cost = {.encode = cut_cost, .decode = sluice_decode_window_cost, .bytes = cut_bytes},
    .suits = sluice_pipeline_can_crop_jpeg,
    .takes_box = takes_box,
    .encode = encode,
};
