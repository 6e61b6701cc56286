#include "storage_server/metrics.h"

#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sluice_wire_stats some_stats(void)
{
    struct sluice_wire_stats stats = {.uptime_s = 2.5,
                                      .samples = 10,
                                      .wire_bytes = 1ull << 40,
                                      .refused_paths = 3,
                                      .queue_depth = 4,
                                      .busy_cores = 1.5,
                                      .cpu_price = 0.25,
                                      .cpu_s = 6.5,
                                      .process_cpu_s = 7.25,
                                      .files = {8, 9000, 7000},
                                      .jpeg_index = {11, 12, 13, 14}};
    stats.choices[3][SLUICE_FORM_U8].samples = 7;
    stats.choices[3][SLUICE_FORM_U8].bytes = 7 * 150528;
    stats.errors[SLUICE_E_CORRUPT] = 2;
    return stats;
}

static void the_page_has_every_counter_in_prometheus_format(void)
{
    const struct sluice_wire_stats stats = some_stats();
    char *text = sluice_metrics_text(&stats);
    if (!text)
        abort();
    static const char *const lines[] = {
        "# TYPE sluice_samples_total counter\n",
        "\nsluice_samples_total{split=\"3\",form=\"u8\"} 7\n",
        "\nsluice_payload_bytes_total{split=\"3\",form=\"u8\"} 1053696\n",
        "\nsluice_wire_bytes_total 1099511627776\n",
        "\nsluice_refused_paths_total 3\n",
        "\nsluice_errors_total{status=\"corrupt\"} 2\n",
        "\nsluice_errors_total{status=\"not found\"} 0\n",
        "\nsluice_queue_depth 4\n",
        "\nsluice_busy_core_seconds_total 3.75\n",
        "\nsluice_uptime_seconds 2.5\n",
        "\nsluice_cpu_price 0.25\n",
        "\nsluice_cpu_seconds_total 6.5\n",
        "\nsluice_process_cpu_seconds_total 7.25\n",
        "\nsluice_file_reads_total 8\n",
        "\nsluice_file_bytes_total 9000\n",
        "\nsluice_file_read_bytes_total 7000\n",
        "\nsluice_jpeg_index_total{use=\"hit\"} 11\n",
        "\nsluice_jpeg_index_total{use=\"stale\"} 12\n",
        "\nsluice_jpeg_index_total{use=\"missing\"} 13\n",
        "\nsluice_jpeg_index_total{use=\"again\"} 14\n",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
        CU_ASSERT_PTR_NOT_NULL(strstr(text, lines[i]));
    /* Every line is a comment, or a name and a value. */
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char name[128];
        double value;
        CU_ASSERT(line[0] == '#' || sscanf(line, "sluice_%127[^ ] %lf", name, &value) == 2 ||
                  strstr(line, "status=\"") != NULL);
    }
    free(text);
}

static struct sluice_wire_stats read_stats(void *ctx)
{
    ++*(int *)ctx;
    return some_stats();
}

static void exchange(int port, const char *request, char *answer, size_t capacity)
{
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CU_ASSERT_EQUAL_FATAL(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    CU_ASSERT_EQUAL(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    size_t len = 0;
    ssize_t got;
    while (len + 1 < capacity && (got = read(fd, answer + len, capacity - 1 - len)) > 0)
        len += (size_t)got;
    answer[len] = '\0';
    close(fd);
}

static void serves_the_page_and_nothing_else(void)
{
    struct sluice_metrics *metrics = NULL;
    struct sluice_err err = {0};
    int reads = 0;
    CU_ASSERT_EQUAL_FATAL(sluice_metrics_create("127.0.0.1:0", read_stats, &reads, &metrics, &err),
                          SLUICE_OK);
    const int port = sluice_metrics_port(metrics);
    CU_ASSERT(port > 0);
    char answer[16384];
    exchange(port, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
             sizeof(answer));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 200"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "text/plain; version=0.0.4"));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "sluice_refused_paths_total 3"));
    CU_ASSERT_EQUAL(reads, 1);
    exchange(port, "GET /etc/passwd HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
             sizeof(answer));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 404"));
    exchange(port, "DELETE /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", answer,
             sizeof(answer));
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, "HTTP/1.1 405"));
    CU_ASSERT_EQUAL(reads, 1);

    /* The port is taken now. */
    char taken[32];
    snprintf(taken, sizeof(taken), "127.0.0.1:%d", port);
    struct sluice_metrics *second = NULL;
    CU_ASSERT_EQUAL(sluice_metrics_create(taken, read_stats, &reads, &second, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, taken));
    CU_ASSERT_PTR_NULL(second);
    sluice_metrics_destroy(metrics);
    sluice_metrics_destroy(NULL);
}

static void refuses_what_is_no_address(void)
{
    static const char *const bad[] = {"", "9464", "127.0.0.1:", "127.0.0.1:http-x", "::1::x"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct sluice_metrics *metrics = NULL;
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_metrics_create(bad[i], read_stats, NULL, &metrics, &err),
                        SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "--metrics"));
        CU_ASSERT_PTR_NULL(metrics);
    }
}

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(the_page_has_every_counter_in_prometheus_format),
        SLUICE_TEST(serves_the_page_and_nothing_else),
        SLUICE_TEST(refuses_what_is_no_address),
    };
    return sluice_test_run("metrics", tests, SLUICE_TEST_COUNT(tests));
}
