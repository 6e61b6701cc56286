#!/usr/bin/env python3
"""packaging/grafana and packaging/prometheus fit the programs: each series that they name is on a page of a server and
a trainer that work, with the labels that they use, and the dashboard is one that any Grafana can have."""
import json
import re
import shutil
import subprocess
import unittest
import urllib.error

import exposition
import harness
from programs import Port, run

PACKAGING = harness.SOURCE / "packaging"
OPERATIONS = harness.SOURCE / "docs/OPERATIONS.md"
# A name of ours, and what stands between braces after it.
SERIES = re.compile(r"(?<![\w$])(sluice_[a-z0-9_]+)(?:\{([^}]*)\})?")
AGGREGATED = re.compile(r"\b(?:by|without) \(([^)]*)\)")


def need(program):
    if not shutil.which(program):
        harness.skip(f"{program} is missing")


class Pages(unittest.TestCase):
    """The pages of a server with TLS and of a trainer that computes a loss, once each."""

    @classmethod
    def setUpClass(cls):
        need("openssl")
        folder = harness.temporary_folder("watching")
        root = folder / "set"
        run("offload_dataset", "synth", root, "-n", "24", "--num-val", "8")
        certs = folder / "certs"
        subprocess.run([harness.SOURCE / "scripts/dev-certs", certs], check=True, capture_output=True)
        with Port() as server_port, Port() as trainer_port:
            server = harness.Server(root, "--isolate-decoders", "--metrics", f"127.0.0.1:{server_port}",
                                    "--tls-cert", certs / "server.pem", "--tls-key", certs / "server-key.pem")
            trainer = subprocess.Popen(
                [harness.BIN / "offload_train", "--host", server.address, "--tls", "--ca", certs / "ca.pem",
                 "--dataset-mode", "piloff", "-a", "small_cnn", "--image-size", "32", "-b", "8", "-p", "0",
                 "--epochs", "1000000", "--lend", folder / "gpu", "--metrics", f"127.0.0.1:{trainer_port}"],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            try:
                cls.trainer = cls.wait_for(trainer, trainer_port.number)
                cls.server = exposition.scrape(server_port.number)
            finally:
                trainer.kill()
                trainer.communicate()
                server.close()
        cls.families = {**cls.server, **cls.trainer}

    @staticmethod
    def wait_for(run, port):
        """The trainer's page after its first batches."""
        while run.poll() is None:
            try:
                page = exposition.scrape(port)
                if page["sluice_trainer_batches_total"].values()[frozenset()] > 4:
                    return page
            except (ConnectionError, urllib.error.URLError):
                pass  # it does not listen yet
        raise AssertionError(run.stderr.read().decode())

    def series_of(self, name):
        """(the family, its series' labels) of a name as a query has it."""
        for suffix in ("", "_bucket", "_sum", "_count"):
            family = self.families.get(name.removesuffix(suffix) if suffix else name)
            if family and name.endswith(suffix) and (not suffix or family.type == "histogram"):
                labels = set()
                for series in family.values(suffix):
                    labels |= {label for label, _ in series}
                return family, labels
        return None, set()

    def check_expression(self, expression, where):
        names = SERIES.findall(re.sub(r'__name__=~"[^"]*"', "", expression))
        if not names:
            self.assertIn("up{", expression, where)
        used = set()
        for name, matchers in names:
            family, labels = self.series_of(name)
            if name in ("sluice_trainer_loss", "sluice_trainer_top1_ratio") and not family:
                continue  # only with a device that trains
            self.assertIsNotNone(family, f"{where}: no page has {name}")
            used |= labels
            for label in re.findall(r"(\w+)\s*[=!]", matchers):
                self.assertIn(label, labels | {"instance", "job"}, (where, name))
        for group in AGGREGATED.findall(expression):
            for label in group.split(","):
                self.assertIn(label.strip(), used | {"instance", "job"}, where)
        if "_total" in expression and "increase" not in expression:
            self.assertRegex(expression, r"rate\(", where)

    def test_each_series_of_the_dashboard_is_on_a_page(self):
        dashboard = json.loads((PACKAGING / "grafana/sluice.json").read_text())
        count = 0
        for panel in dashboard["panels"]:
            for target in panel.get("targets", []):
                self.check_expression(target["expr"], panel["title"])
                count += 1
        for variable in dashboard["templating"]["list"]:
            if variable["type"] == "query":
                self.check_expression(variable["definition"].split("(")[1].split(",")[0], variable["name"])
        self.assertGreater(count, 40)

    def test_each_series_of_the_rules_is_on_a_page(self):
        text = (PACKAGING / "prometheus/alerts.yml").read_text()
        found = re.findall(r"- alert: (\w+)\n +expr: ([\"'])(.*)\2\n", text)
        self.assertGreater(len(found), 15)
        for alert, quote, expression in found:
            self.check_expression(expression.replace('\\"', '"') if quote == '"' else expression, alert)

    def test_the_dashboard_shows_what_matters(self):
        text = (PACKAGING / "grafana/sluice.json").read_text()
        for name, family in self.server.items():
            if name not in text and family.type == "counter":
                # What says the same as another, or is one part of it.
                self.assertIn(name, {"sluice_file_reads_total", "sluice_cpu_seconds_total",
                                     "sluice_process_cpu_seconds_total", "sluice_client_errors_total",
                                     "sluice_memory_refusals_total", "sluice_sample_timeouts_total",
                                     "sluice_payload_bytes_total", "sluice_damaged_requests_total"})

    def test_no_label_has_values_without_a_bound(self):
        """Names, addresses and ids stand only in families whose series are bounded, or in one of info."""
        free = {"client", "address", "dataset"}
        for name, family in self.families.items():
            labels = {label for series in family.values("_count" if family.type == "histogram" else "")
                      for label, _ in series}
            if labels & free:
                self.assertTrue(name.startswith("sluice_client_") or name.endswith("_info"), name)
            self.assertLessEqual(len(family.samples), 500, name)


class Dashboard(unittest.TestCase):
    def setUp(self):
        self.dashboard = json.loads((PACKAGING / "grafana/sluice.json").read_text())

    def test_no_data_source_is_wired_in(self):
        variables = {v["name"]: v for v in self.dashboard["templating"]["list"]}
        self.assertEqual((variables["datasource"]["type"], variables["datasource"]["query"]), ("datasource", "prometheus"))

        def walk(value):
            if isinstance(value, dict):
                if "datasource" in value:
                    self.assertEqual(value["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                value = list(value.values())
            for part in value if isinstance(value, list) else []:
                walk(part)
        walk(self.dashboard)
        for panel in self.dashboard["panels"]:
            self.assertTrue(panel["type"] == "row" or panel["datasource"], panel["title"])

    def test_panels_are_whole_and_do_not_overlap(self):
        self.assertGreaterEqual(self.dashboard["schemaVersion"], 36)
        self.assertIsNone(self.dashboard.get("id"))
        ids = [panel["id"] for panel in self.dashboard["panels"]]
        self.assertEqual(len(ids), len(set(ids)))
        taken = set()
        for panel in self.dashboard["panels"]:
            self.assertIn(panel["type"], ("row", "timeseries", "stat"))
            self.assertTrue(panel["title"])
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24, panel["title"])
            cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
            self.assertFalse(cells & taken, panel["title"])
            taken |= cells
            refs = [target["refId"] for target in panel.get("targets", [])]
            self.assertEqual(len(refs), len(set(refs)))
            if panel["type"] != "row":
                self.assertTrue(refs and panel["description"], panel["title"])

    def test_variables_of_queries_are_there(self):
        names = {v["name"] for v in self.dashboard["templating"]["list"]} | {"__rate_interval"}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(self.dashboard)))
        self.assertEqual(used, names)


class Rules(unittest.TestCase):
    def setUp(self):
        text = (PACKAGING / "prometheus/alerts.yml").read_text()
        self.rules = re.split(r"\n      - alert: ", text)[1:]
        self.assertGreater(len(self.rules), 15)

    def test_each_has_all_that_a_person_needs(self):
        for rule in self.rules:
            name = rule.split("\n")[0]
            for key in ("summary", "description"):
                self.assertRegex(rule, rf"\n          {key}: [\"'].{{10,}}[\"']", name)
            self.assertRegex(rule, r"\n          severity: (critical|warning|info)\n")
            kebab = re.sub(r"(?<!^)([A-Z])", r"-\1", name).lower()
            self.assertIn(f"runbook_url: docs/OPERATIONS.md#alert-{kebab}", rule)

    def test_the_runbook_has_each_of_them(self):
        """As soon as it has one."""
        text = OPERATIONS.read_text()
        there = set(re.findall(r'(?:id|name)="(alert-[a-z-]+)"', text))
        there |= {re.sub(r"[^a-z0-9 -]", "", title.lower()).strip().replace(" ", "-")
                  for title in re.findall(r"^#+ (.*)$", text, re.M)}
        wanted = {re.search(r"#(alert-[a-z-]+)", rule).group(1) for rule in self.rules}
        if any(name.startswith("alert-") for name in there):
            self.assertEqual(wanted - there, set())


if __name__ == "__main__":
    harness.main()
