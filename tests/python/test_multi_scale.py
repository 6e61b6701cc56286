"""multi_scale: every batch has one size, which follows from seed, epoch and the batch's number alone: not from the rank,
nor from where a run resumes."""
import tempfile
import unittest

import support

support.require("numpy", "torch")

import numpy

import sluice
import sluice.numpy
import sluice.torch

NUM = 50
SIDES = [32, 48, 64, 80, 96]
PIPELINE = "decode,hflip,multi_scale=32-96/5:base=64:weight=2:epochs=epoch<4,to_tensor,normalize=imagenet"


class MultiScaleTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-multi-scale-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = folder.name
        support.run("offload_dataset", "synth", cls.root, "-n", NUM, "--num-val", 7, "--classes", 3)

    def loader(self, batch_size, source=None, seed=5, **options):
        return sluice.numpy.Loader(source or self.root, batch_size, seed=seed, pipeline=PIPELINE, sample_ids=True,
                                   workers=2, **options)

    @staticmethod
    def batches(loader, num=None):
        """(ids, the images' shape, their bytes) of each."""
        made = []
        for images, _, ids in loader:
            made.append((ids.tolist(), images.shape[1:], images.tobytes()))
            if len(made) == num:
                break
        return made

    def epoch(self, number, batch_size=5, **options):
        with self.loader(batch_size, **options) as loader:
            loader.set_epoch(number)
            return self.batches(loader)

    def test_sizes_differ_from_batch_to_batch(self):
        sizes = []
        for epoch in range(4):
            batches = self.epoch(epoch)
            self.assertEqual(sorted(i for ids, _, _ in batches for i in ids), list(range(NUM)))
            for _, (height, width, _), _ in batches:
                self.assertEqual(height, width)
                self.assertIn(height, SIDES)
                sizes.append(height)
        self.assertEqual(set(sizes), set(SIDES))
        self.assertNotEqual(sizes[:10], sizes[10:20])
        self.assertNotEqual(sizes[:10], [shape[0] for _, shape, _ in self.epoch(0, seed=6)])
        self.assertEqual({shape[0] for _, shape, _ in self.epoch(4)}, {64})

    def test_the_loader_tells_its_sizes(self):
        with self.loader(5) as loader:
            self.assertEqual(loader.info["buckets"], [[side, side] for side in SIDES])
        with self.loader(5, part="val") as loader:
            self.assertEqual({shape for _, shape, _ in self.batches(loader)}, {(64, 64, 3)})

    def test_ranks_have_the_batches_of_one(self):
        want = self.epoch(1, batch_size=6)
        for world_size in (2, 3):
            ranks = [self.epoch(1, batch_size=6 // world_size, rank=rank, world_size=world_size)
                     for rank in range(world_size)]
            for number, (ids, shape, pixels) in enumerate(want):
                parts = [batches[number] for batches in ranks]
                self.assertEqual({part[1] for part in parts}, {shape})
                self.assertEqual(sum((part[0] for part in parts), [])[:len(ids)], ids)
                self.assertTrue(b"".join(part[2] for part in parts).startswith(pixels))

    def test_a_run_resumes_with_the_same_sizes(self):
        want = self.epoch(2, batch_size=4)
        with support.Server(self.root) as server:
            for at in (1, 5, len(want) - 1):
                with self.loader(4) as loader:
                    loader.set_epoch(2)
                    self.assertEqual(self.batches(loader, at), want[:at])
                    state = loader.state_dict()
                for world_size in (1, 2):
                    ranks = []
                    for rank in range(world_size):
                        with self.loader(4 // world_size, server.address, rank=rank, world_size=world_size) as other:
                            other.load_state_dict(state)
                            ranks.append(self.batches(other))
                    for number, (ids, shape, _) in enumerate(want[at:]):
                        self.assertEqual({batches[number][1] for batches in ranks}, {shape})
                        self.assertEqual(sum((batches[number][0] for batches in ranks), [])[:len(ids)], ids)
                    if world_size == 1:
                        self.assertEqual(ranks[0], want[at:])

    def test_tensors(self):
        with sluice.torch.Loader(self.root, 5, seed=5, pipeline=PIPELINE, device="cpu") as loader:
            got = [tuple(images.shape[1:]) for images, _ in loader]
        self.assertEqual(got, [(3, *shape[:2]) for _, shape, _ in self.epoch(0)])

    def test_an_order_of_the_caller_is_refused(self):
        with self.assertRaisesRegex(sluice.Error, "fit_bucket or multi_scale"):
            with self.loader(5, sampler=range(NUM)) as loader:
                self.batches(loader)


if __name__ == "__main__":
    support.main()
