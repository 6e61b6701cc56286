#include "plan/form_menu.h"

#include "plan/choice_cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The crops of random_resized_crop have 0.42 of ImageNet's pixels in the mean. */
#define TYPICAL_CROP_SHARE 0.42

#define U8_SPLIT 3

/* 37 MB of them. */
#define MOST_MENUS_KEPT (1u << 18)

static const struct {
    const char *name;
    unsigned split;
} choices[SLUICE_NUM_CHOICES] = {
    {"raw@0", 0},
    {"u8@1", 1},
    {"u8@2", 2},
    {"u8@3", 3},
    {"f32@4", 4},
    {"f32@5", 5},
    [SLUICE_CHOICE_JPEG_CROP] = {"jpeg_crop@0", 0},
    [SLUICE_CHOICE_U8_PACKED] = {"u8_packed@3", U8_SPLIT},
};

_Static_assert(SLUICE_NUM_CHOICES <= SLUICE_MENU_CHOICES, "a menu has no room for a choice");

const char *sluice_form_menu_name(unsigned choice)
{
    return choices[choice].name;
}

unsigned sluice_form_menu_split(unsigned choice)
{
    return choices[choice].split;
}

struct sluice_form_menu sluice_form_menu_init(const struct sluice_cost_table *table)
{
    struct sluice_form_menu menu = {.table = table};
    for (unsigned c = 0; c < SLUICE_PROFILE_STAGES; c++)
        menu.has_choice[c] = true;
    return menu;
}

/* A row that a profiling run could not decode has its file's size at every stage. */
static bool is_undecoded(const struct sluice_sample_cost *row)
{
    return row->bytes[1] == row->bytes[0] && row->bytes[U8_SPLIT] == row->bytes[0];
}

/* A crop of the image's shape from its middle. */
static struct sluice_sample_facts typical_facts(const struct sluice_sample_cost *row)
{
    struct sluice_sample_facts facts = {
        .file_bytes = row->bytes[0],
        .width = row->width,
        .height = row->height,
        .output_size = (uint32_t)sqrt((double)row->bytes[U8_SPLIT] / 3),
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

/* By the row itself, which knows the plain forms. */
static void cost_by_row(const struct sluice_sample_cost *row, unsigned split,
                        double cost[SLUICE_NUM_RESOURCES])
{
    memset(cost, 0, SLUICE_NUM_RESOURCES * sizeof(cost[0]));
    for (unsigned op = 1; op < SLUICE_PROFILE_STAGES; op++)
        cost[op <= split ? SLUICE_STORAGE_CPU : SLUICE_COMPUTE_CPU] += row->op_s[op];
    cost[SLUICE_DISK] = row->op_s[0];
    cost[SLUICE_NETWORK] = (double)row->bytes[split];
    cost[SLUICE_PCIE] = (double)row->bytes[U8_SPLIT];
    cost[SLUICE_GPU] = 1;
}

/* The time that a row's pixels took says how fast the machine is. */
static double speed_of(const struct sluice_sample_cost *row,
                       double model[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES])
{
    double to_pixels_s = 0;
    for (unsigned op = 1; op <= U8_SPLIT; op++)
        to_pixels_s += row->op_s[op];
    const double model_s = model[0][SLUICE_COMPUTE_CPU];
    return model_s > 0 ? to_pixels_s / model_s : 0;
}

/* Turns what the default model says of a form into what it costs a row whose plain form costs
 * `plain`. */
static void adapt(unsigned choice, double speed,
                  double model[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES], const double *plain,
                  double cost[SLUICE_NUM_RESOURCES])
{
    enum { S = SLUICE_STORAGE_CPU, C = SLUICE_COMPUTE_CPU };
    enum { N = SLUICE_NETWORK, D = SLUICE_DISK };
    const double *plain_model = model[choices[choice].split];
    memcpy(cost, plain, SLUICE_NUM_RESOURCES * sizeof(cost[0]));
    cost[D] *= model[choice][D] / plain_model[D];
    cost[N] *= model[choice][N] / plain_model[N];
    cost[S] += speed * (model[choice][S] - plain_model[S]);
    cost[C] += speed * (model[choice][C] - plain_model[C]);
    /* A difference of sums may end a hair below nothing. */
    cost[S] = cost[S] > 0 ? cost[S] : 0;
    cost[C] = cost[C] > 0 ? cost[C] : 0;
}

/* What costs need beside the menu, made once for a pass over it. */
struct pricer {
    const struct sluice_form_menu *menu;
    struct sluice_choice_model model; /* the menu's, or the usual one beside the rows */
};

static struct pricer pricer_init(const struct sluice_form_menu *menu)
{
    struct pricer pricer = {
        .menu = menu,
        .model = menu->model ? *menu->model : sluice_choice_model_default(),
    };
    pricer.model.has_jpeg_index = menu->has_jpeg_index;
    return pricer;
}

/* Of a row that was decoded. */
static void costs_by_row(const struct pricer *pricer, const struct sluice_sample_cost *row,
                         const struct sluice_sample_facts *facts,
                         double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES])
{
    double model[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
    sluice_choice_model_costs(&pricer->model, facts, model);
    const double speed = speed_of(row, model);
    for (unsigned c = 0; c < SLUICE_PROFILE_STAGES; c++) {
        cost_by_row(row, c, cost[c]);
        cost[c][SLUICE_DISK] *= model[c][SLUICE_DISK] / model[0][SLUICE_DISK];
    }
    for (unsigned c = SLUICE_PROFILE_STAGES; c < SLUICE_NUM_CHOICES; c++)
        adapt(c, speed, model, cost[choices[c].split], cost[c]);
    for (unsigned c = U8_SPLIT + 1; pricer->menu->transport && c < SLUICE_PROFILE_STAGES; c++)
        cost[c][SLUICE_COMPUTE_CPU] += speed * model[c][SLUICE_COMPUTE_CPU];
}

/* Of row i, every choice. */
static void costs_of(const struct pricer *pricer, size_t i,
                     double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES])
{
    const struct sluice_form_menu *menu = pricer->menu;
    const struct sluice_sample_cost *row = &menu->table->rows[i];
    if (is_undecoded(row)) {
        for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++)
            cost_by_row(row, c < SLUICE_PROFILE_STAGES ? c : 0, cost[c]);
    } else {
        const struct sluice_sample_facts facts = menu->facts ? menu->facts[i] : typical_facts(row);
        if (menu->model)
            sluice_choice_model_costs(&pricer->model, &facts, cost);
        else
            costs_by_row(pricer, row, &facts, cost);
    }
    for (unsigned c = 0; menu->transport && c < SLUICE_NUM_CHOICES; c++)
        sluice_transport_cost_add(menu->transport, c, cost[c]);
}

/* The GPU is counted in samples, the disk in seconds. */
static struct sluice_capacities capacities_of(const struct sluice_rates *rates)
{
    return (struct sluice_capacities){
        .per_s =
            {
                [SLUICE_DISK] = 1,
                [SLUICE_STORAGE_CPU] = rates->storage_cores,
                [SLUICE_NETWORK] = rates->link_bytes_per_s,
                [SLUICE_RECEIVE] = 1,
                [SLUICE_COMPUTE_CPU] = rates->compute_cores,
                [SLUICE_PCIE] = rates->pcie_bytes_per_s > 0 ? rates->pcie_bytes_per_s : INFINITY,
                [SLUICE_GPU] = rates->gpu_samples_per_s,
            },
    };
}

struct sluice_choice_forecast sluice_form_menu_forecast(const struct sluice_form_menu *menu,
                                                        const struct sluice_rates *rates,
                                                        const uint8_t *choice)
{
    const struct sluice_capacities capacities = capacities_of(rates);
    struct sluice_choice_forecast forecast = {0};
    double sum[SLUICE_NUM_RESOURCES] = {0};
    const struct pricer pricer = pricer_init(menu);
    for (size_t i = 0; i < menu->table->num_rows; i++) {
        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
        costs_of(&pricer, i, cost);
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

/* Of the choices that the server offers, in order; *num_offered of them. */
static void list_offered(const struct sluice_form_menu *menu, uint8_t offered[SLUICE_NUM_CHOICES],
                         unsigned *num_offered)
{
    *num_offered = 0;
    for (unsigned c = 0; c < SLUICE_NUM_CHOICES; c++) {
        if (menu->has_choice[c])
            offered[(*num_offered)++] = (uint8_t)c;
    }
}

static const struct sluice_menu *get_menus(void *context, uint64_t first, size_t count,
                                           struct sluice_menu *scratch)
{
    const struct pricer *pricer = context;
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(pricer->menu, offered, &num_offered);
    for (size_t i = 0; i < count; i++) {
        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES];
        costs_of(pricer, (size_t)first + i, cost);
        for (unsigned c = 0; c < num_offered; c++) /* offered[c] >= c */
            memmove(cost[c], cost[offered[c]], sizeof(cost[c]));
        sluice_menu_set(&scratch[i], num_offered, (const double(*)[SLUICE_NUM_RESOURCES])cost);
    }
    return scratch;
}

/* The menus of all samples, for those passes after the first; NULL: too many to keep, or there is
 * no memory, and they are made anew for every pass. */
static struct sluice_menu *make_menus(const struct sluice_menu_source *source)
{
    if (source->num_samples == 0 || source->num_samples > MOST_MENUS_KEPT)
        return NULL;
    const size_t n = (size_t)source->num_samples;
    struct sluice_menu *menus = malloc(n * sizeof(*menus));
    for (size_t i = 0; menus && i < n; i += SLUICE_MENU_BLOCK)
        source->get(source->context, i, n - i < SLUICE_MENU_BLOCK ? n - i : SLUICE_MENU_BLOCK,
                    &menus[i]);
    return menus;
}

/* sum of min of the priced costs, in the table's own numbers: menus round theirs. */
static double bound_at(const struct pricer *pricer, const struct sluice_capacities *capacities,
                       const double price[SLUICE_NUM_RESOURCES])
{
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(pricer->menu, offered, &num_offered);
    double bound_s = 0;
    for (size_t i = 0; i < pricer->menu->table->num_rows; i++) {
        double costs[SLUICE_NUM_CHOICES][SLUICE_NUM_RESOURCES], least = INFINITY;
        costs_of(pricer, i, costs);
        for (unsigned c = 0; c < num_offered; c++) {
            const double *cost = costs[offered[c]];
            double sum = 0;
            for (int r = 0; r < SLUICE_NUM_RESOURCES; r++)
                sum +=
                    price[r] * (cost[r] / capacities->per_s[r]) + capacities->price_s[r] * cost[r];
            least = sum < least ? sum : least;
        }
        bound_s += least;
    }
    return bound_s * (1 - 1e-9); /* more than the sums can be off */
}

sluice_status sluice_form_menu_plan(const struct sluice_form_menu *menu,
                                    const struct sluice_rates *rates, uint8_t *choice,
                                    double *bound_s, struct sluice_err *err)
{
    const struct sluice_capacities capacities = capacities_of(rates);
    struct pricer pricer = pricer_init(menu);
    struct sluice_menu_source source = {
        .num_samples = menu->table->num_rows,
        .get = get_menus,
        .context = &pricer,
    };
    struct sluice_menu *menus = make_menus(&source);
    if (menus)
        source = sluice_menu_array(menus, source.num_samples);
    struct sluice_lp_result result;
    const sluice_status status = sluice_plan_lp(&source, &capacities, choice, &result, err);
    free(menus);
    if (status != SLUICE_OK)
        return status;
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(menu, offered, &num_offered);
    for (size_t i = 0; i < menu->table->num_rows; i++)
        choice[i] = offered[choice[i]];
    *bound_s = bound_at(&pricer, &capacities, result.price);
    return SLUICE_OK;
}
