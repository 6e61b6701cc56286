/* The door as a server has it: limits on connections, and the server's own way in. */
#include "rpc/rpc_server.h"

#include "support/test.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 60000

static atomic_uint num_answers;

static void answer(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    (void)ctx, (void)message;
    atomic_fetch_add(&num_answers, 1);
    sluice_rpc_call_finish(call, SLUICE_RPC_OK, NULL);
}

static const struct sluice_rpc_method methods[] = {
    {.path = "/t/Unary", .is_unary = true, .on_message = answer}};

/* How often is_over() is still to say so. */
static atomic_uint num_over;

static bool is_over(void *ctx)
{
    (void)ctx;
    if (!atomic_load(&num_over))
        return false;
    atomic_fetch_sub(&num_over, 1);
    return true;
}

static struct sluice_rpc_server *start(const char *listen, unsigned max, unsigned max_per_host)
{
    const struct sluice_rpc_server_options options = {
        .listen = listen,
        .num_threads = 2,
        .methods = methods,
        .num_methods = 1,
        .max_connections = max,
        .max_connections_per_host = max_per_host,
        .is_over = is_over,
    };
    struct sluice_rpc_server *server = NULL;
    struct sluice_err err = {0};
    const sluice_status status = sluice_rpc_server_create(&options, &server, &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    return server;
}

static void stop(struct sluice_rpc_server *server)
{
    sluice_rpc_server_shutdown(server, 1000);
    sluice_rpc_server_destroy(server);
}

/* Connects from 127.0.0.`host`. */
static int connect_from(unsigned host, const struct sluice_rpc_server *server)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)sluice_rpc_server_port(server)),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CU_ASSERT_EQUAL_FATAL(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* A server greets whom it lets in with its settings, and closes on others. */
static bool is_let_in(int fd)
{
    char byte;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&one, 1, WAIT_MS), 1);
    return recv(fd, &byte, 1, 0) == 1;
}

TEST(connections_above_the_limit_are_closed)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 3, 0);
    int fds[5];
    for (unsigned i = 0; i < 5; i++) {
        fds[i] = connect_from(1 + i, server);
        CU_ASSERT_EQUAL(is_let_in(fds[i]), i < 3);
    }
    const struct sluice_rpc_connections counts = sluice_rpc_server_connections(server);
    CU_ASSERT_EQUAL(counts.open, 3);
    CU_ASSERT_EQUAL(counts.refused[SLUICE_RPC_REFUSED_FULL], 2);
    CU_ASSERT_EQUAL(counts.refused[SLUICE_RPC_REFUSED_HOST_FULL], 0);
    CU_ASSERT_EQUAL(counts.cut, 0);
    CU_ASSERT_EQUAL(sluice_rpc_server_num_refused(server), 2);
    for (unsigned i = 0; i < 5; i++)
        close(fds[i]);
    stop(server);
}

TEST(a_host_has_its_own_limit)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 0, 2);
    int fds[6];
    for (unsigned i = 0; i < 6; i++) {
        fds[i] = connect_from(1 + i / 3, server);
        CU_ASSERT_EQUAL(is_let_in(fds[i]), i % 3 < 2);
    }
    const struct sluice_rpc_connections counts = sluice_rpc_server_connections(server);
    CU_ASSERT_EQUAL(counts.refused[SLUICE_RPC_REFUSED_FULL], 0);
    CU_ASSERT_EQUAL(counts.refused[SLUICE_RPC_REFUSED_HOST_FULL], 2);
    for (unsigned i = 0; i < 6; i++)
        close(fds[i]);
    stop(server);
}

TEST(an_ended_connection_makes_room)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 1, 0);
    for (unsigned i = 0; i < 5; i++) {
        const int fd = connect_from(1, server);
        CU_ASSERT(is_let_in(fd));
        close(fd);
        while (sluice_rpc_server_connections(server).open > 0)
            sched_yield(); /* until the library has closed its end */
    }
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(server).refused[SLUICE_RPC_REFUSED_FULL], 0);
    stop(server);
}

TEST(servers_count_their_own)
{
    struct sluice_rpc_server *one = start("127.0.0.1:0", 1, 0), *two = start("127.0.0.1:0", 2, 0);
    const int fds[] = {connect_from(1, one), connect_from(1, two), connect_from(1, two)};
    for (unsigned i = 0; i < 3; i++)
        CU_ASSERT(is_let_in(fds[i]));
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(one).open, 1);
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(two).open, 2);
    for (unsigned i = 0; i < 3; i++)
        close(fds[i]);
    stop(one);
    stop(two);
}

TEST(a_server_reaches_itself_beyond_its_limits)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 1, 1);
    const int guest = connect_from(1, server);
    CU_ASSERT(is_let_in(guest));
    for (int i = 0; i < 3; i++) {
        struct sluice_err err = {0};
        CHECK_OK(sluice_rpc_server_check(server, WAIT_MS, &err));
        CU_ASSERT_STRING_EQUAL(err.text, "");
    }
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(server).refused[SLUICE_RPC_REFUSED_FULL], 0);
    close(guest);
    stop(server);
}

TEST(a_server_reaches_itself_at_any_kind_of_address)
{
    char path[64], absolute[80];
    snprintf(path, sizeof(path), "unix:/tmp/sluice-door-%d", (int)getpid());
    snprintf(absolute, sizeof(absolute), "unix:///tmp/sluice-door-%d", (int)getpid());
    const char *const addresses[] = {"0.0.0.0:0",   "[::]:0", "[::1]:0",
                                     "localhost:0", path,     absolute};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(addresses); i++) {
        const int probe = strchr(addresses[i], '[') ? socket(AF_INET6, SOCK_STREAM, 0) : -1;
        const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6,
                                              .sin6_addr = IN6ADDR_LOOPBACK_INIT};
        const bool is_missing =
            strchr(addresses[i], '[') &&
            (probe < 0 || bind(probe, (const struct sockaddr *)&loopback, sizeof(loopback)) != 0);
        if (probe >= 0)
            close(probe);
        if (is_missing) {
            printf("no IPv6 here: %s was not tried\n", addresses[i]);
            continue;
        }
        struct sluice_rpc_server *server = start(addresses[i], 1, 1);
        struct sluice_err err = {0};
        CHECK_OK(sluice_rpc_server_check(server, WAIT_MS, &err));
        if (err.text[0])
            printf("%s: %s\n", addresses[i], err.text);
        stop(server);
    }
    unlink(strchr(path, '/'));
}

TEST(a_server_that_is_gone_does_not_answer)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 0, 0);
    sluice_rpc_server_shutdown(server, 0);
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_rpc_server_check(server, WAIT_MS, &err), SLUICE_E_IO);
    CU_ASSERT_STRING_NOT_EQUAL(err.text, "");
    sluice_rpc_server_destroy(server);
}

/* A connection of HTTP/2 that waits; with a call of /t/Unary that is answered, if it is to be
 * known. */
static int greet(const struct sluice_rpc_server *server, bool is_to_call)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    static const char call[] = "\0\0\x66\1\4\0\0\0\1"
                               "\0\7:method\4POST\0\7:scheme\4http\0\5:path\x08/t/Unary"
                               "\0\x0a:authority\1x\0\2te\x08trailers\0\x0c"
                               "content-type\x10"
                               "application/grpc"
                               "\0\0\5\0\1\0\0\0\1\0\0\0\0\0";
    const int fd = connect_from(1, server);
    CU_ASSERT(is_let_in(fd));
    CU_ASSERT_EQUAL(write(fd, preface, sizeof(preface) - 1), sizeof(preface) - 1);
    if (!is_to_call)
        return fd;
    const unsigned before = atomic_load(&num_answers);
    CU_ASSERT_EQUAL(write(fd, call, sizeof(call) - 1), sizeof(call) - 1);
    while (atomic_load(&num_answers) == before)
        sched_yield();
    return fd;
}

/* Sends what means little, WINDOW_UPDATE frames for one byte each, as often as is_over() is to say
 * so, or until the server has cut the connection. */
static void send_updates(int fd, unsigned count)
{
    static const char update[13] = {0, 0, 4, 8, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    char updates[10000 * sizeof(update)];
    for (unsigned i = 0; i < count; i++)
        memcpy(updates + i * sizeof(update), update, sizeof(update));
    ssize_t len = 1;
    while (atomic_load(&num_over) > 0 && len > 0) {
        len = send(fd, updates, count * sizeof(update), MSG_NOSIGNAL);
        if (count == 1) /* or it would be a flood, too */
            (void)poll(NULL, 0, 1);
    }
}

TEST(too_much_memory_cuts_strangers_the_newest_first)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 0, 0);
    const int known = greet(server, true), old = greet(server, false), new = greet(server, false);
    for (unsigned i = 0; i < 4; i++) {
        atomic_store(&num_over, 1);
        send_updates(known, 1);
        CU_ASSERT_EQUAL(sluice_rpc_server_connections(server).cut, i < 2 ? i + 1 : 2);
        char bytes[256];
        while (i < 2 && recv(i == 0 ? new : old, bytes, sizeof(bytes), 0) > 0)
            ; /* until its end */
    }
    close(known);
    close(old);
    close(new);
    stop(server);
}

TEST(too_much_memory_cuts_a_flood_of_a_known_client)
{
    struct sluice_rpc_server *server = start("127.0.0.1:0", 0, 0);
    const int quiet = greet(server, true), loud = greet(server, true);
    atomic_store(&num_over, UINT_MAX);
    send_updates(loud, 10000);
    atomic_store(&num_over, 0);
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(server).cut, 1);
    while (sluice_rpc_server_connections(server).open == 2)
        sched_yield();
    CU_ASSERT_EQUAL(sluice_rpc_server_connections(server).open, 1);
    close(quiet);
    close(loud);
    stop(server);
}

TEST(limits_hold_in_a_program)
{
    CU_ASSERT(sluice_rpc_server_can_limit());
}
