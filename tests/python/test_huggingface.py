#!/usr/bin/env python3
"""sluice.huggingface: the samples of a dataset in a folder, with its bytes and labels; with
Hugging Face's own package, too, where it is installed."""
import collections
import io
import os
import pathlib
import signal
import subprocess
import sys
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

    def test_splits_become_parts(self):
        train, val = some(6), some(3, 100)
        self.assertEqual(self.write({"train": made(train), "validation": made(val)}), 9)
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
