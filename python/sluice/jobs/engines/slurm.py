"""Engine slurm: one heterogeneous job of Slurm, with the servers in its first component and the training
in its second.  The batch script starts both, and ends the servers when the training has ended.

https://slurm.schedmd.com/heterogeneous_jobs.html
"""
import math
import os
import re
import shlex
import subprocess
import time

from .. import JobError, commands
from . import refuse_claims, remote

_STATES = {"PENDING": "queued", "CONFIGURING": "queued", "REQUEUED": "queued", "REQUEUE_HOLD": "queued",
           "RESIZING": "running", "RUNNING": "running", "COMPLETING": "running", "STAGE_OUT": "running",
           "SUSPENDED": "paused", "STOPPED": "paused", "COMPLETED": "succeeded", "CANCELLED": "cancelled"}
_TEXTS = {"OUT_OF_MEMORY": "it needed more memory than its limit (storage.memory, compute.memory)",
          "TIMEOUT": "its time limit is over (limits.time)", "NODE_FAIL": "a node failed"}
_FIRST = """\
#!/usr/bin/env bash
# Made by offload_job.  sbatch SCRIPT WORD... adds words to the training's command.
# shellcheck disable=SC2016,SC2317 # of what other shells expand, and what traps call
"""
_SECRETS = """
# secrets FOLDER FILE:OPTION...: adds to words the options of files that are there.
secrets() {
    local folder=$1 pair
    shift
    for pair; do
        [ ! -e "$folder/${pair%%:*}" ] || words+=("${pair#*:}" "$folder/${pair%%:*}")
    done
}
"""
_STOP = """\
    # scancel, as a signal to srun itself kills the step at once.  A server answers first what it has accepted.
    scancel --signal=TERM "$SLURM_JOB_ID" || kill "${servers[@]}" || true
    wait "${servers[@]}" || true
"""
_WAIT = """
# wait_for I: until server I answers.
wait_for() {
    until (exec 3<>"/dev/tcp/${nodes[$1]}/$port") 2>/dev/null; do
        kill -0 "${servers[$1]}" 2>/dev/null || { echo "storage-$1 has ended before the training began" >&2; exit 1; }
        sleep 1
    done
}
"""
_RUN = """
# The training writes a checkpoint and ends: before a time limit, and for offload_job pause.
ask() {
    is_asked=1
    until squeue --noheader --steps --jobs "$job" --format %j | grep -q '^compute'; do
        kill -0 "$training" 2>/dev/null || return 0
        sleep 1
    done
    scancel --signal=TERM "$job"
}
is_asked='' again=()
trap ask USR1 TERM
trap 'echo "the time limit is near (limits.time): a checkpoint, and the end" >&2; ask' USR2

for attempt in $(seq 0 {retries}); do
    [ ! -e "$checkpoint" ] || {resume}
    {srun} &
    training=$! code=0
    wait "$training" || code=$?
    while kill -0 "$training" 2>/dev/null; do # a signal came
        code=0
        wait "$training" || code=$?
    done
    if [ "$code" -eq 0 ] || [ -n "$is_asked" ]; then break; fi
    echo "attempt $attempt ended with $code" >&2
done
exit "$code"
"""
_RANK = 'export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS {}; exec "$@"'


def _quoted(words, variables=None):
    """Words for a shell; those that are in variables become their texts there, as they are."""
    return " ".join((variables or {}).get(str(word), shlex.quote(str(word))) for word in words)


def _time(seconds):
    seconds = max(60, math.ceil(seconds))
    return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


class Engine(remote.Remote):
    name = "slurm"

    def check(self, job):
        compute, storage = job.compute, job.storage
        refuse_claims(job)
        self.refuse(
            job,
            ("storage.placement", storage.placement == "shared",
             "shared is a DaemonSet of engine kubernetes; here give the address of a server that runs, or with-job"),
            ("storage.io_weight", storage.io_weight, "Slurm has no such limit; leave it out"),
            ("compute.io_weight", compute.io_weight, "Slurm has no such limit; leave it out"),
            ("compute.memory", compute.memory and compute.ranks > 1 and not compute.cores,
             "with several ranks Slurm counts memory by core: give compute.cores, too"),
            ("queue", job.queue and not re.fullmatch(r"[\w.,-]+", job.queue), f"{job.queue!r} is not a partition's name"),
            ("priority", job.priority is not None and job.priority < 1, "Slurm's priorities begin at 1"))
        if job.image:
            return [f"image: the programs of Slurm's nodes run, not those of {job.image}"]
        return []

    # --- the script ---

    def render(self, job):
        return {f"{job.name}.sbatch": self._script(job, None)}

    def _script(self, job, folder):
        """The batch script; `folder` is the record's, where logs go, None for one log of all."""
        has_servers = job.storage.placement == "with-job"
        num_servers = len(job.data.roots) * job.storage.servers if has_servers else 0
        return (_FIRST + self._head(job, num_servers) + "set -euo pipefail\n"
                + self._body(job, folder, num_servers))

    @staticmethod
    def _head(job, num_servers):
        def component(role, nodes):
            found = nodes
            if role.cores:
                found.append(f"--cpus-per-task={math.ceil(role.cores)}")
            if role.memory:
                mib = math.ceil(role.memory / 2 ** 20)
                found.append(f"--mem={mib}M" if role is job.storage or job.compute.ranks == 1 else
                             f"--mem-per-cpu={math.ceil(mib / math.ceil(role.cores))}M")
            if job.queue:
                found.append(f"--partition={job.queue}")
            if job.time_s:
                found.append(f"--time={_time(job.time_s)}")
            if job.priority is not None:
                found.append(f"--priority={job.priority}")
            return found

        ranks, compute = job.compute.ranks, job.compute
        gpus = [f"--gpus-per-task={compute.mig}:1"] if compute.mig else \
            [f"--gpus-per-task={compute.gpus}"] if compute.gpus else []
        nodes = [f"--ntasks={ranks}"]
        if compute.mps:  # it is counted by node
            nodes, gpus = [f"--nodes={ranks}", "--ntasks-per-node=1"], [f"--gres=mps:{compute.mps}"]
        training = component(compute, nodes + gpus)
        first = [f"--job-name={job.name}", "--output=%x-%j.log", "--open-mode=append",
                 "--requeue" if job.retries and not num_servers else "--no-requeue"]
        if job.time_s:
            first.append(f"--signal=B:USR2@{int(min(60, job.time_s / 2))}")
        lines = first + (component(job.storage, [f"--nodes={num_servers}", "--ntasks-per-node=1"]) if num_servers
                         else training)
        text = "".join(f"#SBATCH {line}\n" for line in lines)
        if num_servers:
            text += "#SBATCH hetjob\n" + "".join(f"#SBATCH {line}\n" for line in training)
        return text

    @staticmethod
    def _output(folder, name):
        """Options of srun: a log for each role, or all in that of the job."""
        if not folder:
            return ["--label"]
        return [f"--output={folder.replace('%', '%%')}/{name}.log", "--open-mode=append"]

    def _body(self, job, folder, num_servers):
        text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in sorted(job.env.items()))
        if job.storage.secrets or job.compute.secrets:
            text += _SECRETS
        ending = _STOP if num_servers else ""
        if folder:  # Slurm forgets soon how it ended
            ending += f"    echo $code >{shlex.quote(folder + '/exit')}\n"
        if num_servers:
            text += ('\nmapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST_HET_GROUP_0")\n'
                     "port=${SLUICE_PORT:-$((20000 + SLURM_JOB_ID % 6000))}\nservers=()\n")
        if ending:
            text += "\nat_end() {\n    local code=$?\n" + ending + "}\ntrap at_end EXIT\n"
        if num_servers:
            text += _WAIT
            for i in range(num_servers):
                text += self._server(job, folder, i)
            text += "\nfor i in \"${!nodes[@]}\"; do\n    wait_for \"$i\"\ndone\n"
            hosts = [",".join(f"${{nodes[{shard * job.storage.servers + replica}]}}:$port"
                              for replica in range(job.storage.servers)) for shard in range(len(job.data.roots))]
        else:
            hosts = [shlex.quote(address) for address in job.storage.addresses]
        text += "\n" + ("job=$SLURM_JOB_ID_HET_GROUP_1\n" if num_servers else "job=$SLURM_JOB_ID\n")
        text += f"outputs={shlex.quote(job.path(job.outputs)) if job.outputs else '$PWD'}\n"
        text += f'checkpoint=$outputs/{shlex.quote(job.checkpoint.file)}\nmkdir -p "$(dirname "$checkpoint")"\n'
        return text + self._training(job, folder, hosts, num_servers)

    def _server(self, job, folder, i):
        words = commands.server(job, i // job.storage.servers, "\0listen")
        if not job.storage.secrets and "insecure" not in job.storage.options:
            words.append("--insecure")
        text = "\nwords=(" + _quoted(words, {"\0listen": f'"${{nodes[{i}]}}:$port"'}) + ")\n"
        if job.storage.secrets:
            pairs = [f"{name}:{flag}" for name, flag in commands.SERVER_SECRETS]
            text += f"secrets {_quoted([job.path(job.storage.secrets), *pairs])}\n"
        srun = ["srun", "--het-group=0", "--nodes=1", "--ntasks=1", "\0node", f"--job-name=storage-{i}"]
        if job.storage.cores:
            srun.append(f"--cpus-per-task={math.ceil(job.storage.cores)}")
        srun += self._output(folder, f"storage-{i}")
        return text + _quoted(srun, {"\0node": f'--nodelist="${{nodes[{i}]}}"'}) + ' "${words[@]}" &\nservers+=($!)\n'

    def _training(self, job, folder, hosts, num_servers):
        compute, text = job.compute, ""
        hosts = {f"\0host{i}": f'"{host}"' if num_servers else host for i, host in enumerate(hosts)}
        variables = {**hosts, "\0checkpoint": '"$checkpoint"'}
        if job.has_trainer:
            words = commands.trainer(job, list(hosts), "\0checkpoint")
            resume = 'again=(--resume "$checkpoint")'
        else:
            words, resume = commands.words_of(compute.command), 'export SLUICE_RESUME="$checkpoint"'
            env = commands.environment(job, [], "\0checkpoint")
            text += "".join(f"export {name}={_quoted([value], variables)}\n" for name, value in sorted(env.items())
                            if name not in job.env)
            if hosts:
                text += "export SLUICE_HOST=" + "' '".join(hosts.values()) + "\n"
        if job.has_trainer and compute.mps:
            text += f"export CUDA_MPS_ACTIVE_THREAD_PERCENTAGE={compute.mps}\n"
        text += f"words=({_quoted(words, variables)})\n"
        if compute.secrets and job.has_trainer:
            secrets = job.path(compute.secrets)
            pairs = [f"{name}:{flag}" for name, flag in commands.CLIENT_SECRETS]
            text += f"secrets {_quoted([secrets, *pairs])}\n[ ! -e {shlex.quote(secrets)}/ca.pem ] || words+=(--tls)\n"
        text += "words+=({}\"$@\")\n".format("sh " if isinstance(compute.command, str) else "")
        srun = ["srun"] + (["--het-group=1"] if num_servers else []) + [
            f"--ntasks={compute.ranks}", "--kill-on-bad-exit=1", "--job-name=compute"]
        if compute.cores:
            srun.append(f"--cpus-per-task={math.ceil(compute.cores)}")
        if job.code:
            srun.append(f"--chdir={job.path(job.code)}")
        srun += self._output(folder, "compute-%t")
        if compute.ranks > 1:  # as torchrun sets them
            group = "_HET_GROUP_1" if num_servers else ""
            text += f'MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST{group}" | head -n 1)\n' \
                    "export MASTER_ADDR MASTER_PORT=$((26000 + SLURM_JOB_ID % 6000))\n"
            place = "LOCAL_RANK=0 LOCAL_WORLD_SIZE=1" if commands.has_own_gpus(job) else "LOCAL_RANK=$SLURM_LOCALID"
            srun += ["bash", "-c", _RANK.format(place), "rank"]
        run = _RUN.replace("{retries}", str(job.retries)).replace("{resume}", resume)
        return text + run.replace("{srun}", _quoted(srun) + ' "${words[@]}" "${again[@]}"')

    # --- the cluster ---

    def start(self, record):
        job = record.job()
        script = record.path("job.sbatch")
        if os.path.exists(record.path("exit")):
            os.remove(record.path("exit"))
        with open(script, "w", encoding="utf-8") as file:
            file.write(self._script(job, record.folder))
        outputs = job.path(job.outputs) if job.outputs else record.path("outputs")
        os.makedirs(outputs, exist_ok=True)
        said = remote.run("sbatch", "--parsable", f"--job-name={record.id}", f"--chdir={outputs}",
                          f"--output={record.log_path('supervisor').replace('%', '%%')}", script, program="Slurm")
        number = said.strip().split(";")[0]
        record.append("slurm", number=number)
        return f"as Slurm's job {number}"

    def _number(self, record):
        """Slurm's number of the job; "" if it has none."""
        events = record.events()
        begun = max((i for i, event in enumerate(events) if event.get("state") == "starting"), default=0)
        for event in reversed(events[begun:]):
            if event["event"] == "slurm":
                return event["number"]
        # offload_job was killed after sbatch.
        number = remote.run("squeue", "--noheader", f"--name={record.id}", "--format=%i", program="Slurm").split("\n")[0]
        number = number.split("+")[0].strip()
        if number:
            record.append("slurm", number=number)
        return number

    def look(self, record):
        number = self._number(record)
        if not number:
            return remote.Look(None)
        said = remote.run("squeue", "--noheader", "--states=all", f"--jobs={number}", "--format=%i|%T|%N|%r",
                          program="Slurm", unknown="Invalid job id")
        rows = [line.split("|") for line in said.splitlines() if line.count("|") == 3]
        if not rows:
            return self._forgotten(record, number)
        state, reason = rows[0][1], rows[0][3]
        nodes = ", ".join(filter(None, (row[2] for row in rows)))
        if any(row[1] == "COMPLETING" for row in rows):
            state = "COMPLETING"
        found = _STATES.get(state, "failed")
        if found == "cancelled" and os.path.exists(record.path("exit")):
            nodes = nodes or "?"
        return remote.Look(found, self._words(record, state, reason) if found != "succeeded" else "", nodes)

    @staticmethod
    def _words(record, state, reason):
        if state in ("PENDING", "RUNNING", "SUSPENDED", "CANCELLED", "CONFIGURING", "COMPLETING"):
            return "" if reason in ("None", "") else f"Slurm: {reason}"
        return _TEXTS.get(state, f"Slurm: {state}, {reason}") + f"; its logs: offload_job logs {record.id}"

    @staticmethod
    def _forgotten(record, number):
        """Slurm shows ended jobs for MinJobAge (300 s); after that its accounting, if there is some, and what the
        script wrote know how it ended."""
        said = remote.run("sacct", "--noheader", "--parsable2", "--allocations", f"--jobs={number}", "--format=State",
                          check=False, program="Slurm").split()
        if said:
            state = said[0].rstrip("+")
            return remote.Look(_STATES.get(state, "failed"), _TEXTS.get(state, f"Slurm: {state}"), "known no longer")
        try:
            with open(record.path("exit"), encoding="ascii") as file:
                code = file.read().strip()
        except FileNotFoundError:
            return remote.Look(None)
        return remote.Look("succeeded" if code == "0" else "failed", "" if code == "0" else f"exit code {code}",
                           "known no longer")

    def prepared(self, job):
        limits = [f"{name}.{field}" for name, role in (("storage", job.storage), ("compute", job.compute))
                  for field in ("cores", "memory") if getattr(role, field)]
        return {"pull": ("skipped", "the programs of the nodes run"),
                "mount": ("skipped", "the roles see the nodes' file systems"),
                "limit": ("done" if limits else "skipped", f"by Slurm: {', '.join(limits)}" if limits else
                          "none is asked for but those of Slurm")}

    def logs(self, record, role=None, follow=False):
        places = {}
        while True:
            has_ended = self.state(record) not in ("queued", "starting", "running", "paused") or (
                record.last().get("kind") == "checkpoint")
            names = [role] if role else sorted(name[:-4] for name in os.listdir(record.folder) if name.endswith(".log"))
            for name in names:
                if not os.path.exists(record.log_path(name)):
                    continue
                with open(record.log_path(name), "rb") as file:
                    file.seek(places.get(name, 0))
                    data = file.read()
                whole = len(data) if has_ended or not follow else data.rfind(b"\n") + 1
                places[name] = places.get(name, 0) + whole
                for line in data[:whole].decode("utf-8", "replace").splitlines():
                    yield name, line
            if has_ended or not follow:
                return
            time.sleep(remote.LOOK_S / 4)

    def freeze(self, record, is_frozen):
        remote.run("scontrol", "suspend" if is_frozen else "resume", self._number(record), program="Slurm")

    def ask_for_checkpoint(self, record):
        remote.run("scancel", "--batch", "--signal=USR1", self._number(record), program="Slurm")

    def stop(self, record):
        number = self._number(record)
        if not number:
            return
        remote.run("scancel", number, program="Slurm")
        while self.look(record).state in ("queued", "running", "paused"):
            time.sleep(remote.LOOK_S / 4)

    def exec(self, record, role, argv):
        job = record.job()
        if self.state(record) != "running":
            raise JobError(f"job {record.id} is {record.recorded_state()}: nothing of it runs")
        match = re.fullmatch(r"(storage|compute)(?:-(\d+))?", role)
        number, index = self._number(record), int(match[2] or 0) if match else 0
        if not match or (match[1] == "storage" and job.storage.placement != "with-job"):
            raise JobError(f"job {record.id} has no role {role!r}: compute-0, ..., storage-0, ...")
        group = None if job.storage.placement != "with-job" else "0" if match[1] == "storage" else "1"
        said = remote.run("squeue", "--noheader", f"--jobs={number}", "--format=%i %N", program="Slurm")
        names = [line.split()[-1] for line in said.splitlines() if group is None or f"+{group} " in line]
        nodes = remote.run("scontrol", "show", "hostnames", names[0], program="Slurm").split() if names else []
        if not nodes or (match[1] == "storage" and index >= len(nodes)) or index >= max(len(nodes), job.compute.ranks):
            raise JobError(f"job {record.id} has no role {role!r}")
        node = nodes[index] if match[1] == "storage" else nodes[index * len(nodes) // job.compute.ranks]
        terminal = ["--pty"] if os.isatty(0) else []
        component = [f"--het-group={group}"] if group else []
        return subprocess.run(["srun", "--overlap", *terminal, f"--jobid={number}", *component, "--nodes=1", "--ntasks=1",
                               f"--nodelist={node}", *argv], check=False).returncode
