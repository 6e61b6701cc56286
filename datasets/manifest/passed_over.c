#include "datasets/manifest/passed_over.h"

#include "base/c_locale.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sluice_has_suffix(const char *name, const char *suffix)
{
    const char *dot = strrchr(name, '.');
    return dot && sluice_strcasecmp(dot, suffix) == 0;
}

/* Names of image formats that are not read. */
static bool is_image_suffix(const char *suffix)
{
    static const char *const known[] = {
        ".dib", ".jp2", ".j2k", ".jxl",  ".heic", ".heif", ".avif", ".pbm",
        ".pnm", ".jpe", ".jif", ".jfif", ".apng", ".tga",  ".ico",  ".dng",
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(suffix, known[i]) == 0)
            return true;
    }
    return false;
}

/* False: the text after the last dot is not a word (too long, a space, a byte beyond ASCII). */
static bool suffix_of(const char *name,
                      char suffix[sizeof(((struct sluice_passed_suffix *)0)->text)])
{
    const size_t room = sizeof(((struct sluice_passed_suffix *)0)->text);
    const char *dot = strrchr(name, '.');
    suffix[0] = '\0';
    if (!dot || !dot[1])
        return true;
    if (strlen(dot) >= room)
        return false;
    for (size_t i = 1; dot[i]; i++) {
        if (!sluice_is_alnum(dot[i]) && dot[i] != '_' && dot[i] != '-')
            return false;
    }
    size_t len = 0;
    for (; dot[len]; len++)
        suffix[len] = sluice_to_lower(dot[len]);
    suffix[len] = '\0';
    return true;
}

bool sluice_passed_over_is_image(const char *path)
{
    const char *slash = strrchr(path, '/');
    char suffix[sizeof(((struct sluice_passed_suffix *)0)->text)];
    return suffix_of(slash ? slash + 1 : path, suffix) && is_image_suffix(suffix);
}

void sluice_passed_over_add_image(struct sluice_passed_over *passed, const char *path)
{
    passed->num_images++;
    for (size_t i = 0; i < SLUICE_PASSED_NAMES; i++) {
        if (passed->images[i][0] && strcmp(passed->images[i], path) <= 0)
            continue;
        memmove(passed->images + i + 1, passed->images + i,
                (SLUICE_PASSED_NAMES - 1 - i) * sizeof(passed->images[0]));
        snprintf(passed->images[i], sizeof(passed->images[i]), "%s", path);
        return;
    }
}

void sluice_passed_over_add(struct sluice_passed_over *passed, const char *path)
{
    const char *slash = strrchr(path, '/');
    char suffix[sizeof(passed->suffixes[0].text)];
    if (!suffix_of(slash ? slash + 1 : path, suffix)) {
        passed->num_rest++;
        return;
    }
    const bool is_image = suffix[0] ? is_image_suffix(suffix) : slash != NULL;
    if (is_image)
        sluice_passed_over_add_image(passed, path);
    size_t i = 0;
    while (i < passed->num_suffixes && (strcmp(passed->suffixes[i].text, suffix) != 0 ||
                                        passed->suffixes[i].is_image != is_image))
        i++;
    if (i == SLUICE_PASSED_SUFFIXES) {
        passed->num_rest++;
        return;
    }
    struct sluice_passed_suffix *found = &passed->suffixes[i];
    if (i == passed->num_suffixes) {
        passed->num_suffixes++;
        memcpy(found->text, suffix, sizeof(suffix));
        found->is_image = is_image;
    }
    found->num_files++;
}

void sluice_passed_over_take_back(struct sluice_passed_over *passed, const char *path)
{
    const char *slash = strrchr(path, '/');
    char suffix[sizeof(passed->suffixes[0].text)];
    const bool has_suffix = suffix_of(slash ? slash + 1 : path, suffix);
    for (size_t i = 0; i < passed->num_suffixes && has_suffix; i++) {
        struct sluice_passed_suffix *found = &passed->suffixes[i];
        if (found->is_image || strcmp(found->text, suffix) != 0)
            continue;
        found->num_files -= found->num_files > 0;
        return;
    }
    passed->num_rest -= passed->num_rest > 0;
}

uint64_t sluice_passed_over_num_unread(const struct sluice_passed_over *passed)
{
    uint64_t num = 0;
    for (size_t i = 0; i < passed->num_suffixes; i++)
        num += passed->suffixes[i].is_image ? passed->suffixes[i].num_files : 0;
    return num;
}

static int compare_suffixes(const void *a, const void *b)
{
    const struct sluice_passed_suffix *x = a, *y = b;
    if (x->is_image != y->is_image)
        return x->is_image ? -1 : 1;
    if (!x->text[0] != !y->text[0])
        return x->text[0] ? -1 : 1;
    if (x->num_files != y->num_files)
        return x->num_files > y->num_files ? -1 : 1;
    return strcmp(x->text, y->text);
}

size_t sluice_passed_over_text(const struct sluice_passed_over *passed, char *out, size_t room)
{
    struct sluice_passed_suffix sorted[SLUICE_PASSED_SUFFIXES];
    memcpy(sorted, passed->suffixes, sizeof(sorted));
    qsort(sorted, passed->num_suffixes, sizeof(sorted[0]), compare_suffixes);
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = 0; i <= passed->num_suffixes && len < room; i++) {
        const bool is_rest = i == passed->num_suffixes;
        const unsigned long long count = is_rest ? passed->num_rest : sorted[i].num_files;
        if (count == 0)
            continue;
        const char *what = is_rest              ? "with other suffixes"
                           : sorted[i].text[0]  ? sorted[i].text
                           : sorted[i].is_image ? "without suffix"
                                                : "at the top without suffix";
        len += (size_t)snprintf(out + len, room - len, "%s%llu %s", len ? ", " : "", count, what);
    }
    return len < room ? len : room - 1;
}
