"""Every method of sluice.v1.Offload and grpc.health.v1.Health, called by a stock grpcio client."""
import io
import queue
import random
import struct
import subprocess
import unittest

import harness

import grpc
import numpy as np

pb = harness.stubs()
offload, offload_grpc = pb["offload_pb2"], pb["offload_pb2_grpc"]
health, health_grpc = pb["health_pb2"], pb["health_pb2_grpc"]

PIPELINE = "decode,random_resized_crop=224,hflip=0.5,to_tensor,normalize=imagenet"
MEAN = np.array([0.485, 0.456, 0.406], np.float32)[:, None, None]
STD = np.array([0.229, 0.224, 0.225], np.float32)[:, None, None]
U8_BYTES = 224 * 224 * 3
T = harness.TIMEOUT_S


class FetchStream:
    """A Fetch call: requests from a queue, replies one sample at a time."""

    def __init__(self, stub, window_bytes=0, **open_fields):
        self.requests = queue.SimpleQueue()
        self.send(open=offload.FetchOpen(**{"protocol_version": 1, "pipeline": PIPELINE,
                                            "window_bytes": window_bytes, **open_fields}))
        self.call = stub.Fetch(iter(self.requests.get, None), timeout=T)

    def send(self, **fields):
        self.requests.put(offload.FetchRequest(**fields))

    def ask(self, *samples):
        self.send(samples=[offload.SampleRequest(**sample) for sample in samples])

    def replies(self):
        for message in self.call:
            yield from message.samples

    def half_close(self):
        self.requests.put(None)

    def drain(self):
        """Asks for no more; every reply by request id, each exactly once."""
        self.half_close()
        found = {}
        for reply in self.replies():
            assert reply.request_id not in found, "answered twice"
            found[reply.request_id] = reply
        return found


class Jpeg:
    """What a sequential JPEG's markers say, and Pillow's pixels."""

    def __init__(self, data):
        from PIL import Image
        self.interval, at = 0, 2
        while True:
            marker, length = data[at + 1], int.from_bytes(data[at + 2:at + 4], "big")
            body = data[at + 4:at + 2 + length]
            at += 2 + length
            if marker in (0xC0, 0xC1):
                height, width = (int.from_bytes(body[k:k + 2], "big") for k in (1, 3))
                sampling = [(body[k] >> 4, body[k] & 15) for k in range(7, len(body), 3)]
                self.mcu = [8 * max(column) if len(sampling) > 1 else 8
                            for column in zip(*sampling)]
                self.across, self.down = -(-width // self.mcu[0]), -(-height // self.mcu[1])
            elif marker == 0xDD:
                self.interval = int.from_bytes(body, "big")
            elif marker == 0xDA:
                break
        scan = data[at:]
        self.num_restarts = sum(scan.count(bytes([0xFF, 0xD0 + k])) for k in range(8))
        self.pixels = np.asarray(Image.open(io.BytesIO(data)))


class StockClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = harness.temporary_folder("data")
        harness.make_images(cls.root)
        whole = (cls.root / "train/cat/cat_0.jpg").read_bytes()
        (cls.root / "train/cat/broken.jpg").write_bytes(whole[:len(whole) // 2])
        cls.paths = sorted(str(p.relative_to(cls.root)) for p in cls.root.rglob("*.*"))
        cls.broken = cls.paths.index("train/cat/broken.jpg")
        cls.whole = [i for i in range(len(cls.paths)) if i != cls.broken]
        cls.server = harness.Server(cls.root, "--data-transfer")
        cls.channel = cls.server.channel()
        cls.stub = offload_grpc.OffloadStub(cls.channel)
        cls.health = health_grpc.HealthStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        counters = cls.server.stop()
        assert counters["streams"] == 0, counters

    def fails(self, code, call):
        with self.assertRaises(grpc.RpcError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        return caught.exception.details()

    def hello(self, **fields):
        return self.stub.Hello(offload.HelloRequest(
            **{"protocol_version": 1, "client": "stock client", "pipeline": PIPELINE, **fields}),
            timeout=T)

    # --- Hello ---

    def test_hello_tells_versions_fingerprint_data_and_limits(self):
        reply = self.hello()
        self.assertEqual(reply.protocol_version, 1)
        self.assertTrue(reply.server.startswith("offload_server "))
        self.assertNotEqual(reply.pipeline_fingerprint, 0)
        self.assertRegex(reply.dataset_id, "^[0-9a-f]{32}$")
        self.assertEqual(reply.num_samples, len(self.paths))
        self.assertEqual(reply.prep_workers, 2)
        self.assertGreater(reply.max_in_flight, 0)
        self.assertGreater(reply.max_image_pixels, 0)
        self.assertGreater(reply.max_file_bytes, 0)
        for form in (offload.FORM_RAW, offload.FORM_U8, offload.FORM_F32):
            self.assertIn(form, reply.forms)
        again = self.hello(pipeline_fingerprint=reply.pipeline_fingerprint,
                           dataset_id=reply.dataset_id)
        self.assertEqual(again.pipeline_fingerprint, reply.pipeline_fingerprint)

    def test_hello_refuses_another_pipeline_with_both_fingerprints(self):
        ours = self.hello().pipeline_fingerprint
        theirs = ours ^ 1
        details = self.fails(grpc.StatusCode.FAILED_PRECONDITION,
                             lambda: self.hello(pipeline_fingerprint=theirs))
        self.assertIn(f"{ours:016x}", details)
        self.assertIn(f"{theirs:016x}", details)

    def test_hello_refuses_other_data_other_versions_and_bad_text(self):
        ours, theirs = self.hello().dataset_id, "0123456789abcdef" * 2
        details = self.fails(grpc.StatusCode.FAILED_PRECONDITION,
                             lambda: self.hello(dataset_id=theirs))
        self.assertIn(ours, details)
        self.assertIn(theirs, details)
        self.fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: self.hello(protocol_version=2))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.hello(pipeline="decode,paint"))

    def test_bytes_that_are_no_message_are_an_invalid_argument(self):
        for method in ("Hello", "ListSamples", "ListSizes", "Stats", "Probe"):
            call = self.channel.unary_stream(f"/sluice.v1.Offload/{method}")
            garbage = b"\x0a\xff\xff" if method != "Stats" else None
            if garbage:
                self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                           lambda: list(call(garbage, timeout=T)))

    def test_unknown_methods_are_unimplemented(self):
        for path in ("/sluice.v1.Offload/Nothing", "/nobody.Knows/This"):
            call = self.channel.unary_unary(path)
            self.fails(grpc.StatusCode.UNIMPLEMENTED, lambda: call(b"", timeout=T))

    # --- ListSizes ---

    def test_sizes_are_those_in_the_files(self):
        request = offload.ListSizesRequest(dataset_id=self.hello().dataset_id)
        rows = [row for message in self.stub.ListSamples(offload.ListSamplesRequest(), timeout=T) for row in message.samples]
        sizes = []
        while len(sizes) < len(rows):
            request.first_row = len(sizes)
            got = self.stub.ListSizes(request, timeout=T).sizes
            sizes += struct.iter_unpack("<HHB", got)
        from PIL import Image
        for row, size in zip(rows, sizes, strict=True):
            with Image.open(self.root / row.path) as image:  # some are cut behind their headers
                self.assertEqual(size, (*image.size, 1))
        request.dataset_id = "0123456789abcdef" * 2
        self.fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: self.stub.ListSizes(request, timeout=T))

    # --- ListSamples ---

    def list_samples(self, subset=""):
        messages = list(self.stub.ListSamples(offload.ListSamplesRequest(subset=subset), timeout=T))
        return messages[0], [sample for message in messages for sample in message.samples]

    def test_list_samples_names_every_file_in_order(self):
        first, samples = self.list_samples()
        self.assertEqual(list(first.classes), ["cat", "dog"])
        self.assertEqual(first.dataset_id, self.hello().dataset_id)
        self.assertEqual(first.num_samples, len(self.paths))
        self.assertEqual([s.path for s in samples], self.paths)
        for i, sample in enumerate(samples):
            self.assertEqual(sample.sample_id, i)
            self.assertEqual(sample.bytes, (self.root / sample.path).stat().st_size)
            self.assertEqual(first.classes[sample.label], sample.path.split("/")[1])
            self.assertEqual(sample.is_val, sample.path.startswith("val/"))

    def test_list_samples_of_a_subset_keeps_ids(self):
        _, everything = self.list_samples()
        for subset, is_val in (("train", False), ("val", True)):
            first, samples = self.list_samples(subset)
            self.assertEqual(samples, [s for s in everything if s.is_val == is_val])
            self.assertEqual(first.num_samples, len(samples))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.list_samples("tests"))

    # --- Fetch ---

    def fetch(self, *samples):
        """Replies in the order of the requests."""
        stream = FetchStream(self.stub)
        stream.ask(*({"request_id": i, **sample} for i, sample in enumerate(samples)))
        found = stream.drain()
        self.assertEqual(sorted(found), list(range(len(samples))))
        return [found[i] for i in range(len(samples))]

    def test_raw_is_the_file(self):
        replies = self.fetch(*({"sample_id": i} for i in range(len(self.paths))))
        for path, reply in zip(self.paths, replies):
            self.assertEqual(reply.status, offload.SAMPLE_OK, reply.error)
            self.assertEqual((reply.ops_done, reply.form), (0, offload.FORM_RAW))
            self.assertEqual(reply.payload, (self.root / path).read_bytes())

    def test_split_1_is_what_pillow_decodes(self):
        replies = self.fetch(*({"sample_id": i, "split": 1, "form": offload.FORM_U8}
                               for i in self.whole))
        for i, reply in zip(self.whole, replies):
            self.assertEqual(reply.status, offload.SAMPLE_OK, reply.error)
            self.assertEqual((reply.ops_done, reply.form), (1, offload.FORM_U8))
            data, width, height = harness.pixels(self.root / self.paths[i])
            self.assertEqual((reply.width, reply.height, reply.channels), (width, height, 3))
            self.assertEqual(reply.payload, data)

    def test_later_splits_have_their_sizes_and_continue_each_other(self):
        forms = {2: offload.FORM_U8, 3: offload.FORM_U8, 4: offload.FORM_F32, 5: offload.FORM_F32}
        flipped = 0
        for i in self.whole:
            two, three, four, five = self.fetch(
                *({"sample_id": i, "seed": 7, "epoch": 2, "split": split, "form": form}
                  for split, form in forms.items()))
            for split, reply in zip(forms, (two, three, four, five)):
                self.assertEqual(reply.status, offload.SAMPLE_OK, reply.error)
                self.assertEqual((reply.ops_done, reply.form), (split, forms[split]))
                self.assertEqual((reply.width, reply.height, reply.channels), (224, 224, 3))
                self.assertEqual(len(reply.payload), U8_BYTES * (4 if split > 3 else 1))
            cropped = np.frombuffer(two.payload, np.uint8).reshape(224, 224, 3)
            u8 = np.frombuffer(three.payload, np.uint8).reshape(224, 224, 3)
            self.assertTrue(np.array_equal(u8, cropped) or np.array_equal(u8, cropped[:, ::-1]))
            flipped += not np.array_equal(u8, cropped)
            # torch's to_tensor and normalize, in its float32 arithmetic
            tensor = u8.transpose(2, 0, 1).astype(np.float32) / np.float32(255)
            self.assertEqual(four.payload, tensor.tobytes())
            self.assertEqual(five.payload, ((tensor - MEAN) / STD).tobytes())
        self.assertTrue(0 < flipped < len(self.whole))

    def test_draws_depend_on_seed_epoch_and_sample_alone(self):
        def payloads(seed, epoch):
            return [reply.payload for reply in self.fetch(
                *({"sample_id": i, "seed": seed, "epoch": epoch, "split": 3,
                   "form": offload.FORM_U8} for i in self.whole))]

        base = payloads(3, 1)
        self.assertEqual(base, payloads(3, 1))
        self.assertNotEqual(base, payloads(3, 2))
        self.assertNotEqual(base, payloads(4, 1))

    def test_payloads_are_what_offload_dataset_tensor_makes(self):
        program = harness.BIN / "offload_dataset"
        if not program.exists():
            self.skipTest("offload_dataset is not built")
        help_text = subprocess.run([program, "--help"], capture_output=True, text=True).stdout
        if "tensor" not in help_text:
            self.skipTest("offload_dataset has no tensor command")
        out = harness.temporary_folder("tensors") / "out.npy"
        for i in self.whole[:4]:
            for split, form in ((3, offload.FORM_U8), (5, offload.FORM_F32)):
                reply, = self.fetch({"sample_id": i, "seed": 11, "epoch": 5, "split": split,
                                     "form": form})
                subprocess.run(
                    [program, "tensor", self.root / self.paths[i], "--seed", "11", "--epoch", "5",
                     "--sample", str(i), "--split", str(split), "-o", out],
                    check=True, stdout=subprocess.DEVNULL)
                self.assertEqual(reply.payload, np.load(out).tobytes())

    def test_many_in_flight_are_each_answered_once(self):
        rng = random.Random(harness.SEED)
        stream = FetchStream(self.stub)
        asked = {}
        for base in range(0, 600, 50):
            batch = []
            for request_id in range(base, base + 50):
                split = rng.choice((0, 0, 0, 3))
                batch.append({"request_id": request_id, "sample_id": rng.choice(self.whole),
                              "split": split,
                              "form": offload.FORM_U8 if split else offload.FORM_RAW})
                asked[request_id] = batch[-1]
            stream.ask(*batch)
        found = stream.drain()
        self.assertEqual(stream.call.code(), grpc.StatusCode.OK)
        self.assertEqual(sorted(found), sorted(asked))
        for request_id, reply in found.items():
            self.assertEqual(reply.status, offload.SAMPLE_OK, reply.error)
            # A busy server may do less, never more.
            self.assertIn(reply.ops_done, (0, asked[request_id]["split"]))
            if reply.ops_done == 0:
                path = self.paths[asked[request_id]["sample_id"]]
                self.assertEqual(reply.payload, (self.root / path).read_bytes())

    def test_the_window_holds_payload_back_until_it_is_granted(self):
        counted = self.stub.Stats(offload.StatsRequest(), timeout=T).payload_bytes
        window = 100_000
        stream = FetchStream(self.stub, window_bytes=window)
        sizes = {}
        for k in range(60):
            i = self.whole[k % len(self.whole)]
            sizes[k] = (self.root / self.paths[i]).stat().st_size
            stream.ask({"request_id": k, "sample_id": i})
        # One reply may overdraw the window.  Replies of different workers may pass each other, so
        # it need not be the one that arrives last.
        largest = max(sizes.values())
        received, allowed, seen = 0, window, 0
        for reply in stream.replies():
            self.assertEqual(len(reply.payload), sizes[reply.request_id])
            received += len(reply.payload)
            self.assertLess(received - largest, allowed)
            seen += 1
            if seen == len(sizes):
                stream.half_close()
            elif received >= allowed:
                # Used up: the server holds back what is ready.
                stats = self.stub.Stats(offload.StatsRequest(), timeout=T)
                self.assertGreaterEqual(stats.payload_bytes - counted, received)
                self.assertLess(stats.payload_bytes - counted - largest, allowed)
                grant = window * (1 + (received - allowed) // window)
                stream.send(grant_bytes=grant)
                allowed += grant
        self.assertEqual(seen, len(sizes))
        self.assertGreater(allowed, 3 * window)
        self.assertGreater(received, 3 * largest)
        self.assertEqual(stream.call.code(), grpc.StatusCode.OK)

    def test_a_bad_sample_fails_alone(self):
        gone = self.root / "train/dog/dog_0.jpg"
        gone_id = self.paths.index("train/dog/dog_0.jpg")
        content = gone.read_bytes()
        gone.unlink()
        try:
            corrupt, missing, no_such, fine = self.fetch(
                {"sample_id": self.broken, "split": 3, "form": offload.FORM_U8},
                {"sample_id": gone_id},
                {"sample_id": 10**6},
                {"sample_id": self.whole[0]})
        finally:
            gone.write_bytes(content)
        self.assertEqual(corrupt.status, offload.SAMPLE_CORRUPT)
        self.assertIn("broken.jpg", corrupt.error)
        self.assertEqual(corrupt.payload, b"")
        self.assertEqual(missing.status, offload.SAMPLE_NOT_FOUND)
        self.assertIn("dog_0.jpg", missing.error)
        self.assertEqual(no_such.status, offload.SAMPLE_INVALID)
        self.assertEqual(fine.status, offload.SAMPLE_OK)

    def crops(self, **fields):
        """The crops of every whole sample, by sample id; files that are not cut are left out."""
        replies = self.fetch(*({"sample_id": i, "seed": 3, "epoch": 1,
                                "form": offload.FORM_JPEG_CROP, **fields} for i in self.whole))
        return {i: reply.payload for i, reply in zip(self.whole, replies)
                if reply.form == offload.FORM_JPEG_CROP}

    def test_a_crop_restarts_every_so_many_mcus_where_that_is_asked(self):
        self.assertIn(offload.FORM_JPEG_CROP_RESTART, self.hello().forms)
        rows = self.crops()
        self.assertGreater(len(rows), 4)
        self.assertEqual(rows, self.crops(jpeg_crop_restart=0))
        for interval in 3, 8, 65535:
            crops = self.crops(jpeg_crop_restart=interval)
            self.assertGreater(len(crops), 4)
            for i, crop in crops.items():
                jpeg, as_rows = Jpeg(crop), Jpeg(rows[i])
                self.assertEqual(as_rows.interval, as_rows.across)
                self.assertEqual(jpeg.interval, interval)
                self.assertEqual(jpeg.num_restarts, (jpeg.across * jpeg.down - 1) // interval)
                # In an MCU at the edge a block may be blank that the box does not need.
                inner = np.s_[jpeg.mcu[1]:-jpeg.mcu[1], jpeg.mcu[0]:-jpeg.mcu[0]]
                self.assertEqual(jpeg.pixels.shape, as_rows.pixels.shape)
                np.testing.assert_array_equal(jpeg.pixels[inner], as_rows.pixels[inner])

    def test_fetch_refuses_what_hello_refuses(self):
        ours = self.hello().pipeline_fingerprint
        for fields in ({"pipeline_fingerprint": ours ^ 1}, {"dataset_id": "f" * 32},
                       {"protocol_version": 9}):
            stream = FetchStream(self.stub, **fields)
            stream.ask({"sample_id": 0})
            self.fails(grpc.StatusCode.FAILED_PRECONDITION, lambda: list(stream.replies()))
            stream.half_close()

    def test_fetch_wants_one_open_and_that_first(self):
        requests = [offload.FetchRequest(samples=[offload.SampleRequest(sample_id=0)])]
        self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                   lambda: list(self.stub.Fetch(iter(requests), timeout=T)))
        opening = offload.FetchRequest(open=offload.FetchOpen(protocol_version=1))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                   lambda: list(self.stub.Fetch(iter([opening, opening]), timeout=T)))

    # --- Probe, Stats ---

    def test_probe_sends_what_was_asked_for(self):
        for total, size in ((0, 0), (1, 0), (3_000_000, 0), (1_000_000, 65_536)):
            replies = list(self.stub.Probe(
                offload.ProbeRequest(bytes=total, message_bytes=size), timeout=T))
            sizes = [len(reply.payload) for reply in replies]
            self.assertEqual(sum(sizes), total)
            self.assertTrue(all(n == (size or 256 << 10) for n in sizes[:-1]), sizes)
        for request in (offload.ProbeRequest(bytes=(1 << 30) + 1),
                        offload.ProbeRequest(bytes=1, message_bytes=(1 << 20) + 1)):
            self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                       lambda: list(self.stub.Probe(request, timeout=T)))

    def test_stats_count_samples_bytes_and_errors(self):
        def counts(stats):
            return ({(c.split, c.form): (c.samples, c.bytes) for c in stats.choices},
                    {e.status: e.samples for e in stats.errors})

        before = self.stub.Stats(offload.StatsRequest(), timeout=T)
        u8 = {"sample_id": self.whole[1], "split": 3, "form": offload.FORM_U8}
        replies = self.fetch({"sample_id": self.whole[0]}, u8, u8,
                             {**u8, "sample_id": self.broken})
        self.assertEqual([r.ops_done for r in replies[:3]], [0, 3, 3])
        after = self.stub.Stats(offload.StatsRequest(), timeout=T)
        (old, old_errors), (new, new_errors) = counts(before), counts(after)
        raw_key, u8_key = (0, offload.FORM_RAW), (3, offload.FORM_U8)
        for key, samples, size in ((raw_key, 1, len(replies[0].payload)),
                                   (u8_key, 2, 2 * U8_BYTES)):
            was = old.get(key, (0, 0))
            self.assertEqual(new[key], (was[0] + samples, was[1] + size))
        self.assertEqual(new_errors[offload.SAMPLE_CORRUPT],
                         old_errors.get(offload.SAMPLE_CORRUPT, 0) + 1)
        self.assertEqual(after.samples - before.samples, 3)
        payload = sum(len(r.payload) for r in replies)
        self.assertEqual(after.payload_bytes - before.payload_bytes, payload)
        self.assertGreater(after.wire_bytes - before.wire_bytes, payload)
        self.assertGreater(after.uptime_s, before.uptime_s)
        self.assertEqual(after.prep_workers, 2)
        self.assertGreater(after.busy_cores, 0)

    # --- health ---

    def test_health_check(self):
        for service in ("", "sluice.v1.Offload", "DataTransfer"):
            reply = self.health.Check(health.HealthCheckRequest(service=service), timeout=T)
            self.assertEqual(reply.status, health.HealthCheckResponse.SERVING)
        self.fails(grpc.StatusCode.NOT_FOUND, lambda: self.health.Check(
            health.HealthCheckRequest(service="nobody"), timeout=T))


class HealthWatch(unittest.TestCase):
    def test_watch_tells_the_state_and_its_change(self):
        root = harness.temporary_folder("watched")
        harness.make_images(root)
        server = harness.Server(root)
        with server.channel() as channel:
            stub = health_grpc.HealthStub(channel)
            known = stub.Watch(health.HealthCheckRequest(), timeout=T)
            unknown = stub.Watch(health.HealthCheckRequest(service="nobody"), timeout=T)
            self.assertEqual(next(known).status, health.HealthCheckResponse.SERVING)
            self.assertEqual(next(unknown).status, health.HealthCheckResponse.SERVICE_UNKNOWN)
            server.terminate()
            self.assertEqual(next(known).status, health.HealthCheckResponse.NOT_SERVING)
            for watch in (known, unknown):
                with self.assertRaises(grpc.RpcError) as caught:
                    next(watch)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        server.stop()


if __name__ == "__main__":
    harness.main()
