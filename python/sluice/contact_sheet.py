"""A contact sheet: what a recipe makes of some images, with the draws of each.

    python3 -m sluice.contact_sheet photos --recipe timm-a2 -o page.html
    sluice.preview("photos", train_transform)              in a notebook

The pixels are those that training gets before to_tensor, of epochs 0, 1, 2, ... of the seed.
"""
import argparse
import ast
import base64
import html
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

from sluice import _sluice, programs, recipes

_SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm"}
_STYLE = """
:root { color-scheme: light dark; font: 14px/1.4 system-ui, sans-serif; }
body { margin: 1rem auto; max-width: 90rem; padding: 0 1rem; }
code { overflow-wrap: anywhere; }
section { border-top: 1px solid #8888; padding: .7rem 0; }
.row { display: flex; flex-wrap: wrap; gap: .8rem; }
figure { margin: 0; width: 14rem; }
figure img { max-width: 100%; image-rendering: auto; display: block; }
figcaption { font-size: 12px; overflow-wrap: anywhere; }
"""


class Page(str):
    """The page as HTML, which a notebook shows."""

    def _repr_html_(self):
        return f'<iframe srcdoc="{html.escape(self)}" style="width:100%;height:40rem;border:0"></iframe>'


def _png(width, height, pixels):
    """PNG of rows of RGB (https://www.w3.org/TR/png-3/)."""
    def chunk(name, data):
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    rows = b"".join(b"\0" + pixels[at:at + width * 3] for at in range(0, len(pixels), width * 3))
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 6)) +
            chunk(b"IEND", b""))


def _read_npy(path, views):
    """[PNG] of a uint8 .npy of version 1: of its image [height, width, 3], or of views of these sizes, one after the
    other."""
    data = pathlib.Path(path).read_bytes()
    start = 10 + int.from_bytes(data[8:10], "little")
    images = []
    for height, width in views or [ast.literal_eval(data[10:start].decode("ascii"))["shape"][:2]]:
        end = start + height * width * 3
        images.append(_png(width, height, data[start:end]))
        start = end
    return images


def _ops_of_views(ops):
    """The draws of each view: those of the shared ops, then its own."""
    shared = [op for op in ops if op["op"] != "views"]
    return [shared + own for op in ops if op["op"] == "views" for own in op["views"]] or [ops]


def _words(op):
    """The draws of an op, as a line."""
    values = []
    for name, value in op.items():
        if name == "op":
            continue
        if isinstance(value, dict):
            value = f"{value['width']} x {value['height']} at {value['left']}, {value['top']}"
        elif isinstance(value, float):
            value = f"{value:.4g}"
        elif name == "branches":
            value = " | ".join(", ".join(_words(op) for op in branch) for branch in value)
        elif isinstance(value, list):
            value = ", ".join(f"{number:.4g}" for number in value)
        values.append(f"{name} {value}")
    return f"{op['op']}: {'; '.join(values)}" if values else op["op"]


def _files(source):
    if isinstance(source, (list, tuple)):
        return [os.fspath(path) for path in source]
    root = pathlib.Path(source)
    if root.is_dir():
        return sorted(str(path) for path in root.rglob("*") if path.suffix.lower() in _SUFFIXES)
    return [str(root)]


def _draw(files, pipeline, seed, epoch):
    """Of each file in an epoch [(image as PNG, draws)], one of each view; None for a file that cannot be read."""
    with tempfile.TemporaryDirectory() as folder:
        # Two files at least, so that the output is a folder.
        done = subprocess.run(
            [programs.find("offload_dataset"), "tensor", "--draws", "--pipeline", pipeline, "--seed", str(seed),
             "--epoch", str(epoch), "-o", folder, "--", *files, files[0]], capture_output=True, text=True)
        made = {}
        for line in done.stdout.splitlines():
            told = json.loads(line)
            made[told["sample"]] = list(zip(_read_npy(told["out"], told.get("views")), _ops_of_views(told["ops"])))
    if not made:
        raise _sluice.InvalidError(f"preview: {done.stderr.strip()}")
    return [made.get(sample) for sample in range(len(files))]


def preview(source, recipe, num=6, draws=4, seed=0, part="train", out=None):
    """The Page of `draws` draws of each of the first `num` images.

    source  a folder of images, or a list of files
    recipe  as of sluice.torch.Loader: a transform, the name of a preset, or a pipeline's text
    part    "train" or "val"
    out     also a file to write the page to

    InvalidError, a ValueError: no images, or no such recipe."""
    files = _files(source)[:num]
    if not files:
        raise _sluice.InvalidError(f"preview: no images in {source}")
    made = recipes.of(recipe)
    pipeline = made.val if part == "val" else made.train
    if pipeline is None:
        raise _sluice.InvalidError("preview: the recipe has no pipeline for val")
    pixels = pipeline.split(",to_tensor")[0]
    columns = [_draw(files, pixels, seed, epoch) for epoch in range(draws)]
    sections = []
    for row, path in enumerate(files):
        rows = [[]]  # one, or with views one for each epoch
        for epoch, column in enumerate(columns):
            if column[row] is None:
                rows[-1].append(f"<figure>not read: {html.escape(path)}</figure>")
                continue
            views = column[row]
            if len(views) > 1 and rows[-1]:
                rows.append([])
            for i, (image, ops) in enumerate(views):
                name = f"epoch {epoch}" + (f", view {i}" if len(views) > 1 else "")
                lines = "<br>".join(html.escape(_words(op)) for op in ops)
                rows[-1].append(f'<figure><img alt="{name}" src="data:image/png;base64,'
                                f'{base64.b64encode(image).decode()}"><figcaption>{name}<br>{lines}</figcaption></figure>')
        sections.append(f'<section><h2>{html.escape(os.path.basename(path))}</h2>' +
                        "".join(f'<div class="row">{"".join(figures)}</div>' for figures in rows) + "</section>")
    extra = "".join(f"<p>{name} {html.escape(str(value))}, which this page does not show</p>"
                    for name, value in (("RandomErasing", made.erasing), ("Mix", made.mix)) if value and part == "train")
    page = Page(f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Recipe</title>'
                f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style>'
                f'<h1>{html.escape(recipe if isinstance(recipe, str) else type(recipe).__name__)}</h1>'
                f'<p><code>{html.escape(pixels)}</code>, seed {seed}</p>{extra}{"".join(sections)}</html>\n')
    if out is not None:
        pathlib.Path(out).write_text(page, encoding="utf-8")
    return page


def main():
    parser = argparse.ArgumentParser(prog="python3 -m sluice.contact_sheet", description="Writes a page of what a recipe "
                                     "makes of images.")
    parser.add_argument("source", help="a folder of images, or one image")
    parser.add_argument("--recipe", required=True, help="the name of a preset, or a pipeline's text")
    parser.add_argument("-o", "--out", required=True, help="the page, HTML")
    parser.add_argument("--num", type=int, default=6, help="images (6)")
    parser.add_argument("--draws", type=int, default=4, help="draws of each (4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--part", choices=("train", "val"), default="train")
    given = parser.parse_args()
    try:
        preview(given.source, given.recipe, given.num, given.draws, given.seed, given.part, given.out)
    except (_sluice.Error, OSError) as error:
        sys.exit(f"sluice.contact_sheet: {error}")


if __name__ == "__main__":
    main()
