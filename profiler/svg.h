#ifndef SLUICE_PROFILER_SVG_H
#define SLUICE_PROFILER_SVG_H

#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* gnuplot's SVG, made fit for light and dark pages, alone or inside an HTML page.
 *
 * Colours are those of the list below.  As drawn they are the light ones, for programs that know no
 * style sheets; a style sheet inside the picture maps each to its dark one where the reader prefers
 * that (the media feature prefers-color-scheme).  Series differ in lightness too, and keep apart
 * for colour-blind eyes (after Okabe and Ito, https://jfly.uni-koeln.de/color/).
 *
 * Threads: pure functions. */

#define SLUICE_PAPER "#ffffff"
#define SLUICE_INK "#1f2328"
#define SLUICE_FAINT_INK "#59636e"
#define SLUICE_GRID "#d8dee4"
#define SLUICE_BLUE "#0072b2"
#define SLUICE_VERMILION "#d55e00"
#define SLUICE_OCHRE "#a67c00"
#define SLUICE_PINK "#b03a88"
#define SLUICE_GREEN "#00805a"
#define SLUICE_GREY "#6e7781"
/* Areas, on which ink is readable. */
#define SLUICE_AREA_BLUE "#8fc1e8"
#define SLUICE_AREA_ORANGE "#f4b48d"
#define SLUICE_AREA_GREEN "#93d3b5"
#define SLUICE_AREA_VIOLET "#bfb0e0"
#define SLUICE_AREA_YELLOW "#ead77f"
#define SLUICE_AREA_PINK "#eab3d1"
#define SLUICE_AREA_TEAL "#a9dfe0"
#define SLUICE_AREA_LILAC "#e0cdea"
#define SLUICE_AREA_OLIVE "#d6dba2"
#define SLUICE_AREA_GREY "#d3d8dd"

/* The page's variables of one scheme, as a style sheet takes them: "--paper:#ffffff;--ink:..." */
const char *sluice_svg_page_colours(bool is_dark);

/* The style sheet's text, which every picture has. */
void sluice_svg_print_style(FILE *out);

/* Makes *out (malloc'ed, NUL-terminated) of the file that gnuplot wrote: without the XML prologue,
 * its ids led by `id` (unique in the page; letters, digits, "-" and "_"), with a title for those
 * who hear the page, any text, and the style sheet.  SLUICE_E_CORRUPT: not an SVG. */
SLUICE_MUST_USE sluice_status sluice_svg_finish(const char *svg, const char *id, const char *title,
                                                char **out, struct sluice_err *err);

/* Writes text for HTML and XML: markup becomes entities, control characters and bytes that are no
 * UTF-8 the codes of sluice_escape_line(). */
void sluice_svg_print_text(FILE *out, const char *text);

#endif
