#include "compute_client/api/profile_forms.h"

#include "base/log.h"
#include "lib/base/process.h"
#include "plan/choice_fit.h"
#include "plan/form_table.h"
#include "plan/model_file.h"
#include "plan/table_fill.h"

#include <stdlib.h>
#include <string.h>

/* Most bytes of one probe of the link. */
#define PROBE_BYTES (64u << 20)

void loader_profile_pick(struct sluice_loader *loader)
{
    const uint64_t num_samples = loader->options.profile_samples;
    const size_t num_real = loader->num_items - loader->num_padded;
    struct sluice_sampler_item *items = loader->items;
    size_t kept = 0;
    uint32_t num_padded = 0;
    for (size_t i = 0; i < loader->num_items; i++) {
        if (!sluice_cost_table_is_sampled(items[i].position, loader->train.num_ids, num_samples))
            continue;
        items[kept++] = items[i];
        num_padded += i >= num_real;
    }
    loader->num_items = kept;
    loader->num_padded = num_padded;
}

sluice_status loader_profile_begin(struct sluice_loader *loader, struct sluice_err *err)
{
    const sluice_status status = sluice_cost_table_init(&loader->profile, loader->train.pipeline,
                                                        loader->train.num_ids, err);
    if (status == SLUICE_OK)
        loader->profile.num_rows = loader->train.num_ids;
    return status;
}

/* --- the files of a profile --- */

static sluice_status write_model(struct sluice_loader *loader,
                                 const struct sluice_form_table *forms,
                                 const struct profile_forms *measured, struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const struct sluice_choices choices = loader_choices_of(loader, &loader->train);
    const struct sluice_choice_model preset = sluice_choice_model_default(&choices);
    struct sluice_model_file file = {
        .num_samples = o->profile_samples && o->profile_samples < loader->train.num_ids
                           ? o->profile_samples
                           : loader->train.num_ids,
        .transport = sluice_transport_cost_default(),
        .storage_cores = loader->servers ? loader->info.prep_cores : 0,
        .compute_cores = loader_profile_compute_cores(loader),
    };
    sluice_status status = sluice_choice_model_fit(forms, NULL, &preset, &file.model, err);
    struct sluice_client_probed probed = {0};
    if (status == SLUICE_OK && loader->servers)
        status = sluice_servers_probe(loader->servers, PROBE_BYTES, &probed, err);
    if (status != SLUICE_OK)
        return status;
    if (measured->num_decoded > 0)
        sluice_choice_model_set_decode(&file.model, forms,
                                       measured->decode_s / (double)measured->num_decoded);
    sluice_choice_model_set_disk(&file.model, &loader->profile, o->profile_samples);
    if (loader->servers) {
        file.model.has_jpeg_index = loader->info.has_jpeg_index;
        file.link_bytes_per_s = probed.link_bytes_per_s;
        sluice_transport_cost_fit(&file.transport, measured->read_s, measured->seen,
                                  measured->num_seen);
        /* The measurements include the cost of TLS on either node. */
        if (o->has_tls)
            sluice_transport_cost_set_receive_tls(&file.transport, probed.receive_s_per_byte);
        else
            sluice_transport_cost_set_receive(&file.transport, probed.receive_s_per_byte);
    }
    memcpy(file.dataset_id, loader->dataset_id, sizeof(file.dataset_id));
    return sluice_model_file_write(o->write_profile_folder, loader->train.pipeline, &file, err);
}

/* Fills the rows of samples that were not measured, estimated from those that were. */
static sluice_status fill_table(struct sluice_loader *loader, struct sluice_err *err)
{
    const size_t n = loader->train.num_ids;
    struct sluice_sample_facts *facts = calloc(n, sizeof(*facts));
    bool *is_measured = calloc(n, sizeof(*is_measured));
    sluice_status status = SLUICE_OK;
    if (!facts || !is_measured)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a profile of %zu samples", n);
    for (uint32_t i = 0; status == SLUICE_OK && i < n; i++) {
        facts[i] = loader_profile_facts(loader, i);
        is_measured[i] = sluice_cost_table_is_sampled(i, n, loader->options.profile_samples);
    }
    if (status == SLUICE_OK)
        sluice_cost_table_fill(&loader->profile, loader->train.pipeline, facts, is_measured);
    free(facts);
    free(is_measured);
    return status;
}

static sluice_status write_forms(struct sluice_loader *loader, const struct profile_forms *measured,
                                 struct sluice_err *err)
{
    const struct sluice_choices choices = loader_choices_of(loader, &loader->train);
    struct sluice_form_table forms = {0};
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < measured->num_rows; i++)
        status = sluice_form_table_add(&forms, &measured->rows[i], err);
    if (status == SLUICE_OK)
        status =
            sluice_form_table_write(loader->options.write_profile_folder, &choices, &forms, err);
    if (status == SLUICE_OK && forms.num_rows > 0)
        status = write_model(loader, &forms, measured, err);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "%s has the profile: %zu measurements of forms",
                   loader->options.write_profile_folder, forms.num_rows);
    sluice_form_table_clear(&forms);
    return status;
}

static sluice_status write_profile(struct sluice_loader *loader, bool *is_stopped,
                                   struct sluice_err *err)
{
    struct profile_forms forms = {0};
    sluice_status status = loader_profile_forms(loader, &forms, is_stopped, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = fill_table(loader, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = sluice_cost_table_write(loader->options.write_profile_folder,
                                         loader->train.pipeline, &loader->profile, err);
    if (status == SLUICE_OK && !*is_stopped)
        status = write_forms(loader, &forms, err);
    loader_profile_forms_clear(&forms);
    return status;
}

sluice_status sluice_loader_write_profile(struct sluice_loader *loader, struct sluice_err *err)
{
    sluice_status status = sluice_process_check(loader->owner, "loader", err);
    if (status != SLUICE_OK)
        return status;
    if (!loader->options.is_profiling || loader->is_running || loader->start.part != SLUICE_TRAIN ||
        !loader->ended[SLUICE_TRAIN].is_whole)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "a profile is of an epoch of train, with the setting profiling, that "
                           "has just come to its end");
    bool is_stopped = false;
    status = write_profile(loader, &is_stopped, err);
    return status == SLUICE_OK && is_stopped ? sluice_fail(err, SLUICE_E_CLOSED, "stopped")
                                             : status;
}
