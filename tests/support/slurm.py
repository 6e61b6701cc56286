"""Slurm itself: slurmctld and two slurmd of this machine, without accounts (auth/none), as nodes 127.0.0.1 and 127.0.0.2."""
import getpass
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
import unittest

from programs import BIN, Port

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
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=5
PartitionName=all Nodes=ALL Default=YES State=UP
"""


def missing():
    for program in ("slurmctld", "slurmd", "sbatch", "srun"):
        if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin"):
            return f"{program} is not installed"
    return None


class Cluster(unittest.TestCase):
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
