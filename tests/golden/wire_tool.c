/* wire_tool DIR: writes DIR/NAME.bin for each message of wire_messages.h. */
#include "golden/wire_messages.h"

#include <stdio.h>

static int write_one(const char *dir, const struct wire_golden *golden)
{
    char path[4096];
    struct sluice_message message = {0};
    struct sluice_err err = {0};
    if (golden->put(&message, &err) != SLUICE_OK) {
        fprintf(stderr, "%s: %s\n", golden->name, err.text);
        return 1;
    }
    snprintf(path, sizeof(path), "%s/%s.bin", dir, golden->name);
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        return 1;
    }
    for (size_t i = 0; i < message.num_segments; i++)
        fwrite(message.segments[i].data, 1, message.segments[i].len, file);
    sluice_message_clear(&message);
    const int has_error = ferror(file);
    return fclose(file) != 0 || has_error ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: wire_tool DIR\n");
        return 2;
    }
    int code = 0;
    for (size_t i = 0; i < wire_num_goldens; i++)
        code |= write_one(argv[1], &wire_goldens[i]);
    return code;
}
