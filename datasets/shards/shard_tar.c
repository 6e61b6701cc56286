#include "datasets/shards/shard_members.h"

#include "base/c_locale.h"
#include "base/file.h"
#include "base/text.h"
#include "datasets/list/class_list.h"
#include "datasets/list/python_json.h"
#include "datasets/manifest/layout.h"
#include "datasets/shards/tar.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The members of a tar, by WebDataset's rule (shard_list.h). */

#define MAX_LABEL_BYTES 32               /* of a .cls */
#define MAX_JSON_BYTES ((size_t)1 << 20) /* of a .json that has the label */

/* Why a name is not taken for a path in a dataset; NULL: it is. */
static const char *flaw_of(const char *name)
{
    if (!sluice_is_utf8(name))
        return "the name is not UTF-8";
    for (const char *part = name;; part++) {
        const size_t len = strcspn(part, "/");
        if (len == 0 || (len == 2 && strncmp(part, "..", len) == 0))
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

/* Keeps the key of an image that is not listed, so that its .cls is not an error. */
static sluice_status note_unread(struct sluice_shard *shard, const char *name,
                                 struct sluice_err *err)
{
    const struct sluice_manifest_entry row = {.bytes = 0};
    return sluice_shard_add_row(&shard->unread, shard, name, sluice_shard_key_len(name), &row, err);
}

static sluice_status add_image(struct sluice_shard *shard, const char *name,
                               const struct sluice_tar_member *member, struct sluice_err *err)
{
    const char *flaw = member->kind ? member->kind : flaw_of(name);
    if (!flaw && strlen(shard->file->path) + 1 + strlen(name) >= SLUICE_MAX_PATH_BYTES)
        flaw = "the name is too long";
    if (flaw) {
        sluice_shard_pass_over(shard, name, flaw);
        return note_unread(shard, name, err);
    }
    if (has_hidden_part(name))
        return note_unread(shard, name, err);
    const struct sluice_manifest_entry row = {
        .offset = member->offset,
        .bytes = member->bytes,
        .mtime_ns = shard->file->mtime_ns,
        .label = SLUICE_NO_LABEL,
        .coding = sluice_layout_coding(name),
    };
    return sluice_shard_add_row(&shard->images, shard, name, strlen(name), &row, err);
}

/* --- labels --- */

static sluice_status add_row(struct sluice_shard *shard, const char *name,
                             const struct sluice_tar_member *member, uint32_t label,
                             struct sluice_err *err)
{
    const struct sluice_manifest_entry row = {.offset = member->offset, .label = label};
    return sluice_shard_add_row(&shard->labels, shard, name, sluice_shard_key_len(name), &row, err);
}

static sluice_status no_label(const struct sluice_shard *shard, const char *name,
                              const struct sluice_tar_member *member, const char *what,
                              struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s/%s: byte %llu: %.200s: %s is not " SLUICE_LABEL_RANGE, shard->root,
                       shard->file->path, (unsigned long long)member->offset, name, what);
}

static sluice_status no_image(const struct sluice_shard *shard, const char *name, uint64_t offset,
                              struct sluice_err *err)
{
    char shown[300];
    sluice_escape_line(shown, sizeof(shown), name);
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s/%s: byte %llu: %s belongs to no image: a sample's key is its name up to "
                       "the first dot, and here '%.*s'",
                       shard->root, shard->file->path, (unsigned long long)offset, shown,
                       (int)sluice_shard_key_len(shown), shown);
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

static sluice_status add_cls(struct sluice_shard *shard, const char *name,
                             const struct sluice_tar_member *member, struct sluice_err *err)
{
    char text[MAX_LABEL_BYTES + 1] = "";
    uint32_t label;
    if (member->bytes > 0 && member->bytes <= MAX_LABEL_BYTES) {
        const sluice_status status =
            sluice_shard_read_at(shard, member->offset, text, (size_t)member->bytes, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (!parse_label(text, &label)) {
        char shown[100], quoted[110];
        sluice_escape_line(shown, sizeof(shown), text);
        snprintf(quoted, sizeof(quoted), "'%s'", shown);
        return no_label(shard, name, member, quoted, err);
    }
    const sluice_status status =
        sluice_shard_note_labels(shard, SLUICE_LABELS_INTEGERS, "the .cls", err);
    return status == SLUICE_OK ? add_row(shard, name, member, label, err) : status;
}

/* Whether the value under a key is Python's and not JSON. */
struct asked {
    const char *key;
    bool is_replaced;
};

static void note_replaced(void *ctx, const char *key)
{
    struct asked *asked = ctx;
    asked->is_replaced = asked->is_replaced || strcmp(key, asked->key) == 0;
}

static sluice_status json_source(struct sluice_shard *shard, enum sluice_label_kind kind,
                                 struct sluice_err *err)
{
    char key[70], source[SLUICE_LABEL_SOURCE];
    sluice_escape_line(key, sizeof(key), shard->label_key);
    snprintf(source, sizeof(source), "'%s' of the .json", key);
    return sluice_shard_note_labels(shard, kind, source, err);
}

static sluice_status add_name(struct sluice_shard *shard, const char *name,
                              const struct sluice_tar_member *member, const char *text,
                              struct sluice_err *err)
{
    uint32_t label;
    sluice_status status = json_source(shard, SLUICE_LABELS_NAMES, err);
    if (status == SLUICE_OK)
        status = sluice_shard_add_text(shard, text, &label, err);
    return status == SLUICE_OK ? add_row(shard, name, member, label, err) : status;
}

/* A .json whose object has the label under shard->label_key. */
static sluice_status add_json(struct sluice_shard *shard, const char *name,
                              const struct sluice_tar_member *member, struct sluice_err *err)
{
    char what[300];
    if (member->bytes > MAX_JSON_BYTES)
        return no_label(shard, name, member, "a file of more than 1 MiB", err);
    char *text = malloc((size_t)member->bytes + 1);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a label");
    sluice_status status =
        sluice_shard_read_at(shard, member->offset, text, (size_t)member->bytes, err);
    if (status == SLUICE_OK) {
        struct asked asked = {.key = shard->label_key};
        sluice_python_json_replace(text, (size_t)member->bytes, note_replaced, &asked);
        json_t *json = SLUICE_IN_C_LOCALE(json_loadb(text, (size_t)member->bytes, 0, NULL));
        const json_t *value = asked.is_replaced ? NULL : json_object_get(json, shard->label_key);
        const json_int_t label = json_integer_value(value);
        snprintf(what, sizeof(what), "what it has under '%.200s'", shard->label_key);
        if (json_is_string(value) && json_string_value(value)[0])
            status = add_name(shard, name, member, json_string_value(value), err);
        else if (!json_is_integer(value) || label < 0 || label >= SLUICE_MAX_CLASSES)
            status = no_label(shard, name, member, json ? what : "text that is not JSON", err);
        else if ((status = json_source(shard, SLUICE_LABELS_INTEGERS, err)) == SLUICE_OK)
            status = add_row(shard, name, member, (uint32_t)label, err);
        json_decref(json);
    }
    free(text);
    return status;
}

/* --- */

static sluice_status add_member(struct sluice_shard *shard, const struct sluice_tar_member *member,
                                struct sluice_err *err)
{
    const char *name = member->name;
    if (member->kind && strcmp(member->kind, "a folder") == 0)
        return SLUICE_OK;
    bool is_value = false;
    if (!member->kind && !has_hidden_part(name)) {
        const sluice_status status = sluice_shard_note_value(shard, member, &is_value, err);
        if (status != SLUICE_OK)
            return status;
    }
    if (sluice_layout_is_read(name))
        return is_value ? SLUICE_OK : add_image(shard, name, member, err);
    if (has_hidden_part(name) || member->kind)
        return SLUICE_OK;
    const char *suffix = name + sluice_shard_key_len(name);
    if (sluice_has_suffix(name, ".cls") && !shard->label_key)
        return sluice_strcasecmp(suffix, ".cls") == 0 ? add_cls(shard, name, member, err)
                                                      : no_image(shard, name, member->offset, err);
    if (sluice_strcasecmp(suffix, ".json") == 0 && shard->label_key && shard->label_key[0])
        return add_json(shard, name, member, err);
    if (is_value)
        return SLUICE_OK;
    sluice_shard_count_passed(shard, name);
    return sluice_passed_over_is_image(name) ? note_unread(shard, name, err) : SLUICE_OK;
}

sluice_status sluice_shard_check_labels(struct sluice_shard *shard, struct sluice_err *err)
{
    const struct sluice_manifest *labels = shard->labels.manifest;
    for (size_t i = 0; i < labels->num_entries && !shard->label_key; i++) {
        const char *key = labels->rows[i].path;
        if (!sluice_shard_has_key(shard->images.manifest, key) &&
            !sluice_shard_has_key(shard->unread.manifest, key)) {
            char name[SLUICE_MAX_PATH_BYTES + 8];
            snprintf(name, sizeof(name), "%s.cls", key + strlen(shard->file->path) + 1);
            return no_image(shard, name, labels->rows[i].offset, err);
        }
    }
    return SLUICE_OK;
}

sluice_status sluice_shard_list_tar(struct sluice_shard *shard, struct sluice_err *err)
{
    struct sluice_tar tar = {
        .read_at = sluice_shard_read_at, .ctx = shard, .size = shard->file->bytes};
    struct sluice_tar_member member;
    bool is_end = false;
    for (;;) {
        sluice_status status = sluice_tar_next(&tar, &member, &is_end, err);
        if (status == SLUICE_OK && !is_end)
            status = add_member(shard, &member, err);
        if (status != SLUICE_OK)
            return status;
        if (is_end)
            return SLUICE_OK;
    }
}
