#!/usr/bin/env python3
"""Tars of images, packed here and as webdataset's TarWriter lays them out: one digest with the folder
in each mode, and damage that costs what is damaged."""
import io
import json
import pathlib
import shutil
import subprocess
import tarfile
import unittest

import programs
from programs import SynthTest, run

NUM_TRAIN = 30
NUM_VAL = 6
MODES = ("local", "remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")


def dataset(*arguments, code=0):
    return run("offload_dataset", *arguments, code=code)


def index(root, *flags):
    return json.loads(dataset("index", "--json", *flags, root).stdout)


class SetCase(SynthTest):
    """A folder of images, its digest, and what has to be equal to it."""
    SYNTH = ("-n", NUM_TRAIN, "--num-val", NUM_VAL, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.digest = cls.train("local", cls.root)["digest"]

    @staticmethod
    def train(mode, *flags):
        (report,), _ = programs.train("--dataset-mode", mode, "-b", 8, "-p", 0, "--image-size", 64,
                                      *flags)
        return report

    def empty(self, name):
        path = pathlib.Path(self.folder.name, name)
        path.mkdir()
        return path

    def check_modes(self, root, *flags):
        """The folder's digest in each mode; the server's last counters."""
        profile = self.empty(f"{root.name}-profile")
        self.assertEqual(self.train("local", root, "--profiling", "--write-profile-folder",
                                    profile)["digest"], self.digest)
        planned = ["--profile-folder", profile, "--net-bw", "100", "--remote-cpus", "2"]
        server = programs.Server(root, *flags)
        try:
            for mode in MODES:
                where = [root] if mode == "local" else ["--host", server.address]
                if mode in ("remote_sophon", "remote_auto"):
                    where += planned
                report = self.train(mode, *where)
                with self.subTest(mode=mode):
                    self.assertEqual(report["digest"], self.digest)
                    self.assertEqual((report["samples"], report["errors"]), (NUM_TRAIN, 0))
        finally:
            stats, log = server.finish()
        self.assertNotIn("not up to date", log)
        return stats


class ShardsTest(SetCase):
    def test_packed_tars_and_back(self):
        tars = pathlib.Path(self.folder.name, "packed")
        packed = json.loads(dataset("pack", "--json", "--shard-bytes", "500kB", self.root,
                                    tars).stdout)
        self.assertEqual(packed["samples"], NUM_TRAIN + NUM_VAL)
        self.assertGreater(packed["shards"], 3)
        summary = index(tars, "--jpeg-index")
        self.assertEqual((summary["samples"], summary["shards"], summary["damaged_shards"]),
                         (NUM_TRAIN + NUM_VAL, packed["shards"], 0))
        self.check_modes(tars)
        # Each key is a sample for webdataset: its members follow each other, image and .cls.
        keys = []
        for path in sorted(tars.rglob("*.tar")):
            with tarfile.open(path) as tar:
                members = tar.getmembers()
            self.assertEqual({(m.mtime, m.mode, m.uid, m.gid, m.isreg()) for m in members},
                             {(0, 0o644, 0, 0, True)})
            for image, label in zip(members[::2], members[1::2], strict=True):
                key, suffix = image.name.rsplit(".", 1)
                self.assertIn(suffix, ("jpg", "png"))
                self.assertEqual(label.name, f"{key}.cls")
                keys.append(key)
        self.assertEqual(len(set(keys)), NUM_TRAIN + NUM_VAL)
        back = pathlib.Path(self.folder.name, "unpacked")
        dataset("unpack", tars, back)
        difference = subprocess.run(["diff", "-r", self.root, back], capture_output=True, text=True)
        self.assertEqual(difference.stdout.splitlines(),
                         [f"Only in {back}: labels.csv", f"Only in {back}: sluice-classes.txt"])
        self.assertEqual(self.train("local", back)["digest"], self.digest)

    def test_an_order_of_a_few_shards_at_a_time(self):
        """One digest in each mode, and another one than of other orders."""
        tars = pathlib.Path(self.folder.name, "few")
        shards = json.loads(dataset("pack", "--json", "--shard-bytes", "300kB", self.root,
                                    tars).stdout)["shards"]
        index(tars)
        server = programs.Server(tars)
        digests = {}
        try:
            for count in (0, 1, 3):
                flags = ["--shuffle-shards", count]
                digests[count] = {self.train("local", tars, *flags)["digest"]}
                for mode in ("remote_nooff", "remote_alloff", "remote_auto"):
                    digests[count].add(self.train(mode, "--host", server.address, *flags)["digest"])
                self.assertEqual(len(digests[count]), 1)
        finally:
            server.finish()
        self.assertEqual(digests[0], {self.digest})
        self.assertEqual(len(set().union(*digests.values())), 3)
        self.assertGreater(shards, 3)

    def write_like_webdataset(self, tars):
        """As TarWriter: user, group and mode of its own, KEY.ext by sorted extensions, shards cut by
        count; keys of one folder without folders, labels in .cls."""
        paths = sorted(p.relative_to(self.root).as_posix() for p in self.root.rglob("*")
                       if p.suffix in (".jpg", ".png"))
        classes = sorted({path.split("/")[1] for path in paths})
        writer, count = None, 0
        for number, path in enumerate(paths):
            subset, label, _ = path.split("/")
            (tars / subset).mkdir(exist_ok=True)
            if writer is None or count == 7 or writer.subset != subset:
                if writer:
                    writer.close()
                writer = tarfile.open(tars / subset / f"shard-{number:06d}.tar", "w",
                                      format=tarfile.PAX_FORMAT if number % 2 else tarfile.GNU_FORMAT)
                writer.subset, count = subset, 0
            count += 1
            contents = {path.rsplit(".")[-1]: (self.root / path).read_bytes(),
                        "cls": str(classes.index(label)).encode("ascii"), "json": b"{}"}
            for suffix in sorted(contents):
                info = tarfile.TarInfo(f"{number:08d}.{suffix}")
                info.size = len(contents[suffix])
                info.mode, info.uname, info.gname, info.mtime = 0o444, "bigdata", "bigdata", 1.5e9
                writer.addfile(info, io.BytesIO(contents[suffix]))
        writer.close()

    def test_tars_as_webdataset_writes_them(self):
        tars = self.empty("webdataset")
        self.write_like_webdataset(tars)
        summary = index(tars, "--jpeg-index")
        self.assertEqual(summary["samples"], NUM_TRAIN + NUM_VAL)
        self.assertEqual((summary["shards"], summary["damaged_shards"]), (6, 0))
        self.assertEqual(summary["classes"], 3)
        stats = self.check_modes(tars)
        self.assertGreater(stats["jpeg_index"]["hits"], 0)
        self.assertEqual(stats["jpeg_index"]["stale"], 0)
        self.assertLess(stats["files"]["read_bytes"], stats["files"]["bytes"])
        done = dataset("verify", "--jpeg-index", "--decode", "--json", tars)
        self.assertEqual(json.loads(done.stdout)["bad"], 0)
        programs.Server(tars, "--strict").finish()  # what is listed is read

    def test_tars_by_tar_in_each_format(self):
        names = sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())
        ids = set()
        for name in ("v7", "ustar", "gnu", "pax"):
            tars = self.empty(f"by-tar-{name}")
            # Two, cut in the order of the paths; one begins with "./" as of "tar -C DIR .".
            for number, part in enumerate((names[:20], ["./" + n for n in names[20:]])):
                subprocess.run(["tar", f"--format={name}", "-C", self.root, "-cf",
                                tars / f"{number}.tar", *part], check=True)
            ids.add(index(tars)["dataset_id"])
            self.assertEqual(self.train("local", tars)["digest"], self.digest)
        self.assertEqual(len(ids), 1)  # other offsets are no other data

    def test_without_a_manifest_and_other_images_tars_are_listed_at_the_start(self):
        tars = self.empty("unlisted")
        self.write_like_webdataset(tars)
        self.assertEqual(self.train("local", tars)["digest"], self.digest)
        server = programs.Server(tars)
        self.assertEqual(self.train("remote_piloff", "--host", server.address)["digest"],
                         self.digest)
        _, log = server.finish()
        num_tars = len(list(tars.rglob("*.tar")))
        self.assertIn(f"listing: {num_tars}/{num_tars} in ", log)

    def test_without_a_manifest_tars_beside_images_are_told_in_one_line(self):
        tars = self.empty("untold")
        shutil.copytree(self.root / "train", tars / "train")
        for name in ("a.tar", "b.tar"):
            tarfile.open(tars / name, "w").close()
        server = programs.Server(tars)
        _, log = server.finish()
        self.assertIn("--strict: 2 .tar or .mds of", run("offload_server", "--root", tars, "--listen",
                                                 "127.0.0.1:0", "--strict", code=1).stderr)
        lines = [line for line in log.splitlines() if ".tar" in line]
        self.assertEqual(len(lines), 1, log)
        self.assertTrue(lines[0].endswith(f"warning: {tars}: 2 .tar or .mds: run offload_dataset index"),
                        lines[0])

    def test_a_damaged_tar_costs_what_lies_behind_the_damage(self):
        tars = self.empty("damaged")
        self.write_like_webdataset(tars)
        last = sorted((tars / "train").glob("*.tar"))[-1]
        bytes_ = last.read_bytes()
        with tarfile.open(last) as tar:
            members = tar.getmembers()
        cut = members[4].offset_data + 10
        last.write_bytes(bytes_[:cut])
        done = dataset("index", "--json", tars)
        summary = json.loads(done.stdout)
        num_whole = sum(member.name.endswith((".jpg", ".png")) for member in members[:4])
        num_all = sum(member.name.endswith((".jpg", ".png")) for member in members)
        self.assertLess(num_whole, num_all)
        self.assertEqual(summary["damaged_shards"], 1)
        self.assertEqual(summary["samples"], NUM_TRAIN + NUM_VAL - num_all + num_whole)
        self.assertIn(f"{last}: byte {members[4].offset}: the tar is cut within a member",
                      done.stderr)
        report = self.train("local", tars)
        self.assertEqual(report["samples"], NUM_TRAIN - num_all + num_whole)
        self.assertIn("shards of", dataset("index", "--strict", tars, code=1).stderr)

    def test_a_tar_that_is_rewritten_is_told_by_its_content(self):
        tars = self.empty("rewritten")
        self.write_like_webdataset(tars)
        index(tars)
        first = sorted((tars / "train").glob("*.tar"))[0]
        old = first.read_bytes()
        # The same bytes at another time are the same samples.
        first.write_bytes(old)
        self.assertEqual(self.train("local", tars)["digest"], self.digest)
        # Other members in their place are not, and each of them is named as stale.
        with tarfile.open(first) as tar:
            at = tar.getmembers()[1].offset_data
        first.write_bytes(old[:at + 100] + bytes([old[at + 100] ^ 255]) + old[at + 101:])
        server = programs.Server(tars)
        try:
            done = run("offload_train", "--host", server.address, "--dataset-mode", "remote_nooff",
                       "--device", "none", "-b", "8", "-p", "0", "--image-size", "64", "--json",
                       "--on-error", "skip", "--retry-for", "1")
        finally:
            server.finish()
        self.assertEqual(json.loads(done.stdout)["errors"], 1)
        self.assertEqual(dataset("verify", tars, code=1).stderr.count("not what was indexed"), 1)
        first.write_bytes(old[:-1024] + old[-1024:-512])
        self.assertEqual(self.train("local", tars)["digest"], self.digest)


if __name__ == "__main__":
    unittest.main()
