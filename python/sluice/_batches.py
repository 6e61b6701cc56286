"""What the loaders for PyTorch, NumPy and JAX share: settings, epochs, and the place in them."""
import array
import json
import operator
import os
import pathlib

from sluice import _fields, _log, _sluice, _named_roots, recipes, settings

PARTS = {"train": _sluice.TRAIN, "val": _sluice.VAL}


def place(source):
    """The settings of a folder, or of servers.  A folder that there is, or anything with a slash,
    is a folder; what else has a port or a comma, or begins with dns:, names a server or replicas; a
    list of such texts names shards; a dict of folders by name is one dataset of them all."""
    if isinstance(source, dict):
        return {"dir": _named_roots(source), "dataset-mode": "local"}
    if isinstance(source, (list, tuple)):
        if not source or not all(isinstance(text, str) for text in source):
            raise _sluice.InvalidError(
                f"{source!r} names no shards: a text such as HOST:PORT or 'HOST,HOST' for each")
        return {"host": list(source)}
    text = os.fspath(source)
    if isinstance(source, pathlib.PurePath) or os.path.isdir(text) or "/" in text:
        return {"dir": text, "dataset-mode": "local"}
    host, colon, port = text.rpartition(":")
    if (colon and port.isdigit()) or "," in text or text.startswith("dns:"):
        return {"host": text}
    raise _sluice.InvalidError(f"{text!r} is no folder, and no server: HOST:PORT")


def servers(source):
    """The texts of offload_train's --host, one for each shard; none for a folder."""
    host = place(source).get("host", [])
    return [host] if isinstance(host, str) else host


def checked_state(state, part):
    """A copy of what a loader's load_state_dict() was given; InvalidError, a ValueError: it is no
    state, or one of the other part."""
    if not isinstance(state, dict) or not isinstance(state.get("epoch"), int):
        raise _sluice.InvalidError(f"{state!r} is not what state_dict() gave")
    if state.get("batch") is not None:
        is_val = _sluice.state_part(state["batch"]) == _sluice.VAL
        other = "val" if is_val else "train"
        if other != part:
            raise _sluice.InvalidError(
                f"the state is of the {other} part, and this loader is of the {part} part: take "
                f"the state of a loader with part={part!r}, or this loader with part={other!r}")
    return dict(state)


class Batches:
    """Epochs of batches.  A subclass turns a _sluice.Batch into what it yields: _made_of(batch)."""

    _takes_device = False  # whether rows may be on a CUDA device
    _takes_views = True    # whether a sample may be several images
    _gives_targets = True
    _gives_geometry = True
    _takes_tail_shape = False  # whether python_tail may return other arrays than images

    def __init__(self, source, batch_size, *, seed=0, mode=None, pipeline=None, rank=None,
                 world_size=None, drop_last=False, shuffle=True, part="train", sampler=None,
                 on_error="skip", workers=None, pinned_device=-1, targets=False, fields=False, geometry=False,
                 annotations="row", min_box=(1, 1), mask_fill=255, recipe=None,
                 _does_batch_ops=False, python_tail=None, python_tail_shape=None, python_tail_dtype=None,
                 python_tail_workers=None, **options):
        self._tail = self._tail_of(python_tail, python_tail_shape, python_tail_dtype, python_tail_workers, seed,
                                   options.get("gpu_decode"))
        if part not in PARTS:
            raise _sluice.InvalidError(f"part {part!r}: 'train' or 'val'")
        if (rank is None) != (world_size is None):
            raise _sluice.InvalidError("rank and world_size come together")
        if recipe is not None:
            if pipeline is not None:
                raise _sluice.InvalidError("recipe and pipeline are two names of one thing: give one")
            recipe = recipes.of(recipe)
            if (recipe.erasing or recipe.mix) and part == "train" and not _does_batch_ops:
                raise _sluice.InvalidError(
                    "recipe: its RandomErasing and Mix are for sluice.torch.Loader and sluice.jax.Loader; for the pipeline alone give "
                    "pipeline=sluice.recipes.of(recipe).train")
            pipeline = recipe.train
            if recipe.repeat_within_batch > 1:
                options.setdefault("repeat_within_batch", recipe.repeat_within_batch)
            if recipe.val or part == "val":  # a transform is of the part that it is given to
                options.setdefault("val_pipeline", recipe.val or pipeline)
        self._part_name, self._part = part, PARTS[part]
        self._batch_size = operator.index(batch_size)
        self._sampler, self._drop_last = sampler, drop_last
        self._targets, self._geometry = targets, geometry
        if geometry and not self._gives_geometry:
            raise _sluice.InvalidError("geometry: these batches have none; leave it out")
        if annotations not in ("row", "file"):
            raise _sluice.InvalidError(f"annotations={annotations!r}: 'row' or 'file'")
        self._moves_boxes = geometry and annotations == "row"
        self._min_box, self._mask_fill = tuple(map(float, min_box)), operator.index(mask_fill)
        if not 0 <= self._mask_fill <= 255:
            raise _sluice.InvalidError(f"mask_fill={mask_fill}: 0 to 255")
        if len(self._min_box) != 2 or not all(least >= 0 for least in self._min_box):
            raise _sluice.InvalidError(f"min_box={min_box!r}: the least side and the least area of a box")

        chosen = place(source)
        chosen.update(settings(
            batch_size=self._batch_size, seed=seed, dataset_mode=mode, pipeline=pipeline, rank=rank,
            world_size=world_size, on_error=on_error, workers=workers,
            geometry=geometry or None, shuffle=None if shuffle else False, tail="drop" if drop_last else None, **options))
        _log.begin()
        self._loader = _sluice.Loader(chosen, pinned_device)
        try:
            self._loader.open()
            self.info = self._loader.info(self._part)
            if self._loader.device() >= 0 and not self._takes_device:
                raise _sluice.InvalidError(
                    "gpu_decode: these batches are for the host; leave it out, or take "
                    "sluice.torch.Loader(device='cuda') or sluice.jax.Loader")
            self._has_views = len(self.info["views"]) > 1
            self._has_own_sizes = self.info["views"] == [[0, 0]] and not self.info["buckets"]
            if self._has_views:
                self._check_views()
            if self.info["height"] == 0 and self._tail is not None:
                raise _sluice.InvalidError("python_tail: it is for images of one size, and the pipeline makes several; "
                                           "leave out one of them")
            if self._has_own_sizes and not self._takes_views:
                raise _sluice.InvalidError("pipeline: its images end in sizes of their own, and these batches are arrays: "
                                           "sluice.torch, sluice.numpy and sluice.jax have lists of them")
            described = self._loader.fields()
            self.fields = {name: kind for name, kind, _ in described}
            self._chosen = _fields.chosen(fields, described)
            if self._has_own_sizes and self._moves_boxes and any(field.kind == "mask" for field in self._chosen):
                raise _sluice.InvalidError("fields: masks come in arrays of one size, and the pipeline's images end in sizes of "
                                           "their own: annotations='file' gives the files' masks")
            for name, asked in (("targets", targets), ("fields", fields)):
                if asked and not self._gives_targets:
                    raise _sluice.InvalidError(f"{name}: these batches have none; leave it out")
            if targets and fields:
                raise _sluice.InvalidError("targets and fields: the target is the first of the fields; give one of them")
            if targets and self.info["target_kind"] is None:
                raise _sluice.InvalidError(
                    "targets: the dataset has none; offload_dataset index --target reads them")
        except BaseException:
            self._loader.close()
            raise

        self._num_threads = int(workers or 0) or len(os.sched_getaffinity(0))
        self._epoch = 0          # of the next iter()
        self._at = {"epoch": 0}  # the place after the batch yielded last
        self._resume = None      # of load_state_dict(), for the next iter()
        self._turn = 0           # which iter() may yield: the newest
        self.num_padded = 0      # rows of the batch yielded last that repeat others

    def _check_views(self):
        """InvalidError: these batches take one image a sample, and the pipeline makes several."""
        if not self._takes_views:
            raise _sluice.InvalidError(
                f"pipeline: it makes {len(self.info['views'])} views of each sample, and these batches have one image of "
                "each: sluice.torch, sluice.numpy and sluice.jax have lists of them")
        if self._tail is not None:
            raise _sluice.InvalidError("python_tail: it is for one image of each sample, and the pipeline makes several "
                                       "views; leave out one of them")

    def _arrays_of(self, batch):
        """Arrays of a batch's pixels: one for each view, or for each image if they have sizes of their own."""
        return batch.images if self._has_own_sizes else batch.views

    def _views_or_image(self, views):
        """What is yielded for images: the list of a batch's views or images, or the one that there is."""
        return views if self._has_views or self._has_own_sizes else views[0]

    def _tail_of(self, function, shape, dtype, workers, seed, gpu_decode):
        """The PythonTail that the loader's arguments ask for, or None."""
        if function is None:
            if (shape, dtype, workers) != (None, None, None):
                raise _sluice.InvalidError("python_tail_shape, python_tail_dtype, python_tail_workers: they go with "
                                           "python_tail")
            return None
        if gpu_decode not in (None, "off"):
            raise _sluice.InvalidError(
                f"python_tail: it is for rows on the host, and gpu_decode={gpu_decode!r} leaves them on the GPU: leave "
                "out one of them")
        from sluice._python_tail import PythonTail  # it needs NumPy
        tail = PythonTail(function, shape, dtype, int(workers or len(os.sched_getaffinity(0))), seed)
        if not tail.is_image and not self._takes_tail_shape:
            raise _sluice.InvalidError("python_tail_shape, python_tail_dtype: for sluice.torch.Loader and "
                                       "sluice.numpy.Loader; here the function returns a u8 image of the same size")
        return tail

    def _made_of(self, batch):
        raise NotImplementedError

    def _vectors_of(self, batch, from_buffer):
        """The batch's targets: from_buffer(bytearray of float32) in their shape, or a list of
        bytes."""
        targets = self._loader.targets(batch) if self._tail is None else self._tail.targets
        if self.info["target_kind"] == "bytes":
            return targets
        dim = self.info["target_dim"]
        if isinstance(targets, list):  # of a python_tail
            targets = bytearray(b"".join(target.tobytes() for target in targets))
        made = from_buffer(targets)
        return made.reshape((batch.num_rows, dim)) if dim > 1 else made

    def _fields_of(self, batch, from_buffer):
        """The batch's fields that were asked for, by name: from_buffer(bytearray, name of a dtype) makes an array."""
        views = None
        if self._moves_boxes and any(field.kind in _fields.MOVED for field in self._chosen):
            sizes = [view.shape[1:3] for view in batch.views]
            if self._has_own_sizes:
                sizes = [[image.shape[:2] for image in batch.images]]
            views = [(bytes(batch.geometry(i)[0]), size) for i, size in enumerate(sizes)]

        least_box = (*self._min_box, self.info["draws_by_boxes"])

        def made_of(field):
            values = self._loader.values(batch, field.number)
            if views is None or field.kind not in _fields.MOVED:
                return _fields.made_of(field, values, batch.num_rows, from_buffer)
            if field.kind == "mask":
                moved = (batch.masks(i, values, self._mask_fill, self._num_threads) for i in range(len(views)))
                made = tuple(from_buffer(mask, "uint8").reshape((-1, *view[1])) for mask, view in zip(moved, views))
            else:
                made = tuple(_fields.moved_of(field, values, view, least_box, from_buffer) for view in views)
            return made if self._has_views else made[0]

        return {field.name: made_of(field) for field in self._chosen}

    def _geometry_of(self, batch, from_buffer):
        """The batch's geometry as a dict of arrays, or a list of one for each view: from_buffer(bytearray, name of a
        dtype) makes an array."""
        def arrays(matrix, size, crop, flip):
            return {"matrix": from_buffer(matrix, "float64").reshape((-1, 3, 3)),
                    "size": from_buffer(size, "int64").reshape((-1, 2)),
                    "crop": from_buffer(crop, "int64").reshape((-1, 4)),
                    "flip": from_buffer(flip, "bool")}

        views = []
        while (fields := batch.geometry(len(views))) is not None:
            views.append(arrays(*fields))
        return views if self._has_views else views[0]

    def _next(self):
        """The next _sluice.Batch, after the python_tail if there is one; None: the epoch has ended."""
        if self._tail is None:
            return self._loader.next()
        return self._tail.next(self._loader, self._batch_size, self._rows_of_targets, self.path)

    def _rows_of_targets(self, batch):
        """What python_tail gets for each sample of a batch; None: no targets."""
        if not self._targets:
            return None
        targets, dim = self._loader.targets(batch), self.info["target_dim"]
        if isinstance(targets, list):
            return targets
        return self._tail.rows_of(targets, dim)

    def _take_back(self):
        """Called before a batch is waited for."""

    def _order(self, epoch):
        """The positions as bytes of uint64, or None: the library's own order."""
        if self._sampler is None:
            return None
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        try:
            order = array.array("Q", map(operator.index, self._sampler))
        except (TypeError, OverflowError) as error:
            raise _sluice.InvalidError(
                f"sampler: it is to give positions one by one, integers from 0 on: {error}"
            ) from error
        if self._drop_last:
            del order[len(order) // self._batch_size * self._batch_size:]
        return order.tobytes()

    def set_epoch(self, epoch):
        """The epoch of the next iter(); without this each iter() takes the one after the last."""
        self._epoch = operator.index(epoch)
        self._resume = None
        self._at = {"epoch": self._epoch}

    def __iter__(self):
        # A generator: an iterator that is never asked for a batch, as Lightning makes to look
        # whether it can, takes no epoch.
        resume, self._resume = self._resume, None
        epoch = self._epoch
        state = None
        if resume is not None:
            epoch, state = resume["epoch"], resume.get("batch")
        self._epoch = epoch + 1
        self._at = resume or {"epoch": epoch}
        self._turn += 1
        if self._tail is not None:
            self._tail.begin()
        self._loader.start(epoch, self._part, self._order(epoch), state)
        yield from self._yield(self._turn, epoch)

    def _yield(self, turn, epoch):
        is_done = False
        try:
            while True:
                self._check_turn(turn)
                self._take_back()
                batch = self._next()
                if batch is None:
                    is_done = True
                    self._at = {"epoch": epoch + 1}
                    return
                at, num_padded = {"epoch": epoch, "batch": batch.state()}, batch.num_padded
                made = self._made_of(batch)
                self._at, self.num_padded = at, num_padded
                del batch  # what was made of it holds its memory
                yield made
                del made
        finally:
            if turn == self._turn:
                if self._tail is not None:
                    self._tail.end()
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
            whole, rest = divmod(len(self._sampler), self._batch_size)
            return whole + (rest > 0 and not self._drop_last)
        return self._loader.num_batches(self._part)

    def state_dict(self):
        """The place after the batch that was yielded last; small, and of plain types."""
        return dict(self._at)

    def load_state_dict(self, state):
        """The next iter() goes on after the batch of that state, in any mode and place."""
        self._resume = checked_state(state, self._part_name)
        self._at = dict(self._resume)

    def stats(self):
        """The last epoch that ended, as a dict; keys as of offload_train --json.
        With a python_tail its share of "stalls", which may be "bound_by", and "python_tail": samples, cpu_s of the
        workers, wait_s of the loop."""
        made = json.loads(self._loader.stats())
        return made if self._tail is None else self._tail.added_to(made)

    def counters(self):
        """Since the loader was made, at any time and from any thread, as a dict: samples, batches,
        errors, prefetched (samples that are ready now), wire_bytes, choices by form@split, on_gpu by
        form (what of split 0 was decoded on the GPU), wait_s by what was waited for ("gpu": its
        decoder; "trainer": the loop's own time; "python_tail": its processes), outages, lost_streams, repeated_requests, hash_errors, failed_over and
        hedged (of replicas); waits_s and lost_s: for how long a batch is waited for now, and the
        server has been lost."""
        counters = self._loader.counters()
        return counters if self._tail is None else self._tail.counted_in(counters)

    def path(self, sample_id):
        """Of a sample, within the dataset."""
        return self._loader.path(int(sample_id))

    def draws(self, sample_ids, epoch=0, draw_epochs=None, sizes=None):
        """What every op draws for these samples, in order, a list for each: what another library is to be given
        for the same images ([{"op": "hflip", "mirrored": True}, ...]).

        epoch        of the training
        draw_epochs  of each sample, where samples repeat within an epoch (Batch.draw_epochs); None: epoch
        sizes        (width, height) of each image, turned upright if the pipeline turns it; None: as the
                     dataset's list says, which has them once it is indexed, or else the file, if it is of
                     this machine

        NotFoundError: unknown id.  InvalidError: the size is not known, because the server's dataset is not
        indexed, or because the pipeline turns images upright by files that only the server has."""
        ids = [int(of) for of in sample_ids]
        epochs = [epoch] * len(ids) if draw_epochs is None else list(draw_epochs)
        sizes = [(0, 0)] * len(ids) if sizes is None else list(sizes)
        if not len(ids) == len(epochs) == len(sizes):
            raise _sluice.InvalidError(f"{len(ids)} samples, {len(epochs)} draw epochs and {len(sizes)} sizes")
        return [json.loads(self._loader.draws(self._part, of, epoch, int(draw_epoch), *size))
                for of, draw_epoch, size in zip(ids, epochs, sizes)]

    def stop(self):
        """Any thread: what waits for a batch fails with ClosedError, now and later."""
        if self._tail is not None:
            self._tail.stop()
        self._loader.stop()

    def close(self):
        """Frees the loader; batches that were yielded stay.  Twice is fine."""
        self._turn += 1
        if self._tail is not None:
            self._tail.close()
        self._loader.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()
