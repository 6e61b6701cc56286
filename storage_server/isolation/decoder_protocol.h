#ifndef SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROTOCOL_H
#define SLUICE_STORAGE_SERVER_ISOLATION_DECODER_PROTOCOL_H

#include "base/error.h"
#include "image/jpeg/index.h"
#include "op/form.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Messages between the server, its fork server and its decoders (decoders.h).
 *
 *     server ----- fork request ----> fork server ---- fork() ---> decoder
 *        \                                                            /
 *         \--- request, reply: a socket of its own, one at a time ---/
 *          \-- region: memory that both map ------------------------/
 *
 * Requests and replies are structs of one build of this program, one message of a
 * SOCK_SEQPACKET socket each.  The region has two parts, the input (a file, and what is known of
 * its index) and after it the output.
 *
 * A decoder believes the server.  The server believes no decoder: a picture may have taken it over.
 *
 * Threads: pure functions. */

/* Sizes and limits of a decoder, from the server. */
struct sluice_decoder_limits {
    uint64_t max_image_pixels; /* as of --max-image-pixels */
    uint64_t in_room;          /* bytes of the region's input, whole pages */
    uint64_t out_room;         /* and of its output */
    uint64_t memory_bytes;     /* that it may allocate */
    uint64_t live_bytes;       /* of these in buffers (base/buf.h) */
    uint64_t cached_bytes;     /* in unused ones */
};

/* --- to the fork server --- */

enum sluice_fork_what {
    SLUICE_FORK_START, /* a decoder: its process and two descriptors, the region's and a socket */
    SLUICE_FORK_END,   /* kills it unless it has died, and says how it ended */
};

struct sluice_fork_request {
    uint32_t what; /* enum sluice_fork_what */
    int32_t pid;   /* END: whom */
    struct sluice_decoder_limits limits;
};

struct sluice_fork_reply {
    int32_t error; /* an errno; 0: done */
    int32_t pid;
    int32_t wait_status; /* END: as of waitpid() */
};

/* --- to a decoder --- */

#define SLUICE_DECODER_SPEC 1024

struct sluice_decoder_request {
    uint64_t number;       /* the reply has the same */
    enum sluice_form form; /* a plain one: the ops run, and that is all */
    unsigned end;          /* the split */
    struct sluice_form_options options;
    struct sluice_draw_key key;  /* of the sample, a file at split 0 */
    uint64_t file_len;           /* its bytes, at the start of the region */
    bool has_index;              /* then the index, whose arrays follow the file: */
    uint64_t points_at, rows_at; /* offsets in the region */
    struct sluice_jpeg_index index;
    char spec[SLUICE_DECODER_SPEC]; /* of the pipeline */
};

/* Every bit pattern is a value of each of its fields. */
struct sluice_decoder_reply {
    uint64_t number;
    uint32_t status;     /* sluice_status */
    uint32_t is_changed; /* 1: the sample became what follows; 0: it is the file that it was */
    uint32_t ops_done, kind, width, height;
    uint32_t is_coded; /* 1: in the form that was asked for; 0: in the plain one */
    uint64_t len;      /* of its bytes, at the start of the output */
    char text[200];    /* of a failure */
};

/* Where the arrays of an index of this shape begin, after a file of `file_len` bytes; returns the
 * end, or 0 if that is above in_room. */
size_t sluice_decoder_place_index(const struct sluice_jpeg_index *index, uint64_t file_len,
                                  size_t in_room, uint64_t *points_at, uint64_t *rows_at);

/* Reads a message of `len` bytes that a decoder sent.  SLUICE_OK: it answers the request, with a
 * sample that can be made of the file, or with a failure of the kinds that it has and words
 * that are printable.  Else SLUICE_E_CORRUPT, and why. */
SLUICE_MUST_USE sluice_status sluice_decoder_reply_read(
    const void *bytes, size_t len, const struct sluice_decoder_request *request,
    const struct sluice_pipeline *pipeline, const struct sluice_decoder_limits *limits,
    struct sluice_decoder_reply *reply, struct sluice_err *err);

#endif
