"""weft's driver under weftrun, asked as ./dev compare asks it.

    driver_test.py WEFTRUN COMPARE_WEFT
"""
import os
import pathlib
import sys
import tempfile
import unittest

import samples
from bench.compare import alone, cells, launch, measure
from bench.compare.jobs import Job, JobFailed

WEFTRUN = DRIVER = ""


class Driver(unittest.TestCase):
    def start(self, ranks):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        job = Job("weft", [WEFTRUN, "-n", str(ranks), DRIVER], launch.environment_for(ranks), ranks,
                  pathlib.Path(folder.name, "job"))
        self.addCleanup(job.end)
        job.start(60)
        return job

    def test_every_operation_is_right_in_every_way(self):
        for ranks in (2, 3):
            job = self.start(ranks)
            for op in cells.OPERATIONS:
                for dtype in cells.DTYPES:
                    for memory in ("private", "symmetric"):
                        for size, place, sets in ((8, "in", 1), (4096, "out", 3), (100000, "in", 2)):
                            cell = cells.Cell(ranks, op, dtype, size, "hot", cells.place_of(op, place))
                            with self.subTest(cell=cell, memory=memory):
                                answers = job.ask(measure.command(cell, memory, sets, 7, 2, True, True), 60)
                                self.assertEqual([0] * ranks, [answer["wrong"] for answer in answers])
                                self.assertTrue(all(answer["end_s"] > answer["begin_s"] for answer in answers))

    def test_memcpy_and_barrier_are_measured_too(self):
        job = self.start(2)
        for line in ("op=copy bytes=4096 sets=2 calls=5 warmup=1", "op=barrier calls=5"):
            for answer in job.ask(line, 60):
                self.assertGreater(answer["end_s"], answer["begin_s"])
                self.assertNotIn("wrong", answer)

    def test_calls_under_way_at_a_time_give_the_same_results(self):
        job = self.start(2)
        for memory in ("private", "symmetric"):
            for flight in (1, 4):
                line = alone.line_of(alone.variant_of(100000, memory, sets=4, flight=flight), 9, 3, check=True)
                self.assertEqual([0, 0], [answer["wrong"] for answer in job.ask(line, 60)])
            line = measure.command(cells.Cell(2, "all_gather", "float32", 65536, "hot", "out"), memory, 4, 9, 3, True, True)
            self.assertEqual([0, 0], [answer["wrong"] for answer in job.ask(line + " flight=3", 60)])
        answer = job.ask(alone.line_of(alone.variant_of(8, "private", flight=17), 9, 3), 60)[0]
        self.assertIn("more calls under way", answer["refusal"])

    def test_tails_are_of_all_calls(self):
        for answer in self.start(2).ask(alone.line_of(alone.variant_of(8, "private"), 1000, 10) + " tail=1", 60):
            self.assertLessEqual(0, answer["median_s"])
            self.assertLessEqual(answer["median_s"], answer["p999_s"])
            self.assertLessEqual(answer["p999_s"], answer["max_s"])
            self.assertLessEqual(answer["max_s"], answer["end_s"] - answer["begin_s"])

    def test_idling_takes_as_long_as_it_says(self):
        for answer in self.start(2).ask("op=idle calls=1", 60):
            self.assertGreaterEqual(answer["end_s"] - answer["begin_s"], 1)
            self.assertGreaterEqual(answer["cpu_s"], 0)

    def test_a_bad_command_is_a_failure_with_a_sentence(self):
        for line, sentence in (("op=all_reduce colour=red calls=1", "a word that this driver does not know"),
                               ("op=reduce calls=1", "a word that this driver does not know"),
                               ("calls=1", "names no operation"), ("op=barrier", "asks for no call")):
            with self.subTest(line):
                job = self.start(2)
                with self.assertRaisesRegex(JobFailed, sentence):
                    job.ask(line, 60)


if __name__ == "__main__":
    print("tree:", samples.ROOT)
    WEFTRUN, DRIVER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
