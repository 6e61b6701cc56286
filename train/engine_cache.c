#include "train/engine_cache.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Larger than a text of thousands of models. */
#define MAX_FILE_BYTES ((size_t)16 << 20)

void sluice_engine_cache_clear(struct sluice_engine_cache *cache)
{
    free(cache->entries);
    *cache = (struct sluice_engine_cache){.count = 0};
}

const struct sluice_engine *sluice_engine_cache_find(const struct sluice_engine_cache *cache,
                                                     const char *key)
{
    for (size_t i = 0; i < cache->count; i++) {
        if (strcmp(cache->entries[i].key, key) == 0)
            return &cache->entries[i].engine;
    }
    return NULL;
}

sluice_status sluice_engine_cache_put(struct sluice_engine_cache *cache, const char *key,
                                      const struct sluice_engine *engine, struct sluice_err *err)
{
    if (strlen(key) >= SLUICE_ENGINE_KEY_LEN || strpbrk(key, "=\n"))
        return sluice_fail(err, SLUICE_E_INVALID, "engine cache: no key: \"%s\"", key);
    cache->is_changed = true;
    struct sluice_engine *known = (struct sluice_engine *)sluice_engine_cache_find(cache, key);
    if (known) {
        *known = *engine;
        return SLUICE_OK;
    }
    if (!sluice_array_reserve(&cache->entries, &cache->capacity, cache->count + 1,
                              sizeof(*cache->entries)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an engine cache");
    struct sluice_engine_entry *entry = &cache->entries[cache->count++];
    memset(entry, 0, sizeof(*entry));
    strcpy(entry->key, key);
    entry->engine = *engine;
    return SLUICE_OK;
}

/* The number at *at, which moves behind it. */
static bool take_number(const char **at, int64_t *value)
{
    char *end;
    errno = 0;
    const long long number = strtoll(*at, &end, 10);
    if (end == *at || errno)
        return false;
    *at = end;
    *value = number;
    return true;
}

/* "INDEX [TYPE:VALUE ...]" */
static bool parse_engine(const char *text, struct sluice_engine *engine)
{
    *engine = (struct sluice_engine){.index = 0};
    if (!take_number(&text, &engine->index))
        return false;
    while (*text == ' ') {
        int64_t type, value;
        text++;
        if (engine->num_knobs == SLUICE_ENGINE_MAX_KNOBS || !take_number(&text, &type) ||
            *text++ != ':' || !take_number(&text, &value) || type < INT32_MIN || type > INT32_MAX)
            return false;
        engine->knobs[engine->num_knobs].type = (int32_t)type;
        engine->knobs[engine->num_knobs++].value = value;
    }
    return *text == '\0';
}

static sluice_status parse_line(struct sluice_engine_cache *cache, char *line, unsigned number,
                                struct sluice_err *err)
{
    struct sluice_engine engine;
    char *equals = strstr(line, " = ");
    if (!equals || equals == line || !parse_engine(equals + 3, &engine))
        return sluice_fail(err, SLUICE_E_CORRUPT, "line %u is no \"KEY = INDEX [TYPE:VALUE ...]\"",
                           number);
    *equals = '\0';
    return sluice_engine_cache_put(cache, line, &engine, err);
}

sluice_status sluice_engine_cache_parse(struct sluice_engine_cache *cache, const char *text,
                                        struct sluice_err *err)
{
    const size_t owner_len = strlen(cache->owner);
    if (strncmp(text, cache->owner, owner_len) != 0 || text[owner_len] != '\n')
        return SLUICE_OK;
    const bool was_changed = cache->is_changed;
    char *copy = strdup(text + owner_len + 1);
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an engine cache");
    sluice_status status = SLUICE_OK;
    char *rest = copy;
    for (unsigned number = 2; !status && rest && *rest; number++) {
        char *line = strsep(&rest, "\n");
        status = parse_line(cache, line, number, err);
    }
    free(copy);
    cache->is_changed = was_changed;
    return status;
}

static void print(FILE *out, const void *ctx)
{
    const struct sluice_engine_cache *cache = ctx;
    fprintf(out, "%s\n", cache->owner);
    for (size_t i = 0; i < cache->count; i++) {
        const struct sluice_engine *engine = &cache->entries[i].engine;
        fprintf(out, "%s = %lld", cache->entries[i].key, (long long)engine->index);
        for (unsigned k = 0; k < engine->num_knobs; k++)
            fprintf(out, " %d:%lld", (int)engine->knobs[k].type, (long long)engine->knobs[k].value);
        fputc('\n', out);
    }
}

sluice_status sluice_engine_cache_print(const struct sluice_engine_cache *cache, char **text,
                                        struct sluice_err *err)
{
    size_t size;
    FILE *out = open_memstream(text, &size);
    if (out)
        print(out, cache);
    if (!out || fclose(out))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an engine cache");
    return SLUICE_OK;
}

sluice_status sluice_engine_cache_read(struct sluice_engine_cache *cache, const char *path,
                                       struct sluice_err *err)
{
    if (access(path, F_OK) && errno == ENOENT)
        return SLUICE_OK;
    struct sluice_buf *buf = NULL;
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &buf, err);
    if (status)
        return status;
    char *text = strndup((const char *)buf->data, buf->len);
    sluice_buf_unref(buf);
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for an engine cache");
    struct sluice_err inner = {{0}};
    status = sluice_engine_cache_parse(cache, text, &inner);
    free(text);
    return status ? sluice_fail(err, status, "%s: %s", path, inner.text) : SLUICE_OK;
}

sluice_status sluice_engine_cache_write(struct sluice_engine_cache *cache, const char *path,
                                        struct sluice_err *err)
{
    const sluice_status status = sluice_file_print_atomic(path, print, cache, err);
    if (!status)
        cache->is_changed = false;
    return status;
}
