#include "storage_server/isolation/syscall_filter.h"

#include "base/compiler.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By name, as not every machine has all of them.  What the tests use, seen by strace, and what the
 * C library has in its place on other machines and kernels. */
static const char *const allowed[] = {
    /* files, as far as Landlock lets */
    "access", "close", "close_range", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64",
    "fcntl", "flock", "fstat", "fstatfs", "getcwd", "getdents64", "lseek", "lstat", "newfstatat",
    "open", "openat", "openat2", "pipe2", "pread64", "preadv", "preadv2", "pwrite64", "read",
    "readahead", "readlink", "readlinkat", "readv", "rmdir", "stat", "statfs", "statx", "unlink",
    "unlinkat", "write", "writev",
    /* memory; mmap() and mprotect() are below */
    "brk", "madvise", "mincore", "mlock", "mremap", "munlock", "munmap",
    /* threads; clone() is below */
    "exit", "exit_group", "futex", "futex_waitv", "get_robust_list", "membarrier",
    "restart_syscall", "rseq", "set_robust_list", "set_tid_address",
    /* this process */
    "arch_prctl", "getegid", "geteuid", "getgid", "getpid", "getppid", "getpriority", "getrlimit",
    "getrusage", "gettid", "getuid", "ioprio_get", "sched_get_priority_max",
    "sched_get_priority_min", "sched_getaffinity", "sched_getparam", "sched_getscheduler",
    "sched_yield", "setrlimit", "sysinfo", "times", "umask", "uname", "wait4",
    /* signals; tgkill() is below */
    "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn", "rt_sigsuspend",
    "rt_sigtimedwait", "sigaltstack",
    /* time and chance */
    "alarm", "setitimer", "clock_getres", "clock_gettime", "clock_nanosleep", "getcpu", "getrandom",
    "gettimeofday", "nanosleep", "time",
    /* waiting */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "epoll_wait",
    "eventfd2", "poll", "ppoll", "pselect6", "select",
    /* connections; socket() is below, ports are Landlock's */
    "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen",
    "recvfrom", "recvmmsg", "recvmsg", "setsockopt", "shutdown"};

/* The runtimes of the sanitizers look into the process at its end, and report from a child. */
static const char *const for_sanitizers[] = {
    "clone", "getdents", "kill", "personality", "prctl", "process_vm_readv", "ptrace", "wait4",
};

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER true
#else
#define HAS_SANITIZER false
#endif

/* Once an error, for ever that error: what follows does nothing. */
struct builder {
    scmp_filter_ctx ctx;
    int error; /* negative, as libseccomp has them */
};

static void allow(struct builder *b, const char *name, unsigned num_args,
                  const struct scmp_arg_cmp *args)
{
    const int number = seccomp_syscall_resolve_name(name);
    if (!b->error && number != __NR_SCMP_ERROR)
        b->error = seccomp_rule_add_array(b->ctx, SCMP_ACT_ALLOW, number, num_args, args);
}

static void allow_all(struct builder *b, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        allow(b, names[i], 0, NULL);
}

static void allow_if(struct builder *b, const char *name, struct scmp_arg_cmp arg)
{
    allow(b, name, 1, &arg);
}

/* Threads, and no processes. */
static void allow_threads(struct builder *b)
{
    allow_if(b, "clone", SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD));
    allow_if(b, "tgkill", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid())); /* abort() */
    allow_if(b, "prlimit64", SCMP_A0(SCMP_CMP_EQ, 0));
    static const int own[] = {PR_SET_NAME, PR_GET_NAME, PR_GET_DUMPABLE, PR_SET_VMA};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(own); i++)
        allow_if(b, "prctl", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)own[i]));
}

/* Memory is code or can be written to, and what could be written to never becomes code.  Shared
 * libraries map as code what they read. */
static void allow_memory(struct builder *b)
{
    allow_if(b, "mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    allow_if(b, "mmap", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC | PROT_WRITE, PROT_EXEC));
    allow_if(b, "mprotect", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
}

/* Allowed for the calling thread, which all of them name 0; for other processes if they may be set.
 */
static void allow_priorities(struct builder *b, bool may_be_others)
{
    static const struct {
        const char *name;
        unsigned who; /* the argument that says whose */
    } calls[] = {
        {"ioprio_set", 1}, {"sched_setaffinity", 0}, {"sched_setscheduler", 0}, {"setpriority", 1}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(calls); i++) {
        const struct scmp_arg_cmp own = {calls[i].who, SCMP_CMP_EQ, 0, 0};
        allow(b, calls[i].name, may_be_others ? 0 : 1, &own);
    }
}

/* MSG_FASTOPEN connects without connect(), past Landlock's list of ports. */
static void allow_sending(struct builder *b)
{
    allow_if(b, "sendto", SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
    allow_if(b, "sendmsg", SCMP_A2(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
    allow_if(b, "sendmmsg", SCMP_A3(SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0));
}

/* TCP, and the kernel's list of this machine's addresses; UDP and Unix sockets if they may be used.
 * No other protocol: Landlock knows no ports of MPTCP. */
static void allow_sockets(struct builder *b, const struct sluice_syscall_filter *filter)
{
    static const int families[] = {AF_INET, AF_INET6};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(families); i++) {
        const int protocols[][2] = {{SOCK_STREAM, 0},
                                    {SOCK_STREAM, IPPROTO_TCP},
                                    {SOCK_DGRAM, 0},
                                    {SOCK_DGRAM, IPPROTO_UDP}};
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(protocols); k++) {
            const struct scmp_arg_cmp args[] = {
                SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)families[i]),
                SCMP_A1(SCMP_CMP_MASKED_EQ, 0xf, (scmp_datum_t)protocols[k][0]),
                SCMP_A2(SCMP_CMP_EQ, (scmp_datum_t)protocols[k][1]),
            };
            if (protocols[k][0] == SOCK_STREAM || filter->may_use_udp)
                allow(b, "socket", 3, args);
        }
    }
    if (filter->may_use_unix_sockets)
        allow_if(b, "socket", SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    allow_if(b, "socketpair", SCMP_A0(SCMP_CMP_EQ, AF_UNIX));
    const struct scmp_arg_cmp route[] = {
        SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
        SCMP_A2(SCMP_CMP_EQ, 0 /* NETLINK_ROUTE */),
    };
    allow(b, "socket", 2, route);
}

static void allow_controls(struct builder *b)
{
    static const unsigned long controls[] = {FIONREAD, FIONBIO, TCGETS, TIOCGWINSZ};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(controls); i++)
        allow_if(b, "ioctl", SCMP_A1(SCMP_CMP_EQ, controls[i]));
}

/* The C library then calls clone(), whose flags can be seen. */
static void hide_clone3(struct builder *b)
{
    const int number = seccomp_syscall_resolve_name("clone3");
    if (!b->error && number != __NR_SCMP_ERROR)
        b->error = seccomp_rule_add(b->ctx, SCMP_ACT_ERRNO(ENOSYS), number, 0);
}

/* Frees the builder. */
static sluice_status load(struct builder *b, struct sluice_err *err)
{
    if (!b->error)
        b->error = seccomp_load(b->ctx);
    seccomp_release(b->ctx);
    return b->error ? sluice_fail(err, SLUICE_E_IO, "seccomp: %s", strerror(-b->error)) : SLUICE_OK;
}

bool sluice_syscall_filter_is_possible(void)
{
    const uint32_t action = SECCOMP_RET_ERRNO;
    return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

sluice_status sluice_syscall_filter_install(const struct sluice_syscall_filter *filter,
                                            struct sluice_err *err)
{
    struct builder b = {.ctx = seccomp_init(SCMP_ACT_ERRNO(EPERM))};
    if (!b.ctx)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a seccomp filter");
    b.error = seccomp_attr_set(b.ctx, SCMP_FLTATR_CTL_TSYNC, 1);
    /* A binary tree by number in place of a list: some 5 comparisons instead of 120 a call. */
    if (!b.error)
        b.error = seccomp_attr_set(b.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    allow_all(&b, allowed, SLUICE_ARRAY_LEN(allowed));
    allow_threads(&b);
    allow_memory(&b);
    allow_priorities(&b, filter->may_set_priorities);
    allow_sockets(&b, filter);
    allow_sending(&b);
    allow_controls(&b);
    if (filter->may_make_memory_files) {
        static const char *const files[] = {"memfd_create", "ftruncate"};
        allow_all(&b, files, SLUICE_ARRAY_LEN(files));
    }
    if (filter->may_rename) {
        static const char *const renames[] = {"rename", "renameat", "renameat2"};
        allow_all(&b, renames, SLUICE_ARRAY_LEN(renames));
    }
    if (HAS_SANITIZER)
        allow_all(&b, for_sanitizers, SLUICE_ARRAY_LEN(for_sanitizers));
    hide_clone3(&b);
    return load(&b, err);
}

/* malloc, abort(), and the clock of the decoders' budget. */
static const char *const of_decoders[] = {
    "brk",          "clock_gettime",  "exit",        "exit_group",      "futex",  "getpid",
    "getrandom",    "gettid",         "madvise",     "mremap",          "munmap", "rt_sigaction",
    "rt_sigreturn", "rt_sigprocmask", "sched_yield", "restart_syscall",
};

sluice_status sluice_syscall_filter_install_decoder(int socket, struct sluice_err *err)
{
    struct builder b = {
        .ctx = seccomp_init(HAS_SANITIZER ? SCMP_ACT_ERRNO(EPERM) : SCMP_ACT_KILL_PROCESS)};
    if (!b.ctx)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a seccomp filter");
    b.error = seccomp_attr_set(b.ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    allow_all(&b, of_decoders, SLUICE_ARRAY_LEN(of_decoders));
    allow_if(&b, "read", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)socket));
    allow_if(&b, "write", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)socket));
    allow_if(&b, "tgkill", SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)getpid()));
    allow_if(&b, "mprotect", SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0));
    const struct scmp_arg_cmp memory[] = {
        SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, 0),
        SCMP_A3(SCMP_CMP_MASKED_EQ, MAP_ANONYMOUS, MAP_ANONYMOUS),
    };
    allow(&b, "mmap", 2, memory);
    if (HAS_SANITIZER) {
        allow_all(&b, for_sanitizers, SLUICE_ARRAY_LEN(for_sanitizers));
        allow(&b, "sigaltstack", 0, NULL);
        allow_if(&b, "write", SCMP_A0(SCMP_CMP_EQ, STDERR_FILENO));
    } else if (!b.error) {
        /* malloc's last words before abort(), for which it would else end as for a crime. */
        b.error = seccomp_rule_add(b.ctx, SCMP_ACT_ERRNO(EBADF), SCMP_SYS(writev), 0);
    }
    return load(&b, err);
}
