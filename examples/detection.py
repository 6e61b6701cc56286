"""A detector of torchvision, from a dataset with boxes: images and boxes are cropped and flipped together.

    offload_dataset index /data/coco --annotations instances_train2017.json
    offload_server --root /data/coco --listen :50051 --insecure
    python examples/detection.py storage:50051 --classes 91                or /data/coco
"""
import argparse
import itertools

import torch
from torchvision.models import detection

import sluice.torch

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("source", help="a folder of images, or HOST:PORT")
parser.add_argument("--classes", type=int, required=True)
parser.add_argument("--model", default="ssdlite320_mobilenet_v3_large", help="or fasterrcnn_resnet50_fpn, say")
parser.add_argument("--size", type=int, default=320, help="of images, in pixels")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.005)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
options = parser.parse_args()

# The model normalises images itself.
pipeline = f"decode,random_resized_crop={options.size}:scale=0.3-1:ratio=1/2-2,hflip,photometric_distort:p=0.5,to_tensor"
loader = sluice.torch.Loader(options.source, options.batch_size, pipeline=pipeline, fields=["boxes"], geometry=True,
                             device=options.device, drop_last=True)

torch.manual_seed(0)
model = getattr(detection, options.model)(weights=None, weights_backbone=None, num_classes=options.classes + 1)
model.to(options.device).train()
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)

for epoch in range(options.epochs):
    total = 0.0
    for images, _, fields, geometry in loader:
        boxes, labels, offsets = (fields["boxes"][name] for name in ("boxes", "labels", "offsets"))
        rows = itertools.pairwise(offsets.tolist())
        targets = [{"boxes": boxes[a:b], "labels": 1 + labels[a:b]} for a, b in rows]  # 0 is the background
        loss = sum(model(list(images), targets).values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(f"epoch {epoch}: loss {total / len(loader):.3f}", flush=True)
