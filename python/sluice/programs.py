"""The programs that come with the package: find("offload_server") is the path of one."""
import os
import shutil
import signal
import sys

from sluice import _sluice

_PACKAGE = os.path.dirname(os.path.abspath(__file__))
_WHEEL = os.path.join(_PACKAGE, "_bin")
_BUILD = os.path.join(os.path.dirname(os.path.dirname(_PACKAGE)), "bin")  # <build>/python/sluice


def find(name):
    """The path of a program: in the wheel, else in the build that the package lies in, else on
    PATH; else NotFoundError."""
    name = os.fspath(name)
    path = os.pathsep.join([_WHEEL, _BUILD, os.environ.get("PATH", os.defpath)])
    found = shutil.which(name, path=path)
    if not found:
        raise _sluice.NotFoundError(
            f"no program {name!r} in {_WHEEL}, in {_BUILD}, or on PATH: install sluice from a "
            f"wheel (scripts/wheel), or add the folder of the programs to PATH")
    return os.path.abspath(found)


def _run(name):
    """Becomes the program of the wheel.  PATH has what called this, so it is not looked at."""
    program = os.path.join(_WHEEL, name)
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and exec would keep that
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program}: {error.strerror}; install sluice again")


def offload_dataset():
    _run("offload_dataset")


def offload_profile():
    _run("offload_profile")


def offload_server():
    _run("offload_server")


def offload_top():
    _run("offload_top")


def offload_train():
    _run("offload_train")
