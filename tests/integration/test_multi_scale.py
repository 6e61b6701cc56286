#!/usr/bin/env python3
"""multi_scale: one size for each batch, the same in all modes and ranks."""
import unittest

from programs import SynthTest, reports, run

NUM_TRAIN = 60
PIPELINE = "decode,exif_transpose,hflip,multi_scale=32-96/5:base=64:weight=2:epochs=epoch<1,to_tensor,normalize=imagenet"
LETTERBOX = "decode,zoom_out,multi_scale=32-96/5:base=64:fit=letterbox:fill=114,hflip,color_jitter=0.4"
MODES = ("remote_nooff", "remote_alloff", "remote_piloff", "remote_auto")


class MultiScaleTest(SynthTest):
    SYNTH = ("-n", NUM_TRAIN, "--num-val", 11, "--classes", "3")

    def train(self, *flags, code=0, pipeline=PIPELINE):
        done = run("offload_train", "--device", "none", "--epochs", 2, "-j", 2, "-p", 0, "-b", 8, "--json", "--pipeline",
                   pipeline, *flags, code=code)
        return done.stderr if code else reports(done.stdout)

    def local(self, *flags, **named):
        return self.train(self.root, "--dataset-mode", "local", *flags, **named)

    def test_one_digest(self):
        servers = [self.serve("--prep-workers", 2, *flags) for flags in ((), ("--isolate-decoders",))]
        for pipeline in (PIPELINE, LETTERBOX):
            want = [report["digest"] for report in self.local(pipeline=pipeline)]
            for mode in MODES:
                for server in servers:
                    with self.subTest(mode=mode, pipeline=pipeline):
                        got = self.train("--host", server.address, "--dataset-mode", mode, pipeline=pipeline)
                        self.assertEqual([report["digest"] for report in got], want)
                        self.assertEqual([(report["samples"], report["errors"]) for report in got], [(NUM_TRAIN, 0)] * 2)

    def test_the_last_epoch_has_the_base(self):
        first, last = self.local()
        always = self.local(pipeline=PIPELINE.replace(":epochs=epoch<1", ""))
        never = self.local(pipeline=PIPELINE.replace("epoch<1", "epoch>=9"))
        self.assertEqual(first["digest"], always[0]["digest"])
        self.assertEqual(last["digest"], never[1]["digest"])
        self.assertNotEqual(first["digest"], never[0]["digest"])
        self.assertNotEqual(last["digest"], always[1]["digest"])

    def test_ranks(self):
        for world_size in (1, 2, 3):
            ranks = [self.local("-b", 4, "--rank", rank, "--world-size", world_size)[0] for rank in range(world_size)]
            rows = [report["samples"] for report in ranks]
            self.assertEqual((len(set(rows)), sum(rows)), (1, NUM_TRAIN))
            dropped = self.local("-b", 7, "--world-size", world_size, "--rank", 0, "--tail", "drop")[0]["samples"]
            self.assertEqual(dropped, NUM_TRAIN // (7 * world_size) * 7)

    def test_evaluation_has_the_base(self):
        (report,) = self.local("--evaluate")
        self.assertEqual(report["samples"], 11)
        (given,) = self.local("--evaluate", "--val-pipeline", "decode,resize=64x64,to_tensor,normalize=imagenet")
        self.assertEqual(given["digest"], report["digest"])
        (boxed,) = self.local("--evaluate", pipeline=LETTERBOX)
        (given,) = self.local("--evaluate", "--val-pipeline", "decode,letterbox=64:fill=114")
        self.assertEqual(given["digest"], boxed["digest"])

    def test_batches_on_the_gpu(self):
        """Its kernels run on the CPU here; the rows are uploaded, and have the size of each batch."""
        for pipeline in (PIPELINE, LETTERBOX):
            done = run("offload_train", "--device", "none", "--epochs", 2, "-p", 0, "-b", 8, "--json", "--pipeline", pipeline,
                       "--dataset-mode", "local", "--gpu-decode", "on", self.root, env={"SLUICE_GPU": "host"})
            self.assertEqual([report["digest"] for report in reports(done.stdout)],
                             [report["digest"] for report in self.local(pipeline=pipeline)])

    def test_refused(self):
        self.assertIn("cannot be profiled", self.local("--profiling", "--write-profile-folder",
                                                       f"{self.folder.name}/profile", code=1))
        self.assertIn("a model here takes one", run(
            "offload_train", self.root, "--dataset-mode", "local", "-a", "small_cnn", "--pipeline", PIPELINE,
            code=1).stderr)


if __name__ == "__main__":
    unittest.main()
