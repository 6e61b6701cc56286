#!/usr/bin/env python3
"""Runs a bench program with the given arguments and --json and looks at the rows, not the times.

usage: smoke PROGRAM ARGS...       the argument @images stands for a folder with a few images
"""
import json
import os
import subprocess
import sys
import tempfile

FIELDS = ("us", "bytes", "reference_us", "ratio")


def main():
    with tempfile.TemporaryDirectory() as images:
        arguments = [images if argument == "@images" else argument for argument in sys.argv[1:]]
        if arguments != sys.argv[1:]:
            subprocess.run([os.path.join(os.environ["SLUICE_BIN"], "offload_dataset"), "synth",
                            images, "-n", "6", "--num-val", "0", "--classes", "2", "-j", "1",
                            "--log-level", "warn"], check=True)
        return check(arguments)


def check(arguments):
    run = subprocess.run([*arguments, "--json"], stdout=subprocess.PIPE, check=False)
    if run.returncode != 0:
        print(f"exit {run.returncode}")
        return 1
    rows = [json.loads(line) for line in run.stdout.decode().splitlines()]
    names = [row["name"] for row in rows]
    print(*names, sep="\n")
    if not rows or len(set(names)) != len(names):
        print("no rows, or two of one name")
        return 1
    for row in rows:
        missing = [field for field in FIELDS if field not in row]
        if missing:
            print(f"{row['name']}: no {missing}")
            return 1
        if not (row["us"] > 0 and row["bytes"] > 0):
            print(f"{row['name']}: nothing was measured: {row}")
            return 1
        ratio, reference = row["ratio"], row["reference_us"]
        if (ratio is None) != (reference is None) or (ratio is not None and ratio <= 0):
            print(f"{row['name']}: a ratio goes with a reference: {row}")
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
