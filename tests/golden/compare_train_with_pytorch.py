#!/usr/bin/env python3
"""Trains the models of train_reference.txt with Sluice and with PyTorch, in float32 and in TF32.

    python3 tests/golden/compare_train_with_pytorch.py BUILD [--device cuda] [--seeds 16]

BUILD is a build folder with CUDA (build/dev-cuda).  Needs numpy and torch, with CUDA for --device
cuda; torchvision is not needed.  Exit code 77 (skipped) without these.

TF32 rounds the factors of a product to 10-bit mantissas.  What this changes in a result depends on
the algorithm, so no exact numbers can be committed.  Errors are compared instead: each run's
distance from PyTorch in float64.  Over all seeds, the root mean square of Sluice's TF32 errors must
be at most FACTOR times PyTorch's, and a little for what is nearly exact in both.  After step 0 it is
LATER_FACTOR, as the steps magnify by chance what the first rounded.

With --device cpu Sluice has no TF32; PyTorch's is emulated by rounding every factor.  That shows how
large the errors are (test_train_reference.c takes its tolerances from it).
"""

import argparse
import copy
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

import make_train_reference as reference

FACTOR = 2
LATER_FACTOR = 4
# Its 57 million parameters take long, and its gradients are enough of a sample.
MAX_ALEXNET_SEEDS = 2
# In losses near 2.3, and relative to a gradient's norm: an eighth of one factor's rounding.
LITTLE = 2.0**-14
# float32 has these where the seed keeps every value away from jumps: as test_train_reference.c.
FLOAT32_LOSS = 1e-4
FLOAT32_GRAD = 5e-4


class Block(torch.nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, channels, out, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(out)
        self.conv2 = torch.nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(out)
        self.downsample = None
        if stride != 1 or channels != out:
            self.downsample = torch.nn.Sequential(
                torch.nn.Conv2d(channels, out, 1, stride, bias=False), torch.nn.BatchNorm2d(out))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (self.downsample(x) if self.downsample else x))


class Resnet18(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(64)
        self.maxpool = torch.nn.MaxPool2d(3, 2, 1)
        channels = 64
        for stage in range(4):
            out = 64 << stage
            blocks = [Block(channels, out, 2 if stage else 1), Block(out, out, 1)]
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(*blocks))
            channels = out
        self.fc = torch.nn.Linear(channels, num_classes)

    def forward(self, x):
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean(dim=(2, 3)))


class Alexnet(torch.nn.Module):
    def __init__(self, num_classes, seed, dropout):
        super().__init__()
        nn = torch.nn
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
            nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2))
        self.classifier = nn.Sequential(
            reference.FixedDropout(seed, 14, dropout), nn.Linear(9216, 4096), nn.ReLU(),
            reference.FixedDropout(seed, 17, dropout), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, num_classes))

    def forward(self, x):
        x = torch.nn.functional.adaptive_avg_pool2d(self.features(x), 6)
        return self.classifier(x.flatten(1))


def make_model(name, num_classes, seed, dropout):
    if name == "alexnet":
        return Alexnet(num_classes, seed, dropout)
    return Resnet18(num_classes) if name == "resnet18" else reference.SmallCnn(num_classes)


def rounded(x):
    """To the nearest float32 with a mantissa of 10 bits."""
    bits = x.float().contiguous().view(torch.int32)
    bits = (bits + 0x0FFF + ((bits >> 13) & 1)) & ~0x1FFF
    return bits.view(torch.float32).to(x.dtype)


class RoundedProduct(torch.autograd.Function):
    """product(x, weight), bilinear, with rounded factors in all three passes."""

    @staticmethod
    def forward(ctx, x, weight, product):
        ctx.save_for_backward(x, weight)
        ctx.product = product
        return product(rounded(x), rounded(weight))

    @staticmethod
    def backward(ctx, diff):
        with torch.enable_grad():
            x, weight = (rounded(t).requires_grad_() for t in ctx.saved_tensors)
            out = ctx.product(x, weight)
        return (*torch.autograd.grad(out, (x, weight), rounded(diff)), None)


def emulate_tf32(model):
    def forward(module):
        def product(x, weight):
            if isinstance(module, torch.nn.Linear):
                return torch.nn.functional.linear(x, weight)
            return torch.nn.functional.conv2d(x, weight, None, module.stride, module.padding)

        def call(x):
            out = RoundedProduct.apply(x, module.weight, product)
            if module.bias is None:
                return out
            return out + (module.bias[:, None, None] if out.dim() == 4 else module.bias)
        return call

    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            module.forward = forward(module)


def initial_model(case, seed):
    name, _, num_classes, *_, dropout = case
    model = make_model(name, num_classes, seed, dropout)
    reference.set_weights(model, name, seed)
    return model


def run_torch(case, initial, device, precision):
    """The losses of all steps and the gradients of the first, as float64 arrays."""
    _, size, num_classes, n, _, lr, momentum, decay, _ = case
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.backends.cudnn.deterministic = True
    model = copy.deepcopy(initial)
    dtype = torch.float64 if precision == "float64" else torch.float32
    model.to(device, dtype).train()
    if precision == "tf32" and device == "cpu":
        emulate_tf32(model)
    images, labels = reference.make_batch(n, size, num_classes)
    images, labels = images.to(device, dtype), labels.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    losses, grads = [], {}
    for step in range(reference.STEPS):
        for module in model.modules():
            if isinstance(module, reference.FixedDropout):
                module.step = step
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images).double(), labels)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            grads = {name: p.grad.double().cpu().numpy().ravel().copy()
                     for name, p in model.named_parameters()}
        optimizer.step()
    return losses, grads


def run_ours(tool, case, seed, device, precision):
    name, size, num_classes, n, _, *rest = case
    with tempfile.TemporaryDirectory() as folder:
        arguments = [device, precision, reference.STEPS, folder, name, size, num_classes, n, seed,
                     *rest]
        done = subprocess.run([tool, *map(str, arguments)], stdout=subprocess.PIPE, check=False,
                              universal_newlines=True)
        if done.returncode == 77:
            print(done.stdout.strip())
            sys.exit(77)
        if done.returncode:
            sys.exit(f"{tool} ended with {done.returncode}")
        grads = {name: np.fromfile(os.path.join(folder, name), np.float32).astype(np.float64)
                 for name in os.listdir(folder)}
    return [float(line) for line in done.stdout.split()], grads


def grad_error(grads, wanted):
    """The norm of the difference, by that of what is wanted, for each parameter."""
    assert sorted(grads) == sorted(wanted)
    return {name: float(np.linalg.norm(grads[name] - wanted[name]) / np.linalg.norm(wanted[name]))
            for name in wanted}


def norm_error(grads, wanted):
    return {name: abs(float(np.linalg.norm(grads[name]) / np.linalg.norm(wanted[name])) - 1)
            for name in wanted}


def rms(values):
    return float(np.sqrt(np.mean(np.square(list(values)))))


def golden_losses(path):
    losses, name = {}, None
    with open(path, encoding="ascii") as lines:
        for words in map(str.split, lines):
            if words[0] == "case":
                name = words[1]
            elif words[0] == "loss":
                losses.setdefault(name, []).append(float(words[2]))
    return losses


class Comparison:
    def __init__(self):
        self.num_failures = 0

    def check(self, what, ours, limit):
        ok = ours <= limit
        self.num_failures += not ok
        print(f"    {'ok  ' if ok else 'FAIL'} {what}: {ours:.2e}, at most {limit:.2e}")

    def compare(self, case, args, tool, golden):
        name, own_seed = case[0], case[4]
        precisions = ["float32", "tf32"] if args.device == "cuda" else ["float32"]
        loss_errors, grad_errors = {}, {}
        print(f"{name}: losses, and the gradients' relative error")
        num_seeds = min(args.seeds, MAX_ALEXNET_SEEDS) if name == "alexnet" else args.seeds
        for seed in range(own_seed, own_seed + num_seeds):
            initial = initial_model(case, seed)
            wanted, wanted_grads = run_torch(case, initial, args.device, "float64")
            print(f"  seed {seed:<6} torch float64 " + " ".join(f"{loss:.7f}" for loss in wanted))
            if seed == own_seed:
                off = max(abs(a - b) for a, b in zip(wanted, golden))
                self.check("torch float64 against train_reference.txt", off, 1e-6)
            runs = [("torch", p, run_torch(case, initial, args.device, p))
                    for p in ("float32", "tf32")]
            runs += [("ours", p, run_ours(tool, case, seed, args.device, p)) for p in precisions]
            for who, precision, (losses, grads) in runs:
                by_name = grad_error(grads, wanted_grads)
                norms = norm_error(grads, wanted_grads)
                print(f"  {'':<11} {who:>5} {precision:<7} "
                      + " ".join(f"{loss:.7f}" for loss in losses)
                      + f"  gradients {rms(by_name.values()):.1e}, worst {max(by_name.values()):.1e}"
                      + f", of norms {max(norms.values()):.1e}")
                key = (who, precision)
                loss_errors.setdefault(key, []).append(np.subtract(losses, wanted))
                grad_errors.setdefault(key, []).append(rms(by_name.values()))

        ours = ("ours", "float32")
        self.check("float32, first loss of the reference's seed",
                   abs(loss_errors[ours][0][0]), FLOAT32_LOSS)
        self.check("float32, gradients of the reference's seed", grad_errors[ours][0], FLOAT32_GRAD)
        ours, torchs = ("ours", "tf32"), ("torch", "tf32")
        for step in range(reference.STEPS):
            what = f"TF32, loss of step {step}"
            theirs = rms(e[step] for e in loss_errors[torchs])
            if ours in loss_errors:
                self.check(what, rms(e[step] for e in loss_errors[ours]),
                           (LATER_FACTOR if step else FACTOR) * theirs + LITTLE)
            else:
                print(f"         {what}: {theirs:.2e} emulated")
        theirs = rms(grad_errors[torchs])
        if ours in grad_errors:
            self.check("TF32, gradients", rms(grad_errors[ours]), FACTOR * theirs + LITTLE)
            # A run that did not use TF32 at all would pass the checks above.
            self.check("float32's gradients, which TF32's errors must exceed",
                       rms(grad_errors["ours", "float32"]), rms(grad_errors[ours]) / 4)
        else:
            print(f"         TF32, gradients: {theirs:.2e} emulated")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seeds", type=int, default=16, help="from the reference's on")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        print("SKIPPED: this torch finds no GPU")
        sys.exit(77)
    where = torch.cuda.get_device_name() if args.device == "cuda" else "CPU, TF32 emulated"
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {where}")
    tool = os.path.join(args.build, "tests", "golden_train_tool")
    folder = os.path.dirname(os.path.abspath(__file__))
    golden = golden_losses(os.path.join(folder, "train_reference.txt"))
    comparison = Comparison()
    for case in reference.CASES:
        comparison.compare(case, args, tool, golden[case[0]])
    print(f"{comparison.num_failures} checks failed" if comparison.num_failures else "all agree")
    sys.exit(1 if comparison.num_failures else 0)


if __name__ == "__main__":
    main()
