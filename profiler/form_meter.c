#include "profiler/form_meter.h"

#include "base/buf.h"
#include "base/clock.h"
#include "image/codecs/coding.h"
#include "image/jpeg/index.h"
#include "op/form.h"

#include <stdlib.h>
#include <string.h>

sluice_status sluice_form_meter_init(struct sluice_form_meter *meter,
                                     const struct sluice_pipeline *pipeline,
                                     struct sluice_buf_pool *pool, uint64_t max_image_pixels,
                                     struct sluice_err *err)
{
    *meter = (struct sluice_form_meter){
        .pipeline = pipeline,
        .choices = sluice_choices_of(pipeline),
    };
    const size_t row_bytes = sluice_pipeline_u8_bytes(pipeline);
    if (row_bytes == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "only pipelines that crop to one size can be measured, not \"%s\"",
                           sluice_pipeline_spec(pipeline));
    const struct sluice_scratch_options options = {.pool = pool,
                                                   .max_image_pixels = max_image_pixels};
    sluice_status status = sluice_scratch_create(&options, &meter->storage, err);
    if (status == SLUICE_OK)
        status = sluice_scratch_create(&options, &meter->compute, err);
    if (status == SLUICE_OK && !(meter->pixels = malloc(row_bytes)))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an image");
    if (status != SLUICE_OK)
        sluice_form_meter_clear(meter);
    return status;
}

void sluice_form_meter_clear(struct sluice_form_meter *meter)
{
    sluice_scratch_destroy(meter->storage);
    sluice_scratch_destroy(meter->compute);
    free(meter->pixels);
    *meter = (struct sluice_form_meter){0};
}

/* As a storage node with an index of its JPEGs has read it: rows are taken from a copy.  Without
 * one it has none of a file that cannot be indexed. */
static sluice_status index_sample(struct sluice_sample *sample, struct sluice_err *err)
{
    const struct sluice_buf *file = sample->data;
    struct sluice_buf *copy;
    struct sluice_jpeg_index *index = calloc(1, sizeof(*index));
    if (!index)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an index");
    if (sluice_jpeg_index_build(file->data, file->len, 0, SLUICE_JPEG_INDEX_AUTO_STEP, index,
                                NULL) != SLUICE_OK) {
        free(index);
        return SLUICE_OK;
    }
    sample->jpeg_index = index;
    const sluice_status status = sluice_buf_create(NULL, file->len, &copy, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(copy->data, file->data, file->len);
    copy->len = file->len;
    sluice_buf_unref(sample->data);
    sample->data = copy;
    return SLUICE_OK;
}

/* Does the storage side's part.  *is_refused: it would not send this form. */
static sluice_status make_payload(const struct sluice_form_meter *meter,
                                  struct sluice_choice choice, struct sluice_sample *sample,
                                  bool *is_refused, struct sluice_err *err)
{
    sluice_status status;
    *is_refused = false;
    const enum sluice_form form = (enum sluice_form)choice.form;
    const struct sluice_form_options options = {0};
    const bool is_file = choice.split == 0; /* where it cannot be coded the file is sent */
    status = sluice_sample_encode(meter->pipeline, meter->storage, sample, choice.split, form,
                                  &options, is_file ? NULL : err);
    *is_refused = is_file && status != SLUICE_OK;
    return is_file || status == SLUICE_E_AGAIN ? SLUICE_OK : status;
}

static sluice_status measure(const struct sluice_form_meter *meter, struct sluice_sample *sample,
                             struct sluice_form_row *row, bool *is_refused, struct sluice_err *err)
{
    uint64_t start_ns = sluice_thread_cpu_ns();
    sluice_status status =
        make_payload(meter, meter->choices.at[row->choice], sample, is_refused, err);
    row->storage_s = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    if (status != SLUICE_OK || *is_refused)
        return status;
    row->bytes = sample->data->len;
    start_ns = sluice_thread_cpu_ns();
    status = sluice_pipeline_finish_u8(meter->pipeline, meter->compute, sample, meter->pixels,
                                       sluice_pipeline_u8_bytes(meter->pipeline), err);
    row->compute_s = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    return status;
}

sluice_status sluice_form_meter_add(struct sluice_form_meter *meter, struct sluice_buf *file,
                                    uint64_t index, const struct sluice_draw_key *key,
                                    struct sluice_form_table *table, struct sluice_err *err)
{
    struct sluice_image_info info;
    sluice_status status = sluice_image_probe(file->data, file->len, &info, err);
    if (status != SLUICE_OK)
        return status;
    const size_t num_before = table->num_rows;
    struct sluice_form_row row = {
        .index = index,
        .epoch = key->epoch,
        .facts = sluice_sample_facts_make(meter->pipeline, file->len, info.width, info.height,
                                          sluice_coding_of(&info), key),
    };
    for (uint8_t choice = 0; status == SLUICE_OK && choice < meter->choices.num; choice++) {
        struct sluice_sample sample = {.key = *key, .data = sluice_buf_ref(file)};
        bool is_refused;
        row.choice = choice;
        if (sluice_form_type((enum sluice_form)meter->choices.at[choice].form)->needs_index)
            status = index_sample(&sample, err);
        if (status == SLUICE_OK)
            status = measure(meter, &sample, &row, &is_refused, err);
        sluice_sample_clear(&sample);
        if (status == SLUICE_OK && !is_refused)
            status = sluice_form_table_add(table, &row, err);
    }
    if (status != SLUICE_OK)
        table->num_rows = num_before;
    return status;
}
