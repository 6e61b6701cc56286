#ifndef SLUICE_LEND_SWITCH_WIRE_H
#define SLUICE_LEND_SWITCH_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Requests as PipeSwitch's published clients send them:
 *
 *     u32 name length | name | u32 data length | data      u32 in the machine's byte order
 *     u32 0                                                ends the connection
 *
 * All but the data is the head.  Threads: any; pure functions. */

#define SWITCH_WIRE_NAME_BYTES 256 /* the longest name */
#define SWITCH_WIRE_HEAD_BYTES (4 + SWITCH_WIRE_NAME_BYTES + 4)

struct switch_wire_head {
    char name[SWITCH_WIRE_NAME_BYTES + 1]; /* 0-terminated; a 0 within ends it, too */
    uint32_t data_bytes;
};

enum switch_wire {
    SWITCH_WIRE_MORE,
    SWITCH_WIRE_HEAD,
    SWITCH_WIRE_END,
    SWITCH_WIRE_TOO_LONG, /* a name of more than SWITCH_WIRE_NAME_BYTES */
};

/* Parses the first `have` bytes of a request.  MORE: the head lacks bytes; *wanted is how many bytes
 * are needed to go on, more than `have` and SWITCH_WIRE_HEAD_BYTES at most, and none of them belongs to
 * the data.  HEAD: `have` must not be more than the last *wanted. */
enum switch_wire switch_wire_parse(const uint8_t *bytes, size_t have, size_t *wanted,
                                   struct switch_wire_head *head);

#endif
