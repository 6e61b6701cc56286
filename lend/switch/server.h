#ifndef SLUICE_LEND_SWITCH_SERVER_H
#define SLUICE_LEND_SWITCH_SERVER_H

#include "lend/switch/staff.h"

/* Clients' connections and what becomes of their requests, in one thread that polls.
 *
 *     READS --complete--> QUEUED --order--> RUNS --note--> SENDS --sent--> READS
 *
 * Inference requests are run one at a time, in the order in which they became complete, by the first
 * worker that is idle.  One training runs at a time, until its connection ends or another training is
 * asked for.
 *
 * A slow client holds nobody up: a request that is not complete, or a reply that is not taken, in
 * --timeout ends the connection.  Where all connections are in use, a new one takes the place of the
 * one that waits longest for its client, if for a second or more. */

/* Listens, starts the workers, and when they are ready prints the port and serves until
 * sluice_quit_requested().  A request that runs then is answered.  Connections end with the process.
 * SLUICE_E_IO: the port is taken, or a worker does not start. */
SLUICE_MUST_USE sluice_status switch_serve(struct switch_staff *staff, struct switch_board *board,
                                           struct sluice_err *err);

#endif
