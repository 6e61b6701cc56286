#include "datasets/tools/commands.h"

#include "base/array.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/log.h"
#include "cli/cli.h"
#include "datasets/manifest/layout.h"
#include "datasets/tools/npy.h"
#include "image/image.h"
#include "image/orientation.h"
#include "op/op.h"
#include "op/recipe.h"

#include <jansson.h>

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Runs images through the pipeline, writes each as .npy and prints its draws, for comparison with
 * other libraries. */

#define TRAIN_PIPELINE "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet"
#define VAL_PIPELINE "decode,resize=256,center_crop=224,to_tensor,normalize=imagenet"
#define MAX_FILE_BYTES ((size_t)1 << 30)

struct tensor {
    const struct sluice_pipeline *pipeline;
    struct sluice_scratch *scratch;
    unsigned split;
    const char *out;
    bool is_folder; /* out is a folder */
};

struct paths {
    char **items;
    size_t num_items, capacity;
};

static void paths_clear(struct paths *paths)
{
    for (size_t i = 0; i < paths->num_items; i++)
        free(paths->items[i]);
    free(paths->items);
    *paths = (struct paths){0};
}

static sluice_status paths_add(struct paths *paths, const char *folder, const char *name,
                               struct sluice_err *err)
{
    if (!sluice_array_reserve(&paths->items, &paths->capacity, paths->num_items + 1,
                              sizeof(*paths->items)))
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a list of files");
    char *path = NULL;
    if (asprintf(&path, "%s%s%s", folder ? folder : "", folder ? "/" : "", name) < 0)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
    paths->items[paths->num_items++] = path;
    return SLUICE_OK;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds the images below a folder.  The caller sorts them by path, like a dataset's samples. */
static sluice_status add_folder(struct paths *paths, const char *folder, struct sluice_err *err)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return sluice_fail(err, SLUICE_E_IO, "%s: %s", folder, strerror(errno));
    sluice_status status = SLUICE_OK;
    const struct dirent *entry;
    while (status == SLUICE_OK && (errno = 0, entry = readdir(dir))) {
        const char *name = entry->d_name;
        if (name[0] == '.')
            continue;
        if (entry->d_type == DT_DIR) { /* not through links, which may form cycles */
            char *below = NULL;
            if (asprintf(&below, "%s/%s", folder, name) < 0) {
                status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
                break;
            }
            status = add_folder(paths, below, err);
            free(below);
        } else if (sluice_layout_is_read(name)) {
            status = paths_add(paths, folder, name, err);
        }
    }
    if (status == SLUICE_OK && errno)
        status = sluice_fail(err, SLUICE_E_IO, "%s: read the folder: %s", folder, strerror(errno));
    closedir(dir);
    return status;
}

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static struct {
    uint64_t seed, epoch, sample_id, split;
    bool is_val, has_draws;
    const char *out, *spec;
} given;

/* Whether a sample is its views, one after the other. */
static bool has_views(const struct sluice_pipeline *pipeline, const struct sluice_sample *sample)
{
    return sluice_pipeline_num_views(pipeline) > 1 &&
           sample->ops_done >= sluice_pipeline_u8_split(pipeline);
}

/* [[height, width], ...] */
static json_t *sizes_of_views(const struct sluice_pipeline *pipeline)
{
    json_t *sizes = json_array();
    for (unsigned i = 0; i < sluice_pipeline_num_views(pipeline); i++) {
        const struct sluice_size size = sluice_pipeline_view_size(pipeline, i);
        json_array_append_new(sizes, json_pack("[i, i]", (int)size.height, (int)size.width));
    }
    return sizes;
}

/* `ops`: JSON of every op's draws; NULL: not asked for. */
static void print_draws(const char *image, const char *out, const struct sluice_pipeline *pipeline,
                        const struct sluice_sample *sample, const struct sluice_draws *draws,
                        const struct sluice_image_info *info, const char *ops)
{
    json_t *json =
        json_pack("{s:i, s:i, s:i, s:i, s:b, s:s, s:s, s:I, s:i, s:i, s:i}", "top", (int)draws->top,
                  "left", (int)draws->left, "height", (int)draws->height, "width",
                  (int)draws->width, "flip", (int)draws->flip, "image", image, "out", out, "sample",
                  (json_int_t)sample->key.sample_id, "split", (int)sample->ops_done, "image_height",
                  (int)info->height, "image_width", (int)info->width);
    if (json && has_views(pipeline, sample))
        json_object_set_new(json, "views", sizes_of_views(pipeline));
    if (json && ops)
        json_object_set_new(json, "ops", json_loads(ops, 0, NULL));
    if (json) {
        json_dumpf(json, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
        printf("\n");
    }
    json_decref(json);
}

static sluice_status write_sample(const char *path, const struct sluice_pipeline *pipeline,
                                  const struct sluice_sample *sample, struct sluice_err *err)
{
    const size_t width = sample->width, height = sample->height, channels = sample->channels;
    const struct sluice_buf *data = sample->data;
    if (has_views(pipeline, sample)) {
        const bool is_u8 = sample->kind == SLUICE_KIND_U8;
        return sluice_npy_write(path, is_u8 ? "|u1" : "<f4",
                                (const size_t[]){data->len / (is_u8 ? 1 : sizeof(float))}, 1,
                                data->data, data->len, err);
    }
    switch (sample->kind) {
    case SLUICE_KIND_FILE:
        return sluice_npy_write(path, "|u1", (const size_t[]){data->len}, 1, data->data, data->len,
                                err);
    case SLUICE_KIND_U8:
        return sluice_npy_write(path, "|u1", (const size_t[]){height, width, channels}, 3,
                                data->data, data->len, err);
    case SLUICE_KIND_F32:
        return sluice_npy_write(path, "<f4", (const size_t[]){channels, height, width}, 3,
                                data->data, data->len, err);
    }
    return sluice_fail(err, SLUICE_E_INTERNAL, "a sample of no known kind");
}

static sluice_status run_one(const struct tensor *tensor, const char *image,
                             const struct sluice_draw_key *key, struct sluice_err *err)
{
    struct sluice_sample sample = {.key = *key};
    struct sluice_image_info info;
    sluice_status status = sluice_file_read(image, MAX_FILE_BYTES, NULL, &sample.data, err);
    if (status == SLUICE_OK)
        status = sluice_image_probe(sample.data->data, sample.data->len, &info, err);
    const bool is_turned = status == SLUICE_OK && sluice_pipeline_is_upright(tensor->pipeline) &&
                           sluice_orientation_swaps(sluice_image_orientation(
                               &info, sample.data->data, sample.data->len));
    if (status == SLUICE_OK)
        status =
            sluice_pipeline_run(tensor->pipeline, tensor->scratch, &sample, tensor->split, err);
    char *path = NULL;
    if (status == SLUICE_OK && (tensor->is_folder ? asprintf(&path, "%s/%08llu.npy", tensor->out,
                                                             (unsigned long long)key->sample_id)
                                                  : asprintf(&path, "%s", tensor->out)) < 0) {
        path = NULL;
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a path");
    }
    if (status == SLUICE_OK)
        status = write_sample(path, tensor->pipeline, &sample, err);
    if (status == SLUICE_OK) {
        const uint32_t width = is_turned ? info.height : info.width;
        const uint32_t height = is_turned ? info.width : info.height;
        const struct sluice_draws draws =
            sluice_pipeline_draws(tensor->pipeline, key, width, height);
        char *ops = NULL;
        if (given.has_draws)
            status = sluice_pipeline_write_draws(tensor->pipeline, key, width, height, &ops, err);
        if (status == SLUICE_OK)
            print_draws(image, path, tensor->pipeline, &sample, &draws, &info, ops);
        free(ops);
    }
    free(path);
    sluice_sample_clear(&sample);
    return status;
}

/* Sample ids count from key->sample_id.  A bad image does not end the run. */
static int run_all(const struct tensor *tensor, const struct paths *paths,
                   const struct sluice_draw_key *first)
{
    int exit_code = 0;
    for (size_t i = 0; i < paths->num_items; i++) {
        struct sluice_draw_key key = *first;
        key.sample_id += i;
        struct sluice_err err = {0};
        if (run_one(tensor, paths->items[i], &key, &err) != SLUICE_OK) {
            sluice_log(SLUICE_LOG_ERROR, "%s: %s", paths->items[i], err.text);
            exit_code = 1;
        }
    }
    return exit_code;
}

static sluice_status gather(const struct sluice_cli_result *parsed, struct paths *paths,
                            struct sluice_err *err)
{
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < parsed->num_positional; i++) {
        const char *path = parsed->positional[i];
        if (!is_folder(path)) {
            status = paths_add(paths, NULL, path, err);
            continue;
        }
        const size_t from = paths->num_items;
        status = add_folder(paths, path, err);
        if (paths->num_items > from)
            qsort(paths->items + from, paths->num_items - from, sizeof(*paths->items),
                  compare_paths);
    }
    return status;
}

enum { DRAWS, PIPELINE, OUTPUT };
static const char *const groups[] = {
    [DRAWS] = "crop and flip", [PIPELINE] = "pipeline", [OUTPUT] = "output", NULL};

static const struct sluice_option options[] = {
    {.name = "seed",
     .group = DRAWS,
     SLUICE_VALUE_UINT(given.seed, "N"),
     .help = "Seed that the crop and the flip are drawn with."},
    {.name = "epoch",
     .group = DRAWS,
     SLUICE_VALUE_UINT(given.epoch, "N"),
     SLUICE_RANGE(0, UINT32_MAX),
     .help = "Epoch that they are drawn for."},
    {.name = "sample",
     .group = DRAWS,
     SLUICE_VALUE_UINT(given.sample_id, "N"),
     .help = "Sample id that they are drawn for; several images count up from it."},
    {.name = "split",
     .group = PIPELINE,
     SLUICE_VALUE_UINT(given.split, "K"),
     SLUICE_RANGE(0, SLUICE_PIPELINE_MAX_OPS),
     .help = "Stop after K steps; 0: the bytes of the file; 32: all of them."},
    {.name = "val",
     .group = PIPELINE,
     SLUICE_VALUE_FLAG(given.is_val),
     .help = "Run the validation pipeline: " VAL_PIPELINE ", or that of --pipeline @FILE."},
    {.name = "pipeline",
     .group = PIPELINE,
     SLUICE_VALUE_STRING(given.spec, "TEXT"),
     .check = sluice_recipe_check,
     .list = sluice_op_list,
     .help =
         "Preprocessing steps: ops from the list below, with commas between, or @FILE, a recipe "
         "in JSON.",
     .default_text = TRAIN_PIPELINE},
    {.name = "draws",
     .group = OUTPUT,
     SLUICE_VALUE_FLAG(given.has_draws),
     .help = "Print the draws of every op, too: an array `ops` in each line."},
    {.name = "out",
     .short_name = 'o',
     .group = OUTPUT,
     SLUICE_VALUE_STRING(given.out, "PATH"),
     .is_required = true,
     .help = "The .npy file to write; for several images or a folder, the folder for them."},
};

int sluice_dataset_cmd_tensor(int argc, char **argv)
{
    given.split = SLUICE_PIPELINE_MAX_OPS;
    const struct sluice_cli cli = {
        .program = argv[0],
        .summary = "Run images through a preprocessing pipeline, write the results as .npy and "
                   "print the draws, one JSON object a line.",
        .positional = "IMAGE...",
        .options = options,
        .num_options = SLUICE_ARRAY_LEN(options),
        .groups = groups,
        .epilog = "u8 results are height x width x 3, float32 results 3 x height x width.  The "
                  "results of several views are one row of numbers, view after view; "
                  "\"views\" has the height and width of each.",
    };
    const struct sluice_cli_result parsed = sluice_cli_parse(&cli, argc, argv);
    if (parsed.should_exit)
        return parsed.exit_code;
    if (given.spec && given.is_val && !sluice_is_recipe(given.spec))
        return sluice_cli_usage_error(
            &cli, "--pipeline and --val exclude each other, unless it is @FILE");

    struct sluice_err err = {0};
    struct sluice_pipeline *pipeline = NULL;
    if (sluice_recipe_parse(given.spec     ? given.spec
                            : given.is_val ? VAL_PIPELINE
                                           : TRAIN_PIPELINE,
                            given.is_val, &pipeline, &err) != SLUICE_OK)
        return sluice_cli_usage_error(&cli, "--pipeline: %s", err.text);
    const unsigned num_ops = sluice_pipeline_num_ops(pipeline);
    if (given.split > num_ops && given.split != SLUICE_PIPELINE_MAX_OPS) {
        sluice_pipeline_destroy(pipeline);
        return sluice_cli_usage_error(&cli, "--split: the pipeline has %u ops", num_ops);
    }

    struct tensor tensor = {
        .pipeline = pipeline,
        .split = given.split < num_ops ? (unsigned)given.split : num_ops,
        .out = given.out,
        .is_folder = parsed.num_positional > 1 || is_folder(parsed.positional[0]),
    };
    struct paths paths = {0};
    sluice_status status = gather(&parsed, &paths, &err);
    if (status == SLUICE_OK && paths.num_items == 0)
        status = sluice_fail(&err, SLUICE_E_NOT_FOUND, "%s holds no images", parsed.positional[0]);
    if (status == SLUICE_OK && tensor.is_folder)
        status = sluice_mkdirs(given.out, &err);
    if (status == SLUICE_OK)
        status = sluice_scratch_create(NULL, &tensor.scratch, &err);
    int exit_code = 1;
    if (status == SLUICE_OK)
        exit_code = run_all(&tensor, &paths,
                            &(struct sluice_draw_key){.seed = given.seed,
                                                      .epoch = (uint32_t)given.epoch,
                                                      .sample_id = given.sample_id,
                                                      .schedule = (uint32_t)given.epoch});
    else
        sluice_log(SLUICE_LOG_ERROR, "%s", err.text);
    if (fflush(stdout) != 0 && exit_code == 0)
        exit_code = 1;
    sluice_scratch_destroy(tensor.scratch);
    paths_clear(&paths);
    sluice_pipeline_destroy(pipeline);
    return exit_code;
}
