#!/usr/bin/env python3
"""Several roots as one dataset: a folder, tars and a web server's folder give one digest from one
server in each mode, as from their folders here, and so do mixes of them; the list is read again;
and a root that is gone takes no other with it."""
import http.server
import pathlib
import shutil
import signal
import threading
import unittest

import programs
from programs import HeardServer, run

MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")
MIXES = ("a=0.7,b=1.5", "b=2,c=0.25", "a=0,c=3")
NUM = {"a": 30, "b": 21, "c": 16}  # of train


def train(*flags, epochs=1):
    """Digest, samples and errors of each epoch."""
    reports, _ = programs.train("-b", 8, "-p", 0, "--image-size", 48, "--seed", 3, "--epochs", epochs,
                                *flags)
    return [(r["digest"], r["samples"], r["errors"]) for r in reports]


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *unused):
        pass


class RootsTest(programs.SynthTest):
    SYNTH = ("-n", NUM["a"], "--num-val", 6, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.path = pathlib.Path(cls.folder.name)
        cls.folders = {"a": cls.root, "b": cls.path / "tars", "c": cls.path / "web"}
        plain = cls.path / "plain"
        run("offload_dataset", "synth", plain, "-n", NUM["b"], "--num-val", 3, "--classes", 4,
            "--seed", 1)
        run("offload_dataset", "pack", "--shard-bytes", "500kB", plain, cls.folders["b"])
        run("offload_dataset", "index", "--jpeg-index", cls.folders["b"])
        run("offload_dataset", "synth", cls.folders["c"], "-n", NUM["c"], "--num-val", 2,
            "--classes", 2, "--seed", 2)
        files = sorted(path for path in cls.folders["c"].rglob("*") if path.is_file())
        (cls.folders["c"] / "list.txt").write_text("".join(
            f"{path.relative_to(cls.folders['c'])} {path.stat().st_size} -\n" for path in files))

        class Files(Handler):
            def __init__(handler, *args):
                super().__init__(*args, directory=str(cls.folders["c"]))

        web = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
        web.daemon_threads = True
        threading.Thread(target=web.serve_forever, daemon=True).start()
        cls.addClassCleanup(web.server_close)
        cls.addClassCleanup(web.shutdown)
        cls.local = [f"{name}={path}" for name, path in cls.folders.items()]
        cls.served = [f"c=http://127.0.0.1:{web.server_port}/list.txt", cls.local[1], cls.local[0]]

    def test_one_digest_from_the_server_in_each_mode_and_from_the_folders(self):
        expected = train(*self.local)
        self.assertEqual(expected[0][1:], (sum(NUM.values()), 0))
        profile = self.path / "profile"
        profile.mkdir()
        self.assertEqual(train(*self.local, "--profiling", "--write-profile-folder", profile),
                         expected)
        planned = ["--profile-folder", profile, "--net-bw", "100", "--remote-cpus", "2"]
        with HeardServer(self.served) as server:
            for mode in MODES:
                more = planned if mode in ("remote_sophon", "remote_auto") else []
                with self.subTest(mode=mode):
                    self.assertEqual(
                        train("--dataset-mode", mode, "--host", server.address, *more), expected)
            stats = server.stop()
        self.assertEqual(stats["errors"], {})
        self.assertGreater(stats["jpeg_index"]["hits"], 0)  # of the tars
        self.assertEqual(stats["jpeg_index"]["stale"], 0)

    def test_mixes_are_the_same_everywhere(self):
        digests = set()
        with HeardServer(self.served) as server:
            for mix in MIXES:
                weights = {name: float(text) for name, text in
                           (item.split("=") for item in mix.split(","))}
                expected = train(*self.local, "--mix", mix, epochs=3)
                self.assertEqual(
                    {epoch[1:] for epoch in expected},
                    {(sum(int(NUM[name] * weights.get(name, 1) + 0.5) for name in NUM), 0)})
                digests.update(epoch[0] for epoch in expected)
                for mode in ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto"):
                    with self.subTest(mix=mix, mode=mode):
                        self.assertEqual(train("--dataset-mode", mode, "--host", server.address,
                                               "--mix", mix, epochs=3), expected)
        self.assertEqual(len(digests), 3 * len(MIXES))

    def test_all_lists_are_read_again(self):
        copy = self.path / "copy"
        shutil.copytree(self.root, copy)
        with HeardServer([f"x={copy}", *self.served]) as server:
            shutil.copy(copy / "train/class000/00000000.jpg", copy / "train/class000/new.jpg")
            server.process.send_signal(signal.SIGHUP)
            server.await_line(f"read again: {sum(NUM.values()) + 11 + 37} samples")
            self.assertEqual(
                train("--dataset-mode", "remote_nooff", "--host", server.address),
                train(f"x={copy}", *self.local))

    def test_a_root_that_is_gone_takes_no_other_with_it(self):
        copy, away = self.path / "lent", self.path / "away"
        shutil.copytree(self.root, copy)
        expected = train(f"x={copy}", *self.local, "--mix", "x=0")
        flags = ("--dataset-mode", "remote_nooff", "--mix", "x=0")
        with HeardServer([f"x={copy}", *self.served]) as server:
            copy.rename(away)
            server.await_line(f"root {copy}: ", "health is NOT_SERVING")
            self.assertEqual(train("--host", server.address, *flags), expected)
            away.rename(copy)
            server.await_line("the root x is there again")
            self.assertEqual(train("--host", server.address, *flags), expected)

    def test_what_is_wrong_is_said(self):
        for words, roots in (
                ("of several roots each has a name", [self.root, self.local[0]]),
                ("two roots are called a", [self.local[0], self.local[0]]),
                ("nothing follows the '='", ["a="])):
            flags = [word for root in roots for word in ("--root", root)]
            self.assertIn(words, run("offload_server", *flags, code=2).stderr)
        done = run("offload_server", "--root", self.local[0], "--root", "b=/no/such/folder",
                   "--listen", "127.0.0.1:0", code=1)
        self.assertIn("/no/such/folder", done.stderr)
        self.assertIn("no path of the dataset begins with z/", run(
            "offload_train", "--device", "none", *self.local, "--mix", "z=2", code=1).stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
