"""Ops of whole batches, after normalize: what Mix and RandomErasing of sluice.torch and sluice.jax draw.

The classes here check and draw; a framework's own apply what was drawn to its arrays.
"""
import collections
import functools

from sluice import _sluice, recipes

# The names of a batch: what its ops draw depends on these alone.  ids and draw_epochs are of its rows.
BatchKey = collections.namedtuple("BatchKey", "seed epoch index rank ids draw_epochs")

# The stream of a sample's draws from which erased boxes are filled (lib/op/batch_draws.c).
FILL_OP = 0xFF02

MAX_FILL = 65536 * 8  # values of a box, as SLUICE_MAX_FILL


class Mix:
    """Mixup and CutMix within this process's batch, and labels as probabilities.

        sluice.torch.Loader(source, 256, device="cuda", batch_ops=[sluice.torch.Mix(mixup=0.2, cutmix=1.0)])

    Labels become float32 [rows, classes], which torch.nn.CrossEntropyLoss and optax.softmax_cross_entropy take.  The
    formulas are timm's Mixup (mode "batch") and torchvision's MixUp and CutMix.  The draws depend on the seed, the
    epoch, the global batch and the rank, so the pairs of a run change with its world size.

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

    def _check(self, is_float):
        if not is_float and self._draw[0] > 0:
            raise _sluice.InvalidError("mixup: it is for normalised images; give the loader normalize=True")

    def _drawn(self, key, height, width):
        """(kind, lambda, (top, left, height, width)) of _sluice.draw_mix()."""
        return _sluice.draw_mix(key.seed, key.epoch, key.index, key.rank, *self._draw, height, width)


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

    @staticmethod
    def _check(is_float):
        if not is_float:
            raise _sluice.InvalidError("RandomErasing: it is for normalised images; give the loader normalize=True")

    def _boxes(self, key, height, width):
        """(top, left, height, width) of each row; None: it is not erased."""
        boxes = [_sluice.draw_erasing(key.seed, epoch, sample, *self._draw, height, width)
                 for sample, epoch in zip(key.ids, key.draw_epochs)]
        if self._fill == "pixel" and any(box and 3 * box[2] * box[3] > MAX_FILL for box in boxes):
            raise _sluice.InvalidError("fill 'pixel': a box has at most 524,288 values")
        return boxes


def of_part(recipe, batch_ops, part, mix, erasing):
    """The recipe (with what was made of it before) and the ops of a part's batches.  mix, erasing: the classes."""
    made = []
    if recipe is not None:
        recipe = recipes.of(recipe)
        made = [op(**arguments) for op, arguments in ((erasing, recipe.erasing), (mix, recipe.mix)) if arguments is not None]
    ops = [*made, *batch_ops] if part == "train" else []
    if sum(isinstance(op, mix) for op in ops) > 1:
        raise _sluice.InvalidError("batch_ops: one Mix; the recipe has one already, or leave it out")
    return recipe, ops


def words_of(value):
    """The lower and the upper 32 bits."""
    return value & 0xFFFFFFFF, value >> 32 & 0xFFFFFFFF


def round_keys(key):
    """Of Philox4x32-10, for a key of two numbers: a pair for each round."""
    return [(key[0] + i * 0x9E3779B9 & 0xFFFFFFFF, key[1] + i * 0xBB67AE85 & 0xFFFFFFFF) for i in range(10)]


def philox(keys, counter, multiplied):
    """Philox4x32-10 (lib/base/rng.h) of arrays of uint32 values: four arrays, of round_keys() and a counter of four numbers
    or arrays.  multiplied(array, constant): the upper and the lower 32 bits of the product."""
    a, b, c, d = counter
    for key0, key1 in keys:
        (high0, low0), (high1, low1) = multiplied(a, 0xD2511F53), multiplied(c, 0xCD9E8D57)
        a, b, c, d = high1 ^ b ^ key0, low1, high0 ^ d ^ key1, low0
    return a, b, c, d


@functools.lru_cache(maxsize=1)
def quantiles():
    """Of the normal distribution, as bytes of float32 [65536]: what erased boxes are filled with."""
    return _sluice.normal_quantiles()
