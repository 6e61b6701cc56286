#include "train/cuda/matmul_cublas.h"

/* cuBLASLt's matrices are column by column: a row-major one of ours is its transpose there. */

struct operand {
    const void *data;
    enum sluice_cuda_type type;
    uint64_t rows, columns; /* column by column, before the transposition */
    cublasOperation_t operation;
};

/* Descriptors of a product, and the first failure: calls after it do nothing. */
struct product {
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t layouts[3];
    cublasLtMatmulPreference_t preference;
    cublasStatus_t failed;
};

static cudaDataType_t data_type(enum sluice_cuda_type type)
{
    return type == SLUICE_CUDA_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void set(struct product *p, cublasLtMatmulDescAttributes_t name, const void *value,
                size_t size)
{
    if (!p->failed)
        p->failed = cublasLtMatmulDescSetAttribute(p->desc, name, value, size);
}

static void describe(struct product *p, const struct sluice_matmul *m,
                     const struct operand operands[3])
{
    p->failed = cublasLtMatmulDescCreate(
        &p->desc, m->is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set(p, CUBLASLT_MATMUL_DESC_TRANSA, &operands[0].operation, sizeof(operands[0].operation));
    set(p, CUBLASLT_MATMUL_DESC_TRANSB, &operands[1].operation, sizeof(operands[1].operation));
    for (int i = 0; i < 3 && !p->failed; i++)
        p->failed = cublasLtMatrixLayoutCreate(&p->layouts[i], data_type(operands[i].type),
                                               operands[i].rows, operands[i].columns,
                                               (int64_t)operands[i].rows);
    const size_t workspace = SLUICE_MATMUL_WORKSPACE;
    /* No atomic sums. */
    const uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    if (!p->failed)
        p->failed = cublasLtMatmulPreferenceCreate(&p->preference);
    if (!p->failed)
        p->failed = cublasLtMatmulPreferenceSetAttribute(
            p->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof(workspace));
    if (!p->failed)
        p->failed = cublasLtMatmulPreferenceSetAttribute(p->preference,
                                                         CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                         &reductions, sizeof(reductions));
}

static void destroy(struct product *p)
{
    if (p->preference)
        cublasLtMatmulPreferenceDestroy(p->preference);
    for (int i = 0; i < 3; i++) {
        if (p->layouts[i])
            cublasLtMatrixLayoutDestroy(p->layouts[i]);
    }
    if (p->desc)
        cublasLtMatmulDescDestroy(p->desc);
}

/* operands: two factors and the result; bias: NULL for none. */
static sluice_status multiply(const struct sluice_matmul *m, const struct operand operands[3],
                              const void *bias, bool has_relu, struct sluice_err *err)
{
    static const float one = 1, zero = 0;
    struct product p = {.failed = CUBLAS_STATUS_SUCCESS};
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    void *out = (void *)operands[2].data;
    describe(&p, m, operands);
    if (bias) {
        const cublasLtEpilogue_t epilogue =
            has_relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
        set(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue));
        set(&p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias));
    }
    if (!p.failed)
        p.failed = cublasLtMatmulAlgoGetHeuristic(m->handle, p.desc, p.layouts[0], p.layouts[1],
                                                  p.layouts[2], p.layouts[2], p.preference, 1,
                                                  &found, &count);
    if (!p.failed && count == 0)
        p.failed = CUBLAS_STATUS_NOT_SUPPORTED;
    if (!p.failed)
        p.failed = cublasLtMatmul(m->handle, p.desc, &one, operands[0].data, p.layouts[0],
                                  operands[1].data, p.layouts[1], &zero, out, p.layouts[2], out,
                                  p.layouts[2], &found.algo, m->workspace, SLUICE_MATMUL_WORKSPACE,
                                  m->stream);
    destroy(&p);
    if (!p.failed)
        return SLUICE_OK;
    return sluice_fail(
        err, p.failed == CUBLAS_STATUS_ALLOC_FAILED ? SLUICE_E_NO_MEMORY : SLUICE_E_INTERNAL,
        "device cuda: a linear layer: %s", cublasLtGetStatusString(p.failed));
}

sluice_status sluice_linear_forward(const struct sluice_matmul *m, const struct sluice_linear *l,
                                    const void *x, const void *w, const void *bias, void *y,
                                    struct sluice_err *err)
{
    const struct operand operands[3] = {
        {w, l->type, l->in, l->out, CUBLAS_OP_T},
        {x, l->type, l->in, l->n, CUBLAS_OP_N},
        {y, l->y_type, l->out, l->n, CUBLAS_OP_N},
    };
    return multiply(m, operands, bias, l->has_relu, err);
}

sluice_status sluice_linear_backward_data(const struct sluice_matmul *m,
                                          const struct sluice_linear *l, const void *diff_y,
                                          const void *w, void *diff_x, struct sluice_err *err)
{
    const struct operand operands[3] = {
        {w, l->type, l->in, l->out, CUBLAS_OP_N},
        {diff_y, l->type, l->out, l->n, CUBLAS_OP_N},
        {diff_x, l->type, l->in, l->n, CUBLAS_OP_N},
    };
    return multiply(m, operands, NULL, false, err);
}

sluice_status sluice_linear_backward_weight(const struct sluice_matmul *m,
                                            const struct sluice_linear *l, const void *x,
                                            const void *diff_y, float *diff_w,
                                            struct sluice_err *err)
{
    const struct operand operands[3] = {
        {x, l->type, l->in, l->n, CUBLAS_OP_N},
        {diff_y, l->type, l->out, l->n, CUBLAS_OP_T},
        {diff_w, SLUICE_CUDA_F32, l->in, l->out, CUBLAS_OP_N},
    };
    return multiply(m, operands, NULL, false, err);
}
