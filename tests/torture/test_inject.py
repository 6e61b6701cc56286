#!/usr/bin/env python3
"""One call fails: the Nth allocation, open, read, readdir, write, fsync, rename, stat or start of a
thread, for every N that a run has (the long form), or some of them (the short form).

What is asked for: the right result, or exit code 1 or 2 and an error that names what failed.
Never a hang, a signal, or a file that was replaced by half of another.

SLUICE_INJECT_ONLY=SCENARIO/CALL[/N] runs that alone.
"""
import os
import random
import re
import shutil
import signal
import subprocess
import unittest

import torture
from torture import BAD_DISK, BIN

INJECT = os.environ.get("SLUICE_INJECT")  # tests/preload/inject.c, built
HANG_S = 30  # no run here takes a second
SAMPLES = torture.rounds(1, None)  # of the calls of each kind; None: all
ONLY = os.environ.get("SLUICE_INJECT_ONLY", "").split("/")

# What fails, and what the line about it has to say.
CALLS = {
    "alloc": ("", r"memory"),
    "thread": ("", r"thread|temporarily unavailable"),
    "open": ("emfile", r"Too many open files|cannot open|open"),
    "read": ("eio", r"Input/output error|read"),
    "readdir": ("eio", r"Input/output error|read"),
    "write": ("enospc", r"No space left|writ"),
    "sync": ("eio", r"Input/output error|sync"),
    "rename": ("eio", r"Input/output error|rename|replace"),
    "stat": ("eio", r"Input/output error|stat"),
}


def environment(call, nth, folder):
    """Of a program whose nth such call fails."""
    if call in ("alloc", "thread"):
        return {**os.environ, "LD_PRELOAD": INJECT,
                "INJECT": f"call={call},nth={nth},file={folder / 'count'}"}
    return torture.bad_disk(f"call={call},path={folder},after={nth - 1},most=1,do={CALLS[call][0]}")


def count_calls(scenario, calls):
    """How often a good run makes each of these calls."""
    counts = {}
    files = [call for call in calls if call not in ("alloc", "thread")]
    for call in ("alloc", "thread"):
        scenario.prepare()
        rules = [f"call={file},path={scenario.folder},after=1000000000,do=eio,"
                 f"count={scenario.folder}/count.{file}" for file in files if call == "alloc"]
        env = {**torture.bad_disk(*rules), **environment(call, 0, scenario.folder),
               "LD_PRELOAD": f"{INJECT}:{BAD_DISK}"}
        done = scenario.run(env)
        scenario.expect(done.code == 0, f"exit code {done.code} without a failure: {done.err}")
        for name in (call, *files):
            path = scenario.folder / ("count" if name == call else f"count.{name}")
            if path.exists():
                counts[name] = int.from_bytes(path.read_bytes(), "little")
                path.unlink()
    return counts


class Done:
    """How a program ended."""

    def __init__(self, process, code, out, err):
        self.process, self.code, self.out, self.err = process, code, out, err


def run(argv, env=None):
    process = subprocess.Popen([str(word) for word in argv], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=env)
    try:
        out, err = process.communicate(timeout=HANG_S)
    except subprocess.TimeoutExpired:
        process.kill()
        _, err = process.communicate()
        raise AssertionError(f"hangs: {argv}; {err[-2000:]}") from None
    return Done(process, process.returncode, out, err)


class Scenario:
    """Something that runs in a folder of its own, made anew for each run by prepare()."""

    def __init__(self, folder, images):
        self.folder, self.images = folder, images

    def prepare(self):
        if self.folder.exists():
            shutil.rmtree(self.folder)
        shutil.copytree(self.images, self.folder)

    def check_good(self, done):
        """Raises unless the result of an exit with 0 is right."""

    def check_left(self):
        """Raises unless the files that a run leaves are whole, whatever its exit code."""

    def expect(self, is_true, what):
        if not is_true:
            raise AssertionError(what)


class Index(Scenario):
    """`offload_dataset index` over a manifest and an index of JPEGs that are already there."""
    files = ("sluice-manifest.tsv", "sluice-jpeg-index.bin")

    def __init__(self, folder, images):
        super().__init__(folder, images)
        self.extra = ["--jpeg-index"]
        self.prepare()
        self.old = self.contents()
        self.run(None)
        self.new = self.contents()

    def prepare(self):
        super().prepare()
        argv = [BIN / "offload_dataset", "index", "--jpeg-index", self.folder]
        hidden = next(self.folder.glob("train/*/*.jpg"))
        hidden.rename(self.folder / "hidden")
        self.expect(run(argv).code == 0, "no index to begin with")
        (self.folder / "hidden").rename(hidden)

    def contents(self):
        """The manifest; of the index of JPEGs, whether it is whole (it holds times of files)."""
        return (self.folder / self.files[0]).read_bytes()

    def run(self, env):
        return run([BIN / "offload_dataset", "index", *self.extra, "-j", 2, self.folder], env)

    def unread(self):
        """What the manifest lists without a hash, if it is the new one in all other rows."""
        rows, new = self.contents().splitlines(), self.new.splitlines()
        differ = [row for row, other in zip(rows[:-1], new) if row != other]
        is_new = len(rows) == len(new) and all(row.split(b"\t")[6:7] == [b"-"] for row in differ)
        return [row.split(b"\t")[0].decode() for row in differ] if is_new else []

    def check_good(self, done):
        unread = self.unread()
        self.expect(self.contents() == self.new or len(unread) == 1, "another manifest")
        for path in unread:
            self.expect(path in done.err, f"no word of {path}: {done.err}")
        verify = run([BIN / "offload_dataset", "verify", "--jpeg-index", self.folder])
        self.expect(verify.code == 0, f"verify: {verify.err}")

    def check_left(self):
        self.expect(self.contents() in (self.old, self.new) or self.unread(), "the manifest is torn")
        names = {path.name for path in self.folder.iterdir()}
        left = names - {"train", "val", "count", "sluice-manifest.bin", "sluice-manifest.progress",
                        *self.files}
        self.expect(not left, f"left behind: {left}")


class Local(Scenario):
    """An epoch of files of this machine."""
    flags = ()

    def __init__(self, folder, images):
        super().__init__(folder, images)
        self.prepare()
        self.digest = torture.reports(self.run(None).out)[0]["digest"]

    def prepare(self):
        if not self.folder.exists():
            super().prepare()
            run([BIN / "offload_dataset", "index", "--jpeg-index", self.folder])

    def run(self, env):
        return run([BIN / "offload_train", self.folder, "--json", "--device", "none", "-j", 2,
                    "-b", 4, "--dataset-mode", "local", "--retry-for", 5, "--batch-log",
                    self.folder / "log.csv", *self.flags], env)

    def check_good(self, done):
        epochs = torture.reports(done.out)
        if not epochs and "no memory for the report" in done.err:
            return
        self.expect(len(epochs) == 1, f"epochs: {epochs}")
        self.expect((epochs[0]["digest"], epochs[0]["errors"]) == (self.digest, 0),
                    f"another digest, {epochs[0]['errors']} errors: {epochs[0]['error_samples']}")


class Client(Local):
    """An epoch through a good server."""

    def __init__(self, folder, images):
        Scenario(folder, images).prepare()
        self.server = torture.Server(folder)
        super().__init__(folder, images)

    def run(self, env):
        return run([BIN / "offload_train", "--json", "--device", "none", "-j", 2, "-b", 4,
                    "--host", self.server.address, "--dataset-mode", "remote_auto",
                    "--retry-for", 5], env)

    def close(self):
        self.server.stop()


class ServerUnderTest(Local):
    """A server from its start to its end, with an epoch of a good client."""

    def run(self, env):
        process = subprocess.Popen(
            [str(BIN / "offload_server"), "--root", str(self.folder), "--listen", "127.0.0.1:0",
             "--prep-workers", "2", "--grpc-workers", "2", "--metrics", "127.0.0.1:0"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        try:
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                out, err = process.communicate(timeout=HANG_S)
                return Done(process, process.returncode, out, err)
            client = run([BIN / "offload_train", "--json", "--device", "none", "-j", 2, "-b", 4,
                          "--host", line.split()[-1], "--dataset-mode", "remote_alloff",
                          "--retry-for", 5])
            self.expect(client.code == 0, f"the client: {client.code} {client.err}")
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=HANG_S)
            return Done(process, process.returncode, client.out, err)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"hangs: the server; {process.communicate()[1][-2000:]}") from None
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()


class Checkpoint(Scenario):
    """A run that goes on at a checkpoint, and replaces it."""

    def __init__(self, folder, images):
        super().__init__(folder, images)
        super().prepare()
        first = self.train(1, None)
        self.expect(first.code == 0, first.err)
        self.file = folder / "run.ckpt"
        self.old = self.pair()
        last = self.train(2, None, "--resume", self.file)
        self.expect(last.code == 0, last.err)
        self.new = self.pair()
        self.expect(len(self.old) == 2 and len(self.new) == 2, f"not a pair: {list(self.old)}, {list(self.new)}")
        self.report = torture.reports(last.out)[-1]

    def pair(self):
        """The checkpoint and the momentum beside it."""
        return {path.name: path.read_bytes() for path in self.folder.glob("run.ckpt*")}

    def prepare(self):
        for path in self.folder.glob("run.ckpt*"):
            path.unlink()
        for name, content in self.old.items():
            (self.folder / name).write_bytes(content)

    def train(self, epochs, env, *flags):
        return run([BIN / "offload_train", self.folder, "--json", "--device", "cpu", "-j", 2,
                    "-b", 4, "-a", "small_cnn", "--image-size", 32, "--dataset-mode", "local",
                    "--retry-for", 5, "--no-val", "--epochs", epochs, "--checkpoint",
                    self.folder / "run.ckpt", *flags],
                   {**(env or os.environ), "OMP_NUM_THREADS": "1"})

    def run(self, env):
        return self.train(2, env, "--resume", self.file)

    def check_good(self, done):
        reports = torture.reports(done.out)
        for report in reports:
            self.check_report(report)
        self.expect(reports or "no memory for the report" in done.err, "no report")
        self.expect(self.file.read_bytes() == self.new["run.ckpt"], "the last checkpoint is not the run's")

    def check_report(self, report):
        for key in ("epoch", "digest", "loss", "errors"):
            self.expect(report[key] == self.report[key], f"{key}: {report}")

    def check_left(self):
        pair = self.pair()
        whole = [one for one in (self.old, self.new) if one.items() <= pair.items()]
        self.expect(whole, f"the checkpoint is torn: {list(pair)}")
        # The other one's momentum may stay where it could not be removed.
        left = {path.name for path in self.folder.iterdir()} - {"train", "val", "count", *self.old, *self.new}
        self.expect(not left, f"left behind: {left}")


SCENARIOS = {"index": (Index, "alloc thread open read readdir write sync rename stat"),
             "local": (Local, "alloc thread open read readdir write stat"),
             "client": (Client, "alloc thread"),
             "server": (ServerUnderTest, "alloc thread open read readdir stat"),
             "checkpoint": (Checkpoint, "alloc thread open read readdir write sync rename stat")}


@unittest.skipUnless(BAD_DISK and INJECT, "no bad_disk and inject were built")
@unittest.skipIf(os.environ.get("SLUICE_SANITIZE"), "a sanitizer has malloc for itself")
class Inject(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.images = torture.make_dataset("images", count=8, size=64)

    def torture(self, name):
        kind, calls = SCENARIOS[name]
        if ONLY[0] not in ("", name):
            self.skipTest("not asked for")
        folder = torture.temporary_folder(name)
        folder.rmdir()
        scenario = kind(folder, self.images)
        self.addCleanup(getattr(scenario, "close", lambda: None))
        rng = random.Random(torture.SEED)
        totals = count_calls(scenario, calls.split())
        for call in calls.split():
            if len(ONLY) > 1 and ONLY[1] != call:
                continue
            total = totals[call]
            which = range(1, total + 1)
            if SAMPLES and total > SAMPLES:
                which = sorted(rng.sample(which, SAMPLES))
            if len(ONLY) > 2:
                which = [int(ONLY[2])]
            for nth in which:
                with self.subTest(f"{name}/{call}/{nth} of {total}"):
                    self.one(scenario, call, nth)
            print(f"{name}/{call}: {len(which)} of {total}", flush=True)

    def one(self, scenario, call, nth):
        scenario.prepare()
        done = scenario.run(environment(call, nth, scenario.folder))
        scenario.check_left()
        if done.code == 0:
            return scenario.check_good(done)
        said = [line for line in done.err.splitlines() if "error: " in line][-1:] or [""]
        self.assertIn(done.code, (1, 2), f"exit code {done.code}: {done.err[-3000:]}")
        self.assertTrue(re.search(CALLS[call][1], said[0]), f"does not say what failed: {done.err}")
        return None


for _name in SCENARIOS:
    setattr(Inject, f"test_{_name}", lambda self, name=_name: self.torture(name))


if __name__ == "__main__":
    torture.main()
