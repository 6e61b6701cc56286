#include "storage_server/work/cpu_price.h"

#include "storage_server/tuning.h"

#include <math.h>
#include <string.h>

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns)
{
    return (struct sluice_cpu_price){.period_ns = now_ns, .last_ns = now_ns};
}

/* Capacity: an exponential average (EWMA) with two inputs.  For the time in which workers had jobs
 * it moves to what they did per second, since they would do the same if they had jobs all the time.
 * For the rest of the time it moves to what they may use, since nothing contradicts that.  Time for
 * jobs of others is part of the rest if no job waited: more jobs would have had it. */
static void learn_cores(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                        double elapsed_s)
{
    p->seen.elapsed_s += elapsed_s;
    p->seen.done_s += load->done_s;
    p->seen.busy_s += load->busy_s;
    p->seen.idle_s += load->idle_s;
    p->seen.others_s += load->was_empty ? load->others_s : 0;
    if (p->seen.elapsed_s >= CPU_PRICE_SEEN_S) {
        const double own_s = p->seen.busy_s + p->seen.idle_s, all_s = own_s + p->seen.others_s;
        const double busy_s = own_s > 0 ? p->seen.busy_s / own_s * p->seen.elapsed_s : 0;
        const double left_s =
            all_s > 0 ? (1 - p->seen.busy_s / all_s) * p->seen.elapsed_s : p->seen.elapsed_s;
        if (busy_s > 0)
            p->cores +=
                (p->seen.done_s / busy_s - p->cores) * (1 - exp(-busy_s / CPU_PRICE_BUSY_S));
        p->cores += (load->cores - p->cores) * (1 - exp(-left_s / CPU_PRICE_IDLE_S));
        memset(&p->seen, 0, sizeof(p->seen));
    }
    p->cores = p->cores > 0 ? fmin(p->cores, load->cores) : load->cores;
}

/* The running minimum of the queue over this period and the one before. */
static void find_standing(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                          uint64_t now_ns, double cores)
{
    const double waiting_s = load->was_empty ? 0 : load->waiting_s / cores;
    if (now_ns - p->period_ns >= CPU_PRICE_PERIOD_NS) {
        p->least_s[1] = p->least_s[0];
        p->least_s[0] = waiting_s;
        p->period_ns = now_ns;
    } else {
        p->least_s[0] = fmin(p->least_s[0], waiting_s);
    }
    p->standing_s = fmin(p->least_s[0], p->least_s[1]);
}

/* The mean that was told.  Without one, a multiplicative search: up while jobs stand, down while
 * cores are idle. */
static void find_worth(struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                       double elapsed_s, double level)
{
    if (load->worth > 0) {
        p->worth = load->worth;
        return;
    }
    /* A long time without an update was idle all along, but a full queue may have filled just now.
     */
    const double step_s = level > 0 ? fmin(elapsed_s, CPU_PRICE_MAX_RISE_S) : elapsed_s;
    if (level > 0)
        p->worth = fmax(p->worth, SLUICE_CPU_PRICE_LEAST);
    p->worth = fmin(p->worth * exp(CPU_PRICE_SEARCH_GAIN * level * step_s), SLUICE_CPU_PRICE_MOST);
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
    p->asked += (clamp(asked, -1, 2) - p->asked) * (1 - exp(-elapsed_s / CPU_PRICE_SMOOTH_S));
    p->waiting_s = load->waiting_s;
    const double level = clamp(CPU_PRICE_RATE_GAIN * p->asked +
                                   CPU_PRICE_QUEUE_GAIN * (p->standing_s - CPU_PRICE_TARGET_S),
                               -CPU_PRICE_MAX_LEVEL, CPU_PRICE_MAX_LEVEL);
    find_worth(p, load, elapsed_s, level);
    const double price = p->worth * exp(level);
    const bool is_shared = load->num_followers > 1 || (load->num_followers && load->has_silent);
    p->price =
        is_shared && price >= SLUICE_CPU_PRICE_LEAST ? fmin(price, SLUICE_CPU_PRICE_MOST) : 0;
    return p->price;
}
