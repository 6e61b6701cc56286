#include "storage_server/cpu_price.h"

#include <math.h>

/* A queue that is too long by half of this or more shrinks by half of what the cores do. */
#define QUEUE_S 0.5

/* What is seen between two looks is noisy: jobs start and end one by one. */
#define SMOOTH_S 0.1
#define MEAN_S 2.0

/* Chosen by simulation.  tests/unit/storage_server/test_cpu_price.c: from demands of 1.2 to 8 times
 * the cores, clients that follow after 0.2 to 1 s, and prices from 0.05 to 30, the cores stay busy
 * and the price comes to rest.  tests/property/test_several_clients.c: so do real plans. */
#define MOST_GAIN 2.0
#define LEAST_GAIN 0.125
#define TURN_SIGNAL 0.3 /* less is noise */
/* Octaves from turn to turn: a swing, which is to become smaller; and next to nothing. */
#define WIDE 0.3
#define NARROW 0.05
#define WIDE_FACTOR 0.6
#define NARROW_FACTOR 1.1
#define FAR_S 4 /* longer than clients take to follow: their lag alone is not far to go */

/* One look at the queue says no more than this of the time before. */
#define MOST_STEP_S 0.25

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns)
{
    return (struct sluice_cpu_price){
        .gain = MOST_GAIN, .turned_at = log2(SLUICE_CPU_PRICE_LEAST), .last_ns = now_ns};
}

/* The workers that followers could have: all that others leave, and at least their part. */
static double cores_of(const struct sluice_cpu_load *load, double elapsed_s)
{
    const double left = load->num_workers - load->others_held_s / elapsed_s;
    const double num_followers = load->num_followers ? load->num_followers : 1;
    const double part = load->num_workers * num_followers / (num_followers + load->num_others);
    return left > part ? left : part;
}

/* By how much more was asked for than the cores can do, and shall be for the queue to shrink. */
static double excess_of(const struct sluice_cpu_price *p, const struct sluice_cpu_load *load,
                        double elapsed_s)
{
    const double cores = cores_of(load, elapsed_s);
    const double per_job_s = p->mean_s / cores; /* of all of them together */
    const double num_waiting = (double)load->num_waiting;
    const double growth = (num_waiting - p->num_waiting) * per_job_s / elapsed_s;
    const double to_drain = (num_waiting * per_job_s - SLUICE_CPU_PRICE_TARGET_S) / QUEUE_S;
    /* A job that takes longer than from look to look counts when it is done, so workers may seem
     * idle then, but not while jobs wait for them. */
    const bool has_queue = load->num_waiting && p->num_waiting > 0;
    const double idle = has_queue ? 0 : 1 - load->held_s / (elapsed_s * cores);
    return growth - clamp(idle, 0, 1) + clamp(to_drain, -0.5, 0.5);
}

double sluice_cpu_price_update(struct sluice_cpu_price *p, uint64_t now_ns,
                               const struct sluice_cpu_load *load)
{
    if (now_ns <= p->last_ns)
        return p->price;
    const double elapsed_s = (double)(now_ns - p->last_ns) * 1e-9;
    const double step_s = elapsed_s < MOST_STEP_S ? elapsed_s : MOST_STEP_S;
    if (load->num_done) {
        const double mean_s = load->held_s / (double)load->num_done;
        p->mean_s += (mean_s - p->mean_s) * (p->mean_s > 0 ? 1 - exp(-step_s / MEAN_S) : 1);
    }
    const double seen = clamp(2 * excess_of(p, load, elapsed_s), -4, 4);
    p->signal += (seen - p->signal) * (1 - exp(-elapsed_s / SMOOTH_S));
    const double signal = clamp(p->signal, -1, 1);

    const double octave = log2(fmax(p->price, SLUICE_CPU_PRICE_LEAST));
    const double way = p->was_rising ? octave - p->turned_at : p->turned_at - octave;
    const double ahead = p->was_rising ? signal : -signal;
    if (ahead < -TURN_SIGNAL) {
        if (way > WIDE)
            p->gain = fmax(p->gain * WIDE_FACTOR, LEAST_GAIN);
        else if (way < NARROW)
            p->gain = fmin(p->gain * NARROW_FACTOR, MOST_GAIN);
        p->was_rising = !p->was_rising;
        p->turned_at = octave;
        p->far_s = 0;
    } else if ((p->far_s += ahead > TURN_SIGNAL ? step_s : 0) > FAR_S) {
        p->gain = fmin(p->gain * 2, MOST_GAIN);
        p->far_s = 0;
    }

    /* Idle for long is idle for all of it: the price of a server without clients falls to 0. */
    const double octaves = signal * p->gain * (signal > 0 ? step_s : elapsed_s);
    if (signal > 0 && p->price < SLUICE_CPU_PRICE_LEAST)
        p->price = SLUICE_CPU_PRICE_LEAST;
    p->price = fmin(p->price * exp2(octaves), SLUICE_CPU_PRICE_MOST);
    if (p->price < SLUICE_CPU_PRICE_LEAST)
        p->price = 0;
    p->num_waiting = (double)load->num_waiting;
    p->last_ns = now_ns;
    return p->price;
}
