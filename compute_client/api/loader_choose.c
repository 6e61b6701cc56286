#include "compute_client/api/loader_state.h"

#include "base/log.h"
#include "compute_client/loader/tuning.h"
#include "host/cgroup.h"
#include "op/form.h"
#include "op/form_words.h"
#include "plan/cost_folder.h"
#include "plan/model_file.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Most bytes of one probe of the link; a slow link is measured with fewer. */
#define MAX_PROBE_BYTES (32u << 20)

/* The link's rate that a plan starts with if it cannot be measured: samples will show the rate. */
#define USUAL_LINK_BYTES_PER_S 125e6

/* The link's rate in the profile; 0: not measured. */
static double profiled_link(const struct sluice_loader *loader)
{
    const struct sluice_choices choices = sluice_choices_of(loader->train.pipeline);
    struct sluice_model_file file;
    const char *folder = loader->options.profile_folder;
    return folder && sluice_model_file_read(folder, &choices, &file, NULL) == SLUICE_OK
               ? file.link_bytes_per_s
               : 0;
}

/* The trainer's rate, if the settings have one. */
static double trainer_rate(const struct sluice_options *options)
{
    if (options->gpu_rate > 0)
        return options->gpu_rate;
    return options->consume_rate > 0 ? options->consume_rate : INFINITY;
}

/* Those of a folder: no server and no link. */
static struct sluice_rates local_rates(const struct sluice_options *options)
{
    return (struct sluice_rates){
        .link_bytes_per_s = INFINITY,
        .storage_cores = INFINITY,
        .compute_cores = fmin((double)options->workers, sluice_cgroup_cores()),
        .gpu_samples_per_s = trainer_rate(options),
        .pcie_bytes_per_s = options->pcie_bw,
    };
}

/* The capacities that the plan begins with, before any sample has arrived. */
static sluice_status first_rates(struct sluice_loader *loader, struct sluice_rates *rates,
                                 struct sluice_transport_cost *transport, struct sluice_err *err)
{
    const struct sluice_options *options = &loader->options;
    const double storage =
        options->remote_cpus ? (double)options->remote_cpus : loader->info.prep_cores;
    const double cores = sluice_cgroup_cores();
    if ((double)options->workers > ceil(cores)) {
        char why[128];
        sluice_cgroup_why_cores("", 0, why, sizeof(why));
        sluice_log(SLUICE_LOG_WARN,
                   "-j %llu: the workers share %.3g cores, because %s; the plan counts on these",
                   (unsigned long long)options->workers, cores, why);
    }
    *rates = (struct sluice_rates){
        .link_bytes_per_s = options->net_bw,
        .storage_cores = storage > 0 ? storage : 1,
        .compute_cores = fmin((double)options->workers, cores),
        .gpu_samples_per_s = trainer_rate(options),
        .pcie_bytes_per_s = options->pcie_bw,
    };
    struct sluice_machine here;
    sluice_machine_here("", &here);
    rates->shared_cores = sluice_machine_shared_cores(&here, &loader->info.machine);
    if (rates->shared_cores > 0)
        sluice_log(SLUICE_LOG_INFO,
                   "the server is on this machine, too: the plan counts on %.3g cores for both",
                   rates->shared_cores);
    if (rates->link_bytes_per_s > 0)
        return SLUICE_OK;
    struct sluice_client_probed probed;
    struct sluice_err cause = {0};
    const sluice_status status =
        sluice_servers_probe(loader->servers, MAX_PROBE_BYTES, &probed, &cause);
    if (status == SLUICE_E_CLOSED)
        return sluice_fail(err, status, "%s", cause.text);
    if (status != SLUICE_OK) {
        const double known = profiled_link(loader);
        rates->link_bytes_per_s = known > 0 ? known : USUAL_LINK_BYTES_PER_S;
        sluice_log(SLUICE_LOG_WARN, "%s; the plan begins with %s, %.0f Mbit/s (--net-bw)",
                   cause.text, known > 0 ? "the link of its profile" : "a usual link",
                   rates->link_bytes_per_s * 8e-6);
        return SLUICE_OK;
    }
    rates->link_bytes_per_s = probed.link_bytes_per_s;
    if (options->has_tls) {
        sluice_transport_cost_set_receive_tls(transport, probed.receive_s_per_byte);
        sluice_transport_cost_add_tls(transport, probed.receive_s_per_byte);
    } else {
        sluice_transport_cost_set_receive(transport, probed.receive_s_per_byte);
    }
    sluice_log(SLUICE_LOG_INFO, "the link to %s moves %.0f Mbit/s",
               sluice_servers_target(loader->servers), rates->link_bytes_per_s * 8e-6);
    if (rates->shared_cores > 0 && rates->link_bytes_per_s > TUNING_LOOPBACK_BYTES_PER_S)
        rates->link_bytes_per_s = INFINITY;
    return SLUICE_OK;
}

static struct sluice_cost_folder_use use_of_profile(const struct sluice_loader *loader)
{
    return (struct sluice_cost_folder_use){
        .pipeline = loader->train.pipeline,
        .manifest = loader->manifest,
        .ids = loader->train.ids,
        .num_used = loader->train.num_ids,
        .num_total = loader->train.num_total,
    };
}

static void tell_plan(const struct part *part)
{
    uint64_t forms[SLUICE_MAX_FORMS] = {0};
    char text[160];
    for (size_t i = 0; i < part->num_ids; i++)
        forms[part->choices[i].form]++;
    sluice_form_shares(forms, SLUICE_FORMS_LONG, text, sizeof(text));
    sluice_log(SLUICE_LOG_INFO, "plan: %s, by SOPHON's rule", text);
}

/* Plans by SOPHON's greedy rule, once for all epochs. */
static sluice_status plan_greedily(struct sluice_loader *loader, struct sluice_err *err)
{
    struct sluice_choice_request request = {
        .folder = loader->options.profile_folder,
        .use = use_of_profile(loader),
    };
    struct sluice_transport_cost transport = {0}; /* not used by SOPHON's rule */
    sluice_status status = first_rates(loader, &request.rates, &transport, err);
    request.rates.compute_cores = (double)loader->options.workers;
    if (status == SLUICE_OK)
        status = sluice_choice_plan(&request, loader->train.choices, err);
    if (status == SLUICE_OK)
        tell_plan(&loader->train);
    return status;
}

/* The factor for the model's CPU times with which whole files take as long as the table says.  1 if
 * the table is of another implementation's ops, whose outputs have another size. */
static double speed_of(const struct sluice_loader *loader, const struct sluice_cost_table *table,
                       const struct sluice_choice_model *model)
{
    const struct part *train = &loader->train;
    const unsigned last = sluice_pipeline_u8_split(train->pipeline);
    double measured_s = 0, expected_s = 0;
    for (size_t i = 0; i < train->num_ids && i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        if (row->bytes[last] != sluice_pipeline_u8_bytes(train->pipeline))
            continue;
        const struct sluice_draw_key key = {
            .seed = loader->options.seed,
            .sample_id = train->ids[i],
        };
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(loader->manifest, train->ids[i]);
        const struct sluice_sample_facts facts =
            sluice_sample_facts_of(train->pipeline, &entry, &key);
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        sluice_choice_model_costs(model, &facts, cost);
        expected_s += cost[0][SLUICE_COMPUTE_CPU];
        for (unsigned op = 1; op <= last; op++)
            measured_s += row->op_s[op];
    }
    return measured_s > 0 && expected_s > 0 ? measured_s / expected_s : 1;
}

static void scale_cpu(struct sluice_choice_model *model, double factor)
{
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        for (unsigned c = 0; c < model->choices.num; c++) {
            for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++) {
                model->weights[file_class][c][SLUICE_STORAGE_CPU].per[f] *= factor;
                model->weights[file_class][c][SLUICE_COMPUTE_CPU].per[f] *= factor;
            }
        }
    }
}

/* Bytes of the training subset's files that the disk read per second in the profile. */
static double disk_rate(const struct sluice_loader *loader, const struct sluice_choice_model *model)
{
    double bytes = 0;
    for (size_t i = 0; i < loader->train.num_ids; i++)
        bytes += (double)sluice_manifest_at(loader->manifest, loader->train.ids[i]).bytes;
    const double seconds =
        model->disk_s_per_sample * (double)loader->train.num_ids + model->disk_s_per_byte * bytes;
    return seconds > 0 ? bytes / seconds : INFINITY;
}

/* Reads the cost model's weights from the profile.  If the profile has none, scales the default
 * weights to the CPU times of its table.  Fails if the profile is of other data. */
static sluice_status read_model(const struct sluice_loader *loader,
                                struct sluice_choice_model *model,
                                struct sluice_transport_cost *transport, double *disk_bytes_per_s,
                                struct sluice_err *err)
{
    const char *folder = loader->options.profile_folder;
    struct sluice_cost_table table = {0};
    struct sluice_model_file file;
    struct sluice_err cause = {0};
    const struct sluice_cost_folder_use use = use_of_profile(loader);
    sluice_status status = sluice_cost_folder_read(folder, &use, &table, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_model_file_read(folder, &model->choices, &file, &cause);
    if (status == SLUICE_OK) {
        *model = file.model;
        *transport = file.transport;
        *disk_bytes_per_s = disk_rate(loader, &file.model);
    } else if (status == SLUICE_E_NOT_FOUND) {
        const double factor = speed_of(loader, &table, model);
        scale_cpu(model, factor);
        sluice_log(SLUICE_LOG_INFO, "%s: the plan begins with the usual costs, CPU times x%.2f",
                   cause.text, factor);
        status = SLUICE_OK;
    } else {
        (void)sluice_fail(err, status, "%s", cause.text);
    }
    sluice_cost_table_clear(&table);
    return status;
}

/* The rate of PCIe, unless it was given: as measured when the GPU that makes the batches was
 * opened, else by the allocator of batch memory. */
static void take_upload(const struct sluice_loader *loader, struct sluice_rates *rates)
{
    if (rates->pcie_bytes_per_s > 0)
        return;
    const double measured =
        loader->device >= 0 ? loader->place_upload_bytes_per_s : loader->memory.upload_bytes_per_s;
    rates->pcie_bytes_per_s = measured > 0 ? measured : INFINITY;
    if (rates->pcie_bytes_per_s < INFINITY)
        sluice_log(SLUICE_LOG_INFO, "PCIe takes %.1f GB/s to the device",
                   rates->pcie_bytes_per_s * 1e-9);
}

struct sluice_choices loader_choices_of(const struct sluice_loader *loader, const struct part *part)
{
    struct sluice_choices choices = sluice_choices_of(part->pipeline);
    if (loader_decodes_on_gpu(loader, part))
        sluice_choices_add_gpu(&choices, part->pipeline, loader->info.has_jpeg_crop_restart);
    return choices;
}

/* The plan of the val subset, made once, at the rates that training starts with.  It has no
 * profile, because its ops differ. */
static sluice_status plan_val(struct sluice_loader *loader,
                              const struct sluice_controller_options *of_train,
                              struct sluice_err *err)
{
    const struct part *val = &loader->val;
    if (val->num_ids == 0)
        return SLUICE_OK;
    const struct sluice_choices choices = loader_choices_of(loader, val);
    struct sluice_controller_options options = *of_train;
    options.model = sluice_choice_model_default(&choices);
    options.model.has_jpeg_index = loader->info.has_jpeg_index;
    options.is_fixed = true;
    struct sluice_sampler_item *items = calloc(val->num_ids, sizeof(*items));
    if (!items)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                           val->num_ids);
    for (size_t i = 0; i < val->num_ids; i++)
        items[i].position = (uint32_t)i;
    const struct sluice_plan_epoch epoch = {
        .pipeline = val->pipeline,
        .manifest = loader->manifest,
        .ids = val->ids,
        .seed = loader->options.seed,
        .items = items,
        .num_items = val->num_ids,
    };
    struct sluice_controller *controller = NULL;
    struct sluice_plan_forecast forecast;
    sluice_status status = sluice_controller_create(&options, &controller, err);
    if (status == SLUICE_OK)
        status = sluice_controller_begin(controller, &epoch, 0, &forecast, err);
    for (size_t i = 0; status == SLUICE_OK && i < val->num_ids; i++)
        val->choices[i] = choices.at[sluice_controller_choose(controller, i, NULL, NULL)];
    sluice_controller_destroy(controller);
    free(items);
    return status;
}

/* The cost of a sample of a folder in addition to its ops: a file for the GPU is put into a batch.
 */
static struct sluice_transport_cost local_transport(void)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    return (struct sluice_transport_cost){
        .batch_s_per_sample = usual.batch_s_per_sample,
        .batch_s_per_byte = usual.batch_s_per_byte,
    };
}

/* Mode local has several choices only with a GPU that decodes. */
static bool is_planned_locally(const struct sluice_loader *loader)
{
    return loader->options.mode == SLUICE_MODE_LOCAL && !loader->options.is_profiling &&
           strcmp(loader->options.gpu_decode, "auto") == 0 &&
           (loader_decodes_on_gpu(loader, &loader->train) ||
            loader_decodes_on_gpu(loader, &loader->val));
}

/* Creates the running plan of remote_auto, or of a folder, which an evaluation alone does not need,
 * and plans val. */
static sluice_status make_chooser(struct sluice_loader *loader, bool for_training,
                                  struct sluice_err *err)
{
    const struct sluice_options *o = &loader->options;
    const struct sluice_choices choices = loader_choices_of(loader, &loader->train);
    struct sluice_controller_options options = {
        .model = sluice_choice_model_default(&choices),
        .is_local = o->mode == SLUICE_MODE_LOCAL,
        .forms = loader->info.forms & (o->has_any_form ? ~0u : 1u << o->remote_form),
        .is_fixed = !o->has_replan,
    };
    sluice_status status = SLUICE_OK;
    if (options.is_local) {
        options.rates = local_rates(o);
        options.transport = local_transport();
    } else {
        options.transport = sluice_transport_cost_default();
        status = first_rates(loader, &options.rates, &options.transport, err);
    }
    if (status == SLUICE_OK)
        take_upload(loader, &options.rates);
    if (status == SLUICE_OK && o->profile_folder && for_training && !options.is_local)
        status = read_model(loader, &options.model, &options.transport,
                            &options.rates.disk_bytes_per_s, err);
    if (status != SLUICE_OK)
        return status;
    options.model.has_jpeg_index = loader->info.has_jpeg_index;
    /* Upper bounds of the estimates: values that the user gave are bounds, measured ones are not.
     * Compute CPU may exceed the number of workers, because receiving and uploading samples runs on
     * other cores. */
    options.most = options.rates;
    sluice_machine_here("", &options.here);
    options.servers = loader->info.machine;
    options.most.disk_bytes_per_s = INFINITY;
    if (o->net_bw <= 0)
        options.most.link_bytes_per_s = INFINITY;
    if (o->remote_cpus == 0)
        options.most.storage_cores = INFINITY;
    options.most.compute_cores = sluice_cgroup_cores();
    if (o->gpu_rate <= 0)
        options.most.gpu_samples_per_s = INFINITY;
    status = plan_val(loader, &options, err);
    if (status == SLUICE_OK && for_training)
        status = sluice_replan_create(&options, &loader->replan, err);
    return status;
}

/* SOPHON's rule needs a profile, which the val subset lacks, so each sample takes the choice with
 * fewer bytes on the network: the file or the pixels. */
static struct sluice_choice least_bytes(const struct sluice_pipeline *pipeline, uint64_t file_bytes)
{
    const bool is_file_less = file_bytes <= sluice_pipeline_u8_bytes(pipeline);
    return sluice_choice_at(pipeline, is_file_less ? 0 : sluice_pipeline_u8_split(pipeline));
}

/* Replaces a plain form by --remote-form.  A JPEG crop replaces a file even if a plan chose the
 * file: it costs the server less than a third of a decode and halves the bytes.  So do rows, which
 * cost it next to nothing.  Packed pixels replace a file only if no plan chose it. */
static void choose_form(const struct sluice_loader *loader, const struct part *part)
{
    const enum sluice_form form = loader->options.remote_form;
    if (!(loader->info.forms >> form & 1))
        return;
    const bool is_planned = sluice_mode_is_planned(loader->options.mode);
    for (size_t i = 0; i < part->num_ids; i++) {
        struct sluice_choice *choice = &part->choices[i];
        /* A plan asks for a whole file where it wants the compute node to decode. */
        if (!(is_planned && choice->split == 0 &&
              !sluice_form_can_carry(sluice_form_type(form), part->pipeline, 0)))
            *choice = sluice_choice_coded(part->pipeline, *choice, form);
    }
}

/* Whole files, JPEG crops and rows go to the GPU; crops only if the server puts restart markers
 * where the GPU needs them.  While a profile is measured op by op, the CPU decodes them. */
static void choose_gpu(const struct sluice_loader *loader, struct part *part)
{
    if (!loader_decodes_on_gpu(loader, part) || loader->options.is_profiling)
        return;
    for (size_t i = 0; i < part->num_ids; i++) {
        struct sluice_choice *choice = &part->choices[i];
        const bool is_window = sluice_form_type((enum sluice_form)choice->form)->is_window;
        choice->on_gpu = choice->split == 0 && (!is_window || loader->info.has_jpeg_crop_restart);
    }
}

sluice_status loader_choose(struct sluice_loader *loader, bool for_training, struct sluice_err *err)
{
    const enum sluice_mode mode = loader->options.mode;
    const bool is_planned = sluice_mode_is_planned(mode);
    const bool is_greedy = mode == SLUICE_MODE_SOPHON || loader->options.is_greedy;
    if (is_planned && is_greedy && for_training && !loader->options.profile_folder)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s plans by a profile: set profile-folder (a run with profiling and "
                           "write-profile-folder makes one)",
                           sluice_mode_name(mode));
    if ((is_planned && !is_greedy) || is_planned_locally(loader)) /* forms, too */
        return make_chooser(loader, for_training, err);
    for (size_t i = 0; i < loader->val.num_ids; i++) {
        loader->val.choices[i] =
            is_planned ? least_bytes(loader->val.pipeline,
                                     sluice_manifest_at(loader->manifest, loader->val.ids[i]).bytes)
                       : sluice_choice_fixed(mode, loader->val.pipeline);
    }
    if (is_planned && for_training) {
        const sluice_status status = plan_greedily(loader, err);
        if (status != SLUICE_OK)
            return status;
    } else {
        for (size_t i = 0; i < loader->train.num_ids; i++)
            loader->train.choices[i] = sluice_choice_fixed(mode, loader->train.pipeline);
    }
    choose_form(loader, &loader->train);
    choose_form(loader, &loader->val);
    choose_gpu(loader, &loader->train);
    choose_gpu(loader, &loader->val);
    return SLUICE_OK;
}
