#include "datasets/shards/tar.h"

#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

struct bytes {
    const uint8_t *data;
    size_t len;
    bool is_broken;
};

static sluice_status read_at(void *ctx, uint64_t at, void *to, size_t len, struct sluice_err *err)
{
    const struct bytes *bytes = ctx;
    CU_ASSERT_FATAL(at <= bytes->len && len <= bytes->len - at);
    if (bytes->is_broken)
        return sluice_fail(err, SLUICE_E_IO, "the disk is broken");
    memcpy(to, bytes->data + at, len);
    return SLUICE_OK;
}

static struct sluice_tar reader_of(struct bytes *bytes)
{
    return (struct sluice_tar){.read_at = read_at, .ctx = bytes, .size = bytes->len};
}

/* --- what tar(1) writes --- */

/* 90 characters each: together too long for a v7 name, and for ustar's 100 of a name. */
#define LONG_FOLDER                                                                                \
    "a_folder_with_a_name_that_is_long_enough_for_the_prefix_of_a_ustar_header_and_for_no_more__"
#define LONG_NAME                                                                                  \
    "a_file_with_a_name_of_more_than_one_hundred_bytes_which_only_extended_headers_can_hold_in_"   \
    "one_"                                                                                         \
    "piece_of_text.jpg"

static void make_tree(void)
{
    char content[700];
    mkdir(sluice_test_path("tree"), 0700);
    mkdir(sluice_test_path("tree/cat"), 0700);
    mkdir(sluice_test_path("tree/" LONG_FOLDER), 0700);
    memset(content, 'c', sizeof(content));
    sluice_test_write_file(sluice_test_path("tree/cat/1.jpg"), content, 700);
    sluice_test_write_file(sluice_test_path("tree/cat/2.cls"), "17\n", 3);
    sluice_test_write_file(sluice_test_path("tree/empty.jpg"), "", 0);
    sluice_test_write_file(sluice_test_path("tree/" LONG_FOLDER "/b.jpg"), content, 512);
    (void)!symlink("cat/1.jpg", sluice_test_path("tree/link.jpg"));
    (void)!link(sluice_test_path("tree/cat/1.jpg"), sluice_test_path("tree/same.jpg"));
    mkfifo(sluice_test_path("tree/fifo.jpg"), 0600);
}

/* Runs a command in this test's folder; false: it failed. */
static bool run(const char *command)
{
    char line[1500];
    snprintf(line, sizeof(line), "cd '%s' && %s", sluice_test_dir(), command);
    return system(line) == 0;
}

struct expected {
    const char *name, *kind;
    uint64_t bytes;
    char first; /* of the content */
};

static void expect_members(const char *name, const struct expected *expected, size_t num)
{
    size_t len;
    uint8_t *data = sluice_test_read_file(sluice_test_path(name), &len);
    struct bytes bytes = {.data = data, .len = len};
    struct sluice_tar tar = reader_of(&bytes);
    struct sluice_tar_member member;
    struct sluice_err err = {0};
    bool is_end = false;
    for (size_t i = 0; i <= num; i++) {
        const sluice_status status = sluice_tar_next(&tar, &member, &is_end, &err);
        if (status != SLUICE_OK)
            printf("%s: member %zu: %s\n", name, i, err.text);
        REQUIRE_OK(status);
        CU_ASSERT_EQUAL_FATAL(is_end, i == num);
        if (is_end)
            break;
        CU_ASSERT_STRING_EQUAL(member.name, expected[i].name);
        CU_ASSERT_EQUAL(member.bytes, expected[i].bytes);
        CU_ASSERT_EQUAL(member.kind != NULL, expected[i].kind != NULL);
        if (member.kind && expected[i].kind)
            CU_ASSERT_STRING_EQUAL(member.kind, expected[i].kind);
        if (member.bytes && !member.kind)
            CU_ASSERT_EQUAL(data[member.offset], (uint8_t)expected[i].first);
    }
    free(data);
}

TEST(reads_what_tar_writes_in_each_format)
{
    static const struct expected members[] = {
        {"cat/1.jpg", NULL, 700, 'c'}, {"cat/2.cls", NULL, 3, '1'},
        {"cat", "a folder", 0, 0},     {"empty.jpg", NULL, 0, 0},
        {"link.jpg", "a link", 0, 0},  {"same.jpg", "a link", 0, 0},
        {"fifo.jpg", "a FIFO", 0, 0},  {LONG_FOLDER "/b.jpg", NULL, 512, 'c'},
    };
    make_tree();
    if (!run("tar --version > tar.txt && grep -q GNU tar.txt"))
        sluice_test_skip("no GNU tar");
    static const char *const formats[] = {"v7", "ustar", "oldgnu", "gnu", "pax"};
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        char command[600];
        snprintf(command, sizeof(command),
                 "tar --format=%s -cf %s.tar --no-recursion -C tree cat/1.jpg cat/2.cls cat "
                 "empty.jpg link.jpg same.jpg %s",
                 formats[i], formats[i], i == 0 ? "" : "fifo.jpg " LONG_FOLDER "/b.jpg");
        CU_ASSERT_FATAL(run(command));
        snprintf(command, sizeof(command), "%s.tar", formats[i]);
        /* v7 has neither FIFOs nor long names. */
        expect_members(command, members, i == 0 ? 6 : 8);
    }
}

TEST(reads_long_names_of_gnu_and_pax)
{
    char content[600];
    memset(content, 'l', sizeof(content));
    sluice_test_write_file(sluice_test_path("tree/cat/" LONG_NAME), content, 600);
    static const struct expected members[] = {
        {"cat/" LONG_NAME, NULL, 600, 'l'},
        {"cat/2.cls", NULL, 3, '1'}, /* a long name is of one member alone */
    };
    for (int is_pax = 0; is_pax < 2; is_pax++) {
        char command[600];
        snprintf(command, sizeof(command),
                 "tar --format=%s -cf long.tar -C tree 'cat/" LONG_NAME "' cat/2.cls",
                 is_pax ? "pax" : "gnu");
        CU_ASSERT_FATAL(run(command));
        expect_members("long.tar", members, 2);
    }
}

TEST(sparse_members_are_told_and_passed)
{
    if (!run(
            "truncate -s 4M tree/hole.jpg && for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 "
            "19 20 21 22 23 24 25 26 27 28 29 30; do printf x | dd of=tree/hole.jpg bs=1 "
            "seek=${i}00000 conv=notrunc status=none; done"))
        sluice_test_skip("no truncate or dd");
    static const char *const formats[] = {"oldgnu", "gnu", "pax --sparse-version=1.0",
                                          "pax --sparse-version=0.1"};
    for (size_t i = 0; i < 4; i++) {
        char command[600];
        snprintf(command, sizeof(command),
                 "tar --format=%s -Scf sparse.tar -C tree hole.jpg cat/2.cls", formats[i]);
        CU_ASSERT_FATAL(run(command));
        size_t len;
        uint8_t *data = sluice_test_read_file(sluice_test_path("sparse.tar"), &len);
        struct bytes bytes = {.data = data, .len = len};
        struct sluice_tar tar = reader_of(&bytes);
        struct sluice_tar_member member;
        bool is_end = false;
        REQUIRE_OK(sluice_tar_next(&tar, &member, &is_end, NULL));
        CU_ASSERT_PTR_NOT_NULL_FATAL(member.kind);
        CU_ASSERT_STRING_EQUAL(member.kind, "sparse");
        REQUIRE_OK(sluice_tar_next(&tar, &member, &is_end, NULL));
        CU_ASSERT_STRING_EQUAL(member.name, "cat/2.cls");
        CU_ASSERT_PTR_NULL(member.kind);
        free(data);
    }
}

/* --- what this writes --- */

/* Two members and an end; the length. */
static size_t write_two(uint8_t *to, const char *first, const char *second)
{
    size_t len = sluice_tar_header(first, 5, to);
    memcpy(to + len, "hello", 5);
    len += 5 + sluice_tar_padding(5);
    len += sluice_tar_header(second, 512, to + len);
    memset(to + len, 'x', 512);
    return len + 512 + 1024;
}

TEST(tar_and_this_read_what_is_written)
{
    static uint8_t bytes[32768];
    static char longest[SLUICE_MAX_PATH_BYTES];
    memset(longest, 'n', sizeof(longest) - 1);
    for (size_t i = 50; i < sizeof(longest) - 1; i += 51)
        longest[i] = '/';
    const char *const names[] = {"1.jpg", LONG_NAME, longest};
    for (size_t i = 0; i < 3; i++) {
        memset(bytes, 0, sizeof(bytes));
        const size_t len = write_two(bytes, names[i], "second.jpg");
        struct bytes in = {.data = bytes, .len = len};
        struct sluice_tar tar = reader_of(&in);
        struct sluice_tar_member member;
        bool is_end = false;
        REQUIRE_OK(sluice_tar_next(&tar, &member, &is_end, NULL));
        CU_ASSERT_STRING_EQUAL(member.name, names[i]);
        CU_ASSERT(member.bytes == 5 && memcmp(bytes + member.offset, "hello", 5) == 0);
        REQUIRE_OK(sluice_tar_next(&tar, &member, &is_end, NULL));
        CU_ASSERT_STRING_EQUAL(member.name, "second.jpg");
        CU_ASSERT(!is_end && member.bytes == 512 && !member.kind);
        REQUIRE_OK(sluice_tar_next(&tar, &member, &is_end, NULL));
        CU_ASSERT(is_end);

        sluice_test_write_file(sluice_test_path("written.tar"), bytes, len);
        sluice_test_write_file(sluice_test_path("names.txt"), names[i], strlen(names[i]));
        CU_ASSERT(run("printf '\\nsecond.jpg\\n' >> names.txt && tar -tf written.tar > listed.txt "
                      "2> said.txt && cmp listed.txt names.txt && test ! -s said.txt"));
    }
    CU_ASSERT(run("tar -xOf written.tar second.jpg | tr -d x | cmp - /dev/null"));
    uint8_t room[SLUICE_TAR_MAX_HEADER];
    CU_ASSERT_EQUAL(sluice_tar_header("", 1, room), 0);
    CU_ASSERT_EQUAL(sluice_tar_header("large", 1ull << 33, room), 0);
}

/* --- damage --- */

static sluice_status read_all(uint8_t *data, size_t len, size_t *num, struct sluice_err *err)
{
    struct bytes bytes = {.data = data, .len = len};
    struct sluice_tar tar = reader_of(&bytes);
    struct sluice_tar_member member;
    bool is_end = false;
    for (*num = 0;; ++*num) {
        const sluice_status status = sluice_tar_next(&tar, &member, &is_end, err);
        if (status != SLUICE_OK || is_end)
            return status;
    }
}

TEST(cuts_are_named_with_their_byte_and_keep_what_is_before)
{
    static uint8_t bytes[8192];
    const size_t len = write_two(bytes, "1.jpg", "2.jpg");
    CU_ASSERT_EQUAL_FATAL(len, 1024 + 1024 + 1024);
    for (size_t cut = 0; cut <= len; cut++) {
        struct sluice_err err = {0};
        size_t num;
        const sluice_status status = read_all(bytes, cut, &num, &err);
        if (cut >= 2560) { /* one block of zeros is an end */
            CHECK_OK(status);
            CU_ASSERT_EQUAL(num, 2);
            continue;
        }
        CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
        CU_ASSERT_EQUAL(num, cut / 1024);
        char at[40];
        snprintf(at, sizeof(at), "byte %zu: the tar", cut / 1024 * 1024);
        CU_ASSERT_EQUAL(strncmp(err.text, at, strlen(at)), 0);
    }
}

TEST(flipped_bits_of_headers_are_found)
{
    static uint8_t bytes[8192];
    const size_t len = write_two(bytes, "1.jpg", "2.jpg");
    for (size_t i = 0; i < 512; i++) {
        struct sluice_err err = {0};
        size_t num;
        bytes[1024 + i] ^= 1;
        const sluice_status status = read_all(bytes, len, &num, &err);
        /* But the NUL and the space behind the sum, which nobody looks at, may be either. */
        if (status != SLUICE_OK || i < 154 || i > 155) {
            CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
            CU_ASSERT_EQUAL(num, 1);
            CU_ASSERT_EQUAL(strncmp(err.text, "byte 1024: ", 11), 0);
        }
        bytes[1024 + i] ^= 1;
    }
}

static void set_sum(uint8_t *header)
{
    unsigned sum = 0;
    memset(header + 148, ' ', 8);
    for (size_t i = 0; i < 512; i++)
        sum += header[i];
    snprintf((char *)header + 148, 7, "%06o", sum);
}

TEST(sizes_in_base_256_are_read_and_bounded)
{
    static uint8_t bytes[8192];
    const size_t len = write_two(bytes, "1.jpg", "2.jpg");
    struct sluice_err err = {0};
    size_t num;
    memset(bytes + 124, 0, 12);
    bytes[124] = 0x80;
    bytes[135] = 5;
    set_sum(bytes);
    CHECK_OK(read_all(bytes, len, &num, &err));
    CU_ASSERT_EQUAL(num, 2);
    memset(bytes + 125, 0x7f, 11);
    set_sum(bytes);
    CU_ASSERT_EQUAL(read_all(bytes, len, &num, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "byte 0: a size that is no number");
    memset(bytes + 124, 0xff, 12);
    set_sum(bytes);
    CU_ASSERT_EQUAL(read_all(bytes, len, &num, NULL), SLUICE_E_CORRUPT);
    memcpy(bytes + 124, "77777777777", 12); /* 8 GiB */
    set_sum(bytes);
    err = (struct sluice_err){0};
    CU_ASSERT_EQUAL(read_all(bytes, len, &num, &err), SLUICE_E_CORRUPT);
    CU_ASSERT_STRING_EQUAL(err.text, "byte 0: the tar is cut within a member");
}

/* One pax header with these records, and a member; what reading says. */
static sluice_status read_pax(const char *records, char type, struct sluice_tar_member *member,
                              struct sluice_err *err)
{
    static uint8_t bytes[8192];
    memset(bytes, 0, sizeof(bytes));
    size_t len = sluice_tar_header("pax", strlen(records), bytes);
    bytes[156] = (uint8_t)type;
    set_sum(bytes);
    memcpy(bytes + len, records, strlen(records));
    len += strlen(records) + sluice_tar_padding(strlen(records));
    len += sluice_tar_header("member.jpg", 0, bytes + len);
    struct bytes in = {.data = bytes, .len = len + 1024};
    struct sluice_tar tar = reader_of(&in);
    bool is_end = false;
    return sluice_tar_next(&tar, member, &is_end, err);
}

TEST(pax_records_are_taken_or_refused)
{
    struct sluice_tar_member member;
    REQUIRE_OK(
        read_pax("30 mtime=1700000000.123456789\n12 size=512\n10 path=x\n", 'x', &member, NULL));
    CU_ASSERT_STRING_EQUAL(member.name, "x");
    CU_ASSERT_EQUAL(member.bytes, 512);
    CHECK_OK(read_pax("20 GNU.sparse.map=1\n", 'x', &member, NULL));
    CU_ASSERT_STRING_EQUAL(member.kind, "sparse");
    CHECK_OK(read_pax("17 comment=a b c\n", 'g', &member, NULL));
    CU_ASSERT_STRING_EQUAL(member.name, "member.jpg");
    static const char *const wrong[] = {
        "10 path=x",
        "11 path=x\n",
        "8 path=x\n",
        "path=x\n",
        "0 path=x\n",
        "10path=xx\n",
        "9 pathxx\n",
        "99999999999 path=x\n",
        "8 path=\n",
        "10 size=x\n",
        "29 size=99999999999999999999\n",
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(read_pax(wrong[i], 'x', &member, &err), SLUICE_E_CORRUPT);
        CU_ASSERT_STRING_EQUAL(err.text, "byte 0: a damaged extended header");
    }
    CU_ASSERT_EQUAL(read_pax("10 path=x\n", 'g', &member, NULL), SLUICE_E_CORRUPT);
}

TEST(what_read_at_says_is_passed_on)
{
    static uint8_t bytes[8192];
    struct bytes broken = {.data = bytes, .len = write_two(bytes, "1.jpg", "2.jpg"), true};
    struct sluice_tar tar = reader_of(&broken);
    struct sluice_tar_member member;
    struct sluice_err err = {0};
    bool is_end = false;
    CU_ASSERT_EQUAL(sluice_tar_next(&tar, &member, &is_end, &err), SLUICE_E_IO);
    CU_ASSERT_STRING_EQUAL(err.text, "the disk is broken");
}
