#!/usr/bin/env python3
"""One result: every way to a tensor in a process, every mode, form and CPU level between two.

usage: test_equality.py                  on a small set that it makes
       test_equality.py FOLDER [EPOCHS]  on a folder of images; EPOCHS: 3

Within a process bench_pipeline --compare compares tensors bit for bit, with torchvision's where
that is installed.  Between a server and a client the digests of each epoch are compared with those
of remote_nooff where the client has scalar code alone and nobody has an index.  SLUICE_BIN names
the programs' folder (build/release/bin).
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import programs  # noqa: E402

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("SLUICE_BIN", SOURCE / "build/release/bin")).resolve()
TIMEOUT_S = 600

RUNS = (("remote_nooff", "raw"), ("remote_nooff", "jpeg_crop"), ("remote_nooff", "u8_packed"),
        ("remote_nooff", "jpeg_rows"), ("remote_piloff", "raw"), ("remote_piloff", "u8_packed"),
        ("remote_alloff", "raw"), ("remote_sophon", "raw"), ("remote_auto", "auto"),
        ("local", "raw"))


def must(*command, **environment):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          timeout=TIMEOUT_S, env={**os.environ, **environment}, check=False)
    if done.returncode != 0 or "Sanitizer" in done.stderr:
        raise SystemExit(f"{done.args} ended with {done.returncode}:\n{done.stdout[-3000:]}"
                         f"{done.stderr[-3000:]}")
    return done


def serve(root, level, *flags):
    return programs.Server(root, "--grpc-workers", 1, "--log-level", "warn", *flags, folder=BIN,
                           env={"SLUICE_CPU": level})


class Set:
    """A folder with an index, a profile, and what every run must give."""

    def __init__(self, root, folder, epochs, *flags):
        self.root, self.profile = root, folder / "profile"
        self.flags = ("--device", "none", "--json", "--no-val", "-p", 0, "--epochs", epochs, *flags)
        must(BIN / "offload_dataset", "index", "--jpeg-index", root)
        must(BIN / "offload_train", root, "--dataset-mode", "local", *self.flags, "--epochs", 1,
             "--profiling", "--write-profile-folder", self.profile)
        server = serve(root, "c", "--jpeg-index", "off")
        self.want = self.train(server, "remote_nooff", "raw", "auto", "c", JSIMD_FORCENONE="1")
        server.stop()
        self.num_runs = self.num_wrong = 0

    def train(self, server, mode, form, index, level, **environment):
        where = ((self.root, "--jpeg-index", index) if mode == "local"
                 else ("--host", server.address, "--remote-form", form))
        done = must(BIN / "offload_train", "--dataset-mode", mode, *where, "--profile-folder",
                    self.profile, "--net-bw", 500, "--remote-cpus", 2, *self.flags,
                    SLUICE_CPU=level, **environment)
        return programs.reports(done.stdout)

    def compare(self, server_levels, client_levels):
        print(f"{'mode':14} {'form':10} {'server':7} {'client':7} {'index':5} {'tables':8} "
              f"{'samples':>7}  digests")
        for i, server_level in enumerate(server_levels):
            for k, index in enumerate(("auto", "off")):
                huffman = ("fast", "optimal")[(i + k) % 2]
                server = serve(self.root, server_level, "--jpeg-index", index,
                                "--jpeg-crop-huffman", huffman)
                for r, (mode, form) in enumerate(RUNS):
                    level = client_levels[(i + k + r) % len(client_levels)]
                    self.row(mode, form, server_level, level, index, huffman,
                             self.train(server, mode, form, index, level))
                stats = server.stop()
                if (stats["jpeg_index"]["hits"] > 0) != (index == "auto"):
                    raise SystemExit(f"index {index}, but {stats['jpeg_index']}")

    def row(self, mode, form, server_level, level, index, huffman, reports):
        is_same = ([(r["digest"], r["samples"], r["errors"]) for r in reports] ==
                   [(r["digest"], r["samples"], 0) for r in self.want])
        self.num_runs += 1
        self.num_wrong += not is_same
        print(f"{mode:14} {form:10} {'-' if mode == 'local' else server_level:7} {level:7} "
              f"{index:5} {huffman if form in ('jpeg_crop', 'auto') else '-':8} "
              f"{sum(r['samples'] for r in reports):7}  "
              f"{' '.join(r['digest'][:8] for r in reports)}{'' if is_same else '  DIFFERS'}",
              flush=True)


def compare_tensors(root, epochs, *flags):
    """Within a process.  The machine's levels, the scalar one first."""
    done = must(BIN.parent / "bench" / "bench_pipeline", "--compare", "--epochs", epochs, *flags,
                root)
    print(done.stdout + done.stderr, flush=True)
    best = re.search(r"(\w+) at best", done.stderr).group(1)
    return ["c", *(["avx2"] if best == "avx512" else []), *([best] if best != "c" else [])]


def main():
    if len(sys.argv) > 3:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        root = folder / "set"
        if len(sys.argv) > 1:
            epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
            shutil.copytree(sys.argv[1], root)  # as an index goes beside the images
            root.chmod(0o755)
            levels = compare_tensors(root, epochs, "--reference")
            checked = Set(root, folder, epochs)
            checked.compare(levels, levels)
        else:
            must(BIN / "offload_dataset", "synth", root, "-n", 24, "--num-val", 0, "--classes", 2,
                 "-j", 1, "--log-level", "warn")
            levels = compare_tensors(root, 1, "--images", 8)
            checked = Set(root, folder, 2, "--image-size", 64, "-b", 8)
            checked.compare(levels[-1:], levels)
    print(f"{checked.num_runs} runs of {len(checked.want)} epochs: {checked.num_wrong} differ")
    return 1 if checked.num_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
