#include "lend/channel.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define MAGIC 0x534c4c31u /* "SLL1" */
#define VERSION 1u        /* of the messages, and of the page that comes with them */

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

struct head {
    uint32_t magic, version;
};

struct hello_message {
    struct head head;
    struct sluice_lend_hello hello;
};

struct answer_message {
    struct head head;
    struct sluice_lend_answer answer;
};

_Static_assert(sizeof(struct hello_message) == SLUICE_LEND_HELLO_BYTES &&
                   sizeof(struct answer_message) == SLUICE_LEND_ANSWER_BYTES,
               "messages have no holes");

/* --- descriptors that a forked child must not keep --- */

/* Held by fork(), too. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int *open_fds;
static size_t num_open, room;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
    for (size_t i = 0; i < num_open; i++)
        close(open_fds[i]);
    num_open = 0;
    pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* accept4() of a listener, or socket() with -1; -1: see errno. */
static int open_socket(int listener)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    int fd = -1;
    if (num_open == room) {
        int *larger = realloc(open_fds, (room + 64) * sizeof(*larger));
        if (larger) {
            open_fds = larger;
            room += 64;
        }
    }
    if (num_open < room)
        fd = listener < 0 ? socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)
                          : accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        open_fds[num_open++] = fd;
    pthread_mutex_unlock(&lock);
    return fd;
}

void sluice_lend_hang_up(int fd)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < num_open; i++)
        if (open_fds[i] == fd) {
            open_fds[i] = open_fds[--num_open];
            close(fd);
            break;
        }
    pthread_mutex_unlock(&lock);
}

/* --- messages --- */

static sluice_status check_head(const struct head *head, const char *who, struct sluice_err *err)
{
    if (head->magic != MAGIC)
        return sluice_fail(err, SLUICE_E_CORRUPT, "this is no %s of a GPU", who);
    if (head->version != VERSION)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "the %s speaks version %u of the protocol, and this library %u", who,
                           (unsigned)head->version, VERSION);
    return SLUICE_OK;
}

sluice_status sluice_lend_hello_parse(const uint8_t *bytes, size_t len,
                                      struct sluice_lend_hello *hello, struct sluice_err *err)
{
    struct hello_message message;
    if (len != sizeof(message))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes are no hello of a borrower", len);
    memcpy(&message, bytes, sizeof(message));
    const sluice_status status = check_head(&message.head, "borrower", err);
    if (status == SLUICE_OK)
        *hello = message.hello;
    return status;
}

sluice_status sluice_lend_answer_parse(const uint8_t *bytes, size_t len,
                                       struct sluice_lend_answer *answer, struct sluice_err *err)
{
    struct answer_message message;
    if (len != sizeof(message))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes are no answer of a lender", len);
    memcpy(&message, bytes, sizeof(message));
    const sluice_status status = check_head(&message.head, "lender", err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_lend_answer *a = &message.answer;
    if (!memchr(a->text, 0, sizeof(a->text)) || a->status >= SLUICE_NUM_STATUS ||
        (a->status == SLUICE_OK && a->slot >= SLUICE_LEND_SLOTS))
        return sluice_fail(err, SLUICE_E_CORRUPT, "the answer of the lender makes no sense");
    if (a->status != SLUICE_OK)
        return sluice_fail(err, (sluice_status)a->status, "refused: %s", a->text);
    *answer = *a;
    return SLUICE_OK;
}

/* --- the page's memory --- */

static struct sluice_lend_page *map(int memfd)
{
    void *memory = mmap(NULL, SLUICE_LEND_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

sluice_status sluice_lend_page_create(struct sluice_lend_page **page, int *memfd,
                                      struct sluice_err *err)
{
    struct sluice_lend_page *made = NULL;
    const int fd = memfd_create("sluice-lend", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || ftruncate(fd, SLUICE_LEND_PAGE_BYTES) != 0 ||
        fcntl(fd, F_ADD_SEALS, SEALS) != 0 || !(made = map(fd))) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return sluice_fail(err, SLUICE_E_IO, "a page to lend a GPU: %s", strerror(error));
    }
    sluice_lend_page_init(made);
    *page = made;
    *memfd = fd;
    return SLUICE_OK;
}

void sluice_lend_page_unmap(struct sluice_lend_page *page)
{
    if (page)
        munmap(page, SLUICE_LEND_PAGE_BYTES);
}

/* Sealed and large enough, so that no access of it can fail. */
static sluice_status open_page(int memfd, struct sluice_lend_page **page, struct sluice_err *err)
{
    const int seals = fcntl(memfd, F_GET_SEALS);
    struct stat file;
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(memfd, &file) != 0 ||
        file.st_size < SLUICE_LEND_PAGE_BYTES)
        return sluice_fail(err, SLUICE_E_CORRUPT, "the lender's page is too small or not sealed");
    struct sluice_lend_page *mapped = map(memfd);
    if (!mapped)
        return sluice_fail(err, SLUICE_E_IO, "the lender's page: %s", strerror(errno));
    if (!sluice_lend_page_is_valid(mapped)) {
        sluice_lend_page_unmap(mapped);
        return sluice_fail(err, SLUICE_E_CORRUPT, "what the lender sends is no page");
    }
    *page = mapped;
    return SLUICE_OK;
}

/* --- the owner --- */

static sluice_status set_address(const char *path, struct sockaddr_un *address,
                                 struct sluice_err *err)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const size_t len = strlen(path);
    if (len == 0 || len >= sizeof(address->sun_path))
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: the path of a unix socket has 1 to %zu characters", path,
                           sizeof(address->sun_path) - 1);
    memcpy(address->sun_path, path, len);
    return SLUICE_OK;
}

/* Makes room for the socket: what a dead owner left is removed. */
static sluice_status remove_stale(const struct sockaddr_un *address, struct sluice_err *err)
{
    const char *path = address->sun_path;
    struct stat file;
    if (lstat(path, &file) != 0)
        return SLUICE_OK; /* or bind() says why not */
    if (!S_ISSOCK(file.st_mode))
        return sluice_fail(err, SLUICE_E_INVALID, "%s is there already, and no socket", path);
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    const bool is_stale = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                          errno == ECONNREFUSED;
    close(fd);
    if (!is_stale)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: another process has this socket", path);
    if (unlink(path) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    return SLUICE_OK;
}

static sluice_status bind_and_listen(int fd, const struct sockaddr_un *address, bool is_for_others,
                                     struct sluice_lend_listener *listener, struct sluice_err *err)
{
    sluice_status status = remove_stale(address, err);
    if (status != SLUICE_OK)
        return status;
    const char *path = address->sun_path;
    if (bind(fd, (const struct sockaddr *)address, sizeof(*address)) != 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    struct stat file = {0};
    /* Nobody can connect before listen(). */
    if (chmod(path, is_for_others ? 0666 : 0600) != 0 || lstat(path, &file) != 0 ||
        listen(fd, SLUICE_LEND_SLOTS) != 0) {
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
        unlink(path);
        return status;
    }
    listener->device = file.st_dev;
    listener->inode = file.st_ino;
    return SLUICE_OK;
}

/* The folder of the path, locked, so that of two owners that start at once one finds the other's
 * socket.  -1: it cannot be locked, and bind() says why if that matters. */
static int lock_folder(const char *path)
{
    char folder[PATH_MAX] = ".";
    const char *slash = strrchr(path, '/');
    if (slash)
        memcpy(folder, path, (size_t)(slash - path) + 1);
    folder[slash ? slash - path + 1 : 1] = 0;
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0)
        flock(fd, LOCK_EX);
    return fd;
}

sluice_status sluice_lend_listen(const char *path, bool is_for_others,
                                 struct sluice_lend_listener *listener, struct sluice_err *err)
{
    struct sockaddr_un address;
    sluice_status status = set_address(path, &address, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_lend_listener made = {.path = strdup(path)};
    if (!made.path)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory", path);
    made.fd = open_socket(-1);
    if (made.fd < 0 || fcntl(made.fd, F_SETFL, O_NONBLOCK) != 0) {
        status = sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    } else {
        const int folder = lock_folder(path);
        status = bind_and_listen(made.fd, &address, is_for_others, &made, err);
        if (folder >= 0)
            close(folder);
    }
    if (status == SLUICE_OK)
        *listener = made;
    else
        sluice_lend_listener_close(&made);
    return status;
}

void sluice_lend_unlink(const struct sluice_lend_listener *listener)
{
    struct stat file;
    if (lstat(listener->path, &file) == 0 && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        unlink(listener->path);
}

void sluice_lend_listener_close(struct sluice_lend_listener *listener)
{
    if (listener->fd >= 0)
        sluice_lend_hang_up(listener->fd);
    listener->fd = -1;
    free(listener->path);
    listener->path = NULL;
}

int sluice_lend_accept(const struct sluice_lend_listener *listener)
{
    return open_socket(listener->fd);
}

sluice_status sluice_lend_read_hello(int fd, struct sluice_lend_hello *hello, uid_t *uid,
                                     pid_t *pid, struct sluice_err *err)
{
    uint8_t bytes[SLUICE_LEND_HELLO_BYTES + 1];
    const ssize_t len = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return SLUICE_E_AGAIN;
    if (len <= 0)
        return sluice_fail(err, SLUICE_E_CLOSED, "the borrower hung up");
    struct ucred peer;
    socklen_t peer_len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) != 0)
        return sluice_fail(err, SLUICE_E_IO, "SO_PEERCRED: %s", strerror(errno));
    const sluice_status status = sluice_lend_hello_parse(bytes, (size_t)len, hello, err);
    if (status == SLUICE_OK) {
        *uid = peer.uid;
        *pid = peer.pid;
    }
    return status;
}

/* Room for the descriptor that goes with a message. */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

bool sluice_lend_send_answer(int fd, const struct sluice_lend_answer *answer, int memfd)
{
    struct answer_message message = {{MAGIC, VERSION}, *answer};
    struct iovec part = {&message, sizeof(message)};
    union control control = {.bytes = {0}};
    struct msghdr whole = {.msg_iov = &part, .msg_iovlen = 1};
    if (memfd >= 0) {
        whole.msg_control = control.bytes;
        whole.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *c = CMSG_FIRSTHDR(&whole);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &memfd, sizeof(int));
    }
    return sendmsg(fd, &whole, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof(message);
}

/* --- a borrower --- */

static sluice_status read_answer(int fd, struct sluice_lend_answer *answer, int *memfd,
                                 struct sluice_err *err)
{
    uint8_t bytes[SLUICE_LEND_ANSWER_BYTES + 1];
    struct iovec part = {bytes, sizeof(bytes)};
    union control control = {.bytes = {0}};
    struct msghdr whole = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = sizeof(control.bytes)};
    ssize_t len;
    while ((len = recvmsg(fd, &whole, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    if (len < 0)
        return errno == EAGAIN ? sluice_fail(err, SLUICE_E_IO, "no answer for %d s",
                                             SLUICE_LEND_ANSWER_MS / 1000)
                               : sluice_fail(err, SLUICE_E_IO, "%s", strerror(errno));
    /* The kernel closes those that have no room. */
    const struct cmsghdr *c = CMSG_FIRSTHDR(&whole);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
        c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(memfd, CMSG_DATA(c), sizeof(int));
    if (len == 0)
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "the lender ended just now");
    return sluice_lend_answer_parse(bytes, (size_t)len, answer, err);
}

static sluice_status connect_to(int fd, const char *path, struct sluice_err *err)
{
    struct sockaddr_un address;
    const sluice_status status = set_address(path, &address, err);
    if (status != SLUICE_OK)
        return status;
    const struct timeval most = {SLUICE_LEND_ANSWER_MS / 1000, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return SLUICE_OK;
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
    case ECONNREFUSED:
        return sluice_fail(err, SLUICE_E_NOT_FOUND, "%s: nobody lends a GPU here", path);
    case EACCES:
    case EPERM:
        return sluice_fail(err, SLUICE_E_INVALID, "%s: this user may not connect", path);
    case EPROTOTYPE:
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: the socket of some other program", path);
    default:
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    }
}

sluice_status sluice_lend_connect(const char *path, const struct sluice_lend_hello *hello, int *fd,
                                  struct sluice_lend_page **page, unsigned *slot,
                                  uint32_t *generation, struct sluice_err *err)
{
    const int made = open_socket(-1);
    if (made < 0)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", path, strerror(errno));
    const struct hello_message message = {{MAGIC, VERSION}, *hello};
    struct sluice_lend_answer answer;
    struct sluice_err reason = {{0}};
    int memfd = -1;
    sluice_status status = connect_to(made, path, err);
    if (status == SLUICE_OK &&
        send(made, &message, sizeof(message), MSG_NOSIGNAL) != (ssize_t)sizeof(message))
        status = sluice_fail(&reason, SLUICE_E_NOT_FOUND, "the lender ended just now");
    if (status == SLUICE_OK)
        status = read_answer(made, &answer, &memfd, &reason);
    if (status == SLUICE_OK)
        status = open_page(memfd, page, &reason);
    if (memfd >= 0)
        close(memfd);
    if (status != SLUICE_OK) {
        sluice_lend_hang_up(made);
        return sluice_fail(err, status, "%s: %s", path, reason.text);
    }
    *fd = made;
    *slot = answer.slot;
    *generation = answer.generation;
    return SLUICE_OK;
}

bool sluice_lend_is_hung_up(int fd)
{
    struct pollfd item = {.fd = fd, .events = POLLIN};
    return poll(&item, 1, 0) > 0; /* the owner sends nothing after its answer */
}
