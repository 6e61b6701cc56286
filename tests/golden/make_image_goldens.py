#!/usr/bin/python3
"""Makes tests/golden/image: small image files, and what Pillow makes of them.

usage: make_image_goldens.py IMAGE_TOOL OUT_DIR

Needs Pillow and numpy (Debian: python3-pil, python3-numpy).  Files are written by
Pillow, by the PNG writer below (for what Pillow cannot write) and by IMAGE_TOOL
(build/dev/tests/golden_image_tool, for JPEG samplings and restart markers that
Pillow cannot write); the expected pixels always come from Pillow.

expected.txt has one line per check, hashes being zlib's CRC-32 of the RGB bytes:
    decode FILE WIDTH HEIGHT CRC
    resize FILE LEFT TOP WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT FLIP CRC
    pillow13 FILE LEFT TOP WIDTH HEIGHT OUT_WIDTH OUT_HEIGHT FLIP CRC
        a resize that Pillow 13 begins with the rows, as two resizes of one pass each,
        which every Pillow does alike
"""

import os
import random
import struct
import subprocess
import sys
import zlib

import numpy as np
import PIL
from PIL import Image

WIDTH, HEIGHT = 33, 17


def picture(width, height, seed):
    """Smooth colours with edges and a little noise, so that every decoder step shows."""
    rng = np.random.RandomState(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [
        128 + 100 * np.sin(x / 5.0 + seed) * np.cos(y / 4.0),
        255.0 * x / max(1, width - 1),
        255.0 * ((x // 4 + y // 3) % 2),
    ]
    noise = rng.randint(-12, 13, (height, width, 3))
    return np.clip(np.stack(planes, -1) + noise, 0, 255).astype(np.uint8)


def png_chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(
        ">I", zlib.crc32(kind + data) & 0xFFFFFFFF)


def pack_row(samples, depth):
    """samples: 1-D array of one row's samples, in order."""
    if depth == 16:
        return samples.astype(">u2").tobytes()
    if depth == 8:
        return samples.astype(np.uint8).tobytes()
    bits = ((samples[:, None].astype(int) >> np.arange(depth - 1, -1, -1)) & 1).reshape(-1)
    return np.packbits(bits.astype(np.uint8)).tobytes()


def filter_row(kind, row, above, bpp):
    out = bytearray()
    for i, value in enumerate(row):
        left = row[i - bpp] if i >= bpp else 0
        up = above[i] if above else 0
        corner = above[i - bpp] if above and i >= bpp else 0
        p = left + up - corner
        pa, pb, pc = abs(p - left), abs(p - up), abs(p - corner)
        paeth = left if pa <= pb and pa <= pc else up if pb <= pc else corner
        predicted = (0, left, up, (left + up) // 2, paeth)[kind]
        out.append((value - predicted) & 255)
    return bytes([kind]) + bytes(out)


def write_png(path, samples, depth, colour, interlace=False, chunks=b""):
    """samples: height x width x channels; every filter type is used in turn."""
    height, width, channels = samples.shape
    bpp = max(1, channels * depth // 8)
    passes = [(0, 0, 1, 1)]
    if interlace:
        passes = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4),
                  (1, 0, 2, 2), (0, 1, 1, 2)]
    raw = b""
    for x0, y0, dx, dy in passes:
        part = samples[y0::dy, x0::dx]
        if part.shape[0] == 0 or part.shape[1] == 0:
            continue
        above = None
        for y in range(part.shape[0]):
            row = pack_row(part[y].reshape(-1), depth)
            raw += filter_row((y + x0) % 5, row, above, bpp)
            above = row
    data = zlib.compress(raw)
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlace))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + chunks +
                   png_chunk(b"IDAT", data[:len(data) // 2]) +
                   png_chunk(b"IDAT", data[len(data) // 2:]) + png_chunk(b"IEND", b""))


def make_pngs(folder):
    rng = np.random.RandomState(5)
    rgb = picture(WIDTH, HEIGHT, 1)
    wide = (rgb.astype(np.uint16) << 8) + rng.randint(0, 256, rgb.shape)
    alpha = rng.randint(0, 256, (HEIGHT, WIDTH, 1))
    gray = rgb[:, :, :1]
    dark = rng.randint(0, 400, (HEIGHT, WIDTH, 1))  # 16-bit values on both sides of 255
    palette = rng.randint(0, 256, (256, 3)).astype(np.uint8)

    for interlace in (False, True):
        suffix = "_interlaced" if interlace else ""

        def put(name, samples, depth, colour, chunks=b""):
            write_png(os.path.join(folder, f"{name}{suffix}.png"), samples, depth, colour,
                      interlace, chunks)

        put("rgb8", rgb, 8, 2)
        put("rgb16", wide, 16, 2)
        put("rgba8", np.concatenate([rgb, alpha], 2), 8, 6)
        put("rgba16", np.concatenate([wide, alpha * 257], 2), 16, 6)
        put("gray_alpha8", np.concatenate([gray, alpha], 2), 8, 4)
        put("gray_alpha16", np.concatenate([wide[:, :, :1], alpha * 257], 2), 16, 4)
        put("gray8", gray, 8, 0)
        put("gray16", dark, 16, 0)
        for depth in (1, 2, 4, 8):
            index = gray.astype(int) >> (8 - depth)
            if depth < 8:
                put(f"gray{depth}", index, depth, 0)
            used = png_chunk(b"PLTE", palette[:1 << depth].tobytes())
            put(f"palette{depth}", index, depth, 3, used)
        clear = png_chunk(b"PLTE", palette.tobytes()) + png_chunk(b"tRNS", bytes(range(0, 200)))
        put("palette8_trns", gray, 8, 3, clear)
    # Indices beyond a short palette.
    short = png_chunk(b"PLTE", palette[:100].tobytes())
    write_png(os.path.join(folder, "palette8_short.png"), gray, 8, 3, False, short)
    write_png(os.path.join(folder, "rgb8_trns.png"), rgb, 8, 2, False,
              png_chunk(b"tRNS", struct.pack(">HHH", *map(int, rgb[0, 0]))))
    # Gamma and a colour profile's intent are not applied.
    write_png(os.path.join(folder, "rgb8_gamma.png"), rgb, 8, 2, False,
              png_chunk(b"gAMA", struct.pack(">I", 100000)) + png_chunk(b"sRGB", b"\0"))
    Image.fromarray(picture(1, 1, 3)).save(os.path.join(folder, "one_pixel.png"))
    # The zlib header names a window of 256 bytes, and the data refer to what is further back.
    rows = b"".join(b"\0" + row.tobytes() for row in np.tile(rgb, (3, 1, 1)))
    data = bytearray(zlib.compress(rows))
    data[0], data[1] = 0x08, data[1] & 0xC0
    data[1] += 31 - (data[0] << 8 | data[1]) % 31
    with open(os.path.join(folder, "small_window.png"), "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + png_chunk(
            b"IHDR", struct.pack(">IIBBBBB", WIDTH, 3 * HEIGHT, 8, 2, 0, 0, 0)) +
            png_chunk(b"IDAT", bytes(data)) + png_chunk(b"IEND", b""))


def make_jpegs(folder, tool):
    def path(name):
        return os.path.join(folder, name)

    def encode(h, v, restart, kind, source, name):
        line = f"encode {h} {v} {restart} {kind} {path(source)} {path(name)}\n"
        answer = subprocess.run([tool], input=line.encode(), stdout=subprocess.PIPE, check=True)
        assert answer.stdout.startswith(b"ok"), (line, answer.stdout)

    for h, v in ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (4, 2), (3, 1), (1, 3)):
        encode(h, v, 0, "baseline", "rgb8.png", f"ycc_{h}x{v}.jpg")
    for h, v in ((1, 1), (2, 1), (1, 2), (2, 2)):
        encode(h, v, 0, "progressive", "rgb8.png", f"progressive_{h}x{v}.jpg")
        encode(h, v, 0, "ycck", "rgb8.png", f"ycck_{h}x{v}.jpg")
    encode(2, 2, 1, "baseline", "rgb8.png", "restart_2x2.jpg")
    encode(1, 1, 1, "progressive", "rgb8.png", "restart_progressive.jpg")
    encode(1, 1, 0, "gray", "rgb8.png", "gray.jpg")
    encode(1, 1, 0, "cmyk", "rgb8.png", "cmyk.jpg")
    for name, width, height in (("one_pixel", 1, 1), ("narrow", 3, 50), ("odd", 17, 9),
                                ("whole_mcus", 32, 16), ("one_row", 40, 1)):
        image = Image.fromarray(picture(width, height, 7))
        image.save(path(name + ".jpg"), quality=85, subsampling=2)
        image.save(path(name + "_progressive.jpg"), quality=85, progressive=True)
    image = Image.fromarray(picture(WIDTH, HEIGHT, 1))
    image.convert("CMYK").save(path("cmyk_pillow.jpg"), quality=95)
    image.convert("L").save(path("gray_progressive.jpg"), quality=90, progressive=True)
    image.save(path("quality_1.jpg"), quality=1)
    image.save(path("quality_100.jpg"), quality=100, subsampling=0)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turned by 90 degrees, which convert("RGB") ignores
    image.save(path("exif_turned.jpg"), quality=90, exif=exif)

    # An Adobe marker that says "no colour transform" in place of JFIF's: RGB planes.
    with open(path("ycc_1x1.jpg"), "rb") as file:
        data = file.read()
    jfif = data.index(b"\xFF\xE0")
    after = jfif + 2 + struct.unpack(">H", data[jfif + 2:jfif + 4])[0]
    adobe = b"\xFF\xEE\x00\x0EAdobe\x00\x64\x00\x00\x00\x00\x00"
    for name, extra in (("rgb_planes.jpg", adobe), ("no_marker.jpg", b"")):
        with open(path(name), "wb") as file:
            file.write(data[:jfif] + extra + data[after:])
    # One component that claims 2 x 2 sampling, which means nothing with one component.
    with open(path("gray.jpg"), "rb") as file:
        data = bytearray(file.read())
    sof = data.index(b"\xFF\xC0")
    data[sof + 11] = 0x22
    with open(path("gray_2x2.jpg"), "wb") as file:
        file.write(data)
    with open(path("ycc_2x2.jpg"), "rb") as file:
        data = file.read()
    with open(path("trailing_garbage.jpg"), "wb") as file:
        file.write(data + b"\0\1\2garbage\xFF")
    middle = len(data) - 40
    with open(path("eoi_in_scan.jpg"), "wb") as file:
        file.write(data[:middle] + b"\xFF\xD9" + data[middle:])
    with open(path("flipped_bit.jpg"), "wb") as file:
        file.write(data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1:])
    with open(path("png_by_content.JPEG"), "wb") as file:
        with open(path("rgb8.png"), "rb") as source:
            file.write(source.read())


def resize_cases():
    rng = random.Random(11)
    width, height = 97, 61
    cases = [
        (0, 0, 97, 61, 97, 61), (0, 0, 97, 61, 1, 1), (96, 60, 1, 1, 9, 5), (0, 0, 97, 61, 97, 10),
        (0, 0, 97, 61, 10, 61), (3, 5, 1, 50, 20, 20), (3, 5, 50, 1, 20, 20),
        (0, 0, 97, 61, 224, 224), (10, 10, 32, 32, 64, 64), (10, 10, 64, 32, 32, 16),
        (0, 0, 97, 1, 1, 61), (1, 1, 96, 60, 48, 30),
    ]
    while len(cases) < 140:
        w, h = rng.randint(1, width), rng.randint(1, height)
        left, top = rng.randint(0, width - w), rng.randint(0, height - h)
        out = rng.randint(1, rng.choice([8, 64, 200])), rng.randint(1, rng.choice([8, 64, 200]))
        cases.append((left, top, w, h) + out)
    return [case + (i % 2,) for i, case in enumerate(cases)]


def main():
    tool, folder = os.path.abspath(sys.argv[1]), sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    make_pngs(folder)
    make_jpegs(folder, tool)
    rng = np.random.RandomState(2)
    noisy = np.where(rng.rand(61, 97, 1) < 0.3, rng.randint(0, 256, (61, 97, 3)),
                     picture(97, 61, 4))
    Image.fromarray(noisy.astype(np.uint8)).save(os.path.join(folder, "resize_source.png"))

    lines = [f"# made by make_image_goldens.py with Pillow {PIL.__version__}"]
    for name in sorted(os.listdir(folder)):
        if name == "expected.txt":
            continue
        with Image.open(os.path.join(folder, name)) as image:
            rgb = image.convert("RGB")
        lines.append(f"decode {name} {rgb.width} {rgb.height} {zlib.crc32(rgb.tobytes()):08x}")
    source = Image.open(os.path.join(folder, "resize_source.png")).convert("RGB")
    for left, top, width, height, out_width, out_height, flip in resize_cases():
        image = source.crop((left, top, left + width, top + height))
        image = image.resize((out_width, out_height), Image.BILINEAR)
        if flip:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        lines.append(f"resize resize_source.png {left} {top} {width} {height} {out_width} "
                     f"{out_height} {flip} {zlib.crc32(image.tobytes()):08x}")
    for left, top, width, height, out_width, out_height, flip in resize_cases():
        lower, narrower = height - out_height, width - out_width
        if lower <= 0 or lower <= 2 * narrower:
            continue
        image = source.crop((left, top, left + width, top + height))
        image = image.resize((width, out_height), Image.BILINEAR)
        image = image.resize((out_width, out_height), Image.BILINEAR)
        if flip:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        lines.append(f"pillow13 resize_source.png {left} {top} {width} {height} {out_width} "
                     f"{out_height} {flip} {zlib.crc32(image.tobytes()):08x}")
    with open(os.path.join(folder, "expected.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


main()
