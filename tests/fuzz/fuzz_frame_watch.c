/* What a client sends to the server: whatever the bytes, and in whatever pieces they come, the
 * verdict is the same and falls at the same byte. */

#include "rpc/grpc151/frame_watch.h"

#include "fuzz.h"

/* The bytes that were fine, in pieces of `piece`; *verdict for the one after them. */
static size_t feed(const uint8_t *data, size_t size, size_t piece, enum frame_verdict *verdict)
{
    struct frame_watch watch;
    frame_watch_init(&watch, 1);
    *verdict = FRAMES_FINE;
    for (size_t at = 0; at < size; at += piece) {
        *verdict =
            frame_watch_feed(&watch, data + at, piece < size - at ? piece : size - at, 1 + at);
        if (*verdict != FRAMES_FINE)
            return at;
        if (watch.num_header >= sizeof(watch.header))
            abort();
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum frame_verdict each, seven, all;
    const size_t end = feed(data, size, 1, &each);
    const size_t near = feed(data, size, 7, &seven);
    (void)feed(data, size, size + 1, &all);
    if (each != seven || each != all || near > end || (each != FRAMES_FINE && end - near >= 7))
        abort();
    return 0;
}
