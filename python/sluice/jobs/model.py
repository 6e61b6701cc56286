"""A job as its file says it, with defaults filled in: what every engine reads."""
import copy
import dataclasses
import os
from dataclasses import dataclass, field
from typing import Optional, Union

from . import units

PLACEMENTS = ("none", "with-job", "existing", "shared")


@dataclass(frozen=True)
class Data:
    """Each root is a list of (NAME or None, folder or URL); several roots are shards."""
    roots: list
    index: Optional[str] = None
    jpeg_index: Optional[str] = None
    store: dict = field(default_factory=dict)  # endpoint, style, cache; cache_bytes in bytes


@dataclass(frozen=True)
class Role:
    """Limits in cores and bytes; None: no limit."""
    cores: Optional[float] = None
    memory: Optional[int] = None
    io_weight: Optional[int] = None
    secrets: Optional[str] = None
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Storage(Role):
    placement: str = "with-job"  # of PLACEMENTS; "none": the trainer reads the files itself
    addresses: tuple = ()  # of `existing`: a --host for each shard
    servers: int = 1  # of each shard
    link: Optional[str] = None


@dataclass(frozen=True)
class Compute(Role):
    ranks: int = 1
    gpus: int = 0  # of each rank
    mig: Optional[str] = None
    mps: Optional[int] = None  # percent
    borrow: Optional[str] = None  # the socket of a job that lends its GPU
    command: Union[str, tuple, None] = None  # for sh -c, or words; None: offload_train
    mode: Optional[str] = None
    recipe: Optional[str] = None


@dataclass(frozen=True)
class Checkpoint:
    file: str = "run.ckpt"  # beneath the outputs
    every: Optional[str] = None  # as offload_train --checkpoint-every
    resume: bool = False  # from a file that is there before the job


@dataclass(frozen=True)
class Lend:
    cpu: Optional[float] = None
    gpu: bool = False
    socket: Optional[str] = None


@dataclass(frozen=True)
class Job:
    name: str
    compute: Compute
    storage: Storage
    data: Optional[Data] = None
    image: Optional[str] = None
    outputs: Optional[str] = None
    code: Optional[str] = None
    time_s: Optional[float] = None
    env: dict = field(default_factory=dict)
    retries: int = 0
    checkpoint: Checkpoint = Checkpoint()
    priority: Optional[int] = None
    queue: Optional[str] = None
    lend: Optional[Lend] = None
    folder: str = "."  # relative paths begin here: the folder of the file
    fields: dict = field(default_factory=dict, compare=False)  # the file with canonical names

    def path(self, text):
        """A path of the file as an absolute one; URLs stay."""
        return text if text is None or "://" in text else os.path.normpath(os.path.join(self.folder, text))

    @property
    def has_trainer(self):
        return self.compute.command is None

    def with_options(self, options):
        """The same job with further options of offload_train."""
        fields = copy.deepcopy(self.fields)
        fields["compute"].setdefault("trainer", {}).setdefault("options", {}).update(options)
        return job_of(fields, self.folder)

    def with_env(self, env):
        """The same job with further variables."""
        return job_of({**self.fields, "env": {**self.fields.get("env", {}), **env}}, self.folder)

    def to_dict(self):
        """As JSON; from_dict() gives an equal job."""
        return {"fields": self.fields, "folder": self.folder}


def _role(kind, fields, **more):
    names = {f.name for f in dataclasses.fields(kind)}
    values = {name: value for name, value in fields.items() if name in names}
    if "memory" in values:
        values["memory"] = units.size(values["memory"])
    return kind(**{**values, **more})


def _data(fields):
    def named(root):
        return list(root.items()) if isinstance(root, dict) else [(None, root)]

    store = dict(fields.get("store", {}))
    if "cache_bytes" in store:
        store["cache_bytes"] = units.size(store["cache_bytes"])
    roots = [named(root) for root in fields.get("shards", [fields.get("root")])]
    return Data(roots, fields.get("index"), fields.get("jpeg_index"), store)


def _storage(fields, compute):
    address = fields.get("address", ())
    default = "existing" if address else "none" if compute.mode == "local" else "with-job"
    return _role(Storage, fields, placement=fields.get("placement", default),
                 addresses=(address,) if isinstance(address, str) else tuple(address))


def _compute(fields):
    command = fields.get("command")
    trainer = fields.get("trainer", {})
    share = fields.get("gpu_share", {})
    return _role(Compute, fields, command=tuple(command) if isinstance(command, list) else command,
                 mode=trainer.get("mode"), recipe=trainer.get("recipe"), mig=share.get("mig"), mps=share.get("mps"),
                 options={**fields.get("options", {}), **trainer.get("options", {})})


def job_of(fields, folder):
    """The job of fields that spec.py has checked."""
    compute = _compute(fields["compute"])
    checkpoint = dict(fields.get("checkpoint", {}))
    if "every" in checkpoint:
        checkpoint["every"] = str(checkpoint["every"])
    limit = fields.get("limits", {}).get("time")
    return Job(
        name=fields["name"], compute=compute, storage=_storage(fields.get("storage", {}), compute),
        data=_data(fields["data"]) if "data" in fields else None,
        image=fields.get("image"), outputs=fields.get("outputs"), code=fields.get("code"),
        time_s=None if limit is None else units.duration(limit),
        env={name: str(value).lower() if isinstance(value, bool) else str(value)
             for name, value in fields.get("env", {}).items()},
        retries=fields.get("retries", 0), checkpoint=Checkpoint(**checkpoint), priority=fields.get("priority"),
        queue=fields.get("queue"), lend=Lend(**fields["lend"]) if "lend" in fields else None, folder=folder,
        fields=fields)


def from_dict(value):
    return job_of(value["fields"], value["folder"])
