"""Mix and RandomErasing of sluice.torch."""
import functools

import torch

from sluice import _batch_ops, _sluice
from sluice._batch_ops import BatchKey  # noqa: F401


class Mix(_batch_ops.Mix):
    def _other(self, rows):
        return rows.flip(0) if self._pairing == "timm" else rows.roll(1, 0)

    def _soft(self, labels, num_classes):
        off = self._smoothing / num_classes
        soft = torch.full((len(labels), num_classes), off, device=labels.device)
        return soft.scatter_(1, labels.view(-1, 1), 1 - self._smoothing + off)

    def __call__(self, images, labels, key, num_classes):
        """images, labels of probabilities; images may be written to."""
        self._check(images.is_floating_point())
        kind, own, (top, left, height, width) = self._drawn(key, *images.shape[2:])
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


class RandomErasing(_batch_ops.RandomErasing):
    def __call__(self, images, labels, key, num_classes):
        """images, which are written to, and labels."""
        self._check(images.is_floating_point())
        boxes = []  # (row, its part of the row)
        for row, box in enumerate(self._boxes(key, *images.shape[2:])):
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


def multiplied(tensor, constant):
    """The upper and the lower 32 bits of the product, of int64 tensors that hold uint32."""
    product = tensor * constant
    return product >> 32 & 0xFFFFFFFF, product & 0xFFFFFFFF


@functools.lru_cache(maxsize=None)
def _quantiles(device):
    return torch.frombuffer(bytearray(_batch_ops.quantiles()), dtype=torch.float32).to(device)


def normals(seed, epochs, samples, sizes, device):
    """float32 [sum(sizes)] on the device: sizes[i] normal numbers of sample i in its epoch, the same on every
    device."""
    if device.type != "cpu":
        return normals_by_tensors(seed, epochs, samples, sizes, device)
    drawn = torch.empty(sum(sizes))
    at = drawn.data_ptr()
    for epoch, sample, size in zip(epochs, samples, sizes):
        _sluice.fill_normals(seed, epoch, sample, _batch_ops.quantiles(), at, size)
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
    low, high = (torch.tensor(words, device=device)[of] for words in zip(*map(_batch_ops.words_of, samples)))
    words = torch.stack(_batch_ops.philox(_batch_ops.round_keys(_batch_ops.words_of(seed)),
                                          (low, high, epoch, block + (_batch_ops.FILL_OP << 16)), multiplied), 1)
    parts = torch.stack((words & 0xFFFF, words >> 16), 2).view(-1)
    drawn = _quantiles(device)[parts]
    kept = torch.arange(8, device=device) + block.view(-1, 1) * 8 < counts.to(device)[of].view(-1, 1)
    return drawn[kept.view(-1)]
