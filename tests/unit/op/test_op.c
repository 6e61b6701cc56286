#include "op/op.h"

#include "support/test.h"

static struct sluice_spec_text text_at(const char *text)
{
    return (struct sluice_spec_text){
        .start = text, .at = text, .op = 3, .op_name = "hflip", .op_name_len = 5};
}

TEST(finds_each_op_by_its_whole_name)
{
    static const char *const names[] = {
        "decode", "random_resized_crop", "resize",    "center_crop",
        "hflip",  "to_tensor",           "normalize", "exif_transpose"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        const size_t len = strlen(names[i]);
        const struct sluice_op_type *type = sluice_op_type_find(names[i], len);
        CU_ASSERT(type && strcmp(type->name, names[i]) == 0);
        CU_ASSERT_PTR_NULL(sluice_op_type_find(names[i], len - 1));
    }
    CU_ASSERT_PTR_NULL(sluice_op_type_find("", 0));
    CU_ASSERT_PTR_NULL(sluice_op_type_find("hflips", 6));
}

TEST(an_error_names_op_and_position)
{
    struct sluice_spec_text text = text_at("abcdef");
    text.at += 4;
    struct sluice_err err = {{0}};
    CU_ASSERT_EQUAL(sluice_spec_fail(&text, &err, "no %s", "good"), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "pipeline: op 3 (hflip) at character 5: no good");
}

TEST(accept_moves_only_past_its_token)
{
    struct sluice_spec_text text = text_at("scale=1");
    CU_ASSERT_FALSE(sluice_spec_accept(&text, "ratio="));
    CU_ASSERT_FALSE(sluice_spec_accept(&text, "scale=12"));
    CU_ASSERT_STRING_EQUAL(text.at, "scale=1");
    CU_ASSERT_TRUE(sluice_spec_accept(&text, "scale="));
    CU_ASSERT_STRING_EQUAL(text.at, "1");
}

TEST(reads_sizes_within_their_limits)
{
    static const struct {
        const char *text;
        uint32_t size; /* 0: refused */
        const char *rest;
    } cases[] = {
        {"1", 1, ""},
        {"8192", 8192, ""},
        {"224:x", 224, ":x"},
        {"007", 7, ""},
        {"0", 0, "0"},
        {"8193", 0, "8193"},
        {"", 0, ""},
        {"-1", 0, "-1"},
        {" 1", 0, " 1"},
        {"18446744073709551617", 0, "18446744073709551617"},
        {"4294967297", 0, "4294967297"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_spec_text text = text_at(cases[i].text);
        uint32_t size = 77;
        const sluice_status status = sluice_spec_size(&text, &size, NULL);
        CU_ASSERT_EQUAL(status, cases[i].size ? SLUICE_OK : SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(size, cases[i].size ? cases[i].size : 77);
        CU_ASSERT_STRING_EQUAL(text.at, cases[i].rest);
    }
}

TEST(reads_plain_decimals_only)
{
    static const struct {
        const char *text;
        double number; /* below 0: refused */
        const char *rest;
    } cases[] = {
        {"0", 0, ""},
        {"0.08-1", 0.08, "-1"},
        {"1000000", 1e6, ""},
        {"0.0001", 1e-4, ""},
        {"3/4", 3, "/4"},
        {"0.1e5", 0.1, "e5"},
        {"1000001", -1, "1000001"},
        {"0.00009", -1, "0.00009"},
        {".5", -1, ".5"},
        {"5.", -1, "5."},
        {"1.2.3", -1, "1.2.3"},
        {"-1", -1, "-1"},
        {"inf", -1, "inf"},
        {"nan", -1, "nan"},
        {"", -1, ""},
        {"0.000000000000000000000000000000000000000000001", -1,
         "0.000000000000000000000000000000000000000000001"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_spec_text text = text_at(cases[i].text);
        double number = 77;
        const sluice_status status = sluice_spec_number(&text, &number, NULL);
        CU_ASSERT_EQUAL(status, cases[i].number >= 0 ? SLUICE_OK : SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(number, cases[i].number >= 0 ? cases[i].number : 77);
        CU_ASSERT_STRING_EQUAL(text.at, cases[i].rest);
    }
}

TEST(prints_the_shortest_decimal_that_reads_back)
{
    static const struct {
        double number;
        const char *text;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {0.08, "0.08"},
        {1e6, "1000000"},
        {1e-4, "0.0001"},
        {0.5, "0.5"},
        {4.0 / 3, "1.3333333333333333"},
        {0.1 + 0.2, "0.30000000000000004"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char text[32];
        sluice_print_number(cases[i].number, text, sizeof(text));
        CU_ASSERT_STRING_EQUAL(text, cases[i].text);
    }
    /* The longest there can be. */
    char text[32];
    sluice_print_number(0.00010000000000000003, text, sizeof(text));
    CU_ASSERT_EQUAL(strtod(text, NULL), 0.00010000000000000003);
}
