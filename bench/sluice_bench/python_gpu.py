"""Training in PyTorch from an offload_server, against the step alone and the loader alone.

usage: gpu DIR [options]

An offload_server of DIR on this machine (none with --mode local) feeds a sluice.torch.Loader, whose
batches train a model of torchvision.  Each round measures by turns, for whole epochs: the loader
alone (a loop without a step), the step alone (on a batch that lies on the device), and both.

Exit codes: 0; 1 if a measurement failed; 77 if a package or the device is missing, or the images do
not fit into the page cache.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from . import hosts, image_files

SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
MODELS = ("resnet18-bf16", "alexnet-bf16", "alexnet-tf32", "alexnet-f32", "resnet18-tf32",
          "resnet18-f32", "resnet50-bf16")
WARM_UP = 10  # steps
LEARNING_RATE = 1e-3  # the rate of a step does not depend on it

torch = torchvision = sluice = None  # imported by main()


class Failed(Exception):
    pass


class Trainer:
    """A model, and a step of it: forward, backward and SGD."""

    def __init__(self, options, name, num_classes):
        architecture, number = name.split("-")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = number == "tf32"
        self.is_bf16 = number == "bf16"
        self.device = options.device
        self.model = getattr(torchvision.models, architecture)(num_classes=num_classes)
        self.model.to(self.device, memory_format=torch.channels_last).train()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=LEARNING_RATE, momentum=0.9,
                                         weight_decay=1e-4)
        size = options.image_size
        self.images = torch.randn(
            options.batch, 3, size, size, device=self.device,
            dtype=torch.bfloat16 if self.is_bf16 else torch.float32).to(
                memory_format=torch.channels_last)
        self.labels = torch.randint(num_classes, (options.batch,), device=self.device)

    def step(self, images, labels):
        with torch.autocast(self.device, torch.bfloat16, enabled=self.is_bf16):
            loss = torch.nn.functional.cross_entropy(self.model(images), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()


def synchronize(device):
    if device == "cuda":
        torch.cuda.synchronize()


def rate(options, loop):
    """Samples per second of what loop() takes, which returns their number."""
    synchronize(options.device)
    start = time.perf_counter()
    num_samples = loop()
    synchronize(options.device)
    return num_samples / (time.perf_counter() - start)


def step_alone(trainer, num_batches):
    for _ in range(num_batches):
        trainer.step(trainer.images, trainer.labels)
    return num_batches * len(trainer.labels)


def loader_alone(loader):
    return sum(len(labels) for _, labels in loader)


def fed(trainer, loader):
    num_samples = 0
    for images, labels in loader:
        trainer.step(images, labels)
        num_samples += len(labels)
    return num_samples


def measure(options, name, source):
    with sluice.torch.Loader(
            source, options.batch, mode=options.mode, workers=options.workers,
            repeat=options.repeat, digest=False,
            **({"recipe": options.recipe} if options.recipe else {"image_size": options.image_size}),
            device=options.device, channels_last=True, drop_last=True,
            dtype=torch.bfloat16 if name.endswith("bf16") else torch.float32) as loader:
        trainer = Trainer(options, name, loader.info["num_classes"])
        num_batches = len(loader)
        if num_batches < 2:
            raise Failed("an epoch has less than 2 batches: raise --repeat")
        kinds = {
            "loader": lambda: loader_alone(loader),
            "step": lambda: step_alone(trainer, min(num_batches, options.steps)),
            "fed": lambda: fed(trainer, loader),
        }
        loader_alone(loader)  # makes the plan, and all memory
        step_alone(trainer, WARM_UP)
        rates = {kind: [] for kind in kinds}
        for number in range(options.rounds):
            order = list(kinds) if number % 2 == 0 else list(kinds)[::-1]
            for kind in order:
                rates[kind].append(rate(options, kinds[kind]))
            print(f"round {number + 1}, {name}: " +
                  ", ".join(f"{kind} {rates[kind][-1]:.0f}/s" for kind in kinds),
                  file=sys.stderr, flush=True)
    return row_of(options, name, num_batches, rates)


def spread(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def row_of(options, name, num_batches, rates):
    """Ratios are of one round."""
    medians = {kind: spread(values) for kind, values in rates.items()}
    of_step = [a / b for a, b in zip(rates["fed"], rates["step"])]
    of_bound = [a / min(b, c) for a, b, c in zip(rates["fed"], rates["step"], rates["loader"])]
    return {
        "name": name, "us": 1e6 / medians["fed"]["median"],
        "reference_us": 1e6 / medians["step"]["median"], "ratio": spread(of_step)["median"],
        "of_step": spread(of_step), "of_bound": spread(of_bound), "fed_per_s": medians["fed"],
        "step_per_s": medians["step"], "loader_per_s": medians["loader"], "batches": num_batches,
        "batch": options.batch, "rounds": options.rounds, "workers": options.workers,
        "prep_workers": options.prep_workers, "recipe": options.recipe, "mode": options.mode or "default"}


def print_table(rows):
    print(f"{'':16} {'fed/s':>7} {'step/s':>7} {'loader/s':>8}  of the step            "
          "of the lesser of both")
    for row in rows:
        print(f"{row['name']:16} " + " ".join(
            f"{row[key]['median']:{width}.0f}"
            for key, width in (("fed_per_s", 7), ("step_per_s", 7), ("loader_per_s", 8))) + "".join(
            f"  {row[key]['median']:.3f} ({row[key]['min']:.3f} to {row[key]['max']:.3f})"
            for key in ("of_step", "of_bound")))


def start_server(options):
    server = hosts.spawn(
        [options.bin / "offload_server", "--root", options.images, "--listen", "127.0.0.1:0",
         "--prep-workers", options.prep_workers, "--log-level", "error"],
        stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    if not line.startswith("listening on "):
        hosts.end(server)
        raise Failed(f"offload_server said {line!r}")
    return server, line.split()[-1]


def models(text):
    found = text.split(",")
    if not set(found) <= set(MODELS):
        raise argparse.ArgumentTypeError(f"{text}: words of {', '.join(MODELS)}")
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="See docs/BENCHMARKING.md.")
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("images", metavar="DIR", type=pathlib.Path,
                        help="folder with a folder of images for each class")
    parser.add_argument("--bin", type=pathlib.Path, default=SOURCE / "build/release/bin",
                        help="folder of the programs. Default: build/release/bin")
    parser.add_argument("--package", type=pathlib.Path,
                        help="folder that holds the package sluice. Default: python beside --bin, "
                        "if there")
    parser.add_argument("--models", type=models, default=list(MODELS[:4]),
                        help=f"of {', '.join(MODELS)}. Default: the first four")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--mode", help="as --dataset-mode of offload_train")
    parser.add_argument("-j", "--workers", type=int, default=cores,
                        help="threads of the loader. Default: one for each core")
    parser.add_argument("--prep-workers", type=int, default=cores,
                        help="threads of the server. Default: one for each core")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=256, help="samples in a batch")
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--recipe", help="a preset of sluice.recipes, of images of --image-size; "
                        "default: random crops and flips")
    parser.add_argument("--repeat", type=int, default=200,
                        help="how often each image comes in an epoch")
    parser.add_argument("--steps", type=int, default=100, help="at most, of the step alone")
    parser.add_argument("--json", action="store_true", help="an object for each row")
    options = parser.parse_args()
    options.images, options.bin = options.images.resolve(), options.bin.resolve()
    if options.package is None and (options.bin.parent / "python").is_dir():
        options.package = options.bin.parent / "python"
    if min(options.rounds, options.batch, options.repeat, options.steps) < 1:
        parser.error("numbers are above 0")
    return options


def import_all(package):
    """Why not, or None."""
    global torch, torchvision, sluice
    if package:
        sys.path.insert(0, str(package))
    try:
        import torch
        import torchvision
        import sluice
        import sluice.torch  # noqa: F401
    except (ImportError, OSError) as error:
        return str(error).splitlines()[0]
    return None


def main():
    options = parse()
    why = import_all(options.package)
    if why is None and options.device == "cuda" and not torch.cuda.is_available():
        why = "there is no GPU"
    if why is None and not image_files.warm(options.images):
        why = "the images take over half of the memory"
    if why is not None:
        print(f"gpu: skipped: {why}", file=sys.stderr)
        return SKIPPED
    device = torch.cuda.get_device_name() if options.device == "cuda" else "cpu"
    print("machine " + json.dumps({**hosts.machine(), "device": device,
                                   "torch": torch.__version__}), file=sys.stderr, flush=True)
    torch.backends.cudnn.benchmark = True
    sluice.set_log_level(sluice.LOG_ERROR)
    rows = []
    server, source = None, options.images
    try:
        if options.mode != "local":
            server, source = start_server(options)
        for name in options.models:
            rows.append(measure(options, name, source))
            if options.json:
                print(json.dumps(rows[-1]), flush=True)
    except Failed as error:
        print(f"gpu: {error}", file=sys.stderr)
        return 1
    finally:
        hosts.end(server)
    if not options.json:
        print_table(rows)
    return 0
