#include "base/buf.h"
#include "op/pipeline.h"
#include "support/test.h"

#include <inttypes.h>

/* Compares with tests/golden/pipeline, which make_pipeline_goldens.py made with
 * torchvision and with an independent copy of the draws. */

static char *read_golden(const char *name, size_t *len)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/tests/golden/pipeline/%s", sluice_test_source_dir(), name);
    return (char *)sluice_test_read_file(path, len);
}

static struct sluice_pipeline *parse(const char *spec)
{
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_err err = {{0}};
    if (sluice_pipeline_parse(spec, &pipeline, &err)) {
        printf("%s\n", err.text);
        exit(1);
    }
    return pipeline;
}

struct goldens {
    char *cases, *expected;
    size_t cases_len, expected_len;
};

/* Calls `check` for every line that begins with `kind`; returns how many. */
static unsigned each_case(const char *kind,
                          bool (*check)(const struct goldens *goldens, const char *line))
{
    struct goldens goldens = {0};
    goldens.cases = read_golden("cases.txt", &goldens.cases_len);
    goldens.expected = read_golden("expected.bin", &goldens.expected_len);
    unsigned num_cases = 0;
    for (char *line = goldens.cases, *end; line < goldens.cases + goldens.cases_len;
         line = end + 1) {
        end = memchr(line, '\n', goldens.cases_len - (size_t)(line - goldens.cases));
        if (!end)
            break;
        *end = '\0';
        if (strncmp(line, kind, strlen(kind)) != 0)
            continue;
        num_cases++;
        const bool is_right = check(&goldens, line);
        CU_ASSERT(is_right);
        if (!is_right)
            printf("\n%s\n", line);
    }
    free(goldens.cases);
    free(goldens.expected);
    return num_cases;
}

static bool check_image(const struct goldens *goldens, const char *line)
{
    char file[64], spec[128];
    struct sluice_sample sample = {.kind = SLUICE_KIND_FILE};
    size_t offset, len, file_len;
    if (sscanf(line, "image %63s %127s %" SCNu64 " %" SCNu32 " %" SCNu64 " %zu %zu", file, spec,
               &sample.key.seed, &sample.key.epoch, &sample.key.sample_id, &offset, &len) != 7 ||
        offset + len > goldens->expected_len)
        return false;
    char *bytes = read_golden(file, &file_len);
    if (sluice_buf_create(NULL, file_len, &sample.data, NULL))
        return false;
    memcpy(sample.data->data, bytes, file_len);
    sample.data->len = file_len;
    free(bytes);

    struct sluice_pipeline *pipeline = parse(spec);
    struct sluice_scratch *scratch = NULL;
    uint8_t *out = malloc(len);
    struct sluice_err err = {{0}};
    const bool is_right =
        sluice_scratch_create(NULL, &scratch, &err) == SLUICE_OK &&
        sluice_pipeline_finish_u8(pipeline, scratch, &sample, out, len, &err) == SLUICE_OK &&
        memcmp(out, goldens->expected + offset, len) == 0;
    sluice_sample_clear(&sample);
    free(out);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
    return is_right;
}

/* Bit for bit; through void pointers, as floats compare otherwise. */
static bool has_same_bits(const void *a, const void *b, size_t len)
{
    return memcmp(a, b, len) == 0;
}

static bool check_table(const struct goldens *goldens, const char *line)
{
    char spec[128];
    size_t offset;
    if (sscanf(line, "table %127s %zu", spec, &offset) != 2 ||
        offset + sizeof(sluice_pipeline_table) > goldens->expected_len)
        return false;
    struct sluice_pipeline *pipeline = parse(spec);
    const bool is_right = has_same_bits(sluice_pipeline_tail_table(pipeline),
                                        goldens->expected + offset, sizeof(sluice_pipeline_table));
    sluice_pipeline_destroy(pipeline);
    return is_right;
}

static bool check_draw(const struct goldens *goldens, const char *line)
{
    (void)goldens;
    char spec[128];
    struct sluice_draw_key key;
    uint32_t width, height, flip;
    struct sluice_draws want;
    if (sscanf(line,
               "draw %127s %" SCNu64 " %" SCNu32 " %" SCNu64 " %" SCNu32 " %" SCNu32 " %" SCNu32
               " %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32,
               spec, &key.seed, &key.epoch, &key.sample_id, &width, &height, &want.top, &want.left,
               &want.height, &want.width, &flip) != 11)
        return false;
    struct sluice_pipeline *pipeline = parse(spec);
    const struct sluice_draws got = sluice_pipeline_draws(pipeline, &key, width, height);
    sluice_pipeline_destroy(pipeline);
    return got.top == want.top && got.left == want.left && got.height == want.height &&
           got.width == want.width && got.flip == (flip != 0);
}

TEST(pixels_are_torchvisions)
{
    CU_ASSERT_EQUAL(each_case("image ", check_image), 50);
}

TEST(tables_are_torchs_float32)
{
    CU_ASSERT_EQUAL(each_case("table ", check_table), 3);
}

TEST(draws_are_the_reference_draws)
{
    CU_ASSERT_EQUAL(each_case("draw ", check_draw), 160);
}
