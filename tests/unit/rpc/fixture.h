#ifndef SLUICE_TESTS_UNIT_RPC_FIXTURE_H
#define SLUICE_TESTS_UNIT_RPC_FIXTURE_H

#include "rpc/rpc_client.h"
#include "rpc/rpc_server.h"
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>

/* What the rpc tests share: a count that threads can wait for, a server whose
 * methods show one behaviour each, and a client stream that remembers. */

struct latch {
    pthread_mutex_t lock;
    unsigned count;
    pthread_cond_t changed;
};
#define LATCH_INIT                                                                                 \
    {                                                                                              \
        PTHREAD_MUTEX_INITIALIZER, 0, PTHREAD_COND_INITIALIZER                                     \
    }
void latch_add(struct latch *latch);
unsigned latch_count(struct latch *latch);
/* False if it took more than half a minute: the test has failed. */
bool latch_wait(struct latch *latch, unsigned count);

/* A segment's owner that counts how often it was let go. */
struct owned {
    atomic_uint *released;
    uint8_t *data;
};
/* Appends `len` bytes of the value `fill` by reference. */
void append_owned(struct sluice_message *message, size_t len, uint8_t fill, atomic_uint *released);

struct sluice_message text_message(const char *text);
struct sluice_message filled_message(size_t len, uint8_t fill);
uint64_t message_hash(const struct sluice_message *message);
bool message_is(const struct sluice_message *message, const char *text);
struct sluice_message take(struct sluice_message *message); /* moves the content */

/* Methods:
 *   /t/Unary      answers what it got
 *   /t/Echo       answers each message, finishes when the peer half-closes
 *   /t/Workers    the same from worker threads, in any order
 *   /t/Hold       does nothing
 *   /t/Fail       finishes with FAILED_PRECONDITION and the message's text
 *   /t/Pour       "N SIZE": sends N messages, never more than POUR_BYTES ahead
 *   /t/Paused     pauses when opened; then as /t/Echo
 *   /t/First      finishes at the first message with OK, whatever follows */
#define POUR_BYTES (256u << 10)

struct server {
    struct sluice_rpc_server *rpc;
    char target[64];

    struct sluice_worker_pool *pool;
    struct latch opened, done; /* calls */
    struct latch messages;
    struct latch half_closes;
    atomic_uint replies_sent, replies_refused;
    atomic_size_t most_queued; /* by Pour, after a send */

    pthread_mutex_t lock;
    struct sluice_rpc_call **calls; /* all that were opened, with a reference each */
    unsigned num_calls, capacity;
    bool called_after_done;

    uint64_t (*pace)(struct server *server, size_t bytes);
    void *pace_ctx;
};

struct server_options {
    const char *listen;
    unsigned num_threads; /* 0: 2 */
    size_t max_receive_bytes;
    const struct sluice_rpc_server_tls *tls;
    enum sluice_rpc_code (*admit)(void *server, const struct sluice_rpc_caller *caller,
                                  void **grant, struct sluice_err *why);
    void (*release)(void *server, void *grant, const char *peer);
    uint64_t (*pace)(struct server *server, size_t bytes);
    void *pace_ctx;
};
void server_start(struct server *server, const struct server_options *options);
void server_stop(struct server *server, unsigned grace_ms); /* shutdown and free */
void server_free(struct server *server);                    /* after shutdown */

struct sluice_rpc_channel *connect_to(const char *target);

/* A server and a channel to it.  `options` NULL: as they are. */
struct sluice_rpc_channel *pair_start(struct server *server, const struct server_options *options);
void pair_stop(struct server *server, struct sluice_rpc_channel *channel); /* with 5 s of grace */

struct client {
    struct sluice_rpc_stream *stream;
    struct latch messages, done;
    atomic_size_t bytes;
    enum sluice_rpc_code code; /* once done */
    char text[128];
    pthread_mutex_t lock;
    uint64_t hash_sum; /* of the messages' hashes: any order */
    uint64_t last_hash;
    size_t last_len;
    void (*on_message)(struct client *client, struct sluice_message *message);
    void *ctx;
};
void client_open(struct client *client, struct sluice_rpc_channel *channel, const char *path);
/* Sends, half-closes, waits for the end, destroys. */
void client_send(struct client *client, const char *text);
void client_close(struct client *client);

/* One call on /t/Unary; the code. */
enum sluice_rpc_code ping(struct sluice_rpc_channel *channel);

#endif
