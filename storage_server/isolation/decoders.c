#include "storage_server/isolation/decoders.h"

#include "base/buf.h"
#include "base/c_locale.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/pass_fds.h"
#include "image/codecs/codec.h"
#include "storage_server/tuning.h"
#include "storage_server/work/prep_limits.h"
#include "storage_server/work/suspects.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

struct sluice_decoders {
    pthread_mutex_t fork_lock; /* while the fork server is asked; taken alone, as the next one is */
    int control;               /* -1: it is gone */
    void (*on_gone)(void *ctx);
    void *gone_ctx;

    pthread_mutex_t lock; /* of the rest */
    struct sluice_suspects suspects;
    struct sluice_decoder_counts counts;
    uint64_t logged_ns, unlogged;

    pid_t forks; /* constant */
};

struct sluice_decoder {
    struct sluice_decoder_options options;
    size_t region_bytes;
    pid_t pid; /* 0: no process; then only the last two fields below are valid */
    int socket;
    uint8_t *region;
    clockid_t clock;   /* its CPU time */
    uint64_t cpu_ns;   /* that was counted */
    uint64_t number;   /* of the last request */
    unsigned failures; /* decoders that ended since the last sample that went well */
    uint64_t next_ns;  /* no other decoder until then */
};

static const char *const end_names[SLUICE_NUM_DECODER_ENDS] = {
    [SLUICE_DECODER_CRASHED] = "crashed",
    [SLUICE_DECODER_KILLED] = "was killed",
    [SLUICE_DECODER_HUNG] = "hung",
    [SLUICE_DECODER_LIED] = "sent what cannot be",
};

/* --- the fork server --- */

static void set_timeout(int socket, uint64_t ns)
{
    const struct timeval time = {.tv_sec = (time_t)(ns / 1000000000u),
                                 .tv_usec = (suseconds_t)(ns % 1000000000u / 1000) + 1};
    (void)setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
}

sluice_status sluice_decoders_create(int control, pid_t forks, struct sluice_decoders **out,
                                     struct sluice_err *err)
{
    struct sluice_decoders *decoders = calloc(1, sizeof(*decoders));
    if (!decoders) {
        close(control);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for decoders");
    }
    pthread_mutex_init(&decoders->fork_lock, NULL);
    pthread_mutex_init(&decoders->lock, NULL);
    decoders->control = control;
    decoders->forks = forks;
    set_timeout(control, DECODER_FORK_S * UINT64_C(1000000000));
    *out = decoders;
    return SLUICE_OK;
}

void sluice_decoders_on_gone(struct sluice_decoders *decoders, void (*on_gone)(void *ctx),
                             void *ctx)
{
    decoders->on_gone = on_gone;
    decoders->gone_ctx = ctx;
}

void sluice_decoders_close(struct sluice_decoders *decoders)
{
    if (!decoders)
        return;
    if (decoders->control >= 0)
        close(decoders->control);
    while (waitpid(decoders->forks, NULL, 0) < 0 && errno == EINTR)
        ;
    pthread_mutex_destroy(&decoders->fork_lock);
    pthread_mutex_destroy(&decoders->lock);
    free(decoders);
}

/* Under its lock: the reply to a request; `fds` those of START.  False: it is gone. */
static bool ask_locked(struct sluice_decoders *decoders, const struct sluice_fork_request *request,
                       struct sluice_fork_reply *reply, int fds[2])
{
    if (decoders->control < 0)
        return false;
    const struct iovec part = {reply, sizeof(*reply)};
    const bool is_start = request->what == SLUICE_FORK_START;
    ssize_t got = -1;
    if (send(decoders->control, request, sizeof(*request), MSG_NOSIGNAL) ==
        (ssize_t)sizeof(*request)) {
        do {
            got = sluice_receive_fds(decoders->control, &part, 1, fds, is_start ? 2 : 0, 0);
        } while (got < 0 && errno == EINTR);
    }
    if (got == (ssize_t)sizeof(*reply) && (!is_start || reply->error || fds[0] >= 0))
        return true;
    sluice_log(SLUICE_LOG_ERROR, "the process that starts decoders is gone, and they with it");
    close(decoders->control);
    decoders->control = -1;
    return false;
}

static bool ask(struct sluice_decoders *decoders, const struct sluice_fork_request *request,
                struct sluice_fork_reply *reply, int fds[2])
{
    pthread_mutex_lock(&decoders->fork_lock);
    const bool was_there = decoders->control >= 0;
    const bool is_answered = ask_locked(decoders, request, reply, fds);
    pthread_mutex_unlock(&decoders->fork_lock);
    if (was_there && !is_answered && decoders->on_gone)
        decoders->on_gone(decoders->gone_ctx);
    return is_answered;
}

/* --- a decoder comes and goes --- */

static void count_running(struct sluice_decoders *decoders, int more)
{
    pthread_mutex_lock(&decoders->lock);
    decoders->counts.running += (uint64_t)more; /* modulo 2^64 */
    pthread_mutex_unlock(&decoders->lock);
}

struct sluice_decoder_limits sluice_decoder_limits_for(uint64_t max_image_pixels,
                                                       uint64_t max_file_bytes, uint64_t live_bytes)
{
    const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    const uint64_t in = max_file_bytes + SLUICE_BUF_SLACK + DECODER_INDEX_BYTES;
    const uint64_t out = DECODER_OUT_BYTES + SLUICE_BUF_SLACK;
    const uint64_t work = max_image_pixels * DECODER_BYTES_PER_PIXEL;
    return (struct sluice_decoder_limits){
        .max_image_pixels = max_image_pixels,
        .in_room = (in + page - 1) / page * page,
        .out_room = (out + page - 1) / page * page,
        .memory_bytes = DECODER_BASE_BYTES + (work < live_bytes ? work : live_bytes),
        .live_bytes = live_bytes,
        .cached_bytes = DECODER_CACHED_BYTES < live_bytes ? DECODER_CACHED_BYTES : live_bytes,
    };
}

static uint64_t read_clock(clockid_t clock)
{
    struct timespec time;
    if (clock_gettime(clock, &time) != 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

/* CPU time that it used since the last call counts for the calling thread. */
static void count_cpu(struct sluice_decoder *d)
{
    const uint64_t now_ns = read_clock(d->clock);
    if (now_ns > d->cpu_ns) {
        sluice_clock_add_cpu_ns(now_ns - d->cpu_ns);
        d->cpu_ns = now_ns;
    }
}

/* Lets go of the decoder, and ends it.  Returns as waitpid(); -1: not known. */
static int end_decoder(struct sluice_decoder *d)
{
    struct sluice_decoders *decoders = d->options.decoders;
    const struct sluice_fork_request request = {.what = SLUICE_FORK_END, .pid = d->pid};
    struct sluice_fork_reply reply = {0};
    count_cpu(d);
    const bool is_answered = ask(decoders, &request, &reply, NULL);
    count_running(decoders, -1);
    close(d->socket);
    if (d->region)
        munmap(d->region, d->region_bytes);
    d->region = NULL;
    d->pid = 0;
    return is_answered && !reply.error ? reply.wait_status : -1;
}

static sluice_status start_decoder(struct sluice_decoder *d, struct sluice_err *err)
{
    struct sluice_decoders *decoders = d->options.decoders;
    const struct sluice_fork_request request = {.what = SLUICE_FORK_START,
                                                .limits = d->options.limits};
    struct sluice_fork_reply reply = {0};
    int fds[2] = {-1, -1};
    if (!ask(decoders, &request, &reply, fds))
        return sluice_fail(err, SLUICE_E_IO, "the process that starts decoders is gone");
    if (reply.error)
        return sluice_fail(err, SLUICE_E_IO, "cannot start a decoder: %s", strerror(reply.error));
    uint8_t *region = mmap(NULL, d->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
    const int error = errno;
    close(fds[0]);
    count_running(decoders, 1);
    d->pid = reply.pid;
    d->socket = fds[1];
    d->region = region == MAP_FAILED ? NULL : region;
    d->cpu_ns = 0;
    if (clock_getcpuclockid(d->pid, &d->clock) != 0)
        d->clock = (clockid_t)-1; /* no such clock: it counts as nothing */
    if (!d->region) {
        (void)end_decoder(d);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a decoder: %s", strerror(error));
    }
    set_timeout(d->socket, d->options.timeout_ns);
    const sluice_status status = sluice_prep_limits_enter_decoder(d->options.worker, d->pid, err);
    if (status != SLUICE_OK)
        (void)end_decoder(d);
    return status;
}

static const char *signal_name(int number)
{
    static const struct {
        int number;
        const char *name;
    } names[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},  {SIGABRT, "SIGABRT"},
                 {SIGILL, "SIGILL"},   {SIGFPE, "SIGFPE"},  {SIGSYS, "SIGSYS"},
                 {SIGKILL, "SIGKILL"}, {SIGTRAP, "SIGTRAP"}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(names); i++) {
        if (names[i].number == number)
            return names[i].name;
    }
    return "a signal";
}

/* How it ended, in words, if by itself. */
static enum sluice_decoder_end describe(int wait_status, char *text, size_t room)
{
    if (wait_status >= 0 && WIFSIGNALED(wait_status)) {
        const int number = WTERMSIG(wait_status);
        snprintf(text, room, "the decoder died of %s", signal_name(number));
        return number == SIGKILL ? SLUICE_DECODER_KILLED : SLUICE_DECODER_CRASHED;
    }
    if (wait_status >= 0)
        snprintf(text, room, "the decoder exited with code %d", WEXITSTATUS(wait_status));
    else
        snprintf(text, room, "the decoder is gone");
    return SLUICE_DECODER_CRASHED;
}

/* --- a sample --- */

/* Whether the decoder, which lives, had a CPU for long enough to be said to hang at its request. */
static bool has_worked(const struct sluice_decoder *d)
{
    const uint64_t used_ns = read_clock(d->clock) - d->cpu_ns;
    return d->clock == (clockid_t)-1 ||
           (double)used_ns >= (double)d->options.timeout_ns * DECODER_HANG_CPU_SHARE;
}

/* The decoder has ended, or is ended, at this sample.  `why`, if it is known already. */
static sluice_status fail_sample(struct sluice_decoder *d, struct sluice_decoder_work *work,
                                 enum sluice_decoder_end how, const char *why,
                                 struct sluice_err *err)
{
    struct sluice_decoders *decoders = d->options.decoders;
    char text[160];
    work->has_ended = true;
    const bool is_its_fault = how != SLUICE_DECODER_HUNG || has_worked(d);
    const int wait_status = end_decoder(d);
    if (why)
        snprintf(text, sizeof(text), "%s", why);
    else
        how = describe(wait_status, text, sizeof(text));
    const uint64_t now_ns = sluice_clock_ns();
    pthread_mutex_lock(&decoders->lock);
    decoders->counts.ends[how]++;
    const unsigned deaths =
        is_its_fault ? sluice_suspects_add(&decoders->suspects, work->path, now_ns) : 0;
    const bool is_logged = !decoders->logged_ns || now_ns - decoders->logged_ns >= DECODER_LOG_NS;
    const uint64_t unlogged = decoders->unlogged;
    if (is_logged) {
        decoders->logged_ns = now_ns;
        decoders->unlogged = 0;
    } else {
        decoders->unlogged++;
    }
    pthread_mutex_unlock(&decoders->lock);
    if (is_logged) {
        char more[64] = "";
        if (unlogged)
            snprintf(more, sizeof(more), "; %llu more since the last such line",
                     (unsigned long long)unlogged);
        sluice_log(SLUICE_LOG_ERROR, "a decoder %s at %.200s: %s%s", end_names[how], work->path,
                   text, more);
    }
    d->failures++;
    if (d->failures > 1) {
        const unsigned doublings = d->failures < 12 ? d->failures - 2 : 10;
        const uint64_t wait_ns = (uint64_t)DECODER_FIRST_WAIT_NS << doublings;
        d->next_ns = now_ns + (wait_ns < DECODER_MOST_WAIT_NS ? wait_ns : DECODER_MOST_WAIT_NS);
    }
    if (deaths >= SUSPECTS_DEATHS)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s; %u ended at this sample", text, deaths);
    return sluice_fail(err, SLUICE_E_IO, "%s", text);
}

static sluice_status miss(struct sluice_decoder *d, struct sluice_err *err)
{
    struct sluice_decoders *decoders = d->options.decoders;
    pthread_mutex_lock(&decoders->lock);
    decoders->counts.missed++;
    pthread_mutex_unlock(&decoders->lock);
    return sluice_fail(err, SLUICE_E_AGAIN, "there is no decoder now");
}

/* False: it is left out. */
static bool put_index(struct sluice_decoder *d, const struct sluice_jpeg_index *index,
                      struct sluice_decoder_request *request)
{
    if (!sluice_decoder_place_index(index, request->file_len, (size_t)d->options.limits.in_room,
                                    &request->points_at, &request->rows_at))
        return false;
    memcpy(d->region + request->points_at, index->points,
           (size_t)index->mcus_down * index->points_across * sizeof(*index->points));
    memcpy(d->region + request->rows_at, index->row_hashes,
           index->mcus_down * sizeof(*index->row_hashes));
    request->has_index = true;
    request->index = *index;
    request->index.points = NULL;
    request->index.row_hashes = NULL;
    return true;
}

static sluice_status make_request(struct sluice_decoder *d, const struct sluice_pipeline *pipeline,
                                  const struct sluice_decoder_work *work,
                                  const struct sluice_sample *sample,
                                  struct sluice_decoder_request *request, struct sluice_err *err)
{
    const struct sluice_buf *file = sample->data;
    const char *spec = sluice_pipeline_spec(pipeline);
    const size_t spec_len = strlen(spec);
    if (sample->kind != SLUICE_KIND_FILE || sample->ops_done > 0)
        return sluice_fail(err, SLUICE_E_INVALID, "a decoder begins with a file");
    if (file->len > d->options.limits.in_room - SLUICE_BUF_SLACK)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a file of %zu bytes", file->len);
    if (spec_len >= sizeof(request->spec))
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "a pipeline of %zu characters", spec_len);
    request->number = ++d->number;
    request->form = work->form;
    request->end = work->end;
    request->reads_image = work->reads_image;
    request->options = work->options;
    request->key = sample->key;
    request->file_len = file->len;
    request->has_index = false;
    memcpy(request->spec, spec, spec_len + 1);
    if (sample->jpeg_index && !put_index(d, sample->jpeg_index, request) &&
        sample->jpeg_index->is_partial)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "an index too large for a decoder");
    memcpy(d->region, file->data, file->len);
    return SLUICE_OK;
}

/* Copies the result out of the region, where the decoder may still change it: what was checked are
 * its sizes, and whatever its bytes are they are pixels, or for the client to check. */
static sluice_status take_result(struct sluice_decoder *d, const struct sluice_decoder_reply *reply,
                                 enum sluice_form form, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    struct sluice_buf *data = NULL;
    const sluice_status status =
        sluice_buf_create(d->options.buffers, (size_t)reply->len, &data, err);
    if (status != SLUICE_OK)
        return status;
    memcpy(data->data, d->region + d->options.limits.in_room, (size_t)reply->len);
    data->len = (size_t)reply->len;
    sluice_buf_unref(sample->data);
    sample->data = data;
    sample->ops_done = reply->ops_done;
    sample->kind = (enum sluice_kind)reply->kind;
    sample->width = reply->width;
    sample->height = reply->height;
    sample->channels = sample->kind == SLUICE_KIND_FILE ? 0 : 3;
    sample->coding = reply->is_coded ? sluice_form_coding(form) : NULL;
    sample->image = reply->image;
    return SLUICE_OK;
}

/* Decoders that ended at the sample of late. */
static unsigned deaths_at(struct sluice_decoders *decoders, const char *path)
{
    const uint64_t now_ns = sluice_clock_ns();
    pthread_mutex_lock(&decoders->lock);
    const unsigned deaths = sluice_suspects_deaths(&decoders->suspects, path, now_ns);
    pthread_mutex_unlock(&decoders->lock);
    return deaths;
}

/* True: there is a decoder. */
static bool have_decoder(struct sluice_decoder *d)
{
    struct sluice_err err = {0};
    if (d->pid)
        return true;
    if (sluice_clock_ns() < d->next_ns)
        return false;
    if (start_decoder(d, &err) == SLUICE_OK)
        return true;
    sluice_log(SLUICE_LOG_DEBUG, "%s", err.text);
    d->next_ns = sluice_clock_ns() + DECODER_MOST_WAIT_NS;
    return false;
}

/* The reply of the decoder, or how it failed. */
static sluice_status exchange(struct sluice_decoder *d, const struct sluice_pipeline *pipeline,
                              struct sluice_decoder_work *work,
                              const struct sluice_decoder_request *request,
                              struct sluice_decoder_reply *reply, struct sluice_err *err)
{
    char bytes[sizeof(*reply) + 1], why[160];
    if (send(d->socket, request, sizeof(*request), MSG_NOSIGNAL) != (ssize_t)sizeof(*request))
        return fail_sample(d, work, SLUICE_DECODER_CRASHED, NULL, err);
    ssize_t got;
    do {
        got = recv(d->socket, bytes, sizeof(bytes), 0);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        sluice_snprintf(why, sizeof(why), "the decoder did not answer within %.3g s",
                        (double)d->options.timeout_ns * 1e-9);
        return fail_sample(d, work, SLUICE_DECODER_HUNG, why, err);
    }
    if (got <= 0)
        return fail_sample(d, work, SLUICE_DECODER_CRASHED, NULL, err);
    count_cpu(d);
    struct sluice_err lie = {0};
    if (sluice_decoder_reply_read(bytes, (size_t)got, request, pipeline, &d->options.limits, reply,
                                  &lie) != SLUICE_OK) {
        snprintf(why, sizeof(why), "the decoder's answer cannot be: %.100s", lie.text);
        return fail_sample(d, work, SLUICE_DECODER_LIED, why, err);
    }
    return SLUICE_OK;
}

sluice_status sluice_decoder_run(struct sluice_decoder *d, const struct sluice_pipeline *pipeline,
                                 struct sluice_decoder_work *work, struct sluice_sample *sample,
                                 struct sluice_err *err)
{
    const unsigned deaths = deaths_at(d->options.decoders, work->path);
    work->has_ended = deaths > 0;
    if (deaths >= SUSPECTS_DEATHS)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%u decoders ended at this sample", deaths);
    if (!have_decoder(d))
        return deaths
                   ? sluice_fail(err, SLUICE_E_IO, "a decoder ended at it, and there is none now")
                   : miss(d, err);
    work->has_ended = false;
    struct sluice_decoder_request request = {.number = 0};
    struct sluice_decoder_reply reply = {.number = 0};
    sluice_status status = make_request(d, pipeline, work, sample, &request, err);
    if (status == SLUICE_OK)
        status = exchange(d, pipeline, work, &request, &reply, err);
    if (status != SLUICE_OK)
        return status;
    d->failures = 0;
    if (reply.status != SLUICE_OK)
        status = sluice_fail(err, (sluice_status)reply.status, "%s", reply.text);
    if (reply.is_changed) {
        const sluice_status taken = take_result(d, &reply, work->form, sample, err);
        if (taken != SLUICE_OK)
            status = taken;
    }
    if (reply.status == SLUICE_E_NO_MEMORY) /* perhaps for good: the next one begins anew */
        (void)end_decoder(d);
    else if (request.file_len + reply.len > DECODER_KEPT_BYTES)
        (void)madvise(d->region, d->region_bytes, MADV_REMOVE);
    return status;
}

/* A picture of our own, so that a decoder that can do nothing here is found at the start. */
static sluice_status try_decoder(struct sluice_decoder *d, struct sluice_err *err)
{
    static const uint8_t pixels[16 * 16 * 3];
    static const struct sluice_jpeg_encode_options plain;
    struct sluice_decoder_work work = {.end = 1, .path = "a picture of the server's own"};
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_sample sample = {.kind = SLUICE_KIND_FILE};
    sluice_status status = sluice_pipeline_parse("decode", &pipeline, err);
    if (status == SLUICE_OK)
        status = sluice_jpeg_encode(pixels, 16, 16, &plain, &sample.data, err);
    if (status == SLUICE_OK)
        status = sluice_decoder_run(d, pipeline, &work, &sample, err);
    sluice_sample_clear(&sample);
    sluice_pipeline_destroy(pipeline);
    return status;
}

sluice_status sluice_decoder_create(const struct sluice_decoder_options *options,
                                    struct sluice_decoder **out, struct sluice_err *err)
{
    struct sluice_decoder *d = calloc(1, sizeof(*d));
    if (!d)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a decoder");
    d->options = *options;
    d->region_bytes = (size_t)(options->limits.in_room + options->limits.out_room);
    sluice_status status = start_decoder(d, err);
    if (status == SLUICE_OK)
        status = try_decoder(d, err);
    if (status != SLUICE_OK) {
        sluice_decoder_destroy(d);
        return status;
    }
    *out = d;
    return SLUICE_OK;
}

void sluice_decoder_destroy(struct sluice_decoder *d)
{
    if (!d)
        return;
    if (d->pid)
        (void)end_decoder(d);
    free(d);
}

pid_t sluice_decoder_pid(const struct sluice_decoder *d)
{
    return d->pid;
}

struct sluice_decoder_counts sluice_decoders_count(struct sluice_decoders *decoders)
{
    pthread_mutex_lock(&decoders->lock);
    const struct sluice_decoder_counts counts = decoders->counts;
    pthread_mutex_unlock(&decoders->lock);
    return counts;
}
