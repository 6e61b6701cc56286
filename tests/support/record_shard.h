#ifndef SLUICE_TESTS_SUPPORT_RECORD_SHARD_H
#define SLUICE_TESTS_SUPPORT_RECORD_SHARD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Writes shards of records (datasets/shards/records.h), from the formats' description. */
struct sluice_test_shard {
    uint8_t bytes[1 << 16];
    size_t len;
};

static inline void sluice_test_put_u32(uint8_t *to, uint32_t number)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(number >> (8 * i));
}

static inline void sluice_test_shard_add(struct sluice_test_shard *shard, const void *data,
                                         size_t len)
{
    memcpy(shard->bytes + shard->len, data, len);
    shard->len += len;
}

static inline void sluice_test_shard_u32(struct sluice_test_shard *shard, uint32_t number)
{
    uint8_t bytes[4];
    sluice_test_put_u32(bytes, number);
    sluice_test_shard_add(shard, bytes, 4);
}

/* The end of record i, which is the begin of the next one. */
static inline void sluice_test_shard_end_record(struct sluice_test_shard *shard, uint32_t i)
{
    sluice_test_put_u32(shard->bytes + 4 + 4 * ((size_t)i + 1), (uint32_t)shard->len);
}

/* `config` "": LitData's, which has none. */
static inline void sluice_test_shard_begin(struct sluice_test_shard *shard, uint32_t num,
                                           const char *config)
{
    memset(shard, 0, sizeof(*shard));
    sluice_test_put_u32(shard->bytes, num);
    shard->len = 4 + 4 * ((size_t)num + 1);
    sluice_test_shard_add(shard, config, strlen(config));
    sluice_test_put_u32(shard->bytes + 4, (uint32_t)shard->len);
}

#endif
