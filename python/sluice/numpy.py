"""Batches as NumPy arrays.

    with sluice.numpy.Loader("storage:50051", 256) as loader:
        for images, labels in loader: ...

images is uint8 [rows, height, width, 3], RGB; with a pipeline of several views a list of such arrays, in the order of its
text.  labels is int64 [rows].  With targets=True they are followed by targets: float32 [rows, dimension], [rows] where
that is 1, or a list of bytes; with fields=True or a list of names by a dict of fields as of sluice.torch.Loader, of NumPy's arrays;
with geometry=True by a dict as of sluice.torch.Loader.  Images and labels are the library's memory
and may be written to; the batch is theirs until the last array of it has gone.
"""
import numpy

from sluice import _own_sizes
from sluice._batches import Batches


class Loader(Batches):
    """Of a folder or HOST:PORT; options as of sluice.torch.Loader, without devices."""

    _takes_tail_shape = True

    def __init__(self, source, batch_size, *, sample_ids=False, **options):
        self._sample_ids = sample_ids
        super().__init__(source, batch_size, **options)

    def _made_of(self, batch):
        images = self._tail.images if self._tail is not None else None
        if images is None:
            images = self._views_or_image([numpy.asarray(view) for view in self._arrays_of(batch)])
        made = images, numpy.asarray(batch.labels)
        if self._targets:
            made += (self._vectors_of(
                batch, lambda bytes_: numpy.frombuffer(bytes_, numpy.float32)),)
        if self._chosen:
            made += (self._fields_of(batch, numpy.frombuffer),)
        if self._sample_ids:
            made += (numpy.asarray(batch.ids),)
        return (*made, self._geometry_of(batch, numpy.frombuffer)) if self._geometry else made


def normalization(loader):
    """float32 [3, 256]: the value of each u8 of a channel; None if the pipeline ends at u8."""
    table = loader.info["table"]
    return None if table is None else numpy.frombuffer(table, numpy.float32).reshape(3, 256)


_LIBRARY = _own_sizes.Library(
    channels=2, zeros=lambda images, shape: numpy.zeros(shape, images[0].dtype),
    no_mask=lambda images, shape: numpy.zeros(shape, bool), moveaxis=numpy.moveaxis,
    int64=lambda numbers: numpy.array(numbers, numpy.int64))


def pad(images, multiple=1, size=None):
    """(batch, mask): as sluice.torch.pad(), of images [height, width, channels]; batch is [rows, height, width, channels]."""
    return _own_sizes.pad(_LIBRARY, images, multiple, size)


def patchify(images, size, num_patches=None):
    """(patches, offsets, grids): as sluice.torch.patchify(), with the same values, of images [height, width, channels]."""
    return _own_sizes.patchify(_LIBRARY, images, size, num_patches)
