#include "datasets/manifest/join.h"

#include "base/rng.h"
#include "datasets/manifest/builder.h"
#include "support/test.h"

#include <sys/stat.h>

/* Of shards the reference is what sluice_manifest_scan() makes of all files in one folder. */

#define MAX_PARTS 4

enum split { BY_CLASS, WITHIN_CLASSES };

struct tree {
    char whole[300], parts[MAX_PARTS][300];
    size_t num_parts;
};

static unsigned num_trees;

static struct tree make_tree(size_t num_parts)
{
    struct tree tree = {.num_parts = num_parts};
    snprintf(tree.whole, sizeof(tree.whole), "%.200s/t%u-whole", sluice_test_dir(), num_trees);
    (void)mkdir(tree.whole, 0777);
    for (size_t i = 0; i < num_parts; i++) {
        snprintf(tree.parts[i], sizeof(tree.parts[i]), "%.200s/t%u-part%zu", sluice_test_dir(),
                 num_trees, i);
        (void)mkdir(tree.parts[i], 0777);
    }
    num_trees++;
    return tree;
}

/* A file of the whole and of one part; its length tells it from others. */
static void put(const struct tree *tree, size_t part, const char *path)
{
    static unsigned count;
    char text[512];
    memset(text, 'x', sizeof(text));
    text[1 + count++ % 500] = '\0';
    sluice_test_put_text(tree->whole, path, text);
    sluice_test_put_text(tree->parts[part], path, text);
}

static struct sluice_manifest *scan(const char *root)
{
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    if (sluice_manifest_scan(root, NULL, &manifest, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return manifest;
}

static sluice_status merge(const struct tree *tree, struct sluice_manifest **merged,
                           struct sluice_manifest_place **places, struct sluice_err *err)
{
    static const char *const names[] = {"one:1", "two:2", "three:3", "four:4"};
    struct sluice_manifest *manifests[MAX_PARTS];
    struct sluice_manifest_part lists[MAX_PARTS];
    for (size_t i = 0; i < tree->num_parts; i++) {
        manifests[i] = scan(tree->parts[i]);
        lists[i] = (struct sluice_manifest_part){manifests[i], "", names[i]};
    }
    const sluice_status status = sluice_manifest_join(lists, tree->num_parts, merged, places, err);
    for (size_t row = 0; status == SLUICE_OK && row < (*merged)->num_entries; row++) {
        const struct sluice_manifest_place place = (*places)[row];
        CU_ASSERT_FATAL(place.part < tree->num_parts &&
                        place.row < manifests[place.part]->num_entries);
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(manifests[place.part], place.row).path,
                               sluice_manifest_at(*merged, row).path);
    }
    for (size_t i = 0; i < tree->num_parts; i++)
        sluice_manifest_destroy(manifests[i]);
    return status;
}

static void expect_whole(const struct tree *tree)
{
    struct sluice_manifest *want = scan(tree->whole), *got = NULL;
    struct sluice_manifest_place *places = NULL;
    struct sluice_err err = {0};
    if (merge(tree, &got, &places, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    const struct sluice_hash128 a = sluice_manifest_id(want), b = sluice_manifest_id(got);
    CU_ASSERT(a.high == b.high && a.low == b.low);
    CU_ASSERT_EQUAL_FATAL(got->num_classes, want->num_classes);
    for (size_t i = 0; i < want->num_classes; i++)
        CU_ASSERT_STRING_EQUAL(got->classes[i], want->classes[i]);
    CU_ASSERT_EQUAL_FATAL(got->num_entries, want->num_entries);
    for (size_t i = 0; i < want->num_entries; i++) {
        const struct sluice_manifest_entry x = sluice_manifest_at(want, i),
                                           y = sluice_manifest_at(got, i);
        CU_ASSERT_STRING_EQUAL(y.path, x.path);
        CU_ASSERT(y.bytes == x.bytes && y.label == x.label && y.subset == x.subset);
    }
    sluice_manifest_destroy(want);
    sluice_manifest_destroy(got);
    free(places);
}

static void expect_error(const struct tree *tree, const char *const words[3])
{
    struct sluice_manifest *got = NULL;
    struct sluice_manifest_place *places = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(merge(tree, &got, &places, &err), SLUICE_E_INVALID);
    for (int i = 0; i < 3; i++) {
        if (!strstr(err.text, words[i]))
            CU_FAIL_FATAL(err.text);
    }
    CU_ASSERT(!got && !places);
}

/* num_classes classes in the root, or in train/ and val/; some rows of each. */
static void fill(const struct tree *tree, enum split split, bool has_subsets, uint64_t seed)
{
    struct sluice_rng rng = sluice_rng_init(seed, 0, 0, 0);
    for (unsigned class = 0; class < 9; class ++) {
        /* Every part has a file, so that each is a dataset. */
        for (unsigned i = 0; i < 8; i++) {
            const size_t part = split == BY_CLASS ? class % tree->num_parts
                                : i < MAX_PARTS   ? i % tree->num_parts
                                                  : sluice_rng_u32(&rng) % tree->num_parts;
            char path[80];
            snprintf(path, sizeof(path), "%sc%u/%s%u.jpg",
                     has_subsets ? (i % 3 == 1 ? "val/" : "train/") : "", class * 7 % 9,
                     i % 4 == 3 ? "deep/" : "", sluice_rng_u32(&rng) % 1000000);
            put(tree, part, path);
        }
    }
}

TEST(parts_of_a_folder_make_the_list_of_the_whole)
{
    for (size_t num_parts = 1; num_parts <= MAX_PARTS; num_parts++) {
        for (int split = BY_CLASS; split <= WITHIN_CLASSES; split++) {
            for (int has_subsets = 0; has_subsets < 2; has_subsets++) {
                const struct tree tree = make_tree(num_parts);
                fill(&tree, (enum split)split, has_subsets, sluice_test_seed() + num_trees);
                expect_whole(&tree);
            }
        }
    }
}

TEST(images_without_classes_are_spread_too)
{
    const struct tree tree = make_tree(3);
    for (unsigned i = 0; i < 30; i++) {
        char path[32];
        snprintf(path, sizeof(path), "%02u.jpg", i * 7 % 30);
        put(&tree, i % 3, path);
    }
    expect_whole(&tree);
}

/* As one server would: a class without samples keeps its label. */
TEST(an_empty_class_keeps_its_label)
{
    const struct tree tree = make_tree(2);
    put(&tree, 0, "a/1.jpg");
    put(&tree, 1, "c/1.jpg");
    char path[400];
    snprintf(path, sizeof(path), "%s/b", tree.whole);
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s/b", tree.parts[1]);
    CU_ASSERT_EQUAL(mkdir(path, 0777), 0);
    expect_whole(&tree);
}

TEST(a_subset_may_lie_on_one_shard)
{
    const struct tree tree = make_tree(2);
    put(&tree, 0, "train/a/1.jpg");
    put(&tree, 0, "train/b/1.jpg");
    put(&tree, 1, "val/a/1.jpg");
    put(&tree, 1, "val/c/1.jpg");
    expect_whole(&tree);
}

TEST(a_path_of_two_shards_is_an_error_with_both_hosts)
{
    const struct tree tree = make_tree(3);
    put(&tree, 0, "a/1.jpg");
    put(&tree, 1, "a/2.jpg");
    put(&tree, 2, "a/3.jpg");
    sluice_test_put_text(tree.parts[1], "b/x.jpg", "x");
    sluice_test_put_text(tree.parts[2], "b/x.jpg", "x");
    expect_error(&tree, (const char *const[]){"two:2", "three:3", "'b/x.jpg'"});
}

TEST(shards_of_two_layouts_are_an_error_with_both_hosts)
{
    const struct tree tree = make_tree(2);
    put(&tree, 0, "train/a/1.jpg");
    put(&tree, 1, "b/1.jpg");
    expect_error(&tree, (const char *const[]){"one:1 has splits", "two:2 has folders", "layout"});
    const struct tree flat = make_tree(2);
    put(&flat, 0, "1.jpg");
    put(&flat, 1, "b/1.jpg");
    expect_error(&flat, (const char *const[]){"one:1 has images", "two:2 has folders", "layout"});
}

/* What a list says of its files beside their names. */
TEST(hashes_and_sizes_stay)
{
    struct sluice_manifest_entry rows[2][1] = {
        {{.path = "b/1.png",
          .bytes = 10,
          .has_hash = true,
          .hash = {1, 2},
          .width = 30,
          .height = 40,
          .coding = 3}},
        {{.path = "a/1.png", .bytes = 11, .width = 50, .height = 60}},
    };
    static const char *const classes[] = {"b", "a"};
    struct sluice_manifest *parts[2] = {NULL}, *merged = NULL;
    struct sluice_manifest_part lists[2];
    for (size_t i = 0; i < 2; i++) {
        REQUIRE_OK(sluice_manifest_create(rows[i], 1, &classes[i], 1, &parts[i], NULL));
        lists[i] = (struct sluice_manifest_part){parts[i], "", classes[i]};
    }
    struct sluice_manifest_place *places = NULL;
    REQUIRE_OK(sluice_manifest_join(lists, 2, &merged, &places, NULL));
    const struct sluice_manifest_entry e = sluice_manifest_at(merged, 1);
    CU_ASSERT(e.has_hash && e.hash.high == 1 && e.hash.low == 2 && e.width == 30 &&
              e.height == 40 && e.coding == 3 && e.bytes == 10 && e.label == 1);
    CU_ASSERT(!sluice_manifest_at(merged, 0).has_hash && sluice_manifest_at(merged, 0).width == 50);
    CU_ASSERT(places[0].part == 1 && places[1].part == 0);
    free(places);
    sluice_manifest_destroy(merged);
    for (size_t i = 0; i < 2; i++)
        sluice_manifest_destroy(parts[i]);
}

/* --- roots with names --- */

static struct sluice_manifest *make(const struct sluice_manifest_entry *rows, size_t num_rows,
                                    const char *const *classes, size_t num_classes)
{
    struct sluice_manifest *manifest = NULL;
    struct sluice_err err = {0};
    if (sluice_manifest_create(rows, num_rows, classes, num_classes, &manifest, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    return manifest;
}

/* Each root has the layout it has; a class that both have is one. */
TEST(paths_of_roots_get_their_names_and_classes_are_united)
{
    const struct sluice_manifest_entry first[] = {
        {.path = "cat/1.jpg", .bytes = 1, .label = 0, .mtime_ns = 5},
        {.path = "dog/1.jpg", .bytes = 2, .label = 1},
        {.path = "x.tar/dog/2.jpg", .offset = 512, .bytes = 3, .label = 1},
    };
    const struct sluice_manifest_entry second[] = {
        {.path = "train/bird/1.jpg", .bytes = 4, .label = 0},
        {.path = "val/cat/1.jpg", .bytes = 5, .label = 1, .subset = SLUICE_SUBSET_VAL},
    };
    struct sluice_manifest *a = make(first, 3, (const char *const[]){"cat", "dog"}, 2);
    struct sluice_manifest *b = make(second, 2, (const char *const[]){"bird", "cat"}, 2);
    const struct sluice_manifest_part parts[] = {{b, "a-b", ""}, {a, "a", ""}};
    struct sluice_manifest *whole = NULL;
    struct sluice_err err = {0};
    if (sluice_manifest_join(parts, 2, &whole, NULL, &err) != SLUICE_OK)
        CU_FAIL_FATAL(err.text);
    static const struct {
        const char *path, *class_name;
        uint64_t bytes;
    } wanted[] = {
        {"a-b/train/bird/1.jpg", "bird", 4}, {"a-b/val/cat/1.jpg", "cat", 5},
        {"a/cat/1.jpg", "cat", 1},           {"a/dog/1.jpg", "dog", 2},
        {"a/x.tar/dog/2.jpg", "dog", 3},
    };
    CU_ASSERT_EQUAL_FATAL(whole->num_entries, 5);
    CU_ASSERT_EQUAL_FATAL(whole->num_classes, 3);
    struct sluice_manifest_entry rows[5];
    for (size_t i = 0; i < 5; i++) {
        const struct sluice_manifest_entry entry = sluice_manifest_at(whole, i);
        rows[i] = entry;
        CU_ASSERT_STRING_EQUAL(entry.path, wanted[i].path);
        CU_ASSERT_STRING_EQUAL(whole->classes[entry.label], wanted[i].class_name);
        CU_ASSERT_EQUAL(entry.bytes, wanted[i].bytes);
        CU_ASSERT_EQUAL(entry.subset == SLUICE_SUBSET_VAL, i == 1);
    }
    CU_ASSERT(sluice_manifest_at(whole, 2).mtime_ns == 5 &&
              sluice_manifest_at(whole, 4).offset == 512);
    /* The whole is a manifest like any other: rows in order, each with a class. */
    struct sluice_manifest *again = make(rows, 5, whole->classes, 3);
    const struct sluice_hash128 x = sluice_manifest_id(whole), y = sluice_manifest_id(again);
    CU_ASSERT(x.high == y.high && x.low == y.low);
    sluice_manifest_destroy(again);
    REQUIRE_OK(sluice_manifest_of_root(whole, "a", &again, NULL));
    CU_ASSERT_EQUAL_FATAL(again->num_entries, 3);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_STRING_EQUAL(sluice_manifest_at(again, i).path, first[i].path);
        CU_ASSERT(sluice_manifest_at(again, i).bytes == first[i].bytes &&
                  sluice_manifest_at(again, i).offset == first[i].offset);
    }
    sluice_manifest_destroy(again);
    sluice_manifest_destroy(whole);
    sluice_manifest_destroy(b);
    sluice_manifest_destroy(a);
}

TEST(a_path_that_becomes_too_long_is_named)
{
    static char path[4094];
    memset(path, 'x', sizeof(path) - 1);
    const struct sluice_manifest_entry row = {.path = path, .bytes = 1};
    struct sluice_manifest *a = make(&row, 1, (const char *const[]){""}, 1), *whole = NULL;
    struct sluice_err err = {0};
    CU_ASSERT_EQUAL(
        sluice_manifest_join(&(struct sluice_manifest_part){a, "abc", ""}, 1, &whole, NULL, &err),
        SLUICE_E_UNSUPPORTED);
    CU_ASSERT(!whole && strstr(err.text, "abc/xxx"));
    sluice_manifest_destroy(a);
}

static struct sluice_manifest *one_with_target(const char *path, struct sluice_field_type type,
                                               const void *target, size_t bytes)
{
    static const char *const classes[] = {""};
    const struct sluice_manifest_entry row = {.path = path};
    struct sluice_manifest_builder builder = {0};
    REQUIRE_OK(sluice_manifest_create(&row, 1, classes, 1, &builder.manifest, NULL));
    builder.manifest->fields =
        (struct sluice_fields){.num = 1, .of = {{type, SLUICE_TARGET_FIELD}}};
    REQUIRE_OK(sluice_manifest_set_field(&builder, 0, 0, target, bytes, NULL));
    return builder.manifest;
}

TEST(targets_stay_and_are_of_one_kind)
{
    const struct sluice_field_type bytes = {SLUICE_FIELD_BYTES, 0},
                                   vector = {SLUICE_FIELD_VECTOR, 1};
    struct sluice_manifest *merged = NULL;
    struct sluice_manifest_place *places = NULL;
    struct sluice_manifest_part lists[2] = {{one_with_target("2.png", bytes, "two", 3), "", "two"},
                                            {one_with_target("1.png", bytes, "", 0), "", "one"}};
    REQUIRE_OK(sluice_manifest_join(lists, 2, &merged, &places, NULL));
    CU_ASSERT_EQUAL(merged->fields.of[0].type.kind, SLUICE_FIELD_BYTES);
    const struct sluice_manifest_entry first = sluice_manifest_at(merged, 0),
                                       second = sluice_manifest_at(merged, 1);
    CU_ASSERT(first.values && first.values_bytes == 0);
    CU_ASSERT(sluice_field_is_same(second.values, second.values_bytes, "two", 3));
    sluice_manifest_destroy(merged);
    free(places);
    sluice_manifest_destroy((struct sluice_manifest *)(uintptr_t)lists[1].manifest);
    lists[1].manifest = one_with_target("1.png", vector, &(float){1}, sizeof(float));
    CHECK_FAILS(SLUICE_E_INVALID, "two has bytes, and one has vectors of 1 float32",
                sluice_manifest_join(lists, 2, &merged, &places, sluice_test_err()));
    for (size_t i = 0; i < 2; i++)
        sluice_manifest_destroy((struct sluice_manifest *)(uintptr_t)lists[i].manifest);
}
