#!/usr/bin/env python3
"""Engine local with an image: the roles in containers of podman.  The image is made of this build's programs and what
they need of this machine, as no registry is reached.  Skipped where podman cannot start a container."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import programs
import support
from jobs import engines, store
from support import offload_job

IMAGE = "localhost/sluice-test-jobs:latest"
TOOLS = ("sh", "sleep", "touch", "tail", "ls")
# What podman needs where a process may not raise its limits, and crun does not know the machine's cgroups.
CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
"""


def podman(*words, check=True):
    return subprocess.run(["podman", *words], capture_output=True, text=True, check=check)


def make_image():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder, "root")
        for name in ("bin", "tmp", "proc", "dev", "sys", "etc", "run"):
            (root / name).mkdir(parents=True)
        for program in [*map(shutil.which, TOOLS), programs.BIN / "offload_server", programs.BIN / "offload_train"]:
            shutil.copy(os.path.realpath(program), root / "bin" / os.path.basename(program))
            needed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
            for library in re.findall(r"/\S+", needed):
                path = root / library.lstrip("/")
                path.parent.mkdir(parents=True, exist_ok=True)
                if not path.exists():
                    shutil.copy(library, path)
        subprocess.run(["tar", "-C", root, "-cf", folder + "/image.tar", "."], check=True)
        podman("import", folder + "/image.tar", IMAGE)


def why_not():
    """Why podman cannot run the image, or None; may set CONTAINERS_CONF."""
    if not shutil.which("podman"):
        return "podman is missing"
    try:
        make_image()
    except subprocess.CalledProcessError as error:
        return f"podman import: {error.stderr}"
    said = podman("run", "--rm", "--network", "host", IMAGE, "ls", check=False)
    if said.returncode and shutil.which("runc"):
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
            file.write(CONF)
        os.environ["CONTAINERS_CONF"] = file.name
        said = podman("run", "--rm", "--network", "host", IMAGE, "ls", check=False)
    return f"podman runs no container here: {said.stderr.strip()[-300:]}" if said.returncode else None


class PodmanTest(support.JobTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-set-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(folder.name, "set")
        programs.run("offload_dataset", "synth", cls.root, "-n", 48, "--num-val", 8, "--classes", 3)

    def setUp(self):
        super().setUp()
        self.outputs = self.folder / "runs"

    def submit(self, compute, more=""):
        path = self.write(f"name: pod\nimage: {IMAGE}\noutputs: runs\ndata: {{root: {self.root}}}\ncompute: {compute}\n{more}")
        id = offload_job("submit", path).strip()
        self.addCleanup(self.end, id)
        return id

    def end(self, id):
        record, engine = store.Store().find(id), engines.find("local")
        if engine.state(record) not in store.ENDED:
            engine.cancel(record)
        self.assertEqual(podman("ps", "--all", "--quiet", "--filter", f"label=sluice.job={id}").stdout, "")

    def await_file(self, name):
        while not (self.outputs / name).exists():
            time.sleep(0.02)

    def test_a_job_delivers_what_the_bare_programs_do(self):
        bare = programs.train(self.root, "-b", 8, "-j", 1, "--seed", 3, "--no-val")[0]
        id = self.submit("{trainer: {options: {device: none, batch-size: 8, workers: 1, seed: 3, no-val: true}}}")
        offload_job("wait", id)
        lines = offload_job("logs", id, "--role", "compute-0").splitlines()
        self.assertEqual([json.loads(line)["digest"] for line in lines if line.startswith("{")], [bare[0]["digest"]])
        self.assertIn("stopping: answering what was accepted", offload_job("logs", id, "--role", "storage-0"))
        steps = self.show(id)["steps"]
        self.assertEqual((steps["pull"]["outcome"], steps["limit"]["outcome"]), ("skipped", "done"))

    def test_control(self):
        id = self.submit(json.dumps({"command": "touch begun; while [ ! -e end ]; do sleep 0.02; done"}))
        self.await_file("begun")
        self.assertIn("offload_train", offload_job("exec", id, "compute-0", "--", "ls", "/bin"))
        offload_job("exec", id, "compute-0", "--", "sh", "-c", "touch /x", code=1)
        offload_job("pause", id, "--kind", "freeze")
        states = podman("ps", "--all", "--format", "{{.State}}", "--filter", f"label=sluice.job={id}").stdout.split()
        self.assertEqual(states, ["Paused", "Paused"])
        offload_job("resume", id)
        (self.outputs / "end").touch()
        offload_job("wait", id)

    def test_cancel_leaves_no_container(self):
        id = self.submit(json.dumps({"command": "trap exit TERM; touch begun; while :; do sleep 0.1; done"}))
        self.await_file("begun")
        offload_job("pause", id, "--kind", "freeze")
        offload_job("cancel", id)
        self.assertEqual(podman("ps", "--all", "--quiet", "--filter", f"label=sluice.job={id}").stdout, "")

    def test_a_memory_limit_kills_and_says_so(self):
        id = self.submit(json.dumps({"memory": "100MB", "command": ["tail", "/dev/zero"]}))
        offload_job("wait", id, code=1)
        self.assertRegex(self.show(id)["events"][-1]["text"], r"limit of 100MB \(compute\.memory\)")

    def test_half_a_cpu_is_not_more(self):
        spins = "timeout() { sleep 4; kill $$; }; trap 'times; exit' TERM; timeout & while :; do :; done"
        id = self.submit(json.dumps({"cores": 0.5, "command": spins}))
        offload_job("wait", id)
        minutes, seconds = re.match(r"(\d+)m([\d.]+)s", offload_job("logs", id, "--role", "compute-0")).groups()
        share = (60 * int(minutes) + float(seconds)) / 4
        print("0.5 CPU gave", share)
        self.assertLess(share, 0.56)  # a period of 100 ms more than its 4 s have


if __name__ == "__main__":
    why = why_not()
    try:
        if why:
            support.skip(why)
        support.main()
    finally:
        if shutil.which("podman"):
            podman("rmi", "--force", IMAGE, check=False)
