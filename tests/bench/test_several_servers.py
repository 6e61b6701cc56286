#!/usr/bin/env python3
"""bench/several_servers from one end to the other on a handful of images: fields, not times."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))

from sluice_bench import quota  # noqa: E402

BIN = pathlib.Path(os.environ["SLUICE_BIN"])


class SeveralServersTest(unittest.TestCase):
    def test_each_case_is_told_of(self):
        cases = ["links", "kill", "rolling"] + ["cpu"] * quota.is_possible()
        with tempfile.TemporaryDirectory() as folder:
            images = pathlib.Path(folder, "images")
            subprocess.run([BIN / "offload_dataset", "synth", images, "-n", "64", "--num-val", "0",
                            "--classes", "2", "-j", "1", "--log-level", "warn"], check=True)
            done = subprocess.run(
                [sys.executable, BENCH / "several_servers", images, "--bin", BIN, "--json",
                 "--cases", ",".join(cases), "--repeats", "1", "--kills", "2", "--cores", "0.5", "--rate", "100"],
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one["case"] for one in found], cases)
        for one in found:
            self.assertTrue(one["is_exact"])
            for key in {"kill": ("median_s", "p99_s", "most_s"),
                        "rolling": ("seconds", "gaps_s")}.get(one["case"], ("ratio",)):
                for value in one[key] if isinstance(one[key], list) else [one[key]]:
                    self.assertGreaterEqual(value, 0, key)
            if one["case"] == "links":
                self.assertIn(one["kind"], ("netns", "link-limit"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
