#ifndef SLUICE_BENCH_BENCH_RPC_H
#define SLUICE_BENCH_BENCH_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The processes of bench_rpc.  Each serves one question at a time over a socket pair, so that
 * runs of all transports take turns and nobody's CPU time is another's.
 *
 *     bench_rpc --ask--> client (a core of its own) --samples asked for--> server (another core)
 *         '-----ask CPU time----------------------------------------------------'     */

enum transport {
    TRANSPORT_TCP,       /* one sendmsg for each sample: 32 bytes of header and the payload */
    TRANSPORT_STREAM,    /* lib/rpc: one sample a message, as the wire codes it */
    TRANSPORT_COALESCED, /* lib/rpc: as many samples a message as make 512 kB */
    TRANSPORT_FETCH,     /* the whole server, a raw file for each sample, from memory */
    TRANSPORT_FETCH_TLS, /* the same over TLS; only with bench_setup.tls */
    NUM_TRANSPORTS,
};

#define MAX_SIZES 8
#define NUM_PAYLOADS                                                                               \
    16 /* distinct ones of each size, so that the sender's are not all in cache                    \
        */

struct bench_ports {
    int of[NUM_TRANSPORTS];
};

struct bench_setup {
    uint64_t sizes[MAX_SIZES];
    size_t num_sizes;
    double limit_bytes_per_s; /* 0: none */
    uint64_t work_ns;         /* what a client does with each sample, on the thread that reads */
    const char *tls;          /* a folder of scripts/dev-certs; NULL: none */
    char root[64];            /* a folder with a file for every payload */
};

/* Requests to the client, and its answers. */
struct bench_ask {
    uint32_t transport, size; /* size: an index */
    uint64_t count;
};
struct bench_answer {
    double seconds;
    struct bench_usage {
        uint64_t cpu_ns;
        uint64_t faults; /* pages that were mapped when they were touched */
        uint64_t wakes;  /* sleeps that ended, and turns of another thread on the core */
    } before, after;
};

/* The two ends of one transport.  Others wait in processes of their own: in one process, gRPC lets
 * the thread of an idle connection poll, and read, for those of the busy one.
 *
 * The server says its port once (int), then answers each byte with its bench_usage so far. */
_Noreturn void bench_rpc_serve(const struct bench_setup *setup, enum transport transport,
                               int control);
_Noreturn void bench_rpc_ask(const struct bench_setup *setup, enum transport transport, int port,
                             int control);

/* Carries bytes from port to port and holds each for `delay_ns` on its way.  Says its own ports. */
_Noreturn void bench_relay(const struct bench_ports *ports, uint64_t delay_ns, int control);

struct bench_usage bench_usage_so_far(void); /* the whole process's */

/* "007/3f.jpg": sorted, so payload p of size s is sample s * NUM_PAYLOADS + p. */
void bench_payload_path(size_t size, size_t payload, char *path, size_t room);

#define BENCH_TCP_HEADER 32
#define BENCH_METHOD "/sluice.bench/Stream"
#define BENCH_COALESCE_BYTES (512u << 10)

#endif
