#include "datasets/manifest/binary_format.h"

#include "base/hash.h"
#include "base/text.h"
#include "datasets/manifest/builder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)16 << 10)

struct section_writer {
    uint64_t at;      /* where the next bytes go */
    size_t len, room; /* of bytes; a column that is missing has no room */
    struct sluice_hasher64 hasher;
    _Alignas(8) uint8_t bytes[BUFFER_BYTES];
};

struct sluice_manifest_writer {
    int fd;
    char *path, *temporary; /* NULL: memory */
    size_t num_entries, num_classes, num_added;
    struct sluice_hash128 id;
    struct sluice_hasher64 list_hasher;
    char last[SLUICE_MAX_PATH_BYTES]; /* path */
    uint64_t path_start, value_end, values_bytes;
    struct sluice_fields fields;
    char description[SLUICE_FIELDS_TEXT + 8]; /* of the fields, padded */
    uint32_t description_bytes;               /* 0: of version 1 */
    struct sluice_binary_header header;
    struct section_writer sections[SLUICE_BINARY_SECTIONS];
};

static const char *name_of(const struct sluice_manifest_writer *writer)
{
    return writer->path ? writer->path : "a list of samples in memory";
}

static sluice_status write_at(struct sluice_manifest_writer *writer, const void *from, size_t len,
                              uint64_t at, struct sluice_err *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t put =
            pwrite(writer->fd, (const char *)from + done, len - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return sluice_fail(err, SLUICE_E_IO, "%s: write: %s", name_of(writer),
                               strerror(put < 0 ? errno : ENOSPC));
        done += (size_t)put;
    }
    return SLUICE_OK;
}

static sluice_status flush(struct sluice_manifest_writer *writer, struct section_writer *section,
                           struct sluice_err *err)
{
    const sluice_status status = write_at(writer, section->bytes, section->len, section->at, err);
    if (status != SLUICE_OK)
        return status;
    sluice_hasher64_update(&section->hasher, section->bytes, section->len);
    section->at += section->len;
    section->len = 0;
    return SLUICE_OK;
}

static sluice_status put(struct sluice_manifest_writer *writer, enum sluice_binary_section which,
                         const void *from, size_t len, struct sluice_err *err)
{
    struct section_writer *section = &writer->sections[which];
    if (!section->room)
        return SLUICE_OK;
    if (len > BUFFER_BYTES - section->len) {
        const sluice_status status = flush(writer, section, err);
        if (status != SLUICE_OK)
            return status;
    }
    memcpy(section->bytes + section->len, from, len);
    section->len += len;
    return SLUICE_OK;
}

static uint64_t aligned(uint64_t at)
{
    return (at + 7) & ~(uint64_t)7;
}

static bool has_ends(const struct sluice_manifest_writer *writer)
{
    return writer->description_bytes || writer->fields.of[0].type.kind == SLUICE_FIELD_BYTES;
}

/* Describes fields that version 1 has no room for. */
static void describe_fields(struct sluice_manifest_writer *writer)
{
    const struct sluice_fields *fields = &writer->fields;
    if (sluice_fields_are_plain(fields) && sluice_fields_have_known_name(fields))
        return;
    sluice_fields_print(fields, writer->description);
    writer->description_bytes = (uint32_t)aligned(strlen(writer->description) + 1);
}

static void place_columns(struct sluice_manifest_writer *writer,
                          const struct sluice_manifest_writer_options *options)
{
    const uint64_t values_bytes = options->values_bytes + writer->description_bytes;
    uint64_t at = sizeof(writer->header);
    for (int i = 0; i < SLUICE_BINARY_SECTIONS; i++) {
        struct section_writer *section = &writer->sections[i];
        const bool is_missing = (i == SLUICE_BINARY_OFFSETS && !options->has_offsets) ||
                                (i == SLUICE_BINARY_MTIMES && !options->has_mtimes) ||
                                (i == SLUICE_BINARY_HASHES && !options->has_hashes) ||
                                (i == SLUICE_BINARY_VALUE_ENDS && !has_ends(writer)) ||
                                (i == SLUICE_BINARY_VALUES && !values_bytes);
        section->room = is_missing ? 0 : BUFFER_BYTES;
        section->at = at;
        writer->header.sections[i].at = at;
        sluice_hasher64_init(&section->hasher);
        if (i == SLUICE_BINARY_VALUES)
            at = aligned(at + values_bytes);
        else if (i < SLUICE_BINARY_VALUES && !is_missing)
            at = aligned(at + options->num_entries * sluice_binary_width[i]);
    }
}

static sluice_status open_file(struct sluice_manifest_writer *writer, struct sluice_err *err)
{
    if (!writer->path) {
        writer->fd = memfd_create("sluice-manifest", MFD_CLOEXEC);
    } else {
        /* Left behind by a killed process that had the same process id. */
        (void)unlink(writer->temporary);
        writer->fd = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    }
    if (writer->fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", name_of(writer), strerror(errno));
    return SLUICE_OK;
}

void sluice_manifest_writer_want(struct sluice_manifest_writer_options *options,
                                 const struct sluice_manifest *manifest)
{
    const struct sluice_manifest_columns *columns = &manifest->columns;
    options->has_offsets |= columns->offsets != NULL;
    options->has_mtimes |= columns->mtimes_ns != NULL;
    options->has_hashes |= columns->hashes != NULL;
    options->fields = manifest->fields;
    options->values_bytes += sluice_manifest_values_bytes(manifest);
    for (size_t i = 0; manifest->rows && i < manifest->num_entries; i++) {
        options->has_offsets |= manifest->rows[i].offset != 0;
        options->has_mtimes |= manifest->rows[i].mtime_ns != 0;
        options->has_hashes |= manifest->rows[i].has_hash;
    }
}

sluice_status sluice_manifest_writer_create(const struct sluice_manifest_writer_options *options,
                                            struct sluice_manifest_writer **out,
                                            struct sluice_err *err)
{
    struct sluice_manifest_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write a manifest");
    static atomic_uint count; /* makes the name ours alone, with the process id */
    writer->fd = -1;
    writer->num_entries = options->num_entries;
    writer->num_classes = options->num_classes;
    writer->fields = options->fields;
    writer->values_bytes = options->values_bytes;
    describe_fields(writer);
    bool has_memory = true;
    if (options->path) {
        writer->path = strdup(options->path);
        if (asprintf(&writer->temporary, "%s.tmp-%ld-%u", options->path, (long)getpid(),
                     atomic_fetch_add(&count, 1)) < 0)
            writer->temporary = NULL;
        has_memory = writer->path && writer->temporary;
    }
    place_columns(writer, options);
    sluice_manifest_list_hash_begin(&writer->list_hasher, &options->fields);
    sluice_status status =
        has_memory ? open_file(writer, err)
                   : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write a manifest");
    if (status == SLUICE_OK && writer->description_bytes)
        status =
            put(writer, SLUICE_BINARY_VALUES, writer->description, writer->description_bytes, err);
    if (status != SLUICE_OK) {
        sluice_manifest_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return SLUICE_OK;
}

void sluice_manifest_writer_destroy(struct sluice_manifest_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0) {
        close(writer->fd);
        if (writer->temporary)
            (void)unlink(writer->temporary);
    }
    free(writer->temporary);
    free(writer->path);
    free(writer);
}

static sluice_status check_row(const struct sluice_manifest_writer *writer,
                               const struct sluice_manifest_entry *entry, size_t len,
                               struct sluice_err *err)
{
    if (writer->num_added == writer->num_entries)
        return sluice_fail(err, SLUICE_E_INVALID, "more than %zu samples", writer->num_entries);
    if (len == 0 || len >= SLUICE_MAX_PATH_BYTES || !sluice_is_utf8(entry->path))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "sample %zu: its path is empty, too long or no UTF-8",
                           writer->num_added);
    if (entry->label >= writer->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') has label %u of %zu",
                           writer->num_added, entry->path, entry->label, writer->num_classes);
    if (writer->num_added > 0 && strcmp(writer->last, entry->path) >= 0)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') is out of order",
                           writer->num_added, entry->path);
    if (entry->bytes > INT64_MAX / 2 || entry->offset > INT64_MAX / 2)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') of %llu bytes",
                           writer->num_added, entry->path, (unsigned long long)entry->bytes);
    const char *flaw =
        sluice_fields_values_flaw(&writer->fields, entry->values, entry->values_bytes);
    if (!flaw && entry->values_bytes > writer->values_bytes - writer->value_end)
        flaw = "more bytes of targets than there are";
    if (flaw)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s'): %s", writer->num_added,
                           entry->path, flaw);
    return SLUICE_OK;
}

/* Adds bytes of any length. */
static sluice_status put_long(struct sluice_manifest_writer *writer,
                              enum sluice_binary_section which, const char *from, size_t len,
                              struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && len > 0) {
        const size_t part = len < BUFFER_BYTES ? len : BUFFER_BYTES;
        status = put(writer, which, from, part, err);
        from += part;
        len -= part;
    }
    return status;
}

sluice_status sluice_manifest_writer_add(struct sluice_manifest_writer *writer,
                                         const struct sluice_manifest_entry *entry,
                                         struct sluice_err *err)
{
    const size_t len = strlen(entry->path);
    const sluice_status status = check_row(writer, entry, len, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t value_end = writer->value_end + entry->values_bytes;
    const struct sluice_hash128 hash =
        entry->has_hash ? entry->hash : (struct sluice_hash128){0, 0};
    const uint32_t size[2] = {entry->width, entry->height};
    const uint8_t marks =
        (uint8_t)((entry->subset == SLUICE_SUBSET_VAL ? SLUICE_MARK_VAL : 0) |
                  (entry->has_hash && writer->sections[SLUICE_BINARY_HASHES].room ? SLUICE_MARK_HASH
                                                                                  : 0));
    const struct {
        enum sluice_binary_section section;
        const void *from;
        size_t len;
    } cells[] = {
        {SLUICE_BINARY_BYTES, &entry->bytes, 8},
        {SLUICE_BINARY_OFFSETS, &entry->offset, 8},
        {SLUICE_BINARY_MTIMES, &entry->mtime_ns, 8},
        {SLUICE_BINARY_HASHES, &hash, 16},
        {SLUICE_BINARY_LABELS, &entry->label, 4},
        {SLUICE_BINARY_SIZES, size, 8},
        {SLUICE_BINARY_CODINGS, &entry->coding, 1},
        {SLUICE_BINARY_MARKS, &marks, 1},
        {SLUICE_BINARY_VALUE_ENDS, &value_end, 8},
        {SLUICE_BINARY_PATH_STARTS, &writer->path_start, 8},
        {SLUICE_BINARY_PATHS, entry->path, len + 1},
    };
    sluice_status put_status = SLUICE_OK;
    if (entry->values)
        put_status =
            put_long(writer, SLUICE_BINARY_VALUES, entry->values, entry->values_bytes, err);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cells) && put_status == SLUICE_OK; i++)
        put_status = put(writer, cells[i].section, cells[i].from, cells[i].len, err);
    if (put_status != SLUICE_OK)
        return put_status;
    writer->id = sluice_manifest_id_add(writer->id, entry, len);
    sluice_manifest_list_hash_add(&writer->list_hasher, entry);
    memcpy(writer->last, entry->path, len + 1);
    writer->path_start += len + 1;
    writer->value_end = value_end;
    writer->num_added++;
    return SLUICE_OK;
}

struct sluice_hash128 sluice_manifest_writer_id(const struct sluice_manifest_writer *writer)
{
    return writer->id;
}

uint64_t sluice_manifest_writer_list_hash(const struct sluice_manifest_writer *writer,
                                          const char *const *classes)
{
    return sluice_manifest_list_hash_end(&writer->list_hasher, classes, writer->num_classes);
}

size_t sluice_manifest_writer_count(const struct sluice_manifest_writer *writer)
{
    return writer->num_added;
}

static sluice_status put_text(struct sluice_manifest_writer *writer,
                              enum sluice_binary_section which, const char *text,
                              struct sluice_err *err)
{
    return put_long(writer, which, text, strlen(text) + 1, err);
}

static sluice_status write_texts(struct sluice_manifest_writer *writer,
                                 const struct sluice_manifest_ending *ending,
                                 struct sluice_err *err)
{
    struct section_writer *sections = writer->sections;
    sluice_status status = SLUICE_OK;
    for (int i = 0; status == SLUICE_OK && i <= SLUICE_BINARY_PATHS; i++)
        status = flush(writer, &sections[i], err);
    sections[SLUICE_BINARY_CLASSES].at = aligned(sections[SLUICE_BINARY_PATHS].at);
    writer->header.sections[SLUICE_BINARY_CLASSES].at = sections[SLUICE_BINARY_CLASSES].at;
    for (size_t i = 0; status == SLUICE_OK && i < writer->num_classes; i++)
        status = put_text(writer, SLUICE_BINARY_CLASSES, ending->classes[i], err);
    if (status == SLUICE_OK)
        status = flush(writer, &sections[SLUICE_BINARY_CLASSES], err);
    sections[SLUICE_BINARY_PASSED].at = aligned(sections[SLUICE_BINARY_CLASSES].at);
    writer->header.sections[SLUICE_BINARY_PASSED].at = sections[SLUICE_BINARY_PASSED].at;
    if (status == SLUICE_OK && ending->passed_text)
        status = put_text(writer, SLUICE_BINARY_PASSED, ending->passed_text, err);
    if (status == SLUICE_OK)
        status = flush(writer, &sections[SLUICE_BINARY_PASSED], err);
    return status;
}

static sluice_status write_header(struct sluice_manifest_writer *writer,
                                  const struct sluice_manifest_ending *ending,
                                  struct sluice_err *err)
{
    struct sluice_binary_header *h = &writer->header;
    memcpy(h->magic, SLUICE_BINARY_MAGIC, sizeof(h->magic));
    const bool is_described = writer->description_bytes > 0;
    h->version = is_described ? SLUICE_BINARY_VERSION_FIELDS : SLUICE_BINARY_VERSION;
    h->header_bytes = sizeof(*h);
    h->num_entries = writer->num_entries;
    h->num_classes = writer->num_classes;
    h->passed_unread = ending->passed_unread;
    h->values_kind = is_described ? SLUICE_BINARY_FIELDS : writer->fields.of[0].type.kind;
    h->values_dim = is_described ? writer->description_bytes : writer->fields.of[0].type.dim;
    sluice_hash128_bytes(writer->id, h->id);
    if (ending->source_hash)
        sluice_hash128_bytes(*ending->source_hash, h->source_hash);
    for (int i = 0; i < SLUICE_BINARY_SECTIONS; i++) {
        h->sections[i].bytes = writer->sections[i].at - h->sections[i].at;
        h->sections[i].hash = sluice_hasher64_digest(&writer->sections[i].hasher);
    }
    h->hash = sluice_hash64(h, sizeof(*h) - sizeof(h->hash));
    return write_at(writer, h, sizeof(*h), 0, err);
}

sluice_status sluice_manifest_writer_commit(struct sluice_manifest_writer *writer,
                                            const struct sluice_manifest_ending *ending,
                                            struct sluice_manifest **manifest,
                                            struct sluice_err *err)
{
    if (writer->num_added != writer->num_entries || writer->num_entries == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "%zu of %zu samples", writer->num_added,
                           writer->num_entries);
    if (writer->value_end != writer->values_bytes)
        return sluice_fail(err, SLUICE_E_INVALID, "%llu of %llu bytes of targets",
                           (unsigned long long)writer->value_end,
                           (unsigned long long)writer->values_bytes);
    sluice_status status = write_texts(writer, ending, err);
    if (status == SLUICE_OK)
        status = write_header(writer, ending, err);
    const uint64_t file_bytes = writer->sections[SLUICE_BINARY_PASSED].at;
    if (status == SLUICE_OK && ftruncate(writer->fd, (off_t)file_bytes) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", name_of(writer), strerror(errno));
    struct sluice_manifest *made = NULL;
    if (status == SLUICE_OK && manifest)
        status =
            sluice_binary_map(writer->fd, &writer->header, file_bytes, name_of(writer), &made, err);
    if (status == SLUICE_OK && writer->path && rename(writer->temporary, writer->path) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: rename: %s", writer->path, strerror(errno));
    if (status != SLUICE_OK) {
        sluice_manifest_destroy(made);
        return status;
    }
    free(writer->temporary);
    writer->temporary = NULL;
    if (manifest)
        *manifest = made;
    return SLUICE_OK;
}

sluice_status sluice_manifest_binary_path(const char *text_path, char path[SLUICE_MAX_PATH_BYTES],
                                          struct sluice_err *err)
{
    const size_t len = strlen(text_path);
    const bool is_tsv = len > 4 && strcmp(text_path + len - 4, ".tsv") == 0;
    if (!sluice_print(path, SLUICE_MAX_PATH_BYTES, "%.*s.bin", (int)(is_tsv ? len - 4 : len),
                      text_path))
        return sluice_fail(err, SLUICE_E_INVALID, "%.100s...: a path too long", text_path);
    return SLUICE_OK;
}

sluice_status sluice_manifest_write_binary(const struct sluice_manifest *manifest,
                                           const char *text_path, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES], passed[SLUICE_PASSED_TEXT_BYTES];
    struct sluice_hash128 text_hash;
    sluice_status status = sluice_manifest_binary_path(text_path, path, err);
    if (status == SLUICE_OK)
        status = sluice_manifest_text_hash(text_path, &text_hash, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_manifest_writer_options options = {
        .path = path,
        .num_entries = manifest->num_entries,
        .num_classes = manifest->num_classes,
    };
    sluice_manifest_writer_want(&options, manifest);
    struct sluice_manifest_ending ending = {.classes = manifest->classes,
                                            .source_hash = &text_hash};
    ending.passed_text = sluice_manifest_passed_over(manifest, passed, &ending.passed_unread);
    struct sluice_manifest_writer *writer = NULL;
    status = sluice_manifest_writer_create(&options, &writer, err);
    for (size_t i = 0; status == SLUICE_OK && i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        status = sluice_manifest_writer_add(writer, &entry, err);
    }
    if (status == SLUICE_OK)
        status = sluice_manifest_writer_commit(writer, &ending, NULL, err);
    sluice_manifest_writer_destroy(writer);
    return status;
}
