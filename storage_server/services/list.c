#include "storage_server/services/list.h"

#include "datasets/manifest/manifest.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/data/subset_rows.h"
#include "storage_server/session/caller.h"
#include "storage_server/session/memory_budget.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Most of one message of plain rows: a millisecond of work for a completion thread, and little to
 * send again to a client whose link breaks often.  A packed one takes some 3 ms for 16 times as
 * many. */
#define LIST_ROWS 1000
#define LIST_BYTES (64u << 10)

/* Bytes of a row without its path: numbers, hash and tags. */
#define ROW_BYTES 56

/* The most classes of one message (SLUICE_WIRE_MAX_ELEMENTS and SLUICE_WIRE_MAX_BYTES), in addition
 * to its rows. */
#define LIST_CLASSES (((size_t)1 << 17) - LIST_ROWS)
#define LIST_CLASS_BYTES ((size_t)3 << 20)
#define CLASS_BYTES 4 /* in addition to the name: its tag and length */

/* Packed rows of more are of the client's share of memory: those of large masks.  Of less a call
 * holds no more than others that are not counted. */
#define FREE_BYTES (2 * SLUICE_LIST_BLOCK_BYTES)

/* Copies of packed rows while they are made: as columns, compressed, and in the message. */
#define NUM_COPIES 3

/* NOLINTNEXTLINE(misc-redundant-expression) */
_Static_assert(SLUICE_MAX_VALUES_BYTES <= SLUICE_LIST_TARGET_BYTES, "each row can be sent");

struct listing {
    struct sluice_memory_holder *memory;
    size_t charged;                  /* for the message that was sent last */
    struct sluice_sample_list *list; /* a reference: all messages of a call are of one list */
    enum sluice_rows_of subset;
    size_t next;       /* row of the subset */
    size_t next_class; /* none is left before rows are sent */
    bool is_packed;
    bool has_fields; /* the client takes fields; else a target at most */
    bool is_started;
};

static bool has_more(const struct listing *listing)
{
    return !listing->is_started || listing->next_class < listing->list->manifest->num_classes ||
           listing->next < sluice_subset_rows_count(listing->list->rows, listing->subset);
}

static struct sluice_wire_sample_info row_of(const struct sluice_manifest *manifest, size_t id)
{
    const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, id);
    struct sluice_wire_sample_info row = {
        .sample_id = id,
        .path = (char *)entry.path,
        .bytes = entry.bytes,
        .label = entry.label,
        .is_val = entry.subset == SLUICE_SUBSET_VAL,
        .width = entry.width,
        .height = entry.height,
        .coding = entry.coding,
        .has_hash = entry.has_hash,
    };
    if (entry.has_hash)
        sluice_hash128_bytes(entry.hash, row.hash);
    return row;
}

/* Takes memory for the next packed rows in place of that for those before. */
static sluice_status charge(struct listing *listing, const struct sluice_list_row *rows,
                            size_t num_rows, struct sluice_err *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < num_rows && bytes < SLUICE_LIST_BLOCK_BYTES; i++)
        bytes += strlen(rows[i].path) + ROW_BYTES + rows[i].target_bytes;
    sluice_memory_give(listing->memory, listing->charged);
    listing->charged = 0;
    if (bytes <= FREE_BYTES)
        return SLUICE_OK;
    if (!sluice_memory_take(listing->memory, NUM_COPIES * bytes, SLUICE_MEMORY_REPLY))
        return sluice_fail(err, SLUICE_E_NO_MEMORY,
                           "%zu bytes of values to list: this client's share of the server's "
                           "memory is used up",
                           bytes);
    listing->charged = NUM_COPIES * bytes;
    return SLUICE_OK;
}

/* The next rows one by one, for clients that take no others; appends the message. */
static sluice_status put_plain(struct listing *listing, const size_t *ids, size_t found,
                               struct sluice_wire_list *list, struct sluice_message *reply,
                               struct sluice_err *err)
{
    list->samples = calloc(LIST_ROWS, sizeof(*list->samples));
    if (!list->samples)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to list samples");
    for (size_t bytes = 0; list->num_samples_here < found && list->num_samples_here < LIST_ROWS &&
                           bytes < LIST_BYTES;) {
        struct sluice_wire_sample_info *row = &list->samples[list->num_samples_here];
        *row = row_of(listing->list->manifest, ids[list->num_samples_here++]);
        bytes += strlen(row->path) + ROW_BYTES;
    }
    const sluice_status status = sluice_wire_put_list_reply(list, reply, err);
    listing->next += list->num_samples_here;
    free(list->samples);
    return status;
}

/* Whether the client is sent the values of fields: it asked for them, or takes them for targets. */
static bool has_values_of(const struct listing *listing)
{
    return listing->is_packed &&
           (listing->has_fields || sluice_fields_are_plain(&listing->list->manifest->fields));
}

/* The same as a block. */
static sluice_status put_packed(struct listing *listing, const size_t *ids, size_t found,
                                struct sluice_wire_list *list, struct sluice_message *reply,
                                struct sluice_err *err)
{
    const bool has_values = has_values_of(listing);
    struct sluice_list_row *rows = calloc(found + 1, sizeof(*rows));
    if (!rows)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to list samples");
    for (size_t i = 0; i < found; i++) {
        const struct sluice_manifest_entry entry =
            sluice_manifest_at(listing->list->manifest, ids[i]);
        rows[i] = (struct sluice_list_row){
            .path = entry.path,
            .bytes = entry.bytes,
            .label = entry.label,
            .width = entry.width,
            .height = entry.height,
            .coding = entry.coding,
            .is_val = entry.subset == SLUICE_SUBSET_VAL,
            .target = has_values ? entry.values : NULL,
            .target_bytes = has_values ? entry.values_bytes : 0,
        };
    }
    sluice_status status = charge(listing, rows, found, err);
    if (status == SLUICE_OK && found)
        status = sluice_list_block_pack(rows, found, &list->packed, err);
    free(rows);
    if (status == SLUICE_OK)
        status = sluice_wire_put_list_reply(list, reply, err);
    listing->next += list->packed.num_rows;
    sluice_list_block_clear(&list->packed);
    return status;
}

/* The next classes; the struct owns its strings where it is received, here it borrows them. */
static void put_classes(struct listing *listing, struct sluice_wire_list *list)
{
    const struct sluice_manifest *manifest = listing->list->manifest;
    const size_t left = manifest->num_classes - listing->next_class;
    list->classes = (char **)manifest->classes + listing->next_class;
    for (size_t bytes = 0; list->num_classes < left && list->num_classes < LIST_CLASSES;
         list->num_classes++) {
        bytes += strlen(list->classes[list->num_classes]) + CLASS_BYTES;
        if (bytes > LIST_CLASS_BYTES && list->num_classes > 0)
            break;
    }
    listing->next_class += list->num_classes;
}

/* Describes the fields in the first message, except a name that the client knows already. */
static void put_fields(const struct listing *listing, struct sluice_wire_list *list,
                       char text[SLUICE_FIELDS_TEXT])
{
    const struct sluice_manifest *manifest = listing->list->manifest;
    const bool are_plain = sluice_fields_are_plain(&manifest->fields);
    if (!has_values_of(listing))
        return;
    list->target_kind = are_plain ? manifest->fields.of[0].type.kind : SLUICE_FIELD_BYTES;
    list->target_dim = are_plain ? manifest->fields.of[0].type.dim : 0;
    list->target_bytes = sluice_manifest_values_bytes(manifest);
    if (are_plain && (sluice_fields_have_known_name(&manifest->fields) || !listing->has_fields))
        return;
    sluice_fields_print(&manifest->fields, text);
    list->fields = text;
}

static sluice_status put_rows(struct listing *listing, struct sluice_message *reply,
                              struct sluice_err *err)
{
    const struct sluice_manifest *manifest = listing->list->manifest;
    const size_t most = listing->is_packed ? SLUICE_LIST_BLOCK_ROWS : LIST_ROWS;
    size_t *ids = calloc(most, sizeof(*ids));
    if (!ids)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to list samples");

    char fields[SLUICE_FIELDS_TEXT];
    struct sluice_wire_list list = {.first_row = listing->next, .has_hash = true};
    put_classes(listing, &list);
    if (!listing->is_started) {
        put_fields(listing, &list, fields);
        list.num_samples = sluice_subset_rows_count(listing->list->rows, listing->subset);
        memcpy(list.dataset_id, listing->list->dataset_id, sizeof(list.dataset_id));
    }
    const bool has_all_classes = listing->next_class == manifest->num_classes;
    const size_t found = sluice_subset_rows_get(listing->list->rows, listing->subset, listing->next,
                                                has_all_classes ? most : 0, ids, NULL);
    const sluice_status status = listing->is_packed
                                     ? put_packed(listing, ids, found, &list, reply, err)
                                     : put_plain(listing, ids, found, &list, reply, err);
    listing->is_started = true;
    free(ids);
    return status;
}

/* Sends one message.  on_writable comes here for the next one. */
static void list_more(struct sluice_rpc_call *call)
{
    struct listing *listing = sluice_rpc_call_state(call);
    if (!listing || !has_more(listing))
        return;
    struct sluice_message reply = {0};
    struct sluice_err err = {0};
    sluice_status status = put_rows(listing, &reply, &err);
    const bool is_last = !has_more(listing);
    if (status == SLUICE_OK)
        status = sluice_rpc_call_send(call, &reply);
    sluice_message_clear(&reply);
    if (status != SLUICE_OK || is_last)
        sluice_rpc_call_finish(call, sluice_rpc_code_from_status(status), err.text);
}

static void listing_destroy(struct listing *listing)
{
    if (!listing)
        return;
    sluice_memory_give(listing->memory, listing->charged);
    sluice_memory_close(listing->memory);
    sluice_sample_list_unref(listing->list);
    free(listing);
}

/* NULL: out of memory. */
static struct listing *listing_create(const struct sluice_list_service *service,
                                      struct sluice_rpc_call *call, struct sluice_sample_list *list)
{
    const struct sluice_caller *caller = sluice_rpc_call_client(call);
    struct listing *listing = calloc(1, sizeof(*listing));
    if (!listing)
        return NULL;
    listing->memory = sluice_memory_open(service->memory, caller->session, NULL, NULL);
    listing->list = sluice_sample_list_ref(list);
    if (listing->memory)
        return listing;
    listing_destroy(listing);
    return NULL;
}

static void on_list(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    const struct sluice_list_service *service = ctx;
    struct sluice_err err = {0};
    char *subset;
    uint64_t first_row;
    bool is_packed;
    if (sluice_rpc_call_state(call))
        return;
    const sluice_status status =
        sluice_wire_get_list_request(message, &subset, &first_row, &is_packed, &err);
    if (status != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(status), err.text);
        return;
    }

    static const char *const names[] = {
        [SLUICE_ROWS_ALL] = "", [SLUICE_ROWS_TRAIN] = "train", [SLUICE_ROWS_VAL] = "val"};
    struct sluice_sample_list *list = sluice_sample_lists_now(service->lists);
    size_t found = 0;
    while (found < SLUICE_ARRAY_LEN(names) && strcmp(subset, names[found]) != 0)
        found++;
    struct listing *listing = NULL;
    if (found == SLUICE_ARRAY_LEN(names)) {
        sluice_fail(&err, SLUICE_E_INVALID, "subset '%s' is none of train, val and empty", subset);
        sluice_rpc_call_finish(call, SLUICE_RPC_INVALID_ARGUMENT, err.text);
    } else if (first_row > sluice_subset_rows_count(list->rows, found)) {
        sluice_fail(&err, SLUICE_E_INVALID, "row %llu of %zu", (unsigned long long)first_row,
                    sluice_subset_rows_count(list->rows, found));
        sluice_rpc_call_finish(call, SLUICE_RPC_OUT_OF_RANGE, err.text);
    } else if (!(listing = listing_create(service, call, list))) {
        sluice_rpc_call_finish(call, SLUICE_RPC_RESOURCE_EXHAUSTED, "no memory to list samples");
    } else {
        listing->subset = (enum sluice_rows_of)found;
        listing->next = (size_t)first_row;
        listing->is_packed = is_packed;
        listing->has_fields = sluice_wire_list_request_has_fields(message);
        sluice_rpc_call_set_state(call, listing);
        list_more(call);
    }
    sluice_sample_list_unref(list);
    free(subset);
}

static void on_writable(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    list_more(call);
}

static void on_done(void *ctx, struct sluice_rpc_call *call)
{
    (void)ctx;
    struct listing *listing = sluice_rpc_call_state(call);
    if (listing)
        sluice_manifest_rest(listing->list->manifest);
    listing_destroy(listing);
}

struct sluice_rpc_method *sluice_list_methods(struct sluice_list_service *service,
                                              struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_LIST_SAMPLES,
        .is_unary = true,
        .ctx = service,
        .on_message = on_list,
        .on_writable = on_writable,
        .on_done = on_done,
    };
    return end;
}
