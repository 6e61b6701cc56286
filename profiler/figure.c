#include "profiler/figure.h"

#include "base/file.h"
#include "base/text.h"
#include "profiler/svg.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

#define MAX_SVG_BYTES (64u << 20)

sluice_status sluice_figure_open(struct sluice_figure *figure, const char *folder, const char *name,
                                 const char *title, struct sluice_err *err)
{
    *figure = (struct sluice_figure){.height = 440, .narrow_height = 420};
    if (!sluice_print(figure->folder, sizeof(figure->folder), "%s", folder) ||
        !sluice_print(figure->name, sizeof(figure->name), "%s", name))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s/%.60s: a path too long", folder, name);
    snprintf(figure->title, sizeof(figure->title), "%s", title);
    char path[SLUICE_MAX_PATH_BYTES];
    snprintf(path, sizeof(path), "%s/%s.gp", folder, name);
    figure->script = fopen(path, "we");
    if (!figure->script)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    figure->plot = open_memstream(&figure->plot_text, &figure->plot_len);
    if (!figure->plot) {
        sluice_figure_abandon(figure);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the figure %s", name);
    }
    fprintf(figure->script,
            "set encoding utf8\n"
            "set border 3 linecolor rgb '" SLUICE_FAINT_INK "'\n"
            "set grid back linetype 1 linewidth 1 linecolor rgb '" SLUICE_GRID "'\n"
            "set tics nomirror noenhanced scale 0.5 textcolor rgb '" SLUICE_FAINT_INK "'\n"
            "set xlabel textcolor rgb '" SLUICE_INK "'\nset ylabel textcolor rgb '" SLUICE_INK
            "'\n");
    return SLUICE_OK;
}

void sluice_figure_abandon(struct sluice_figure *figure)
{
    if (figure->script)
        fclose(figure->script);
    if (figure->plot)
        fclose(figure->plot);
    free(figure->plot_text);
    figure->script = figure->plot = NULL;
    figure->plot_text = NULL;
}

void sluice_figure_label(char *out, size_t room, const char *text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               " _-+.,:;/()=@#";
    size_t len = 0;
    for (; *text && len + 1 < room; text++)
        out[len++] = strchr(safe, *text) ? *text : '?';
    out[len] = '\0';
}

/* "'1' 1, '2' 2, '5' 5" and so on: the digits of each decade that lie on the axis. */
static void print_log_tics(char *text, size_t room, double low, double high, const char *digits)
{
    size_t len = 0;
    text[0] = '\0';
    for (int exponent = (int)floor(log10(low)); exponent <= (int)ceil(log10(high)); exponent++) {
        for (const char *digit = digits; *digit; digit++) {
            const double value = (*digit - '0') * pow(10, exponent);
            if (value < low * (1 - 1e-9) || value > high * (1 + 1e-9) || len + 40 > room)
                continue;
            len += (size_t)snprintf(text + len, room - len, "%s'%.6g' %.9g", len ? ", " : "", value,
                                    value);
        }
    }
}

void sluice_figure_log_axis(struct sluice_figure *figure, char axis, double low, double high)
{
    if (high <= low)
        low /= 1.25, high = low * 1.25 * 1.25;
    const double decades = log10(high / low);
    /* Few tics look bare, many collide, on a phone sooner. */
    const char *digits = decades < 0.6   ? "123456789"
                         : decades < 1.1 ? "12357"
                         : decades < 3.2 ? "125"
                                         : "1";
    const char *few = decades < 0.6 ? "123457" : decades < 1.5 ? "125" : decades < 2.6 ? "13" : "1";
    char tics[1000];
    print_log_tics(tics, sizeof(tics), low, high, digits);
    fprintf(figure->script, "set logscale %c\nset %crange [%.9g:%.9g]\nset %ctics (%s)\n", axis,
            axis, low, high, axis, tics);
    if (axis == 'x')
        print_log_tics(figure->narrow_xtics, sizeof(figure->narrow_xtics), low, high, few);
}

static sluice_status run_gnuplot(const struct sluice_figure *figure, struct sluice_err *err)
{
    char script[sizeof(figure->name) + 8];
    snprintf(script, sizeof(script), "%s.gp", figure->name);
    char *argv[] = {(char *)"gnuplot", script, NULL};
    pid_t child;
    posix_spawn_file_actions_t actions;
    int error = posix_spawn_file_actions_init(&actions);
    if (error)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "gnuplot: %s", strerror(error));
    /* In its folder: no name in the script can then break a string of gnuplot's language. */
    error = posix_spawn_file_actions_addchdir_np(&actions, figure->folder);
    if (!error)
        error = posix_spawnp(&child, "gnuplot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error == ENOENT)
        return sluice_fail(err, SLUICE_E_NOT_FOUND,
                           "figures are drawn by gnuplot, which is not installed (gnuplot-nox)");
    if (error)
        return sluice_fail(err, SLUICE_E_IO, "gnuplot: %s", strerror(error));
    int result;
    while (waitpid(child, &result, 0) < 0) {
        if (errno != EINTR)
            return sluice_fail(err, SLUICE_E_IO, "gnuplot: %s", strerror(errno));
    }
    if (!WIFEXITED(result) || WEXITSTATUS(result) != 0)
        return sluice_fail(err, SLUICE_E_IO, "gnuplot could not draw %s/%s", figure->folder,
                           script);
    return SLUICE_OK;
}

/* Gives the picture that gnuplot wrote its dark colours. */
static sluice_status finish_svg(const struct sluice_figure *figure, const char *suffix,
                                struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES], id[sizeof(figure->name) + 16];
    snprintf(path, sizeof(path), "%s/%s%s.svg", figure->folder, figure->name, suffix);
    snprintf(id, sizeof(id), "%s%s", figure->name, suffix);
    struct sluice_buf *buf = NULL;
    sluice_status status = sluice_file_read(path, MAX_SVG_BYTES, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    char *text = strndup((const char *)buf->data, buf->len), *finished = NULL;
    sluice_buf_unref(buf);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the figure %s", path);
    struct sluice_err why = {0};
    status = sluice_svg_finish(text, id, figure->title, &finished, &why);
    free(text);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", path, why.text);
    status = sluice_file_write_atomic(path, finished, strlen(finished), err);
    free(finished);
    return status;
}

/* The title may have two lines; gnuplot's strings in single quotes know no \n. */
static void print_title(const struct sluice_figure *figure)
{
    char line[sizeof(figure->title)];
    const char *end = strchr(figure->title, '\n');
    sluice_figure_label(line, sizeof(line), figure->title);
    fprintf(figure->script, "set title \"");
    if (end)
        fprintf(figure->script, "%.*s\\n%s", (int)(end - figure->title), line,
                line + (end - figure->title) + 1);
    else
        fprintf(figure->script, "%s", line);
    fprintf(figure->script, "\" noenhanced textcolor rgb '" SLUICE_INK "'\n");
}

static void print_outputs(const struct sluice_figure *figure)
{
    const struct {
        bool is_narrow;
        const char *terminal, *more, *suffix;
        unsigned scale, width, height;
    } outputs[] = {
        {false, "svg", "font 'sans-serif,14'", ".svg", 1, SLUICE_FIGURE_WIDTH, figure->height},
        {false, "pngcairo", "font 'sans,11' fontscale 2 linewidth 2 pointscale 2", ".png", 2,
         SLUICE_FIGURE_WIDTH, figure->height},
        {true, "svg", "font 'sans-serif,13'", "-narrow.svg", 1, SLUICE_FIGURE_NARROW_WIDTH,
         figure->narrow_height},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(outputs); i++) {
        fprintf(figure->script,
                "narrow = %d\nset terminal %s size %u,%u background rgb '" SLUICE_PAPER "' %s\n"
                "set output '%s%s'\n",
                outputs[i].is_narrow, outputs[i].terminal, outputs[i].width * outputs[i].scale,
                outputs[i].height * outputs[i].scale, outputs[i].more, figure->name,
                outputs[i].suffix);
        if (outputs[i].is_narrow && figure->narrow_xtics[0])
            fprintf(figure->script, "set xtics (%s)\n", figure->narrow_xtics);
        /* Beside the plot there is no room on a phone. */
        fprintf(figure->script, "%s textcolor rgb '" SLUICE_INK "' noenhanced\n%sunset output\n",
                outputs[i].is_narrow
                    ? "set key outside bottom center horizontal maxcols 2 Left reverse samplen 2 "
                      "height 0.5"
                    : "set key outside right top vertical Left reverse samplen 3 spacing 1.2",
                figure->plot_text);
    }
}

sluice_status sluice_figure_draw(struct sluice_figure *figure, struct sluice_err *err)
{
    fputc('\n', figure->plot);
    const bool is_short = ferror(figure->plot);
    if (fclose(figure->plot) != 0 || is_short) {
        figure->plot = NULL;
        sluice_figure_abandon(figure);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the figure %s", figure->name);
    }
    figure->plot = NULL;
    print_title(figure);
    print_outputs(figure);
    const bool is_bad = ferror(figure->script);
    const bool is_lost = fclose(figure->script) != 0 || is_bad;
    figure->script = NULL;
    sluice_figure_abandon(figure);
    if (is_lost)
        return sluice_fail(err, SLUICE_E_IO, "%s/%s.gp: %s", figure->folder, figure->name,
                           strerror(errno));
    sluice_status status = run_gnuplot(figure, err);
    if (status == SLUICE_OK)
        status = finish_svg(figure, "", err);
    if (status == SLUICE_OK)
        status = finish_svg(figure, "-narrow", err);
    return status;
}
