"""What counts as a change of a test: workbench/changes.py."""
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.changes import changed_sources


def diff(**files):
    """A `git diff -U0` of {name: (lines lost, lines got)}."""
    text = []
    for name, (lost, got) in files.items():
        text += [f"diff --git a/tests/{name}.cc b/tests/{name}.cc", "index 1..2 100644", f"--- a/tests/{name}.cc", f"+++ b/tests/{name}.cc", "@@ -1 +1 @@"]
        text += ["-" + line for line in lost] + ["+" + line for line in got]
    return "\n".join(text)


class Changes(unittest.TestCase):
    def changed(self, **files):
        return {path[len("tests/"):-len(".cc")] for path in changed_sources(diff(**files))}

    def test_what_differs_is_changed(self):
        self.assertEqual({"a", "b", "c"}, self.changed(a=(["  Wait(1);"], ["  Wait(2);"]), b=([], ["TEST(A, B) {"]), c=(["  Wait(3);"], [])))
        self.assertEqual(set(), self.changed())

    def test_cases_that_moved_are_not(self):
        case = ["TEST(Suite, Case) {", "  EXPECT_EQ(1, One());", "}"]
        self.assertEqual(set(), self.changed(a=(["#include <vector>", "namespace {", *case], []), b=([], ["#include <map>", "namespace weft::test {", *case, "// said"])))

    def test_cases_that_moved_and_differ_are(self):
        self.assertEqual({"a", "b"}, self.changed(a=(["TEST(S, C) {", "  One();"], []), b=([], ["TEST(S, C) {", "  Two();"])))

    def test_what_two_got_and_one_lost_is_new_in_one(self):
        self.assertEqual(1, len(self.changed(a=(["  One();"], []), b=([], ["  One();"]), c=([], ["  One();"]))))


if __name__ == "__main__":
    unittest.main()
