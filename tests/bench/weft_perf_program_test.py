"""Runs weft_perf as a user does: exit codes, the table's columns, JSON, launchers that disagree.

    weft_perf_program_test.py <folder of the programs>
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

PROGRAMS = ""
LAUNCHER_VARIABLES = ("RANK", "WORLD_SIZE", "OMPI_", "PMI_", "PMIX_", "SLURM_", "NCCL_TESTS_", "WEFT_")


def run(arguments, program="weft_perf", **variables):
    """The finished run of a program, in an environment without a launcher."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.startswith(LAUNCHER_VARIABLES)}
    environment.update(variables)
    return subprocess.run([os.path.join(PROGRAMS, program)] + arguments.split(),
                          env=environment, capture_output=True, text=True, timeout=120)


def rows(result):
    """The cells of the table's lines."""
    return [line.split() for line in result.stdout.splitlines()
            if line.strip() and not line.startswith("#")]


class WeftPerf(unittest.TestCase):
    def check_table(self, result, operation, sizes):
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertEqual(result.stderr, "")
        table = rows(result)
        self.assertEqual(len(table), sizes, result.stdout)
        for cells in table:
            self.assertEqual(len(cells), 13, cells)
            self.assertEqual((cells[8], cells[12]), ("0", "0"), cells)
        self.assertIn(f"# Collective test starting: {operation}_perf\n", result.stdout)
        self.assertIn("# Out of bounds values : 0 OK\n", result.stdout)
        self.assertIn(f"# Collective test concluded: {operation}_perf\n", result.stdout)

    def test_every_operation_with_processes(self):
        for operation in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"):
            with self.subTest(operation):
                result = run(f"{operation} -b 8 -e 128K -f 8 -n 3 --nprocs 3")
                self.check_table(result, operation, 5)

    def test_every_operation_with_threads(self):
        for operation in ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"):
            with self.subTest(operation):
                result = run(f"{operation} -b 8 -e 128K -f 8 -n 3 --nprocs 3 --threads-as-ranks")
                self.check_table(result, operation, 5)

    def test_every_type_and_reduction(self):
        result = run("all_reduce -b 4096 -e 4096 -n 2 -o all -d all --nprocs 2")
        self.check_table(result, "all_reduce", 50)

    def test_every_root(self):
        result = run("reduce -b 1000 -e 1000 -n 2 -r all -u 1 --nprocs 3")
        self.check_table(result, "reduce", 3)
        self.assertEqual([cells[4] for cells in rows(result)], ["0", "1", "2"])

    def test_modes_measure_right_results_too(self):
        for mode in ("--symmetric", "--async", "-m 4", "--hot --bound", "-z 1", "-z 3 -m 2", "-I 1 -K 1",
                     "-t 2 -g 2", "-T 60 -a 3"):
            with self.subTest(mode):
                result = run(f"all_reduce -b 64K -e 64K -n 4 {mode} --nprocs 2")
                self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
                self.assertIn("# Out of bounds values : 0 OK\n", result.stdout)

    def test_barrier_has_one_line_without_size(self):
        result = run("barrier -n 5 --nprocs 2")
        self.assertEqual(result.returncode, 0, result.stderr)
        (cells,) = rows(result)
        self.assertEqual(cells[:5], ["0", "0", "none", "none", "-1"])
        self.assertEqual((cells[8], cells[12]), ("N/A", "N/A"))

    def test_links_have_the_names_of_nccl_tests(self):
        result = run("-b 8 -e 8 -n 1 -t 2", program="all_reduce_perf")
        self.check_table(result, "all_reduce", 1)

    def test_json_parses_and_holds_the_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            for _ in range(2):
                result = run(f"all_reduce -b 8 -e 64 -f 8 -n 2 -I 1 -J {path} --nprocs 2",
                             WEFT_JOB_SECRET_FILE="/nowhere", HOME="/secret")
                self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["out.json", "out.json.0"])
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        self.assertEqual(report["version"], 3)
        self.assertEqual([row["size"] for row in report["results"]], [8, 64])
        row = report["results"][0]
        self.assertEqual(row["root"], "    -1")
        self.assertEqual(row["in_place"]["nwrong"], 0)
        self.assertEqual(len(row["out_of_place_per_iter"]["per_process_max_times_us"]), 2)
        self.assertEqual(report["out_of_bounds"], {"count": 0, "okay": "true"})
        self.assertEqual(len(report["config"]["devices"]), 2)
        self.assertFalse([entry for entry in report["env"] if "SECRET" in entry or "HOME" in entry])

    def test_exit_codes(self):
        cases = (("", 6), ("all_reduce -q", 6), ("all_reduce -G 1", 6), ("all_reduce -b x", 255),
                 ("all_reduce -o mulsum", 5), ("reduce -r 2 -b 8 -e 8 --nprocs 2", 6), ("--help", 0))
        for arguments, code in cases:
            with self.subTest(arguments):
                result = run(arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(bool(result.stderr), code != 0)

    def test_low_bandwidth_fails(self):
        result = run("all_reduce -b 8 -e 8 -n 2 --nprocs 2", NCCL_TESTS_MIN_BW="1000000")
        self.assertEqual(result.returncode, 7)
        self.assertIn("FAILED", result.stdout)

    def test_a_launcher_that_disagrees_is_an_error(self):
        result = run("all_reduce --nprocs 2", WORLD_SIZE="4", RANK="0")
        self.assertEqual(result.returncode, 6)
        self.assertIn("WORLD_SIZE=4", result.stderr)
        self.assertEqual(result.stdout, "")

    def test_split_groups_measure_on_their_own(self):
        result = run("all_gather -b 4096 -e 4096 -n 2 --nprocs 4", NCCL_TESTS_SPLIT="MOD 2")
        self.check_table(result, "all_gather", 1)
        self.assertEqual(rows(result)[0][1], "512")
        self.assertIn("#  Rank  1 Group  1", result.stdout)


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
