#ifndef SLUICE_DATASETS_MANIFEST_TEXT_FORMAT_H
#define SLUICE_DATASETS_MANIFEST_TEXT_FORMAT_H

#include "datasets/manifest/manifest.h"

/* Private to the reader and the writer of manifests as text; docs/man/sluice-manifest.5.in
 * describes them. */

#define FIRST_LINE_6 "# sluice manifest 6" /* version 4, lines of fields and their columns */
#define FIRST_LINE_5 "# sluice manifest 5" /* version 4, a line of targets and their column */
#define FIRST_LINE_4 "# sluice manifest 4" /* version 3 and the column `offset` */
#define FIRST_LINE "# sluice manifest 3"
#define FIRST_LINE_2 "# sluice manifest 2" /* the same without the column `mtime_ns` */
#define LAST_LINE "# xxh3_128 of all\t"
#define FIRST_LINE_1 "# sluice manifest 1" /* and without the column `coding` */

#define PASSED_OVER "\tpassed over\t"

#define NUM_COLUMNS 9                 /* of version 3 */
#define VALUES_FROM (NUM_COLUMNS + 1) /* columns of fields, behind those of version 4 */
#define MOST_COLUMNS (VALUES_FROM + SLUICE_MAX_FIELDS)

#define TARGETS_LINE "# targets\t"
#define FIELDS_LINE "# fields\t"
#define FIELD_LINE "# field\t"

/* XXH3-128 over all that the file says, of which the id knows paths, sizes and labels alone.  As
 * the id, a chain of hashes. */
struct sluice_hash128 sluice_manifest_hash_all(const struct sluice_manifest *manifest,
                                               bool has_offsets);

#endif
