#!/usr/bin/env python3
"""Mix and RandomErasing of sluice.jax against NumPy, and against sluice.torch's, bit for bit; over devices and processes."""
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import support

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
support.require("numpy", "jax")

import jax
import numpy

import sluice
import sluice.jax
import sluice.numpy
from sluice import _batch_ops, _sluice
from sluice.jax import BatchKey, Mix, RandomErasing

NUM_CLASSES = 5
OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}

# One of two processes, with two devices each, prints a hash of its rows of each global batch.
PROCESS = """
import sys
import jax
rank, port, root, out = int(sys.argv[1]), sys.argv[2], sys.argv[3], open(sys.argv[4], "w")
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
import numpy, sluice.jax, test_jax_batch_ops as test
mesh = jax.sharding.Mesh(numpy.array(jax.devices()), ("rows",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
for images, labels, ids in sluice.jax.Loader(root, 4, sharding=sharding, batch_ops=test.ops(), drop_last=True,
                                             **test.OPTIONS):
    assert images.shape == (8, 64, 64, 3) and images.sharding == sharding, (images.shape, images.sharding)
    print(*(test.hashed(*(numpy.concatenate([shard.data for shard in array.addressable_shards])
                          for array in (images, labels)))), file=out)
"""


def ops():
    return [RandomErasing(0.5, fill="pixel"), Mix(mixup=0.8, cutmix=1, label_smoothing=0.1)]


def hashed(images, labels):
    """A number for each row."""
    return [hash(image.tobytes() + label.tobytes()) for image, label in zip(images, labels)]


def key(index=0, num_rows=7, seed=2**63 + 3, first=2**35 + 100):
    return BatchKey(seed, 2, index, 1, list(range(first, first + num_rows)), [2] * num_rows)


def a_batch(num_rows=7):
    rng = numpy.random.default_rng(1)
    images = rng.standard_normal((num_rows, 20, 30, 3)).astype(numpy.float32)
    return images, rng.integers(0, NUM_CLASSES, num_rows, numpy.int32)


def mixed(images, labels, of, settings, smoothing=0.0, pairing="timm", num_classes=NUM_CLASSES):
    """(kind, images, labels) by the formula, in NumPy."""
    kind, own, (top, left, height, width) = _sluice.draw_mix(*of[:4], *settings, *images.shape[1:3])
    own, other = numpy.float32(own), numpy.float32(1 - own)
    partner = numpy.arange(len(images))[::-1] if pairing == "timm" else numpy.arange(len(images)) - 1
    off = smoothing / num_classes
    soft = numpy.full((len(labels), num_classes), off, numpy.float32)
    soft[numpy.arange(len(labels)), labels] = 1 - smoothing + off
    if kind == 1:
        images = images * own + images[partner] * other
    elif kind == 2:
        box = numpy.s_[:, top:top + height, left:left + width]
        images, from_images = images.copy(), images[partner]
        images[box] = from_images[box]
    return kind, images, soft * own + soft[partner] * other


def erased(images, of, settings, fill):
    """(number of boxes, images) in NumPy, with the noise that the library draws on the host."""
    images, num = images.copy(), 0
    for image, sample, epoch in zip(images, of.ids, of.draw_epochs):
        box = _sluice.draw_erasing(of.seed, epoch, sample, *settings, *image.shape[:2])
        if box is None:
            continue
        num += 1
        top, left, height, width = box
        if isinstance(fill, str):
            drawn = numpy.empty((3, height, width) if fill == "pixel" else (3, 1, 1), numpy.float32)
            _sluice.fill_normals(of.seed, epoch, sample, _batch_ops.quantiles(), drawn.ctypes.data, drawn.size)
            value = drawn.transpose(1, 2, 0)
        else:
            value = numpy.array(fill, numpy.float32)
        image[top:top + height, left:left + width] = value
    return num, images


class Ops(unittest.TestCase):
    def assert_same(self, got, want):
        self.assertEqual(numpy.asarray(got).dtype, want.dtype)
        self.assertEqual(numpy.asarray(got).tobytes(), want.tobytes())

    def test_mixes_are_the_formulas(self):
        for num_rows in (7, 8):
            for pairing, mixup, cutmix, smoothing in (("timm", 0.8, 1, 0.1), ("torchvision", 0.2, 1, 0)):
                mix = Mix(mixup, cutmix, 0.8, pairing=pairing, label_smoothing=smoothing)
                num_traces = 0

                @jax.jit
                def step(images, labels, draws):
                    nonlocal num_traces
                    num_traces += 1
                    return mix.apply(images, labels, draws, NUM_CLASSES)

                kinds = set()
                for index in range(20):
                    images, labels = a_batch(num_rows)
                    of = key(index, num_rows)
                    kind, *want = mixed(images, labels, of, (mixup, cutmix, 0.8, 0.5), smoothing, pairing)
                    kinds.add(kind)
                    for got in (step(images, labels, mix.draws(of, 20, 30)), mix(images, labels, of, NUM_CLASSES)):
                        for array, other in zip(got, want):
                            self.assert_same(array, other)
                self.assertEqual((kinds, num_traces), ({0, 1, 2}, 1))

    def test_only_one_of_the_mixes(self):
        for settings in ((1.0, 0.0), (0.0, 1.0), (0.0, 0.0)):
            images, labels = a_batch()
            _, *want = mixed(images, labels, key(), (*settings, 1, 0.5))
            for array, other in zip(Mix(*settings)(images, labels, key(), NUM_CLASSES), want):
                self.assert_same(array, other)

    def test_erased_boxes_are_those_of_their_samples(self):
        settings = (0.5, 0.02, 1 / 3, 0.3, 1 / 0.3)
        images, labels = a_batch(40)
        for fill in (0, 0.5, (1, 2, 3), "channel", "pixel"):
            erasing = RandomErasing(0.5, fill=fill)
            num, want = erased(images, key(num_rows=40), settings, fill)
            self.assertGreater(num, 10)
            step = jax.jit(lambda images, draws: erasing.apply(images, labels, draws, NUM_CLASSES)[0])
            self.assert_same(step(images, erasing.draws(key(num_rows=40), 20, 30)), want)
            got, same = erasing(images, labels, key(num_rows=40), NUM_CLASSES)
            self.assert_same(got, want)
            self.assertIs(same, labels)

    def test_the_bits_of_sluice_torch(self):
        try:
            import torch
            import sluice.torch
        except ImportError as error:
            self.skipTest(f"torch is missing ({error})")
        for num_rows in (1, 7, 8):
            for name, arguments in (("Mix", {"mixup": 0.8, "cutmix": 1, "label_smoothing": 0.1}),
                                    ("Mix", {"mixup": 0.2, "pairing": "torchvision"}), ("RandomErasing", {"fill": (1, 2, 3)}),
                                    ("RandomErasing", {"p": 1, "fill": "channel"}), ("RandomErasing", {"p": 1, "fill": "pixel"})):
                for index in range(6):
                    images, labels = a_batch(num_rows)
                    of = key(index, num_rows)
                    got = getattr(sluice.jax, name)(**arguments)(images, labels, of, NUM_CLASSES)
                    want = getattr(sluice.torch, name)(**arguments)(
                        torch.from_numpy(images.transpose(0, 3, 1, 2).copy()), torch.from_numpy(labels).long(), of, NUM_CLASSES)
                    self.assert_same(got[0], numpy.ascontiguousarray(want[0].numpy().transpose(0, 2, 3, 1)))
                    if name == "Mix":
                        self.assert_same(got[1], want[1].numpy())

    def test_halves_are_rounded_after_each_step(self):
        images, labels = a_batch()
        half = images.astype(numpy.float16)
        kind, own, _ = _sluice.draw_mix(*key()[:4], 1, 0, 1, 0.5, 20, 30)
        self.assertEqual(kind, 1)
        parts = [(half[rows].astype(numpy.float32) * numpy.float32(part)).astype(numpy.float16)
                 for rows, part in ((slice(None), own), (slice(None, None, -1), 1 - own))]
        self.assert_same(Mix(mixup=1)(half, labels, key(), NUM_CLASSES)[0], parts[0] + parts[1])

    def test_what_is_refused(self):
        pixels, labels = numpy.zeros((7, 8, 8, 3), numpy.uint8), a_batch()[1]
        for words, wrong in (("normalize=True", lambda: Mix(mixup=1)(pixels, labels, key(), NUM_CLASSES)),
                             ("normalize=True", lambda: RandomErasing()(pixels, labels, key(), NUM_CLASSES)),
                             ("alphas", lambda: Mix(mixup=-1)), ("pairing 'random'", lambda: Mix(pairing="random")),
                             ("fill 'noise'", lambda: RandomErasing(fill="noise")),
                             ("524,288", lambda: RandomErasing(1, (0.9, 0.9), (1, 1), "pixel").draws(key(), 700, 700))):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                wrong()
        Mix(cutmix=1)(pixels, labels, key(), NUM_CLASSES)


class Loaders(support.SetTest):
    def expected(self, **options):
        """Of a Loader with ops(): by NumPy."""
        with sluice.numpy.Loader(self.root, 8, **OPTIONS, **options) as loader:
            table = sluice.numpy.normalization(loader)
            for index, (rows, labels, ids) in enumerate(loader):
                of = BatchKey(3, 0, index, loader.info["rank"], ids.tolist(), [0] * len(ids))
                images = numpy.stack([table[c][rows[..., c]] for c in range(3)], axis=-1)
                _, images = erased(images, of, (0.5, 0.02, 1 / 3, 0.3, 1 / 0.3), "pixel")
                yield *mixed(images, labels, of, (0.8, 1, 1, 0.5), 0.1, num_classes=loader.info["num_classes"])[1:], ids

    def assert_same(self, batches, wanted):
        batches, wanted = list(batches), list(wanted)
        self.assertEqual(len(batches), len(wanted))
        for batch, others in zip(batches, wanted):
            for array, other in zip(batch, others):
                self.assertTrue(numpy.array_equal(array, other))

    def test_a_loader_applies_them(self):
        for source in (self.root, self.address):
            with sluice.jax.Loader(source, 8, batch_ops=ops(), **OPTIONS) as loader:
                self.assert_same(loader, self.expected())

    def test_devices_share_the_rows(self):
        """Of 50 rows, 8 at a time, the last batch has two, which are repeated after they are mixed with each other."""
        with sluice.jax.Loader(self.root, 8, batch_ops=ops(), devices=jax.local_devices(), **OPTIONS) as loader:
            batches, wanted = list(loader), list(self.expected())
        self.assertEqual(len(wanted[-1][2]), 2)
        self.assert_same(batches, [*wanted[:-1], [numpy.concatenate([array, array]) for array in wanted[-1]]])
        for images, labels, _ in batches:
            for array in (images, labels):
                self.assertEqual([shard.device for shard in array.addressable_shards], jax.local_devices())

    def test_each_process_mixes_its_own_rows(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here = os.path.dirname(os.path.abspath(__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)]), "PYTHONHASHSEED": "0",
               "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, str(rank)) for rank in range(2)]
            ranks = [subprocess.Popen([sys.executable, "-c", PROCESS, str(rank), str(port), self.root, files[rank]], env=env)
                     for rank in range(2)]
            self.assertEqual([rank.wait(timeout=300) for rank in ranks], [0, 0])
            outputs = [pathlib.Path(file).read_text().splitlines() for file in files]
            script = ("import sys, sluice.jax, test_jax_batch_ops as test\n"
                      "for rank in range(2):\n"
                      "    with sluice.jax.Loader(sys.argv[1], 4, rank=rank, world_size=2, batch_ops=test.ops(),\n"
                      "                           drop_last=True, **test.OPTIONS) as loader:\n"
                      "        for images, labels, ids in loader: print(*test.hashed(*map(test.numpy.asarray, (images, labels))))\n")
            alone = subprocess.run([sys.executable, "-c", script, self.root], env=env, check=True, capture_output=True, text=True)
        self.assertEqual(outputs[0] + outputs[1], alone.stdout.splitlines())

    def test_a_preset(self):
        with sluice.jax.Loader(self.root, 8, recipe="torchvision-v2") as train, \
                sluice.jax.Loader(self.root, 8, recipe="torchvision-v2", part="val") as val:
            images, labels = next(iter(train))
            self.assertEqual((images.shape, images.dtype), ((8, 176, 176, 3), numpy.float32))
            self.assertEqual(labels.shape, (8, train.info["num_classes"]))
            numpy.testing.assert_allclose(labels.sum(1), numpy.ones(8), rtol=1e-6)
            images, labels = next(iter(val))
            self.assertEqual((images.shape, images.dtype, labels.dtype), ((8, 224, 224, 3), numpy.float32, numpy.int32))

    def test_normalised_alone(self):
        with sluice.jax.Loader(self.root, 8, **OPTIONS) as plain:
            table = sluice.jax.normalization(plain)
            rows, labels, _ = next(iter(plain))
            wanted = numpy.stack([table[c][numpy.asarray(rows)[..., c]] for c in range(3)], axis=-1)
        for dtype in (None, numpy.float16):
            with sluice.jax.Loader(self.root, 8, normalize=True, dtype=dtype, **OPTIONS) as loader:
                images, same, _ = next(iter(loader))
                self.assertEqual(numpy.asarray(images).tobytes(), wanted.astype(dtype or numpy.float32).tobytes())
                self.assertTrue(numpy.array_equal(same, labels))

    def test_what_is_refused(self):
        for words, options in (("dtype", {"dtype": numpy.float16}),
                               ("normalize=True", {"normalize": False, "batch_ops": [Mix(mixup=1)]}),
                               ("one Mix", {"recipe": "timm-a2", "batch_ops": [Mix(mixup=1)]}),
                               ("ends at u8", {"pipeline": "decode,center_crop=8", "normalize": True})):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                next(iter(sluice.jax.Loader(self.root, 8, **options)))


if __name__ == "__main__":
    support.main()
