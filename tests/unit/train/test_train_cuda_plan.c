#include "train/train_cuda_state.h"

#include "support/test.h"

/* Which of cuDNN's algorithms is taken; needs no GPU. */

#define OK CUDNN_STATUS_SUCCESS
#define SAME CUDNN_DETERMINISTIC
#define VARIES CUDNN_NON_DETERMINISTIC
#define FMA CUDNN_FMA_MATH
#define TENSOR CUDNN_TENSOR_OP_MATH
#define TOO_MUCH ((size_t)1 << 40)

static int picked(const struct cuda_candidate *candidates, int count, bool allow_tf32,
                  bool *is_deterministic)
{
    struct conv_pass pass = {.algo = -1};
    const sluice_status status = cuda_pick(candidates, count, allow_tf32, &pass, NULL);
    CU_ASSERT_EQUAL(status, pass.algo < 0 ? SLUICE_E_UNSUPPORTED : SLUICE_OK);
    *is_deterministic = pass.is_deterministic;
    return pass.algo;
}

TEST(a_deterministic_algorithm_comes_before_faster_ones)
{
    const struct cuda_candidate candidates[] = {
        {5, OK, 0, VARIES, TENSOR},
        {4, OK, 0, SAME, FMA},
        {3, OK, 0, SAME, TENSOR},
    };
    bool is_deterministic;
    CU_ASSERT_EQUAL(picked(candidates, 3, true, &is_deterministic), 4);
    CU_ASSERT(is_deterministic);
    CU_ASSERT_EQUAL(picked(candidates + 1, 2, true, &is_deterministic), 4);
    CU_ASSERT_EQUAL(picked(candidates + 2, 1, true, &is_deterministic), 3);
}

TEST(without_one_the_fastest_is_taken_and_said_to_vary)
{
    const struct cuda_candidate candidates[] = {
        {6, CUDNN_STATUS_NOT_SUPPORTED, 0, SAME, FMA},
        {5, OK, TOO_MUCH, SAME, FMA},
        {4, OK, 100, VARIES, TENSOR},
        {3, OK, 0, VARIES, FMA},
    };
    bool is_deterministic = true;
    CU_ASSERT_EQUAL(picked(candidates, 4, true, &is_deterministic), 4);
    CU_ASSERT(!is_deterministic);
    CU_ASSERT_EQUAL(picked(candidates, 4, false, &is_deterministic), 3);
    CU_ASSERT(!is_deterministic);
}

TEST(float32_takes_no_tensor_cores)
{
    const struct cuda_candidate candidates[] = {
        {2, OK, 0, SAME, TENSOR},
        {1, OK, 7, SAME, FMA},
    };
    bool is_deterministic;
    CU_ASSERT_EQUAL(picked(candidates, 2, true, &is_deterministic), 2);
    CU_ASSERT_EQUAL(picked(candidates, 2, false, &is_deterministic), 1);
    struct conv_pass pass;
    CHECK_OK(cuda_pick(candidates, 2, false, &pass, NULL));
    CU_ASSERT(pass.workspace == 7 && pass.math == FMA);
}

TEST(no_usable_algorithm_is_an_error)
{
    const struct cuda_candidate candidates[] = {
        {2, OK, TOO_MUCH, SAME, TENSOR},
        {1, CUDNN_STATUS_ALLOC_FAILED, 0, SAME, FMA},
    };
    struct conv_pass pass;
    CHECK_FAILS(SLUICE_E_UNSUPPORTED, "no algorithm",
                cuda_pick(candidates, 2, true, &pass, sluice_test_err()));
    bool is_deterministic;
    CU_ASSERT_EQUAL(picked(candidates, 0, true, &is_deterministic), -1);
}
