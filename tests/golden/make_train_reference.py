#!/usr/bin/env python3
"""Writes train_reference.txt: what PyTorch computes for three steps of four models.

    python3 tests/golden/make_train_reference.py [-o FILE]

Needs numpy, torch and torchvision (Debian: python3-torch python3-torchvision).  Everything that
goes in is a formula, so that nothing large is committed: initial weights and dropout masks come
from Philox4x32-10 as net.h says, pixels and labels from integer hashes.  PyTorch computes in
float64, so that the differences a test finds are its own.
A gradient jumps where a ReLU's input changes sign or a maximum moves to its neighbour, which
float32 rounding may do to a value that is close enough.  So the seeds below are ones that keep
step 0 MARGIN away from every such jump, which the script checks; --find-seeds looks for others.

The file, one fact per line:
    case MODEL IMAGE_SIZE NUM_CLASSES BATCH SEED LR MOMENTUM WEIGHT_DECAY DROPOUT
    fill SUFFIX VALUE                   initial value of the parameters whose names end so
    loss STEP VALUE                     mean cross-entropy before the step
    hits STEP TOP1 TOP5
    grad NAME NORM COUNT                gradient of step 0: its L2 norm, then COUNT elements:
    INDEX VALUE
    after NAME COUNT                    the parameter (or running statistic) after all steps
    INDEX VALUE
    evaluate LOSS TOP1 TOP5             the same batch in evaluation mode, after all steps
"""

import argparse
import math
import os

import numpy as np
import torch

STEPS = 3
SAMPLES_PER_PARAM = 6
MARGIN = 3e-6

CASES = [
    # model, image size, classes, batch, seed, lr, momentum, weight decay, dropout
    ("alexnet", 64, 10, 4, 15, 0.01, 0.9, 5e-4, 0.5),
    ("resnet18", 48, 10, 6, 20, 0.002, 0.9, 1e-4, 0.0),
    ("resnet50", 33, 10, 3, 31, 0.002, 0.9, 1e-4, 0.0),
    ("small_cnn", 40, 7, 6, 13, 0.05, 0.9, 0.05, 0.0),
]

# Parameters that start at another value, by the end of their names.  The last batch norm of a block of resnet50 starts at
# 1 in torchvision; then gradients grow from block to block, and with a batch of 3 float32 has errors of 5 % in some of them,
# in PyTorch as in ours.  With 0.2 they stay below 1e-5.
FILLS = {"resnet50": ("bn3.weight", 0.2)}


def philox(key, counter):
    """Philox4x32-10 on arrays: counter is four uint64 arrays holding 32-bit values."""
    mask = np.uint64(0xFFFFFFFF)
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    c0, c1, c2, c3 = counter
    for _ in range(10):
        p0 = np.uint64(0xD2511F53) * c0
        p1 = np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (
            (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
            p1 & mask,
            (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
            p0 & mask,
        )
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=-1)


def words(seed, count, c1, c2, c3):
    blocks = np.arange((count + 3) // 4, dtype=np.uint64)
    full = lambda value: np.full_like(blocks, value)
    return philox(seed, (blocks, full(c1), full(c2), full(c3)))


def unit(w):
    return (w.astype(np.float64) + 0.5) * 2.0**-32


def uniform(seed, param, count, fan):
    w = words(seed, count, 0, param, 0x49000000)
    values = (2 * unit(w) - 1) * (1.0 / math.sqrt(fan))
    return values.reshape(-1)[:count].astype(np.float32)


def normal(seed, param, count, fan):
    w = unit(words(seed, count, 0, param, 0x49000000))
    radius = math.sqrt(2.0 / fan) * np.sqrt(-2 * np.log(w[:, 0::2]))
    angle = 2 * math.pi * w[:, 1::2]
    values = np.empty_like(w)
    values[:, 0::2] = radius * np.cos(angle)
    values[:, 1::2] = radius * np.sin(angle)
    return values.reshape(-1)[:count].astype(np.float32)


def dropout_mask(seed, step, layer, p, shape):
    count = int(np.prod(shape))
    w = words(seed, count, step & 0xFFFFFFFF, step >> 32, 0x44000000 | layer)
    keep = w.reshape(-1)[:count] >= np.uint64(int(p * 2**32))
    return torch.from_numpy(keep.reshape(shape) * (1 / (1 - p)))


class FixedDropout(torch.nn.Module):
    """Drops what the formula says; `layer` is the index of the layer in sluice's net."""

    def __init__(self, seed, layer, p):
        super().__init__()
        self.seed, self.layer, self.p, self.step = seed, layer, p, 0

    def forward(self, x):
        if not self.training or self.p == 0:
            return x
        return x * dropout_mask(self.seed, self.step, self.layer, self.p, tuple(x.shape)).to(x)


class SmallCnn(torch.nn.Module):
    def __init__(self, num_classes):
        super().__init__()
        layers, channels = [], 3
        for stage in range(4):
            out = 32 << stage
            layers += [torch.nn.Conv2d(channels, out, 3, stride=2, padding=1, bias=False),
                       torch.nn.BatchNorm2d(out), torch.nn.ReLU()]
            channels = out
        self.features = torch.nn.Sequential(*layers)
        self.classifier = torch.nn.Linear(channels, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).mean(dim=(2, 3)))


def make_model(name, num_classes, seed, dropout):
    import torchvision  # here, as compare_train_with_pytorch.py needs none
    if name == "alexnet":
        model = torchvision.models.alexnet(num_classes=num_classes)
        model.classifier[0] = FixedDropout(seed, 14, dropout)
        model.classifier[3] = FixedDropout(seed, 17, dropout)
        return model
    if name.startswith("resnet"):
        return getattr(torchvision.models, name)(num_classes=num_classes)
    return SmallCnn(num_classes)


def set_weights(model, name, seed):
    """Parameter numbers count the state_dict without num_batches_tracked."""
    tensors = [(n, t) for n, t in model.state_dict().items() if "num_batches" not in n]
    fan_in = 0
    for param, (tensor_name, tensor) in enumerate(tensors):
        count = tensor.numel()
        if tensor.dim() == 4:
            fan_in = tensor[0].numel()
            if name == "alexnet":
                values = uniform(seed, param, count, fan_in)
            else:
                values = normal(seed, param, count, tensor.shape[0] * tensor[0, 0].numel())
        elif tensor.dim() == 2:
            fan_in = tensor.shape[1]
            values = uniform(seed, param, count, fan_in)
        elif name == "alexnet" or tensor_name in ("fc.bias", "classifier.bias"):
            values = uniform(seed, param, count, fan_in)
        elif tensor_name.endswith(("bias", "running_mean")):
            values = np.zeros(count, np.float32)
        else:
            values = np.ones(count, np.float32)
        if name in FILLS and tensor_name.endswith(FILLS[name][0]):
            values[:] = FILLS[name][1]
        tensor.copy_(torch.from_numpy(values.reshape(tuple(tensor.shape))))
    return [tensor_name for tensor_name, _ in tensors]


def make_batch(n, size, num_classes):
    """Pixel i is the top byte of a 32-bit hash of i; the table is (v / 255 - mean) / std."""
    i = np.arange(n * size * size * 3, dtype=np.uint64)
    hashed = (i * np.uint64(2654435761) + np.uint64(12345)) & np.uint64(0xFFFFFFFF)
    hashed = ((hashed ^ (hashed >> np.uint64(15))) * np.uint64(2246822519)) & np.uint64(0xFFFFFFFF)
    pixels = (hashed >> np.uint64(24)).astype(np.uint8).reshape(n, size, size, 3)
    mean = np.array([0.485, 0.456, 0.406], np.float32)
    std = np.array([0.229, 0.224, 0.225], np.float32)
    value = np.arange(256, dtype=np.float32) / np.float32(255)
    table = (value[None, :] - mean[:, None]) / std[:, None]
    images = np.stack([table[c][pixels[..., c]] for c in range(3)], axis=1)
    labels = [(s * 7 + 3) % num_classes for s in range(n)]
    return torch.from_numpy(images), torch.tensor(labels)


def sampled(tensor):
    """The same indices as the test needs no list of: they are in the file."""
    flat = tensor.detach().reshape(-1)
    count = min(SAMPLES_PER_PARAM, flat.numel())
    indices = sorted({(k * 2654435761 + 17) % flat.numel() for k in range(count)})
    return [(i, flat[i].item()) for i in indices]


def write_samples(out, head, samples):
    out.write(f"{head} {len(samples)}\n")
    for index, value in samples:
        out.write(f"{index} {value:.9e}\n")


def hits(logits, labels):
    own = logits.gather(1, labels[:, None])
    rank = (logits > own).sum(dim=1)
    return int((rank < 1).sum()), int((rank < 5).sum())


class Margin:
    """The least distance from a jump of the gradient that a forward pass had, where it matters:
    a tie of two zeros passes no gradient through the ReLU before it."""

    def __init__(self, model):
        self.least = math.inf
        for module in model.modules():
            if isinstance(module, torch.nn.ReLU):
                module.inplace = False
                module.register_forward_hook(self.relu)
            elif isinstance(module, torch.nn.MaxPool2d):
                module.register_forward_hook(self.maxpool)

    def relu(self, module, inputs, output):
        self.least = min(self.least, inputs[0].detach().abs().min().item())

    def maxpool(self, module, inputs, output):
        x = inputs[0].detach()
        pad = module.padding
        x = torch.nn.functional.pad(x, (pad, pad, pad, pad), value=-1)
        windows = x.unfold(2, module.kernel_size, module.stride)
        windows = windows.unfold(3, module.kernel_size, module.stride)
        best = windows.flatten(4).topk(2, dim=4).values
        gaps = (best[..., 0] - best[..., 1])[best[..., 0] > 0]
        self.least = min(self.least, gaps.min().item() if gaps.numel() else math.inf)


def prepare(model_name, size, num_classes, n, seed, dropout):
    model = make_model(model_name, num_classes, seed, dropout)
    names = set_weights(model, model_name, seed)
    model.double().train()
    images, labels = make_batch(n, size, num_classes)
    return model, names, images.double(), labels


def find_seed(model_name, size, num_classes, n, seed, lr, momentum, decay, dropout):
    while True:
        model, _, images, _ = prepare(model_name, size, num_classes, n, seed, dropout)
        margin = Margin(model)
        with torch.no_grad():
            model(images)
        print(model_name, seed, margin.least, flush=True)
        if margin.least >= MARGIN:
            return
        seed += 1


def run_case(out, model_name, size, num_classes, n, seed, lr, momentum, decay, dropout):
    out.write(f"case {model_name} {size} {num_classes} {n} {seed} {lr} {momentum} {decay} "
              f"{dropout}\n")
    if model_name in FILLS:
        out.write("fill %s %g\n" % FILLS[model_name])
    model, names, images, labels = prepare(model_name, size, num_classes, n, seed, dropout)
    margin = Margin(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, weight_decay=decay)
    parameters = dict(model.named_parameters())
    for step in range(STEPS):
        for module in model.modules():
            if isinstance(module, FixedDropout):
                module.step = step
        optimizer.zero_grad()
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        loss.backward()
        out.write(f"loss {step} {loss.item():.9e}\n")
        out.write("hits %d %d %d\n" % ((step,) + hits(logits, labels)))
        if step == 0:
            if margin.least < MARGIN:
                raise SystemExit(f"{model_name}: margin {margin.least}: use --find-seeds")
            for name in names:
                if name in parameters:
                    grad = parameters[name].grad
                    write_samples(out, f"grad {name} {grad.norm().item():.9e}", sampled(grad))
        optimizer.step()
    state = model.state_dict()
    for name in names:
        write_samples(out, f"after {name}", sampled(state[name])[:3])
    model.eval()
    with torch.no_grad():
        logits = model(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
    out.write("evaluate %.9e %d %d\n" % ((loss.item(),) + hits(logits, labels)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train_reference.txt")
    parser.add_argument("-o", dest="path", default=default)
    parser.add_argument("--find-seeds", action="store_true")
    args = parser.parse_args()
    path = args.path
    torch.set_num_threads(2)
    import torchvision
    if args.find_seeds:
        for case in CASES:
            find_seed(*case)
        return
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# torch {torch.__version__}, torchvision {torchvision.__version__}, float64\n")
        for case in CASES:
            run_case(out, *case)


if __name__ == "__main__":
    main()
