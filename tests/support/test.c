#include "support/test.h"

#include <CUnit/Basic.h>

#include <errno.h>
#include <ftw.h>
#include <locale.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct sluice_test *tests; /* by file and place */

static bool is_before(const struct sluice_test *a, const struct sluice_test *b)
{
    const int order = strcmp(a->file, b->file);
    return order ? order < 0 : a->place < b->place;
}

void sluice_test_register(struct sluice_test *test)
{
    struct sluice_test **at = &tests;
    while (*at && is_before(*at, test))
        at = &(*at)->next;
    test->next = *at;
    *at = test;
}

int sluice_test_main_with(const char *group)
{
    if (getenv("SLUICE_TEST_LOCALE"))
        sluice_test_comma_locale();
    if (CU_initialize_registry() != CUE_SUCCESS)
        return 1;
    CU_pSuite suite = CU_add_suite(program_invocation_short_name, NULL, NULL);
    for (const struct sluice_test *test = tests; suite && test; test = test->next) {
        const bool is_run = !test->group || (group && strcmp(group, test->group) == 0);
        if (is_run && !CU_add_test(suite, test->name, test->fn))
            suite = NULL;
    }
    if (!suite || !tests) {
        fprintf(stderr, "%s\n", suite ? "no tests" : CU_get_error_msg());
        return 1;
    }
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
    const unsigned failed = CU_get_number_of_failures();
    CU_cleanup_registry();
    return failed ? 1 : 0;
}

int sluice_test_main(void)
{
    return sluice_test_main_with(NULL);
}

void sluice_test_check_ok(sluice_status status, const char *call, const char *file, unsigned line,
                          bool is_fatal)
{
    char text[1000];
    snprintf(text, sizeof(text), "status %d of %s", (int)status, call);
    CU_assertImplementation(status == SLUICE_OK, line, text, file, "", is_fatal);
}

static struct sluice_err last_err;

struct sluice_err *sluice_test_err(void)
{
    last_err = (struct sluice_err){0};
    return &last_err;
}

void sluice_test_check_fails(sluice_status status, sluice_status want, const char *words,
                             const char *call, const char *file, unsigned line)
{
    char said[1000];
    snprintf(said, sizeof(said), "status %d, not %d, of %s", (int)status, (int)want, call);
    CU_assertImplementation(status == want, line, said, file, "", CU_FALSE);
    sluice_test_check_says(words, file, line);
}

void sluice_test_check_says(const char *words, const char *file, unsigned line)
{
    char said[1000];
    snprintf(said, sizeof(said), "\"%s\" is not in \"%s\"", words, last_err.text);
    CU_assertImplementation(strstr(last_err.text, words) != NULL, line, said, file, "", CU_FALSE);
}

void sluice_test_skip(const char *reason)
{
    printf("SKIPPED: %s\n", reason);
    exit(77);
}

uint64_t sluice_test_seed(void)
{
    static uint64_t seed;
    if (!seed) {
        const char *text = getenv("SLUICE_TEST_SEED");
        seed = text ? strtoull(text, NULL, 0) : 20240708;
        printf("seed %llu (SLUICE_TEST_SEED)\n", (unsigned long long)seed);
    }
    return seed;
}

bool sluice_test_is_long(void)
{
    const char *form = getenv("SLUICE_TORTURE");
    return form && strcmp(form, "long") == 0;
}

static char test_dir[512];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st, (void)kind, (void)ftw;
    return remove(path);
}

static void remove_test_dir(void)
{
    nftw(test_dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *sluice_test_dir(void)
{
    if (!test_dir[0]) {
        const char *tmp = getenv("TMPDIR");
        snprintf(test_dir, sizeof(test_dir), "%s/sluice-test-XXXXXX", tmp ? tmp : "/tmp");
        if (!mkdtemp(test_dir)) {
            perror("mkdtemp");
            exit(1);
        }
        atexit(remove_test_dir);
    }
    return test_dir;
}

const char *sluice_test_path(const char *name)
{
    static struct path {
        struct path *before;
        char text[1024];
    } * paths;
    struct path *path = malloc(sizeof(*path));
    if (!path || snprintf(path->text, sizeof(path->text), "%s/%s", sluice_test_dir(), name) >=
                     (int)sizeof(path->text)) {
        fprintf(stderr, "%s: no memory, or too long\n", name);
        exit(1);
    }
    path->before = paths;
    paths = path;
    return path->text;
}

void sluice_test_comma_locale(void)
{
    static const char name[] = "xx_XX.ISO-8859-1";
    char command[1600];
    snprintf(
        command, sizeof(command),
        "localedef -c -i %s/tests/support/comma_locale.src -f ISO-8859-1 %s/%s >/dev/null 2>&1",
        sluice_test_source_dir(), sluice_test_dir(), name);
    (void)!system(command); /* its exit code is of warnings, too */
    setenv("LOCPATH", sluice_test_dir(), 1);
    if (!setlocale(LC_NUMERIC, name) || !setlocale(LC_CTYPE, name))
        sluice_test_skip("localedef made no locale: are there charmaps (package locales)?");
}

const char *sluice_test_source_dir(void)
{
    const char *dir = getenv("SLUICE_SOURCE"); /* on a machine that did not build */
    return dir ? dir : SLUICE_SOURCE_DIR;
}

int sluice_test_port(void)
{
    /* Bound and not listened on: a listener that reuses addresses, too, may have it beside this. */
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(fd, (struct sockaddr *)&address, len) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0) {
        perror("a port");
        exit(1);
    }
    return ntohs(address.sin_port);
}

const char *sluice_test_data(const char *name)
{
    static char path[1024];
    const char *base = getenv("SLUICE_DATA");
    if (base)
        snprintf(path, sizeof(path), "%s/%s", base, name);
    else
        snprintf(path, sizeof(path), "%s/../shared/data/%s", SLUICE_SOURCE_DIR, name);
    return access(path, R_OK) == 0 ? path : NULL;
}

uint8_t *sluice_test_read_file(const char *path, size_t *len)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fseek(file, 0, SEEK_END);
    const long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1);
    if (!data || size < 0 || fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    *len = (size_t)size;
    return data;
}

void sluice_test_write_file(const char *path, const void *data, size_t len)
{
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, len, file) != len || fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

void sluice_test_put_text(const char *folder, const char *path, const char *text)
{
    char full[2048];
    const int len = snprintf(full, sizeof(full), "%s/%s", folder, path);
    if (len < 0 || (size_t)len >= sizeof(full)) {
        fprintf(stderr, "%s/%s: too long\n", folder, path);
        exit(1);
    }
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(full, 0777) != 0 && errno != EEXIST) {
            perror(full);
            exit(1);
        }
        *slash = '/';
    }
    sluice_test_write_file(full, text, strlen(text));
}
