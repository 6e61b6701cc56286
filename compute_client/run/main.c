#include "base/file.h"
#include "base/log.h"
#include "base/noted_alloc.h"
#include "base/quit.h"
#include "cli/cli.h"
#include "compute_client/options/options_table.h"
#include "compute_client/run/launch.h"
#include "compute_client/run/lend_probe.h"
#include "compute_client/run/run.h"
#include "crypto/secret.h"
#include "rpc/rpc.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    sluice_open_standard_descriptors();
    if (argc == 3 && strcmp(argv[1], SLUICE_LEND_PROBE_FLAG) == 0)
        return sluice_lend_probe_main(argv[2]);
    struct sluice_options options;
    struct sluice_loader_settings settings;
    int exit_code = 0;
    if (!sluice_options_parse(argc, argv, &options, &settings, &exit_code))
        return exit_code;
    static char program[40] = "offload_train";
    if (options.is_launched)
        snprintf(program, sizeof(program), "offload_train[%llu]", (unsigned long long)options.rank);
    sluice_log_set_program(program);
    if (options.gpus > 1 && !options.is_launched)
        return sluice_launch((unsigned)options.gpus, argv);
    sluice_rpc_process_init();
    json_set_alloc_funcs(sluice_noted_malloc, free);
    if (options.key || options.token_file || getenv("SLUICE_TOKEN"))
        sluice_secret_keep_from_core_dumps();
    struct sluice_err err = {0};
    const sluice_status status = sluice_quit_init(&err);
    return status == SLUICE_OK ? sluice_run(&options, &settings)
                               : sluice_cli_exit_code(status, &err);
}
