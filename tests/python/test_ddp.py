#!/usr/bin/env python3
"""examples/resnet18_ddp.py: two processes train as one, and go on from a checkpoint."""
import os
import pathlib
import re
import sys

import support

support.require("numpy", "torch", "torchvision")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/resnet18_ddp.py"
RANKS = 2


class DdpTest(support.SetTest):
    def train(self, source, epochs, checkpoint):
        """The losses that are printed, by the number of epochs."""
        printed = support.run_ranks(
            [sys.executable, EXAMPLE, source, "--epochs", str(epochs), "--batch-size", "16",
             "--image-size", "32", "--checkpoint", checkpoint], RANKS, timeout=100)
        self.assertEqual(printed[1][0], "")
        return dict(re.findall(r"^(\d+) epochs: loss (\d+\.\d+)$", printed[0][0], re.MULTILINE))

    def test_a_run_from_a_checkpoint_goes_on_as_if_never_stopped(self):
        whole, parts = (os.path.join(os.path.dirname(self.root), name) for name in "ab")
        expected = self.train(self.root, 2, whole)
        self.assertEqual(list(expected), ["1", "2"])
        self.assertEqual(self.train(self.address, 1, parts), {"1": expected["1"]})
        self.assertEqual(self.train(self.address, 2, parts), {"2": expected["2"]})


if __name__ == "__main__":
    support.main()
