#ifndef SLUICE_BASE_PARSE_H
#define SLUICE_BASE_PARSE_H

#include "base/error.h"

#include <stdint.h>

/* Parses numbers with units, from options (cli/cli.h), files and the environment.
 *
 * A parser accepts the whole text or fails: SLUICE_E_INVALID names the text and leaves the value
 * untouched.
 *
 * Threads: pure functions. */

/* Decimal digits. */
SLUICE_MUST_USE sluice_status sluice_parse_uint(const char *text, uint64_t *value,
                                                struct sluice_err *err);
/* Finite, decimal. */
SLUICE_MUST_USE sluice_status sluice_parse_double(const char *text, double *value,
                                                  struct sluice_err *err);
/* A number and a unit, with a blank between them or none; a fraction where the result is whole.
 *   "65536", "65536B"                    bytes
 *   "64k", "16M", "1.5G", "2T"           a letter alone: powers of 1024, small or capital
 *   "64KiB", "16MiB", "1.5GiB", "2TiB"   powers of 1024 (a capital or small first letter)
 *   "64kB", "16MB", "1.5GB", "2TB"       powers of 1000 (likewise)
 * "16mb" is rejected, because a small b means bits. */
SLUICE_MUST_USE sluice_status sluice_parse_bytes(const char *text, uint64_t *bytes,
                                                 struct sluice_err *err);

/* Likewise; powers of 1000, or of 1024 with an i.  0 or "none": no limit.
 *   "500"                                      Mbit/s
 *   "500mbit", "500Mbit/s", "0.5Gbit", "8bit"  bits, in any case
 *   "500Mbps", "1gbps", "500Mb/s", "1Gb"       bits
 *   "62.5MB", "62.5MB/s", "62.5MBps", "60MiB"  bytes
 * A small b means bits, a capital B bytes.  Ambiguous texts are rejected: "60mb" (all small, unless
 * "bps" follows), "60MBPS" (all capital). */
SLUICE_MUST_USE sluice_status sluice_parse_rate(const char *text, double *bytes_per_s,
                                                struct sluice_err *err);

/* "500ms", "90s", "2m" or "2min", "1.5h", "1d"; also "us" and "sec".  *value counts units of
 * `unit_s` seconds (1, 1e-3), and so does a bare number. */
SLUICE_MUST_USE sluice_status sluice_parse_time(const char *text, double unit_s, double *value,
                                                struct sluice_err *err);

/* Writes the shortest text that the parser above reads back as exactly this value ("64KiB",
 * "500Mbit/s", "90s"); 400 characters hold the longest double without an exponent.  show.h formats
 * for people. */
void sluice_format_bytes(uint64_t bytes, char out[32]);
void sluice_format_double(double value, char out[32]);
void sluice_format_rate(double bytes_per_s, char out[400]);
void sluice_format_time(double value, double unit_s, char out[32]);

#endif
