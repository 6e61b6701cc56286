#!/usr/bin/env python3
"""bench/jobs from one end to the other on a handful of images: fields, not times."""
import sys
import unittest

from benches import BenchTest
from programs import BIN

try:
    import jsonschema  # noqa: F401
    import yaml  # noqa: F401
except ImportError as error:
    print(f"SKIPPED: python3-{error.name} is missing")
    sys.exit(77)


class JobsTest(BenchTest):
    PROGRAM, FLAGS = "jobs", ("--bin", BIN, "--repeats", 1, "--repeat", 2, "--workers", 1)

    def test_each_row_is_there(self):
        rows = {row["row"]: row for row in self.rows(self.root)}
        self.assertEqual(list(rows), ["epoch", "freeze", "cancel", "resume", "burners"])
        self.assertTrue(rows["epoch"]["is_exact"])
        self.assertGreater(rows["epoch"]["ratio"], 0)
        self.assertGreater(rows["freeze"]["ms"], 0)
        self.assertTrue("left_out" in rows["burners"] or rows["burners"]["limited_ratio"] > 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
