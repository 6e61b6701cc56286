#include "rpc/grpc151/door.h"

#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "rpc/grpc151/frame_watch.h"
#include "rpc/grpc151/host_pauses.h"
#include "rpc/peer.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* ns between two looks at which connections are still there, as long as the limit is reached: a
 * look costs some 0.2 us a connection, and whoever is refused comes again. */
#define LOOK_NS 20000000u

/* ns between two lines of the log about connections that were refused or cut. */
#define LOG_NS 1000000000u

/* ns between two questions whether the process holds too much memory: what 10 Gbit/s can add
 * meanwhile is 60 MB. */
#define MEMORY_NS 50000000u

/* Bytes within MEMORY_NS that no client sends in good faith: requests for 20,000 samples/s are some
 * 30 kB. */
#define FLOOD_BYTES (128u << 10)

struct connection {
    struct door *door; /* NULL: unknown */
    ino_t inode;
    struct sluice_host host;
    uint16_t port;     /* the peer's */
    bool is_known;     /* a call of it was admitted */
    bool is_cut;       /* it was shut down, and has not ended yet */
    uint64_t number;   /* the newest has the highest */
    uint64_t received; /* bytes since memory was asked about last */
    struct frame_watch frames;
};

struct door {
    struct door_limits limits;
    int port;
    int expected_port;
    unsigned num_open; /* no less than there are: some may have ended since the last look */
    uint64_t looked_ns;
    uint64_t memory_ns;  /* when is_over() was asked last */
    uint64_t num_let_in; /* since the start */
    struct host_pauses pauses;
    uint64_t refused[SLUICE_RPC_NUM_REFUSALS], cut;
    uint64_t logged_ns, logged_refused, logged_cut;
    struct sluice_host last_host; /* that was refused or cut, and why */
    const char *last_why;
    struct door *next;
};

/* One for the process, because accept4() and recvmsg() are (interpose.h). */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct door *doors;
static struct connection *connections; /* by descriptor; made with the first door, for good */
static unsigned end_of_known;          /* above the highest descriptor that was a connection */
static int reserve_fd = -1; /* given up for a moment to accept and close what cannot be taken */

/* --- all of the following under the lock --- */

/* A number that tells a connection from the next one with its descriptor.  False: not a socket. */
static bool inode_of(int fd, ino_t *inode)
{
    struct statx st;
    /* Not fstat(), which ThreadSanitizer takes for a use of the descriptor: whoever has the number
     * next, since gRPC closed it unseen, would seem to race with it. */
    if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &st) != 0 || !S_ISSOCK(st.stx_mode))
        return false;
    *inode = (ino_t)st.stx_ino;
    return true;
}

static bool is_alive(int fd, const struct connection *connection)
{
    ino_t inode;
    return connection->door && inode_of(fd, &inode) && inode == connection->inode;
}

static void forget(struct connection *connection)
{
    connection->door->num_open--;
    connection->door = NULL;
}

/* Finds out which connections have ended. */
static void look(struct door *door, uint64_t now_ns)
{
    door->looked_ns = now_ns;
    for (unsigned fd = 0; fd < end_of_known; fd++) {
        if (connections[fd].door == door && !is_alive((int)fd, &connections[fd]))
            forget(&connections[fd]);
    }
    while (end_of_known > 0 && !connections[end_of_known - 1].door)
        end_of_known--;
}

static unsigned count_of(const struct door *door, const struct sluice_host *host)
{
    unsigned count = 0;
    for (unsigned fd = 0; fd < end_of_known; fd++)
        count += connections[fd].door == door && sluice_host_is_same(&connections[fd].host, host);
    return count;
}

/* In the place of a refusal. */
#define LET_IN SLUICE_RPC_NUM_REFUSALS

static const char *refusal_text(enum sluice_rpc_refusal refusal)
{
    static const char *const texts[] = {
        [SLUICE_RPC_REFUSED_FULL] = "as many as --max-connections are there",
        [SLUICE_RPC_REFUSED_HOST_FULL] =
            "as many of this host as --max-connections-per-host are there",
        [SLUICE_RPC_REFUSED_PAUSED] = "a connection of this host was cut just before",
        [SLUICE_RPC_REFUSED_NO_DESCRIPTOR] = "no descriptor is left for it (ulimit -n)",
    };
    return texts[refusal];
}

static enum sluice_rpc_refusal why_not(struct door *door, const struct sluice_host *host,
                                       uint64_t now_ns)
{
    if (host_pauses_has(&door->pauses, host, now_ns))
        return SLUICE_RPC_REFUSED_PAUSED;
    const struct door_limits *limits = &door->limits;
    for (int i = 0; i < 2; i++) {
        const bool is_full = limits->max_connections && door->num_open >= limits->max_connections;
        const bool is_host_full =
            limits->max_per_host && count_of(door, host) >= limits->max_per_host;
        if (!is_full && !is_host_full)
            return LET_IN;
        if (i == 1 || now_ns - door->looked_ns < LOOK_NS)
            return is_full ? SLUICE_RPC_REFUSED_FULL : SLUICE_RPC_REFUSED_HOST_FULL;
        look(door, now_ns);
    }
    return LET_IN;
}

/* --- what the log is told --- */

struct report {
    uint64_t refused, cut; /* since the last one; both 0: nothing to tell */
    struct sluice_host host;
    const char *why;
};

static uint64_t sum_refused(const struct door *door)
{
    uint64_t sum = 0;
    for (int i = 0; i < SLUICE_RPC_NUM_REFUSALS; i++)
        sum += door->refused[i];
    return sum;
}

/* Refusals not logged yet. */
static struct report take_report(struct door *door, uint64_t now_ns)
{
    const uint64_t refused = sum_refused(door);
    const struct report report = {refused - door->logged_refused, door->cut - door->logged_cut,
                                  door->last_host, door->last_why};
    door->logged_ns = now_ns;
    door->logged_refused = refused;
    door->logged_cut = door->cut;
    return report;
}

/* Counts one; the log is told once in a while. */
static struct report note(struct door *door, uint64_t *count, const struct sluice_host *host,
                          const char *why, uint64_t now_ns)
{
    ++*count;
    door->last_host = *host;
    door->last_why = why;
    if (door->logged_ns && now_ns - door->logged_ns < LOG_NS)
        return (struct report){0};
    return take_report(door, now_ns);
}

/* Not under the lock. */
static void log_report(const struct report *report)
{
    if (report->refused == 0 && report->cut == 0)
        return;
    char address[INET6_ADDRSTRLEN] = "?";
    static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    const uint8_t *bytes = report->host.bytes;
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0)
        (void)inet_ntop(AF_INET, bytes + sizeof(mapped), address, sizeof(address));
    else
        (void)inet_ntop(AF_INET6, bytes, address, sizeof(address));
    sluice_log(SLUICE_LOG_WARN, "connections refused: %llu, cut: %llu; the last one, of %s: %s",
               (unsigned long long)report->refused, (unsigned long long)report->cut, address,
               report->why);
}

void door_report(struct door *door)
{
    pthread_mutex_lock(&lock);
    const struct report report = take_report(door, sluice_clock_ns());
    pthread_mutex_unlock(&lock);
    log_report(&report);
}

/* --- addresses --- */

static int port_of(const struct sockaddr *address)
{
    switch (address->sa_family) {
    case AF_INET:
        return ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port);
    case AF_INET6:
        return ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
    case AF_UNIX:
        return DOOR_UNIX;
    default:
        return 0;
    }
}

/* The door that this socket, a listener or a connection, belongs to; NULL: none. */
static struct door *door_of(int fd)
{
    struct sockaddr_storage own = {0};
    struct sockaddr *address = (struct sockaddr *)&own;
    socklen_t len = sizeof(own);
    if (getsockname(fd, address, &len) != 0)
        return NULL;
    const int port = port_of(address);
    struct door *door = port ? doors : NULL;
    while (door && door->port != port)
        door = door->next;
    return door;
}

/* --- connections that come --- */

/* Lets a new connection in, or says why not. */
static enum sluice_rpc_refusal admit(struct door *door, int fd, const struct sockaddr *peer,
                                     uint64_t now_ns)
{
    const struct sluice_host host = sluice_host_of(peer);
    ino_t inode;
    if (fd >= (int)DOOR_MAX_DESCRIPTORS || !inode_of(fd, &inode))
        return SLUICE_RPC_REFUSED_NO_DESCRIPTOR;
    struct connection *connection = &connections[fd];
    if (connection->door) /* the one that had this descriptor before has ended */
        forget(connection);
    const bool is_expected = door->expected_port && port_of(peer) == door->expected_port;
    const enum sluice_rpc_refusal why = is_expected ? LET_IN : why_not(door, &host, now_ns);
    if (why != LET_IN)
        return why;
    if (is_expected)
        door->expected_port = 0;
    const int port = port_of(peer);
    *connection = (struct connection){
        .door = door,
        .inode = inode,
        .host = host,
        .port = port > 0 ? (uint16_t)port : 0,
        .is_known = is_expected || port == DOOR_UNIX,
        .number = ++door->num_let_in,
    };
    frame_watch_init(&connection->frames, now_ns);
    door->num_open++;
    if (end_of_known <= (unsigned)fd)
        end_of_known = (unsigned)fd + 1;
    return LET_IN;
}

bool door_refuses(int fd, const struct sockaddr *peer)
{
    const uint64_t now_ns = sluice_clock_ns();
    struct report report = {0};
    enum sluice_rpc_refusal why = LET_IN;
    pthread_mutex_lock(&lock);
    struct door *door = door_of(fd);
    if (door)
        why = admit(door, fd, peer, now_ns);
    if (why != LET_IN) {
        const struct sluice_host host = sluice_host_of(peer);
        report = note(door, &door->refused[why], &host, refusal_text(why), now_ns);
    }
    pthread_mutex_unlock(&lock);
    if (why == LET_IN)
        return false;
    log_report(&report);
    close(fd);
    return true;
}

bool door_refuses_with_reserve(int listener, accept4_fn *accept)
{
    const uint64_t now_ns = sluice_clock_ns();
    struct report report = {0};
    struct sockaddr_storage room = {0};
    struct sockaddr *peer = (struct sockaddr *)&room;
    socklen_t len = sizeof(room);
    pthread_mutex_lock(&lock);
    struct door *door = door_of(listener);
    if (reserve_fd >= 0)
        close(reserve_fd);
    reserve_fd = -1;
    const int fd = accept(listener, peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        close(fd);
        const struct sluice_host host = sluice_host_of(peer);
        if (door)
            report = note(door, &door->refused[SLUICE_RPC_REFUSED_NO_DESCRIPTOR], &host,
                          refusal_text(SLUICE_RPC_REFUSED_NO_DESCRIPTOR), now_ns);
    }
    reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pthread_mutex_unlock(&lock);
    log_report(&report);
    return fd >= 0;
}

bool door_has(int listener)
{
    pthread_mutex_lock(&lock);
    const bool has = doors && door_of(listener) != NULL;
    pthread_mutex_unlock(&lock);
    return has;
}

/* --- connections that are cut --- */

/* Under the lock, as is the following. */
static struct report cut(struct connection *connection, const char *why, uint64_t now_ns)
{
    struct door *door = connection->door;
    shutdown((int)(connection - connections), SHUT_RDWR);
    connection->is_cut = true;
    return note(door, &door->cut, &connection->host, why, now_ns);
}

/* Counts bytes received on the connection; closes it on a flood of frames. */
static struct report watch_frames(struct connection *connection, const struct msghdr *message,
                                  size_t len, uint64_t now_ns)
{
    enum frame_verdict verdict = FRAMES_FINE;
    for (size_t i = 0; verdict == FRAMES_FINE && len > 0 && i < message->msg_iovlen; i++) {
        const struct iovec *part = &message->msg_iov[i];
        const size_t n = part->iov_len < len ? part->iov_len : len;
        verdict = frame_watch_feed(&connection->frames, part->iov_base, n, now_ns);
        len -= n;
    }
    if (verdict == FRAMES_FINE)
        return (struct report){0};
    if (!is_alive((int)(connection - connections), connection)) {
        forget(connection); /* it is another socket by now */
        return (struct report){0};
    }
    host_pauses_add(&connection->door->pauses, &connection->host, now_ns);
    return cut(connection, frame_verdict_text(verdict), now_ns);
}

/* Cuts the newer half of the strangers or, without strangers, the connection that sent the most
 * since the last check, if that is a flood.  Half, because their memory is freed with a delay: one
 * at a time would be too slow against many, and all would include those who just came. */
static struct report cut_for_memory(struct door *door, uint64_t now_ns)
{
    uint64_t oldest = UINT64_MAX, newest = 0, most = 0;
    struct connection *flood = NULL;
    look(door, now_ns);
    for (unsigned fd = 0; fd < end_of_known; fd++) {
        struct connection *c = &connections[fd];
        if (c->door != door || c->is_cut)
            continue;
        if (!c->is_known && c->number < oldest)
            oldest = c->number;
        if (!c->is_known && c->number > newest)
            newest = c->number;
        if (c->received > most) {
            most = c->received;
            flood = c;
        }
    }
    struct report report = {0};
    for (unsigned fd = 0; newest && fd < end_of_known; fd++) {
        struct connection *c = &connections[fd];
        if (c->door != door || c->is_cut || c->is_known || c->number < (oldest + newest + 1) / 2)
            continue;
        const struct report one =
            cut(c, "the process holds more than --memory-limit, and this client has made no call",
                now_ns);
        if (one.cut)
            report = one;
    }
    if (!newest && most > FLOOD_BYTES)
        report =
            cut(flood, "the process holds more than --memory-limit, and this client sends most",
                now_ns);
    return report;
}

static struct report watch_memory(struct door *door, uint64_t now_ns)
{
    struct report report = {0};
    if (!door->limits.is_over || now_ns - door->memory_ns < MEMORY_NS)
        return report;
    if (door->limits.is_over(door->limits.ctx))
        report = cut_for_memory(door, now_ns);
    door->memory_ns = now_ns;
    for (unsigned fd = 0; fd < end_of_known; fd++)
        connections[fd].received = connections[fd].door == door ? 0 : connections[fd].received;
    return report;
}

bool door_cuts(int fd, const struct msghdr *message, size_t len)
{
    const uint64_t now_ns = sluice_clock_ns();
    struct report of_frames = {0}, of_memory = {0};
    bool is_cut = false;
    pthread_mutex_lock(&lock);
    struct connection *connection =
        connections && fd < (int)DOOR_MAX_DESCRIPTORS ? &connections[fd] : NULL;
    if (connection && connection->door) {
        struct door *door = connection->door;
        connection->received += len;
        if (!door->limits.has_tls)
            of_frames = watch_frames(connection, message, len, now_ns);
        of_memory = watch_memory(door, now_ns);
        is_cut = connection->door && connection->is_cut;
    }
    pthread_mutex_unlock(&lock);
    log_report(&of_frames);
    log_report(&of_memory);
    return is_cut;
}

/* --- doors --- */

sluice_status door_open(const struct door_limits *limits, struct door **door,
                        struct sluice_err *err)
{
    struct door *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server's connections");
    made->limits = *limits;
    pthread_mutex_lock(&lock);
    if (!connections) { /* pages that no connection needs are never touched */
        void *pages = mmap(NULL, DOOR_MAX_DESCRIPTORS * sizeof(*connections),
                           PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        connections = pages == MAP_FAILED ? NULL : pages;
    }
    const bool has_table = connections != NULL;
    if (has_table) {
        if (reserve_fd < 0)
            reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        made->next = doors;
        doors = made;
    }
    pthread_mutex_unlock(&lock);
    if (!has_table) {
        free(made);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a server's connections");
    }
    *door = made;
    return SLUICE_OK;
}

void door_close(struct door *door)
{
    if (!door)
        return;
    door_report(door);
    pthread_mutex_lock(&lock);
    struct door **link = &doors;
    while (*link != door)
        link = &(*link)->next;
    *link = door->next;
    for (unsigned fd = 0; fd < end_of_known; fd++) {
        if (connections[fd].door == door)
            forget(&connections[fd]);
    }
    if (!doors && reserve_fd >= 0) {
        close(reserve_fd);
        reserve_fd = -1;
    }
    pthread_mutex_unlock(&lock);
    free(door);
}

void door_set_port(struct door *door, int port)
{
    pthread_mutex_lock(&lock);
    door->port = port;
    pthread_mutex_unlock(&lock);
}

void door_expect(struct door *door, int port)
{
    pthread_mutex_lock(&lock);
    door->expected_port = port;
    pthread_mutex_unlock(&lock);
}

void door_know(struct door *door, const char *peer)
{
    struct sluice_host host;
    uint16_t port;
    if (!sluice_peer_find(peer, &host, &port))
        return;
    pthread_mutex_lock(&lock);
    struct connection *found = NULL;
    for (unsigned fd = 0; fd < end_of_known && !found; fd++) {
        struct connection *c = &connections[fd];
        if (c->door == door && c->port == port && sluice_host_is_same(&c->host, &host))
            found = c;
    }
    if (found)
        found->is_known = true;
    pthread_mutex_unlock(&lock);
}

bool door_has_seen_expected(struct door *door)
{
    pthread_mutex_lock(&lock);
    const bool has_seen = door->expected_port == 0;
    pthread_mutex_unlock(&lock);
    return has_seen;
}

struct sluice_rpc_connections door_read(struct door *door)
{
    pthread_mutex_lock(&lock);
    look(door, sluice_clock_ns());
    struct sluice_rpc_connections counts = {.open = door->num_open, .cut = door->cut};
    memcpy(counts.refused, door->refused, sizeof(counts.refused));
    pthread_mutex_unlock(&lock);
    return counts;
}

uint64_t door_num_refused(struct door *door)
{
    pthread_mutex_lock(&lock);
    const uint64_t refused = sum_refused(door);
    pthread_mutex_unlock(&lock);
    return refused;
}
