#include "op/op.h"

#include "support/test.h"

/* An op with a parameter of each kind that can have a preset. */
struct params {
    uint32_t size;
    double number;
    struct sluice_range range, ratios;
};

static const struct sluice_op_param param_list[] = {
    {.name = "size",
     .kind = SLUICE_PARAM_SIZE,
     .offset = offsetof(struct params, size),
     .form = "SIZE",
     .example = "9"},
    {.name = "number",
     .kind = SLUICE_PARAM_NUMBER,
     .offset = offsetof(struct params, number),
     .form = "N",
     .min = 2,
     .max = 3},
    {.name = "range",
     .kind = SLUICE_PARAM_RANGE,
     .offset = offsetof(struct params, range),
     .form = "MIN-MAX",
     .example = "0-1",
     .max = 1,
     .has_preset = true,
     .preset = {0.25, 0.5}},
    {.name = "ratios",
     .kind = SLUICE_PARAM_RATIOS,
     .offset = offsetof(struct params, ratios),
     .form = "MIN-MAX",
     .min = 0.1,
     .max = 10,
     .has_preset = true,
     .preset = {1, 2}},
    {0},
};

static const struct sluice_op_type type = {.name = "all",
                                           .kind = SLUICE_OP_TABLE,
                                           .params = param_list,
                                           .params_size = sizeof(struct params)};

static sluice_status read(const char *value, struct sluice_op *op, struct sluice_err *err)
{
    struct sluice_spec_text text = {
        .start = value, .at = value, .op_name = "all", .op_name_len = 3};
    *op = (struct sluice_op){.type = &type};
    return sluice_op_parse(op, &text, err);
}

TEST(prints_every_parameter_and_reads_it_back)
{
    static const struct {
        const char *text, *printed;
    } cases[] = {
        {"=7:number=2.5", "7:number=2.5:range=0.25-0.5:ratios=1-2"},
        {"=7:ratios=1/4-9/3:number=2:range=0-1", "7:number=2:range=0-1:ratios=0.25-3"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_op op, again;
        char printed[200], twice[202];
        REQUIRE_OK(read(cases[i].text, &op, NULL));
        sluice_op_print(&op, printed, sizeof(printed));
        CU_ASSERT_STRING_EQUAL(printed, cases[i].printed);
        snprintf(twice, sizeof(twice), "=%s", printed);
        REQUIRE_OK(read(twice, &again, NULL));
        sluice_op_print(&again, twice, sizeof(twice));
        CU_ASSERT_STRING_EQUAL(twice, printed);
        sluice_op_clear(&op);
        sluice_op_clear(&op);
        sluice_op_clear(&again);
    }
}

TEST(says_which_parameter_is_wrong)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "'=SIZE' is wanted here"},
        {"=7", "':number=N' is wanted here"},
        {"=7:number=1", "number is at least 2"},
        {"=7:number=4", "number is at most 3"},
        {"=7:number=2:number=2", "each once, is wanted here"},
        {"=7:number=2:size=3", "number=N or range=MIN-MAX or ratios=MIN-MAX, each once"},
        {"=7:number=2:rang=0-1", "did you mean range?"},
        {"=7:number=2:range=0-2", "a bound of range lies from 0 to 1"},
        {"=7:number=2:range=1/2-1", "'-' is wanted between two bounds"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_op op;
        struct sluice_err err = {{0}};
        CU_ASSERT_EQUAL(read(cases[i].text, &op, &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(op.params);
        if (!strstr(err.text, cases[i].why))
            printf("'%s' gave '%s'\n", cases[i].text, err.text);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, cases[i].why));
    }
}

TEST(an_op_without_parameters_takes_no_value)
{
    static const struct sluice_op_type bare = {.name = "bare", .kind = SLUICE_OP_TABLE};
    struct sluice_op op = {.type = &bare};
    struct sluice_spec_text text = {.start = "=1", .at = "=1", .op_name = "bare", .op_name_len = 4};
    char printed[8] = "x";
    CU_ASSERT_EQUAL(sluice_op_parse(&op, &text, NULL), SLUICE_E_INVALID);
    sluice_op_print(&op, printed, sizeof(printed));
    CU_ASSERT_STRING_EQUAL(printed, "");
}

TEST(examples_come_from_the_parameters)
{
    char example[80];
    sluice_op_print_example(&type, example, sizeof(example));
    CU_ASSERT_STRING_EQUAL(example, "=9:range=0-1");
}
