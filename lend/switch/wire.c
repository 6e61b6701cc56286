#include "lend/switch/wire.h"

#include <assert.h>

void switch_wire_init(struct switch_wire *wire)
{
    wire->at = SWITCH_WIRE_AT_NAME_LENGTH;
    wire->have = 0;
    wire->name_length = wire->data_length = 0;
    wire->name[0] = 0;
    wire->data = NULL;
}

/* The part that is read: where it goes and how long it is. */
static uint8_t *part_of(struct switch_wire *wire, size_t *length)
{
    switch (wire->at) {
    case SWITCH_WIRE_AT_NAME_LENGTH:
        *length = sizeof wire->name_length;
        return (uint8_t *)&wire->name_length;
    case SWITCH_WIRE_AT_NAME:
        *length = wire->name_length;
        return (uint8_t *)wire->name;
    case SWITCH_WIRE_AT_DATA_LENGTH:
        *length = sizeof wire->data_length;
        return (uint8_t *)&wire->data_length;
    case SWITCH_WIRE_AT_DATA:
        *length = wire->data_length;
        return wire->data;
    case SWITCH_WIRE_AT_DROP:
        *length = wire->data_length;
        return NULL;
    case SWITCH_WIRE_AT_DROP_ALL:
        *length = SIZE_MAX;
        return NULL;
    default:
        *length = 0;
        return NULL;
    }
}

void switch_wire_want(struct switch_wire *wire, void **to, size_t *room)
{
    size_t length;
    uint8_t *const part = part_of(wire, &length);
    *room = length - wire->have;
    *to = part ? part + wire->have : wire->dropped;
    if (!part && *room > sizeof wire->dropped)
        *room = sizeof wire->dropped;
}

static void go_to(struct switch_wire *wire, int at)
{
    wire->at = at;
    wire->have = 0;
}

enum switch_wire_event switch_wire_took(struct switch_wire *wire, size_t num_bytes)
{
    if (wire->at == SWITCH_WIRE_AT_DROP_ALL)
        return SWITCH_WIRE_MORE;
    size_t length;
    part_of(wire, &length);
    assert(num_bytes <= length - wire->have);
    wire->have += num_bytes;
    if (wire->have < length)
        return SWITCH_WIRE_MORE;
    switch (wire->at) {
    case SWITCH_WIRE_AT_NAME_LENGTH:
        if (wire->name_length > 0 && wire->name_length <= SWITCH_WIRE_NAME_BYTES) {
            go_to(wire, SWITCH_WIRE_AT_NAME);
            return SWITCH_WIRE_MORE;
        }
        go_to(wire, SWITCH_WIRE_AT_DROP_ALL);
        return wire->name_length == 0 ? SWITCH_WIRE_END : SWITCH_WIRE_TOO_LONG;
    case SWITCH_WIRE_AT_NAME:
        wire->name[wire->name_length] = 0;
        go_to(wire, SWITCH_WIRE_AT_DATA_LENGTH);
        return SWITCH_WIRE_MORE;
    case SWITCH_WIRE_AT_DATA_LENGTH:
        go_to(wire, SWITCH_WIRE_AT_VERDICT);
        return SWITCH_WIRE_NAMED;
    case SWITCH_WIRE_AT_DATA:
        go_to(wire, SWITCH_WIRE_AT_NAME_LENGTH);
        return SWITCH_WIRE_COMPLETE;
    default:
        go_to(wire, SWITCH_WIRE_AT_NAME_LENGTH);
        return SWITCH_WIRE_REFUSED;
    }
}

enum switch_wire_event switch_wire_accept(struct switch_wire *wire, void *data)
{
    assert(wire->at == SWITCH_WIRE_AT_VERDICT);
    wire->data = data;
    go_to(wire, wire->data_length > 0 ? SWITCH_WIRE_AT_DATA : SWITCH_WIRE_AT_NAME_LENGTH);
    return wire->data_length > 0 ? SWITCH_WIRE_MORE : SWITCH_WIRE_COMPLETE;
}

enum switch_wire_event switch_wire_refuse(struct switch_wire *wire)
{
    assert(wire->at == SWITCH_WIRE_AT_VERDICT);
    go_to(wire, wire->data_length > 0 ? SWITCH_WIRE_AT_DROP : SWITCH_WIRE_AT_NAME_LENGTH);
    return wire->data_length > 0 ? SWITCH_WIRE_MORE : SWITCH_WIRE_REFUSED;
}
