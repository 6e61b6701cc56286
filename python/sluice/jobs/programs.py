"""Where the programs are that a job runs."""
import os
import shutil

from . import JobError

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # sluice, or share/sluice of an install


def folders():
    """The programs of a wheel, of an install whose share/sluice this is, of a build."""
    return [os.path.join(_PACKAGE, "_bin"), os.path.normpath(os.path.join(_PACKAGE, "../../bin"))]


def find(name):
    """The path of offload_server, offload_train, ...; JobError if it is missing."""
    found = shutil.which(name, path=os.pathsep.join(folders() + [os.environ.get("PATH", os.defpath)]))
    if not found:
        raise JobError(f"no program {name} in {' or '.join(folders())} or on PATH")
    return os.path.abspath(found)
