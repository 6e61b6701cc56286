#include "op/run_views.h"

#include "base/buf.h"
#include "op/form.h"
#include "op/run_stage.h"

#include <string.h>

/* Runs the ops of one view from `from`, a sample at the split before views, whose pixels are those
 * of `region` if that is not NULL. */
static sluice_status run_view(const struct sluice_pipeline *view, struct sluice_scratch *scratch,
                              const struct sluice_sample *from, const struct sluice_region *region,
                              uint8_t *out, struct sluice_err *err)
{
    struct sluice_sample sample = *from;
    sluice_buf_ref(sample.data);
    sluice_status status = SLUICE_OK;
    bool is_done = false;
    while (status == SLUICE_OK && !is_done && sample.ops_done < view->u8_split) {
        struct sluice_stage stage = sluice_next_stage(view, &sample, view->u8_split, false);
        stage.region = region;
        is_done = !stage.is_nothing &&
                  sluice_is_last_change(view, &sample.key, stage.next, view->u8_split);
        status = sluice_run_stage(view, scratch, &sample, &stage, is_done ? out : NULL, err);
        region = NULL; /* the first stage is the resample that reads it */
    }
    if (status == SLUICE_OK && !is_done)
        memcpy(out, sample.data->data, sample.data->len);
    sluice_buf_unref(sample.data);
    return status;
}

/* Decodes the union of the views' boxes.  As with a single crop, a damaged file counts more than a
 * result over the limit. */
static sluice_status read_region(const struct sluice_pipeline *pipeline,
                                 struct sluice_scratch *scratch, struct sluice_sample *sample,
                                 struct sluice_region *region, struct sluice_err *err)
{
    struct sluice_size size;
    sluice_status status = sluice_file_image_size(pipeline, scratch, sample, &size, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err over = {0};
    for (unsigned i = 0; status == SLUICE_OK && i < pipeline->num_views; i++)
        status = sluice_check_crop(pipeline->views[i], scratch, &sample->key, size, &over);
    if (status == SLUICE_OK)
        return sluice_read_file_region(pipeline, scratch, sample, region, err);
    if (!sluice_sample_is_window(sample)) {
        const sluice_status decoded = sluice_run_decode(pipeline, scratch, sample, err);
        if (decoded != SLUICE_OK)
            return decoded;
    }
    return sluice_fail(err, status, "%s", over.text);
}

void sluice_places_in(const struct sluice_pipeline *pipeline, uint8_t *out,
                      uint8_t *places[SLUICE_MAX_VIEWS])
{
    places[0] = out;
    for (unsigned i = 1; i < pipeline->num_views; i++) {
        const struct sluice_size before = pipeline->view_sizes[i - 1];
        places[i] = places[i - 1] + (size_t)before.width * before.height * 3;
    }
}

sluice_status sluice_run_views(const struct sluice_pipeline *pipeline,
                               struct sluice_scratch *scratch, struct sluice_sample *sample,
                               const struct sluice_stage *stage, uint8_t *const *places,
                               struct sluice_err *err)
{
    const size_t bytes = sluice_pipeline_u8_bytes(pipeline);
    if (bytes / 3 > scratch->max_pixels)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "views would give %zu pixels, over the limit",
                           bytes / 3);
    struct sluice_region region = {0};
    struct sluice_sample from = *sample;
    const bool is_file = sample->ops_done == 0;
    struct sluice_buf *data = NULL;
    uint8_t *in_data[SLUICE_MAX_VIEWS];
    sluice_status status =
        is_file ? read_region(pipeline, scratch, sample, &region, err) : SLUICE_OK;
    if (status == SLUICE_OK && is_file)
        from = (struct sluice_sample){.key = sample->key,
                                      .ops_done = stage->first,
                                      .kind = SLUICE_KIND_U8,
                                      .width = region.image.width,
                                      .height = region.image.height,
                                      .channels = 3,
                                      .data = region.rgb.pixels};
    if (status == SLUICE_OK && !places) {
        status = sluice_buf_create(scratch->pool, bytes, &data, err);
        if (status == SLUICE_OK)
            sluice_places_in(pipeline, data->data, in_data);
        places = in_data;
    }
    for (unsigned i = 0; status == SLUICE_OK && i < pipeline->num_views; i++)
        status =
            run_view(pipeline->views[i], scratch, &from, is_file ? &region : NULL, places[i], err);
    sluice_buf_unref(region.rgb.pixels);
    if (status != SLUICE_OK) {
        sluice_buf_unref(data);
    } else if (data) {
        data->len = bytes;
        sluice_sample_advance(sample, stage->next, SLUICE_KIND_U8, pipeline->view_sizes[0], data);
    }
    return status;
}
