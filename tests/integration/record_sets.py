"""Writers of MDS shards and LitData's chunks: of our own, from the formats' descriptions, and those of
the libraries where they are installed.

    python3 tests/integration/record_sets.py {mds,litdata,litdata-bytes} FOLDER OUT     by the library

FOLDER has images by train/class/ and val/class/, as offload_dataset synth makes them.
"""
import json
import pathlib
import struct
import sys


def samples_of(root):
    """{subset: [(bytes, number of the class)] in the order of the paths}"""
    paths = sorted(p.relative_to(root).as_posix() for p in pathlib.Path(root).rglob("*")
                   if p.suffix in (".jpg", ".png"))
    classes = sorted({path.split("/")[1] for path in paths})
    found = {}
    for path in paths:
        subset, label, _ = path.split("/")
        found.setdefault(subset, []).append(((pathlib.Path(root) / path).read_bytes(),
                                             classes.index(label)))
    return found


def record(values, sizes):
    """Values behind the lengths of those of no fixed size."""
    lengths = [len(value) for value, size in zip(values, sizes) if not size]
    return struct.pack(f"<{len(lengths)}I", *lengths) + b"".join(values)


def shard(records, config=b""):
    at = 4 + 4 * (len(records) + 1) + len(config)
    offsets = [at]
    for one in records:
        offsets.append(offsets[-1] + len(one))
    return struct.pack(f"<{len(records) + 2}I", len(records), *offsets) + config + b"".join(records)


def write_mds(out, rows, columns, per_shard=1 << 30):
    """`columns`: (name, encoding, size or None) by name; `rows`: tuples of bytes in their order."""
    out.mkdir(parents=True, exist_ok=True)
    sizes = [size for _, _, size in columns]
    config = {"column_encodings": [column[1] for column in columns],
              "column_names": [column[0] for column in columns], "column_sizes": sizes,
              "compression": None, "format": "mds", "hashes": [], "size_limit": 1 << 26, "version": 2}
    shards = []
    for first in range(0, len(rows), per_shard):
        part = rows[first:first + per_shard]
        data = shard([record(row, sizes) for row in part],
                     json.dumps(config, sort_keys=True).encode())
        name = f"shard.{len(shards):05d}.mds"
        (out / name).write_bytes(data)
        shards.append({**config, "samples": len(part), "zip_data": None,
                       "raw_data": {"basename": name, "bytes": len(data), "hashes": {}}})
    (out / "index.json").write_text(json.dumps({"shards": shards, "version": 2}, sort_keys=True))


def write_litdata(out, rows, names, formats, per_chunk=1 << 30):
    out.mkdir(parents=True, exist_ok=True)
    leaf = {"type": None, "context": None, "children_spec": []}
    spec = json.dumps([1, {"type": "builtins.dict", "context": json.dumps(names),
                           "children_spec": [leaf] * len(names)}])
    chunks = []
    for first in range(0, len(rows), per_chunk):
        part = rows[first:first + per_chunk]
        data = shard([record(row, [None] * len(names)) for row in part])
        name = f"chunk-0-{len(chunks)}.bin"
        (out / name).write_bytes(data)
        chunks.append({"chunk_bytes": len(data), "chunk_size": len(part), "dim": None,
                       "filename": name})
    config = {"chunk_bytes": None, "chunk_size": per_chunk, "compression": None,
              "data_format": formats, "data_spec": spec, "encryption": None,
              "item_loader": "PyTreeLoader"}
    (out / "index.json").write_text(json.dumps({"chunks": chunks, "config": config}))


# By the libraries; ImportError where they are not.

def write_mds_by_library(root, out, **options):
    from streaming.base.format.mds.writer import MDSWriter
    for subset, rows in samples_of(root).items():
        with MDSWriter(out=str(pathlib.Path(out, subset)), size_limit=200_000, **options,
                       columns={"picture": "bytes", "label": "int", "text": "str"}) as writer:
            for data, label in rows:
                writer.write({"picture": data, "label": label, "text": "x" * label})


def write_litdata_by_library(root, out, with_images=True):
    from litdata import Image
    from litdata.streaming.cache import Cache
    for subset, rows in samples_of(root).items():
        folder = pathlib.Path(out, subset)
        folder.mkdir(parents=True)
        cache = Cache(str(folder), chunk_bytes=2_000_000)
        for i, (data, label) in enumerate(rows):
            cache[i] = {"image": Image(bytes=data) if with_images else data, "label": label}
        cache.done()
        cache.merge()


if __name__ == "__main__":
    {"mds": write_mds_by_library, "litdata": write_litdata_by_library,
     "litdata-bytes": lambda *args: write_litdata_by_library(*args, with_images=False),
     }[sys.argv[1]](*sys.argv[2:])
