"""Jobs: ranks answer, sleep between their turns, and a rank that fails, is late or ends is named."""
import os
import pathlib
import sys
import tempfile
import time
import unittest

import samples
from bench.compare.jobs import Job, JobFailed

# A launcher with ranks that do what they are told. %d: the number of ranks.
_RANKS = """
import json, os, subprocess, sys, time
size = int(sys.argv[1])
if len(sys.argv) == 2:
    ranks = [subprocess.Popen([sys.executable, "-c", os.environ["RANKS"], str(size), str(r)]) for r in range(size)]
    sys.exit(max(rank.wait() for rank in ranks))
rank, folder = int(sys.argv[2]), os.environ["COMPARE_PIPES"]
answers = open(f"{folder}/answer.{rank}", "w")
def say(answer): print(json.dumps(answer), file=answers, flush=True)
say({"pid": os.getpid(), "size": size, "version": "fake 1"})
for line in open(f"{folder}/command.{rank}"):
    if line == "quit\\n": break
    if line == "fail\\n" and rank == 1: say({"failure": "no luck"}); sys.exit(1)
    if line == "die\\n": print("last words", flush=True); sys.exit(3)
    if line == "stay\\n" and rank == 1: time.sleep(600)
    if line == "take\\n": taken = bytearray(64 << 20); del taken
    if line == "count\\n":
        # What a spinning thread would do.
        import threading; threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
    say({"rank": rank, "line": line.strip()})
"""


class Jobs(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        environment = dict(os.environ, RANKS=_RANKS)
        self.job = Job("fake/default", [sys.executable, "-c", _RANKS, "2"], environment, 2, pathlib.Path(self._folder.name, "job"))

    def tearDown(self):
        self.job.end()
        self._folder.cleanup()

    def test_every_rank_answers_every_command(self):
        self.job.start(60)
        self.assertEqual("fake 1", self.job.version)
        for line in ("a b", "c"):
            self.assertEqual([{"rank": 0, "line": line}, {"rank": 1, "line": line}], self.job.ask(line, 60))

    def test_ranks_use_no_time_between_their_turns(self):
        self.job.start(60)
        self.job.ask("count", 60)
        before = self.job.cpu_seconds()
        time.sleep(0.3)
        self.assertLess(self.job.cpu_seconds() - before, 0.05)
        self.assertEqual(2, len(self.job.ask("still there", 60)))

    def test_peaks_are_of_each_rank_and_can_be_forgotten(self):
        self.job.start(60)
        self.job.ask("take", 60)
        for peak in self.job.peak_bytes():
            self.assertGreater(peak, 64 << 20)
        self.job.forget_peak()
        for peak in self.job.peak_bytes():
            self.assertLess(peak, 64 << 20)

    def test_a_rank_that_has_ended_has_no_peak(self):
        self.job.start(60)
        with self.assertRaises(JobFailed):
            self.job.ask("die", 60)
        with self.assertRaisesRegex(JobFailed, "rank 0 has ended"):
            self.job.peak_bytes()

    def test_a_failure_names_job_and_rank(self):
        self.job.start(60)
        with self.assertRaisesRegex(JobFailed, "fake/default: rank 1 failed: no luck"):
            self.job.ask("fail", 60)

    def test_an_end_is_found_and_says_the_last_words(self):
        self.job.start(60)
        with self.assertRaisesRegex(JobFailed, r"fake/default ended with code 3 \(die\): last words"):
            self.job.ask("die", 60)

    def test_a_late_rank_is_named(self):
        self.job.start(60)
        with self.assertRaisesRegex(JobFailed, r"fake/default: no answer of ranks \[1\] within 1 s \(stay\)"):
            self.job.ask("stay", 1)

    def test_a_launcher_that_is_not_there_is_a_failure(self):
        job = Job("none/default", ["/proc/none/launcher"], dict(os.environ), 2, pathlib.Path(self._folder.name, "none"))
        with self.assertRaisesRegex(JobFailed, "none/default"):
            job.start(10)
        job.end()

    def test_nothing_is_left(self):
        self.job.start(60)
        pids = list(self.job._pids)
        self.job.end()
        self.assertEqual([], os.listdir(self._folder.name))
        for pid in pids:
            self.assertFalse(pathlib.Path(f"/proc/{pid}").exists())


if __name__ == "__main__":
    print("tree:", samples.ROOT)
    unittest.main()
