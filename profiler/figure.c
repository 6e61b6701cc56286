#include "profiler/figure.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

sluice_status sluice_figure_open(struct sluice_figure *figure, const char *folder, const char *name,
                                 struct sluice_err *err)
{
    if (strlen(folder) >= sizeof(figure->folder) || strlen(name) >= sizeof(figure->name))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s/%.60s: a path too long", folder, name);
    strcpy(figure->folder, folder);
    strcpy(figure->name, name);
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s.gp", folder, name);
    figure->script = fopen(path, "we");
    if (!figure->script)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    fprintf(figure->script, "set encoding utf8\nset grid back linecolor rgb '#dddddd'\n"
                            "set border 3\nset tics nomirror\n"
                            "set key outside below center horizontal\n");
    return SLUICE_OK;
}

static sluice_status run_gnuplot(const struct sluice_figure *figure, struct sluice_err *err)
{
    char script[4096];
    snprintf(script, sizeof(script), "%s/%s.gp", figure->folder, figure->name);
    char *argv[] = {(char *)"gnuplot", script, NULL};
    pid_t child;
    const int error = posix_spawnp(&child, "gnuplot", NULL, NULL, argv, environ);
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
        return sluice_fail(err, SLUICE_E_IO, "gnuplot could not draw %s", script);
    return SLUICE_OK;
}

sluice_status sluice_figure_draw(struct sluice_figure *figure, const char *plot,
                                 struct sluice_err *err)
{
    static const struct {
        const char *terminal, *suffix;
    } outputs[] = {{"svg size 900,560 dynamic font 'sans,13' background rgb 'white'", "svg"},
                   {"pngcairo size 900,560 font 'sans,11'", "png"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(outputs); i++)
        fprintf(figure->script, "set terminal %s\nset output '%s/%s.%s'\n%s\nunset output\n",
                outputs[i].terminal, figure->folder, figure->name, outputs[i].suffix, plot);
    const int is_bad = ferror(figure->script);
    if (fclose(figure->script) != 0 || is_bad) {
        figure->script = NULL;
        return sluice_fail(err, SLUICE_E_IO, "%s/%s.gp: %s", figure->folder, figure->name,
                           strerror(errno));
    }
    figure->script = NULL;
    return run_gnuplot(figure, err);
}
