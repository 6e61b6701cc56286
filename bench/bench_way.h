#ifndef SLUICE_BENCH_BENCH_WAY_H
#define SLUICE_BENCH_BENCH_WAY_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes on their way from one socket to another, held until they are due: what relays are made of.
 * Each connection has two, one for each direction.  When a chunk is due is the relay's to say.
 *
 * Threads: one. */

struct bench_chunk {
    uint64_t due_ns;
    size_t len, sent;
    uint8_t *bytes;
};

struct bench_way {
    int from, to;
    bool is_open;
    size_t first, count, num_chunks; /* chunks that wait, and room for them */
    struct bench_chunk chunks[];
};

/* The bench ends where there is no memory. */
struct bench_way *bench_way_create(int from, int to, size_t num_chunks);
void bench_way_destroy(struct bench_way *way); /* the sockets stay open */

/* Without waiting: the chunk that came in, due at once, or NULL.  There must be room. */
struct bench_chunk *bench_way_take_in(struct bench_way *way);
/* Sends what is due, as far as the socket takes it. */
void bench_way_let_out(struct bench_way *way, uint64_t now_ns);

static inline bool bench_way_has_room(const struct bench_way *way)
{
    return way->is_open && way->count < way->num_chunks;
}

/* When the next chunk is due; UINT64_MAX: none waits. */
static inline uint64_t bench_way_due_ns(const struct bench_way *way)
{
    return way->count > 0 ? way->chunks[way->first].due_ns : UINT64_MAX;
}

/* ppoll() until wake_ns at most; UINT64_MAX: for ever. */
void bench_way_poll(struct pollfd *polls, nfds_t num_polls, uint64_t now_ns, uint64_t wake_ns);

#endif
