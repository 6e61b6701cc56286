"""What the tests that start our programs share."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build/dev/bin")).resolve()
TIMEOUT_S = 240  # of what ends by itself: a hang is a failure with a name
BAD_DISK = os.environ.get("SLUICE_BAD_DISK")  # tests/preload/bad_disk.c, built


def bad_disk(*rules):
    """The environment of a program whose disk keeps these rules (tests/preload/bad_disk.c)."""
    return {**os.environ, "LD_PRELOAD": BAD_DISK, "BAD_DISK": ";".join(rules),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def slow_disk(us):
    """The same: reads of files take so much longer."""
    return bad_disk(f"call=read,do=delay:{us}")


def free_port():
    """Free now; Port keeps one."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def run(program, *arguments, code=0, env=None):
    """One of our programs, run to its end; it must end with this code. `env` is added to ours."""
    done = subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, env={**os.environ, **(env or {})})
    if done.returncode != code or "Sanitizer" in done.stderr:
        raise AssertionError(f"{done.args} ended with {done.returncode}:\n{done.stderr[-3000:]}")
    return done


def reports(text):
    """What a program's --json wrote, line by line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def train(*flags, code=0, env=None):
    """offload_train --json without a device: the reports of its epochs, and its log."""
    done = run("offload_train", "--device", "none", "--json", *flags, code=code, env=env)
    return reports(done.stdout), done.stderr


class Server:
    """offload_server over a root, or a list of them, with its log in a file unless `stderr` says
    otherwise; killed where a test leaves it running."""

    def __init__(self, root, *flags, listen="127.0.0.1:0", env=None, stderr=None):
        roots = root if isinstance(root, (list, tuple)) else [root]
        self.listen = listen
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [BIN / "offload_server", *(word for one in roots for word in ("--root", str(one))),
             "--listen", listen, "--prep-workers", "2", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=stderr or self.log_file, text=True,
            env={**os.environ, **(env or {})})
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            _, err = self.process.communicate(timeout=TIMEOUT_S)
            raise RuntimeError(f"offload_server said {line!r} {err or self.log()}")
        self.address = line.split()[-1]

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read()

    def stop(self):
        """Its exit code and its last counters."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode, json.loads(out.splitlines()[-1])

    def kill(self):
        self.process.kill()
        self.process.communicate()

    def finish(self):
        """Its last counters and its log; it must end well."""
        code, counters = self.stop()
        log = self.log()
        if code != 0 or "Sanitizer" in log:
            raise AssertionError(f"offload_server ended with {code}:\n{log}")
        return counters, log

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.returncode is None:
            self.kill()
        self.log_file.close()


class Port:
    """A port of 127.0.0.1 that nobody listens on and nobody else is given: for a server that comes
    and goes.

    It is bound and not listened on; a listener that reuses addresses, too, may have it beside this.
    """

    def __init__(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("127.0.0.1", 0))
        self.number = self.socket.getsockname()[1]

    def __str__(self):
        return str(self.number)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.socket.close()


class Node:
    """offload_server on a port of its own, which dies, stops and comes back as it is told to."""

    def __init__(self, root, *flags):
        self.port = Port()
        self.address = f"127.0.0.1:{self.port}"
        self.argv = [str(BIN / "offload_server"), "--root", str(root), "--listen", self.address,
                     "--prep-workers", "1", "--grpc-workers", "1", "--grace", "1",
                     *map(str, flags)]
        self.process = None
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError(f"offload_server at {self.address} says {line!r}")

    def kill(self):
        """As by a crash, also where it is stopped."""
        self.process.kill()
        self.process.communicate()

    def pause(self):
        """It keeps its connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def restart(self):
        """In order: what it has taken is answered."""
        self.process.terminate()
        self.process.communicate()
        self.start()

    def replace(self):
        """Another process at once, which knows nothing of what this one was asked for."""
        self.kill()
        self.start()

    def close(self):
        if self.process.poll() is None:
            self.kill()
        self.port.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


def split(root, into, num_parts):
    """Copies of the files of a dataset, every class in each part: the folders into/0, into/1, ..."""
    parts = [pathlib.Path(into, str(i)) for i in range(num_parts)]
    files = sorted(path for path in pathlib.Path(root).rglob("*") if path.is_file())
    for i, path in enumerate(files):
        copy = parts[i % num_parts] / path.relative_to(root)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
    return parts


class SynthTest(unittest.TestCase):
    """Tests that share a set of images, made with these flags: cls.root, in the folder cls.folder."""
    SYNTH = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name, "set")
        run("offload_dataset", "synth", cls.root, *cls.SYNTH)

    def serve(self, *flags, root=None, **named):
        """A server of the images, or of another root, that ends with the test."""
        return self.enterContext(Server(root or self.root, *flags, **named))
