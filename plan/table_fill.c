#include "plan/table_fill.h"

#include "plan/choice_fit.h"

static uint64_t bytes_at(const struct sluice_pipeline *pipeline, unsigned split,
                         const struct sluice_sample_facts *facts)
{
    const enum sluice_kind kind = sluice_pipeline_kind(pipeline, split);
    if (kind == SLUICE_KIND_FILE)
        return facts->file_bytes;
    const uint64_t pixels = sluice_known_size_pixels(sluice_pipeline_known_size(pipeline, split),
                                                     facts->width, facts->height);
    return 3 * pixels * (kind == SLUICE_KIND_F32 ? sizeof(float) : 1);
}

static void fill_row(struct sluice_sample_cost *row, const struct sluice_pipeline *pipeline,
                     const struct sluice_sample_facts *facts,
                     const struct sluice_choice_weights weights[SLUICE_MAX_STAGES])
{
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    sluice_choice_features(facts, feature);
    *row = (struct sluice_sample_cost){
        .width = facts->width, .height = facts->height, .coding = facts->coding};
    for (unsigned stage = 0; stage <= sluice_pipeline_num_ops(pipeline); stage++) {
        row->bytes[stage] = bytes_at(pipeline, stage, facts);
        row->op_s[stage] = sluice_choice_predict(&weights[stage], feature);
    }
}

void sluice_cost_table_fill(struct sluice_cost_table *table, const struct sluice_pipeline *pipeline,
                            const struct sluice_sample_facts *facts, const bool *is_measured)
{
    struct sluice_weights_fit fit[SLUICE_MAX_STAGES] = {{.num_rows = 0}};
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!is_measured[i] || table->rows[i].width == 0)
            continue;
        double feature[SLUICE_NUM_CHOICE_FEATURES];
        sluice_choice_features(&facts[i], feature);
        for (unsigned op = 0; op < table->num_stages; op++)
            sluice_weights_fit_add(&fit[op], feature, table->rows[i].op_s[op]);
    }
    struct sluice_choice_weights weights[SLUICE_MAX_STAGES];
    for (unsigned op = 0; op < table->num_stages; op++)
        weights[op] = sluice_weights_fit_solve(&fit[op], NULL);
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!is_measured[i])
            fill_row(&table->rows[i], pipeline, &facts[i], weights);
    }
}
