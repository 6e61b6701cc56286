#ifndef SLUICE_TESTS_COMPUTE_CLIENT_FAKE_SERVER_H
#define SLUICE_TESTS_COMPUTE_CLIENT_FAKE_SERVER_H

#include "base/buf.h"
#include "datasets/manifest/manifest.h"
#include "op/pipeline.h"
#include "rpc/rpc.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A storage server in this process that behaves as badly as it is told to: it answers in reverse
 * order, loses streams, repeats itself, and so on.  The samples it makes are true ones. */

#define FAKE_PIPELINE "decode,random_resized_crop=9,hflip=0.5,to_tensor,normalize=imagenet"
#define FAKE_ROW_BYTES (9 * 9 * 3)
#define FAKE_SERVER_CPU_S 1.25

/* Small PNGs in memory. */
struct fake_dataset {
    struct sluice_buf **files;
    struct sluice_manifest *manifest;
    size_t num_samples;
};
/* Sample `corrupt` (SIZE_MAX: none) is cut in the middle. */
void fake_dataset_make(struct fake_dataset *dataset, size_t num_samples, size_t corrupt);
void fake_dataset_clear(struct fake_dataset *dataset);

/* Runs the program's tests over such a dataset and FAKE_PIPELINE; its exit code. */
int fake_dataset_main(struct fake_dataset *dataset, size_t num_samples,
                      struct sluice_pipeline **pipeline);

enum fake_action {
    FAKE_SEND,
    FAKE_KEEP,  /* never answers this request */
    FAKE_ABORT, /* ends the stream in place of answering */
    FAKE_END,   /* the same without a failure */
};

struct fake_server_options {
    const struct fake_dataset *dataset;
    const char *host;         /* NULL: 127.0.0.1 */
    int port;                 /* 0: a free one */
    const char *dataset_id;   /* NULL: the true one */
    uint64_t fingerprint_xor; /* another version's pipelines */
    unsigned max_in_flight;   /* 0: 1000 */
    double prep_cores;        /* 0: not said, but 3 workers */
    unsigned lose_after;      /* replies of a stream, then it ends with UNAVAILABLE ... */
    unsigned lose_times;      /* ... in so many streams */
    unsigned garble_after;    /* as lose_after, by a reply that is no message */
    unsigned garble_times;
    unsigned reduce_every;             /* every n-th reply is the file, whatever was asked for */
    unsigned repeat_every;             /* every n-th reply comes twice */
    unsigned stray_every;              /* after every n-th comes one that nobody asked for */
    unsigned again_every;              /* every n-th reply is SLUICE_E_AGAIN or SLUICE_E_CLOSED */
    unsigned cut_every;                /* every n-th reply says that its payload is a JPEG crop */
    unsigned wrong_kind_every;         /* every n-th reply says f32 but has the file's bytes */
    enum sluice_rpc_code refuse_fetch; /* not OK: every stream ends at once with it */
    /* Looks at each reply, on the server's one completion thread, and may change it.  NULL: none.
     */
    enum fake_action (*meddle)(void *ctx, const struct sluice_wire_sample_request *request,
                               struct sluice_wire_sample_reply *reply);
    void *meddle_ctx;
    bool has_no_listed_id;  /* as a server that does not know it */
    bool has_no_file_image; /* the same */
    bool has_hashes;
    /* On the way from a server with hashes: every n-th reply's payload, or its message, has one bit
     * flipped; every n-th request names another sample when it arrives. */
    unsigned flip_payload_every, flip_message_every, flip_request_every;
    unsigned flip_hello_times;  /* the first so many replies to Hello have a bit flipped */
    unsigned list_lose_after;   /* messages of a list, then it ends with UNAVAILABLE ... */
    unsigned list_lose_times;   /* ... in so many lists */
    unsigned list_damage_times; /* so many second messages of a list have a bit flipped */
    const char *list_fields; /* what the list says of fields; its rows have none.  NULL: nothing */
    unsigned list_extra;     /* messages with rows beyond the last */
    bool ignores_credit;
    bool lists_sizes; /* row i of its list is an image of 100 + i x sizes_height pixels */
    uint32_t sizes_height;
    unsigned sizes_hang_at; /* it never knows that row; 0: none */
    unsigned sizes_extra;   /* rows beyond the last, in the last reply */
};

struct fake_server_stats {
    uint64_t hellos, lists, list_rows;
    uint64_t streams, requests, replies, message_bytes;
    uint64_t most_in_flight;
    uint64_t most_unconsumed; /* payload sent beyond what had been granted by then, and before */
};

struct fake_server;
struct fake_server *fake_server_start(const struct fake_server_options *options);
const char *fake_server_target(const struct fake_server *server); /* "127.0.0.1:port" */
struct fake_server_stats fake_server_stats(struct fake_server *server);
void fake_server_stop(struct fake_server *server);

#endif
