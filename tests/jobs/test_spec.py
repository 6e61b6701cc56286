#!/usr/bin/env python3
"""job.yaml: what is taken, what it becomes, and what is said about mistakes."""
import json
import os
import unittest

import support
from jobs import JobError, commands, spec, units

GOOD = """\
name: resnet
outputs: runs
code: src
data:
  root: /data/images
  store: {cache: /cache, cache_bytes: 10GB}
storage: {servers: 2, cores: 1.5, memory: 2GiB, link: 500mbit, secrets: certs, options: {prep-nice: 5}}
compute:
  gpus: 1
  memory: 16GiB
  trainer: {mode: remote_auto, recipe: "@r.json", options: {arch: resnet18, epochs: 90, verify: true}}
limits: {time: 12h}
env: {A: 1, B: true, C: x}
retries: 2
checkpoint: {every: 10m}
"""
COMMAND = "name: a\ndata: {root: /d}\ncompute: {command: x}\n"


def problems(text):
    """[(line, column, field, text)] of a job that is refused."""
    try:
        spec.parse(text)
    except spec.SpecError as error:
        return [(one.line, one.column, one.field, one.text) for one in error.problems]
    raise AssertionError(f"taken: {text}")


class SpecTest(unittest.TestCase):
    def says(self, text, line, field, *words):
        found = problems(text)
        at = [one for one in found if one[0] == line and one[2] == field]
        self.assertTrue(at, found)
        for word in words:
            self.assertIn(word, at[0][3])

    def test_a_whole_job(self):
        job = spec.parse(GOOD, folder="/jobs")
        self.assertEqual((job.name, job.retries, job.time_s), ("resnet", 2, 12 * 3600))
        self.assertEqual(job.env, {"A": "1", "B": "true", "C": "x"})
        self.assertEqual((job.storage.placement, job.storage.servers, job.storage.memory), ("with-job", 2, 2 << 30))
        self.assertEqual((job.storage.cores, job.storage.link), (1.5, "500mbit"))
        self.assertEqual((job.compute.memory, job.compute.gpus, job.compute.mode), (16 << 30, 1, "remote_auto"))
        self.assertEqual(job.data.roots, [[(None, "/data/images")]])
        self.assertEqual(job.data.store["cache_bytes"], 10 ** 10)
        self.assertEqual((job.path(job.outputs), job.path("/x"), job.path("s3://b/c")), ("/jobs/runs", "/x", "s3://b/c"))
        self.assertTrue(job.has_trainer)

    def test_a_job_is_the_same_after_json(self):
        from jobs import model
        job = spec.parse(GOOD, folder="/jobs")
        self.assertEqual(model.from_dict(json.loads(json.dumps(job.to_dict()))), job)

    def test_its_command_lines(self):
        job = spec.parse(GOOD, folder="/jobs")
        has = {"server.pem", "server-key.pem", "ca.pem", "token"}.__contains__
        self.assertEqual(commands.server(job, 0, ":1", secrets="/s", has=has), [
            "offload_server", "--root", "/data/images", "--listen", ":1", "--cache", "/cache", "--cache-bytes",
            "10000000000", "--link-limit", "500mbit", "--tls-cert", "/s/server.pem", "--tls-key", "/s/server-key.pem",
            "--tls-client-ca", "/s/ca.pem", "--prep-nice", "5"])
        self.assertEqual(commands.trainer(job, ["a,b"], "/c", True, secrets="/s", has=has), [
            "offload_train", "--host", "a,b", "--dataset-mode", "remote_auto", "--pipeline", "@/jobs/r.json",
            "--checkpoint", "/c", "--checkpoint-every", "10m", "--resume", "/c", "--tls", "--ca", "/s/ca.pem",
            "--token-file", "/s/token", "--json", "--arch", "resnet18", "--epochs", "90", "--verify"])

    def test_several_gpus_are_processes_of_the_trainer_or_ranks_that_see_their_own(self):
        def words(compute):
            return commands.trainer(spec.parse(f"name: a\ndata: /d\ncompute: {{{compute}}}\n"), ["h"], "/c")

        self.assertEqual(words("gpus: 4, trainer: {}")[-3:], ["--gpus", "4", "--json"])
        for compute in ("gpus: 1, trainer: {}", "gpus: 4, trainer: {options: {device: cpu}}"):
            self.assertNotIn("--gpus", words(compute))
        self.assertEqual(words("gpus: 4, trainer: {options: {gpus: 2}}").count("--gpus"), 1)
        for gpus, place in ((0, ("1", "2")), (1, ("0", "1"))):
            job = spec.parse(f"name: a\ndata: /d\ncompute: {{ranks: 2, gpus: {gpus}, command: x}}\n")
            self.assertEqual(commands.rank(job, 1, "h", 5), {
                "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": place[0], "LOCAL_WORLD_SIZE": place[1],
                "MASTER_ADDR": "h", "MASTER_PORT": "5"})

    def test_names_of_openpai(self):
        ours = spec.parse("name: restnet\nimage: example.tensorflow:stable\noutputs: /tmp/output\ncode: /tmp/code\n"
                          "data: {root: /tmp/data}\nretries: 3\nqueue: vc\ncompute: {ranks: 2, cores: 8, memory: 32768MiB, "
                          "gpus: 1, command: python train.py}\nstorage: {servers: 2, cores: 4}\n")
        theirs = json.dumps({
            "jobName": "restnet", "image": "example.tensorflow:stable", "dataDir": "/tmp/data", "outputDir": "/tmp/output",
            "codeDir": "/tmp/code", "retryCount": 3, "virtualCluster": "vc", "taskRoles": [
                {"name": "worker", "taskNumber": 2, "cpuNumber": 8, "memoryMB": 32768, "gpuNumber": 1,
                 "command": "python train.py"}, {"name": "storage", "taskNumber": 2, "cpuNumber": 4}]})
        self.assertEqual(spec.parse(theirs), ours)
        by_name = json.loads(theirs)
        by_name["taskRoles"] = {role.pop("name"): role for role in by_name["taskRoles"]}
        self.assertEqual(spec.parse(json.dumps(by_name)), ours)
        self.assertEqual(spec.parse(theirs.replace('"image"', '"jobImage"')), ours)
        self.assertEqual(spec.parse(COMMAND.replace("data: {root: /d}", "data: /d")), spec.parse(COMMAND))

    def test_an_alias_and_its_name_are_one_field(self):
        self.says("jobName: b\n" + COMMAND, 1, "jobName", "name", "too")
        self.says(COMMAND + "taskRoles: [{command: y}]\n", 4, "taskRoles[0]", "compute")
        self.says("jobName: A!\ncompute: {command: x}\n", 1, "name", '"A!"')

    def test_unknown_fields_are_refused_with_the_nearest(self):
        self.says(COMMAND + "storage: {coers: 2}\n", 4, "storage.coers", "cores")
        self.says(COMMAND + "outputdir: x\n", 4, "outputdir", "outputDir")
        self.says("name: a\ntaskRoles:\n- cpuNumbr: 2\n  command: x\n", 3, "compute.cpuNumbr", "cpuNumber")
        self.says(COMMAND + "zzz: x\n", 4, "zzz", "unknown", "compute")

    def test_every_mistake_is_named_with_line_and_column(self):
        found = problems("name: a\n"
                         "compute:\n"
                         "  command: x\n"
                         "  memory: 5 apples\n"
                         "  ranks: 0\n"
                         "storage:\n"
                         "    cores: many\n"
                         "limits: {time: never}\n"
                         "env: {1x: 2, y: [1]}\n")
        self.assertEqual([one[:3] for one in found], [
            (4, 3, "compute.memory"), (5, 3, "compute.ranks"), (7, 5, "storage.cores"), (8, 10, "limits.time"),
            (9, 7, "env.1x"), (9, 14, "env.y")])

    def test_what_the_schema_cannot_say(self):
        self.says("name: a\ncompute: {}\n", 2, "compute", "command or trainer")
        self.says("name: a\ncompute: {command: x, trainer: {}}\n", 2, "compute", "either")
        self.says("compute: {command: x}\n", 1, "", "name")
        self.says("name: a\ncompute: {command: x}\n", 1, "data", "data.root")
        self.says(COMMAND + "storage: {placement: existing}\n", 4, "storage.placement", "address")
        self.says(COMMAND + "storage:\n  address: h\n  cores: 2\n", 6, "storage.cores", "existing")
        self.says("name: a\ndata: /d\ncompute: {ranks: 2, trainer: {}}\n", 3, "compute.ranks", "compute.gpus")
        self.says("name: a\ndata: /d\ncompute:\n  trainer: {options: {host: x}}\n", 4, "compute.trainer.options.host")
        self.says("name: a\ndata: /d\nstorage: {servers: 1}\ncompute: {trainer: {mode: local}}\n", 3, "storage", "local")
        self.says(COMMAND + "lend: {gpu: true}\n", 4, "lend.gpu", "no GPU")
        self.says("name: a\ndata: /d\ncompute: {gpus: 2, command: x}\nlend: {gpu: true}\n", 4, "lend.gpu", "one rank")
        self.says("name: a\ndata: /d\ncompute: {gpus: 1, ranks: 2, command: x}\nlend: {gpu: true}\n", 4, "lend.gpu", "one rank")
        self.says(COMMAND + "lend: {socket: /run/x}\n", 4, "lend.socket", "lend.gpu")
        self.says("name: a\ndata: /d\ncompute: {borrow: /run/x, gpus: 1, command: x}\n", 3, "compute.borrow", "leave gpus")
        self.says("name: a\ndata: /d\ncompute: {borrow: /run/x, trainer: {}}\n", 3, "compute.borrow", "does not borrow")
        self.says("name: a\ndata: /d\ncompute: {trainer: {options: {lend: /run/x}}}\n", 3, "compute.trainer.options.lend",
                  "field of its own")
        self.says(COMMAND + "data: {}\n", 4, "data", "twice")

    def test_placements_follow_from_the_fields(self):
        self.assertEqual(spec.parse(COMMAND).storage.placement, "with-job")
        existing = spec.parse("name: a\ncompute: {command: x}\nstorage: {address: [a:1, b:2]}\n").storage
        self.assertEqual((existing.placement, existing.addresses), ("existing", ("a:1", "b:2")))
        local = spec.parse("name: a\ndata: /d\ncompute: {trainer: {mode: local}}\n")
        self.assertEqual(local.storage.placement, "none")
        self.assertEqual(commands.trainer(local, [], "/c")[:2], ["offload_train", "/d"])

    def test_what_is_no_yaml_or_too_much(self):
        self.says("name: [\n", 2, "")
        self.says("- a\n", 1, "", "mapping")
        self.says("", 1, "", "name")
        self.says("name: a\n" + "# " + "x" * spec.MAX_BYTES, 1, "", "larger")
        self.says("a: &a [x]\n" + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n"
                                         for i in range(9)), 1, "", "large")
        self.says("a: " + "[" * 5000, 1, "")
        self.says("? [x]\n: 1\n" + COMMAND, 1, "", "name")
        self.says("a: !!python/object:os.system x\n", 1, "a", "unknown field")

    def test_texts_stay_texts(self):
        job = spec.parse("name: a\ndata: /d\ncompute: {command: x}\nenv: {D: 2024-01-01, E: 1_0, N: 007}\n")
        self.assertEqual(job.env["D"], "2024-01-01")

    def test_a_file_that_is_not_there(self):
        with self.assertRaisesRegex(JobError, "/nowhere/job.yaml: No such file"):
            spec.load("/nowhere/job.yaml")

    def test_the_schema_is_one(self):
        import jsonschema
        jsonschema.Draft202012Validator.check_schema(spec.schema())
        lacking = []

        def look(schema, path):
            for name, field in schema.get("properties", {}).items():
                if "description" not in field and "$ref" not in field:
                    lacking.append(f"{path}{name}")
                look(field, f"{path}{name}.")
        look(spec.schema(), "")
        self.assertEqual([name for name in lacking if not name.endswith((".memory", ".options"))], [])

    def test_units(self):
        for text, value in (("64k", 65536), ("1.5GiB", 3 << 29), ("100MB", 10 ** 8), (7, 7)):
            self.assertEqual(units.size(text), value)
        for text, value in (("500ms", 0.5), ("1.5h", 5400), ("2d", 172800), (90, 90)):
            self.assertEqual(units.duration(text), value)
        for text in ("", "-1", "5 x", "1e3", "nan", "0", "99999999999999999999"):
            with self.assertRaises(ValueError, msg=text):
                units.size(text)
        for value in (100_000_000, 2 << 30, 1536 << 10, 77):
            self.assertEqual(units.size(units.size_text(value)), value)

    def test_modules_need_nothing_else_of_the_package(self):
        for path in (support.SHARE / "jobs").rglob("*.py"):
            text = path.read_text()
            self.assertNotRegex(text, r"(?m)^\s*(import|from) sluice", path)
            self.assertLessEqual(text.count("\n"), 400, path)
        self.assertTrue(os.path.exists(support.SHARE / "jobs/job.schema.json"))


if __name__ == "__main__":
    support.main()
