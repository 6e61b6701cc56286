"""Engine kubernetes: a JobSet whose success is that of the training, so that the servers end with it.

JobSet: https://jobset.sigs.k8s.io.  Queues: https://kueue.sigs.k8s.io.
"""
import json
import os
import re
import subprocess
import time

from .. import JobError
from . import manifests, remote

MAX_NAME = 34  # names of pods have 63: with 7 of the job's id and -storage-9-0-99-xxxxx


class Engine(remote.Remote):
    name = "kubernetes"

    def check(self, job):
        storage, compute = job.storage, job.compute
        self.refuse(
            job,
            ("image", not job.image, "engine kubernetes needs one (packaging/container/Containerfile makes it)"),
            ("name", len(job.name) > MAX_NAME, f"at most {MAX_NAME} letters, as Kubernetes' names have 63 with ours"),
            ("storage.io_weight", storage.io_weight, "Kubernetes has no such limit; leave it out"),
            ("compute.io_weight", compute.io_weight, "Kubernetes has no such limit; leave it out"),
            ("storage.placement", storage.placement == "shared" and len(job.data.roots if job.data else []) != 1,
             "shared serves data.root"),
            ("storage.servers", storage.placement == "shared" and storage.servers != 1,
             "shared has a server on each node with the label sluice.storage=true"),
            ("storage.options.metrics", "metrics" in storage.options, "pods are probed at 0.0.0.0:9464; leave it out"),
            ("queue", job.queue and not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", job.queue),
             f"{job.queue!r} is not a LocalQueue's name"),
            ("priority", job.priority is not None and not job.queue,
             "is the WorkloadPriorityClass sluice-N of Kueue: give queue, too"),
            ("data.store.cache", job.data and job.data.store.get("cache"), "pods have no folder that stays"),
            *((f"{name}.secrets", role.secrets and not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", role.secrets),
               "is the name of a Secret here") for name, role in (("storage", storage), ("compute", compute))))
        return [] if job.outputs else ["outputs: none is named: checkpoints are lost with the pod"]

    # --- documents ---

    def render(self, job):
        self.check(job)
        files = {f"{job.name}.yaml": manifests.text(manifests.documents(job, job.name))}
        if job.storage.placement == "shared":
            files[f"{job.name}-storage.yaml"] = manifests.text(manifests.shared(job))
        return files

    # --- the cluster ---

    @staticmethod
    def _kubectl(*words, check=True, **options):
        return remote.run("kubectl", *words, check=check, **options)

    def start(self, record):
        job = record.job()
        text = manifests.text(manifests.documents(job, record.id))
        if job.storage.placement == "shared":
            text = manifests.text(manifests.shared(job)) + "---\n" + text
        with open(record.path("job.yaml"), "w", encoding="utf-8") as file:
            file.write(text)
        self._kubectl("apply", "--filename", record.path("job.yaml"))
        return f"as JobSet {record.id}"

    def begins_anew(self, job):
        """Pods see the outputs, and this process does not."""

    def look(self, record):
        said = self._kubectl("get", "jobset", record.id, "--ignore-not-found", "--output=json")
        if not said.strip():
            asked = self._asked(record)
            return remote.Look("cancelled" if asked else None, "", "known no longer")
        found = json.loads(said)
        conditions = {one["type"]: one for one in found.get("status", {}).get("conditions", [])
                      if one.get("status") == "True"}
        pods = json.loads(self._kubectl("get", "pods", f"--selector=jobset.sigs.k8s.io/jobset-name={record.id}",
                                        "--output=json"))["items"]
        nodes = ", ".join(sorted({pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}))
        if "Completed" in conditions:
            return remote.Look("succeeded", "", nodes)
        if "Failed" in conditions:
            return remote.Look("failed", f"Kubernetes: {conditions['Failed'].get('message', '')}; its logs: offload_job "
                                         f"logs {record.id}", nodes)
        if any(pod["status"].get("phase") == "Running" for pod in self._of(pods, "compute")):
            return remote.Look("running", "", nodes)
        return remote.Look("queued", "suspended, as by Kueue" if found["spec"].get("suspend") else "")

    @staticmethod
    def _of(pods, role):
        return [pod for pod in pods
                if pod["metadata"]["labels"].get("jobset.sigs.k8s.io/replicatedjob-name", "").startswith(role)]

    def prepared(self, job):
        limits = [f"{name}.{field}" for name, role in (("storage", job.storage), ("compute", job.compute))
                  for field in ("cores", "memory") if getattr(role, field)]
        return {"pull": ("done", job.image), "mount": ("done", "by the kubelet; read-only but for the outputs"),
                "limit": ("done", f"by the kubelet; limits: {', '.join(limits) or 'none is asked for'}")}

    def _pods(self, record, role=None):
        """{role: name of its pod}."""
        found = {}
        said = self._kubectl("get", "pods", f"--selector=jobset.sigs.k8s.io/jobset-name={record.id}", "--output=json")
        for kind in ("storage", "compute"):
            pods = self._of(json.loads(said)["items"], kind)

            def place(pod):
                labels = pod["metadata"]["labels"]
                return (labels["jobset.sigs.k8s.io/replicatedjob-name"],
                        int(pod["metadata"].get("annotations", {}).get(
                            "batch.kubernetes.io/job-completion-index", "0")))

            for i, pod in enumerate(sorted(pods, key=place)):
                found[f"{kind}-{i}"] = pod["metadata"]["name"]
        if role is None:
            return found
        name = role if role in found else f"{role}-0"
        if name not in found:
            raise JobError(f"job {record.id} has no role {role!r}: {', '.join(found) or 'no pod is there'}")
        return {name: found[name]}

    def logs(self, record, role=None, follow=False):
        pods = self._pods(record, role)
        while not pods and follow and self.state(record) in ("queued", "starting"):
            time.sleep(remote.LOOK_S)
            pods = self._pods(record, role)
        if not follow:
            for name, pod in pods.items():
                for line in self._kubectl("logs", pod, "--all-containers", check=False).splitlines():
                    yield name, line
            return
        roles = {pod: name for name, pod in pods.items()}
        selector = [next(iter(roles))] if role else [f"--selector=jobset.sigs.k8s.io/jobset-name={record.id}"]
        with subprocess.Popen(["kubectl", "logs", "--follow", "--prefix", "--all-containers",
                               "--max-log-requests=100", *selector], stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                head = re.match(r"\[pod/([^/]+)/[^]]*\] ", line)
                yield roles.get(head[1] if head else "", role or "compute-0"), line[head.end() if head else 0:].rstrip("\n")

    def ask_for_checkpoint(self, record):
        """Its pods get SIGTERM, and a minute; resume() makes the JobSet again."""
        self.stop(record)

    def stop(self, record):
        self._kubectl("delete", "jobset", record.id, "--ignore-not-found", "--cascade=foreground", "--wait")
        if record.job().compute.mps:
            self._kubectl("delete", "resourceclaimtemplate", f"{record.id}-gpu", "--ignore-not-found")

    def exec(self, record, role, argv):
        (pod,) = self._pods(record, role).values()
        terminal = ["--tty"] if os.isatty(0) else []
        return subprocess.run(["kubectl", "exec", "--stdin", *terminal, pod, "--", *argv], check=False).returncode
