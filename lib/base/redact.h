#ifndef SLUICE_BASE_REDACT_H
#define SLUICE_BASE_REDACT_H

/* Redaction: secrets are taken out of texts for people, whoever wrote them there.  A store or a
 * server may repeat a token in its error, and a URL in a list may have a password or a signature.
 * Errors (base/error.h), the log and usage errors all go through here.
 *
 * Threads: any. */

/* The process's own secret, such as a token: no text shows it from here on.  Of the secret a hash
 * of its first characters is kept, and of the last 32 secrets.  One of fewer than 8 characters is a
 * word like others, and left alone. */
void sluice_redact_add(const char *secret);

/* Puts "***" in the place of each secret in `text`, also where it is percent-encoded or cut after
 * 12 characters, and of what says itself that it is one: user and password of a URL, and 16
 * characters and more after "Bearer ", "Signature=", "token=" and the like. */
void sluice_redact(char *text);

#endif
