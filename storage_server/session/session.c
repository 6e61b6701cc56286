#include "storage_server/session/session.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct sluice_sessions {
    pthread_mutex_t lock; /* a leaf */
    struct sluice_session *first;
    bool is_destroyed;
};

sluice_status sluice_sessions_create(struct sluice_sessions **sessions, struct sluice_err *err)
{
    struct sluice_sessions *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for the table of sessions");
    pthread_mutex_init(&made->lock, NULL);
    *sessions = made;
    return SLUICE_OK;
}

/* Releases the lock.  Frees the table if nobody uses it any more. */
static void unlock(struct sluice_sessions *sessions)
{
    const bool is_last = sessions->is_destroyed && !sessions->first;
    pthread_mutex_unlock(&sessions->lock);
    if (!is_last)
        return;
    pthread_mutex_destroy(&sessions->lock);
    free(sessions);
}

void sluice_sessions_destroy(struct sluice_sessions *sessions)
{
    if (!sessions)
        return;
    pthread_mutex_lock(&sessions->lock);
    sessions->is_destroyed = true;
    unlock(sessions);
}

struct sluice_session *sluice_session_open(struct sluice_sessions *sessions, const char *peer)
{
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(peer, host);
    pthread_mutex_lock(&sessions->lock);
    struct sluice_session *session = sessions->first;
    while (session && strcmp(session->host, host) != 0)
        session = session->next;
    if (!session && (session = calloc(1, sizeof(*session)))) {
        memcpy(session->host, host, sizeof(host));
        pthread_mutex_init(&session->probes.lock, NULL);
        session->probes.end = &session->probes.first;
        session->sessions = sessions;
        session->next = sessions->first;
        session->before = &sessions->first;
        if (session->next)
            session->next->before = &session->next;
        sessions->first = session;
    }
    if (session)
        session->refs++;
    pthread_mutex_unlock(&sessions->lock);
    return session;
}

struct sluice_session *sluice_session_ref(struct sluice_session *session)
{
    pthread_mutex_lock(&session->sessions->lock);
    session->refs++;
    pthread_mutex_unlock(&session->sessions->lock);
    return session;
}

void sluice_session_unref(struct sluice_session *session)
{
    if (!session)
        return;
    struct sluice_sessions *sessions = session->sessions;
    pthread_mutex_lock(&sessions->lock);
    const bool is_last = --session->refs == 0;
    if (is_last) {
        *session->before = session->next;
        if (session->next)
            session->next->before = session->before;
    }
    unlock(sessions);
    if (!is_last)
        return;
    pthread_mutex_destroy(&session->probes.lock);
    free(session);
}
