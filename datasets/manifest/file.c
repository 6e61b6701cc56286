#include "datasets/manifest/builder.h"

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/manifest/binary.h"
#include "datasets/shards/shard.h"
#include "image/codecs/coding.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_LINE_5 "# sluice manifest 5" /* version 4, a line of targets and their column */
#define FIRST_LINE_4 "# sluice manifest 4" /* version 3 and the column `offset` */
#define FIRST_LINE "# sluice manifest 3"
#define FIRST_LINE_2 "# sluice manifest 2" /* the same without the column `mtime_ns` */
#define LAST_LINE "# xxh3_128 of all\t"
#define FIRST_LINE_1 "# sluice manifest 1" /* and without the column `coding` */

#define PASSED_OVER "\tpassed over\t"

#define NUM_FIELDS 9 /* of version 3 */
#define MOST_FIELDS (NUM_FIELDS + 2)

#define TARGETS_LINE "# targets\t"
static const char *const target_kinds[] = {
    [SLUICE_TARGETS_VECTOR] = "vector", [SLUICE_TARGETS_BYTES] = "bytes"};

void sluice_manifest_write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '\t')
            fputs("\\t", file);
        else if (*text == '\n')
            fputs("\\n", file);
        else if (*text == '\\')
            fputs("\\\\", file);
        else
            fputc(*text, file);
    }
}

bool sluice_manifest_unescape(char *text)
{
    char *out = text;
    for (; *text; text++) {
        if (*text != '\\') {
            *out++ = *text;
            continue;
        }
        text++;
        if (*text == 't')
            *out++ = '\t';
        else if (*text == 'n')
            *out++ = '\n';
        else if (*text == '\\')
            *out++ = '\\';
        else
            return false;
    }
    *out = '\0';
    return true;
}

/* XXH3-128 over all that the file says, of which the id knows paths, sizes and labels alone.  As
 * the id, a chain of hashes. */
static struct sluice_hash128 hash_all(const struct sluice_manifest *manifest, bool has_offsets)
{
    struct sluice_hash128 all = sluice_manifest_id(manifest);
    for (size_t i = 0; i < manifest->num_classes; i++) {
        const struct sluice_hash128 links[] = {
            all, sluice_hash128(manifest->classes[i], strlen(manifest->classes[i]))};
        all = sluice_hash128(links, sizeof(links));
    }
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        const uint64_t row[] = {all.high,
                                all.low,
                                entry.subset,
                                entry.width,
                                entry.height,
                                entry.has_hash,
                                entry.coding,
                                entry.has_hash ? entry.hash.high : 0,
                                entry.has_hash ? entry.hash.low : 0,
                                (uint64_t)entry.mtime_ns,
                                entry.offset};
        all = sluice_hash128(row, sizeof(row) - (has_offsets ? 0 : sizeof(row[0])));
        if (!entry.target)
            continue;
        const struct sluice_hash128 links[] = {all,
                                               sluice_hash128(entry.target, entry.target_bytes)};
        all = sluice_hash128(links, sizeof(links));
    }
    return all;
}

const char *sluice_manifest_passed_over(const struct sluice_manifest *manifest,
                                        char room[SLUICE_PASSED_TEXT_BYTES], uint64_t *num_unread)
{
    const struct sluice_passed_over *passed = manifest->passed_over;
    *num_unread = passed ? sluice_passed_over_num_unread(passed) : 0;
    if (*num_unread && sluice_passed_over_text(passed, room, SLUICE_PASSED_TEXT_BYTES))
        return room;
    *num_unread = manifest->passed_unread;
    return manifest->passed_text;
}

/* At the end of the names of the columns, which readers of all versions take as they come:
 * "passed over", how many of the files may be images, if any may, and the files by suffix. */
static void write_passed_over(FILE *file, const struct sluice_manifest *manifest)
{
    char room[SLUICE_PASSED_TEXT_BYTES];
    uint64_t num_unread;
    const char *text = sluice_manifest_passed_over(manifest, room, &num_unread);
    if (text)
        fprintf(file, PASSED_OVER "%llu\t%s", (unsigned long long)num_unread, text);
    fputc('\n', file);
}

/* Version 3 unless there are offsets or targets to write, so that programs that know none read
 * it. */
static void write_rows(FILE *file, const void *ctx)
{
    const struct sluice_manifest *manifest = ctx;
    const struct sluice_target_type type = manifest->target_type;
    const bool has_targets = type.kind != SLUICE_TARGETS_NONE;
    const bool has_offsets = has_targets || sluice_manifest_has_members(manifest);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(manifest), id);
    fprintf(file, "%s\n# id\t%s\n# classes\t%zu\n# samples\t%zu\n",
            has_targets   ? FIRST_LINE_5
            : has_offsets ? FIRST_LINE_4
                          : FIRST_LINE,
            id, manifest->num_classes, manifest->num_entries);
    if (has_targets)
        fprintf(file, TARGETS_LINE "%s\t%u\n", target_kinds[type.kind], type.dim);
    fprintf(file, "# path\tbytes\tlabel\tsubset\twidth\theight\txxh3_128\tcoding\tmtime_ns%s%s",
            has_offsets ? "\toffset" : "", has_targets ? "\ttarget" : "");
    write_passed_over(file, manifest);
    for (size_t i = 0; i < manifest->num_classes; i++) {
        fputs("class\t", file);
        sluice_manifest_write_escaped(file, manifest->classes[i]);
        fputc('\n', file);
    }
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        char hash[33] = "-";
        if (entry.has_hash)
            sluice_hash128_hex(entry.hash, hash);
        sluice_manifest_write_escaped(file, entry.path);
        fprintf(file, "\t%llu\t%u\t%s\t%u\t%u\t%s\t%s\t%lld", (unsigned long long)entry.bytes,
                entry.label, entry.subset == SLUICE_SUBSET_VAL ? "val" : "train", entry.width,
                entry.height, hash, sluice_coding_name(entry.coding), (long long)entry.mtime_ns);
        if (has_offsets)
            fprintf(file, "\t%llu", (unsigned long long)entry.offset);
        if (has_targets) {
            fputc('\t', file);
            sluice_target_write_field(file, type, entry.target, entry.target_bytes);
        }
        fputc('\n', file);
    }
    sluice_hash128_hex(hash_all(manifest, has_offsets), id);
    fprintf(file, LAST_LINE "%s\n", id);
}

sluice_status sluice_manifest_write(const struct sluice_manifest *manifest, const char *path,
                                    struct sluice_err *err)
{
    return sluice_file_print_atomic(path, write_rows, manifest, err);
}

struct reader {
    const char *path;
    FILE *file;
    char *line; /* the current one, without its newline */
    size_t capacity;
    size_t line_number;
    size_t num_fields; /* of a sample, in this version */
    float *numbers;    /* of a target that is a vector */
};

static sluice_status corrupt(const struct reader *reader, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "%s:%zu: %s", reader->path, reader->line_number,
                       what);
}

static sluice_status next_line(struct reader *reader, struct sluice_err *err)
{
    const ssize_t len = getline(&reader->line, &reader->capacity, reader->file);
    reader->line_number++;
    if (len <= 0 || reader->line[len - 1] != '\n')
        return corrupt(reader, "the file ends too early", err);
    if (strlen(reader->line) != (size_t)len)
        return corrupt(reader, "a NUL byte", err);
    reader->line[len - 1] = '\0';
    return SLUICE_OK;
}

static bool parse_number(const char *text, uint64_t max, uint64_t *value)
{
    if (*text < '0' || *text > '9')
        return false;
    char *end;
    errno = 0;
    const unsigned long long number = strtoull(text, &end, 10);
    if (errno || *end || number > max)
        return false;
    *value = number;
    return true;
}

static bool parse_hash(const char *text, struct sluice_hash128 *hash)
{
    if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
        return false;
    char high[17];
    memcpy(high, text, 16);
    high[16] = '\0';
    hash->high = strtoull(high, NULL, 16);
    hash->low = strtoull(text + 16, NULL, 16);
    return true;
}

static sluice_status read_count(struct reader *reader, const char *name, uint64_t *count,
                                struct sluice_err *err)
{
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_starts_with(reader->line, name) ||
        !parse_number(reader->line + strlen(name), UINT32_MAX, count))
        return corrupt(reader, "a count of classes or samples is expected here", err);
    return SLUICE_OK;
}

/* For people alone, so what does not look like it is left out. */
static sluice_status read_passed_over(const struct reader *reader, struct sluice_manifest *manifest,
                                      struct sluice_err *err)
{
    char *at = strstr(reader->line, PASSED_OVER);
    if (!at)
        return SLUICE_OK;
    at += strlen(PASSED_OVER);
    char *tab = strchr(at, '\t');
    if (!tab)
        return SLUICE_OK;
    *tab = '\0';
    if (!parse_number(at, UINT64_MAX, &manifest->passed_unread))
        return SLUICE_OK;
    manifest->passed_text = strdup(tab + 1);
    return manifest->passed_text ? SLUICE_OK
                                 : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
}

static sluice_status read_entry(struct reader *reader, struct sluice_manifest_builder *builder,
                                struct sluice_err *err)
{
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    char *fields[MOST_FIELDS] = {NULL};
    size_t num_fields = 0;
    for (char *at = reader->line; at && num_fields < reader->num_fields; num_fields++) {
        fields[num_fields] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
        if (num_fields + 1 == reader->num_fields && at)
            return corrupt(reader, "too many fields", err);
    }
    if (num_fields != reader->num_fields)
        return corrupt(reader, "too few fields", err);
    assert(num_fields >= NUM_FIELDS - 2); /* of any version */

    struct sluice_manifest_entry row = {0};
    uint64_t label, width, height, mtime_ns;
    const bool is_val = strcmp(fields[3], "val") == 0;
    row.has_hash = strcmp(fields[6], "-") != 0;
    if (!sluice_manifest_unescape(fields[0]) || !fields[0][0] || !sluice_is_utf8(fields[0]))
        return corrupt(reader, "the path is not escaped UTF-8", err);
    if (!parse_number(fields[1], INT64_MAX, &row.bytes))
        return corrupt(reader, "'bytes' is no number", err);
    if (!parse_number(fields[2], UINT32_MAX, &label))
        return corrupt(reader, "'label' is no number", err);
    if (!is_val && strcmp(fields[3], "train") != 0)
        return corrupt(reader, "'subset' is neither train nor val", err);
    if (!parse_number(fields[4], UINT32_MAX, &width) ||
        !parse_number(fields[5], UINT32_MAX, &height))
        return corrupt(reader, "'width' or 'height' is no number", err);
    if (row.has_hash && !parse_hash(fields[6], &row.hash))
        return corrupt(reader, "the hash is not 32 hex digits", err);
    row.label = (uint32_t)label;
    row.subset = is_val ? SLUICE_SUBSET_VAL : SLUICE_SUBSET_TRAIN;
    row.width = (uint32_t)width;
    row.height = (uint32_t)height;
    if (fields[7]) /* a later version may know more */
        row.coding = sluice_coding_parse(fields[7]);
    if (fields[8]) {
        const bool is_negative = fields[8][0] == '-'; /* before 1970 */
        if (!parse_number(fields[8] + is_negative, INT64_MAX, &mtime_ns))
            return corrupt(reader, "'mtime_ns' is no number", err);
        row.mtime_ns = is_negative ? -(int64_t)mtime_ns : (int64_t)mtime_ns;
    }
    char shard[SLUICE_MAX_PATH_BYTES];
    if (fields[9]) {
        if (!parse_number(fields[9], INT64_MAX, &row.offset) || row.bytes > INT64_MAX - row.offset)
            return corrupt(reader, "'offset' is no number, or too large", err);
        if (row.offset && !sluice_shard_split(fields[0], shard))
            return corrupt(reader, "an offset, but no shard in the path", err);
    }
    size_t target_bytes = 0;
    if (fields[10] && !sluice_target_read_field(builder->manifest->target_type, fields[10],
                                                reader->numbers, &row.target, &target_bytes))
        return corrupt(reader, "'target' is not what the line of targets says", err);
    row.target_bytes = (uint32_t)target_bytes;
    return sluice_manifest_add_entry(builder, &row, fields[0], strlen(fields[0]), err);
}

/* "# targets", kind and dimension. */
static sluice_status read_target_type(struct reader *reader, struct sluice_target_type *type,
                                      struct sluice_err *err)
{
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    char *kind = reader->line + strlen(TARGETS_LINE), *dim = NULL;
    uint64_t number = 0;
    if (sluice_starts_with(reader->line, TARGETS_LINE) && (dim = strchr(kind, '\t')))
        *dim++ = '\0';
    if (!dim || !parse_number(dim, SLUICE_MAX_TARGET_DIM, &number))
        return corrupt(reader, "the kind of the targets is expected here", err);
    type->dim = (uint32_t)number;
    for (int i = SLUICE_TARGETS_VECTOR; i <= SLUICE_TARGETS_BYTES; i++) {
        if (strcmp(kind, target_kinds[i]) == 0)
            type->kind = (enum sluice_target_kind)i;
    }
    if (type->kind == SLUICE_TARGETS_NONE || sluice_target_type_flaw(*type))
        return corrupt(reader, "targets of a kind that is not known", err);
    reader->numbers = calloc(type->dim + 1, sizeof(*reader->numbers));
    return reader->numbers ? SLUICE_OK
                           : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
}

static sluice_status check_last_line(struct reader *reader, const struct sluice_manifest *manifest,
                                     struct sluice_err *err)
{
    struct sluice_hash128 said;
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_starts_with(reader->line, LAST_LINE))
        return corrupt(reader, "more lines than '# samples' says", err);
    const struct sluice_hash128 found = hash_all(manifest, reader->num_fields > NUM_FIELDS);
    if (!parse_hash(reader->line + strlen(LAST_LINE), &said) || said.high != found.high ||
        said.low != found.low)
        return corrupt(reader, "the file was damaged: its hash is wrong", err);
    return SLUICE_OK;
}

static sluice_status read_all(struct reader *reader, struct sluice_manifest_builder *builder,
                              struct sluice_err *err)
{
    uint64_t num_classes = 0, num_entries = 0;
    struct sluice_hash128 id;
    sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (strcmp(reader->line, FIRST_LINE_5) == 0)
        reader->num_fields = MOST_FIELDS;
    else if (strcmp(reader->line, FIRST_LINE_4) == 0)
        reader->num_fields = NUM_FIELDS + 1;
    else if (strcmp(reader->line, FIRST_LINE) == 0)
        reader->num_fields = NUM_FIELDS;
    else if (strcmp(reader->line, FIRST_LINE_2) == 0)
        reader->num_fields = NUM_FIELDS - 1;
    else if (strcmp(reader->line, FIRST_LINE_1) == 0)
        reader->num_fields = NUM_FIELDS - 2;
    else
        return corrupt(reader, "not a manifest of version 1 to 5", err);
    status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_starts_with(reader->line, "# id\t") || !parse_hash(reader->line + 5, &id))
        return corrupt(reader, "the id is expected here", err);
    status = read_count(reader, "# classes\t", &num_classes, err);
    if (status == SLUICE_OK)
        status = read_count(reader, "# samples\t", &num_entries, err);
    if (status == SLUICE_OK && reader->num_fields == MOST_FIELDS)
        status = read_target_type(reader, &builder->manifest->target_type, err);
    if (status == SLUICE_OK)
        status = next_line(reader, err); /* the names of the columns */
    if (status == SLUICE_OK)
        status = read_passed_over(reader, builder->manifest, err);
    for (uint64_t i = 0; status == SLUICE_OK && i < num_classes; i++) {
        status = next_line(reader, err);
        if (status != SLUICE_OK)
            break;
        if (!sluice_starts_with(reader->line, "class\t") ||
            !sluice_manifest_unescape(reader->line + 6))
            return corrupt(reader, "a class is expected here", err);
        status =
            sluice_manifest_add_class(builder, reader->line + 6, strlen(reader->line + 6), err);
    }
    for (uint64_t i = 0; status == SLUICE_OK && i < num_entries; i++) {
        status = read_entry(reader, builder, err);
        if (status == SLUICE_OK)
            status = sluice_manifest_check_entry(builder->manifest, i, err);
    }
    if (status != SLUICE_OK)
        return status;
    const struct sluice_hash128 found = sluice_manifest_id(builder->manifest);
    if (found.high != id.high || found.low != id.low)
        return corrupt(reader, "the rows do not have the id that line 2 says", err);
    if (reader->num_fields >= NUM_FIELDS) { /* older files have no such line */
        status = check_last_line(reader, builder->manifest, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (fgetc(reader->file) != EOF)
        return corrupt(reader, "more lines than '# samples' says", err);
    return SLUICE_OK;
}

static sluice_status read_text(const char *path, struct sluice_manifest **manifest,
                               struct sluice_err *err)
{
    struct reader reader = {.path = path, .file = fopen(path, "re")};
    if (!reader.file)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s", path,
                           strerror(errno));
    struct sluice_manifest_builder builder;
    sluice_status status = sluice_manifest_builder_init(&builder, err);
    if (status == SLUICE_OK)
        status = read_all(&reader, &builder, err);
    free(reader.numbers);
    free(reader.line);
    fclose(reader.file);
    if (status == SLUICE_OK)
        *manifest = builder.manifest;
    else
        sluice_manifest_destroy(builder.manifest);
    return status;
}

sluice_status sluice_manifest_text_hash(const char *text_path, struct sluice_hash128 *hash,
                                        struct sluice_err *err)
{
    char line[1 + sizeof(LAST_LINE) - 1 + 32 + 1 + 1] = "";
    struct stat st;
    const size_t len = sizeof(line) - 1;
    const int fd = open(text_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    const bool is_read =
        fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size >= (off_t)len &&
        sluice_pread_fully(fd, line, len, (uint64_t)st.st_size - len) == (ssize_t)len;
    if (fd >= 0)
        close(fd);
    if (is_read && line[len - 1] == '\n')
        line[len - 1] = '\0';
    if (!is_read || !sluice_starts_with(line, "\n" LAST_LINE) ||
        !parse_hash(line + strlen("\n" LAST_LINE), hash))
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s: no file whose last line is a hash",
                           text_path);
    return SLUICE_OK;
}

/* Reads the binary manifest next to the text, if it belongs to it. */
static bool read_binary(const char *text_path, struct sluice_manifest **manifest)
{
    char path[SLUICE_MAX_PATH_BYTES];
    struct sluice_hash128 text_hash;
    struct sluice_err why = {0};
    if (sluice_manifest_text_hash(text_path, &text_hash, NULL) != SLUICE_OK ||
        sluice_manifest_binary_path(text_path, path, NULL) != SLUICE_OK)
        return false;
    const struct sluice_manifest_expected expected = {.source_hash = &text_hash};
    const sluice_status status = sluice_manifest_map(path, &expected, manifest, &why);
    if (status != SLUICE_OK && status != SLUICE_E_NOT_FOUND)
        sluice_log(SLUICE_LOG_WARN, "%s; reading %s instead, which takes longer", why.text,
                   text_path);
    return status == SLUICE_OK;
}

sluice_status sluice_manifest_read(const char *path, struct sluice_manifest **manifest,
                                   struct sluice_err *err)
{
    struct sluice_manifest *read = NULL;
    const sluice_status status = read_binary(path, &read) ? SLUICE_OK : read_text(path, &read, err);
    if (status != SLUICE_OK)
        return status;
    if (read->num_classes > 1 && !read->classes[0][0])
        sluice_log(SLUICE_LOG_WARN,
                   "%s: images beside the class folders are a class of their own here, as no list "
                   "made now has it; make it anew with offload_dataset index",
                   path);
    *manifest = read;
    return SLUICE_OK;
}

sluice_status sluice_manifest_open(const char *root, const atomic_bool *is_cancelled,
                                   struct sluice_manifest **manifest, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_path_in(root, SLUICE_MANIFEST_FILE, path, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err why = {0};
    status = sluice_manifest_read(path, manifest, &why);
    if (status == SLUICE_OK)
        return SLUICE_OK;
    if (status != SLUICE_E_NOT_FOUND)
        sluice_log(SLUICE_LOG_WARN, "%s; walking the folder instead", why.text);
    return sluice_manifest_scan(root, is_cancelled, manifest, err);
}
