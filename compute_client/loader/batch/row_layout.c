#include "compute_client/loader/batch/row_layout.h"

#include "compute_client/loader/order/digest.h"

#include <assert.h>
#include <string.h>

bool sluice_row_has_own_size(const struct sluice_pipeline *pipeline)
{
    return sluice_pipeline_most_u8_bytes(pipeline) == 0;
}

struct sluice_row_layout sluice_row_layout_of(const struct sluice_pipeline *pipeline,
                                              unsigned bucket)
{
    struct sluice_row_layout layout = {.num_views = sluice_pipeline_num_views(pipeline)};
    const bool has_buckets = sluice_pipeline_num_buckets(pipeline) > 0;
    layout.is_bucket = has_buckets;
    for (unsigned i = 0; i < layout.num_views; i++) {
        const struct sluice_size size = has_buckets ? sluice_pipeline_bucket_size(pipeline, bucket)
                                                    : sluice_pipeline_view_size(pipeline, i);
        layout.views[i] = (struct sluice_row_view){
            .height = size.height,
            .width = size.width,
            .offset = layout.bytes,
            .bytes = (size_t)size.height * size.width * 3,
        };
        layout.bytes += layout.views[i].bytes;
    }
    return layout;
}

void sluice_row_copy(const struct sluice_row_layout *layout, unsigned capacity, unsigned to,
                     unsigned from, uint8_t *batch)
{
    for (unsigned i = 0; i < layout->num_views; i++)
        memcpy(batch + sluice_row_place(layout, capacity, to, i),
               batch + sluice_row_place(layout, capacity, from, i), layout->views[i].bytes);
}

struct sluice_hash128 sluice_row_digest(const struct sluice_row_layout *layout, unsigned capacity,
                                        unsigned row, const uint8_t *batch, uint32_t label,
                                        struct sluice_hasher *hasher)
{
    sluice_hasher_reset(hasher);
    for (unsigned i = 0; i < layout->num_views; i++)
        sluice_hasher_update(hasher, batch + sluice_row_place(layout, capacity, row, i),
                             layout->views[i].bytes);
    if (layout->is_bucket)
        sluice_digest_size(hasher, layout->views[0].height, layout->views[0].width);
    return sluice_digest_end(hasher, label);
}

struct sluice_hash128 sluice_row_image_digest(const struct sluice_row_image *image,
                                              const uint8_t *batch, uint32_t label,
                                              struct sluice_hasher *hasher)
{
    sluice_hasher_reset(hasher);
    sluice_hasher_update(hasher, batch + image->at, sluice_row_image_bytes(image));
    sluice_digest_size(hasher, image->height, image->width);
    return sluice_digest_end(hasher, label);
}
