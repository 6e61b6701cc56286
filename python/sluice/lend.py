"""Lends a GPU: a trainer (the owner) stops between its layers while another process (a borrower) answers a request.

    loader = sluice.torch.Loader(source, 256, device="cuda", lend="/run/gpu0.lend")      the owner, for the whole loop

    owner = sluice.lend.Owner("/run/gpu0.lend")                                          or with any loader
    gate = sluice.lend.Gate(model, owner)

    with sluice.lend.gpu("/run/gpu0.lend"):                                              a borrower
        answer = model(request)

The owner's CUDA stream waits at its points while a borrower has the GPU; no process waits for an answer of the other.  A
thread of the owner takes the GPU back from a borrower that died, or keeps it too long.  docs/PYTHON.md tells more.
"""
import contextlib
import math
import operator
import os
import threading

from sluice import _sluice
from sluice._owner import MOST, Owner, checked, cuda_in_use, owners  # noqa: F401 (Owner, owners: for whom imports this)


def __getattr__(name):
    if name == "Gate":  # it needs PyTorch
        from sluice._gate import Gate
        return Gate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_lock = threading.Lock()
_borrowers = {}  # by (path, priority, at_most_ms): a connection; None: its owner has ended
_here = threading.local()  # .taken: paths of the blocks that this thread is in


def _after_fork():
    global _lock
    _lock = threading.Lock()
    _borrowers.clear()
    _here.__dict__.clear()


os.register_at_fork(after_in_child=_after_fork)


def _borrower(key):
    """The connection; None: there was one, and nobody lends there any more."""
    with _lock:
        borrower = _borrowers.get(key)
        if borrower is None:
            try:
                borrower = _borrowers[key] = _sluice.Borrower(*key)
            except _sluice.NotFoundError:
                if key not in _borrowers:
                    raise
        return borrower


def _take(key, timeout):
    """(connection, ticket); (None, 0) where nobody lends any more."""
    for _ in range(2):  # an owner that came after one that ended
        borrower = _borrower(key)
        if borrower is None:
            break
        try:
            return borrower, borrower.take(timeout)
        except _sluice.ClosedError:
            with _lock:
                if _borrowers.get(key) is borrower:
                    _borrowers[key] = None
    return None, 0


@contextlib.contextmanager
def gpu(path, priority=0, at_most_ms=None, timeout=None):
    """The block has the GPU that the owner at this path lends.

        with sluice.lend.gpu("/run/gpu0.lend"):
            answer = model(request)

    path        of the owner's socket
    priority    while a borrower of a higher one has the GPU or waits for it, this one waits
    at_most_ms  after which the owner may take the GPU back, if that is less than its own limit
    timeout     seconds to wait while the owner lends nothing, or for a borrower of a higher priority; None: without limit

    At the block's end PyTorch's current stream is waited for, if PyTorch uses CUDA here, and the GPU given back.  Without
    PyTorch wait for your work before the block ends.  It works without PyTorch and without a GPU.  Any number of threads may
    use it: with the same arguments they share a connection and take turns.  Within another block of the same thread and path
    it does nothing, so a coroutine must not await in a block.  Connections stay open.  If the owner has ended since the
    first use, blocks run without it, as nothing waits, and connect to the next.

    NotFoundError: nobody lends at this path, at the first use; AgainError: timeout; InvalidError: the owner refuses this user,
    or this process, or has 32 borrowers; CorruptError: another program answers there.
    """
    path = os.fspath(path)
    limit_ms = 0 if at_most_ms is None else checked("at_most_ms", at_most_ms, operator.index, 1, MOST)
    key = (path, checked("priority", priority, operator.index, 0, MOST), limit_ms)
    timeout = None if timeout is None else checked("timeout", timeout, float, -math.inf, math.inf)
    taken = _here.__dict__.setdefault("taken", set())
    if path in taken:
        yield
        return
    borrower, ticket = _take(key, timeout)
    try:  # a signal's exception may come at each call from here on
        taken.add(path)
        yield
    finally:
        try:
            cuda = cuda_in_use()
            if cuda is not None:
                cuda.current_stream().synchronize()
        finally:
            try:
                if borrower is not None:
                    borrower.give(ticket)
            finally:
                taken.discard(path)
