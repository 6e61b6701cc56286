"""DINOv2's augmentation, handed over as it is: ten views of each image, in place of a DataLoader over an ImageFolder.

    python examples/dino_views.py /data/images            or HOST:PORT of an offload_server

The class below does what DINOv2's DataAugmentationDINO does (dinov2/data/augmentations.py), under the same names, so that it
can be swapped for the original.  A small network learns from the views, by DINO's loss without its centring.
"""
import argparse

import torch
from torchvision import transforms

import sluice.recipes
import sluice.torch


class GaussianBlur(transforms.RandomApply):
    """A blur that is applied with probability 1 - p, as the original's is."""

    def __init__(self, p):
        super().__init__([transforms.GaussianBlur(kernel_size=9, sigma=(0.1, 2.0))], p=1 - p)


def crop_and_flip(size, scale):
    return transforms.Compose([
        transforms.RandomResizedCrop(size, scale=scale, interpolation=transforms.InterpolationMode.BICUBIC),
        transforms.RandomHorizontalFlip(p=0.5),
    ])


class DataAugmentationDINO:
    """Two large crops and several small ones."""

    def __init__(self, global_crops_scale, local_crops_scale, local_crops_number, global_crops_size=224, local_crops_size=96):
        colours = transforms.Compose([
            transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.2, 0.1)], p=0.8),
            transforms.RandomGrayscale(p=0.2),
        ])
        normalize = transforms.Compose([
            transforms.ToTensor(),
            transforms.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ])
        solarize = transforms.RandomSolarize(threshold=128, p=0.2)
        self.local_crops_number = local_crops_number
        self.geometric_augmentation_global = crop_and_flip(global_crops_size, global_crops_scale)
        self.geometric_augmentation_local = crop_and_flip(local_crops_size, local_crops_scale)
        self.global_transfo1 = transforms.Compose([colours, GaussianBlur(p=1.0), normalize])
        self.global_transfo2 = transforms.Compose([colours, GaussianBlur(p=0.1), solarize, normalize])
        self.local_transfo = transforms.Compose([colours, GaussianBlur(p=0.5), normalize])

    def __call__(self, image):
        large = [transfo(self.geometric_augmentation_global(image))
                 for transfo in (self.global_transfo1, self.global_transfo2)]
        small = [self.local_transfo(self.geometric_augmentation_local(image)) for _ in range(self.local_crops_number)]
        return {"global_crops": large, "global_crops_teacher": large, "local_crops": small, "offsets": ()}


def network():
    """Takes crops of any size."""
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 7, stride=4, padding=3), torch.nn.ReLU(),
        torch.nn.Conv2d(32, 64, 3, stride=2, padding=1), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 128))


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("source", help="a folder of images, or HOST:PORT")
parser.add_argument("--epochs", type=int, default=1)
parser.add_argument("--batch-size", type=int, default=64)
parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
options = parser.parse_args()

augmentation = DataAugmentationDINO((0.32, 1.0), (0.05, 0.32), local_crops_number=8)
print(sluice.recipes.text(augmentation))
loader = sluice.torch.Loader(options.source, options.batch_size, transform=augmentation, device=options.device, drop_last=True)

torch.manual_seed(0)
student, teacher = network().to(options.device), network().to(options.device)
teacher.load_state_dict(student.state_dict())
optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9)
for epoch in range(options.epochs):
    total = num_batches = 0
    for views, _ in loader:
        with torch.no_grad():
            wanted = [torch.softmax(teacher(view) / 0.07, dim=1) for view in views[:2]]
        made = [torch.log_softmax(student(view) / 0.1, dim=1) for view in views]
        losses = [-(want * own).sum(dim=1).mean()
                  for i, want in enumerate(wanted) for k, own in enumerate(made) if i != k]
        loss = sum(losses) / len(losses)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters()):
                slow.lerp_(fast, 0.01)
        total += loss.item()
        num_batches += 1
    print(f"epoch {epoch}: loss {total / max(num_batches, 1):.4f}")
    rate = loader.stats()["samples_per_s"]
    print(f"{rate:.0f} samples/s, {rate * len(loader.info['views']):.0f} views/s")
loader.close()
