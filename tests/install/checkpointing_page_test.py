"""The program in docs/checkpointing.md compiles, is stopped, goes on with fewer ranks, and prints what the page says; so does the trainer."""
import json
import os
import re
import signal
import subprocess
import time

from page_blocks import block
from page_test_case import PageTestCase, main

_DEADLINE_S = 120


class Checkpointing(PageTestCase):
    page_name = "checkpointing.md"

    def weftrun(self, ranks, *command):
        return subprocess.run([self.build / "bin" / "weftrun", "-n", str(ranks), *map(str, command)], cwd=self.folder,
                              env=dict(os.environ, WEFT_TIMEOUT_S="60"), capture_output=True, text=True, timeout=_DEADLINE_S)

    def test_the_program_goes_on_with_fewer_ranks(self):
        self.compiled(block(self.page, "c"), "resume.c")
        printed = ""
        for ranks, steps in ((3, 25), (2, 40)):
            ended = self.weftrun(ranks, "./resume", steps)
            self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)
            printed += ended.stdout
        self.assertEqual(block(self.page, "text"), printed)

    def test_four_ranks_are_stopped_and_two_go_on(self):
        commands = [line.replace("--steps 400", "") for line in self.page.splitlines() if line.startswith("weftrun -n") and "--name moved" in line]
        # Smaller than on the page, and text that is the same everywhere.
        (self.folder / "text").write_text("a rank is a process of the job; a group has ranks. " * 400)
        small = ["--data", "text", "--seq", "16", "--layers", "2", "--width", "16", "--heads", "2"]
        first, second = (line.rstrip(" &").split() for line in commands)
        launcher = subprocess.Popen([self.build / "bin" / "weftrun", *first[1:3], self.build / "bin" / "weft_train", *first[4:],
                                     *small, "--steps", "100000"], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        for line in launcher.stdout:
            if "step 1/" in line:
                break
        time.sleep(0.2)
        launcher.send_signal(signal.SIGTERM)
        printed, _ = launcher.communicate(timeout=_DEADLINE_S)
        self.assertEqual(143, launcher.returncode, printed)
        stopped = int(re.search(r"stopped after step (\d+)", printed)[1])
        steps = stopped + 30
        ended = self.weftrun(2, self.build / "bin" / "weft_train", *second[4:], *small, "--steps", steps)
        self.assertEqual(0, ended.returncode, ended.stdout + ended.stderr)
        self.assertIn(f"2 ranks go on after step {stopped}", ended.stdout)
        lines = (self.folder / "runs" / "moved" / "metrics.jsonl").read_text().splitlines()
        self.assertEqual(list(range(1, steps + 1)), [json.loads(line)["step"] for line in lines])
        self.assertTrue((self.folder / "runs" / "moved" / "loss.svg").exists())


if __name__ == "__main__":
    main()
