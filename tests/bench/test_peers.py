#!/usr/bin/env python3
"""bench/peers on a handful of images, with the loaders that this Python has: rows, not times."""
import collections
import itertools
import os
import pathlib
import random
import tarfile
import types
import unittest

from benches import BenchTest, load_one
from programs import BIN

LOADERS = ("sluice.torch", "torchvision", "webdataset", "dali", "tf.data", "spdl")


one = load_one()


class PeersTest(BenchTest):
    SYNTH = ("-n", 12, "--num-val", 2, "--classes", 2, "-j", 1, "--log-level", "warn")
    PROGRAM = "peers/peers"

    def rows(self, *arguments):
        return super().rows(self.root, "--bin", BIN, "--rounds", 1, "--seconds", 0.05, "--warm-up", 0, "--batch",
                            4, *arguments)

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
        self.bench(self.root / "val", "--bin", self.path, "--loaders", "dali", code=1)

    def test_help(self):
        self.assertIn("--rounds", self.bench("--help").stdout)

    def test_samples_are_those_of_the_training_subset(self):
        paths, labels = one.samples_of(types.SimpleNamespace(images=self.root))
        self.assertEqual(len(paths), 12)
        self.assertEqual(sorted(set(labels)), [0, 1])
        for path, label in zip(paths, labels):
            same = [other for name, other in zip(paths, labels)
                    if pathlib.Path(name).parent == pathlib.Path(path).parent]
            self.assertEqual(set(same), {label})

    def test_shards_hold_every_image_with_its_label(self):
        paths, labels = one.samples_of(types.SimpleNamespace(images=self.root))
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
