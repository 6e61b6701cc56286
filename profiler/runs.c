#include "profiler/runs.h"

#include "base/array.h"
#include "base/log.h"
#include "base/text.h"
#include "plan/mode.h"

#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sluice_run_stall_names[SLUICE_RUN_STALLS] = {
    "disk", "storage_cpu", "network", "compute_cpu", "gpu", "trainer"};
const char *const sluice_run_stall_titles[SLUICE_RUN_STALLS] = {
    "disk", "storage CPU", "network", "compute CPU", "GPU decoder", "trainer"};

/* More lines than these are counted and not named. */
#define MAX_WARNINGS 5

/* No loss and no sum of bytes is beyond this, so that sums and axes stay finite. */
#define MOST 1e18

void sluice_runs_clear(struct sluice_runs *runs)
{
    free(runs->items);
    *runs = (struct sluice_runs){0};
}

static double number_of(json_t *json, const char *name)
{
    const json_t *value = json_object_get(json, name);
    const double number = json_is_number(value) ? json_number_value(value) : NAN;
    return fabs(number) <= MOST ? number : NAN;
}

/* That, if it is no less than 0. */
static double amount_of(json_t *json, const char *name)
{
    const double number = number_of(json, name);
    return number >= 0 ? number : NAN;
}

static void parse_choices(json_t *choices, char *out, size_t room)
{
    const char *key;
    json_t *count;
    size_t len = 0;
    json_object_foreach(choices, key, count)
    {
        char one[64], shown[100];
        snprintf(one, sizeof(one), "%.32s:%lld", key, (long long)json_integer_value(count));
        sluice_escape_line(shown, sizeof(shown), one);
        if (len + strlen(shown) + 2 > room)
            return;
        len += (size_t)snprintf(out + len, room - len, "%s%s", len ? " " : "", shown);
    }
}

/* False: it is no epoch, and *why says what is wrong. */
static bool parse_epoch(json_t *json, struct sluice_run_epoch *epoch, const char **why)
{
    const json_t *mode = json_object_get(json, "mode");
    const double seconds = amount_of(json, "seconds");
    *why = !json_is_object(json)   ? "not an object"
           : !json_is_string(mode) ? "'mode' is missing"
           : isnan(seconds)        ? "'seconds' is missing, or no length of time"
                                   : NULL;
    if (*why)
        return false;
    *epoch = (struct sluice_run_epoch){
        .epoch = amount_of(json, "epoch"),
        .samples = amount_of(json, "samples"),
        .first_sample = amount_of(json, "first_sample"),
        .errors = amount_of(json, "errors"),
        .seconds = seconds,
        .samples_per_s = amount_of(json, "samples_per_s"),
        .wire_bytes = amount_of(json, "wire_bytes"),
        .loss = number_of(json, "loss"),
        .top1 = amount_of(json, "top1"),
        .val_loss = number_of(json, "val_loss"),
        .val_top1 = amount_of(json, "val_top1"),
        .is_evaluation = json_is_true(json_object_get(json, "evaluate")),
    };
    /* It was written as it was typed. */
    sluice_escape_line(epoch->mode, sizeof(epoch->mode),
                       sluice_mode_canonical(json_string_value(mode)));
    const char *digest = json_string_value(json_object_get(json, "digest"));
    sluice_escape_line(epoch->digest, sizeof(epoch->digest), digest ? digest : "");
    parse_choices(json_object_get(json, "choices"), epoch->choices, sizeof(epoch->choices));
    json_t *stalls = json_object_get(json, "stalls");
    for (int i = 0; i < SLUICE_RUN_STALLS; i++) {
        const double share = amount_of(stalls, sluice_run_stall_names[i]);
        epoch->stalls[i] = share > 1 ? 1 : share;
    }
    const double val_seconds = amount_of(json, "val_seconds");
    epoch->to_s = seconds + (isnan(val_seconds) ? 0 : val_seconds);
    return true;
}

static sluice_status add(struct sluice_runs *runs, struct sluice_run_epoch *epoch, bool is_first,
                         struct sluice_err *err)
{
    if (!sluice_array_reserve(&runs->items, &runs->capacity, runs->num_items + 1,
                              sizeof(*runs->items)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu epochs",
                           runs->num_items + 1);
    /* The last epoch of this file that was trained or read, no evaluation. */
    const struct sluice_run_epoch *last = NULL;
    for (size_t i = runs->num_items; !is_first && i-- > 0 && !last;)
        last = runs->items[i].is_evaluation ? NULL : &runs->items[i];
    const bool follows = last && strcmp(last->mode, epoch->mode) == 0 && epoch->epoch > last->epoch;
    if (is_first || (!follows && !epoch->is_evaluation))
        runs->num_runs++;
    epoch->run = runs->num_runs - 1;
    epoch->file = runs->num_files;
    const bool has_before =
        runs->num_items > 0 && runs->items[runs->num_items - 1].run == epoch->run;
    epoch->from_s = has_before ? runs->items[runs->num_items - 1].to_s : 0;
    epoch->to_s += epoch->from_s;
    runs->items[runs->num_items++] = *epoch;
    return SLUICE_OK;
}

/* Says which line is passed over; the first of a file is kept for the error. */
static void pass_over(struct sluice_runs *runs, const char *path, size_t line, const char *why,
                      struct sluice_err *first)
{
    sluice_fail(first, SLUICE_E_CORRUPT, "%s:%zu: %s", path, line, why);
    if (runs->num_passed_over++ < MAX_WARNINGS)
        sluice_log(SLUICE_LOG_WARN, "%s:%zu: passed over: %s", path, line, why);
}

sluice_status sluice_runs_read(const char *path, struct sluice_runs *runs, struct sluice_err *err)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    const size_t num_before = runs->num_items, passed_over_before = runs->num_passed_over;
    struct sluice_err first = {0};
    sluice_status status = SLUICE_OK;
    char *line = NULL;
    size_t capacity = 0;
    for (size_t number = 1; status == SLUICE_OK && getline(&line, &capacity, file) > 0; number++) {
        if (line[strspn(line, " \t\r\n")] == '\0')
            continue;
        json_error_t bad;
        json_t *json = json_loads(line, JSON_DECODE_ANY, &bad);
        struct sluice_run_epoch epoch;
        const char *why = bad.text;
        if (json && parse_epoch(json, &epoch, &why))
            status = add(runs, &epoch, runs->num_items == num_before, err);
        else
            pass_over(runs, path, number, why, &first);
        json_decref(json);
    }
    runs->num_files++;
    const bool is_bad = ferror(file);
    if (status == SLUICE_OK && is_bad)
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    if (status == SLUICE_OK && runs->num_items == num_before)
        status = first.text[0] ? sluice_fail(err, SLUICE_E_CORRUPT, "%s", first.text)
                               : sluice_fail(err, SLUICE_E_CORRUPT, "%s: no epochs in it", path);
    if (status == SLUICE_OK && runs->num_passed_over > passed_over_before + MAX_WARNINGS)
        sluice_log(SLUICE_LOG_WARN, "%s: %zu lines passed over", path,
                   runs->num_passed_over - passed_over_before);
    return status;
}

int sluice_run_largest_stall(const struct sluice_run_epoch *epoch)
{
    int largest = -1;
    for (int i = 0; i < SLUICE_RUN_STALLS; i++) {
        if (epoch->stalls[i] > (largest < 0 ? 0 : epoch->stalls[largest]))
            largest = i;
    }
    return largest;
}

/* Whether both delivered the same samples, as far as is known. */
static bool is_alike(const struct sluice_run_epoch *a, const struct sluice_run_epoch *b)
{
    if (a->is_evaluation || b->is_evaluation)
        return false;
    if (a->digest[0] && b->digest[0])
        return strcmp(a->digest, b->digest) == 0;
    return a->epoch == b->epoch && a->samples == b->samples;
}

double sluice_runs_baseline_bytes(const struct sluice_runs *runs, size_t item)
{
    for (size_t i = 0; i < runs->num_items; i++) {
        if (strcmp(runs->items[i].mode, "remote_nooff") == 0 &&
            is_alike(&runs->items[i], &runs->items[item]))
            return runs->items[i].wire_bytes;
    }
    return NAN;
}

static bool has_twin(const struct sluice_runs *runs, size_t item)
{
    for (size_t i = 0; i < runs->num_items; i++) {
        if (strcmp(runs->items[i].mode, runs->items[item].mode) != 0 &&
            is_alike(&runs->items[i], &runs->items[item]))
            return true;
    }
    return false;
}

bool sluice_runs_is_comparable(const struct sluice_runs *runs, size_t item)
{
    if (runs->items[item].is_evaluation || has_twin(runs, item))
        return !runs->items[item].is_evaluation;
    for (size_t i = 0; i < runs->num_items; i++) {
        if (has_twin(runs, i))
            return false;
    }
    return true;
}

int sluice_runs_digest_is_equal(const struct sluice_runs *runs, size_t item)
{
    const struct sluice_run_epoch *epoch = &runs->items[item];
    int is_equal = -1;
    for (size_t i = 0; epoch->digest[0] && i < runs->num_items; i++) {
        const struct sluice_run_epoch *other = &runs->items[i];
        if (i == item || !other->digest[0] || other->is_evaluation != epoch->is_evaluation ||
            other->epoch != epoch->epoch || other->samples != epoch->samples)
            continue;
        if (strcmp(other->digest, epoch->digest) == 0)
            return 1;
        if (other->file == epoch->file)
            is_equal = 0;
    }
    return is_equal;
}

double sluice_run_add_waits(const struct sluice_run_epoch *epoch, double waits[SLUICE_RUN_STALLS])
{
    if (sluice_run_largest_stall(epoch) < 0)
        return 0;
    for (int r = 0; r < SLUICE_RUN_STALLS; r++)
        waits[r] += isnan(epoch->stalls[r]) ? 0 : epoch->stalls[r] * epoch->seconds;
    return epoch->seconds;
}
