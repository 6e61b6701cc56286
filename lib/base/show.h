#ifndef SLUICE_BASE_SHOW_H
#define SLUICE_BASE_SHOW_H

/* Formats figures for people, with the same units everywhere: SI bytes, Mbit/s, seconds.  Three
 * significant digits, no fraction from 100 on.  parse.h formats exactly, for programs.
 *
 * Each writes to out[] and returns it, so that a call can stand among printf's arguments. NAN and
 * infinities are printed as "-"; neither "inf" nor "nan" is ever written.
 *
 * Threads: pure functions. */

#define SLUICE_SHOW_BYTES 32

/* "0 B", "812 B", "12.4 MB", "1.50 TB": powers of 1000. */
const char *sluice_show_bytes(double bytes, char out[SLUICE_SHOW_BYTES]);

/* "500 Mbit/s", "0.80 Mbit/s"; infinite: "no limit". */
const char *sluice_show_rate(double bytes_per_s, char out[SLUICE_SHOW_BYTES]);

/* A duration for comparison: "123 us", "12.3 ms", "4.56 s", "1234 s". */
const char *sluice_show_seconds(double seconds, char out[SLUICE_SHOW_BYTES]);

/* An elapsed time: "0:07", "1:23", "2:05:09", rounded to whole seconds. */
const char *sluice_show_clock(double seconds, char out[SLUICE_SHOW_BYTES]);

/* A share: "0%", "<1%", "18%", "100%".  Clamped to [0, 1]; only exactly 1 is "100%". */
const char *sluice_show_share(double share, char out[SLUICE_SHOW_BYTES]);

/* "0", "4.20", "1234": a number without a unit, or with its unit elsewhere. */
const char *sluice_show_number(double number, char out[SLUICE_SHOW_BYTES]);

#endif
