#include "train/checkpoint/safetensors.h"
#include "train/infer.h"
#include "train/net.h"

#include "support/test.h"

#include <math.h>

/* What does not need a GPU: images, arguments, and device none. */

enum { SIZE = 32, BATCH = 3, CLASSES = 5 };

static struct sluice_infer_options options_of(const char *model, enum sluice_precision precision)
{
    return (struct sluice_infer_options){
        .device = "none",
        .model = model,
        .num_classes = CLASSES,
        .height = SIZE,
        .width = SIZE,
        .batch_size = BATCH,
        .precision = precision,
    };
}

static struct sluice_infer *create(const char *model, enum sluice_precision precision)
{
    const struct sluice_infer_options options = options_of(model, precision);
    struct sluice_infer *infer = NULL;
    REQUIRE_OK(sluice_infer_create(&options, &infer, sluice_test_err()));
    return infer;
}

static struct sluice_infer *create_placed(const char *model)
{
    struct sluice_infer *infer = create(model, SLUICE_PRECISION_BF16);
    REQUIRE_OK(sluice_infer_place(&infer, 1, sluice_test_err()));
    return infer;
}

/* Parameter p's element i; exact in bf16. */
static float value_of(const struct sluice_net *net, unsigned p, size_t i)
{
    const float value = (float)((i + 3 * p) % 251) / 4;
    return strstr(net->params[p].name, "running_var") ? value : value - 16;
}

/* The same in an image. */
static float stored_of(const struct sluice_net *net, unsigned p, size_t i)
{
    const float value = value_of(net, p, i);
    if (!strstr(net->params[p].name, "running_var"))
        return value;
    return (float)(1 / sqrt((double)value + 1e-5));
}

/* The first values of the classifier's matrix: to round. */
static const struct {
    uint32_t bits;
    uint16_t wanted;
} roundings[] = {{0x3F808000, 0x3F80}, {0x3F818000, 0x3F82}, {0x3F808001, 0x3F81},
                 {0xBF80FFFF, 0xBF81}, {0x7F7FFFFF, 0x7F80}, {0x7F800000, 0x7F80},
                 {0x7F800001, 0x7FC0}, {0x80000000, 0x8000}};
static bool has_roundings;

static sluice_status fill(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    (void)err;
    const struct sluice_net *net = ctx;
    const bool is_rounded = has_roundings && tensor + 2 == net->num_params;
    for (size_t i = 0; i < net->params[tensor].count; i++)
        ((float *)to)[i] = value_of(net, (unsigned)tensor, i);
    for (size_t i = 0; is_rounded && i < SLUICE_ARRAY_LEN(roundings); i++)
        memcpy((float *)to + i, &roundings[i].bits, sizeof(float));
    return SLUICE_OK;
}

/* A file of the model's first tensors. */
static const char *write_file(const struct sluice_net *net, size_t num_tensors)
{
    struct sluice_tensor *tensors = calloc(num_tensors, sizeof(*tensors));
    for (size_t i = 0; i < num_tensors; i++) {
        tensors[i] = (struct sluice_tensor){
            .name = net->params[i].name,
            .type = SLUICE_TENSOR_F32,
            .num_dims = net->params[i].num_dims,
        };
        for (unsigned k = 0; k < tensors[i].num_dims; k++)
            tensors[i].dims[k] = net->params[i].dims[k];
    }
    const struct sluice_safetensors_plan plan = {
        .tensors = tensors, .num_tensors = num_tensors, .fill = fill, .ctx = (void *)net};
    uint8_t *bytes = NULL;
    size_t len = 0;
    char hash[33];
    REQUIRE_OK(sluice_safetensors_make(&plan, &bytes, &len, hash, sluice_test_err()));
    const char *path = sluice_test_path("weights.safetensors");
    FILE *file = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(fwrite(bytes, 1, len, file), len);
    CU_ASSERT_EQUAL(fclose(file), 0);
    free(bytes);
    free(tensors);
    return path;
}

static void build(const char *model, struct sluice_net *net)
{
    REQUIRE_OK(sluice_net_build(model, SIZE, SIZE, CLASSES, -1, net, sluice_test_err()));
}

/* A new image, of which every byte is `byte`. */
static uint8_t *image_of(const struct sluice_infer *infer, int byte)
{
    const size_t bytes = (sluice_infer_weight_bytes(infer) + 63) / 64 * 64;
    uint8_t *image = aligned_alloc(64, bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(image);
    memset(image, byte, bytes);
    return image;
}

/* Reads an array's element, and checks that a bf16 one is a float whose low half is 0. */
static float at(const uint8_t *array, size_t i, bool is_bf16)
{
    uint32_t bits = 0;
    if (is_bf16)
        memcpy((uint8_t *)&bits + 2, array + 2 * i, 2);
    else
        memcpy(&bits, array + 4 * i, 4);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Checks the array at *place, and moves it to the next one. */
static void check_array(const struct sluice_net *net, unsigned p, bool is_bf16, uint32_t channels,
                        const uint8_t **place)
{
    const struct sluice_param *param = &net->params[p];
    const uint32_t num_in = param->num_dims == 4 ? param->dims[1] : 1;
    const size_t pixels = param->num_dims == 4 ? param->dims[2] * param->dims[3] : 1;
    const size_t outputs = param->count / num_in / pixels;
    size_t wrong = 0, i = 0;
    if (param->num_dims != 4)
        channels = 1;
    else if (num_in != 3)
        channels = num_in;
    for (size_t o = 0; o < outputs; o++) {
        for (size_t pixel = 0; pixel < pixels; pixel++) {
            for (uint32_t c = 0; c < channels; c++)
                wrong += at(*place, i++, is_bf16) !=
                         (c < num_in ? stored_of(net, p, (o * num_in + c) * pixels + pixel) : 0);
        }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    *place += (i * (is_bf16 ? 2 : 4) + 255) / 256 * 256;
}

/* Filters O x H x W x C, a stage behind the other; norms in float32, biases in both types. */
static void check_image(const char *model, enum sluice_precision precision, uint32_t channels)
{
    struct sluice_net net = {0};
    build(model, &net);
    struct sluice_infer *infer = create(model, precision);
    uint8_t *image = image_of(infer, 0xFF);
    REQUIRE_OK(
        sluice_infer_load(infer, write_file(&net, net.num_params), image, sluice_test_err()));
    const bool is_bf16 = precision == SLUICE_PRECISION_BF16;
    const uint8_t *place = image;
    for (unsigned i = 0; i < net.num_layers; i++) {
        const struct sluice_layer *layer = &net.layers[i];
        const int params[] = {layer->weight, layer->bias, layer->running_mean, layer->running_var};
        const bool is_norm = layer->kind == SLUICE_LAYER_BATCHNORM;
        for (unsigned k = 0; k < 4; k++) {
            if (params[k] < 0)
                continue;
            const unsigned p = (unsigned)params[k];
            if (!is_bf16 || is_norm || k > 0)
                check_array(&net, p, false, channels, &place);
            if (is_bf16 && !is_norm)
                check_array(&net, p, true, channels, &place);
        }
    }
    CU_ASSERT_EQUAL(place, image + sluice_infer_weight_bytes(infer));
    free(image);
    sluice_infer_destroy(infer);
    sluice_net_clear(&net);
}

TEST(an_image_has_the_weights_as_the_device_wants_them)
{
    check_image("small_cnn", SLUICE_PRECISION_BF16, 8);
    check_image("small_cnn", SLUICE_PRECISION_TF32, 4);
    check_image("small_cnn", SLUICE_PRECISION_FP32, 4);
    check_image("resnet18", SLUICE_PRECISION_BF16, 8);
}

TEST(weights_are_rounded_to_nearest_even)
{
    struct sluice_net net = {0};
    build("small_cnn", &net);
    struct sluice_infer *infer = create("small_cnn", SLUICE_PRECISION_DEFAULT);
    CU_ASSERT_EQUAL(sluice_infer_precision(infer), SLUICE_PRECISION_BF16);
    uint8_t *image = image_of(infer, 0);
    has_roundings = true;
    const char *path = write_file(&net, net.num_params);
    has_roundings = false;
    REQUIRE_OK(sluice_infer_load(infer, path, image, sluice_test_err()));
    /* The last stage's first array. */
    const size_t matrix = sluice_infer_weight_bytes(infer) -
                          sluice_infer_stage_bytes(infer, sluice_infer_num_stages(infer) - 1);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(roundings); i++) {
        uint16_t bits;
        memcpy(&bits, image + matrix + 2 * i, sizeof(bits));
        CU_ASSERT_EQUAL(bits, roundings[i].wanted);
    }
    free(image);
    sluice_infer_destroy(infer);
    sluice_net_clear(&net);
}

TEST(without_a_file_an_image_has_initial_values)
{
    struct sluice_net net = {0};
    build("small_cnn", &net);
    struct sluice_infer *infer = create("small_cnn", SLUICE_PRECISION_FP32);
    uint8_t *image = image_of(infer, 0xFF);
    REQUIRE_OK(sluice_infer_load(infer, NULL, image, sluice_test_err()));
    const unsigned matrix = net.num_params - 2;
    float *wanted = malloc(net.params[matrix].count * sizeof(*wanted));
    sluice_net_init_param(&net, matrix, 0, wanted);
    const size_t place = sluice_infer_weight_bytes(infer) -
                         sluice_infer_stage_bytes(infer, sluice_infer_num_stages(infer) - 1);
    CU_ASSERT_EQUAL(memcmp(image + place, wanted, net.params[matrix].count * sizeof(*wanted)), 0);
    free(wanted);
    free(image);
    sluice_infer_destroy(infer);
    sluice_net_clear(&net);
}

TEST(the_stages_bytes_are_the_models)
{
    static const struct {
        const char *model;
        double megabytes; /* of its parameters in bf16 */
    } cases[] = {{"resnet152", 120.4}, {"vgg16", 276.7}, {"alexnet", 122.2}};
    for (size_t k = 0; k < SLUICE_ARRAY_LEN(cases); k++) {
        struct sluice_infer_options options = options_of(cases[k].model, SLUICE_PRECISION_BF16);
        options.num_classes = 1000;
        options.height = options.width = 224;
        struct sluice_infer *infer = NULL;
        REQUIRE_OK(sluice_infer_create(&options, &infer, sluice_test_err()));
        size_t sum = 0;
        for (unsigned s = 0; s < sluice_infer_num_stages(infer); s++)
            sum += sluice_infer_stage_bytes(infer, s);
        CU_ASSERT_EQUAL(sum, sluice_infer_weight_bytes(infer));
        CU_ASSERT(sluice_infer_device_bytes(infer) >= sum);
        /* Gaps, norms in float32 and biases in both types are 1.5 % at most. */
        CU_ASSERT((double)sum >= cases[k].megabytes * 1e6 &&
                  (double)sum < cases[k].megabytes * 1.015e6);
        char name[64];
        sluice_infer_stage_name(infer, 0, name, sizeof(name));
        CU_ASSERT_STRING_EQUAL(name, k == 0 ? "conv1" : "features.0");
        sluice_infer_destroy(infer);
    }
}

TEST(weights_of_another_model_are_refused)
{
    struct sluice_net net = {0};
    struct sluice_infer *infer = create("resnet18", SLUICE_PRECISION_BF16);
    uint8_t *image = image_of(infer, 0);
    build("small_cnn", &net);
    CHECK_FAILS(
        SLUICE_E_INVALID, "weights.safetensors",
        sluice_infer_load(infer, write_file(&net, net.num_params), image, sluice_test_err()));
    sluice_net_clear(&net);
    build("resnet18", &net);
    CHECK_FAILS(
        SLUICE_E_INVALID, "the classifier of resnet18 is missing",
        sluice_infer_load(infer, write_file(&net, net.num_params - 2), image, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "nowhere",
                sluice_infer_load(infer, "/nowhere", image, sluice_test_err()));
    sluice_net_clear(&net);
    free(image);
    sluice_infer_destroy(infer);
}

TEST(options_are_checked)
{
    struct sluice_infer *infer = NULL;
    struct sluice_infer_options options = options_of("resnet18", SLUICE_PRECISION_BF16);
    options.batch_size = 0;
    CHECK_FAILS(SLUICE_E_INVALID, "batch_size",
                sluice_infer_create(&options, &infer, sluice_test_err()));
    options = options_of("resnet19", SLUICE_PRECISION_BF16);
    CHECK_FAILS(SLUICE_E_INVALID, "resnet19",
                sluice_infer_create(&options, &infer, sluice_test_err()));
    options = options_of("resnet18", SLUICE_PRECISION_BF16);
    options.gpu = -1;
    CHECK_FAILS(SLUICE_E_INVALID, "gpu", sluice_infer_create(&options, &infer, sluice_test_err()));
    options.device = "cpu";
    CHECK_FAILS(SLUICE_E_INVALID, "device: none or cuda, not \"cpu\"",
                sluice_infer_create(&options, &infer, sluice_test_err()));
    CU_ASSERT_PTR_NULL(infer);
    options.device = "cuda"; /* with a GPU that is not there */
    options.gpu = 1000;
    CU_ASSERT_NOT_EQUAL(sluice_infer_create(&options, &infer, sluice_test_err()), SLUICE_OK);
    CHECK_SAYS("cuda");
    CU_ASSERT_PTR_NULL(infer);
}

/* Logit c of the row, by the header's words. */
static float wanted_logit(const float *row, unsigned c, const uint8_t *weights,
                          const struct sluice_infer *infer)
{
    float sum = 0;
    for (size_t i = c; i < 3 * SIZE * SIZE; i += CLASSES)
        sum += row[i];
    size_t begin = 0;
    for (unsigned s = 0; s < sluice_infer_num_stages(infer); s++) {
        if (sluice_infer_stage_bytes(infer, s) > 0)
            sum += (float)weights[begin];
        begin += sluice_infer_stage_bytes(infer, s);
    }
    return sum;
}

static void check_run(struct sluice_infer_plan *plan, struct sluice_infer *infer,
                      const uint8_t *weights)
{
    REQUIRE_OK(sluice_infer_run(plan, sluice_test_err()));
    const float *input = sluice_infer_input(infer), *logits = sluice_infer_logits(infer);
    unsigned wrong = 0;
    for (unsigned row = 0; row < BATCH; row++) {
        for (unsigned c = 0; c < CLASSES; c++)
            wrong += logits[row * CLASSES + c] !=
                     wanted_logit(input + row * 3 * SIZE * SIZE, c, weights, infer);
    }
    CU_ASSERT_EQUAL(wrong, 0);
}

static void fill_input(struct sluice_infer *infer)
{
    for (size_t i = 0; i < BATCH * 3 * SIZE * SIZE; i++)
        sluice_infer_input(infer)[i] = (float)(i % 97) - 40;
}

TEST(device_none_runs_on_the_weights_that_groups_bring)
{
    struct sluice_infer *infer = create_placed("resnet18");
    const unsigned num_stages = sluice_infer_num_stages(infer);
    uint8_t *poison = image_of(infer, 0xFF), *image = image_of(infer, 0);
    for (size_t i = 0; i < sluice_infer_weight_bytes(infer); i++)
        image[i] = (uint8_t)(i / 256 * 7);
    fill_input(infer);
    REQUIRE_OK(sluice_infer_pin(infer, image, sluice_infer_weight_bytes(infer), sluice_test_err()));
    const struct sluice_infer_plan_options nothing = {.num_groups = 0};
    struct sluice_infer_plan *resident = NULL;
    REQUIRE_OK(sluice_infer_plan_create(infer, &nothing, &resident, sluice_test_err()));
    unsigned *last = calloc(num_stages, sizeof(*last));
    for (unsigned size = 1; size <= num_stages; size += size / 2 + 1) {
        struct sluice_infer_plan_options options = {
            .image = image, .last_stages = last, .is_pipelined = size % 2};
        for (unsigned end = size; end < num_stages + size; end += size)
            last[options.num_groups++] = end < num_stages ? end - 1 : num_stages - 1;
        struct sluice_infer_plan *plan = NULL;
        REQUIRE_OK(sluice_infer_plan_create(infer, &options, &plan, sluice_test_err()));
        REQUIRE_OK(sluice_infer_copy(infer, poison, sluice_test_err()));
        check_run(resident, infer, poison);
        check_run(plan, infer, image);
        check_run(resident, infer, image);
        sluice_infer_plan_destroy(plan);
    }
    sluice_infer_plan_destroy(resident);
    sluice_infer_unpin(infer, image);
    sluice_infer_destroy(infer);
    free(last);
    free(poison);
    free(image);
}

TEST(groups_that_leave_stages_out_are_refused)
{
    struct sluice_infer *infer = create_placed("small_cnn");
    const unsigned end = sluice_infer_num_stages(infer);
    uint8_t *image = image_of(infer, 0);
    struct sluice_infer_plan *plan = NULL;
    struct sluice_infer_plan_options options = {
        .image = image, .last_stages = (const unsigned[]){1, end - 2}, .num_groups = 2};
    CHECK_FAILS(SLUICE_E_INVALID, "groups: they end at stage",
                sluice_infer_plan_create(infer, &options, &plan, sluice_test_err()));
    options.last_stages = (const unsigned[]){1, UINT32_MAX};
    CHECK_FAILS(SLUICE_E_INVALID, "groups: they end at stage",
                sluice_infer_plan_create(infer, &options, &plan, sluice_test_err()));
    options.last_stages = (const unsigned[]){end - 1, end - 1};
    CHECK_FAILS(SLUICE_E_INVALID, "the last stage of group 1",
                sluice_infer_plan_create(infer, &options, &plan, sluice_test_err()));
    options.last_stages = (const unsigned[]){1, end - 1};
    options.image = NULL;
    CHECK_FAILS(SLUICE_E_INVALID, "image: missing",
                sluice_infer_plan_create(infer, &options, &plan, sluice_test_err()));
    CU_ASSERT_PTR_NULL(plan);
    free(image);
    sluice_infer_destroy(infer);
}

/* The block is as large as the largest of them needs, and goes with the last. */
TEST(models_share_a_block)
{
    static const char *const models[] = {"small_cnn", "resnet18", "small_cnn"};
    struct sluice_infer *infers[3];
    uint8_t *images[3];
    struct sluice_infer_plan *plans[3];
    for (int i = 0; i < 3; i++) {
        infers[i] = create(models[i], SLUICE_PRECISION_BF16);
        images[i] = image_of(infers[i], 10 * (i + 1));
        fill_input(infers[i]);
    }
    REQUIRE_OK(sluice_infer_place(infers, 3, sluice_test_err()));
    CHECK_FAILS(SLUICE_E_INVALID, "resnet18 has its memory already",
                sluice_infer_place(&infers[1], 1, sluice_test_err()));
    for (int i = 0; i < 3; i++) {
        const unsigned last = sluice_infer_num_stages(infers[i]) - 1;
        const struct sluice_infer_plan_options options = {
            .image = images[i], .last_stages = &last, .num_groups = 1};
        REQUIRE_OK(sluice_infer_plan_create(infers[i], &options, &plans[i], sluice_test_err()));
    }
    const struct sluice_infer_plan_options nothing = {.num_groups = 0};
    struct sluice_infer_plan *resident = NULL;
    REQUIRE_OK(sluice_infer_plan_create(infers[0], &nothing, &resident, sluice_test_err()));
    for (int i = 0; i < 3; i++)
        check_run(plans[i], infers[i], images[i]);
    check_run(resident, infers[0], images[2]);
    sluice_infer_plan_destroy(resident);
    for (int i = 0; i < 3; i++) {
        sluice_infer_plan_destroy(plans[i]);
        sluice_infer_destroy(infers[i]);
        free(images[i]);
        if (i < 2)
            check_run(plans[i + 1], infers[i + 1], images[i + 1]);
    }
}

TEST(device_none_has_costs)
{
    struct sluice_infer *infer = create_placed("small_cnn");
    double seconds[64];
    struct sluice_infer_costs costs = {.stage_seconds = seconds};
    uint8_t *image = image_of(infer, 0);
    CU_ASSERT_FATAL(sluice_infer_num_stages(infer) <= SLUICE_ARRAY_LEN(seconds));
    REQUIRE_OK(sluice_infer_measure(infer, image, &costs, sluice_test_err()));
    CU_ASSERT_EQUAL(seconds[0], 10e-6);
    CU_ASSERT_EQUAL(seconds[sluice_infer_num_stages(infer) - 1], 10e-6);
    CU_ASSERT_EQUAL(costs.bytes_per_s, 10e9);
    CU_ASSERT_EQUAL(costs.copy_seconds, 5e-6);
    free(image);
    sluice_infer_destroy(infer);
}
