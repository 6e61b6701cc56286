#!/usr/bin/env python3
"""Output that cannot be written ends nothing: training goes on, a warning says so, what is missing
at the end is exit code 1, and a checkpoint is the old one or the new one, whole."""
import json
import os
import resource
import signal
import subprocess
import unittest

import torture
from programs import copy_checkpoint

FLAGS = ["--dataset-mode", "local", "-b", "8"]
CPU = ["--device", "cpu", "-a", "small_cnn", "--image-size", "16", "--train-threads", "1", "--lr",
       "0.01"]
TEMPORARY = ".tmp-"


def start(*flags, **more):
    return subprocess.Popen([str(torture.BIN / "offload_train"), "--json", *map(str, flags)],
                            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
                               **more})


def run(*flags, **more):
    process = start(*flags, **more)
    out, err = process.communicate(timeout=torture.TIMEOUT_S)
    epochs = [json.loads(line) for line in (out or "").splitlines()]
    return process.returncode, epochs, err


class Output(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("output")

    def test_a_full_standard_output(self):
        with open("/dev/full", "w") as full:
            code, _, err = run(self.root, *FLAGS, "--device", "none", "--epochs", 3, stdout=full)
        self.assertEqual(code, 1)
        self.assertEqual(err.count("warning: cannot write the standard output"), 1, err)
        self.assertEqual(err.count("epoch 2 local: 40 samples"), 1, err)  # the log has it
        self.assertIn("No space left on device; 3 lines are missing", err.splitlines()[-1])

    def test_a_reader_that_has_gone(self):
        ends = os.pipe()
        os.close(ends[0])
        code, _, err = run(self.root, *FLAGS, "--device", "none", "--epochs", 3, stdout=ends[1])
        os.close(ends[1])
        self.assertEqual(code, 1)
        self.assertIn("Broken pipe; 3 lines are missing", err.splitlines()[-1])

    def test_a_batch_log_that_is_full_for_a_while(self):
        """A limit on the size of files stands for the disk, and is taken away in between."""
        log = torture.temporary_folder("log") / "batches.csv"
        small = (300, resource.RLIM_INFINITY)
        process = start(self.root, *FLAGS, "--device", "none", "--epochs", 400, "-p", 0,
                        "--batch-log", log,
                        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, small))
        err = process.stderr.readline()
        while "warning: cannot write" not in err:
            err = process.stderr.readline()
            self.assertTrue(err)
        self.assertIn(str(log), err)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, err[-2000:])
        lines = log.read_text().splitlines()
        self.assertEqual(len(lines), 1 + 400 * 5)
        self.assertEqual([line.split(",")[:2] for line in lines[1:]],
                         [[str(i // 5), str(i % 5)] for i in range(400 * 5)])

    def test_a_batch_log_that_stays_full(self):
        code, epochs, err = run(self.root, *FLAGS, "--device", "none", "--epochs", 2,
                                "--batch-log", "/dev/full")
        self.assertEqual((code, len(epochs)), (1, 2), err)
        self.assertIn("cannot write /dev/full: No space left on device; 11 lines are missing",
                      err.splitlines()[-1])


class Checkpoint(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("saved")
        cls.folder = torture.temporary_folder("checkpoints")
        cls.file = cls.folder / "first.ckpt"
        code, _, err = run(cls.root, *FLAGS, *CPU, "--checkpoint", cls.file)
        if code == 1 and "SLUICE_ONEDNN" in err:
            raise unittest.SkipTest("this build has no CPU trainer")
        assert code == 0, err

    def setUp(self):
        self.path = self.folder / f"{self.id().split('.')[-1]}.ckpt"
        copy_checkpoint(self.file, self.path)

    def resume(self, *flags, **more):
        return run(self.root, *FLAGS, *CPU, "--resume", self.path, "--checkpoint", self.path,
                   *flags, **more)

    def left_behind(self):
        return [name for name in os.listdir(self.folder) if TEMPORARY in name]

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_disk_that_fails_keeps_the_old_one(self):
        before = self.path.read_bytes()
        full = "call=write,path=.ckpt,do=enospc"
        half = "call=write,path=.ckpt,most=1,do=short"  # the first half of a file gets there
        for rules in ([full], [half, full],
                      ["call=sync,path=.ckpt,do=eio"], ["call=rename,path=.ckpt,do=eio"]):
            with self.subTest(rules):
                code, epochs, err = self.resume("--epochs", 3, env=torture.bad_disk(*rules))
                self.assertEqual((code, [e["epoch"] for e in epochs]), (1, [1, 2]), err)
                self.assertEqual(err.count("warning: no checkpoint of epoch"), 2, err)
                self.assertIn("the last checkpoint is missing", err.splitlines()[-1])
                self.assertEqual(self.path.read_bytes(), before)
                self.assertEqual(self.left_behind(), [])

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_disk_that_fails_once_is_tried_again(self):
        code, epochs, err = self.resume(
            "--epochs", 3, env=torture.bad_disk("call=rename,path=.ckpt,most=1,do=eio"))
        self.assertEqual((code, len(epochs)), (0, 2), err)
        self.assertEqual(err.count("warning: no checkpoint of epoch"), 1)
        code, _, err = self.resume("--epochs", 3)
        self.assertIn("nothing to do: 3 epochs are done", err)

    def test_the_checkpoint_comes_before_what_is_printed(self):
        with open("/dev/full", "w") as full:
            code, _, err = self.resume("--epochs", 2, stdout=full)
        self.assertEqual(code, 1)
        code, _, err = self.resume("--epochs", 2)
        self.assertEqual(code, 0)
        self.assertIn("nothing to do: 2 epochs are done", err)

    def test_a_place_that_takes_none_is_found_before_training(self):
        for path, words in (("/nonexist/x", "create a file beside it"),
                            ("/dev/full", "not a regular file"),
                            (self.folder, "not a regular file")):
            code, epochs, err = run(self.root, *FLAGS, *CPU, "--checkpoint", path)
            self.assertEqual((code, epochs, err.count("\n")), (1, [], 1), err)
            self.assertIn(f"--checkpoint {path}: {words}", err)

    def test_a_torn_one_is_named(self):
        whole = self.path.read_bytes()
        for i in range(0, len(whole), len(whole) // torture.rounds(7, 200)):
            flipped = bytearray(whole)
            flipped[i] ^= 4
            for torn in (whole[:i], bytes(flipped)):
                self.path.write_bytes(torn)
                code, epochs, err = self.resume("--epochs", 2)
                self.assertEqual((code, epochs, err.count(" error: ")), (1, [], 1), err)
                self.assertIn(str(self.path), err)
                self.assertEqual(self.path.read_bytes(), torn)

    def test_what_a_killed_run_left_behind_is_removed(self):
        gone = subprocess.Popen(["true"])
        gone.wait()
        old = self.folder / f"{self.path.name}{TEMPORARY}{gone.pid}-0"
        ours = self.folder / f"{self.path.name}{TEMPORARY}{os.getpid()}-0"
        other = self.folder / f"x{self.path.name}{TEMPORARY}{gone.pid}-0"
        for path in (old, ours, other):
            path.write_bytes(b"half a file")
        code, _, err = self.resume("--epochs", 2)
        self.assertEqual(code, 0, err)
        self.assertEqual([path.exists() for path in (old, ours, other)], [False, True, True])
        ours.unlink()
        other.unlink()

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_sync_that_hangs_ends_with_the_second_signal(self):
        before = self.path.read_bytes()
        hung = self.folder / "hung"
        process = start(self.root, *FLAGS, *CPU, "--resume", self.path, "--checkpoint", self.path,
                        "--epochs", 100, "--checkpoint-every", 1,
                        env=torture.bad_disk(f"call=sync,path=.ckpt,tell={hung},do=hang"))
        self.addCleanup(process.kill)
        while not hung.exists():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual(self.path.read_bytes(), before)


if __name__ == "__main__":
    torture.main()
