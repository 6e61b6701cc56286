"""What TLS costs in each remote mode: CPU time of both nodes for a GB that crosses the wire.

usage: tls DIR [options]

offload_train --device none fetches DIR from offload_server behind --link-limit (--link), without TLS and with it in
turns, --repeats times in each mode; each turn has a server of its own.  remote_sophon plans from a profile that is taken
first.

columns, medians of the turns:
    plain, tls   CPU seconds of the program for 10^9 bytes of messages (an epoch's wire_bytes): the server's while the
                 trainer runs, the trainer's from its start to its end
    extra        tls - plain of a turn; in brackets the least and the most
    % of a core  extra at --link: what TLS takes of one core while the link is full
In remote_sophon and remote_auto a dearer byte changes the plan: bytes tells how many were sent with TLS over without.
The digests of a mode must be equal.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from . import hosts, image_files

SOURCE = pathlib.Path(__file__).resolve().parents[2]
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_sophon", "remote_auto")


class Failed(Exception):
    pass


def server(options, certs):
    """certs: with TLS."""
    tls = ("--tls-cert", certs / "server.pem", "--tls-key", certs / "server-key.pem") if certs else ()
    return hosts.server(options.bin, options.images, "--prep-workers", len(options.storage_cpus), "--link-limit",
                        f"{options.link}mbit", *tls, run_first=lambda: os.sched_setaffinity(0, options.storage_cpus))


def train(options, address, certs, *flags):
    """What it prints, and its CPU seconds."""
    tls = ("--tls", "--ca", certs / "ca.pem") if certs else ()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        process = hosts.spawn(
            [options.bin / "offload_train", "--host", address, "--json", "--device", "none", "-j",
             len(options.client_cpus), "--no-val", "-p", 0, *tls, *flags],
            lambda: os.sched_setaffinity(0, options.client_cpus), stdout=out, stderr=log)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        log.seek(0)
        if process.returncode:
            raise Failed(log.read()[-2000:])
        return out.read(), usage.ru_utime + usage.ru_stime


def turn(options, mode, certs, profile):
    """CPU seconds of both nodes for a GB, the bytes, and the digest."""
    with server(options, certs) as process:
        before = hosts.cpu_seconds(process.pid)
        plan = ("--profile-folder", profile) if mode == "remote_sophon" else ()
        out, trainer_s = train(options, process.address, certs, "--dataset-mode", mode, "--epochs", 1, "--repeat",
                               options.repeat, *plan)
        server_s = hosts.cpu_seconds(process.pid) - before
    epoch = json.loads(out.splitlines()[-1])
    gb = epoch["wire_bytes"] / 1e9
    return {"server": server_s / gb, "trainer": trainer_s / gb, "bytes": epoch["wire_bytes"],
            "mbit_s": epoch["wire_bytes"] * 8e-6 / epoch["seconds"], "digest": epoch["digest"]}


def measure(options, mode, certs, profile):
    plain, tls = [], []
    for _ in range(options.repeats):
        plain.append(turn(options, mode, None, profile))
        tls.append(turn(options, mode, certs, profile))
    found = {"mode": mode, "link_mbit": options.link,
             "bytes": statistics.median(t["bytes"] / p["bytes"] for p, t in zip(plain, tls)),
             "mbit_s": statistics.median(t["mbit_s"] for t in tls),
             "is_exact": len({one["digest"] for one in plain + tls}) == 1}
    for node in ("server", "trainer"):
        extra = [t[node] - p[node] for p, t in zip(plain, tls)]
        found[node] = {"plain": statistics.median(p[node] for p in plain),
                       "tls": statistics.median(t[node] for t in tls),
                       "extra": statistics.median(extra), "least": min(extra), "most": max(extra),
                       "core_share": statistics.median(extra) * options.link * 1e6 / 8 / 1e9}
    return found


def say(found):
    for node in ("server", "trainer"):
        one = found[node]
        print(f"{found['mode'] if node == 'server' else '':15}{node:9}{one['plain']:8.3f}{one['tls']:8.3f}"
              f"{one['extra']:8.3f} ({one['least']:.3f} to {one['most']:.3f}){100 * one['core_share']:8.1f} %"
              f"{found['bytes']:8.3f}{found['mbit_s']:8.0f}{'' if found['is_exact'] else '  THE DIGESTS DIFFER'}",
              flush=True)


def main():
    cpus = sorted(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="See the head of the file.")
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument("--link", type=float, default=1000, help="Mbit/s (1000)")
    parser.add_argument("--repeats", type=int, default=5, help="turns in each mode (5)")
    parser.add_argument("--repeat", type=int, default=10, help="passes over the images in a turn (10)")
    parser.add_argument("--storage-cpus", type=hosts.cpu_list, default=cpus)
    parser.add_argument("--client-cpus", type=hosts.cpu_list, default=cpus)
    parser.add_argument("--json", action="store_true", help="an object for each mode")
    options = parser.parse_args()
    modes = options.modes.split(",")
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown:
        parser.error(f"'{unknown[0]}' is none of {', '.join(MODES)}")
    image_files.warm(options.images)
    is_exact = True
    with tempfile.TemporaryDirectory() as folder:
        certs, profile = pathlib.Path(folder, "certs"), pathlib.Path(folder, "profile")
        try:
            subprocess.run([SOURCE / "scripts/dev-certs", certs], check=True, capture_output=True)
            if "remote_sophon" in modes:
                profile.mkdir()
                with server(options, None) as process:
                    train(options, process.address, None, "--profiling", "--write-profile-folder", profile)
            if not options.json:
                print(f"CPU s a GB over a link of {options.link:g} Mbit/s\n"
                      f"{'mode':15}{'node':9}{'plain':>8}{'tls':>8}{'extra':>8}{'':18}{'of a core':>10}"
                      f"{'bytes':>8}{'Mbit/s':>8}")
            for mode in modes:
                found = measure(options, mode, certs, profile)
                is_exact = is_exact and found["is_exact"]
                if options.json:
                    print(json.dumps(found), flush=True)
                else:
                    say(found)
        except (Failed, hosts.HostError) as error:
            sys.exit(f"tls: {error}")
        except subprocess.CalledProcessError as error:
            sys.exit(f"tls: {error.stderr.decode()}")
    return 0 if is_exact else 1


if __name__ == "__main__":
    sys.exit(main())
