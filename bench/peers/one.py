#!/usr/bin/env python3
"""One data loader over a folder of images, timed.

What bench/peers and bench/python/link start for each measurement.

usage: one.py NAME --images DIR --workers N --seconds S [options]

Prints one JSON object: samples, seconds, samples_per_s, samples_per_cpu_s, version.  The loader
runs endlessly over the shuffled images; it is timed from a batch that comes after --warm-up seconds
and --warm-up-samples to one that comes --seconds later.  Exit code 77, with the reason on stderr,
where the loader cannot be imported; --check ends after that.

From another host: torchvision, webdataset and mosaicml-streaming from a web server (--http),
sluice.torch from an offload_server (--server).
"""
import argparse
import http.client
import io
import itertools
import json
import multiprocessing
import os
import pathlib
import random
import sys
import time
import urllib.parse

SKIPPED = 77
SUFFIXES = (".jpg", ".jpeg", ".png")
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NUM_SHARDS = 8
NUM_STREAMED = 4000  # samples of an epoch of mosaicml-streaming, at least


class Missing(Exception):
    """What a loader needs is not there."""


def samples_of(options):
    """Paths and labels; a class is the folder that a file is in."""
    root = options.images / "train"
    root = root if root.is_dir() else options.images
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise SystemExit(f"no images in {options.images}")
    classes = {name: label for label, name in enumerate(sorted({path.parent for path in paths}))}
    return [str(path) for path in paths], [classes[path.parent] for path in paths]


def endless(length, seed):
    """Places in a list, in a new order each time round."""
    draw = random.Random(seed)
    while True:
        yield from draw.sample(range(length), length)


# --- torch: DataLoader, webdataset ---

def torch_transform(options):
    from torchvision import transforms as T
    steps = [T.RandomResizedCrop(options.size, SCALE, RATIO), T.RandomHorizontalFlip()]
    steps += ([T.PILToTensor()] if options.output == "u8" else
              [T.ToTensor(), T.Normalize(MEAN, STD)])
    return T.Compose(steps)


class Site:
    """A web server of this folder, over one connection that is kept."""

    def __init__(self, address):
        self.connection = http.client.HTTPConnection(address, timeout=60)

    def get(self, path):
        self.connection.request("GET", "/" + urllib.parse.quote(path))
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise RuntimeError(f"GET {path}: {answer.status} {answer.reason}")
        return data


def torchvision(options):
    try:
        import torch
        import torchvision as tv
        from PIL import Image
        from torchvision.datasets.folder import default_loader
    except ImportError as error:
        raise Missing(error) from error
    yield f"torch {torch.__version__}, torchvision {tv.__version__}"
    paths, labels = samples_of(options)
    transform = torch_transform(options)
    if options.http:
        site = Site(options.http)
        paths = [os.path.relpath(path, options.images) for path in paths]

    class Images(torch.utils.data.Dataset):
        def __len__(self):
            return len(paths)

        def __getitem__(self, index):
            # In a worker, of which each has a copy of the site.
            image = (Image.open(io.BytesIO(site.get(paths[index]))).convert("RGB")
                     if options.http else default_loader(paths[index]))
            return transform(image), labels[index]

    loader = torch.utils.data.DataLoader(
        Images(), options.batch, sampler=endless_sampler(torch, len(paths), options.seed),
        num_workers=options.workers, drop_last=True)
    for pixels, _ in loader:
        yield pixels


def endless_sampler(torch, length, seed):
    class Endless(torch.utils.data.Sampler):
        def __init__(self):  # torch's own takes an argument that newer versions warn about
            pass

        def __iter__(self):
            return endless(length, seed)

    return Endless()


def write_shards(folder, paths, labels):
    """Tars as webdataset reads them, unless they are there."""
    import tarfile
    folder.mkdir(parents=True, exist_ok=True)
    shards = [folder / f"{shard:03}.tar" for shard in range(NUM_SHARDS)]
    if all(shard.exists() for shard in shards):
        return shards
    draw = random.Random(0)
    order = draw.sample(range(len(paths)), len(paths))
    # Each shard has images, however few there are.
    order += order[:max(0, NUM_SHARDS - len(order))]
    for shard, path in enumerate(shards):
        partial = path.with_suffix(".partial")
        with tarfile.open(partial, "w") as tar:
            for place in order[shard::NUM_SHARDS]:
                label = folder / "label"
                label.write_text(str(labels[place]), encoding="ascii")
                tar.add(paths[place], f"{place:08}{pathlib.Path(paths[place]).suffix.lower()}")
                tar.add(label, f"{place:08}.cls")
        partial.rename(path)
    return shards


def webdataset(options):
    try:
        import torch
        import torchvision as tv
        import webdataset as wds
    except ImportError as error:
        raise Missing(error) from error
    from importlib.metadata import version
    yield (f"webdataset {version('webdataset')}, torch {torch.__version__}, "
           f"torchvision {tv.__version__}")
    if options.scratch is None:
        raise SystemExit("webdataset needs --scratch")
    began = time.perf_counter()
    paths, labels = samples_of(options)
    shards = write_shards(options.scratch / "webdataset", paths, labels)
    options.converted_s = time.perf_counter() - began
    if options.http:
        shards = [f"http://{options.http}/{options.scratch.name}/webdataset/{shard.name}"
                  for shard in shards]
    dataset = (wds.WebDataset([str(shard) for shard in shards], resampled=True, shardshuffle=False)
               .shuffle(min(1000, len(paths))).decode("pilrgb").to_tuple("jpg;jpeg;png", "cls")
               .map_tuple(torch_transform(options), lambda label: label)
               .batched(options.batch, partial=False))
    for pixels, _ in wds.WebLoader(dataset, batch_size=None, num_workers=options.workers):
        yield pixels


# --- mosaicml-streaming ---

def write_mds(folder, paths, labels):
    """Shards as mosaicml-streaming reads them, unless they are there."""
    import streaming
    if (folder / "index.json").exists():
        return
    draw = random.Random(0)
    copies = -(-NUM_STREAMED // len(paths))
    order = [place for _ in range(copies) for place in draw.sample(range(len(paths)), len(paths))]
    with streaming.MDSWriter(out=str(folder), columns={"image": "bytes", "label": "int"},
                             size_limit="8mb") as out:
        for place in order:
            out.write({"image": pathlib.Path(paths[place]).read_bytes(), "label": labels[place]})


def mosaicml(options):
    try:
        import torch
        import torchvision as tv
        import streaming
        from PIL import Image
    except ImportError as error:
        raise Missing(error) from error
    import tempfile
    yield (f"mosaicml-streaming {streaming.__version__}, torch {torch.__version__}, "
           f"torchvision {tv.__version__}")
    if options.scratch is None:
        raise SystemExit("mosaicml-streaming needs --scratch")
    began = time.perf_counter()
    write_mds(options.scratch / "mds", *samples_of(options))
    options.converted_s = time.perf_counter() - began
    transform = torch_transform(options)
    if options.http:
        os.environ |= {"S3_ENDPOINT_URL": f"http://{options.http}", "AWS_ACCESS_KEY_ID": "any",
                       "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}

    class Images(streaming.StreamingDataset):
        def __getitem__(self, index):
            sample = super().__getitem__(index)
            image = Image.open(io.BytesIO(sample["image"])).convert("RGB")
            return transform(image), sample["label"]

    with tempfile.TemporaryDirectory(prefix="mds-") as local:
        where = ({"remote": f"s3://{options.scratch.name}/mds", "local": local}
                 if options.http else {"local": str(options.scratch / "mds")})
        dataset = Images(**where, shuffle=True, shuffle_seed=options.seed,
                         batch_size=options.batch)
        for pixels, _ in torch.utils.data.DataLoader(
                dataset, options.batch, num_workers=options.workers, drop_last=True):
            yield pixels


# --- DALI ---

def dali(options):
    try:
        import numpy as np
        import nvidia.dali as nd
        from nvidia.dali import fn, types
    except ImportError as error:
        raise Missing(error) from error
    yield f"DALI {nd.__version__}"
    paths, labels = samples_of(options)

    @nd.pipeline_def(batch_size=options.batch, num_threads=options.workers, device_id=None,
                     seed=options.seed)
    def pipeline():
        files, label = fn.readers.file(files=paths, labels=labels, random_shuffle=True,
                                       name="reader")
        images = fn.decoders.image_random_crop(files, device="cpu", output_type=types.RGB,
                                               random_area=SCALE, random_aspect_ratio=RATIO)
        images = fn.resize(images, size=(options.size, options.size), antialias=True,
                           interp_type=types.INTERP_LINEAR)
        flip = fn.random.coin_flip()
        if options.output == "u8":
            return fn.flip(images, horizontal=flip), label
        return fn.crop_mirror_normalize(
            images, dtype=types.FLOAT, output_layout="CHW", mirror=flip,
            mean=[255 * mean for mean in MEAN], std=[255 * std for std in STD]), label

    built = pipeline()
    built.build()
    while True:
        pixels, _ = built.run()
        yield np.asarray(pixels.as_tensor())


# --- tf.data ---

def tf_data(options):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    try:
        import tensorflow as tf
    except ImportError as error:
        raise Missing(error) from error
    yield f"tensorflow {tf.__version__}"
    paths, labels = samples_of(options)
    whole = tf.zeros([1, 0, 4], tf.float32)

    def crop_and_flip(data, shape):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            shape, whole, min_object_covered=0.0, area_range=SCALE, aspect_ratio_range=RATIO,
            max_attempts=10, use_image_if_no_bounding_boxes=True)
        return data, begin, size

    def decode_jpeg(data):
        data, begin, size = crop_and_flip(data, tf.image.extract_jpeg_shape(data))
        window = tf.stack([begin[0], begin[1], size[0], size[1]])
        return tf.image.decode_and_crop_jpeg(data, window, channels=3)

    def decode_png(data):
        image = tf.image.decode_png(data, channels=3)
        _, begin, size = crop_and_flip(data, tf.shape(image))
        return tf.slice(image, begin, size)

    def load(path, label):
        data = tf.io.read_file(path)
        image = tf.cond(tf.io.is_jpeg(data), lambda: decode_jpeg(data), lambda: decode_png(data))
        image = tf.image.resize(image, [options.size, options.size], "bilinear", antialias=True)
        image = tf.image.random_flip_left_right(image)
        if options.output == "u8":
            return tf.cast(tf.round(image), tf.uint8), label
        return (image / 255.0 - MEAN) / STD, label

    dataset = tf.data.Dataset.from_tensor_slices((paths, labels))
    dataset = dataset.shuffle(len(paths), seed=options.seed).repeat()
    dataset = dataset.map(load, num_parallel_calls=options.workers, deterministic=False)
    dataset = dataset.batch(options.batch, drop_remainder=True).prefetch(2)
    settings = tf.data.Options()
    settings.threading.private_threadpool_size = options.workers
    for pixels, _ in dataset.with_options(settings):
        yield pixels


# --- SPDL ---

def torch_like_box(draw, width, height):
    """RandomResizedCrop.get_params of torchvision."""
    import math
    for _ in range(10):
        area = width * height * draw.uniform(*SCALE)
        ratio = math.exp(draw.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return draw.randint(0, width - w), draw.randint(0, height - h), w, h
    w, h = width, height
    if width / height < RATIO[0]:
        h = round(width / RATIO[0])
    elif width / height > RATIO[1]:
        w = round(height * RATIO[1])
    return (width - w) // 2, (height - h) // 2, w, h


def spdl(options):
    try:
        import numpy as np
        import spdl.io
        import spdl.pipeline
        spdl.io.demux_config()  # loads FFmpeg's libraries, with what it finds of them
    except (ImportError, RuntimeError) as error:
        raise Missing(error) from error
    from importlib.metadata import version
    yield f"SPDL {version('spdl')}"
    paths, _ = samples_of(options)
    draw = random.Random(options.seed)
    mean = 255 * np.array(MEAN, np.float32)[:, None, None]
    scale = 1 / (255 * np.array(STD, np.float32)[:, None, None])

    def decode(place):
        packets = spdl.io.demux_image(paths[place])
        x, y, width, height = torch_like_box(draw, packets.width, packets.height)
        flip = "hflip," if draw.random() < 0.5 else ""
        return spdl.io.decode_packets(
            packets, filter_desc=f"crop={width}:{height}:{x}:{y}:exact=1,"
            f"scale={options.size}:{options.size}:flags=bilinear,{flip}format=rgb24")

    def collate(frames):
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def normalize(batch):
        return (batch.transpose(0, 3, 1, 2) - mean) * scale

    builder = (spdl.pipeline.PipelineBuilder().add_source(endless(len(paths), options.seed))
               .pipe(decode, concurrency=options.workers).aggregate(options.batch).pipe(collate))
    if options.output == "f32":
        builder = builder.pipe(normalize, concurrency=options.workers)
    pipeline = builder.add_sink(2).build(num_threads=options.workers)
    with pipeline.auto_stop():
        yield from pipeline.get_iterator()


# --- ours in Python ---

def sluice_torch(options):
    try:
        import torch
        import sluice
        import sluice.torch
    except (ImportError, OSError) as error:
        raise Missing(error) from error
    yield f"sluice {sluice.__version__}, torch {torch.__version__}"
    loader = sluice.torch.Loader(
        options.server or options.images, options.batch, seed=options.seed, mode=options.mode,
        workers=options.workers, drop_last=True, normalize=options.output == "f32",
        image_size=options.size, repeat=options.repeat, jpeg_index="off", digest=options.digest)
    for epoch in itertools.count():
        loader.set_epoch(epoch)
        for pixels, _ in loader:
            yield pixels
        if options.digest:
            options.digests.append(loader.stats()["digest"])


# Each yields its version, then batches: of --output, in its own layout; without end but for
# mosaicml-streaming, which keeps on its disk what it has fetched, and fetches most of an epoch, with
# its order at random, before the first batch: of that an epoch is timed, the first.
LOADERS = {"sluice.torch": sluice_torch, "torchvision": torchvision, "webdataset": webdataset,
           "mosaicml-streaming": mosaicml, "dali": dali, "tf.data": tf_data, "spdl": spdl}


def cpu_seconds():
    """Of this process and of its workers, to 10 ms."""
    seconds = time.process_time()
    for child in multiprocessing.active_children():
        with open(f"/proc/{child.pid}/stat", encoding="utf-8") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def received_bytes(interface):
    """By a network interface of this network namespace, with all headers."""
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file:
            name, _, counters = line.partition(":")
            if name.strip() == interface:
                return int(counters.split()[0])
    raise SystemExit(f"--interface: there is no {interface} here")


def time_epoch(batches, options):
    """The same of all batches, from before the first."""
    start, cpu_start = time.perf_counter(), cpu_seconds()
    bytes_start = received_bytes(options.interface) if options.interface else 0
    num_samples = 0
    for batch in batches:
        num_samples += len(batch)
        used = cpu_seconds() - cpu_start  # workers end with the last batch
    num_bytes = received_bytes(options.interface) - bytes_start if options.interface else None
    return num_samples, time.perf_counter() - start, used, num_bytes, batch


def time_batches(batches, options):
    """Of the batches after the warm-up: samples, seconds, CPU seconds, bytes that --interface
    received; and the last of them."""
    if options.name == "mosaicml-streaming":
        return time_epoch(batches, options)
    num_samples = len(next(batches))
    start = time.perf_counter()
    while (time.perf_counter() - start < options.warm_up
           or num_samples < options.warm_up_samples):
        num_samples += len(next(batches))
    start, cpu_start = time.perf_counter(), cpu_seconds()
    bytes_start = received_bytes(options.interface) if options.interface else 0
    num_samples = 0
    seconds = 0
    while seconds < options.seconds:
        for _ in range(options.workers):  # processes that take turns give their batches at once
            batch = next(batches)
            num_samples += len(batch)
        seconds = time.perf_counter() - start
    num_bytes = received_bytes(options.interface) - bytes_start if options.interface else None
    return num_samples, seconds, cpu_seconds() - cpu_start, num_bytes, batch


def check_batch(batch, options):
    """It is of the type and the size that was asked for."""
    dtype = str(getattr(batch.dtype, "name", batch.dtype)).replace("torch.", "")
    shape = list(map(int, batch.shape))
    expected = {"u8": "uint8", "f32": "float32"}[options.output]
    shapes = ([options.batch, options.size, options.size, 3],
              [options.batch, 3, options.size, options.size])
    if dtype != expected or shape not in shapes:
        raise SystemExit(f"{options.name} gives {dtype} {shape}")
    # A torch tensor of the second shape may lie in memory as the first.
    is_nhwc = shape == shapes[0] or (hasattr(batch, "stride") and batch.stride(1) == 1)
    return f"{options.output} {'NHWC' if is_nhwc else 'NCHW'}"


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("name", choices=LOADERS)
    parser.add_argument("--images", type=pathlib.Path, help="folder with a folder for each class")
    parser.add_argument("--workers", type=int, default=1, help="threads or processes that decode")
    parser.add_argument("--output", choices=("u8", "f32"), default="u8",
                        help="pixels, or normalised floats")
    parser.add_argument("--seconds", type=float, default=4, help="least time that is measured")
    parser.add_argument("--warm-up", type=float, default=1, help="seconds before that")
    parser.add_argument("--warm-up-samples", type=int, default=0, help="and least samples")
    parser.add_argument("--batch", type=int, default=64, help="samples in a batch")
    parser.add_argument("--size", type=int, default=224, help="side of the crop, in pixels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", type=int, default=100,
                        help="how often each image comes in an epoch, where an epoch has an end")
    parser.add_argument("--scratch", type=pathlib.Path, help="folder for copies of the images")
    parser.add_argument("--http", metavar="HOST:PORT",
                        help="of torchvision, webdataset, mosaicml-streaming: a web server of "
                        "--images, which has --scratch as a folder of its name")
    parser.add_argument("--server", metavar="HOST:PORT", help="of sluice.torch: an offload_server")
    parser.add_argument("--mode", help="of sluice.torch: as --dataset-mode of offload_train")
    parser.add_argument("--digest", action="store_true",
                        help="of sluice.torch: hash all samples, and say the epochs' digests")
    parser.add_argument("--interface", help="network interface whose bytes are to be counted")
    parser.add_argument("--check", action="store_true",
                        help="only say whether it can be imported, and its version")
    options = parser.parse_args(arguments)
    if not options.check and options.images is None:
        parser.error("--images is needed")
    options.digests, options.converted_s = [], 0
    return options


def main():
    options = parse(sys.argv[1:])
    batches = LOADERS[options.name](options)
    try:
        version = next(batches)
    except Missing as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return SKIPPED
    report = {"name": options.name, "version": version}
    if not options.check:
        num_samples, seconds, cpu_s, num_bytes, batch = time_batches(batches, options)
        report |= {"output": check_batch(batch, options), "samples": num_samples,
                   "seconds": seconds, "samples_per_s": num_samples / seconds,
                   "samples_per_cpu_s": num_samples / max(cpu_s, 0.01),
                   "received_bytes": num_bytes, "digests": options.digests,
                   "converted_s": options.converted_s}
    print(json.dumps(report), flush=True)
    # Neither workers nor a pipeline that still decodes are of use any more; some libraries take
    # seconds to end them, or crash.
    sys.stdout.flush()
    if options.name in ("torchvision", "webdataset", "mosaicml-streaming"):
        batches.close()
        return 0
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
