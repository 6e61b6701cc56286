#include "compute_client/run/launch.h"

#include "base/clock.h"
#include "base/log.h"
#include "compute_client/options/options.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* Nanoseconds that ranks have to end after another failed: rank 0 may be writing the checkpoint of a
 * run whose server is lost, but a step that waits for the failed rank never ends. */
#define GRACE_NS 20000000000u

struct launch {
    pid_t *pids; /* by rank; 0: ended */
    unsigned num_ranks, num_alive;
    sigset_t signals, before;   /* those waited for; the mask that ranks begin with */
    int stop_signal, exit_code; /* of the first failure; 0: none */
    bool was_stopped;           /* a rank ended by a stop */
    uint64_t kill_ns;           /* when those that are left are killed; 0: never */
};

static void signal_all(const struct launch *launch, int number)
{
    for (unsigned rank = 0; rank < launch->num_ranks; rank++) {
        if (launch->pids[rank])
            kill(launch->pids[rank], number);
    }
}

static void set_number(const char *name, unsigned long number)
{
    char text[24];
    snprintf(text, sizeof(text), "%lu", number);
    setenv(name, text, 1);
}

/* In the new process.  Does not return. */
static void become_rank(const struct launch *launch, unsigned rank, pid_t parent, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) /* which ended before */
        _exit(128 + SIGTERM);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", launch->num_ranks);
    signal(SIGUSR1, SIG_IGN); /* until the rank handles it */
    sigprocmask(SIG_SETMASK, &launch->before, NULL);
    execv("/proc/self/exe", argv);
    sluice_log(SLUICE_LOG_ERROR, "rank %u: cannot run %s again: %s", rank, argv[0],
               strerror(errno));
    _exit(1);
}

static bool is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

/* Ranks may have had the same signal: a terminal and most supervisors send it to a whole group of
 * processes.  SIGHUP is what a rank may get twice (base/quit.h). */
static void stop_ranks(const struct launch *launch)
{
    signal_all(launch, is_ignored(SIGHUP) ? SIGTERM : SIGHUP);
}

static void take_signal(struct launch *launch, int number)
{
    const bool is_second = launch->stop_signal && number != SIGHUP;
    if (number == SIGUSR1) {
        signal_all(launch, number);
    } else if (number != SIGCHLD && is_second) {
        signal_all(launch, SIGKILL);
    } else if (number != SIGCHLD && !launch->stop_signal) {
        launch->stop_signal = number;
        stop_ranks(launch);
    }
}

/* The signal that stopped a rank; 0: none did.  A rank that has just begun does not handle it. */
static int stop_signal_of(int state)
{
    const int number = WIFSIGNALED(state) ? WTERMSIG(state) : WEXITSTATUS(state) - 128;
    return number == SIGTERM || number == SIGINT || number == SIGHUP ? number : 0;
}

static void note_end(struct launch *launch, unsigned rank, int state)
{
    launch->pids[rank] = 0;
    launch->num_alive--;
    const bool is_killed = WIFSIGNALED(state);
    const int code = is_killed ? 128 + WTERMSIG(state) : WEXITSTATUS(state);
    if (code == 0 || launch->exit_code)
        return;
    if (stop_signal_of(state)) {
        launch->was_stopped = true;
        if (rank == 0) /* it has written the checkpoint, and the others have nothing to keep */
            launch->kill_ns = sluice_clock_ns() + GRACE_NS;
        if (!launch->stop_signal) { /* somebody stopped this rank alone */
            launch->stop_signal = stop_signal_of(state);
            stop_ranks(launch);
        }
        return;
    }
    launch->exit_code = code;
    launch->kill_ns = sluice_clock_ns() + GRACE_NS;
    if (is_killed)
        sluice_log(SLUICE_LOG_ERROR, "rank %u was killed by signal %d%s", rank, WTERMSIG(state),
                   launch->num_alive ? ": the other ranks are stopped" : "");
    else
        sluice_log(SLUICE_LOG_ERROR, "rank %u ended with exit code %d%s", rank, code,
                   launch->num_alive ? ": the other ranks are stopped" : "");
    stop_ranks(launch);
}

static void reap(struct launch *launch)
{
    int state;
    for (pid_t pid = waitpid(-1, &state, WNOHANG); pid > 0; pid = waitpid(-1, &state, WNOHANG)) {
        for (unsigned rank = 0; rank < launch->num_ranks; rank++) {
            if (launch->pids[rank] == pid)
                note_end(launch, rank, state);
        }
    }
}

static void wait_for_ranks(struct launch *launch)
{
    while (launch->num_alive > 0) {
        const uint64_t now = sluice_clock_ns();
        int number;
        if (!launch->kill_ns) {
            number = sigwaitinfo(&launch->signals, NULL);
        } else {
            const struct timespec left =
                sluice_clock_timespec(now < launch->kill_ns ? launch->kill_ns - now : 0);
            number = sigtimedwait(&launch->signals, NULL, &left);
        }
        if (number > 0)
            take_signal(launch, number);
        if (number < 0 && errno == EAGAIN) {
            signal_all(launch, SIGKILL);
            launch->kill_ns = sluice_clock_ns() + GRACE_NS;
        }
        reap(launch);
    }
}

static bool start_ranks(struct launch *launch, char **argv)
{
    const pid_t self = getpid();
    for (unsigned rank = 0; rank < launch->num_ranks; rank++) {
        const pid_t pid = fork();
        if (pid == 0)
            become_rank(launch, rank, self, argv);
        if (pid < 0) {
            sluice_log(SLUICE_LOG_ERROR, "--gpus %u: cannot start rank %u: %s", launch->num_ranks,
                       rank, strerror(errno));
            return false;
        }
        launch->pids[rank] = pid;
        launch->num_alive++;
    }
    return true;
}

/* A key that no other run has. */
static void set_key(void)
{
    unsigned long draw = 0;
    if (getrandom(&draw, sizeof(draw), GRND_NONBLOCK) != (ssize_t)sizeof(draw))
        draw = (unsigned long)sluice_clock_ns();
    char key[48];
    snprintf(key, sizeof(key), "%ld-%016lx", (long)getpid(), draw);
    setenv(SLUICE_RENDEZVOUS_VARIABLE, key, 1);
    set_number(SLUICE_LAUNCHER_VARIABLE, (unsigned long)getpid());
}

int sluice_launch(unsigned num_ranks, char **argv)
{
    struct launch launch = {.num_ranks = num_ranks};
    launch.pids = calloc(num_ranks, sizeof(*launch.pids));
    if (!launch.pids) {
        sluice_log(SLUICE_LOG_ERROR, "no memory for %u ranks", num_ranks);
        return 1;
    }
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGCHLD};
    sigemptyset(&launch.signals);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(numbers); i++)
        sigaddset(&launch.signals, numbers[i]);
    if (is_ignored(SIGHUP)) /* by nohup; blocked, it would come all the same */
        sigdelset(&launch.signals, SIGHUP);
    signal(SIGCHLD, SIG_DFL); /* if it is ignored, nobody learns how a child ended */
    sigprocmask(SIG_BLOCK, &launch.signals, &launch.before);
    set_key();
    if (!start_ranks(&launch, argv)) {
        launch.exit_code = 1;
        launch.kill_ns = sluice_clock_ns() + GRACE_NS;
        stop_ranks(&launch);
    }
    wait_for_ranks(&launch);
    free(launch.pids);
    if (launch.exit_code)
        return launch.exit_code;
    return launch.was_stopped ? 128 + launch.stop_signal : 0;
}
