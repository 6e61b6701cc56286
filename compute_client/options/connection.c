#include "compute_client/options/connection.h"

sluice_status sluice_connection_check(const struct sluice_connection_options *options,
                                      struct sluice_err *err)
{
    const struct {
        const char *option, *file;
    } files[] = {
        {"ca", options->ca},
        {"cert", options->cert},
        {"key", options->key},
        {"token-file", options->token_file},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
        if (files[i].file && !files[i].file[0])
            return sluice_fail(err, SLUICE_E_INVALID, "--%s: an empty name", files[i].option);
    }
    const char *needs_tls = options->ca            ? "--ca"
                            : options->cert        ? "--cert"
                            : options->key         ? "--key"
                            : options->server_name ? "--server-name"
                                                   : NULL;
    if (needs_tls && !options->has_tls)
        return sluice_fail(err, SLUICE_E_INVALID, "%s is for --tls, which is not given", needs_tls);
    if ((options->cert != NULL) != (options->key != NULL))
        return sluice_fail(err, SLUICE_E_INVALID, "--cert and --key go together");
    return SLUICE_OK;
}
