#include "rpc/grpc_library.h"

#include "base/log.h"

#include <grpc/grpc.h>
#include <grpc/slice.h>
#include <grpc/slice_buffer.h>
#include <grpc/support/log.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Up to this size a copy costs less than a slice with a reference count of its own. */
#define COPY_BYTES 2048

static _Thread_local char complaint[160];

/* The library logs errors that it also reports by a status: these are debug lines.  A failed
 * assertion of its own ends the process, so it is logged as an error. */
static void take_log_line(gpr_log_func_args *args)
{
    if (strstr(args->message, "assertion failed") || strstr(args->message, "ASSERTION FAILED")) {
        sluice_log(SLUICE_LOG_ERROR, "gRPC: %s (%s:%d)", args->message, args->file, args->line);
        return;
    }
    sluice_log(SLUICE_LOG_DEBUG, "gRPC: %s (%s:%d)", args->message, args->file, args->line);

    /* `os_error:"Address already in use"` is the part for people. */
    static const char mark[] = "os_error:\"";
    const char *start = strstr(args->message, mark);
    if (start) {
        start += sizeof(mark) - 1;
        snprintf(complaint, sizeof(complaint), "%.*s", (int)strcspn(start, "\""), start);
    }
}

/* By default gRPC 1.51 doubles what it reads at once whenever a read was full, without a limit,
 * into slices of 64 kB: once it fell behind, it takes in megabytes before it hands anything on, and
 * by then no cache holds their beginning.  With this gRPC experiment off,
 * GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE limits a read.  Only the environment says so, which it reads in
 * its first grpc_init(); a child of this process, or another gRPC in it, is not to have it from us.
 * Other versions have other experiments. */
static void start_without_read_chunks(void)
{
    static const char name[] = "GRPC_EXPERIMENTS", measured_core[] = "29.";
    const bool is_ours =
        !getenv(name) && strncmp(grpc_version_string(), measured_core, strlen(measured_core)) == 0;
    if (is_ours)
        setenv(name, "-tcp_read_chunks", 0);
    grpc_init();
    if (is_ours)
        unsetenv(name);
}

/* absl::SetMutexDeadlockDetectionMode(kIgnore), by the name that it has in Debian 12.  Built
 * without NDEBUG there, gRPC's mutexes otherwise enter every lock in one graph of the process, 5 %
 * of the CPU time of receiving.  With another absl the symbol is not found. */
static void do_not_look_for_deadlocks(void)
{
    void (*set_detection)(int mode);
    void *found = dlsym(RTLD_DEFAULT,
                        "_ZN4absl7debian329SetMutexDeadlockDetectionModeENS0_15OnDeadlockCycleE");
    memcpy(&set_detection, &found, sizeof(found)); /* C has no cast between the two */
    if (set_detection)
        set_detection(0);
}

static void init(void)
{
    do_not_look_for_deadlocks();
    start_without_read_chunks();
    /* If the user asked the library for its log, it is left as it is. */
    if (!getenv("GRPC_VERBOSITY") && !getenv("GRPC_TRACE"))
        gpr_set_log_function(take_log_line);
}

void rpc_library_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init);
}

const char *rpc_library_complaint(void)
{
    static _Thread_local char taken[sizeof(complaint)];
    memcpy(taken, complaint, sizeof(taken));
    complaint[0] = 0;
    return taken;
}

grpc_arg rpc_arg(const char *key, int value)
{
    return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value};
}

/* The library orders the taking of a segment before its release, and accesses through two
 * references to a slice.  It is built without ThreadSanitizer, which therefore cannot see that.  So
 * under the sanitizer, and nowhere else, the same orderings are stated here, object by object. */
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

struct watched {
    void (*release)(void *owner);
    void *owner;
};

static void release_watched(void *arg)
{
    struct watched *watched = arg;
    __tsan_acquire(watched);
    watched->release(watched->owner);
    free(watched);
}

static void watch(struct sluice_segment *segment)
{
    struct watched *watched = malloc(sizeof(*watched));
    if (!watched)
        return;
    *watched = (struct watched){segment->release, segment->owner};
    segment->release = release_watched;
    segment->owner = watched;
    __tsan_release(watched);
}

static void before_unref(void *refcount)
{
    __tsan_acquire(refcount);
    __tsan_release(refcount);
}
#else
static void watch(struct sluice_segment *segment)
{
    (void)segment;
}

static void before_unref(void *refcount)
{
    (void)refcount;
}
#endif

static bool is_small(const struct sluice_segment *segment)
{
    return segment->len <= COPY_BYTES;
}

grpc_byte_buffer *rpc_bytes_from_message(struct sluice_message *message)
{
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(NULL, 0);
    grpc_slice_buffer *slices = &bytes->data.raw.slice_buffer;

    size_t i = 0;
    while (i < message->num_segments) {
        struct sluice_segment *segment = &message->segments[i];
        if (!is_small(segment)) {
            if (segment->release)
                watch(segment);
            grpc_slice_buffer_add(
                slices, segment->release
                            ? grpc_slice_new_with_user_data((void *)segment->data, segment->len,
                                                            segment->release, segment->owner)
                            : grpc_slice_from_static_buffer(segment->data, segment->len));
            i++;
            continue;
        }

        size_t end = i, len = 0;
        while (end < message->num_segments && is_small(&message->segments[end]))
            len += message->segments[end++].len;
        grpc_slice copy = grpc_slice_malloc(len);
        uint8_t *out = GRPC_SLICE_START_PTR(copy);
        for (; i < end; i++) {
            segment = &message->segments[i];
            if (segment->len)
                memcpy(out, segment->data, segment->len);
            out += segment->len;
            if (segment->release)
                segment->release(segment->owner);
        }
        grpc_slice_buffer_add(slices, copy);
    }

    free(message->segments);
    *message = (struct sluice_message){0};
    return bytes;
}

void rpc_received_slice_unref(grpc_slice slice)
{
    grpc_call_details holder;
    grpc_call_details_init(&holder);
    holder.method = slice;
    grpc_call_details_destroy(&holder);
}

/* `owner` is the slice's reference count, by which the slice is found. */
static void release_slice(void *owner)
{
    before_unref(owner);
    rpc_received_slice_unref((grpc_slice){.refcount = owner});
}

bool rpc_message_from_bytes(grpc_byte_buffer *bytes, struct sluice_message *out)
{
    const grpc_slice_buffer *slices = &bytes->data.raw.slice_buffer;
    struct sluice_message message = {.capacity = slices->count ? slices->count : 1};
    message.segments = malloc(message.capacity * sizeof(*message.segments));
    bool is_ok = message.segments != NULL;
    for (size_t i = 0; is_ok && i < slices->count; i++) {
        const grpc_slice *slice = &slices->slices[i];
        struct sluice_segment segment = {.data = GRPC_SLICE_START_PTR(*slice),
                                         .len = GRPC_SLICE_LENGTH(*slice)};
        if (slice->refcount) {
            segment.owner = grpc_slice_ref(*slice).refcount;
            segment.release = release_slice;
        } else { /* so short that the bytes stand in the slice itself */
            uint8_t *copy = malloc(segment.len + 1);
            is_ok = copy != NULL;
            if (is_ok)
                memcpy(copy, segment.data, segment.len);
            segment.data = segment.owner = copy;
            segment.release = free;
        }
        if (is_ok) {
            message.segments[message.num_segments++] = segment;
            message.len += segment.len;
        }
    }
    grpc_byte_buffer_destroy(bytes);
    if (is_ok)
        *out = message;
    else
        sluice_message_clear(&message);
    return is_ok;
}
