#!/usr/bin/env python3
"""Every mode on a folder of real images, with a server killed twice in mid-epoch: one digest.

usage: digest_matrix.py FOLDER [BIN]

Runs the six modes at -j 1 and 4, with 1 and 4 prep workers, and prints a row for each; in the
remote modes the server is killed (SIGKILL) after a third and after two thirds of the epoch and
started again on the same port.  Exits 1 if a digest or a sample count differs.

BIN: build/release/bin.
"""
import pathlib
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from programs import Node, Train, progress  # noqa: E402

MODES = ("local", "remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")
BATCH = 4


def run(mode, where, workers, profile, folder, on_line=None):
    if mode in ("remote_sophon", "remote_auto"):
        where += ["--profile-folder", profile, "--net-bw", "500", "--remote-cpus", "2"]
    train = Train("--dataset-mode", mode, "-b", BATCH, "-p", 1, "-j", workers, "--retry-for", 60, *where,
                  folder=folder)
    for line in train.lines():
        if on_line:
            on_line(line)
    return train.end()[0][0]


class Killer(Node):
    """Dies when the progress line passes each share of the epoch, and comes back."""
    kills = 0

    def on_line(self, line):
        done = progress(line)
        if done and self.kills < 2 and done[0] >= done[1] * (self.kills + 1) / 3:
            self.replace()
            self.kills += 1


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    root = sys.argv[1]
    programs = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "build/release/bin").resolve()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "profile")
        first = run("local", [root, "--profiling", "--write-profile-folder", profile], 2, profile,
                    programs)
        print(f"{'mode':14} {'-j':>2} {'prep':>4} {'kills':>5} {'samples':>7} {'retries':>7} "
              f"{'seconds':>7}  digest", flush=True)
        for mode in MODES:
            for workers in (1, 4):
                for prep_workers in (1, 4) if mode != "local" else (0,):
                    begin = time.monotonic()
                    kills = 0
                    if mode == "local":
                        report = run(mode, [root], workers, profile, programs)
                    else:
                        killer = Killer(root, "--prep-workers", prep_workers, folder=programs)
                        # Little read-ahead and a slow consumer: else the epoch were over before
                        # the first kill.
                        report = run(mode, ["--host", killer.address,
                                            "--prefetch-bytes", "2M", "--consume-rate", "150"],
                                     workers, profile, programs, killer.on_line)
                        killer.close()
                        kills = killer.kills
                    is_good = (report["digest"] == first["digest"] and report["errors"] == 0 and
                               report["samples"] == first["samples"] and
                               (mode == "local" or kills == 2))
                    bad += not is_good
                    print(f"{mode:14} {workers:2} {prep_workers or '-':>4} {kills:5} "
                          f"{report['samples']:7} {report['retries']:7} "
                          f"{time.monotonic() - begin:7.2f}  {report['digest']}"
                          f"{'' if is_good else '  DIFFERS'}", flush=True)
    print("one digest" if not bad else f"{bad} rows differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
