#include "profiler/commands.h"

#include "base/file.h"
#include "image/codecs/coding.h"
#include "op/form.h"
#include "op/recipe.h"
#include "plan/cost_folder.h"
#include "plan/form_table.h"
#include "plan/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const sluice_profile_costs_names[] = {"auto", "model", "rows", "default", NULL};

const char *const sluice_profile_index_names[] = {"auto", "yes", "no", NULL};

const char *const sluice_profile_gpu_names[] = {"off", "on", NULL};

struct sluice_profile_source sluice_profile_source_init(void)
{
    return (struct sluice_profile_source){
        .costs = "auto",
        .jpeg_index = "auto",
        .gpu_decode = "off",
    };
}

static sluice_status load_table(const struct sluice_profile_source *source,
                                const struct sluice_pipeline *pipeline,
                                struct sluice_cost_table *table, struct sluice_err *err)
{
    char in_folder[SLUICE_MAX_PATH_BYTES];
    const char *sizes = source->sizes_path;
    if (!sizes && source->folder) {
        const sluice_status status =
            sluice_path_in(source->folder, "prep_sizes.csv", in_folder, err);
        if (status != SLUICE_OK)
            return status;
        sizes = in_folder;
    }
    if (!sizes)
        return sluice_fail(err, SLUICE_E_INVALID, "--profile-folder or --sizes is needed");
    const bool needs_times = strcmp(source->costs, "default") != 0;
    if (needs_times && !source->has_modelled_times && !source->times_path) {
        if (source->folder && !source->sizes_path)
            return sluice_cost_table_read(source->folder, pipeline, table, err);
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--sizes alone has no times: give --times FILE or --times-model");
    }
    sluice_status status = sluice_cost_table_read_sizes(sizes, pipeline, table, err);
    if (status != SLUICE_OK)
        return status;
    if (source->has_modelled_times || (!needs_times && !source->times_path))
        sluice_cost_table_model_times(table, pipeline);
    else
        status = sluice_cost_table_read_times(source->times_path, pipeline, table, err);
    return status;
}

/* The one that was asked for, which must be the folder's; else the folder's, else the default. */
static sluice_status find_pipeline(const struct sluice_profile_source *source,
                                   struct sluice_pipeline **pipeline, struct sluice_err *err)
{
    const bool has_folder = source->folder && !source->sizes_path;
    if (has_folder && !source->pipeline)
        return sluice_cost_folder_pipeline(source->folder, pipeline, err);
    sluice_status status = sluice_recipe_parse(
        source->pipeline ? source->pipeline : SLUICE_DEFAULT_PIPELINE, false, pipeline, err);
    if (status == SLUICE_OK && has_folder)
        status = sluice_cost_folder_check(source->folder, *pipeline, err);
    return status;
}

sluice_status sluice_profile_load(const struct sluice_profile_source *source,
                                  struct sluice_profile *profile, struct sluice_err *err)
{
    *profile = (struct sluice_profile){0};
    sluice_status status = find_pipeline(source, &profile->pipeline, err);
    if (status != SLUICE_OK)
        return status;
    profile->choices = sluice_choices_of(profile->pipeline);
    sluice_choices_add_gpu(&profile->choices, profile->pipeline, true);
    status = load_table(source, profile->pipeline, &profile->table, err);
    if (status == SLUICE_OK)
        status =
            sluice_cost_folder_check_sizes(source->sizes_path ? source->sizes_path : source->folder,
                                           profile->pipeline, &profile->table, err);
    return status;
}

void sluice_profile_clear(struct sluice_profile *profile)
{
    sluice_cost_table_clear(&profile->table);
    sluice_pipeline_destroy(profile->pipeline);
    *profile = (struct sluice_profile){0};
}

/* Absent in folders of the original. */
sluice_status sluice_profile_load_forms(const struct sluice_profile_source *source,
                                        const struct sluice_profile *profile,
                                        struct sluice_form_table *forms, struct sluice_err *err)
{
    if (!source->folder)
        return SLUICE_OK;
    struct sluice_err why = {0};
    const sluice_status status =
        sluice_form_table_read(source->folder, &profile->choices, forms, &why);
    if (status == SLUICE_OK || status == SLUICE_E_NOT_FOUND)
        return SLUICE_OK;
    return sluice_fail(err, status, "%s", why.text);
}

sluice_status sluice_profile_find_facts(const struct sluice_profile_source *source,
                                        const struct sluice_profile *profile,
                                        const struct sluice_form_table *forms,
                                        struct sluice_sample_facts **out, struct sluice_err *err)
{
    const struct sluice_cost_table *table = &profile->table;
    struct sluice_sample_facts *facts = calloc(table->num_rows + 1, sizeof(*facts));
    if (!facts)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for facts of %zu samples",
                           table->num_rows);
    for (size_t i = 0; i < table->num_rows; i++) {
        const struct sluice_sample_cost *row = &table->rows[i];
        const struct sluice_draw_key key = {
            .seed = source->seed, .epoch = (uint32_t)source->epoch, .sample_id = i};
        facts[i] = sluice_sample_facts_make(profile->pipeline, row->bytes[0], row->width,
                                            row->height, SLUICE_CODING_UNKNOWN, &key);
    }
    for (size_t i = 0; i < forms->num_rows; i++) {
        const struct sluice_form_row *row = &forms->rows[i];
        if (row->index < table->num_rows)
            facts[row->index].coding = row->facts.coding;
    }
    *out = facts;
    return SLUICE_OK;
}

void sluice_profile_costs_clear(struct sluice_profile_costs *costs)
{
    free(costs->facts);
    *costs = (struct sluice_profile_costs){0};
}

static sluice_status load_model(const struct sluice_profile_source *source,
                                const struct sluice_profile *profile,
                                struct sluice_profile_costs *costs, struct sluice_err *err)
{
    costs->name = "rows";
    if (strcmp(source->costs, "rows") == 0)
        return SLUICE_OK;
    if (strcmp(source->costs, "default") == 0) {
        costs->name = "default";
        costs->has_model = true;
        costs->model = sluice_choice_model_default(&profile->choices);
        return SLUICE_OK;
    }
    const bool is_asked_for = strcmp(source->costs, "model") == 0;
    if (!source->folder && is_asked_for)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "--costs model: there is no --profile-folder to take it from");
    /* Rows that were named one by one are what is to be planned from. */
    if (!source->folder ||
        (!is_asked_for && (source->sizes_path || source->times_path || source->has_modelled_times)))
        return SLUICE_OK;
    struct sluice_model_file file;
    struct sluice_err why = {0};
    const sluice_status status =
        sluice_model_file_read(source->folder, &profile->choices, &file, &why);
    if (status == SLUICE_E_NOT_FOUND && !is_asked_for)
        return SLUICE_OK;
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", why.text);
    costs->name = "model";
    costs->has_model = true;
    costs->model = file.model;
    costs->transport = file.transport;
    return SLUICE_OK;
}

sluice_status sluice_profile_load_costs(const struct sluice_profile_source *source,
                                        const struct sluice_profile *profile,
                                        struct sluice_profile_costs *costs, struct sluice_err *err)
{
    struct sluice_form_table forms = {0};
    *costs = (struct sluice_profile_costs){.transport = sluice_transport_cost_default()};
    sluice_status status = load_model(source, profile, costs, err);
    costs->has_jpeg_index = strcmp(source->jpeg_index, "auto") == 0
                                ? costs->model.has_jpeg_index
                                : strcmp(source->jpeg_index, "yes") == 0;
    costs->decodes_on_gpu = strcmp(source->gpu_decode, "on") == 0;
    costs->gpu_decode_rate = source->gpu_decode_rate;
    if (status == SLUICE_OK)
        status = sluice_profile_load_forms(source, profile, &forms, err);
    if (status == SLUICE_OK)
        status = sluice_profile_find_facts(source, profile, &forms, &costs->facts, err);
    sluice_form_table_clear(&forms);
    if (status != SLUICE_OK)
        sluice_profile_costs_clear(costs);
    return status;
}

static bool is_named(const struct sluice_option_strings *forms, const char *form)
{
    for (size_t i = 0; i < forms->num_items; i++) {
        if (strcmp(forms->items[i], form) == 0)
            return true;
    }
    return forms->num_items == 0;
}

struct sluice_form_menu sluice_profile_menu(const struct sluice_profile *profile,
                                            const struct sluice_profile_costs *costs,
                                            const struct sluice_option_strings *forms)
{
    struct sluice_form_menu menu = sluice_form_menu_init(&profile->table, &profile->choices);
    menu.facts = costs->facts;
    menu.model = costs->has_model ? &costs->model : NULL;
    menu.transport = &costs->transport;
    menu.has_jpeg_index = costs->has_jpeg_index;
    const double usual_s = costs->gpu_decode_rate > 0 ? sluice_form_menu_decode_s(&menu) : 0;
    if (usual_s > 0)
        menu.decode_factor = 1 / costs->gpu_decode_rate / usual_s;
    for (unsigned c = 0; c < menu.choices.num; c++) {
        const struct sluice_choice choice = menu.choices.at[c];
        const enum sluice_form form = (enum sluice_form)choice.form;
        const bool has_form = !forms || form == sluice_form_plain(SLUICE_KIND_FILE) ||
                              is_named(forms, sluice_form_name(form));
        menu.has_choice[c] |= has_form && (!choice.on_gpu || costs->decodes_on_gpu);
    }
    return menu;
}
