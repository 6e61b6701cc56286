#ifndef SLUICE_BASE_REDACT_H
#define SLUICE_BASE_REDACT_H

/* Redaction: removes secrets from texts for people.  A store or a server may repeat a token in its
 * error, and a URL in a list may contain a password or a signature. Errors (base/error.h), the log
 * and usage errors all go through here.
 *
 * Threads: any. */

/* Adds a secret of the process, such as a token, which later texts do not show.  Stores only a hash
 * of its first characters, for the last 32 secrets.  Ignores secrets of fewer than 8 characters,
 * which could be ordinary words. */
void sluice_redact_add(const char *secret);

/* Replaces by "***" in `text`: each added secret, also if it is percent-encoded or truncated after
 * 12 characters; user and password of a URL; and 16 or more characters after "Bearer ",
 * "Signature=", "token=" and the like. */
void sluice_redact(char *text);

#endif
