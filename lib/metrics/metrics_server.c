#include "metrics/metrics_server.h"

#include <microhttpd.h>

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A monitoring system needs one connection, or two for a moment. */
#define CONNECTIONS_PER_HOST 4u

/* s.  A scrape takes milliseconds; a connection that is silent for longer makes room for others. */
#define IDLE_S 3u

#define COMPILER_TEXT_(x) #x
#define COMPILER_TEXT(x) COMPILER_TEXT_(x)
#ifdef __clang__
#define COMPILER                                                                                   \
    "clang " COMPILER_TEXT(__clang_major__) "." COMPILER_TEXT(__clang_minor__) "." COMPILER_TEXT(  \
        __clang_patchlevel__)
#else
#define COMPILER                                                                                   \
    "gcc " COMPILER_TEXT(__GNUC__) "." COMPILER_TEXT(__GNUC_MINOR__) "." COMPILER_TEXT(            \
        __GNUC_PATCHLEVEL__)
#endif

/* A connection from its start to its end. */
struct visitor {
    int fd;
    struct sluice_host host;
    uint64_t number; /* counts up; 0: a free place */
    bool is_ended;   /* was shut down; the library closes it soon */
};

struct sluice_metrics_server {
    struct MHD_Daemon *daemon;
    struct sluice_metrics_pages pages;
    struct visitor visitors[SLUICE_METRICS_CONNECTIONS]; /* the HTTP server's thread's */
    uint64_t num_visitors;                               /* since the start */
};

/* --- the pages --- */

static void write_build_info(struct sluice_exposition *page, const char *program)
{
    const struct sluice_label labels[] = {
        {"program", program},
        {"version", SLUICE_VERSION},
        {"compiler", COMPILER},
#ifdef SLUICE_REVISION
        {"revision", SLUICE_REVISION},
#endif
    };
    sluice_exposition_family(page, "sluice_build_info", SLUICE_GAUGE,
                             "Always 1; the labels say how the program was built.");
    sluice_exposition_count(page, labels, SLUICE_ARRAY_LEN(labels), 1);
}

/* NULL: no memory. */
static char *make_metrics(const struct sluice_metrics_pages *pages)
{
    struct sluice_exposition *page = sluice_exposition_create();
    if (!page)
        return NULL;
    write_build_info(page, pages->program);
    pages->write(pages->ctx, page);
    return sluice_exposition_finish(page);
}

static enum MHD_Result answer(struct MHD_Connection *connection, unsigned code, const char *type,
                              const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned code,
                                   const char *text)
{
    return answer(connection, code, "text/plain; charset=utf-8", text);
}

static enum MHD_Result answer_metrics(struct MHD_Connection *connection,
                                      const struct sluice_metrics_pages *pages)
{
    char *text = make_metrics(pages);
    if (!text)
        return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "no memory\n");
    const enum MHD_Result result =
        answer(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text);
    free(text);
    return result;
}

static enum MHD_Result answer_health(struct MHD_Connection *connection,
                                     const struct sluice_metrics_pages *pages)
{
    char reason[SLUICE_HEALTH_REASON] = "", line[SLUICE_HEALTH_REASON + 1];
    if (pages->is_well(pages->ctx, reason))
        return answer_text(connection, MHD_HTTP_OK, "ok\n");
    snprintf(line, sizeof(line), "%s\n", reason);
    return answer_text(connection, MHD_HTTP_SERVICE_UNAVAILABLE, line);
}

static enum MHD_Result answer_links(struct MHD_Connection *connection,
                                    const struct sluice_metrics_pages *pages)
{
    char text[512];
    snprintf(
        text, sizeof(text),
        "<!DOCTYPE html>\n"
        "<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title></head>\n"
        "<body><h1>%s %s</h1>\n"
        "<ul><li><a href=\"/metrics\">/metrics</a>: counters, in Prometheus' text format</li>\n"
        "<li><a href=\"/healthz\">/healthz</a>: ok, or what is wrong</li></ul>\n"
        "</body></html>\n",
        pages->program, pages->program, SLUICE_VERSION);
    return answer(connection, MHD_HTTP_OK, "text/html; charset=utf-8", text);
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_len, void **state)
{
    (void)version, (void)body, (void)state;
    const struct sluice_metrics_server *server = ctx;
    *body_len = 0; /* whatever is posted is read and dropped */
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD\n");
    if (strcmp(url, "/metrics") == 0)
        return answer_metrics(connection, &server->pages);
    if (strcmp(url, "/healthz") == 0)
        return answer_health(connection, &server->pages);
    if (strcmp(url, "/") == 0)
        return answer_links(connection, &server->pages);
    return answer_text(connection, MHD_HTTP_NOT_FOUND,
                       "the counters are at /metrics, the health is at /healthz\n");
}

/* --- connections --- */

/* Ends the oldest connection of the host (NULL: of all) if there are more than `most`. */
static void end_oldest(struct sluice_metrics_server *server, const struct sluice_host *host,
                       unsigned most)
{
    struct visitor *oldest = NULL;
    unsigned count = 0;
    for (unsigned i = 0; i < SLUICE_METRICS_CONNECTIONS; i++) {
        struct visitor *visitor = &server->visitors[i];
        if (!visitor->number || visitor->is_ended ||
            (host && !sluice_host_is_same(&visitor->host, host)))
            continue;
        count++;
        if (!oldest || visitor->number < oldest->number)
            oldest = visitor;
    }
    if (count <= most)
        return;
    shutdown(oldest->fd, SHUT_RDWR);
    oldest->is_ended = true;
}

static void begin_visit(struct sluice_metrics_server *server, struct MHD_Connection *connection,
                        void **place)
{
    const union MHD_ConnectionInfo *fd =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *peer =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct visitor *visitor = NULL;
    for (unsigned i = 0; i < SLUICE_METRICS_CONNECTIONS && !visitor; i++)
        visitor = server->visitors[i].number ? NULL : &server->visitors[i];
    *place = visitor;
    if (!fd || !peer || !visitor) /* the library has no more connections than there are places */
        return;
    *visitor = (struct visitor){.fd = fd->connect_fd,
                                .host = sluice_host_of(peer->client_addr),
                                .number = ++server->num_visitors};
    end_oldest(server, &visitor->host, CONNECTIONS_PER_HOST);
    /* One place stays free: at its limit the library accepts nobody. */
    end_oldest(server, NULL, SLUICE_METRICS_CONNECTIONS - 1);
}

static void on_connection(void *ctx, struct MHD_Connection *connection, void **place,
                          enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED)
        begin_visit(ctx, connection, place);
    else if (*place)
        *(struct visitor *)*place = (struct visitor){0};
}

/* --- the server --- */

sluice_status sluice_metrics_listen_parse(const char *listen, struct sluice_host_port *address,
                                          struct sluice_err *err)
{
    /* A port alone means loopback. */
    char loopback[32];
    const bool is_port = listen[0] && !listen[strspn(listen, "0123456789")];
    if (is_port)
        snprintf(loopback, sizeof(loopback), "127.0.0.1:%.16s", listen);
    return sluice_host_port_parse(is_port ? loopback : listen, -1, address, err);
}

static struct MHD_Daemon *start(struct sluice_metrics_server *server,
                                const struct addrinfo *address, bool is_any)
{
    /* AUTO: select() cannot wait for descriptors above 1,023. */
    unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD;
    if (address->ai_family == AF_INET6)
        flags |= is_any ? MHD_USE_DUAL_STACK : MHD_USE_IPv6;
    return MHD_start_daemon(flags, 0, NULL, NULL, on_request, server, MHD_OPTION_SOCK_ADDR,
                            address->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
                            (unsigned)SLUICE_METRICS_CONNECTIONS, MHD_OPTION_NOTIFY_CONNECTION,
                            on_connection, server, MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S,
                            MHD_OPTION_END);
}

/* Every address: of IPv6 and IPv4, or of IPv4 alone where IPv6 is missing. */
static struct MHD_Daemon *listen_on(struct sluice_metrics_server *server,
                                    const struct addrinfo *found, bool is_any)
{
    struct MHD_Daemon *daemon = NULL;
    for (const struct addrinfo *a = found; a && is_any && !daemon; a = a->ai_next) {
        if (a->ai_family == AF_INET6)
            daemon = start(server, a, true);
    }
    for (const struct addrinfo *a = found; a && !daemon; a = a->ai_next)
        daemon = start(server, a, false);
    return daemon;
}

/* libmicrohttpd does not say what is in the way. */
static sluice_status tell_why(const char *listen, const struct sluice_host_port *address,
                              struct sluice_err *err)
{
    struct sluice_err cause = {0};
    if (sluice_host_port_try_listen(address, &cause) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_IO, "--metrics %s: %s", listen, cause.text);
    return sluice_fail(err, SLUICE_E_IO,
                       "--metrics %s: the HTTP server does not start: no memory, thread or "
                       "descriptor is left",
                       listen);
}

sluice_status sluice_metrics_server_create(const char *listen,
                                           const struct sluice_metrics_pages *pages,
                                           struct sluice_metrics_server **server,
                                           struct sluice_err *err)
{
    struct sluice_host_port address;
    struct sluice_err cause = {0};
    const sluice_status status = sluice_metrics_listen_parse(listen, &address, &cause);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "--metrics: %s", cause.text);
    const bool is_any = !address.host[0];
    char port[8];
    snprintf(port, sizeof(port), "%u", address.port);
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int code = getaddrinfo(is_any ? NULL : address.host, port, &hints, &found);
    if (code != 0)
        return tell_why(listen, &address, err);
    struct sluice_metrics_server *made = calloc(1, sizeof(*made));
    if (!made) {
        freeaddrinfo(found);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the metrics server");
    }
    made->pages = *pages;
    made->daemon = listen_on(made, found, is_any);
    freeaddrinfo(found);
    if (!made->daemon) {
        free(made);
        return tell_why(listen, &address, err);
    }
    *server = made;
    return SLUICE_OK;
}

int sluice_metrics_server_port(const struct sluice_metrics_server *server)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void sluice_metrics_server_destroy(struct sluice_metrics_server *server)
{
    if (!server)
        return;
    MHD_stop_daemon(server->daemon);
    free(server);
}
