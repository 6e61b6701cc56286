#!/usr/bin/env python3
"""Compares ops with what Pillow makes of the same image, byte by byte.

usage: compare_recipes_with_pillow.py OFFLOAD_DATASET [--images N] [--seed N]

Each op runs with many fixed parameters over random images: noise, smooth colours, gray, extremes, odd sizes down to
1 x 1.  The images reach offload_dataset as PNG.  Exits 77 without Pillow and NumPy.
"""
import argparse
import itertools
import json
import math
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import PIL
    from PIL import Image, ImageEnhance, ImageFilter, ImageOps
except ImportError as error:
    print(f"SKIPPED: {error}")
    sys.exit(77)


def hue(image, shift):
    """torchvision.transforms.functional.adjust_hue of a PIL image; the product is truncated, modulo 256."""
    h, s, v = image.convert("HSV").split()
    turned = (np.asarray(h).astype(np.int64) + int(shift * 255)) % 256
    return Image.merge("HSV", (Image.fromarray(turned.astype(np.uint8), "L"), s, v)).convert("RGB")


def solarize_add(image, add, threshold=128):
    """timm.data.auto_augment.solarize_add."""
    return image.point([min(255, v + add) if v < threshold else v for v in range(256)] * 3)


def posterize(image, bits):
    return ImageOps.posterize(image, bits) if bits else Image.new("RGB", image.size)


FILTERS = {"nearest": Image.NEAREST, "bilinear": Image.BILINEAR, "bicubic": Image.BICUBIC,
           "lanczos": Image.LANCZOS, "box": Image.BOX, "hamming": Image.HAMMING}


def warped(image, matrix, filter="nearest", fill="0"):
    color = tuple(int(v) for v in fill.split("/")) if "/" in fill else (int(fill),) * 3
    return image.transform(image.size, Image.AFFINE, matrix, FILTERS[filter], fillcolor=color)


def rotate(image, degrees, filter="nearest", fill="0"):
    color = tuple(int(v) for v in fill.split("/")) if "/" in fill else (int(fill),) * 3
    return image.rotate(degrees, FILTERS[filter], fillcolor=color)


def affine(image, degrees, translate_x, translate_y, scale, shear_x, shear_y, filter="nearest", fill="0"):
    """torchvision.transforms.functional.affine of a PIL image, of translations as parts of the sides."""
    rot, sx, sy = (math.radians(v) for v in (degrees, shear_x, shear_y))
    cx, cy = image.width * 0.5, image.height * 0.5
    tx, ty = round(translate_x * image.width), round(translate_y * image.height)
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    matrix = [x / scale for x in (d, -b, 0.0, -c, a, 0.0)]
    matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty)
    matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty)
    matrix[2] += cx
    matrix[5] += cy
    return warped(image, matrix, filter, fill)


def translate(image, x, y, unit="part", filter="nearest", fill="0"):
    amounts = [amount * (1 if unit == "pixel" else side) for amount, side in zip((x, y), image.size)]
    x, y = amounts if unit == "part" else [int(v) for v in amounts]
    return warped(image, (1, 0, x, 0, 1, y), filter, fill)


def resized(image, size, filter, is_pillow13=False):
    """image.resize(size) of the Pillow that is meant; where that is not the one installed two resizes of one pass each,
    which all versions do alike, in its order."""
    if is_pillow13 == (int(PIL.__version__.split(".")[0]) >= 13):
        return image.resize(size, FILTERS[filter])
    lower, narrower = image.height - size[1], image.width - size[0]
    is_down_first = is_pillow13 and lower > 0 and lower > 2 * narrower
    between = (image.width, size[1]) if is_down_first else (size[0], image.height)
    return image.resize(between, FILTERS[filter]).resize(size, FILTERS[filter])


def pad(image, sides, mode="constant", fill="0"):
    """torchvision.transforms.functional.pad of a PIL image."""
    sides = [int(n) for n in str(sides).split("/")]
    left, top, right, bottom = sides * (4 // len(sides))
    if mode == "constant":
        color = [int(v) for v in fill.split("/")]
        return ImageOps.expand(image, (left, top, right, bottom), tuple(color * (3 // len(color))))
    return Image.fromarray(np.pad(np.asarray(image), ((top, bottom), (left, right), (0, 0)), mode))


def resize(image, size, filter="bilinear", side="shorter", max=None):
    """torchvision.transforms.functional.resize of a PIL image, with size=None as v2 has it for side="longer"."""
    if "x" in str(size):
        return resized(image, tuple(int(n) for n in reversed(size.split("x"))), filter)
    short, long = sorted(image.size)
    shorter, longer = (int(size * short / long), size) if side == "longer" else (size, int(size * long / short))
    if max is not None and longer > max:
        shorter, longer = int(max * shorter / longer), max
    shorter = shorter or 1
    return resized(image, (shorter, longer) if image.width <= image.height else (longer, shorter), filter)


def smart_resize(image, factor, min_pixels, max_pixels, filter="bicubic"):
    """qwen_vl_utils.vision_process.smart_resize, without its limit of 200:1."""
    width, height = image.size
    h_bar = max(factor, round(height / factor) * factor)
    w_bar = max(factor, round(width / factor) * factor)
    if h_bar * w_bar > max_pixels:
        beta = math.sqrt((height * width) / max_pixels)
        h_bar = max(factor, math.floor(height / beta / factor) * factor)
        w_bar = max(factor, math.floor(width / beta / factor) * factor)
    elif h_bar * w_bar < min_pixels:
        beta = math.sqrt(min_pixels / (height * width))
        h_bar = math.ceil(height * beta / factor) * factor
        w_bar = math.ceil(width * beta / factor) * factor
    return resized(image, (w_bar, h_bar), filter)


def letterbox(image, size, fill="0", filter="bilinear"):
    """ImageOps.pad; sides that it rounds to 0 pixels are 1."""
    height, width = (int(n) for n in (str(size).split("x") * 2)[:2])
    color = [int(v) for v in fill.split("/")]
    color = tuple(color * (3 // len(color)))
    ratio = image.width / image.height
    if ratio != width / height and min(round(image.height / image.width * width), round(ratio * height)) == 0:
        fitted = resized(image, (width, 1) if ratio > 1 else (1, height), filter)
        whole = Image.new("RGB", (width, height), color)
        whole.paste(fitted, (0, round((height - 1) * 0.5)) if ratio > 1 else (round((width - 1) * 0.5), 0))
        return whole
    return ImageOps.pad(image, (width, height), FILTERS[filter], color)


def pad_to_multiple(image, multiple, fill="0"):
    width, height = (math.ceil(side / multiple) * multiple for side in image.size)
    return pad(image, f"0/0/{width - image.width}/{height - image.height}", fill=fill)


def fit_bucket(image, sizes, filter="bilinear", place=None, is_pillow13=False):
    """diffusers' find_nearest_bucket, torchvision's Resize to cover the bucket, and its CenterCrop or a crop at `place`."""
    buckets = [tuple(int(n) for n in size.split("x")) for size in sizes.split("/")]
    least = float("inf")
    for h, w in buckets:
        metric = abs(image.height * w - image.width * h)
        if metric <= least:
            least, height, width = metric, h, w
    if image.width * height > image.height * width:
        size = (int(height * image.width / image.height), height)
    else:
        size = (width, int(width * image.height / image.width))
    left, top = place or (round((size[0] - width) / 2.0), round((size[1] - height) / 2.0))
    return resized(image, size, filter, is_pillow13).crop((left, top, left + width, top + height))


WARPS = [{"filter": f, "fill": v} for f, v in (("nearest", "0"), ("bilinear", "128"), ("bicubic", "124/116/104"))]


def with_warps(values, *more):
    return [(*value, {**rest, **warp}) for value in values for rest in (more or ({},)) for warp in WARPS]


BUCKETS = "40x40/16x64/64x16/20x20/48x33/33x48/1x90/44x37"

# A reference for each op: of an image and the values of its text.
OPS = {
    "invert": (lambda image: ImageOps.invert(image), [()]),
    "vflip": (lambda image: image.transpose(Image.FLIP_TOP_BOTTOM), [()]),
    "grayscale": (lambda image: Image.merge("RGB", [image.convert("L")] * 3), [()]),
    "equalize": (lambda image: ImageOps.equalize(image), [()]),
    "autocontrast": (lambda image: ImageOps.autocontrast(image), [()]),
    "solarize": (ImageOps.solarize, [(t,) for t in (0, 1, 26, 110, 128, 255, 256)]),
    "solarize_add": (solarize_add, [(a,) for a in (0, 11, 43, 110, 255)]),
    "posterize": (posterize, [(b,) for b in range(9)]),
    "brightness": (lambda image, f: ImageEnhance.Brightness(image).enhance(f), None),
    "contrast": (lambda image, f: ImageEnhance.Contrast(image).enhance(f), None),
    "color": (lambda image, f: ImageEnhance.Color(image).enhance(f), None),
    "sharpness": (lambda image, f: ImageEnhance.Sharpness(image).enhance(f), None),
    "hue": (hue, [(h,) for h in (0, 0.1, -0.1, 0.5, -0.5, 0.0039, 0.25, -0.3137)]),
    "pil_blur": (lambda image, s: image.filter(ImageFilter.GaussianBlur(s)),
                 [(s,) for s in (0, 0.1, 0.3, 0.5, 0.9, 1, 1.5, 2, 3.7, 10)]),
    "resize": (resize, [(side, {"filter": name}) for side in (1, 3, 7, 20, 31, 64, 150)
                        for name in FILTERS] +
               [(size, {"filter": name}) for size in ("1x1", "31x64", "64x31", "20x20") for name in FILTERS] +
               [(side, {"side": "longer"}) for side in (1, 20, 64, 150)] +
               [(side, {"max": most}) for side, most in ((1, 2), (20, 21), (31, 40), (64, 100), (64, 8192))]),
    "pad": (pad, [(sides, {"mode": mode}) for sides in ("0", "4", "3/8", "1/2/3/4", "0/99/120/0")
                  for mode in ("constant", "edge", "reflect", "symmetric")] + [("2/0/5/1", {"fill": "7/88/199"})]),
    "fit_bucket": (fit_bucket, [(sizes, {"filter": name}) for sizes in ("32x32", "20x30/30x20", BUCKETS) for name in FILTERS]),
    "letterbox": (letterbox, [(size, {"filter": name}) for size in (1, 20, 64, "31x64", "64x31", "3x90") for name in FILTERS] +
                  [(size, {"fill": "7/88/199"}) for size in (40, "90x20")]),
    "pad_to_multiple": (pad_to_multiple, [(n,) for n in (1, 2, 7, 32, 100)] + [(16, {"fill": "7/88/199"})]),
    "smart_resize": (smart_resize, [(factor, {"min_pixels": low, "max_pixels": high}) for factor, low, high in
                                    ((28, 3136, 1003520), (28, 784, 3000), (7, 49, 2000), (1, 1, 900), (4, 5000, 5000),
                                     (32, 65536, 65536))] +
                     [(14, {"min_pixels": 900, "max_pixels": 9000, "filter": name}) for name in FILTERS]),
    "identity": (lambda image: image, [()]),
    "shear_x": (lambda image, f, **rest: warped(image, (1, f, 0, 0, 1, 0), **rest),
                with_warps([(f,) for f in (0, 0.3, -0.21, 2.5)])),
    "shear_y": (lambda image, f, **rest: warped(image, (1, 0, 0, f, 1, 0), **rest),
                with_warps([(f,) for f in (0, 0.3, -0.21, 2.5)])),
    "translate_x": (lambda image, x, **rest: translate(image, x, 0, **rest),
                    with_warps([(f,) for f in (0, 0.45, -0.1337)], {}, {"unit": "whole_part"}) +
                    with_warps([(f,) for f in (7.9, -3)], {"unit": "pixel"})),
    "translate_y": (lambda image, y, **rest: translate(image, 0, y, **rest),
                    with_warps([(f,) for f in (0.45, -0.1337)], {}, {"unit": "whole_part"}) +
                    with_warps([(f,) for f in (7.9, -3)], {"unit": "pixel"})),
    "rotate": (rotate, with_warps([(d,) for d in (0, 90, 180, 270, -90, 360, 30, -7.3, 135, 0.001, 211.7)])),
    "affine": (lambda image, d, **rest: affine(image, d, **{**AFFINE, **rest}),
               with_warps([(d,) for d in (0, 10, -25.3)], {"translate_x": 0.1, "translate_y": -0.07}, {"scale": 0.75},
                          {"shear_x": 20, "shear_y": -5, "scale": 1.3})),
}
AFFINE = {"translate_x": 0, "translate_y": 0, "scale": 1, "shear_x": 0, "shear_y": 0}


def text_of(op, values):
    named = values[-1] if values and isinstance(values[-1], dict) else {}
    texts = [f"{v:f}" if isinstance(v, float) else str(v) for v in values if not isinstance(v, dict)]
    return op + "".join(f"={v}" for v in texts) + "".join(f":{name}={v}" for name, v in named.items())


def factors(rng):
    return [(f,) for f in (0, 0.1, 0.5, 1, 1.27, 1.9, 4)] + [(round(float(f), 6),) for f in rng.uniform(0.001, 3, 6)]


def random_image(rng, number):
    if number < 3:
        width, height = ((1, 1), (1, 7), (5, 1))[number]
    else:
        width, height = (int(n) for n in rng.integers(2, 90, 2))
    kind = number % 5
    if kind == 0:
        pixels = rng.integers(0, 256, (height, width, 3))
    elif kind == 1:  # smooth
        y, x = np.mgrid[0:height, 0:width]
        pixels = np.stack([128 + 127 * np.sin(x / a + y / b + c) for a, b, c in rng.uniform(3, 40, (3, 3))], -1)
    elif kind == 2:  # few values
        pixels = rng.choice([0, 1, 100, 254, 255], (height, width, 3))
    elif kind == 3:  # gray
        pixels = np.repeat(rng.integers(0, 256, (height, width, 1)), 3, 2)
    else:  # a narrow range
        low = int(rng.integers(0, 200))
        pixels = rng.integers(low, low + 50, (height, width, 3))
    return Image.fromarray(np.asarray(pixels).astype(np.uint8))


def ours(program, text, files, folder):
    out = folder / "out"
    out.mkdir(exist_ok=True)
    done = subprocess.run([program, "tensor", "--pipeline", "decode," + text, "-o", out, *files], capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise SystemExit(f"{text}: {done.stderr}")
    return [np.load(out / f"{i:08}.npy") for i in range(len(files))]


POLICY = ("random_resized_crop=40:filter=random,hflip,rand_augment_timm=8:mstd=1:increasing=1:num_ops=3:prob=0.8:filter=random,"
          "color_jitter=0.4:contrast=0.4:saturation=0.4:hue=0.1,random_crop=33:padding=2,photometric_distort")
WARPED = [f"perspective={part}:filter={name}:fill=9/99/200" for part in (0.5, 1, 0) for name in ("nearest", "bilinear", "bicubic")]
PADDED = [f"random_crop={side}:padding={around}:mode={mode},hflip" for side, around in ((33, 15), (9, 4), (70, 0), (100, 3))
          for mode in ("edge", "reflect", "symmetric")] + ["random_crop=33:padding=15:fill=9/99/200,pad=1/2/3/4:fill=7,hflip",
                                                           "pad=9:mode=reflect,random_crop=20:padding=3,pad=3/2:mode=edge",
                                                           "random_resized_crop=20x33:filter=bicubic,center_crop=31x17,random_crop=9x40:padding=2",
                                                           "resize=40x70:filter=random,center_crop=30x60",
                                                           "zoom_out=1-3:fill=9/99/200,hflip,resize=40x30",
                                                           "random_resize=20-70:filter=random,hflip,random_crop=33",
                                                           "hflip,random_size_crop=20-50:shorter=24-60/3,random_resize=20-50/4:max=70",
                                                           "random_resize=20-60/3:max=65:filter=lanczos,center_crop=40"]
CROPS = [f"fit_bucket={BUCKETS}:crop=random:filter={name},hflip" for name in FILTERS]
CROPS += [f"random_resized_crop={side}:scale=0.01-1:ratio=1/4-4:filter={name},hflip" for side in (9, 31, 70) for name in FILTERS]
MIXED = [f"augmix={severity}:filter={name}:fill=9/99/200,hflip" for severity in (1, 3, 10) for name in ("nearest", "bilinear")]
MIXED += ["random_resized_crop=40,invert:p=0.5,augmix=10:width=8:depth=5:filter=random,augmix=5:all_ops=0:alpha=0.1:p=0.5"] * 3
# DINOv2's, but for torchvision's blur, which only comes close.
DINO = ("hflip,color_jitter=0.4:contrast=0.4:saturation=0.2:hue=0.1:p=0.8,grayscale:p=0.2,pil_blur=0.1-2:p=0.5,solarize:p=0.2")
VIEWS = [f"views(2x[random_resized_crop=44:scale=0.32-1:filter=bicubic,{DINO}],"
         f"8x[random_resized_crop=19:scale=0.05-0.32:filter=bicubic,{DINO}])"] * 4
VIEWS += ["random_crop=40:padding=4,views([hflip,resize=20x30:filter=random],2x[random_crop=20],[augmix=3])",
          "views([random_resized_crop=20:draws=1,hflip:draws=2],[random_resized_crop=41:draws=1,hflip:draws=2],[center_crop=9])"]
# DINOv3's large crops and those of its Gram teacher; compare_gram() checks that they are of one crop.
GRAM = "views({},{})".format(*(
    ",".join(f"[random_resized_crop=64:scale=0.32-1:filter=bicubic:draws={i}{rest}]" for i in (1, 11))
    for rest in (f",resize=32:filter=bicubic,{DINO}", "")))
VIEWS.append(GRAM)
BY_VALUE = {name: OPS[name][0] for name in ("solarize", "solarize_add", "posterize", "brightness", "contrast", "color",
                                            "sharpness", "hue", "pil_blur")}


def replay(image, ops, is_pillow13):
    """A pipeline by Pillow, with the draws that --draws gives."""
    for op in ops:
        name = op["op"]
        if name in ("pad", "zoom_out"):
            (left, top), (width, height), box = op["at"], op["size"], op["keep"]
            sides = "/".join(str(n) for n in (left, top, width - left - box["width"], height - top - box["height"]))
            image = pad(image, sides, op.get("mode", "constant"), "/".join(str(v) for v in op.get("fill", [0])))
        elif "mode" in op:  # as torchvision's RandomCrop: every image is padded, and a small one once more
            box, (x, y), (width, height) = op["from"], op["at"], op["size"]
            pixels, around = np.asarray(image), op["padding"]
            pixels = np.pad(pixels, ((around, around), (around, around), (0, 0)), op["mode"])
            lacks = [max(0, side - has) for side, has in zip((height, width), pixels.shape)]
            pixels = np.pad(pixels, [(lack, lack) for lack in lacks] + [(0, 0)], op["mode"])
            top, left = box["top"] - y + around + lacks[0], box["left"] - x + around + lacks[1]
            image = Image.fromarray(pixels[top:top + height, left:left + width])
        elif "at" in op:
            box, (x, y) = op["from"], op["at"]
            whole = Image.new("RGB", op["size"], tuple(op.get("fill", (0, 0, 0))))
            whole.paste(image.crop((box["left"], box["top"], box["left"] + box["width"], box["top"] + box["height"])), (x, y))
            image = whole
        elif name == "fit_bucket":
            place = op["keep"]["left"], op["keep"]["top"]
            image = fit_bucket(image, BUCKETS, op["filter"], place, is_pillow13)
        elif "from" in op:
            box = op["from"]
            left, top = box["left"], box["top"]
            image = image.crop((left, top, left + box["width"], top + box["height"]))
            image = resized(image, op["to"], op["filter"], is_pillow13)
            left, top, *sides = (op["keep"][key] for key in ("left", "top", "width", "height"))
            image = image.crop((left, top, left + sides[0], top + sides[1]))
        elif name == "hflip":
            image = image.transpose(Image.FLIP_LEFT_RIGHT) if op["mirrored"] else image
        elif "matrix" in op:
            method = Image.PERSPECTIVE if name == "perspective" else Image.AFFINE
            image = image.transform(image.size, method, op["matrix"], FILTERS[op["filter"]],
                                    fillcolor=tuple(op["fill"]))
        elif name == "augmix":
            mixed = np.float32(op["weights"][0]) * np.asarray(image).astype(np.float32)
            for weight, branch in zip(op["weights"][1:], op["branches"], strict=True):
                mixed += np.float32(weight) * np.asarray(replay(image, branch, is_pillow13)).astype(np.float32)
            image = Image.fromarray(mixed.astype(np.uint8))
        elif name == "views":
            views = [np.asarray(replay(image, drawn, is_pillow13)) for drawn in op["views"]]
            image = np.concatenate([view.ravel() for view in views])
        elif name == "channel_permute":
            image = Image.merge("RGB", [image.getchannel(c) for c in op["order"]])
        elif name in BY_VALUE:
            values = [value for key, value in op.items() if key != "op"]
            image = BY_VALUE[name](image, *(int(v) if name in ("posterize", "solarize_add") else v for v in values))
        else:
            image = OPS[name][0](image)
    return image


def compare_gram(views, got, is_pillow13):
    """Whether the large views are resized and distorted from those of the Gram teacher."""
    sizes = [32, 32, 64, 64]
    starts = [0, *itertools.accumulate(3 * size * size for size in sizes)]
    pixels = [got[start:end].reshape(size, size, 3) for start, end, size in zip(starts, starts[1:], sizes)]
    return all((pixels[i] == np.asarray(replay(Image.fromarray(pixels[2 + i]), views[i][1:], is_pillow13))).all()
               for i in range(2))


def compare_drawn(program, images, files, folder):
    """(compared, wrong): samples of a whole policy, replayed."""
    compared = wrong = 0
    policies = [f"decode,{policy}" for policy in [POLICY] * 12 + PADDED + WARPED + MIXED + CROPS + VIEWS]
    policies += [f"decode=pillow13,{policy}" for policy in CROPS + [VIEWS[0], GRAM] + ["resize=24,center_crop=21"]]
    for epoch, policy in enumerate(policies):
        done = subprocess.run([program, "tensor", "--draws", "--epoch", str(epoch), "--pipeline", policy, "-o",
                               folder / "out", *files], capture_output=True, text=True, check=True)
        for i, line in enumerate(done.stdout.splitlines()):
            got = np.load(folder / "out" / f"{i:08}.npy")
            compared += 1
            ops, is_pillow13 = json.loads(line)["ops"], "pillow13" in policy
            if (got != np.asarray(replay(images[i], ops, is_pillow13))).any() or (
                    GRAM in policy and not compare_gram(ops[0]["views"], got, is_pillow13)):
                wrong += 1
                print(f"epoch {epoch}, image {i} of {images[i].size}: {line}")
    return compared, wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    wrong = compared = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        images = [random_image(rng, i) for i in range(args.images)]
        files = [folder / f"{i}.png" for i in range(args.images)]
        for image, file in zip(images, files):
            image.save(file)
        for op, (reference, values) in OPS.items():
            for value in values or factors(rng):
                text = text_of(op, value)
                named = value[-1] if value and isinstance(value[-1], dict) else {}
                plain = [v for v in value if not isinstance(v, dict)]
                for image, got in zip(images, ours(args.program, text, files, folder)):
                    want = np.asarray(reference(image, *plain, **named))
                    compared += 1
                    if got.shape != want.shape or (got != want).any():
                        wrong += 1
                        where = np.argwhere(got != want)[0] if got.shape == want.shape else ()
                        print(f"{text} of {image.size}: {json.dumps([int(n) for n in where])}: "
                              f"{got[tuple(where)] if len(where) else got.shape} is not "
                              f"{want[tuple(where)] if len(where) else want.shape}")
        drawn, differ = compare_drawn(args.program, images, files, folder)
        compared, wrong = compared + drawn, wrong + differ
    print(f"{compared} images compared, {wrong} differ")
    return 1 if wrong or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
