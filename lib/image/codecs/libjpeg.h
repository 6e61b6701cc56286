#ifndef SLUICE_IMAGE_CODECS_LIBJPEG_H
#define SLUICE_IMAGE_CODECS_LIBJPEG_H

#include "base/buf.h"
#include "image/codecs/decode_budget.h"
#include "image/image_internal.h"

#include <setjmp.h>
#include <stdio.h>

#include <jerror.h>
#include <jpeglib.h>

/* The one door to libjpeg(-turbo): errors, input, output and CPU time of its jobs.  Used by the
 * decoder (jpeg.c), the encoder (jpeg_encode.c) and the cropper (image/jpeg/crop_libjpeg.c).
 *
 * Threads: one at a time for each job. */

/* libjpeg reports an error by calling error_exit, which must not return: it jumps
 * back to the function that called libjpeg.  Everything that must survive the
 * jump lives in a job struct, never in a local variable. */
struct libjpeg_errors {
    struct jpeg_error_mgr base;
    jmp_buf on_error;
};

void libjpeg_errors_init(struct libjpeg_errors *errors);

/* After a jump: returns the status and sets the text of libjpeg's error. */
sluice_status libjpeg_fail(j_common_ptr cinfo, struct sluice_err *err);

/* libjpeg calls the monitor before each row of MCUs that it reads, in each scan, and before the
 * rows that it gives. */
struct libjpeg_watch {
    struct jpeg_progress_mgr progress;
    struct sluice_decode_budget budget;
};

/* Call it once the header has been read. */
void libjpeg_watch_start(struct libjpeg_watch *watch, struct jpeg_decompress_struct *cinfo);

/* The input is one piece of memory.  Running out of bytes is an error, whereas jpeg_mem_src inserts
 * an EOI.  The last MCU cannot be decoded without the marker behind it, so a file that lacks only
 * its EOI fails, too. */
void libjpeg_source_init(struct jpeg_source_mgr *source, const uint8_t *bytes, size_t len);

/* Checks the number of scans, because each one goes over the whole image.  Call it once the header
 * has been read. */
SLUICE_MUST_USE sluice_status libjpeg_check_scans(struct jpeg_decompress_struct *cinfo,
                                                  struct sluice_err *err);

/* The output is a buffer that grows. */
struct libjpeg_sink {
    struct jpeg_destination_mgr base;
    struct sluice_image_writer writer; /* the caller's: unref its file */
    sluice_status status;              /* of the writer, if it ended the job */
    struct sluice_err *err;
};

void libjpeg_sink_init(struct libjpeg_sink *sink, struct sluice_err *err);

#endif
