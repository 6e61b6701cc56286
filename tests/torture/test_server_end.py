#!/usr/bin/env python3
"""SIGTERM ends the server within --grace and a second, whatever its workers and clients do; the
exit code says whether requests were left without an answer."""
import json
import os
import signal
import subprocess
import time
import unittest

import torture
from attacked import Attacked

GRACE_S = 0.3
# The promise is a second, which the long form looks at.  In the short form other programs may have
# the machine: there TIMEOUT_S tells a hang.
SLACK_S = 1 if torture.IS_LONG else torture.TIMEOUT_S
NEVER_S = 10 * torture.TIMEOUT_S  # what takes so long is seen to be waited for


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class ServerEnd(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("end", count=40, size=48)

    def client(self, server, *flags):
        run = subprocess.Popen(
            [str(torture.BIN / "offload_train"), "--host", server.address, "--json", "--device",
             "none", "--dataset-mode", "remote_piloff", "-b", "8", "--epochs", "100000",
             *map(str, flags)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def end(self, server):
        """Its exit code, its last line and its log."""
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        try:
            out, _ = server.process.communicate(timeout=torture.TIMEOUT_S)
        except subprocess.TimeoutExpired:
            server.process.kill()
            self.fail(f"still there {time.monotonic() - start:.0f} s after SIGTERM")
        took = time.monotonic() - start
        self.assertLess(took, GRACE_S + SLACK_S)
        return server.process.returncode, json.loads(out.splitlines()[-1]), server.log()

    def await_reads(self, server, count):
        """Until the server has so many images open."""
        until = time.monotonic() + torture.TIMEOUT_S
        while self.descriptors(server) < count:
            self.assertLess(time.monotonic(), until, "the server never read")

    def descriptors(self, server):
        count = 0
        folder = f"/proc/{server.process.pid}/fd"
        for name in os.listdir(folder):
            try:
                count += os.readlink(f"{folder}/{name}").endswith(".jpg")
            except FileNotFoundError:
                pass
        return count

    def cut_off(self, rule, *flags):
        server = Attacked(self.root, "--grace", GRACE_S, *flags, env=torture.bad_disk(rule))
        self.addCleanup(server.close)
        self.client(server)
        self.await_reads(server, 2)
        code, stats, log = self.end(server)
        self.assertEqual(code, 3, log)
        self.assertRegex(log, r"\d+ requests were not answered within --grace")
        self.assertIn("uptime_s", stats)

    def test_reads_that_hang(self):
        for _ in range(torture.rounds(3, 50)):
            self.cut_off("call=read,path=.jpg,do=hang")

    def test_work_that_takes_too_long(self):
        for _ in range(torture.rounds(1, 50)):
            self.cut_off(f"call=read,path=.jpg,do=delay:{NEVER_S * 1000000}")

    def test_a_client_that_stands_still(self):
        for _ in range(torture.rounds(1, 50)):
            server = Attacked(self.root, "--grace", GRACE_S)
            self.addCleanup(server.close)
            run = self.client(server)
            run.stdout.readline()  # an epoch
            run.send_signal(signal.SIGSTOP)
            try:
                code, _, log = self.end(server)
            finally:
                run.send_signal(signal.SIGCONT)
            self.assertIn(code, (0, 3), log)

    def test_an_output_that_nobody_reads(self):
        server = Attacked(self.root, "--grace", GRACE_S)
        self.addCleanup(server.close)
        # SIGUSR1 prints a line each time, until the pipe is full.
        for _ in range(200):
            server.process.send_signal(signal.SIGUSR1)
            time.sleep(0.002)
        start = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=torture.TIMEOUT_S)
        self.assertLess(time.monotonic() - start, GRACE_S + SLACK_S)

    def test_all_answered_is_0(self):
        server = Attacked(self.root, "--grace", NEVER_S)
        self.addCleanup(server.close)
        run = self.client(server, "--retry-for", 0.1)
        run.stdout.readline()
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=torture.TIMEOUT_S)
        self.assertEqual(server.process.returncode, 0, server.log())

    def test_a_read_that_hangs_and_was_answered_holds_nothing_up(self):
        server = Attacked(self.root, "--grace", NEVER_S, "--sample-timeout", 0.3,
                          env=torture.bad_disk("call=read,path=cat/0003.jpg,do=hang"))
        self.addCleanup(server.close)
        run = self.client(server, "--epochs", 1, "--retry-for", 1)
        run.wait(timeout=torture.TIMEOUT_S)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=torture.TIMEOUT_S)
        self.assertEqual(server.process.returncode, 0, server.log())
        self.assertIn("threads are still at work", server.log())


if __name__ == "__main__":
    torture.main()
