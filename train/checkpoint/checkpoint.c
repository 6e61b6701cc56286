#include "train/checkpoint/checkpoint.h"

#include "base/file.h"
#include "base/parse.h"
#include "base/text.h"
#include "train/checkpoint/checkpoint_v1.h"

#include <assert.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION "1"
#define NUMBER_BYTES 21 /* of a u64 in decimal, with the NUL */

/* --- the momentum file's name --- */

static sluice_status name_momentum(const char *path, uint64_t steps, const char *hash,
                                   char name[SLUICE_MAX_PATH_BYTES], struct sluice_err *err)
{
    if (!sluice_print(name, SLUICE_MAX_PATH_BYTES, "%s.momentum-%" PRIu64 "-%.16s", path, steps,
                      hash))
        return sluice_fail(err, SLUICE_E_INVALID, "%.64s...: path too long", path);
    return SLUICE_OK;
}

/* Whether `name` is BASE.momentum-STEPS-DIGITS, or a temporary file of one. */
static bool is_momentum_of(const char *name, const char *base)
{
    static const char middle[] = ".momentum-";
    const size_t len = strlen(base);
    if (strncmp(name, base, len) != 0 || !sluice_starts_with(name + len, middle))
        return false;
    const char *at = name + len + sizeof(middle) - 1;
    const size_t steps = strspn(at, "0123456789");
    if (steps == 0 || at[steps] != '-')
        return false;
    at += steps + 1;
    const size_t digits = strspn(at, "0123456789abcdef");
    return digits == 16 && (at[digits] == '\0' || sluice_starts_with(at + digits, ".tmp-"));
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Removes the momentum files of `path` but for `kept`.  What cannot be removed stays until the next
 * time. */
static void remove_others(const char *path, const char *kept)
{
    const char *base = base_of(path);
    char folder[SLUICE_MAX_PATH_BYTES];
    (void)sluice_print(folder, sizeof(folder), "%.*s", base == path ? 1 : (int)(base - path),
                       base == path ? "." : path);
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        if (is_momentum_of(entry->d_name, base) && strcmp(entry->d_name, base_of(kept)) != 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* --- writing --- */

static sluice_status make(const char *path, const struct sluice_safetensors_plan *plan,
                          uint8_t **bytes, size_t *len, char hash[33], struct sluice_err *err)
{
    struct sluice_err why = {{0}};
    const sluice_status status = sluice_safetensors_make(plan, bytes, len, hash, &why);
    return status ? sluice_fail(err, status, "%s: %s", path, why.text) : SLUICE_OK;
}

static sluice_status write_values(const char *path, const struct sluice_checkpoint_head *head,
                                  const struct sluice_safetensors_plan *values,
                                  const char *momentum_hash, struct sluice_err *err)
{
    char height[NUMBER_BYTES], width[NUMBER_BYTES], classes[NUMBER_BYTES], seed[NUMBER_BYTES],
        steps[NUMBER_BYTES], hash[33];
    snprintf(height, sizeof(height), "%" PRIu32, head->height);
    snprintf(width, sizeof(width), "%" PRIu32, head->width);
    snprintf(classes, sizeof(classes), "%" PRIu32, head->num_classes);
    snprintf(seed, sizeof(seed), "%" PRIu64, head->seed);
    snprintf(steps, sizeof(steps), "%" PRIu64, head->steps);
    const struct sluice_safetensors_text texts[] = {
        {"format", "pt"}, /* where Hugging Face's libraries look for the layout of weights */
        {"sluice_checkpoint", VERSION},
        {"model", head->model},
        {"height", height},
        {"width", width},
        {"num_classes", classes},
        {"seed", seed},
        {"steps", steps},
        {"extra", head->extra},
        {"momentum", momentum_hash},
        {"engines", head->engines ? head->engines : ""},
    };
    struct sluice_safetensors_plan plan = *values;
    plan.texts = texts;
    plan.num_texts = SLUICE_ARRAY_LEN(texts);
    uint8_t *bytes = NULL;
    size_t len;
    sluice_status status = make(path, &plan, &bytes, &len, hash, err);
    if (!status)
        status = sluice_file_write_atomic(path, bytes, len, err);
    free(bytes);
    return status;
}

/* Writes the momentum file; `name` gets its path, *is_new whether it was not there. */
static sluice_status write_momenta(const char *path, uint64_t steps,
                                   const struct sluice_safetensors_plan *momenta,
                                   char name[SLUICE_MAX_PATH_BYTES], bool *is_new, char hash[33],
                                   struct sluice_err *err)
{
    struct sluice_safetensors_plan plan = *momenta;
    plan.num_texts = 0;
    uint8_t *bytes = NULL;
    size_t len;
    sluice_status status = make(path, &plan, &bytes, &len, hash, err);
    if (!status)
        status = name_momentum(path, steps, hash, name, err);
    if (!status) {
        *is_new = access(name, F_OK) != 0;
        status = sluice_file_write_atomic(name, bytes, len, err);
        if (status && *is_new)
            unlink(name); /* it is there if only the sync of the folder failed */
    }
    free(bytes);
    return status;
}

/* 0: no such file. */
static ino_t file_number(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 ? st.st_ino : 0;
}

sluice_status sluice_checkpoint_write(const char *path, const struct sluice_checkpoint_head *head,
                                      const struct sluice_safetensors_plan *values,
                                      const struct sluice_safetensors_plan *momenta,
                                      struct sluice_err *err)
{
    assert(strlen(head->model) < sizeof(((struct sluice_checkpoint *)0)->model));
    if (strlen(head->extra) > SLUICE_CHECKPOINT_MAX_EXTRA)
        return sluice_fail(err, SLUICE_E_INVALID, "%s: the extra text is over %d bytes", path,
                           SLUICE_CHECKPOINT_MAX_EXTRA);
    char name[SLUICE_MAX_PATH_BYTES], hash[33];
    bool is_new;
    sluice_status status = write_momenta(path, head->steps, momenta, name, &is_new, hash, err);
    if (status)
        return status;
    const ino_t before = file_number(path);
    status = write_values(path, head, values, hash, err);
    if (!status)
        remove_others(path, name);
    else if (is_new && file_number(path) == before) /* no FILE names it */
        unlink(name);
    return status;
}

/* --- reading --- */

static bool is_hash(const char *text)
{
    return text && strspn(text, "0123456789abcdef") == 32 && strlen(text) == 32;
}

static bool get_u64(const struct sluice_safetensors *file, const char *key, uint64_t most,
                    uint64_t *value)
{
    const char *text = sluice_safetensors_text(file, key);
    return text && sluice_parse_uint(text, value, NULL) == SLUICE_OK && *value <= most;
}

/* The head, from the metadata of FILE. */
static sluice_status read_head(struct sluice_checkpoint *out, struct sluice_err *err)
{
    const struct sluice_safetensors *file = &out->values;
    const char *version = sluice_safetensors_text(file, "sluice_checkpoint");
    if (!version)
        return sluice_fail(err, SLUICE_E_INVALID,
                           "weights without the state of a run: --init takes them");
    if (strcmp(version, VERSION) != 0)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED, "checkpoint version %.20s, not %s", version,
                           VERSION);
    const char *model = sluice_safetensors_text(file, "model");
    const char *extra = sluice_safetensors_text(file, "extra");
    uint64_t height, width, num_classes;
    if (!model || strlen(model) >= sizeof(out->model) || !extra ||
        strlen(extra) > SLUICE_CHECKPOINT_MAX_EXTRA ||
        !get_u64(file, "height", UINT32_MAX, &height) ||
        !get_u64(file, "width", UINT32_MAX, &width) ||
        !get_u64(file, "num_classes", UINT32_MAX, &num_classes) ||
        !get_u64(file, "seed", UINT64_MAX, &out->seed) ||
        !get_u64(file, "steps", UINT64_MAX, &out->steps) ||
        !is_hash(sluice_safetensors_text(file, "momentum")) ||
        !sluice_safetensors_text(file, SLUICE_SAFETENSORS_HASH))
        return sluice_fail(err, SLUICE_E_CORRUPT, "no proper metadata of a checkpoint");
    snprintf(out->model, sizeof(out->model), "%s", model);
    out->height = (uint32_t)height;
    out->width = (uint32_t)width;
    out->num_classes = (uint32_t)num_classes;
    out->extra = strdup(extra);
    if (!out->extra)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a checkpoint");
    return SLUICE_OK;
}

/* The file that FILE names, in the folder that `path` leads to. */
static sluice_status read_momenta(const char *path, struct sluice_checkpoint *out,
                                  struct sluice_err *err)
{
    const char *hash = sluice_safetensors_text(&out->values, "momentum");
    char *real = realpath(path, NULL);
    char name[SLUICE_MAX_PATH_BYTES];
    struct sluice_err why = {{0}};
    sluice_status status = name_momentum(real ? real : path, out->steps, hash, name, err);
    free(real);
    if (!status)
        status = sluice_file_read(name, SIZE_MAX, NULL, &out->files[1], &why);
    if (status == SLUICE_E_NOT_FOUND)
        return sluice_fail(err, status,
                           "%s: its momentum file %s is not there; the weights alone are for "
                           "--init",
                           path, base_of(name));
    if (status)
        return sluice_fail(err, status, "%s", why.text);
    status = sluice_safetensors_parse(out->files[1]->data, out->files[1]->len, &out->momenta, &why);
    if (status)
        return sluice_fail(err, status, "%s: %s", name, why.text);
    const char *own = sluice_safetensors_text(&out->momenta, SLUICE_SAFETENSORS_HASH);
    if (!own || strcmp(own, hash) != 0)
        return sluice_fail(err, SLUICE_E_CORRUPT, "%s: not the momentum of %s", name, path);
    return SLUICE_OK;
}

/* Fills `values`, and from a file of version 0.1 the rest as well. */
static sluice_status read_file(const char *path, struct sluice_checkpoint *out,
                               struct sluice_err *err)
{
    sluice_status status = sluice_file_read(path, SIZE_MAX, NULL, &out->files[0], err);
    if (status)
        return status;
    const uint8_t *bytes = out->files[0]->data;
    const size_t len = out->files[0]->len;
    struct sluice_err why = {{0}};
    if (sluice_is_checkpoint_v1(bytes, len))
        status = sluice_checkpoint_v1_parse(bytes, len, out, &why);
    else
        status = sluice_safetensors_parse(bytes, len, &out->values, &why);
    return status ? sluice_fail(err, status, "%s: %s", path, why.text) : SLUICE_OK;
}

sluice_status sluice_checkpoint_read(const char *path, struct sluice_checkpoint *checkpoint,
                                     struct sluice_err *err)
{
    struct sluice_checkpoint read = {.num_classes = 0};
    sluice_status status = read_file(path, &read, err);
    if (!status && !sluice_is_checkpoint_v1(read.files[0]->data, read.files[0]->len)) {
        struct sluice_err why = {{0}};
        status = read_head(&read, &why);
        if (status)
            (void)!sluice_fail(err, status, "%s: %s", path, why.text);
        else
            status = read_momenta(path, &read, err);
    }
    if (status)
        sluice_checkpoint_clear(&read);
    else
        *checkpoint = read;
    return status;
}

sluice_status sluice_checkpoint_read_weights(const char *path, struct sluice_checkpoint *checkpoint,
                                             struct sluice_err *err)
{
    struct sluice_checkpoint read = {.num_classes = 0};
    const sluice_status status = read_file(path, &read, err);
    if (status)
        sluice_checkpoint_clear(&read);
    else
        *checkpoint = read;
    return status;
}

void sluice_checkpoint_clear(struct sluice_checkpoint *checkpoint)
{
    sluice_safetensors_clear(&checkpoint->values);
    sluice_safetensors_clear(&checkpoint->momenta);
    sluice_buf_unref(checkpoint->files[0]);
    sluice_buf_unref(checkpoint->files[1]);
    free(checkpoint->extra);
    free(checkpoint->names);
    memset(checkpoint, 0, sizeof(*checkpoint));
}
