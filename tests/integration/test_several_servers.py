#!/usr/bin/env python3
"""Several servers for one loader: replicas and shards give the batches of one server, whatever
becomes of some of them meanwhile, and a shard that is gone ends a run where it can go on."""
import contextlib
import unittest

import programs

EPOCHS = 2
BATCHES = 12  # of an epoch
FLAGS = ["-b", 8, "-j", 1, "--image-size", 48, "--seed", 3, "-p", 1]


def hosts(*shards):
    """The flags for shards, each a list of nodes."""
    return [word for nodes in shards
            for word in ("--host", ",".join(node.address for node in nodes))]


class SeveralServers(programs.SynthTest):
    SYNTH = ("-n", BATCHES * 8, "--num-val", 16, "--classes", 5)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.digests = [epoch["digest"] for epoch in cls.train(cls.root, "--dataset-mode", "local")]
        cls.halves = programs.split(cls.root, cls.path / "halves", 2)

    @classmethod
    def train(cls, *flags, code=0, events=None):
        """The epochs of a run; events: {batches since the start: what happens then}."""
        run = programs.Train(*FLAGS, "--epochs", EPOCHS, *flags)
        events = dict(events or {})
        for line in run.lines():
            done = programs.batches_done(line, BATCHES)
            for batch in [batch for batch in events if done is not None and done >= batch]:
                events.pop(batch)()
        epochs, cls.log = run.end(code)
        if events:
            raise AssertionError(f"{flags}: left {list(events)}\n{cls.log[-3000:]}")
        return epochs

    def check(self, epochs):
        self.assertEqual([epoch["digest"] for epoch in epochs], self.digests, self.log[-3000:])
        self.assertEqual([epoch["errors"] for epoch in epochs], [0] * EPOCHS)

    def test_the_same_batches_however_spread(self):
        with contextlib.ExitStack() as stack:
            whole = [stack.enter_context(programs.Node(self.root)) for _ in range(2)]
            first = [stack.enter_context(programs.Node(self.halves[0])) for _ in range(2)]
            second = [stack.enter_context(programs.Node(self.halves[1])) for _ in range(2)]
            for mode in ("remote_nooff", "remote_alloff", "remote_auto"):
                for spread in (hosts(whole), hosts(first[:1], second[:1]),
                               [*hosts(second, first), "--hedge"]):
                    with self.subTest(mode=mode, spread=spread):
                        self.check(self.train("--dataset-mode", mode, *spread))
            config = self.path / "shards.conf"
            config.write_text(f"host = {first[0].address}\nhost = {second[0].address}\n"
                              "dataset-mode = remote_piloff\n")
            self.check(self.train("--config", config))
            self.check(self.train("--dataset-mode", "remote_nooff", "--host",
                                  f"dns:localhost:{whole[0].port}"))

    def test_replicas_that_die_hang_and_come_back(self):
        """One is killed, one stops answering, all are restarted one after the other."""
        with contextlib.ExitStack() as stack:
            nodes = [stack.enter_context(programs.Node(self.root)) for _ in range(3)]
            self.check(self.train(
                "--dataset-mode", "remote_piloff", *hosts(nodes), "--prefetch-bytes", "64k",
                "--consume-rate", 100,
                events={2: nodes[0].kill, 5: nodes[1].pause, 8: nodes[0].start,
                        10: nodes[1].go_on, 13: nodes[0].restart, 15: nodes[1].restart,
                        18: nodes[2].restart}))

    def test_a_shard_that_is_gone_ends_the_run_where_it_can_go_on(self):
        path = self.path / "lost.ckpt"
        with programs.Node(self.halves[0]) as first, programs.Node(self.halves[1]) as second, \
                programs.Node(self.halves[1]) as third, programs.Node(self.root) as whole:
            cpu = ["--device", "cpu", "-a", "small_cnn", "--train-threads", 1, "--no-val",
                   "--image-size", 16]
            flags = [*cpu, "--dataset-mode", "remote_nooff", "--prefetch-bytes", "64k",
                     "--checkpoint", path]
            try:
                self.train(*flags, *hosts([first], [second, third]), "--retry-for", 1, code=1,
                           events={3: second.kill, BATCHES + 4: third.kill})
            except AssertionError as error:
                if "SLUICE_ONEDNN" in str(error):
                    self.skipTest("this build has no CPU trainer")
                raise
            self.assertIn(second.address, self.log)
            self.assertIn("tried for 1 s", self.log)
            self.assertTrue(path.exists())
            # On one server, with what is left of the second epoch.
            kept = self.path / "kept.ckpt"
            programs.copy_checkpoint(path, kept)
            epoch, = self.train(*flags, *hosts([whole]), "--resume", path)
            self.assertIn("going on at epoch 1, batch", self.log)
            rest, = self.train(*cpu, self.root, "--dataset-mode", "local", "--resume", kept)
            self.assertEqual((epoch["samples"], epoch["digest"]),
                             (rest["samples"], rest["digest"]))
            self.assertLess(epoch["samples"], BATCHES * 8)

    def test_what_does_not_fit_is_said(self):
        with programs.Node(self.root) as whole, programs.Node(self.halves[0]) as half:
            self.train(*hosts([whole, half]), code=1)
            self.assertIn("are shards, each with a --host", self.log)
            self.train(*hosts([whole], [half]), code=1)
            self.assertIn("replicas: --host A,B", self.log)
            self.assertIn(whole.address, self.log)
            self.assertIn(half.address, self.log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
