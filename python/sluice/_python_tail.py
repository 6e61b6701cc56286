"""A function of the user's for each image, after the last op, in processes of its own: Loader(python_tail=).

    next(): batch of the library -> rows copied into a block of shared memory -> worker w takes rows w, w + n, w + 2n ...
            oldest block <- result of every worker <- rows written to the block's other half

A worker has a pipe of its own and fixed rows: its death is the end of that pipe, and no lock is left behind.
"""
import collections
import math
import mmap
import multiprocessing
import multiprocessing.connection
import multiprocessing.reduction
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback

import numpy

from sluice import _sluice

_AHEAD = 3  # batches with the workers or ready: while the loop has one, the workers have the next two
_ALIGN = 64  # bytes, of arrays in the shared memory


def generator(seed, draw_epoch, sample_id):
    """The numpy.random.Generator of a sample: that of its draw key, wherever the sample runs."""
    return numpy.random.Generator(numpy.random.Philox(
        key=[seed % 2**64, 0], counter=[0, 0, int(draw_epoch), int(sample_id)]))


class _File:
    """A descriptor as an argument of a process that is spawned; it has one of its own."""

    def __init__(self, descriptor):
        self._descriptor = descriptor

    def __reduce__(self):
        return _detached, (multiprocessing.reduction.DupFd(self._descriptor),)


def _detached(duplicate):
    return duplicate.detach()


class _Layout:
    """Of the shared memory: num_blocks batches as the ops leave them, then as many as the function gives them back."""

    def __init__(self, num_blocks, num_rows, shape_in, shape_out, dtype):
        self._in = (num_blocks, num_rows, *shape_in)
        self._out, self._dtype = (num_blocks, num_rows, *shape_out), dtype
        self._at = -(-math.prod(self._in) // _ALIGN) * _ALIGN
        self.num_bytes = self._at + math.prod(self._out) * dtype.itemsize

    def arrays(self, descriptor):
        memory = mmap.mmap(descriptor, self.num_bytes)
        return (numpy.frombuffer(memory, numpy.uint8, math.prod(self._in)).reshape(self._in),
                numpy.frombuffer(memory, self._dtype, math.prod(self._out), self._at).reshape(self._out))


def _described(array):
    return f"{array.dtype} {list(array.shape)}"


def _apply(function, image, row_out, key, target):
    """Writes what the function makes of an image to row_out; returns the target that it gives, or None."""
    if target is None:
        made = function(image, generator(*key))
    else:
        made = function(image, generator(*key), target)
        if not isinstance(made, tuple) or len(made) != 2:
            raise TypeError("with targets=True it returns (image, target)")
        made, given = made
        is_bytes = isinstance(target, bytes)
        if is_bytes != isinstance(given, bytes) or not is_bytes and numpy.shape(given) != numpy.shape(target):
            raise TypeError("it returned a target of another type or shape than it was given")
        target = given if is_bytes else numpy.asarray(given, numpy.float32)
    made = numpy.asarray(made)
    if made.shape != row_out.shape or made.dtype != row_out.dtype:
        raise TypeError(f"it returned {_described(made)}, but {_described(row_out)} is declared "
                        "(python_tail_shape=, python_tail_dtype=)")
    row_out[...] = made
    return target


def _work(connection, descriptor, layout, pickled):
    """A worker, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the loop, which ends the workers
    unread = None
    try:
        function = pickle.loads(pickled)
    except BaseException:
        unread = "it cannot be unpickled in a worker\n" + traceback.format_exc()
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)  # as many workers as cores already
    rows_in, rows_out = layout.arrays(descriptor)
    tasks = queue.SimpleQueue()

    def receive():  # always, so that the loop never waits to send while this waits to send
        try:
            while True:
                tasks.put(connection.recv())
        except (EOFError, OSError):
            os._exit(0)  # the loader has gone

    threading.Thread(target=receive, daemon=True).start()
    while True:
        block, rows = tasks.get()
        start, targets, failed = time.thread_time(), [], None
        for row, key, target in rows:
            try:
                if unread:
                    raise ImportError
                targets.append(_apply(function, rows_in[block, row], rows_out[block, row], key, target))
            except BaseException:
                failed = (key[2], unread or traceback.format_exc())
                break
        connection.send((time.thread_time() - start, failed, targets))


class PythonTail:
    """The workers of a loader, and the batches that they have.

    function    picklable; function(image, rng) of uint8 [height, width, 3], which may be written to, and a
                numpy.random.Generator returns an array of the shape and dtype; with targets
                function(image, rng, target) returns (array, target)
    shape, dtype  of what it returns; left out: those of image
    num_workers   processes
    """

    def __init__(self, function, shape, dtype, num_workers, seed):
        if not callable(function):
            raise _sluice.InvalidError(f"python_tail: {function!r} cannot be called")
        try:
            self._pickled = pickle.dumps(function)
        except Exception as error:
            raise _sluice.InvalidError(
                f"python_tail: {function!r} cannot be pickled, and it runs in other processes: let it be a function or "
                f"an object of a class at the top level of a module ({error})") from None
        if num_workers < 1:
            raise _sluice.InvalidError(f"python_tail_workers {num_workers}: 1 or more")
        try:
            self._shape = None if shape is None else tuple(int(side) for side in shape)
            self._dtype = numpy.dtype("uint8" if dtype is None else dtype)
        except (TypeError, ValueError) as error:
            raise _sluice.InvalidError(f"python_tail_shape, python_tail_dtype: {error}") from None
        if self._dtype.hasobject or min(self._shape or (1,), default=1) < 1:
            raise _sluice.InvalidError(f"python_tail_shape {shape}, python_tail_dtype {dtype}: numbers, in sides of 1 "
                                       "and more")
        self._seed, self._num_workers = int(seed), num_workers
        self.is_image = shape is None and dtype is None  # rows go to the batch's own memory
        self._workers = []       # (process, connection)
        self._sent = collections.deque()  # blocks that the workers have, oldest first
        self._pending = []       # batches of this epoch: (batch, block, rows of each worker)
        self._stopping = multiprocessing.Pipe(duplex=False)
        self.images = self.targets = None  # of the batch that next() gave last; None: those in the batch
        self._before_s = (0.0, 0.0)  # wait_s and late_s of the epochs before
        self._waiting_since = None  # next() waits for the workers
        self.wait_s = self._late_s = 0.0
        self._library_ended = None
        self.begin()

    def begin(self):
        """A new epoch: what the workers still have of another is waited for, and dropped."""
        self.end()
        self._ended = None
        self._before_s = (self._before_s[0] + self.wait_s, self._before_s[1] + self._late_s)
        self.wait_s = self.cpu_s = 0.0  # of the loop; of the workers
        self._late_s = 0.0  # of the epoch, after the library's last batch
        self.num_rows = 0
        try:
            while self._sent:
                self._collect()
        except _sluice.ClosedError:
            raise
        except _sluice.Error:
            self.close()

    def end(self):
        """Of the epoch; lets go of the batches that are not yielded."""
        self._pending = []
        if self._library_ended is not None:
            self._late_s = time.monotonic() - self._library_ended
            self._library_ended = None

    def _start(self, batch, batch_size):
        """The workers, as the first batch says how large images are."""
        size = (batch.height, batch.width, 3)
        layout = _Layout(_AHEAD, batch_size, size, self._shape or size, self._dtype)
        descriptor = os.memfd_create("sluice_python_tail")
        try:
            os.ftruncate(descriptor, layout.num_bytes)
            self._rows_in, self._rows_out = layout.arrays(descriptor)
            spawn = multiprocessing.get_context("spawn")
            for _ in range(self._num_workers):
                ours, theirs = spawn.Pipe()
                process = spawn.Process(target=_work, args=(theirs, _File(descriptor), layout, self._pickled),
                                        daemon=True, name="sluice-python-tail")
                process.start()
                theirs.close()
                self._workers.append((process, ours))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(descriptor)

    def _died(self, process):
        process.join(5)
        code = process.exitcode
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        self.close()
        return _sluice.Error(
            f"python_tail: a worker process died ({how}); its standard error says more.  If it says that the main "
            "module is not ready, the program's own lines belong below if __name__ == '__main__':")

    def _collect(self):
        """(failure or None, targets) of each worker for the oldest block."""
        made = []
        for process, connection in self._workers:
            if self._stopping[0] in multiprocessing.connection.wait([connection, self._stopping[0]]):
                raise _sluice.ClosedError("the loader was stopped")
            try:
                cpu_s, failed, targets = connection.recv()
            except (EOFError, OSError):
                raise self._died(process) from None
            self.cpu_s += cpu_s
            made.append((failed, targets))
        self._sent.popleft()
        return made

    def _send(self, batch, targets, batch_size):
        if not self._workers:
            self._start(batch, batch_size)
        block = next(block for block in range(_AHEAD) if block not in self._sent)
        num_rows = batch.num_rows
        numpy.copyto(self._rows_in[block, :num_rows], numpy.asarray(batch.pixels))
        ids, epochs = numpy.asarray(batch.ids).tolist(), numpy.asarray(batch.draw_epochs).tolist()
        tasks = [(row, (self._seed, epochs[row], ids[row]), None if targets is None else targets[row])
                 for row in range(num_rows)]
        for i, (process, connection) in enumerate(self._workers):
            try:
                connection.send((block, tasks[i::self._num_workers]))
            except OSError:
                raise self._died(process) from None
        self._sent.append(block)
        self._pending.append((batch, block, targets))

    def next(self, loader, batch_size, targets_of, path_of):
        """The next batch, in the loader's order; None: the epoch has ended.  loader: a _sluice.Loader; targets_of:
        of a batch, its targets or None."""
        while len(self._pending) < _AHEAD and self._ended is None:
            try:
                batch = loader.next()
                self._ended = StopIteration() if batch is None else None
            except _sluice.Error as error:
                self._ended = error  # after the batches that came before it
            if self._ended is not None:
                self._library_ended = time.monotonic()
            else:
                self._send(batch, targets_of(batch), batch_size)
        if not self._pending:
            if isinstance(self._ended, _sluice.Error):
                raise self._ended
            return None
        start = self._waiting_since = time.monotonic()
        try:
            made = self._collect()
        finally:
            self._waiting_since = None
            self.wait_s += time.monotonic() - start
        batch, block, targets = self._pending.pop(0)
        for failed, _ in made:
            if failed is not None:
                sample, text = failed
                raise _sluice.Error(f"python_tail: sample {sample} ({path_of(sample)}): {text}")
        self.num_rows += batch.num_rows
        rows = self._rows_out[block, :batch.num_rows]
        if self.is_image:
            numpy.copyto(numpy.asarray(batch.pixels), rows)
        self.images = None if self.is_image else rows.copy()
        self.targets = None
        if targets is not None:
            self.targets = [made[row % self._num_workers][1][row // self._num_workers] for row in range(len(targets))]
        return batch

    @staticmethod
    def rows_of(targets, dim):
        """Bytes of float32 vectors as rows; where dim is 1, as numbers."""
        vectors = numpy.frombuffer(targets, numpy.float32)
        return vectors.reshape(-1, dim) if dim > 1 else vectors

    def added_to(self, stats):
        """A loader's stats() with the wait for the workers, which the library takes for the loop's own time, as a stall,
        and with the time after the library's last batch, when the workers still have some."""
        stats["python_tail"] = {"samples": self.num_rows, "cpu_s": self.cpu_s, "wait_s": self.wait_s}
        if stats.get("stalls") is not None and stats.get("seconds"):
            of_s = {name: share * stats["seconds"] for name, share in stats["stalls"].items()}
            self._divide(of_s, self.wait_s, self._late_s)
            stats["seconds"] += self._late_s
            stats["samples_per_s"] = stats["samples"] / stats["seconds"]
            stats["stalls"] = {name: spent / stats["seconds"] for name, spent in of_s.items()}
            stats["bound_by"] = max(stats["stalls"], key=stats["stalls"].get)
        return stats

    def counted_in(self, counters):
        """A loader's counters() with the same; any thread."""
        wait_s, late_s = (before + more for before, more in zip(self._before_s, (self.wait_s, self._late_s)))
        now, waiting_since, library_ended = time.monotonic(), self._waiting_since, self._library_ended
        waits_s = 0.0 if waiting_since is None else now - waiting_since
        if library_ended is not None:
            late_s += now - library_ended
        self._divide(counters["wait_s"], wait_s + waits_s, late_s)
        counters["waits_s"] = max(counters["waits_s"], waits_s)
        return counters

    @staticmethod
    def _divide(of_s, wait_s, late_s):
        """The loop's own time in `of_s`, and what came after the library's end, into both parts of it."""
        of_s.update(trainer=max(of_s.get("trainer", 0.0) + late_s - wait_s, 0.0), python_tail=wait_s)

    def stop(self):
        """Any thread: who waits for the workers gets a ClosedError, now and later."""
        self._stopping[1].send(None)

    def close(self):
        """Ends the workers.  Twice is fine."""
        workers, self._workers = self._workers, []
        for process, connection in workers:
            connection.close()
            process.terminate()
        for process, _ in workers:
            process.join()
        self._sent.clear()
        self._pending = []
