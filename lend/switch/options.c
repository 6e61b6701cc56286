#include "lend/switch/options.h"

#include "base/text.h"
#include "cli/cli.h"
#include "host/unix_listener.h"

#include <string.h>

enum { WHAT, GPU, CLIENTS };
static const char *const groups[] = {[WHAT] = "models", [GPU] = "GPU", [CLIENTS] = "clients", NULL};
static const char *const devices[] = {"cuda", "none", NULL};
static const char *const precisions[] = {"bf16", "tf32", "fp32", NULL};

/* The table stores its values here. */
static struct sluice_option_strings models;
static const char *precision = "bf16";
static struct switch_options o = {.num_classes = 1000,
                                  .batch_size = 8,
                                  .train_batch_size = 8,
                                  .num_workers = 2,
                                  .port = 12345,
                                  .device = "cuda",
                                  .timeout_s = 10};

static const struct sluice_option table[] = {
    {.name = "model",
     .group = WHAT,
     SLUICE_VALUE_STRINGS(models, "NAME=FILE"),
     .is_required = true,
     .help = "A model that answers requests for NAME_inference, and its weights: a file in the "
             "safetensors format with torchvision's names. May be given up to 8 times."},
    {.name = "num-classes",
     .group = WHAT,
     SLUICE_VALUE_UINT(o.num_classes, "N"),
     SLUICE_RANGE(2, 100000),
     .help = "Classes of all models."},
    {.name = "batch",
     .group = WHAT,
     SLUICE_VALUE_UINT(o.batch_size, "N"),
     SLUICE_RANGE(1, 256),
     .help = "Most images of a request. Each takes as long as this many."},
    {.name = "train",
     .group = WHAT,
     SLUICE_VALUE_FLAG(o.trains),
     .help = "Answer NAME_training, too: train the model on random rows, from random weights, in a "
             "process of its own. Inference takes the GPU from it."},
    {.name = "train-batch",
     .group = WHAT,
     SLUICE_VALUE_UINT(o.train_batch_size, "N"),
     SLUICE_RANGE(1, 4096),
     .help = "Rows of a training step."},
    {.name = "device",
     .group = GPU,
     SLUICE_VALUE_CHOICE(o.device, "DEVICE"),
     .choices = devices,
     .help = "cuda is the first GPU of CUDA_VISIBLE_DEVICES; none is for tests: a logit is then a "
             "sum of inputs and of bytes of weights."},
    {.name = "precision",
     .group = GPU,
     SLUICE_VALUE_CHOICE(precision, "WORD"),
     .choices = precisions,
     .help = "Of weights and activations."},
    {.name = "workers",
     .group = GPU,
     SLUICE_VALUE_UINT(o.num_workers, "N"),
     SLUICE_RANGE(1, SWITCH_MAX_WORKERS),
     .help = "Processes that answer inference requests, one request at a time: one is active, the "
             "others stand by to take its place."},
    {.name = "lend",
     .group = GPU,
     SLUICE_VALUE_STRING(o.lend, "PATH"),
     .help = "Take the GPU from the process that lends it at this socket, such as a PyTorch loop "
             "with sluice.lend, for as long as a request takes. Not with --train."},
    {.name = "aside",
     .group = GPU,
     SLUICE_VALUE_FLAG(o.is_aside),
     .help = "If the GPU's memory is short, put the process that lends at --lend aside by CUDA's "
             "process checkpoint (driver 570 or newer) for as long as a request takes."},
    {.name = "port",
     .group = CLIENTS,
     SLUICE_VALUE_UINT(o.port, "N"),
     SLUICE_RANGE(0, 65535),
     .help = "Where clients of this machine connect, at 127.0.0.1; 0: any that is free."},
    {.name = "timeout",
     .group = CLIENTS,
     SLUICE_VALUE_SECONDS(o.timeout_s, "SECONDS"),
     SLUICE_RANGE(0.05, 3600),
     .help = "Time in which a client must send a request once it has begun, or take the reply."},
};

static sluice_status add_model(const char *text, struct sluice_err *err)
{
    const char *const equals = strchr(text, '=');
    if (o.num_models == SWITCH_MAX_MODELS)
        return sluice_fail(err, SLUICE_E_INVALID, "--model: more than %d", SWITCH_MAX_MODELS);
    struct switch_model *model = &o.models[o.num_models];
    if (!equals || equals[1] == 0 ||
        !sluice_print(model->name, sizeof model->name, "%.*s", (int)(equals - text), text))
        return sluice_fail(err, SLUICE_E_INVALID, "--model: \"%s\" is not NAME=FILE", text);
    for (unsigned m = 0; m < o.num_models; m++) {
        if (strcmp(o.models[m].name, model->name) == 0)
            return sluice_fail(err, SLUICE_E_INVALID, "--model: %s is given twice", model->name);
    }
    model->path = equals + 1;
    o.num_models++;
    return SLUICE_OK;
}

static sluice_status check(const struct sluice_cli_result *parsed, struct sluice_err *err)
{
    (void)parsed;
    sluice_status status = SLUICE_OK;
    struct sluice_err why = {0};
    o.is_cuda = strcmp(o.device, "cuda") == 0;
    if (!sluice_precision_parse(precision, &o.precision))
        status = sluice_fail(err, SLUICE_E_INVALID, "--precision: %s", precision);
    if (o.lend && o.trains)
        status = sluice_fail(err, SLUICE_E_INVALID,
                             "--lend and --train exclude each other: only one process can lend");
    if (o.is_aside && !o.lend)
        status = sluice_fail(err, SLUICE_E_INVALID, "--aside needs --lend PATH");
    if (o.lend && sluice_unix_address(o.lend, &(struct sockaddr_un){0}, &why) != SLUICE_OK)
        status = sluice_fail(err, SLUICE_E_INVALID, "--lend: %s", why.text);
    for (size_t i = 0; status == SLUICE_OK && i < models.num_items; i++)
        status = add_model(models.items[i], err);
    return status;
}

static const struct sluice_cli cli = {
    .program = "offload_switch",
    .summary = "Answers inference requests on a GPU that training shares, with weights that come "
               "from the host's memory at each request.",
    .options = table,
    .num_options = SLUICE_ARRAY_LEN(table),
    .groups = groups,
    .check = check,
    .epilog =
        "Clients are those of PipeSwitch (OSDI 2020): a request has a name and float32 images "
        "of 3 x 224 x 224; the reply is FNSH or FAIL. Standard output gets a line of JSON "
        "when clients can connect, and one with counts at the end.",
};

bool switch_options_parse(int argc, char **argv, const struct switch_options **options,
                          int *exit_code)
{
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    *exit_code = parsed.exit_code;
    *options = &o;
    return !parsed.should_exit;
}
