"""Values of a dataset's fields, as loaders yield them."""
import array
import collections
import json

from sluice import _sluice

Field = collections.namedtuple("Field", "number name kind dim")


def chosen(asked, described):
    """The Fields that fields= asks for (True: all, a list: these names) of what a loader describes."""
    fields = [Field(i, *one) for i, one in enumerate(described)]
    if not asked:
        return []
    if not fields:
        raise _sluice.InvalidError("fields: the dataset has none; offload_dataset index --target reads them")
    if asked is True:
        return fields
    if isinstance(asked, str):
        raise _sluice.InvalidError(f"fields={asked!r}: True, or a list of names")
    by_name = {field.name: field for field in fields}
    for name in asked:
        if name not in by_name:
            raise _sluice.InvalidError(f"fields: the dataset has no {name!r}, but {', '.join(map(repr, by_name))}")
    return [by_name[name] for name in asked]


def made_of(field, values, num_rows, from_buffer):
    """What is yielded for the values of _sluice.Loader.values()."""
    if field.kind == "vector":
        return from_buffer(values, "float32").reshape((num_rows, field.dim))
    if field.kind == "boxes":
        boxes, labels, offsets = values
        return {"boxes": from_buffer(boxes, "float32").reshape((-1, 4)), "labels": from_buffer(labels, "int64"),
                "offsets": from_buffer(offsets, "int64")}
    if field.kind == "keypoints":
        points, offsets = values
        return {"keypoints": from_buffer(points, "float32").reshape((-1, field.dim, 3)),
                "offsets": from_buffer(offsets, "int64")}
    return [json.loads(value) for value in values] if field.kind == "json" else values


MOVED = ("boxes", "keypoints", "mask")  # kinds that come as the rows show them


def moved_of(field, values, view, least_box, from_buffer):
    """What is yielded for boxes or keypoints as a view of the rows shows them.  view: (the matrices of its geometry as
    bytes, (height, width), or a list of these for each row); least_box: the last arguments of _sluice.move_boxes()."""
    matrices, size = view
    given, ends = bytes(values[0]), bytes(values[-1])
    if field.kind == "keypoints":
        def points_of(matrix, size, points, ends):
            return _sluice.move_keypoints(matrix, *size, points, ends, field.dim, 3), None, ends
        points, _, _ = _moved_rows(points_of, matrices, size, given, ends, 12 * field.dim)
        return made_of(field, (points, values[1]), None, from_buffer)

    def boxes_of(matrix, size, boxes, ends):
        return _sluice.move_boxes(matrix, *size, boxes, ends, *least_box)
    boxes, kept, ends = _moved_rows(boxes_of, matrices, size, given, ends, 16)
    kept = from_buffer(kept, "int64")
    return {"boxes": from_buffer(boxes, "float32").reshape((-1, 4)), "labels": from_buffer(values[1], "int64")[kept],
            "offsets": from_buffer(ends, "int64"), "kept": kept}


def _moved_rows(move, matrices, size, values, ends, item_bytes):
    """move(matrices, size, values, ends) of all rows at once, or with a list of sizes row by row: (values, which of them
    they are, ends)."""
    if not isinstance(size, list):
        return move(matrices, size, values, ends)
    made, kept, made_ends = bytearray(), array.array("q"), array.array("q", [0])
    at = memoryview(ends).cast("q")
    for row, own in enumerate(size):
        begin, end = at[row], at[row + 1]
        moved, which, own_ends = move(matrices[72 * row:72 * row + 72], own, values[item_bytes * begin:item_bytes * end],
                                      array.array("q", [0, end - begin]).tobytes())
        made += moved
        kept.extend(begin + number for number in memoryview(which or b"").cast("q"))
        made_ends.append(made_ends[-1] + memoryview(own_ends).cast("q")[1])
    return made, bytearray(kept), bytearray(made_ends)


def row_of(value, row):
    """The value of one row; of boxes and keypoints its part of the arrays, without offsets."""
    if not isinstance(value, dict):
        return value[row]
    begin, end = (int(at) for at in value["offsets"][row:row + 2])
    return {name: array[begin:end] for name, array in value.items() if name != "offsets"}


def rows_of(fields, num_rows):
    """A dict of fields as a list of dicts, one for each row."""
    return [{name: row_of(value, row) for name, value in fields.items()} for row in range(num_rows)]


def taken(fields, rows):
    """The fields of these rows, of NumPy's arrays."""
    import numpy

    def of(value):
        if isinstance(value, list):
            return [value[row] for row in rows]
        if isinstance(value, tuple):  # of several views
            return tuple(of(one) for one in value)
        if not isinstance(value, dict):
            return value[rows]
        offsets = value["offsets"]
        places = [numpy.arange(offsets[row], offsets[row + 1]) for row in rows]
        ends = numpy.cumsum([0, *map(len, places)])
        at = numpy.concatenate(places)
        return {name: ends if name == "offsets" else array[at] for name, array in value.items()}

    return {name: of(value) for name, value in fields.items()}


def mapped(value, function):
    """The same dicts, with function(array) in place of their arrays; lists stay."""
    if isinstance(value, dict):
        return {name: mapped(one, function) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(mapped(one, function) for one in value)
    return value if value is None or isinstance(value, list) else function(value)


def arrays_in(value):
    """The arrays of a value that mapped() maps."""
    if isinstance(value, dict):
        return [array for one in value.values() for array in arrays_in(one)]
    if isinstance(value, tuple):
        return [array for one in value for array in arrays_in(one)]
    return [] if value is None or isinstance(value, list) else [value]
