#include "compute_client/fetch/replica_load.h"

#include "compute_client/fetch/tuning.h"

#include <assert.h>
#include <math.h>

static double seconds(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) * 1e-9 : 0;
}

void sluice_replica_load_asked(struct sluice_replica_load *load, uint64_t now_ns)
{
    if (load->num_owed++ == 0)
        load->since_ns = now_ns;
}

void sluice_replica_load_answered(struct sluice_replica_load *load, uint64_t asked_ns,
                                  uint64_t now_ns)
{
    assert(load->num_owed > 0);
    load->num_owed--;
    const double gap_s = seconds(load->since_ns, now_ns);
    const double kept = exp(-gap_s * 1e9 / TUNING_REPLICA_MEMORY_NS);
    load->answers = load->answers * kept + 1;
    load->busy_s = load->busy_s * kept + gap_s;
    if (!(load->pause_s > 0) && gap_s > 0) {
        load->pause_s = gap_s;
        load->deviation_s = gap_s / 2;
    } else if (gap_s > TUNING_REPLY_BURST_S) {
        load->deviation_s += (fabs(gap_s - load->pause_s) - load->deviation_s) / 4;
        load->pause_s += (gap_s - load->pause_s) / 8;
    }
    load->since_ns = now_ns;
    const double trip_s = seconds(asked_ns, now_ns);
    if (!(load->shortest_trip_s > 0) || trip_s < load->shortest_trip_s)
        load->shortest_trip_s = trip_s;
    if (!(load->trip_s > 0) || trip_s < load->trip_s)
        load->trip_s = trip_s;
    else
        load->trip_s += (trip_s - load->trip_s) / 64;
}

void sluice_replica_load_forgot(struct sluice_replica_load *load)
{
    assert(load->num_owed > 0);
    load->num_owed--;
}

double sluice_replica_load_gap_s(const struct sluice_replica_load *load)
{
    return load->answers > 0 ? load->busy_s / load->answers : 0;
}

double sluice_replica_load_usual_silence_s(const struct sluice_replica_load *load)
{
    return load->pause_s + 4 * load->deviation_s;
}

size_t sluice_replica_load_most_owed(const struct sluice_replica_load *load)
{
    /* Not trip_s: that has the wait behind what was asked for before, and would feed itself. */
    const double trips_s = TUNING_REPLICA_AHEAD_TRIPS * load->shortest_trip_s;
    const double ahead_s = trips_s > TUNING_REPLICA_AHEAD_S ? trips_s : TUNING_REPLICA_AHEAD_S;
    const double gap_s = sluice_replica_load_gap_s(load);
    const double most = gap_s > 0 ? ahead_s / gap_s : 0;
    return most > TUNING_REPLICA_LEAST_AHEAD ? (size_t)fmin(most, UINT32_MAX)
                                             : TUNING_REPLICA_LEAST_AHEAD;
}

double sluice_replica_load_wait_s(const struct sluice_replica_load *load, uint64_t now_ns,
                                  double usual_gap_s)
{
    const double gap_s = load->answers > 0 ? sluice_replica_load_gap_s(load) : usual_gap_s;
    const double since_s = seconds(load->since_ns, now_ns);
    double wait_s = (double)(load->num_owed + 1) * gap_s;
    if (load->trip_s > wait_s)
        wait_s = load->trip_s;
    if (load->num_owed > 0)
        return since_s > wait_s ? since_s : wait_s;
    return wait_s * exp2(-since_s * 1e9 / TUNING_REPLICA_FORGET_NS);
}
