#include "base/clock.h"
#include "base/compiler.h"
#include "bench/bench.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* A disk of a given speed out of a file: the same bytes again, mounted over an empty file, where a
 * read takes the time that such a disk would.
 *
 *     image file --> bench_disk --> /dev/fuse --> mounted file --> loop device --> file system
 *
 * It has so many channels; each serves one read at a time, in the order in which they came: the
 * time that every read takes, and that of its bytes.  What is asked of it waits in a line of 128
 * and more, which is no scheduler's any longer, as the commands that a real disk has been given.
 * Read only.  Needs root.  The end of the standard input ends the program. */

#define MAX_READ (1u << 20)
#define MAX_CHANNELS 64
#define ROOM (MAX_READ + 4096)

static int image, fuse;
static uint64_t image_bytes, num_channels = 2, read_us = 200, bytes_per_s = 50000000;

static void answer(const struct fuse_in_header *in, int error, const void *data, size_t len)
{
    struct fuse_out_header out = {
        .len = (uint32_t)(sizeof(out) + len), .error = -error, .unique = in->unique};
    const struct iovec parts[] = {{&out, sizeof(out)}, {(void *)(uintptr_t)data, len}};
    /* ENOENT: whoever asked was interrupted. */
    if (writev(fuse, parts, len ? 2 : 1) < 0 && errno != ENOENT && errno != ENODEV)
        bench_die("/dev/fuse: %s", strerror(errno));
}

static void serve_read(const struct fuse_in_header *in, const struct fuse_read_in *wanted,
                       uint8_t *room, uint64_t start_ns)
{
    const size_t len = wanted->size < MAX_READ ? wanted->size : MAX_READ;
    const ssize_t got = pread(image, room, len, (off_t)wanted->offset);
    if (got < 0) {
        answer(in, errno, NULL, 0);
        return;
    }
    sluice_clock_sleep_until(start_ns + read_us * 1000 + (uint64_t)got * 1000000000u / bytes_per_s);
    answer(in, 0, room, (size_t)got);
}

static void serve(const struct fuse_in_header *in, const void *body, uint8_t *room)
{
    const uint64_t start_ns = sluice_clock_ns();
    switch (in->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *theirs = body;
        const struct fuse_init_out ours = {
            .major = FUSE_KERNEL_VERSION,
            .minor = FUSE_KERNEL_MINOR_VERSION,
            .max_readahead = theirs->max_readahead,
            .flags = theirs->flags & (FUSE_ASYNC_READ | FUSE_ASYNC_DIO | FUSE_MAX_PAGES),
            .max_background = 1024, /* the depth of the disk's own line */
            .congestion_threshold = 1024,
            .max_write = 4096,
            .max_pages = MAX_READ / 4096,
        };
        answer(in, 0, &ours, sizeof(ours));
        break;
    }
    case FUSE_GETATTR: {
        const struct fuse_attr_out attr = {
            .attr_valid = 3600,
            .attr = {.ino = FUSE_ROOT_ID,
                     .size = image_bytes,
                     .blocks = image_bytes / 512,
                     .mode = S_IFREG | 0400,
                     .nlink = 1,
                     .blksize = 4096},
        };
        answer(in, 0, &attr, sizeof(attr));
        break;
    }
    case FUSE_OPEN:
        answer(in, 0, &(struct fuse_open_out){0}, sizeof(struct fuse_open_out));
        break;
    case FUSE_READ:
        serve_read(in, body, room, start_ns);
        break;
    case FUSE_STATFS:
        answer(in, 0, &(struct fuse_statfs_out){.st = {.bsize = 4096, .namelen = 255}},
               sizeof(struct fuse_statfs_out));
        break;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_DESTROY:
        answer(in, 0, NULL, 0);
        break;
    case FUSE_FORGET: /* these want no answer */
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(in, ENOSYS, NULL, 0);
    }
}

static void *channel_main(void *arg)
{
    (void)arg;
    uint8_t *request = malloc(ROOM), *room = malloc(MAX_READ);
    if (!request || !room)
        bench_die("no memory");
    (void)prctl(PR_SET_TIMERSLACK, 1ul);
    for (;;) {
        const ssize_t got = read(fuse, request, ROOM);
        if (got >= (ssize_t)sizeof(struct fuse_in_header))
            serve((const void *)request, request + sizeof(struct fuse_in_header), room);
        else if (got >= 0 || errno == ENODEV) /* it is unmounted */
            break;
        else if (errno != EINTR && errno != ENOENT && errno != EAGAIN)
            bench_die("/dev/fuse: %s", strerror(errno));
    }
    free(request);
    free(room);
    return NULL;
}

int main(int argc, char **argv)
{
    const struct sluice_option options[] = {
        {.name = "channels",
         SLUICE_VALUE_UINT(num_channels, "N"),
         .help = "Reads that it serves at a time.",
         SLUICE_RANGE(1, MAX_CHANNELS)},
        {.name = "read-us",
         SLUICE_VALUE_UINT(read_us, "N"),
         .help = "Time that every read takes.",
         SLUICE_RANGE(0, 1e6)},
        {.name = "rate",
         SLUICE_VALUE_BYTES(bytes_per_s, "SIZE"),
         .help = "Bytes a second, of each channel, on top of that.",
         SLUICE_RANGE(1000, 1e12)},
    };
    const struct sluice_cli cli = {
        .program = "bench_disk",
        .summary = "A disk of a given speed: IMAGE once more, mounted over the file MOUNT.",
        .positional = "IMAGE MOUNT",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .epilog =
            "Prints 'ready' when it is; ends, and unmounts, at the end of its standard input.",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    const char *mount_point = parsed.positional[1];
    struct stat st;
    image = open(parsed.positional[0], O_RDONLY | O_CLOEXEC);
    if (image < 0 || fstat(image, &st) != 0)
        bench_die("%s: %s", parsed.positional[0], strerror(errno));
    image_bytes = (uint64_t)st.st_size;
    fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        bench_die("/dev/fuse: %s", strerror(errno));
    char text[128];
    snprintf(text, sizeof(text), "fd=%d,rootmode=%o,user_id=%u,group_id=%u", fuse, S_IFREG | 0400u,
             (unsigned)getuid(), (unsigned)getgid());
    if (mount("bench_disk", mount_point, "fuse", MS_RDONLY | MS_NOSUID | MS_NODEV, text) != 0)
        bench_die("cannot mount over %s: %s", mount_point, strerror(errno));

    for (uint64_t i = 0; i < num_channels; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, channel_main, NULL) != 0 || pthread_detach(thread) != 0)
            bench_die("cannot start a thread");
    }
    printf("ready\n");
    fflush(stdout);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        ;
    if (umount2(mount_point, MNT_DETACH) != 0)
        bench_die("cannot unmount %s: %s", mount_point, strerror(errno));
    return 0;
}
