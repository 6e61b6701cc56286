"""What the tests of jobs share: the modules of the build, offload_job, a folder for its records.

A test program here is a unittest module that ends with support.main(); exit 77 means skipped, with
the reason on standard output.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import BIN, TIMEOUT_S

SHARE = BIN.parent / "share/sluice"
sys.path.insert(0, str(SHARE))


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def main():
    for module, package in (("yaml", "python3-yaml"), ("jsonschema", "python3-jsonschema")):
        try:
            __import__(module)
        except ImportError:
            skip(f"{package} is missing")
    unittest.main()


def offload_job(*words, code=0, env=None):
    """Its standard output, and standard error if `code` is not 0.  With `code` None it may end with any."""
    done = subprocess.run([sys.executable, BIN / "offload_job", *map(str, words)], capture_output=True, text=True,
                          timeout=TIMEOUT_S, env={**os.environ, **(env or {})}, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{words} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout if code == 0 else done.stderr


class JobTest(unittest.TestCase):
    """Each test has a folder, self.folder, with the jobs' records in its `jobs`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-jobs-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        os.environ["SLUICE_JOBS"] = str(self.folder / "jobs")
        self.addCleanup(os.environ.pop, "SLUICE_JOBS")

    def write(self, text, name="job.yaml"):
        path = self.folder / name
        path.write_text(text)
        return path

    def show(self, id):
        return json.loads(offload_job("show", id, "--json"))
