#include "lend/channel.h"

#include "base/process.h"
#include "borrow.h"
#include "host/unix_listener.h"
#include "support/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* What answers at the path is not an owner, or sends what none does. */
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
