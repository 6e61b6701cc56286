"""From Hugging Face's datasets to a folder that offload_server serves.

    dataset = datasets.load_dataset("ethz/food101")
    sluice.huggingface.to_sluice(dataset, "/data/food101")

and then `offload_server --root /data/food101`, or sluice.torch.Loader("/data/food101", 256).
"""
import io
import os
import re
import shutil
import warnings

from sluice import _sluice

SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val"}
# How files begin that Sluice reads as they are, to Pillow's pixels; of TIFF it reads some kinds.
SUFFIXES = {rb"\xff\xd8\xff": ".jpg", rb"\x89PNG\r\n\x1a\n": ".png", rb"RIFF....WEBPVP8": ".webp",
            rb"GIF8[79]a": ".gif", rb"BM": ".bmp", rb"P5\s": ".pgm", rb"P6\s": ".ppm"}


def to_sluice(dataset, folder, image="image", label="label"):
    """Writes a Dataset's images to a new folder, one folder for each class; returns their number.

    dataset     a Dataset or IterableDataset, or a dict (DatasetDict) of a split "train" and one
                "validation" or "val", which become the parts of these names
    folder      where to; it must not exist yet, or be empty
    image       the column of images
    label       the column of labels: a ClassLabel, or integers from 0 on

    JPEG, PNG, WebP, GIF, BMP, PPM, PGM and common kinds of TIFF are written byte for byte.  Other
    formats, and images that have no bytes, become PNG in RGB: a warning says how many.  Class folders are named by number and name
    ("007_sushi"), so that labels are those of the ClassLabel.

    Files are written to FOLDER.partial, which takes the folder's name when all are there.  After an
    error it is removed; one that is left of a run that was killed has to be removed first.
    """
    folder = os.path.abspath(os.fspath(folder))
    partial = folder + ".partial"
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise _sluice.InvalidError(f"folder {folder} is there and not empty: choose another one")
    splits = _splits(dataset)
    names = [_classes(split, image, label) for split in splits.values()]
    if any(other != names[0] for other in names):
        raise _sluice.InvalidError(f"label {label!r}: the splits have different class names")
    try:
        os.makedirs(os.path.dirname(partial), exist_ok=True)
        os.mkdir(partial)
    except FileExistsError:
        raise _sluice.InvalidError(f"{partial} is of another run, under way or cut off: "
                                   "wait for it or remove the folder") from None
    try:
        num_samples, encoded, width = 0, {}, _width(names[0])
        labels = set(range(len(names[0] or ())))
        for part, split in splits.items():
            found = _write(split, os.path.join(partial, part), names[0], width, image, label)
            for kind, count in found["encoded"].items():
                encoded[kind] = encoded.get(kind, 0) + count
            num_samples += found["num_samples"]
            labels |= found["labels"]
        # A class without samples keeps its label by its folder.
        for number in range(max(labels, default=-1) + 1):
            name = _class_folder(number, names[0], width)
            for part in splits:
                os.makedirs(os.path.join(partial, part, name), exist_ok=True)
        os.sync()
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if encoded:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(encoded.items()))
        warnings.warn(f"{sum(encoded.values())} of {num_samples} images are of a kind that is not "
                      f"read as it is and are written as PNG: {kinds}", stacklevel=2)
    return num_samples


def _splits(dataset):
    """{name of a part, or "" if there is only one: dataset}"""
    if not isinstance(dataset, dict):
        return {"": dataset}
    splits = {SPLITS.get(name): split for name, split in dataset.items()}
    if None in splits or len(splits) != len(dataset) or "train" not in splits:
        raise _sluice.InvalidError(f"splits {', '.join(dataset)}: give 'train' and, if there is "
                                   "one, 'validation'; or a single dataset: dataset['train']")
    return splits if len(splits) > 1 else {"": splits["train"]}


def _classes(dataset, image, label):
    """The names of the classes, or None where labels are plain integers."""
    columns = dataset.column_names
    for name, column in (("image", image), ("label", label)):
        if columns is not None and column not in columns:
            raise _sluice.InvalidError(f"{name} {column!r}: the columns are {', '.join(columns)}")
    feature = (dataset.features or {}).get(label)
    return getattr(feature, "names", None)


def _width(names):
    return len(str(len(names) - 1)) if names else 6


def _class_folder(number, names, width):
    if names is None:
        return f"{number:0{width}d}"
    name = re.sub(r"[\x00-\x1f\x7f/\\]+", "_", names[number]).encode("utf-8", "replace")[:200]
    return f"{number:0{width}d}_{name.decode('utf-8', 'ignore')}"


def _write(dataset, folder, names, width, image, label):
    feature = (dataset.features or {}).get(image)
    if hasattr(feature, "decode"):  # the bytes as they are
        dataset = dataset.cast_column(image, type(feature)(decode=False))
    os.makedirs(folder, exist_ok=True)
    found = {"num_samples": 0, "labels": set(), "encoded": {}}
    for row, sample in enumerate(dataset):
        number = sample[label]
        if isinstance(number, bool) or not isinstance(number, int) \
                or not 0 <= number < (len(names) if names else 10 ** width):
            raise _sluice.InvalidError(
                f"label {number!r} of row {row} is no class: give a ClassLabel "
                f"(dataset.class_encode_column({label!r})) and rows that have one")
        data, suffix, kind = _encoded(sample[image], row)
        if kind:
            found["encoded"][kind] = found["encoded"].get(kind, 0) + 1
        into = os.path.join(folder, _class_folder(number, names, width))
        if number not in found["labels"]:
            os.makedirs(into, exist_ok=True)
            found["labels"].add(number)
        with open(os.path.join(into, f"{row:08d}{suffix}"), "xb") as file:
            file.write(data)
        found["num_samples"] += 1
    return found


def _is_read(tags):
    """Whether these tags are of a TIFF of a kind that Sluice reads: the common ones, of 8 bits."""
    compression, colors, num_samples = (tags.get(tag, default) for tag, default in (
        (259, 1), (262, 0), (277, 1)))
    # Of gray, RGB (each with alpha, too), palette, CMYK, YCbCr.
    wanted = {0: (1, 2), 1: (1, 2), 2: (3, 4), 3: (1,), 5: (4,), 6: (3,)}.get(colors, ())
    return (compression in (1, 5, 7, 8, 32773, 32946) and (colors == 6) <= (compression == 7)
            and num_samples in wanted and set(tags.get(258, (1,))) == {8}
            and tags.get(284, 1) == 1 and set(tags.get(339, (1,))) == {1})


def _encoded(value, row):
    """(bytes, suffix, what it was if it is encoded anew)"""
    if isinstance(value, dict):
        data, path = value.get("bytes"), value.get("path")
        if data is None and path is not None:
            with open(path, "rb") as file:
                data = file.read()
        if data is None:
            raise _sluice.InvalidError(f"the image of row {row} has neither bytes nor a path")
        for start, suffix in SUFFIXES.items():
            if re.match(start, data, re.DOTALL):
                return data, suffix, None
        from PIL import Image, UnidentifiedImageError
        try:
            picture = Image.open(io.BytesIO(data))
            picture.load()
        except (UnidentifiedImageError, OSError) as error:
            raise _sluice.CorruptError(f"the image of row {row}: {error}") from None
        if picture.format == "TIFF" and _is_read(picture.tag_v2):
            return data, ".tif", None
    elif hasattr(value, "convert") and hasattr(value, "save"):  # PIL.Image
        picture = value
    else:
        raise _sluice.InvalidError(f"row {row} has a {type(value).__name__} for an image: "
                                   "give a column of datasets.Image or of PIL images")
    out = io.BytesIO()
    picture.convert("RGB").save(out, "PNG")
    return out.getvalue(), ".png", picture.format or "image without a format"
