#!/usr/bin/env python3
"""A link that breaks off again and again: remote_auto starts without a probe, and delivers all."""
import unittest

import torture
from chaos_proxy import ChaosProxy

LIMITS = torture.rounds(["50k"], ["50k", "100k", "400k", "1m", "4m", "50k..4m"])
COUNT = torture.rounds(40, 400)


class CutLink(unittest.TestCase):
    def test_remote_auto_finishes_where_the_fixed_modes_do(self):
        root = torture.make_dataset("cut", count=COUNT, size=150)
        flags = ["--epochs", torture.rounds(1, 2), "-b", 16, "--sample-timeout", 5]
        good, _ = torture.train(root, "--dataset-mode", "local", *flags)
        server = torture.Server(root)
        try:
            for limit in LIMITS:
                with self.subTest(limit), ChaosProxy(server.address, f"do=cut,dir=down,after={limit}",
                                                     seed=5) as proxy:
                    epochs, done = torture.train("--host", proxy.address, *flags, "--retry-for", 20)
                    self.assertEqual([(e["digest"], e["errors"]) for e in epochs],
                                     [(e["digest"], 0) for e in good])
                    if limit == "50k":
                        self.assertGreater(epochs[0]["retries"], 0)
                        self.assertIn("the plan begins with a usual link, 1000 Mbit/s", done.stderr)
        finally:
            server.stop()


if __name__ == "__main__":
    torture.main()
