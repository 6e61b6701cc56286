#include "wire/wire_internal.h"

#define NUMBERS(ours, wire)                                                                        \
    {                                                                                              \
        ours, SLUICE__V1__SAMPLE_STATUS__SAMPLE_##wire                                             \
    }

static const struct {
    sluice_status ours;
    Sluice__V1__SampleStatus wire;
} numbers[] = {
    NUMBERS(SLUICE_OK, OK),
    NUMBERS(SLUICE_E_INVALID, INVALID),
    NUMBERS(SLUICE_E_CORRUPT, CORRUPT),
    NUMBERS(SLUICE_E_UNSUPPORTED, UNSUPPORTED),
    NUMBERS(SLUICE_E_NOT_FOUND, NOT_FOUND),
    NUMBERS(SLUICE_E_IO, IO),
    NUMBERS(SLUICE_E_NO_MEMORY, NO_MEMORY),
    NUMBERS(SLUICE_E_AGAIN, AGAIN),
    NUMBERS(SLUICE_E_CLOSED, CLOSED),
    NUMBERS(SLUICE_E_INTERNAL, INTERNAL),
    NUMBERS(SLUICE_E_STALE, STALE),
};

Sluice__V1__SampleStatus sluice_wire_status_to_wire(sluice_status status)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++) {
        if (numbers[i].ours == status)
            return numbers[i].wire;
    }
    return SLUICE__V1__SAMPLE_STATUS__SAMPLE_INTERNAL;
}

bool sluice_wire_status_from_wire(int64_t number, sluice_status *status)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++) {
        if ((int64_t)numbers[i].wire == number) {
            *status = numbers[i].ours;
            return true;
        }
    }
    return false;
}
