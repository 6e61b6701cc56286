#include "compute_client/loader/batch/held.h"

#include "support/test.h"

#define BATCH 5
#define BYTES 100

/* Takes back every block but `unneeded`. */
struct owner {
    unsigned num_taken, num_freed;
    void *unneeded;
};

static void *take_back(void *ctx, const struct sluice_held *held)
{
    struct owner *owner = ctx;
    owner->num_taken++;
    return held->pixels == owner->unneeded ? held->pixels : NULL;
}

static void free_block(void *ctx, void *memory, size_t bytes)
{
    struct owner *owner = ctx;
    CU_ASSERT_EQUAL(bytes, BYTES);
    owner->num_freed++;
    free(memory);
}

static struct sluice_held_home *make_home(struct owner *owner)
{
    const struct sluice_held_home_options options = {
        .batch_size = BATCH,
        .bytes = BYTES,
        .take_back = take_back,
        .ctx = owner,
        .free = free_block,
        .memory_ctx = owner,
    };
    struct sluice_held_home *home = NULL;
    REQUIRE_OK(sluice_held_home_create(&options, &home, NULL));
    return home;
}

static struct sluice_held *make_held(struct sluice_held_home *home)
{
    struct sluice_held *held = NULL;
    REQUIRE_OK(sluice_held_create(home, &held, NULL));
    CU_ASSERT_PTR_NULL(held->pixels);
    CU_ASSERT_EQUAL(held->num_rows, 0);
    for (int i = 0; i < BATCH; i++) {
        held->labels[i] = -1;
        held->ids[i] = UINT64_MAX;
        held->draw_epochs[i] = UINT32_MAX;
    }
    return held;
}

TEST(a_released_header_serves_again)
{
    struct owner owner = {0};
    struct sluice_held_home *home = make_home(&owner);
    struct sluice_held *a = make_held(home), *b = make_held(home);
    CU_ASSERT(a != b);
    sluice_held_release(a);
    CU_ASSERT_PTR_EQUAL(make_held(home), a);
    CU_ASSERT_EQUAL(owner.num_taken, 0); /* neither had pixels */
    sluice_held_release(b);
    sluice_held_release(a);
    sluice_held_release(NULL);
    sluice_held_home_close(home);
    sluice_held_home_close(NULL);
    sluice_held_home_unref(home);
    sluice_held_home_unref(NULL);
}

TEST(the_owner_gets_the_pixels_back_and_may_not_want_them)
{
    struct owner owner = {0};
    struct sluice_held_home *home = make_home(&owner);
    uint8_t *wanted = malloc(BYTES);
    owner.unneeded = malloc(BYTES);
    struct sluice_held *a = make_held(home), *b = make_held(home);
    a->pixels = wanted;
    b->pixels = owner.unneeded;
    sluice_held_release(a);
    CU_ASSERT_EQUAL(owner.num_taken, 1);
    CU_ASSERT_EQUAL(owner.num_freed, 0);
    sluice_held_release(b);
    CU_ASSERT_EQUAL(owner.num_taken, 2);
    CU_ASSERT_EQUAL(owner.num_freed, 1);
    free(wanted);
    sluice_held_home_close(home);
    sluice_held_home_unref(home);
}

TEST(after_close_a_release_frees_the_pixels)
{
    struct owner owner = {0};
    struct sluice_held_home *home = make_home(&owner);
    struct sluice_held *a = make_held(home), *b = make_held(home);
    a->pixels = malloc(BYTES);
    b->pixels = malloc(BYTES);
    sluice_held_home_close(home);
    sluice_held_home_unref(home);
    sluice_held_release(a);
    CU_ASSERT_EQUAL(owner.num_freed, 1);
    CU_ASSERT_EQUAL(b->labels[BATCH - 1], -1); /* it is still there */
    sluice_held_release(b);
    CU_ASSERT_EQUAL(owner.num_freed, 2);
    CU_ASSERT_EQUAL(owner.num_taken, 0);
}
