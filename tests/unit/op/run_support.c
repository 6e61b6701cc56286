#include "run_support.h"

#include "base/rng.h"
#include "image/codecs/codec.h"
#include "support/test.h"

struct sluice_pipeline *run_test_parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(spec, &pipeline, NULL));
    return pipeline;
}

struct sluice_scratch *run_test_scratch(const struct sluice_scratch_options *options)
{
    struct sluice_scratch *scratch = NULL;
    REQUIRE_OK(sluice_scratch_create(options, &scratch, NULL));
    return scratch;
}

struct sluice_buf *run_test_file(uint32_t width, uint32_t height)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, width, height);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    for (size_t i = 0; i < (size_t)width * height * 3; i++)
        pixels[i] = (uint8_t)sluice_rng_u32(&rng);
    struct sluice_buf *file = NULL;
    REQUIRE_OK(sluice_png_encode(pixels, width, height, 1, &file, NULL));
    free(pixels);
    return file;
}

struct sluice_sample run_test_sample(struct sluice_buf *file, uint64_t id)
{
    return (struct sluice_sample){.key = {.seed = 9, .epoch = 2, .sample_id = id},
                                  .data = sluice_buf_ref(file)};
}

struct sluice_sample run_test_zeroes(unsigned ops_done, enum sluice_kind kind, uint32_t width,
                                     uint32_t height, size_t len)
{
    struct sluice_sample sample = {
        .ops_done = ops_done, .kind = kind, .width = width, .height = height};
    sample.channels = kind == SLUICE_KIND_FILE ? 0 : 3;
    REQUIRE_OK(sluice_buf_create(NULL, len, &sample.data, NULL));
    memset(sample.data->data, 0, len);
    sample.data->len = len;
    return sample;
}

const struct sluice_op *run_test_op(const struct sluice_pipeline *pipeline, unsigned index)
{
    CU_ASSERT_FATAL(index < pipeline->num_ops);
    return &pipeline->ops[index];
}

union sluice_drawn run_test_draw(const struct sluice_pipeline *pipeline, unsigned index,
                                 uint64_t sample_id, uint32_t width, uint32_t height)
{
    const struct sluice_draw_key key = {
        .seed = sluice_test_seed(), .epoch = 1, .sample_id = sample_id};
    union sluice_drawn drawn;
    sluice_op_draw(run_test_op(pipeline, index), &key, (struct sluice_size){width, height}, &drawn);
    return drawn;
}
