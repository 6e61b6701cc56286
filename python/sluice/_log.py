"""The library's log lines as records of Python's logging, logger "sluice".

The library writes them from any of its threads, which must not wait for the interpreter: they
queue in C, and a thread of this module hands them on, from the first loader or server to the end of
the interpreter.
"""
import atexit
import logging
import os
import threading
import traceback

from sluice import _sluice

_logger = logging.getLogger("sluice")
_LEVELS = {
    _sluice.LOG_ERROR: logging.ERROR,
    _sluice.LOG_WARN: logging.WARNING,
    _sluice.LOG_INFO: logging.INFO,
    _sluice.LOG_DEBUG: logging.DEBUG,
}
_lock = threading.Lock()
_thread = None
_is_over = False  # the interpreter ends: what comes now goes to stderr


def begin():
    """Before a loader or server is made."""
    global _thread
    with _lock:
        if _thread is None and not _is_over:
            _sluice.log_open()
            _thread = threading.Thread(target=_hand_on, name="sluice-log", daemon=True)
            _thread.start()


def _hand_on():
    is_end = False
    while not is_end:
        lines, num_lost, is_end = _sluice.log_take()
        for level, text in lines:
            _log(_LEVELS[level], text)
        if num_lost:
            _log(logging.WARNING, f"{num_lost} lines were left out: logging takes too long")


def _log(level, text):
    try:
        _logger.log(level, text)
    except Exception:  # of a filter: the next lines are not to be lost for it
        traceback.print_exc()


@atexit.register
def _end():
    global _is_over
    with _lock:
        _is_over = True
    if _thread is not None:
        _sluice.log_close()
        _thread.join(timeout=5)  # a handler may wait for what has ended already


def _after_fork():
    """The child has the lock as it was, and no thread."""
    global _lock, _thread
    _lock, _thread = threading.Lock(), None
    _sluice.log_forget()


os.register_at_fork(after_in_child=_after_fork)
