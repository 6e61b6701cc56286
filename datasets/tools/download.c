#include "datasets/tools/download.h"

#include "base/array.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/quit.h"
#include "base/show.h"
#include "base/text.h"
#include "datasets/manifest/layout.h"
#include "datasets/tools/tuning.h"
#include "image/codecs/codec.h"

#include <curl/curl.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* One loop over libcurl's multi interface.  A file arrives as NAME.part, which a later try or run
 * continues, and is renamed to NAME once it decodes.  Errors that may pass are tried again with
 * exponential backoff, no sooner than Retry-After says; the others are final for that file. */

#define MAX_URL_BYTES 4096
#define MAX_NAME_BYTES 200 /* of the 255 that Linux takes: ".part" and a hash follow */

/* A line of the list: hashes of the name that it asks for, and of its URL. */
struct row {
    uint64_t name, url; /* the lowest bit of the latter: it was taken */
};

/* One file on its way. */
struct transfer {
    struct transfer *next;
    CURL *easy; /* NULL: it waits for its next try */
    FILE *part;
    uint64_t offset, size; /* of the part: when this try began, and now */
    uint64_t max_bytes;
    uint64_t due_ns;
    unsigned num_tries;
    char url[MAX_URL_BYTES];
    char path[SLUICE_MAX_PATH_BYTES], part_path[SLUICE_MAX_PATH_BYTES + 8];
    char reason[CURL_ERROR_SIZE];
};

struct fetch {
    const struct sluice_download_options *options;
    const char *list_path, *root;
    FILE *list;
    char *line;
    size_t line_room;
    uint64_t line_number;
    struct row *rows; /* in order, each URL once */
    size_t num_rows;
    struct sluice_codec *codec;
    CURLM *multi;
    struct transfer *transfers;
    unsigned num_running; /* of these */
    struct sluice_progress progress;
    uint64_t *totals;  /* by enum sluice_download_total */
    bool has_outgrown; /* a file has a name that several URLs ask for now */
};

/* --- the list --- */

/* The next line that is not empty and no comment, without the space at its end; NULL: the end. */
static const char *next_line(struct fetch *fetch)
{
    while (getline(&fetch->line, &fetch->line_room, fetch->list) >= 0) {
        char *line = fetch->line;
        size_t len = strlen(line);
        while (len > 0 && sluice_is_space(line[len - 1]))
            line[--len] = '\0';
        if (fetch->line_number++ == 0)
            line += sluice_byte_order_mark(line, len);
        if (line[0] && line[0] != '#')
            return line;
    }
    return NULL;
}

/* The URL that a line asks for, and within it the file's name, which ends at the query.  NULL: the
 * line is neither a URL nor an image id. */
static const char *parse_line(const struct fetch *fetch, const char *line, char url[MAX_URL_BYTES])
{
    static const char id[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.+=%@,";
    const char *name = NULL;
    bool is_good;
    if (sluice_starts_with(line, "http://") || sluice_starts_with(line, "https://")) {
        /* The server is not asked for the fragment, after a '#'. */
        is_good = sluice_print(url, MAX_URL_BYTES, "%.*s", (int)strcspn(line, "#"), line);
        name = (const char *)memrchr(url, '/', strcspn(url, "?")) + 1;
        const size_t len = strcspn(name, "?");
        is_good &= name - url >= 8 && len > 0 && name[0] != '.' && !sluice_has_control(name, len);
    } else {
        const char *base = fetch->options->base_url ? fetch->options->base_url : "";
        size_t len = strlen(base);
        while (len > 0 && base[len - 1] == '/')
            len--;
        const size_t split = strspn(line, id);
        is_good = len > 0 && split > 0 && line[0] != '.' && line[split] == '/' && line[split + 1] &&
                  line[split + 1] != '.' && !line[split + 1 + strspn(line + split + 1, id)] &&
                  sluice_print(url, MAX_URL_BYTES, "%.*s/%s.jpg", (int)len, base, line);
        name = url + len + 1;
    }
    return is_good ? name : NULL;
}

static struct row row_of(const char *url, const char *name)
{
    return (struct row){.name = sluice_hash64(name, strcspn(name, "?")),
                        .url = sluice_hash64(url, strlen(url)) & ~(uint64_t)1};
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    const uint64_t u = x->url & ~(uint64_t)1, v = y->url & ~(uint64_t)1;
    return x->name != y->name ? (x->name > y->name) - (x->name < y->name) : (u > v) - (u < v);
}

static sluice_status list_error(const struct fetch *fetch, struct sluice_err *err)
{
    return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                       fetch->list_path, strerror(errno));
}

/* Reads the whole list for its names, whatever the limit: names depend on the list alone. */
static sluice_status read_names(struct fetch *fetch, uint64_t *num_lines, struct sluice_err *err)
{
    char url[MAX_URL_BYTES];
    size_t capacity = 0, num_kept = 0;
    for (const char *line; (line = next_line(fetch)); ++*num_lines) {
        const char *name = parse_line(fetch, line, url);
        if (name && !sluice_array_reserve(&fetch->rows, &capacity, fetch->num_rows + 1,
                                          sizeof(*fetch->rows)))
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu files",
                               fetch->num_rows);
        if (name)
            fetch->rows[fetch->num_rows++] = row_of(url, name);
    }
    if (ferror(fetch->list) || fseek(fetch->list, 0, SEEK_SET) != 0)
        return list_error(fetch, err);
    fetch->line_number = 0;
    if (fetch->num_rows > 0)
        qsort(fetch->rows, fetch->num_rows, sizeof(*fetch->rows), compare_rows);
    for (size_t i = 0; i < fetch->num_rows; i++) {
        if (num_kept == 0 || compare_rows(&fetch->rows[num_kept - 1], &fetch->rows[i]) != 0)
            fetch->rows[num_kept++] = fetch->rows[i];
    }
    fetch->num_rows = num_kept;
    return SLUICE_OK;
}

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Whether a file is there, also with a suffix that its content gave it. */
static bool is_there(char path[SLUICE_MAX_PATH_BYTES])
{
    const size_t len = strlen(path);
    const char *suffix = "";
    bool is_found = false;
    for (unsigned i = 0; !is_found && suffix; i++) {
        is_found =
            sluice_print(path + len, SLUICE_MAX_PATH_BYTES - len, "%s", suffix) && is_file(path);
        suffix = sluice_layout_is_read(path) ? NULL : sluice_image_suffix_at(i);
    }
    path[len] = '\0';
    return is_found;
}

/* Sets the path of a URL's file; where URLs that differ ask for the same name, each gets a hash.
 * False: it is too long. */
static bool set_path(struct fetch *fetch, struct transfer *transfer, const char *name,
                     const struct row *row)
{
    char *path = transfer->path;
    const size_t room = sizeof(transfer->path);
    const int len = (int)strcspn(name, "?");
    const bool is_shared = (row > fetch->rows && row[-1].name == row->name) ||
                           (row + 1 < fetch->rows + fetch->num_rows && row[1].name == row->name);
    const bool fits = sluice_print(path, room, "%s/%.*s", fetch->root, len, name);
    if (!is_shared && len <= MAX_NAME_BYTES)
        return fits;
    if (fits && !fetch->has_outgrown && is_file(path)) {
        fetch->has_outgrown = true;
        sluice_log(SLUICE_LOG_WARN,
                   "%s is there from another list; now URLs that differ ask for its name, and each "
                   "gets one of its own: remove it",
                   path);
    }
    const char *dot = memrchr(name, '.', (size_t)len);
    const int suffix = dot && name + len - dot <= 8 ? (int)(name + len - dot) : 0;
    const int stem = len - suffix < MAX_NAME_BYTES ? len - suffix : MAX_NAME_BYTES;
    const unsigned long long hash = sluice_hash64(transfer->url, strlen(transfer->url));
    return sluice_print(path, room, "%s/%.*s-%016llx%.*s", fetch->root, stem, name, hash, suffix,
                        name + len - suffix);
}

/* Whether a line asks for a file that is to be downloaded. */
static bool take_line(struct fetch *fetch, const char *line, struct transfer *transfer)
{
    const char *name = parse_line(fetch, line, transfer->url);
    const struct row key = name ? row_of(transfer->url, name) : (struct row){0};
    struct row *row =
        name ? bsearch(&key, fetch->rows, fetch->num_rows, sizeof(key), compare_rows) : NULL;
    if (row && row->url & 1) {
        fetch->totals[SLUICE_DOWNLOAD_REPEATED]++;
        return false;
    }
    if (!row || !set_path(fetch, transfer, name, row)) {
        sluice_log(SLUICE_LOG_ERROR,
                   "%s:%llu: '%.80s' is neither <split>/<image id>%s nor an http URL of a file",
                   fetch->list_path, (unsigned long long)fetch->line_number, line,
                   fetch->options->base_url ? "" : " (which needs --base-url)");
        fetch->totals[SLUICE_DOWNLOAD_BAD_LINES]++;
        return false;
    }
    row->url |= 1;
    const bool was_there = is_there(transfer->path);
    fetch->totals[SLUICE_DOWNLOAD_THERE] += was_there;
    return !was_there;
}

/* --- one file --- */

static void stop(struct fetch *fetch, struct transfer *transfer)
{
    if (transfer->part)
        fclose(transfer->part);
    if (transfer->easy) {
        curl_multi_remove_handle(fetch->multi, transfer->easy);
        curl_easy_cleanup(transfer->easy);
        fetch->num_running--;
    }
    transfer->part = NULL;
    transfer->easy = NULL;
}

static void drop(struct fetch *fetch, struct transfer *transfer)
{
    struct transfer **at = &fetch->transfers;
    while (*at && *at != transfer)
        at = &(*at)->next;
    *at = transfer->next;
    stop(fetch, transfer);
    free(transfer);
}

static void give_up(struct fetch *fetch, struct transfer *transfer, const char *why)
{
    sluice_log(SLUICE_LOG_ERROR, "%s: %s (%u %s)", transfer->url, why, transfer->num_tries,
               transfer->num_tries == 1 ? "try" : "tries");
    fetch->totals[SLUICE_DOWNLOAD_FAILED]++;
    drop(fetch, transfer);
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *arg)
{
    struct transfer *transfer = arg;
    transfer->size += size * count;
    return transfer->size > transfer->max_bytes ? 0 : fwrite(bytes, size, count, transfer->part);
}

static void start_try(struct fetch *fetch, struct transfer *transfer)
{
    CURL *easy = curl_easy_init();
    struct stat st;
    transfer->num_tries++;
    transfer->part = fopen(transfer->part_path, "ae");
    if (!easy || !transfer->part || fstat(fileno(transfer->part), &st) != 0) {
        const char *why = easy ? strerror(errno) : "no memory";
        curl_easy_cleanup(easy);
        give_up(fetch, transfer, why);
        return;
    }
    transfer->easy = easy;
    fetch->num_running++;
    transfer->offset = transfer->size = (uint64_t)st.st_size;
    transfer->reason[0] = '\0';
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
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT, (long)ceil(fetch->options->stall_s));
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)ceil(fetch->options->stall_s));
    curl_easy_setopt(easy, CURLOPT_RESUME_FROM_LARGE, (curl_off_t)transfer->offset);
    if (curl_multi_add_handle(fetch->multi, easy) != CURLM_OK)
        give_up(fetch, transfer, "no memory");
}

/* Decodes the file, so that only images are kept, and renames it: also a name without the suffix of
 * an image, which gets that of the content. */
static sluice_status keep(struct fetch *fetch, struct transfer *transfer, struct sluice_err *err)
{
    struct sluice_buf *file = NULL;
    struct sluice_rgb rgb = {0};
    sluice_status status = sluice_file_read(
        transfer->part_path, (size_t)fetch->options->max_file_bytes, NULL, &file, err);
    if (status == SLUICE_OK)
        status = sluice_codec_decode(fetch->codec, file->data, file->len,
                                     fetch->options->max_pixels, NULL, &rgb, err);
    const char *suffix = status == SLUICE_OK && !sluice_layout_is_read(transfer->path)
                             ? sluice_image_suffix(file->data, file->len)
                             : NULL;
    char path[SLUICE_MAX_PATH_BYTES + 8];
    snprintf(path, sizeof(path), "%s%s", transfer->path, suffix ? suffix : "");
    if (status == SLUICE_OK && rename(transfer->part_path, path) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    sluice_buf_unref(rgb.pixels);
    sluice_buf_unref(file);
    return status;
}

static bool may_pass(CURLcode code, long http)
{
    static const CURLcode passing[] = {
        CURLE_COULDNT_CONNECT, CURLE_PARTIAL_FILE, CURLE_OPERATION_TIMEDOUT, CURLE_GOT_NOTHING,
        CURLE_SEND_ERROR,      CURLE_RECV_ERROR,   CURLE_RANGE_ERROR,
    };
    bool is_passing = http == 408 || http == 416 || http == 429 || http >= 500;
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(passing); i++)
        is_passing |= code == passing[i];
    return is_passing;
}

/* A try has ended: keeps the file, tries again later, or gives up. */
static void end_try(struct fetch *fetch, struct transfer *transfer, CURLcode code)
{
    long http = 0;
    curl_off_t after_s = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &http);
    curl_easy_getinfo(transfer->easy, CURLINFO_RETRY_AFTER, &after_s);
    const bool is_written = fflush(transfer->part) == 0 && code != CURLE_WRITE_ERROR;
    stop(fetch, transfer);
    fetch->totals[SLUICE_DOWNLOAD_BYTES] += transfer->size - transfer->offset;

    struct sluice_err err = {0};
    const bool is_too_large = transfer->size > fetch->options->max_file_bytes;
    /* libcurl reports 416 as success: it assumes that the file was complete. */
    const bool is_whole = is_written && !is_too_large && http != 416 && code == CURLE_OK;
    if (is_whole && keep(fetch, transfer, &err) == SLUICE_OK) {
        fetch->totals[SLUICE_DOWNLOAD_DOWNLOADED]++;
        fetch->totals[SLUICE_DOWNLOAD_RESUMED] += transfer->offset > 0;
        drop(fetch, transfer);
        return;
    }
    const char *why = is_whole              ? err.text
                      : is_too_large        ? "larger than --max-file-bytes"
                      : !is_written         ? "the part cannot be written"
                      : http == 416         ? "the part is no beginning of the file"
                      : transfer->reason[0] ? transfer->reason
                                            : curl_easy_strerror(code);
    /* Delete a part that cannot be continued.  A resumed file that does not decode is tried from
     * its beginning: the part may have been of another file. */
    if (is_whole || is_too_large || http == 416 || code == CURLE_RANGE_ERROR || transfer->size == 0)
        unlink(transfer->part_path);
    const bool is_final = is_too_large || !(is_whole ? transfer->offset > 0 : may_pass(code, http));
    if (is_final || transfer->num_tries > fetch->options->num_retries) {
        give_up(fetch, transfer, why);
        return;
    }
    double pause_ms = fetch->options->retry_ms * pow(2, transfer->num_tries - 1.0);
    pause_ms = fmin(pause_ms, fmax(fetch->options->retry_ms, TUNING_MAX_BACKOFF_MS));
    pause_ms = fmax(pause_ms, 1e3 * fmin((double)after_s, TUNING_MAX_RETRY_AFTER_S));
    sluice_log(SLUICE_LOG_DEBUG, "%s: %s; again in %.0f ms", transfer->url, why, pause_ms);
    transfer->due_ns = sluice_clock_ns() + (uint64_t)(pause_ms * 1e6);
    fetch->totals[SLUICE_DOWNLOAD_RETRIES]++;
}

/* --- all of them --- */

static void note_progress(struct fetch *fetch)
{
    const uint64_t *totals = fetch->totals;
    char extra[80], bytes[SLUICE_SHOW_BYTES];
    snprintf(extra, sizeof(extra), "%s, %llu failed",
             sluice_show_bytes((double)totals[SLUICE_DOWNLOAD_BYTES], bytes),
             (unsigned long long)totals[SLUICE_DOWNLOAD_FAILED]);
    sluice_progress_update(&fetch->progress,
                           totals[SLUICE_DOWNLOAD_THERE] + totals[SLUICE_DOWNLOAD_REPEATED] +
                               totals[SLUICE_DOWNLOAD_DOWNLOADED] + totals[SLUICE_DOWNLOAD_FAILED] +
                               totals[SLUICE_DOWNLOAD_BAD_LINES],
                           extra);
}

/* Takes the next line, and starts its download if the file is not there yet.  *is_done: the list
 * ended. */
static sluice_status start_next(struct fetch *fetch, bool *is_done, struct sluice_err *err)
{
    const char *line = NULL;
    if (!fetch->options->limit || fetch->totals[SLUICE_DOWNLOAD_LISTED] < fetch->options->limit)
        line = next_line(fetch);
    *is_done = !line;
    if (!line)
        return ferror(fetch->list) ? list_error(fetch, err) : SLUICE_OK;
    struct transfer *transfer = calloc(1, sizeof(*transfer));
    if (!transfer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a transfer");
    transfer->max_bytes = fetch->options->max_file_bytes;
    fetch->totals[SLUICE_DOWNLOAD_LISTED]++;
    if (!take_line(fetch, line, transfer)) {
        free(transfer);
        return SLUICE_OK;
    }
    snprintf(transfer->part_path, sizeof(transfer->part_path), "%s.part", transfer->path);
    transfer->next = fetch->transfers;
    fetch->transfers = transfer;
    char *slash = strrchr(transfer->path, '/');
    *slash = '\0';
    const sluice_status status = sluice_mkdirs(transfer->path, err);
    *slash = '/';
    if (status == SLUICE_OK)
        start_try(fetch, transfer);
    return status;
}

static void start_due(struct fetch *fetch)
{
    const uint64_t now_ns = sluice_clock_ns();
    for (struct transfer *next, *at = fetch->transfers; at; at = next) {
        next = at->next;
        if (!at->easy && at->due_ns <= now_ns && fetch->num_running < fetch->options->num_parallel)
            start_try(fetch, at);
    }
}

static sluice_status run_all(struct fetch *fetch, struct sluice_err *err)
{
    bool is_done = false;
    while (!is_done || fetch->transfers) {
        start_due(fetch);
        while (!is_done && fetch->num_running < fetch->options->num_parallel) {
            const sluice_status status = start_next(fetch, &is_done, err);
            if (status != SLUICE_OK)
                return status;
            note_progress(fetch);
        }
        if (sluice_quit_requested())
            return sluice_fail(err, SLUICE_E_CLOSED,
                               "stopped; the same command goes on where it was");
        int num;
        curl_multi_perform(fetch->multi, &num);
        for (CURLMsg *message; (message = curl_multi_info_read(fetch->multi, &num));) {
            struct transfer *transfer = NULL;
            curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&transfer);
            end_try(fetch, transfer, message->data.result);
            note_progress(fetch);
        }
        if (fetch->transfers && (is_done || fetch->num_running == fetch->options->num_parallel))
            curl_multi_poll(fetch->multi, NULL, 0, (int)fmin(ceil(fetch->options->retry_ms), 500),
                            NULL);
    }
    return SLUICE_OK;
}

static sluice_status fetch_list(struct fetch *fetch, struct sluice_err *err)
{
    uint64_t num_lines = 0;
    sluice_status status = sluice_mkdirs(fetch->root, err);
    if (status == SLUICE_OK)
        status = sluice_codec_create(&fetch->codec, err);
    if (status == SLUICE_OK && !(fetch->list = fopen(fetch->list_path, "re")))
        status = list_error(fetch, err);
    if (status == SLUICE_OK)
        status = read_names(fetch, &num_lines, err);
    if (status == SLUICE_OK && !(fetch->multi = curl_multi_init()))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for transfers");
    if (status != SLUICE_OK)
        return status;
    curl_multi_setopt(fetch->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS,
                      (long)fetch->options->num_parallel);
    sluice_progress_start(&fetch->progress, "downloading",
                          fetch->options->limit && fetch->options->limit < num_lines
                              ? fetch->options->limit
                              : num_lines);
    status = run_all(fetch, err);
    while (fetch->transfers) /* their parts stay for the next run */
        drop(fetch, fetch->transfers);
    sluice_progress_end(&fetch->progress, fetch->totals[SLUICE_DOWNLOAD_THERE] +
                                              fetch->totals[SLUICE_DOWNLOAD_REPEATED] +
                                              fetch->totals[SLUICE_DOWNLOAD_DOWNLOADED]);
    return status;
}

sluice_status sluice_download(const struct sluice_download_options *options, const char *list,
                              const char *root, uint64_t totals[SLUICE_DOWNLOAD_NUM_TOTALS],
                              struct sluice_err *err)
{
    struct fetch fetch = {.options = options, .list_path = list, .root = root, .totals = totals};
    memset(totals, 0, SLUICE_DOWNLOAD_NUM_TOTALS * sizeof(*totals));
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return sluice_fail(err, SLUICE_E_INTERNAL, "libcurl cannot be initialised");
    const sluice_status status = fetch_list(&fetch, err);
    if (fetch.list)
        fclose(fetch.list);
    free(fetch.line);
    free(fetch.rows);
    sluice_codec_destroy(fetch.codec);
    curl_multi_cleanup(fetch.multi);
    curl_global_cleanup();
    return status;
}
