#include "storage_server/observe/last_words.h"

#include "base/cond.h"
#include "storage_server/side_thread.h"
#include "storage_server/tuning.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

struct sluice_last_words {
    pthread_mutex_t lock;
    uint64_t deadline_ns; /* UINT64_MAX: none yet; `thread.changed` */

    int (*speak)(void *ctx); /* constant from here */
    void *ctx;
    struct sluice_side_thread thread;
};

static void *wait_main(void *ctx)
{
    struct sluice_last_words *words = ctx;
    pthread_setname_np(pthread_self(), "last-words");
    pthread_mutex_lock(&words->lock);
    bool has_time = true;
    while (!words->thread.is_stopping && has_time)
        has_time = sluice_cond_wait_until(&words->thread.changed, &words->lock, words->deadline_ns);
    pthread_mutex_unlock(&words->lock);
    if (words->thread.is_stopping)
        return NULL;
    signal(SIGALRM, SIG_DFL);
    const struct itimerval limit = {.it_value.tv_usec = LAST_WORDS_NS / 1000};
    (void)setitimer(ITIMER_REAL, &limit, NULL);
    _exit(words->speak(words->ctx));
}

sluice_status sluice_last_words_open(int (*speak)(void *ctx), void *ctx,
                                     struct sluice_last_words **out, struct sluice_err *err)
{
    struct sluice_last_words *words = malloc(sizeof(*words));
    if (!words)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the deadline of the end");
    *words = (struct sluice_last_words){.deadline_ns = UINT64_MAX, .speak = speak, .ctx = ctx};
    pthread_mutex_init(&words->lock, NULL);
    const sluice_status status = sluice_side_thread_open(
        &words->thread, &words->lock, wait_main, words, "the thread that ends the process", err);
    if (status == SLUICE_OK)
        *out = words;
    else
        sluice_last_words_close(words);
    return status;
}

void sluice_last_words_close(struct sluice_last_words *words)
{
    if (!words)
        return;
    sluice_side_thread_clear(&words->thread);
    pthread_mutex_destroy(&words->lock);
    free(words);
}

void sluice_last_words_at(struct sluice_last_words *words, uint64_t deadline_ns)
{
    pthread_mutex_lock(&words->lock);
    if (deadline_ns < words->deadline_ns)
        words->deadline_ns = deadline_ns;
    pthread_cond_signal(&words->thread.changed);
    pthread_mutex_unlock(&words->lock);
}

static bool write_now(int fd, const char *text, size_t left)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    /* A pipe that is ready takes PIPE_BUF bytes without waiting. */
    while (left > 0 && poll(&ready, 1, 0) == 1 && ready.revents == POLLOUT) {
        const ssize_t put = write(fd, text, left < PIPE_BUF ? left : PIPE_BUF);
        if (put < 0 && errno != EINTR)
            return false;
        if (put > 0) {
            text += put;
            left -= (size_t)put;
        }
    }
    return left == 0;
}

bool sluice_write_line_now(int fd, const char *text)
{
    return write_now(fd, text, strlen(text)) && write_now(fd, "\n", 1);
}
