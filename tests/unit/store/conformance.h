#ifndef SLUICE_TESTS_STORE_CONFORMANCE_H
#define SLUICE_TESTS_STORE_CONFORMANCE_H

#include "store/store.h"
#include "support/test.h"

/* What every store promises (store/store.h), tested on whichever world of objects there is. */

#define CONFORMANCE_MAX_BYTES 65536 /* the store's limit */

struct conformance_world {
    /* A store over an empty world. */
    struct sluice_store *(*open)(void);
    void (*put)(const char *key, const void *data, size_t len); /* makes or replaces an object */
    void (*remove)(const char *key);
    /* Faults of the next bodies of an object.  NULL: they cannot happen to this store. */
    void (*slow_down)(const char *key);                 /* each byte takes a while */
    void (*break_off)(const char *key, unsigned times); /* the connection ends amid the body */
    void (*hang)(const char *key);                      /* it stops amid the body */
    void (*wait_for_hang)(void);                        /* until a body has stopped */
};

/* For the tests that follow; borrowed. */
void conformance_use(const struct conformance_world *used_world);

void conformance_lists_keys_in_order_with_lengths_and_versions(void);
void conformance_lists_by_prefix_and_nothing(void);
void conformance_describes_an_object(void);
void conformance_versions_change_with_the_content(void);
void conformance_reads_whole_objects(void);
void conformance_reads_the_parts_that_are_chosen(void);
void conformance_reads_ranges_and_parts_of_them(void);
void conformance_names_what_is_missing(void);
void conformance_refuses_and_counts_ways_out_of_the_root(void);
void conformance_names_empty_and_huge_objects(void);
void conformance_whoever_chooses_may_refuse(void);
void conformance_an_object_that_changes_is_stale(void);
void conformance_an_object_that_is_cut_is_stale(void);
void conformance_a_range_beyond_the_end_is_stale(void);
void conformance_reads_many_at_once(void);
void conformance_reads_what_comes_slowly(void);
void conformance_a_body_that_breaks_off_is_read_again_or_an_error(void);
void conformance_cancel_ends_the_reads_of_one_owner(void);

#define CONFORMANCE_TESTS                                                                          \
    SLUICE_TEST(conformance_lists_keys_in_order_with_lengths_and_versions),                        \
        SLUICE_TEST(conformance_lists_by_prefix_and_nothing),                                      \
        SLUICE_TEST(conformance_describes_an_object),                                              \
        SLUICE_TEST(conformance_versions_change_with_the_content),                                 \
        SLUICE_TEST(conformance_reads_whole_objects),                                              \
        SLUICE_TEST(conformance_reads_the_parts_that_are_chosen),                                  \
        SLUICE_TEST(conformance_reads_ranges_and_parts_of_them),                                   \
        SLUICE_TEST(conformance_names_what_is_missing),                                            \
        SLUICE_TEST(conformance_refuses_and_counts_ways_out_of_the_root),                          \
        SLUICE_TEST(conformance_names_empty_and_huge_objects),                                     \
        SLUICE_TEST(conformance_whoever_chooses_may_refuse),                                       \
        SLUICE_TEST(conformance_an_object_that_changes_is_stale),                                  \
        SLUICE_TEST(conformance_an_object_that_is_cut_is_stale),                                   \
        SLUICE_TEST(conformance_a_range_beyond_the_end_is_stale),                                  \
        SLUICE_TEST(conformance_reads_many_at_once),                                               \
        SLUICE_TEST(conformance_reads_what_comes_slowly),                                          \
        SLUICE_TEST(conformance_a_body_that_breaks_off_is_read_again_or_an_error),                 \
        SLUICE_TEST(conformance_cancel_ends_the_reads_of_one_owner)

#endif
