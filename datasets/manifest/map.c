#include "datasets/manifest/binary_format.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK_BYTES ((size_t)256 << 10)

/* A section, read piece by piece. */
struct piece_reader {
    uint64_t at, left;
    size_t len; /* of the piece in `bytes` */
    struct sluice_hasher64 hasher;
    _Alignas(16) uint8_t bytes[CHUNK_BYTES];
};

struct checking {
    const char *path;
    int fd;
    uint64_t file_bytes;
    struct sluice_binary_copy copy; /* of the file: what is checked is what is used */
    struct sluice_binary_header header;
    struct piece_reader pieces, starts;
    char before[SLUICE_MAX_PATH_BYTES], name[SLUICE_MAX_PATH_BYTES]; /* the last path; this one */
    size_t name_len;
};

struct sluice_hash128 sluice_binary_hash(const uint8_t bytes[16])
{
    struct sluice_hash128 hash = {0, 0};
    for (int k = 0; k < 8; k++) {
        hash.high = hash.high << 8 | bytes[k];
        hash.low = hash.low << 8 | bytes[8 + k];
    }
    return hash;
}

static sluice_status damaged(const struct checking *c, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "%s: damaged: %s", c->path, what);
}

static sluice_status read_at(const struct checking *c, void *to, size_t len, uint64_t at,
                             struct sluice_err *err)
{
    if (at > c->file_bytes || len > c->file_bytes - at)
        return damaged(c, "it was cut", err);
    memcpy(to, (const char *)c->copy.map + at, len);
    return SLUICE_OK;
}

static void begin_section(const struct checking *c, enum sluice_binary_section section,
                          struct piece_reader *reader)
{
    reader->at = c->header.sections[section].at;
    reader->left = c->header.sections[section].bytes;
    reader->len = 0;
    sluice_hasher64_init(&reader->hasher);
}

/* The next piece; reader->len is 0 after the last. */
static sluice_status next_piece(const struct checking *c, struct piece_reader *reader,
                                struct sluice_err *err)
{
    reader->len = reader->left < CHUNK_BYTES ? (size_t)reader->left : CHUNK_BYTES;
    const sluice_status status = read_at(c, reader->bytes, reader->len, reader->at, err);
    if (status != SLUICE_OK)
        return status;
    sluice_hasher64_update(&reader->hasher, reader->bytes, reader->len);
    reader->at += reader->len;
    reader->left -= reader->len;
    return SLUICE_OK;
}

static sluice_status check_hash(const struct checking *c, enum sluice_binary_section section,
                                const struct piece_reader *reader, struct sluice_err *err)
{
    if (sluice_hasher64_digest(&reader->hasher) != c->header.sections[section].hash)
        return damaged(c, "the hash of a section is wrong", err);
    return SLUICE_OK;
}

/* --- header --- */

/* Bytes of the description of fields in front of the values. */
static uint32_t description_bytes(const struct sluice_binary_header *h)
{
    return h->version == SLUICE_BINARY_VERSION_FIELDS ? h->values_dim : 0;
}

static bool has_ends(const struct sluice_binary_header *h)
{
    return description_bytes(h) || h->values_kind == SLUICE_FIELD_BYTES;
}

/* The fields, from the header and what `map` has in front of the values.  False: it is invalid. */
static bool fields_of(const struct sluice_binary_header *h, const void *map,
                      struct sluice_fields *fields)
{
    const char *text = (const char *)map + h->sections[SLUICE_BINARY_VALUES].at;
    const uint32_t len = description_bytes(h);
    if (len)
        return !text[len - 1] && sluice_fields_parse(text, fields);
    const struct sluice_field_type type = {(enum sluice_field_kind)h->values_kind, h->values_dim};
    *fields = (struct sluice_fields){.num = type.kind != SLUICE_FIELD_NONE,
                                     .of = {{type, SLUICE_TARGET_FIELD}}};
    return !sluice_field_type_flaw(type) && sluice_fields_are_plain(fields);
}

static sluice_status check_layout(const struct checking *c, struct sluice_err *err)
{
    const struct sluice_binary_header *h = &c->header;
    uint64_t at = sizeof(*h);
    for (int i = 0; i < SLUICE_BINARY_SECTIONS; i++) {
        const uint64_t bytes = h->sections[i].bytes;
        const bool may_be_missing = i == SLUICE_BINARY_OFFSETS || i == SLUICE_BINARY_MTIMES ||
                                    i == SLUICE_BINARY_HASHES ||
                                    (i == SLUICE_BINARY_VALUE_ENDS && !has_ends(h));
        if (h->sections[i].at != at || bytes > c->file_bytes - at)
            return damaged(c, "a section is not where it should be", err);
        if (i < SLUICE_BINARY_VALUES && bytes != h->num_entries * sluice_binary_width[i] &&
            !(may_be_missing && bytes == 0))
            return damaged(c, "a column is too long or too short", err);
        at += bytes;
        at = (at + 7) & ~(uint64_t)7;
        if (i + 1 == SLUICE_BINARY_SECTIONS ? h->sections[i].at + bytes != c->file_bytes
                                            : at > c->file_bytes)
            return damaged(c, "it is longer or shorter than its sections", err);
    }
    if (h->sections[SLUICE_BINARY_CLASSES].bytes < h->num_classes)
        return damaged(c, "there are fewer classes than it says", err);
    struct sluice_fields fields;
    const uint64_t bytes = h->sections[SLUICE_BINARY_VALUES].bytes;
    const bool is_described = h->version == SLUICE_BINARY_VERSION_FIELDS;
    if (is_described && (h->values_kind != SLUICE_BINARY_FIELDS || h->values_dim == 0 ||
                         h->values_dim % 8 || h->values_dim > bytes))
        return damaged(c, "no description of its fields", err);
    if (!fields_of(h, c->copy.map, &fields) ||
        (!has_ends(h) && (h->sections[SLUICE_BINARY_VALUE_ENDS].bytes ||
                          bytes != h->num_entries * h->values_dim * sizeof(float))))
        return damaged(c, "not as many targets as it says", err);
    return SLUICE_OK;
}

static bool is_same(const uint8_t bytes[16], const struct sluice_hash128 *hash)
{
    const struct sluice_hash128 found = sluice_binary_hash(bytes);
    return found.high == hash->high && found.low == hash->low;
}

static sluice_status check_header(struct checking *c,
                                  const struct sluice_manifest_expected *expected,
                                  struct sluice_err *err)
{
    struct sluice_binary_header *h = &c->header;
    if (c->file_bytes < sizeof(*h))
        return damaged(c, "it was cut", err);
    const sluice_status status = read_at(c, h, sizeof(*h), 0, err);
    if (status != SLUICE_OK)
        return status;
    if (memcmp(h->magic, SLUICE_BINARY_MAGIC, sizeof(h->magic)) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: not a binary manifest", c->path);
    if (h->version < SLUICE_BINARY_VERSION || h->version > SLUICE_BINARY_VERSION_FIELDS ||
        h->header_bytes != sizeof(*h))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "%s: of version %u, and this program knows versions up to %d", c->path,
                           h->version, SLUICE_BINARY_VERSION_FIELDS);
    if (h->hash != sluice_hash64(h, sizeof(*h) - sizeof(h->hash)))
        return damaged(c, "the hash of its header is wrong", err);
    const struct sluice_hash128 *source = expected->source_hash, *id = expected->id;
    if (source && !is_same(h->source_hash, source))
        return sluice_fail(err, SLUICE_E_STALE, "%s: made of another list than is there now",
                           c->path);
    if (id && !is_same(h->id, id))
        return sluice_fail(err, SLUICE_E_STALE, "%s: of another dataset", c->path);
    if (h->num_entries == 0 || h->num_entries > UINT32_MAX || h->num_classes > UINT32_MAX)
        return damaged(c, "its counts are out of range", err);
    return check_layout(c, err);
}

/* --- columns --- */

static sluice_status check_column(struct checking *c, enum sluice_binary_section section,
                                  struct sluice_err *err)
{
    struct piece_reader *reader = &c->pieces;
    begin_section(c, section, reader);
    sluice_status status = SLUICE_OK;
    bool is_right = true;
    uint64_t end = 0; /* of the values before */
    while (status == SLUICE_OK && reader->left > 0) {
        status = next_piece(c, reader, err);
        if (status != SLUICE_OK)
            break;
        const uint64_t *numbers = (const uint64_t *)(const void *)reader->bytes;
        const uint32_t *labels = (const uint32_t *)(const void *)reader->bytes;
        if (section == SLUICE_BINARY_BYTES || section == SLUICE_BINARY_OFFSETS) {
            for (size_t i = 0; i < reader->len / sizeof(*numbers); i++)
                is_right &= numbers[i] <= INT64_MAX / 2; /* the end of a range is a number, too */
        } else if (section == SLUICE_BINARY_VALUE_ENDS) {
            for (size_t i = 0; i < reader->len / sizeof(*numbers); i++) {
                is_right &= numbers[i] >= end && numbers[i] - end <= SLUICE_MAX_VALUES_BYTES;
                end = numbers[i];
            }
        } else if (section == SLUICE_BINARY_VALUES) {
            const float *floats = (const float *)(const void *)reader->bytes;
            const bool are_floats = c->header.values_kind == SLUICE_FIELD_VECTOR;
            for (size_t i = 0; are_floats && i < reader->len / sizeof(*floats); i++)
                is_right &= isfinite(floats[i]);
        } else if (section == SLUICE_BINARY_LABELS) {
            for (size_t i = 0; i < reader->len / sizeof(*labels); i++)
                is_right &= labels[i] < c->header.num_classes;
        } else if (section == SLUICE_BINARY_MARKS) {
            for (size_t i = 0; i < reader->len; i++)
                is_right &= reader->bytes[i] <= (SLUICE_MARK_VAL | SLUICE_MARK_HASH);
        }
    }
    if (status == SLUICE_OK)
        status = check_hash(c, section, reader, err);
    if (section == SLUICE_BINARY_VALUE_ENDS && has_ends(&c->header))
        is_right &=
            end + description_bytes(&c->header) == c->header.sections[SLUICE_BINARY_VALUES].bytes;
    if (status == SLUICE_OK && !is_right)
        status = damaged(c, "a size, label, mark or target is out of range", err);
    return status;
}

/* The values of described fields, whose ends are checked. */
static sluice_status check_values(const struct checking *c, struct sluice_err *err)
{
    const struct sluice_binary_header *h = &c->header;
    const char *map = c->copy.map;
    const char *values = map + h->sections[SLUICE_BINARY_VALUES].at + description_bytes(h);
    const uint64_t *ends =
        (const uint64_t *)(const void *)(map + h->sections[SLUICE_BINARY_VALUE_ENDS].at);
    struct sluice_fields fields;
    if (!description_bytes(h) || !fields_of(h, map, &fields))
        return SLUICE_OK;
    uint64_t begin = 0;
    for (uint64_t i = 0; i < h->num_entries; i++) {
        const char *flaw =
            sluice_fields_values_flaw(&fields, values + begin, (size_t)(ends[i] - begin));
        if (flaw)
            return damaged(c, flaw, err);
        begin = ends[i];
    }
    return SLUICE_OK;
}

/* --- strings --- */

/* Path i, which is c->name and begins at `start`. */
static sluice_status check_path(struct checking *c, uint64_t i, uint64_t start,
                                struct sluice_err *err)
{
    const size_t per_piece = CHUNK_BYTES / sizeof(uint64_t);
    if (i == c->header.num_entries)
        return damaged(c, "more paths than samples", err);
    if (i % per_piece == 0) {
        const sluice_status status = next_piece(c, &c->starts, err);
        if (status != SLUICE_OK)
            return status;
    }
    uint64_t said;
    memcpy(&said, c->starts.bytes + i % per_piece * sizeof(said), sizeof(said));
    if (said != start)
        return damaged(c, "a path does not begin where it says", err);
    if (c->name_len == 0 || !sluice_is_utf8(c->name))
        return damaged(c, "a path is empty or no UTF-8", err);
    if (i > 0 && strcmp(c->before, c->name) >= 0)
        return damaged(c, "paths are out of order", err);
    memcpy(c->before, c->name, c->name_len + 1);
    return SLUICE_OK;
}

static sluice_status check_paths(struct checking *c, struct sluice_err *err)
{
    struct piece_reader *reader = &c->pieces;
    uint64_t count = 0, start = 0;
    begin_section(c, SLUICE_BINARY_PATHS, reader);
    begin_section(c, SLUICE_BINARY_PATH_STARTS, &c->starts);
    c->name_len = 0;
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && reader->left > 0) {
        status = next_piece(c, reader, err);
        for (size_t done = 0; status == SLUICE_OK && done < reader->len;) {
            const uint8_t *from = reader->bytes + done;
            const uint8_t *end = memchr(from, '\0', reader->len - done);
            const size_t len = end ? (size_t)(end - from) : reader->len - done;
            if (len >= SLUICE_MAX_PATH_BYTES - c->name_len)
                return damaged(c, "a path is too long", err);
            memcpy(c->name + c->name_len, from, len);
            c->name_len += len;
            c->name[c->name_len] = '\0';
            done += len;
            if (!end)
                break;
            status = check_path(c, count++, start, err);
            start += c->name_len + 1;
            c->name_len = 0;
            done++;
        }
    }
    if (status == SLUICE_OK)
        status = check_hash(c, SLUICE_BINARY_PATHS, reader, err);
    if (status == SLUICE_OK && (count != c->header.num_entries || c->name_len))
        status = damaged(c, "fewer paths than samples", err);
    if (status == SLUICE_OK)
        status = check_hash(c, SLUICE_BINARY_PATH_STARTS, &c->starts, err);
    return status;
}

/* So many strings, each with its NUL. */
static sluice_status check_strings(struct checking *c, enum sluice_binary_section section,
                                   uint64_t num_strings, struct sluice_err *err)
{
    struct piece_reader *reader = &c->pieces;
    uint64_t count = 0;
    uint8_t last = 0;
    begin_section(c, section, reader);
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && reader->left > 0) {
        status = next_piece(c, reader, err);
        for (size_t i = 0; status == SLUICE_OK && i < reader->len; i++)
            count += reader->bytes[i] == 0;
        if (status == SLUICE_OK)
            last = reader->bytes[reader->len - 1];
    }
    if (status == SLUICE_OK)
        status = check_hash(c, section, reader, err);
    if (status == SLUICE_OK && (count != num_strings || last))
        status = damaged(c, "not as many classes or texts as it says", err);
    return status;
}

static sluice_status check_file(struct checking *c, const struct sluice_manifest_expected *expected,
                                struct sluice_err *err)
{
    sluice_status status = check_header(c, expected, err);
    for (int i = 0; status == SLUICE_OK && i < SLUICE_BINARY_PATH_STARTS; i++)
        status = check_column(c, (enum sluice_binary_section)i, err);
    if (status == SLUICE_OK)
        status = check_column(c, SLUICE_BINARY_VALUES, err);
    if (status == SLUICE_OK)
        status = check_values(c, err);
    if (status == SLUICE_OK)
        status = check_paths(c, err);
    if (status == SLUICE_OK)
        status = check_strings(c, SLUICE_BINARY_CLASSES, c->header.num_classes, err);
    if (status == SLUICE_OK)
        status = check_strings(c, SLUICE_BINARY_PASSED,
                               c->header.sections[SLUICE_BINARY_PASSED].bytes > 0, err);
    return status;
}

/* --- the map --- */

/* Opens a file without a name, which nobody else can open; -1: not possible. */
static int open_nameless(void)
{
    const char *folder = getenv("TMPDIR");
    return open(folder && folder[0] ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

/* Copies by way of `room` to a file without a name.  False: it cannot be had. */
static bool copy_to_file(struct checking *c, uint8_t *room, size_t room_len)
{
    const int fd = open_nameless();
    bool is_whole = fd >= 0;
    for (uint64_t at = 0; is_whole && at < c->file_bytes;) {
        const uint64_t left = c->file_bytes - at;
        const size_t len = left < room_len ? (size_t)left : room_len;
        is_whole = sluice_pread_fully(c->fd, room, len, at) == (ssize_t)len &&
                   sluice_write_fully(fd, room, len);
        at += len;
    }
    void *map =
        is_whole ? mmap(NULL, (size_t)c->file_bytes, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (map == MAP_FAILED)
        return false;
    c->copy =
        (struct sluice_binary_copy){.map = map, .bytes = (size_t)c->file_bytes, .is_file = true};
    return true;
}

/* Copies the file before it is mapped.  If another program truncated a mapped file, this process
 * would die of SIGBUS; if it overwrote the file, unchecked bytes would be read.  The copy is an
 * unnamed file (O_TMPFILE), whose pages the kernel may drop, or memory where that fails. */
static sluice_status copy_file(struct checking *c, struct sluice_err *err)
{
    if (c->file_bytes == 0)
        return damaged(c, "it is empty", err);
    if (c->file_bytes > SIZE_MAX || copy_to_file(c, c->pieces.bytes, sizeof(c->pieces.bytes)))
        return c->copy.map ? SLUICE_OK : damaged(c, "it is too long", err);
    const size_t len = (size_t)c->file_bytes;
    void *map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for a list of %zu bytes",
                           c->path, len);
    c->copy = (struct sluice_binary_copy){.map = map, .bytes = len};
    const ssize_t got = sluice_pread_fully(c->fd, map, len, 0);
    if (got < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: read: %s", c->path, strerror(errno));
    return (size_t)got == len ? SLUICE_OK : damaged(c, "it was cut", err);
}

static const void *section_in(const struct sluice_manifest *manifest,
                              const struct sluice_binary_header *header,
                              enum sluice_binary_section section)
{
    return header->sections[section].bytes
               ? (const char *)manifest->map + header->sections[section].at
               : NULL;
}

/* Takes the copy, also on failure. */
static sluice_status use_copy(const struct sluice_binary_header *h, struct sluice_binary_copy copy,
                              const char *path, struct sluice_manifest **manifest,
                              struct sluice_err *err)
{
    struct sluice_manifest *made = calloc(1, sizeof(*made));
    if (!made) {
        munmap(copy.map, copy.bytes);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for a manifest", path);
    }
    made->classes = calloc(h->num_classes + 1, sizeof(*made->classes));
    made->map = copy.map;
    made->map_bytes = copy.bytes;
    made->is_file_mapped = copy.is_file;
    const char *passed = section_in(made, h, SLUICE_BINARY_PASSED);
    if (passed)
        made->passed_text = strdup(passed);
    if (!made->classes || (passed && !made->passed_text)) {
        sluice_manifest_destroy(made);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory to use it", path);
    }
    made->columns = (struct sluice_manifest_columns){
        .paths = section_in(made, h, SLUICE_BINARY_PATHS),
        .path_starts = section_in(made, h, SLUICE_BINARY_PATH_STARTS),
        .bytes = section_in(made, h, SLUICE_BINARY_BYTES),
        .offsets = section_in(made, h, SLUICE_BINARY_OFFSETS),
        .mtimes_ns = section_in(made, h, SLUICE_BINARY_MTIMES),
        .hashes = section_in(made, h, SLUICE_BINARY_HASHES),
        .labels = section_in(made, h, SLUICE_BINARY_LABELS),
        .sizes = section_in(made, h, SLUICE_BINARY_SIZES),
        .codings = section_in(made, h, SLUICE_BINARY_CODINGS),
        .marks = section_in(made, h, SLUICE_BINARY_MARKS),
        .value_ends = section_in(made, h, SLUICE_BINARY_VALUE_ENDS),
    };
    if (fields_of(h, copy.map, &made->fields) && made->fields.num) /* also where all are empty */
        made->columns.values =
            (const char *)copy.map + h->sections[SLUICE_BINARY_VALUES].at + description_bytes(h);
    made->num_entries = (size_t)h->num_entries;
    made->num_classes = (size_t)h->num_classes;
    made->passed_unread = h->passed_unread;
    made->id = sluice_binary_hash(h->id);
    const char *name = section_in(made, h, SLUICE_BINARY_CLASSES);
    for (size_t i = 0; i < made->num_classes; i++, name += strlen(name) + 1)
        made->classes[i] = name;
    *manifest = made;
    return SLUICE_OK;
}

sluice_status sluice_binary_map(int fd, const struct sluice_binary_header *header,
                                uint64_t file_bytes, const char *path,
                                struct sluice_manifest **manifest, struct sluice_err *err)
{
    void *map = mmap(NULL, (size_t)file_bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory to map it", path);
    return use_copy(header, (struct sluice_binary_copy){map, (size_t)file_bytes, true}, path,
                    manifest, err);
}

sluice_status sluice_manifest_map(const char *path, const struct sluice_manifest_expected *expected,
                                  struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct checking *c = malloc(sizeof(*c));
    if (!c)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory to check it", path);
    sluice_status status = SLUICE_OK;
    struct stat st;
    c->path = path;
    c->copy = (struct sluice_binary_copy){0};
    c->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (c->fd < 0) {
        status = errno == ENOENT || errno == ENOTDIR ? SLUICE_E_NOT_FOUND : SLUICE_E_IO;
        sluice_fail(err, status, "%s: open: %s", path, strerror(errno));
    } else if (fstat(c->fd, &st) != 0) {
        status = sluice_fail(err, SLUICE_E_IO, "%s: stat: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%s: not a regular file", path);
    } else {
        c->file_bytes = (uint64_t)st.st_size;
        status = copy_file(c, err);
        if (status == SLUICE_OK)
            status = check_file(c, expected, err);
    }
    if (status == SLUICE_OK)
        status = use_copy(&c->header, c->copy, path, manifest, err);
    else if (c->copy.map)
        munmap(c->copy.map, c->copy.bytes);
    if (c->fd >= 0)
        close(c->fd);
    free(c);
    return status;
}
