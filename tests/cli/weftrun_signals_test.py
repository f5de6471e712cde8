"""weftrun: which signals reach whom, and what is left after a kill."""
import os
import signal
import time

import launched
from launched import LaunchedTest, ends_soon, rank


class Forwarding(LaunchedTest):
    def test_each_signal_reaches_each_rank_once(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number.name):
                run = self.launch("-n", 3, *rank(
                    f"signal.signal({int(number)}, lambda n, f: (say('got it'), sys.exit(0)))\n"
                    "say('ready')\nwhile True: time.sleep(0.05)"))
                run.wait_for(3, "ready")
                run.process.send_signal(number)
                code, out, err = run.finish()
                self.assertEqual(0, code)
                self.assertEqual(["[0] got it", "[1] got it", "[2] got it"], sorted(line for line in out if "got it" in line))
                self.assertEqual([f"weftrun: all ranks ended well after {number.name}"], err)

    def test_user_signals_do_not_end_anything(self):
        run = self.launch("-n", 2, *rank(
            "signal.signal(signal.SIGUSR1, lambda n, f: say('usr1'))\n"
            "signal.signal(signal.SIGUSR2, lambda n, f: sys.exit(0))\n"
            "say('ready')\nwhile True: time.sleep(0.05)"))
        run.wait_for(2, "ready")
        run.process.send_signal(signal.SIGUSR1)
        run.wait_for(2, "usr1")
        run.process.send_signal(signal.SIGUSR2)
        self.assertEqual((0, []), run.finish()[::2])

    def test_an_unhandled_sigterm_is_the_reason_of_the_end(self):
        run = self.launch("-n", 2, "--max-restarts", 5, *rank("say('ready'); signal.pause()"))
        run.wait_for(2, "ready")
        run.process.terminate()
        code, out, err = run.finish()
        self.assertEqual(143, code)
        self.assertEqual(2, len(out), "a job that was asked to end does not restart")
        self.assertTrue(any("killed by signal 15 (SIGTERM), after SIGTERM to weftrun" in line for line in err), err)

    # Ranks that heed no signal, and one process each that they have started.
    _STUBBORN = ("import subprocess\n"
                 "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, signal.SIG_IGN)\n"
                 "child = subprocess.Popen(['sleep', '1000'])\n"
                 "say('pids', os.getpid(), child.pid)\nwhile True: time.sleep(100)")

    def stubborn(self, *options):
        run = self.launch("-n", 2, *options, *rank(self._STUBBORN))
        pids = [int(word) for line in run.wait_for(2, "pids") for word in line.split()[2:]]
        return run, pids

    def test_ranks_that_do_not_end_within_the_grace_are_killed(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with self.subTest(number.name):
                run, pids = self.stubborn("--stop-grace", 1)
                run.process.send_signal(number)
                code, _, err = run.finish()
                self.assertEqual(137, code)
                self.assertIn(f"weftrun: killing the ranks that {number.name} did not end within 1 s", err)
                self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for pid in pids))

    def test_without_a_grace_they_are_killed_at_once(self):
        run, pids = self.stubborn("--stop-grace", 0)
        run.process.terminate()
        self.assertEqual(137, run.finish()[0])
        self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for pid in pids))

    def test_whoever_asks_again_does_not_wait(self):
        cases = [(signal.SIGTERM, signal.SIGTERM), (signal.SIGTERM, signal.SIGINT), (signal.SIGINT, signal.SIGINT), (signal.SIGHUP, signal.SIGTERM)]
        runs = [self.launch("-n", 2, "--stop-grace", 86400, *rank(
            "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, lambda n, f: say('asked'))\n"
            "say('ready')\nwhile True: time.sleep(0.05)")) for _ in cases]
        for run, (first, _) in zip(runs, cases):
            run.wait_for(2, "ready")
            run.process.send_signal(first)
        for run in runs:
            run.wait_for(2, "asked")
        time.sleep(launched.ONE_STOP_S + 0.1)
        for run, (first, second) in zip(runs, cases):
            run.process.send_signal(second)
            code, _, err = run.finish()
            self.assertEqual(137, code)
            self.assertIn(f"weftrun: killing the ranks: {second.name} after {first.name}", err)

    # Ranks that count what they get and end when they are told to by SIGCONT, which weftrun takes after signals of lower numbers.
    _COUNTS = ("got = []\n"
               "for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(number, lambda n, f: got.append(n))\n"
               "signal.signal(signal.SIGCONT, lambda n, f: (say('got', sorted(got)), os._exit(128 + got[0])))\n"
               "say('ready', os.getpid())\nwhile True: time.sleep(0.05)")

    def stop_counting_ranks(self, *numbers):
        """Two ranks and the signals, all of them within the time of one request; on a machine that was too slow for that, again."""
        for _ in range(10):
            run = self.launch("-n", 2, "--stop-grace", 86400, *rank(self._COUNTS))
            run.wait_for(2, "ready")
            began = time.monotonic()
            for number in numbers:
                launched.send_and_see_taken(run.process.pid, number)
            took = time.monotonic() - began
            if took < launched.ONE_STOP_S:
                run.process.send_signal(signal.SIGCONT)
                return run
            run.process.kill()
            run.finish()
        self.fail(f"{len(numbers)} signals take {took:.1f} s")

    def test_all_signals_of_one_stop_are_one_request_and_ranks_get_each_once(self):
        term, interrupt, hang_up = int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGHUP)
        for sent, gotten in (([term] * 5, [term]), ([interrupt] * 3, [interrupt]), ([hang_up, term, hang_up, term], [hang_up, term])):
            with self.subTest(sent):
                code, out, err = self.stop_counting_ranks(*map(signal.Signals, sent)).finish()
                self.assertEqual(128 + sent[0], code, err)
                self.assertEqual([f"[{number}] got {gotten}" for number in (0, 1)], sorted(line for line in out if "got" in line))
                self.assertFalse(any("killing" in line for line in err), err)

    def test_a_rank_that_ends_at_once_does_not_shorten_the_grace_of_others(self):
        run = self.launch("-n", 2, "--stop-grace", 86400, *rank(
            "asked = []\n"
            "signal.signal(signal.SIGTERM, lambda n, f: (asked.append(n), rank == 0 and os._exit(3)))\n"
            "say('ready')\nwhile not asked: time.sleep(0.05)\n"
            "time.sleep(3)\nsay('asked', len(asked))"))
        run.wait_for(2, "ready")
        run.process.terminate()
        code, out, _ = run.finish()
        self.assertEqual(3, code)
        self.assertIn("[1] asked 1", out)

    def test_ranks_start_with_the_signals_of_any_program(self):
        code, out, _ = self.run_to_end("-n", 1, *rank(
            "status = dict(line.split(':\\t') for line in open('/proc/self/status').read().splitlines() if line.startswith('Sig'))\n"
            "say('blocked', int(status['SigBlk'], 16))"))
        self.assertEqual((0, ["[0] blocked 0"]), (code, out))


class Kills(LaunchedTest):
    _WITH_CHILD = ("import subprocess\n"
                   "child = subprocess.Popen(['sleep', '1000'])\n"
                   "say('pids', os.getpid(), child.pid)\nsignal.pause()")

    def pids(self, run, count):
        return {int(line[1:line.index("]")]): list(map(int, line.split()[2:])) for line in run.wait_for(count, "pids")}

    def test_a_killed_rank_is_named_and_its_children_go(self):
        run = self.launch("-n", 2, *rank(self._WITH_CHILD))
        pids = self.pids(run, 2)
        os.kill(pids[1][0], signal.SIGKILL)
        code, _, err = run.finish()
        self.assertEqual(137, code)
        self.assertIn("weftrun: rank 1 failed first: killed by signal 9 (SIGKILL)", err)
        self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for own in pids.values() for pid in own))

    def test_nothing_outlives_a_killed_weftrun(self):
        run = self.launch("-n", 3, *rank(self._WITH_CHILD))
        pids = self.pids(run, 3)
        run.process.kill()
        run.finish()
        self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for own in pids.values() for pid in own))

    def test_a_stopped_rank_is_ended_too(self):
        run = self.launch("-n", 2, *rank("say('pids', os.getpid())\nsignal.pause()"))
        pids = self.pids(run, 2)
        os.kill(pids[0][0], signal.SIGSTOP)
        os.kill(pids[1][0], signal.SIGKILL)
        code, _, err = run.finish()
        self.assertEqual(137, code)
        self.assertIn("weftrun: rank 1 failed first: killed by signal 9 (SIGKILL)", err)
        self.assertIn("weftrun: the others: rank 0 killed by signal 15 (SIGTERM)", err)


if __name__ == "__main__":
    launched.main()
