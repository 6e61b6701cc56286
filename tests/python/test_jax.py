#!/usr/bin/env python3
"""sluice.jax: arrays by DLPack, sharded over devices, and iterators that are put back."""
import gc
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

import support

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
support.require("numpy", "jax")

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import sluice
import sluice.jax
import sluice.numpy

OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}

# One of two processes, with two devices each: what it has of each global batch.
PROCESS = """
import sys
import jax
rank, port, root = int(sys.argv[1]), sys.argv[2], sys.argv[3]
out = open(sys.argv[4], "w")  # as Gloo writes to standard output
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
import numpy, sluice.jax, test_jax
mesh = jax.sharding.Mesh(numpy.array(jax.devices()), ("rows",))
sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
for images, labels, ids in sluice.jax.Loader(root, 4, sharding=sharding, drop_last=True,
                                             **test_jax.OPTIONS):
    assert images.shape == (8, 64, 64, 3), images.shape
    mine = numpy.concatenate([shard.data for shard in labels.addressable_shards])
    print(*ids, *mine, jax.jit(lambda x: x.sum())(labels), file=out)
"""


class JaxTest(support.SetTest):
    def expected(self, **options):
        with sluice.numpy.Loader(self.root, 8, **OPTIONS, **options) as loader:
            return [tuple(array.copy() for array in batch) for batch in loader]

    def assert_same(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for batch, others in zip(batches, wanted):
            for array, other in zip(batch, others):
                self.assertTrue(numpy.array_equal(numpy.asarray(array), other))

    def test_batches_are_those_of_numpy(self):
        with sluice.jax.Loader(self.root, 8, **OPTIONS) as loader:
            self.assert_same(list(loader), self.expected())

    def test_views_are_a_list(self):
        # Of odd sizes, so that the second begins where no array is aligned.
        pipeline = "decode,views([random_resized_crop=33x29,hflip],2x[random_resized_crop=31]),to_tensor,normalize=imagenet"
        options = {**OPTIONS, "pipeline": pipeline}
        with sluice.numpy.Loader(self.root, 7, **options) as loader:
            expected = [([view.copy() for view in views], labels.copy()) for views, labels, _ in loader]
            table = sluice.numpy.normalization(loader)
        step = jax.jit(lambda views: [view.sum(dtype="uint32") for view in views])
        mesh = Mesh(numpy.array(jax.devices()), ("rows",))
        for more in ({}, {"devices": jax.devices()[:1]}, {"sharding": NamedSharding(mesh, P("rows"))}, {"normalize": True}):
            batch_size = 8 if "sharding" in more else 7
            with self.subTest(**more), sluice.jax.Loader(self.root, batch_size, **options, **more) as loader:
                self.assertEqual(loader.info["views"], [[33, 29], [31, 31], [31, 31]])
                made = [[numpy.asarray(view) for view in views] for views, _, _ in loader]
                if "sharding" in more:  # rows repeat at the end, for the devices
                    made = [numpy.concatenate(views)[:support.NUM_TRAIN] for views in zip(*made)]
                    wanted = [numpy.concatenate(views) for views in zip(*(views for views, _ in expected))]
                    made, expected_views = [made], [wanted]
                else:
                    expected_views = [views for views, _ in expected]
                for views, others in zip(made, expected_views, strict=True):
                    for view, other in zip(views, others, strict=True):
                        if "normalize" in more:
                            other = numpy.stack([table[c][other[..., c]] for c in range(3)], axis=-1)
                        self.assertTrue(numpy.array_equal(view, other))
        with sluice.jax.Loader(self.root, 7, **options) as loader:
            for (views, _, _), (others, _) in zip(loader, expected):
                self.assertEqual(list(map(int, step(views))), [int(other.sum()) for other in others])
        with self.assertRaisesRegex(sluice.InvalidError, "batch_ops: Mix and RandomErasing are for one image"):
            sluice.jax.Loader(self.root, 7, batch_ops=[sluice.jax.RandomErasing()], **options)

    def test_targets_go_with_their_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder, "set")
            support.run("offload_dataset", "synth", root, "-n", "10", "--num-val", "0", "--classes", "1")
            paths = sorted(path.relative_to(root) for path in root.rglob("*.*"))

            def index(value):
                (root / "labels.csv").write_text("file_name,y\n" + "".join(
                    f"{path},{value(i)}\n" for i, path in enumerate(paths)))
                support.run("offload_dataset", "index", root, "--target", "y")

            def batches(**options):
                with sluice.jax.Loader(root, 4, targets=True, **OPTIONS, **options) as loader:
                    yield from loader

            for options in ({}, {"devices": jax.devices()}):
                index(lambda i: f"{i} {i}.5")
                for images, labels, targets, ids in batches(**options):  # of 4, 4, and 2 padded
                    self.assertEqual(len(images), len(targets))
                    self.assertEqual(targets.devices(), labels.devices())
                    wanted = numpy.stack([ids, ids + 0.5], axis=1).astype(numpy.float32)
                    self.assertTrue(numpy.array_equal(targets, wanted))
                index(lambda i: f"text {i}")
                for images, labels, targets, ids in batches(**options):
                    self.assertEqual(targets, [b"text %d" % i for i in ids])

    def test_images_of_a_gpu_are_copies_made_there(self):
        """With batches of the host in the place of a device's."""
        released = []

        class Batch:
            device = 0

            def __init__(self, batch):
                self.batch = batch

            def __getattr__(self, name):
                return getattr(self.batch, name)

            def release(self):
                released.append(self.batch.index)
                numpy.asarray(self.batch.pixels)[:] = 7  # as the next batch would
                self.batch.release()

        step = jax.jit(lambda images: images + 1, donate_argnums=0)
        for devices in (None, jax.devices()[1:2]):
            released.clear()
            with sluice.jax.Loader(self.root, 8, devices=devices, **OPTIONS) as loader:
                made_of = loader._made_of
                loader._made_of = lambda batch: made_of(Batch(batch))
                batches = []
                for images, labels, ids in loader:
                    kept = numpy.array(images)
                    step(images)  # which has its memory
                    batches.append((kept, labels, ids))
                    self.assertLessEqual(len(batches) - len(released), 2)
            self.assert_same(batches, self.expected())
            if devices:
                self.assertEqual(labels.devices(), set(devices))

    def test_the_cpu_stands_in_for_a_gpu(self):
        with support.the_cpu_stands_in(), \
                sluice.jax.Loader(self.root, 8, gpu_decode="on", **OPTIONS) as loader:
            batches = [tuple(numpy.array(array) for array in batch) for batch in loader]
            self.assertGreater(sum(loader.counters()["on_gpu"].values()), 0)
        self.assert_same(batches, self.expected())

    def test_a_gpu_is_for_one_device(self):
        with self.assertRaisesRegex(sluice.InvalidError, "gpu_decode: for one device"):
            sluice.jax.Loader(self.root, 8, devices=jax.local_devices(), gpu_decode="on", **OPTIONS)

    def test_an_iterator_is_put_back(self):
        with sluice.jax.Loader(self.root, 8, **OPTIONS) as loader:
            batches = iter(loader)
            next(batches)
            state = batches.get_state()
            self.assertIsInstance(state, bytes)
            rest = [ids.tolist() for _, _, ids in batches]
            batches.set_state(state)
            self.assertEqual([ids.tolist() for _, _, ids in batches], rest)

    def test_a_step_normalises_bit_for_bit(self):
        with sluice.jax.Loader(self.root, 8, **OPTIONS) as loader:
            table = sluice.jax.normalization(loader)
            images, _, _ = next(iter(loader))
        rows = numpy.asarray(images)
        wanted = numpy.stack([table[c][rows[..., c]] for c in range(3)], axis=-1)
        got = jax.jit(sluice.jax.normalize)(images, table)
        self.assertEqual(numpy.asarray(got).tobytes(), wanted.tobytes())
        half = sluice.jax.normalize(images, table, jax.numpy.float16)
        self.assertEqual(numpy.asarray(half).tobytes(), wanted.astype(numpy.float16).tobytes())

    def test_devices_share_the_rows(self):
        devices = jax.local_devices()
        self.assertEqual(len(devices), 4)
        with sluice.jax.Loader(self.root, 8, devices=devices, drop_last=True, **OPTIONS) as loader:
            batches = list(loader)
        gc.collect()
        wanted = self.expected(drop_last=True)
        self.assert_same(batches, wanted)
        for (images, labels, _), (rows, row_labels, _) in zip(batches, wanted):
            for array, whole in ((images, rows), (labels, row_labels)):
                self.assertEqual([shard.device for shard in array.addressable_shards], devices)
                for at, shard in enumerate(array.addressable_shards):
                    self.assertTrue(numpy.array_equal(shard.data, whole[2 * at:2 * at + 2]))

    def test_the_last_rows_are_repeated_to_share_them_evenly(self):
        wanted = self.expected()
        self.assertEqual(len(wanted[-1][1]), 2)  # of 50, 8 at a time
        with sluice.jax.Loader(self.root, 8, devices=jax.local_devices(), **OPTIONS) as loader:
            padded = []
            batches = []
            for batch in loader:
                batches.append(batch)
                padded.append(loader.num_padded)
        self.assertEqual(padded, [0] * 6 + [2])
        self.assert_same(batches[:-1], wanted[:-1])
        self.assert_same(batches[-1:], [[numpy.concatenate([array, array])
                                         for array in wanted[-1]]])

    def test_geometry_goes_with_its_rows(self):
        wanted = {}
        with sluice.numpy.Loader(self.root, 8, geometry=True, **OPTIONS) as loader:
            for _, _, ids, geometry in loader:
                wanted.update(zip(ids.tolist(), geometry["matrix"]))
        for options in ({}, {"devices": jax.local_devices()}):  # a last batch of 2, padded to 4
            with sluice.jax.Loader(self.root, 8, geometry=True, **OPTIONS, **options) as loader:
                for images, _, ids, geometry in loader:
                    self.assertEqual([len(array) for array in geometry.values()], [len(images)] * 4)
                    self.assertEqual(geometry["matrix"].tolist(), [wanted[i].tolist() for i in ids.tolist()])

    def test_a_sharding_may_repeat_rows_on_devices(self):
        mesh = Mesh(numpy.array(jax.devices()).reshape(2, 2), ("data", "model"))
        sharding = NamedSharding(mesh, P("data"))
        with sluice.jax.Loader(self.address, 8, sharding=sharding, **OPTIONS) as loader:
            batches = list(loader)
        self.assert_same(batches, self.expected())
        for images, labels, _ in batches:
            self.assertEqual(images.sharding, sharding)
            self.assertEqual(len({str(shard.index) for shard in labels.addressable_shards}), 2)

    def test_processes_have_their_rows_of_global_arrays(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        here = os.path.dirname(os.path.abspath(__file__))
        env = {**os.environ, "PYTHONPATH": os.pathsep.join([here, *filter(None, sys.path)]),
               "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, str(rank)) for rank in range(2)]
            ranks = [subprocess.Popen([sys.executable, "-c", PROCESS, str(rank), str(port),
                                       self.root, files[rank]], env=env) for rank in range(2)]
            self.assertEqual([rank.wait(timeout=300) for rank in ranks], [0, 0])
            outputs = [pathlib.Path(file).read_text().splitlines() for file in files]
        wanted = self.expected(drop_last=True)
        for rank, lines in enumerate(outputs):
            mine = slice(4 * rank, 4 * rank + 4)
            self.assertEqual([[int(word) for word in line.split()] for line in lines],
                             [[*ids[mine], *labels[mine], sum(labels)]
                              for _, labels, ids in wanted])

    def test_bad_shardings_are_refused(self):
        columns, rows = (NamedSharding(Mesh(numpy.array(jax.devices()), ("x",)), spec)
                         for spec in (P(None, "x"), P("x")))
        for words, options in (
                ("batch_size 6", {"devices": jax.devices()}),
                ("devices: none", {"devices": []}),
                ("one of them", {"devices": jax.devices(), "sharding": rows}),
                ("rows alone", {"sharding": columns}),
                ("rows alone", {"sharding": "x"})):
            with self.subTest(words), self.assertRaisesRegex(sluice.InvalidError, words):
                sluice.jax.Loader(self.root, 6, **options)


class GpuTest(support.SetTest):
    """On a GPU that JAX has: JAX_PLATFORMS=cuda,cpu test_jax.py GpuTest."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if jax.default_backend() != "gpu":
            raise unittest.SkipTest("JAX has no GPU here")
        try:
            sluice.jax.Loader(cls.root, 8, gpu_decode="on", **OPTIONS).close()
        except sluice.UnsupportedError as error:
            raise unittest.SkipTest(str(error)) from error

    def expected(self, **options):
        with sluice.numpy.Loader(self.root, 8, **OPTIONS, **options) as loader:
            return [tuple(array.copy() for array in batch) for batch in loader]

    def test_the_same_bits_as_without(self):
        wanted = self.expected(repeat=4)
        for gpu_decode in ("on", "off"):
            with self.subTest(gpu_decode=gpu_decode), \
                    sluice.jax.Loader(self.root, 8, gpu_decode=gpu_decode, repeat=4,
                                      **OPTIONS) as loader:
                batches = list(loader)
                self.assertEqual(sum(loader.counters()["on_gpu"].values()) > 0, gpu_decode == "on")
            self.assertEqual(len(batches), len(wanted))
            for batch, others in zip(batches, wanted):
                for array, other in zip(batch, others):
                    self.assertTrue(numpy.array_equal(numpy.asarray(array), other))
            for array in batch[:2]:
                self.assertEqual({device.platform for device in array.devices()}, {"gpu"})

    def test_a_late_step_sees_each_batch_whole(self):
        """The host runs ahead of the steps: no memory is used anew before they have read it."""
        @jax.jit
        def step(images, total):
            for _ in range(4):  # which keeps the device busy for longer than a batch takes
                heavy = jax.numpy.ones((1024, 1024), jax.numpy.float32) * images.ravel()[0]
                total = total + (heavy @ heavy)[0, 0].astype(jax.numpy.uint32) * 0
            return total + images.astype(jax.numpy.uint32).sum()

        wanted = [images.astype(numpy.uint64).sum() for images, _, _ in self.expected(repeat=8)]
        for gpu_decode in ("on", "off"):
            with self.subTest(gpu_decode=gpu_decode), \
                    sluice.jax.Loader(self.root, 8, gpu_decode=gpu_decode, repeat=8,
                                      **OPTIONS) as loader:
                sums = [step(images, jax.numpy.uint32(0)) for images, _, _ in loader]
            self.assertEqual([int(total) for total in sums], [int(total) for total in wanted])

    def test_a_step_normalises_bit_for_bit(self):
        with sluice.jax.Loader(self.root, 8, gpu_decode="on", **OPTIONS) as loader:
            table = sluice.jax.normalization(loader)
            images, _, _ = next(iter(loader))
            rows = numpy.asarray(images)
            got = numpy.asarray(jax.jit(sluice.jax.normalize)(images, table))
        wanted = numpy.stack([table[c][rows[..., c]] for c in range(3)], axis=-1)
        self.assertEqual(got.tobytes(), wanted.tobytes())


class GrainTest(support.SetTest):
    """As Grain's own checkpoints use its iterators."""

    def test_a_checkpoint_of_grain_puts_it_back(self):
        try:
            import grain.checkpoint
        except ImportError as error:
            self.skipTest(f"grain is missing ({error})")
        with sluice.jax.Loader(self.root, 8, **OPTIONS) as loader, \
                tempfile.TemporaryDirectory() as folder:
            batches = iter(loader)
            next(batches)
            handler = grain.checkpoint.CheckpointHandler()
            handler.save(pathlib.Path(folder), batches)
            rest = [ids.tolist() for _, _, ids in batches]
            restored = handler.restore(pathlib.Path(folder), iter(loader))
            self.assertEqual([ids.tolist() for _, _, ids in restored], rest)


if __name__ == "__main__":
    support.main()
