#include "compute_client/load/choice.h"

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

struct sluice_choice sluice_choice_cut(const struct sluice_pipeline *pipeline,
                                       struct sluice_choice choice)
{
    if (choice.split == 0 && sluice_pipeline_can_crop_jpeg(pipeline))
        choice.form = SLUICE_FORM_JPEG_CROP;
    return choice;
}

struct sluice_choice sluice_choice_rows(const struct sluice_pipeline *pipeline,
                                        struct sluice_choice choice)
{
    if (choice.split == 0 && sluice_pipeline_can_take_rows(pipeline))
        choice.form = SLUICE_FORM_JPEG_ROWS;
    return choice;
}

struct sluice_choice sluice_choice_packed(const struct sluice_pipeline *pipeline,
                                          struct sluice_choice choice)
{
    if (choice.split == 0 && sluice_pipeline_packs_box(pipeline))
        return (struct sluice_choice){.split = 1, .form = SLUICE_FORM_U8_PACKED};
    if (choice.form == SLUICE_FORM_U8)
        choice.form = SLUICE_FORM_U8_PACKED;
    return choice;
}

size_t sluice_choice_bytes(const struct sluice_pipeline *pipeline, struct sluice_choice choice,
                           size_t file_bytes)
{
    switch ((enum sluice_form)choice.form) {
    case SLUICE_FORM_U8:
    case SLUICE_FORM_U8_PACKED:
        /* Before the crop the size is the image's own; the reply will tell. */
        if (choice.split == sluice_pipeline_u8_split(pipeline))
            return sluice_pipeline_u8_bytes(pipeline);
        return file_bytes;
    case SLUICE_FORM_F32:
        return sluice_pipeline_output_bytes(pipeline);
    default:
        return file_bytes;
    }
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
