#include "wire/wire.h"
#include "wire/wire_internal.h"

#include <assert.h>

/* By enum sluice_form.  HelloReply.forms has numbers of its own among those of enum Form. */
static const Sluice__V1__Form numbers[SLUICE_NUM_FORMS] = {
    [SLUICE_FORM_RAW] = SLUICE__V1__FORM__FORM_RAW,
    [SLUICE_FORM_JPEG_CROP] = SLUICE__V1__FORM__FORM_JPEG_CROP,
    [SLUICE_FORM_U8] = SLUICE__V1__FORM__FORM_U8,
    [SLUICE_FORM_U8_PACKED] = SLUICE__V1__FORM__FORM_U8_PACKED,
    [SLUICE_FORM_F32] = SLUICE__V1__FORM__FORM_F32,
    [SLUICE_FORM_JPEG_ROWS] = SLUICE__V1__FORM__FORM_JPEG_ROWS,
};

/* Forms that both ends register have numbers from here on, far behind those of the protocol. */
#define FIRST_REGISTERED 1000000

static unsigned num_known = SLUICE_NUM_FORMS;

void sluice_wire_know_forms(unsigned num_forms)
{
    assert(num_forms >= SLUICE_NUM_FORMS && num_forms <= SLUICE_MAX_FORMS);
    num_known = num_forms;
}

Sluice__V1__Form sluice_wire_form_to_wire(enum sluice_form form)
{
    return form < SLUICE_NUM_FORMS ? numbers[form] : (Sluice__V1__Form)(FIRST_REGISTERED + form);
}

bool sluice_wire_form_from_wire(uint64_t number, enum sluice_form *form)
{
    for (unsigned f = 0; f < num_known; f++) {
        if ((uint64_t)sluice_wire_form_to_wire((enum sluice_form)f) == number) {
            *form = (enum sluice_form)f;
            return true;
        }
    }
    return false;
}
