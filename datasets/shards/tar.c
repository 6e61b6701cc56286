#include "datasets/shards/tar.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A header block, as in pax(1), "ustar Interchange Format", and GNU tar's tar.h. */
enum {
    NAME = 0,
    NAME_LEN = 100,
    MODE = 100,
    UID = 108,
    GID = 116,
    SIZE = 124,
    SIZE_LEN = 12,
    MTIME = 136,
    CHECKSUM = 148,
    CHECKSUM_LEN = 8,
    TYPE = 156,
    MAGIC = 257,
    PREFIX = 345,
    PREFIX_LEN = 155,
    GNU_IS_EXTENDED = 482,   /* of an old sparse member: another block of holes follows */
    GNU_MORE_EXTENDED = 504, /* the same, in such a block */
};

/* Values that extended headers give to the next member. */
struct extended {
    char path[SLUICE_MAX_PATH_BYTES];
    bool has_path, is_path_too_long, has_size, is_sparse;
    uint64_t size;
};

static sluice_status corrupt(uint64_t at, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "byte %llu: %s", (unsigned long long)at, what);
}

/* False: [at, at + len) is not within the tar. */
static bool fits(const struct sluice_tar *tar, uint64_t at, uint64_t len)
{
    return at <= tar->size && len <= tar->size - at;
}

static sluice_status read_block(const struct sluice_tar *tar, uint64_t at,
                                uint8_t block[SLUICE_TAR_BLOCK], struct sluice_err *err)
{
    if (!fits(tar, at, SLUICE_TAR_BLOCK))
        return corrupt(at,
                       at == tar->size ? "the tar ends without its end mark: it may be cut"
                                       : "the tar is cut",
                       err);
    return tar->read_at(tar->ctx, at, block, SLUICE_TAR_BLOCK, err);
}

static bool is_zero(const uint8_t block[SLUICE_TAR_BLOCK])
{
    for (size_t i = 0; i < SLUICE_TAR_BLOCK; i++) {
        if (block[i])
            return false;
    }
    return true;
}

/* Octal digits between spaces and NULs, or, GNU's, a big-endian number behind a byte of 0x80. */
static bool parse_number(const uint8_t *field, size_t len, uint64_t *value)
{
    uint64_t number = 0;
    size_t i = 0;
    if (field[0] & 0x80) {
        if (field[0] != 0x80) /* negative, or larger than any file */
            return false;
        for (i = 1; i < len; i++) {
            if (number >> 55)
                return false;
            number = number << 8 | field[i];
        }
        *value = number;
        return true;
    }
    while (i < len && field[i] == ' ')
        i++;
    for (; i < len && field[i] >= '0' && field[i] <= '7'; i++) {
        if (number >> 60)
            return false;
        number = number << 3 | (uint64_t)(field[i] - '0');
    }
    for (; i < len; i++) {
        if (field[i] != ' ' && field[i] != '\0')
            return false;
    }
    *value = number;
    return true;
}

/* The sum of the header's bytes, its own field taken for spaces.  Some old programs summed signed
 * bytes. */
static bool has_checksum(const uint8_t block[SLUICE_TAR_BLOCK])
{
    uint64_t said;
    uint32_t sum = 0;
    int32_t signed_sum = 0;
    for (size_t i = 0; i < SLUICE_TAR_BLOCK; i++) {
        const bool is_own = i >= CHECKSUM && i < CHECKSUM + CHECKSUM_LEN;
        const uint8_t byte = is_own ? ' ' : block[i];
        sum += byte;
        signed_sum += (int8_t)byte;
    }
    return parse_number(block + CHECKSUM, CHECKSUM_LEN, &said) &&
           (said == sum || (signed_sum >= 0 && said == (uint64_t)signed_sum));
}

/* Copies a field that ends at its first NUL or with its last byte. */
static size_t copy_field(char *to, const uint8_t *field, size_t len)
{
    const size_t used = strnlen((const char *)field, len);
    memcpy(to, field, used);
    to[used] = '\0';
    return used;
}

static void take_name(const uint8_t block[SLUICE_TAR_BLOCK], char name[SLUICE_MAX_PATH_BYTES])
{
    size_t len = 0;
    /* GNU's own magic is "ustar  ", and it uses the prefix for something else. */
    if (memcmp(block + MAGIC, "ustar\0", 6) == 0 && block[PREFIX]) {
        len = copy_field(name, block + PREFIX, PREFIX_LEN);
        name[len++] = '/';
    }
    (void)copy_field(name + len, block + NAME, NAME_LEN);
}

/* --- extended headers --- */

static void set_path(struct extended *extended, const char *text, size_t len)
{
    extended->has_path = true;
    extended->is_path_too_long = len >= sizeof(extended->path);
    if (!extended->is_path_too_long) {
        memcpy(extended->path, text, len);
        extended->path[len] = '\0';
    }
}

/* One record's key and value, which are not terminated. */
static bool take_record(struct extended *extended, const char *key, size_t key_len,
                        const char *value, size_t value_len)
{
    if (key_len == 4 && memcmp(key, "path", 4) == 0) {
        if (value_len == 0 || memchr(value, '\0', value_len))
            return false;
        set_path(extended, value, value_len);
    } else if (key_len == 4 && memcmp(key, "size", 4) == 0) {
        uint64_t size = 0;
        for (size_t i = 0; i < value_len; i++) {
            if (value[i] < '0' || value[i] > '9' || size > INT64_MAX / 10 - 1)
                return false;
            size = size * 10 + (uint64_t)(value[i] - '0');
        }
        extended->has_size = value_len > 0;
        extended->size = size;
    } else if (key_len > 11 && memcmp(key, "GNU.sparse.", 11) == 0) {
        extended->is_sparse = true;
    }
    return true;
}

/* Records "LEN KEY=VALUE\n", LEN in decimal and of all of it. */
static bool take_records(struct extended *extended, const char *text, size_t len)
{
    while (len > 0) {
        size_t record = 0, i = 0;
        for (; i < len && i < 8 && text[i] >= '0' && text[i] <= '9'; i++)
            record = record * 10 + (size_t)(text[i] - '0');
        if (i == 0 || i == len || text[i] != ' ' || record > len || record < i + 3 ||
            text[record - 1] != '\n')
            return false;
        const char *key = text + i + 1;
        const char *equals = memchr(key, '=', record - i - 2);
        if (!equals)
            return false;
        const char *value = equals + 1;
        if (!take_record(extended, key, (size_t)(equals - key), value,
                         (size_t)(text + record - 1 - value)))
            return false;
        text += record;
        len -= record;
    }
    return true;
}

/* A member of type x (pax, for the next member), g (pax, for all), L (GNU's long name) or K (of a
 * link).  `at`: of its header. */
static sluice_status take_extended(const struct sluice_tar *tar, uint64_t at, uint8_t type,
                                   uint64_t bytes, struct extended *extended,
                                   struct sluice_err *err)
{
    if (bytes > SLUICE_TAR_MAX_EXTENDED)
        return corrupt(at, "an extended header of more than 1 MiB", err);
    if (type == 'K' || bytes == 0)
        return SLUICE_OK;
    char *text = malloc((size_t)bytes);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an extended header");
    sluice_status status = tar->read_at(tar->ctx, at + SLUICE_TAR_BLOCK, text, (size_t)bytes, err);
    if (status == SLUICE_OK && type == 'L') {
        const size_t len = strnlen(text, (size_t)bytes);
        if (len > 0)
            set_path(extended, text, len);
    } else if (status == SLUICE_OK) {
        struct extended global = {0};
        struct extended *of = type == 'g' ? &global : extended;
        if (!take_records(of, text, (size_t)bytes))
            status = corrupt(at, "a damaged extended header", err);
        else if (type == 'g' && (global.has_path || global.has_size || global.is_sparse))
            status = corrupt(at, "a name or size for all members is not read", err);
    }
    free(text);
    return status;
}

/* --- members --- */

/* The name of a type; NULL: a regular file. */
static const char *kind_of(uint8_t type, const char *name)
{
    const size_t len = strlen(name);
    switch (type) {
    case '\0': /* v7 knows no type of folders */
    case '0':
    case '7':
        return len > 0 && name[len - 1] == '/' ? "a folder" : NULL;
    case '1':
    case '2':
        return "a link";
    case '3':
    case '4':
        return "a device";
    case '5':
    case 'D':
        return "a folder";
    case '6':
        return "a FIFO";
    case 'S':
        return "sparse";
    default:
        return "of an unknown kind";
    }
}

/* Links, devices, folders and FIFOs have no content, whatever their size says (pax(1)). */
static bool has_content(uint8_t type)
{
    return type < '1' || type > '6';
}

/* Skips the blocks with the rest of the holes of an old GNU sparse member. */
static sluice_status skip_holes(const struct sluice_tar *tar, uint64_t *data, bool is_extended,
                                struct sluice_err *err)
{
    while (is_extended) {
        uint8_t block[SLUICE_TAR_BLOCK];
        const sluice_status status = read_block(tar, *data, block, err);
        if (status != SLUICE_OK)
            return status;
        is_extended = block[GNU_MORE_EXTENDED] != 0;
        *data += SLUICE_TAR_BLOCK;
    }
    return SLUICE_OK;
}

/* As tar(1) takes names: without a '/' at the begin and at the end, empty parts and ".".  ".."
 * stays: it is refused by whoever reads names. */
static void normalize_name(char *name)
{
    char *out = name;
    for (const char *part = name; *part;) {
        const size_t len = strcspn(part, "/");
        if (len > 0 && !(len == 1 && part[0] == '.')) {
            if (out > name)
                *out++ = '/';
            memmove(out, part, len);
            out += len;
        }
        part += len;
        part += *part == '/';
    }
    *out = '\0';
}

static void fill(struct sluice_tar_member *member, const uint8_t block[SLUICE_TAR_BLOCK],
                 const struct extended *extended, uint64_t data, uint64_t bytes)
{
    if (extended->has_path && !extended->is_path_too_long)
        memcpy(member->name, extended->path, sizeof(member->name));
    else
        take_name(block, member->name);
    member->offset = data;
    member->bytes = bytes;
    member->kind = kind_of(block[TYPE], member->name); /* by a '/' at the end, too */
    normalize_name(member->name);
    if (extended->is_sparse)
        member->kind = "sparse";
    else if (extended->is_path_too_long)
        member->kind = "of too long a name";
}

sluice_status sluice_tar_next(struct sluice_tar *tar, struct sluice_tar_member *member,
                              bool *is_end, struct sluice_err *err)
{
    struct extended extended = {0};
    for (;;) {
        uint8_t block[SLUICE_TAR_BLOCK];
        const uint64_t at = tar->at;
        uint64_t bytes, data = at + SLUICE_TAR_BLOCK;
        sluice_status status = read_block(tar, at, block, err);
        if (status != SLUICE_OK)
            return status;
        if (is_zero(block)) {
            *is_end = true;
            return SLUICE_OK;
        }
        if (!has_checksum(block))
            return corrupt(at, at == 0 ? "no tar" : "no header of a member", err);
        const uint8_t type = block[TYPE];
        if (!parse_number(block + SIZE, SIZE_LEN, &bytes))
            return corrupt(at, "a size that is no number", err);
        const bool is_extended = type == 'x' || type == 'g' || type == 'L' || type == 'K';
        if (!is_extended && extended.has_size)
            bytes = extended.size;
        if (type == 'S') {
            status = skip_holes(tar, &data, block[GNU_IS_EXTENDED] != 0, err);
            if (status != SLUICE_OK)
                return status;
        }
        if (!has_content(type))
            bytes = 0;
        if (!fits(tar, data, bytes) || sluice_tar_padding(bytes) > tar->size - data - bytes)
            return corrupt(at, "the tar is cut within a member", err);
        if (is_extended)
            status = take_extended(tar, at, type, bytes, &extended, err);
        if (status != SLUICE_OK)
            return status;
        tar->at = data + bytes + sluice_tar_padding(bytes);
        if (is_extended)
            continue;
        fill(member, block, &extended, data, bytes);
        *is_end = false;
        return SLUICE_OK;
    }
}

/* --- writing --- */

size_t sluice_tar_padding(uint64_t bytes)
{
    return (size_t)(-bytes & (SLUICE_TAR_BLOCK - 1));
}

static void write_block(uint8_t block[SLUICE_TAR_BLOCK], const char *name, uint64_t bytes,
                        char type)
{
    memset(block, 0, SLUICE_TAR_BLOCK);
    memcpy(block + NAME, name, strnlen(name, NAME_LEN));
    memcpy(block + MODE, "0000644", 8);
    memcpy(block + UID, "0000000", 8);
    memcpy(block + GID, "0000000", 8);
    char number[SIZE_LEN + 1];
    snprintf(number, sizeof(number), "%011llo", (unsigned long long)bytes);
    memcpy(block + SIZE, number, SIZE_LEN);
    memcpy(block + MTIME, "00000000000", 12);
    block[TYPE] = (uint8_t)type;
    memcpy(block + MAGIC, "ustar\00000", 8);
    memset(block + CHECKSUM, ' ', CHECKSUM_LEN);
    unsigned sum = 0;
    for (size_t i = 0; i < SLUICE_TAR_BLOCK; i++)
        sum += block[i];
    snprintf(number, sizeof(number), "%06o", sum);
    memcpy(block + CHECKSUM, number, 7); /* six digits, a NUL, a space */
}

size_t sluice_tar_header(const char *name, uint64_t bytes, uint8_t to[SLUICE_TAR_MAX_HEADER])
{
    const size_t name_len = strlen(name);
    size_t len = 0;
    if (name_len == 0 || name_len >= SLUICE_MAX_PATH_BYTES || bytes >> 33)
        return 0;
    if (name_len > NAME_LEN) {
        /* The length counts its own digits. */
        size_t record = name_len + 7, digits = 0;
        for (size_t sum = 0; sum != record + digits;) {
            sum = record + digits;
            char text[24];
            digits = (size_t)snprintf(text, sizeof(text), "%zu", sum);
        }
        record += digits;
        write_block(to, "pax_header", record, 'x');
        len = SLUICE_TAR_BLOCK;
        const int written =
            snprintf((char *)to + len, SLUICE_TAR_MAX_HEADER - len, "%zu path=%s\n", record, name);
        assert(written >= 0 && (size_t)written == record);
        (void)written;
        len += record;
        memset(to + len, 0, sluice_tar_padding(record));
        len += sluice_tar_padding(record);
    }
    write_block(to + len, name, bytes, '0');
    return len + SLUICE_TAR_BLOCK;
}
