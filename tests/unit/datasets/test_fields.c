#include "datasets/list/fields.h"

#include "support/test.h"

static const struct sluice_fields three = {.num = 3,
                                           .of = {{{SLUICE_FIELD_TEXT, 0}, "caption"},
                                                  {{SLUICE_FIELD_BOXES, 0}, "boxes"},
                                                  {{SLUICE_FIELD_KEYPOINTS, 2}, "a b"}}};

TEST(the_description_comes_back)
{
    char text[SLUICE_FIELDS_TEXT];
    struct sluice_fields got;
    sluice_fields_print(&three, text);
    CU_ASSERT_STRING_EQUAL(text, "caption\ttext\t0\nboxes\tboxes\t0\na b\tkeypoints\t2\n");
    CU_ASSERT_FATAL(sluice_fields_parse(text, &got));
    CU_ASSERT(sluice_fields_are_same(&got, &three));
    CU_ASSERT_FATAL(sluice_fields_parse("", &got));
    CU_ASSERT_EQUAL(got.num, 0);
}

TEST(the_longest_description_has_room)
{
    char text[SLUICE_FIELDS_TEXT];
    struct sluice_fields most = {.num = SLUICE_MAX_FIELDS}, got;
    for (unsigned i = 0; i < most.num; i++) {
        memset(most.of[i].name, 'a' + (int)i, SLUICE_FIELD_NAME - 1);
        most.of[i].type = (struct sluice_field_type){SLUICE_FIELD_KEYPOINTS, SLUICE_MAX_KEYPOINTS};
    }
    CU_ASSERT_PTR_NULL(sluice_fields_flaw(&most));
    sluice_fields_print(&most, text);
    CU_ASSERT_FATAL(sluice_fields_parse(text, &got));
    CU_ASSERT(sluice_fields_are_same(&got, &most));
}

TEST(wrong_descriptions_are_refused)
{
    static const char *const wrong[] = {
        "a\ttext\t0",                        /* no newline */
        "a\ttext\n",                         /* no dimension */
        "a\ttext\t1\n",                      /* text of a dimension */
        "a\tvector\t0\n",                    /* vector of none */
        "a\tvector\t-1\n",                   /* */
        "a\tvector\t99999999999\n",          /* */
        "a\tvector\t262145\n",               /* more than 1 MiB */
        "a\tnone\t0\n",                      /* */
        "a\tpixels\t0\n",                    /* */
        "\ttext\t0\n",                       /* no name */
        "a\x01\ttext\t0\n",                  /* */
        "a\xff\ttext\t0\n",                  /* */
        "a\ttext\t0\na\tbytes\t0\n",         /* twice */
        "a\ttext\t0\nb\ttext\t0\nc\ttext\t", /* */
    };
    struct sluice_fields got = three;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++)
        CU_ASSERT(!sluice_fields_parse(wrong[i], &got));
    char text[17 * 16] = "", line[16];
    for (int i = 0; i < 17; i++) {
        snprintf(line, sizeof(line), "f%d\ttext\t0\n", i);
        strcat(text, line);
    }
    CU_ASSERT(!sluice_fields_parse(text, &got));
    CU_ASSERT(sluice_fields_are_same(&got, &three)); /* untouched */
}

TEST(values_of_several_fields_are_packed_and_found)
{
    const float boxes[] = {1, 2, 3, 4, 0}, points[] = {1, 2, 0, 3, 4, 2};
    const struct sluice_field_value values[] = {{"a cat", 5}, {boxes, 20}, {points, 24}};
    uint32_t room[32];
    memset(room, 0xff, sizeof(room));
    const size_t bytes = sluice_fields_pack(3, values, NULL);
    CU_ASSERT_EQUAL(bytes, 12 + 8 + 20 + 24);
    CU_ASSERT_EQUAL(sluice_fields_pack(3, values, room), bytes);
    CU_ASSERT_PTR_NULL(sluice_fields_values_flaw(&three, room, bytes));
    for (unsigned i = 0; i < 3; i++) {
        const struct sluice_field_value got = sluice_fields_value(&three, i, room, bytes);
        CU_ASSERT_EQUAL_FATAL(got.bytes, values[i].bytes);
        CU_ASSERT(memcmp(got.at, values[i].at, got.bytes) == 0);
        CU_ASSERT_EQUAL((uintptr_t)got.at % 4, 0);
    }
    CU_ASSERT_PTR_NULL(sluice_fields_value(&three, 3, room, bytes).at);
    CU_ASSERT_PTR_NULL(sluice_fields_value(&three, 0, NULL, 0).at);
}

TEST(damaged_values_are_told)
{
    const struct sluice_field_value values[] = {{"a cat", 5}, {NULL, 0}, {NULL, 0}};
    uint32_t room[8];
    const size_t bytes = sluice_fields_pack(3, values, room);
    CU_ASSERT_EQUAL(bytes, 20);
    CU_ASSERT_PTR_NULL(sluice_fields_values_flaw(&three, room, bytes));
    CU_ASSERT_PTR_NOT_NULL(sluice_fields_values_flaw(&three, NULL, 0));
    for (size_t cut = 0; cut < bytes; cut++)
        CU_ASSERT_PTR_NOT_NULL(sluice_fields_values_flaw(&three, room, cut));
    CU_ASSERT_PTR_NOT_NULL(sluice_fields_values_flaw(&three, room, bytes + 4));
    const uint32_t wrong[] = {6, 9, 0xffffffff, 0xfffffffd, 0};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        room[0] = wrong[i];
        CU_ASSERT_PTR_NOT_NULL(sluice_fields_values_flaw(&three, room, bytes));
    }
    room[0] = 5;
    room[1] = 20;
    CU_ASSERT_PTR_NOT_NULL(sluice_fields_values_flaw(&three, room, bytes));
}

TEST(the_value_of_one_field_is_the_block)
{
    const struct sluice_fields one = {.num = 1, .of = {{{SLUICE_FIELD_BYTES, 0}, "x"}}};
    const struct sluice_field_value value = {"abc", 3};
    char room[3];
    CU_ASSERT_EQUAL(sluice_fields_pack(1, &value, room), 3);
    const struct sluice_field_value got = sluice_fields_value(&one, 0, room, 3);
    CU_ASSERT(got.at == room && got.bytes == 3);
}

TEST(tells_what_programs_with_one_target_can_use)
{
    const struct sluice_fields none = {.num = 0}, vector = {1, {{{SLUICE_FIELD_VECTOR, 1}, "y"}}},
                               target = {1, {{{SLUICE_FIELD_VECTOR, 1}, "target"}}},
                               other = {1, {{{SLUICE_FIELD_VECTOR, 2}, "target"}}},
                               text = {1, {{{SLUICE_FIELD_TEXT, 0}, "target"}}};
    CU_ASSERT(sluice_fields_are_plain(&none) && sluice_fields_are_plain(&vector));
    CU_ASSERT(!sluice_fields_are_plain(&text) && !sluice_fields_are_plain(&three));
    CU_ASSERT(sluice_fields_have_known_name(&target) && !sluice_fields_have_known_name(&vector));
    CU_ASSERT(sluice_fields_are_alike(&vector, &target));
    CU_ASSERT(!sluice_fields_are_alike(&vector, &other));
    CU_ASSERT(!sluice_fields_are_alike(&text, &target));
    CU_ASSERT(!sluice_fields_are_same(&vector, &target));
    char words[SLUICE_FIELDS_WORDS];
    CU_ASSERT_STRING_EQUAL(sluice_fields_words(&vector, words), "vectors of 1 float32");
    CU_ASSERT_STRING_EQUAL(sluice_fields_words(&none, words), "no targets");
    CU_ASSERT_STRING_EQUAL(sluice_fields_words(&three, words),
                           "caption (text), boxes (boxes), a b (keypoints, 2 of each object)");
}

int main(void)
{
    return sluice_test_main();
}
