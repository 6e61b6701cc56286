#include "base/redact.h"

#include "base/c_locale.h"
#include "base/compiler.h"
#include "base/hash.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define MAX_SECRETS 32
#define MIN_CHARS 8     /* of a secret */
#define PREFIX_CHARS 12 /* of it that are looked for */
#define MAX_CHARS 4095  /* of its length that are known */
#define MARKED_CHARS 16 /* behind a mark; fewer are a word, such as the name of a file */

static const char hidden[] = "***";

/* 48 bits of the hash of the first characters, 12 of the length, 4 of the number of the first
 * characters; 0: free.  Relaxed: each is a whole by itself. */
static _Atomic uint64_t secrets[MAX_SECRETS];
static atomic_uint num_secrets; /* that were ever added */

static uint64_t hash_of(const char *text, size_t len)
{
    return sluice_hash64(text, len) & ~UINT64_C(0xffff);
}

void sluice_redact_add(const char *secret)
{
    size_t len = strlen(secret);
    if (len < MIN_CHARS)
        return;
    const size_t prefix = len < PREFIX_CHARS ? len : PREFIX_CHARS;
    len = len < MAX_CHARS ? len : MAX_CHARS;
    const uint64_t entry = hash_of(secret, prefix) | len << 4 | prefix;
    for (size_t i = 0; i < MAX_SECRETS; i++) {
        if (atomic_load_explicit(&secrets[i], memory_order_relaxed) == entry)
            return;
    }
    const unsigned at = atomic_fetch_add_explicit(&num_secrets, 1, memory_order_relaxed);
    atomic_store_explicit(&secrets[at % MAX_SECRETS], entry, memory_order_relaxed);
}

/* --- characters --- */

static int hex_digit(char c)
{
    const char low = sluice_to_lower(c);
    return low >= '0' && low <= '9' ? low - '0' : low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
}

/* The character at `text`, which is not at its end, and how many it takes there. */
static size_t decode(const char *text, char *c)
{
    *c = *text;
    if (*text != '%' || hex_digit(text[1]) < 0 || hex_digit(text[2]) < 0)
        return 1;
    *c = (char)(hex_digit(text[1]) * 16 + hex_digit(text[2]));
    return 3;
}

static bool is_token(char c)
{
    return sluice_is_alnum(c) || (c && strchr("-._~+/=%", c));
}

/* --- what is hidden --- */

/* The length of one of the secrets at `text`, which goes on to where such a text ends; 0: none. */
static size_t find_secret(const char *text)
{
    char first[PREFIX_CHARS];
    size_t num = 0;
    for (const char *at = text; *at && num < PREFIX_CHARS; num++)
        at += decode(at, &first[num]);
    uint64_t hashes[PREFIX_CHARS + 1] = {0};
    for (size_t i = 0; i < MAX_SECRETS; i++) {
        const uint64_t entry = atomic_load_explicit(&secrets[i], memory_order_relaxed);
        const size_t prefix = entry & 15, len = entry >> 4 & MAX_CHARS;
        if (!prefix || prefix > num)
            continue;
        if (!hashes[prefix])
            hashes[prefix] = hash_of(first, prefix);
        if (hashes[prefix] != (entry & ~UINT64_C(0xffff)))
            continue;
        const char *at = text;
        for (size_t count = 0; *at && (count < len ? !sluice_is_space(*at) : is_token(*at));
             count++) {
            char c;
            at += decode(at, &c);
        }
        return (size_t)(at - text);
    }
    return 0;
}

/* The length of user and password in the URL's authority at `text`; 0: it has none. */
static size_t find_user(const char *text)
{
    const size_t len = strcspn(text, "/?# \t\r\n\"'<>");
    const char *at = memrchr(text, '@', len);
    return at ? (size_t)(at - text) : 0;
}

/* Marks and their length, with what follows before the secret. */
static size_t find_mark(const char *text)
{
    static const char *const marks[] = {
        "bearer ", "basic ", "signature=", "token=",      "secret=",        "password=",
        "?sig=",   "&sig=",  "token: ",    "<signature>", "<sessiontoken>", "signatureprovided>"};
    for (size_t i = 0; i < SLUICE_ARRAY_LEN(marks); i++) {
        const size_t len = strlen(marks[i]);
        if (sluice_strncasecmp(text, marks[i], len) == 0)
            return len;
    }
    return 0;
}

static size_t count_tokens(const char *text)
{
    size_t len = 0;
    while (is_token(text[len]))
        len++;
    return len;
}

void sluice_redact(char *text)
{
    const bool has_secrets = atomic_load_explicit(&num_secrets, memory_order_relaxed) > 0;
    char *out = text;
    /* A hidden text has at least 3 characters, so `out` never overtakes `at`. */
    for (char *at = text; *at;) {
        size_t kept = 0, len = has_secrets ? find_secret(at) : 0;
        if (len == 0 && strncmp(at, "://", 3) == 0) {
            kept = 3;
            len = find_user(at + kept);
        } else if (len == 0) {
            kept = find_mark(at);
            len = kept ? count_tokens(at + kept) : 0;
            len = len < MARKED_CHARS ? 0 : len;
        }
        if (len < strlen(hidden)) {
            *out++ = *at++;
            continue;
        }
        memmove(out, at, kept);
        memcpy(out + kept, hidden, strlen(hidden));
        out += kept + strlen(hidden);
        at += kept + len;
    }
    *out = '\0';
}
