#include "wire/wire_internal.h"

#include "support/test.h"

TEST(every_status_has_a_number_of_its_own)
{
    for (int status = SLUICE_OK; status < SLUICE_NUM_STATUS; status++) {
        const int64_t number = sluice_wire_status_to_wire((sluice_status)status);
        sluice_status back = SLUICE_OK;
        CU_ASSERT(sluice_wire_status_from_wire(number, &back));
        CU_ASSERT_EQUAL((int)back, status);
        CU_ASSERT_PTR_NOT_NULL(protobuf_c_enum_descriptor_get_value(
            &sluice__v1__sample_status__descriptor, (int)number));
    }
    CU_ASSERT_EQUAL(sluice__v1__sample_status__descriptor.n_values, SLUICE_NUM_STATUS);
}

TEST(the_names_mean_the_same_on_both_sides)
{
    static const struct {
        sluice_status status;
        const char *name;
    } pairs[] = {{SLUICE_OK, "SAMPLE_OK"},
                 {SLUICE_E_INVALID, "SAMPLE_INVALID"},
                 {SLUICE_E_CORRUPT, "SAMPLE_CORRUPT"},
                 {SLUICE_E_UNSUPPORTED, "SAMPLE_UNSUPPORTED"},
                 {SLUICE_E_NOT_FOUND, "SAMPLE_NOT_FOUND"},
                 {SLUICE_E_IO, "SAMPLE_IO"},
                 {SLUICE_E_NO_MEMORY, "SAMPLE_NO_MEMORY"},
                 {SLUICE_E_AGAIN, "SAMPLE_AGAIN"},
                 {SLUICE_E_CLOSED, "SAMPLE_CLOSED"},
                 {SLUICE_E_INTERNAL, "SAMPLE_INTERNAL"},
                 {SLUICE_E_STALE, "SAMPLE_STALE"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(pairs); i++) {
        const ProtobufCEnumValue *value = protobuf_c_enum_descriptor_get_value_by_name(
            &sluice__v1__sample_status__descriptor, pairs[i].name);
        CU_ASSERT_PTR_NOT_NULL_FATAL(value);
        CU_ASSERT_EQUAL((int)sluice_wire_status_to_wire(pairs[i].status), value->value);
    }
}

TEST(an_unknown_number_is_said_to_be_so)
{
    sluice_status status = SLUICE_E_AGAIN;
    CU_ASSERT_FALSE(sluice_wire_status_from_wire(SLUICE_NUM_STATUS, &status));
    CU_ASSERT_FALSE(sluice_wire_status_from_wire(-1, &status));
    CU_ASSERT_FALSE(sluice_wire_status_from_wire(INT64_MAX, &status));
    CU_ASSERT_FALSE(sluice_wire_status_from_wire(1ll << 32, &status)); /* not cut to 32 bits */
    CU_ASSERT_EQUAL(status, SLUICE_E_AGAIN);
}
