#include "base/clock.h"
#include "base/error.h"
#include "base/process.h"
#include "host/unix_listener.h"
#include "lend/channel.h"
#include "lend/credit.h"
#include "lend/driver.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define DEFAULT_AT_MOST_MS 1000u
#define ANSWER_NS (SLUICE_LEND_ANSWER_MS * UINT64_C(1000000))

enum { MOST_CONNECTIONS = SLUICE_LEND_SLOTS + 16 }; /* those that are refused need one, too */

/* Its index is its slot.  Only the watchdog uses it. */
struct connection {
    int fd;           /* -1: none */
    bool is_borrower; /* it has said hello */
    uint64_t at_most_ns;
    uint32_t request;  /* by which it has the GPU, or 0 */
    uint64_t since_ns; /* first seen; before the hello: connected */
};

struct sluice_lend {
    pthread_mutex_t lock;
    bool is_stopped;
    bool is_waiting; /* the owner, for data */
    uint64_t waits_since_ns, waited_ns;
    uint64_t lent_ns;         /* the largest sum seen */
    uint64_t lent_at_wait_ns; /* when the wait of now began */
    uint64_t free_ns;         /* lent during waits that have ended */
    uint64_t taken_back;
    uint32_t num_borrowers;
    struct sluice_lend_credit credit;

    /* Fixed. */
    pid_t pid;
    struct sluice_lend_page *page;
    int memfd, wake_fd;
    struct sluice_unix_listener listener; /* closed by the watchdog */
    struct sluice_lend_driver *driver;    /* NULL: no device */
    uint32_t *uids;
    size_t num_uids;
    uint64_t at_most_ns;
    pthread_t watchdog;

    struct connection connections[MOST_CONNECTIONS];
    bool is_closing; /* under the lock */
};

/* --- sums; under the lock --- */

static uint64_t read_lent(struct sluice_lend *lend, uint64_t now_ns)
{
    /* Who gives is between clearing the bit and adding to the sum at times. */
    const uint64_t lent = sluice_lend_page_lent_ns(lend->page, now_ns);
    if (lent > lend->lent_ns)
        lend->lent_ns = lent;
    return lend->lent_ns;
}

static uint64_t read_waited(const struct sluice_lend *lend, uint64_t now_ns)
{
    return lend->waited_ns + (lend->is_waiting ? now_ns - lend->waits_since_ns : 0);
}

static void update_admission(struct sluice_lend *lend)
{
    if (lend->is_stopped)
        return;
    const uint64_t now = sluice_clock_ns();
    const bool may =
        sluice_lend_credit_update(&lend->credit, now, read_lent(lend, now), read_waited(lend, now));
    sluice_lend_page_admit(lend->page, may ? SLUICE_LEND_OPEN : SLUICE_LEND_SHUT);
}

/* --- the watchdog --- */

static void drop(struct sluice_lend *lend, unsigned slot)
{
    struct connection *c = &lend->connections[slot];
    sluice_process_end_socket(c->fd);
    if (c->is_borrower) {
        pthread_mutex_lock(&lend->lock);
        lend->taken_back += sluice_lend_page_release(lend->page, slot);
        lend->num_borrowers--;
        pthread_mutex_unlock(&lend->lock);
    }
    *c = (struct connection){.fd = -1};
}

static bool may_borrow(const struct sluice_lend *lend, uid_t uid)
{
    bool may = uid == geteuid();
    for (size_t i = 0; i < lend->num_uids; i++)
        may |= uid == lend->uids[i];
    return may;
}

/* Why this hello is refused. */
static sluice_status judge(const struct sluice_lend *lend, const struct ucred *peer, unsigned slot,
                           struct sluice_err *err)
{
    if (!may_borrow(lend, peer->uid))
        return sluice_fail(err, SLUICE_E_INVALID, "user %u may not borrow this GPU",
                           (unsigned)peer->uid);
    if (peer->pid == lend->pid)
        return sluice_fail(err, SLUICE_E_INVALID, "this process lends the GPU itself");
    if (slot >= SLUICE_LEND_SLOTS)
        return sluice_fail(err, SLUICE_E_INVALID, "%d borrowers are connected already",
                           SLUICE_LEND_SLOTS);
    return SLUICE_OK;
}

/* False: the connection is to end. */
static bool greet(struct sluice_lend *lend, unsigned slot)
{
    struct connection *c = &lend->connections[slot];
    struct sluice_lend_hello hello;
    struct ucred peer;
    struct sluice_err err = {{0}};
    sluice_status status = sluice_lend_read_hello(c->fd, &hello, &peer, &err);
    if (status == SLUICE_E_AGAIN || status == SLUICE_E_CLOSED)
        return status == SLUICE_E_AGAIN;
    if (status == SLUICE_OK)
        status = judge(lend, &peer, slot, &err);
    struct sluice_lend_answer answer = {.status = status};
    if (status != SLUICE_OK) {
        memcpy(answer.text, err.text, sizeof(answer.text) - 1);
        sluice_lend_send_answer(c->fd, &answer, -1);
        return false;
    }
    c->is_borrower = true;
    c->at_most_ns = lend->at_most_ns;
    if (hello.at_most_ms > 0 && hello.at_most_ms * (uint64_t)1000000 < c->at_most_ns)
        c->at_most_ns = hello.at_most_ms * (uint64_t)1000000;
    answer.slot = slot;
    answer.generation = sluice_lend_page_assign(lend->page, slot, hello.priority);
    pthread_mutex_lock(&lend->lock);
    lend->num_borrowers++;
    pthread_mutex_unlock(&lend->lock);
    return sluice_lend_send_answer(c->fd, &answer, lend->memfd);
}

static struct connection *find_place(struct sluice_lend *lend, size_t first)
{
    for (size_t i = first; i < MOST_CONNECTIONS; i++)
        if (lend->connections[i].fd < 0)
            return &lend->connections[i];
    return NULL;
}

/* Users who may not borrow get only places without a slot.  False: no place or no descriptor is left for
 * the next connection. */
static bool accept_all(struct sluice_lend *lend)
{
    for (size_t i = 0; i < MOST_CONNECTIONS && find_place(lend, 0); i++) {
        const int fd = sluice_unix_accept(&lend->listener);
        if (fd < 0)
            return errno == EAGAIN;
        struct ucred peer;
        socklen_t peer_len = sizeof(peer);
        const bool may = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0 &&
                         may_borrow(lend, peer.uid);
        struct connection *c = find_place(lend, may ? 0 : SLUICE_LEND_SLOTS);
        if (c)
            *c = (struct connection){
                .fd = fd, .at_most_ns = ANSWER_NS, .since_ns = sluice_clock_ns()};
        else
            sluice_process_end_socket(fd);
    }
    return false;
}

/* The limits are kept by this process's clock and memory, not by what borrowers write. */
static void check_limit(struct sluice_lend *lend, unsigned slot, uint64_t now_ns)
{
    struct connection *c = &lend->connections[slot];
    const uint32_t request = c->is_borrower ? sluice_lend_page_request(lend->page, slot) : 0;
    if (request != c->request) {
        c->request = request;
        c->since_ns = now_ns;
    } else if (!c->is_borrower && now_ns - c->since_ns > c->at_most_ns) {
        drop(lend, slot);
    } else if (request && now_ns - c->since_ns > c->at_most_ns) {
        pthread_mutex_lock(&lend->lock);
        lend->taken_back += sluice_lend_page_take_back(lend->page, slot, request);
        pthread_mutex_unlock(&lend->lock);
    }
}

/* Whether anybody is connected after it. */
static bool look_at_all(struct sluice_lend *lend, const struct pollfd *items)
{
    bool is_any = false;
    const uint64_t now = sluice_clock_ns();
    for (unsigned i = 0; i < MOST_CONNECTIONS; i++) {
        struct connection *c = &lend->connections[i];
        /* A borrower sends nothing after its hello, so it hung up or misbehaves. */
        if (c->fd >= 0 && items[i].fd == c->fd && items[i].revents &&
            (c->is_borrower || !greet(lend, i)))
            drop(lend, i);
        if (c->fd >= 0)
            check_limit(lend, i, now);
        is_any |= c->fd >= 0;
    }
    return is_any;
}

static void *watch(void *arg)
{
    struct sluice_lend *lend = arg;
    enum { LISTENER = MOST_CONNECTIONS, WAKE, NUM_ITEMS };
    struct pollfd items[NUM_ITEMS];
    uint32_t suspects = 0;
    bool is_any = false, can_accept = true;
    for (;;) {
        for (size_t i = 0; i < MOST_CONNECTIONS; i++)
            items[i] = (struct pollfd){.fd = lend->connections[i].fd, .events = POLLIN};
        items[LISTENER] =
            (struct pollfd){.fd = can_accept ? lend->listener.fd : -1, .events = POLLIN};
        items[WAKE] = (struct pollfd){.fd = lend->wake_fd, .events = POLLIN};
        poll(items, NUM_ITEMS,
             is_any || suspects || !can_accept ? SLUICE_LEND_TICK_MS : SLUICE_LEND_REST_MS);
        uint64_t woken;
        if (items[WAKE].revents && read(lend->wake_fd, &woken, sizeof(woken)) < 0)
            woken = 0;

        is_any = look_at_all(lend, items);
        pthread_mutex_lock(&lend->lock);
        const bool is_stopped = lend->is_stopped, is_closing = lend->is_closing;
        update_admission(lend);
        pthread_mutex_unlock(&lend->lock);
        if (is_closing)
            return NULL;
        if (is_stopped)
            sluice_lend_page_end(lend->page);
        else
            suspects = sluice_lend_page_reconcile(lend->page, suspects);
        if (is_stopped && lend->listener.fd >= 0)
            sluice_unix_close(&lend->listener);
        can_accept = true;
        if (items[LISTENER].revents && lend->listener.fd >= 0) {
            can_accept = accept_all(lend); /* else again after a tick */
            is_any = true;
        }
    }
}

/* --- the owner --- */

static sluice_status check_options(const struct sluice_lend_options *options,
                                   struct sluice_err *err)
{
    if (!options->path)
        return sluice_fail(err, SLUICE_E_INVALID, "lending a GPU needs the path of a socket");
    if (options->when > SLUICE_LEND_IDLE)
        return sluice_fail(err, SLUICE_E_INVALID, "when to lend: %d is unknown",
                           (int)options->when);
    if (options->when == SLUICE_LEND_SHARE && !(options->share > 0 && options->share < 1))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the share to lend is more than 0 and less than 1");
    if (options->device < -1)
        return sluice_fail(err, SLUICE_E_INVALID, "CUDA device %d: -1 is none", options->device);
    return SLUICE_OK;
}

/* Frees what is there; the thread is not. */
static void destroy(struct sluice_lend *lend)
{
    sluice_lend_driver_close(lend->driver);
    sluice_lend_page_clear(lend->page, lend->memfd);
    if (lend->wake_fd >= 0)
        close(lend->wake_fd);
    sluice_unix_close(&lend->listener);
    free(lend->uids);
    pthread_mutex_destroy(&lend->lock);
    free(lend);
}

static sluice_status start(struct sluice_lend *lend, const struct sluice_lend_options *options,
                           struct sluice_err *err)
{
    if (options->num_uids > 0) {
        lend->uids = calloc(options->num_uids, sizeof(*lend->uids));
        if (!lend->uids)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "lending a GPU: no memory");
        memcpy(lend->uids, options->uids, options->num_uids * sizeof(*lend->uids));
        lend->num_uids = options->num_uids;
    }
    lend->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lend->wake_fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "lending a GPU: %s", strerror(errno));
    sluice_status status = sluice_lend_page_create(&lend->page, &lend->memfd, err);
    if (status == SLUICE_OK && options->device >= 0)
        status = sluice_lend_driver_open(options->device, lend->page, &lend->driver, err);
    if (status == SLUICE_OK)
        status = sluice_unix_listen(options->path, options->num_uids > 0 ? 0666 : 0600,
                                    SLUICE_LEND_SLOTS, &lend->listener, err);
    if (status != SLUICE_OK)
        return status;
    sluice_lend_credit_init(&lend->credit, options->when, options->share, sluice_clock_ns());
    /* Signals are for the program's own threads, which may block them and wait for them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&lend->watchdog, NULL, watch, lend);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        sluice_unix_unlink(&lend->listener);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "lending a GPU: no thread: %s",
                           strerror(failed));
    }
    return SLUICE_OK;
}

sluice_status sluice_lend_open(const struct sluice_lend_options *options, struct sluice_lend **lend,
                               struct sluice_err *err)
{
    sluice_status status = check_options(options, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_lend *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "lending a GPU: no memory");
    pthread_mutex_init(&made->lock, NULL);
    made->pid = getpid();
    made->memfd = made->wake_fd = made->listener.fd = -1;
    made->at_most_ns =
        (options->at_most_ms ? options->at_most_ms : DEFAULT_AT_MOST_MS) * (uint64_t)1000000;
    for (size_t i = 0; i < MOST_CONNECTIONS; i++)
        made->connections[i].fd = -1;
    status = start(made, options, err);
    if (status == SLUICE_OK)
        *lend = made;
    else
        destroy(made);
    return status;
}

static void stop(struct sluice_lend *lend, bool is_closing)
{
    pthread_mutex_lock(&lend->lock);
    const bool was_stopped = lend->is_stopped;
    read_lent(lend, sluice_clock_ns());
    lend->is_stopped = true;
    lend->is_closing |= is_closing;
    if (!was_stopped)
        sluice_unix_unlink(&lend->listener);
    sluice_lend_page_end(lend->page);
    pthread_mutex_unlock(&lend->lock);
    const uint64_t one = 1;
    if (write(lend->wake_fd, &one, sizeof(one)) < 0)
        return; /* it is awake already */
}

void sluice_lend_stop(struct sluice_lend *lend)
{
    if (lend->pid == getpid())
        stop(lend, false);
}

void sluice_lend_close(struct sluice_lend *lend)
{
    if (!lend)
        return;
    if (lend->pid == getpid()) {
        stop(lend, true);
        pthread_join(lend->watchdog, NULL);
        for (unsigned i = 0; i < MOST_CONNECTIONS; i++)
            if (lend->connections[i].fd >= 0)
                drop(lend, i);
    } else {
        lend->driver = NULL; /* CUDA does not survive fork() */
    }
    destroy(lend);
}

sluice_status sluice_lend_point(struct sluice_lend *lend, void *stream, struct sluice_err *err)
{
    const sluice_status status = sluice_process_check(lend->pid, "lender", err);
    if (status != SLUICE_OK)
        return status;
    if (lend->driver)
        return sluice_lend_driver_point(lend->driver, stream, err);
    for (;;) {
        const uint32_t seen = atomic_load(&lend->page->changes);
        if (atomic_load(&lend->page->mask) == 0)
            return SLUICE_OK;
        sluice_lend_page_wait(lend->page, seen, UINT64_MAX);
    }
}

static void set_waiting(struct sluice_lend *lend, bool is_waiting)
{
    if (lend->pid != getpid())
        return;
    pthread_mutex_lock(&lend->lock);
    const uint64_t now = sluice_clock_ns(), lent = read_lent(lend, now);
    if (is_waiting && !lend->is_waiting) {
        lend->waits_since_ns = now;
        lend->lent_at_wait_ns = lent;
    } else if (!is_waiting && lend->is_waiting) {
        lend->waited_ns = read_waited(lend, now);
        lend->free_ns += lent - lend->lent_at_wait_ns;
    }
    lend->is_waiting = is_waiting;
    pthread_mutex_unlock(&lend->lock);
}

void sluice_lend_wait_begins(struct sluice_lend *lend)
{
    set_waiting(lend, true);
}

void sluice_lend_wait_ends(struct sluice_lend *lend)
{
    set_waiting(lend, false);
}

void sluice_lend_counters(struct sluice_lend *lend, struct sluice_lend_counters *counters)
{
    *counters = (struct sluice_lend_counters){0};
    if (lend->pid != getpid())
        return;
    pthread_mutex_lock(&lend->lock);
    const uint64_t lent = read_lent(lend, sluice_clock_ns());
    counters->lent_ns = lent;
    counters->cost_ns =
        lent - lend->free_ns - (lend->is_waiting ? lent - lend->lent_at_wait_ns : 0);
    counters->taken_back = lend->taken_back;
    counters->borrowers = lend->num_borrowers;
    pthread_mutex_unlock(&lend->lock);
    for (size_t i = 0; i < SLUICE_LEND_WAIT_BUCKETS; i++) {
        counters->waits[i] = atomic_load(&lend->page->waits[i]);
        counters->requests += counters->waits[i];
    }
    counters->waited_ns = atomic_load(&lend->page->waited_ns);
}

double sluice_lend_wait_ms(const struct sluice_lend_counters *counters, double part)
{
    const double wanted = part * (double)counters->requests;
    double before = 0;
    for (unsigned i = 0; i < SLUICE_LEND_WAIT_BUCKETS; i++) {
        const double here = (double)counters->waits[i];
        if (here > 0 && before + here >= wanted) {
            const double low = i == 0 ? 0 : (double)(1u << (i - 1)), high = (double)(1u << i);
            return (low + (high - low) * (wanted - before) / here) / 1000;
        }
        before += here;
    }
    return 0;
}
