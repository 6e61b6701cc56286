"""What the tests of the Python package share: a set of images, a server, Ctrl-C.

A test program here is a unittest module that ends with support.main(); exit 77 means skipped, with
the reason on standard output.
"""
import contextlib
import dataclasses
import importlib
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

sys.path.append(os.path.join(os.path.dirname(__file__), "../support"))
import programs  # noqa: E402
from programs import BIN, Server, run  # noqa: E402, F401

PIPELINE = "decode,random_resized_crop=64,hflip,to_tensor,normalize=imagenet"
NUM_TRAIN, NUM_VAL = 50, 9


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(77)


def require(*modules):
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            skip(f"python3-{name} is missing ({error})")


def row_hash(pixels, label, has_size=False):
    """Of a sample, as in compute_client/loader/order/digest.h: its u8 pixels [height, width, 3], where sizes differ its
    height and width, then its label."""
    import numpy
    import xxhash
    total = xxhash.xxh3_128(numpy.ascontiguousarray(pixels))
    for side in pixels.shape[:2] if has_size else ():
        total.update(side.to_bytes(4, "little"))
    total.update(int(label).to_bytes(8, "little"))
    return total.digest()


def digest_of(hashes):
    """Of an epoch, as offload_train prints it: a chain over its samples' hashes, in order."""
    import xxhash
    return xxhash.xxh3_128_hexdigest(b"".join(hashes))


def train(root, *flags):
    """The lines of JSON of an offload_train from a folder."""
    return programs.train(root, "--dataset-mode", "local", "--no-val", "--log-level", "warn", *flags)[0]


def sophon(root, profile, *flags):
    """The options of a loader in mode remote_sophon, by a profile that is made in that folder."""
    train(root, "--profiling", "--write-profile-folder", profile, *flags)
    return {"mode": "remote_sophon", "profile_folder": profile, "net_bw": 100, "remote_cpus": 2}


def mend_torch():
    """PyTorch 1.13, Debian 12's, has a module that the dataclasses of its Python 3.11 refuse, for a
    default that cannot be hashed; Lightning needs it."""
    import torch
    original = dataclasses.dataclass

    def hashable(cls=None, **options):
        if cls is None:
            return lambda cls: hashable(cls, **options)
        return original(cls, unsafe_hash="__hash__" not in vars(cls), **options)

    if torch.__version__.startswith("1."):
        with unittest.mock.patch("dataclasses.dataclass", hashable):
            importlib.import_module("torch.distributed._shard")


def run_mended():
    """The program that is named first, with the arguments after it, in this process."""
    mend_torch()
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def run_ranks(command, num_ranks, timeout, **env):
    """[(standard output, standard error)] of processes with torchrun's environment, which all end
    well.  The torchrun of Debian 12 does not start with its Python."""
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(programs.free_port()),
           "WORLD_SIZE": str(num_ranks), "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **env}
    processes = [subprocess.Popen(command, env={**env, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for rank in range(num_ranks)]
    try:
        printed = [process.communicate(timeout=timeout) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    codes = [process.returncode for process in processes]
    assert codes == [0] * num_ranks, f"{codes}: " + "".join(errors for _, errors in printed)
    return printed


@contextlib.contextmanager
def the_cpu_stands_in():
    """For the GPU of loaders that are made meanwhile, with the kernels' source; rows are on the
    host."""
    with unittest.mock.patch.dict(os.environ, {"SLUICE_GPU": "host"}):
        yield


@contextlib.contextmanager
def signal_after(seconds):
    """SIGINT to this process, as Ctrl-C sends it; yields a function: seconds since it was sent."""
    sent = []

    def send(number, frame):
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGALRM, send)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield lambda: time.monotonic() - sent[0]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class SetTest(unittest.TestCase):
    """Tests with a set of images, cls.root, that a server at cls.address has, too."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(folder.name, "set")
        run("offload_dataset", "synth", cls.root, "--num", NUM_TRAIN, "--num-val", NUM_VAL,
            "--classes", "3")
        cls.change_set()
        cls.address = cls.enterClassContext(Server(cls.root)).address

    @classmethod
    def change_set(cls):
        """The files beneath cls.root, before the server lists them."""


class CorruptSetTest(SetTest):
    """One image of the set, cls.corrupt, is cut off."""
    corrupt = "train/class000/00000030.jpg"

    @classmethod
    def change_set(cls):
        path = pathlib.Path(cls.root, cls.corrupt)
        path.write_bytes(path.read_bytes()[:150])


def main():
    unittest.main(verbosity=2)
