#include "cli/cli_set.h"

#include "base/suggest.h"
#include "cli/cli_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct sluice_cli_text {
    struct sluice_cli_text *next;
    char text[];
};

void sluice_cli_texts_clear(struct sluice_cli_texts *texts)
{
    while (texts->first) {
        struct sluice_cli_text *text = texts->first;
        texts->first = text->next;
        free(text);
    }
}

ptrdiff_t sluice_cli_offset(const void *table_struct, const void *instance)
{
    return (ptrdiff_t)((uintptr_t)instance - (uintptr_t)table_struct);
}

/* The two structs are different objects: as integers, for C has no such pointers. */
static void *moved(const void *pointer, ptrdiff_t offset)
{
    return (void *)((uintptr_t)pointer + (uintptr_t)offset);
}

static const struct sluice_option *find(const struct sluice_option *options, size_t num_options,
                                        const char *key)
{
    for (size_t i = 0; i < num_options; i++) {
        const char *alias = options[i].alias;
        if (strcmp(options[i].name, key) == 0 || (alias && strcmp(alias, key) == 0))
            return &options[i];
    }
    return NULL;
}

static sluice_status fail_unknown(const struct sluice_option *options, size_t num_options,
                                  const char *key, struct sluice_err *err)
{
    const char *word = key + strspn(key, "-");
    if (strncmp(word, "no-", 3) == 0) {
        const struct sluice_option *flag = find(options, num_options, word + 3);
        if (flag && flag->type == SLUICE_OPTION_FLAG)
            return sluice_fail(err, SLUICE_E_INVALID, "unknown setting '%.64s'; set %s to false",
                               key, flag->name);
    }
    struct sluice_suggestion suggestion = sluice_suggest_begin(word, strlen(word));
    for (size_t i = 0; i < num_options; i++) {
        sluice_suggest_try(&suggestion, options[i].name);
        if (options[i].alias)
            sluice_suggest_try(&suggestion, options[i].alias);
    }
    char near[200];
    sluice_suggest_print(&suggestion, "", near, sizeof(near));
    return sluice_fail(err, SLUICE_E_INVALID, "unknown setting '%.64s'%s", key, near);
}

static sluice_status set_flag(const struct sluice_option *option, const char *value,
                              struct sluice_err *err)
{
    const bool is_on = strcmp(value, "true") == 0;
    if (!is_on && strcmp(value, "false") != 0)
        return sluice_fail(err, SLUICE_E_INVALID, "'%.64s' is none of true, false", value);
    *(bool *)option->value = is_on;
    return SLUICE_OK;
}

static sluice_status set_text(const struct sluice_option *option, struct sluice_cli_texts *texts,
                              const char *value, struct sluice_err *err)
{
    const size_t size = strlen(value) + 1;
    struct sluice_cli_text *copy = malloc(sizeof(*copy) + size);
    if (!copy)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu bytes of text", size);
    memcpy(copy->text, value, size);
    const sluice_status status = cli_set_value(option, copy->text, err);
    if (status != SLUICE_OK) {
        free(copy);
        return status;
    }
    copy->next = texts->first;
    texts->first = copy;
    return SLUICE_OK;
}

sluice_status sluice_cli_set(const struct sluice_option *options, size_t num_options,
                             ptrdiff_t offset, struct sluice_cli_texts *texts, const char *key,
                             const char *value, struct sluice_err *err)
{
    if (!key)
        return sluice_fail(err, SLUICE_E_INVALID, "a setting has no key");
    const struct sluice_option *found = find(options, num_options, key);
    if (!found)
        return fail_unknown(options, num_options, key, err);
    if (!value)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: it has no value", found->name);

    struct sluice_option option = *found;
    option.value = moved(found->value, offset);
    struct sluice_err why = {0};
    sluice_status status;
    if (option.type == SLUICE_OPTION_FLAG)
        status = set_flag(&option, value, &why);
    else if (texts && (option.type == SLUICE_OPTION_STRING || option.type == SLUICE_OPTION_STRINGS))
        status = set_text(&option, texts, value, &why);
    else
        status = cli_set_value(&option, value, &why);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s: %s", key, why.text);
    if (found->is_given)
        *(bool *)moved(found->is_given, offset) = true;
    return SLUICE_OK;
}
