#ifndef SLUICE_PROFILER_PAGE_H
#define SLUICE_PROFILER_PAGE_H

#include "base/compiler.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdio.h>

/* One HTML page with its style and its figures inside: it needs no other file, no network and no
 * script, is read on a wide screen and on a phone, and is light or dark as the reader prefers.
 *
 *     sluice_page_open(&page, "A report", &err)
 *     sluice_page_html(&page, "<h2>Modes</h2>");
 *     sluice_page_figure(&page, folder, "modes", "Measured.", &err)
 *     sluice_page_close(&page, "FOLDER/index.html", &err)
 *
 * Between open and close memory may run out; close says so.
 *
 * Threads: one. */

struct sluice_page {
    FILE *out;
    char *text;
    size_t len;
    bool is_short; /* memory ran out */
};

SLUICE_MUST_USE sluice_status sluice_page_open(struct sluice_page *page, const char *title,
                                               struct sluice_err *err);

/* Markup of ours, as it is. */
void sluice_page_html(struct sluice_page *page, const char *fmt, ...) SLUICE_PRINTF(2, 3);
/* Text from anywhere; none of it becomes markup. */
void sluice_page_text(struct sluice_page *page, const char *fmt, ...) SLUICE_PRINTF(2, 3);

/* A table whose heads are `heads`, NULL-terminated; one that begins with "<" heads a column of
 * text, the others numbers.  Then for each row a begin, a cell for each column, and an end. */
void sluice_page_table_begin(struct sluice_page *page, const char *const *heads);
void sluice_page_row_begin(struct sluice_page *page);
void sluice_page_cell(struct sluice_page *page, const char *fmt, ...) SLUICE_PRINTF(2, 3);
void sluice_page_text_cell(struct sluice_page *page, const char *fmt, ...) SLUICE_PRINTF(2, 3);
void sluice_page_row_end(struct sluice_page *page);
void sluice_page_table_end(struct sluice_page *page);

/* Both layouts of the figure FOLDER/NAME (figure.h), which lies beside the page, with a caption. */
SLUICE_MUST_USE sluice_status sluice_page_figure(struct sluice_page *page, const char *folder,
                                                 const char *name, const char *caption,
                                                 struct sluice_err *err);

/* Writes the page, whole or not at all, and closes. */
SLUICE_MUST_USE sluice_status sluice_page_close(struct sluice_page *page, const char *path,
                                                struct sluice_err *err);
void sluice_page_abandon(struct sluice_page *page); /* idempotent; fine on {0} */

#endif
