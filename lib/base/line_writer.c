#include "base/line_writer.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/quit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes of lines that wait for a disk with room again. */
#define MAX_WAITING ((size_t)1 << 20)
/* Nanoseconds from one warning to the next. */
#define WARN_EVERY_NS 30000000000u
/* Milliseconds until a wait for a reader looks whether a stop was requested. */
#define LOOK_MS 200

struct sluice_line_writer {
    char *path, *name, *header; /* path NULL: fd is the caller's */
    int fd;                     /* -1: to be opened again */
    char *waiting;              /* MAX_WAITING bytes, of which len are used */
    size_t len;
    bool is_in_line; /* the last byte written is not the end of a line */
    uint64_t num_lost;
    int error; /* of the last write; 0: it was written */
    uint64_t warned_ns;
};

static uint64_t count_lines(const char *text, size_t len)
{
    uint64_t count = 0;
    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count;
}

static void drop_front(struct sluice_line_writer *w, size_t len)
{
    memmove(w->waiting, w->waiting + len, w->len - len);
    w->len -= len;
}

static void add_front(struct sluice_line_writer *w, const char *line)
{
    const size_t len = strlen(line);
    if (w->len + len > MAX_WAITING)
        return;
    memmove(w->waiting + len, w->waiting, w->len);
    memcpy(w->waiting, line, len);
    w->len += len;
}

static bool open_again(struct sluice_line_writer *w)
{
    struct stat st;
    w->fd = open(w->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (w->fd < 0)
        return false;
    /* Another file than before begins with a header and a whole line. */
    if (fstat(w->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0) {
        const char *end = memchr(w->waiting, '\n', w->len);
        if (w->is_in_line && end) {
            drop_front(w, (size_t)(end - w->waiting) + 1);
            w->num_lost++;
        }
        w->is_in_line = false;
        if (w->header && (w->len == 0 || strncmp(w->waiting, w->header, strlen(w->header)) != 0))
            add_front(w, w->header);
    }
    return true;
}

/* Whether the descriptor takes a part of PIPE_BUF bytes without blocking. */
static bool wait_writable(int fd)
{
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        const int ready = poll(&wait, 1, LOOK_MS);
        if (ready > 0 || (ready < 0 && errno != EINTR))
            return true; /* an error is left to the write */
        if (sluice_quit_requested()) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

static bool write_waiting(struct sluice_line_writer *w)
{
    if (w->fd < 0 && !open_again(w))
        return false;
    size_t done = 0;
    bool is_good = true;
    while (is_good && done < w->len) {
        is_good = wait_writable(w->fd);
        if (!is_good)
            break;
        const size_t left = w->len - done;
        const ssize_t put = write(w->fd, w->waiting + done, left < PIPE_BUF ? left : PIPE_BUF);
        if (put < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        is_good = put >= 0;
        done += put > 0 ? (size_t)put : 0;
    }
    const int saved = errno;
    if (done)
        w->is_in_line = w->waiting[done - 1] != '\n';
    drop_front(w, done);
    errno = saved;
    return is_good;
}

void sluice_line_writer_flush(struct sluice_line_writer *writer)
{
    struct sluice_line_writer *w = writer;
    if (w->len == 0)
        return;
    if (write_waiting(w)) {
        if (w->error)
            sluice_log(SLUICE_LOG_INFO, "%s can be written again", w->name);
        w->error = 0;
        return;
    }
    w->error = errno;
    if (w->path && w->fd >= 0) {
        close(w->fd);
        w->fd = -1;
    }
    const uint64_t now = sluice_clock_ns();
    if (w->warned_ns != 0 && now - w->warned_ns < WARN_EVERY_NS)
        return;
    w->warned_ns = now;
    sluice_log(SLUICE_LOG_WARN, "cannot write %s: %s; %llu lines wait, and %llu are lost", w->name,
               strerror(w->error), (unsigned long long)count_lines(w->waiting, w->len),
               (unsigned long long)w->num_lost);
}

void sluice_line_writer_add(struct sluice_line_writer *writer, const char *lines)
{
    const size_t len = strlen(lines);
    if (writer->len + len > MAX_WAITING)
        sluice_line_writer_flush(writer);
    if (writer->len + len > MAX_WAITING) {
        writer->num_lost += count_lines(lines, len);
        return;
    }
    memcpy(writer->waiting + writer->len, lines, len);
    writer->len += len;
}

uint64_t sluice_line_writer_waiting(const struct sluice_line_writer *writer)
{
    return writer->len;
}

static void destroy(struct sluice_line_writer *w)
{
    free(w->path);
    free(w->name);
    free(w->header);
    free(w->waiting);
    free(w);
}

sluice_status sluice_line_writer_open(const char *path, int fd, const char *name,
                                      const char *header, struct sluice_line_writer **writer,
                                      struct sluice_err *err)
{
    struct sluice_line_writer *w = calloc(1, sizeof(*w));
    if (!w)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write %s", name);
    w->path = path ? strdup(path) : NULL;
    w->name = strdup(name);
    w->header = header ? strdup(header) : NULL;
    w->waiting = malloc(MAX_WAITING);
    if ((path && !w->path) || !w->name || (header && !w->header) || !w->waiting) {
        destroy(w);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write %s", name);
    }
    w->fd = path ? open(path, O_WRONLY | O_TRUNC | O_APPEND | O_CREAT | O_CLOEXEC, 0666) : fd;
    if (w->fd < 0) {
        const int error = errno;
        destroy(w);
        return sluice_fail(err, SLUICE_E_IO, "cannot write %s: %s", name, strerror(error));
    }
    if (header)
        add_front(w, header);
    *writer = w;
    return SLUICE_OK;
}

sluice_status sluice_line_writer_close(struct sluice_line_writer *writer, struct sluice_err *err)
{
    if (!writer)
        return SLUICE_OK;
    sluice_line_writer_flush(writer);
    if (writer->path && writer->fd >= 0 && close(writer->fd) != 0 && !writer->error)
        writer->error = errno;
    writer->num_lost += count_lines(writer->waiting, writer->len);
    sluice_status status = SLUICE_OK;
    if (writer->num_lost > 0 || writer->error)
        status =
            sluice_fail(err, SLUICE_E_IO, "cannot write %s: %s; %llu lines are missing",
                        writer->name, writer->error ? strerror(writer->error) : "there was no room",
                        (unsigned long long)writer->num_lost);
    destroy(writer);
    return status;
}
