#include "metrics/exposition.h"

#include "base/c_locale.h"
#include "base/text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The replacement character, U+FFFD. */
#define REPLACEMENT "\xef\xbf\xbd"

/* Families of one page, of which each may be there once. */
#define MAX_FAMILIES 128

struct sluice_exposition {
    FILE *file;
    char *text;
    size_t len;
    const char *names[MAX_FAMILIES];
    size_t num_families;
    enum sluice_metric_type type; /* of the last family */
};

struct sluice_exposition *sluice_exposition_create(void)
{
    struct sluice_exposition *page = calloc(1, sizeof(*page));
    if (!page)
        return NULL;
    page->file = open_memstream(&page->text, &page->len);
    if (page->file)
        return page;
    free(page);
    return NULL;
}

char *sluice_exposition_finish(struct sluice_exposition *page)
{
    const bool is_whole = !ferror(page->file);
    const bool is_closed = fclose(page->file) == 0;
    char *text = page->text;
    free(page);
    if (is_whole && is_closed)
        return text;
    free(text);
    return NULL;
}

/* --- names --- */

SLUICE_UNUSED static bool is_name(const char *name)
{
    const size_t len =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return len > 0 && !name[len] && strchr("0123456789", name[0]) == NULL;
}

SLUICE_UNUSED static bool is_total(const char *name)
{
    const size_t len = strlen(name), end = strlen("_total");
    return len > end && strcmp(name + len - end, "_total") == 0;
}

SLUICE_UNUSED static bool is_new(const struct sluice_exposition *page, const char *name)
{
    for (size_t i = 0; i < page->num_families; i++) {
        if (strcmp(page->names[i], name) == 0)
            return false;
    }
    return true;
}

void sluice_exposition_family(struct sluice_exposition *page, const char *name,
                              enum sluice_metric_type type, const char *help)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    assert(is_name(name) && sluice_starts_with(name, "sluice_"));
    assert(is_total(name) == (type == SLUICE_COUNTER));
    assert(is_new(page, name) && page->num_families < MAX_FAMILIES);
    assert(!strpbrk(help, "\n\\"));
    page->names[page->num_families++] = name;
    page->type = type;
    fprintf(page->file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

/* --- samples --- */

/* Room for a character of 2 bytes that is escaped, or one of 4. */
#define SHOWN_BYTES 12

/* Puts the character at `text` as a label shows it, and returns its length there. */
static size_t show_character(const char *text, char shown[SHOWN_BYTES])
{
    const size_t len = sluice_utf8_len(text);
    char one[5] = "";
    if (len == 0) {
        memcpy(shown, REPLACEMENT, sizeof(REPLACEMENT));
        return 1;
    }
    memcpy(one, text, len);
    (void)sluice_escape_line(shown, SHOWN_BYTES, one);
    return len;
}

void sluice_label_text(char *out, size_t room, const char *text)
{
    size_t len = 0;
    while (*text) {
        char shown[SHOWN_BYTES];
        text += show_character(text, shown);
        const size_t bytes = strlen(shown);
        if (len + bytes >= room)
            break;
        memcpy(out + len, shown, bytes);
        len += bytes;
    }
    out[len] = '\0';
}

static void put_label(FILE *file, const char *separator, const char *name, const char *value)
{
    assert(is_name(name));
    fprintf(file, "%s%s=\"", separator, name);
    while (*value) {
        char shown[SHOWN_BYTES];
        value += show_character(value, shown);
        for (const char *at = shown; *at; at++)
            fprintf(file, *at == '"' || *at == '\\' ? "\\%c" : "%c", *at);
    }
    fputc('"', file);
}

/* "name{labels,le="bound"} ".  `le` may be NULL. */
static void put_name(const struct sluice_exposition *page, const char *suffix,
                     const struct sluice_label *labels, size_t num_labels, const char *le)
{
    assert(page->num_families);
    fprintf(page->file, "%s%s", page->names[page->num_families - 1], suffix);
    for (size_t i = 0; i < num_labels; i++)
        put_label(page->file, i ? "," : "{", labels[i].name, labels[i].value);
    if (le)
        put_label(page->file, num_labels ? "," : "{", "le", le);
    fputs(num_labels || le ? "} " : " ", page->file);
}

/* With no more digits than tell it from its neighbours. */
static void print_double(char *text, size_t room, double value)
{
    if (isnan(value)) {
        snprintf(text, room, "NaN");
    } else if (isinf(value)) {
        snprintf(text, room, value > 0 ? "+Inf" : "-Inf");
    } else {
        sluice_snprintf(text, room, "%.15g", value);
        if (sluice_strtod(text, NULL) != value)
            sluice_snprintf(text, room, "%.17g", value);
    }
}

void sluice_exposition_count(struct sluice_exposition *page, const struct sluice_label *labels,
                             size_t num_labels, uint64_t value)
{
    assert(page->type != SLUICE_HISTOGRAM);
    put_name(page, "", labels, num_labels, NULL);
    fprintf(page->file, "%llu\n", (unsigned long long)value);
}

static void put_double(const struct sluice_exposition *page, double value)
{
    char text[40];
    print_double(text, sizeof(text), value);
    fprintf(page->file, "%s\n", text);
}

void sluice_exposition_value(struct sluice_exposition *page, const struct sluice_label *labels,
                             size_t num_labels, double value)
{
    assert(page->type != SLUICE_HISTOGRAM);
    put_name(page, "", labels, num_labels, NULL);
    put_double(page, value);
}

void sluice_exposition_histogram(struct sluice_exposition *page, const struct sluice_label *labels,
                                 size_t num_labels, const struct sluice_histogram *histogram)
{
    sluice_exposition_buckets(page, labels, num_labels, sluice_histogram_bounds_ns,
                              SLUICE_HISTOGRAM_BUCKETS, histogram->counts, histogram->sum_ns);
}

void sluice_exposition_buckets(struct sluice_exposition *page, const struct sluice_label *labels,
                               size_t num_labels, const uint64_t *bounds_ns, size_t num_bounds,
                               const uint64_t *counts, uint64_t sum_ns)
{
    assert(page->type == SLUICE_HISTOGRAM);
    uint64_t count = 0;
    for (size_t i = 0; i <= num_bounds; i++) {
        char le[40] = "+Inf";
        if (i < num_bounds)
            print_double(le, sizeof(le), (double)bounds_ns[i] / 1e9);
        count += counts[i];
        put_name(page, "_bucket", labels, num_labels, le);
        fprintf(page->file, "%llu\n", (unsigned long long)count);
    }
    put_name(page, "_sum", labels, num_labels, NULL);
    put_double(page, (double)sum_ns / 1e9);
    put_name(page, "_count", labels, num_labels, NULL);
    fprintf(page->file, "%llu\n", (unsigned long long)count);
}

/* --- families of one sample --- */

void sluice_exposition_counter(struct sluice_exposition *page, const char *name, uint64_t value,
                               const char *help)
{
    sluice_exposition_family(page, name, SLUICE_COUNTER, help);
    sluice_exposition_count(page, NULL, 0, value);
}

void sluice_exposition_seconds(struct sluice_exposition *page, const char *name, double seconds,
                               const char *help)
{
    sluice_exposition_family(page, name, SLUICE_COUNTER, help);
    sluice_exposition_value(page, NULL, 0, seconds);
}

void sluice_exposition_gauge(struct sluice_exposition *page, const char *name, double value,
                             const char *help)
{
    sluice_exposition_family(page, name, SLUICE_GAUGE, help);
    sluice_exposition_value(page, NULL, 0, value);
}
