#ifndef SLUICE_LEND_H
#define SLUICE_LEND_H

/* Lends a GPU: a trainer (the owner) stops between its layers while another process (a borrower)
 * answers a request on the same GPU.
 *
 * Owner and borrowers share a page of memory with a mask of 32 bits, one for each borrower.  The
 * owner's CUDA stream waits at every point (cuStreamWaitValue32) until the mask is 0.  A borrower
 * needs no answer from the owner: it sets its bit, launches its work, waits for it, and clears the
 * bit.  A unix socket passes the page to processes of allowed users.
 *
 * A thread of the owner takes back what a borrower keeps too long, or left behind when it died.  It
 * blocks all signals.  Waiting changes when the owner's work runs, never its order or results.
 *
 * Borrowers of one owner trust each other: each can write the whole page.  What they can do to the
 * owner is to delay it (docs/LENDING.md).
 *
 * C11 and C++. */

#include <sluice/sluice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- the owner --- */

struct sluice_lend;

/* When borrowers get the GPU. */
enum sluice_lend_when {
    SLUICE_LEND_ALWAYS, /* at once */
    SLUICE_LEND_SHARE,  /* as long as they have had less than `share` of the time */
    SLUICE_LEND_IDLE,   /* as long as they have had less than the owner waited for data */
};

struct sluice_lend_options {
    /* The unix socket's.  It is created, and removed at close or stop; a dead owner's is replaced.
     * SLUICE_E_INVALID: too long, something else is there, or somebody lends there. */
    const char *path;
    /* Users (besides this process's own) whose processes may borrow. */
    const uint32_t *uids;
    size_t num_uids;
    enum sluice_lend_when when;
    double share; /* of SLUICE_LEND_SHARE: > 0 and < 1 */
    /* Milliseconds after which a borrower loses the GPU; 0: 1000. */
    uint32_t at_most_ms;
    /* By CUDA's number in this process.  -1: none; then sluice_lend_point() itself waits. */
    int device;
};

/* Starts lending.  The device's primary context is used, as PyTorch and CUDA's runtime do.
 * SLUICE_E_UNSUPPORTED: the CUDA driver is not there, or lacks a function; SLUICE_E_INVALID: an
 * option, or the device does not exist. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_lend_open(const struct sluice_lend_options *options,
                                                          struct sluice_lend **lend,
                                                          struct sluice_err *err);
/* Ends lending: the mask is 0 from then on.  No stream may have a point before it, and no CUDA graph
 * that will be launched may hold one.  NULL is allowed. */
SLUICE_API void sluice_lend_close(struct sluice_lend *lend);
/* Lets no borrower in from then on, and lets every point pass.  The page stays, so graphs with
 * points still run.  For programs that end without close. */
SLUICE_API void sluice_lend_stop(struct sluice_lend *lend);

/* Adds a point to the stream, a cudaStream_t of the device, which may be capturing a graph.  Work that
 * is queued behind the point starts when no borrower has the GPU.  Any thread. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_lend_point(struct sluice_lend *lend, void *stream,
                                                           struct sluice_err *err);

/* The owner waits for data between these.  One thread at a time. */
SLUICE_API void sluice_lend_wait_begins(struct sluice_lend *lend);
SLUICE_API void sluice_lend_wait_ends(struct sluice_lend *lend);

/* Lends the GPU on which the loader decodes: its lanes stop at points, and the owner waits for data
 * while sluice_loader_next() waits.  Then the reports of epochs (sluice_loader_stats()) tell what was
 * lent in them.  Before the first epoch; `lend` is borrowed until the loader is closed.
 * SLUICE_E_INVALID: an epoch was started before. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_loader_set_lend(struct sluice_loader *loader,
                                                                struct sluice_lend *lend,
                                                                struct sluice_err *err);

#define SLUICE_LEND_WAIT_BUCKETS 24
struct sluice_lend_counters {
    uint64_t requests;   /* that got the GPU */
    uint64_t lent_ns;    /* that one borrower or several had it, up to now */
    uint64_t cost_ns;    /* of these, while the owner did not wait for data */
    uint64_t taken_back; /* from a borrower that died, or kept the GPU too long */
    uint32_t borrowers;  /* that are connected */
    /* Requests by how long they waited for permission: bucket i counts those below 2^i microseconds
     * that bucket i - 1 does not count; the last one all others. */
    uint64_t waits[SLUICE_LEND_WAIT_BUCKETS];
    uint64_t waited_ns; /* the sum of these */
};
/* Sums since open.  Any thread. */
SLUICE_API void sluice_lend_counters(struct sluice_lend *lend,
                                     struct sluice_lend_counters *counters);
/* Milliseconds below which `part` (0.5, 0.99) of the waits lie, interpolated within a bucket. */
SLUICE_API double sluice_lend_wait_ms(const struct sluice_lend_counters *counters, double part);

/* Whether streams of the device can wait for a page of memory: tries it.  Where they cannot, this
 * call or the end of the process may hang: make it in a child process with a time limit.
 * SLUICE_E_UNSUPPORTED says why not. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_lend_probe(int device, struct sluice_err *err);

/* --- a borrower --- */

struct sluice_borrower;

struct sluice_borrower_options {
    const char *path; /* the owner's */
    /* While a borrower of a higher priority has the GPU or waits for it, this one waits. */
    uint32_t priority;
    /* After which the owner may take the GPU back, if that is less than its own limit; 0: the owner's
     * limit. */
    uint32_t at_most_ms;
};

/* Connects.  SLUICE_E_NOT_FOUND: nobody lends at this path; SLUICE_E_INVALID: the owner refuses this
 * user, or this process (its own), or has 32 borrowers; SLUICE_E_CORRUPT: some other program answers
 * there; SLUICE_E_IO: it does not answer within 5 s. */
SLUICE_API SLUICE_MUST_USE sluice_status
sluice_borrower_open(const struct sluice_borrower_options *options,
                     struct sluice_borrower **borrower, struct sluice_err *err);
SLUICE_API void sluice_borrower_close(struct sluice_borrower *borrower); /* NULL is allowed */

/* Takes the GPU.  Then launch the work, wait until it is done, and give the GPU back with the
 * ticket.  Waits up to timeout_ms (< 0: without limit) while the owner lends nothing, or for a
 * borrower of a higher priority.  SLUICE_E_AGAIN: timeout; SLUICE_E_CLOSED: the owner has ended, so
 * nothing on the GPU waits.  One request at a time: a second thread waits for the first.  After
 * fork(), SLUICE_E_INVALID in the child. */
SLUICE_API SLUICE_MUST_USE sluice_status sluice_borrower_take(struct sluice_borrower *borrower,
                                                              int timeout_ms, uint32_t *ticket,
                                                              struct sluice_err *err);
/* False: the owner took it back before, or has ended. */
SLUICE_API bool sluice_borrower_give(struct sluice_borrower *borrower, uint32_t ticket);

#ifdef __cplusplus
}
#endif

#endif
