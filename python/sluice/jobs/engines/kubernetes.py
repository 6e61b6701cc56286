"""Engine kubernetes: a JobSet whose success is that of the training, so that the servers end with it.

JobSet: https://jobset.sigs.k8s.io.  Queues: https://kueue.sigs.k8s.io.  A folder is hostPath,
pvc://CLAIM/FOLDER a PersistentVolumeClaim.  A pod of the JobSet ID has the name
ID-ROLE-0-INDEX.ID, which the headless service that JobSet makes resolves.
"""
import json
import os
import re
import shlex
import subprocess
import time

from .. import JobError, commands
from . import remote

PORT, METRICS, RENDEZVOUS = 50051, 9464, 29500
OUTPUTS, SECRETS = "/outputs", "/etc/sluice-tls"
MAX_NAME = 34  # names of pods have 63: with 7 of the job's id and -storage-9-0-99-xxxxx
_USER = 10001  # that of packaging/container/Containerfile
_TERMINATION_S = 60  # more than offload_server's --grace, and enough for a checkpoint


def _volume_of(path):
    """A volume and the folder in it that is meant."""
    claim = re.fullmatch(r"pvc://([a-z0-9]([a-z0-9.-]*[a-z0-9])?)((?:/.*)?)", path)
    if claim:
        return {"persistentVolumeClaim": {"claimName": claim[1]}}, claim[3].strip("/")
    return {"hostPath": {"path": path, "type": "Directory"}}, ""


def _quantity(num_bytes):
    for unit in ("Gi", "Mi", "Ki"):
        size = {"Gi": 2 ** 30, "Mi": 2 ** 20, "Ki": 2 ** 10}[unit]
        if num_bytes % size == 0:
            return f"{num_bytes // size}{unit}"
    return str(num_bytes)


class _Pod:
    """The parts of a pod that runs one container."""

    def __init__(self, job, role, name):
        self.job, self.role, self.name = job, role, name
        self.volumes, self.mounts, self.seen = [], [], {}
        self.env = [{"name": variable, "value": value} for variable, value in sorted(job.env.items())]
        self.env.append({"name": "XDG_CACHE_HOME", "value": "/tmp"})
        self.mount("tmp", {"emptyDir": {}}, "/tmp", False)
        if role.secrets:
            self.mount("tls", {"secret": {"secretName": role.secrets, "defaultMode": 0o440}}, SECRETS, True)

    def mount(self, name, source, path, is_read_only, sub_path=""):
        self.volumes.append({"name": name, **source})
        mount = {"name": name, "mountPath": path}
        if sub_path:
            mount["subPath"] = sub_path
        if is_read_only:
            mount["readOnly"] = True
        self.mounts.append(mount)

    def folder(self, name, path, at, is_read_only=True):
        """Mounts a folder of the job; `at`."""
        source, sub_path = _volume_of(self.job.path(path))
        self.mount(name, source, at, is_read_only, sub_path)
        return at

    def data(self, path):
        """A folder of the data as the pod sees it; buckets and lists stay."""
        path = self.job.path(path)
        if "://" in path and not path.startswith("pvc://"):
            return path
        if path in self.seen:
            return self.seen[path]
        number = sum(volume["name"].startswith("data-") for volume in self.volumes)
        at = self.folder(f"data-{number}", path, f"/data/{number}")
        self.seen[path] = at
        return at

    def file(self, path, name):
        """A file of the job: its folder is mounted."""
        folder, base = os.path.split(self.job.path(path))
        return f"{self.folder(name, folder, f'/files/{name}')}/{base}"

    def spec(self, container, restart, on_storage_nodes):
        """A PodSpec with this container, whose "devices" and "claims" are resources."""
        limits = {}
        if self.role.cores:
            limits["cpu"] = f"{self.role.cores:g}"
        if self.role.memory:
            limits["memory"] = _quantity(self.role.memory)
        devices = container.pop("devices", {})
        claims = container.pop("claims", [])
        resources = {"requests": limits, "limits": {**limits, **devices},
                     "claims": [{"name": claim["name"]} for claim in claims]}
        resources = {field: value for field, value in resources.items() if value}
        found = {"restartPolicy": restart, "automountServiceAccountToken": False,
                 "terminationGracePeriodSeconds": _TERMINATION_S}
        if on_storage_nodes:
            found["nodeSelector"] = {"sluice.storage": "true"}
        found["securityContext"] = {"runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
                                    "seccompProfile": {"type": "RuntimeDefault"}}
        if claims:
            found["resourceClaims"] = claims
        found["containers"] = [{
            "name": self.name, "image": self.job.image, **container, "env": self.env + container.get("env", []),
            **({"resources": resources} if resources else {}),
            "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": self.mounts}]
        found["volumes"] = self.volumes
        return found


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
            ("priority", job.priority is not None and not job.queue,
             "is the WorkloadPriorityClass sluice-N of Kueue: give queue, too"),
            ("data.store.cache", job.data and job.data.store.get("cache"), "pods have no folder that stays"),
            *((f"{name}.secrets", role.secrets and not re.fullmatch(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?", role.secrets),
               "is the name of a Secret here") for name, role in (("storage", storage), ("compute", compute))))
        return [] if job.outputs else ["outputs: none is named: checkpoints are lost with the pod"]

    # --- documents ---

    def render(self, job):
        self.check(job)
        files = {f"{job.name}.yaml": self._text(self._documents(job, job.name))}
        if job.storage.placement == "shared":
            files[f"{job.name}-storage.yaml"] = self._text(self._shared(job))
        return files

    @staticmethod
    def _text(documents):
        import yaml

        class Dumper(yaml.SafeDumper):
            def ignore_aliases(self, data):
                return True

        Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(
            "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))
        return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)

    def _documents(self, job, name):
        """The JobSet `name`, and what it needs."""
        documents = [self._claim(job, name)] if job.compute.mps else []
        labels = self._labels(job)
        if job.queue:
            labels["kueue.x-k8s.io/queue-name"] = job.queue
        if job.priority is not None:
            labels["kueue.x-k8s.io/priority-class"] = f"sluice-{job.priority}"
        shards = self._shards(job)
        training = {"name": "compute", "replicas": 1, "template": {"spec": self._training(job, name)}}
        if shards:
            training["dependsOn"] = [{"name": shards[-1], "status": "Ready"}]
        jobs = []
        for shard, one in enumerate(shards):
            jobs.append({"name": one, "replicas": 1, "template": {"spec": {
                "parallelism": job.storage.servers, "completions": job.storage.servers, "completionMode": "Indexed",
                "backoffLimit": 6, "template": {"metadata": {"labels": self._labels(job)},
                                                "spec": self._server(job, shard)}}}})
            if shard:
                jobs[-1]["dependsOn"] = [{"name": shards[shard - 1], "status": "Ready"}]
        documents.append({
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "labels": labels},
            "spec": {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["compute"]},
                     "failurePolicy": {"maxRestarts": job.retries},
                     "network": {"enableDNSHostnames": True, "subdomain": name},
                     "replicatedJobs": jobs + [training]}})
        return documents

    @staticmethod
    def _labels(job):
        return {"app.kubernetes.io/name": job.name, "app.kubernetes.io/part-of": "sluice"}

    @staticmethod
    def _shards(job):
        """Names of the replicated jobs that serve."""
        if job.storage.placement != "with-job":
            return []
        count = len(job.data.roots)
        return ["storage"] if count == 1 else [f"storage-{shard}" for shard in range(count)]

    def _hosts(self, job, name):
        if job.storage.placement == "shared":
            return [f"dns:{job.name}-storage:{PORT}"]
        return [",".join(f"{name}-{one}-0-{i}.{name}:{PORT}" for i in range(job.storage.servers))
                for one in self._shards(job)] or list(job.storage.addresses)

    @staticmethod
    def _claim(job, name):
        """A part of a GPU under MPS, by NVIDIA's DRA driver."""
        return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"{name}-gpu"},
                "spec": {"spec": {"devices": {
                    "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
                    "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {
                        "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {
                            "strategy": "MPS",
                            "mpsConfig": {"defaultActiveThreadPercentage": job.compute.mps}}}}}]}}}}

    @staticmethod
    def _script(words, secrets, resume=None):
        """A shell script that adds what is there, and becomes the program."""
        lines = [f"set -- {shlex.join(map(str, words))}"]
        if secrets:
            lines.append(f"for pair in {' '.join(f'{name}:{flag}' for name, flag in secrets)}; do\n"
                         f"    file={SECRETS}/${{pair%%:*}}\n"
                         '    [ ! -e "$file" ] || set -- "$@" "${pair#*:}" "$file"\ndone')
        if resume:
            lines.append(resume)
        return ["sh", "-c", "\n".join(lines) + '\nexec "$@"\n']

    def _server(self, job, shard, listen="0.0.0.0"):
        pod = _Pod(job, job.storage, "offload-server")
        options = job.storage.options
        paths = {path: pod.data(path) for _, path in job.data.roots[shard]}
        for path in (job.data.index, job.data.jpeg_index):
            if path not in (None, "auto", "off"):
                paths[path] = pod.file(path, "index" if path == job.data.index else "jpeg-index")
        words = commands.server(job, shard, f"{listen}:{PORT}", path=lambda path: paths.get(path, path))
        if "metrics" not in options:
            words += ["--metrics", f"{listen}:{METRICS}"]
        if not job.storage.secrets:
            words.append("--insecure")
        health = {"httpGet": {"path": "/healthz", "port": "metrics"}}
        container = {
            "command": self._script(words, job.storage.secrets and commands.SERVER_SECRETS),
            "ports": [{"name": "grpc", "containerPort": PORT}, {"name": "metrics", "containerPort": METRICS}],
            "startupProbe": {**health, "periodSeconds": 2, "failureThreshold": 450},
            "readinessProbe": {**health, "periodSeconds": 5},
            "livenessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 20, "failureThreshold": 6}}
        restart = "Always" if job.storage.placement == "shared" else "OnFailure"
        has_folders = any("hostPath" in volume for volume in pod.volumes)
        return pod.spec(container, restart, has_folders or job.storage.placement == "shared")

    def _training(self, job, name):
        """The spec of the Job of all ranks."""
        compute = job.compute
        pod = _Pod(job, compute, "training")
        if job.outputs:
            pod.folder("outputs", job.outputs, OUTPUTS, False)
        else:
            pod.mount("outputs", {"emptyDir": {}}, OUTPUTS, False)
        checkpoint, hosts = f"{OUTPUTS}/{job.checkpoint.file}", self._hosts(job, name)
        env = commands.environment(job, hosts, checkpoint)
        container = {"command": None, "env": [{"name": variable, "value": value} for variable, value in sorted(
            env.items()) if variable not in job.env and variable != "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]}
        if compute.ranks > 1:  # as torchrun sets them; a pod for each rank
            index = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
            container["env"] += [{"name": "RANK", "valueFrom": index}] + [
                {"name": variable, "value": value} for variable, value in (
                    ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"), ("WORLD_SIZE", str(compute.ranks)),
                    ("MASTER_ADDR", f"{name}-compute-0-0.{name}"), ("MASTER_PORT", str(RENDEZVOUS)))]
        is_there = f"[ ! -e {shlex.join([checkpoint])} ]"
        if job.has_trainer:
            paths = {}
            if (compute.recipe or "").startswith("@"):
                paths[compute.recipe[1:]] = pod.file(compute.recipe[1:], "recipe")
            for _, path in job.data.roots[0] if job.data and job.storage.placement == "none" else []:
                paths[path] = pod.data(path)
            words = commands.trainer(job, hosts, checkpoint, path=lambda path: paths.get(path, path))
            resume = None if compute.options.get("device") == "none" else (
                f'{is_there} || set -- "$@" --resume {shlex.join([checkpoint])}')
            if compute.secrets:
                tls = ["--tls"] + ([] if job.storage.placement == "existing" or "server-name" in compute.options
                                   else ["--server-name", f"{job.name}-storage"])
                words += tls
        else:
            words = commands.words_of(compute.command)
            resume = f"{is_there} || export SLUICE_RESUME={shlex.join([checkpoint])}"
        secrets = commands.CLIENT_SECRETS if compute.secrets and job.has_trainer else None
        container["command"] = self._script(words, secrets, resume)
        if job.code:
            container["workingDir"] = pod.folder("code", job.code, "/code")
        if compute.mig:
            container["devices"] = {f"nvidia.com/mig-{compute.mig}": "1"}
        elif compute.mps:
            container["claims"] = [{"name": "gpu", "resourceClaimTemplateName": f"{name}-gpu"}]
        elif compute.gpus:
            container["devices"] = {"nvidia.com/gpu": str(compute.gpus)}
        has_local_data = job.storage.placement == "none" and any("hostPath" in volume for volume in pod.volumes
                                                                 if volume["name"].startswith("data-"))
        found = {"parallelism": compute.ranks, "completions": compute.ranks, "completionMode": "Indexed",
                 "backoffLimit": 0}
        if job.time_s:
            found["activeDeadlineSeconds"] = max(1, round(job.time_s))
        found["template"] = {"metadata": {"labels": self._labels(job)},
                             "spec": pod.spec(container, "Never", has_local_data)}
        return found

    def _shared(self, job):
        """The servers of placement shared: on each node with the label, behind a headless name."""
        name = f"{job.name}-storage"
        labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/part-of": "sluice"}
        meta = {"name": name, "labels": labels}
        selector = {"app.kubernetes.io/name": name}
        protocol = "https" if job.storage.secrets else "kubernetes.io/h2c"
        service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {
            "clusterIP": "None", "selector": selector, "ports": [
                {"name": "grpc", "port": PORT, "targetPort": "grpc", "appProtocol": protocol},
                {"name": "metrics", "port": METRICS, "targetPort": "metrics"}]}}
        annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": str(METRICS)}
        servers = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta, "spec": {
            "selector": {"matchLabels": selector},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": self._server(job, 0)}}}
        return [service, servers]

    # --- the cluster ---

    @staticmethod
    def _kubectl(*words, check=True, **options):
        return remote.run("kubectl", *words, check=check, **options)

    def start(self, record):
        job = record.job()
        text = self._text(self._documents(job, record.id))
        if job.storage.placement == "shared":
            text = self._text(self._shared(job)) + "---\n" + text
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
