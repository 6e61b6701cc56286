#include "plan/table_fill.h"

#include "plan/choice_fit.h"

static void fill_row(struct sluice_sample_cost *row, const struct sluice_sample_facts *facts,
                     const struct sluice_choice_weights weights[SLUICE_PROFILE_STAGES])
{
    double feature[SLUICE_NUM_CHOICE_FEATURES];
    sluice_choice_features(facts, feature);
    const uint64_t pixels = (uint64_t)(3 * feature[SLUICE_CHOICE_PER_OUTPUT_PIXEL] + 0.5);
    *row = (struct sluice_sample_cost){
        .bytes = {facts->file_bytes, 3 * (uint64_t)facts->width * facts->height, pixels, pixels,
                  4 * pixels, 4 * pixels},
        .width = facts->width,
        .height = facts->height,
        .coding = facts->coding,
    };
    for (int op = 0; op < SLUICE_PROFILE_STAGES; op++)
        row->op_s[op] = sluice_choice_predict(&weights[op], feature);
}

void sluice_cost_table_fill(struct sluice_cost_table *table,
                            const struct sluice_sample_facts *facts, const bool *is_measured)
{
    struct sluice_weights_fit fit[SLUICE_PROFILE_STAGES] = {{.num_rows = 0}};
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!is_measured[i] || table->rows[i].width == 0)
            continue;
        double feature[SLUICE_NUM_CHOICE_FEATURES];
        sluice_choice_features(&facts[i], feature);
        for (int op = 0; op < SLUICE_PROFILE_STAGES; op++)
            sluice_weights_fit_add(&fit[op], feature, table->rows[i].op_s[op]);
    }
    struct sluice_choice_weights weights[SLUICE_PROFILE_STAGES];
    for (int op = 0; op < SLUICE_PROFILE_STAGES; op++)
        weights[op] = sluice_weights_fit_solve(&fit[op], NULL);
    for (size_t i = 0; i < table->num_rows; i++) {
        if (!is_measured[i])
            fill_row(&table->rows[i], &facts[i], weights);
    }
}
