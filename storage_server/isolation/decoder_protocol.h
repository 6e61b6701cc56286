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
 * Each request or reply is a struct and one message of a SOCK_SEQPACKET socket; both ends are the
 * same build of the program.  The region has two parts: the input (a file, and its index as far as
 * known), then the output.
 *
 * A decoder trusts the server.  The server does not trust a decoder: a malicious image may have
 * taken it over.
 *
 * Threads: pure functions. */

/* Sizes and limits of a decoder, from the server. */
struct sluice_decoder_limits {
    uint64_t max_image_pixels; /* --max-image-pixels */
    uint64_t in_room;          /* bytes of the region's input, whole pages */
    uint64_t out_room;         /* bytes of its output */
    uint64_t memory_bytes;     /* bytes that the decoder may allocate */
    uint64_t live_bytes;       /* the part of memory_bytes for buffers (base/buf.h) */
    uint64_t cached_bytes;     /* the part for unused buffers */
};

/* --- to the fork server --- */

enum sluice_fork_what {
    SLUICE_FORK_START, /* starts a decoder; two descriptors come back, the region and a socket */
    SLUICE_FORK_END,   /* kills a decoder unless it has died, and reports how it ended */
};

struct sluice_fork_request {
    uint32_t what; /* enum sluice_fork_what */
    int32_t pid;   /* END: the decoder */
    struct sluice_decoder_limits limits;
};

struct sluice_fork_reply {
    int32_t error; /* an errno; 0: done */
    int32_t pid;
    int32_t wait_status; /* END: from waitpid() */
};

/* --- to a decoder --- */

#define SLUICE_DECODER_SPEC 1024

struct sluice_decoder_request {
    uint64_t number;       /* the reply has the same number */
    enum sluice_form form; /* a plain form: only the ops are run */
    unsigned end;          /* the split */
    bool reads_image;      /* the reply has the file's image, too */
    struct sluice_form_options options;
    struct sluice_draw_key key;  /* of the sample, a file at split 0 */
    uint64_t file_len;           /* its bytes, at the start of the region */
    bool has_index;              /* the index below is valid; its arrays follow the file: */
    uint64_t points_at, rows_at; /* offsets in the region */
    struct sluice_jpeg_index index;
    char spec[SLUICE_DECODER_SPEC]; /* of the pipeline */
};

/* Every bit pattern is a valid value of each field, since the struct comes from a decoder. */
struct sluice_decoder_reply {
    uint64_t number;
    uint32_t status;     /* sluice_status */
    uint32_t is_changed; /* 1: the sample is the one below; 0: it is still the file */
    uint32_t ops_done, kind, width, height;
    uint32_t is_coded;              /* 1: in the requested form; 0: in the plain form */
    struct sluice_file_image image; /* if it was asked for */
    uint64_t len;                   /* of its bytes, at the start of the output */
    char text[200];                 /* of a failure */
};

/* Computes where the arrays of an index of this shape begin in the region, after a file of
 * `file_len` bytes.  Returns their end, or 0 if that is above in_room. */
size_t sluice_decoder_place_index(const struct sluice_jpeg_index *index, uint64_t file_len,
                                  size_t in_room, uint64_t *points_at, uint64_t *rows_at);

/* Reads and checks a message of `len` bytes from a decoder.  SLUICE_OK: it answers the request,
 * with a sample that the pipeline can make of the file, or with a possible failure and a printable
 * text.  SLUICE_E_CORRUPT: it does not; err has the reason. */
SLUICE_MUST_USE sluice_status sluice_decoder_reply_read(
    const void *bytes, size_t len, const struct sluice_decoder_request *request,
    const struct sluice_pipeline *pipeline, const struct sluice_decoder_limits *limits,
    struct sluice_decoder_reply *reply, struct sluice_err *err);

#endif
