#include "compute_client/api/profile_forms.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/show.h"
#include "compute_client/api/profile_phase.h"
#include "host/cgroup.h"
#include "op/form.h"
#include "op/form_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All phases are repeated up to MAX_ROUNDS times until they took ENOUGH_NS, so that a short
 * disturbance of the machines has little effect. */
#define MAX_ROUNDS 4
#define ENOUGH_NS 5000000000u

double loader_profile_compute_cores(const struct sluice_loader *loader)
{
    return fmin((double)loader->options.workers, sluice_cgroup_cores());
}

struct sluice_sample_facts loader_profile_facts(const struct sluice_loader *loader,
                                                uint32_t position)
{
    const uint32_t id = loader->train.ids[position];
    const struct sluice_draw_key key = {
        .seed = loader->options.seed, .epoch = (uint32_t)loader->start.epoch, .sample_id = id};
    struct sluice_manifest_entry entry = sluice_manifest_at(loader->manifest, id);
    const struct sluice_sample_cost *row = &loader->profile.rows[position];
    if (row->width > 0) { /* it was decoded, so its row is better than the manifest */
        entry.bytes = row->bytes[0];
        entry.width = row->width;
        entry.height = row->height;
        entry.coding = row->coding;
    }
    return sluice_sample_facts_of(loader->train.pipeline, &entry, &key);
}

/* --- what is shown of it --- */

/* Phases of a round, over positions[0 .. n), and their items. */
static size_t num_blocks(size_t n)
{
    return n > 0 ? (n - 1) / MAX_PHASE_ITEMS + 1 : 1;
}

static size_t block_start(size_t n, size_t block)
{
    return block * n / num_blocks(n);
}

static uint64_t round_items(const struct measuring *measuring, size_t n)
{
    uint64_t items = 0;
    for (size_t block = 0; block < num_blocks(n); block++) {
        const size_t count = block_start(n, block + 1) - block_start(n, block);
        for (unsigned m = 0; m < measuring->mixes.num; m++)
            items += profile_phase_items(measuring->loader, &measuring->mixes.at[m], count);
    }
    return items;
}

static void name_mix(const struct measuring *measuring, const struct mix *mix, char *out,
                     size_t size)
{
    const struct sluice_choice choice = measuring->choices.at[mix->choices[0]];
    const char *words = sluice_form_words((enum sluice_form)choice.form);
    if (mix->num_choices > 1)
        snprintf(out, size, "%s and %s", words,
                 sluice_form_words((enum sluice_form)measuring->choices.at[mix->choices[1]].form));
    else if (choice.on_gpu)
        snprintf(out, size, "%s on the GPU", words);
    else if (sluice_choice_is_plain(choice) && choice.split > 0 &&
             choice.split < measuring->choices.u8_split)
        snprintf(out, size, "%s after %s", words,
                 sluice_pipeline_op_name(measuring->loader->train.pipeline, choice.split - 1u));
    else
        snprintf(out, size, "%s", words);
}

/* The epoch is the first part, and warming up the second. */
#define PARTS_BEFORE 2

static void show_part(const struct measuring *measuring, size_t part, const char *name,
                      struct sluice_loader_pass shown)
{
    const size_t n = measuring->num_positions;
    const size_t num_parts = PARTS_BEFORE + num_blocks(n) * measuring->mixes.num;
    snprintf(shown.name, sizeof(shown.name), "%spart %zu of %zu",
             measuring->round > 0 ? "again " : "", part, num_parts);
    snprintf(shown.detail, sizeof(shown.detail), "(%s)", name);
    loader_show(measuring->loader, &shown);
}

/* Items from the warm-up on, in as many rounds as are expected. */
static uint64_t all_items(const struct measuring *measuring)
{
    const size_t n = measuring->num_positions;
    return measuring->num_rounds * round_items(measuring, n) +
           profile_phase_items(measuring->loader, &measuring->mixes.at[0], block_start(n, 1));
}

void loader_profile_show(struct sluice_loader *loader, uint64_t num_samples)
{
    struct measuring measuring = {
        .loader = loader,
        .is_remote = loader->servers != NULL,
        .choices = loader_choices_of(loader, &loader->train),
        .num_positions = num_samples,
        .num_rounds = 1,
    };
    profile_find_mixes(&measuring);
    if (num_samples > 0)
        show_part(&measuring, 1, "files, op by op",
                  (struct sluice_loader_pass){.total = num_samples, .more = all_items(&measuring)});
}

static void show_phase(struct measuring *measuring, size_t part, const char *name, size_t num_items)
{
    const uint64_t expected = all_items(measuring);
    measuring->items_shown += num_items;
    struct sluice_loader_pass shown = {.total = num_items, .continues = true};
    if (expected > measuring->items_shown)
        shown.more = expected - measuring->items_shown;
    show_part(measuring, part, name, shown);
}

/* Before the phase of mix m over the samples from measuring->first on. */
static void show_mix(struct measuring *measuring, unsigned m)
{
    const struct mix *mix = &measuring->mixes.at[m];
    size_t block = 0;
    while (block_start(measuring->num_positions, block) < measuring->first)
        block++;
    char name[40];
    name_mix(measuring, mix, name, sizeof(name));
    show_phase(measuring, PARTS_BEFORE + 1 + block * measuring->mixes.num + m, name,
               profile_phase_items(measuring->loader, mix, measuring->count));
}

/* --- the phases --- */

/* Runs a phase of each mix.  Before the first part, one phase warms up memory that was never
 * touched; its measurements are dropped. */
static sluice_status run_part(struct measuring *measuring, struct profile_forms *forms,
                              bool *is_stopped, struct sluice_err *err)
{
    const size_t n = measuring->count;
    sluice_status status = SLUICE_OK;
    if (forms->num_seen == 0) {
        struct sluice_transport_seen unused;
        const struct mix *mix = &measuring->mixes.at[0];
        show_phase(measuring, PARTS_BEFORE, "warming up",
                   profile_phase_items(measuring->loader, mix, n));
        status = profile_run_phase(measuring, mix, profile_phase_items(measuring->loader, mix, n),
                                   &unused, is_stopped, err);
        measuring->seen = NULL; /* it points to what ends here */
        measuring->decode_s = 0;
        memset(measuring->cells, 0, n * sizeof(*measuring->cells));
    }
    for (unsigned m = 0; m < measuring->mixes.num && status == SLUICE_OK && !*is_stopped; m++) {
        const struct mix *mix = &measuring->mixes.at[m];
        struct sluice_transport_seen *seen = &forms->seen[forms->num_seen++];
        show_mix(measuring, m);
        status = profile_run_phase(measuring, mix, profile_phase_items(measuring->loader, mix, n),
                                   seen, is_stopped, err);
        if (status != SLUICE_OK || seen->num_samples == 0)
            continue;
        char shares[2][SLUICE_SHOW_BYTES];
        sluice_log(
            SLUICE_LOG_DEBUG,
            "%s%s: beside the work %.1f us of storage CPU (%s busy) and %.1f of compute CPU (%s) "
            "for a sample",
            sluice_choice_name(measuring->choices.at[mix->choices[0]]),
            mix->num_choices > 1 ? " by turns with others" : "",
            seen->storage_s * 1e6 / (double)seen->num_samples,
            sluice_show_share(seen->storage_share, shares[0]),
            seen->compute_s * 1e6 / (double)seen->num_samples,
            sluice_show_share(seen->compute_share, shares[1]));
    }
    return status;
}

static sluice_status run_parts(struct measuring *measuring, struct profile_forms *forms,
                               bool *is_stopped, struct sluice_err *err)
{
    const size_t n = measuring->num_positions;
    const size_t num_parts = n > 0 ? num_blocks(n) : 0;
    forms->seen = calloc(MAX_ROUNDS * num_parts * measuring->mixes.num + 1, sizeof(*forms->seen));
    if (!forms->seen)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu parts of a profile",
                           num_parts);
    const uint64_t start_ns = sluice_clock_ns();
    sluice_status status = SLUICE_OK;
    for (unsigned round = 0; round < MAX_ROUNDS; round++) {
        for (size_t part = 0; part < num_parts; part++) {
            measuring->round = round;
            measuring->first = block_start(n, part);
            measuring->count = block_start(n, part + 1) - measuring->first;
            status = run_part(measuring, forms, is_stopped, err);
            if (status != SLUICE_OK || *is_stopped)
                return status;
        }
        const uint64_t took_ns = sluice_clock_ns() - start_ns;
        if (took_ns >= ENOUGH_NS)
            break;
        const double rounds = ceil((double)ENOUGH_NS / (double)took_ns * (round + 1));
        measuring->num_rounds = rounds < MAX_ROUNDS ? (unsigned)rounds : MAX_ROUNDS;
    }
    return status;
}

/* A whole file costs the storage node only its reading.  The other choices' cost includes the same
 * reading, so it is subtracted from them (make_rows()) and counted as transport here. */
static void take_reading_out(struct measuring *measuring, struct profile_forms *forms)
{
    double sum_s = 0;
    size_t num_read = 0;
    for (size_t i = 0; i < measuring->num_positions; i++) {
        const struct cell *file = &measuring->cells[i][0];
        if (file->count) {
            sum_s += file->storage_s / file->count;
            num_read++;
        }
    }
    forms->read_s = num_read ? sum_s / (double)num_read : 0;
    for (size_t i = 0; i < forms->num_seen; i++)
        forms->seen[i].storage_s += (double)forms->seen[i].num_jobs * forms->read_s;
}

static void add_up_decoding(const struct measuring *measuring, struct profile_forms *forms)
{
    forms->decode_s = measuring->decode_s;
    for (size_t i = 0; i < forms->num_seen; i++)
        forms->num_decoded += forms->seen[i].num_decoded;
}

static void make_rows(const struct measuring *measuring, struct profile_forms *forms)
{
    for (size_t i = 0; i < measuring->num_positions; i++) {
        const struct cell *file = &measuring->cells[i][0];
        const double read_s = file->count ? file->storage_s / file->count : forms->read_s;
        for (unsigned choice = 0; choice < measuring->choices.num; choice++) {
            const struct cell *cell = &measuring->cells[i][choice];
            if (!cell->count)
                continue;
            forms->rows[forms->num_rows++] = (struct sluice_form_row){
                .index = measuring->positions[i],
                .epoch = (uint32_t)measuring->loader->start.epoch,
                .facts = loader_profile_facts(measuring->loader, measuring->positions[i]),
                .choice = (uint8_t)choice,
                .bytes = cell->bytes,
                .storage_s = measuring->is_remote && measuring->choices.at[choice].form !=
                                                         sluice_form_plain(SLUICE_KIND_FILE)
                                 ? fmax(cell->storage_s / cell->count - read_s, 0)
                                 : NAN,
                .compute_s = cell->compute_s / cell->count,
            };
        }
    }
}

sluice_status loader_profile_forms(struct sluice_loader *loader, struct profile_forms *forms,
                                   bool *is_stopped, struct sluice_err *err)
{
    const size_t n = loader->train.num_ids;
    struct measuring measuring = {
        .loader = loader,
        .is_remote = loader->servers != NULL,
        .choices = loader_choices_of(loader, &loader->train),
        .storage_cores = loader->servers ? loader->info.prep_cores : 1,
        .compute_cores = loader_profile_compute_cores(loader),
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    measuring.num_rounds = 1;
    profile_find_mixes(&measuring);
    measuring.positions = calloc(n + 1, sizeof(*measuring.positions));
    for (uint32_t i = 0; measuring.positions && i < n; i++) {
        if (sluice_cost_table_is_sampled(i, n, loader->options.profile_samples))
            measuring.positions[measuring.num_positions++] = i;
    }
    measuring.items = calloc(MAX_PHASE_ITEMS, sizeof(*measuring.items));
    measuring.cells = calloc(measuring.num_positions + 1, sizeof(*measuring.cells));
    forms->rows = calloc(measuring.num_positions * SLUICE_MAX_CHOICES + 1, sizeof(*forms->rows));
    sluice_status status = SLUICE_OK;
    if (!measuring.positions || !measuring.items || !measuring.cells || !forms->rows)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to measure %zu samples", n);
    if (status == SLUICE_OK)
        status = run_parts(&measuring, forms, is_stopped, err);

    if (status == SLUICE_OK && !*is_stopped) {
        take_reading_out(&measuring, forms);
        add_up_decoding(&measuring, forms);
        make_rows(&measuring, forms);
    }
    free(measuring.positions);
    free(measuring.items);
    free(measuring.cells);
    pthread_mutex_destroy(&measuring.lock);
    return status;
}

void loader_profile_forms_clear(struct profile_forms *forms)
{
    free(forms->rows);
    free(forms->seen);
    *forms = (struct profile_forms){0};
}
