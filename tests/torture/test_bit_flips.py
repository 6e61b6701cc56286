"""Bits that flip on the link: every epoch's digest is the one of a clean link, nothing is lost, and
what arrived damaged is counted."""
import unittest

import torture
from chaos_proxy import ChaosProxy

# Flipped bits per byte: some 10 an epoch. A sample takes 10 kB, 150 kB or 600 kB.
RATES = {"remote_nooff": 1e-5, "remote_piloff": 1e-6}
if torture.IS_LONG:
    RATES |= {"remote_alloff": 3e-7, "remote_auto": 1e-6}


class BitFlips(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = torture.make_dataset("bit_flips", count=60, size=160)
        cls.server = torture.Server(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    @staticmethod
    def train(address, mode):
        return torture.train("--host", address, "--dataset-mode", mode, "-b", 8, "--epochs", 2,
                             "--retry-for", 30)

    def check(self, *rules, mode, seed):
        """A run through a proxy with these rules; damaged replies and lost streams, counted."""
        clean, _ = self.train(self.server.address, mode)
        with ChaosProxy(self.server.address, *rules, seed=seed) as proxy:
            epochs, done = self.train(proxy.address, mode)
        self.assertEqual([e["digest"] for e in epochs], [e["digest"] for e in clean],
                         f"seed {seed}: {done.stderr[-2000:]}")
        self.assertEqual([e["samples"] for e in epochs], [60, 60])
        self.assertEqual([e["errors"] for e in epochs], [0, 0])
        return (sum(e["hash_errors"] for e in epochs), sum(e["retries"] for e in epochs))

    def test_replies(self):
        damaged = 0
        for mode, rate in RATES.items():
            for seed in range(torture.rounds(2, 50)):
                damaged += self.check(f"do=flip,dir=down,rate={rate}", mode=mode, seed=seed)[0]
        self.assertGreater(damaged, 0)

    def test_requests(self):
        broken = 0
        for seed in range(torture.rounds(2, 50)):
            broken += sum(self.check("do=flip,dir=up,rate=5e-4", mode="remote_nooff", seed=seed))
        self.assertGreater(broken, 0)


if __name__ == "__main__":
    torture.main()
