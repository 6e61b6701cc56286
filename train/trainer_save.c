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

/* --- the tensors of a trainer --- */

/* As they stand in a file, by torchvision's names: counters, then parameters. */
struct list {
    struct sluice_trainer *trainer;
    enum sluice_array array;
    struct sluice_tensor *tensors;
    unsigned *params;          /* of the tensors, but for the first num_counters */
    char (*names)[NAME_BYTES]; /* of the counters */
    size_t num_counters, num;
};

static void add_counters(struct list *list)
{
    const struct sluice_net *net = &list->trainer->net;
    for (unsigned i = 0; i < net->num_layers; i++) {
        if (net->layers[i].kind != SLUICE_LAYER_BATCHNORM)
            continue;
        const char *weight = net->params[net->layers[i].weight].name;
        char *name = list->names[list->num];
        snprintf(name, NAME_BYTES, "%.*s" COUNTER, (int)(strrchr(weight, '.') - weight), weight);
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

/* --- saving --- */

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
    char *engines = NULL;
    if (trainer->ops->engines) {
        const sluice_status failed = trainer->ops->engines(trainer, &engines, err);
        if (failed)
            return failed;
    }
    const struct sluice_checkpoint_head head = {
        .model = net->model,
        .height = net->height,
        .width = net->width,
        .num_classes = net->num_classes,
        .seed = trainer->options.seed,
        .steps = trainer->steps,
        .extra = extra ? extra : "",
        .engines = engines,
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
    free(engines);
    return status;
}

/* --- loading --- */

static bool is_listed(const struct list *list, const char *name)
{
    size_t i = 0;
    while (i < list->num && strcmp(list->tensors[i].name, name) != 0)
        i++;
    return i < list->num;
}

static bool is_like(const struct sluice_tensor *tensor, const struct sluice_tensor *wanted)
{
    return (tensor->type == SLUICE_TENSOR_I64) == (wanted->type == SLUICE_TENSOR_I64) &&
           tensor->num_dims == wanted->num_dims &&
           memcmp(tensor->dims, wanted->dims, sizeof(tensor->dims)) == 0;
}

/* Whether a file has the tensors of the list and no others.  It may lack the counters, and those of
 * the layer `left_out` unless that is NULL. */
static sluice_status check_tensors(const struct list *list, const struct sluice_safetensors *file,
                                   const char *path, const struct sluice_layer *left_out,
                                   struct sluice_err *err)
{
    const char *model = list->trainer->net.model;
    for (size_t i = 0; i < file->num_tensors; i++) {
        if (!is_listed(list, file->tensors[i].name))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %.100s is not a tensor of %s", path,
                               file->tensors[i].name, model);
    }
    for (size_t i = 0; i < list->num; i++) {
        const struct sluice_tensor *wanted = &list->tensors[i];
        const struct sluice_tensor *tensor = sluice_safetensors_find(file, wanted->name);
        const int param = i < list->num_counters ? -1 : (int)list->params[i];
        const bool is_optional =
            param < 0 || (left_out && (param == left_out->weight || param == left_out->bias));
        if (!tensor && !is_optional)
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s of %s is missing", path, wanted->name,
                               model);
        if (tensor && !is_like(tensor, wanted))
            return sluice_fail(err, SLUICE_E_INVALID, "%s: %s is of another shape than that of %s",
                               path, wanted->name, model);
    }
    return SLUICE_OK;
}

/* Loads what the file has of the list, after a check.  The first counter is set last. */
static sluice_status load_tensors(const struct list *list, const struct sluice_safetensors *file,
                                  struct sluice_err *err)
{
    struct sluice_trainer *trainer = list->trainer;
    size_t largest = 1;
    for (unsigned i = 0; i < trainer->net.num_params; i++) {
        if (trainer->net.params[i].count > largest)
            largest = trainer->net.params[i].count;
    }
    float *scratch = malloc(largest * sizeof(*scratch));
    if (!scratch)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a parameter of %zu elements",
                           largest);
    sluice_status status = SLUICE_OK;
    for (size_t i = list->num; !status && i-- > 0;) {
        const struct sluice_tensor *tensor = sluice_safetensors_find(file, list->tensors[i].name);
        if (tensor && i < list->num_counters) {
            memcpy(&trainer->batches_tracked, tensor->data, sizeof(trainer->batches_tracked));
        } else if (tensor) {
            sluice_tensor_to_float(tensor, scratch);
            status = trainer->ops->write(trainer, list->array, list->params[i], scratch, err);
        }
    }
    free(scratch);
    return status;
}

static sluice_status check_head(const struct sluice_net *net,
                                const struct sluice_checkpoint *checkpoint, const char *path,
                                struct sluice_err *err)
{
    if (strcmp(checkpoint->model, net->model) != 0 || checkpoint->height != net->height ||
        checkpoint->width != net->width || checkpoint->num_classes != net->num_classes)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "%s: saved from %s with images of %u x %u (height x width) and %u "
                           "classes, not from %s with images of %u x %u and %u classes",
                           path, checkpoint->model, checkpoint->height, checkpoint->width,
                           checkpoint->num_classes, net->model, net->height, net->width,
                           net->num_classes);
    return SLUICE_OK;
}

/* Checks all before it changes anything: it loads wholly or not at all. */
static sluice_status load(struct sluice_trainer *trainer,
                          const struct sluice_checkpoint *checkpoint, const char *path,
                          struct sluice_err *err)
{
    struct list values = {0}, momenta = {0};
    sluice_status status = check_head(&trainer->net, checkpoint, path, err);
    if (!status)
        status = make_list(trainer, SLUICE_ARRAY_VALUE, &values, err);
    if (!status)
        status = make_list(trainer, SLUICE_ARRAY_MOMENTUM, &momenta, err);
    if (!status)
        status = check_tensors(&values, &checkpoint->values, path, NULL, err);
    if (!status)
        status = check_tensors(&momenta, &checkpoint->momenta, path, NULL, err);
    if (!status) {
        trainer->batches_tracked = checkpoint->steps; /* for a file without counters */
        status = load_tensors(&values, &checkpoint->values, err);
    }
    if (!status)
        status = load_tensors(&momenta, &checkpoint->momenta, err);
    clear_list(&values);
    clear_list(&momenta);
    return status;
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
        status = load(trainer, &checkpoint, path, err);
    const char *engines = sluice_safetensors_text(&checkpoint.values, "engines");
    if (!status && engines && trainer->ops->use_engines)
        status = trainer->ops->use_engines(trainer, engines, err);
    if (!status) {
        trainer->steps = checkpoint.steps;
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

/* The classifier is the last linear layer, whose rows are the classes.  *left_out gets it if the file
 * has nothing of it; one of other classes is refused. */
static sluice_status check_classifier(const struct sluice_net *net,
                                      const struct sluice_safetensors *file, const char *path,
                                      const struct sluice_layer **left_out, struct sluice_err *err)
{
    const struct sluice_layer *layer = NULL;
    for (unsigned i = 0; i < net->num_layers; i++) {
        if (net->layers[i].kind == SLUICE_LAYER_LINEAR)
            layer = &net->layers[i];
    }
    assert(layer);
    const char *weight = net->params[layer->weight].name, *bias = net->params[layer->bias].name;
    const struct sluice_tensor *tensor = sluice_safetensors_find(file, weight);
    *left_out = tensor || sluice_safetensors_find(file, bias) ? NULL : layer;
    if (!tensor || tensor->num_dims < 1 || tensor->dims[0] == net->num_classes)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INVALID,
                       "%s: %s is of %llu classes, the model of %u: give --num-classes %llu, or to "
                       "train a new classifier a file without %s and %s",
                       path, weight, (unsigned long long)tensor->dims[0], net->num_classes,
                       (unsigned long long)tensor->dims[0], weight, bias);
}

sluice_status sluice_trainer_init_from(struct sluice_trainer *trainer, const char *path,
                                       struct sluice_err *err)
{
    const struct sluice_net *net = &trainer->net;
    if (!net->num_params)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device %s has no model to load",
                           trainer->options.device);
    struct sluice_checkpoint weights = {.num_classes = 0};
    struct list values = {0};
    const struct sluice_layer *left_out = NULL;
    sluice_status status = sluice_checkpoint_read_weights(path, &weights, err);
    if (!status)
        status = make_list(trainer, SLUICE_ARRAY_VALUE, &values, err);
    if (!status)
        status = check_classifier(net, &weights.values, path, &left_out, err);
    if (!status)
        status = check_tensors(&values, &weights.values, path, left_out, err);
    if (!status)
        status = load_tensors(&values, &weights.values, err);
    if (!status && left_out)
        sluice_log(SLUICE_LOG_INFO, "%s: no %s: the classifier is a new one", path,
                   net->params[left_out->weight].name);
    clear_list(&values);
    sluice_checkpoint_clear(&weights);
    return status;
}
