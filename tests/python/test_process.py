#!/usr/bin/env python3
"""What the package does to the process that it lives in: log lines are records of logging, and
signals, environment, limits, malloc and standard output stay as they were."""
import os
import subprocess
import sys
import textwrap
import unittest

import support

support.require("numpy")

HEAD = """
import logging, os, sys
import numpy, sluice, sluice.numpy
ROOT, ADDRESS = sys.argv[1:]

def epoch(source=ROOT, **options):
    with sluice.numpy.Loader(source, 8, pipeline={pipeline!r}, on_error="skip",
                             **options) as loader:
        for _ in loader:
            pass
"""


class ProcessTest(support.CorruptSetTest):
    """Each test runs a program of its own, which has said and handed on all when it has ended."""

    def run_program(self, code, **env):
        done = subprocess.run(
            [sys.executable, "-c", HEAD.format(pipeline=support.PIPELINE) + textwrap.dedent(code),
             self.root, self.address],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=200, check=False,
            env={**os.environ, **env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def assert_warns_once(self, text):
        self.assertEqual(text.count("\n"), 1, text)
        self.assertRegex(text, rf"^sample \d+ \({self.corrupt}\) is corrupt")


class LogTest(ProcessTest):
    def test_warnings_show_without_any_setup(self):
        done = self.run_program("epoch()")
        self.assert_warns_once(done.stderr)
        self.assertEqual(done.stdout, "")

    def test_lines_are_records_of_the_logger_sluice(self):
        done = self.run_program("""
            logging.basicConfig(level=logging.INFO, format="%(name)s|%(levelname)s|%(message)s")
            with sluice.Server(ROOT) as server:
                epoch(server.address, mode="remote_nooff")
        """)
        lines = [line.split("|") for line in done.stderr.splitlines()]
        self.assertEqual({name for name, _, _ in lines}, {"sluice"}, done.stderr)
        self.assertIn(["WARNING", True], [[level, self.corrupt in text] for _, level, text in lines])
        self.assertEqual(lines[-1][1:], ["INFO", "stopping: answering what was accepted"])

    def test_a_level_says_which_lines_are_written(self):
        code = """
            logging.basicConfig(level=logging.DEBUG, format="%(levelname)s")
            sluice.set_log_level(sluice.LOG_{level})
            epoch(ADDRESS, mode="remote_auto")
        """
        levels = [set(self.run_program(code.format(level=level)).stderr.split())
                  for level in ("DEBUG", "INFO", "WARN", "ERROR")]
        self.assertEqual(levels, [{"DEBUG", "INFO", "WARNING"}, {"INFO", "WARNING"}, {"WARNING"},
                                  set()])

    def test_a_handler_may_raise_and_may_use_the_library(self):
        done = self.run_program("""
            class Handler(logging.Handler):
                def emit(self, record):
                    with sluice.numpy.Loader(ROOT, 4) as loader:
                        print(loader.path(0), record.levelname)

            def refuse(record):
                if record.levelno >= logging.WARNING:
                    raise ZeroDivisionError("of a filter")
                return True

            logger = logging.getLogger("sluice")
            logger.addHandler(Handler())
            logger.addFilter(refuse)
            logger.setLevel(logging.INFO)
            epoch(ADDRESS, mode="remote_auto")
        """)
        self.assertIn("ZeroDivisionError: of a filter", done.stderr)
        self.assertIn("train/class000/00000000.jpg INFO", done.stdout)

    def test_a_fork_before_the_first_use_has_its_own_lines(self):
        done = self.run_program("""
            child = os.fork()
            if child == 0:
                epoch()
                sys.exit(3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        """)
        self.assert_warns_once(done.stderr)

    @unittest.skipIf("thread" in os.environ.get("SLUICE_SANITIZE", ""),
                     "ThreadSanitizer ends a child of fork that starts a thread")
    def test_a_fork_after_the_first_use_is_refused_and_ends(self):
        # A child of fork has what its parent's threads hold and not these threads, which
        # LeakSanitizer takes for leaks.
        done = self.run_program("""
            loader = sluice.numpy.Loader(ADDRESS, 8, on_error="skip")
            for _ in range(20):
                child = os.fork()
                if child == 0:
                    try:
                        epoch()
                    except sluice.InvalidError as error:
                        assert "forked" in str(error), error
                        sys.exit(3)
                    sys.exit(4)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
            for _ in loader:
                pass
        """, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
        self.assert_warns_once(done.stderr)


class HostTest(ProcessTest):
    USE = """
        epoch()
        epoch(ADDRESS, mode="remote_auto")
        epoch(ADDRESS, mode="remote_alloff")
        with sluice.Server(ROOT) as server:
            epoch(server.address, mode="remote_nooff")
    """

    def run_use(self, before, after):
        return self.run_program("\n".join(map(textwrap.dedent, (before, self.USE, after))))

    def test_signals_environment_and_limits_stay(self):
        done = self.run_use("""
            import ctypes, locale, resource, threading
            thread = threading.Thread()  # libc has a handler of its own from the first on
            thread.start()
            thread.join()

            def snapshot():
                with open("/proc/self/status") as file:
                    state = [line for line in file if line.startswith("Sig") and
                             not line.startswith("SigQ")]
                entries = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
                i = 0
                while entries[i] is not None:
                    state.append(entries[i])
                    i += 1
                state += [resource.getrlimit(getattr(resource, name))
                          for name in dir(resource) if name.startswith("RLIMIT_")]
                umask = os.umask(0)
                os.umask(umask)
                priority = os.getpriority(os.PRIO_PROCESS, 0)
                return state + [umask, priority, os.getcwd(), locale.setlocale(locale.LC_ALL),
                                sorted(os.sched_getaffinity(0))]

            before = snapshot()
            assert len(before) > 20 and snapshot() == before
        """, """
            for was, now in zip(before, snapshot()):
                assert was == now, (was, now)
            assert snapshot() == before
        """)
        self.assertEqual(done.stdout, "")

    @unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "malloc is the sanitizer's")
    def test_malloc_is_not_tuned(self):
        self.run_use("", """
            import ctypes

            class Info(ctypes.Structure):
                _fields_ = [(name, ctypes.c_size_t) for name in
                            "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks "
                            "keepcost".split()]

            libc = ctypes.CDLL(None)
            libc.mallinfo2.restype = Info
            libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
            mapped = libc.mallinfo2().hblks
            assert libc.malloc(20 << 20)
            assert libc.mallinfo2().hblks == mapped + 1  # above the threshold that glibc has
        """)

    def test_threads_end_with_their_loader(self):
        self.run_program("""
            import threading
            import time

            other = threading.Thread(target=int)  # ThreadSanitizer's own comes with the first
            other.start()
            other.join()

            def names():
                found = {}
                for thread in os.listdir("/proc/self/task"):
                    try:
                        with open(f"/proc/self/task/{thread}/comm") as file:
                            found[thread] = file.read().strip()
                    except OSError:
                        pass  # it has ended
                return found

            ends = time.monotonic() + 10  # the kernel takes it off the list a bit later
            while str(other.native_id) in names() and time.monotonic() < ends:
                pass
            before = names()
            loader = sluice.numpy.Loader(ROOT, 8, on_error="skip")
            next(iter(loader))
            assert len(names()) > len(before) + 2, names()
            loader.close()
            ends = time.monotonic() + 10  # as above
            while len(names()) > len(before) + 1 and time.monotonic() < ends:
                pass
            assert len(names()) == len(before) + 1, (before, names())  # that of the log lines
        """)


if __name__ == "__main__":
    support.main()
