#!/usr/bin/env python3
"""Two versions of the programs and one digest (scripts/test-compat builds them).

usage: compat.py OLD_BIN NEW_BIN

The server of one version and the loader of the other, in every mode and form, and while the server
is restarted as the other version; and what is kept over an upgrade: a list, an index of the JPEGs, a
profile and a checkpoint of the old version, used by the new one.  Prints a row for each; exit code 1 if a digest or
a count differs.
"""
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from programs import Port, Server, Train, progress  # noqa: E402

SAMPLES = 150
VAL = 20
BATCH = 4
FORMS = [("remote_nooff", "raw"), ("remote_nooff", "jpeg_crop"), ("remote_nooff", "u8_packed"),
         ("remote_piloff", "raw"), ("remote_piloff", "u8_packed"), ("remote_alloff", "raw"),
         ("remote_sophon", "raw"), ("remote_auto", None)]


def serve(folder, root, port=0):
    return Server(root, folder=folder, listen=f"127.0.0.1:{port}")


def train(folder, flags, on_line=None, code=0, device="none"):
    """The epochs' objects of an offload_train."""
    run = Train("--device", device, "-b", BATCH, "-j", 2, "--retry-for", 60, *flags, folder=folder)
    for line in run.lines():
        if on_line:
            on_line(line, run.process)
    return run.end(code)[0]


def at_share(line):
    """How far an epoch is by a line of its progress, or None."""
    done = progress(line)
    return done and done[0] / done[1]


class Table:
    def __init__(self):
        self.bad = 0

    def row(self, what, server, loader, is_good, report):
        self.bad += not is_good
        choices = " ".join(f"{name}:{count}" for name, count in report["choices"].items())
        print(f"{what:26} {server:9} {loader:6} {report['samples']:7} {report['retries']:7}  "
              f"{report['digest'][:8]}  {choices}{'' if is_good else '  DIFFERS'}", flush=True)


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    bins = {"old": pathlib.Path(sys.argv[1]).resolve(), "new": pathlib.Path(sys.argv[2]).resolve()}
    other = {"old": "new", "new": "old"}
    table = Table()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        root = folder / "set"
        subprocess.run([bins["new"] / "offload_dataset", "synth", root, "-n", str(SAMPLES),
                        "--num-val", str(VAL)], check=True, capture_output=True)
        # Of the old: whoever serves or trains here reads its list and its index.
        subprocess.run([bins["old"] / "offload_dataset", "index", "--jpeg-index", root], check=True,
                       capture_output=True)
        first, second = train(bins["old"], [root, "--dataset-mode", "local", "--epochs", "2"])
        (val,) = train(bins["old"], [root, "--dataset-mode", "local", "--evaluate"])
        profiles = {}
        for version in bins:
            profiles[version] = folder / f"profile-{version}"
            train(bins[version], [root, "--dataset-mode", "local", "--profiling",
                                  "--write-profile-folder", profiles[version]])

        def mode_flags(mode, form, profile):
            flags = ["--dataset-mode", mode, *(["--remote-form", form] if form else [])]
            if mode == "remote_sophon" or profile and mode == "remote_auto":
                flags += ["--profile-folder", profile, "--net-bw", "500", "--remote-cpus", "2"]
            return flags

        def is_first(report):
            return (report["digest"] == first["digest"] and report["errors"] == 0 and
                    report["samples"] == SAMPLES)

        print(f"{'mode':26} {'server':9} {'loader':6} {'samples':>7} {'retries':>7}  digest    "
              "choices")
        for version in ("old", "new"):
            with serve(bins[version], root) as server:
                loader = other[version]
                rows = [("remote_nooff", "jpeg_rows")] if loader == "new" else []  # a file of the old
                for mode, form in FORMS + rows:
                    (report,) = train(bins[loader], ["--host", server.address,
                                                     *mode_flags(mode, form, profiles[loader])])
                    table.row(f"{mode} {form or 'all forms'}", version, loader, is_first(report),
                              report)
                (report,) = train(bins[loader], ["--host", server.address, "--evaluate"])
                table.row("evaluate", version, loader,
                          report["digest"] == val["digest"] and report["samples"] == VAL, report)
                if loader == "new":
                    (report,) = train(bins["new"], ["--host", server.address, "--dataset-mode",
                                                    "remote_auto", "--profile-folder",
                                                    profiles["old"]])
                    table.row("profile of the old", version, loader, is_first(report), report)
                server.stop()

        for loader in ("old", "new"):
            for before in ("old", "new"):
                with Port() as port:
                    servers = [serve(bins[before], root, port)]

                    def restart(line, _process, servers=servers, before=before, port=port):
                        share = at_share(line)
                        if share is not None and len(servers) == 1 and share >= 1 / 3:
                            servers[0].stop()
                            servers.append(serve(bins[other[before]], root, port))

                    # Little read-ahead and a slow consumer: else it were over before the restart.
                    (report,) = train(bins[loader], [
                        "--host", f"127.0.0.1:{port}", "--prefetch-bytes", "2M", "--consume-rate",
                        "100", "-p", "1"], restart)
                    for server in servers:
                        server.stop()
                    table.row("restart in mid-epoch", f"{before}>{other[before]}", loader,
                              is_first(report) and len(servers) == 2 and report["retries"] > 0,
                              report)

        checkpoint = folder / "run.ckpt"
        server = serve(bins["new"], root)

        told = []

        def stop(line, process):
            if not told and (at_share(line) or 0) >= 1 / 3:
                told.append(True)
                process.terminate()

        # A device that learns, as others have nothing to save; slow enough to be stopped in time.
        flags = ["--host", server.address, "--epochs", "2", "--checkpoint", checkpoint, "-p", "1",
                 "-a", "small_cnn", "--lr", "0.01", "--no-val"]
        train(bins["old"], flags, stop, 128 + signal.SIGTERM, "cpu")
        rest = train(bins["new"], [*flags, "--resume", checkpoint], device="cpu")
        server.stop()
        table.row("checkpoint of the old", "new", "new",
                  len(rest) == 2 and rest[0]["first_sample"] > 0 and
                  rest[0]["first_sample"] + rest[0]["samples"] == SAMPLES and
                  rest[1]["digest"] == second["digest"], rest[1])
    print("one digest" if not table.bad else f"{table.bad} rows differ")
    return 1 if table.bad else 0


if __name__ == "__main__":
    sys.exit(main())
