"""The folder of a run: no run destroys another, and what a run is stands there from its first moment."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from launched_ranks import ranks_of

weftrun, weft_train = None, None  # from the command line

_DEADLINE_S = 120
_TINY = ("--data", "text", "--seq", "16", "--layers", "1", "--heads", "1", "--width", "16", "--batch", "4", "--eval-every", "0", "--warmup", "2",
         "--dtype", "fp32")
_LONG = 10**6  # steps


class RunFolderTest(unittest.TestCase):

    def setUp(self):
        self.seed = int(os.environ.get("WEFT_TEST_SEED", time.time_ns() % 10**9))
        print(f"WEFT_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.runs = self.directory / "runs"
        (self.directory / "text").write_text("".join(f"int v{i} = {i * 7919 % 997};\n" for i in range(2000)))

    def start(self, *arguments, ranks=1, launcher=()):
        launched = [weftrun, "-n", str(ranks), *launcher, weft_train] if ranks > 1 or launcher else [weft_train]
        process = subprocess.Popen([*launched, *_TINY, *map(str, arguments)], cwd=self.directory, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        watchdog = threading.Timer(_DEADLINE_S, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def run_it(self, *arguments, code=0, **settings):
        process = self.start(*arguments, **settings)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(code, process.returncode, printed)
        return printed

    def wait_for(self, what):
        deadline = time.monotonic() + _DEADLINE_S
        while not what():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(1e-3)

    def contents(self, name):
        """Every file of a run, as bytes."""
        folder = self.runs / name
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}

    def names(self):
        return sorted(entry.name for entry in self.runs.iterdir())

    def config(self, name):
        return json.loads((self.runs / name / "config.json").read_text())

    def steps(self, name):
        return [json.loads(line)["step"] for line in (self.runs / name / "metrics.jsonl").read_text().splitlines()]

    def test_a_used_name_is_refused_on_all_ranks_with_one_sentence(self):
        self.run_it("--name", "a", "--steps", 8, "--checkpoint-every", 4)
        before = self.contents("a")
        for ranks in (1, 2):
            for more in ((), ("--checkpoint-every", 1, "--keep", 1), ("--resume", "none")):
                printed = self.run_it("--name", "a", "--steps", 12, *more, code=2, ranks=ranks)
                said = re.findall(r"(?m)^(?:\[\d\] )?weft_train: (.*)", printed)
                self.assertEqual(["--name a: runs/a is the folder of another run, with 8 steps in its metrics; use another name, --resume auto to "
                                  "go on with that run, or --overwrite, which keeps it under a new name"], said)
                self.assertNotRegex(printed, "rank 0.*failed first: exited with code (?!2)")
                self.assertEqual(before, self.contents("a"))
        self.assertEqual(["a"], self.names())
        # To go on from elsewhere is not to go on with it.
        self.run_it("--name", "b", "--steps", 8, "--checkpoint-every", 4)
        self.run_it("--name", "a", "--resume", "runs/b", "--steps", 12, code=2)
        self.assertEqual(before, self.contents("a"))
        # With it one may, by either name of it.
        self.run_it("--name", "a", "--resume", "auto", "--steps", 12, "--checkpoint-every", 4)
        self.run_it("--name", "a", "--resume", "runs/a/", "--steps", 16, "--checkpoint-every", 4)
        self.assertEqual(list(range(1, 17)), self.steps("a"))

    def test_overwrite_moves_the_old_run_and_deletes_nothing(self):
        old = []
        for steps in (4, 5, 6):
            self.run_it("--name", "a", "--steps", steps, "--checkpoint-every", 2, *(("--overwrite",) if old else ()), ranks=len(old) + 1)
            old.append(self.contents("a"))
        self.assertEqual(["a", "a.old-1", "a.old-2"], self.names())
        self.assertEqual(old, [self.contents(name) for name in ("a.old-1", "a.old-2", "a")])
        # What the run is to begin with does not move away under it.
        for more in (("--resume", "auto"), ("--init", "runs/a"), ("--resume", "runs/a/checkpoints")):
            self.run_it("--name", "a", "--steps", 9, "--overwrite", *more, code=2)
        self.assertEqual(old[2], self.contents("a"))
        # A name that nobody has may be overwritten.
        self.run_it("--name", "new", "--steps", 3, "--overwrite")
        self.assertEqual(["a", "a.old-1", "a.old-2", "new"], self.names())

    def test_a_program_without_standard_streams_prints_into_no_file(self):
        self.run_it("--name", "open", "--steps", 4)
        done = subprocess.run(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", weft_train, *_TINY, "--name", "closed", "--steps", "4"],
                              cwd=self.directory, timeout=_DEADLINE_S, check=False)
        self.assertEqual(0, done.returncode)
        self.assertEqual(self.steps("open"), self.steps("closed"))  # each line is one of metrics
        self.assertEqual(sorted(self.contents("open")), sorted(self.contents("closed")))

    def test_runs_without_a_name_in_one_second_are_several(self):
        processes = [self.start("--steps", 30, "--seed", seed) for seed in range(5)]
        for process in processes:
            printed, _ = process.communicate(timeout=_DEADLINE_S)
            self.assertEqual(0, process.returncode, printed)
        self.assertEqual(5, len(self.names()))
        self.assertEqual(list(range(5)), sorted(self.config(name)["seed"] for name in self.names()))
        for name in self.names():
            self.assertEqual(list(range(1, 31)), self.steps(name))

    def test_of_runs_with_one_name_in_one_moment_one_begins(self):
        for round_ in range(4):
            name = f"same{round_}"
            processes = [self.start("--steps", 20, "--name", name, "--seed", seed) for seed in range(4)]
            codes = []
            for process in processes:
                printed, _ = process.communicate(timeout=_DEADLINE_S)
                codes.append(process.returncode)
                if process.returncode != 0:
                    self.assertRegex(printed, rf"--name {name}: (runs/{name} is the folder of another run|another run has just begun in runs/{name})")
            self.assertEqual([0, 2, 2, 2], sorted(codes))
            self.assertEqual(codes.index(0), self.config(name)["seed"])
            self.assertEqual(list(range(1, 21)), self.steps(name))
            self.assertEqual({"config.json", "loss.svg", "metrics.jsonl", "report.html", "report.md", "sample.txt"}, set(self.contents(name)))

    def test_what_a_run_is_stands_there_from_its_first_moment(self):
        process = self.start("--name", "a", "--steps", _LONG, "--lr", 0.001, ranks=2)
        self.wait_for((self.runs / "a").is_dir)
        # Whole as soon as there is one.
        self.wait_for((self.runs / "a" / "config.json").exists)
        config = self.config("a")
        for line in process.stdout:
            if "step 1/" in line:
                break
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=_DEADLINE_S)
        self.assertEqual((2, 0.001, _LONG, "fp32", "ddp"), tuple(config[key] for key in ("ranks", "lr", "steps", "dtype", "strategy")))
        printed = subprocess.run([weft_train, "--help"], capture_output=True, text=True, check=True, timeout=_DEADLINE_S).stdout
        options = set(re.findall(r"--([a-z0-9-]+)", printed.partition("Without a run:")[0])) - {"help", "version", "dry-run"}
        self.assertEqual(set(), {option for option in options if option not in config and f"no-{option}" not in options})
        self.assertRegex(config["version"], r"^\d+\.\d+\.\d+$")
        self.assertRegex(config.get("commit", "0" * 12), r"^[0-9a-f]{12,40}(-dirty)?$")
        self.assertRegex(config["began"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")

    def test_a_run_that_goes_on_remembers_what_it_was(self):
        self.run_it("--name", "a", "--steps", 4, "--checkpoint-every", 2)
        for steps in (6, 6, 8):
            self.run_it("--name", "a", "--steps", steps, "--checkpoint-every", 2, "--resume", "auto", "--lr", 0.002)
        config = self.config("a")
        self.assertEqual((8, 0.002), (config["steps"], config["lr"]))
        # The same start twice is one entry.
        self.assertEqual([(4, 0.0025), (6, 0.002)], [(entry["steps"], entry["lr"]) for entry in config["earlier"]])

    def test_a_start_that_makes_no_step_changes_nothing(self):
        self.run_it("--name", "a", "--steps", 4, "--checkpoint-every", 2)
        before = self.contents("a")
        for ranks in (1, 2):
            self.run_it("--name", "b", "--resume", "runs", "--steps", 4, code=2, ranks=ranks)
            self.run_it("--name", "b", "--init", "runs", "--steps", 4, code=2, ranks=ranks)
            self.run_it("--resume", "runs", "--steps", 4, code=2, ranks=ranks)
            self.run_it("--name", "a", "--resume", "auto", "--seed", 9, "--steps", 8, code=2, ranks=ranks)
            self.run_it("--name", "a", "--overwrite", "--init", "runs", "--steps", 8, code=2, ranks=ranks)
            self.assertEqual(["a"], self.names())
            self.assertEqual(before, self.contents("a"))
        # So a name is free again when the fault is mended.
        self.run_it("--name", "b", "--init", "runs/a", "--steps", 4)

    def test_resume_auto_says_what_it_has_found(self):
        printed = self.run_it("--resume", "auto", "--steps", 2)
        name = self.names()[0]
        self.assertIn(f"--resume auto without --name: there is no run to go on with; a new one begins in runs/{name}\n", printed)
        printed = self.run_it("--name", "a", "--resume", "auto", "--steps", 3)
        self.assertIn("--resume auto: there is no checkpoint in runs/a; the run begins anew\n", printed)
        # It had steps, and could not go on from any: they stay.
        before = self.contents("a")
        printed = self.run_it("--name", "a", "--resume", "auto", "--steps", 5, "--checkpoint-every", 5, ranks=2)
        self.assertIn("the run that was in runs/a is in runs/a.old-1 now\n", printed)
        self.assertEqual(before, self.contents("a.old-1"))
        self.assertEqual(list(range(1, 6)), self.steps("a"))
        printed = self.run_it("--name", "a", "--resume", "auto", "--steps", 6, "--checkpoint-every", 5)
        self.assertNotIn("anew", printed)
        self.assertIn("goes on after step 5", printed)

    def kill_a_rank(self, process):
        os.kill(self.random.choice(sorted(ranks_of(process.pid).values())), signal.SIGKILL)

    def wait_until_saved(self, pattern):
        """Until the metrics of the one run of that name have a step after one that is saved."""
        def is_saved():
            saved = list(self.runs.glob(f"{pattern}/checkpoints/*/manifest.json"))
            metrics = list(self.runs.glob(f"{pattern}/metrics.jsonl"))
            return saved and metrics and max(int(path.parent.name[5:13]) for path in saved) < metrics[0].read_bytes().count(b"\n")
        self.wait_for(is_saved)

    def test_a_job_that_is_started_again_goes_on_in_its_own_folder(self):
        launcher = ("--max-restarts", "2")
        for name in (("--name", "named"), ()):
            for saves in (("--checkpoint-every", 50), ()):
                shutil.rmtree(self.runs, ignore_errors=True)
                process = self.start(*name, *saves, "--steps", 3000, ranks=2, launcher=launcher)
                if saves:
                    self.wait_until_saved("*")
                else:
                    for line in process.stdout:
                        if "step 1/" in line:
                            break
                self.kill_a_rank(process)
                printed, _ = process.communicate(timeout=_DEADLINE_S)
                self.assertEqual(0, process.returncode, printed)
                self.assertIn("restart 1 of at most 2", printed)
                self.assertEqual(1, len(self.names()), printed)
                self.assertEqual(list(range(1, 3001)), self.steps(self.names()[0]))
                self.assertNotIn("earlier", self.config(self.names()[0]))

    def test_a_job_that_began_from_another_run_is_started_again_from_its_own_checkpoint(self):
        self.run_it("--name", "a", "--steps", 10, "--checkpoint-every", 10)
        process = self.start("--name", "b", "--resume", "runs/a", "--steps", 6000, "--checkpoint-every", 50, ranks=2, launcher=("--max-restarts", "1"))
        self.wait_until_saved("b")
        self.kill_a_rank(process)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(0, process.returncode, printed)
        self.assertEqual(["runs/a", "runs/b"], re.findall(r"(?m)^\[\d\] 2 ranks go on after step \d+, from \S*/(runs/\w)/checkpoints/", printed), printed)
        self.assertEqual(list(range(1, 6001)), self.steps("b"))

    def test_rank_0_may_die_as_soon_as_it_has_the_folder(self):
        for round_ in range(3):
            name = f"elastic{round_}"
            process = self.start("--name", name, "--elastic", "--steps", 300, ranks=3, launcher=("--elastic",))
            self.wait_for((self.runs / name / "config.json").exists)
            os.kill(ranks_of(process.pid)[0], signal.SIGKILL)
            printed, _ = process.communicate(timeout=_DEADLINE_S)
            self.assertEqual(0, process.returncode, printed)
            self.assertEqual(list(range(1, 301)), self.steps(name))


if __name__ == "__main__":
    weftrun, weft_train = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
