#include "wire/wire_internal.h"

/* By enum sluice_form.  HelloReply.forms has numbers of its own among those of enum Form. */
static const Sluice__V1__Form numbers[SLUICE_NUM_FORMS] = {
    [SLUICE_FORM_RAW] = SLUICE__V1__FORM__FORM_RAW,
    [SLUICE_FORM_JPEG_CROP] = SLUICE__V1__FORM__FORM_JPEG_CROP,
    [SLUICE_FORM_U8] = SLUICE__V1__FORM__FORM_U8,
    [SLUICE_FORM_U8_PACKED] = SLUICE__V1__FORM__FORM_U8_PACKED,
    [SLUICE_FORM_F32] = SLUICE__V1__FORM__FORM_F32,
    [SLUICE_FORM_JPEG_ROWS] = SLUICE__V1__FORM__FORM_JPEG_ROWS,
};

Sluice__V1__Form sluice_wire_form_to_wire(enum sluice_form form)
{
    return numbers[form];
}

bool sluice_wire_form_from_wire(uint64_t number, enum sluice_form *form)
{
    for (int f = 0; f < SLUICE_NUM_FORMS; f++) {
        if ((uint64_t)numbers[f] == number) {
            *form = (enum sluice_form)f;
            return true;
        }
    }
    return false;
}
