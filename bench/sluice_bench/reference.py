#!/usr/bin/python3
"""Pillow and torchvision on the crops that bench_pipeline names; its other end of a pipe.

usage: reference.py TASKS       (bench_pipeline --reference starts it)

TASKS has a line for each sample: top, left, height, width, flip, path.  Each line on stdin is a
command, answered on stdout in native binary:

    times   for each sample seven doubles, CPU us of this thread: decode, crop and resize, flip,
            to_tensor and normalize, the training pipeline up to the flip (u8) and all of it, all of
            the validation pipeline
    tensors for each sample its 3 x 224 x 224 float32, of the training and of the validation
            pipeline
"""
import array
import io
import sys
import time

try:
    import torch
    import torchvision.transforms.functional as F
    from PIL import Image
    from torchvision.transforms import InterpolationMode
except ImportError as error:
    print(f"SKIPPED: {error}", file=sys.stderr)
    sys.exit(77)

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
BILINEAR = InterpolationMode.BILINEAR


def now_us():
    return time.thread_time_ns() * 1e-3


def decode(data):
    return Image.open(io.BytesIO(data)).convert("RGB")


def train(data, box, flip, times=None):
    t0 = now_us()
    image = decode(data)
    t1 = now_us()
    image = F.resized_crop(image, *box, [224, 224], BILINEAR)
    t2 = now_us()
    if flip:
        image = F.hflip(image)
    t3 = now_us()
    tensor = F.normalize(F.to_tensor(image), MEAN, STD)
    t4 = now_us()
    if times is not None:
        times.extend((t1 - t0, t2 - t1, t3 - t2, t4 - t3, t3 - t0, t4 - t0))
    return tensor


def validate(data):
    image = F.center_crop(F.resize(decode(data), 256, BILINEAR), [224, 224])
    return F.normalize(F.to_tensor(image), MEAN, STD)


def main():
    torch.set_num_threads(1)
    files, tasks = {}, []
    with open(sys.argv[1], encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            top, left, height, width, flip, path = line.rstrip("\n").split(" ", 5)
            if path not in files:
                with open(path, "rb") as file:
                    files[path] = file.read()
            tasks.append((files[path], (int(top), int(left), int(height), int(width)), flip == "1"))
    out = sys.stdout.buffer
    for command in sys.stdin:
        if command == "times\n":
            times = array.array("d")
            for data, box, flip in tasks:
                train(data, box, flip, times)
                start = now_us()
                validate(data)
                times.append(now_us() - start)
            out.write(times.tobytes())
        else:
            for data, box, flip in tasks:
                out.write(train(data, box, flip).numpy().tobytes())
                out.write(validate(data).numpy().tobytes())
        out.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
