#!/usr/bin/env python3
"""Training on the CPU as a whole program: the schedules of the learning rate, also through a resumed run."""
import math
import pathlib
import re
import unittest

from programs import SynthTest, Train, reports, run

EPOCHS, BATCHES = 3, 4
LR, MIN_LR, WARMUP_LR = 0.02, 0.001, 0.0001
COSINE = ("--epochs", EPOCHS, "--lr", LR, "--lr-schedule", "cosine", "--min-lr", MIN_LR, "--warmup-epochs", 1,
          "--warmup-lr", WARMUP_LR)


class TrainingTest(SynthTest):
    SYNTH = ("-n", 25, "--num-val", 2, "--classes", 2)

    def flags(self, *flags):
        return (self.root, "--device", "cpu", "-a", "small_cnn", "--image-size", 32, "-b", 7, "--train-threads", 1,
                "--no-val", *flags)

    def learn(self, name, *flags, code=0):
        """Reports, the log, and the checkpoint's path."""
        checkpoint = pathlib.Path(self.folder.name, name)
        done = run("offload_train", *self.flags("--json", "--checkpoint", checkpoint, *flags), code=None)
        if done.returncode == 1 and "SLUICE_ONEDNN" in done.stderr:
            self.skipTest("this build has no CPU trainer")
        self.assertEqual(done.returncode, code, done.stderr[-3000:])
        return reports(done.stdout), done.stderr, checkpoint

    def test_a_resumed_run_goes_on_with_the_schedule(self):
        whole_reports, _, whole = self.learn("whole", *COSINE)
        last = (BATCHES - 1) / BATCHES
        wanted = [WARMUP_LR + (LR - WARMUP_LR) * last]
        wanted += [MIN_LR + (LR - MIN_LR) * (1 + math.cos(math.pi * (epoch + last) / EPOCHS)) / 2
                   for epoch in (1, 2)]
        for report, lr in zip(whole_reports, wanted, strict=True):
            self.assertAlmostEqual(report["lr"], lr, delta=1e-12)

        killed = pathlib.Path(self.folder.name, "killed")
        train = Train(*self.flags("--checkpoint", killed, "--checkpoint-every", 1, "-p", 1, *COSINE))
        for line in train.lines():
            if "train epoch 1 [2/" in line:
                train.process.kill()
        train.end(code=None)
        rest, _, _ = self.learn("killed", "--resume", killed, *COSINE)
        self.assertGreater(len(rest), 0)
        self.assertEqual([report["lr"] for report in rest],
                         [report["lr"] for report in whole_reports[-len(rest):]])
        self.assertEqual(whole.read_bytes(), killed.read_bytes())

        (_, constant, _), _, _ = self.learn("constant", "--epochs", EPOCHS, "--lr", LR, "--lr-schedule", "constant")
        self.assertEqual(constant["lr"], LR)
        self.assertNotEqual(constant["loss"], whole_reports[1]["loss"])

    def test_a_loss_that_is_not_finite_ends_the_run_and_leaves_the_checkpoint(self):
        _, _, checkpoint = self.learn("run", "--epochs", 1, "--lr", LR)
        saved = checkpoint.read_bytes()
        # Each step multiplies the weights by -1e12, and they are infinite after the fourth, an epoch's last.
        _, log, _ = self.learn("run", "--resume", checkpoint, "--epochs", 3, "--lr", "1e6", "--weight-decay", "1e6",
                               code=1)
        self.assertEqual(checkpoint.read_bytes(), saved)
        self.assertRegex(log.splitlines()[-1], r"is not finite after [5678] steps; it begins in "
                         r"(parameter|the output of|the gradient of) (features|classifier)\S*: is lr 1e\+06 too high\?")
        self.learn("run", "--resume", checkpoint, "--epochs", 2, "--lr", LR)

    def test_the_memory_is_told_before_the_first_step(self):
        _, log, _ = self.learn("memory", "--epochs", 1, "-p", 1)
        total, parameters = map(float, re.search(
            r"small_cnn in fp32 on cpu: ([0-9.]+) MB of memory \(parameters ([0-9.]+), ", log).groups())
        self.assertGreater(total, parameters)
        self.assertGreater(parameters, 0)
        self.assertLess(log.index(" MB of memory"), log.index("train epoch 0 [1/"))


if __name__ == "__main__":
    unittest.main()
