"""weft_train --metrics-command: the command gets what metrics.jsonl gets, however the run ends and goes on, and the run says so if it does not."""
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

from launched_ranks import ranks_of

weftrun, weft_train, page = None, None, None  # from the command line

_DEADLINE_S = 120
_NOT_WRITTEN = 74
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_SMALL = ("--data", "text", "--seq", "16", "--layers", "1", "--heads", "1", "--width", "16", "--batch", "4", "--warmup", "2",
          "--eval-every", "50", "--name", "a")
_KEEP = 'cat >>"$WEFT_RUN_DIR/got"'


class MetricsCommandProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.run_folder = self.root / "runs" / "a"
        words = random.Random(1)
        (self.root / "text").write_text("".join(words.choice(_WORDS) for _ in range(5000)))

    def start(self, *options, ranks=1, launcher=()):
        launched = [weftrun, "-n", str(ranks), *launcher, weft_train] if ranks > 1 else [weft_train]
        process = subprocess.Popen([*launched, *_SMALL, *options], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True, start_new_session=True,
                                   env={**os.environ, "PYTHONUNBUFFERED": ""})  # what a script prints is not cut by what the run prints
        self.addCleanup(process.stdout.close)
        watchdog = threading.Timer(_DEADLINE_S, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def train(self, *options, code=0, **settings):
        process = self.start(*options, **settings)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(code, process.returncode, printed)
        return printed

    @staticmethod
    def read_up_to(process, text):
        printed = ""
        for line in process.stdout:
            printed += line
            if text in line:
                return printed
        raise AssertionError(f"no {text} in {printed}")

    def metrics(self):
        return (self.run_folder / "metrics.jsonl").read_bytes()

    def got(self, name="got"):
        return (self.run_folder / name).read_bytes()

    def test_it_gets_the_lines_of_the_metrics(self):
        for ranks in (1, 2):
            self.train("--steps", "120", "--overwrite", "--metrics-command", _KEEP, ranks=ranks)
            self.assertEqual(120, self.got().count(b"\n"))
            self.assertEqual(self.metrics(), self.got())

    def test_a_run_that_goes_on_gives_it_the_lines_that_are_new(self):
        self.train("--steps", "20", "--checkpoint-every", "10", "--metrics-command", _KEEP)
        first = self.metrics()
        self.train("--steps", "30", "--checkpoint-every", "10", "--resume", "auto", "--metrics-command", _KEEP, ranks=2)
        self.assertEqual(first, self.metrics()[:len(first)])
        self.assertEqual(self.metrics(), self.got())
        # Whoever wrote the file died in the middle of the last line: it is made anew, and given to the command.
        lines = self.metrics().splitlines(keepends=True)
        (self.run_folder / "metrics.jsonl").write_bytes(b"".join(lines[:29]) + lines[29][:20])
        (self.run_folder / "got").unlink()
        self.train("--steps", "40", "--checkpoint-every", "10", "--resume", "auto", "--metrics-command", _KEEP)
        self.assertEqual(list(range(30, 41)), [json.loads(line)["step"] for line in self.got().splitlines()])
        self.assertEqual(b"".join(lines[:29]) + self.got(), self.metrics())

    def test_what_asks_the_run_to_end_does_not_end_the_command(self):
        # As ^C at the terminal does: to all of the process group.
        process = self.start("--steps", "1000000", "--metrics-command", f'echo begun; {_KEEP}; sleep 0.1; echo >"$WEFT_RUN_DIR/ended"')
        printed = self.read_up_to(process, "step 1/")
        os.killpg(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(128 + signal.SIGINT, process.returncode, printed + rest)
        self.assertTrue((self.run_folder / "ended").exists())
        self.assertEqual(self.metrics(), self.got())

    def test_one_that_fails_is_named_at_once_and_the_run_goes_on(self):
        for ranks in (1, 2):
            printed = self.train("--steps", "100", "--overwrite", "--metrics-command", "head -n 3 >/dev/null; echo of no use >&2; exit 5",
                                 ranks=ranks, code=_NOT_WRITTEN)
            said = r"(?m)^(?:\[0\] )?weft_train: the command of --metrics-command exited with code 5 and lacks \d+ lines? of metrics.jsonl; see what it printed"
            self.assertEqual(1, len(re.findall(said + "; training goes on$", printed)), printed)
            self.assertEqual(1, len(re.findall(said + "$", printed)), printed)
            self.assertIn("of no use", printed)
            self.assertIn("step 100/100", printed)
            self.assertEqual(100, self.metrics().count(b"\n"))
            self.assertTrue((self.run_folder / "report.html").exists())

    def test_one_that_is_not_there_or_fails_at_its_end(self):
        printed = self.train("--steps", "50", "--metrics-command", "no-such-command --at all", code=_NOT_WRITTEN)
        self.assertIn("exited with code 127", printed)
        printed = self.train("--steps", "5", "--overwrite", "--metrics-command", "cat >/dev/null; exit 1", code=_NOT_WRITTEN)
        self.assertNotIn("training goes on", printed)
        self.assertIn("weft_train: the command of --metrics-command exited with code 1; see what it printed\n", printed)

    def test_a_run_that_fails_ends_the_commands_input(self):
        printed = self.train("--steps", "1000", "--optimizer", "sgd", "--momentum", "0.999", "--lr", "9", "--clip", "0", "--metrics-command",
                             f'{_KEEP}; mv "$WEFT_RUN_DIR/got" "$WEFT_RUN_DIR/all"', code=1)
        self.assertIn("infinite or NaN", printed)
        # Its output is ours, too, so it has ended when there is no more of that.
        self.assertEqual(self.metrics(), self.got("all"), printed)

    def test_the_rank_that_becomes_rank_0_starts_its_own(self):
        process = self.start("--steps", "1000000", "--elastic", "--metrics-command", 'cat >"$WEFT_RUN_DIR/got.$$"', ranks=2, launcher=("--elastic",))
        printed = self.read_up_to(process, "step 50/")
        os.kill(ranks_of(process.pid)[0], signal.SIGKILL)
        printed += self.read_up_to(process, "1 rank goes on from step") + self.read_up_to(process, "/1000000 | ")
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(128 + signal.SIGTERM, process.returncode, printed + rest)
        texts = [path.read_bytes() for path in self.run_folder.glob("got.*")]
        self.assertEqual(2, len(texts), printed + rest)
        first, last = sorted(texts, key=lambda text: json.loads(text.splitlines()[0])["step"])
        self.assertEqual(self.metrics()[-len(last):], last)
        self.assertEqual(self.metrics()[:-len(last)], first[:len(self.metrics()) - len(last)])

    def test_the_example_of_the_page(self):
        """It prints where there is neither package, and logs where there is one."""
        example = re.search(r"(?s)```python\n([^`]*WEFT_RUN_DIR[^`]*)```", pathlib.Path(page).read_text(encoding="utf-8")).group(1)
        (self.root / "log.py").write_text(example)
        printed = self.train("--steps", "3", "--metrics-command", f"{sys.executable} -S log.py")
        steps = re.findall(r"(?m)^(\d+) \{.*'loss': ([\d.]+)", printed)
        want = [json.loads(line) for line in self.metrics().splitlines()]
        self.assertEqual([(line["step"], line["loss"]) for line in want], [(int(step), float(loss)) for step, loss in steps], printed)
        (self.root / "wandb.py").write_text(
            "import json\nclass Run:\n    def log(self, figures, step):\n        print('logged', json.dumps([step, figures]))\n"
            "def init(project, id, resume):\n    print('began', project, id, resume)\n    return Run()\n")
        printed = self.train("--steps", "3", "--overwrite", "--metrics-command", f"{sys.executable} log.py")
        self.assertIn("began weft a allow\n", printed)
        logged = [json.loads(text) for text in re.findall(r"(?m)^logged (.*)$", printed)]
        want = [json.loads(line) for line in self.metrics().splitlines()]
        self.assertEqual([line["step"] for line in want], [step for step, _ in logged])
        for line, (_, figures) in zip(want, logged):
            self.assertEqual({name: value for name, value in line.items() if isinstance(value, (int, float))}, figures)


if __name__ == "__main__":
    weftrun, weft_train, page = (os.path.abspath(path) for path in sys.argv[1:4])
    del sys.argv[1:4]
    unittest.main()
