"""How remote_auto follows machines that change in the middle of an epoch.

usage: replan DIR [options]

Scenarios: link (1000 -> 100 -> 1000 Mbit/s through bench_link) and storage (the server's threads on
all of --storage-cpus, on the first --few of them, and on all again, behind its own --link-limit).
For each an epoch in which the change comes after a third and goes after two, with re-planning and,
to compare, without.

An oracle that knew would have the best steady rate from the moment of each change on: `excess` is
the time beyond that.  Steady rates are measured in epochs of their own, before and during the
change by turns, --steady-repeats times: remote_auto as it settles, all files and all cut files.
The best of the medians counts.  `recovery` is the time from a change until the rate over 0.6 s is
90 % of the steady one.  The digest must be that of local files.

Writes series.csv, summary.json and, with gnuplot, replan-SCENARIO.svg and .png to --out.
"""
import argparse
import csv
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time

from . import hosts, image_files
from .toolkit import report

SOURCE = pathlib.Path(__file__).resolve().parents[2]
RECOVERED, WINDOW_S = 0.9, 0.6
MOST_PHASES = 50  # of a steady rate, until there is one
BEGIN = re.compile(r"the plan takes ([\d.]+) s")
TICK = re.compile(r"plan at ([\d.]+) s, item (\d+): link (\S+) Mbit/s, storage (\S+) cores, "
                  r"compute (\S+) cores, trainer \S+ samples/s"
                  r"(?:, \S+ cores for both sides)?(?:, disk \S+ MB/s)?; "
                  r"done (\d+), away (\d+), unfinished (\d+); asked(.*)")
REPLAN = re.compile(r"re-plan (\d+) at ([\d.]+) s, before item \d+: (.*); prices (.*); the rest")
PRICE = re.compile(r"(\w+) ([\d.]+)")
PROGRESS = re.compile(r"train epoch \d+ \[(\d+)/\d+\]")
STEADY = {"auto": ("remote_auto", ()), "raw": ("remote_nooff", ()),
          "crop": ("remote_nooff", ("--remote-form", "jpeg_crop"))}


def pinned(cpus):
    return (lambda: os.sched_setaffinity(0, cpus)) if cpus else None


class Machines:
    """A server behind a link, in a state that can be changed."""

    def __init__(self, options, has_relay, rate):
        self.all, self.few = options.storage_cpus, options.storage_cpus[:options.few]
        self.server = subprocess.Popen(
            [options.bin / "offload_server", "--root", options.images,
             "--listen", "127.0.0.1:0", "--prep-workers", str(options.prep_workers),
             "--grpc-workers", "1", "--log-level", "error",
             *([] if has_relay else ["--link-limit", f"{rate:g}mbit"])],
            stdout=subprocess.PIPE, text=True, preexec_fn=pinned(self.all))
        self.address = self.server.stdout.readline().split()[-1]
        self.link = None
        if has_relay:
            self.link = subprocess.Popen(
                [options.bin.parent / "bench/bench_link", "--to", self.address.split(":")[-1],
                 "--rate", str(rate), "--delay", str(options.delay)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                preexec_fn=pinned(options.link_cpus))
            self.address = self.link.stdout.readline().split()[-1]

    def set_rate(self, mbit):
        self.link.stdin.write(f"rate {mbit}\n")
        self.link.stdin.flush()

    def set_cpus(self, are_few):
        for task in os.listdir(f"/proc/{self.server.pid}/task"):
            try:
                os.sched_setaffinity(int(task), self.few if are_few else self.all)
            except ProcessLookupError:
                pass  # it has ended

    def close(self):
        if self.link:
            self.link.stdin.close()
            self.link.wait()
        self.server.terminate()
        self.server.wait()


class Epoch:
    """offload_train, watched while it runs."""

    running = []

    def __init__(self, options, address, repeat, *flags, mode="remote_auto"):
        self.ticks, self.replans, self.report = [], [], None
        self.begin = threading.Event()
        self.is_planned, self.batch = mode == "remote_auto", options.batch
        self.process = subprocess.Popen(
            [options.bin / "offload_train", "--host", address, "--device", "none", "--json",
             "--dataset-mode", mode, "-j", str(options.workers), "-b", str(options.batch), "-p",
             "0" if self.is_planned else "1", "--no-val", "--repeat", str(repeat), "--log-level",
             "debug" if self.is_planned else "info", *flags], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, preexec_fn=pinned(options.client_cpus))
        Epoch.running.append(self.process)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        done = 0
        for line in self.process.stderr:
            tick, replan = TICK.search(line), REPLAN.search(line)
            progress = None if self.is_planned else PROGRESS.search(line)
            if progress:
                if not self.begin.is_set():
                    self.begin_s = time.monotonic()
                    self.begin.set()
                self.ticks.append({"s": self.since_begin(), "done": self.batch * int(progress[1])})
            elif BEGIN.search(line):
                self.begin_s = time.monotonic()
                self.first_prices = dict(PRICE.findall(line.rpartition("prices ")[2]))
                self.begin.set()
            elif tick:
                done += int(tick[6])
                asked = dict(part.rsplit(" ", 1) for part in re.findall(r"\S+ \d+", tick[9]))
                self.ticks.append({"s": float(tick[1]), "done": done, "link_mbit": float(tick[3]),
                                   "storage_cores": float(tick[4]), "compute_cores": float(tick[5]),
                                   "away": int(tick[7]), "unfinished": int(tick[8]),
                                   "asked": {name: int(n) for name, n in asked.items()}})
            elif replan:
                self.replans.append({"s": float(replan[2]), "reason": replan[3],
                                     "prices": dict(PRICE.findall(replan[4]))})
            self.last_line = line
        self.begin.set()

    def since_begin(self):
        return time.monotonic() - self.begin_s

    def wait(self):
        out = self.process.stdout.read()
        self.reader.join()
        Epoch.running.remove(self.process)
        if self.process.wait() not in (0, 128 + signal.SIGTERM):
            sys.exit(f"offload_train ended with {self.process.returncode}: {self.last_line}")
        self.report = json.loads(out.splitlines()[-1]) if out.strip() else None
        return self

    def rate(self, from_s, to_s):
        points = [tick for tick in self.ticks if from_s <= tick["s"] <= to_s]
        if len(points) < 2:
            return 0
        return (points[-1]["done"] - points[0]["done"]) / (points[-1]["s"] - points[0]["s"])


def steady_rate(options, machines, variant):
    mode, flags = STEADY[variant]
    epoch = Epoch(options, machines.address, 100000, *flags, mode=mode)
    epoch.begin.wait()
    rate, num_phases = 0, 0
    while not rate and num_phases < MOST_PHASES and epoch.process.poll() is None:
        time.sleep(options.phase)
        num_phases += 1
        rate = epoch.rate(options.phase / 3, num_phases * options.phase)
    epoch.process.send_signal(signal.SIGTERM)
    epoch.wait()
    return rate


def steady_rates(options, machines, change):
    """The best rate before and during the change, and all that was measured."""
    found = [{variant: [] for variant in options.steady} for _ in range(2)]
    for _ in range(options.steady_repeats):
        for is_bad in (False, True):
            change(is_bad)
            for variant, rates in found[is_bad].items():
                rates.append(steady_rate(options, machines, variant))
    change(False)
    best = [max(statistics.median(rates) for rates in of.values()) for of in found]
    if not all(best):
        sys.exit(f"no sample came twice in {MOST_PHASES} phases: --phase is too short")
    return best, found


def local_digest(options, repeat):
    done = subprocess.run(
        [options.bin / "offload_train", options.images, "--dataset-mode", "local", "--device",
         "none", "--json", "-j", str(len(os.sched_getaffinity(0))), "-b", str(options.batch),
         "-p", "0", "--no-val", "--repeat", str(repeat)],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    return json.loads(done.stdout)["digest"]


def recovery(epoch, at_s, until_s, rate):
    for tick in epoch.ticks:
        if at_s <= tick["s"] <= until_s - WINDOW_S:
            later = next((t for t in epoch.ticks if t["s"] >= tick["s"] + WINDOW_S), None)
            if not later:
                return None
            if (later["done"] - tick["done"]) / (later["s"] - tick["s"]) >= RECOVERED * rate:
                return tick["s"] - at_s
    return None


def oracle_s(samples, switches, rates):
    """When the last of so many samples is done at the first rate until switches[0], ..."""
    at, left = 0, samples
    for until, rate in zip(switches, rates):
        if left <= rate * (until - at):
            return at + left / rate
        left -= rate * (until - at)
        at = until
    return at + left / rates[len(switches)]


def run_scenario(options, name, num_images):
    has_relay = name == "link"
    machines = Machines(options, has_relay, options.rates[0] if has_relay else options.storage_rate)
    try:
        return run_on(options, machines, name, num_images)
    finally:
        for process in Epoch.running:
            process.kill()  # does nothing to one that has ended
        machines.close()


def run_on(options, machines, name, num_images):
    def change(is_bad):
        if machines.link:
            machines.set_rate(options.rates[1 if is_bad else 0])
        else:
            machines.set_cpus(is_bad)

    rates, measured = steady_rates(options, machines, change)
    for is_bad, of in enumerate(measured):
        print(f"{name}: steady {'during' if is_bad else 'before'} the change: " +
              ", ".join(f"{variant} {' '.join(f'{rate:.0f}' for rate in of[variant])}"
                        for variant in of) + f" samples/s; best {rates[is_bad]:.0f}", flush=True)
    repeat = max(1, round(options.phase * (2 * rates[0] + rates[1]) / num_images))
    rows, summary = [], {"scenario": name, "steady_per_s": rates, "steady": measured, "runs": []}
    digests = {local_digest(options, repeat)}
    for number in range(options.repeats):
        for variant, flags in (("replan", ()), ("fixed", ("--no-replan",))):
            if variant == "fixed" and number >= options.fixed_repeats:
                continue
            epoch = Epoch(options, machines.address, repeat, *flags)
            epoch.begin.wait()
            switches = []
            for is_bad in (True, False):
                while epoch.since_begin() < options.phase * (len(switches) + 1):
                    time.sleep(0.005)
                change(is_bad)
                switches.append(epoch.since_begin())
            epoch.wait()
            change(False)
            seconds, samples = epoch.report["seconds"], epoch.report["samples"]
            best = oracle_s(samples, switches, (rates[0], rates[1], rates[0]))
            digests.add(epoch.report["digest"])
            ends = switches[1:] + [seconds]
            found = {"variant": variant, "repeat": number, "seconds": seconds, "samples": samples,
                     "oracle_s": best, "excess_s": seconds - best, "excess": seconds / best - 1,
                     "replans": epoch.report["replans"],
                     "plan_cpu": epoch.report["plan_cpu"], "switches_s": switches,
                     "recovery_s": [recovery(epoch, at, end, rate) for at, end, rate
                                    in zip(switches, ends, (rates[1], rates[0]))],
                     "reasons": [f"{r['s']:.2f} s: {r['reason']}" for r in epoch.replans]}
            summary["runs"].append(found)
            recovered = " and ".join("none" if recovery_s is None else f"{recovery_s:.2f} s"
                                     for recovery_s in found["recovery_s"])
            print(f"  {variant}: {seconds:.2f} s, with foresight {best:.2f} s, excess "
                  f"{100 * found['excess']:.1f} %, recovery {recovered}, "
                  f"{found['replans']} re-plans, plan's share of the client's CPU "
                  f"{100 * found['plan_cpu']['share']:.2f} %", flush=True)
            for reason in found["reasons"]:
                print(f"    {reason}")
            prices, replans = epoch.first_prices, list(epoch.replans)
            last = {"s": 0, "done": 0}
            for tick in epoch.ticks:
                while replans and replans[0]["s"] <= tick["s"]:
                    prices = replans.pop(0)["prices"]
                asked = sum(tick["asked"].values()) or 1
                rows.append({"scenario": name, "variant": variant, "repeat": number, "s": tick["s"],
                             "per_s": ((tick["done"] - last["done"]) /
                                       max(tick["s"] - last["s"], 1e-3)),
                             **{key: tick[key] for key in ("link_mbit", "storage_cores",
                                                           "compute_cores", "away",
                                                           "unfinished")},
                             **{f"price_{key}": prices.get(key, "0") for key in
                                ("net_down", "storage_cpu", "compute_cpu")},
                             **{f"asked_{key}": tick["asked"].get(key, 0) / asked for key in
                                ("raw@0", "jpeg_crop@0", "u8@3", "u8_packed@3")}})
                last = tick
    summary["digest"] = sorted(digests)
    of = {variant: [run["excess"] for run in summary["runs"] if run["variant"] == variant]
          for variant in ("replan", "fixed")}
    for variant, values in of.items():
        if values:
            summary[f"median_excess_{variant}"] = statistics.median(values)
    return rows, summary


def draw(out, name, rows, summary):
    rows = [row for row in rows if row["variant"] == "replan" and row["repeat"] == 0]
    if len(rows) < 2:
        print(f"{name}: the epoch is too short for a figure")
        return
    run = next(run for run in summary["runs"] if run["variant"] == "replan")
    columns = ("s", "per_s", "link_mbit", "storage_cores", "price_net_down", "price_storage_cpu",
               "price_compute_cpu", "asked_raw@0", "asked_jpeg_crop@0", "asked_u8_packed@3")
    title = f"{name}: changes at the dotted lines"
    figure = report.Figure(f"replan-{name}", title, "", 1000, 1400)
    figure.data("data", [[float(row[column]) for column in columns] for row in rows])
    figure.script += [f"set arrow from first {at},graph 0 to first {at},graph 1 nohead dashtype 3"
                      for at in run["switches_s"]]
    panels = (("samples/s", [("2", "done")], ""), ("Mbit/s", [("3", "link, as believed")], ""),
              ("cores", [("4", "storage, as believed")], ""),
              ("price", [("5", "link"), ("6", "storage CPU"), ("7", "compute CPU")], "[0:1.05]"),
              ("share asked", [("8", "raw"), ("9", "jpeg crop"), ("10", "packed")], "[0:1.05]"))
    figure.commands += [f"set multiplot layout {len(panels)},1", "set lmargin 9",
                        "if (narrow) { set rmargin 2 } else { set rmargin 28 }",
                        f"set title '{title}' textcolor rgb '{report.INK}'"]
    for label, lines, limits in panels:
        plots = ", ".join(
            f"$data using 1:{column} with steps linewidth 2 linecolor rgb '{colour}' title '{what}'"
            for (column, what), colour in zip(lines, (report.BLUE, report.VERMILION, report.GREEN)))
        figure.commands += [f"set ylabel '{label}'", f"plot [0:*] {limits or '[0:*]'} {plots}",
                            "unset title"]
    figure.commands.append("unset multiplot")
    if shutil.which("gnuplot"):
        figure.draw(out)
    else:
        figure.write(out)
        print("gnuplot is not installed (gnuplot-nox): the script is there, the figure is not")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", metavar="DIR")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="the programs; those of bench/ are beside it")
    parser.add_argument("--scenarios", default="link,storage")
    parser.add_argument("--rates", default="1000,100", help="Mbit/s before and during the change")
    parser.add_argument("--storage-rate", type=float, default=1000,
                        help="Mbit/s of the server while its cores change")
    parser.add_argument("--delay", type=float, default=0.2, help="of the link, ms one way")
    parser.add_argument("--prep-workers", type=int, default=4)
    parser.add_argument("--storage-cpus", type=hosts.cpu_list, help='such as "0-3"',
                        default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--few", type=int, default=1, help="how many of them are left")
    parser.add_argument("--client-cpus", type=hosts.cpu_list, default=[])
    parser.add_argument("--link-cpus", type=hosts.cpu_list, default=[])
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--phase", type=float, default=8, help="seconds between changes")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steady", type=lambda text: text.split(","), default=list(STEADY),
                        help="what the steady rate is the best of: " + ",".join(STEADY))
    parser.add_argument("--steady-repeats", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--fixed-repeats", type=int, default=1,
                        help="of them also without re-planning")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    options.rates = [float(rate) for rate in options.rates.split(",")]
    options.out.mkdir(parents=True, exist_ok=True)
    num_images = len(image_files.find(options.images))
    all_rows, summaries = [], []
    for name in options.scenarios.split(","):
        rows, summary = run_scenario(options, name, num_images)
        all_rows += rows
        summaries.append(summary)
        draw(options.out, name, rows, summary)
    with open(options.out / "series.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=all_rows[0].keys() if all_rows else ())
        writer.writeheader()
        writer.writerows(all_rows)
    (options.out / "summary.json").write_text(json.dumps(summaries, indent=1) + "\n",
                                              encoding="utf-8")
    different = [s["scenario"] for s in summaries if len(s["digest"]) != 1]
    if different:
        sys.exit(f"digests differ: {different}")
    print("every epoch's digest is that of the local files")
