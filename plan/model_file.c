#include "plan/model_file.h"

#include "base/buf.h"
#include "base/c_locale.h"
#include "base/file.h"
#include "base/noted_alloc.h"
#include "plan/sample_facts.h"

#include <jansson.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VERSION 1
/* A hundred times what a model takes; JSON takes 25 times its bytes of memory. */
#define MAX_FILE_BYTES ((size_t)1 << 20)
#define MOST 1e30 /* as menus allow */

/* --- writing --- */

static json_t *weights_to_json(const struct sluice_choice_weights *weights)
{
    json_t *json = json_object();
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++) {
        if (weights->per[f] != 0)
            json_object_set_new(json, sluice_choice_feature_name(f), json_real(weights->per[f]));
    }
    return json;
}

static unsigned sides_of(struct sluice_choice choice)
{
    return choice.on_gpu ? SLUICE_MODELLED : SLUICE_MODELLED_BY_SAMPLE;
}

static json_t *model_to_json(const struct sluice_choice_model *model)
{
    json_t *classes = json_object();
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        json_t *choices = json_object();
        for (unsigned c = 0; c < model->choices.num; c++) {
            json_t *sides = json_object();
            SLUICE_EACH_RESOURCE (side, sides_of(model->choices.at[c]))
                json_object_set_new(sides, sluice_modelled_name((enum sluice_resource)side),
                                    weights_to_json(&model->weights[file_class][c][side]));
            json_object_set_new(choices, sluice_choice_name(model->choices.at[c]), sides);
        }
        json_object_set_new(classes, sluice_file_class_name(file_class), choices);
    }
    return classes;
}

sluice_status sluice_model_file_write(const char *folder, const struct sluice_pipeline *pipeline,
                                      const struct sluice_model_file *file, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    sluice_status status = sluice_path_in(folder, SLUICE_MODEL_FILE, path, err);
    if (status != SLUICE_OK)
        return status;
    const struct sluice_transport_cost *transport = &file->transport;
    char fingerprint[20];
    snprintf(fingerprint, sizeof(fingerprint), "%016llx",
             (unsigned long long)sluice_pipeline_fingerprint(pipeline));
    sluice_noted_begin();
    json_t *json = json_pack(
        "{s:i, s:I, s:f, s:f, s:f, s:s, s:s, s:I, s:b, s:{s:f, s:f}, s:{s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:f, s:f}, "
        "s:o}",
        "sluice_cost_model", VERSION, "samples", (json_int_t)file->num_samples, "link_bytes_per_s",
        file->link_bytes_per_s, "storage_cores", file->storage_cores, "compute_cores",
        file->compute_cores, "pipeline", sluice_pipeline_spec(pipeline), "fingerprint", fingerprint,
        "output_size", (json_int_t)sluice_output_side(pipeline), "jpeg_index",
        file->model.has_jpeg_index, "disk", "sample", file->model.disk_s_per_sample, "file_byte",
        file->model.disk_s_per_byte, "transport", "storage_sample", transport->storage_s_per_sample,
        "storage_job", transport->storage_s_per_job, "storage_byte", transport->storage_s_per_byte,
        "compute_sample", transport->compute_s_per_sample, "compute_byte",
        transport->compute_s_per_byte, "compute_job", transport->compute_s_per_job,
        "receive_sample", transport->receive_s_per_sample, "receive_byte",
        transport->receive_s_per_byte, "batch_sample", transport->batch_s_per_sample, "batch_byte",
        transport->batch_s_per_byte, "weights", model_to_json(&file->model));
    if (file->dataset_id[0])
        json_object_set_new(json, "dataset", json_string(file->dataset_id));
    char *text =
        json ? SLUICE_IN_C_LOCALE(json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(9))) : NULL;
    json_decref(json);
    if (sluice_noted_is_short()) {
        free(text);
        text = NULL;
    }
    if (!text)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory to write %s", path);
    status = sluice_file_write_atomic(path, text, strlen(text), err);
    free(text);
    return status;
}

/* --- reading --- */

struct reader {
    const char *path;
    sluice_status status;
    struct sluice_err *err;
};

/* The number of that name; 0 if it is missing.  The first invalid number becomes the error. */
static double number_of(struct reader *reader, const json_t *json, const char *name)
{
    const json_t *found = json_object_get(json, name);
    const double number = found ? json_number_value(found) : 0;
    if (!found || (json_is_number(found) && number >= 0 && number <= MOST))
        return number;
    if (reader->status == SLUICE_OK)
        reader->status =
            sluice_fail(reader->err, SLUICE_E_CORRUPT, "%s: \"%s\" is not a number of at least 0",
                        reader->path, name);
    return 0;
}

/* The flag of that name; false if it is missing. */
static bool flag_of(struct reader *reader, const json_t *json, const char *name)
{
    const json_t *found = json_object_get(json, name);
    if (found && !json_is_boolean(found) && reader->status == SLUICE_OK)
        reader->status = sluice_fail(reader->err, SLUICE_E_CORRUPT,
                                     "%s: \"%s\" is neither true nor false", reader->path, name);
    return json_is_true(found);
}

static uint64_t count_of(struct reader *reader, const json_t *json, const char *name)
{
    const double number = number_of(reader, json, name);
    return number < 1e15 ? (uint64_t)number : (uint64_t)1e15;
}

static void read_weights(struct reader *reader, const json_t *json,
                         struct sluice_choice_weights *weights)
{
    for (int f = 0; f < SLUICE_NUM_CHOICE_FEATURES; f++)
        weights->per[f] =
            number_of(reader, json, sluice_choice_feature_name((enum sluice_choice_feature)f));
}

static void read_choice(struct reader *reader, const json_t *weights,
                        struct sluice_choice_model *model, unsigned c)
{
    const struct sluice_choice choice = model->choices.at[c];
    for (int file_class = 0; file_class < SLUICE_NUM_FILE_CLASSES; file_class++) {
        const json_t *sides = json_object_get(
            json_object_get(weights, sluice_file_class_name((enum sluice_file_class)file_class)),
            sluice_choice_name(choice));
        if (!sides && choice.on_gpu)
            continue;
        SLUICE_EACH_RESOURCE (side, sides_of(choice))
            read_weights(reader,
                         json_object_get(sides, sluice_modelled_name((enum sluice_resource)side)),
                         &model->weights[file_class][c][side]);
    }
}

/* The GPU's choices come last, and have weights that follow from the others' where the file has
 * none. */
static void read_model(struct reader *reader, const json_t *weights,
                       struct sluice_choice_model *model)
{
    unsigned c = 0;
    for (; c < model->choices.num && !model->choices.at[c].on_gpu; c++)
        read_choice(reader, weights, model, c);
    sluice_choice_model_set_gpu(model);
    for (; c < model->choices.num; c++)
        read_choice(reader, weights, model, c);
}

/* Fields that files from before batches on a GPU lack are as usual. */
static struct sluice_transport_cost read_transport(struct reader *reader, const json_t *json)
{
    const struct sluice_transport_cost usual = sluice_transport_cost_default();
    const bool has_batch = json_object_get(json, "batch_sample");
    return (struct sluice_transport_cost){
        .storage_s_per_sample = number_of(reader, json, "storage_sample"),
        .storage_s_per_job = number_of(reader, json, "storage_job"),
        .storage_s_per_byte = number_of(reader, json, "storage_byte"),
        .compute_s_per_sample = number_of(reader, json, "compute_sample"),
        .compute_s_per_job = number_of(reader, json, "compute_job"),
        .compute_s_per_byte = number_of(reader, json, "compute_byte"),
        .receive_s_per_sample = number_of(reader, json, "receive_sample"),
        .receive_s_per_byte = number_of(reader, json, "receive_byte"),
        .batch_s_per_sample =
            has_batch ? number_of(reader, json, "batch_sample") : usual.batch_s_per_sample,
        .batch_s_per_byte =
            has_batch ? number_of(reader, json, "batch_byte") : usual.batch_s_per_byte,
    };
}

static sluice_status check_version(const json_t *json, const char *path, struct sluice_err *err)
{
    const json_t *version = json_object_get(json, "sluice_cost_model");
    if (!json_is_integer(version))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: not a cost model", path);
    if (json_integer_value(version) != VERSION)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "%s: a cost model of version %lld, not %d",
                           path, (long long)json_integer_value(version), VERSION);
    return SLUICE_OK;
}

static sluice_status read_file(const json_t *json, const char *path,
                               const struct sluice_choices *choices, struct sluice_model_file *file,
                               struct sluice_err *err)
{
    struct reader reader = {.path = path, .err = err};
    const json_t *disk = json_object_get(json, "disk");
    struct sluice_model_file read = {
        .num_samples = count_of(&reader, json, "samples"),
        .link_bytes_per_s = number_of(&reader, json, "link_bytes_per_s"),
        .storage_cores = number_of(&reader, json, "storage_cores"),
        .compute_cores = number_of(&reader, json, "compute_cores"),
        .model = {.choices = *choices,
                  .disk_s_per_sample = number_of(&reader, disk, "sample"),
                  .disk_s_per_byte = number_of(&reader, disk, "file_byte"),
                  .has_jpeg_index = flag_of(&reader, json, "jpeg_index")},
    };
    read_model(&reader, json_object_get(json, "weights"), &read.model);
    const json_t *transport = json_object_get(json, "transport");
    read.transport =
        transport ? read_transport(&reader, transport) : sluice_transport_cost_default();
    if (reader.status != SLUICE_OK)
        return reader.status;
    *file = read;
    return SLUICE_OK;
}

static sluice_status read_origin(const json_t *json, const char *path,
                                 struct sluice_model_origin *origin, struct sluice_err *err)
{
    struct reader reader = {.path = path, .err = err};
    const json_t *pipeline = json_object_get(json, "pipeline");
    const json_t *fingerprint = json_object_get(json, "fingerprint");
    struct sluice_model_origin read = {0};
    if (pipeline) {
        unsigned long long value;
        int used = 0;
        const char *text = json_string_value(pipeline);
        if (!text || !text[0] || strlen(text) >= sizeof(read.pipeline))
            return sluice_fail(err, SLUICE_E_CORRUPT, "%s: \"pipeline\" is not a pipeline's text",
                               path);
        if (!json_is_string(fingerprint) || json_string_length(fingerprint) != 16 ||
            sscanf(json_string_value(fingerprint), "%16llx%n", &value, &used) != 1 || used != 16)
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "%s: \"fingerprint\" is not 16 hexadecimal digits", path);
        strcpy(read.pipeline, text);
        read.fingerprint = value;
        read.output_size = (uint32_t)fmin(number_of(&reader, json, "output_size"), UINT32_MAX);
    }
    const json_t *dataset = json_object_get(json, "dataset");
    if (dataset) {
        const char *text = json_string_value(dataset);
        if (!text || strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
            return sluice_fail(err, SLUICE_E_CORRUPT,
                               "%s: \"dataset\" is not 32 hexadecimal digits", path);
        memcpy(read.dataset_id, text, sizeof(read.dataset_id));
    }
    if (reader.status == SLUICE_OK)
        *origin = read;
    return reader.status;
}

/* FOLDER/cost_model.json; *json is the caller's to give back. */
static sluice_status load(const char *folder, char path[SLUICE_MAX_PATH_BYTES], json_t **json,
                          struct sluice_err *err)
{
    struct sluice_buf *text = NULL;
    sluice_status status = sluice_path_in(folder, SLUICE_MODEL_FILE, path, err);
    if (status == SLUICE_OK)
        status = sluice_file_read(path, MAX_FILE_BYTES, NULL, &text, err);
    if (status != SLUICE_OK)
        return status;
    json_error_t why;
    sluice_noted_begin();
    json_t *loaded = SLUICE_IN_C_LOCALE(
        json_loadb((const char *)text->data, text->len, JSON_REJECT_DUPLICATES, &why));
    sluice_buf_unref(text);
    if (sluice_noted_is_short()) {
        json_decref(loaded);
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "%s: no memory to read it", path);
    }
    if (!loaded)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s:%d: %s", path, why.line, why.text);
    status = check_version(loaded, path, err);
    if (status != SLUICE_OK)
        json_decref(loaded);
    else
        *json = loaded;
    return status;
}

sluice_status sluice_model_file_read(const char *folder, const struct sluice_choices *choices,
                                     struct sluice_model_file *file, struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    json_t *json = NULL;
    sluice_status status = load(folder, path, &json, err);
    if (status == SLUICE_OK)
        status = read_file(json, path, choices, file, err);
    json_decref(json);
    return status;
}

sluice_status sluice_model_file_read_origin(const char *folder, struct sluice_model_origin *origin,
                                            struct sluice_err *err)
{
    char path[SLUICE_MAX_PATH_BYTES];
    json_t *json = NULL;
    sluice_status status = load(folder, path, &json, err);
    if (status == SLUICE_OK)
        status = read_origin(json, path, origin, err);
    json_decref(json);
    return status;
}
