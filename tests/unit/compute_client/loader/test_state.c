#include "compute_client/loader/order/state.h"

#include "base/noted_alloc.h"
#include "base/rng.h"
#include "support/test.h"

#include <jansson.h>

#include <inttypes.h>

/* malloc() fails once, after so many more; < 0: never. */
static int fails_after = -1;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
    return fails_after >= 0 && fails_after-- == 0 ? NULL : __real_malloc(size);
}

static const struct sluice_state example = {
    .seed = 7,
    .epoch = 2,
    .cursor = 1024,
    .global_batch = 512,
    .repeat = 1,
    .copies = 1,
    .num_samples = 50000,
    .part = SLUICE_TRAIN,
    .dataset_id = "0123456789abcdef0123456789abcdef",
    .pipeline = 0x00c0ffee00c0ffee,
    .errors[SLUICE_E_NOT_FOUND] = 1,
    .has_order = true,
    .order_hash = 0x0011223344556677,
};

#define EXAMPLE_TEXT                                                                               \
    "{\"sluice\":1,\"part\":\"train\",\"epoch\":2,\"cursor\":1024,\"global_batch\":512,"           \
    "\"repeat\":1,\"samples\":50000,\"dataset\":\"0123456789abcdef0123456789abcdef\","             \
    "\"pipeline\":\"00c0ffee00c0ffee\",\"seed\":\"7\",\"order\":\"0011223344556677\","             \
    "\"errors\":{\"not found\":1}}"

/* As offload_train's run_checkpoint.c wrote it. */
#define OLD_TEXT                                                                                   \
    "{\"epoch\":3,\"batch\":15,\"arch\":\"resnet50\",\"batch_size\":64,\"repeat\":2,"              \
    "\"samples\":1000,\"dataset\":\"0123456789abcdef0123456789abcdef\","                           \
    "\"pipeline\":\"fedcba9876543210\",\"seed\":\"18446744073709551615\","                         \
    "\"errors\":{\"corrupt\":3,\"i/o\":1}}"

static void check_same(const struct sluice_state *a, const struct sluice_state *b)
{
    CU_ASSERT_EQUAL(a->seed, b->seed);
    CU_ASSERT_EQUAL(a->epoch, b->epoch);
    CU_ASSERT_EQUAL(a->cursor, b->cursor);
    CU_ASSERT_EQUAL(a->global_batch, b->global_batch);
    CU_ASSERT_EQUAL(a->repeat, b->repeat);
    CU_ASSERT_EQUAL(a->copies, b->copies);
    CU_ASSERT_EQUAL(a->num_samples, b->num_samples);
    CU_ASSERT_STRING_EQUAL(a->mix, b->mix);
    CU_ASSERT_EQUAL(a->num_items, b->num_items);
    CU_ASSERT_EQUAL(a->num_mixed, b->num_mixed);
    CU_ASSERT_EQUAL(a->num_buckets, b->num_buckets);
    CU_ASSERT_EQUAL(a->batch, b->batch);
    CU_ASSERT_EQUAL(a->part, b->part);
    CU_ASSERT_STRING_EQUAL(a->dataset_id, b->dataset_id);
    CU_ASSERT_EQUAL(a->pipeline, b->pipeline);
    CU_ASSERT_EQUAL(memcmp(a->errors, b->errors, sizeof(a->errors)), 0);
    CU_ASSERT_EQUAL(a->has_order, b->has_order);
    CU_ASSERT_EQUAL(a->order_hash, b->order_hash);
}

TEST(writes_the_text_of_its_header)
{
    char text[SLUICE_MAX_STATE];
    sluice_state_write(&example, text);
    CU_ASSERT_STRING_EQUAL(text, EXAMPLE_TEXT);
}

TEST(reads_what_it_wrote)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 0, 0, 0);
    for (int i = 0; i < 2000; i++) {
        struct sluice_state state = {
            .seed = (uint64_t)sluice_rng_below(&rng, UINT32_MAX) << 32 | (uint64_t)i,
            .epoch = sluice_rng_below(&rng, UINT32_MAX),
            .global_batch = 1 + sluice_rng_below(&rng, 2000),
            .repeat = 1 + sluice_rng_below(&rng, 50),
            .copies = i % 7 ? 1 : 1 + sluice_rng_below(&rng, 4),
            .num_samples = 1 + sluice_rng_below(&rng, 1u << 20),
            .part = sluice_rng_below(&rng, 2),
            .pipeline = (uint64_t)sluice_rng_below(&rng, UINT32_MAX) << 32 | (uint64_t)i,
            .has_order = sluice_rng_below(&rng, 2),
        };
        if (i % 4 == 0) {
            snprintf(state.mix, sizeof(state.mix), "a=0.%u,b-c=2", 1 + i % 9);
            state.num_items = 1 + sluice_rng_below(&rng, 1u << 20);
        }
        if (i % 3 == 0)
            state.num_mixed = 1 + sluice_rng_below(&rng, UINT32_MAX - 1);
        if (i % 11 == 0) {
            state.num_buckets = 1 + sluice_rng_below(&rng, 64);
            state.batch = sluice_rng_below(&rng, UINT32_MAX);
            state.has_order = false;
        }
        const uint64_t total = state.mix[0] ? state.num_items : state.num_samples * state.repeat;
        state.cursor = sluice_rng_below(&rng, (uint32_t)total) / state.global_batch;
        state.cursor *= state.global_batch;
        if (i % 5 == 0)
            state.cursor = total;
        if (state.num_buckets > 0) /* batches are not all full */
            state.cursor = sluice_rng_below(&rng, (uint32_t)total + 1);
        if (state.has_order)
            state.order_hash = UINT64_MAX - (uint64_t)i;
        if (i % 3)
            snprintf(state.dataset_id, sizeof(state.dataset_id), "%016" PRIx64 "%016x",
                     state.pipeline, i);
        for (size_t k = 0; k < SLUICE_NUM_STATUS; k++)
            state.errors[k] = sluice_rng_below(&rng, 2) ? INT64_MAX - k : 0;
        char text[SLUICE_MAX_STATE];
        sluice_state_write(&state, text);
        struct sluice_state again;
        memset(&again, 0xee, sizeof(again));
        struct sluice_err err = {0};
        CHECK_OK(sluice_state_read(text, &again, &err));
        CU_ASSERT_STRING_EQUAL(err.text, "");
        check_same(&state, &again);
    }
}

TEST(buckets_have_a_version_of_their_own)
{
    struct sluice_state state = example, again = {0};
    struct sluice_err err = {0};
    char text[SLUICE_MAX_STATE];
    state.has_order = false;
    state.num_buckets = 17;
    state.batch = 5;
    state.cursor = 1025;
    sluice_state_write(&state, text);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, "{\"sluice\":4,"));
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ",\"buckets\":17,\"batch\":5,"));
    CHECK_OK(sluice_state_read(text, &again, NULL));
    CU_ASSERT(again.num_buckets == 17 && again.batch == 5 && again.cursor == 1025);
    CHECK_OK(sluice_state_check(&again, &state, 1, NULL));
    state.num_buckets = 16;
    CU_ASSERT_EQUAL(sluice_state_check(&again, &state, 1, &err), SLUICE_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, "of 17 aspect buckets, and the pipeline has 16"));
    static const char *const bad[] = {"\"buckets\":0,", "\"buckets\":65,", "\"bucket\":17,",
                                      "\"buckets\":17,\"order\":\"0011223344556677\","};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(bad); i++) {
        char other[SLUICE_MAX_STATE + 64];
        const char *at = strstr(text, "\"buckets\":17,");
        snprintf(other, sizeof(other), "%.*s%s%s", (int)(at - text), text, bad[i], at + 13);
        CU_ASSERT_EQUAL(sluice_state_read(other, &again, NULL), SLUICE_E_CORRUPT);
    }
}

TEST(fits_whatever_the_numbers_are)
{
    struct sluice_state state;
    memset(&state, 0xff, sizeof(state));
    memset(state.dataset_id, 'f', sizeof(state.dataset_id) - 1);
    state.dataset_id[sizeof(state.dataset_id) - 1] = '\0';
    memset(state.mix, 'm', sizeof(state.mix) - 1);
    state.mix[sizeof(state.mix) - 1] = '\0';
    state.has_order = true;
    char text[SLUICE_MAX_STATE + 1];
    memset(text, '#', sizeof(text));
    sluice_state_write(&state, text);
    CU_ASSERT_EQUAL(text[SLUICE_MAX_STATE], '#');
    const size_t len = strlen(text);
    CU_ASSERT_TRUE(len < SLUICE_MAX_STATE);
    CU_ASSERT_STRING_EQUAL(text + len - 2, "}}");
}

TEST(shards_are_version_2)
{
    struct sluice_state state = example;
    state.num_mixed = 8;
    char text[SLUICE_MAX_STATE];
    sluice_state_write(&state, text);
    CU_ASSERT_EQUAL(strncmp(text, "{\"sluice\":2,", 12), 0);
    char *at = strstr(text, ",\"shards\":8,");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    at[strlen(",\"shards\":")] = '0';
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_state_read(text, &state, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "the state's \"shards\" is 0, not 1 to 4294967295");
}

/* A reader of version 1 refuses it, and so does this one what is no mix. */
TEST(a_mix_is_version_2)
{
    struct sluice_state state = example;
    state.has_order = false;
    state.order_hash = 0;
    snprintf(state.mix, sizeof(state.mix), "a=0.5,b=2");
    state.num_items = 40000;
    char text[SLUICE_MAX_STATE], other[SLUICE_MAX_STATE];
    sluice_state_write(&state, text);
    CU_ASSERT_EQUAL(strncmp(text, "{\"sluice\":2,", 12), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, ",\"mix\":\"a=0.5,b=2\",\"items\":40000,"));
    struct sluice_state again;
    CHECK_OK(sluice_state_read(text, &again, NULL));
    check_same(&state, &again);
    static const char *const no_mixes[] = {"b=2,a=0.5", "a=0.50,b=2", "a=1,b=2",
                                           "aaaaaaaaa", ",,,,,,,,,",  "a=0.5,b=-"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(no_mixes); i++) {
        struct sluice_err err = {0};
        const char *at = strstr(text, "a=0.5,b=2");
        snprintf(other, sizeof(other), "%.*s%s%s", (int)(at - text), text, no_mixes[i], at + 9);
        CU_ASSERT_EQUAL(sluice_state_read(other, &again, &err), SLUICE_E_CORRUPT);
        CU_ASSERT_STRING_EQUAL(err.text, "the state's \"mix\" is no mix of roots");
    }
    check_same(&state, &again);
}

TEST(reads_a_checkpoint_of_offload_train_without_sluice)
{
    struct sluice_state state = {0};
    const struct sluice_state expected = {
        .seed = UINT64_MAX,
        .epoch = 3,
        .cursor = 15 * 64,
        .global_batch = 64,
        .repeat = 2,
        .copies = 1,
        .num_samples = 1000,
        .dataset_id = "0123456789abcdef0123456789abcdef",
        .pipeline = 0xfedcba9876543210,
        .errors[SLUICE_E_CORRUPT] = 3,
        .errors[SLUICE_E_IO] = 1,
    };
    CHECK_OK(sluice_state_read(OLD_TEXT, &state, NULL));
    check_same(&state, &expected);
}

/* EXAMPLE_TEXT or OLD_TEXT with one part replaced; it is replaced in turn. */
static const char *with(const char *text, const char *what, const char *by)
{
    static char out[2048];
    const char *at = strstr(text, what);
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(out, sizeof(out), "%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
    return out;
}

TEST(a_short_last_batch_of_a_checkpoint_is_the_end)
{
    struct sluice_state state = {0};
    /* 2000 = 31 x 64 + 16 */
    const char *text = with(OLD_TEXT, "\"batch\":15", "\"batch\":32");
    CHECK_OK(sluice_state_read(text, &state, NULL));
    CU_ASSERT_EQUAL(state.cursor, 2000);
    text = with(OLD_TEXT, "\"batch\":15", "\"batch\":33");
    CU_ASSERT_EQUAL(sluice_state_read(text, &state, NULL), SLUICE_E_CORRUPT);
}

TEST(ignores_members_that_are_unknown)
{
    struct sluice_state state = {0};
    const char *text = with(EXAMPLE_TEXT, "\"not found\":1",
                            "\"not found\":1,\"sunk\":-1},\"batch\":-7,\"x\":{\"y\":[null]");
    CHECK_OK(sluice_state_read(text, &state, NULL));
    check_same(&state, &example);
}

TEST(errors_and_the_order_may_be_missing)
{
    struct sluice_state state = {0};
    const char *text = with(EXAMPLE_TEXT, ",\"errors\":{\"not found\":1}", "");
    CHECK_OK(sluice_state_read(text, &state, NULL));
    CU_ASSERT_EQUAL(state.errors[SLUICE_E_NOT_FOUND], 0);
    text = with(EXAMPLE_TEXT, ",\"order\":\"0011223344556677\"", "");
    CHECK_OK(sluice_state_read(text, &state, NULL));
    CU_ASSERT_FALSE(state.has_order);
}

/* An external order may have more items than the part, and end within a batch. */
TEST(the_cursor_of_an_external_order_is_bounded_by_32_bits_alone)
{
    struct sluice_state state = {0};
    const char *text = with(EXAMPLE_TEXT, "\"cursor\":1024", "\"cursor\":4294967295");
    CHECK_OK(sluice_state_read(text, &state, NULL));
    CU_ASSERT_EQUAL(state.cursor, UINT32_MAX);
}

/* Unlike any that is read here. */
static const struct sluice_state untouched = {
    .seed = 101,
    .epoch = 102,
    .cursor = 103,
    .global_batch = 104,
    .repeat = 105,
    .copies = 112,
    .num_samples = 106,
    .part = 107,
    .dataset_id = "nobody",
    .pipeline = 108,
    .errors = {1, 2, 3},
    .order_hash = 109,
};

static void check_refused(const char *text, sluice_status expected, const char *words)
{
    struct sluice_state state = untouched;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_state_read(text, &state, &err), expected);
    if (!strstr(err.text, words))
        fprintf(stderr, "'%s' does not say '%s'\n", err.text, words);
    CU_ASSERT_PTR_NOT_NULL(strstr(err.text, words));
    check_same(&state, &untouched);
}

TEST(names_the_member_that_is_wrong)
{
    const struct {
        const char *text, *what, *by, *words;
    } cases[] = {
        {EXAMPLE_TEXT, "\"epoch\":2,", "", "\"epoch\" is missing"},
        {EXAMPLE_TEXT, "\"epoch\":2", "\"epoch\":-2", "\"epoch\" is -2"},
        {EXAMPLE_TEXT, "\"epoch\":2", "\"epoch\":2.0", "\"epoch\" is no whole number"},
        {EXAMPLE_TEXT, "\"epoch\":2", "\"epoch\":4294967296", "\"epoch\" is 4294967296"},
        {EXAMPLE_TEXT, "\"cursor\":1024,", "", "\"cursor\" is missing"},
        {EXAMPLE_TEXT, "1024", "-512", "\"cursor\" is -512"},
        {EXAMPLE_TEXT, "1024", "\"1024\"", "\"cursor\" is no whole number"},
        {EXAMPLE_TEXT, "1024", "4294967296", "\"cursor\" is 4294967296"},
        {EXAMPLE_TEXT, "\"global_batch\":512,", "", "\"global_batch\" is missing"},
        {EXAMPLE_TEXT, ":512", ":0", "\"global_batch\" is 0, not 1 to"},
        {EXAMPLE_TEXT, ":512", ":4294967296", "\"global_batch\" is 4294967296"},
        {EXAMPLE_TEXT, "\"repeat\":1,", "", "\"repeat\" is missing"},
        {EXAMPLE_TEXT, "\"repeat\":1", "\"repeat\":0", "\"repeat\" is 0, not 1 to"},
        {EXAMPLE_TEXT, "\"repeat\":1", "\"repeat\":null", "\"repeat\" is no whole number"},
        {EXAMPLE_TEXT, "\"samples\":50000,", "", "\"samples\" is missing"},
        {EXAMPLE_TEXT, "50000", "0", "\"samples\" is 0, not 1 to"},
        {EXAMPLE_TEXT, "50000", "4294967296", "\"samples\" is 4294967296"},
        {EXAMPLE_TEXT, "\"repeat\":1", "\"repeat\":100000", "\"samples\" is 50000, not 1 to 42949"},
        {EXAMPLE_TEXT, "\"part\":\"train\",", "", "\"part\" is missing"},
        {EXAMPLE_TEXT, "\"train\"", "\"test\"", "\"part\" is neither"},
        {EXAMPLE_TEXT, "\"train\"", "0", "\"part\" is no text"},
        {EXAMPLE_TEXT, "\"dataset\"", "\"data\"", "\"dataset\" is missing"},
        {EXAMPLE_TEXT, "\"0123", "\"123", "\"dataset\" is not 32 hex"},
        {EXAMPLE_TEXT, "\"0123", "\"00123", "\"dataset\" is not 32 hex"},
        {EXAMPLE_TEXT, "\"0123", "\"g123", "\"dataset\" is not 32 hex"},
        {EXAMPLE_TEXT, "\"0123456789abcdef0123456789abcdef\"", "7", "\"dataset\" is no text"},
        {EXAMPLE_TEXT, "\"pipeline\"", "\"line\"", "\"pipeline\" is missing"},
        {EXAMPLE_TEXT, "\"00c0ffee", "\"c0ffee", "\"pipeline\" is not 16 hex"},
        {EXAMPLE_TEXT, "\"00c0ffee", "\"-0c0ffee", "\"pipeline\" is not 16 hex"},
        {EXAMPLE_TEXT, "\"seed\"", "\"corn\"", "\"seed\" is missing"},
        {EXAMPLE_TEXT, "\"7\"", "7", "\"seed\" is no text"},
        {EXAMPLE_TEXT, "\"7\"", "\"-7\"", "\"seed\" is no whole number"},
        {EXAMPLE_TEXT, "\"7\"", "\"18446744073709551616\"", "\"seed\" is no whole number"},
        {EXAMPLE_TEXT, "\"0011223344556677\"", "null", "\"order\" is no text"},
        {EXAMPLE_TEXT, "\"0011", "\"xx11", "\"order\" is not 16 hex"},
        {EXAMPLE_TEXT, "{\"not found\":1}", "[]", "\"errors\" is no object"},
        {EXAMPLE_TEXT, "\"not found\":1", "\"not found\":-1", "\"not found\" is -1"},
        {EXAMPLE_TEXT, "\"not found\":1", "\"not found\":true", "\"not found\" is no whole number"},
        {EXAMPLE_TEXT, ",\"order\":\"0011223344556677\"", ",\"order\":1", "\"order\" is no text"},
        {EXAMPLE_TEXT, "\"sluice\":1", "\"sluice\":\"1\"", "\"sluice\" is no whole number"},
        {OLD_TEXT, "\"batch\":15", "\"batch\":-1", "\"batch\" is -1"},
        {OLD_TEXT, "\"batch\":15,", "", "\"batch\" is missing"},
        {OLD_TEXT, "\"batch\":15", "\"batch\":9223372036854775807", "\"batch\" is 922"},
        {OLD_TEXT, "\"batch_size\":64", "\"batch_size\":0", "\"batch_size\" is 0"},
        {OLD_TEXT, "\"batch_size\":64,", "", "\"batch_size\" is missing"},
        {OLD_TEXT, "\"batch_size\":64", "\"batch_size\":[64]", "\"batch_size\" is no whole number"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++)
        check_refused(with(cases[i].text, cases[i].what, cases[i].by), SLUICE_E_CORRUPT,
                      cases[i].words);
}

TEST(refuses_a_cursor_within_a_global_batch_or_beyond_the_epoch)
{
    char text[2048];
    snprintf(text, sizeof(text), "%s", with(EXAMPLE_TEXT, ",\"order\":\"0011223344556677\"", ""));
    check_refused(with(text, "1024", "1000"), SLUICE_E_CORRUPT,
                  "\"cursor\" is 1000, no multiple of its \"global_batch\", 512");
    check_refused(with(text, "1024", "50001"), SLUICE_E_CORRUPT, "\"cursor\" is 50001");
    struct sluice_state state;
    CHECK_OK(sluice_state_read(with(text, "1024", "50000"), &state, NULL));
}

TEST(refuses_another_version)
{
    check_refused(with(EXAMPLE_TEXT, "\"sluice\":1", "\"sluice\":5"), SLUICE_E_UNSUPPORTED,
                  "\"sluice\", its version, is 5, and this reads 1 to 4");
    check_refused(with(EXAMPLE_TEXT, "\"sluice\":1", "\"sluice\":3"), SLUICE_E_CORRUPT,
                  "\"copies\"");
    check_refused("{\"sluice\":0}", SLUICE_E_UNSUPPORTED, "is 0");
}

TEST(refuses_what_is_no_json_object)
{
    check_refused("", SLUICE_E_CORRUPT, "no JSON object");
    check_refused("[1]", SLUICE_E_CORRUPT, "no JSON object");
    check_refused("{\"epoch\":1,\"epoch\":2}", SLUICE_E_CORRUPT, "no JSON object: line 1");
    check_refused("{\"epoch\":99999999999999999999}", SLUICE_E_CORRUPT, "no JSON object: line 1");
    char text[2048];
    snprintf(text, sizeof(text), "%s", EXAMPLE_TEXT);
    for (size_t len = 0; len < sizeof(EXAMPLE_TEXT) - 1; len++) {
        text[len] = '\0';
        check_refused(text, SLUICE_E_CORRUPT, "no JSON object");
        text[len] = EXAMPLE_TEXT[len];
    }
}

TEST(refuses_a_text_of_more_than_64_kib)
{
    enum { MOST = 65536 };
    char *text = malloc(MOST + 2);
    CU_ASSERT_PTR_NOT_NULL_FATAL(text);
    memset(text, ' ', MOST + 1);
    memcpy(text, EXAMPLE_TEXT, strlen(EXAMPLE_TEXT));
    text[MOST + 1] = '\0';
    check_refused(text, SLUICE_E_UNSUPPORTED, "longer than 65536 bytes");
    text[MOST] = '\0';
    struct sluice_state state = {0};
    CHECK_OK(sluice_state_read(text, &state, NULL));
    check_same(&state, &example);
    free(text);
}

/* Every allocation fails once. */
TEST(says_when_memory_was_short)
{
    json_set_alloc_funcs(sluice_noted_malloc, free);
    struct sluice_state state = untouched;
    int num_failures = 0;
    for (int k = 0;; k++) {
        struct sluice_err err = {0};
        fails_after = k;
        const sluice_status status = sluice_state_read(EXAMPLE_TEXT, &state, &err);
        const bool has_failed = fails_after < 0;
        fails_after = -1;
        if (!has_failed) {
            CHECK_OK(status);
            break;
        }
        num_failures++;
        CU_ASSERT_EQUAL(status, SLUICE_E_NO_MEMORY);
        CU_ASSERT_STRING_EQUAL(err.text, "no memory to read the state");
        check_same(&state, &untouched);
    }
    CU_ASSERT_TRUE(num_failures > 10);
    check_same(&state, &example);
    json_set_alloc_funcs(malloc, free);
}

static void check_differs(const struct sluice_state *saved, const struct sluice_state *now,
                          uint32_t world_size, const char *expected)
{
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_state_check(saved, now, world_size, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, expected);
}

TEST(the_same_loader_goes_on)
{
    struct sluice_state now = example;
    CHECK_OK(sluice_state_check(&example, &now, 2, NULL));
    now.epoch = 0;
    now.cursor = 0;
    memset(now.errors, 0, sizeof(now.errors));
    CHECK_OK(sluice_state_check(&example, &now, 4, NULL));
}

#define ANEW ", or start anew without the state"

TEST(a_refusal_has_both_values_and_what_to_do)
{
    struct sluice_state now = example;
    now.seed = 4;
    check_differs(&example, &now, 1,
                  "the state is of seed 7, and this is seed 4: pass --seed 7" ANEW);
    now = example;
    now.dataset_id[0] = 'f';
    check_differs(&example, &now, 1,
                  "the dataset changed since the state was taken (id "
                  "0123456789abcdef0123456789abcdef then, f123456789abcdef0123456789abcdef now): "
                  "give the dataset of then" ANEW);
    now = example;
    now.num_samples = 900;
    check_differs(&example, &now, 1,
                  "the state is of 50000 train samples, and these are 900: pass the "
                  "--limit-samples of then" ANEW);
    now = example;
    now.pipeline = 1;
    check_differs(&example, &now, 1,
                  "the pipeline changed since the state was taken (fingerprint 00c0ffee00c0ffee "
                  "then, 0000000000000001 now): pass the --pipeline and --image-size of then" ANEW);
    now = example;
    now.repeat = 3;
    check_differs(&example, &now, 1,
                  "the state is of --repeat 1, and this is --repeat 3: pass --repeat 1" ANEW);
    now = example;
    now.copies = 4;
    check_differs(&example, &now, 1,
                  "the state is of --repeat-within-batch 1, and this is --repeat-within-batch 4: "
                  "pass --repeat-within-batch 1" ANEW);
    now = example;
    snprintf(now.mix, sizeof(now.mix), "a=0.5");
    check_differs(&example, &now, 1,
                  "the state is of no --mix, and this is --mix a=0.5: pass the --mix of then" ANEW);
    struct sluice_state mixed = now;
    snprintf(mixed.mix, sizeof(mixed.mix), "b=2");
    check_differs(
        &mixed, &now, 1,
        "the state is of --mix b=2, and this is --mix a=0.5: pass the --mix of then" ANEW);
    check_differs(&mixed, &example, 1,
                  "the state is of --mix b=2, and this is no --mix: pass the --mix of then" ANEW);
    now = example;
    now.num_mixed = 4;
    check_differs(&example, &now, 1,
                  "the state is of --shuffle-shards 0, and this is of --shuffle-shards 4: pass "
                  "--shuffle-shards 0" ANEW);
    now = example;
    now.order_hash = 5;
    check_differs(&example, &now, 1,
                  "the order that the caller gives changed since the state was taken (hash "
                  "0011223344556677 then, 0000000000000005 now): give the sampler the seed and "
                  "epoch of then" ANEW);
    now = example;
    now.has_order = false;
    check_differs(&example, &now, 1,
                  "the state is of an order that the caller gave (hash 0011223344556677), and this "
                  "is the loader's own shuffle: give that order" ANEW);
    check_differs(&now, &example, 1,
                  "the state is of the loader's own shuffle, and this is an order that the caller "
                  "gives (hash 0011223344556677): give none" ANEW);
}

TEST(the_pipeline_of_val_is_named_as_such)
{
    struct sluice_state saved = example, now;
    saved.part = SLUICE_VAL;
    now = saved;
    now.pipeline++;
    CHECK_FAILS(SLUICE_E_INVALID, "--val-pipeline and",
                sluice_state_check(&saved, &now, 1, sluice_test_err()));
}

TEST(another_global_batch_is_refused_in_mid_epoch)
{
    struct sluice_state saved = example, now = example;
    saved.has_order = now.has_order = false;
    now.global_batch = 510;
    check_differs(&saved, &now, 3,
                  "the state was taken with global batches of 512 samples, and this is 3 x 170 = "
                  "510: choose a world size and a batch size with which world size x batch size is "
                  "512 (a world size of 3 does not divide it: 1, 2, 4, 8, 16, 32, 64, 128 ... "
                  "do)" ANEW);
    check_differs(&saved, &now, 2,
                  "the state was taken with global batches of 512 samples, and this is 2 x 255 = "
                  "510: pass --batch-size 256 (2 x 256 = 512)" ANEW);
    check_differs(&saved, &now, 1,
                  "the state was taken with global batches of 512 samples, and these are of 510: "
                  "pass --batch-size 512" ANEW);
    saved.global_batch = 6;
    saved.cursor = 6;
    check_differs(&saved, &now, 5,
                  "the state was taken with global batches of 6 samples, and this is 5 x 102 = "
                  "510: choose a world size and a batch size with which world size x batch size is "
                  "6 (a world size of 5 does not divide it: 1, 2, 3, 6 do)" ANEW);
    /* A large prime. */
    saved.global_batch = saved.cursor = 4294967291;
    CHECK_FAILS(SLUICE_E_INVALID, "divide it: 1 ... do)",
                sluice_state_check(&saved, &now, 5, sluice_test_err()));
}

TEST(another_global_batch_is_fine_between_epochs)
{
    struct sluice_state saved = example, now = example;
    saved.has_order = now.has_order = false;
    now.global_batch = 510;
    saved.cursor = 0;
    CHECK_OK(sluice_state_check(&saved, &now, 3, NULL));
    saved.cursor = saved.num_samples;
    CHECK_OK(sluice_state_check(&saved, &now, 3, NULL));
    /* Where an external order ends is not known. */
    saved.has_order = now.has_order = true;
    CU_ASSERT_EQUAL(sluice_state_check(&saved, &now, 1, NULL), SLUICE_E_INVALID);
}

TEST(the_longest_refusals_are_whole)
{
    struct sluice_state saved = example, now = example;
    saved.has_order = now.has_order = false;
    /* Eight divisors, and every number as long as it gets. */
    saved.global_batch = saved.cursor = 4294967292;
    saved.num_samples = 4294967295;
    now.num_samples = 4294967295;
    now.global_batch = 4294967290;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_state_check(&saved, &now, 429496729, &err), SLUICE_E_INVALID);
    const size_t len = strlen(err.text);
    CU_ASSERT_STRING_EQUAL(err.text + len - (sizeof(ANEW) - 1), ANEW);
}
