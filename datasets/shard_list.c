#include "datasets/shard_list.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/class_list.h"
#include "datasets/manifest_layout.h"
#include "datasets/parallel.h"
#include "datasets/tar.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

/* Headers are looked for in windows of so many bytes, so that a tar of small members is read from
 * its begin to its end, and one of large members is not. */
#define WINDOW_BYTES ((size_t)1 << 20)

#define MAX_LABEL_BYTES 32 /* of a .cls */
#define MAX_TOLD 3         /* lines of the log about single members of a tar */

/* One tar on its way into the list. */
struct shard {
    const struct sluice_shard_file *file;
    struct sluice_manifest_builder images; /* rows of the samples */
    struct sluice_manifest_builder labels; /* rows of the .cls: path as far as the key, label */
    size_t num_labelled;
    bool is_damaged;
    uint64_t num_passed; /* members that might be images */

    int fd;
    uint8_t *window;
    uint64_t window_at;
    size_t window_len;
};

struct listing {
    pthread_mutex_t lock;
    struct sluice_manifest_builder *builder;
    struct sluice_shard_summary sums;

    const char *root; /* constant from here */
    const struct sluice_shard_file *files;
};

/* --- reading --- */

static sluice_status read_fully(int fd, uint64_t at, uint8_t *to, size_t len,
                                struct sluice_err *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t got = pread(fd, to + done, len - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return sluice_fail(err, SLUICE_E_IO, "byte %llu: cannot read: %s",
                               (unsigned long long)(at + done),
                               got < 0 ? strerror(errno) : "it shrank meanwhile");
        done += (size_t)got;
    }
    return SLUICE_OK;
}

static sluice_status read_at(void *ctx, uint64_t at, void *to, size_t len, struct sluice_err *err)
{
    struct shard *shard = ctx;
    if (len > WINDOW_BYTES)
        return read_fully(shard->fd, at, to, len, err);
    if (at < shard->window_at || at + len > shard->window_at + shard->window_len) {
        const uint64_t left = shard->file->bytes - at;
        const size_t window_len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        shard->window_len = 0;
        const sluice_status status = read_fully(shard->fd, at, shard->window, window_len, err);
        if (status != SLUICE_OK)
            return status;
        shard->window_at = at;
        shard->window_len = window_len;
    }
    memcpy(to, shard->window + (at - shard->window_at), len);
    return SLUICE_OK;
}

/* --- members --- */

size_t sluice_shard_key_len(const char *name)
{
    const char *slash = strrchr(name, '/');
    const size_t folder = slash ? (size_t)(slash - name) + 1 : 0;
    return folder + strcspn(name + folder, ".");
}

/* Why a name is not taken for a path in a dataset; NULL: it is. */
static const char *flaw_of(const char *name)
{
    if (!sluice_is_utf8(name))
        return "the name is not UTF-8";
    for (const char *part = name;; part++) {
        const size_t len = strcspn(part, "/");
        if (len == 0 || strncmp(part, "..", len) == 0) /* also "." */
            return "the name leads out of the tar";
        part += len;
        if (!*part)
            return NULL;
    }
}

static bool has_hidden_part(const char *name)
{
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (sluice_layout_is_hidden(part))
            return true;
    }
    return false;
}

static void pass_over(struct shard *shard, const char *root, const char *name, const char *why)
{
    char shown[300];
    sluice_escape_line(shown, sizeof(shown), name);
    if (shard->num_passed++ < MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s/%s: %s: %s; passed over", root, shard->file->path, shown,
                   why);
}

static sluice_status add_row(struct sluice_manifest_builder *builder, const struct shard *shard,
                             const char *name, size_t name_len,
                             const struct sluice_manifest_entry *row, struct sluice_err *err)
{
    char path[2 * SLUICE_MAX_PATH_BYTES];
    const int len = snprintf(path, sizeof(path), "%s/%.*s", shard->file->path, (int)name_len, name);
    return sluice_manifest_add_entry(builder, row, path, (size_t)len, err);
}

static sluice_status add_image(struct shard *shard, const char *root, const char *name,
                               const struct sluice_tar_member *member, struct sluice_err *err)
{
    const char *flaw = member->kind ? member->kind : flaw_of(name);
    if (!flaw && strlen(shard->file->path) + 1 + strlen(name) >= SLUICE_MAX_PATH_BYTES)
        flaw = "the name is too long";
    if (flaw) {
        pass_over(shard, root, name, flaw);
        return SLUICE_OK;
    }
    if (has_hidden_part(name))
        return SLUICE_OK;
    const struct sluice_manifest_entry row = {
        .offset = member->offset,
        .bytes = member->bytes,
        .mtime_ns = shard->file->mtime_ns,
        .label = SLUICE_NO_LABEL,
        .coding = sluice_layout_coding(name),
    };
    return add_row(&shard->images, shard, name, strlen(name), &row, err);
}

/* Digits between spaces, as Python's int() takes them. */
static bool parse_label(const char *text, uint32_t *label)
{
    static const char spaces[] = " \t\r\n\v\f";
    text += strspn(text, spaces);
    const size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 9 || text[digits + strspn(text + digits, spaces)])
        return false;
    *label = (uint32_t)strtoul(text, NULL, 10);
    return *label < SLUICE_MAX_CLASSES;
}

static sluice_status add_label(struct shard *shard, const char *root, const char *name,
                               const struct sluice_tar_member *member, struct sluice_err *err)
{
    char text[MAX_LABEL_BYTES + 1] = "";
    struct sluice_manifest_entry row = {.offset = member->offset};
    if (member->bytes > 0 && member->bytes <= MAX_LABEL_BYTES) {
        const sluice_status status =
            read_at(shard, member->offset, text, (size_t)member->bytes, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (!parse_label(text, &row.label)) {
        char shown[100];
        sluice_escape_line(shown, sizeof(shown), text);
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s/%s: byte %llu: %.200s: '%s' is no label from 0 to %d", root,
                           shard->file->path, (unsigned long long)member->offset, name, shown,
                           SLUICE_MAX_CLASSES - 1);
    }
    return add_row(&shard->labels, shard, name, sluice_shard_key_len(name), &row, err);
}

static sluice_status add_member(struct shard *shard, const char *root,
                                const struct sluice_tar_member *member, struct sluice_err *err)
{
    const char *name = member->name;
    while (name[0] == '.' && name[1] == '/') /* as "tar -C FOLDER ." writes them */
        name += 2;
    if (member->kind && strcmp(member->kind, "a folder") == 0)
        return SLUICE_OK;
    if (sluice_layout_is_read(name))
        return add_image(shard, root, name, member, err);
    if (!has_hidden_part(name) && !member->kind &&
        strcasecmp(name + sluice_shard_key_len(name), ".cls") == 0)
        return add_label(shard, root, name, member, err);
    return SLUICE_OK;
}

/* --- a tar --- */

static int compare_entries(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    const int order = strcmp(x->path, y->path);
    return order ? order : (x->offset > y->offset) - (x->offset < y->offset);
}

/* Sorts by path, and keeps the last of those that have the same one. */
static size_t sort_entries(struct sluice_manifest *manifest)
{
    struct sluice_manifest_entry *entries = manifest->rows;
    size_t num_kept = 0;
    if (manifest->num_entries > 1)
        qsort(entries, manifest->num_entries, sizeof(*entries), compare_entries);
    for (size_t i = 0; i < manifest->num_entries; i++) {
        if (i + 1 < manifest->num_entries && strcmp(entries[i].path, entries[i + 1].path) == 0)
            continue;
        entries[num_kept++] = entries[i];
    }
    const size_t num_gone = manifest->num_entries - num_kept;
    manifest->num_entries = num_kept;
    return num_gone;
}

static void join_labels(struct shard *shard)
{
    const struct sluice_manifest *labels = shard->labels.manifest;
    struct sluice_manifest *images = shard->images.manifest;
    for (size_t i = 0; i < images->num_entries && labels->num_entries > 0; i++) {
        char key[SLUICE_MAX_PATH_BYTES];
        const size_t len = sluice_shard_key_len(images->rows[i].path);
        memcpy(key, images->rows[i].path, len);
        key[len] = '\0';
        size_t low = 0, high = labels->num_entries;
        while (low < high) {
            const size_t middle = low + (high - low) / 2;
            if (strcmp(labels->rows[middle].path, key) < 0)
                low = middle + 1;
            else
                high = middle;
        }
        if (low < labels->num_entries && strcmp(labels->rows[low].path, key) == 0) {
            images->rows[i].label = labels->rows[low].label;
            shard->num_labelled++;
        }
    }
}

static sluice_status list_members(struct shard *shard, const char *root, struct sluice_err *err)
{
    struct sluice_tar tar = {.read_at = read_at, .ctx = shard, .size = shard->file->bytes};
    struct sluice_tar_member member;
    struct sluice_err why = {0};
    bool is_end = false;
    sluice_status status;
    while ((status = sluice_tar_next(&tar, &member, &is_end, &why)) == SLUICE_OK && !is_end) {
        status = add_member(shard, root, &member, &why);
        if (status != SLUICE_OK)
            break;
    }
    if (status == SLUICE_E_CORRUPT || status == SLUICE_E_IO) {
        shard->is_damaged = true;
        sluice_log(SLUICE_LOG_ERROR, "%s/%s: %s; what is behind it is not listed", root,
                   shard->file->path, why.text);
        return SLUICE_OK;
    }
    return status == SLUICE_OK ? status : sluice_fail(err, status, "%s", why.text);
}

/* `path` is the tar's with the root. */
static sluice_status list_shard(struct shard *shard, const char *root, const char *path,
                                struct sluice_err *err)
{
    shard->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (shard->fd < 0) {
        shard->is_damaged = true;
        sluice_log(SLUICE_LOG_ERROR, "%s: %s", path, strerror(errno));
        return SLUICE_OK;
    }
    shard->window = malloc(WINDOW_BYTES);
    const sluice_status status =
        shard->window ? list_members(shard, root, err)
                      : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read a tar");
    free(shard->window);
    close(shard->fd);
    if (status != SLUICE_OK)
        return status;
    const size_t num_twice = sort_entries(shard->images.manifest);
    (void)sort_entries(shard->labels.manifest);
    if (num_twice)
        sluice_log(SLUICE_LOG_WARN, "%s: %zu members come twice; the later one counts", path,
                   num_twice);
    if (shard->num_passed > MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s: passed over: %llu more such members", path,
                   (unsigned long long)(shard->num_passed - MAX_TOLD));
    join_labels(shard);
    return SLUICE_OK;
}

static sluice_status take_rows(struct sluice_manifest_builder *builder, const struct shard *shard,
                               struct sluice_err *err)
{
    const struct sluice_manifest *images = shard->images.manifest;
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < images->num_entries && status == SLUICE_OK; i++) {
        const struct sluice_manifest_entry *entry = &images->rows[i];
        status = sluice_manifest_add_entry(builder, entry, entry->path, strlen(entry->path), err);
    }
    return status;
}

static sluice_status list_one(void *ctx, size_t i, struct sluice_err *err)
{
    struct listing *listing = ctx;
    struct shard shard = {.file = &listing->files[i]};
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_path_in(listing->root, shard.file->path, path, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_builder_init(&shard.images, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_builder_init(&shard.labels, err);
    if (status == SLUICE_OK)
        status = list_shard(&shard, listing->root, path, err);
    if (status == SLUICE_OK) {
        pthread_mutex_lock(&listing->lock);
        status = take_rows(listing->builder, &shard, err);
        listing->sums.num_damaged += shard.is_damaged;
        listing->sums.num_labelled += shard.num_labelled;
        pthread_mutex_unlock(&listing->lock);
    }
    sluice_manifest_destroy(shard.images.manifest);
    sluice_manifest_destroy(shard.labels.manifest);
    return status;
}

sluice_status sluice_shards_list(const char *root, const struct sluice_shard_file *shards,
                                 size_t num_shards, unsigned num_threads,
                                 struct sluice_manifest_builder *builder,
                                 struct sluice_shard_summary *summary, struct sluice_err *err)
{
    struct listing listing = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .builder = builder,
        .sums = {.num_shards = num_shards},
        .root = root,
        .files = shards,
    };
    const sluice_status status =
        sluice_parallel_for(num_shards, num_threads, "listing", list_one, &listing, err);
    pthread_mutex_destroy(&listing.lock);
    if (status == SLUICE_OK)
        *summary = listing.sums;
    return status;
}
