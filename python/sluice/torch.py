"""Batches as PyTorch tensors, in place of a torch.utils.data.DataLoader over an ImageFolder.

    loader = sluice.torch.Loader("storage:50051", 256, device="cuda", dtype=torch.bfloat16)
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, labels in loader: ...
"""
import collections

import torch

from sluice import _sluice
from sluice._batches import Batches

DTYPES = {torch.float32: _sluice.F32, torch.float16: _sluice.F16, torch.bfloat16: _sluice.BF16}


class Loader(Batches):
    """Yields (images, labels[, ids][, paths]) of a folder or of a server at HOST:PORT.

    Without a device and normalize: images is uint8 [rows, 3, height, width], a view of the
    library's memory, which has the rows as [height, width, 3]; so its strides are those of
    channels_last.  It may be written to, and its batch is the caller's until the last tensor of it
    has gone.  Normalised: a tensor of dtype, bit for bit what torchvision's ToTensor and Normalize
    give, rounded to nearest even for float16 and bfloat16; contiguous, or channels_last if asked
    for.

    source          folder, or "HOST:PORT"
    seed            of order, crops and flips
    mode            where the steps run, as --dataset-mode; a server's default is "remote_auto"
    pipeline        "decode,random_resized_crop=224,hflip,to_tensor,normalize=imagenet", say
    rank, world_size  of this process; left out: torch.distributed's, else those of the launcher
    sample_ids      yield int64 [rows], the samples' places in the dataset
    paths           yield a list of the samples' paths
    drop_last       leave out a last batch that is not full
    shuffle         False: the dataset's own order
    part            "train" or "val"
    sampler         positions in the part for this rank, anew in each epoch, in place of all that
    device          where tensors are to be; "cuda" uploads u8 from page-locked memory on a stream
                    of its own, and normalises there
    dtype           of normalised images: float32 (the default), float16, bfloat16
    channels_last   lay normalised images out so
    normalize       whether to; left out: if there is a device
    transform, target_transform  called with each batch's images and labels, at last
    pin_memory      page-locked memory without a device, too
    on_error        "fail", "skip" or "substitute": what to do about a sample that cannot be read
    workers         threads that preprocess here
    **options       any other flag of offload_train about data, place and planning, with _ for -
    """

    def __init__(self, source, batch_size, *, sample_ids=False, paths=False, rank=None,
                 world_size=None, device=None, dtype=None, channels_last=False, normalize=None,
                 transform=None, target_transform=None, pin_memory=False, **options):
        self._device = torch.device(device) if device is not None else None
        is_cuda = self._device is not None and self._device.type == "cuda"
        self._normalize = device is not None if normalize is None else normalize
        if dtype is not None and (not self._normalize or dtype not in DTYPES):
            raise _sluice.InvalidError(
                f"dtype {dtype}: float32, float16 or bfloat16, and with normalize=True")
        self._dtype = dtype or torch.float32
        self._channels_last = channels_last
        self._sample_ids, self._paths = sample_ids, paths
        self._transform, self._target_transform = transform, target_transform
        if rank is None and world_size is None and torch.distributed.is_available() \
                and torch.distributed.is_initialized():
            rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()

        pinned_device = -1
        if is_cuda and self._device.index is None:
            self._device = torch.device("cuda", torch.cuda.current_device())
        if is_cuda:
            pinned_device = self._device.index
        elif pin_memory:
            pinned_device = torch.cuda.current_device()
        super().__init__(source, batch_size, rank=rank, world_size=world_size,
                         pinned_device=pinned_device, **options)

        self._stream = torch.cuda.Stream(self._device) if is_cuda else None
        self._uploading = collections.deque()  # (event, batch): held until the device has them
        self._table = None
        if self._normalize:
            table = self.info["table"]
            if table is None:
                self.close()
                raise _sluice.InvalidError("normalize: the pipeline ends at u8; "
                                           "let it end with to_tensor and normalize")
            if is_cuda:
                host = torch.frombuffer(bytearray(table), dtype=torch.float32).view(3, 256)
                self._table = host.to(self._device).to(self._dtype)

    def _made_of(self, batch):
        rows = torch.from_dlpack(batch.pixels)
        labels = torch.from_dlpack(batch.labels)
        ids = torch.from_dlpack(batch.ids.signed()) if self._sample_ids or self._paths else None
        made_paths = [self.path(i) for i in ids.tolist()] if self._paths else None

        if self._stream is not None:
            images, labels, ids = self._upload(batch, rows, labels, ids)
        else:
            images = self._finish(batch) if self._normalize else rows.permute(0, 3, 1, 2)
            if self._device is not None:
                images, labels = images.to(self._device), labels.to(self._device)
                ids = ids.to(self._device) if self._sample_ids else None
        if self._transform is not None:
            images = self._transform(images)
        if self._target_transform is not None:
            labels = self._target_transform(labels)
        made = (images, labels)
        if self._sample_ids:
            made += (ids,)
        if self._paths:
            made += (made_paths,)
        return made

    def _empty(self, batch, device=None):
        layout = torch.channels_last if self._channels_last else torch.contiguous_format
        return torch.empty((batch.num_rows, 3, batch.height, batch.width), dtype=self._dtype,
                           device=device, memory_format=layout)

    def _finish(self, batch):
        """Normalised on the host, by the library."""
        images = self._empty(batch)
        _sluice.finish(batch.pixels.address, batch.num_rows, batch.height, batch.width,
                       self.info["table"], DTYPES[self._dtype],
                       _sluice.NHWC if self._channels_last else _sluice.NCHW, images.data_ptr())
        return images

    def _upload(self, batch, rows, labels, ids):
        while self._uploading and self._uploading[0][0].query():
            self._uploading.popleft()
        current = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            uploaded = [rows.to(self._device, non_blocking=True),
                        labels.to(self._device, non_blocking=True)]
            if self._sample_ids:
                uploaded.append(ids.to(self._device, non_blocking=True))
            event = torch.cuda.Event()
            event.record(self._stream)
            self._uploading.append((event, batch))
            uploaded[0] = (self._normalized(batch, uploaded[0]) if self._normalize
                           else uploaded[0].permute(0, 3, 1, 2))
        current.wait_stream(self._stream)
        for tensor in uploaded:
            tensor.record_stream(current)  # its memory is of the other stream
        return uploaded[0], uploaded[1], uploaded[2] if self._sample_ids else None

    def _normalized(self, batch, rows):
        """table[c][u8] for each channel: exact, as no arithmetic takes place."""
        images = self._empty(batch, self._device)
        shape = (batch.num_rows, batch.height, batch.width)
        for c in range(3):
            u8 = rows[..., c].reshape(-1).to(torch.int32)
            images[:, c] = torch.index_select(self._table[c], 0, u8).view(shape)
        return images

    def close(self):
        if getattr(self, "_uploading", None):
            self._uploading[-1][0].synchronize()
            self._uploading.clear()
        super().close()
