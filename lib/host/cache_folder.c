#include "host/cache_folder.h"

#include "base/text.h"

#include <stdlib.h>

bool sluice_cache_folder(char folder[SLUICE_MAX_PATH_BYTES])
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && cache[0] == '/')
        return sluice_print(folder, SLUICE_MAX_PATH_BYTES, "%s/sluice", cache);
    return home && home[0] == '/' &&
           sluice_print(folder, SLUICE_MAX_PATH_BYTES, "%s/.cache/sluice", home);
}
