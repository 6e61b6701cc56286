"""What the loader and the servers of a running job do at this moment, for `offload_job serve`.

The loader's counters are those of offload_train --metrics, of rank 0 if there are several; the
servers' rows are those of offload_top.
"""
import json
import math
import os
import re
import subprocess
import threading
import time
import urllib.error
import urllib.request

from . import commands, programs

TIMEOUT_S = 5.0  # for a page of metrics; offload_top gives up by itself before
MAX_BYTES = 1 << 20
CHUNK_BYTES = 1 << 20  # of a log that is read for the trainer's port
KEEP_S = 0.5  # several readers share one look

_SERIES = re.compile(r"(\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_PORT = re.compile(rb"offload_train(\[0\])? info: metrics at port (\d{1,5})$", re.M)  # of rank 0 with --gpus
_VALUES = {  # of the page /metrics: our names
    "samples": "sluice_trainer_samples_total", "batches": "sluice_trainer_batches_total",
    "epoch": "sluice_trainer_epoch", "epochs": "sluice_trainer_epochs", "loss": "sluice_trainer_loss",
    "top1": "sluice_trainer_top1_ratio", "wire_bytes": "sluice_trainer_wire_bytes_total",
    "prefetched": "sluice_trainer_prefetched_samples", "waiting_s": "sluice_trainer_waiting_seconds",
    "lost_s": "sluice_trainer_server_lost_seconds", "uptime_s": "sluice_trainer_uptime_seconds",
}


def parse(text):
    """{name: [(labels, value)]} of Prometheus' text format."""
    found = {}
    for line in text.splitlines():
        match = None if line.startswith("#") else _SERIES.fullmatch(line)
        if match:
            try:
                value = float(match[3])
            except ValueError:
                continue
            if not math.isfinite(value):
                continue  # which JSON lacks
            found.setdefault(match[1], []).append((dict(_LABEL.findall(match[2] or "")), value))
    return found


def of_page(text):
    """The figures of a page /metrics of offload_train; those that it lacks are None."""
    series = parse(text)
    found = {name: series[long][0][1] if long in series else None for name, long in _VALUES.items()}
    info = series.get("sluice_trainer_info", [({}, 1)])[0][0]
    found.update(mode=info.get("mode"), model=info.get("model"))
    found["stalls_s"] = {labels.get("cause", ""): value
                         for labels, value in series.get("sluice_trainer_stall_seconds_total", ())}
    found["choices"] = [{"split": labels.get("split", ""), "form": labels.get("form", ""), "samples": value}
                        for labels, value in series.get("sluice_trainer_choices_total", ())]
    found["errors"] = sum(value for _, value in series.get("sluice_trainer_errors_total", ()))
    return found


class Port:
    """The port that the trainer's log named last, and up to where the log has been read."""

    def __init__(self):
        self.place, self.port = 0, None

    def find(self, path):
        """The port, or None so far."""
        try:
            with open(path, "rb") as log:
                log.seek(self.place)
                rest = b""
                while data := log.read(CHUNK_BYTES):
                    lines, end, rest = (rest + data).rpartition(b"\n")
                    for _, port in _PORT.findall(lines):
                        self.port = int(port)
                    self.place += len(lines) + len(end)
        except OSError:
            pass
        return self.port


def _trainer(record, job, port):
    """(figures or None, why they are missing)."""
    if not job.has_trainer:
        return None, "a command of the job's own serves no figures"
    host = str(job.compute.options.get("metrics", "")).rpartition(":")[0] or "127.0.0.1"
    url = f"http://{host}:{found}/metrics" if (found := port.find(record.log_path("compute-0"))) else None
    if not url:
        return None, "the log has no port of --metrics yet"
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(url, timeout=TIMEOUT_S) as page:
            return of_page(page.read(MAX_BYTES).decode("utf-8", "replace")), ""
    except (OSError, ValueError, urllib.error.URLError) as error:
        return None, f"{url}: {getattr(error, 'reason', error)}"


def _servers(record, job):
    """(rows of offload_top, why they are missing)."""
    if job.storage.placement == "none":
        return [], "the trainer reads the files itself"
    hosts = record.last(state="running").get("hosts") or list(job.storage.addresses)
    targets = [host for shard in hosts for host in shard.split(",")]
    if not targets:
        return [], "the record has no addresses of servers"
    folder = job.compute.secrets and job.path(job.compute.secrets)
    words = [programs.find("offload_top"), "--json", "--interval", "0.5",
             *(commands.client_flags(folder, lambda name: os.path.exists(os.path.join(folder, name))) if folder else ()),
             "--", *targets]
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=4 * TIMEOUT_S, check=False)
        return json.loads(done.stdout[:MAX_BYTES])["servers"], ""
    except subprocess.TimeoutExpired:
        return [], "offload_top did not answer in time"
    except (ValueError, KeyError, TypeError):
        return [], done.stderr.decode("utf-8", "replace").strip()[-500:] or f"offload_top ended with {done.returncode}"


class Figures:
    """The last look at each job.  Any thread may ask; a job is looked at by one at a time."""

    def __init__(self):
        self.lock = threading.Lock()
        self.jobs = {}  # id: [a lock, when, figures, the trainer's port]

    def of(self, record):
        with self.lock:
            entry = self.jobs.setdefault(record.id, [threading.Lock(), 0.0, None, Port()])
        with entry[0]:
            if entry[2] is None or time.monotonic() - entry[1] > KEEP_S:
                entry[2], entry[1] = look(record, entry[3]), time.monotonic()
            return entry[2]


def none(why):
    """The figures of a job that has none."""
    return {"time": time.time(), "trainer": None, "trainer_problem": why, "servers": [], "servers_problem": why}


def look(record, port):
    """{"time", "trainer", "trainer_problem", "servers", "servers_problem"} of a job that runs."""
    job = record.job()
    trainer, why = _trainer(record, job, port)
    at = time.time()
    servers, why_none = _servers(record, job)
    return {"time": at, "trainer": trainer, "trainer_problem": why, "servers": servers, "servers_problem": why_none}
