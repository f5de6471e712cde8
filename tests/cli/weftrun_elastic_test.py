"""weftrun --elastic: jobs that go on without a rank, ranks that are started again alone, and whether they join."""
import os
import re
import signal
import sys
import tempfile

import launched
from launched import LaunchedTest, clean_environment, ends_soon, rank

set_store_key = None  # a program that writes a key into the job's store, from the command line


class ElasticTest(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def member(self, code):
        """A rank that can tell others what it has done, wait for what they do, and join as weft's library would."""
        return rank("import select, subprocess\n"
                    "count = int(os.environ['WEFT_RESTART_COUNT'])\n"
                    f"def path(name): return os.path.join({self.folder!r}, name)\n"
                    "def note(name, text=''):\n"
                    "    with open(path(name + '.new'), 'w') as file: file.write(str(text))\n"
                    "    os.rename(path(name + '.new'), path(name))\n"
                    "def read(name):\n"
                    f"    deadline = time.monotonic() + {launched.DEADLINE_S}\n"
                    "    while not os.path.exists(path(name)):\n"
                    "        if time.monotonic() > deadline: sys.exit(f'{name} did not come')\n"
                    "        time.sleep(0.01)\n"
                    "    return open(path(name)).read()\n"
                    "def await_end(pid):\n"
                    "    try: descriptor = os.pidfd_open(pid)\n"
                    "    except ProcessLookupError: return\n"
                    f"    if not select.select([descriptor], [], [], {launched.DEADLINE_S})[0]: sys.exit(f'{{pid}} did not end')\n"
                    "def join():\n"
                    f"    subprocess.run([{set_store_key!r}, f'join/joined/{{rank}}.{{count}}'], check=True, close_fds=False)\n"
                    "def die(): os.kill(os.getpid(), signal.SIGKILL)\n" + code)

    def note(self, name):
        with open(os.path.join(self.folder, name), "w", encoding="ascii"):
            pass

    def assert_lines(self, patterns, lines):
        """Each line matches its pattern as a whole."""
        self.assertEqual(len(patterns), len(lines), lines)
        for pattern, line in zip(patterns, lines):
            self.assertRegex(line, f"^weftrun: {pattern}$")


_LOST = r"rank {} \(pid \d+\) {} and is lost; {} of {} ranks are left"
_KILLED = r"killed by signal 9 \(SIGKILL\)"


class GoesOn(ElasticTest):
    def test_the_others_go_on_and_the_lost_are_named(self):
        code, out, err = self.run_to_end("-n", 3, "--elastic", *self.member(
            "note(str(rank), os.getpid())\n"
            "if rank == 1: die()\n"
            "await_end(int(read('1')))\nif rank == 2: sys.exit(7)\n"
            "await_end(int(read('2')))\nsay('to the end')"))
        self.assertEqual((0, ["[0] to the end"]), (code, out), err)
        self.assertRegex(err[0], r"weftrun: rank 1 \(pid \d+\) killed by signal 9 \(SIGKILL\) and is lost; 2 of 3 ranks are left$")
        self.assertRegex(err[1], r"weftrun: rank 2 \(pid \d+\) exited with code 7 and is lost; 1 of 3 ranks are left$")
        self.assertEqual(err[2:], ["weftrun: 1 of 3 ranks ended well; lost: rank 1 killed by signal 9 (SIGKILL); "
                                   "rank 2 exited with code 7"])

    def test_the_job_ends_when_too_few_are_left(self):
        code, out, err = self.run_to_end("-n", 3, "--elastic", "--min-ranks", 2, *rank(
            "time.sleep(rank / 2)\nif rank < 2: sys.exit(7 + rank)\ntime.sleep(3600)"))
        self.assertEqual((8, []), (code, out), err)
        self.assertIn("weftrun: rank 1 failed first: exited with code 8", err)

    def test_the_last_rank_may_not_be_lost(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", *rank("time.sleep(rank / 2)\nsys.exit(7 + rank)"))
        self.assertEqual(8, code, err)

    def test_all_ranks_together_are_not_started_again(self):
        code, out, err = self.run_to_end("-n", 2, "--elastic", "--min-ranks", 2, "--max-restarts", 3, *rank(
            "say('began')\nif rank == 1: sys.exit(7)\nsignal.pause()"))
        self.assertEqual(7, code, err)
        self.assertLessEqual(len(out), 2)
        self.assertIn("weftrun: rank 1 failed first: exited with code 7", err)
        self.assertFalse(any("restart" in line or "again" in line for line in err), err)


class StartsAgain(ElasticTest):
    def test_a_lost_rank_alone(self):
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT", "WEFT_JOB_ID",
                 "WEFT_STORE", "WEFT_RESTART_COUNT", "WEFT_JOIN", "OMP_NUM_THREADS")
        # What is set around weftrun, as in a rank of another one, is not for its ranks.
        code, out, err = self.run_to_end(
            "-n", 3, "--elastic", "--max-restarts", 1,
            *self.member(f"say(*(os.environ.get(name, '-') for name in {names}))\n"
                         "if rank == 1 and count == 0: die()\n"
                         "if rank == 1: join(); note('joined')\n"
                         "read('joined')"), environment=clean_environment(WEFT_JOIN="1"))
        self.assertEqual(0, code, err)
        self.assert_lines([_LOST.format(1, _KILLED, 2, 3) + r"; starting it again \(1 of at most 1\)",
                           r"rank 1 \(pid \d+\) has joined; 3 of 3 ranks are there",
                           rf"3 of 3 ranks ended well; lost: rank 1 {_KILLED}, which was started again"], err)
        pids = [re.search(r"\(pid (\d+)\)", line)[1] for line in err[:2]]
        self.assertNotEqual(*pids)
        self.assertEqual(4, len(out))
        first, second = (dict(zip(names, line.split()[1:])) for line in out if line.startswith("[1]"))
        self.assertEqual({"WEFT_RESTART_COUNT": "1", "WEFT_JOIN": "1"},
                         {name: second[name] for name in names if second[name] != first[name]})
        for line in out:
            if not line.startswith("[1]"):
                own = dict(zip(names, line.split()[1:]))
                self.assertEqual(("0", "-"), (own["WEFT_RESTART_COUNT"], own["WEFT_JOIN"]))

    def test_not_if_it_was_asked_to_end_while_it_waits(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 5, *self.member(
            "if rank == 1 and count == 0: die()\n"
            "if rank == 1: note('asked'); sys.exit(143)\n"
            "read('asked'); time.sleep(1)"))
        self.assertEqual(0, code, err)
        self.assert_lines([_LOST.format(1, _KILLED, 1, 2) + r"; starting it again \(1 of at most 5\)",
                           _LOST.format(1, "exited with code 143", 1, 2),
                           rf"1 of 2 ranks ended well; lost: rank 1 {_KILLED}, which was started again and in the end "
                           "exited with code 143"], err)

    def test_who_waits_to_join_a_job_that_was_asked_to_end_does_not_hold_it_up(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 1, *self.member(
            "if rank == 1 and count == 0: die()\n"
            "if rank == 1: note('waits'); signal.pause()\n"
            "read('waits'); sys.exit(143)"))
        self.assertEqual(143, code, err)
        self.assert_lines([r"rank 0 \(pid \d+\) was asked to end and exited with code 143; the others have 120 s to end by themselves",
                           r"rank 1 \(pid \d+\) waited to join, but all others have ended"], err[1:3])
        self.assertIn("weftrun: rank 0 was asked to end and exited with code 143", err)

    def test_again_after_it_has_joined(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 3, *self.member(
            "if rank == 1:\n"
            "    if count > 0: join()\n"
            "    if count < 2: die()\n"
            "    note('joined twice')\n"
            "read('joined twice')"))
        self.assertEqual(0, code, err)
        joined = r"rank 1 \(pid \d+\) has joined; 2 of 2 ranks are there"
        self.assert_lines([_LOST.format(1, _KILLED, 1, 2) + r"; starting it again \(1 of at most 3\)", joined,
                           _LOST.format(1, _KILLED, 1, 2) + r"; starting it again \(2 of at most 3\)", joined,
                           rf"2 of 2 ranks ended well; lost: rank 1 {_KILLED}, which was started again 2 times"], err)

    def test_until_the_restarts_are_used_up(self):
        run = self.launch("-n", 3, "--elastic", "--max-restarts", 2, *self.member(
            "if rank > 0:\n"
            "    if count > 0: join()\n"
            "    if rank == 2 and count == 1: read('both have joined')\n"
            "    if count == 0 or rank == 2: sys.exit(7 + count)\n"
            "read('end')"))
        run.wait_for(2, "has joined", "err")
        self.note("both have joined")
        run.wait_for(1, "is used up", "err")
        self.note("end")
        code, _, err = run.finish()
        self.assertEqual(0, code, err)
        self.assertEqual(2, sum("starting it again" in line for line in err))
        self.assertEqual("weftrun: 2 of 3 ranks ended well; lost: rank 1 exited with code 7, which was started again; "
                         "rank 2 exited with code 7, which was started again and in the end exited with code 8", err[-1])

    def test_a_rank_that_crashes_each_time_it_starts_does_not_end_the_others(self):
        run = self.launch("-n", 2, "--elastic", "--max-restarts", 5, *self.member(
            "if rank == 1: sys.exit(9)\nread('end')"))
        run.wait_for(1, "is used up", "err")
        self.note("end")
        code, _, err = run.finish()
        self.assertEqual(0, code, err)
        self.assert_lines([*(_LOST.format(1, "exited with code 9", 1, 2) + rf"; starting it again \({restart} of at most 5\)"
                             for restart in range(1, 6)),
                           _LOST.format(1, "exited with code 9", 1, 2) + "; it is not started again, as --max-restarts 5 is used up",
                           "1 of 2 ranks ended well; lost: rank 1 exited with code 9, which was started again 5 times and in the end "
                           "exited with code 9"], err)

    def test_what_a_lost_process_left_running_is_ended_first(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 1, *self.member(
            "if rank == 1 and count == 0:\n"
            "    note('child', subprocess.Popen(['sleep', '1000']).pid)\n"
            "    die()\n"
            "if rank == 1: await_end(int(read('child'))); note('gone')\n"
            "read('gone')"))
        self.assertEqual(0, code, err)

    def test_a_program_that_is_gone_does_not_end_the_job(self):
        program = os.path.join(self.folder, "program")
        with open(program, "w", encoding="ascii") as file:
            # Goes when all have begun, since bash opens it only then.
            file.write(f"#!/bin/bash\ncd {self.folder}; touch began$RANK\n"
                       "await() { while ! [ -e $1 ]; do sleep 0.05; done; }\n"
                       f"if [ $RANK = 2 ]; then await began0; await began1; rm {program}; exit 4; fi\nawait end\n")
        os.chmod(program, 0o755)
        run = self.launch("-n", 3, "--elastic", "--max-restarts", 5, program)
        run.wait_for(1, "stays lost", "err")
        self.note("end")
        code, _, err = run.finish()
        self.assertEqual(0, code, err)
        self.assert_lines([_LOST.format(2, "exited with code 4", 2, 3) + r"; starting it again \(1 of at most 5\)",
                           f"rank 2 stays lost, it cannot be started again: starting {program}: No such file or directory",
                           "2 of 3 ranks ended well; lost: rank 2 exited with code 4"], err)

    def test_each_start_has_log_files(self):
        logs = os.path.join(self.folder, "logs")
        self.run_to_end("-n", 2, "--elastic", "--max-restarts", 2, "--log-dir", logs, *self.member(
            "print(f'start {count}')\n"
            "if rank == 1 and count < 2: sys.exit(3)\n"
            "note('end') if rank == 1 else read('end')"))
        content = {}
        for name in os.listdir(logs):
            with open(os.path.join(logs, name), encoding="ascii") as file:
                content[name] = file.read()
        self.assertEqual({"rank0.out": "start 0\n", "rank1.out": "start 0\n", "rank1.restart1.out": "start 1\n",
                          "rank1.restart2.out": "start 2\n", "rank0.err": "", "rank1.err": "", "rank1.restart1.err": "",
                          "rank1.restart2.err": ""}, content)


class Newcomers(ElasticTest):
    """Processes that were started again and have not joined."""

    def test_one_that_nobody_can_take_in_any_more_is_ended(self):
        for does, heeds_sigterm in (("", True), ("signal.signal(signal.SIGTERM, lambda n, f: os._exit(0))", True),
                                    ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", False)):
            with self.subTest(does):
                code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
                    "if rank == 1:\n"
                    "    if count == 0: die()\n"
                    f"    {does}\n"
                    "    note('here')\n"
                    "    while True: time.sleep(0.05)\n"
                    "read('here')"))
                os.remove(os.path.join(self.folder, "here"))
                self.assertEqual(0, code, err)
                self.assert_lines([_LOST.format(1, _KILLED, 1, 2) + r"; starting it again \(1 of at most 2\)",
                                   r"rank 1 \(pid \d+\) waited to join, but all others have ended",
                                   *([] if heeds_sigterm else ["killing the ranks that SIGTERM did not end"]),
                                   rf"1 of 2 ranks ended well; lost: rank 1 {_KILLED}, which was started again and waited in vain to "
                                   "join"], err)

    def test_one_that_fails_when_all_others_have_ended_is_no_failure(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
            "if rank == 1:\n"
            "    if count == 0: die()\n"
            "    note('here')\n"
            "    await_end(int(read('pid')))\n"
            "    sys.exit(5)\n"
            "read('here')\n"
            "note('pid', os.getpid())"))
        self.assertEqual(0, code, err)
        # On a slow machine it is given up before it gets to exit.
        self.assertRegex(err[-1], rf"^weftrun: 1 of 2 ranks ended well; lost: rank 1 {_KILLED}, which was started again and "
                                  "(in the end exited with code 5|waited in vain to join)$")

    def test_one_that_has_not_joined_is_none_of_those_that_must_be_left(self):
        code, _, err = self.run_to_end("-n", 3, "--elastic", "--min-ranks", 2, "--max-restarts", 2, *self.member(
            "if rank == 1:\n"
            "    if count == 0: die()\n"
            "    note('here')\n"
            "if rank == 2: read('here'); sys.exit(5)\n"
            "signal.pause()"))
        self.assertEqual(5, code, err)
        self.assertIn("weftrun: rank 2 failed first: exited with code 5", err)
        self.assertEqual("weftrun: the others: ranks 0, 1 (restart 1) killed by signal 15 (SIGTERM); "
                         "rank 1 killed by signal 9 (SIGKILL)", err[-1])

    def test_one_that_has_joined_is_one_of_those_that_must_be_left(self):
        code, _, err = self.run_to_end("-n", 3, "--elastic", "--min-ranks", 2, "--max-restarts", 1, *self.member(
            "if rank == 1:\n"
            "    if count == 0: die()\n"
            "    join(); note('joined'); await_end(int(read('pid')))\n"
            "if rank == 2: read('joined'); note('pid', os.getpid()); sys.exit(5)\n"
            "if rank == 0: await_end(int(read('pid')))"))
        self.assertEqual(0, code, err)
        self.assertEqual("weftrun: 2 of 3 ranks ended well; lost: rank 1 killed by signal 9 (SIGKILL), which was started again; "
                         "rank 2 exited with code 5", err[-1])

    def test_the_job_has_failed_when_only_newcomers_are_left(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
            "if rank == 1:\n"
            "    if count == 0: die()\n"
            "    note('here'); signal.pause()\n"
            "read('here'); sys.exit(6)"))
        self.assertEqual(6, code, err)
        self.assertRegex(err[1], r"^weftrun: rank 0 \(pid \d+\) exited with code 6; the others have 2 s to end by themselves$")
        self.assertIn("weftrun: rank 0 failed first: exited with code 6", err)
        self.assertEqual("weftrun: the others: rank 1 (restart 1) killed by signal 15 (SIGTERM); "
                         "rank 1 killed by signal 9 (SIGKILL)", err[-1])

    def test_one_that_joined_and_fails_last_is_named(self):
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--min-ranks", 2, "--max-restarts", 2, *self.member("sys.exit(6)"))
        self.assertEqual(6, code, err)
        code, _, err = self.run_to_end("-n", 2, "--elastic", "--max-restarts", 1, *self.member(
            "if rank == 1:\n"
            "    if count == 0: die()\n"
            "    join(); print('its words'); note('pid', os.getpid()); await_end(int(read('other'))); sys.exit(6)\n"
            "read('pid'); note('other', os.getpid()); sys.exit(5)"))
        self.assertEqual(6, code, err)
        report = err[err.index("weftrun: rank 1 (restart 1) failed first: exited with code 6"):]
        self.assertEqual(["weftrun: its last line:", "weftrun:   | its words",
                          "weftrun: the others: rank 0 exited with code 5; rank 1 killed by signal 9 (SIGKILL)"], report[1:])


class Signals(ElasticTest):
    _WAITS = ("if rank == 1 and count == 0: die()\n"
              "child = subprocess.Popen(['sleep', '1000'])\n")

    def test_they_reach_one_that_waits_and_its_end_is_no_failure(self):
        run = self.launch("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
            self._WAITS + "signal.signal(signal.SIGUSR1, lambda n, f: say('usr1'))\n"
            "if rank == 0: signal.signal(signal.SIGTERM, lambda n, f: (child.wait(), os._exit(0)))\n"
            "say('ready')\nwhile True: time.sleep(0.05)"))
        run.wait_for(2, "ready")
        run.process.send_signal(signal.SIGUSR1)
        run.wait_for(2, "usr1")
        run.process.terminate()
        code, _, err = run.finish()
        self.assertEqual(0, code, err)
        self.assert_lines([_LOST.format(1, _KILLED, 1, 2) + r"; starting it again \(1 of at most 2\)",
                           rf"1 of 2 ranks ended well after SIGTERM; lost: rank 1 {_KILLED}, which was started again and in the end "
                           r"killed by signal 15 \(SIGTERM\)"], err)

    def test_one_that_has_joined_ends_as_the_others(self):
        run = self.launch("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
            self._WAITS + "if rank == 0: signal.signal(signal.SIGTERM, lambda n, f: (child.wait(), os._exit(0)))\n"
            "if rank == 1: join()\nsay('ready')\nwhile True: time.sleep(0.05)"))
        run.wait_for(2, "ready")
        run.process.terminate()
        code, _, err = run.finish()
        self.assertEqual(143, code, err)
        self.assertIn("weftrun: rank 1 (restart 1) failed first: killed by signal 15 (SIGTERM), after SIGTERM to weftrun", err)

    def test_none_is_started_again_after_them(self):
        run = self.launch("-n", 3, "--elastic", "--max-restarts", 2, *self.member(
            "signal.signal(signal.SIGTERM, lambda n, f: os._exit(rank))\nsay('ready')\nwhile True: time.sleep(0.05)"))
        run.wait_for(3, "ready")
        run.process.terminate()
        code, out, err = run.finish()
        self.assertIn(code, (1, 2), err)
        self.assertEqual(3, len(out))

    def test_nothing_of_one_that_waits_outlives_a_killed_weftrun(self):
        run = self.launch("-n", 2, "--elastic", "--max-restarts", 2, *self.member(
            self._WAITS + "say('pids', os.getpid(), child.pid)\nsignal.pause()"))
        pids = [int(word) for line in run.wait_for(2, "pids") for word in line.split()[2:]]
        run.process.kill()
        run.finish()
        self.assertTrue(all(ends_soon(pid, launched.DEADLINE_S) for pid in pids))


if __name__ == "__main__":
    set_store_key = sys.argv.pop(2)
    launched.main()
