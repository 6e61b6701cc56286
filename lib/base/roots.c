#include "base/roots.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The length of the name that `text` begins with, before a '='; 0: no name. */
static size_t name_len(const char *text)
{
    const size_t len = strspn(text, SLUICE_ROOT_NAME_CHARS);
    return text[len] == '=' ? len : 0;
}

const char *sluice_root_rest(const char *name, const char *path)
{
    const size_t len = strlen(name);
    if (len == 0)
        return path;
    return strncmp(path, name, len) == 0 && path[len] == '/' ? path + len + 1 : NULL;
}

int sluice_root_compare(const char *name_a, const char *name_b)
{
    char a[SLUICE_ROOT_NAME_BYTES + 1], b[SLUICE_ROOT_NAME_BYTES + 1];
    snprintf(a, sizeof(a), "%s%s", name_a, name_a[0] ? "/" : "");
    snprintf(b, sizeof(b), "%s%s", name_b, name_b[0] ? "/" : "");
    return strcmp(a, b);
}

static int compare(const void *a, const void *b)
{
    const struct sluice_root *x = a, *y = b;
    return sluice_root_compare(x->name, y->name);
}

static sluice_status take(const char *text, bool must_have_name, struct sluice_root *root,
                          struct sluice_err *err)
{
    const size_t len = name_len(text);
    *root = (struct sluice_root){.place = text};
    if (len == 0 && must_have_name)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "'%.200s': of several roots each has a name, NAME=DIR or NAME=URL; "
                           "a name is of letters, digits, - and _",
                           text);
    if (len >= sizeof(root->name))
        return sluice_fail(err, SLUICE_E_INVALID, "'%.200s': a name has at most %zu characters",
                           text, sizeof(root->name) - 1);
    if (len == 0)
        return SLUICE_OK;
    memcpy(root->name, text, len);
    root->place = text + len + 1;
    if (!root->place[0])
        return sluice_fail(err, SLUICE_E_INVALID, "'%s': nothing follows the '='", text);
    return SLUICE_OK;
}

sluice_status sluice_roots_parse(const char *const *texts, size_t num_texts,
                                 struct sluice_roots *roots, struct sluice_err *err)
{
    struct sluice_roots parsed = {.num = num_texts};
    if (num_texts == 0 || num_texts > SLUICE_MAX_ROOTS)
        return sluice_fail(err, SLUICE_E_INVALID, "%zu roots; there are 1 to %d", num_texts,
                           SLUICE_MAX_ROOTS);
    for (size_t i = 0; i < num_texts; i++) {
        const sluice_status status = take(texts[i], num_texts > 1, &parsed.at[i], err);
        if (status != SLUICE_OK)
            return status;
    }
    qsort(parsed.at, parsed.num, sizeof(parsed.at[0]), compare);
    for (size_t i = 1; i < parsed.num; i++) {
        if (strcmp(parsed.at[i - 1].name, parsed.at[i].name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "two roots are called %s", parsed.at[i].name);
    }
    *roots = parsed;
    return SLUICE_OK;
}

struct sluice_roots sluice_roots_one(const char *place)
{
    return (struct sluice_roots){.num = 1, .at = {{.place = place}}};
}

const struct sluice_root *sluice_roots_find(const struct sluice_roots *roots, const char *path,
                                            const char **rest)
{
    assert(path);
    for (size_t i = 0; i < roots->num; i++) {
        const char *in_root = sluice_root_rest(roots->at[i].name, path);
        if (in_root) {
            *rest = in_root;
            return &roots->at[i];
        }
    }
    return NULL;
}

void sluice_roots_format(const struct sluice_roots *roots, char text[SLUICE_ROOTS_TEXT])
{
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < roots->num && len < SLUICE_ROOTS_TEXT; i++) {
        const struct sluice_root *root = &roots->at[i];
        len += (size_t)snprintf(text + len, SLUICE_ROOTS_TEXT - len, "%s%s%s%s", i ? " " : "",
                                root->name, root->name[0] ? "=" : "", root->place);
    }
    if (len >= SLUICE_ROOTS_TEXT)
        memcpy(text + SLUICE_ROOTS_TEXT - 4, "...", 4);
}
