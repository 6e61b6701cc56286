"""Small image files that ask a decoder for much work or memory, written byte by byte."""
import struct
import zlib


def _segment(marker, body):
    return struct.pack(">BBH", 0xFF, marker, len(body) + 2) + body


def _table(table_class, number, symbols):
    """A Huffman table with a code of one bit for the first symbol, of two for the second, ..."""
    counts = [1] * len(symbols) + [0] * (16 - len(symbols))
    return _segment(0xC4, bytes([table_class << 4 | number, *counts, *symbols]))


def _bits(text):
    """Entropy-coded bytes of a string of 0 and 1, filled up with ones, 0xFF stuffed."""
    text += "1" * (-len(text) % 8)
    data = int(text or "0", 2).to_bytes(len(text) // 8, "big")
    return data.replace(b"\xff", b"\xff\x00")


def _scan(components, first, last, high, low, data):
    body = bytes([len(components)])
    for component in components:
        body += bytes([component, 0])
    return _segment(0xDA, body + bytes([first, last, high << 4 | low])) + data


def _frame(marker, width, height, samplings):
    body = struct.pack(">BHHB", 8, height, width, len(samplings))
    for i, (h, v) in enumerate(samplings):
        body += bytes([i + 1, h << 4 | v, 0])
    return _segment(marker, body)


def _headers(marker, width, height, samplings):
    quantisers = _segment(0xDB, bytes([0] + [1] * 64))
    # DC: a difference of 0.  AC: EOB14, with 14 bits more for the length of the run, and EOB.
    return (b"\xff\xd8" + quantisers + _frame(marker, width, height, samplings)
            + _table(0, 0, [0]) + _table(1, 0, [0xE0, 0x00]))


def _blocks(size, factor, largest):
    """Blocks of a component along one axis, as a scan of this component alone has them."""
    return -(-(-(-size * factor // largest)) // 8)


def progressive(width, height, scans, samplings=((1, 1),), work=True):
    """A progressive JPEG of `scans` scans over a flat image.

    With work: scans that refine AC coefficients, each of a few bytes for runs of 32,767 blocks
    whose coefficients a decoder looks at one by one.  Without: scans that end at once.
    """
    largest = [max(axis) for axis in zip(*samplings)]
    num_blocks = sum(_blocks(width, h, largest[0]) * _blocks(height, v, largest[1])
                     for h, v in samplings)
    parts = [_headers(0xC2, width, height, samplings)]
    for i in range(len(samplings)):
        parts.append(_scan([i + 1], 0, 0, 0, 0, b"\x00" * (num_blocks // 8 + 1 if work else 1)))
    longest = "0" + "1" * 14
    runs = -(-num_blocks // 32767)
    data = _bits(longest * runs) if work else b"\x00"
    for i in range(scans - len(samplings)):
        parts.append(_scan([i % len(samplings) + 1], 1, 63, 1, 0, data))
    return b"".join(parts) + b"\xff\xd9"


def baseline(width, height, samplings=((1, 1),), scans=1):
    """A sequential JPEG of this size with a byte or so of data in each of its scans."""
    parts = [_headers(0xC0, width, height, samplings)]
    components = range(1, len(samplings) + 1)
    for _ in range(scans):
        if scans == 1:
            parts.append(_scan(list(components), 0, 63, 0, 0, b"\x00"))
        else:
            parts.extend(_scan([c], 0, 63, 0, 0, b"\x00") for c in components)
    return b"".join(parts) + b"\xff\xd9"


def _chunk(kind, body):
    return (struct.pack(">I", len(body)) + kind + body
            + struct.pack(">I", zlib.crc32(kind + body)))


MIB = 1 << 20


def _zeros(count, more_mib=0):
    """zlib's stream of `count` zeros, and of `more_mib` MiB more with a wrong check at its end."""
    packer = zlib.compressobj(9)
    parts = [packer.compress(bytes(count % MIB))]
    for _ in range(count // MIB):
        parts.append(packer.compress(bytes(MIB)))
    if more_mib:
        parts.append(packer.flush(zlib.Z_FULL_FLUSH))
        parts.append((packer.compress(bytes(MIB)) + packer.flush(zlib.Z_FULL_FLUSH)) * more_mib)
    return b"".join(parts) + packer.flush()


def png(width, height, depth=8, kind=2, interlaced=False, extra=(), more_mib=0):
    """A black PNG; `extra` chunks come before its pixels, `more_mib` MiB of zeros after the last."""
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[kind]
    header = struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, interlaced)

    def size(w, h):
        return h * (1 + (w * channels * depth + 7) // 8) if w and h else 0
    if interlaced:
        steps = ((0, 8, 0, 8), (4, 8, 0, 8), (0, 4, 4, 8), (2, 4, 0, 4), (0, 2, 2, 4),
                 (1, 2, 0, 2), (0, 1, 1, 2))
        count = sum(size(-(-(width - x) // dx), -(-(height - y) // dy)) for x, dx, y, dy in steps)
    else:
        count = size(width, height)
    return (b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header)
            + b"".join(_chunk(kind, body) for kind, body in extra)
            + _chunk(b"IDAT", _zeros(count, more_mib)) + _chunk(b"IEND", b""))


def text_bombs(size):
    """Chunks of text and of a colour profile that unpack to `size` bytes each."""
    data = _zeros(size)
    return ((b"zTXt", b"Comment\0\0" + data), (b"iTXt", b"Comment\0\1\0\0\0" + data),
            (b"iCCP", b"icc\0\0" + data))
