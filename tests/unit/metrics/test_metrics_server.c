#include "metrics/metrics_server.h"

#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

struct program {
    atomic_int num_writes;
    atomic_bool is_ill;
};

static void write_page(void *ctx, struct sluice_exposition *page)
{
    struct program *program = ctx;
    sluice_exposition_counter(page, "sluice_writes_total",
                              (uint64_t)atomic_fetch_add(&program->num_writes, 1) + 1, "Writes.");
}

static bool is_well(void *ctx, char *reason)
{
    struct program *program = ctx;
    if (!atomic_load(&program->is_ill))
        return true;
    snprintf(reason, SLUICE_HEALTH_REASON, "the disk is gone");
    return false;
}

static struct sluice_metrics_pages pages_of(struct program *program)
{
    return (struct sluice_metrics_pages){"some_program", write_page, is_well, program};
}

static struct sluice_metrics_server *serve(const char *listen, struct program *program)
{
    const struct sluice_metrics_pages pages = pages_of(program);
    struct sluice_metrics_server *server = NULL;
    struct sluice_err err = {0};
    if (sluice_metrics_server_create(listen, &pages, &server, &err) != SLUICE_OK) {
        printf("%s\n", err.text);
        abort();
    }
    return server;
}

/* A connection from 127.0.0.`host` that has sent no more than the beginning of a request. */
static int drip(unsigned host, int port)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in from = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host)};
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CU_ASSERT_EQUAL_FATAL(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (const struct sockaddr *)&to, sizeof(to)), 0);
    CU_ASSERT_EQUAL(write(fd, "GET /", 5), 5);
    return fd;
}

/* Whether the server has ended the connection: it answers to no half request. */
static bool is_ended(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* True: connected. */
static bool ask(const char *host, int port, const char *first_line, char *answer, size_t capacity)
{
    char request[256];
    const int len = snprintf(request, sizeof(request),
                             "%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", first_line);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    CU_ASSERT_EQUAL(inet_pton(AF_INET, host, &address.sin_addr), 1);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return false;
    }
    CU_ASSERT_EQUAL(write(fd, request, (size_t)len), len);
    size_t got_len = 0;
    ssize_t got;
    while (got_len + 1 < capacity && (got = read(fd, answer + got_len, capacity - 1 - got_len)) > 0)
        got_len += (size_t)got;
    answer[got_len] = '\0';
    close(fd);
    return true;
}

static const char *body_of(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end ? end + 4 : "";
}

TEST(metrics_begin_with_build_info)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    CU_ASSERT(port > 0);
    char answer[16384];
    CU_ASSERT(ask("127.0.0.1", port, "GET /metrics", answer, sizeof(answer)));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 200"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "text/plain; version=0.0.4; charset=utf-8"));
    CU_ASSERT_EQUAL(strncmp(body_of(answer), "# HELP sluice_build_info ", 25), 0);
    const char *info = strstr(answer, "\nsluice_build_info{program=\"some_program\",version=\"");
    CU_ASSERT_PTR_NOT_NULL_FATAL(info);
    CU_ASSERT_PTR_NOT_NULL(strstr(info, "\",compiler=\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(info, "\"} 1\n"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "\nsluice_writes_total 1\n"));
    sluice_metrics_server_destroy(server);
    sluice_metrics_server_destroy(NULL);
}

TEST(healthz_is_ok_or_says_why_not)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    char answer[4096];
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 200"));
    CU_ASSERT_STRING_EQUAL(body_of(answer), "ok\n");
    atomic_store(&program.is_ill, true);
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 503"));
    CU_ASSERT_STRING_EQUAL(body_of(answer), "the disk is gone\n");
    CU_ASSERT_EQUAL(atomic_load(&program.num_writes), 0);
    sluice_metrics_server_destroy(server);
}

TEST(the_root_links_both_pages)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    char answer[4096];
    CU_ASSERT(
        ask("127.0.0.1", sluice_metrics_server_port(server), "GET /", answer, sizeof(answer)));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 200"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "text/html"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "href=\"/metrics\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "href=\"/healthz\""));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "some_program"));
    sluice_metrics_server_destroy(server);
}

TEST(head_has_the_status_and_no_body)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    static const char *const paths[] = {"HEAD /metrics", "HEAD /healthz", "HEAD /"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(paths); i++) {
        char answer[16384];
        CU_ASSERT(ask("127.0.0.1", port, paths[i], answer, sizeof(answer)));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 200"));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "Content-Length: "));
        CU_ASSERT_STRING_EQUAL(body_of(answer), "");
    }
    sluice_metrics_server_destroy(server);
}

TEST(other_paths_are_404_and_other_methods_405)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    char answer[4096];
    static const char *const unknown[] = {"GET /etc/passwd", "GET /metrics/", "GET /healthz/x",
                                          "HEAD /favicon.ico", "GET //"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(unknown); i++) {
        CU_ASSERT(ask("127.0.0.1", port, unknown[i], answer, sizeof(answer)));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 404"));
    }
    static const char *const methods[] = {"DELETE /metrics", "POST /healthz", "OPTIONS /",
                                          "PUT /x"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(methods); i++) {
        CU_ASSERT(ask("127.0.0.1", port, methods[i], answer, sizeof(answer)));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 405"));
        CU_ASSERT_PTR_NOT_NULL(strstr(answer, "Allow: GET, HEAD"));
    }
    CU_ASSERT_EQUAL(atomic_load(&program.num_writes), 0);
    sluice_metrics_server_destroy(server);
}

/* 127.0.0.2 is another address of this machine. */
TEST(a_bare_port_is_this_machines_and_a_colon_every_address)
{
    struct program program = {0};
    char answer[4096];
    struct sluice_metrics_server *server = serve("0", &program);
    int port = sluice_metrics_server_port(server);
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT_FALSE(ask("127.0.0.2", port, "GET /healthz", answer, sizeof(answer)));
    sluice_metrics_server_destroy(server);

    server = serve(":0", &program);
    port = sluice_metrics_server_port(server);
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT(ask("127.0.0.2", port, "GET /healthz", answer, sizeof(answer)));
    sluice_metrics_server_destroy(server);
}

/* An idle connection ends after 3 s, so where this takes so long it holds for that reason. */
TEST(who_sends_slowly_keeps_nobody_out)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    char answer[4096];
    int fds[4];
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        fds[i] = drip(1, port);
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT_STRING_EQUAL(body_of(answer), "ok\n");
    CU_ASSERT(is_ended(fds[0]));
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        close(fds[i]);
    sluice_metrics_server_destroy(server);
}

TEST(nor_do_many_hosts)
{
    struct program program = {0};
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program);
    const int port = sluice_metrics_server_port(server);
    char answer[4096];
    int fds[SLUICE_METRICS_CONNECTIONS];
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        fds[i] = drip(2 + i / 3, port);
    CU_ASSERT(ask("127.0.0.1", port, "GET /healthz", answer, sizeof(answer)));
    CU_ASSERT_STRING_EQUAL(body_of(answer), "ok\n");
    CU_ASSERT(is_ended(fds[0]));
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(fds); i++)
        close(fds[i]);
    sluice_metrics_server_destroy(server);
}

TEST(an_address_that_is_taken_is_named)
{
    struct program program = {0};
    const struct sluice_metrics_pages pages = pages_of(&program);
    struct sluice_metrics_server *server = serve("127.0.0.1:0", &program), *second = NULL;
    char taken[32];
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", sluice_metrics_server_port(server));
    CHECK_FAILS(SLUICE_E_IO, taken,
                sluice_metrics_server_create(taken, &pages, &second, sluice_test_err()));
    CU_ASSERT_PTR_NULL(second);
    sluice_metrics_server_destroy(server);
}

TEST(a_bare_port_parses_as_the_loopbacks)
{
    struct sluice_host_port address;
    CHECK_OK(sluice_metrics_listen_parse("9464", &address, NULL));
    CU_ASSERT_STRING_EQUAL(address.host, "127.0.0.1");
    CU_ASSERT_EQUAL(address.port, 9464);
    CHECK_OK(sluice_metrics_listen_parse(":9464", &address, NULL));
    CU_ASSERT_STRING_EQUAL(address.host, "");
    CHECK_OK(sluice_metrics_listen_parse("[::1]:80", &address, NULL));
    CU_ASSERT_STRING_EQUAL(address.host, "::1");
}

TEST(refuses_what_is_no_address)
{
    static const char *const bad[] = {"",          "127.0.0.1:", "127.0.0.1:http-x",
                                      "::1::x",    "99999",      ":70000",
                                      "localhost", "::1:80",     "[::1:9464"};
    struct program program = {0};
    const struct sluice_metrics_pages pages = pages_of(&program);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        struct sluice_metrics_server *server = NULL;
        CHECK_FAILS(SLUICE_E_INVALID, "--metrics",
                    sluice_metrics_server_create(bad[i], &pages, &server, sluice_test_err()));
        CU_ASSERT_PTR_NULL(server);
    }
}
