#include "compute_client/loader/order/mix.h"

#include "base/array.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WEIGHT 1e6

struct named {
    char name[SLUICE_ROOT_NAME_BYTES];
    double weight;
};

static int compare(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    return sluice_root_compare(x->name, y->name);
}

/* One "NAME=WEIGHT". */
static sluice_status take(const char *item, struct named *named, struct sluice_err *err)
{
    const size_t len = strspn(item, SLUICE_ROOT_NAME_CHARS);
    if (len == 0 || len >= sizeof(named->name) || item[len] != '=')
        return sluice_fail(
            err, SLUICE_E_INVALID,
            "'%.100s' is no NAME=WEIGHT; a name is of at most %zu letters, digits, - "
            "and _",
            item, sizeof(named->name) - 1);
    *named = (struct named){.weight = 0};
    memcpy(named->name, item, len);
    struct sluice_err why = {0};
    if (sluice_parse_double(item + len + 1, &named->weight, &why) != SLUICE_OK)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: %s", named->name, why.text);
    if (named->weight < 0 || named->weight > MAX_WEIGHT)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: a weight is 0 to %g", named->name,
                           MAX_WEIGHT);
    return SLUICE_OK;
}

/* The items between commas, sorted by name. */
static sluice_status take_all(const char *text, struct named items[SLUICE_MAX_ROOTS], size_t *num,
                              struct sluice_err *err)
{
    for (const char *at = text; *at;) {
        const size_t len = strcspn(at, ",");
        char item[SLUICE_ROOT_NAME_BYTES + 64];
        if (*num == SLUICE_MAX_ROOTS)
            return sluice_fail(err, SLUICE_E_INVALID, "more than %d roots", SLUICE_MAX_ROOTS);
        (void)sluice_print(item, sizeof(item), "%.*s", (int)len, at);
        const sluice_status status = take(item, &items[(*num)++], err);
        if (status != SLUICE_OK)
            return status;
        at += len;
        at += at[0] == ',' && at[1] != '\0'; /* one at the end is an empty item */
        if (strcmp(at, ",") == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "nothing follows the last comma");
    }
    qsort(items, *num, sizeof(items[0]), compare);
    for (size_t i = 1; i < *num; i++) {
        if (strcmp(items[i - 1].name, items[i].name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "%s has two weights", items[i].name);
    }
    return SLUICE_OK;
}

sluice_status sluice_mix_parse(const char *text, struct sluice_mix *mix, struct sluice_err *err)
{
    struct named items[SLUICE_MAX_ROOTS];
    size_t num = 0, len = 0;
    struct sluice_mix made = {.num = 0};
    const sluice_status status = take_all(text, items, &num, err);
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < num; i++) {
        if (items[i].weight == 1)
            continue;
        char weight[32];
        sluice_format_double(items[i].weight, weight);
        len += (size_t)snprintf(made.text + len, sizeof(made.text) - len, "%s%s=%s",
                                made.num ? "," : "", items[i].name, weight);
        if (len >= sizeof(made.text))
            return sluice_fail(err, SLUICE_E_INVALID, "more than %zu characters",
                               sizeof(made.text) - 1);
        memcpy(made.of[made.num].name, items[i].name, sizeof(items[i].name));
        made.of[made.num++].weight = items[i].weight;
    }
    *mix = made;
    return SLUICE_OK;
}

sluice_status sluice_mix_check(const char *text, struct sluice_err *err)
{
    struct sluice_mix unused;
    return sluice_mix_parse(text, &unused, err);
}

/* --- ranges --- */

/* The first row whose path does not come before NAME and `end`. */
static size_t find_row(const struct sluice_manifest *manifest, const char *name, char end)
{
    char begin[SLUICE_ROOT_NAME_BYTES + 1];
    snprintf(begin, sizeof(begin), "%s%c", name, end);
    return sluice_manifest_find_first(manifest, begin);
}

/* The first position whose row is not before `row`. */
static size_t find_position(const uint32_t *ids, size_t num_ids, size_t row)
{
    size_t position = 0;
    SLUICE_FIND_FIRST(position, num_ids, i, ids[i] < row);
    return position;
}

static sluice_status fail_name(const struct sluice_manifest *manifest, const char *name,
                               struct sluice_err *err)
{
    char first[64] = "none";
    if (manifest->num_entries > 0)
        (void)sluice_print(first, sizeof(first), "%s", sluice_manifest_at(manifest, 0).path);
    return sluice_fail(err, SLUICE_E_INVALID,
                       "--mix %s: no path of the dataset begins with %s/; the first is %s", name,
                       name, first);
}

sluice_status sluice_mix_ranges(const struct sluice_mix *mix,
                                const struct sluice_manifest *manifest, const uint32_t *ids,
                                size_t num_ids,
                                struct sluice_sampler_range ranges[SLUICE_MAX_MIX_RANGES],
                                size_t *num_ranges, struct sluice_err *err)
{
    size_t num = 0, at = 0;
    for (size_t i = 0; i < mix->num; i++) {
        const char *name = mix->of[i].name;
        /* '0' follows '/'. */
        const size_t row = find_row(manifest, name, '/'), end_row = find_row(manifest, name, '0');
        if (row == end_row)
            return fail_name(manifest, name, err);
        const size_t begin = find_position(ids, num_ids, row);
        const size_t end = find_position(ids, num_ids, end_row);
        if (begin > at)
            ranges[num++] =
                (struct sluice_sampler_range){.num_samples = (uint32_t)(begin - at), .weight = 1};
        ranges[num++] = (struct sluice_sampler_range){
            .num_samples = (uint32_t)(end - begin),
            .weight = mix->of[i].weight,
            .stream = (uint32_t)sluice_hash64(name, strlen(name)),
        };
        at = end;
    }
    if (mix->num > 0 && at < num_ids)
        ranges[num++] =
            (struct sluice_sampler_range){.num_samples = (uint32_t)(num_ids - at), .weight = 1};
    *num_ranges = num;
    return SLUICE_OK;
}
