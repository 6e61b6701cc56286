#!/usr/bin/env python3
"""offload_job serve: its REST with real jobs, what openapi.json says of it, and who is refused."""
import json
import os
import pathlib
import re
import socket
import stat
import subprocess
import time
from concurrent import futures
from unittest import mock

import serving
import support
from jobs import api, figures, store
from serving import source

TRAINER = "{trainer: {options: {device: none, batch-size: 8, workers: 1, epochs: %d, seed: 3, no-val: true}}}"
WAITS = json.dumps({"command": "echo begun; while [ ! -e end ]; do sleep 0.02; done; echo over"})
PAGE = """\
# HELP sluice_trainer_samples_total Samples
sluice_trainer_info{mode="remote_auto",model="small \\"cnn\\""} 1
sluice_trainer_samples_total 96
sluice_trainer_uptime_seconds 2.5
sluice_trainer_choices_total{split="0",form="raw"} 90
sluice_trainer_choices_total{split="3",form="u8_packed"} 6
sluice_trainer_stall_seconds_total{cause="disk"} 0.25
sluice_trainer_errors_total{status="i/o"} 2
sluice_trainer_errors_total{status="decode"} 1
not a line {
sluice_trainer_epoch x
sluice_trainer_loss NaN
"""


class OpenApiTest(support.JobTest):
    def setUp(self):
        self.doc = json.loads(source("openapi.json").read_text())

    def test_it_has_the_routes_of_the_program_with_their_names(self):
        found = {}
        for path, item in self.doc["paths"].items():
            for method in set(item) - {"parameters"}:
                one = item[method]
                query = {each["name"] for each in one.get("parameters", ()) if each["in"] == "query"}
                body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
                found[(method.upper(), path)] = (query, set(body.get("properties", ())))
        self.assertEqual(found, {(method, path): (set(query), set(body)) for method, path, _, query, body in api.ROUTES})
        self.assertEqual(self.doc["servers"], [{"url": api.BASE}])

    def test_its_references_and_words_are_those_of_the_program(self):
        text = json.dumps(self.doc)
        for path in re.findall(r'"#/([^"]+)"', text):
            at = self.doc
            for name in path.split("/"):
                at = at[name]
        schemas = self.doc["components"]["schemas"]
        self.assertEqual(schemas["Row"]["properties"]["state"]["enum"], list(store.STATES))
        steps = schemas["Job"]["allOf"][1]["properties"]["steps"]["propertyNames"]["enum"]
        self.assertEqual(steps, list(store.STEPS))
        self.assertEqual(schemas["Step"]["allOf"][1]["properties"]["outcome"]["enum"], list(store.OUTCOMES))


class FiguresTest(support.JobTest):
    def test_a_page_of_metrics_becomes_figures(self):
        found = figures.of_page(PAGE)
        self.assertEqual((found["samples"], found["uptime_s"], found["loss"], found["epoch"]), (96, 2.5, None, None))
        self.assertEqual(found["mode"], "remote_auto")
        self.assertEqual(found["choices"], [{"split": "0", "form": "raw", "samples": 90},
                                            {"split": "3", "form": "u8_packed", "samples": 6}])
        self.assertEqual((found["stalls_s"], found["errors"]), ({"disk": 0.25}, 3))

    def test_the_port_is_the_last_one_of_rank_0(self):
        log, port = self.folder / "log", figures.Port()
        self.assertIsNone(port.find(log))
        with open(log, "a", encoding="ascii") as file:
            for text in ("offload_train[0] info: metrics at port 5", "offload_train[1] info: metrics at port 6",
                         "x" * (figures.CHUNK_BYTES - 100), "offload_train info: metrics at port 7", "y" * 300):
                file.write(text + "\n")
            file.write("offload_train info: metrics at port 8")
            file.flush()
            self.assertEqual(port.find(log), 7)
            file.write("1\n")
            file.flush()
            self.assertEqual(port.find(log), 81)
        self.assertEqual(port.find(log), 81)
        self.assertEqual(port.place, log.stat().st_size)

    def test_a_page_of_something_else_has_none(self):
        self.assertEqual(figures.of_page("<html>\n{}\n")["samples"], None)


class EnginesTest(support.JobTest):
    def test_an_engine_stays_and_tells_one_state_at_a_time(self):
        class Slow:
            is_asked = False

            def state(self, record):
                assert not self.is_asked
                self.is_asked = True
                time.sleep(0.01)
                self.is_asked = False
                return "running"

        made = []
        with mock.patch.object(api.engines, "find", lambda name: made.append(name) or Slow()):
            known = api.Engines()
            record = mock.Mock(**{"engine.return_value": "slurm"})
            with futures.ThreadPoolExecutor(8) as pool:
                self.assertEqual(list(pool.map(known.state, [record] * 16)), ["running"] * 16)
        self.assertEqual(made, ["slurm"])


class JobsTest(serving.ServeTest):
    def conforms(self, value, schema):
        import jsonschema
        doc = json.loads(source("openapi.json").read_text())
        jsonschema.Draft202012Validator({**schema, "components": doc["components"]}).validate(value)

    def answer_schema(self, method, path, status="200"):
        doc = json.loads(source("openapi.json").read_text())
        return doc["paths"][path][method.lower()]["responses"][status]["content"]["application/json"]["schema"]

    def test_a_job_from_submit_to_its_end(self):
        self.assertEqual(self.api("GET", "/jobs"), {"jobs": []})
        body = {"text": self.text(WAITS), "folder": str(self.folder), "engine": "local"}
        sent = self.api("POST", "/jobs", body, 201)
        self.conforms(sent, self.answer_schema("POST", "/jobs", "201"))
        id = sent["id"]
        self.await_state(id, "running")
        jobs = self.api("GET", "/jobs")
        self.conforms(jobs, self.answer_schema("GET", "/jobs"))
        self.assertEqual([(job["id"], job["state"], job["attempts"]) for job in jobs["jobs"]], [(id, "running", 1)])
        (self.folder / "runs/end").touch()
        job = self.await_state(id, "succeeded")
        self.conforms(job, self.answer_schema("GET", "/jobs/{id}"))
        self.assertEqual(list(job["steps"]), list(store.STEPS))
        self.assertEqual(job, json.loads(support.offload_job("show", id, "--json")))
        found = self.api("GET", f"/jobs/{id}/events?from=2")
        self.conforms(found, self.answer_schema("GET", "/jobs/{id}/events"))
        self.assertEqual(found["events"], job["events"][1:])
        self.assertEqual(self.api("GET", f"/jobs/{id}/events?from={found['next']}")["events"], [])

    def test_logs_from_an_offset_and_followed(self):
        id = self.submit(WAITS)
        self.await_state(id, "running")
        one = self.connection()
        self.addCleanup(one.close)
        one.request("GET", f"/api/v1/jobs/{id}/logs?follow=1&role=compute-0",
                    headers={"Authorization": f"Bearer {self.token}"})
        answer = one.getresponse()
        self.assertEqual(answer.readline(), b"begun\n")  # while the job runs
        (self.folder / "runs/end").touch()
        self.assertEqual(answer.read(), b"over\n")
        self.await_state(id, "succeeded")

        def logs(query):
            return self.request("GET", f"/api/v1/jobs/{id}/logs{query}")[1].decode()

        self.assertEqual(logs("?role=compute-0"), "begun\nover\n")
        self.assertEqual(logs("?role=compute-0&from=1"), "over\n")
        self.assertEqual(logs("?role=compute-0&from=1&follow=1"), "over\n")
        self.assertEqual(logs("?role=compute-0&from=2"), "")
        self.assertIn("compute-0: begun\n", logs(""))
        self.assertEqual(self.request("GET", f"/api/v1/jobs/{id}/logs?from=1")[0], 400)

    def test_a_follower_that_leaves_ends_its_process(self):
        id = self.submit(WAITS)
        self.await_state(id, "running")
        one = self.connection()
        one.request("GET", f"/api/v1/jobs/{id}/logs?follow=1", headers={"Authorization": f"Bearer {self.token}"})
        answer = one.getresponse()
        answer.readline()
        self.assertEqual(len(self.followers(id)), 1)
        answer.close()
        one.close()
        while self.followers(id):
            time.sleep(0.02)
        self.assertEqual(self.api("GET", f"/jobs/{id}")["state"], "running")

    def followers(self, id):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"--follow" in words and id.encode() in words:
                found.append(path.parent.name)
        return found

    def test_pause_resume_and_cancel(self):
        id = self.submit(WAITS)
        self.await_state(id, "running")
        frozen = self.api("POST", f"/jobs/{id}/pause", {"kind": "freeze"})
        self.conforms(frozen, self.answer_schema("POST", "/jobs/{id}/pause"))
        self.assertEqual(frozen, {"id": id, "state": "paused"})
        now = self.api("GET", f"/jobs/{id}/figures")
        self.conforms(now, self.answer_schema("GET", "/jobs/{id}/figures"))
        self.assertEqual((now["trainer"], now["trainer_problem"], now["servers"]), (None, "the state of the job is paused", []))
        self.assertEqual(self.api("POST", f"/jobs/{id}/resume"), {"id": id, "state": "running"})
        self.assertIn("kind", self.api("POST", f"/jobs/{id}/pause", {"kind": "nap"}, 400)["error"])
        self.assertEqual(self.api("POST", f"/jobs/{id}/cancel"), {"id": id, "state": "cancelled"})
        self.assertIn("cancelled", self.api("POST", f"/jobs/{id}/cancel", status=409)["error"])

    def test_mistakes_have_line_column_and_field(self):
        body = {"text": "name: a\ncompute: {comand: x}\n", "folder": str(self.folder)}
        found = self.api("POST", "/validate", body)
        self.conforms(found, self.answer_schema("POST", "/validate"))
        self.assertIn({"line": 2, "column": 11, "field": "compute.comand", "text": "unknown field; did you mean command?"},
                      found["problems"])
        self.assertEqual(self.api("POST", "/jobs", body, 422)["problems"], found["problems"])
        body["text"] = self.text(WAITS)
        self.assertEqual(self.api("POST", "/validate", body), {"problems": [], "name": "test"})
        for folder in ("runs", "/none/such", "/etc/passwd", 3, None, "/tmp\0"):
            self.assertIn("folder", self.api("POST", "/validate", {**body, "folder": folder}, 400)["error"])
        refused = {**body, "text": self.text(WAITS, "priority: 3\n")}
        self.assertIn("priority", self.api("POST", "/jobs", refused, 409)["error"])
        self.assertEqual(self.api("GET", "/jobs"), {"jobs": []})

    def test_figures_of_loader_and_server_side_by_side(self):
        id = self.submit(TRAINER % 1000000)
        self.await_state(id, "running")
        while not ((now := self.api("GET", f"/jobs/{id}/figures"))["trainer"] or {}).get("samples"):
            time.sleep(0.05)
        self.conforms(now, self.answer_schema("GET", "/jobs/{id}/figures"))
        self.assertEqual((now["trainer_problem"], now["servers_problem"]), ("", ""))
        self.assertGreater(sum(choice["samples"] for choice in now["trainer"]["choices"]), 0)
        self.assertIn("storage_cpu", now["trainer"]["stalls_s"])
        self.assertEqual([row["state"] for row in now["servers"]], ["ok"])
        self.assertGreater(now["servers"][0]["samples"], 0)
        self.api("POST", f"/jobs/{id}/cancel")

    def test_figures_over_tls_with_the_secrets_of_the_job(self):
        subprocess.run([pathlib.Path(os.environ["SLUICE_SOURCE"]) / "scripts/dev-certs", self.folder / "certs"], check=True,
                       capture_output=True)
        options = "{device: none, batch-size: 8, workers: 1, epochs: 1000000, seed: 3, no-val: true}"
        id = self.submit(f"{{secrets: certs, trainer: {{options: {options}}}}}", "storage: {secrets: certs}\n")
        self.await_state(id, "running")
        now = self.api("GET", f"/jobs/{id}/figures")
        self.assertEqual([row["state"] for row in now["servers"]], ["ok"], now)
        self.api("POST", f"/jobs/{id}/cancel")

    def test_figures_of_a_command_say_why_there_are_none(self):
        id = self.submit(WAITS)
        self.await_state(id, "running")
        now = self.api("GET", f"/jobs/{id}/figures")
        self.assertEqual((now["trainer"], len(now["servers"])), (None, 1))
        self.assertIn("command", now["trainer_problem"])


class RefusedTest(serving.ServeTest):
    def status(self, path="/api/v1/jobs", method="GET", body=None, **headers):
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.request(method, path, body, names)[0]

    def test_the_token_is_wanted_everywhere_but_for_the_page(self):
        for path in ("/", "/page.js", "/page.css", "/api/v1/openapi.json"):
            status, data, headers = self.request("GET", path, headers={"Authorization": None})
            self.assertEqual(status, 200)
            self.assertNotIn(self.token.encode(), data)
            self.assertIn("default-src 'none'", headers["Content-Security-Policy"])
        wrong = (None, "", "Bearer", "Bearer ", f"bearer {self.token}", f"Bearer {self.token}x", f"Bearer {self.token[:-1]}",
                 f"Basic {self.token}", "Bearer \xff\xfe", [f"Bearer {self.token}"] * 2)
        for value in wrong:
            self.assertEqual(self.status(Authorization=value), 401, value)
        for method, path, *_ in api.ROUTES:
            path = api.BASE + path.replace("{id}", "a-123456")
            self.assertEqual(self.status(path, method, Authorization=None), 401, path)
        self.assertEqual(self.status("/none", Authorization=None), 401)
        self.assertEqual(self.status(f"/api/v1/jobs?token={self.token}", Authorization=None), 401)
        self.assertEqual(self.status(), 200)

    def test_the_token_file_is_ours_alone_and_goes_with_the_server(self):
        path = self.folder / "jobs/serve.token"
        self.assertEqual(path.read_text().strip(), self.token)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertGreaterEqual(len(self.token), 43)
        self.end(self.process)
        self.assertFalse(path.exists())

    def test_host_is_this_machine(self):
        port = self.host.split(":")[1]
        for host in ("evil.example", f"evil.example:{port}", f"127.0.0.1.evil.example:{port}", "0.0.0.0", "", None,
                     f"localhost:{port}x", "[::2]", "127.0.0.1:", "2130706433", [self.host] * 2):
            self.assertEqual(self.status(Host=host), 421, host)
            self.assertEqual(self.status("/", Host=host), 421, host)
        for host in (self.host, f"localhost:{port}", "localhost", "localhost:9000", "[::1]:9000"):
            self.assertEqual(self.status(Host=host), 200, host)

    def test_origin_is_the_page_itself(self):
        for origin in ("http://evil.example", "null", "", f"https://{self.host}", "http://127.0.0.1", f"http://{self.host}/",
                       [f"http://{self.host}"] * 2):
            self.assertEqual(self.status(Origin=origin), 403, origin)
            self.assertEqual(self.status("/api/v1/jobs", "POST", {}, Origin=origin), 403, origin)
        self.assertEqual(self.status(Origin=f"http://{self.host}"), 200)

    def test_bodies_are_limited_json(self):
        def post(body=b"{}", **headers):
            return self.status("/api/v1/validate", "POST", body, **{"Content_Type": "application/json", **headers})

        self.assertEqual(post(Content_Length=None), 411)
        self.assertEqual(post(Content_Length=["2", "2"]), 411)
        self.assertEqual(post(Content_Length=None, Transfer_Encoding="chunked"), 411)
        for length in ("-1", "2x", "", "+2", "0x2"):
            self.assertEqual(post(Content_Length=length), 400, length)
        for length in (str((2 << 20) + 1), "9" * 30):
            self.assertEqual(post(Content_Length=length), 413, length)
        self.assertEqual(post(Content_Type="text/plain"), 415)
        self.assertEqual(post(Content_Type="application/x-www-form-urlencoded"), 415)
        for body in (b"{", b"[]", b"3", b"\xff", b"[" * 100000, b'{"text": 3, "folder": "/"}', b'{"folder": "/"}',
                     b'{"text": "", "folder": "/", "more": 1}'):
            self.assertEqual(post(body), 400, body[:40])
        large = {"text": "#" * ((1 << 20) + 1), "folder": str(self.folder)}
        self.assertIn("larger", self.api("POST", "/validate", large)["problems"][0]["text"])

    def test_paths_and_methods_that_are_not_there(self):
        for path in ("/api/v1", "/api/v1/", "/api/v1/jobs/", "/api/v2/jobs", "/page.html", "/serve.py", "/../page.js",
                     "/%2e%2e/store.py", "/api/v1/jobs/..%2f..", "/api/v1/jobs/../jobs", "/api/v1/jobs/A",
                     "/api/v1/jobs/a/figures/", "/api/v1/jobs/a%0a", "/api/v1/jobs/" + "a" * 61, "/api/v1/jobs/a-123456",
                     "http://evil.example/api/v1/jobs"):
            self.assertEqual(self.status(path), 404, path)
        self.assertEqual(self.status("/api/v1/jobs/a-123456/cancel"), 405)
        self.assertEqual(self.status("/api/v1/jobs/a-123456", "POST"), 405)
        for method in ("PUT", "DELETE", "OPTIONS", "HEAD", "TRACE", "X"):
            self.assertEqual(self.status(method=method), 501, method)
        self.assertEqual(self.status("/api/v1/jobs/a-123456/cancel", "POST"), 404)

    def test_queries_are_checked(self):
        id = self.submit(WAITS)
        for query in ("events?from=-1", "events?from=x", "events?from=9999999999", "events?from=1&from=2", "events?until=3",
                      "events?from", "logs?role=../x", "logs?role=a&follow=2", "logs?role=a%0a", "figures?x=1",
                      "events?" + "&".join(f"a{i}=1" for i in range(20))):
            self.assertEqual(self.status(f"/api/v1/jobs/{id}/{query}"), 400, query)

    def test_bytes_that_are_no_http_end_nothing(self):
        host, port = self.host.split(":")
        for data in (b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n", b"GET /" + b"a" * 70000, b"POST / HTTP/1.1\r\n" + b"a: b\r\n" * 200,
                     b"GET / HTTP/1.1\r\nHost: x\r\n"):
            with socket.create_connection((host, int(port))) as one:
                one.sendall(data)
                one.shutdown(socket.SHUT_WR)
                try:
                    while one.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        self.assertEqual(self.status(), 200)

    def test_connections_are_limited(self):
        host, port = self.host.split(":")
        held = [socket.create_connection((host, int(port))) for _ in range(64)]
        with socket.create_connection((host, int(port))) as one:
            self.assertEqual(one.recv(1), b"")
        for one in held:
            one.close()
        while True:
            try:
                self.assertEqual(self.status(), 200)
                break
            except (ConnectionError, serving.http.client.HTTPException):
                time.sleep(0.02)  # the threads of the others end


class ListenTest(serving.ServeTest):
    def test_a_unix_socket_is_ours_alone(self):
        path = self.folder / "s" / "socket"
        path.parent.mkdir()
        self.serve("--listen", path, "--token-file", self.folder / "token")
        self.unix = str(path)
        self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o600)
        self.assertEqual((self.folder / "token").read_text().strip(), self.token)
        self.assertEqual(self.api("GET", "/jobs"), {"jobs": []})
        self.assertEqual(self.request("GET", "/api/v1/jobs", headers={"Authorization": None})[0], 401)
        said = support.offload_job("serve", "--listen", path, code=1)
        self.assertIn("in use", said)
        self.process.kill()
        self.process.wait()
        self.serve("--listen", path)  # in place of the socket that it left
        self.assertEqual(self.api("GET", "/jobs"), {"jobs": []})
        self.end(self.process)
        self.assertFalse(path.exists())
        path.write_text("mine")
        self.assertIn("no socket", support.offload_job("serve", "--listen", path, code=1))
        self.assertEqual(path.read_text(), "mine")

    def test_other_addresses_are_refused(self):
        for address, said in (("0.0.0.0:8000", "ssh -L"), (":::80", "ssh -L"), ("[::]:80", "ssh -L"),
                              ("example.org:80", "ssh -L"), ("127.0.0.1", "port"), ("127.0.0.1:x", "port"),
                              ("127.0.0.1:65536", "port"), (f"{self.host}", "in use")):
            self.assertIn(said, support.offload_job("serve", "--listen", address, code=1), address)

    def test_jobs_go_on_when_it_has_ended(self):
        id = self.submit(WAITS)
        self.await_state(id, "running")
        self.end(self.process)
        self.assertEqual(self.show(id)["state"], "running")


if __name__ == "__main__":
    support.main()
