"""Datasets of torch.utils.data over the Loader, for what insists on one; public as sluice.torch's.

Each process opens the source when it first needs samples.  A process that is forked cannot use the
library if its parent did; so what the parent is asked (how many samples are there?) is looked up
by another process, until the parent itself takes samples.
"""
import array
import json
import operator
import os
import subprocess
import sys

import torch
import torch.utils.data

from sluice import _fields, _sluice
from sluice._batches import PARTS, checked_state

LOOK = """
import json, sys
from sluice import _batches, _sluice
_sluice.set_log_level(_sluice.LOG_WARN)
source, options = json.load(sys.stdin)
try:
    with _batches.Batches(source, 1, **options) as loader:
        info = loader.info
    print(json.dumps({"id": info["id"], "num_samples": info["num_samples"],
                      "num_classes": info["num_classes"]}))
except _sluice.Error as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}))
"""


def look(source, options):
    """What a new process finds at the source: a dict of id, num_samples and num_classes."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    done = subprocess.run([sys.executable, "-c", LOOK],
                          input=json.dumps([source, options], default=str),
                          env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        raise _sluice.InternalError(
            f"{sys.executable} was to look at {source!r} and ended with {done.returncode}"
        ) from None
    if "error" in found:
        raise getattr(_sluice, found["error"])(found["text"])
    return found


class Dataset(torch.utils.data.Dataset):
    """Samples by their number, in place of torchvision's ImageFolder.

        train = sluice.torch.Dataset("storage:50051", normalize=True)
        loader = torch.utils.data.DataLoader(train, 256, shuffle=True, num_workers=2)
        for epoch in range(90):
            train.set_epoch(epoch)
            for images, labels in loader: ...

    dataset[i] is (image, label), or (image, label, target) with targets=True or fields=True: image [3, height, width], uint8 or normalised, as of
    sluice.torch.Loader, with several views a list of them; label an int; target float32 [dimension], or [] where that is 1, or bytes; with fields=True or a list of names a dict of the sample's fields, of boxes {"boxes": [n, 4],
    "labels": [n]}, of keypoints {"keypoints": [n, points, 3]}. Crops and flips are those that a Loader of the same seed
    gives this sample in the epoch of set_epoch(), bit for bit.  Workers see a set_epoch() of the
    process that made them, also while they live on (persistent_workers).

    A sluice.torch.Loader is the faster one: this asks anew for each batch and reads nothing ahead.

    source          as of sluice.torch.Loader: a folder, a server, replicas, or a list of shards
    seed            of crops and flips
    part            "train" or "val"
    rows            samples that are fetched together, at most, by __getitems__
    transform, target_transform  called with each image and label, at last
    on_error        "fail" or "substitute": what to do about a sample that cannot be read
    **options       as of sluice.torch.Loader, without ranks, order and devices
    """

    def __init__(self, source, *, seed=0, part="train", rows=64, transform=None,
                 target_transform=None, on_error="fail", normalize=False, dtype=None,
                 channels_last=False, **options):
        for name in ("rank", "world_size", "sampler", "shuffle", "drop_last", "sample_ids", "paths",
                     "device", "gpu_decode", "pin_memory", "repeat", "repeat_within_batch",
                     "python_tail", "geometry"):
            if name in options:
                raise _sluice.InvalidError(
                    f"{name}: a Dataset has none; it is for DataLoader or sluice.torch.Loader")
        if part not in PARTS:
            raise _sluice.InvalidError(f"part {part!r}: 'train' or 'val'")
        if on_error == "skip":
            raise _sluice.InvalidError("on_error 'skip': a Dataset gives every sample that it is "
                                       "asked for; 'fail' or 'substitute'")
        self._source = (list(source) if isinstance(source, (list, tuple))  # of shards
                        else os.fspath(source))
        self._part = part
        self._rows = operator.index(rows)
        self._options = {"seed": seed, "part": part, "on_error": on_error, "rank": 0,
                         "world_size": 1, **options}
        self._form = {"normalize": normalize, "dtype": dtype, "channels_last": channels_last}
        self._transform, self._target_transform = transform, target_transform
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()
        self._found = None   # id and numbers of the source
        self._loader = None  # of the process self._owner
        self._owner = None
        self._asked = array.array("Q")

    def __getstate__(self):
        return {**self.__dict__, "_loader": None, "_owner": None}

    def _info(self):
        if self._found is None:
            self._found = look(self._source, self._options)
        return self._found

    def _open(self):
        if self._owner != os.getpid():
            from sluice.torch import Loader  # which imports this module
            self._loader = Loader(self._source, self._rows, sampler=self._asked, **self._form,
                                  **self._options)
            self._owner = os.getpid()
            info = self._loader.info
            if self._found is None:
                self._found = {name: info[name] for name in ("id", "num_samples", "num_classes")}
            if info["id"] != self._found["id"]:
                raise _sluice.StaleError(
                    f"{self._source} has the dataset {info['id']}, and had {self._found['id']} "
                    "when this Dataset was made: make it anew")
        return self._loader

    @property
    def num_classes(self):
        return self._info()["num_classes"]

    def __len__(self):
        return self._info()["num_samples"][PARTS[self._part]]

    def set_epoch(self, epoch):
        """The epoch whose crops and flips samples have from now on, in workers too; 0 at first."""
        epoch = operator.index(epoch)
        if not 0 <= epoch < 2 ** 32:
            raise _sluice.InvalidError(f"epoch {epoch}: 0 to 2**32 - 1")
        self._epoch.fill_(epoch)

    def __getitem__(self, index):
        return self.__getitems__([index])[0]

    def __getitems__(self, indices):
        """A list of (image, label[, target]): one of DataLoader's batches, fetched together."""
        indices = [operator.index(i) for i in indices]
        loader, count = self._open(), len(self)
        for i in indices:
            if not 0 <= i < count:
                raise IndexError(f"sample {i}: the part {self._part!r} has {count}")
        self._asked[:] = array.array("Q", indices)
        loader.set_epoch(int(self._epoch))
        samples = []
        for images, labels, *targets in loader:
            if len(labels) == 1:  # a sample alone need not hold the room for all rows
                images = [view.clone() for view in images] if isinstance(images, list) else images.clone()
            rows = map(list, zip(*images)) if isinstance(images, list) else images.unbind()
            samples += zip(rows, labels.tolist(), *(_fields.rows_of(t, len(labels)) if isinstance(t, dict) else
                                                    t if isinstance(t, list) else t.unbind() for t in targets))
        return [(self._transform(image) if self._transform else image,
                 self._target_transform(label) if self._target_transform else label, *target)
                for image, label, *target in samples]


class IterableDataset(torch.utils.data.IterableDataset):
    """The batches of a sluice.torch.Loader as an IterableDataset, for what insists on a DataLoader:

        batches = sluice.torch.IterableDataset("storage:50051", 256)
        loader = torchdata.stateful_dataloader.StatefulDataLoader(batches, batch_size=None)

    Options are the Loader's.  It yields whole batches (batch_size=None), and has state_dict() and
    load_state_dict() for a StatefulDataLoader.  The library reads ahead with threads of its own:
    num_workers is 0, or 1 for a process of its own.
    """

    def __init__(self, source, batch_size, **options):
        self._arguments = source, batch_size, options
        self._epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # of the next iter()
        self._state = None   # of load_state_dict(), for the next iter()
        self._loader = None  # of the process self._owner
        self._owner = None

    def __getstate__(self):
        return {**self.__dict__, "_loader": None, "_owner": None}

    @property
    def loader(self):
        """The Loader of this process, which is opened when it is first needed."""
        if self._owner != os.getpid():
            from sluice.torch import Loader  # which imports this module
            source, batch_size, options = self._arguments
            self._loader = Loader(source, batch_size, **options)
            self._loader.set_epoch(int(self._epoch))
            self._owner = os.getpid()
        return self._loader

    def set_epoch(self, epoch):
        """The epoch of the next iter(), in a worker too; without this the one after the last."""
        self._epoch.fill_(operator.index(epoch))
        self._state = None
        if self._owner == os.getpid():
            self._loader.set_epoch(epoch)

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise _sluice.InvalidError(f"num_workers {worker.num_workers}: at most 1, as the "
                                       "library reads ahead with threads of its own (workers=)")
        if self._state is not None:
            self.loader.load_state_dict(self._state)
            self._epoch.fill_(self._state["epoch"])
        else:
            self.loader.set_epoch(int(self._epoch))
        self._epoch += 1
        self._state = None
        yield from self.loader

    def state_dict(self):
        """The place after the batch that was yielded last."""
        if self._state is not None:
            return dict(self._state)
        if self._owner == os.getpid():
            return self._loader.state_dict()
        return {"epoch": int(self._epoch)}

    def load_state_dict(self, state):
        """The next iter() goes on after the batch of that state."""
        self._state = checked_state(state, self._arguments[2].get("part", "train"))
