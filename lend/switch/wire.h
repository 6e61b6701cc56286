#ifndef SLUICE_LEND_SWITCH_WIRE_H
#define SLUICE_LEND_SWITCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Requests as PipeSwitch's published clients send them, parsed from any pieces:
 *
 *     u32 name length | name | u32 data length | data      u32 in the machine's byte order
 *     u32 0                                                ends the connection
 *
 * The parser says where the next bytes go, so data lands in the caller's memory without a copy.
 *
 *     switch_wire_want(&wire, &to, &room);
 *     ... recv(fd, to, room) returned n ...
 *     switch (switch_wire_took(&wire, n)) { ... }
 *
 * At SWITCH_WIRE_NAMED the caller judges name and data length, then calls switch_wire_accept() with
 * memory for the data, or switch_wire_refuse(), which has the data read and dropped, so that the next
 * request is found.
 *
 * Threads: a parser belongs to one thread at a time. */

#define SWITCH_WIRE_NAME_BYTES 256 /* the longest name */
#define SWITCH_WIRE_DROP_BYTES 65536

enum switch_wire_event {
    SWITCH_WIRE_MORE,     /* bytes are missing */
    SWITCH_WIRE_NAMED,    /* name and data length are there */
    SWITCH_WIRE_COMPLETE, /* and the data of an accepted request */
    SWITCH_WIRE_REFUSED,  /* and the data of a refused one were dropped */
    SWITCH_WIRE_END,      /* the client ends the connection */
    SWITCH_WIRE_TOO_LONG, /* a name of more than SWITCH_WIRE_NAME_BYTES; all that follows is dropped */
};

struct switch_wire {
    enum {
        SWITCH_WIRE_AT_NAME_LENGTH,
        SWITCH_WIRE_AT_NAME,
        SWITCH_WIRE_AT_DATA_LENGTH,
        SWITCH_WIRE_AT_VERDICT,
        SWITCH_WIRE_AT_DATA,
        SWITCH_WIRE_AT_DROP,
        SWITCH_WIRE_AT_DROP_ALL,
    } at;
    size_t have; /* bytes of this part */
    uint32_t name_length, data_length;
    char name[SWITCH_WIRE_NAME_BYTES + 1]; /* 0-terminated; a 0 within ends it, too */
    uint8_t *data;                         /* of an accepted request */
    uint8_t dropped[SWITCH_WIRE_DROP_BYTES];
};

void switch_wire_init(struct switch_wire *wire);

/* Where the next bytes go, and how many at most (> 0); not between NAMED and the verdict. */
void switch_wire_want(struct switch_wire *wire, void **to, size_t *room);
/* So many bytes are there, 1 or more. */
enum switch_wire_event switch_wire_took(struct switch_wire *wire, size_t num_bytes);

/* After NAMED.  `data` has data_length bytes.  COMPLETE or MORE. */
enum switch_wire_event switch_wire_accept(struct switch_wire *wire, void *data);
/* REFUSED or MORE. */
enum switch_wire_event switch_wire_refuse(struct switch_wire *wire);

#endif
