/* A user's program, in C and in C++: usage: main VERSION LIMITS */
#include <sluice/lend.h>
#include <sluice/sluice.h>

#include <stdio.h>
#include <string.h>

static int num_failed;

static void check(bool is_true, const char *what)
{
    if (!is_true) {
        printf("FAILED: %s\n", what);
        num_failed++;
    }
}

struct heard {
    int lines;
    char text[200];
};

static void hear(void *ctx, enum sluice_log_level level, const char *text)
{
    struct heard *heard = (struct heard *)ctx;
    (void)level;
    heard->lines++;
    snprintf(heard->text, sizeof(heard->text), "%s", text);
}

static sluice_status start(const char *key, const char *value, struct sluice_err *err)
{
    struct sluice_setting setting;
    struct sluice_server *server = NULL;
    setting.key = key;
    setting.value = value;
    memset(err, 0, sizeof(*err));
    const sluice_status status = sluice_server_start("/no/such/folder", &setting, 1, &server, err);
    check(server == NULL, "there is no such folder");
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    const bool has_limits = strcmp(argv[2], "1") == 0;
    struct sluice_err err;
    check(strcmp(sluice_version(), argv[1]) == 0, "the version is that of sluice.pc");
    check(strcmp(sluice_status_name(SLUICE_E_NOT_FOUND), "not found") == 0, "status name");

    check(start("prep-worker", "1", &err) == SLUICE_E_INVALID, "an unknown setting");
    check(strstr(err.text, "did you mean prep-workers") != NULL, err.text);
    const sluice_status status = start("max-connections", "20", &err);
    check(status == (has_limits ? SLUICE_E_NOT_FOUND : SLUICE_E_UNSUPPORTED), err.text);
    check(strstr(err.text, has_limits ? "/no/such/folder" : "libgrpc") != NULL, err.text);

    struct sluice_lend_options lending;
    struct sluice_lend *lend = NULL;
    memset(&lending, 0, sizeof(lending));
    memset(&err, 0, sizeof(err));
    check(sluice_lend_open(&lending, &lend, &err) == SLUICE_E_INVALID && !lend, "no path");
    check(strstr(err.text, "path") != NULL, err.text);

    /* The folder's disk is not found, which is a warning. */
    struct heard heard;
    memset(&heard, 0, sizeof(heard));
    sluice_set_log(hear, &heard, SLUICE_LOG_WARN);
    check(start("prep-io", "idle", &err) == SLUICE_E_NOT_FOUND, "no such folder");
    sluice_set_log(NULL, NULL, SLUICE_LOG_INFO);
    check(heard.lines == 1, "a line of the log came");
    check(strstr(heard.text, "prep-io idle") != NULL, heard.text);
    return num_failed ? 1 : 0;
}
