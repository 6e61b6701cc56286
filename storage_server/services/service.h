#ifndef SLUICE_STORAGE_SERVER_SERVICES_SERVICE_H
#define SLUICE_STORAGE_SERVER_SERVICES_SERVICE_H

#include "base/error.h"
#include "host/machine.h"
#include "rpc/rpc.h"
#include "wire/wire.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hello and Stats of sluice.v1.Offload, the methods about the server itself.  The other methods are
 * in list.h, probe.h and fetch/fetch.h.
 *
 * Threads: any. */

struct sluice_client_table;
struct sluice_health;
struct sluice_memory_budget;
struct sluice_pipeline;
struct sluice_rpc_method;
struct sluice_rpc_server;
struct sluice_sample_list;
struct sluice_sample_lists;
struct sluice_security;
struct sluice_stats;
struct sluice_store;
struct sluice_watchdog;
struct sluice_workers;

/* Borrows all of it.  Constant while serving, except rpc. */
struct sluice_offload {
    struct sluice_sample_lists *lists;
    struct sluice_store *store;
    struct sluice_workers *workers;
    struct sluice_watchdog *watchdog; /* of the workers */
    struct sluice_memory_budget *memory;
    struct sluice_client_table *clients;
    struct sluice_stats *stats;
    struct sluice_health *health;
    struct sluice_security *security; /* NULL: whoever connects may call */
    /* NULL until the RPC server exists; calls may come before that. */
    struct sluice_rpc_server *_Atomic rpc;
    uint32_t max_in_flight; /* samples of one stream */
    uint64_t max_image_pixels, max_file_bytes;
    bool has_crop_restart;         /* restart markers at the interval that a client asks for */
    struct sluice_machine machine; /* where the server runs; a client may be on the same one */
};

/* Adds the methods to the server's table, and returns the table's end. */
struct sluice_rpc_method *sluice_offload_methods(struct sluice_offload *offload,
                                                 struct sluice_rpc_method *end);

/* All counters, for the Stats call and for the JSON line. */
struct sluice_wire_stats sluice_offload_stats(struct sluice_offload *offload);

/* The forms that a sample can be sent in, as in Hello: a bit for each enum sluice_form. */
uint32_t sluice_offload_forms(bool has_jpeg_index);

/* Checks what Hello and FetchOpen name: protocol version, pipeline and dataset id, the last against
 * `list`.  An empty text, a fingerprint of 0 and an empty dataset id are not checked.  *pipeline,
 * which the caller owns, is NULL without a text. */
enum sluice_rpc_code sluice_service_agree(const struct sluice_sample_list *list,
                                          uint32_t protocol_version, const char *text,
                                          uint64_t fingerprint, const char *dataset_id,
                                          struct sluice_pipeline **pipeline,
                                          struct sluice_err *err);

#endif
