#include "lend/switch/server.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"
#include "lend/switch/tuning.h"
#include "lend/switch/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SECOND_NS UINT64_C(1000000000)
#define TICK_MS 200
/* Pieces of one request that are read before others have their turn. */
#define READS_AT_ONCE 16

struct connection {
    enum { FREE, READS, QUEUED, RUNS, SENDS } state;
    int fd;            /* -1: the client is gone, but a worker still has its slot */
    uint64_t last_ns;  /* of the last byte, or of the state's begin */
    uint64_t begun_ns; /* of the request that is read; 0: none */
    uint64_t ticket;   /* the order of requests */
    uint8_t bytes[SWITCH_WIRE_HEAD_BYTES]; /* of the head, `have` of them */
    size_t have, left;                     /* left: bytes of data */
    /* That comes next.  DROPPED: all there is, so that the client reads the last reply. */
    enum { HEAD, DATA, DROPPED_DATA, DROPPED } part;
    struct switch_wire_head head;
    struct switch_order order;
    size_t reply_bytes, sent; /* of the slot's reply */
};

struct switch_server {
    const struct switch_options *options;
    struct switch_staff *staff;
    struct switch_board *board;
    int listener;
    struct connection connections[SWITCH_NUM_SLOTS]; /* each has the slot of its number */
    uint64_t last_ticket;
    int running; /* the connection whose inference runs; -1: none */
    int trains;  /* whose training runs, or will; -1: none */
    unsigned wanted_model;
    uint64_t wanted, ordered; /* tickets; ordered: of what the process trains, 0: it stops */
};

/* --- replies --- */

static void end_connection(struct switch_server *server, int c)
{
    struct connection *con = &server->connections[c];
    close(con->fd);
    con->fd = -1;
    if (c != server->running)
        con->state = FREE;
    if (c == server->trains)
        server->trains = -1;
}

static char *reply_of(struct switch_server *server, int c)
{
    return switch_board_reply(server->board, server->options, (unsigned)c);
}

static void reply(struct switch_server *server, int c, const char *failure)
{
    struct connection *con = &server->connections[c];
    if (failure) {
        server->board->failed++;
        sluice_log(SLUICE_LOG_WARN, "request \"%s\": %s", con->head.name, failure);
    }
    con->state = con->fd < 0 ? FREE : SENDS;
    con->last_ns = sluice_clock_ns();
    con->begun_ns = con->have = con->sent = 0;
    con->reply_bytes = 4;
    char *const to = reply_of(server, c);
    memcpy(to, failure ? "FAIL" : "FNSH", 4);
    if (!failure && con->order.wants_logits) {
        const uint32_t length = con->order.num_rows * (uint32_t)server->options->num_classes * 4;
        memcpy(to + 4, &length, sizeof length);
        con->reply_bytes = SWITCH_REPLY_HEAD + length;
    }
}

static void send_reply(struct switch_server *server, int c)
{
    struct connection *con = &server->connections[c];
    const ssize_t n = send(con->fd, reply_of(server, c) + con->sent, con->reply_bytes - con->sent,
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EINTR)
        end_connection(server, c);
    if (n <= 0)
        return;
    con->sent += (size_t)n;
    if (con->sent < con->reply_bytes)
        return;
    con->state = READS;
    con->last_ns = sluice_clock_ns();
    if (con->part == DROPPED) {
        con->begun_ns = con->last_ns;
        shutdown(con->fd, SHUT_WR);
    }
}

/* --- training --- */

/* Has the training process train what is wanted: it is stopped first if it trains something else. */
static void direct_trainer(struct switch_server *server)
{
    struct switch_worker *trainer = &server->staff->workers[server->staff->num_workers - 1];
    const bool is_wanted = server->trains >= 0;
    struct switch_order order = {.kind = SWITCH_ORDER_STOP};
    if (!trainer->is_training)
        return;
    if (trainer->state == SWITCH_WORKER_IDLE && is_wanted) {
        order.kind = SWITCH_ORDER_TRAIN;
        order.model = server->wanted_model;
        server->ordered = server->wanted;
        switch_staff_order(trainer, &order);
    } else if (trainer->state == SWITCH_WORKER_BUSY && server->ordered > 0 &&
               !(is_wanted && server->ordered == server->wanted)) {
        server->ordered = 0;
        switch_staff_order(trainer, &order);
    }
}

/* --- inference --- */

static struct switch_worker *worker_in(struct switch_server *server, int state)
{
    for (unsigned w = 0; w < server->options->num_workers; w++) {
        if ((int)server->staff->workers[w].state == state)
            return &server->staff->workers[w];
    }
    return NULL;
}

static void run_next(struct switch_server *server)
{
    struct switch_worker *worker = worker_in(server, SWITCH_WORKER_IDLE);
    int first = -1;
    for (int c = 0; c < SWITCH_NUM_SLOTS; c++) {
        const struct connection *con = &server->connections[c];
        if (con->state == QUEUED && (first < 0 || con->ticket < server->connections[first].ticket))
            first = c;
    }
    if (!worker || first < 0 || server->running >= 0)
        return;
    if (switch_staff_order(worker, &server->connections[first].order)) {
        server->connections[first].state = RUNS;
        server->running = first;
    }
}

static void end_inference(struct switch_server *server, const char *failure)
{
    const int c = server->running;
    server->running = -1;
    if (c < 0)
        return;
    server->board->inferences += !failure;
    reply(server, c, failure);
}

static void read_worker(struct switch_server *server, struct switch_worker *worker)
{
    struct switch_note note = {.text = ""};
    const bool was_busy = worker->state == SWITCH_WORKER_BUSY;
    const enum switch_read read = switch_staff_read(worker, &note);
    if (worker->is_training && read != SWITCH_READ_NOTHING) {
        if (note.text[0])
            sluice_log(SLUICE_LOG_ERROR, "training ended: %s", note.text);
        if (was_busy && server->trains >= 0 && server->ordered == server->wanted)
            end_connection(server, server->trains);
    } else if (read == SWITCH_READ_GONE && was_busy) {
        end_inference(server, "its worker process died");
    } else if (read == SWITCH_READ_NOTE && was_busy) {
        end_inference(server, note.kind == SWITCH_NOTE_DONE ? NULL : note.text);
    }
}

/* --- requests --- */

/* Whether `name` is a model of the list with this ending. */
static bool is_task(const char *name, const char *model, const char *ending)
{
    const size_t length = strlen(model);
    return strncmp(name, model, length) == 0 && strcmp(name + length, ending) == 0;
}

/* Fills in the order.  NULL, or why the request cannot be answered. */
static const char *judge(const struct switch_server *server, struct connection *con)
{
    const struct switch_options *o = server->options;
    const char *const name = con->head.name;
    const uint32_t bytes = con->head.data_bytes;
    struct switch_order *order = &con->order;
    *order = (struct switch_order){.slot = (unsigned)(con - server->connections),
                                   .num_rows = (unsigned)(bytes / SWITCH_ROW_BYTES)};
    for (unsigned m = 0; m < o->num_models; m++) {
        order->model = m;
        order->kind = SWITCH_ORDER_INFER;
        order->wants_logits = is_task(name, o->models[m].name, "_logits");
        if (order->wants_logits || is_task(name, o->models[m].name, "_inference"))
            return bytes > 0 && bytes % SWITCH_ROW_BYTES == 0 && order->num_rows <= o->batch_size
                       ? NULL
                       : "its data must be 1 to --batch float32 images of 3 x 224 x 224";
        order->kind = SWITCH_ORDER_TRAIN;
        if (is_task(name, o->models[m].name, "_training"))
            return !o->trains ? "training needs --train" : bytes ? "training takes no data" : NULL;
    }
    return "no --model has this name";
}

static void end_request(struct switch_server *server, int c)
{
    struct connection *con = &server->connections[c];
    const bool is_dropped = con->part == DROPPED_DATA;
    con->part = HEAD;
    con->begun_ns = con->have = 0;
    if (is_dropped) {
        reply(server, c, judge(server, con));
        return;
    }
    con->ticket = ++server->last_ticket;
    con->last_ns = sluice_clock_ns();
    con->state = QUEUED;
    if (con->order.kind == SWITCH_ORDER_TRAIN) {
        server->trains = c;
        server->wanted = con->ticket;
        server->wanted_model = con->order.model;
        server->board->trainings++;
        reply(server, c, NULL);
    }
}

/* The next bytes go to *to, *room at most; false: the connection does not read now. */
static bool next_part(struct switch_server *server, int c, void **to, size_t *room)
{
    static uint8_t dropped[65536];
    struct connection *con = &server->connections[c];
    size_t wanted;
    if (con->part == HEAD) {
        switch (switch_wire_parse(con->bytes, con->have, &wanted, &con->head)) {
        case SWITCH_WIRE_MORE:
            *to = con->bytes + con->have;
            *room = wanted - con->have;
            return true;
        case SWITCH_WIRE_END:
            end_connection(server, c);
            return false;
        case SWITCH_WIRE_TOO_LONG:
            con->part = DROPPED;
            con->head.name[0] = 0;
            reply(server, c, "its name is longer than 256 bytes");
            return false;
        case SWITCH_WIRE_HEAD:
            con->left = con->head.data_bytes;
            con->part = judge(server, con) ? DROPPED_DATA : DATA;
        }
    }
    *to = dropped;
    *room = con->part == DROPPED || con->left > sizeof dropped ? sizeof dropped : con->left;
    if (con->part == DATA) {
        *to = (uint8_t *)switch_board_input(server->board, server->options, (unsigned)c) +
              con->head.data_bytes - con->left;
        *room = con->left;
    }
    if (*room == 0)
        end_request(server, c);
    return *room > 0;
}

static void read_connection(struct switch_server *server, int c)
{
    struct connection *con = &server->connections[c];
    void *to;
    size_t room;
    for (int i = 0; next_part(server, c, &to, &room) && i < READS_AT_ONCE; i++) {
        const ssize_t n = recv(con->fd, to, room, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            end_connection(server, c);
            return;
        }
        con->last_ns = sluice_clock_ns();
        if (con->begun_ns == 0)
            con->begun_ns = con->last_ns;
        if (con->part == HEAD)
            con->have += (size_t)n;
        else if (con->part != DROPPED)
            con->left -= (size_t)n;
    }
}

/* --- connections --- */

/* A free connection, or the one that a new client may take; -1: none. */
static int find_place(const struct switch_server *server)
{
    const uint64_t now_ns = sluice_clock_ns();
    int oldest = -1;
    for (int c = 0; c < SWITCH_NUM_SLOTS; c++) {
        const struct connection *con = &server->connections[c];
        if (con->state == FREE)
            return c;
        if (con->state == READS && c != server->trains && now_ns - con->last_ns > SECOND_NS &&
            (oldest < 0 || con->last_ns < server->connections[oldest].last_ns))
            oldest = c;
    }
    return oldest;
}

static void accept_client(struct switch_server *server)
{
    const int place = find_place(server);
    const int fd = place < 0 ? -1 : accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0)
        return;
    const int one = 1, most = 65536; /* the kernel keeps no more for a client that does not read */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &most, sizeof most);
    if (server->connections[place].state != FREE) {
        sluice_log(SLUICE_LOG_WARN, "all %d connections are in use: the most silent one ends",
                   SWITCH_NUM_SLOTS);
        end_connection(server, place);
    }
    server->connections[place] =
        (struct connection){.state = READS, .fd = fd, .last_ns = sluice_clock_ns()};
}

static void check_times(struct switch_server *server)
{
    const uint64_t now_ns = sluice_clock_ns();
    const uint64_t timeout_ns = (uint64_t)(server->options->timeout_s * 1e9);
    for (int c = 0; c < SWITCH_NUM_SLOTS; c++) {
        struct connection *con = &server->connections[c];
        if (con->state == READS && con->begun_ns > 0 && now_ns - con->begun_ns > timeout_ns) {
            if (con->part == DROPPED) {
                end_connection(server, c);
            } else {
                con->part = DROPPED;
                reply(server, c, "it was not complete in --timeout");
            }
        } else if (con->state == SENDS && now_ns - con->last_ns > timeout_ns) {
            sluice_log(SLUICE_LOG_WARN, "a client does not take its reply");
            end_connection(server, c);
        } else if (con->state == QUEUED && now_ns - con->last_ns > SWITCH_WORK_NS) {
            reply(server, c, "no worker took it in 60 s");
        }
    }
    struct switch_worker *busy = worker_in(server, SWITCH_WORKER_BUSY);
    if (busy && now_ns - busy->busy_since_ns > SWITCH_WORK_NS) {
        sluice_log(SLUICE_LOG_ERROR, "worker process %d does not answer", (int)busy->pid);
        shutdown(busy->fd, SHUT_RDWR); /* no signal ends a process that hangs in a driver */
    }
}

/* --- the loop --- */

/* One wait for whatever comes first, and what follows from it. */
static void serve_once(struct switch_server *server, bool takes_requests)
{
    struct pollfd fds[1 + SWITCH_MAX_WORKERS + 1 + SWITCH_NUM_SLOTS];
    struct switch_staff *staff = server->staff;
    struct pollfd *of_clients = fds + 1 + staff->num_workers;
    const bool takes_clients = takes_requests && find_place(server) >= 0;
    fds[0] = (struct pollfd){.fd = takes_clients ? server->listener : -1, .events = POLLIN};
    for (unsigned w = 0; w < staff->num_workers; w++)
        fds[1 + w] = (struct pollfd){.fd = staff->workers[w].fd, .events = POLLIN};
    for (int c = 0; c < SWITCH_NUM_SLOTS; c++) {
        const struct connection *con = &server->connections[c];
        const bool is_asked = con->state == SENDS || (con->state == READS && takes_requests);
        of_clients[c].fd = is_asked ? con->fd : -1;
        of_clients[c].events = con->state == SENDS ? POLLOUT : POLLIN;
    }
    if (poll(fds, 1 + staff->num_workers + SWITCH_NUM_SLOTS, TICK_MS) > 0) {
        for (unsigned w = 0; w < staff->num_workers; w++) {
            if (fds[1 + w].revents)
                read_worker(server, &staff->workers[w]);
        }
        for (int c = 0; c < SWITCH_NUM_SLOTS; c++) {
            const int state = (int)server->connections[c].state;
            if (of_clients[c].fd >= 0 && of_clients[c].revents && state == READS)
                read_connection(server, c);
            else if (of_clients[c].fd >= 0 && of_clients[c].revents && state == SENDS)
                send_reply(server, c);
        }
        if (fds[0].revents)
            accept_client(server);
    }
    check_times(server);
    direct_trainer(server);
    if (takes_requests) {
        run_next(server);
        switch_staff_restart(server->staff, sluice_clock_ns());
    }
}

static bool is_answering(const struct switch_server *server)
{
    bool is_any = server->running >= 0;
    for (int c = 0; c < SWITCH_NUM_SLOTS; c++)
        is_any |= server->connections[c].state == SENDS;
    return is_any;
}

/* One after the other, so that none disturbs what another measures. */
static sluice_status start_workers(struct switch_server *server, struct sluice_err *err)
{
    struct switch_staff *staff = server->staff;
    for (unsigned w = 0; w < staff->num_workers; w++) {
        struct switch_worker *worker = &staff->workers[w];
        worker->is_training = w == server->options->num_workers;
        switch_staff_start(staff, worker);
        while (worker->state == SWITCH_WORKER_STARTING && !sluice_quit_requested())
            serve_once(server, false);
        if (worker->state != SWITCH_WORKER_IDLE)
            return sluice_fail(err, SLUICE_E_IO, "a worker process does not start");
    }
    return SLUICE_OK;
}

static sluice_status listen_at(int fd, unsigned *port, struct sluice_err *err)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)*port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) != 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &length) != 0)
        return sluice_fail(err, SLUICE_E_IO, "port %u: %s", *port, strerror(errno));
    *port = ntohs(at.sin_port);
    return SLUICE_OK;
}

sluice_status switch_serve(struct switch_staff *staff, struct switch_board *board,
                           struct sluice_err *err)
{
    static struct switch_server server;
    unsigned port = (unsigned)staff->options->port;
    server.options = staff->options;
    server.staff = staff;
    server.board = board;
    server.running = server.trains = -1;
    staff->num_workers = (unsigned)staff->options->num_workers + staff->options->trains;
    for (unsigned w = 0; w < staff->num_workers; w++)
        staff->workers[w].fd = -1;
    server.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sluice_status status = listen_at(server.listener, &port, err);
    if (status == SLUICE_OK)
        status = start_workers(&server, err);
    if (status == SLUICE_OK) {
        printf("{\"port\": %u}\n", port);
        fflush(stdout);
    }
    while (status == SLUICE_OK && (!sluice_quit_requested() || is_answering(&server)))
        serve_once(&server, !sluice_quit_requested());
    return sluice_quit_requested() ? SLUICE_OK : status;
}
