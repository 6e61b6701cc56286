#include "storage_server/services/sizes.h"

#include "datasets/manifest/manifest.h"
#include "rpc/rpc_call.h"
#include "storage_server/data/sample_list.h"
#include "storage_server/data/size_reader.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* Rows of a message: 40 kB, a millisecond of work for a completion thread. */
#define MAX_ROWS 8192u

static sluice_status put_reply(const struct sluice_image_size *sizes, size_t num,
                               struct sluice_message *reply, struct sluice_err *err)
{
    struct sluice_wire_image_size *wire = calloc(num + 1, sizeof(*wire));
    if (!wire)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu sizes", num);
    for (size_t i = 0; i < num; i++)
        wire[i] = (struct sluice_wire_image_size){(uint16_t)sizes[i].width,
                                                  (uint16_t)sizes[i].height, sizes[i].orientation};
    const sluice_status status = sluice_wire_put_sizes_reply(wire, num, reply, err);
    free(wire);
    return status;
}

static enum sluice_rpc_code answer(const struct sluice_sizes_service *service,
                                   struct sluice_sample_list *list,
                                   const struct sluice_wire_sizes_request *request,
                                   struct sluice_message *reply, struct sluice_err *err)
{
    size_t num = 0;
    if (strcmp(request->dataset_id, list->dataset_id) != 0) {
        (void)sluice_fail(err, SLUICE_E_STALE, "the dataset here is %s, and not %s",
                          list->dataset_id, request->dataset_id);
        return SLUICE_RPC_FAILED_PRECONDITION;
    }
    if (request->first_row > list->manifest->num_entries) {
        (void)sluice_fail(err, SLUICE_E_INVALID, "row %llu of %zu",
                          (unsigned long long)request->first_row, list->manifest->num_entries);
        return SLUICE_RPC_OUT_OF_RANGE;
    }
    struct sluice_image_size *sizes = calloc(MAX_ROWS, sizeof(*sizes));
    sluice_status status =
        sizes ? sluice_size_reader_get(service->reader, list, request->is_upright,
                                       (size_t)request->first_row, MAX_ROWS, sizes, &num, err)
              : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for sizes");
    if (status == SLUICE_OK)
        status = put_reply(sizes, num, reply, err);
    free(sizes);
    return status == SLUICE_E_INVALID ? SLUICE_RPC_FAILED_PRECONDITION
                                      : sluice_rpc_code_from_status(status);
}

static void on_message(void *ctx, struct sluice_rpc_call *call, struct sluice_message *message)
{
    const struct sluice_sizes_service *service = ctx;
    struct sluice_wire_sizes_request request;
    struct sluice_message reply = {0};
    struct sluice_err err = {0};
    const sluice_status status = sluice_wire_get_sizes_request(message, &request, &err);
    if (status != SLUICE_OK) {
        sluice_rpc_call_finish(call, sluice_rpc_code_of_request(status), err.text);
        return;
    }
    struct sluice_sample_list *list = sluice_sample_lists_now(service->lists);
    enum sluice_rpc_code code = answer(service, list, &request, &reply, &err);
    sluice_sample_list_unref(list);
    if (code == SLUICE_RPC_OK)
        code = sluice_rpc_code_from_status(sluice_rpc_call_send(call, &reply));
    sluice_message_clear(&reply);
    sluice_rpc_call_finish(call, code, err.text);
}

struct sluice_rpc_method *sluice_sizes_methods(struct sluice_sizes_service *service,
                                               struct sluice_rpc_method *end)
{
    *end++ = (struct sluice_rpc_method){
        .path = SLUICE_METHOD_LIST_SIZES,
        .is_unary = true,
        .ctx = service,
        .on_message = on_message,
    };
    return end;
}
