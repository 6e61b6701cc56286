#!/usr/bin/env python3
"""Engine kubernetes: the documents, by their structure, and what the engine asks kubectl for.  kubectl is a program of
this test, as no API server is reached; cli/packaging has the documents checked by Kubernetes' schemas."""
import json
import os
import subprocess
from unittest import mock

import support
import yaml
from jobs import JobError, engines, spec, store
from jobs.engines import remote
from support import offload_job

# Keeps what was applied, and says of it what the file `cluster` of its folder says: {"conditions": [...], "pods": [...]}.
KUBECTL = r"""#!/usr/bin/env python3
import json, os, sys
words, folder = sys.argv[1:], os.path.dirname(os.path.abspath(__file__))
with open(f"{folder}/calls", "a") as file:
    file.write(json.dumps(words) + "\n")
try:
    cluster = json.load(open(f"{folder}/cluster"))
except FileNotFoundError:
    cluster = None
if words[0] == "apply":
    json.dump({"conditions": [], "pods": []}, open(f"{folder}/cluster", "w"))
elif words[0] == "delete" and words[1] == "jobset":
    os.path.exists(f"{folder}/cluster") and os.remove(f"{folder}/cluster")
elif words[:2] == ["get", "jobset"]:
    if cluster:
        print(json.dumps({"spec": {}, "status": {"conditions": cluster["conditions"]}}))
elif words[:2] == ["get", "pods"]:
    print(json.dumps({"items": cluster["pods"] if cluster else []}))
elif words[0] == "logs" and "--follow" in words:
    for pod in cluster["pods"]:
        print(f"[pod/{pod['metadata']['name']}/c] hello from {pod['metadata']['name']}")
elif words[0] == "logs":
    print(f"hello from {words[1]}")
elif words[0] == "exec":
    sys.exit(7)
"""
JOB = "name: a\nimage: i\noutputs: pvc://runs/a\n"
DATA = "data: {root: /d}\n"


def pod(name, role, index, phase="Running"):
    return {"metadata": {"name": name, "labels": {"jobset.sigs.k8s.io/replicatedjob-name": role},
                         "annotations": {"batch.kubernetes.io/job-completion-index": str(index)}},
            "spec": {"nodeName": f"node-{role}-{index}"}, "status": {"phase": phase}}


class RenderTest(support.JobTest):
    def documents(self, text):
        found = {}
        for text in engines.find("kubernetes").render(spec.parse(text)).values():
            for document in yaml.safe_load_all(text):
                self.assertLessEqual({"apiVersion", "kind", "metadata", "spec"}, set(document))
                found[document["kind"]] = document
        return found

    def jobs(self, text):
        """{name of a replicated job: (its Job's spec, its container)}, of which the structure is checked."""
        jobset = self.documents(text)["JobSet"]["spec"]
        found = {}
        for one in jobset["replicatedJobs"]:
            job = one["template"]["spec"]
            pod_spec = job["template"]["spec"]
            (container,) = pod_spec["containers"]
            self.assertIn(pod_spec["restartPolicy"], ("Never", "OnFailure"))
            self.assertEqual({mount["name"] for mount in container["volumeMounts"]},
                             {volume["name"] for volume in pod_spec["volumes"]})
            self.assertEqual(container["command"][:2], ["sh", "-c"])
            done = subprocess.run(["sh", "-n"], input=container["command"][2], text=True, capture_output=True, check=False)
            self.assertEqual(done.stderr, "")
            self.assertTrue(container["securityContext"]["readOnlyRootFilesystem"])
            found[one["name"]] = (job, container, one)
        self.assertEqual(jobset["successPolicy"], {"operator": "All", "targetReplicatedJobs": ["compute"]})
        return found

    def test_the_training_finds_its_servers_by_the_names_of_pods(self):
        jobs = self.jobs(JOB + "data: {shards: [/d, 's3://b/e']}\nstorage: {servers: 2}\n"
                         "compute: {ranks: 3, command: [x]}\n")
        self.assertEqual(list(jobs), ["storage-0", "storage-1", "compute"])
        self.assertEqual(jobs["storage-0"][0]["completions"], 2)
        self.assertIn("--root s3://b/e ", jobs["storage-1"][1]["command"][2])
        env = {one["name"]: one.get("value") for one in jobs["compute"][1]["env"]}
        self.assertEqual(env["SLUICE_HOST"], "a-storage-0-0-0.a:50051,a-storage-0-0-1.a:50051 "
                         "a-storage-1-0-0.a:50051,a-storage-1-0-1.a:50051")
        self.assertEqual((env["WORLD_SIZE"], env["MASTER_ADDR"]), ("3", "a-compute-0-0.a"))
        self.assertIn("RANK", env)
        self.assertEqual(jobs["compute"][0]["completionMode"], "Indexed")
        self.assertEqual(jobs["compute"][2]["dependsOn"], [{"name": "storage-1", "status": "Ready"}])

    def test_gpus_limits_queue_and_time(self):
        text = JOB + DATA + "queue: q\npriority: 3\nlimits: {time: 2h}\nretries: 5\n"
        jobs = self.jobs(text + "compute: {gpus: 2, cores: 2.5, memory: 2GiB, command: [x]}\n")
        self.assertEqual(jobs["compute"][1]["resources"], {
            "requests": {"cpu": "2.5", "memory": "2Gi"},
            "limits": {"cpu": "2.5", "memory": "2Gi", "nvidia.com/gpu": "2"}})
        self.assertEqual(jobs["compute"][0]["activeDeadlineSeconds"], 7200)
        jobset = self.documents(text + "compute: {command: [x]}\n")["JobSet"]
        self.assertEqual(jobset["spec"]["failurePolicy"], {"maxRestarts": 5})
        self.assertEqual(jobset["metadata"]["labels"]["kueue.x-k8s.io/queue-name"], "q")
        self.assertEqual(jobset["metadata"]["labels"]["kueue.x-k8s.io/priority-class"], "sluice-3")

    def test_shares_of_gpus(self):
        mig = self.jobs(JOB + DATA + "compute: {gpu_share: {mig: 1g.10gb}, command: [x]}\n")
        self.assertEqual(mig["compute"][1]["resources"]["limits"], {"nvidia.com/mig-1g.10gb": "1"})
        mps = JOB + DATA + "compute: {gpu_share: {mps: 30}, command: [x]}\n"
        claim = self.documents(mps)["ResourceClaimTemplate"]
        self.assertEqual(self.jobs(mps)["compute"][0]["template"]["spec"]["resourceClaims"],
                         [{"name": "gpu", "resourceClaimTemplateName": claim["metadata"]["name"]}])
        self.assertEqual(self.jobs(mps)["compute"][1]["resources"], {"claims": [{"name": "gpu"}]})
        self.assertIn('"defaultActiveThreadPercentage": 30', json.dumps(claim))

    def test_secrets_are_named_and_never_in_the_documents(self):
        jobs = self.jobs(JOB + DATA + "storage: {secrets: one}\ncompute: {secrets: two, trainer: {}}\n")
        for name, secret, flag in (("storage", "one", "server.pem:--tls-cert"), ("compute", "two", "ca.pem:--ca")):
            volumes = jobs[name][0]["template"]["spec"]["volumes"]
            self.assertIn(secret, [volume.get("secret", {}).get("secretName") for volume in volumes])
            self.assertIn(flag, jobs[name][1]["command"][2])
            self.assertNotIn("--insecure", jobs[name][1]["command"][2])
        self.assertIn("--tls --server-name a-storage", jobs["compute"][1]["command"][2])
        self.assertIn("--insecure", self.jobs(JOB + DATA + "compute: {command: [x]}\n")["storage"][1]["command"][2])

    def test_shared_storage_is_a_daemonset_behind_a_headless_service(self):
        found = self.documents(JOB + DATA + "storage: {placement: shared}\ncompute: {trainer: {}}\n")
        labels = found["DaemonSet"]["spec"]["template"]["metadata"]["labels"]
        for name in ("DaemonSet", "Service"):
            selector = found[name]["spec"]["selector"]
            self.assertLessEqual(selector.get("matchLabels", selector).items(), labels.items())
        self.assertEqual(found["Service"]["spec"]["clusterIP"], "None")
        self.assertEqual(found["DaemonSet"]["spec"]["template"]["spec"]["restartPolicy"], "Always")
        self.assertIn(f"--host dns:{found['Service']['metadata']['name']}:50051", str(found["JobSet"]))

    def test_the_script_takes_the_checkpoint_and_the_secrets_that_are_there(self):
        script = self.jobs(JOB + DATA + "compute: {secrets: s, trainer: {}}\n")["compute"][1]["command"][2]
        for name in ("runs", "tls"):
            (self.folder / name).mkdir()
        script = script.replace("/outputs", f"{self.folder}/runs").replace("/etc/sluice-tls", f"{self.folder}/tls")
        script = script.replace('exec "$@"', 'echo "$@"')

        def words():
            return subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout

        self.assertNotIn("--resume", words())
        self.assertNotIn("--token-file", words())
        (self.folder / "runs/run.ckpt").touch()
        (self.folder / "tls/token").touch()
        self.assertIn(f"--resume {self.folder}/runs/run.ckpt", words())
        self.assertIn(f"--token-file {self.folder}/tls/token", words())

    def test_what_kubernetes_cannot_do_is_refused_by_field(self):
        for more, field in (("storage: {io_weight: 5}", "storage.io_weight"), ("priority: 1", "priority"),
                            ("lend: {cpu: 0.5}", "lend"), ("queue: A b", "queue"), ("storage: {secrets: a/b}", "storage.secrets"),
                            ("storage: {options: {metrics: ':1'}}", "storage.options.metrics"),
                            ("storage: {placement: shared, servers: 2}", "storage.servers")):
            with self.assertRaisesRegex(JobError, f"^{field}: "):
                self.documents(JOB + DATA + f"compute: {{command: [x]}}\n{more}\n")
        for text, field in (("name: a\n", "image"), (f"name: {'a' * 35}\nimage: i\n", "name")):
            with self.assertRaisesRegex(JobError, f"^{field}: "):
                self.documents(text + DATA + "compute: {command: [x]}\n")

    def test_a_claim_is_refused_by_the_other_engines(self):
        for text, field in (("outputs: pvc://a/b\ndata: /d", "outputs"), ("data: pvc://a/b", "data")):
            for name in ("local", "slurm"):
                with self.assertRaisesRegex(JobError, f"^{field}: .*engine kubernetes"):
                    engines.find(name).check(spec.parse(f"name: a\n{text}\ncompute: {{command: [x]}}\n"))


class KubectlTest(support.JobTest):
    def setUp(self):
        super().setUp()
        program = self.folder / "kubectl"
        program.write_text(KUBECTL)
        program.chmod(0o755)
        self.env = {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        path = self.write(JOB + DATA + "compute: {ranks: 2, command: [x]}\n")
        self.id = self.job("submit", path, "--engine", "kubernetes").strip()
        self.pods = [pod("c1", "compute", 1), pod("s0", "storage", 0), pod("c0", "compute", 0)]

    def job(self, *words, code=0):
        return offload_job(*words, code=code, env=self.env)

    def cluster(self, *conditions, pods=()):
        (self.folder / "cluster").write_text(json.dumps({
            "conditions": [{"type": one, "status": "True", "message": "why"} for one in conditions], "pods": list(pods)}))

    def shown(self):
        return json.loads(self.job("show", self.id, "--json"))

    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def test_what_is_applied_is_what_is_rendered_under_the_jobs_id(self):
        (call,) = [words for words in self.calls() if words[0] == "apply"]
        text = (self.folder / "jobs" / self.id / "job.yaml").read_text()
        self.assertIn(str(self.folder / "jobs" / self.id / "job.yaml"), call)
        self.assertEqual([one["metadata"]["name"] for one in yaml.safe_load_all(text)], [self.id])

    def test_states_follow_the_cluster_with_all_steps(self):
        self.assertEqual(self.shown()["state"], "queued")
        self.cluster(pods=self.pods)
        self.assertEqual(self.shown()["state"], "running")
        self.cluster("Completed", pods=self.pods)
        found = self.shown()
        self.assertEqual((found["state"], list(found["steps"])), ("succeeded", list(store.STEPS)))
        self.assertEqual(found["steps"]["schedule"]["text"], "node-compute-0, node-compute-1, node-storage-0")

    def test_a_failure_has_the_clusters_words(self):
        self.cluster("Failed", pods=self.pods)
        self.assertIn("Kubernetes: why", self.job("wait", self.id, code=1))

    def test_pause_and_cancel_delete_and_resume_applies_again(self):
        self.cluster(pods=self.pods)
        self.assertEqual(self.shown()["state"], "running")
        self.job("pause", self.id)
        self.assertEqual(self.shown()["state"], "paused")
        self.job("resume", self.id)
        self.assertEqual(self.shown()["state"], "queued")
        self.job("cancel", self.id)
        self.assertEqual(self.shown()["state"], "cancelled")
        self.assertEqual([words[0] for words in self.calls() if words[0] in ("apply", "delete")],
                         ["apply", "delete", "apply", "delete"])

    def test_freeze_is_refused(self):
        self.cluster(pods=self.pods)
        self.assertIn("cannot freeze", self.job("pause", self.id, "--kind", "freeze", code=1))
        self.assertEqual(self.shown()["state"], "running")

    def test_a_jobset_that_somebody_else_deleted_is_lost(self):
        (self.folder / "cluster").unlink()
        with mock.patch.dict(os.environ, self.env), mock.patch.object(remote, "GONE_S", 0):
            record = store.Store().find(self.id)
            self.assertEqual(engines.find("kubernetes").state(record), "lost")

    def test_logs_and_exec_know_roles_by_their_pods(self):
        self.cluster(pods=self.pods)
        self.assertEqual(self.job("logs", self.id),
                         "storage-0: hello from s0\ncompute-0: hello from c0\ncompute-1: hello from c1\n")
        self.assertEqual(self.job("logs", self.id, "--role", "compute-1"), "hello from c1\n")
        self.assertIn("compute-1: hello from c1\n", self.job("logs", "-f", self.id))
        self.job("exec", self.id, "storage-0", "--", "true", code=7)
        self.assertEqual(self.calls()[-1], ["exec", "--stdin", "s0", "--", "true"])
        self.assertIn("no role 'compute-2'", self.job("exec", self.id, "compute-2", "--", "true", code=1))

    def test_without_kubectl_the_error_says_so(self):
        (self.folder / "bin").mkdir()
        self.env["PATH"] = str(self.folder / "bin")
        said = self.job("submit", self.folder / "job.yaml", "--engine", "kubernetes", code=1)
        self.assertIn("no program kubectl on PATH", said)


if __name__ == "__main__":
    support.main()
