#!/usr/bin/env python3
"""One measurement of the Python package; what bench/python/loop starts for each.

usage: one.py epochs|ready|memory SOURCE [options]

Prints one JSON object.  epochs: the second of two epochs, as the loop sees it.  ready: what the
loop costs the main thread for each batch that is ready.  memory: the resident set as batches come.
Exit code 77, with the reason on stderr, where the package cannot be imported.
"""
import argparse
import json
import os
import statistics
import sys
import time

SKIPPED = 77
PAGE = os.sysconf("SC_PAGE_SIZE")


def loader_class(array):
    """Of sluice.torch or sluice.numpy, and what it is called."""
    try:
        if array == "torch":
            import sluice.torch
            return sluice.torch.Loader
        import sluice.numpy
        return sluice.numpy.Loader
    except (ImportError, OSError) as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        sys.exit(SKIPPED)


def make(options):
    more = {} if options.image_size is None else {"image_size": options.image_size}
    if options.fixed_link is not None:
        more |= {"replan": False, "net_bw": options.fixed_link}
    return loader_class(options.array)(
        options.source, options.batch, seed=0, mode=options.mode, workers=options.workers,
        repeat=options.repeat, jpeg_index="off", digest=False, **more)


def epochs(options):
    with make(options) as loader:
        for _ in range(2):
            start, num_samples = time.perf_counter(), 0
            for images, _ in loader:
                num_samples += len(images)
            seconds = time.perf_counter() - start
        return {"samples": num_samples, "seconds": seconds, "samples_per_s": num_samples / seconds,
                "padded": loader.num_padded, "inside": loader.stats()["samples_per_s"]}


def take(next_one, count):
    """Wall and CPU seconds of the main thread for each of count batches, and whether all came."""
    walls, cpus = [], []
    for _ in range(count):
        wall, cpu = time.perf_counter(), time.thread_time()
        made = next_one()
        if made is None:
            return walls, cpus, False
        del made  # gives the batch back, which is part of what a batch costs
        cpus.append(time.thread_time() - cpu)
        walls.append(time.perf_counter() - wall)
    return walls, cpus, True


def ready(options):
    """By turns, groups of batches that had --pause seconds to become ready: of the loop, and of the
    extension's next() alone, which makes no arrays."""
    found = {"loop": ([], []), "next": ([], [])}
    with make(options) as loader:
        for turn in range(2 * options.groups):
            kind = "loop" if turn % 2 == 0 else "next"
            batches = iter(loader)
            next_one = (lambda: next(batches, None)) if kind == "loop" else loader._loader.next
            next(batches)
            time.sleep(options.pause)
            walls, cpus, is_whole = take(next_one, options.count)
            if not is_whole:
                sys.exit(f"the epoch ended within {options.count} batches: raise --repeat")
            found[kind][0].extend(walls)
            found[kind][1].extend(cpus)
            batches.close()
    return {kind: {"wall_us": 1e6 * statistics.median(walls),
                   "wall_us_p95": 1e6 * sorted(walls)[int(0.95 * (len(walls) - 1))],
                   "cpu_us": 1e6 * statistics.median(cpus), "batches": len(walls)}
            for kind, (walls, cpus) in found.items()}


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * PAGE


def memory(options):
    """Epochs until --batches have come.  The slope is that of a straight line through the second
    half, as the first holds the queues that fill."""
    every = max(1, options.batches // 200)
    with make(options) as loader:
        start, points, num_batches = time.perf_counter(), [], 0
        while num_batches < options.batches:
            for _ in loader:
                num_batches += 1
                if num_batches % every == 0 or num_batches == 1:
                    points.append((num_batches, resident()))
                if num_batches == options.batches:
                    break
        seconds = time.perf_counter() - start
    half = points[len(points) // 2:]
    slope = statistics.linear_regression(*zip(*half)).slope if len(half) > 1 else None
    return {"batches": num_batches, "seconds": seconds, "first": points[0][1],
            "half": half[0][1], "last": points[-1][1], "max": max(size for _, size in points),
            "slope": slope}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("epochs", "ready", "memory"))
    parser.add_argument("source", help="folder, or HOST:PORT")
    parser.add_argument("--array", choices=("torch", "numpy"), default="torch")
    parser.add_argument("--mode", help="as --dataset-mode of offload_train")
    parser.add_argument("--fixed-link", metavar="RATE",
                        help="plan for a link of this rate, and never again")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--image-size", type=int)
    parser.add_argument("--groups", type=int, default=10, help="of ready: of each kind")
    parser.add_argument("--count", type=int, default=16, help="of ready: batches in a group")
    parser.add_argument("--pause", type=float, default=0.5, help="of ready: seconds")
    parser.add_argument("--batches", type=int, default=10000, help="of memory")
    options = parser.parse_args()
    print(json.dumps({"epochs": epochs, "ready": ready, "memory": memory}[options.what](options)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
