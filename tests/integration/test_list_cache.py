#!/usr/bin/env python3
"""A long list of samples is fetched once: the client keeps it, finds damage, and does without a
place to keep it."""
import io
import os
import pathlib
import tarfile
import tempfile
import unittest

from programs import Server, run, train

NUM = 70000  # shorter lists are not kept


def write_tar(path):
    pixels = b"P6\n2 2\n255\n" + bytes(range(12))
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for i in range(NUM):
            member = tarfile.TarInfo(f"{'ab'[i % 2]}/{i:06}.ppm")
            member.size = len(pixels)
            tar.addfile(member, io.BytesIO(pixels))


class ListCache(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="sluice-list-cache-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name, "set")
        cls.root.mkdir()
        write_tar(cls.root / "all.tar")
        run("offload_dataset", "index", cls.root)
        cls.server = cls.enterClassContext(Server(cls.root))

    def setUp(self):
        self.cache = tempfile.TemporaryDirectory(prefix="sluice-list-cache-")
        self.addCleanup(self.cache.cleanup)

    def train(self, cache=None):
        """One epoch of a few samples: (its digest, its log)."""
        (epoch,), log = train(
            "--host", self.server.address, "--dataset-mode", "remote_nooff", "--epochs", 1, "-b", 8,
            "--image-size", 8, "--limit-samples", 16, "-j", 1,
            env={"XDG_CACHE_HOME": str(cache or self.cache.name)})
        return epoch["digest"], log

    def kept(self):
        files = list(pathlib.Path(self.cache.name, "sluice").iterdir())
        self.assertEqual(len(files), 1, files)
        return files[0]

    def test_the_second_start_needs_no_list(self):
        first, _ = self.train()
        inode = self.kept().stat().st_ino
        self.assertRegex(self.kept().name, r"^[0-9a-f]{32}\.bin$")
        again, log = self.train()
        self.assertEqual(again, first)
        self.assertEqual(self.kept().stat().st_ino, inode)
        self.assertNotIn("fetched anew", log)

    def test_a_damaged_file_is_fetched_anew(self):
        first, _ = self.train()
        path = self.kept()
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        again, log = self.train()
        self.assertEqual(again, first)
        self.assertIn("fetched anew", log)
        self.assertIn(" warning: ", log)
        content[len(content) // 2] ^= 1
        self.assertEqual(self.kept().read_bytes(), bytes(content))

    def test_without_a_place_it_is_kept_in_memory(self):
        first, _ = self.train()
        again, log = self.train("/proc/nowhere")
        self.assertEqual(again, first)
        self.assertIn("is not kept", log)

    def test_the_newest_are_kept(self):
        folder = pathlib.Path(self.cache.name, "sluice")
        folder.mkdir()
        for i in range(12):
            path = folder / f"{i:032x}.bin"
            path.write_bytes(b"x")
            os.utime(path, (1000 + i, 1000 + i))
        (folder / "mine.txt").write_bytes(b"x")
        self.train()
        left = sorted(path.name for path in folder.iterdir())
        self.assertEqual(len(left), 9, left)
        self.assertIn("mine.txt", left)
        for i in range(12):
            self.assertEqual(f"{i:032x}.bin" in left, i >= 5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
