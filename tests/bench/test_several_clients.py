#!/usr/bin/env python3
"""bench/several_clients from one end to the other on a handful of images: fields, not times."""
import json
import os
import unittest

from benches import BenchTest
from programs import BIN, reports
from sluice_bench import parts


class SeveralClientsTest(BenchTest):
    PROGRAM, FLAGS = "several_clients", ("--bin", BIN)

    def test_each_client_is_told_of_and_all_digests_are_equal(self):
        cpus = sorted(os.sched_getaffinity(0))
        done = self.bench(self.root, "--cases", "1000/100/500!,1000", "--passes", 2,
                               "--verify", "--json", "--alone", "none", "--storage-cpus", cpus[0],
                               "--client-cpus", cpus[-1])
        cases = reports(done.stdout)
        self.assertEqual([case["case"] for case in cases], ["1000/100/500!", "1000"])
        turns = [turn for case in cases for turn in case["turns"]]
        self.assertEqual(len(turns), 2)
        for turn in turns:
            for key in ("seconds", "least_s", "ratio", "sums", "least", "storage_cores"):
                self.assertGreater(turn[key], 0, key)
            self.assertEqual(len(turn["digests"]), 1)
            for client in turn["clients"]:
                self.assertEqual((client["samples"], client["errors"]), (24, 0))
                self.assertEqual(sum(client["choices"].values()), 24)
                self.assertGreaterEqual(client["price"], 0)
                for key in ("pass_s", "best_s", "of_fair", "compute_cores"):
                    self.assertGreater(client[key], 0, key)
        self.assertEqual([client["is_greedy"] for client in turns[0]["clients"]],
                         [False, False, True])
        self.assertEqual(turns[0]["digests"], turns[1]["digests"])

        text = self.bench(self.root, "--cases", "1000", "--passes", 1, "--alone", 1,
                               "--alone-settle", 0.2, "--alone-seconds", 0.5).stdout
        self.assertIn("least ", text)

    def test_whole_cores_are_parted_without_a_quota(self):
        done = self.bench(self.root, "--cases", "1000/500", "--parted", "--alone", "none",
                               "--prep-workers", 2, "--repeats", 2, "--settle", 0.1,
                               "--seconds", 0.3, "--json")
        case = json.loads(done.stdout)
        self.assertEqual([way["cores"] for way in case["ways"]], [[1, 1]])
        self.assertEqual(case["of_parted"], max(way["median"] for way in case["ways"]))
        self.assertEqual(len(case["turns"]), 2)
        for number, turn in enumerate(case["turns"]):
            together = sum(client["pass_s"] for client in turn["clients"])
            for way, parted in zip(case["ways"], turn["parted"]):
                self.assertEqual(parted["cores"], way["cores"])
                self.assertEqual(len(parted["pass_s"]), 2)
                self.assertAlmostEqual(way["of_parted"][number], together / sum(parted["pass_s"]))

    def test_ways_to_part_cores(self):
        self.assertEqual(parts.ways(4, ["a", "b"], [0.7, 0.3], 3, False), [[3, 1], [2, 2], [1, 3]])
        self.assertEqual(parts.ways(4, ["a", "b"], [0.7, 0.3], 1, True), [[3, 1]])
        self.assertEqual(parts.ways(4, ["a", "a"], [0.5, 0.5], 3, True), [[2, 2], [1, 3]])
        self.assertEqual(parts.ways(3, ["a"] * 3, [1 / 3] * 3, 3, False), [[1, 1, 1]])
        self.assertEqual(parts.ways(1, ["a", "b"], [0.7, 0.3], 3, False), [])
        self.assertEqual(parts.ways(0.2, ["a", "b"], [0.75, 0.25], 3, True),
                         [[0.1, 0.1], [0.75 * 0.2, 0.25 * 0.2]])
        self.assertEqual(parts.ways(0.2, ["a", "b"], [0.52, 0.48], 3, True), [[0.1, 0.1]])

    def test_what_is_no_client_is_refused(self):
        done = self.bench(self.root, "--cases", "1000/fast", "--passes", 1, code=1)
        self.assertIn("'fast' is no client", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
