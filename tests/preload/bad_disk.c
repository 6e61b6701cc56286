/* To preload: calls on files that fail, are slow or never return, as on a disk that dies.
 *
 * BAD_DISK has rules, separated by ';', each of fields separated by ','.  The first rule that
 * matches a call decides.
 *
 *     call=open|read|readdir|write|sync|rename|stat    (must stand first)
 *     path=TEXT      only files whose path has TEXT in it
 *     every=N        only every Nth of the calls that match so far (the Nth, the 2Nth, ...)
 *     after=N        not the first N of them
 *     most=N         no more than N times
 *     if=FILE        only while FILE exists
 *     count=FILE     FILE is made and gets how many calls matched, as 8 bytes, right at any moment
 *     tell=FILE      makes FILE when a call hangs
 *     do=eio | do=eacces | do=enoent | do=enospc | do=emfile | do=nomem | do=short | do=empty |
 * do=delay:US | do=wait | do=hang
 *
 * Only regular files and folders count for reads and writes: sockets and pipes work as ever.
 * short: a read gives half of what it was asked for; empty: readdir ends early, without an error,
 * a read gives 0 bytes.  wait: until the file of `if` is gone.  hang: the call never returns (the
 * thread sleeps uninterrupted). */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define MAX_RULES 16

enum call { OPEN, READ, READDIR, WRITE, SYNC, RENAME, STAT, NUM_CALLS };
static const char *const call_names[NUM_CALLS] = {"open", "read",   "readdir", "write",
                                                  "sync", "rename", "stat"};
enum action { PASS, FAIL, SHORT, EMPTY, DELAY, WAIT, HANG };

struct rule {
    enum call call;
    char path[256], file[256], tell[256];
    unsigned long every, after, most;
    enum action action;
    int error;
    long delay_us;
    atomic_ulong *matched, counter, done;
};
static struct rule rules[MAX_RULES];
static size_t num_rules;

/* POSIX has dlsym() return functions as objects. */
static void find(const char *name, void *function)
{
    void *found = dlsym(RTLD_NEXT, name);
    memcpy(function, &found, sizeof(found));
}

static void bad_rule(const char *field)
{
    (void)fprintf(stderr, "bad_disk: cannot read '%s' of BAD_DISK\n", field);
    abort();
}

static void read_action(struct rule *rule, const char *text)
{
    static const struct {
        const char *name;
        enum action action;
        int error;
    } actions[] = {
        {"eio", FAIL, EIO},       {"enospc", FAIL, ENOSPC}, {"emfile", FAIL, EMFILE},
        {"eacces", FAIL, EACCES}, {"enoent", FAIL, ENOENT}, {"nomem", FAIL, ENOMEM},
        {"short", SHORT, 0},      {"empty", EMPTY, 0},      {"hang", HANG, 0},
        {"wait", WAIT, 0},
    };
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(text, actions[i].name) == 0) {
            rule->action = actions[i].action;
            rule->error = actions[i].error;
            return;
        }
    }
    if (strncmp(text, "delay:", 6) != 0)
        bad_rule(text);
    rule->action = DELAY;
    rule->delay_us = strtol(text + 6, NULL, 10);
}

static void count_in(struct rule *rule, const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    void *map = MAP_FAILED;
    if (fd >= 0 && ftruncate(fd, sizeof(rule->counter)) == 0)
        map = mmap(NULL, sizeof(rule->counter), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        bad_rule(path);
    close(fd);
    rule->matched = map;
}

static void read_field(struct rule *rule, char *field)
{
    char *value = strchr(field, '=');
    if (!value)
        bad_rule(field);
    *value++ = '\0';
    if (strcmp(field, "call") == 0) {
        int call = 0;
        while (call < NUM_CALLS && strcmp(value, call_names[call]) != 0)
            call++;
        if (call == NUM_CALLS)
            bad_rule(value);
        rule->call = (enum call)call;
    } else if (strcmp(field, "path") == 0) {
        (void)snprintf(rule->path, sizeof(rule->path), "%s", value);
    } else if (strcmp(field, "if") == 0) {
        (void)snprintf(rule->file, sizeof(rule->file), "%s", value);
    } else if (strcmp(field, "count") == 0) {
        count_in(rule, value);
    } else if (strcmp(field, "tell") == 0) {
        (void)snprintf(rule->tell, sizeof(rule->tell), "%s", value);
    } else if (strcmp(field, "every") == 0) {
        rule->every = strtoul(value, NULL, 10);
    } else if (strcmp(field, "after") == 0) {
        rule->after = strtoul(value, NULL, 10);
    } else if (strcmp(field, "most") == 0) {
        rule->most = strtoul(value, NULL, 10);
    } else if (strcmp(field, "do") == 0) {
        read_action(rule, value);
    } else {
        bad_rule(field);
    }
}

__attribute__((constructor)) static void read_rules(void)
{
    const char *given = getenv("BAD_DISK");
    char *text = given ? strdup(given) : NULL;
    char *rest = text;
    for (char *one; (one = strsep(&rest, ";"));) {
        if (!*one)
            continue;
        if (num_rules == MAX_RULES)
            bad_rule(one);
        struct rule *rule = &rules[num_rules];
        rule->matched = &rule->counter;
        for (char *field; (field = strsep(&one, ","));)
            read_field(rule, field);
        num_rules++;
    }
    free(text);
}

/* The path behind a descriptor; "" for what is no file or folder. */
static void path_of(int fd, char *path, size_t size)
{
    struct stat st;
    char link[64];
    path[0] = '\0';
    if (fstat(fd, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t len = readlink(link, path, size - 1);
    path[len > 0 ? len : 0] = '\0';
}

/* The rule for this call, or NULL; delays and hangs here. */
static const struct rule *meet(enum call call, const char *path)
{
    for (size_t i = 0; i < num_rules; i++) {
        struct rule *rule = &rules[i];
        if (rule->call != call || (rule->path[0] && !strstr(path, rule->path)) ||
            (rule->file[0] && access(rule->file, F_OK) != 0))
            continue;
        const unsigned long nth = atomic_fetch_add(rule->matched, 1) + 1;
        if (nth <= rule->after || (rule->every && nth % rule->every != 0) ||
            (rule->most && atomic_fetch_add(&rule->done, 1) >= rule->most))
            continue;
        if (rule->action == HANG) {
            if (rule->tell[0])
                (void)close(creat(rule->tell, 0666));
            for (;;)
                (void)sleep(1000);
        }
        if (rule->action == DELAY) {
            const struct timespec wait = {.tv_sec = rule->delay_us / 1000000,
                                          .tv_nsec = rule->delay_us % 1000000 * 1000};
            (void)nanosleep(&wait, NULL);
        }
        while (rule->action == WAIT && rule->file[0] && access(rule->file, F_OK) == 0)
            (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        errno = rule->error;
        return rule;
    }
    return NULL;
}

static const struct rule *meet_fd(enum call call, int fd)
{
    bool is_wanted = false;
    for (size_t i = 0; i < num_rules; i++)
        is_wanted = is_wanted || rules[i].call == call;
    if (!is_wanted)
        return NULL;
    const int saved = errno;
    char path[4096];
    path_of(fd, path, sizeof(path));
    errno = saved;
    return path[0] ? meet(call, path) : NULL;
}

static bool has_failed(const struct rule *rule)
{
    return rule && rule->action == FAIL;
}

static size_t asked(const struct rule *rule, size_t size)
{
    if (rule && rule->action == EMPTY)
        return 0;
    return rule && rule->action == SHORT && size > 1 ? size / 2 : size;
}

/* What the headers declare; they may define these, too, as checks of their arguments. */
ssize_t read(int fd, void *to, size_t size);
ssize_t pread(int fd, void *to, size_t size, off_t at);
ssize_t pread64(int fd, void *to, size_t size, off64_t at);
ssize_t write(int fd, const void *from, size_t size);
int open(const char *path, int flags, ...);
int open64(const char *path, int flags, ...);
int openat(int at, const char *path, int flags, ...);
ssize_t pwrite(int fd, const void *from, size_t size, off_t at);

ssize_t read(int fd, void *to, size_t size)
{
    ssize_t (*next)(int, void *, size_t);
    find("read", &next);
    const struct rule *rule = meet_fd(READ, fd);
    return has_failed(rule) ? -1 : next(fd, to, asked(rule, size));
}

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    ssize_t (*next)(int, void *, size_t, off_t);
    find("pread", &next);
    const struct rule *rule = meet_fd(READ, fd);
    return has_failed(rule) ? -1 : next(fd, to, asked(rule, size), at);
}

ssize_t pread64(int fd, void *to, size_t size, off64_t at)
{
    ssize_t (*next)(int, void *, size_t, off64_t);
    find("pread64", &next);
    const struct rule *rule = meet_fd(READ, fd);
    return has_failed(rule) ? -1 : next(fd, to, asked(rule, size), at);
}

ssize_t write(int fd, const void *from, size_t size)
{
    ssize_t (*next)(int, const void *, size_t);
    find("write", &next);
    const struct rule *rule = meet_fd(WRITE, fd);
    return has_failed(rule) ? -1 : next(fd, from, asked(rule, size));
}

ssize_t pwrite(int fd, const void *from, size_t size, off_t at)
{
    ssize_t (*next)(int, const void *, size_t, off_t);
    find("pwrite", &next);
    const struct rule *rule = meet_fd(WRITE, fd);
    return has_failed(rule) ? -1 : next(fd, from, asked(rule, size), at);
}

int fsync(int fd)
{
    int (*next)(int);
    find("fsync", &next);
    return has_failed(meet_fd(SYNC, fd)) ? -1 : next(fd);
}

int rename(const char *from, const char *to)
{
    int (*next)(const char *, const char *);
    find("rename", &next);
    return has_failed(meet(RENAME, to)) ? -1 : next(from, to);
}

int open(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...);
    find("open", &next);
    va_list args;
    va_start(args, flags);
    const int mode = va_arg(args, int);
    va_end(args);
    return has_failed(meet(OPEN, path)) ? -1 : next(path, flags, mode);
}

int open64(const char *path, int flags, ...)
{
    int (*next)(const char *, int, ...);
    find("open64", &next);
    va_list args;
    va_start(args, flags);
    const int mode = va_arg(args, int);
    va_end(args);
    return has_failed(meet(OPEN, path)) ? -1 : next(path, flags, mode);
}

int openat(int at, const char *path, int flags, ...)
{
    int (*next)(int, const char *, int, ...);
    find("openat", &next);
    va_list args;
    va_start(args, flags);
    const int mode = va_arg(args, int);
    va_end(args);
    return has_failed(meet(OPEN, path)) ? -1 : next(at, path, flags, mode);
}

/* The streams of the C library open, write and close their files by calls that are not seen here.
 */
FILE *fopen(const char *path, const char *mode)
{
    FILE *(*next)(const char *, const char *);
    find("fopen", &next);
    return has_failed(meet(OPEN, path)) ? NULL : next(path, mode);
}

int fflush(FILE *file)
{
    int (*next)(FILE *);
    find("fflush", &next);
    return file && has_failed(meet_fd(WRITE, fileno(file))) ? EOF : next(file);
}

int fclose(FILE *file)
{
    int (*next)(FILE *);
    find("fclose", &next);
    const bool fails = has_failed(meet_fd(WRITE, fileno(file)));
    const int error = errno;
    const int closed = next(file);
    if (fails)
        errno = error;
    return fails ? EOF : closed;
}

/* openat2 has no function of its own in the C library. */
long syscall(long number, ...)
{
    long (*next)(long, ...);
    find("syscall", &next);
    long a[6];
    va_list args;
    va_start(args, number);
    for (size_t i = 0; i < 6; i++)
        a[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_openat2) {
        const char *path;
        memcpy(&path, &a[1], sizeof(path));
        if (has_failed(meet(OPEN, path)))
            return -1;
    }
    return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int stat(const char *path, struct stat *st)
{
    int (*next)(const char *, struct stat *);
    find("stat", &next);
    return has_failed(meet(STAT, path)) ? -1 : next(path, st);
}

int fstatat(int at, const char *path, struct stat *st, int flags)
{
    int (*next)(int, const char *, struct stat *, int);
    find("fstatat", &next);
    return has_failed(meet(STAT, path)) ? -1 : next(at, path, st, flags);
}

struct dirent *readdir(DIR *folder)
{
    struct dirent *(*next)(DIR *);
    find("readdir", &next);
    const struct rule *rule = meet_fd(READDIR, dirfd(folder));
    if (rule && (rule->action == FAIL || rule->action == EMPTY))
        return NULL;
    return next(folder);
}
