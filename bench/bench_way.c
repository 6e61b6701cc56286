#include "bench/bench_way.h"

#include "base/clock.h"
#include "bench/bench.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>

#define CHUNK_BYTES (64u << 10)

struct bench_way *bench_way_create(int from, int to, size_t num_chunks)
{
    struct bench_way *way = calloc(1, sizeof(*way) + num_chunks * sizeof(way->chunks[0]));
    if (!way)
        bench_die("no memory for a connection");
    way->from = from;
    way->to = to;
    way->is_open = true;
    way->num_chunks = num_chunks;
    return way;
}

void bench_way_destroy(struct bench_way *way)
{
    for (size_t c = 0; c < way->num_chunks; c++)
        free(way->chunks[c].bytes);
    free(way);
}

struct bench_chunk *bench_way_take_in(struct bench_way *way)
{
    struct bench_chunk *chunk = &way->chunks[(way->first + way->count) % way->num_chunks];
    if (!chunk->bytes && !(chunk->bytes = malloc(CHUNK_BYTES)))
        bench_die("no memory for a connection");
    const ssize_t got = recv(way->from, chunk->bytes, CHUNK_BYTES, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return NULL;
    if (got <= 0) {
        way->is_open = false;
        return NULL;
    }
    chunk->len = (size_t)got;
    chunk->sent = 0;
    chunk->due_ns = 0;
    way->count++;
    return chunk;
}

void bench_way_let_out(struct bench_way *way, uint64_t now_ns)
{
    while (way->count > 0) {
        struct bench_chunk *chunk = &way->chunks[way->first];
        if (chunk->due_ns > now_ns)
            return;
        const ssize_t put = send(way->to, chunk->bytes + chunk->sent, chunk->len - chunk->sent,
                                 MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno != EAGAIN && errno != EINTR) {
            way->is_open = false;
            way->count = 0;
        }
        if (put < 0)
            return;
        chunk->sent += (size_t)put;
        if (chunk->sent < chunk->len)
            return;
        way->first = (way->first + 1) % way->num_chunks;
        way->count--;
    }
}

void bench_way_poll(struct pollfd *polls, nfds_t num_polls, uint64_t now_ns, uint64_t wake_ns)
{
    const uint64_t wait_ns = wake_ns == UINT64_MAX ? 0 : wake_ns > now_ns ? wake_ns - now_ns : 0;
    const struct timespec wait = sluice_clock_timespec(wait_ns);
    (void)ppoll(polls, num_polls, wake_ns == UINT64_MAX ? NULL : &wait, NULL);
}
