#ifndef SLUICE_LEND_DRIVER_H
#define SLUICE_LEND_DRIVER_H

#include "lend/page.h"

/* The page, where streams of a CUDA device can wait for it.  The driver's library is looked for at
 * run time: a build without CUDA lends, too.
 *
 * Threads: any; the device's context is made current for each call alone. */

struct sluice_lend_driver;

/* Retains the device's primary context and registers the page, which is borrowed until close.
 * SLUICE_E_UNSUPPORTED: the driver is not there, or lacks a function; SLUICE_E_INVALID: the
 * device does not exist. */
SLUICE_MUST_USE sluice_status sluice_lend_driver_open(int device, struct sluice_lend_page *page,
                                                      struct sluice_lend_driver **driver,
                                                      struct sluice_err *err);
void sluice_lend_driver_close(struct sluice_lend_driver *driver); /* NULL is allowed */

/* The stream waits until the mask is 0; while it captures a graph, the graph does. */
SLUICE_MUST_USE sluice_status sluice_lend_driver_point(struct sluice_lend_driver *driver,
                                                       void *stream, struct sluice_err *err);

#endif
