#ifndef SLUICE_TESTS_SUPPORT_TEST_H
#define SLUICE_TESTS_SUPPORT_TEST_H

#include "base/compiler.h"
#include "base/error.h"

#include <CUnit/CUnit.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __clang_analyzer__
/* A fatal assertion that fails does not return, which the analyser cannot see in CUnit. */
#undef CU_ASSERT_FATAL
#undef CU_ASSERT_EQUAL_FATAL
#undef CU_ASSERT_PTR_NOT_NULL_FATAL
#define CU_ASSERT_FATAL(value) ((value) ? (void)0 : abort())
#define CU_ASSERT_EQUAL_FATAL(actual, expected) ((actual) == (expected) ? (void)0 : abort())
#define CU_ASSERT_PTR_NOT_NULL_FATAL(value) ((value) != NULL ? (void)0 : abort())
#define REQUIRE_OK(...) ((__VA_ARGS__) == SLUICE_OK ? (void)0 : abort())
#else
/* A call succeeds; else the test ends. */
#define REQUIRE_OK(...) sluice_test_check_ok((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__, true)
#endif
/* A call succeeds. */
#define CHECK_OK(...) sluice_test_check_ok((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__, false)

/* The little that every CUnit program here shares.
 *
 *     TEST(rejects_zero_width)
 *     {
 *         CU_ASSERT_EQUAL(...);
 *     }
 *
 * The program's main() is here and runs its tests in the order of the file.  A program that
 * prepares something has a main() of its own, which ends with sluice_test_main().
 *
 * Exit codes: 0 all passed, 1 some failed, 77 skipped. */

struct sluice_test {
    const char *name;
    void (*fn)(void);
    const char *group; /* or NULL */
    const char *file;
    int place; /* in its file */
    struct sluice_test *next;
};

#define TEST(test) TEST_OF(NULL, test)
/* Run only by a program that is told this group. */
#define TEST_OF(group, test)                                                                       \
    static void test(void);                                                                        \
    __attribute__((constructor)) static void test##_is_registered(void)                            \
    {                                                                                              \
        static struct sluice_test self = {#test, test, group, __FILE__, __COUNTER__, NULL};        \
        sluice_test_register(&self);                                                               \
    }                                                                                              \
    static void test(void)

/* Borrows the test until the program ends. */
void sluice_test_register(struct sluice_test *test);

/* Runs the tests without a group, or with these those of one group; the program's exit code.  With
 * SLUICE_TEST_LOCALE in the environment they run in the locale of sluice_test_comma_locale(). */
int sluice_test_main(void);
int sluice_test_main_with(const char *group);

/* A call that was given sluice_test_err() fails with this status and these words in its text. */
#define CHECK_FAILS(status, words, ...)                                                            \
    sluice_test_check_fails((__VA_ARGS__), status, words, #__VA_ARGS__, __FILE__, __LINE__)
/* So has the last one these words. */
#define CHECK_SAYS(words) sluice_test_check_says(words, __FILE__, __LINE__)

void sluice_test_check_ok(sluice_status status, const char *call, const char *file, unsigned line,
                          bool is_fatal);
/* Empty: for the next call. */
struct sluice_err *sluice_test_err(void);
void sluice_test_check_fails(sluice_status status, sluice_status want, const char *words,
                             const char *call, const char *file, unsigned line);
void sluice_test_check_says(const char *words, const char *file, unsigned line);

/* Ends the program as skipped, saying why. */
void sluice_test_skip(const char *reason) __attribute__((noreturn));

/* The seed for this run's random inputs: SLUICE_TEST_SEED if set, else fixed; printed once. */
uint64_t sluice_test_seed(void);

/* Whether the environment asks for the long form of the test, as scripts/torture does
 * (SLUICE_TORTURE=long): of tests with the label torture. */
bool sluice_test_is_long(void);

/* A new empty folder under TMPDIR, removed with all it holds when the program ends. */
const char *sluice_test_dir(void);

/* A path in that folder; its memory is kept until the program ends. */
const char *sluice_test_path(const char *name);

/* The process has the locale of comma_locale.src from now on: a decimal comma, an I whose lower
 * case is the letter 0xE4, and a space 0xA0.  Without localedef, and charmaps as Debian's package
 * locales has, the test is skipped. */
void sluice_test_comma_locale(void);

/* A port of 127.0.0.1 that nobody listens on and nobody else is given until this program ends: for
 * a server that comes and goes. */
int sluice_test_port(void);

/* Folders of real images for tests that need them: $SLUICE_DATA/<name> if that is set, else
 * ../shared/data/<name> beside the source tree; NULL where there is none. */
const char *sluice_test_data(const char *name);

/* The source tree, for committed test files: $SLUICE_SOURCE, else where this was built. */
const char *sluice_test_source_dir(void);

/* Reads a whole file into malloc'ed memory; fails the program if it cannot. */
uint8_t *sluice_test_read_file(const char *path, size_t *len);
void sluice_test_write_file(const char *path, const void *data, size_t len);
/* A file of this text at folder/path, and the folders on the way to it. */
void sluice_test_put_text(const char *folder, const char *path, const char *text);

#endif
