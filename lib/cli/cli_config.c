#include "cli/cli_internal.h"

#include "base/file.h"
#include "base/suggest.h"
#include "cli/cli_set.h"
#include "cli/config_lines.h"

#include <stdlib.h>
#include <string.h>

#define MAX_CONFIG_BYTES (1 << 20)

/* The options borrow their values, as they do argv: the texts stay until the process ends. */
struct config_text {
    struct config_text *next;
    char bytes[];
};
static struct config_text *texts;

static sluice_status read_text(const char *path, char **text, size_t *len, struct sluice_err *err)
{
    struct sluice_buf *buf = NULL;
    const sluice_status status = sluice_file_read(path, MAX_CONFIG_BYTES, NULL, &buf, err);
    if (status != SLUICE_OK)
        return status;
    struct config_text *copy = malloc(sizeof(*copy) + buf->len + 1);
    if (copy) {
        memcpy(copy->bytes, buf->data, buf->len);
        copy->bytes[buf->len] = '\0';
        copy->next = texts;
        texts = copy;
        *text = copy->bytes;
        *len = buf->len;
    }
    sluice_buf_unref(buf);
    return copy ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory", path);
}

struct reading {
    const struct cli_table *table;
    const char **given;
    bool is_on_command_line[SLUICE_CLI_MAX_OPTIONS];
    unsigned lines[SLUICE_CLI_MAX_OPTIONS]; /* where the file has the option; 0: not yet */
};

static sluice_status fail_unknown(const struct cli_table *table, const char *key,
                                  struct sluice_err *err)
{
    const char *word = key + strspn(key, "-");
    const struct sluice_option *flag =
        strncmp(word, "no-", 3) == 0 ? cli_find_long(table, word + 3, strlen(word + 3)) : NULL;
    if (flag && flag->type == SLUICE_OPTION_FLAG && !cli_is_request(table, flag))
        return sluice_fail(err, SLUICE_E_INVALID, "unknown key '%.64s'; write '%s = false'", key,
                           flag->name);
    struct sluice_suggestion suggestion = sluice_suggest_begin(word, strlen(word));
    for (size_t i = 0; i < cli_table_len(table); i++) {
        const struct sluice_option *option = cli_table_at(table, i);
        if (cli_is_request(table, option))
            continue;
        sluice_suggest_try(&suggestion, option->name);
        if (option->alias)
            sluice_suggest_try(&suggestion, option->alias);
    }
    char near[200];
    sluice_suggest_print(&suggestion, "", near, sizeof(near));
    return sluice_fail(err, SLUICE_E_INVALID, "unknown key '%.64s'%s", key, near);
}

static sluice_status apply_line(struct reading *reading, const struct sluice_config_line *line,
                                unsigned number, struct sluice_err *err)
{
    const struct cli_table *table = reading->table;
    const struct sluice_option *option = cli_find_long(table, line->key, strlen(line->key));
    if (!option)
        return fail_unknown(table, line->key, err);
    if (cli_is_request(table, option))
        return sluice_fail(err, SLUICE_E_INVALID, "%s belongs on the command line", option->name);
    /* As --print-config writes what was not given. */
    if (!line->value[0])
        return SLUICE_OK;
    const size_t at = cli_table_index(table, option);
    if (reading->lines[at] && option->type != SLUICE_OPTION_STRINGS)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: line %u has it, too", line->key,
                           reading->lines[at]);
    reading->lines[at] = number;
    if (reading->is_on_command_line[at])
        return SLUICE_OK;
    reading->given[at] = line->value;
    return sluice_cli_set(option, 1, 0, NULL, line->key, line->value, err);
}

sluice_status cli_read_config(const struct cli_table *table, const char *path, const char **given,
                              struct sluice_err *err)
{
    char *text = NULL;
    size_t len = 0;
    sluice_status status = read_text(path, &text, &len, err);
    if (status != SLUICE_OK)
        return status;
    struct reading reading = {.table = table, .given = given};
    for (size_t i = 0; i < cli_table_len(table); i++)
        reading.is_on_command_line[i] = given[i] != NULL;
    struct sluice_config_lines lines = sluice_config_lines_begin(text, len);
    while (status == SLUICE_OK) {
        struct sluice_config_line line;
        struct sluice_err why = {0};
        status = sluice_config_lines_next(&lines, &line, &why);
        if (status == SLUICE_OK && !line.key)
            break;
        if (status == SLUICE_OK)
            status = apply_line(&reading, &line, lines.number, &why);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s:%u: %s", path, lines.number, why.text);
    }
    return status;
}
