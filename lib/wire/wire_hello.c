#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_fields.h"
#include "wire/wire_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void sluice_wire_hello_clear(struct sluice_wire_hello *hello)
{
    free(hello->peer);
    free(hello->pipeline);
    *hello = (struct sluice_wire_hello){0};
}

sluice_status sluice_wire_put_hello_request(const struct sluice_wire_hello *hello,
                                            struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__HelloRequest wire = SLUICE__V1__HELLO_REQUEST__INIT;
    wire.protocol_version = hello->protocol_version;
    wire.client = hello->peer;
    wire.pipeline = hello->pipeline;
    wire.pipeline_fingerprint = hello->pipeline_fingerprint;
    wire.dataset_id = (char *)hello->dataset_id;
    wire.fields = hello->has_fields;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

sluice_status sluice_wire_get_hello_request(const struct sluice_message *message,
                                            struct sluice_wire_hello *hello, struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__hello_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__HelloRequest *wire = (const Sluice__V1__HelloRequest *)unpacked;
    struct sluice_wire_hello got = {
        .protocol_version = wire->protocol_version,
        .pipeline_fingerprint = wire->pipeline_fingerprint,
        .has_fields = wire->fields,
    };
    status = sluice_wire_copy_dataset_id(wire->dataset_id, got.dataset_id, err);
    if (status == SLUICE_OK)
        status = sluice_wire_copy_string(wire->client, &got.peer, err);
    if (status == SLUICE_OK)
        status = sluice_wire_copy_string(wire->pipeline, &got.pipeline, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *hello = got;
    else
        sluice_wire_hello_clear(&got);
    return status;
}

sluice_status sluice_wire_put_hello_reply(const struct sluice_wire_hello *hello,
                                          struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__Form forms[SLUICE_MAX_FORMS + 2];
    Sluice__V1__HelloReply wire = SLUICE__V1__HELLO_REPLY__INIT;
    wire.protocol_version = hello->protocol_version;
    wire.server = hello->peer;
    wire.pipeline_fingerprint = hello->pipeline_fingerprint;
    wire.dataset_id = (char *)hello->dataset_id;
    wire.num_samples = hello->num_samples;
    wire.prep_workers = hello->prep_workers;
    wire.prep_cores = hello->prep_cores;
    wire.max_in_flight = hello->max_in_flight;
    wire.max_image_pixels = hello->max_image_pixels;
    wire.max_file_bytes = hello->max_file_bytes;
    wire.has_jpeg_index = hello->has_jpeg_index;
    wire.has_hashes = hello->has_hashes;
    wire.has_file_image = hello->has_file_image;
    wire.list_hash = hello->list_hash;
    const struct sluice_machine *machine = &hello->machine;
    if (machine->boot != 0) {
        wire.boot = machine->boot;
        wire.cpu_group = machine->group;
        wire.cpu_quota = isfinite(machine->quota) ? machine->quota : 0;
        wire.cpus.data = (uint8_t *)(uintptr_t)machine->cpus;
        wire.cpus.len = machine->num_cpu_bytes;
    }
    wire.forms = forms;
    for (unsigned form = 0; form < SLUICE_MAX_FORMS; form++) {
        if (hello->forms & (1u << form))
            forms[wire.n_forms++] = sluice_wire_form_to_wire((enum sluice_form)form);
    }
    if (hello->has_jpeg_crop_restart)
        forms[wire.n_forms++] = SLUICE__V1__FORM__FORM_JPEG_CROP_RESTART;
    if (hello->has_listed_id)
        forms[wire.n_forms++] = SLUICE__V1__FORM__FORM_LISTED_ID;
    if (hello->has_hashes)
        return sluice_wire_pack_hashed(&wire.base, HELLO_REPLY_HASH, message, err);
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

/* CPUs past those that we can name are left out, with the machine: it is as if nothing was said. */
static struct sluice_machine machine_of(const Sluice__V1__HelloReply *wire)
{
    struct sluice_machine machine = {.quota = INFINITY};
    if (wire->boot == 0 || wire->cpus.len > sizeof(machine.cpus) || !(wire->cpu_quota >= 0))
        return machine;
    machine.boot = wire->boot;
    machine.group = wire->cpu_group;
    machine.quota = wire->cpu_quota > 0 ? wire->cpu_quota : INFINITY;
    machine.num_cpu_bytes = wire->cpus.len;
    if (wire->cpus.len > 0)
        memcpy(machine.cpus, wire->cpus.data, wire->cpus.len);
    return machine;
}

sluice_status sluice_wire_get_hello_reply(const struct sluice_message *message,
                                          struct sluice_wire_hello *hello, struct sluice_err *err)
{
    const enum sluice_wire_hash hash = sluice_wire_check_hash(HELLO_REPLY_HASH, message);
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__hello_reply__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__HelloReply *wire = (const Sluice__V1__HelloReply *)unpacked;
    struct sluice_wire_hello got = {
        .protocol_version = wire->protocol_version,
        .pipeline_fingerprint = wire->pipeline_fingerprint,
        .num_samples = wire->num_samples,
        .prep_workers = wire->prep_workers,
        .prep_cores = wire->prep_cores,
        .max_in_flight = wire->max_in_flight,
        .max_image_pixels = wire->max_image_pixels,
        .max_file_bytes = wire->max_file_bytes,
        .has_jpeg_index = wire->has_jpeg_index,
        .has_hashes = wire->has_hashes,
        .has_file_image = wire->has_file_image,
        .list_hash = wire->list_hash,
        .machine = machine_of(wire),
    };
    for (size_t i = 0; i < wire->n_forms; i++) {
        /* A newer server may offer forms that we never ask for. */
        enum sluice_form form;
        if (sluice_wire_form_from_wire((uint64_t)wire->forms[i], &form))
            got.forms |= 1u << form;
        got.has_jpeg_crop_restart |= wire->forms[i] == SLUICE__V1__FORM__FORM_JPEG_CROP_RESTART;
        got.has_listed_id |= wire->forms[i] == SLUICE__V1__FORM__FORM_LISTED_ID;
    }
    status = SLUICE_OK;
    /* Either both or none: whichever of them one flipped bit hits, the other is still there. */
    if (hash == SLUICE_WIRE_HASH_WRONG || got.has_hashes != (hash == SLUICE_WIRE_HASH_RIGHT))
        status = sluice_wire_damaged("HelloReply", err);
    else if (!(got.prep_cores >= 0 && isfinite(got.prep_cores)))
        status =
            sluice_fail(err, SLUICE_E_CORRUPT, "a HelloReply with a number of cores that is none");
    if (status == SLUICE_OK)
        status = sluice_wire_copy_dataset_id(wire->dataset_id, got.dataset_id, err);
    if (status == SLUICE_OK)
        status = sluice_wire_copy_string(wire->server, &got.peer, err);
    if (status == SLUICE_OK)
        status = sluice_wire_copy_string("", &got.pipeline, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *hello = got;
    else
        sluice_wire_hello_clear(&got);
    return status;
}
