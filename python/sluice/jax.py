"""Batches as JAX arrays, by DLPack.

    loader = sluice.jax.Loader("storage:50051", 256)
    batches = iter(loader)
    images, labels = next(batches)
    saved = batches.get_state()            bytes, for a checkpoint
    batches.set_state(saved)               next() goes on after that batch

images is uint8 [rows, height, width, 3], or with a pipeline of several views a list of such arrays in the order of its
text, a pytree of constant shapes; labels is int32 [rows], as JAX has no int64 unless it is told to.  With normalize=True
images is float32, bit for bit what torchvision's ToTensor and Normalize give.  Both are on JAX's default device; where that is the CPU, images of uint8 is the batch's memory
itself, without a copy, if JAX takes it as it is.  With targets=True they are followed by targets: float32
[rows, dimension], [rows] where that is 1, placed as the labels are, or a list of bytes; with geometry=True by a
dict of NumPy arrays, as of sluice.torch.Loader.

With gpu_decode="on" images lies on the GPU that decoded it.

With `devices` or `sharding` the rows are shared among devices, and what is yielded lies there:

    loader = sluice.jax.Loader("storage:50051", 256, devices=jax.local_devices())
"""
import collections
import functools
import json

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from sluice import _batch_ops, _fields, _sluice
from sluice._batches import Batches
from sluice._jax_batch import BatchKey, Mix, RandomErasing
from sluice.numpy import normalization
from sluice.numpy import pad as _pad, patchify as _patchify

__all__ = ["BatchKey", "Iterator", "Loader", "Mix", "RandomErasing", "normalization", "normalize", "pad",
           "patchify"]


class Loader(Batches):
    """Of a folder or HOST:PORT; options as of sluice.torch.Loader, without its devices, and

    normalize       whether to; left out: if there are batch_ops, or a recipe has a RandomErasing or Mix
    dtype           of normalised images: float32 (the default), float16, bfloat16
    batch_ops       RandomErasing and Mix of this module, which are applied to each batch in order, on the device;
                    of the training part alone
    gpu_decode      "on" or "auto", as of sluice.torch.Loader: what is better decoded on the GPU is,
                    and images are there; with one device at most.  "off" if left out
    gpu_memory      of the GPU that the loader takes at most, "2GiB" say
    devices         of this process, that share the rows: images and labels are sharded along rows
    sharding        a jax.sharding.NamedSharding whose axis 0 is the rows, in place of devices.  In
                    a program of several processes it is of global arrays: each process gives its
                    batch_size rows of them
    rank, world_size  left out: jax.process_index() and jax.process_count() where there are several
                    processes, else those of the launcher
    """

    _takes_device = True

    def __init__(self, source, batch_size, *, sample_ids=False, devices=None, sharding=None,
                 rank=None, world_size=None, gpu_decode=None, gpu_memory=None, normalize=None,
                 dtype=None, batch_ops=(), recipe=None, seed=0, **options):
        recipe, ops = _batch_ops.of_part(recipe, batch_ops, options.get("part", "train"), Mix, RandomErasing)
        if normalize is None:
            normalize = bool(batch_ops or recipe and (recipe.erasing or recipe.mix))
        if dtype is not None and not normalize:
            raise _sluice.InvalidError(f"dtype {dtype}: with normalize=True")
        if devices is not None and sharding is not None:
            raise _sluice.InvalidError("devices and sharding: one of them")
        if devices is not None:
            devices = list(devices)
            if not devices:
                raise _sluice.InvalidError("devices: none is given")
            sharding = NamedSharding(Mesh(numpy.array(devices), ("rows",)), PartitionSpec("rows"))
        if sharding is not None and (not isinstance(sharding, NamedSharding)
                                     or any(axis is not None for axis in sharding.spec[1:])):
            raise _sluice.InvalidError(
                f"sharding {sharding}: a NamedSharding with rows alone split, P('rows')")
        if rank is None and world_size is None and jax.process_count() > 1:
            rank, world_size = jax.process_index(), jax.process_count()
        self._sample_ids = sample_ids
        self._sharding = sharding
        self._num_added = 0  # rows of the batch made last that repeat others, to share them evenly
        self._num_shares = 1
        if sharding is not None:
            # Each share has some of the rows [0, number of devices).  With several processes only
            # the shares of this one count.
            shares = sharding.addressable_devices_indices_map((len(sharding.device_set),))
            self._num_shares = len({share[0].start or 0 for share in shares.values()})
            if batch_size % self._num_shares:
                raise _sluice.InvalidError(f"batch_size {batch_size}: not a multiple of the "
                                           f"{self._num_shares} shares that devices have of it")
        self._copying = collections.deque()  # (mark, batch): in use until the mark is ready
        if gpu_decode not in (None, "off") and self._gpu() is not None:
            options.setdefault("gpu_device", self._gpu().local_hardware_id)
        super().__init__(source, batch_size, rank=rank, world_size=world_size,
                         gpu_decode=gpu_decode, gpu_memory=gpu_memory, recipe=recipe, seed=seed,
                         _does_batch_ops=True, **options)
        if self._loader.device() >= 0 and self._gpu() is None:
            self.close()
            raise _sluice.InvalidError(f"gpu_decode={gpu_decode!r}: JAX uses no GPU here")
        if self._has_own_sizes and (normalize or ops or sharding is not None):
            self.close()
            raise _sluice.InvalidError("normalize, batch_ops, devices, sharding: the pipeline leaves images in sizes of their own, "
                                       "of which there is a list of uint8 arrays on one device; leave them out")
        if self._has_views and ops:
            self.close()
            raise _sluice.InvalidError("batch_ops: Mix and RandomErasing are for one image of each sample, and the pipeline "
                                       "makes several views; leave out one of them")
        self._seed, self._ops = seed, ops
        self._finished = None  # normalises a batch and applies the ops
        if normalize or ops:
            table = normalization(self) if normalize else None
            if normalize and table is None:
                self.close()
                raise _sluice.InvalidError("normalize: the pipeline ends at u8; "
                                           "let it end with to_tensor and normalize")
            self._finished = _finisher(table, dtype or jax.numpy.float32, ops, self.info["num_classes"],
                                       self._local())

    def _gpu(self):
        """The device that decodes; None: the CPU does."""
        devices = [jax.numpy.zeros(()).devices().pop()]  # JAX's default
        if self._sharding is not None:
            devices = list(self._sharding.device_set)
        if len(devices) > 1:
            raise _sluice.InvalidError("gpu_decode: for one device; let each process have its own, "
                                       "or leave it out")
        return devices[0] if devices[0].platform == "gpu" else None

    def _copied(self, batch):
        """The views on the GPU that decoded them, in memory of JAX's own: which of its streams would
        use the batch's memory last, JAX does not tell."""
        while self._copying and (len(self._copying) > 1 or self._copying[0][0].is_ready()):
            mark, copied = self._copying.popleft()
            mark.block_until_ready()
            copied.release()
        views, mark = _copy([jax.dlpack.from_dlpack(view) for view in batch.views])
        self._copying.append((mark, batch))
        return views

    def _local(self):
        """The sharding over the devices of this process alone; None without one."""
        return self._sharding and NamedSharding(self._sharding.mesh.local_mesh, self._sharding.spec)

    def _placed(self, array):
        """On the devices, or on JAX's default device."""
        if self._sharding is None:
            return jax.numpy.asarray(array)
        return jax.make_array_from_process_local_data(self._sharding, array)

    def _shared(self, array):
        """An array over this process's devices as its part of a global one."""
        if self._sharding is None or self._sharding.is_fully_addressable:
            return array
        shares = self._sharding.devices_indices_map((len(self._sharding.device_set),)).values()
        num_rows = array.shape[0] // self._num_shares * len({share[0].start or 0 for share in shares})
        return jax.make_array_from_single_device_arrays(
            (num_rows, *array.shape[1:]), self._sharding, [shard.data for shard in array.addressable_shards])

    def _finish(self, batch, views, labels, ids):
        """A list of the views, and labels, after normalisation and the ops; ids, of all rows, are NumPy's."""
        epochs = numpy.asarray(batch.draw_epochs)[numpy.arange(len(ids)) % batch.num_rows]
        key = BatchKey(self._seed, batch.epoch, batch.index, self.info["rank"], ids.tolist(), epochs.tolist())
        draws = [op.draws(key, batch.height, batch.width) for op in self._ops]
        views, labels = self._finished(views, labels, draws, num_added=self._num_added)
        return [self._shared(view) for view in views], self._shared(labels)

    def _tuple(self, views, labels, targets, ids, geometry):
        return ((self._views_or_image(views), labels) + ((targets,) if self._targets or self._chosen else ())
                + ((ids,) if self._sample_ids else ()) + ((geometry,) if self._geometry else ()))

    def _rows_of_geometry(self, batch):
        """NumPy's, as it has 64 bits; rows that are added for devices repeat the first."""
        rows = numpy.arange(batch.num_rows + self._num_added) % batch.num_rows
        return self._geometry_of(
            batch, lambda bytes_, name: numpy.frombuffer(bytes_, name).reshape(batch.num_rows, -1)[rows].reshape(-1))

    def _made_of(self, batch):
        targets = self._vectors_of(
            batch, lambda bytes_: numpy.frombuffer(bytes_, numpy.float32)
        ) if self._targets else None
        self._num_added = 0 if batch.device >= 0 else -batch.num_rows % self._num_shares
        geometry = self._rows_of_geometry(batch) if self._geometry else None
        if self._chosen:  # NumPy's, as boxes have other shapes in each batch
            targets = _fields.taken(self._fields_of(batch, numpy.frombuffer),
                                    numpy.arange(batch.num_rows + self._num_added) % batch.num_rows)
        if batch.device >= 0:
            views, ids = self._copied(batch), numpy.array(batch.ids)
            place = self._sharding or views[0].devices().pop()
            views, labels = jax.device_put(
                (views, numpy.asarray(batch.labels).astype(numpy.int32)), place)
            if self._finished:
                views, labels = self._finish(batch, views, labels, ids)
            if self._targets and not isinstance(targets, list):
                targets = jax.device_put(targets, place)
            return self._tuple(views, labels, targets, ids, geometry)
        views, labels = [numpy.asarray(view) for view in self._arrays_of(batch)], numpy.asarray(batch.labels)
        ids = numpy.array(batch.ids)  # NumPy's, as they have 64 bits
        if self._num_added:
            rows = numpy.arange(batch.num_rows + self._num_added) % batch.num_rows
            views, labels, ids = [view[rows] for view in views], labels[rows], ids[rows]
            if self._targets:
                targets = ([targets[row] for row in rows] if isinstance(targets, list)
                           else targets[rows])
        labels = labels.astype(numpy.int32)
        if self._targets and not isinstance(targets, list):
            targets = self._placed(targets)
        if self._finished:
            views, labels = self._finish(batch, *jax.device_put((views, labels), self._local()), ids)
            return self._tuple(views, labels, targets, ids, geometry)
        labels = self._placed(labels)
        is_host = self._sharding is None and labels.devices().pop().platform == "cpu"
        views = [jax.dlpack.from_dlpack(view) for view in self._arrays_of(batch)] if is_host else [self._placed(view) for view in views]
        return self._tuple(views, labels, targets, ids, geometry)

    def __iter__(self):
        return Iterator(self)

    def close(self):
        while self._copying:
            self._copying.popleft()[0].block_until_ready()
        super().close()

    def batches(self):
        """The batches of an epoch, as a plain generator."""
        return self._counted(super().__iter__())

    def _counted(self, batches):
        for made in batches:
            self.num_padded += self._num_added
            yield made


def _finisher(table, dtype, ops, num_classes, sharding):
    """A jitted function: (views, labels, draws of each op) -> (views, labels), where ops are for one view.  table None:
    without normalisation."""
    @functools.partial(jax.jit, static_argnames="num_added",
                       out_shardings=None if sharding is None else (sharding, sharding))
    def finish(views, labels, draws, *, num_added):
        if table is not None:
            views = [normalize(view, table, dtype) for view in views]
        for op, drawn in zip(ops, draws):
            images, labels = op.apply(views[0], labels, drawn, num_classes, num_added)
            views = [images]
        return views, labels
    return finish


@jax.jit
def _copy(images):
    """A copy of a list, and what is ready with it; the copy may be given away to a step."""
    return [jax.numpy.copy(view) for view in images], images[0][:1, :1, :1, :1]


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
        """The place after the batch that was yielded last, as bytes of JSON."""
        return json.dumps(self._loader.state_dict()).encode()

    def set_state(self, state):
        """next() goes on after the batch of that state."""
        self._loader.load_state_dict(json.loads(state))
        self._batches = self._loader.batches()

    def start_prefetch(self):
        """Grain's checkpoints call it; the library reads ahead from iter() and set_state() on."""


def normalize(images, table, dtype=jax.numpy.float32):
    """dtype [rows, height, width, 3] of uint8 [rows, height, width, 3], by the table [3, 256] that
    normalization(loader) gives: for a step under jax.jit.  As no arithmetic takes place, float32
    is bit for bit what torchvision's ToTensor and Normalize give, and others are that rounded to
    nearest even."""
    table = jax.numpy.asarray(table).astype(dtype)
    return jax.numpy.stack([table[c][images[..., c]] for c in range(3)], axis=-1)


def pad(images, multiple=1, size=None):
    """(batch, mask): as sluice.torch.pad(), of images [height, width, channels]; batch is [rows, height, width, channels].
    A step under jax.jit is compiled for each shape: `size` makes them all one.  It is done on the host, as each image has
    a shape of its own."""
    return tuple(jax.numpy.asarray(array) for array in _pad([numpy.asarray(image) for image in images], multiple, size))


def patchify(images, size, num_patches=None):
    """(patches, offsets, grids): as sluice.torch.patchify(), with the same values, of images [height, width, channels];
    offsets and grids are NumPy's.  It is done on the host; `num_patches` makes all batches one shape."""
    patches, offsets, grids = _patchify([numpy.asarray(image) for image in images], size, num_patches)
    return jax.numpy.asarray(patches), offsets, grids
