#include "rpc/exchange.h"

#include "base/clock.h"
#include "base/log.h"
#include "rpc/grpc_library.h"

#include <grpc/slice.h>

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gRPC's frame before each message: compressed flag and length. */
#define FRAME_HEADER_BYTES 5

static _Thread_local struct rpc_queue *current_queue;

/* --- tags and batches --- */

void rpc_hand_over(struct rpc_queue *queue, struct rpc_tag *tag)
{
    assert(!tag->is_under_way);
    tag->is_under_way = true;
    atomic_fetch_add_explicit(&queue->hand_overs, 1, memory_order_release);
}

void rpc_start_batch(struct rpc_queue *queue, grpc_call *call, const grpc_op *ops, size_t num_ops,
                     struct rpc_tag *tag)
{
    rpc_hand_over(queue, tag);
    const grpc_call_error error = grpc_call_start_batch(call, ops, num_ops, tag, NULL);
    if (error != GRPC_CALL_OK) {
        sluice_log(SLUICE_LOG_ERROR, "gRPC refused an operation: %s",
                   grpc_call_error_to_string(error));
        abort();
    }
}

void exchange_start(struct exchange *x, const grpc_op *ops, size_t num_ops, struct rpc_tag *tag)
{
    /* Relaxed: only the completion thread acts on the count, and the hand-over publishes. */
    atomic_fetch_add_explicit(&x->pending, 1, memory_order_relaxed);
    rpc_start_batch(x->queue, x->call, ops, num_ops, tag);
}

void exchange_settle(struct exchange *x)
{
    if (atomic_fetch_sub_explicit(&x->pending, 1, memory_order_acq_rel) == 1)
        x->side->on_end(x);
}

/* --- the queue's thread --- */

static void write_next(struct exchange *x);
static void look_after(struct exchange *x);

static void run_woken(struct rpc_queue *queue)
{
    while (queue->woken_first) {
        struct exchange *x = queue->woken_first;
        queue->woken_first = x->next_woken;
        if (!queue->woken_first)
            queue->woken_last = NULL;
        look_after(x);
        exchange_settle(x);
    }
}

static uint64_t ask(const struct exchange *x, size_t len)
{
    return x->queue->pace(x->queue->pace_ctx, x->client, len + FRAME_HEADER_BYTES);
}

static void leave_pace(struct exchange *x)
{
    struct rpc_queue *queue = x->queue;
    if (!x->is_waiting)
        return;
    struct exchange **link = &queue->paced_first, *before = NULL;
    while (*link != x) {
        before = *link;
        link = &before->next_paced;
    }
    *link = x->next_paced;
    if (queue->paced_last == x)
        queue->paced_last = before;
    x->is_waiting = false;
}

/* Asks for the oldest of each client, as the pace may let one client go before another.  With more
 * clients than are remembered, younger ones are asked for too, which is only more work. */
static void run_paced(struct rpc_queue *queue)
{
    if (!queue->paced_first || sluice_clock_ns() < queue->paced_until_ns)
        return;
    uint64_t until_ns = UINT64_MAX;
    const void *refused[16];
    size_t num_refused = 0;
    struct exchange *next;
    for (struct exchange *x = queue->paced_first; x; x = next) {
        next = x->next_paced;
        size_t i = 0;
        while (i < num_refused && refused[i] != x->client)
            i++;
        if (i < num_refused)
            continue;
        const uint64_t wait_ns = ask(x, x->waiting_len);
        if (wait_ns) {
            if (num_refused < SLUICE_ARRAY_LEN(refused))
                refused[num_refused++] = x->client;
            const uint64_t its_ns = sluice_clock_ns() + wait_ns;
            until_ns = its_ns < until_ns ? its_ns : until_ns;
            continue;
        }
        leave_pace(x);
        x->is_granted = true;
        write_next(x);
    }
    queue->paced_until_ns = until_ns;
}

static bool has_client_that_waits(const struct rpc_queue *queue, const void *client)
{
    for (const struct exchange *x = queue->paced_first; x; x = x->next_paced) {
        if (x->client == client)
            return true;
    }
    return false;
}

/* May x write `len` bytes now?  If not, it is lined up and written when its turn comes.  Whoever
 * comes while others of its client wait waits behind them, else these would never get through. */
static bool ask_pace(struct exchange *x, size_t len)
{
    struct rpc_queue *queue = x->queue;
    if (!queue->pace)
        return true;
    if (!has_client_that_waits(queue, x->client)) {
        const uint64_t wait_ns = ask(x, len);
        if (!wait_ns)
            return true;
        const uint64_t until_ns = sluice_clock_ns() + wait_ns;
        if (!queue->paced_first || until_ns < queue->paced_until_ns)
            queue->paced_until_ns = until_ns;
    }
    if (queue->paced_first)
        queue->paced_last->next_paced = x;
    else
        queue->paced_first = x;
    queue->paced_last = x;
    x->next_paced = NULL;
    x->is_waiting = true;
    x->waiting_len = len;
    return false;
}

static gpr_timespec deadline_of(const struct rpc_queue *queue)
{
    if (!queue->paced_first)
        return gpr_inf_future(GPR_CLOCK_MONOTONIC);
    return (gpr_timespec){.tv_sec = (int64_t)(queue->paced_until_ns / 1000000000u),
                          .tv_nsec = (int32_t)(queue->paced_until_ns % 1000000000u),
                          .clock_type = GPR_CLOCK_MONOTONIC};
}

static void *run_queue(void *arg)
{
    struct rpc_queue *queue = arg;
    current_queue = queue;
    for (;;) {
        const grpc_event event = grpc_completion_queue_next(queue->cq, deadline_of(queue), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            break;
        if (event.type == GRPC_OP_COMPLETE) {
            struct rpc_tag *tag = event.tag;
            (void)atomic_load_explicit(&queue->hand_overs, memory_order_acquire);
            assert(tag->is_under_way);
            tag->is_under_way = false;
            tag->fn(tag, event.success != 0);
        }
        run_woken(queue);
        run_paced(queue);
    }
    current_queue = NULL;
    return NULL;
}

/* A thread names itself: to name another one is to write a file of /proc. */
static void *queue_main(void *arg)
{
    const struct rpc_queue *queue = arg;
    pthread_setname_np(pthread_self(), queue->name);
    return run_queue(arg);
}

sluice_status rpc_queue_start(struct rpc_queue *queue, const char *name, struct sluice_err *err)
{
    queue->cq = grpc_completion_queue_create_for_next(NULL);
    (void)snprintf(queue->name, sizeof(queue->name), "%s", name);
    const int error = pthread_create(&queue->thread, NULL, queue_main, queue);
    if (error) {
        grpc_completion_queue_shutdown(queue->cq);
        run_queue(queue);
        grpc_completion_queue_destroy(queue->cq);
        queue->cq = NULL;
        return sluice_fail(err, SLUICE_E_IO, "cannot start a thread: %s", strerror(error));
    }
    return SLUICE_OK;
}

void rpc_queue_stop(struct rpc_queue *queue)
{
    if (!queue->cq)
        return;
    grpc_completion_queue_shutdown(queue->cq);
    pthread_join(queue->thread, NULL);
    grpc_completion_queue_destroy(queue->cq);
    queue->cq = NULL;
}

bool rpc_queue_is_current(const struct rpc_queue *queue)
{
    return current_queue == queue;
}

/* --- waking --- */

/* Called without the lock, once is_woken is set and the wake is counted. */
static void post_wake(struct exchange *x)
{
    if (rpc_queue_is_current(x->queue)) {
        /* After the callback in hand, so that all it sends goes out together. */
        x->next_woken = NULL;
        if (x->queue->woken_last)
            x->queue->woken_last->next_woken = x;
        else
            x->queue->woken_first = x;
        x->queue->woken_last = x;
    } else {
        rpc_start_batch(x->queue, x->call, NULL, 0, &x->wake_tag);
    }
}

/* With the lock: is a wake needed?  Then it is counted, which keeps x and its call alive. */
static bool claim_wake(struct exchange *x)
{
    if (x->is_woken || x->is_closed)
        return false;
    x->is_woken = true;
    atomic_fetch_add_explicit(&x->pending, 1, memory_order_relaxed);
    return true;
}

static void on_wake(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct exchange *x = SLUICE_CONTAINER_OF(tag, struct exchange, wake_tag);
    look_after(x);
    exchange_settle(x);
}

/* --- writing --- */

static void write_next(struct exchange *x)
{
    if (x->is_writing || x->is_waiting || x->is_end_sent)
        return;

    size_t len = 0, next_len = 0;
    pthread_mutex_lock(&x->lock);
    const size_t count = x->ring_count;
    if (count > 0)
        len = x->ring[x->ring_first].len;
    if (count > 1)
        next_len = x->ring[(x->ring_first + 1) % x->ring_capacity].len;
    const bool is_idle = x->is_closed || (count == 0 && !x->is_ending);
    x->is_idle = is_idle;
    pthread_mutex_unlock(&x->lock);
    if (is_idle)
        return;

    if (count > 0 && !x->is_granted && !ask_pace(x, len))
        return;
    x->is_granted = false;
    /* With the hint the transport keeps the message until one comes without it, so the next
     * one must be ready and allowed. */
    if (count > 1 && !x->queue->paced_first)
        x->is_granted = !x->queue->pace || ask(x, next_len) == 0;

    /* Only this thread takes from the ring: it holds what it held, and perhaps more. */
    struct outgoing out = {0};
    pthread_mutex_lock(&x->lock);
    if (count > 0) {
        out = x->ring[x->ring_first];
        x->ring_first = (x->ring_first + 1) % x->ring_capacity;
        x->ring_count--;
    }
    const bool is_last = x->is_ending && x->ring_count == 0;
    pthread_mutex_unlock(&x->lock);

    grpc_op ops[3];
    memset(ops, 0, sizeof(ops));
    size_t num_ops = 0;
    /* The transport completes a batch with metadata when they are written, and with the hint it
     * would not write them before the next message, which waits for this batch. */
    const bool has_hint = x->is_granted && !x->needs_metadata;
    if (x->needs_metadata) {
        ops[num_ops++].op = GRPC_OP_SEND_INITIAL_METADATA;
        x->needs_metadata = false;
    }
    if (out.bytes) {
        ops[num_ops].op = GRPC_OP_SEND_MESSAGE;
        ops[num_ops].flags = has_hint ? GRPC_WRITE_BUFFER_HINT : 0;
        ops[num_ops++].data.send_message.send_message = out.bytes;
        atomic_fetch_add_explicit(&x->queue->bytes_sent, out.len + FRAME_HEADER_BYTES,
                                  memory_order_relaxed);
    }
    if (is_last) {
        x->side->end_op(x, &ops[num_ops++]);
        x->is_end_sent = true;
    }
    x->writing = out;
    x->is_writing = true;
    exchange_start(x, ops, num_ops, &x->write_tag);
}

static void on_written(struct rpc_tag *tag, bool ok)
{
    struct exchange *x = SLUICE_CONTAINER_OF(tag, struct exchange, write_tag);
    const bool was_message = x->writing.bytes != NULL;
    if (was_message)
        grpc_byte_buffer_destroy(x->writing.bytes);

    pthread_mutex_lock(&x->lock);
    x->queued_bytes -= x->writing.len;
    const bool is_drained = x->ring_count == 0 && !x->is_ending && !x->is_closed;
    pthread_mutex_unlock(&x->lock);
    x->writing = (struct outgoing){0};
    x->is_writing = false;

    if (!ok)
        exchange_close(x); /* the operation that reports the end will say why */
    else if (is_drained && was_message && x->side->on_drained)
        x->side->on_drained(x);
    write_next(x);
    exchange_settle(x);
}

void exchange_close(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_closed = true;
    struct outgoing *ring = x->ring;
    const size_t first = x->ring_first, count = x->ring_count, capacity = x->ring_capacity;
    x->ring = NULL;
    x->ring_capacity = x->ring_first = x->ring_count = 0;
    x->queued_bytes = x->is_writing ? x->writing.len : 0;
    pthread_mutex_unlock(&x->lock);

    leave_pace(x);
    for (size_t i = 0; i < count; i++)
        grpc_byte_buffer_destroy(ring[(first + i) % capacity].bytes);
    free(ring);
}

/* --- reading --- */

bool exchange_is_wanted(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool is_wanted = x->side->reads_after_end || !(x->is_closed || x->is_ending);
    pthread_mutex_unlock(&x->lock);
    return is_wanted;
}

static void read_next(struct exchange *x)
{
    if (x->is_reading || x->has_read_all)
        return;
    pthread_mutex_lock(&x->lock);
    const bool is_paused = x->is_paused;
    pthread_mutex_unlock(&x->lock);
    if (is_paused || !exchange_is_wanted(x))
        return;

    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &x->received;
    x->is_reading = true;
    exchange_start(x, &op, 1, &x->read_tag);
}

static void cancel_short(struct exchange *x)
{
    grpc_call_cancel_with_status(x->call, GRPC_STATUS_RESOURCE_EXHAUSTED, "no memory for a message",
                                 NULL);
}

static void on_read(struct rpc_tag *tag, bool ok)
{
    struct exchange *x = SLUICE_CONTAINER_OF(tag, struct exchange, read_tag);
    grpc_byte_buffer *bytes = x->received;
    x->received = NULL;
    x->is_reading = false;

    const bool is_wanted = exchange_is_wanted(x);
    struct sluice_message message = {0};
    if (!bytes) {
        x->has_read_all = true;
        if (ok && is_wanted && x->side->on_read_end &&
            !grpc_call_failed_before_recv_message(x->call))
            x->side->on_read_end(x);
    } else if (!rpc_message_from_bytes(bytes, &message)) {
        pthread_mutex_lock(&x->lock);
        x->is_short = true;
        pthread_mutex_unlock(&x->lock);
        cancel_short(x);
    } else {
        if (is_wanted)
            x->side->on_message(x, &message);
        sluice_message_clear(&message);
    }
    read_next(x);
    exchange_settle(x);
}

/* --- the whole --- */

static void look_after(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    x->is_woken = false;
    const bool is_short = x->is_short;
    pthread_mutex_unlock(&x->lock);
    if (!x->has_begun) {
        x->has_begun = true;
        x->side->begin(x);
    }
    if (is_short)
        cancel_short(x);
    read_next(x);
    write_next(x);
}

bool exchange_is_short(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool is_short = x->is_short;
    pthread_mutex_unlock(&x->lock);
    return is_short;
}

void exchange_init(struct exchange *x, const struct exchange_side *side, struct rpc_queue *queue)
{
    memset(x, 0, sizeof(*x));
    pthread_mutex_init(&x->lock, NULL);
    x->side = side;
    x->queue = queue;
    x->is_idle = true;
    x->wake_tag.fn = on_wake;
    x->write_tag.fn = on_written;
    x->read_tag.fn = on_read;
}

void exchange_release(struct exchange *x)
{
    exchange_close(x);
    grpc_slice_unref(x->end_slice);
    x->end_slice = grpc_empty_slice();
    if (x->call)
        grpc_call_unref(x->call);
    x->call = NULL;
}

void exchange_clear(struct exchange *x)
{
    free(x->end_text);
    x->end_text = NULL;
    pthread_mutex_destroy(&x->lock);
}

void exchange_begin(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const bool must_wake = claim_wake(x);
    pthread_mutex_unlock(&x->lock);
    if (must_wake)
        post_wake(x);
}

/* With the lock. */
static bool push(struct exchange *x, struct outgoing out)
{
    if (x->ring_count == x->ring_capacity) {
        const size_t capacity = x->ring_capacity ? x->ring_capacity * 2 : 8;
        struct outgoing *ring = malloc(capacity * sizeof(*ring));
        if (!ring)
            return false;
        for (size_t i = 0; i < x->ring_count; i++)
            ring[i] = x->ring[(x->ring_first + i) % x->ring_capacity];
        free(x->ring);
        x->ring = ring;
        x->ring_first = 0;
        x->ring_capacity = capacity;
    }
    x->ring[(x->ring_first + x->ring_count++) % x->ring_capacity] = out;
    x->queued_bytes += out.len;
    return true;
}

sluice_status exchange_send(struct exchange *x, struct sluice_message *message)
{
    const size_t len = message->len;
    const struct outgoing out = {rpc_bytes_from_message(message), len};

    sluice_status status = SLUICE_OK;
    bool must_wake = false;
    pthread_mutex_lock(&x->lock);
    if (x->is_closed || x->is_ending) {
        status = SLUICE_E_CLOSED;
    } else if (!push(x, out)) {
        /* The other side would wait for what never comes, or take the rest for all. */
        status = SLUICE_E_NO_MEMORY;
        x->is_short = true;
        must_wake = claim_wake(x);
    } else if (x->is_idle) {
        must_wake = claim_wake(x);
    }
    pthread_mutex_unlock(&x->lock);

    if (must_wake)
        post_wake(x);
    if (status != SLUICE_OK)
        grpc_byte_buffer_destroy(out.bytes);
    return status;
}

void exchange_end(struct exchange *x, int code, const char *text)
{
    bool must_wake = false;
    char *copy = text ? strdup(text) : NULL;
    pthread_mutex_lock(&x->lock);
    if (!x->is_ending && !x->is_closed) {
        x->is_ending = true;
        x->end_code = code;
        x->end_text = copy;
        copy = NULL;
        must_wake = x->is_idle && claim_wake(x);
    }
    pthread_mutex_unlock(&x->lock);
    if (must_wake)
        post_wake(x);
    free(copy);
}

size_t exchange_queued_bytes(struct exchange *x)
{
    pthread_mutex_lock(&x->lock);
    const size_t bytes = x->queued_bytes;
    pthread_mutex_unlock(&x->lock);
    return bytes;
}

void exchange_set_paused(struct exchange *x, bool is_paused)
{
    pthread_mutex_lock(&x->lock);
    const bool must_wake = x->is_paused && !is_paused && claim_wake(x);
    x->is_paused = is_paused;
    pthread_mutex_unlock(&x->lock);
    if (must_wake)
        post_wake(x);
}
