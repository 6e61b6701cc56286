#include "sluice/sluice.h"

#include "base/clock.h"
#include "compute_client/fetch/client.h"
#include "fixture.h"
#include "support/capture.h"
#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* The name of a child's finding: its exit code. */
enum { ALL_REFUSED = 0, STATS_GIVEN, STATS_SILENT, START_GIVEN, START_SILENT };

static struct sluice_server *start(const char *root, const struct sluice_setting *settings,
                                   size_t num_settings)
{
    struct sluice_server *server = NULL;
    struct sluice_err err = {0};
    CHECK_OK(sluice_server_start(root, settings, num_settings, &server, &err));
    CU_ASSERT_STRING_EQUAL(err.text, "");
    CU_ASSERT_PTR_NOT_NULL_FATAL(server);
    return server;
}

static struct sluice_client *connect_to(const struct sluice_server *server)
{
    const struct sluice_client_options options = {.target = sluice_server_address(server),
                                                  .retry_for_s = 10};
    struct sluice_client *client = NULL;
    REQUIRE_OK(sluice_client_create(&options, &client, NULL));
    return client;
}

static struct sluice_server_info hello(struct sluice_client *client)
{
    struct sluice_pipeline *pipeline = NULL;
    REQUIRE_OK(sluice_pipeline_parse(PIPELINE, &pipeline, NULL));
    struct sluice_server_info info = {.num_samples = 0};
    struct sluice_err err = {0};
    CHECK_OK(sluice_client_hello(client, pipeline, "", &info, &err));
    CU_ASSERT_STRING_EQUAL(err.text, "");
    sluice_pipeline_destroy(pipeline);
    return info;
}

static uint64_t num_served(const struct sluice_server *server)
{
    struct sluice_client *client = connect_to(server);
    const uint64_t count = hello(client).num_samples;
    sluice_client_destroy(client);
    return count;
}

/* A folder of its own with the first `count` images. */
static void make_folder(const char *name, unsigned first, unsigned count, char root[600])
{
    snprintf(root, 600, "%s/%s", sluice_test_dir(), name);
    for (unsigned id = first; id < first + count; id++) {
        char path[700];
        size_t len;
        uint8_t *bytes = sluice_test_read_file(image_path(id), &len);
        snprintf(path, sizeof(path), "%s/%s", root, image_name(id));
        sluice_test_put_text(root, image_name(id), "");
        sluice_test_write_file(path, bytes, len);
        free(bytes);
    }
}

static int connect_socket(int port)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_FATAL(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    CU_ASSERT_EQUAL_FATAL(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

static int port_of(const struct sluice_server *server)
{
    return atoi(strrchr(sluice_server_address(server), ':') + 1);
}

/* --- tests --- */

TEST(serves_a_folder_to_clients)
{
    struct sluice_server *server = start(image_root(), NULL, 0);
    CU_ASSERT_EQUAL(strncmp(sluice_server_address(server), "127.0.0.1:", 10), 0);
    CU_ASSERT(port_of(server) > 0);

    struct sluice_client *client = connect_to(server);
    const struct sluice_server_info info = hello(client);
    CU_ASSERT_EQUAL(info.num_samples, NUM_IMAGES);
    struct sluice_manifest *list = NULL;
    REQUIRE_OK(sluice_client_list(client, &info, &list, NULL));
    CU_ASSERT_EQUAL_FATAL(list->num_entries, NUM_IMAGES);
    for (unsigned id = 0; id < NUM_IMAGES; id++)
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(list, id).path, image_name(id));
    sluice_manifest_destroy(list);
    sluice_client_destroy(client);
    sluice_server_stop(server);
}

TEST(two_servers_live_in_one_process)
{
    char few[600];
    make_folder("few", 0, 2, few);
    struct sluice_server *all = start(image_root(), NULL, 0), *two = start(few, NULL, 0);
    CU_ASSERT_STRING_NOT_EQUAL(sluice_server_address(all), sluice_server_address(two));
    CU_ASSERT_EQUAL(num_served(all), NUM_IMAGES);
    CU_ASSERT_EQUAL(num_served(two), 2);
    sluice_server_stop(all);
    CU_ASSERT_EQUAL(num_served(two), 2);
    sluice_server_stop(two);
}

static void must_refuse(const char *root, struct sluice_setting setting, sluice_status expected,
                        const char *words)
{
    struct sluice_server *untouched = (struct sluice_server *)&setting, *server = untouched;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_server_start(root, &setting, setting.key != NULL, &server, &err),
                    expected);
    CU_ASSERT_PTR_EQUAL(server, untouched);
    if (!strstr(err.text, words)) {
        CU_ASSERT_STRING_EQUAL(err.text, words);
    }
}

TEST(what_cannot_be_served_is_named)
{
    const struct sluice_setting none = {NULL, NULL};
    must_refuse("/no/such/folder", none, SLUICE_E_NOT_FOUND, "/no/such/folder");
    must_refuse(NULL, none, SLUICE_E_INVALID, "root: there is none to serve");
    struct sluice_server *server = start(image_root(), NULL, 0);
    const struct sluice_setting taken = {"listen", sluice_server_address(server)};
    must_refuse(image_root(), taken, SLUICE_E_IO, sluice_server_address(server));
    sluice_server_stop(server);
}

TEST(settings_are_checked_as_flags_are)
{
    const struct {
        struct sluice_setting setting;
        const char *words;
    } cases[] = {
        {{"prep-worker", "2"}, "unknown setting 'prep-worker'; did you mean prep-workers"},
        {{"prep-workers", "1025"}, "prep-workers: '1025' is not within 0 to 1024"},
        {{"prep-sched", "fifo"}, "prep-sched: 'fifo' is none of normal, idle"},
        {{"listen", "127.0.0.1:99999"}, "listen: "},
        {{"metrics", "127.0.0.1:99999"}, "metrics: "},
        {{"strict", "yes"}, "strict: 'yes' is none of true, false"},
        {{"root", "/"}, "root: the root is the first argument"},
        {{"sandbox", "on"}, "sandbox: for offload_server alone"},
        {{"isolate-decoders", "true"}, "isolate-decoders: for offload_server alone"},
        {{"max-connections", "50000"}, "50000 connections need "},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].setting.key, "max-connections") == 0 &&
            sysconf(_SC_OPEN_MAX) > 50000) /* there are so many */
            continue;
        must_refuse(image_root(), cases[i].setting, SLUICE_E_INVALID, cases[i].words);
    }
}

TEST(settings_are_copied_and_hold)
{
    char root[600], listen[] = "127.0.0.1:0", workers[] = "1", key[] = "prep-workers";
    snprintf(root, sizeof(root), "%s", image_root());
    struct sluice_setting settings[] = {{"listen", listen}, {key, workers}};
    struct sluice_server *server = start(root, settings, 2);
    memset(root, 'x', 9);
    memset(listen, 'x', sizeof(listen) - 1);
    memset(workers, 'x', sizeof(workers) - 1);
    memset(key, 'x', sizeof(key) - 1);
    memset(settings, 0, sizeof(settings));

    char *json = NULL;
    REQUIRE_OK(sluice_server_stats(server, &json, NULL));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"prep_workers\":1"));
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"samples\":0"));
    CU_ASSERT_EQUAL(json[0], '{');
    CU_ASSERT_PTR_NULL(strchr(json, '\n'));
    sluice_free(json);
    CU_ASSERT_EQUAL(num_served(server), NUM_IMAGES);
    sluice_server_stop(server);
}

TEST(several_roots_are_settings)
{
    char first[600], second[600];
    snprintf(first, sizeof(first), "a=%s", image_root());
    snprintf(second, sizeof(second), "b=%s", image_root());
    const struct sluice_setting settings[] = {{"root", second}, {"root", first}};
    struct sluice_server *server = start(NULL, settings, 2);
    CU_ASSERT_EQUAL(num_served(server), 2 * NUM_IMAGES);
    sluice_server_stop(server);
    must_refuse(NULL, (struct sluice_setting){"root", "a=/no/such/folder"}, SLUICE_E_NOT_FOUND,
                "/no/such/folder");
}

TEST(limits_on_connections_hold)
{
    const struct sluice_setting settings[] = {{"max-connections", "1"},
                                              {"max-connections-per-host", "1"}};
    struct sluice_server *server = start(image_root(), settings, 2);
    uint8_t byte;
    const int first = connect_socket(port_of(server));
    CU_ASSERT_EQUAL(recv(first, &byte, 1, 0), 1); /* of its HTTP/2 SETTINGS */
    const int second = connect_socket(port_of(server));
    CU_ASSERT(recv(second, &byte, 1, 0) <= 0);
    close(second);
    close(first);
    sluice_server_stop(server);
}

TEST(metrics_are_served)
{
    const int port = sluice_test_port();
    char listen[32];
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", port);
    const struct sluice_setting settings[] = {{"metrics", listen}, {"self-check", "50ms"}};
    struct sluice_server *server = start(image_root(), settings, 2);
    static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
    char answer[64] = "";
    const int fd = connect_socket(port);
    CU_ASSERT_EQUAL(send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL), sizeof(request) - 1);
    CU_ASSERT(recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL) > 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(answer, " 200 "));
    close(fd);
    sluice_server_stop(server);
}

TEST(a_reread_finds_new_images)
{
    char root[600], passed[600];
    make_folder("growing", 0, 3, root);
    memcpy(passed, root, sizeof(passed));
    struct sluice_server *server = start(passed, NULL, 0);
    memset(passed, 'x', 9); /* it was copied */
    CU_ASSERT_EQUAL(num_served(server), 3);
    make_folder("growing", 3, 1, root);
    sluice_server_reread(server);
    const uint64_t until_ns = sluice_clock_ns() + PATIENCE_MS * UINT64_C(1000000);
    uint64_t count = 0;
    while (count != 4 && sluice_clock_ns() < until_ns)
        count = num_served(server);
    CU_ASSERT_EQUAL(count, 4);
    sluice_server_stop(server);
}

static int use_in_child(void *ctx)
{
    struct sluice_server *server = ctx, *another = NULL;
    struct sluice_err err = {0};
    char *json = NULL;
    if (sluice_server_stats(server, &json, &err) != SLUICE_E_INVALID)
        return STATS_GIVEN;
    if (!strstr(err.text, "fork"))
        return STATS_SILENT;
    err = (struct sluice_err){0};
    if (sluice_server_start(image_root(), NULL, 0, &another, &err) != SLUICE_E_INVALID)
        return START_GIVEN;
    if (!strstr(err.text, "fork"))
        return START_SILENT;
    sluice_server_reread(server);
    sluice_server_stop(server);
    return ALL_REFUSED;
}

TEST(a_forked_child_is_told)
{
    struct sluice_server *server = start(image_root(), NULL, 0);
    static struct sluice_test_output output;
    CU_ASSERT_EQUAL(sluice_test_child(use_in_child, server, &output), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(output.err, "did not survive fork()")); /* of the reread */
    CU_ASSERT_EQUAL(num_served(server), NUM_IMAGES);
    sluice_server_stop(server);
    sluice_server_stop(NULL);
}
