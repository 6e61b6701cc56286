#!/usr/bin/env python3
"""One read that never returns: its sample is named in time, the others come, and the program ends."""
import unittest

import torture


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class HangingRead(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("hanging", count=60)

    RULE = "call=read,path=cat/0003.jpg,do=hang"

    def check_named(self, epochs, done):
        (epoch,) = epochs
        self.assertEqual((epoch["samples"], epoch["errors"]), (59, 1), done.stderr[-2000:])
        (named,) = epoch["error_samples"]
        self.assertIn("cat/0003.jpg", named["path"])
        self.assertEqual(named["status"], "i/o")
        return named["error"]

    def test_a_local_read_is_named_and_the_program_ends(self):
        flags = [self.root, "--dataset-mode", "local", "-b", 8, "-j", 2, "--sample-timeout", 1]
        text = self.check_named(*torture.train(*flags, env=torture.bad_disk(self.RULE)))
        self.assertIn("has not returned within 1 s", text)

    def test_and_fail_ends_the_run(self):
        flags = [self.root, "--dataset-mode", "local", "-b", 8, "--sample-timeout", 1,
                 "--on-error", "fail"]
        _, done = torture.train(*flags, env=torture.bad_disk(self.RULE), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cat/0003.jpg", done.stderr)

    def remote(self, rule, *flags):
        server = torture.bad_server(self.root, rule)
        try:
            return torture.train("--host", server.address, "--dataset-mode", "remote_piloff", "-b", 8,
                                 "--sample-timeout", 1, "--retry-for", 2, *flags, check=False)
        finally:
            server.kill()

    def test_a_read_of_the_server_is_named_and_the_epoch_goes_on(self):
        epochs, done = self.remote(self.RULE, "--on-error", "skip")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_named(epochs, done)
        self.assertIn("asked for again; the first failure is i/o: no answer within 1 s", done.stderr)

    @unittest.skipUnless(torture.IS_LONG, "in the long form")
    def test_or_ends_the_run(self):
        _, done = self.remote(self.RULE, "--on-error", "fail")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("cat/0003.jpg", done.stderr)

    def test_a_disk_that_is_slow_and_not_stuck_loses_nothing(self):
        (good,), _ = torture.train(self.root, "--dataset-mode", "local", "-b", 8)
        epochs, done = self.remote("call=read,path=cat/0003.jpg,most=1,do=delay:1500000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((epochs[0]["digest"], epochs[0]["errors"]), (good["digest"], 0))


if __name__ == "__main__":
    torture.main()
