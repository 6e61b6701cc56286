#include "base/compiler.h"
#include "base/file.h"
#include "base/noted_alloc.h"
#include "cli/command.h"
#include "profiler/commands.h"

#include <jansson.h>

#include <stdlib.h>

int main(int argc, char **argv)
{
    sluice_open_standard_descriptors();
    static const struct sluice_command commands[] = {
        {"run", sluice_profile_cmd_run, "measure sizes and op times of a folder of images"},
        {"plan", sluice_profile_cmd_plan, "plan an epoch from cost tables, without running"},
        {"whatif", sluice_profile_cmd_whatif, "forecast an epoch on other machines, by mode"},
        {"size", sluice_profile_cmd_size, "what machines a number of GPUs needs"},
        {"fit", sluice_profile_cmd_fit, "fit op times to what is known before a fetch"},
        {"report", sluice_profile_cmd_report, "draw figures of cost tables and of runs"},
    };
    static const struct sluice_program program = {
        .name = "offload_profile",
        .summary = "Cost tables: where each sample shrinks, what each step costs, what follows.",
        .commands = commands,
        .num_commands = SLUICE_ARRAY_LEN(commands),
    };
    json_set_alloc_funcs(sluice_noted_malloc, free);
    return sluice_program_run(&program, argc, argv);
}
