#include "image/image.h"
#include "op/pipeline.h"

#include "fuzz.h"

/* The text of a pipeline: what parses has a canonical text that parses to the same,
 * and draws that lie in the image. */

static void check_draws(const struct sluice_pipeline *pipeline, uint32_t width, uint32_t height)
{
    const struct sluice_draw_key key = {.seed = 3, .epoch = 1, .sample_id = width};
    const struct sluice_draws draws = sluice_pipeline_draws(pipeline, &key, width, height);
    FUZZ_CHECK(draws.width >= 1 && draws.height >= 1);
    if (strcmp(sluice_pipeline_op_name(pipeline, sluice_pipeline_u8_split(pipeline) > 1 ? 1 : 0),
               "random_resized_crop") == 0) {
        FUZZ_CHECK(draws.left <= width - draws.width && draws.width <= width);
        FUZZ_CHECK(draws.top <= height - draws.height && draws.height <= height);
    }
}

/* The views' pixels are the sample's, and the box that they need lies in the image. */
static void check_views(const struct sluice_pipeline *pipeline, uint32_t width, uint32_t height)
{
    const unsigned num = sluice_pipeline_num_views(pipeline);
    const unsigned end = sluice_pipeline_u8_split(pipeline);
    FUZZ_CHECK(num >= 1 && num <= SLUICE_MAX_VIEWS);
    uint64_t pixels = 0;
    for (unsigned v = 0; v < num; v++) {
        const struct sluice_size size = sluice_pipeline_view_size(pipeline, v);
        FUZZ_CHECK(num == 1 || (size.width >= 1 && size.height >= 1));
        pixels += (uint64_t)size.width * size.height;
    }
    const struct sluice_known_size known = sluice_pipeline_known_size(pipeline, end);
    FUZZ_CHECK(pixels == 0 || sluice_known_size_pixels(known, width, height) == pixels);

    const struct sluice_draw_key key = {.seed = 3, .epoch = 1, .sample_id = width};
    struct sluice_box box;
    if (sluice_pipeline_file_box(pipeline, &key, width, height, end, SLUICE_FORM_U8, &box))
        FUZZ_CHECK(sluice_box_is_within(&box, width, height));
    char *json = NULL;
    FUZZ_CHECK(sluice_pipeline_write_draws(pipeline, &key, width, height, &json, NULL) ==
               SLUICE_OK);
    free(json);
}

/* Bit for bit; through void pointers, as floats compare otherwise. */
static bool has_same_bits(const void *a, const void *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}

static void check_pipeline(const struct sluice_pipeline *pipeline)
{
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    FUZZ_CHECK(num_ops >= 1 && num_ops <= SLUICE_PIPELINE_MAX_OPS);
    FUZZ_CHECK(sluice_pipeline_u8_split(pipeline) >= 1);
    FUZZ_CHECK(sluice_pipeline_u8_split(pipeline) <= num_ops);

    struct sluice_pipeline *again = NULL;
    FUZZ_CHECK(sluice_pipeline_parse(sluice_pipeline_spec(pipeline), &again, NULL) == SLUICE_OK);
    FUZZ_CHECK(strcmp(sluice_pipeline_spec(pipeline), sluice_pipeline_spec(again)) == 0);
    FUZZ_CHECK(sluice_pipeline_fingerprint(pipeline) == sluice_pipeline_fingerprint(again));
    FUZZ_CHECK(has_same_bits(sluice_pipeline_tail_table(pipeline),
                             sluice_pipeline_tail_table(again), sizeof(sluice_pipeline_table)));
    sluice_pipeline_destroy(again);

    check_draws(pipeline, 1, 1);
    check_draws(pipeline, 3, 500);
    check_draws(pipeline, 65535, 65535);
    check_views(pipeline, 1, 1);
    check_views(pipeline, 500, 375);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *spec = malloc(size + 1);
    if (!spec)
        return 0;
    memcpy(spec, data, size);
    spec[size] = '\0';
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    if (sluice_pipeline_parse(spec, &pipeline, &err) == SLUICE_OK) {
        check_pipeline(pipeline);
        sluice_pipeline_destroy(pipeline);
    } else {
        FUZZ_CHECK(err.text[0] != '\0' && pipeline == NULL);
    }
    free(spec);
    return 0;
}
