#include "compute_client/loader/order/state.h"

#include "base/c_locale.h"
#include "base/noted_alloc.h"
#include "base/parse.h"
#include "base/text.h"
#include "op/op.h"

#include <jansson.h>

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
#define VERSION_OF_MIX 2 /* who knows no mixes, or no shards, does not read on in one */
#define VERSION_OF_COPIES 3
#define VERSION_OF_BUCKETS 4
#define MAX_TEXT_BYTES 65536u

#define HEX_DIGITS "0123456789abcdef"

/* Items of an epoch of the loader's own order. */
static uint64_t total_of(const struct sluice_state *state)
{
    return state->mix[0] ? state->num_items : state->num_samples * state->repeat;
}

static const char *part_name(uint32_t part)
{
    return part == SLUICE_VAL ? "val" : "train";
}

void sluice_state_write(const struct sluice_state *state, char out[SLUICE_MAX_STATE])
{
    /* Nothing in it needs escapes. */
    assert(strspn(state->dataset_id, HEX_DIGITS) == strlen(state->dataset_id));
    assert(strcspn(state->mix, "\\\"") == strlen(state->mix));
    size_t len = (size_t)snprintf(
        out, SLUICE_MAX_STATE,
        "{\"sluice\":%d,\"part\":\"%s\",\"epoch\":%" PRIu64 ",\"cursor\":%" PRIu64
        ",\"global_batch\":%" PRIu64 ",\"repeat\":%" PRIu64 ",\"samples\":%" PRIu64
        ",\"dataset\":\"%.32s\",\"pipeline\":\"%016" PRIx64 "\",\"seed\":\"%" PRIu64 "\"",
        state->num_buckets                  ? VERSION_OF_BUCKETS
        : state->copies > 1                 ? VERSION_OF_COPIES
        : state->mix[0] || state->num_mixed ? VERSION_OF_MIX
                                            : VERSION,
        part_name(state->part), state->epoch, state->cursor, state->global_batch, state->repeat,
        state->num_samples, state->dataset_id, state->pipeline, state->seed);
    if (state->mix[0])
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len,
                                ",\"mix\":\"%s\",\"items\":%" PRIu64, state->mix, state->num_items);
    if (state->num_mixed)
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, ",\"shards\":%" PRIu32,
                                state->num_mixed);
    if (state->copies > 1)
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, ",\"copies\":%" PRIu32,
                                state->copies);
    if (state->num_buckets)
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len,
                                ",\"buckets\":%" PRIu32 ",\"batch\":%" PRIu32, state->num_buckets,
                                state->batch);
    else if (state->has_order)
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, ",\"order\":\"%016" PRIx64 "\"",
                                state->order_hash);
    len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, ",\"errors\":{");
    const char *comma = "";
    for (size_t i = 0; i < SLUICE_NUM_STATUS; i++) {
        if (!state->errors[i])
            continue;
        len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, "%s\"%s\":%" PRIu64, comma,
                                sluice_status_name((sluice_status)i), state->errors[i]);
        comma = ",";
    }
    len += (size_t)snprintf(out + len, SLUICE_MAX_STATE - len, "}}");
    assert(len < SLUICE_MAX_STATE);
    (void)len;
}

static sluice_status bad(const char *key, const char *why, struct sluice_err *err)
{
    return sluice_fail(err, SLUICE_E_CORRUPT, "the state's \"%s\" %s", key, why);
}

static sluice_status read_uint(const json_t *object, const char *key, uint64_t min, uint64_t max,
                               uint64_t *value, struct sluice_err *err)
{
    const json_t *member = json_object_get(object, key);
    if (!member)
        return bad(key, "is missing", err);
    if (!json_is_integer(member))
        return bad(key, "is no whole number", err);
    const json_int_t got = json_integer_value(member);
    if (got < 0 || (uint64_t)got < min || (uint64_t)got > max)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the state's \"%s\" is %lld, not %" PRIu64 " to %" PRIu64, key,
                           (long long)got, min, max);
    *value = (uint64_t)got;
    return SLUICE_OK;
}

static sluice_status read_uint32(const json_t *object, const char *key, uint32_t min, uint32_t max,
                                 uint32_t *value, struct sluice_err *err)
{
    uint64_t read = 0;
    const sluice_status status = read_uint(object, key, min, max, &read, err);
    *value = (uint32_t)read;
    return status;
}

static sluice_status read_text(const json_t *object, const char *key, const char **text,
                               struct sluice_err *err)
{
    const json_t *member = json_object_get(object, key);
    if (!member)
        return bad(key, "is missing", err);
    if (!json_is_string(member))
        return bad(key, "is no text", err);
    *text = json_string_value(member);
    return SLUICE_OK;
}

static sluice_status read_hex64(const json_t *object, const char *key, uint64_t *value,
                                struct sluice_err *err)
{
    const char *text = NULL;
    const sluice_status status = read_text(object, key, &text, err);
    if (status != SLUICE_OK)
        return status;
    if (strlen(text) != 16 || strspn(text, HEX_DIGITS) != 16)
        return bad(key, "is not 16 hexadecimal digits", err);
    *value = strtoull(text, NULL, 16);
    return SLUICE_OK;
}

static sluice_status read_dataset(const json_t *object, char out[33], struct sluice_err *err)
{
    const char *text = NULL;
    const sluice_status status = read_text(object, "dataset", &text, err);
    if (status != SLUICE_OK)
        return status;
    const size_t len = strlen(text);
    if ((len != 0 && len != 32) || strspn(text, HEX_DIGITS) != len)
        return bad("dataset", "is not 32 hexadecimal digits", err);
    memcpy(out, text, len + 1);
    return SLUICE_OK;
}

static sluice_status read_seed(const json_t *object, uint64_t *seed, struct sluice_err *err)
{
    const char *text = NULL;
    const sluice_status status = read_text(object, "seed", &text, err);
    if (status != SLUICE_OK)
        return status;
    if (sluice_parse_uint(text, seed, NULL) != SLUICE_OK)
        return bad("seed", "is no whole number below 2^64", err);
    return SLUICE_OK;
}

static sluice_status read_part(const json_t *object, uint32_t *part, struct sluice_err *err)
{
    const char *text = NULL;
    const sluice_status status = read_text(object, "part", &text, err);
    if (status != SLUICE_OK)
        return status;
    if (strcmp(text, "train") != 0 && strcmp(text, "val") != 0)
        return bad("part", "is neither \"train\" nor \"val\"", err);
    *part = strcmp(text, "val") == 0 ? SLUICE_VAL : SLUICE_TRAIN;
    return SLUICE_OK;
}

static sluice_status read_errors(const json_t *object, uint64_t errors[SLUICE_NUM_STATUS],
                                 struct sluice_err *err)
{
    const json_t *counts = json_object_get(object, "errors");
    if (!counts)
        return SLUICE_OK;
    if (!json_is_object(counts))
        return bad("errors", "is no object", err);
    for (size_t i = 0; i < SLUICE_NUM_STATUS; i++) {
        const char *name = sluice_status_name((sluice_status)i);
        if (!json_object_get(counts, name))
            continue;
        struct sluice_err cause = {{0}};
        const sluice_status status = read_uint(counts, name, 0, INT64_MAX, &errors[i], &cause);
        if (status != SLUICE_OK)
            return sluice_fail(err, status, "%s, of its \"errors\"", cause.text);
    }
    return SLUICE_OK;
}

/* Batches and their size, of a checkpoint without "sluice".  Its last batch may be a short one. */
static sluice_status read_batches(const json_t *object, uint64_t total, struct sluice_state *state,
                                  struct sluice_err *err)
{
    uint64_t batch;
    sluice_status status =
        read_uint(object, "batch_size", 1, UINT32_MAX, &state->global_batch, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t most = (total + state->global_batch - 1) / state->global_batch;
    status = read_uint(object, "batch", 0, most, &batch, err);
    if (status != SLUICE_OK)
        return status;
    state->cursor = batch * state->global_batch < total ? batch * state->global_batch : total;
    return SLUICE_OK;
}

static sluice_status read_cursor(const json_t *object, uint64_t total, struct sluice_state *state,
                                 struct sluice_err *err)
{
    sluice_status status =
        read_uint(object, "global_batch", 1, UINT32_MAX, &state->global_batch, err);
    /* An external order is as long as it likes. */
    const uint64_t most = state->has_order ? UINT32_MAX : total;
    if (status == SLUICE_OK)
        status = read_uint(object, "cursor", 0, most, &state->cursor, err);
    if (status != SLUICE_OK)
        return status;
    if (!state->has_order && state->num_buckets == 0 && state->cursor < total &&
        state->cursor % state->global_batch)
        return sluice_fail(err, SLUICE_E_CORRUPT,
                           "the state's \"cursor\" is %" PRIu64
                           ", no multiple of its \"global_batch\", %" PRIu64,
                           state->cursor, state->global_batch);
    return SLUICE_OK;
}

/* Reads the mix, which must be in the canonical form of sluice_mix_parse(). */
static sluice_status read_mix(const json_t *object, struct sluice_state *state,
                              struct sluice_err *err)
{
    const char *text = NULL;
    struct sluice_mix mix;
    sluice_status status = read_text(object, "mix", &text, err);
    if (status != SLUICE_OK)
        return status;
    if (sluice_mix_parse(text, &mix, NULL) != SLUICE_OK || mix.num == 0 ||
        strcmp(mix.text, text) != 0)
        return bad("mix", "is no mix of roots", err);
    memcpy(state->mix, mix.text, sizeof(state->mix));
    return read_uint(object, "items", 1, UINT32_MAX, &state->num_items, err);
}

static sluice_status read_buckets(const json_t *object, struct sluice_state *state,
                                  struct sluice_err *err)
{
    if (json_object_get(object, "order"))
        return bad("order", "has no buckets", err);
    const sluice_status status =
        read_uint32(object, "buckets", 1, SLUICE_MAX_BUCKETS, &state->num_buckets, err);
    return status ? status : read_uint32(object, "batch", 0, UINT32_MAX, &state->batch, err);
}

static sluice_status read_all(const json_t *object, struct sluice_state *state,
                              struct sluice_err *err)
{
    if (!json_is_object(object))
        return sluice_fail(err, SLUICE_E_CORRUPT, "the state is no JSON object");
    const json_t *version = json_object_get(object, "sluice");
    if (version && !json_is_integer(version))
        return bad("sluice", "is no whole number", err);
    const json_int_t number = version ? json_integer_value(version) : VERSION;
    if (number < VERSION || number > VERSION_OF_BUCKETS)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the state's \"sluice\", its version, is %lld, and this reads %d to %d",
                           (long long)number, VERSION, VERSION_OF_BUCKETS);
    const bool has_mix = number >= VERSION_OF_MIX;
    sluice_status status = read_uint(object, "epoch", 0, UINT32_MAX, &state->epoch, err);
    if (status == SLUICE_OK)
        status = read_uint(object, "repeat", 1, UINT32_MAX, &state->repeat, err);
    if (status == SLUICE_OK)
        status =
            read_uint(object, "samples", 1, UINT32_MAX / state->repeat, &state->num_samples, err);
    const bool has_shards = has_mix && json_object_get(object, "shards");
    if (status == SLUICE_OK && has_shards)
        status = read_uint32(object, "shards", 1, UINT32_MAX, &state->num_mixed, err);
    const bool needs_mix = number == VERSION_OF_MIX && !has_shards;
    if (status == SLUICE_OK && has_mix && (needs_mix || json_object_get(object, "mix")))
        status = read_mix(object, state, err);
    state->copies = 1;
    const bool has_copies = number == VERSION_OF_COPIES ||
                            (number > VERSION_OF_COPIES && json_object_get(object, "copies"));
    if (status == SLUICE_OK && has_copies)
        status = read_uint32(object, "copies", 1, UINT32_MAX, &state->copies, err);
    if (status == SLUICE_OK && number == VERSION_OF_BUCKETS)
        status = read_buckets(object, state, err);
    if (status == SLUICE_OK)
        status = read_dataset(object, state->dataset_id, err);
    if (status == SLUICE_OK)
        status = read_hex64(object, "pipeline", &state->pipeline, err);
    if (status == SLUICE_OK)
        status = read_seed(object, &state->seed, err);
    if (status == SLUICE_OK)
        status = read_errors(object, state->errors, err);
    if (status != SLUICE_OK)
        return status;
    const uint64_t total = total_of(state);
    if (!version)
        return read_batches(object, total, state, err);
    status = read_part(object, &state->part, err);
    state->has_order = json_object_get(object, "order") != NULL;
    if (status == SLUICE_OK && state->has_order)
        status = read_hex64(object, "order", &state->order_hash, err);
    return status == SLUICE_OK ? read_cursor(object, total, state, err) : status;
}

sluice_status sluice_state_read(const char *text, struct sluice_state *state,
                                struct sluice_err *err)
{
    const size_t len = strnlen(text, MAX_TEXT_BYTES + 1);
    if (len > MAX_TEXT_BYTES)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "the state is longer than %u bytes",
                           MAX_TEXT_BYTES);
    json_error_t why;
    sluice_noted_begin();
    json_t *object = SLUICE_IN_C_LOCALE(json_loadb(text, len, JSON_REJECT_DUPLICATES, &why));
    if (sluice_noted_is_short() || (!object && json_error_code(&why) == json_error_out_of_memory)) {
        json_decref(object);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to read the state");
    }
    if (!object) {
        char words[sizeof(why.text)];
        sluice_escape_line(words, sizeof(words), why.text);
        return sluice_fail(err, SLUICE_E_CORRUPT, "the state is no JSON object: line %d: %s",
                           why.line, words);
    }
    struct sluice_state got = {0};
    const sluice_status status = read_all(object, &got, err);
    json_decref(object);
    if (status == SLUICE_OK)
        *state = got;
    return status;
}

#define ANEW "or start anew without the state"

static sluice_status check_order(const struct sluice_state *saved, const struct sluice_state *now,
                                 struct sluice_err *err)
{
    if (saved->has_order && !now->has_order)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of an order that the caller gave (hash %016" PRIx64
                           "), and this is the loader's own shuffle: give that order, " ANEW,
                           saved->order_hash);
    if (!saved->has_order && now->has_order)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of the loader's own shuffle, and this is an order that "
                           "the caller gives (hash %016" PRIx64 "): give none, " ANEW,
                           now->order_hash);
    if (saved->has_order && saved->order_hash != now->order_hash)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the order that the caller gives changed since the state was taken "
                           "(hash %016" PRIx64 " then, %016" PRIx64
                           " now): give the sampler the seed and epoch of then, " ANEW,
                           saved->order_hash, now->order_hash);
    return SLUICE_OK;
}

/* The smallest divisors of `number`: "1, 2, 4, 8 ...". */
static void list_divisors(uint64_t number, char out[128])
{
    /* More ranks than this have no place in a hint, and a hint needs no long search. */
    const uint64_t most = number < 4096 ? number : 4096;
    uint64_t last = 0;
    size_t len = 0;
    for (uint64_t k = 1, found = 0; k <= most && found < 8; k++) {
        if (number % k)
            continue;
        len += (size_t)snprintf(out + len, 128 - len, "%s%" PRIu64, last ? ", " : "", k);
        last = k;
        found++;
    }
    if (last < number)
        snprintf(out + len, 128 - len, " ...");
}

static sluice_status check_global_batch(const struct sluice_state *saved,
                                        const struct sluice_state *now, uint32_t world_size,
                                        struct sluice_err *err)
{
    const uint64_t then = saved->global_batch, total = total_of(saved);
    const bool is_end = !saved->has_order && saved->cursor == total;
    assert(world_size && now->global_batch % world_size == 0);
    if (saved->cursor == 0 || is_end || then == now->global_batch)
        return SLUICE_OK;
    if (world_size == 1)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state was taken with global batches of %" PRIu64
                           " samples, and these are of %" PRIu64 ": pass --batch-size %" PRIu64
                           ", " ANEW,
                           then, now->global_batch, then);
    const uint64_t size = now->global_batch / world_size;
    if (then % world_size == 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state was taken with global batches of %" PRIu64
                           " samples, and this is %u x %" PRIu64 " = %" PRIu64
                           ": pass --batch-size %" PRIu64 " (%u x %" PRIu64 " = %" PRIu64
                           "), " ANEW,
                           then, world_size, size, now->global_batch, then / world_size, world_size,
                           then / world_size, then);
    char divisors[128];
    list_divisors(then, divisors);
    return sluice_fail(err, SLUICE_E_INVALID,
                       "the state was taken with global batches of %" PRIu64
                       " samples, and this is %u x %" PRIu64 " = %" PRIu64
                       ": choose a world size and a batch size with which world size x batch size "
                       "is %" PRIu64 " (a world size of %u does not divide it: %s do), " ANEW,
                       then, world_size, size, now->global_batch, then, world_size, divisors);
}

sluice_status sluice_state_check(const struct sluice_state *saved, const struct sluice_state *now,
                                 uint32_t world_size, struct sluice_err *err)
{
    const char *part = part_name(saved->part);
    assert(saved->part == now->part);
    if (strcmp(saved->dataset_id, now->dataset_id) != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the dataset changed since the state was taken (id %s then, %s now): "
                           "give the dataset of then, " ANEW,
                           saved->dataset_id[0] ? saved->dataset_id : "unknown",
                           now->dataset_id[0] ? now->dataset_id : "unknown");
    if (saved->num_samples != now->num_samples)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of %" PRIu64 " %s samples, and these are %" PRIu64
                           ": pass the --limit-samples of then, " ANEW,
                           saved->num_samples, part, now->num_samples);
    if (saved->pipeline != now->pipeline)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the pipeline changed since the state was taken (fingerprint %016" PRIx64
                           " then, %016" PRIx64
                           " now): pass the --%s and --image-size of then, " ANEW,
                           saved->pipeline, now->pipeline,
                           saved->part == SLUICE_VAL ? "val-pipeline" : "pipeline");
    if (saved->seed != now->seed)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of seed %" PRIu64 ", and this is seed %" PRIu64
                           ": pass --seed %" PRIu64 ", " ANEW,
                           saved->seed, now->seed, saved->seed);
    if (saved->repeat != now->repeat)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of --repeat %" PRIu64 ", and this is --repeat %" PRIu64
                           ": pass --repeat %" PRIu64 ", " ANEW,
                           saved->repeat, now->repeat, saved->repeat);
    const sluice_status status = check_order(saved, now, err);
    if (status != SLUICE_OK)
        return status;
    if (saved->copies != now->copies)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of --repeat-within-batch %" PRIu32
                           ", and this is --repeat-within-batch %" PRIu32
                           ": pass --repeat-within-batch %" PRIu32 ", " ANEW,
                           saved->copies, now->copies, saved->copies);
    if (strcmp(saved->mix, now->mix) != 0)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of %s%s, and this is %s%s: pass the --mix of then, " ANEW,
                           saved->mix[0] ? "--mix " : "no --mix", saved->mix,
                           now->mix[0] ? "--mix " : "no --mix", now->mix);
    if (saved->num_mixed != now->num_mixed)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of --shuffle-shards %" PRIu32
                           ", and this is of --shuffle-shards %" PRIu32
                           ": pass --shuffle-shards %" PRIu32 ", " ANEW,
                           saved->num_mixed, now->num_mixed, saved->num_mixed);
    if (saved->num_buckets != now->num_buckets)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "the state is of %" PRIu32
                           " aspect buckets, and the pipeline has %" PRIu32
                           ": take the state of this pipeline, " ANEW,
                           saved->num_buckets, now->num_buckets);
    return check_global_batch(saved, now, world_size, err);
}
