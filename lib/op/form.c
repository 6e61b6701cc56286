#include "op/form.h"

#include "base/show.h"
#include "op/form_words.h"
#include "op/pipeline.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

extern const struct sluice_form_type sluice_form_raw, sluice_form_jpeg_crop, sluice_form_u8,
    sluice_form_u8_packed, sluice_form_f32, sluice_form_jpeg_rows;

static const struct sluice_form_type *types[SLUICE_MAX_FORMS] = {
    &sluice_form_raw,       &sluice_form_jpeg_crop, &sluice_form_u8,
    &sluice_form_u8_packed, &sluice_form_f32,       &sluice_form_jpeg_rows,
};

static unsigned num_types = SLUICE_NUM_FORMS;

_Static_assert(SLUICE_NUM_FORMS <= SLUICE_MAX_FORMS, "no room for the forms");

sluice_status sluice_form_register(struct sluice_form_type *type, struct sluice_err *err)
{
    if (sluice_form_find(type->name) != SLUICE_MAX_FORMS)
        return sluice_fail(err, SLUICE_E_INVALID, "there is a form %s already", type->name);
    if (num_types == SLUICE_MAX_FORMS)
        return sluice_fail(err, SLUICE_E_INVALID, "no room for the form %s", type->name);
    type->form = (enum sluice_form)num_types;
    types[num_types++] = type;
    return SLUICE_OK;
}

unsigned sluice_num_forms(void)
{
    return num_types;
}

const struct sluice_form_type *sluice_form_type(enum sluice_form form)
{
    assert(form < num_types && types[form]->form == form);
    return types[form];
}

const char *sluice_form_name(enum sluice_form form)
{
    return (unsigned)form < num_types ? types[form]->name : "unknown";
}

enum sluice_form sluice_form_find(const char *name)
{
    for (unsigned form = 0; form < num_types; form++) {
        if (strcmp(types[form]->name, name) == 0)
            return (enum sluice_form)form;
    }
    return (enum sluice_form)SLUICE_MAX_FORMS;
}

const struct sluice_form_type *sluice_form_coding(enum sluice_form form)
{
    const struct sluice_form_type *type = sluice_form_type(form);
    return type->is_plain ? NULL : type;
}

enum sluice_form sluice_form_plain(enum sluice_kind kind)
{
    for (unsigned f = 0; f < num_types; f++) {
        if (types[f]->is_plain && types[f]->kind == kind)
            return (enum sluice_form)f;
    }
    assert(!"a kind of sample");
    return (enum sluice_form)0;
}

bool sluice_form_can_carry(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split)
{
    return sluice_pipeline_kind(pipeline, split) == type->kind &&
           (!type->suits || type->suits(pipeline));
}

bool sluice_form_takes_box(const struct sluice_form_type *type,
                           const struct sluice_pipeline *pipeline, unsigned split)
{
    return type->takes_box && type->takes_box(pipeline, split);
}

enum sluice_form sluice_sample_form(const struct sluice_sample *sample)
{
    return sample->coding ? sample->coding->form : sluice_form_plain(sample->kind);
}

sluice_status sluice_sample_open(const struct sluice_pipeline *pipeline,
                                 struct sluice_scratch *scratch, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    if (!sample->coding || !sample->coding->open)
        return SLUICE_OK;
    return sample->coding->open(pipeline, scratch, sample, err);
}

/* --- in words --- */

const char *sluice_form_words(enum sluice_form form)
{
    return sluice_form_type(form)->words;
}

void sluice_form_shares(const uint64_t count[SLUICE_MAX_FORMS], enum sluice_form_style style,
                        char *out, size_t size)
{
    uint64_t left[SLUICE_MAX_FORMS], total = 0;
    for (int f = 0; f < SLUICE_MAX_FORMS; f++) {
        left[f] = count[f];
        total += count[f];
    }
    size_t len = 0;
    out[0] = '\0';
    for (;;) {
        int most = 0;
        for (int f = 1; f < SLUICE_MAX_FORMS; f++)
            most = left[f] > left[most] ? f : most;
        if (left[most] == 0 || (double)left[most] < 0.005 * (double)total)
            return;
        char share[SLUICE_SHOW_BYTES];
        sluice_show_share((double)left[most] / (double)total, share);
        const int more = style == SLUICE_FORMS_SHORT
                             ? snprintf(out + len, size - len, "%s%s %s", len ? " " : "",
                                        sluice_form_type((enum sluice_form)most)->brief, share)
                             : snprintf(out + len, size - len, "%s%s %s", len ? ", " : "", share,
                                        sluice_form_type((enum sluice_form)most)->words);
        if (more < 0 || (size_t)more >= size - len) {
            out[len] = '\0'; /* a whole one or none */
            return;
        }
        len += (size_t)more;
        left[most] = 0;
    }
}

void sluice_form_add_gpu(uint64_t on_gpu, uint64_t total, char *out, size_t size)
{
    const size_t len = strlen(out);
    if (on_gpu == 0 || (double)on_gpu < 0.005 * (double)total)
        return;
    char share[SLUICE_SHOW_BYTES];
    sluice_show_share((double)on_gpu / (double)total, share);
    const int more = snprintf(out + len, size - len, "%s+gpu %s", len ? " " : "", share);
    if (more < 0 || (size_t)more >= size - len)
        out[len] = '\0';
}
