#ifndef SLUICE_PLAN_MODE_H
#define SLUICE_PLAN_MODE_H

#include <stdbool.h>

/* The modes, and the one name that each has in options, tables, figures and texts.
 *
 * A mode says which ops run on the storage node.  A planner has the name of the mode that uses its
 * plan.  Older and shorter names are accepted, too.
 *
 * Threads: pure functions. */

enum sluice_mode {
    SLUICE_MODE_LOCAL,
    SLUICE_MODE_NOOFF,
    SLUICE_MODE_ALLOFF,
    SLUICE_MODE_PILOFF,
    SLUICE_MODE_SOPHON,
    SLUICE_MODE_AUTO,
    SLUICE_NUM_MODES,
};

/* "remote_auto". */
const char *sluice_mode_name(enum sluice_mode mode);

/* Accepts the name, the name without "remote_", and the older names "no-off", "all-off",
 * "resize-off", "smartoff", "remote_smartoff", "greedy" and "lp".  False: unknown name. */
bool sluice_mode_parse(const char *text, enum sluice_mode *mode);

/* Whether a plan decides the choices: true for remote_sophon and remote_auto. */
bool sluice_mode_is_planned(enum sluice_mode mode);

/* The name of the mode that sluice_mode_parse() finds; `text` itself if it is unknown. */
const char *sluice_mode_canonical(const char *text);

/* The names, in the order above, and the other accepted names; each list ends with NULL. */
extern const char *const sluice_mode_names[];
extern const char *const sluice_mode_aliases[];

#endif
