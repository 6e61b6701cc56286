"""A server under attack: with limits of its process, its log and its memory to read."""
import os
import pathlib
import re
import resource
import time

import http2
from torture import TIMEOUT_S, Server


def rss_bytes(pid, key="VmRSS"):
    """VmRSS: now; VmHWM: the most that it ever was."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(key + r":\s+(\d+) kB", status).group(1)) * 1024


class Attacked(Server):
    """At a free port of every address; `nofile` is its (soft, hard) RLIMIT_NOFILE, `access` what
    guards the port."""

    def __init__(self, root, *flags, nofile=None, env=None, access=("--insecure",)):
        super().__init__(root, *access, "--grpc-workers", 2, *flags, listen="0.0.0.0:0", env=env,
                         preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, nofile))
                         if nofile else None)
        self.address = "127.0.0.1:" + self.address.split(":")[-1]

    def close(self):
        self.stop()
        super().close()

    def rss_bytes(self, key="VmRSS"):
        return rss_bytes(self.process.pid, key)

    def num_descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def serves(self, source=None):
        """A client that comes now, and again while it is refused: is it answered?"""
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            try:
                with http2.Connection(self.address, source) as connection:
                    if connection.is_serving():
                        return True
            except ConnectionError:
                pass
            time.sleep(0.01)
        return False

    def wait(self):
        """The exit code of a server that ends by itself."""
        return self.process.wait(timeout=TIMEOUT_S)

    def stop(self):
        """Stops it if it runs; its exit code."""
        if self.process.poll() is None:
            self.terminate()
            self.process.communicate(timeout=TIMEOUT_S)
        return self.process.returncode
