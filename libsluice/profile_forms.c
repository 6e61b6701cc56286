#include "libsluice/profile_forms.h"

#include "base/cgroup.h"
#include "base/clock.h"
#include "base/log.h"

#include "base/show.h"
#include "compute_client/load/choice_words.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most items in a phase, which lies between two readings of the CPU time of both processes.  A
 * phase has as many items as the loader has rows, since memory that is in no cache costs more, as
 * in an epoch; but no more than this, so that all choices are measured under the same conditions.
 * If there are few samples, each is requested at most MAX_REPEAT times. */
#define MAX_PHASE_ITEMS 1024
#define MAX_REPEAT 4

/* All phases are repeated up to MAX_ROUNDS times until they took ENOUGH_NS, so that a short
 * disturbance of the machines has little effect. */
#define MAX_ROUNDS 4
#define ENOUGH_NS 5000000000u

/* The choices of a phase, by turns, as indices in the list of choices. */
struct mix {
    uint8_t choices[2];
    uint8_t num_choices;
    bool is_rare; /* slow and hardly ever in a plan: each sample is measured once */
};

struct mixes {
    struct mix at[SLUICE_MAX_CHOICES + 1];
    unsigned num;
};

double loader_profile_compute_cores(const struct sluice_loader *loader)
{
    return fmin((double)loader->options->workers, sluice_cgroup_cores());
}

struct sluice_sample_facts loader_profile_facts(const struct sluice_loader *loader,
                                                uint32_t position)
{
    const uint32_t id = loader->train.ids[position];
    const struct sluice_draw_key key = {.seed = loader->options->seed,
                                        .epoch = (uint32_t)loader->options->start_epoch,
                                        .sample_id = id};
    struct sluice_manifest_entry entry = loader->manifest->entries[id];
    const struct sluice_sample_cost *row = &loader->profile.rows[position];
    if (row->width > 0) { /* it was decoded, so its row is better than the manifest */
        entry.bytes = row->bytes[0];
        entry.width = row->width;
        entry.height = row->height;
        entry.coding = row->coding;
    }
    return sluice_sample_facts_of(loader->train.pipeline, &entry, &key);
}

/* --- a phase --- */

/* The sums of all measurements of a sample in one choice. */
struct cell {
    double storage_s, compute_s;
    uint64_t bytes;
    unsigned count;
};

struct measuring {
    struct sluice_loader *loader;
    bool is_remote;
    struct sluice_choices choices;
    struct mixes mixes;
    double storage_cores, compute_cores;
    uint32_t *positions; /* of the samples that are measured */
    size_t num_positions;
    struct cell (*cells)[SLUICE_MAX_CHOICES]; /* by index in positions */
    struct sluice_sampler_item *items;        /* of a phase */

    /* The phase that runs: over positions[first .. first + count), as often as it takes. */
    const struct mix *mix;
    size_t first, count;
    struct sluice_transport_seen *seen;
    pthread_mutex_t lock; /* for seen and cells */

    /* For what is shown. */
    unsigned round, num_rounds; /* the one that runs, from 0; as many as are expected by now */
    uint64_t items_shown;       /* of the phases that have begun */
};

static unsigned choice_at(const struct measuring *measuring, size_t item)
{
    const struct mix *mix = measuring->mix;
    return mix->choices[(item + item / measuring->count) % mix->num_choices];
}

static struct sluice_ask choose(void *ctx, size_t index, const struct sluice_sampler_item *item,
                                const struct sluice_expected *under_way)
{
    (void)item;
    (void)under_way;
    const struct measuring *measuring = ctx;
    return (struct sluice_ask){
        .choice = measuring->choices.at[choice_at(measuring, index)],
        .max_away = UINT32_MAX,
        .max_unfinished = UINT32_MAX,
    };
}

static void on_row(void *ctx, const struct sluice_row_seen *row)
{
    struct measuring *measuring = ctx;
    if (row->status != SLUICE_OK || row->got.split != row->asked.split ||
        row->got.form != row->asked.form)
        return;
    const unsigned choice = choice_at(measuring, row->index);
    const double storage_s = (double)row->storage_cpu_ns * 1e-9;
    const double compute_s = (double)row->compute_cpu_ns * 1e-9;
    struct cell *cell = &measuring->cells[measuring->first + row->index % measuring->count][choice];
    pthread_mutex_lock(&measuring->lock);
    cell->storage_s += storage_s;
    cell->compute_s += compute_s;
    cell->bytes = row->payload_bytes;
    cell->count++;
    measuring->seen->num_samples++;
    measuring->seen->bytes += (double)row->payload_bytes;
    measuring->seen->compute_s -= compute_s;
    if (row->asked.form != SLUICE_FORM_RAW) {
        measuring->seen->num_jobs++;
        measuring->seen->storage_s -= storage_s;
    }
    pthread_mutex_unlock(&measuring->lock);
}

/* Takes the loader's batches and releases them, without training. */
static sluice_status drain(struct sluice_loader *loader, bool *is_stopped, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    struct sluice_held *batch = NULL;
    do {
        struct sluice_err cause = {0};
        status = sluice_prefetcher_next(loader->prefetcher, -1, &batch, &cause);
        if (status == SLUICE_E_CLOSED && loader_is_stopped(loader)) {
            *is_stopped = true;
            status = SLUICE_OK;
            break;
        }
        if (status != SLUICE_OK)
            (void)sluice_fail(err, status, "%s", cause.text);
        else if (batch)
            sluice_held_release(batch);
    } while (status == SLUICE_OK && batch);
    (void)sluice_prefetcher_finish(loader->prefetcher);
    return status;
}

static sluice_status server_cpu(struct sluice_loader *loader, double *cpu_s, struct sluice_err *err)
{
    *cpu_s = 0;
    return loader->client ? sluice_client_server_cpu(loader->client, cpu_s, err) : SLUICE_OK;
}

/* Runs a phase.  *seen gets the CPU time of both processes less that of the work on its samples. */
static sluice_status run_phase(struct measuring *measuring, const struct mix *mix, size_t num_items,
                               struct sluice_transport_seen *seen, bool *is_stopped,
                               struct sluice_err *err)
{
    struct sluice_loader *loader = measuring->loader;
    const size_t count = measuring->count;
    assert(count > 0);
    measuring->mix = mix;
    measuring->seen = seen;
    *seen = (struct sluice_transport_seen){0};
    for (size_t i = 0; i < num_items; i++)
        measuring->items[i] = (struct sluice_sampler_item){
            .position = measuring->positions[measuring->first + i % count],
            .draw_epoch = (uint32_t)loader->options->start_epoch,
        };
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): asserted above */
    const size_t num_repeats = (num_items + count - 1) / count; /* of each sample, at most */
    const struct sluice_epoch epoch = {
        .source = loader->train.source,
        .pipeline = loader->train.pipeline,
        .manifest = loader->manifest,
        .ids = loader->train.ids,
        .chooser = {.choose = choose, .on_row = on_row, .ctx = measuring},
        .seed = loader->options->seed,
        .items = measuring->items,
        .num_items = num_items,
        .has_max_errors = true,
        .max_errors = sluice_options_max_errors(loader->options, count) * num_repeats,
    };
    double server_before_s, server_after_s;
    sluice_status status = server_cpu(loader, &server_before_s, err);
    const uint64_t before_ns = sluice_process_cpu_ns(), start_ns = sluice_clock_ns();
    if (status == SLUICE_OK)
        status = sluice_prefetcher_start(loader->prefetcher, &epoch, err);
    if (status == SLUICE_OK)
        status = drain(loader, is_stopped, err);
    const double wall_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
    const double compute_s = (double)(sluice_process_cpu_ns() - before_ns) * 1e-9;
    if (status == SLUICE_OK)
        status = server_cpu(loader, &server_after_s, err);
    if (status != SLUICE_OK)
        return status;
    const double storage_s = server_after_s > 0 ? server_after_s - server_before_s : NAN;
    seen->compute_s += compute_s;
    seen->storage_s += storage_s;
    seen->compute_share = compute_s / (wall_s * measuring->compute_cores);
    seen->storage_share = storage_s / (wall_s * measuring->storage_cores);
    return SLUICE_OK;
}

static bool is_offered(const struct sluice_loader *loader, struct sluice_choice choice)
{
    return sluice_choice_is_plain(choice) || (loader->info.forms >> choice.form & 1);
}

static void add_mix(struct mixes *mixes, int first, int second, bool is_rare)
{
    mixes->at[mixes->num++] = (struct mix){
        .choices = {(uint8_t)first, (uint8_t)(second < 0 ? first : second)},
        .num_choices = second < 0 ? 1 : 2,
        .is_rare = is_rare,
    };
}

static int find_offered(const struct measuring *measuring, unsigned split, enum sluice_form form)
{
    const struct sluice_choice choice = {(uint8_t)split, (uint8_t)form};
    return is_offered(measuring->loader, choice) ? sluice_choices_find(&measuring->choices, choice)
                                                 : -1;
}

/* Lists the phases: whole files first, then the choices that plans use most. */
static void find_mixes(struct measuring *measuring)
{
    const struct sluice_choices *choices = &measuring->choices;
    struct mixes *mixes = &measuring->mixes;
    const unsigned u8_split = choices->u8_split;
    const int packed = find_offered(measuring, u8_split, SLUICE_FORM_U8_PACKED);
    const int pixels = find_offered(measuring, u8_split, SLUICE_FORM_U8);
    const int cut = find_offered(measuring, 0, SLUICE_FORM_JPEG_CROP);
    add_mix(mixes, 0, -1, false);
    if (!measuring->is_remote)
        return;
    if (packed >= 0)
        add_mix(mixes, packed, -1, false);
    add_mix(mixes, pixels, -1, false);
    if (cut >= 0)
        add_mix(mixes, cut, -1, false);
    add_mix(mixes, 0, pixels, false); /* as in a plan where both CPUs are bottlenecks */
    for (unsigned split = u8_split; split-- > 1;) {
        const int c = find_offered(measuring, split, SLUICE_FORM_U8);
        if (c >= 0)
            add_mix(mixes, c, -1, !choices->traits[c].needs_box_alone);
    }
    if (choices->num_ops > u8_split) /* floats after to_tensor are as many as after normalize */
        add_mix(mixes, find_offered(measuring, choices->num_ops, SLUICE_FORM_F32), -1, true);
}

/* Items of a phase over `count` samples. */
static size_t phase_items(const struct sluice_loader *loader, const struct mix *mix, size_t count)
{
    const size_t most = sluice_prefetcher_max_items(loader->prefetcher);
    size_t wanted = most < MAX_PHASE_ITEMS ? most : MAX_PHASE_ITEMS;
    wanted = wanted < MAX_REPEAT * count ? wanted : MAX_REPEAT * count;
    return mix->is_rare || wanted < count ? count : wanted;
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
            items += phase_items(measuring->loader, &measuring->mixes.at[m], count);
    }
    return items;
}

static void name_mix(const struct measuring *measuring, const struct mix *mix, char *out,
                     size_t size)
{
    const struct sluice_choice choice = measuring->choices.at[mix->choices[0]];
    const char *words = sluice_choice_form_words((enum sluice_form)choice.form);
    if (mix->num_choices > 1)
        snprintf(out, size, "%s and %s", words,
                 sluice_choice_form_words(
                     (enum sluice_form)measuring->choices.at[mix->choices[1]].form));
    else if (choice.form == SLUICE_FORM_U8 && choice.split < measuring->choices.u8_split)
        snprintf(out, size, "%s after %s", words,
                 sluice_pipeline_op_name(measuring->loader->train.pipeline, choice.split - 1u));
    else
        snprintf(out, size, "%s", words);
}

/* The epoch is the first part, and warming up the second. */
#define PARTS_BEFORE 2

static void show_part(const struct measuring *measuring, size_t part, const char *name,
                      struct loader_shown shown)
{
    const size_t n = measuring->num_positions;
    const size_t num_parts = PARTS_BEFORE + num_blocks(n) * measuring->mixes.num;
    snprintf(shown.what, sizeof(shown.what), "%spart %zu of %zu",
             measuring->round > 0 ? "again " : "", part, num_parts);
    snprintf(shown.detail, sizeof(shown.detail), "(%s)", name);
    if (measuring->loader->show)
        measuring->loader->show(measuring->loader->show_ctx, &shown);
}

/* Items from the warm-up on, in as many rounds as are expected. */
static uint64_t all_items(const struct measuring *measuring)
{
    const size_t n = measuring->num_positions;
    return measuring->num_rounds * round_items(measuring, n) +
           phase_items(measuring->loader, &measuring->mixes.at[0], block_start(n, 1));
}

void loader_profile_show(struct sluice_loader *loader, uint64_t num_samples)
{
    struct measuring measuring = {
        .loader = loader,
        .is_remote = loader->client != NULL,
        .choices = sluice_choices_of(loader->train.pipeline),
        .num_positions = num_samples,
        .num_rounds = 1,
    };
    find_mixes(&measuring);
    if (num_samples > 0)
        show_part(&measuring, 1, "files, op by op",
                  (struct loader_shown){.total = num_samples, .more = all_items(&measuring)});
}

static void show_phase(struct measuring *measuring, size_t part, const char *name, size_t num_items)
{
    const uint64_t expected = all_items(measuring);
    measuring->items_shown += num_items;
    struct loader_shown shown = {.total = num_items, .continues = true};
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
               phase_items(measuring->loader, mix, measuring->count));
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
        show_phase(measuring, PARTS_BEFORE, "warming up", phase_items(measuring->loader, mix, n));
        status = run_phase(measuring, mix, phase_items(measuring->loader, mix, n), &unused,
                           is_stopped, err);
        measuring->seen = NULL; /* it points to what ends here */
        memset(measuring->cells, 0, n * sizeof(*measuring->cells));
    }
    for (unsigned m = 0; m < measuring->mixes.num && status == SLUICE_OK && !*is_stopped; m++) {
        const struct mix *mix = &measuring->mixes.at[m];
        struct sluice_transport_seen *seen = &forms->seen[forms->num_seen++];
        show_mix(measuring, m);
        status = run_phase(measuring, mix, phase_items(measuring->loader, mix, n), seen, is_stopped,
                           err);
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
                .epoch = (uint32_t)measuring->loader->options->start_epoch,
                .facts = loader_profile_facts(measuring->loader, measuring->positions[i]),
                .choice = (uint8_t)choice,
                .bytes = cell->bytes,
                .storage_s =
                    measuring->is_remote && measuring->choices.at[choice].form != SLUICE_FORM_RAW
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
        .is_remote = loader->client != NULL,
        .choices = sluice_choices_of(loader->train.pipeline),
        .storage_cores = loader->client ? loader->info.prep_cores : 1,
        .compute_cores = loader_profile_compute_cores(loader),
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    measuring.num_rounds = 1;
    loader->live.loss = loader->live.top1 = NAN; /* nothing is learned from here on */
    find_mixes(&measuring);
    measuring.positions = calloc(n + 1, sizeof(*measuring.positions));
    for (uint32_t i = 0; measuring.positions && i < n; i++) {
        if (sluice_cost_table_is_sampled(i, n, loader->options->profile_samples))
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
