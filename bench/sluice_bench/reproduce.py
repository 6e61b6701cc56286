"""The command line of bench/reproduce and the loop over the cells."""
import argparse
import collections
import contextlib
import csv
import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from . import cells, draw, forecast, hosts, image_files, measure, records, speed

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNFINISHED = 75  # exit code: --max-seconds are over, the same call goes on
# Of the link while nodes are measured, at least: where a link is slower no CPU is near its limit,
# and every form of every sample would take long.
MIN_PROFILE_MBIT = 1000
PROFILE_S = 10  # as long as none was made
OVERHEAD_S = 0.4  # of an epoch's process: start, list of samples, end

OPENIMAGES_FIELDS = ("mode", "samples", "wire_bytes", "seconds", "slowest", "choices", "command")


def _list_of(parse):
    def parse_all(text):
        try:
            found = [parse(part) for part in text.split(",") if part.strip()]
        except ValueError as error:
            raise argparse.ArgumentTypeError(error) from None
        if not found:
            raise argparse.ArgumentTypeError("an empty list")
        return list(dict.fromkeys(found))
    return parse_all


def _count(text):
    value = int(text)
    if value < 1:
        raise ValueError(f"{text!r} is below 1")
    return value


def _cores(text):
    value = float(text)
    if not 0.01 <= value < math.inf:
        raise ValueError(f"{text!r} is no number of cores")
    return value


def _rate(text):
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is no rate")
    return value


def mode_name(mode):
    """What --modes calls it first: the name of the programs, where they have the mode."""
    return next((alias for alias, name in cells.ALIASES.items() if name == mode), mode)


MODE_NAMES = [mode_name(mode) for mode in cells.MODES]


def _mode(text):
    name = cells.ALIASES.get(text, text)
    if name not in cells.MODES:
        raise ValueError(f"no mode is called {text!r}: {', '.join(MODE_NAMES)}")
    return name


# What a program measures: its name, what it is for, its machines, which of them is profiled to
# forecast one of them, and lines to print at the end.
Program = collections.namedtuple("Program", "name description setups_of profiled_of lines")
REPRODUCE = Program(
    "bench/reproduce",
    "Measures every mode on two hosts made of this machine, over bandwidths and cores, compares "
    "with the plan, and draws tables, figures and a page.",
    cells.setups_of, lambda setups, setup: setup, lambda summary: [])


def parse_arguments(arguments, program):
    parser = argparse.ArgumentParser(
        prog=program.name, description=program.description,
        epilog="A call that is broken off goes on where it was when it is repeated. Exit code "
               f"{UNFINISHED}: --max-seconds are over and cells are left.")
    parser.add_argument("dir", nargs="?", metavar="DIR", help="Any folder of images.")
    parser.add_argument("--out", metavar="FOLDER", help="Where everything goes.")
    parser.add_argument("--draw", metavar="FOLDER",
                        help="Only makes cells.csv, figures and page of what FOLDER holds.")
    parser.add_argument("--openimages", metavar="CSV",
                        help="Plans the published sizes of 40,000 OpenImages, without images, and "
                             "prints the bytes of each mode.")
    parser.add_argument("--modes", type=_list_of(_mode), default=list(cells.DEFAULT_MODES),
                        help=f"Of {', '.join(MODE_NAMES)} (default: "
                             f"{', '.join(map(mode_name, cells.DEFAULT_MODES))}).")
    parser.add_argument("--bandwidths", type=_list_of(cells.parse_mbit),
                        default=[50, 100, 250, 500, 1000, 2500, 10000],
                        help="Such as 50mbit,10gbit (default: seven from 50mbit to 10gbit).")
    parser.add_argument("--storage-cores", type=_list_of(_cores), metavar="N,...",
                        help="Parts (0.5) are quotas of CPU time, which need root.  Default: one, "
                             "and as many as --compute-cores leaves.")
    parser.add_argument("--compute-cores", type=_list_of(_cores), metavar="N,...",
                        help="Default: half of the CPUs.")
    parser.add_argument("--epochs", type=_count, default=3, metavar="N",
                        help="Measured epochs of each cell, of which the median counts (3).")
    parser.add_argument("--attempts", type=_count, default=3, metavar="N",
                        help="Times that a profile or an epoch is measured at most if others took "
                             "CPU time (3).")
    parser.add_argument("--repeat", type=int, default=0, metavar="R",
                        help="Times that each image comes in an epoch; 0: so often that the "
                             "fastest mode takes --seconds.")
    parser.add_argument("--seconds", type=float, default=3, metavar="S", help="See --repeat (3).")
    parser.add_argument("--device", choices=("none", "cuda"), default="none",
                        help="Where the model learns; none: batches are only consumed.")
    parser.add_argument("--arch", default="alexnet", help="The model of --device cuda.")
    parser.add_argument("--batch", type=_count, default=256, metavar="N")
    parser.add_argument("--consume-rates", type=_list_of(_rate), default=[0.0], metavar="N,...",
                        help="Samples a second that --device none takes; 0: as they come (0).")
    parser.add_argument("--gpu-rate", type=float, default=0, metavar="N",
                        help="Samples a second to plan with for --device cuda (bench_train "
                             "measures them); 0: never the limit.")
    parser.add_argument("--jpeg-index", action="store_true",
                        help="Writes an index of the JPEGs into FOLDER and gives it to the server.")
    parser.add_argument("--profile-samples", type=int, default=0, metavar="N",
                        help="Profiles so many of the images; 0: all.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-root", action="store_true",
                        help="No network namespaces: the server limits the link.")
    parser.add_argument("--no-clocks", dest="has_clocks", action="store_false",
                        help="Nothing runs beside the nodes, so how fast their CPUs were is not "
                             "known.")
    parser.add_argument("--max-seconds", type=float, default=math.inf, metavar="S",
                        help="Starts no epoch that would end later.")
    parser.add_argument("--reforecast", action="store_true",
                        help="Asks the planner again about setups that have a forecast.")
    parser.add_argument("--bin", default=os.environ.get(
        "SLUICE_BIN", os.path.join(TOP, "build/release/bin")), metavar="FOLDER",
                        help="The programs (build/release/bin).")
    options = parser.parse_args(arguments)
    if options.draw and (options.dir or options.out):
        parser.error("--draw FOLDER goes with neither DIR nor --out")
    if not options.draw and not options.out:
        parser.error("--out FOLDER or --draw FOLDER is needed")
    if not options.draw and not options.dir and not options.openimages:
        parser.error("DIR or --openimages CSV is needed")
    num_cpus = len(os.sched_getaffinity(0))
    if not options.compute_cores:
        options.compute_cores = [float(max(1, num_cpus // 2))]
    if not options.storage_cores:
        options.storage_cores = sorted({1.0, max(1.0, num_cpus - max(options.compute_cores))})
    return options


def say(text=""):
    print(text, flush=True)


def warn(text):
    print(f"reproduce: {text}", file=sys.stderr, flush=True)


def _clock(seconds):
    seconds = int(seconds + 0.5)
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def commit():
    """SLUICE_COMMIT, for programs that were built elsewhere; else the commit that is checked out,
    with a + if files differ."""
    try:
        found = subprocess.run(["git", "-C", TOP, "describe", "--always", "--dirty=+",
                                "--exclude=*"], capture_output=True, text=True, check=False).stdout
    except OSError:
        found = ""
    return os.environ.get("SLUICE_COMMIT") or found.strip() or "unknown"


class Sweep:
    """Everything of one call that measures."""

    def __init__(self, options, program):
        self.options = options
        self.program = program
        self.root = os.path.abspath(options.dir)
        os.makedirs(options.out, exist_ok=True)
        self.out = os.path.abspath(options.out)
        self.records = records.Records(self.out)
        self.commit = commit()
        self.link, self.why = hosts.make_link(not options.no_root)
        self.started = time.monotonic()
        self.slowness = 1.0  # measured over planned, of late
        self.todo, self.done = [], 0
        self.indexed = ""  # the command that wrote the index, until it is told
        self.plans = {}  # (setup, mode) -> seconds of one pass
        self.profile_s = PROFILE_S  # how long the last one took

    def begin(self):
        options = self.options
        self.records.keep_settings({
            "images": self.root, "seed": options.seed, "device": options.device,
            "arch": options.arch if options.device == "cuda" else "",
            "gpu_rate": options.gpu_rate, "batch": options.batch,
            "jpeg_index": options.jpeg_index, "profile_samples": options.profile_samples,
            "has_clocks": options.has_clocks,
            "machine": hosts.machine()})
        self.records.add_run({
            "started": hosts.now(), "commit": self.commit, "command": shlex.join(sys.argv),
            "link": self.link.name, "link_text": self.link.text, "link_why": self.why,
            "congestion_control": hosts.tcp_congestion_control(),
            "load_average": os.getloadavg()[0]})
        say(f"link: {self.link.text} ({self.why})")

    def ask(self, setup, profile, parts):
        """parts: {node: what there is of each of its cores}"""
        setup = setup._replace(**{f"{node}_cores": getattr(setup, f"{node}_cores") * part
                                  for node, part in parts.items()})
        return forecast.forecasts(self.options.bin, profile, self.link, setup,
                                  setup.consume_rate or self.options.gpu_rate,
                                  self.options.batch)

    def forecast_of(self, setup, number, profile):
        """Asks the planner unless an earlier call did; keeps it in forecast.csv."""
        unknown = []
        for name in self.options.modes:
            known = self.records.forecast(setup, name, number)
            if known and not self.options.reforecast:
                self.plans[setup, name] = known["seconds"]
            elif cells.MODES[name].planner:
                unknown.append(name)
        if not unknown:
            return
        asked, command = self.ask(setup, profile, speed.left(profile))
        plans = {name: asked[cells.MODES[name].planner] for name in unknown}
        # How often the images come follows from how long a pass takes, about.
        self.plans.update({(setup, name): plan["primal_s"] for name, plan in plans.items()})
        repeat = self.repeat_of(setup)
        for name, plan in plans.items():
            self.plans[setup, name] = forecast.pass_seconds(plan, repeat)
            busy = {f"busy_{key}": value for key, value in plan["busy_s"].items()}
            self.records.forecasts.append({
                **setup._asdict(), "mode": name, "round": number,
                "seconds": self.plans[setup, name], "wire_bytes": plan["wire_bytes"],
                "slowest": plan["slowest"], "gap": plan["gap"],
                "choices": records.choices_text(plan["choices"]), "commit": self.commit,
                "command": command,
                **{key: busy.get(key, 0) for key in records.FORECAST_FIELDS
                   if key.startswith("busy_")}})

    def estimate(self, profile):
        """How long epochs of setups take, about, that have no profile of their own yet."""
        for setup in dict.fromkeys(item[0] for item in self.todo):
            if not any(of == setup for of, _ in self.plans):
                asked, _ = self.ask(setup, profile, speed.left(profile))
                self.plans.update({(setup, name): asked[cells.MODES[name].planner]["primal_s"]
                                   for name in self.options.modes if cells.MODES[name].planner})

    def repeat_of(self, setup):
        known = self.records.repeat_of(setup)
        if self.options.repeat > 0:
            if known not in (None, self.options.repeat):
                raise ValueError(f"{cells.setup_text(setup)} was measured with --repeat {known}")
            return self.options.repeat
        if known:
            return known
        passes = [seconds for (of, _), seconds in self.plans.items()
                  if of == setup and seconds > 0]
        return max(1, math.ceil(self.options.seconds / min(passes))) if passes else 1

    def expected(self, setup, name, _number):
        known = [seconds for (of, _), seconds in self.plans.items() if of == setup]
        seconds = self.plans.get((setup, name)) or max(known, default=1)
        return seconds * self.repeat_of(setup) * self.slowness + OVERHEAD_S

    def expected_profiles(self):
        """Seconds for the profiles that are still to be made."""
        return self.profile_s * len({self.profile_folder(setup, number)
                                     for setup, _, number in self.todo
                                     if not self.has_profile(setup, number)})

    def elapsed(self):
        return time.monotonic() - self.started

    def run(self):
        """Whether every cell is measured."""
        options = self.options
        self.begin()
        if not image_files.warm(self.root):
            say("the images fill more than half of the memory: they may come from disk")
        self.indexed = self.make_index()
        if options.has_clocks:
            speed.copy_images(self.root, self.records.path("speed-images"))
        setups = self.setups()
        for setup in setups:
            # Modes take turns, so that what drifts on the machine meets all of them.
            self.todo += [(setup, name, number)
                          for number in range(options.epochs) for name in options.modes
                          if not self.records.has(setup, name, number, options.attempts)]
        total = len(setups) * options.epochs * len(options.modes)
        say(f"{total - len(self.todo)} of {total} epochs are measured")
        for setup in dict.fromkeys(item[0] for item in self.todo):
            if not self.run_setup(setup):
                say(f"--max-seconds: {len(self.todo)} epochs are left; the same call goes on")
                return False
        if self.options.reforecast:
            self.reforecast(setups)
        return True

    def reforecast(self, setups):
        for setup in setups:
            for number in range(self.options.epochs):
                if self.has_profile(setup, number):
                    self.forecast_of(setup, number, self.profile_folder(setup, number))

    def setups(self):
        options = self.options
        return self.program.setups_of(self.link.name, options.bandwidths, options.storage_cores,
                                      options.compute_cores, options.consume_rates)

    def server(self, cores, storage_cores):
        index = os.path.join(self.out, "index", "sluice-jpeg-index.bin")
        return hosts.Server(os.path.join(self.options.bin, "offload_server"), self.root, self.link,
                            cores, storage_cores, index if self.options.jpeg_index else "off",
                            self.records.path("server.log"))

    def clocks(self, cores):
        program = os.path.normpath(
            os.path.join(self.options.bin, os.pardir, "bench", "bench_speed"))
        return speed.Clocks(program if self.options.has_clocks else None,
                            self.records.path("speed-images"), cores,
                            self.records.path("speed.log"))

    @contextlib.contextmanager
    def nodes(self, setup):
        """Its cores, the link between them at its rate, the server, and clocks on all CPUs."""
        with contextlib.closing(hosts.Cores(setup.storage_cores, setup.compute_cores)) as cores:
            self.link.set_rate(setup.mbit)
            with contextlib.closing(self.server(cores, setup.storage_cores)) as server, \
                    contextlib.closing(self.clocks(cores)) as clocks:
                yield cores, server, clocks

    def make_index(self):
        folder = os.path.join(self.out, "index")
        if not self.options.jpeg_index or os.path.exists(folder):
            return ""
        os.makedirs(folder + ".new", exist_ok=True)
        command = [os.path.join(self.options.bin, "offload_dataset"), "index", self.root,
                   "--jpeg-index", "-o", os.path.join(folder + ".new", "sluice-manifest.tsv"),
                   "--log-level", "warn"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        os.rename(folder + ".new", folder)
        return " ".join(command) + "\n"

    def profiled(self, setup):
        """The machines and the link that are profiled to forecast this setup."""
        of = self.program.profiled_of(self.setups(), setup)
        return of._replace(mbit=max(of.mbit, MIN_PROFILE_MBIT), consume_rate=0.0)

    def profile_folder(self, setup, number):
        of = self.profiled(setup)
        name = f"{of.mbit:g}mbit_{of.storage_cores:g}_{of.compute_cores:g}"
        if self.program.profiled_of(self.setups(), setup) != setup:
            # Of another machine, though of just before this one is measured.
            name += (f"_for_{setup.mbit:g}mbit_{setup.storage_cores:g}_{setup.compute_cores:g}_"
                     f"{setup.consume_rate:g}")
        return self.records.path(f"profiles/{name}_round{number}")

    def has_profile(self, setup, number):
        return os.path.exists(os.path.join(self.profile_folder(setup, number), "cost_model.json"))

    def make_profile(self, setup, number):
        """The folder of the round's profile: of either node on the cores that it has, over the link
        that there is between them."""
        options = self.options
        profile = self.profile_folder(setup, number)
        if self.has_profile(setup, number):
            return profile
        started = time.monotonic()
        of = self.profiled(setup)
        taken = []  # is_disturbed, CPU seconds, folder, command
        with self.nodes(of) as (cores, server, clocks):
            while len(taken) < options.attempts and not (taken and not taken[-1][0]):
                folder = f"{profile}-{len(taken)}"
                command, seconds, is_disturbed = measure.make_profile(
                    options.bin, self.link, cores, clocks, server, folder,
                    {"seed": options.seed, "samples": options.profile_samples,
                     "batch": options.batch}, self.records.path("train.log"))
                taken.append((is_disturbed, seconds, folder, command))
        # The one that nobody disturbed; the cheapest if there was none.
        is_disturbed, _, chosen, command = min(taken)
        os.rename(chosen, profile)
        for _, _, folder, _ in taken:
            shutil.rmtree(folder, ignore_errors=True)
        with open(self.records.path("profile.txt"), "a", encoding="utf-8") as file:
            file.write(self.indexed + command.replace(chosen, profile) + "\n")
        self.indexed = ""
        self.profile_s = (time.monotonic() - started) / len(taken)
        say(f"profiled {of.storage_cores:g} storage and {of.compute_cores:g} compute cores over "
            f"{cells.mbit_text(of.mbit)}: {len(taken)} times, {self.profile_s:.1f} s each" +
            ("; others took CPU time" if is_disturbed else ""))
        return profile

    def has_time(self, item):
        """The first epoch of a call is always run, so that repeated calls come to an end."""
        if not self.done:
            return True
        setup, _, number = item
        profile_s = 0 if self.has_profile(setup, number) else self.profile_s
        return self.elapsed() + profile_s + self.expected(*item) <= self.options.max_seconds

    def run_setup(self, setup):
        """Works off the head of the list as far as it is of this setup; false: no time left."""
        while self.todo and self.todo[0][0] == setup:
            if not self.has_time(self.todo[0]) or not self.run_round(setup, self.todo[0][2]):
                return False
        return True

    def run_round(self, setup, number):
        """A profile first, where there is none, then the epochs: so both meet the same weather."""
        profile = self.make_profile(setup, number)
        self.forecast_of(setup, number, profile)
        self.estimate(profile)
        with self.nodes(setup) as (cores, server, clocks):
            if cores.warning():
                warn(f"{setup.storage_cores:g}+{setup.compute_cores:g} cores: {cores.warning()}")
            while self.todo and self.todo[0][0] == setup and self.todo[0][2] == number:
                if not self.has_time(self.todo[0]):
                    return False
                text = self.run_one(*self.todo[0], cores, clocks, server, profile)
                self.done += 1
                _, mode, _ = self.todo[0]
                if self.records.has(setup, mode, number, self.options.attempts):
                    del self.todo[0]
                else:
                    text += "; others took CPU time, so it is measured again"
                left = sum(self.expected(*item) for item in self.todo) + self.expected_profiles()
                say(f"[{self.done}/{self.done + len(self.todo)}, {_clock(left)} left] {text}")
        return True

    def plan_at_speed(self, setup, mode, number, profile, speeds):
        """Seconds of a pass with CPUs as fast as they were; None: that or the plan is not known."""
        known = self.records.forecast(setup, mode.name, number)
        if not known or not speeds:
            return None
        parts = speeds[1]
        if mode.is_replanned:
            asked, _ = self.ask(setup, profile, parts)
            return forecast.pass_seconds(asked[mode.planner], self.repeat_of(setup))
        left = speed.left(profile)
        return forecast.seconds_at_speeds(known, {node: parts[node] / left[node] for node in left})

    def run_one(self, setup, name, number, cores, clocks, server, profile):
        options = self.options
        repeat = self.repeat_of(setup)
        mode = cells.MODES[name]
        command = measure.train_command(options.bin, self.link, cores, server, setup, mode, {
            "profile": profile, "repeat": repeat, "round": number, "seed": options.seed,
            "device": options.device, "batch": options.batch, "arch": options.arch})
        report, found = measure.run_epoch(command, server, cores, clocks,
                                          self.records.path("train.log"))
        speeds = speed.compare(profile, found)
        at_speed = self.plan_at_speed(setup, mode, number, profile, speeds)
        row = {
            **setup._asdict(), "mode": name, "round": number, "repeat": repeat,
            "cores_shared": cores.shared, "commit": self.commit, "date": hosts.now(),
            "choices": records.choices_text(report["choices"]),
            "storage_speed": round(speeds[0]["storage"], 4) if speeds else math.nan,
            "compute_speed": round(speeds[0]["compute"], 4) if speeds else math.nan,
            "plan_at_speed": at_speed or math.nan,
            "command": f"{server.command} & {' '.join(command)}"}
        for key in records.ROW_FIELDS:
            if key.startswith("stall_"):
                row[key] = round(report["stalls"].get(key[len("stall_"):], 0), 6)
            elif key not in row:
                row[key] = report[key]
        self.records.rows.append(row)
        self.records.check_digests()
        plan = self.plans.get((setup, name))
        text = f"{cells.setup_text(setup)}: {name:<10} {report['seconds']:8.3f} s"
        if plan:
            ratio = report["seconds"] / (plan * repeat)
            text += f", plan {plan * repeat:8.3f} s, ratio {ratio:.3f}"
            if at_speed:
                text += (f" (at speeds of {speeds[0]['storage']:.2f} and "
                         f"{speeds[0]['compute']:.2f}: "
                         f"{report['seconds'] / (at_speed * repeat):.3f})")
            self.slowness += 0.2 * (min(max(ratio, 0.2), 5) - self.slowness)
        return f"{text}, {report['bytes_per_sample']:9.0f} bytes a sample"


def replay_openimages(options):
    found = forecast.replay_openimages(options.bin, options.openimages, 500, 48, 8)
    say(f"{options.openimages}: {found[0]['samples']} images at 500 Mbit/s, 48 storage cores")
    for plan in found:
        say(f"  {plan['mode']:<22} {plan['wire_bytes'] / 1e9:7.2f} GB  {plan['choices']}")
    folder = options.out or options.draw
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "openimages.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, OPENIMAGES_FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    kept = os.path.join(folder, "openimages_prep_sizes.csv")  # a figure is of them
    if os.path.abspath(options.openimages) != os.path.abspath(kept):
        shutil.copyfile(options.openimages, kept)


def _stop(number, _frame):
    raise SystemExit(128 + number)


def main(arguments=None, program=REPRODUCE):
    options = parse_arguments(arguments, program)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        is_done = True
        if options.openimages:
            replay_openimages(options)
        if options.dir:
            sweep = Sweep(options, program)
            try:
                is_done = sweep.run()
            finally:
                sweep.link.close()
        for line in draw.draw(options.out or options.draw, program.lines):
            say(line)
        return 0 if is_done else UNFINISHED
    except KeyboardInterrupt:
        warn("broken off; the same call goes on")
        return 130
    except (ValueError, OSError, forecast.PlanError, hosts.HostError, measure.MeasureError,
            records.DigestError) as error:
        warn(error)
        return 1
