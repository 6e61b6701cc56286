#!/usr/bin/env python3
"""What the trainer shows: a live line on a terminal, plain lines elsewhere, a summary of each epoch,
and a server that is lost and comes back."""
import codecs
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from programs import BIN, Node, SynthTest, run as run_program

TIMEOUT_S = 120
UTF8 = {"LC_ALL": "C.UTF-8", "TERM": "xterm"}


class Screen:
    """As much of a terminal as our lines need: \\r, \\n and "erase to the end of the line"."""

    def __init__(self, columns):
        self.columns, self.lines, self.line, self.column = columns, [], "", 0
        self.statuses = []  # what stood on the last line, at each change
        self.widest = 0
        self.rest = ""

    def put(self, text):
        text = self.rest + text
        self.rest = ""
        while text:
            if text.startswith("\x1b"):
                if len(text) < 3:
                    self.rest = text
                    return
                if not text.startswith("\x1b[K"):
                    raise AssertionError(f"an escape that is none of ours: {text[:10]!r}")
                self.line = self.line[:self.column]
                self.statuses.append(self.line)
                text = text[3:]
                continue
            char, text = text[0], text[1:]
            if char == "\r":
                self.column = 0
            elif char == "\n":
                self.lines.append(self.line)
                self.line, self.column = "", 0
            else:
                self.line = self.line[:self.column] + char + self.line[self.column + 1:]
                self.column += 1
                self.widest = max(self.widest, self.column)


class OnTerminal:
    """offload_train, with a terminal as its stdout and stderr."""

    def __init__(self, columns, *flags, env=UTF8):
        self.screen, self.raw = Screen(columns), ""
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.master = master
        self.process = subprocess.Popen(
            [str(part) for part in (BIN / "offload_train", "--device", "none", *flags)],
            stdout=slave, stderr=slave, stdin=subprocess.DEVNULL, env={**os.environ, **env})
        os.close(slave)

    def read(self):
        """More of the output; False: it has ended."""
        if not select.select([self.master], [], [], TIMEOUT_S)[0]:
            raise AssertionError(f"nothing more came after {self.raw[-2000:]!r}")
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        text = self.decoder.decode(data)
        self.raw += text
        self.screen.put(text)
        return bool(data)

    def until(self, pattern):
        """Reads until something that is on the screen, or was, matches."""
        seen = 0
        while True:
            found = re.search(pattern, self.raw[seen:])
            if found:
                return found
            if not self.read():
                raise AssertionError(f"no {pattern!r} in {self.raw[-3000:]!r}")

    def end(self):
        while self.read():
            pass
        self.process.wait(TIMEOUT_S)
        os.close(self.master)
        return self.process.returncode

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.end()


class TerminalTest(SynthTest):
    SYNTH = ("-n", "60", "--num-val", "12", "--classes", "3")

    def local(self, *flags):
        return (self.root, "--dataset-mode", "local", "--image-size", 32, "-b", 4, *flags)

    def check_lines(self, screen, num_epochs):
        """Whole lines only: of the log, or of a summary."""
        summaries = [i for i, line in enumerate(screen.lines) if line.startswith("epoch ")]
        self.assertEqual(len(summaries), num_epochs, screen.lines)
        for i in summaries:
            self.assertRegex(screen.lines[i], r"^epoch \d+.*: \d+ samples in .*, limited by \w")
            self.assertRegex(screen.lines[i + 1], r"^   .*digest [0-9a-f]{32}$")
            self.assertLessEqual(max(len(line) for line in screen.lines[i:i + 2]), 80)
        for i, line in enumerate(screen.lines):
            if i not in summaries and i - 1 not in summaries:
                self.assertRegex(line, r"^\d\d:\d\d:\d\d (info|warning): ")

    def test_a_live_line_fits_its_terminal_and_goes_at_the_end(self):
        for columns in (120, 80, 60, 30):
            with self.subTest(columns=columns):
                run = OnTerminal(columns, *self.local("--consume-rate", 100))
                self.assertEqual(run.end(), 0, run.raw)
                shown = [line for line in run.screen.statuses if line.startswith("epoch 0")]
                self.assertTrue(any(re.search(r"\d+%", line) for line in shown), run.raw)
                self.assertTrue(any(re.search(r"\d/s|samples/s", line) for line in shown) or
                                columns == 30, shown)
                self.assertLess(max(len(line) for line in shown), columns)
                if columns >= 60:
                    self.assertTrue(any("━" in line for line in shown), shown)
                if columns >= 80:
                    self.assertTrue(any(re.search("(limited by|limit) (trainer|compute CPU|disk)",
                                                  line) for line in shown), shown)
                self.assertNotRegex(run.raw, r"\binf\b|\bnan\b|Mbit/s")  # there is no network
                self.assertEqual(run.screen.line, "")
                self.check_lines(run.screen, 1)

    def test_lines_of_the_log_do_not_tear_it(self):
        run = OnTerminal(80, *self.local("--consume-rate", 150, "-p", 1, "--epochs", 2))
        self.assertEqual(run.end(), 0, run.raw)
        progress = [line for line in run.screen.lines if "train epoch" in line]
        self.assertEqual(len(progress), 30, run.screen.lines)  # -p 1: one for each batch
        self.check_lines(run.screen, 2)

    def test_ascii_where_the_locale_is_no_utf8(self):
        run = OnTerminal(80, *self.local("--consume-rate", 150), env={**UTF8, "LC_ALL": "C"})
        self.assertEqual(run.end(), 0, run.raw)
        self.assertTrue(run.raw.isascii(), run.raw)
        self.assertTrue(any("[=" in line for line in run.screen.statuses), run.screen.statuses)

    def test_no_escapes_where_they_are_not_wanted(self):
        for flags, env in (((), {**UTF8, "TERM": "dumb"}), (("-p", "0"), UTF8),
                           (("--log-level", "warn"), UTF8), (("--log-format", "json"), UTF8)):
            with self.subTest(flags=flags, env=env):
                run = OnTerminal(80, *self.local("--consume-rate", 300, *flags), env=env)
                self.assertEqual(run.end(), 0, run.raw)
                self.assertNotIn("\x1b", run.raw)

    def test_elsewhere_a_plain_line_every_few_seconds(self):
        begin = time.monotonic()
        done = run_program("offload_train", "--device", "none", *self.local("--consume-rate", 10))  # 6 s
        self.assertNotIn("\x1b", done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if "samples/s" in line]
        self.assertGreaterEqual(len(lines), 1, done.stderr)
        self.assertLessEqual(5 * len(lines), time.monotonic() - begin, done.stderr)
        self.assertRegex(lines[0], r"info: epoch 0: \d+ of 60 samples, [\d.]+ samples/s, "
                                   r"0:\d\d left, limited by trainer, raw 100%$")
        summary = done.stdout.splitlines()
        self.assertEqual(len(summary), 2, done.stdout)
        self.assertLessEqual(max(len(line) for line in summary), 80)
        self.assertRegex(summary[0], "^epoch 0 local: 60 samples in .*, limited by trainer$")

    def test_a_server_lost_and_back_is_told_of_once_though_nobody_waits(self):
        with Node(self.root) as server:
            # Everything of an epoch is read ahead, so the trainer is the limit, and nobody waits.
            run = OnTerminal(100, "--host", server.address, "--dataset-mode", "remote_nooff",
                             "--image-size", 32, "-b", 4, "--no-val", "--repeat", 50,
                             "--consume-rate", 20)
            try:
                run.until(r"\d+%.*limit\w* (by )?trainer")
                server.kill()
                run.until(r"server lost \d+ s")
                server.start()
                run.until(r"is back after")
                seen = len(run.screen.statuses)
                while len(run.screen.statuses) < seen + 3:
                    run.read()
                self.assertNotIn("lost", run.screen.statuses[-1])
                self.assertEqual(run.stop(), 128 + signal.SIGTERM, run.raw)
            finally:
                run.process.kill()
            log = [line for line in run.screen.lines if re.match(r"\d\d:\d\d:\d\d ", line)]
            lost = [line for line in log if f"lost {server.address}: " in line]
            back = [line for line in log if f"{server.address} is back after " in line]
            self.assertEqual((len(lost), len(back)), (1, 1), log)
            self.assertIn("warning: ", lost[0])
            self.assertIn("trying for up to 60 s", lost[0])
            self.assertRegex(back[0], r"is back after [\d.]+ s$")

    def test_a_profile_says_which_part_it_is_in(self):
        # So that each part takes longer than it takes to draw it.
        server = self.serve("--link-limit", "40mbit")
        run = OnTerminal(100, "--host", server.address, "--image-size", 128, "-b", 16, "--no-val",
                         "--profiling", "--profile-samples", 5, "--write-profile-folder",
                         self.path / "profile")
        try:
            self.assertEqual(run.end(), 0, run.raw)
        finally:
            run.process.kill()
        parts = [re.search(r"part (\d+) of (\d+) \((.*?)\).* \d+:\d\d left", line)
                 for line in run.screen.statuses]
        parts = [part.groups() for part in parts if part]
        self.assertTrue(parts, run.raw)
        self.assertEqual(len({part[1] for part in parts}), 1)
        self.assertGreater(len({part[0] for part in parts}), 3)
        self.assertIn("JPEG crops", {part[2] for part in parts})
        self.assertLessEqual(max(int(part[0]) for part in parts), int(parts[0][1]))


if __name__ == "__main__":
    if not os.path.exists("/dev/ptmx"):
        print("SKIPPED: there is no pseudo terminal")
        sys.exit(77)
    unittest.main(verbosity=2)
