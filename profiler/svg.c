#include "profiler/svg.h"

#include "base/text.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *light, *dark;
} colours[] = {
    {SLUICE_PAPER, "#0d1117"},
    {SLUICE_INK, "#e6edf3"},
    {SLUICE_FAINT_INK, "#a3acb6"},
    {SLUICE_GRID, "#2d333b"},
    {SLUICE_BLUE, "#5cb3f2"},
    {SLUICE_VERMILION, "#ff8f52"},
    {SLUICE_OCHRE, "#e3c04b"},
    {SLUICE_PINK, "#f28cc8"},
    {SLUICE_GREEN, "#3fd6a0"},
    {SLUICE_GREY, "#aab4be"},
    {SLUICE_AREA_BLUE, "#1f5a8a"},
    {SLUICE_AREA_ORANGE, "#8a4520"},
    {SLUICE_AREA_GREEN, "#1f6b4c"},
    {SLUICE_AREA_VIOLET, "#55458a"},
    {SLUICE_AREA_YELLOW, "#6e5d12"},
    {SLUICE_AREA_PINK, "#7d3560"},
    {SLUICE_AREA_TEAL, "#1c6064"},
    {SLUICE_AREA_LILAC, "#5c4a69"},
    {SLUICE_AREA_OLIVE, "#575c22"},
    {SLUICE_AREA_GREY, "#444c56"},
    {"black", "#e6edf3"}, /* gnuplot's own */
};

const char *sluice_svg_page_colours(bool is_dark)
{
    return is_dark ? "--paper:#0d1117;--ink:#e6edf3;--faint:#a3acb6;--grid:#2d333b;"
                     "--shade:#161b22;--link:#5cb3f2;--bad:#ff8f52"
                   : "--paper:#ffffff;--ink:#1f2328;--faint:#59636e;--grid:#d8dee4;"
                     "--shade:#f3f5f7;--link:#0072b2;--bad:#b32d00";
}

void sluice_svg_print_text(FILE *out, const char *text)
{
    while (*text) {
        const size_t len = sluice_utf8_len(text);
        /* One character at a time; of bytes that are none, one byte. */
        char one[8] = {0}, shown[16];
        memcpy(one, text, len ? len : 1);
        text += len ? len : 1;
        switch (one[0]) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            sluice_escape_line(shown, sizeof(shown), one);
            fputs(shown, out);
        }
    }
}

void sluice_svg_print_style(FILE *out)
{
    static const char *const names[] = {"stroke", "fill", "color"};
    fputs("@media (prefers-color-scheme:dark){", out);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(colours); i++) {
        for (size_t n = 0; n < SLUICE_ARRAY_LEN(names); n++)
            fprintf(out, "[%s=\"%s\"]{%s:%s}", names[n], colours[i].light, names[n],
                    colours[i].dark);
    }
    fputs("}", out);
}

/* The length of "rgb( r, g, b )" at `at`, 0 if there is none. */
static size_t parse_rgb(const char *at, unsigned rgb[3])
{
    int len = 0;
    if (sscanf(at, "rgb( %3u , %3u , %3u )%n", &rgb[0], &rgb[1], &rgb[2], &len) != 3 || len <= 0 ||
        rgb[0] > 255 || rgb[1] > 255 || rgb[2] > 255)
        return 0;
    return (size_t)len;
}

/* What stands before a name that is the picture's own; 0: nothing such at `at`. */
static size_t leads_to_id(const char *at)
{
    static const char *const leads[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(leads); i++) {
        if (sluice_starts_with(at, leads[i]))
            return strlen(leads[i]);
    }
    return 0;
}

sluice_status sluice_svg_finish(const char *svg, const char *id, const char *title, char **made,
                                struct sluice_err *err)
{
    const char *at = strstr(svg, "<svg");
    if (!at)
        return sluice_fail(err, SLUICE_E_CORRUPT, "not an SVG");
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a picture");
    bool is_in_tag = false, has_style = false, has_title = false;
    while (*at) {
        unsigned rgb[3];
        size_t taken;
        if (!is_in_tag && !has_title && sluice_starts_with(at, "<title>")) {
            const char *end = strstr(at, "</title>");
            at = end ? end + strlen("</title>") : at + strlen(at);
            has_title = true;
        } else if (is_in_tag && (taken = parse_rgb(at, rgb)) > 0) {
            fprintf(out, "#%02x%02x%02x", rgb[0], rgb[1], rgb[2]);
            at += taken;
        } else if (is_in_tag && (taken = leads_to_id(at)) > 0) {
            fprintf(out, "%.*s%s-", (int)taken, at, id);
            at += taken;
        } else if (*at == '>' && !has_style) {
            fputs(" role=\"img\">\n<title>", out);
            sluice_svg_print_text(out, title);
            fputs("</title>\n<style>", out);
            sluice_svg_print_style(out);
            fputs("</style>\n", out);
            has_style = true;
            is_in_tag = false;
            at++;
        } else {
            is_in_tag = *at == '<' || (is_in_tag && *at != '>');
            fputc(*at++, out);
        }
    }
    const bool is_bad = ferror(out);
    if (fclose(out) != 0 || is_bad) {
        free(text);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a picture");
    }
    *made = text;
    return SLUICE_OK;
}
