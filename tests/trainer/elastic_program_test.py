"""weft_train --elastic under weftrun --elastic: ranks are killed at random moments, come again, and every step is done and written once."""
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from launched_ranks import ranks_of

weftrun, weft_train = None, None  # from the command line

_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_STEPS = 3000


class ElasticProgramTest(unittest.TestCase):

    def setUp(self):
        self.seed = int(os.environ.get("WEFT_TEST_SEED", time.time_ns() % 10**9))
        print(f"WEFT_TEST_SEED={self.seed}", flush=True)
        self.random = random.Random(self.seed)
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        with open(os.path.join(self.directory.name, "text"), "w", encoding="utf-8") as file:
            file.write("".join(self.random.choice(_WORDS) for _ in range(5000)))

    def start(self, name, *more, launcher=("--elastic",)):
        command = [weftrun, "-n", "3", *launcher, weft_train, "--data", "text", "--name", name, "--steps", str(_STEPS),
                   "--seq", "16", "--layers", "2", "--heads", "3", "--width", "15", "--batch", "6", "--eval-every", "50", *more]
        process = subprocess.Popen(command, cwd=self.directory.name, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        watchdog = threading.Timer(120, process.kill)
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def kill_some(self, name, count, *more):
        """What is printed by a run in which so many ranks are killed once it has made a step."""
        process = self.start(name, "--elastic", *more)
        printed = ""
        for line in process.stdout:
            printed += line
            if "step 1/" in line:
                break
        killed = []
        for _ in range(count):
            time.sleep(self.random.uniform(0, 0.1))
            # One that was killed may be there for a moment.
            rank, pid = self.random.choice(sorted(set(ranks_of(process.pid).items()) - set(killed)))
            os.kill(pid, signal.SIGKILL)
            killed.append((rank, pid))
        printed += process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(), 0, printed)
        return killed, printed

    def check_metrics(self, name):
        with open(os.path.join(self.directory.name, "runs", name, "metrics.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        self.assertEqual([line["step"] for line in lines], list(range(1, _STEPS + 1)))
        self.assertEqual([line["step"] for line in lines if "val_loss" in line], list(range(50, _STEPS + 1, 50)))
        times = [line["time_ns"] for line in lines]
        self.assertEqual(times, sorted(times))

    def test_the_others_go_on(self):
        for round_ in range(6):
            count = 1 + round_ % 2
            # Optimizer state may be in files.
            more = ("--offload", self.directory.name) if round_ % 3 == 2 else ()
            killed, printed = self.kill_some(f"run{round_}", count, *more)
            for rank, pid in killed:
                self.assertIn(f"weftrun: rank {rank} (pid {pid}) killed by signal 9 (SIGKILL) and is lost; ", printed)
            left = 3 - count
            self.assertRegex(printed, rf"rank {killed[0][0]} \(pid {killed[0][1]}\)|rank {killed[-1][0]} \(pid {killed[-1][1]}\)")
            self.assertRegex(printed, rf"\[\d\] rank \d \(pid \d+\)( and 1 more)? was lost at step \d+; {left} "
                                      rf"ranks? goe?s? on from step \d+ with the weights of step \d+, 6 sequences a step, {6 // left} on each rank")
            self.assertIn(f"weftrun: {left} of 3 ranks ended well; lost: ", printed)
            self.check_metrics(f"run{round_}")

    def test_the_lost_are_replaced(self):
        """Any rank, also one that has come in place of another: a new one is taken in while the others train."""
        process = self.start("again", "--elastic", launcher=("--elastic", "--max-restarts", "3"))
        printed, killed = "", []
        for line in process.stdout:
            printed += line
            if "step 1/" in line or ("weftrun: rank" in line and "has joined" in line and len(killed) < 3):
                time.sleep(self.random.uniform(0, 0.1))
                rank = self.random.choice((0, 1, 2) if not killed else (0, killed[-1][0]))
                killed.append((rank, ranks_of(process.pid)[rank]))
                os.kill(killed[-1][1], signal.SIGKILL)
        process.stdout.close()
        self.assertEqual(process.wait(), 0, printed)
        self.assertEqual(len(killed), 3, printed)
        for number, (rank, pid) in enumerate(killed):
            self.assertRegex(printed, rf"weftrun: rank {rank} .*\(pid {pid}\) killed by signal 9 \(SIGKILL\) and is lost; 2 of 3 "
                                      rf"ranks are left; starting it again \({number + 1} of at most 3\)")
            self.assertRegex(printed, rf"\[\d\] rank {rank} \(pid {pid}\) was lost at step \d+; 2 ranks go on from step \d+ with the "
                                      r"weights of step \d+, 6 sequences a step, 3 on each rank")
        # One may be killed when it is in the group, and before the others have gone on with it; the last one is not.
        joined = re.findall(r"\[\d\] a new rank has joined at step \d+; 3 ranks go on from step \d+ with the weights of step "
                            r"\d+, 6 sequences a step, 2 on each rank", printed)
        self.assertTrue(1 <= len(joined) <= 3, printed)
        self.assertEqual(re.findall(r"(\d) ranks go on from step", printed)[-1], "3", printed)
        self.assertIn("weftrun: 3 of 3 ranks ended well; lost: ", printed)
        self.check_metrics("again")

    def test_without_the_option_of_the_trainer_the_run_ends(self):
        process = self.start("plain")
        for line in process.stdout:
            if "step 1/" in line:
                break
        os.kill(ranks_of(process.pid)[1], signal.SIGKILL)
        printed = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(), 1, printed)
        self.assertRegex(printed, r"rank 1 .*\(SIGKILL\)")

    def test_only_ddp_can(self):
        process = self.start("zero", "--elastic", "--strategy", "zero1")
        printed = process.stdout.read()
        process.stdout.close()
        self.assertEqual(process.wait(), 2, printed)
        self.assertIn("--elastic needs --strategy ddp", printed)


if __name__ == "__main__":
    weftrun, weft_train = sys.argv[1:3]
    del sys.argv[1:3]
    unittest.main()
