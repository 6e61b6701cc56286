#ifndef SLUICE_IMAGE_JPEG_CROP_MCUS_H
#define SLUICE_IMAGE_JPEG_CROP_MCUS_H

#include "image/jpeg/bit_writer.h"
#include "image/jpeg/lanes.h"
#include "image/jpeg/stretch.h"

/* Private to crop_cut.c: keeps MCUs of a scan in a crop, or skips them.
 *
 * The coded bits of a kept MCU are copied.  Only DC differences change, and only where it gets
 * another predecessor: at the start of each kept row and of each segment of the crop, and where the
 * file restarts.  With subsampling an MCU at the window's edge may have blocks that the box does
 * not touch: these become blank.  Skipping is parsing without decoding.
 *
 * Threads: a cutter belongs to one. */

struct sluice_jpeg_cut_block {
    const struct sluice_jpeg_coding *coding;
    const struct sluice_jpeg_codes *dc_codes;
    unsigned component;
    bool may_be_blank;
    uint32_t left, top; /* pixels in the MCU, if it may be blank */
    uint16_t end_code;  /* end of block */
    uint8_t end_length;
};

struct sluice_jpeg_cut_tables {
    struct sluice_jpeg_lanes lanes;
    struct sluice_jpeg_codes dc_codes[4], ac_codes[4];
};

struct sluice_jpeg_cutter {
    const struct sluice_jpeg *jpeg;
    struct sluice_jpeg_lanes *lanes;
    const uint8_t *base; /* of the scan that is read, from which bits are counted */
    struct sluice_jpeg_reader in;
    size_t end_bits; /* end of the segment that is read */
    uint32_t dc[4];  /* unsigned, because a file may make them overflow */
    struct sluice_jpeg_cut_block blocks[SLUICE_JPEG_MAX_BLOCKS_IN_MCU];
    unsigned num_blocks;

    const struct sluice_box *box;
    uint32_t first_column, end_column; /* MCUs of the window */
    /* Whether any block may become blank; and where in the current row some do. */
    bool has_blanks;
    bool has_blanks_in_row, has_blank_left, has_blank_right;
    const struct sluice_jpeg_mark *marks; /* of the current row, by column; those not passed yet */
    size_t num_marks;
    struct sluice_jpeg_scan *kept;
    struct sluice_jpeg_bit_writer out;
    uint32_t kept_dc[4]; /* of the last kept block of the segment */
    uint32_t kept_interval;
    uint32_t kept_left; /* MCUs that the crop's segment still takes */
};

/* The cutter reads with the file's tables; the tables of `jpeg` become those of the crop. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cutter_init(struct sluice_jpeg_cutter *cutter,
                                                      struct sluice_jpeg *jpeg,
                                                      struct sluice_jpeg_cut_tables *tables,
                                                      struct sluice_err *err);

/* SLUICE_E_CORRUPT. */
sluice_status sluice_jpeg_fail_damaged(struct sluice_err *err);

/* Reads from a bit of this segment of a scan on; dc: the predictors there, NULL: zeros. */
void sluice_jpeg_cutter_read(struct sluice_jpeg_cutter *cutter, const struct sluice_jpeg_scan *scan,
                             size_t segment, size_t bit, const int32_t *dc);

/* Begins a row: finds out where in it blocks become blank. */
void sluice_jpeg_cutter_begin_row(struct sluice_jpeg_cutter *cutter, uint32_t row);
bool sluice_jpeg_cutter_has_blank_column(const struct sluice_jpeg_cutter *cutter, uint32_t column);

/* Begins a segment of the crop: its DC predictors are zero; and ends it. */
void sluice_jpeg_cutter_begin_segment(struct sluice_jpeg_cutter *cutter);
void sluice_jpeg_cutter_end_segment(struct sluice_jpeg_cutter *cutter);

/* Skips MCUs of one segment of the file. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cutter_skip(struct sluice_jpeg_cutter *cutter,
                                                      uint32_t num_mcus, struct sluice_err *err);

/* Keeps MCUs of one segment of the file and one row.  While the DC predictors of file and crop are
 * the same, all bits are copied as they are. */
SLUICE_MUST_USE sluice_status sluice_jpeg_cutter_keep(struct sluice_jpeg_cutter *cutter,
                                                      uint32_t row, uint32_t column,
                                                      uint32_t num_mcus, struct sluice_err *err);

#endif
