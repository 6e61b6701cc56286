#!/usr/bin/env python3
"""offload_top: its table, its JSON, and its live view on a terminal, against servers that are there, that go and
that come."""
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import unittest

from programs import BIN, Port, SynthTest, run

T = 120


def top(*flags, **named):
    return run("offload_top", *flags, code=None, **named)


class Live:
    """offload_top with a terminal."""

    def __init__(self, rows, columns, *flags):
        self.text = ""
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen([BIN / "offload_top", *map(str, flags)], stdin=self.slave, stdout=self.slave,
                                        stderr=subprocess.PIPE, text=True,
                                        env={**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern):
        """Reads on until what came since the last call matches."""
        while not re.search(pattern, self.text):
            if not select.select([self.master], [], [], T)[0]:
                raise AssertionError(f"no {pattern!r} in {self.text[-3000:]!r}")
            self.text += os.read(self.master, 65536).decode()
        seen, self.text = self.text, ""
        return seen

    def end(self):
        """Its exit code, and what it said on stderr."""
        while self.process.poll() is None:  # it may wait for room in the terminal
            if select.select([self.master], [], [], 0.05)[0]:
                self.text += os.read(self.master, 65536).decode()
        said = self.process.stderr.read()
        self.process.stderr.close()
        modes = termios.tcgetattr(self.slave)
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode, said, modes


class Top(SynthTest):
    SYNTH = ("-n", 24)

    def train(self, server, *flags):
        """Epochs without an end; returns once the server has sent something."""
        run = subprocess.Popen([BIN / "offload_train", "--host", server.address, "-b", "8", "--device", "none",
                                "--epochs", "1000000", "--no-digest", "-p", "0", "--dataset-mode", "piloff", *flags],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        while True:
            done = top("--json", "--interval", 0.05, server.address, *[f for f in flags if "token" in str(f)])
            seen = json.loads(done.stdout)["servers"][0]
            if seen.get("samples"):
                return

    def test_a_table_and_json_of_what_servers_do(self):
        busy, idle = self.serve(), self.serve()
        with Port() as nobody:
            self.train(busy)
            away = f"127.0.0.1:{nobody}"
            done = top("--once", "--interval", 0.2, busy.address, idle.address, away)
            self.assertEqual(done.returncode, 1, done.stderr)
            lines = done.stdout.splitlines()
            rows = {line.split()[0]: line.split() for line in lines[1:4]}
            head = lines[0].split()
            self.assertEqual(rows[busy.address][1], "ok")
            self.assertEqual(rows[away][1], "away")
            self.assertGreater(float(rows[busy.address][head.index("SAMPLES/S")]), 0)
            self.assertGreater(float(rows[busy.address][head.index("CORES")].split("/")[0]), 0)
            self.assertEqual(rows[busy.address][head.index("CLIENTS")], "1")
            self.assertEqual(rows[idle.address][head.index("SAMPLES/S")], "0")
            self.assertEqual(rows[idle.address][head.index("CLIENTS")], "0")
            self.assertRegex(done.stdout, rf"\n\S+ +127\.0\.0\.1 +- +{re.escape(busy.address)} +1 ")
            self.assertRegex(done.stdout, f"cannot reach {re.escape(away)}: connection refused")

            done = top("--json", "--interval", 0.2, busy.address, away)
            self.assertEqual(done.returncode, 1, done.stderr)
            first, second = json.loads(done.stdout)["servers"]
            self.assertEqual((first["state"], second["state"]), ("ok", "away"))
            self.assertGreater(first["wire_bytes_per_s"], 0)
            self.assertEqual(first["streams"], 1)
            self.assertEqual(first["clients"][0]["samples"], first["samples"])
            self.assertIsNone(first["clients"][0]["token"])
        self.assertEqual(top("--once", "--interval", 0.05, idle.address).returncode, 0)

    def test_a_token_is_shown_by_its_name(self):
        folder = pathlib.Path(self.folder.name)
        token = folder / "token"
        token.write_text("the-secret-of-team-a")
        tokens = folder / "tokens"
        tokens.write_text(json.dumps({"name": "team-a", "sha256": hashlib.sha256(
            token.read_bytes()).hexdigest()}) + "\n")
        tokens.chmod(0o600)
        token.chmod(0o600)
        server = self.serve("--tokens", tokens)
        self.train(server, f"--token-file={token}")
        done = top("--once", "--interval", 0.05, "--token-file", token, server.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, rf"\nteam-a +127\.0\.0\.1 +team-a +{re.escape(server.address)}")
        self.assertNotIn("secret", done.stdout)
        done = top("--once", "--interval", 0.05, server.address)
        self.assertEqual(done.returncode, 1)
        self.assertIn("this server wants a token", done.stdout)
        seen = json.loads(top("--json", "--interval", 0.05, "--token-file", token, server.address).stdout)
        self.assertGreaterEqual(seen["servers"][0]["refused_calls"], 1)

    def test_mistakes_are_usage_errors(self):
        for flags, said in (((), "SERVER"), (("h:0", "--once"), "no server is at port 0"),
                            (("h", "--once", "--ca", "x"), "--ca is for --tls"),
                            (("h",), "no terminal"), (("h", "--once", "--interval", "0"), "--interval")):
            done = top(*flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), flags)
            self.assertIn(said, done.stderr)
        done = top("--once", "--token-file", "/nowhere/token", "h")
        self.assertEqual(done.returncode, 1)
        self.assertIn("/nowhere/token", done.stderr)

    def live(self, rows, columns, *flags):
        done = top("h")
        if "built without ncurses" in done.stderr:
            self.skipTest("built without ncurses")
        return Live(rows, columns, "--interval", 0.1, *flags)

    def test_the_live_view_follows_servers_and_the_terminals_size(self):
        with Port() as port:
            server = self.serve(listen=f"127.0.0.1:{port}")
            view = self.live(12, 140, server.address)
            view.until(r"SERVER.*AGE(?s:.)*ok")
            view.resize(12, 40)
            view.process.send_signal(signal.SIGWINCH)
            shown = view.until(r"SERVER\s+STATE")
            self.assertNotIn("AGE", shown.split("SERVER")[-1])  # cut at 40 columns
            view.resize(12, 150)
            view.process.send_signal(signal.SIGWINCH)
            view.until(r"AGE")
            server.kill()
            view.until(r"away")
            self.serve(listen=f"127.0.0.1:{port}")
            view.until(r"ok")
            os.write(view.master, b"\x1b[B\x1b[A")  # arrows
            os.write(view.master, b"q")
            code, said, modes = view.end()
            self.assertEqual((code, said), (0, ""))
            self.assertTrue(modes[3] & termios.ECHO and modes[3] & termios.ICANON)  # as it was

    def test_an_interrupt_leaves_the_terminal_as_it_was(self):
        server = self.serve()
        view = self.live(10, 120, server.address)
        view.until(r"ok")
        view.process.send_signal(signal.SIGINT)
        code, said, modes = view.end()
        self.assertEqual((code, said), (0, ""))
        self.assertTrue(modes[3] & termios.ECHO and modes[3] & termios.ICANON)

    def test_a_terminal_that_nobody_knows_is_said(self):
        master, slave = pty.openpty()
        done = subprocess.run([BIN / "offload_top", "h"], stdin=slave, stdout=slave, stderr=subprocess.PIPE, text=True,
                              timeout=T, check=False, env={**os.environ, "TERM": "no-such-terminal"})
        os.close(master)
        os.close(slave)
        self.assertIn(done.returncode, (1, 2))
        self.assertRegex(done.stderr, "no-such-terminal|built without ncurses")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
