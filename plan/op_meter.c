#include "plan/op_meter.h"

#include "base/buf.h"
#include "base/clock.h"
#include "image/codecs/coding.h"

#include <string.h>

sluice_status sluice_op_meter_init(struct sluice_op_meter *meter, struct sluice_buf_pool *pool,
                                   uint64_t max_image_pixels, struct sluice_err *err)
{
    *meter = (struct sluice_op_meter){0};
    struct sluice_scratch_options options = {
        .pool = pool, .max_image_pixels = max_image_pixels, .measure_ops = true};
    sluice_status status = sluice_scratch_create(&options, &meter->by_op, err);
    options.measure_ops = false;
    if (status == SLUICE_OK)
        status = sluice_scratch_create(&options, &meter->whole, err);
    if (status != SLUICE_OK)
        sluice_op_meter_clear(meter);
    return status;
}

void sluice_op_meter_clear(struct sluice_op_meter *meter)
{
    sluice_scratch_destroy(meter->by_op);
    sluice_scratch_destroy(meter->whole);
    *meter = (struct sluice_op_meter){0};
}

/* Without its index, which the sample alone owns: the scratches borrow that. */
static struct sluice_sample copy_of(const struct sluice_sample *file)
{
    struct sluice_sample copy = *file;
    copy.data = sluice_buf_ref(file->data);
    copy.jpeg_index = NULL;
    return copy;
}

static void lend_index(struct sluice_op_meter *meter, const struct sluice_jpeg_index *index)
{
    sluice_scratch_set_jpeg_index(meter->by_op, index);
    sluice_scratch_set_jpeg_index(meter->whole, index);
}

static sluice_status measure_by_op(struct sluice_op_meter *meter,
                                   const struct sluice_pipeline *pipeline,
                                   struct sluice_sample *sample, struct sluice_sample_cost *row,
                                   struct sluice_err *err)
{
    for (unsigned op = 0; op < sluice_pipeline_num_ops(pipeline); op++) {
        const sluice_status status =
            sluice_pipeline_run(pipeline, meter->by_op, sample, op + 1, err);
        if (status != SLUICE_OK)
            return status;
        if (op == 0) {
            row->width = sample->width;
            row->height = sample->height;
        }
        row->bytes[op + 1] = sample->data->len;
        row->op_s[op + 1] = (double)sluice_scratch_op_ns(meter->by_op, op) * 1e-9;
    }
    return SLUICE_OK;
}

/* Copies the pixels of the sample, which stands at the u8 split, to their places. */
static sluice_status copy_pixels(struct sluice_op_meter *meter,
                                 const struct sluice_pipeline *pipeline,
                                 const struct sluice_sample *sample, uint8_t *const *places,
                                 size_t pixels_len, struct sluice_err *err)
{
    struct sluice_sample copy = copy_of(sample);
    const sluice_status status =
        sluice_pipeline_finish_views(pipeline, meter->whole, &copy, places, pixels_len, err);
    sluice_sample_clear(&copy);
    return status;
}

static sluice_status measure_whole(struct sluice_op_meter *meter,
                                   const struct sluice_pipeline *pipeline,
                                   struct sluice_sample *sample, uint8_t *const *places,
                                   size_t pixels_len, struct sluice_sample_cost *row,
                                   struct sluice_err *err)
{
    const unsigned u8_split = sluice_pipeline_u8_split(pipeline);
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    uint64_t start_ns = sluice_thread_cpu_ns();
    sluice_status status = sluice_pipeline_run(pipeline, meter->whole, sample, u8_split, err);
    double rest_s = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    if (status != SLUICE_OK)
        return status;
    for (unsigned op = 2; op <= u8_split; op++)
        rest_s -= row->op_s[op];
    if (rest_s > 0 && rest_s < row->op_s[1])
        row->op_s[1] = rest_s;
    status = places ? copy_pixels(meter, pipeline, sample, places, pixels_len, err) : SLUICE_OK;
    if (status != SLUICE_OK)
        return status;

    start_ns = sluice_thread_cpu_ns();
    status = sluice_pipeline_run(pipeline, meter->whole, sample, num_ops, err);
    rest_s = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-9;
    for (unsigned op = u8_split + 1; op <= num_ops; op++) {
        row->op_s[op] = rest_s;
        rest_s = 0;
    }
    return status;
}

sluice_status sluice_op_meter_measure(struct sluice_op_meter *meter,
                                      const struct sluice_pipeline *pipeline,
                                      const struct sluice_sample *file, uint8_t *const *places,
                                      size_t pixels_len, struct sluice_sample_cost *row,
                                      struct sluice_err *err)
{
    struct sluice_sample_cost lost = {.op_s = {row->op_s[0]}}, seen = lost;
    for (unsigned stage = 0; stage <= sluice_pipeline_num_ops(pipeline); stage++)
        lost.bytes[stage] = file->data->len;
    seen.bytes[0] = file->data->len;
    *row = lost;

    struct sluice_image_info info;
    sluice_status status = sluice_image_probe(file->data->data, file->data->len, &info, err);
    if (status != SLUICE_OK)
        return status;
    seen.coding = sluice_coding_of(&info);
    lend_index(meter, file->jpeg_index);
    struct sluice_sample sample = copy_of(file);
    status = measure_by_op(meter, pipeline, &sample, &seen, err);
    sluice_sample_clear(&sample);
    if (status == SLUICE_OK) {
        sample = copy_of(file);
        status = measure_whole(meter, pipeline, &sample, places, pixels_len, &seen, err);
        sluice_sample_clear(&sample);
    }
    lend_index(meter, NULL);
    if (status == SLUICE_OK)
        *row = seen;
    return status;
}
