#!/usr/bin/env python3
"""sluice.huggingface: the samples of a dataset in a folder, with its bytes and labels; with
Hugging Face's own package, too, where it is installed."""
import collections
import io
import json
import os
import pathlib
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import warnings

import support

support.require("numpy", "PIL")

import numpy
from PIL import Image as Picture

import sluice
import sluice.huggingface
import sluice.numpy

try:
    import datasets
except ImportError:
    datasets = None
try:
    import pyarrow
    import pyarrow.parquet
except ImportError:
    pyarrow = None

ClassLabel = collections.namedtuple("ClassLabel", "names")
NAMES = ["zebra", "ape, great/small", "never seen", *(f"more {i}" for i in range(9))]


class Image:
    def __init__(self, decode=True):
        self.decode = decode


class Standing:
    """Stands in for a datasets.Dataset: its columns, features and rows."""

    def __init__(self, rows, features):
        self.rows, self.features = rows, features
        self.column_names = list(features)

    def cast_column(self, name, feature):
        return Standing(self.rows, {**self.features, name: feature})

    def __len__(self):
        return len(self.rows)

    def __iter__(self):
        for row in self.rows:
            image = row["image"]
            if self.features["image"].decode and isinstance(image, dict):
                image = Picture.open(io.BytesIO(image["bytes"]))
            yield {**row, "image": image}


def encoded(seed, kind="JPEG", mode="RGB", **options):
    pixels = numpy.random.default_rng(seed).integers(0, 256, (40, 48, 3), numpy.uint8)
    out = io.BytesIO()
    Picture.fromarray(pixels).convert(mode).save(out, kind, **options)
    return out.getvalue()


def tiff(bits, planes, num_samples, side=8):
    """A little-endian TIFF of one strip for each plane."""
    row = (side * bits * (num_samples if planes == 1 else 1) + 7) // 8
    strips = [bytes((i * 37 + k) % 256 for k in range(row * side))
              for i in range(num_samples if planes == 2 else 1)]
    colors = 2 if num_samples >= 3 else 1
    tags = [(256, 4, [side]), (257, 4, [side]), (258, 3, [bits] * num_samples), (259, 3, [1]),
            (262, 3, [colors]), (273, 4, [0] * len(strips)), (277, 3, [num_samples]),
            (278, 4, [side]), (279, 4, [len(strip) for strip in strips]), (284, 3, [planes])]
    if num_samples == 2:
        return None  # gray and alpha have 8 bits
    at = 8 + 2 + 12 * len(tags) + 4
    entries, extra = b"", b""
    data_at = at + sum(len(v) * (2 if k == 3 else 4) for _, k, v in tags
                       if len(v) * (2 if k == 3 else 4) > 4)
    tags[5] = (273, 4, [data_at + i * len(strips[0]) for i in range(len(strips))])
    for tag, kind, values in tags:
        packed = struct.pack(f"<{len(values)}{'H' if kind == 3 else 'I'}", *values)
        if len(packed) > 4:
            extra += packed
            packed = struct.pack("<I", at + len(extra) - len(packed))
        entries += struct.pack("<HHI", tag, kind, len(values)) + packed.ljust(4, b"\0")
    return (struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + entries + bytes(4) + extra
            + b"".join(strips))


def made(rows, names=NAMES):
    return Standing(rows, {"image": Image(), "label": ClassLabel(names)})


def some(count, first=0):
    return [{"image": {"bytes": encoded(first + i, ("JPEG", "PNG")[i % 2]), "path": None},
             "label": (11, 0, 1)[i % 3]} for i in range(count)]


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in pathlib.Path(folder).rglob("*") if path.is_file()}


class FolderTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "new", "set")

    def write(self, dataset, **columns):
        return sluice.huggingface.to_sluice(dataset, self.folder, **columns)

    def labels_served(self, part="train"):
        """[label] by the number of the row, as a loader has them."""
        with sluice.numpy.Loader(self.folder, 4, pipeline=support.PIPELINE, workers=1, part=part,
                                 sample_ids=True) as loader:
            rows = {os.path.basename(loader.path(i)): label for _, labels, ids in loader
                    for label, i in zip(labels.tolist(), ids)}
        return [label for _, label in sorted(rows.items())]


class StandingTest(FolderTest):
    def test_files_are_the_bytes_of_the_dataset(self):
        rows = some(7)
        self.assertEqual(self.write(made(rows)), 7)
        files = files_of(self.folder)
        self.assertEqual(sorted(files.values()), sorted(row["image"]["bytes"] for row in rows))
        self.assertEqual(files["00_zebra/00000001.png"], rows[1]["image"]["bytes"])
        self.assertFalse(os.path.exists(self.folder + ".partial"))

    def test_labels_are_those_of_the_class_label(self):
        rows = some(7)
        self.write(made(rows))
        self.assertEqual(self.labels_served(), [row["label"] for row in rows])
        self.assertEqual(sorted(os.listdir(self.folder))[1:3],
                         ["01_ape, great_small", "02_never seen"])

    def test_plain_integers_are_labels(self):
        rows = [{**row, "label": i % 2 * 12} for i, row in enumerate(some(5))]
        dataset = Standing(rows, {"image": Image(), "label": object()})
        self.write(dataset)
        self.assertEqual(self.labels_served(), [0, 12, 0, 12, 0])

    def test_fields_are_files_that_index_reads(self):
        mask = encoded(9, "PNG")
        rows = [{**row, "caption": f"ü {i}", "meta": {"i": [i, None]}, "raw": bytes([i, 0]),
                 "mask.png": {"bytes": mask, "path": None}} for i, row in enumerate(some(5))]
        columns = ("caption", "meta", "raw", "mask.png")
        features = {**dict.fromkeys(columns, object()), "image": Image(), "label": ClassLabel(NAMES)}
        targets = [text for of in ("caption:text", "meta:json", "raw:bytes", "mask.png:mask")
                   for text in ("--target", "." + of)]
        for shard_bytes in (None, 1):
            folder = f"{self.folder}-{shard_bytes}"
            sluice.huggingface.to_sluice(Standing(rows, features), folder, shard_bytes=shard_bytes, fields=columns)
            support.run("offload_dataset", "index", folder, *targets)
            with sluice.numpy.Loader(folder, 4, pipeline=support.PIPELINE, workers=1, sample_ids=True,
                                     fields=True) as loader:
                seen = 0
                for _, labels, fields, ids in loader:
                    for i, sample in enumerate(ids):
                        row = rows[int(os.path.basename(loader.path(int(sample))).split(".")[0])]
                        self.assertEqual(labels[i], row["label"])
                        self.assertEqual({name: values[i] for name, values in fields.items()},
                                         {**{name: row[name] for name in columns}, "mask.png": mask})
                        seen += 1
            self.assertEqual(seen, 5)

    def test_wrong_fields_are_named(self):
        with self.assertRaisesRegex(ValueError, "fields 'caption': the columns are image, label"):
            self.write(made(some(1)), fields=["caption"])
        with self.assertRaisesRegex(ValueError, "fields 'a/b': a column becomes a suffix"):
            self.write(made(some(1)), fields=["a/b"])
        dataset = Standing([{**some(1)[0], "text": None}], {**made([]).features, "text": object()})
        with self.assertRaisesRegex(ValueError, "field 'text' of row 0 has no value"):
            self.write(dataset, fields=["text"])

    def test_splits_become_parts(self):
        train, val = some(6), some(3, 100)
        self.assertEqual(self.write({"train": made(train), "validation": made(val)}), 9)
        self.assertEqual(self.labels_served(), [row["label"] for row in train])
        self.assertEqual(self.labels_served("val"), [row["label"] for row in val])

    def test_splits_have_several_names_and_test_is_left_out(self):
        train, val = some(6), some(3, 100)
        with self.assertWarnsRegex(UserWarning, r"^split test \(2 rows\) is left out$"):
            self.assertEqual(self.write({"train": made(train), "dev": made(val),
                                         "test": made(some(2, 200))}), 9)
        self.assertEqual(self.labels_served(), [row["label"] for row in train])
        self.assertEqual(self.labels_served("val"), [row["label"] for row in val])

    def test_a_split_alone_is_the_whole_folder(self):
        self.write({"train": made(some(3))})
        self.assertEqual(len(os.listdir(self.folder)), len(NAMES))

    def test_a_path_is_read(self):
        with tempfile.NamedTemporaryFile(suffix=".jpg") as file:
            file.write(encoded(3))
            file.flush()
            self.write(made([{"image": {"bytes": None, "path": file.name}, "label": 0}]))
        self.assertEqual(list(files_of(self.folder).values()), [encoded(3)])

    def test_formats_that_are_read_keep_their_bytes(self):
        kinds = [("WebP", "RGB", {"lossless": True}), ("GIF", "P", {}), ("BMP", "RGB", {}),
                 ("PPM", "RGB", {}), ("PPM", "L", {}), ("TIFF", "L", {}),
                 ("TIFF", "RGB", {"compression": "tiff_lzw"}), ("TIFF", "P", {}),
                 ("TIFF", "RGB", {"compression": "jpeg"}), ("TIFF", "RGBA", {}),
                 ("TIFF", "CMYK", {"compression": "packbits"}), ("TIFF", "LA", {})]
        values = [encoded(i, kind, mode, **options) for i, (kind, mode, options) in enumerate(kinds)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.write(made([{"image": {"bytes": value, "path": None}, "label": 0}
                             for value in values]))
        files = files_of(self.folder)
        self.assertEqual([files[name] for name in sorted(files)], values)
        self.assertEqual([os.path.splitext(name)[1] for name in sorted(files)],
                         [".webp", ".gif", ".bmp", ".ppm", ".pgm", *7 * [".tif"]])
        with sluice.numpy.Loader(self.folder, len(values), shuffle=False, workers=1,
                                 pipeline="decode,center_crop=40", on_error="fail") as loader:
            images, = (images.copy() for images, _ in loader)
        for image, value in zip(images, values):
            wanted = numpy.asarray(Picture.open(io.BytesIO(value)).convert("RGB"))[:, 4:44]
            self.assertTrue((image == wanted).all())

    def test_tiffs_of_other_depths_keep_their_bytes(self):
        values = [tiff(*kind) for kind in ((16, 1, 1), (16, 1, 2), (16, 1, 3), (8, 2, 3), (4, 1, 1),
                                           (2, 1, 1), (1, 1, 1))]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.write(made([{"image": {"bytes": value, "path": None}, "label": 0}
                             for value in values if value]))
        files = files_of(self.folder)
        self.assertEqual([files[name] for name in sorted(files)], [v for v in values if v])
        with sluice.numpy.Loader(self.folder, len(files), shuffle=False, workers=1,
                                 pipeline="decode,center_crop=8", on_error="fail") as loader:
            self.assertEqual(sum(len(labels) for _, labels in loader), len(files))
        # Of 16 bits, but of kinds that are not read: encoded anew, or none for Pillow either.
        self.folder += "-others"
        with self.assertWarnsRegex(UserWarning, "1 of 1 images .*: 1 TIFF"):
            self.write(made([{"image": {"bytes": tiff(32, 1, 1), "path": None}, "label": 0}]))

    def test_tars_have_the_rows_in_their_order(self):
        rows = some(7)
        names = ["a\\b", "tab\there", "", *NAMES[3:]]
        names[2] = "\ufeffx\r"
        self.assertEqual(self.write({"train": made(rows, names), "val": made(rows[:2], names)},
                                    shard_bytes=4000), 9)
        self.assertEqual(sorted(os.listdir(self.folder)), ["sluice-classes.txt", "train", "val"])
        members = []
        for path in sorted(pathlib.Path(self.folder, "train").iterdir()):
            with tarfile.open(path) as tar:
                members += [(m.name, tar.extractfile(m).read()) for m in tar.getmembers()]
        self.assertGreater(len(os.listdir(os.path.join(self.folder, "train"))), 1)
        self.assertEqual(members[:2], [("00000000.jpg", rows[0]["image"]["bytes"]),
                                       ("00000000.cls", b"11")])
        self.assertEqual([data for _, data in members[::2]], [row["image"]["bytes"] for row in rows])
        support.run("offload_dataset", "index", self.folder)
        self.assertEqual(self.labels_served(), [row["label"] for row in rows])
        self.assertEqual(self.labels_served("val"), [row["label"] for row in rows[:2]])
        listed = pathlib.Path(self.folder, "sluice-manifest.tsv").read_bytes().decode().split("\n")
        self.assertEqual([line[6:] for line in listed if line.startswith("class\t")],
                         ["a\\\\b", "tab\\there", *names[2:]])

    def test_other_formats_become_png_of_the_same_pixels(self):
        values = [{"bytes": encoded(1, "TGA"), "path": None},
                  {"bytes": encoded(2, "TIFF", "L", compression="zstd"), "path": None},
                  Picture.open(io.BytesIO(encoded(3, "PNG"))).copy(),
                  {"bytes": encoded(4, "TIFF", "F"), "path": None}]
        with self.assertWarnsRegex(UserWarning, "4 of 5 .* 1 TGA, 2 TIFF, 1 image without"):
            self.write(made([{"image": value, "label": 0} for value in values] + some(1)))
        files = files_of(self.folder)
        for row, (seed, mode) in enumerate(((1, "RGB"), (2, "L"), (3, "RGB"), (4, "F"))):
            got = Picture.open(io.BytesIO(files[f"00_zebra/{row:08d}.png"]))
            wanted = Picture.open(io.BytesIO(encoded(seed, "TIFF", mode))).convert("RGB")
            self.assertEqual((got.mode, got.tobytes()), ("RGB", wanted.tobytes()))

    def test_jpeg_and_png_are_written_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.write(made(some(4)))


@unittest.skipIf(pyarrow is None, "pyarrow is missing")
class ParquetTest(FolderTest):
    def setUp(self):
        super().setUp()
        self.source = os.path.join(os.path.dirname(os.path.dirname(self.folder)), "source")

    def put(self, name, rows, labels=None, hub=True, kind=None):
        path = os.path.join(self.source, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        images = [row["image"] for row in rows]
        table = pyarrow.table({
            "image": pyarrow.array(images if kind is None else [i["bytes"] for i in images], kind),
            "label": [row["label"] for row in rows] if labels is None else labels})
        if hub:
            info = {"info": {"features": {"label": {"names": NAMES, "_type": "ClassLabel"}}}}
            table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
        pyarrow.parquet.write_table(table, path, row_group_size=3)
        return path

    def test_a_file_of_hugging_face_is_its_dataset(self):
        rows = some(100)
        self.assertEqual(self.write(self.put("x.parquet", rows)), 100)
        self.assertEqual(self.labels_served(), [row["label"] for row in rows])
        self.assertEqual(files_of(self.folder)["00_zebra/00000001.png"], rows[1]["image"]["bytes"])

    def test_splits_of_a_folder_are_told_by_names(self):
        train, val = some(8), some(3, 100)
        self.put("data/training-00001-of-00002.parquet", train[5:])
        self.put("data/train-00000-of-00002.parquet", train[:5])
        self.put("Dev/0000.parquet", val)
        self.put("test-00000-of-00001.parquet", some(2, 200))
        with self.assertWarnsRegex(UserWarning, r"^split test \(1 files\) is left out$"):
            self.assertEqual(self.write(self.source), 11)
        self.assertEqual(self.labels_served(), [row["label"] for row in train])
        self.assertEqual(self.labels_served("val"), [row["label"] for row in val])

    def test_texts_are_classes_in_pythons_order(self):
        self.put("train.parquet", some(4), ["dog", "Ape", "dog", "cat"], hub=False)
        self.put("val.parquet", some(2), ["bee", "dog"], hub=False, kind=pyarrow.binary())
        self.write(self.source)
        self.assertEqual(self.labels_served(), [3, 0, 3, 2])
        self.assertEqual(self.labels_served("val"), [1, 3])
        self.assertEqual(sorted(os.listdir(os.path.join(self.folder, "train"))),
                         ["0_Ape", "1_bee", "2_cat", "3_dog"])

    def test_plain_integers_need_no_names(self):
        self.write(self.put("x.parquet", some(3), [2, 0, 2], hub=False))
        self.assertEqual(self.labels_served(), [2, 0, 2])

    def test_what_is_wrong_is_named(self):
        path = self.put("a.parquet", some(2))
        os.makedirs(os.path.join(self.source, "empty"))
        for words, *arguments in (("image 'img'.*image, label", path, "img"),
                                  ("label 'kind'.*image, label", path, "image", "kind"),
                                  ("no .parquet", os.path.join(self.source, "empty"))):
            with self.assertRaisesRegex(sluice.InvalidError, words):
                sluice.huggingface.to_sluice(arguments[0], self.folder, *arguments[1:])
        self.put("train.parquet", some(2))
        with self.assertRaisesRegex(sluice.InvalidError, "a.parquet: the names of other files"):
            self.write(self.source)
        with self.assertRaisesRegex(sluice.InvalidError, "label None of row 1 is no class"):
            self.write(self.put("b.parquet", some(2), ["x", None], hub=False))
        self.assertFalse(os.path.exists(self.folder))


class RefusalTest(FolderTest):
    def assert_refused(self, words, dataset, error=sluice.InvalidError, **columns):
        with self.assertRaisesRegex(error, words):
            self.write(dataset, **columns)
        self.assertFalse(os.path.exists(self.folder + ".partial"))

    def test_what_is_wrong_is_named(self):
        picture = {"bytes": encoded(1), "path": None}
        self.assert_refused("image 'img'.*image, label", made(some(1)), image="img")
        self.assert_refused("label 'class'", made(some(1)), label="class")
        self.assert_refused("label -1 of row 1",
                            made(some(1) + [{"image": picture, "label": -1}]))
        self.assert_refused("label 12 of row 0", made([{"image": picture, "label": 12}]))
        self.assert_refused("label 'zebra' of row 0", made([{"image": picture, "label": "zebra"}]))
        self.assert_refused("row 0 has neither",
                            made([{"image": {"bytes": None, "path": None}, "label": 0}]))
        self.assert_refused("row 0 has a list", made([{"image": [1], "label": 0}]))
        self.assert_refused("splits test", {"test": made(some(1))})
        self.assert_refused("different class names",
                            {"train": made(some(1)), "val": made(some(1), NAMES[::-1])})
        self.assertFalse(os.path.exists(self.folder))

    def test_an_image_that_is_none_is_corrupt(self):
        self.assert_refused("image of row 0", made([{"image": {"bytes": b"GIF88a", "path": None},
                                                     "label": 0}]), sluice.CorruptError)

    def test_a_folder_that_is_not_empty_stays(self):
        os.makedirs(self.folder)
        self.write(made(some(2)))  # an empty one is taken
        before = files_of(self.folder)
        self.assert_refused("not empty", made(some(3)))
        self.assertEqual(files_of(self.folder), before)

    def test_a_run_that_is_killed_leaves_no_folder(self):
        run = ("import sys, os, signal, test_huggingface as t, sluice.huggingface\n"
               "class Killed(t.Standing):\n"
               "    def __iter__(self):\n"
               "        yield from super().__iter__()\n"
               "        os.kill(os.getpid(), signal.SIGKILL)\n"
               "    def cast_column(self, name, feature):\n"
               "        return Killed(self.rows, {**self.features, name: feature})\n"
               "made = t.made(t.some(3))\n"
               "sluice.huggingface.to_sluice(Killed(made.rows, made.features), sys.argv[1])\n")
        here = os.path.dirname(os.path.abspath(__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)])}
        done = subprocess.run([sys.executable, "-c", run, self.folder], env=env)
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertFalse(os.path.exists(self.folder))
        self.assertEqual(len(files_of(self.folder + ".partial")), 3)
        with self.assertRaisesRegex(sluice.InvalidError, "partial is of another run"):
            self.write(made(some(3)))


@unittest.skipIf(datasets is None, "Hugging Face's datasets is missing")
class RealTest(FolderTest):
    def test_a_dataset_is_written(self):
        features = datasets.Features({"picture": datasets.Image(),
                                      "kind": datasets.ClassLabel(names=NAMES)})
        rows = some(7)
        dataset = datasets.Dataset.from_dict(
            {"picture": [row["image"] for row in rows], "kind": [row["label"] for row in rows]},
            features=features)
        for number, source in enumerate((dataset, dataset.to_iterable_dataset(),
                                         datasets.DatasetDict(train=dataset, validation=dataset))):
            self.folder += str(number)
            self.write(source, image="picture", label="kind")
            self.assertEqual(self.labels_served(), [row["label"] for row in rows])
            self.assertEqual(set(files_of(self.folder).values()),
                             {row["image"]["bytes"] for row in rows})


if __name__ == "__main__":
    support.main()
