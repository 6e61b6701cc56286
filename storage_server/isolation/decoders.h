#ifndef SLUICE_STORAGE_SERVER_ISOLATION_DECODERS_H
#define SLUICE_STORAGE_SERVER_ISOLATION_DECODERS_H

#include "base/error.h"
#include "op/pipeline.h"
#include "storage_server/isolation/decoder_protocol.h"

#include <stddef.h>
#include <stdint.h>

/* Decoder processes, from the view of their workers (--isolate-decoders): each worker of PREP has
 * one, which runs the ops of a sample, beginning with the decoding of its file.  So images are
 * parsed outside the server.  An image that crashes the parser, makes it hang, exhausts its memory
 * or takes it over costs only the decoder and its own reply.
 *
 *     worker: file -> region, request --> decoder: ops --> region, reply --> worker: checks, copies
 *
 * The promise: whatever a decoder does, run() ends within the time limit with a status, or with a
 * sample that the pipeline can make (its pixels are not checked).  A decoder that dies, hangs or
 * sends an impossible reply is killed, counted, named in the log with its sample, and replaced.
 *
 *     SLUICE_E_IO         the decoder died at this sample, perhaps by chance: try again
 *     SLUICE_E_CORRUPT    several decoders died at it (suspects.h); or the status of the ops
 *     SLUICE_E_AGAIN      no decoder at the moment: send the file; or the status of the ops
 *
 * A decoder that hangs counts as dead at the sample only if it had a CPU for a tenth of its time.
 *
 * Threads: a decoder belongs to one thread at a time; the rest any. */

struct sluice_buf_pool;
struct sluice_decoder;
struct sluice_decoders;
struct sluice_prep_limits;

/* For decoder_process.h alone.  `forks` is the fork server, a child of this process.  Takes the
 * socket `control` to it, also on failure. */
SLUICE_MUST_USE sluice_status sluice_decoders_create(int control, pid_t forks,
                                                     struct sluice_decoders **decoders,
                                                     struct sluice_err *err);
/* Call it before the first decoder.  `on_gone` is called once, from any thread and without a lock,
 * if the fork server has died: no decoder can start any more, and the samples of the decoders that
 * died with it are suspected without a reason. */
void sluice_decoders_on_gone(struct sluice_decoders *decoders, void (*on_gone)(void *ctx),
                             void *ctx);
/* Call it after the last decoder.  Ends the fork server and waits for it.  NULL is allowed. */
void sluice_decoders_close(struct sluice_decoders *decoders);

/* The limits of decoders for a server of these options.  A region holds the longest allowed file.
 */
struct sluice_decoder_limits
sluice_decoder_limits_for(uint64_t max_image_pixels, uint64_t max_file_bytes, uint64_t live_bytes);

struct sluice_decoder_options {
    struct sluice_decoders *decoders; /* borrowed */
    struct sluice_decoder_limits limits;
    uint64_t timeout_ns;               /* for one sample */
    struct sluice_buf_pool *buffers;   /* borrowed; for results; NULL: plain memory */
    struct sluice_prep_limits *worker; /* borrowed; the worker's limits, which its decoder gets */
};

/* Starts a decoder and tests it.  SLUICE_E_IO: it died at the test; err says how. */
SLUICE_MUST_USE sluice_status sluice_decoder_create(const struct sluice_decoder_options *options,
                                                    struct sluice_decoder **decoder,
                                                    struct sluice_err *err);
void sluice_decoder_destroy(struct sluice_decoder *decoder); /* NULL is allowed */

struct sluice_decoder_work {
    enum sluice_form form; /* a plain form: only the ops are run */
    unsigned end;          /* the split */
    struct sluice_form_options options;
    bool reads_image; /* also into sample->image; the work fails if that cannot be read */
    const char *path; /* of the sample, for the log; borrowed */
    /* Set by run(): decoders have died at the sample; do not give its file to another parser
     * instead. */
    bool has_ended;
};

/* The same as sluice_sample_encode(), in the decoder, for a sample that is a file at split 0. 
 * After a failure the sample is still the file.  The decoder's CPU time counts as the calling
 * thread's (sluice_clock_add_cpu_ns). */
SLUICE_MUST_USE sluice_status sluice_decoder_run(struct sluice_decoder *decoder,
                                                 const struct sluice_pipeline *pipeline,
                                                 struct sluice_decoder_work *work,
                                                 struct sluice_sample *sample,
                                                 struct sluice_err *err);

pid_t sluice_decoder_pid(const struct sluice_decoder *decoder); /* 0: not running at the moment */

/* The causes of an unexpected end of a decoder. */
enum sluice_decoder_end {
    SLUICE_DECODER_CRASHED, /* a signal that it caused itself, or an exit */
    SLUICE_DECODER_KILLED,  /* SIGKILL, for example when memory is short */
    SLUICE_DECODER_HUNG,    /* its worker killed it after the time limit */
    SLUICE_DECODER_LIED,    /* its worker killed it after an impossible reply */
    SLUICE_NUM_DECODER_ENDS,
};

struct sluice_decoder_counts {
    uint64_t running; /* now */
    uint64_t ends[SLUICE_NUM_DECODER_ENDS];
    uint64_t missed; /* samples sent as files because no decoder was running */
};
struct sluice_decoder_counts sluice_decoders_count(struct sluice_decoders *decoders);

#endif
