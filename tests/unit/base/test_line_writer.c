#include "base/line_writer.h"

#include "base/log.h"
#include "base/quit.h"
#include "support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

static void name_file(char path[300], const char *name)
{
    snprintf(path, 300, "%s/%s", sluice_test_dir(), name);
}

static void expect_file(const char *path, const char *expected)
{
    size_t len;
    char *text = (char *)sluice_test_read_file(path, &len);
    CU_ASSERT_EQUAL(len, strlen(expected));
    CU_ASSERT_EQUAL(len == strlen(expected) ? memcmp(text, expected, len) : 1, 0);
    free(text);
}

/* No file of this process may become longer. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static struct sluice_line_writer *open_file(const char *path)
{
    struct sluice_line_writer *writer = NULL;
    REQUIRE_OK(sluice_line_writer_open(path, -1, "the list", "name,size\n", &writer, NULL));
    return writer;
}

TEST(goes_on_in_mid_line_when_there_is_room_again)
{
    char path[300];
    name_file(path, "room");
    struct sluice_line_writer *writer = open_file(path);
    limit_files(13);
    sluice_line_writer_add(writer, "one,1\n");
    sluice_line_writer_flush(writer);
    CU_ASSERT_EQUAL(sluice_line_writer_waiting(writer), 3);
    expect_file(path, "name,size\none");
    sluice_line_writer_add(writer, "two,2\n");
    sluice_line_writer_flush(writer);
    limit_files(RLIM_INFINITY);
    sluice_line_writer_add(writer, "three,3\n");
    CHECK_OK(sluice_line_writer_close(writer, NULL));
    expect_file(path, "name,size\none,1\ntwo,2\nthree,3\n");
}

TEST(another_file_begins_with_a_header_and_a_whole_line)
{
    char path[300], away[300];
    name_file(path, "moved");
    name_file(away, "away");
    struct sluice_line_writer *writer = open_file(path);
    limit_files(13);
    sluice_line_writer_add(writer, "one,1\ntwo,2\n");
    sluice_line_writer_flush(writer);
    CU_ASSERT_EQUAL_FATAL(rename(path, away), 0);
    limit_files(RLIM_INFINITY);
    CHECK_FAILS(SLUICE_E_IO, "the list", sluice_line_writer_close(writer, sluice_test_err()));
    CHECK_SAYS("1 lines are missing");
    expect_file(path, "name,size\ntwo,2\n");
}

TEST(what_does_not_fit_is_counted)
{
    struct sluice_line_writer *writer = open_file("/dev/full");
    char line[1024];
    memset(line, 'x', sizeof(line) - 2);
    memcpy(line + sizeof(line) - 2, "\n", 2);
    for (int i = 0; i < 2000; i++)
        sluice_line_writer_add(writer, line);
    CU_ASSERT(sluice_line_writer_waiting(writer) <= 1 << 20);
    CHECK_FAILS(SLUICE_E_IO, "No space left on device; 2001 lines are missing",
                sluice_line_writer_close(writer, sluice_test_err()));
}

TEST(a_reader_that_has_gone_ends_nothing)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    struct sluice_line_writer *writer = NULL;
    REQUIRE_OK(sluice_line_writer_open(NULL, ends[1], "the output", NULL, &writer, NULL));
    close(ends[0]);
    sluice_line_writer_add(writer, "a line\n");
    sluice_line_writer_flush(writer);
    CU_ASSERT_EQUAL(sluice_line_writer_waiting(writer), 7);
    CU_ASSERT_EQUAL(sluice_line_writer_close(writer, NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL(close(ends[1]), 0); /* it was the caller's */
}

static void *request_stop(void *ctx)
{
    (void)ctx;
    sluice_quit_request();
    return NULL;
}

/* Last, as a stop stays requested. */
TEST(a_stop_ends_the_wait_for_a_reader)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    char page[4096] = {0};
    CU_ASSERT_EQUAL_FATAL(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    while (write(ends[1], page, sizeof(page)) > 0)
        ;
    CU_ASSERT_EQUAL_FATAL(fcntl(ends[1], F_SETFL, 0), 0);
    struct sluice_line_writer *writer = NULL;
    REQUIRE_OK(sluice_line_writer_open(NULL, ends[1], "the output", NULL, &writer, NULL));
    sluice_line_writer_add(writer, "a line\n");
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, request_stop, NULL), 0);
    sluice_line_writer_flush(writer);
    pthread_join(thread, NULL);
    CU_ASSERT_EQUAL(sluice_line_writer_close(writer, NULL), SLUICE_E_IO);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    if (sluice_quit_init(NULL) != SLUICE_OK)
        return 1;
    sluice_log_set_level(SLUICE_LOG_ERROR);
    return sluice_test_main();
}
