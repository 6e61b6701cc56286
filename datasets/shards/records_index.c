#include "datasets/shards/records_index.h"

#include "base/c_locale.h"
#include "base/file.h"
#include "base/text.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sluice_status no_memory(struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the names of shards");
}

static sluice_status wrong(size_t i, const char *what, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_INVALID, "shard %zu: %s", i, what);
}

/* A path beneath the index's folder. */
static bool is_sound(const char *name)
{
    if (strlen(name) >= SLUICE_MAX_PATH_BYTES)
        return false;
    for (const char *part = name;; part++) {
        const size_t len = strcspn(part, "/");
        if (len == 0 || strncmp(part, "..", len) == 0) /* also "." */
            return false;
        part += len;
        if (!*part)
            return true;
    }
}

static sluice_status add_name(struct sluice_records_index *index, size_t i, const char *name,
                              const char *suffix, struct sluice_err *err)
{
    const size_t len = name ? strlen(name) : 0, suffix_len = strlen(suffix);
    if (len <= suffix_len || strcmp(name + len - suffix_len, suffix) != 0 || !is_sound(name))
        return sluice_fail(err, SLUICE_E_INVALID, "shard %zu: no name of a file beneath it in %s",
                           i, suffix);
    index->names[index->num] = strdup(name);
    if (!index->names[index->num])
        return no_memory(err);
    index->num++;
    return SLUICE_OK;
}

static sluice_status note_compressed(struct sluice_records_index *index, const char *compression,
                                     const char *name, struct sluice_err *err)
{
    if (index->compression)
        return SLUICE_OK;
    index->compression = strdup(compression);
    index->compressed = strdup(name);
    return index->compression && index->compressed ? SLUICE_OK : no_memory(err);
}

/* --- MDS --- */

static sluice_status take_shards(struct sluice_records_index *index, const json_t *shards,
                                 struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; i < json_array_size(shards) && status == SLUICE_OK; i++) {
        const json_t *shard = json_array_get(shards, i);
        const json_t *raw = json_object_get(shard, "raw_data");
        const json_t *zip = json_object_get(shard, "zip_data");
        const char *format = json_string_value(json_object_get(shard, "format"));
        const char *compression = json_string_value(json_object_get(shard, "compression"));
        const char *zip_name = json_string_value(json_object_get(zip, "basename"));
        if (!format || strcmp(format, "mds") != 0)
            return wrong(i, "is not of the format mds", err);
        status =
            add_name(index, i, json_string_value(json_object_get(raw, "basename")), ".mds", err);
        if (status == SLUICE_OK && compression)
            status =
                note_compressed(index, compression, zip_name ? zip_name : index->names[i], err);
    }
    return status;
}

/* --- LitData --- */

/* A tree's leaves are its columns; these are their names where the tree is one dict of leaves. */
static json_t *names_of_leaves(const json_t *config, size_t num)
{
    const char *text = json_string_value(json_object_get(config, "data_spec"));
    json_t *spec = text ? SLUICE_IN_C_LOCALE(json_loads(text, 0, NULL)) : NULL;
    const json_t *tree = json_array_get(spec, 1);
    const json_t *children = json_object_get(tree, "children_spec");
    const char *type = json_string_value(json_object_get(tree, "type"));
    const char *context = json_string_value(json_object_get(tree, "context"));
    bool are_leaves =
        type && strcmp(type, "builtins.dict") == 0 && json_array_size(children) == num;
    for (size_t i = 0; i < json_array_size(children) && are_leaves; i++)
        are_leaves =
            json_array_size(json_object_get(json_array_get(children, i), "children_spec")) == 0;
    json_t *names = are_leaves && context ? SLUICE_IN_C_LOCALE(json_loads(context, 0, NULL)) : NULL;
    json_decref(spec);
    if (json_array_size(names) == num)
        return names;
    json_decref(names);
    return NULL;
}

static sluice_status take_leaves(struct sluice_records_index *index, const json_t *config,
                                 struct sluice_err *err)
{
    const json_t *formats = json_object_get(config, "data_format");
    const size_t num = json_array_size(formats);
    if (num == 0)
        return sluice_fail(err, SLUICE_E_INVALID, "no 'data_format'");
    json_t *names = names_of_leaves(config, num);
    bool is_sound = true;
    for (size_t i = 0; i < num && is_sound; i++) {
        char number[24];
        const char *format = json_string_value(json_array_get(formats, i));
        const char *name = json_string_value(json_array_get(names, i));
        snprintf(number, sizeof(number), "%zu", i);
        is_sound = format && sluice_columns_add(&index->columns, name ? name : number, format, 0);
    }
    json_decref(names);
    return is_sound
               ? SLUICE_OK
               : sluice_fail(err, SLUICE_E_INVALID, "'data_format' is no list of up to %d formats",
                             SLUICE_RECORDS_MAX_COLUMNS);
}

static sluice_status take_chunks(struct sluice_records_index *index, const json_t *chunks,
                                 const json_t *config, struct sluice_err *err)
{
    const char *compression = json_string_value(json_object_get(config, "compression"));
    const json_t *encryption = json_object_get(config, "encryption");
    const json_t *loader = json_object_get(config, "item_loader");
    const char *loader_name = json_string_value(loader);
    if (loader_name && strcmp(loader_name, "PyTreeLoader") != 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "chunks of %.60s are not read", loader_name);
    if (encryption && !json_is_null(encryption))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the chunks are encrypted");
    sluice_status status = take_leaves(index, config, err);
    for (size_t i = 0; i < json_array_size(chunks) && status == SLUICE_OK; i++) {
        const char *name =
            json_string_value(json_object_get(json_array_get(chunks, i), "filename"));
        if (compression && name)
            status = note_compressed(index, compression, name, err);
        else
            status = add_name(index, i, name, ".bin", err);
    }
    return status;
}

/* --- */

void sluice_records_index_clear(struct sluice_records_index *index)
{
    for (size_t i = 0; i < index->num; i++)
        free(index->names[i]);
    free(index->names);
    free(index->compression);
    free(index->compressed);
    *index = (struct sluice_records_index){0};
}

sluice_status sluice_records_index_parse(const char *text, size_t len,
                                         struct sluice_records_index *index, bool *is_index,
                                         struct sluice_err *err)
{
    *index = (struct sluice_records_index){0};
    json_t *json = SLUICE_IN_C_LOCALE(json_loadb(text, len, 0, NULL));
    const json_t *shards = json_object_get(json, "shards");
    const json_t *chunks = json_object_get(json, "chunks");
    const json_t *config = json_object_get(json, "config");
    const json_t *first = json_array_get(shards, 0);
    const bool is_mds = json_object_get(first, "raw_data") && json_object_get(first, "format");
    const bool is_litdata = json_is_array(chunks) && json_object_get(config, "data_format");
    *is_index = is_mds || is_litdata;
    sluice_status status = SLUICE_OK;
    if (*is_index) {
        index->names = calloc(json_array_size(is_mds ? shards : chunks) + 1, sizeof(char *));
        if (!index->names)
            status = no_memory(err);
        else
            status =
                is_mds ? take_shards(index, shards, err) : take_chunks(index, chunks, config, err);
    }
    json_decref(json);
    return status;
}
