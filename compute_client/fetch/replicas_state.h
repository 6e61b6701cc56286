#ifndef SLUICE_COMPUTE_CLIENT_FETCH_REPLICAS_STATE_H
#define SLUICE_COMPUTE_CLIENT_FETCH_REPLICAS_STATE_H

#include "compute_client/fetch/replicas.h"

#include "compute_client/fetch/replica_load.h"
#include "compute_client/fetch/tuning.h"
#include "compute_client/loader/source/again_log.h"
#include "compute_client/loader/source/retry.h"

#include <pthread.h>

/* Private to replicas.c (the source), replicas_ask.c (which item goes to which server) and
 * replicas_watch.c (suspicion, hedging and deadlines). */

#define REPLICAS_NOBODY UINT32_MAX

/* Requests that are handed to a fetcher at once. */
#define REPLICAS_MAX_AT_ONCE 64

enum replicas_item_state { ITEM_FREE, ITEM_WAITING, ITEM_ASKED };

/* A request for a sample that has no answer yet. */
struct replicas_item {
    enum replicas_item_state state;
    uint32_t generation;           /* of the row: tells this item's replies from its forerunner's */
    struct sluice_source_item ask; /* with the caller's ticket */
    uint32_t shard;
    uint32_t prev, next; /* among the free (next only), or the waiting of the shard */
    uint64_t accepted_ns, first_asked_ns; /* 0: not yet asked for */
    uint64_t due_ns;                      /* WAITING: not to be asked before */
    unsigned num_at;                      /* ASKED: 1 or 2 servers */
    uint32_t at[2];                       /* indices of these, in the order of the requests */
    uint64_t asked_ns[2];
    uint32_t avoid;      /* the replica at which it failed last */
    unsigned num_lost;   /* streams that ended with it */
    unsigned num_blamed; /* streams that ended while it alone was under way there */
    bool is_suspect;     /* because of num_lost */
    bool is_hedged;
    bool goes_alone; /* ASKED: as a suspect */
    bool asks_raw;   /* the file is requested, not the caller's choice */
    bool has_failed; /* at least once */
    struct sluice_retry retry;
};

struct replica {
    struct replicas *all;
    uint32_t index;
    uint32_t shard;
    struct sluice_client *client;
    struct sluice_fetcher *fetcher;
    bool is_removed;
    bool is_closed;  /* removed, and its fetcher is closed: freed when none of its bytes is held */
    bool is_there;   /* takes requests */
    bool has_failed; /* it was lost, or could not be reached, since it was there last */
    bool is_refusing;
    struct sluice_err refusal; /* the last one logged */
    uint64_t doubted_ns;       /* since when it is suspected, because of silence; 0: it is not */
    unsigned alarms;           /* recent false suspicions: each doubles its time */
    uint64_t alarm_ns;         /* the last one */
    unsigned failures;         /* transient failures in a row */
    uint64_t failed_ns;        /* the last one */
    uint64_t held_bytes;       /* handed on and not yet consumed */
    struct sluice_replica_load load;
    double cores, price;                                   /* last received; 0: none yet */
    struct sluice_source_item batch[REPLICAS_MAX_AT_ONCE]; /* to be handed to the fetcher */
    size_t num_batch;
};

struct shard {
    uint32_t head, tail; /* items that wait, by ticket */
    size_t num_waiting;
    size_t num_replicas, num_there; /* that are used; that are there */
    bool is_away;                   /* no replica is there, and all were tried */
    /* Time of the first failure since an item was answered, while an item waits; 0: none. */
    uint64_t failing_since_ns;
    sluice_status status;    /* of the last failure */
    struct sluice_err cause; /* and its text */
    /* Slow start of the suspects. */
    size_t num_suspects, num_alone; /* not answered; asked as such */
    size_t may_go_alone;
    uint32_t suspects_at; /* the one replica that they are requested from */
};

struct replicas {
    struct sluice_source source;

    /* fetcher.lock may be taken while it is held; no event is called under it. */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* for the watch */
    pthread_cond_t quiet;   /* no event is being delivered */
    struct replicas_item *items;
    uint32_t free_head;
    size_t num_asked;          /* items in ITEM_ASKED */
    size_t num_failing;        /* that have failed and are not answered */
    struct replica **replicas; /* NULL: the index is free */
    size_t num_replicas, max_replicas;
    struct shard *shards;
    size_t num_shards_away;
    uint64_t num_accepted;
    float trips_s[TUNING_TRIPS]; /* recent times from request to answer: a ring */
    size_t num_trips;
    size_t next_first;   /* where the next search for a replica begins */
    unsigned num_events; /* being delivered */
    bool is_closed;
    bool is_failing; /* the watch must call on_failed */
    sluice_status failure;
    char failure_text[sizeof(struct sluice_err) + 64];
    struct sluice_again_log again;
    char again_place[128];
    struct sluice_replicas_stats stats; /* of fetchers: of those that are gone, and `repeated` */

    /* Constant. */
    size_t max_items;
    uint32_t num_shards;
    const struct sluice_manifest_place *places;
    struct sluice_fetcher_options options; /* of a fetcher */
    double retry_for_s;
    bool hedges, shows_outages;
    struct sluice_source_events events;
    struct sluice_live *live;
    pthread_t watch;
    bool is_watch_started;
};

/* --- replicas_ask.c; all under the lock --- */

/* Accepts a request.  The caller respects max_items. */
void replicas_accept(struct replicas *s, const struct sluice_source_item *ask, uint64_t now);

/* The item of a fetcher's ticket, if it still waits for this replica's answer; else NULL. */
struct replicas_item *replicas_find(struct replicas *s, uint64_t ticket,
                                    const struct replica *replica);

bool replicas_is_asked_of(const struct replicas_item *item, const struct replica *replica);

/* The item stops waiting for this replica; has_answered: because of its answer. */
void replicas_leave(struct replicas *s, struct replicas_item *item, struct replica *replica,
                    bool has_answered, uint64_t now);
/* The same without an answer; the fetcher drops the request. */
void replicas_cancel(struct replicas *s, struct replicas_item *item, struct replica *replica,
                     uint64_t now);

/* Puts an item that is requested from no replica into the waiting list, until due_ns. */
void replicas_wait(struct replicas *s, struct replicas_item *item, uint64_t due_ns);
/* Frees an item that neither waits nor is requested. */
void replicas_free(struct replicas *s, struct replicas_item *item);

/* Records that a stream was lost with the item under way. */
void replicas_suspect(struct replicas *s, struct replicas_item *item);
/* Clears the suspicion of an item, because it was answered. */
void replicas_acquit(struct replicas *s, struct replicas_item *item);

/* Requests all waiting items that can be requested.  Returns the time when the next item is due;
 * UINT64_MAX: unknown. */
uint64_t replicas_ask(struct replicas *s, struct shard *shard, uint64_t now);

/* Requests an item from a second server, if another one of its shard is there, not suspected, and
 * expected to answer within max_wait_s.  False: no such server. */
bool replicas_ask_another(struct replicas *s, struct replicas_item *item, double max_wait_s,
                          uint64_t now);

/* Clears the suspicion of a replica, because it has answered. */
void replicas_trust(struct replica *replica, uint64_t now);

/* Sets whether the replica is there. */
void replicas_set_there(struct replicas *s, struct replica *replica, bool is_there);

/* Whether a shard has several replicas, so that they are compared, suspected and hedged. */
bool replicas_has_choice(const struct replicas *s);

/* Begins to close the fetchers, without waiting. */
void replicas_begin_close(struct replicas *s);

/* --- replicas_watch.c --- */

/* Under the lock: updates whether the shard is away, and the live counters. */
void replicas_see_away(struct replicas *s, struct shard *shard, uint64_t now);

void *replicas_watch_main(void *ctx);

#endif
