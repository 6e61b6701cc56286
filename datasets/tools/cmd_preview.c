/* offload_dataset preview: a page of a recipe's draws, by the Python package
 * (sluice.contact_sheet). */

#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "datasets/tools/commands.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct preview_options {
    const char *recipe, *out;
    uint64_t num, draws, seed;
    bool is_val;
} given;

enum { RECIPE, OUTPUT };
static const char *const groups[] = {[RECIPE] = "recipe", [OUTPUT] = "output", NULL};

static const struct sluice_option options[] = {
    {.name = "recipe",
     .group = RECIPE,
     SLUICE_VALUE_STRING(given.recipe, "NAME"),
     .is_required = true,
     .help = "A preset such as timm-a2 (docs/RECIPES.md lists them), or a pipeline's text."},
    {.name = "val",
     .group = RECIPE,
     SLUICE_VALUE_FLAG(given.is_val),
     .help = "Run the validation pipeline of a preset."},
    {.name = "seed",
     .group = RECIPE,
     SLUICE_VALUE_UINT(given.seed, "N"),
     .help = "Seed of the draws."},
    {.name = "num",
     .group = OUTPUT,
     SLUICE_VALUE_UINT(given.num, "N"),
     SLUICE_RANGE(1, 1000),
     .help = "Images of a folder, spread evenly."},
    {.name = "draws",
     .group = OUTPUT,
     SLUICE_VALUE_UINT(given.draws, "N"),
     SLUICE_RANGE(1, 1000),
     .help = "Draws of each image."},
    {.name = "out",
     .short_name = 'o',
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.out, "PAGE"),
     .is_required = true,
     .help = "The page to write, HTML."},
};

/* In a wheel this program lies in the package, sluice/_bin, and the package's folder is given
 * first. */
static const char program[] = "import os, sys\n"
                              "folder = os.path.dirname(os.path.realpath(sys.argv.pop(1)))\n"
                              "if os.path.basename(folder) == '_bin':\n"
                              "    sys.path.insert(0, os.path.dirname(os.path.dirname(folder)))\n"
                              "try:\n"
                              "    from sluice import contact_sheet\n"
                              "except ImportError as error:\n"
                              "    sys.exit(f'offload_dataset preview: the page is made by the "
                              "Python package sluice: {error}; '\n"
                              "             'install its wheel')\n"
                              "contact_sheet.main()\n";

int sluice_dataset_cmd_preview(int argc, char **argv)
{
    given = (struct preview_options){.num = 6, .draws = 4};
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Write a page of what a recipe makes of some images, with the draws of each: "
                   "SOURCE is a folder of images, or one image.",
        .positional = "SOURCE",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    char self[SLUICE_MAX_PATH_BYTES] = "";
    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        self[0] = '\0'; /* as a program that lies in no package */
    char num[24], draws[24], seed[24];
    snprintf(num, sizeof(num), "--num=%llu", (unsigned long long)given.num);
    snprintf(draws, sizeof(draws), "--draws=%llu", (unsigned long long)given.draws);
    snprintf(seed, sizeof(seed), "--seed=%llu", (unsigned long long)given.seed);
    const char *const python[] = {"python3",  "-c",         program,
                                  self,       num,          draws,
                                  seed,       "--part",     given.is_val ? "val" : "train",
                                  "--recipe", given.recipe, "--out",
                                  given.out,  "--",         parsed.positional[0],
                                  NULL};
    execvp(python[0], (char **)python);
    sluice_log(SLUICE_LOG_ERROR, "python3, which makes the page: %s", strerror(errno));
    return 1;
}
