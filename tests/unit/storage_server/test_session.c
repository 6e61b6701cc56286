#include "storage_server/session/session.h"

#include "support/test.h"

#include <pthread.h>

static struct sluice_sessions *create(void)
{
    struct sluice_sessions *sessions;
    REQUIRE_OK(sluice_sessions_create(&sessions, NULL));
    return sessions;
}

TEST(an_address_is_one_session_however_many_connections_it_has)
{
    struct sluice_sessions *sessions = create();
    struct sluice_session *first = sluice_session_open(sessions, "ipv4:10.0.0.1:4242");
    CU_ASSERT_STRING_EQUAL(first->host, "10.0.0.1");
    CU_ASSERT_PTR_EQUAL(sluice_session_open(sessions, "ipv4:10.0.0.1:4243"), first);
    struct sluice_session *other = sluice_session_open(sessions, "ipv4:10.0.0.2:4242");
    CU_ASSERT_PTR_NOT_EQUAL(other, first);
    sluice_session_unref(other);
    sluice_session_unref(first);
    sluice_session_unref(first);
    sluice_sessions_destroy(sessions);
}

TEST(it_is_new_once_nobody_holds_it)
{
    struct sluice_sessions *sessions = create();
    struct sluice_session *session = sluice_session_open(sessions, "a");
    session->memory_used = 5;
    sluice_session_unref(sluice_session_ref(session));
    sluice_session_unref(session);
    session = sluice_session_open(sessions, "a");
    CU_ASSERT_EQUAL(session->memory_used, 0);
    sluice_session_unref(session);
    sluice_session_unref(NULL);
    sluice_sessions_destroy(sessions);
    sluice_sessions_destroy(NULL);
}

TEST(one_may_outlive_the_table)
{
    struct sluice_sessions *sessions = create();
    struct sluice_session *a = sluice_session_open(sessions, "a");
    struct sluice_session *b = sluice_session_open(sessions, "b");
    sluice_sessions_destroy(sessions);
    sluice_session_unref(a);
    CU_ASSERT_STRING_EQUAL(b->host, "b");
    sluice_session_unref(b); /* frees the table: the sanitizer would report a leak */
}

#define NUM_THREADS 4
#define ROUNDS 5000

static void *come_and_go(void *ctx)
{
    struct sluice_sessions *sessions = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        char name[8];
        snprintf(name, sizeof(name), "%d", i % 3);
        struct sluice_session *session = sluice_session_open(sessions, name);
        if (!session || strcmp(session->host, name) != 0)
            return session;
        sluice_session_unref(session);
    }
    return NULL;
}

TEST(threads_come_and_go)
{
    struct sluice_sessions *sessions = create();
    pthread_t threads[NUM_THREADS];
    for (int i = 0; i < NUM_THREADS; i++)
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, come_and_go, sessions), 0);
    for (int i = 0; i < NUM_THREADS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        CU_ASSERT_PTR_NULL(wrong);
    }
    sluice_sessions_destroy(sessions);
}
