#!/usr/bin/env python3
"""The batch scripts of packaging/slurm under Slurm itself: slurmctld and two slurmd of this machine, without accounts
(auth/none), as nodes 127.0.0.1 and 127.0.0.2.  Skipped where Slurm is not installed."""
import getpass
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from programs import BIN, Port

SLURM = pathlib.Path(os.environ["SLUICE_SOURCE"]) / "packaging/slurm"
NODES = ("127.0.0.1", "127.0.0.2")
CONF = """
ClusterName=sluice
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/controller.pid
SlurmdPidFile={folder}/%n.pid
SlurmctldLogFile={folder}/controller.log
SlurmdLogFile={folder}/%n.log
SlurmctldPort={controller}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
PartitionName=all Nodes=ALL Default=YES State=UP
"""

TRAINS = ("--device", "cpu", "-a", "small_cnn", "--image-size", 16, "--train-threads", 1, "-j", 1, "--json", "-b", 8,
          "--epochs", 3)


def missing():
    for program in ("slurmctld", "slurmd", "sbatch", "srun"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            return f"{program} is not installed"
    return None


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        ports = [Port() for _ in range(3)]
        conf = cls.folder / "slurm.conf"
        text = CONF.format(host=socket.gethostname(), user=getpass.getuser(), folder=folder.name, controller=ports[0])
        for node, port in zip(NODES, ports[1:]):
            text += f"NodeName={node} NodeAddr={node} Port={port} CPUs=1 State=UNKNOWN\n"
        conf.write_text(text)
        (cls.folder / "state").mkdir()
        cls.env = {**os.environ, "SLURM_CONF": str(conf),
                   "PATH": f"{BIN}:{os.environ['PATH']}:/usr/sbin"}
        for port in ports:
            port.close()
        cls.start("slurmctld", "-D", "-i", "-f", conf)
        for node in NODES:
            (cls.folder / f"spool-{node}").mkdir()
            cls.start("slurmd", "-D", "-N", node, "-f", conf)
        cls.run_tool("offload_dataset", "synth", cls.folder / "set", "-n", "64")
        for state in cls.looks("sinfo", "--noheader", "--format", "%T %D"):
            if state.strip() == f"idle {len(NODES)}":
                return

    @classmethod
    def start(cls, *command):
        log = open(cls.folder / "daemons.log", "ab")
        cls.addClassCleanup(log.close)
        process = subprocess.Popen(list(map(str, command)), env=cls.env, stdout=log, stderr=log)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)

    @classmethod
    def run_tool(cls, *command):
        done = subprocess.run(list(map(str, command)), env=cls.env, cwd=cls.folder, capture_output=True, text=True,
                              check=False)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    @classmethod
    def looks(cls, *command):
        """What the command prints, again and again, until ctest's limit."""
        while True:
            done = subprocess.run(command, env=cls.env, capture_output=True, text=True, check=False)
            yield done.stdout
            time.sleep(0.1)

    def submit(self, *words):
        return re.search(r"batch job (\d+)", self.run_tool("sbatch", *words)).group(1)

    def ended(self, job):
        """The job's state once it has ended, with its log."""
        for text in self.looks("scontrol", "show", "job", job):
            state = re.search(r"JobState=(\w+)", text).group(1)
            if state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
                return state, re.search(r"StdOut=(.*)", text).group(1)

    def test_one_job_with_both_roles(self):
        with Port() as port:
            job = self.submit("--nodes=2", f"--export=ALL,SLUICE_PORT={port}", SLURM / "sluice.sbatch",
                              self.folder / "set", "offload_train", "--device", "none", "--json")
            state, log = self.ended(job)
        text = pathlib.Path(log).read_text()
        self.assertEqual(state, "COMPLETED", text)
        self.assertIn('"samples":64,', text)
        self.assertIn("stopping: answering what was accepted", text)

    def test_a_requeued_job_goes_on_from_its_checkpoint(self):
        epochs = []
        with Port() as port:
            self.start("offload_server", "--root", self.folder / "set", "--listen", f"127.0.0.1:{port}")
            job = self.submit(SLURM / "train.sbatch", f"127.0.0.1:{port}", *TRAINS)
            log = self.folder / f"sluice-train-{job}.log"
            checkpoint = self.folder / f"sluice-{job}.ckpt"
            for text in self.looks("scontrol", "show", "job", job):
                self.assertNotIn("JobState=FAILED", text, log.read_text() if log.exists() else "")
                if checkpoint.exists():
                    break
            self.run_tool("scontrol", "requeue", job)
            for text in self.looks("scontrol", "show", "job", job):
                if "JobState=PENDING" in text:
                    break
            self.run_tool("scontrol", "update", f"jobid={job}", "starttime=now")  # it would wait for two minutes
            state, _ = self.ended(job)
        text = log.read_text()
        self.assertEqual(state, "COMPLETED", text)
        for line in text.splitlines():
            if line.startswith("{"):
                epochs.append(json.loads(line)["epoch"])
        self.assertEqual(sorted(set(epochs)), [0, 1, 2], text)
        self.assertIn("going on at epoch", text)


if __name__ == "__main__":
    why = missing()
    if why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
    unittest.main()
