#!/usr/bin/env python3
"""A disk whose reads fail or come short: what can be read again is, and the digest is the same."""
import unittest

import torture


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class BadReads(unittest.TestCase):
    def test_short_reads_change_nothing(self):
        root = torture.make_dataset("short")
        flags = [root, "--dataset-mode", "local", "--epochs", 1, "-b", 8]
        (good,), _ = torture.train(*flags)
        (bad,), _ = torture.train(*flags, env=torture.bad_disk("call=read,path=.jpg,do=short"))
        self.assertEqual((bad["digest"], bad["errors"]), (good["digest"], 0))


if __name__ == "__main__":
    torture.main()
