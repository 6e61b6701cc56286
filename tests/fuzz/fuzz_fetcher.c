#include "fuzz_wire.h"

#include "base/buf.h"
#include "base/message.h"
#include "compute_client/fetch/fetcher_state.h"
#include "op/pipeline.h"

/* What a server sends, from the bytes of its messages to finished pixels: the fetcher's side of the
 * stream (fetcher_arrive.c) and sluice_pipeline_finish_u8().
 *
 * The input is a sequence of messages, each after its length in two bytes, the low one first.
 * Requests 0 to NUM_ITEMS - 1 are under way, of sample i under the id (i + 1) << 20 | i, with a
 * split and a form each.  tests/fuzz/make_fetcher_corpus.py makes the corpus, with a real
 * server's replies.
 *
 * Holds: each request is answered at most once, the server stays within its credit and one reply,
 * and what is answered finishes or fails cleanly. */

#define PIPELINE "decode,random_resized_crop=16,hflip=0.5,to_tensor,normalize=imagenet"
#define ROW_BYTES (16 * 16 * 3)
#define NUM_ITEMS 9
#define WINDOW_BYTES 20000
#define FILE_BYTES 6000

static const struct {
    unsigned split;
    enum sluice_form form;
} asked[NUM_ITEMS] = {
    {0, SLUICE_FORM_RAW}, {0, SLUICE_FORM_JPEG_CROP}, {1, SLUICE_FORM_U8},
    {2, SLUICE_FORM_U8},  {3, SLUICE_FORM_U8},        {3, SLUICE_FORM_U8_PACKED},
    {5, SLUICE_FORM_F32}, {1, SLUICE_FORM_U8_PACKED}, {0, SLUICE_FORM_JPEG_ROWS},
};

struct bench {
    struct sluice_fetcher fetcher;
    struct sluice_scratch *scratch;
    unsigned answers[NUM_ITEMS];
};

static void on_result(void *ctx, struct sluice_source_result *result)
{
    struct bench *b = ctx;
    FUZZ_CHECK(result->ticket < NUM_ITEMS && b->answers[result->ticket]++ == 0);
    if (result->status == SLUICE_OK) {
        uint8_t row[ROW_BYTES];
        FUZZ_CHECK(result->payload_bytes == sluice_cursor_left(&result->arrived));
        FUZZ_CHECK(result->sample.ops_done <= asked[result->ticket].split);
        if (sluice_source_gather(result, NULL, NULL) == SLUICE_OK)
            (void)!sluice_pipeline_finish_u8(b->fetcher.pipeline, b->scratch, &result->sample, row,
                                             sizeof(row), NULL);
    } else {
        FUZZ_CHECK(result->error[0] || result->status != SLUICE_E_INTERNAL || !result->message);
    }
    sluice_source_result_clear(result);
}

/* Sends what is to be sent, and grants half of what was taken. */
static void advance(struct sluice_fetcher *f)
{
    while (sluice_pending_send(&f->pending, 1))
        ;
    const uint64_t consumed = f->held_bytes / 2;
    f->held_bytes -= consumed;
    f->credit_bytes += (int64_t)(consumed + f->grant_bytes);
    f->grant_bytes = 0;
}

static void start(struct bench *b, const struct sluice_pipeline *pipeline,
                  struct sluice_scratch *scratch)
{
    *b = (struct bench){.scratch = scratch};
    struct sluice_fetcher *f = &b->fetcher;
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    f->pipeline = pipeline;
    f->max_image_pixels = 1u << 16;
    f->credit_bytes = WINDOW_BYTES;
    f->events = (struct sluice_fetcher_events){.on_result = on_result, .ctx = b};
    FUZZ_CHECK(sluice_pending_init(&f->pending, NUM_ITEMS, NULL) == SLUICE_OK);
    for (unsigned i = 0; i < NUM_ITEMS; i++) {
        const struct sluice_source_item item = {
            .ticket = i,
            .key = {.seed = 1, .epoch = 2, .sample_id = i},
            .path = "",
            .file_bytes = FILE_BYTES,
            .split = asked[i].split,
            .form = asked[i].form,
        };
        sluice_pending_accept(&f->pending, &item, FILE_BYTES, 1);
    }
    advance(f);
}

static void stop(struct bench *b)
{
    sluice_pending_clear(&b->fetcher.pending);
    pthread_cond_destroy(&b->fetcher.changed);
    pthread_mutex_destroy(&b->fetcher.lock);
}

/* In two segments, so that fields go over a seam. */
static void deliver(struct sluice_fetcher *f, const uint8_t *data, size_t len)
{
    const size_t cut = len ? data[len / 2] % len : 0;
    struct sluice_message message = {0};
    const size_t lens[] = {cut, len - cut};
    for (size_t i = 0; i < 2; i++) {
        if (lens[i] == 0)
            continue;
        uint8_t *copy = malloc(lens[i]);
        FUZZ_CHECK(copy != NULL);
        memcpy(copy, data + (i ? cut : 0), lens[i]);
        FUZZ_CHECK(sluice_message_append_ref(&message, copy, lens[i], free, copy, NULL) ==
                   SLUICE_OK);
    }
    fetcher_on_message(f, &message);
    sluice_message_clear(&message);
}
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sluice_pipeline *pipeline;
    static struct sluice_scratch *scratch;
    if (!pipeline) {
        const struct sluice_scratch_options options = {.max_image_pixels = 1u << 16};
        FUZZ_CHECK(sluice_pipeline_parse(PIPELINE, &pipeline, NULL) == SLUICE_OK);
        FUZZ_CHECK(sluice_scratch_create(&options, &scratch, NULL) == SLUICE_OK);
    }
    struct bench b;
    start(&b, pipeline, scratch);
    while (size >= 2 && !b.fetcher.is_stream_lost) {
        size_t len = data[0] | (size_t)data[1] << 8;
        data += 2;
        size -= 2;
        if (len > size)
            len = size;
        deliver(&b.fetcher, data, len);
        FUZZ_CHECK(b.fetcher.held_bytes <= WINDOW_BYTES + (1u << 16));
        FUZZ_CHECK(b.fetcher.is_stream_lost == (b.fetcher.broken.text[0] != '\0'));
        data += len;
        size -= len;
        advance(&b.fetcher);
    }
    stop(&b);
    return 0;
}
