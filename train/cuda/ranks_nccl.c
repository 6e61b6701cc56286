#include "train/cuda/ranks_nccl.h"

#include "base/clock.h"
#include "train/rendezvous.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* Until all ranks have met: they start together, but one may time cuDNN's engines first. */
#define PATIENCE_NS ((uint64_t)600 * 1000000000)

/* The part of nccl.h that is used, as NCCL 2.10 and newer have it. */
struct nccl_id {
    char bytes[128];
};
enum { NCCL_SUCCESS = 0, NCCL_UINT32 = 3, NCCL_FLOAT32 = 7, NCCL_MAX = 2, NCCL_AVG = 4 };

struct nccl {
    void *library;
    int (*get_id)(struct nccl_id *id);
    int (*init_rank)(void **comm, int world_size, struct nccl_id id, int rank);
    int (*all_reduce)(const void *from, void *to, size_t count, int type, int operation, void *comm,
                      cudaStream_t stream);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*destroy)(void *comm);
    const char *(*error_text)(int error);
};

struct sluice_ranks {
    struct nccl nccl;
    void *comm;
};

static sluice_status check(const struct nccl *nccl, int error, const char *what,
                           struct sluice_err *err)
{
    if (error == NCCL_SUCCESS)
        return SLUICE_OK;
    return sluice_fail(err, SLUICE_E_INTERNAL, "device cuda: NCCL: %s: %s", what,
                       nccl->error_text(error));
}

static sluice_status load(struct nccl *nccl, struct sluice_err *err)
{
    const struct {
        const char *name;
        void *function; /* a pointer to the pointer */
    } symbols[] = {
        {"ncclGetUniqueId", &nccl->get_id},        {"ncclCommInitRank", &nccl->init_rank},
        {"ncclAllReduce", &nccl->all_reduce},      {"ncclGroupStart", &nccl->group_start},
        {"ncclGroupEnd", &nccl->group_end},        {"ncclCommDestroy", &nccl->destroy},
        {"ncclGetErrorString", &nccl->error_text},
    };
    nccl->library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!nccl->library)
        return sluice_fail(err, SLUICE_E_UNSUPPORTED,
                           "device cuda: several ranks need NCCL, which does not load: %s",
                           dlerror());
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(symbols); i++) {
        void *symbol = dlsym(nccl->library, symbols[i].name);
        if (!symbol)
            return sluice_fail(err, SLUICE_E_UNSUPPORTED, "device cuda: libnccl.so.2 has no %s",
                               symbols[i].name);
        memcpy(symbols[i].function, &symbol, sizeof(symbol));
    }
    return SLUICE_OK;
}

sluice_status sluice_ranks_open(const char *key, unsigned rank, unsigned world_size,
                                struct sluice_ranks **out, struct sluice_err *err)
{
    struct nccl_id id = {{0}};
    struct sluice_ranks *ranks = calloc(1, sizeof(*ranks));
    if (!ranks)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for a trainer");
    sluice_status status = load(&ranks->nccl, err);
    if (!status && rank == 0)
        status = check(&ranks->nccl, ranks->nccl.get_id(&id), "ncclGetUniqueId", err);
    if (!status)
        status = sluice_rendezvous(key, rank, world_size, &id, sizeof(id),
                                   sluice_clock_ns() + PATIENCE_NS, err);
    if (!status)
        status =
            check(&ranks->nccl, ranks->nccl.init_rank(&ranks->comm, (int)world_size, id, (int)rank),
                  "ncclCommInitRank", err);
    if (status)
        sluice_ranks_close(ranks);
    else
        *out = ranks;
    return status;
}

void sluice_ranks_close(struct sluice_ranks *ranks)
{
    if (!ranks)
        return;
    if (ranks->comm)
        ranks->nccl.destroy(ranks->comm);
    if (ranks->nccl.library)
        dlclose(ranks->nccl.library);
    free(ranks);
}

sluice_status sluice_ranks_average(struct sluice_ranks *ranks, cudaStream_t stream,
                                   const struct sluice_ranks_part *parts, size_t num_parts,
                                   struct sluice_err *err)
{
    const struct nccl *nccl = &ranks->nccl;
    sluice_status status = check(nccl, nccl->group_start(), "ncclGroupStart", err);
    if (status)
        return status;
    for (size_t i = 0; !status && i < num_parts; i++) {
        float *values = parts[i].values;
        if (parts[i].count > 0)
            status = check(nccl,
                           nccl->all_reduce(values, values, parts[i].count, NCCL_FLOAT32, NCCL_AVG,
                                            ranks->comm, stream),
                           "ncclAllReduce", err);
    }
    const int ended = nccl->group_end(); /* in any case */
    return status ? status : check(nccl, ended, "ncclGroupEnd", err);
}

sluice_status sluice_ranks_max(struct sluice_ranks *ranks, cudaStream_t stream, uint32_t *flag,
                               struct sluice_err *err)
{
    const struct nccl *nccl = &ranks->nccl;
    return check(nccl, nccl->all_reduce(flag, flag, 1, NCCL_UINT32, NCCL_MAX, ranks->comm, stream),
                 "ncclAllReduce", err);
}
