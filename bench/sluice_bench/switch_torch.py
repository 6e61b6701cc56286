"""PyTorch's processes of bench/switch.

    python3 -m sluice_bench.switch_torch ROLE --folder DIR [options]

    prepare   writes weights, an input and the outputs to compare with into DIR
    serve     models that stay on the GPU, each run as a CUDA graph: PipeSwitch's "ready model"
    fresh     answers the connection --fd: a process that is started for an inference
    standby   waits with its CUDA context and with weights in pinned memory; for a request it has
              the training at --fd stop after its step, copies the weights and runs the model
    train     steps on synthetic images: of --models, or of what lines of stdin name

serve and standby listen at a free port.  Every role prints a line of JSON when it is ready and, if
it answers requests, one after each connection: the number of answers, and the largest relative
error of their outputs.
"""
import argparse
import contextlib
import json
import math
import mmap
import pathlib
import select
import signal
import socket
import struct
import sys
import time

import torch
import torchvision

from . import switch_wire, train_torch

SIZE = 224
# Scale of what a residual block adds.  Over ResNet-152's 50 blocks the rounding of bfloat16 grows to
# 8 % of the outputs at 1, to 3 % at 0.2.
BRANCH_SCALE = 0.2
WARM_UP = 3  # runs before a graph is captured, as PyTorch's manual has it
IDLE_S = 600  # a server ends if nothing comes for this time
STOP, STOPPED = b"s", b"k"  # to the training, and from it


def say(**fields):
    print(json.dumps(fields), flush=True)


# --- weights ---

def set_seeded(model, make_images):
    """He's initialization (2015), which keeps the scale of activations from layer to layer, and the
    statistics of batch norm as training would leave them: so outputs depend on inputs and on every
    weight, as those of a trained model do."""
    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            if module.bias is not None:
                torch.nn.init.normal_(module.bias, std=0.01)
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = None  # the mean over all batches
            module.reset_running_stats()
        if isinstance(module, torchvision.models.resnet.Bottleneck):
            torch.nn.init.constant_(module.bn3.weight, BRANCH_SCALE)
    if any(isinstance(module, torch.nn.BatchNorm2d) for module in model.modules()):
        model.train()
        with torch.no_grad():
            for _ in range(4):
                model(make_images())


def images_of(batch, generator):
    """Smooth patterns with some noise, so that the images of a batch differ as photographs do."""
    coarse = torch.randn(batch, 3, 7, 7, generator=generator)
    images = torch.nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic",
                                             align_corners=False)
    return images + 0.2 * torch.randn(images.shape, generator=generator)


def write_weights(path, model):
    """float32 in the safetensors format, with torchvision's names."""
    tensors = {name: value.detach().float().cpu().contiguous() for name, value in
               model.state_dict().items() if not name.endswith("num_batches_tracked")}
    header, at = {}, 0
    for name, value in tensors.items():
        end = at + value.numel() * 4
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(value.numpy().tobytes())
    return at


def read_weights(path):
    """A state_dict of views of the file."""
    with open(path, "rb") as file:
        whole = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    size, = struct.unpack("<Q", whole[:8])
    header = json.loads(whole[8:8 + size])
    return {name: torch.frombuffer(
        whole, dtype=torch.float32, offset=8 + size + entry["data_offsets"][0],
        count=math.prod(entry["shape"])).view(entry["shape"]) for name, entry in header.items()}


def make_model(options, name):
    """With its weights, in the host's memory, in the format to run in."""
    make = getattr(torchvision.models, name)
    weights = read_weights(options.folder / f"{name}.safetensors")
    if int(torch.__version__.split(".")[0]) >= 2:  # without initial values, which take a second
        with torch.device("meta"):
            model = make()
        model.load_state_dict(weights, strict=False, assign=True)
        for module in model.modules():
            for key, buffer in module.named_buffers(recurse=False):
                if buffer.is_meta:  # num_batches_tracked
                    setattr(module, key, torch.zeros(buffer.shape, dtype=buffer.dtype))
    else:
        model = make()
        model.load_state_dict(weights, strict=False)
    return model.eval().to(dtype_of(options), memory_format=torch.channels_last)


def dtype_of(options):
    return torch.bfloat16 if options.precision == "bf16" else torch.float32


def synchronize(options):
    if options.device == "cuda":
        torch.cuda.synchronize()


def empty_cache(options):
    if options.device == "cuda":
        torch.cuda.empty_cache()


def pinned(options, tensor):
    return tensor.pin_memory() if options.device == "cuda" else tensor


def relative_error(found, wanted):
    """NaN, and so not below any limit, where an output is not a number."""
    return ((found - wanted).norm() / wanted.norm()).item()


def copy_rate(options):
    """GB/s from pinned memory."""
    if options.device != "cuda":
        return None
    source = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    target = torch.empty_like(source, device="cuda")
    rates = []
    for _ in range(6):
        torch.cuda.synchronize()
        start = time.perf_counter()
        target.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        rates.append(source.numel() / (time.perf_counter() - start) / 1e9)
    return max(rates)


def prepare(options):
    options.folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)
    images = images_of(options.batch, generator)
    images.numpy().tofile(options.folder / "input.f32")
    found = {}
    for name in options.models:
        torch.manual_seed(1)
        model = getattr(torchvision.models, name)().to(options.device)
        set_seeded(model, lambda: images_of(options.batch, generator).to(options.device))
        size = write_weights(options.folder / f"{name}.safetensors", model)
        with torch.no_grad():
            logits, others = (model.eval()(one.to(options.device)).float().cpu()
                              for one in (images, images_of(options.batch, generator)))
        logits.numpy().tofile(options.folder / f"{name}.logits.f32")
        found[name] = {
            "bytes": size, "parameters": len(list(model.parameters())),
            # How far the outputs of other images are, at least.
            "spread": min(relative_error(*pair) for pair in zip(others, logits))}
        del model
    say(models=found, torch=torch.__version__, torchvision=torchvision.__version__,
        cudnn=torch.backends.cudnn.version(), copy_gb_per_s=copy_rate(options),
        device=torch.cuda.get_device_name() if options.device == "cuda" else "cpu")


# --- inference ---

class Runner:
    """A model that was copied to the device."""

    def __init__(self, options, model):
        self.options = options
        self.model = model.to(options.device, non_blocking=True)
        self.images = torch.empty(options.batch, 3, SIZE, SIZE, device=options.device)
        self.graph = None

    def forward(self):
        with torch.no_grad():
            return self.model(self.images.to(dtype_of(self.options),
                                             memory_format=torch.channels_last)).float()

    def capture(self):
        if self.options.device != "cuda":
            return
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.forward()
        torch.cuda.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.logits = self.forward()

    def run(self, rows):
        """Of images in pinned memory; returns when the outputs are there."""
        self.images.copy_(rows, non_blocking=True)
        if self.graph:
            self.graph.replay()
        else:
            self.logits = self.forward()
        synchronize(self.options)
        return self.logits


class Outputs:
    """Outputs, kept on the device and compared when no request waits."""

    def __init__(self, options):
        self.options = options
        self.kept = []

    def keep(self, name, logits):
        self.kept.append((name, logits.clone()))

    def compare(self):
        """Says the number of outputs, and the largest relative error."""
        wanted = {}
        worst = 0.0
        for name, logits in self.kept:
            if name not in wanted:
                wanted[name] = torch.from_file(
                    str(self.options.folder / f"{name}.logits.f32"),
                    size=logits.numel()).view(logits.shape).to(logits.device)
            error = relative_error(logits, wanted[name])
            worst = max(worst, error if math.isfinite(error) else math.inf)
        say(answers=len(self.kept), worst=worst)
        self.kept.clear()


def make_rows(options):
    """Memory for a request."""
    return torch.empty(options.batch, 3, SIZE, SIZE, pin_memory=options.device == "cuda")


class Requests:
    """The requests of one connection, whose data come into `rows`."""

    def __init__(self, connection, rows):
        self.connection = connection
        connection.settimeout(IDLE_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rows = rows
        self.view = memoryview(rows.numpy()).cast("B")

    def each(self, models, on_name=lambda: None):
        """The name of each request's model; on_name() is called before its data are received."""
        while True:
            task = switch_wire.read_task(self.connection)
            if task is None:
                return
            name = task[:-len("_inference")]
            if not task.endswith("_inference") or name not in models:
                raise switch_wire.WireError(f"{task} is not served here")
            on_name()
            if switch_wire.read_size(self.connection) != len(self.view):
                raise switch_wire.WireError(f"{task} takes {len(self.view)} bytes of data")
            if not switch_wire.receive_into(self.connection, self.view):
                raise switch_wire.WireError(f"the connection ended before the data of {task}")
            yield name

    def reply(self):
        self.connection.sendall(switch_wire.DONE)


def answer_all(options, answer, outputs):
    """Calls answer(requests) for each connection to a free port, of which it tells."""
    rows = make_rows(options)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(IDLE_S)
        say(port=listener.getsockname()[1])
        while True:
            connection, _ = listener.accept()
            with connection:
                try:
                    answer(Requests(connection, rows))
                except switch_wire.WireError as error:
                    print(f"switch_torch: {error}", file=sys.stderr)
                    with contextlib.suppress(OSError):
                        connection.sendall(switch_wire.FAILED)
            outputs.compare()


def serve(options):
    torch.backends.cudnn.benchmark = True
    runners = {name: Runner(options, make_model(options, name)) for name in options.models}
    for runner in runners.values():
        runner.images.normal_()
        runner.capture()
    outputs = Outputs(options)

    def answer(requests):
        for name in requests.each(runners):
            logits = runners[name].run(requests.rows)
            requests.reply()
            outputs.keep(name, logits)

    answer_all(options, answer, outputs)


def fresh(options):
    """The first request is run layer by layer, as soon as the weights are there; then a graph is
    captured for those that follow."""
    outputs, runners = Outputs(options), {}
    with socket.socket(fileno=options.fd) as connection:
        requests = Requests(connection, make_rows(options))
        for name in requests.each(options.models):
            is_first = name not in runners
            if is_first:
                runners[name] = Runner(options, make_model(options, name))
            logits = runners[name].run(requests.rows)
            requests.reply()
            outputs.keep(name, logits)
            if is_first:
                runners[name].capture()
    outputs.compare()


def standby(options):
    models, homes = {}, {}
    for name in options.models:
        models[name] = make_model(options, name)
        homes[name] = [(tensor, pinned(options, tensor.data))
                       for tensor in (*models[name].parameters(), *models[name].buffers())
                       if tensor.is_floating_point()]  # not the counters of batches
    training = socket.socket(fileno=options.fd)
    training.settimeout(switch_wire.LIMIT_S)
    torch.zeros(1, device=options.device)  # makes the context
    outputs = Outputs(options)

    def answer(requests):
        for name in requests.each(models, lambda: training.sendall(STOP)):
            if training.recv(1) != STOPPED:
                raise switch_wire.WireError("the training ended")
            for tensor, home in homes[name]:
                tensor.data = home.to(options.device, non_blocking=True)
            logits = Runner(options, models[name]).run(requests.rows)
            requests.reply()
            outputs.keep(name, logits)
            for tensor, home in homes[name]:
                tensor.data = home
            del logits
            empty_cache(options)

    answer_all(options, answer, outputs)


# --- training ---

def train(options):
    """Trains options.models[0]; with --fd what a line of stdin names, until it is told to stop.
    Each step is waited for, as in the published program, which prints its loss."""
    control = socket.socket(fileno=options.fd) if options.fd is not None else None
    while True:
        name = options.models[0]
        if control:
            say(state="idle")
            name = sys.stdin.readline().strip()
            if not name:
                return
        step = train_torch.make_step(name, argparse.Namespace(
            precision=options.precision, batch=options.train_batch, image_size=SIZE,
            device=options.device, compile=False))
        for _ in range(WARM_UP):
            step()
        synchronize(options)
        say(state="trains")
        while not (control and select.select([control], [], [], 0)[0]):
            step()
            synchronize(options)
        if not control.recv(1):
            return
        del step
        empty_cache(options)
        control.sendall(STOPPED)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    roles = {role.__name__: role for role in (prepare, serve, fresh, standby, train)}
    parser.add_argument("role", choices=roles)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--models", type=lambda text: text.split(","), default=["resnet152"])
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--train-batch", type=int, default=32)
    parser.add_argument("--precision", choices=("bf16", "tf32", "fp32"), default="bf16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--fd", type=int)
    options = parser.parse_args()
    # MPS wants its clients to end between two kernels.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = \
        options.precision == "tf32" and options.role != "prepare"
    roles[options.role](options)


if __name__ == "__main__":
    main()
