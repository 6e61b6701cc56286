#include "base/cli.h"
#include "base/log.h"
#include "base/noted_alloc.h"
#include "base/quit.h"
#include "compute_client/run/run.h"
#include "libsluice/options.h"
#include "rpc/rpc.h"

#include <jansson.h>

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct sluice_options options;
    int exit_code = 0;
    if (!sluice_options_parse(argc, argv, &options, &exit_code))
        return exit_code;
    sluice_log_set_program("offload_train");
    sluice_rpc_process_init();
    json_set_alloc_funcs(sluice_noted_malloc, free);
    struct sluice_err err = {0};
    const sluice_status status = sluice_quit_init(&err);
    return status == SLUICE_OK ? sluice_run(&options) : sluice_cli_exit_code(status, &err);
}
