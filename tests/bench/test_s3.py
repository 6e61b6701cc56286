#!/usr/bin/env python3
"""bench/s3 from one end to the other on a handful of images: fields, not times."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BIN = pathlib.Path(os.environ["SLUICE_BIN"])

if not shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin:/sbin"):
    print("SKIPPED: no nginx (nginx-light)")
    sys.exit(77)


class S3Test(unittest.TestCase):
    def test_each_case_is_told_of(self):
        with tempfile.TemporaryDirectory() as folder:
            images = pathlib.Path(folder, "images")
            subprocess.run([BIN / "offload_dataset", "synth", images, "-n", "48", "--num-val", "0", "--classes", "2",
                            "-j", "1", "--log-level", "warn"], check=True)
            done = subprocess.run(
                [sys.executable, BENCH / "s3", images, "--bin", BIN, "--json", "--rounds", "2", "--passes", "2",
                 "--threads", "4", "--rtt", "2"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = {one["case"]: one for one in map(json.loads, done.stdout.splitlines())}
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
