#include "base/suggest.h"

#include "support/test.h"

static const char *const known[] = {
    "dataset-mode", "batch-size",  "batch-log", "net-bw", "pcie-bw", "epochs", "seed",
    "remote_nooff", "remote_auto", "p-one",     "p-two",  "p-three", "p-four", NULL,
};

struct mistake {
    const char *word, *text;
};

static void check(const struct mistake *mistakes, size_t num_mistakes)
{
    for (size_t i = 0; i < num_mistakes; i++) {
        char out[200];
        sluice_suggest(mistakes[i].word, known, out, sizeof(out));
        CU_ASSERT_STRING_EQUAL(out, mistakes[i].text);
    }
}

TEST(near_words_are_those_of_a_small_distance)
{
    static const struct mistake mistakes[] = {
        {"epoch", "; did you mean epochs?"},   /* one is missing */
        {"epocchs", "; did you mean epochs?"}, /* one too many */
        {"epocks", "; did you mean epochs?"},  /* another one */
        {"eopchs", "; did you mean epochs?"},  /* two are swapped */
        {"remote_auot", "; did you mean remote_auto?"},
        {"seed", "; did you mean seed?"},
        {"sede", "; did you mean seed?"},
    };
    check(mistakes, SLUICE_ARRAY_LEN(mistakes));
}

TEST(case_and_underscores_count_for_nothing)
{
    static const struct mistake mistakes[] = {{"REMOTE-AUTO", "; did you mean remote_auto?"},
                                              {"Dataset_Mode", "; did you mean dataset-mode?"}};
    check(mistakes, SLUICE_ARRAY_LEN(mistakes));
}

TEST(beginnings_and_parts_come_after_typing_errors)
{
    static const struct mistake mistakes[] = {
        {"dataset", "; did you mean dataset-mode?"},
        {"mode", "; did you mean dataset-mode?"},
        {"bw", "; did you mean net-bw or pcie-bw?"},
        {"batch", "; did you mean batch-size or batch-log?"},
    };
    check(mistakes, SLUICE_ARRAY_LEN(mistakes));
}

TEST(what_is_far_from_all_or_near_to_many_gets_no_answer)
{
    static const struct mistake mistakes[] = {
        {"", ""},
        {"x", ""},
        {"colour", ""},
        {"p", ""},
        {"p-", ""},
        {"remotely", ""},
        {"a-word-that-is-much-longer-than-any-option-of-any-program-has-ever-been", ""},
    };
    check(mistakes, SLUICE_ARRAY_LEN(mistakes));
}

TEST(a_word_may_end_before_its_text_and_the_known_ones_get_dashes)
{
    struct sluice_suggestion suggestion = sluice_suggest_begin("batch-sise=3", 10);
    sluice_suggest_try(&suggestion, "batch-size");
    char out[100];
    sluice_suggest_print(&suggestion, "--", out, sizeof(out));
    CU_ASSERT_STRING_EQUAL(out, "; did you mean --batch-size?");
}

TEST(nothing_is_written_past_the_room)
{
    for (size_t room = 1; room < 60; room++) {
        char out[64];
        memset(out, 'x', sizeof(out));
        sluice_suggest("bw", known, out, room);
        CU_ASSERT(strlen(out) < room);
        CU_ASSERT_EQUAL(out[room], 'x');
        memset(out, 'x', sizeof(out));
        sluice_join_words(known, out, room);
        CU_ASSERT(strlen(out) < room);
        CU_ASSERT_EQUAL(out[room], 'x');
    }
}

TEST(words_are_joined_by_commas)
{
    static const char *const words[] = {"a", "bc", "d", NULL};
    char out[20];
    sluice_join_words(words, out, sizeof(out));
    CU_ASSERT_STRING_EQUAL(out, "a, bc, d");
    sluice_join_words(words + 3, out, sizeof(out));
    CU_ASSERT_STRING_EQUAL(out, "");
}
