#include "base/clock.h"
#include "base/cond.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "compute_client/fetch/client.h"
#include "compute_client/fetch/client_call.h"
#include "compute_client/fetch/list_cache.h"
#include "compute_client/fetch/tuning.h"
#include "datasets/list/class_list.h"
#include "datasets/manifest/binary.h"
#include "rpc/rpc_client.h"
#include "wire/wire.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROBE_TIMEOUT_MS 10000

/* A list may take any time, as long as messages come: one of 64 kB does so from 9 kbit/s. */
#define LIST_QUIET_NS 60000000000ull

/* Sample ids have 32 bits on this side. */
#define MAX_LIST_ROWS UINT32_MAX

/* The calls of client.h that the server answers with a stream of messages: ListSamples, Probe. */

struct gathering {
    pthread_mutex_t lock;
    pthread_cond_t is_done_cond;
    bool is_done, is_broken;
    uint64_t last_ns; /* a message came */
    enum sluice_rpc_code code;
    char text[200];

    uint64_t quiet_ns; /* the longest wait for the next message; 0: any.  Constant */

    /* On the completion thread only. */
    void (*on_message)(struct gathering *gathering, struct sluice_message *message);
    sluice_status status;
    bool is_passing; /* a failure of on_message is worth another try */
    struct sluice_err err;
};

static void gathering_message(void *ctx, struct sluice_message *message)
{
    struct gathering *gathering = ctx;
    if (gathering->status == SLUICE_OK)
        gathering->on_message(gathering, message);
    pthread_mutex_lock(&gathering->lock);
    gathering->last_ns = sluice_clock_ns();
    if (gathering->status != SLUICE_OK) {
        gathering->is_broken = true;
        pthread_cond_signal(&gathering->is_done_cond);
    }
    pthread_mutex_unlock(&gathering->lock);
}

static void gathering_done(void *ctx, enum sluice_rpc_code code, const char *text)
{
    struct gathering *gathering = ctx;
    pthread_mutex_lock(&gathering->lock);
    gathering->is_done = true;
    gathering->code = code;
    snprintf(gathering->text, sizeof(gathering->text), "%s", text ? text : "");
    pthread_cond_signal(&gathering->is_done_cond);
    pthread_mutex_unlock(&gathering->lock);
}

/* Waits for the call's end, or for a reason to cancel it.  False: nothing came for quiet_ns. */
static bool wait_for_end(struct gathering *gathering)
{
    bool is_quiet = false;
    pthread_mutex_lock(&gathering->lock);
    gathering->last_ns = sluice_clock_ns();
    while (!gathering->is_done && !gathering->is_broken && !is_quiet) {
        const uint64_t until_ns =
            gathering->quiet_ns ? gathering->last_ns + gathering->quiet_ns : UINT64_MAX;
        if (!sluice_cond_wait_until(&gathering->is_done_cond, &gathering->lock, until_ns))
            is_quiet = sluice_clock_ns() >= gathering->last_ns + gathering->quiet_ns;
    }
    pthread_mutex_unlock(&gathering->lock);
    return !is_quiet;
}

/* Sends `request` (takes it) and passes each message of the reply to gathering->on_message until
 * the call ends or on_message sets gathering->status. */
static sluice_status gather(struct sluice_client *client, const char *path, unsigned timeout_ms,
                            struct sluice_message *request, struct gathering *gathering,
                            bool *is_passing, struct sluice_err *err)
{
    *is_passing = false;
    const struct sluice_rpc_stream_events events = {
        .on_message = gathering_message,
        .on_done = gathering_done,
        .ctx = gathering,
    };
    struct sluice_rpc_stream *stream = NULL;
    pthread_mutex_init(&gathering->lock, NULL);
    sluice_cond_init(&gathering->is_done_cond);
    sluice_status status = sluice_rpc_stream_open(sluice_client_channel(client), path, timeout_ms,
                                                  &events, &stream, err);
    if (status == SLUICE_OK) {
        (void)sluice_rpc_stream_send(stream, request); /* a lost stream says so in on_done */
        sluice_rpc_stream_half_close(stream);
        const bool has_ended = wait_for_end(gathering);
        sluice_rpc_stream_destroy(stream);
        if (!has_ended && gathering->status == SLUICE_OK && gathering->code != SLUICE_RPC_OK) {
            *is_passing = true;
            status = sluice_fail(err, SLUICE_E_IO, "%s sent nothing for %.0f s",
                                 sluice_client_target(client), (double)gathering->quiet_ns * 1e-9);
        } else if (gathering->status != SLUICE_OK) {
            *is_passing = gathering->is_passing;
            status = sluice_fail(err, gathering->status, "%s: %s", sluice_client_target(client),
                                 gathering->err.text);
        } else if (gathering->code != SLUICE_RPC_OK) {
            *is_passing = sluice_client_is_passing(gathering->code);
            status = sluice_fail(err, sluice_rpc_code_to_status(gathering->code), "%s: %s",
                                 sluice_client_target(client), gathering->text);
        }
    }
    sluice_message_clear(request);
    pthread_cond_destroy(&gathering->is_done_cond);
    pthread_mutex_destroy(&gathering->lock);
    return status;
}

/* --- ListSamples --- */

struct listing {
    struct gathering gathering;              /* of the call under way */
    const struct sluice_server_info *server; /* constant */
    const char *target;

    char **classes;
    size_t num_classes;
    struct sluice_fields fields;
    uint64_t values_bytes;
    struct sluice_manifest_writer *writer; /* of the rows; NULL: no rows yet */
    const char *path;                      /* of the file it writes; NULL: memory */
    bool has_local_error;                  /* and that file could not be written */
    bool can_resume;                       /* the server lists from any row, and says from which */
    bool is_first;                         /* of this call's messages */
    bool is_complete;
};

static void classes_clear(struct listing *listing)
{
    for (size_t i = 0; i < listing->num_classes; i++)
        free(listing->classes[i]);
    free(listing->classes);
    listing->classes = NULL;
    listing->num_classes = 0;
}

/* Drops the rows. */
static void listing_clear(struct listing *listing)
{
    classes_clear(listing);
    sluice_manifest_writer_destroy(listing->writer);
    listing->writer = NULL;
}

static size_t num_listed(const struct listing *listing)
{
    return listing->writer ? sluice_manifest_writer_count(listing->writer) : 0;
}

/* The fields of a list; false: they are not valid.  A server of an earlier version has one at most,
 * and does not say its name. */
static bool take_fields(const struct sluice_wire_list *part, struct sluice_fields *fields)
{
    if (part->fields && part->fields[0])
        return sluice_fields_parse(part->fields, fields);
    const struct sluice_field_type type = {(enum sluice_field_kind)part->target_kind,
                                           part->target_dim};
    *fields = (struct sluice_fields){.num = type.kind != SLUICE_FIELD_NONE,
                                     .of = {{type, SLUICE_TARGET_FIELD}}};
    return !sluice_field_type_flaw(type) && sluice_fields_are_plain(fields);
}

/* Facts of the whole list, from the first message of each call. */
static sluice_status check_first(struct listing *listing, struct sluice_wire_list *part,
                                 struct sluice_err *err)
{
    const struct sluice_server_info *server = listing->server;
    if (strcmp(part->dataset_id, server->dataset_id) != 0)
        return sluice_fail(err, SLUICE_E_STALE,
                           "it lists dataset %s, and said before that it has %s: its list was read "
                           "again meanwhile; try again",
                           part->dataset_id, server->dataset_id);
    if (part->num_samples != server->num_samples || part->num_samples > MAX_LIST_ROWS)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "it lists %llu samples, and said before that it has %llu; at most %llu "
                           "are taken",
                           (unsigned long long)part->num_samples,
                           (unsigned long long)server->num_samples,
                           (unsigned long long)MAX_LIST_ROWS);
    struct sluice_fields fields;
    if (!take_fields(part, &fields) ||
        part->target_bytes > part->num_samples * SLUICE_MAX_VALUES_BYTES)
        return sluice_fail(
            err, SLUICE_E_CORRUPT, "it lists targets of kind %u, %u numbers and %llu bytes in all",
            part->target_kind, part->target_dim, (unsigned long long)part->target_bytes);
    if (!part->has_hash) /* it knows no rows: it begins anew each time */
        listing_clear(listing);
    listing->can_resume = part->has_hash;
    if (!listing->writer) {
        classes_clear(listing); /* of a call that broke off between them */
        listing->fields = fields;
        listing->values_bytes = part->target_bytes;
    }
    return SLUICE_OK;
}

/* Takes the part's classes, which all come before the rows. */
static sluice_status take_classes(struct listing *listing, struct sluice_wire_list *part,
                                  struct sluice_err *err)
{
    if (listing->writer || part->num_classes == 0)
        return SLUICE_OK;
    const size_t num = listing->num_classes + part->num_classes;
    if (num > SLUICE_MAX_CLASSES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "it lists more than %d classes",
                           SLUICE_MAX_CLASSES);
    char **moved = realloc(listing->classes, num * sizeof(*moved));
    if (!moved)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu classes", num);
    memcpy(moved + listing->num_classes, part->classes, part->num_classes * sizeof(*moved));
    listing->classes = moved;
    listing->num_classes = num;
    part->num_classes = 0;
    return SLUICE_OK;
}

static sluice_status check_rows(const struct listing *listing, const struct sluice_wire_list *part,
                                struct sluice_err *err)
{
    const size_t before = num_listed(listing);
    const size_t here = part->num_samples_here + part->packed.num_rows;
    if (here > listing->server->num_samples - before)
        return sluice_fail(err, SLUICE_E_CORRUPT, "it lists more than the %llu samples that it has",
                           (unsigned long long)listing->server->num_samples);
    if (part->has_hash && part->first_row != before)
        return sluice_fail(err, SLUICE_E_CORRUPT, "it lists row %llu where row %zu is due",
                           (unsigned long long)part->first_row, before);
    for (size_t i = 0; i < part->num_samples_here; i++) {
        if (part->samples[i].sample_id != before + i)
            return sluice_fail(err, SLUICE_E_CORRUPT, "it lists sample %llu as number %zu",
                               (unsigned long long)part->samples[i].sample_id, before + i);
    }
    return SLUICE_OK;
}

static sluice_status add_row(struct listing *listing, const struct sluice_manifest_entry *entry,
                             struct sluice_err *err)
{
    const sluice_status status = sluice_manifest_writer_add(listing->writer, entry, err);
    listing->has_local_error |= status == SLUICE_E_IO;
    return status;
}

static sluice_status take_packed(void *ctx, const struct sluice_list_row *row,
                                 struct sluice_err *err)
{
    const struct sluice_manifest_entry entry = {
        .path = row->path,
        .bytes = row->bytes,
        .label = row->label,
        .subset = row->is_val ? SLUICE_SUBSET_VAL : SLUICE_SUBSET_TRAIN,
        .width = row->width,
        .height = row->height,
        .coding = row->coding,
        .values = row->target,
        .values_bytes = row->target_bytes,
    };
    return add_row(ctx, &entry, err);
}

/* Room grows with the rows, up to the number of samples from Hello. */
static sluice_status take_rows(struct listing *listing, const struct sluice_wire_list *part,
                               struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    if (!listing->writer && part->num_samples_here + part->packed.num_rows > 0) {
        const struct sluice_manifest_writer_options options = {
            .path = listing->path,
            .num_entries = (size_t)listing->server->num_samples,
            .num_classes = listing->num_classes,
            .fields = listing->fields,
            .values_bytes = listing->values_bytes,
        };
        status = sluice_manifest_writer_create(&options, &listing->writer, err);
        listing->has_local_error |= status != SLUICE_OK;
    }
    if (status == SLUICE_OK && part->packed.num_rows)
        status = sluice_list_block_unpack(&part->packed, take_packed, listing, err);
    for (size_t i = 0; status == SLUICE_OK && i < part->num_samples_here; i++) {
        const struct sluice_wire_sample_info *row = &part->samples[i];
        const struct sluice_manifest_entry entry = {
            .path = row->path,
            .bytes = row->bytes,
            .label = row->label,
            .subset = row->is_val ? SLUICE_SUBSET_VAL : SLUICE_SUBSET_TRAIN,
            .width = row->width,
            .height = row->height,
            .coding = row->coding,
        };
        status = add_row(listing, &entry, err);
    }
    return status == SLUICE_E_INVALID ? SLUICE_E_CORRUPT : status;
}

static void listing_message(struct gathering *gathering, struct sluice_message *message)
{
    struct listing *listing = SLUICE_CONTAINER_OF(gathering, struct listing, gathering);
    struct sluice_err *err = &gathering->err;
    struct sluice_wire_list part = {0};
    sluice_status status = sluice_wire_get_list_reply(message, &part, err);
    if (status == SLUICE_OK && listing->server->has_hashes && !part.has_hash)
        status = sluice_fail(err, SLUICE_E_IO, "a message of a list lacks its hash");
    /* An unreadable message of a server with hashes was damaged on its way. */
    gathering->is_passing =
        status == SLUICE_E_IO || (status == SLUICE_E_CORRUPT && listing->server->has_hashes);
    if (status == SLUICE_OK && listing->is_first)
        status = check_first(listing, &part, err);
    listing->is_first = listing->is_first && status != SLUICE_OK;
    if (status == SLUICE_OK)
        status = check_rows(listing, &part, err);
    if (status == SLUICE_OK)
        status = take_classes(listing, &part, err);
    if (status == SLUICE_OK)
        status = take_rows(listing, &part, err);
    gathering->status = status;
    sluice_wire_list_clear(&part);
}

static sluice_status listing_manifest(struct listing *listing, struct sluice_manifest **manifest,
                                      struct sluice_err *err)
{
    const struct sluice_server_info *server = listing->server;
    const char *const *classes = (const char *const *)(const void *)listing->classes;
    if (num_listed(listing) == 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s has no samples", listing->target);
    char id[33];
    sluice_hash128_hex(sluice_manifest_writer_id(listing->writer), id);
    if (strcmp(id, server->dataset_id) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s calls its dataset %s, but its rows make %s",
                           listing->target, server->dataset_id, id);
    if (server->list_hash &&
        server->list_hash != sluice_manifest_writer_list_hash(listing->writer, classes))
        return sluice_fail(
            err, SLUICE_E_STALE,
            "%s lists other subsets, sizes, targets or classes than it said before: its list "
            "was read again meanwhile; try again",
            listing->target);
    const struct sluice_hash128 source = sluice_list_cache_source(server->list_hash);
    const struct sluice_manifest_ending ending = {.classes = classes, .source_hash = &source};
    const sluice_status status =
        sluice_manifest_writer_commit(listing->writer, &ending, manifest, err);
    listing->has_local_error |= status != SLUICE_OK;
    return status;
}

/* SLUICE_OK: the list is complete, or has more rows than before. */
static sluice_status try_list(struct sluice_client *client, void *ctx, bool *is_passing,
                              struct sluice_err *err)
{
    struct listing *listing = ctx;
    if (!listing->can_resume)
        listing_clear(listing);
    const size_t before = num_listed(listing);
    const unsigned long long promised = listing->server->num_samples;
    listing->gathering =
        (struct gathering){.on_message = listing_message, .quiet_ns = LIST_QUIET_NS};
    listing->is_first = true;
    struct sluice_message request = {0};
    struct sluice_err cause = {0};
    sluice_status status = sluice_wire_put_list_request("", before, true, &request, &cause);
    if (status == SLUICE_OK)
        status = gather(client, SLUICE_METHOD_LIST_SAMPLES, 0, &request, &listing->gathering,
                        is_passing, &cause);
    sluice_message_clear(&request);
    const bool has_all = !listing->is_first && num_listed(listing) == promised;
    if (has_all && (status == SLUICE_OK || (*is_passing && listing->can_resume))) {
        listing->is_complete = true;
        return SLUICE_OK;
    }
    if (status == SLUICE_OK) {
        *is_passing = true;
        status = sluice_fail(&cause, SLUICE_E_CORRUPT, "%s listed %zu of %llu samples",
                             listing->target, num_listed(listing), promised);
    }
    if (*is_passing && listing->can_resume && num_listed(listing) > before) {
        sluice_log(SLUICE_LOG_DEBUG, "%s; the list goes on from row %zu of %llu", cause.text,
                   num_listed(listing), promised);
        return SLUICE_OK;
    }
    return sluice_fail(err, status, "%s", cause.text);
}

/* `path` NULL: it is kept in memory.  *has_local_error: the file could not be written. */
static sluice_status list_to(struct sluice_client *client, const struct sluice_server_info *server,
                             const char *path, bool *has_local_error,
                             struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct listing listing = {
        .server = server, .target = sluice_client_target(client), .path = path};
    sluice_status status = SLUICE_OK;
    while (status == SLUICE_OK && !listing.is_complete)
        status = sluice_client_call(client, try_list, &listing, err);
    if (status == SLUICE_OK)
        status = listing_manifest(&listing, manifest, err);
    *has_local_error = listing.has_local_error;
    listing_clear(&listing);
    return status;
}

sluice_status sluice_client_list(struct sluice_client *client,
                                 const struct sluice_server_info *server,
                                 struct sluice_manifest **manifest, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    bool has_local_error = false;
    const bool is_long = server->num_samples >= TUNING_LIST_CACHE_LEAST && server->list_hash;
    struct sluice_manifest *kept =
        is_long ? sluice_list_cache_find(server->dataset_id, server->list_hash) : NULL;
    if (kept) {
        *manifest = kept;
        return SLUICE_OK;
    }
    if (is_long && sluice_list_cache_path(server->dataset_id, path)) {
        struct sluice_err why = {0};
        const sluice_status status =
            list_to(client, server, path, &has_local_error, manifest, &why);
        if (status == SLUICE_OK)
            sluice_list_cache_trim();
        if (!has_local_error)
            return status == SLUICE_OK ? status : sluice_fail(err, status, "%s", why.text);
        sluice_log(SLUICE_LOG_WARN, "%s; the list of samples is kept in memory", why.text);
    }
    return list_to(client, server, NULL, &has_local_error, manifest, err);
}

/* --- Probe --- */

/* The size of a probe grows until it takes so long that the scheduling of threads hardly matters.
 */
#define FIRST_PROBE_BYTES (64u << 10)
#define PROBE_GROWTH 4
#define PROBE_LONG_NS 60000000u

/* A link with a token bucket sends a burst at full speed after it was idle.  Bytes that arrive
 * within this time count as that burst. */
#define PROBE_BURST_NS 10000000u

/* Seconds in which a link that breaks off is tried again.  A connection takes a tenth of a second,
 * so that some ten are tried. */
#define PROBE_PATIENCE_S 2.0

struct probing {
    struct gathering gathering;
    uint64_t asked_bytes;
    uint64_t first_ns, last_ns;         /* arrivals */
    uint64_t bytes;                     /* after the first message */
    uint64_t from_ns;                   /* the last arrival within the burst */
    uint64_t burst_bytes;               /* up to it, after the first message */
    uint64_t first_cpu_ns, last_cpu_ns; /* of this thread, at the arrivals */
};

static void probing_message(struct gathering *gathering, struct sluice_message *message)
{
    struct probing *probing = SLUICE_CONTAINER_OF(gathering, struct probing, gathering);
    probing->last_ns = sluice_clock_ns();
    probing->last_cpu_ns = sluice_thread_cpu_ns();
    if (probing->first_ns == 0) {
        probing->first_ns = probing->last_ns;
        probing->first_cpu_ns = probing->last_cpu_ns;
    } else {
        probing->bytes += message->len;
    }
    if (probing->last_ns - probing->first_ns <= PROBE_BURST_NS) {
        probing->from_ns = probing->last_ns;
        probing->burst_bytes = probing->bytes;
    }
}

static sluice_status try_probe(struct sluice_client *client, void *ctx, bool *is_passing,
                               struct sluice_err *err)
{
    struct probing *probing = ctx;
    const uint64_t asked = probing->asked_bytes;
    *probing = (struct probing){.gathering.on_message = probing_message, .asked_bytes = asked};
    /* Some 16 messages or more, so that the arrival times show the rate. */
    const uint64_t part = asked / 16;
    const uint32_t message_bytes = part < 4096 ? 4096 : part > 262144 ? 262144 : (uint32_t)part;
    struct sluice_message request = {0};
    sluice_status status = sluice_wire_put_probe_request(asked, message_bytes, &request, err);
    if (status == SLUICE_OK)
        status = gather(client, SLUICE_METHOD_PROBE, PROBE_TIMEOUT_MS, &request,
                        &probing->gathering, is_passing, err);
    sluice_message_clear(&request);
    return status;
}

/* Bytes per second from the first arrival to the last, so latency and set-up do not count.  If more
 * came after the burst than in it, the burst does not count either. */
static double probed_rate(const struct probing *probing)
{
    if (probing->last_ns > probing->from_ns && probing->bytes > 2 * probing->burst_bytes)
        return (double)(probing->bytes - probing->burst_bytes) * 1e9 /
               (double)(probing->last_ns - probing->from_ns);
    if (probing->last_ns > probing->first_ns)
        return (double)probing->bytes * 1e9 / (double)(probing->last_ns - probing->first_ns);
    return 0;
}

static bool is_long(const struct probing *probing)
{
    return probing->last_ns - probing->first_ns >= PROBE_LONG_NS;
}

/* A probe that broke off counts if what came before was more than a burst. */
static bool has_rate(const struct probing *probing, sluice_status status)
{
    return probed_rate(probing) > 0 &&
           (status == SLUICE_OK || probing->last_ns - probing->first_ns > 2 * PROBE_BURST_NS);
}

sluice_status sluice_client_probe(struct sluice_client *client, uint64_t max_bytes,
                                  struct sluice_client_probed *probed, struct sluice_err *err)
{
    const uint64_t start_ns = sluice_clock_ns();
    uint64_t bytes = FIRST_PROBE_BYTES < max_bytes ? FIRST_PROBE_BYTES : max_bytes;
    struct probing best = {0};
    sluice_status status = SLUICE_OK;
    struct sluice_err cause = {0};
    for (;;) {
        struct probing probing = {.asked_bytes = bytes};
        const double spent_s = (double)(sluice_clock_ns() - start_ns) * 1e-9;
        const double patience_s = spent_s < PROBE_PATIENCE_S ? PROBE_PATIENCE_S - spent_s : 0;
        status = sluice_client_call_for(client, patience_s, try_probe, &probing, &cause);
        if (status == SLUICE_E_CLOSED)
            return sluice_fail(err, status, "%s", cause.text);
        if (has_rate(&probing, status))
            best = probing;
        if (status != SLUICE_OK || is_long(&probing) || bytes >= max_bytes)
            break;
        bytes = bytes * PROBE_GROWTH < max_bytes ? bytes * PROBE_GROWTH : max_bytes;
    }
    if (best.bytes == 0 && status != SLUICE_OK)
        return sluice_fail(err, status, "%s", cause.text);
    if (best.bytes == 0)
        return sluice_fail(err, SLUICE_E_INTERNAL,
                           "the probe of %s came in too few messages to measure",
                           sluice_client_target(client));
    *probed = (struct sluice_client_probed){
        .link_bytes_per_s = probed_rate(&best),
        .receive_s_per_byte =
            (double)(best.last_cpu_ns - best.first_cpu_ns) * 1e-9 / (double)best.bytes,
    };
    return SLUICE_OK;
}
