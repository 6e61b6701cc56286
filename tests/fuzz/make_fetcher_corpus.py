#!/usr/bin/env python3
"""Writes the corpus of fuzz_fetcher anew: replies of a real server, whole and spoilt.

    PYTHONPATH=tests/support:tests/integration tests/fuzz/make_fetcher_corpus.py [FOLDER]

Needs what tests/integration needs, and SLUICE_BIN or build/dev/bin.  The requests are those that
fuzz_fetcher.c has under way.
"""
import pathlib
import random
import struct
import subprocess
import sys

import harness

PIPELINE = "decode,random_resized_crop=16,hflip=0.5,to_tensor,normalize=imagenet"
ASKED = [(0, 0), (0, 1), (1, 2), (2, 2), (3, 2), (3, 3), (5, 4), (1, 3), (0, 7)]
MOST_FILE_BYTES = 6000


def make_dataset(root, rng):
    """Nine small images of all kinds, with an index of them."""
    from PIL import Image
    folder = root / "train" / "cat"
    folder.mkdir(parents=True)
    for i in range(len(ASKED)):
        size = rng.randint(24, 60), rng.randint(24, 60)
        image = Image.fromarray(harness.photo(*size, rng))
        if i == 3:
            image = image.convert("L")
        path = folder / f"{i}.{'png' if i == 4 else 'jpg'}"
        if i == 4:
            image.resize((30, 20)).save(path)
        else:
            image.save(path, quality=rng.randint(40, 90), subsampling=rng.randint(0, 2),
                       progressive=i == 6)
        assert path.stat().st_size <= MOST_FILE_BYTES


def real_replies(root, pb2, pb2_grpc):
    """The messages of one stream."""
    subprocess.run([harness.BIN / "offload_dataset", "index", "--jpeg-index", root], check=True,
                   stderr=subprocess.DEVNULL)
    server = harness.Server(root)
    with server.channel() as channel:
        samples = [pb2.SampleRequest(request_id=(i + 1) << 20 | i, sample_id=i, seed=1, epoch=2,
                                     split=split, form=form)
                   for i, (split, form) in enumerate(ASKED)]
        requests = [pb2.FetchRequest(open=pb2.FetchOpen(protocol_version=1, pipeline=PIPELINE),
                                     samples=samples)]
        messages = list(pb2_grpc.OffloadStub(channel).Fetch(iter(requests)))
    server.stop()
    for message in messages:
        for sample in message.samples:  # a payload that is changed must get as far as the decoders
            for field in sample.DESCRIPTOR.fields:
                if "hash" in field.name or "xxh" in field.name:
                    sample.ClearField(field.name)
    return messages


def spoilt(samples, pb2, rng):
    """(name, samples) of replies that a server of ours does not send."""
    def changed(sample, **fields):
        copy = pb2.SampleReply()
        copy.CopyFrom(sample)
        for name, value in fields.items():
            setattr(copy, name, value)
        return copy

    for i, sample in enumerate(samples):
        for form in (0, 1, 2, 3, 4, 7):
            if form != sample.form:
                yield f"form_{i}_{form}", [changed(sample, form=form)]
        yield f"ops_{i}", [changed(sample, ops_done=(sample.ops_done + 1) % 6)]
        yield f"cut_{i}", [changed(sample, payload=sample.payload[:len(sample.payload) // 2])]
        yield f"size_{i}", [changed(sample, width=sample.width + 1, height=60000)]
        noisy = bytearray(sample.payload)
        for _ in range(4):
            noisy[rng.randrange(len(noisy))] ^= 1 << rng.randrange(8)
        yield f"flipped_{i}", [changed(sample, payload=bytes(noisy))]
    for status in range(1, 12):
        yield f"status_{status}", [changed(sample, status=status, error=f"why {status}")
                                   for sample in samples]
    yield "repeated", [sample for sample in samples for _ in range(2)]
    yield "strays", [changed(sample, request_id=sample.request_id + (9 << 20))
                     for sample in samples]
    yield "failed_then_stray", ([changed(sample, status=5) for sample in samples] +
                                [changed(sample, request_id=sample.request_id + (8 << 20))
                                 for sample in samples])
    yield "long_file", [changed(samples[0], payload=samples[0].payload * 8)]
    yield "above_credit", [changed(sample, payload=sample.payload + bytes(5000))
                           for sample in samples * 3]
    yield "empty", [changed(sample, payload=b"") for sample in samples]


def main():
    out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                       harness.SOURCE / "tests/fuzz/corpus/fetcher")
    out.mkdir(parents=True, exist_ok=True)
    stubs = harness.stubs()
    pb2, pb2_grpc = stubs["offload_pb2"], stubs["offload_pb2_grpc"]

    def write(name, messages):
        data = b"".join(struct.pack("<H", len(m)) + m
                        for m in (message.SerializeToString() for message in messages))
        (out / name).write_bytes(data)

    for n in range(4):
        rng = random.Random(n)
        root = harness.temporary_folder(f"fetcher{n}")
        make_dataset(root, rng)
        messages = real_replies(root, pb2, pb2_grpc)
        samples = sorted((s for m in messages for s in m.samples), key=lambda s: s.request_id)
        assert len(samples) == len(ASKED) and all(s.status == 0 for s in samples)
        write(f"stream_{n}", messages)
        for i, sample in enumerate(samples):
            write(f"real_{n}_{i}", [pb2.FetchReply(samples=[sample])])
        if n == 0:
            for name, these in spoilt(samples, pb2, rng):
                write(name, [pb2.FetchReply(samples=[sample]) for sample in these])


if __name__ == "__main__":
    main()
