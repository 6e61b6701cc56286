/* A process that uses a GPU while its owner lends it (docs/LENDING.md): takes it for each request, and
 * says how long it waited.  The request here is a pause in the place of work on the GPU.
 *
 *     offload_train ... --lend /run/gpu0.lend &
 *     cc -o lend_borrower lend_borrower.c $(pkg-config --cflags --libs sluice)
 *     ./lend_borrower /run/gpu0.lend 100 3        100 requests of 3 ms
 */

#include <sluice/lend.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec / 1e6;
}

/* Launch kernels here, and wait until they are done (cudaStreamSynchronize()). */
static void answer(long ms)
{
    const struct timespec length = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&length, NULL);
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: lend_borrower PATH REQUESTS MS\n");
        return 2;
    }
    const long num_requests = strtol(argv[2], NULL, 10), ms = strtol(argv[3], NULL, 10);
    const struct sluice_borrower_options options = {.path = argv[1], .at_most_ms = 500};
    struct sluice_borrower *gpu;
    struct sluice_err err = {{0}};
    if (sluice_borrower_open(&options, &gpu, &err) != SLUICE_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    double waited_ms = 0;
    long num_kept = 0;
    for (long i = 0; i < num_requests; i++) {
        const double begin = now_ms();
        uint32_t ticket;
        const sluice_status status = sluice_borrower_take(gpu, -1, &ticket, &err);
        if (status != SLUICE_OK && status != SLUICE_E_CLOSED) {
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        waited_ms += now_ms() - begin;
        answer(ms);
        /* SLUICE_E_CLOSED: the owner has ended, and nothing waits for us. */
        if (status == SLUICE_OK)
            num_kept += sluice_borrower_give(gpu, ticket);
    }
    printf("%ld requests, %ld with the GPU to the end, waited %.3f ms each\n", num_requests,
           num_kept, num_requests > 0 ? waited_ms / (double)num_requests : 0);
    sluice_borrower_close(gpu);
    return 0;
}
