#include "base/file.h"
#include "base/log.h"
#include "base/quit.h"
#include "base/text.h"
#include "cli/cli.h"
#include "lend/switch/server.h"
#include "lend/switch/worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Shared with the workers. */
struct house {
    const struct switch_options *options;
    int weights_fd, board_fd;
    struct switch_board *board;
    char folder[32], socket[40]; /* "": none */
};

static sluice_status make_memory(struct house *house, struct sluice_err *err)
{
    const size_t bytes = switch_board_bytes(house->options);
    void *memory = MAP_FAILED;
    house->weights_fd = memfd_create("offload_switch weights", MFD_CLOEXEC);
    house->board_fd = memfd_create("offload_switch board", MFD_CLOEXEC);
    if (house->board_fd >= 0 && ftruncate(house->board_fd, (off_t)bytes) == 0)
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, house->board_fd, 0);
    if (house->weights_fd < 0 || memory == MAP_FAILED)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "shared memory: %s", strerror(errno));
    house->board = memory;
    return switch_load_weights(house->options, house->weights_fd, err);
}

/* For the socket of the training process; nobody else gets into the folder. */
static sluice_status make_folder(struct house *house, struct sluice_err *err)
{
    char folder[] = "/tmp/offload_switch.XXXXXX";
    if (!mkdtemp(folder))
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", folder, strerror(errno));
    memcpy(house->folder, folder, sizeof folder);
    sluice_print(house->socket, sizeof house->socket, "%s/lend", folder);
    return SLUICE_OK;
}

static void print_counts(const struct switch_board *board, uint64_t num_replaced)
{
    printf("{\"inferences\": %" PRIu64 ", \"trainings\": %" PRIu64 ", \"failed\": %" PRIu64
           ", \"training_steps\": %" PRIu64 ", \"lent_requests\": %" PRIu64
           ", \"lent_ms\": %.3f, \"lending_cost_ms\": %.3f, \"taken_back\": %" PRIu64
           ", \"processes_replaced\": %" PRIu64 "}\n",
           board->inferences, board->trainings, board->failed, board->training_steps,
           board->lent_requests, (double)board->lent_ns / 1e6, (double)board->lending_cost_ns / 1e6,
           board->taken_back, num_replaced);
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], SWITCH_AS_WORKER) == 0)
        return switch_worker_main(argc, argv);
    sluice_open_standard_descriptors();
    struct house house = {.weights_fd = -1, .board_fd = -1};
    int exit_code = 0;
    if (!switch_options_parse(argc, argv, &house.options, &exit_code))
        return exit_code;
    sluice_log_set_program("offload_switch");
    struct sluice_err err = {0};
    sluice_status status = sluice_quit_init(&err);
    if (status == SLUICE_OK && house.options->trains)
        status = make_folder(&house, &err);
    if (status == SLUICE_OK)
        status = make_memory(&house, &err);
    if (status == SLUICE_OK) {
        struct switch_staff staff = {.options = house.options,
                                     .argv = argv,
                                     .argc = argc,
                                     .lend =
                                         house.options->lend ? house.options->lend : house.socket,
                                     .weights_fd = house.weights_fd,
                                     .board_fd = house.board_fd};
        status = switch_serve(&staff, house.board, &err);
        switch_staff_clear(&staff);
        if (status == SLUICE_OK)
            print_counts(house.board, staff.num_replaced);
    }
    if (house.folder[0]) {
        unlink(house.socket);
        rmdir(house.folder);
    }
    return sluice_cli_exit_code(status, &err);
}
