#include "train/program.h"

#include "support/test.h"
#include "train/net_internal.h"

/* A memory in which every buffer has a tag, and loses it when an overlapping buffer is written. */
struct memory {
    const struct sluice_program *program;
    unsigned *tags; /* by buffer; 0: nothing that can be read */
};

enum { ACTIVATION = 1 << 20, GRADIENT = 2 << 20, WHICH = 3 << 20, WORKSPACE = 4 << 20 };

static void store(struct memory *m, uint32_t buffer, unsigned tag)
{
    const struct sluice_arena_item *items = m->program->buffers, *at = &items[buffer];
    CU_ASSERT_FATAL(buffer < m->program->num_buffers);
    CU_ASSERT_FATAL(at->offset % 256 == 0 && at->offset + at->bytes <= m->program->arena_bytes);
    for (size_t i = 0; i < m->program->num_buffers; i++) {
        if (items[i].offset < at->offset + at->bytes &&
            at->offset < items[i].offset + items[i].bytes)
            m->tags[i] = 0;
    }
    m->tags[buffer] = tag;
}

static void load(const struct memory *m, uint32_t buffer, unsigned tag)
{
    CU_ASSERT_FATAL(buffer < m->program->num_buffers);
    CU_ASSERT_EQUAL_FATAL(m->tags[buffer], tag);
}

/* The tensor whose memory holds the tensor's values: relu by itself and dropout work in place. */
static unsigned home(const struct sluice_net *net, const struct sluice_program *program,
                     unsigned tensor)
{
    for (unsigned s = program->num_stages; s > 0; s--) {
        const struct sluice_stage *stage = &program->stages[s - 1];
        if (stage->last + 1 == tensor &&
            (stage->kind == SLUICE_LAYER_DROPOUT || stage->kind == SLUICE_LAYER_RELU))
            tensor = net->layers[stage->layer].input;
    }
    return tensor;
}

/* The tensor that the stage adds; 0: none. */
static unsigned added(const struct sluice_net *net, const struct sluice_stage *stage)
{
    for (unsigned i = stage->layer; i <= stage->last; i++) {
        const struct sluice_layer *layer = &net->layers[i];
        if (layer->kind == SLUICE_LAYER_ADD)
            return layer->input == i ? layer->input2 : layer->input;
    }
    return 0;
}

static unsigned count_readers(const struct sluice_net *net, unsigned tensor)
{
    unsigned count = tensor == net->num_layers; /* the loss */
    for (unsigned i = 0; i < net->num_layers; i++)
        count += (net->layers[i].input == tensor) +
                 (net->layers[i].kind == SLUICE_LAYER_ADD && net->layers[i].input2 == tensor);
    return count;
}

static void run_forward(struct memory *m, const struct sluice_net *net)
{
    const struct sluice_program *program = m->program;
    unsigned layer = 0;
    store(m, 0, ACTIVATION);
    for (unsigned s = 0; s < program->num_stages; s++) {
        const struct sluice_stage *stage = &program->stages[s];
        CU_ASSERT_EQUAL_FATAL(stage->layer, layer); /* every layer is in one stage */
        layer = stage->last + 1;
        load(m, stage->in, ACTIVATION + home(net, program, net->layers[stage->layer].input));
        if (added(net, stage) > 0)
            load(m, stage->add, ACTIVATION + home(net, program, added(net, stage)));
        if (stage->workspace[0] != SLUICE_NO_BUFFER)
            store(m, stage->workspace[0], WORKSPACE);
        store(m, stage->out, ACTIVATION + home(net, program, stage->last + 1));
        if (stage->kind == SLUICE_LAYER_MAXPOOL)
            store(m, stage->which, WHICH + s);
    }
    CU_ASSERT_EQUAL_FATAL(layer, net->num_layers);
}

/* The values that the stage's backward pass reads besides gradients. */
static void load_values(const struct memory *m, const struct sluice_net *net,
                        const struct sluice_stage *stage, unsigned s)
{
    const struct sluice_program *program = m->program;
    const bool is_norm = stage->kind == SLUICE_LAYER_BATCHNORM;
    if (is_norm || stage->kind == SLUICE_LAYER_CONV || stage->kind == SLUICE_LAYER_LINEAR)
        load(m, stage->in, ACTIVATION + home(net, program, net->layers[stage->layer].input));
    if (stage->kind == SLUICE_LAYER_RELU ||
        (stage->has_relu && (!is_norm || stage->add != SLUICE_NO_BUFFER)))
        load(m, stage->out, ACTIVATION + home(net, program, stage->last + 1));
    if (stage->kind == SLUICE_LAYER_MAXPOOL)
        load(m, stage->which, WHICH + s);
}

static void run_backward(struct memory *m, const struct sluice_net *net)
{
    const struct sluice_program *program = m->program;
    load(m, program->logits, ACTIVATION + home(net, program, net->num_layers));
    store(m, program->stages[program->num_stages - 1].diff_out, GRADIENT + net->num_layers);
    for (unsigned s = program->num_stages; s > 0; s--) {
        const struct sluice_stage *stage = &program->stages[s - 1];
        const unsigned out = stage->last + 1, in = net->layers[stage->layer].input;
        load(m, stage->diff_out, GRADIENT + out);
        CU_ASSERT_EQUAL(1 + (stage->diff_more != SLUICE_NO_BUFFER), count_readers(net, out));
        if (stage->diff_more != SLUICE_NO_BUFFER)
            load(m, stage->diff_more, GRADIENT + out);
        load_values(m, net, stage, s - 1);
        if (stage->workspace[1] != SLUICE_NO_BUFFER)
            store(m, stage->workspace[1], WORKSPACE);
        load(m, stage->diff_out, GRADIENT + out); /* also while the workspace is in use */
        if (added(net, stage) > 0) {
            CU_ASSERT_NOT_EQUAL(stage->diff_add, stage->diff_in);
            store(m, stage->diff_add, GRADIENT + added(net, stage));
        }
        if (in > 0)
            store(m, stage->diff_in, GRADIENT + in);
        else
            CU_ASSERT_EQUAL(stage->diff_in, SLUICE_NO_BUFFER);
    }
    load(m, 0, ACTIVATION); /* a batch whose loss is not finite is run again */
}

/* Builds, places and runs the program of a net, and returns the arena's bytes. */
static size_t check_program(const struct sluice_net *net, unsigned batch_size, bool is_inference)
{
    struct sluice_err err = {{0}};
    struct sluice_program program;
    const struct sluice_program_options options = {.batch_size = batch_size,
                                                   .element_bytes = 2,
                                                   .input_channels = 8,
                                                   .is_inference = is_inference};
    REQUIRE_OK(sluice_program_build(net, &options, &program, &err));
    for (unsigned s = 0; s < program.num_stages; s++) {
        if (program.stages[s].kind != SLUICE_LAYER_CONV)
            continue;
        for (unsigned pass = 0; pass < (is_inference ? 1 : 3); pass++)
            program.stages[s].workspace_bytes[pass] = (s * 7919 + pass * 104729) % 50000 / 2;
    }
    REQUIRE_OK(sluice_program_place(&program, &err));
    struct memory m = {&program, calloc(program.num_buffers, sizeof(*m.tags))};
    run_forward(&m, net);
    if (is_inference)
        load(&m, program.logits, ACTIVATION + home(net, &program, net->num_layers));
    else
        run_backward(&m, net);
    free(m.tags);
    const size_t bytes = program.arena_bytes;
    sluice_program_clear(&program);
    return bytes;
}

TEST(every_model_reads_what_it_wrote)
{
    static const char *const models[] = {"alexnet",   "vgg11",     "vgg16",
                                         "resnet18",  "resnet34",  "resnet50",
                                         "resnet101", "resnet152", "small_cnn"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(models); i++) {
        struct sluice_err err = {{0}};
        struct sluice_net net = {0};
        REQUIRE_OK(sluice_net_build(models[i], 64, 96, 10, -1, &net, &err));
        const size_t training = check_program(&net, 3, false);
        const size_t inference = check_program(&net, 3, true);
        CU_ASSERT(inference > 0 && inference < training);
        sluice_net_clear(&net);
    }
}

static uint32_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return (uint32_t)((uint64_t)(state >> 8) * below >> 24);
}

static void random_conv(struct sluice_net_builder *b, unsigned input, unsigned number, uint32_t c,
                        bool has_bias)
{
    char name[32];
    snprintf(name, sizeof(name), "c%u.%u", number, sluice_net_last(b));
    sluice_net_conv(b, input, name, c, 3, 1, 1, SLUICE_INIT_KAIMING_UNIFORM, has_bias);
}

static void random_norm(struct sluice_net_builder *b)
{
    char name[32];
    snprintf(name, sizeof(name), "n.%u", sluice_net_last(b));
    sluice_net_batchnorm(b, name);
}

/* A residual block, its shortcut the input itself or a convolution and a norm. */
static void random_residual(struct sluice_net_builder *b, unsigned number)
{
    const unsigned input = sluice_net_last(b);
    const uint32_t c = sluice_net_shape(b, input).c;
    random_conv(b, input, number, c, false);
    random_norm(b);
    if (draw(2))
        sluice_net_relu(b);
    random_conv(b, sluice_net_last(b), number, c, draw(2));
    random_norm(b);
    const unsigned branch = sluice_net_last(b);
    unsigned shortcut = input;
    if (draw(2)) {
        random_conv(b, input, number, c, false);
        random_norm(b);
        shortcut = sluice_net_last(b);
    }
    if (draw(2))
        sluice_net_add(b, branch, shortcut);
    else
        sluice_net_add(b, shortcut, branch);
    if (draw(2))
        sluice_net_relu(b);
}

static void random_model(struct sluice_net_builder *b, uint32_t num_classes, double p)
{
    random_conv(b, 0, 0, 8 + 8 * draw(4), draw(2));
    for (unsigned number = 1, count = 1 + draw(12); number <= count; number++) {
        switch (draw(5)) {
        case 0:
            random_conv(b, sluice_net_last(b), number, 8 + 8 * draw(4), draw(2));
            if (draw(2))
                sluice_net_relu(b);
            break;
        case 1:
            random_norm(b);
            break;
        case 2:
            sluice_net_maxpool(b, 3, 1, 1);
            break;
        case 3:
            /* In place: the tensor before must be of a layer that reads no output of its own. */
            sluice_net_maxpool(b, 3, 1, 1);
            sluice_net_dropout(b, p);
            break;
        default:
            random_residual(b, number);
        }
    }
    sluice_net_avgpool(b, 1, 1);
    sluice_net_linear(b, "f", 24, SLUICE_INIT_KAIMING_UNIFORM);
    sluice_net_relu(b);
    sluice_net_dropout(b, p);
    sluice_net_linear(b, "g", num_classes, SLUICE_INIT_KAIMING_UNIFORM);
}

TEST(random_nets_read_what_they_wrote)
{
    static const struct sluice_net_model model = {"random", random_model, 0.5};
    for (state = 1; state < 300u * 7919u; state += 7919u) {
        const uint32_t seed = state;
        struct sluice_err err = {{0}};
        struct sluice_net net = {0};
        REQUIRE_OK(sluice_net_build_model(&model, 16, 16, 5, 0.5, &net, &err));
        const size_t training = check_program(&net, 1 + seed % 5, false);
        CU_ASSERT(check_program(&net, 1 + seed % 5, true) <= training);
        sluice_net_clear(&net);
        state = seed;
    }
}

TEST(layers_that_one_kernel_computes_are_one_stage)
{
    struct sluice_err err = {{0}};
    struct sluice_net net = {0};
    struct sluice_program program;
    const struct sluice_program_options options = {
        .batch_size = 1, .element_bytes = 2, .input_channels = 8};
    REQUIRE_OK(sluice_net_build("resnet50", 224, 224, 1000, -1, &net, &err));
    REQUIRE_OK(sluice_program_build(&net, &options, &program, &err));
    /* 53 convolutions, 53 norms with all sums and relus, two pools, one linear layer. */
    CU_ASSERT_EQUAL(program.num_stages, 109);
    char name[64];
    sluice_stage_name(&net, &program.stages[1], name, sizeof(name));
    CU_ASSERT_STRING_EQUAL(name, "bn1");
    sluice_stage_name(&net, &program.stages[2], name, sizeof(name));
    CU_ASSERT_STRING_EQUAL(name, "maximum pooling (layer 3)");
    sluice_program_clear(&program);
    sluice_net_clear(&net);
    REQUIRE_OK(sluice_net_build("vgg16", 224, 224, 1000, -1, &net, &err));
    REQUIRE_OK(sluice_program_build(&net, &options, &program, &err));
    CU_ASSERT_EQUAL(program.num_stages, 13 + 5 + 1 + 3 + 2);
    sluice_program_clear(&program);
    sluice_net_clear(&net);
}

TEST(a_batch_takes_less_than_every_tensor_with_its_gradient)
{
    struct sluice_err err = {{0}};
    struct sluice_net net = {0};
    size_t all = 0;
    REQUIRE_OK(sluice_net_build("resnet50", 224, 224, 1000, -1, &net, &err));
    for (unsigned i = 0; i < net.num_layers; i++)
        all += 2 * 2 * sluice_shape_elements(net.layers[i].out);
    CU_ASSERT(check_program(&net, 16, false) < 16 * all / 2);
    sluice_net_clear(&net);
}

/* The second norm of a residual block reads two tensors and writes a third, and layer1's are the
 * largest that do. */
TEST(inference_keeps_what_later_stages_read)
{
    struct sluice_err err = {{0}};
    struct sluice_net net = {0};
    REQUIRE_OK(sluice_net_build("resnet152", 224, 224, 1000, -1, &net, &err));
    const struct sluice_program_options options = {
        .batch_size = 8, .element_bytes = 2, .input_channels = 8, .is_inference = true};
    struct sluice_program program;
    REQUIRE_OK(sluice_program_build(&net, &options, &program, &err));
    REQUIRE_OK(sluice_program_place(&program, &err));
    const size_t tensor = (size_t)8 * 256 * 56 * 56 * 2;
    CU_ASSERT_EQUAL(program.arena_bytes, 3 * tensor);
    CU_ASSERT(10 * program.arena_bytes < check_program(&net, 8, false));
    for (unsigned s = 0; s < program.num_stages; s++) {
        const struct sluice_stage *stage = &program.stages[s];
        CU_ASSERT_EQUAL(stage->diff_out, SLUICE_NO_BUFFER);
        CU_ASSERT_EQUAL(stage->diff_in, SLUICE_NO_BUFFER);
        CU_ASSERT_EQUAL(program.buffers[stage->out].first, s);
        if (stage->which != SLUICE_NO_BUFFER)
            CU_ASSERT_EQUAL(program.buffers[stage->which].last, s);
    }
    CU_ASSERT_EQUAL(program.buffers[0].last, 0);
    sluice_program_clear(&program);
    sluice_net_clear(&net);
}
