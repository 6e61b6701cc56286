#include "storage_server/isolation/sandbox.h"

#include "storage_server/isolation/landlock.h"
#include "storage_server/isolation/syscall_filter.h"
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1 /* their runtimes may do more */
#else
#define HAS_SANITIZER 0
#endif

static void make_files(void)
{
    static const char *const files[] = {"data/root/image", "data/secret", "lists/list",
                                        "elsewhere/file"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(files); i++)
        sluice_test_put_text(sluice_test_dir(), files[i], "text");
}

static struct sluice_server_options options_of(const char *mode)
{
    static char root[600], list[600], listen[64];
    struct sluice_server_options options = sluice_server_options_init();
    snprintf(root, sizeof(root), "%s", sluice_test_path("data/root"));
    snprintf(list, sizeof(list), "%s", sluice_test_path("lists/list"));
    snprintf(listen, sizeof(listen), "127.0.0.1:%d", sluice_test_port());
    options.roots = sluice_roots_one(root);
    options.manifest = list;
    options.listen = listen;
    options.sandbox = mode;
    return options;
}

/* --- what is tried: each returns 0 or an errno --- */

static int try_open(const char *path, int flags)
{
    const int fd = open(sluice_test_path(path), flags | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_root(void)
{
    return try_open("data/root/image", O_RDONLY);
}

static int try_root_folder(void)
{
    return try_open("data/root", O_RDONLY | O_DIRECTORY);
}

static int try_list(void)
{
    return try_open("lists/list", O_RDONLY);
}

static int try_sibling(void)
{
    return try_open("data/secret", O_RDONLY);
}

static int try_outside(void)
{
    return try_open("elsewhere/file", O_RDONLY);
}

static int try_accounts(void)
{
    const int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_write(void)
{
    return try_open("data/root/image", O_WRONLY);
}

static int try_create(void)
{
    return try_open("data/root/new", O_WRONLY | O_CREAT);
}

static int try_remove(void)
{
    return unlink(sluice_test_path("data/root/image")) == 0 ? 0 : errno;
}

static int try_own_memory(void)
{
    const int fd = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_own_status(void)
{
    const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_program(void)
{
    char *const arguments[] = {"true", NULL};
    execv("/bin/true", arguments);
    return errno;
}

static int try_process(void)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    return pid > 0 ? 0 : errno;
}

static int try_ptrace(void)
{
    return ptrace(PTRACE_TRACEME, 0, NULL, NULL) == 0 ? 0 : errno;
}

static int try_signal(void)
{
    return kill(getppid(), 0) == 0 ? 0 : errno;
}

static int try_chroot(void)
{
    return chroot("/") == 0 ? 0 : errno;
}

static int try_code(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0 ? 0 : errno;
}

static int try_code_at_once(void)
{
    return mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                0) != MAP_FAILED
               ? 0
               : errno;
}

static void *do_nothing(void *ctx)
{
    return ctx;
}

static int try_thread(void)
{
    pthread_t thread;
    const int error = pthread_create(&thread, NULL, do_nothing, NULL);
    return error ? error : pthread_join(thread, NULL);
}

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons((uint16_t)port)};
}

static int tcp_socket(void)
{
    return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

/* Before the sandbox: a port of another server, and the own one. */
static int others_port, own_port;

static int listen_somewhere(int *port)
{
    struct sockaddr_in address = local(0);
    socklen_t len = sizeof(address);
    const int fd = tcp_socket();
    CU_ASSERT_EQUAL_FATAL(bind(fd, (struct sockaddr *)&address, len), 0);
    CU_ASSERT_EQUAL_FATAL(listen(fd, 4), 0);
    CU_ASSERT_EQUAL_FATAL(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

static int try_connect_to(int port)
{
    const struct sockaddr_in address = local(port);
    const int fd = tcp_socket();
    const int error =
        connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return error;
}

static int try_connect(void)
{
    return try_connect_to(others_port);
}

/* Nobody listens there: that is as good as an answer. */
static int try_connect_to_itself(void)
{
    const int error = try_connect_to(own_port);
    return error == ECONNREFUSED ? 0 : error;
}

static int try_bind_to(int port)
{
    const struct sockaddr_in address = local(port);
    const int fd = tcp_socket(), one = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    const int error = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return error == EADDRINUSE ? 0 : error;
}

static int try_bind(void)
{
    return try_bind_to(others_port);
}

static int try_bind_own(void)
{
    return try_bind_to(own_port);
}

static int try_udp(void)
{
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_mptcp(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 262 /* IPPROTO_MPTCP */);
    if (fd < 0)
        return errno == EPROTONOSUPPORT || errno == ENOPROTOOPT
                   ? 0
                   : errno; /* no MPTCP in this kernel */
    close(fd);
    return 0;
}

static int try_fast_open(void)
{
    const struct sockaddr_in address = local(others_port);
    const int fd = tcp_socket();
    const ssize_t sent = sendto(fd, "x", 1, MSG_FASTOPEN | MSG_NOSIGNAL,
                                (const struct sockaddr *)&address, sizeof(address));
    const int error = sent == 1 ? 0 : errno;
    close(fd);
    return error == EOPNOTSUPP ? 0 : error; /* it is switched off */
}

static int try_unix_socket(void)
{
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

static int try_affinity_of(pid_t pid)
{
    cpu_set_t set;
    if (sched_getaffinity(pid, sizeof(set), &set) != 0)
        return errno;
    return sched_setaffinity(pid, sizeof(set), &set) == 0 ? 0 : errno;
}

static int try_affinity_of_another(void)
{
    return try_affinity_of(getppid());
}

static int try_own_affinity(void)
{
    return try_affinity_of(0);
}

static int try_nice_of(pid_t pid)
{
    return setpriority(PRIO_PROCESS, (id_t)pid, 19) == 0 ? 0 : errno;
}

static int try_nice_of_another(void)
{
    const pid_t pid = getppid();
    errno = 0;
    const int now = getpriority(PRIO_PROCESS, (id_t)pid);
    return errno ? errno : setpriority(PRIO_PROCESS, (id_t)pid, now) == 0 ? 0 : errno;
}

static int try_own_nice(void)
{
    return try_nice_of(0);
}

/* --- in a process of its own --- */

#define NOT_ENTERED 255

/* What `probe` returns within the sandbox of the options. */
static int within(const struct sluice_server_options *options, int (*probe)(void))
{
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        struct sluice_err err = {0};
        if (sluice_sandbox_begin(&err) != SLUICE_OK ||
            sluice_sandbox_enter(options, NULL, &err) != SLUICE_OK) {
            fprintf(stderr, "%s\n", err.text);
            _exit(NOT_ENTERED);
        }
        _exit(probe());
    }
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_FATAL(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct attempt {
    const char *name;
    int (*probe)(void);
    int expected; /* errno in the sandbox */
};

static void check(const struct attempt *attempts, size_t count,
                  const struct sluice_server_options *options)
{
    make_files();
    const int other = listen_somewhere(&others_port);
    own_port = atoi(strchr(options->listen, ':') + 1);
    for (size_t i = 0; i < count; i++) {
        const int got = within(options, attempts[i].probe);
        if (got != attempts[i].expected)
            printf("%s: %d (%s), not %d\n", attempts[i].name, got, strerror(got),
                   attempts[i].expected);
        CU_ASSERT_EQUAL(got, attempts[i].expected);
        make_files();
    }
    close(other);
}

/* What a cache does: a new file, another name for it, and its end. */
static int use_folder(const char *folder)
{
    char from[512], to[512];
    snprintf(from, sizeof(from), "%s/new", sluice_test_path(folder));
    snprintf(to, sizeof(to), "%s/kept", sluice_test_path(folder));
    const int fd = open(from, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    close(fd);
    return rename(from, to) == 0 && unlink(to) == 0 ? 0 : errno;
}

static int try_cache(void)
{
    return use_folder("elsewhere");
}

static int try_root_as_cache(void)
{
    return use_folder("data/root");
}

static int try_rename(void)
{
    return rename(sluice_test_path("data/root/image"), sluice_test_path("data/root/kept")) == 0
               ? 0
               : errno;
}

static const struct attempt needed[] = {
    {"image", try_root, 0},        {"folder", try_root_folder, 0},
    {"list", try_list, 0},         {"status", try_own_status, 0},
    {"thread", try_thread, 0},     {"itself", try_connect_to_itself, 0},
    {"own port", try_bind_own, 0},
};

static const struct attempt files[] = {
    {"outside", try_outside, EACCES}, {"accounts", try_accounts, EACCES},
    {"write", try_write, EACCES},     {"create", try_create, EACCES},
    {"remove", try_remove, EACCES},   {"own memory", try_own_memory, EACCES},
};

static const struct attempt ports[] = {
    {"connect", try_connect, EACCES},
    {"bind", try_bind, EACCES},
};

static const struct attempt calls[] = {
    {"program", try_program, EPERM}, {"chroot", try_chroot, EPERM},
    {"code", try_code, EPERM},       {"code at once", try_code_at_once, EPERM},
    {"udp", try_udp, EPERM},
#if !HAS_SANITIZER
    {"process", try_process, EPERM}, {"ptrace", try_ptrace, EPERM},
    {"signal", try_signal, EPERM},
#endif
};

static bool has_landlock(void)
{
    return sluice_landlock_abi() > 0;
}

static bool has_ports(void)
{
    return sluice_landlock_abi() >= SLUICE_LANDLOCK_TCP_ABI;
}

TEST(what_serving_needs_stays)
{
    const struct sluice_server_options options = options_of("auto");
    check(needed, SLUICE_ARRAY_LEN(needed), &options);
}

TEST(other_files_are_out_of_reach)
{
    const struct sluice_server_options options = options_of("auto");
    if (has_landlock())
        check(files, SLUICE_ARRAY_LEN(files), &options);
}

TEST(a_cache_can_be_written_and_nothing_else)
{
    struct sluice_server_options options = options_of("auto");
    static const struct attempt cached[] = {
        {"cache", try_cache, 0},
        {"root", try_root_as_cache, EACCES},
        {"rename", try_rename, EACCES},
    };
    static const struct attempt renames[] = {{"rename", try_rename, EPERM}};
    if (sluice_syscall_filter_is_possible())
        check(renames, SLUICE_ARRAY_LEN(renames), &options);
    options.cache = sluice_test_path("elsewhere");
    if (has_landlock())
        check(cached, SLUICE_ARRAY_LEN(cached), &options);
}

TEST(other_ports_are_out_of_reach)
{
    const struct sluice_server_options options = options_of("auto");
    if (has_ports())
        check(ports, SLUICE_ARRAY_LEN(ports), &options);
}

TEST(other_calls_fail)
{
    const struct sluice_server_options options = options_of("auto");
    if (sluice_syscall_filter_is_possible())
        check(calls, SLUICE_ARRAY_LEN(calls), &options);
}

/* The probes find what they look for where nothing is in the way. */
TEST(off_leaves_everything)
{
    const struct sluice_server_options options = options_of("off");
    const struct {
        const struct attempt *attempts;
        size_t count;
    } all[] = {{needed, SLUICE_ARRAY_LEN(needed)},
               {files, SLUICE_ARRAY_LEN(files)},
               {ports, SLUICE_ARRAY_LEN(ports)},
               {calls, SLUICE_ARRAY_LEN(calls)}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(all); i++) {
        for (size_t k = 0; k < all[i].count; k++) {
            struct attempt attempt = all[i].attempts[k];
            attempt.expected = 0;
            if (attempt.probe != try_chroot || geteuid() == 0)
                check(&attempt, 1, &options);
        }
    }
}

TEST(names_may_be_looked_up_if_there_are_any)
{
    struct sluice_server_options options = options_of("auto");
    static char listen[64];
    snprintf(listen, sizeof(listen), "localhost%s", strchr(options.listen, ':'));
    options.listen = listen;
    if (sluice_syscall_filter_is_possible()) {
        CU_ASSERT_EQUAL(within(&options, try_udp), 0);
    }
}

/* The rules are made before, the file is put there afterwards, as an index is. */
static int go_pipe[2];

static int try_list_when_told(void)
{
    char byte;
    return read(go_pipe[0], &byte, 1) == 1 ? try_list() : EIO;
}

static int try_root_when_told(void)
{
    char byte;
    return read(go_pipe[0], &byte, 1) == 1 ? try_root() : EIO;
}

/* Enters the sandbox in a child, replaces `path` by `with`, and lets the child try. */
static int after_replacing(const struct sluice_server_options *options, const char *path,
                           const char *with, int (*probe)(void))
{
    int entered[2];
    CU_ASSERT_EQUAL_FATAL(pipe(go_pipe), 0);
    CU_ASSERT_EQUAL_FATAL(pipe(entered), 0);
    const pid_t pid = fork();
    CU_ASSERT_FATAL(pid >= 0);
    if (pid == 0) {
        if (sluice_sandbox_begin(NULL) != SLUICE_OK ||
            sluice_sandbox_enter(options, NULL, NULL) != SLUICE_OK)
            _exit(NOT_ENTERED);
        (void)!write(entered[1], "x", 1);
        _exit(probe());
    }
    char byte;
    close(entered[1]);
    CU_ASSERT_EQUAL_FATAL(read(entered[0], &byte, 1), 1);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path(path), sluice_test_path("elsewhere/old")), 0);
    CU_ASSERT_EQUAL_FATAL(rename(sluice_test_path(with), sluice_test_path(path)), 0);
    CU_ASSERT_EQUAL_FATAL(write(go_pipe[1], "x", 1), 1);
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    close(entered[0]);
    close(go_pipe[0]);
    close(go_pipe[1]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A list, a key, tokens: whatever has its name later. */
TEST(a_file_that_is_replaced_is_read)
{
    const struct sluice_server_options none = options_of("auto");
    for (int i = 0; i < 6; i++) {
        struct sluice_server_options options = none;
        const char **names[] = {&options.manifest,      &options.tls_cert, &options.tls_key,
                                &options.tls_client_ca, &options.tokens,   &options.jpeg_index};
        options.manifest = NULL;
        *names[i] = none.manifest;
        make_files();
        CU_ASSERT_EQUAL(
            after_replacing(&options, "lists/list", "elsewhere/file", try_list_when_told), 0);
        CU_ASSERT_EQUAL(unlink(sluice_test_path("elsewhere/old")), 0);
    }
    struct sluice_server_options options = none;
    options.manifest = NULL;
    make_files();
    if (has_landlock()) {
        CU_ASSERT_EQUAL(within(&options, try_list), EACCES);
    }
}

TEST(a_root_that_is_replaced_is_read_unless_it_is_on)
{
    make_files();
    sluice_test_put_text(sluice_test_dir(), "elsewhere/root/image", "text");
    struct sluice_server_options options = options_of("auto");
    CU_ASSERT_EQUAL(after_replacing(&options, "data/root", "elsewhere/root", try_root_when_told),
                    0);
    CU_ASSERT_EQUAL(within(&options, try_sibling), 0);
    if (!has_ports() || !sluice_syscall_filter_is_possible())
        return;
    options.sandbox = "on";
    CU_ASSERT_EQUAL(within(&options, try_sibling), EACCES);
    CU_ASSERT_EQUAL(rename(sluice_test_path("elsewhere/old"), sluice_test_path("elsewhere/root")),
                    0);
    CU_ASSERT_EQUAL(after_replacing(&options, "data/root", "elsewhere/root", try_root_when_told),
                    EACCES);
}

TEST(on_is_everything_or_an_error)
{
    make_files();
    struct sluice_server_options options = options_of("on");
    const bool has_all = has_ports() && sluice_syscall_filter_is_possible();
    CU_ASSERT_EQUAL(within(&options, try_root), has_all ? 0 : NOT_ENTERED);
    options.listen = "127.0.0.1:0";
    CU_ASSERT_EQUAL(within(&options, try_root), NOT_ENTERED);
    options.self_check_s = 0; /* then it connects to nobody */
    CU_ASSERT_EQUAL(within(&options, try_root), has_all ? 0 : NOT_ENTERED);
    if (has_all) {
        CU_ASSERT_EQUAL(within(&options, try_connect), EACCES);
    }
}

TEST(ways_around_the_ports_and_other_processes_are_closed)
{
    static const struct attempt attempts[] = {
        {"MPTCP", try_mptcp, EPERM},
        {"MSG_FASTOPEN", try_fast_open, EPERM},
        {"a Unix socket", try_unix_socket, EPERM},
        {"another's affinity", try_affinity_of_another, EPERM},
        {"another's nice value", try_nice_of_another, EPERM},
        {"its own affinity", try_own_affinity, 0},
        {"its own nice value", try_own_nice, 0},
    };
    struct sluice_server_options options = options_of("auto");
    if (sluice_syscall_filter_is_possible())
        check(attempts, sizeof(attempts) / sizeof(*attempts), &options);
    options.isolates_decoders = true;
    CU_ASSERT_EQUAL(within(&options, try_affinity_of_another), 0);
    CU_ASSERT_EQUAL(within(&options, try_nice_of_another), 0);
}

static int try_unix_listener(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", sluice_test_path("lists/socket"));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return errno;
    const int error = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 ? 0 : errno;
    close(fd);
    return error ? error : unlink(address.sun_path) == 0 ? 0 : errno;
}

TEST(a_unix_socket_can_be_made_where_it_is_asked_for)
{
    make_files();
    static char listen[600];
    struct sluice_server_options options = options_of("auto");
    if (sluice_syscall_filter_is_possible()) {
        CU_ASSERT_EQUAL(within(&options, try_unix_listener), EPERM);
    } else if (has_landlock()) {
        CU_ASSERT_EQUAL(within(&options, try_unix_listener), EACCES);
    }
    snprintf(listen, sizeof(listen), "unix:%s", sluice_test_path("lists/socket"));
    options.listen = listen;
    CU_ASSERT_EQUAL(within(&options, try_unix_listener), 0);
}

/* What an older kernel has, as far as this one can show it. */
TEST(every_version_of_landlock_will_do)
{
    make_files();
    const struct sluice_landlock_path root = {sluice_test_path("data"), SLUICE_LANDLOCK_READ};
    const uint16_t port = 1;
    const struct sluice_landlock_rules rules = {
        .paths = &root, .num_paths = 1, .bind = &port, .num_bind = 1};
    for (unsigned abi = 1; abi <= sluice_landlock_abi(); abi++) {
        const pid_t pid = fork();
        if (pid == 0)
            _exit(sluice_sandbox_begin(NULL) == SLUICE_OK &&
                          sluice_landlock_restrict(&rules, abi, NULL) == SLUICE_OK &&
                          try_root() == 0 && try_outside() == EACCES &&
                          (try_connect_to(9) == EACCES) == (abi >= SLUICE_LANDLOCK_TCP_ABI)
                      ? 0
                      : 1);
        int status = 0;
        CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
        CU_ASSERT_EQUAL(status, 0);
    }
}

static void *read_when_told(void *ctx)
{
    char byte;
    int *error = ctx;
    *error = read(go_pipe[0], &byte, 1) == 1 ? try_program() : EIO;
    return NULL;
}

/* Threads that were there before have the filter, too. */
TEST(all_threads_have_the_filter)
{
    if (!sluice_syscall_filter_is_possible())
        return;
    CU_ASSERT_EQUAL_FATAL(pipe(go_pipe), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        const struct sluice_syscall_filter filter = {0};
        pthread_t thread;
        int error = 0;
        if (pthread_create(&thread, NULL, read_when_told, &error) != 0 ||
            sluice_sandbox_begin(NULL) != SLUICE_OK ||
            sluice_syscall_filter_install(&filter, NULL) != SLUICE_OK ||
            write(go_pipe[1], "x", 1) != 1 || pthread_join(thread, NULL) != 0)
            _exit(NOT_ENTERED);
        _exit(error);
    }
    int status = 0;
    CU_ASSERT_EQUAL_FATAL(waitpid(pid, &status, 0), pid);
    CU_ASSERT_EQUAL(WEXITSTATUS(status), EPERM);
    close(go_pipe[0]);
    close(go_pipe[1]);
}
