#!/usr/bin/env python3
"""Every mode on a folder of real images, with a server killed twice in mid-epoch: one digest.

usage: digest_matrix.py FOLDER [BIN]

Runs the six modes at -j 1 and 4, with 1 and 4 prep workers, and prints a row for each; in the
remote modes the server is killed (SIGKILL) after a third and after two thirds of the epoch and
started again on the same port.  Exits 1 if a digest or a sample count differs.

BIN: build/release/bin.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import programs  # noqa: E402
import test_modes  # noqa: E402

MODES = test_modes.MODES
BATCH = 4


def run(mode, where, workers, profile, on_line=None):
    command = [test_modes.BIN / "offload_train", "--dataset-mode", mode, "--device", "none",
               "--json", "-b", BATCH, "-p", "1", "-j", workers, "--retry-for", "60", *where]
    if mode in ("remote_sophon", "remote_auto"):
        command += ["--profile-folder", profile, "--net-bw", "500", "--remote-cpus", "2"]
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    log = []
    for line in process.stderr:
        log.append(line)
        if on_line:
            on_line(line)
    out = process.stdout.read()
    if process.wait() != 0:
        raise SystemExit(f"{mode} ended with {process.returncode}:\n{''.join(log)[-2000:]}")
    return json.loads(out)


class Killer:
    """Kills the server when the progress line passes each share of the epoch."""

    def __init__(self, root, prep_workers):
        self.port = programs.Port()
        self.start = lambda: test_modes.Server(root, self.port, prep_workers)
        self.server = self.start()
        self.kills = 0

    def on_line(self, line):
        match = re.search(r"\[(\d+)/(\d+)\]", line)
        if match and self.kills < 2 and \
                int(match.group(1)) >= int(match.group(2)) * (self.kills + 1) / 3:
            self.server.kill()
            self.server = self.start()
            self.kills += 1


def main():
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    root = sys.argv[1]
    programs = sys.argv[2] if len(sys.argv) > 2 else "build/release/bin"
    test_modes.BIN = pathlib.Path(programs).resolve()
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        profile = pathlib.Path(folder, "profile")
        first = run("local", [root, "--profiling", "--write-profile-folder", profile], 2, profile)
        print(f"{'mode':14} {'-j':>2} {'prep':>4} {'kills':>5} {'samples':>7} {'retries':>7} "
              f"{'seconds':>7}  digest", flush=True)
        for mode in MODES:
            for workers in (1, 4):
                for prep_workers in (1, 4) if mode != "local" else (0,):
                    begin = time.monotonic()
                    kills = 0
                    if mode == "local":
                        report = run(mode, [root], workers, profile)
                    else:
                        killer = Killer(root, prep_workers)
                        # Little read-ahead and a slow consumer: else the epoch were over before
                        # the first kill.
                        report = run(mode, ["--host", f"127.0.0.1:{killer.port}",
                                            "--prefetch-bytes", "2M", "--consume-rate", "150"],
                                     workers, profile, killer.on_line)
                        killer.server.kill()
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
