"""Boxes and keypoints of the files' images, moved to where the rows of a batch show them.

    for images, labels, ids, geometry in sluice.torch.Loader(source, 16, sample_ids=True, geometry=True):
        given = [boxes_of[i] for i in ids.tolist()]                 # of each row float32 [n, 4]
        boxes, kept, offsets = sluice.annotations.move_boxes(geometry, images.shape[-2:], *ragged(given))
        classes = numpy.concatenate([classes_of[i] for i in ids.tolist()])[kept]

Ragged arrays: those of all rows after each other, and int64 [rows + 1] offsets; row i has [offsets[i], offsets[i + 1]).
"""
import numpy

from sluice import _sluice


def ragged(arrays):
    """(the arrays of all rows after each other, their offsets) of a list of arrays, one for each row."""
    arrays = [numpy.asarray(array, numpy.float32) for array in arrays]
    offsets = numpy.cumsum([0, *map(len, arrays)], dtype=numpy.int64)
    return numpy.concatenate(arrays) if arrays else numpy.empty((0, 4), numpy.float32), offsets


def _of_batch(geometry, values, offsets):
    matrix = geometry["matrix"] if isinstance(geometry, dict) else geometry
    return (numpy.ascontiguousarray(matrix, numpy.float64).tobytes(), values.tobytes(),
            numpy.ascontiguousarray(offsets, numpy.int64).tobytes())


def move_boxes(geometry, size, boxes, offsets, *, min_size=1, min_area=1, by_center=False):
    """(boxes, kept, offsets) of those that the rows show, as NumPy arrays.

    geometry    of the batch, as a loader yields it (of one view), or float64 [rows, 3, 3], its "matrix"
    size        (height, width) of the rows
    boxes       float32 [boxes, 4]: left, top, right, bottom in pixels of the file's image
    offsets     of the boxes of each row
    by_center   drop boxes whose centre a row does not show, as RandomIoUCrop does: loader.info["draws_by_boxes"]

    A box becomes the one around its moved corners, clipped to the row; it is kept if its sides are at least min_size and
    its area is at least min_area: torchvision's ClampBoundingBoxes and SanitizeBoundingBoxes.  kept says which of the
    boxes given each is: int64, for the classes and whatever goes with them.
    """
    boxes = numpy.ascontiguousarray(boxes, numpy.float32).reshape(-1, 4)
    matrix, values, ends = _of_batch(geometry, boxes, offsets)
    moved, kept, ends = _sluice.move_boxes(matrix, *map(int, size), values, ends, min_size, min_area,
                                             by_center)
    return (numpy.frombuffer(moved, numpy.float32).reshape(-1, 4), numpy.frombuffer(kept, numpy.int64),
            numpy.frombuffer(ends, numpy.int64))


def move_keypoints(geometry, size, points, offsets):
    """float32 [objects, points, 2 or 3] as the rows show them; geometry, size and offsets as of move_boxes().

    With 3 numbers, x, y and COCO's visibility, what is not labelled or not in the row becomes 0, 0, 0.  With 2 it may lie
    outside.  geometry["flip"] says where left and right (eye, hand) have changed places.
    """
    points = numpy.ascontiguousarray(points, numpy.float32)
    if points.ndim != 3:
        raise ValueError(f"keypoints {list(points.shape)}: [objects, points, 2 or 3]")
    matrix, values, ends = _of_batch(geometry, points, offsets)
    moved = _sluice.move_keypoints(matrix, *map(int, size), values, ends, *points.shape[1:])
    return numpy.frombuffer(moved, numpy.float32).reshape(points.shape)
