"""offload_job: submits and controls jobs."""
import argparse
import json
import os
import sys
import time

from . import JobError, engines, spec, store, texts, units

IMAGES = (".jpg", ".jpeg", ".png", ".webp", ".tif", ".tiff", ".bmp", ".gif", ".ppm")


def _store(options):
    return store.Store(options.jobs)


def _record(options):
    record = _store(options).find(options.job)
    return record, engines.find(record.engine())


def _print_files(files):
    for name, text in files.items():
        print(f"==> {name} <==\n{text.rstrip()}\n" if len(files) > 1 else text.rstrip())


def _warn(warnings):
    for text in warnings or ():
        print(f"offload_job: {text}", file=sys.stderr)


# --- commands: each returns its exit code ---

def _validate(options):
    for path in options.files:
        spec.load(path)
        print(f"{path}: ok")
    return 0


def _render(options):
    job = spec.load(options.file)
    files = engines.find(options.engine).render(job)
    if options.out:
        os.makedirs(options.out, exist_ok=True)
        for name, text in files.items():
            with open(os.path.join(options.out, name), "w", encoding="utf-8") as file:
                file.write(text)
    else:
        _print_files(files)
    return 0


def _submit(options):
    return _begin(options, spec.load(options.file))


def _begin(options, job):
    engine = engines.find(options.engine)
    _warn(engine.check(job))
    if options.dry_run:
        _print_files(engine.render(job))
        return 0
    record = engine.submit(job, _store(options))
    if options.json:
        print(json.dumps({"id": record.id, "engine": options.engine}))
    else:
        print(record.id)
    sys.stdout.flush()
    return _follow(record, engine) if options.follow else 0


def _follow(record, engine):
    """Logs until the job has ended; Ctrl-C cancels it."""
    try:
        _print_logs(engine.logs(record, follow=True))
    except KeyboardInterrupt:
        print(f"offload_job: cancelling {record.id}", file=sys.stderr)
        if engine.state(record) not in store.ENDED:
            engine.cancel(record)
    return _exit_code(record, engine)


def _exit_code(record, engine):
    state = engine.state(record)
    last = record.last().get("text", "")
    print(f"offload_job: {record.id} {state}{last and ': ' + last}", file=sys.stderr)
    return 0 if state == "succeeded" else 1


def _run(options):
    if options.engine != "local":
        raise JobError("run is for this machine: run --local")
    job = spec.load(options.file)
    if options.limit_samples != 0:
        job = _limited(job, options.limit_samples)
    options.follow = True
    return _begin(options, job)


def _limited(job, num_samples):
    """The job with a part of its data: as many samples, or a tenth."""
    if num_samples is None:
        num_samples = max(1, sum(map(_count_images, _training_folders(job))) // 10)
    if job.has_trainer:
        return job.with_options({"limit-samples": num_samples})
    return job.with_env({"SLUICE_LIMIT_SAMPLES": str(num_samples)})


def _training_folders(job):
    roots = [job.path(root) for shard in job.data.roots for _, root in shard] if job.data else []
    if not roots or any("://" in root or not os.path.isdir(root) for root in roots):
        raise JobError("--limit-samples: the images are not in a folder here, so a tenth of them is not known: give a "
                       "number, or 0 for all")
    return [os.path.join(root, "train") if os.path.isdir(os.path.join(root, "train")) else root for root in roots]


def _count_images(folder):
    return sum(name.lower().endswith(IMAGES) for _, _, names in os.walk(folder) for name in names)


def _state(record):
    """Of one job of many: what is recorded, where its engine cannot be asked."""
    try:
        return engines.find(record.engine()).state(record)
    except JobError:
        return record.recorded_state()


def _list(options):
    rows = []
    for record in _store(options).records():
        rows.append({**record.summary(), "state": _state(record)})
    if options.json:
        for row in rows:
            print(json.dumps(row))
        return 0
    for row in rows:
        ago = units.duration_text(max(0.0, time.time() - row["submitted"]))
        print(f"{row['id']:<32} {row['engine']:<11} {row['state']:<10} {ago} ago")
    return 0


def _show(options):
    record, engine = _record(options)
    state = engine.state(record)
    events = record.events()
    if options.json:
        print(json.dumps({**record.whole(), "state": state}))
        return 0
    print(f"{record.id}: {state}, engine {record.engine()}, attempt {record.attempts()}")
    for text in (event["text"] for event in events if event["event"] == "warning"):
        print(f"  note: {text}")
    steps = record.steps()
    for step, about in store.STEPS.items():
        event = steps.get(step)
        when = time.strftime("%H:%M:%S", time.localtime(event["time"])) if event else ""
        outcome, text = (event["outcome"], event["text"]) if event else ("-", about)
        print(f"  {step:<9}{outcome:<8} {when:<9} {text}".rstrip())
    text = record.last().get("text")
    if state == "lost":
        text = f"what ran it was killed or did not start; offload_job logs {record.id}, and resume or cancel it"
    if text:
        print(f"  {state}: {text}")
    return 0


def _print_logs(lines):
    for role, line in lines:
        print(f"{role}: {line}", flush=True)


def _logs(options):
    record, engine = _record(options)
    lines = engine.logs(record, options.role, options.follow)
    if options.role:
        for _, line in lines:
            print(line, flush=True)
    else:
        _print_logs(lines)
    return 0


def _wait(options):
    record, engine = _record(options)
    until = options.timeout and time.monotonic() + units.duration(options.timeout)
    while (state := engine.state(record)) not in store.ENDED + ("lost",) and not (
            state == "paused" and record.last().get("kind") == "checkpoint"):
        if until and time.monotonic() > until:
            raise JobError(f"job {record.id} is {state} after {options.timeout}")
        time.sleep(0.05)
    return _exit_code(record, engine)


def _pause(options):
    record, engine = _record(options)
    engine.pause(record, options.kind)
    print(f"{record.id}: {engine.state(record)}")
    return 0


def _resume(options):
    record, engine = _record(options)
    engine.resume(record)
    print(f"{record.id}: {engine.state(record)}")
    return 0


def _cancel(options):
    record, engine = _record(options)
    engine.cancel(record)
    print(f"{record.id}: {engine.state(record)}")
    return 0


def _exec(options):
    record, engine = _record(options)
    words = options.words[1:] if options.words[:1] == ["--"] else options.words
    if not words:
        raise JobError("exec needs a command: offload_job exec JOB ROLE -- COMMAND")
    return engine.exec(record, options.role, words)


def _serve(options):
    from . import serve
    return serve.run(options.listen, options.token_file, options.jobs)


# --- the command line ---

def parser():
    """The options; texts.py makes man page and completions of it."""
    top = argparse.ArgumentParser(
        prog="offload_job", allow_abbrev=False, add_help=False, formatter_class=texts.Formatter,
        description="Runs the storage server and the training that one job file describes, on this machine or a "
                    "cluster.")
    commands = top.add_subparsers(dest="command", metavar="COMMAND")

    def add(name, function, about, job=False, file=False, engine=False):
        one = commands.add_parser(name, help=about, description=about[0].upper() + about[1:] + ".", allow_abbrev=False,
                                  add_help=False, formatter_class=texts.Formatter)
        one.set_defaults(function=function)
        if file:
            one.add_argument("file", metavar="FILE", help="the job: job.yaml (docs/JOBS.md)")
        if job:
            one.add_argument("job", metavar="JOB", help="id of a job, or its beginning")
        if engine:
            one.add_argument("--engine", choices=engines.NAMES, default="local",
                             help="what runs the job; local: this machine")
        return one

    one = add("submit", _submit, "start a job, or put it into a queue", file=True, engine=True)
    one.add_argument("-f", "--follow", action="store_true", help="show its logs until it ends; Ctrl-C cancels it")
    one.add_argument("--dry-run", action="store_true", help="print what would be submitted, and start nothing")
    one.add_argument("--json", action="store_true", help="print the id as JSON")
    one = add("run", _run, "try a job on this machine with a tenth of its data, and show its logs", file=True)
    one.add_argument("--local", dest="engine", action="store_const", const="local", default="local",
                     help="on this machine, which is the default")
    one.add_argument("--limit-samples", type=int, metavar="N",
                     help="the first N samples of each subset; 0: all; a tenth of the training samples if left out. A "
                          "command finds N in $SLUICE_LIMIT_SAMPLES")
    one.add_argument("--dry-run", action="store_true", help="print what would run, and start nothing")
    one.add_argument("--json", action="store_true", help="print the id as JSON")
    one = add("list", _list, "list jobs")
    one.add_argument("--json", action="store_true", help="one object a line")
    one = add("show", _show, "show a job: its state and the steps of its life", job=True)
    one.add_argument("--json", action="store_true", help="one object with all events")
    one = add("logs", _logs, "print what the roles of a job have logged", job=True)
    one.add_argument("-f", "--follow", action="store_true", help="until the job has ended")
    one.add_argument("--role", metavar="ROLE", help="of one role: storage-0, compute-0, ..., supervisor")
    one = add("wait", _wait, "wait until a job has ended; exit code 0 if it succeeded", job=True)
    one.add_argument("--timeout", metavar="TIME", help="no longer than this: 90s, 30m")
    one = add("pause", _pause, "pause a running job", job=True)
    one.add_argument("--kind", choices=engines.PAUSES, default="checkpoint",
                     help="freeze: its processes stop and keep their memory, on GPUs, too; checkpoint: it writes one and "
                          "gives everything back")
    add("resume", _resume, "let a paused or lost job go on", job=True)
    add("cancel", _cancel, "end a job; nothing of it is left", job=True)
    one = add("exec", _exec, "run a command where a role of a job runs", job=True)
    one.add_argument("role", metavar="ROLE", help="storage-0, compute-0, ...")
    one.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="the command and its arguments")
    one = add("validate", _validate, "check job files and say what is wrong, by line and field")
    one.add_argument("files", nargs="+", metavar="FILE", help="job files")
    one = add("render", _render, "print what an engine would submit", file=True, engine=True)
    one.add_argument("--out", metavar="DIR", help="write it to files of this folder")
    one = add("serve", _serve, "show and control jobs in a browser and by REST")
    one.add_argument("--listen", metavar="ADDRESS", default="127.0.0.1:0",
                     help="HOST:PORT of loopback, or the path of a Unix socket; 127.0.0.1:0, a port that is free, if left "
                          "out")
    one.add_argument("--token-file", metavar="FILE",
                     help="where the token is written, with mode 0600; serve.token beside the jobs' records if left out. "
                          "The token equals a shell")
    for one in [top, *commands.choices.values()]:
        group = one.add_argument_group("general")
        group.add_argument("--jobs", metavar="DIR",
                           help="folder of the jobs' records; $SLUICE_JOBS, or ~/.local/share/sluice/jobs")
        group.add_argument("-h", "--help", action="help", help="print this help")
    top.add_argument("--version", action="store_true", help="print the version")
    top.add_argument("--help-man", action="store_true", help=argparse.SUPPRESS)
    top.add_argument("--completion", choices=("bash", "zsh"), help=argparse.SUPPRESS)
    return top


def main(version=None, arguments=None):
    """Runs the command line; the exit code.  `version` comes from an install without the package."""
    top = parser()
    options = top.parse_args(arguments)
    if version is None:
        import importlib
        version = importlib.import_module(__package__.rpartition(".")[0]).__version__
    if options.version or options.help_man or options.completion:
        print(f"offload_job {version}" if options.version else texts.man(top, version) if options.help_man else
              texts.completion(top, options.completion))
        return 0
    if not options.command:
        top.print_help(sys.stderr)
        return 2
    try:
        return options.function(options)
    except spec.SpecError as error:
        print(error, file=sys.stderr)
        return 2
    except JobError as error:
        print(f"offload_job: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except KeyboardInterrupt:
        return 130
