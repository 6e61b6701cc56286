#!/usr/bin/env python3
"""Aspect buckets (fit_bucket): every batch has the size of one bucket, and a state goes on after any of them on any
number of ranks."""
import collections
import unittest

import support

support.require("numpy")

import numpy

import sluice
import sluice.numpy

BUCKETS = [[64, 64], [48, 80], [80, 48], [32, 96]]
OPS = "decode,fit_bucket=" + "/".join(f"{height}x{width}" for height, width in BUCKETS) + ":crop=random,hflip"
PIPELINE = OPS + ",to_tensor,normalize=imagenet"


class BucketsTest(support.SetTest):
    @classmethod
    def change_set(cls):
        support.run("offload_dataset", "index", cls.root)

    def load(self, batch_size=8, source=None, **options):
        return sluice.numpy.Loader(source or self.root, batch_size, sample_ids=True,
                                   **{"pipeline": PIPELINE, "workers": 2, "seed": 3, **options})

    def test_batches_are_of_one_bucket(self):
        with self.load() as loader, self.load(source=self.address) as remote:
            self.assertEqual(loader.info["buckets"], BUCKETS)
            self.assertEqual((loader.info["height"], loader.info["width"]), (0, 0))
            times, sizes, num_batches = collections.Counter(), set(), 0
            for (images, labels, ids), (others, _, other_ids) in zip(loader, remote, strict=True):
                self.assertIn(list(images.shape[1:3]), BUCKETS)
                self.assertEqual(len(images), len(labels))
                numpy.testing.assert_array_equal(images, others)
                numpy.testing.assert_array_equal(ids, other_ids)
                times.update(ids.tolist())
                sizes.add(images.shape[1:3])
                num_batches += 1
            self.assertEqual(len(loader), num_batches)
            self.assertGreater(len(sizes), 1)
            self.assertEqual(set(times.values()), {1})
            self.assertEqual(len(times), support.NUM_TRAIN)

    def test_the_argument_is_the_op(self):
        sizes = ",".join(f"{height}x{width}" for height, width in BUCKETS) + ":crop=random"
        with self.load() as loader, self.load(pipeline="decode,hflip,to_tensor,normalize=imagenet",
                                              buckets=sizes) as other:
            self.assertEqual(other.info["buckets"], BUCKETS)
            for (images, _, ids), (others, _, other_ids) in zip(loader, other, strict=True):
                numpy.testing.assert_array_equal(images, others)
                numpy.testing.assert_array_equal(ids, other_ids)

    def rows(self, loader):
        """(id, bytes) of each batch's rows that repeat none, and the state after the batch."""
        return [([(int(i), image.tobytes()) for i, image in zip(ids, images)][:len(ids) - loader.num_padded],
                 loader.state_dict()) for images, _, ids in loader]

    def test_a_state_goes_on_with_other_ranks(self):
        with self.load(12) as loader:
            whole = self.rows(loader)
        for at in range(0, len(whole), 3):
            for world_size in (2, 3, 4):
                ranks = []
                for rank in range(world_size):
                    with self.load(12 // world_size, rank=rank, world_size=world_size) as loader:
                        loader.load_state_dict(whole[at][1])
                        ranks.append(self.rows(loader))
                for (rows, state), *of_ranks in zip(whole[at + 1:], *ranks, strict=True):
                    self.assertEqual(rows, [row for of_rank, _ in of_ranks for row in of_rank])
                    self.assertTrue(all(other == state for _, other in of_ranks))

    def test_a_state_of_another_pipeline_is_refused(self):
        with self.load() as loader:
            next(iter(loader))
            state = loader.state_dict()
        with self.load(pipeline=support.PIPELINE) as loader:
            loader.load_state_dict(state)
            with self.assertRaisesRegex(sluice.InvalidError, "the pipeline changed"):
                next(iter(loader))

    def test_what_needs_one_size_is_refused(self):
        with self.load(sampler=range(9)) as loader:
            with self.assertRaisesRegex(sluice.InvalidError, "has no buckets, and the pipeline has, by fit_bucket"):
                next(iter(loader))
        with self.assertRaisesRegex(sluice.InvalidError, "python_tail: it is for images of one size"):
            self.load(python_tail=support.row_hash)

    def test_torch_normalizes_each_size(self):
        try:
            import torch
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.torch
        options = {"pipeline": PIPELINE, "workers": 2, "seed": 3}
        with sluice.torch.Loader(self.root, 8, normalize=True, **options) as loader, self.load() as plain:
            mean, std = (torch.tensor(v, dtype=torch.float32).view(1, 3, 1, 1)
                         for v in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))
            for (images, _), (u8, _, _) in zip(loader, plain, strict=True):
                u8 = torch.from_numpy(u8.copy()).permute(0, 3, 1, 2).contiguous().to(torch.float32)
                self.assertTrue(torch.equal(images, u8.div(255).sub(mean).div(std)))

    def test_jax_has_a_shape_for_each_bucket(self):
        try:
            import jax
        except ImportError as error:
            self.skipTest(str(error))
        import sluice.jax
        shapes = set()

        @jax.jit
        def step(images):
            shapes.add(images.shape)  # once for each shape
            return images.astype("float32").mean()

        with sluice.jax.Loader(self.root, 8, pipeline=PIPELINE, workers=2, seed=3, drop_last=True) as loader:
            for _ in range(2):
                for images, _ in loader:
                    step(images)
        self.assertLessEqual(shapes, {(8, height, width, 3) for height, width in BUCKETS})


if __name__ == "__main__":
    support.main()
