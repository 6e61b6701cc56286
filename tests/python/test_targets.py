"""Targets: what the dataset says of each sample beside its label comes with its rows, in every mode,
from a table or from tars, from a folder or over the wire."""
import json
import pathlib
import tempfile
import unittest

import support

support.require("numpy", "torch")

import numpy
import torch

import sluice
import sluice.numpy
import sluice.torch

NUM = 23
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


def dataset(*arguments, code=0):
    return support.run("offload_dataset", *arguments, code=code)


class TargetsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-targets-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.root = cls.folder / "root"
        dataset("synth", cls.root, "-n", NUM, "--num-val", 4, "--classes", 3)
        cls.paths = sorted(str(path.relative_to(cls.root)) for path in cls.root.rglob("*.*")
                           if path.is_file() and path.parent.parent.parent == cls.root)
        assert len(cls.paths) == NUM + 4
        cls.vectors = {path: numpy.float32([0.1 * i, -i, 1 / (i + 1)])
                       for i, path in enumerate(cls.paths)}
        cls.texts = {path: f'caption "{i}",\n\té'.encode() * (0 if i == 3 else 1 + 9000 * (i == 5))
                     for i, path in enumerate(cls.paths)}
        dataset("index", cls.root)
        cls.plain = cls.digest()

    @classmethod
    def digest(cls, root=None):
        return support.train(root or cls.root, "-b", "4", "-p", "0", "--image-size", "32")[-1]["digest"]

    def write_vectors(self):
        (self.root / "metadata.jsonl").unlink(missing_ok=True)
        rows = "".join(f'{path},"{" ".join(repr(float(x)) for x in vector)}"\n'
                       for path, vector in self.vectors.items())
        (self.root / "metadata.csv").write_text("file_name,y\n" + rows, encoding="utf-8")
        dataset("index", self.root, "--target", "y")

    def write_texts(self):
        (self.root / "metadata.csv").unlink(missing_ok=True)
        rows = "".join(json.dumps({"file_name": path, "caption": text.decode()}) + "\n"
                       for path, text in self.texts.items())
        (self.root / "metadata.jsonl").write_text(rows, encoding="utf-8")
        dataset("index", self.root, "--target", "caption")

    def check(self, make, want, num=NUM):
        """One epoch: every sample's target is the one of its path."""
        seen = set()
        with make(batch_size=4, targets=True, sample_ids=True, image_size=32) as loader:
            for images, labels, targets, ids in loader:
                self.assertEqual(len(images), len(targets))
                for i, sample in enumerate(numpy.asarray(ids)):
                    path = loader.path(sample)
                    seen.add(path)
                    if isinstance(targets, list):
                        self.assertEqual(targets[i], want[path])
                    else:
                        self.assertEqual(numpy.asarray(targets[i]).tobytes(), want[path].tobytes())
        self.assertEqual(len(seen), num)

    def check_everywhere(self, root, want):
        def at(place, module, **more):
            return lambda **options: module.Loader(place, **more, **options)

        for module in (sluice.numpy, sluice.torch):
            self.check(at(root, module), want)
        with support.Server(root) as server:
            for mode in MODES:
                self.check(at(server.address, sluice.numpy, mode=mode), want)
            self.check(at(server.address, sluice.torch), want)
            self.check(at(server.address, sluice.torch, device="cpu", part="val"), want, num=4)

    def test_vectors_of_a_table(self):
        self.write_vectors()
        self.check_everywhere(self.root, self.vectors)
        with sluice.torch.Loader(self.root, 5, targets=True, image_size=32) as loader:
            self.assertEqual((loader.info["target_kind"], loader.info["target_dim"]), ("vector", 3))
            _, _, targets = next(iter(loader))
            self.assertEqual((targets.shape, targets.dtype), ((5, 3), torch.float32))
            targets += 1  # the caller's own
        self.assertEqual(self.digest(), self.plain)

    def test_bytes_of_a_table(self):
        self.write_texts()
        self.check_everywhere(self.root, self.texts)
        self.assertEqual(self.digest(), self.plain)
        # The text alone says the same.
        (self.root / "sluice-manifest.bin").unlink()
        self.check(lambda **options: sluice.numpy.Loader(self.root, **options), self.texts)

    def test_members_of_tars(self):
        """pack writes the targets beside the images, unpack to the table."""
        self.write_texts()
        packed, unpacked = self.folder / "packed", self.folder / "unpacked"
        dataset("pack", self.root, packed)
        dataset("index", packed, "--target", ".txt")
        # Of train/class000/1.jpg in shard-000000.tar of train/.
        in_tars = {}
        for path, text in self.texts.items():
            part, name = path.split("/", 1)
            in_tars[f"{part}/shard-000000.tar/{name}"] = text
        self.check_everywhere(packed, in_tars)
        self.assertEqual(self.digest(packed), self.plain)
        dataset("unpack", packed, unpacked, "--target", ".txt")
        self.assertIn("targets: bytes", dataset("index", unpacked, "--target", "target").stdout)
        self.check(lambda **options: sluice.numpy.Loader(unpacked, **options), self.texts)

    def test_numbers_survive_pack_and_unpack(self):
        self.write_vectors()
        packed, unpacked = self.folder / "packed-y", self.folder / "unpacked-y"
        dataset("pack", self.root, packed)
        dataset("index", packed, "--target", ".txt", "--target-type", "vector")
        dataset("unpack", packed, unpacked, "--target", ".txt", "--target-type", "vector")
        dataset("index", unpacked, "--target", "target")
        self.check(lambda **options: sluice.numpy.Loader(unpacked, **options), self.vectors)

    def test_a_single_number_is_a_row(self):
        root = self.folder / "single"
        dataset("synth", root, "-n", 5, "--num-val", 0, "--classes", 1)
        paths = sorted(str(path.relative_to(root)) for path in root.rglob("*.*"))
        (root / "labels.csv").write_text(
            "file_name,label\n" + "".join(f"{path},{i}.5\n" for i, path in enumerate(paths)))
        dataset("index", root, "--target", "label")
        with sluice.numpy.Loader(root, 5, targets=True, shuffle=False, image_size=32) as loader:
            _, labels, targets = next(iter(loader))
        self.assertEqual(targets.tolist(), [0.5, 1.5, 2.5, 3.5, 4.5])
        self.assertEqual(labels.tolist(), [0] * 5)

    def test_dataset_and_workers(self):
        self.write_vectors()
        train = sluice.torch.Dataset(self.root, targets=True, image_size=32)
        image, label, target = train[2]
        paths = [path for path in self.paths if path.startswith("train/")]
        self.assertEqual(target.numpy().tobytes(), self.vectors[paths[2]].tobytes())
        images, labels, targets = next(iter(torch.utils.data.DataLoader(train, 4)))
        self.assertEqual(targets.shape, (4, 3))
        self.write_texts()
        texts = sluice.torch.Dataset(self.root, targets=True, image_size=32)
        batch = next(iter(torch.utils.data.DataLoader(texts, 4)))
        self.assertEqual(list(batch[2]), [self.texts[path] for path in paths[:4]])

    def test_rows_of_bad_samples_keep_to_their_ids(self):
        root = self.folder / "bad"
        dataset("synth", root, "-n", 9, "--num-val", 0, "--classes", 1)
        paths = sorted(str(path.relative_to(root)) for path in root.rglob("*.*"))
        (root / "metadata.csv").write_text(
            "file_name,y\n" + "".join(f"{path},{i}\n" for i, path in enumerate(paths)))
        (root / paths[4]).write_bytes(b"no image")
        dataset("index", root, "--target", "y")
        for on_error in ("skip", "substitute"):
            rows = 0
            with sluice.numpy.Loader(root, 3, targets=True, sample_ids=True, image_size=32,
                                     on_error=on_error, max_errors="100%") as loader:
                for _, _, targets, ids in loader:
                    self.assertEqual(targets.tolist(), ids.tolist())
                    self.assertNotIn(4, ids.tolist())
                    rows += len(targets)
            self.assertEqual(rows, 8 if on_error == "skip" else 9)

    def test_verify_finds_another_target(self):
        self.write_vectors()
        dataset("verify", self.root, "--target", "y")
        path = self.root / "metadata.csv"
        path.write_text(path.read_text(encoding="utf-8").replace("-7.0", "-7.5"), encoding="utf-8")
        self.assertIn("another target than the manifest says",
                      dataset("verify", self.root, "--target", "y", code=1).stderr)

    def test_what_is_not_there_is_an_error(self):
        self.write_vectors()
        self.assertIn("--target z: no table of",
                      dataset("index", self.root, "--target", "z", code=1).stderr)
        self.assertIn("have no .txt of their key",
                      dataset("index", self.root, "--target", ".txt", code=1).stderr)
        self.assertIn("--target-type without --target",
                      dataset("index", self.root, "--target-type", "bytes", code=1).stderr)
        dataset("index", self.root)
        with self.assertRaisesRegex(sluice.InvalidError, "the dataset has none"):
            sluice.numpy.Loader(self.root, 4, targets=True, image_size=32)


if __name__ == "__main__":
    support.main()
