#ifndef SLUICE_COMPUTE_CLIENT_FETCH_CLIENT_H
#define SLUICE_COMPUTE_CLIENT_FETCH_CLIENT_H

#include "base/error.h"
#include "compute_client/loader/batch/live.h"
#include "datasets/manifest/manifest.h"
#include "host/machine.h"
#include "op/pipeline.h"
#include "rpc/rpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The connection to one storage server, and all calls to it except Fetch: Hello, ListSamples,
 * ListSizes, Stats and Probe.
 *
 * If the server cannot be reached, a call is retried with exponential backoff (retry.h) for
 * `retry_for_s` seconds.  The first failure, and each new cause, is logged as a warning at once,
 * and the recovery as a line.  For Hello the warning has our words for the cause
 * (sluice_rpc_why_unreachable()); gRPC's are debug lines.  If the server refuses the call (another
 * protocol, pipeline or dataset), the call is made SLUICE_CLIENT_REFUSALS times in all, because a
 * flipped bit in the request has the same answer; then it fails, and the error gives both sides'
 * values.
 *
 * Threads: all functions from any thread. */

/* The number of refusals in a row after which a call fails. */
#define SLUICE_CLIENT_REFUSALS 3

struct sluice_client;
struct sluice_wire_image_size;
struct sluice_wire_stats;

struct sluice_client_options {
    const char *target;                      /* "host:port"; copied, like the other texts */
    double retry_for_s;                      /* 0: never try again */
    const struct sluice_rpc_client_tls *tls; /* files and names; NULL: not encrypted; copied */
    const char *token_file;                  /* NULL: the variable SLUICE_TOKEN, or none */
    const char *advice; /* remedy if it cannot be reached, for the first warning; NULL: none */
    struct sluice_live *live; /* borrowed; NULL: no live counters */
};

/* The server's description of itself. */
struct sluice_server_info {
    char name[64];
    char dataset_id[33];
    uint64_t num_samples;
    double prep_cores;      /* cores that preprocessing may use; 0: unknown */
    uint32_t max_in_flight; /* >= 1 */
    uint64_t max_image_pixels, max_file_bytes;
    uint32_t forms; /* bit (1 << enum sluice_form): the server can send this form */
    /* The server has an index of its JPEGs, and decodes no more of an indexed JPEG than the ops
     * need. */
    bool has_jpeg_index;
    bool has_hashes;            /* it sends hashes of lists, replies and samples, to be checked */
    bool has_jpeg_crop_restart; /* it can put restart markers into JPEG crops */
    uint64_t list_hash;         /* of its list, sluice_manifest_list_hash(); 0: unknown */
    bool has_listed_id;         /* samples can be requested by their number in the server's list */
    bool has_file_image;        /* its replies can say the size of the file's image */
    struct sluice_machine machine; /* boot 0: unknown */
};

SLUICE_MUST_USE sluice_status sluice_client_create(const struct sluice_client_options *options,
                                                   struct sluice_client **client,
                                                   struct sluice_err *err);
/* Destroy every stream on its channel first.  NULL is allowed. */
void sluice_client_destroy(struct sluice_client *client);

/* Ends every current and later wait and call with SLUICE_E_CLOSED, and the streams on its
 * channel. */
void sluice_client_stop(struct sluice_client *client);
bool sluice_client_is_stopped(struct sluice_client *client);

/* Sets the largest message that is accepted; a larger one ends its call before its bytes are read.
 * The default is 8 MiB: enough for every call except Fetch.  This connects again, because gRPC
 * fixes the bound with the channel, so no call may be under way. */
SLUICE_MUST_USE sluice_status sluice_client_bound_messages(struct sluice_client *client,
                                                           size_t max_bytes,
                                                           struct sluice_err *err);

struct sluice_rpc_channel *sluice_client_channel(struct sluice_client *client); /* borrowed */
const char *sluice_client_target(const struct sluice_client *client);
double sluice_client_retry_for_s(const struct sluice_client *client);

/* Report that the server is away since at_ns, for `cause`, which names it; or that it is back.
 * They log it (outage.h), and set the state in sluice_live.  A stopped client logs nothing.
 * has_others: other replicas may serve, and this one is retried without end. */
void sluice_client_tell_lost(struct sluice_client *client, uint64_t at_ns, const char *cause,
                             bool has_others);
void sluice_client_tell_back(struct sluice_client *client);

/* Whether the failure is transient: the same call may succeed later. */
bool sluice_client_is_passing(enum sluice_rpc_code code);

/* Calls Hello, once.  dataset_id "" accepts any dataset.  `pipeline` is compared by fingerprint.
 * *is_passing: the failure is transient. */
SLUICE_MUST_USE sluice_status sluice_client_hello_once(struct sluice_client *client,
                                                       const struct sluice_pipeline *pipeline,
                                                       const char *dataset_id,
                                                       struct sluice_server_info *info,
                                                       bool *is_passing, struct sluice_err *err);

/* SLUICE_E_INVALID if the server does not accept a sample's number in its own list, and so cannot
 * serve a shard of a dataset. */
SLUICE_MUST_USE sluice_status sluice_client_check_listed_id(struct sluice_client *client,
                                                            const struct sluice_server_info *info,
                                                            struct sluice_err *err);

/* SLUICE_E_INVALID if the server's replies cannot say the size of the file's image, which geometry
 * needs. */
SLUICE_MUST_USE sluice_status sluice_client_check_file_image(struct sluice_client *client,
                                                             const struct sluice_server_info *info,
                                                             struct sluice_err *err);

/* The same as hello_once, with retries. */
SLUICE_MUST_USE sluice_status sluice_client_hello(struct sluice_client *client,
                                                  const struct sluice_pipeline *pipeline,
                                                  const char *dataset_id,
                                                  struct sluice_server_info *info,
                                                  struct sluice_err *err);

/* Lists the dataset of a server, with retries; `server` is the result of Hello.  A list that breaks
 * off continues at the next row, and each row renews retry_for_s.  Rows must be numbered without a
 * gap, and their number and dataset id must be those of Hello; else the list fails at once, with
 * both sides' values.  SLUICE_E_STALE: the server's list has changed since Hello. */
SLUICE_MUST_USE sluice_status sluice_client_list(struct sluice_client *client,
                                                 const struct sluice_server_info *server,
                                                 struct sluice_manifest **manifest,
                                                 struct sluice_err *err);

/* Gets the sizes of rows [first_row, first_row + num) of a server's list. */
typedef void sluice_client_sizes_fn(void *ctx, uint64_t first_row,
                                    const struct sluice_wire_image_size *sizes, size_t num);

/* Asks the server for the sizes of all images of its list, with retries, and calls on_sizes for
 * parts of it, by rising rows.  The server reads the headers of files whose sizes its list does not
 * say, which may take minutes.  is_upright: with orientations.  SLUICE_E_INVALID: the server reads
 * no headers, or its list has changed since Hello; SLUICE_E_IO: also if it gets no further for two
 * minutes. */
SLUICE_MUST_USE sluice_status sluice_client_read_sizes(struct sluice_client *client,
                                                       const struct sluice_server_info *server,
                                                       bool is_upright,
                                                       sluice_client_sizes_fn *on_sizes, void *ctx,
                                                       struct sluice_err *err);

struct sluice_client_probed {
    double link_bytes_per_s;
    double receive_s_per_byte; /* CPU time of the thread that received them */
};

/* Measures the link: the server sends growing numbers of bytes, up to max_bytes at a time, until
 * they take 60 ms.  On a link that breaks off repeatedly the rate is that of the bytes that
 * arrived; if these are too few, the probe fails after two seconds at most. */
SLUICE_MUST_USE sluice_status sluice_client_probe(struct sluice_client *client, uint64_t max_bytes,
                                                  struct sluice_client_probed *probed,
                                                  struct sluice_err *err);

/* The server's counters, in one attempt without retries; the caller clears *stats. */
SLUICE_MUST_USE sluice_status sluice_client_stats(struct sluice_client *client, unsigned timeout_ms,
                                                  struct sluice_wire_stats *stats,
                                                  struct sluice_err *err);

/* CPU time of the server's process since its start; 0 if the server does not report it. */
SLUICE_MUST_USE sluice_status sluice_client_server_cpu(struct sluice_client *client, double *cpu_s,
                                                       struct sluice_err *err);

#endif
