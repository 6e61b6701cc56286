#include "storage_server/session/token_file.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/c_locale.h"
#include "base/file.h"

#include <jansson.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE_BYTES ((size_t)4 << 20)
#define MAX_TOKENS 10000
#define MAX_ROOTS 64
#define MAX_CORES 65536.0
#define MAX_MBIT_S 1e7
#define MAX_CONNECTIONS 50000

static bool is_name(const char *text)
{
    const size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                    "0123456789._-");
    return len > 0 && len < SLUICE_TOKEN_NAME_BYTES && text[len] == '\0';
}

static sluice_status take_name(const json_t *value, struct sluice_token_entry *entry,
                               struct sluice_err *err)
{
    const char *text = json_string_value(value);
    if (!text || !is_name(text))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "name: 1 to %d letters, digits, '.', '_' and '-' are a name",
                           SLUICE_TOKEN_NAME_BYTES - 1);
    memcpy(entry->name, text, strlen(text) + 1);
    return SLUICE_OK;
}

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static sluice_status take_hash(const json_t *value, struct sluice_token_entry *entry,
                               struct sluice_err *err)
{
    const char *text = json_string_value(value);
    bool is_hash = text && strlen(text) == 2 * (size_t)SLUICE_SHA256_BYTES;
    for (size_t i = 0; is_hash && i < SLUICE_SHA256_BYTES; i++) {
        const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        is_hash = high >= 0 && low >= 0;
        entry->hash[i] = (uint8_t)(high * 16 + low);
    }
    return is_hash ? SLUICE_OK
                   : sluice_fail(err, SLUICE_E_INVALID,
                                 "sha256: the SHA-256 of a token is 64 hex digits "
                                 "('offload_server --hash-token NAME' prints them)");
}

static sluice_status take_roots(const json_t *value, struct sluice_token_entry *entry,
                                struct sluice_err *err)
{
    const size_t count = json_array_size(value);
    if (count == 0 || count > MAX_ROOTS || entry->roots)
        return sluice_fail(err, SLUICE_E_INVALID, "roots: a list of 1 to %d folders", MAX_ROOTS);
    entry->roots = calloc(count, sizeof(*entry->roots));
    if (!entry->roots)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        if (!text || text[0] != '/')
            return sluice_fail(err, SLUICE_E_INVALID, "roots: a folder begins with '/'");
        entry->roots[i] = strdup(text);
        if (!entry->roots[i])
            return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
        entry->num_roots++;
    }
    return SLUICE_OK;
}

static sluice_status take_subsets(const json_t *value, struct sluice_token_entry *entry,
                                  struct sluice_err *err)
{
    const size_t count = json_array_size(value);
    bool is_fine = count > 0;
    entry->may_train = entry->may_val = false;
    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_array_get(value, i));
        const bool is_train = text && strcmp(text, "train") == 0;
        const bool is_val = text && strcmp(text, "val") == 0;
        entry->may_train |= is_train;
        entry->may_val |= is_val;
        is_fine &= is_train || is_val;
    }
    return is_fine ? SLUICE_OK
                   : sluice_fail(err, SLUICE_E_INVALID, "subsets: a list of \"train\" and \"val\"");
}

static sluice_status take_number(const json_t *value, const char *key, double least, double most,
                                 double *number, struct sluice_err *err)
{
    *number = json_is_number(value) ? json_number_value(value) : -1;
    if (*number >= least && *number <= most)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID, "%s: a number from %g to %g", key, least, most);
}

static sluice_status take_field(const char *key, const json_t *value,
                                struct sluice_token_entry *entry, struct sluice_err *err)
{
    double number = 0;
    sluice_status status;
    if (strcmp(key, "name") == 0)
        return take_name(value, entry, err);
    if (strcmp(key, "sha256") == 0)
        return take_hash(value, entry, err);
    if (strcmp(key, "roots") == 0)
        return take_roots(value, entry, err);
    if (strcmp(key, "subsets") == 0)
        return take_subsets(value, entry, err);
    if (strcmp(key, "cores") == 0)
        return take_number(value, key, 0.01, MAX_CORES, &entry->cores, err);
    if (strcmp(key, "mbit_s") == 0) {
        status = take_number(value, key, 0.1, MAX_MBIT_S, &number, err);
        entry->bytes_per_s = number * 1e6 / 8;
        return status;
    }
    if (strcmp(key, "connections") == 0) {
        if (!json_is_integer(value))
            return sluice_fail(err, SLUICE_E_INVALID, "connections: a whole number");
        status = take_number(value, key, 1, MAX_CONNECTIONS, &number, err);
        entry->connections = (unsigned)number;
        return status;
    }
    return sluice_fail(err, SLUICE_E_INVALID,
                       "\"%.40s\" is none of name, sha256, roots, subsets, cores, mbit_s and "
                       "connections, and so would limit nothing",
                       key);
}

static void clear_entry(struct sluice_token_entry *entry)
{
    for (size_t i = 0; i < entry->num_roots; i++)
        free(entry->roots[i]);
    free(entry->roots);
    *entry = (struct sluice_token_entry){.num_roots = 0};
}

static sluice_status parse_line(const char *line, size_t len, struct sluice_token_entry *entry,
                                struct sluice_err *err)
{
    json_error_t where;
    json_t *object = SLUICE_IN_C_LOCALE(json_loadb(line, len, JSON_REJECT_DUPLICATES, &where));
    sluice_status status = SLUICE_OK;
    if (!json_is_object(object))
        status = sluice_fail(err, SLUICE_E_INVALID, "not a JSON object%s%s", object ? "" : ": ",
                             object ? "" : where.text);
    entry->may_train = entry->may_val = true;
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        if (status == SLUICE_OK)
            status = take_field(key, value, entry, err);
    }
    if (status == SLUICE_OK &&
        (!json_object_get(object, "name") || !json_object_get(object, "sha256")))
        status = sluice_fail(err, SLUICE_E_INVALID, "both \"name\" and \"sha256\" are needed");
    json_decref(object);
    return status;
}

static sluice_status check_unique(const struct sluice_token_list *list,
                                  const struct sluice_token_entry *entry, struct sluice_err *err)
{
    for (size_t i = 0; i < list->num_entries; i++) {
        const struct sluice_token_entry *other = &list->entries[i];
        if (strcmp(other->name, entry->name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "a second token of the name %s", entry->name);
        if (memcmp(other->hash, entry->hash, sizeof(entry->hash)) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "%s has the token of %s", entry->name,
                               other->name);
    }
    return SLUICE_OK;
}

static sluice_status add_line(const char *line, size_t len, size_t *capacity,
                              struct sluice_token_list *list, struct sluice_err *err)
{
    if (list->num_entries == MAX_TOKENS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "more than %d tokens", MAX_TOKENS);
    if (!sluice_array_reserve(&list->entries, capacity, list->num_entries + 1,
                              sizeof(*list->entries)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
    struct sluice_token_entry entry = {.num_roots = 0};
    sluice_status status = parse_line(line, len, &entry, err);
    if (status == SLUICE_OK)
        status = check_unique(list, &entry, err);
    if (status == SLUICE_OK)
        list->entries[list->num_entries++] = entry;
    else
        clear_entry(&entry);
    return status;
}

sluice_status sluice_token_list_parse(const char *text, size_t len, struct sluice_token_list *list,
                                      struct sluice_err *err)
{
    struct sluice_token_list made = {.num_entries = 0};
    size_t capacity = 0;
    unsigned number = 0;
    sluice_status status = SLUICE_OK;
    struct sluice_err why = {0};
    for (size_t at = 0; status == SLUICE_OK && at < len; number++) {
        const char *line = text + at;
        const char *newline = memchr(line, '\n', len - at);
        const size_t line_len = newline ? (size_t)(newline - line) : len - at;
        size_t blank = 0;
        at += line_len + 1;
        while (blank < line_len && memchr(" \t\r", line[blank], 3))
            blank++;
        if (blank < line_len && line[blank] != '#')
            status = add_line(line, line_len, &capacity, &made, &why);
    }
    if (status != SLUICE_OK) {
        sluice_token_list_clear(&made);
        return sluice_fail(err, status, "line %u: %s", number, why.text);
    }
    *list = made;
    return SLUICE_OK;
}

sluice_status sluice_token_list_read(const char *path, struct sluice_token_list *list,
                                     struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    sluice_status status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err why = {0};
    status = sluice_token_list_parse((const char *)buf->data, buf->len, list, &why);
    sluice_buf_unref(buf);
    return status == SLUICE_OK ? SLUICE_OK : sluice_fail(err, status, "%s: %s", path, why.text);
}

void sluice_token_list_clear(struct sluice_token_list *list)
{
    for (size_t i = 0; i < list->num_entries; i++)
        clear_entry(&list->entries[i]);
    free(list->entries);
    *list = (struct sluice_token_list){.num_entries = 0};
}

sluice_status sluice_token_print_line(const char *name, struct sluice_err *err)
{
    uint8_t hash[SLUICE_SHA256_BYTES];
    struct sluice_secret *token = NULL;
    if (!is_name(name))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%s' is no name: 1 to %d letters, digits, '.', '_' and '-'", name,
                           SLUICE_TOKEN_NAME_BYTES - 1);
    sluice_status status =
        sluice_secret_read("/dev/stdin", 2 * (size_t)SLUICE_TOKEN_MAX, &token, err);
    if (status == SLUICE_OK)
        status = sluice_secret_trim_token(token, err);
    if (status == SLUICE_OK) {
        sluice_sha256(token->text, token->len, hash);
        printf("{\"name\": \"%s\", \"sha256\": \"", name);
        for (size_t i = 0; i < sizeof(hash); i++)
            printf("%02x", hash[i]);
        printf("\"}\n");
        if (fflush(stdout) != 0)
            status = sluice_fail(err, SLUICE_E_IO, "standard output takes no line");
    }
    sluice_secret_destroy(token);
    return status;
}
