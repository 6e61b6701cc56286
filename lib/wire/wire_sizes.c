#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_fields.h"
#include "wire/wire_internal.h"

#include <assert.h>
#include <stdlib.h>

/* ListSizes. */

#define SIZE_BYTES 5u

sluice_status sluice_wire_put_sizes_request(const struct sluice_wire_sizes_request *request,
                                            struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__ListSizesRequest wire = SLUICE__V1__LIST_SIZES_REQUEST__INIT;
    wire.dataset_id = (char *)request->dataset_id;
    wire.first_row = request->first_row;
    wire.upright = request->is_upright;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

sluice_status sluice_wire_get_sizes_request(const struct sluice_message *message,
                                            struct sluice_wire_sizes_request *request,
                                            struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__list_sizes_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__ListSizesRequest *wire = (const Sluice__V1__ListSizesRequest *)unpacked;
    struct sluice_wire_sizes_request got = {.first_row = wire->first_row,
                                            .is_upright = wire->upright};
    status = sluice_wire_copy_dataset_id(wire->dataset_id, got.dataset_id, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *request = got;
    return status;
}

sluice_status sluice_wire_put_sizes_reply(const struct sluice_wire_image_size *sizes, size_t num,
                                          struct sluice_message *message, struct sluice_err *err)
{
    assert(num <= SLUICE_WIRE_MAX_SIZES);
    uint8_t *bytes = malloc(num * SIZE_BYTES + 1);
    if (!bytes)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu sizes", num);
    for (size_t i = 0; i < num; i++) {
        uint8_t *at = bytes + i * SIZE_BYTES;
        at[0] = (uint8_t)sizes[i].width;
        at[1] = (uint8_t)(sizes[i].width >> 8);
        at[2] = (uint8_t)sizes[i].height;
        at[3] = (uint8_t)(sizes[i].height >> 8);
        at[4] = sizes[i].orientation;
    }
    Sluice__V1__ListSizesReply wire = SLUICE__V1__LIST_SIZES_REPLY__INIT;
    wire.sizes = (ProtobufCBinaryData){.len = num * SIZE_BYTES, .data = bytes};
    const sluice_status status =
        sluice_wire_pack_hashed(&wire.base, SIZES_REPLY_HASH, message, err);
    free(bytes);
    return status;
}

static sluice_status get_sizes(const ProtobufCBinaryData *bytes,
                               struct sluice_wire_image_size *sizes, size_t num,
                               struct sluice_err *err)
{
    for (size_t i = 0; i < num; i++) {
        const uint8_t *at = bytes->data + i * SIZE_BYTES;
        sizes[i] = (struct sluice_wire_image_size){.width = (uint16_t)(at[0] | at[1] << 8),
                                                   .height = (uint16_t)(at[2] | at[3] << 8),
                                                   .orientation = at[4]};
        if ((sizes[i].width == 0) != (sizes[i].height == 0) || at[4] < 1 || at[4] > 8)
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "an image of %u x %u pixels with orientation %u", sizes[i].width,
                               sizes[i].height, at[4]);
    }
    return SLUICE_OK;
}

sluice_status sluice_wire_get_sizes_reply(const struct sluice_message *message,
                                          struct sluice_wire_image_size **sizes, size_t *num,
                                          struct sluice_err *err)
{
    if (sluice_wire_check_hash(SIZES_REPLY_HASH, message) != SLUICE_WIRE_HASH_RIGHT)
        return sluice_wire_damaged("ListSizesReply", err);
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__list_sizes_reply__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const ProtobufCBinaryData *bytes = &((const Sluice__V1__ListSizesReply *)unpacked)->sizes;
    const size_t num_here = bytes->len / SIZE_BYTES;
    struct sluice_wire_image_size *got = NULL;
    if (bytes->len % SIZE_BYTES != 0 || num_here > SLUICE_WIRE_MAX_SIZES)
        status = sluice_fail(err, SLUICE_E_CORRUPT, "%zu bytes of sizes", bytes->len);
    else if (!(got = malloc((num_here + 1) * sizeof(*got))))
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %zu sizes", num_here);
    else
        status = get_sizes(bytes, got, num_here, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status != SLUICE_OK) {
        free(got);
        return status;
    }
    *sizes = got;
    *num = num_here;
    return SLUICE_OK;
}
