"""job.yaml: read, checked against job.schema.json, and made a Job.

The schema ships with this file.  Every mistake is reported with line, column and field, all of
them at once.  Names of OpenPAI's job specification (jobName, taskRoles, memoryMB, ...) are aliases.
"""
import difflib
import functools
import json
import os
from dataclasses import dataclass

from . import JobError, model, units

MAX_BYTES = 1 << 20
MAX_NODES = 20000  # with what aliases of YAML repeat
MAX_DEPTH = 20

# Alias: where it stands in our names.
ALIASES = {
    "jobName": ("name",), "jobImage": ("image",), "dataDir": ("data", "root"), "codeDir": ("code",),
    "outputDir": ("outputs",), "retryCount": ("retries",), "jobPriority": ("priority",), "virtualCluster": ("queue",),
}
ROLE_ALIASES = {"cpuNumber": "cores", "memoryMB": "memory", "gpuNumber": "gpus"}
COUNT = {"storage": "servers", "compute": "ranks"}  # what taskNumber is of a role
STORAGE_ROLES = ("storage", "server", "offload_server")  # names of taskRoles that serve


@dataclass(frozen=True, order=True)
class Problem:
    line: int
    column: int
    field: str
    text: str

    def __str__(self):
        return f"{self.line}:{self.column}: {self.field + ': ' if self.field else ''}{self.text}"


class SpecError(JobError):
    """All that is wrong with a file: problems, by line."""

    def __init__(self, name, problems):
        self.name, self.problems = name, sorted(set(problems))
        super().__init__("\n".join(f"{name}:{problem}" for problem in self.problems))


@functools.lru_cache(maxsize=None)
def schema():
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "job.schema.json"), encoding="utf-8") as file:
        return json.load(file)


def _modules():
    try:
        import jsonschema
        import yaml
    except ImportError as error:
        raise JobError(f"reading a job needs {error.name}: install Debian's python3-yaml and python3-jsonschema, or "
                       f"with pip sluice[jobs]") from None
    return yaml, jsonschema


class _Reader:
    """Values of a YAML document with the place of each: places[path] is (line, column)."""

    def __init__(self, yaml):
        self.yaml = yaml
        self.constructor = yaml.constructor.SafeConstructor()
        self.places, self.problems, self.count = {(): (1, 1)}, [], 0

    def problem(self, path, text, mark=None):
        line, column = (mark.line + 1, mark.column + 1) if mark else self.place(path)
        self.problems.append(Problem(line, column, dotted(path), text))

    def place(self, path):
        """Of the field, or of the nearest around it that is there."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]

    def value(self, node, path):
        self.count += 1
        if self.count > MAX_NODES or len(path) > MAX_DEPTH:
            raise JobError("it is too large or too deep")
        self.places.setdefault(path, (node.start_mark.line + 1, node.start_mark.column + 1))
        if isinstance(node, self.yaml.MappingNode):
            self.constructor.flatten_mapping(node)
            return self.mapping(node, path)
        if isinstance(node, self.yaml.SequenceNode):
            return [self.value(item, path + (i,)) for i, item in enumerate(node.value)]
        if node.tag.rpartition(":")[2] in ("bool", "int", "float", "null"):
            try:
                return self.constructor.construct_object(node)
            except (ValueError, OverflowError):
                pass
        return node.value  # dates, too: a text

    def mapping(self, node, path):
        found = {}
        for key, item in node.value:
            if not isinstance(key, self.yaml.ScalarNode):
                self.problem(path, "a name is a text", key.start_mark)
                continue
            name = key.value
            if name in found:
                self.problem(path + (name,), "is given twice", key.start_mark)
                continue
            self.places[path + (name,)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            found[name] = self.value(item, path + (name,))
        return found

    # --- aliases ---

    def move(self, fields, old, new, value):
        """Puts a value at another path of the fields, with the places of all in it."""
        into = fields
        for name in new[:-1]:
            into = into.setdefault(name, {})
            if not isinstance(into, dict):
                return  # the schema reports it
        if new[-1] in into:
            self.problem(old, f"is {dotted(new)}, which is given, too")
            return
        into[new[-1]] = value
        for path, place in list(self.places.items()):
            if path[:len(old)] == old:
                self.places[new + path[len(old):]] = place

    def rename(self, fields):
        for name, new in ALIASES.items():
            if name in fields:
                self.move(fields, (name,), new, fields.pop(name))
        if isinstance(fields.get("data"), str):
            root = fields.pop("data")
            self.move(fields, ("data",), ("data", "root"), root)
        if "taskRoles" in fields:
            self.task_roles(fields, fields.pop("taskRoles"))
        for role, count in COUNT.items():
            inside = fields.get(role)
            if isinstance(inside, dict):
                for name, new in {**ROLE_ALIASES, "taskNumber": count}.items():
                    if name in inside:
                        value = inside.pop(name)
                        if name == "memoryMB" and isinstance(value, int):
                            value = f"{value}MiB"
                        self.move(fields, (role, name), (role, new), value)

    def task_roles(self, fields, roles):
        """A list, as in OpenPAI's first version, or a mapping by name, as in its second."""
        items = roles.items() if isinstance(roles, dict) else enumerate(roles) if isinstance(roles, list) else None
        if items is None:
            self.problem(("taskRoles",), "is a list of roles")
            return
        for key, role in items:
            path = ("taskRoles", key)
            if not isinstance(role, dict):
                self.problem(path, "is a role: taskNumber, cpuNumber, memoryMB, gpuNumber, command")
                continue
            name = role.pop("name", key if isinstance(key, str) else None)
            self.move(fields, path, ("storage" if name in STORAGE_ROLES else "compute",), role)


def dotted(path):
    """("compute", "command", 1) as compute.command[1]."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _shown(value):
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _problems_of(error):
    """(path, text) of an error of jsonschema."""
    path = tuple(error.absolute_path)
    wanted, value = error.schema, error.instance
    if "propertyNames" in error.absolute_schema_path:
        yield path + (value,), "is not a name that can stand here"
    elif error.validator == "additionalProperties" and isinstance(wanted.get("additionalProperties"), bool):
        known = list(wanted["properties"])
        for name in value:
            if name not in known:
                aliases = {(): [*ALIASES, "taskRoles"], ("storage",): [*ROLE_ALIASES, "taskNumber"],
                           ("compute",): [*ROLE_ALIASES, "taskNumber"]}
                names = known + aliases.get(path, [])
                near = difflib.get_close_matches(name, names, 1, 0.6)
                yield path + (name,), (f"unknown field; did you mean {near[0]}?" if near else
                                       f"unknown field; here are {', '.join(known)}")
    elif error.validator == "required":
        missing = [name for name in error.validator_value if name not in value]
        yield path, f"lacks {missing[0]}"
    elif error.validator == "oneOf" and all("required" in one for one in error.validator_value):
        names = [one["required"][0] for one in error.validator_value]
        yield path, f"needs either {' or '.join(names)}"
    elif error.validator == "enum":
        near = difflib.get_close_matches(str(value), wanted["enum"], 1, 0.6)
        yield path, f"{_shown(value)} is not one of {', '.join(wanted['enum'])}" + (
            f"; did you mean {near[0]}?" if near else "")
    elif error.validator in ("oneOf", "type", "pattern", "format", "minLength"):
        about = wanted.get("description") or (f"as {' or '.join(wanted['examples'])}" if "examples" in wanted else "")
        kind = error.validator_value if error.validator == "type" else None
        said = f"is not a{'n' if kind in ('object', 'integer', 'array') else ''} {kind}" if isinstance(kind, str) else \
            "is not valid here"
        if error.validator == "format":
            said = f"is not a {error.validator_value}"
        yield path, f"{_shown(value)} {said}" + (f" ({about.rstrip('.')})" if about else "")
    else:
        yield path, error.message


def _checker(jsonschema):
    formats = jsonschema.FormatChecker(formats=())
    for name, parse in (("size", units.size), ("duration", units.duration)):
        def check(value, parse=parse):
            return isinstance(value, bool) or bool(parse(value))
        formats.checks(name, raises=ValueError)(check)
    return jsonschema.Draft202012Validator(schema(), format_checker=formats)


def _semantic(fields):
    """(path, text) of what the schema cannot say."""
    compute, storage = fields["compute"], fields.get("storage", {})
    mode = compute.get("trainer", {}).get("mode")
    placement = storage.get("placement", "existing" if "address" in storage else "with-job")
    if mode == "local" and storage:
        yield ("storage",), "mode local of the trainer has no server: leave storage out"
    if placement == "existing" and "address" not in storage:
        yield ("storage", "placement"), "existing needs storage.address"
    if placement != "existing" and "address" in storage:
        yield ("storage", "address"), "is for placement existing"
    for name in ("servers", "link", "cores", "memory", "io_weight", "options"):
        if placement == "existing" and name in storage:
            yield ("storage", name), "the job does not start existing servers, so it cannot set this"
    if placement == "with-job" and "data" not in fields:
        yield ("data",), "the job's own server needs data.root"
    if mode == "local" and "shards" in fields.get("data", {}):
        yield ("data", "shards"), "mode local reads one root"
    if "index" in fields.get("data", {}) and "shards" in fields["data"]:
        yield ("data", "index"), "is of one root, and shards have one each: keep a manifest in each shard"
    if "trainer" in compute and compute.get("ranks", 1) > 1:
        yield ("compute", "ranks"), "are of a command; offload_train starts a process for each of compute.gpus"
    if "trainer" not in compute and compute.get("options"):
        yield ("compute", "options"), "are those of offload_train; a command has its own"
    if "gpu_share" in compute and compute.get("gpus", 1) != 1:
        yield ("compute", "gpu_share"), "is a part of one GPU: leave gpus out"
    if fields.get("lend", {}).get("gpu") and not (compute.get("gpus") or "gpu_share" in compute):
        yield ("lend", "gpu"), "the job has no GPU"
    elif fields.get("lend", {}).get("gpu") and max(compute.get("gpus", 1), compute.get("ranks", 1)) > 1:
        yield ("lend", "gpu"), "is for a job of one rank with one GPU: ranks that train together would wait for the one that stops"
    if "socket" in fields.get("lend", {}) and not fields["lend"].get("gpu"):
        yield ("lend", "socket"), "goes with lend.gpu, which is missing"
    if "borrow" in compute and (compute.get("gpus") or "gpu_share" in compute):
        yield ("compute", "borrow"), "gives the command a GPU: leave gpus and gpu_share out"
    if "borrow" in compute and "trainer" in compute:
        yield ("compute", "borrow"), "is for a command: offload_train lends, and does not borrow"
    reserved = {"host", "listen", "root", "checkpoint", "resume", "dataset-mode", "pipeline", "lend"}
    trainer = compute.get("trainer", {})
    for path, options in ((("storage", "options"), storage.get("options")),
                          (("compute", "options"), compute.get("options")),
                          (("compute", "trainer", "options"), trainer.get("options"))):
        for name in options or ():
            if name in reserved:
                yield path + (name,), "the job sets it by a field of its own"


def parse(text, name="job.yaml", folder="."):
    """The Job of a file's text; SpecError lists every mistake."""
    yaml, jsonschema = _modules()
    if len(text) > MAX_BYTES:
        raise SpecError(name, [Problem(1, 1, "", f"is larger than {MAX_BYTES} bytes")])
    reader = _Reader(yaml)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        fields = reader.value(node, ()) if node else {}
    except (yaml.YAMLError, RecursionError, JobError) as error:
        mark = getattr(error, "problem_mark", None)
        place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise SpecError(name, [Problem(*place, "", getattr(error, "problem", None) or str(error))]) from None
    if not isinstance(fields, dict):
        raise SpecError(name, [Problem(1, 1, "", "a job is a mapping: name: ..., compute: ...")])
    reader.rename(fields)
    seen = set()  # one mistake of a field is enough
    for error in sorted(_checker(jsonschema).iter_errors(fields), key=lambda error: error.validator != "format"):
        for path, said in _problems_of(error):
            if path not in seen:
                reader.problem(path, said)
            seen.add(path)
    if not reader.problems:
        for path, said in _semantic(fields):
            reader.problem(path, said)
    if reader.problems:
        raise SpecError(name, reader.problems)
    return model.job_of(fields, os.path.abspath(folder))


def load(path):
    """The Job of a file."""
    path = os.fspath(path)
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise JobError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise JobError(f"{path}: is not UTF-8 text") from None
    return parse(text, path, os.path.dirname(os.path.abspath(path)))
