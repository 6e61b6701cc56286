#!/usr/bin/env python3
"""Files that are replaced under a list of samples: never served with the old label, and a copy with
another time is no other file."""
import os
import re
import shutil
import unittest

import torture
from programs import run
from torture import Server


def index(root, *flags):
    run("offload_dataset", "index", root, *flags)


def touch(path, seconds):
    st = os.stat(path)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns + seconds * 10**9))


def flip(path):
    """Other content of the same length and the same time."""
    st = os.stat(path)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


class StaleFiles(unittest.TestCase):
    FLAGS = ["--epochs", 1, "-b", 8, "--retry-for", 0.1]

    def make(self, name, *flags):
        root = torture.make_dataset(name, count=16, size=64)
        index(root, *flags)
        self.first = root / "train/cat/0000.jpg"
        return root

    def local(self, root, *flags, **named):
        return torture.train(root, "--dataset-mode", "local", *self.FLAGS, *flags, **named)

    def remote(self, server, *flags, **named):
        return torture.train("--host", server.address, *self.FLAGS, *flags, **named)

    def check_named(self, epochs, done, text):
        """The run names the one sample: at its end, or as the reason why it ended."""
        said = done.stderr + str(epochs)
        self.assertTrue(done.returncode != 0 or epochs[0]["errors"] == 1, said)
        self.assertRegex(said, "train/cat/0000.jpg: " + text)
        self.assertNotIn("0001.jpg", said)

    def serve(self, root, *flags):
        server = Server(root, *flags)
        self.addCleanup(server.process.kill)
        return server

    def test_another_length_is_stale(self):
        root = self.make("length", "--jpeg-index")
        server = self.serve(root)
        shutil.copy(root / "train/dog/0001.jpg", self.first)
        for mode in ("remote_nooff", "remote_piloff"):
            epochs, done = self.remote(server, "--dataset-mode", mode, check=False)
            self.check_named(epochs, done, r"\d+ bytes, but \d+ in the list of samples")
        epochs, done = self.local(root, check=False)
        self.check_named(epochs, done, r"\d+ bytes, but \d+ in the list of samples")
        self.assertIn("stale", str(server.stop()["errors"]))

    def test_other_content_and_time_is_stale(self):
        root = self.make("content")
        server = self.serve(root)
        flip(self.first)
        touch(self.first, 10)
        for mode in ("remote_nooff", "remote_piloff"):
            epochs, done = self.remote(server, "--dataset-mode", mode, check=False)
            self.check_named(epochs, done, "other content than was indexed")
        epochs, done = self.local(root, check=False)
        self.check_named(epochs, done, "other content than was indexed")

    def test_another_time_alone_changes_nothing(self):
        root = self.make("time", "--jpeg-index")
        server = self.serve(root)
        (good,), _ = self.local(root)
        for path in root.glob("train/*/*.jpg"):
            touch(path, 10)
        for _ in range(2):
            (epoch,), _ = self.remote(server, "--dataset-mode", "remote_piloff")
            self.assertEqual((epoch["digest"], epoch["errors"]), (good["digest"], 0))
        (epoch,), _ = self.local(root)
        self.assertEqual((epoch["digest"], epoch["errors"]), (good["digest"], 0))

    def test_verify_finds_what_length_and_time_hide(self):
        root = self.make("hidden")
        server = self.serve(root, "--verify")
        (good,), _ = self.local(root, "--verify")
        flip(self.first)
        for mode in ("remote_nooff", "remote_piloff"):
            epochs, done = self.remote(server, "--dataset-mode", mode, check=False)
            self.check_named(epochs, done, "other content than was indexed")
        epochs, done = self.local(root, "--verify", check=False)
        self.check_named(epochs, done, "other content than was indexed")
        flip(self.first)
        (epoch,), _ = self.remote(server, "--dataset-mode", "remote_piloff")
        self.assertEqual((epoch["digest"], epoch["errors"]), (good["digest"], 0))

    def test_lengths_of_a_folder_without_an_index_count_from_the_start(self):
        root = torture.make_dataset("plain", count=16, size=64)
        self.first = root / "train/cat/0000.jpg"
        server = self.serve(root)
        touch(self.first, 10)
        (epoch,), _ = self.remote(server, "--dataset-mode", "remote_nooff")
        self.assertEqual(epoch["errors"], 0)
        shutil.copy(root / "train/dog/0001.jpg", self.first)
        epochs, done = self.remote(server, "--dataset-mode", "remote_nooff",
                                   check=False)
        self.check_named(epochs, done, r"\d+ bytes, but \d+ in the list of samples")
        self.assertEqual(len(re.findall("was changed after the list", server.log())), 1)


if __name__ == "__main__":
    torture.main()
