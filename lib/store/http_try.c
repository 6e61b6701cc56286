#include "store/http_flight.h"

#include "base/clock.h"
#include "base/text.h"
#include "store/http_text.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000) /* ns */

#define MAX_CONNECT_MS 5000 /* a SYN that is lost twice comes again after 1 and 3 s */

/* --- what comes from the network --- */

/* Whether the body of a 206 is what was asked for; at the end of the object it is shorter. */
static bool is_asked_range(const struct sluice_http_flight *flight)
{
    const struct sluice_http_transfer *t = flight->transfer;
    return t->has_range && flight->body_to > flight->body_from && flight->body_from == t->from &&
           (flight->body_to == t->to || (flight->body_to < t->to && flight->body_to == t->total));
}

static size_t on_body(char *bytes, size_t size, size_t count, void *ctx)
{
    struct sluice_http_flight *flight = ctx;
    struct sluice_http_transfer *t = flight->transfer;
    const size_t got = size * count;
    size_t len = got;
    if (t->code != 200 && t->code != 206) {
        size_t at = strlen(t->text);
        for (; len > 0 && at + 1 < sizeof(t->text); len--)
            t->text[at++] = *bytes++;
        t->text[at] = '\0';
        return got;
    }
    if (t->code == 206 && !is_asked_range(flight)) {
        flight->is_other_range = true;
        return 0;
    }
    if (flight->skip) {
        const size_t skipped = flight->skip < len ? (size_t)flight->skip : len;
        flight->skip -= skipped;
        bytes += skipped;
        len -= skipped;
    }
    const size_t room = (t->has_range ? (size_t)(t->to - t->from) : t->room) - t->len;
    const size_t kept = len < room ? len : room;
    if (kept)
        memcpy(t->data + t->len, bytes, kept);
    t->len += kept;
    if (kept == len)
        return got;
    if (t->has_range)
        flight->is_complete = true;
    else
        t->is_longer = true;
    return 0;
}

static size_t on_header(char *line, size_t size, size_t count, void *ctx)
{
    struct sluice_http_flight *flight = ctx;
    struct sluice_http_transfer *t = flight->transfer;
    const size_t len = size * count;
    char value[SLUICE_HTTP_TAG_BYTES];
    unsigned long long number;
    if (len > 5 && strncmp(line, "HTTP/", 5) == 0) { /* the first line, also after a 100 */
        long code = 0;
        curl_easy_getinfo(flight->easy, CURLINFO_RESPONSE_CODE, &code);
        t->code = code;
        t->total = UINT64_MAX;
        t->tag[0] = t->region[0] = '\0';
        t->is_etag = false;
        flight->skip = t->has_range && code == 200 ? t->from : 0;
        flight->body_from = flight->body_to = 0;
    } else if (sluice_http_header_value(line, len, "x-amz-bucket-region", value, sizeof(value))) {
        snprintf(t->region, sizeof(t->region), "%.63s", value);
    } else if (sluice_http_header_value(line, len, "ETag", value, sizeof(value))) {
        memcpy(t->tag, value, sizeof(value));
        t->is_etag = value[0] != '\0';
    } else if (!t->is_etag &&
               sluice_http_header_value(line, len, "Last-Modified", value, sizeof(value))) {
        memcpy(t->tag, value, sizeof(value));
    } else if (sluice_http_header_value(line, len, "Content-Range", value, sizeof(value))) {
        const char *slash = strchr(value, '/');
        unsigned long long from, last;
        if (slash && sscanf(slash, "/%llu", &number) == 1)
            t->total = number;
        if (sscanf(value, "bytes %llu-%llu/", &from, &last) == 2 && last < UINT64_MAX) {
            flight->body_from = from;
            flight->body_to = last + 1;
        }
    } else if (t->code == 200 &&
               sluice_http_header_value(line, len, "Content-Length", value, sizeof(value))) {
        if (sscanf(value, "%llu", &number) == 1)
            t->total = number;
    }
    return len;
}

/* --- one try --- */

static bool add_header(struct sluice_http_flight *flight, const char *header)
{
    struct curl_slist *longer = curl_slist_append(flight->headers, header);
    if (longer)
        flight->headers = longer;
    return longer != NULL;
}

/* A weak tag never matches (RFC 9110, 13.1.1). */
bool sluice_http_is_strong(const struct sluice_http_transfer *t)
{
    return t->is_etag && !sluice_starts_with(t->tag, "W/");
}

static bool set_headers(struct sluice_http_flight *flight)
{
    const struct sluice_http_transfer *t = flight->transfer;
    char match[SLUICE_HTTP_TAG_BYTES + 16];
    bool is_good = true, has_match = false;
    for (size_t i = 0; i < SLUICE_HTTP_MAX_HEADERS && t->headers[i] && is_good; i++) {
        has_match |= sluice_starts_with(t->headers[i], "If-Match:");
        is_good = add_header(flight, t->headers[i]);
    }
    /* Asks for the version that an earlier try began with. */
    if (is_good && !has_match && flight->tries > 1 && sluice_http_is_strong(t) &&
        sluice_print(match, sizeof(match), "If-Match: %s", t->tag))
        is_good = add_header(flight, match);
    return is_good;
}

/* Before the request is sent. */
static int on_sent(void *ctx, char *to, char *from, int to_port, int from_port)
{
    struct sluice_http_flight *flight = ctx;
    (void)to, (void)from, (void)to_port, (void)from_port;
    flight->sent_ns = sluice_clock_ns();
    return CURL_PREREQFUNC_OK;
}

static CURL *take_easy(struct sluice_http *http)
{
    if (http->num_idle == 0)
        return curl_easy_init();
    CURL *easy = http->idle[--http->num_idle];
    curl_easy_reset(easy); /* connections are the multi's */
    return easy;
}

static void set_options(struct sluice_http *http, struct sluice_http_flight *flight, long left_ms)
{
    const struct sluice_http_transfer *t = flight->transfer;
    CURL *easy = flight->easy;
    curl_easy_setopt(easy, CURLOPT_URL, t->url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, flight);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, flight->reason);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, flight);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, flight);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_sent);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, flight);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, flight->headers);
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, left_ms);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS,
                     left_ms / 2 < MAX_CONNECT_MS ? left_ms / 2 + 1 : MAX_CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, left_ms / 3000 + 1);
    if (http->ca_bundle)
        curl_easy_setopt(easy, CURLOPT_CAINFO, http->ca_bundle);
    if (t->is_head)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    if (t->body)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, t->body);
    if (t->has_range) {
        char range[48];
        snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)t->from,
                 (unsigned long long)t->to - 1);
        curl_easy_setopt(easy, CURLOPT_RANGE, range);
    }
    if (t->signature) {
        curl_easy_setopt(easy, CURLOPT_AWS_SIGV4, t->signature->scope);
        curl_easy_setopt(easy, CURLOPT_USERNAME, t->signature->key_id);
        curl_easy_setopt(easy, CURLOPT_PASSWORD, t->signature->secret);
    }
}

bool sluice_http_start_try(struct sluice_http *http, struct sluice_http_flight *flight,
                           uint64_t now_ns)
{
    struct sluice_http_transfer *t = flight->transfer;
    flight->tries++;
    flight->easy = take_easy(http);
    if (!flight->easy || !set_headers(flight))
        return false;
    t->code = 0;
    t->len = 0;
    t->is_longer = false;
    t->text[0] = '\0';
    t->err = (struct sluice_err){0};
    flight->sent_ns = 0;
    flight->has_hedged = false;
    flight->skip = 0;
    flight->is_complete = false;
    flight->is_other_range = false;
    flight->reason[0] = '\0';
    const uint64_t left_ns = flight->until_ns > now_ns ? flight->until_ns - now_ns : 0;
    set_options(http, flight, (long)(left_ns / MS) + 1);
    flight->state = SLUICE_HTTP_RUNNING;
    return curl_multi_add_handle(http->multi, flight->easy) == CURLM_OK;
}

void sluice_http_end_try(struct sluice_http *http, struct sluice_http_flight *flight)
{
    if (flight->easy && flight->state == SLUICE_HTTP_RUNNING)
        curl_multi_remove_handle(http->multi, flight->easy);
    if (flight->easy && http->num_idle < http->max_idle)
        http->idle[http->num_idle++] = flight->easy;
    else if (flight->easy)
        curl_easy_cleanup(flight->easy);
    flight->easy = NULL;
    curl_slist_free_all(flight->headers);
    flight->headers = NULL;
}
