#ifndef SLUICE_RPC_RPC_CALL_INTERNAL_H
#define SLUICE_RPC_RPC_CALL_INTERNAL_H

#include "rpc/exchange.h"
#include "rpc/rpc_call.h"

/* Private to lib/rpc: what the calls of a server share with it. */

struct door;

struct rpc_calls {
    pthread_mutex_t lock;
    unsigned num_live; /* calls that came and have not ended */
    bool is_draining;  /* refuse what comes */

    pthread_cond_t changed; /* num_live, or what the server keeps under the lock */

    /* Set before the first call can come. */
    grpc_server *server;
    struct door *door; /* is told of admitted callers; NULL: nobody is */
    bool has_tls;
    void *ctx; /* these two: see rpc_server.h */
    enum sluice_rpc_code (*admit)(void *ctx, const struct sluice_rpc_caller *caller, void **client,
                                  struct sluice_err *why);
    void (*release)(void *ctx, void *client, const char *peer);
};

/* Lets a call of this method wait for a client; method and handle NULL: of any other method.  Every
 * call that comes makes a successor.  False: no memory. */
bool rpc_call_await(struct rpc_calls *calls, struct rpc_queue *queue,
                    const struct sluice_rpc_method *method, void *handle);

#endif
