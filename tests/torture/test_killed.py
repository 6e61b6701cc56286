#!/usr/bin/env python3
"""A run that is killed at random moments and resumed: the same batches, bit for bit, and no more of
them twice than --checkpoint-every; a run that loses its server stops where it can go on."""
import csv
import os
import random
import signal
import subprocess
import unittest

import torture
from programs import batches_done

SEED = int(os.environ.get("SLUICE_TEST_SEED", random.randrange(1 << 30)))
EPOCHS = torture.rounds(2, 16)
EVERY = 4  # batches; the last of an epoch is one of them
BATCHES = 40  # of an epoch
FLAGS = ["--device", "cpu", "-a", "small_cnn", "--image-size", "16", "--train-threads", "1", "--lr",
         "0.01", "-b", "4", "--repeat", "4", "-p", "1", "--epochs", str(EPOCHS),
         "--checkpoint-every", str(EVERY)]


def start(*flags, **more):
    return subprocess.Popen([str(torture.BIN / "offload_train"), *FLAGS, *map(str, flags)],
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **more)


class Killed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("killed", size=32)
        cls.folder = torture.temporary_folder("killed-checkpoints")
        cls.whole = cls.folder / "whole.ckpt"
        process = start(cls.root, "--dataset-mode", "local", "--checkpoint", cls.whole)
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        if process.returncode == 1 and "SLUICE_ONEDNN" in err:
            raise unittest.SkipTest("this build has no CPU trainer")
        assert process.returncode == 0, err
        assert b'\\"epoch\\":%d,\\"cursor\\":0' % EPOCHS in cls.whole.read_bytes()

    def finish(self, path, *flags):
        """Goes on to the end; the weights are those of the run that nobody disturbed."""
        resume = ["--resume", path] if path.exists() else []
        process = start(*flags, *resume, "--checkpoint", path)
        _, err = process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, 0, err[-2000:])
        self.assertEqual(path.read_bytes(), self.whole.read_bytes())

    def test_kills_at_random_moments(self):
        rng = random.Random(SEED)
        path = self.folder / "killed.ckpt"
        log = self.folder / "batches.csv"
        flags = [self.root, "--dataset-mode", "local", "--checkpoint", path]
        seen = []  # (first batch of a run, last batch that it told of)
        kills = torture.rounds(5, 100)
        for _ in range(kills):
            is_resumed = path.exists()
            process = start(*flags, *(["--resume", path] if is_resumed else []), "--batch-log", log)
            first, last = 0, 0
            wanted = rng.randint(1, torture.rounds(20, 12))
            count = 0
            for line in process.stderr:
                if ": going on at epoch" in line:
                    words = line.replace(",", "").split()
                    first = int(words[words.index("epoch") + 1]) * BATCHES + int(words[-1])
                batch = batches_done(line, BATCHES)
                if batch is not None:
                    last = batch
                    count += 1
                    if count >= wanted:
                        process.send_signal(signal.SIGKILL)  # while the next ones are trained
            process.stderr.close()
            code = process.wait()
            if code == 0:  # it was over before
                break
            self.assertEqual(code, -signal.SIGKILL)
            seen.append((first, last))
        print(f"{len(seen)} kills", end=" ")
        for (_, told), (first, _) in zip(seen, seen[1:]):
            # What was told of and is done again.  The checkpoint comes right after its batch.
            self.assertLessEqual(told - first, EVERY, f"seed {SEED}: {seen}")
        self.finish(path, self.root, "--dataset-mode", "local")
        leftovers = [name for name in os.listdir(self.folder) if ".tmp-" in name]
        self.assertEqual(leftovers, [], f"seed {SEED}")
        momenta = [name for name in os.listdir(self.folder) if name.startswith("killed.ckpt.")]
        self.assertEqual(len(momenta), 1, f"seed {SEED}: {momenta}")

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_every_batch_is_delivered_once(self):
        """The first run's batches and the second's are those of an epoch, by the logs."""
        path = self.folder / "logged.ckpt"
        logs = [self.folder / "first.csv", self.folder / "second.csv"]
        flags = [self.root, "--dataset-mode", "local", "--checkpoint", path, "--batch-log"]
        # Files of the later batches open once it has the signal.  One worker opens them in order:
        # none of an earlier batch waits.
        gate = self.folder / "gate"
        gate.touch()
        process = start(*flags, logs[0], "-j", 1, env=torture.bad_disk(
            f"call=open,path=.jpg,after={BATCHES * 6},if={gate},do=wait"))
        for line in process.stderr:
            if batches_done(line, BATCHES) == BATCHES + 7:
                process.terminate()
                gate.unlink()
                break
        process.communicate(timeout=torture.TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.finish(path, self.root, "--dataset-mode", "local", "--batch-log", logs[1])
        batches = []
        for log in logs:
            with open(log, newline="") as file:
                batches += [int(row["epoch"]) * BATCHES + int(row["batch"])
                            for row in csv.DictReader(file)]
        self.assertEqual(batches, list(range(EPOCHS * BATCHES)))

    @unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
    def test_a_lost_server_leaves_a_checkpoint_of_the_last_whole_batch(self):
        path = self.folder / "lost.ckpt"
        # It never reads the second half of the first epoch: the run cannot end before the kill.
        server = torture.bad_server(self.root, f"call=read,path=.jpg,after={BATCHES * 2},do=hang")
        flags = ["--dataset-mode", "remote_nooff", "--host", server.address, "--retry-for", 1,
                 "--prefetch-bytes", "64k", "--checkpoint-every", "1h"]
        process = start(*flags, "--checkpoint", path)
        err, last = [], 0
        for line in process.stderr:
            err.append(line)
            last = batches_done(line, BATCHES) or last
            if last == 5:
                server.process.kill()
        process.stderr.close()
        self.assertEqual(process.wait(), 1, "".join(err)[-2000:])
        server.close()
        self.assertGreaterEqual(last, 5)
        self.assertLess(last, EPOCHS * BATCHES)
        self.assertIn("tried for 1 s", err[-1])
        server = torture.Server(self.root)
        try:
            process = start("--dataset-mode", "remote_nooff", "--host", server.address, "--resume",
                            path, "--checkpoint", path)
            _, err = process.communicate(timeout=torture.TIMEOUT_S)
        finally:
            server.stop()
        self.assertEqual(process.returncode, 0, err[-2000:])
        self.assertIn(f"going on at epoch {last // BATCHES}, batch {last % BATCHES}", err)
        self.assertEqual(path.read_bytes(), self.whole.read_bytes())


if __name__ == "__main__":
    torture.main()
