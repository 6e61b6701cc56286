#include "wire/wire.h"

#include "offload.pb-c.h"
#include "support/test.h"
#include "wire_random.h"

static struct sluice_wire_list random_list(void)
{
    struct sluice_wire_list list = {
        .num_classes = random_u32() % 20,
        .num_samples = random_u64(),
        .num_samples_here = random_u32() % 100,
        .has_hash = random_bool(),
    };
    list.first_row = list.has_hash ? random_u64() : 0;
    random_dataset_id(list.dataset_id);
    list.classes = calloc(list.num_classes + 1, sizeof(*list.classes));
    list.samples = calloc(list.num_samples_here + 1, sizeof(*list.samples));
    for (size_t i = 0; i < list.num_classes; i++)
        list.classes[i] = random_text(20);
    for (size_t i = 0; i < list.num_samples_here; i++) {
        struct sluice_wire_sample_info *sample = &list.samples[i];
        sample->sample_id = random_u64();
        sample->path = random_text(60);
        if (!sample->path[0]) {
            free(sample->path);
            sample->path = strdup("x.png");
        }
        sample->bytes = random_u64();
        sample->label = random_u32();
        sample->is_val = random_bool();
        sample->width = random_u32();
        sample->height = random_u32();
        sample->coding = (uint8_t)random_u32();
        sample->has_hash = random_bool();
        if (sample->has_hash)
            random_bytes(sample->hash, sizeof(sample->hash));
    }
    return list;
}

TEST(what_is_put_is_what_is_got)
{
    for (int i = 0; i < 200; i++) {
        struct sluice_wire_list list = random_list(), got;
        struct sluice_message message = {0};
        CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
        message_recut(&message);
        REQUIRE_OK(sluice_wire_get_list_reply(&message, &got, NULL));
        CU_ASSERT_STRING_EQUAL(got.dataset_id, list.dataset_id);
        CU_ASSERT_EQUAL(got.num_samples, list.num_samples);
        CU_ASSERT_EQUAL(got.first_row, list.first_row);
        CU_ASSERT_EQUAL(got.has_hash, list.has_hash);
        CU_ASSERT_EQUAL_FATAL(got.num_classes, list.num_classes);
        for (size_t k = 0; k < got.num_classes; k++)
            CU_ASSERT_STRING_EQUAL(got.classes[k], list.classes[k]);
        CU_ASSERT_EQUAL_FATAL(got.num_samples_here, list.num_samples_here);
        for (size_t k = 0; k < got.num_samples_here; k++) {
            const struct sluice_wire_sample_info *a = &got.samples[k], *b = &list.samples[k];
            CU_ASSERT_EQUAL(a->sample_id, b->sample_id);
            CU_ASSERT_STRING_EQUAL(a->path, b->path);
            CU_ASSERT_EQUAL(a->bytes, b->bytes);
            CU_ASSERT_EQUAL(a->label, b->label);
            CU_ASSERT_EQUAL(a->is_val, b->is_val);
            CU_ASSERT_EQUAL(a->width, b->width);
            CU_ASSERT_EQUAL(a->height, b->height);
            CU_ASSERT_EQUAL(a->coding, b->coding);
            CU_ASSERT_EQUAL(a->has_hash, b->has_hash);
            CU_ASSERT(memcmp(a->hash, b->hash, sizeof(a->hash)) == 0);
        }
        sluice_wire_list_clear(&list);
        sluice_wire_list_clear(&got);
        sluice_wire_list_clear(&got);
        sluice_message_clear(&message);
    }
}

TEST(a_coding_of_no_byte_is_not_known)
{
    /* One sample: path "a", coding 256. */
    static const uint8_t bytes[] = {0x22, 6, 0x12, 1, 'a', 0x48, 0x80, 0x02};
    struct sluice_message message = {0};
    CHECK_OK(sluice_message_append_copy(&message, bytes, sizeof(bytes), NULL));
    struct sluice_wire_list got;
    REQUIRE_OK(sluice_wire_get_list_reply(&message, &got, NULL));
    CU_ASSERT_EQUAL_FATAL(got.num_samples_here, 1);
    CU_ASSERT_EQUAL(got.samples[0].coding, 0);
    sluice_wire_list_clear(&got);
    sluice_message_clear(&message);
}

TEST(subsets_come_back_as_they_were_put)
{
    static const char *const subsets[] = {"train", "val", ""};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(subsets); i++) {
        struct sluice_message message = {0};
        char *got = NULL;
        uint64_t first_row = 0, wanted = random_u64();
        bool is_packed = false;
        CHECK_OK(sluice_wire_put_list_request(subsets[i], wanted, i == 1, &message, NULL));
        message_recut(&message);
        REQUIRE_OK(sluice_wire_get_list_request(&message, &got, &first_row, &is_packed, NULL));
        CU_ASSERT_EQUAL(is_packed, i == 1);
        CU_ASSERT_EQUAL(first_row, wanted);
        CU_ASSERT_STRING_EQUAL(got, subsets[i]);
        free(got);
        sluice_message_clear(&message);
    }
}

TEST(packed_rows_come_in_place_of_samples)
{
    const struct sluice_list_row row = {.path = "a/1.png", .bytes = 5};
    struct sluice_wire_list list = {.first_row = 9, .has_hash = true}, got;
    struct sluice_message message = {0};
    REQUIRE_OK(sluice_list_block_pack(&row, 1, &list.packed, NULL));
    CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
    message_recut(&message);
    REQUIRE_OK(sluice_wire_get_list_reply(&message, &got, NULL));
    CU_ASSERT_EQUAL(got.num_samples_here, 0);
    CU_ASSERT_EQUAL(got.packed.num_rows, 1);
    CU_ASSERT_EQUAL(got.packed.raw_bytes, list.packed.raw_bytes);
    CU_ASSERT_EQUAL_FATAL(got.packed.len, list.packed.len);
    CU_ASSERT_EQUAL(memcmp(got.packed.frame, list.packed.frame, got.packed.len), 0);
    sluice_wire_list_clear(&got);
    sluice_message_clear(&message);

    /* Both are neither. */
    struct sluice_wire_sample_info sample = {.path = strdup("a/1.png")};
    list.samples = &sample;
    list.num_samples_here = 1;
    CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
    CU_ASSERT_EQUAL(sluice_wire_get_list_reply(&message, &got, NULL), SLUICE_E_CORRUPT);
    sluice_message_clear(&message);
    sluice_list_block_clear(&list.packed);
    free(sample.path);
}

TEST(protobuf_c_reads_what_is_put)
{
    struct sluice_wire_list list = random_list();
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
    uint8_t *flat = message_flatten(&message);
    Sluice__V1__ListSamplesReply *wire =
        sluice__v1__list_samples_reply__unpack(NULL, message.len, flat);
    CU_ASSERT_PTR_NOT_NULL_FATAL(wire);
    CU_ASSERT_EQUAL(wire->n_classes, list.num_classes);
    CU_ASSERT_EQUAL_FATAL(wire->n_samples, list.num_samples_here);
    for (size_t i = 0; i < wire->n_samples; i++) {
        CU_ASSERT_STRING_EQUAL(wire->samples[i]->path, list.samples[i].path);
        CU_ASSERT_EQUAL(wire->samples[i]->hash.len, list.samples[i].has_hash ? 16 : 0);
        CU_ASSERT_EQUAL(wire->samples[i]->is_val, list.samples[i].is_val);
        CU_ASSERT_EQUAL(wire->samples[i]->coding, list.samples[i].coding);
    }
    sluice__v1__list_samples_reply__free_unpacked(wire, NULL);
    free(flat);
    sluice_message_clear(&message);
    sluice_wire_list_clear(&list);
}

TEST(names_that_are_no_utf8_are_made_so)
{
    char *classes[] = {"caf\xE9"};
    struct sluice_wire_sample_info samples[] = {{.path = "caf\xE9/1.jpg"},
                                                {.path = "caf\xC3\xA9/2.jpg"}};
    const struct sluice_wire_list list = {
        .classes = classes, .num_classes = 1, .samples = samples, .num_samples_here = 2};
    struct sluice_wire_list got;
    struct sluice_message message = {0};
    CHECK_OK(sluice_wire_put_list_reply(&list, &message, NULL));
    REQUIRE_OK(sluice_wire_get_list_reply(&message, &got, NULL));
    CU_ASSERT_STRING_EQUAL(got.classes[0], "caf?");
    CU_ASSERT_STRING_EQUAL(got.samples[0].path, "caf?/1.jpg");
    CU_ASSERT_STRING_EQUAL(got.samples[1].path, "caf\xC3\xA9/2.jpg");
    sluice_wire_list_clear(&got);
    sluice_message_clear(&message);
}

TEST(rejects_rows_that_contradict_themselves)
{
    static const struct {
        const char *why;
        uint8_t data[40];
        size_t len;
    } cases[] = {
        {"no path", {0x22, 2, 0x08, 1}, 4},
        {"hash of 3 bytes", {0x22, 8, 0x12, 1, 'a', 0x42, 3, 1, 2, 3}, 10},
        {"NUL in a path", {0x22, 5, 0x12, 3, 'a', 0, 'b'}, 7},
        {"NUL in a class", {0x0A, 2, 'a', 0}, 4},
        {"dataset id too short", {0x12, 2, 'a', 'b'}, 4},
        {"label of 33 bits", {0x22, 9, 0x12, 1, 'a', 0x20, 0x80, 0x80, 0x80, 0x80, 0x10}, 11},
        {"sample beyond the end", {0x22, 9, 0x12, 1, 'a'}, 5},
    };
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(cases); i++) {
        struct sluice_message message = message_cut(cases[i].data, cases[i].len);
        struct sluice_wire_list got;
        struct sluice_err err = {0};
        const sluice_status status = sluice_wire_get_list_reply(&message, &got, &err);
        if (status != SLUICE_E_CORRUPT)
            printf("%s: %s\n", cases[i].why, sluice_status_name(status));
        CU_ASSERT_EQUAL(status, SLUICE_E_CORRUPT);
        CU_ASSERT(err.text[0] != 0);
        sluice_message_clear(&message);
    }
}
