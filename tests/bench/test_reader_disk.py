#!/usr/bin/env python3
"""bench/reader_disk on a handful of images: rows, not times.  Skipped where it is."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
BIN = pathlib.Path(os.environ["SLUICE_BIN"])


def main():
    with tempfile.TemporaryDirectory() as images:
        subprocess.run([BIN / "offload_dataset", "synth", images, "-n", "6", "--num-val", "0",
                        "--classes", "2", "-j", "1", "--log-level", "warn"], check=True)
        done = subprocess.run(
            [sys.executable, BENCH / "reader_disk", images, "--bin", BIN,
             "--schedulers", "none", "--channels", "4", "--read-us", "10", "--rate", "1000000000",
             "--json", "--", "--rounds", "1", "--attempts", "1", "--seconds", "0.1",
             "--warm-up", "0", "--rate", "100", "--touch-us", "10"],
            stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        return done.returncode
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = [row["name"] for row in rows]
    print(*names, sep="\n")
    if names[:2] != ["off", "on"] or "on, idle reads" not in names:
        print("cases are missing")
        return 1
    for row in rows:
        if row["scheduler"] != "none" or not row["us"] > 0:
            print(f"nothing was measured: {row}")
            return 1
    # Of a single case, on a busy machine, none may be done in so short a time.
    offloaded = [row for row in rows if row["name"] != "off"]
    if not sum(row["offload_per_s"] + row["alone_per_s"] for row in offloaded) > 0:
        print(f"no samples: {rows}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
