#include "base/clock.h"
#include "base/cond.h"
#include "base/error.h"
#include "base/process.h"
#include "lend/channel.h"

#include <stdlib.h>
#include <unistd.h>

struct sluice_borrower {
    pthread_mutex_t lock;
    pthread_cond_t given;
    bool is_taken; /* by one of the threads, from take, also while that waits, to give */
    /* The generation of the next take, or of the one of now.  It grows by 1 with each that ends,
     * whether the borrower gives or the owner takes back. */
    uint32_t generation;
    bool has_it; /* take has returned */

    /* Fixed. */
    pid_t pid;
    int fd;
    struct sluice_lend_page *page;
    unsigned slot;
};

sluice_status sluice_borrower_open(const struct sluice_borrower_options *options,
                                   struct sluice_borrower **borrower, struct sluice_err *err)
{
    if (!options->path)
        return sluice_fail(err, SLUICE_E_INVALID, "borrowing a GPU needs the path of a socket");
    struct sluice_borrower *b = calloc(1, sizeof(*b));
    if (!b)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "borrowing a GPU: no memory");
    const struct sluice_lend_hello hello = {SLUICE_LEND_MAGIC, SLUICE_LEND_VERSION,
                                            options->priority, options->at_most_ms};
    const sluice_status status =
        sluice_lend_connect(options->path, &hello, &b->fd, &b->page, &b->slot, &b->generation, err);
    if (status != SLUICE_OK) {
        free(b);
        return status;
    }
    b->pid = getpid();
    pthread_mutex_init(&b->lock, NULL);
    sluice_cond_init(&b->given);
    *borrower = b;
    return SLUICE_OK;
}

void sluice_borrower_close(struct sluice_borrower *b)
{
    if (!b)
        return;
    if (b->pid == getpid()) {
        if (b->has_it)
            sluice_lend_page_give(b->page, b->slot, b->generation);
        sluice_process_end_socket(b->fd);
        pthread_cond_destroy(&b->given);
        pthread_mutex_destroy(&b->lock);
    }
    sluice_lend_page_clear(b->page, -1);
    free(b);
}

/* Waits until the page allows it. */
static sluice_status wait_to_take(struct sluice_borrower *b, uint64_t since_ns, uint64_t until_ns)
{
    sluice_status status;
    for (;;) {
        const uint32_t seen = atomic_load(&b->page->changes);
        /* The socket says it at once if the owner was killed; the page would not. */
        status = sluice_lend_is_hung_up(b->fd)
                     ? SLUICE_E_CLOSED
                     : sluice_lend_page_take(b->page, b->slot, b->generation, since_ns);
        if (status != SLUICE_E_AGAIN || sluice_clock_ns() >= until_ns)
            break;
        sluice_lend_page_wait(b->page, seen, until_ns);
    }
    if (status != SLUICE_OK)
        sluice_lend_page_leave(b->page, b->slot, b->generation);
    return status;
}

sluice_status sluice_borrower_take(struct sluice_borrower *b, int timeout_ms, uint32_t *ticket,
                                   struct sluice_err *err)
{
    sluice_status status = sluice_process_check(b->pid, "borrower", err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t since = sluice_clock_ns();
    const uint64_t until = timeout_ms < 0 ? UINT64_MAX : since + (uint64_t)timeout_ms * 1000000u;
    pthread_mutex_lock(&b->lock);
    bool has_time = true;
    while (b->is_taken && has_time)
        has_time = sluice_cond_wait_until(&b->given, &b->lock, until);
    if (b->is_taken) {
        pthread_mutex_unlock(&b->lock);
        return sluice_fail(err, SLUICE_E_AGAIN, "another thread has the GPU for longer than %d ms",
                           timeout_ms);
    }
    b->is_taken = true;
    pthread_mutex_unlock(&b->lock);

    status = wait_to_take(b, since, until);

    pthread_mutex_lock(&b->lock);
    b->has_it = b->is_taken = status == SLUICE_OK;
    if (status == SLUICE_OK)
        *ticket = b->generation;
    else
        pthread_cond_signal(&b->given);
    pthread_mutex_unlock(&b->lock);
    if (status == SLUICE_E_AGAIN)
        return sluice_fail(err, status, "the GPU was not lent within %d ms", timeout_ms);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "the lender of the GPU has ended");
    return SLUICE_OK;
}

bool sluice_borrower_give(struct sluice_borrower *b, uint32_t ticket)
{
    if (b->pid != getpid())
        return false;
    pthread_mutex_lock(&b->lock);
    bool is_given = false;
    if (b->has_it && ticket == b->generation) {
        is_given = sluice_lend_page_give(b->page, b->slot, ticket);
        /* Else it was taken back, or the owner has ended. */
        b->generation = (b->generation + 1) & (UINT32_MAX >> 2);
        b->has_it = b->is_taken = false;
        pthread_cond_signal(&b->given);
    }
    pthread_mutex_unlock(&b->lock);
    return is_given;
}
