/* Tars from bytes, as they are and with the sums of their headers made right: every member lies
 * within the tar, behind the one before it, and nothing else is asked for. */

#include "datasets/shards/tar.h"

#include "fuzz.h"

static void read_members(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct sluice_tar tar = {.read_at = fuzz_read_at, .ctx = &bytes, .size = size};
    struct sluice_tar_member member;
    struct sluice_err err = {{0}};
    bool is_end = false;
    sluice_status status;
    for (;;) {
        const uint64_t before = tar.at;
        status = sluice_tar_next(&tar, &member, &is_end, &err);
        if (status != SLUICE_OK || is_end)
            break;
        FUZZ_CHECK(strnlen(member.name, sizeof(member.name)) < sizeof(member.name));
        FUZZ_CHECK(member.offset >= before + SLUICE_TAR_BLOCK &&
                   member.offset % SLUICE_TAR_BLOCK == 0);
        FUZZ_CHECK(member.offset <= size && member.bytes <= size - member.offset);
        FUZZ_CHECK(tar.at > before && tar.at <= size && tar.at >= member.offset + member.bytes);
    }
    FUZZ_CHECK(status == SLUICE_OK ||
               (status == SLUICE_E_CORRUPT && strncmp(err.text, "byte ", 5) == 0));
}

/* So that changes of a header reach what is behind its sum. */
static void set_sums(uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= SLUICE_TAR_BLOCK; at += SLUICE_TAR_BLOCK) {
        unsigned sum = 0;
        char text[8];
        if (memcmp(data + at + 257, "ustar", 5) != 0)
            continue;
        memset(data + at + 148, ' ', 8);
        for (size_t i = 0; i < SLUICE_TAR_BLOCK; i++)
            sum += data[at + i];
        snprintf(text, sizeof(text), "%06o", sum);
        memcpy(data + at + 148, text, 7);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_members(data, size);
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    set_sums(copy, size);
    read_members(copy, size);
    free(copy);
    return 0;
}
