#!/usr/bin/env python3
"""Engine local: whole jobs on this machine, from submit to their end, and all that can be done with them."""
import dataclasses
import glob
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import tempfile
import time
import unittest.mock

import programs
import support
from jobs import JobError, engines, spec, store
from support import offload_job

TRAINER = "{device: none, batch-size: 8, workers: 1, epochs: 2, seed: 3, no-val: true}"
MODEL = ("{device: cpu, arch: small_cnn, image-size: 16, train-threads: 1, batch-size: 8, workers: 1, seed: 3, "
         "no-val: true, epochs: %d}")
# Runs until a file `end` comes to the outputs.
WAITS = "while [ ! -e end ]; do sleep 0.02; done"


def has_bwrap():
    from jobs.engines import bwrap
    return bwrap.works()


def marked(id):
    """Processes of the roles of a job."""
    from jobs.engines import processes
    supervisor = store.Store().find(id).last(state="starting").get("pid")
    return [pid for pid in processes.marked(f"SLUICE_JOB_ID={id}") if pid != supervisor]


class LocalTest(support.JobTest):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="sluice-set-")
        cls.addClassCleanup(folder.cleanup)
        cls.root = os.path.join(folder.name, "set")
        programs.run("offload_dataset", "synth", cls.root, "-n", 48, "--num-val", 8, "--classes", 3)

    def setUp(self):
        super().setUp()
        self.outputs = self.folder / "runs"
        self.addCleanup(self.end_all)

    def end_all(self):
        """No test leaves a job behind."""
        for record in store.Store().records():
            engine = engines.find("local")
            if engine.state(record) not in store.ENDED:
                engine.cancel(record)

    def job(self, compute, more="", data=None):
        return self.write(f"name: test\noutputs: runs\ndata: {{root: {data or self.root}}}\ncompute: {compute}\n{more}")

    def trainer(self, options=TRAINER, more=""):
        return self.job(f"{{trainer: {{options: {options}}}}}", more)

    def command(self, text, more=""):
        return self.job(json.dumps({"command": text}), more)

    def submit(self, path, *words, **options):
        return offload_job("submit", path, *words, **options).strip()

    def await_state(self, id, *states):
        """The job once it is in one of these states; ctest's limit is the only one."""
        record, engine = store.Store().find(id), engines.find("local")
        while (state := engine.state(record)) not in states:
            self.assertNotIn(state, store.ENDED + ("lost",), record.last())
            time.sleep(0.02)
        return record

    def await_file(self, name):
        while not (self.outputs / name).exists():
            time.sleep(0.02)

    def reports(self, id):
        lines = offload_job("logs", id, "--role", "compute-0").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def nothing_left(self, id):
        self.assertEqual(marked(id), [])
        self.assertNotIn(id, pathlib.Path("/proc/self/mounts").read_text())
        self.assertEqual(glob.glob(f"/sys/fs/cgroup/**/sluice-{id}*", recursive=True), [])

    # --- a whole life ---

    def test_a_job_delivers_what_the_bare_programs_do(self):
        with programs.Server(self.root) as server:
            bare = programs.train("--host", server.address, "-b", 8, "-j", 1, "--epochs", 2, "--seed", 3, "--no-val")[0]
        id = self.submit(self.trainer())
        offload_job("wait", id)
        self.assertEqual([one["digest"] for one in self.reports(id)], [one["digest"] for one in bare])
        shown = self.show(id)
        self.assertEqual((shown["state"], shown["attempts"]), ("succeeded", 1))
        self.assertEqual(list(shown["steps"]), list(store.STEPS))
        self.assertEqual({name: step["outcome"] for name, step in shown["steps"].items() if name in ("submit", "run", "release")},
                         {"submit": "done", "run": "done", "release": "done"})
        self.assertIn("stopping: answering what was accepted", offload_job("logs", id, "--role", "storage-0"))
        self.nothing_left(id)
        self.assertIn("succeeded", offload_job("list"))
        self.assertIn("look elsewhere", offload_job("show", id))

    def test_shards_replicas_and_follow(self):
        parts = programs.split(os.path.join(self.root, "train"), self.folder / "parts", 2)
        path = self.write(f"name: s\ndata: {{shards: [{parts[0]}, {parts[1]}]}}\nstorage: {{servers: 2}}\n"
                          f"compute: {{trainer: {{options: {TRAINER}}}}}\n")
        said = offload_job("submit", path, "--follow")
        self.assertEqual(said.count("listening on"), 4)
        self.assertEqual([one["samples"] for one in map(json.loads, (
            line.partition(": ")[2] for line in said.splitlines() if line.startswith("compute-0: {")))], [48, 48])

    def test_tls_and_tokens_by_reference(self):
        if not shutil.which("openssl"):
            self.skipTest("openssl is missing")
        subprocess.run([os.path.join(os.environ["SLUICE_SOURCE"], "scripts/dev-certs"), self.folder / "certs"], check=True,
                       capture_output=True)
        id = self.submit(self.job(f"{{secrets: certs, trainer: {{options: {TRAINER}}}}}", "storage: {secrets: certs}\n"))
        offload_job("wait", id)
        log = offload_job("logs", id, "--role", "storage-0")
        self.assertRegex(log, "(?i)tls")
        refused = self.submit(self.trainer(TRAINER.replace("}", ", retry-for: 1s}"), "storage: {secrets: certs}\n"))
        offload_job("wait", refused, code=1)

    def test_a_server_that_runs_elsewhere(self):
        with programs.Server(self.root) as server:
            path = self.write(f"name: e\nstorage: {{address: {server.address}}}\n"
                              f"compute: {{trainer: {{options: {TRAINER}}}}}\n")
            id = self.submit(path)
            offload_job("wait", id)
            self.assertEqual([one["samples"] for one in self.reports(id)], [48, 48])
            self.assertIsNone(server.process.poll())

    def test_mode_local_has_no_server(self):
        id = self.submit(self.job(f"{{trainer: {{mode: local, options: {TRAINER}}}}}"))
        offload_job("wait", id)
        self.assertEqual([one["mode"] for one in self.reports(id)], ["local", "local"])
        self.assertFalse(os.path.exists(store.Store().find(id).log_path("storage-0")))

    # --- commands ---

    def test_a_command_of_two_ranks(self):
        (self.folder / "code").mkdir()
        (self.folder / "code/go.sh").write_text('echo "$RANK $WORLD_SIZE $A ${SLUICE_HOST%:*}" > "$OUT/rank-$RANK"\n')
        path = self.job('{ranks: 2, command: [sh, go.sh]}', f"code: code\nenv: {{A: 7, OUT: {self.outputs}}}\n")
        offload_job("wait", self.submit(path))
        self.assertEqual([(self.outputs / f"rank-{i}").read_text() for i in (0, 1)],
                         ["0 2 7 127.0.0.1\n", "1 2 7 127.0.0.1\n"])

    def test_a_failure_is_tried_again_and_said(self):
        id = self.submit(self.command("echo x >> tries; exit 5", "retries: 2\n"))
        offload_job("wait", id, code=1)
        self.assertEqual((self.outputs / "tries").read_text(), "x\nx\nx\n")
        shown = self.show(id)
        self.assertEqual((shown["state"], shown["attempts"]), ("failed", 3))
        self.assertIn("compute-0 ended with exit code 5", shown["events"][-1]["text"])
        self.nothing_left(id)

    def test_a_retry_goes_on_from_the_checkpoint(self):
        script = ('if [ -n "$SLUICE_RESUME" ]; then cat "$SLUICE_RESUME" > resumed; '
                  'else echo half > "$SLUICE_CHECKPOINT"; kill -9 $$; fi')
        offload_job("wait", self.submit(self.command(script, "retries: 1\n")))
        self.assertEqual((self.outputs / "resumed").read_text(), "half\n")

    def test_a_server_that_ends_ends_the_job(self):
        id = self.submit(self.command(WAITS))
        record = self.await_state(id, "running")
        os.kill(record.last(state="running")["roles"]["storage-0"], signal.SIGKILL)
        offload_job("wait", id, code=1)
        self.assertIn("storage-0", record.last()["text"])
        self.nothing_left(id)

    def test_what_a_server_says_when_it_cannot_start(self):
        id = self.submit(self.job(f"{{trainer: {{options: {TRAINER}}}}}", data="/nowhere"))
        offload_job("wait", id, code=1)
        self.assertIn("storage-0 ended with exit code", self.show(id)["events"][-1]["text"])
        self.assertIn("/nowhere", offload_job("logs", id))

    def test_the_time_limit(self):
        id = self.submit(self.command(WAITS, "limits: {time: 200ms}\nretries: 3\n"))
        offload_job("wait", id, code=1)
        self.assertEqual(self.show(id)["attempts"], 1)
        self.assertIn("limits.time", self.show(id)["events"][-1]["text"])
        self.nothing_left(id)

    # --- control ---

    def test_cancel_leaves_nothing(self):
        child = "trap '' TERM; " + WAITS  # ignores SIGTERM, in a session of its own
        id = self.submit(self.command(f"setsid sh -c \"{child}\" & touch begun; wait"))
        self.await_file("begun")
        self.assertTrue(marked(id))
        offload_job("cancel", id)
        self.assertEqual(self.show(id)["state"], "cancelled")
        self.nothing_left(id)
        self.assertIn("is cancelled", offload_job("cancel", id, code=1))
        self.assertIn("cancelled", offload_job("resume", id, code=1))
        self.assertEqual(self.show(id)["attempts"], 1)

    def test_freeze_stops_processes_and_resume_starts_them(self):
        id = self.submit(self.command("while [ ! -e end ]; do echo x >> beats; sleep 0.01; done"))
        self.await_file("beats")
        self.await_state(id, "running")
        offload_job("pause", id, "--kind", "freeze")
        from jobs.engines import processes
        states = [processes.state(pid) for pid in marked(id)]
        self.assertTrue(set(states) <= set("TZD") and len(states) >= 2, states)
        size = (self.outputs / "beats").stat().st_size
        self.assertEqual(self.show(id)["state"], "paused")
        (self.outputs / "end").touch()
        self.assertEqual((self.outputs / "beats").stat().st_size, size)
        self.assertIn("only a running job", offload_job("pause", id, code=1))
        self.assertIn("is paused", offload_job("exec", id, "compute-0", "--", "true", code=1))
        offload_job("resume", id)
        offload_job("wait", id)
        self.assertEqual(self.show(id)["attempts"], 1)

    def test_a_frozen_job_is_cancelled(self):
        id = self.submit(self.command(WAITS))
        self.await_state(id, "running")
        offload_job("pause", id, "--kind", "freeze")
        offload_job("cancel", id)
        self.nothing_left(id)

    def test_checkpoint_and_resume_give_the_same_epochs(self):
        epochs = 60
        done = programs.run("offload_train", self.root, "--device", "cpu", "-a", "small_cnn", "--image-size", 16,
                            "--train-threads", 1, "-b", 8, "-j", 1, "--seed", 3, "--no-val", "--epochs", epochs,
                            "--json", code=None)
        if done.returncode == 1 and "SLUICE_ONEDNN" in done.stderr:
            self.skipTest("this build has no device cpu")
        bare = programs.reports(done.stdout)
        id = self.submit(self.trainer(MODEL % epochs))
        record = self.await_state(id, "running")
        while not os.path.exists(record.log_path("compute-0")) or not self.reports(id):
            time.sleep(0.02)
        offload_job("pause", id, code=None)
        if self.show(id)["state"] == "paused":  # the run may have been quicker
            self.nothing_left(id)
            offload_job("resume", id)
        offload_job("wait", id)
        reports = {one["epoch"]: one for one in self.reports(id) if one["first_sample"] == 0}
        whole = [epoch for epoch in reports if reports[epoch]["samples"] == 48]
        self.assertGreaterEqual(len(whole), epochs - 1)
        for epoch in whole:
            self.assertEqual((reports[epoch]["digest"], reports[epoch]["loss"]), (bare[epoch]["digest"], bare[epoch]["loss"]))
        self.assertEqual(self.reports(id)[-1]["epoch"], epochs - 1)
        again = offload_job("submit", self.folder / "job.yaml", code=1)
        self.assertIn("run.ckpt is there already", again)

    def test_exec_is_where_the_role_is(self):
        id = self.submit(self.command(WAITS, "env: {A: b c}\n"))
        self.await_state(id, "running")
        self.assertEqual(offload_job("exec", id, "compute-0", "--", "sh", "-c", "echo $A; pwd; touch here"),
                         f"b c\n{self.outputs}\n")
        self.assertTrue((self.outputs / "here").exists())
        offload_job("exec", id, "storage", "--", "sh", "-c", "exit 7", code=7)
        self.assertIn("no role 'x'", offload_job("exec", id, "x", "--", "true", code=1))
        if has_bwrap():
            self.assertEqual(offload_job("exec", id, "compute-0", "sh", "-c", f"echo x > {self.root}/x || echo refused"), "refused\n")
            inside = offload_job("exec", id, "compute-0", "--", "ls", "/dev").split()
            self.assertIn("null", inside)
            self.assertLessEqual(set(inside), {"console", "core", "fd", "full", "null", "ptmx", "pts", "random", "shm",
                                               "stderr", "stdin", "stdout", "tty", "urandom", "zero"})
            self.assertNotIn("supervisor", offload_job("exec", id, "compute-0", "--", "ps", "ax"))
        (self.outputs / "end").touch()
        offload_job("wait", id)
        self.assertIn("succeeded", offload_job("exec", id, "compute-0", "--", "true", code=1))

    def test_gpus_that_were_not_given_do_not_open(self):
        if not has_bwrap() or not os.path.exists("/dev/nvidia0"):
            self.skipTest("no GPU, or no bwrap")
        for gpus in (0, 1):
            opened = "for gpu in /dev/nvidia[0-9]*; do if ( : < $gpu ) 2>/dev/null; then echo $gpu; fi; done > opened"
            offload_job("wait", self.submit(self.job(json.dumps({"command": opened, "gpus": gpus}))))
            found = (self.outputs / "opened").read_text().split()
            self.assertEqual(len(found), gpus, found)

    def test_a_killed_supervisor_takes_the_roles_with_it_and_the_job_goes_on(self):
        id = self.submit(self.command(f"echo x >> tries; {WAITS}"))
        record = self.await_state(id, "running")
        self.await_file("tries")
        os.kill(record.last(state="starting")["pid"], signal.SIGKILL)
        while engines.find("local").state(record) != "lost":
            time.sleep(0.02)
        self.assertIn("lost: what ran it was killed", offload_job("show", id))
        (self.outputs / "end").touch()
        offload_job("resume", id)
        offload_job("wait", id)
        self.assertEqual((self.outputs / "tries").read_text(), "x\nx\n")
        self.assertEqual(self.show(id)["attempts"], 2)
        self.nothing_left(id)

    def test_a_supervisor_that_is_killed_at_any_time_runs_nothing_twice(self):
        seed = int(os.environ.get("SLUICE_TEST_SEED", "20260729"))
        rng, engine = random.Random(seed), engines.find("local")
        print("seed", seed)
        # flock: of two that run at once one says so.
        id = self.submit(self.command(f"flock --nonblock lock sh -c 'echo >> tries; {WAITS}' || echo >> twice"))
        record = store.Store().find(id)
        kills = int(os.environ.get("SLUICE_KILLS", "12"))
        with unittest.mock.patch.object(engine, "_wait"):  # resume() returns at once
            for attempt in range(1, kills + 1):
                while record.attempts() < attempt:
                    time.sleep(0.001)
                time.sleep(rng.uniform(0, 0.5))
                os.kill(record.last(state="starting")["pid"], signal.SIGKILL)
                while record.is_held():
                    time.sleep(0.001)
                self.assertEqual(engine.state(record), "lost")
                engine.resume(record)
        self.await_state(id, "running")
        (self.outputs / "end").touch()
        offload_job("wait", id)
        self.assertFalse((self.outputs / "twice").exists())
        self.nothing_left(id)

    def test_a_lost_job_is_cancelled(self):
        id = self.submit(self.command(WAITS))
        record = self.await_state(id, "running")
        os.kill(record.last(state="starting")["pid"], signal.SIGKILL)
        offload_job("cancel", id)
        self.nothing_left(id)
        self.assertEqual(self.show(id)["state"], "cancelled")

    def test_a_supervisor_that_is_told_to_end_pauses_the_job(self):
        id = self.submit(self.command(WAITS))
        record = self.await_state(id, "running")
        os.kill(record.last(state="starting")["pid"], signal.SIGTERM)
        offload_job("wait", id, code=1)
        shown = self.show(id)
        self.assertEqual(shown["state"], "paused")
        self.assertIn("will begin anew", shown["events"][-1]["text"])
        self.assertIn("no role 'x'", offload_job("logs", id, "--role", "x", code=1))
        self.nothing_left(id)

    def test_without_bwrap_the_job_runs_and_it_is_said(self):
        path = self.folder / "path"
        path.mkdir()
        for name in ("sh", "setpriv", "sleep", "touch", "setsid"):
            (path / name).symlink_to(shutil.which(name))
        env = {"PATH": f"{path}:{programs.BIN}"}
        id = self.submit(self.command("setsid sh -c 'while :; do sleep 1; done' & touch begun; wait"), env=env)
        self.await_file("begun")
        self.assertIn("bwrap is missing", json.dumps(self.show(id)["steps"]["limit"]))
        offload_job("cancel", id, env=env)
        self.nothing_left(id)

    # --- lending a GPU ---

    def lender(self, more="lend: {gpu: true, socket: lend/gpu}\n"):
        """A job that trains without end on the CPU, though it has a GPU, which it lends."""
        return self.write(f"name: lends\noutputs: runs\ndata: {{root: {self.root}}}\ncompute: {{gpus: 1, trainer: "
                          f"{{options: {MODEL % 1000000}}}}}\n{more}", "lender.yaml")

    def borrower(self, socket="lend/gpu"):
        return self.write(json.dumps({
            "name": "borrows", "outputs": "answers", "storage": {"address": "127.0.0.1:1"}, "compute": {
                "borrow": socket,
                "command": f"echo visible=$CUDA_VISIBLE_DEVICES; {os.environ['SLUICE_LEND_EXAMPLE']} $SLUICE_BORROW 5 1"}}),
            "borrower.yaml")

    def test_a_job_borrows_the_gpu_that_another_lends(self):
        path = self.folder / "path"  # without bwrap, which would want the GPU's device
        path.mkdir()
        for name in ("sh", "setpriv"):
            (path / name).symlink_to(shutil.which(name))
        env = {"PATH": f"{path}:{programs.BIN}", "CUDA_VISIBLE_DEVICES": "5"}
        self.assertRegex(offload_job("submit", self.borrower(), code=1), "compute.borrow: no job that runs lends")
        id = self.submit(self.lender(), env=env)
        while not (self.folder / "lend/gpu").exists():
            self.assertNotIn(self.show(id)["state"], store.ENDED)
            time.sleep(0.02)
        (self.folder / "link").symlink_to(self.folder / "lend")  # another name of the same socket
        other = self.submit(self.borrower("link/gpu"), env={**env, "CUDA_VISIBLE_DEVICES": "3,4"})
        offload_job("wait", other)
        said = offload_job("logs", other)
        self.assertIn("visible=5\n", said)
        self.assertIn("5 requests, ", said)
        self.assertIn("lent at", offload_job("logs", id))
        offload_job("cancel", id)
        self.assertFalse((self.folder / "lend/gpu").exists())
        self.assertRegex(offload_job("submit", self.borrower(), code=1), "compute.borrow: no job that runs lends")

    def test_both_see_the_socket_in_namespaces_of_their_own(self):
        if not has_bwrap():
            self.skipTest("bwrap is missing")
        from jobs.engines import places
        lender, borrower = spec.load(self.lender()), spec.load(self.borrower())
        with unittest.mock.patch.object(places, "gpus_of", return_value=[]):  # this machine may have none
            place = places.find(lender, store.Store().create(lender, "elsewhere"))
            place.prepare()
            words = [str(programs.BIN / "offload_train"), self.root, "--device", "none", "-b", "8", "-j", "1", "--no-val",
                     "--epochs", "1000000", *places.lends(lender, place.record)]
            with subprocess.Popen(place.wrap("compute-0", words, {}), stdout=subprocess.DEVNULL) as trainer:
                while not (self.folder / "lend/gpu").exists():
                    self.assertIsNone(trainer.poll())
                    time.sleep(0.02)
                other = places.find(borrower, store.Store().create(borrower, "elsewhere"))
                other.prepare()
                words = [os.environ["SLUICE_LEND_EXAMPLE"], str(self.folder / "lend/gpu"), "5", "1"]
                said = subprocess.run(other.wrap("compute-0", words, {}), stdout=subprocess.PIPE, text=True, check=True)
                self.assertIn("5 requests, ", said.stdout)
                trainer.terminate()
        for record in store.Store().records():
            record.state_is("cancelled")

    def test_a_lender_s_socket_is_an_option_and_a_variable(self):
        with unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0"}):
            said = offload_job("render", self.lender())
            self.assertIn(f"--lend {self.folder}/lend/gpu", said)
            self.assertRegex(offload_job("render", self.lender("lend: {gpu: true}\n")), r"--lend /\S+/lends-ID/lend/gpu\b")
            self.assertNotIn("--lend", offload_job("render", self.lender("")))
            command = self.job("{command: python train.py, gpus: 1}", "lend: {gpu: true, socket: /run/x/gpu}\n")
            said = offload_job("render", command)
            self.assertIn("export SLUICE_LEND=/run/x/gpu\n", said)
            self.assertIn(f"export SLUICE_BORROW={self.folder}/lend/gpu\n", offload_job("render", self.borrower()))

    def test_a_container_gets_the_folder_of_the_socket(self):
        from jobs.engines import places, podman
        lender, borrower = (dataclasses.replace(spec.load(path), image="sluice") for path in (self.lender(), self.borrower()))
        folder = self.folder / "lend"
        folder.mkdir()
        with unittest.mock.patch.object(places, "lender_gpus", return_value=[5]):
            words = podman.Podman(borrower, store.Record("/r", "borrows-1")).wrap("compute-0", ["x"], {"A": "b"})
        self.assertIn(f"--volume {folder}:{folder}:ro ", " ".join(words))
        self.assertIn("--device nvidia.com/gpu=5 ", " ".join(words))
        words = podman.Podman(lender, store.Record("/r", "lends-1")).wrap("compute-0", ["x"], {})
        self.assertIn(f"--volume {folder}:{folder} ", " ".join(words))

    # --- what starts nothing ---

    def test_dry_run_and_render_start_nothing(self):
        path = self.trainer()
        said = offload_job("submit", path, "--dry-run")
        self.assertEqual(offload_job("render", path), said)
        self.assertIn(f"offload_server --root {self.root} --listen 127.0.0.1:0", said)
        self.assertIn("offload_train --host ADDRESS-OF-storage-0 --json --device none", said)
        offload_job("render", path, "--out", self.folder / "made")
        self.assertEqual(sorted(os.listdir(self.folder / "made")), ["compute-0.sh", "storage-0.sh"])
        for file in (self.folder / "made").iterdir():
            subprocess.run(["sh", "-n", file], check=True)
        self.assertEqual(offload_job("list"), "")
        self.assertFalse(self.outputs.exists())
        other = store.Store().create(spec.load(path), "elsewhere")
        self.assertRegex(offload_job("list"), f"{other.id} +elsewhere +submitted")
        other.state_is("cancelled")

    def test_run_takes_a_tenth(self):
        said = offload_job("run", "--local", self.trainer())
        self.assertIn('"samples":4,', said)
        said = offload_job("run", self.command("echo n=$SLUICE_LIMIT_SAMPLES"), "--limit-samples", "7")
        self.assertIn("compute-0: n=7\n", said)

    def test_what_this_engine_cannot_do_is_refused(self):
        engine = engines.find("local")
        for more, words in (("priority: 3\n", "priority: .*no queue"), ("queue: x\n", "queue: .*no queue"),
                            ("storage: {placement: shared}\n", "shared is a DaemonSet"),
                            ("lend: {cpu: 0.5}\n", "lend.cpu: .*no CPUs")):
            with self.assertRaisesRegex(JobError, words):
                engine.check(spec.load(self.command("true", more)))
        with self.assertRaisesRegex(JobError, "compute.borrow: no job that runs lends a GPU at .*/gpu0"):
            engine.check(spec.load(self.job("{command: x, borrow: gpu0}")))
        with self.assertRaisesRegex(JobError, "lend.socket: .*xxx has more than 107 bytes"):
            engine.check(spec.load(self.job("{command: x, gpus: 1}", f"lend: {{gpu: true, socket: /{'x' * 108}}}\n")))
        with self.assertRaisesRegex(JobError, "compute.gpus: 99 wanted"):
            engine.check(spec.load(self.job("{command: x, gpus: 99}")))
        with self.assertRaisesRegex(JobError, "mig"):
            engine.check(spec.load(self.job("{command: x, gpu_share: {mig: 1g.10gb}}")))
        with self.assertRaisesRegex(JobError, "no engine 'pbs': local"):
            engines.find("pbs")

    def test_limits_without_cgroup_v2_are_refused_in_words(self):
        from jobs.engines import cgroups
        if not cgroups.why_no_limits({"cores"}):
            self.skipTest("there is a cgroup v2 here: jobs/limits tests it")
        self.assertRegex(offload_job("submit", self.job("{command: x, cores: 0.5}"), code=1),
                         r"compute.cores: there is no cgroup v2 .*leave the limit out")
        self.assertEqual(offload_job("list"), "")


if __name__ == "__main__":
    support.main()
