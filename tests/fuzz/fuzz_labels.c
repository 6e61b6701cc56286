/* Tables of labels from bytes, as CSV and as JSON lines: what is read has sound rows, and gives a
 * label to every image that it names. */

#include "datasets/list/labels.h"

#include "base/text.h"
#include "datasets/list/label_table.h"
#include "datasets/list/split_name.h"
#include "fuzz.h"

static void assign(const char *name, const uint8_t *data, size_t size,
                   const struct sluice_label_table *table,
                   const struct sluice_field_sources *sources)
{
    struct sluice_labels *labels = NULL;
    struct sluice_manifest_builder builder;
    bool are_names = false;
    if (sluice_labels_parse(name, (const char *)data, size, sources, &labels, NULL) != SLUICE_OK)
        return; /* a path that comes twice */
    FUZZ_CHECK(sluice_manifest_builder_init(&builder, NULL) == SLUICE_OK);
    FUZZ_CHECK(sluice_field_sources_name(sources, &builder.manifest->fields, NULL) == SLUICE_OK);
    size_t rows[100], num = 0; /* of the samples that are kept */
    for (size_t i = 0; i < table->num_rows && i < 100; i++) {
        if (table->rows[i].subset != SLUICE_SPLIT_TEST)
            rows[num++] = i;
        const char *path = table->rows[i].path;
        FUZZ_CHECK(sluice_manifest_add_entry(&builder, &(struct sluice_manifest_entry){0}, path,
                                             strlen(path), NULL) == SLUICE_OK);
    }
    const bool has_samples = num > 0 || table->num_rows == 0;
    FUZZ_CHECK(sluice_labels_assign(labels, &builder, &are_names, NULL) ==
               (has_samples ? SLUICE_OK : SLUICE_E_NOT_FOUND));
    FUZZ_CHECK(are_names == table->are_names || num == 0);
    FUZZ_CHECK(builder.manifest->num_entries == num);
    for (size_t i = 0; i < num; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(builder.manifest, i);
        const char *said = table->rows[rows[i]].label;
        const uint32_t label = entry.label;
        for (unsigned k = 0; k < sources->num && table->has_field[k]; k++) {
            const struct sluice_field_value value =
                sluice_manifest_field_at(builder.manifest, i, k);
            FUZZ_CHECK(
                !sluice_field_flaw(builder.manifest->fields.of[k].type, value.at, value.bytes));
        }
        if (!table->has_labels)
            continue;
        if (are_names)
            FUZZ_CHECK(strcmp(builder.manifest->classes[label], said) == 0);
        else
            FUZZ_CHECK(label == strtoul(said, NULL, 10));
    }
    sluice_manifest_destroy(builder.manifest);
    sluice_labels_destroy(labels);
}

static void read_as(const char *name, const uint8_t *data, size_t size,
                    const struct sluice_field_sources *sources)
{
    struct sluice_label_table table;
    struct sluice_err err = {{0}};
    bool is_table = false;
    char *text = malloc(size + 1);
    if (!text)
        return;
    memcpy(text, data, size);
    const sluice_status status =
        sluice_label_table_parse(&table, name, text, size, NULL, sources, &is_table, &err);
    if (status == SLUICE_OK) {
        FUZZ_CHECK(is_table || table.num_rows == 0);
        for (size_t i = 0; i < table.num_rows; i++) {
            const struct sluice_label_row *row = &table.rows[i];
            FUZZ_CHECK(sluice_is_utf8(row->path) && !row->label == !table.has_labels);
            FUZZ_CHECK(!row->label || (row->label[0] && sluice_is_utf8(row->label)));
            for (unsigned k = 0; k < sources->num; k++) {
                const struct sluice_field_place *place = &table.places[row->first_place + k];
                FUZZ_CHECK(place->at + place->bytes <= table.fields[k].len);
            }
            FUZZ_CHECK(row->subset >= -1 && row->subset <= SLUICE_SPLIT_TEST && row->line > 0);
            FUZZ_CHECK(i == 0 || row->line > table.rows[i - 1].line);
        }
        if (is_table)
            assign(name, data, size, &table, sources);
    } else {
        FUZZ_CHECK(status == SLUICE_E_INVALID && strncmp(err.text, name, strlen(name)) == 0);
    }
    sluice_label_table_clear(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sluice_field_sources sources[] = {
        {0, {{"", SLUICE_FIELD_NONE, ""}}},
        {1, {{"text", SLUICE_FIELD_NONE, ""}}},
        {1, {{"label", SLUICE_FIELD_VECTOR, ""}}},
        {1, {{"label", SLUICE_FIELD_BYTES, ""}}},
        {3,
         {{"text", SLUICE_FIELD_TEXT, ""},
          {"text", SLUICE_FIELD_JSON, "json"},
          {".txt", SLUICE_FIELD_TEXT, ""}}},
        {1, {{"text", SLUICE_FIELD_BOXES, ""}}},
        {2, {{"text", SLUICE_FIELD_KEYPOINTS, ""}, {"label", SLUICE_FIELD_NONE, ""}}},
    };
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        read_as("t.csv", data, size, &sources[i]);
        read_as("t.jsonl", data, size, &sources[i]);
    }
    return 0;
}
