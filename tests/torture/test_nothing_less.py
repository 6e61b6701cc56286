#!/usr/bin/env python3
"""Samples that are gone: the run ends at once, says what it lost, and leaves its checkpoint alone."""
import os
import subprocess
import unittest

import torture

MODES = ("local", "remote_nooff", "remote_auto")


class NothingLess(unittest.TestCase):
    def place(self, mode, root):
        """The flags that read `root` in this mode."""
        if mode == "local":
            return [root, "--dataset-mode", mode]
        server = torture.Server(root)
        self.addCleanup(server.close)
        return ["--dataset-mode", mode, "--host", server.address, "--net-bw", "1gbit"]

    def start(self, *flags):
        process = subprocess.Popen(
            [str(torture.BIN / "offload_train"), "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def test_a_folder_that_is_renamed_ends_the_run(self):
        for mode in MODES:
            with self.subTest(mode):
                root = torture.make_dataset(f"renamed-{mode}")
                process = self.start("--device", "none", "--epochs", 200, "-b", 8,
                                     "--consume-rate", 2000, *self.place(mode, root))
                process.stdout.readline()  # an epoch is done
                os.rename(root / "train", root / "elsewhere")
                out, err = process.communicate(timeout=torture.TIMEOUT_S)
                self.assertEqual(process.returncode, 1, err[-2000:])
                self.assertLess(len(out.splitlines()), 199)
                self.assertNotIn('"samples":0', out)
                last = err.splitlines()[-1]
                self.assertRegex(last, r"too many samples failed: \d+ not found.*where 1 of a kind")
                self.assertRegex(last, r"train/(cat|dog)/\d+\.jpg")

    def test_the_last_good_checkpoint_stays(self):
        root = torture.make_dataset("checkpoint")
        saved = torture.temporary_folder("saved") / "run.ckpt"
        flags = [root, "--dataset-mode", "local", "--device", "cpu", "-a", "small_cnn",
                 "--image-size", 16, "-b", 8, "--train-threads", 1, "--checkpoint", saved]
        process = self.start(*flags, "--epochs", 1)
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        if process.returncode == 1 and "SLUICE_ONEDNN" in err:
            self.skipTest("this build has no CPU trainer")
        self.assertEqual(process.returncode, 0, err[-2000:])
        before = saved.read_bytes()
        for path in sorted((root / "train").glob("*/*"))[::2]:
            path.write_bytes(b"no image")
        process = self.start(*flags, "--epochs", 2, "--max-errors", "10%")
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, 1, err[-2000:])
        self.assertIn("too many samples failed", err.splitlines()[-1])
        self.assertEqual(saved.read_bytes(), before)

    def test_what_may_fail(self):
        root = torture.make_dataset("some")
        files = sorted((root / "train").glob("*/*"))
        files[0].write_bytes(b"no image")
        flags = [root, "--dataset-mode", "local", "-b", 8]
        (report,), _ = torture.train(*flags)  # one is always allowed
        self.assertEqual((report["samples"], report["errors"]), (39, 1))
        _, done = torture.train(*flags, "--max-errors", 0, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("1 unsupported", done.stderr)
        files[1].write_bytes(b"no image")
        _, done = torture.train(*flags, check=False)
        self.assertEqual(done.returncode, 1)
        for most in (2, "5%"):
            (report,), _ = torture.train(*flags, "--max-errors", most)
            self.assertEqual((report["samples"], report["errors"]), (38, 2))

    def test_an_epoch_without_any_sample_is_none(self):
        root = torture.make_dataset("none", count=4)
        for path in (root / "train").glob("*/*"):
            path.write_bytes(b"no image")
        for flag in ([], ["--on-error", "substitute"]):
            epochs, done = torture.train(root, "--dataset-mode", "local", "--max-errors", "100%",
                                         *flag, check=False)
            self.assertEqual((done.returncode, epochs), (1, []), done.stderr[-2000:])
            self.assertIn("none of its 4 samples came", done.stderr.splitlines()[-1])

    def test_an_evaluation_is_held_to_the_same(self):
        root = torture.make_dataset("evaluation")
        (root / "train").rename(root / "val")
        for path in sorted((root / "val").glob("*/*"))[:5]:
            path.write_bytes(b"no image")
        flags = [root, "--dataset-mode", "local", "--evaluate", "-b", 8]
        _, done = torture.train(*flags, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("val epoch 0: too many samples failed", done.stderr)
        (report,), _ = torture.train(*flags, "--max-errors", 5)
        self.assertEqual((report["samples"], report["errors"]), (35, 5))


if __name__ == "__main__":
    torture.main()
