#!/usr/bin/env python3
"""A wheel in a fresh virtual environment: its programs, and the same epoch from a folder and a
server, with the standard library alone and with NumPy.

SLUICE_WHEEL names the wheel, as scripts/wheel and scripts/test-wheel do.  Without it the test packs
what was built, without other libraries; pip fetches scikit-build-core for this.
"""
import importlib.util
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

import support

BUILD = support.BIN.parent
PROGRAMS = ("offload_dataset", "offload_profile", "offload_server", "offload_top", "offload_train")
# What every machine has that the wheel may be installed on.
OF_THE_MACHINE = re.compile(
    r"(ld-linux.*|lib(c|m|dl|pthread|rt|resolv|util|nss_.*|gcc_s|stdc\+\+|z))\.so.*")
DIGEST = """
import ctypes, hashlib, sys
from sluice import _sluice
def digest(place):
    loader = _sluice.Loader({**place, "batch-size": "8", "seed": "3", "pipeline": %r})
    loader.open()
    loader.start(epoch=1)
    total, rows = hashlib.sha256(), 0
    while (batch := loader.next()) is not None:
        for array in (batch.pixels, batch.labels, batch.ids):
            total.update(ctypes.string_at(array.address, array.nbytes))
        rows += batch.num_rows
    loader.finish()
    loader.close()
    return f"{rows} {total.hexdigest()}"
""" % support.PIPELINE
OF_A_FOLDER = DIGEST + "print(digest({'dir': sys.argv[1], 'dataset-mode': 'local'}))"
ON_A_STAND_IN = DIGEST + """
import os
os.environ["SLUICE_GPU"] = "host"
print(digest({"dir": sys.argv[1], "dataset-mode": "local", "gpu-decode": "on"}))
"""
OF_AN_ADDRESS = DIGEST + "print(digest({'host': sys.argv[1]}))"
OF_A_SERVER_WITHIN = DIGEST + """
import sluice
with sluice.Server(sys.argv[1]) as server:
    print(digest({"host": server.address}))
"""
OF_NUMPY = """
import hashlib, sys, numpy, sluice, sluice.numpy
total, rows = hashlib.sha256(), 0
with sluice.Server(sys.argv[1]) as server, sluice.numpy.Loader(
        server.address, 8, seed=3, pipeline=%r, sample_ids=True) as loader:
    loader.set_epoch(1)
    for batch in loader:
        for array in batch:
            total.update(numpy.ascontiguousarray(array))
        rows += len(batch[1])
print(rows, total.hexdigest())
""" % support.PIPELINE
OF_A_GPU = """
import sys
from sluice import _sluice
loader = _sluice.Loader({"dir": sys.argv[1], "dataset-mode": "local", "batch-size": "8",
                         "gpu-decode": sys.argv[2]})
try:
    loader.open()
    print(loader.device())
except _sluice.UnsupportedError as error:
    print(error)
"""
LIMITED = """
import socket, sys, sluice
def hears(connection):
    try:
        return connection.recv(1) != b""
    except ConnectionResetError:
        return False
with sluice.Server(sys.argv[1], max_connections=9, max_connections_per_host=2) as server:
    host, port = server.address.rsplit(":", 1)
    connections = [socket.create_connection((host, int(port))) for _ in range(4)]
    print(*map(hears, connections))
"""
MAPPED = """
import json, re
def mapped():
    return set(re.findall(r"/\\S+\\.so\\S*", open("/proc/self/maps").read()))
before = mapped()
import sluice
print(*sorted(mapped() - before), sep="\\n")
"""


def spent_s():
    """Seconds of CPU time of all programs that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def libraries(maps):
    return set(re.findall(r"/\S+\.so\S*", maps))


def clean_environment():
    """As a person has it: nothing points to a build."""
    return {name: value for name, value in os.environ.items()
            if name not in ("PYTHONPATH", "LD_LIBRARY_PATH", "SLUICE_BIN")}


def pack(python, folder):
    """A wheel of what was built; compiling again would take minutes."""
    fetched = subprocess.run([python, "-m", "pip", "install", "-q", "--retries", "1", "--timeout",
                              "15", "--disable-pip-version-check", "scikit-build-core==1.*"],
                             capture_output=True, text=True)
    if fetched.returncode != 0:
        support.skip(f"pip cannot fetch scikit-build-core: {fetched.stderr.strip()[-200:]}")
    subprocess.run(["cmake", "--install", BUILD, "--component", "python", "--strip", "--prefix",
                    folder / "tree"], check=True, capture_output=True)
    subprocess.run([python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation",
                    "--disable-pip-version-check", "--wheel-dir", folder,
                    os.environ["SLUICE_SOURCE"], "--config-settings=wheel.cmake=false",
                    "--config-settings=wheel.platlib=true",
                    f"--config-settings=wheel.packages={folder}/tree/sluice"], check=True)
    return next(folder.glob("*.whl"))


class WheelTest(support.SetTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        top = pathlib.Path(folder.name).resolve()
        cls.venv = top / "venv"
        cls.python = cls.venv / "bin/python"
        # NumPy may be the machine's; the wheel's own folder stands before it.
        subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", cls.venv],
                       check=True)
        cls.is_whole = "SLUICE_WHEEL" in os.environ
        wheel = (pathlib.Path(os.environ["SLUICE_WHEEL"]).resolve() if cls.is_whole
                 else pack(cls.python, top))
        # With NumPy if its wheel lies beside this one.
        extra = "[numpy]" if any(wheel.parent.glob("numpy-*.whl")) else ""
        before = spent_s()
        subprocess.run([cls.python, "-m", "pip", "install", "-q", "--no-index", "--find-links",
                        wheel.parent, "--disable-pip-version-check", f"{wheel}{extra}"],
                       check=True, env=clean_environment())
        cls.install_s = spent_s() - before
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, "
              f"installed in {cls.install_s:.1f} s of CPU time")
        support.programs.BIN = cls.venv / "bin"  # from here on the wheel's programs
        super().setUpClass()

    def run_python(self, code, *args):
        done = subprocess.run([self.python, "-c", code, *args], env=clean_environment(),
                              cwd=self.venv, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def test_programs_are_on_path(self):
        version = self.run_python("import sluice; print(sluice.__version__)")
        self.assertEqual(version, self.run_python(
            "from importlib.metadata import version; print(version('sluice'))"))
        for name in PROGRAMS:
            with self.subTest(name):
                said = subprocess.run([self.venv / "bin" / name, "--version"], check=True,
                                      env=clean_environment(), capture_output=True, text=True)
                self.assertIn(version, said.stdout)
                found = self.run_python(
                    "import sys; from sluice import programs; print(programs.find(sys.argv[1]))",
                    name)
                self.assertEqual(pathlib.Path(found).parent.name, "_bin")
                self.assertTrue(found.startswith(str(self.venv)), found)

    def test_offload_job_is_on_path(self):
        said = subprocess.run([self.venv / "bin/offload_job", "--version"], check=True, env=clean_environment(),
                              capture_output=True, text=True).stdout
        self.assertEqual(said.split(), ["offload_job", self.run_python("import sluice; print(sluice.__version__)")])
        schema = self.run_python("from sluice.jobs import spec; print(spec.schema()['title'])")
        self.assertIn("job.yaml", schema)

    def test_an_epoch_is_the_same_from_everywhere(self):
        expected = self.run_python(OF_A_FOLDER, self.root)
        self.assertTrue(expected.startswith(f"{support.NUM_TRAIN} "), expected)
        self.assertEqual(self.run_python(OF_AN_ADDRESS, self.address), expected)
        self.assertEqual(self.run_python(OF_A_SERVER_WITHIN, self.root), expected)

    def test_a_gpu_is_used_or_it_is_said_why_not(self):
        place = self.run_python(OF_A_GPU, self.root, "auto")
        said = self.run_python(OF_A_GPU, self.root, "on")
        if place == "-1":
            self.assertRegex(said, "gpu-decode.*CUDA")
        else:
            self.assertEqual((place, said), ("0", "0"))
        expected = self.run_python(OF_A_FOLDER, self.root)
        self.assertEqual(expected, self.run_python(ON_A_STAND_IN, self.root))

    def test_an_epoch_of_numpy(self):
        if self.run_python("import importlib.util as u; print(u.find_spec('numpy'))") == "None":
            self.skipTest("numpy is missing")
        rows, digest = self.run_python(OF_NUMPY, self.root).split()
        self.assertEqual(int(rows), support.NUM_TRAIN)
        with_ids = self.run_python(OF_A_FOLDER, self.root).split()[1]
        self.assertEqual(digest, with_ids)

    def test_offload_train_runs_an_epoch(self):
        done = subprocess.run([self.venv / "bin/offload_train", "--host", self.address, "--device",
                               "none", "--epochs", "1", "--batch-size", "8"],
                              env=clean_environment(), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_is_small_and_there_soon_without_a_compiler(self):
        if not self.is_whole:
            self.skipTest("this wheel was packed from a build with its debugging symbols")
        installed = int(self.run_python(
            "from importlib.metadata import files; "
            "print(sum(file.locate().stat().st_size for file in files('sluice')))"))
        print(f"{installed / 1e6:.1f} MB installed")
        self.assertLess(installed, 60e6)
        self.assertLess(self.install_s, 30)  # ten times what it takes
        if os.environ.get("SLUICE_BARE"):
            self.assertEqual([name for name in ("cc", "c++", "gcc", "g++", "clang", "make", "ninja")
                              if shutil.which(name)], [])

    def test_needs_no_library_of_the_machine(self):
        if not self.is_whole:
            self.skipTest("this wheel was packed without the libraries")
        mapped = self.run_python(MAPPED).split()
        self.assertTrue(any(path.startswith(str(self.venv)) for path in mapped), mapped)
        with support.Server(self.root) as server:
            mapped += libraries(pathlib.Path(f"/proc/{server.process.pid}/maps").read_text())
        self.assertEqual([path for path in mapped if not path.startswith(str(self.venv))
                          and not OF_THE_MACHINE.fullmatch(os.path.basename(path))], [])

    def test_a_server_within_limits_connections(self):
        if not self.is_whole:
            self.skipTest("this wheel was packed with a shared gRPC")
        self.assertEqual(self.run_python(LIMITED, self.root).split(), 2 * ["True"] + 2 * ["False"])


if __name__ == "__main__":
    if importlib.util.find_spec("ensurepip") is None:
        support.skip("python3-venv is missing")
    support.main()
