#!/usr/bin/env python3
"""bench/peers on a handful of images, with the loaders that this Python has: rows, not times."""
import collections
import importlib.util
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys
import tarfile
import tempfile
import types
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BIN = pathlib.Path(os.environ["SLUICE_BIN"])
LOADERS = ("sluice.torch", "torchvision", "webdataset", "dali", "tf.data", "spdl")


def load_one():
    spec = importlib.util.spec_from_file_location("one", BENCH / "peers/one.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


one = load_one()


def run(*arguments):
    return subprocess.run([sys.executable, BENCH / "peers/peers", *map(str, arguments)],
                          capture_output=True, text=True, check=False)


class PeersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.images = cls.path / "images"
        subprocess.run([BIN / "offload_dataset", "synth", cls.images, "-n", "12", "--num-val", "2",
                        "--classes", "2", "-j", "1", "--log-level", "warn"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def rows(self, *arguments):
        done = run(self.images, "--bin", BIN, "--rounds", 1, "--seconds", 0.05, "--warm-up", 0,
                   "--batch", 4, "--json", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_every_loader_is_measured_or_skipped_with_a_reason(self):
        cpu = min(os.sched_getaffinity(0))
        found = collections.defaultdict(list)
        for row in self.rows("--cpus", cpu):
            found[row["name"]].append(row)
        self.assertEqual(set(found), {"offload_train", "offload_train, digest", *LOADERS})
        for name, rows in found.items():
            if "skipped" in rows[0]:
                print(f"{name}: {rows[0]['skipped']}")
                self.assertIn(name, LOADERS)
                self.assertTrue(rows[0]["skipped"])
                continue
            self.assertEqual([row["output"].split()[0] for row in rows],
                             ["u8", "f32"] if name in LOADERS else ["u8"])
            for row in rows:
                self.assertEqual((row["cpus"], row["rounds"]), (1, 1))
                self.assertGreater(row["min"], 0)
                self.assertLessEqual(row["min"], row["samples_per_s"])
                self.assertLessEqual(row["samples_per_s"], row["max"])
                self.assertAlmostEqual(row["us"] * row["samples_per_s"], 1e6, places=3)
                self.assertGreater(row["samples_per_cpu_s"], 0)
        self.assertEqual(found["offload_train"][0]["of_ours"], 1)

    def test_an_interpreter_that_is_none_is_a_reason(self):
        rows = self.rows("--python", self.path / "none", "--loaders", "dali,spdl")
        self.assertEqual([row["name"] for row in rows if "skipped" in row], ["dali", "spdl"])
        for row in rows[-2:]:
            self.assertIn("none", row["skipped"])

    def test_a_trainer_that_fails_is_exit_code_1(self):
        done = run(self.path / "images/val", "--bin", self.path, "--loaders", "dali")
        self.assertEqual(done.returncode, 1, done.stderr)

    def test_help(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertIn("--rounds", done.stdout)

    def test_samples_are_those_of_the_training_subset(self):
        paths, labels = one.samples_of(types.SimpleNamespace(images=self.images))
        self.assertEqual(len(paths), 12)
        self.assertEqual(sorted(set(labels)), [0, 1])
        for path, label in zip(paths, labels):
            same = [other for name, other in zip(paths, labels)
                    if pathlib.Path(name).parent == pathlib.Path(path).parent]
            self.assertEqual(set(same), {label})

    def test_shards_hold_every_image_with_its_label(self):
        paths, labels = one.samples_of(types.SimpleNamespace(images=self.images))
        expected = collections.Counter((pathlib.Path(path).read_bytes(), label)
                                       for path, label in zip(paths, labels))
        found = collections.Counter()
        for shard in one.write_shards(self.path / "shards", paths, labels):
            with tarfile.open(shard) as tar:
                members = tar.getmembers()
                self.assertTrue(members)
                for image, label in zip(members[::2], members[1::2]):
                    self.assertEqual(image.name.split(".")[0], label.name.split(".")[0])
                    found[tar.extractfile(image).read(), int(tar.extractfile(label).read())] += 1
        self.assertEqual(found, expected)

    def test_an_order_has_each_place_once_a_round(self):
        places = list(itertools.islice(one.endless(7, 3), 21))
        for start in range(0, 21, 7):
            self.assertEqual(sorted(places[start:start + 7]), list(range(7)))
        self.assertNotEqual(places[:7], places[7:14])

    def test_boxes_lie_within_the_image_and_in_the_ranges(self):
        draw = random.Random(5)
        for width, height in ((500, 375), (1, 1), (1000, 10), (10, 1000), (3, 4)):
            for _ in range(200):
                x, y, w, h = one.torch_like_box(draw, width, height)
                self.assertTrue(0 <= x <= x + w <= width and 0 <= y <= y + h <= height)
                self.assertTrue(w > 0 and h > 0)
                if (width, height) == (500, 375):
                    self.assertTrue(0.079 < w * h / (width * height) <= 1)
                    self.assertTrue(0.74 < w / h < 1.35)


if __name__ == "__main__":
    unittest.main()
