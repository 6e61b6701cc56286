#include "train/rendezvous.h"

#include "base/clock.h"

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 128 /* as NCCL's id */

/* Long enough for any machine: nothing waits for it. */
static uint64_t far_away(void)
{
    return sluice_clock_ns() + 300000000000u;
}

static uint64_t after_ms(uint64_t ms)
{
    return sluice_clock_ns() + ms * 1000000u;
}

/* A key that no other test and no other run of this one has. */
static const char *key_of(const char *test)
{
    static char key[SLUICE_RENDEZVOUS_MAX_KEY + 1];
    snprintf(key, sizeof(key), "%s-%d", test, (int)getpid());
    return key;
}

struct rank {
    const char *key;
    unsigned rank, world_size;
    size_t len;
    uint64_t until_ns;
    uint8_t bytes[LEN];
    int fd;
    bool has_fd;
    sluice_status status;
    struct sluice_err err;
    pthread_t thread;
};

static void *rank_main(void *ctx)
{
    struct rank *r = ctx;
    r->status = r->has_fd ? sluice_rendezvous_fd(r->key, r->rank, r->world_size, &r->fd,
                                                 r->until_ns, &r->err)
                          : sluice_rendezvous(r->key, r->rank, r->world_size, r->bytes, r->len,
                                              r->until_ns, &r->err);
    return NULL;
}

static void start(struct rank *r)
{
    CU_ASSERT_EQUAL_FATAL(pthread_create(&r->thread, NULL, rank_main, r), 0);
}

static void finish(struct rank *r)
{
    pthread_join(r->thread, NULL);
}

static struct rank rank_of(const char *key, unsigned rank, unsigned world_size)
{
    struct rank r = {
        .key = key, .rank = rank, .world_size = world_size, .len = LEN, .until_ns = far_away()};
    for (size_t i = 0; i < LEN && rank == 0; i++)
        r.bytes[i] = (uint8_t)(i * 7 + 1);
    return r;
}

TEST(every_rank_gets_rank_0s_bytes_whoever_comes_first)
{
    const char *key = key_of("every");
    for (unsigned first = 0; first < 5; first++) {
        struct rank ranks[5];
        for (unsigned i = 0; i < 5; i++)
            ranks[i] = rank_of(key, i, 5);
        for (unsigned i = 0; i < 5; i++)
            start(&ranks[(first + i) % 5]);
        for (unsigned i = 0; i < 5; i++) {
            finish(&ranks[i]);
            CU_ASSERT_EQUAL(ranks[i].status, SLUICE_OK);
            CU_ASSERT_EQUAL(memcmp(ranks[i].bytes, ranks[0].bytes, LEN), 0);
        }
    }
}

TEST(one_rank_meets_nobody)
{
    uint8_t bytes[LEN] = {1};
    CHECK_OK(sluice_rendezvous("", 0, 1, bytes, LEN, 0, NULL));
    CU_ASSERT_EQUAL(bytes[0], 1);
}

TEST(every_rank_gets_a_descriptor_of_the_same_file)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    const char *key = key_of("fd");
    struct rank ranks[3];
    for (unsigned i = 0; i < 3; i++) {
        ranks[i] = rank_of(key, i, 3);
        ranks[i].has_fd = true;
        ranks[i].fd = i == 0 ? ends[1] : -1;
        start(&ranks[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        finish(&ranks[i]);
        CU_ASSERT_EQUAL(ranks[i].status, SLUICE_OK);
        const char byte = (char)('a' + i);
        char got = 0;
        CU_ASSERT_EQUAL(write(ranks[i].fd, &byte, 1), 1);
        CU_ASSERT_EQUAL(read(ends[0], &got, 1), 1);
        CU_ASSERT_EQUAL(got, byte);
        CU_ASSERT(fcntl(ranks[i].fd, F_GETFD) == FD_CLOEXEC || i == 0);
        close(ranks[i].fd);
    }
    close(ends[0]);
}

TEST(the_error_names_the_ranks_that_did_not_come)
{
    struct rank first, second;
    uint64_t ms = 100;
    do { /* until rank 2 came in time */
        first = rank_of(key_of("missing"), 0, 4);
        second = rank_of(key_of("missing"), 2, 4);
        first.until_ns = second.until_ns = after_ms(ms *= 2);
        start(&first);
        start(&second);
        finish(&second);
        finish(&first);
        CU_ASSERT_EQUAL(first.status, SLUICE_E_IO);
    } while (second.status != SLUICE_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(first.err.text, "of 4 ranks"));
    CU_ASSERT_PTR_NOT_NULL(strstr(first.err.text, "in time: 1, 3 ("));
}

TEST(the_error_is_short_with_many_ranks)
{
    struct rank first = rank_of(key_of("many"), 0, 10000);
    first.until_ns = after_ms(1);
    start(&first);
    finish(&first);
    CU_ASSERT_EQUAL(first.status, SLUICE_E_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(first.err.text, "in time: 1, 2, 3, "));
    CU_ASSERT_PTR_NOT_NULL(strstr(first.err.text, ", ... ("));
}

TEST(without_rank_0_the_others_say_so)
{
    uint8_t bytes[LEN];
    CHECK_FAILS(
        SLUICE_E_IO, "rank 1 did not find rank 0",
        sluice_rendezvous(key_of("nobody"), 1, 2, bytes, LEN, after_ms(30), sluice_test_err()));
}

TEST(a_rank_that_comes_twice_is_handed_nothing)
{
    const char *key = key_of("twice");
    struct rank first = rank_of(key, 0, 3), twin = rank_of(key, 1, 3), last = rank_of(key, 2, 3);
    start(&first);
    start(&twin);
    finish(&twin);
    CU_ASSERT_EQUAL(twin.status, SLUICE_OK);
    uint8_t bytes[LEN] = {0};
    CHECK_FAILS(SLUICE_E_IO, "rank 1", /* after another of its number, or too late to be told so */
                sluice_rendezvous(key, 1, 3, bytes, LEN, after_ms(100), sluice_test_err()));
    CU_ASSERT_EQUAL(bytes[0], 0);
    start(&last);
    finish(&last);
    finish(&first);
    CU_ASSERT_EQUAL(first.status, SLUICE_OK);
    CU_ASSERT_EQUAL(last.status, SLUICE_OK);
}

TEST(one_hand_over_follows_another_with_the_same_key)
{
    const char *key = key_of("next");
    struct rank first = rank_of(key, 0, 3), fast = rank_of(key, 1, 3), slow = rank_of(key, 2, 3);
    start(&first);
    start(&fast);
    finish(&fast);
    CU_ASSERT_EQUAL(fast.status, SLUICE_OK);
    struct rank next = rank_of(key, 1, 3);
    next.len = 5;
    start(&next); /* while the first hand-over waits for rank 2 */
    start(&slow);
    finish(&slow);
    finish(&first);
    CU_ASSERT_EQUAL(slow.status, SLUICE_OK);
    struct rank first_next = rank_of(key, 0, 3), slow_next = rank_of(key, 2, 3);
    first_next.len = slow_next.len = 5;
    start(&slow_next);
    start(&first_next);
    finish(&next);
    finish(&slow_next);
    finish(&first_next);
    CU_ASSERT_EQUAL(first_next.status, SLUICE_OK);
    CU_ASSERT_EQUAL(slow_next.status, SLUICE_OK);
    CU_ASSERT_EQUAL(next.status, SLUICE_OK);
    CU_ASSERT_EQUAL(memcmp(next.bytes, first_next.bytes, 5), 0);
}

TEST(ranks_of_another_world_are_refused)
{
    const char *key = key_of("world");
    struct rank first = rank_of(key, 0, 2), own = rank_of(key, 1, 2);
    start(&first);
    uint8_t bytes[LEN];
    CHECK_FAILS(SLUICE_E_INVALID, "rank 1 of 3 meets a rank 0 of 2",
                sluice_rendezvous(key, 1, 3, bytes, LEN, far_away(), sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "hands over 128 bytes, not 127",
                sluice_rendezvous(key, 1, 2, bytes, LEN - 1, far_away(), sluice_test_err()));
    start(&own);
    finish(&own);
    finish(&first);
    CU_ASSERT_EQUAL(first.status, SLUICE_OK);
    CU_ASSERT_EQUAL(own.status, SLUICE_OK);
}

TEST(refuses_bad_arguments)
{
    uint8_t bytes[LEN];
    char key[SLUICE_RENDEZVOUS_MAX_KEY + 2];
    memset(key, 'k', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    const char *const keys[] = {NULL, "", key};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(keys); i++)
        CHECK_FAILS(SLUICE_E_INVALID, "a key has 1 to 64 bytes",
                    sluice_rendezvous(keys[i], 0, 2, bytes, LEN, 0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "rank 2 of 2",
                sluice_rendezvous("k", 2, 2, bytes, LEN, 0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "4097 bytes",
                sluice_rendezvous("k", 0, 2, bytes, 4097, 0, sluice_test_err()));
    /* The longest key. */
    CHECK_FAILS(SLUICE_E_IO, "did not come",
                sluice_rendezvous(key + 1, 0, 2, bytes, LEN, 0, sluice_test_err()));
}

/* Ends at once, whatever state it is in; the child's ranks have only this thread. */
static pid_t fork_rank(struct rank *r)
{
    fflush(NULL);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        (void)rank_main(r);
        _exit(r->status == SLUICE_OK ? 0 : 1);
    }
    return pid;
}

TEST(a_killed_rank_0_leaves_nothing)
{
    const char *key = key_of("crash");
    struct rank dying = rank_of(key, 0, 3), met = rank_of(key, 1, 3);
    const pid_t pid = fork_rank(&dying);
    start(&met); /* rank 0 is listening once this is done */
    finish(&met);
    CU_ASSERT_EQUAL(met.status, SLUICE_OK);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    struct rank ranks[3];
    for (unsigned i = 0; i < 3; i++) {
        ranks[i] = rank_of(key, i, 3);
        start(&ranks[i]);
    }
    for (unsigned i = 0; i < 3; i++) {
        finish(&ranks[i]);
        CU_ASSERT_EQUAL(ranks[i].status, SLUICE_OK);
    }
}

/* A second run waits until the first has met. */
TEST(a_name_that_is_taken_is_waited_for)
{
    const char *key = key_of("taken");
    struct rank first = rank_of(key, 0, 2), second = rank_of(key, 0, 2);
    second.bytes[0] = 99;
    struct rank others[2] = {rank_of(key, 1, 2), rank_of(key, 1, 2)};
    start(&first);
    start(&second);
    for (int i = 0; i < 2; i++) {
        start(&others[i]);
        finish(&others[i]);
        CU_ASSERT_EQUAL(others[i].status, SLUICE_OK);
    }
    finish(&first);
    finish(&second);
    CU_ASSERT_EQUAL(first.status, SLUICE_OK);
    CU_ASSERT_EQUAL(second.status, SLUICE_OK);
    CU_ASSERT_EQUAL(others[0].bytes[0] + others[1].bytes[0], 99 + first.bytes[0]);
}

static struct sockaddr_un address_of(const char *key, socklen_t *len)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1,
                           "sluice-rendezvous-%u-%s", (unsigned)geteuid(), key);
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    return address;
}

#define NOBODY 65534

static bool is_root(void)
{
    if (geteuid() == 0)
        return true;
    printf("  only root can be another user: not checked\n");
    return false;
}

TEST(a_rank_0_of_another_user_is_refused)
{
    if (!is_root())
        return;
    const char *key = key_of("squatter");
    socklen_t len;
    const struct sockaddr_un address = address_of(key, &len);
    int ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ready), 0);
    fflush(NULL);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        if (setuid(NOBODY) != 0 || bind(fd, (const struct sockaddr *)&address, len) != 0 ||
            listen(fd, 5) != 0 || write(ready[1], "r", 1) != 1)
            _exit(1);
        pause();
        _exit(0);
    }
    char byte;
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    uint8_t bytes[LEN];
    CHECK_FAILS(SLUICE_E_IO, "belongs to another user",
                sluice_rendezvous(key, 1, 2, bytes, LEN, far_away(), sluice_test_err()));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

TEST(a_rank_of_another_user_is_handed_nothing)
{
    if (!is_root())
        return;
    const char *key = key_of("stranger");
    socklen_t len;
    const struct sockaddr_un address = address_of(key, &len);
    struct rank first = rank_of(key, 0, 2), own = rank_of(key, 1, 2);
    fflush(NULL);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        const uint32_t hello[] = {0x534c5231u, 1, 2, LEN};
        uint8_t answer[256];
        if (setuid(NOBODY) != 0)
            _exit(1);
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        while (connect(fd, (const struct sockaddr *)&address, len) != 0) {
            if (errno != ECONNREFUSED)
                _exit(2);
        }
        if (send(fd, hello, sizeof(hello), MSG_NOSIGNAL) < 0 && errno != EPIPE)
            _exit(3);
        const ssize_t got = recv(fd, answer, sizeof(answer), 0);
        _exit(got <= 0 ? 0 : 4);
    }
    start(&first);
    int state = -1;
    waitpid(pid, &state, 0);
    CU_ASSERT(WIFEXITED(state) && WEXITSTATUS(state) == 0);
    start(&own); /* rank 1 is not taken */
    finish(&own);
    finish(&first);
    CU_ASSERT_EQUAL(own.status, SLUICE_OK);
    CU_ASSERT_EQUAL(first.status, SLUICE_OK);
}

/* Whoever connects and says nothing, or what no rank says, is passed over. */
TEST(strange_connections_do_not_end_it)
{
    const char *key = key_of("strange");
    socklen_t len;
    const struct sockaddr_un address = address_of(key, &len);
    struct rank first = rank_of(key, 0, 2), own = rank_of(key, 1, 2);
    start(&first);
    static const char *const texts[] = {NULL, "", "GET / HTTP/1.1\r\n\r\n", "0123456789abcdef"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(texts); i++) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        while (connect(fd, (const struct sockaddr *)&address, len) != 0)
            CU_ASSERT_EQUAL_FATAL(errno, ECONNREFUSED);
        if (texts[i])
            CU_ASSERT(send(fd, texts[i], strlen(texts[i]), MSG_NOSIGNAL) >= 0);
        uint8_t answer[256];
        CU_ASSERT(recv(fd, answer, sizeof(answer), 0) <= 0);
        close(fd);
    }
    start(&own);
    finish(&own);
    finish(&first);
    CU_ASSERT_EQUAL(own.status, SLUICE_OK);
    CU_ASSERT_EQUAL(first.status, SLUICE_OK);
}
