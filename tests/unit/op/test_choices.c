#include "op/pixels.h"

#include "run_support.h"
#include "support/test.h"

#include <math.h>

/* --- text --- */

TEST(the_canonical_text_parses_to_itself)
{
    static const struct {
        const char *text, *canonical;
    } cases[] = {
        {"decode,invert:p=0.25", "decode,invert:p=0.25"},
        {"decode,invert:p=1", "decode,invert"},
        {"decode,resize=9:filter=bilinear", "decode,resize=9"},
        {"decode,resize=9:filter=random", "decode,resize=9:filter=random"},
        {"decode,resize=9:filter=nearest", "decode,resize=9:filter=nearest"},
        {"decode,resize=9:filter=cubic", NULL},
        {"decode,solarize", "decode,solarize=128"},
        {"decode,hue=-0.1-0.1", "decode,hue=-0.1-0.1"},
        {"decode,hue=-0.30--0.1:p=.5", NULL},
        {"decode,brightness=0.50", "decode,brightness=0.5"},
        {"decode,solarize_add=43:threshold=100:p=0.5",
         "decode,solarize_add=43:threshold=100:p=0.5"},
        {"decode,solarize_add:add=43", NULL},
        {"decode,one_of(invert,equalize:weight=2.50):p=0.5",
         "decode,one_of(invert,equalize:weight=2.5):p=0.5"},
        {"decode,k_of(2,invert,equalize)", "decode,k_of(2:replace=0,invert,equalize)"},
        {"decode,brightness=1~0.9", "decode,brightness=1~0.9"},
        {"decode,shear_x=~0-0.30/31", "decode,shear_x=~0-0.3/31:filter=nearest:fill=0"},
        {"decode,rotate=~normal(20,1.5,0,30):fill=1/2/3:filter=random:p=.5", NULL},
        {"decode,rotate=~normal(20,1.5,0,30):fill=1/2/3:filter=random",
         "decode,rotate=~normal(20,1.5,0,30):filter=random:fill=1/2/3"},
        {"decode,translate_x=5:unit=pixel:fill=7",
         "decode,translate_x=5:unit=pixel:filter=nearest:fill=7"},
        {"decode,trivial_augment_wide", "decode,trivial_augment_wide=nearest:fill=0"},
        {"decode,randaugment=2:p=0.5",
         "decode,randaugment=2:magnitude=9:bins=31:filter=nearest:fill=0:p=0.5"},
        {"decode,when(epoch>=71,invert)", "decode,when(epoch>=71,invert)"},
        {"decode,when(0<=epoch<3,invert,equalize):p=0.5",
         "decode,when(epoch<3,invert,equalize):p=0.5"},
        {"decode,when(7<=epoch<9,one_of(invert))", "decode,when(7<=epoch<9,one_of(invert))"},
        {"decode,shuffled(one_of(invert,shuffled(equalize)))",
         "decode,shuffled(one_of(invert,shuffled(equalize)))"},
        {"decode,center_crop=8:draws=255,hflip:draws=3,invert:draws=1:p=0.5",
         "decode,center_crop=8:draws=255,hflip=0.5:draws=3,invert:p=0.5:draws=1"},
        {"decode,one_of(invert:draws=4,equalize:weight=2):draws=5",
         "decode,one_of(invert:draws=4,equalize:weight=2):draws=5"},
        {"decode,hflip:draws=0", NULL},
        {"decode,hflip:draws=256", NULL},
        {"decode,to_tensor:draws=1", NULL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL, *again = NULL;
        struct sluice_err err = {{0}};
        const sluice_status status = sluice_pipeline_parse(cases[i].text, &pipeline, &err);
        CU_ASSERT_EQUAL(status, cases[i].canonical ? SLUICE_OK : SLUICE_E_INVALID);
        if (status != SLUICE_OK) {
            if (cases[i].canonical)
                printf("%s: %s\n", cases[i].text, err.text);
            continue;
        }
        CU_ASSERT_STRING_EQUAL(sluice_pipeline_spec(pipeline), cases[i].canonical);
        REQUIRE_OK(sluice_pipeline_parse(sluice_pipeline_spec(pipeline), &again, NULL));
        CU_ASSERT_EQUAL(sluice_pipeline_fingerprint(again), sluice_pipeline_fingerprint(pipeline));
        sluice_pipeline_destroy(again);
        sluice_pipeline_destroy(pipeline);
    }
}

TEST(what_is_wrong_is_said_where_it_is)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"decode,one_of", "op 2 (one_of) at character 14: '(' and ops are wanted here"},
        {"decode,one_of()", "op 3 () at character 15: there is no such op"},
        {"decode,one_of(invert", "',' or ')' is wanted here"},
        {"decode,one_of(invert,hflip)", "op 4 (hflip) at character 22: only ops that keep"},
        {"decode,one_of(invert,decode)", "may stand in parentheses"},
        {"decode,one_of(invert,equalise)", "did you mean equalize?"},
        {"decode,one_of(invert):q=1", "p=P, weight=W or draws=N is wanted here"},
        {"decode,one_of(invert):draws=a",
         "op 2 (one_of) at character 29: draws is a number from 1 to 255"},
        {"decode,invert:p=1.5", "p is at most 1"},
        {"decode,hflip:p=0.5", "nothing more belongs here"},
        {"decode,k_of(invert)", "a size from 1"},
        {"decode,k_of(3,invert,equalize)", "op 2 (k_of) at character 31: fewer ops stand here"},
        {"decode,k_of(2:replace=0.5,invert)", "replace is 0 or 1"},
        {"decode,k_of(40:replace=1,invert)", "at most 32 ops can be drawn"},
        {"decode,k_of(32:replace=1,k_of(3:replace=1,invert))", "more than 64 ops"},
        {"decode,when(invert)", "op 2 (when) at character 13: epoch>=N, epoch<N or A<=epoch<B"},
        {"decode,when(epoch>=1.5,invert)", "an epoch is a whole number"},
        {"decode,when(3<=epoch,invert)", "epoch>=N, epoch<N or A<=epoch<B is wanted here"},
        {"decode,when(3<=epoch<3,invert)", "at character 13: no epoch is in this range"},
        {"decode,when(epoch<0,invert)", "no epoch is in this range"},
        {"decode,when(epoch<1)", "',' and ops are wanted here"},
        {"decode,random_crop=8:padding=4:mode=edge", "is to be below half of the size"},
        {"decode,hue=0.6", "shift lies from -0.5 to 0.5"},
        {"decode,brightness=-1", "a number such as 0.08 is wanted here"},
        {"decode,brightness=2-1", "the lower bound is above the upper one"},
        {"decode,brightness=1~2", "factor lies from 0 to 100"},
        {"decode,brightness=1~", "a number such as 0.08 is wanted here"},
        {"decode,hue=0-0.1/1", "at least 2 numbers are wanted here"},
        {"decode,hue=normal(0,0,0,0.1)", "the deviation is above 0"},
        {"decode,hue=normal(0,0.1,0.1)", "normal(MEAN,DEVIATION,A,B) is wanted here"},
        {"decode,rotate=3:filter=bilinaer", "did you mean bilinear?"},
        {"decode,rotate=3:fill=256", "fill has whole numbers from 0 to 255"},
        {"decode,rotate=3:fill=2/3", "R/G/B is wanted here"},
        {"decode,randaugment=2:magnitude=31", "the magnitude is the number of a bin"},
        {"decode,randaugment=33", "at most 32 ops can be drawn"},
        {"decode,rand_augment_timm=9:increasing=2", "increasing is at most 1"},
        {"decode,one_of(one_of(one_of(one_of(one_of(one_of(one_of(one_of(one_of(invert)))))))))",
         "parentheses are at most 8 deep"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_pipeline *pipeline = NULL;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(sluice_pipeline_parse(cases[i].text, &pipeline, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].words));
        if (!strstr(err.text, cases[i].words))
            printf("'%s' gave '%s'\n", cases[i].text, err.text);
    }
}

/* --- schedules --- */

TEST(when_runs_in_its_epochs_alone)
{
    struct sluice_pipeline *plain = run_test_parse("decode,one_of(invert,sequence(grayscale))");
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,when(epoch<2,invert),one_of(when(2<=epoch<5,equalize,grayscale)),"
                       "when(epoch>=4,vflip:p=0.5)");
    CU_ASSERT_FALSE(sluice_pipeline_has_schedule(plain));
    CU_ASSERT(sluice_pipeline_has_schedule(pipeline));
    for (uint32_t epoch = 0; epoch < 8; epoch++) {
        unsigned most = 0, least = 9;
        for (uint64_t id = 0; id < 50; id++) {
            struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
            /* Samples that repeat draw by more epochs than those of the training. */
            const struct sluice_draw_key key = {
                .seed = 5, .epoch = 3 * epoch + 1, .sample_id = id, .schedule = epoch};
            const unsigned num = sluice_pixels_resolve(pipeline->ops + 1, pipeline->num_ops - 1,
                                                       &key, (struct sluice_size){8, 8}, list);
            most = num > most ? num : most;
            least = num < least ? num : least;
        }
        CU_ASSERT_EQUAL(least, (epoch < 2) + 2 * (epoch >= 2 && epoch < 5));
        CU_ASSERT_EQUAL(most, least + (epoch >= 4));
    }
    sluice_pipeline_destroy(plain);
    sluice_pipeline_destroy(pipeline);
}

/* --- draws --- */

#define NUM_SAMPLES 4000

/* Chi-square of counts against expected parts of NUM_SAMPLES. */
static double chi_square(const unsigned *counts, const double *parts, size_t num)
{
    double sum = 0;
    for (size_t i = 0; i < num; i++) {
        const double expected = parts[i] * NUM_SAMPLES;
        sum += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    return sum;
}

static unsigned resolve(const struct sluice_pipeline *pipeline, uint64_t id,
                        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS])
{
    const struct sluice_draw_key key = {.seed = 5, .epoch = 2, .sample_id = id};
    return sluice_pixels_resolve(pipeline->ops + 1, pipeline->num_ops - 1, &key,
                                 (struct sluice_size){8, 8}, list);
}

TEST(one_of_draws_by_weight)
{
    static const double parts[3] = {0.1, 0.2, 0.7};
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,one_of(invert,equalize:weight=2,grayscale:weight=7)");
    unsigned counts[3] = {0};
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 1);
        counts[list[0].op - pipeline->ops[1].children]++;
    }
    CU_ASSERT(chi_square(counts, parts, 3) < 13.8); /* 2 degrees: one in a thousand */
    sluice_pipeline_destroy(pipeline);
}

TEST(an_op_runs_with_its_probability)
{
    static const double parts[2] = {0.3, 0.7};
    struct sluice_pipeline *pipeline = run_test_parse("decode,invert:p=0.3");
    unsigned counts[2] = {0};
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        counts[resolve(pipeline, id, list) == 0]++;
    }
    CU_ASSERT(chi_square(counts, parts, 2) < 10.8);
    sluice_pipeline_destroy(pipeline);
}

TEST(k_of_takes_each_once_and_all_pairs_alike)
{
    double parts[6];
    for (int i = 0; i < 6; i++)
        parts[i] = 1.0 / 6;
    struct sluice_pipeline *pipeline = run_test_parse("decode,k_of(2,invert,equalize,grayscale)");
    unsigned counts[9] = {0}, pairs[6], num = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 2);
        const struct sluice_op *first = pipeline->ops[1].children;
        counts[(list[0].op - first) * 3 + (list[1].op - first)]++;
    }
    for (int i = 0; i < 9; i++) {
        if (i % 4 == 0) {
            CU_ASSERT_EQUAL(counts[i], 0);
        } else {
            pairs[num++] = counts[i];
        }
    }
    CU_ASSERT(chi_square(pairs, parts, 6) < 20.5); /* 5 degrees */
    sluice_pipeline_destroy(pipeline);
}

TEST(shuffled_gives_every_order)
{
    double parts[6];
    for (int i = 0; i < 6; i++)
        parts[i] = 1.0 / 6;
    struct sluice_pipeline *pipeline = run_test_parse("decode,shuffled(invert,equalize,grayscale)");
    unsigned counts[6] = {0};
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 3);
        const struct sluice_op *first = pipeline->ops[1].children;
        const unsigned a = (unsigned)(list[0].op - first), b = (unsigned)(list[1].op - first);
        CU_ASSERT(a != b);
        counts[a * 2 + (b > a ? b - 1 : b)]++;
    }
    CU_ASSERT(chi_square(counts, parts, 6) < 20.5);
    sluice_pipeline_destroy(pipeline);
}

TEST(an_op_that_comes_twice_draws_twice)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,k_of(2:replace=1,brightness=0.5-1.5)");
    double sum = 0, squares = 0, product = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 2);
        const double a = list[0].drawn.values[0] - 1, b = list[1].drawn.values[0] - 1;
        CU_ASSERT(a >= -0.5 && a < 0.5 && b >= -0.5 && b < 0.5);
        sum += a + b;
        squares += a * a + b * b;
        product += a * b;
    }
    CU_ASSERT(fabs(sum / (2 * NUM_SAMPLES)) < 0.015);                /* of a mean of 0 */
    CU_ASSERT(fabs(squares / (2 * NUM_SAMPLES) - 1.0 / 12) < 0.004); /* a uniform's variance */
    CU_ASSERT(fabs(product / NUM_SAMPLES) < 0.006);                  /* independent */
    sluice_pipeline_destroy(pipeline);
}

/* Also where choices that may repeat stand in each other. */
TEST(all_turns_draw_apart)
{
    struct sluice_pipeline *pipeline = run_test_parse(
        "decode,k_of(2:replace=1,k_of(4:replace=1,k_of(4:replace=1,brightness=0-9)))");
    for (uint64_t id = 0; id < 50; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 32);
        unsigned same = 0;
        for (unsigned i = 0; i < 32; i++) {
            for (unsigned k = 0; k < i; k++)
                same += list[i].drawn.values[0] == list[k].drawn.values[0];
        }
        CU_ASSERT_EQUAL(same, 0);
    }
    sluice_pipeline_destroy(pipeline);
}

/* Adding an op behind others, or into a choice behind them, changes no draw of theirs. */
TEST(draws_depend_on_the_place_in_the_text_alone)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,brightness=0-9,hue=-0.5-0.5");
    struct sluice_pipeline *longer =
        run_test_parse("decode,brightness=0-9,hue=-0.5-0.5,one_of(invert,solarize=0-256)");
    for (uint64_t id = 0; id < 20; id++) {
        struct sluice_drawn_op one[SLUICE_MAX_DRAWN_OPS], two[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, one), 2);
        CU_ASSERT_EQUAL_FATAL(resolve(longer, id, two), 3);
        CU_ASSERT_EQUAL(one[0].drawn.values[0], two[0].drawn.values[0]);
        CU_ASSERT_EQUAL(one[1].drawn.values[0], two[1].drawn.values[0]);
    }
    sluice_pipeline_destroy(longer);
    sluice_pipeline_destroy(pipeline);
}

/* Wherever they stand, also those in their parentheses; other ops keep their own. */
TEST(ops_with_the_same_number_share_their_draws)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,random_resized_crop=8:draws=1,random_resized_crop=9,"
                       "random_resized_crop=10:draws=1,hue=-0.5-0.5,"
                       "shuffled(brightness=0-9,contrast=0-9,hue=-0.5-0.5):draws=2,"
                       "shuffled(brightness=0-9,contrast=0-9,hue=-0.5-0.5):draws=2,"
                       "shuffled(brightness=0-9,contrast=0-9,hue=-0.5-0.5)");
    unsigned num_orders = 0;
    for (uint64_t id = 0; id < 20; id++) {
        const struct sluice_box first = run_test_draw(pipeline, 1, id, 500, 400).resample.from,
                                own = run_test_draw(pipeline, 2, id, 500, 400).resample.from,
                                shared = run_test_draw(pipeline, 3, id, 500, 400).resample.from;
        CU_ASSERT(memcmp(&first, &shared, sizeof(first)) == 0);
        CU_ASSERT(memcmp(&first, &own, sizeof(first)) != 0);

        const struct sluice_draw_key key = {.sample_id = id};
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const struct sluice_size size = {8, 8};
        CU_ASSERT_EQUAL_FATAL(sluice_pixels_resolve(pipeline->ops + 4, 4, &key, size, list), 10);
        for (unsigned i = 1; i <= 3; i++) {
            CU_ASSERT_PTR_EQUAL(list[i].op->type, list[i + 3].op->type);
            CU_ASSERT_EQUAL(list[i].drawn.values[0], list[i + 3].drawn.values[0]);
            CU_ASSERT_NOT_EQUAL(list[i].drawn.values[0], list[i + 6].drawn.values[0]);
            num_orders += list[i].op->type != list[i + 6].op->type;
        }
    }
    CU_ASSERT(num_orders > 0);
    sluice_pipeline_destroy(pipeline);
}

TEST(numbers_have_their_distribution)
{
    struct sluice_pipeline *pipeline = run_test_parse(
        "decode,brightness=1~0.9,brightness=0-1/5,brightness=normal(2,0.5,1.5,9),posterize=3-6");
    static const double halves[2] = {0.5, 0.5}, fifths[5] = {0.2, 0.2, 0.2, 0.2, 0.2};
    static const double quarters[4] = {0.25, 0.25, 0.25, 0.25};
    unsigned signs[2] = {0}, steps[5] = {0}, bits[4] = {0}, clipped = 0;
    double sum = 0;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 4);
        const double sign = list[0].drawn.values[0], step = list[1].drawn.values[0] * 4;
        CU_ASSERT(fabs(sign - 1.9) < 1e-12 || fabs(sign - 0.1) < 1e-12);
        signs[sign > 1]++;
        CU_ASSERT_EQUAL_FATAL(step, (unsigned)step);
        steps[(unsigned)step]++;
        clipped += list[2].drawn.values[0] == 1.5;
        sum += list[2].drawn.values[0];
        bits[(unsigned)list[3].drawn.values[0] - 3]++;
    }
    CU_ASSERT(chi_square(signs, halves, 2) < 10.8);
    CU_ASSERT(chi_square(steps, fifths, 5) < 18.5);
    CU_ASSERT(chi_square(bits, quarters, 4) < 16.3);
    /* One deviation below the mean is 0.1587; the mean of what is clipped there is 2 + 0.0833 / 2.
     */
    CU_ASSERT(fabs(clipped / (double)NUM_SAMPLES - 0.1587) < 0.02);
    CU_ASSERT(fabs(sum / NUM_SAMPLES - 2.0417) < 0.03);
    sluice_pipeline_destroy(pipeline);
}

/* The ops of a policy come uniformly, and with the parameters of the original's table. */
TEST(randaugment_is_torchvisions)
{
    struct sluice_pipeline *pipeline = run_test_parse("decode,randaugment=1:magnitude=15");
    const struct sluice_op *ops = pipeline->ops[1].children;
    CU_ASSERT_EQUAL_FATAL(pipeline->ops[1].num_children, 14);
    double parts[14];
    unsigned counts[14] = {0};
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        const unsigned num = resolve(pipeline, id, list); /* identity is not in the list */
        const size_t op = num ? (size_t)(list[0].op - ops) : 0;
        const double *values = list[0].drawn.values;
        counts[op]++;
        const double want[14] = {0, 0.15, 0.15, 1, 1, 0, 0.45, 0.45, 0.45, 0.45, 6, 127.5, 0, 0};
        if (op == 1)
            CU_ASSERT(fabs(fabs(values[1]) - want[op]) < 1e-8);
        if (op == 3) /* int(8 * 150 / 331 / 2) pixels */
            CU_ASSERT_EQUAL(fabs(values[2]), 1);
        if (op >= 6 && op <= 9)
            CU_ASSERT(fabs(fabs(values[0] - 1) - want[op]) < 1e-8);
        if (op == 10 || op == 11)
            CU_ASSERT(fabs(values[0] - want[op]) < 1e-8);
    }
    for (int i = 0; i < 14; i++)
        parts[i] = 1.0 / 14;
    CU_ASSERT(chi_square(counts, parts, 14) < 34.5); /* 13 degrees */
    sluice_pipeline_destroy(pipeline);
}

TEST(rand_augment_timm_is_timms)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,rand_augment_timm=5:mstd=0:increasing=1:num_ops=1:prob=1");
    const struct sluice_op *ops = pipeline->ops[1].children;
    CU_ASSERT_EQUAL_FATAL(pipeline->ops[1].num_children, 15);
    /* timm's level_to_arg functions at level 5. */
    static const struct {
        const char *name;
        unsigned value;
        double about, by;
    } cases[] = {
        {"posterize", 0, 2, 0},  {"solarize", 0, 128, 0},    {"solarize_add", 0, 55, 0},
        {"color", 0, 1, 0.45},   {"brightness", 0, 1, 0.45}, {"shear_x", 1, 0, 0.15},
        {"shear_y", 3, 0, 0.15}, {"translate_x", 2, 0, 1.8}, {"translate_y", 5, 0, 1.8},
    };
    unsigned seen = 0, counts[15] = {0};
    double parts[15];
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 1);
        counts[list[0].op - ops]++;
        for (unsigned i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
            if (strcmp(list[0].op->type->name, cases[i].name) != 0)
                continue;
            seen |= 1u << i;
            const double value = list[0].drawn.values[cases[i].value];
            CU_ASSERT(fabs(fabs(value - cases[i].about) - cases[i].by) < 1e-6);
        }
    }
    CU_ASSERT_EQUAL(seen, (1u << SLUICE_ARRAY_LEN(cases)) - 1);
    for (int i = 0; i < 15; i++)
        parts[i] = 1.0 / 15;
    CU_ASSERT(chi_square(counts, parts, 15) < 36.1); /* 14 degrees */
    sluice_pipeline_destroy(pipeline);
}

TEST(rand_augment_timm_truncates_the_threshold_of_solarize)
{
    struct sluice_pipeline *pipeline =
        run_test_parse("decode,rand_augment_timm=9:mstd=0:num_ops=1:prob=1");
    bool is_seen = false;
    for (uint64_t id = 0; id < NUM_SAMPLES; id++) {
        struct sluice_drawn_op list[SLUICE_MAX_DRAWN_OPS];
        CU_ASSERT_EQUAL_FATAL(resolve(pipeline, id, list), 1);
        if (strcmp(list[0].op->type->name, "solarize") != 0)
            continue;
        is_seen = true;
        CU_ASSERT_EQUAL(list[0].drawn.values[0], 230); /* int(9 / 10 * 256) */
    }
    CU_ASSERT(is_seen);
    sluice_pipeline_destroy(pipeline);
}

/* --- pixels --- */

/* Tables that are composed give what they give one by one. */
TEST(a_chain_is_its_ops_one_after_the_other)
{
    static const char *const ops[] = {
        "contrast=1.7", "equalize", "brightness=0.6", "autocontrast", "color=1.8", "posterize=3",
        "contrast=0.4", "invert",   "sharpness=1.9",  "pil_blur=1.2", "equalize",  "solarize=90",
    };
    char spec[512] = "decode";
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(ops); i++) {
        strcat(spec, ",");
        strcat(spec, ops[i]);
    }
    struct sluice_pipeline *pipeline = run_test_parse(spec);
    struct sluice_scratch *scratch = run_test_scratch(NULL);
    const struct sluice_scratch_options each = {.measure_ops = true};
    struct sluice_scratch *apart = run_test_scratch(&each);
    struct sluice_buf *file = run_test_file(31, 23);
    struct sluice_sample all = run_test_sample(file, 1), one = run_test_sample(file, 1);
    const unsigned end = sluice_pipeline_num_ops(pipeline);
    REQUIRE_OK(sluice_pipeline_run(pipeline, scratch, &all, end, NULL));
    for (unsigned op = 1; op <= end; op++)
        REQUIRE_OK(sluice_pipeline_run(pipeline, apart, &one, op, NULL));
    CU_ASSERT_EQUAL(all.data->len, one.data->len);
    CU_ASSERT(memcmp(all.data->data, one.data->data, all.data->len) == 0);
    sluice_sample_clear(&all);
    sluice_sample_clear(&one);
    sluice_buf_unref(file);
    sluice_scratch_destroy(apart);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}
