#include "compute_client/run_state.h"

#include "base/log.h"

#include <math.h>

/* Enough that a second of a fast link's start-up does not count; 0.5 s at 500 Mbit/s. */
#define PROBE_BYTES (32u << 20)

static sluice_status plan(struct run *run, struct sluice_err *err)
{
    const struct sluice_options *options = run->options;
    struct sluice_choice_request request = {
        .folder = options->profile_folder,
        .mode = options->mode,
        .forms = run->info.forms & (options->has_any_form ? ~0u : 1u << options->remote_form),
        .rates = {.link_bytes_per_s = options->net_bw,
                  .storage_cores = (double)(options->remote_cpus ? options->remote_cpus
                                                                 : run->info.prep_workers),
                  .compute_cores = (double)options->workers,
                  .gpu_samples_per_s =
                      options->consume_rate > 0 ? options->consume_rate : INFINITY},
        .num_samples = run->train.num_ids,
        .num_total = run->train.num_total,
    };
    double *link_bytes_per_s = &request.rates.link_bytes_per_s;
    if (*link_bytes_per_s <= 0) {
        const sluice_status status =
            sluice_client_probe(run->client, PROBE_BYTES, link_bytes_per_s, err);
        if (status != SLUICE_OK)
            return status;
        sluice_log(SLUICE_LOG_INFO, "the link to %s moves %.0f Mbit/s",
                   sluice_client_target(run->client), *link_bytes_per_s * 8e-6);
    }
    return sluice_choice_plan(&request, run->train.pipeline, run->train.choices, err);
}

/* The val subset has no profile: what is least on the wire, the file or the pixels. */
static struct sluice_choice least_bytes(const struct sluice_pipeline *pipeline, uint64_t file_bytes)
{
    const bool is_file_less = file_bytes <= sluice_pipeline_u8_bytes(pipeline);
    return sluice_choice_at(pipeline, is_file_less ? 0 : sluice_pipeline_u8_split(pipeline));
}

/* Where the plan says the file, the server may have CPU to spare for a smaller one: the
 * cut costs it less than a third of a decode and halves the bytes.  Packed pixels come as asked
 * for: a file gives way to them only where no plan said so. */
static void choose_form(const struct run *run, const struct part *part)
{
    const enum sluice_form form = run->options->remote_form;
    if (!(run->info.forms >> form & 1))
        return;
    const bool is_planned = sluice_mode_is_planned(run->options->mode);
    for (size_t i = 0; i < part->num_ids; i++) {
        struct sluice_choice *choice = &part->choices[i];
        if (form == SLUICE_FORM_JPEG_CROP)
            *choice = sluice_choice_cut(part->pipeline, *choice);
        else if (form == SLUICE_FORM_U8_PACKED && !(is_planned && choice->split == 0))
            *choice = sluice_choice_packed(part->pipeline, *choice);
    }
}

sluice_status run_choose(struct run *run, struct sluice_err *err)
{
    const enum sluice_mode mode = run->options->mode;
    const bool is_planned = sluice_mode_is_planned(mode);
    for (size_t i = 0; i < run->val.num_ids; i++) {
        run->val.choices[i] =
            is_planned
                ? least_bytes(run->val.pipeline, run->manifest->entries[run->val.ids[i]].bytes)
                : sluice_choice_fixed(mode, run->val.pipeline);
    }
    if (is_planned && !run->options->is_evaluate) {
        const sluice_status status = plan(run, err);
        if (status != SLUICE_OK)
            return status;
    } else {
        for (size_t i = 0; i < run->train.num_ids; i++)
            run->train.choices[i] = sluice_choice_fixed(mode, run->train.pipeline);
    }
    if (mode != SLUICE_MODE_AUTO || run->options->is_evaluate) /* whose plan weighs forms */
        choose_form(run, &run->train);
    choose_form(run, &run->val);
    return SLUICE_OK;
}
