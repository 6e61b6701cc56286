#ifndef SLUICE_STORAGE_SERVER_FETCH_STREAM_H
#define SLUICE_STORAGE_SERVER_FETCH_STREAM_H

#include "op/pipeline.h"
#include "rpc/rpc.h"
#include "storage_server/fetch/options.h"
#include "storage_server/observe/watchdog.h"
#include "storage_server/side_thread.h"
#include "storage_server/work/workers.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Private to the Fetch service (fetch.h shows the way of a request): its streams and their jobs.
 * Each file calls only files below it:
 *
 *     fetch/fetch.c         what arrives from the client; creates and stops the service
 *         |
 *     fetch/schedule.c      takes requests from the backlog and hands them to the workers
 *         |
 *     fetch/work.c          runs one job, on a worker
 *         |       \
 *         |     fetch/answer.c    reads the file and makes the reply
 *         |
 *     fetch/send.c          puts replies that are ready into messages
 *         |
 *     fetch/hold.c          a timer thread for replies that wait for others
 *         |
 *     fetch/trace.c         the spans of samples that are traced
 *         |
 *     fetch/stream.c        the lifetime and the end of a stream
 *
 * Files below fetch/schedule.c call back up by fetch->advance (sluice_fetch_stream_advance()).
 *
 * Lock order: sluice_fetch.lock before a stream's.  Neither is held while workers, rpc, stats or a
 * callback are called; the memory budget's lock is taken under them (server.h has all locks).
 *
 * Threads: any. */

struct sluice_grant;
struct sluice_memory_holder;
struct sluice_rpc_call;
struct sluice_sample_list;
struct sluice_preparer;

/* The phase of a stream.
 *
 *     NEW --FetchOpen--> OPEN --the client half-closes--> DRAINING
 *      |                  |                                   |  all requests are answered
 *      '------------------'-----------------------------------'---------------------> OVER
 *           lost, refused, or the server has stopped and answered all requests
 *
 * A client that half-closes before its FetchOpen is DRAINING, too. */
enum sluice_fetch_phase {
    SLUICE_FETCH_NEW,
    SLUICE_FETCH_OPEN,
    SLUICE_FETCH_DRAINING, /* the client asks for no more */
    SLUICE_FETCH_OVER,     /* nothing more is sent */
};

/* Whether a thread schedules the stream's requests. */
enum sluice_fetch_dispatch {
    SLUICE_FETCH_IDLE,
    SLUICE_FETCH_DISPATCHING,
    SLUICE_FETCH_AGAIN, /* and another thread came meanwhile, so it goes round again */
};

/* The work of a worker for a request.  PREP does the last two; if PREP is full or memory is short,
 * the file is sent instead. */
enum sluice_fetch_work {
    SLUICE_FETCH_FILE, /* read it */
    SLUICE_FETCH_ROWS, /* read the rows that it needs, of an indexed JPEG */
    SLUICE_FETCH_CUT,  /* cut the JPEG to its crop's MCUs */
    SLUICE_FETCH_OPS,  /* run the requested ops */
};

/* The requests of one message that wait to be scheduled. */
struct sluice_fetch_backlog {
    struct sluice_fetch_backlog *next;
    struct sluice_wire_sample_request *requests; /* owned */
    size_t num_requests, taken;
    size_t charged; /* bytes of the memory budget */
    uint64_t received_ns;
};

/* One request, handed from queue to queue until its reply is sent:
 *
 *     backlog --> PREP or IO --> ready --> sent
 *          \         ^
 *           parked --'         while PREP and IO are full or memory is short
 *
 * If files come over a network, a job for PREP goes to IO first, which reads its file. */
struct sluice_fetch_job {
    struct sluice_job job;
    struct sluice_fetch_job *next;
    struct sluice_fetch_stream *stream;        /* a reference */
    struct sluice_wire_sample_request request; /* its split at most num_ops */
    enum sluice_fetch_work work;
    uint64_t reserved_ns;           /* CPU time of the grant */
    bool has_sample;                /* the file is read */
    struct sluice_sample sample;    /* if has_sample */
    uint64_t io_cpu_ns, io_work_ns; /* of reading the file */
    size_t estimated_bytes;         /* of the reply; exact once the reply is made */
    size_t charged;                 /* bytes of the memory budget; 0: not yet */
    uint64_t accepted_ns;
    struct sluice_wire_sample_reply reply;
    struct sluice_watched watched;    /* while a worker has it */
    struct sluice_late_answer answer; /* if the watchdog made this job to answer for another */
};

struct sluice_fetch_stream {
    pthread_mutex_t lock;
    struct sluice_fetch_backlog *backlog_first, **backlog_end;
    size_t backlog_requests;                     /* in all of the backlog */
    struct sluice_fetch_job *parked;             /* taken from it, but no queue had room */
    struct sluice_fetch_job *ready, **ready_end; /* answered, not yet sent */
    size_t ready_bytes;
    uint64_t ready_since_ns;           /* of the first ready job */
    bool is_held;                      /* ready replies wait for others */
    size_t num_working;                /* taken from the backlog and not yet answered */
    size_t in_flight, in_flight_bytes; /* taken from the backlog and not yet sent */
    size_t sending;                    /* those of in_flight that a thread sends now */
    int64_t credit_bytes;              /* payload bytes that may still go; < 0: overdrawn */
    enum sluice_fetch_phase phase;
    enum sluice_fetch_dispatch dispatch;
    bool is_paused;
    bool is_waiting; /* the waiter below or the memory holder waits */

    atomic_uint refs;           /* the call, each job, a waiter in line, the list while stopping */
    struct sluice_fetch *fetch; /* constant from here */
    struct sluice_rpc_call *call;      /* a reference */
    struct sluice_work_client *client; /* joined */
    struct sluice_grant *grant;        /* a reference; NULL: no limits */
    struct sluice_waiter waiter;
    struct sluice_memory_holder *memory;
    struct sluice_sample_list
        *list; /* a reference; this and the next three set by FetchOpen; NULL before */
    struct sluice_pipeline *pipeline;
    unsigned num_ops;
    bool wants_file_image;
    size_t client_row; /* of the client table */

    struct sluice_fetch_stream *next, **link; /* under the fetch's lock */
    struct sluice_fetch_stream *stop_next;    /* sluice_fetch_stop()'s own */
    struct sluice_fetch_stream *due_next;     /* fetch/hold.c's own */
};

struct sluice_fetch {
    pthread_mutex_t lock;
    struct sluice_fetch_stream *streams;
    bool is_holding; /* a stream may hold replies back; signalled by `holder.changed` */

    atomic_bool is_stopping;
    atomic_uint_fast64_t cut_ns;         /* a stream lost from then on counts as cut off by us */
    atomic_uint_fast64_t num_cut;        /* unanswered requests of such streams */
    struct sluice_fetch_options options; /* constant from here */
    /* sluice_fetch_stream_advance(), for the files below fetch/schedule.c; called without a lock */
    void (*advance)(struct sluice_fetch_stream *stream);
    struct sluice_side_thread holder;
};

/* --- fetch/stream.c --- */

/* The path of the job's sample; "" if its number is beyond the list. */
const char *sluice_fetch_path(const struct sluice_fetch_job *job);

bool sluice_fetch_stream_is_over(struct sluice_fetch_stream *s);

struct sluice_fetch_stream *sluice_fetch_stream_ref(struct sluice_fetch_stream *s);
void sluice_fetch_stream_unref(struct sluice_fetch_stream *s);

/* Ends the stream from the server's side.  Jobs that still run are dropped at their end. */
void sluice_fetch_stream_end(struct sluice_fetch_stream *s, enum sluice_rpc_code code,
                             const char *text);
/* The same, if all requests are answered and no more will come. */
void sluice_fetch_stream_end_if_answered(struct sluice_fetch_stream *s);

/* --- fetch/hold.c --- */

/* Starts the timer.  It calls fetch->advance for each stream whose replies have
 * been held back for hold_ns. */
SLUICE_MUST_USE sluice_status sluice_fetch_hold_open(struct sluice_fetch *fetch,
                                                     struct sluice_err *err);
void sluice_fetch_hold_close(struct sluice_fetch *fetch);
/* Wakes the timer: a stream holds replies back (is_held). */
void sluice_fetch_hold(struct sluice_fetch *fetch);

/* --- fetch/send.c --- */

/* Takes over a job with a complete reply, and hashes the reply.  Call it on the thread that made
 * the reply, whose cache holds the payload. */
void sluice_fetch_make_ready(struct sluice_fetch_job *job);
/* Frees a job whose request another job has answered. */
void sluice_fetch_job_free(struct sluice_fetch_job *job);
/* Sends ready replies.  Holds small replies back so that several share a message (like Nagle's
 * algorithm, RFC 896, for packets), since a message costs each node at least 0.1 ms of CPU time, as
 * much as copying 300 kB:
 *   - while an earlier message is on its way, until on_writable comes here again;
 *   - while other requests of the stream are worked on, for hold_ns at most. */
void sluice_fetch_flush(struct sluice_fetch_stream *s);

/* --- fetch/trace.c --- */

/* Writes the spans of a job whose reply is sent now.  Its request is traced, and there is a tracer.
 */
void sluice_fetch_trace(const struct sluice_fetch_job *job, uint64_t now_ns);

/* --- fetch/answer.c --- */

/* Does the job need a worker of PREP? */
static inline bool sluice_fetch_needs_prep(const struct sluice_fetch_job *job)
{
    return job->work >= SLUICE_FETCH_CUT;
}
/* The number of ops to run. */
static inline unsigned sluice_fetch_split(const struct sluice_fetch_job *job)
{
    return job->work == SLUICE_FETCH_OPS ? job->request.split : 0;
}

/* Reads the job's file into job->sample.  False: it cannot be read, and the reply is an error. */
bool sluice_fetch_read(struct sluice_fetch_job *job);
/* Makes the reply to the job's request, or an error reply; uses the file if it was read already. */
void sluice_fetch_answer(struct sluice_fetch_job *job, struct sluice_preparer *preparer);
/* Makes the reply an error; `text` has no path. */
void sluice_fetch_fail(struct sluice_fetch_job *job, sluice_status status, const char *text);
uint32_t sluice_fetch_to_us(uint64_t ns); /* at most UINT32_MAX */

/* --- fetch/work.c --- */

/* The fn of each job; runs on a worker, or on the thread that cancels the job.  The job is then
 * ready, handed on to PREP, or freed because the watchdog has answered. */
void sluice_fetch_run_job(struct sluice_job *base, enum sluice_job_fate fate, void *worker);
/* Bytes of the memory budget for the job and its reply, with a payload of this size. */
size_t sluice_fetch_charge_for(const struct sluice_fetch_job *job, size_t payload_bytes);
/* The stream is over: its jobs that no worker has taken yet leave the queues. */
void sluice_fetch_cancel(struct sluice_fetch_stream *s);

/* --- fetch/schedule.c --- */

/* Call it after any change that may let replies be sent or requests be scheduled.  Sends ready
 * replies, hands requests to the workers as far as the limits and the queues allow, pauses the
 * reading while too many requests wait, and ends the stream when all are answered.  One thread at a
 * time schedules the requests of a stream; a second thread makes the first go round again, and
 * returns. */
void sluice_fetch_stream_advance(struct sluice_fetch_stream *s);
bool sluice_fetch_on_room(struct sluice_waiter *waiter); /* the stream's waiter's fn */
void sluice_fetch_on_memory(void *stream);               /* the memory holder's on_room */
/* Frees the backlog and gives back its memory charge. */
void sluice_fetch_free_backlog(struct sluice_fetch_stream *s, struct sluice_fetch_backlog *backlog);

#endif
