#include "datasets/manifest/side_fields.h"

#include "base/c_locale.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/list/beneath.h"
#include "datasets/list/field_values.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool sluice_is_side_file(const struct sluice_field_sources *sources, const char *name)
{
    const size_t len = strlen(name);
    for (unsigned i = 0; i < sources->num; i++) {
        const char *from = sources->of[i].from;
        const size_t from_len = strlen(from);
        if (sluice_field_source_is_suffix(&sources->of[i]) && len > from_len &&
            sluice_strcasecmp(name + len - from_len, from) == 0)
            return true;
    }
    return false;
}

struct reading {
    const char *root;
    int root_fd;
    enum sluice_field_kind kind;
    char *content; /* of SLUICE_MAX_VALUES_BYTES + 1 */
};

/* Reads a file beneath the root; *has_file: it is there. */
static sluice_status read_file(const struct reading *r, const char *path, size_t *bytes,
                               bool *has_file, struct sluice_err *err)
{
    struct stat st;
    const int fd = sluice_open_beneath(r->root_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *has_file = fd >= 0 || errno != ENOENT;
    if (!*has_file)
        return SLUICE_OK;
    sluice_status status = SLUICE_OK;
    if (fd < 0 || fstat(fd, &st) != 0)
        status = sluice_fail(err, SLUICE_E_IO, "%s/%s: %s", r->root, path, strerror(errno));
    else if (!S_ISREG(st.st_mode))
        status = sluice_fail(err, SLUICE_E_INVALID, "%s/%s is no regular file", r->root, path);
    else if (st.st_size > (off_t)sluice_field_most_bytes(r->kind))
        status = sluice_fail(err, SLUICE_E_INVALID, "%s/%s has more than %zu MiB", r->root, path,
                             sluice_field_most_bytes(r->kind) >> 20);
    else if (sluice_pread_fully(fd, r->content, (size_t)st.st_size, 0) != st.st_size)
        status = sluice_fail(err, SLUICE_E_IO, "%s/%s: cannot read it whole", r->root, path);
    else
        *bytes = (size_t)st.st_size;
    if (fd >= 0)
        close(fd);
    return status;
}

/* The path of the image with this suffix in place of its own.  False: it is too long. */
static bool side_path(const char *image, const char *suffix, char path[SLUICE_MAX_PATH_BYTES])
{
    const char *slash = strrchr(image, '/'), *dot = strrchr(slash ? slash : image, '.');
    const size_t stem = dot ? (size_t)(dot - image) : strlen(image);
    return sluice_print(path, SLUICE_MAX_PATH_BYTES, "%.*s%s", (int)stem, image, suffix);
}

static sluice_status read_value(const struct reading *r, const char *path,
                                struct sluice_field_values *values,
                                struct sluice_field_place *place, bool *has_file,
                                struct sluice_err *err)
{
    size_t bytes = 0;
    struct sluice_err why = {0};
    sluice_status status = read_file(r, path, &bytes, has_file, err);
    if (status != SLUICE_OK || !*has_file)
        return status;
    values->len = 0;
    r->content[bytes] = '\0';
    if (values->wanted != SLUICE_FIELD_VECTOR)
        status = sluice_field_values_add_bytes(values, r->content, bytes, place, &why);
    else if (strlen(r->content) != bytes)
        status = sluice_fail(&why, SLUICE_E_INVALID, "has a NUL byte");
    else
        status = sluice_field_values_add_text(values, r->content, place, &why);
    return status == SLUICE_OK ? status
                               : sluice_fail(err, status, "%s/%s %s", r->root, path, why.text);
}

/* All values of one source. */
static sluice_status read_field(const struct reading *r, const struct sluice_field_source *source,
                                unsigned field, struct sluice_manifest_builder *builder,
                                struct sluice_err *err)
{
    struct sluice_manifest *manifest = builder->manifest;
    struct sluice_field_type *type = &manifest->fields.of[field].type;
    struct sluice_field_values values = {.wanted = source->kind ? source->kind : SLUICE_FIELD_BYTES,
                                         .type = *type};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < manifest->num_entries && status == SLUICE_OK; i++) {
        char path[SLUICE_MAX_PATH_BYTES];
        struct sluice_field_place place = {0};
        bool has_file = false;
        if (manifest->rows[i].offset || sluice_manifest_field_at(manifest, i, field).at ||
            !side_path(manifest->rows[i].path, source->from, path))
            continue;
        status = read_value(r, path, &values, &place, &has_file, err);
        if (status == SLUICE_OK && has_file)
            status = sluice_manifest_set_field(builder, i, field, values.bytes + place.at,
                                               place.bytes, err);
    }
    if (status == SLUICE_OK && values.type.kind)
        *type = values.type;
    sluice_field_values_clear(&values);
    return status;
}

sluice_status sluice_side_fields_read(const char *root, const struct sluice_field_sources *sources,
                                      struct sluice_manifest_builder *builder,
                                      struct sluice_err *err)
{
    struct reading r = {.root = root};
    r.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    r.content = malloc(SLUICE_MAX_VALUES_BYTES + 1);
    sluice_status status =
        r.root_fd < 0 ? sluice_fail(err, SLUICE_E_IO, "%s: %s", root, strerror(errno))
        : !r.content  ? sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the values of fields")
                      : SLUICE_OK;
    for (unsigned k = 0; k < sources->num && status == SLUICE_OK; k++) {
        r.kind = sources->of[k].kind;
        if (sluice_field_source_is_suffix(&sources->of[k]))
            status = read_field(&r, &sources->of[k], k, builder, err);
    }
    if (r.root_fd >= 0)
        close(r.root_fd);
    free(r.content);
    return status;
}
