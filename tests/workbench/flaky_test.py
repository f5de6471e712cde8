"""Passes of workbench/flaky.py over programs of their own."""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench import flaky


def processes_of(parent):
    """Pids of its children that run flaky's busy loop."""
    found = set()
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = path.read_text().rsplit(")", 1)[1].split()
            if int(words[1]) == parent and words[0] != "Z" and "getppid" in (path.parent / "cmdline").read_text():
                found.add(int(path.parent.name))
    return found


class Passes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, script, **options):
        text = f"runs=$(($(cat {self.folder}/{name}.runs 2>/dev/null || echo 0) + 1)); echo $runs >{self.folder}/{name}.runs; {script}"
        return flaky.Program(**dict({"name": name, "command": ["/bin/sh", "-c", text], "environment": {}, "folder": str(self.folder), "timeout_s": 60,
                                     "skip_code": None, "alone": False}, **options))

    def runs_of(self, program):
        return int((self.folder / (program.name + ".runs")).read_text())

    def one_pass(self, to_run, rounds=3, load=0, tree="1", **options):
        """(the pass after its end, what it printed)"""
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            made = flaky.Flaky(to_run, rounds, load, tree, self.folder / "pass", **options)
            made.run()
        return made, printed.getvalue()

    def test_each_runs_in_each_round_and_nothing_is_left_of_what_is_right(self):
        to_run = [self.program("a", "true"), self.program("b", "exit 77", skip_code=77), self.program("c", "test $WORD = said", environment={"WORD": "said"})]
        made, _ = self.one_pass(to_run)
        self.assertEqual(([3, 3, 3], 9, 3, ""), ([self.runs_of(one) for one in to_run], made.runs_made(), made.tried(), made.table()))
        self.assertEqual([], list((self.folder / "pass" / "output").iterdir()))

    def test_failures_stand_in_a_table_with_their_seeds_and_their_outputs_are_kept(self):
        to_run = [self.program("right", "true"),
                  self.program("sometimes", "test $runs != 2 || { echo 'seed 4711'; echo '[  FAILED  ] Suite.Case (7 ms)'; exit 3; }"),
                  self.program("crashes", "echo 'with seed=12'; kill -SEGV $$"),
                  self.program("late", "echo begun; exec sleep 60", timeout_s=0.2),
                  self.program("script", "echo 'FAIL: test_x (m.C)'; exit 1")]
        made, printed = self.one_pass(to_run)
        rows = {line.split()[0]: line for line in made.table().split("output:")[0].splitlines()[1:]}
        self.assertEqual({"sometimes", "crashes", "late", "script"}, set(rows))
        self.assertRegex(rows["sometimes"], r"^sometimes +1 of 3 +exit code 3 +Suite.Case +4711$")
        self.assertRegex(rows["crashes"], r"^crashes +3 of 3 +SIGSEGV +- +12$")
        self.assertRegex(rows["late"], r"^late +3 of 3 +over 0 s +- +-$")
        self.assertRegex(rows["script"], r"^script +3 of 3 +exit code 1 +test_x +-$")
        kept = sorted(path.name for path in (self.folder / "pass" / "output").iterdir())
        self.assertEqual(10, len(kept), kept)
        self.assertIn("seed 4711", (self.folder / "pass" / "output" / "sometimes-1.txt").read_text())
        self.assertIn("FAILED: sometimes, exit code 3: Suite.Case; ", printed)

    def test_a_pass_that_was_cut_off_goes_on(self):
        to_run = [self.program(name, f"test {name} != b") for name in "abcdefgh"]
        first, _ = self.one_pass(to_run, minutes=1e-9)
        self.assertEqual((0, False), (first.runs_made(), first.state["ended"]))
        # Interrupted in its midst: by the third program that runs.
        waits = self.program("z", f"test -e {self.folder}/stop || exec sleep 60")
        # Where tests are started in the background, SIGINT may be ignored.
        code = ("import pathlib, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); sys.path.insert(0, sys.argv[1]); from workbench import flaky; folder = pathlib.Path(sys.argv[2])\n"
                f"to_run = [flaky.Program(**one) for one in {[vars(one) for one in (*to_run, waits)]!r}]\n"
                "flaky.Flaky(to_run, 3, 1, '2', folder).run()")
        child = subprocess.Popen([sys.executable, "-c", code, str(ROOT), str(self.folder / "pass")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not (self.folder / "z.runs").exists() or not any((self.folder / f"{name}.runs").exists() for name in "abcdefgh"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        busy = processes_of(child.pid)
        self.assertEqual(1, len(busy))
        child.send_signal(2)
        self.assertNotEqual(0, child.wait(60))
        self.assertFalse([pid for pid in busy if os.path.exists(f"/proc/{pid}")])
        made_before = json.loads((self.folder / "pass" / "state.json").read_text())["runs"]
        (self.folder / "stop").touch()
        last, printed = self.one_pass([*to_run, waits], load=1, tree="2")
        if made_before:
            self.assertIn("going on with the pass of", printed)
        self.assertEqual(({name: 3 for name in "abcdefghz"}, True), ({name: len(runs) for name, runs in last.state["runs"].items()}, last.state["ended"]))
        for name, runs in made_before.items():
            self.assertEqual(runs, last.state["runs"][name][:len(runs)])
        self.assertEqual(["b"], list(last.failures()))
        # A run that was cut off does not count; what was made does not run again.
        self.assertLessEqual(sum(self.runs_of(one) for one in to_run), 3 * 8 + 1)

    def test_a_run_that_the_end_cuts_off_does_not_count(self):
        begun = time.monotonic()
        made, _ = self.one_pass([self.program("quick", "true"), self.program("slow", "exec sleep 60")], rounds=1, minutes=0.01)
        self.assertEqual((False, {}), (made.state["ended"], made.failures()))
        self.assertNotIn("slow", made.state["runs"])
        self.assertLess(time.monotonic() - begun, 50)
        self.assertEqual([], list((self.folder / "pass" / "output").iterdir()))

    def test_another_tree_or_another_list_begins_anew(self):
        to_run = [self.program("a", "true"), self.program("b", "true")]
        self.one_pass(to_run, minutes=1e-9)
        _, printed = self.one_pass(to_run, tree="2", minutes=1e-9)
        self.assertIn("is given up: it had another tree", printed)
        _, printed = self.one_pass(to_run[:1], rounds=2, tree="2")
        self.assertIn("is given up: it had another rounds, another programs", printed)
        _, printed = self.one_pass(to_run[:1], rounds=2, tree="2")  # one that has ended is not gone on with
        self.assertNotIn("going on", printed)
        self.assertEqual(4, self.runs_of(to_run[0]))

    def test_two_at_a_time_beside_the_load_and_those_of_speed_alone(self):
        note = "; ".join(("mkdir -p at/$$", f"ls at | wc -l >>{self.folder}/{{0}}.beside", "sleep 0.05", "rmdir at/$$"))
        to_run = [self.program(f"p{i}", note.format("beside")) for i in range(6)]
        to_run += [self.program(f"s{i}", note.format("alone"), alone=True) for i in range(2)]
        busy = {"beside": set(), "alone": set()}
        ended = threading.Event()

        def look():
            while not ended.is_set():
                kind = "alone" if (self.folder / "alone.beside").exists() else "beside"
                busy[kind].add(len(processes_of(os.getpid())))
                time.sleep(0.01)

        watcher = threading.Thread(target=look)
        watcher.start()
        self.one_pass(to_run, load=3)
        ended.set()
        watcher.join()
        counts = {kind: {int(line) for line in (self.folder / f"{kind}.beside").read_text().split()} for kind in busy}
        self.assertEqual({1}, counts["alone"])
        self.assertIn(2, counts["beside"])
        self.assertLessEqual(max(counts["beside"]), 2)
        self.assertEqual((3, {0}), (max(busy["beside"]), busy["alone"]))

    def test_in_a_row_each_is_tried_to_the_end_in_the_order_of_the_seed(self):
        orders = []
        for seed in (1, 1, 2):
            to_run = [self.program(name, f"echo {name} >>{self.folder}/order") for name in "abcdef"]
            self.one_pass(to_run, rounds=4, in_a_row=True, order_seed=seed)
            orders.append((self.folder / "order").read_text().split())
            (self.folder / "order").unlink()
        firsts = [list(dict.fromkeys(order)) for order in orders]
        self.assertEqual(24, len(orders[0]))
        self.assertEqual(sorted(firsts[0][:2]), sorted(firsts[1][:2]))
        self.assertNotEqual(firsts[1], firsts[2])
        self.assertEqual(set(firsts[0][:2]), set(orders[0][:6]))  # the first two go on to their ends

    def test_a_program_is_run_as_ctest_runs_it(self):
        build = self.folder / "build" / "release"
        build.mkdir(parents=True)
        (self.folder / "CMakePresets.json").write_text(json.dumps({"testPresets": [
            {"name": "release", "environment": {"OPTIONS": "file=${sourceDir}/x"}}, {"name": "other", "environment": {"OPTIONS": "no"}}]}))
        (build / "CTestTestfile.cmake").write_text(
            'add_test(a "/bin/sh" "-c" "exit 0" "--gtest_output=xml:/x.xml")\n'
            'set_tests_properties(a PROPERTIES ENVIRONMENT "A=1=2;B=3" TIMEOUT 7 SKIP_RETURN_CODE 77 LABELS "comm;speed" WORKING_DIRECTORY "/usr")\n'
            'add_test(b "/bin/true")\nset_tests_properties(b PROPERTIES RUN_SERIAL ON LABELS comm)\n'
            'add_test(c "/bin/true")\nadd_test(gone "/proc/none/to/be/found")\nadd_test(not_asked_for "/bin/true")\n')
        found = {one.name: one for one in flaky.programs("release", {"a", "b", "c", "gone"}, self.folder)}
        self.assertEqual({"a", "b", "c"}, set(found))
        a = found["a"]
        self.assertEqual((["/bin/sh", "-c", "exit 0"], {"OPTIONS": f"file={self.folder}/x", "A": "1=2", "B": "3"}, "/usr", 7, 77, True),
                         (a.command, a.environment, a.folder, a.timeout_s, a.skip_code, a.alone))
        self.assertEqual((True, False), (found["b"].alone, found["c"].alone))


if __name__ == "__main__":
    unittest.main()
