#include "plan/mode.h"

#include "base/compiler.h"

#include <stddef.h>
#include <string.h>

const char *const sluice_mode_names[] = {
    [SLUICE_MODE_LOCAL] = "local",
    [SLUICE_MODE_NOOFF] = "remote_nooff",
    [SLUICE_MODE_ALLOFF] = "remote_alloff",
    [SLUICE_MODE_PILOFF] = "remote_piloff",
    [SLUICE_MODE_SOPHON] = "remote_sophon",
    [SLUICE_MODE_AUTO] = "remote_auto",
    [SLUICE_NUM_MODES] = NULL,
};

const char *const sluice_mode_aliases[] = {
    "nooff",    "no-off",          "alloff", "all-off", "piloff", "resize-off", "sophon",
    "smartoff", "remote_smartoff", "greedy", "auto",    "lp",     NULL,
};

static const enum sluice_mode alias_modes[] = {
    SLUICE_MODE_NOOFF,  SLUICE_MODE_NOOFF,  SLUICE_MODE_ALLOFF, SLUICE_MODE_ALLOFF,
    SLUICE_MODE_PILOFF, SLUICE_MODE_PILOFF, SLUICE_MODE_SOPHON, SLUICE_MODE_SOPHON,
    SLUICE_MODE_SOPHON, SLUICE_MODE_SOPHON, SLUICE_MODE_AUTO,   SLUICE_MODE_AUTO,
};

_Static_assert(SLUICE_ARRAY_LEN(sluice_mode_aliases) == SLUICE_ARRAY_LEN(alias_modes) + 1,
               "a mode for each alias");

const char *sluice_mode_name(enum sluice_mode mode)
{
    return sluice_mode_names[mode];
}

bool sluice_mode_is_planned(enum sluice_mode mode)
{
    return mode == SLUICE_MODE_SOPHON || mode == SLUICE_MODE_AUTO;
}

bool sluice_mode_parse(const char *text, enum sluice_mode *mode)
{
    for (int m = 0; m < SLUICE_NUM_MODES; m++) {
        if (strcmp(text, sluice_mode_names[m]) == 0) {
            *mode = (enum sluice_mode)m;
            return true;
        }
    }
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(alias_modes); i++) {
        if (strcmp(text, sluice_mode_aliases[i]) == 0) {
            *mode = alias_modes[i];
            return true;
        }
    }
    return false;
}

const char *sluice_mode_canonical(const char *text)
{
    enum sluice_mode mode;
    return sluice_mode_parse(text, &mode) ? sluice_mode_name(mode) : text;
}
