"""What the tests that start our programs share."""
import json
import os
import pathlib
import re
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
    """One of our programs, run to its end; it must end with this code, or any if that is None.
    `env` is added to ours."""
    done = subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, env={**os.environ, **(env or {})})
    check(done.args, done.returncode, code, done.stderr)
    return done


def check(what, returned, code, log):
    if code not in (None, returned) or "Sanitizer" in log:
        raise AssertionError(f"{what} ended with {returned}:\n{log[-3000:]}")


def reports(text):
    """What a program's --json wrote, line by line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Train:
    """offload_train --json, without a device unless the flags name one, while the test goes on.
    `folder` has another version's programs; `env` is added to ours."""

    def __init__(self, *flags, folder=None, env=None, **options):
        self.process = subprocess.Popen(
            [(folder or BIN) / "offload_train", "--device", "none", "--json", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **(env or {})}, **options)
        self.log = ""

    def lines(self):
        """Those of its log, as they come."""
        for line in self.process.stderr:
            self.log += line
            yield line

    def end(self, code=0):
        """The reports of its epochs, and its log; it must end with this code."""
        out, rest = self.process.communicate(timeout=TIMEOUT_S)
        self.log += rest
        check(self.process.args, self.process.returncode, code, self.log)
        return reports(out), self.log


def train(*flags, code=0, **options):
    """A Train that is run to its end: the reports of its epochs, and its log."""
    return Train(*flags, **options).end(code)


def copy_checkpoint(source, target):
    """Copies a checkpoint: a file, and the one of its momentum beside it."""
    shutil.copy(source, target)
    momentum, = source.parent.glob(source.name + ".momentum-*")
    shutil.copy(momentum, target.parent / (target.name + momentum.name[len(source.name):]))


def progress(line):
    """(batches done, batches of the epoch) by a line of a Train with -p 1, or None."""
    match = re.search(r"\[(\d+)/(\d+)\]", line)
    return match and (int(match[1]), int(match[2]))


def batches_done(line, batches):
    """"train epoch E [N/BATCHES] ...": batches since the run's start, or None."""
    match = re.search(r"epoch (\d+).*?\[(\d+)/", line)
    return match and int(match[1]) * batches + int(match[2])


def text_of(log_file):
    """All that a process has written to this file so far.  It reads by pread, because the file's position is the
    process's too: seek() would make it write over its first lines."""
    return os.pread(log_file.fileno(), os.fstat(log_file.fileno()).st_size, 0).decode(errors="replace")


class Server:
    """offload_server over a root, or a list of them, with its log in a file unless `stderr` says
    otherwise; killed where a test leaves it running.  `folder` has another version's programs."""

    def __init__(self, root, *flags, listen="127.0.0.1:0", folder=None, env=None, stderr=None,
                 **options):
        roots = root if isinstance(root, (list, tuple)) else [root]
        self.listen = listen
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [(folder or BIN) / "offload_server", *(word for one in roots for word in ("--root", str(one))),
             "--listen", listen, "--prep-workers", "2", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=stderr or self.log_file, text=True,
            env={**os.environ, **(env or {})}, **options)
        self.is_told = False
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            _, err = self.process.communicate(timeout=TIMEOUT_S)
            raise RuntimeError(f"offload_server said {line!r} {err or self.log()}")
        self.address = line.split()[-1]

    def log(self):
        return text_of(self.log_file)

    def channel(self):
        """To a stock client."""
        import grpc
        return grpc.insecure_channel(self.address)

    def terminate(self):
        """Once: a second SIGTERM would end it without answering what it took."""
        if not self.is_told:
            self.process.terminate()
        self.is_told = True

    def stop(self, code=0):
        """Its last counters; it must end with this code."""
        self.terminate()
        out, _ = self.process.communicate(timeout=TIMEOUT_S)
        check("offload_server", self.process.returncode, code, self.log())
        return json.loads(out.splitlines()[-1])

    def finish(self):
        """Its last counters and its log."""
        return self.stop(), self.log()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        self.kill()
        for pipe in (self.process.stdout, self.process.stderr, self.log_file):
            if pipe:
                pipe.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class HeardServer(Server):
    """Whose log is read line by line."""

    def __init__(self, root, *flags, **named):
        super().__init__(root, *flags, stderr=subprocess.PIPE, **named)
        self.said = ""

    def await_line(self, *words):
        """The first line from here on that has all the words."""
        for line in self.process.stderr:
            self.said += line
            if all(word in line for word in words):
                return line
        raise AssertionError(f"no line has {words}:\n{self.said}")

    def log(self):
        return self.said

    def stop(self, code=0):
        self.terminate()
        out, rest = self.process.communicate(timeout=TIMEOUT_S)
        self.said += rest
        check("offload_server", self.process.returncode, code, self.said)
        return json.loads(out.splitlines()[-1])


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


class Node(Server):
    """On a port of its own, where it dies, stops and comes back as it is told to."""

    def __init__(self, root, *flags, **named):
        self.port, self.arguments, self.named = Port(), (root, "--prep-workers", 1, "--grpc-workers",
                                                         1, "--grace", 1, *flags), named
        self.start()

    def start(self):
        super().__init__(*self.arguments, listen=f"127.0.0.1:{self.port}", **self.named)

    def pause(self):
        """It keeps its connections and answers nothing."""
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def restart(self):
        """In order: what it has taken is answered."""
        self.terminate()
        self.process.communicate()
        self.start()

    def replace(self):
        """Another process at once, which knows nothing of what this one was asked for."""
        self.kill()
        self.start()

    def close(self):
        super().close()
        self.port.close()


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
    """Tests that share a set of images, made with these flags: cls.root, in the folder
    cls.path."""
    SYNTH = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = pathlib.Path(cls.folder.name)
        cls.root = cls.path / "set"
        run("offload_dataset", "synth", cls.root, *cls.SYNTH)

    def serve(self, *flags, root=None, **named):
        """A server of the images, or of another root, that ends with the test."""
        return self.enterContext(Server(root or self.root, *flags, **named))
