#!/usr/bin/env python3
"""sluice.jax: arrays by DLPack, and iterators that are put back."""
import support

support.require("numpy", "jax")

import numpy

import sluice.jax
import sluice.numpy


class JaxTest(support.SetTest):
    OPTIONS = {"pipeline": support.PIPELINE, "workers": 2, "seed": 3, "sample_ids": True}

    def test_batches_are_those_of_numpy(self):
        with sluice.numpy.Loader(self.root, 8, **self.OPTIONS) as loader:
            expected = [tuple(array.copy() for array in batch) for batch in loader]
        with sluice.jax.Loader(self.root, 8, **self.OPTIONS) as loader:
            batches = list(loader)
        self.assertEqual(len(batches), len(expected))
        for batch, wanted in zip(batches, expected):
            for array, other in zip(batch, wanted):
                self.assertTrue(numpy.array_equal(numpy.asarray(array), other))

    def test_an_iterator_is_put_back(self):
        with sluice.jax.Loader(self.root, 8, **self.OPTIONS) as loader:
            batches = iter(loader)
            next(batches)
            state = batches.get_state()
            rest = [ids.tolist() for _, _, ids in batches]
            batches.set_state(state)
            self.assertEqual([ids.tolist() for _, _, ids in batches], rest)


if __name__ == "__main__":
    support.main()
