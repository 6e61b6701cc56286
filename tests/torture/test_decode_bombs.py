#!/usr/bin/env python3
"""Small files that ask a decoder for much work or memory: each is refused, or costs what an image of
its size may cost, and the samples beside it are delivered.  bombs.py makes them."""
import os
import resource
import signal
import subprocess
import time
import unittest

import bombs
import torture

# Seconds of CPU time for one decode (SLUICE_DECODE_CPU_NS), four times over: the rest of the program
# takes some, and the machine may be slow.
CPU_S = 4 * 2
MIB = 1 << 20
FLAGS = ("--epochs", 1, "-b", 8, "--on-error", "skip", "--max-errors", 10)
PLAIN = ((1, 1),) * 3

# Refused by their headers and markers.
COUNTED = {
    "scans_2000.jpg": lambda: bombs.progressive(8000, 5000, 2000),
    "scans_empty.jpg": lambda: bombs.progressive(13000, 13000, 600, PLAIN, work=False),
    "scans_sequential.jpg": lambda: bombs.baseline(13000, 13000, PLAIN, scans=200),
}
# Refused by the clock: 4 GB of zeros behind 100 pixels.
TIMED = {"zeros.png": lambda: bombs.png(10, 10, more_mib=4000)}
# Whole images, if odd ones.
TAKEN = {
    "scans_25.jpg": lambda: bombs.progressive(4000, 2500, 25),
    "thin.jpg": lambda: bombs.progressive(1, 65000, 10, ((4, 4), (4, 4), (1, 1), (4, 4))),
    "empty.jpg": lambda: bombs.baseline(3000, 3000, ((1, 1),) * 4),
    "text.png": lambda: bombs.png(10, 10, extra=bombs.text_bombs(50 * MIB)),
    "deep.png": lambda: bombs.png(2500, 2500, 16, 6, interlaced=True),
}
LARGEST = 4000 * 2500
BYTES_PER_PIXEL = 12  # image/codecs/codec.h promises 11


def dataset(name, *kinds):
    """A folder of 40 good images and these bombs; also how many bombs there are."""
    root = torture.make_dataset(name)
    files = {file: make for kind in kinds for file, make in kind.items()}
    for file, make in files.items():
        (root / "train" / "dog" / file).write_bytes(make())
    return root, len(files)


def cpu_s(pid):
    """Seconds of CPU time that a process has taken."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def spent_s():
    """Seconds of CPU time of all programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def peak_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


class DecodeBombs(unittest.TestCase):
    def check_epoch(self, epoch, done, num_good, refused):
        self.assertEqual((epoch["samples"], epoch["errors"]), (num_good, len(refused)))
        for file in refused:
            self.assertIn(file, done.stderr)

    def test_a_bomb_is_refused_in_local_mode(self):
        root, num_bombs = dataset("local", COUNTED, TIMED)
        before = spent_s()
        (epoch,), done = torture.train(root, "--dataset-mode", "local", *FLAGS)
        spent = spent_s() - before
        self.check_epoch(epoch, done, 40, {**COUNTED, **TIMED})
        self.assertIn("2000 scans, more than the limit", done.stderr)
        self.assertIn("took more than 2 s of CPU time to decode", done.stderr)
        self.assertLess(spent, CPU_S * num_bombs)

    def run_server(self, mode, refused, *kinds):
        root, num_bombs = dataset(f"{mode}_{len(refused)}", *kinds)
        server = torture.Server(root)
        try:
            (epoch,), done = torture.train("--host", server.address, "--dataset-mode", mode,
                                           *FLAGS)
            self.check_epoch(epoch, done, 40 + num_bombs - len(refused), refused)
            self.assertLess(cpu_s(server.process.pid), CPU_S * num_bombs)
            # Two workers, each with one of the largest images.  Sanitizers have memory of their own.
            if not os.environ.get("SLUICE_SANITIZE"):
                self.assertLess(peak_bytes(server.process.pid),
                                2 * BYTES_PER_PIXEL * LARGEST + 200 * MIB)
        finally:
            server.stop()

    def test_a_bomb_is_refused_by_the_server(self):
        self.run_server("remote_alloff", COUNTED, COUNTED)

    def test_a_bomb_is_not_cut_by_the_server(self):
        """remote_auto asks for cut files, and takes the file where there is none."""
        self.run_server("remote_auto", COUNTED, COUNTED)

    def test_an_odd_image_costs_what_its_size_may_cost(self):
        self.run_server("remote_alloff", {}, TAKEN)

    def test_the_server_ends_while_bombs_are_decoded(self):
        """SIGTERM while both workers decode, with more bombs behind."""
        root = torture.make_dataset("grace", count=2)
        for i in range(torture.rounds(4, 40)):
            (root / "train" / "dog" / f"bomb_{i}.jpg").write_bytes(
                bombs.progressive(8000, 5000, 2000 if i >= 2 else 25))
        before = spent_s()
        server = torture.Server(root, "--grace", "2")
        client = subprocess.Popen(
            [str(torture.BIN / "offload_train"), "--host", server.address, "--dataset-mode",
             "remote_alloff", "--epochs", "1", "--device", "none", "--retry-for", "1"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + torture.TIMEOUT_S
            while cpu_s(server.process.pid) < 0.2 and time.monotonic() < deadline:
                time.sleep(0.01)
            server.process.send_signal(signal.SIGTERM)
            server.process.wait(timeout=torture.TIMEOUT_S)
        finally:
            client.kill()
            client.wait()
            if server.process.poll() is None:
                server.process.kill()
                server.process.wait()
            server.close()
        # Two decodes, and no more were begun.
        self.assertLess(spent_s() - before, 2 * CPU_S)


if __name__ == "__main__":
    torture.main()
