"""weft_train saves, ends when it is asked to, is killed, and goes on: the curve is that of a run that was never stopped."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from launched_ranks import ONE_STOP_S, processes_of, ranks_of, wait_for_ranks, wait_until_blocked, wait_until_taken

weftrun, weft_train, weftctl = None, None, None  # from the command line

_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_DEADLINE_S = 120
_ALL_CASES = os.environ.get("TEST_CASES") == "all"
_MODEL = ("--seq", "16", "--layers", "2", "--heads", "3", "--width", "15", "--batch", "12")
# For losses that are compared within 1e-5: where the CPU has bfloat16 products, a last bit that another number of ranks rounds otherwise makes 1e-4 of it.
_FLOAT32 = (*_MODEL, "--dtype", "fp32")


def with_layers(count):
    at = _FLOAT32.index("--layers") + 1
    return (*_FLOAT32[:at], str(count), *_FLOAT32[at + 1:])


class CheckpointProgramTest(unittest.TestCase):

    def setUp(self):
        self.seed = int(os.environ.get("WEFT_TEST_SEED", time.time_ns() % 10**9))
        print(f"WEFT_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.write_text("text", 5000)

    def write_text(self, name, words):
        generator = random.Random(words)
        with open(os.path.join(self.directory, name), "w", encoding="utf-8") as file:
            file.write("".join(generator.choice(_WORDS) for _ in range(words)))

    def start(self, name, *more, ranks=3, launcher=(), steps=60, model=_MODEL, every=10, evaluate=25):
        command = [weftrun, "-n", str(ranks), *launcher, weft_train, "--data", "text", "--name", name, "--steps", str(steps),
                   *model, "--eval-every", str(evaluate), "--checkpoint-every", str(every), *more]
        return subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run_it(self, name, *more, code=0, **settings):
        process = self.start(name, *more, **settings)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(code, process.returncode, printed)
        return printed

    def metrics(self, name):
        with open(os.path.join(self.directory, "runs", name, "metrics.jsonl"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def figures(self, name):
        """What must not depend on when and how the run was stopped: all numbers but times."""
        return [{key: line.get(key) for key in ("step", "loss", "val_loss", "lr", "grad_norm")} for line in self.metrics(name)]

    def checkpoints(self, name):
        folder = os.path.join(self.directory, "runs", name, "checkpoints")
        return sorted(entry for entry in os.listdir(folder) if os.path.exists(os.path.join(folder, entry, "manifest.json")))

    def test_the_rest_of_a_run_has_the_bits_of_one_that_was_not_stopped(self):
        self.run_it("whole")
        whole = self.figures("whole")
        for first, then in (("full-shard", "ddp"), ("ddp", "zero1"), ("zero2", "full-shard")):
            name = f"{first}-{then}"
            self.run_it(name, "--strategy", first, "--keep", "100")
            # As if it had been killed after step 37: what is newer than step 30 is not there.
            folder = os.path.join(self.directory, "runs", name)
            for entry in self.checkpoints(name):
                if int(entry[5:13]) > 30:
                    shutil.rmtree(os.path.join(folder, "checkpoints", entry))
            printed = self.run_it(name, "--strategy", then, "--resume", "auto")
            self.assertRegex(printed, r"3 ranks go on after step 30, from .*step-00000030, which 3 ranks have saved")
            self.assertEqual(whole, self.figures(name), name)

    def test_half_of_the_ranks_go_on_with_losses_that_agree(self):
        self.run_it("four", ranks=4, model=_FLOAT32)
        four = self.metrics("four")
        self.run_it("start", "--keep", "100", ranks=4, model=_FLOAT32)
        for entry in self.checkpoints("start"):
            if entry != "step-00000010":
                shutil.rmtree(os.path.join(self.directory, "runs", "start", "checkpoints", entry))
        printed = self.run_it("two", "--resume", "runs/start", "--strategy", "full-shard", ranks=2, model=_FLOAT32)
        self.assertIn("2 ranks go on after step 10", printed)
        two = self.metrics("two")
        self.assertEqual(list(range(1, 61)), [line["step"] for line in two])  # the first ten come along
        for one, other in zip(four, two):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-5)

    def test_asked_to_end_at_any_moment(self):
        steps = 200
        began = time.monotonic()
        self.run_it("whole", steps=steps)
        took = time.monotonic() - began
        whole = self.figures("whole")
        rounds = 50 if _ALL_CASES else 4
        stopped_early = 0
        for round_ in range(rounds):
            name = f"asked{round_}"
            process = self.start(name, "--strategy", self.random.choice(("ddp", "full-shard", "zero1")),
                                 launcher=("--max-restarts", "1"), steps=steps)
            ranks = wait_for_ranks(process.pid, 3, _DEADLINE_S)
            time.sleep(self.random.uniform(0.02, 0.7 * took))
            which, number = self.random.choice(((signal.SIGTERM, 143), (signal.SIGINT, 130)))
            try:
                os.kill(self.random.choice(sorted(ranks.values())), which)
            except ProcessLookupError:
                pass  # it had come to its end
            printed, _ = process.communicate(timeout=_DEADLINE_S)
            if process.returncode == 0:
                continue  # it had done its last step
            stopped_early += 1
            self.assertEqual(number, process.returncode, printed)
            self.assertNotIn("restart", printed)
            self.assertNotIn("starting", printed)
            stopped = int(re.search(r"asked to end: stopped after step (\d+)", printed)[1])
            self.assertEqual(f"step-{stopped:08}", self.checkpoints(name)[-1], printed)
            self.assertEqual(whole[:stopped], [dict(line, val_loss=whole[line["step"] - 1]["val_loss"])
                                               for line in self.figures(name)])
            self.run_it(name, "--resume", "auto", steps=steps)
            lines = self.figures(name)
            # The step that it stopped after was not validated.
            lines[stopped - 1]["val_loss"] = whole[stopped - 1]["val_loss"]
            self.assertEqual(whole, lines)
        print(f"{stopped_early} of {rounds} were asked before their last step")
        self.assertGreater(stopped_early, 0)

    def start_endless(self, name, *more, prefix=(), launcher=(), **popen):
        """A run of two ranks that saves only when it is asked to end, and has made steps when this returns."""
        command = [*prefix, weftrun, "-n", "2", *launcher, weft_train, "--data", "text", "--name", name, "--steps", "100000", *_MODEL,
                   "--eval-every", "0", "--checkpoint-every", "1000000", *more]
        process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **popen)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        printed = ""
        while not re.search(r"step [1-9]\d*/", printed):
            line = process.stdout.readline()
            self.assertNotEqual("", line, printed)
            printed += line
        return process

    def assert_saved_once(self, process, code, name):
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(code, process.returncode, printed)
        stopped = re.search(r"asked to end: stopped after step (\d+), which is saved", printed)
        self.assertIsNotNone(stopped, printed)
        self.assertEqual([f"step-{int(stopped[1]):08}"], self.checkpoints(name), printed)
        self.assertNotIn("again", printed)

    def test_however_a_job_is_stopped_it_saves_once(self):
        def terminate(pids):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGTERM)
                except ProcessLookupError:
                    pass

        def all_processes(process):  # systemd, and schedulers that signal a step; several times, as scripts do that want to be sure
            began = time.monotonic()
            for _ in range(5):
                if time.monotonic() - began < ONE_STOP_S / 2:
                    terminate(processes_of(process.pid))
                time.sleep(0.15)

        def ranks_before(process):
            terminate(reversed(processes_of(process.pid)))

        ways = (("all", all_processes, 143, ()),
                ("before", ranks_before, 143, ()),
                ("one", lambda process: process.terminate(), 143, ()),  # a container's first process
                ("child-and-group", lambda process: process.terminate(), 143, ("timeout", "--preserve-status", "600")),
                ("terminal", lambda process: os.killpg(process.pid, signal.SIGINT), 130, ()),
                ("hang-up", lambda process: os.killpg(process.pid, signal.SIGHUP), 129, ()))
        for name, stop, code, prefix in ways:
            with self.subTest(name):
                process = self.start_endless(name, prefix=prefix, launcher=("--max-restarts", "1"), start_new_session=True)
                stop(process)
                self.assert_saved_once(process, code, name)

    def test_what_weftrun_passes_on_late_is_no_second_request(self):
        process = self.start_endless("late")
        ranks = wait_for_ranks(process.pid, 2, _DEADLINE_S)
        # As long as rank 1 is stopped no step ends, so rank 0 still has it before it to stop.
        os.kill(ranks[1], signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGTERM)
        wait_until_taken(ranks[0], signal.SIGTERM, _DEADLINE_S)
        time.sleep(ONE_STOP_S + 0.1)
        process.terminate()
        wait_until_taken(process.pid, signal.SIGTERM, _DEADLINE_S)
        wait_until_taken(ranks[0], signal.SIGTERM, _DEADLINE_S)
        os.kill(ranks[1], signal.SIGCONT)
        self.assert_saved_once(process, 143, "late")

    def test_a_later_request_to_a_rank_ends_it_at_once(self):
        process = self.start_endless("twice")
        ranks = wait_for_ranks(process.pid, 2, _DEADLINE_S)
        os.kill(ranks[1], signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGINT)
        wait_until_taken(ranks[0], signal.SIGINT, _DEADLINE_S)
        time.sleep(ONE_STOP_S + 0.1)
        os.kill(ranks[0], signal.SIGINT)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(74, process.returncode, printed)
        self.assertIn("[0] weft_train: SIGINT again: ending at once, a save under way is lost", printed)
        folder = os.path.join(self.directory, "runs", "twice", "checkpoints")
        self.assertFalse(os.path.exists(folder) and self.checkpoints("twice"), "rank 1 was stopped, so no save can be whole")

    def test_who_is_asked_to_end_does_not_wait_for_a_rank_that_never_comes(self):
        # Rank 1 is ended by the signal, as a program is that has not got to the point of catching it.
        process = subprocess.Popen([weftrun, "-n", "2", "sh", "-c", 'test $RANK = 1 && exec sleep 1000; exec "$@"', "sh", weft_train, "--data", "text",
                                    *_MODEL], cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.kill)
        wait_until_blocked(wait_for_ranks(process.pid, 2, _DEADLINE_S)[0], signal.SIGTERM, _DEADLINE_S)
        process.terminate()
        printed, _ = process.communicate(timeout=_DEADLINE_S / 2)
        self.assertEqual(143, process.returncode, printed)
        self.assertIn("the others: rank 0 exited with code 143", printed)

    def test_a_signal_that_was_ignored_stays_ignored(self):
        process = self.start_endless("nohup", prefix=("nohup",))
        for rank in wait_for_ranks(process.pid, 2, _DEADLINE_S).values():
            os.kill(rank, signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        process.terminate()
        self.assert_saved_once(process, 143, "nohup")

    def test_signals_while_it_computes_change_nothing(self):
        # Large enough for the kernels of oneDNN that keep no stack of their own.
        model = ("--seq", "64", "--layers", "2", "--heads", "4", "--width", "128", "--batch", "4")
        settings = {"ranks": 1, "steps": 200, "model": model, "every": 0}
        self.run_it("quiet", **settings)
        sent = 0
        for round_ in range(4):
            process = self.start(f"loud{round_}", **settings)
            deadline = time.monotonic() + _DEADLINE_S
            # It catches them from its first moment on, but not before.
            for line in process.stdout:
                if line.startswith("[0] step ") or "step 1/" in line:
                    break
            while process.poll() is None and time.monotonic() < deadline:
                for rank in ranks_of(process.pid).values():
                    try:
                        for _ in range(50):
                            os.kill(rank, signal.SIGUSR1)
                            sent += 1
                            time.sleep(2e-4)
                    except ProcessLookupError:
                        pass
            printed, _ = process.communicate(timeout=_DEADLINE_S)
            self.assertEqual(0, process.returncode, printed)
            self.assertEqual(self.figures("quiet"), self.figures(f"loud{round_}"))
        self.assertGreater(sent, 100)

    def test_a_killed_rank_is_started_again_and_the_run_goes_on_by_itself(self):
        steps = 600
        self.run_it("whole", steps=steps)
        process = self.start("killed", launcher=("--max-restarts", "1"), steps=steps)
        printed = ""
        for line in process.stdout:
            printed += line
            if re.search(r"step (5\d|[6-9]\d|\d{3,})/", line):
                break
        killed = time.monotonic()
        os.kill(self.random.choice(sorted(ranks_of(process.pid).values())), signal.SIGKILL)
        resumed = None
        for line in process.stdout:
            printed += line
            if "ranks go on after step" in line and resumed is None:
                resumed = time.monotonic() - killed
        process.stdout.close()
        self.assertEqual(0, process.wait(timeout=_DEADLINE_S), printed)
        self.assertIsNotNone(resumed, printed)
        print(f"training again {resumed:.1f} s after the death")
        self.assertEqual(self.figures("whole"), self.figures("killed"))

    def test_a_save_on_request(self):
        process = self.start("asked", steps=100000, every=1000000)
        ranks = wait_for_ranks(process.pid, 3, _DEADLINE_S)
        deadline = time.monotonic() + _DEADLINE_S
        time.sleep(0.5)
        os.kill(ranks[1], signal.SIGUSR1)
        while time.monotonic() < deadline:
            if os.path.isdir(os.path.join(self.directory, "runs", "asked", "checkpoints")) and self.checkpoints("asked"):
                break
            time.sleep(0.01)
        self.assertTrue(self.checkpoints("asked"))
        os.kill(ranks[2], signal.SIGTERM)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(143, process.returncode, printed)
        self.assertEqual(2, len(self.checkpoints("asked")))

    def test_a_run_that_is_at_its_end_ends_again(self):
        self.run_it("run", steps=20)
        shutil.copytree(os.path.join(self.directory, "runs", "run", "checkpoints"), os.path.join(self.directory, "bare"))
        for resume in ("auto", "bare"):
            printed = self.run_it("run" if resume == "auto" else "other", "--resume", resume, steps=20)
            self.assertIn("3 ranks go on after step 20", printed)
            self.assertRegex(printed, r"valid  \d+\.\d+ nats per byte")

    def weights(self, name):
        return os.path.join(self.directory, "runs", name, "checkpoints")

    def test_a_new_run_begins_with_the_weights_of_another(self):
        self.run_it("old", steps=20, model=_FLOAT32)
        self.run_it("fresh", steps=20, model=_FLOAT32)
        # A step that changes no bit: what is validated after it are the weights that it began with.
        still = ("--lr", "1e-30", "--seed", "7")
        printed = self.run_it("still", "--init", "runs/old", *still, steps=1, model=_FLOAT32)
        self.assertRegex(printed, r"3 ranks begin with the weights of /\S*/runs/old/checkpoints/step-00000020, which 3 ranks have saved")
        self.assertEqual(self.metrics("old")[-1]["val_loss"], self.metrics("still")[-1]["val_loss"])
        # Data, seed and number of steps are its own, and the optimizer begins anew: another preset and other ranks change nothing but rounding.
        self.run_it("new", "--init", "runs/old/checkpoints", "--seed", "7", "--strategy", "full-shard", steps=20, model=_FLOAT32)
        self.assertEqual(self.metrics("still")[0]["loss"], self.metrics("new")[0]["loss"])
        self.assertNotEqual(self.metrics("fresh")[0]["loss"], self.metrics("new")[0]["loss"])
        self.assertEqual(list(range(1, 21)), [line["step"] for line in self.metrics("new")])
        self.assertEqual([line["lr"] for line in self.metrics("fresh")], [line["lr"] for line in self.metrics("new")])
        self.run_it("two", "--init", "runs/old", "--seed", "7", steps=20, ranks=2, model=_FLOAT32)
        for one, other in zip(self.metrics("new"), self.metrics("two")):
            self.assertAlmostEqual(one["loss"], other["loss"], delta=1e-5)
        # By way of one file it has the same bits.
        for arguments in (("export", self.weights("old"), "--to", "old.safetensors"), ("import", "old.safetensors", "imported")):
            subprocess.run([weftctl, "checkpoint", *arguments], cwd=self.directory, check=True, stdout=subprocess.DEVNULL, timeout=_DEADLINE_S)
        printed = self.run_it("by-file", "--init", "imported", "--seed", "7", "--strategy", "zero1", steps=20, model=_FLOAT32)
        self.assertRegex(printed, r"begins? with the weights of /\S*/imported/step-00000000, which 1 rank has saved")
        self.assertEqual(self.figures("new"), self.figures("by-file"))
        # So has the file itself, or several of it, or one of the run's checkpoints.
        subprocess.run([weftctl, "checkpoint", "export", self.weights("old"), "--to", "shards", "--shard-size", "5KB"], cwd=self.directory, check=True,
                       stdout=subprocess.DEVNULL, timeout=_DEADLINE_S)
        for name, init, who in (("single-file", "old.safetensors", ""), ("folder", "shards", ""),
                                ("index", "shards/model.safetensors.index.json", ""),
                                ("step", "runs/old/checkpoints/step-00000020", ", which 3 ranks have saved")):
            printed = self.run_it(f"from-{name}", "--init", init, "--seed", "7", steps=1, model=_FLOAT32)
            self.assertRegex(printed, rf"begins? with the weights of /\S*/{re.escape(init + who)}\n")
            self.assertEqual(self.figures("new")[0]["loss"], self.figures(f"from-{name}")[0]["loss"])
        # A part of it: a model of another number of layers.
        printed = self.run_it("more", "--init", "old.safetensors", "--init-partial", steps=1, model=with_layers(3))
        self.assertRegex(printed, r"not in it, and as in a run without --init: block\.2\.ln1\.weight, .*block\.2\.")
        self.assertNotIn("not taken", printed)
        printed = self.run_it("less", "--init", "old.safetensors", "--init-partial", steps=1, model=with_layers(1))
        self.assertRegex(printed, r"not taken, as this model has none of that name: block\.1\.")
        self.assertNotIn("not in it", printed)

    def test_the_best_state_is_kept_beside_the_last_ones(self):
        # A rate that is too high: later validations are worse than earlier ones, or better.
        self.run_it("a", "--lr", "0.3", "--warmup", "3", "--keep-best", ranks=2, steps=24, model=_FLOAT32, evaluate=3)
        validations = {line["step"]: line["val_loss"] for line in self.metrics("a") if "val_loss" in line}
        self.assertEqual(8, len(validations))
        best = min(validations, key=validations.get)
        folder = os.path.join(self.directory, "runs", "a", "best")
        self.assertEqual([f"step-{best:08}"], [name for name in os.listdir(folder) if name.startswith("step-")])
        printed = self.run_it("b", "--resume", folder, "--lr", "0.3", "--warmup", "3", steps=best + 1, model=_FLOAT32)
        self.assertIn(f"3 ranks go on after step {best}, from ", printed)

    def test_what_is_exported_for_transformers_is_a_beginning(self):
        self.run_it("a", steps=20, model=_FLOAT32)
        with_weights = self.metrics("a")[-1]["val_loss"]
        out = os.path.join(self.directory, "there")
        export = [weft_train, "export", "--from", "runs/a", "--out", out]
        done = subprocess.run(export, cwd=self.directory, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertEqual(["config.json", "model.safetensors"], sorted(os.listdir(out)))
        again = subprocess.run(export, cwd=self.directory, capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(2, again.returncode)
        self.assertIn("has a model.safetensors; give another folder", again.stderr)
        for ranks, strategy in ((1, "ddp"), (3, "full-shard")):
            name = f"b{ranks}"
            printed = self.run_it(name, "--init", out, "--strategy", strategy, "--lr", "1e-12", "--warmup", "0", ranks=ranks, steps=1, model=_FLOAT32)
            self.assertIn(f"with the weights of {out}", printed)
            self.assertAlmostEqual(with_weights, self.metrics(name)[-1]["val_loss"], delta=1e-5)
        refused = self.run_it("c", "--init", out, code=2, model=with_layers(3))
        self.assertIn("has no tensor h.2.", refused)

    def test_goes_on_from_a_step_or_a_checkpoint(self):
        self.run_it("old", steps=40)
        whole = self.figures("old")
        # Metrics come along, also if the path ends with a slash.
        for name, resume in (("path", "runs/old/checkpoints/step-00000020"), ("slash", "runs/old/checkpoints/step-00000020/")):
            printed = self.run_it(name, "--resume", resume, steps=40)
            self.assertRegex(printed, r"3 ranks go on after step 20, from /\S*/runs/old/checkpoints/step-00000020, which 3 ranks have saved")
            self.assertEqual(whole, self.figures(name))
        printed = self.run_it("old", "--resume", "20", steps=40)
        self.assertRegex(printed, r"3 ranks go on after step 20, from /\S*/runs/old/checkpoints/step-00000020,")
        self.assertEqual(whole, self.figures("old"))
        self.assertEqual("step-00000040.r1", self.checkpoints("old")[-1])
        printed = self.run_it("old", "--resume", "27", steps=40, code=2)
        self.assertIn("--resume 27: there is no checkpoint of that step in runs/old/checkpoints; weftctl checkpoint list", printed)

    def test_a_run_that_is_started_again_goes_on_instead_of_beginning_again(self):
        self.run_it("old", steps=20)
        self.run_it("new", "--init", "runs/old", "--resume", "auto", steps=20)
        printed = self.run_it("new", "--init", "runs/old", "--resume", "auto", steps=40)
        self.assertRegex(printed, r"3 ranks go on after step 20, from /\S*/runs/new/")
        self.assertNotIn("begin with", printed)
        self.assertEqual(40, len(self.metrics("new")))

    def complaint(self, name, *more, **settings):
        printed = self.run_it(name, *more, code=2, **settings)
        self.assertNotIn("step 1/", printed)
        # weftrun repeats the last line of who failed first.
        lines = [line for line in printed.splitlines() if line.startswith("[") and "weft_train:" in line]
        self.assertEqual(1, len(lines), printed)
        return lines[0]

    def test_what_is_no_checkpoint_for_this_run_is_refused_with_one_sentence(self):
        self.run_it("run", steps=20)
        self.assertRegex(self.complaint("run", "--resume", "auto", model=(*_MODEL[:2], "--layers", "3", *_MODEL[4:])),
                         r"has no tensor block.2.ln1.weight, of shape \[15\]")
        self.assertRegex(self.complaint("run", "--resume", "auto", model=(*_MODEL[:6], "--width", "30", *_MODEL[8:])),
                         r"has tensor \S+ with shape \[\d+, 15\], and this model has it with shape \[\d+, 30\]")
        self.assertIn("--seed 1, this one has --seed 2", self.complaint("run", "--resume", "auto", "--seed", "2"))
        self.assertIn("there is no checkpoint there", self.complaint("other", "--resume", "runs"))
        self.assertIn("--keep", self.complaint("other", "--keep", "0"))
        self.write_text("text", 4000)
        self.assertIn("another text", self.complaint("run", "--resume", "auto"))
        self.run_it("run", "--resume", "auto", "--changed", "text", steps=30)
        self.write_text("text", 5000)
        # A file that is missing is damage: the checkpoint before is taken, loudly.
        self.run_it("damaged", steps=20)
        folder = os.path.join(self.directory, "runs", "damaged", "checkpoints")
        os.remove(os.path.join(folder, "step-00000020", "rank-00001.safetensors"))
        printed = self.run_it("damaged", "--resume", "auto", steps=20)
        self.assertRegex(printed, "step-00000020 cannot be loaded; trying .*step-00000010 instead")
        self.assertIn(" on after step 10", printed)


if __name__ == "__main__":
    weftrun, weft_train, weftctl = (os.path.abspath(path) for path in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
