"""The documents of engine kubernetes: the JobSet of a job, and the DaemonSet of servers that jobs share.

A folder is hostPath, pvc://CLAIM/FOLDER a PersistentVolumeClaim.  A pod of the JobSet ID has the name
ID-ROLE-0-INDEX.ID, which the headless service that JobSet makes resolves.
"""
import os
import re
import shlex

from .. import commands

PORT, METRICS, RENDEZVOUS = 50051, 9464, 29500
OUTPUTS, SECRETS = "/outputs", "/etc/sluice-tls"
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


def text(documents):
    """Documents as YAML."""
    import yaml

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data):
            return True

    Dumper.add_representer(str, lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style="|" if "\n" in text else None))
    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=110, allow_unicode=True)


def documents(job, name):
    """The JobSet `name`, and what it needs."""
    documents = [_claim(job, name)] if job.compute.mps else []
    labels = _labels(job)
    if job.queue:
        labels["kueue.x-k8s.io/queue-name"] = job.queue
    if job.priority is not None:
        labels["kueue.x-k8s.io/priority-class"] = f"sluice-{job.priority}"
    shards = _shards(job)
    training = {"name": "compute", "replicas": 1, "template": {"spec": _training(job, name)}}
    if shards:
        training["dependsOn"] = [{"name": shards[-1], "status": "Ready"}]
    jobs = []
    for shard, one in enumerate(shards):
        jobs.append({"name": one, "replicas": 1, "template": {"spec": {
            "parallelism": job.storage.servers, "completions": job.storage.servers, "completionMode": "Indexed",
            "backoffLimit": 6, "template": {"metadata": {"labels": _labels(job)},
                                            "spec": _server(job, shard)}}}})
        if shard:
            jobs[-1]["dependsOn"] = [{"name": shards[shard - 1], "status": "Ready"}]
    documents.append({
        "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": {"name": name, "labels": labels},
        "spec": {"successPolicy": {"operator": "All", "targetReplicatedJobs": ["compute"]},
                 "failurePolicy": {"maxRestarts": job.retries},
                 "network": {"enableDNSHostnames": True, "subdomain": name},
                 "replicatedJobs": jobs + [training]}})
    return documents


def _labels(job):
    return {"app.kubernetes.io/name": job.name, "app.kubernetes.io/part-of": "sluice"}


def _shards(job):
    """Names of the replicated jobs that serve."""
    if job.storage.placement != "with-job":
        return []
    count = len(job.data.roots)
    return ["storage"] if count == 1 else [f"storage-{shard}" for shard in range(count)]


def _hosts(job, name):
    """The --host of each shard."""
    if job.storage.placement == "shared":
        return [f"dns:{job.name}-storage:{PORT}"]
    return [",".join(f"{name}-{one}-0-{i}.{name}:{PORT}" for i in range(job.storage.servers))
            for one in _shards(job)] or list(job.storage.addresses)


def _claim(job, name):
    """A part of a GPU under MPS, by NVIDIA's DRA driver."""
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": f"{name}-gpu"},
            "spec": {"spec": {"devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
                "config": [{"requests": ["gpu"], "opaque": {"driver": "gpu.nvidia.com", "parameters": {
                    "apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {
                        "strategy": "MPS",
                        "mpsConfig": {"defaultActiveThreadPercentage": job.compute.mps}}}}}]}}}}


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


def _server(job, shard):
    """The PodSpec of a server."""
    pod = _Pod(job, job.storage, "offload-server")
    paths = {path: pod.data(path) for _, path in job.data.roots[shard]}
    for path in (job.data.index, job.data.jpeg_index):
        if path not in (None, "auto", "off"):
            paths[path] = pod.file(path, "index" if path == job.data.index else "jpeg-index")
    words = commands.server(job, shard, f"0.0.0.0:{PORT}", path=lambda path: paths.get(path, path))
    words += ["--metrics", f"0.0.0.0:{METRICS}"]
    if not job.storage.secrets and "insecure" not in job.storage.options:
        words.append("--insecure")
    health = {"httpGet": {"path": "/healthz", "port": "metrics"}}
    container = {
        "command": _script(words, job.storage.secrets and commands.SERVER_SECRETS),
        "ports": [{"name": "grpc", "containerPort": PORT}, {"name": "metrics", "containerPort": METRICS}],
        "startupProbe": {**health, "periodSeconds": 2, "failureThreshold": 450},
        "readinessProbe": {**health, "periodSeconds": 5},
        "livenessProbe": {"tcpSocket": {"port": "grpc"}, "periodSeconds": 20, "failureThreshold": 6}}
    restart = "Always" if job.storage.placement == "shared" else "OnFailure"
    has_folders = any("hostPath" in volume for volume in pod.volumes)
    return pod.spec(container, restart, has_folders or job.storage.placement == "shared")


def _training(job, name):
    """The spec of the Job of all ranks."""
    compute = job.compute
    pod = _Pod(job, compute, "training")
    if job.outputs:
        pod.folder("outputs", job.outputs, OUTPUTS, False)
    else:
        pod.mount("outputs", {"emptyDir": {}}, OUTPUTS, False)
    checkpoint, hosts = f"{OUTPUTS}/{job.checkpoint.file}", _hosts(job, name)
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
    container["command"] = _script(words, secrets, resume)
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
    found["template"] = {"metadata": {"labels": _labels(job)},
                         "spec": pod.spec(container, "Never", has_local_data)}
    return found


def shared(job):
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
        "template": {"metadata": {"labels": labels, "annotations": annotations}, "spec": _server(job, 0)}}}
    return [service, servers]
