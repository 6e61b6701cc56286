#include "datasets/manifest/text_format.h"

#include "base/array.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "datasets/manifest/binary.h"
#include "datasets/manifest/builder.h"
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

struct reader {
    const char *path;
    FILE *file;
    char *line; /* the current one, without its newline */
    size_t capacity;
    size_t line_number;
    size_t num_columns; /* of a sample */
    float *numbers;     /* of the values of a sample */
    size_t number_capacity;
    void *values; /* of all fields of a sample */
    size_t value_capacity;
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

/* The values of a row from its columns; they stay until the next row is read. */
static sluice_status read_values(struct reader *reader, const struct sluice_fields *fields,
                                 char *const columns[], struct sluice_manifest_entry *row,
                                 struct sluice_err *err)
{
    struct sluice_field_value values[SLUICE_MAX_FIELDS];
    size_t wanted = 0;
    for (unsigned i = 0; i < fields->num; i++)
        wanted += SLUICE_FIELD_ROOM(strlen(columns[i]), fields->of[i].type.dim);
    if (fields->num == 0)
        return SLUICE_OK;
    if (!sluice_array_reserve(&reader->numbers, &reader->number_capacity, wanted,
                              sizeof(*reader->numbers)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    float *room = reader->numbers;
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_field_type type = fields->of[i].type;
        const size_t len = strlen(columns[i]);
        size_t bytes;
        if (!sluice_field_read(type, columns[i], room, &values[i].at, &bytes))
            return corrupt(reader, "'target' is not what the line of targets says", err);
        values[i].bytes = (uint32_t)bytes;
        room += SLUICE_FIELD_ROOM(len, type.dim);
    }
    const size_t bytes = sluice_fields_pack(fields->num, values, NULL);
    if (!sluice_array_reserve(&reader->values, &reader->value_capacity, bytes + 1, 1))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    row->values = reader->values;
    row->values_bytes = (uint32_t)sluice_fields_pack(fields->num, values, reader->values);
    return SLUICE_OK;
}

static sluice_status read_entry(struct reader *reader, struct sluice_manifest_builder *builder,
                                struct sluice_err *err)
{
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    char *fields[MOST_COLUMNS] = {NULL};
    size_t num_fields = 0;
    for (char *at = reader->line; at && num_fields < reader->num_columns; num_fields++) {
        fields[num_fields] = at;
        at = strchr(at, '\t');
        if (at)
            *at++ = '\0';
        if (num_fields + 1 == reader->num_columns && at)
            return corrupt(reader, "too many fields", err);
    }
    if (num_fields != reader->num_columns)
        return corrupt(reader, "too few fields", err);
    assert(num_fields >= NUM_COLUMNS - 2); /* of any version */

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
    const sluice_status read =
        read_values(reader, &builder->manifest->fields, fields + VALUES_FROM, &row, err);
    return read == SLUICE_OK
               ? sluice_manifest_add_entry(builder, &row, fields[0], strlen(fields[0]), err)
               : read;
}

static bool parse_field_line(char *line, struct sluice_fields *fields)
{
    char *dim = strrchr(line, '\t'), text[SLUICE_FIELDS_TEXT];
    struct sluice_fields parsed;
    if (!dim || !sluice_print(text, sizeof(text), "%s\n", line) ||
        !sluice_fields_parse(text, &parsed))
        return false;
    fields->of[fields->num++] = parsed.of[0];
    return true;
}

/* "# targets" or the lines of fields. */
static sluice_status read_fields(struct reader *reader, bool is_plain, struct sluice_fields *fields,
                                 struct sluice_err *err)
{
    char line[SLUICE_FIELD_NAME + 40];
    uint64_t num = 1;
    sluice_status status = is_plain ? SLUICE_OK : read_count(reader, FIELDS_LINE, &num, err);
    if (status == SLUICE_OK && (num == 0 || num > SLUICE_MAX_FIELDS))
        return corrupt(reader, "a number of fields from 1 to 16 is expected here", err);
    for (uint64_t i = 0; i < num && status == SLUICE_OK; i++) {
        const char *begin = is_plain ? TARGETS_LINE : FIELD_LINE;
        status = next_line(reader, err);
        if (status != SLUICE_OK)
            return status;
        if (!sluice_starts_with(reader->line, begin) ||
            !sluice_print(line, sizeof(line), "%s%s", is_plain ? SLUICE_TARGET_FIELD "\t" : "",
                          reader->line + strlen(begin)) ||
            !parse_field_line(line, fields))
            return corrupt(reader, "the kind of the targets is expected here", err);
    }
    if (status == SLUICE_OK &&
        (sluice_fields_flaw(fields) || sluice_fields_are_plain(fields) != is_plain))
        return corrupt(reader, "targets of a kind that is not known", err);
    reader->num_columns += fields->num;
    return status;
}

/* The name of the field in the names of the columns. */
static void take_plain_name(const struct reader *reader, struct sluice_fields *fields)
{
    char *at = reader->line;
    for (int i = 0; i < VALUES_FROM && at; i++) {
        at = strchr(at, '\t');
        if (at)
            at++;
    }
    char name[SLUICE_FIELD_NAME];
    if (at && sluice_print(name, sizeof(name), "%.*s", (int)strcspn(at, "\t"), at) &&
        !sluice_field_name_flaw(name))
        memcpy(fields->of[0].name, name, sizeof(name));
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
    const struct sluice_hash128 found =
        sluice_manifest_hash_all(manifest, reader->num_columns > NUM_COLUMNS);
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
    const bool has_targets = strcmp(reader->line, FIRST_LINE_5) == 0;
    const bool has_fields = strcmp(reader->line, FIRST_LINE_6) == 0;
    if (has_targets || has_fields || strcmp(reader->line, FIRST_LINE_4) == 0)
        reader->num_columns = NUM_COLUMNS + 1;
    else if (strcmp(reader->line, FIRST_LINE) == 0)
        reader->num_columns = NUM_COLUMNS;
    else if (strcmp(reader->line, FIRST_LINE_2) == 0)
        reader->num_columns = NUM_COLUMNS - 1;
    else if (strcmp(reader->line, FIRST_LINE_1) == 0)
        reader->num_columns = NUM_COLUMNS - 2;
    else
        return corrupt(reader, "not a manifest of version 1 to 6", err);
    status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (!sluice_starts_with(reader->line, "# id\t") || !parse_hash(reader->line + 5, &id))
        return corrupt(reader, "the id is expected here", err);
    status = read_count(reader, "# classes\t", &num_classes, err);
    if (status == SLUICE_OK)
        status = read_count(reader, "# samples\t", &num_entries, err);
    if (status == SLUICE_OK && (has_targets || has_fields))
        status = read_fields(reader, has_targets, &builder->manifest->fields, err);
    if (status == SLUICE_OK)
        status = next_line(reader, err); /* the names of the columns */
    if (status == SLUICE_OK && has_targets)
        take_plain_name(reader, &builder->manifest->fields);
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
    if (reader->num_columns >= NUM_COLUMNS) { /* older files have no such line */
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
    free(reader.values);
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
