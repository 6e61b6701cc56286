#!/usr/bin/env python3
"""examples/resnet18_ddp.py: two processes train as one, and go on from a checkpoint."""
import os
import pathlib
import re
import socket
import subprocess
import sys

import support

support.require("numpy", "torch", "torchvision")

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/resnet18_ddp.py"
RANKS = 2


class DdpTest(support.SetTest):
    def train(self, source, epochs, checkpoint):
        """The losses that are printed, by the number of epochs.  The environment is torchrun's; the
        torchrun of Debian 12 does not start with its Python."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
               "WORLD_SIZE": str(RANKS), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        processes = [
            subprocess.Popen([sys.executable, EXAMPLE, source, "--epochs", str(epochs),
                              "--batch-size", "16", "--image-size", "32", "--checkpoint",
                              checkpoint],
                             env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in range(RANKS)]
        try:
            printed = [process.communicate(timeout=100) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        self.assertEqual([process.returncode for process in processes], [0] * RANKS,
                         "".join(errors for _, errors in printed))
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
