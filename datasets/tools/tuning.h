#ifndef SLUICE_DATASETS_TOOLS_TUNING_H
#define SLUICE_DATASETS_TOOLS_TUNING_H

/* Tuned constants of downloads (download.c). */

/* Milliseconds: the exponential backoff between two tries of a file stops doubling here.  A choice,
 * not a measurement.  Half: a server in trouble gets twice the requests; twice: a file is up to two
 * minutes late after the server is back. */
#define TUNING_MAX_BACKOFF_MS 60000

/* Seconds: a longer Retry-After counts as this, so that a wrong header does not stop the download.
 * A choice, not a measurement.  Half: a server that asks for an hour is asked too early; twice: a
 * file may wait for two hours. */
#define TUNING_MAX_RETRY_AFTER_S 3600

#endif
