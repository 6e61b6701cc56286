#include "storage_server/session/security.h"

#include "base/clock.h"
#include "base/host_port.h"
#include "base/log.h"
#include "crypto/secret.h"
#include "rpc/peer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ns between two lines about refusals of one client; and how many clients have lines of their own
 * in that time, so that one who has many addresses does not fill the log. */
#define AUDIT_NS 1000000000u
#define AUDIT_HOSTS 32

struct token {
    uint8_t hash[SLUICE_SHA256_BYTES];
    bool is_for_root; /* of this server */
    struct sluice_grant *grant;
};

struct audited {
    char host[SLUICE_PEER_HOST];
    uint64_t told_ns; /* 0: none */
};

struct sluice_security {
    char *file;                    /* constant from here */
    char *roots[SLUICE_MAX_ROOTS]; /* folders without links, and URLs */
    bool has_transfer;

    pthread_mutex_t lock; /* before that of a grant */
    struct token *tokens;
    size_t num_tokens;
    struct sluice_refusals refused;
    uint64_t num_refused, told; /* told: of the refused, how many the log knows */
    struct audited audited[AUDIT_HOSTS];
};

/* --- the file --- */

static void free_tokens(struct token *tokens, size_t num_tokens)
{
    for (size_t i = 0; i < num_tokens; i++)
        sluice_grant_unref(tokens[i].grant);
    free(tokens);
}

static bool is_for_root(const struct sluice_token_entry *entry, const char *root)
{
    bool is_found = entry->num_roots == 0;
    for (size_t i = 0; !is_found && i < entry->num_roots; i++) {
        char *real = realpath(entry->roots[i], NULL);
        is_found = real && strcmp(real, root) == 0;
        free(real);
    }
    return is_found;
}

/* A token must be for each root, as what it opens has the files of all. */
static bool is_for_roots(const struct sluice_token_entry *entry,
                         const struct sluice_security *security)
{
    bool is_for_all = true;
    for (size_t i = 0; i < SLUICE_MAX_ROOTS && security->roots[i]; i++)
        is_for_all &= is_for_root(entry, security->roots[i]);
    return is_for_all;
}

static sluice_status check_limits(const struct sluice_security *security,
                                  const struct sluice_token_list *list, struct sluice_err *err)
{
    for (size_t i = 0; security->has_transfer && i < list->num_entries; i++) {
        if (list->entries[i].cores > 0)
            return sluice_fail(err, SLUICE_E_INVALID,
                               "%s: token %s limits cores, which the calls of --data-transfer "
                               "cannot keep to: they say exactly what is to be done",
                               security->file, list->entries[i].name);
    }
    return SLUICE_OK;
}

/* Under the lock: of the token that was there before with this name and hash; NULL: none. */
static struct sluice_grant *find_grant(const struct sluice_security *security,
                                       const struct sluice_token_entry *entry)
{
    for (size_t i = 0; i < security->num_tokens; i++) {
        const struct token *token = &security->tokens[i];
        if (memcmp(token->hash, entry->hash, sizeof(entry->hash)) == 0 &&
            strcmp(sluice_grant_name(token->grant), entry->name) == 0)
            return token->grant;
    }
    return NULL;
}

/* Under the lock: the tokens of the list in place of those that are there.  Those that stay keep
 * their grant, which their calls have. */
static sluice_status adopt(struct sluice_security *security, const struct sluice_token_list *list,
                           struct sluice_err *err)
{
    struct token *tokens = calloc(list->num_entries + 1, sizeof(*tokens));
    sluice_status status =
        tokens ? SLUICE_OK : sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
    size_t count = 0;
    for (; status == SLUICE_OK && count < list->num_entries; count++) {
        const struct sluice_token_entry *entry = &list->entries[count];
        struct token *token = &tokens[count];
        memcpy(token->hash, entry->hash, sizeof(token->hash));
        token->is_for_root = is_for_roots(entry, security);
        struct sluice_grant *grant = find_grant(security, entry);
        /* A revoked grant stays so for its calls: a token that is let in again gets a new one. */
        if (grant && !sluice_grant_is_revoked(grant))
            token->grant = sluice_grant_ref(grant);
        if (!token->grant)
            status = sluice_grant_create(entry, sluice_clock_ns(), &token->grant, err);
    }
    if (status != SLUICE_OK) {
        free_tokens(tokens, count);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        sluice_grant_update(tokens[i].grant, &list->entries[i]);
    for (size_t i = 0; i < security->num_tokens; i++) {
        bool is_kept = false;
        for (size_t k = 0; k < count; k++)
            is_kept |= tokens[k].grant == security->tokens[i].grant && tokens[k].is_for_root;
        if (!is_kept)
            sluice_grant_revoke(security->tokens[i].grant);
    }
    free_tokens(security->tokens, security->num_tokens);
    security->tokens = tokens;
    security->num_tokens = count;
    return SLUICE_OK;
}

sluice_status sluice_security_reload(struct sluice_security *security, struct sluice_err *err)
{
    if (!security)
        return SLUICE_OK;
    struct sluice_token_list list;
    sluice_status status = sluice_token_list_read(security->file, &list, err);
    if (status != SLUICE_OK)
        return status;
    status = check_limits(security, &list, err);
    /* Somebody who writes the file anew has emptied it first. */
    if (status == SLUICE_OK && list.num_entries == 0 && security->num_tokens > 0)
        status = sluice_fail(err, SLUICE_E_INVALID, "%s: no token", security->file);
    if (status == SLUICE_OK) {
        pthread_mutex_lock(&security->lock);
        status = adopt(security, &list, err);
        pthread_mutex_unlock(&security->lock);
    }
    const size_t count = list.num_entries;
    sluice_token_list_clear(&list);
    if (status == SLUICE_OK)
        sluice_log(SLUICE_LOG_INFO, "%zu token%s in %s", count, count == 1 ? "" : "s",
                   security->file);
    return status;
}

sluice_status sluice_security_open(const struct sluice_server_options *options,
                                   struct sluice_security **security, struct sluice_err *err)
{
    *security = NULL;
    if (!options->tokens)
        return SLUICE_OK;
    struct sluice_security *made = calloc(1, sizeof(*made));
    if (!made)
        return sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
    pthread_mutex_init(&made->lock, NULL);
    made->has_transfer = options->has_data_transfer;
    made->file = strdup(options->tokens);
    sluice_status status = SLUICE_OK;
    for (size_t i = 0; status == SLUICE_OK && i < options->roots.num; i++) {
        const char *place = options->roots.at[i].place;
        made->roots[i] = sluice_store_is_remote(place) ? strdup(place) : realpath(place, NULL);
        if (!made->roots[i])
            status = sluice_fail(err, SLUICE_E_IO, "%s: %s", place, strerror(errno));
    }
    if (status == SLUICE_OK && !made->file)
        status = sluice_fail(err, SLUICE_E_NO_MEMORY, "no memory for tokens");
    if (status == SLUICE_OK)
        status = sluice_security_reload(made, err);
    if (status == SLUICE_OK)
        *security = made;
    else
        sluice_security_close(made);
    return status;
}

void sluice_security_close(struct sluice_security *security)
{
    if (!security)
        return;
    free_tokens(security->tokens, security->num_tokens);
    pthread_mutex_destroy(&security->lock);
    free(security->file);
    for (size_t i = 0; i < SLUICE_MAX_ROOTS; i++)
        free(security->roots[i]);
    free(security);
}

/* --- calls --- */

/* Whether this refusal is logged.  Under the lock. */
static bool must_tell(struct sluice_security *security, const char *peer, uint64_t now_ns)
{
    char host[SLUICE_PEER_HOST];
    sluice_peer_host(peer, host);
    struct audited *mine = &security->audited[0];
    for (size_t i = 0; i < AUDIT_HOSTS; i++) {
        struct audited *one = &security->audited[i];
        if (one->told_ns && strcmp(one->host, host) == 0) {
            mine = one;
            break;
        }
        if (one->told_ns < mine->told_ns)
            mine = one; /* the one of the longest silence, should there be no line of this host */
    }
    if (mine->told_ns && now_ns - mine->told_ns < AUDIT_NS)
        return false;
    snprintf(mine->host, sizeof(mine->host), "%s", host);
    mine->told_ns = now_ns;
    return true;
}

static void tell_refused(struct sluice_security *security, const struct sluice_rpc_caller *caller,
                         enum sluice_refusal refusal, const char *why)
{
    const uint64_t now_ns = sluice_clock_ns();
    pthread_mutex_lock(&security->lock);
    security->refused.calls[refusal]++;
    security->num_refused++;
    const bool tells = must_tell(security, caller->peer, now_ns);
    const uint64_t others = security->num_refused - security->told - 1;
    if (tells)
        security->told = security->num_refused;
    pthread_mutex_unlock(&security->lock);
    if (!tells)
        return;
    char more[64] = "";
    if (others)
        snprintf(more, sizeof(more), " (and %llu calls more since the last such line)",
                 (unsigned long long)others);
    char peer[SLUICE_PEER_TEXT];
    sluice_peer_text(caller->peer, peer);
    sluice_log(SLUICE_LOG_WARN, "refused %s%s%s at %s: %s%s", peer,
               caller->certificate[0] ? ", certificate of " : "", caller->certificate, caller->path,
               why, more);
}

/* The token's grant, a reference; NULL: no token here.  Compares with all, whichever it is. */
static struct sluice_grant *find_token(struct sluice_security *security, const uint8_t *hash,
                                       bool *is_for_root)
{
    struct sluice_grant *found = NULL;
    pthread_mutex_lock(&security->lock);
    for (size_t i = 0; i < security->num_tokens; i++) {
        const struct token *token = &security->tokens[i];
        if (sluice_secret_equal(token->hash, hash, SLUICE_SHA256_BYTES)) {
            found = token->grant;
            *is_for_root = token->is_for_root;
        }
    }
    sluice_grant_ref(found);
    pthread_mutex_unlock(&security->lock);
    return found;
}

static enum sluice_rpc_code look_up(struct sluice_security *security,
                                    const struct sluice_rpc_caller *caller,
                                    struct sluice_grant **grant, enum sluice_refusal *refusal,
                                    struct sluice_err *why)
{
    uint8_t hash[SLUICE_SHA256_BYTES];
    bool is_for_root = false;
    if (!caller->token) {
        *refusal = SLUICE_REFUSED_NO_TOKEN;
        sluice_fail(why, SLUICE_E_INVALID,
                    "this server wants a token (--token-file FILE, or the variable SLUICE_TOKEN)");
        return SLUICE_RPC_UNAUTHENTICATED;
    }
    sluice_sha256(caller->token, caller->token_len, hash);
    struct sluice_grant *found = find_token(security, hash, &is_for_root);
    if (!found) {
        *refusal = SLUICE_REFUSED_UNKNOWN_TOKEN;
        sluice_fail(why, SLUICE_E_INVALID, "the token is none that this server knows");
        return SLUICE_RPC_UNAUTHENTICATED;
    }
    if (!is_for_root) {
        *refusal = SLUICE_REFUSED_OTHER_DATA;
        sluice_fail(why, SLUICE_E_INVALID, "the token %s is for other data than this server's",
                    sluice_grant_name(found));
        sluice_grant_unref(found);
        return SLUICE_RPC_PERMISSION_DENIED;
    }
    if (!sluice_grant_enter(found, caller->peer)) {
        *refusal = SLUICE_REFUSED_CONNECTIONS;
        sluice_fail(why, SLUICE_E_NO_MEMORY, "the token %s has as many connections as it may have",
                    sluice_grant_name(found));
        sluice_grant_unref(found);
        return SLUICE_RPC_RESOURCE_EXHAUSTED;
    }
    *grant = found;
    return SLUICE_RPC_OK;
}

enum sluice_rpc_code sluice_security_admit(struct sluice_security *security,
                                           const struct sluice_rpc_caller *caller,
                                           struct sluice_grant **grant, struct sluice_err *why)
{
    struct sluice_err reason = {0};
    enum sluice_refusal refusal = SLUICE_REFUSED_NO_TOKEN;
    const enum sluice_rpc_code code = look_up(security, caller, grant, &refusal, &reason);
    if (code != SLUICE_RPC_OK) {
        tell_refused(security, caller, refusal, reason.text);
        (void)sluice_fail(why, SLUICE_E_INVALID, "%s", reason.text);
    }
    return code;
}

void sluice_security_release(struct sluice_grant *grant, const char *peer)
{
    sluice_grant_leave(grant, peer);
    sluice_grant_unref(grant);
}

struct sluice_refusals sluice_security_refusals(struct sluice_security *security)
{
    if (!security)
        return (struct sluice_refusals){{0}};
    pthread_mutex_lock(&security->lock);
    const struct sluice_refusals refused = security->refused;
    pthread_mutex_unlock(&security->lock);
    return refused;
}
