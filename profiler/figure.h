#ifndef SLUICE_PROFILER_FIGURE_H
#define SLUICE_PROFILER_FIGURE_H

#include "base/error.h"

#include <stdio.h>

/* One figure, drawn by gnuplot in two layouts and light and dark colours (svg.h):
 *
 *     FOLDER/NAME.svg          for pages, SLUICE_FIGURE_WIDTH wide
 *     FOLDER/NAME-narrow.svg   for phones
 *     FOLDER/NAME.png          the first again, of twice as many pixels, light
 *     FOLDER/NAME.gp           the script with its data, so that it can be drawn in another way
 *
 *     sluice_figure_open(&figure, folder, "cdf", "Bytes of a sample", &err)
 *     fprintf(figure.script, "$data << EOD\n...EOD\nset xlabel ...\n")
 *     fprintf(figure.plot, "plot $data using 1:2 with lines")
 *     sluice_figure_draw(&figure, &err)
 *
 * gnuplot's variable `narrow` is 1 in the layout for phones.  Colours are svg.h's.  Text from
 * outside goes through sluice_figure_label().
 *
 * A figure stays where it was opened: it is not copied.
 *
 * Threads: one. */

#define SLUICE_FIGURE_WIDTH 860
#define SLUICE_FIGURE_NARROW_WIDTH 360

struct sluice_figure {
    FILE *script;                   /* settings and data go here, in gnuplot's language */
    FILE *plot;                     /* commands that are run once for each layout */
    unsigned height, narrow_height; /* may be changed before it is drawn */
    char narrow_xtics[200];         /* private: of a logarithmic axis */
    char folder[3072];
    char name[64];
    char title[200];
    char *plot_text; /* of `plot` */
    size_t plot_len;
};

/* `title`, plain text of one or two lines, stands above the figure. */
SLUICE_MUST_USE sluice_status sluice_figure_open(struct sluice_figure *figure, const char *folder,
                                                 const char *name, const char *title,
                                                 struct sluice_err *err);

/* A logarithmic axis ('x' or 'y') from low to high, both > 0, with tics that can be read. */
void sluice_figure_log_axis(struct sluice_figure *figure, char axis, double low, double high);

/* Text from outside as gnuplot takes it between any quotes and in data: what might be its language,
 * and all that is not ASCII, becomes "?". */
void sluice_figure_label(char *out, size_t room, const char *text);

/* Draws and closes, whatever it returns.  SLUICE_E_NOT_FOUND: no gnuplot. */
SLUICE_MUST_USE sluice_status sluice_figure_draw(struct sluice_figure *figure,
                                                 struct sluice_err *err);

/* Closes without drawing; fine after a failed open. */
void sluice_figure_abandon(struct sluice_figure *figure);

#endif
