"""The roles of a job in containers of podman, which limits, isolates, freezes and removes them."""
import os
import signal
import subprocess

from .. import JobError
from . import places


def podman(*words, check=True):
    done = subprocess.run(["podman", *map(str, words)], capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise JobError(f"podman {words[0]}: {done.stderr.strip()[-500:]}")
    return done.stdout


class Podman:
    def __init__(self, job, record):
        self.job, self.record = job, record

    def container(self, name):
        return f"sluice-{self.record.id}-{name}"

    def prepare(self):
        for path in places.writable(self.job, self.record) + [self.record.path("cache")]:
            os.makedirs(path, exist_ok=True)
        is_there = subprocess.run(["podman", "image", "exists", self.job.image], check=False).returncode == 0
        if not is_there:
            podman("pull", "--quiet", self.job.image)
        return {"pull": ("skipped", f"{self.job.image} is here already") if is_there else ("done", self.job.image),
                "mount": ("done", f"podman mounts {len(places.read_only(self.job))} folders, writable are "
                                  f"{', '.join(places.writable(self.job, self.record))}"),
                "limit": ("done", "by podman; limits: "
                          + (", ".join(sorted(places.limits(self.job))) or "none is asked for"))}

    def wrap(self, name, words, env):
        limits = places.limits(self.job).get(name, {})
        found = ["podman", "run", "--name", self.container(name), "--label", f"sluice.job={self.record.id}",
                 "--network", "host", "--read-only", "--workdir", self.folder(name)]
        for field, option in (("cores", "--cpus"), ("memory", "--memory"), ("io_weight", "--blkio-weight")):
            if field in limits:
                found += [option, str(limits[field])]
        if "memory" in limits:
            found += ["--memory-swap", str(limits["memory"])]
        for path in sorted(set(places.read_only(self.job))):
            found += ["--volume", f"{path}:{path}:ro"]
        for path in places.writable(self.job, self.record) + [self.record.path("cache")]:
            found += ["--volume", f"{path}:{path}"]
        for gpu in places.gpus_of(self.job, name):
            found += ["--device", f"nvidia.com/gpu={gpu}"]
        own = {places.MARK: self.record.id, "XDG_CACHE_HOME": self.record.path("cache")}
        for variable, value in {**env, **own}.items():
            found += ["--env", f"{variable}={value}"]
        if os.path.isabs(words[0]) and os.path.basename(words[0]).startswith("offload_"):
            words = [os.path.basename(words[0]), *words[1:]]  # the image has its own
        return found + [self.job.image, *words]

    def folder(self, name):
        code = self.job.code if name.startswith("compute") else None
        return self.job.path(code) if code else places.outputs(self.job, self.record)

    def environment(self, name, env):
        """The environment of podman itself."""
        return dict(os.environ)

    def signal(self, name, process, number):
        podman("kill", "--signal", signal.Signals(number).name, self.container(name), check=False)
        if number == signal.SIGKILL:
            process.kill()

    def freeze(self, roles, is_frozen):
        podman("pause" if is_frozen else "unpause", *(self.container(name) for name in roles))

    def out_of_memory(self, name, code):
        """As places.Bare: "certain", another word, or None.  conmon misses some of these kills on cgroup v1."""
        said = podman("inspect", "--format", "{{.State.OOMKilled}}", self.container(name), check=False)
        return "certain" if said.strip() == "true" else "most likely" if code == 128 + signal.SIGKILL else None

    def exec_words(self, name, pid, words):
        terminal = ["--tty"] if os.isatty(0) else []
        return ["podman", "exec", "--interactive", *terminal, self.container(name), *words], []

    def exec_environment(self, pid):
        return {os.fsencode(name): os.fsencode(value) for name, value in os.environ.items()}

    def clear(self):
        ids = podman("ps", "--all", "--quiet", "--filter", f"label=sluice.job={self.record.id}", check=False).split()
        if ids:
            podman("rm", "--force", "--time", 0, *ids)

