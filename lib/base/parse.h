#ifndef SLUICE_BASE_PARSE_H
#define SLUICE_BASE_PARSE_H

#include "base/error.h"

#include <stdint.h>

/* Numbers as people write them, in options (base/cli.h), files and the environment.
 *
 * The parsers take the whole text or none of it: SLUICE_E_INVALID, with the text named, and the
 * value untouched.
 *
 * Threads: pure functions. */

/* Decimal digits. */
SLUICE_MUST_USE sluice_status sluice_parse_uint(const char *text, uint64_t *value,
                                                struct sluice_err *err);
/* Finite, decimal. */
SLUICE_MUST_USE sluice_status sluice_parse_double(const char *text, double *value,
                                                  struct sluice_err *err);
/* "64", "64k", "64M", "2G": powers of 1024. */
SLUICE_MUST_USE sluice_status sluice_parse_bytes(const char *text, uint64_t *bytes,
                                                 struct sluice_err *err);
/* "500mbit", "1gbit", "62.5MB": powers of 1000; a bare number is Mbit/s; 0 or "none": no limit. */
SLUICE_MUST_USE sluice_status sluice_parse_rate(const char *text, double *bytes_per_s,
                                                struct sluice_err *err);

/* The shortest text that the parser above reads back as exactly this value; 400 characters hold the
 * longest double without an exponent. */
void sluice_format_bytes(uint64_t bytes, char out[32]);
void sluice_format_double(double value, char out[32]);
void sluice_format_rate(double bytes_per_s, char out[400]);

#endif
