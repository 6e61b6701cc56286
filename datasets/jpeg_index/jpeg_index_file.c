#include "datasets/jpeg_index/jpeg_index_file.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION 1
#define HEADER_BYTES 56
#define ROW_BYTES 16
#define LEN_BITS 24

static const char magic[8] = {'S', 'L', 'U', 'I', 'C', 'E', 'J', 'X'};

struct row {
    uint64_t path_hash;
    uint64_t place; /* offset << LEN_BITS | length */
};

static void put_number(uint8_t *out, uint64_t value, unsigned len)
{
    for (unsigned i = 0; i < len; i++)
        out[i] = (uint8_t)(value >> 8 * i);
}

static uint64_t get_number(const uint8_t *in, unsigned len)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < len; i++)
        value |= (uint64_t)in[i] << 8 * i;
    return value;
}

static uint64_t hash_path(const char *path)
{
    return sluice_hash64(path, strlen(path));
}

/* --- reading --- */

struct sluice_jpeg_index_file {
    int fd; /* -1: this is several */
    uint32_t step;
    size_t num_rows;
    struct row *rows;
    struct member *members; /* by root */
    size_t num_members;
};

struct member {
    char root[SLUICE_ROOT_NAME_BYTES];
    struct sluice_jpeg_index_file *file;
};

/* False: errno says why, or the file ends before (0). */
static bool read_at(int fd, void *to, size_t len, uint64_t offset)
{
    const ssize_t got = sluice_pread_fully(fd, to, len, offset);
    if (got >= 0)
        errno = 0;
    return got >= 0 && (size_t)got == len;
}

static sluice_status fail_read(const char *path, struct sluice_err *err)
{
    if (errno == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: cut", path);
    return sluice_fail(err, SLUICE_E_IO, "%s: read: %s", path, strerror(errno));
}

/* Turns the table's bytes into rows, in place. */
static bool take_rows(struct sluice_jpeg_index_file *file, uint64_t table_offset)
{
    const uint8_t *bytes = (const uint8_t *)file->rows;
    uint64_t last_hash = 0;
    for (size_t i = 0; i < file->num_rows; i++) {
        const struct row row = {
            .path_hash = get_number(bytes + i * ROW_BYTES, 8),
            .place = get_number(bytes + i * ROW_BYTES + 8, 8),
        };
        const uint64_t offset = row.place >> LEN_BITS;
        const uint64_t len = row.place & ((1u << LEN_BITS) - 1);
        if (row.path_hash < last_hash || offset < HEADER_BYTES || offset + len > table_offset)
            return false;
        last_hash = row.path_hash;
        file->rows[i] = row;
    }
    return true;
}

static sluice_status read_table(struct sluice_jpeg_index_file *file, const char *path,
                                struct sluice_err *err)
{
    struct stat st;
    uint8_t header[HEADER_BYTES];
    if (fstat(file->fd, &st) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: stat: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_size < HEADER_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: not an index of JPEGs", path);
    if (!read_at(file->fd, header, sizeof(header), 0))
        return fail_read(path, err);
    if (memcmp(header, magic, sizeof(magic)) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: not an index of JPEGs", path);
    const uint32_t version = (uint32_t)get_number(header + 8, 4);
    if (version != VERSION)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: an index of JPEGs of version %u, not %u",
                           path, version, VERSION);
    const uint64_t num_rows = get_number(header + 16, 8), table_offset = get_number(header + 24, 8);
    const uint64_t size = get_number(header + 32, 8);
    if (get_number(header + 48, 8) != sluice_hash64(header, 48))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the header is damaged", path);
    if (size != (uint64_t)st.st_size)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: %llu bytes of %llu", path,
                           (unsigned long long)st.st_size, (unsigned long long)size);
    if (table_offset < HEADER_BYTES || table_offset > size ||
        num_rows > (size - table_offset) / ROW_BYTES || num_rows * ROW_BYTES != size - table_offset)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the header contradicts itself", path);

    const size_t bytes = (size_t)num_rows * ROW_BYTES;
    file->step = (uint32_t)get_number(header + 12, 4);
    file->num_rows = (size_t)num_rows;
    file->rows = malloc(bytes ? bytes : 1);
    if (!file->rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for %zu entries", path,
                           file->num_rows);
    if (!read_at(file->fd, file->rows, bytes, table_offset))
        return fail_read(path, err);
    if (get_number(header + 40, 8) != sluice_hash64(file->rows, bytes) ||
        !take_rows(file, table_offset))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the table is damaged", path);
    return SLUICE_OK;
}

sluice_status sluice_jpeg_index_file_open(const char *path, struct sluice_jpeg_index_file **out,
                                          struct sluice_err *err)
{
    struct sluice_jpeg_index_file *file = calloc(1, sizeof(*file));
    if (!file)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory", path);
    sluice_status status;
    file->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file->fd < 0) {
        status = errno == ENOENT || errno == ENOTDIR ? SLUICE_E_NOT_FOUND : SLUICE_E_IO;
        sluice_fail(err, status, "%s: open: %s", path, strerror(errno));
    } else {
        status = read_table(file, path, err);
    }
    if (status != SLUICE_OK) {
        sluice_jpeg_index_file_close(file);
        return status;
    }
    /* Entries are read in random order: no readahead. */
    (void)posix_fadvise(file->fd, 0, 0, POSIX_FADV_RANDOM);
    *out = file;
    return SLUICE_OK;
}

void sluice_jpeg_index_file_close(struct sluice_jpeg_index_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    for (size_t i = 0; i < file->num_members; i++)
        sluice_jpeg_index_file_close(file->members[i].file);
    free(file->members);
    free(file->rows);
    free(file);
}

sluice_status sluice_jpeg_index_file_join(const char *const *names,
                                          struct sluice_jpeg_index_file *const *files,
                                          size_t num_files, struct sluice_jpeg_index_file **out,
                                          struct sluice_err *err)
{
    struct sluice_jpeg_index_file *joined = calloc(1, sizeof(*joined));
    struct member *members = calloc(num_files + 1, sizeof(*members));
    size_t num_members = 0;
    for (size_t i = 0; i < num_files; i++) {
        if (!files[i] || !joined || !members) {
            sluice_jpeg_index_file_close(files[i]);
            continue;
        }
        struct member *member = &members[num_members++];
        snprintf(member->root, sizeof(member->root), "%s", names[i]);
        member->file = files[i];
    }
    if (!joined || !members || num_members == 0) {
        const bool is_short = !joined || !members;
        free(joined);
        free(members);
        if (is_short)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu indexes", num_files);
        *out = NULL;
        return SLUICE_OK;
    }
    *joined =
        (struct sluice_jpeg_index_file){.fd = -1, .members = members, .num_members = num_members};
    *out = joined;
    return SLUICE_OK;
}

sluice_status sluice_jpeg_index_file_choose(const char *choice, const char *root,
                                            struct sluice_jpeg_index_file **out,
                                            struct sluice_err *err)
{
    const bool is_auto = strcmp(choice, "auto") == 0;
    struct sluice_jpeg_index_file *file = NULL;
    if (strcmp(choice, "off") != 0) {
        char *path = NULL;
        if ((is_auto ? asprintf(&path, "%s/%s", root, SLUICE_JPEG_INDEX_FILE)
                     : asprintf(&path, "%s", choice)) < 0)
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
        struct sluice_err why = {0};
        const sluice_status status = sluice_jpeg_index_file_open(path, &file, &why);
        free(path);
        if (status == SLUICE_E_NOT_FOUND && !is_auto)
            return sluice_fail(err, status, "%s", why.text);
        if (status == SLUICE_OK)
            sluice_log(SLUICE_LOG_INFO, "index of %zu JPEGs", file->num_rows);
        else if (status != SLUICE_E_NOT_FOUND)
            sluice_log(SLUICE_LOG_WARN, "%s; going on without this index of JPEGs", why.text);
    }
    *out = file;
    return SLUICE_OK;
}

sluice_status sluice_jpeg_index_file_choose_for(const char *choice,
                                                const struct sluice_roots *roots,
                                                struct sluice_jpeg_index_file **out,
                                                struct sluice_err *err)
{
    struct sluice_jpeg_index_file *of_roots[SLUICE_MAX_ROOTS] = {NULL};
    const char *names[SLUICE_MAX_ROOTS];
    sluice_status status = SLUICE_OK;
    assert(roots->num == 1 || (roots->num > 1 && roots->at[0].name[0]));
    for (size_t i = 0; status == SLUICE_OK && i < roots->num; i++) {
        names[i] = roots->at[i].name;
        status = sluice_jpeg_index_file_choose(choice, roots->at[i].place, &of_roots[i], err);
    }
    if (status == SLUICE_OK && roots->at[0].name[0])
        return sluice_jpeg_index_file_join(names, of_roots, roots->num, out, err);
    if (status == SLUICE_OK)
        *out = of_roots[0];
    for (size_t i = 0; status != SLUICE_OK && i < roots->num; i++)
        sluice_jpeg_index_file_close(of_roots[i]);
    return status;
}

uint32_t sluice_jpeg_index_file_step(const struct sluice_jpeg_index_file *file)
{
    return file->step;
}

sluice_status sluice_jpeg_index_file_find(const struct sluice_jpeg_index_file *file,
                                          const char *path, struct sluice_buf_pool *pool,
                                          struct sluice_buf **out, struct sluice_err *err)
{
    for (size_t i = 0; i < file->num_members; i++) {
        const char *rest = sluice_root_rest(file->members[i].root, path);
        if (rest)
            return sluice_jpeg_index_file_find(file->members[i].file, rest, pool, out, err);
    }
    const uint64_t wanted = hash_path(path);
    size_t first = 0;
    SLUICE_FIND_FIRST(first, file->num_rows, row, file->rows[row].path_hash < wanted);
    if (first == file->num_rows || file->rows[first].path_hash != wanted)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "no index");
    const uint64_t place = file->rows[first].place;
    const size_t len = place & ((1u << LEN_BITS) - 1);
    struct sluice_buf *entry;
    const sluice_status status = sluice_buf_create(pool, len, &entry, err);
    if (status != SLUICE_OK)
        return status;
    if (!read_at(file->fd, entry->data, len, place >> LEN_BITS)) {
        sluice_buf_unref(entry);
        return sluice_fail(err, SLUICE_E_IO, "cannot read the index: %s",
                           errno ? strerror(errno) : "it was cut");
    }
    entry->len = len;
    *out = entry;
    return SLUICE_OK;
}

/* --- making --- */

struct sluice_jpeg_index_writer {
    pthread_mutex_t lock;
    size_t num_rows;
    uint64_t end; /* bytes before this are reserved by adders */

    struct row *rows; /* constant from here; those below num_rows are their adder's */
    size_t max_rows;
    uint32_t step;
    int fd;
    char *path, *temporary;
};

static sluice_status write_at(const struct sluice_jpeg_index_writer *writer, const void *from,
                              size_t len, uint64_t offset, struct sluice_err *err)
{
    for (size_t done = 0; done < len;) {
        const ssize_t put =
            pwrite(writer->fd, (const char *)from + done, len - done, (off_t)(offset + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return sluice_fail(err, SLUICE_E_IO, "%s: write: %s", writer->temporary,
                               strerror(put < 0 ? errno : ENOSPC));
        done += (size_t)put;
    }
    return SLUICE_OK;
}

sluice_status sluice_jpeg_index_writer_create(const char *path, uint32_t step, size_t max_entries,
                                              struct sluice_jpeg_index_writer **out,
                                              struct sluice_err *err)
{
    struct sluice_jpeg_index_writer *writer = calloc(1, sizeof(*writer));
    if (!writer)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory", path);
    pthread_mutex_init(&writer->lock, NULL);
    writer->end = HEADER_BYTES;
    writer->step = step;
    writer->max_rows = max_entries;
    writer->fd = -1;
    writer->path = strdup(path);
    if (asprintf(&writer->temporary, "%s.%ld.tmp", path, (long)getpid()) < 0)
        writer->temporary = NULL;
    writer->rows = calloc(max_entries ? max_entries : 1, sizeof(*writer->rows));
    sluice_status status = SLUICE_OK;
    if (!writer->path || !writer->temporary || !writer->rows) {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for %zu entries", path,
                             max_entries);
    } else {
        /* Left behind by a killed process that had the same process id. */
        (void)unlink(writer->temporary);
        writer->fd = open(writer->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0)
            status = sluice_fail(err, SLUICE_E_IO, "%s: %s", writer->temporary, strerror(errno));
    }
    if (status != SLUICE_OK) {
        sluice_jpeg_index_writer_destroy(writer);
        return status;
    }
    *out = writer;
    return SLUICE_OK;
}

sluice_status sluice_jpeg_index_writer_add(struct sluice_jpeg_index_writer *writer,
                                           const char *path, const struct sluice_buf *entry,
                                           struct sluice_err *err)
{
    if (entry->len >> LEN_BITS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: an index of %zu bytes", path,
                           entry->len);
    pthread_mutex_lock(&writer->lock);
    const bool has_room = writer->num_rows < writer->max_rows &&
                          writer->end + entry->len < (uint64_t)1 << (64 - LEN_BITS);
    const uint64_t offset = writer->end;
    if (has_room) {
        writer->rows[writer->num_rows++] = (struct row){
            .path_hash = hash_path(path),
            .place = offset << LEN_BITS | entry->len,
        };
        writer->end += entry->len;
    }
    pthread_mutex_unlock(&writer->lock);
    if (!has_room)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no room for its index", path);
    return write_at(writer, entry->data, entry->len, offset, err);
}

static int compare_rows(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    if (x->path_hash != y->path_hash)
        return x->path_hash < y->path_hash ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* A rename is durable only once its folder is synced. */
static sluice_status sync_folder(const char *path, struct sluice_err *err)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory for its folder", path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_done = fd >= 0 && fsync(fd) == 0;
    const int error = errno;
    if (fd >= 0)
        close(fd);
    free(folder);
    return is_done ? SLUICE_OK
                   : sluice_fail(err, SLUICE_E_IO, "%s: sync: %s", path, strerror(error));
}

sluice_status sluice_jpeg_index_writer_commit(struct sluice_jpeg_index_writer *writer,
                                              uint64_t *bytes, struct sluice_err *err)
{
    const size_t table_bytes = writer->num_rows * ROW_BYTES;
    qsort(writer->rows, writer->num_rows, sizeof(*writer->rows), compare_rows);
    for (size_t i = 0; i < writer->num_rows; i++) {
        const struct row row = writer->rows[i];
        uint8_t *out = (uint8_t *)writer->rows + i * ROW_BYTES;
        put_number(out, row.path_hash, 8);
        put_number(out + 8, row.place, 8);
    }
    uint8_t header[HEADER_BYTES];
    memcpy(header, magic, sizeof(magic));
    put_number(header + 8, VERSION, 4);
    put_number(header + 12, writer->step, 4);
    put_number(header + 16, writer->num_rows, 8);
    put_number(header + 24, writer->end, 8);
    put_number(header + 32, writer->end + table_bytes, 8);
    put_number(header + 40, sluice_hash64(writer->rows, table_bytes), 8);
    put_number(header + 48, sluice_hash64(header, 48), 8);
    sluice_status status = write_at(writer, writer->rows, table_bytes, writer->end, err);
    if (status == SLUICE_OK)
        status = write_at(writer, header, sizeof(header), 0, err);
    if (status == SLUICE_OK && fsync(writer->fd) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: sync: %s", writer->temporary, strerror(errno));
    if (status == SLUICE_OK && rename(writer->temporary, writer->path) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s: rename: %s", writer->path, strerror(errno));
    if (status != SLUICE_OK)
        return status;
    free(writer->temporary);
    writer->temporary = NULL;
    *bytes = writer->end + table_bytes;
    return sync_folder(writer->path, err);
}

void sluice_jpeg_index_writer_destroy(struct sluice_jpeg_index_writer *writer)
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
    free(writer->rows);
    pthread_mutex_destroy(&writer->lock);
    free(writer);
}
