#!/usr/bin/env python3
"""Labels from tables: the digest of the same images in class folders, and errors that name their line."""
import csv
import json
import pathlib
import shutil
import tempfile
import unittest

from programs import Server, run

NUM_TRAIN = 18


def train(*flags, code=0):
    return run("offload_train", "--device", "none", "--json", "-b", "4", "-p", "0",
               "--image-size", "32", "--no-val", *flags, code=code)


class LabelsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sluice-labels-")
        cls.addClassCleanup(cls.folder.cleanup)
        made = pathlib.Path(cls.folder.name, "made")
        run("offload_dataset", "synth", made, "-n", NUM_TRAIN, "--num-val", 0, "--classes", 3)
        # The same names in one folder, in the order of the class folders' paths.
        cls.classes = pathlib.Path(cls.folder.name, "classes")
        shutil.copytree(made / "train", cls.classes)
        cls.rows = [(path.parent.name, path) for path in sorted(cls.classes.rglob("*.*"))]
        cls.names = sorted({name for name, _ in cls.rows})
        cls.digest = json.loads(train(cls.classes, "--dataset-mode", "local").stdout)["digest"]

    def flat(self):
        root = pathlib.Path(tempfile.mkdtemp(dir=self.folder.name), "flat")
        root.mkdir()
        files = []
        for number, (name, path) in enumerate(self.rows):
            files.append((f'{number:03d}, "{name}"{path.suffix}', name))
            shutil.copy(path, root / files[-1][0])
        return root, files

    def check(self, root, has_index):
        if has_index:
            run("offload_dataset", "index", root)
        self.assertEqual(json.loads(train(root, "--dataset-mode", "local").stdout)["digest"],
                         self.digest)
        with Server(root) as server:
            report = json.loads(train("--host", server.address, "--dataset-mode",
                                      "remote_piloff").stdout)
            self.assertEqual(report["digest"], self.digest)

    @staticmethod
    def write_csv(path, header, rows):
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)

    def test_csv_of_names_and_of_integers(self):
        for has_index in (False, True):
            root, files = self.flat()
            self.write_csv(root / "metadata.csv", ("file_name", "text", "label"),
                           [(name, "a, \"b\"\nc", label) for name, label in files])
            self.check(root, has_index)
            (root / "metadata.csv").unlink()
            self.write_csv(root / "labels.csv", ("label", "path"),
                           [(self.names.index(label), name) for name, label in reversed(files)])
            self.check(root, has_index)

    def test_json_lines(self):
        root, files = self.flat()
        (root / "metadata.jsonl").write_text("".join(
            json.dumps({"file_name": name, "label": label, "text": "\u00e4\n"}) + "\n"
            for name, label in files))
        self.check(root, False)

    def test_splits_by_lists_and_by_a_column(self):
        root, files = self.flat()
        shutil.copy(root / files[0][0], root / "val.jpg")
        shutil.copy(root / files[0][0], root / "test.jpg")
        rows = [(name, self.names.index(label)) for name, label in files]
        lists = {"train": pathlib.Path(self.folder.name, "train.txt"),
                 "val": pathlib.Path(self.folder.name, "val.txt")}
        lists["train"].write_text("".join(f"{name} {label}\n" for name, label in rows))
        lists["val"].write_text("val.jpg 1\n")
        flags = ("--train-list", lists["train"], "--val-list", lists["val"])
        done = run("offload_dataset", "index", "--json", *flags, root)
        self.assertEqual(json.loads(done.stdout)["samples"], NUM_TRAIN + 1)
        self.assertIn("1 of 20 images are in no list, and are no samples", done.stderr)
        self.assertEqual(json.loads(train(root, "--dataset-mode", "local").stdout)["digest"],
                         self.digest)
        run("offload_dataset", "verify", *flags, root)
        lists["val"].write_text("val.jpg 1\nnone.jpg 2\n")
        self.assertIn("val.txt:2: 'none.jpg' is no sample of",
                      run("offload_dataset", "index", *flags, root, code=1).stderr)
        # Without labels these are of the table, which says the splits of others.
        (root / "sluice-manifest.tsv").unlink()
        self.write_csv(root / "metadata.csv", ("file_name", "label", "split"),
                       [(name, label, "train") for name, label in rows] +
                       [("val.jpg", 1, "validation"), ("test.jpg", 2, "test")])
        done = run("offload_dataset", "index", "--json", root)
        self.assertEqual(json.loads(done.stdout)["samples"], NUM_TRAIN + 1)
        self.assertIn("1 of 20 images are of split test, and are no samples", done.stderr)
        self.check(root, False)
        lists["val"].write_text("".join(f"{name}\n" for name, _ in rows))
        run("offload_dataset", "index", "--val-list", lists["val"], root)
        self.assertEqual((root / "sluice-manifest.tsv").read_text().count("\tval\t"), NUM_TRAIN)

    def test_a_list_of_classes_fixes_the_numbers(self):
        root, files = self.flat()
        aliases = dict(zip(self.names, ("zebra", "dog", "cat")))
        table = pathlib.Path(self.folder.name, "table.csv")
        self.write_csv(table, ("file_name", "label"),
                       [(name, aliases[label]) for name, label in files])
        classes = pathlib.Path(self.folder.name, "list.txt")
        classes.write_text("zebra\ndog\ncat\n")
        flags = ("--labels", table, "--classes", classes)
        run("offload_dataset", "index", root, *flags)
        self.assertEqual(json.loads(train(root, "--dataset-mode", "local").stdout)["digest"],
                         self.digest)
        run("offload_dataset", "verify", root, *flags)
        # Without the list they are sorted, which is another dataset.
        run("offload_dataset", "index", root, "--labels", table)
        self.assertNotEqual(json.loads(train(root, "--dataset-mode", "local").stdout)["digest"],
                            self.digest)
        run("offload_dataset", "verify", root, *flags, code=1)
        classes.write_text("zebra\ndog\n")
        done = run("offload_dataset", "index", root, *flags, code=1)
        self.assertIn("its class 'cat' is not in the list of classes", done.stderr)

    def test_labels_of_millions(self):
        """More classes than one message of the wire has."""
        root, files = self.flat()
        self.write_csv(root / "labels.csv", ("path", "label"),
                       [(name, 2_059_905 - i) for i, (name, _) in enumerate(files)])
        local = json.loads(train(root, "--dataset-mode", "local").stdout)
        with Server(root) as server:
            report = json.loads(train("--host", server.address, "--dataset-mode",
                                      "remote_piloff").stdout)
            self.assertEqual((report["digest"], report["samples"]), (local["digest"], NUM_TRAIN))
        self.write_csv(root / "labels.csv", ("path", "label"), [(files[0][0], 10_000_000)])
        self.assertIn("labels.csv:2: field 'label': '10000000' is not a label from 0 to 9999999",
                      run("offload_dataset", "index", root, code=1).stderr)

    def test_errors_name_file_line_and_field(self):
        root, files = self.flat()
        rows = [(name, self.names.index(label)) for name, label in files]
        rows[5] = (rows[5][0], "cat")
        self.write_csv(root / "labels.csv", ("path", "label"), rows)
        said = f"{root}/labels.csv:7: field 'label': 'cat' is a name, but the rows before have integers"
        for done in (run("offload_dataset", "index", root, code=1),
                     run("offload_server", "--root", root, "--listen", "127.0.0.1:0", code=1),
                     train(root, "--dataset-mode", "local", code=1)):
            self.assertIn(said, done.stderr)
        self.write_csv(root / "labels.csv", ("path", "label"), rows[:5])
        done = run("offload_dataset", "index", root, code=1)
        self.assertIn(f"{root}/labels.csv: {NUM_TRAIN - 5} of {NUM_TRAIN} images have no row in it",
                      done.stderr)


if __name__ == "__main__":
    unittest.main()
