#!/usr/bin/env python3
"""--trace: each sample's route in both programs' files, with one trace id, in the order of time."""
import json
import pathlib
import re
import shutil
import sys
import unittest

from programs import SynthTest, run

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SLACK_NS = 2_000_000  # two programs' clocks, read a moment apart, and microseconds that were rounded


def value_of(attribute):
    (kind, value), = attribute["value"].items()
    return {"stringValue": str, "intValue": int, "doubleValue": float}[kind](value)


class Span:
    def __init__(self, span, service):
        self.service, self.name, self.kind = service, span["name"], span["kind"]
        self.trace, self.id, self.parent = span["traceId"], span["spanId"], span.get("parentSpanId")
        self.start, self.end = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        self.attributes = {a["key"]: value_of(a) for a in span.get("attributes", [])}
        self.status = span.get("status")


def lines_of(path):
    """A list of spans for each line; a line has one resource and one scope."""
    lines = []
    for line in path.read_text().splitlines():
        (resource,), = [json.loads(line)["resourceSpans"]]
        names = {a["key"]: value_of(a) for a in resource["resource"]["attributes"]}
        (scope,), = [resource["scopeSpans"]]
        lines.append([Span(span, names["service.name"]) for span in scope["spans"]])
    return lines


class Trace(SynthTest):
    SYNTH = ("-n", 24)

    def setUp(self):
        self.out = pathlib.Path(self.folder.name, self.id().split(".")[-1])
        self.out.mkdir()

    def train(self, *flags, env=None):
        return run("offload_train", "-b", 5, "--device", "none", "--seed", 3, "-p", 0, *flags, env=env)

    def test_each_sample_has_a_line_of_both_and_its_times_are_ordered(self):
        server = self.serve("--trace", self.out / "server")
        address = server.address
        plain = self.train("--host", address)
        self.assertEqual((self.out / "server").read_text(), "")  # nobody asked for traces
        traced = self.train("--host", address, "--trace", self.out / "client", "--trace-sample", 1)
        digests = [re.search(r"digest (\w+)", done.stdout).group(1) for done in (plain, traced)]
        self.assertEqual(*digests)
        server.stop()
        clients, servers = lines_of(self.out / "client"), lines_of(self.out / "server")
        self.assertEqual(len(clients), 24)
        self.assertEqual(len({line[0].attributes["sluice.sample"] for line in clients}), 24)
        self.assertEqual(len({line[0].trace for line in clients}), 24)
        at = {line[0].trace: line for line in servers}
        self.assertEqual(set(at), {line[0].trace for line in clients})
        ids = [span.id for line in clients + servers for span in line]
        self.assertEqual(len(ids), len(set(ids)))
        for line in clients:
            sample, steps = line[0], line[1:]
            self.assertEqual((sample.service, sample.name, sample.kind, sample.parent),
                             ("offload_train", "sample", 3, None))
            self.assertRegex(sample.trace, r"^[0-9a-f]{32}$")
            self.assertEqual([s.name for s in steps],
                             ["away", "wait for a worker", "finish", "wait for the batch"])
            self.check_steps(sample, steps)
            self.assertEqual(sample.attributes["sluice.row"], clients.index(line) % 5)
            self.assertEqual(sample.attributes["sluice.batch"], clients.index(line) // 5)
            self.assertRegex(sample.attributes["sluice.choice.asked"], r"^\w+@\d$")
            self.assertGreater(sample.attributes["sluice.expected.bytes"], 0)
            self.assertIn("sluice.price.network", sample.attributes)

            serve, *steps = at[sample.trace]
            self.assertEqual((serve.service, serve.name, serve.kind, serve.parent),
                             ("offload_server", "serve", 2, sample.id))
            disk = [s for s in steps if s.name == "disk"]
            steps = [s for s in steps if s.name != "disk"]
            self.assertEqual([s.name for s in steps], ["backlog", "queue", "work", "send"])
            self.check_steps(serve, steps)
            for span in disk:
                self.assertEqual(span.parent, steps[2].id)
            self.assertGreaterEqual(serve.start, sample.start - SLACK_NS)
            self.assertLessEqual(serve.end, line[1].end + SLACK_NS)  # sent before it arrived
            for key in ("sluice.sample", "sluice.epoch", "sluice.seed", "sluice.choice.asked", "sluice.choice.got",
                        "sluice.payload_bytes", "file.path", "rpc.method"):
                self.assertEqual(serve.attributes[key], sample.attributes[key], key)
            self.assertRegex(serve.attributes["client.address"], r"^127\.0\.0\.1:\d+$")
            self.assertGreater(serve.attributes["sluice.payload_bytes"], 0)

    def check_steps(self, whole, steps):
        """They follow each other without a gap, and fill the whole."""
        self.assertEqual(steps[0].start, whole.start)
        self.assertEqual(steps[-1].end, whole.end)
        for step in steps:
            self.assertLessEqual(step.start, step.end, step.name)
            self.assertEqual((step.trace, step.parent), (whole.trace, whole.id))
        for before, after in zip(steps, steps[1:]):
            self.assertEqual(before.end, after.start, after.name)

    def test_a_share_of_the_samples_is_the_same_in_each_run(self):
        address = self.serve().address  # a server that traces nothing
        seen = []
        for name in ("a", "b"):
            self.train("--host", address, "--epochs", 8, "--trace", self.out / name, "--trace-sample", 0.25)
            seen.append([tuple(line[0].attributes[f"sluice.{key}"] for key in ("epoch", "sample"))
                         for line in lines_of(self.out / name)])
        self.assertEqual(set(seen[0]), set(seen[1]))
        self.assertTrue(20 <= len(seen[0]) <= 80, len(seen[0]))  # 48 of 192 are expected

    def test_the_variable_traceparent_is_the_parent(self):
        env = {"TRACEPARENT": f"00-{TRACE}-{PARENT}-01"}
        self.train(self.root, "--trace", self.out / "t", "--trace-sample", 1, env=env)
        lines = lines_of(self.out / "t")
        self.assertEqual(len(lines), 24)
        for line in lines:
            self.assertEqual((line[0].trace, line[0].parent, line[0].kind), (TRACE, PARENT, 1))
        done = run("offload_train", self.root, "--device", "none", "--trace", self.out / "t", code=1,
                   env={"TRACEPARENT": "nonsense"})
        self.assertIn('TRACEPARENT: "nonsense" is no traceparent', done.stderr)

    def test_a_sample_that_fails_is_traced_with_its_error(self):
        root = self.out / "set"
        shutil.copytree(self.root, root)
        bad = sorted(root.rglob("*.jpg"))[0]
        bad.write_bytes(bad.read_bytes()[:200])
        for path in root.glob("sluice-manifest*"):
            path.unlink()
        self.train(root, "--trace", self.out / "t", "--trace-sample", 1, "--max-errors", 5)
        failed = [line[0] for line in lines_of(self.out / "t") if line[0].status]
        self.assertEqual(len(failed), 1)
        self.assertEqual(failed[0].attributes["error.type"], "corrupt")
        self.assertEqual(failed[0].status["code"], 2)
        self.assertTrue(str(bad).endswith(failed[0].attributes["file.path"]))

    def test_files_that_cannot_be_written_are_errors(self):
        for command in (["offload_train", self.root, "--device", "none"],
                        ["offload_server", "--root", self.root, "--listen", "127.0.0.1:0"]):
            done = run(*command, "--trace", "/nowhere/t", code=None)
            self.assertIn(done.returncode, (1, 2))
            self.assertIn("/nowhere/t: No such file or directory", done.stderr)
        done = run("offload_train", self.root, "--trace-sample", 1, code=2)
        self.assertIn("--trace-sample is for --trace", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
