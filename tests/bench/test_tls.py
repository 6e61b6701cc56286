#!/usr/bin/env python3
"""bench/tls from one end to the other on a handful of images: fields, not times."""
import shutil
import sys
import unittest

from benches import BenchTest
from programs import BIN

MODES = ["remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto"]

if not shutil.which("openssl"):
    print("SKIPPED: openssl is missing")
    sys.exit(77)


class TlsTest(BenchTest):
    SYNTH = ("-n", 48, "--num-val", 0, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM, FLAGS = "tls", ("--bin", BIN)

    def test_each_mode_is_told_of(self):
        found = self.rows(self.root, "--repeats", 1, "--repeat", 1)
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
