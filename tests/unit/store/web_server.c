#include "web_server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_OBJECTS 32
#define PAGE 4

struct object {
    char key[256]; /* "": none */
    uint8_t *data;
    size_t len;
    unsigned version;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct object objects[MAX_OBJECTS];
    unsigned version;
    char slow[256], broken[256], hanging[256], changing[256], absurd[256];
    unsigned broken_times;
    struct object other;      /* what the changing one becomes */
    unsigned hang_times;      /* bodies that are still to stop */
    unsigned num_hung, hangs; /* bodies that stopped since the last web_hang(), which counts them */
    unsigned fail_code, fail_times;
    char fail_body[1024];
    bool is_forgetful, is_ignorant;
    enum web_lie lie;
    bool repeats_pages;
    struct web_counts counts;
} web = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void copy(char *out, size_t room, const char *text)
{
    snprintf(out, room, "%s", text);
}

static struct object *find(const char *key)
{
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        if (web.objects[i].key[0] && strcmp(web.objects[i].key, key) == 0)
            return &web.objects[i];
    }
    return NULL;
}

static void set(struct object *object, const char *key, const void *data, size_t len)
{
    free(object->data);
    object->data = malloc(len + 1);
    if (!object->data)
        abort();
    memcpy(object->data, data, len);
    object->len = len;
    object->version = ++web.version;
    copy(object->key, sizeof(object->key), key);
}

void web_put(const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&web.lock);
    struct object *object = find(key);
    for (size_t i = 0; i < MAX_OBJECTS && !object; i++)
        object = web.objects[i].key[0] ? NULL : &web.objects[i];
    if (!object)
        abort();
    set(object, key, data, len);
    pthread_mutex_unlock(&web.lock);
}

void web_remove(const char *key)
{
    pthread_mutex_lock(&web.lock);
    find(key)->key[0] = '\0';
    pthread_mutex_unlock(&web.lock);
}

void web_clear(void)
{
    pthread_mutex_lock(&web.lock);
    for (size_t i = 0; i < MAX_OBJECTS; i++)
        web.objects[i].key[0] = '\0';
    web.slow[0] = web.broken[0] = web.hanging[0] = web.changing[0] = '\0';
    web.hangs++;
    web.fail_times = 0;
    web.is_forgetful = web.is_ignorant = false;
    web.lie = WEB_HONEST;
    memset(&web.counts, 0, sizeof(web.counts));
    pthread_cond_broadcast(&web.changed);
    pthread_mutex_unlock(&web.lock);
}

void web_list_as_absurd(const char *key)
{
    pthread_mutex_lock(&web.lock);
    copy(web.absurd, sizeof(web.absurd), key ? key : "");
    pthread_mutex_unlock(&web.lock);
}

void web_slow_down(const char *key)
{
    pthread_mutex_lock(&web.lock);
    copy(web.slow, sizeof(web.slow), key);
    pthread_mutex_unlock(&web.lock);
}

void web_break_off(const char *key, unsigned times)
{
    pthread_mutex_lock(&web.lock);
    copy(web.broken, sizeof(web.broken), key);
    web.broken_times = times;
    pthread_mutex_unlock(&web.lock);
}

void web_change_amid(const char *key, const void *data, size_t len)
{
    pthread_mutex_lock(&web.lock);
    copy(web.changing, sizeof(web.changing), key);
    set(&web.other, key, data, len);
    pthread_mutex_unlock(&web.lock);
}

void web_hang(const char *key)
{
    web_hang_some(key, UINT_MAX);
}

void web_hang_some(const char *key, unsigned times)
{
    pthread_mutex_lock(&web.lock);
    web.hang_times = times;
    copy(web.hanging, sizeof(web.hanging), key ? key : "");
    web.num_hung = 0;
    web.hangs++;
    pthread_cond_broadcast(&web.changed);
    pthread_mutex_unlock(&web.lock);
}

void web_wait_for_hang(void)
{
    pthread_mutex_lock(&web.lock);
    while (!web.num_hung)
        pthread_cond_wait(&web.changed, &web.lock);
    pthread_mutex_unlock(&web.lock);
}

void web_fail(unsigned code, const char *body, unsigned times)
{
    pthread_mutex_lock(&web.lock);
    web.fail_code = code;
    web.fail_times = times;
    copy(web.fail_body, sizeof(web.fail_body), body);
    pthread_mutex_unlock(&web.lock);
}

void web_forget_etags(bool is_forgetful)
{
    pthread_mutex_lock(&web.lock);
    web.is_forgetful = is_forgetful;
    pthread_mutex_unlock(&web.lock);
}

void web_ignore_ranges(bool is_ignorant)
{
    pthread_mutex_lock(&web.lock);
    web.is_ignorant = is_ignorant;
    pthread_mutex_unlock(&web.lock);
}

void web_lie_about_ranges(enum web_lie lie)
{
    pthread_mutex_lock(&web.lock);
    web.lie = lie;
    pthread_mutex_unlock(&web.lock);
}

void web_repeat_pages(bool repeats)
{
    pthread_mutex_lock(&web.lock);
    web.repeats_pages = repeats;
    pthread_mutex_unlock(&web.lock);
}

struct web_counts web_count(void)
{
    pthread_mutex_lock(&web.lock);
    const struct web_counts counts = web.counts;
    pthread_mutex_unlock(&web.lock);
    return counts;
}

/* --- a connection --- */

struct request {
    char method[8], path[1024], query[512];
    char range[64], match[128];
    size_t body_len;
};

static bool send_all(int fd, const void *data, size_t len)
{
    for (const char *at = data; len > 0;) {
        const ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool send_text(int fd, const char *status, const char *more, const char *body, bool has_body)
{
    char head[1024];
    snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n", status,
             strlen(body), more);
    return send_all(fd, head, strlen(head)) && (!has_body || send_all(fd, body, strlen(body)));
}

static void decode(char *text)
{
    char *out = text;
    for (; *text; text++) {
        unsigned value;
        if (*text == '%' && sscanf(text + 1, "%2x", &value) == 1) {
            *out++ = (char)value;
            text += 2;
        } else {
            *out++ = *text;
        }
    }
    *out = '\0';
}

static void query_value(const char *query, const char *name, char *out, size_t room)
{
    char pattern[64];
    snprintf(pattern, sizeof(pattern), "%s=", name);
    const char *at = strstr(query, pattern);
    out[0] = '\0';
    if (!at)
        return;
    at += strlen(pattern);
    snprintf(out, room, "%.*s", (int)strcspn(at, "&"), at);
    decode(out);
}

static int compare(const void *a, const void *b)
{
    const struct object *const *left = a, *const *right = b;
    return strcmp((*left)->key, (*right)->key);
}

/* Under the lock.  The objects in order. */
static size_t sort(struct object *sorted[MAX_OBJECTS])
{
    size_t num = 0;
    for (size_t i = 0; i < MAX_OBJECTS; i++) {
        if (web.objects[i].key[0])
            sorted[num++] = &web.objects[i];
    }
    qsort(sorted, num, sizeof(struct object *), compare); /* NOLINT(bugprone-sizeof-expression) */
    return num;
}

/* As encoding-type=url has keys. */
static void escape(const char *text, char *out)
{
    for (; *text; text++)
        out += sprintf(out,
                       isalnum((unsigned char)*text) || strchr("/._-", *text) ? "%c"
                       : *text == ' '                                         ? "+"
                                                                              : "%%%02X",
                       (unsigned char)*text);
    *out = '\0';
}

/* /folder?list-type=2: keys are "pre/KEY" for requests of a prefix in pre/. */
static bool answer_s3_list(int fd, const struct request *request)
{
    static const char before[] = "pre/";
    char prefix[512], token[256], *xml = malloc(1 << 16), *at = xml;
    struct object *sorted[MAX_OBJECTS];
    if (!xml)
        abort();
    query_value(request->query, "prefix", prefix, sizeof(prefix));
    query_value(request->query, "continuation-token", token, sizeof(token));
    pthread_mutex_lock(&web.lock);
    const size_t num = sort(sorted);
    size_t told = 0, i = token[0] ? (size_t)atoi(token + 1) : 0;
    at += sprintf(at, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult "
                      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name>");
    at += sprintf(at, "<Contents><Key>%s</Key><Size>0</Size></Contents>", before);
    for (; i < num && told < PAGE; i++) {
        char key[300], escaped[1500];
        snprintf(key, sizeof(key), "%s%s", before, sorted[i]->key);
        if (strncmp(key, prefix, strlen(prefix)) != 0)
            continue;
        escape(key, escaped);
        at += sprintf(at,
                      "<Contents><Key>%s</Key><ETag>&quot;v%u&quot;</ETag><Size>%zu</Size>"
                      "</Contents>",
                      escaped, sorted[i]->version,
                      strcmp(sorted[i]->key, web.absurd) == 0 ? (size_t)INT64_MAX : sorted[i]->len);
        told++;
    }
    if (i < num)
        at += sprintf(at, "<NextContinuationToken>/%zu</NextContinuationToken>",
                      web.repeats_pages ? 1 : i);
    at += sprintf(at, "<EncodingType>url</EncodingType>");
    sprintf(at, "<IsTruncated>%s</IsTruncated></ListBucketResult>", i < num ? "true" : "false");
    pthread_mutex_unlock(&web.lock);
    const bool is_sent = send_text(fd, "200 OK", "", xml, true);
    free(xml);
    return is_sent;
}

static bool answer_list(int fd, bool has_body)
{
    char *text = malloc(1 << 16), *at = text;
    struct object *sorted[MAX_OBJECTS];
    if (!text)
        abort();
    pthread_mutex_lock(&web.lock);
    const size_t num = sort(sorted);
    at += sprintf(at, "# PATH BYTES ETAG\n\n");
    for (size_t i = num; i-- > 0;)
        at +=
            sprintf(at, "%s\t%zu \"v%u\"\r\n", sorted[i]->key, sorted[i]->len, sorted[i]->version);
    pthread_mutex_unlock(&web.lock);
    const bool is_sent = send_text(fd, "200 OK", "", text, has_body);
    free(text);
    return is_sent;
}

/* Takes the number of faults of this object.  Under the lock. */
static bool takes_break(const char *key)
{
    if (strcmp(web.broken, key) != 0 || !web.broken_times)
        return false;
    web.broken_times--;
    return true;
}

/* A body with whatever is wrong with it.  False: the connection ends. */
static bool send_body(int fd, const char *key, const uint8_t *data, size_t len)
{
    pthread_mutex_lock(&web.lock);
    const bool is_slow = strcmp(web.slow, key) == 0, is_broken = takes_break(key);
    const bool hangs = strcmp(web.hanging, key) == 0 && web.hang_times;
    web.hang_times -= hangs;
    const bool changes = strcmp(web.changing, key) == 0;
    if (changes) {
        struct object *object = find(key);
        set(object, key, web.other.data, web.other.len);
        web.changing[0] = '\0';
    }
    pthread_mutex_unlock(&web.lock);
    if (is_broken || changes)
        return send_all(fd, data, len / 2) && false;
    if (is_slow) {
        for (size_t i = 0; i < len; i++) {
            if (!send_all(fd, data + i, 1))
                return false;
            sched_yield();
        }
        return true;
    }
    if (!hangs)
        return send_all(fd, data, len);
    if (!send_all(fd, data, len / 2))
        return false;
    pthread_mutex_lock(&web.lock);
    const unsigned generation = web.hangs;
    web.num_hung++;
    pthread_cond_broadcast(&web.changed);
    while (web.hangs == generation)
        pthread_cond_wait(&web.changed, &web.lock);
    pthread_mutex_unlock(&web.lock);
    return false;
}

static bool answer_object(int fd, const struct request *request, const char *key, bool has_body)
{
    char etag[64], tag[128], head[512];
    pthread_mutex_lock(&web.lock);
    const struct object *object = find(key);
    if (!object) {
        pthread_mutex_unlock(&web.lock);
        return send_text(fd, "404 Not Found", "",
                         "<Error><Code>NoSuchKey</Code><Message>no</Message></Error>", has_body);
    }
    const size_t total = object->len;
    const bool is_forgetful = web.is_forgetful, is_ignorant = web.is_ignorant;
    const enum web_lie lie = web.lie;
    uint8_t *data = malloc(total + 1);
    if (!data)
        abort();
    memcpy(data, object->data, total);
    snprintf(etag, sizeof(etag), "\"v%u\"", object->version);
    snprintf(tag, sizeof(tag), is_forgetful ? "Last-Modified: %s" : "etag: %s", etag);
    pthread_mutex_unlock(&web.lock);

    bool is_sent = false;
    size_t from = 0, to = total;
    const bool has_range = !is_ignorant && sscanf(request->range, "bytes=%zu-%zu", &from, &to) == 2;
    if (has_range)
        to = to + 1 < total ? to + 1 : total;
    else
        from = 0, to = total;
    if (has_range && lie == WEB_OTHER_RANGE && from > 0)
        from--, to--;
    else if (has_range && lie == WEB_LESS && to - from > 1)
        to--;
    else if (has_range && lie == WEB_MORE && to < total)
        to++;
    if (request->match[0] && strcmp(request->match, etag) != 0) {
        is_sent = send_text(fd, "412 Precondition Failed", "", "", has_body);
    } else if (from >= total && has_range) {
        is_sent = send_text(fd, "416 Range Not Satisfiable", "", "", has_body);
    } else {
        char range[128] = "";
        if (has_range && lie != WEB_NO_RANGE)
            snprintf(range, sizeof(range), "Content-Range: bytes %zu-%zu/%zu\r\n", from, to - 1,
                     total);
        snprintf(head, sizeof(head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n%s\r\n",
                 has_range ? "206 Partial Content" : "200 OK", to - from, tag, range);
        is_sent = send_all(fd, head, strlen(head)) &&
                  (!has_body || send_body(fd, key, data + from, to - from));
    }
    free(data);
    return is_sent;
}

static bool answer(int fd, struct request *request)
{
    const bool has_body = strcmp(request->method, "HEAD") != 0;
    char body[1024] = "", status[64];
    pthread_mutex_lock(&web.lock);
    web.counts.requests++;
    copy(web.counts.query, sizeof(web.counts.query), request->query);
    copy(web.counts.range, sizeof(web.counts.range), request->range);
    copy(web.counts.match, sizeof(web.counts.match), request->match);
    const bool fails = web.fail_times > 0;
    if (fails) {
        web.fail_times--;
        snprintf(status, sizeof(status), "%u No", web.fail_code);
        copy(body, sizeof(body), web.fail_body);
    }
    pthread_mutex_unlock(&web.lock);
    if (fails)
        return send_text(fd, status,
                         strncmp(status, "301", 3) == 0
                             ? "Location: /folder/elsewhere\r\nx-amz-bucket-region: eu-test-9\r\n"
                             : "Location: /folder/elsewhere\r\n",
                         body, has_body);
    decode(request->path);
    if (strstr(request->query, "list-type=2"))
        return answer_s3_list(fd, request);
    if (strcmp(request->path, "/folder/list.txt") == 0)
        return answer_list(fd, has_body);
    const char *key = strncmp(request->path, "/folder/", 8) == 0 ? request->path + 8 : "";
    if (strncmp(key, "pre/", 4) == 0)
        key += 4;
    return answer_object(fd, request, key, has_body);
}

static bool read_request(FILE *in, struct request *request)
{
    char line[8192], target[4096];
    *request = (struct request){.body_len = 0};
    if (!fgets(line, sizeof(line), in) || sscanf(line, "%7s %4095s", request->method, target) != 2)
        return false;
    const size_t path_len = strcspn(target, "?");
    snprintf(request->path, sizeof(request->path), "%.*s", (int)path_len, target);
    if (target[path_len])
        snprintf(request->query, sizeof(request->query), "%s", target + path_len + 1);
    pthread_mutex_lock(&web.lock);
    web.counts.authorization[0] = web.counts.token[0] = '\0';
    pthread_mutex_unlock(&web.lock);
    while (fgets(line, sizeof(line), in) && line[0] != '\r') {
        line[strcspn(line, "\r\n")] = '\0';
        char *value = strchr(line, ':');
        if (!value)
            return false;
        *value++ = '\0';
        value += strspn(value, " ");
        pthread_mutex_lock(&web.lock);
        if (strcasecmp(line, "Range") == 0)
            copy(request->range, sizeof(request->range), value);
        else if (strcasecmp(line, "If-Match") == 0)
            copy(request->match, sizeof(request->match), value);
        else if (strcasecmp(line, "Content-Length") == 0)
            request->body_len = (size_t)atoi(value);
        else if (strcasecmp(line, "Authorization") == 0)
            copy(web.counts.authorization, sizeof(web.counts.authorization), value);
        else if (strcasecmp(line, "x-amz-security-token") == 0)
            copy(web.counts.token, sizeof(web.counts.token), value);
        pthread_mutex_unlock(&web.lock);
    }
    char body[4096] = "";
    if (request->body_len >= sizeof(body) ||
        fread(body, 1, request->body_len, in) < request->body_len)
        return false;
    pthread_mutex_lock(&web.lock);
    copy(web.counts.body, sizeof(web.counts.body), body);
    pthread_mutex_unlock(&web.lock);
    return true;
}

static void *serve(void *ctx)
{
    const int fd = (int)(intptr_t)ctx;
    FILE *in = fdopen(fd, "r");
    if (!in)
        abort();
    for (struct request request; read_request(in, &request) && answer(fd, &request);)
        ;
    fclose(in);
    return NULL;
}

static void *accept_all(void *ctx)
{
    const int listener = (int)(intptr_t)ctx;
    for (int fd; (fd = accept(listener, NULL, NULL)) >= 0;) {
        pthread_t thread;
        pthread_mutex_lock(&web.lock);
        web.counts.connections++;
        pthread_mutex_unlock(&web.lock);
        const int on = 1; /* or a body waits for the acknowledgement of its head */
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd))
            abort();
        pthread_detach(thread);
    }
    return NULL;
}

int web_open(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    pthread_t thread;
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, len) != 0 ||
        listen(listener, 64) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0 ||
        pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)listener)) {
        perror("web server");
        exit(1);
    }
    pthread_detach(thread);
    return ntohs(address.sin_port);
}
