"""A server under attack: with limits of its process, its log and its memory to read."""
import os
import pathlib
import re
import resource
import signal
import subprocess
import tempfile
import time

import http2
from torture import BIN, TIMEOUT_S


def rss_bytes(pid, key="VmRSS"):
    """VmRSS: now; VmHWM: the most that it ever was."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(key + r":\s+(\d+) kB", status).group(1)) * 1024


class Attacked:
    """offload_server on a free port of every address; `nofile` is its (soft, hard) RLIMIT_NOFILE,
    `access` what guards the port."""

    def __init__(self, root, *flags, nofile=None, env=None, access=("--insecure",)):
        self.log_file = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [str(BIN / "offload_server"), "--root", str(root), "--listen", "0.0.0.0:0", *map(str, access),
             "--prep-workers", "2", "--grpc-workers", "2", *map(str, flags)],
            stdout=subprocess.PIPE, stderr=self.log_file, text=True, env=env,
            preexec_fn=(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, nofile)) if nofile
            else None)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            log = self.log()
            self.log_file.close()
            raise AssertionError(f"offload_server said {line!r}; {log}")
        self.address = "127.0.0.1:" + line.split(":")[-1].strip()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self):
        self.stop()
        self.log_file.close()

    def log(self):
        self.log_file.seek(0)
        return self.log_file.read()

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
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.communicate(timeout=TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise
        self.process.stdout.close()
        return self.process.returncode
