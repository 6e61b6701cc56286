#include "rpc/grpc151/host_pauses.h"

#include "support/test.h"

#define S 1000000000ull

static struct host_pauses pauses;

static struct sluice_host host(uint8_t number)
{
    return (struct sluice_host){.bytes = {[15] = number}};
}

static bool has(uint8_t number, uint64_t now_ns)
{
    const struct sluice_host asked = host(number);
    return host_pauses_has(&pauses, &asked, now_ns);
}

static void add(uint8_t number, uint64_t now_ns)
{
    const struct sluice_host cut = host(number);
    host_pauses_add(&pauses, &cut, now_ns);
}

TEST(pauses_twice_as_long_each_time)
{
    pauses = (struct host_pauses){0};
    uint64_t now = 5 * S;
    CU_ASSERT(!has(1, now));
    for (unsigned cut = 0; cut < 9; cut++) {
        const uint64_t pause = S << (cut < 6 ? cut : 6);
        add(1, now);
        CU_ASSERT(has(1, now + pause - 1));
        CU_ASSERT(!has(1, now + pause));
        CU_ASSERT(!has(2, now));
        now += 60 * S;
    }
}

TEST(forgives_a_minute_of_good_behaviour)
{
    pauses = (struct host_pauses){0};
    add(1, S);
    add(1, 2 * S);
    add(1, 62 * S + 1);
    CU_ASSERT(has(1, 63 * S));
    CU_ASSERT(!has(1, 63 * S + 1));
}

TEST(the_host_that_was_cut_longest_ago_makes_room)
{
    pauses = (struct host_pauses){0};
    for (uint8_t number = 1; number <= HOST_PAUSES_MAX; number++)
        add(number, 10 * S + number);
    add(HOST_PAUSES_MAX + 1, 10 * S + HOST_PAUSES_MAX + 1);
    CU_ASSERT(!has(1, 10 * S + 100));
    for (uint8_t number = 2; number <= HOST_PAUSES_MAX + 1; number++)
        CU_ASSERT(has(number, 10 * S + 100));
}
