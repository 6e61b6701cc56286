/* To preload into offload_server --isolate-decoders: its decoder processes do what a file asks for
 * that has the words "sluice-test-decoder:DEED" in its first 4 kB (a comment of a JPEG).
 *
 *     crash     SIGSEGV
 *     hang      waits for ever
 *     memory    allocates until there is no more, and goes on
 *     open      opens a file
 *     socket    opens a socket
 *     lie       answers nothing that anybody asked for */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

static const char mark[] = "sluice-test-decoder:";

static const char *region;
static int is_decoder;

static void find_next(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof(found)); /* C has no cast between the two */
}

void *mmap(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next)
        find_next("mmap", (void *)&next);
    void *mapped = next(at, len, protection, flags, fd, offset);
    if (mapped != MAP_FAILED && (flags & MAP_SHARED) && fd >= 0 && (protection & PROT_WRITE))
        region = mapped;
    return mapped;
}

int prctl(int what, ...)
{
    int (*next)(int, ...);
    find_next("prctl", (void *)&next);
    unsigned long arguments[4];
    va_list list;
    va_start(list, what);
    for (int i = 0; i < 4; i++)
        arguments[i] = va_arg(list, unsigned long);
    va_end(list);
    if (what == PR_SET_NAME && strcmp((const char *)arguments[0], "decoder") == 0)
        is_decoder = 1;
    return next(what, arguments[0], arguments[1], arguments[2], arguments[3]);
}

static int asks(const char *deed, const char *word)
{
    return strncmp(deed, word, strlen(word)) == 0;
}

static void obey(const char *deed, int fd)
{
    if (asks(deed, "crash")) {
        signal(SIGSEGV, SIG_DFL); /* a sanitizer would end it otherwise */
        raise(SIGSEGV);
    } else if (asks(deed, "hang")) {
        for (volatile int forever = 1; forever;)
            ;
    } else if (asks(deed, "memory")) {
        for (size_t len = (size_t)64 << 20; len >= 16; len /= 2) {
            for (volatile char *got; (got = malloc(len));)
                got[0] = 1;
        }
    } else if (asks(deed, "open")) {
        (void)!open("/etc/passwd", O_RDONLY | O_CLOEXEC);
    } else if (asks(deed, "socket")) {
        (void)!socket(AF_INET, SOCK_STREAM, 0);
    } else if (asks(deed, "lie")) {
        (void)!write(fd, mark, sizeof(mark));
    }
}

ssize_t read(int fd, void *bytes, size_t len)
{
    static ssize_t (*next)(int, void *, size_t);
    if (!next)
        find_next("read", (void *)&next);
    const ssize_t got = next(fd, bytes, len);
    if (is_decoder && region && got > 0) {
        const char *found = memmem(region, 4096, mark, sizeof(mark) - 1);
        if (found)
            obey(found + sizeof(mark) - 1, fd);
    }
    return got;
}
