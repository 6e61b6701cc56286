#!/usr/bin/env python3
"""Compares gradients of a GPU with PyTorch's, in each precision, for every model.

    python3 tests/golden/compare_train_with_pytorch.py BUILD [--models alexnet,...] [--seeds 3]

BUILD is a build folder with CUDA (build/dev-cuda).  Needs numpy, torch with CUDA and torchvision.
Exit code 77 (skipped) without these.

What a precision changes in a result depends on the algorithm, so no exact numbers can be committed.
Errors are compared instead: the distance of a step's gradients from PyTorch's in float64, for the
same weights and batch.  An error is the root mean square, over the parameters and seeds, of
|gradient - wanted| / |wanted|.  Sluice's may be FACTOR times PyTorch's, and a LITTLE for what is
nearly exact in both.
"""

import argparse
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch
    import torchvision
except ImportError as missing:
    print(f"SKIPPED: {missing}")
    sys.exit(77)

import make_train_reference as reference

MODELS = ["small_cnn", "alexnet", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "resnet101",
          "resnet152"]
FACTOR = 1.5
LITTLE = 2.0**-22
SIZE, CLASSES, BATCH = 96, 40, 24


def make_model(name, folder):
    """With the weights that the tool began with."""
    model = (reference.SmallCnn(CLASSES) if name == "small_cnn"
             else getattr(torchvision.models, name)(num_classes=CLASSES))
    state = model.state_dict()
    for key, value in state.items():
        if not key.endswith("num_batches_tracked"):
            data = np.fromfile(os.path.join(folder, "initial", key), np.float32)
            value.copy_(torch.from_numpy(data).view(value.shape))
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    return model


def run_torch(name, folder, precision):
    """The loss and the gradients, in float64."""
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = torch.float64 if precision == "float64" else torch.float32
    model = make_model(name, folder).to("cuda", dtype).train()
    images, labels = reference.make_batch(BATCH, SIZE, CLASSES)
    images, labels = images.to("cuda", dtype), labels.to("cuda")
    if precision != "float64":
        model = model.to(memory_format=torch.channels_last)
        images = images.to(memory_format=torch.channels_last)
    with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
        out = model(images)
    loss = torch.nn.functional.cross_entropy(out.to(dtype), labels)
    loss.backward()
    return loss.item(), {key: p.grad.double().cpu().numpy().ravel()
                         for key, p in model.named_parameters()}


def run_ours(tool, name, folder, precision, seed):
    os.makedirs(os.path.join(folder, "initial"), exist_ok=True)
    arguments = ["cuda", precision, 1, folder, name, SIZE, CLASSES, BATCH, seed, 0, 0, 0, 0]
    done = subprocess.run([tool, *map(str, arguments)], stdout=subprocess.PIPE, check=False,
                          universal_newlines=True)
    if done.returncode == 77:
        print(done.stdout.strip())
        sys.exit(77)
    if done.returncode:
        sys.exit(f"{tool} ended with {done.returncode}")
    grads = {key: np.fromfile(os.path.join(folder, key), np.float32).astype(np.float64)
             for key in os.listdir(folder) if key != "initial"}
    return float(done.stdout), grads


def errors(grads, wanted):
    assert sorted(grads) == sorted(wanted)
    return {key: float(np.linalg.norm(grads[key] - wanted[key]) / np.linalg.norm(wanted[key]))
            for key in wanted if np.linalg.norm(wanted[key]) > 1e-9}


def rms(values):
    return float(np.sqrt(np.mean(np.square(list(values)))))


def compare(tool, name, precision, seeds):
    """Whether our error is small enough."""
    ours, theirs, losses = [], [], []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            loss, grads = run_ours(tool, name, folder, precision, seed)
            wanted_loss, wanted = run_torch(name, folder, "float64")
            torch_loss, torch_grads = run_torch(name, folder, precision)
        ours += [errors(grads, wanted)]
        theirs += [errors(torch_grads, wanted)]
        losses += [(abs(loss - wanted_loss), abs(torch_loss - wanted_loss))]
    our_rms, their_rms = (rms(e for by_name in of for e in by_name.values())
                          for of in (ours, theirs))
    is_ok = our_rms <= FACTOR * their_rms + LITTLE
    worst = max(ours[0], key=lambda key: ours[0][key] / (theirs[0][key] + LITTLE))
    print(f"{'ok  ' if is_ok else 'FAIL'} {name:10} {precision}: {our_rms:.2e}, torch {their_rms:.2e}"
          f" ({our_rms / their_rms:.2f}); most beyond torch's: {worst} {ours[0][worst]:.1e}, "
          f"{theirs[0][worst]:.1e}; losses {rms(l[0] for l in losses):.1e}, "
          f"{rms(l[1] for l in losses):.1e}", flush=True)
    return is_ok


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--precisions", default="fp32,tf32,bf16")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        print("SKIPPED: this torch finds no GPU")
        sys.exit(77)
    torch.backends.cudnn.deterministic = True
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"{torch.cuda.get_device_name()}")
    tool = os.path.join(args.build, "tests", "golden_train_tool")
    results = [compare(tool, name, precision, args.seeds)
               for name in args.models.split(",") for precision in args.precisions.split(",")]
    print("all agree" if all(results) else f"{results.count(False)} of {len(results)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
