#ifndef SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_STATE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_FETCHER_STATE_H

#include "compute_client/fetch/fetcher.h"

#include "compute_client/fetch/pending_table.h"
#include "compute_client/loader/source/retry.h"
#include "wire/wire.h"

#include <pthread.h>

/* Private to fetcher.c (the owner of the stream) and fetcher_arrive.c (messages that arrive). */

/* Most requests in one message: enough that the overhead of a message hardly counts, few enough
 * that one message is sent while the next is filled. */
#define FETCHER_MAX_PER_MESSAGE 64

struct sluice_fetcher {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct sluice_pending_table pending;
    uint64_t held_bytes; /* payloads handed on and not yet consumed */
    int64_t grant_bytes; /* consumed and not yet granted; below 0: the window has shrunk */
    /* Payload that the server may still send on this stream.  A reply may begin while it is above
     * 0, so one reply may overdraw it. */
    int64_t credit_bytes;
    uint64_t credit_since_ns; /* when it rose above 0 */
    /* Time of the last answer, or when the server began to owe one, if that is later. */
    uint64_t quiet_since_ns;
    bool is_closed;
    bool is_stream_lost; /* the owner has not seen it yet */
    bool is_silent;      /* the stream was ended here, because of silence */
    enum sluice_rpc_code lost_code;
    char lost_text[200];
    uint64_t lost_ns;
    bool has_progress; /* a request was answered since the last loss */
    uint64_t window_bytes;
    bool is_there;                 /* it takes requests */
    uint64_t heard_ns;             /* the last reply, also if it was dropped */
    struct sluice_wire_load heard; /* load, as of the last answer */
    struct sluice_fetcher_stats stats;

    /* The owner thread's alone. */
    pthread_t owner;
    struct sluice_rpc_stream *stream;
    struct sluice_retry retry;
    uint32_t max_in_flight;
    unsigned refusals;                /* in a row */
    uint64_t quiet_told_ns;           /* when it last told of the silence */
    struct sluice_server_info info;   /* as of the last Hello */
    struct sluice_fetcher_owed *owed; /* room for max_items */
    struct sluice_wire_sample_request batch[FETCHER_MAX_PER_MESSAGE];

    bool has_hashes; /* of the server of this stream; constant while it is open */

    /* The completion thread's alone. */
    struct sluice_err broken;              /* the message that could not be read */
    struct sluice_wire_load load;          /* of the last message */
    struct sluice_shared_message *message; /* the one in hand; its samples add references */

    /* Constant while there is a stream. */
    uint64_t max_file_bytes; /* the server's limit; 0: not said */

    /* Constant. */
    struct sluice_client *client;
    const struct sluice_pipeline *pipeline;
    char dataset_id[33];
    uint64_t max_image_pixels;
    uint64_t timeout_ns; /* sample_timeout_s; 0: none */
    bool follows_price, needs_listed_id, wants_file_image;
    double storage_worth; /* as the last item said */
    struct sluice_fetcher_events events;
    struct sluice_live *live; /* or NULL */
    bool is_owner_started;
    bool is_joined;
};

/* The item's listed_id on the wire. */
static inline uint64_t fetcher_listed_id(const struct sluice_source_item *item)
{
    return item->has_listed_id ? (uint64_t)item->listed_id + 1 : 0;
}

/* --- fetcher_arrive.c --- */

/* The stream's events; ctx is the fetcher. */
void fetcher_on_message(void *ctx, struct sluice_message *message);
void fetcher_on_done(void *ctx, enum sluice_rpc_code code, const char *text);

/* Under the lock: records that the stream is lost; the first cause wins.  An end without a failure
 * (SLUICE_RPC_OK) counts as a loss, because answers are missing. */
void fetcher_lose(struct sluice_fetcher *f, enum sluice_rpc_code code, const char *text);

#endif
