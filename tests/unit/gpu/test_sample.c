/* Files written as samples, with and without an index, anywhere in memory. */

#include "gpu/sample.h"

#include "base/buf.h"
#include "gpu/batch.h"
#include "gpu_support.h"
#include "support/test.h"

#define NUM 400
#define CANARY 64

static const struct sluice_gpu_limits limits = {
    .max_samples = 4,
    .num_views = 2,
    .views = {{32, 24}, {7, 9}},
    .max_file_bytes = 1 << 20,
    .max_pixels = 1 << 18,
};

static struct sluice_jpeg_stretch stretch;

/* A random file that is written as a sample, and as one that a batch has added. */
struct written {
    struct sluice_gpu_plan plan;
    uint8_t *memory; /* room for plan.sizes.upload_bytes, and the canary's */
    uint64_t bytes;
    struct sluice_gpu_batch batch;
};

static void batch_create(struct sluice_gpu_batch *batch)
{
    struct sluice_gpu_sizes capacity;
    REQUIRE_OK(sluice_gpu_limits_check(&limits, &capacity, NULL));
    void *upload = aligned_alloc(16, (capacity.upload_bytes + 15) / 16 * 16);
    CU_ASSERT_PTR_NOT_NULL_FATAL(upload);
    sluice_gpu_batch_init(batch, &limits, &capacity, upload);
}

/* False: the batch refuses it, and so do plan and write. */
static bool write_random(struct written *written, struct sluice_rng *rng)
{
    uint32_t width, height;
    struct sluice_buf *file = gpu_test_file(rng, &width, &height);
    struct sluice_jpeg_index *index = gpu_test_index(rng, file);
    struct sluice_gpu_request requests[2];
    gpu_test_requests(rng, &limits, width, height, 2, requests);
    if (sluice_rng_below(rng, 4) == 0)
        gpu_test_damage(rng, file);
    batch_create(&written->batch);
    const sluice_status wanted =
        sluice_gpu_batch_add(&written->batch, file->data, file->len, index, requests, NULL);
    sluice_status status =
        sluice_gpu_plan_make(&written->plan, &limits, file->data, file->len, index, requests, NULL);
    written->memory = NULL;
    if (status == SLUICE_OK) {
        const size_t room = written->plan.sizes.upload_bytes;
        written->memory = aligned_alloc(16, room + CANARY);
        CU_ASSERT_PTR_NOT_NULL_FATAL(written->memory);
        memset(written->memory, 0xA5, room + CANARY);
        status =
            sluice_gpu_plan_write(&written->plan, &stretch, written->memory, &written->bytes, NULL);
    }
    CU_ASSERT_EQUAL(status, wanted);
    sluice_jpeg_index_destroy(index);
    sluice_buf_unref(file);
    return status == SLUICE_OK;
}

static void written_clear(struct written *written)
{
    free(written->memory);
    free(written->batch.upload);
    sluice_gpu_batch_destroy(&written->batch);
}

TEST(a_plan_says_at_most_what_is_written)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 1, 0, 0);
    unsigned num_written = 0;
    for (unsigned i = 0; i < NUM; i++) {
        struct written written;
        const bool is_written = write_random(&written, &rng);
        const uint64_t room = written.plan.sizes.upload_bytes;
        num_written += is_written;
        CU_ASSERT(!is_written || (written.bytes <= room && written.bytes % 16 == 0));
        for (unsigned k = 0; written.memory && k < CANARY; k++)
            CU_ASSERT_EQUAL_FATAL(written.memory[room + k], 0xA5);
        written_clear(&written);
    }
    CU_ASSERT(num_written > NUM / 2 && num_written < NUM);
}

TEST(a_sample_that_is_copied_or_placed_is_the_one_that_a_batch_adds)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 2, 0, 0);
    const uint64_t first = sluice_gpu_index_bytes(&limits);
    for (unsigned i = 0; i < NUM; i++) {
        struct written written;
        if (write_random(&written, &rng)) {
            struct sluice_gpu_batch batch;
            batch_create(&batch);
            if (i % 2) {
                memcpy(batch.upload + first, written.memory, written.bytes);
                sluice_gpu_batch_use(&batch, batch.upload, first + written.bytes);
                CHECK_OK(sluice_gpu_batch_place(&batch, first, written.bytes, 2, NULL));
            } else {
                CHECK_OK(sluice_gpu_batch_append(&batch, written.memory, written.bytes, 2, NULL));
            }
            CU_ASSERT_EQUAL(batch.num_samples, 1);
            CU_ASSERT_EQUAL(batch.end, first + written.bytes);
            CU_ASSERT_EQUAL(memcmp(&batch.used, &written.batch.used, sizeof(batch.used)), 0);
            CU_ASSERT_EQUAL(
                memcmp(batch.upload, written.batch.upload, 2 * sizeof(struct sluice_gpu_index)), 0);
            CU_ASSERT_EQUAL_FATAL(
                memcmp(batch.upload + first, written.batch.upload + first, written.bytes), 0);
            free(batch.upload);
        }
        written_clear(&written);
    }
}

TEST(its_sizes_are_the_plans)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 3, 0, 0);
    for (unsigned i = 0; i < NUM; i++) {
        struct written written;
        if (write_random(&written, &rng)) {
            struct sluice_gpu_sizes sizes = sluice_gpu_sample_sizes(
                (const struct sluice_gpu_sample *)(const void *)written.memory);
            CU_ASSERT_EQUAL(sizes.upload_bytes, 0);
            sizes.upload_bytes = written.plan.sizes.upload_bytes;
            CU_ASSERT_EQUAL(memcmp(&sizes, &written.plan.sizes, sizeof(sizes)), 0);
        }
        written_clear(&written);
    }
}

/* Four in the order of their memory, and then the last and the first alone. */
TEST(a_batch_takes_samples_of_its_memory_in_any_order_again_and_again)
{
    struct sluice_rng rng = sluice_rng_init(sluice_test_seed(), 4, 0, 0);
    struct sluice_gpu_batch batch;
    batch_create(&batch);
    const uint64_t first = sluice_gpu_index_bytes(&limits);
    uint64_t ends[4], at = first;
    for (unsigned i = 0; i < 4;) {
        struct written written;
        if (write_random(&written, &rng)) {
            memcpy(batch.upload + at, written.memory, written.bytes);
            at += written.bytes;
            ends[i++] = at;
        }
        written_clear(&written);
    }
    sluice_gpu_batch_use(&batch, batch.upload, at);
    for (unsigned i = 0; i < 4; i++) {
        const uint64_t from = i ? ends[i - 1] : first;
        CHECK_OK(sluice_gpu_batch_place(&batch, from, ends[i] - from, i, NULL));
    }
    CU_ASSERT(batch.from == first && batch.end == at && batch.used.upload_bytes == at);
    CU_ASSERT_EQUAL(sluice_gpu_batch_place(&batch, first, ends[0] - first, 0, NULL),
                    SLUICE_E_AGAIN);
    sluice_gpu_batch_clear(&batch);
    CU_ASSERT_EQUAL(sluice_gpu_batch_place(&batch, first, ends[0] - first, 4, NULL),
                    SLUICE_E_INVALID);
    CHECK_OK(sluice_gpu_batch_place(&batch, ends[2], at - ends[2], 3, NULL));
    CU_ASSERT(batch.num_samples == 1 && batch.from == ends[2] && batch.end == at);
    CHECK_OK(sluice_gpu_batch_place(&batch, ends[0], ends[1] - ends[0], 1, NULL));
    CU_ASSERT(batch.num_samples == 2 && batch.from == ends[0] && batch.end == at);

    /* The same once more is a copy. */
    CHECK_OK(sluice_gpu_batch_place(&batch, ends[0], ends[1] - ends[0], 0, NULL));
    CU_ASSERT(batch.num_samples == 3 && batch.end == at + ends[1] - ends[0]);
    const struct sluice_gpu_index *index = (const void *)batch.upload;
    CU_ASSERT_EQUAL(((const struct sluice_gpu_sample *)(batch.upload + index[1].at))->row, 1);
    CU_ASSERT_EQUAL(((const struct sluice_gpu_sample *)(batch.upload + index[2].at))->row, 0);
    free(batch.upload);
}

int main(void)
{
    const int failed = sluice_test_main();
    sluice_jpeg_stretch_clear(&stretch);
    return failed;
}
