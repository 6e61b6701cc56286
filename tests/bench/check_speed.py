#!/usr/bin/env python3
"""Runs bench_speed and looks at what it counts, not at the times.

usage: speed_smoke PROGRAM
"""
import os
import pathlib
import subprocess
import sys
import tempfile


def check(is_so, what):
    if not is_so:
        sys.exit(what)


def main():
    with tempfile.TemporaryDirectory() as images:
        program = sys.argv[1]
        subprocess.run([os.path.join(os.environ["SLUICE_BIN"], "offload_dataset"), "synth", images,
                        "-n", "3", "--num-val", "0", "--classes", "1", "-j", "1",
                        "--log-level", "warn"], check=True)
        pathlib.Path(images, "damaged.jpg").write_bytes(b"no image")
        done = subprocess.run([program, images, "--bursts", "4", "--burst", "3",
                               "--period-ms", "1"], capture_output=True, text=True, check=True)
        check("damaged.jpg" in done.stderr and "passed over" in done.stderr, done.stderr)
        rows = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        check([samples for samples, _ in rows] == [3, 6, 9, 12], rows)
        times = [0] + [nanoseconds for _, nanoseconds in rows]
        check(all(after > before for before, after in zip(times, times[1:])), times)

        # It ends when nobody reads on.
        process = subprocess.Popen([program, images, "--period-ms", "1"], stdout=subprocess.PIPE)
        check(process.stdout.readline().split()[0] == b"8", "no first burst")
        process.stdout.close()
        check(process.wait(120) == 0, "it does not end")

        with tempfile.TemporaryDirectory() as empty:
            done = subprocess.run([program, empty], capture_output=True, text=True, check=False)
            check(done.returncode == 1 and empty in done.stderr, done)


if __name__ == "__main__":
    main()
