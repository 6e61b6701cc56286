"""Batches of preprocessed images from a storage server or a folder, in one global order.

sluice.torch.Loader, sluice.numpy.Loader and sluice.jax.Loader give them as the arrays of these
libraries, which are imported with the module only.  sluice.Server serves a folder from this
process.  docs/PYTHON.md tells more.
"""
import json as _json
import os as _os

from sluice import _log, _sluice
from sluice._sluice import (
    AgainError, ClosedError, CorruptError, Error, InternalError, InvalidError, IoError,
    NoMemoryError, NotFoundError, StaleError, UnsupportedError)
from sluice._sluice import LOG_DEBUG, LOG_ERROR, LOG_INFO, LOG_WARN, set_log_level, version

__all__ = [
    "AgainError", "ClosedError", "CorruptError", "Error", "InternalError", "InvalidError",
    "IoError", "NoMemoryError", "NotFoundError", "StaleError", "UnsupportedError",
    "LOG_DEBUG", "LOG_ERROR", "LOG_INFO", "LOG_WARN", "set_log_level",
    "Server", "preview", "settings", "version", "__version__",
]
__version__ = version()


def settings(**options):
    """Options by the names of the programs' flags, with _ for -, as the strings they are there.

    None leaves an option out; a switch is True or False; a dict has a value for each name.

    >>> settings(batch_size=256, retry_for="2m", strict=True, mode=None, mix={"a": 1, "b": 0.5})
    {'batch-size': '256', 'retry-for': '2m', 'strict': 'true', 'mix': 'a=1,b=0.5'}
    """
    def text(value):
        if isinstance(value, dict):
            return ",".join(f"{name}={item}" for name, item in value.items())
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {name.replace("_", "-"): text(value) for name, value in options.items()
            if value is not None}


def preview(source, recipe, **options):
    """What a recipe makes of some images, with the draws of each, as a page that a notebook shows:
    sluice.contact_sheet.preview()."""
    from sluice import contact_sheet
    return contact_sheet.preview(source, recipe, **options)


def _named_roots(roots):
    """Of {"a": "/data/a"} the texts that the programs take: ["a=/data/a"]."""
    if not roots or not all(isinstance(name, str) for name in roots):
        raise _sluice.InvalidError(f"{roots!r} names no roots: {{NAME: folder or URL}}")
    return [f"{name}={_os.fspath(place)}" for name, place in roots.items()]


class Server:
    """Serves the images beneath a folder from this process, as offload_server does.

        with sluice.Server("/data/imagenet") as server:
            loader = sluice.torch.Loader(server.address, 256)

    A dict is several roots as one dataset, {"a": "/data/a", "b": "s3://bucket/b"}: paths begin with
    a/ and b/.  Options are the flags of offload_server; it listens on a free port of this machine unless
    `listen` says otherwise.
    """

    def __init__(self, root, **options):
        _log.begin()
        chosen = settings(**options)
        if isinstance(root, dict):
            chosen["root"], root = _named_roots(root), None
        self._server = _sluice.Server(root, chosen)

    @property
    def address(self):
        """'HOST:PORT' that it listens on."""
        return self._server.address

    def stats(self):
        """The counters, as a dict."""
        return _json.loads(self._server.stats())

    def reread(self):
        """Reads the list of samples again, in the background."""
        self._server.reread()

    def stop(self):
        """Answers what was accepted, and ends.  Twice is fine."""
        self._server.stop()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()
