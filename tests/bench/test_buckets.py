#!/usr/bin/env python3
"""bench/buckets runs, and an epoch's padded rows keep below buckets x ranks."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/support"))
from programs import BIN, run  # noqa: E402


class BucketsTest(unittest.TestCase):
    def test_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            run("offload_dataset", "synth", f"{folder}/set", "-n", "30", "--num-val", "0", "--classes", "2")
            run("offload_dataset", "index", f"{folder}/set")
            done = subprocess.run([ROOT / "bench/buckets", BIN, f"{folder}/set", "--rounds", "1"], capture_output=True,
                                  text=True, check=True)
        printed = json.loads(done.stdout)
        self.assertGreater(printed["square_s"], 0)
        self.assertGreater(printed["buckets_s"], 0)
        self.assertLess(printed["padded_rows"], printed["bound"])


if __name__ == "__main__":
    unittest.main()
