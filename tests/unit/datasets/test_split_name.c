#include "datasets/list/split_name.h"

#include "datasets/manifest/manifest.h"
#include "support/test.h"

TEST(words_name_splits_in_any_case)
{
    static const struct {
        const char *word;
        int split;
    } words[] = {
        {"train", SLUICE_SUBSET_TRAIN},
        {"training", SLUICE_SUBSET_TRAIN},
        {"val", SLUICE_SUBSET_VAL},
        {"valid", SLUICE_SUBSET_VAL},
        {"dev", SLUICE_SUBSET_VAL},
        {"validation", SLUICE_SUBSET_VAL},
        {"test", SLUICE_SPLIT_TEST},
        {"testing", SLUICE_SPLIT_TEST},
        {"Training", SLUICE_SUBSET_TRAIN},
        {"TEST", SLUICE_SPLIT_TEST},
        {"", -1},
        {"tra", -1},
        {"trainx", -1},
        {"valida", -1},
        {"tests", -1},
        {"dog", -1},
        {"de\x16", -1},
        {"va\xec", -1},
    };
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        CU_ASSERT_EQUAL(sluice_split_of_name(words[i].word, strlen(words[i].word)), words[i].split);
    CU_ASSERT_EQUAL(sluice_split_of_name("validation", 5), SLUICE_SUBSET_VAL);
    CU_ASSERT_EQUAL(sluice_split_of_name("validation", 6), -1);
}

TEST(the_first_folder_of_a_path_is_the_split)
{
    const char *rest = "as before";
    CU_ASSERT_EQUAL(sluice_split_of_path("cat/train/1.jpg", &rest), -1);
    CU_ASSERT_EQUAL(sluice_split_of_path("train", &rest), -1);
    CU_ASSERT_EQUAL(sluice_split_of_path("/train", &rest), -1);
    CU_ASSERT_STRING_EQUAL(rest, "as before");
    CU_ASSERT_EQUAL(sluice_split_of_path("Valid/cat/1.jpg", &rest), SLUICE_SUBSET_VAL);
    CU_ASSERT_STRING_EQUAL(rest, "cat/1.jpg");
    CU_ASSERT_EQUAL(sluice_split_of_path("test/", NULL), SLUICE_SPLIT_TEST);
}
