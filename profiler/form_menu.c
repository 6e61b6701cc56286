#include "profiler/form_menu.h"

#include <math.h>
#include <string.h>

/* Forms that a profile does not hold: bench_pipeline's means over 60 ImageNet photographs of
 * 108,906 bytes (one core of an AMD EPYC with AVX-512), where decoding what a crop needs of a file
 * takes 640 us.  The ratios travel better than the times.
 *
 * Cutting a file to its crop takes 319 us and leaves 48,914 bytes, which decode in 460 us. */
#define CROP_BYTES_PER_FILE_BYTE (48914.0 / 108906)
#define CROP_STORAGE_PER_DECODE (319.0 / 640)
#define CROP_COMPUTE_PER_DECODE (460.0 / 640)

/* Losslessly packed pixels have 63,885 of 150,528 bytes, for 311 us on storage and 213 on compute.
 */
#define PACKED_BYTES_PER_BYTE (63885.0 / 150528)
#define PACK_S_PER_BYTE (311e-6 / 150528)
#define UNPACK_S_PER_BYTE (213e-6 / 150528)

/* The compute node looks up the pixel of each float that comes: 421 us for 602,112 bytes. */
#define FROM_FLOAT_S_PER_BYTE (421e-6 / 602112)

/* One entry of a request for samples. */
#define REQUEST_BYTES 24

#define U8_SPLIT 3

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

static void cost_of(const struct sluice_form_menu *menu, size_t index, unsigned choice,
                    double cost[SLUICE_NUM_LOADS])
{
    const struct sluice_sample_cost *row = &menu->table->rows[index];
    if (choice >= SLUICE_PROFILE_STAGES && is_undecoded(row))
        choice = 0;
    memset(cost, 0, SLUICE_NUM_LOADS * sizeof(cost[0]));
    for (unsigned op = 1; op < SLUICE_PROFILE_STAGES; op++)
        cost[op <= choices[choice].split ? SLUICE_LOAD_STORAGE_CPU : SLUICE_LOAD_COMPUTE_CPU] +=
            row->op_s[op];
    cost[SLUICE_LOAD_DISK] = row->op_s[0];
    cost[SLUICE_LOAD_NET_DOWN] = (double)row->bytes[choices[choice].split];
    cost[SLUICE_LOAD_NET_UP] = REQUEST_BYTES;
    cost[SLUICE_LOAD_PCIE] = (double)row->bytes[U8_SPLIT];
    cost[SLUICE_LOAD_GPU] = 1;
    if (choice == SLUICE_CHOICE_JPEG_CROP) {
        cost[SLUICE_LOAD_NET_DOWN] *= CROP_BYTES_PER_FILE_BYTE;
        cost[SLUICE_LOAD_STORAGE_CPU] += CROP_STORAGE_PER_DECODE * row->op_s[1];
        cost[SLUICE_LOAD_COMPUTE_CPU] -= (1 - CROP_COMPUTE_PER_DECODE) * row->op_s[1];
    } else if (choice == SLUICE_CHOICE_U8_PACKED) {
        cost[SLUICE_LOAD_STORAGE_CPU] += PACK_S_PER_BYTE * (double)row->bytes[U8_SPLIT];
        cost[SLUICE_LOAD_COMPUTE_CPU] += UNPACK_S_PER_BYTE * (double)row->bytes[U8_SPLIT];
        cost[SLUICE_LOAD_NET_DOWN] *= PACKED_BYTES_PER_BYTE;
    }
    if (menu->transport) {
        if (choices[choice].split > U8_SPLIT)
            cost[SLUICE_LOAD_COMPUTE_CPU] += FROM_FLOAT_S_PER_BYTE * cost[SLUICE_LOAD_NET_DOWN];
        sluice_transport_cost_add(menu->transport, choice, cost);
    }
    /* A difference of sums may end a hair below nothing. */
    if (cost[SLUICE_LOAD_COMPUTE_CPU] < 0)
        cost[SLUICE_LOAD_COMPUTE_CPU] = 0;
}

/* The GPU is counted in samples, the disk in seconds. */
static struct sluice_capacities capacities_of(const struct sluice_rates *rates)
{
    return (struct sluice_capacities){
        .per_s =
            {
                [SLUICE_LOAD_DISK] = 1,
                [SLUICE_LOAD_STORAGE_CPU] = rates->storage_cores,
                [SLUICE_LOAD_NET_DOWN] = rates->link_bytes_per_s,
                [SLUICE_LOAD_NET_UP] = rates->link_bytes_per_s,
                [SLUICE_LOAD_COMPUTE_CPU] = rates->compute_cores,
                [SLUICE_LOAD_PCIE] = INFINITY,
                [SLUICE_LOAD_GPU] = rates->gpu_samples_per_s,
            },
        .price_s = {[SLUICE_LOAD_STORAGE_CPU] = rates->storage_cpu_price},
    };
}

struct sluice_choice_forecast sluice_form_menu_forecast(const struct sluice_form_menu *menu,
                                                        const struct sluice_rates *rates,
                                                        const uint8_t *choice)
{
    const struct sluice_capacities capacities = capacities_of(rates);
    struct sluice_choice_forecast forecast = {0};
    double sum[SLUICE_NUM_LOADS] = {0};
    for (size_t i = 0; i < menu->table->num_rows; i++) {
        double cost[SLUICE_NUM_LOADS];
        cost_of(menu, i, choice[i], cost);
        for (int r = 0; r < SLUICE_NUM_LOADS; r++)
            sum[r] += cost[r];
        forecast.choices[choice[i]]++;
    }
    forecast.wire_bytes = (uint64_t)sum[SLUICE_LOAD_NET_DOWN];
    for (int r = 0; r < SLUICE_NUM_LOADS; r++)
        sum[r] /= capacities.per_s[r];
    forecast.busy_s[SLUICE_DISK] = sum[SLUICE_LOAD_DISK];
    forecast.busy_s[SLUICE_STORAGE_CPU] = sum[SLUICE_LOAD_STORAGE_CPU];
    forecast.busy_s[SLUICE_NETWORK] = sum[SLUICE_LOAD_NET_DOWN] > sum[SLUICE_LOAD_NET_UP]
                                          ? sum[SLUICE_LOAD_NET_DOWN]
                                          : sum[SLUICE_LOAD_NET_UP];
    forecast.busy_s[SLUICE_COMPUTE_CPU] = sum[SLUICE_LOAD_COMPUTE_CPU];
    forecast.busy_s[SLUICE_GPU] = sum[SLUICE_LOAD_GPU];
    for (int r = 0; r < SLUICE_NUM_RESOURCES; r++) {
        if (forecast.busy_s[r] > forecast.primal_s) {
            forecast.primal_s = forecast.busy_s[r];
            forecast.slowest = (enum sluice_resource)r;
        }
    }
    return forecast;
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
    const struct sluice_form_menu *menu = context;
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(menu, offered, &num_offered);
    for (size_t i = 0; i < count; i++) {
        double cost[SLUICE_NUM_CHOICES][SLUICE_NUM_LOADS];
        for (unsigned c = 0; c < num_offered; c++)
            cost_of(menu, first + i, offered[c], cost[c]);
        sluice_menu_set(&scratch[i], num_offered, (const double(*)[SLUICE_NUM_LOADS])cost);
    }
    return scratch;
}

/* sum of min of the priced costs, in the table's own numbers: menus round theirs. */
static double bound_at(const struct sluice_form_menu *menu,
                       const struct sluice_capacities *capacities,
                       const double price[SLUICE_NUM_LOADS])
{
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(menu, offered, &num_offered);
    double bound_s = 0;
    for (size_t i = 0; i < menu->table->num_rows; i++) {
        double least = INFINITY;
        for (unsigned c = 0; c < num_offered; c++) {
            double cost[SLUICE_NUM_LOADS], sum = 0;
            cost_of(menu, i, offered[c], cost);
            for (int r = 0; r < SLUICE_NUM_LOADS; r++)
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
    const struct sluice_menu_source source = {
        .num_samples = menu->table->num_rows,
        .get = get_menus,
        .context = (void *)(uintptr_t)menu,
    };
    struct sluice_lp_result result;
    const sluice_status status = sluice_plan_lp(&source, &capacities, choice, &result, err);
    if (status != SLUICE_OK)
        return status;
    uint8_t offered[SLUICE_NUM_CHOICES];
    unsigned num_offered;
    list_offered(menu, offered, &num_offered);
    for (size_t i = 0; i < menu->table->num_rows; i++)
        choice[i] = offered[choice[i]];
    *bound_s = bound_at(menu, &capacities, result.price);
    return SLUICE_OK;
}
