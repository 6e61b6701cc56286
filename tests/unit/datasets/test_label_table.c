#include "datasets/list/label_table.h"

#include "support/test.h"

static struct sluice_label_table table;
static bool is_table;
static struct sluice_field_sources sources; /* fields that are asked for */
static const char *label_key;               /* likewise */

static sluice_status parse(const char *name, const char *text, size_t len, struct sluice_err *err)
{
    char *copy = malloc(len + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, text, len);
    copy[len] = '!'; /* nobody may rely on a NUL there */
    sluice_label_table_clear(&table);
    return sluice_label_table_parse(&table, name, copy, len, label_key, &sources, &is_table, err);
}

struct expected {
    const char *path, *label;
    int subset;
    size_t line;
};

static void expect(const char *name, const char *text, bool are_names,
                   const struct expected *expected, size_t num)
{
    struct sluice_err err = {0};
    const sluice_status status = parse(name, text, strlen(text), &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    CU_ASSERT(is_table);
    CU_ASSERT_EQUAL_FATAL(table.num_rows, num);
    CU_ASSERT_EQUAL(table.are_names, are_names);
    for (size_t i = 0; i < num; i++) {
        CU_ASSERT_STRING_EQUAL(table.rows[i].path, expected[i].path);
        CU_ASSERT_STRING_EQUAL(table.rows[i].label, expected[i].label);
        CU_ASSERT_EQUAL(table.rows[i].subset, expected[i].subset);
        CU_ASSERT_EQUAL(table.rows[i].line, expected[i].line);
    }
}

TEST(reads_csv_with_quotes_other_columns_and_any_newline)
{
    static const struct expected rows[] = {
        {"a/1.jpg", "3", SLUICE_SUBSET_TRAIN, 2},
        {"b, \"two\"\n.jpg", "0", SLUICE_SUBSET_VAL, 3},
        {"c.jpg", "17", SLUICE_SUBSET_VAL, 6},
    };
    expect("m.csv",
           "\xef\xbb\xbf"
           "file_name,text,label,split\r\n"
           "./a/1.jpg,,3,train\r\n"
           "\"b, \"\"two\"\"\n.jpg\",\"a \"\"text\"\"\",\"0\",val\n"
           "\n"
           "c.jpg,x,17,validation",
           false, rows, 3);
}

TEST(names_of_classes_are_read_and_path_is_another_word)
{
    static const struct expected rows[] = {{"1.jpg", "a cat", -1, 2}, {"2.jpg", "dog", -1, 3}};
    expect("labels.csv", "label,path\na cat,1.jpg\ndog,2.jpg\n", true, rows, 2);
}

TEST(reads_json_lines)
{
    static const struct expected rows[] = {{"a \"1\"\xc3\xa4.jpg", "3", -1, 1},
                                           {"b.jpg", "0", SLUICE_SUBSET_VAL, 3}};
    expect("metadata.jsonl",
           "{\"file_name\": \"a \\\"1\\\"\\u00e4.jpg\", \"label\": 3, \"box\": [1, 2]}\n"
           " \r\n"
           "{\"split\": \"val\", \"label\": 0, \"path\": \"b.jpg\"}",
           false, rows, 2);
    static const struct expected names[] = {{"a.jpg", "404", -1, 1}};
    expect("metadata.jsonl", "{\"file_name\": \"a.jpg\", \"label\": \"404\"}\n", true, names, 1);
}

TEST(what_has_not_both_columns_is_no_table)
{
    static const struct {
        const char *name, *text;
        size_t len;
    } others[] = {
        {"labels.csv", "", 0},
        {"labels.csv", "x", 1},
        {"labels.csv", "n01440764,tench\nn01443537,\"goldfish\n", 36},
        {"labels.csv", "file_name,text\na.jpg,a cat\n", 27},
        {"labels.csv", "path\0,label\n", 12},
        {"labels.csv", "\"an open quote,label\n", 21},
        {"metadata.jsonl", "", 0},
        {"metadata.jsonl", "{\"file_name\": \"a.jpg\", \"text\": \"a cat\"}\n", 41},
        {"metadata.jsonl", "[1, 2]\n", 7},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(others); i++) {
        CHECK_OK(parse(others[i].name, others[i].text, others[i].len, NULL));
        CU_ASSERT(!is_table && table.num_rows == 0);
    }
}

/* As what Python's json.dumps() writes. */
static const char *const damages[] = {
    "NaN",
    "-Infinity",
    "\"a\\u0000b\"",
    "\"\\ud83d\"",
    "18446744073709551615",
    "-9223372036854775809",
};

TEST(what_python_writes_is_read_in_columns_that_nobody_asks_for)
{
    static const struct expected rows[] = {{"a/1.jpg", "zebra", -1, 1}, {"b/2.jpg", "ant", -1, 2}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(damages); i++) {
        for (int line = 0; line < 2; line++) {
            char text[400];
            snprintf(text, sizeof(text),
                     "{\"file_name\": \"a/1.jpg\", \"x\": {\"y\": [1, %s]}, \"label\": \"zebra\"}\n"
                     "{\"file_name\": \"b/2.jpg\", \"label\": \"ant\", \"x\": %s}\n",
                     line == 0 ? damages[i] : "1", line == 1 ? damages[i] : "2");
            expect("metadata.jsonl", text, true, rows, 2);
        }
    }
}

TEST(a_line_that_is_damaged_is_an_error_in_every_row)
{
    for (size_t i = 0; i <= SLUICE_ARRAY_LEN(damages); i++) {
        for (int line = 0; line < 2; line++) {
            char bad[200], text[400], where[40];
            struct sluice_err err = {0};
            if (i < SLUICE_ARRAY_LEN(damages))
                snprintf(bad, sizeof(bad), "{\"file_name\": \"a.jpg\", \"label\": %s}", damages[i]);
            else
                snprintf(bad, sizeof(bad), "{\"file_name\": \"a.jpg\", \"label\": \"x");
            snprintf(text, sizeof(text), "%s\n%s\n",
                     line == 0 ? bad : "{\"file_name\": \"b.jpg\", \"label\": 1}",
                     line == 1 ? bad : "{\"file_name\": \"b.jpg\", \"label\": 1}");
            snprintf(where, sizeof(where), "metadata.jsonl:%d: ", line + 1);
            CU_ASSERT_EQUAL(parse("metadata.jsonl", text, strlen(text), &err), SLUICE_E_INVALID);
            CU_ASSERT(strncmp(err.text, where, strlen(where)) == 0);
        }
    }
}

TEST(a_column_of_labels_has_one_of_four_names_or_that_which_is_asked_for)
{
    static const struct {
        const char *name, *text, *key, *column; /* NULL: no table */
        const char *label;
    } cases[] = {
        {"m.csv", "file_name,class\na.jpg,cat\n", NULL, "class", "cat"},
        {"m.csv", "file_name,target,cls\na.jpg,1,2\n", NULL, "cls", "2"},
        {"m.csv", "file_name,class,label,id\na.jpg,1,2,3\n", NULL, "label", "2"},
        {"m.csv", "file_name,class,label,id\na.jpg,1,2,3\n", "id", "id", "3"},
        {"m.csv", "file_name,width\na.jpg,640\n", NULL, NULL, NULL},
        {"m.csv", "file_name,label\na.jpg,1\n", "", NULL, NULL},
        {"m.jsonl", "{\"file_name\": \"a.jpg\", \"id\": 7, \"label\": \"x\"}", NULL, "label", "x"},
        {"m.jsonl", "{\"file_name\": \"a.jpg\", \"id\": 7, \"class\": 8}", NULL, "class", "8"},
        {"m.jsonl", "{\"file_name\": \"a.jpg\", \"id\": 7, \"label\": 8}", "id", "id", "7"},
        {"m.jsonl", "{\"file_name\": \"a.jpg\", \"id\": 7}", NULL, NULL, NULL},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        label_key = cases[i].key;
        CHECK_OK(parse(cases[i].name, cases[i].text, strlen(cases[i].text), NULL));
        CU_ASSERT_EQUAL_FATAL(is_table, cases[i].column != NULL);
        if (!is_table)
            continue;
        CU_ASSERT_STRING_EQUAL(table.label_name, cases[i].column);
        CU_ASSERT_STRING_EQUAL(table.rows[0].label, cases[i].label);
    }
    label_key = NULL;
}

struct expected_target {
    const void *bytes;
    size_t len;
};

static void expect_targets(const char *name, const char *text, enum sluice_field_kind kind,
                           const struct expected_target *want, size_t num)
{
    struct sluice_err err = {0};
    const sluice_status status = parse(name, text, strlen(text), &err);
    if (status != SLUICE_OK)
        printf("%s\n", err.text);
    REQUIRE_OK(status);
    CU_ASSERT(is_table && table.fields[0].type.kind == kind);
    CU_ASSERT_EQUAL_FATAL(table.num_rows, num);
    for (size_t i = 0; i < num; i++) {
        const struct sluice_field_value value = sluice_label_table_value(&table, &table.rows[i], 0);
        CU_ASSERT_EQUAL_FATAL(value.bytes, want[i].len);
        CU_ASSERT(memcmp(value.at, want[i].bytes, want[i].len) == 0);
    }
}

TEST(targets_are_numbers_or_text_of_a_column)
{
    static const float numbers[] = {0.5f, -1, 2, 3};
    static const struct expected_target pairs[] = {{numbers, 8}, {numbers + 2, 8}},
                                        singles[] = {{numbers, 4}, {numbers + 2, 4}},
                                        texts[] = {{"a \"cat\",\n1", 10}, {"", 0}, {"7", 1}};
    sources = (struct sluice_field_sources){1, {{"y", SLUICE_FIELD_NONE, ""}}};
    expect_targets("m.csv", "path,y\n1.jpg,\"0.5,-1\"\n2.jpg,[2 3]\n", SLUICE_FIELD_VECTOR, pairs,
                   2);
    CU_ASSERT(!table.has_labels && !table.rows[0].label);
    expect_targets("m.csv", "path,label,y\n1.jpg,4,0.5\n2.jpg,5,2\n", SLUICE_FIELD_VECTOR, singles,
                   2);
    CU_ASSERT(table.has_labels);
    CU_ASSERT_STRING_EQUAL(table.rows[1].label, "5");
    expect_targets("m.csv", "path,y\n1.jpg,\"a \"\"cat\"\",\n1\"\n2.jpg,\n3.jpg,7\n",
                   SLUICE_FIELD_BYTES, texts, 3);
    expect_targets("m.jsonl",
                   "{\"path\": \"1\", \"y\": [0.5, -1]}\n{\"path\": \"2\", \"y\": [2, 3]}\n",
                   SLUICE_FIELD_VECTOR, pairs, 2);
    expect_targets("m.jsonl", "{\"path\": \"1\", \"y\": 0.5}\n{\"path\": \"2\", \"y\": 2}\n",
                   SLUICE_FIELD_VECTOR, singles, 2);
    static const struct expected_target json[] = {
        {"[[1,2.5],[\"\xc3\xa4\"]]", 16}, {"{\"a\":true}", 10}, {"text", 4}, {"[1]", 3}, {"3", 1}};
    expect_targets("m.jsonl",
                   "{\"path\": \"1\", \"y\": [[1, 2.5], [\"\\u00e4\"]]}\n"
                   "{\"path\": \"2\", \"y\": {\"a\": true}}\n"
                   "{\"path\": \"3\", \"y\": \"text\"}\n{\"path\": \"4\", \"y\": [1]}\n"
                   "{\"path\": \"5\", \"y\": 3}\n",
                   SLUICE_FIELD_BYTES, json, 5);
    sources.of[0].kind = SLUICE_FIELD_VECTOR;
    expect_targets("m.jsonl", "{\"path\": \"1\", \"y\": \"0.5\"}\n{\"path\": \"2\", \"y\": 2}\n",
                   SLUICE_FIELD_VECTOR, singles, 2);
    sources.num = 0;
}

/* The label itself may be a number with a fraction. */
TEST(the_column_of_labels_may_be_the_target)
{
    static const float numbers[] = {0.5f, 2};
    static const struct expected_target want[] = {{numbers, 4}, {numbers + 1, 4}};
    sources = (struct sluice_field_sources){1, {{"label", SLUICE_FIELD_NONE, ""}}};
    expect_targets("m.csv", "path,label\n1.jpg,0.5\n2.jpg,2\n", SLUICE_FIELD_VECTOR, want, 2);
    CU_ASSERT(!table.has_labels);
    expect_targets("m.jsonl",
                   "{\"path\": \"1\", \"label\": 0.5}\n{\"path\": \"2\", \"label\": 2}\n",
                   SLUICE_FIELD_VECTOR, want, 2);
    CU_ASSERT(!table.has_labels);
    sources.num = 0;
}

TEST(a_wrong_target_is_named_with_line_and_field)
{
    static const struct {
        const char *name, *text, *says;
    } wrong[] = {
        {"t.csv", "path,y\n1,1\n2,a\n",
         "t.csv:3: field 'y': 'a' is no list of numbers, as the ones before are; --target-type"},
        {"t.csv", "path,y\n1,1\n2,1 2\n", "t.csv:3: field 'y': '1 2' has 2 numbers, but the ones"},
        {"t.csv", "path,y\n1,1e99\n", "t.csv:2: field 'y': '1e99' is a target with a number that"},
        {"t.csv", "path,y\n1,1\n2,\n", "t.csv:3: field 'y': '' is no list of numbers"},
        {"t.csv", "path,y,y\n1,1,2\n", "t.csv:1: field 'y': 'y' is a column twice"},
        {"t.jsonl", "{\"path\":\"1\",\"y\":1}\n{\"path\":\"2\"}\n",
         "t.jsonl:2: field 'y': '' is missing"},
        {"t.jsonl", "{\"path\":\"1\",\"y\":1}\n{\"path\":\"2\",\"y\":\"a\"}\n",
         "t.jsonl:2: field 'y': 'its value' is no list of numbers"},
    };
    sources = (struct sluice_field_sources){1, {{"y", SLUICE_FIELD_NONE, ""}}};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(wrong[i].name, wrong[i].text, strlen(wrong[i].text), &err),
                        SLUICE_E_INVALID);
        if (!strstr(err.text, wrong[i].says))
            printf("%s\n", err.text);
        CU_ASSERT_PTR_NOT_NULL(strstr(err.text, wrong[i].says));
    }
    sources.num = 0;
}

TEST(a_wrong_row_is_named_with_line_and_field)
{
#define HEAD "path,label,split\n1.jpg,0,train\n"
    static const struct {
        const char *name, *text, *says;
    } wrong[] = {
        {"t.csv", HEAD "2.jpg,1\n", "t.csv:3: 2 fields, but line 1 names 3"},
        {"t.csv", HEAD "2.jpg,1,val,9\n", "t.csv:3: 4 fields, but line 1 names 3"},
        {"t.csv", HEAD ",1,val\n", "t.csv:3: field 'file_name': '' is empty"},
        {"t.csv", HEAD "2.jpg,,val\n", "t.csv:3: field 'label': '' is empty"},
        {"t.csv", HEAD "2.jpg,-1,val\n",
         "t.csv:3: field 'label': '-1' is a name, but the rows before have integers"},
        {"t.csv", HEAD "2.jpg,1000000000,val\n",
         "t.csv:3: field 'label': '1000000000' is not a label from 0 to 9999999"},
        {"t.csv", HEAD "2.jpg,10000000,val\n",
         "t.csv:3: field 'label': '10000000' is not a label from 0 to 9999999"},
        {"t.csv", HEAD "2.jpg,1,tests\n",
         "t.csv:3: field 'split': 'tests' is none of train, val, validation and test"},
        {"t.csv", HEAD "\xff.jpg,1,val\n", "t.csv:3: field 'file_name': '\\xff.jpg' is not UTF-8"},
        {"t.csv", HEAD "\"2.jpg,1,val\n", "t.csv:3: a quote that is not closed"},
        {"t.csv", HEAD "\"2\".jpg,1,val\n", "t.csv:3: text behind a quoted field"},
        {"t.csv", HEAD "2\".jpg,1,val\n", "t.csv:3: a quote within a field"},
        {"t.csv", "path,label\n1.jpg,cat\n2.jpg,7\n",
         "t.csv:3: field 'label': '7' is an integer, but the rows before have names"},
        {"t.csv", "path,label,file_name\n",
         "t.csv:1: field 'file_name': 'file_name' is a column twice"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": 0}\n{\"path\": \"2.jpg\"}\n",
         "t.jsonl:2: field 'label': '' is missing"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": 0}\n\n{\"label\": 1}\n",
         "t.jsonl:3: field 'file_name': '' is missing"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": 0.5}\n",
         "t.jsonl:1: field 'label': 'its value' is neither a name nor an integer from 0"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": -1}\n",
         "t.jsonl:1: field 'label': 'its value' is neither a name nor an integer from 0"},
        {"t.jsonl", "{\"path\": 1, \"label\": 1}\n",
         "t.jsonl:1: field 'file_name': 'its value' is no text"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": 0}\n[7]\n", "t.jsonl:2: no JSON object"},
        {"t.jsonl", "{\"path\": \"1.jpg\", \"label\": 0}\n{\"path\"\n", "t.jsonl:2: "},
        {"t.jsonl",
         "{\"path\": \"1.jpg\", \"label\": 0}\n{\"path\": \"2.jpg\", \"label\": \"cat\"}\n",
         "t.jsonl:2: field 'label': 'cat' is a name, but the rows before have integers"},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(wrong); i++) {
        struct sluice_err err = {0};
        CU_ASSERT_EQUAL(parse(wrong[i].name, wrong[i].text, strlen(wrong[i].text), &err),
                        SLUICE_E_INVALID);
        CU_ASSERT_EQUAL(strncmp(err.text, wrong[i].says, strlen(wrong[i].says)), 0);
        if (strncmp(err.text, wrong[i].says, strlen(wrong[i].says)) != 0)
            printf("%s\n%s\n", err.text, wrong[i].says);
    }
    struct sluice_err err = {0};
    static const char with_nul[] = HEAD "2\0.jpg,1,val\n";
    CU_ASSERT_EQUAL(parse("t.csv", with_nul, sizeof(with_nul) - 1, &err), SLUICE_E_INVALID);
    CU_ASSERT_STRING_EQUAL(err.text, "t.csv: a NUL byte");
    sluice_label_table_clear(&table);
    sluice_label_table_clear(&table);
}
