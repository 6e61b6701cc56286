/* u8_packed: pixels, packed losslessly (image/pack/pack.h).  If a random resample comes right after
 * decode, only the box that it draws is packed at split 1. */

#include "base/buf.h"
#include "image/codecs/codec.h"
#include "image/pack/pack.h"
#include "op/form.h"
#include "op/run_region.h"

extern const struct sluice_form_type sluice_form_u8_packed;

bool sluice_pipeline_packs_box(const struct sluice_pipeline *pipeline)
{
    return pipeline->num_ops > 1 && pipeline->ops[1].type->kind == SLUICE_OP_RESAMPLE &&
           pipeline->ops[1].type->is_random && !pipeline->ops[1].type->takes_whole;
}

/* Whether only the resample's box is packed at this split, not the whole image. */
static bool is_box(const struct sluice_pipeline *pipeline, unsigned split)
{
    return split == 1 && sluice_pipeline_packs_box(pipeline);
}

/* Several views are not packed. */
static bool suits(const struct sluice_pipeline *pipeline)
{
    return sluice_pipeline_num_views(pipeline) == 1;
}

/* Turns a file into the packed pixels of its crop box. */
static sluice_status pack_box(const struct sluice_pipeline *pipeline,
                              struct sluice_scratch *scratch, struct sluice_sample *sample,
                              struct sluice_err *err)
{
    if (sample->ops_done > 0 || sample->coding)
        return sluice_fail(err, SLUICE_E_INVALID, "a box is packed from a whole file only");
    const struct sluice_buf *file = sample->data;
    struct sluice_image_info info;
    sluice_status status = sluice_image_probe(file->data, file->len, &info, err);
    if (status)
        return status;
    struct sluice_region region;
    status = sluice_read_file_region(pipeline, scratch, sample, &region, err);
    if (status)
        return status;
    struct sluice_buf *packed = NULL;
    status = sluice_pack_rgb(scratch->packer, region.rgb.pixels->data, region.rgb.width,
                             region.rgb.height, 0, scratch->pool, &packed, err);
    sluice_buf_unref(region.rgb.pixels);
    if (status)
        return status;
    if (packed->len >= file->len) {
        sluice_buf_unref(packed);
        return sluice_fail(err, SLUICE_E_AGAIN, "packed pixels would not be smaller than the file");
    }
    sluice_sample_advance(sample, 1, SLUICE_KIND_U8, (struct sluice_size){info.width, info.height},
                          packed);
    sample->coding = &sluice_form_u8_packed;
    return SLUICE_OK;
}

sluice_status sluice_pipeline_pack(const struct sluice_pipeline *pipeline,
                                   struct sluice_scratch *scratch, struct sluice_sample *sample,
                                   unsigned end, struct sluice_err *err)
{
    if (end > pipeline->num_ops || sluice_pipeline_kind(pipeline, end) != SLUICE_KIND_U8)
        return sluice_fail(err, SLUICE_E_INVALID, "split %u of this pipeline is not u8", end);
    if (!suits(pipeline))
        return sluice_fail(err, SLUICE_E_INVALID, "the pixels of several views are not packed");
    if (is_box(pipeline, end))
        return pack_box(pipeline, scratch, sample, err);
    sluice_status status = sluice_pipeline_run(pipeline, scratch, sample, end, err);
    if (status || sample->coding)
        return status;
    struct sluice_buf *packed = NULL;
    status = sluice_pack_rgb(scratch->packer, sample->data->data, sample->width, sample->height, 0,
                             scratch->pool, &packed, err);
    if (status)
        return status;
    sluice_sample_advance(sample, end, SLUICE_KIND_U8,
                          (struct sluice_size){sample->width, sample->height}, packed);
    sample->coding = &sluice_form_u8_packed;
    return SLUICE_OK;
}

/* Unpacks all pixels; a box is unpacked by the resample that follows. */
static sluice_status open_packed(const struct sluice_pipeline *pipeline,
                                 struct sluice_scratch *scratch, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    if (is_box(pipeline, sample->ops_done))
        return SLUICE_OK;
    struct sluice_rgb rgb;
    const sluice_status status =
        sluice_unpack_rgb(scratch->packer, sample->data->data, sample->data->len,
                          (uint64_t)sample->width * sample->height, scratch->pool, &rgb, err);
    if (status)
        return status;
    if (rgb.width != sample->width || rgb.height != sample->height) {
        sluice_buf_unref(rgb.pixels);
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed pixels are %u x %u, not %u x %u",
                           rgb.width, rgb.height, sample->width, sample->height);
    }
    sluice_sample_advance(sample, sample->ops_done, SLUICE_KIND_U8,
                          (struct sluice_size){rgb.width, rgb.height}, rgb.pixels);
    return SLUICE_OK;
}

/* Reads the pixels of a packed box. */
static sluice_status read_box(struct sluice_scratch *scratch, const struct sluice_sample *sample,
                              const struct sluice_box *box, struct sluice_rgb *rgb,
                              struct sluice_err *err)
{
    struct sluice_rgb unpacked;
    const sluice_status status =
        sluice_unpack_rgb(scratch->packer, sample->data->data, sample->data->len,
                          (uint64_t)box->width * box->height, scratch->pool, &unpacked, err);
    if (status)
        return status;
    if (unpacked.width != box->width || unpacked.height != box->height) {
        sluice_buf_unref(unpacked.pixels);
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed for another crop");
    }
    *rgb = unpacked;
    return SLUICE_OK;
}

static sluice_status encode(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err)
{
    (void)options; /* of crops */
    return sluice_pipeline_pack(pipeline, scratch, sample, split, err);
}

static bool is_offered(const struct sluice_pipeline *pipeline, unsigned split)
{
    return split == sluice_pipeline_u8_split(pipeline);
}

static sluice_status check(const struct sluice_pipeline *pipeline,
                           const struct sluice_sample *sample, struct sluice_err *err)
{
    (void)pipeline;
    if (sample->data->len >= (uint64_t)sample->width * sample->height * 3)
        return sluice_fail(err, SLUICE_E_CORRUPT, "packed sample of %u x %u pixels has %zu bytes",
                           sample->width, sample->height, sample->data->len);
    return SLUICE_OK;
}

/* Measured as plan/choice_cost.c describes. */
#define PACK                                                                                       \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 10e-6), SLUICE_PER(OUTPUT_PIXEL, 7.2e-9)                            \
        }                                                                                          \
    }
#define UNPACK                                                                                     \
    {                                                                                              \
        {                                                                                          \
            SLUICE_PER(SAMPLE, 5e-6), SLUICE_PER(OUTPUT_PIXEL, 4.8e-9)                             \
        }                                                                                          \
    }
static const struct sluice_choice_weights pack_cost[SLUICE_NUM_FILE_CLASSES] = {PACK, PACK, PACK};
static const struct sluice_choice_weights unpack_cost[SLUICE_NUM_FILE_CLASSES] = {UNPACK, UNPACK,
                                                                                  UNPACK};
static const struct sluice_choice_weights packed_bytes[SLUICE_NUM_FILE_CLASSES] = {
    [SLUICE_CLASS_WINDOW] = {{SLUICE_PER(DETAIL, 1.49)}},
    [SLUICE_CLASS_JPEG] = {{SLUICE_PER(DETAIL, 1.58)}},
    [SLUICE_CLASS_PNG] = {{SLUICE_PER(DETAIL, 0.99)}},
};

const struct sluice_form_type sluice_form_u8_packed = {
    .form = SLUICE_FORM_U8_PACKED,
    .name = "u8_packed",
    .brief = "packed",
    .words = "packed pixels",
    .kind = SLUICE_KIND_U8,
    .is_work = true,
    .cost = {.encode = pack_cost, .open = unpack_cost, .bytes = packed_bytes},
    .suits = suits,
    .is_offered = is_offered,
    .takes_box = is_box,
    .check = check,
    .encode = encode,
    .open = open_packed,
    .read_box = read_box,
};
