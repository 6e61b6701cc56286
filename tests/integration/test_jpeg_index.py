#!/usr/bin/env python3
"""With an index of the JPEGs, a stale one, a cut one and none: one digest, and fewer bytes read."""
import json
import os
import pathlib
import shutil
import unittest

import programs
from programs import SynthTest, run

NUM_TRAIN = 24
INDEX = "sluice-jpeg-index.bin"

# What makes use of an index: a cut file, pixels, pixels of the box, and rows of the file.
WAYS = (("remote_nooff", "jpeg_crop"), ("remote_piloff", "raw"), ("remote_nooff", "u8_packed"),
        ("remote_nooff", "jpeg_rows"))


def dataset(*arguments, code=0):
    return run("offload_dataset", *arguments, code=code)


def train(*flags):
    reports, log = programs.train("-b", 8, "-p", 0, "--image-size", 64, "--no-val", "--epochs", 2, *flags)
    return [report["digest"] for report in reports], log


class JpegIndexTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 0, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.digest, _ = train(cls.root, "--dataset-mode", "local", "--jpeg-index", "off")
        summary = json.loads(dataset("index", "--jpeg-index", "--json", cls.root).stdout)
        cls.num_indexed = summary["jpeg_index"]["made"]
        cls.num_without = summary["jpeg_index"]["without"]  # PNG and progressive

    def serve(self, root, *flags):
        """The sums over all ways."""
        server = programs.Server(root, *flags)
        try:
            for mode, form in WAYS:
                digest, _ = train("--host", server.address, "--dataset-mode", mode,
                                  "--remote-form", form)
                self.assertEqual(digest, self.digest, (mode, form, flags))
        finally:
            stats, log = server.finish()
        self.assertEqual(stats["files"]["reads"], len(WAYS) * 2 * NUM_TRAIN)
        self.assertEqual(stats["errors"], {})
        return stats, log

    @staticmethod
    def indexed(root):
        """The JPEGs with an entry: those that are not progressive."""
        return [path for path in sorted(root.glob("**/*.jpg"))
                if b"\xff\xc2" not in path.read_bytes()[:1000]]

    def copy(self, name):
        """The set again, times included."""
        copy = pathlib.Path(self.folder.name, name)
        shutil.copytree(self.root, copy)
        return copy

    def test_only_what_is_needed_is_read(self):
        self.assertEqual(self.num_indexed + self.num_without, NUM_TRAIN)
        self.assertGreater(self.num_indexed, NUM_TRAIN // 2)
        stats, log = self.serve(self.root)
        self.assertIn(f"index of {self.num_indexed} JPEGs", log)
        rounds = len(WAYS) * 2
        self.assertEqual((stats["jpeg_index"]["hits"], stats["jpeg_index"]["stale"],
                          stats["jpeg_index"]["missing"]),
                         (rounds * self.num_indexed, 0, rounds * self.num_without))
        self.assertLess(stats["files"]["read_bytes"], 0.95 * stats["files"]["bytes"])
        stats, _ = self.serve(self.root, "--jpeg-index", "off")
        self.assertEqual(stats["jpeg_index"], {"hits": 0, "stale": 0, "missing": 0, "again": 0})
        self.assertEqual(stats["files"]["read_bytes"], stats["files"]["bytes"])

    def test_a_profile_knows_of_the_index(self):
        """So that a plan from it counts what would be read of each file."""
        for index, expected in (("auto", True), ("off", False)):
            folder = pathlib.Path(self.folder.name, f"profile-{index}")
            server = programs.Server(self.root, "--jpeg-index", index)
            try:
                train("--host", server.address, "--dataset-mode", "remote_nooff", "--epochs", 1,
                      "--profiling", "--write-profile-folder", folder, "--profile-samples", 4)
            finally:
                server.finish()
            model = json.loads((folder / "cost_model.json").read_text())
            self.assertIs(model["jpeg_index"], expected)
            model["disk"] = {"sample": 0, "file_byte": 1e-6}  # as a slow disk would have it
            (folder / "cost_model.json").write_text(json.dumps(model))

            def read_s(name):
                done = run("offload_profile", "plan", "--profile-folder", folder, "--json", "--planner",
                           "piloff", "--jpeg-index", name)
                return json.loads(done.stdout)["busy_s"]["disk"]

            self.assertLess(read_s("yes"), 0.95 * read_s("no"))
            self.assertEqual(read_s("auto"), read_s("yes" if expected else "no"))

    def test_local_files_too(self):
        digest, log = train(self.root, "--dataset-mode", "local")
        self.assertEqual(digest, self.digest)
        self.assertIn(f"{2 * self.num_indexed} hits, 0 stale, {2 * self.num_without} missing", log)

    def test_a_file_that_changed_is_stale(self):
        root = self.copy("changed")
        files = self.indexed(root)
        os.utime(files[0], ns=(1, 1))
        with open(files[1], "ab") as file:
            file.write(b"\0")  # after EOI: the same picture
        (root / "sluice-manifest.tsv").unlink()  # which has the length
        stats, _ = self.serve(root)
        rounds = len(WAYS) * 2
        self.assertEqual((stats["jpeg_index"]["hits"], stats["jpeg_index"]["stale"]),
                         (rounds * (self.num_indexed - 2), rounds * 2))
        # What did not change keeps its entry.
        summary = json.loads(dataset("index", "--jpeg-index", "--json", root).stdout)
        self.assertEqual((summary["jpeg_index"]["made"], summary["jpeg_index"]["kept"]),
                         (2, self.num_indexed - 2))
        dataset("verify", "--jpeg-index", root)
        os.utime(files[0], ns=(2, 2))
        self.assertIn(f"{files[0].name}: its index is stale",
                      dataset("verify", "--jpeg-index", root, code=1).stderr)

    def test_a_change_that_length_and_time_hide_is_found_where_it_is_read(self):
        """Pixels of the new file, as without an index."""
        root = self.copy("hidden")
        path = self.indexed(root)[0]
        time = os.stat(path).st_mtime_ns
        bytes_ = bytearray(path.read_bytes())
        bytes_[bytes_.index(b"\xff\xdb") + 20] ^= 1  # a quantiser, which all pixels depend on
        path.write_bytes(bytes_)
        os.utime(path, ns=(time, time))
        digest, _ = train(root, "--dataset-mode", "local", "--jpeg-index", "off")
        self.assertNotEqual(digest, self.digest)
        type(self).digest, old = digest, self.digest
        try:
            stats, _ = self.serve(root)
        finally:
            type(self).digest = old
        self.assertEqual(stats["jpeg_index"]["stale"], 0)
        self.assertGreater(stats["jpeg_index"]["again"], 0)

    def test_a_cut_or_damaged_index_is_ignored_with_a_warning(self):
        root = self.copy("cut")
        whole = (root / INDEX).read_bytes()
        for damaged in (whole[:-1], whole[:-1] + bytes([whole[-1] ^ 1])):
            (root / INDEX).write_bytes(damaged)
            stats, log = self.serve(root)
            self.assertIn(f"{root / INDEX}", log)
            self.assertIn("without this index of JPEGs", log)
            self.assertEqual(stats["jpeg_index"]["hits"], 0)
        _, log = train(root, "--dataset-mode", "local")
        self.assertIn(f"{root / INDEX}", log)
        # An entry alone.
        (root / INDEX).write_bytes(whole[:70] + bytes([whole[70] ^ 1]) + whole[71:])
        stats, _ = self.serve(root)
        self.assertEqual(stats["jpeg_index"]["stale"], len(WAYS) * 2)
        # One that is named must be there.
        with self.assertRaisesRegex(RuntimeError, "nowhere.bin"):
            programs.Server(root, "--jpeg-index", root / "nowhere.bin")


if __name__ == "__main__":
    unittest.main(verbosity=2)
