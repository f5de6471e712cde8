"""Programs that tests of a folder share (tests/support/test_main.cc): each entry runs its own cases, and none is lost."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.cases import cases_of

_MAIN = f'#include "{ROOT}/tests/support/test_main.cc"\n'


class SharedProgram(unittest.TestCase):
    def cases(self, *arguments):
        done = subprocess.run([PROGRAM, *arguments, "--gtest_list_tests"], capture_output=True, text=True, check=True)
        return cases_of(done.stdout)

    def test_entries_share_out_all_cases(self):
        everything = self.cases()
        files, world = self.cases("--of=sim_files_test.cc"), self.cases("--of=sim_world_test.cc")
        self.assertGreater(min(len(files), len(world)), 3)
        self.assertEqual(sorted(everything), sorted(files + world))
        self.assertEqual(len(everything), len(set(everything)))

    def test_a_filter_chooses_among_the_cases_of_an_entry(self):
        files, world = self.cases("--of=sim_files_test.cc"), self.cases("--of=sim_world_test.cc")
        one = files[0]
        self.assertEqual([one], self.cases("--of=sim_files_test.cc", f"--gtest_filter={one}"))
        self.assertEqual(files[1:], self.cases("--of=sim_files_test.cc", f"--gtest_filter=-{one}"))
        self.assertEqual(files[2:], self.cases("--of=sim_files_test.cc", f"--gtest_filter=*-{one}:{files[1]}"))
        self.assertEqual([], self.cases("--of=sim_files_test.cc", f"--gtest_filter={world[0]}"))

    def test_an_entry_without_cases_is_refused(self):
        done = subprocess.run([PROGRAM, "--of=nothing_test.cc"], capture_output=True, text=True, check=False)
        self.assertEqual((2, "no case is in nothing_test.cc\n"), (done.returncode, done.stderr))

    def planted(self, text):
        """What a program of these lines does."""
        with tempfile.TemporaryDirectory() as folder:
            source, program = os.path.join(folder, "planted.cc"), os.path.join(folder, "planted")
            pathlib.Path(source).write_text(_MAIN + text)
            subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-o", program, source, "-lgmock", "-lgtest", "-pthread"], check=True)
            return subprocess.run([program], capture_output=True, text=True, check=False)

    def test_a_case_that_no_entry_would_run_is_refused(self):
        done = self.planted('#line 1 "cases.h"\nTEST(Suite, Case) {}\n#line 1 "/there/a_test.cc"\nTEST(Suite, Other) {}\n')
        self.assertEqual(2, done.returncode)
        self.assertIn("Suite.Case is in cases.h", done.stderr)

    def test_a_case_of_two_sources_is_refused(self):
        done = self.planted('#line 1 "a_test.cc"\nnamespace a { TEST(Suite, Case) {} }\n#line 1 "b_test.cc"\nnamespace b { TEST(Suite, Case) {} }\n')
        self.assertEqual(2, done.returncode)
        self.assertIn("Suite.Case is in a_test.cc and in b_test.cc", done.stderr)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
