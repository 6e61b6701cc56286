#include "base/fit.h"

#include "base/c_locale.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAX_PARTS 16
#define LEFT_OUT SLUICE_FIT_FORMS

void sluice_fit_put(struct sluice_fit_part *part, unsigned form, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    sluice_vsnprintf(part->form[form], sizeof(part->form[form]), fmt, args);
    va_end(args);
}

static unsigned form_columns(const struct sluice_fit_part *part, unsigned form)
{
    return form == LEFT_OUT ? 0 : (unsigned)strlen(part->form[form]) - part->extra_bytes;
}

static unsigned line_columns(const struct sluice_fit_part *parts, size_t num_parts,
                             const unsigned *form)
{
    unsigned columns = 0;
    for (size_t i = 0; i < num_parts; i++) {
        if (form[i] != LEFT_OUT)
            columns += form_columns(&parts[i], form[i]) +
                       (columns > 0 ? (unsigned)strlen(parts[i].before) : 0);
    }
    return columns;
}

static bool has_shorter(const struct sluice_fit_part *part, unsigned form)
{
    return form + 1 < SLUICE_FIT_FORMS && part->form[form + 1][0];
}

/* The least important part that can be shortened or left out; num_parts: none. */
static size_t find_least(const struct sluice_fit_part *parts, size_t num_parts,
                         const unsigned *form, bool shortens)
{
    size_t least = num_parts, count = 0;
    for (size_t i = 0; i < num_parts; i++) {
        if (form[i] == LEFT_OUT)
            continue;
        count++;
        if (shortens && !has_shorter(&parts[i], form[i]))
            continue;
        if (least == num_parts || parts[i].importance < parts[least].importance)
            least = i;
    }
    return shortens || count > 1 ? least : num_parts;
}

/* The part left out last may have freed more room than was needed. */
static void lengthen(const struct sluice_fit_part *parts, size_t num_parts, unsigned columns,
                     unsigned *form)
{
    bool has_tried[MAX_PARTS] = {false};
    for (size_t n = 0; n < num_parts; n++) {
        size_t most = num_parts;
        for (size_t i = 0; i < num_parts; i++) {
            if (!has_tried[i] &&
                (most == num_parts || parts[i].importance > parts[most].importance))
                most = i;
        }
        has_tried[most] = true;
        while (form[most] != LEFT_OUT && form[most] > 0) {
            form[most]--;
            if (line_columns(parts, num_parts, form) > columns) {
                form[most]++;
                break;
            }
        }
    }
}

unsigned sluice_fit_line(const struct sluice_fit_part *parts, size_t num_parts, unsigned columns,
                         char *out, size_t size)
{
    assert(num_parts <= MAX_PARTS && size > 0);
    unsigned form[MAX_PARTS];
    for (size_t i = 0; i < num_parts; i++)
        form[i] = parts[i].form[0][0] ? 0 : LEFT_OUT;
    while (line_columns(parts, num_parts, form) > columns) {
        size_t least = find_least(parts, num_parts, form, true);
        if (least < num_parts) {
            form[least]++;
            continue;
        }
        least = find_least(parts, num_parts, form, false);
        if (least == num_parts)
            break;
        form[least] = LEFT_OUT;
    }
    lengthen(parts, num_parts, columns, form);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i < num_parts && len < size - 1; i++) {
        if (form[i] == LEFT_OUT)
            continue;
        const int more = snprintf(out + len, size - len, "%s%s", len > 0 ? parts[i].before : "",
                                  parts[i].form[form[i]]);
        len = more > 0 && (size_t)more < size - len ? len + (size_t)more : size - 1;
    }
    const unsigned taken = line_columns(parts, num_parts, form);
    if (taken > columns && columns < size) {
        out[columns] = '\0'; /* one part alone, of plain characters */
        return columns;
    }
    return taken;
}
