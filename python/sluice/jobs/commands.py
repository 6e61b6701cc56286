"""The command lines of both roles, which every engine starts in its own way.

`secrets` is the folder that a role finds its secrets in; `has(name)` says which of them are there.
Their names are those of scripts/dev-certs.  `path` maps a path of the job to where the role sees it.
"""

SERVER_SECRETS = (("server.pem", "--tls-cert"), ("server-key.pem", "--tls-key"), ("ca.pem", "--tls-client-ca"),
                  ("tokens", "--tokens"))
CLIENT_SECRETS = (("ca.pem", "--ca"), ("client.pem", "--cert"), ("client-key.pem", "--key"), ("token", "--token-file"))


def flags(options):
    """{"workers": 4, "verify": True, "host": ["a", "b"]} as words of a command line."""
    words = []
    for name, value in options.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words += [f"--{name}" if one else f"--no-{name}"] if isinstance(one, bool) else [f"--{name}", str(one)]
    return words


def _secret_flags(wanted, secrets, has):
    return [word for name, flag in wanted if has(name) for word in (flag, f"{secrets}/{name}")]


def client_flags(secrets, has):
    """What a client of the servers needs of its secrets."""
    return (["--tls"] if has("ca.pem") else []) + _secret_flags(CLIENT_SECRETS, secrets, has)


def server(job, shard, listen, program="offload_server", secrets=None, has=lambda name: False, path=None):
    """The command line of a server of this shard, a number, which listens at HOST:PORT."""
    path = path or job.path
    words = [program]
    for name, root in job.data.roots[shard]:
        words += ["--root", f"{name}={path(root)}" if name else path(root)]
    words += ["--listen", listen]
    store = job.data.store
    options = {"manifest": job.data.index and path(job.data.index), "jpeg-index": job.data.jpeg_index,
               "s3-endpoint": store.get("endpoint"), "s3-style": store.get("style"),
               "cache": store.get("cache") and path(store["cache"]), "cache-bytes": store.get("cache_bytes"),
               "link-limit": job.storage.link}
    words += flags({name: value for name, value in options.items() if value is not None})
    if secrets:
        words += _secret_flags(SERVER_SECRETS, secrets, has)
    return words + flags(job.storage.options)


def trainer(job, hosts, checkpoint, resume=False, program="offload_train", secrets=None, has=lambda name: False,
            path=None):
    """The command line of offload_train with a --host for each shard; none in mode local."""
    path = path or job.path
    words = [program]
    if job.storage.placement == "none":
        words += [f"{name}={path(root)}" if name else path(root) for name, root in job.data.roots[0]]
        if job.data.jpeg_index:
            words += ["--jpeg-index", job.data.jpeg_index]
    for host in hosts:
        words += ["--host", host]
    if job.compute.mode:
        words += ["--dataset-mode", job.compute.mode]
    if job.compute.recipe:
        recipe = job.compute.recipe
        words += ["--pipeline", "@" + path(recipe[1:]) if recipe.startswith("@") else recipe]
    if job.compute.options.get("device") != "none":  # which has no model
        words += ["--checkpoint", checkpoint]
        if job.checkpoint.every:
            words += ["--checkpoint-every", job.checkpoint.every]
        if resume:
            words += ["--resume", checkpoint]
    if job.compute.gpus > 1 and "gpus" not in job.compute.options and job.compute.options.get("device", "cuda") == "cuda":
        words += ["--gpus", str(job.compute.gpus)]
    if secrets:
        words += client_flags(secrets, has)
    return words + flags({"json": True, **job.compute.options})


def environment(job, hosts, checkpoint, resume=False, lend=None):
    """Variables for a command: the job's own env, and where servers, checkpoint and the sockets of GPUs are."""
    found = {"SLUICE_JOB": job.name, "SLUICE_CHECKPOINT": checkpoint, **job.env}
    if lend:
        found["SLUICE_LEND"] = lend
    if job.compute.borrow:
        found["SLUICE_BORROW"] = job.path(job.compute.borrow)
    if hosts:
        found["SLUICE_HOST"] = " ".join(hosts)
    if resume:
        found["SLUICE_RESUME"] = checkpoint
    if job.compute.mps:
        found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] = str(job.compute.mps)
    return found


def has_own_gpus(job):
    """Whether each rank sees GPUs of its own, numbered from 0: for a program that takes GPU LOCAL_RANK that is 0."""
    return bool(job.compute.gpus or job.compute.mig or job.compute.mps)


def rank(job, number, address, port):
    """Variables of a rank on one machine, as torchrun sets them."""
    place, count = ("0", "1") if has_own_gpus(job) else (str(number), str(job.compute.ranks))
    return {"RANK": str(number), "WORLD_SIZE": str(job.compute.ranks), "LOCAL_RANK": place, "LOCAL_WORLD_SIZE": count,
            "MASTER_ADDR": address, "MASTER_PORT": str(port)}


def words_of(command):
    """A command of a job as words."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else list(command)
