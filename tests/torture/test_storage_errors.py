#!/usr/bin/env python3
"""A disk or a system that says no for a while: every sample comes in the end, and the digest is the
same.  One that says no for ever: the samples are named after --retry-for, and nothing is silent."""
import unittest

import torture


@unittest.skipUnless(torture.BAD_DISK, "no bad_disk was built")
class StorageErrors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("errors", count=200)
        (good,), _ = torture.train(cls.root, "--dataset-mode", "local", "-b", 16)
        cls.digest = good["digest"]

    def remote(self, rule, *flags, mode="remote_nooff"):
        server = torture.bad_server(self.root, rule)
        try:
            return torture.train("--host", server.address, "--dataset-mode", mode, "-b", 16, *flags)
        finally:
            server.stop()

    def local(self, rule, *flags):
        return torture.train(self.root, "--dataset-mode", "local", "-b", 16, *flags,
                             env=torture.bad_disk(rule))

    def check_whole(self, epochs, done):
        self.assertEqual((epochs[0]["digest"], epochs[0]["errors"], epochs[0]["samples"]),
                         (self.digest, 0, 200), done.stderr[-2000:])
        self.assertIn("asked for again", done.stderr)

    EIO = "call=read,path=.jpg,every=10,do=eio"
    EMFILE = "call=open,path=.jpg,after=50,most=74,do=emfile"

    def test_a_server_with_eio_on_every_tenth_read(self):
        for mode in torture.rounds(["remote_piloff"],
                                   ["remote_nooff", "remote_alloff", "remote_piloff"]):
            self.check_whole(*self.remote(self.EIO, mode=mode))

    def test_a_server_without_descriptors_for_a_while(self):
        self.check_whole(*self.remote(self.EMFILE))

    def test_eio_on_every_tenth_local_read(self):
        self.check_whole(*self.local(self.EIO))

    def test_no_local_descriptors_for_a_while(self):
        self.check_whole(*self.local(self.EMFILE))

    def test_a_file_that_is_never_read_is_named_after_the_deadline(self):
        rule = "call=read,path=cat/0003.jpg,do=eio"
        for run in (self.remote, self.local):
            (epoch,), done = run(rule, "--retry-for", 1, "--on-error", "skip")
            self.assertEqual((epoch["samples"], epoch["errors"]), (199, 1))
            (named,) = epoch["error_samples"]
            self.assertIn("cat/0003.jpg", named["path"])
            self.assertEqual(named["status"], "i/o")
            self.assertIn("asked for again", done.stderr)


if __name__ == "__main__":
    torture.main()
