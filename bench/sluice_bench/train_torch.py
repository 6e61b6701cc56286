"""Measures PyTorch's training step, to compare with bench_train.

    python3 -m sluice_bench.train_torch [--models resnet50,...] [--batch 256] [--compile]

Needs torch with CUDA and torchvision.  Pixels and labels are on the GPU; a step converts u8 pixels,
runs forward and backward, and SGD with momentum.  channels_last, cudnn.benchmark.  `bf16` has weights
and activations in bfloat16, `autocast` float32 weights.
"""

import argparse
import statistics
import time

import torch
import torchvision


def make_step(name, options):
    model = getattr(torchvision.models, name)(num_classes=1000).to(options.device).train()
    model = model.to(memory_format=torch.channels_last)
    dtype = torch.bfloat16 if options.precision == "bf16" else torch.float32
    model = model.to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9, weight_decay=1e-4)
    run = torch.compile(model) if options.compile else model
    size = options.image_size
    pixels = torch.randint(0, 256, (options.batch, 3, size, size), dtype=torch.uint8,
                           device=options.device)
    pixels = pixels.to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (options.batch,), device=options.device)

    def step():
        images = pixels.to(dtype).sub_(118).div_(58)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "autocast"):
            logits = run(images)
        torch.nn.functional.cross_entropy(logits.float(), labels).backward()
        optimizer.step()

    return step


def measure(name, options):
    """Images per second, the median of the rounds."""
    step = make_step(name, options)
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    rates = []
    for _ in range(options.rounds):
        start = time.perf_counter()
        for _ in range(options.steps):
            step()
        torch.cuda.synchronize()
        rates.append(options.batch * options.steps / (time.perf_counter() - start))
    return statistics.median(rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="resnet18,resnet50,vgg16,alexnet")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=20, help="in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--precision", default="bf16", choices=["bf16", "autocast", "tf32", "fp32"])
    parser.add_argument("--compile", action="store_true")
    parser.set_defaults(device="cuda")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = options.precision == "tf32"
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    for name in options.models.split(","):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        rate = measure(name, options)
        print(f"{name} {options.precision}{' compiled' if options.compile else ''}, batch "
              f"{options.batch}: {rate:.0f} images/s, {1e3 * options.batch / rate:.2f} ms, "
              f"{torch.cuda.max_memory_reserved() >> 20} MiB reserved", flush=True)


if __name__ == "__main__":
    main()
