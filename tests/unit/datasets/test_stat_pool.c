#include "datasets/manifest/stat_pool.h"

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define NUM 500

static char names[NUM][16];
static int folder_fd;

/* Files of as many bytes as their number says; every tenth is missing, one is a link to nowhere. */
static void make_files(void)
{
    char path[1024];
    folder_fd = open(sluice_test_dir(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CU_ASSERT_FATAL(folder_fd >= 0);
    for (size_t i = 0; i < NUM; i++) {
        snprintf(names[i], sizeof(names[i]), "%zu", i);
        snprintf(path, sizeof(path), "%s/%zu", sluice_test_dir(), i);
        if (i == 11) {
            CU_ASSERT_EQUAL(symlink("nowhere", path), 0);
        } else if (i % 10) {
            sluice_test_write_file(path, path, i);
        }
    }
}

static void check(struct sluice_stat_pool *pool, size_t first, size_t num)
{
    struct sluice_stat *files = calloc(num + 1, sizeof(*files));
    for (size_t i = 0; i < num; i++)
        files[i].name = names[first + i];
    sluice_stat_pool_run(pool, folder_fd, files, num);
    for (size_t i = first; i < first + num; i++) {
        const struct sluice_stat *file = &files[i - first];
        CU_ASSERT_EQUAL(file->error, i % 10 ? 0 : ENOENT);
        if (i == 11) {
            CU_ASSERT(S_ISLNK(file->st.st_mode));
        } else if (i % 10) {
            CU_ASSERT_EQUAL((size_t)file->st.st_size, i);
        }
    }
    free(files);
}

TEST(every_file_gets_its_state)
{
    make_files();
    for (unsigned num_threads = 0; num_threads <= 9; num_threads += 3) {
        struct sluice_stat_pool *pool = NULL;
        REQUIRE_OK(sluice_stat_pool_create(num_threads, &pool, NULL));
        for (int round = 0; round < 20; round++) {
            check(pool, 0, NUM);
            check(pool, 17, 40);
            check(pool, 3, 5);
            check(pool, 0, 0);
        }
        sluice_stat_pool_destroy(pool);
    }
}

TEST(without_a_pool_it_is_the_same)
{
    check(NULL, 0, NUM);
    sluice_stat_pool_destroy(NULL);
}
