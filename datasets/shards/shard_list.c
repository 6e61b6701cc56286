#include "datasets/shards/shard_list.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/manifest/parallel.h"
#include "datasets/shards/shard_members.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Bytes of the windows in which headers are read: a shard of small members is read from its begin
 * to its end, a shard of large members only around its headers. */
#define WINDOW_BYTES ((size_t)1 << 20)

#define MAX_TOLD 3 /* lines of the log about single members of a shard */

#define MAX_SOURCES 4 /* of labels: columns, .cls, .json */

struct listing {
    pthread_mutex_t lock;
    struct sluice_manifest_builder *builder;
    struct sluice_shard_summary sums;

    const struct sluice_shard_options *options; /* constant from here */
    const struct sluice_shard_file *files;
    enum sluice_label_kind label_kind;              /* of all shards */
    char sources[MAX_SOURCES][SLUICE_LABEL_SOURCE]; /* that are logged; "": no more */
    struct sluice_label_texts texts; /* names of classes: labels of rows are places in it */
};

/* --- reading --- */

static sluice_status read_fully(int fd, uint64_t at, uint8_t *to, size_t len,
                                struct sluice_err *err)
{
    const ssize_t got = sluice_pread_fully(fd, to, len, at);
    if (got >= 0 && (size_t)got == len)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_IO, "byte %llu: cannot read: %s",
                       (unsigned long long)(got < 0 ? at : at + (uint64_t)got),
                       got < 0 ? strerror(errno) : "it shrank meanwhile");
}

/* A range of an object, of the version that was listed. */
static sluice_status fetch(const struct sluice_shard *shard, uint64_t at, uint8_t *to, size_t len,
                           struct sluice_err *err)
{
    struct sluice_store *store = shard->options->store;
    const struct sluice_store_read read = {
        .key = shard->file->path,
        .offset = at,
        .bytes = len,
        .is_range = true,
        .version = shard->file->mtime_ns,
    };
    struct sluice_buf *buf = NULL;
    struct sluice_err why = {0};
    const sluice_status status = store->read(store, &read, &buf, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status == SLUICE_E_NO_MEMORY ? status : SLUICE_E_IO,
                           "byte %llu: cannot read: %s", (unsigned long long)at, why.text);
    memcpy(to, buf->data, len);
    sluice_buf_unref(buf);
    return SLUICE_OK;
}

static sluice_status fill(const struct sluice_shard *shard, uint64_t at, uint8_t *to, size_t len,
                          struct sluice_err *err)
{
    return shard->options->store ? fetch(shard, at, to, len, err)
                                 : read_fully(shard->fd, at, to, len, err);
}

sluice_status sluice_shard_read_at(void *ctx, uint64_t at, void *to, size_t len,
                                   struct sluice_err *err)
{
    struct sluice_shard *shard = ctx;
    if (len > WINDOW_BYTES)
        return fill(shard, at, to, len, err);
    if (at < shard->window_at || at + len > shard->window_at + shard->window_len) {
        const uint64_t left = shard->file->bytes - at;
        const size_t window_len = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
        shard->window_len = 0;
        const sluice_status status = fill(shard, at, shard->window, window_len, err);
        if (status != SLUICE_OK)
            return status;
        shard->window_at = at;
        shard->window_len = window_len;
    }
    memcpy(to, shard->window + (at - shard->window_at), len);
    return SLUICE_OK;
}

/* --- labels --- */

static const char *const kind_words[] = {
    [SLUICE_LABELS_INTEGERS] = "integers",
    [SLUICE_LABELS_NAMES] = "names of classes",
};

void sluice_label_texts_clear(struct sluice_label_texts *texts)
{
    for (size_t i = 0; i < texts->num; i++)
        free(texts->all[i]);
    free(texts->all);
    *texts = (struct sluice_label_texts){0};
}

/* Takes the text, also on failure. */
static sluice_status add_text(struct sluice_label_texts *texts, char *text, struct sluice_err *err)
{
    if (!text || texts->num >= SLUICE_NO_LABEL ||
        !sluice_array_reserve(&texts->all, &texts->capacity, texts->num + 1, sizeof(*texts->all))) {
        free(text);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of classes");
    }
    texts->all[texts->num++] = text;
    return SLUICE_OK;
}

sluice_status sluice_shard_add_text(struct sluice_shard *shard, const char *text, uint32_t *label,
                                    struct sluice_err *err)
{
    *label = (uint32_t)shard->texts.num;
    return add_text(&shard->texts, strdup(text), err);
}

sluice_status sluice_shard_note_labels(struct sluice_shard *shard, enum sluice_label_kind kind,
                                       const char *source, struct sluice_err *err)
{
    if (shard->label_kind == SLUICE_LABELS_NONE) {
        shard->label_kind = kind;
        snprintf(shard->label_source, sizeof(shard->label_source), "%s", source);
    }
    if (shard->label_kind == kind)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s/%s: labels are %s, %s, but before %s",
                       shard->root, shard->file->path, source, kind_words[kind],
                       kind_words[shard->label_kind]);
}

/* --- members --- */

size_t sluice_shard_key_len(const char *name)
{
    const char *slash = strrchr(name, '/');
    const size_t folder = slash ? (size_t)(slash - name) + 1 : 0;
    return folder + strcspn(name + folder, ".");
}

void sluice_shard_pass_over(struct sluice_shard *shard, const char *name, const char *why)
{
    char shown[300];
    sluice_escape_line(shown, sizeof(shown), name);
    if (shard->num_passed++ < MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s/%s: %s: %s; passed over", shard->root, shard->file->path,
                   shown, why);
}

void sluice_shard_count_passed(const struct sluice_shard *shard, const char *name)
{
    if (!shard->passed)
        return;
    pthread_mutex_lock(shard->lock);
    sluice_passed_over_add(shard->passed, name);
    pthread_mutex_unlock(shard->lock);
}

sluice_status sluice_shard_add_row(struct sluice_manifest_builder *builder,
                                   const struct sluice_shard *shard, const char *name,
                                   size_t name_len, const struct sluice_manifest_entry *row,
                                   struct sluice_err *err)
{
    char path[2 * SLUICE_MAX_PATH_BYTES];
    const int len = snprintf(path, sizeof(path), "%s/%.*s", shard->file->path, (int)name_len, name);
    return sluice_manifest_add_entry(builder, row, path, (size_t)len, err);
}

/* --- a shard --- */

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

bool sluice_shard_has_key(const struct sluice_manifest *manifest, const char *key)
{
    const size_t len = strlen(key);
    /* Among names that begin with the key only such as "KEY-2.jpg" sort before "KEY.jpg". */
    for (size_t i = sluice_manifest_find_first(manifest, key); i < manifest->num_entries; i++) {
        const char *path = manifest->rows[i].path;
        if (strncmp(path, key, len) != 0)
            return false;
        if (sluice_shard_key_len(path) == len)
            return true;
    }
    return false;
}

static void join_labels(struct sluice_shard *shard)
{
    const struct sluice_manifest *labels = shard->labels.manifest;
    struct sluice_manifest *images = shard->images.manifest;
    for (size_t i = 0; i < images->num_entries && labels->num_entries > 0; i++) {
        char key[SLUICE_MAX_PATH_BYTES];
        const size_t len = sluice_shard_key_len(images->rows[i].path);
        memcpy(key, images->rows[i].path, len);
        key[len] = '\0';
        const size_t row = sluice_manifest_find_first(labels, key);
        if (row < labels->num_entries && strcmp(labels->rows[row].path, key) == 0) {
            images->rows[i].label = labels->rows[row].label;
            shard->num_labelled++;
        }
    }
}

static sluice_status list_members(struct sluice_shard *shard, struct sluice_err *err)
{
    struct sluice_err why = {0};
    const sluice_status status = sluice_has_suffix(shard->file->path, ".tar")
                                     ? sluice_shard_list_tar(shard, &why)
                                     : sluice_shard_list_records(shard, &why);
    if (status == SLUICE_E_CORRUPT || status == SLUICE_E_IO) {
        shard->is_damaged = true;
        sluice_log(SLUICE_LOG_ERROR, "%s/%s: %s; what is behind it is not listed", shard->root,
                   shard->file->path, why.text);
        return SLUICE_OK;
    }
    return status == SLUICE_OK ? status : sluice_fail(err, status, "%s", why.text);
}

/* `path` is the shard's with the root. */
static sluice_status list_shard(struct sluice_shard *shard, const char *path,
                                struct sluice_err *err)
{
    shard->fd = shard->options->store ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    if (shard->fd < 0 && !shard->options->store) {
        shard->is_damaged = true;
        sluice_log(SLUICE_LOG_ERROR, "%s: %s", path, strerror(errno));
        return SLUICE_OK;
    }
    shard->window = malloc(WINDOW_BYTES);
    const sluice_status status =
        shard->window ? list_members(shard, err)
                      : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read a shard");
    free(shard->window);
    if (shard->fd >= 0)
        close(shard->fd);
    if (status != SLUICE_OK)
        return status;
    const size_t num_twice = sort_entries(shard->images.manifest);
    (void)sort_entries(shard->labels.manifest);
    (void)sort_entries(shard->unread.manifest);
    for (unsigned i = 0; i < SLUICE_MAX_FIELDS; i++) {
        if (shard->members[i].manifest)
            (void)sort_entries(shard->members[i].manifest);
    }
    if (num_twice)
        sluice_log(SLUICE_LOG_WARN, "%s: %zu members come twice; the later one counts", path,
                   num_twice);
    if (shard->num_passed > MAX_TOLD)
        sluice_log(SLUICE_LOG_WARN, "%s: passed over: %llu more such members", path,
                   (unsigned long long)(shard->num_passed - MAX_TOLD));
    join_labels(shard);
    const sluice_status joined = sluice_shard_join_values(shard, err);
    /* The image may follow the damaged part. */
    return shard->is_damaged || joined != SLUICE_OK ? joined
                                                    : sluice_shard_check_labels(shard, err);
}

/* Labels of all shards are of one kind.  Logs each place that they come from once.  Under the
 * lock. */
static sluice_status check_labels(struct listing *listing, const struct sluice_shard *shard,
                                  struct sluice_err *err)
{
    if (shard->label_kind == SLUICE_LABELS_NONE)
        return SLUICE_OK;
    if (listing->label_kind == SLUICE_LABELS_NONE)
        listing->label_kind = shard->label_kind;
    if (listing->label_kind != shard->label_kind)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s/%s: labels are %s, %s, but of other shards %s", shard->root,
                           shard->file->path, shard->label_source, kind_words[shard->label_kind],
                           kind_words[listing->label_kind]);
    unsigned i = 0;
    while (i < MAX_SOURCES && listing->sources[i][0] &&
           strcmp(listing->sources[i], shard->label_source) != 0)
        i++;
    if (i == MAX_SOURCES || listing->sources[i][0])
        return SLUICE_OK;
    memcpy(listing->sources[i], shard->label_source, sizeof(listing->sources[i]));
    sluice_log(SLUICE_LOG_INFO, "%s/%s%s: labels are %s, %s", shard->root, shard->file->path,
               listing->sums.num_shards > 1 ? " and others" : "", shard->label_source,
               kind_words[shard->label_kind]);
    return SLUICE_OK;
}

/* Values of all shards are of one type.  Under the lock. */
static sluice_status take_types(struct listing *listing, const struct sluice_shard *shard,
                                struct sluice_err *err)
{
    struct sluice_fields *fields = &listing->builder->manifest->fields;
    for (unsigned k = 0; k < fields->num; k++) {
        struct sluice_field_type *all = &fields->of[k].type;
        const struct sluice_field_type type = shard->values[k].type;
        char words[2][SLUICE_FIELD_WORDS];
        if (type.kind && !all->kind)
            *all = type;
        if (type.kind && (type.kind != all->kind || type.dim != all->dim))
            return sluice_fail(
                err, SLUICE_E_INVALID, "%s/%s: field '%s' has %s, but in other shards %s",
                shard->root, shard->file->path, fields->of[k].name,
                sluice_field_type_words(type, words[0]), sluice_field_type_words(*all, words[1]));
    }
    return SLUICE_OK;
}

static sluice_status take_values(struct listing *listing, const struct sluice_shard *shard,
                                 size_t row, struct sluice_err *err)
{
    const size_t to = listing->builder->manifest->num_entries - 1;
    sluice_status status = SLUICE_OK;
    for (unsigned k = 0; k < shard->images.manifest->fields.num && status == SLUICE_OK; k++) {
        const struct sluice_field_value value =
            sluice_manifest_field_at(shard->images.manifest, row, k);
        if (value.at)
            status = sluice_manifest_set_field(listing->builder, to, k, value.at, value.bytes, err);
    }
    return status;
}

/* Under the lock. */
static sluice_status take_rows(struct listing *listing, struct sluice_shard *shard,
                               struct sluice_err *err)
{
    const struct sluice_manifest *images = shard->images.manifest;
    const uint32_t first_text = (uint32_t)listing->texts.num;
    sluice_status status = check_labels(listing, shard, err);
    if (status == SLUICE_OK)
        status = take_types(listing, shard, err);
    for (size_t i = 0; i < shard->texts.num && status == SLUICE_OK; i++) {
        status = add_text(&listing->texts, shard->texts.all[i], err);
        shard->texts.all[i] = NULL;
    }
    for (size_t i = 0; i < images->num_entries && status == SLUICE_OK; i++) {
        struct sluice_manifest_entry entry = images->rows[i];
        if (shard->label_kind == SLUICE_LABELS_NAMES && entry.label != SLUICE_NO_LABEL)
            entry.label += first_text;
        entry.values = NULL;
        status = sluice_manifest_add_entry(listing->builder, &entry, entry.path, strlen(entry.path),
                                           err);
        if (status == SLUICE_OK)
            status = take_values(listing, shard, i, err);
    }
    return status;
}

/* Numbers the names of classes in the order in which Python sorts them. */
static sluice_status number_names(struct listing *listing, size_t first_row, struct sluice_err *err)
{
    const struct sluice_manifest *manifest = listing->builder->manifest;
    const struct sluice_label_texts *texts = &listing->texts;
    size_t num_names = texts->num;
    const char **names = calloc(texts->num + 1, sizeof(*names));
    if (!names)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of classes");
    memcpy(names, texts->all, texts->num * sizeof(*names));
    const sluice_status status = sluice_class_names_add(names, &num_names, listing->builder, err);
    for (size_t i = first_row; i < manifest->num_entries && status == SLUICE_OK; i++) {
        uint32_t *label = &manifest->rows[i].label;
        if (*label != SLUICE_NO_LABEL)
            *label = sluice_class_names_find(names, num_names, texts->all[*label]);
    }
    free(names);
    return status;
}

static sluice_status list_one(void *ctx, size_t i, struct sluice_err *err)
{
    struct listing *listing = ctx;
    struct sluice_shard shard = {
        .file = &listing->files[i],
        .options = listing->options,
        .root = listing->options->root,
        .label_key = listing->options->label_key,
        .lock = &listing->lock,
        .passed = listing->options->passed,
    };
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = SLUICE_OK;
    const atomic_bool *is_cancelled = listing->options->is_cancelled;
    if (is_cancelled && atomic_load_explicit(is_cancelled, memory_order_relaxed))
        return sluice_fail(err, SLUICE_E_CLOSED, "stopped while %s was listed", shard.root);
    if (shard.options->store)
        (void)sluice_print(path, sizeof(path), "%s/%s", shard.root, shard.file->path);
    else
        status = sluice_path_in(shard.root, shard.file->path, path, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_builder_init(&shard.images, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_builder_init(&shard.labels, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_builder_init(&shard.unread, err);
    if (status == SLUICE_OK)
        status = sluice_shard_fields_init(&shard, err);
    if (status == SLUICE_OK)
        status = list_shard(&shard, path, err);
    if (status == SLUICE_OK) {
        pthread_mutex_lock(&listing->lock);
        status = take_rows(listing, &shard, err);
        listing->sums.num_damaged += shard.is_damaged;
        listing->sums.num_labelled += shard.num_labelled;
        pthread_mutex_unlock(&listing->lock);
    }
    sluice_manifest_destroy(shard.images.manifest);
    sluice_manifest_destroy(shard.labels.manifest);
    sluice_manifest_destroy(shard.unread.manifest);
    sluice_label_texts_clear(&shard.texts);
    sluice_shard_fields_clear(&shard);
    return status;
}

sluice_status sluice_shards_list(const struct sluice_shard_options *options,
                                 const struct sluice_shard_file *shards, size_t num_shards,
                                 struct sluice_manifest_builder *builder,
                                 struct sluice_shard_summary *summary, struct sluice_err *err)
{
    struct listing listing = {
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .builder = builder,
        .sums = {.num_shards = num_shards},
        .options = options,
        .files = shards,
    };
    const size_t first_row = builder->manifest->num_entries;
    sluice_status status =
        sluice_parallel_for(num_shards, options->num_threads, "listing", list_one, &listing, err);
    pthread_mutex_destroy(&listing.lock);
    listing.sums.are_names = listing.label_kind == SLUICE_LABELS_NAMES;
    if (status == SLUICE_OK && listing.sums.are_names)
        status = number_names(&listing, first_row, err);
    sluice_label_texts_clear(&listing.texts);
    if (status != SLUICE_OK)
        return status;
    *summary = listing.sums;
    return SLUICE_OK;
}
