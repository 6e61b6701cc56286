#!/usr/bin/env python3
"""offload_server --isolate-decoders: the same batches as without; and decoders that crash, hang, are
killed, take memory, lie or reach for files and sockets cost no more than their sample."""
import json
import os
import pathlib
import re
import shutil
import signal
import unittest
import urllib.request

import programs
from programs import TIMEOUT_S, SynthTest, Train, run

BAD_DECODER = os.environ.get("SLUICE_BAD_DECODER")  # tests/preload/bad_decoder.c, built
SANITIZE = os.environ.get("SLUICE_SANITIZE", "")
NUM_TRAIN = 32


def mark(path, deed):
    """The same picture with a comment (tests/preload/bad_decoder.c)."""
    content = path.read_bytes()
    words = b"sluice-test-decoder:" + deed.encode()
    assert content[:2] == b"\xff\xd8"
    path.write_bytes(b"\xff\xd8\xff\xfe" + (len(words) + 2).to_bytes(2, "big") + words +
                     content[2:])


def bad_decoder():
    return {"LD_PRELOAD": BAD_DECODER,
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


class Server(programs.Server):
    """With metrics."""

    def __init__(self, root, *flags, env=None):
        self.metrics = programs.free_port()
        super().__init__(root, "--metrics", f"127.0.0.1:{self.metrics}", *flags, env=env)

    def series(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics}/metrics") as page:
            return {name: float(value) for name, value in
                    (line.rsplit(" ", 1) for line in page.read().decode().splitlines()
                     if line.startswith("sluice_decoder"))}

    def ends(self, cause):
        return self.series()[f'sluice_decoder_ends_total{{cause="{cause}"}}']

    def children(self, pid, name):
        found = []
        for status in pathlib.Path("/proc").glob("[0-9]*/status"):
            try:
                text = status.read_text()
            except OSError:
                continue
            if f"\nPPid:\t{pid}\n" in text and text.startswith(f"Name:\t{name}\n"):
                found.append(int(status.parent.name))
        return found

    def decoders(self):
        forks = self.children(self.process.pid, "decoder-forks")
        assert len(forks) == 1, forks
        return self.children(forks[0], "decoder")


class IsolatedDecoders(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 0, "--classes", 2)

    def marked(self, deed):
        """A copy of the set in which one file asks for a deed, and that file."""
        root = pathlib.Path(self.folder.name, deed)
        shutil.copytree(self.root, root)
        image = sorted(root.rglob("*.jpg"))[5]
        mark(image, deed)
        return root, str(image.relative_to(root))

    def train(self, address, mode, *options):
        (epoch,), log = self.start(address, mode, *options).end()
        return epoch, log

    def start(self, address, mode, *options):
        return Train("--host", address, "--dataset-mode", mode, "--epochs", 1, "-b", 8, "-j", 1,
                     "--image-size", 64, "--retry-for", 60, *options)

    def test_every_mode_delivers_the_same(self):
        indexed = pathlib.Path(self.folder.name, "indexed")
        shutil.copytree(self.root, indexed)
        run("offload_dataset", "index", "--jpeg-index", indexed)
        digests = set()
        for root, flags in ((self.root, ()), (self.root, ("--isolate-decoders",)),
                            (indexed, ("--isolate-decoders",))):
            with Server(root, *flags) as server:
                for mode in ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto"):
                    digests.add(self.train(server.address, mode)[0]["digest"])
                if flags:
                    series = server.series()
                    self.assertEqual(series.pop("sluice_decoders"), 2)
                    self.assertEqual(sum(series.values()), 0)
                else:
                    self.assertEqual(server.series(), {})
                counters, log = server.finish()
                self.assertEqual(counters["errors"], {}, log)
                self.assertEqual(counters["jpeg_index"]["hits"] > 0, root == indexed)
        self.assertEqual(len(digests), 1)

    def test_what_ends_decoders_costs_its_sample(self):
        for deed, words, cause in (("crash", "died of SIGSEGV", "crashed"),
                                   ("open", "died of SIGSYS", "crashed"),
                                   ("lie", "answer cannot be", "bad_answer")):
            if deed == "open" and SANITIZE:  # whose runtime may try, and is told no
                continue
            root, path = self.marked(deed)
            with Server(root, "--isolate-decoders", env=bad_decoder()) as server:
                # As a file it is a sample like others.
                whole, _ = self.train(server.address, "remote_nooff")
                self.assertEqual((whole["samples"], whole["errors"]), (NUM_TRAIN, 0))
                for mode in ("remote_piloff", "remote_alloff"):
                    epoch, err = self.train(server.address, mode, "--on-error", "skip")
                    self.assertEqual((epoch["samples"], epoch["errors"]), (NUM_TRAIN - 1, 1), err)
                    self.assertRegex(err, f"{re.escape(path)}\\) is corrupt: .*(ended at this)")
                    # Once it is known it costs no more of them.
                    self.assertEqual(server.ends(cause), 3, server.log())
                self.assertRegex(server.log(), f"a decoder .* at {re.escape(path)}: .*{words}")
                self.assertEqual(server.stop()["errors"]["corrupt"], 2)

    @unittest.skipIf(SANITIZE, "a sanitizer's shadow is memory, so there is no limit")
    def test_memory_costs_a_detour(self):
        root, _ = self.marked("memory")
        with Server(root) as server:
            expected = self.train(server.address, "remote_piloff")[0]["digest"]
        with Server(root, "--isolate-decoders", "--memory-limit", "256MB",
                    env=bad_decoder()) as server:
            epoch, err = self.train(server.address, "remote_piloff")
            self.assertEqual((epoch["digest"], epoch["errors"]), (expected, 0), err + server.log())
            self.assertEqual(epoch["choices"], {"raw@0": 1, "u8@3": NUM_TRAIN - 1})
            server.stop()

    def check_mid_run(self, number, cause, *options):
        """Decoders get a signal while a trainer is at work: not a sample is lost."""
        with Server(self.root, "--isolate-decoders", *options) as server:
            expected = self.train(server.address, "remote_piloff")[0]["digest"]
            run = self.start(server.address, "remote_piloff", "--epochs", "12")
            self.assertEqual(json.loads(run.process.stdout.readline())["digest"], expected)
            # No sample can be at three deaths, at which it would be to blame.
            for pid in server.decoders():
                os.kill(pid, number)
            epochs, _ = run.end()
            self.assertEqual([epoch["errors"] for epoch in epochs if "epoch" in epoch], [0] * 11)
            again = self.train(server.address, "remote_piloff")[0]
            self.assertEqual((again["digest"], again["errors"]), (expected, 0))
            self.assertGreaterEqual(server.ends(cause), 1, server.log())
            server.stop()

    def test_killed(self):
        self.check_mid_run(signal.SIGKILL, "killed")

    def test_stopped(self):
        self.check_mid_run(signal.SIGSTOP, "hung", "--sample-timeout", "2")

    def test_without_their_starter_the_server_ends_and_nothing_is_lost(self):
        port = programs.Port()
        flags = {"listen": f"127.0.0.1:{port}"}
        with programs.Server(self.root, "--isolate-decoders", **flags) as server:
            expected = self.train(server.address, "remote_piloff")[0]["digest"]
            run = self.start(server.address, "remote_piloff", "--epochs", "12", "--retry-for", "60")
            self.assertEqual(json.loads(run.process.stdout.readline())["digest"], expected)
            os.kill(Server.children(None, server.process.pid, "decoder-forks")[0], signal.SIGKILL)
            self.assertEqual(server.process.wait(TIMEOUT_S), 1, server.log())
            self.assertIn("no decoder can be started any more: the server ends", server.log())
        with programs.Server(self.root, "--isolate-decoders", **flags) as server:
            epochs, _ = run.end()
            self.assertEqual([epoch["errors"] for epoch in epochs if "epoch" in epoch], [0] * 11)
            server.stop()

    def test_it_ends_as_without(self):
        with Server(self.root, "--isolate-decoders") as server:
            processes = server.decoders() + server.children(server.process.pid, "decoder-forks")
            for pid in processes:  # as a terminal or systemd asks all of a group
                os.kill(pid, signal.SIGTERM)
                os.kill(pid, signal.SIGINT)
            self.assertEqual(self.train(server.address, "remote_piloff")[0]["errors"], 0)
            server.stop()
            for pid in processes:
                try:
                    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ")[1][0]
                except OSError:
                    continue
                self.assertIn(state, "ZX")


if __name__ == "__main__":
    unittest.main(verbosity=2)
