#include "compute_client/run_state.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"
#include "profiler/choice_fit.h"
#include "profiler/form_table.h"
#include "profiler/model_file.h"
#include "profiler/table_fill.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A link slower than this is not worth waiting for the whole probe. */
#define PROBE_BYTES (64u << 20)

/* What samples are asked for, by form_menu.h's list.  Floats are left out: their sizes are known
 * and their times follow from the others'. */
static const uint8_t remote_choices[] = {
    0, 1, 2, 3, SLUICE_CHOICE_JPEG_CROP, SLUICE_CHOICE_U8_PACKED};
static const uint8_t local_choices[] = {0};

size_t run_profile_pick(const struct run *run, struct sluice_sampler_item *items, size_t count)
{
    const uint64_t num_samples = run->options->profile_samples;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (sluice_cost_table_is_sampled(items[i].position, run->train.num_ids, num_samples))
            items[kept++] = items[i];
    }
    return kept;
}

/* --- every form of every sample --- */

struct forms_pass {
    const uint8_t *choices;
    size_t num_choices;
    bool is_remote;
    struct sluice_form_row *rows; /* by item; each is written once, by whoever finishes it */
    bool *is_seen;
};

static struct sluice_ask choose(void *ctx, size_t index, const struct sluice_sampler_item *item)
{
    (void)item;
    const struct forms_pass *pass = ctx;
    return (struct sluice_ask){
        .choice = sluice_choice_listed(pass->rows[index].choice),
        .max_unfinished = UINT32_MAX,
    };
}

static void on_row(void *ctx, const struct sluice_row_seen *seen)
{
    struct forms_pass *pass = ctx;
    if (seen->status != SLUICE_OK || seen->got.split != seen->asked.split ||
        seen->got.form != seen->asked.form)
        return;
    struct sluice_form_row *row = &pass->rows[seen->index];
    row->bytes = seen->payload_bytes;
    row->storage_s = pass->is_remote ? (double)seen->storage_cpu_ns * 1e-9 : NAN;
    row->compute_s = (double)seen->compute_cpu_ns * 1e-9;
    pass->is_seen[seen->index] = true;
}

static bool is_offered(const struct run *run, unsigned choice)
{
    if (choice == SLUICE_CHOICE_JPEG_CROP)
        return (run->info.forms >> SLUICE_FORM_JPEG_CROP & 1) &&
               sluice_pipeline_can_crop_jpeg(run->train.pipeline);
    if (choice == SLUICE_CHOICE_U8_PACKED)
        return (run->info.forms >> SLUICE_FORM_U8_PACKED & 1) &&
               sluice_pipeline_u8_split(run->train.pipeline) == sluice_form_menu_split(choice);
    return true;
}

/* The loader's batches, which nobody trains on. */
static sluice_status drain(struct run *run, bool *is_stopped, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    const struct sluice_batch *batch = NULL;
    do {
        struct sluice_err cause = {0};
        status = sluice_loader_next(run->loader, &batch, &cause);
        if (status == SLUICE_E_CLOSED && sluice_quit_requested()) {
            *is_stopped = true;
            status = SLUICE_OK;
            break;
        }
        if (status != SLUICE_OK)
            (void)sluice_fail(err, status, "%s", cause.text);
        else if (batch)
            sluice_loader_release(run->loader);
    } while (status == SLUICE_OK && batch);
    (void)sluice_loader_finish(run->loader);
    return status;
}

static struct sluice_sample_facts facts_of(const struct run *run, uint32_t position,
                                           uint32_t draw_epoch)
{
    const uint32_t id = run->train.ids[position];
    const struct sluice_draw_key key = {
        .seed = run->options->seed, .epoch = draw_epoch, .sample_id = id};
    struct sluice_manifest_entry entry = run->manifest->entries[id];
    const struct sluice_sample_cost *row = &run->profile.rows[position];
    if (row->width > 0) { /* it was decoded, which says more than a list */
        entry.bytes = row->bytes[0];
        entry.width = row->width;
        entry.height = row->height;
        entry.coding = row->coding;
    }
    return sluice_sample_facts_of(run->train.pipeline, &entry, &key);
}

/* Every sample comes once in each round, asked for another choice: so all choices meet the same
 * weather, and no sample finds its file in a cache that it has just filled. */
static void fill_items(const struct run *run, struct forms_pass *pass,
                       struct sluice_sampler_item *items)
{
    const uint32_t draw_epoch = (uint32_t)run->options->start_epoch;
    size_t n = 0;
    for (size_t round = 0; round < pass->num_choices; round++) {
        size_t turn = round;
        for (uint32_t position = 0; position < run->train.num_ids; position++) {
            if (!sluice_cost_table_is_sampled(position, run->train.num_ids,
                                              run->options->profile_samples))
                continue;
            pass->rows[n] = (struct sluice_form_row){
                .index = position,
                .epoch = draw_epoch,
                .facts = facts_of(run, position, draw_epoch),
                .choice = pass->choices[turn++ % pass->num_choices],
            };
            items[n++] =
                (struct sluice_sampler_item){.position = position, .draw_epoch = draw_epoch};
        }
    }
}

static sluice_status measure_forms(struct run *run, struct forms_pass *pass, size_t num_items,
                                   struct sluice_sampler_item *items, bool *is_stopped,
                                   struct sluice_err *err)
{
    fill_items(run, pass, items);
    const struct sluice_epoch epoch = {
        .source = run->train.source,
        .pipeline = run->train.pipeline,
        .manifest = run->manifest,
        .ids = run->train.ids,
        .chooser = {.choose = choose, .on_row = on_row, .ctx = pass},
        .seed = run->options->seed,
        .items = items,
        .num_items = num_items,
    };
    const sluice_status status = sluice_loader_start(run->loader, &epoch, err);
    return status == SLUICE_OK ? drain(run, is_stopped, err) : status;
}

/* Takes reading its file, all that a sample costs the storage node as a file, out of what its other
 * choices cost there: it is counted as transport.  *mean_read_s is what a file takes. */
static sluice_status take_reading_out(const struct run *run, struct forms_pass *pass,
                                      size_t num_items, double *mean_read_s, struct sluice_err *err)
{
    if (!pass->is_remote)
        return SLUICE_OK;
    double *read_s = calloc(run->train.num_ids, sizeof(*read_s));
    if (!read_s)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u files",
                           (unsigned)run->train.num_ids);
    double sum_s = 0;
    size_t num_read = 0;
    for (size_t i = 0; i < num_items; i++) {
        struct sluice_form_row *row = &pass->rows[i];
        if (!pass->is_seen[i] || row->choice != 0)
            continue;
        read_s[row->index] = row->storage_s;
        sum_s += row->storage_s;
        num_read++;
        row->storage_s = NAN;
    }
    const double mean_s = num_read > 0 ? sum_s / (double)num_read : 0;
    for (size_t i = 0; i < num_items; i++) {
        struct sluice_form_row *row = &pass->rows[i];
        if (row->choice != 0)
            row->storage_s =
                fmax(row->storage_s - (read_s[row->index] > 0 ? read_s[row->index] : mean_s), 0);
    }
    free(read_s);
    *mean_read_s = mean_s;
    return SLUICE_OK;
}

/* --- what follows from it --- */

struct pass_seconds {
    double read_s;    /* CPU time of reading a file on the storage node */
    double process_s; /* of this process in the whole pass */
};

static void fit_transport(struct sluice_transport_cost *transport,
                          const struct sluice_form_table *forms, const struct pass_seconds *seconds)
{
    double spent_s = seconds->process_s, expected_s = 0;
    for (size_t i = 0; i < forms->num_rows; i++) {
        const struct sluice_form_row *row = &forms->rows[i];
        double cost[SLUICE_NUM_LOADS] = {[SLUICE_LOAD_NET_DOWN] = (double)row->bytes};
        sluice_transport_cost_add(transport, row->choice, cost);
        spent_s -= row->compute_s;
        expected_s += cost[SLUICE_LOAD_COMPUTE_CPU];
    }
    sluice_transport_cost_fit(transport, seconds->read_s, expected_s, spent_s);
}

static void fit_disk(const struct run *run, struct sluice_choice_model *model)
{
    double seconds = 0, bytes = 0;
    uint64_t num_files = 0;
    for (uint32_t i = 0; i < run->profile.num_rows; i++) {
        if (!sluice_cost_table_is_sampled(i, run->profile.num_rows, run->options->profile_samples))
            continue;
        seconds += run->profile.rows[i].op_s[0];
        bytes += (double)run->profile.rows[i].bytes[0];
        num_files++;
    }
    sluice_choice_model_set_disk(model, seconds, num_files, bytes);
}

static sluice_status write_model(struct run *run, const struct sluice_form_table *forms,
                                 const struct pass_seconds *seconds, struct sluice_err *err)
{
    const struct sluice_options *o = run->options;
    const struct sluice_choice_model preset = sluice_choice_model_default();
    struct sluice_model_file file = {
        .num_samples = o->profile_samples && o->profile_samples < run->train.num_ids
                           ? o->profile_samples
                           : run->train.num_ids,
        .transport = sluice_transport_cost_default(),
        .storage_cores = run->client ? run->info.prep_cores : 0,
        .compute_cores = fmin((double)o->workers, sluice_cgroup_cores()),
    };
    sluice_status status = sluice_choice_model_fit(forms, NULL, &preset, &file.model, err);
    struct sluice_client_probed probed = {0};
    if (status == SLUICE_OK && run->client)
        status = sluice_client_probe(run->client, PROBE_BYTES, &probed, err);
    if (status != SLUICE_OK)
        return status;
    fit_disk(run, &file.model);
    if (run->client) {
        file.link_bytes_per_s = probed.link_bytes_per_s;
        fit_transport(&file.transport, forms, seconds);
        sluice_transport_cost_set_receive(&file.transport, probed.receive_s_per_byte);
    }
    return sluice_model_file_write(o->write_profile_folder, &file, err);
}

/* Rows of samples that were not asked for, by what the others say. */
static sluice_status fill_table(struct run *run, struct sluice_err *err)
{
    const size_t n = run->train.num_ids;
    struct sluice_sample_facts *facts = calloc(n, sizeof(*facts));
    bool *is_measured = calloc(n, sizeof(*is_measured));
    sluice_status status = SLUICE_OK;
    if (!facts || !is_measured)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a profile of %zu samples", n);
    for (uint32_t i = 0; status == SLUICE_OK && i < n; i++) {
        facts[i] = facts_of(run, i, (uint32_t)run->options->start_epoch);
        is_measured[i] = sluice_cost_table_is_sampled(i, n, run->options->profile_samples);
    }
    if (status == SLUICE_OK)
        sluice_cost_table_fill(&run->profile, facts, is_measured);
    free(facts);
    free(is_measured);
    return status;
}

static sluice_status write_forms(struct run *run, const struct forms_pass *pass, size_t num_items,
                                 const struct pass_seconds *seconds, struct sluice_err *err)
{
    struct sluice_form_table forms = {0};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < num_items; i++) {
        if (pass->is_seen[i])
            status = sluice_form_table_add(&forms, &pass->rows[i], err);
    }
    if (status == SLUICE_OK)
        status = sluice_form_table_write(run->options->write_profile_folder, &forms, err);
    if (status == SLUICE_OK && forms.num_rows > 0)
        status = write_model(run, &forms, seconds, err);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "%s: %zu measurements of %zu forms",
                   run->options->write_profile_folder, forms.num_rows, pass->num_choices);
    sluice_form_table_clear(&forms);
    return status;
}

sluice_status run_profile_write(struct run *run, bool *is_stopped, struct sluice_err *err)
{
    uint8_t choices[SLUICE_NUM_CHOICES];
    struct forms_pass pass = {.choices = choices, .is_remote = run->client != NULL};
    const uint8_t *wanted = run->client ? remote_choices : local_choices;
    const size_t num_wanted =
        run->client ? SLUICE_ARRAY_LEN(remote_choices) : SLUICE_ARRAY_LEN(local_choices);
    for (size_t i = 0; i < num_wanted; i++) {
        if (is_offered(run, wanted[i]))
            choices[pass.num_choices++] = wanted[i];
    }
    const uint64_t num_samples = run->options->profile_samples;
    const size_t num_picked =
        num_samples && num_samples < run->train.num_ids ? (size_t)num_samples : run->train.num_ids;
    const size_t num_items = num_picked * pass.num_choices;
    struct sluice_sampler_item *items = calloc(num_items, sizeof(*items));
    pass.rows = calloc(num_items, sizeof(*pass.rows));
    pass.is_seen = calloc(num_items, sizeof(*pass.is_seen));
    sluice_status status = SLUICE_OK;
    if (!items || !pass.rows || !pass.is_seen)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu measurements", num_items);
    const uint64_t start_ns = sluice_process_cpu_ns();
    if (status == SLUICE_OK)
        status = measure_forms(run, &pass, num_items, items, is_stopped, err);
    struct pass_seconds seconds = {
        .process_s = (double)(sluice_process_cpu_ns() - start_ns) * 1e-9,
    };
    if (status == SLUICE_OK && !*is_stopped)
        status = take_reading_out(run, &pass, num_items, &seconds.read_s, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = fill_table(run, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = sluice_cost_table_write(run->options->write_profile_folder, &run->profile, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = write_forms(run, &pass, num_items, &seconds, err);
    free(items);
    free(pass.rows);
    free(pass.is_seen);
    return status;
}
