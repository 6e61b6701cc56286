#include "lend/switch/staff.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "lend/switch/tuning.h"
#include "lend/switch/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENTS 256
extern char **environ;

/* An error of errno.h, or 0. */
static int spawn(const struct switch_staff *staff, struct switch_worker *worker, int socket)
{
    char role[16] = "inference", flag[] = SWITCH_AS_WORKER;
    char *argv[4 + MAX_ARGUMENTS] = {staff->argv[0], flag, role, (char *)staff->lend};
    posix_spawn_file_actions_t actions;
    if (worker->is_training)
        memcpy(role, "training", sizeof "training");
    if (staff->argc > MAX_ARGUMENTS)
        return E2BIG;
    memcpy(argv + 4, staff->argv + 1, (size_t)(staff->argc - 1) * sizeof *argv);
    if (posix_spawn_file_actions_init(&actions) != 0)
        return ENOMEM;
    int error = ENOMEM;
    if (posix_spawn_file_actions_adddup2(&actions, socket, SWITCH_FD_SOCKET) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, staff->weights_fd, SWITCH_FD_WEIGHTS) == 0 &&
        posix_spawn_file_actions_adddup2(&actions, staff->board_fd, SWITCH_FD_BOARD) == 0)
        error = posix_spawn(&worker->pid, "/proc/self/exe", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

void switch_staff_start(struct switch_staff *staff, struct switch_worker *worker)
{
    int ends[2];
    int error = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0 ? errno : 0;
    if (error == 0) {
        error = spawn(staff, worker, ends[1]);
        close(ends[1]);
        if (error != 0)
            close(ends[0]);
    }
    if (error != 0) {
        sluice_log(SLUICE_LOG_ERROR, "a worker process does not start: %s", strerror(error));
        worker->start_at_ns = sluice_clock_ns() + SWITCH_RETRY_NS;
        return;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    worker->fd = ends[0];
    worker->state = SWITCH_WORKER_STARTING;
}

void switch_staff_restart(struct switch_staff *staff, uint64_t now_ns)
{
    for (unsigned w = 0; w < staff->num_workers; w++) {
        struct switch_worker *worker = &staff->workers[w];
        if (worker->state == SWITCH_WORKER_ABSENT && now_ns >= worker->start_at_ns) {
            switch_staff_start(staff, worker);
            staff->num_replaced++;
        }
    }
}

bool switch_staff_order(struct switch_worker *worker, const struct switch_order *order)
{
    if (send(worker->fd, order, sizeof *order, MSG_NOSIGNAL) != (ssize_t)sizeof *order)
        return false;
    if (worker->state == SWITCH_WORKER_IDLE)
        worker->busy_since_ns = sluice_clock_ns();
    worker->state = SWITCH_WORKER_BUSY;
    return true;
}

/* Its socket is closed, which no living worker does, or shut down because it does not answer. */
static void bury(struct switch_worker *worker)
{
    int status = SIGKILL; /* of one that hangs */
    close(worker->fd);
    worker->fd = -1;
    sluice_process_end_child(worker->pid, 0, SWITCH_KILLED_NS, &status);
    sluice_log(SLUICE_LOG_WARN, "the %s process %d ended by %s %d",
               worker->is_training ? "training" : "inference", (int)worker->pid,
               WIFSIGNALED(status) ? "signal" : "exit code",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    worker->start_at_ns =
        sluice_clock_ns() + (worker->state == SWITCH_WORKER_STARTING ? SWITCH_RETRY_NS : 0);
    worker->state = SWITCH_WORKER_ABSENT;
}

enum switch_read switch_staff_read(struct switch_worker *worker, struct switch_note *note)
{
    const ssize_t n = recv(worker->fd, note, sizeof *note, 0);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return SWITCH_READ_NOTHING;
    if (n != (ssize_t)sizeof *note) {
        bury(worker);
        return SWITCH_READ_GONE;
    }
    note->text[sizeof note->text - 1] = 0;
    worker->state = SWITCH_WORKER_IDLE;
    return SWITCH_READ_NOTE;
}

void switch_staff_clear(struct switch_staff *staff)
{
    const uint64_t until_ns = sluice_clock_ns() + SWITCH_END_NS;
    for (unsigned w = 0; w < staff->num_workers; w++) {
        if (staff->workers[w].fd >= 0)
            close(staff->workers[w].fd);
    }
    for (unsigned w = 0; w < staff->num_workers; w++) {
        const struct switch_worker *worker = &staff->workers[w];
        if (worker->state != SWITCH_WORKER_ABSENT)
            sluice_process_end_child(worker->pid, until_ns, SWITCH_KILLED_NS, NULL);
    }
}
