#include "datasets/manifest/text_format.h"

#include "base/file.h"
#include "datasets/manifest/builder.h"
#include "image/codecs/coding.h"

#include <stdio.h>
#include <string.h>

void sluice_manifest_write_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '\t')
            fputs("\\t", file);
        else if (*text == '\n')
            fputs("\\n", file);
        else if (*text == '\\')
            fputs("\\\\", file);
        else
            fputc(*text, file);
    }
}

struct sluice_hash128 sluice_manifest_hash_all(const struct sluice_manifest *manifest,
                                               bool has_offsets)
{
    struct sluice_hash128 all = sluice_manifest_id(manifest);
    if (!sluice_fields_are_plain(&manifest->fields)) {
        char text[SLUICE_FIELDS_TEXT];
        sluice_fields_print(&manifest->fields, text);
        const struct sluice_hash128 links[] = {all, sluice_hash128(text, strlen(text))};
        all = sluice_hash128(links, sizeof(links));
    }
    for (size_t i = 0; i < manifest->num_classes; i++) {
        const struct sluice_hash128 links[] = {
            all, sluice_hash128(manifest->classes[i], strlen(manifest->classes[i]))};
        all = sluice_hash128(links, sizeof(links));
    }
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        const uint64_t row[] = {all.high,
                                all.low,
                                entry.subset,
                                entry.width,
                                entry.height,
                                entry.has_hash,
                                entry.coding,
                                entry.has_hash ? entry.hash.high : 0,
                                entry.has_hash ? entry.hash.low : 0,
                                (uint64_t)entry.mtime_ns,
                                entry.offset};
        all = sluice_hash128(row, sizeof(row) - (has_offsets ? 0 : sizeof(row[0])));
        if (!entry.values)
            continue;
        const struct sluice_hash128 links[] = {all,
                                               sluice_hash128(entry.values, entry.values_bytes)};
        all = sluice_hash128(links, sizeof(links));
    }
    return all;
}

const char *sluice_manifest_passed_over(const struct sluice_manifest *manifest,
                                        char room[SLUICE_PASSED_TEXT_BYTES], uint64_t *num_unread)
{
    const struct sluice_passed_over *passed = manifest->passed_over;
    *num_unread = passed ? sluice_passed_over_num_unread(passed) : 0;
    if (*num_unread && sluice_passed_over_text(passed, room, SLUICE_PASSED_TEXT_BYTES))
        return room;
    *num_unread = manifest->passed_unread;
    return manifest->passed_text;
}

/* At the end of the names of the columns, which readers of all versions take as they come:
 * "passed over", how many of the files may be images, if any may, and the files by suffix. */
static void write_passed_over(FILE *file, const struct sluice_manifest *manifest)
{
    char room[SLUICE_PASSED_TEXT_BYTES];
    uint64_t num_unread;
    const char *text = sluice_manifest_passed_over(manifest, room, &num_unread);
    if (text)
        fprintf(file, PASSED_OVER "%llu\t%s", (unsigned long long)num_unread, text);
    fputc('\n', file);
}

static void write_fields(FILE *file, const struct sluice_fields *fields)
{
    const bool are_plain = sluice_fields_are_plain(fields);
    if (!are_plain)
        fprintf(file, FIELDS_LINE "%u\n", fields->num);
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_named_field *field = &fields->of[i];
        const char *kind = sluice_field_kind_name(field->type.kind);
        if (are_plain)
            fprintf(file, TARGETS_LINE "%s\t%u\n", kind, field->type.dim);
        else
            fprintf(file, FIELD_LINE "%s\t%s\t%u\n", field->name, kind, field->type.dim);
    }
}

static void write_values(FILE *file, const struct sluice_fields *fields,
                         const struct sluice_manifest_entry *entry)
{
    for (unsigned i = 0; i < fields->num; i++) {
        const struct sluice_field_value value =
            sluice_fields_value(fields, i, entry->values, entry->values_bytes);
        fputc('\t', file);
        sluice_field_write(file, fields->of[i].type, value.at, value.bytes);
    }
}

/* Version 3 unless there are offsets or fields to write, so that programs that know none read
 * it. */
static void write_rows(FILE *file, const void *ctx)
{
    const struct sluice_manifest *manifest = ctx;
    const struct sluice_fields *fields = &manifest->fields;
    const bool has_offsets = fields->num || sluice_manifest_has_members(manifest);
    char id[33];
    sluice_hash128_hex(sluice_manifest_id(manifest), id);
    fprintf(file, "%s\n# id\t%s\n# classes\t%zu\n# samples\t%zu\n",
            !sluice_fields_are_plain(fields) ? FIRST_LINE_6
            : fields->num                    ? FIRST_LINE_5
            : has_offsets                    ? FIRST_LINE_4
                                             : FIRST_LINE,
            id, manifest->num_classes, manifest->num_entries);
    write_fields(file, fields);
    fprintf(file, "# path\tbytes\tlabel\tsubset\twidth\theight\txxh3_128\tcoding\tmtime_ns%s",
            has_offsets ? "\toffset" : "");
    for (unsigned i = 0; i < fields->num; i++)
        fprintf(file, "\t%s", fields->of[i].name);
    write_passed_over(file, manifest);
    for (size_t i = 0; i < manifest->num_classes; i++) {
        fputs("class\t", file);
        sluice_manifest_write_escaped(file, manifest->classes[i]);
        fputc('\n', file);
    }
    for (size_t i = 0; i < manifest->num_entries; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(manifest, i);
        char hash[33] = "-";
        if (entry.has_hash)
            sluice_hash128_hex(entry.hash, hash);
        sluice_manifest_write_escaped(file, entry.path);
        fprintf(file, "\t%llu\t%u\t%s\t%u\t%u\t%s\t%s\t%lld", (unsigned long long)entry.bytes,
                entry.label, entry.subset == SLUICE_SUBSET_VAL ? "val" : "train", entry.width,
                entry.height, hash, sluice_coding_name(entry.coding), (long long)entry.mtime_ns);
        if (has_offsets)
            fprintf(file, "\t%llu", (unsigned long long)entry.offset);
        write_values(file, fields, &entry);
        fputc('\n', file);
    }
    sluice_hash128_hex(sluice_manifest_hash_all(manifest, has_offsets), id);
    fprintf(file, LAST_LINE "%s\n", id);
}

sluice_status sluice_manifest_write(const struct sluice_manifest *manifest, const char *path,
                                    struct sluice_err *err)
{
    return sluice_file_print_atomic(path, write_rows, manifest, err);
}
