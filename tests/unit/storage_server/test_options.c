#include "storage_server/options.h"

#include "support/test.h"

static struct sluice_cli_result parse(struct sluice_server_options *options, int argc,
                                      const char *const *argv)
{
    *options = sluice_server_options_init();
    return sluice_server_options_parse(options, argc, (char **)argv);
}

#define PARSE(options, ...)                                                                        \
    parse(options,                                                                                 \
          (int)(sizeof((const char *[]){"offload_server", __VA_ARGS__}) / sizeof(char *)),         \
          (const char *[]){"offload_server", __VA_ARGS__, NULL})

TEST(the_root_alone_is_enough)
{
    struct sluice_server_options options;
    const struct sluice_cli_result result = PARSE(&options, "--root", "/data");
    CU_ASSERT_FALSE(result.should_exit);
    CU_ASSERT_EQUAL(options.roots.num, 1);
    CU_ASSERT_STRING_EQUAL(options.roots.at[0].place, "/data");
    CU_ASSERT_STRING_EQUAL(options.listen, "127.0.0.1:50051");
    CU_ASSERT_EQUAL(options.grpc_workers, 4);
    CU_ASSERT_EQUAL(options.prep_workers, 0);
    CU_ASSERT_EQUAL(options.io_workers, 0);
    CU_ASSERT_EQUAL(options.max_in_flight, 512);
    CU_ASSERT_EQUAL(options.link_bytes_per_s, 0);
    CU_ASSERT_EQUAL(options.max_file_bytes, 32 << 20);
    CU_ASSERT_FALSE(options.has_prep_nice);
    CU_ASSERT_STRING_EQUAL(options.prep_sched, "normal");
    CU_ASSERT_STRING_EQUAL(options.prep_io, "normal");
    CU_ASSERT_PTR_NULL(options.prep_cgroup);
    CU_ASSERT_EQUAL(options.prep_cpu_max, 0);
}

TEST(every_flag_reaches_its_field)
{
    struct sluice_server_options options;
    const struct sluice_cli_result result =
        PARSE(&options, "--root=/data", "--listen", "127.0.0.1:0", "--grpc-workers=2",
              "--prep-workers", "3", "--io-workers", "5", "--queue", "7", "--max-in-flight", "9",
              "--link-limit", "500mbit", "--max-image-pixels", "1000", "--max-file-bytes", "2M",
              "--grace", "500ms", "--reply-wait", "1500us", "--prep-nice", "19", "--prep-sched",
              "idle", "--prep-io", "low", "--prep-cgroup", "prep", "--prep-cpu-max", "1.5");
    CU_ASSERT_FALSE(result.should_exit);
    CU_ASSERT_STRING_EQUAL(options.listen, "127.0.0.1:0");
    CU_ASSERT_EQUAL(options.grpc_workers, 2);
    CU_ASSERT_EQUAL(options.prep_workers, 3);
    CU_ASSERT_EQUAL(options.io_workers, 5);
    CU_ASSERT_EQUAL(options.queue, 7);
    CU_ASSERT_EQUAL(options.max_in_flight, 9);
    CU_ASSERT_EQUAL(options.link_bytes_per_s, 62.5e6);
    CU_ASSERT_EQUAL(options.max_image_pixels, 1000);
    CU_ASSERT_EQUAL(options.max_file_bytes, 2 << 20);
    CU_ASSERT_EQUAL(options.grace_s, 0.5);
    CU_ASSERT_EQUAL(options.reply_wait_ms, 1.5);
    CU_ASSERT(options.has_prep_nice);
    CU_ASSERT_EQUAL(options.prep_nice, 19);
    CU_ASSERT_STRING_EQUAL(options.prep_sched, "idle");
    CU_ASSERT_STRING_EQUAL(options.prep_io, "low");
    CU_ASSERT_STRING_EQUAL(options.prep_cgroup, "prep");
    CU_ASSERT_EQUAL(options.prep_cpu_max, 1.5);
}

TEST(refuses_what_no_server_can_be)
{
    struct sluice_server_options options;
    CU_ASSERT_EQUAL(PARSE(&options, "--queue", "4").exit_code, 2); /* no root */
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--grpc-workers", "0").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--queue", "0").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--io-workers", "1025").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--grace", "-1").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--reply-wait", "-1").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--max-file-bytes", "0").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--link-limit", "fast").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--jpeg-crop-huffman", "best").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--jpeg-crop-restart", "65536").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--jpeg-crop-restart", "-1").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-nice", "20").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-nice", "-1").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-sched", "fifo").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-io", "last").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-cpu-max", "0").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--prep-cpu-max", "nan").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "surplus").exit_code, 2);
}

TEST(several_roots_have_names)
{
    struct sluice_server_options options;
    CU_ASSERT_FALSE(
        PARSE(&options, "--root", "b=s3://bucket/b", "--root", "a=/data/a").should_exit);
    CU_ASSERT_EQUAL(options.roots.num, 2);
    CU_ASSERT_STRING_EQUAL(options.roots.at[0].name, "a");
    CU_ASSERT_STRING_EQUAL(options.roots.at[0].place, "/data/a");
    CU_ASSERT_STRING_EQUAL(options.roots.at[1].place, "s3://bucket/b");
    CU_ASSERT(sluice_server_io_workers(&options) > 2); /* as the bucket asks for */
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/a", "--root", "/b").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "a=/a", "--root", "a=/b").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "a=s3://", "--root", "b=/b").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "a=/a", "--manifest", "/list.tsv").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "a=/a", "--jpeg-index", "/index").exit_code, 2);
    CU_ASSERT_FALSE(PARSE(&options, "--root", "a=/a", "--jpeg-index", "off").should_exit);
}

TEST(a_root_may_be_a_bucket_or_a_web_server)
{
    struct sluice_server_options options;
    CU_ASSERT_FALSE(PARSE(&options, "--root", "s3://bucket/a", "--s3-endpoint", "http://ceph:7480",
                          "--s3-style", "virtual", "--max-file-bytes", "2M", "--sample-timeout",
                          "10")
                        .should_exit);
    const struct sluice_store_options store =
        sluice_server_store_options(&options, options.roots.at[0].place);
    CU_ASSERT_STRING_EQUAL(store.root, "s3://bucket/a");
    CU_ASSERT_STRING_EQUAL(store.s3_endpoint, "http://ceph:7480");
    CU_ASSERT_STRING_EQUAL(store.s3_style, "virtual");
    CU_ASSERT_EQUAL(store.max_object_bytes, 2 << 20);
    CU_ASSERT(store.patience_ms > 0 && store.patience_ms < 5000);
    CU_ASSERT(sluice_server_io_workers(&options) > 2);
    CU_ASSERT_FALSE(PARSE(&options, "--root", "https://host/a/list.txt").should_exit);
    CU_ASSERT_FALSE(PARSE(&options, "--root", "/d").should_exit);
    CU_ASSERT_EQUAL(sluice_server_io_workers(&options), 2);
    options.io_workers = 5;
    CU_ASSERT_EQUAL(sluice_server_io_workers(&options), 5);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "s3://").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "https://host").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "https://user:secret@host/l").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "s3://bucket", "--s3-endpoint", "h").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "s3://bucket", "--s3-style", "x").exit_code, 2);
}

TEST(a_cache_is_for_remote_roots_and_has_a_size)
{
    struct sluice_server_options options;
    CU_ASSERT_FALSE(PARSE(&options, "--root", "s3://bucket", "--cache", "/c", "--cache-bytes", "2G")
                        .should_exit);
    CU_ASSERT_STRING_EQUAL(options.cache, "/c");
    CU_ASSERT_EQUAL(options.cache_bytes, UINT64_C(2) << 30);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "s3://bucket", "--cache", "/c").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "s3://bucket", "--cache-bytes", "2G").exit_code, 2);
    CU_ASSERT_EQUAL(
        PARSE(&options, "--root", "/d", "--cache", "/c", "--cache-bytes", "2G").exit_code, 2);
    CU_ASSERT_EQUAL(
        PARSE(&options, "--root", "s3://bucket", "--cache", "/c", "--cache-bytes", "1000")
            .exit_code,
        2);
}

TEST(is_open_to_others_only_if_told)
{
    struct sluice_server_options options;
    static const char *const far[] = {"0.0.0.0:1", ":1", "[::]:1", "10.0.0.1:1", "storage:1"};
    static const char *const near[] = {"127.0.0.1:1", "localhost:1", "[::1]:1", "unix:/run/x"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(far); i++) {
        CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--listen", far[i]).exit_code, 2);
        CU_ASSERT_FALSE(
            PARSE(&options, "--root", "/d", "--listen", far[i], "--insecure").should_exit);
        CU_ASSERT_FALSE(
            PARSE(&options, "--root", "/d", "--listen", far[i], "--tls-cert", "c", "--tls-key", "k")
                .should_exit);
        /* No client sends a token in the clear. */
        CU_ASSERT_EQUAL(
            PARSE(&options, "--root", "/d", "--listen", far[i], "--insecure", "--tokens", "t")
                .exit_code,
            2);
    }
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(near); i++)
        CU_ASSERT_FALSE(
            PARSE(&options, "--root", "/d", "--listen", near[i], "--tokens", "t").should_exit);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--tls-cert", "c").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--tls-key", "k").exit_code, 2);
    CU_ASSERT_EQUAL(PARSE(&options, "--root", "/d", "--tls-client-ca", "ca").exit_code, 2);
}

static sluice_status set(struct sluice_server_options *options, struct sluice_cli_texts *texts,
                         const char *key, const char *value, struct sluice_err *err)
{
    return sluice_server_options_set(options, &(struct sluice_setting){key, value}, 1, texts, err);
}

TEST(settings_go_over_what_is_there)
{
    struct sluice_server_options options = sluice_server_options_init();
    struct sluice_cli_texts texts = {0};
    char root[] = "/data";
    const struct sluice_setting settings[] = {
        {"root", root},          {"queue", "7"},     {"prep-nice", "3"},
        {"link-limit", "8mbit"}, {"strict", "true"},
    };
    CHECK_OK(sluice_server_options_set(&options, settings, 5, &texts, NULL));
    memset(root, 'x', sizeof(root) - 1);
    CU_ASSERT_EQUAL(options.roots.num, 1);
    CU_ASSERT_STRING_EQUAL(options.roots.at[0].place, "/data");
    CU_ASSERT_STRING_EQUAL(options.listen, "127.0.0.1:50051");
    CU_ASSERT_EQUAL(options.queue, 7);
    CU_ASSERT_EQUAL(options.link_bytes_per_s, 1e6);
    CU_ASSERT(options.has_prep_nice);
    CU_ASSERT_EQUAL(options.prep_nice, 3);
    CU_ASSERT(options.is_strict);

    CHECK_OK(set(&options, &texts, "queue", "9", NULL));
    CU_ASSERT_EQUAL(options.queue, 9);
    CU_ASSERT_EQUAL(options.prep_nice, 3);
    sluice_cli_texts_clear(&texts);
}

TEST(settings_are_refused_as_flags_are)
{
    struct sluice_server_options options = sluice_server_options_init();
    struct sluice_cli_texts texts = {0};
    const struct sluice_setting good_and_bad[] = {{"queue", "7"}, {"grpc-workers", "0"}};
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_server_options_set(&options, good_and_bad, 2, &texts, &err),
                    SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "grpc-workers: '0' is not within 1 to 256");
    CU_ASSERT_EQUAL(options.queue, 2048);

    static const char *const bad[][2] = {
        {"listen", "127.0.0.1:99999"}, {"listen", "127.0.0.1"}, {"metrics", "host:1:2"},
        {"prep-io", "high"},           {"no-strict", "true"},   {"help", "true"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        err = (struct sluice_err){0};
        CU_ASSERT_EQUAL(set(&options, &texts, bad[i][0], bad[i][1], &err), SLUICE_E_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, bad[i][0]));
        CU_ASSERT_PTR_NULL(strstr(err.text, "--"));
    }
    CHECK_OK(set(&options, &texts, "listen", "unix:/tmp/s", &err));
    CU_ASSERT_STRING_EQUAL(options.listen, "unix:/tmp/s");
    sluice_cli_texts_clear(&texts);
}
