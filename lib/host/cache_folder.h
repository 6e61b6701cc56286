#ifndef SLUICE_HOST_CACHE_FOLDER_H
#define SLUICE_HOST_CACHE_FOLDER_H

#include "base/file.h"

#include <stdbool.h>

/* The user's folder for files that can be made again: $XDG_CACHE_HOME/sluice, else ~/.cache/sluice.  A
 * relative path in either variable is ignored (XDG Base Directory Specification).  False: neither
 * names a folder.  It may not exist yet.
 *
 * Threads: any, as getenv(). */
bool sluice_cache_folder(char folder[SLUICE_MAX_PATH_BYTES]);

#endif
