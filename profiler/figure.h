#ifndef SLUICE_PROFILER_FIGURE_H
#define SLUICE_PROFILER_FIGURE_H

#include "base/error.h"

#include <stdio.h>

/* One figure, drawn by gnuplot as FOLDER/NAME.svg and FOLDER/NAME.png.  The script with its data
 * stays beside them as NAME.gp, so that a figure can be drawn again in another way.
 *
 *     sluice_figure_open(&figure, folder, "cdf", &err)
 *     fprintf(figure.script, "$data << EOD\n...EOD\nset xlabel ...\n")
 *     sluice_figure_draw(&figure, "plot $data using 1:2 with lines", &err)
 *
 * Threads: one. */

struct sluice_figure {
    FILE *script; /* settings and data go here, in gnuplot's language */
    char folder[3072];
    char name[64];
};

SLUICE_MUST_USE sluice_status sluice_figure_open(struct sluice_figure *figure, const char *folder,
                                                 const char *name, struct sluice_err *err);

/* Draws with `plot` and closes, whatever it returns.  SLUICE_E_NOT_FOUND: no gnuplot. */
SLUICE_MUST_USE sluice_status sluice_figure_draw(struct sluice_figure *figure, const char *plot,
                                                 struct sluice_err *err);

#endif
