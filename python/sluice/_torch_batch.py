"""Ops of whole batches, on the device and after normalize: random erasing, mixup, CutMix, label smoothing."""
import collections
import functools
import statistics

import torch

from sluice import _sluice

# The names of a batch: what its ops draw depends on these alone.  ids and draw_epochs are of its rows.
BatchKey = collections.namedtuple("BatchKey", "seed epoch index rank ids draw_epochs")

# The stream of a sample's draws from which erased boxes are filled.
_FILL_OP = 0xFF02


class Mix:
    """Mixup and CutMix within this process's batch, and labels as probabilities.

        sluice.torch.Loader(source, 256, device="cuda", batch_ops=[sluice.torch.Mix(mixup=0.2, cutmix=1.0)])

    Labels become float32 [rows, classes], which torch.nn.CrossEntropyLoss takes.  The formulas are timm's Mixup
    (mode "batch") and torchvision's MixUp and CutMix.  The draws depend on the seed, the epoch, the global batch and
    the rank, so the pairs of a run change with its world size.

    mixup, cutmix   alpha of Beta(alpha, alpha); 0: never that one
    p               the probability that a batch is mixed
    switch_p        with both, the probability that it is CutMix
    label_smoothing  the part of each label that all classes share
    pairing         "timm": row i with row rows - 1 - i, the middle one of an odd number with itself;
                    "torchvision": with row i - 1, the first with the last
    num_classes     left out: those of the dataset
    """

    def __init__(self, mixup=0.0, cutmix=0.0, p=1.0, switch_p=0.5, label_smoothing=0.0, pairing="timm",
                 num_classes=None):
        if pairing not in ("timm", "torchvision"):
            raise _sluice.InvalidError(f"pairing {pairing!r}: 'timm' or 'torchvision'")
        if not 0 <= label_smoothing < 1:
            raise _sluice.InvalidError(f"label_smoothing {label_smoothing}: from 0 to below 1")
        self._draw = (float(mixup), float(cutmix), float(p), float(switch_p))
        _sluice.draw_mix(0, 0, 0, 0, *self._draw, 1, 1)  # refuses what is out of range
        self._smoothing, self._pairing, self._num_classes = label_smoothing, pairing, num_classes

    def _other(self, rows):
        return rows.flip(0) if self._pairing == "timm" else rows.roll(1, 0)

    def _soft(self, labels, num_classes):
        off = self._smoothing / num_classes
        soft = torch.full((len(labels), num_classes), off, device=labels.device)
        return soft.scatter_(1, labels.view(-1, 1), 1 - self._smoothing + off)

    def __call__(self, images, labels, key, num_classes):
        """images, labels of probabilities; images may be written to."""
        if not images.is_floating_point() and self._draw[0] > 0:
            raise _sluice.InvalidError("mixup: it is for normalised images; give the loader normalize=True")
        kind, own, (top, left, height, width) = _sluice.draw_mix(
            key.seed, key.epoch, key.index, key.rank, *self._draw, *images.shape[2:])
        soft = self._soft(labels, self._num_classes or num_classes)
        if kind == 0:
            return images, soft
        if kind == 1:
            other = self._other(images).mul_(1 - own)
            images.mul_(own).add_(other)
        else:
            part = (slice(None), slice(None), slice(top, top + height), slice(left, left + width))
            images[part] = self._other(images[part])
        return images, soft.mul(own).add_(self._other(soft).mul_(1 - own))


class RandomErasing:
    """Erases a box of some images: torchvision's RandomErasing, and timm's with one box.

    The draws depend on the seed, the epoch and the sample, as those of a pipeline's ops: they are the same in every
    batch size and on every rank.

    p       the probability that an image is erased
    scale   of the box's area, as a part of the image's
    ratio   of its height to its width, uniform in the logarithm
    fill    a number, or one for each channel, of normalised values, so that 0 is the mean; "channel": a normal number
            for each channel (timm's "rand"); "pixel": one for each value (timm's "pixel", torchvision's "random")
    """

    def __init__(self, p=0.5, scale=(0.02, 1 / 3), ratio=(0.3, 1 / 0.3), fill=0):
        self._draw = (float(p), *map(float, scale), *map(float, ratio))
        _sluice.draw_erasing(0, 0, 0, *self._draw, 1, 1)  # refuses what is out of range
        if isinstance(fill, str) and fill not in ("channel", "pixel"):
            raise _sluice.InvalidError(f"fill {fill!r}: numbers, 'channel' or 'pixel'")
        if isinstance(fill, (list, tuple)) and len(fill) not in (1, 3):
            raise _sluice.InvalidError(f"fill {fill}: one number, or one for each of three channels")
        self._fill = fill

    def __call__(self, images, labels, key, num_classes):
        """images, which are written to, and labels."""
        if not images.is_floating_point():
            raise _sluice.InvalidError("RandomErasing: it is for normalised images; give the loader normalize=True")
        boxes = []  # (row, its part of the row)
        for row, (sample, epoch) in enumerate(zip(key.ids, key.draw_epochs)):
            box = _sluice.draw_erasing(key.seed, epoch, sample, *self._draw, *images.shape[2:])
            if box is not None:
                top, left, height, width = box
                boxes.append((row, (row, slice(None), slice(top, top + height), slice(left, left + width))))
        if boxes and isinstance(self._fill, str):
            sizes = [images[part].numel() if self._fill == "pixel" else 3 for _, part in boxes]
            rows = [row for row, _ in boxes]
            fills = normals(key.seed, [key.draw_epochs[row] for row in rows], [key.ids[row] for row in rows], sizes,
                            images.device).split(sizes)
            for (_, part), fill in zip(boxes, fills):
                images[part] = fill.view(images[part].shape if self._fill == "pixel" else (3, 1, 1)).to(images.dtype)
        elif boxes:
            fill = torch.tensor(self._fill, dtype=images.dtype, device=images.device).view(-1, 1, 1)
            for _, part in boxes:
                images[part] = fill
        return images, labels


def philox(key, counter):
    """Philox4x32-10 (lib/base/rng.h) of int64 tensors that hold uint32: four tensors, of `key` two and of `counter`
    four numbers or tensors."""
    low = 0xFFFFFFFF
    a, b, c, d = counter
    key0, key1 = key
    for turn in range(10):
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = ((second >> 32 & low) ^ b ^ (key0 + turn * 0x9E3779B9 & low), second & low,
                      (first >> 32 & low) ^ d ^ (key1 + turn * 0xBB67AE85 & low), first & low)
    return a, b, c, d


@functools.lru_cache(maxsize=None)
def _quantiles(device):
    """float32 [65536]: the normal distribution at the middles of as many equal parts, in steps of 2^-20, so that the
    last bits of a libm's logarithm do not show."""
    inverse = statistics.NormalDist().inv_cdf
    half = torch.tensor([round(inverse((i + 0.5) / 65536) * 2**20) / 2**20 for i in range(32768)])
    return torch.cat([half, -half.flip(0)]).to(device)


@functools.lru_cache(maxsize=1)
def _quantile_bytes():
    return bytes(_quantiles(torch.device("cpu")).numpy())


def normals(seed, epochs, samples, sizes, device):
    """float32 [sum(sizes)] on the device: sizes[i] normal numbers of sample i in its epoch, the same on every
    device."""
    if max(sizes) > 65536 * 8:
        raise _sluice.InvalidError("fill 'pixel': a box has at most 524,288 values")
    if device.type != "cpu":
        return normals_by_tensors(seed, epochs, samples, sizes, device)
    drawn = torch.empty(sum(sizes))
    at = drawn.data_ptr()
    for epoch, sample, size in zip(epochs, samples, sizes):
        _sluice.fill_normals(seed, epoch, sample, _quantile_bytes(), at, size)
        at += 4 * size
    return drawn


def normals_by_tensors(seed, epochs, samples, sizes, device):
    """The same on any device, by its own arithmetic."""
    counts = torch.tensor(sizes)
    blocks = (counts + 7) // 8  # a block of the generator is eight numbers of 16 bits
    of = torch.repeat_interleave(torch.arange(len(sizes)), blocks).to(device)
    first = torch.cumsum(blocks, 0) - blocks
    block = torch.arange(int(blocks.sum()), device=device) - first.to(device)[of]
    epoch = torch.tensor(epochs, device=device)[of]
    low = torch.tensor([sample & 0xFFFFFFFF for sample in samples], device=device)[of]
    high = torch.tensor([sample >> 32 for sample in samples], device=device)[of]
    words = torch.stack(philox((seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF),
                               (low, high, epoch, block + (_FILL_OP << 16))), 1)
    parts = torch.stack((words & 0xFFFF, words >> 16), 2).view(-1)
    drawn = _quantiles(device)[parts]
    kept = torch.arange(8, device=device) + block.view(-1, 1) * 8 < counts.to(device)[of].view(-1, 1)
    return drawn[kept.view(-1)]
