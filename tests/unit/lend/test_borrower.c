#include "lend/channel.h"
#include "lend_support.h"

#include "base/process.h"
#include "host/unix_listener.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* Most tests here have an owner in a child process and the borrower in this one. */

struct owner {
    pid_t pid;
    int to; /* its stdin: it ends when that is closed */
};

static void run_owner(const char *path, int go, int ready)
{
    struct sluice_lend *lend;
    char byte = 0;
    if (sluice_lend_open(
            &(struct sluice_lend_options){.path = path, .at_most_ms = 600000, .device = -1}, &lend,
            NULL) != SLUICE_OK)
        _exit(1);
    if (write(ready, &byte, 1) != 1 || read(go, &byte, 1) < 0)
        _exit(1);
    sluice_lend_close(lend);
    _exit(0);
}

static struct owner owner_start(const char *path)
{
    int go[2], ready[2];
    CU_ASSERT_EQUAL_FATAL(pipe2(go, O_CLOEXEC) + pipe2(ready, O_CLOEXEC), 0);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        close(go[1]);
        run_owner(path, go[0], ready[1]);
    }
    char byte;
    CU_ASSERT_EQUAL(read(ready[0], &byte, 1), 1);
    close(go[0]);
    close(ready[0]);
    close(ready[1]);
    return (struct owner){pid, go[1]};
}

static void owner_end(struct owner *owner, int signal)
{
    int status;
    if (signal)
        kill(owner->pid, signal);
    close(owner->to);
    CU_ASSERT_EQUAL(waitpid(owner->pid, &status, 0), owner->pid);
    CU_ASSERT(signal || status == 0);
}

static struct sluice_borrower *borrow(const char *path)
{
    struct sluice_borrower *borrower;
    REQUIRE_OK(sluice_borrower_open(&(struct sluice_borrower_options){.path = path}, &borrower,
                                    sluice_test_err()));
    return borrower;
}

static sluice_status try_to_borrow(const char *path)
{
    struct sluice_borrower *borrower = NULL;
    const sluice_status status = sluice_borrower_open(
        &(struct sluice_borrower_options){.path = path}, &borrower, sluice_test_err());
    CU_ASSERT_PTR_NULL(borrower);
    sluice_borrower_close(borrower);
    return status;
}

TEST(takes_and_gives_with_a_ticket)
{
    const char *path = sluice_test_path("ticket");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t first, second;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &first, sluice_test_err()));
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first + 1));
    CU_ASSERT(sluice_borrower_give(borrower, first));
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first));
    REQUIRE_OK(sluice_borrower_take(borrower, 0, &second, sluice_test_err()));
    CU_ASSERT_NOT_EQUAL(first, second);
    CU_ASSERT_FALSE(sluice_borrower_give(borrower, first));
    CU_ASSERT(sluice_borrower_give(borrower, second));
    sluice_borrower_close(borrower);
    owner_end(&owner, 0);
}

struct thread {
    struct sluice_borrower *borrower;
    _Atomic int *num_inside;
    int num_times;
};

static void *take_often(void *arg)
{
    const struct thread *thread = arg;
    for (int i = 0; i < thread->num_times; i++) {
        uint32_t ticket;
        REQUIRE_OK(sluice_borrower_take(thread->borrower, -1, &ticket, NULL));
        CU_ASSERT_EQUAL(++*thread->num_inside, 1);
        --*thread->num_inside;
        CU_ASSERT(sluice_borrower_give(thread->borrower, ticket));
    }
    return NULL;
}

TEST(threads_of_a_borrower_have_it_one_after_the_other)
{
    const char *path = sluice_test_path("threads");
    struct owner owner = owner_start(path);
    _Atomic int num_inside = 0;
    struct thread thread = {borrow(path), &num_inside, 2000};
    pthread_t threads[4];
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, take_often, &thread), 0);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    uint32_t ticket, other;
    REQUIRE_OK(sluice_borrower_take(thread.borrower, -1, &ticket, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_AGAIN, "another thread",
                sluice_borrower_take(thread.borrower, 1, &other, sluice_test_err()));
    CU_ASSERT(sluice_borrower_give(thread.borrower, ticket));
    sluice_borrower_close(thread.borrower);
    owner_end(&owner, 0);
}

TEST(a_killed_owner_is_found_at_the_next_take)
{
    const char *path = sluice_test_path("killed");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t ticket;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    CU_ASSERT(sluice_borrower_give(borrower, ticket));
    owner_end(&owner, SIGKILL);
    CHECK_FAILS(SLUICE_E_CLOSED, "has ended",
                sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    sluice_borrower_close(borrower);
    /* Another owner at the path is no trouble. */
    owner = owner_start(path);
    borrower = borrow(path);
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    sluice_borrower_close(borrower); /* gives */
    owner_end(&owner, 0);
}

TEST(nobody_lends_at_a_path_without_an_owner)
{
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody lends", try_to_borrow(sluice_test_path("nothing")));
    const char *path = sluice_test_path("dead");
    struct owner owner = owner_start(path);
    owner_end(&owner, SIGKILL);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nobody lends", try_to_borrow(path));
    struct sluice_borrower *borrower;
    CHECK_FAILS(SLUICE_E_INVALID, "path",
                sluice_borrower_open(&(struct sluice_borrower_options){.path = NULL}, &borrower,
                                     sluice_test_err()));
    char longest[200];
    memset(longest, 'x', sizeof(longest));
    longest[199] = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "1 to 107", try_to_borrow(longest));
}

TEST(after_fork_the_child_cannot_take)
{
    const char *path = sluice_test_path("fork");
    struct owner owner = owner_start(path);
    struct sluice_borrower *borrower = borrow(path);
    uint32_t ticket;
    REQUIRE_OK(sluice_borrower_take(borrower, -1, &ticket, sluice_test_err()));
    const pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        uint32_t mine;
        const bool is_right = sluice_borrower_take(borrower, 0, &mine, NULL) == SLUICE_E_INVALID &&
                              !sluice_borrower_give(borrower, ticket);
        sluice_borrower_close(borrower);
        _exit(is_right ? 0 : 1);
    }
    int status;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT(sluice_borrower_give(borrower, ticket)); /* the child's close was not ours */
    sluice_borrower_close(borrower);
    owner_end(&owner, 0);
}

/* --- something else at the path --- */

struct impostor {
    struct sluice_unix_listener listener;
    struct sluice_lend_answer answer;
    size_t len;
    int memfd;
    bool is_raw; /* the answer is sent as it is */
    pthread_t thread;
};

static void *answer_once(void *arg)
{
    struct impostor *impostor = arg;
    int fd;
    while ((fd = sluice_unix_accept(&impostor->listener)) < 0)
        sched_yield();
    struct sluice_lend_hello hello;
    struct ucred peer;
    while (sluice_lend_read_hello(fd, &hello, &peer, NULL) == SLUICE_E_AGAIN)
        sched_yield();
    const bool is_sent =
        impostor->is_raw
            ? send(fd, &impostor->answer, impostor->len, MSG_NOSIGNAL) == (ssize_t)impostor->len
            : sluice_lend_send_answer(fd, &impostor->answer, impostor->memfd);
    CU_ASSERT(is_sent);
    sluice_process_end_socket(fd);
    return NULL;
}

/* Ends with the borrower's status. */
static sluice_status borrow_from(struct impostor *impostor)
{
    const char *path = sluice_test_path("impostor");
    REQUIRE_OK(sluice_unix_listen(path, 0600, 4, &impostor->listener, sluice_test_err()));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&impostor->thread, NULL, answer_once, impostor), 0);
    const sluice_status status = try_to_borrow(path);
    pthread_join(impostor->thread, NULL);
    sluice_unix_unlink(&impostor->listener);
    sluice_unix_close(&impostor->listener);
    return status;
}

/* A memfd like an owner's page, but for its size, seals and content. */
static int make_memfd(off_t size, unsigned seals, const struct sluice_lend_page *page)
{
    const int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CU_ASSERT_EQUAL(ftruncate(fd, size), 0);
    if (page && size >= (off_t)sizeof(*page))
        CU_ASSERT_EQUAL(pwrite(fd, page, sizeof(*page), 0), (ssize_t)sizeof(*page));
    CU_ASSERT_EQUAL(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

TEST(a_page_that_is_not_sealed_or_too_small_or_none_is_corrupt)
{
    static struct sluice_lend_page page;
    sluice_lend_page_init(&page);
    static const struct sluice_lend_page empty;
    const unsigned seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    const int memfds[] = {
        make_memfd(SLUICE_LEND_PAGE_BYTES, F_SEAL_GROW | F_SEAL_SEAL, &page),
        make_memfd(SLUICE_LEND_PAGE_BYTES, 0, &page),
        make_memfd(SLUICE_LEND_PAGE_BYTES - 1, seals, &page),
        make_memfd(0, seals, NULL),
        make_memfd(SLUICE_LEND_PAGE_BYTES, seals, &empty),
        open("/dev/zero", O_RDWR | O_CLOEXEC),
        -1,
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(memfds); i++) {
        struct impostor impostor = {.memfd = memfds[i]};
        CHECK_FAILS(SLUICE_E_CORRUPT, "page is too small, not sealed", borrow_from(&impostor));
        if (memfds[i] >= 0)
            close(memfds[i]);
    }
    /* The same, but right, is taken. */
    const char *path = sluice_test_path("impostor");
    struct impostor impostor = {.memfd = make_memfd(SLUICE_LEND_PAGE_BYTES, seals, &page)};
    REQUIRE_OK(sluice_unix_listen(path, 0600, 4, &impostor.listener, sluice_test_err()));
    CU_ASSERT_EQUAL_FATAL(pthread_create(&impostor.thread, NULL, answer_once, &impostor), 0);
    sluice_borrower_close(borrow(path));
    pthread_join(impostor.thread, NULL);
    sluice_unix_unlink(&impostor.listener);
    sluice_unix_close(&impostor.listener);
    close(impostor.memfd);
}

TEST(an_owner_s_page_cannot_be_resized)
{
    struct sluice_lend_page *page = NULL;
    int memfd;
    REQUIRE_OK(sluice_lend_page_create(&page, &memfd, sluice_test_err()));
    CU_ASSERT_EQUAL(ftruncate(memfd, 0), -1);
    CU_ASSERT_EQUAL(ftruncate(memfd, 2 * SLUICE_LEND_PAGE_BYTES), -1);
    CU_ASSERT_EQUAL(fcntl(memfd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    CU_ASSERT_EQUAL(fcntl(memfd, F_GETFD), FD_CLOEXEC);
    sluice_lend_page_clear(page, memfd);
    sluice_lend_page_clear(NULL, -1);
}

TEST(an_answer_that_is_none_is_corrupt)
{
    struct impostor impostor = {.is_raw = true, .len = 5};
    CHECK_FAILS(SLUICE_E_CORRUPT, "not from a lender", borrow_from(&impostor));
    impostor.len = sizeof(impostor.answer);
    CHECK_FAILS(SLUICE_E_CORRUPT, "not from a lender", borrow_from(&impostor));
    impostor.answer.magic = SLUICE_LEND_MAGIC;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "version 0", borrow_from(&impostor));
    impostor.answer.version = SLUICE_LEND_VERSION;
    impostor.answer.slot = SLUICE_LEND_SLOTS;
    CHECK_FAILS(SLUICE_E_CORRUPT, "makes no sense", borrow_from(&impostor));
    impostor.answer.slot = 0;
    impostor.answer.status = SLUICE_NUM_STATUS;
    CHECK_FAILS(SLUICE_E_CORRUPT, "makes no sense", borrow_from(&impostor));
    impostor.answer.status = SLUICE_E_INVALID;
    memset(impostor.answer.text, 'x', sizeof(impostor.answer.text));
    CHECK_FAILS(SLUICE_E_CORRUPT, "makes no sense", borrow_from(&impostor));
    strcpy(impostor.answer.text, "not today");
    CHECK_FAILS(SLUICE_E_INVALID, "refused: not today", borrow_from(&impostor));
}

TEST(a_hello_of_another_version_is_refused_in_words)
{
    struct sluice_lend_hello hello = {SLUICE_LEND_MAGIC, SLUICE_LEND_VERSION + 1, 0, 0};
    CHECK_FAILS(
        SLUICE_E_UNSUPPORTED, "borrower has version 2",
        sluice_lend_hello_parse((const uint8_t *)&hello, sizeof(hello), &hello, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_CORRUPT, "15 bytes",
                sluice_lend_hello_parse((const uint8_t *)&hello, sizeof(hello) - 1, &hello,
                                        sluice_test_err()));
}

TEST(the_socket_of_another_program_is_corrupt)
{
    const char *path = sluice_test_path("stream");
    struct sockaddr_un address;
    REQUIRE_OK(sluice_unix_address(path, &address, sluice_test_err()));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CU_ASSERT_EQUAL(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    CU_ASSERT_EQUAL(listen(fd, 1), 0);
    CHECK_FAILS(SLUICE_E_CORRUPT, "other program", try_to_borrow(path));
    close(fd);
}
