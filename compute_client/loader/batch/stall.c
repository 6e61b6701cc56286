#include "compute_client/loader/batch/stall.h"

static uint64_t overlap(uint64_t from_a, uint64_t to_a, uint64_t from_b, uint64_t to_b)
{
    const uint64_t from = from_a > from_b ? from_a : from_b;
    const uint64_t to = to_a < to_b ? to_a : to_b;
    return to > from ? to - from : 0;
}

static uint64_t at_most(uint64_t value, uint64_t limit)
{
    return value < limit ? value : limit;
}

void sluice_stall_attribute(const struct sluice_sample_times *times, uint64_t from, uint64_t to,
                            uint64_t ns[SLUICE_NUM_RESOURCES])
{
    const uint64_t away = times->arrived_ns - times->requested_ns;
    const uint64_t read_ns = at_most(times->disk_ns, away);
    const uint64_t at_storage = at_most(times->storage_ns, away - read_ns);
    const uint64_t queue = at_most(times->queue_ns, at_storage);
    const uint64_t served = at_storage - queue + read_ns;
    const uint64_t queue_for_disk =
        served > 0 ? (uint64_t)((double)queue * ((double)read_ns / (double)served)) : 0;
    const uint64_t disk = read_ns + queue_for_disk;
    const uint64_t storage = at_storage - queue_for_disk;
    const uint64_t backlog = at_most(times->backlog_ns, away - disk - storage);
    /* If the backlog takes all of the time, nothing tells what it waited for: it counts as
     * network. */
    const double stretch = backlog < away ? (double)away / (double)(away - backlog) : 1;
    const uint64_t worked = at_most((uint64_t)((double)storage * stretch), away);
    const uint64_t read = at_most((uint64_t)((double)disk * stretch), away - worked);

    const uint64_t making = times->made_ns - times->done_ns;
    const uint64_t lane_cpu_ns = times->lane_ns - at_most(times->gpu_ns, times->lane_ns);
    const uint64_t prepared =
        times->lane_ns > 0
            ? at_most((uint64_t)((double)making * (double)lane_cpu_ns / (double)times->lane_ns),
                      making)
            : 0;

    const uint64_t step[] = {
        times->requested_ns, times->requested_ns + worked, times->requested_ns + worked + read,
        times->arrived_ns,   times->done_ns + prepared,    times->made_ns};
    const enum sluice_resource cause[] = {SLUICE_STORAGE_CPU, SLUICE_DISK,
                                          times->is_local ? SLUICE_COMPUTE_CPU : SLUICE_NETWORK,
                                          SLUICE_COMPUTE_CPU, SLUICE_STALL_GPU};
    uint64_t spent[SLUICE_NUM_RESOURCES] = {0}, named = 0;
    for (int i = 0; i < 5; i++) {
        const uint64_t waited = overlap(from, to, step[i], step[i + 1]);
        spent[cause[i]] += step[i + 1] - step[i];
        ns[cause[i]] += waited;
        named += waited;
    }
    ns[sluice_stall_largest(spent)] += to - from - named;
}
