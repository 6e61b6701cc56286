#include "storage_server/isolation/decoder_process.h"

#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "base/worker_pool.h"
#include "host/pass_fds.h"
#include "image/codecs/codec.h"
#include "op/geometry.h"
#include "storage_server/isolation/decoders.h"
#include "storage_server/isolation/landlock.h"
#include "storage_server/isolation/syscall_filter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER true /* their shadow is memory, and they write to stderr */
#else
#define HAS_SANITIZER false
#endif

/* --- a decoder --- */

/* Pipelines of the clients that take turns. */
#define NUM_PIPELINES 4

struct decoder {
    const struct sluice_decoder_limits *limits;
    uint8_t *region;
    struct sluice_buf_pool *pool;
    struct sluice_scratch *scratch;
    struct sluice_pipeline *pipelines[NUM_PIPELINES];
    unsigned next_pipeline;
};

static sluice_status find_pipeline(struct decoder *d, const char *spec,
                                   const struct sluice_pipeline **found, struct sluice_err *err)
{
    for (size_t i = 0; i < NUM_PIPELINES; i++) {
        if (d->pipelines[i] && strcmp(sluice_pipeline_spec(d->pipelines[i]), spec) == 0) {
            *found = d->pipelines[i];
            return SLUICE_OK;
        }
    }
    struct sluice_pipeline *pipeline;
    const sluice_status status = sluice_pipeline_parse(spec, &pipeline, err);
    if (status != SLUICE_OK)
        return status;
    sluice_pipeline_destroy(d->pipelines[d->next_pipeline]);
    d->pipelines[d->next_pipeline] = pipeline;
    d->next_pipeline = (d->next_pipeline + 1) % NUM_PIPELINES;
    *found = pipeline;
    return SLUICE_OK;
}

/* A copy of the index, whose arrays are in the region.  NULL: no memory. */
static struct sluice_jpeg_index *copy_index(const struct decoder *d,
                                            const struct sluice_decoder_request *request)
{
    const size_t num_points = (size_t)request->index.mcus_down * request->index.points_across;
    struct sluice_jpeg_index *index = malloc(sizeof(*index));
    if (!index)
        return NULL;
    *index = request->index;
    index->points = malloc(num_points * sizeof(*index->points));
    index->row_hashes = malloc(request->index.mcus_down * sizeof(*index->row_hashes));
    if (!index->points || !index->row_hashes) {
        sluice_jpeg_index_destroy(index);
        return NULL;
    }
    memcpy(index->points, d->region + request->points_at, num_points * sizeof(*index->points));
    memcpy(index->row_hashes, d->region + request->rows_at,
           request->index.mcus_down * sizeof(*index->row_hashes));
    return index;
}

/* Runs ops to the last pixels, whose size is known, straight into the region: one copy less.
 * False: they do not end there. */
static bool run_into_region(struct decoder *d, const struct sluice_pipeline *pipeline,
                            const struct sluice_decoder_request *request,
                            struct sluice_sample *sample, struct sluice_decoder_reply *reply,
                            struct sluice_err *err)
{
    const size_t len = sluice_pipeline_u8_bytes(pipeline);
    if (request->end != sluice_pipeline_u8_split(pipeline) || len == 0 || len > d->limits->out_room)
        return false;
    const struct sluice_size size = sluice_pipeline_view_size(pipeline, 0);
    const sluice_status status = sluice_pipeline_finish_u8(
        pipeline, d->scratch, sample, d->region + d->limits->in_room, len, err);
    reply->status = status;
    if (status != SLUICE_OK)
        return true;
    reply->is_changed = 1;
    reply->ops_done = request->end;
    reply->kind = SLUICE_KIND_U8;
    reply->width = size.width;
    reply->height = size.height;
    reply->len = len;
    return true;
}

static void put_result(struct decoder *d, const struct sluice_sample *sample,
                       struct sluice_decoder_reply *reply, struct sluice_err *err)
{
    const struct sluice_buf *data = sample->data;
    if (data->len > d->limits->out_room) {
        reply->status = sluice_fail(err, SLUICE_E_AGAIN,
                                    "a result of %zu bytes is larger than a message", data->len);
        return;
    }
    reply->is_changed = 1;
    reply->ops_done = sample->ops_done;
    reply->kind = sample->kind;
    reply->width = sample->width;
    reply->height = sample->height;
    reply->is_coded = sample->coding != NULL;
    reply->len = data->len;
    memcpy(d->region + d->limits->in_room, data->data, data->len);
}

static void run_task(struct decoder *d, const struct sluice_decoder_request *request,
                     struct sluice_sample *sample, struct sluice_decoder_reply *reply,
                     struct sluice_err *err)
{
    const struct sluice_pipeline *pipeline;
    const struct sluice_buf *file = sample->data;
    sluice_status status = find_pipeline(d, request->spec, &pipeline, err);
    if (status == SLUICE_OK && request->has_index && !(sample->jpeg_index = copy_index(d, request)))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the index of a file");
    if (status != SLUICE_OK) {
        reply->status = status;
        return;
    }
    if (request->reads_image)
        status = sluice_file_image_read(pipeline, sample, &reply->image, err);
    if (status != SLUICE_OK) {
        reply->status = status;
        return;
    }
    const bool is_plain = sluice_form_type(request->form)->is_plain;
    if (is_plain && run_into_region(d, pipeline, request, sample, reply, err))
        return;
    status = sluice_sample_encode(pipeline, d->scratch, sample, request->end, request->form,
                                  &request->options, err);
    reply->status = status;
    /* Where coding saves nothing the plain form may be there all the same. */
    const bool is_result =
        status == SLUICE_OK || (status == SLUICE_E_AGAIN && sample->ops_done == request->end);
    if (is_result && sample->data != file)
        put_result(d, sample, reply, err);
}

static void answer(struct decoder *d, const struct sluice_decoder_request *request,
                   struct sluice_decoder_reply *reply)
{
    struct sluice_buf file;
    sluice_buf_lend(&file, d->region, (size_t)request->file_len);
    struct sluice_sample sample = {
        .key = request->key,
        .kind = SLUICE_KIND_FILE,
        .data = sluice_buf_ref(&file),
    };
    struct sluice_err err = {0};
    *reply = (struct sluice_decoder_reply){.number = request->number};
    run_task(d, request, &sample, reply, &err);
    (void)sluice_print(reply->text, sizeof(reply->text), "%.190s", err.text);
    sluice_sample_clear(&sample);
}

static sluice_status open_decoder(struct decoder *d)
{
    sluice_status status = sluice_buf_pool_create((size_t)d->limits->cached_bytes, &d->pool, NULL);
    if (status != SLUICE_OK)
        return status;
    sluice_buf_pool_limit(d->pool, (size_t)d->limits->live_bytes);
    const struct sluice_scratch_options scratch = {
        .pool = d->pool,
        .max_image_pixels = d->limits->max_image_pixels,
    };
    return sluice_scratch_create(&scratch, &d->scratch, NULL);
}

void sluice_decoder_process_serve(int socket, uint8_t *region,
                                  const struct sluice_decoder_limits *limits)
{
    struct decoder d = {.limits = limits, .region = region};
    if (open_decoder(&d) != SLUICE_OK ||
        (sluice_syscall_filter_is_possible() &&
         sluice_syscall_filter_install_decoder(socket, NULL) != SLUICE_OK))
        return;
    static struct sluice_decoder_request request;
    struct sluice_decoder_reply reply;
    while (read(socket, &request, sizeof(request)) == (ssize_t)sizeof(request)) {
        answer(&d, &request, &reply);
        if (write(socket, &reply, sizeof(reply)) != (ssize_t)sizeof(reply))
            return;
    }
}

/* --- the fork server --- */

/* Decoders at once: a worker each, and those that stand in for them. */
#define MAX_DECODERS 2048

struct fork_server {
    int control;
    sluice_decoder_serve_fn *serve;
    uint64_t own_data; /* bytes that count as allocated by a decoder that has just begun */
    pid_t pids[MAX_DECODERS];
    size_t num_pids;
};

static uint64_t read_own_data(void)
{
    unsigned long long data = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file) {
        if (fscanf(file, "%*u %*u %*u %*u %*u %llu", &data) != 1)
            data = 0;
        fclose(file);
    }
    return (uint64_t)data * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Half of the scale: before the server and whoever has not asked for it. */
static void volunteer_for_oom(void)
{
    const int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    const ssize_t put = write(fd, "500", 3);
    (void)put;
    close(fd);
}

/* State that the libraries build once is built before the fork, so that all decoders share it. */
static void warm_up(void)
{
    static const uint8_t pixels[32 * 32 * 3];
    static const struct sluice_jpeg_encode_options plain;
    static const char spec[] = "decode,random_resized_crop=16,hflip=1,to_tensor,normalize=imagenet";
    struct sluice_pipeline *pipeline = NULL;
    struct sluice_scratch *scratch = NULL;
    struct sluice_buf *files[2] = {NULL};
    if (sluice_pipeline_parse(spec, &pipeline, NULL) == SLUICE_OK &&
        sluice_scratch_create(NULL, &scratch, NULL) == SLUICE_OK &&
        sluice_jpeg_encode(pixels, 32, 32, &plain, &files[0], NULL) == SLUICE_OK &&
        sluice_png_encode(pixels, 32, 32, 1, &files[1], NULL) == SLUICE_OK) {
        for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++) {
            struct sluice_sample sample = {.kind = SLUICE_KIND_FILE,
                                           .data = sluice_buf_ref(files[i])};
            (void)!sluice_pipeline_run(pipeline, scratch, &sample, 5, NULL);
            sluice_sample_clear(&sample);
            sample =
                (struct sluice_sample){.kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(files[i])};
            (void)!sluice_pipeline_pack(pipeline, scratch, &sample, 2, NULL);
            sluice_sample_clear(&sample);
        }
    }
    sluice_buf_unref(files[0]);
    sluice_buf_unref(files[1]);
    sluice_scratch_destroy(scratch);
    sluice_pipeline_destroy(pipeline);
}

/* Makes `fd` descriptor 0, and closes all others. */
static void keep_only(int fd)
{
    if (fd != 0)
        (void)dup2(fd, 0);
    if (HAS_SANITIZER)
        close(1);
    const unsigned first = HAS_SANITIZER ? 3 : 1;
    if (close_range(first, ~0u, 0) != 0) {
        for (int other = (int)first; other < 1024; other++)
            close(other);
    }
}

static void ignore_signals(void)
{
    static const int asked[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE};
    signal(SIGCHLD, SIG_DFL);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(asked); i++)
        signal(asked[i], SIG_IGN);
}

static void set_limit(int resource, uint64_t most)
{
    const struct rlimit limit = {(rlim_t)most, (rlim_t)most};
    (void)setrlimit(resource, &limit);
}

static void run_decoder(const struct fork_server *server, pid_t parent, int memory, int socket,
                        const struct sluice_decoder_limits *limits)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* it has ended already */
        return;
    prctl(PR_SET_NAME, "decoder");
    uint8_t *region = mmap(NULL, (size_t)(limits->in_room + limits->out_room),
                           PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (region == MAP_FAILED)
        return;
    keep_only(socket);
    if (!HAS_SANITIZER)
        set_limit(RLIMIT_DATA, server->own_data + limits->memory_bytes);
    sluice_worker_stand_back();
    server->serve(0, region, limits);
}

/* Returns an errno. */
static int start(struct fork_server *server, const struct sluice_decoder_limits *limits, pid_t *pid,
                 int fds[2])
{
    int pair[2];
    if (server->num_pids == MAX_DECODERS)
        return EAGAIN;
    const int memory = memfd_create("decoder", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return errno;
    /* Nobody can shrink it, at which the server's next access would end the server. */
    if (ftruncate(memory, (off_t)(limits->in_room + limits->out_room)) != 0 ||
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0 ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) {
        const int error = errno;
        close(memory);
        return error;
    }
    const pid_t self = getpid(), child = fork();
    if (child == 0) {
        run_decoder(server, self, memory, pair[1], limits);
        _exit(0);
    }
    const int error = errno;
    close(pair[1]);
    if (child < 0) {
        close(pair[0]);
        close(memory);
        return error;
    }
    server->pids[server->num_pids++] = child;
    *pid = child;
    fds[0] = memory;
    fds[1] = pair[0];
    return 0;
}

/* Only a child that has not been ended yet: its number is nobody else's.  Returns an errno. */
static int end(struct fork_server *server, pid_t pid, int *wait_status)
{
    size_t i = 0;
    while (i < server->num_pids && server->pids[i] != pid)
        i++;
    if (i == server->num_pids)
        return ESRCH;
    kill(pid, SIGKILL);
    pid_t ended;
    do {
        ended = waitpid(pid, wait_status, 0);
    } while (ended < 0 && errno == EINTR);
    server->pids[i] = server->pids[--server->num_pids];
    return ended == pid ? 0 : errno;
}

static bool send_reply(int control, const struct sluice_fork_reply *reply, const int fds[2])
{
    struct sluice_fork_reply copy = *reply;
    const struct iovec part = {&copy, sizeof(copy)};
    return sluice_send_fds(control, &part, 1, fds, fds ? 2 : 0, 0) == (ssize_t)sizeof(copy);
}

static void serve_forks(struct fork_server *server)
{
    struct sluice_fork_request request;
    for (;;) {
        const ssize_t got = read(server->control, &request, sizeof(request));
        if (got < 0 && errno == EINTR)
            continue;
        if (got != (ssize_t)sizeof(request))
            return;
        struct sluice_fork_reply reply = {.pid = request.pid};
        int fds[2] = {-1, -1};
        if (request.what == SLUICE_FORK_START)
            reply.error = start(server, &request.limits, &reply.pid, fds);
        else
            reply.error = end(server, request.pid, &reply.wait_status);
        const bool is_sent = send_reply(server->control, &reply, fds[0] >= 0 ? fds : NULL);
        if (fds[0] >= 0) {
            close(fds[0]);
            close(fds[1]);
        }
        if (!is_sent)
            return;
    }
}

static void run_fork_server(pid_t parent, int control, sluice_decoder_serve_fn *serve)
{
    static struct fork_server server;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        return;
    prctl(PR_SET_NAME, "decoder-forks");
    ignore_signals();
    set_limit(RLIMIT_CORE, 0);
    volunteer_for_oom();
    warm_up();
    server = (struct fork_server){.control = 0, .serve = serve, .own_data = read_own_data()};
    keep_only(control);
    /* No files and no ports for it and its children, where the kernel can see to that. */
    const unsigned abi = sluice_landlock_abi();
    const struct sluice_landlock_rules none = {.num_paths = 0};
    if (abi > 0 && sluice_landlock_restrict(&none, abi, NULL) != SLUICE_OK)
        return;
    serve_forks(&server);
}

sluice_status sluice_decoder_process_open(sluice_decoder_serve_fn *serve,
                                          struct sluice_decoders **decoders, struct sluice_err *err)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return sluice_fail(err, SLUICE_E_IO, "a socket for decoders: %s", strerror(errno));
    const pid_t self = getpid(), child = fork();
    if (child == 0) {
        close(pair[0]);
        run_fork_server(self, pair[1], serve);
        _exit(0);
    }
    close(pair[1]);
    if (!sluice_syscall_filter_is_possible())
        sluice_log(SLUICE_LOG_WARN, "decoders may make any system call: this kernel has no seccomp "
                                    "filters; one that crashes is isolated, one that is taken over "
                                    "is not");
    if (child < 0) {
        close(pair[0]);
        return sluice_fail(err, SLUICE_E_IO, "cannot fork for decoders: %s", strerror(errno));
    }
    return sluice_decoders_create(pair[0], child, decoders, err);
}
