#include "store/known_versions.h"

#include "support/test.h"

TEST(keeps_many_and_forgets)
{
    struct sluice_known_versions *known = NULL;
    uint64_t bytes = 7;
    int64_t version = 7;
    char key[32];
    REQUIRE_OK(sluice_known_versions_create(&known, NULL));
    CU_ASSERT(!sluice_known_versions_get(known, "a", &bytes, &version));
    CU_ASSERT(bytes == 7 && version == 7);
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "a/%u.jpg", i);
        sluice_known_versions_put(known, key, i, -1 - (int64_t)i);
    }
    unsigned num_good = 0;
    for (unsigned i = 0; i < 10000; i++) {
        snprintf(key, sizeof(key), "a/%u.jpg", i);
        num_good += sluice_known_versions_get(known, key, &bytes, &version) && bytes == i &&
                    version == -1 - (int64_t)i;
    }
    CU_ASSERT_EQUAL(num_good, 10000);
    sluice_known_versions_put(known, "a/5.jpg", 55, -55);
    CU_ASSERT(sluice_known_versions_get(known, "a/5.jpg", &bytes, &version));
    CU_ASSERT(bytes == 55 && version == -55);
    sluice_known_versions_put(known, "a/5.jpg", 0, 0);
    CU_ASSERT(!sluice_known_versions_get(known, "a/5.jpg", &bytes, &version));
    CU_ASSERT(sluice_known_versions_get(known, "a/6.jpg", &bytes, &version));
    sluice_known_versions_destroy(known);
    sluice_known_versions_destroy(NULL);
}
