"""What the tests that start our programs share."""
import os
import pathlib
import socket
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ.get("SLUICE_BIN", "build/dev/bin")).resolve()
BAD_DISK = os.environ.get("SLUICE_BAD_DISK")  # tests/preload/bad_disk.c, built


def bad_disk(*rules):
    """The environment of a program whose disk keeps these rules (tests/preload/bad_disk.c)."""
    return {**os.environ, "LD_PRELOAD": BAD_DISK, "BAD_DISK": ";".join(rules),
            "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"}


def slow_disk(us):
    """The same: reads of files take so much longer."""
    return bad_disk(f"call=read,do=delay:{us}")


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


class SynthTest(unittest.TestCase):
    """Tests that share a set of images, made with these flags: cls.root, in the folder cls.folder."""
    SYNTH = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = pathlib.Path(cls.folder.name, "set")
        subprocess.run([BIN / "offload_dataset", "synth", cls.root, *map(str, cls.SYNTH)],
                       check=True, capture_output=True)
