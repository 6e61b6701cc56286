#!/usr/bin/env python3
"""Reads that never return, or come late: each sample is answered once and in time, the others are
served, the health says so, and the server ends."""
import os
import unittest

import exposition
import torture
from attacked import Attacked
from health import NOT_SERVING, SERVING, Health
from programs import Port

COUNT = 40


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class StuckReads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("stuck", count=COUNT, size=48)

    def serve(self, rule, *flags):
        server = Attacked(self.root, "--grace", 0.2, *flags, env=torture.bad_disk(rule))
        self.addCleanup(server.close)
        return server

    def train(self, server, mode, *flags, **named):
        return torture.train("--host", server.address, "--dataset-mode", mode, "-b", 8,
                             "--epochs", 1, "--sample-timeout", 30, *flags, check=False, **named)

    def num_workers(self, server):
        task = f"/proc/{server.process.pid}/task"
        names = [open(f"{task}/{tid}/comm").read() for tid in os.listdir(task)]
        return sum(name.startswith(("prep-", "io-")) for name in names)

    def test_one_file_hangs_and_the_others_come(self):
        for mode in ("remote_nooff", "remote_piloff")[:torture.rounds(1, 2)]:
            with self.subTest(mode), Port() as port, \
                    self.serve("call=read,path=cat/0003.jpg,do=hang", "--sample-timeout", 0.4,
                               "--metrics", f"127.0.0.1:{port}") as server, \
                    Health(server.address) as health:
                health.wait_for(SERVING)
                before = self.num_workers(server)
                epochs, done = self.train(server, mode, "--retry-for", 1)
                said = done.stderr + str(epochs)
                self.assertIn("cat/0003.jpg", said)
                self.assertRegex(said, "not read within 0.4 s|has not returned")
                for i in range(COUNT // 2):
                    if i != 3:
                        self.assertNotIn(f"cat/{i:04}.jpg", said)
                health.wait_for(NOT_SERVING)
                self.assertRegex(server.log(),
                                 r"a worker \(\w+\) hangs: it has been reading train/cat/0003.jpg")
                # Asked for again and again, it cost one worker.
                self.assertEqual(server.log().count("hangs: it has been"), 1)
                self.assertLessEqual(self.num_workers(server), before + 1)
                self.assertEqual(exposition.get(port, "/healthz")[::2], (503, b"a worker hangs\n"))
                page = exposition.scrape(port)
                for name, value in (("serving", 0), ("hanging_workers", 1),
                                    ("sample_timeouts_total", 1)):
                    self.assertEqual(list(page[f"sluice_{name}"].values().values()), [value], name)

    def test_a_worker_that_comes_back_late_is_dropped_and_all_is_well(self):
        rule = "call=read,path=cat/0003.jpg,do=delay:1200000,most=1"
        with self.serve(rule, "--sample-timeout", 0.5) as server, \
                Health(server.address) as health:
            (epoch,), done = self.train(server, "remote_nooff", "--retry-for", 30)
            self.assertEqual((epoch["samples"], epoch["errors"]), (COUNT, 0), done.stderr)
            health.wait_for(SERVING)
            self.assertIn(NOT_SERVING, health.heard)
            self.assertIn("its result is dropped", server.log())

    def test_all_files_hang(self):
        with self.serve("call=read,path=.jpg,do=hang", "--sample-timeout", 0.3) as server:
            before = self.num_workers(server)
            epochs, done = self.train(server, "remote_piloff", "--retry-for", 0.2)
            said = done.stderr + str(epochs)
            self.assertRegex(said, "not read within 0.3 s|every worker hangs|has not returned")
            self.assertTrue(done.returncode != 0 or epochs[0]["errors"] == COUNT, said)
            self.assertLessEqual(self.num_workers(server), before + 16)


if __name__ == "__main__":
    torture.main()
