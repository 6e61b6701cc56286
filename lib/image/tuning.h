#ifndef SLUICE_IMAGE_TUNING_H
#define SLUICE_IMAGE_TUNING_H

/* Limits on the cost of a decode.  Measured on one Zen 5 core of a shared machine with
 * libjpeg-turbo 2.1.5 and libpng 1.6.39; docs/operations/server-limits.md explains the effect of
 * the limits.
 *
 * Nearly all real progressive JPEGs have about 10 scans: jpegtran and Pillow write 10, mozjpeg up
 * to about 13. */

/* Scans of a JPEG.  libjpeg-turbo's own fuzzers have the same limit.  Half: still ten times what
 * encoders write; twice: a small file costs twice the time. */
#define SLUICE_DECODE_MAX_SCANS 500

/* Pixels times scans.  A scan that changes nothing costs up to 1 ns per pixel, so the limit is 1 s.
 * Half: 20 scans from 25 megapixels on; twice: bombs of 2 s. */
#define SLUICE_DECODE_MAX_PIXEL_SCANS 1000000000u

/* This many scans are always allowed, whatever the image's size: twice what encoders write. */
#define SLUICE_DECODE_MIN_SCANS 20

/* Nanoseconds of CPU time that any decode may take. */
#define SLUICE_DECODE_CPU_NS 2000000000u

/* Nanoseconds of CPU time per pixel, if that allows more: from 20 megapixels on.  A progressive
 * photo takes 22, a PNG of 16 bits with alpha 30, noise at quality 100 with four components 87.
 * Half: a slow machine refuses large photos; twice: a file as large as the limit on pixels may take
 * 36 s. */
#define SLUICE_DECODE_CPU_NS_PER_PIXEL 100

/* Pixels decoded between two reads of the clock, which take 0.3 us each: a few ms.  Most images are
 * decoded without a read. */
#define SLUICE_DECODE_PIXELS_PER_LOOK 262144u

/* Bytes of working memory that a thread keeps for the next image: the planes of a picture of 10
 * megapixels.  Half: larger photos allocate anew; twice: every thread may keep 64 MiB. */
#define SLUICE_IMAGE_KEPT_BYTES ((size_t)32 << 20)

/* Bytes of a strip or tile of a TIFF for each pixel of the picture: four samples of 16 bits, the
 * most that is read.  Half: such pictures in one strip are refused; twice: tiles much larger than
 * their picture are read. */
#define SLUICE_TIFF_BYTES_PER_PIXEL 8u

/* Bytes allowed in addition, for the part of a tile outside a small picture (256 x 256 pixels of 8
 * bytes are 512 KiB).  Also the limit of a single allocation of libtiff, such as its lists of
 * strips.  Half: tiles of 512 x 256 are the limit; twice: a tiny file takes 2 MiB. */
#define SLUICE_TIFF_OTHER_BYTES ((size_t)1 << 20)

/* Pixels from which a table is searched for a line (kernels/x86/lines_avx2.c).  Lookups take 0.9 ns
 * a pixel on a Xeon with AVX2, those of fewer pixels less time than the search.  Half: the search
 * costs more than it saves for small images; twice: images of 64 x 64 pixels use lookups. */
#define SLUICE_LINE_MIN_PIXELS 4096

/* Halvings of the range of slopes in that search.  The range is up to 2 / 255 wide and
 * slopes have to be told apart to 1 / 255^2, which takes 9; the others are a margin.  Half: lines
 * are missed, and their tables looked up; twice: the search takes twice as long. */
#define SLUICE_LINE_STEPS 12

#endif
