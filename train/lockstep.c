#include "train/lockstep.h"

#include "train/rendezvous.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

sluice_status sluice_lockstep_init(struct sluice_lockstep *lockstep, const char *key, unsigned rank,
                                   unsigned world_size, uint64_t until_ns, struct sluice_err *err)
{
    const size_t bytes = sizeof(*lockstep->word);
    int fd = -1;
    if (rank == 0) {
        fd = memfd_create("sluice-lockstep", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
            const sluice_status status = sluice_fail(
                err, SLUICE_E_IO, "cannot share memory with other ranks: %s", strerror(errno));
            if (fd >= 0)
                close(fd);
            return status;
        }
    }
    sluice_status status = sluice_rendezvous_fd(key, rank, world_size, &fd, until_ns, err);
    if (!status) {
        void *word = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (word == MAP_FAILED)
            status = sluice_fail(err, SLUICE_E_IO, "cannot share memory with other ranks: %s",
                                 strerror(errno));
        else
            lockstep->word = word;
    }
    if (fd >= 0)
        close(fd);
    return status;
}

void sluice_lockstep_clear(struct sluice_lockstep *lockstep)
{
    if (lockstep->word)
        munmap((void *)lockstep->word, sizeof(*lockstep->word));
    lockstep->word = NULL;
}

bool sluice_lockstep_begin(struct sluice_lockstep *lockstep)
{
    const uint64_t next = lockstep->steps + 1;
    uint64_t word = *lockstep->word;
    while (word / 2 < next) {
        if (word & 1)
            return false;
        if (atomic_compare_exchange_weak(lockstep->word, &word, 2 * next))
            break;
    }
    lockstep->steps = next;
    return true;
}

void sluice_lockstep_stop(struct sluice_lockstep *lockstep)
{
    atomic_fetch_or(lockstep->word, 1);
}

bool sluice_lockstep_is_over(const struct sluice_lockstep *lockstep)
{
    const uint64_t word = *lockstep->word;
    return word & 1 && word / 2 <= lockstep->steps;
}
