#include "train/checkpoint/checkpoint.h"
#include "train/trainer_internal.h"

#include "support/test.h"
#include "v1_writer.h"

#include <unistd.h>

/* --- a device that is memory --- */

struct memory_trainer {
    struct sluice_trainer base;
    float **arrays[2]; /* values and momenta, of each parameter */
};

static float *array_of(struct sluice_trainer *trainer, enum sluice_array array, unsigned param)
{
    CU_ASSERT_FATAL(array == SLUICE_ARRAY_VALUE ||
                    (array == SLUICE_ARRAY_MOMENTUM && trainer->net.params[param].is_trained));
    return ((struct memory_trainer *)trainer)->arrays[array][param];
}

static sluice_status read_array(struct sluice_trainer *trainer, enum sluice_array array,
                                unsigned param, float *out, struct sluice_err *err)
{
    (void)err;
    memcpy(out, array_of(trainer, array, param), trainer->net.params[param].count * sizeof(*out));
    return SLUICE_OK;
}

static sluice_status write_array(struct sluice_trainer *trainer, enum sluice_array array,
                                 unsigned param, const float *in, struct sluice_err *err)
{
    (void)err;
    memcpy(array_of(trainer, array, param), in, trainer->net.params[param].count * sizeof(*in));
    return SLUICE_OK;
}

static const struct sluice_trainer_ops memory_ops = {.read = read_array, .write = write_array};

enum { CLASSES = 5 };

/* Element i of every array is from + i % 7, which float16 and bfloat16 hold exactly. */
static struct memory_trainer *create(const char *model, unsigned num_classes, float from)
{
    struct memory_trainer *trainer = calloc(1, sizeof(*trainer));
    trainer->base.ops = &memory_ops;
    trainer->base.options.seed = 3;
    trainer->base.options.device = "memory";
    struct sluice_net *net = &trainer->base.net;
    REQUIRE_OK(sluice_net_build(model, 64, 64, num_classes, -1, net, sluice_test_err()));
    for (int array = 0; array < 2; array++) {
        trainer->arrays[array] = calloc(net->num_params, sizeof(float *));
        for (unsigned i = 0; i < net->num_params; i++) {
            float *values = malloc(net->params[i].count * sizeof(*values));
            for (size_t k = 0; k < net->params[i].count; k++)
                values[k] = from + (float)(k % 7) + (array ? 0.5f : 0) + (float)(i % 3);
            trainer->arrays[array][i] = values;
        }
    }
    return trainer;
}

static void destroy(struct memory_trainer *trainer)
{
    for (int array = 0; array < 2; array++) {
        for (unsigned i = 0; i < trainer->base.net.num_params; i++)
            free(trainer->arrays[array][i]);
        free(trainer->arrays[array]);
    }
    sluice_net_clear(&trainer->base.net);
    free(trainer);
}

/* The first parameter whose values (array 0) or momenta (1) differ; -1: none. */
static int first_difference(const struct memory_trainer *a, const struct memory_trainer *b,
                            int array)
{
    for (unsigned i = 0; i < a->base.net.num_params; i++) {
        const struct sluice_param *param = &a->base.net.params[i];
        if ((array == 0 || param->is_trained) &&
            memcmp(a->arrays[array][i], b->arrays[array][i], param->count * sizeof(float)) != 0)
            return (int)i;
    }
    return -1;
}

static void save(struct memory_trainer *trainer, const char *name, const char *extra)
{
    REQUIRE_OK(
        sluice_trainer_save(&trainer->base, sluice_test_path(name), extra, sluice_test_err()));
}

/* --- saving and loading --- */

static void saves_and_loads(const char *model, unsigned num_counters)
{
    struct memory_trainer *saved = create(model, CLASSES, 1), *loaded = create(model, CLASSES, 2);
    saved->base.steps = 1000;
    saved->base.batches_tracked = 1234;
    saved->base.options.seed = UINT64_MAX;
    save(saved, "a.safetensors", "{\"epoch\":3}");
    char *extra = NULL;
    REQUIRE_OK(sluice_trainer_load(&loaded->base, sluice_test_path("a.safetensors"), &extra,
                                   sluice_test_err()));
    CU_ASSERT_STRING_EQUAL(extra, "{\"epoch\":3}");
    free(extra);
    CU_ASSERT_EQUAL(first_difference(saved, loaded, 0), -1);
    CU_ASSERT_EQUAL(first_difference(saved, loaded, 1), -1);
    CU_ASSERT_EQUAL(loaded->base.steps, 1000);
    CU_ASSERT_EQUAL(loaded->base.batches_tracked, 1234);
    CU_ASSERT_EQUAL(loaded->base.options.seed, UINT64_MAX);

    /* The names of the state dict and no others. */
    struct sluice_checkpoint file;
    REQUIRE_OK(sluice_checkpoint_read(sluice_test_path("a.safetensors"), &file, NULL));
    const struct sluice_net *net = &saved->base.net;
    CU_ASSERT_EQUAL(file.values.num_tensors, net->num_params + num_counters);
    for (size_t i = 0; i < file.values.num_tensors; i++) {
        const struct sluice_tensor *tensor = &file.values.tensors[i];
        const bool is_counter = strstr(tensor->name, ".num_batches_tracked");
        CU_ASSERT_EQUAL(tensor->type, is_counter ? SLUICE_TENSOR_I64 : SLUICE_TENSOR_F32);
        int64_t count = 1234;
        if (is_counter)
            memcpy(&count, tensor->data, sizeof(count));
        CU_ASSERT(count == 1234 && (!is_counter || tensor->num_dims == 0));
    }
    sluice_checkpoint_clear(&file);
    destroy(saved);
    destroy(loaded);
}

TEST(saved_is_loaded)
{
    saves_and_loads("small_cnn", 4);
    saves_and_loads("resnet18", 20);
}

TEST(batch_norms_count_under_torchvisions_names)
{
    struct memory_trainer *trainer = create("resnet18", CLASSES, 1);
    save(trainer, "names.safetensors", NULL);
    struct sluice_checkpoint file;
    REQUIRE_OK(sluice_checkpoint_read(sluice_test_path("names.safetensors"), &file, NULL));
    CU_ASSERT_PTR_NOT_NULL(sluice_safetensors_find(&file.values, "bn1.num_batches_tracked"));
    CU_ASSERT_PTR_NOT_NULL(
        sluice_safetensors_find(&file.values, "layer2.0.downsample.1.num_batches_tracked"));
    CU_ASSERT_STRING_EQUAL(file.extra, "");
    sluice_checkpoint_clear(&file);
    destroy(trainer);
}

TEST(another_model_is_refused_and_changes_nothing)
{
    struct memory_trainer *saved = create("small_cnn", CLASSES, 1);
    struct memory_trainer *other = create("small_cnn", CLASSES + 1, 2);
    struct memory_trainer *fresh = create("small_cnn", CLASSES + 1, 2);
    save(saved, "small.safetensors", NULL);
    const char *path = sluice_test_path("small.safetensors");
    CHECK_FAILS(SLUICE_E_INVALID, "small.safetensors: saved from small_cnn",
                sluice_trainer_load(&other->base, path, NULL, sluice_test_err()));
    CHECK_SAYS("5 classes, not from small_cnn with images of 64 x 64 and 6 classes");
    CU_ASSERT_EQUAL(first_difference(other, fresh, 0), -1);
    CU_ASSERT_EQUAL(first_difference(other, fresh, 1), -1);
    destroy(saved);
    destroy(other);
    destroy(fresh);
}

/* The right head and hashes over tensors that are not the model's. */
TEST(a_checkpoint_that_lacks_a_tensor_is_refused)
{
    struct memory_trainer *trainer = create("small_cnn", CLASSES, 1);
    const struct sluice_checkpoint_head head = {
        .model = "small_cnn", .height = 64, .width = 64, .num_classes = CLASSES, .extra = ""};
    const struct sluice_safetensors_plan nothing = {.num_tensors = 0};
    const char *path = sluice_test_path("empty.safetensors");
    REQUIRE_OK(sluice_checkpoint_write(path, &head, &nothing, &nothing, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "of small_cnn is missing",
                sluice_trainer_load(&trainer->base, path, NULL, sluice_test_err()));
    destroy(trainer);
}

/* The trainer's state as version 0.1 writes it. */
static void save_v1(struct memory_trainer *trainer, const char *name)
{
    const struct sluice_net *net = &trainer->base.net;
    uint32_t num_tensors = 0;
    for (unsigned i = 0; i < net->num_params; i++)
        num_tensors += net->params[i].is_trained ? 2 : 1;
    struct v1_writer writer;
    v1_open(&writer, net->model, net->height, net->num_classes, 42, 1000, "state", num_tensors);
    for (unsigned i = 0; i < net->num_params; i++) {
        const struct sluice_param *param = &net->params[i];
        for (uint8_t kind = 0; kind < (param->is_trained ? 2 : 1); kind++)
            v1_put_tensor(&writer, kind, param->name, param->num_dims, param->dims,
                          trainer->arrays[kind][i]);
    }
    size_t len;
    uint8_t *bytes = v1_close(&writer, &len);
    sluice_test_write_file(sluice_test_path(name), bytes, len);
    free(bytes);
}

TEST(a_file_of_version_0_1_is_loaded)
{
    struct memory_trainer *saved = create("small_cnn", CLASSES, 1);
    struct memory_trainer *loaded = create("small_cnn", CLASSES, 2);
    struct memory_trainer *started = create("small_cnn", CLASSES, 2);
    save_v1(saved, "old.ckpt");
    char *extra = NULL;
    REQUIRE_OK(sluice_trainer_load(&loaded->base, sluice_test_path("old.ckpt"), &extra,
                                   sluice_test_err()));
    CU_ASSERT_STRING_EQUAL(extra, "state");
    free(extra);
    CU_ASSERT_EQUAL(first_difference(saved, loaded, 0), -1);
    CU_ASSERT_EQUAL(first_difference(saved, loaded, 1), -1);
    CU_ASSERT(loaded->base.steps == 1000 && loaded->base.options.seed == 42);
    CU_ASSERT_EQUAL(loaded->base.batches_tracked,
                    1000); /* the old format has no number of its own */

    REQUIRE_OK(
        sluice_trainer_init_from(&started->base, sluice_test_path("old.ckpt"), sluice_test_err()));
    CU_ASSERT_EQUAL(first_difference(saved, started, 0), -1);
    CU_ASSERT(started->base.steps == 0 && started->base.options.seed == 3);
    destroy(saved);
    destroy(loaded);
    destroy(started);
}

/* --- initial weights --- */

/* A file of weights, which a test changes before it is written. */
struct weights {
    const struct memory_trainer *from;
    struct sluice_tensor tensors[64];
    int params[64]; /* of the tensors; -1: a counter of 41; -2: zeros */
    size_t num;
};

static sluice_status fill(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    (void)err;
    const struct weights *weights = ctx;
    const int param = weights->params[tensor];
    const enum sluice_tensor_type type = weights->tensors[tensor].type;
    size_t count = 1;
    for (unsigned i = 0; i < weights->tensors[tensor].num_dims; i++)
        count *= weights->tensors[tensor].dims[i];
    for (size_t i = 0; i < count; i++) {
        const float value = param < 0 ? 0 : weights->from->arrays[0][param][i];
        uint32_t bits;
        memcpy(&bits, &value, sizeof(bits));
        if (param == -1)
            *(int64_t *)to = 41;
        else if (type == SLUICE_TENSOR_F32)
            ((float *)to)[i] = value;
        else if (type == SLUICE_TENSOR_BF16)
            ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
        else if (type == SLUICE_TENSOR_F16) /* of values from 1 to 15 */
            ((uint16_t *)to)[i] =
                (uint16_t)((((bits >> 23) - 127 + 15) << 10) | (bits >> 13 & 1023));
        else
            ((int64_t *)to)[i] = 0;
    }
    return SLUICE_OK;
}

static struct weights weights_of(const struct memory_trainer *trainer, enum sluice_tensor_type type)
{
    struct weights weights = {.from = trainer};
    const struct sluice_net *net = &trainer->base.net;
    for (unsigned i = 0; i < net->num_params; i++) {
        struct sluice_tensor *tensor = &weights.tensors[weights.num];
        tensor->name = net->params[i].name;
        tensor->type = type;
        tensor->num_dims = net->params[i].num_dims;
        for (unsigned k = 0; k < tensor->num_dims; k++)
            tensor->dims[k] = net->params[i].dims[k];
        weights.params[weights.num++] = (int)i;
    }
    return weights;
}

static struct sluice_tensor *find(struct weights *weights, const char *name)
{
    size_t i = 0;
    while (i < weights->num && strcmp(weights->tensors[i].name, name) != 0)
        i++;
    CU_ASSERT_FATAL(i < weights->num);
    return &weights->tensors[i];
}

static void leave_out(struct weights *weights, const char *name)
{
    const size_t at = (size_t)(find(weights, name) - weights->tensors);
    weights->num--;
    memmove(&weights->tensors[at], &weights->tensors[at + 1],
            (weights->num - at) * sizeof(weights->tensors[0]));
    memmove(&weights->params[at], &weights->params[at + 1],
            (weights->num - at) * sizeof(weights->params[0]));
}

static void add_first(struct weights *weights, const char *name, enum sluice_tensor_type type)
{
    memmove(&weights->tensors[1], &weights->tensors[0], weights->num * sizeof(weights->tensors[0]));
    memmove(&weights->params[1], &weights->params[0], weights->num * sizeof(weights->params[0]));
    weights->num++;
    weights->tensors[0] = (struct sluice_tensor){.name = name, .type = type};
    weights->params[0] = type == SLUICE_TENSOR_I64 ? -1 : -2;
}

/* Initialises the trainer from such a file. */
static sluice_status init_from(struct memory_trainer *trainer, struct weights *weights)
{
    const struct sluice_safetensors_plan plan = {
        .tensors = weights->tensors, .num_tensors = weights->num, .fill = fill, .ctx = weights};
    uint8_t *bytes = NULL;
    size_t len;
    char hash[33];
    REQUIRE_OK(sluice_safetensors_make(&plan, &bytes, &len, hash, sluice_test_err()));
    sluice_test_write_file(sluice_test_path("w.safetensors"), bytes, len);
    free(bytes);
    return sluice_trainer_init_from(&trainer->base, sluice_test_path("w.safetensors"),
                                    sluice_test_err());
}

TEST(weights_of_each_type_are_taken)
{
    struct memory_trainer *from = create("small_cnn", CLASSES, 1);
    for (int type = SLUICE_TENSOR_F32; type <= SLUICE_TENSOR_BF16; type++) {
        struct memory_trainer *trainer = create("small_cnn", CLASSES, 2);
        struct weights weights = weights_of(from, (enum sluice_tensor_type)type);
        CHECK_OK(init_from(trainer, &weights));
        CU_ASSERT_EQUAL(first_difference(from, trainer, 0), -1);
        CU_ASSERT_EQUAL(trainer->base.batches_tracked, 0);
        destroy(trainer);
    }
    destroy(from);
}

TEST(batches_tracked_go_on)
{
    struct memory_trainer *from = create("small_cnn", CLASSES, 1);
    struct memory_trainer *trainer = create("small_cnn", CLASSES, 2);
    struct weights weights = weights_of(from, SLUICE_TENSOR_F32);
    char name[64];
    snprintf(name, sizeof(name), "%s", from->base.net.params[1].name);
    strcpy(strrchr(name, '.'), ".num_batches_tracked");
    add_first(&weights, name, SLUICE_TENSOR_I64);
    CHECK_OK(init_from(trainer, &weights));
    CU_ASSERT_EQUAL(trainer->base.batches_tracked, 41);
    CU_ASSERT_EQUAL(trainer->base.steps, 0);
    destroy(from);
    destroy(trainer);
}

TEST(a_checkpoints_weights_are_taken_without_its_momentum)
{
    struct memory_trainer *from = create("resnet18", CLASSES, 1);
    struct memory_trainer *trainer = create("resnet18", CLASSES, 2);
    struct memory_trainer *fresh = create("resnet18", CLASSES, 2);
    from->base.steps = from->base.batches_tracked = 77;
    save(from, "from.safetensors", NULL);
    CHECK_OK(sluice_trainer_init_from(&trainer->base, sluice_test_path("from.safetensors"),
                                      sluice_test_err()));
    CU_ASSERT_EQUAL(first_difference(from, trainer, 0), -1);
    CU_ASSERT_EQUAL(first_difference(fresh, trainer, 1), -1);
    CU_ASSERT(trainer->base.steps == 0 && trainer->base.batches_tracked == 77);
    destroy(from);
    destroy(trainer);
    destroy(fresh);
}

TEST(a_file_without_the_classifier_leaves_it_alone)
{
    struct memory_trainer *from = create("small_cnn", 9, 1);
    struct memory_trainer *trainer = create("small_cnn", CLASSES, 2);
    struct memory_trainer *fresh = create("small_cnn", CLASSES, 2);
    struct weights weights = weights_of(from, SLUICE_TENSOR_F32);
    leave_out(&weights, "classifier.weight");
    leave_out(&weights, "classifier.bias");
    CHECK_OK(init_from(trainer, &weights));
    const struct sluice_net *net = &trainer->base.net;
    for (unsigned i = 0; i < net->num_params; i++) {
        const struct memory_trainer *wanted =
            strncmp(net->params[i].name, "classifier.", 11) == 0 ? fresh : from;
        CU_ASSERT_EQUAL(memcmp(trainer->arrays[0][i], wanted->arrays[0][i],
                               net->params[i].count * sizeof(float)),
                        0);
    }
    destroy(from);
    destroy(trainer);
    destroy(fresh);
}

static void refuses(struct weights *weights, const char *words)
{
    struct memory_trainer *trainer = create("small_cnn", CLASSES, 2);
    struct memory_trainer *fresh = create("small_cnn", CLASSES, 2);
    CHECK_FAILS(SLUICE_E_INVALID, words, init_from(trainer, weights));
    CHECK_SAYS("w.safetensors: ");
    CU_ASSERT_EQUAL(first_difference(fresh, trainer, 0), -1);
    destroy(trainer);
    destroy(fresh);
}

TEST(every_other_difference_is_refused)
{
    struct memory_trainer *from = create("small_cnn", CLASSES, 1);
    const char *first = from->base.net.params[0].name;
    const struct weights good = weights_of(from, SLUICE_TENSOR_F32);
    char words[128];

    struct weights weights = good;
    leave_out(&weights, first);
    snprintf(words, sizeof(words), "%s of small_cnn is missing", first);
    refuses(&weights, words);
    weights = good;
    leave_out(&weights, "classifier.bias"); /* a part of the classifier */
    refuses(&weights, "classifier.bias of small_cnn is missing");
    weights = good;
    add_first(&weights, "fc2.bias", SLUICE_TENSOR_F32);
    refuses(&weights, "fc2.bias is not a tensor of small_cnn");
    weights = good;
    add_first(&weights, "classifier.num_batches_tracked", SLUICE_TENSOR_I64);
    refuses(&weights, "classifier.num_batches_tracked is not a tensor of small_cnn");
    weights = good;
    const uint64_t height = find(&weights, first)->dims[2];
    find(&weights, first)->dims[2] = height - 1;
    refuses(&weights, "is of another shape");
    weights = good;
    find(&weights, "classifier.bias")->num_dims = 0;
    refuses(&weights, "classifier.bias is of another shape");
    weights = good;
    leave_out(&weights, "classifier.bias");
    add_first(&weights, "classifier.bias", SLUICE_TENSOR_I64);
    weights.tensors[0].num_dims = 1;
    weights.tensors[0].dims[0] = CLASSES;
    weights.params[0] = -2;
    refuses(&weights, "classifier.bias is of another shape");
    destroy(from);

    from = create("small_cnn", 9, 1);
    weights = weights_of(from, SLUICE_TENSOR_F32);
    refuses(&weights,
            "classifier.weight is of 9 classes, the model of 5: give --num-classes 9, or");
    CHECK_SAYS("a file without classifier.weight and classifier.bias");
    destroy(from);
}

TEST(a_device_without_a_model_has_nothing_to_save)
{
    struct sluice_trainer trainer = {.ops = &memory_ops, .options = {.device = "none"}};
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "device none has no model",
                sluice_trainer_save(&trainer, "x", "", sluice_test_err()));
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "device none has no model",
                sluice_trainer_load(&trainer, "x", NULL, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "device none has no model",
                sluice_trainer_init_from(&trainer, "x", sluice_test_err()));
}
