#ifndef SLUICE_STORAGE_SERVER_ISOLATION_DECODERS_H
#define SLUICE_STORAGE_SERVER_ISOLATION_DECODERS_H

#include "base/error.h"
#include "op/pipeline.h"
#include "storage_server/isolation/decoder_protocol.h"

#include <stddef.h>
#include <stdint.h>

/* Decoder processes, as their workers use them (--isolate-decoders): each worker of PREP has one,
 * which runs the ops of a sample from its file on.  So pictures are parsed there, and one that
 * makes a parser crash, hang, take memory or follow orders costs the decoder and its own reply.
 *
 *     worker: file -> region, request --> decoder: ops --> region, reply --> worker: checks, copies
 *
 * The promise: whatever a decoder does, run() ends within the time limit with a sample that the
 * pipeline can make (its pixels are the decoder's word), or with a status.  A decoder that ends,
 * hangs or sends what cannot be is killed, counted, named in the log with its sample, and replaced.
 *
 *     SLUICE_E_IO         the decoder ended at this sample, which may be chance: try again
 *
 *     SLUICE_E_CORRUPT    several did (suspects.h); or the ops say so, as they do in this process
 *
 *     SLUICE_E_AGAIN      there is no decoder now: send the file; or the ops say so
 *
 * A decoder that hangs counts among the several if it had a CPU for a tenth of its time.
 *
 * Threads: a decoder belongs to one thread at a time; the rest any. */

struct sluice_buf_pool;
struct sluice_decoder;
struct sluice_decoders;
struct sluice_prep_limits;

/* decoder_process.h calls this, with a child of this process, the fork server.  Takes the socket to
 * it, also on failure. */
SLUICE_MUST_USE sluice_status sluice_decoders_create(int control, pid_t forks,
                                                     struct sluice_decoders **decoders,
                                                     struct sluice_err *err);
/* Before the first decoder.  `on_gone` is called once, from any thread and without a lock, if the
 * fork server is gone: no decoder starts any more, and the samples of those that ended with it are
 * under suspicion without a reason. */
void sluice_decoders_on_gone(struct sluice_decoders *decoders, void (*on_gone)(void *ctx),
                             void *ctx);
/* After the last decoder; the fork server ends, and is waited for.  NULL is allowed. */
void sluice_decoders_close(struct sluice_decoders *decoders);

/* Limits of decoders for a server of these options: no region is smaller than its longest file. */
struct sluice_decoder_limits
sluice_decoder_limits_for(uint64_t max_image_pixels, uint64_t max_file_bytes, uint64_t live_bytes);

struct sluice_decoder_options {
    struct sluice_decoders *decoders; /* borrowed */
    struct sluice_decoder_limits limits;
    uint64_t timeout_ns;               /* for one sample */
    struct sluice_buf_pool *buffers;   /* borrowed; for results; NULL: plain memory */
    struct sluice_prep_limits *worker; /* borrowed; those of the worker, for its decoder, too */
};

/* Starts one and tries it.  SLUICE_E_IO: it ended at that, and how. */
SLUICE_MUST_USE sluice_status sluice_decoder_create(const struct sluice_decoder_options *options,
                                                    struct sluice_decoder **decoder,
                                                    struct sluice_err *err);
void sluice_decoder_destroy(struct sluice_decoder *decoder); /* NULL is allowed */

struct sluice_decoder_work {
    enum sluice_form form; /* a plain one: the ops run, and that is all */
    unsigned end;          /* the split */
    struct sluice_form_options options;
    const char *path; /* of the sample, for the log; borrowed */
    /* Set by run(): decoders ended at the sample, now or before; its file should not go to other
     * parsers in its place. */
    bool has_ended;
};

/* Does to the sample, a file at split 0, what sluice_sample_encode() does; on failure the sample
 * stays the file, too.  CPU time of the decoder counts as the calling thread's
 * (sluice_clock_add_cpu_ns). */
SLUICE_MUST_USE sluice_status sluice_decoder_run(struct sluice_decoder *decoder,
                                                 const struct sluice_pipeline *pipeline,
                                                 struct sluice_decoder_work *work,
                                                 struct sluice_sample *sample,
                                                 struct sluice_err *err);

pid_t sluice_decoder_pid(const struct sluice_decoder *decoder); /* 0: there is none now */

/* How decoders ended that should not have. */
enum sluice_decoder_end {
    SLUICE_DECODER_CRASHED, /* by a signal of its own doing, or it exited */
    SLUICE_DECODER_KILLED,  /* SIGKILL: as when memory is short */
    SLUICE_DECODER_HUNG,    /* killed by its worker after the time limit */
    SLUICE_DECODER_LIED,    /* killed by its worker after a reply that cannot be */
    SLUICE_NUM_DECODER_ENDS,
};

struct sluice_decoder_counts {
    uint64_t running; /* now */
    uint64_t ends[SLUICE_NUM_DECODER_ENDS];
    uint64_t missed; /* samples that found no decoder and went as files */
};
struct sluice_decoder_counts sluice_decoders_count(struct sluice_decoders *decoders);

#endif
