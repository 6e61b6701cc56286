"""Which sluice the interpreters that are measured import."""
import os
import pathlib


def add_option(parser):
    parser.add_argument("--package", type=pathlib.Path,
                        help="folder that holds the package sluice. Default: python beside --bin, "
                        "if there; else what the interpreter has")


def use(options):
    """For the processes that are started from now on."""
    folder = options.package
    if folder is None and (options.bin.resolve().parent / "python").is_dir():
        folder = options.bin.resolve().parent / "python"
    if folder is not None:
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, (str(folder.resolve()), os.environ.get("PYTHONPATH"))))
