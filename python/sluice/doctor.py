"""Which resource limits a training loop, and what Sluice would give.

    for images, labels in sluice.doctor.watch(loader): ...      a report on stderr after the epoch

    python -m sluice.doctor SOURCE --step-ms 30                 measures Sluice from SOURCE
    python -m sluice.doctor --script train.py ARGS...           watches a script's DataLoaders
    python -m sluice.doctor SOURCE --script train.py ARGS...    both, one after the other

What it says is measured, or is called a forecast.  docs/PYTHON.md has an example.
"""
import argparse
import contextlib
import gc
import json
import math
import os
import runpy
import shlex
import socket
import sys
import traceback

import sluice
from sluice import _forecast, _words
from sluice._batches import servers
from sluice._loop import Report, Timing, is_first_rank, watch

__all__ = ["Report", "main", "watch"]

_FAR = 0.4  # logarithm of a ratio: half as much again, or a third less


# --- a script ---

def _run_script(arguments):
    """Runs a program as __main__ with its DataLoaders watched; returns (exit code, timings)."""
    try:
        from torch.utils.data import DataLoader
    except ImportError as error:
        raise sluice.NotFoundError(
            f"--script watches torch.utils.data.DataLoader, but torch cannot be imported "
            f"({error}): install it, or call sluice.doctor.watch() in the loop") from None
    path = arguments[0]
    try:
        open(path, "rb").close()
    except OSError as error:
        raise sluice.NotFoundError(f"--script {path}: {error.strerror}") from None

    timings = {}
    iterate = DataLoader.__iter__

    def watched(loader):
        data = loader.dataset
        timing = timings.setdefault((id(data), loader.batch_size), (Timing(loader), data))[0]
        return timing.run(loader, lambda: iterate(loader))

    before = sys.argv
    sys.argv = list(arguments)
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    DataLoader.__iter__ = watched
    status = 0
    try:
        runpy.run_path(path, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
        if status and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except KeyboardInterrupt:
        status = 130
    except BaseException as error:
        at = error.__traceback__
        ours = (__file__, runpy.__file__, "<frozen runpy>")
        while at.tb_next and at.tb_frame.f_code.co_filename in ours:
            at = at.tb_next
        traceback.print_exception(type(error), error, at)
        status = 1
    finally:
        DataLoader.__iter__ = iterate
        sys.argv = before
    gc.collect()  # iterators that the script left
    timings = [timing for timing, _ in timings.values()]
    for timing in timings:
        timing.end()
    return status, timings


def _loop_report(timings):
    """Of the loader that gave most samples: that of training."""
    timings = [timing for timing in timings if timing.samples]
    if not timings:
        raise sluice.InvalidError("--script: it took no batch from a torch.utils.data.DataLoader")
    return Report(max(timings, key=lambda timing: timing.samples))


# --- Sluice ---

def _source_text(source):
    return ", ".join(servers(source)) or os.fspath(source)


def _is_here(source):
    """Whether one of its servers is at an address that is plainly of this machine."""
    addresses = [address for text in servers(source) for address in text.split(",")]
    hosts = [address.rpartition(":")[0].strip("[]") for address in addresses]
    return any(host.startswith("127.") or host in ("", "localhost", "::1", socket.gethostname())
               for host in hosts)


def _advise(found, step_rate, loop):
    """Sentences on what was found by _forecast.examine: what is measured, what follows from the
    step, what more of a resource would bring, and (what to do, the line to use)."""
    source, batch_size = found["source"], found["batch_size"]
    best = max(found["measured"], key=lambda run: run["samples_per_s"])
    rate = best["samples_per_s"]
    limit = best["bound_by"]
    said = [f"Sluice from {_source_text(source)}: {_words.number(rate)} samples/s ({best['mode']}, measured without a "
            f"step). The {_words.WAITS[limit]} limits it: {_words.percent(best['stalls'][limit])} of the time "
            f"went to waiting for it."]
    others = best["machine_cores"] - best["own_cores"]
    if others >= 0.25 * best["cores"]:
        said[0] += (f" Other programs had {others:.1f} of this machine's {best['cores']:g} cores "
                    f"meanwhile{', the server among them' if _is_here(source) else ''}.")
    if loop:
        said[0] = f"Your loop: {_words.number(loop['samples_per_s'])} samples/s (measured). " + said[0]
    reached = rate
    if step_rate is not None:
        each = f"{_words.seconds(1 / step_rate)} a sample, {_words.number(step_rate)} samples/s"
        reached = min(rate, step_rate)
        if rate >= step_rate:
            shared = ", or less, as a step on the CPU shares its cores with Sluice" \
                if loop and loop["clock"] == "host" else ""
            said.append(f"With it your step is the limit ({each}): forecast "
                        f"{_words.number(step_rate)} samples/s{shared}.")
        else:
            said.append(f"Your step could take more ({each}): forecast {_words.number(rate)} samples/s, "
                        f"{_words.percent(1 - rate / step_rate)} of the time waiting for data.")

    cap = step_rate or float("inf")
    forecast = {run["mode"]: min(run["samples_per_s"], cap) for run in found["forecast"]}
    remote = forecast.get("remote_auto", 0.0)
    gains = {name: min(value, cap) for name, value in found["twice"].items()}
    more = max(gains, key=gains.get, default=None)
    if best["mode"] != "local" and more and gains[more] > 1.1 * remote and reached < cap:
        said.append(f"What would help most is twice the {_forecast.RESOURCES[more]}: forecast "
                    f"{_words.number(gains[more])} samples/s.")

    if best["mode"] == "local" and remote > 1.2 * max(reached, forecast.get("local", 0.0)):
        todo = (f"To do: serve the folder from a storage node as assumed above, if the files can "
                f"lie there: forecast {_words.number(remote)} samples/s. There run:",
                f"offload_server --root {shlex.quote(source)} --listen :50051 --insecure")
    elif loop and reached < 1.1 * loop["samples_per_s"]:
        todo = ("To do: keep your loader. Sluice from here brings less than a tenth more.", None)
    else:
        more = ', mode="remote_nooff"' if best["mode"] == "remote_nooff" else ""
        more += ', device="cuda"' if loop and loop["clock"] == "cuda" else ""
        todo = ("To do: take the batches from Sluice:",
                f"loader = sluice.torch.Loader({json.dumps(source)}, {batch_size}{more})")
    return said, todo


def _doubt(measured, forecasts):
    """A sentence where measured and forecast are far apart."""
    ratios = {mode: forecasts[mode]["samples_per_s"] / measured[mode]["samples_per_s"]
              for mode in measured if mode in forecasts}
    mode = max(ratios, key=lambda mode: abs(math.log(ratios[mode])), default=None)
    if mode is None or abs(math.log(ratios[mode])) < _FAR:
        return ""
    return (f" For {mode} it is {_words.number(ratios[mode])} times what was measured, so doubt the "
            f"others as much; other programs on these machines, a busy disk, or epochs of few "
            f"batches may be why.")


def _cell(runs, mode):
    return _words.number(runs[mode]["samples_per_s"]) if mode in runs else "-"


def _examined_lines(found, step_rate, loop):
    yield (f"{_source_text(found['source'])}: {_words.number(found['samples'])} training samples, "
           f"batches of {found['batch_size']}")
    yield ""
    forecasts = {run["mode"]: run for run in found["forecast"]}
    measured = {run["mode"]: run for run in found["measured"]}
    yield "                  samples/s                          a sample takes"
    yield "mode           measured  forecast  limited by    network   storage   compute"
    for mode in dict.fromkeys([*measured, *forecasts]):
        run = measured.get(mode, forecasts.get(mode))
        names = _words.WAITS if mode in measured else _words.NAMES
        costs = [(_words.size, run["bytes_per_sample"])]
        if mode in forecasts:
            costs += [(_words.seconds, forecasts[mode][node]) for node in ("storage_cpu_s", "compute_cpu_s")]
        yield (f"{mode:13}  {_cell(measured, mode):>8}  {_cell(forecasts, mode):>8}  "
               f"{names[run['bound_by']]:11}" +
               "".join(f"  {words(cost) if cost else '-':>8}" for words, cost in costs))
    yield ""
    if found["no_forecast"]:
        yield from _words.wrap("No forecast: " + found["no_forecast"])
    else:
        machines, origins = found["machines"], found["origins"]
        link = "a link that is never the limit" if machines["net_bw"] is None else \
            f"a link of {_words.number(machines['net_bw'])} Mbit/s ({origins['net_bw']})"
        storage, compute = (f"{_words.cores(machines[name], name.partition('_')[0])} ({origins[name]})"
                            for name in ("storage_cpus", "compute_cpus"))
        yield from _words.wrap(
            f"The forecast is the planner's, by a profile of {found['profile_samples']} samples, "
            f"for {storage}, {link} and {compute} that do nothing else, without a step. Storage "
            f"and compute are CPU time." + _doubt(measured, forecasts))
    said, (todo, line) = _advise(found, step_rate, loop)
    for text in [*said, todo]:
        yield ""
        yield from _words.wrap(text)
    if line:
        yield "  " + line


# --- python -m sluice.doctor ---

def _positive(of):
    def parse(text):
        value = of(text)
        if not 0 < value < float("inf"):
            raise ValueError
        return value
    parse.__name__ = "number above 0"
    return parse


def _parser():
    parser = argparse.ArgumentParser(
        prog="python -m sluice.doctor",
        usage="python -m sluice.doctor [SOURCE...] [options] [--script FILE ARGS...]",
        description="Says what limits the training loop of a script, and what Sluice gives from a "
                    "folder or server.")
    parser.add_argument("source", metavar="SOURCE", nargs="*",
                        help="folder of images, or HOST:PORT of an offload_server; replicas between "
                             "commas, or dns:NAME:PORT; one such text for each shard")
    parser.add_argument("--script", metavar="FILE ARGS...",
                        help="run this program with its DataLoaders watched; all that follows is "
                             "its own; Ctrl-C ends it with the report")
    parser.add_argument("--batch-size", type=_positive(int), metavar="N",
                        help="samples in a batch (256, or the script's)")
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--step-ms", type=_positive(float), metavar="T",
                      help="what a step takes by itself, a batch, in milliseconds")
    step.add_argument("--samples-per-s", type=_positive(float), metavar="R",
                      help="the same in samples a second")
    parser.add_argument("--pipeline", metavar="SPEC",
                        help="steps as offload_train --help lists them (ImageNet's usual)")
    parser.add_argument("--seconds", type=_positive(float), default=20.0, metavar="T",
                        help="about how long to measure Sluice (20)")
    machines = parser.add_argument_group("machines to forecast for, if not these")
    machines.add_argument("--net-bw", type=_positive(float), metavar="MBIT",
                          help="of the link, in Mbit/s (measured; 1000 for a folder)")
    machines.add_argument("--storage-cpus", type=_positive(float), metavar="N",
                          help="cores of the storage node (the server says; 4 for a folder)")
    machines.add_argument("--compute-cpus", type=_positive(float), metavar="N",
                          help="cores of the training node (those of this machine)")
    parser.add_argument("--json", action="store_true",
                        help="print one JSON object instead")
    return parser


def main(argv=None):
    argv = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    script = None
    if "--script" in argv:
        at = argv.index("--script")
        argv, script = argv[:at], argv[at + 1:]
        if not script:
            parser.error("--script: name the program to run")
    options = parser.parse_args(argv)
    if len(options.source) < 2:
        options.source = options.source[0] if options.source else None
    if options.source is None and script is None:
        parser.error("name a SOURCE (a folder, or HOST:PORT of an offload_server), or --script")
    sluice.set_log_level(sluice.LOG_WARN)
    try:
        return _main(options, script)
    except sluice.Error as error:
        print(f"sluice.doctor: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _main(options, script):
    result = {}
    status, report = 0, None
    batch_size = options.batch_size or 256
    if script is not None:
        status, timings = _run_script(script)
        report = _loop_report(timings)
        result["loop"] = report.found
        batch_size = options.batch_size or report.found["batch_size"]
        if not is_first_rank():
            return status
        if not options.json:
            print(*report.lines(with_advice=not options.source), sep="\n",
                  file=sys.stdout if options.source else sys.stderr)
    step_rate = options.samples_per_s
    if options.step_ms:
        step_rate = batch_size / options.step_ms * 1e3
    elif step_rate is None and report:
        step_rate = report.step_samples_per_s
    if options.source is not None:
        found = _forecast.examine(
            options.source, batch_size, pipeline=options.pipeline, seconds=options.seconds,
            net_bw=options.net_bw, storage_cpus=options.storage_cpus,
            compute_cpus=options.compute_cpus,
            tell=lambda text: print(f"sluice.doctor: {text}", file=sys.stderr))
        result["sluice"] = found
        result["step_samples_per_s"] = step_rate
        if not options.json:
            if report:
                print()
            print(*_examined_lines(found, step_rate, result.get("loop")), sep="\n")
    if options.json:
        print(json.dumps(result))
    return status


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        sys.exit(main())
