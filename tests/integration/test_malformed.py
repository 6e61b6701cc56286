#!/usr/bin/env python3
"""200 malformed files among good ones: each a named error, none fatal, memory bounded."""
import os
import pathlib
import random
import re
import struct
import unittest
import zlib

from programs import Server, SynthTest, run, train

SANITIZE = os.environ.get("SLUICE_SANITIZE", "")
NUM_GOOD = 30
# Two decoders with their scratch, the read-ahead and the programs themselves; an image of 60,000 x
# 60,000 would take 10 GB.
MAX_RSS_KB = (2048 if SANITIZE else 512) * 1024


def jpeg_segments(data):
    """(offset, marker) of every segment before the scan."""
    at = 2
    while data[at] == 0xFF:
        yield at, data[at + 1]
        if data[at + 1] == 0xDA:
            return
        at += 2 + struct.unpack(">H", data[at + 2:at + 4])[0]


def with_jpeg_size(data, width, height):
    out = bytearray(data)
    for at, marker in jpeg_segments(data):
        if marker in (0xC0, 0xC1, 0xC2):
            out[at + 5:at + 9] = struct.pack(">HH", height, width)
    return bytes(out)


def with_png_size(data, width, height):
    ihdr = b"IHDR" + struct.pack(">II", width, height) + data[24:29]
    return data[:12] + ihdr + struct.pack(">I", zlib.crc32(ihdr)) + data[33:]


def with_broken_structure(rng, data):
    """Flips bits where that must be noticed: in a segment's marker or length, or under a CRC."""
    out = bytearray(data)
    if data[:2] == b"\xff\xd8":
        at, marker = rng.choice([s for s in jpeg_segments(data)
                                 if s[1] in (0xC0, 0xC1, 0xC2, 0xC4, 0xDB, 0xDA)])
        out[at + 2] ^= 0x80  # the high byte of the segment's length
    else:
        out[rng.randrange(12, 33)] ^= 1 << rng.randrange(8)
    return bytes(out)


def make_malformed(rng, jpegs, pngs):
    """{path: content}; None and "dir" are made into a link out of the root and a folder later."""
    files = {}

    def add(kind, count, make):
        for i in range(count):
            files[f"train/bad/{kind}{i:02}.jpg"] = make(i)

    either = jpegs + pngs
    add("cut", 60, lambda i: (lambda d: d[:rng.randrange(1, len(d) - 2)])(rng.choice(either)))
    add("flipped", 60, lambda i: with_broken_structure(rng, rng.choice(either)))
    wrong = [b"GIF89a" + bytes(100), b"BM" + bytes(200), b"PK\x03\x04" + bytes(100),
             b"\x7fELF" + bytes(100), b"<html></html>", b"\x00" * 5000, b"\xff\xd8",
             b"\xff\xd8\xff\xd9", b"\x89PNG\r\n\x1a\n", b"RIFF\x10\x00\x00\x00WEBPVP8 "]
    add("wrong", 30, lambda i: wrong[i % len(wrong)])
    add("zero", 10, lambda i: b"")
    add("huge", 20, lambda i: with_jpeg_size(rng.choice(jpegs), 60000, 60000) if i % 2
        else with_png_size(rng.choice(pngs), 60000, 60000))
    add("link", 10, lambda i: None)
    add("dir", 10, lambda i: "dir")
    return files


class MalformedTest(SynthTest):
    SYNTH = ("-n", NUM_GOOD, "--num-val", 0, "--classes", 3)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.rng = random.Random(7)
        good = sorted(cls.root.rglob("*.jpg"))
        jpegs = [path.read_bytes() for path in good[:8]]
        run("offload_dataset", "synth", cls.path / "more", "-n", 150, "--num-val", 0)
        pngs = [path.read_bytes() for path in sorted((cls.path / "more").rglob("*.png"))][:3]
        assert pngs, "the synthetic set has no PNG"

        cls.bad = make_malformed(cls.rng, jpegs, pngs)
        assert len(cls.bad) == 200
        (cls.root / "train/bad").mkdir(parents=True)
        for name, content in cls.bad.items():
            (cls.root / name).write_bytes(content if isinstance(content, bytes) else b"x")
        # Random flips anywhere may or may not be noticed; they must only not do harm.
        for i in range(30):
            data = bytearray(cls.rng.choice(jpegs + pngs))
            for _ in range(cls.rng.randrange(1, 4)):
                data[cls.rng.randrange(len(data))] ^= 1 << cls.rng.randrange(8)
            (cls.root / f"train/bad/random{i:02}.jpg").write_bytes(data)
        # The manifest is taken while all are regular files; then links and folders slip in.
        run("offload_dataset", "index", cls.root)
        for name, content in cls.bad.items():
            path = cls.root / name
            if content is None:
                path.unlink()
                path.symlink_to("/etc/passwd")
            elif content == "dir":
                path.unlink()
                path.mkdir()

        cls.server = cls.enterClassContext(Server(cls.root))

    def train(self, mode, *options):
        where = [] if mode == "local" else ["--host", self.server.address]
        (report,), log = train("--dataset-mode", mode, "-b", 16, "-j", 2, "--on-error", "skip",
                               "--max-errors", "100%", "--retry-for", 2, *options, *where,
                               env={"SLUICE_GPU": "host"})
        return report, log

    def test_every_file_is_a_named_error_in_every_mode(self):
        digests = set()
        errors = set()
        for mode, gpu in (("remote_nooff", "off"), ("remote_piloff", "off"),
                          ("remote_alloff", "off"), ("local", "off"), ("local", "on"),
                          ("remote_nooff", "on")):
            report, log = self.train(mode, *([self.root] if mode == "local" else []),
                                     "--gpu-decode", gpu)
            choices = " ".join(report["choices"])
            self.assertEqual("+gpu" in choices, gpu == "on", choices)
            named = set(re.findall(r"train/bad/\w+\.jpg", log))
            missing = set(self.bad) - named
            self.assertEqual(missing, set(), f"{mode}: not named")
            self.assertGreaterEqual(report["errors"], 200)
            self.assertEqual(report["samples"] + report["errors"], NUM_GOOD + 200 + 30)
            digests.add(report["digest"])
            errors.add(report["errors"])
        self.assertEqual(len(digests), 1)
        self.assertEqual(len(errors), 1)

        # The server lives, and says what it refused.
        self.assertIsNone(self.server.process.poll())
        status = pathlib.Path(f"/proc/{self.server.process.pid}/status").read_text()
        peak_kb = int(re.search(r"VmHWM:\s+(\d+)", status).group(1))
        print(f"server peak RSS {peak_kb / 1024:.0f} MiB", flush=True)
        self.assertLess(peak_kb, MAX_RSS_KB)
        stats = self.server.stop()
        self.assertGreaterEqual(sum(stats["errors"].values()), 4 * 20)
        self.assertEqual(stats["refused_paths"], 4 * 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
