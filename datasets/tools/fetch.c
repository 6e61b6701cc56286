#include "datasets/tools/fetch.h"

#include "base/buf.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/quit.h"
#include "base/show.h"
#include "base/text.h"
#include "datasets/manifest/layout.h"
#include "datasets/tools/fetch_names.h"
#include "image/codecs/codec.h"

#include <curl/curl.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_LINE 4096
#define MAX_RETRY_AFTER_S 3600 /* a server that says more is waited for so long */

/* One file on its way. */
struct transfer {
    struct transfer *next; /* in fetch.running or fetch.waiting */
    CURL *easy;
    FILE *part;
    char url[MAX_LINE];
    char path[MAX_LINE]; /* final name */
    char part_path[MAX_LINE + 8];
    char reason[CURL_ERROR_SIZE];
    uint64_t offset;   /* bytes of the part that stood there when this try began */
    uint64_t received; /* in this try */
    uint64_t max_file_bytes;
    uint64_t not_before_ns;
    unsigned tries;
    bool is_too_large;
};

struct fetch {
    const struct sluice_fetch_options *options;
    struct sluice_fetch_totals *totals;
    CURLM *multi;
    FILE *list;
    uint64_t line_number;
    unsigned num_running;
    struct transfer *running, *waiting; /* the latter: for their next try */
    struct sluice_codec *codec;
    struct sluice_progress progress;
    struct sluice_fetch_names *names;
    uint64_t num_lines;    /* of the list, for the progress line */
    uint64_t num_outgrown; /* files by a name that URLs share now */
};

static void transfer_destroy(struct transfer *transfer)
{
    if (transfer->part)
        fclose(transfer->part);
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    free(transfer);
}

/* --- the list --- */

/* Whether a path component is safe: it cannot lead out of the root. */
static bool is_plain_name(const char *name, size_t len)
{
    if (len == 0 || name[0] == '.')
        return false;
    for (size_t i = 0; i < len; i++) {
        if (!sluice_is_alnum(name[i]) && !strchr("_-.+=%@,", name[i]))
            return false;
    }
    return true;
}

/* The last part of a URL's path as the name of a file: anything that a path component may be, but
 * hidden, or with control characters. */
static bool is_url_name(const char *name, size_t len)
{
    return len > 0 && name[0] != '.' && !sluice_has_control(name, len);
}

static bool is_url(const char *line)
{
    return sluice_starts_with(line, "http://") || sluice_starts_with(line, "https://");
}

/* What a line asks for. */
struct request {
    char url[MAX_LINE];
    char name[MAX_LINE]; /* relative to the root */
};

/* False if the line is neither an image id nor a URL. */
static bool parse_line(const struct sluice_fetch_options *options, const char *line,
                       struct request *request)
{
    if (is_url(line)) {
        const size_t path_len = strcspn(line, "?#");
        size_t start = path_len;
        while (line[start - 1] != '/')
            start--;
        /* What follows a '#' is no part of what the server is asked for. */
        return start >= 8 && is_url_name(line + start, path_len - start) &&
               sluice_print(request->url, MAX_LINE, "%.*s", (int)strcspn(line, "#"), line) &&
               sluice_print(request->name, MAX_LINE, "%.*s", (int)(path_len - start), line + start);
    }
    const char *slash = strchr(line, '/');
    return slash && options->base_url && is_plain_name(line, (size_t)(slash - line)) &&
           is_plain_name(slash + 1, strlen(slash + 1)) &&
           sluice_print(request->url, MAX_LINE, "%s/%s.jpg", options->base_url, line) &&
           sluice_print(request->name, MAX_LINE, "%s.jpg", line);
}

/* The next line that is not empty and no comment, without the space at its end; false: the end.
 * *is_cut: it is too long. */
static bool next_line(struct fetch *fetch, char line[MAX_LINE], bool *is_cut)
{
    while (fgets(line, MAX_LINE, fetch->list)) {
        size_t len = strlen(line);
        if (fetch->line_number++ == 0) {
            const size_t mark = sluice_byte_order_mark(line, len);
            len -= mark;
            memmove(line, line + mark, len + 1);
        }
        *is_cut = len + 1 == MAX_LINE && line[len - 1] != '\n';
        while (len > 0 && sluice_is_space(line[len - 1]))
            line[--len] = '\0';
        if (len > 0 && line[0] != '#')
            return true;
    }
    return false;
}

static sluice_status list_error(const struct fetch *fetch, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_IO, "%s: %s", fetch->options->list_path, strerror(errno));
}

/* Reads the whole list for its names, whatever the limit: names depend on the list alone. */
static sluice_status read_names(struct fetch *fetch, struct sluice_err *err)
{
    sluice_status status = sluice_fetch_names_create(&fetch->names, err);
    char line[MAX_LINE];
    bool is_cut;
    while (status == SLUICE_OK && next_line(fetch, line, &is_cut)) {
        struct request request;
        fetch->num_lines++;
        if (!is_cut && parse_line(fetch->options, line, &request))
            status = sluice_fetch_names_add(fetch->names, request.name, request.url, err);
    }
    if (status == SLUICE_OK && ferror(fetch->list))
        return list_error(fetch, err);
    const uint64_t limit = fetch->options->limit;
    if (limit && limit < fetch->num_lines)
        fetch->num_lines = limit;
    fetch->line_number = 0;
    rewind(fetch->list);
    return status;
}

/* Whether a regular file is there. */
static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* The same, also under a name to which a suffix was added by the file's content. */
static bool is_there(const char *path)
{
    char longer[MAX_LINE + 16];
    bool is_found = is_file(path);
    const bool is_complete = sluice_layout_is_read(path);
    const char *suffix;
    for (unsigned i = 0; !is_found && !is_complete && (suffix = sluice_image_suffix_at(i)); i++) {
        snprintf(longer, sizeof(longer), "%s%s", path, suffix);
        is_found = is_file(longer);
    }
    return is_found;
}

/* Adds the suffix that the content has to a name without one that is read.  False: it is too long.
 */
static bool add_suffix(char path[MAX_LINE], const struct sluice_buf *file)
{
    const char *suffix = sluice_image_suffix(file->data, file->len);
    const size_t len = strlen(path);
    return sluice_layout_is_read(path) || !suffix ||
           sluice_print(path + len, MAX_LINE - len, "%s", suffix);
}

static sluice_status make_folder_of(const char *path, struct sluice_err *err)
{
    char folder[MAX_LINE];
    const size_t len = (size_t)(strrchr(path, '/') - path);
    memcpy(folder, path, len);
    folder[len] = '\0';
    return sluice_mkdirs(folder, err);
}

static void note_progress(struct fetch *fetch)
{
    const struct sluice_fetch_totals *totals = fetch->totals;
    char extra[80], bytes[SLUICE_SHOW_BYTES];
    snprintf(extra, sizeof(extra), "%s, %llu failed",
             sluice_show_bytes((double)totals->bytes, bytes), (unsigned long long)totals->failed);
    sluice_progress_update(&fetch->progress,
                           totals->already_there + totals->repeated + totals->downloaded +
                               totals->failed + totals->bad_lines,
                           extra);
}

/* What an earlier list, in which no other URL asked for this name, left by it: nobody knows whose.
 */
static void note_outgrown(struct fetch *fetch, const char *plain, const char *name)
{
    char path[MAX_LINE];
    if (strcmp(plain, name) == 0 ||
        !sluice_print(path, sizeof(path), "%s/%s", fetch->options->root, plain) || !is_file(path))
        return;
    if (fetch->num_outgrown++ == 0)
        sluice_log(SLUICE_LOG_WARN,
                   "%s is there from another list; now URLs that differ ask for its name, and each "
                   "gets one of its own: remove it",
                   path);
}

/* Fills a transfer from a line.  False: no line of a list, or its URL was taken before. */
static bool transfer_init(struct fetch *fetch, const char *line, bool is_cut,
                          struct transfer *transfer)
{
    struct request request;
    char name[MAX_LINE];
    bool is_good = !is_cut && parse_line(fetch->options, line, &request);
    if (is_good &&
        !sluice_fetch_names_take(fetch->names, request.name, request.url, name, sizeof(name))) {
        fetch->totals->repeated++;
        return false;
    }
    is_good = is_good && sluice_print(transfer->path, sizeof(transfer->path), "%s/%s",
                                      fetch->options->root, name);
    if (!is_good) {
        sluice_log(SLUICE_LOG_ERROR,
                   "%s:%llu: '%.80s' is neither <split>/<image id>%s nor an http URL of a file",
                   fetch->options->list_path, (unsigned long long)fetch->line_number, line,
                   fetch->options->base_url ? "" : " (which needs --base-url)");
        fetch->totals->bad_lines++;
        return false;
    }
    note_outgrown(fetch, request.name, name);
    memcpy(transfer->url, request.url, sizeof(transfer->url));
    snprintf(transfer->part_path, sizeof(transfer->part_path), "%s.part", transfer->path);
    transfer->max_file_bytes = fetch->options->max_file_bytes;
    return true;
}

/* Reads lines up to the next file that is not there yet; *transfer stays NULL at the end. */
static sluice_status next_transfer(struct fetch *fetch, struct transfer **transfer,
                                   struct sluice_err *err)
{
    char line[MAX_LINE];
    bool is_cut;
    while (!(fetch->options->limit && fetch->totals->listed == fetch->options->limit) &&
           next_line(fetch, line, &is_cut)) {
        fetch->totals->listed++;
        struct transfer *found = calloc(1, sizeof(*found));
        if (!found)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a transfer");
        const bool is_wanted = transfer_init(fetch, line, is_cut, found);
        if (!is_wanted || is_there(found->path)) {
            fetch->totals->already_there += is_wanted;
            transfer_destroy(found);
            note_progress(fetch);
            continue;
        }
        const sluice_status status = make_folder_of(found->path, err);
        if (status != SLUICE_OK) {
            transfer_destroy(found);
            return status;
        }
        *transfer = found;
        return SLUICE_OK;
    }
    return ferror(fetch->list) ? list_error(fetch, err) : SLUICE_OK;
}

/* --- one try --- */

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    const size_t len = size * count;
    if (len > transfer->max_file_bytes ||
        transfer->offset + transfer->received > transfer->max_file_bytes - len) {
        transfer->is_too_large = true;
        return 0;
    }
    if (fwrite(bytes, 1, len, transfer->part) != len)
        return 0;
    transfer->received += len;
    return len;
}

static void give_up(struct fetch *fetch, struct transfer *transfer, const char *why)
{
    sluice_log(SLUICE_LOG_ERROR, "%s: %s (%u %s)", transfer->url, why, transfer->tries,
               transfer->tries == 1 ? "try" : "tries");
    fetch->totals->failed++;
    transfer_destroy(transfer);
}

static sluice_status start_try(struct fetch *fetch, struct transfer *transfer,
                               struct sluice_err *err)
{
    transfer->tries++;
    transfer->part = fopen(transfer->part_path, "ae");
    if (!transfer->part) {
        give_up(fetch, transfer, strerror(errno));
        return SLUICE_OK;
    }
    struct stat st;
    transfer->offset = fstat(fileno(transfer->part), &st) == 0 ? (uint64_t)st.st_size : 0;
    transfer->received = 0;
    transfer->is_too_large = false;
    transfer->reason[0] = '\0';

    if (!transfer->easy)
        transfer->easy = curl_easy_init();
    CURL *easy = transfer->easy;
    if (!easy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a transfer");
    curl_easy_setopt(easy, CURLOPT_URL, transfer->url);
    curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->reason);
    curl_easy_setopt(easy, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(easy, CURLOPT_MAXREDIRS, 5L);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "sluice/" SLUICE_VERSION);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)fetch->options->stall_s);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)fetch->options->stall_s);
    curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)transfer->offset);
    if (curl_multi_add_handle(fetch->multi, easy) != CURLM_OK)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a transfer");
    transfer->next = fetch->running;
    fetch->running = transfer;
    fetch->num_running++;
    return SLUICE_OK;
}

static void stop_running(struct fetch *fetch, struct transfer *transfer)
{
    curl_multi_remove_handle(fetch->multi, transfer->easy);
    struct transfer **at = &fetch->running;
    while (*at != transfer)
        at = &(*at)->next;
    *at = transfer->next;
    fetch->num_running--;
}

static bool is_worth_a_retry(CURLcode code, long http)
{
    switch (code) {
    case CURLE_OK: /* complete, but no image: perhaps it continued a bad part */
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_RANGE_ERROR:
        return true;
    case CURLE_HTTP_RETURNED_ERROR:
        return http == 408 || http == 416 || http == 429 || http >= 500;
    default:
        return false;
    }
}

/* Decodes the download, so that only sound images are renamed, and completes its final name. */
static sluice_status check_image(struct fetch *fetch, struct transfer *transfer,
                                 struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    struct sluice_rgb rgb = {0};
    sluice_status status = sluice_file_read(
        transfer->part_path, (size_t)fetch->options->max_file_bytes, NULL, &file, err);
    if (status == SLUICE_OK)
        status = sluice_codec_decode(fetch->codec, file->data, file->len,
                                     fetch->options->max_image_pixels, NULL, &rgb, err);
    if (status == SLUICE_OK && !add_suffix(transfer->path, file))
        status = sluice_fail(err, SLUICE_E_IO, "%s: a path too long", transfer->path);
    sluice_buf_unref(rgb.pixels);
    sluice_buf_unref(file);
    return status;
}

/* after_s: what the server says in Retry-After (RFC 9110, 10.2.3); 0: nothing. */
static void try_again_later(struct fetch *fetch, struct transfer *transfer, uint64_t after_s,
                            const char *why)
{
    uint64_t pause_ms = fetch->options->retry_ms;
    for (unsigned i = 1; i < transfer->tries && pause_ms < 60000; i++)
        pause_ms *= 2;
    after_s = after_s < MAX_RETRY_AFTER_S ? after_s : MAX_RETRY_AFTER_S;
    pause_ms = pause_ms > after_s * 1000 ? pause_ms : after_s * 1000;
    sluice_log(SLUICE_LOG_DEBUG, "%s: %s; again in %llu ms", transfer->url, why,
               (unsigned long long)pause_ms);
    transfer->not_before_ns = sluice_clock_ns() + pause_ms * 1000000;
    transfer->next = fetch->waiting;
    fetch->waiting = transfer;
    fetch->totals->retries++;
}

/* A try has ended: renames the file, retries later, or gives up. */
static void end_try(struct fetch *fetch, struct transfer *transfer, CURLcode code)
{
    long http = 0;
    curl_off_t after_s = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &http);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after_s);
    stop_running(fetch, transfer);
    fetch->totals->bytes += transfer->received;
    const bool is_written = fclose(transfer->part) == 0;
    transfer->part = NULL;

    struct sluice_err err = {0};
    sluice_status status = SLUICE_OK;
    if (transfer->is_too_large)
        status = sluice_fail(&err, SLUICE_E_NO_MEMORY, "larger than %llu bytes (--max-file-bytes)",
                             (unsigned long long)transfer->max_file_bytes);
    else if (!is_written || code == CURLE_WRITE_ERROR)
        status = sluice_fail(&err, SLUICE_E_IO, "%s cannot be written", transfer->part_path);
    else if (http == 416) /* libcurl reports success: it assumes that the file was complete */
        status = sluice_fail(&err, SLUICE_E_IO, "the part is no beginning of the file");
    else if (code != CURLE_OK)
        status = sluice_fail(&err, SLUICE_E_IO, "%s",
                             transfer->reason[0] ? transfer->reason : curl_easy_strerror(code));
    const bool is_whole = status == SLUICE_OK;
    if (is_whole)
        status = check_image(fetch, transfer, &err);
    if (status == SLUICE_OK && rename(transfer->part_path, transfer->path) != 0)
        status = sluice_fail(&err, SLUICE_E_IO, "%s: %s", transfer->path, strerror(errno));
    if (status == SLUICE_OK) {
        fetch->totals->downloaded++;
        fetch->totals->resumed += transfer->offset > 0;
        transfer_destroy(transfer);
        return;
    }

    /* Delete a part that cannot be continued. */
    if (is_whole || code == CURLE_RANGE_ERROR || http == 416 || transfer->is_too_large ||
        transfer->offset + transfer->received == 0)
        unlink(transfer->part_path);
    const bool is_final = transfer->is_too_large || !is_worth_a_retry(code, http) ||
                          (is_whole && transfer->offset == 0);
    if (is_final || transfer->tries > fetch->options->num_retries)
        give_up(fetch, transfer, err.text);
    else
        try_again_later(fetch, transfer, after_s > 0 ? (uint64_t)after_s : 0, err.text);
}

/* --- all of them --- */

/* The waiting transfer whose time has come, taken off the list, or NULL. */
static struct transfer *take_due(struct fetch *fetch)
{
    const uint64_t now = sluice_clock_ns();
    for (struct transfer **at = &fetch->waiting; *at; at = &(*at)->next) {
        if ((*at)->not_before_ns <= now) {
            struct transfer *due = *at;
            *at = due->next;
            return due;
        }
    }
    return NULL;
}

static int ms_until_due(const struct fetch *fetch)
{
    uint64_t first = UINT64_MAX;
    for (const struct transfer *at = fetch->waiting; at; at = at->next)
        first = at->not_before_ns < first ? at->not_before_ns : first;
    const uint64_t now = sluice_clock_ns();
    if (first == UINT64_MAX)
        return 1000;
    return first <= now ? 0 : (int)((first - now) / 1000000) + 1;
}

static sluice_status fill_up(struct fetch *fetch, bool *is_list_done, struct sluice_err *err)
{
    while (fetch->num_running < fetch->options->num_parallel) {
        struct transfer *transfer = take_due(fetch);
        if (!transfer && !*is_list_done) {
            const sluice_status status = next_transfer(fetch, &transfer, err);
            if (status != SLUICE_OK)
                return status;
            *is_list_done = !transfer;
        }
        if (!transfer)
            return SLUICE_OK;
        const sluice_status status = start_try(fetch, transfer, err);
        if (status != SLUICE_OK) {
            transfer_destroy(transfer);
            return status;
        }
    }
    return SLUICE_OK;
}

static sluice_status run_all(struct fetch *fetch, struct sluice_err *err)
{
    bool is_list_done = false;
    for (;;) {
        if (sluice_quit_requested())
            return sluice_fail(err, SLUICE_E_CLOSED,
                               "stopped; the same command goes on where it was");
        const sluice_status status = fill_up(fetch, &is_list_done, err);
        if (status != SLUICE_OK)
            return status;
        if (fetch->num_running == 0 && !fetch->waiting && is_list_done)
            return SLUICE_OK;

        int running;
        curl_multi_perform(fetch->multi, &running);
        int left;
        CURLMsg *message;
        while ((message = curl_multi_info_read(fetch->multi, &left))) {
            if (message->msg != CURLMSG_DONE)
                continue;
            struct transfer *transfer = NULL;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
            end_try(fetch, transfer, message->data.result);
            note_progress(fetch);
        }
        if (fetch->num_running < fetch->options->num_parallel && !is_list_done)
            continue;
        const int wait_ms = ms_until_due(fetch);
        curl_multi_poll(fetch->multi, NULL, 0, wait_ms < 500 ? wait_ms : 500, NULL);
    }
}

/* Frees the transfers under way; their parts stay for the next run. */
static void drop_transfers(struct fetch *fetch)
{
    while (fetch->running) {
        struct transfer *transfer = fetch->running;
        stop_running(fetch, transfer);
        transfer_destroy(transfer);
    }
    while (fetch->waiting) {
        struct transfer *next = fetch->waiting->next;
        transfer_destroy(fetch->waiting);
        fetch->waiting = next;
    }
}

sluice_status sluice_fetch(const struct sluice_fetch_options *options,
                           struct sluice_fetch_totals *totals, struct sluice_err *err)
{
    *totals = (struct sluice_fetch_totals){0};
    struct fetch fetch = {.options = options, .totals = totals};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return sluice_fail(err, SLUICE_E_INTERNAL, "libcurl cannot be initialised");
    sluice_status status = sluice_mkdirs(options->root, err);
    if (status == SLUICE_OK)
        status = sluice_codec_create(&fetch.codec, err);
    if (status == SLUICE_OK) {
        fetch.list = fopen(options->list_path, "re");
        fetch.multi = curl_multi_init();
        if (!fetch.list)
            status = sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                                 options->list_path, strerror(errno));
        else if (!fetch.multi)
            status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for transfers");
    }
    if (status == SLUICE_OK) {
        status = read_names(&fetch, err);
    }
    if (status == SLUICE_OK) {
        curl_multi_setopt(fetch.multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)options->num_parallel);
        sluice_progress_start(&fetch.progress, "downloading", fetch.num_lines);
        status = run_all(&fetch, err);
        drop_transfers(&fetch);
        sluice_progress_end(&fetch.progress,
                            totals->already_there + totals->repeated + totals->downloaded);
    }
    sluice_fetch_names_destroy(fetch.names);
    if (fetch.list)
        fclose(fetch.list);
    sluice_codec_destroy(fetch.codec);
    if (fetch.multi)
        curl_multi_cleanup(fetch.multi);
    curl_global_cleanup();
    return status;
}
