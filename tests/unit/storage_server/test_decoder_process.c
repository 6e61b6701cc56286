#include "storage_server/isolation/decoder_process.h"

#include "storage_server/isolation/decoders.h"
#include "storage_server/isolation/landlock.h"
#include "storage_server/isolation/syscall_filter.h"
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER 1 /* their runtimes may do more */
#else
#define HAS_SANITIZER 0
#endif

/* --- the filter --- */

static int own_socket;

static void nothing(void)
{
}

static void allocate(void)
{
    for (size_t len = 1; len < (size_t)64 << 20; len *= 3) {
        volatile char *memory = malloc(len);
        memory[0] = memory[len - 1] = 1;
        free((void *)memory);
    }
}

static void talk(void)
{
    char byte = 1;
    (void)!write(own_socket, &byte, 1);
    (void)!read(own_socket, &byte, 1);
}

static void open_file(void)
{
    (void)!open("/etc/passwd", O_RDONLY | O_CLOEXEC);
}

static void open_socket(void)
{
    (void)!socket(AF_INET, SOCK_STREAM, 0);
}

static void open_unix_socket(void)
{
    (void)!socket(AF_UNIX, SOCK_STREAM, 0);
}

static void fork_itself(void)
{
    if (fork() == 0)
        _exit(0);
}

static void start_program(void)
{
    char *const arguments[] = {"true", NULL};
    execv("/bin/true", arguments);
}

static void kill_parent(void)
{
    kill(getppid(), 0);
}

static void make_code(void)
{
    (void)!mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void map_file(void)
{
    (void)!mmap(NULL, 4096, PROT_READ, MAP_SHARED, own_socket, 0);
}

static void read_another(void)
{
    char byte;
    (void)!read(own_socket + 1, &byte, 1);
}

static void write_another(void)
{
    (void)!write(own_socket + 1, "x", 1);
}

static void send_descriptor(void)
{
    char byte = 0;
    struct iovec part = {&byte, 1};
    const struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    (void)!sendmsg(own_socket, &message, MSG_NOSIGNAL);
}

static void trace(void)
{
    prctl(PR_SET_DUMPABLE, 1);
}

static void raise_limit(void)
{
    const struct rlimit limit = {1, 1};
    setrlimit(RLIMIT_DATA, &limit);
}

/* How a process ends that does this within the filter. */
static int try_in_filter(void (*deed)(void))
{
    int pair[2];
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
    CU_ASSERT_EQUAL(write(pair[1], "x", 1), 1);
    own_socket = pair[0];
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGSYS, SIG_DFL);
        if (sluice_syscall_filter_install_decoder(own_socket, NULL) != SLUICE_OK)
            _exit(2);
        deed();
        _exit(0);
    }
    int wait_status = -1;
    CU_ASSERT_EQUAL(waitpid(pid, &wait_status, 0), pid);
    close(pair[0]);
    close(pair[1]);
    return wait_status;
}

TEST(it_may_allocate_talk_and_end)
{
    static void (*const deeds[])(void) = {nothing, allocate, talk};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(deeds); i++) {
        const int wait_status = try_in_filter(deeds[i]);
        CU_ASSERT_TRUE(WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0);
    }
}

TEST(abort_ends_it_as_such)
{
    const int wait_status = try_in_filter(abort);
    CU_ASSERT_TRUE(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGABRT);
}

TEST(all_else_ends_it)
{
    static void (*const deeds[])(void) = {
        open_file,       open_socket, open_unix_socket, fork_itself,  start_program,
        kill_parent,     make_code,   map_file,         read_another, write_another,
        send_descriptor, trace,       raise_limit,
    };
    for (size_t i = 0; !HAS_SANITIZER && i < SLUICE_ARRAY_LEN(deeds); i++) {
        const int wait_status = try_in_filter(deeds[i]);
        CU_ASSERT_TRUE(WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGSYS);
        if (!WIFSIGNALED(wait_status))
            printf("deed %zu: %d\n", i, wait_status);
    }
}

/* --- a decoder, as /proc shows it --- */

static struct sluice_decoders *decoders;

static struct sluice_decoder *create(uint64_t memory_bytes, struct sluice_err *err)
{
    struct sluice_decoder_options options = {
        .decoders = decoders,
        .limits = sluice_decoder_limits_for(1000000, 1 << 20, 64 << 20),
        .timeout_ns = UINT64_C(600000000000),
    };
    if (memory_bytes)
        options.limits.memory_bytes = memory_bytes;
    struct sluice_decoder *decoder = NULL;
    (void)!sluice_decoder_create(&options, &decoder, err);
    return decoder;
}

/* The value of a line "name:\tvalue" of its status. */
static void read_field(pid_t pid, const char *name, char *value, size_t room)
{
    char path[64], line[512];
    snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    FILE *file = fopen(path, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    value[0] = '\0';
    const size_t len = strlen(name);
    while (fgets(line, sizeof(line), file)) {
        if (strncmp(line, name, len) == 0 && line[len] == ':')
            snprintf(value, room, "%.*s", (int)strcspn(line + len + 2, "\n"), line + len + 2);
    }
    fclose(file);
}

TEST(it_has_given_up_what_it_does_not_need)
{
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_decoder_process_open(sluice_decoder_process_serve, &decoders, NULL));
    struct sluice_decoder *decoder = create(0, &err);
    CU_ASSERT_PTR_NOT_NULL_FATAL(decoder);
    const pid_t pid = sluice_decoder_pid(decoder);
    char value[512], path[64];
    read_field(pid, "Name", value, sizeof(value));
    CU_ASSERT_STRING_EQUAL(value, "decoder");
    read_field(pid, "NoNewPrivs", value, sizeof(value));
    CU_ASSERT_STRING_EQUAL(value, "1");
    read_field(pid, "Seccomp", value, sizeof(value));
    CU_ASSERT_STRING_EQUAL(value, sluice_syscall_filter_is_possible() ? "2" : "0");
    read_field(pid, "Threads", value, sizeof(value));
    if (!HAS_SANITIZER)
        CU_ASSERT_STRING_EQUAL(value, "1");
    for (int fd = 0; fd < 64; fd++) { /* its socket alone */
        snprintf(path, sizeof(path), "/proc/%ld/fd/%d", (long)pid, fd);
        const bool is_open = readlink(path, value, sizeof(value)) > 0;
        CU_ASSERT_EQUAL(is_open, fd == 0 || (HAS_SANITIZER && fd == 2));
    }
    snprintf(path, sizeof(path), "/proc/%ld/oom_score_adj", (long)pid);
    FILE *file = fopen(path, "re");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    int score = 0;
    CU_ASSERT_EQUAL(fscanf(file, "%d", &score), 1);
    CU_ASSERT(score >= 500);
    fclose(file);
    struct rlimit core, data;
    CU_ASSERT_EQUAL(prlimit(pid, RLIMIT_CORE, NULL, &core), 0);
    CU_ASSERT_EQUAL(core.rlim_max, 0);
    CU_ASSERT_EQUAL(prlimit(pid, RLIMIT_DATA, NULL, &data), 0);
    CU_ASSERT(HAS_SANITIZER || data.rlim_max < (rlim_t)1 << 30);
    /* Asking it to end is for the server. */
    CU_ASSERT_EQUAL(kill(pid, SIGTERM), 0);
    CU_ASSERT_EQUAL(kill(pid, SIGINT), 0);
    CU_ASSERT_EQUAL(kill(pid, SIGHUP), 0);
    CU_ASSERT_EQUAL(sluice_decoders_count(decoders).running, 1);
    sluice_decoder_destroy(decoder);
    decoder = create(0, &err);
    CU_ASSERT_PTR_NOT_NULL(decoder);
    sluice_decoder_destroy(decoder);
    sluice_decoders_close(decoders);
}

/* Says whether it could allocate what it should not, as its exit code. */
static void take_memory(int socket, uint8_t *region, const struct sluice_decoder_limits *limits)
{
    (void)socket, (void)region;
    void *some = malloc((size_t)limits->memory_bytes / 2);
    void *much = malloc((size_t)limits->memory_bytes + (1 << 20));
    _exit(some && !much ? 42 : 43);
}

TEST(its_memory_is_limited)
{
    if (HAS_SANITIZER) /* whose shadow would count */
        return;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_decoder_process_open(take_memory, &decoders, NULL));
    CU_ASSERT_PTR_NULL(create(100 << 20, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "exited with code 42"));
    sluice_decoders_close(decoders);
}

/* Landlock alone, as these decoders install no filter. */
static void look_for_files(int socket, uint8_t *region, const struct sluice_decoder_limits *limits)
{
    (void)socket, (void)region, (void)limits;
    _exit(open("/etc/passwd", O_RDONLY | O_CLOEXEC) < 0 && errno == EACCES ? 42 : 43);
}

TEST(without_a_filter_it_still_has_no_files)
{
    if (sluice_landlock_abi() == 0)
        return;
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_decoder_process_open(look_for_files, &decoders, NULL));
    CU_ASSERT_PTR_NULL(create(0, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "exited with code 42"));
    sluice_decoders_close(decoders);
}

/* A region that could shrink would end the server: its descriptor is sealed, and it is gone. */
static void look_for_the_region(int socket, uint8_t *region,
                                const struct sluice_decoder_limits *limits)
{
    (void)socket;
    region[limits->in_room + limits->out_room - 1] = 1;
    for (int fd = 1; fd < 64; fd++) {
        if (fd != 2 && fcntl(fd, F_GETFD) >= 0)
            _exit(43);
    }
    _exit(42);
}

TEST(it_has_no_descriptor_of_the_region)
{
    struct sluice_err err = {0};
    REQUIRE_OK(sluice_decoder_process_open(look_for_the_region, &decoders, NULL));
    CU_ASSERT_PTR_NULL(create(0, &err));
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "exited with code 42"));
    sluice_decoders_close(decoders);
}

int main(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return 1;
    if (!sluice_syscall_filter_is_possible())
        sluice_test_skip("this kernel has no seccomp filters");
    return sluice_test_main();
}
