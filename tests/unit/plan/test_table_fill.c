#include "plan/table_fill.h"

#include "base/rng.h"
#include "image/codecs/coding.h"
#include "support/choices.h"
#include "support/test.h"

#include <math.h>

enum { N = 200 };

static struct sluice_sample_facts random_facts(struct sluice_rng *rng)
{
    struct sluice_sample_facts facts = {
        .file_bytes = 20000 + sluice_rng_below(rng, 200000),
        .width = 300 + sluice_rng_below(rng, 400),
        .height = 300 + sluice_rng_below(rng, 400),
        .coding = SLUICE_CODING_JPEG_420,
        .output_size = 224,
        .crop = {.height = 100 + sluice_rng_below(rng, 200),
                 .width = 100 + sluice_rng_below(rng, 200)},
    };
    return facts;
}

static double decode_s(const struct sluice_sample_facts *facts)
{
    return 1e-5 + 3e-9 * (double)facts->file_bytes +
           1e-9 * (double)facts->crop.width * facts->crop.height;
}

TEST(rows_follow_from_those_that_were_measured)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    struct sluice_sample_cost rows[N];
    struct sluice_sample_facts facts[N];
    bool is_measured[N];
    for (int i = 0; i < N; i++) {
        facts[i] = random_facts(&rng);
        is_measured[i] = sluice_cost_table_is_sampled((uint64_t)i, N, 80);
        rows[i] = (struct sluice_sample_cost){.bytes = {77}};
        if (is_measured[i])
            rows[i] =
                (struct sluice_sample_cost){.bytes = {facts[i].file_bytes, 1, 1, 1, 1, 1},
                                            .op_s = {1e-5, decode_s(&facts[i]), 1e-4, 0, 2e-5, 0},
                                            .width = facts[i].width,
                                            .height = facts[i].height};
    }
    /* One that could not be decoded says nothing of the others. */
    rows[4] = (struct sluice_sample_cost){.bytes = {9, 9, 9, 9, 9, 9}};
    is_measured[4] = true;
    struct sluice_cost_table table = {rows, N, SLUICE_TEST_SPLITS};
    sluice_cost_table_fill(&table, sluice_test_pipeline(), facts, is_measured);
    for (int i = 0; i < N; i++) {
        if (is_measured[i]) {
            CU_ASSERT_EQUAL(rows[i].bytes[1], i == 4 ? 9 : 1);
            continue;
        }
        CU_ASSERT_EQUAL(rows[i].bytes[0], facts[i].file_bytes);
        CU_ASSERT_EQUAL(rows[i].bytes[1], 3 * (uint64_t)facts[i].width * facts[i].height);
        CU_ASSERT_EQUAL(rows[i].bytes[2], 150528);
        CU_ASSERT_EQUAL(rows[i].bytes[5], 602112);
        CU_ASSERT_EQUAL(rows[i].width, facts[i].width);
        CU_ASSERT_EQUAL(rows[i].height, facts[i].height);
        CU_ASSERT_DOUBLE_EQUAL(rows[i].op_s[0], 1e-5, 1e-7);
        CU_ASSERT_DOUBLE_EQUAL(rows[i].op_s[1], decode_s(&facts[i]), 0.02 * decode_s(&facts[i]));
        CU_ASSERT_DOUBLE_EQUAL(rows[i].op_s[2], 1e-4, 1e-6);
        CU_ASSERT_EQUAL(rows[i].op_s[3], 0);
        CU_ASSERT_EQUAL(rows[i].op_s[5], 0);
    }
}
