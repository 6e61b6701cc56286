"""pad() and patchify() of sluice.torch: one tensor from a list of images of any size."""
import torch

from sluice import _sluice


def pad(images, multiple=1):
    """(batch, mask): the images at the upper left of a tensor of the largest height and width, rounded up to `multiple`.

    images  a list of tensors [channels, height, width] of one dtype and device
    batch   [rows, channels, height, width], zero outside the images
    mask    bool [rows, height, width], True where the image is

    For example `Loader(..., transform=sluice.torch.pad)`, of a pipeline that leaves images in sizes of their own.
    """
    if not images or multiple < 1:
        raise _sluice.InvalidError(f"pad: {len(images)} images, multiple={multiple}: both are at least 1")
    height, width = (-(-max(image.shape[axis] for image in images) // multiple) * multiple for axis in (1, 2))
    batch = images[0].new_zeros((len(images), images[0].shape[0], height, width))
    mask = torch.zeros((len(images), height, width), dtype=torch.bool, device=batch.device)
    for row, image in enumerate(images):
        batch[row, :, :image.shape[1], :image.shape[2]] = image
        mask[row, :image.shape[1], :image.shape[2]] = True
    return batch, mask


def patchify(images, size):
    """(patches, offsets, grids): the images cut into squares, from left to right and from top to bottom, one image after
    the other.

    images   a list of tensors [channels, height, width]; sides are multiples of `size` (smart_resize, pad_to_multiple)
    patches  [total, channels * size * size], channels first
    offsets  int64 [rows + 1]: the patches of row i are offsets[i]:offsets[i + 1]
    grids    int64 [rows, 2]: the patches down and across

    offsets and grids are on the host.
    """
    for row, image in enumerate(images):
        if size < 1 or image.shape[1] % size or image.shape[2] % size:
            raise _sluice.InvalidError(f"patchify: image {row} has {image.shape[1]} x {image.shape[2]} pixels, which is no "
                                       f"multiple of size={size}; smart_resize and pad_to_multiple make such images")
    grids = torch.tensor([[image.shape[1] // size, image.shape[2] // size] for image in images], dtype=torch.int64)
    cut = [image.unflatten(2, (-1, size)).unflatten(1, (-1, size)).permute(1, 3, 0, 2, 4).flatten(2).flatten(0, 1)
           for image in images]
    offsets = torch.zeros(len(images) + 1, dtype=torch.int64)
    torch.cumsum(grids.prod(1), 0, out=offsets[1:])
    return torch.cat(cut), offsets, grids
