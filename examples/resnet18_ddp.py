"""ResNet-18 in bfloat16 on as many GPUs as torchrun starts processes, or without a GPU on the CPU:
    torchrun --nproc_per_node 8 examples/resnet18_ddp.py storage:50051 --epochs 90"""
import argparse
import os
import torch
import torchvision
import sluice.torch
parser = argparse.ArgumentParser()
parser.add_argument("source", help="folder of images, or HOST:PORT of an offload_server")
parser.add_argument("--epochs", type=int, default=90)
parser.add_argument("--batch-size", type=int, default=256, help="of each process")
parser.add_argument("--image-size", type=int, default=224)
parser.add_argument("--checkpoint", default="resnet18.pt", help="goes on from it, if it is there")
options = parser.parse_args()
device, backend = ("cuda", "nccl") if torch.cuda.is_available() else ("cpu", "gloo")
if device == "cuda":
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group(backend)
torch.manual_seed(0)
loader = sluice.torch.Loader(options.source, options.batch_size, image_size=options.image_size,
                             device=device, dtype=torch.bfloat16, channels_last=True)
model = torchvision.models.resnet18(num_classes=loader.info["num_classes"]).to(device)
model = torch.nn.parallel.DistributedDataParallel(model.to(memory_format=torch.channels_last))
lr = 0.1 * options.batch_size * torch.distributed.get_world_size() / 256
optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9, weight_decay=1e-4)
parts = {"model": model, "optimizer": optimizer, "loader": loader}
if os.path.exists(options.checkpoint):
    for name, state in torch.load(options.checkpoint, map_location=device).items():
        parts[name].load_state_dict(state)
while loader.state_dict()["epoch"] < options.epochs:
    for images, labels in loader:
        with torch.autocast(device, torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if torch.distributed.get_rank() == 0:
        print(f"{loader.state_dict()['epoch']} epochs: loss {loss.item():.4f}", flush=True)
        torch.save({name: part.state_dict() for name, part in parts.items()}, options.checkpoint)
torch.distributed.destroy_process_group()
