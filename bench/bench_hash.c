/* What hashing a sample's reply costs either node: sealing it where it was made, and checking it
 * where it arrived, as one core's time.  docs/BENCHMARKING.md
 *
 * The reference is the time that the payload takes on a link of 1 Gbit/s; `core_percent` is how
 * much of a core hashing takes while such a link is full. */

#include "base/buf.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "wire/wire.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of payloads that go round: `warm` stays in a core's cache, `cold` in none. */
#define WARM_BYTES (300u << 10)
#define COLD_BYTES (64u << 20)
#define LINK_BYTES_PER_US 125.0 /* 1 Gbit/s */
#define PIECE_BYTES (64u << 10) /* of a received message, as gRPC cuts it */

static const size_t sizes[] = {50000, 110000, 150000};

struct payloads {
    size_t count;
    struct sluice_buf **bufs;
    struct sluice_message *messages; /* with one sealed reply each */
};

static const struct sluice_draw_key key = {.seed = 1, .epoch = 2, .sample_id = 3};

static struct sluice_message received(const uint8_t *data, size_t len)
{
    struct sluice_message message = {0};
    struct sluice_err err = {0};
    for (size_t at = 0; at < len; at += PIECE_BYTES) {
        const size_t piece = len - at < PIECE_BYTES ? len - at : PIECE_BYTES;
        bench_check(sluice_message_append_ref(&message, data + at, piece, NULL, NULL, &err), &err);
    }
    return message;
}

static struct payloads payloads_make(size_t size, size_t bytes)
{
    struct payloads p = {.count = bytes / size + 1};
    struct sluice_err err = {0};
    p.bufs = calloc(p.count, sizeof(void *));
    p.messages = calloc(p.count, sizeof(*p.messages));
    if (!p.bufs || !p.messages)
        bench_die("no memory");
    for (size_t i = 0; i < p.count; i++) {
        bench_check(sluice_buf_create(NULL, size, &p.bufs[i], &err), &err);
        memset(p.bufs[i]->data, (int)i, size);
        p.bufs[i]->len = size;
        struct sluice_wire_sample_reply reply = {.request_id = i, .payload = p.bufs[i]};
        struct sluice_message message = {0};
        sluice_wire_seal_sample_reply(&reply, &key, 0);
        bench_check(sluice_wire_put_sample_reply(&reply, &message, &err), &err);
        bench_check(
            sluice_wire_put_load(&(struct sluice_wire_load){.queue_depth = 1}, &message, &err),
            &err);
        uint8_t *flat = malloc(message.len);
        struct sluice_cursor cursor = sluice_cursor_init(&message);
        if (!flat || !sluice_cursor_read(&cursor, flat, message.len))
            bench_die("no memory");
        const size_t len = message.len;
        sluice_message_clear(&message);
        p.messages[i] = received(flat, len);
        p.messages[i].segments[0].owner = flat;
        p.messages[i].segments[0].release = free;
    }
    return p;
}

static void payloads_clear(struct payloads *p)
{
    for (size_t i = 0; i < p->count; i++) {
        sluice_buf_unref(p->bufs[i]);
        sluice_message_clear(&p->messages[i]);
    }
    free(p->bufs);
    free(p->messages);
}

static void check_sample(void *ctx, const struct sluice_wire_sample_reply *reply)
{
    *(bool *)ctx = sluice_wire_sample_reply_is_whole(reply, &key, 0);
}

static void work(const struct payloads *p, size_t i, bool is_check)
{
    if (!is_check) {
        struct sluice_wire_sample_reply reply = {.request_id = i, .payload = p->bufs[i]};
        sluice_wire_seal_sample_reply(&reply, &key, 0);
        __asm__ volatile("" : : "r"(reply.hash) : "memory");
        return;
    }
    bool is_whole = false;
    if (!sluice_wire_fetch_reply_is_whole(&p->messages[i]) ||
        sluice_wire_get_fetch_reply(&p->messages[i], SIZE_MAX, check_sample, &is_whole, NULL,
                                    NULL) != SLUICE_OK ||
        !is_whole)
        bench_die("a reply that is not whole");
}

static double measure_us(const struct payloads *p, bool is_check, unsigned repeats)
{
    assert(p->count > 0);
    double times[100];
    for (size_t i = 0; i < p->count; i++)
        work(p, i, is_check);
    for (unsigned r = 0; r < repeats; r++) {
        const size_t rounds = 1 + 300 / p->count;
        const uint64_t start_ns = sluice_thread_cpu_ns();
        for (size_t round = 0; round < rounds; round++) {
            for (size_t i = 0; i < p->count; i++)
                work(p, i, is_check);
        }
        times[r] = (double)(sluice_thread_cpu_ns() - start_ns) * 1e-3 / (double)(rounds * p->count);
    }
    return bench_quantile(times, repeats, 0.5);
}

int main(int argc, char **argv)
{
    uint64_t repeats = 9;
    bool is_json = false;
    const struct sluice_option options[] = {
        {.name = "repeats",
         SLUICE_VALUE_UINT(repeats, "N"),
         .help = "The median of so many is printed. Default: 9.",
         SLUICE_RANGE(1, 100)},
        {.name = "json", SLUICE_VALUE_FLAG(is_json), .help = "One JSON object a line."},
    };
    const struct sluice_cli cli = {
        .program = "bench_hash",
        .summary = "Measures what the hashes of replies cost.",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
    };
    const struct sluice_cli_result args = sluice_cli_parse(&cli, argc, argv);
    if (args.should_exit)
        return args.exit_code;
    bench_pin(0);
    bench_print_machine();
    struct bench_report report = {.is_json = is_json};
    for (size_t s = 0; s < SLUICE_ARRAY_LEN(sizes); s++) {
        for (int is_cold = 0; is_cold < 2; is_cold++) {
            struct payloads p = payloads_make(sizes[s], is_cold ? COLD_BYTES : WARM_BYTES);
            for (int is_check = 0; is_check < 2; is_check++) {
                char name[64];
                snprintf(name, sizeof(name), "%s %zu %s", is_check ? "check" : "seal", sizes[s],
                         is_cold ? "cold" : "warm");
                const double us = measure_us(&p, is_check, (unsigned)repeats);
                const double link_us = (double)sizes[s] / LINK_BYTES_PER_US;
                bench_row_begin(&report, name);
                bench_row_number(&report, "us", 2, us);
                bench_row_number(&report, "bytes", 0, (double)sizes[s]);
                bench_row_number(&report, "reference_us", 1, link_us);
                bench_row_number(&report, "ratio", 0, link_us / us);
                bench_row_number(&report, "core_percent", 2, 100 * us / link_us);
                bench_row_end(&report);
            }
            payloads_clear(&p);
        }
    }
    return 0;
}
