#!/usr/bin/env python3
"""One rule for splits, by the same words: in folders, tars, MDS shards, LitData's chunks and tables."""
import io
import pathlib
import struct
import tarfile
import tempfile
import unittest

import programs
import record_sets
from PIL import Image

WORDS = {"train": ("train", "training", "Train"), "val": ("val", "valid", "validation", "dev", "VALID"),
         None: ("test", "testing", "Test")}
FOLDERS = [(word, part) for part, words in WORDS.items() for word in words]


def image(number):
    file = io.BytesIO()
    Image.new("RGB", (16, 16), (number * 20, 10, 200)).save(file, "JPEG")
    return file.getvalue()


def put(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def put_tar(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as tar:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))


class Splits(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-splits-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "root")

    def index(self, *flags, code=0):
        """[(path, label, part)], what was said"""
        manifest = self.root.with_suffix(".tsv")
        done = programs.run("offload_dataset", "index", self.root, "-o", manifest, *flags, code=code)
        rows = [] if code else [line.split("\t") for line in manifest.read_text().splitlines()
                                if not line.startswith(("#", "class\t"))]
        return [(row[0], int(row[2]), row[3]) for row in rows], done.stderr

    def check(self, num_each):
        """Every sample is of the part that its folder names, and those of test are counted."""
        rows, said = self.index()
        self.assertEqual(sorted({path.split("/")[0] for path, _, _ in rows}),
                         sorted(word for word, part in FOLDERS if part))
        for path, _, part in rows:
            self.assertEqual(part, dict(FOLDERS)[path.split("/")[0]], path)
        self.assertEqual(len(rows), 8 * num_each)
        self.assertIn(f"{3 * num_each} of {11 * num_each} images are of split test, and are no samples",
                      said)
        self.assertEqual(said.count("split test"), 1)
        return rows

    def test_class_folders(self):
        for number, (word, part) in enumerate(FOLDERS):
            for name in ("cat", "dog") if part else ("ant", "cat"):
                put(self.root / word / name / "1.jpg", image(number))
        rows = self.check(2)
        self.assertEqual({label for path, label, _ in rows if "/dog/" in path}, {1})

    def test_the_server_takes_what_it_scans_alike(self):
        for number, (word, _) in enumerate(FOLDERS):
            put(self.root / word / "cat" / "1.jpg", image(number))
        with programs.Server(self.root) as server:
            self.assertIn("3 of 11 images are of split test", server.finish()[1])

    def test_tars(self):
        for number, (word, part) in enumerate(FOLDERS):
            labels = [("a.cls", b"1")] if part else []  # test has none
            put_tar(self.root / word / "x-000.tar", [("a.jpg", image(number)), *labels])
        self.assertEqual({label for _, label, _ in self.check(1)}, {1})

    def test_folders_in_tars(self):
        for number, (word, _) in enumerate(FOLDERS):
            put_tar(self.root / word / "x-000.tar", [("cat/a.jpg", image(number))])
        self.check(1)
        names = [f"{word}/cat/{word}.jpg" for word, _ in FOLDERS]
        for path in self.root.rglob("*.tar"):
            path.unlink()
        put_tar(self.root / "all.tar", [(name, image(1)) for name in names])
        rows, said = self.index()
        self.assertEqual({path.split("/")[1]: part for path, _, part in rows},
                         {word: part for word, part in FOLDERS if part})
        self.assertIn("3 of 11 images are of split test", said)

    def test_mds_shards(self):
        for number, (word, _) in enumerate(FOLDERS):
            record_sets.write_mds(self.root / word, [(image(number), struct.pack("<q", 1))],
                                  [("image", "jpeg", None), ("label", "int", 8)])
        self.check(1)

    def test_chunks_of_litdata(self):
        for number, (word, _) in enumerate(FOLDERS):
            record_sets.write_litdata(self.root / word, [(image(number), struct.pack("<q", 1))],
                                      ["image", "label"], ["jpeg", "int"])
        self.check(1)

    def test_tables(self):
        for number, (word, _) in enumerate(FOLDERS):
            put(self.root / word / "1.jpg", image(number))
        rows = "".join(f"{word}/1.jpg,a\n" for word, part in FOLDERS if part)
        put(self.root / "labels.csv", b"file_name,label\n" + rows.encode())
        self.check(1)  # images of test need no row
        # A table that says it in each row has the last word.
        rows = "".join(f"{word}/1.jpg,a,{FOLDERS[-1 - i][0]}\n" for i, (word, _) in enumerate(FOLDERS))
        put(self.root / "labels.csv", b"file_name,label,split\n" + rows.encode())
        rows, _ = self.index()
        said = {word: FOLDERS[-1 - i][1] for i, (word, _) in enumerate(FOLDERS)}
        self.assertEqual({path.split("/")[0]: part for path, _, part in rows},
                         {word: part for word, part in said.items() if part})

    def test_two_splits_of_tars_beside_another_folder_are_refused(self):
        for name in ("train", "val", "extra"):
            put_tar(self.root / name / "x.tar", [("a.jpg", image(1)), ("a.cls", b"0")])
        _, said = self.index(code=1)
        self.assertIn("train/ is a split (train, val, test), and extra/ beside it", said)
        rows, _ = self.index("--classes-are-folders")
        self.assertEqual([part for _, _, part in rows], ["train"] * 3)

    def test_nothing_but_test_is_an_error_and_lists_may_name_it(self):
        put(self.root / "test" / "cat" / "1.jpg", image(1))
        put(self.root / "test" / "dog" / "2.jpg", image(1))
        _, said = self.index(code=1)
        self.assertIn("all 2 images are of split test, which is left out", said)
        put(self.root.with_name("list"), b"test/dog/2.jpg\n")
        self.assertEqual(self.index("--val-list", self.root.with_name("list"))[0],
                         [("test/dog/2.jpg", 1, "val")])


if __name__ == "__main__":
    unittest.main()
