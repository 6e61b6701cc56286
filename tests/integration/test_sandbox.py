#!/usr/bin/env python3
"""offload_server within its sandbox: which threads have it, and that everything works as without:
fetches in each mode, lists that are read again, metrics, its check of itself, control groups, and
what it tells systemd."""
import os
import pathlib
import shutil
import signal
import socket
import unittest
import urllib.request

import programs
from programs import TIMEOUT_S, SynthTest, run

MODES = ("off", "auto", "on")


def has_all():
    """Whether this kernel has what --sandbox on asks for."""
    done = run("offload_server", "--root", "/no/such/root", "--listen",
               f"127.0.0.1:{programs.free_port()}", "--sandbox", "on", code=None)
    return "--sandbox on: this kernel" not in done.stderr


class Server(programs.Server):
    """At a port that --sandbox on can know."""

    def __init__(self, root, *flags, listen=None, env=None):
        super().__init__(root, *flags, listen=listen or f"127.0.0.1:{programs.free_port()}", env=env)

    def threads(self):
        """{thread: {field: value}} of /proc."""
        tasks = pathlib.Path(f"/proc/{self.process.pid}/task")
        return {task.name: dict(line.split(":\t", 1) for line in
                                (task / "status").read_text().splitlines() if ":\t" in line)
                for task in tasks.iterdir()}


class Sandbox(SynthTest):
    SYNTH = ("-n", 24, "--num-val", 0, "--classes", 2)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.modes = [mode for mode in MODES if mode != "on" or has_all()]
        cls.strictest = cls.modes[-1]

    def train(self, address, mode):
        (epoch,), _ = programs.train("--host", address, "--dataset-mode", mode, "--epochs", 1, "-b",
                                     8, "-j", 1, "--retry-for", 5)
        return epoch["digest"]

    def check_itself(self, server):
        """A slow machine may have no answer in time; the sandbox would say so at once."""
        self.assertNotRegex(server.log(), "answer itself.*(denied|permitted)")

    def check_quiet(self, server):
        warnings = [line for line in server.log().splitlines()
                    if " warning: " in line and "runs as root" not in line]
        self.assertEqual(warnings, [])

    def test_every_mode_delivers_the_same(self):
        digests = set()
        for sandbox in self.modes:
            with Server(self.root, "--sandbox", sandbox) as server:
                for mode in ("remote_nooff", "remote_alloff", "remote_auto"):
                    digests.add(self.train(server.listen, mode))
                counters, log = server.finish()
                self.assertEqual(counters["errors"], {}, log)
        self.assertEqual(len(digests), 1)

    def test_several_roots_may_be_read(self):
        other = pathlib.Path(self.folder.name, "elsewhere", "root")
        shutil.copytree(self.root, other)
        roots = [f"a={self.root}", f"b={other}"]
        digests = set()
        for sandbox in self.modes:
            with Server(roots, "--sandbox", sandbox) as server:
                digests.add(self.train(server.listen, "remote_nooff"))
                counters, log = server.finish()
                self.assertEqual((counters["errors"], counters["samples"]), ({}, 48), log)
        self.assertEqual(len(digests), 1)

    def test_all_threads_have_it(self):
        for sandbox in self.modes:
            with Server(self.root, "--sandbox", sandbox, "--metrics", "127.0.0.1:0") as server:
                threads = server.threads()
                said = [line for line in server.log().splitlines() if " sandbox: " in line]
                self.assertEqual(len(said), 0 if sandbox == "off" else 1)
                self.assertGreater(len(threads), 8)
                has_filter = said and "system calls are limited (seccomp)" in said[0]
                for name, status in threads.items():
                    self.assertEqual(status["NoNewPrivs"], "1", name)
                    self.assertEqual(status["Seccomp"], "2" if has_filter else "0", name)

    def test_on_needs_a_port(self):
        done = run("offload_server", "--root", self.root, "--listen", "127.0.0.1:0", "--sandbox", "on",
                   code=2)
        self.assertIn("--sandbox on: ", done.stderr)

    def test_a_list_elsewhere_is_read_again(self):
        root = self.path / "growing"
        shutil.copytree(self.root, root)
        lists = pathlib.Path(self.folder.name, "lists")
        lists.mkdir()
        path = lists / "manifest"

        def index():
            run("offload_dataset", "index", root, "--out", path)

        index()
        with Server(root, "--manifest", path, "--sandbox", self.strictest) as server:
            first = self.train(server.listen, "remote_nooff")
            image = next(root.rglob("*.jpg"))
            shutil.copy(image, image.with_name("one_more.jpg"))
            index()
            server.process.send_signal(signal.SIGHUP)
            while self.train(server.listen, "remote_nooff") == first:
                self.assertIsNone(server.process.poll(), server.log())
            self.check_quiet(server)

    def test_metrics_and_its_check_of_itself(self):
        for listen in (None, f"localhost:{programs.free_port()}", f"[::1]:{programs.free_port()}"):
            port = programs.free_port()
            with Server(self.root, "--metrics", f"127.0.0.1:{port}", "--self-check", "0.2",
                        "--sandbox", self.strictest, listen=listen) as server:
                address = server.listen.replace("localhost", "127.0.0.1")
                self.train(address, "remote_alloff")
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
                    self.assertIn(b"sluice_", page.read())
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz") as page:
                    self.assertEqual(page.status, 200)
                self.train(address, "remote_alloff")
                server.stop()
                self.check_itself(server)

    def test_a_unix_socket(self):
        path = pathlib.Path(self.folder.name, "socket")
        with Server(self.root, "--sandbox", self.strictest, "--self-check", "0.2",
                    listen=f"unix:{path}") as server:
            self.assertTrue(path.is_socket())
            with self.assertRaisesRegex(RuntimeError, "another program listens there already"):
                Server(self.root, listen=f"unix:{path}")
            self.assertTrue(path.is_socket())
            server.stop()
            self.check_itself(server)

    def test_a_unix_socket_that_was_left_behind_is_replaced(self):
        path = pathlib.Path(self.folder.name, "left")
        with Server(self.root, listen=f"unix:{path}") as server:
            server.process.kill()
            server.process.wait()
        self.assertTrue(path.is_socket())
        with Server(self.root, listen=f"unix:{path}") as server:
            server.stop()

    def test_control_groups(self):
        name = f"sluice-test-{os.getpid()}"
        try:
            server = Server(self.root, "--prep-cgroup", name, "--prep-nice", 5, "--prep-cpu-max",
                            "1.5", "--sandbox", self.strictest)
        except RuntimeError as error:
            self.skipTest(str(error))
        with server:
            groups = [pathlib.Path(f"/proc/{server.process.pid}/task/{thread}/cgroup").read_text()
                      for thread in server.threads()]
            self.assertEqual(sum(name in group for group in groups), 2, groups)
            folder = server.log().split("preprocess are in cgroup ")[1].split(" (version")[0]
            self.train(server.listen, "remote_alloff")
            self.assertTrue(pathlib.Path(folder).is_dir())
            server.stop()
            self.assertFalse(pathlib.Path(folder).exists(), server.log())
            self.check_quiet(server)

    def test_systemd_is_told(self):
        for name in (os.path.join(self.folder.name, "notify"), f"@sluice-test-{os.getpid()}"):
            manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            manager.settimeout(TIMEOUT_S)
            manager.bind(name.replace("@", "\0"))
            with manager, Server(self.root, "--sandbox", self.strictest,
                                 env={"NOTIFY_SOCKET": name, "WATCHDOG_USEC": "100000"}) as server:
                heard = [manager.recv(1000).decode() for _ in range(4)]
                self.assertEqual(heard[0], f"READY=1\nSTATUS=listening on {server.listen}")
                self.assertEqual(set(heard[1:]), {"WATCHDOG=1"})
                server.stop()
                while not heard[-1].startswith("STOPPING=1"):
                    heard.append(manager.recv(1000).decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
