#include "profiler/page.h"

#include "base/file.h"
#include "profiler/svg.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SVG_BYTES (64u << 20)

static const char style[] =
    "*{box-sizing:border-box}"
    "body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);"
    "max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}"
    "h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0 1rem}"
    "h2{font-size:1.25rem;margin:2.2rem 0 .6rem;border-bottom:1px solid var(--grid)}"
    "p{margin:.6rem 0;max-width:48rem}.lead{font-size:1.1rem}a{color:var(--link)}"
    ".faint,figcaption{color:var(--faint)}.bad{color:var(--bad);font-weight:600}"
    ".scroll{overflow-x:auto;margin:.8rem 0}"
    "table{border-collapse:collapse;font-size:.9rem;font-variant-numeric:tabular-nums}"
    "th,td{padding:.3rem .7rem;text-align:right;white-space:nowrap;vertical-align:top;"
    "border-bottom:1px solid var(--grid)}"
    "th{background:var(--shade)}.text{text-align:left}"
    "code{font-size:.85rem}"
    "figure{margin:1.4rem 0 2rem}figcaption{font-size:.9rem;max-width:48rem}"
    "figure svg{display:block;width:100%;height:auto;max-width:860px}"
    "figure .narrow{display:none}"
    "@media (max-width:640px){figure .wide{display:none}figure .narrow{display:block}"
    "figure .narrow svg{max-width:480px}}";

sluice_status sluice_page_open(struct sluice_page *page, const char *title, struct sluice_err *err)
{
    *page = (struct sluice_page){0};
    page->out = open_memstream(&page->text, &page->len);
    if (!page->out)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a page");
    sluice_page_html(page, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width\">\n"
                           "<meta name=\"color-scheme\" content=\"light dark\">\n<title>");
    sluice_page_text(page, "%s", title);
    sluice_page_html(page,
                     "</title>\n<style>:root{color-scheme:light dark;%s}"
                     "@media (prefers-color-scheme:dark){:root{%s}}\n%s\n",
                     sluice_svg_page_colours(false), sluice_svg_page_colours(true), style);
    sluice_svg_print_style(page->out);
    sluice_page_html(page, "</style>\n</head>\n<body>\n<h1>");
    sluice_page_text(page, "%s", title);
    sluice_page_html(page, "</h1>\n");
    return SLUICE_OK;
}

void sluice_page_html(struct sluice_page *page, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, fmt);
    const int len = vasprintf(&text, fmt, args);
    va_end(args);
    if (len < 0) {
        page->is_short = true;
        return;
    }
    fputs(text, page->out);
    free(text);
}

static SLUICE_PRINTF(2, 0) void print_text(struct sluice_page *page, const char *fmt, va_list args)
{
    char *text = NULL;
    if (vasprintf(&text, fmt, args) < 0) {
        page->is_short = true;
        return;
    }
    sluice_svg_print_text(page->out, text);
    free(text);
}

void sluice_page_text(struct sluice_page *page, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_text(page, fmt, args);
    va_end(args);
}

void sluice_page_table_begin(struct sluice_page *page, const char *const *heads)
{
    fputs("<div class=\"scroll\"><table>\n<thead><tr>", page->out);
    for (; *heads; heads++) {
        const bool is_text = **heads == '<';
        fprintf(page->out, "<th%s>", is_text ? " class=\"text\"" : "");
        sluice_svg_print_text(page->out, *heads + is_text);
        fputs("</th>", page->out);
    }
    fputs("</tr></thead>\n<tbody>\n", page->out);
}

void sluice_page_row_begin(struct sluice_page *page)
{
    fputs("<tr>", page->out);
}

static void print_cell(struct sluice_page *page, const char *tag, const char *fmt, va_list args)
{
    fputs(tag, page->out);
    print_text(page, fmt, args);
    fputs("</td>", page->out);
}

void sluice_page_cell(struct sluice_page *page, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_cell(page, "<td>", fmt, args);
    va_end(args);
}

void sluice_page_text_cell(struct sluice_page *page, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    print_cell(page, "<td class=\"text\">", fmt, args);
    va_end(args);
}

void sluice_page_row_end(struct sluice_page *page)
{
    fputs("</tr>\n", page->out);
}

void sluice_page_table_end(struct sluice_page *page)
{
    fputs("</tbody></table></div>\n", page->out);
}

static sluice_status include(struct sluice_page *page, const char *folder, const char *name,
                             const char *suffix, const char *class, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES], file[200];
    snprintf(file, sizeof(file), "%s%s.svg", name, suffix);
    sluice_status status = sluice_path_in(folder, file, path, err);
    struct sluice_buf *buf = NULL;
    if (status == SLUICE_OK)
        status = sluice_file_read(path, MAX_SVG_BYTES, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    sluice_page_html(page, "<div class=\"%s\">", class);
    /* The style is the page's already. */
    const char *text = (const char *)buf->data;
    const char *from = memmem(text, buf->len, "<style>", strlen("<style>"));
    const char *to = memmem(text, buf->len, "</style>", strlen("</style>"));
    if (from && to > from) {
        fwrite(text, 1, (size_t)(from - text), page->out);
        text = to + strlen("</style>");
    }
    fwrite(text, 1, buf->len - (size_t)(text - (const char *)buf->data), page->out);
    sluice_page_html(page, "</div>\n");
    sluice_buf_unref(buf);
    return SLUICE_OK;
}

sluice_status sluice_page_figure(struct sluice_page *page, const char *folder, const char *name,
                                 const char *caption, struct sluice_err *err)
{
    sluice_page_html(page, "<figure id=\"%s\">\n", name);
    sluice_status status = include(page, folder, name, "", "wide", err);
    if (status == SLUICE_OK)
        status = include(page, folder, name, "-narrow", "narrow", err);
    sluice_page_html(page, "<figcaption>");
    sluice_page_text(page, "%s ", caption);
    sluice_page_html(page,
                     "<a href=\"%s.svg\">SVG</a>, <a href=\"%s.png\">PNG</a>, "
                     "<a href=\"%s.gp\">gnuplot</a></figcaption>\n</figure>\n",
                     name, name, name);
    return status;
}

void sluice_page_abandon(struct sluice_page *page)
{
    if (page->out)
        fclose(page->out);
    free(page->text);
    *page = (struct sluice_page){0};
}

sluice_status sluice_page_close(struct sluice_page *page, const char *path, struct sluice_err *err)
{
    sluice_page_html(page, "</body>\n</html>\n");
    const bool is_bad = page->is_short || ferror(page->out);
    const bool is_short = fclose(page->out) != 0 || is_bad;
    page->out = NULL;
    const sluice_status status =
        is_short ? sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the page %s", path)
                 : sluice_file_write_atomic(path, page->text, page->len, err);
    sluice_page_abandon(page);
    return status;
}
