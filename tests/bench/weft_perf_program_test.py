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
PROGRAM_NAMES = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "alltoall", "alltoallv",
                 "gather", "scatter", "sendrecv", "hypercube")
NOT_CHECKED_IN_PLACE = ("alltoall", "alltoallv", "sendrecv")
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
            in_place = "N/A" if operation in NOT_CHECKED_IN_PLACE else "0"
            self.assertEqual((cells[8], cells[12]), ("0", in_place), cells)
        self.assertIn(f"# Collective test starting: {operation}_perf\n", result.stdout)
        self.assertIn("# Out of bounds values : 0 OK\n", result.stdout)
        self.assertIn(f"# Collective test concluded: {operation}_perf\n", result.stdout)

    def test_every_program_on_two_processes(self):
        for operation in PROGRAM_NAMES:
            with self.subTest(operation):
                result = run("-b 8 -e 128K -f 8 -n 3 --nprocs 2", program=f"{operation}_perf")
                self.check_table(result, operation, 5)

    def test_every_operation_on_three_processes(self):
        for operation in PROGRAM_NAMES[:-1]:
            with self.subTest(operation):
                result = run(f"{operation} -b 8 -e 128K -f 8 -n 3 -u 1 --nprocs 3")
                self.check_table(result, operation, 5)

    def test_every_operation_on_four_threads(self):
        for operation in PROGRAM_NAMES:
            with self.subTest(operation):
                result = run(f"{operation} -b 8 -e 128K -f 8 -n 3 --nprocs 4 --threads-as-ranks")
                self.check_table(result, operation, 5)

    def test_new_operations_in_every_mode(self):
        for operation in ("alltoall", "alltoallv", "gather", "scatter", "sendrecv", "hypercube", "scan", "exscan"):
            for mode in ("-R 1", "-R 2", "--async", "-m 4", "--hot --bound", "-z 1", "-d f8e4m3 -c 2"):
                with self.subTest(operation + " " + mode):
                    result = run(f"{operation} -b 64K -e 64K -n 4 {mode} --nprocs 2")
                    self.check_table_of_modes(result)

    def check_table_of_modes(self, result):
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertIn("# Out of bounds values : 0 OK\n", result.stdout)

    def test_every_type_and_reduction(self):
        for operation, ranks in (("all_reduce", 2), ("reduce_scatter", 3), ("reduce", 4), ("scan", 3), ("exscan", 4)):
            with self.subTest(operation):
                result = run(f"{operation} -b 4096 -e 4096 -n 2 -o all -d all --nprocs {ranks}")
                self.check_table(result, operation, 12 * 6)

    def test_every_type_where_values_are_only_moved(self):
        for operation in ("broadcast", "all_gather", "alltoall", "alltoallv", "gather", "scatter", "hypercube"):
            with self.subTest(operation):
                result = run(f"{operation} -b 4096 -e 4096 -n 2 -o all -d all --nprocs 2")
                self.check_table(result, operation, 12)

    def test_messages_run_once_for_each_reduction_as_in_nccl_tests(self):
        result = run("sendrecv -b 4096 -e 4096 -n 2 -o all --nprocs 2")
        self.check_table(result, "sendrecv", 6)
        self.assertEqual([cells[3] for cells in rows(result)], ["sum", "prod", "max", "min", "avg", "mulsum"])

    def test_a_hypercube_needs_a_power_of_two(self):
        result = run("hypercube -b 4096 -e 4096 -n 2 --nprocs 3")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nRanks 3 is not a power of 2, skipping\n", result.stdout)
        self.assertIn("# Collective test concluded: hypercube_perf\n", result.stdout)

    def test_cycles_repeat_the_sizes(self):
        result = run("all_reduce -b 8 -e 64 -f 8 -n 2 -N 3 -p 1 --nprocs 2")
        self.check_table(result, "all_reduce", 6)
        self.assertEqual([cells[0] for cells in rows(result)], ["8", "64"] * 3)

    def test_every_root(self):
        result = run("reduce -b 1000 -e 1000 -n 2 -r all -u 1 --nprocs 3")
        self.check_table(result, "reduce", 3)
        self.assertEqual([cells[4] for cells in rows(result)], ["0", "1", "2"])

    def test_every_root_of_gather_and_scatter(self):
        for operation in ("gather", "scatter"):
            with self.subTest(operation):
                result = run(f"{operation} -b 1000 -e 1000 -n 2 -r all --nprocs 3")
                self.check_table(result, operation, 3)

    def test_modes_measure_right_results_too(self):
        for mode in ("--symmetric", "--async", "-m 4", "--hot --bound", "-z 1", "-z 3 -m 2", "-I 1 -K 1",
                     "-t 2 -g 2", "-T 60 -a 3"):
            with self.subTest(mode):
                self.check_table_of_modes(run(f"all_reduce -b 64K -e 64K -n 4 {mode} --nprocs 2"))

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
                             WEFT_JOB_SECRET_FILE="/proc/none", HOME="/secret")
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

    def test_a_run_that_fails_before_its_first_row_says_so_in_json(self):
        for arguments, why in (("reduce -r 2 -b 8 -e 8 --nprocs 2", "-r 2: the group has ranks 0 to 1 only"),
                               ("all_reduce -b 8 -e 8 --repro --nprocs 2", "failed")):
            with self.subTest(arguments), tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "out.json")
                result = run(f"{arguments} -J {path}", WEFT_ISA="mmx" if "--repro" in arguments else "scalar")
                self.assertNotEqual(result.returncode, 0, result.stdout)
                self.assertIn("# error: ", result.stdout)
                with open(path, encoding="utf-8") as file:
                    report = json.load(file)
                self.assertEqual(report["results"], [])
                self.assertEqual(len(report["errors"]), 1)
                self.assertIn(why, report["errors"][0])

    def test_a_run_that_is_killed_says_in_json_that_it_did_not_end(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            command = [os.path.join(PROGRAMS, "weft_perf"), "all_reduce", "-b", "8", "-e", "8", "-n", "1", "-N", "0", "-J", path]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
                while process.stdout.readline().startswith("#"):
                    pass
                process.kill()
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["errors"], ["the run did not end"])

    def test_exit_codes(self):
        cases = (("", 6), ("all_reduce -q", 6), ("all_reduce -G 1", 6), ("all_reduce -b x", 255),
                 ("all_reduce -R 4", 6), ("barrier --repro", 6), ("reduce -r 2 -b 8 -e 8 --nprocs 2", 6), ("--help", 0))
        for arguments, code in cases:
            with self.subTest(arguments):
                result = run(arguments)
                self.assertEqual(result.returncode, code, result.stderr)
                self.assertEqual(bool(result.stderr), code != 0)

    def test_a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none(self):
        command = [os.path.join(PROGRAMS, "weft_perf"), "all_reduce", "-b", "8", "-e", "8", "-n", "2"]
        for options in ([], ["--repro"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                result = subprocess.run(command + options, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("writing the table failed: No space left on device", result.stderr)
        reader, writer = os.pipe()
        os.close(reader)
        with os.fdopen(writer, "w") as gone:
            result = subprocess.run(command, stdout=gone, stderr=subprocess.PIPE, text=True, timeout=120)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

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
        self.assertIn("# Group  1,   2 ranks   : ", result.stdout)

    def test_groups_of_different_sizes_have_numbers_of_their_own(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            result = run(f"reduce -b 4096 -e 4096 -n 2 -r all -J {path} --nprocs 3", NCCL_TESTS_SPLIT="div 2")
            self.assertEqual(result.returncode, 0, result.stderr)
            with open(path, encoding="utf-8") as file:
                report = json.load(file)
        # Every group has a root 0 only.
        (row,) = report["results"]
        self.assertEqual([(group["group"], group["ranks"]) for group in row["groups"]], [(0, 2), (1, 1)])

    def test_alltoallv_by_distance_prints_a_summary(self):
        result = run("alltoallv -b 1M -e 1M -n 2 --nprocs 3", NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY="1",
                     NCCL_TESTS_ALLTOALLV_SPREAD="0")
        self.check_table(result, "alltoallv", 1)
        self.assertEqual(result.stdout.count("# NCCL_TESTS_ALLTOALLV_PRINT_SUMMARY: mode=generated nranks=3"), 2)
        self.assertEqual(result.stdout.count("#   rank=2 send_bytes=1048560 recv_bytes=1048560 "), 2)

    def test_alltoallv_by_matrix(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "matrix.txt")
            with open(path, "w", encoding="utf-8") as file:
                file.write("100 2000 150\n50 100 0\n300 0 0\n")
            result = run("-b 32K -e 32K -n 2 -d all --nprocs 3", program="alltoallv_perf",
                         NCCL_TESTS_ALLTOALLV_MATRIX_FILE=path, NCCL_TESTS_ALLTOALLV_MATRIX_SCALE="8")
            self.check_table(result, "alltoallv", 12)
            self.assertEqual(rows(result)[0][:2], ["18000", "0"])
            for arguments, says in (("-b 8K -e 8K --nprocs 3", "needs buffers of 18000 bytes"),
                                    ("-b 32K -e 64K -f 2 --nprocs 3", "the same value"),
                                    ("-b 32K -e 32K --nprocs 4", "3 ranks at most")):
                with self.subTest(arguments):
                    bad = run(arguments, program="alltoallv_perf", NCCL_TESTS_ALLTOALLV_MATRIX_FILE=path,
                              NCCL_TESTS_ALLTOALLV_MATRIX_SCALE="8")
                    self.assertEqual(bad.returncode, 1, bad.stdout)
                    self.assertIn(says, bad.stderr)

    def check_reproducibility(self, result):
        """One hash for each size, whatever the way."""
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertRegex(result.stdout, r"# Reproducibility: [1-9][0-9]* results, 1 distinct hashes per "
                                        r"\(operation,type,op,size,ranks\): OK\n")
        table = rows(result)
        self.assertTrue(table)
        for cells in table:
            self.assertRegex(cells[5], "^[0-9a-f]{16}$")
            self.assertEqual(cells[6], table[0][5])
            self.assertEqual(cells[8], "1")

    def test_one_result_for_all_ranks(self):
        for operation in ("all_reduce", "all_gather", "broadcast"):
            for ranks in ("--nprocs 3", "--nprocs 4 --threads-as-ranks", "--nprocs 2 --async"):
                with self.subTest(operation, ranks=ranks):
                    result = run(f"{operation} -b 8 -e 2M -f 8 -n 3 -c 2 --shared -u 1 {ranks}")
                    self.check_table(result, operation, 7)
                    self.assertIn(", shared", result.stdout)
        result = run("reduce -b 8 -e 8 --shared --nprocs 2")
        self.assertEqual(result.returncode, 6, result.stdout)
        self.assertIn("--shared", result.stderr)

    def test_results_are_reproducible(self):
        for operation in PROGRAM_NAMES:
            with self.subTest(operation):
                self.check_reproducibility(run(f"{operation} -b 1K -e 1M -f 32 --nprocs 4 --repro"))

    def test_hashes_are_the_same_in_the_next_run_and_in_json(self):
        hashes = set()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            for ranks_are in ("", "--threads-as-ranks"):
                result = run(f"reduce_scatter -b 8K -e 8K -d bfloat16 --nprocs 3 --repro -J {path} {ranks_are}")
                self.check_reproducibility(result)
                hashes.add(rows(result)[0][5])
            with open(path, encoding="utf-8") as file:
                report = json.load(file)["reproducibility"]
        self.assertEqual(len(hashes), 1)
        self.assertEqual({row["hash"] for row in report["results"]}, hashes)
        self.assertEqual(report["okay"], "true")
        # The first run was the one that is read: processes and threads, and each instruction set.
        self.assertEqual({row["ranks_are"] for row in report["results"]}, {"processes", "threads"})
        self.assertIn("scalar", {row["isa"] for row in report["results"]})
        self.assertEqual({row["nodes"] for row in report["results"]}, {"1", "2", "3", "0,0,1", "0,1,0"})
        self.assertEqual({row["in_place"] for row in report["results"]}, {False, True})
        self.assertEqual({row["blocking"] for row in report["results"]}, {False, True})
        self.assertEqual({row["memory"] for row in report["results"]}, {"private", "symmetric"})

    def test_every_type_and_reduction_is_reproducible(self):
        result = run("all_reduce -b 4K -e 4K -d all -o all --nprocs 3 --repro", WEFT_ISA="scalar")
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        self.assertEqual(len(rows(result)), 12 * 6)

    def test_reproducibility_of_ranks_that_cannot_start_is_an_error(self):
        result = run("all_reduce -b 8 -e 8 --nprocs 2 --repro", WEFT_ISA="mmx")
        self.assertEqual(result.returncode, 3, result.stdout)
        self.assertIn("WEFT_ISA", result.stderr)
        self.assertNotIn("# Reproducibility: 0", result.stdout)


if __name__ == "__main__":
    PROGRAMS = sys.argv.pop(1)
    unittest.main()
