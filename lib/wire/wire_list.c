#include "wire/message_reader.h"
#include "wire/message_writer.h"
#include "wire/wire.h"
#include "wire/wire_fields.h"
#include "wire/wire_internal.h"

#include <stdlib.h>
#include <string.h>

void sluice_wire_list_clear(struct sluice_wire_list *list)
{
    for (size_t i = 0; i < list->num_classes; i++)
        free(list->classes[i]);
    for (size_t i = 0; i < list->num_samples_here; i++)
        free(list->samples[i].path);
    free(list->classes);
    free(list->samples);
    free(list->fields);
    sluice_list_block_clear(&list->packed);
    *list = (struct sluice_wire_list){0};
}

sluice_status sluice_wire_put_list_request(const char *subset, uint64_t first_row, bool is_packed,
                                           struct sluice_message *message, struct sluice_err *err)
{
    Sluice__V1__ListSamplesRequest wire = SLUICE__V1__LIST_SAMPLES_REQUEST__INIT;
    wire.subset = (char *)subset;
    wire.first_row = first_row;
    wire.packed = is_packed;
    wire.fields = is_packed;
    return sluice_wire_pack(&wire.base, NULL, message, err);
}

sluice_status sluice_wire_get_list_request(const struct sluice_message *message, char **subset,
                                           uint64_t *first_row, bool *is_packed,
                                           struct sluice_err *err)
{
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack(&sluice__v1__list_samples_request__descriptor, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    const Sluice__V1__ListSamplesRequest *wire = (const Sluice__V1__ListSamplesRequest *)unpacked;
    status = sluice_wire_copy_string(wire->subset, subset, err);
    if (status == SLUICE_OK) {
        *first_row = wire->first_row;
        *is_packed = wire->packed;
    }
    protobuf_c_message_free_unpacked(unpacked, NULL);
    return status;
}

bool sluice_wire_list_request_has_fields(const struct sluice_message *message)
{
    ProtobufCMessage *unpacked;
    if (sluice_wire_unpack(&sluice__v1__list_samples_request__descriptor, message, &unpacked,
                           NULL) != SLUICE_OK)
        return false;
    const bool has_fields = ((const Sluice__V1__ListSamplesRequest *)unpacked)->fields;
    protobuf_c_message_free_unpacked(unpacked, NULL);
    return has_fields;
}

/* The structs that protobuf-c packs, one allocation for each kind. */
struct rows {
    Sluice__V1__SampleInfo *infos;
    Sluice__V1__SampleInfo **samples;
    char **classes;
    char **owned; /* cleaned strings, NULL where the original served */
    size_t num_owned;
};

static void rows_clear(struct rows *rows)
{
    for (size_t i = 0; rows->owned && i < rows->num_owned; i++)
        free(rows->owned[i]);
    free(rows->owned);
    free(rows->infos);
    free(rows->samples);
    free(rows->classes);
}

static bool rows_init(struct rows *rows, const struct sluice_wire_list *list)
{
    const size_t num_samples = list->num_samples_here;
    rows->num_owned = num_samples + list->num_classes;
    rows->owned = calloc(rows->num_owned + 1, sizeof(*rows->owned));
    rows->infos = calloc(num_samples + 1, sizeof(*rows->infos));
    rows->samples =
        calloc(num_samples + 1, sizeof(*rows->samples)); /* NOLINT(bugprone-sizeof-expression) */
    rows->classes = calloc(list->num_classes + 1, sizeof(*rows->classes));
    if (!rows->owned || !rows->infos || !rows->samples || !rows->classes)
        return false;

    char **owned = rows->owned;
    for (size_t i = 0; i < list->num_classes; i++) {
        rows->classes[i] = (char *)sluice_wire_clean_utf8(list->classes[i], owned++);
        if (!rows->classes[i])
            return false;
    }
    for (size_t i = 0; i < num_samples; i++) {
        const struct sluice_wire_sample_info *sample = &list->samples[i];
        Sluice__V1__SampleInfo *info = &rows->infos[i];
        sluice__v1__sample_info__init(info);
        info->sample_id = sample->sample_id;
        info->path = (char *)sluice_wire_clean_utf8(sample->path, owned++);
        if (!info->path)
            return false;
        info->bytes = sample->bytes;
        info->label = sample->label;
        info->is_val = sample->is_val;
        info->width = sample->width;
        info->height = sample->height;
        info->coding = sample->coding;
        if (sample->has_hash)
            info->hash =
                (ProtobufCBinaryData){.len = sizeof(sample->hash), .data = (uint8_t *)sample->hash};
        rows->samples[i] = info;
    }
    return true;
}

sluice_status sluice_wire_put_list_reply(const struct sluice_wire_list *list,
                                         struct sluice_message *message, struct sluice_err *err)
{
    struct rows rows = {0};
    if (!rows_init(&rows, list)) {
        rows_clear(&rows);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu samples",
                           list->num_samples_here);
    }
    Sluice__V1__ListSamplesReply wire = SLUICE__V1__LIST_SAMPLES_REPLY__INIT;
    wire.n_classes = list->num_classes;
    wire.classes = rows.classes;
    wire.dataset_id = (char *)list->dataset_id;
    wire.num_samples = list->num_samples;
    wire.n_samples = list->num_samples_here;
    wire.samples = rows.samples;
    wire.first_row = list->first_row;
    wire.packed = (ProtobufCBinaryData){.len = list->packed.len, .data = list->packed.frame};
    wire.packed_rows = list->packed.num_rows;
    wire.packed_raw_bytes = list->packed.raw_bytes;
    wire.packed_targets = list->packed.has_targets;
    wire.target_kind = list->target_kind;
    wire.target_dim = list->target_dim;
    wire.target_bytes = list->target_bytes;
    if (list->fields)
        wire.fields = list->fields;
    const sluice_status status =
        list->has_hash ? sluice_wire_pack_hashed(&wire.base, LIST_REPLY_HASH, message, err)
                       : sluice_wire_pack(&wire.base, NULL, message, err);
    rows_clear(&rows);
    return status;
}

static sluice_status get_sample_info(const Sluice__V1__SampleInfo *wire,
                                     struct sluice_wire_sample_info *sample, struct sluice_err *err)
{
    if (!wire->path[0])
        return sluice_fail(err, SLUICE_E_CORRUPT, "listed sample %llu has no path",
                           (unsigned long long)wire->sample_id);
    if (wire->hash.len != 0 && wire->hash.len != sizeof(sample->hash))
        return sluice_fail(err, SLUICE_E_CORRUPT, "listed sample %llu has a hash of %zu bytes",
                           (unsigned long long)wire->sample_id, wire->hash.len);
    sample->sample_id = wire->sample_id;
    sample->bytes = wire->bytes;
    sample->label = wire->label;
    sample->is_val = wire->is_val;
    sample->width = wire->width;
    sample->height = wire->height;
    sample->coding = wire->coding <= UINT8_MAX ? (uint8_t)wire->coding : 0;
    sample->has_hash = wire->hash.len != 0;
    if (sample->has_hash)
        memcpy(sample->hash, wire->hash.data, sizeof(sample->hash));
    return sluice_wire_copy_string(wire->path, &sample->path, err);
}

static sluice_status get_packed(const Sluice__V1__ListSamplesReply *wire,
                                struct sluice_list_block *packed, struct sluice_err *err)
{
    if (wire->packed_rows == 0)
        return SLUICE_OK;
    if (wire->n_samples)
        return sluice_fail(err, SLUICE_E_CORRUPT, "a list with packed rows, and others");
    uint8_t *frame = malloc(wire->packed.len + 1);
    if (!frame)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for %u packed rows",
                           wire->packed_rows);
    if (wire->packed.len)
        memcpy(frame, wire->packed.data, wire->packed.len);
    *packed = (struct sluice_list_block){.frame = frame,
                                         .len = wire->packed.len,
                                         .num_rows = wire->packed_rows,
                                         .raw_bytes = wire->packed_raw_bytes,
                                         .has_targets = wire->packed_targets};
    return SLUICE_OK;
}

static sluice_status get_list(const Sluice__V1__ListSamplesReply *wire,
                              struct sluice_wire_list *got, struct sluice_err *err)
{
    sluice_status status = sluice_wire_copy_dataset_id(wire->dataset_id, got->dataset_id, err);
    if (status != SLUICE_OK)
        return status;
    status = sluice_wire_copy_string(wire->fields, &got->fields, err);
    if (status != SLUICE_OK)
        return status;
    got->num_samples = wire->num_samples;
    got->first_row = wire->first_row;
    got->target_kind = wire->target_kind;
    got->target_dim = wire->target_dim;
    got->target_bytes = wire->target_bytes;
    got->classes = calloc(wire->n_classes + 1, sizeof(*got->classes));
    got->samples = calloc(wire->n_samples + 1, sizeof(*got->samples));
    if (!got->classes || !got->samples)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu samples",
                           wire->n_samples);
    for (size_t i = 0; i < wire->n_classes; i++) {
        status = sluice_wire_copy_string(wire->classes[i], &got->classes[i], err);
        if (status != SLUICE_OK)
            return status;
        got->num_classes++;
    }
    for (size_t i = 0; i < wire->n_samples; i++) {
        status = get_sample_info(wire->samples[i], &got->samples[i], err);
        if (status != SLUICE_OK)
            return status;
        got->num_samples_here++;
    }
    return get_packed(wire, &got->packed, err);
}

sluice_status sluice_wire_get_list_reply(const struct sluice_message *message,
                                         struct sluice_wire_list *list, struct sluice_err *err)
{
    const enum sluice_wire_hash hash = sluice_wire_check_hash(LIST_REPLY_HASH, message);
    if (hash == SLUICE_WIRE_HASH_WRONG)
        return sluice_wire_damaged("ListSamplesReply", err);
    ProtobufCMessage *unpacked;
    sluice_status status =
        sluice_wire_unpack_at_most(&sluice__v1__list_samples_reply__descriptor,
                                   SLUICE_WIRE_MAX_LIST_BYTES, message, &unpacked, err);
    if (status != SLUICE_OK)
        return status;
    struct sluice_wire_list got = {.has_hash = hash == SLUICE_WIRE_HASH_RIGHT};
    status = get_list((const Sluice__V1__ListSamplesReply *)unpacked, &got, err);
    protobuf_c_message_free_unpacked(unpacked, NULL);
    if (status == SLUICE_OK)
        *list = got;
    else
        sluice_wire_list_clear(&got);
    return status;
}
