"""Fine-tunes the last layer of a timm model on the images of a folder or a server (HOST:PORT), with
the crop and normalisation that the model was made for.  --pretrained fetches its weights."""
import argparse

import sluice.torch
import timm
import torch


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("--model", default="resnet18")
    parser.add_argument("--pretrained", action="store_true")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=256)
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"

    model = timm.create_model(args.model, pretrained=args.pretrained)
    config = timm.data.resolve_model_data_config(model)
    mean, std = (":".join(map(str, config[name])) for name in ("mean", "std"))
    loader = sluice.torch.Loader(
        args.source, args.batch_size, device=device, channels_last=True,
        pipeline=f"decode,random_resized_crop={config['input_size'][-1]},hflip,to_tensor,"
                 f"normalize={mean}/{std}")
    model.requires_grad_(False)
    model.reset_classifier(loader.info["num_classes"])
    model.to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.get_classifier().parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
