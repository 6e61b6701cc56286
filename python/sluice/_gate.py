"""Gate of sluice.lend: points between the layers of a PyTorch module."""
import contextlib
import functools
import itertools
import logging
import math
import operator
import os
import sys

import torch

from sluice import _sluice
from sluice._loop import HostEvent
from sluice._owner import MOST, Owner, checked

_MEASURED = 2  # the step whose layers are timed: what runs once in the first (cuDNN's choices, say) is not in it
_ANY = range(sys.maxsize)  # every use of a module
_DISTRIBUTED = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "FSDPModule"}

_COMPILED = ("torch.compile makes one function of the layers, with no points between them: train without torch.compile, or lend "
             "without a Gate")

_is_traced = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
_frame_callback = getattr(getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None), "get_eval_frame_callback", lambda: None)


def is_compiled():
    """Whether torch.compile is at work on what runs now: tracing, or after it gave up on a function."""
    return _is_traced() or _frame_callback() not in (None, False)


def spaced(times, points):
    """Which of the times, in ascending order and after 0, get a point, so that with the one at 0 there are `points` at most.

    Greedy: a point as soon as `gap` has passed since the last.  Bisection finds the smallest gap that needs no more points.
    """
    def greedy(gap):
        made, last = [], 0.0
        for i, time in enumerate(times):
            if time > last and time - last >= gap:
                made.append(i)
                last = time
        return made

    low, high, made = 0.0, max(times, default=0.0), []
    for _ in range(30):
        gap = (low + high) / 2
        tried = greedy(gap)
        if len(tried) < points:
            high, made = gap, tried
        else:
            low = gap
    return made


def _tensor_of(output):
    """The first tensor that an op made for backward of what a module returned, or None."""
    if isinstance(output, torch.Tensor):
        output = (output,)
    elif isinstance(output, dict):
        output = output.values()
    elif not isinstance(output, (list, tuple)):
        return None
    return next((item for item in output if isinstance(item, torch.Tensor) and item.grad_fn is not None), None)


def _several_ranks(number):
    return (f"there are {number} ranks, and one that stops would hold the others within a collective: lend the GPU of a "
            "training of one process")


def why_not(model):
    """The reason why points cannot be put between the layers of a module, for an error; None: they can."""
    for module in model.modules():
        names = {base.__name__ for base in type(module).__mro__}
        if "OptimizedModule" in names or getattr(module, "_compiled_call_impl", None) is not None:
            return _COMPILED
        if names & _DISTRIBUTED:
            return (f"{type(module).__name__} is for several GPUs, and one that stops would hold the others within a collective: "
                    "lend the GPU of a training of one process")
    if isinstance(model, torch.jit.ScriptModule):
        return "modules of torch.jit call no hooks: give the module that this one was made of"
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized() and distributed.get_world_size() > 1:
        return _several_ranks(distributed.get_world_size())
    return None


def device_of(model):
    """CUDA's number of the device that the module is on; -1: the host."""
    tensors = itertools.chain(model.parameters(), model.buffers())
    indices = {tensor.device.index for tensor in tensors if tensor.device.type == "cuda"}
    if len(indices) > 1:
        raise _sluice.InvalidError(f"the model is on CUDA devices {sorted(indices)}, and one is lent: put it on one")
    return indices.pop() if indices else -1


def is_capturing_on(index):
    """Whether what is put on the current stream of this CUDA device goes into a graph."""
    with torch.cuda.device(index):
        return torch.cuda.is_current_stream_capturing()


def _nothing(place):
    """Of a layer that has no point."""


class _Hook:
    """Of one module.  Copies of the module, of copy.deepcopy() or pickle, have one that does nothing.  `owner` is set in
    the first hook of a whole model."""

    def __init__(self, module, call, owner=None):
        self._module, self._call, self.owner = module, call, owner

    def __call__(self, module, *args):
        if _is_traced():
            raise _sluice.InvalidError(_COMPILED)
        if module is self._module:
            self._call(*args)

    def __reduce__(self):
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes anything; and it loads where Sluice is missing


class Gate:
    """Points between the layers of a PyTorch module: the stream that trains it waits there until no borrower has the GPU.

        gate = sluice.lend.Gate(model, "/run/gpu0.lend")

    model   on one CUDA device, where training calls it, and stays after this; its layers are modules without children
    lend    a sluice.lend.Owner, a sluice.torch.Loader with lend=, or the path for an Owner of the Gate's own (`owner`)
    points  about how many a step, forward and backward, are to be there

    A step begins with a forward call of the model in training mode, with grad enabled, and lasts until the first such call
    after a backward.  Steps 1 and 2 have one point, at their beginning.  CUDA's events time the layers of step 2, and from
    step 3 on points are as evenly in time as the layers allow.  In backward they are hooks of the layers' output tensors.
    Evaluation has the points of forward.  A CUDA graph that is captured from step 3 on has these points, too; one that is
    captured earlier has them evenly by number.  `num_points` is how many a step has.

    Results of training are those without a Gate, bit for bit: only the time at which work starts changes.

    InvalidError: the model is on another device than the one that is lent, or on several; it is compiled (torch.compile) or
    distributed; the process group has several ranks; an argument.  A model that is compiled later raises it when it runs.
    """

    def __init__(self, model, lend, points=40, *, _event=None):
        if not isinstance(model, torch.nn.Module):
            raise _sluice.InvalidError(f"model={model!r}: a torch.nn.Module")
        reason = why_not(model)
        if reason is not None:
            raise _sluice.InvalidError(f"sluice.lend.Gate: {reason}")
        points = checked("points", points, operator.index, 1, MOST)
        index = device_of(model)
        self._owns = isinstance(lend, (str, os.PathLike))
        if self._owns:
            lend = Owner(lend, device=index)
        self.owner = lend if hasattr(lend, "point") else getattr(lend, "lend", None)
        if self.owner is None:
            raise _sluice.InvalidError("sluice.lend.Gate: lend is an Owner, a Loader that has lend=, or a path")
        if self.owner.device != index:
            names = [f"cuda:{number}" if number >= 0 else "the host" for number in (index, self.owner.device)]
            raise _sluice.InvalidError(f"sluice.lend.Gate: the model is on {names[0]}, and {names[1]} is lent: move the model first")

        self._point = getattr(self.owner, "_lend", self.owner).point
        self._is_cuda = index >= 0
        if not self._is_cuda:
            self._stream = lambda: 0
        elif hasattr(torch._C, "_cuda_getCurrentRawStream"):
            self._stream = functools.partial(torch._C._cuda_getCurrentRawStream, index)
        else:
            self._stream = lambda: torch.cuda.current_stream(index).cuda_stream
        self._event = _event or (torch.cuda.Event if self._is_cuda else HostEvent)
        self._index = index

        self.num_points = 1
        self._wanted = points
        self._steps = 0
        self._is_fresh = True   # what begins is a step, not one more call of this one
        self._measured = None   # [(place, event)] of the step that is timed
        self._is_chosen = False
        self._leaves = [module for module in model.modules()
                        if not any(module.children()) and not isinstance(module, torch.jit.ScriptModule)]
        self._uses = [0] * len(self._leaves)  # of each in this step
        self._hooks = []                      # of the leaves
        self._at = None                       # what they call
        self._root = [model.register_forward_pre_hook(_Hook(model, self._begin, self.owner)),
                      model.register_forward_hook(_Hook(model, self._watch))]
        self._model = model

    def remove(self):
        """Takes the points away; an Owner that the Gate made is closed.  Twice is fine."""
        self._listen({}, {}, None)
        for hook in self._root:
            hook.remove()
        if self._owns:
            self.owner.close()

    # --- the model's own hooks ---

    def _begin(self, inputs):
        """Forward of the model begins."""
        if is_compiled():
            raise _sluice.InvalidError(f"sluice.lend.Gate: {_COMPILED}")
        is_capturing = self._is_cuda and is_capturing_on(self._index)
        if is_capturing:
            self.owner.keep_page()
        is_step = self._model.training and torch.is_grad_enabled()
        is_over = self._is_fresh
        if is_step:
            self._is_fresh = False
        self._point(self._stream())
        if not is_over and (is_step or self._measured is not None and not is_capturing):
            return
        self._uses[:] = [0] * len(self._uses)
        if self._is_chosen:
            return
        if is_capturing:
            self._count()
        elif self._measured is not None:
            self._choose()
        else:
            self._steps += is_step
            if is_step and self._steps == _MEASURED:
                self._measured = []
                self._mark(None)
                self._listen(*self._all(), self._mark)
            elif self._at is not _nothing:
                self._listen({}, self._all()[1], _nothing)  # only to learn of backward, whatever the model returns

    def _watch(self, inputs, output):
        """Forward of the model ends."""
        tensor = _tensor_of(output)
        if tensor is not None:
            tensor.register_hook(self._freshen)

    def _freshen(self, grad):
        """Backward: the next forward is of the next step."""
        self._is_fresh = True

    # --- where the points are ---

    def _mark(self, place):
        event = self._event(enable_timing=True)
        event.record(*[torch.cuda.current_stream(self._index)] if self._is_cuda else [])
        self._measured.append((place, event))

    def _choose(self):
        """By the times of the step before."""
        (_, first), *marks = self._measured
        if marks:
            marks[-1][1].synchronize()
        timed = sorted(((first.elapsed_time(event), place) for place, event in marks), key=lambda pair: pair[0])
        chosen = spaced([time for time, _ in timed], self._wanted)
        forward, backward = {}, {}
        for _, (leaf, use, is_backward) in (timed[i] for i in chosen):
            (backward if is_backward else forward).setdefault(leaf, set()).add(use)
        self._is_chosen = True
        self._measured = None
        self.num_points = 1 + len(chosen)
        self._listen(forward, backward, self._pass)

    def _count(self):
        """A graph is captured before there are times: points evenly by number, as if each layer was used once."""
        every = max(1, math.ceil(2 * len(self._leaves) / self._wanted))
        places = itertools.count(1)
        self._listen(*self._all(), lambda place: next(places) % every or self._pass(place))

    def _pass(self, place):
        if self._is_cuda and torch.cuda.is_current_stream_capturing():  # a part of the model, perhaps
            self.owner.keep_page()
        self._point(self._stream())

    def _all(self):
        return [dict.fromkeys(range(len(self._leaves)), _ANY)] * 2

    def _listen(self, forward, backward, at):
        """at((leaf, use, is_backward)) is called before these uses of leaves in forward, and before their backward.  Each
        is a container of uses, by leaf."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._at = at  # a forward or backward that has begun may still call hooks of an earlier _listen()
        for leaf in sorted({*forward, *backward}):
            module = self._leaves[leaf]
            before, after = self._hooks_of(leaf, forward.get(leaf), backward.get(leaf), at)
            if leaf in forward:
                self._hooks.append(module.register_forward_pre_hook(_Hook(module, before)))
            if leaf in backward:
                self._hooks.append(module.register_forward_hook(_Hook(module, after)))

    def _hooks_of(self, leaf, forward, backward, at):
        uses = self._uses
        is_counted_before = forward is not None

        def before(inputs):
            use = uses[leaf]
            uses[leaf] = use + 1
            if use in forward and at is self._at:
                at((leaf, use, False))

        def after(inputs, output):
            if not is_counted_before:
                uses[leaf] += 1
            use = uses[leaf] - 1
            if use not in backward:
                return
            tensor = _tensor_of(output)
            if tensor is None:
                return

            def before_backward(grad):
                self._is_fresh = True
                if at is self._at:
                    at((leaf, use, True))

            tensor.register_hook(before_backward)

        return before, after


class Lending:
    """What lend= of a sluice.torch.Loader is: an Owner, a point at each batch, and a Gate for the first module that trains."""

    _BATCHES = 3  # after which a loop without such a module gets a warning

    def __init__(self, loader, world_size, device, path, share, allow, at_most_ms):
        if world_size > 1:
            raise _sluice.InvalidError(f"lend: {_several_ranks(world_size)}")
        is_cuda = device is not None and device.type == "cuda"
        self.owner = Owner(path, share, allow, at_most_ms, device.index if is_cuda else -1)
        self.gate = None
        self._device = device
        self._batches = 0
        self._hook = None
        try:
            loader.set_lend(self.owner._lend)
        except BaseException:
            self.owner.close()
            raise
        if is_cuda:
            self._look_for_a_module()

    def next_batch(self):
        self.owner.point()
        if self._hook is not None:
            self._batches += 1
            if self._batches > self._BATCHES:
                self._give_up(f"no torch.nn.Module trained on {self._device} so far, to put points between its layers; "
                              "sluice.lend.Gate(model, loader) does that for a model")

    def stop(self):
        """Of a loader that was dropped, whose CUDA graphs may run still."""
        self._end()
        if self.gate is not None:
            self.gate.remove()
        self.owner.stop()

    def close(self):
        """After the loader."""
        self.stop()
        self.owner.close()

    def _look_for_a_module(self):
        self._hook = torch.nn.modules.module.register_module_forward_pre_hook(self._look)

    def _end(self):
        if self._hook is not None:
            self._hook.remove()
            self._hook = None

    def _give_up(self, reason):
        self._end()
        logging.getLogger("sluice").warning("lend: %s. The GPU is lent between batches only", reason)

    def _look(self, module, inputs):
        """Before forward of any module."""
        if _is_traced() or self._hook is None or not module.training or not torch.is_grad_enabled():
            return
        if not any(parameter.requires_grad and parameter.device == self._device for parameter in module.parameters()):
            return
        hooks = (hook for part in module.modules() for hook in part._forward_pre_hooks.values())
        if any(isinstance(hook, _Hook) and hook.owner is self.owner for hook in hooks):
            self._end()  # the loop made a Gate itself
            return
        if is_compiled():
            self._give_up(_COMPILED)
            return
        try:
            self.gate = Gate(module, self.owner)
        except _sluice.InvalidError as error:
            self._give_up(str(error))
            return
        self._end()
        self.gate._begin(inputs)  # the hooks of this call were listed before
