#include "base/log.h"
#include "train/checkpoint/checkpoint.h"
#include "train/trainer_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Saving a trainer, and loading it. */

#define COUNTER ".num_batches_tracked" /* of a batch norm */
#define NAME_BYTES (sizeof(((struct sluice_param *)0)->name) + sizeof(COUNTER))

/* The layer's counter, by torchvision's name; false: the layer has none. */
static bool name_counter(const struct sluice_net *net, const struct sluice_layer *layer,
                         char name[NAME_BYTES])
{
    if (layer->kind != SLUICE_LAYER_BATCHNORM)
        return false;
    const char *weight = net->params[layer->weight].name;
    snprintf(name, NAME_BYTES, "%.*s" COUNTER, (int)(strrchr(weight, '.') - weight), weight);
    return true;
}

/* --- saving --- */

/* The tensors of a file. */
struct list {
    struct sluice_trainer *trainer;
    enum sluice_array array;
    struct sluice_tensor *tensors;
    unsigned *params;          /* of the tensors, but for the first num_counters */
    char (*names)[NAME_BYTES]; /* of the counters */
    size_t num_counters, num;
};

static sluice_status read_param(const struct list *list, unsigned param, float *to,
                                struct sluice_err *err)
{
    struct sluice_trainer *trainer = list->trainer;
    const sluice_status status = trainer->ops->read(trainer, list->array, param, to, err);
    if (status)
        return status;
    const struct sluice_param *info = &trainer->net.params[param];
    if (!sluice_all_finite(to, info->count))
        return sluice_fail(err, SLUICE_E_INTERNAL, "parameter %s is not finite: is lr %g too high?",
                           info->name, trainer->lr);
    return SLUICE_OK;
}

static sluice_status fill(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    const struct list *list = ctx;
    if (tensor >= list->num_counters)
        return read_param(list, list->params[tensor], to, err);
    const int64_t batches = (int64_t)list->trainer->batches_tracked;
    memcpy(to, &batches, sizeof(batches));
    return SLUICE_OK;
}

static void add_counters(struct list *list)
{
    const struct sluice_net *net = &list->trainer->net;
    for (unsigned i = 0; i < net->num_layers; i++) {
        char *name = list->names[list->num];
        if (name_counter(net, &net->layers[i], name))
            list->tensors[list->num++] =
                (struct sluice_tensor){.name = name, .type = SLUICE_TENSOR_I64};
    }
    list->num_counters = list->num;
}

static void add_params(struct list *list)
{
    const struct sluice_net *net = &list->trainer->net;
    for (unsigned i = 0; i < net->num_params; i++) {
        const struct sluice_param *param = &net->params[i];
        if (list->array == SLUICE_ARRAY_MOMENTUM && !param->is_trained)
            continue;
        struct sluice_tensor *tensor = &list->tensors[list->num];
        *tensor = (struct sluice_tensor){
            .name = param->name, .type = SLUICE_TENSOR_F32, .num_dims = param->num_dims};
        for (unsigned k = 0; k < param->num_dims; k++)
            tensor->dims[k] = param->dims[k];
        list->params[list->num++] = i;
    }
}

static void clear_list(struct list *list)
{
    free(list->tensors);
    free(list->params);
    free(list->names);
}

/* Clear it also after a failure. */
static sluice_status make_list(struct sluice_trainer *trainer, enum sluice_array array,
                               struct list *list, struct sluice_err *err)
{
    const size_t most = (size_t)trainer->net.num_layers + trainer->net.num_params;
    *list = (struct list){.trainer = trainer, .array = array};
    list->tensors = calloc(most, sizeof(*list->tensors));
    list->params = calloc(most, sizeof(*list->params));
    list->names = calloc(most, sizeof(*list->names));
    if (!list->tensors || !list->params || !list->names)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of %zu tensors", most);
    if (array == SLUICE_ARRAY_VALUE)
        add_counters(list);
    add_params(list);
    return SLUICE_OK;
}

static struct sluice_safetensors_plan plan_of(struct list *list)
{
    return (struct sluice_safetensors_plan){
        .tensors = list->tensors, .num_tensors = list->num, .fill = fill, .ctx = list};
}

sluice_status sluice_trainer_save(struct sluice_trainer *trainer, const char *path,
                                  const char *extra, struct sluice_err *err)
{
    const struct sluice_net *net = &trainer->net;
    if (!net->num_params)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device %s has no model to save",
                           trainer->options.device);
    const struct sluice_checkpoint_head head = {
        .model = net->model,
        .height = net->height,
        .width = net->width,
        .num_classes = net->num_classes,
        .seed = trainer->options.seed,
        .steps = trainer->steps,
        .extra = extra ? extra : "",
    };
    struct list values = {0}, momenta = {0};
    sluice_status status = make_list(trainer, SLUICE_ARRAY_VALUE, &values, err);
    if (!status)
        status = make_list(trainer, SLUICE_ARRAY_MOMENTUM, &momenta, err);
    if (!status) {
        const struct sluice_safetensors_plan plans[] = {plan_of(&values), plan_of(&momenta)};
        status = sluice_checkpoint_write(path, &head, &plans[0], &plans[1], err);
    }
    clear_list(&values);
    clear_list(&momenta);
    return status;
}

/* --- loading --- */

static bool has_shape(const struct sluice_tensor *tensor, const struct sluice_param *param)
{
    bool is_same = tensor->type != SLUICE_TENSOR_I64 && tensor->num_dims == param->num_dims;
    for (unsigned i = 0; is_same && i < param->num_dims; i++)
        is_same = tensor->dims[i] == param->dims[i];
    return is_same;
}

/* Writes the tensors of a file to the parameters that have their names. */
static sluice_status load_array(struct sluice_trainer *trainer, enum sluice_array array,
                                const struct sluice_safetensors *file, struct sluice_err *err)
{
    const struct sluice_net *net = &trainer->net;
    size_t largest = 1;
    for (unsigned i = 0; i < net->num_params; i++) {
        if (net->params[i].count > largest)
            largest = net->params[i].count;
    }
    float *scratch = malloc(largest * sizeof(*scratch));
    if (!scratch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a parameter of %zu elements",
                           largest);
    sluice_status status = SLUICE_OK;
    for (unsigned i = 0; !status && i < net->num_params; i++) {
        const struct sluice_param *param = &net->params[i];
        const struct sluice_tensor *tensor = sluice_safetensors_find(file, param->name);
        if (!tensor || (array == SLUICE_ARRAY_MOMENTUM && !param->is_trained))
            continue;
        assert(has_shape(tensor, param));
        sluice_tensor_to_float(tensor, scratch);
        status = trainer->ops->write(trainer, array, i, scratch, err);
    }
    free(scratch);
    return status;
}

/* The first counter that the file has, else `otherwise`. */
static uint64_t read_counter(const struct sluice_net *net, const struct sluice_safetensors *file,
                             uint64_t otherwise)
{
    char name[NAME_BYTES];
    for (unsigned i = 0; i < net->num_layers; i++) {
        const struct sluice_tensor *tensor =
            name_counter(net, &net->layers[i], name) ? sluice_safetensors_find(file, name) : NULL;
        if (tensor && tensor->type == SLUICE_TENSOR_I64 && tensor->count == 1) {
            uint64_t batches;
            memcpy(&batches, tensor->data, sizeof(batches));
            return batches;
        }
    }
    return otherwise;
}

static sluice_status check_tensor(const struct sluice_safetensors *file, const char *path,
                                  const struct sluice_param *param, struct sluice_err *err)
{
    const struct sluice_tensor *tensor = sluice_safetensors_find(file, param->name);
    if (!tensor || !has_shape(tensor, param))
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: %s is missing or of another shape", path,
                           param->name);
    return SLUICE_OK;
}

/* Checks all that load needs before it changes anything: it loads wholly or not at all. */
static sluice_status check_checkpoint(const struct sluice_trainer *trainer,
                                      const struct sluice_checkpoint *checkpoint, const char *path,
                                      struct sluice_err *err)
{
    const struct sluice_net *net = &trainer->net;
    if (strcmp(checkpoint->model, net->model) != 0 || checkpoint->height != net->height ||
        checkpoint->width != net->width || checkpoint->num_classes != net->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: saved from %s with images of %u x %u (height x width) and %u "
                           "classes, not from %s with images of %u x %u and %u classes",
                           path, checkpoint->model, checkpoint->height, checkpoint->width,
                           checkpoint->num_classes, net->model, net->height, net->width,
                           net->num_classes);
    for (unsigned i = 0; i < net->num_params; i++) {
        const struct sluice_param *param = &net->params[i];
        sluice_status status = check_tensor(&checkpoint->values, path, param, err);
        if (!status && param->is_trained)
            status = check_tensor(&checkpoint->momenta, path, param, err);
        if (status)
            return status;
    }
    return SLUICE_OK;
}

sluice_status sluice_trainer_load(struct sluice_trainer *trainer, const char *path, char **extra,
                                  struct sluice_err *err)
{
    if (!trainer->net.num_params)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device %s has no model to load",
                           trainer->options.device);
    struct sluice_checkpoint checkpoint = {.num_classes = 0};
    sluice_status status = sluice_checkpoint_read(path, &checkpoint, err);
    if (!status)
        status = check_checkpoint(trainer, &checkpoint, path, err);
    if (!status)
        status = load_array(trainer, SLUICE_ARRAY_VALUE, &checkpoint.values, err);
    if (!status)
        status = load_array(trainer, SLUICE_ARRAY_MOMENTUM, &checkpoint.momenta, err);
    if (!status) {
        trainer->steps = checkpoint.steps;
        trainer->batches_tracked =
            read_counter(&trainer->net, &checkpoint.values, checkpoint.steps);
        trainer->options.seed = checkpoint.seed; /* dropout goes on with its own draws */
        if (extra) {
            *extra = checkpoint.extra;
            checkpoint.extra = NULL;
        }
    }
    sluice_checkpoint_clear(&checkpoint);
    return status;
}

/* --- initial weights --- */

/* The last linear layer, whose rows are the classes. */
static const struct sluice_layer *classifier_of(const struct sluice_net *net)
{
    const struct sluice_layer *found = NULL;
    for (unsigned i = 0; i < net->num_layers; i++) {
        if (net->layers[i].kind == SLUICE_LAYER_LINEAR)
            found = &net->layers[i];
    }
    return found;
}

static bool is_known(const struct sluice_net *net, const char *tensor)
{
    char name[NAME_BYTES];
    for (unsigned i = 0; i < net->num_params; i++) {
        if (strcmp(tensor, net->params[i].name) == 0)
            return true;
    }
    for (unsigned i = 0; i < net->num_layers; i++) {
        if (name_counter(net, &net->layers[i], name) && strcmp(tensor, name) == 0)
            return true;
    }
    return false;
}

/* A file without the classifier leaves it as it is; other classes are refused. */
static sluice_status check_classifier(const struct sluice_net *net,
                                      const struct sluice_safetensors *file, const char *path,
                                      bool *is_left_out, struct sluice_err *err)
{
    const struct sluice_layer *layer = classifier_of(net);
    const char *weight = net->params[layer->weight].name, *bias = net->params[layer->bias].name;
    const struct sluice_tensor *tensor = sluice_safetensors_find(file, weight);
    *is_left_out = !tensor && !sluice_safetensors_find(file, bias);
    if (!tensor || tensor->num_dims < 1 || tensor->dims[0] == net->num_classes)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s: %s is of %llu classes, the model of %u: give --num-classes %llu, or to "
                       "train a new classifier a file without %s and %s",
                       path, weight, (unsigned long long)tensor->dims[0], net->num_classes,
                       (unsigned long long)tensor->dims[0], weight, bias);
}

static sluice_status check_weights(const struct sluice_net *net,
                                   const struct sluice_safetensors *file, const char *path,
                                   struct sluice_err *err)
{
    const struct sluice_layer *classifier = classifier_of(net);
    bool is_left_out;
    const sluice_status status = check_classifier(net, file, path, &is_left_out, err);
    if (status)
        return status;
    for (size_t i = 0; i < file->num_tensors; i++) {
        if (!is_known(net, file->tensors[i].name))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %.100s is no tensor of %s", path,
                               file->tensors[i].name, net->model);
    }
    for (int i = 0; i < (int)net->num_params; i++) {
        const struct sluice_tensor *tensor = sluice_safetensors_find(file, net->params[i].name);
        if (!tensor && !(is_left_out && (i == classifier->weight || i == classifier->bias)))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s of %s is missing", path,
                               net->params[i].name, net->model);
        if (tensor && !has_shape(tensor, &net->params[i]))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s is of another shape than that of %s",
                               path, net->params[i].name, net->model);
    }
    if (is_left_out)
        sluice_log(SLUICE_LOG_INFO, "%s: no %s: the classifier is a new one", path,
                   net->params[classifier->weight].name);
    return SLUICE_OK;
}

sluice_status sluice_trainer_init_from(struct sluice_trainer *trainer, const char *path,
                                       struct sluice_err *err)
{
    if (!trainer->net.num_params)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device %s has no model to load",
                           trainer->options.device);
    struct sluice_checkpoint weights = {.num_classes = 0};
    sluice_status status = sluice_checkpoint_read_weights(path, &weights, err);
    if (!status)
        status = check_weights(&trainer->net, &weights.values, path, err);
    if (!status)
        status = load_array(trainer, SLUICE_ARRAY_VALUE, &weights.values, err);
    if (!status)
        trainer->batches_tracked = read_counter(&trainer->net, &weights.values, 0);
    sluice_checkpoint_clear(&weights);
    return status;
}
