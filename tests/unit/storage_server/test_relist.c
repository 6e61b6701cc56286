#include "storage_server/data/relist.h"

#include "base/file.h"
#include "base/hash.h"
#include "datasets/manifest/manifest.h"
#include "fixture.h"
#include "support/test.h"

#include <pthread.h>
#include <sched.h>

#define NUM_FIRST 6 /* samples of the short list */
#define ROUNDS 20   /* of the list that changes under clients */

/* The server reads this file: all images of the fixture, or the first ones. */
static const char *list_path(void)
{
    static char path[512];
    if (!path[0]) /* the server's threads read it */
        snprintf(path, sizeof(path), "%s/list.tsv", sluice_test_dir());
    return path;
}

/* Writes the list; *id gets its dataset id. */
static void write_list(size_t num_samples, char id[33])
{
    struct sluice_manifest *all = NULL, *some = NULL;
    REQUIRE_OK(sluice_manifest_scan(image_root(), NULL, &all, NULL));
    REQUIRE_OK(sluice_manifest_create(all->rows, num_samples, all->classes, all->num_classes, &some,
                                      NULL));
    sluice_hash128_hex(sluice_manifest_id(some), id);
    REQUIRE_OK(sluice_manifest_write(some, list_path(), NULL));
    sluice_manifest_destroy(some);
    sluice_manifest_destroy(all);
}

static struct fixture start(char id[33])
{
    struct fixture f = fixture_init();
    write_list(NUM_IMAGES, id);
    f.options.manifest = list_path();
    fixture_start(&f);
    return f;
}

static enum sluice_rpc_code say_hello(struct fixture *f, const char *id, char answer_id[33])
{
    struct sluice_wire_hello hello = {.protocol_version = SLUICE_WIRE_PROTOCOL_VERSION},
                             answer = {0};
    struct sluice_message request = {0}, reply = {0};
    snprintf(hello.dataset_id, sizeof(hello.dataset_id), "%s", id);
    REQUIRE_OK(sluice_wire_put_hello_request(&hello, &request, NULL));
    const enum sluice_rpc_code code = call(f, SLUICE_METHOD_HELLO, &request, &reply, NULL);
    if (code == SLUICE_RPC_OK) {
        REQUIRE_OK(sluice_wire_get_hello_reply(&reply, &answer, NULL));
        memcpy(answer_id, answer.dataset_id, 33);
        sluice_wire_hello_clear(&answer);
    }
    sluice_message_clear(&reply);
    return code;
}

static void await_list(struct fixture *f, const char *id)
{
    char now[33] = "";
    while (strcmp(now, id) != 0) {
        CU_ASSERT_EQUAL_FATAL(say_hello(f, "", now), SLUICE_RPC_OK);
        sched_yield();
    }
}

TEST(an_open_stream_keeps_its_list_and_a_new_one_gets_the_new)
{
    char all[33], some[33], now[33];
    struct fixture f = start(all);
    struct client *old = fetch_open(&f, 0);
    fetch_ask(old, 0, NUM_IMAGES, 0, SLUICE_FORM_RAW);
    fetch_await(old, NUM_IMAGES);

    write_list(NUM_FIRST, some);
    sluice_storage_server_reread(f.server);
    await_list(&f, some);
    fetch_ask(old, NUM_IMAGES, NUM_IMAGES, 2, SLUICE_FORM_U8);
    fetch_await(old, 2 * NUM_IMAGES);
    for (unsigned i = 0; i < 2 * NUM_IMAGES; i++)
        CHECK_OK(fetch_reply_to(old, i)->status);

    CU_ASSERT_EQUAL(say_hello(&f, all, now), SLUICE_RPC_FAILED_PRECONDITION);
    CU_ASSERT_EQUAL(say_hello(&f, some, now), SLUICE_RPC_OK);
    struct client *new = fetch_open(&f, 0);
    fetch_ask(new, 0, NUM_IMAGES, 0, SLUICE_FORM_RAW);
    fetch_await(new, NUM_IMAGES);
    for (unsigned i = 0; i < NUM_IMAGES; i++)
        CU_ASSERT_EQUAL(fetch_reply_to(new, i)->status,
                        i < NUM_FIRST ? SLUICE_OK : SLUICE_E_INVALID);
    client_close(old);
    client_close(new);
    fixture_end(&f);
}

TEST(a_list_that_cannot_be_read_leaves_the_old_one)
{
    char all[33], now[33];
    struct fixture f = start(all);
    struct sluice_relist *relist = NULL;
    struct sluice_sample_list *list = NULL;
    struct sluice_sample_lists *lists = NULL;
    const struct sluice_roots roots = sluice_roots_one(image_root());
    const struct sluice_sample_list_source source = {
        .roots = &roots, .manifest = list_path(), .jpeg_index = "off"};
    REQUIRE_OK(sluice_sample_list_read(&source, &list, NULL));
    REQUIRE_OK(sluice_sample_lists_create(list, &lists, NULL));
    const struct sluice_relist_options options = {.source = source, .lists = lists};
    REQUIRE_OK(sluice_relist_open(&options, &relist, NULL));

    REQUIRE_OK(sluice_file_write_atomic(list_path(), "damaged", 7, NULL));
    sluice_storage_server_reread(f.server);
    sluice_relist_request(relist);
    char some[33];
    /* A request that comes while the damaged one is read is kept, so the good one is read then. */
    struct sluice_sample_list *held = sluice_sample_lists_now(lists);
    CU_ASSERT_PTR_EQUAL(held, list);
    CU_ASSERT_EQUAL(say_hello(&f, all, now), SLUICE_RPC_OK);
    write_list(NUM_FIRST, some);
    sluice_storage_server_reread(f.server);
    sluice_relist_request(relist);
    await_list(&f, some);
    for (bool is_new = false; !is_new; sched_yield()) {
        struct sluice_sample_list *newest = sluice_sample_lists_now(lists);
        CU_ASSERT(newest == held || newest->manifest->num_entries == NUM_FIRST);
        is_new = newest != held;
        sluice_sample_list_unref(newest);
    }
    sluice_sample_list_unref(held);
    sluice_relist_close(relist);
    sluice_relist_close(NULL);
    sluice_sample_lists_destroy(lists);
    fixture_end(&f);
}

static void *fetch_rounds(void *ctx)
{
    struct fixture *f = ctx;
    for (unsigned round = 0; round < ROUNDS; round++) {
        struct client *client = fetch_open(f, 0);
        fetch_ask(client, 0, NUM_FIRST, round % 2 ? 2 : 0,
                  round % 2 ? SLUICE_FORM_U8 : SLUICE_FORM_RAW);
        fetch_await(client, NUM_FIRST);
        for (unsigned i = 0; i < NUM_FIRST; i++)
            CHECK_OK(fetch_reply_to(client, i)->status);
        client_close(client);
    }
    return NULL;
}

TEST(lists_change_under_clients)
{
    char id[33];
    struct fixture f = start(id);
    pthread_t threads[3];
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, fetch_rounds, &f), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        write_list(round % 3 ? NUM_FIRST : NUM_IMAGES, id); /* another one, and the same again */
        sluice_storage_server_reread(f.server);
        await_list(&f, id);
    }
    for (unsigned i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    fixture_end(&f);
}
