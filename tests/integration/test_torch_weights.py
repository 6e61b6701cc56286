#!/usr/bin/env python3
"""Weights between offload_train and PyTorch: a checkpoint is a state dict of torchvision, and a run begins with one."""
import json
import pathlib
import shlex
import struct
import subprocess
import sys
import unittest

import harness
from programs import SynthTest, reports, run

try:
    import torch
    import torchvision
    from PIL import Image
except ImportError as missing:
    harness.skip(f"python3-torchvision is missing ({missing})")
try:
    import safetensors.torch as library
except ImportError:
    library = None  # the format is simple enough to read and write it here

TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64}
CLASSES = 10
SIZE = 32
VAL = f"decode,resize=36,center_crop={SIZE},to_tensor,normalize=imagenet"
NUM_TRAIN, BATCH = 20, 8
STEPS = -(-NUM_TRAIN // BATCH)


def header_of(path):
    content = path.read_bytes()
    length, = struct.unpack_from("<Q", content)
    return json.loads(content[8:8 + length]), content[8 + length:]


def load(path):
    """{name: tensor} of a file; by the library, too, if it is there."""
    header, data = header_of(path)
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=TYPES[entry["dtype"]])
        tensors[name] = tensor.reshape(entry["shape"]).clone()
    if library:
        loaded = library.load_file(path)
        assert loaded.keys() == tensors.keys() and all(torch.equal(loaded[name], tensors[name]) for name in tensors)
    return tensors


def save(state, path, dtype):
    """Writes the tensors; the ones of floats as `dtype`."""
    state = {name: tensor.to(TYPES[dtype]) if tensor.is_floating_point() else tensor
             for name, tensor in state.items()}
    if library:
        return library.save_file(state, path)
    header, data = {}, b""
    for name, tensor in state.items():
        raw = tensor if tensor.element_size() != 2 else tensor.view(torch.int16)
        content = raw.contiguous().numpy().tobytes()
        type_name, = (word for word, of in TYPES.items() if of == tensor.dtype)
        header[name] = {"dtype": type_name, "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    return path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model(classes=CLASSES):
    """A resnet18 whose statistics are not those of the start."""
    torch.manual_seed(harness.SEED)
    made = torchvision.models.resnet18(num_classes=classes)
    with torch.no_grad():
        made.train()(torch.randn(16, 3, SIZE, SIZE))
    return made.eval()


class TorchWeights(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 12, "--classes", 2)

    def train(self, *flags, code=0):
        done = run("offload_train", self.root, "--dataset-mode", "local", "--device", "cpu", "-a", "resnet18",
                   "--num-classes", CLASSES, "--image-size", SIZE, "-b", BATCH, "--epochs", 1, "--json", "--no-val",
                   *flags, code=None)
        if done.returncode == 1 and "SLUICE_ONEDNN" in done.stderr:
            self.skipTest("this build has no CPU trainer")
        self.assertEqual(done.returncode, code, done.stderr[-3000:])
        return reports(done.stdout), done.stderr

    def test_a_checkpoint_is_a_state_dict(self):
        path = self.path / "run.safetensors"
        self.train("--checkpoint", path)
        header, _ = header_of(path)
        metadata = header["__metadata__"]
        self.assertEqual((metadata["format"], metadata["model"], metadata["steps"]), ("pt", "resnet18", str(STEPS)))
        state = load(path)
        ours = torchvision.models.resnet18(num_classes=CLASSES)
        ours.load_state_dict(state, strict=True)
        self.assertEqual(ours.layer4[1].bn2.num_batches_tracked.item(), STEPS)
        momentum, = self.path.glob("run.safetensors.momentum-*")
        self.assertEqual(load(momentum).keys(), {name for name, _ in ours.named_parameters()})
        with self.subTest("they predict alike"):
            self.same_loss(ours, path)

    def same_loss(self, of_torch, path):
        """The loss of the val subset, ours with the file's weights and PyTorch's."""
        (report,), _ = self.train("--evaluate", "--init", path, "--val-pipeline", VAL)
        transform = torchvision.transforms.Compose([
            torchvision.transforms.Resize(36), torchvision.transforms.CenterCrop(SIZE), torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
        folders = sorted(folder for folder in (self.root / "val").iterdir() if folder.is_dir())
        images, labels = [], []
        for label, folder in enumerate(folders):
            for file in sorted(folder.iterdir()):
                with Image.open(file) as image:
                    images.append(transform(image.convert("RGB")))
                labels.append(label)
        self.assertEqual(report["samples"], len(labels))
        with torch.no_grad():
            loss = torch.nn.functional.cross_entropy(of_torch.eval()(torch.stack(images)), torch.tensor(labels)).item()
        self.assertAlmostEqual(report["loss"], loss, delta=1e-4 * max(1, loss))

    def test_a_run_begins_with_torchvisions_weights(self):
        start = model()
        for dtype in ("F32", "F16", "BF16"):
            with self.subTest(dtype):
                weights, after = self.path / f"{dtype}.safetensors", self.path / f"{dtype}.after"
                save(start.state_dict(), weights, dtype)
                self.train("--init", weights, "--lr", 0, "--checkpoint", after)
                state = load(after)
                for name, parameter in start.named_parameters():
                    self.assertTrue(torch.equal(state[name], parameter.detach().to(TYPES[dtype]).float()), name)
                self.assertEqual(state["bn1.num_batches_tracked"].item(), 1 + STEPS)
        self.same_loss(start, self.path / "F32.safetensors")

    def test_a_classifier_of_other_classes(self):
        state = model(1000).state_dict()
        path = self.path / "thousand.safetensors"
        save(state, path, "F32")
        _, err = self.train("--init", path, code=1)
        self.assertIn("fc.weight is of 1000 classes, the model of 10: give --num-classes 1000, or", err)
        self.train("--init", path, "--num-classes", 1000)
        del state["fc.weight"], state["fc.bias"]
        save(state, path, "F32")
        after = self.path / "tuned.safetensors"
        _, err = self.train("--init", path, "--lr", 0, "--checkpoint", after)
        self.assertIn("thousand.safetensors: no fc.weight: the classifier is a new one", err)
        tuned = load(after)
        self.assertTrue(torch.equal(tuned["conv1.weight"], state["conv1.weight"]))
        self.assertGreater(tuned["fc.weight"].std().item(), 0)

    def test_a_pickle_is_refused_with_what_converts_it(self):
        state = model().state_dict()
        for is_zip in (False, True):
            path = self.path / f"zip{is_zip}.pth"
            torch.save(state, path, _use_new_zipfile_serialization=is_zip)
            _, err = self.train("--init", path, code=1)
            self.assertIn(f"{path}: a pickle of PyTorch", err)
            if library:
                line = shlex.split(err[err.index("python3 -c "):].splitlines()[0])
                made = self.path / "converted.safetensors"
                subprocess.run([sys.executable, *line[1:3], path, made], check=True)
                self.assertTrue(torch.equal(load(made)["fc.weight"], state["fc.weight"]))

    def test_a_device_without_a_model_has_no_use_for_weights(self):
        path = self.path / "of_none.safetensors"
        save({}, path, "F32")
        done = run("offload_train", self.root, "--dataset-mode", "local", "--device", "none", "--init", path, code=1)
        self.assertIn("--init: device none has no model", done.stderr)

    def test_with_resume_the_checkpoint_counts(self):
        path, other = self.path / "first.safetensors", self.path / "other.safetensors"
        self.train("--checkpoint", path)
        save(model().state_dict(), other, "F32")
        self.train("--resume", path, "--init", other, "--epochs", 2, "--lr", 0, "--checkpoint", path)
        self.assertFalse(torch.equal(load(path)["conv1.weight"], load(other)["conv1.weight"]))


if __name__ == "__main__":
    harness.main()
