#include "datasets/manifest.h"

#include "base/file.h"
#include "base/log.h"
#include "image/coding.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_DEPTH 32
#define CHUNK_BYTES (256 * 1024)

/* Strings live in chunks, so that a million paths are a few allocations. */
struct chunk {
    struct chunk *next;
    size_t used, capacity;
    char bytes[];
};

struct builder {
    struct sluice_manifest *manifest;
    size_t entry_capacity, class_capacity;
};

static char *store_string(struct sluice_manifest *manifest, const char *text, size_t len)
{
    struct chunk *chunk = manifest->storage;
    if (!chunk || chunk->capacity - chunk->used < len + 1) {
        const size_t capacity = len + 1 > CHUNK_BYTES ? len + 1 : CHUNK_BYTES;
        chunk = malloc(sizeof(*chunk) + capacity);
        if (!chunk)
            return NULL;
        chunk->next = manifest->storage;
        chunk->used = 0;
        chunk->capacity = capacity;
        manifest->storage = chunk;
    }
    char *copy = chunk->bytes + chunk->used;
    memcpy(copy, text, len);
    copy[len] = '\0';
    chunk->used += len + 1;
    return copy;
}

void sluice_manifest_destroy(struct sluice_manifest *manifest)
{
    if (!manifest)
        return;
    struct chunk *chunk = manifest->storage;
    while (chunk) {
        struct chunk *next = chunk->next;
        free(chunk);
        chunk = next;
    }
    free(manifest->entries);
    free(manifest->classes);
    free(manifest);
}

static sluice_status builder_init(struct builder *builder, struct sluice_err *err)
{
    *builder = (struct builder){.manifest = calloc(1, sizeof(*builder->manifest))};
    if (!builder->manifest)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest");
    return SLUICE_OK;
}

/* Grows *array by doubling so that one more element fits. */
static bool make_room(void **array, size_t *capacity, size_t count, size_t element)
{
    if (count < *capacity)
        return true;
    const size_t grown = *capacity ? *capacity * 2 : 256;
    void *moved = realloc(*array, grown * element);
    if (!moved)
        return false;
    *array = moved;
    *capacity = grown;
    return true;
}

/* Copies the row; its path is path[0 .. path_len). */
static sluice_status add_entry(struct builder *builder, const struct sluice_manifest_entry *row,
                               const char *path, size_t path_len, struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    void *entries = manifest->entries;
    const bool has_room = make_room(&entries, &builder->entry_capacity, manifest->num_entries,
                                    sizeof(*manifest->entries));
    manifest->entries = entries;
    const char *copy = has_room ? store_string(manifest, path, path_len) : NULL;
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a manifest of %zu samples",
                           manifest->num_entries + 1);
    struct sluice_manifest_entry *entry = &manifest->entries[manifest->num_entries++];
    *entry = *row;
    entry->path = copy;
    return SLUICE_OK;
}

static sluice_status add_class(struct builder *builder, const char *name, size_t len,
                               struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    void *classes = manifest->classes;
    const bool has_room = make_room(&classes, &builder->class_capacity, manifest->num_classes,
                                    sizeof(*manifest->classes));
    manifest->classes = classes;
    const char *copy = has_room ? store_string(manifest, name, len) : NULL;
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the class names");
    manifest->classes[manifest->num_classes++] = copy;
    return SLUICE_OK;
}

/* --- walking a root --- */

static bool is_png(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && !strcasecmp(dot, ".png");
}

static bool has_image_suffix(const char *name)
{
    const char *dot = strrchr(name, '.');
    return is_png(name) || (dot && (!strcasecmp(dot, ".jpg") || !strcasecmp(dot, ".jpeg")));
}

/* Paths cross the wire as protobuf strings, which are UTF-8 by definition. */
static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    while (*at) {
        const unsigned lead = *at++;
        unsigned follow, code;
        if (lead < 0x80)
            continue;
        else if (lead >= 0xC2 && lead <= 0xDF)
            follow = 1, code = lead & 0x1F;
        else if ((lead & 0xF0) == 0xE0)
            follow = 2, code = lead & 0x0F;
        else if (lead >= 0xF0 && lead <= 0xF4)
            follow = 3, code = lead & 0x07;
        else
            return false;
        const unsigned smallest = follow == 1 ? 0x80 : follow == 2 ? 0x800 : 0x10000;
        for (; follow; follow--) {
            if ((*at & 0xC0) != 0x80)
                return false;
            code = code << 6 | (*at++ & 0x3F);
        }
        if (code < smallest || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return false;
    }
    return true;
}

/* Sizes of links are their targets', as long as these lie beneath the root. */
static bool stat_link_beneath(int root_fd, const char *path, struct stat *st)
{
    struct open_how how = {
        .flags = O_PATH | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    const long fd = syscall(SYS_openat2, root_fd, path, &how, sizeof(how));
    if (fd < 0)
        return false;
    const bool is_found = fstat((int)fd, st) == 0;
    close((int)fd);
    return is_found;
}

struct walk {
    struct builder *builder;
    const char *root;
    int root_fd;
    char path[SLUICE_MAX_PATH_BYTES]; /* of the folder or file at hand, relative to the root */
};

static void pass_over(const struct walk *walk, const char *why)
{
    sluice_log(SLUICE_LOG_WARN, "%s/%s: %s; passed over", walk->root, walk->path, why);
}

static sluice_status walk_folder(struct walk *walk, int parent_fd, const char *name, size_t len,
                                 unsigned depth, struct sluice_err *err);

static sluice_status walk_entry(struct walk *walk, int folder_fd, const char *name, size_t len,
                                unsigned depth, struct sluice_err *err)
{
    struct stat st;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
        pass_over(walk, strerror(errno));
        return SLUICE_OK;
    }
    const bool is_image = has_image_suffix(name);
    if (S_ISDIR(st.st_mode)) {
        if (is_image) {
            pass_over(walk, "a folder with the name of an image");
            return SLUICE_OK;
        }
        return walk_folder(walk, folder_fd, name, len, depth + 1, err);
    }
    if (S_ISLNK(st.st_mode)) {
        if (!stat_link_beneath(walk->root_fd, walk->path, &st)) {
            pass_over(walk, "a link that leaves the root or leads nowhere");
            return SLUICE_OK;
        }
        if (S_ISDIR(st.st_mode)) {
            pass_over(walk, "a link to a folder");
            return SLUICE_OK;
        }
    }
    if (!is_image)
        return SLUICE_OK;
    if (!S_ISREG(st.st_mode)) {
        pass_over(walk, "not a regular file");
        return SLUICE_OK;
    }
    if (!is_utf8(walk->path)) {
        pass_over(walk, "the name is not UTF-8");
        return SLUICE_OK;
    }
    /* A name tells PNGs from JPEGs, whose work is of another kind; how a JPEG is coded it does not.
     */
    const struct sluice_manifest_entry row = {
        .bytes = (uint64_t)st.st_size,
        .coding = is_png(name) ? SLUICE_CODING_PNG : SLUICE_CODING_UNKNOWN,
    };
    return add_entry(walk->builder, &row, walk->path, len, err);
}

static sluice_status walk_folder(struct walk *walk, int parent_fd, const char *name, size_t len,
                                 unsigned depth, struct sluice_err *err)
{
    if (depth > MAX_DEPTH) {
        pass_over(walk, "nested too deep");
        return SLUICE_OK;
    }
    const int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (!folder) {
        pass_over(walk, strerror(errno));
        if (fd >= 0)
            close(fd);
        return SLUICE_OK;
    }
    sluice_status status = SLUICE_OK;
    const struct dirent *entry;
    while (status == SLUICE_OK && (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        const int added = snprintf(walk->path + len, sizeof(walk->path) - len, "%s%s",
                                   len ? "/" : "", entry->d_name);
        if (added < 0 || (size_t)added >= sizeof(walk->path) - len) {
            pass_over(walk, "a path too long");
        } else {
            status =
                walk_entry(walk, dirfd(folder), entry->d_name, len + (size_t)added, depth, err);
        }
        walk->path[len] = '\0';
    }
    closedir(folder);
    return status;
}

/* --- order, subsets and classes --- */

static int compare_paths(const void *a, const void *b)
{
    const struct sluice_manifest_entry *x = a, *y = b;
    return strcmp(x->path, y->path);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool starts_with(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* The folder that names an entry's class; *len is 0 for a file in no folder. */
static const char *class_of(const struct sluice_manifest_entry *entry, bool has_subsets,
                            size_t *len)
{
    const char *name = entry->path;
    if (has_subsets)
        name = strchr(name, '/') + 1;
    const char *slash = strchr(name, '/');
    *len = slash ? (size_t)(slash - name) : 0;
    return name;
}

/* Sets subset and label of every entry from its path, and the class list. */
static sluice_status assign_classes(struct builder *builder, struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;

    /* "train" may be the name of a class; it is a subset only where nothing else stands beside
     * train/ and val/. */
    bool has_subsets = true;
    for (size_t i = 0; i < manifest->num_entries && has_subsets; i++)
        has_subsets = starts_with(manifest->entries[i].path, "train/") ||
                      starts_with(manifest->entries[i].path, "val/");

    /* In path order one class's files come in a row (twice with subsets), so comparing with the
     * last name keeps this list short before it is sorted. */
    for (size_t i = 0; i < manifest->num_entries; i++) {
        size_t len;
        const char *name = class_of(&manifest->entries[i], has_subsets, &len);
        const char *last =
            manifest->num_classes ? manifest->classes[manifest->num_classes - 1] : NULL;
        if (last && strlen(last) == len && memcmp(last, name, len) == 0)
            continue;
        const sluice_status status = add_class(builder, name, len, err);
        if (status != SLUICE_OK)
            return status;
    }
    qsort(manifest->classes, manifest->num_classes, sizeof(*manifest->classes), compare_names);
    size_t kept = 0;
    for (size_t i = 0; i < manifest->num_classes; i++) {
        if (kept == 0 || strcmp(manifest->classes[kept - 1], manifest->classes[i]) != 0)
            manifest->classes[kept++] = manifest->classes[i];
    }
    manifest->num_classes = kept;

    for (size_t i = 0; i < manifest->num_entries; i++) {
        struct sluice_manifest_entry *entry = &manifest->entries[i];
        if (has_subsets && starts_with(entry->path, "val/"))
            entry->subset = SLUICE_SUBSET_VAL;
        size_t len;
        const char *name = class_of(entry, has_subsets, &len);
        size_t low = 0, high = manifest->num_classes;
        while (high - low > 1) {
            const size_t middle = (low + high) / 2;
            const int order = strncmp(manifest->classes[middle], name, len);
            if (order < 0 || (order == 0 && manifest->classes[middle][len] == '\0'))
                low = middle;
            else
                high = middle;
        }
        entry->label = (uint32_t)low;
    }
    return SLUICE_OK;
}

sluice_status sluice_manifest_scan(const char *root, struct sluice_manifest **manifest,
                                   struct sluice_err *err)
{
    struct builder builder;
    sluice_status status = builder_init(&builder, err);
    if (status != SLUICE_OK)
        return status;

    struct walk walk = {.builder = &builder, .root = root};
    walk.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (walk.root_fd < 0) {
        status = sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s",
                             root, strerror(errno));
        goto fail;
    }
    status = walk_folder(&walk, walk.root_fd, ".", 0, 0, err);
    close(walk.root_fd);
    if (status != SLUICE_OK)
        goto fail;
    if (builder.manifest->num_entries == 0) {
        status = sluice_fail(err, SLUICE_E_NOT_FOUND,
                             "%s: no .jpg, .jpeg or .png file in it or below", root);
        goto fail;
    }
    qsort(builder.manifest->entries, builder.manifest->num_entries,
          sizeof(*builder.manifest->entries), compare_paths);
    status = assign_classes(&builder, err);
    if (status != SLUICE_OK)
        goto fail;
    *manifest = builder.manifest;
    return SLUICE_OK;

fail:
    sluice_manifest_destroy(builder.manifest);
    return status;
}

/* --- from rows --- */

static sluice_status check_entry(const struct sluice_manifest *manifest, size_t i,
                                 struct sluice_err *err)
{
    const struct sluice_manifest_entry *entry = &manifest->entries[i];
    if (entry->label >= manifest->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') has label %u of %zu", i,
                           entry->path, entry->label, manifest->num_classes);
    if (i > 0 && strcmp(manifest->entries[i - 1].path, entry->path) >= 0)
        return sluice_fail(err, SLUICE_E_INVALID, "sample %zu ('%.100s') is out of order", i,
                           entry->path);
    return SLUICE_OK;
}

sluice_status sluice_manifest_create(const struct sluice_manifest_entry *entries,
                                     size_t num_entries, const char *const *classes,
                                     size_t num_classes, struct sluice_manifest **manifest,
                                     struct sluice_err *err)
{
    struct builder builder;
    sluice_status status = builder_init(&builder, err);
    for (size_t i = 0; status == SLUICE_OK && i < num_classes; i++)
        status = add_class(&builder, classes[i], strlen(classes[i]), err);
    for (size_t i = 0; status == SLUICE_OK && i < num_entries; i++) {
        status = add_entry(&builder, &entries[i], entries[i].path, strlen(entries[i].path), err);
        if (status == SLUICE_OK)
            status = check_entry(builder.manifest, i, err);
    }
    if (status != SLUICE_OK) {
        sluice_manifest_destroy(builder.manifest);
        return status;
    }
    *manifest = builder.manifest;
    return SLUICE_OK;
}

struct sluice_hash128 sluice_manifest_id(const struct sluice_manifest *manifest)
{
    /* Hash the hashes of the rows: no state to allocate, so nothing can fail. */
    struct sluice_hash128 id = {0, 0};
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry *entry = &manifest->entries[i];
        uint8_t row[16 + 16 + 12] = {0};
        sluice_hash128_bytes(id, row);
        sluice_hash128_bytes(sluice_hash128(entry->path, strlen(entry->path)), row + 16);
        for (int k = 0; k < 8; k++)
            row[32 + k] = (uint8_t)(entry->bytes >> (8 * k));
        for (int k = 0; k < 4; k++)
            row[40 + k] = (uint8_t)(entry->label >> (8 * k));
        id = sluice_hash128(row, sizeof(row));
    }
    return id;
}

/* --- the file --- */

#define FIRST_LINE "# sluice manifest 2"
#define FIRST_LINE_1 "# sluice manifest 1" /* the same without the column `coding` */

#define NUM_FIELDS 8

/* Tab, newline and backslash in a name are written \t, \n and \\. */
static void write_escaped(FILE *file, const char *text)
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

/* In place; false if a backslash leads nowhere. */
static bool unescape(char *text)
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

static void write_rows(FILE *file, const void *ctx)
{
    const struct sluice_manifest *manifest = ctx;
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(manifest), id);
    fprintf(file,
            FIRST_LINE "\n# id\t%s\n# classes\t%zu\n# samples\t%zu\n"
                       "# path\tbytes\tlabel\tsubset\twidth\theight\txxh3_128\tcoding\n",
            id, manifest->num_classes, manifest->num_entries);
    for (size_t i = 0; i < manifest->num_classes; i++) {
        fputs("class\t", file);
        write_escaped(file, manifest->classes[i]);
        fputc('\n', file);
    }
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry *entry = &manifest->entries[i];
        char hash[33] = "-";
        if (entry->has_hash)
            sluice_hash128_hex(entry->hash, hash);
        write_escaped(file, entry->path);
        fprintf(file, "\t%llu\t%u\t%s\t%u\t%u\t%s\t%s\n", (unsigned long long)entry->bytes,
                entry->label, entry->subset == SLUICE_SUBSET_VAL ? "val" : "train", entry->width,
                entry->height, hash, sluice_coding_name(entry->coding));
    }
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
    if (!starts_with(reader->line, name) ||
        !parse_number(reader->line + strlen(name), UINT32_MAX, count))
        return corrupt(reader, "a count of classes or samples is expected here", err);
    return SLUICE_OK;
}

static sluice_status read_entry(struct reader *reader, struct builder *builder,
                                struct sluice_err *err)
{
    const sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    char *fields[NUM_FIELDS] = {NULL};
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
    assert(num_fields >= NUM_FIELDS - 1); /* of either version */

    struct sluice_manifest_entry row = {0};
    uint64_t label, width, height;
    const bool is_val = strcmp(fields[3], "val") == 0;
    row.has_hash = strcmp(fields[6], "-") != 0;
    if (!unescape(fields[0]) || !fields[0][0] || !is_utf8(fields[0]))
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
    return add_entry(builder, &row, fields[0], strlen(fields[0]), err);
}

static sluice_status read_all(struct reader *reader, struct builder *builder,
                              struct sluice_err *err)
{
    uint64_t num_classes, num_entries;
    struct sluice_hash128 id;
    sluice_status status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (strcmp(reader->line, FIRST_LINE) == 0)
        reader->num_fields = NUM_FIELDS;
    else if (strcmp(reader->line, FIRST_LINE_1) == 0)
        reader->num_fields = NUM_FIELDS - 1;
    else
        return corrupt(reader, "not a manifest of version 1 or 2", err);
    status = next_line(reader, err);
    if (status != SLUICE_OK)
        return status;
    if (!starts_with(reader->line, "# id\t") || !parse_hash(reader->line + 5, &id))
        return corrupt(reader, "the id is expected here", err);
    status = read_count(reader, "# classes\t", &num_classes, err);
    if (status == SLUICE_OK)
        status = read_count(reader, "# samples\t", &num_entries, err);
    if (status == SLUICE_OK)
        status = next_line(reader, err); /* the names of the columns */
    for (uint64_t i = 0; status == SLUICE_OK && i < num_classes; i++) {
        status = next_line(reader, err);
        if (status != SLUICE_OK)
            break;
        if (!starts_with(reader->line, "class\t") || !unescape(reader->line + 6))
            return corrupt(reader, "a class is expected here", err);
        status = add_class(builder, reader->line + 6, strlen(reader->line + 6), err);
    }
    for (uint64_t i = 0; status == SLUICE_OK && i < num_entries; i++) {
        status = read_entry(reader, builder, err);
        if (status == SLUICE_OK)
            status = check_entry(builder->manifest, i, err);
    }
    if (status != SLUICE_OK)
        return status;
    if (fgetc(reader->file) != EOF)
        return corrupt(reader, "more lines than '# samples' says", err);
    const struct sluice_hash128 found = sluice_manifest_id(builder->manifest);
    if (found.high != id.high || found.low != id.low)
        return corrupt(reader, "the rows do not have the id that line 2 says", err);
    return SLUICE_OK;
}

sluice_status sluice_manifest_read(const char *path, struct sluice_manifest **manifest,
                                   struct sluice_err *err)
{
    struct reader reader = {.path = path, .file = fopen(path, "re")};
    if (!reader.file)
        return sluice_fail(err, errno == ENOENT ? SLUICE_E_NOT_FOUND : SLUICE_E_IO, "%s: %s", path,
                           strerror(errno));
    struct builder builder;
    sluice_status status = builder_init(&builder, err);
    if (status == SLUICE_OK)
        status = read_all(&reader, &builder, err);
    free(reader.line);
    fclose(reader.file);
    if (status != SLUICE_OK) {
        sluice_manifest_destroy(builder.manifest);
        return status;
    }
    *manifest = builder.manifest;
    return SLUICE_OK;
}

sluice_status sluice_manifest_open(const char *root, struct sluice_manifest **manifest,
                                   struct sluice_err *err)
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
    return sluice_manifest_scan(root, manifest, err);
}
