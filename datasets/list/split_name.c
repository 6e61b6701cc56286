#include "datasets/list/split_name.h"

#include "base/compiler.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <string.h>

static const struct {
    const char *word;
    int split;
} words[] = {
    {"train", SLUICE_SUBSET_TRAIN}, {"training", SLUICE_SUBSET_TRAIN}, {"val", SLUICE_SUBSET_VAL},
    {"valid", SLUICE_SUBSET_VAL},   {"validation", SLUICE_SUBSET_VAL}, {"dev", SLUICE_SUBSET_VAL},
    {"test", SLUICE_SPLIT_TEST},    {"testing", SLUICE_SPLIT_TEST},
};

/* Compares with lower-case letters in any locale, unlike strncasecmp(). */
static bool is_word(const char *word, const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((name[i] | 0x20) != word[i])
            return false;
    }
    return !word[len];
}

int sluice_split_of_name(const char *name, size_t len)
{
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(words); i++) {
        if (is_word(words[i].word, name, len))
            return words[i].split;
    }
    return -1;
}

int sluice_split_of_path(const char *path, const char **rest)
{
    const char *slash = strchr(path, '/');
    const int split = slash ? sluice_split_of_name(path, (size_t)(slash - path)) : -1;
    if (split >= 0 && rest)
        *rest = slash + 1;
    return split;
}
