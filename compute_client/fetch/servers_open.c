#include "base/clock.h"
#include "base/cond.h"
#include "base/log.h"
#include "base/progress.h"
#include "compute_client/fetch/servers_state.h"
#include "compute_client/fetch/tuning.h"
#include "compute_client/loader/source/retry.h"
#include "datasets/manifest/image_sizes.h"
#include "datasets/manifest/join.h"
#include "wire/wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lists that are asked for, if a server has read its own again each time. */
#define MAX_LISTS 3

/* --- names --- */

/* With retries, as a server is waited for. */
static sluice_status resolve_first(struct sluice_servers *s, const struct sluice_host_item *item,
                                   char (*found)[SLUICE_HOST_PORT_BYTES], size_t *num_found,
                                   struct sluice_err *err)
{
    struct sluice_retry retry =
        sluice_retry_init(s->client.retry_for_s, sluice_clock_ns() ^ (uint64_t)getpid());
    for (;;) {
        struct sluice_err cause = {0};
        uint64_t wait = 0;
        const sluice_status status = servers_resolve(s, item, found, num_found, &cause);
        if (status == SLUICE_OK)
            return status;
        if (!sluice_retry_failed(&retry, sluice_clock_ns(), &wait))
            return sluice_fail(err, status, "%s (tried for %.7g s)", cause.text,
                               s->client.retry_for_s);
        if (retry.attempt == 1)
            sluice_log(SLUICE_LOG_WARN, "%s (trying for up to %.7g s)", cause.text,
                       s->client.retry_for_s);
        if (!servers_wait_until(s, sluice_clock_ns() + wait))
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped while waiting for %s",
                               item->address.host);
    }
}

static sluice_status open_names(struct sluice_servers *s, struct sluice_err *err)
{
    char(*found)[SLUICE_HOST_PORT_BYTES] = calloc(SLUICE_MAX_SERVERS, sizeof(*found));
    sluice_status status =
        found ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for addresses");
    for (size_t i = 0; status == SLUICE_OK && i < s->items.num; i++) {
        const struct sluice_host_item *item = &s->items.at[i];
        if (!item->is_dns)
            continue;
        size_t num_found = 0;
        status = resolve_first(s, item, found, &num_found, err);
        for (size_t k = 0; status == SLUICE_OK && k < num_found; k++) {
            if (!servers_has(s, item, found[k]))
                status = servers_add(s, item, found[k], NULL, err);
        }
        if (status == SLUICE_OK)
            sluice_log(SLUICE_LOG_INFO, "%s has %zu address%s", item->address.host, num_found,
                       num_found == 1 ? "" : "es");
    }
    free(found);
    return status;
}

/* --- Hello --- */

/* Whether the error is temporary; any other error means a server that does not fit. */
static bool is_away(sluice_status status)
{
    return status == SLUICE_E_IO || status == SLUICE_E_NO_MEMORY || status == SLUICE_E_AGAIN ||
           status == SLUICE_E_CLOSED || status == SLUICE_E_INTERNAL;
}

static void call_hello(struct call *call)
{
    call->status = sluice_client_hello(call->server->client, call->pipeline, "",
                                       &call->server->info, &call->err);
}

enum progress { WAITING, SOME, ALL, FAILED };

/* Under the lock: whether each shard has an answer, or all calls are done, or a shard can get none
 * or has a server that does not fit.  FAILED: *of is the call that tells why. */
static enum progress progress_of(const struct sluice_servers *s, const struct call *calls,
                                 size_t num, size_t *of)
{
    bool are_all_done = true, has_each = true;
    for (uint32_t shard = 0; shard < s->num_shards; shard++) {
        bool has_one = false, may_come = false;
        size_t failed = num;
        for (size_t i = 0; i < num; i++) {
            if (calls[i].server->item->shard != shard)
                continue;
            may_come |= !calls[i].is_done;
            has_one |= calls[i].is_done && calls[i].status == SLUICE_OK;
            if (!calls[i].is_done || calls[i].status == SLUICE_OK)
                continue;
            if (failed == num || !is_away(calls[i].status))
                failed = i;
        }
        if (failed < num && (!is_away(calls[failed].status) || (!has_one && !may_come))) {
            *of = failed;
            return FAILED;
        }
        has_each = has_each && has_one;
        are_all_done = are_all_done && !may_come;
    }
    return has_each ? (are_all_done ? ALL : SOME) : WAITING;
}

/* Waits until a shard has failed, all are done, or each shard has an answer and further ones had
 * their time. */
static enum progress await_hellos(struct sluice_servers *s, const struct call *calls, size_t num,
                                  size_t *of)
{
    uint64_t until_ns = UINT64_MAX;
    bool has_time = true;
    enum progress progress = WAITING;
    pthread_mutex_lock(&s->lock);
    while (has_time && !s->is_stopped) {
        progress = progress_of(s, calls, num, of);
        if (progress == ALL || progress == FAILED)
            break;
        if (progress == SOME && until_ns == UINT64_MAX)
            until_ns = sluice_clock_ns() + TUNING_REPLICA_GRACE_S * 1000000000ull;
        has_time = sluice_cond_wait_until(&s->changed, &s->lock, until_ns);
    }
    pthread_mutex_unlock(&s->lock);
    return progress;
}

/* Ends the calls that are not done, and gives their servers new clients. */
static sluice_status leave_behind(struct sluice_servers *s, struct call *calls, size_t num,
                                  struct sluice_err *err)
{
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < num; i++) {
        if (!calls[i].is_done)
            sluice_client_stop(calls[i].server->client);
    }
    pthread_mutex_unlock(&s->lock);
    servers_join_calls(calls, num);
    for (size_t i = 0; i < num; i++) {
        struct server *server = calls[i].server;
        server->has_answered = calls[i].status == SLUICE_OK;
        if (server->has_answered || !sluice_client_is_stopped(server->client))
            continue;
        struct sluice_client *client = NULL;
        const sluice_status status = servers_make_client(s, server, &client, err);
        if (status != SLUICE_OK)
            return status;
        pthread_mutex_lock(&s->lock);
        struct sluice_client *old = server->client;
        server->client = client;
        if (s->is_stopped)
            sluice_client_stop(client);
        pthread_mutex_unlock(&s->lock);
        sluice_client_destroy(old);
    }
    return SLUICE_OK;
}

static void tell_absent(const struct sluice_servers *s)
{
    for (size_t i = 0; i < s->num; i++) {
        if (!s->at[i]->has_answered)
            sluice_log(SLUICE_LOG_WARN,
                       "%s does not answer; other replicas serve, and it is used once it does",
                       s->at[i]->target);
    }
}

/* The error of a server that does not fit names the server.  That of one that is away names its
 * shard, if there are several shards or the shard has several servers. */
static sluice_status fail_shard(const struct sluice_servers *s, const struct call *call,
                                struct sluice_err *err)
{
    const uint32_t shard = call->server->item->shard;
    size_t num_replicas = 0;
    for (size_t i = 0; i < s->num; i++)
        num_replicas += s->at[i]->item->shard == shard;
    if (!is_away(call->status) || (s->num_shards == 1 && num_replicas == 1))
        return sluice_fail(err, call->status, "%s", call->err.text);
    if (s->num_shards == 1)
        return sluice_fail(err, call->status, "none of %zu replicas (%.200s) is there: %s",
                           num_replicas, s->shards[0].text, call->err.text);
    return sluice_fail(err, call->status, "shard %u of %zu (--host %.200s) is not there: %s",
                       shard + 1, s->num_shards, s->shards[shard].text, call->err.text);
}

static sluice_status greet(struct sluice_servers *s, const struct sluice_pipeline *pipeline,
                           struct sluice_err *err)
{
    size_t num = 0, of = 0;
    struct call *calls = servers_make_calls(s, false, call_hello, &num);
    if (!calls)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu calls", s->num);
    for (size_t i = 0; i < num; i++)
        calls[i].pipeline = pipeline;
    servers_start_calls(calls, num);
    const enum progress progress = await_hellos(s, calls, num, &of);
    const struct call failed = progress == FAILED ? calls[of] : (struct call){0};
    sluice_status status = leave_behind(s, calls, num, err);
    if (status == SLUICE_OK && servers_is_stopped(s))
        status = sluice_fail(err, SLUICE_E_CLOSED, "stopped while waiting for %s", s->target);
    else if (status == SLUICE_OK && progress == FAILED)
        status = fail_shard(s, &failed, err);
    if (status == SLUICE_OK)
        tell_absent(s);
    free(calls);
    return status;
}

/* --- what they say --- */

static sluice_status check_replicas(struct sluice_servers *s, struct sluice_err *err)
{
    for (uint32_t shard = 0; shard < s->num_shards; shard++) {
        const struct server *first = NULL;
        for (size_t i = 0; i < s->num; i++) {
            const struct server *server = s->at[i];
            if (!server->has_answered || server->item->shard != shard)
                continue;
            if (!first) {
                first = server;
                memcpy(s->shards[shard].dataset_id, server->info.dataset_id,
                       sizeof(s->shards[shard].dataset_id));
                continue;
            }
            if (strcmp(first->info.dataset_id, server->info.dataset_id) != 0)
                return sluice_fail(
                    err, SLUICE_E_INVALID,
                    "%s has dataset %s, and %s has %s: replicas have the same files; servers with "
                    "different ones are shards, each with a --host of its own: --host %s --host %s",
                    first->target, first->info.dataset_id, server->target, server->info.dataset_id,
                    first->target, server->target);
            if (first->info.max_image_pixels != server->info.max_image_pixels ||
                first->info.max_file_bytes != server->info.max_file_bytes)
                sluice_log(SLUICE_LOG_WARN,
                           "the replicas %s and %s have other limits for images: which samples "
                           "fail depends on who is asked",
                           first->target, server->target);
        }
    }
    return SLUICE_OK;
}

static sluice_status check_abilities(struct sluice_servers *s, struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < s->num; i++) {
        if (s->at[i]->has_answered && s->num_shards > 1)
            status = sluice_client_check_listed_id(s->at[i]->client, &s->at[i]->info, err);
        if (s->at[i]->has_answered && s->needs_file_image && status == SLUICE_OK)
            status = sluice_client_check_file_image(s->at[i]->client, &s->at[i]->info, err);
    }
    return status;
}

/* 0: unknown, so there may be none. */
static uint64_t larger_limit(uint64_t a, uint64_t b)
{
    return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

static void merge_info(const struct sluice_servers *s, struct sluice_server_info *info)
{
    bool is_first = true;
    for (size_t i = 0; i < s->num; i++) {
        const struct sluice_server_info *one = &s->at[i]->info;
        if (!s->at[i]->has_answered)
            continue;
        if (is_first) {
            *info = *one;
            is_first = false;
            continue;
        }
        info->prep_cores += one->prep_cores;
        info->max_in_flight =
            one->max_in_flight < info->max_in_flight ? one->max_in_flight : info->max_in_flight;
        info->max_image_pixels = larger_limit(info->max_image_pixels, one->max_image_pixels);
        info->max_file_bytes = larger_limit(info->max_file_bytes, one->max_file_bytes);
        info->forms &= one->forms;
        info->has_jpeg_index &= one->has_jpeg_index;
        info->has_hashes &= one->has_hashes;
        info->has_jpeg_crop_restart &= one->has_jpeg_crop_restart;
        info->has_listed_id &= one->has_listed_id;
        info->has_file_image &= one->has_file_image;
        sluice_machine_merge(&info->machine, &one->machine);
    }
}

/* --- lists --- */

/* From the first replica that has it. */
static void call_list(struct call *call)
{
    const struct sluice_servers *s = call->servers;
    call->status = SLUICE_E_IO;
    for (size_t i = 0; i < s->num; i++) {
        const struct server *server = s->at[i];
        if (!server->has_answered || &s->shards[server->item->shard] != call->shard)
            continue;
        call->err = (struct sluice_err){0};
        call->status =
            sluice_client_list(server->client, &server->info, &call->shard->manifest, &call->err);
        if (call->status != SLUICE_E_IO)
            break;
    }
}

static sluice_status take_lists(struct sluice_servers *s, struct sluice_err *err)
{
    struct call *calls = calloc(s->num_shards, sizeof(*calls));
    if (!calls)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu calls", s->num_shards);
    for (size_t i = 0; i < s->num_shards; i++) {
        sluice_manifest_destroy(s->shards[i].manifest);
        s->shards[i].manifest = NULL;
        calls[i] = (struct call){.run = call_list, .servers = s, .shard = &s->shards[i]};
    }
    servers_start_calls(calls, s->num_shards);
    servers_join_calls(calls, s->num_shards);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < s->num_shards; i++) {
        if (calls[i].status != SLUICE_OK)
            status = sluice_fail(err, calls[i].status, "%s", calls[i].err.text);
    }
    free(calls);
    return status;
}

static sluice_status merge_lists(struct sluice_servers *s, struct sluice_manifest **manifest,
                                 struct sluice_err *err)
{
    if (s->num_shards == 1) {
        *manifest = s->shards[0].manifest;
        s->shards[0].manifest = NULL;
        return SLUICE_OK;
    }
    struct sluice_manifest_part *lists = calloc(s->num_shards, sizeof(*lists));
    if (!lists)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu lists", s->num_shards);
    for (size_t i = 0; i < s->num_shards; i++)
        lists[i] = (struct sluice_manifest_part){
            .manifest = s->shards[i].manifest, .root = "", .name = s->shards[i].text};
    const sluice_status status =
        sluice_manifest_join(lists, s->num_shards, manifest, &s->places, err);
    free(lists);
    for (size_t i = 0; i < s->num_shards; i++) {
        sluice_manifest_destroy(s->shards[i].manifest);
        s->shards[i].manifest = NULL;
    }
    return status;
}

sluice_status sluice_servers_open(struct sluice_servers *servers,
                                  const struct sluice_pipeline *pipeline,
                                  struct sluice_server_info *info,
                                  struct sluice_manifest **manifest, struct sluice_err *err)
{
    struct sluice_servers *s = servers;
    sluice_status status = open_names(s, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_err cause;
    for (int tries = 0; tries == 0 || (status == SLUICE_E_STALE && tries < MAX_LISTS); tries++) {
        cause = (struct sluice_err){0};
        status = greet(s, pipeline, &cause);
        if (status == SLUICE_OK)
            status = check_replicas(s, &cause);
        if (status == SLUICE_OK)
            status = check_abilities(s, &cause);
        if (status == SLUICE_OK)
            status = take_lists(s, &cause);
    }
    struct sluice_manifest *merged = NULL;
    if (status == SLUICE_OK)
        status = merge_lists(s, &merged, &cause);
    if (status != SLUICE_OK)
        return sluice_fail(err, status, "%s", cause.text);
    struct sluice_server_info of_all = {0};
    merge_info(s, &of_all);
    of_all.num_samples = merged->num_entries;
    sluice_hash128_hex(sluice_manifest_id(merged), of_all.dataset_id);
    *info = of_all;
    *manifest = merged;
    return SLUICE_OK;
}

/* --- sizes --- */

/* One table that the calls of all shards fill in. */
struct sizing {
    struct sluice_image_sizes *sizes; /* of the whole list */
    uint32_t **row_of;                /* in it, by shard and row of the shard; NULL: the same row */
    struct sluice_progress progress;  /* under the servers' lock, like the next */
    uint64_t num_done;
};

static void take_sizes(void *ctx, uint64_t first_row, const struct sluice_wire_image_size *sizes,
                       size_t num)
{
    const struct call *call = ctx;
    struct sluice_servers *s = call->servers;
    struct sizing *sizing = call->sizing;
    const uint32_t *row_of = sizing->row_of ? sizing->row_of[call->shard - s->shards] : NULL;
    for (size_t i = 0; i < num; i++) {
        const struct sluice_image_size size = {sizes[i].width, sizes[i].height,
                                               sizes[i].orientation};
        const size_t row = (size_t)first_row + i;
        sluice_image_sizes_set(sizing->sizes, row_of ? row_of[row] : row, &size);
    }
    pthread_mutex_lock(&s->lock);
    sizing->num_done += num;
    sluice_progress_update(&sizing->progress, sizing->num_done, NULL);
    pthread_mutex_unlock(&s->lock);
}

/* From the first replica that has them. */
static void call_sizes(struct call *call)
{
    const struct sluice_servers *s = call->servers;
    const bool is_upright = sluice_image_sizes_is_upright(call->sizing->sizes);
    call->status = SLUICE_E_IO;
    for (size_t i = 0; i < s->num && call->status == SLUICE_E_IO; i++) {
        const struct server *server = s->at[i];
        if (!server->has_answered || &s->shards[server->item->shard] != call->shard)
            continue;
        call->err = (struct sluice_err){0};
        call->status = sluice_client_read_sizes(server->client, &server->info, is_upright,
                                                take_sizes, call, &call->err);
    }
}

/* The inverse of s->places. */
static uint32_t **find_rows(const struct sluice_servers *s, size_t num)
{
    uint32_t **row_of = calloc(s->num_shards, sizeof(*row_of));
    uint32_t *rows = row_of ? malloc((num + 1) * sizeof(*rows)) : NULL;
    if (!rows) {
        free(row_of);
        return NULL;
    }
    size_t *counts = calloc(s->num_shards + 1, sizeof(*counts));
    if (!counts) {
        free(rows);
        free(row_of);
        return NULL;
    }
    for (size_t i = 0; i < num; i++)
        counts[s->places[i].part]++;
    for (size_t shard = 0, begin = 0; shard < s->num_shards; begin += counts[shard++])
        row_of[shard] = rows + begin;
    for (size_t i = 0; i < num; i++)
        row_of[s->places[i].part][s->places[i].row] = (uint32_t)i;
    free(counts);
    return row_of;
}

static void tell_without_size(const struct sluice_image_sizes *sizes, size_t num)
{
    struct sluice_image_size size;
    size_t num_without = 0;
    for (size_t i = 0; i < num; i++)
        num_without += sluice_image_sizes_get(sizes, i, &size) && size.width == 0;
    if (num_without > 0)
        sluice_log(SLUICE_LOG_WARN,
                   "%zu of %zu images have no size that can be read; the server's log says why",
                   num_without, num);
}

sluice_status sluice_servers_read_sizes(struct sluice_servers *servers, size_t num,
                                        struct sluice_image_sizes *sizes, struct sluice_err *err)
{
    struct sluice_servers *s = servers;
    struct sizing sizing = {.sizes = sizes};
    struct call *calls = calloc(s->num_shards, sizeof(*calls));
    sizing.row_of = calls && s->places ? find_rows(s, num) : NULL;
    if (!calls || (s->places && !sizing.row_of)) {
        free(calls);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the sizes of %zu images", num);
    }
    for (size_t i = 0; i < s->num_shards; i++)
        calls[i] = (struct call){
            .run = call_sizes, .servers = s, .shard = &s->shards[i], .sizing = &sizing};
    sluice_progress_start(&sizing.progress, "reading sizes", num);
    servers_start_calls(calls, s->num_shards);
    servers_join_calls(calls, s->num_shards);
    sluice_progress_end(&sizing.progress, sizing.num_done);
    tell_without_size(sizes, num);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < s->num_shards; i++) {
        if (calls[i].status != SLUICE_OK)
            status = sluice_fail(err, calls[i].status, "%s", calls[i].err.text);
    }
    if (sizing.row_of)
        free(sizing.row_of[0]);
    free(sizing.row_of);
    free(calls);
    return status;
}
