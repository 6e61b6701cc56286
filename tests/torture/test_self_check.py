#!/usr/bin/env python3
"""A server that nobody can connect to any more ends and says so; one that can go on does."""
import errno
import os
import subprocess
import unittest

import http2
import torture
from attacked import Attacked

DEAF = os.environ.get("SLUICE_DEAF")  # tests/preload/deaf.c, built


@unittest.skipUnless(DEAF, "no deaf was built")
class SelfCheck(unittest.TestCase):
    def start(self, name, error, *flags):
        self.switch = torture.temporary_folder(name + "-switch") / "deaf"
        env = {**os.environ, "LD_PRELOAD": DEAF, "DEAF": str(error), "DEAF_IF": str(self.switch),
               "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}
        return Attacked(torture.make_dataset(name), *flags, env=env)

    def knock(self, server):
        """Connections that find the listener as it is."""
        for _ in range(3):
            http2.Connection(server.address).close()

    def test_a_deaf_server_ends(self):
        # EINVAL is what a listener says that was shut down: gRPC gives it up.
        with self.start("deaf", errno.EINVAL, "--self-check", 0.1) as server:
            self.assertTrue(server.serves())
            self.switch.touch()
            self.knock(server)
            self.assertEqual(server.wait(), 4)
            self.assertIn("(6 of 6): no answer", server.log())
            self.assertIn("nobody can connect to the server any more", server.log())

    def test_errors_of_accept_pass(self):
        errors = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
        for error in torture.rounds(errors[1:3], errors):
            with self.start(f"passes-{error}", error, "--self-check", 0) as server:
                self.switch.touch()
                self.knock(server)
                self.switch.unlink()
                self.assertTrue(server.serves())
                self.assertEqual(server.stop(), 0)

    def test_a_full_server_is_not_deaf(self):
        with self.start("full", 0, "--self-check", 0.1, "--max-connections", 2) as server:
            guests = [http2.Connection(server.address, "127.0.0.2"),
                      http2.Connection(server.address, "127.0.0.3")]
            self.assertTrue(all(guest.is_serving() for guest in guests))
            refused = http2.Connection(server.address, "127.0.0.4")
            refused.wait_for_end()
            with self.assertRaises(subprocess.TimeoutExpired):  # it would end within 0.6 s
                server.process.wait(timeout=1)
            self.assertTrue(guests[1].is_serving())
            self.assertNotIn("does not answer itself", server.log())
            for guest in (refused, *guests):
                guest.close()
            self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    torture.main()
