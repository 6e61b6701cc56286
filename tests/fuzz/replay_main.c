#include "fuzz.h"

/* Runs a fuzz target over every file of a corpus: what ctest does where there
 * is no libFuzzer.  Each input lies in memory of exactly its size, so that
 * AddressSanitizer sees a read beyond it. */

#include <dirent.h>

static void run_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    long size = -1;
    if (file && fseek(file, 0, SEEK_END) == 0)
        size = ftell(file);
    uint8_t *data = size >= 0 ? malloc(size ? (size_t)size : 1) : NULL;
    if (!data || fseek(file, 0, SEEK_SET) != 0 ||
        fread(data, 1, (size_t)size, file) != (size_t)size) {
        perror(path);
        exit(1);
    }
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

int main(int argc, char **argv)
{
    unsigned num_files = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **entries;
        const int num_entries = scandir(argv[i], &entries, NULL, alphasort);
        if (num_entries < 0) {
            perror(argv[i]);
            return 1;
        }
        for (int k = 0; k < num_entries; k++) {
            if (entries[k]->d_name[0] != '.') {
                char path[4096];
                snprintf(path, sizeof(path), "%s/%s", argv[i], entries[k]->d_name);
                printf("%s\n", path);
                fflush(stdout);
                run_file(path);
                num_files++;
            }
            free(entries[k]);
        }
        free(entries);
    }
    if (num_files == 0) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER...: nothing to replay\n", argv[0]);
        return 1;
    }
    printf("%u inputs\n", num_files);
    return 0;
}
