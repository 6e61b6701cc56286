#!/usr/bin/env python3
"""Engine slurm on Slurm itself: slurmctld and two slurmd of this machine.  Skipped where Slurm is not installed."""
import json
import os
import pathlib
import subprocess
import time

import support
import slurm
from jobs import JobError, engines, spec, store
from programs import Port
from support import offload_job

SOURCE = pathlib.Path(os.environ["SLUICE_SOURCE"])
TRAINS = "{device: cpu, arch: small_cnn, image-size: 16, train-threads: 1, workers: 1, batch-size: 8, epochs: %d}"
LOADS = "{device: none, batch-size: 8, epochs: 1, workers: 1, seed: 5}"


class RenderTest(support.JobTest):
    def engine(self):
        return engines.find("slurm")

    def script(self, text):
        (found,) = self.engine().render(spec.parse(text, folder="/somewhere")).values()
        done = subprocess.run(["bash", "-n"], input=found, text=True, capture_output=True, check=False)
        self.assertEqual(done.stderr, "")
        return found

    def test_limits_gpus_and_queue_are_options_of_sbatch(self):
        text = self.script("name: a\ndata: /d\nqueue: long\npriority: 7\nlimits: {time: 90m}\n"
                           "storage: {servers: 2, cores: 2.5, memory: 2GiB}\n"
                           "compute: {ranks: 4, gpus: 2, cores: 4, memory: 8GiB, command: [x]}\n")
        first, second = text.split("#SBATCH hetjob\n")
        for line in ("--nodes=2", "--cpus-per-task=3", "--mem=2048M", "--partition=long", "--time=1:30:00",
                     "--priority=7", "--signal=B:USR2@60"):
            self.assertIn(f"#SBATCH {line}\n", first)
        for line in ("--ntasks=4", "--gpus-per-task=2", "--cpus-per-task=4", "--mem-per-cpu=2048M", "--partition=long"):
            self.assertIn(f"#SBATCH {line}\n", second)
        self.assertIn("LOCAL_RANK=0 ", second)  # --gpus-per-task: a rank sees its own alone
        self.assertIn('SLUICE_HOST="${nodes[0]}:$port,${nodes[1]}:$port"', text)

    def test_shares_of_gpus(self):
        data = "name: a\ndata: /d\nstorage: {address: h}\n"
        self.assertIn("--gpus-per-task=1g.10gb:1\n", self.script(
            data + "compute: {gpu_share: {mig: 1g.10gb}, command: [x]}\n"))
        self.assertIn("--gres=mps:30\n", self.script(data + "compute: {gpu_share: {mps: 30}, command: [x]}\n"))

    def test_words_reach_the_programs_as_they_are(self):
        text = self.script("name: a\ndata: \"/d $(touch x) 'y'\"\ncompute: {command: [echo, '$HOME', \"a'b\"]}\n"
                           "env: {A: '$(touch z)'}\n")
        for words in ("'/d $(touch x) '\"'\"'y'\"'\"''", "words=(echo '$HOME' 'a'\"'\"'b')", "export A='$(touch z)'"):
            self.assertIn(words, text)

    def test_what_slurm_cannot_do_is_refused_by_field(self):
        for more, field in (("storage: {io_weight: 5}", "storage.io_weight"), ("storage: {placement: shared}",
                            "storage.placement"), ("priority: -1", "priority"), ("lend: {cpu: 0.5}", "lend"),
                            ("outputs: pvc://a/b", "outputs"), ('queue: "a\\nb"', "queue")):
            job = spec.parse(f"name: a\ndata: /d\ncompute: {{command: [x]}}\n{more}\n")
            with self.assertRaisesRegex(JobError, f"^{field}: "):
                self.engine().check(job)
        with self.assertRaisesRegex(JobError, "^compute.borrow: engine slurm does not borrow"):
            self.engine().check(spec.parse("name: a\ndata: /d\ncompute: {command: [x], borrow: /run/x}\n"))


class SlurmTest(slurm.Cluster):
    def setUp(self):
        self.home = self.folder / self.id().rpartition(".")[2]
        self.home.mkdir()
        self.env["SLUICE_JOBS"] = str(self.home / "jobs")
        port = Port()
        self.addCleanup(port.close)
        self.env["SLUICE_PORT"] = str(port)

    def offload_job(self, *words, code=0):
        return offload_job(*words, code=code, env=self.env)

    def submit(self, options=LOADS, more="", compute=None):
        path = self.home / "job.yaml"
        path.write_text(f"name: test\noutputs: {self.home}/runs\ndata: {{root: {self.folder}/set}}\n"
                        f"compute: {compute or f'{{trainer: {{options: {options}}}}}'}\n{more}")
        id = self.offload_job("submit", path, "--engine", "slurm").strip()
        self.addCleanup(self.end, id)
        return id

    def end(self, id):
        subprocess.run(["scancel", "--name", id], env=self.env, check=False)

    def show(self, id):
        return json.loads(self.offload_job("show", id, "--json"))

    def until(self, id, *states):
        while (found := self.show(id))["state"] not in states:
            self.assertNotIn(found["state"], store.ENDED, self.logs(id))
            time.sleep(0.2)
        return found

    def logs(self, id):
        return self.offload_job("logs", id)

    def batches(self, id):
        """Lines of the training's log that are results."""
        path = self.home / "jobs" / id / "compute-0.log"
        return [json.loads(line) for line in path.read_text().splitlines() if line.startswith("{")] \
            if path.exists() else []

    def assert_nothing_left(self, id):
        for text in self.looks("squeue", "--noheader", f"--name={id}"):
            if not text.strip():
                break
        left = subprocess.run(["pgrep", "-f", str(self.home)], capture_output=True, text=True, check=False).stdout
        self.assertEqual(left, "")

    def test_a_job_runs_and_its_server_ends_with_it(self):
        id = self.submit()
        self.offload_job("wait", id)
        found, logs = self.show(id), self.logs(id)
        self.assertEqual(found["state"], "succeeded", logs)
        self.assertEqual(list(found["steps"]), list(store.STEPS))
        self.assertIn("storage-0: ", logs)
        self.assertIn("stopping: answering what was accepted", logs)
        bare = json.loads(self.run_tool(
            "offload_train", self.folder / "set", "--dataset-mode", "local", "--device", "none", "-b", 8, "--epochs", 1,
            "-j", 1, "--seed", 5, "--json").splitlines()[0])
        self.assertEqual(self.batches(id)[0]["digest"], bare["digest"])
        self.assert_nothing_left(id)

    def test_cancel_leaves_no_process(self):
        id = self.submit(compute="{command: sleep 1000}")
        self.until(id, "running")
        self.offload_job("cancel", id)
        self.assertEqual(self.show(id)["state"], "cancelled")
        self.assert_nothing_left(id)
        self.assertIn("is cancelled", self.offload_job("resume", id, code=1) + self.offload_job("cancel", id, code=1))

    def test_a_job_in_the_queue_can_be_cancelled(self):
        first = self.submit(compute="{command: sleep 1000}")
        self.until(first, "running")
        id = self.submit(LOADS)
        self.assertEqual(self.show(id)["state"], "queued")
        self.offload_job("cancel", id)
        found = self.show(id)
        self.assertEqual(found["state"], "cancelled")
        self.assertNotIn("run", found["steps"])
        self.offload_job("cancel", first)

    def test_pause_with_a_checkpoint_ends_it_and_resume_goes_on(self):
        id = self.submit(TRAINS % 400)
        self.until(id, "running")
        while not self.batches(id):
            time.sleep(0.1)
        self.assertIn("paused", self.offload_job("pause", id))
        self.assert_nothing_left(id)
        self.assertEqual(self.show(id)["state"], "paused")
        done = len(self.batches(id))
        self.offload_job("resume", id)
        while len(self.batches(id)) == done:
            time.sleep(0.1)
        self.assertIn("going on at epoch", self.logs(id))
        self.assertEqual(self.show(id)["attempts"], 2)
        self.offload_job("cancel", id)
        self.assert_nothing_left(id)

    def test_freeze_stops_the_processes_and_resume_lets_them_go_on(self):
        file = self.home / "ticks"
        id = self.submit(compute=f"{{command: 'while sleep 0.1; do echo >>{file}; done'}}")
        self.until(id, "running")
        while not file.exists():
            time.sleep(0.1)
        self.offload_job("pause", id, "--kind", "freeze")
        self.assertEqual(self.show(id)["state"], "paused")
        pids = subprocess.run(["pgrep", "-f", f"sh -c .*{file}"], capture_output=True, text=True, check=True).stdout
        for pid in pids.split():
            while pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
                time.sleep(0.1)
        size = file.stat().st_size
        self.offload_job("resume", id)
        self.assertEqual(self.show(id)["state"], "running")
        while file.stat().st_size == size:
            time.sleep(0.1)
        self.offload_job("cancel", id)

    def test_exec_runs_where_a_role_runs(self):
        id = self.submit(compute="{command: sleep 1000}")
        self.until(id, "running")
        nodes = [self.offload_job("exec", id, role, "--", "printenv", "SLURMD_NODENAME").strip()
                 for role in ("storage-0", "compute-0")]
        self.assertEqual(sorted(nodes), sorted(slurm.NODES))
        self.assertIn("no role 'compute-1'", self.offload_job("exec", id, "compute-1", "--", "true", code=1))
        self.offload_job("cancel", id)

    def test_a_job_that_fails_is_tried_again_and_says_so(self):
        id = self.submit(compute="{command: 'echo try >&2; exit 3'}", more="retries: 1\n")
        self.offload_job("wait", id, code=1)
        found, logs = self.show(id), self.logs(id)
        self.assertEqual((found["state"], found["steps"]["run"]["outcome"]), ("failed", "failed"))
        self.assertEqual(logs.count("compute-0: try"), 2, logs)
        self.assertIn("stopping: answering what was accepted", logs)
        self.assert_nothing_left(id)

    def test_a_server_that_cannot_start_ends_the_job(self):
        id = self.submit(more="storage: {options: {manifest: /nowhere}}\n")
        self.offload_job("wait", id, code=1)
        self.assertIn("storage-0 has ended before the training began", self.logs(id))
        self.assert_nothing_left(id)

    def test_tls_and_tokens(self):
        self.run_tool(SOURCE / "scripts/dev-certs", self.home / "certs", "127.0.0.2")
        secrets = f"secrets: {self.home}/certs"
        id = self.submit(more=f"storage: {{{secrets}}}\n", compute=f"{{{secrets}, trainer: {{options: {LOADS}}}}}")
        self.offload_job("wait", id)
        self.assertEqual(self.batches(id)[0]["samples"], 64, self.logs(id))
        self.assertNotIn("insecure", self.logs(id))

    def test_a_time_limit_ends_the_training_with_a_checkpoint(self):
        """Slurm counts in minutes; the signal comes half a minute before."""
        id = self.submit(TRAINS % 100000, more="limits: {time: 1m}\n")
        self.offload_job("wait", id, code=1)
        self.assertIn("the time limit is near (limits.time)", self.logs(id))
        self.assertTrue((self.home / "runs/run.ckpt").exists())
        self.assert_nothing_left(id)

    def test_ranks_have_the_variables_of_torchrun(self):
        words = "'echo rank $RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT, $LOCAL_RANK $SLUICE_HOST'"
        id = self.submit(more="storage: {address: 'elsewhere:1'}\n", compute=f"{{ranks: 2, command: {words}}}")
        self.offload_job("wait", id)
        logs = self.logs(id)
        for rank in range(2):
            self.assertRegex(logs, rf"compute-{rank}: rank {rank} of 2 at 127.0.0.1:26\d+, 0 elsewhere:1")

    def test_a_submit_that_was_killed_is_found_again_or_lost(self):
        """The record has no number of Slurm; squeue finds the job by its name."""
        id = self.submit(compute="{command: sleep 1000}")
        self.until(id, "running")
        file = self.home / "jobs" / f"{id}.jsonl"
        lines = file.read_text().splitlines(True)
        file.write_text("".join(line for line in lines if '"event":"slurm"' not in line))
        self.assertEqual(self.show(id)["state"], "running")
        self.offload_job("cancel", id)
        self.assert_nothing_left(id)

    def test_scripts_run_by_sbatch_alone(self):
        path = self.home / "job.yaml"
        path.write_text(f"name: alone\ndata: {self.folder}/set\ncompute: {{trainer: {{options: {{device: none}}}}}}\n")
        self.offload_job("render", path, "--engine", "slurm", "--out", self.home)
        number = self.run_tool("sbatch", "--parsable", "--wait", f"--output={self.home}/log", self.home / "alone.sbatch",
                               "--limit-samples", 40).strip()
        log = (self.home / "log").read_text()
        self.assertIn('"samples":40,', log, number)
        self.assertIn("stopping: answering what was accepted", log)

    def test_a_requeued_job_goes_on_from_its_checkpoint(self):
        port = self.env["SLUICE_PORT"]
        self.start("offload_server", "--root", self.folder / "set", "--listen", f"127.0.0.1:{port}")
        id = self.submit(TRAINS % 400, more=f"retries: 2\nstorage: {{address: '127.0.0.1:{port}'}}\n")
        self.until(id, "running")
        checkpoint = self.home / "runs/run.ckpt"
        while not checkpoint.exists():
            time.sleep(0.1)
        number = self.run_tool("squeue", "--noheader", f"--name={id}", "--format=%i").strip()
        self.run_tool("scontrol", "requeue", number)
        for text in self.looks("scontrol", "show", "job", number):
            if "JobState=PENDING" in text:
                break
        self.run_tool("scontrol", "update", f"jobid={number}", "starttime=now")  # it would wait for two minutes
        while "going on at epoch" not in self.logs(id):
            time.sleep(0.1)
        self.offload_job("cancel", id)

    def test_a_checkpoint_that_is_there_is_not_overwritten(self):
        (self.home / "runs").mkdir()
        (self.home / "runs/run.ckpt").touch()
        with self.assertRaisesRegex(AssertionError, "run.ckpt is there already"):
            self.submit()


if __name__ == "__main__":
    why = slurm.missing()
    if why:
        support.skip(why)
    support.main()
