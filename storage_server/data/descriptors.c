#include "storage_server/data/descriptors.h"

#include "base/log.h"
#include "metrics/metrics_server.h"

#include <sys/resource.h>
#include <unistd.h>

/* Standard streams, gRPC's own, root and lists: 16 of an idle server, and as many again. */
#define FOR_THE_PROCESS 32

/* The socket to their fork server, and two that come with a new decoder; each keeps one. */
#define FOR_DECODERS 3

/* A worker has the file of its sample open, and on the way there a folder. */
#define FOR_A_WORKER 2

/* Whoever has more clients than this says so; each connection costs some 10 kB. */
#define MOST_BY_DEFAULT 8192
#define LEAST 8

/* Above this a process that looks at every descriptor it might have takes seconds. */
#define MOST_DESCRIPTORS (1u << 20)

uint64_t sluice_descriptors_raise(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return LEAST;
    const rlim_t most = limit.rlim_max < MOST_DESCRIPTORS ? limit.rlim_max : MOST_DESCRIPTORS;
    if (limit.rlim_cur < most) {
        const struct rlimit raised = {most, limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            return most;
    }
    return limit.rlim_cur;
}

uint64_t sluice_descriptors_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : LEAST;
}

sluice_status sluice_descriptors_share(uint64_t limit, struct sluice_server_options *options,
                                       struct sluice_err *err)
{
    const long cores = sysconf(_SC_NPROCESSORS_CONF);
    const uint64_t prep = options->prep_workers ? options->prep_workers
                          : cores > 0           ? (uint64_t)cores
                                                : 1;
    const uint64_t others = FOR_THE_PROCESS +
                            FOR_A_WORKER * (prep + sluice_server_io_workers(options)) +
                            (options->isolates_decoders ? FOR_DECODERS + prep : 0) +
                            (options->metrics ? SLUICE_METRICS_CONNECTIONS + 2 : 0);
    const uint64_t left = limit > others ? limit - others : 0;
    const uint64_t wanted = options->max_connections ? options->max_connections : LEAST;
    if (wanted > left)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%llu connections need %llu descriptors, and there are %llu (ulimit -n)",
                           (unsigned long long)wanted, (unsigned long long)(others + wanted),
                           (unsigned long long)limit);
    if (!options->max_connections)
        options->max_connections = left < MOST_BY_DEFAULT ? left : MOST_BY_DEFAULT;
    if (!options->max_connections_per_host)
        options->max_connections_per_host = (options->max_connections + 1) / 2;
    if (options->max_connections_per_host > options->max_connections)
        sluice_log(
            SLUICE_LOG_WARN,
            "--max-connections-per-host %llu: no host gets more than --max-connections, %llu",
            (unsigned long long)options->max_connections_per_host,
            (unsigned long long)options->max_connections);
    return SLUICE_OK;
}
