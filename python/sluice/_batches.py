"""What the loaders for PyTorch, NumPy and JAX share: settings, epochs, and the place in them."""
import array
import json
import operator
import os
import pathlib

from sluice import _sluice, settings

PARTS = {"train": _sluice.TRAIN, "val": _sluice.VAL}


def place(source):
    """The settings of a folder, or of HOST:PORT.  A folder that there is, or anything with a slash,
    is a folder; what else has a port is a server."""
    text = os.fspath(source)
    if isinstance(source, pathlib.PurePath) or os.path.isdir(text) or "/" in text:
        return {"dir": text, "dataset-mode": "local"}
    host, colon, port = text.rpartition(":")
    if colon and port.isdigit():
        return {"host": text}
    raise _sluice.InvalidError(f"{text!r} is no folder, and no server: HOST:PORT")


class Batches:
    """Epochs of batches.  A subclass turns a _sluice.Batch into what it yields: _made_of(batch)."""

    def __init__(self, source, batch_size, *, seed=0, mode=None, pipeline=None, rank=None,
                 world_size=None, drop_last=False, shuffle=True, part="train", sampler=None,
                 on_error="skip", workers=None, pinned_device=-1, **options):
        if part not in PARTS:
            raise _sluice.InvalidError(f"part {part!r}: 'train' or 'val'")
        if (rank is None) != (world_size is None):
            raise _sluice.InvalidError("rank and world_size come together")
        self._part = PARTS[part]
        self._batch_size = operator.index(batch_size)
        self._sampler = sampler

        chosen = place(source)
        chosen.update(settings(
            batch_size=self._batch_size, seed=seed, dataset_mode=mode, pipeline=pipeline, rank=rank,
            world_size=world_size, on_error=on_error, workers=workers,
            shuffle=None if shuffle else False, tail="drop" if drop_last else None, **options))
        self._loader = _sluice.Loader(chosen, pinned_device)
        try:
            self._loader.open()
            self.info = self._loader.info()
        except BaseException:
            self._loader.close()
            raise

        self._epoch = 0          # of the next iter()
        self._at = {"epoch": 0}  # the place after the batch yielded last
        self._resume = None      # of load_state_dict(), for the next iter()
        self._turn = 0           # which iter() may yield: the newest
        self.num_padded = 0      # rows of the batch yielded last that repeat others

    def _made_of(self, batch):
        raise NotImplementedError

    def _order(self, epoch):
        """The positions as bytes of uint64, or None: the library's own order."""
        if self._sampler is None:
            return None
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        return array.array("Q", map(operator.index, self._sampler)).tobytes()

    def set_epoch(self, epoch):
        """The epoch of the next iter(); without this each iter() takes the one after the last."""
        self._epoch = operator.index(epoch)
        self._resume = None
        self._at = {"epoch": self._epoch}

    def __iter__(self):
        resume, self._resume = self._resume, None
        epoch = self._epoch
        state = None
        if resume is not None:
            epoch, state = resume["epoch"], resume.get("batch")
        self._epoch = epoch + 1
        self._at = resume or {"epoch": epoch}
        self._turn += 1
        self._loader.start(epoch, self._part, self._order(epoch), state)
        return self._yield(self._turn, epoch)

    def _yield(self, turn, epoch):
        is_done = False
        try:
            while True:
                self._check_turn(turn)
                batch = self._loader.next()
                if batch is None:
                    is_done = True
                    self._at = {"epoch": epoch + 1}
                    return
                at = {"epoch": epoch, "batch": batch.state()}
                made = self._made_of(batch)
                self._at = at
                self.num_padded = batch.num_padded
                del batch  # what was made of it holds its memory
                yield made
                del made
        finally:
            if turn == self._turn:
                try:
                    self._loader.finish()
                except _sluice.Error:
                    if is_done:
                        raise

    def _check_turn(self, turn):
        if turn != self._turn:
            raise _sluice.InvalidError("this epoch was ended by a later iter() of its loader")

    def __len__(self):
        if self._sampler is not None:
            return -(-len(self._sampler) // self._batch_size)
        return self._loader.num_batches(self._part)

    def state_dict(self):
        """The place after the batch that was yielded last; small, and of plain types."""
        return dict(self._at)

    def load_state_dict(self, state):
        """The next iter() goes on after the batch of that state, in any mode and place."""
        if not isinstance(state, dict) or not isinstance(state.get("epoch"), int):
            raise _sluice.InvalidError(f"{state!r} is not what state_dict() gave")
        self._resume = dict(state)
        self._at = dict(state)

    def stats(self):
        """The last epoch that ended, as a dict; keys as of offload_train --json."""
        return json.loads(self._loader.stats())

    def path(self, sample_id):
        """Of a sample, within the dataset."""
        return self._loader.path(int(sample_id))

    def stop(self):
        """Any thread: what waits for a batch fails with ClosedError, now and later."""
        self._loader.stop()

    def close(self):
        """Frees the loader; batches that were yielded stay.  Twice is fine."""
        self._turn += 1
        self._loader.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
