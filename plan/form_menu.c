#include "plan/form_menu.h"

#include "op/form.h"
#include "plan/choice_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The crops of random_resized_crop have 0.42 of ImageNet's pixels in the mean. */
#define TYPICAL_CROP_SHARE 0.42

#define MOST_BYTES_KEPT 60000000u /* of menus */

struct sluice_form_menu sluice_form_menu_init(const struct sluice_cost_table *table,
                                              const struct sluice_choices *choices)
{
    struct sluice_form_menu menu = {.table = table, .choices = *choices};
    for (unsigned c = 0; c < choices->num; c++)
        menu.has_choice[c] = sluice_choice_is_plain(choices->at[c]);
    return menu;
}

/* A row that a profiling run could not decode has its file's size at every stage. */
static bool is_undecoded(const struct sluice_choices *choices, const struct sluice_sample_cost *row)
{
    return row->bytes[1] == row->bytes[0] && row->bytes[choices->u8_split] == row->bytes[0];
}

/* A crop of the image's shape from its middle. */
static struct sluice_sample_facts typical_facts(const struct sluice_choices *choices,
                                                const struct sluice_sample_cost *row)
{
    struct sluice_sample_facts facts = {
        .file_bytes = row->bytes[0],
        .width = row->width,
        .height = row->height,
        .output_size = (uint32_t)sqrt((double)row->bytes[choices->u8_split] / 3),
    };
    if (facts.width == 0 || facts.height == 0) {
        const double side = sqrt((double)row->bytes[1] / 3);
        facts.width = facts.height = side < 1 ? 1 : side > 65535 ? 65535 : (uint32_t)side;
        facts.is_size_guessed = true;
    }
    const double share = sqrt(TYPICAL_CROP_SHARE);
    facts.crop.width = (uint32_t)ceil(share * facts.width);
    facts.crop.height = (uint32_t)ceil(share * facts.height);
    facts.crop.left = (facts.width - facts.crop.width) / 2;
    facts.crop.top = (facts.height - facts.crop.height) / 2;
    return facts;
}

/* From the row itself, which has the costs of plain forms. */
static void cost_by_row(const struct sluice_choices *choices, const struct sluice_sample_cost *row,
                        unsigned split, double cost[SLUICE_NUM_RESOURCES])
{
    memset(cost, 0, SLUICE_NUM_RESOURCES * sizeof(cost[0]));
    for (unsigned op = 1; op <= choices->num_ops; op++)
        cost[op <= split ? SLUICE_STORAGE_CPU : SLUICE_COMPUTE_CPU] += row->op_s[op];
    cost[SLUICE_DISK] = row->op_s[0];
    cost[SLUICE_NETWORK] = (double)row->bytes[split];
    cost[SLUICE_PCIE] = (double)row->bytes[choices->u8_split];
}

/* The machine's speed, from the time of a row's pixels. */
static double speed_of(const struct sluice_choices *choices, const struct sluice_sample_cost *row,
                       double model[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    double to_pixels_s = 0;
    for (unsigned op = 1; op <= choices->u8_split; op++)
        to_pixels_s += row->op_s[op];
    const double model_s = model[0][SLUICE_COMPUTE_CPU];
    return model_s > 0 ? to_pixels_s / model_s : 0;
}

/* Scales the cost of a row's plain form to that of another form, by the default model's ratio. */
static void adapt(const double model[SLUICE_NUM_RESOURCES],
                  const double plain_model[SLUICE_NUM_RESOURCES], double speed,
                  double cost[SLUICE_NUM_RESOURCES])
{
    enum { S = SLUICE_STORAGE_CPU, C = SLUICE_COMPUTE_CPU };
    enum { N = SLUICE_NETWORK, D = SLUICE_DISK };
    cost[D] *= model[D] / plain_model[D];
    cost[N] *= model[N] / plain_model[N];
    cost[S] += speed * (model[S] - plain_model[S]);
    cost[C] += speed * (model[C] - plain_model[C]);
    /* A difference of sums may end a hair below nothing. */
    cost[S] = cost[S] > 0 ? cost[S] : 0;
    cost[C] = cost[C] > 0 ? cost[C] : 0;
}

/* Inputs of the costs in addition to the menu, made once for a pass over it. */
struct cost_maker {
    const struct sluice_form_menu *menu;
    struct sluice_choice_model model; /* the menu's; with costs of rows, the default */
    double step_s;
    struct sluice_offer offer;
};

static struct cost_maker cost_maker_init(const struct sluice_form_menu *menu,
                                         const struct sluice_rates *rates)
{
    struct cost_maker maker = {
        .menu = menu,
        .model = menu->model ? *menu->model : sluice_choice_model_default(&menu->choices),
        .step_s = sluice_rates_step_s(rates),
    };
    maker.model.has_jpeg_index = menu->has_jpeg_index;
    return maker;
}

/* The costs of a row that was decoded. */
static void costs_by_row(const struct cost_maker *maker, const struct sluice_sample_cost *row,
                         const struct sluice_sample_facts *facts,
                         double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const struct sluice_choices *choices = &maker->menu->choices;
    double model[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&maker->model, facts, model);
    const double speed = speed_of(choices, row, model);
    for (unsigned c = 0; c < choices->num; c++) {
        const struct sluice_choice choice = choices->at[c];
        const unsigned plain = sluice_choices_find_split(choices, choice.split);
        cost_by_row(choices, row, choice.split, cost[c]);
        cost[c][SLUICE_DISK] *= model[plain][SLUICE_DISK] / model[0][SLUICE_DISK];
        if (!sluice_choice_is_plain(choice))
            adapt(model[c], model[plain], speed, cost[c]);
        else if (maker->menu->transport &&
                 sluice_form_type((enum sluice_form)choice.form)->kind == SLUICE_KIND_F32)
            cost[c][SLUICE_COMPUTE_CPU] += speed * model[c][SLUICE_COMPUTE_CPU];
        if (choice.on_gpu) {
            cost[c][SLUICE_PCIE] = model[c][SLUICE_PCIE];
            cost[c][SLUICE_GPU] = model[c][SLUICE_GPU];
        }
    }
}

/* The costs of all choices of row i. */
static void costs_of(const struct cost_maker *maker, size_t i,
                     double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES])
{
    const struct sluice_form_menu *menu = maker->menu;
    const struct sluice_choices *choices = &menu->choices;
    const struct sluice_sample_cost *row = &menu->table->rows[i];
    if (is_undecoded(choices, row)) {
        for (unsigned c = 0; c < choices->num; c++)
            cost_by_row(choices, row,
                        sluice_choice_is_plain(choices->at[c]) ? choices->at[c].split : 0, cost[c]);
    } else {
        const struct sluice_sample_facts facts =
            menu->facts ? menu->facts[i] : typical_facts(choices, row);
        if (menu->model)
            sluice_choice_model_costs(&maker->model, &facts, cost);
        else
            costs_by_row(maker, row, &facts, cost);
    }
    for (unsigned c = 0; menu->transport && c < choices->num; c++)
        sluice_transport_cost_add(menu->transport, sluice_choice_is_preprocessed(choices->at[c]),
                                  cost[c]);
    const double decode_factor = menu->decode_factor > 0 ? menu->decode_factor : 1;
    for (unsigned c = 0; c < choices->num; c++)
        cost[c][SLUICE_GPU] = maker->step_s + decode_factor * cost[c][SLUICE_GPU];
}

double sluice_form_menu_decode_s(const struct sluice_form_menu *menu)
{
    const struct sluice_rates no_steps = {.gpu_samples_per_s = INFINITY};
    const struct cost_maker maker = cost_maker_init(menu, &no_steps);
    double sum_s = 0;
    size_t num_decoded = 0;
    for (size_t i = 0; i < menu->table->num_rows; i++) {
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES], most_s = 0;
        costs_of(&maker, i, cost);
        for (unsigned c = 0; c < menu->choices.num; c++)
            most_s = fmax(most_s, cost[c][SLUICE_GPU]);
        sum_s += most_s;
        num_decoded += most_s > 0;
    }
    return num_decoded > 0 ? sum_s / (double)num_decoded : 0;
}

/* A table has seconds of the disk, so its rate is not used. */
static struct sluice_capacities capacities_of(const struct sluice_rates *rates)
{
    struct sluice_rates of_table = *rates;
    if (isfinite(of_table.disk_bytes_per_s))
        of_table.disk_bytes_per_s = 0;
    return sluice_capacities_of(&of_table);
}

struct sluice_choice_forecast sluice_form_menu_forecast(const struct sluice_form_menu *menu,
                                                        const struct sluice_rates *rates,
                                                        const uint8_t *choice)
{
    const struct sluice_capacities capacities = capacities_of(rates);
    struct sluice_choice_forecast forecast = {0};
    double sum[SLUICE_NUM_RESOURCES] = {0};
    const struct cost_maker maker = cost_maker_init(menu, rates);
    for (size_t i = 0; i < menu->table->num_rows; i++) {
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        costs_of(&maker, i, cost);
        for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
            sum[r] += cost[choice[i]][r];
        forecast.choices[choice[i]]++;
    }
    forecast.wire_bytes = (uint64_t)sum[SLUICE_NETWORK];
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        forecast.busy_s[r] = sum[r] / capacities.per_s[r];
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (forecast.busy_s[r] > forecast.primal_s) {
            forecast.primal_s = forecast.busy_s[r];
            forecast.slowest = (enum sluice_resource)r;
        }
    }
    return forecast;
}

double sluice_choice_forecast_fill_s(const struct sluice_choice_forecast *forecast,
                                     uint64_t num_samples, uint64_t batch_size)
{
    double fed_s = 0;
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
        fed_s = r == SLUICE_GPU ? fed_s : fmax(fed_s, forecast->busy_s[r]);
    const double batches = batch_size < num_samples ? (double)num_samples / (double)batch_size : 1;
    return fmin(fed_s, forecast->busy_s[SLUICE_GPU]) / batches;
}

static void get_menus(void *context, uint64_t first, size_t count, struct sluice_menu *scratch)
{
    const struct cost_maker *maker = context;
    char *at = (char *)scratch;
    for (size_t i = 0; i < count; i++, at += sluice_menu_size(maker->offer.num)) {
        double cost[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES];
        costs_of(maker, (size_t)first + i, cost);
        for (unsigned c = 0; c < maker->offer.num; c++) /* offer.at[c] >= c */
            memmove(cost[c], cost[maker->offer.at[c]], sizeof(cost[c]));
        sluice_menu_set((struct sluice_menu *)(void *)at, maker->offer.num,
                        (const double(*)[SLUICE_NUM_RESOURCES])cost);
    }
}

/* The menus of all samples, for those passes after the first; NULL: too many to keep, or there is
 * no memory, and they are made anew for every pass. */
static void *make_menus(const struct sluice_menu_source *source)
{
    if (source->num_samples == 0 || source->num_samples > MOST_BYTES_KEPT / source->stride)
        return NULL;
    const size_t n = (size_t)source->num_samples;
    char *menus = malloc(n * source->stride);
    for (size_t i = 0; menus && i < n; i += SLUICE_MENU_BLOCK)
        source->get(source->context, i, n - i < SLUICE_MENU_BLOCK ? n - i : SLUICE_MENU_BLOCK,
                    (struct sluice_menu *)(void *)(menus + i * source->stride));
    return menus;
}

/* The dual bound: the sum of each sample's least cost at the duals, in the table's own numbers:
 * menus round theirs. */
static double bound_at(const struct cost_maker *maker, const struct sluice_capacities *capacities,
                       const double dual[SLUICE_NUM_RESOURCES])
{
    double bound_s = 0;
    for (size_t i = 0; i < maker->menu->table->num_rows; i++) {
        double costs[SLUICE_MAX_CHOICES][SLUICE_NUM_RESOURCES], least = INFINITY;
        costs_of(maker, i, costs);
        for (unsigned c = 0; c < maker->offer.num; c++) {
            const double *cost = costs[maker->offer.at[c]];
            double sum = 0;
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                sum += dual[r] * (cost[r] / capacities->per_s[r]) +
                       capacities->external_cost_s[r] * cost[r];
            least = sum < least ? sum : least;
        }
        bound_s += least;
    }
    return bound_s * (1 - 1e-9); /* more than the sums can be off */
}

/* Among the choices on offer; choice[] counts those. */
static sluice_status plan_offered(struct cost_maker *maker,
                                  const struct sluice_capacities *capacities, uint8_t *choice,
                                  struct sluice_lp_result *result, struct sluice_err *err)
{
    struct sluice_menu_source source = {
        .num_samples = maker->menu->table->num_rows,
        .num_choices = maker->offer.num,
        .stride = sluice_menu_size(maker->offer.num),
        .get = get_menus,
        .context = maker,
    };
    void *menus = make_menus(&source);
    source.array = menus;
    const sluice_status status = sluice_plan_lp(&source, capacities, choice, result, err);
    free(menus);
    return status;
}

sluice_status sluice_form_menu_plan(const struct sluice_form_menu *menu,
                                    const struct sluice_rates *rates, uint8_t *choice,
                                    double *bound_s, struct sluice_err *err)
{
    const struct sluice_capacities capacities = capacities_of(rates);
    struct cost_maker maker = cost_maker_init(menu, rates);
    struct sluice_lp_result result;
    maker.offer = sluice_choices_offer(&menu->choices, menu->has_choice, false);
    sluice_status status = plan_offered(&maker, &capacities, choice, &result, err);
    /* Where the training step is the limit, decoding on the GPU wins nothing. */
    if (status == SLUICE_OK && maker.offer.has_gpu && result.slowest != SLUICE_GPU) {
        maker.offer = sluice_choices_offer(&menu->choices, menu->has_choice, true);
        status = plan_offered(&maker, &capacities, choice, &result, err);
    }
    if (status != SLUICE_OK)
        return status;
    for (size_t i = 0; i < menu->table->num_rows; i++)
        choice[i] = maker.offer.at[choice[i]];
    maker.offer = sluice_choices_offer(&menu->choices, menu->has_choice, true);
    *bound_s = bound_at(&maker, &capacities, result.dual);
    return SLUICE_OK;
}
