"""pad() and patchify() of sluice.torch, sluice.numpy and sluice.jax: one array from a list of images of any size.

A Library says how one of them makes arrays.  Patches have the same values in all three, channels first.
"""
import typing

from sluice import _sluice


class Library(typing.NamedTuple):
    channels: int              # the axis of the channels: 0 or 2
    zeros: typing.Callable     # (images, shape): zeros like the images
    no_mask: typing.Callable   # (images, shape): False
    moveaxis: typing.Callable
    int64: typing.Callable     # of a list


def _sides(library, image):
    return [side for axis, side in enumerate(image.shape) if axis != library.channels]


def pad(library, images, multiple, size):
    if not images or multiple < 1:
        raise _sluice.InvalidError(f"pad: {len(images)} images, multiple={multiple}: both are at least 1")
    sides = [_sides(library, image) for image in images]
    height, width = (-(-max(side) // multiple) * multiple for side in zip(*sides)) if size is None else size
    for row, (down, across) in enumerate(sides):
        if down > height or across > width:
            raise _sluice.InvalidError(f"pad: image {row} has {down} x {across} pixels, more than size={size}")
    shape = [len(images), height, width]
    mask = library.no_mask(images, shape)
    shape.insert(1 + library.channels, images[0].shape[library.channels])
    batch = library.zeros(images, shape)
    for row, (image, (down, across)) in enumerate(zip(images, sides)):
        inside = [slice(down), slice(across)]
        mask[(row, *inside)] = True
        inside.insert(library.channels, slice(None))
        batch[(row, *inside)] = image
    return batch, mask


def patchify(library, images, size, num_patches):
    if not images or size < 1:
        raise _sluice.InvalidError(f"patchify: {len(images)} images, size={size}: both are at least 1")
    sides = [_sides(library, image) for image in images]
    for row, (down, across) in enumerate(sides):
        if down % size or across % size:
            raise _sluice.InvalidError(f"patchify: image {row} has {down} x {across} pixels, which is no multiple of "
                                       f"size={size}; smart_resize and pad_to_multiple make such images")
    grids = [[down // size, across // size] for down, across in sides]
    offsets = [0]
    for down, across in grids:
        offsets.append(offsets[-1] + down * across)
    if num_patches is not None and num_patches < offsets[-1]:
        raise _sluice.InvalidError(f"patchify: the images have {offsets[-1]} patches, more than num_patches={num_patches}")
    channels = images[0].shape[library.channels]
    patches = library.zeros(images, [num_patches or offsets[-1], channels * size * size])
    for image, (down, across), first, end in zip(images, grids, offsets, offsets[1:]):
        cut = library.moveaxis(image, library.channels, 0).reshape(channels, down, size, across, size)
        patches[first:end] = library.moveaxis(cut, (1, 3), (0, 1)).reshape(end - first, -1)
    return patches, library.int64(offsets), library.int64(grids)
