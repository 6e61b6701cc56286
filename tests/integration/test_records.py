#!/usr/bin/env python3
"""MDS shards and LitData's chunks: one digest with the folder and with tars, in each mode; what cannot
be read where it lies is refused in words."""
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

import programs
import record_sets
from test_shards import NUM_TRAIN, NUM_VAL, SetCase, dataset, index

IMAGES = [("image", "bytes", None), ("label", "int", 8)]
LIBRARY_PYTHON = os.environ.get("SLUICE_RECORDS_PYTHON", sys.executable)


class RecordsTest(SetCase):
    def setUp(self):
        self.samples = record_sets.samples_of(self.root)

    def rows(self, subset="train"):
        return [(data, struct.pack("<q", label)) for data, label in self.samples[subset]]

    def write_mds(self, name):
        out = self.empty(name)
        for subset in self.samples:
            record_sets.write_mds(out / subset, self.rows(subset), IMAGES, per_shard=12)
        return out

    def check_set(self, root, shards):
        summary = index(root, "--jpeg-index")
        self.assertEqual((summary["samples"], summary["shards"], summary["damaged_shards"]),
                         (NUM_TRAIN + NUM_VAL, shards, 0))
        self.assertEqual(summary["classes"], 3)
        self.check_modes(root)

    def refused(self, root, *flags):
        return dataset("index", *flags, root, code=1).stderr

    def test_mds_has_the_digest_of_the_folder_and_of_tars(self):
        root = self.write_mds("mds")
        self.check_set(root, 4)
        tars = pathlib.Path(self.folder.name, "tars-of-it")
        dataset("pack", self.root, tars)
        index(tars)
        self.assertEqual(self.train("local", tars)["digest"], self.digest)
        programs.Server(root, "--strict").finish()

    def test_litdata_has_the_digest_of_the_folder(self):
        root = self.empty("litdata")
        for subset in self.samples:
            record_sets.write_litdata(root / subset, self.rows(subset), ["image", "label"],
                                      ["bytes", "int"], per_chunk=11)
        self.check_set(root, 4)
        # Leaves without names have numbers.
        for subset in self.samples:
            config = root / subset / "index.json"
            config.write_text(config.read_text().replace("builtins.dict", "builtins.tuple"))
        self.assertIn("--label-key NAME says which of 1 has the labels", self.refused(root))
        self.assertEqual(index(root, "--label-key", "1")["classes"], 3)
        self.assertEqual(index(root, "--label-key", "")["classes"], 1)
        config.write_text(config.read_text().replace('"compression": null', '"compression": "zstd"'))
        self.assertIn("val/chunk-0-0.bin is compressed (zstd): cannot be read in place",
                      self.refused(root))

    def by_library(self, kind):
        out = pathlib.Path(self.folder.name, f"{kind}-by-library")
        script = pathlib.Path(record_sets.__file__)
        done = subprocess.run([LIBRARY_PYTHON, script, kind, self.root, out], text=True,
                              capture_output=True)
        if "ImportError" in done.stderr or "ModuleNotFoundError" in done.stderr:
            self.skipTest(f"{kind}'s library is missing: {done.stderr.splitlines()[-1]}; "
                          "SLUICE_RECORDS_PYTHON names a Python that has it")
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def test_mds_as_mosaicml_streaming_writes_it(self):
        root = self.by_library("mds")
        self.check_set(root, len(list(root.rglob("*.mds"))))

    def test_chunks_as_litdata_writes_them(self):
        root = self.by_library("litdata")
        self.check_set(root, len(list(root.rglob("*.bin"))))
        # Bytes beside numbers alone are rows of Arrow since LitData 0.2.7x.
        root = self.by_library("litdata-bytes")
        if b"ARROW1" in next(root.rglob("*.bin")).read_bytes():
            self.assertIn("chunk-0-0.bin: rows of Arrow are not read", self.refused(root))

    def test_labels_are_of_the_column_that_is_named_or_usual(self):
        root = self.empty("columns")
        pack = struct.pack
        rows = [(b"..", pack("<i", 2), data, pack("<B", label))
                for data, label in self.samples["train"]]
        record_sets.write_mds(root, rows, [("a", "str", None), ("b", "int32", 4),
                                           ("image", "bytes", None), ("cls", "uint8", 1)])
        self.assertEqual(self.train_indexed(root), self.digest)
        self.assertNotEqual(self.train_indexed(root, "--label-key", "b"), self.digest)
        self.assertEqual(index(root, "--label-key", "a")["classes"], 1)
        self.assertIn("shard.00000.mds: no column of integers or texts is called 'c'",
                      self.refused(root, "--label-key", "c"))
        rows[3] = (b"..", pack("<i", -1), *rows[3][2:])
        record_sets.write_mds(root, rows, [("a", "str", None), ("b", "int32", 4),
                                           ("image", "bytes", None), ("n", "uint8", 1)])
        self.assertRegex(self.refused(root, "--label-key", "b"),
                         r"shard.00000.mds: byte \d+: b: -1 is not a label from 0 to")

    def train_indexed(self, root, *flags):
        index(root, *flags)
        return self.train("local", root)["digest"]

    def test_without_a_label_folders_are_classes(self):
        root = self.empty("unlabelled")
        for number, name in enumerate(("ape", "bee")):
            rows = [(data,) for data, label in self.samples["train"] if label == number]
            record_sets.write_mds(root / name, rows, [("image", "bytes", None)])
        self.assertEqual(index(root)["classes"], 2)

    def test_several_images_of_a_record_are_samples_of_one_label(self):
        root = self.empty("several")
        jpegs = [(data, label) for data, label in self.samples["train"] if data[:2] == b"\xff\xd8"]
        rows = [(data, struct.pack("<q", label), data) for data, label in jpegs[:4]]
        record_sets.write_mds(root, rows, [("left", "jpeg", None), ("n", "int64", 8),
                                           ("right", "jpeg", None)])
        self.assertEqual(index(root, "--label-key", "n")["samples"], 8)
        paths = [line.split("\t")[0] for line in
                 (root / "sluice-manifest.tsv").read_text().splitlines() if ".mds/" in line]
        self.assertEqual(paths[:2], ["shard.00000.mds/0.left.jpg", "shard.00000.mds/0.right.jpg"])

    def test_bytes_that_are_no_image_are_passed_over(self):
        root = self.empty("bytes")
        record_sets.write_mds(root, [(b"no image at all", b"\0" * 8)] + self.rows(), IMAGES)
        done = dataset("index", "--json", root)
        self.assertIn("shard.00000.mds: 00: does not begin as an image that is read; passed over",
                      done.stderr)
        self.assertEqual(self.train("local", root)["digest"], self.digest)

    def test_what_cannot_be_read_in_place_is_refused(self):
        root = self.write_mds("refused")
        first = root / "train" / "index.json"
        text = first.read_text()
        first.write_text(text.replace('"compression": null', '"compression": "zstd:7"')
                         .replace('"zip_data": null',
                                  '"zip_data": {"basename": "shard.00000.mds.zstd"}'))
        self.assertEqual(index(root)["shards"], 4)  # beside the shards as they were before
        os.rename(root / "train" / "shard.00000.mds", root / "shard")
        self.assertIn("train/shard.00000.mds.zstd is compressed (zstd:7): cannot be read in place; "
                      "decompress the shards", self.refused(root))
        first.write_text(text)
        self.assertIn("train/shard.00000.mds, which train/index.json names: No such file",
                      self.refused(root))
        first.write_text(text.replace("shard.00000.mds", "../../shard.mds"))
        self.assertIn("shard 0: no name of a file beneath it in .mds", self.refused(root))
        shutil.rmtree(root / "train")
        for encoding in ("jpegarray", "pil", "str"):
            record_sets.write_mds(root / "train", self.rows(), [("image", encoding, None), IMAGES[1]])
            self.assertIn("no column is an image that can be read in place (jpeg, png or bytes) "
                          f"among image ({encoding}), label (int)", self.refused(root))

    def test_targets_come_from_a_table_and_from_members_of_tars_alone(self):
        root = self.write_mds("targets")
        self.assertIn("have no .txt of their key in their tar (", self.refused(root, "--target", ".txt"))
        self.assertIn("--target y: no table of", self.refused(root, "--target", "y"))
        index(root)
        paths = [line.split("\t")[0] for line in
                 (root / "sluice-manifest.tsv").read_text().splitlines() if ".mds/" in line]
        self.assertEqual(len(paths), NUM_TRAIN + NUM_VAL)
        with open(root / "labels.csv", "w") as table:
            table.write("file_name,y,split\n")
            for i, path in enumerate(paths):
                table.write(f"{path},{i}.5,{'test' if i % 3 == 0 else 'train'}\n")
        summary = index(root, "--target", "y")
        self.assertEqual((summary["samples"], summary["classes"]), (24, 3))
        self.assertEqual(summary["kept"], 24)  # what is known of a file, beside another target

        def listed():
            rows = [line.split("\t") for line in
                    (root / "sluice-manifest.tsv").read_text().splitlines() if ".mds/" in line]
            return {row[0]: row[-1] for row in rows}

        want = {path: f"{i}.5" for i, path in enumerate(paths) if i % 3}
        self.assertEqual(listed(), want)
        dataset("verify", "--target", "y", root)
        some = pathlib.Path(self.folder.name, "targets-train.txt")
        some.write_text("".join(f"{path} {i % 2}\n" for i, path in enumerate(paths) if i % 2))
        self.assertEqual(index(root, "--target", "y", "--train-list", some)["classes"], 2)
        self.assertEqual(listed(), {path: f"{i}.5" for i, path in enumerate(paths) if i % 2})

    def test_columns_are_fields(self):
        """Of MDS shards and LitData's chunks; the digest is that of a dataset without fields."""
        def rows(subset, label):
            return [(data, struct.pack(label, number), f"ü {i}".encode(), struct.pack("<d", i + 0.5))
                    for i, (data, number) in enumerate(self.samples[subset])]

        mds, chunks = self.empty("mds-fields"), self.empty("litdata-fields")
        for subset in self.samples:
            record_sets.write_mds(mds / subset, rows(subset, "<B"), [("image", "jpeg", None), ("label", "uint8", 1),
                                  ("caption", "str", None), ("score", "float64", 8)], per_shard=7)
            record_sets.write_litdata(chunks / subset, rows(subset, "<q"), ["image", "label", "caption", "score"],
                                      ["bytes", "int", "str", "float"], per_chunk=11)
        for root in (mds, chunks):
            flags = ("--target", "caption:text", "--target", "score")
            self.assertEqual(self.train_indexed(root, *flags), self.digest)
            dataset("verify", root, *flags)
            listed = [line.split("\t") for line in (root / "sluice-manifest.tsv").read_text().splitlines()
                      if line.startswith("train/")]
            self.assertEqual([row[-2:] for row in listed],
                             [[f"ü {i}", f"{i}.5"] for i in range(len(self.samples["train"]))])
            self.assertIn("column 'caption' is not JSON", self.refused(root, "--target", "caption:json"))
            self.assertIn("--target other: no table of", self.refused(root, "--target", "other"))

    def test_a_cut_shard_costs_what_is_behind_the_cut(self):
        root = self.write_mds("cut")
        last = root / "train" / "shard.00002.mds"
        data = last.read_bytes()
        last.write_bytes(data[:struct.unpack_from("<I", data, 4 + 4 * 4)[0] + 10])
        done = dataset("index", "--json", root)
        self.assertIn("shard.00002.mds: byte 20: no offset of a record, or the shard is cut; what is "
                      "behind it is not listed", done.stderr)
        self.assertEqual(self.train("local", root)["samples"], 28)
        self.assertIn("damaged", self.refused(root, "--strict"))

    def test_without_a_manifest_shards_are_listed_and_unnamed_ones_passed_over(self):
        root = self.write_mds("untold")
        self.assertIn("a member of a tar already; unpack first",
                      dataset("pack", root, pathlib.Path(self.folder.name, "none"), code=1).stderr)
        self.assertEqual(self.train("local", root)["digest"], self.digest)
        shutil.copy(root / "val" / "shard.00000.mds", root / "val" / "shard.00009.mds")
        self.assertIn("passed over: 1 of 5 .mds, which no index.json names",
                      dataset("index", root).stderr)

    def test_a_list_of_shards_is_all_that_is_listed(self):
        root = self.write_mds("listed")
        tars = pathlib.Path(self.folder.name, "listed-tars")
        dataset("pack", "--shard-bytes", "300kB", self.root, tars)
        shutil.copytree(self.root / "val", root / "val" / "images")
        names = "train/shard.{00000..00002}.mds::val/shard.00000.mds"
        self.assertEqual(index(root, "--shards", names)["samples"], NUM_TRAIN + NUM_VAL)
        self.assertEqual(self.train("local", root)["digest"], self.digest)
        self.assertEqual(dataset("verify", "--shards", names, root).returncode, 0)
        dataset("verify", root, code=1)  # images that are not listed
        self.assertIn("train/shard.00003.mds, which the list names: No such file",
                      self.refused(root, "--shards", "train/shard.{00000..00003}.mds"))
        two = index(tars, "--shards", "train/shard-{000000,000002}.tar")
        self.assertEqual(two["shards"], 2)
        self.assertLess(two["samples"], index(tars)["samples"])

    def test_unpacked_shards_stay_folders(self):
        root = self.write_mds("to-unpack")
        back = pathlib.Path(self.folder.name, "unpacked-records")
        dataset("unpack", root, back)
        self.assertTrue((back / "train" / "shard.00001.mds" / "00.jpg").exists() or
                        (back / "train" / "shard.00001.mds" / "00.png").exists())
        self.assertEqual(self.train("local", back)["digest"], self.digest)


if __name__ == "__main__":
    unittest.main()
