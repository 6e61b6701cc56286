#ifndef SLUICE_COMPUTE_CLIENT_LOAD_CLIENT_H
#define SLUICE_COMPUTE_CLIENT_LOAD_CLIENT_H

#include "base/error.h"
#include "datasets/manifest.h"
#include "pipeline/pipeline.h"
#include "rpc/rpc_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The connection to one storage server: who it is, what it has, how fast the link
 * to it is.
 *
 * A server that cannot be reached is tried again with growing waits for
 * `retry_for_s` seconds; one that answers but does not fit (another protocol,
 * pipeline or dataset) is refused at once, with both sides' names for it.
 *
 * Threads: all functions from any thread. */

struct sluice_client;

struct sluice_client_options {
    const char *target; /* "host:port" */
    double retry_for_s; /* 0: never try again */
};

/* What the server says of itself. */
struct sluice_server_info {
    char name[64];
    char dataset_id[33];
    uint64_t num_samples;
    double prep_cores;      /* that preprocessing may use; 0: unknown */
    uint32_t max_in_flight; /* >= 1 */
    uint64_t max_image_pixels, max_file_bytes;
    uint32_t forms;      /* bit (1 << enum sluice_form): what it can send */
    bool has_jpeg_index; /* and reads no more of a JPEG in it than its ops need */
};

SLUICE_MUST_USE sluice_status sluice_client_create(const struct sluice_client_options *options,
                                                   struct sluice_client **client,
                                                   struct sluice_err *err);
/* Every stream on its channel must be destroyed before.  NULL is allowed. */
void sluice_client_destroy(struct sluice_client *client);

/* Ends every wait with SLUICE_E_CLOSED, now and later. */
void sluice_client_stop(struct sluice_client *client);

struct sluice_rpc_channel *sluice_client_channel(struct sluice_client *client); /* borrowed */
const char *sluice_client_target(const struct sluice_client *client);
double sluice_client_retry_for_s(const struct sluice_client *client);

/* Whether a call that ended so may go better at another time. */
bool sluice_client_is_passing(enum sluice_rpc_code code);

/* Says hello, once.  dataset_id "": any.  `pipeline` is compared by fingerprint.
 * *is_passing: the failure is worth a retry. */
SLUICE_MUST_USE sluice_status sluice_client_hello_once(struct sluice_client *client,
                                                       const struct sluice_pipeline *pipeline,
                                                       const char *dataset_id,
                                                       struct sluice_server_info *info,
                                                       bool *is_passing, struct sluice_err *err);

/* The same, with retries. */
SLUICE_MUST_USE sluice_status sluice_client_hello(struct sluice_client *client,
                                                  const struct sluice_pipeline *pipeline,
                                                  const char *dataset_id,
                                                  struct sluice_server_info *info,
                                                  struct sluice_err *err);

/* Everything the server's dataset holds, with retries.  The manifest's id is checked against the
 * one the server sent. */
SLUICE_MUST_USE sluice_status sluice_client_list(struct sluice_client *client,
                                                 struct sluice_manifest **manifest,
                                                 struct sluice_err *err);

struct sluice_client_probed {
    double link_bytes_per_s;
    double receive_s_per_byte; /* CPU time of the thread that received them */
};

/* Has the server send as much as takes a tenth of a second or so, but no more than max_bytes at a
 * time. */
SLUICE_MUST_USE sluice_status sluice_client_probe(struct sluice_client *client, uint64_t max_bytes,
                                                  struct sluice_client_probed *probed,
                                                  struct sluice_err *err);

/* CPU time that the server's process has taken since its start; 0: it does not say. */
SLUICE_MUST_USE sluice_status sluice_client_server_cpu(struct sluice_client *client, double *cpu_s,
                                                       struct sluice_err *err);

#endif
