"""Ceph's gateway for S3 in front of a cluster of one monitor and one store, in memory: what a bucket of
Ceph answers, without a machine of Ceph.

    with RadosGateway(folder, "KEY", "SECRET") as gateway:
        client(gateway.url)

Needs Debian's radosgw, ceph-mon, ceph-osd and ceph-common; raises Unavailable without.  It takes some ten
seconds to start.
"""
import os
import pathlib
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
import uuid

PROGRAMS = ("ceph", "ceph-authtool", "ceph-mon", "ceph-osd", "monmaptool", "radosgw", "radosgw-admin")
STEP_S = 120  # of every step: a hang is an error with a name

CONFIG = """
[global]
fsid = {fsid}
mon initial members = a
mon host = {monitor}
public addr = 127.0.0.1
keyring = {folder}/keyring
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 1073741824
mon allow pool size one = true
mon data avail crit = 1
mon data = {folder}/mon
osd data = {folder}/osd
rgw data = {folder}
run dir = {folder}
log file = {folder}/$name.log
admin socket = {folder}/$name.asok
pid file = {folder}/$name.pid
"""


class Unavailable(Exception):
    """Why it cannot be started here."""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class RadosGateway:
    def __init__(self, folder, key, secret):
        missing = [name for name in PROGRAMS if not shutil.which(name)]
        if missing:
            raise Unavailable(f"no {', '.join(missing)} (Debian's radosgw, ceph-mon and ceph-osd)")
        self.folder = pathlib.Path(folder)
        self.keys = (key, secret)
        self.daemons = []
        self.first, self.second, port = free_ports(3)
        self.url = f"http://127.0.0.1:{port}"

    def run(self, *command):
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                  timeout=STEP_S, env=self.env)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[0]} hangs") from None
        if done.returncode != 0:
            raise Unavailable(f"{command[0]} ended with {done.returncode}: {done.stderr[-1000:]}")

    def spawn(self, *command):
        log = open(self.folder / f"{command[0]}.out", "w")
        self.daemons.append(subprocess.Popen([*map(str, command), "-f"], stdout=log, stderr=log,
                                             env=self.env))
        log.close()

    def make_keyring(self):
        ring = self.folder / "keyring"
        every = ("--cap", "mon", "allow *", "--cap", "osd", "allow *", "--cap", "mgr", "allow *")
        self.run("ceph-authtool", "--create-keyring", ring, "--gen-key", "-n", "mon.", "--cap", "mon",
                 "allow *")
        for name in ("client.admin", "client.rgw", "osd.0"):
            self.run("ceph-authtool", ring, "--gen-key", "-n", name, *every)
        return ring

    def start(self):
        fsid, store = uuid.uuid4(), uuid.uuid4()
        monitor = f"[v2:127.0.0.1:{self.first},v1:127.0.0.1:{self.second}]"
        config = self.folder / "ceph.conf"
        config.write_text(CONFIG.format(fsid=fsid, monitor=monitor, folder=self.folder))
        self.env = {**os.environ, "CEPH_CONF": str(config)}
        for name in ("mon", "osd"):
            (self.folder / name).mkdir()
        ring, monmap = self.make_keyring(), self.folder / "monmap"
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", monitor, monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", ring)
        self.spawn("ceph-mon", "-i", "a")
        self.run("ceph", "osd", "new", store, "0")
        self.run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", store)
        self.spawn("ceph-osd", "-i", "0")
        self.run("radosgw-admin", "user", "create", "--uid=tester", "--display-name=tester",
                 f"--access-key={self.keys[0]}", f"--secret-key={self.keys[1]}")
        self.spawn("radosgw", "-n", "client.rgw", "--keyring", ring, "--rgw-frontends",
                   f"beast endpoint={self.url.split('//')[1]}")
        self.wait()

    def wait(self):
        until = time.monotonic() + STEP_S
        while True:
            try:
                urllib.request.urlopen(self.url, timeout=10).close()
                return
            except urllib.error.HTTPError:
                return
            except OSError:
                ended = [one.args[0] for one in self.daemons if one.poll() is not None]
                if ended or time.monotonic() > until:
                    raise Unavailable(f"the gateway does not answer; ended: {ended}") from None
                time.sleep(0.2)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *unused):
        for daemon in reversed(self.daemons):
            daemon.kill()
            daemon.wait()
