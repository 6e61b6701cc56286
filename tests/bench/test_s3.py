#!/usr/bin/env python3
"""bench/s3 from one end to the other on a handful of images: fields, not times."""
import os
import shutil
import sys
import unittest

from benches import BenchTest
from programs import BIN

if not shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
    print("SKIPPED: no nginx (nginx-light)")
    sys.exit(77)


class S3Test(BenchTest):
    SYNTH = ("-n", 48, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "s3", ("--bin", BIN)

    def test_each_case_is_told_of(self):
        rows = self.rows(self.root, "--rounds", 2, "--passes", 2, "--threads", 4, "--rtt", 2)
        found = {one["case"]: one for one in rows}
        self.assertEqual(list(found), ["loopback", "link", "index", "cache", "cache_store"])
        for one in found.values():
            self.assertGreater(one["value"], 0)
            self.assertGreater(one["base"], 0)
            self.assertTrue(0 < one["least"] <= one["ratio"] <= one["most"])
        # A count, not a time: an index never reads more than the files.
        self.assertLessEqual(found["index"]["most"], 1)
        self.assertEqual(found["link"]["base"], 125)


if __name__ == "__main__":
    unittest.main(verbosity=2)
