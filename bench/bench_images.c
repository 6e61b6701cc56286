#include "bench/bench_images.h"

#include "base/file.h"
#include "bench/bench.h"
#include "datasets/manifest/manifest.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool load(const char *root, const char *name, struct bench_image *image)
{
    struct sluice_err err = {0};
    *image = (struct bench_image){0};
    if (asprintf(&image->path, "%s/%s", root, name) < 0)
        bench_die("no memory");
    if (sluice_file_read(image->path, 256u << 20, NULL, &image->file, &err) ||
        sluice_image_probe(image->file->data, image->file->len, &image->info, &err)) {
        fprintf(stderr, "%s: %s; passed over\n", image->path, err.text);
        sluice_buf_unref(image->file);
        free(image->path);
        return false;
    }
    return true;
}

struct bench_image *bench_images_load(const char *root, size_t max_images, size_t *num_images)
{
    struct sluice_err err = {0};
    struct sluice_manifest *manifest;
    if (sluice_manifest_scan(root, NULL, &manifest, &err))
        bench_die("%s", err.text);
    const size_t all = manifest->num_entries;
    const size_t want = max_images && max_images < all ? max_images : all;
    struct bench_image *images = calloc(want ? want : 1, sizeof(*images));
    if (!images)
        bench_die("no memory");
    *num_images = 0;
    /* Spread over the folder, whose order is that of its classes. */
    for (size_t i = 0; i < want; i++)
        *num_images +=
            load(root, sluice_manifest_at(manifest, i * all / want).path, &images[*num_images]);
    sluice_manifest_destroy(manifest);
    if (*num_images == 0)
        bench_die("%s has no images", root);
    return images;
}

void bench_images_free(struct bench_image *images, size_t num_images)
{
    for (size_t i = 0; i < num_images; i++) {
        sluice_buf_unref(images[i].file);
        free(images[i].path);
    }
    free(images);
}
