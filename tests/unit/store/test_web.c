#include "store/open.h"
#include "store/web.h"

#include "base/buf.h"
#include "conformance.h"
#include "web_server.h"

#include <stdio.h>
#include <string.h>

static int port;

static struct sluice_store_options options_for(const char *name)
{
    static char root[128];
    snprintf(root, sizeof(root), "http://127.0.0.1:%d/folder/%s", port, name);
    return (struct sluice_store_options){
        .root = root, .max_object_bytes = CONFORMANCE_MAX_BYTES, .patience_ms = 20000};
}

static struct sluice_store *open_list(const char *name)
{
    struct sluice_store *store = NULL;
    const struct sluice_store_options options = options_for(name);
    REQUIRE_OK(sluice_store_open(&options, &store, NULL));
    return store;
}

static struct sluice_store *open_world(void)
{
    web_clear();
    return open_list("list.txt");
}

static const struct conformance_world world = {
    .open = open_world,
    .put = web_put,
    .remove = web_remove,
    .slow_down = web_slow_down,
    .break_off = web_break_off,
    .hang = web_hang,
    .wait_for_hang = web_wait_for_hang,
};

static sluice_status refuse(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)ctx, (void)object;
    return sluice_fail(err, SLUICE_E_INTERNAL, "called");
}

TEST(a_missing_or_bad_list_is_named)
{
    static const char bad[] = "a.jpg 10 -\nb.jpg ten -\n";
    web_clear();
    struct sluice_store *store = open_list("none.txt");
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "/folder/none.txt",
                store->list(store, "", refuse, NULL, sluice_test_err()));
    store->destroy(store);
    web_put("bad.txt", bad, sizeof(bad) - 1);
    store = open_list("bad.txt");
    CHECK_FAILS(SLUICE_E_CORRUPT, "bad.txt: line 2",
                store->list(store, "", refuse, NULL, sluice_test_err()));
    store->destroy(store);
}

TEST(servers_without_etags_have_the_time_of_change)
{
    struct sluice_store *store = open_world();
    struct sluice_object object;
    web_forget_etags(true);
    web_put("a.jpg", "0123456789", 10);
    REQUIRE_OK(store->describe(store, "a.jpg", &object, NULL));
    CU_ASSERT(object.version < 0);
    struct sluice_store_read read = {.key = "a.jpg", .bytes = 10, .version = object.version};
    struct sluice_buf *buf = NULL;
    REQUIRE_OK(store->read(store, &read, &buf, NULL));
    sluice_buf_unref(buf);
    web_put("a.jpg", "9876543210", 10);
    CU_ASSERT_EQUAL(store->read(store, &read, &buf, NULL), SLUICE_E_STALE);
    store->destroy(store);
}

TEST(servers_without_ranges_send_it_all)
{
    struct sluice_store *store = open_world();
    web_ignore_ranges(true);
    web_put("x.tar", "0123456789", 10);
    const struct sluice_store_read read = {.key = "x.tar", .offset = 3, .bytes = 4};
    struct sluice_buf *buf = NULL;
    REQUIRE_OK(store->read(store, &read, &buf, NULL));
    CU_ASSERT(buf->len == 4 && memcmp(buf->data, "3456", 4) == 0);
    sluice_buf_unref(buf);
    store->destroy(store);
}

TEST(refuses_roots_that_are_no_urls_of_files)
{
    static const char *const roots[] = {"http://",
                                        "http://host",
                                        "http://host/",
                                        "http://host/a/",
                                        "http://user:secret@host/list",
                                        "http://host/list?a=b",
                                        "ftp://host/list"};
    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(sluice_web_check_root(roots[i], &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NULL(strstr(err.text, "secret"));
    }
    CHECK_OK(sluice_web_check_root("https://host/list", NULL));
    CHECK_OK(sluice_web_check_root("http://[::1]:80/a/list.txt", NULL));
}

int main(void)
{
    port = web_open();
    conformance_use(&world);
    return sluice_test_main();
}
