#include "compute_client/options/loader_options.h"

#include "compute_client/options/options_table.h"
#include "support/test.h"

#include <unistd.h>

#define MAX_ARGS 32

/* Splits at spaces; the text must live on. */
static bool parse_all(char *line, struct sluice_options *options,
                      struct sluice_loader_settings *settings, int *exit_code)
{
    char *argv[MAX_ARGS] = {(char *)(uintptr_t) "offload_train"};
    int argc = 1;
    for (char *word = strtok(line, " "); word && argc < MAX_ARGS - 1; word = strtok(NULL, " "))
        argv[argc++] = word;
    return sluice_options_parse(argc, argv, options, settings, exit_code);
}

static bool parse(char *line, struct sluice_options *options, int *exit_code)
{
    struct sluice_loader_settings settings;
    return parse_all(line, options, &settings, exit_code);
}

TEST(rows_on_a_gpu_are_for_a_trainer_that_takes_them)
{
    static const struct {
        const char *flags, *wanted; /* NULL: a usage error */
    } cases[] = {
        {"", "auto"},
        {"--device cuda", "auto"},
        {"--device cuda --gpu-decode off", "off"},
        {"--device cuda --gpu-decode on", "on"},
        {"--device none", "off"},
        {"--device none --gpu-decode auto", "off"},
        {"--device none --gpu-decode on", "on"},
        {"--device cpu", "off"},
        {"--device cpu --gpu-decode on", NULL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "set -j 3 %s --seed 7", cases[i].flags);
        struct sluice_options o;
        struct sluice_loader_settings settings;
        int exit_code = -1;
        if (!parse_all(line, &o, &settings, &exit_code)) {
            CU_ASSERT_PTR_NULL(cases[i].wanted);
            CU_ASSERT_EQUAL(exit_code, 2);
            continue;
        }
        CU_ASSERT_PTR_NOT_NULL_FATAL(cases[i].wanted);
        unsigned found = 0;
        for (size_t k = 0; k < settings.num_items; k++) {
            if (strcmp(settings.items[k].key, "gpu-decode") != 0)
                continue;
            found++;
            CU_ASSERT_STRING_EQUAL(settings.items[k].value, cases[i].wanted);
        }
        CU_ASSERT_EQUAL(found, 1);
    }
}

TEST(the_loader_decodes_on_the_trainers_gpu_unless_it_has_its_own)
{
    static const struct {
        const char *flags, *wanted; /* NULL: no setting */
    } cases[] = {
        {"--device cuda", NULL},
        {"--device cuda --gpu 3", "3"},
        {"--gpu 3 --gpu-device 1", "1"},
        {"--gpu-device 2", "2"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "set %s", cases[i].flags);
        struct sluice_options o;
        struct sluice_loader_settings settings;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse_all(line, &o, &settings, &exit_code));
        const char *found = NULL;
        for (size_t k = 0; k < settings.num_items; k++) {
            if (strcmp(settings.items[k].key, "gpu-device") != 0)
                continue;
            CU_ASSERT_PTR_NULL(found);
            found = settings.items[k].value;
        }
        CU_ASSERT_EQUAL(!found, !cases[i].wanted);
        if (found && cases[i].wanted)
            CU_ASSERT_STRING_EQUAL(found, cases[i].wanted);
    }
}

/* "NAME=VALUE NAME=VALUE", for as long as the test runs. */
static void set_env(const char *text, bool is_set)
{
    char copy[128];
    snprintf(copy, sizeof(copy), "%s", text);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " ")) {
        char *value = strchr(word, '=');
        *value = '\0';
        if (is_set)
            setenv(word, value + 1, 1);
        else
            unsetenv(word);
    }
}

TEST(the_gpu_is_lent_as_the_flags_say)
{
    static const struct {
        const char *flags;
        enum sluice_lend_when when;
        double share, at_most_s;
        size_t num_uids;
    } cases[] = {
        {"--lend /run/gpu", SLUICE_LEND_ALWAYS, 0, 1, 0},
        {"--lend /run/gpu --lend-share idle --lend-at-most 250ms", SLUICE_LEND_IDLE, 0, 0.25, 0},
        {"--lend /run/gpu --lend-share 0.3 --lend-allow 1000 --lend-allow 0", SLUICE_LEND_SHARE,
         0.3, 1, 2},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "set %s", cases[i].flags);
        struct sluice_options o;
        struct sluice_loader_settings settings;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse_all(line, &o, &settings, &exit_code));
        CU_ASSERT_STRING_EQUAL(o.lend, "/run/gpu");
        CU_ASSERT_EQUAL(o.lend_when, cases[i].when);
        CU_ASSERT_EQUAL(o.lend_share, cases[i].share);
        CU_ASSERT_EQUAL(o.lend_at_most_s, cases[i].at_most_s);
        CU_ASSERT_EQUAL_FATAL(o.lend_allow.num_items, cases[i].num_uids);
        if (cases[i].num_uids == 2)
            CU_ASSERT(o.lend_uids[0] == 1000 && o.lend_uids[1] == 0);
        /* The program lends, not its loader. */
        for (size_t k = 0; k < settings.num_items; k++)
            CU_ASSERT_NOT_EQUAL(strncmp(settings.items[k].key, "lend", 4), 0);
    }
    char none[] = "set";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(none, &o, &exit_code));
    CU_ASSERT_PTR_NULL(o.lend);
}

TEST(a_run_of_several_ranks_lends_nothing)
{
    static const char *const envs[] = {"RANK=0 WORLD_SIZE=2", "SLURM_PROCID=0 SLURM_NTASKS=2", ""};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(envs); i++) {
        char line[64];
        snprintf(line, sizeof(line), "set --lend /run/gpu%s", envs[i][0] ? "" : " --gpus 2");
        struct sluice_options o;
        int exit_code = -1;
        set_env(envs[i], true);
        const bool is_read = parse(line, &o, &exit_code);
        set_env(envs[i], false);
        CU_ASSERT_FALSE(is_read);
        CU_ASSERT_EQUAL(exit_code, 2);
    }
}

TEST(a_launcher_says_rank_gpu_and_key)
{
    static const struct {
        const char *env, *flags;
        unsigned rank, world_size, gpu;
        const char *key, *gpu_device; /* NULL: none */
    } cases[] = {
        {"", "", 0, 1, 0, NULL, NULL},
        {"RANK=3 LOCAL_RANK=3 WORLD_SIZE=4 MASTER_PORT=29500", "", 3, 4, 3, "29500", "3"},
        {"RANK=3 LOCAL_RANK=3 WORLD_SIZE=4 MASTER_PORT=29500", "--gpu 1", 3, 4, 1, "29500", "1"},
        {"RANK=1 LOCAL_RANK=1 WORLD_SIZE=2", "--gpu-device 5", 1, 2, 1, NULL, "5"},
        {"SLURM_PROCID=1 SLURM_NTASKS=2 SLUICE_RENDEZVOUS=k MASTER_PORT=1", "", 1, 2, 0, "k", NULL},
        {"RANK=1 LOCAL_RANK=1 WORLD_SIZE=2", "--device cpu", 1, 2, 0, NULL, NULL},
        {"MASTER_PORT=5", "--rank 1 --world-size 3", 1, 3, 0, "5", NULL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "set %s", cases[i].flags);
        struct sluice_options o;
        struct sluice_loader_settings settings;
        int exit_code = -1;
        set_env(cases[i].env, true);
        const bool is_read = parse_all(line, &o, &settings, &exit_code);
        set_env(cases[i].env, false);
        CU_ASSERT_TRUE_FATAL(is_read);
        CU_ASSERT_TRUE(o.rank == cases[i].rank && o.world_size == cases[i].world_size);
        CU_ASSERT_EQUAL(o.gpu, cases[i].gpu);
        CU_ASSERT_FALSE(o.is_launched);
        CU_ASSERT_EQUAL(o.rendezvous == NULL, cases[i].key == NULL);
        if (o.rendezvous && cases[i].key)
            CU_ASSERT_STRING_EQUAL(o.rendezvous, cases[i].key);
        const char *found = NULL;
        for (size_t k = 0; k < settings.num_items; k++) {
            if (strcmp(settings.items[k].key, "gpu-device") == 0)
                found = settings.items[k].value;
        }
        CU_ASSERT_EQUAL(found == NULL, cases[i].gpu_device == NULL);
        if (found && cases[i].gpu_device)
            CU_ASSERT_STRING_EQUAL(found, cases[i].gpu_device);
    }
}

TEST(ranks_of_gpus_share_the_cpus)
{
    char env[128];
    snprintf(env, sizeof(env), "SLUICE_LAUNCHER=%ld RANK=1 WORLD_SIZE=1000", (long)getppid());
    static const struct {
        const char *flags;
        uint64_t workers;
    } cases[] = {{"--gpus 1000", 1}, {"--gpus 1000 -j 7", 7}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[128];
        snprintf(line, sizeof(line), "set %s", cases[i].flags);
        struct sluice_options o;
        struct sluice_loader_settings settings;
        int exit_code = -1;
        set_env(env, true);
        const bool is_read = parse_all(line, &o, &settings, &exit_code);
        set_env(env, false);
        CU_ASSERT_TRUE_FATAL(is_read);
        CU_ASSERT_TRUE(o.is_launched && o.rank == 1 && o.gpus == 1000);
        CU_ASSERT_EQUAL(o.workers, cases[i].workers);
        unsigned num_found = 0;
        for (size_t k = 0; k < settings.num_items; k++) {
            if (strcmp(settings.items[k].key, "workers") != 0)
                continue;
            num_found++;
            CU_ASSERT_EQUAL(strtoull(settings.items[k].value, NULL, 10), cases[i].workers);
        }
        CU_ASSERT_EQUAL(num_found, 1);
    }
}

TEST(options_of_a_gpu_are_for_a_trainer_that_may_have_one)
{
    static const char *const lines[] = {
        "set --device cuda --precision tf32 --deterministic --gpu 1 --engine-cache e",
        "set --precision tf32 --deterministic --gpu 1 --engine-cache e",
        "set --device cpu --precision fp32 --deterministic",
        "set --device none --precision bf16",
        "set --device cpu --no-tf32 --precision fp32",
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(lines); i++) {
        struct sluice_options o;
        int exit_code = -1;
        char line[128];
        snprintf(line, sizeof(line), "%s", lines[i]);
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        if (i > 1)
            continue;
        CU_ASSERT_STRING_EQUAL(o.precision, "tf32");
        CU_ASSERT_STRING_EQUAL(o.engine_cache, "e");
        CU_ASSERT_TRUE(o.is_deterministic && o.gpu == 1);
    }
}

TEST(the_originals_flags_keep_their_names)
{
    char line[] = "set -a alexnet -b 32 -j 3 --epochs 7 --lr 0.5 --momentum 0.8 --wd 0.01 -p 5 "
                  "--dataset-mode=local";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT_EQUAL(o.dirs.num, 1);
    CU_ASSERT_STRING_EQUAL(o.dirs.at[0].place, "set");
    CU_ASSERT_STRING_EQUAL(o.arch, "alexnet");
    CU_ASSERT_EQUAL(o.batch_size, 32);
    CU_ASSERT_EQUAL(o.workers, 3);
    CU_ASSERT_EQUAL(o.epochs, 7);
    CU_ASSERT_EQUAL(o.lr, 0.5);
    CU_ASSERT_EQUAL(o.momentum, 0.8);
    CU_ASSERT_EQUAL(o.weight_decay, 0.01);
    CU_ASSERT_TRUE(o.has_print_freq);
    CU_ASSERT_EQUAL(o.print_freq, 5);
    CU_ASSERT_EQUAL(o.mode, SLUICE_MODE_LOCAL);
    CU_ASSERT_EQUAL(sluice_options_on_error(&o), SLUICE_ON_ERROR_SKIP);
    CU_ASSERT_TRUE(o.has_digest && o.has_val && !o.precision && !o.is_json);
    CU_ASSERT_TRUE(o.has_replan && !o.is_greedy);

    char more[] = "--dataset-mode remote_smartoff --host h:1 --remote-cpus 4 --net-bw 500 "
                  "--profile-folder p --no-digest --no-val --no-tf32 --json --on-error substitute "
                  "--no-replan --planner greedy";
    CU_ASSERT_TRUE_FATAL(parse(more, &o, &exit_code));
    CU_ASSERT_FALSE(o.has_print_freq); /* progress goes by time */
    CU_ASSERT_EQUAL(o.mode, SLUICE_MODE_SOPHON);
    CU_ASSERT_EQUAL(o.remote_cpus, 4);
    CU_ASSERT_DOUBLE_EQUAL(o.net_bw, 62.5e6, 1);
    CU_ASSERT_EQUAL(sluice_options_on_error(&o), SLUICE_ON_ERROR_SUBSTITUTE);
    CU_ASSERT_TRUE(!o.has_digest && !o.has_val && o.is_json);
    CU_ASSERT_PTR_NOT_NULL_FATAL(o.precision);
    CU_ASSERT_STRING_EQUAL(o.precision, "fp32");
    CU_ASSERT_TRUE(!o.has_replan && o.is_greedy);
}

TEST(a_mode_keeps_the_name_that_was_typed)
{
    static const struct {
        const char *flags, *name;
        enum sluice_mode mode;
    } cases[] = {
        {"--dataset-mode auto", "auto", SLUICE_MODE_AUTO},
        {"--dataset-mode remote_auto", "remote_auto", SLUICE_MODE_AUTO},
        {"--dataset-mode resize-off", "resize-off", SLUICE_MODE_PILOFF},
        {"--dataset-mode remote_smartoff --profile-folder p", "remote_smartoff",
         SLUICE_MODE_SOPHON},
        {"set", "local", SLUICE_MODE_LOCAL},
        /* What runs is another mode. */
        {"--dataset-mode auto --profiling --write-profile-folder p", "remote_nooff",
         SLUICE_MODE_NOOFF},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[100];
        snprintf(line, sizeof(line), "%s", cases[i].flags);
        struct sluice_options o;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_EQUAL(o.mode, cases[i].mode);
        CU_ASSERT_STRING_EQUAL(o.mode_name, cases[i].name);
    }
    static const char *const greedy[] = {"greedy", "sophon", "remote_sophon"};
    static const char *const lp[] = {"lp", "auto", "remote_auto"};
    for (int i = 0; i < 3; i++) {
        char line[100];
        struct sluice_options o;
        int exit_code = -1;
        snprintf(line, sizeof(line), "--profile-folder p --planner %s", greedy[i]);
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_TRUE(o.is_greedy);
        snprintf(line, sizeof(line), "--planner %s", lp[i]);
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_FALSE(o.is_greedy);
    }
}

TEST(sizes_rates_and_times_take_units)
{
    char line[] = "--prefetch-bytes 1.5GiB --net-bw 1Gbps --pcie-bw 62.5MB/s --retry-for 2m "
                  "--sample-timeout 500ms";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT_EQUAL(o.prefetch_bytes, 3ull << 29);
    CU_ASSERT_EQUAL(o.net_bw, 125e6);
    CU_ASSERT_EQUAL(o.pcie_bw, 62.5e6);
    CU_ASSERT_EQUAL(o.retry_for_s, 120);
    CU_ASSERT_EQUAL(o.sample_timeout_s, 0.5);
}

TEST(errors_may_be_a_number_or_a_share)
{
    static const struct {
        const char *text;
        uint64_t samples, most;
    } cases[] = {
        {"0", 1000, 0}, {"7", 1000, 7}, {"1%", 1000, 10},  {"1%", 40, 1},        {"1%", 1001, 11},
        {"7%", 100, 7}, {"0%", 40, 0},  {"0.1%", 5000, 5}, {"100%", 1000, 1000}, {"2.5%", 40, 1},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[100];
        snprintf(line, sizeof(line), "--max-errors %s", cases[i].text);
        struct sluice_options o;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_EQUAL(sluice_options_max_errors(&o, cases[i].samples), cases[i].most);
    }
    char line[] = "--dataset-mode remote_nooff";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT_EQUAL(sluice_options_max_errors(&o, 1281167), 12812); /* the default: 1 % */
}

TEST(checkpoints_come_after_batches_or_time)
{
    static const struct {
        const char *text;
        uint64_t batches;
        double seconds;
    } cases[] = {
        {"1000", 1000, 0}, {"300s", 0, 300}, {"5m", 0, 300}, {"1.5h", 0, 5400}, {"0.5s", 0, 0.5},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        char line[100];
        snprintf(line, sizeof(line), "--checkpoint f --checkpoint-every %s", cases[i].text);
        struct sluice_options o;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_EQUAL(o.checkpoint_batches, cases[i].batches);
        CU_ASSERT_EQUAL(o.checkpoint_s, cases[i].seconds);
    }
}

TEST(a_host_without_a_port_gets_the_default)
{
    static const struct {
        const char *host, *target;
    } cases[] = {
        {"node", "node:50051"}, {"node:7", "node:7"},  {"[::1]", "[::1]:50051"},
        {"[::1]:7", "[::1]:7"}, {":7", "127.0.0.1:7"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char line[100];
        snprintf(line, sizeof(line), "--dataset-mode remote_nooff --host %s", cases[i].host);
        struct sluice_options o;
        int exit_code = -1;
        CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
        CU_ASSERT_STRING_EQUAL(o.target, cases[i].target);
    }
}

static struct sluice_options options_of(const char *flags)
{
    char line[200];
    snprintf(line, sizeof(line), "%s", flags);
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    return o;
}

TEST(a_schedule_has_timms_defaults)
{
    const struct sluice_options plain = options_of("set");
    CU_ASSERT_STRING_EQUAL(plain.lr_schedule, "step");
    CU_ASSERT(plain.lr_step == 30 && plain.lr_gamma == 0.1);
    CU_ASSERT(plain.warmup_epochs == 0 && plain.warmup_lr == 1e-5 && plain.min_lr == 0);
    const struct sluice_options all = options_of(
        "set --epochs 9 --lr-schedule cosine --min-lr 0.001 --warmup-epochs 9 --warmup-lr 0.002");
    CU_ASSERT_STRING_EQUAL(all.lr_schedule, "cosine");
    CU_ASSERT(all.warmup_epochs == 9 && all.warmup_lr == 0.002 && all.min_lr == 0.001);
    const struct sluice_options step = options_of("set --lr-step-epochs 7 --lr-gamma 0.5");
    CU_ASSERT(step.lr_step == 7 && step.lr_gamma == 0.5);
}

TEST(a_host_may_be_many)
{
    char line[] = "--host a1,a2 --host dns:b:7 --hedge";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT_STRING_EQUAL(o.target, "a1:50051 and 2 more");
    CU_ASSERT_EQUAL_FATAL(o.hosts.num_items, 2);
    CU_ASSERT_STRING_EQUAL(o.hosts.items[0], "a1,a2");
    CU_ASSERT_STRING_EQUAL(o.hosts.items[1], "dns:b:7");
    CU_ASSERT(o.hedges);
}

TEST(a_dir_without_a_host_is_local)
{
    CU_ASSERT_EQUAL(options_of("set").mode, SLUICE_MODE_LOCAL);
    CU_ASSERT_TRUE(options_of("set").is_mode_derived);
    CU_ASSERT_EQUAL(options_of("set --profiling --write-profile-folder p").mode, SLUICE_MODE_LOCAL);
    CU_ASSERT_EQUAL(options_of("set --host h").mode, SLUICE_MODE_AUTO);
    CU_ASSERT_EQUAL(options_of("set --dataset-mode remote_nooff").mode, SLUICE_MODE_NOOFF);
    CU_ASSERT_EQUAL(options_of("--host h").mode, SLUICE_MODE_AUTO);
    CU_ASSERT_EQUAL(options_of("--lr 1").mode, SLUICE_MODE_AUTO);
    CU_ASSERT_STRING_EQUAL(options_of("--lr 1").target, "127.0.0.1:50051");
    CU_ASSERT_FALSE(options_of("set --dataset-mode local").is_mode_derived);
    CU_ASSERT_FALSE(options_of("--lr 1").has_host);
}

TEST(the_learning_rate_is_the_models_unless_it_is_given)
{
    CU_ASSERT_EQUAL(options_of("-a alexnet").lr, 0.01);
    CU_ASSERT_EQUAL(options_of("-a vgg16").lr, 0.01);
    CU_ASSERT_EQUAL(options_of("-a resnet152").lr, 0.1);
    CU_ASSERT_EQUAL(options_of("-a alexnet --lr 0.1").lr, 0.1);
    CU_ASSERT_EQUAL(options_of("-a resnet18").lr, 0.1);
    CU_ASSERT_EQUAL(options_of("-a small_cnn").lr, 0.1);
    CU_ASSERT_EQUAL(options_of("").lr, 0.1);
    CU_ASSERT_EQUAL(options_of("--lr 0").lr, 0);
}

TEST(the_size_may_be_said_twice_if_it_is_one)
{
    CU_ASSERT_EQUAL(options_of("--image-size 96").image_size, 96);
    CU_ASSERT_EQUAL(
        options_of("--image-size 96 --pipeline decode,random_resized_crop=96").image_size, 96);
}

static enum sluice_form form_of(const char *flags)
{
    char line[200];
    snprintf(line, sizeof(line), "--host h %s", flags);
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    return o.remote_form;
}

TEST(only_remote_auto_asks_for_crops_by_itself)
{
    CU_ASSERT_EQUAL(form_of(""), SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_auto --profile-folder p"),
                    SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_auto --profile-folder p --remote-form raw"),
                    SLUICE_FORM_RAW);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_sophon --profile-folder p"), SLUICE_FORM_RAW);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_nooff"), SLUICE_FORM_RAW);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_nooff --remote-form jpeg_crop"),
                    SLUICE_FORM_JPEG_CROP);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_nooff --remote-form jpeg_rows"),
                    SLUICE_FORM_JPEG_ROWS);
    CU_ASSERT_EQUAL(form_of("--dataset-mode remote_piloff --remote-form u8_packed"),
                    SLUICE_FORM_U8_PACKED);
    CU_ASSERT_EQUAL(form_of("--profiling --write-profile-folder p --remote-form u8_packed"),
                    SLUICE_FORM_RAW);
    CU_ASSERT_EQUAL(form_of("--profiling --write-profile-folder p --remote-form jpeg_crop"),
                    SLUICE_FORM_RAW);
}

TEST(profiling_is_without_offload)
{
    char line[] = "--profiling --write-profile-folder p";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT_EQUAL(o.mode, SLUICE_MODE_NOOFF);
}

/* Every usage error is exit 2; that its line names the flag is for tests/cli to see. */
TEST(tls_and_a_token_are_of_files)
{
    char line[] = "--host h --tls --ca a --cert b --key c --server-name d --token-file e";
    char plain[] = "--host h --token-file e";
    struct sluice_options o;
    int exit_code = -1;
    CU_ASSERT_TRUE_FATAL(parse(line, &o, &exit_code));
    CU_ASSERT(o.has_tls);
    CU_ASSERT_STRING_EQUAL(o.ca, "a");
    CU_ASSERT_STRING_EQUAL(o.cert, "b");
    CU_ASSERT_STRING_EQUAL(o.key, "c");
    CU_ASSERT_STRING_EQUAL(o.server_name, "d");
    CU_ASSERT_STRING_EQUAL(o.token_file, "e");
    CU_ASSERT_TRUE_FATAL(parse(plain, &o, &exit_code));
    CU_ASSERT_FALSE(o.has_tls);
    CU_ASSERT_PTR_NULL(o.ca);
}

TEST(batch_ops_are_the_recipes_and_then_the_flags)
{
    char path[] = "/tmp/sluice-options-XXXXXX";
    FILE *out = fdopen(mkstemp(path), "we");
    CU_ASSERT_PTR_NOT_NULL_FATAL(out);
    fputs("{\"train\": [\"decode\", \"center_crop=8\", \"to_tensor\"], "
          "\"mix\": {\"mixup\": 0.5, \"cutmix\": 0.25}, \"erasing\": {\"fill\": \"pixel\"}}",
          out);
    fclose(out);
    char flags[160];
    snprintf(flags, sizeof(flags), "--pipeline @%s --mixup 0.75 --label-smoothing 0.125", path);
    const struct sluice_batch_ops ops = options_of(flags).batch_ops;
    CU_ASSERT(ops.mix.mixup_alpha == 0.75 && ops.mix.cutmix_alpha == 0.25);
    CU_ASSERT(ops.label_smoothing == 0.125 && ops.erasing.p == 0.5);
    CU_ASSERT(ops.fill == SLUICE_FILL_PIXEL);
    snprintf(flags, sizeof(flags), "--pipeline @%s --mixup 0 --cutmix 0 --erasing 0", path);
    struct sluice_batch_ops none = options_of(flags).batch_ops;
    CU_ASSERT(!sluice_has_batch_ops(&none));
    none = options_of("--epochs 1").batch_ops;
    CU_ASSERT(!sluice_has_batch_ops(&none) && none.mix.p == 1);
    unlink(path);
}

TEST(what_does_not_fit_is_a_usage_error)
{
    static const char *const lines[] = {
        "--dataset-mode local",
        "--dataset-mode remote_sophon",
        "--planner greedy",
        "--planner other",
        "--profiling",
        "--write-profile-folder p --dataset-mode remote_nooff",
        "--profiling --write-profile-folder p --repeat 2",
        "--profiling --write-profile-folder p --evaluate",
        "--dataset-mode remote_nooff --host :",
        "--dataset-mode remote_nooff --host h:",
        "--metrics 99999",
        "--metrics h",
        "--host h:99999",
        "--host h:0",
        "--host h:-1",
        "--host ::1",
        "--host http://h:1",
        "--host h,",
        "--host h --host h",
        "--host dns:",
        "--host h --hedge",
        "--dataset-mode nowhere",
        "--planner remote_nooff",
        "--pipeline decode,hflp",
        "--image-size 64 --pipeline decode,random_resized_crop=96",
        "--image-size 64 --pipeline decode,random_resized_crop=64x96",
        "--mixup -1",
        "--cutmix 1001",
        "--label-smoothing 1",
        "--erasing 1.5",
        "--max-errors many",
        "--max-errors -1",
        "--max-errors 101%",
        "--max-errors %",
        "set --device cpu --precision bf16",
        "set --precision tf32 --no-tf32",
        "set --precision fp16",
        "set --device cpu --gpu 0",
        "set --device none --engine-cache e",
        "set --lr-schedule cosine --lr-step 5",
        "set --lr-schedule constant --lr-gamma 0.5",
        "set --min-lr 0.1",
        "set --lr-schedule cosine --lr 0.1 --min-lr 0.2",
        "set --warmup-lr 0.1",
        "set --epochs 3 --warmup-epochs 4",
        "set --lr-schedule poly",
        "--checkpoint-every 5",
        "--checkpoint f --checkpoint-every 0",
        "--checkpoint f --checkpoint-every 5x",
        "--checkpoint f --checkpoint-every 0s",
        "--checkpoint f --checkpoint-every s",
        "--dataset-mode remote_nooff --start-epoch 3 --epochs 3",
        "--dataset-mode remote_nooff --resume f --start-epoch 0",
        "--dataset-mode remote_nooff -b 0",
        "a b --dataset-mode local",
        "--ca f",
        "--cert f --key f",
        "--server-name n",
        "--tls --cert f",
        "--tls --key f",
        "--tls --ca=",
        "--token-file=",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        char line[200];
        snprintf(line, sizeof(line), "%s", lines[i]);
        struct sluice_options o;
        int exit_code = -1;
        CU_ASSERT_FALSE(parse(line, &o, &exit_code));
        CU_ASSERT_EQUAL(exit_code, 2);
    }
}
