"""bench_reader where the disk is the bottleneck: on a disk of a known speed, with each scheduler.

usage: reader_disk DIR [options] [-- options of bench_reader]

The images of DIR are put into a file system, that into a loop device over bench_disk, which takes
the time that a disk of --channels, --read-us and --rate would.  bench_reader runs on it once for
each of --schedulers. With --read-limit there is a case more: a cgroup of the blkio controller
(version 1) that lets the server read so many bytes a second.  Needs root, loop devices, FUSE and
mkfs.ext4: exit code 77, with the reason, where something is missing.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

from . import hosts

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
BLKIO = pathlib.Path("/sys/fs/cgroup/blkio")


class Missing(Exception):
    pass


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise Missing(f"{' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout.strip()


def check_needs():
    if os.geteuid() != 0:
        raise Missing("only root may mount")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise Missing("no /dev/fuse")
    for tool in ("losetup", "mkfs.ext4", "mount", "umount"):
        if not shutil.which(tool):
            raise Missing(f"no {tool}")


def make_image(images, image):
    """A file system with the folder in it, and no room to speak of."""
    num_bytes = sum(file.stat().st_size + 8192 for file in images.rglob("*") if file.is_file())
    with open(image, "wb") as file:
        file.truncate((num_bytes * 5 // 4 + (16 << 20)) & ~4095)
    run("mkfs.ext4", "-q", "-O", "^has_journal", "-d", images, image)


@contextlib.contextmanager
def mounted_disk(options, image, folder):
    """The images on a slow disk: its name (loop0) and where it is mounted."""
    slow, place = folder / "disk", folder / "images"
    slow.touch()
    place.mkdir(exist_ok=True)
    with contextlib.ExitStack() as undo:
        disk = hosts.spawn([options.bin.parent / "bench/bench_disk", image, slow,
                            "--channels", options.channels, "--read-us", options.read_us,
                            "--rate", options.rate],
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        undo.callback(disk.wait)
        undo.callback(disk.stdin.close)
        if disk.stdout.readline() != "ready\n":
            raise Missing("bench_disk cannot be had")
        device = run("losetup", "--direct-io=on", "-r", "--show", "-f", slow)
        undo.callback(run, "losetup", "-d", device)
        run("mount", "-o", "ro", device, place)
        undo.callback(run, "umount", place)
        yield os.path.basename(device), place


@contextlib.contextmanager
def read_limit(options, device):
    """Options of bench_reader for a group with a limit; none without."""
    if not options.read_limit:
        yield []
        return
    name = f"reader-disk-{os.getpid()}"
    group = BLKIO / name
    if not (BLKIO / "blkio.throttle.read_bps_device").exists():
        raise Missing(f"--read-limit: no blkio controller of version 1 at {BLKIO}")
    group.mkdir()
    try:
        numbers = pathlib.Path("/sys/block", device, "dev").read_text(encoding="ascii").strip()
        (group / "blkio.throttle.read_bps_device").write_text(f"{numbers} {options.read_limit}",
                                                              encoding="ascii")
        yield ["--cgroup", name]
    finally:
        group.rmdir()


def measure(options, scheduler, device, place):
    chooser = pathlib.Path("/sys/block", device, "queue/scheduler")
    offered = chooser.read_text(encoding="ascii").replace("[", "").replace("]", "").split()
    if scheduler not in offered:
        print(f"reader_disk: this kernel has no scheduler {scheduler}", file=sys.stderr)
        return
    chooser.write_text(scheduler, encoding="ascii")
    with read_limit(options, device) as limits:
        command = [options.bin.parent / "bench/bench_reader", place, "--json", *limits,
                   *options.rest]
        done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True,
                              check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if options.json:
        for row in rows:
            print(json.dumps({"scheduler": scheduler, **row}), flush=True)
        return
    print(f"\n{scheduler}\n{'':34} {'p50_us':>9} {'p99_us':>9} {'over_off':>8} {'least':>8} "
          f"{'most':>8} {'beside':>8} {'alone':>8}")
    for row in rows:
        cells = [(row["p50_us"], 9, 0), (row["p99_us"], 9, 0), (row["over_off"], 8, 2),
                 (row["over_off_min"], 8, 2), (row["over_off_max"], 8, 2),
                 (row["offload_per_s"], 8, 0), (row["alone_per_s"], 8, 0)]
        print(f"{row['name']:34} " + " ".join(f"{'-':>{width}}" if value is None else
                                              f"{value:{width}.{digits}f}"
                                              for value, width, digits in cells), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="the programs; those of bench/ are beside it")
    parser.add_argument("--schedulers", default="none,mq-deadline,bfq")
    parser.add_argument("--channels", type=int, default=2,
                        help="reads that the disk serves at a time")
    parser.add_argument("--read-us", type=int, default=200, help="that each takes")
    parser.add_argument("--rate", type=int, default=50_000_000, help="bytes a second of a channel")
    parser.add_argument("--read-limit", type=int, help="bytes a second of one more case")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    ours = sys.argv[1:]
    rest = []
    if "--" in ours:
        at = ours.index("--")
        ours, rest = ours[:at], ours[at + 1:]
    options = parser.parse_args(ours)
    options.rest = rest
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was made is unmade
    with tempfile.TemporaryDirectory(prefix="reader-disk-") as folder:
        folder = pathlib.Path(folder)
        try:
            check_needs()
            make_image(options.images, folder / "image")
            with mounted_disk(options, folder / "image", folder) as (device, place):
                for scheduler in options.schedulers.split(","):
                    measure(options, scheduler, device, place)
        except Missing as why:
            print(f"reader_disk: skipped: {why}", file=sys.stderr)
            sys.exit(SKIPPED)
