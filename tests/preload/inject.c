/* To preload: the Nth allocation, or the Nth start of a thread, fails.
 *
 *     INJECT=call=alloc|thread,nth=N,file=FILE
 *
 * FILE is made and gets how often the call came, as 8 bytes that are right at any moment; nth=0
 * fails none and counts alone.  bad_disk.c does the same for calls on files.
 *
 * Counted are calls by the program itself and by the C libraries that it gives data to.  gRPC and
 * absl are C++, which throws where memory is short: that ends the process by their design, and is
 * not what is asked here. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_RANGES 64

static const char *const libraries[] = {"libjpeg",       "libpng",     "libz.",        "libzstd",
                                        "libprotobuf-c", "libjansson", "libmicrohttpd"};

/* Where the code is whose calls count. */
static struct {
    uintptr_t begin, end;
} ranges[MAX_RANGES];
static size_t num_ranges;

enum call { NONE, ALLOC, THREAD };
static enum call wanted;
static unsigned long nth;
static atomic_ulong *count;

static bool is_counted(const char *library)
{
    if (!library[0]) /* the program */
        return true;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++) {
        if (strstr(library, libraries[i]))
            return true;
    }
    return false;
}

static int add_ranges(struct dl_phdr_info *info, size_t size, void *unused)
{
    (void)size, (void)unused;
    if (!is_counted(info->dlpi_name))
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum && num_ranges < MAX_RANGES; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        ranges[num_ranges].begin = info->dlpi_addr + part->p_vaddr;
        ranges[num_ranges++].end = info->dlpi_addr + part->p_vaddr + part->p_memsz;
    }
    return 0;
}

static void give_up(const char *why)
{
    (void)fprintf(stderr, "inject: %s\n", why);
    _exit(99);
}

__attribute__((constructor)) static void read_rule(void)
{
    const char *text = getenv("INJECT");
    char call[16], path[4096];
    unsigned long n;
    if (!text)
        return;
    if (sscanf(text, "call=%15[^,],nth=%lu,file=%4095s", call, &n, path) != 3)
        give_up("cannot read INJECT");
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = fd >= 0 && ftruncate(fd, sizeof(*count)) == 0
                    ? mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
    if (map == MAP_FAILED)
        give_up("cannot make the file of INJECT");
    close(fd);
    dl_iterate_phdr(add_ranges, NULL);
    nth = n;
    count = map;
    wanted = strcmp(call, "thread") == 0 ? THREAD : ALLOC;
}

static bool fails(enum call call, const void *caller)
{
    if (call != wanted)
        return false;
    const uintptr_t at = (uintptr_t)caller;
    size_t i = 0;
    while (i < num_ranges && !(ranges[i].begin <= at && at < ranges[i].end))
        i++;
    return i < num_ranges && atomic_fetch_add(count, 1) + 1 == nth;
}

#define ALLOC_FAILS() fails(ALLOC, __builtin_return_address(0))

/* The C library's own, under the names that it has for the likes of this file. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    return ALLOC_FAILS() ? no_memory() : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return ALLOC_FAILS() ? no_memory() : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
    return ALLOC_FAILS() ? no_memory() : __libc_realloc(old, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return ALLOC_FAILS() ? no_memory() : __libc_memalign(alignment, size);
}

int posix_memalign(void **to, size_t alignment, size_t size)
{
    void *got = ALLOC_FAILS() ? NULL : __libc_memalign(alignment, size);
    if (!got)
        return ENOMEM;
    *to = got;
    return 0;
}

/* What the C library allocates for its caller: its own calls are not seen here. */
char *strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    char *copy = ALLOC_FAILS() ? no_memory() : __libc_malloc(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

char *strndup(const char *text, size_t most)
{
    const size_t len = strnlen(text, most);
    char *copy = ALLOC_FAILS() ? no_memory() : __libc_malloc(len + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

int asprintf(char **to, const char *format, ...)
{
    if (ALLOC_FAILS()) {
        errno = ENOMEM;
        return -1;
    }
    va_list args;
    va_start(args, format);
    const int len = vasprintf(to, format, args);
    va_end(args);
    return len;
}

FILE *open_memstream(char **to, size_t *size)
{
    FILE *(*next)(char **, size_t *);
    void *found = dlsym(RTLD_NEXT, "open_memstream");
    memcpy(&next, &found, sizeof(next)); /* POSIX has dlsym() return functions as objects */
    return ALLOC_FAILS() ? no_memory() : next(to, size);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                   void *data)
{
    int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    void *found = dlsym(RTLD_NEXT, "pthread_create");
    memcpy(&next, &found, sizeof(next));
    return fails(THREAD, __builtin_return_address(0)) ? EAGAIN
                                                      : next(thread, attributes, run, data);
}
