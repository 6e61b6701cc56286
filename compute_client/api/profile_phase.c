#include "compute_client/api/profile_phase.h"

#include "base/clock.h"

#include <assert.h>
#include <math.h>

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
        row->got.form != row->asked.form || row->got.on_gpu != row->asked.on_gpu)
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
    if (sluice_choice_is_preprocessed(row->asked)) {
        measuring->seen->num_jobs++;
        measuring->seen->storage_s -= storage_s;
    }
    pthread_mutex_unlock(&measuring->lock);
}

static void on_decoded(void *ctx, unsigned n, double device_s)
{
    struct measuring *measuring = ctx;
    pthread_mutex_lock(&measuring->lock);
    measuring->seen->num_decoded += n;
    measuring->decode_s += device_s;
    if (measuring->loader->device < 0) /* a CPU stands in for it */
        measuring->seen->compute_s -= device_s;
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
    return loader->servers ? sluice_servers_cpu(loader->servers, cpu_s, err) : SLUICE_OK;
}

sluice_status profile_run_phase(struct measuring *measuring, const struct mix *mix,
                                size_t num_items, struct sluice_transport_seen *seen,
                                bool *is_stopped, struct sluice_err *err)
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
            .draw_epoch = (uint32_t)loader->start.epoch,
        };
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): asserted above */
    const size_t num_repeats = (num_items + count - 1) / count; /* of each sample, at most */
    const struct sluice_epoch epoch = {
        .source = loader->train.source,
        .pipeline = loader->train.pipeline,
        .manifest = loader->manifest,
        .ids = loader->train.ids,
        .sizes = loader->train.sizes,
        .chooser = {.choose = choose, .on_row = on_row, .on_decoded = on_decoded, .ctx = measuring},
        .seed = loader->options.seed,
        .schedule = (uint32_t)loader->start.epoch,
        .items = measuring->items,
        .num_items = num_items,
        .has_max_errors = true,
        .max_errors = sluice_options_max_errors(&loader->options, count) * num_repeats,
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

static void add_mix(struct mixes *mixes, int first, int second, bool is_rare)
{
    mixes->at[mixes->num++] = (struct mix){
        .choices = {(uint8_t)first, (uint8_t)(second < 0 ? first : second)},
        .num_choices = second < 0 ? 1 : 2,
        .is_rare = is_rare,
    };
}

static void add_choice(struct measuring *measuring, unsigned choice)
{
    if (sluice_choice_is_offered(measuring->choices.at[choice], measuring->loader->info.forms))
        add_mix(&measuring->mixes, (int)choice, -1, false);
}

void profile_find_mixes(struct measuring *measuring)
{
    const struct sluice_choices *choices = &measuring->choices;
    struct mixes *mixes = &measuring->mixes;
    const unsigned u8_split = choices->u8_split;
    const int pixels = (int)sluice_choices_find_split(choices, u8_split);
    add_mix(mixes, 0, -1, false);
    if (!measuring->is_remote)
        return;
    add_mix(mixes, pixels, -1, false);
    for (unsigned c = 0; c < choices->num; c++) {
        if (!sluice_choice_is_plain(choices->at[c]))
            add_choice(measuring, c);
    }
    add_mix(mixes, 0, pixels, false); /* as in a plan where both CPUs are bottlenecks */
    for (unsigned split = u8_split; split-- > 1;) {
        const unsigned c = sluice_choices_find_split(choices, split);
        if (choices->at[c].split == split)
            add_mix(mixes, (int)c, -1, !choices->traits[c].needs_box_alone);
    }
    if (choices->num_ops > u8_split) /* floats after to_tensor are as many as after normalize */
        add_mix(mixes, (int)sluice_choices_find_split(choices, choices->num_ops), -1, true);
}

size_t profile_phase_items(const struct sluice_loader *loader, const struct mix *mix, size_t count)
{
    const size_t most = sluice_prefetcher_max_items(loader->prefetcher);
    size_t wanted = most < MAX_PHASE_ITEMS ? most : MAX_PHASE_ITEMS;
    wanted = wanted < MAX_REPEAT * count ? wanted : MAX_REPEAT * count;
    return mix->is_rare || wanted < count ? count : wanted;
}
