#include "compute_client/loader/order/boxed_draws.h"

#include "op/geometry.h"

unsigned sluice_boxes_field(const struct sluice_manifest *manifest)
{
    for (unsigned i = 0; i < manifest->fields.num; i++) {
        if (manifest->fields.of[i].type.kind == SLUICE_FIELD_BOXES)
            return i;
    }
    return SLUICE_MAX_FIELDS;
}

sluice_status sluice_boxed_draws(const struct sluice_pipeline *pipeline,
                                 const struct sluice_manifest *manifest, struct sluice_size size,
                                 struct sluice_draw_key *key, struct sluice_err *err)
{
    if (!sluice_pipeline_draws_by_boxes(pipeline))
        return SLUICE_OK;
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, key->sample_id);
    const struct sluice_field_value boxes = sluice_fields_value(
        &manifest->fields, sluice_boxes_field(manifest), entry.values, entry.values_bytes);
    const struct sluice_file_image image = {size.width, size.height, 1};
    return sluice_pipeline_draw_crop(pipeline, key, &image, boxes.at,
                                     boxes.at ? boxes.bytes / SLUICE_BOX_BYTES : 0, &key->crop,
                                     err);
}
