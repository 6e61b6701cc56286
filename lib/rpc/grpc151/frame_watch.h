#ifndef SLUICE_RPC_GRPC151_FRAME_WATCH_H
#define SLUICE_RPC_GRPC151_FRAME_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Private to lib/rpc: what a client sends, seen as HTTP/2 frames (RFC 9113, section 4.1).  Only
 * the frames' headers are read.  It tells the floods that gRPC 1.51 takes without a limit:
 * CONTINUATION frames without an end, resets in rapid sequence (CVE-2023-44487), other frames that
 * cost work and carry nothing, and streams beyond the limit that a client never acknowledges.
 *
 * Threads: one at a time. */

/* Bytes of one block of header fields, its frames included.  gRPC itself refuses more than 16 kB of
 * fields, but takes in the rest of the block before it does. */
#define FRAME_WATCH_HEADER_BYTES (64u << 10)

/* RST_STREAM, SETTINGS, PING, PRIORITY and unknown frames: a token bucket of this size, refilled at
 * this rate per second.  A client that cancels all of its 128 streams at once sends 128. */
#define FRAME_WATCH_BURST 1000
#define FRAME_WATCH_PER_S 100

/* Streams that a client opens before it acknowledges our settings, which are what limits them. */
#define FRAME_WATCH_EARLY_STREAMS 1000

enum frame_verdict {
    FRAMES_FINE,
    FRAMES_LONG_HEADERS,
    FRAMES_TOO_MANY_RESETS,
    FRAMES_TOO_MANY_CONTROLS,
    FRAMES_NO_SETTINGS_ACK,
};

struct frame_watch {
    uint8_t header[9]; /* of the frame that comes next, as far as it came */
    uint8_t num_header;
    bool has_acknowledged;
    uint32_t skip; /* bytes until the next frame's header */
    uint32_t block_bytes;
    uint32_t early_streams;
    uint32_t resets, controls; /* since the bucket was full */
    double tokens;
    uint64_t filled_ns; /* when `tokens` was right */
};

/* A connection begins: the client's preface comes first. */
void frame_watch_init(struct frame_watch *watch, uint64_t now_ns);

/* The next bytes that came.  Once it was not FRAMES_FINE the connection is to be cut. */
enum frame_verdict frame_watch_feed(struct frame_watch *watch, const void *data, size_t len,
                                    uint64_t now_ns);

const char *frame_verdict_text(enum frame_verdict verdict); /* "CONTINUATION frames without end" */

#endif
