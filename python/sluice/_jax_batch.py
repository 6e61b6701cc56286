"""Mix and RandomErasing of sluice.jax, on images [rows, height, width, 3].

draws() makes small NumPy arrays on the host.  apply() is pure: under jax.jit it is compiled once for each number of
rows, with the draws as its arguments.
"""
import jax
import numpy
from jax import numpy as jnp

from sluice import _batch_ops
from sluice._batch_ops import BatchKey  # noqa: F401


def _inside(box, height, width):
    """bool [..., height, width, 1]: the pixels in boxes int32 [..., 4]."""
    top, left, box_height, box_width = (box[..., i, None] for i in range(4))
    y, x = jnp.arange(height), jnp.arange(width)
    rows = (y >= top) & (y < top + box_height)
    columns = (x >= left) & (x < left + box_width)
    return (rows[..., :, None] & columns[..., None, :])[..., None]


class Mix(_batch_ops.Mix):
    def draws(self, key, height, width):
        """What the batch of that key draws, for apply()."""
        kind, own, box = self._drawn(key, height, width)
        return {"kind": numpy.int32(kind), "parts": numpy.array([own, 1 - own], numpy.float32),
                "box": numpy.array(box, numpy.int32), "zero": numpy.uint32(0)}

    def apply(self, images, labels, draws, num_classes, num_added=0):
        """The images, and labels as float32 [rows, classes].  num_added: the number of rows at the end
        that repeat the first ones, and are mixed with none."""
        self._check(jnp.issubdtype(images.dtype, jnp.floating))
        num_rows = images.shape[0] - num_added

        def other(rows):
            partner = rows[:num_rows][::-1] if self._pairing == "timm" else jnp.roll(rows[:num_rows], 1, 0)
            return jnp.concatenate([partner] * (1 + -(-num_added // num_rows)))[:len(rows)] if num_added else partner

        def part(rows, i):
            """Rounded: with the sum that follows XLA would make one FMA of it, if it knew that zero is 0."""
            product = rows.astype(jnp.float32) * draws["parts"][i]
            bits = jax.lax.bitcast_convert_type(product, jnp.uint32) ^ draws["zero"]
            return jax.lax.bitcast_convert_type(bits, jnp.float32).astype(rows.dtype)

        off = self._smoothing / (self._num_classes or num_classes)
        own = jnp.arange(self._num_classes or num_classes) == labels[:, None]
        soft = jnp.where(own, jnp.float32(1 - self._smoothing + off), jnp.float32(off))
        mixup, cutmix = self._draw[:2]
        if mixup > 0:
            images_mixed = part(images, 0) + part(other(images), 1)
            images = jnp.where(draws["kind"] == 1, images_mixed, images)
        if cutmix > 0:
            is_cut = (draws["kind"] == 2) & _inside(draws["box"], *images.shape[1:3])
            images = jnp.where(is_cut, other(images), images)
        return images, part(soft, 0) + part(other(soft), 1)

    def __call__(self, images, labels, key, num_classes):
        return self.apply(images, labels, self.draws(key, *images.shape[1:3]), num_classes)


class RandomErasing(_batch_ops.RandomErasing):
    def draws(self, key, height, width):
        """What the rows of a batch draw, for apply()."""
        boxes = [box or (0, 0, 0, 0) for box in self._boxes(key, height, width)]
        draws = {"boxes": numpy.array(boxes, numpy.int32).reshape(-1, 4)}
        if isinstance(self._fill, str):
            counters = [(*_batch_ops.words_of(sample), epoch) for sample, epoch in zip(key.ids, key.draw_epochs)]
            draws["counters"] = numpy.array(counters, numpy.uint32).reshape(-1, 3)
            draws["keys"] = numpy.array(_batch_ops.round_keys(_batch_ops.words_of(key.seed)), numpy.uint32)
        return draws

    def apply(self, images, labels, draws, num_classes, num_added=0):
        """The images, and labels as they are."""
        self._check(jnp.issubdtype(images.dtype, jnp.floating))
        boxes = draws["boxes"]
        if isinstance(self._fill, str):
            fill = _normals(draws["keys"], draws["counters"], self._places(boxes, *images.shape[1:3]))
        else:
            fill = jnp.asarray(self._fill, jnp.float32)
        return jnp.where(_inside(boxes, *images.shape[1:3]), fill.astype(images.dtype), images), labels

    def _places(self, boxes, height, width):
        """Of each value its place among those that its sample draws: uint32 [rows, height, width, 3], which means nothing
        outside the box, or [1, 1, 1, 3]."""
        channel = jnp.arange(3)[None, None, None, :]
        if self._fill == "channel":
            return channel.astype(jnp.uint32)
        top, left, box_height, box_width = (boxes[:, i, None, None, None] for i in range(4))
        y, x = jnp.arange(height)[None, :, None, None], jnp.arange(width)[None, None, :, None]
        return ((channel * box_height + y - top) * box_width + x - left).astype(jnp.uint32)

    def __call__(self, images, labels, key, num_classes):
        return self.apply(images, labels, self.draws(key, *images.shape[1:3]), num_classes)


def _multiplied(array, constant):
    """The upper and the lower 32 bits of the product, of uint32 arrays."""
    low, high = array & 0xFFFF, array >> 16
    by_low, by_high = numpy.uint32(constant & 0xFFFF), numpy.uint32(constant >> 16)
    first, second = low * by_high, high * by_low
    middle = (low * by_low >> 16) + (first & 0xFFFF) + (second & 0xFFFF)
    return high * by_high + (first >> 16) + (second >> 16) + (middle >> 16), array * numpy.uint32(constant)


def _normals(keys, counters, places):
    """float32, as sluice.torch's of the same places: each value is of a block of eight of its sample."""
    low, high, epoch = (counters[:, i, None, None, None] for i in range(3))
    words = _batch_ops.philox(keys, (low, high, epoch, (places >> 3) + numpy.uint32(_batch_ops.FILL_OP << 16)), _multiplied)
    word = jnp.select([places >> 1 & 3 == i for i in range(3)], words[:3], words[3])
    part = jnp.where(places & 1, word >> 16, word & 0xFFFF)
    return jnp.asarray(numpy.frombuffer(_batch_ops.quantiles(), numpy.float32))[part]
