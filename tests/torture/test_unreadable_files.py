#!/usr/bin/env python3
"""Single files that cannot be read: listed, named and counted, and no end of the index."""
import json
import unittest

import torture
from programs import run

RULES = {
    "a bad block": "call=read,path=dog/0003.jpg,do=eio",
    "no permission": "call=open,path=dog/0003.jpg,do=eacces",
    "gone since the walk": "call=open,path=dog/0003.jpg,do=enoent",
}
NAME = "train/dog/0003.jpg"


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class UnreadableFiles(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("unreadable", count=60, size=48)
        cls.manifest = cls.root / "sluice-manifest.tsv"

    def setUp(self):
        for path in self.root.glob("sluice-*"):
            path.unlink()

    def dataset(self, *args, rule=None, code=0):
        return run("offload_dataset", *args, env=torture.bad_disk(rule) if rule else None, code=code)

    def rows(self):
        """{path: hash} of the manifest."""
        lines = [line.split("\t") for line in self.manifest.read_text().splitlines()]
        return {row[0]: row[6] for row in lines if row[0].startswith("train/")}

    def test_index_lists_them_without_a_hash(self):
        for name, rule in RULES.items():
            with self.subTest(name):
                done = self.dataset("index", self.root, "--anew", "--jpeg-index", "--json", rule=rule)
                summary = json.loads(done.stdout)
                self.assertEqual((summary["samples"], summary["unreadable"], summary["bad"]),
                                 (60, 1, 0))
                self.assertEqual(done.stderr.count(NAME), 1)
                self.assertEqual([p for p, hash_ in self.rows().items() if hash_ == "-"], [NAME])
                self.assertEqual(summary["jpeg_index"]["made"] + summary["jpeg_index"]["kept"], 59)
        self.assertIn(" 0 bad, 1 unreadable, ",
                      self.dataset("index", self.root, "--anew", rule=rule).stdout)

    def test_index_names_a_bounded_number_and_strict_refuses(self):
        done = self.dataset("index", self.root, "--anew", "--strict", rule=RULES["a bad block"], code=1)
        self.assertIn("--strict: 1 of 60 files of", done.stderr)
        self.assertFalse(self.manifest.exists())
        done = self.dataset("index", self.root, "--anew", rule="call=read,path=/dog/,do=eio")
        self.assertEqual(done.stderr.count("/dog/"), 20)
        self.assertEqual(done.stderr.count("and more such files"), 1)
        self.assertIn(" 30 unreadable, ", done.stdout)
        self.manifest.unlink()
        done = self.dataset("index", self.root, "--anew", rule="call=read,path=.jpg,do=eio", code=1)
        self.assertIn("none of its files can be read", done.stderr)
        self.assertFalse(self.manifest.exists())

    def test_the_trainer_skips_them_and_reads_them_once_they_are_back(self):
        rule = RULES["a bad block"]
        self.dataset("index", self.root, "--anew", rule=rule)
        flags = [self.root, "--dataset-mode", "local", "--epochs", 1, "-b", 5, "--on-error", "skip",
                 "--retry-for", "0.1"]
        (epoch,), done = torture.train(*flags, env=torture.bad_disk(rule))
        self.assertEqual((epoch["samples"], epoch["errors"]), (59, 1))
        self.assertIn(NAME, done.stderr)
        (epoch,), _ = torture.train(*flags)
        self.assertEqual((epoch["samples"], epoch["errors"]), (60, 0))

    def test_verify_names_them_and_says_what_it_could_not_compare(self):
        self.dataset("index", self.root, "--anew")
        done = self.dataset("verify", self.root, rule=RULES["a bad block"], code=1)
        self.assertIn(NAME, done.stderr)
        self.assertIn(" 1 bad, ", done.stdout)
        self.dataset("index", self.root, "--anew", rule=RULES["a bad block"])
        done = self.dataset("verify", self.root)
        self.assertIn("no hash of 1 file: only the length was compared", done.stderr)


if __name__ == "__main__":
    torture.main()
