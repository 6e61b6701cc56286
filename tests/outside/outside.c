/* An op and a form that the tree does not know: all there is to either stands in this file, and no
 * other file names them.  Linked into a program it registers both before main(). */

#include "base/buf.h"
#include "op/form.h"
#include "op/op.h"
#include "op/run_region.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>

/* --- negate: 255 - v of all values of a sample, with a probability --- */

struct params {
    double p;
};

static const struct sluice_op_param param_list[] = {
    {.name = "p",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, p),
     .form = "P",
     .example = "0.5",
     .max = 1,
     .has_preset = true,
     .preset = {.min = 0.5}},
    {0},
};

static void draw(const void *params, struct sluice_size in, struct sluice_rng *rng,
                 union sluice_drawn *drawn)
{
    (void)in;
    drawn->values[0] = sluice_rng_double(rng) < ((const struct params *)params)->p;
}

static void table(const union sluice_drawn *drawn, const struct sluice_pixel_statistics *unused,
                  uint8_t out[3][256])
{
    (void)unused;
    for (unsigned v = 0; v < 256; v++)
        out[0][v] = out[1][v] = out[2][v] = (uint8_t)(drawn->values[0] ? 255 - v : v);
}

static const struct sluice_op_type negate = {
    .name = "negate",
    .help = "255 less each value, with this probability",
    .kind = SLUICE_OP_TABLE,
    .is_random = true,
    .params = param_list,
    .params_size = sizeof(struct params),
    .draw = draw,
    .table = table,
};

/* --- veiled: the finished pixels, each XOR 0x5a --- */

static struct sluice_form_type veiled;

/* Swaps the sample's pixels for veiled ones, or back. */
static sluice_status veil(struct sluice_scratch *scratch, struct sluice_sample *sample,
                          struct sluice_err *err)
{
    struct sluice_buf *data = NULL;
    const size_t len = sample->data->len;
    const sluice_status status = sluice_buf_create(scratch->pool, len, &data, err);
    if (status != SLUICE_OK)
        return status;
    data->len = len;
    for (size_t i = 0; i < len; i++)
        data->data[i] = sample->data->data[i] ^ 0x5a;
    sluice_sample_advance(sample, sample->ops_done, SLUICE_KIND_U8,
                          (struct sluice_size){sample->width, sample->height}, data);
    return SLUICE_OK;
}

static sluice_status encode(const struct sluice_pipeline *pipeline, struct sluice_scratch *scratch,
                            struct sluice_sample *sample, unsigned split,
                            const struct sluice_form_options *options, struct sluice_err *err)
{
    (void)options; /* of crops */
    sluice_status status = sluice_pipeline_run(pipeline, scratch, sample, split, err);
    if (status == SLUICE_OK && !sample->coding)
        status = veil(scratch, sample, err);
    if (status == SLUICE_OK)
        sample->coding = &veiled;
    return status;
}

static sluice_status open_veiled(const struct sluice_pipeline *pipeline,
                                 struct sluice_scratch *scratch, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    (void)pipeline;
    return veil(scratch, sample, err);
}

static bool is_offered(const struct sluice_pipeline *pipeline, unsigned split)
{
    return split == sluice_pipeline_u8_split(pipeline);
}

static sluice_status check(const struct sluice_pipeline *pipeline,
                           const struct sluice_sample *sample, struct sluice_err *err)
{
    (void)pipeline;
    return sample->data->len == (size_t)sample->width * sample->height * 3
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_CORRUPT, "veiled pixels have %zu bytes",
                             sample->data->len);
}

/* Cheaper than all else, so that a plan takes it. */
static double few_bytes(const struct sluice_sample_facts *facts)
{
    (void)facts;
    return 100;
}

static struct sluice_form_type veiled = {
    .name = "veiled",
    .brief = "veiled",
    .words = "veiled pixels",
    .kind = SLUICE_KIND_U8,
    .is_work = true,
    .cost = {.exact_bytes = few_bytes},
    .is_offered = is_offered,
    .check = check,
    .encode = encode,
    .open = open_veiled,
};

/* --- both are known before main() --- */

__attribute__((constructor)) static void register_both(void)
{
    struct sluice_err err = {{0}};
    if (sluice_op_register(&negate, &err) == SLUICE_OK &&
        sluice_form_register(&veiled, &err) == SLUICE_OK) {
        sluice_wire_know_forms(sluice_num_forms());
        return;
    }
    fprintf(stderr, "%s\n", err.text);
    abort();
}
