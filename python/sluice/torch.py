"""Batches as PyTorch tensors, in place of a torch.utils.data.DataLoader over an ImageFolder.

    loader = sluice.torch.Loader("storage:50051", 256, device="cuda", dtype=torch.bfloat16)
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, labels in loader: ...
"""
import collections
import weakref

import torch

from sluice import _batch_ops, _fields, _own_sizes, _sluice, recipes
from sluice._batches import Batches
from sluice._torch_batch import BatchKey, Mix, RandomErasing  # noqa: F401

DTYPES = {torch.float32: _sluice.F32, torch.float16: _sluice.F16, torch.bfloat16: _sluice.BF16}


def _from_buffer(bytes_, name):
    dtype = getattr(torch, name)
    return torch.frombuffer(bytes_, dtype=dtype) if bytes_ else torch.empty(0, dtype=dtype)


class Loader(Batches):
    """Yields (images, labels[, targets or fields][, ids][, paths][, geometry]) of a folder or of a server at HOST:PORT.

    With a pipeline of several views, images is a list of tensors, one for each view, in the order of its text; what
    follows is said of each of them.  With fit_bucket height and width differ from batch to batch: loader.info["buckets"]
    lists them.  With a pipeline that leaves images in sizes of their own (smart_resize, say), images is a list of tensors
    [3, height, width], one for each row.

    Without a device and normalize: images is uint8 [rows, 3, height, width], a view of the
    library's memory, which has the rows as [height, width, 3]; so its strides are those of
    channels_last.  It may be written to, and its batch is the caller's until the last tensor of it
    has gone.  Normalised: a tensor of dtype, bit for bit what torchvision's ToTensor and Normalize
    give, rounded to nearest even for float16 and bfloat16; contiguous, or channels_last if asked
    for.

    With a CUDA device, images are decoded there where it pays (gpu_decode).  Each loader has a fixed
    number of blocks of the device's memory, one for the uint8 rows of a batch.  Normalised images
    are the caller's own memory, and the block is used anew; with normalize=False images is a view of
    the block, which is in use until the last tensor of it has gone.  Then its next use waits, on the
    device, for what is on the stream that was current when it was yielded and on the one that is
    current at the next batch.  MemoryError: every block is held; the epoch ends, and state_dict()
    is the place after the last batch.

    source          folder, or "HOST:PORT"; "A,B" or "dns:NAME:PORT": replicas; a list of these: shards
    seed            of order, crops and flips
    mode            where the steps run, as --dataset-mode; a server's default is "remote_auto"
    pipeline        "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet", say
    recipe          a transform of torchvision or timm, or the name of a preset, in place of pipeline (sluice.recipes);
                    its RandomErasing, and a preset's Mix, come before batch_ops
    batch_ops       RandomErasing and Mix of this module, which are applied to each batch in order; of the training
                    part alone
    rank, world_size  of this process; left out: torch.distributed's, else those of the launcher
    targets         yield what the dataset has for each sample beside its label: float32 [rows,
                    dimension], or [rows] where that is 1, on the device; or a list of bytes
    fields          True, or a list of names: yield a dict of them. A vector is float32 [rows, dimension]; text, json,
                    bytes and mask are a list of str, of objects and of bytes; boxes a dict of "boxes", float32
                    [total, 4] (x1 y1 x2 y2 in pixels of the file), "labels" int64 [total] and "offsets" int64
                    [rows + 1]: those of row i are offsets[i]:offsets[i + 1]; keypoints a dict of "keypoints", float32
                    [total, points, 3], and "offsets". Tensors are on the device. loader.fields has the kinds by name
    annotations     with geometry, what boxes, keypoints and masks of fields are: "row", as the rows show them, with
                    several views a tuple of one for each; or "file", as without geometry.  "row" leaves boxes out,
                    and adds "kept", int64 [total]: their places among those of the files; masks are uint8 [rows,
                    height, width], of PNGs with one channel (indices of a palette, or gray)
    mask_fill       of pixels outside the mask
    min_box         the least side and the least area of such a box, in pixels of the row
    sample_ids      yield int64 [rows], the samples' places in the dataset
    paths           yield a list of the samples' paths
    geometry        yield a dict, on the host, of where the rows' pixels come from: "matrix" float64 [rows, 3, 3], from
                    (x, y, 1) in pixels of the file to the row's; "size" int64 [rows, 2], height and width of the
                    file's image, upright if the pipeline turns it; "crop" int64 [rows, 4], top, left, height and
                    width of what the first op that crops kept of its input, or with fit_bucket of that resized;
                    "flip" bool [rows].  With several views a list of dicts
    drop_last       leave out a last batch that is not full
    shuffle         False: the dataset's own order
    part            "train" or "val"
    sampler         positions in the part for this rank, anew in each epoch, in place of all that
    device          where tensors are to be; "cuda" uploads u8 from page-locked memory on a stream
                    of its own, or decodes there, and normalises there
    gpu_decode      "auto": decode on the GPU what is better done there, as far as there is one that
                    can be used (with a CUDA device the default); "on": fail where there is none;
                    "off"
    gpu_memory      of the GPU that the loader takes at most, "2GiB" say
    dtype           of normalised images: float32 (the default), float16, bfloat16
    channels_last   lay normalised images out so
    normalize       whether to; left out: if there is a device
    transform, target_transform  called with each batch's images (a list with several views) and labels, at last; a
                    transform of torchvision or timm with ToTensor in it, or a list of them, is taken as recipe
    python_tail     a picklable function(image, rng) for each sample's uint8 [height, width, 3] after the last
                    op, in processes of its own; with targets function(image, rng, target) gives both back
    python_tail_shape, python_tail_dtype  of what it returns; left out: of image.  Others are yielded as they
                    are: [rows, *shape]
    python_tail_workers  its processes; left out: the cores of this one
    pin_memory      page-locked memory without a device, too
    on_error        "fail", "skip" or "substitute": what to do about a sample that cannot be read
    workers         threads that preprocess here
    lend            path of a unix socket by which other processes borrow the device (sluice.lend).  The first module
                    that trains on it gets a Gate, and each batch has a point; `loader.lend` is the Owner.  Without a
                    CUDA device each batch waits on the host while a borrower has the GPU
    lend_share      "always", "idle" or a part of the time, as Owner's share
    lend_allow      ids of the users that may borrow besides this one
    lend_at_most_ms after which a borrower loses the GPU
    **options       any other flag of offload_train about data, place and planning, with _ for -
    """

    _takes_device = True
    _takes_tail_shape = True

    def __init__(self, source, batch_size, *, sample_ids=False, paths=False, rank=None,
                 world_size=None, device=None, dtype=None, channels_last=False, normalize=None,
                 transform=None, target_transform=None, pin_memory=False, gpu_decode=None,
                 gpu_memory=None, recipe=None, batch_ops=(), seed=0, lend=None, lend_share="always",
                 lend_allow=(), lend_at_most_ms=None, **options):
        if lend is None and (lend_share, lend_allow, lend_at_most_ms) != ("always", (), None):
            raise _sluice.InvalidError("lend_share, lend_allow, lend_at_most_ms: they go with lend")
        self.lend = self._lending = None
        self._device = torch.device(device) if device is not None else None
        is_cuda = self._device is not None and self._device.type == "cuda"
        is_other = (options.get("python_tail_shape"), options.get("python_tail_dtype")) != (None, None)
        self._normalize = device is not None and not is_other if normalize is None else normalize
        if dtype is not None and (not self._normalize or dtype not in DTYPES):
            raise _sluice.InvalidError(
                f"dtype {dtype}: float32, float16 or bfloat16, and with normalize=True")
        if transform is not None and recipes.is_recipe(transform):
            if recipe is not None:
                raise _sluice.InvalidError("transform and recipe are both for each image: give one")
            transform, recipe = None, transform
        recipe, self._batch_ops = _batch_ops.of_part(recipe, batch_ops, options.get("part", "train"), Mix, RandomErasing)
        if is_other and (normalize or self._batch_ops):
            raise _sluice.InvalidError("python_tail_shape, python_tail_dtype: what the function returns is yielded as "
                                       "it is, without normalize, batch_ops and a recipe's Mix and RandomErasing")
        self._seed = seed
        self._dtype = dtype or torch.float32
        self._channels_last = channels_last
        self._sample_ids, self._paths = sample_ids, paths
        self._transform, self._target_transform = transform, target_transform
        if rank is None and world_size is None and torch.distributed.is_available() \
                and torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()

        if (is_cuda or pin_memory) and not torch.cuda.is_available():
            raise _sluice.InvalidError(
                f"{f'device={device!r}' if is_cuda else 'pin_memory=True'}: torch finds no GPU "
                "with CUDA here; leave it out")
        pinned_device = -1
        if is_cuda and self._device.index is None:
            self._device = torch.device("cuda", torch.cuda.current_device())
        if is_cuda:
            pinned_device = self._device.index
            if gpu_decode is None:
                gpu_decode = "auto" if options.get("python_tail") is None else "off"
            if gpu_decode != "off":
                options.setdefault("gpu_device", self._device.index)
        elif pin_memory:
            pinned_device = torch.cuda.current_device()
        super().__init__(source, batch_size, rank=rank, world_size=world_size,
                         pinned_device=pinned_device, gpu_decode=gpu_decode, gpu_memory=gpu_memory,
                         recipe=recipe, seed=seed, _does_batch_ops=True, **options)
        if self._batch_ops and (self._has_views or self._has_own_sizes):
            self.close()
            raise _sluice.InvalidError("batch_ops: Mix and RandomErasing are for one image of each sample, all of one size, "
                                       "and the pipeline makes others; leave out one of them")
        index = self._loader.device()
        self._is_on_device = index >= 0
        if self._is_on_device and (not is_cuda or index != self._device.index):
            self.close()
            raise _sluice.InvalidError(
                f"gpu_decode={gpu_decode!r}: device='cuda:{index}' goes with it, "
                f"not {device!r}")

        self._stream = torch.cuda.Stream(self._device) if is_cuda else None
        self._uploading = collections.deque()  # (event, batch): held until the device has them
        self._lent = []  # (batch, stream): on the device, and in use there
        self._after = None  # a stream for what follows several
        self._table = None
        if self._normalize:
            table = self.info["table"]
            if table is None:
                self.close()
                raise _sluice.InvalidError("normalize: the pipeline ends at u8; "
                                           "let it end with to_tensor and normalize")
            if is_cuda or self._has_own_sizes:
                host = torch.frombuffer(bytearray(table), dtype=torch.float32)
                self._table = host.to(self._dtype).to(self._device or "cpu")
                self._row_of_channel = torch.tensor(
                    [0, 256, 512], dtype=torch.int32, device=self._device).view(3, 1, 1)
            else:
                def finisher(view, height, width):
                    return _sluice.Finisher(table, DTYPES[self._dtype], _sluice.NHWC if channels_last else _sluice.NCHW,
                                            self._batch_size, height, width, self._num_threads, view)

                self._finishers = [finisher(view, *size) for view, size in enumerate(self.info["views"]) if 0 not in size]
                self._of_bucket = {tuple(size): finisher(0, *size) for size in self.info["buckets"]}

        if lend is not None:
            self._lend(lend, lend_share, lend_allow, lend_at_most_ms)

    def __getitem__(self, index):
        raise TypeError("sluice.torch.Loader takes the place of a DataLoader: iterate over it")

    def _lend(self, *options):
        from sluice._gate import Lending
        try:
            self._lending = Lending(self._loader, self.info["world_size"], self._device, *options)
        except BaseException:
            self.close()
            raise
        self.lend = self._lending.owner
        weakref.finalize(self, self._lending.stop).atexit = False

    def counters(self):
        """As sluice.numpy.Loader's; with lend= also "lend", a dict of sluice.lend.Owner.counters()."""
        made = super().counters()
        return made if self.lend is None else {**made, "lend": self.lend.counters()}

    def _made_of(self, batch):
        if self._lending is not None:
            self._lending.next_batch()
        ids = torch.from_dlpack(batch.ids.signed()) if self._sample_ids or self._paths else None
        made_paths = [self.path(i) for i in ids.tolist()] if self._paths else None
        targets = self._vectors_of(
            batch, lambda bytes_: torch.frombuffer(bytes_, dtype=torch.float32)
        ) if self._targets else self._fields_of(batch, _from_buffer) if self._chosen else None

        geometry = self._geometry_of(batch, _from_buffer) if self._geometry else None  # while the batch is held

        if self._tail is not None and self._tail.images is not None:
            images, labels = torch.from_numpy(self._tail.images), torch.from_dlpack(batch.labels)
            if self._device is not None:
                images, labels = images.to(self._device), labels.to(self._device)
                targets = _fields.mapped(targets, lambda tensor: tensor.to(self._device))
                ids = ids.to(self._device) if self._sample_ids else None
        elif self._is_on_device:
            images, labels, ids, targets = self._taken(batch, targets)
        elif self._stream is not None:
            images, labels, ids, targets = self._upload(batch, targets)
        else:
            labels = torch.from_dlpack(batch.labels)
            if self._has_own_sizes:
                views = [self._made_on_device(torch.from_dlpack(image)) for image in batch.images]
            elif self._normalize:
                finishers = self._finishers or [self._of_bucket[batch.height, batch.width]]
                views = [self._finish(finisher, batch) for finisher in finishers]
            else:
                views = [torch.from_dlpack(rows).permute(0, 3, 1, 2) for rows in batch.views]
            if self._device is not None:
                views, labels = [view.to(self._device) for view in views], labels.to(self._device)
                ids = ids.to(self._device) if self._sample_ids else None
                targets = _fields.mapped(targets, lambda tensor: tensor.to(self._device))
            images = self._views_or_image(views)
        if self._batch_ops:
            key = BatchKey(self._seed, batch.epoch, batch.index, self.info["rank"],
                           torch.from_dlpack(batch.ids.signed()).tolist(),
                           torch.from_dlpack(batch.draw_epochs.signed()).tolist())
            for op in self._batch_ops:
                images, labels = op(images, labels, key, self.info["num_classes"])
        if self._transform is not None:
            images = self._transform(images)
        if self._target_transform is not None:
            labels = self._target_transform(labels)
        self._take_back()  # a transform may have let go of the rows
        made = (images, labels)
        if self._targets or self._chosen:
            made += (targets,)
        if self._sample_ids:
            made += (ids,)
        if self._paths:
            made += (made_paths,)
        if self._geometry:
            made += (geometry,)
        return made

    def _finish(self, finisher, batch):
        """A view, normalised on the host by the library."""
        images = torch.from_dlpack(finisher.finish(batch))
        return images.permute(0, 3, 1, 2) if self._channels_last else images

    def _upload(self, batch, targets):
        """Images, labels, ids (or None) and targets on the device; the current stream waits for them."""
        while self._uploading and self._uploading[0][0].query():
            self._uploading.popleft()
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            # Not page-locked: they would wait for the pixels if those went first.
            labels = self._sent(batch.labels)
            ids = self._sent(batch.ids.signed()) if self._sample_ids else None
            targets = self._sent_targets(targets)
            views = [self._sent(rows) for rows in self._arrays_of(batch)]
            event = torch.cuda.Event()
            event.record(self._stream)
            self._uploading.append((event, batch))
            views = [self._made_on_device(rows) for rows in views]
        current.wait_stream(self._stream)
        for tensor in (*views, labels, ids, *_fields.arrays_in(targets)):
            if tensor is not None:
                tensor.record_stream(current)  # its memory is of the other stream
        return self._views_or_image(views), labels, ids, targets

    def _taken(self, batch, targets):
        """Images, labels, ids (or None) and targets of a batch whose rows are on the device; nothing but the
        normalisation is put on the current stream, which waits for the labels."""
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            labels = self._copied(batch.labels)
            ids = self._copied(batch.ids.signed()) if self._sample_ids else None
            targets = self._sent_targets(targets)
        current.wait_stream(self._stream)
        for tensor in (labels, ids, *_fields.arrays_in(targets)):
            if tensor is not None:
                tensor.record_stream(current)
        views = [self._made_on_device(torch.from_dlpack(rows)) for rows in batch.views]  # for the current stream
        self._lent.append((batch, current))
        return self._views_or_image(views), labels, ids, targets

    def _copied(self, array):
        """On the device; the batch's own memory may be written to at once."""
        return torch.from_dlpack(array).clone().to(self._device, non_blocking=True)

    def _take_back(self):
        """Gives back the batches on the device that nobody holds any more."""
        lent, self._lent = self._lent, []
        for batch, stream in lent:
            current = torch.cuda.current_stream(self._device)
            if batch.is_shared or _is_capturing(current) or _is_capturing(stream):
                self._lent.append((batch, stream))
                continue
            if stream != current:  # one that follows both
                if self._after is None:
                    self._after = torch.cuda.Stream(self._device)
                self._after.wait_stream(stream)
                self._after.wait_stream(current)
                stream = self._after
            batch.release_after(stream.cuda_stream)

    def _sent_targets(self, targets):
        """Tensors go to the device; lists stay as they are."""
        return _fields.mapped(targets, lambda tensor: tensor.to(self._device, non_blocking=True))

    def _sent(self, array):
        return torch.from_dlpack(array).to(self._device, non_blocking=True)

    def _made_on_device(self, rows):
        """A view of rows [rows, height, width, 3], or an image [height, width, 3], where they are."""
        if rows.dim() == 3:
            return self._made_on_device(rows[None])[0]
        images = rows.permute(0, 3, 1, 2)
        return self._normalized(images) if self._normalize else images

    def _normalized(self, rows):
        """table[256 * channel + u8]: exact, as no arithmetic takes place."""
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        index = torch.empty(rows.shape, dtype=torch.int32, device=rows.device, memory_format=layout)
        torch.add(rows, self._row_of_channel, out=index)
        if self._channels_last:
            index = index.permute(0, 2, 3, 1)  # flat in the order of its memory
        images = self._table.index_select(0, index.reshape(-1)).view(index.shape)
        return images.permute(0, 3, 1, 2) if self._channels_last else images

    def close(self):
        if getattr(self, "_uploading", None):
            self._uploading[-1][0].synchronize()
            self._uploading.clear()
        if getattr(self, "_lent", None):
            self._take_back()
            self._lent.clear()  # what is held goes by the stream that it was yielded on
        self._finishers = self._of_bucket = None
        super().close()
        if getattr(self, "_lending", None) is not None:
            self._lending.close()


def _is_capturing(stream):
    """Whether the stream's work goes into a CUDA graph, in which no event of ours may be."""
    with torch.cuda.stream(stream):
        return torch.cuda.is_current_stream_capturing()


from sluice._dataset import Dataset, IterableDataset  # noqa: E402,F401  their Loader is above


_LIBRARY = _own_sizes.Library(
    channels=0, zeros=lambda images, shape: images[0].new_zeros(shape),
    no_mask=lambda images, shape: images[0].new_zeros(shape, dtype=torch.bool), moveaxis=torch.movedim,
    int64=lambda numbers: torch.tensor(numbers, dtype=torch.int64))


def pad(images, multiple=1, size=None):
    """(batch, mask): the images at the upper left of a tensor of the largest height and width, rounded up to `multiple`.

    images  a list of tensors [channels, height, width] of one dtype and device
    size    (height, width) of the tensor, in place of that: the same for each batch, as compiled steps want it
    batch   [rows, channels, height, width], zero outside the images
    mask    bool [rows, height, width], True where the image is

    For example `Loader(..., transform=sluice.torch.pad)`, of a pipeline that leaves images in sizes of their own.
    """
    return _own_sizes.pad(_LIBRARY, images, multiple, size)


def patchify(images, size, num_patches=None):
    """(patches, offsets, grids): the images cut into squares, from left to right and from top to bottom, one image after
    the other.

    images       a list of tensors [channels, height, width]; sides are multiples of `size` (smart_resize, pad_to_multiple)
    num_patches  the rows of `patches`, with zeros after the last image: the same for each batch
    patches      [total, channels * size * size], channels first
    offsets      int64 [rows + 1]: the patches of row i are offsets[i]:offsets[i + 1]
    grids        int64 [rows, 2]: the patches down and across

    offsets and grids are on the host.
    """
    return _own_sizes.patchify(_LIBRARY, images, size, num_patches)
