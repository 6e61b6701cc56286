#!/usr/bin/env python3
"""bench/tls from one end to the other on a handful of images: fields, not times."""
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
MODES = ["remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto"]

if not shutil.which("openssl"):
    print("SKIPPED: openssl is missing")
    sys.exit(77)


class TlsTest(unittest.TestCase):
    def test_each_mode_is_told_of(self):
        with tempfile.TemporaryDirectory() as folder:
            images = pathlib.Path(folder, "images")
            subprocess.run([BIN / "offload_dataset", "synth", images, "-n", "48", "--num-val", "0", "--classes", "2",
                            "-j", "1", "--log-level", "warn"], check=True)
            done = subprocess.run(
                [sys.executable, BENCH / "tls", images, "--bin", BIN, "--json", "--repeats", "1", "--repeat", "1"],
                capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([one["mode"] for one in found], MODES)
        for one in found:
            self.assertTrue(one["is_exact"])
            self.assertGreater(one["bytes"], 0)
            for node in ("server", "trainer"):
                self.assertGreater(one[node]["tls"], 0)
                self.assertAlmostEqual(one[node]["extra"], one[node]["tls"] - one[node]["plain"])
                self.assertAlmostEqual(one[node]["core_share"], one[node]["extra"] / 8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
