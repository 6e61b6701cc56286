"""What the pipeline draws, written again in Python from docs/NUMERICS.md.

Independent of the C code: Philox4x32-10 with Python's integers, exp and log from
the math module, torchvision's get_params as its source has it.
"""

import math

MASK = 0xFFFFFFFF


def philox(key, counter):
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0, p1 = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & MASK, (p0 >> 32) ^ c3 ^ k1, p0 & MASK
        k0, k1 = (k0 + 0x9E3779B9) & MASK, (k1 + 0xBB67AE85) & MASK
    return [c0, c1, c2, c3]


class Rng:
    """The stream of one (seed, epoch, sample id, op)."""

    def __init__(self, seed, epoch, sample, op):
        self.key = (seed & MASK, seed >> 32)
        self.counter = (sample & MASK, sample >> 32, epoch)
        self.op, self.block, self.words = op, 0, []

    def word(self):
        if not self.words:
            self.words = philox(self.key, (*self.counter, self.op << 16 | self.block))
            self.block += 1
        return self.words.pop(0)

    def uniform(self):
        high = self.word()
        return ((high << 32 | self.word()) >> 11) / 2**53

    def below(self, bound):
        product = self.word() * bound
        while (product & MASK) < 2**32 % bound:
            product = self.word() * bound
        return product >> 32


def crop(rng, width, height, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3)):
    """(top, left, height, width), and whether the ten tries failed."""
    area = height * width
    log_ratio = (math.log(ratio[0]), math.log(ratio[1]))
    for _ in range(10):
        target_area = area * (scale[0] + (scale[1] - scale[0]) * rng.uniform())
        aspect = math.exp(log_ratio[0] + (log_ratio[1] - log_ratio[0]) * rng.uniform())
        w = int(round(math.sqrt(target_area * aspect)))
        h = int(round(math.sqrt(target_area / aspect)))
        if 0 < w <= width and 0 < h <= height:
            top = rng.below(height - h + 1)
            left = rng.below(width - w + 1)
            return (top, left, h, w), False
    in_ratio = width / height
    w, h = width, height
    if in_ratio < min(ratio):
        h = int(round(w / min(ratio)))
    elif in_ratio > max(ratio):
        w = int(round(h * max(ratio)))
    return ((height - h) // 2, (width - w) // 2, h, w), True


def flip(rng, probability=0.5):
    return rng.uniform() < probability
