#include "storage_top/table.h"

#include "support/test.h"

#include <jansson.h>
#include <math.h>

TEST(what_is_known_is_a_number_and_what_is_not_is_null)
{
    struct top_client client = {
        .counts = {.name = "a\"\x01\xc2\x9b", .token = "team", .samples = 3},
        .rates = {NAN, 5, NAN}};
    const struct top_server servers[] = {
        {.target = "a:1",
         .state = TOP_OK,
         .age_s = 1,
         .stats = {.prep_cores = 2, .samples = 9},
         .rates = {0.5, NAN, 4},
         .clients = &client,
         .num_clients = 1,
         .answers = 2},
        {.target = "b:2", .state = TOP_AWAY, .why = "gone", .age_s = -1},
    };
    char *text = NULL;
    REQUIRE_OK(top_json_make(servers, 2, &text, NULL));
    CU_ASSERT_PTR_NULL(strstr(text, "\xc2\x9b")); /* a terminal would obey it */
    json_t *root = json_loads(text, 0, NULL);
    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    const json_t *a = json_array_get(json_object_get(root, "servers"), 0);
    const json_t *b = json_array_get(json_object_get(root, "servers"), 1);
    CU_ASSERT_EQUAL(json_real_value(json_object_get(a, "cores_used")), 0.5);
    CU_ASSERT_EQUAL(json_integer_value(json_object_get(a, "samples")), 9);
    CU_ASSERT(json_is_null(json_object_get(a, "wire_bytes_per_s")));
    CU_ASSERT(json_is_null(json_object_get(a, "why")));
    const json_t *row = json_array_get(json_object_get(a, "clients"), 0);
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "client")), "a\"\x01\xc2\x9b");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(row, "token")), "team");
    CU_ASSERT(json_is_null(json_object_get(row, "samples_per_s")));
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(b, "state")), "away");
    CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(b, "why")), "gone");
    CU_ASSERT(json_is_null(json_object_get(b, "age_s")));
    json_decref(root);
    free(text);
}
