#!/usr/bin/python3
"""Makes tests/golden/formats: small files of the formats beside JPEG and PNG, and what Pillow makes of them.

usage: make_format_goldens.py OUT_DIR [--random N FOLDER]

Needs Pillow and numpy (Debian: python3-pil, python3-numpy).  Files are written by Pillow and, where
it cannot, by the writers below; the expected pixels always come from Pillow.

expected.txt has one line per file, the hash being zlib's CRC-32 of the RGB bytes:
    decode FILE WIDTH HEIGHT CRC
    upright FILE WIDTH HEIGHT CRC   the same after ImageOps.exif_transpose
    error FILE                      Pillow raises, or docs/DECODING.md says that Sluice does (unread_*)
"""

import io
import os
import struct
import sys
import warnings
import zlib

import numpy as np
import PIL
from PIL import Image, ImageOps

from make_image_goldens import HEIGHT, WIDTH, picture

def saved(image, **options):
    out = io.BytesIO()
    image.save(out, **options)
    return out.getvalue()


def with_alpha(rgb, seed):
    alpha = np.random.RandomState(seed).randint(0, 256, rgb.shape[:2] + (1,)).astype(np.uint8)
    alpha[:3] = 0  # whole rows that nobody sees
    return Image.fromarray(np.concatenate([rgb, alpha], 2), "RGBA")


def make_webp():
    rgb = Image.fromarray(picture(WIDTH, HEIGHT, 1))
    rgba = with_alpha(picture(WIDTH, HEIGHT, 1), 3)
    yield "lossy.webp", saved(rgb, format="WEBP", quality=70)
    yield "lossy_high.webp", saved(rgb, format="WEBP", quality=100, method=6)
    yield "lossy_low.webp", saved(rgb, format="WEBP", quality=1)
    yield "lossless.webp", saved(rgb, format="WEBP", lossless=True)
    yield "lossy_alpha.webp", saved(rgba, format="WEBP", quality=60)
    yield "lossless_alpha.webp", saved(rgba, format="WEBP", lossless=True)
    yield "lossless_exact.webp", saved(rgba, format="WEBP", lossless=True, exact=True)
    yield "palette.webp", saved(rgb.quantize(7).convert("RGB"), format="WEBP", lossless=True)
    yield "one_pixel.webp", saved(Image.fromarray(picture(1, 1, 2)), format="WEBP")
    yield "odd.webp", saved(Image.fromarray(picture(17, 9, 7)), format="WEBP", quality=80)
    yield "exif.webp", saved(rgb, format="WEBP", exif=b"Exif\0\0II*\0\x08\0\0\0\0\0\0\0\0\0")
    frames = [Image.fromarray(picture(WIDTH, HEIGHT, seed)) for seed in (4, 5)]
    animated = saved(frames[0], format="WEBP", save_all=True, append_images=frames[1:])
    yield "animated.webp", animated
    # The first frame on a larger canvas, away from its corner.
    moved = bytearray(animated)
    canvas, frame = moved.index(b"VP8X") + 8, moved.index(b"ANMF") + 8
    moved[canvas + 4:canvas + 10] = struct.pack("<I", 49)[:3] + struct.pack("<I", 29)[:3]
    moved[frame:frame + 6] = struct.pack("<I", 3)[:3] + struct.pack("<I", 5)[:3]
    yield "animated_moved.webp", bytes(moved)
    lossy = saved(rgb, format="WEBP", quality=70)
    yield "cut.webp", lossy[:len(lossy) // 2]
    yield "cut_end.webp", lossy[:-2]
    yield "tail.webp", lossy + b"more"
    lossless = saved(rgb, format="WEBP", lossless=True)
    yield "cut_lossless.webp", lossless[:-20]


def bmp(width, height, bits, rows, palette=b"", compression=0, header=40, colors=0, masks=b"",
        top_down=False):
    """rows: the data behind the headers."""
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", 40, width, -height if top_down else height, 1, bits,
                           compression, len(rows), 0, 0, colors, 0)
        if header > 40:
            info = struct.pack("<I", header) + info[4:] + masks + b"\0" * header
            info = info[:header]
        else:
            info += masks
    offset = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", offset + len(rows), 0, 0, offset) + info + palette + rows


def bit_rows(values, bits):
    """values: height x width of numbers; rows of whole 32-bit words."""
    out = b""
    for row in values:
        unpacked = ((row[:, None].astype(int) >> np.arange(bits - 1, -1, -1)) & 1).reshape(-1)
        packed = np.packbits(unpacked.astype(np.uint8)).tobytes()
        out += packed + b"\0" * (-len(packed) % 4)
    return out


def bmp_rows(values, kind):
    out = b""
    for row in values.astype(kind):
        data = row.tobytes()
        out += data + b"\0" * (-len(data) % 4)
    return out


def rle8(values):
    """Runs, literals, an end of each row, one skip and the end of the picture."""
    out = b""
    for y, row in enumerate(values):
        x = 0
        while x < len(row):
            run = 1
            while x + run < len(row) and run < 9 and row[x + run] == row[x]:
                run += 1
            literals = min(5, len(row) - x)
            if run < 2 and literals >= 3:
                out += bytes([0, literals]) + bytes(row[x:x + literals].tolist())
                out += b"\0" * (literals % 2)
                x += literals
            else:
                out += bytes([run, row[x]])
                x += run
        out += b"\0\0"
    return out + b"\0\1"


def make_bmp():
    rgb = picture(WIDTH, HEIGHT, 1)
    image = Image.fromarray(rgb)
    rng = np.random.RandomState(8)
    index = rgb[::-1, :, 0]
    yield "rgb24.bmp", saved(image, format="BMP")
    yield "gray8.bmp", saved(image.convert("L"), format="BMP")
    yield "one_bit.bmp", saved(image.convert("1"), format="BMP")
    yield "palette8.bmp", saved(image.quantize(200), format="BMP")
    yield "rgba32.bmp", saved(with_alpha(rgb, 3), format="BMP")
    for bits in (1, 4, 8):
        palette = rng.randint(0, 256, 4 << bits).astype(np.uint8).tobytes()
        rows = bit_rows(index >> (8 - bits), bits)
        yield f"palette{bits}_made.bmp", bmp(WIDTH, HEIGHT, bits, rows, palette)
        yield f"palette{bits}_top_down.bmp", bmp(WIDTH, HEIGHT, bits, rows, palette, top_down=True)
        small = rng.randint(0, 256, 3 << bits).astype(np.uint8).tobytes()
        yield f"palette{bits}_os2.bmp", bmp(WIDTH, HEIGHT, bits, rows, small, header=12)
    palette = rng.randint(0, 256, 400).astype(np.uint8).tobytes()
    yield "palette8_short.bmp", bmp(WIDTH, HEIGHT, 8, bit_rows(index, 8), palette, colors=100)
    ramp = b"".join(bytes([i, i, i, 0]) for i in range(16))
    yield "gray4_ramp.bmp", bmp(WIDTH, HEIGHT, 4, bit_rows(index >> 4, 4), ramp)
    yield "gray8_of_16.bmp", bmp(WIDTH, HEIGHT, 8, bit_rows(index, 8), ramp, colors=16)
    two = b"\0\0\0\0\xff\xff\xff\0"
    yield "black_white8.bmp", bmp(WIDTH, HEIGHT, 8, bit_rows(index, 8), two, colors=2)
    yield "white_black1.bmp", bmp(WIDTH, HEIGHT, 1, bit_rows(index >> 7, 1), two[4:] + two[:4])
    words = rng.randint(0, 65536, (HEIGHT, WIDTH))
    rows = bmp_rows(words, "<u2")
    yield "rgb555.bmp", bmp(WIDTH, HEIGHT, 16, rows)
    for name, masks in (("555", (0x7C00, 0x3E0, 0x1F)), ("565", (0xF800, 0x7E0, 0x1F)),
                        ("444", (0xF00, 0xF0, 0xF))):
        packed = struct.pack("<III", *masks)
        yield f"masks{name}.bmp", bmp(WIDTH, HEIGHT, 16, rows, compression=3, masks=packed)
        yield f"masks{name}_v4.bmp", bmp(WIDTH, HEIGHT, 16, rows, compression=3, header=108,
                                         masks=packed)
    wide = bmp_rows(rng.randint(0, 1 << 32, (HEIGHT, WIDTH), dtype=np.uint64), "<u4")
    yield "rgb32.bmp", bmp(WIDTH, HEIGHT, 32, wide)
    for name, masks in (("bgrx", (0xFF0000, 0xFF00, 0xFF, 0)), ("none", (0, 0, 0, 0)),
                        ("xbgr", (0xFF000000, 0xFF0000, 0xFF00, 0)),
                        ("abgr", (0xFF000000, 0xFF0000, 0xFF00, 0xFF)),
                        ("rgba", (0xFF, 0xFF00, 0xFF0000, 0xFF000000)),
                        ("bgra", (0xFF0000, 0xFF00, 0xFF, 0xFF000000)),
                        ("odd", (0xFF, 0xFF00, 0xFF0000, 0))):
        yield f"masks_{name}.bmp", bmp(WIDTH, HEIGHT, 32, wide, compression=3, header=124,
                                       masks=struct.pack("<IIII", *masks))
    palette = rng.randint(0, 256, 1024).astype(np.uint8).tobytes()
    flat = (index // 32 * 32).copy()
    flat[4] = 7
    yield "rle8.bmp", bmp(WIDTH, HEIGHT, 8, rle8(flat), palette, compression=1)
    grays = b"".join(bytes([i, i, i, 0]) for i in range(256))
    yield "rle8_gray.bmp", bmp(WIDTH, HEIGHT, 8, rle8(flat), grays, compression=1)
    yield "rle8_skip.bmp", bmp(6, 4, 8, b"\3\7\0\2\1\1\2\5\0\0\0\4abcd\0\0\0\2\2\0\4\3\0\0\6\1\0\1",
                               palette, compression=1)
    yield "rle8_over.bmp", bmp(5, 3, 8, b"\x09\7\0\0\5\1\0\0\5\2\1\1\0\1", palette, compression=1)
    yield "rle8_missing.bmp", bmp(5, 3, 8, b"\5\7\0\0\5\1\0\1", palette, compression=1)
    yield "rle4.bmp", bmp(7, 3, 4, b"\7\x12\0\0\0\6\x34\x56\x78\0\1\x90\0\0\7\xAB\0\1", palette[:64],
                          compression=2)
    yield "rle4_odd.bmp", bmp(7, 3, 4, b"\7\x12\0\0\0\5\x34\x56\x78\0\3\x90\0\0\7\xAB\0\1",
                              palette[:64], compression=2)
    data = saved(image, format="BMP")
    yield "cut.bmp", data[:-40]
    yield "cut_padding.bmp", data[:-1]
    yield "cut_pixel.bmp", data[:-2]
    yield "cut_header.bmp", data[:30]
    yield "tail.bmp", data + b"more"
    yield "jpeg_inside.bmp", bmp(WIDTH, HEIGHT, 24, data[54:], compression=4)
    yield "two_bits.bmp", bmp(WIDTH, HEIGHT, 2, bit_rows(index >> 6, 2), palette[:16])
    yield "header_52.bmp", data[:14] + struct.pack("<I", 52) + data[18:]


def make_gif():
    rgb = picture(WIDTH, HEIGHT, 1)
    image = Image.fromarray(rgb)
    yield "palette.gif", saved(image.quantize(256), format="GIF")
    yield "palette_few.gif", saved(image.quantize(5), format="GIF", interlace=0)
    yield "gray.gif", saved(image.convert("L"), format="GIF")
    yield "one_bit.gif", saved(image.convert("1"), format="GIF")
    yield "interlaced.gif", saved(image.quantize(64), format="GIF", interlace=1)
    yield "one_pixel.gif", saved(Image.fromarray(picture(1, 1, 3)).quantize(2), format="GIF")
    for height in range(1, 10):
        small = Image.fromarray(picture(3, height, 3)).quantize(16)
        yield f"interlaced_{height}.gif", saved(small, format="GIF", interlace=1)
    yield "transparent.gif", saved(image.quantize(100), format="GIF", transparency=7)
    frames = [Image.fromarray(picture(WIDTH, HEIGHT, seed)).quantize(50) for seed in (4, 5)]
    yield "animated.gif", saved(frames[0], format="GIF", save_all=True, append_images=frames[1:],
                                duration=100, loop=0)
    yield "comment.gif", saved(image.quantize(9), format="GIF", comment=b"x" * 700)
    noise = np.random.RandomState(1).randint(0, 256, (90, 90)).astype(np.uint8)
    yield "full_table.gif", saved(Image.fromarray(noise), format="GIF", optimize=False)
    # A frame within its screen, and one that makes the screen larger.
    data = bytearray(saved(image.quantize(100), format="GIF", transparency=9))
    frame = data.index(b",\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT))
    moved = bytearray(data)
    moved[6:10] = struct.pack("<HH", WIDTH + 9, HEIGHT + 7)
    moved[frame + 1:frame + 5] = struct.pack("<HH", 4, 3)
    yield "frame_within.gif", bytes(moved)
    moved[6:10] = struct.pack("<HH", 20, 30)
    yield "frame_beyond.gif", bytes(moved)
    plain = bytearray(saved(image.quantize(100), format="GIF"))
    yield "cut.gif", bytes(plain[:len(plain) // 2])
    yield "cut_trailer.gif", bytes(plain[:-1])
    yield "cut_header.gif", bytes(plain[:100])
    yield "no_image.gif", bytes(plain[:781]) + b";"
    yield "empty_frame.gif", bytes(plain).replace(
        b",\0\0\0\0" + struct.pack("<HH", WIDTH, HEIGHT), b",\0\0\0\0" + struct.pack("<HH", 0, HEIGHT))
    yield "between.gif", bytes(plain).replace(b",\0\0\0\0", b"\1\2xy,\0\0\0\0", 1)
    codes = bytearray(plain)
    codes[-20] ^= 0x5A
    yield "flipped.gif", bytes(codes)


def tiff(tags, data, order="<", tail=b""):
    """tags: {number: (type, values)}; {tag 273 or 324} may hold lists of places within `data`."""
    base = 8
    body = b""
    entries = []
    kinds = {1: "B", 3: "H", 4: "I"}
    offset = base + len(data)
    for number, (kind, values) in sorted(tags.items()):
        if number in (273, 324):
            values = [base + value for value in values]
        packed = struct.pack(f"{order}{len(values)}{kinds[kind]}", *values)
        if len(packed) <= 4:
            field = packed.ljust(4, b"\0")
        else:
            field = struct.pack(f"{order}I", offset + len(body))
            body += packed + b"\0" * (len(packed) % 2)
        entries.append(struct.pack(f"{order}HHI", number, kind, len(values)) + field)
    start = offset + len(body)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return (mark + struct.pack(f"{order}I", start) + data + body +
            struct.pack(f"{order}H", len(entries)) + b"".join(entries) + b"\0" * 4 + tail)


def tiff_tags(width, height, bits, photometric, samples, **more):
    tags = {256: (4, [width]), 257: (4, [height]), 258: (3, [bits] * samples), 259: (3, [1]),
            262: (3, [photometric]), 277: (3, [samples])}
    tags.update({int(key[1:]): value for key, value in more.items()})
    return tags


def make_tiff():
    rgb = picture(WIDTH, HEIGHT, 1)
    image = Image.fromarray(rgb)
    rng = np.random.RandomState(8)
    kinds = {"1": image.convert("1"), "L": image.convert("L"), "P": image.quantize(200),
             "RGB": image, "RGBA": with_alpha(rgb, 3), "CMYK": image.convert("CMYK"),
             "LA": with_alpha(rgb, 3).convert("LA")}
    for compression in (None, "tiff_lzw", "tiff_adobe_deflate", "tiff_deflate", "packbits"):
        for mode, picked in kinds.items():
            if mode in ("RGB", "P", "1") or compression in (None, "tiff_lzw"):
                name = f"{mode.lower()}_{compression or 'raw'}.tif"
                yield name, saved(picked, format="TIFF", compression=compression)
    yield "rgb_predictor.tif", saved(image, format="TIFF", compression="tiff_lzw",
                                     tiffinfo={317: 2})
    for mode in ("RGB", "L", "CMYK"):
        yield f"{mode.lower()}_jpeg.tif", saved(kinds[mode], format="TIFF", compression="jpeg")
    yield "ycbcr_jpeg.tif", saved(image.convert("YCbCr"), format="TIFF", compression="jpeg")
    yield "gray16.tif", saved(Image.fromarray(
        rng.randint(0, 400, (HEIGHT, WIDTH)).astype(np.uint16)), format="TIFF")
    yield "unread_group4.tif", saved(kinds["1"], format="TIFF", compression="group4")
    for orientation in range(1, 9):
        yield f"turned_{orientation}.tif", saved(image, format="TIFF", compression="tiff_lzw",
                                                 tiffinfo={274: orientation})
    wide = rng.randint(0, 65536, (HEIGHT, WIDTH, 4))
    whole = {"_273": (4, [0]), "_278": (4, [HEIGHT])}
    for order in "<>":
        end = "_le" if order == "<" else "_be"

        def made(name, bits, photometric, samples, data, **more):
            count = {"_279": (4, [len(data)])}
            tags = tiff_tags(WIDTH, HEIGHT, bits, photometric, samples, **{**whole, **count, **more})
            return name + end + ".tif", tiff(tags, data, order)

        for samples, photometric, more in ((3, 2, {}), (4, 2, {}), (4, 2, {"_338": (3, [0])}),
                                           (4, 2, {"_338": (3, [1])}), (4, 2, {"_338": (3, [2])}),
                                           (1, 1, {}), (1, 0, {}), (4, 5, {})):
            extra = f"_extra{more['_338'][1][0]}" if more else ""
            values = wide[:, :, :samples] if samples > 1 else wide[:, :, :1] // 100
            data = values.astype(order + "u2").tobytes()
            yield made(f"made16_{photometric}_{samples}{extra}", 16, photometric, samples, data, **more)
            data = (wide[:, :, :samples] >> 8).astype(np.uint8).tobytes()
            yield made(f"made8_{photometric}_{samples}{extra}", 8, photometric, samples, data, **more)
        for bits in (1, 2, 4):
            rows = b"".join(pack for pack in (
                np.packbits(((row[:, None].astype(int) >> np.arange(bits - 1, -1, -1)) & 1)
                            .reshape(-1).astype(np.uint8)).tobytes()
                for row in rgb[:, :, 0] >> (8 - bits)))
            for photometric in (0, 1, 3):
                more = {"_320": (3, rng.randint(0, 65536, 3 << bits).tolist())} if photometric == 3 else {}
                yield made(f"made{bits}_{photometric}", bits, photometric, 1, rows, **more)
        planes = np.ascontiguousarray(rgb.transpose(2, 0, 1)).tobytes()
        size = WIDTH * HEIGHT
        yield made("planar", 8, 2, 3, planes, _284=(3, [2]), _273=(4, [0, size, 2 * size]),
                   _279=(4, [size] * 3))
        tiles, places = b"", []
        padded = np.zeros((32, 48, 3), np.uint8)
        padded[:HEIGHT, :WIDTH] = rgb
        for y in (0, 16):
            for x in (0, 16, 32):
                places.append(len(tiles))
                tiles += np.ascontiguousarray(padded[y:y + 16, x:x + 16]).tobytes()
        tags = tiff_tags(WIDTH, HEIGHT, 8, 2, 3, _322=(3, [16]), _323=(3, [16]), _324=(4, places),
                         _325=(4, [768] * 6))
        yield "tiles" + end + ".tif", tiff(tags, tiles, order)
        packed, places, lengths = b"", [], []
        for y in (0, 16):
            for x in (0, 16, 32):
                places.append(len(packed))
                packed += zlib.compress(np.ascontiguousarray(padded[y:y + 16, x:x + 16]).tobytes())
                lengths.append(len(packed) - places[-1])
        tags.update({259: (3, [8]), 324: (4, places), 325: (4, lengths)})
        yield "tiles_deflate" + end + ".tif", tiff(tags, packed, order)
        strips = [0, WIDTH * 3 * 5, WIDTH * 3 * 10, WIDTH * 3 * 15]
        lengths = [WIDTH * 3 * 5] * 3 + [WIDTH * 3 * 2]
        yield made("strips", 8, 2, 3, rgb.tobytes(), _273=(4, strips), _278=(3, [5]),
                   _279=(4, lengths))
    float_rows = rng.rand(HEIGHT, WIDTH).astype("<f4")
    yield "cut_raw.tif", saved(image, format="TIFF")[:-100]
    lzw = saved(image, format="TIFF", compression="tiff_lzw")
    yield "cut_lzw.tif", lzw[:len(lzw) // 2]
    yield "cut_header.tif", lzw[:6]
    yield "two_pages.tif", saved(image, format="TIFF", save_all=True, append_images=[kinds["L"]])
    yield "unread_float.tif", saved(Image.fromarray(float_rows), format="TIFF")


def make_pnm():
    rgb = picture(WIDTH, HEIGHT, 1)
    wide = np.random.RandomState(9).randint(0, 65536, (HEIGHT, WIDTH, 3))
    size = f"{WIDTH} {HEIGHT}".encode()
    yield "rgb.ppm", saved(Image.fromarray(rgb), format="PPM")
    yield "gray.pgm", saved(Image.fromarray(rgb[:, :, 0]), format="PPM")
    yield "comments.ppm", b"P6 # one\n#two\r " + size + b"#\n\t255\n" + rgb.tobytes()
    for most in (1, 2, 100, 254):
        values = (rgb.astype(int) * most // 255).astype(np.uint8)
        yield f"max{most}.ppm", b"P6\n" + size + f"\n{most}\n".encode() + values.tobytes()
        yield f"max{most}.pgm", b"P5\n" + size + f"\n{most}\n".encode() + values[:, :, 0].tobytes()
    for most in (256, 510, 4095, 65535):
        for name, values in ((f"max{most}.ppm", wide), (f"max{most}.pgm", wide[:, :, 0] // 50)):
            values = np.minimum(values, most).astype(">u2")
            magic = b"P5\n" if name.endswith(".pgm") else b"P6\n"
            yield name, magic + size + f"\n{most}\n".encode() + values.tobytes()
    yield "over_max.ppm", b"P6\n" + size + b"\n100\n" + rgb.tobytes()
    yield "cut.ppm", saved(Image.fromarray(rgb), format="PPM")[:-1]
    yield "cut_header.pgm", b"P5\n33 17\n25"
    yield "max0.ppm", b"P6\n" + size + b"\n0\n" + rgb.tobytes()
    yield "unread_text.pgm", b"P2\n2 1\n255\n7 8\n"


def make_more():
    """What make_image_goldens.py has no file of: transparency in PNGs without a palette, animated
    PNGs, four inks without Adobe's marker."""
    rgb = picture(WIDTH, HEIGHT, 1)
    image = Image.fromarray(rgb)
    gray = image.convert("L")
    yield "gray_clear.png", saved(gray, format="PNG", transparency=100)
    yield "one_bit_clear.png", saved(image.convert("1"), format="PNG", transparency=0)
    yield "rgb_clear.png", saved(image, format="PNG", transparency=tuple(map(int, rgb[3, 3])))
    wide = Image.fromarray((np.asarray(gray).astype(np.int32) * 3))
    yield "gray16_wide.png", saved(wide, format="PNG")
    yield "gray_alpha.png", saved(with_alpha(rgb, 3).convert("LA"), format="PNG")
    yield "animated.png", saved(image, format="PNG", save_all=True,
                                append_images=[Image.fromarray(picture(WIDTH, HEIGHT, 2))])
    frames = [Image.fromarray(picture(WIDTH, HEIGHT, seed)) for seed in (2, 4)]
    yield "animated_default.png", saved(image, format="PNG", save_all=True, default_image=True,
                                        append_images=frames)
    inks = saved(image.convert("CMYK"), format="JPEG", quality=90)
    yield "cmyk_adobe.jpg", inks
    adobe = inks.index(b"\xff\xee")
    length = struct.unpack(">H", inks[adobe + 2:adobe + 4])[0]
    yield "cmyk_plain.jpg", inks[:adobe] + inks[adobe + 2 + length:]
    for transform in (0, 1, 2):
        yield (f"cmyk_transform{transform}.jpg",
               inks[:adobe + 1 + length] + bytes([transform]) + inks[adobe + 2 + length:])
        plain = saved(image, format="JPEG", quality=90)
        marker = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00" + bytes([transform])
        yield f"rgb_transform{transform}.jpg", plain[:2] + marker + plain[20:]
    yield "gray.jpg", saved(gray, format="JPEG", quality=90)


def make_turned():
    """Files whose EXIF says how to turn them; expected.txt has a second line for each."""
    rgb = picture(WIDTH, HEIGHT, 1)
    image = Image.fromarray(rgb)
    for orientation in list(range(1, 9)) + [9]:
        exif = Image.Exif()
        exif[0x0112] = orientation
        yield f"exif_{orientation}.jpg", saved(image, format="JPEG", quality=90, exif=exif)
        if orientation in (2, 6, 8):
            yield f"exif_{orientation}.png", saved(image, format="PNG", exif=exif)
            yield f"exif_{orientation}.webp", saved(image, format="WEBP", lossless=True, exif=exif)
    data = saved(image, format="JPEG", quality=90)
    for name, order, kind, count, value in (
            ("big_endian", ">", 3, 1, struct.pack(">HH", 6, 0)),
            ("long", "<", 4, 1, struct.pack("<I", 5)), ("byte", "<", 1, 1, b"\x03\0\0\0"),
            ("two_values", "<", 3, 2, struct.pack("<HH", 6, 6))):
        tag = struct.pack(order + "HHHI", 1, 0x0112, kind, count) + value
        head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "I", 8)
        exif = b"Exif\0\0" + head + tag + b"\0\0\0\0"
        segment = b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif
        yield f"exif_{name}.jpg", data[:2] + segment + data[2:]
        scan = data.index(b"\xff\xda")
        yield f"exif_{name}_late.jpg", data[:scan] + segment + data[scan:]


def expected_line(name, data):
    if name.startswith("unread_"):
        return f"error {name}"
    try:
        with Image.open(io.BytesIO(data)) as image:
            rgb = image.convert("RGB")
    except Exception:  # Pillow raises what it likes, from struct.error to SystemError
        return f"error {name}"
    return f"decode {name} {rgb.width} {rgb.height} {zlib.crc32(rgb.tobytes()):08x}"


def upright_line(name, data):
    """What ImageOps.exif_transpose makes of it.  Not for TIFFs, which Pillow turns when it loads them
    and ImageOps then turns again."""
    with Image.open(io.BytesIO(data)) as image:
        rgb = ImageOps.exif_transpose(image).convert("RGB")
    return f"upright {name} {rgb.width} {rgb.height} {zlib.crc32(rgb.tobytes()):08x}"


MAKERS = [make_webp, make_bmp, make_gif, make_tiff, make_pnm, make_more, make_turned]


def main():
    warnings.simplefilter("ignore")
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    lines = [f"# made by make_format_goldens.py with Pillow {PIL.__version__}"]
    for maker in MAKERS:
        for name, data in maker():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
            lines.append(expected_line(name, data))
            if maker is make_turned:
                lines.append(upright_line(name, data))
    with open(os.path.join(folder, "expected.txt"), "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
