"""weftrun and ranks that exit because they were asked to end: the others may save what they have, and nothing starts again."""
import signal
import time

import launched
from launched import LaunchedTest, ends_soon, rank

_ASKED = "rank {} was asked to end and exited with code {}"
# Notes that it was asked to end; `leave` is what a program does then.
_HANDLES = ("asked = []\n"
            "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, lambda n, f: asked.append(n))\n"
            "def leave(seconds):\n"
            "    time.sleep(seconds)\n"
            "    say('saved')\n"
            "    os._exit(128 + asked[0])\n")


class AfterTheFirst(LaunchedTest):
    def test_the_others_end_when_they_have_saved(self):
        jobs = [(code, self.launch("-n", 3, "--max-restarts", 3, *rank(
            f"if rank == 1: sys.exit({code})\n"
            f"time.sleep(3 if rank == 0 else 8)\nsay('saved')\nsys.exit({code})"))) for code in (143, 130, 129)]
        for code, run in jobs:
            with self.subTest(code):
                exit_code, out, err = run.finish()
                self.assertEqual((code, ["[0] saved", "[2] saved"]), (exit_code, sorted(out)), err)
                self.assertRegex(err[0], rf"^weftrun: rank 1 \(pid \d+\) was asked to end and exited with code {code}; "
                                         r"the others have 120 s to end by themselves$")
                self.assertRegex(err[1], "^weftrun: waiting for (ranks 0,|rank) 2 to end, 120 s in all$")
                self.assertEqual(["weftrun: " + _ASKED.format(1, code),
                                  f"weftrun: the others: ranks 0, 2 exited with code {code}"], err[2:])

    def test_one_rank_needs_no_other(self):
        self.assertEqual((143, [], ["weftrun: " + _ASKED.format(0, 143)]),
                         self.run_to_end("-n", 1, "--max-restarts", 3, *rank("sys.exit(143)")))

    def test_who_does_not_end_in_time_is_ended(self):
        run = self.launch("-n", 3, "--stop-grace", 1, *rank(
            "import subprocess\n" + _HANDLES +
            "if rank == 2: signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
            "child = subprocess.Popen(['sleep', '1000'])\n"
            "say('pids', os.getpid(), child.pid)\n"
            "if rank == 0: time.sleep(0.5); os._exit(143)\n"
            "while not asked: time.sleep(0.05)\nleave(0)"))
        pids = [int(word) for line in run.wait_for(3, "pids") for word in line.split()[2:]]
        code, out, err = run.finish()
        self.assertEqual(143, code)
        self.assertIn("[1] saved", out)
        self.assertIn("weftrun: the 1 s of --stop-grace are over; ending ranks 1, 2", err)
        self.assertIn("weftrun: killing the ranks that SIGTERM did not end", err)
        self.assertIn("weftrun: rank 2 did not end well: killed by signal 9 (SIGKILL)", err)
        self.assertEqual("weftrun: the others: rank 1 exited with code 143; rank 2 killed by signal 9 (SIGKILL)", err[-1])
        self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for pid in pids))

    def test_who_fails_meanwhile_is_named(self):
        code, _, err = self.run_to_end("-n", 3, "--max-restarts", 1, *rank(
            "if rank == 0: sys.exit(143)\ntime.sleep(0.5)\nif rank == 1: say('no space left'); sys.exit(5)"))
        self.assertEqual(143, code)
        self.assertEqual(["weftrun: " + _ASKED.format(0, 143), "weftrun: rank 1 did not end well: exited with code 5",
                          "weftrun: its last line:", "weftrun:   | no space left",
                          "weftrun: the others: rank 2 exited with code 0; rank 1 exited with code 5"], err[1:])

    def test_what_weftrun_itself_has_ended_was_not_asked(self):
        # In the first round rank 0 fails, and rank 1 ends as it is told to then: that is a failure like any other.
        code, out, err = self.run_to_end("-n", 2, "--max-restarts", 1, *rank(
            _HANDLES + "if os.environ['WEFT_RESTART_COUNT'] == '1': sys.exit(0)\n"
            "if rank == 0: sys.exit(7)\nwhile not asked: time.sleep(0.05)\nleave(0)"))
        self.assertEqual((0, ["[1] saved"]), (code, out), err)
        self.assertIn("weftrun: rank 0 failed first: exited with code 7", err)
        self.assertIn("weftrun: restart 1 of at most 1", err)

    def test_who_is_killed_by_the_signal_has_failed(self):
        code, _, err = self.run_to_end("-n", 2, "--max-restarts", 1, *rank(
            "if os.environ['WEFT_RESTART_COUNT'] == '1': sys.exit(0)\n"
            "if rank == 0: os.kill(os.getpid(), signal.SIGTERM)\nsignal.pause()"))
        self.assertEqual(0, code, err)
        self.assertIn("weftrun: rank 0 failed first: killed by signal 15 (SIGTERM)", err)

    def test_elastic_ranks_end_together(self):
        code, out, err = self.run_to_end("-n", 3, "--elastic", "--max-restarts", 5, *rank(
            "say('began')\nif rank == 1: sys.exit(143)\ntime.sleep(3)\nsay('saved')\nsys.exit(143)"))
        self.assertEqual((143, 3, 2), (code, sum("began" in line for line in out), sum("saved" in line for line in out)), err)
        self.assertEqual(["weftrun: " + _ASKED.format(1, 143), "weftrun: the others: ranks 0, 2 exited with code 143"], err[1:])


class SignalsToWeftrun(LaunchedTest):
    def test_ranks_save_and_end_with_its_code(self):
        jobs = [(number, self.launch("-n", 2, "--max-restarts", 3, *rank(
            _HANDLES + "say('ready')\nwhile not asked: time.sleep(0.05)\nleave(3 * rank)")))
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        for number, run in jobs:
            run.wait_for(2, "ready")
            run.process.send_signal(number)
        for number, run in jobs:
            with self.subTest(number.name):
                code, out, err = run.finish()
                self.assertEqual(128 + number, code)
                self.assertEqual(4, len(out), "all save, and none starts again")
                self.assertEqual([f"weftrun: {_ASKED.format(0, 128 + number)}, after {number.name} to weftrun",
                                  f"weftrun: the others: rank 1 exited with code {128 + number}"], err)

    def test_a_later_one_kills_whoever_asked_first(self):
        # Rank 0 was asked; then weftrun is, and passes it on; then it is asked again.
        run = self.launch("-n", 2, *rank(
            "signal.signal(signal.SIGTERM, lambda n, f: say('asked'))\nsay('ready')\n"
            "if rank == 0: time.sleep(0.5); os._exit(143)\nwhile True: time.sleep(0.05)"))
        run.wait_for(1, "the others have 120 s", "err")
        run.wait_for(2, "ready")
        run.process.terminate()
        run.wait_for(1, "asked")
        time.sleep(launched.ONE_STOP_S + 0.1)
        started = time.monotonic()
        run.process.terminate()
        code, _, err = run.finish()
        self.assertEqual(143, code)
        self.assertLess(time.monotonic() - started, launched.DEADLINE_S / 2)
        self.assertIn("weftrun: killing the ranks: SIGTERM after SIGTERM", err)
        self.assertIn("weftrun: rank 1 did not end well: killed by signal 9 (SIGKILL)", err)

    def test_one_that_comes_while_the_ranks_end_after_a_failure_is_the_end(self):
        run = self.launch("-n", 2, "--max-restarts", 3, *rank(
            "signal.signal(signal.SIGUSR1, lambda n, f: rank == 1 and os._exit(9))\nsay('began')\nwhile True: time.sleep(0.05)"))
        run.wait_for(2, "began")
        run.process.send_signal(signal.SIGUSR1)
        run.wait_for(1, "the others have 2 s", "err")
        run.process.terminate()
        code, out, err = run.finish()
        self.assertEqual((9, 2), (code, len(out)), err)
        self.assertIn("weftrun: rank 1 failed first: exited with code 9, after SIGTERM to weftrun", err)


class WhatCouldNotBeWritten(LaunchedTest):
    """A rank that exits with 74, EX_IOERR: nothing may hide that."""

    def test_nothing_starts_again(self):
        for options in (("--max-restarts", 3), ("--elastic", "--max-restarts", 3)):
            with self.subTest(options):
                code, out, err = self.run_to_end("-n", 3, *options, *rank(
                    "say('began')\nif rank == 1: print('the disk is full', file=sys.stderr); sys.exit(74)\nsignal.pause()"))
                self.assertEqual((74, 3), (code, len(out)), err)
                self.assertIn("weftrun: rank 1 failed first: exited with code 74", err)
                self.assertIn("weftrun:   | the disk is full", err)

    def test_it_counts_for_more_than_that_another_rank_was_asked_to_end(self):
        run = self.launch("-n", 3, "--max-restarts", 3, *rank(
            "if rank == 0: sys.exit(143)\n"
            "signal.signal(signal.SIGUSR1, lambda n, f: os._exit(74 if rank == 1 else 143))\n"
            "say('ready')\nwhile True: time.sleep(0.05)"))
        run.wait_for(2, "ready")
        run.wait_for(1, "the others have 120 s", "err")
        run.process.send_signal(signal.SIGUSR1)
        code, _, err = run.finish()
        self.assertEqual(74, code, err)
        self.assertIn("weftrun: rank 1 did not end well: exited with code 74", err)

    def test_after_a_signal_to_weftrun(self):
        run = self.launch("-n", 2, "--max-restarts", 3, *rank(
            _HANDLES + "say('ready')\nwhile not asked: time.sleep(0.05)\nos._exit(143 if rank == 0 else 74)"))
        run.wait_for(2, "ready")
        run.process.terminate()
        code, out, err = run.finish()
        self.assertEqual((74, 2), (code, len(out)), err)


if __name__ == "__main__":
    launched.main()
