#include "storage_server/cpu_price.h"

#include <math.h>
#include <string.h>

/* Chosen by simulation: tests/property/test_several_clients.c. */
#define DAMPING 1.2
#define DRAIN 1.0 /* 1/s */
#define MOST_LEVEL 0.7
#define SMOOTH_S 0.2

/* Two such parts are where the least of the queue is looked for: longer than the period of a
 * usual quota (0.1 s). */
#define PART_NS 100000000u

/* Capacity: of what was seen for so long; smoothed by how much of that was busy; and in the rest it
 * may well have become more. */
#define SEEN_S 0.3
#define CORES_S 1.5
#define DOUBT_S 5.0

#define SEARCH 2.0 /* 1/s */
#define MOST_STEP_S 0.25

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns)
{
    return (struct sluice_cpu_price){.part_ns = now_ns, .last_ns = now_ns};
}

/* What workers do while they have jobs is what they would do if they had some all the time.  Where
 * they have those of others instead, and none of these waited, these might have had more. */
static void learn_cores(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                        double elapsed_s)
{
    p->seen.elapsed_s += elapsed_s;
    p->seen.done_s += load->done_s;
    p->seen.busy_s += load->busy_s;
    p->seen.idle_s += load->idle_s;
    p->seen.others_s += load->was_empty ? load->others_s : 0;
    if (p->seen.elapsed_s >= SEEN_S) {
        const double own_s = p->seen.busy_s + p->seen.idle_s, all_s = own_s + p->seen.others_s;
        const double busy_s = own_s > 0 ? p->seen.busy_s / own_s * p->seen.elapsed_s : 0;
        const double left_s =
            all_s > 0 ? (1 - p->seen.busy_s / all_s) * p->seen.elapsed_s : p->seen.elapsed_s;
        if (busy_s > 0)
            p->cores += (p->seen.done_s / busy_s - p->cores) * (1 - exp(-busy_s / CORES_S));
        p->cores += (load->cores - p->cores) * (1 - exp(-left_s / DOUBT_S));
        memset(&p->seen, 0, sizeof(p->seen));
    }
    p->cores = p->cores > 0 ? fmin(p->cores, load->cores) : load->cores;
}

static void find_standing(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                          uint64_t now_ns, double cores)
{
    const double waiting_s = load->was_empty ? 0 : load->waiting_s / cores;
    if (now_ns - p->part_ns >= PART_NS) {
        p->least_s[1] = p->least_s[0];
        p->least_s[0] = waiting_s;
        p->part_ns = now_ns;
    } else {
        p->least_s[0] = fmin(p->least_s[0], waiting_s);
    }
    p->standing_s = fmin(p->least_s[0], p->least_s[1]);
}

/* Where nobody says what the cores are worth, it is looked for: more while jobs stand. */
static void find_worth(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                       double elapsed_s, double level)
{
    if (load->worth > 0) {
        p->worth = load->worth;
        return;
    }
    /* Idle for long is idle for all of it, and a queue that is full says nothing of before. */
    const double step_s = level > 0 ? fmin(elapsed_s, MOST_STEP_S) : elapsed_s;
    if (level > 0)
        p->worth = fmax(p->worth, SLUICE_CPU_PRICE_LEAST);
    p->worth = fmin(p->worth * exp(SEARCH * level * step_s), SLUICE_CPU_PRICE_MOST);
    if (p->worth < SLUICE_CPU_PRICE_LEAST)
        p->worth = 0;
}

double sluice_cpu_price_update(struct sluice_cpu_price *p, uint64_t now_ns,
                               const struct sluice_cpu_load *load)
{
    if (now_ns <= p->last_ns)
        return p->price;
    const double elapsed_s = (double)(now_ns - p->last_ns) * 1e-9;
    p->last_ns = now_ns;
    learn_cores(p, load, elapsed_s);
    const double cores = p->cores;
    find_standing(p, load, now_ns, cores);
    const double growth_s = load->waiting_s - p->waiting_s;
    const double asked = (load->done_s + growth_s) / (elapsed_s * cores) - 1;
    p->asked += (clamp(asked, -1, 2) - p->asked) * (1 - exp(-elapsed_s / SMOOTH_S));
    p->waiting_s = load->waiting_s;
    const double queue = DAMPING * p->asked + DRAIN * (p->standing_s - SLUICE_CPU_PRICE_TARGET_S);
    const double level = clamp(queue, -MOST_LEVEL, MOST_LEVEL);
    find_worth(p, load, elapsed_s, level);
    const double price = p->worth * exp(level);
    const bool is_shared = load->num_followers > 1 || (load->num_followers && load->has_silent);
    p->price =
        is_shared && price >= SLUICE_CPU_PRICE_LEAST ? fmin(price, SLUICE_CPU_PRICE_MOST) : 0;
    return p->price;
}
