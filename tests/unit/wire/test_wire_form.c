#include "wire/wire_internal.h"

#include "support/test.h"

TEST(every_form_has_a_number_of_its_own)
{
    for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
        enum sluice_form back = SLUICE_NUM_FORMS;
        const Sluice__V1__Form number = sluice_wire_form_to_wire((enum sluice_form)form);
        CU_ASSERT(sluice_wire_form_from_wire((uint64_t)number, &back));
        CU_ASSERT_EQUAL((int)back, form);
    }
}

/* They are on the wire between versions, and never change. */
TEST(the_numbers_are_these)
{
    static const struct {
        enum sluice_form form;
        int number;
        const char *name;
    } pairs[] = {{SLUICE_FORM_RAW, 0, "FORM_RAW"}, {SLUICE_FORM_JPEG_CROP, 1, "FORM_JPEG_CROP"},
                 {SLUICE_FORM_U8, 2, "FORM_U8"},   {SLUICE_FORM_U8_PACKED, 3, "FORM_U8_PACKED"},
                 {SLUICE_FORM_F32, 4, "FORM_F32"}, {SLUICE_FORM_JPEG_ROWS, 7, "FORM_JPEG_ROWS"}};
    CU_ASSERT_EQUAL(SLUICE_ARRAY_LEN(pairs), SLUICE_NUM_FORMS);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(pairs); i++) {
        const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(
            &sluice__v1__form__descriptor, pairs[i].name);
        CU_ASSERT_PTR_NOT_NULL_FATAL(value);
        CU_ASSERT_EQUAL(value->value, pairs[i].number);
        CU_ASSERT_EQUAL((int)sluice_wire_form_to_wire(pairs[i].form), pairs[i].number);
    }
}

TEST(what_is_no_form_of_a_sample_is_said_to_be_so)
{
    static const uint64_t numbers[] = {SLUICE__V1__FORM__FORM_JPEG_CROP_RESTART,
                                       SLUICE__V1__FORM__FORM_LISTED_ID, 8, 1ull << 32, UINT64_MAX};
    enum sluice_form form = SLUICE_FORM_U8;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++)
        CU_ASSERT_FALSE(sluice_wire_form_from_wire(numbers[i], &form));
    CU_ASSERT_EQUAL(form, SLUICE_FORM_U8);
}
