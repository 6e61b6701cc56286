"""What the tests with a stock Python client share: stubs, images, a server.

A test program here is a unittest module whose main() is harness.main(): exit 77 means
skipped, with the reason on standard output.
"""
import importlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import unittest

from programs import BIN, Server  # noqa: F401

SOURCE = pathlib.Path(os.environ.get("SLUICE_SOURCE", pathlib.Path(__file__).parents[2]))
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20240708"))
TIMEOUT_S = 120  # of every call: a hang is a failure with a name

_scratch = tempfile.mkdtemp(prefix="sluice-integration-")


def skip(reason):
    print(f"SKIPPED: {reason}")
    shutil.rmtree(_scratch, ignore_errors=True)
    sys.exit(77)


def require():
    """The Debian packages that a stock client is made of."""
    for module, package in (("grpc", "python3-grpcio"), ("google.protobuf", "python3-protobuf"),
                            ("PIL", "python3-pil"), ("numpy", "python3-numpy")):
        try:
            importlib.import_module(module)
        except ImportError as error:
            skip(f"{package} is missing ({error})")
    for program, package in (("protoc", "protobuf-compiler"),
                             ("grpc_python_plugin", "protobuf-compiler-grpc")):
        if not shutil.which(program):
            skip(f"{package} is missing (no {program})")


def stubs():
    """Generates stubs from protos/ as any user would and returns their modules by name."""
    out = os.path.join(_scratch, "stubs")
    os.makedirs(out, exist_ok=True)
    names = ("offload", "data_transfer", "health")
    subprocess.run(
        ["protoc", f"--proto_path={SOURCE / 'protos'}", f"--python_out={out}",
         f"--grpc_python_out={out}",
         f"--plugin=protoc-gen-grpc_python={shutil.which('grpc_python_plugin')}"] +
        [str(SOURCE / "protos" / f"{name}.proto") for name in names], check=True)
    if out not in sys.path:
        sys.path.insert(0, out)
    return {name + suffix: importlib.import_module(name + suffix)
            for name in names for suffix in ("_pb2", "_pb2_grpc")}


def temporary_folder(name):
    path = pathlib.Path(_scratch, name)
    path.mkdir(parents=True)
    return path


def photo(width, height, rng):
    """A smooth picture with some texture, so that a JPEG of it is an ordinary one."""
    import numpy as np
    noise = np.random.default_rng(rng.getrandbits(32))
    y, x = np.mgrid[0:height, 0:width].astype(np.float64)
    picture = np.empty((height, width, 3))
    for c in range(3):
        fx, fy, phase = (rng.uniform(0.01, 0.2) for _ in range(3))
        picture[..., c] = 128 + 90 * np.sin(x * fx + y * fy + phase * 30)
    picture += noise.normal(0, 6, picture.shape)
    return picture.clip(0, 255).astype("uint8")


def make_images(root):
    """{path: None}: JPEGs and a PNG under train/ and val/, two classes, all sizes different."""
    from PIL import Image
    rng = random.Random(SEED)
    paths = []
    for subset, count in (("train", 4), ("val", 2)):
        for label, name in enumerate(("cat", "dog")):
            folder = root / subset / name
            folder.mkdir(parents=True)
            for i in range(count):
                width, height = rng.randint(40, 500), rng.randint(40, 500)
                image = Image.fromarray(photo(width, height, rng))
                is_png = i == 1
                path = folder / f"{name}_{i}.{'png' if is_png else 'jpg'}"
                if is_png:
                    image.save(path)
                else:
                    image.save(path, quality=rng.randint(70, 95), subsampling=i % 3)
                paths.append(path)
    return paths


def pixels(path):
    """The image as Pillow decodes it: bytes, width, height."""
    from PIL import Image
    with Image.open(path) as image:
        rgb = image.convert("RGB")
        return rgb.tobytes(), rgb.width, rgb.height


def main():
    try:
        unittest.main(verbosity=2)
    finally:
        shutil.rmtree(_scratch, ignore_errors=True)


require()
