#include "datasets/list/beneath.h"

#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static int folder;

static void link_to(const char *target, const char *name)
{
    char path[1024];
    snprintf(path, sizeof(path), "%s/in/%s", sluice_test_dir(), name);
    CU_ASSERT_EQUAL_FATAL(symlink(target, path), 0);
}

TEST(follows_links_that_stay_beneath)
{
    struct stat st;
    link_to("a/file", "inside");
    link_to("../out", "outside");
    link_to("/etc/passwd", "absolute");
    link_to("nowhere", "broken");
    CU_ASSERT_TRUE(sluice_stat_beneath(folder, "a/file", &st));
    CU_ASSERT_EQUAL(st.st_size, 5);
    CU_ASSERT_TRUE(sluice_stat_beneath(folder, "inside", &st));
    CU_ASSERT_FALSE(sluice_stat_beneath(folder, "outside", &st));
    CU_ASSERT_EQUAL(errno, EXDEV);
    CU_ASSERT_FALSE(sluice_stat_beneath(folder, "absolute", &st));
    CU_ASSERT_EQUAL(errno, EXDEV);
    CU_ASSERT_FALSE(sluice_stat_beneath(folder, "../out", &st));
    CU_ASSERT_FALSE(sluice_stat_beneath(folder, "broken", &st));
    CU_ASSERT_EQUAL(errno, ENOENT);
}

TEST(opens_with_the_flags)
{
    const int fd = sluice_open_beneath(folder, "a", O_RDONLY | O_DIRECTORY);
    CU_ASSERT_TRUE(fd >= 0);
    close(fd);
    CU_ASSERT_EQUAL(sluice_open_beneath(folder, "a/file", O_RDONLY | O_DIRECTORY), -1);
    CU_ASSERT_EQUAL(errno, ENOTDIR);
}

int main(void)
{
    sluice_test_put_text(sluice_test_dir(), "in/a/file", "file\n");
    sluice_test_put_text(sluice_test_dir(), "out", "out\n");
    const char *path = sluice_test_path("in");
    folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    if (!sluice_stat_beneath(folder, "a/file", &st) && errno == ENOSYS)
        sluice_test_skip("this kernel has no openat2(2)");
    return sluice_test_main();
}
