#include "compute_client/loader/choose/choice.h"

#include "op/form.h"
#include "plan/sophon.h"

#include <stdlib.h>

struct sluice_choice sluice_choice_fixed(enum sluice_mode mode,
                                         const struct sluice_pipeline *pipeline)
{
    if (mode == SLUICE_MODE_ALLOFF)
        return sluice_choice_at(pipeline, sluice_pipeline_num_ops(pipeline));
    if (mode == SLUICE_MODE_PILOFF)
        return sluice_choice_at(pipeline, sluice_pipeline_u8_split(pipeline));
    return sluice_choice_at(pipeline, 0);
}

struct sluice_choice sluice_choice_coded(const struct sluice_pipeline *pipeline,
                                         struct sluice_choice choice, enum sluice_form form)
{
    const struct sluice_form_type *type = sluice_form_type(form);
    if (type->is_plain)
        return choice;
    if (choice.split == 0 && sluice_form_can_carry(type, pipeline, 0))
        choice.form = (uint8_t)form;
    else if (choice.split == 0 && sluice_form_takes_box(type, pipeline, 1))
        choice = (struct sluice_choice){.split = 1, .form = (uint8_t)form};
    else if (choice.split > 0 && sluice_form_can_carry(type, pipeline, choice.split))
        choice.form = (uint8_t)form;
    return choice;
}

size_t sluice_choice_bytes(const struct sluice_pipeline *pipeline, struct sluice_choice choice,
                           size_t file_bytes)
{
    switch (sluice_pipeline_kind(pipeline, choice.split)) {
    case SLUICE_KIND_U8:
        /* Before the crop the size is the image's own; the reply will tell. */
        return choice.split == sluice_pipeline_u8_split(pipeline)
                   ? sluice_pipeline_u8_bytes(pipeline)
                   : file_bytes;
    case SLUICE_KIND_F32:
        return sluice_pipeline_output_bytes(pipeline);
    case SLUICE_KIND_FILE:
        break;
    }
    return file_bytes;
}

sluice_status sluice_choice_plan(const struct sluice_choice_request *request,
                                 struct sluice_choice *choices, struct sluice_err *err)
{
    struct sluice_cost_table table = {0};
    uint8_t *split = NULL;
    sluice_status status = sluice_cost_folder_read(request->folder, &request->use, &table, err);
    if (status != SLUICE_OK)
        return status;
    table.num_rows = request->use.num_used;
    split = malloc(table.num_rows ? table.num_rows : 1);
    if (!split) {
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a plan of %zu samples",
                             table.num_rows);
        goto end;
    }
    status = sluice_plan_sophon(&table, &request->rates, split, err);
    for (size_t i = 0; status == SLUICE_OK && i < table.num_rows; i++)
        choices[i] = sluice_choice_at(request->use.pipeline, split[i]);
end:
    free(split);
    sluice_cost_table_clear(&table);
    return status;
}
