"""weft_train on a disk that is full, or fills up: what was not written does not count as written, whatever ends the run."""
import json
import os
import pathlib
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
_NOT_WRITTEN = 74
_TINY = ("--seq", "16", "--layers", "1", "--heads", "1", "--width", "16", "--batch", "4", "--eval-every", "0", "--warmup", "2")
# Saved, 1.2 MB with AdamW's state: more than any disk of these tests has room for beside what else a run writes.
_LARGE = ("--seq", "16", "--layers", "2", "--heads", "4", "--width", "64", "--batch", "4", "--eval-every", "0", "--warmup", "2")
# A file system of so many bytes on ./disk, for what follows and its children.
_WITH_DISK = 'mount -t tmpfs -o size=$0 none disk && exec "$@"'


def own_mounts():
    """The command that runs another one where it may mount; None if this user may not."""
    for command in (["unshare", "--mount"], ["unshare", "--mount", "--user", "--map-root-user"]):
        if shutil.which("unshare") and subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], stdout=subprocess.DEVNULL,
                                                      stderr=subprocess.DEVNULL, check=False, timeout=_DEADLINE_S).returncode == 0:
            return command
    return None


class FullDiskTest(unittest.TestCase):

    def setUp(self):
        self.mounts = own_mounts()
        if self.mounts is None:
            self.skipTest("this user may not mount a file system")
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "disk").mkdir()
        (self.directory / "text").write_text("".join(f"int v{i} = {i * 7919 % 997};\n" for i in range(2000)))

    def start(self, size, *arguments, ranks=1, before=":"):
        """weft_train with a disk of `size` for what it writes; `before` is a shell command that runs there first."""
        launched = [weftrun, "-n", str(ranks), weft_train] if ranks > 1 else [weft_train]
        command = [*self.mounts, "sh", "-c", _WITH_DISK, size, "sh", "-c", f'{before}; "$0" "$@"; code=$?; cp -r disk left; exit $code',
                   *launched, "--data", "text", "--run-dir", "disk", "--name", "run", *arguments]
        process = subprocess.Popen(command, cwd=self.directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   start_new_session=True)
        self.addCleanup(process.stdout.close)
        watchdog = threading.Timer(_DEADLINE_S, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        self.addCleanup(watchdog.cancel)
        return process

    def run_it(self, code, size, *arguments, **settings):
        process = self.start(size, *arguments, **settings)
        printed, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(code, process.returncode, printed)
        return printed

    def left(self):
        return self.directory / "left" / "run"

    def test_metrics_that_do_not_fit(self):
        for ranks in (1, 2):
            shutil.rmtree(self.directory / "left", ignore_errors=True)
            printed = self.run_it(_NOT_WRITTEN, "48k", *_TINY, "--steps", "400", ranks=ranks)
            # Said once while it trains, and at its end; training comes to its end all the same.
            self.assertEqual(1, len(re.findall(r"metrics.jsonl lacks \d+ of its lines: No space left on device; training goes on", printed)), printed)
            self.assertRegex(printed, r"metrics.jsonl lacks \d+ of its lines: No space left on device\n")
            self.assertIn("step 400/400", printed)
            lines = (self.left() / "metrics.jsonl").read_text().split("\n")
            self.assertEqual(list(range(1, len(lines))), [json.loads(line)["step"] for line in lines[:-1]])
            self.assertLess(len(lines), 400)

    def test_a_disk_that_was_full_for_a_while_costs_no_line(self):
        # Steps that take their time: there is room again before the run is over.
        slow = list(_TINY)
        slow[slow.index("--batch") + 1] = "64"
        process = self.start("384k", *slow, "--steps", "500", before="head -c 352k /dev/zero >disk/ballast")
        printed = ""
        for line in process.stdout:
            printed += line
            if "training goes on" in line:
                break
        # The process that the launching shell has become is in the namespace where the disk is.
        ballast = pathlib.Path(f"/proc/{process.pid}/root{self.directory}/disk/ballast")
        self.assertTrue(ballast.exists(), printed)
        ballast.unlink()
        rest, _ = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(0, process.returncode, printed + rest)
        with open(self.left() / "metrics.jsonl", encoding="utf-8") as file:
            self.assertEqual(list(range(1, 501)), [json.loads(line)["step"] for line in file])

    def test_the_last_checkpoint_does_not_fit(self):
        for ranks in (1, 2):
            shutil.rmtree(self.directory / "left", ignore_errors=True)
            printed = self.run_it(_NOT_WRITTEN, "256k", *_LARGE, "--steps", "20", "--checkpoint-every", "5", ranks=ranks)
            self.assertIn("step 20/20", printed)
            self.assertRegex(printed, r"the checkpoint of step 20 was not saved: .*No space left on device")
            self.assertTrue((self.left() / "loss.svg").exists())

    def test_asked_to_end_where_nothing_can_be_saved(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            shutil.rmtree(self.directory / "left", ignore_errors=True)
            process = self.start("512k", *_LARGE, "--steps", "1000000", "--checkpoint-every", "1000000", ranks=2)
            printed = ""
            for line in process.stdout:
                printed += line
                if "step 1/" in line:
                    break
            launcher, deadline = None, time.monotonic() + _DEADLINE_S
            while launcher is None and time.monotonic() < deadline:
                launcher = self.launcher_below(process.pid)
            os.kill(sorted(ranks_of(launcher).values())[0], number)
            rest, _ = process.communicate(timeout=_DEADLINE_S)
            printed += rest
            self.assertEqual(_NOT_WRITTEN, process.returncode, printed)
            self.assertRegex(printed, r"asked to end: stopped after step \d+, which could not be saved")
            self.assertNotIn("which is saved", printed)

    @staticmethod
    def launcher_below(shell):
        """The weftrun that the shell has started."""
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == shell and ranks_of(int(entry)):
                return int(entry)
        return None

    def test_pictures_that_do_not_fit_are_named_and_the_rest_is_there(self):
        printed = self.run_it(_NOT_WRITTEN, "8k", *_TINY, "--steps", "10")
        self.assertRegex(printed, r"cannot write to disk/run/loss.svg: No space left on device")
        for name in ("sample.txt", "report.html", "report.md"):
            self.assertRegex(printed, rf"cannot write to disk/run/{name}: No space left on device")
        self.assertRegex(printed, r"wrote  disk/run/metrics.jsonl\n")
        self.assertRegex(printed, r"valid  \d+\.\d+ nats per byte")
        self.assertFalse((self.left() / "loss.svg").exists())

    def test_no_room_for_the_run_itself_ends_it_before_the_first_step(self):
        for ranks in (1, 2):
            printed = self.run_it(_NOT_WRITTEN, "8k", *_TINY, "--steps", "10", ranks=ranks,
                                  before="mount -o remount,nr_inodes=1 disk")
            self.assertRegex(printed, r"weft_train: cannot write to disk/run.*: No space left on device; make room, or choose another --run-dir")
            self.assertEqual(1, len(re.findall(r"(?m)^(?:\[\d\] )?weft_train: ", printed)), printed)
            self.assertNotIn("step 1/", printed)


if __name__ == "__main__":
    weftrun, weft_train = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
