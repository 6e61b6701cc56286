#!/usr/bin/env python3
"""The dataset's folder is renamed, deleted or replaced in mid-run: health says so, no sample is
taken for one that never was, and all is well when the folder is back."""
import shutil
import unittest

import torture
from attacked import Attacked
from health import NOT_SERVING, SERVING, Health


class LostRoot(unittest.TestCase):
    def serve(self, name):
        self.root = torture.make_dataset(name, count=16, size=48)
        self.away = self.root.with_name(name + ".away")
        server = Attacked(self.root)
        self.addCleanup(server.close)
        return server

    def train(self, server, **named):
        return torture.train("--host", server.address, "--dataset-mode", "remote_nooff", "-b", 8,
                             "--epochs", 1, "--retry-for", 0.2, **named)

    def check_failed(self, server):
        """Whatever was asked for failed as the storage's error, not as a file that never was."""
        epochs, done = self.train(server, check=False)
        said = done.stderr + str(epochs)
        self.assertTrue(done.returncode != 0 or epochs[0]["errors"] == 16, said)
        self.assertIn("the server's root is gone", said)
        self.assertNotIn("no such file", said)
        self.assertNotIn("not found", said)

    def test_renamed_and_back(self):
        with self.serve("renamed") as server, Health(server.address) as health:
            health.wait_for(SERVING)
            (good,), _ = self.train(server)
            self.root.rename(self.away)
            health.wait_for(NOT_SERVING)
            # The folder that was opened at the start is whole, wherever it lies.
            (epoch,), _ = self.train(server)
            self.assertEqual(epoch["digest"], good["digest"])
            self.away.rename(self.root)
            health.wait_for(SERVING)
            self.assertEqual(health.heard, [SERVING, NOT_SERVING, SERVING])
            self.assertEqual(server.log().count("health is NOT_SERVING until it is there again"), 1)
            self.assertEqual(server.log().count("the root is there again"), 1)

    def test_deleted_and_restored_as_another_folder(self):
        with self.serve("deleted") as server, Health(server.address) as health:
            (good,), _ = self.train(server)
            shutil.copytree(self.root, self.away)
            shutil.rmtree(self.root)
            health.wait_for(NOT_SERVING)
            self.check_failed(server)
            self.root.mkdir()  # as a mount point without its mount
            self.check_failed(server)
            self.assertEqual(health.check(), NOT_SERVING)
            self.root.rmdir()
            self.away.rename(self.root)
            health.wait_for(SERVING)
            (epoch,), _ = self.train(server)
            self.assertEqual(epoch["digest"], good["digest"])

    def test_a_missing_file_is_still_no_more_than_that(self):
        with self.serve("missing") as server:
            (self.root / "train/cat/0003.jpg").unlink()
            epochs, done = self.train(server, check=False)
            self.assertIn("no such file", done.stderr + str(epochs))

    def test_a_local_run_whose_folder_goes_names_it(self):
        root = torture.make_dataset("local", count=16, size=48)
        run = torture.Train(root, "--dataset-mode", "local", "-b", 8, "--epochs", 1000000, "--retry-for",
                            0.2, "--on-error", "fail")
        self.addCleanup(run.process.kill)
        run.process.stdout.readline()
        root.rename(root.with_name("local.away"))
        self.assertIn("the folder is gone", run.end(1)[1])


if __name__ == "__main__":
    torture.main()
