#include "store/store_cache.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/cache_folder.h"
#include "store/cache_plan.h"
#include "store/tuning.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* A read that fetches an object, for all who read it meanwhile.  On the fetcher's stack, which it
 * leaves when nobody waits any more. */
struct flight {
    struct flight *next;
    struct sluice_hash128 identity;
    unsigned num_waiting;
    bool is_done;
    const struct sluice_buf *buf; /* once it is done; NULL: it failed */
    const struct sluice_file_part *parts;
    unsigned num_parts;
};

/* Whoever waits for a flight. */
struct waiter {
    struct waiter *next;
    const void *owner;
    bool is_cancelled;
};

struct store_cache {
    struct sluice_store store;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a flight is done, a waiter cancelled, or has left */
    struct sluice_cache_index *index;
    struct sluice_rng rng;
    struct flight *flights;
    struct waiter *waiters;
    struct sluice_store_cache_counts counts;
    uint64_t num_written, num_misses; /* for names of new files, and for what is admitted */
    bool has_warned;

    struct sluice_store *under; /* constant from here */
    struct sluice_cache_folder *folder;
    uint64_t max_bytes;
    uint64_t merge_gap_bytes;
};

/* One read on its way. */
struct reading {
    struct store_cache *cache;
    const struct sluice_store_read *asked;
    bool is_chosen; /* the next ones are there */
    uint64_t len;
    int64_t version;
    struct sluice_file_part parts[SLUICE_STORE_MAX_PARTS];
    unsigned num_parts;
    bool is_cacheable;
    struct sluice_hash128 identity;

    struct sluice_cache_plan plan;
    struct flight own; /* if has_flight */
    bool has_flight, has_waited;
    struct flight *awaited; /* another's, that is to be waited for; counted there */
};

static struct store_cache *from_store(struct sluice_store *store)
{
    return SLUICE_CONTAINER_OF(store, struct store_cache, store);
}

/* --- single flight --- */

/* Under the lock. */
static struct flight *find_flight(struct store_cache *c, struct sluice_hash128 identity)
{
    struct flight *flight = c->flights;
    while (flight && (flight->identity.high != identity.high ||
                      flight->identity.low != identity.low || flight->is_done))
        flight = flight->next;
    return flight;
}

/* The next action: fetch by the plan, or wait for r->awaited. */
static void plan(struct reading *r)
{
    struct store_cache *c = r->cache;
    struct sluice_cache_piece pieces[SLUICE_CACHE_MAX_PIECES];
    pthread_mutex_lock(&c->lock);
    const size_t num = sluice_cache_index_find(c->index, r->identity.high, pieces);
    sluice_cache_plan_make(&r->plan, r->parts, r->num_parts, pieces, num, c->merge_gap_bytes);
    const bool has_misses = r->plan.num_fetched > 0;
    struct flight *flight = has_misses && !r->has_flight ? find_flight(c, r->identity) : NULL;
    if (flight && !r->has_waited) {
        flight->num_waiting++;
        r->awaited = flight;
    } else if (!flight && has_misses && !r->has_flight) {
        r->has_flight = true;
        r->own = (struct flight){.next = c->flights, .identity = r->identity};
        c->flights = &r->own;
    }
    pthread_mutex_unlock(&c->lock);
}

/* The end of the own flight; buf NULL: it failed.  Others copy from the buffer before it goes. */
static void land(struct reading *r, const struct sluice_buf *buf)
{
    struct store_cache *c = r->cache;
    if (!r->has_flight)
        return;
    pthread_mutex_lock(&c->lock);
    r->own.is_done = true;
    r->own.buf = buf;
    r->own.parts = r->parts;
    r->own.num_parts = r->num_parts;
    pthread_cond_broadcast(&c->changed);
    while (r->own.num_waiting > 0)
        pthread_cond_wait(&c->changed, &c->lock);
    struct flight **at = &c->flights;
    while (*at != &r->own)
        at = &(*at)->next;
    *at = r->own.next;
    pthread_mutex_unlock(&c->lock);
    r->has_flight = false;
}

static bool covers(const struct flight *flight, const struct sluice_file_part *part)
{
    for (unsigned i = 0; i < flight->num_parts; i++) {
        if (flight->parts[i].from <= part->from && part->to <= flight->parts[i].to)
            return true;
    }
    return part->from == part->to;
}

/* Copies what the flight has.  False: it has not all of it. */
static bool copy_from(const struct flight *flight, const struct reading *r, struct sluice_buf *buf)
{
    bool is_covered = flight->buf != NULL;
    for (unsigned i = 0; i < r->num_parts && is_covered; i++)
        is_covered = covers(flight, &r->parts[i]);
    for (unsigned i = 0; i < r->num_parts && is_covered; i++)
        memcpy(buf->data + r->parts[i].from, flight->buf->data + r->parts[i].from,
               r->parts[i].to - r->parts[i].from);
    return is_covered;
}

/* Waits for another's flight.  SLUICE_OK without *out: the read has to be made all the same. */
static sluice_status await(struct reading *r, struct sluice_buf **out, struct sluice_err *err)
{
    struct store_cache *c = r->cache;
    struct flight *flight = r->awaited;
    struct waiter waiter = {.owner = r->asked->owner};
    struct sluice_buf *buf = NULL;
    sluice_status status = sluice_buf_create(r->asked->pool, (size_t)r->len, &buf, err);
    pthread_mutex_lock(&c->lock);
    waiter.next = c->waiters;
    c->waiters = &waiter;
    while (status == SLUICE_OK && !flight->is_done && !waiter.is_cancelled)
        pthread_cond_wait(&c->changed, &c->lock);
    struct waiter **at = &c->waiters;
    while (*at != &waiter)
        at = &(*at)->next;
    *at = waiter.next;
    pthread_mutex_unlock(&c->lock);
    bool has_all = false;
    if (status == SLUICE_OK && waiter.is_cancelled)
        status = sluice_fail(err, SLUICE_E_CLOSED, "cancelled");
    else if (status == SLUICE_OK) /* and stays so until this one has left */
        has_all = copy_from(flight, r, buf);
    pthread_mutex_lock(&c->lock);
    flight->num_waiting--;
    pthread_cond_broadcast(&c->changed);
    if (has_all) {
        c->counts.hits++;
        for (unsigned i = 0; i < r->num_parts; i++)
            c->counts.hit_bytes += r->parts[i].to - r->parts[i].from;
    }
    pthread_mutex_unlock(&c->lock);
    r->awaited = NULL;
    r->has_waited = true;
    if (!has_all) {
        sluice_buf_unref(buf);
        return status;
    }
    buf->len = (size_t)r->len;
    *out = buf;
    return SLUICE_OK;
}

/* --- reading --- */

/* Whether the parts lie within the object.  The store refuses those that do not. */
static bool is_good_for_cache(const struct reading *r)
{
    for (unsigned i = 0; i < r->num_parts; i++) {
        if (r->parts[i].from > r->parts[i].to || r->parts[i].to > r->len)
            return false;
    }
    return r->version != 0 && r->len > 0 && r->len <= UINT32_MAX && r->num_parts > 0;
}

/* Between what the reader chooses and what the store reads. */
static sluice_status choose(void *ctx, uint64_t len, int64_t version,
                            struct sluice_file_part *parts, unsigned *num_parts,
                            struct sluice_err *err)
{
    struct reading *r = ctx;
    const struct sluice_store_read *asked = r->asked;
    if (!r->is_chosen) {
        r->parts[0] = (struct sluice_file_part){0, (size_t)len};
        r->num_parts = 1;
        const sluice_status status =
            asked->choose ? asked->choose(asked->ctx, len, version, r->parts, &r->num_parts, err)
                          : SLUICE_OK;
        if (status != SLUICE_OK)
            return status;
        r->is_chosen = true;
        r->len = len;
        r->version = version;
        r->is_cacheable = is_good_for_cache(r);
        r->identity = sluice_cache_identify(
            asked->key, version, asked->offset,
            asked->offset || asked->is_range ? len : UINT64_MAX /* all of it */);
    } else if (len != r->len || version != r->version) {
        return sluice_fail(err, SLUICE_E_STALE, "the object changed while it was read");
    }
    if (!r->is_cacheable) {
        memcpy(parts, r->parts, sizeof(r->parts));
        *num_parts = r->num_parts;
        return SLUICE_OK;
    }
    plan(r);
    if (r->awaited)
        return sluice_fail(err, SLUICE_E_CLOSED, "another reads it");
    memcpy(parts, r->plan.fetched, sizeof(r->plan.fetched));
    *num_parts = r->plan.num_fetched;
    return SLUICE_OK;
}

/* The first time; later ones are counted. */
static void warn(struct store_cache *c, const struct sluice_err *err)
{
    pthread_mutex_lock(&c->lock);
    const bool is_first = !c->has_warned;
    c->has_warned = true;
    c->counts.errors++;
    pthread_mutex_unlock(&c->lock);
    if (is_first)
        sluice_log(SLUICE_LOG_WARN,
                   "the cache: %s; what it has not is read from the store, and further errors are "
                   "only counted",
                   err->text);
}

/* Takes a piece out.  Under the lock, as is what puts one in: the index and the files agree, at the
 * cost of a system call that other reads wait for. */
static void drop(struct store_cache *c, const struct sluice_cache_piece *piece)
{
    if (!sluice_cache_index_remove(c->index, piece))
        return;
    sluice_cache_folder_remove(c->folder, piece);
    c->counts.bytes -= sluice_cache_folder_footprint(piece);
}

/* Puts a whole piece where it belongs: its stretch is copied by way of `spare` if it is a part of
 * it.  False: it is not there any more, or damaged. */
static bool take_stretch(struct reading *r, const struct sluice_cache_stretch *s,
                         struct sluice_buf *buf, struct sluice_buf **spare)
{
    struct store_cache *c = r->cache;
    const struct sluice_cache_piece *piece = &s->piece;
    struct sluice_err why = {0};
    const bool is_whole = s->from == piece->from && s->to - s->from == piece->bytes;
    uint8_t *to = buf->data + s->from;
    sluice_status status = SLUICE_OK;
    if (!is_whole && (!*spare || (*spare)->capacity < piece->bytes)) {
        sluice_buf_unref(*spare);
        *spare = NULL;
        status = sluice_buf_create(r->asked->pool, piece->bytes, spare, &why);
    }
    if (status == SLUICE_OK)
        status = sluice_cache_folder_read(c->folder, r->identity, piece,
                                          is_whole ? to : (*spare)->data, &why);
    if (status == SLUICE_OK && !is_whole)
        memcpy(to, (*spare)->data + (s->from - piece->from), s->to - s->from);
    if (status == SLUICE_OK)
        return true;
    pthread_mutex_lock(&c->lock);
    drop(c, piece);
    pthread_mutex_unlock(&c->lock);
    if (status != SLUICE_E_NOT_FOUND) /* that one has made room */
        warn(c, &why);
    return false;
}

/* Fills in what was not fetched.  False: something is not there; the next plan will not have it. */
static bool fill(struct reading *r, struct sluice_buf *buf, uint64_t *hit_bytes)
{
    struct sluice_buf *spare = NULL;
    bool is_filled = true;
    *hit_bytes = 0;
    for (size_t i = 0; i < r->plan.num_stretches && is_filled; i++) {
        const struct sluice_cache_stretch *s = &r->plan.stretches[i];
        if (s->is_fetched)
            continue;
        is_filled = take_stretch(r, s, buf, &spare);
        *hit_bytes += s->to - s->from;
    }
    sluice_buf_unref(spare);
    return is_filled;
}

/* Whether there is room for the piece, which is then taken. */
static bool make_room(struct store_cache *c, const struct sluice_cache_piece *piece,
                      bool is_admitted)
{
    const uint64_t bytes = sluice_cache_folder_footprint(piece);
    struct sluice_cache_piece victim;
    pthread_mutex_lock(&c->lock);
    bool has_room = bytes <= c->max_bytes;
    while (has_room && c->counts.bytes + bytes > c->max_bytes) {
        has_room = is_admitted && sluice_cache_index_victim(c->index, &c->rng, &victim);
        if (has_room) {
            drop(c, &victim);
            c->counts.evictions++;
        }
    }
    if (has_room)
        c->counts.bytes += bytes;
    pthread_mutex_unlock(&c->lock);
    return has_room;
}

static void keep_piece(struct reading *r, const struct sluice_cache_piece *piece,
                       const struct sluice_buf *buf, bool is_admitted)
{
    struct store_cache *c = r->cache;
    struct sluice_err why = {0};
    if (!make_room(c, piece, is_admitted))
        return;
    pthread_mutex_lock(&c->lock);
    const uint64_t number = c->num_written++;
    pthread_mutex_unlock(&c->lock);
    sluice_status status = sluice_cache_folder_write(c->folder, r->identity, piece,
                                                     buf->data + piece->from, number, &why);
    bool is_there = false;
    if (status == SLUICE_OK) {
        pthread_mutex_lock(&c->lock);
        is_there = sluice_cache_index_add(c->index, piece);
        if (is_there)
            status = sluice_cache_folder_commit(c->folder, piece, number, &why);
        if (is_there && status != SLUICE_OK) {
            (void)sluice_cache_index_remove(c->index, piece);
            is_there = false;
        }
        pthread_mutex_unlock(&c->lock);
        if (!is_there)
            sluice_cache_folder_abandon(c->folder, piece, number);
    }
    if (!is_there) {
        pthread_mutex_lock(&c->lock);
        c->counts.bytes -= sluice_cache_folder_footprint(piece);
        pthread_mutex_unlock(&c->lock);
    }
    if (status != SLUICE_OK)
        warn(c, &why);
}

/* Counts the read, and keeps what was missing. */
static void keep(struct reading *r, const struct sluice_buf *buf, uint64_t hit_bytes)
{
    struct store_cache *c = r->cache;
    uint64_t miss_bytes = 0;
    for (unsigned i = 0; i < r->plan.num_fetched; i++)
        miss_bytes += r->plan.fetched[i].to - r->plan.fetched[i].from;
    pthread_mutex_lock(&c->lock);
    c->counts.hits += r->plan.num_fetched == 0;
    c->counts.misses += r->plan.num_fetched != 0;
    c->counts.hit_bytes += hit_bytes;
    c->counts.miss_bytes += miss_bytes;
    const bool is_admitted = r->plan.num_fetched && ++c->num_misses % STORE_CACHE_ADMIT_ONE_OF == 0;
    pthread_mutex_unlock(&c->lock);
    for (size_t i = 0; i < r->plan.num_stretches; i++) {
        const struct sluice_cache_stretch *s = &r->plan.stretches[i];
        const struct sluice_cache_piece piece = {r->identity.high, (uint32_t)s->from,
                                                 (uint32_t)(s->to - s->from)};
        if (!s->is_cached)
            keep_piece(r, &piece, buf, is_admitted);
    }
}

/* An object without a version, whole, is counted. */
static void pass_by(struct store_cache *c, uint64_t bytes)
{
    pthread_mutex_lock(&c->lock);
    c->counts.misses++;
    c->counts.miss_bytes += bytes;
    pthread_mutex_unlock(&c->lock);
}

static sluice_status cache_read(struct sluice_store *store, const struct sluice_store_read *read,
                                struct sluice_buf **out, struct sluice_err *err)
{
    struct store_cache *c = from_store(store);
    struct reading r = {.cache = c, .asked = read};
    struct sluice_store_read inner = *read;
    inner.choose = choose;
    inner.ctx = &r;
    for (;;) {
        struct sluice_err why = {0};
        struct sluice_buf *buf = NULL;
        uint64_t hit_bytes = 0;
        sluice_status status = c->under->read(c->under, &inner, &buf, &why);
        if (r.awaited) {
            why = (struct sluice_err){0};
            status = await(&r, &buf, &why);
            if (status == SLUICE_OK && !buf)
                continue;
        } else if (status == SLUICE_OK && r.is_cacheable) {
            if (!fill(&r, buf, &hit_bytes)) {
                sluice_buf_unref(buf);
                continue;
            }
            keep(&r, buf, hit_bytes);
        } else if (status == SLUICE_OK) {
            pass_by(c, r.len);
        }
        land(&r, status == SLUICE_OK ? buf : NULL);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s", why.text);
        *out = buf;
        return SLUICE_OK;
    }
}

/* --- the rest --- */

static sluice_status cache_list(struct sluice_store *store, const char *prefix,
                                sluice_object_fn *fn, void *ctx, struct sluice_err *err)
{
    struct sluice_store *under = from_store(store)->under;
    return under->list(under, prefix, fn, ctx, err);
}

static sluice_status cache_describe(struct sluice_store *store, const char *key,
                                    struct sluice_object *object, struct sluice_err *err)
{
    struct sluice_store *under = from_store(store)->under;
    return under->describe(under, key, object, err);
}

static void cache_cancel(struct sluice_store *store, const void *owner)
{
    struct store_cache *c = from_store(store);
    pthread_mutex_lock(&c->lock);
    for (struct waiter *waiter = c->waiters; waiter; waiter = waiter->next)
        waiter->is_cancelled |= waiter->owner == owner;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
    c->under->cancel(c->under, owner);
}

static void cache_limits(struct sluice_store *store, struct sluice_store_limits *limits)
{
    struct sluice_store *under = from_store(store)->under;
    under->limits(under, limits);
}

static sluice_status cache_look(struct sluice_store *store, const struct sluice_store_known *known,
                                struct sluice_err *err)
{
    struct sluice_store *under = from_store(store)->under;
    return under->look(under, known, err);
}

static const char *cache_relative(struct sluice_store *store, const char *path)
{
    struct sluice_store *under = from_store(store)->under;
    return under->relative(under, path);
}

static uint64_t cache_refused(struct sluice_store *store)
{
    struct sluice_store *under = from_store(store)->under;
    return under->refused(under);
}

static void cache_destroy(struct sluice_store *store)
{
    if (!store)
        return;
    struct store_cache *c = from_store(store);
    c->under->destroy(c->under);
    sluice_cache_index_destroy(c->index);
    sluice_cache_folder_close(c->folder);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

static bool keep_found(void *ctx, const struct sluice_cache_piece *piece)
{
    struct store_cache *c = ctx;
    const uint64_t bytes = sluice_cache_folder_footprint(piece);
    if (c->counts.bytes + bytes > c->max_bytes || !sluice_cache_index_add(c->index, piece))
        return false;
    c->counts.bytes += bytes;
    return true;
}

sluice_status sluice_store_cache_prepare(const char *folder, struct sluice_err *err)
{
    return sluice_cache_folder_prepare(folder, err);
}

sluice_status sluice_store_cache_open(const struct sluice_store_cache_options *options,
                                      struct sluice_store *under, struct sluice_store **store,
                                      struct sluice_err *err)
{
    struct sluice_store_limits limits;
    struct store_cache *c = calloc(1, sizeof(*c));
    if (!c) {
        under->destroy(under);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a cache");
    }
    under->limits(under, &limits);
    *c = (struct store_cache){
        .store = {.list = cache_list,
                  .describe = cache_describe,
                  .read = cache_read,
                  .cancel = cache_cancel,
                  .limits = cache_limits,
                  .look = under->look ? cache_look : NULL,
                  .relative = cache_relative,
                  .refused = cache_refused,
                  .destroy = cache_destroy},
        .rng = sluice_rng_init(sluice_clock_ns(), 0, 0, 0),
        .under = under,
        .max_bytes = options->max_bytes,
        .merge_gap_bytes = limits.merge_gap_bytes,
    };
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    sluice_status status = sluice_cache_index_create(&c->index, err);
    if (status == SLUICE_OK)
        status = sluice_cache_folder_open(options->folder, &c->folder, err);
    if (status == SLUICE_OK)
        status = sluice_cache_folder_scan(c->folder, keep_found, c, err);
    if (status != SLUICE_OK) {
        cache_destroy(&c->store);
        return status;
    }
    *store = &c->store;
    return SLUICE_OK;
}

struct sluice_store_cache_counts sluice_store_cache_count(struct sluice_store *store)
{
    struct store_cache *c = from_store(store);
    pthread_mutex_lock(&c->lock);
    struct sluice_store_cache_counts counts = c->counts;
    counts.pieces = sluice_cache_index_count(c->index);
    pthread_mutex_unlock(&c->lock);
    counts.max_bytes = c->max_bytes;
    return counts;
}
