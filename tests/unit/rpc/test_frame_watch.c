#include "rpc/grpc151/frame_watch.h"

#include "support/test.h"

enum { DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING = 6, WINDOW_UPDATE = 8, CONTINUATION };

/* A connection of which the bytes come in pieces of `piece`. */
struct peer {
    struct frame_watch watch;
    size_t piece;
    uint64_t now_ns;
    enum frame_verdict verdict;
};

static void feed(struct peer *peer, const uint8_t *data, size_t len)
{
    for (size_t at = 0; at < len && peer->verdict == FRAMES_FINE; at += peer->piece) {
        const size_t n = len - at < peer->piece ? len - at : peer->piece;
        peer->verdict = frame_watch_feed(&peer->watch, data + at, n, peer->now_ns);
    }
}

static struct peer connect_peer(size_t piece)
{
    struct peer peer = {.piece = piece, .now_ns = 1};
    frame_watch_init(&peer.watch, peer.now_ns);
    feed(&peer, (const uint8_t *)"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24);
    return peer;
}

static void send_frame(struct peer *peer, int type, int flags, uint32_t len)
{
    /* The payload looks like headers of RST_STREAM frames: it must be skipped. */
    static uint8_t frame[9 + 20000];
    const uint8_t header[9] = {(uint8_t)(len >> 16),
                               (uint8_t)(len >> 8),
                               (uint8_t)len,
                               (uint8_t)type,
                               (uint8_t)flags,
                               0,
                               0,
                               0,
                               1};
    memcpy(frame, header, 9);
    memset(frame + 9, RST_STREAM, len);
    feed(peer, frame, 9 + len);
}

static const size_t pieces[] = {1, 7, 9, 10, 4096, 1u << 20};

TEST(an_ordinary_connection_is_fine)
{
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(pieces); p++) {
        struct peer peer = connect_peer(pieces[p]);
        send_frame(&peer, SETTINGS, 0, 36);
        send_frame(&peer, SETTINGS, 1, 0);
        for (int i = 0; i < 2000; i++) {
            send_frame(&peer, HEADERS, 4, 200);
            send_frame(&peer, DATA, 1, 30);
            send_frame(&peer, WINDOW_UPDATE, 0, 4);
            send_frame(&peer, PING, 1, 8);
        }
        CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
    }
}

TEST(header_fields_are_bounded_in_each_block)
{
    for (size_t p = 0; p < SLUICE_ARRAY_LEN(pieces); p++) {
        struct peer peer = connect_peer(pieces[p]);
        for (int i = 0; i < 10; i++) { /* each block is below the limit */
            send_frame(&peer, HEADERS, 0, 16000);
            send_frame(&peer, CONTINUATION, 0, 16000);
            send_frame(&peer, CONTINUATION, 4, 16000);
        }
        CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
        send_frame(&peer, HEADERS, 0, 16000);
        for (int i = 0; i < 3; i++)
            send_frame(&peer, CONTINUATION, 0, 16000);
        CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
        send_frame(&peer, CONTINUATION, 0, 16000);
        CU_ASSERT_EQUAL(peer.verdict, FRAMES_LONG_HEADERS);
    }
}

TEST(empty_continuations_are_bounded)
{
    struct peer peer = connect_peer(4096);
    send_frame(&peer, HEADERS, 0, 10);
    unsigned sent = 0;
    while (peer.verdict == FRAMES_FINE && sent < 100000)
        send_frame(&peer, CONTINUATION, 0, 0), sent++;
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_LONG_HEADERS);
    CU_ASSERT(sent <= FRAME_WATCH_HEADER_BYTES / 9);
}

TEST(resets_have_a_burst_and_a_rate)
{
    struct peer peer = connect_peer(64);
    send_frame(&peer, SETTINGS, 1, 0);
    for (int i = 0; i < FRAME_WATCH_BURST; i++)
        send_frame(&peer, RST_STREAM, 0, 4);
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
    for (int s = 0; s < 100; s++) {
        peer.now_ns += 1000000000u;
        for (int i = 0; i < FRAME_WATCH_PER_S; i++)
            send_frame(&peer, RST_STREAM, 0, 4);
    }
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
    send_frame(&peer, RST_STREAM, 0, 4);
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_TOO_MANY_RESETS);
}

TEST(frames_that_carry_nothing_are_bounded)
{
    static const int types[] = {SETTINGS, PING, PRIORITY, 0x42};
    for (size_t t = 0; t < SLUICE_ARRAY_LEN(types); t++) {
        struct peer peer = connect_peer(4096);
        for (int i = 0; i <= FRAME_WATCH_BURST && peer.verdict == FRAMES_FINE; i++)
            send_frame(&peer, types[t], 0, 8);
        CU_ASSERT_EQUAL(peer.verdict, FRAMES_TOO_MANY_CONTROLS);
    }
}

TEST(early_streams_are_bounded)
{
    struct peer peer = connect_peer(4096);
    for (int i = 0; i < FRAME_WATCH_EARLY_STREAMS; i++)
        send_frame(&peer, HEADERS, 4, 100);
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_FINE);
    struct peer late = peer;
    send_frame(&peer, HEADERS, 4, 100);
    CU_ASSERT_EQUAL(peer.verdict, FRAMES_NO_SETTINGS_ACK);
    send_frame(&late, SETTINGS, 1, 0);
    for (int i = 0; i < 10; i++)
        send_frame(&late, HEADERS, 4, 100);
    CU_ASSERT_EQUAL(late.verdict, FRAMES_FINE);
}

TEST(every_verdict_has_a_text)
{
    for (int v = FRAMES_LONG_HEADERS; v <= FRAMES_NO_SETTINGS_ACK; v++)
        CU_ASSERT_STRING_NOT_EQUAL(frame_verdict_text((enum frame_verdict)v),
                                   frame_verdict_text(FRAMES_FINE));
}
