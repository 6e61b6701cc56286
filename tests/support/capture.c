#include "support/capture.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef SLUICE_COVERAGE
/* libgcov's: a child that ends by _exit would take its counts with it. */
void __gcov_dump(void);
#endif

static FILE *files[2];
static int saved[2];

void sluice_test_capture_begin(void)
{
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        files[i] = tmpfile();
        saved[i] = dup(STDOUT_FILENO + i);
        if (!files[i] || saved[i] < 0 || dup2(fileno(files[i]), STDOUT_FILENO + i) < 0) {
            perror("capture");
            exit(1);
        }
    }
}

/* Takes the time away that log lines begin with. */
static void drop_times(char *text)
{
    static const char shape[] = "0000-00-00T00:00:00.000Z ";
    char *out = text;
    for (char *line = text; *line;) {
        size_t same = 0;
        while (shape[same] && (shape[same] == '0' ? isdigit((unsigned char)line[same]) != 0
                                                  : line[same] == shape[same]))
            same++;
        if (!shape[same])
            line += same;
        const size_t len = strcspn(line, "\n");
        const size_t whole = len + (line[len] == '\n');
        memmove(out, line, whole);
        out += whole;
        line += whole;
    }
    *out = '\0';
}

void sluice_test_capture_end(struct sluice_test_output *output)
{
    char *const texts[2] = {output->out, output->err};
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        rewind(files[i]);
        const size_t len = fread(texts[i], 1, sizeof(output->out) - 1, files[i]);
        texts[i][len] = 0;
        dup2(saved[i], STDOUT_FILENO + i);
        close(saved[i]);
        fclose(files[i]);
    }
    drop_times(output->err);
}

bool sluice_test_capture_has(const char *text)
{
    static char err[sizeof(((struct sluice_test_output *)0)->err)];
    /* By pread: the position is where this process writes. */
    const ssize_t len = pread(fileno(files[1]), err, sizeof(err) - 1, 0);
    err[len < 0 ? 0 : len] = 0;
    return strstr(err, text);
}

int sluice_test_child(int (*fn)(void *ctx), void *ctx, struct sluice_test_output *output)
{
    int status = -1;
    sluice_test_capture_begin();
    const pid_t child = fork();
    if (child == 0) {
        const int code = fn(ctx);
        fflush(NULL);
#ifdef SLUICE_COVERAGE
        __gcov_dump();
#endif
        _exit(code);
    }
    const pid_t waited = child > 0 ? waitpid(child, &status, 0) : -1;
    sluice_test_capture_end(output);
    if (waited < 0) {
        perror("child");
        exit(1);
    }
    return status;
}

void sluice_test_wait_blocked(pid_t tid)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    for (;;) {
        char text[512] = "";
        FILE *file = fopen(path, "r");
        if (!file)
            return; /* it ended */
        const size_t len = fread(text, 1, sizeof(text) - 1, file);
        fclose(file);
        text[len] = 0;
        /* "pid (name) S ...", and the name may hold anything. */
        const char *state = strrchr(text, ')');
        if (state && strncmp(state, ") S", 3) == 0)
            return;
        sched_yield();
    }
}
