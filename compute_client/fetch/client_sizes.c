#include "compute_client/fetch/client.h"

#include "compute_client/fetch/client_call.h"
#include "rpc/rpc_client.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* The call ListSizes: the server answers at once with what it knows, and is asked again. */

#define SIZES_TIMEOUT_MS 20000

/* Between two requests while the server reads, growing: short for a small dataset, and few requests
 * where it takes minutes. */
#define FIRST_WAIT_NS 5000000ull
#define MOST_WAIT_NS 200000000ull

/* A server that gets no further hangs: twice what a request to an object store may take, with its
 * retries, for the head of a file and then all of it. */
#define MOST_QUIET_NS 120000000000ull

struct asking {
    const struct sluice_server_info *server;
    struct sluice_wire_sizes_request request;
    struct sluice_wire_image_size *sizes; /* of the last reply; owned */
    size_t num;
};

static sluice_status ask(struct sluice_client *client, struct sluice_message *request,
                         struct sluice_message *reply, bool *is_passing, struct sluice_err *err)
{
    enum sluice_rpc_code code = SLUICE_RPC_UNKNOWN;
    struct sluice_err cause = {0};
    const sluice_status status =
        sluice_rpc_unary(sluice_client_channel(client), SLUICE_METHOD_LIST_SIZES, request,
                         SIZES_TIMEOUT_MS, reply, &code, &cause);
    if (status == SLUICE_OK)
        return status;
    *is_passing = sluice_client_is_passing(code);
    if (code == SLUICE_RPC_UNIMPLEMENTED)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s is of a version that reads no sizes of images, which its list lacks "
                           "or has before they are turned upright: run offload_dataset index on "
                           "the dataset, or use a newer offload_server",
                           sluice_client_target(client));
    return sluice_fail(err, status, "%s: %s", sluice_client_target(client), cause.text);
}

static sluice_status try_sizes(struct sluice_client *client, void *ctx, bool *is_passing,
                               struct sluice_err *err)
{
    struct asking *asking = ctx;
    struct sluice_message request = {0}, reply = {0};
    struct sluice_err cause = {0};
    sluice_status status = sluice_wire_put_sizes_request(&asking->request, &request, err);
    if (status == SLUICE_OK)
        status = ask(client, &request, &reply, is_passing, err);
    sluice_message_clear(&request);
    if (status != SLUICE_OK) {
        sluice_message_clear(&reply);
        return status;
    }
    status = sluice_wire_get_sizes_reply(&reply, &asking->sizes, &asking->num, &cause);
    sluice_message_clear(&reply);
    if (status == SLUICE_OK &&
        asking->num > asking->server->num_samples - asking->request.first_row) {
        free(asking->sizes);
        status = sluice_fail(&cause, SLUICE_E_CORRUPT, "sizes of more images than it has");
    }
    if (status == SLUICE_OK)
        return status;
    *is_passing = status == SLUICE_E_IO; /* damaged on its way */
    return sluice_fail(err, status, "%s: %s", sluice_client_target(client), cause.text);
}

sluice_status sluice_client_read_sizes(struct sluice_client *client,
                                       const struct sluice_server_info *server, bool is_upright,
                                       sluice_client_sizes_fn *on_sizes, void *ctx,
                                       struct sluice_err *err)
{
    struct asking asking = {.server = server, .request = {.is_upright = is_upright}};
    uint64_t wait_ns = FIRST_WAIT_NS, quiet_ns = 0;
    memcpy(asking.request.dataset_id, server->dataset_id, sizeof(asking.request.dataset_id));
    while (asking.request.first_row < server->num_samples) {
        const sluice_status status = sluice_client_call(client, try_sizes, &asking, err);
        if (status != SLUICE_OK)
            return status;
        on_sizes(ctx, asking.request.first_row, asking.sizes, asking.num);
        free(asking.sizes);
        asking.request.first_row += asking.num;
        if (asking.num > 0) {
            wait_ns = FIRST_WAIT_NS;
            quiet_ns = 0;
            continue;
        }
        if (quiet_ns >= MOST_QUIET_NS)
            return sluice_fail(
                err, SLUICE_E_IO, "%s has not read the size of image %llu of %llu for %.0f s",
                sluice_client_target(client), (unsigned long long)asking.request.first_row,
                (unsigned long long)server->num_samples, (double)quiet_ns * 1e-9);
        if (!sluice_client_wait(client, wait_ns))
            return sluice_fail(err, SLUICE_E_CLOSED, "stopped while %s read the sizes of images",
                               sluice_client_target(client));
        quiet_ns += wait_ns;
        wait_ns = wait_ns < MOST_WAIT_NS / 2 ? wait_ns * 2 : MOST_WAIT_NS;
    }
    return SLUICE_OK;
}
