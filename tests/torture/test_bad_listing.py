#!/usr/bin/env python3
"""A disk that fails while the folder is listed: an error that names it, never a smaller dataset."""
import unittest

import torture
from programs import run

# What fails, by the rule of tests/preload/bad_disk.c, and what the error must name.
RULES = {
    "the end of a folder": ("call=readdir,path=cat,after=5,do=eio", "train/cat"),
    "the top": ("call=readdir,path=bad-listing,do=eio", "bad-listing"),
    "no descriptors": ("call=open,path=dog,do=emfile", "train/dog"),
    "a file's length": ("call=stat,path=0007.jpg,do=eio", "0007.jpg"),
}


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class BadListing(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("bad-listing", count=20, size=48)

    def run_program(self, program, *args, rule):
        return run(program, *args, env=torture.bad_disk(rule), code=None)

    def check(self, done, place):
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(place, done.stderr)
        self.assertIn("would not be whole", done.stderr)

    def test_the_server_does_not_start(self):
        for name, (rule, place) in RULES.items():
            with self.subTest(name):
                done = self.run_program("offload_server", "--root", self.root, "--listen",
                                        "127.0.0.1:0", rule=rule)
                self.check(done, place)
                self.assertNotIn("listening", done.stdout)

    def test_the_trainer_does_not_start(self):
        rule, place = RULES["the end of a folder"]
        self.check(self.run_program("offload_train", self.root, "--dataset-mode", "local", "--json",
                                    "--device", "none", rule=rule), place)

    def test_no_index_is_written_and_no_set_is_found_whole(self):
        rule, place = RULES["the end of a folder"]
        index = self.root / "list.tsv"
        self.check(self.run_program("offload_dataset", "index", self.root, "-o", index, rule=rule),
                   place)
        self.assertFalse(index.exists())
        run("offload_dataset", "index", self.root, "-o", index)
        self.check(self.run_program("offload_dataset", "verify", self.root, "--manifest", index,
                                    rule=rule), place)

    def test_no_tensors_of_a_part_of_a_folder_are_written(self):
        rule, place = RULES["the end of a folder"]
        out = self.root.with_name("bad-listing-tensors")
        done = self.run_program("offload_dataset", "tensor", self.root, "-o", out, rule=rule)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(place, done.stderr)
        self.assertFalse(out.exists() and any(out.iterdir()))


if __name__ == "__main__":
    torture.main()
