#ifndef SLUICE_STORE_WEB_H
#define SLUICE_STORE_WEB_H

#include "store/http.h"
#include "store/root.h"

/* Private to lib/store: objects of a web server, found by a list file (web_list.h) in a folder
 * above them.
 *
 * Takes `http`, also on failure.  SLUICE_E_INVALID: a root that is not the URL of a file. */
SLUICE_MUST_USE sluice_status sluice_store_web_open(const struct sluice_store_options *options,
                                                    struct sluice_http *http,
                                                    struct sluice_store **store,
                                                    struct sluice_err *err);

/* Checks the root. */
SLUICE_MUST_USE sluice_status sluice_web_check_root(const char *root, struct sluice_err *err);

#endif
