#ifndef SLUICE_RPC_GRPC151_FRAME_WATCH_H
#define SLUICE_RPC_GRPC151_FRAME_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Private to lib/rpc: watches a client's HTTP/2 frames (RFC 9113, section 4.1); reads only their
 * headers.  Detects floods that gRPC 1.51 does not limit: CONTINUATION frames without an end,
 * resets in rapid sequence (CVE-2023-44487), other frames that cost work and carry nothing, and
 * streams beyond the limit that a client never acknowledges.
 *
 * Threads: one at a time. */

/* Bytes of one block of header fields, its frames included.  gRPC itself rejects more than 16 kB of
 * fields, but only after it has received the whole block. */
#define FRAME_WATCH_HEADER_BYTES (64u << 10)

/* RST_STREAM, SETTINGS, PING, PRIORITY and unknown frames: a token bucket of this size, refilled at
 * this rate per second.  A client that cancels all of its 128 streams at once sends 128. */
#define FRAME_WATCH_BURST 1000
#define FRAME_WATCH_PER_S 100

/* Streams that a client may open before it acknowledges our settings, which limit streams. */
#define FRAME_WATCH_EARLY_STREAMS 1000

enum frame_verdict {
    FRAMES_FINE,
    FRAMES_LONG_HEADERS,
    FRAMES_TOO_MANY_RESETS,
    FRAMES_TOO_MANY_CONTROLS,
    FRAMES_NO_SETTINGS_ACK,
};

struct frame_watch {
    uint8_t header[9]; /* of the next frame, as far as received */
    uint8_t num_header;
    bool has_acknowledged;
    uint32_t skip; /* bytes until the next frame's header */
    uint32_t block_bytes;
    uint32_t early_streams;
    uint32_t resets, controls; /* since the bucket was full */
    double tokens;
    uint64_t filled_ns; /* the time of `tokens` */
};

/* Starts with a new connection, which begins with the client's preface. */
void frame_watch_init(struct frame_watch *watch, uint64_t now_ns);

/* Checks the next bytes received.  Cut the connection once the verdict is not FRAMES_FINE. */
enum frame_verdict frame_watch_feed(struct frame_watch *watch, const void *data, size_t len,
                                    uint64_t now_ns);

const char *frame_verdict_text(enum frame_verdict verdict); /* "CONTINUATION frames without end" */

#endif
