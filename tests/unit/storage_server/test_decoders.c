#include "storage_server/isolation/decoders.h"

#include "base/buf.h"
#include "base/clock.h"
#include "image/codecs/codec.h"
#include "storage_server/isolation/decoder_process.h"
#include "storage_server/tuning.h"
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The clock stands, and the test puts it forward (--wrap). */
static atomic_uint_fast64_t now_ns = UINT64_C(1000000000000);
uint64_t __wrap_sluice_clock_ns(void);
uint64_t __wrap_sluice_clock_ns(void)
{
    return now_ns;
}

static struct sluice_decoders *decoders;
static struct sluice_pipeline *pipeline;
static struct sluice_buf *file;

/* What a decoder does with its second request; it answers the first, and those of the others,
 * honestly.  Copied to it by the fork. */
static enum {
    LIE_LEN,
    LIE_KIND,
    LIE_NUMBER,
    SAY_LITTLE,
    SAY_MUCH,
    SAY_ALL_ONES,
    SEGV,
    TERM_ITSELF,
    EXIT,
    HANG,
    SPIN_FOR_EVER,
    CLOSE,
    SPIN,
} deed;

static struct sluice_decoder_reply honest_reply(const struct sluice_decoder_request *request,
                                                uint8_t *region,
                                                const struct sluice_decoder_limits *limits)
{
    const uint32_t side = strcmp(request->spec, "decode") == 0 ? 16 : 8; /* that of its trial */
    const struct sluice_decoder_reply reply = {
        .number = request->number,
        .is_changed = 1,
        .ops_done = request->end,
        .kind = SLUICE_KIND_U8,
        .width = side,
        .height = side,
        .len = (uint64_t)side * side * 3,
    };
    memset(region + limits->in_room, 1, (size_t)reply.len);
    return reply;
}

static void put(int socket, const void *bytes, size_t len)
{
    if (write(socket, bytes, len) != (ssize_t)len)
        _exit(9);
}

static void misbehave(int socket, uint8_t *region, const struct sluice_decoder_limits *limits)
{
    struct sluice_decoder_request request;
    static const char zeroes[sizeof(struct sluice_decoder_reply) + 1];
    static volatile uint64_t spun;
    for (int i = 0; read(socket, &request, sizeof(request)) == (ssize_t)sizeof(request); i++) {
        struct sluice_decoder_reply reply = honest_reply(&request, region, limits);
        if (i == 1) {
            switch (deed) {
            case LIE_LEN:
                reply.len = UINT64_MAX;
                break;
            case LIE_KIND:
                reply.kind = 77;
                break;
            case LIE_NUMBER:
                reply.number--;
                break;
            case SAY_LITTLE:
                put(socket, zeroes, 3);
                continue;
            case SAY_MUCH:
                put(socket, zeroes, sizeof(zeroes));
                continue;
            case SAY_ALL_ONES:
                memset(&reply, 0xff, sizeof(reply));
                break;
            case SEGV:
                signal(SIGSEGV, SIG_DFL);
                raise(SIGSEGV);
                break;
            case TERM_ITSELF:
                raise(SIGKILL);
                break;
            case EXIT:
                _exit(3);
            case HANG:
                pause();
                break;
            case SPIN_FOR_EVER:
                for (;;)
                    spun++;
            case CLOSE:
                close(socket);
                pause();
                break;
            case SPIN:
                for (const uint64_t start_ns = sluice_thread_cpu_ns();
                     sluice_thread_cpu_ns() - start_ns < 30000000;)
                    spun++;
                break;
            }
        }
        put(socket, &reply, sizeof(reply));
    }
}

static void open_decoders(sluice_decoder_serve_fn *serve)
{
    REQUIRE_OK(sluice_decoder_process_open(serve, &decoders, NULL));
}

static struct sluice_decoder *create(double timeout_s)
{
    const struct sluice_decoder_options options = {
        .decoders = decoders,
        .limits = sluice_decoder_limits_for(1000000, 1 << 20, 64 << 20),
        .timeout_ns = (uint64_t)(timeout_s * 1e9),
    };
    struct sluice_decoder *decoder;
    struct sluice_err err = {0};
    const sluice_status status = sluice_decoder_create(&options, &decoder, &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    return decoder;
}

static void end(struct sluice_decoder *decoder)
{
    sluice_decoder_destroy(decoder);
    sluice_decoders_close(decoders);
}

static sluice_status run(struct sluice_decoder *decoder, const char *path, bool *has_ended,
                         struct sluice_err *err)
{
    struct sluice_decoder_work work = {.form = SLUICE_FORM_RAW, .end = 3, .path = path};
    struct sluice_sample sample = {.kind = SLUICE_KIND_FILE, .data = sluice_buf_ref(file)};
    const sluice_status status = sluice_decoder_run(decoder, pipeline, &work, &sample, err);
    if (status == SLUICE_OK) {
        CU_ASSERT_EQUAL(sample.kind, SLUICE_KIND_U8);
        CU_ASSERT_EQUAL(sample.ops_done, 3);
        CU_ASSERT_EQUAL(sample.data->len, 8 * 8 * 3);
    } else {
        CU_ASSERT_EQUAL(sample.kind, SLUICE_KIND_FILE);
        CU_ASSERT_PTR_EQUAL(sample.data, file);
    }
    *has_ended = work.has_ended;
    sluice_sample_clear(&sample);
    return status;
}

/* One decoder after the other does the deed at its second request: the first sample. */
static void check_deed(int what, enum sluice_decoder_end how, const char *words)
{
    deed = what;
    open_decoders(misbehave);
    struct sluice_decoder *decoder = create(what == HANG ? 1 : 600);
    struct sluice_err err = {0};
    bool has_ended;
    CU_ASSERT_EQUAL(run(decoder, "bad.jpg", &has_ended, &err), SLUICE_E_IO);
    CU_ASSERT_TRUE(has_ended);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, words));
    if (!strstr(err.text, words))
        printf("deed %d: %s\n", what, err.text);
    const struct sluice_decoder_counts counts = sluice_decoders_count(decoders);
    for (int end = 0; end < SLUICE_NUM_DECODER_ENDS; end++)
        CU_ASSERT_EQUAL(counts.ends[end], end == (int)how);
    CU_ASSERT_EQUAL(counts.running, 0);
    CU_ASSERT_EQUAL(sluice_decoder_pid(decoder), 0);
    /* The next decoder has its first request. */
    CHECK_OK(run(decoder, "good.jpg", &has_ended, NULL));
    CU_ASSERT_FALSE(has_ended);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).running, 1);
    sluice_decoder_destroy(decoder);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).running, 0);
    sluice_decoders_close(decoders);
}

TEST(a_lie_costs_the_decoder)
{
    check_deed(LIE_LEN, SLUICE_DECODER_LIED, "cannot be");
    check_deed(LIE_KIND, SLUICE_DECODER_LIED, "cannot be");
    check_deed(LIE_NUMBER, SLUICE_DECODER_LIED, "another request");
    check_deed(SAY_LITTLE, SLUICE_DECODER_LIED, "3 bytes");
    check_deed(SAY_MUCH, SLUICE_DECODER_LIED, "cannot be");
    check_deed(SAY_ALL_ONES, SLUICE_DECODER_LIED, "cannot be");
}

TEST(a_death_is_told)
{
    check_deed(SEGV, SLUICE_DECODER_CRASHED, "died of SIGSEGV");
    check_deed(TERM_ITSELF, SLUICE_DECODER_KILLED, "died of SIGKILL");
    check_deed(EXIT, SLUICE_DECODER_CRASHED, "exited with code 3");
}

TEST(what_hangs_is_killed)
{
    check_deed(HANG, SLUICE_DECODER_HUNG, "did not answer within 1 s");
    check_deed(CLOSE, SLUICE_DECODER_KILLED, "SIGKILL");
}

TEST(a_sample_that_ends_several_is_to_blame)
{
    deed = SEGV;
    open_decoders(misbehave);
    struct sluice_decoder *decoder = create(600);
    struct sluice_err err = {0};
    bool has_ended;
    for (unsigned i = 1; i <= SUSPECTS_DEATHS; i++) {
        err = (struct sluice_err){0};
        CU_ASSERT_EQUAL(run(decoder, "bad.jpg", &has_ended, &err),
                        i < SUSPECTS_DEATHS ? SLUICE_E_IO : SLUICE_E_CORRUPT);
        now_ns += DECODER_MOST_WAIT_NS;
        CHECK_OK(run(decoder, "good.jpg", &has_ended, NULL));
        CU_ASSERT_FALSE(has_ended);
    }
    /* And costs no other. */
    const pid_t pid = sluice_decoder_pid(decoder);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(run(decoder, "bad.jpg", &has_ended, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_TRUE(has_ended);
    CU_ASSERT_NOT_EQUAL(err.text[0], '\0');
    CU_ASSERT_EQUAL(sluice_decoder_pid(decoder), pid);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).ends[SLUICE_DECODER_CRASHED], SUSPECTS_DEATHS);
    now_ns += SUSPECTS_FORGET_NS; /* another chance, and it does it again */
    CU_ASSERT_EQUAL(run(decoder, "bad.jpg", &has_ended, NULL), SLUICE_E_IO);
    end(decoder);
}

/* On a machine that is busy, or was stopped, any sample may do so. */
TEST(a_sample_whose_decoders_had_no_cpu_is_not_to_blame)
{
    deed = HANG;
    open_decoders(misbehave);
    struct sluice_decoder *decoder = create(1);
    bool has_ended;
    for (unsigned i = 0; i < SUSPECTS_DEATHS; i++) {
        CHECK_FAILS(SLUICE_E_IO, "did not answer",
                    run(decoder, "slow.jpg", &has_ended, sluice_test_err()));
        now_ns += DECODER_MOST_WAIT_NS;
        CHECK_OK(run(decoder, "good.jpg", &has_ended, NULL));
    }
    end(decoder);
}

/* However often another program has the CPU meanwhile. */
TEST(a_sample_at_which_several_spin_is_to_blame)
{
    deed = SPIN_FOR_EVER;
    open_decoders(misbehave);
    struct sluice_decoder *decoder = create(1);
    bool has_ended;
    unsigned num = 0;
    sluice_status status;
    do {
        status = run(decoder, "bad.jpg", &has_ended, NULL);
        num++;
        now_ns += DECODER_MOST_WAIT_NS;
        if (status == SLUICE_E_IO)
            CHECK_OK(run(decoder, "good.jpg", &has_ended, NULL));
    } while (status == SLUICE_E_IO);
    CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
    CU_ASSERT(num >= SUSPECTS_DEATHS);
    end(decoder);
}

/* Answers the trial, and then no request. */
static void die_after_the_trial(int socket, uint8_t *region,
                                const struct sluice_decoder_limits *limits)
{
    static struct sluice_decoder_request request;
    while (read(socket, &request, sizeof(request)) == (ssize_t)sizeof(request)) {
        if (strcmp(request.spec, "decode") != 0)
            _exit(1);
        const struct sluice_decoder_reply reply = honest_reply(&request, region, limits);
        put(socket, &reply, sizeof(reply));
    }
}

TEST(those_that_die_at_once_come_back_slowly)
{
    open_decoders(die_after_the_trial);
    struct sluice_decoder *decoder = create(600);
    bool has_ended;
    CU_ASSERT_EQUAL(run(decoder, "1", &has_ended, NULL), SLUICE_E_IO);
    CU_ASSERT_EQUAL(run(decoder, "2", &has_ended, NULL), SLUICE_E_IO);
    uint64_t wait_ns = DECODER_FIRST_WAIT_NS;
    for (int i = 0; i < 12; i++) {
        CU_ASSERT_EQUAL(run(decoder, "3", &has_ended, NULL), SLUICE_E_AGAIN);
        CU_ASSERT_FALSE(has_ended);
        now_ns += wait_ns - 1;
        CU_ASSERT_EQUAL(run(decoder, "3", &has_ended, NULL), SLUICE_E_AGAIN);
        now_ns += 1;
        char path[8];
        snprintf(path, sizeof(path), "%d", 10 + i);
        CU_ASSERT_EQUAL(run(decoder, path, &has_ended, NULL), SLUICE_E_IO);
        wait_ns = 2 * wait_ns < DECODER_MOST_WAIT_NS ? 2 * wait_ns : DECODER_MOST_WAIT_NS;
    }
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).missed, 24);
    end(decoder);
}

static void exit_at_once(int socket, uint8_t *region, const struct sluice_decoder_limits *limits)
{
    (void)socket, (void)region, (void)limits;
}

TEST(one_that_can_do_nothing_is_found_at_the_start)
{
    open_decoders(exit_at_once);
    const struct sluice_decoder_options options = {
        .decoders = decoders,
        .limits = sluice_decoder_limits_for(1000000, 1 << 20, 64 << 20),
        .timeout_ns = UINT64_C(600000000000),
    };
    struct sluice_decoder *decoder = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_decoder_create(&options, &decoder, &err), SLUICE_E_IO);
    CU_ASSERT_PTR_NULL(decoder);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "exited with code 0"));
    sluice_decoders_close(decoders);
}

TEST(cpu_time_counts_as_the_workers)
{
    deed = SPIN;
    open_decoders(misbehave);
    struct sluice_decoder *decoder = create(600);
    bool has_ended;
    const uint64_t thread_ns = sluice_thread_cpu_ns(), process_ns = sluice_process_cpu_ns();
    CHECK_OK(run(decoder, "1", &has_ended, NULL));
    CU_ASSERT(sluice_thread_cpu_ns() - thread_ns >= 25000000);
    CU_ASSERT(sluice_process_cpu_ns() - process_ns >= 25000000);
    end(decoder);
}

static pid_t parent_of(pid_t pid)
{
    char path[64], text[256] = "";
    snprintf(path, sizeof(path), "/proc/%ld/stat", (long)pid);
    FILE *stat = fopen(path, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stat);
    CU_ASSERT_PTR_NOT_NULL(fgets(text, sizeof(text), stat));
    fclose(stat);
    long parent = 0;
    const char *after_name = strrchr(text, ')');
    CU_ASSERT_PTR_NOT_NULL_FATAL(after_name);
    CU_ASSERT_EQUAL(sscanf(after_name, ") %*c %ld", &parent), 1);
    return (pid_t)parent;
}

TEST(without_the_fork_server_files_are_sent)
{
    open_decoders(sluice_decoder_process_serve);
    struct sluice_decoder *decoder = create(600);
    bool has_ended;
    CHECK_OK(run(decoder, "1", &has_ended, NULL));
    const pid_t forks = parent_of(sluice_decoder_pid(decoder));
    CU_ASSERT_NOT_EQUAL_FATAL(forks, getpid());
    CU_ASSERT_EQUAL(kill(forks, SIGKILL), 0);
    sluice_status status;
    do { /* until the decoder has ended with its parent */
        status = run(decoder, "2", &has_ended, NULL);
    } while (status == SLUICE_OK);
    CU_ASSERT_EQUAL(status, SLUICE_E_IO);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(run(decoder, "3", &has_ended, NULL), SLUICE_E_AGAIN);
        CU_ASSERT_FALSE(has_ended);
        now_ns += DECODER_MOST_WAIT_NS;
    }
    end(decoder);
}

static void *run_many(void *ctx)
{
    struct sluice_decoder *decoder = create(600);
    bool has_ended;
    uintptr_t failures = 0;
    (void)ctx;
    for (int i = 0; i < 60; i++) {
        if (i % 10 == 5) /* between two samples: the next finds it gone */
            kill(sluice_decoder_pid(decoder), SIGKILL);
        const sluice_status status = run(decoder, "x.jpg", &has_ended, NULL);
        failures += status != SLUICE_OK;
        now_ns += SUSPECTS_FORGET_NS;
    }
    sluice_decoder_destroy(decoder);
    return (void *)failures;
}

TEST(decoders_of_two_threads_do_not_meet)
{
    open_decoders(sluice_decoder_process_serve);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, run_many, NULL), 0);
    uintptr_t failures = 0;
    for (int i = 0; i < 2; i++) {
        void *result;
        pthread_join(threads[i], &result);
        failures += (uintptr_t)result;
    }
    CU_ASSERT_EQUAL(failures, 12);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).ends[SLUICE_DECODER_KILLED], 12);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).running, 0);
    sluice_decoders_close(decoders);
}

int main(void)
{
    uint8_t pixels[32 * 24 * 3];
    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * 7);
    static const struct sluice_jpeg_encode_options plain;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        sluice_pipeline_parse("decode,random_resized_crop=8,hflip,to_tensor", &pipeline, NULL) ||
        sluice_jpeg_encode(pixels, 32, 24, &plain, &file, NULL))
        return 1;
    const int code = sluice_test_main();
    sluice_buf_unref(file);
    sluice_pipeline_destroy(pipeline);
    return code;
}
