#include "lend_support.h"

#include <cuda_runtime_api.h>
#include <signal.h>
#include <unistd.h>

/* Streams of a real device that stop for a borrower.  The borrower is a process that does not use the
 * GPU.  Skipped without a device. */

static void require(cudaError_t result)
{
    if (result != cudaSuccess)
        fprintf(stderr, "%s\n", cudaGetErrorString(result));
    CU_ASSERT_EQUAL_FATAL(result, cudaSuccess);
}

static struct sluice_lend *lend;
static cudaStream_t stream;
static uint32_t *word; /* of the device */
static struct lend_child child;

static void begin(const char *path)
{
    child = lend_child_start(path); /* before CUDA starts */
    int num_devices = 0;
    if (cudaGetDeviceCount(&num_devices) != cudaSuccess || num_devices == 0)
        sluice_test_skip("no CUDA device");
    REQUIRE_OK(sluice_lend_open(
        &(struct sluice_lend_options){.path = path, .at_most_ms = 600000, .device = 0}, &lend,
        sluice_test_err()));
    CU_ASSERT_EQUAL_FATAL(lend_child_do(&child, LEND_OPEN, 0).status, SLUICE_OK);
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    require(cudaMalloc((void **)&word, sizeof(*word)));
}

static void end(void)
{
    lend_child_end(&child, 0);
    require(cudaStreamSynchronize(stream));
    require(cudaStreamDestroy(stream));
    require(cudaFree(word));
    sluice_lend_close(lend);
}

static uint32_t take(void)
{
    const struct lend_reply reply = lend_child_do(&child, LEND_TAKE, -1);
    CU_ASSERT_EQUAL_FATAL(reply.status, SLUICE_OK);
    return reply.ticket;
}

/* By another stream than the one that waits. */
static uint32_t read_word(void)
{
    uint32_t value;
    cudaStream_t other;
    require(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    require(cudaMemcpyAsync(&value, word, sizeof(value), cudaMemcpyDeviceToHost, other));
    require(cudaStreamSynchronize(other));
    require(cudaStreamDestroy(other));
    return value;
}

TEST(the_device_can_wait_for_a_page)
{
    begin(sluice_test_path("probe"));
    CHECK_OK(sluice_lend_probe(0, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "CUDA device 1000", sluice_lend_probe(1000, sluice_test_err()));
    end();
}

TEST(what_comes_after_a_point_waits_for_the_borrower)
{
    begin(sluice_test_path("stream"));
    require(cudaMemsetAsync(word, 0x11, sizeof(*word), stream));
    CHECK_OK(sluice_lend_point(lend, stream, sluice_test_err()));
    require(cudaMemsetAsync(word, 0x22, sizeof(*word), stream));
    require(cudaStreamSynchronize(stream)); /* nobody has it */
    CU_ASSERT_EQUAL(read_word(), 0x22222222u);

    const uint32_t ticket = take();
    require(cudaMemsetAsync(word, 0x33, sizeof(*word), stream));
    CHECK_OK(sluice_lend_point(lend, stream, sluice_test_err()));
    require(cudaMemsetAsync(word, 0x44, sizeof(*word), stream));
    for (int i = 0; i < 50; i++) {
        usleep(1000);
        CU_ASSERT_EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
    }
    CU_ASSERT_EQUAL(read_word(), 0x33333333u);
    CU_ASSERT_EQUAL(lend_child_do(&child, LEND_GIVE, (int)ticket).status, 1);
    require(cudaStreamSynchronize(stream));
    CU_ASSERT_EQUAL(read_word(), 0x44444444u);
    end();
}

TEST(a_graph_holds_points)
{
    begin(sluice_test_path("graph"));
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    require(cudaMemsetAsync(word, 0x55, sizeof(*word), stream));
    CHECK_OK(sluice_lend_point(lend, stream, sluice_test_err()));
    require(cudaMemsetAsync(word, 0x66, sizeof(*word), stream));
    require(cudaStreamEndCapture(stream, &graph));
    require(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; round++) {
        const uint32_t ticket = take();
        require(cudaGraphLaunch(exec, stream));
        while (read_word() != 0x55555555u)
            usleep(1000);
        usleep(20000);
        CU_ASSERT_EQUAL(read_word(), 0x55555555u);
        CU_ASSERT_EQUAL(lend_child_do(&child, LEND_GIVE, (int)ticket).status, 1);
        require(cudaStreamSynchronize(stream));
        CU_ASSERT_EQUAL(read_word(), 0x66666666u);
    }
    /* After stop the graph runs though a borrower had the GPU. */
    take();
    sluice_lend_stop(lend);
    require(cudaGraphLaunch(exec, stream));
    require(cudaStreamSynchronize(stream));
    require(cudaGraphExecDestroy(exec));
    require(cudaGraphDestroy(graph));
    end();
}

TEST(a_killed_borrower_does_not_hold_up_the_stream)
{
    begin(sluice_test_path("killed"));
    take();
    CHECK_OK(sluice_lend_point(lend, stream, sluice_test_err()));
    require(cudaMemsetAsync(word, 0x77, sizeof(*word), stream));
    CU_ASSERT_EQUAL(cudaStreamQuery(stream), cudaErrorNotReady);
    kill(child.pid, SIGKILL);
    require(cudaStreamSynchronize(stream));
    CU_ASSERT_EQUAL(read_word(), 0x77777777u);
    CU_ASSERT_EQUAL(lend_counters(lend).taken_back, 1);
    end();
}
