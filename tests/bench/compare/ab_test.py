"""Two builds in turns: what is measured, in which order, and when a build counts as slower. The builds are scripts."""
import json
import pathlib
import sys
import tempfile
import unittest

import samples
from bench.compare import ab, ab_page, sweeps
from bench.compare.builds import Build, BuildUnusable

# A weft_perf whose calls take as many microseconds as their size has bytes, or what FACTORS says times that.
_PERF = """#!%s
import json, pathlib, sys
words = sys.argv[1:]
value = dict(zip(words, words[1:])).get
factors = json.loads(%r)
with open(%r, "a") as log: log.write(f"{%r} {words[0]} {value('-b')}\\n")
if words[0] in factors.get("fails", []): print("no such operation", file=sys.stderr); sys.exit(3)
sizes, size = [], int(value("-b"))
while size <= int(value("-e")) and (size or not sizes):
    sizes.append(size)
    size *= int(value("-f"))
def row(size):
    us = max(size, 1) * factors.get(words[0], 1.0)
    return {"size": size, "out_of_place": {"time": us}, "in_place": {"time": 2 * us}}
pathlib.Path(value("-J")).write_text(json.dumps({"results": [row(size) for size in sizes]}))
"""


def entry(before, after, again_before=(), again_after=(), **changes):
    return dict({"ranks": 2, "op": "all_reduce", "dtype": "float32", "bytes": 4096, "buffers": "hot", "place": "in",
                 "memory": "private", "calls": 10, "before_us": before, "after_us": after,
                 "again_before_us": list(again_before), "again_after_us": list(again_after)}, **changes)


class WhatIsMeasured(unittest.TestCase):
    def sweeps(self, **changes):
        return sweeps.sweeps_of(**{"ranks": [2], "ops": ["all_reduce"], "dtypes": ["float32"], "buffers": ["hot"],
                                   "memories": ["private"], "sizes": [8, 64], **changes})

    def test_sizes_of_a_process_are_a_series_of_similar_length(self):
        self.assertEqual([(8, 64, 512, 4096), (32768, 262144), (2 << 20, 16 << 20)], sweeps.series_of(sweeps.SIZES))
        self.assertEqual([(8, 16), (4096,), (5000,)], sweeps.series_of([4096, 8, 16, 5000, 8]))
        self.assertEqual([(3, 6, 12)], sweeps.series_of([3, 6, 12]))

    def test_every_operation_with_every_number_of_ranks_and_memory(self):
        found = self.sweeps(ranks=[2, 4], ops=list(sweeps.OPERATIONS), memories=list(sweeps.MEMORIES))
        self.assertEqual(2 * 2 * len(sweeps.OPERATIONS), len(set(found)))
        self.assertEqual([(0,)] * 4, [sweep.sizes for sweep in found if sweep.op == "barrier"])

    def test_sizes_below_an_element_are_left_out(self):
        self.assertEqual([(4, 8)], [sweep.sizes for sweep in self.sweeps(sizes=[1, 2, 4, 8])])

    def test_the_command_says_all_of_it(self):
        words = sweeps.command(self.sweeps(memories=["symmetric"])[0], Build("before", "/b"), 100, "/o")
        self.assertEqual("/b/bin/weft_perf all_reduce --nprocs 2 -b 8 -e 64 -f 8 -d float -n 100 -w 10 -c 0 -a 3 -T 60 -J /o "
                         "--hot --symmetric", " ".join(words))

    def test_rows_become_cells(self):
        def text(*sizes):
            return json.dumps({"results": [{"size": size, "out_of_place": {"time": 1.0}, "in_place": {"time": 2.0}}
                                           for size in sizes]})
        sweep, = self.sweeps()
        times = sweeps.times_of(sweep, text(8, 64))
        self.assertEqual([(8, "out", 1.0), (8, "in", 2.0), (64, "out", 1.0), (64, "in", 2.0)],
                         [(cell.bytes, cell.place, us) for cell, us in times.items()])
        self.assertEqual({64}, {cell.bytes for cell in sweeps.times_of(sweep, text(0, 64))})  # 8 bytes: no whole chunk
        with self.assertRaisesRegex(ValueError, "1 sizes instead of 2"):
            sweeps.times_of(sweep, text(8))
        self.assertEqual({}, sweeps.times_of(self.sweeps(ops=["hypercube"], ranks=[3])[0], text()))
        self.assertEqual(["out"], [cell.place for cell in sweeps.times_of(self.sweeps(ops=["barrier"])[0], text(0))])

    def test_calls_fill_a_turn_within_limits(self):
        self.assertEqual([ab.MOST_CALLS, 120, ab.LEAST_CALLS], [ab.call_count(us) for us in (0.1, 1000.0, 1e9)])


class Verdicts(unittest.TestCase):
    def verdict(self, *times):
        return ab_page.judge(entry(*times)).verdict

    def test_slower_means_the_whole_interval_is_above_the_margin(self):
        self.assertEqual("slower", self.verdict([1.0] * 9, [1.04] * 9))
        self.assertEqual("same", self.verdict([1.0] * 9, [1.02] * 9))
        self.assertEqual("same", self.verdict([1.0] * 9, [1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.0, 1.1, 1.1]))
        self.assertEqual("faster", self.verdict([1.04] * 9, [1.0] * 9))
        self.assertEqual("not measured", self.verdict([], []))

    def test_slower_once_is_not_slower(self):
        self.assertEqual("slower", self.verdict([1.0] * 9, [1.5] * 9, [1.0] * 9, [1.5] * 9))
        self.assertEqual("not slower again", self.verdict([1.0] * 9, [1.5] * 9, [1.0] * 9, [1.0] * 9))

    def test_the_page_lists_what_is_slower_and_its_tables_are_rectangular(self):
        cells = [entry([1.0] * 9, [1.5] * 9), entry([1.0] * 9, [1.0] * 9, bytes=8), entry([], [], op="barrier", bytes=0, place="out")]
        builds = {name: {"folder": f"/{name}", "commit": None, "library_sha256": "0" * 64} for name in ("before", "after")}
        results = {"machine": samples.results([])["machine"], "rounds": 3, "builds": builds, "errors": ["after: no luck"],
                   "cells": cells, "instructions": {"before": {"1": 300, "2": 600}, "after": {}}}
        text = ab_page.render(results, [ab_page.judge(one) for one in cells])
        self.assertIn("slower: all_reduce 4 Ki float32 hot, 2 ranks, in place, private: 1.00 -> 1.50 us, 1.50 [1.50, 1.50]", text)
        self.assertIn("not measured: barrier 0 float32 hot, 2 ranks, private", text)
        self.assertIn("3 cells: 1 slower, 0 slower at first but not again, 0 faster; geometric mean of after / before 1.225", text)
        for part in ("fewer than 9 rounds", "before: 300 instructions", "the same library", "- after: no luck"):
            self.assertIn(part, text)
        widths = [line.count("|") for line in text.splitlines() if line.startswith("| all_reduce")]
        self.assertEqual([4, 8, 8], widths)


class WholeRuns(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "log"
        self.said = []

    def build(self, name, factors):
        folder = self.folder / name
        for part in ("bin", "lib"):
            (folder / part).mkdir(parents=True)
        (folder / "lib" / "libweft.so").write_text(name)
        program = folder / "bin" / "weft_perf"
        program.write_text(_PERF % (sys.executable, json.dumps(factors), str(self.log), name))
        program.chmod(0o755)
        return str(folder)

    def run_ab(self, before, after, *words):
        """(exit code, results)."""
        out = self.folder / "out"
        code = ab.main([before, after, "--rounds", "4", "--ranks", "2", "--memory", "private", "--out", str(out), *words],
                       self.said.append)
        self.assertTrue((out / "ab.md").exists())
        return code, json.loads((out / "ab.json").read_text())

    def test_equal_builds_pass_and_take_turns(self):
        code, results = self.run_ab(self.build("one", {}), self.build("two", {}), "--ops", "reduce", "--sizes", "8,64")
        self.assertEqual(0, code)
        self.assertEqual([{"bytes": size, "place": place, "before_us": [us] * 4, "after_us": [us] * 4}
                          for size, place, us in ((8, "out", 8.0), (8, "in", 16.0), (64, "out", 64.0), (64, "in", 128.0))],
                         [{key: cell[key] for key in ("bytes", "place", "before_us", "after_us")} for cell in results["cells"]])
        # One process calibrates; then before and after in turn, each of them first in every second round.
        self.assertEqual(["one", *["one", "two", "two", "one"] * 2], [line.split()[0] for line in self.log.read_text().splitlines()])

    def test_a_slower_operation_is_measured_again_and_fails_the_run(self):
        code, results = self.run_ab(self.build("one", {}), self.build("two", {"reduce": 1.1}), "--ops", "reduce,gather",
                                    "--sizes", "8")
        self.assertEqual(1, code)
        self.assertEqual({"reduce": 4, "gather": 0}, {cell["op"]: len(cell["again_after_us"]) for cell in results["cells"]})
        self.assertTrue(any(line.startswith("slower: reduce 8 float32 hot, 2 ranks, private: 8.00 -> 8.80 us") for line in self.said))
        self.assertFalse(any(line.startswith("slower: gather") for line in self.said))

    def test_a_failure_is_named_and_fails_the_run(self):
        code, results = self.run_ab(self.build("one", {}), self.build("two", {"fails": ["gather"]}), "--ops", "reduce,gather",
                                    "--sizes", "8")
        self.assertEqual(1, code)
        self.assertIn("after: gather 8 float32 hot, 2 ranks, private: exit code 3: no such operation", results["errors"])
        self.assertTrue(any(line.startswith("not measured: gather 8") for line in self.said))

    def test_a_folder_that_is_no_build_is_refused(self):
        with self.assertRaisesRegex(BuildUnusable, "bin/weft_perf is missing; --ab takes two build folders"):
            Build("before", self.folder).check({})
        self.assertEqual(1, ab.main([str(self.folder), str(self.folder)], self.said.append))


if __name__ == "__main__":
    unittest.main()
