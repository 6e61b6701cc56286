#!/usr/bin/env python3
"""`offload_dataset index` again: it reads what changed alone, goes on after a kill, and lists without
reading; labels, splits and the members of shards are those of now."""
import io
import json
import os
import pathlib
import signal
import struct
import subprocess
import tarfile
import tempfile
import time
import unittest

import programs
import record_sets

NUM = 2000


class IndexAgain(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-index-again-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for i in range(NUM):
            path = self.root / f"c{i % 20}" / f"{i}.ppm"
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"P6\n1 1\n255\n" + i.to_bytes(3, "little"))

    def command(self, *options):
        return [programs.BIN / "offload_dataset", "index", self.root, "--json", *options]

    def index(self, *options):
        done = programs.run("offload_dataset", "index", self.root, "--json", *options)
        return json.loads(done.stdout), done.stderr

    def rows(self):
        return [line for line in (self.root / "sluice-manifest.tsv").read_text().splitlines() if ".ppm\t" in line]

    def test_reads_what_changed_alone(self):
        first, _ = self.index()
        self.assertEqual((first["samples"], first["kept"], first["bad"]), (NUM, 0, 0))
        rows = self.rows()
        again, _ = self.index()
        self.assertEqual(again["kept"], NUM)
        self.assertEqual(again["dataset_id"], first["dataset_id"])
        self.assertEqual(self.rows(), rows)
        changed = self.root / "c1" / "1.ppm"
        changed.write_bytes(b"P6\n1 1\n255\n\xff\xff\xff")
        (self.root / "c2" / "2.ppm").unlink()
        (self.root / "c3" / "new.ppm").write_bytes(b"P6\n2 1\n255\nabcdef")
        third, _ = self.index()
        self.assertEqual((third["samples"], third["kept"]), (NUM, NUM - 2))
        fresh, _ = self.index("--anew")
        self.assertEqual(fresh["kept"], 0)
        self.assertEqual(fresh["dataset_id"], third["dataset_id"])
        self.assertNotEqual(self.rows(), rows)
        self.assertFalse((self.root / "sluice-manifest.progress").exists())

    @unittest.skipUnless(programs.BAD_DISK, "no bad_disk was built")
    def test_goes_on_after_a_kill(self):
        want, _ = self.index()
        rows = self.rows()
        (self.root / "sluice-manifest.tsv").unlink()
        progress = self.root / "sluice-manifest.progress"
        hangs = self.root / "hangs"
        run = subprocess.Popen(
            self.command("-j", "1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=programs.bad_disk(f"call=read,path=.ppm,after={NUM * 3 // 2},do=hang,tell={hangs}"))
        while run.poll() is None and not hangs.exists():
            time.sleep(0.01)
        run.kill()
        self.assertEqual(run.wait(), -signal.SIGKILL)
        hangs.unlink()
        again, log = self.index()
        self.assertIn("goes on after", log)
        self.assertGreater(again["kept"], 400)
        self.assertLess(again["kept"], NUM)
        self.assertEqual(again["dataset_id"], want["dataset_id"])
        self.assertEqual(self.rows(), rows)
        self.assertFalse(progress.exists())

    @unittest.skipUnless(programs.BAD_DISK, "no bad_disk was built")
    def test_threads_look_at_files_at_once(self):
        slow = programs.bad_disk("call=stat,path=.ppm,do=delay:1000")
        seconds = []
        for threads in "1", "16":
            begin = time.monotonic()
            done = programs.run("offload_dataset", "index", self.root, "--json", "--no-hash", "-j", threads,
                                env=slow)
            seconds.append(time.monotonic() - begin)
            self.assertEqual(json.loads(done.stdout)["samples"], NUM)
        self.assertGreater(seconds[0], NUM * 1e-3)
        self.assertLess(seconds[1], seconds[0] / 2)

    def test_lists_without_reading(self):
        os.chmod(self.root / "c0" / "0.ppm", 0)
        bare, _ = self.index("--no-hash")
        self.assertEqual((bare["samples"], bare["unreadable"], bare["kept"]), (NUM, 0, 0))
        self.assertTrue(all(row.split("\t")[6] == "-" for row in self.rows()))
        os.chmod(self.root / "c0" / "0.ppm", 0o644)
        whole, _ = self.index()
        self.assertEqual(whole["dataset_id"], bare["dataset_id"])
        again, _ = self.index("--no-hash")
        self.assertEqual(again["kept"], NUM)
        self.assertTrue(all(len(row.split("\t")[6]) == 32 for row in self.rows()))


def picture(i):
    return b"P6\n1 1\n255\n" + i.to_bytes(3, "little")


class IndexAgainWithLabels(unittest.TestCase):
    """What is kept of a row is what its file says: labels and splits come from where they stand."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-index-labels-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.root = self.folder / "set"
        self.root.mkdir()

    def index(self, *options):
        return json.loads(programs.run("offload_dataset", "index", self.root, "--json", *options).stdout)

    def rows(self):
        """{path: (label, subset)}, and the lines of the list."""
        text = (self.root / "sluice-manifest.tsv").read_text().splitlines()
        lines = [line.split("\t") for line in text if ".ppm\t" in line]
        return {line[0]: (int(line[2]), line[3]) for line in lines}, text

    def again(self, kept, *options):
        """Of an index that keeps so many rows: its rows, which are those of one that keeps none."""
        summary = self.index(*options)
        self.assertEqual(summary["kept"], kept)
        rows, text = self.rows()
        fresh = self.index("--anew", *options)
        self.assertEqual(fresh["kept"], 0)
        self.assertEqual(fresh["dataset_id"], summary["dataset_id"])
        self.assertEqual(self.rows(), (rows, text))
        return rows

    def write_images(self, num):
        for i in range(num):
            (self.root / f"{i}.ppm").write_bytes(picture(i))

    def write_tar(self, name, numbers, label):
        with tarfile.open(self.root / name, "w") as tar:
            for i in numbers:
                for suffix, data in (("ppm", picture(i)), ("cls", str(label).encode())):
                    info = tarfile.TarInfo(f"{i}.{suffix}")
                    info.size = len(data)
                    tar.addfile(info, io.BytesIO(data))

    def test_labels_and_splits_of_tables_and_lists(self):
        self.write_images(4)
        table = self.root / "labels.csv"
        table.write_text("file_name,label\n" + "".join(f"{i}.ppm,{i % 2}\n" for i in range(4)))
        self.index()
        table.write_text("file_name,label,split\n0.ppm,1,train\n1.ppm,0,val\n2.ppm,0,train\n3.ppm,1,test\n")
        self.assertEqual(self.again(3), {"0.ppm": (1, "train"), "1.ppm": (0, "val"),
                                         "2.ppm": (0, "train")})
        # A sample that was none is read, as the list before does not have it.
        train, val = self.folder / "train.txt", self.folder / "val.txt"
        train.write_text("3.ppm 2\n0.ppm 0\n")
        val.write_text("2.ppm 1\n")
        lists = ("--train-list", train, "--val-list", val)
        self.index()
        self.assertEqual(self.again(2, *lists), {"0.ppm": (0, "train"), "2.ppm": (1, "val"),
                                                 "3.ppm": (2, "train")})

    def test_members_of_tars(self):
        self.write_tar("a.tar", (0, 1, 2), 0)
        self.write_tar("b.tar", (3, 4), 1)
        (self.root / "5.ppm").write_bytes(picture(5))
        table = self.folder / "labels.csv"
        paths = [*(f"a.tar/{i}.ppm" for i in (0, 1, 2)), *(f"b.tar/{i}.ppm" for i in (3, 4)), "5.ppm"]

        def label(number):
            table.write_text("file_name,label\n" + "".join(f"{path},{number}\n" for path in paths))
            return ("--labels", table)
        self.index(*label(0))
        self.assertEqual(self.again(6, *label(7)), {path: (7, "train") for path in paths})
        # Another member at each place of the tar, as long as the one before.
        before = (self.root / "b.tar").stat()
        self.write_tar("b.tar", (4, 3), 1)
        self.assertEqual((self.root / "b.tar").stat().st_size, before.st_size)
        os.utime(self.root / "b.tar", ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        self.again(4, *label(7))
        # One shard alone, with the labels that lie in it.
        self.assertEqual(self.again(2, "--shards", "b.tar"),
                         {"b.tar/3.ppm": (1, "train"), "b.tar/4.ppm": (1, "train")})

    def test_records_of_mds(self):
        columns = [("fine", "int", 8), ("image", "bytes", None), ("label", "int", 8)]
        rows = [(struct.pack("<q", i), picture(i), struct.pack("<q", i % 2)) for i in range(6)]
        record_sets.write_mds(self.root, rows, columns, per_shard=3)
        paths = [f"shard.0000{shard}.mds/{i}.ppm" for shard in (0, 1) for i in range(3)]
        self.index()
        self.assertEqual(self.again(6), {path: (i % 2, "train") for i, path in enumerate(paths)})
        self.assertEqual(self.again(6, "--label-key", "fine"),
                         {path: (i, "train") for i, path in enumerate(paths)})
        # The second shard is another one, at the same places.
        second = self.root / "shard.00001.mds"
        before = second.stat()
        second.write_bytes(second.read_bytes().replace(picture(4), picture(40)))
        os.utime(second, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
        self.again(3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
