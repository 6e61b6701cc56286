#ifndef SLUICE_COMPUTE_CLIENT_OPTIONS_LOADER_OPTIONS_H
#define SLUICE_COMPUTE_CLIENT_OPTIONS_LOADER_OPTIONS_H

#include "compute_client/loader/batch/batch.h"
#include "compute_client/loader/order/order.h"
#include "compute_client/options/options.h"

/* The options that a loader reads out of its settings, in the words of compute_client/loader;
 * offload_train, which is on the other side of sluice.h, needs none of it.
 *
 * Threads: pure functions. */

/* Which rows of the epochs are this process's. */
struct sluice_order_options sluice_options_order(const struct sluice_options *options);

enum sluice_on_error sluice_options_on_error(const struct sluice_options *options);

#endif
