#!/usr/bin/env python3
"""A server that is killed again and again: every sample comes, none is blamed, the digest is the
same."""
import random
import subprocess
import threading
import unittest

import torture


READS = 20  # that the first server answers


class KilledAgain:
    """offload_server on one port, killed and started again until it has lived `lives` times; then it
    stays.  The first is killed within a read that hangs, so that a request is lost for certain."""

    def __init__(self, root, port, lives):
        self.reads = torture.temporary_folder("restarts-disk") / "reads"
        self.command = [str(torture.BIN / "offload_server"), "--root", str(root), "--listen",
                        f"127.0.0.1:{port}", "--prep-workers", "2"]
        self.lives = lives
        self.rng = random.Random(7)
        self.over = threading.Event()
        self.process = None
        self.start(torture.bad_disk(f"call=read,path=.jpg,after={READS},do=hang,count={self.reads}"))
        self.thread = threading.Thread(target=self.run)

    def start(self, env=None):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=env)
        if not self.process.stdout.readline().startswith("listening on "):
            raise RuntimeError("offload_server did not start")

    def end(self):
        self.process.kill()
        self.process.communicate()

    def run(self):
        while int.from_bytes(self.reads.read_bytes(), "little") <= READS:
            if self.over.wait(0.01):
                return
        for _ in range(self.lives):
            if self.over.wait(self.rng.uniform(0.02, 0.3)):
                return
            self.end()
            self.start()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.over.set()
        self.thread.join()
        self.end()


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class Restarts(unittest.TestCase):
    def test_no_sample_is_lost_or_blamed(self):
        lives = torture.rounds(6, 20)
        root = torture.make_dataset("restarts", count=120)
        flags = ["-b", 8, "--consume-rate", torture.rounds(80, 25)]
        (good,), _ = torture.train(root, "--dataset-mode", "local", "-b", 8)
        with torture.Port() as port, KilledAgain(root, port, lives):
            (epoch,), done = torture.train("--host", f"127.0.0.1:{port}", "--dataset-mode",
                                           "remote_piloff", "--prefetch-bytes", 65536, *flags)
        self.assertEqual((epoch["digest"], epoch["errors"]), (good["digest"], 0), done.stderr)
        self.assertGreater(epoch["retries"], 0)


if __name__ == "__main__":
    torture.main()
