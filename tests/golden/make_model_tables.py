#!/usr/bin/env python3
"""Writes model_tables.txt: the layers and the parameters of torchvision's models.

    python3 tests/golden/make_model_tables.py [-o FILE]

Needs torch and torchvision (Debian: python3-torch python3-torchvision).  Layers are those that torch.fx traces, in the
order in which they run, with the tensors that they read (0 is the image, layer i writes tensor i + 1) and the shape
that they write, C x H x W.  Parameters are those of the state_dict, in its order, without num_batches_tracked; of their
initial values the file has the distribution, as drawn once.

The file, one fact per line:
    model NAME HEIGHT WIDTH NUM_CLASSES
    conv INPUT SHAPE KERNEL STRIDE PAD HAS_BIAS MODULE
    batchnorm|linear INPUT SHAPE MODULE
    maxpool INPUT SHAPE KERNEL STRIDE PAD
    relu|avgpool INPUT SHAPE
    dropout INPUT SHAPE P
    add INPUT INPUT2 SHAPE
    param NAME SHAPE constant|uniform|normal VALUE_OR_DEVIATION
    buffer NAME SHAPE constant VALUE
"""

import argparse
import operator
import os

import torch
import torch.fx
import torchvision
from torch.fx.passes.shape_prop import ShapeProp

MODELS = ("alexnet", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152")
HEIGHT, WIDTH, NUM_CLASSES = 224, 160, 1000
# The largest of many draws by their standard deviation: the square root of 3 where they are uniform.
UNIFORM_BELOW = 1.9


def square(value):
    """An option of a window, whose two sides are the same."""
    first, second = value if isinstance(value, tuple) else (value, value)
    assert first == second
    return first


def text(dims):
    return "x".join(map(str, dims))


def layer_line(name, module, place, shape):
    nn = torch.nn
    window = lambda: f"{square(module.kernel_size)} {square(module.stride)} {square(module.padding)}"
    if isinstance(module, nn.Conv2d):
        assert square(module.dilation) == 1 and module.groups == 1
        return f"conv {place} {shape} {window()} {int(module.bias is not None)} {name}"
    if isinstance(module, nn.MaxPool2d):
        assert square(module.dilation) == 1 and not module.ceil_mode
        return f"maxpool {place} {shape} {window()}"
    if isinstance(module, nn.BatchNorm2d):
        assert module.eps == 1e-5 and module.momentum == 0.1
        return f"batchnorm {place} {shape} {name}"
    if isinstance(module, nn.Dropout):
        return f"dropout {place} {shape} {module.p}"
    if isinstance(module, nn.Linear):
        assert module.bias is not None
        return f"linear {place} {shape} {name}"
    return f"{ {nn.ReLU: 'relu', nn.AdaptiveAvgPool2d: 'avgpool'}[type(module)]} {place} {shape}"


def write_layers(out, model):
    traced = torch.fx.symbolic_trace(model.eval())
    ShapeProp(traced).propagate(torch.zeros(1, 3, HEIGHT, WIDTH))
    modules = dict(traced.named_modules())
    tensors, shapes = {}, []  # a node's tensor; a tensor's shape
    for node in traced.graph.nodes:
        if node.op == "output":
            continue
        shape = tuple(node.meta["tensor_meta"].shape[1:])
        if node.op == "placeholder":
            tensors[node] = 0
            shapes.append(shape)
            continue
        inputs = [tensors[arg] for arg in node.args if isinstance(arg, torch.fx.Node)]
        if node.target is torch.flatten:
            tensors[node] = inputs[0]
            continue
        module = modules.get(node.target) if node.op == "call_module" else None
        if len(shape) == 1:  # what flatten made of an image is that image here
            is_linear = isinstance(module, torch.nn.Linear)
            shape = (*shape, 1, 1) if is_linear else shapes[inputs[0]]
        tensors[node] = len(shapes)
        shapes.append(shape)
        if module is None:
            assert node.target in (operator.iadd, operator.add)
            out.write(f"add {inputs[0]} {inputs[1]} {text(shape)}\n")
        else:
            out.write(layer_line(node.target, module, inputs[0], text(shape)) + "\n")


def initial(tensor):
    values = tensor.double()
    deviation = values.std(unbiased=False).item()
    if deviation == 0:
        return f"constant {values.flatten()[0].item():g}"
    kind = "uniform" if values.abs().max().item() < UNIFORM_BELOW * deviation else "normal"
    return f"{kind} {deviation:.4g}"


def write_params(out, model):
    trained = {name for name, _ in model.named_parameters()}
    for name, tensor in model.state_dict().items():
        if not name.endswith("num_batches_tracked"):
            kind = "param" if name in trained else "buffer"
            out.write(f"{kind} {name} {text(tensor.shape)} {initial(tensor)}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    default = os.path.join(os.path.dirname(os.path.abspath(__file__)), "model_tables.txt")
    parser.add_argument("-o", dest="path", default=default)
    path = parser.parse_args().path
    with open(path, "w", encoding="ascii") as out:
        out.write(f"# torch {torch.__version__}, torchvision {torchvision.__version__}\n")
        for name in MODELS:
            torch.manual_seed(1)
            model = getattr(torchvision.models, name)(num_classes=NUM_CLASSES)
            out.write(f"model {name} {HEIGHT} {WIDTH} {NUM_CLASSES}\n")
            write_layers(out, model)
            write_params(out, model)


if __name__ == "__main__":
    main()
