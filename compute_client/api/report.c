#include "compute_client/api/report.h"

#include "base/c_locale.h"
#include "base/compiler.h"
#include "base/fit.h"
#include "base/noted_alloc.h"
#include "base/show.h"
#include "op/form_words.h"

#include <jansson.h>

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static double per(double amount, double count)
{
    return count > 0 ? amount / count : 0;
}

static double share(const struct sluice_epoch_report *report, int stall)
{
    const double part = per((double)report->stats->stall_ns[stall] * 1e-9, report->seconds);
    return part < 1 ? part : 1;
}

static void set_choice(json_t *choices, unsigned split, int form, const char *where, uint64_t count)
{
    char name[40];
    snprintf(name, sizeof(name), "%s@%u%s", sluice_form_name((enum sluice_form)form), split, where);
    if (count > 0)
        json_object_set_new(choices, name, json_integer((json_int_t)count));
}

static json_t *choices_json(const struct sluice_epoch_stats *stats)
{
    json_t *choices = json_object();
    for (unsigned split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++) {
        for (int form = 0; form < SLUICE_MAX_FORMS; form++) {
            const uint64_t on_gpu = split == 0 ? stats->on_gpu[form] : 0;
            set_choice(choices, split, form, "", stats->choices[split][form] - on_gpu);
            set_choice(choices, split, form, "+gpu", on_gpu);
        }
    }
    return choices;
}

static void set_totals(json_t *object, const char *prefix, const struct sluice_learned *totals)
{
    char name[32];
    const double n = (double)totals->samples;
    snprintf(name, sizeof(name), "%sloss", prefix);
    json_object_set_new(object, name, json_real(per(totals->loss_sum, n)));
    snprintf(name, sizeof(name), "%stop1", prefix);
    json_object_set_new(object, name, json_real(per((double)totals->top1, n)));
    snprintf(name, sizeof(name), "%stop5", prefix);
    json_object_set_new(object, name, json_real(per((double)totals->top5, n)));
}

/* The CPU time that the planning itself uses. */
static json_t *plan_cpu_json(const struct sluice_epoch_report *report)
{
    const struct sluice_plan_stats *plan = report->plan;
    json_t *o = json_object();
    json_object_set_new(o, "first_us", json_real(1e6 * plan->first_s));
    json_object_set_new(o, "looks", json_integer((json_int_t)plan->looks));
    json_object_set_new(o, "solves", json_integer((json_int_t)plan->solves));
    json_object_set_new(o, "look_us", json_real(1e6 * per(plan->looks_s, (double)plan->looks)));
    json_object_set_new(o, "choice_us",
                        json_real(1e6 * per(plan->choices_s, (double)report->stats->samples)));
    json_object_set_new(
        o, "share", json_real(per(plan->first_s + plan->looks_s + plan->choices_s, report->cpu_s)));
    return o;
}

/* The plan's estimates of the capacities at the end; null for a resource that is never the
 * bottleneck. */
static json_t *rates_json(const struct sluice_rates *rates)
{
    const struct {
        const char *name;
        double value;
    } all[] = {
        {"disk_bytes_per_s", rates->disk_bytes_per_s},
        {"storage_cores", rates->storage_cores},
        {"link_bytes_per_s", rates->link_bytes_per_s},
        {"compute_cores", rates->compute_cores},
        {"pcie_bytes_per_s", rates->pcie_bytes_per_s},
        {"trainer_samples_per_s", rates->gpu_samples_per_s},
        {"shared_cores", rates->shared_cores},
    };
    json_t *o = json_object();
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        const bool is_known = all[i].value > 0 && isfinite(all[i].value);
        json_object_set_new(o, all[i].name, is_known ? json_real(all[i].value) : json_null());
    }
    return o;
}

static json_t *lend_json(const struct sluice_lend_counters *lent)
{
    json_t *o = json_object();
    json_object_set_new(o, "requests", json_integer((json_int_t)lent->requests));
    json_object_set_new(o, "lent_ms", json_real((double)lent->lent_ns * 1e-6));
    json_object_set_new(o, "cost_ms", json_real((double)lent->cost_ns * 1e-6));
    json_object_set_new(o, "wait_p50_ms", json_real(sluice_lend_wait_ms(lent, 0.5)));
    json_object_set_new(o, "wait_p99_ms", json_real(sluice_lend_wait_ms(lent, 0.99)));
    json_object_set_new(o, "taken_back", json_integer((json_int_t)lent->taken_back));
    return o;
}

/* The part of the epoch's time, with its evaluation, in which borrowers had the GPU. */
static double lent_share(const struct sluice_epoch_report *report)
{
    return report->lent ? per((double)report->lent->lent_ns * 1e-9,
                              report->seconds + (report->has_val ? report->val_seconds : 0))
                        : 0;
}

/* The text in memory of malloc(), even if jansson has another allocator. */
static char *dump(const json_t *o)
{
    const size_t flags = JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(12);
    const size_t len = SLUICE_IN_C_LOCALE(json_dumpb(o, NULL, 0, flags));
    char *text = len > 0 ? malloc(len + 1) : NULL;
    if (!text)
        return NULL;
    if (SLUICE_IN_C_LOCALE(json_dumpb(o, text, len, flags)) != len) {
        free(text);
        return NULL;
    }
    text[len] = '\0';
    return text;
}

sluice_status sluice_report_json(const struct sluice_epoch_report *report, char **json,
                                 struct sluice_err *err)
{
    const struct sluice_epoch_stats *stats = report->stats;
    sluice_noted_begin();
    json_t *o = json_object();
    json_object_set_new(o, "epoch", json_integer((json_int_t)report->epoch));
    json_object_set_new(
        o, "mode",
        json_string(report->mode_name ? report->mode_name : sluice_mode_name(report->mode)));
    json_object_set_new(o, "samples", json_integer((json_int_t)stats->samples));
    json_object_set_new(o, "seconds", json_real(report->seconds));
    json_object_set_new(o, "samples_per_s",
                        json_real(per((double)stats->samples, report->seconds)));
    json_object_set_new(o, "wire_bytes", json_integer((json_int_t)stats->wire_bytes));
    json_object_set_new(o, "bytes_per_sample",
                        json_real(per((double)stats->wire_bytes, (double)stats->samples)));
    json_object_set_new(o, "choices", choices_json(stats));
    json_t *stalls = json_object();
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS)
        json_object_set_new(stalls, sluice_stall_name((enum sluice_resource)i),
                            json_real(share(report, i)));
    json_object_set_new(o, "stalls", stalls);
    json_object_set_new(o, "bound_by",
                        json_string(sluice_stall_name(sluice_stall_largest(stats->stall_ns))));
    if (report->has_loss) {
        set_totals(o, "", &report->totals);
    } else {
        json_object_set_new(o, "loss", json_null());
        json_object_set_new(o, "top1", json_null());
    }
    json_object_set_new(o, "errors", json_integer((json_int_t)stats->errors));
    json_object_set_new(o, "digest", stats->digest[0] ? json_string(stats->digest) : json_null());

    json_object_set_new(o, "deterministic",
                        report->has_loss ? json_boolean(report->totals.is_deterministic)
                                         : json_null());
    json_object_set_new(o, "lr", json_real(report->totals.lr));
    json_object_set_new(o, "first_sample", json_integer((json_int_t)report->first_sample));
    json_object_set_new(o, "evaluate", json_boolean(report->is_evaluation));
    json_object_set_new(o, "padded", json_integer((json_int_t)stats->padded));
    json_object_set_new(o, "reduced", json_integer((json_int_t)stats->reduced));
    json_object_set_new(o, "retries", json_integer((json_int_t)report->retries));
    json_object_set_new(o, "hash_errors", json_integer((json_int_t)report->hash_errors));
    json_object_set_new(o, "replans",
                        json_integer(report->plan ? (json_int_t)report->plan->replans : 0));
    if (report->plan) {
        json_object_set_new(o, "plan_cpu", plan_cpu_json(report));
        json_object_set_new(o, "rates", rates_json(&report->plan->rates));
    }
    if (report->lent)
        json_object_set_new(o, "lend", lend_json(report->lent));
    json_t *named = json_array();
    for (size_t i = 0; i < stats->num_named; i++) {
        const struct sluice_prefetcher_error *error = &stats->named[i];
        json_t *one = json_object();
        json_object_set_new(one, "sample", json_integer(error->sample_id));
        /* A path that is not UTF-8 becomes null; the id still names the sample. */
        json_t *path = json_string(sluice_manifest_at(report->manifest, error->sample_id).path);
        json_object_set_new(one, "path", path ? path : json_null());
        json_object_set_new(one, "status", json_string(sluice_status_name(error->status)));
        json_t *text = json_string(error->text);
        json_object_set_new(one, "error", text ? text : json_null());
        json_array_append_new(named, one);
    }
    json_object_set_new(o, "error_samples", named);
    if (report->has_val) {
        set_totals(o, "val_", &report->val);
        json_object_set_new(o, "val_samples", json_integer((json_int_t)report->val.samples));
        json_object_set_new(o, "val_seconds", json_real(report->val_seconds));
        json_object_set_new(o, "val_errors", json_integer((json_int_t)report->val_errors));
    }
    char *text = dump(o);
    json_decref(o);
    if (!text || sluice_noted_is_short()) {
        free(text);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the report of epoch %llu",
                           (unsigned long long)report->epoch);
    }
    *json = text;
    return SLUICE_OK;
}

static void SLUICE_PRINTF(3, 4) append(char *text, size_t capacity, const char *fmt, ...)
{
    size_t used = 0;
    while (used < capacity && text[used])
        used++;
    va_list args;
    va_start(args, fmt);
    if (used < capacity)
        sluice_vsnprintf(text + used, capacity - used, fmt, args);
    va_end(args);
}

/* --- the two lines of a summary --- */

/* "3 errors"; "" without errors. */
static void put_count(struct sluice_fit_part *part, uint64_t count, const char *one,
                      const char *many)
{
    if (count > 0)
        sluice_fit_put(part, 0, "%llu %s", (unsigned long long)count, count == 1 ? one : many);
}

enum first_line {
    WHAT,
    MODE,
    SAMPLES,
    PADDED,
    TIME,
    RATE,
    ERRORS,
    BYTES,
    DAMAGED,
    LOST,
    REPLANS,
    LENT,
    LIMIT,
    NUM_1
};

static void first_line(const struct sluice_epoch_report *report, char *out)
{
    static const unsigned importance[NUM_1] = {
        [WHAT] = 100,  [MODE] = 15,   [SAMPLES] = 90, [TIME] = 95, [RATE] = 92,
        [ERRORS] = 96, [BYTES] = 50,  [DAMAGED] = 70, [LOST] = 60, [REPLANS] = 10,
        [LIMIT] = 80,  [PADDED] = 45, [LENT] = 55,
    };
    const struct sluice_epoch_stats *stats = report->stats;
    struct sluice_fit_part part[NUM_1] = {0};
    for (int i = 0; i < NUM_1; i++) {
        part[i].importance = importance[i];
        part[i].before = i == MODE      ? " "
                         : i == SAMPLES ? ": "
                         : i == PADDED  ? " "
                         : i == TIME    ? " in "
                                        : ", ";
    }
    const char *name = report->is_evaluation ? "evaluation at epoch" : "epoch";
    sluice_fit_put(&part[WHAT], 0, "%s %llu", name, (unsigned long long)report->epoch);
    sluice_fit_put(&part[MODE], 0, "%s", sluice_mode_name(report->mode));
    sluice_fit_put(&part[SAMPLES], 0, "%llu samples", (unsigned long long)stats->samples);
    if (stats->padded > 0)
        sluice_fit_put(&part[PADDED], 0, "(%llu padded)", (unsigned long long)stats->padded);
    char text[SLUICE_SHOW_BYTES];
    sluice_fit_put(&part[TIME], 0, "%s", sluice_show_seconds(report->seconds, text));
    sluice_show_number(per((double)stats->samples, report->seconds), text);
    sluice_fit_put(&part[RATE], 0, "%s samples/s", text);
    put_count(&part[ERRORS], stats->errors, "error", "errors");
    if (report->mode != SLUICE_MODE_LOCAL) {
        char rate[SLUICE_SHOW_BYTES];
        sluice_show_bytes((double)stats->wire_bytes, text);
        sluice_show_rate(per((double)stats->wire_bytes, report->seconds), rate);
        sluice_fit_put(&part[BYTES], 0, "%s at %s", text, rate);
        sluice_fit_put(&part[BYTES], 1, "%s", text);
    }
    put_count(&part[DAMAGED], report->hash_errors, "damaged reply", "damaged replies");
    put_count(&part[LOST], report->retries, "reconnect", "reconnects");
    put_count(&part[REPLANS], report->plan ? report->plan->replans : 0, "re-plan", "re-plans");
    if (report->lent)
        sluice_fit_put(&part[LENT], 0, "lent %s", sluice_show_share(lent_share(report), text));
    sluice_fit_put(&part[LIMIT], 0, "limited by %s",
                   sluice_stall_words(sluice_stall_largest(stats->stall_ns)));
    (void)sluice_fit_line(part, NUM_1, SLUICE_REPORT_COLUMNS, out, SLUICE_REPORT_COLUMNS + 1);
}

static void put_choices(const struct sluice_epoch_stats *stats, char *out, size_t size)
{
    uint64_t forms[SLUICE_MAX_FORMS] = {0}, total = 0, on_gpu = 0;
    for (int f = 0; f < SLUICE_MAX_FORMS; f++) {
        for (unsigned split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++)
            forms[f] += stats->choices[split][f];
        total += forms[f];
        on_gpu += stats->on_gpu[f];
    }
    sluice_form_shares(forms, SLUICE_FORMS_SHORT, out, size);
    sluice_form_add_gpu(on_gpu, total, out, size);
}

enum second_line { INDENT, LOSS, VAL, CHOICES, DIGEST, NUM_2 };

static void second_line(const struct sluice_epoch_report *report, char *out)
{
    static const unsigned importance[NUM_2] = {
        [INDENT] = 100, [LOSS] = 90, [VAL] = 95, [CHOICES] = 40, [DIGEST] = 99,
    };
    const struct sluice_epoch_stats *stats = report->stats;
    struct sluice_fit_part part[NUM_2] = {0};
    for (int i = 0; i < NUM_2; i++) {
        part[i].importance = importance[i];
        part[i].before = "  ";
    }
    sluice_fit_put(&part[INDENT], 0, " "); /* and the two before the next part */
    if (report->has_loss) {
        const double n = (double)report->totals.samples;
        const double loss = per(report->totals.loss_sum, n);
        const double top1 = 100 * per((double)report->totals.top1, n);
        sluice_fit_put(&part[LOSS], 0, "loss %.4f, top1 %.2f%%", loss, top1);
        sluice_fit_put(&part[LOSS], 1, "loss %.3f", loss);
    }
    if (report->has_val) {
        const double n = (double)report->val.samples;
        const double loss = per(report->val.loss_sum, n);
        const double top1 = 100 * per((double)report->val.top1, n);
        sluice_fit_put(&part[VAL], 0, "val loss %.4f, top1 %.2f%%", loss, top1);
        sluice_fit_put(&part[VAL], 1, "val %.3f, top1 %.1f%%", loss, top1);
    }
    put_choices(stats, part[CHOICES].form[0], sizeof(part[CHOICES].form[0]));
    if (stats->digest[0])
        sluice_fit_put(&part[DIGEST], 0, "digest %s", stats->digest);
    (void)sluice_fit_line(part, NUM_2, SLUICE_REPORT_COLUMNS, out, SLUICE_REPORT_COLUMNS + 1);
}

struct sluice_report_summary sluice_report_summary(const struct sluice_epoch_report *report)
{
    struct sluice_report_summary summary;
    first_line(report, summary.line[0]);
    second_line(report, summary.line[1]);
    return summary;
}

void sluice_report_text(const struct sluice_epoch_report *report, char *text, size_t capacity)
{
    const struct sluice_epoch_stats *stats = report->stats;
    text[0] = '\0';
    append(text, capacity,
           "%s %llu %s: %llu samples in %.2f s, %.1f samples/s, %.2f MB, %.0f "
           "B/sample",
           report->is_evaluation ? "evaluation at epoch" : "epoch",
           (unsigned long long)report->epoch, sluice_mode_name(report->mode),
           (unsigned long long)stats->samples, report->seconds,
           per((double)stats->samples, report->seconds), (double)stats->wire_bytes * 1e-6,
           per((double)stats->wire_bytes, (double)stats->samples));
    for (unsigned split = 0; split <= SLUICE_PIPELINE_MAX_OPS; split++) {
        for (int form = 0; form < SLUICE_MAX_FORMS; form++) {
            const uint64_t on_gpu = split == 0 ? stats->on_gpu[form] : 0;
            const char *name = sluice_form_name((enum sluice_form)form);
            const unsigned long long on_cpu = stats->choices[split][form] - on_gpu;
            if (on_cpu)
                append(text, capacity, ", %s@%u %llu", name, split, on_cpu);
            if (on_gpu)
                append(text, capacity, ", %s@0+gpu %llu", name, (unsigned long long)on_gpu);
        }
    }
    append(text, capacity, ", bound by %s, stalls",
           sluice_stall_name(sluice_stall_largest(stats->stall_ns)));
    SLUICE_EACH_RESOURCE (i, SLUICE_STALLS) {
        if (i == SLUICE_STALL_GPU && stats->stall_ns[i] == 0)
            continue;
        append(text, capacity, " %s %.0f%%", sluice_stall_name((enum sluice_resource)i),
               100 * share(report, i));
    }
    if (report->plan && report->plan->replans)
        append(text, capacity, ", re-plans %llu", (unsigned long long)report->plan->replans);
    if (report->lent)
        append(text, capacity, ", lent %.1f%% in %llu requests, taken back %llu",
               100 * lent_share(report), (unsigned long long)report->lent->requests,
               (unsigned long long)report->lent->taken_back);
    if (stats->padded)
        append(text, capacity, ", padded %llu", (unsigned long long)stats->padded);
    if (stats->errors)
        append(text, capacity, ", errors %llu", (unsigned long long)stats->errors);
    if (report->hash_errors)
        append(text, capacity, ", damaged replies %llu", (unsigned long long)report->hash_errors);
    if (report->has_loss)
        append(text, capacity, ", loss %.4f, top1 %.2f%%",
               per(report->totals.loss_sum, (double)report->totals.samples),
               100 * per((double)report->totals.top1, (double)report->totals.samples));
    if (report->has_val)
        append(text, capacity, ", val loss %.4f, val top1 %.2f%%",
               per(report->val.loss_sum, (double)report->val.samples),
               100 * per((double)report->val.top1, (double)report->val.samples));
    if (stats->digest[0])
        append(text, capacity, ", digest %s", stats->digest);
}
