"""Owner of sluice.lend: lends a CUDA device of this process."""
import atexit
import collections.abc
import functools
import math
import numbers
import operator
import os
import subprocess
import sys
import weakref

from sluice import _log, _sluice

MOST = (1 << 32) - 1
_PROBE_S = 20


def checked(name, value, convert, least, most):
    """The argument as a number; InvalidError names it."""
    try:
        number = convert(value)
        if least <= number <= most:
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise _sluice.InvalidError(f"{name}={value!r}: " + ("a number" if math.isinf(most) else f"a whole number from {least} to {most}"))


def cuda_in_use():
    """torch.cuda, if it is in use here; else None."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


owners = weakref.WeakSet()


@atexit.register
def _stop_owners():
    for owner in list(owners):
        owner.stop()


@functools.lru_cache(maxsize=None)
def _probe(device):
    """Tries in a child process whether streams of the device can wait for a page: where they cannot, it may hang."""
    program = ("import importlib.util as util, sys\n"
               "spec = util.spec_from_file_location('sluice._sluice', sys.argv[1])\n"
               "_sluice = util.module_from_spec(spec)\n"
               "try: _sluice.lend_probe(int(sys.argv[2]))\n"
               "except _sluice.Error as error: sys.exit(str(error))")
    try:
        done = subprocess.run([sys.executable, "-ISc", program, _sluice.__file__, str(device)], timeout=_PROBE_S, text=True,
                              errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except subprocess.TimeoutExpired:
        raise _sluice.UnsupportedError(
            f"CUDA device {device}: a stream that waits for a word of memory did not go on within {_PROBE_S} s of its change, "
            "so this GPU cannot be lent") from None
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"the process that tried it ended with {done.returncode}"]
        raise _sluice.UnsupportedError(f"this GPU cannot be lent: {lines[-1]}")


class Owner:
    """Lends a CUDA device of this process to others of the machine, which connect by a unix socket.

    path        of the socket; it is made, and removed by close()
    share       "always": borrowers get the GPU at once; 0.3, say: as long as they have had less than this part of the time;
                "idle": as long as they have had less than this process waited for data (of a sluice.torch.Loader)
    allow       ids of the users whose processes may borrow, besides the user of this process
    at_most_ms  after which a borrower loses the GPU; left out: 1000
    device      by CUDA's number here; -1: none, and point() itself waits

    Any thread may call its methods.  At the interpreter's end, and when it is dropped, it stops.  A child of fork() lends
    nothing: there point(), stop() and close() do nothing.

    InvalidError: the path is too long or in use; UnsupportedError: the device's streams cannot wait for a page of memory
    (tried in a child process), or the driver is missing.
    """

    def __init__(self, path, share="always", allow=(), at_most_ms=None, device=0):
        device = checked("device", device, operator.index, -1, MOST >> 1)
        when = {"always": _sluice.LEND_ALWAYS, "idle": _sluice.LEND_IDLE}.get(str(share), _sluice.LEND_SHARE)
        part = float(share) if isinstance(share, numbers.Real) else 0.0
        if when == _sluice.LEND_SHARE and not 0 < part < 1:
            raise _sluice.InvalidError(f"share={share!r}: 'always', 'idle' or a part between 0 and 1")
        if isinstance(allow, (str, bytes)) or not isinstance(allow, collections.abc.Iterable):
            raise _sluice.InvalidError(f"allow={allow!r}: a list of users' ids")
        allow = [checked("allow", user, operator.index, 0, MOST - 1) for user in allow]
        limit_ms = 0 if at_most_ms is None else checked("at_most_ms", at_most_ms, operator.index, 1, MOST)
        if device >= 0:
            _probe(device)
        _log.begin()
        self.path, self.device = os.fspath(path), device
        self._is_in_graph = False
        self._lend = _sluice.Lend(self.path, when, part, allow, limit_ms, device)
        owners.add(self)

    def point(self, stream=None):
        """Work that is put on this stream later waits until no borrower has the GPU.

        stream  a number (torch.cuda.Stream.cuda_stream, say) of a stream of the device, which may be capturing a graph; None:
                PyTorch's current stream, or where PyTorch does not use CUDA the default stream
        """
        cuda = cuda_in_use() if self.device >= 0 else None
        if cuda is not None and not self._is_in_graph and stream != 0:
            with cuda.device(self.device) if stream is None else cuda.stream(cuda.ExternalStream(stream, self.device)):
                self._is_in_graph = cuda.is_current_stream_capturing()
        if stream is None:
            stream = cuda.current_stream(self.device).cuda_stream if cuda is not None else 0
        self._lend.point(stream)

    def keep_page(self):
        """Says that a CUDA graph has points, and so the page's address: close() then leaves the page in place."""
        self._is_in_graph = True

    def counters(self):
        """A dict of what was since the start: requests (that got the GPU), lent_ms (up to now), cost_ms (the part of
        lent_ms in which this process did not wait for data: what lending cost at most), taken_back (requests whose borrower
        died or kept the GPU too long), borrowers (that are connected now), wait_p50_ms and wait_p99_ms (how long requests
        waited for permission; a borrower in Python counts at most the last half second of a wait)."""
        return self._lend.counters()

    def stop(self):
        """Lets no borrower in from then on, and lets every point pass.  Graphs with points still run."""
        self._lend.stop()

    def close(self):
        """Ends lending, after all that PyTorch has put on the device.  Without PyTorch, wait before for the streams that
        have points.  Twice is fine.  InvalidError: a sluice.torch.Loader lends by it; close that."""
        self._lend.stop()
        cuda = cuda_in_use() if self.device >= 0 else None
        if self._is_in_graph:
            return
        if cuda is not None:
            cuda.synchronize(self.device)
        self._lend.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
