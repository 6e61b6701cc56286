#!/usr/bin/env python3
"""sluice.torch: tensors that are the library's memory, normalisation bit for bit as torchvision's,
and the same on a GPU where there is one."""
import contextlib
import gc
import random
import threading
import time
import unittest
from unittest import mock

import support

support.require("numpy", "torch")

import torch

import sluice
import sluice.torch

BATCH = 8
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def load(source, **options):
    options = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, **options}
    return sluice.torch.Loader(source, BATCH, **options)


def normalized(u8):
    """What torchvision's ToTensor and Normalize compute."""
    mean, std = (torch.tensor(v, dtype=torch.float32).view(1, 3, 1, 1) for v in (MEAN, STD))
    return u8.contiguous().to(torch.float32).div(255).sub(mean).div(std)


class TorchTest(support.SetTest):
    def test_images_are_the_memory_of_the_batch(self):
        with load(self.root) as loader:
            loader._loader.start()
            batch = loader._loader.next()
            images, labels = loader._made_of(batch)
            self.assertEqual(images.data_ptr(), batch.pixels.address)
            self.assertEqual(labels.data_ptr(), batch.labels.address)
            self.assertEqual(images.dtype, torch.uint8)
            self.assertEqual(images.shape, (BATCH, 3, 64, 64))
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))

    def test_a_view_of_a_row_keeps_its_batch(self):
        with load(self.root) as loader:
            whole = [images.clone() for images, _ in loader]
            loader.set_epoch(0)
            rows = [images[-1] for images, _ in loader]
        gc.collect()
        for row, images in zip(rows, whole):
            self.assertTrue(torch.equal(row, images[-1]))

    def test_ids_and_paths_come_with_the_rows(self):
        with load(self.address, sample_ids=True, paths=True) as loader:
            for images, labels, ids, paths in loader:
                self.assertEqual(ids.dtype, torch.int64)
                self.assertEqual(len(images), len(paths))
                self.assertEqual(paths, [loader.path(i) for i in ids])

    def test_normalised_images_are_those_of_torchvision(self):
        with load(self.root) as loader:
            expected = [normalized(images) for images, _ in loader]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for channels_last in (False, True):
                with self.subTest(dtype=dtype, channels_last=channels_last), \
                        load(self.address, normalize=True, dtype=dtype,
                             channels_last=channels_last) as loader:
                    layout = torch.channels_last if channels_last else torch.contiguous_format
                    batches = list(loader)
                    self.assertEqual(len(batches), len(expected))
                    for (images, _), wanted in zip(batches, expected):
                        self.assertEqual(images.dtype, dtype)
                        self.assertTrue(images.is_contiguous(memory_format=layout))
                        self.assertTrue(torch.equal(images, wanted.to(dtype)))

    def test_memory_of_normalised_images_is_used_anew(self):
        with load(self.root, normalize=True, repeat=4) as loader:
            seen = {images.data_ptr() for images, _ in loader}
            self.assertGreater(len(loader), 20)
            self.assertLessEqual(len(seen), 3)
            loader.set_epoch(0)
            held = [images for images, _ in loader]
            loader.set_epoch(0)
            for images, (again, _) in zip(held, loader):
                self.assertTrue(torch.equal(images, again))
        self.assertEqual(len({images.data_ptr() for images in held}), len(held))

    def test_transforms_get_the_batch(self):
        with load(self.root, transform=lambda images: images[:, :, ::2],
                  target_transform=lambda labels: labels + 100) as loader:
            images, labels = next(iter(loader))
        self.assertEqual(images.shape, (BATCH, 3, 32, 64))
        self.assertTrue((labels >= 100).all())

    def test_a_sampler_of_torch_decides(self):
        sampler = torch.utils.data.SubsetRandomSampler(range(20))
        with load(self.root, sampler=sampler, sample_ids=True) as loader:
            self.assertEqual(len(loader), 3)
            seen = torch.cat([ids for _, _, ids in loader])
        self.assertEqual(len(set(seen.tolist())), 20)

    def test_a_distributed_sampler_deals_out_and_follows_the_epoch(self):
        ranks = []
        for rank in range(2):
            sampler = torch.utils.data.DistributedSampler(range(support.NUM_TRAIN), num_replicas=2,
                                                          rank=rank, seed=5)
            with load(self.root, sampler=sampler, sample_ids=True) as loader:
                self.assertEqual(len(loader), -(-support.NUM_TRAIN // 2 // BATCH))
                epochs = [torch.cat([ids for _, _, ids in loader]).tolist() for _ in range(2)]
                loader.set_epoch(0)
                epochs.append(torch.cat([ids for _, _, ids in loader]).tolist())
                self.assertEqual(sampler.epoch, 0)
            self.assertNotEqual(epochs[0], epochs[1])
            self.assertEqual(epochs[0], epochs[2])
            ranks.append(epochs)
        for mine, others in zip(*ranks):
            self.assertEqual(len({*mine, *others}), support.NUM_TRAIN)

    def test_a_random_sampler_is_that_of_its_generator(self):
        def sampler():
            return torch.utils.data.RandomSampler(range(support.NUM_TRAIN),
                                                  generator=torch.Generator().manual_seed(9))

        with load(self.root, sampler=sampler(), sample_ids=True, drop_last=True) as loader:
            self.assertEqual(len(loader), support.NUM_TRAIN // BATCH)
            seen = torch.cat([ids for _, _, ids in loader])
        with load(self.root, shuffle=False, sample_ids=True) as loader:
            in_turn = torch.cat([ids for _, _, ids in loader])
        self.assertEqual(seen.tolist(), in_turn[list(sampler())][:len(seen)].tolist())

    def test_a_worker_of_a_data_loader_is_refused(self):
        class Wrapped(torch.utils.data.IterableDataset):
            def __init__(self, loader):
                self.loader = loader

            def __iter__(self):
                return iter(self.loader)

        with load(self.root) as loader:
            def rows(dataset, num_workers):
                return sum(len(labels) for _, labels in torch.utils.data.DataLoader(
                    dataset, batch_size=None, num_workers=num_workers))

            with self.assertRaisesRegex(sluice.InvalidError, "did not survive fork"):
                rows(Wrapped(loader), 1)
            with self.assertRaisesRegex(TypeError, "iterate over it"):
                rows(loader, 0)
            self.assertEqual(rows(Wrapped(loader), 0), support.NUM_TRAIN)

    def test_a_dtype_needs_normalisation(self):
        with self.assertRaisesRegex(sluice.InvalidError, "normalize"):
            load(self.root, dtype=torch.float16)


class FakeStream:
    """As much of torch.cuda.Stream as the loader uses."""
    last = 0

    def __init__(self, device=None):
        FakeStream.last += 1
        self.cuda_stream, self.follows = FakeStream.last, []

    def wait_stream(self, other):
        self.follows.append(other)


class SeenBatch:
    """A batch of the host that the loader takes for one on a device; notes its release."""

    def __init__(self, batch, released):
        self._batch, self._released = batch, released

    def __getattr__(self, name):
        return getattr(self._batch, name)

    def release_after(self, stream):
        self._released.append((self._batch.index, stream))
        self._batch.release_after(stream)


class SeenLoader:
    def __init__(self, loader, released):
        self._loader, self._released = loader, released

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def next(self):
        batch = self._loader.next()
        return batch and SeenBatch(batch, self._released)


class LentTest(support.SetTest):
    """When batches on a device go back, and after what: with batches of the host, and streams that
    note who waits for whom."""

    def setUp(self):
        self.stream = FakeStream()
        self.capturing = None
        entered = []

        @contextlib.contextmanager
        def enter(stream):
            entered.append(stream)
            yield
            entered.pop()

        context = contextlib.ExitStack()
        self.addCleanup(context.close)
        context.enter_context(mock.patch.multiple(
            torch.cuda, Stream=FakeStream, current_stream=lambda device: self.stream, stream=enter,
            is_current_stream_capturing=lambda: entered[-1] is self.capturing))
        context.enter_context(mock.patch.object(torch.Tensor, "record_stream",
                                                lambda tensor, stream: None))
        self.released = []

    def load(self, **options):
        loader = load(self.root, **options)
        self.addCleanup(loader.close)
        loader._loader = SeenLoader(loader._loader, self.released)
        loader._is_on_device, loader._device = True, torch.device("cpu")
        loader._stream = FakeStream()
        return loader

    def test_a_batch_goes_after_the_stream_that_it_was_yielded_on(self):
        batches = iter(self.load())
        first, _ = next(batches)
        second, _ = next(batches)
        view = first[0, 0, 0]
        del first
        next(batches)
        self.assertEqual(self.released, [])  # a view holds it
        del view
        next(batches)
        # The one before was dropped, too, but not before it was asked for the next.
        self.assertEqual(self.released, [(0, self.stream.cuda_stream),
                                         (2, self.stream.cuda_stream)])
        self.assertEqual(self.stream.follows[0].cuda_stream, self.stream.cuda_stream + 1)  # labels

    def test_a_stream_used_later_is_waited_for_too(self):
        loader = self.load()
        batches = iter(loader)
        images, _ = next(batches)
        before, self.stream = self.stream, FakeStream()
        del images
        next(batches)
        self.assertEqual(self.released, [(0, loader._after.cuda_stream)])
        self.assertEqual(loader._after.follows, [before, self.stream])
        self.assertNotIn(before, loader._stream.follows)  # labels wait for nothing

    def test_nothing_goes_into_a_graph(self):
        batches = iter(self.load())
        images, _ = next(batches)
        del images
        self.capturing = self.stream
        next(batches)
        self.assertEqual(self.released, [])
        self.stream = FakeStream()
        next(batches)
        self.assertEqual(self.released, [])
        self.capturing = None
        next(batches)
        self.assertEqual([index for index, _ in self.released], [0, 1, 2])

    def test_rows_that_a_transform_copied_go_at_once(self):
        with load(self.root) as loader:
            expected = [(images.clone(), labels.clone()) for images, labels in loader]
        held = []
        for images, labels in self.load(transform=torch.clone):
            held.append((images, labels))
            self.assertEqual(len(self.released), len(held))
        for batch, wanted in zip(held, expected):
            for tensor, other in zip(batch, wanted):
                self.assertTrue(torch.equal(tensor, other))

    def test_rows_are_held_past_the_loader(self):
        with load(self.root) as loader:
            expected = next(iter(loader))[0].clone()
        loader = self.load()
        images, _ = next(iter(loader))
        loader.close()
        self.assertEqual(self.released, [])
        self.assertTrue(torch.equal(images, expected))


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class CudaTest(support.SetTest):
    def test_a_gpu_has_the_same_bits(self):
        with load(self.root) as loader:
            expected = [(normalized(images), labels.clone()) for images, labels in loader]
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for channels_last in (False, True):
                with self.subTest(dtype=dtype, channels_last=channels_last), \
                        load(self.root, device="cuda", dtype=dtype,
                             channels_last=channels_last) as loader:
                    batches = list(loader)
                    self.assertEqual(len(batches), len(expected))
                    for (images, labels), (wanted, wanted_labels) in zip(batches, expected):
                        self.assertTrue(images.is_cuda and labels.is_cuda)
                        self.assertTrue(torch.equal(images.cpu(), wanted.to(dtype)))
                        self.assertTrue(torch.equal(labels.cpu(), wanted_labels))

    def test_u8_on_a_gpu(self):
        with load(self.root, sample_ids=True) as loader:
            expected = [(images.clone(), labels.clone(), ids.clone())
                        for images, labels, ids in loader]
        with load(self.address, sample_ids=True, device="cuda", normalize=False,
                  gpu_decode="off") as loader:
            batches = list(loader)
        self.assertEqual(len(batches), len(expected))
        for batch, wanted in zip(batches, expected):
            self.assertTrue(batch[0].is_contiguous(memory_format=torch.channels_last))
            for tensor, other in zip(batch, wanted):
                self.assertTrue(tensor.is_cuda)
                self.assertTrue(torch.equal(tensor.cpu(), other))

    def test_a_slow_gpu_sees_each_batch_whole(self):
        """The host runs ahead: no memory is used again before the GPU is done with it."""
        with load(self.root, repeat=4) as loader:
            expected = [normalized(images) for images, _ in loader]
        with load(self.root, repeat=4, device="cuda", prefetch_bytes="1MiB",
                  gpu_decode="off") as loader:
            seen = []
            for images, _ in loader:
                torch.cuda._sleep(20_000_000)
                seen.append(images.clone())
                del images
        self.assertEqual(len(seen), len(expected))
        for images, wanted in zip(seen, expected):
            self.assertTrue(torch.equal(images.cpu(), wanted))

    def test_a_state_is_that_of_the_batch_yielded(self):
        with load(self.root, sample_ids=True) as loader:
            expected = [ids.tolist() for _, _, ids in loader]
        with load(self.root, sample_ids=True, device="cuda") as loader:
            batches = iter(loader)
            for i in range(3):
                self.assertEqual(next(batches)[2].tolist(), expected[i])
            state = loader.state_dict()
        with load(self.address, sample_ids=True, device="cuda") as loader:
            loader.load_state_dict(state)
            self.assertEqual([ids.tolist() for _, _, ids in loader], expected[3:])

    def test_transforms_get_the_batch_on_the_gpu(self):
        with load(self.root, device="cuda", transform=lambda images: images[:, :, ::2],
                  target_transform=lambda labels: labels + 100) as loader:
            images, labels = next(iter(loader))
        self.assertTrue(images.is_cuda and labels.is_cuda)
        self.assertEqual(images.shape, (BATCH, 3, 32, 64))
        self.assertTrue((labels >= 100).all())

    def test_memory_is_page_locked(self):
        with load(self.root, pin_memory=True) as loader:
            images, _ = next(iter(loader))
            self.assertTrue(images.is_pinned())

    def test_uploads_are_from_few_page_locked_blocks(self):
        with load(self.root, device="cuda", prefetch_bytes="1MiB", gpu_decode="off") as loader:
            upload, blocks = loader._upload, {}

            def see(batch, targets):
                pixels = torch.from_dlpack(batch.pixels)
                blocks[pixels.data_ptr()] = pixels.is_pinned()
                return upload(batch, targets)

            loader._upload = see
            num_batches = sum(1 for _ in range(10) for _ in loader)
        self.assertEqual(num_batches, 10 * 7)
        self.assertTrue(all(blocks.values()))
        self.assertLess(len(blocks), 12)  # 512 KiB of batches, and those that are under way


@unittest.skipUnless(torch.cuda.is_available(), "no GPU")
class DecodeCudaTest(support.SetTest):
    """Decoding on the GPU, against the same loader without."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        try:
            cls.on(normalize=False).close()
        except sluice.UnsupportedError as error:
            raise unittest.SkipTest(str(error)) from error

    @classmethod
    def on(cls, source=None, **options):
        return load(source or cls.root, **{"device": "cuda", "gpu_decode": "on", **options})

    def expected(self, epochs=1, **options):
        """Clones on the GPU, of (images, labels)."""
        with load(self.root, **{"device": "cuda", "gpu_decode": "off", "normalize": False,
                                **options}) as loader:
            self.assertEqual(loader._loader.device(), -1)
            return [tuple(tensor.clone() for tensor in batch)
                    for _ in range(epochs) for batch in loader]

    def assert_same(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for batch, others in zip(batches, wanted):
            for tensor, other in zip(batch, others):
                self.assertTrue(tensor.is_cuda)
                self.assertEqual((tensor.dtype, tensor.stride()), (other.dtype, other.stride()))
                self.assertTrue(torch.equal(tensor, other))

    def test_the_same_bits_as_without(self):
        forms = [{"normalize": False}] + [
            {"normalize": True, "dtype": dtype, "channels_last": channels_last}
            for dtype in (torch.float32, torch.float16, torch.bfloat16)
            for channels_last in (False, True)]
        for form in forms:
            wanted = self.expected(**form)
            for source, mode in ((self.root, None), (self.address, "remote_nooff"),
                                 (self.address, "remote_auto")):
                with self.subTest(mode=mode, **form), \
                        self.on(source, mode=mode, **form) as loader:
                    self.assertEqual(loader._loader.device(), torch.cuda.current_device())
                    self.assert_same([tuple(tensor.clone() for tensor in batch)
                                      for batch in loader], wanted)
                    if mode != "remote_auto":  # whose plan decides
                        self.assertGreater(sum(loader.counters()["on_gpu"].values()), 0)

    def test_u8_images_are_the_block(self):
        with self.on(normalize=False) as loader:
            loader._loader.start()
            batch = loader._loader.next()
            self.assertEqual(batch.pixels.__dlpack_device__(), (2, torch.cuda.current_device()))
            images, _ = loader._made_of(batch)
            self.assertEqual(images.data_ptr(), batch.pixels.address)
            self.assertTrue(images.is_contiguous(memory_format=torch.channels_last))
            self.assertEqual(torch.as_tensor(batch.pixels, device="cuda").data_ptr(),
                             batch.pixels.address)
            del images, batch
            loader._loader.finish()

    def test_a_block_is_not_used_anew_before_the_gpu_is_done_with_it(self):
        wanted = self.expected(repeat=8)
        for transform in (None, lambda images: images[:, :, ::2]):
            with self.subTest(transform=transform), \
                    self.on(normalize=False, repeat=8, transform=transform) as loader:
                seen = []
                for images, labels in loader:
                    torch.cuda._sleep(20_000_000)
                    seen.append((images.clone(), labels))
                    del images
            if transform:
                wanted = [(transform(images).clone(), labels) for images, labels in wanted]
            self.assert_same(seen, wanted)

    def test_a_normalisation_that_is_late_reads_the_right_rows(self):
        wanted = self.expected(repeat=8, normalize=True)
        with self.on(repeat=8) as loader:
            seen, batches = [], iter(loader)
            while True:
                torch.cuda._sleep(20_000_000)
                batch = next(batches, None)
                if batch is None:
                    break
                seen.append(batch)
        self.assert_same(seen, wanted)

    def test_streams_that_take_turns(self):
        wanted = self.expected(repeat=8)
        streams = [torch.cuda.Stream() for _ in range(2)]
        with self.on(normalize=False, repeat=8) as loader:
            seen, batches = [], iter(loader)
            for turn in range(len(wanted)):
                with torch.cuda.stream(streams[turn % 2]):
                    images, labels = next(batches)
                    torch.cuda._sleep(10_000_000)
                    seen.append((images.clone(), labels))
                    del images
            self.assertIsNone(next(batches, None))
        torch.cuda.synchronize()
        self.assert_same(seen, wanted)

    def test_a_stream_beside_the_current_one(self):
        wanted = self.expected(repeat=8)
        side, current = torch.cuda.Stream(), torch.cuda.current_stream()
        with self.on(normalize=False, repeat=8) as loader:
            seen = []
            for images, labels in loader:
                side.wait_stream(current)
                with torch.cuda.stream(side):
                    torch.cuda._sleep(10_000_000)
                    seen.append((images.clone(), labels))
                current.wait_stream(side)
                del images
        torch.cuda.synchronize()
        self.assert_same(seen, wanted)

    def test_50_epochs_of_holding_at_random_take_no_more_memory(self):
        wanted = self.expected(epochs=2)
        draw = random.Random(7)
        held, free = [], []
        with self.on(normalize=False) as loader:
            for epoch in range(50):
                loader.set_epoch(epoch % 2)
                for at, batch in enumerate(loader, len(wanted) // 2 * (epoch % 2)):
                    held.append((batch, wanted[at]))
                    while len(held) > draw.randrange(1, 4):
                        batch, other = held.pop(draw.randrange(len(held)))
                        self.assert_same([batch], [other])
                    del batch
                free.append(torch.cuda.mem_get_info()[0])
        for batch, other in held:  # past the loader
            self.assert_same([batch], [other])
        self.assertLess(free[4] - free[-1], 16 << 20)

    def test_memory_is_bounded_and_given_back(self):
        self.on(normalize=False).close()  # what CUDA itself needs stays
        before = torch.cuda.mem_get_info()[0]
        with self.on(normalize=False, gpu_memory="256MiB") as loader:
            for images, _ in loader:
                del images
            self.assertLess(before - torch.cuda.mem_get_info()[0], 300 << 20)
        self.assertLess(before - torch.cuda.mem_get_info()[0], 32 << 20)

    def test_who_holds_every_block_is_told_and_goes_on(self):
        wanted = self.expected(repeat=2)
        with self.on(normalize=False, repeat=2) as loader:
            held = []
            with self.assertRaisesRegex(MemoryError, "held"):
                for batch in loader:
                    held.append(batch)
            self.assertEqual(len(held), 7)
            self.assert_same(held, wanted[:7])
            state = loader.state_dict()
            held.clear()
            del batch
            loader.load_state_dict(state)
            self.assert_same([(images.clone(), labels) for images, labels in loader], wanted[7:])

    def test_a_graph_is_recorded_while_loaders_work(self):
        wanted = self.expected(repeat=8)
        beside = sluice._sluice.Loader({
            "dir": self.root, "dataset-mode": "local", "batch-size": str(BATCH), "repeat": "1000",
            "pipeline": support.PIPELINE, "gpu-decode": "on",
            "gpu-device": str(torch.cuda.current_device())})
        beside.open()
        beside.start()
        given, done = [0], threading.Event()

        def work():
            while not done.is_set():
                beside.next().release()
                given[0] += 1

        thread = threading.Thread(target=work)
        thread.start()
        try:
            with self.on(normalize=False, repeat=8) as loader:
                batches = iter(loader)
                images, labels = next(batches)
                static = torch.empty_like(images)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    before = given[0]
                    doubled = static.to(torch.float32) * 2
                    while given[0] < before + 10:
                        time.sleep(0.001)
                seen = []
                while images is not None:
                    static[:len(images)].copy_(images)
                    graph.replay()
                    seen.append((doubled[:len(images)].clone(), labels))
                    images, labels = next(batches, (None, None))
        finally:
            done.set()
            thread.join()
            beside.close()
        self.assert_same(seen, [(images.to(torch.float32) * 2, labels)
                                for images, labels in wanted])

    def test_a_batch_dropped_while_a_graph_is_recorded_goes_back_later(self):
        wanted = self.expected(repeat=8)
        static = torch.zeros(1000, device="cuda")
        with self.on(normalize=False, repeat=8) as loader:
            seen, last = [], None
            for images, labels in loader:
                seen.append((images.clone(), labels))
                with torch.cuda.graph(torch.cuda.CUDAGraph()):
                    static.add_(1)
                    last = images
                    loader._take_back()
            del images, last
        self.assert_same(seen, wanted)

    @unittest.skipIf(torch.cuda.device_count() < 2, "one GPU")
    def test_loaders_on_several_devices(self):
        wanted = self.expected()
        loaders = [self.on(normalize=False, device=f"cuda:{device}") for device in range(2)]
        for device, loader in enumerate(loaders):
            self.assertEqual(loader._loader.device(), device)
        for first, second, other in zip(*loaders, wanted):
            for device, batch in enumerate((first, second)):
                self.assertEqual(batch[0].device.index, device)
                self.assert_same([[tensor.to(other[0].device) for tensor in batch]], [other])
        for loader in loaders:
            loader.close()

    def test_a_device_is_needed_for_it(self):
        for device in (None, "cpu"):
            with self.assertRaisesRegex(sluice.InvalidError, "gpu_decode.*cuda"):
                load(self.root, device=device, gpu_decode="on")


class StandInTest(support.SetTest):
    """Decoding on the GPU, for which the CPU stands in."""

    def expected(self, source, **options):
        with load(source, sample_ids=True, **options) as loader:
            batches = [tuple(tensor.clone() for tensor in batch) for batch in loader]
            return batches, loader.stats()["digest"]

    def assert_same(self, batches, wanted):
        self.assertEqual(len(batches), len(wanted))
        for batch, others in zip(batches, wanted):
            for tensor, other in zip(batch, others):
                self.assertTrue(torch.equal(tensor, other))

    def test_batches_and_digest_are_those_of_the_cpu(self):
        for source, mode in ((self.root, None), (self.address, "remote_nooff"),
                             (self.address, "remote_auto")):
            options = {"mode": mode, "digest": "true"}
            wanted, digest = self.expected(source, **options)
            with self.subTest(mode=mode), support.the_cpu_stands_in(), \
                    load(source, sample_ids=True, gpu_decode="on", **options) as loader:
                self.assertEqual(loader._loader.device(), -1)
                self.assert_same([tuple(tensor.clone() for tensor in batch) for batch in loader],
                                 wanted)
                stats, counters = loader.stats(), loader.counters()
                self.assertEqual(stats["digest"], digest)
                self.assertEqual(stats["samples"], support.NUM_TRAIN)
                self.assertEqual(sum(count for name, count in stats["choices"].items()
                                     if name.endswith("+gpu")),
                                 sum(counters["on_gpu"].values()))
                on_gpu, split_0 = (sum(counts.values()) for counts in (counters["on_gpu"], {
                    name: count for name, count in counters["choices"].items()
                    if name in ("raw@0", "jpeg_crop@0")}))
                self.assertLessEqual(on_gpu, split_0)
                if mode != "remote_auto":  # whose plan decides
                    self.assertGreater(2 * on_gpu, support.NUM_TRAIN)

    def test_normalised_images_are_the_same(self):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for channels_last in (False, True):
                options = {"normalize": True, "dtype": dtype, "channels_last": channels_last}
                wanted, _ = self.expected(self.root, **options)
                with self.subTest(**options), support.the_cpu_stands_in(), \
                        load(self.root, sample_ids=True, gpu_decode="on", **options) as loader:
                    self.assert_same([(images, labels.clone(), ids.clone())
                                      for images, labels, ids in loader], wanted)

    def test_blocks_are_used_anew_and_held_ones_are_not(self):
        wanted, _ = self.expected(self.root, repeat=4)
        draw = random.Random(5)
        with support.the_cpu_stands_in(), load(self.root, repeat=4, sample_ids=True,
                                       gpu_decode="on") as loader:
            seen, held = set(), {}
            for index, (images, _, _) in enumerate(loader):
                seen.add(images.data_ptr())
                held[index] = images
                while len(held) > 3:
                    at = draw.choice(list(held))
                    self.assertTrue(torch.equal(held.pop(at), wanted[at][0]))
        self.assertEqual(len(wanted), 25)
        self.assertLessEqual(len(seen), 7)
        gc.collect()
        for at, images in held.items():  # past the loader
            self.assertTrue(torch.equal(images, wanted[at][0]))

    def test_who_holds_every_block_is_told_and_goes_on(self):
        wanted, _ = self.expected(self.root, repeat=2)
        with support.the_cpu_stands_in(), load(self.root, repeat=2, sample_ids=True,
                                               gpu_decode="on") as loader:
            held = []
            with self.assertRaisesRegex(MemoryError, "held.*release one"):
                for batch in loader:
                    held.append(batch)
            self.assertEqual(len(held), 7)
            self.assert_same(held, wanted[:7])
            state = loader.state_dict()
            held.clear()
            del batch
            loader.load_state_dict(state)
            self.assert_same(list(loader), wanted[7:])

    def test_a_state_fits_either_place(self):
        wanted, _ = self.expected(self.root)
        with support.the_cpu_stands_in(), load(self.root, sample_ids=True, gpu_decode="on") as loader:
            batches = iter(loader)
            self.assert_same([next(batches), next(batches)], wanted[:2])
            state = loader.state_dict()
        with load(self.address, sample_ids=True) as loader:
            loader.load_state_dict(state)
            self.assert_same([tuple(tensor.clone() for tensor in batch) for batch in loader],
                             wanted[2:])

    def test_val_and_the_later_epochs_too(self):
        for part in ("train", "val"):
            wanted = []
            with load(self.root, part=part) as loader:
                for _ in range(3):
                    wanted += [images.clone() for images, _ in loader]
            with support.the_cpu_stands_in(), load(self.root, part=part, gpu_decode="on") as loader:
                seen = [images.clone() for _ in range(3) for images, _ in loader]
            self.assertEqual(len(seen), len(wanted))
            for images, others in zip(seen, wanted):
                self.assertTrue(torch.equal(images, others))

    def test_a_transform_gets_the_rows(self):
        wanted, _ = self.expected(self.root)
        with support.the_cpu_stands_in(), load(self.root, gpu_decode="on",
                                       transform=lambda images: images[:, :, ::2]) as loader:
            for (images, _), (others, _, _) in zip(loader, wanted):
                self.assertTrue(torch.equal(images, others[:, :, ::2]))


class CorruptStandInTest(support.CorruptSetTest):
    def test_a_sample_that_cannot_be_read_is_left_out_as_without(self):
        for source in (self.root, self.address):
            with load(source, sample_ids=True) as loader:
                wanted = [(images.clone(), ids.tolist()) for images, _, ids in loader]
            with support.the_cpu_stands_in(), load(source, sample_ids=True, gpu_decode="on") as loader:
                self.assertEqual(len(loader), len(wanted))
                for (images, _, ids), (others, other_ids) in zip(loader, wanted):
                    self.assertEqual(ids.tolist(), other_ids)
                    self.assertTrue(torch.equal(images, others))
                self.assertEqual(loader.stats()["error_samples"][0]["path"], self.corrupt)


class NoCudaTest(support.SetTest):
    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_without_a_gpu_auto_decodes_here_and_on_says_why_not(self):
        with load(self.root, gpu_decode="auto") as loader:
            self.assertEqual(loader._loader.device(), -1)
            self.assertEqual(sum(len(labels) for _, labels in loader), support.NUM_TRAIN)
            self.assertEqual(loader.counters()["on_gpu"], {})
        with self.assertRaisesRegex(sluice.UnsupportedError, "gpu-decode.*CUDA"):
            load(self.root, gpu_decode="on")
        with self.assertRaisesRegex(sluice.InvalidError, "gpu-decode"):
            load(self.root, gpu_decode="maybe")

    @unittest.skipIf(torch.cuda.is_available(), "there is a GPU")
    def test_page_locked_memory_without_a_driver_is_refused(self):
        with self.assertRaisesRegex(sluice.Error, "CUDA"):
            sluice._sluice.Loader({"dir": self.root}, 0)
        for options in ({"pin_memory": True}, {"device": "cuda"}, {"device": "cuda:1"}):
            with self.assertRaisesRegex(sluice.InvalidError,
                                        f"{next(iter(options))}.*no GPU.*leave it out"):
                load(self.root, **options)


if __name__ == "__main__":
    support.main()
