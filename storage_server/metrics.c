#include "storage_server/metrics.h"

#include <microhttpd.h>

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* A monitoring system needs one connection, or two for a moment. */
#define CONNECTIONS_PER_HOST 4u

/* s.  A scrape takes milliseconds; who says nothing for so long makes room for others. */
#define IDLE_S 3u

struct sluice_metrics {
    struct MHD_Daemon *daemon;
    struct sluice_wire_stats (*read)(void *ctx);
    void *ctx;
};

/* --- the page --- */

static void put_header(FILE *page, const char *name, const char *type, const char *help)
{
    fprintf(page, "# HELP sluice_%s %s\n# TYPE sluice_%s %s\n", name, help, name, type);
}

static void put_counter(FILE *page, const char *name, uint64_t value, const char *help)
{
    put_header(page, name, "counter", help);
    fprintf(page, "sluice_%s %llu\n", name, (unsigned long long)value);
}

static void put_gauge(FILE *page, const char *name, double value, const char *help)
{
    put_header(page, name, "gauge", help);
    fprintf(page, "sluice_%s %.9g\n", name, value);
}

static void put_choices(FILE *page, const struct sluice_wire_stats *stats, const char *name,
                        bool is_bytes, const char *help)
{
    put_header(page, name, "counter", help);
    for (unsigned split = 0; split < SLUICE_WIRE_MAX_SPLITS; split++) {
        for (int form = 0; form < SLUICE_NUM_FORMS; form++) {
            if (stats->choices[split][form].samples == 0)
                continue;
            const uint64_t value =
                is_bytes ? stats->choices[split][form].bytes : stats->choices[split][form].samples;
            fprintf(page, "sluice_%s{split=\"%u\",form=\"%s\"} %llu\n", name, split,
                    sluice_form_name((enum sluice_form)form), (unsigned long long)value);
        }
    }
}

char *sluice_metrics_text(const struct sluice_wire_stats *stats)
{
    char *text = NULL;
    size_t len = 0;
    FILE *page = open_memstream(&text, &len);
    if (!page)
        return NULL;
    put_choices(page, stats, "samples_total", false, "Samples answered, by split and form.");
    put_choices(page, stats, "payload_bytes_total", true, "Payload sent, by split and form.");
    put_counter(page, "wire_bytes_total", stats->wire_bytes,
                "Messages sent, payload and fields, in bytes.");
    put_counter(page, "reduced_total", stats->reduced,
                "Samples answered with fewer ops than asked for.");
    put_counter(page, "refused_paths_total", stats->refused_paths,
                "Requests for paths outside the root.");
    put_header(page, "errors_total", "counter", "Samples answered without a payload, by status.");
    for (int status = 1; status < SLUICE_WIRE_NUM_STATUS; status++)
        fprintf(page, "sluice_errors_total{status=\"%s\"} %llu\n",
                sluice_status_name((sluice_status)status),
                (unsigned long long)stats->errors[status]);
    put_gauge(page, "uptime_seconds", stats->uptime_s, "Since the server began to serve.");
    put_gauge(page, "queue_depth", stats->queue_depth, "Jobs that wait for a worker.");
    put_gauge(page, "queue_peak", stats->queue_peak, "The most jobs that ever waited.");
    put_gauge(page, "prep_cores", stats->prep_cores, "Cores that preprocessing may use.");
    put_gauge(page, "prep_workers", stats->prep_workers, "The same in whole cores, at least 1.");
    put_header(page, "busy_core_seconds_total", "counter", "CPU time of preprocessing.");
    fprintf(page, "sluice_busy_core_seconds_total %.9g\n", stats->busy_cores * stats->uptime_s);
    put_gauge(page, "cpu_price", stats->cpu_price,
              "What a core is worth to the clients, in seconds of a million samples.");
    put_header(page, "cpu_seconds_total", "counter", "CPU time of jobs: reading, ops and replies.");
    fprintf(page, "sluice_cpu_seconds_total %.9g\n", stats->cpu_s);
    put_header(page, "process_cpu_seconds_total", "counter", "CPU time of the whole server.");
    fprintf(page, "sluice_process_cpu_seconds_total %.9g\n", stats->process_cpu_s);
    put_counter(page, "file_reads_total", stats->files.reads, "Files read for samples.");
    put_counter(page, "file_bytes_total", stats->files.bytes, "Length of the files read.");
    put_counter(page, "file_read_bytes_total", stats->files.read_bytes,
                "Bytes of them that were read.");
    put_header(page, "jpeg_index_total", "counter",
               "Files for preprocessing, by what the index of JPEGs had for them; again: read in "
               "full after all.");
    fprintf(
        page,
        "sluice_jpeg_index_total{use=\"hit\"} %llu\nsluice_jpeg_index_total{use=\"stale\"} %llu\n"
        "sluice_jpeg_index_total{use=\"missing\"} %llu\n"
        "sluice_jpeg_index_total{use=\"again\"} %llu\n",
        (unsigned long long)stats->jpeg_index.hits, (unsigned long long)stats->jpeg_index.stale,
        (unsigned long long)stats->jpeg_index.missing, (unsigned long long)stats->jpeg_index.again);
    put_gauge(page, "streams", stats->streams, "Fetch streams that are open.");
    const bool is_whole = !ferror(page);
    if (fclose(page) != 0 || !is_whole) {
        free(text);
        return NULL;
    }
    return text;
}

/* --- the server --- */

static enum MHD_Result answer_text(struct MHD_Connection *connection, unsigned code,
                                   const char *type, char *text)
{
    struct MHD_Response *response =
        MHD_create_response_from_buffer(strlen(text), text, MHD_RESPMEM_MUST_COPY);
    if (!response)
        return MHD_NO;
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
    const enum MHD_Result result = MHD_queue_response(connection, code, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result on_request(void *ctx, struct MHD_Connection *connection, const char *url,
                                  const char *method, const char *version, const char *body,
                                  size_t *body_len, void **state)
{
    (void)version, (void)body, (void)state;
    struct sluice_metrics *metrics = ctx;
    static char not_allowed[] = "only GET\n", not_found[] = "the counters are at /metrics\n",
                no_memory[] = "no memory\n";
    *body_len = 0; /* whatever is posted is read and dropped */
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return answer_text(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", not_allowed);
    if (strcmp(url, "/metrics") != 0)
        return answer_text(connection, MHD_HTTP_NOT_FOUND, "text/plain", not_found);
    const struct sluice_wire_stats stats = metrics->read(metrics->ctx);
    char *text = sluice_metrics_text(&stats);
    if (!text)
        return answer_text(connection, MHD_HTTP_INTERNAL_SERVER_ERROR, "text/plain", no_memory);
    const enum MHD_Result result =
        answer_text(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text);
    free(text);
    return result;
}

/* "host:port", "[v6]:port" or ":port" to an address. */
static sluice_status resolve(const char *listen, struct addrinfo **found, struct sluice_err *err)
{
    char host[256];
    const char *colon = strrchr(listen, ':');
    if (!colon || (size_t)(colon - listen) >= sizeof(host) || !colon[1])
        return sluice_fail(err, SLUICE_E_INVALID, "--metrics '%s' is not HOST:PORT", listen);
    size_t len = (size_t)(colon - listen);
    const bool is_bracketed = len >= 2 && listen[0] == '[' && listen[len - 1] == ']';
    if (is_bracketed)
        len -= 2;
    memcpy(host, listen + (is_bracketed ? 1 : 0), len);
    host[len] = '\0';
    const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
                                   .ai_socktype = SOCK_STREAM};
    const int code = getaddrinfo(len ? host : NULL, colon + 1, &hints, found);
    if (code != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "--metrics '%s': %s", listen, gai_strerror(code));
    return SLUICE_OK;
}

sluice_status sluice_metrics_create(const char *listen, struct sluice_wire_stats (*read)(void *ctx),
                                    void *ctx, struct sluice_metrics **metrics,
                                    struct sluice_err *err)
{
    struct addrinfo *address = NULL;
    sluice_status status = resolve(listen, &address, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_metrics *made = calloc(1, sizeof(*made));
    if (!made) {
        freeaddrinfo(address);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the metrics server");
    }
    made->read = read;
    made->ctx = ctx;
    /* AUTO: select() cannot wait for descriptors above 1,023. */
    const unsigned flags = MHD_USE_AUTO | MHD_USE_INTERNAL_POLLING_THREAD |
                           (address->ai_family == AF_INET6 ? MHD_USE_IPv6 : MHD_NO_FLAG);
    made->daemon = MHD_start_daemon(flags, 0, NULL, NULL, on_request, made, MHD_OPTION_SOCK_ADDR,
                                    address->ai_addr, MHD_OPTION_CONNECTION_LIMIT,
                                    (unsigned)SLUICE_METRICS_CONNECTIONS,
                                    MHD_OPTION_PER_IP_CONNECTION_LIMIT, CONNECTIONS_PER_HOST,
                                    MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
    freeaddrinfo(address);
    if (!made->daemon) {
        free(made);
        return sluice_fail(err, SLUICE_E_IO, "--metrics '%s': cannot listen there", listen);
    }
    *metrics = made;
    return SLUICE_OK;
}

int sluice_metrics_port(const struct sluice_metrics *metrics)
{
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_BIND_PORT);
    return info ? info->port : 0;
}

void sluice_metrics_destroy(struct sluice_metrics *metrics)
{
    if (!metrics)
        return;
    MHD_stop_daemon(metrics->daemon);
    free(metrics);
}
