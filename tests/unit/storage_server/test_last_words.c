#include "storage_server/observe/last_words.h"

#include "base/clock.h"
#include "support/test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static int say_7(void *ctx)
{
    return write(*(const int *)ctx, "!", 1) == 1 ? 7 : 1;
}

static int say_nothing(void *ctx)
{
    (void)ctx;
    while (pause() == -1)
        ;
    return 0;
}

/* A process that sets these deadlines and then does nothing; its status. */
static int run(int (*speak)(void *ctx), void *ctx, const uint64_t *after_ns, unsigned count)
{
    const pid_t pid = fork();
    if (pid == 0) {
        struct sluice_last_words *words;
        if (sluice_last_words_open(speak, ctx, &words, NULL) != SLUICE_OK)
            _exit(1);
        for (unsigned i = 0; i < count; i++)
            sluice_last_words_at(words, sluice_clock_ns() + after_ns[i]);
        for (;;)
            pause();
    }
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(the_process_ends_at_the_earliest_deadline_with_that_code)
{
    const uint64_t after_ns[] = {3600000000000u, 1000000, 7200000000000u};
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    const int status = run(say_7, &ends[1], after_ns, 3);
    CU_ASSERT(WIFEXITED(status));
    CU_ASSERT_EQUAL(WEXITSTATUS(status), 7);
    close(ends[1]);
    char said[4];
    CU_ASSERT_EQUAL(read(ends[0], said, sizeof(said)), 1);
    close(ends[0]);
}

TEST(words_that_do_not_come_do_not_hold_it_up)
{
    const uint64_t after_ns = 1000000;
    const int status = run(say_nothing, NULL, &after_ns, 1);
    CU_ASSERT(WIFSIGNALED(status));
    CU_ASSERT_EQUAL(WTERMSIG(status), SIGALRM);
}

TEST(closed_in_time_nothing_is_said)
{
    struct sluice_last_words *words = NULL;
    REQUIRE_OK(sluice_last_words_open(say_7, NULL, &words, NULL));
    sluice_last_words_at(words, sluice_clock_ns() + 3600000000000u);
    sluice_last_words_close(words);
    sluice_last_words_close(NULL);
}

TEST(a_line_never_waits_for_its_reader)
{
    int ends[2];
    char line[3000], back[8192];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    CU_ASSERT(sluice_write_line_now(ends[1], line));
    CU_ASSERT_EQUAL(read(ends[0], back, sizeof(back)), (ssize_t)sizeof(line));
    CU_ASSERT_EQUAL(back[sizeof(line) - 1], '\n');
    unsigned num_written = 0;
    while (sluice_write_line_now(ends[1], line))
        num_written++;
    CU_ASSERT(num_written > 0);
    close(ends[0]);
    close(ends[1]);
    const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
    CU_ASSERT_FALSE(sluice_write_line_now(full, "lost"));
    close(full);
}
