#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_internal.h"

#include "data_transfer.pb-c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void sluice_wire_data_request_clear(struct sluice_wire_data_request *request)
{
    free(request->fname);
    *request = (struct sluice_wire_data_request){0};
}

sluice_status sluice_wire_get_data_request(const struct sluice_message *message,
                                           struct sluice_wire_data_request *request,
                                           struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status = sluice_wire_unpack(&data_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const DataRequest *wire = (const DataRequest *)unpacked;
    struct sluice_wire_data_request got = {.pproc = wire->pproc, .size = wire->size};
    status = sluice_wire_copy_string(wire->fname, &got.fname, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *request = got;
    return status;
}

sluice_status sluice_wire_put_data_response(const struct sluice_wire_data_response *response,
                                            struct sluice_message *message, struct sluice_err *err)
{
    assert(response->num_shape <= SLUICE_ARRAY_LEN(response->shape));
    char *owned = NULL;
    DataResponse wire = DATA_RESPONSE__INIT;
    if (response->image)
        wire.image =
            (ProtobufCBinaryData){.len = response->image->len, .data = response->image->data};
    if (response->label)
        wire.label = (ProtobufCBinaryData){.len = strlen(response->label),
                                           .data = (uint8_t *)response->label};
    wire.pproc = response->pproc;
    wire.fname = (char *)sluice_wire_clean_utf8(response->fname, &owned);
    if (!wire.fname)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a file name");
    wire.pil_mode = (char *)response->pil_mode;
    wire.width = response->width;
    wire.height = response->height;
    wire.n_shape = response->num_shape;
    wire.shape = (int32_t *)response->shape;
    wire.dtype = (char *)response->dtype;
    const sluice_status status = sluice_wire_pack(&wire.base, response->image, message, err);
    free(owned);
    return status;
}
