#include "store/object_list.h"

#include "support/test.h"

static char told[64];

static sluice_status tell(void *ctx, const struct sluice_object *object, struct sluice_err *err)
{
    (void)ctx, (void)err;
    strcat(told, object->key);
    strcat(told, object->bytes == strlen(object->key) && object->version == -1 ? ";" : "?");
    return SLUICE_OK;
}

TEST(tells_by_the_order_of_bytes_and_by_prefix)
{
    static const char *const keys[] = {"b", "a/b", "a.b", "\xff", "a"};
    struct sluice_object_list list = {.num_objects = 0};
    CHECK_OK(sluice_object_list_tell(&list, "", tell, NULL, NULL));
    CU_ASSERT_STRING_EQUAL(told, "");
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        char key[8]; /* the caller's: it is copied */
        strcpy(key, keys[i]);
        const struct sluice_object object = {key, strlen(key), -1};
        CHECK_OK(sluice_object_list_add(&list, &object, NULL));
    }
    CHECK_OK(sluice_object_list_tell(&list, "", tell, NULL, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a;a.b;a/b;b;\xff;");
    told[0] = '\0';
    CHECK_OK(sluice_object_list_tell(&list, "a/", tell, NULL, NULL));
    CU_ASSERT_STRING_EQUAL(told, "a/b;");
    sluice_object_list_clear(&list);
    sluice_object_list_clear(&list);
    CU_ASSERT_EQUAL(list.num_objects, 0);
}
