"""Batches as JAX arrays, by DLPack.

    loader = sluice.jax.Loader("storage:50051", 256)
    batches = iter(loader)
    images, labels = next(batches)
    saved = batches.get_state()            bytes, for a checkpoint
    batches.set_state(saved)               next() goes on after that batch

images is uint8 [rows, height, width, 3], of the host and without a copy where JAX takes the memory
as it is; labels int32 [rows], as JAX has no int64 unless it is told to.
"""
import json

import jax
import numpy

from sluice._batches import Batches


class Loader(Batches):
    """Of a folder or HOST:PORT; options as of sluice.torch.Loader, without devices."""

    def __init__(self, source, batch_size, *, sample_ids=False, **options):
        self._sample_ids = sample_ids
        super().__init__(source, batch_size, **options)

    def _made_of(self, batch):
        images = jax.dlpack.from_dlpack(batch.pixels)
        labels = jax.numpy.asarray(numpy.asarray(batch.labels).astype(numpy.int32))
        if not self._sample_ids:
            return images, labels
        return images, labels, numpy.array(batch.ids)  # NumPy's, as they have 64 bits

    def __iter__(self):
        return Iterator(self)

    def batches(self):
        """The batches of an epoch, as a plain generator."""
        return super().__iter__()


class Iterator:
    """One epoch, with the methods that Grain's iterators have."""

    def __init__(self, loader):
        self._loader = loader
        self._batches = loader.batches()

    def __iter__(self):
        return self

    def __next__(self):
        return next(self._batches)

    def get_state(self):
        return json.dumps(self._loader.state_dict()).encode()

    def set_state(self, state):
        self._loader.load_state_dict(json.loads(state))
        self._batches = self._loader.batches()
