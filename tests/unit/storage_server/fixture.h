#ifndef SLUICE_TESTS_UNIT_STORAGE_SERVER_FIXTURE_H
#define SLUICE_TESTS_UNIT_STORAGE_SERVER_FIXTURE_H

#include "rpc/rpc_client.h"
#include "storage_server/server.h"
#include "store/store.h"
#include "wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A server of this process on a free port, over a folder of generated images; a store whose
 * reads can be held at a gate; and clients.  What cannot go wrong in a test ends the program.
 *
 * Threads: the test's own, except where noted. */

#define PIPELINE "decode,random_resized_crop=32,hflip=0.5,to_tensor,normalize=imagenet"

/* How long anything may take before the test fails: far above what the slowest machine needs. */
#define PATIENCE_MS 60000

#define NUM_IMAGES 12 /* six in each of the classes "ant" and "bee" */

/* The folder, made at the first call. */
const char *image_root(void);

/* Writes a manifest of the images to their root, in which image i has i bytes 'a' + i for a target.
 * Remove it again. */
#define IMAGE_MANIFEST "sluice-manifest.tsv"
void write_targets(void);
/* The same with two fields: "caption", a text of i bytes 'a' + i, and "boxes", one box 0 0 i i of
 * class i, of image 0 none. */
void write_fields(void);
/* The same with a field "mask", of which each image's value is so many bytes 'a' + i. */
void write_masks(size_t bytes);
void remove_targets(void);
/* The path of sample `id` within it, and on disk (both static, per id). */
const char *image_name(unsigned id);
const char *image_path(unsigned id);

/* --- the gate --- */

struct gate;
/* The store says that it is reached over a network: IO reads, then PREP works. */
extern bool gate_is_remote;

/* Takes the place of the server's own store; the server destroys it. */
struct gate *gate_create(struct sluice_store **store);
/* Any thread. */
void gate_close(struct gate *gate);
void gate_open(struct gate *gate);
void gate_await_held(struct gate *gate, unsigned count); /* until so many reads stand before it */
unsigned gate_peak(struct gate *gate);                   /* most reads at once */

/* --- the server --- */

struct fixture {
    struct sluice_server_options options; /* small defaults; change them before start */
    struct sluice_server_parts parts;     /* but for the store */
    struct sluice_storage_server *server;
    struct sluice_rpc_channel *channel;
    struct gate *gate;     /* open */
    bool wants_file_image; /* of streams that are opened */
};
struct fixture fixture_init(void);
void fixture_start(struct fixture *fixture);
void fixture_end(struct fixture *fixture);
/* Another machine's, so to speak; destroy it before the end. */
struct sluice_rpc_channel *fixture_connect(const struct fixture *fixture);

/* --- clients --- */

/* One message there, one back.  `reply` may be NULL. */
enum sluice_rpc_code call(struct fixture *fixture, const char *path, struct sluice_message *request,
                          struct sluice_message *reply, struct sluice_err *err);

/* A stream that keeps what comes. */
struct client;
struct client *client_open(struct fixture *fixture, const char *path);
void client_close(struct client *client); /* cancels it */
/* In between the client reads nothing; sending works.  One thread. */
void client_stall(struct client *client);
void client_go_on(struct client *client);
void client_send(struct client *client, struct sluice_message *message);
void client_half_close(struct client *client);
/* Waits until so many messages came in all; fails the test if the stream ends before. */
void client_await_messages(struct client *client, size_t count);
enum sluice_rpc_code client_await_done(struct client *client, struct sluice_err *err);
size_t client_num_messages(struct client *client);
struct sluice_message *client_message(struct client *client, size_t index);

/* Fetch: */
struct client *fetch_open(struct fixture *fixture, uint64_t window_bytes);
void fetch_send(struct client *client, const struct sluice_wire_sample_request *requests,
                size_t num_requests, uint64_t grant_bytes);
/* Requests [first, first + count): request id and sample id count up (samples go round). */
void fetch_ask(struct client *client, uint64_t first, size_t count, uint32_t split,
               enum sluice_form form);
/* Waits until so many samples came in all; the functions below then find them. */
void fetch_await(struct client *client, size_t count);
size_t fetch_count(struct client *client);
const struct sluice_wire_sample_reply *fetch_reply(struct client *client, size_t index);
/* The reply to a request; fails the program if it came not exactly once. */
const struct sluice_wire_sample_reply *fetch_reply_to(struct client *client, uint64_t request_id);

#endif
