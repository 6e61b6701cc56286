"""The first epoch of remote_auto without a profile, beside the same epoch planned from a full one.

usage: cold_start DIR [options]

Makes a profile of DIR (offload_profile run), then, behind each --link-limit, runs single epochs by
turns: cold (no profile), planned (from the profile; re-planning as it does by default) and fixed
(from the profile, never re-planned).  Every run is a process of its own, so each epoch is a first
one. The order turns from repeat to repeat.  A ratio is of two runs of the same repeat.  All digests
must be equal.
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
VARIANTS = ("cold", "planned", "fixed")


def start_server(options, link):
    server = subprocess.Popen(
        [options.bin / "offload_server", "--root", options.images, "--listen", "127.0.0.1:0",
         "--prep-workers", str(options.prep_workers), "--grpc-workers", "1", "--log-level", "warn",
         *(["--link-limit", f"{link}mbit"] if link else [])], stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        sys.exit(f"offload_server said {line!r}")
    return server, line.split()[-1]


def epoch(options, address, variant, profile):
    command = [options.bin / "offload_train", "--host", address, "--device", "none", "--json",
               "--dataset-mode", "remote_auto", "-j", str(options.workers), "-b", "32", "-p", "0",
               "--no-val", "--repeat", str(options.samples_repeat), "--log-level", "info"]
    if variant != "cold":
        command += ["--profile-folder", profile]
    if variant == "fixed":
        command.append("--no-replan")
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with {run.returncode}:\n{run.stderr}")
    return json.loads(run.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="the programs")
    parser.add_argument("--links", default="100,500,1000", help="Mbit/s, 0: no limit")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--samples-repeat", type=int, default=5,
                        help="times that each sample comes in an epoch")
    parser.add_argument("--prep-workers", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--profile", help="a profile folder made before")
    parser.add_argument("--out", type=pathlib.Path, help="CSV; lines are added")
    options = parser.parse_args()

    rows, digests = [], set()
    with tempfile.TemporaryDirectory() as folder:
        profile = options.profile
        if not profile:
            profile = os.path.join(folder, "profile")
            subprocess.run([options.bin / "offload_profile", "run", options.images, "-o", profile,
                            "--log-level", "warn"], check=True, stdout=subprocess.DEVNULL)
        for link in map(int, options.links.split(",")):
            server, address = start_server(options, link)
            for repeat in range(options.repeats):
                turn = repeat % len(VARIANTS)
                for variant in VARIANTS[turn:] + VARIANTS[:turn]:
                    report = epoch(options, address, variant, profile)
                    digests.add(report["digest"])
                    rows.append({"link_mbit": link, "repeat": repeat, "variant": variant,
                                 "seconds": report["seconds"], "samples": report["samples"],
                                 "errors": report["errors"],
                                 "wire_bytes": report["wire_bytes"], "replans": report["replans"],
                                 "choices": " ".join(f"{name}:{count}" for name, count
                                                     in report["choices"].items())})
            server.terminate()
            server.wait()
            of = {variant: [row["seconds"] for row in rows
                            if row["link_mbit"] == link and row["variant"] == variant]
                  for variant in VARIANTS}
            for other in VARIANTS[1:]:
                ratios = [a / b for a, b in zip(of["cold"], of[other])]
                print(f"{link} Mbit/s: cold {statistics.median(of['cold']):.3f} s, {other} "
                      f"{statistics.median(of[other]):.3f} s; "
                      f"ratio {statistics.median(ratios):.3f} "
                      f"({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} repeats)",
                      flush=True)
    if options.out:
        is_new = not options.out.exists()
        with open(options.out, "a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, fieldnames=rows[0].keys())
            if is_new:
                writer.writeheader()
            writer.writerows(rows)
    if len(digests) != 1:
        sys.exit(f"digests differ: {digests}")
    print(f"one digest in {len(rows)} epochs: {digests.pop()}")
