#include "datasets/label_table.h"

#include "support/test.h"

#include <stdlib.h>
#include <string.h>

static struct sluice_label_table table;
static bool is_table;

static sluice_status parse(const char *name, const char *text, size_t len, struct sluice_err *err)
{
    char *copy = malloc(len + 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(copy);
    memcpy(copy, text, len);
    copy[len] = '!'; /* nobody may rely on a NUL there */
    sluice_label_table_clear(&table);
    return sluice_label_table_parse(&table, name, copy, len, &is_table, err);
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
    CU_ASSERT_EQUAL_FATAL(status, SLUICE_OK);
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

static void reads_csv_with_quotes_other_columns_and_any_newline(void)
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

static void names_of_classes_are_read_and_path_is_another_word(void)
{
    static const struct expected rows[] = {{"1.jpg", "a cat", -1, 2}, {"2.jpg", "dog", -1, 3}};
    expect("labels.csv", "label,path\na cat,1.jpg\ndog,2.jpg\n", true, rows, 2);
}

static void reads_json_lines(void)
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

static void what_has_not_both_columns_is_no_table(void)
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
        {"metadata.jsonl", "nonsense", 8},
    };
    for (size_t i = 0; i < SLUICE_TEST_COUNT(others); i++) {
        CU_ASSERT_EQUAL(parse(others[i].name, others[i].text, others[i].len, NULL), SLUICE_OK);
        CU_ASSERT(!is_table && table.num_rows == 0);
    }
}

static void a_wrong_row_is_named_with_line_and_field(void)
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
         "t.csv:3: field 'label': '1000000000' is too large"},
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
    for (size_t i = 0; i < SLUICE_TEST_COUNT(wrong); i++) {
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

int main(void)
{
    static const struct sluice_test tests[] = {
        SLUICE_TEST(reads_csv_with_quotes_other_columns_and_any_newline),
        SLUICE_TEST(names_of_classes_are_read_and_path_is_another_word),
        SLUICE_TEST(reads_json_lines),
        SLUICE_TEST(what_has_not_both_columns_is_no_table),
        SLUICE_TEST(a_wrong_row_is_named_with_line_and_field),
    };
    return sluice_test_run("label_table", tests, SLUICE_TEST_COUNT(tests));
}
