#include "train/checkpoint/checkpoint.h"

#include "base/compiler.h"
#include "base/file.h"

#include "support/test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- a disk that ends the process, or fails, at a chosen call (linked with --wrap) --- */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
ssize_t __real_write(int fd, const void *data, size_t len);
ssize_t __wrap_write(int fd, const void *data, size_t len);
int __wrap_fsync(int fd);
int __real_rename(const char *from, const char *to);
int __wrap_rename(const char *from, const char *to);
int __real_unlink(const char *path);
int __wrap_unlink(const char *path);
int __real_unlinkat(int fd, const char *name, int flags);
int __wrap_unlinkat(int fd, const char *name, int flags);

static int calls_left = INT_MAX;
static bool does_fail;

#define KILLED 9

/* Before a call: ends the process if this is the one; true: the call is to fail. */
static bool is_last_call(void)
{
    if (calls_left-- > 0)
        return false;
    if (!does_fail)
        _exit(KILLED);
    calls_left = INT_MAX; /* only this one */
    errno = EIO;
    return true;
}

int __wrap_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    return is_last_call() ? -1 : __real_open(path, flags, mode);
}

/* The first half of a write is a call, too. */
ssize_t __wrap_write(int fd, const void *data, size_t len)
{
    if (is_last_call())
        return -1;
    const ssize_t half = __real_write(fd, data, len / 2);
    if (half < 0 || is_last_call())
        return -1;
    return half + __real_write(fd, (const char *)data + half, len - (size_t)half);
}

int __wrap_fsync(int fd)
{
    (void)fd;
    return is_last_call() ? -1 : 0; /* the machine stays on, and a real one takes long */
}

int __wrap_rename(const char *from, const char *to)
{
    return is_last_call() ? -1 : __real_rename(from, to);
}

int __wrap_unlink(const char *path)
{
    return is_last_call() ? -1 : __real_unlink(path);
}

int __wrap_unlinkat(int fd, const char *name, int flags)
{
    return is_last_call() ? -1 : __real_unlinkat(fd, name, flags);
}

/* --- a tiny checkpoint --- */

static const struct sluice_tensor value_tensors[] = {
    {.name = "bn.num_batches_tracked", .type = SLUICE_TENSOR_I64},
    {.name = "fc.weight", .type = SLUICE_TENSOR_F32, .num_dims = 2, .dims = {2, 3}},
    {.name = "fc.bias", .type = SLUICE_TENSOR_F32, .num_dims = 1, .dims = {2}},
};

/* All elements are *ctx. */
static sluice_status fill_values(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    static const size_t counts[] = {0, 6, 2};
    (void)err;
    for (size_t i = 0; i < counts[tensor]; i++)
        ((float *)to)[i] = *(const float *)ctx;
    if (tensor == 0)
        *(int64_t *)to = (int64_t) * (const float *)ctx;
    return SLUICE_OK;
}

static sluice_status fill_momenta(void *ctx, size_t tensor, void *to, struct sluice_err *err)
{
    float momentum = *(const float *)ctx + 0.5f;
    return fill_values(&momentum, tensor + 1, to, err);
}

static const struct sluice_checkpoint_head tiny = {.model = "tiny",
                                                   .height = 32,
                                                   .width = 48,
                                                   .num_classes = 2,
                                                   .seed = 1ull << 63,
                                                   .steps = 12345678901,
                                                   .extra = "{\"lr\": 0.1, \"\xC3\xA4\": \"\\n\"}"};

static sluice_status write_head(const char *path, const struct sluice_checkpoint_head *head,
                                float value)
{
    const struct sluice_safetensors_plan values = {.tensors = value_tensors,
                                                   .num_tensors = SLUICE_ARRAY_LEN(value_tensors),
                                                   .fill = fill_values,
                                                   .ctx = &value};
    const struct sluice_safetensors_plan momenta = {
        .tensors = value_tensors + 1, .num_tensors = 2, .fill = fill_momenta, .ctx = &value};
    return sluice_checkpoint_write(path, head, &values, &momenta, sluice_test_err());
}

/* A new folder's run.ckpt. */
static const char *new_path(void)
{
    static int count;
    char name[64];
    snprintf(name, sizeof(name), "%d", count);
    CU_ASSERT_EQUAL(mkdir(sluice_test_path(name), 0777), 0);
    snprintf(name, sizeof(name), "%d/run.ckpt", count++);
    return sluice_test_path(name);
}

static const char *write_tiny(float value)
{
    const char *path = new_path();
    REQUIRE_OK(write_head(path, &tiny, value));
    return path;
}

static sluice_status read_tiny(const char *path)
{
    struct sluice_checkpoint checkpoint;
    const sluice_status status = sluice_checkpoint_read(path, &checkpoint, sluice_test_err());
    if (!status)
        sluice_checkpoint_clear(&checkpoint);
    return status;
}

/* The value of both files; -1: none, or two that do not belong together. */
static float value_of(const char *path)
{
    struct sluice_checkpoint checkpoint;
    float value[6], momentum[6];
    if (sluice_checkpoint_read(path, &checkpoint, sluice_test_err()))
        return -1;
    sluice_tensor_to_float(sluice_safetensors_find(&checkpoint.values, "fc.weight"), value);
    sluice_tensor_to_float(sluice_safetensors_find(&checkpoint.momenta, "fc.weight"), momentum);
    sluice_checkpoint_clear(&checkpoint);
    return momentum[5] == value[5] + 0.5f ? value[5] : -1;
}

/* The files of a checkpoint's folder; `momentum` (PATH_MAX) gets the path of a momentum file. */
static unsigned list_folder(const char *path, char *momentum)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    DIR *dir = opendir(folder);
    unsigned count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        count += entry->d_name[0] != '.';
        if (momentum && strstr(entry->d_name, ".momentum-"))
            snprintf(momentum, PATH_MAX, "%s/%s", folder, entry->d_name);
    }
    closedir(dir);
    return count;
}

TEST(what_is_written_is_read)
{
    const char *path = write_tiny(3);
    struct sluice_checkpoint checkpoint;
    REQUIRE_OK(sluice_checkpoint_read(path, &checkpoint, sluice_test_err()));
    CU_ASSERT_STRING_EQUAL(checkpoint.model, "tiny");
    CU_ASSERT(checkpoint.height == 32 && checkpoint.width == 48);
    CU_ASSERT_EQUAL(checkpoint.num_classes, 2);
    CU_ASSERT_EQUAL(checkpoint.seed, tiny.seed);
    CU_ASSERT_EQUAL(checkpoint.steps, tiny.steps);
    CU_ASSERT_STRING_EQUAL(checkpoint.extra, tiny.extra);
    CU_ASSERT_EQUAL(checkpoint.values.num_tensors, 3);
    CU_ASSERT_EQUAL(checkpoint.momenta.num_tensors, 2);
    const struct sluice_tensor *bias = sluice_safetensors_find(&checkpoint.momenta, "fc.bias");
    float momentum[2] = {0};
    sluice_tensor_to_float(bias, momentum);
    CU_ASSERT(momentum[0] == 3.5f && momentum[1] == 3.5f);
    sluice_checkpoint_clear(&checkpoint);
    sluice_checkpoint_clear(&checkpoint);
}

TEST(the_weights_are_a_file_of_their_own)
{
    const char *path = write_tiny(3);
    char momentum[PATH_MAX];
    CU_ASSERT_EQUAL(list_folder(path, momentum), 2);
    CU_ASSERT_PTR_NOT_NULL(strstr(momentum, "/run.ckpt.momentum-12345678901-"));
    unlink(momentum);
    struct sluice_checkpoint checkpoint;
    REQUIRE_OK(sluice_checkpoint_read_weights(path, &checkpoint, sluice_test_err()));
    CU_ASSERT_EQUAL(checkpoint.values.num_tensors, 3);
    sluice_checkpoint_clear(&checkpoint);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "run.ckpt.momentum-12345678901-", read_tiny(path));
    CHECK_SAYS("is not there; the weights alone are for --init");
}

TEST(the_bytes_do_not_depend_on_the_path)
{
    const char *first = write_tiny(3), *second = write_tiny(3);
    size_t len, other_len;
    uint8_t *bytes = sluice_test_read_file(first, &len);
    uint8_t *others = sluice_test_read_file(second, &other_len);
    CU_ASSERT(len == other_len && memcmp(bytes, others, len) == 0);
    free(bytes);
    free(others);
}

TEST(a_renamed_pair_is_read_and_so_is_a_link)
{
    const char *path = write_tiny(3);
    char momentum[PATH_MAX], renamed[PATH_MAX], renamed_momentum[PATH_MAX];
    list_folder(path, momentum);
    snprintf(renamed, sizeof(renamed), "%s.best", path);
    snprintf(renamed_momentum, sizeof(renamed_momentum), "%s%s", renamed,
             strstr(momentum, ".momentum-"));
    CU_ASSERT(rename(path, renamed) == 0 && rename(momentum, renamed_momentum) == 0);
    CU_ASSERT_EQUAL(value_of(renamed), 3);
    const char *link = sluice_test_path("link.ckpt");
    CU_ASSERT_EQUAL(symlink(renamed, link), 0);
    CU_ASSERT_EQUAL(value_of(link), 3);
}

/* Every cut, and a flipped bit of every byte. */
static void damage(const char *path, const char *file)
{
    size_t len;
    uint8_t *bytes = sluice_test_read_file(file, &len);
    for (size_t at = 0; at < len; at++) {
        sluice_test_write_file(file, bytes, at);
        CU_ASSERT_EQUAL(read_tiny(path), SLUICE_E_CORRUPT);
        bytes[at] ^= (uint8_t)(1 << at % 8);
        sluice_test_write_file(file, bytes, len);
        CU_ASSERT(read_tiny(path) != SLUICE_OK);
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    sluice_test_write_file(file, bytes, len);
    CU_ASSERT_EQUAL(value_of(path), 3);
    free(bytes);
}

TEST(damage_to_either_file_is_found)
{
    const char *path = write_tiny(3);
    char momentum[PATH_MAX];
    list_folder(path, momentum);
    damage(path, path);
    damage(path, momentum);
}

TEST(the_momentum_of_another_file_is_refused)
{
    const char *path = write_tiny(3), *other = write_tiny(4);
    char momentum[PATH_MAX], another[PATH_MAX];
    list_folder(path, momentum);
    list_folder(other, another);
    CU_ASSERT_EQUAL(rename(another, momentum), 0);
    CHECK_FAILS(SLUICE_E_CORRUPT, "not the momentum of", read_tiny(path));
}

/* A file whose metadata is this, with the right hash. */
static sluice_status read_metadata(const struct sluice_safetensors_text *texts, size_t num)
{
    const struct sluice_safetensors_plan plan = {.texts = texts, .num_texts = num};
    uint8_t *bytes = NULL;
    size_t len;
    char hash[33];
    REQUIRE_OK(sluice_safetensors_make(&plan, &bytes, &len, hash, sluice_test_err()));
    sluice_test_write_file(sluice_test_path("metadata.ckpt"), bytes, len);
    free(bytes);
    return read_tiny(sluice_test_path("metadata.ckpt"));
}

TEST(metadata_is_checked)
{
    static const struct sluice_safetensors_text good[] = {
        {"sluice_checkpoint", "1"},
        {"model", "tiny"},
        {"height", "1"},
        {"width", "1"},
        {"num_classes", "1"},
        {"seed", "1"},
        {"steps", "1"},
        {"extra", ""},
        {"momentum", "0123456789abcdef0123456789abcdef"},
    };
    const size_t num = SLUICE_ARRAY_LEN(good);
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "metadata.ckpt.momentum-1-0123456789abcdef is not there",
                read_metadata(good, num));
    CHECK_FAILS(SLUICE_E_INVALID, "weights without the state of a run", read_metadata(good, 0));
    for (size_t i = 1; i < num; i++) {
        struct sluice_safetensors_text texts[SLUICE_ARRAY_LEN(good)];
        memcpy(texts, (const void *)good, sizeof(good));
        texts[i].key = "other";
        CHECK_FAILS(SLUICE_E_CORRUPT, "metadata.ckpt: no proper metadata",
                    read_metadata(texts, num));
        if (strcmp(good[i].value, "1") != 0)
            continue;
        static const char *const bad[] = {"", "-1", "1x", "18446744073709551616"};
        for (size_t k = 0; k < SLUICE_ARRAY_LEN(bad); k++) {
            texts[i] = (struct sluice_safetensors_text){good[i].key, bad[k]};
            CHECK_FAILS(SLUICE_E_CORRUPT, "no proper metadata", read_metadata(texts, num));
        }
    }
    struct sluice_safetensors_text texts[SLUICE_ARRAY_LEN(good)];
    memcpy(texts, (const void *)good, sizeof(good));
    texts[0].value = "2";
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "version 2", read_metadata(texts, num));
    texts[0].value = "1";
    char longest[65];
    memset(longest, 'm', 64);
    longest[64] = '\0';
    texts[1].value = longest;
    CHECK_FAILS(SLUICE_E_CORRUPT, "no proper metadata", read_metadata(texts, num));
    texts[1].value = "tiny";
    texts[8].value = "/../../x/456789abcdef0123456789abc"; /* a hash that leads elsewhere */
    CHECK_FAILS(SLUICE_E_CORRUPT, "no proper metadata", read_metadata(texts, num));
}

TEST(an_error_names_the_file)
{
    sluice_test_write_file(sluice_test_path("text.ckpt"), "hello, world", 12);
    CHECK_FAILS(SLUICE_E_CORRUPT, "text.ckpt: not safetensors",
                read_tiny(sluice_test_path("text.ckpt")));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "none.ckpt", read_tiny(sluice_test_path("none.ckpt")));
    CHECK_FAILS(SLUICE_E_INVALID, "not a regular file", read_tiny(sluice_test_dir()));
    CHECK_FAILS(SLUICE_E_NOT_FOUND, "no/such/x.ckpt",
                write_head(sluice_test_path("no/such/x.ckpt"), &tiny, 1));
}

TEST(an_extra_text_that_is_too_long_or_no_text_is_refused)
{
    struct sluice_checkpoint_head head = tiny;
    char *extra = malloc(SLUICE_CHECKPOINT_MAX_EXTRA + 2);
    memset(extra, 'x', SLUICE_CHECKPOINT_MAX_EXTRA + 1);
    extra[SLUICE_CHECKPOINT_MAX_EXTRA + 1] = '\0';
    head.extra = extra;
    const char *path = new_path();
    CHECK_FAILS(SLUICE_E_INVALID, "extra text is over", write_head(path, &head, 1));
    extra[SLUICE_CHECKPOINT_MAX_EXTRA] = '\0';
    CHECK_OK(write_head(path, &head, 1));
    head.extra = "\xFF";
    CHECK_FAILS(SLUICE_E_INVALID, "\"extra\" is not UTF-8", write_head(path, &head, 2));
    CU_ASSERT_EQUAL(value_of(path), 1);
    CU_ASSERT_EQUAL(list_folder(path, NULL), 2);
    free(extra);
}

/* The old pair's momentum goes; other files that look nearly like one stay. */
TEST(what_the_old_pair_had_beside_it_is_removed)
{
    static const char *const others[] = {
        "run.ckpt.momentum-1-0123456789abcde",   "run.ckpt.momentum-x-0123456789abcdef",
        "run.ckpt.momentum-1-0123456789abcdef0", "run.ckpt.momentum-1-0123456789abcdef.bak",
        "xrun.ckpt.momentum-1-0123456789abcdef", "run.ckpt2.momentum-1-0123456789abcdef"};
    static const char *const left[] = {"run.ckpt.momentum-1-0123456789abcdef",
                                       "run.ckpt.momentum-1-0123456789abcdef.tmp-1-0"};
    const char *path = write_tiny(1);
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++)
        sluice_test_put_text(folder, others[i], "");
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(left); i++)
        sluice_test_put_text(folder, left[i], "of a process that was killed");
    struct sluice_checkpoint_head head = tiny;
    head.steps++;
    REQUIRE_OK(write_head(path, &head, 2));
    CU_ASSERT_EQUAL(value_of(path), 2);
    CU_ASSERT_EQUAL(list_folder(path, NULL), 2 + SLUICE_ARRAY_LEN(others));

    /* By a path without a folder. */
    char before[PATH_MAX];
    CU_ASSERT_PTR_NOT_NULL(getcwd(before, sizeof(before)));
    CU_ASSERT_EQUAL(chdir(folder), 0);
    head.steps++;
    CHECK_OK(write_head("run.ckpt", &head, 3));
    CU_ASSERT_EQUAL(value_of("run.ckpt"), 3);
    CU_ASSERT_EQUAL(chdir(before), 0);
    CU_ASSERT_EQUAL(list_folder(path, NULL), 2 + SLUICE_ARRAY_LEN(others));
}

/* Replaces a pair of value 1 by one of value 2 in a child process, with trouble at the call that is
 * given; its exit code. */
static int replace_with_trouble(const char *path, uint64_t steps, int call)
{
    struct sluice_checkpoint_head head = tiny;
    head.steps = steps;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        calls_left = call;
        _exit(write_head(path, &head, 2) == SLUICE_OK ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A write has 15 calls. */
#define NUM_CALLS 18

static void trouble_at_every_call(uint64_t steps, int expected)
{
    unsigned num_old = 0, num_new = 0;
    int code = -1;
    for (int call = 0; call < NUM_CALLS; call++) {
        const char *path = write_tiny(1);
        code = replace_with_trouble(path, steps, call);
        CU_ASSERT(code == expected || code == 0);
        const float value = value_of(path);
        CU_ASSERT(value == 1 || value == 2);
        num_old += value == 1;
        num_new += value == 2;

        /* The next run's first write is whole, and nothing else is left. */
        struct sluice_checkpoint_head head = tiny;
        head.steps = 77;
        CHECK_OK(sluice_file_try_atomic(path, sluice_test_err()));
        REQUIRE_OK(write_head(path, &head, 3));
        CU_ASSERT_EQUAL(value_of(path), 3);
        CU_ASSERT_EQUAL(list_folder(path, NULL), 2);
    }
    CU_ASSERT_EQUAL(code, 0); /* it was over before the last of these calls */
    CU_ASSERT(num_old >= 8 && num_new >= 4);
}

TEST(a_kill_at_any_call_leaves_a_pair)
{
    does_fail = false;
    trouble_at_every_call(tiny.steps + 1, KILLED);
}

/* Two runs that have taken as many steps: their momentum files have other names. */
TEST(a_kill_at_any_call_leaves_a_pair_of_another_run)
{
    does_fail = false;
    trouble_at_every_call(tiny.steps, KILLED);
}

TEST(a_failure_of_any_call_leaves_a_pair)
{
    does_fail = true;
    trouble_at_every_call(tiny.steps + 1, 1);
    does_fail = false;
}

/* The files of a failed write do not pile up on a disk that is full. */
TEST(a_write_that_fails_leaves_nothing_beside_the_old_pair)
{
    does_fail = true;
    for (int call = 0; call < NUM_CALLS; call++) {
        const char *path = write_tiny(1);
        const int code = replace_with_trouble(path, tiny.steps + 1, call);
        if (code == 1 && value_of(path) == 1)
            CU_ASSERT_EQUAL(list_folder(path, NULL), 2);
    }
    does_fail = false;
}
