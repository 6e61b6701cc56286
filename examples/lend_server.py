"""A server on a GPU that a training lends (sluice.torch.Loader(..., lend=PATH), sluice.lend.Owner(PATH) or
offload_train --lend PATH): reads paths of images from standard input and prints the class of each."""
import argparse
import sys

import torch
import torchvision
from PIL import Image
from torchvision import transforms as T
import sluice.lend

PREPARE = T.Compose([T.Resize(256), T.CenterCrop(224), T.ToTensor(),
                     T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])


def as_graph(model, images):
    """A function that runs the model as a CUDA graph: one launch, which a busy trainer delays less than one a layer."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            model(images)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        answers = model(images)

    def run():
        graph.replay()
        return answers

    return run


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lend", metavar="PATH", help="where the GPU is lent")
    parser.add_argument("--model", default="resnet18", help="of torchvision.models")
    parser.add_argument("--checkpoint", metavar="FILE", help="its state_dict; left out: random weights")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    model = getattr(torchvision.models, args.model)().to(device).eval()
    if args.checkpoint:
        model.load_state_dict(torch.load(args.checkpoint, map_location=device))
    images = torch.zeros(1, 3, 224, 224, device=device)
    run = as_graph(model, images) if device == "cuda" else lambda: model(images)

    for line in sys.stdin:
        image = PREPARE(Image.open(line.strip()).convert("RGB"))
        with sluice.lend.gpu(args.lend):
            images.copy_(image[None])
            label = run().argmax().item()
        print(f"{line.strip()}: class {label}", flush=True)


if __name__ == "__main__":
    main()
