"""From Hugging Face's datasets, or Parquet files as they lie on its hub, to a folder that
offload_server serves.

    dataset = datasets.load_dataset("ethz/food101")
    sluice.huggingface.to_sluice(dataset, "/data/food101")
    sluice.huggingface.to_sluice("/downloads/food101/data", "/data/food101")    # train-*.parquet, ...

and then `offload_server --root /data/food101`, or sluice.torch.Loader("/data/food101", 256).
"""
import collections
import io
import json
import os
import re
import shutil
import tarfile
import warnings

from sluice import _sluice

# The words of offload_dataset index (datasets/list/split_name.c); test is left out.
SPLITS = {"train": "train", "training": "train", "val": "val", "valid": "val", "validation": "val",
          "dev": "val", "test": "test", "testing": "test"}
# How files begin that Sluice reads as they are, to Pillow's pixels; of TIFF it reads some kinds.
SUFFIXES = {rb"\xff\xd8\xff": ".jpg", rb"\x89PNG\r\n\x1a\n": ".png", rb"RIFF....WEBPVP8": ".webp",
            rb"GIF8[79]a": ".gif", rb"BM": ".bmp", rb"P5\s": ".pgm", rb"P6\s": ".ppm"}


def to_sluice(dataset, folder, image="image", label="label", shard_bytes=None, fields=()):
    """Writes a Dataset's images to a new folder, one folder for each class; returns their number.

    dataset      a Dataset or IterableDataset, or a dict (DatasetDict) of a split "train" and one
                 "validation" (or "val", "valid", "dev"), which become the parts train and val;
                 or the path of a Parquet file, or of a folder of them, of which names tell the
                 splits ("train-00000-of-00005.parquet"; needs pyarrow).  A split "test" is left
                 out, with a warning.
    folder       where to; it must not exist yet, or be empty
    image        the column of images: datasets.Image, or in Parquet a struct of bytes and path, or
                 bytes
    label        the column of labels: a ClassLabel, or integers from 0 on; in Parquet also texts,
                 which are numbered as Python sorts them
    shard_bytes  writes tars of about this size instead, in the order of the rows, for
                 `offload_dataset index FOLDER`
    fields       columns that are written, too, as files next to the images (in tars next to them) whose
                 suffix is the column: `offload_dataset index FOLDER --target .COLUMN:KIND` reads
                 them.  Texts and bytes are written as they are, images as their file, others as JSON

    JPEG, PNG, WebP, GIF, BMP, PPM, PGM and the kinds of TIFF that are read are written byte for
    byte.  Other formats, and images that have no bytes, become PNG in RGB: a warning says how many.
    Class folders are named by number and name ("007_sushi"), so that labels are those of the
    ClassLabel; beside tars sluice-classes.txt has the names.

    Files are written to FOLDER.partial, which takes the folder's name when all are there.  After an
    error it is removed; one that is left of a run that was killed has to be removed first.
    """
    folder = os.path.abspath(os.fspath(folder))
    partial = folder + ".partial"
    if os.path.lexists(folder) and (not os.path.isdir(folder) or os.listdir(folder)):
        raise _sluice.InvalidError(f"folder {folder} is there and not empty: choose another one")
    if isinstance(dataset, (str, os.PathLike)):
        dataset = _parquet(os.fspath(dataset), image, label, fields)
    splits, left_out = _splits(dataset)
    names = [_classes(split, image, label, fields) for split in splits.values()]
    if any(other != names[0] for other in names):
        raise _sluice.InvalidError(f"label {label!r}: the splits have different class names")
    names = names[0]
    try:
        os.makedirs(os.path.dirname(partial), exist_ok=True)
        os.mkdir(partial)
    except FileExistsError:
        raise _sluice.InvalidError(f"{partial} is of another run, under way or cut off: "
                                   "wait for it or remove the folder") from None
    try:
        num_samples, encoded, labels = 0, collections.Counter(), set(range(len(names or ())))
        for part, split in splits.items():
            into = os.path.join(partial, part)
            with _Tars(into, shard_bytes) if shard_bytes else _Folders(into, names) as out:
                for row, number, data, suffix, kind, values in _rows(split, names, image, label, fields):
                    out.write(row, number, data, suffix, values)
                    num_samples += 1
                    labels.add(number)
                    if kind:
                        encoded[kind] += 1
        if not shard_bytes:
            # A class without samples keeps its label by its folder.
            for number in range(max(labels, default=-1) + 1):
                for part in splits:
                    os.makedirs(os.path.join(partial, part, _class_folder(number, names)),
                                exist_ok=True)
        elif names:
            _write_classes(os.path.join(partial, "sluice-classes.txt"), names)
        os.sync()
        os.rename(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if left_out:
        warnings.warn(f"{left_out} is left out", stacklevel=2)
    if encoded:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(encoded.items()))
        warnings.warn(f"{encoded.total()} of {num_samples} images are of a kind that is not "
                      f"read as it is and are written as PNG: {kinds}", stacklevel=2)
    return num_samples


# --- Parquet

_ClassNames = collections.namedtuple("_ClassNames", "names")


class _Parquet:
    """The rows of Parquet files, as a Dataset has them: images in bytes, labels as numbers."""

    def __init__(self, paths, image, label, fields):
        from pyarrow import parquet, types
        self.paths, self.image, self.label, self.fields = paths, image, label, list(fields)
        self.read = parquet.ParquetFile
        schema = parquet.read_schema(paths[0])
        self.column_names = schema.names
        self.features = {}
        if label not in schema.names:
            return  # _classes() says so
        kind = schema.field(label).type
        if types.is_dictionary(kind):
            kind = kind.value_type
        names = self._names_by_hub(schema)
        if types.is_string(kind) or types.is_large_string(kind):
            names = self.texts = sorted(self._texts())
        if names:
            self.features[label] = _ClassNames(names)

    def _names_by_hub(self, schema):
        """The names of classes in Hugging Face's metadata of the schema."""
        try:
            hub = json.loads((schema.metadata or {})[b"huggingface"])
            return hub["info"]["features"][self.label]["names"]
        except (KeyError, TypeError, ValueError):
            return None

    def _texts(self):
        found = set()
        for path in self.paths:
            with self.read(path) as file:
                for batch in file.iter_batches(columns=[self.label]):
                    found.update(batch.column(0).unique().to_pylist())
        return found - {None}

    def __iter__(self):
        texts = {text: i for i, text in enumerate(getattr(self, "texts", ()))}
        for path in self.paths:
            with self.read(path) as file:
                for batch in file.iter_batches(batch_size=32, columns=[self.image, self.label, *self.fields]):
                    for row in batch.to_pylist():
                        value, label = row[self.image], row[self.label]
                        if isinstance(value, bytes):
                            value = {"bytes": value, "path": None}
                        yield {**row, self.image: value, self.label: texts.get(label, label)}


def _parquet(path, image, label, fields):
    """A Parquet file, or the splits of a folder of them, which their names begin with, or those of
    the folders that they lie in."""
    if not os.path.isdir(path):
        return _Parquet([path], image, label, fields)
    splits = {}
    for folder, _, names in os.walk(path):
        for name in names:
            if name.endswith(".parquet"):
                found = os.path.join(folder, name)
                words = os.path.relpath(found, path).split(os.sep)
                known = [re.split(r"[-_.]", word)[0] for word in reversed(words)]
                split = next((word for word in known if word.lower() in SPLITS), "")
                splits.setdefault(SPLITS.get(split.lower(), ""), []).append(found)
    if not splits.keys() - {"test"}:
        raise _sluice.InvalidError(f"{path}: no .parquet, or none but of split test")
    if "" in splits and len(splits) > 1:
        raise _sluice.InvalidError(f"{splits[''][0]}: the names of other files begin with a split")
    test = splits.pop("test", None)
    made = {split: _Parquet(sorted(paths), image, label, fields) for split, paths in splits.items()}
    texts = [made[split].texts for split in made if hasattr(made[split], "texts")]
    if len(texts) == len(made):  # one numbering for all
        every = sorted(set().union(*texts))
        for split in made.values():
            split.texts, split.features = every, {label: _ClassNames(every)}
    if "" in made:
        return made[""]
    return {**made, "test": test} if test else made


# --- datasets

def _splits(dataset):
    """{name of a part, or "" if there is only one: dataset}, and what is left out, in words"""
    if not isinstance(dataset, dict):
        return {"": dataset}, None
    splits = {SPLITS.get(name.lower()): split for name, split in dataset.items()}
    if None in splits or len(splits) != len(dataset) or "train" not in splits:
        raise _sluice.InvalidError(f"splits {', '.join(dataset)}: give 'train' and, if there is "
                                   "one, 'validation'; or a single dataset: dataset['train']")
    test, left_out = splits.pop("test", None), None
    if test is not None:
        kind = "files" if isinstance(test, list) else "rows"
        count = f" ({len(test)} {kind})" if hasattr(test, "__len__") else ""
        left_out = f"split test{count}"
    return splits if len(splits) > 1 else {"": splits["train"]}, left_out


def _classes(dataset, image, label, fields):
    """The names of the classes, or None where labels are plain integers."""
    columns = dataset.column_names
    for column in fields:
        if not re.fullmatch(r"[\w-][\w.-]*", column) or column.lower() == "cls":
            raise _sluice.InvalidError(f"fields {column!r}: a column becomes a suffix, of letters, digits, _, - and .; "
                                       "rename it")
    for name, column in (("image", image), ("label", label), *(("fields", column) for column in fields)):
        if columns is not None and column not in columns:
            raise _sluice.InvalidError(f"{name} {column!r}: the columns are {', '.join(columns)}")
    feature = (dataset.features or {}).get(label)
    return getattr(feature, "names", None)


def _width(names):
    return len(str(len(names) - 1)) if names else 6


def _class_folder(number, names):
    width = _width(names)
    if names is None:
        return f"{number:0{width}d}"
    name = re.sub(r"[\x00-\x1f\x7f/\\]+", "_", names[number]).encode("utf-8", "replace")[:200]
    return f"{number:0{width}d}_{name.decode('utf-8', 'ignore')}"


def _value(value, name, row):
    """The bytes of a field's file."""
    if value is None:
        raise _sluice.InvalidError(f"field {name!r} of row {row} has no value")
    if isinstance(value, dict) and set(value) == {"bytes", "path"}:
        return _encoded(value, row)[0]
    if isinstance(value, str):
        return value.encode()
    return bytes(value) if isinstance(value, (bytes, bytearray)) else json.dumps(value, ensure_ascii=False).encode()


def _rows(dataset, names, image, label, fields):
    """(number of the row, label, bytes, suffix, what it was if it is encoded anew, {suffix: bytes} of fields)"""
    for column in (image, *fields):
        feature = (dataset.features or {}).get(column)
        if hasattr(feature, "decode"):  # the bytes as they are
            dataset = dataset.cast_column(column, type(feature)(decode=False))
    num_classes = len(names) if names else 10 ** _width(names)
    for row, sample in enumerate(dataset):
        number = sample[label]
        if isinstance(number, bool) or not isinstance(number, int) \
                or not 0 <= number < num_classes:
            raise _sluice.InvalidError(
                f"label {number!r} of row {row} is no class from 0 to {num_classes - 1}: give a "
                f"ClassLabel (dataset.class_encode_column({label!r})) and rows that have one")
        yield (row, number, *_encoded(sample[image], row),
               {f".{column}": _value(sample[column], column, row) for column in fields})


# --- writing

class _Folders:
    """A folder for each class."""

    def __init__(self, folder, names):
        self.folder, self.names, self.made = folder, names, set()
        os.makedirs(folder, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def write(self, row, number, data, suffix, values):
        into = os.path.join(self.folder, _class_folder(number, self.names))
        if number not in self.made:
            os.makedirs(into, exist_ok=True)
            self.made.add(number)
        for end, content in {suffix: data, **values}.items():
            with open(os.path.join(into, f"{row:08d}{end}"), "xb") as file:
                file.write(content)


class _Tars:
    """shard-000000.tar, ..., each cut behind the sample with which it reaches the size."""

    def __init__(self, folder, shard_bytes):
        self.folder, self.shard_bytes, self.tar, self.num, self.bytes = folder, shard_bytes, None, 0, 0
        os.makedirs(folder, exist_ok=True)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.tar:
            self.tar.close()

    def write(self, row, number, data, suffix, values):
        if self.tar and self.bytes >= self.shard_bytes:
            self.tar.close()
            self.tar, self.bytes = None, 0
        if not self.tar:
            self.tar = tarfile.open(os.path.join(self.folder, f"shard-{self.num:06d}.tar"), "x",
                                    format=tarfile.USTAR_FORMAT)
            self.num += 1
        for end, content in {suffix: data, ".cls": b"%d" % number, **values}.items():
            member = tarfile.TarInfo(f"{row:08d}{end}")  # of 1970 and nobody: the same rows give the same bytes
            member.size = len(content)
            self.tar.addfile(member, io.BytesIO(content))
            self.bytes += 512 + (len(content) + 511) // 512 * 512


def _write_classes(path, names):
    """As offload_dataset reads them: one name a line, with \\t, \\n and \\\\ escaped; it takes a mark of
    the byte order off the file and a carriage return off each line."""
    with open(path, "x", encoding="utf-8", newline="") as file:
        for number, name in enumerate(names):
            mark = "\ufeff" if number == 0 and name.startswith("\ufeff") else ""
            escaped = name.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
            file.write(mark + escaped + ("\r\n" if name.endswith("\r") else "\n"))


# --- images

# Bits of a sample by the number of samples, of gray, RGB (each with more), palette, CMYK and YCbCr.
TIFF_BITS = {0: {1: (1, 2, 4, 8, 16), 2: (8,)}, 1: {1: (1, 2, 4, 8, 16), 2: (8,)},
             2: {3: (8, 16), 4: (8, 16), 5: (8,), 6: (8,)}, 3: {1: (1, 2, 4, 8), 2: (8,)},
             5: {4: (8, 16)}, 6: {3: (8,)}}


def _is_read(tags):
    """Whether these tags are of a TIFF of a kind that Sluice reads (docs/DECODING.md)."""
    compression, colors, num_samples, planes = (tags.get(tag, default) for tag, default in (
        (259, 1), (262, 0), (277, 1), (284, 1)))
    bits = set(tags.get(258, (1,)))
    wanted = TIFF_BITS.get(colors, {}).get(num_samples, ())
    return (compression in (1, 5, 7, 8, 32773, 32946) and (colors == 6) <= (compression == 7)
            and len(bits) == 1 and bits <= set(wanted) and (compression != 7 or bits == {8})
            and (planes == 1 or (planes, colors, num_samples, bits) == (2, 2, 3, {8}))
            and set(tags.get(339, (1,))) == {1})


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
