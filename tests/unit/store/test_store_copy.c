#include "store/store_copy.h"

#include "support/test.h"

#include <fcntl.h>
#include <unistd.h>

static struct sluice_store *open_store(uint64_t max_bytes)
{
    struct sluice_store *store = NULL;
    const struct sluice_store_file_options options = {.root = sluice_test_dir(),
                                                      .max_file_bytes = max_bytes};
    REQUIRE_OK(sluice_store_file_open(&options, &store, NULL));
    return store;
}

TEST(copies_objects_longer_than_a_read)
{
    static uint8_t bytes[100003];
    char path[1024];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(i * 7 + i / 300);
    snprintf(path, sizeof(path), "%s/a.bin", sluice_test_dir());
    sluice_test_write_file(path, bytes, sizeof(bytes));
    struct sluice_store *store = open_store(1000);
    snprintf(path, sizeof(path), "%s/copy", sluice_test_dir());
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0600);
    uint64_t len = 0;
    REQUIRE_OK(sluice_store_copy(store, "a.bin", fd, &len, NULL));
    CU_ASSERT_EQUAL(len, sizeof(bytes));
    close(fd);
    size_t copied;
    uint8_t *copy = sluice_test_read_file(path, &copied);
    CU_ASSERT(copied == sizeof(bytes) && memcmp(copy, bytes, copied) == 0);
    free(copy);
    store->destroy(store);
}

TEST(says_what_is_missing_or_not_written)
{
    struct sluice_store *store = open_store(1000);
    uint64_t len = 7;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(sluice_store_copy(store, "none", STDOUT_FILENO, &len, NULL),
                    SLUICE_E_NOT_FOUND);
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CU_ASSERT_EQUAL(sluice_store_copy(store, "a.bin", fd, &len, &err), SLUICE_E_IO);
    CU_ASSERT_EQUAL(len, 7);
    close(fd);
    store->destroy(store);
}
