#include "rpc/grpc151/frame_watch.h"

#include "base/compiler.h"

#define PREFACE_BYTES 24

enum { HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, WINDOW_UPDATE = 8, CONTINUATION = 9 };
#define ACK 1

void frame_watch_init(struct frame_watch *watch, uint64_t now_ns)
{
    *watch = (struct frame_watch){
        .skip = PREFACE_BYTES, .tokens = FRAME_WATCH_BURST, .filled_ns = now_ns};
}

static enum frame_verdict spend(struct frame_watch *watch, bool is_reset, uint64_t now_ns)
{
    watch->tokens += (double)(now_ns - watch->filled_ns) / 1e9 * FRAME_WATCH_PER_S;
    watch->filled_ns = now_ns;
    if (watch->tokens >= FRAME_WATCH_BURST) {
        watch->tokens = FRAME_WATCH_BURST;
        watch->resets = watch->controls = 0;
    }
    if (is_reset)
        watch->resets++;
    else
        watch->controls++;
    watch->tokens -= 1;
    if (watch->tokens >= 0)
        return FRAMES_FINE;
    return watch->resets >= watch->controls ? FRAMES_TOO_MANY_RESETS : FRAMES_TOO_MANY_CONTROLS;
}

static enum frame_verdict add_to_block(struct frame_watch *watch, uint32_t len)
{
    /* An empty frame counts, too: it costs a pass through the parser. */
    watch->block_bytes += (uint32_t)sizeof(watch->header) + len;
    return watch->block_bytes > FRAME_WATCH_HEADER_BYTES ? FRAMES_LONG_HEADERS : FRAMES_FINE;
}

static enum frame_verdict take_header(struct frame_watch *watch, uint64_t now_ns)
{
    const uint8_t *h = watch->header;
    const uint32_t len = (uint32_t)h[0] << 16 | (uint32_t)h[1] << 8 | h[2];
    const uint8_t type = h[3], flags = h[4];
    watch->skip = len;
    switch (type) {
    case 0: /* DATA: flow control bounds it */
    case WINDOW_UPDATE:
        return FRAMES_FINE;
    case HEADERS:
        if (!watch->has_acknowledged && ++watch->early_streams > FRAME_WATCH_EARLY_STREAMS)
            return FRAMES_NO_SETTINGS_ACK;
        watch->block_bytes = 0;
        return add_to_block(watch, len);
    case CONTINUATION:
        return add_to_block(watch, len);
    case SETTINGS:
    case PING:
        if (flags & ACK) {
            watch->has_acknowledged |= type == SETTINGS;
            return FRAMES_FINE;
        }
        return spend(watch, false, now_ns);
    default:
        return spend(watch, type == RST_STREAM, now_ns);
    }
}

/* The bytes lie in buffers of gRPC, which passes them on in an order that ThreadSanitizer cannot
 * see. */
SLUICE_NO_TSAN
enum frame_verdict frame_watch_feed(struct frame_watch *watch, const void *data, size_t len,
                                    uint64_t now_ns)
{
    const uint8_t *in = data;
    while (len > 0) {
        if (watch->skip > 0) {
            const size_t step = watch->skip < len ? watch->skip : len;
            watch->skip -= (uint32_t)step;
            in += step;
            len -= step;
            continue;
        }
        watch->header[watch->num_header++] = *in++;
        len--;
        if (watch->num_header == sizeof(watch->header)) {
            watch->num_header = 0;
            const enum frame_verdict verdict = take_header(watch, now_ns);
            if (verdict != FRAMES_FINE)
                return verdict;
        }
    }
    return FRAMES_FINE;
}

const char *frame_verdict_text(enum frame_verdict verdict)
{
    switch (verdict) {
    case FRAMES_LONG_HEADERS:
        return "header fields (HEADERS and CONTINUATION frames) without end";
    case FRAMES_TOO_MANY_RESETS:
        return "too many resets of streams";
    case FRAMES_TOO_MANY_CONTROLS:
        return "too many SETTINGS, PING, PRIORITY or unknown frames";
    case FRAMES_NO_SETTINGS_ACK:
        return "many streams, and our settings are not acknowledged";
    case FRAMES_FINE:
        break;
    }
    return "nothing";
}
