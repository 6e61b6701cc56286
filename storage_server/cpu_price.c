#include "storage_server/cpu_price.h"

#include <math.h>

/* A queue that is too long by so much shrinks at once, by half of what the cores do. */
#define QUEUE_S 0.5

/* Chosen by simulation (tests/unit/storage_server/test_cpu_price.c): from demands of 1.2 to 8 times
 * the cores, clients that follow after 0.2 to 1 s, and prices from 0.05 to 30, the cores stay busy
 * and the price comes to rest. */
#define MOST_GAIN 2.0
#define LEAST_GAIN 0.125
#define TURN_FACTOR 0.6
#define FAR_SIGNAL 0.9
#define FAR_S 3 /* longer than clients take to follow: their lag alone is not far to go */

/* One look at the queue says no more than this of the time before. */
#define MOST_STEP_S 0.25

static double clamp(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

struct sluice_cpu_price sluice_cpu_price_init(uint64_t now_ns)
{
    return (struct sluice_cpu_price){.gain = MOST_GAIN, .last_ns = now_ns};
}

double sluice_cpu_price_update(struct sluice_cpu_price *p, uint64_t now_ns, double wait_s,
                               double idle)
{
    if (now_ns <= p->last_ns)
        return p->price;
    const double elapsed_s = (double)(now_ns - p->last_ns) * 1e-9;
    const double step_s = elapsed_s < MOST_STEP_S ? elapsed_s : MOST_STEP_S;
    const double asked_too_much = (wait_s - p->wait_s) / elapsed_s - idle;
    const double to_drain = clamp(wait_s - SLUICE_CPU_PRICE_TARGET_S, -QUEUE_S, QUEUE_S);
    const double signal = clamp(2 * (asked_too_much + to_drain), -1, 1);

    const bool is_rising = signal > 0;
    if (is_rising != p->is_rising) {
        p->gain = fmax(p->gain * TURN_FACTOR, LEAST_GAIN);
        p->far_s = 0;
    } else if (fabs(signal) > FAR_SIGNAL) {
        p->far_s += step_s;
        if (p->far_s > FAR_S) {
            p->gain = fmin(p->gain * 2, MOST_GAIN);
            p->far_s = 0;
        }
    } else {
        p->far_s = 0;
    }

    /* Idle for long is idle for all of it: the price of a server without clients falls to 0. */
    const double octaves = signal * p->gain * (is_rising ? step_s : elapsed_s);
    if (is_rising && p->price < SLUICE_CPU_PRICE_LEAST)
        p->price = SLUICE_CPU_PRICE_LEAST;
    p->price = fmin(p->price * exp2(octaves), SLUICE_CPU_PRICE_MOST);
    if (p->price < SLUICE_CPU_PRICE_LEAST)
        p->price = 0;
    p->is_rising = is_rising;
    p->wait_s = wait_s;
    p->last_ns = now_ns;
    return p->price;
}
