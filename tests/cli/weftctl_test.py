"""weftctl: its output formats and its answers to bad command lines."""
import csv
import json
import os
import pathlib
import random
import re
import subprocess
import tempfile
import xml.etree.ElementTree

import launched
from launched import LaunchedTest


class Options(LaunchedTest):
    def test_the_three_formats_have_the_same_rows(self):
        code, out, err = self.run_to_end("options", "--json")
        self.assertEqual((0, []), (code, err))
        rows = json.loads("\n".join(out))["options"]
        names = [row["environment"] for row in rows]
        self.assertIn("WEFT_TIMEOUT_S", names)
        self.assertTrue(all(row["meaning"] and row["type"] for row in rows))

        _, text, _ = self.run_to_end("options")
        self.assertEqual(names, [line.split()[0] for line in text])
        _, markdown, _ = self.run_to_end("options", "--markdown")
        table = [line for line in markdown if line.startswith("| `")]
        self.assertEqual(names, [line.split("`")[1] for line in table])
        self.assertTrue(all(line.count("|") == 5 + line.count("\\|") for line in table))

    def test_bad_command_lines(self):
        for arguments in ((), ("nothing",), ("options", "--bogus"), ("options", "--json", "--markdown"), ("options", "x")):
            with self.subTest(arguments):
                code, out, err = self.run_to_end(*arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertTrue(err[0].startswith("weftctl: "))

    def test_a_full_disk_is_named(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([launched.program, "options"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
                                  check=False)
        self.assertEqual((1, "weftctl: writing the output failed: No space left on device\n"),
                         (done.returncode, done.stderr))

    def test_help_lists_the_commands(self):
        code, out, _ = self.run_to_end("--help")
        self.assertEqual(0, code)
        self.assertTrue(any("options" in line for line in out))


class Pipeline(LaunchedTest):
    def pipeline(self, *arguments):
        code, out, err = self.run_to_end("pipeline", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def test_says_what_a_step_takes_and_what_ranks_keep(self):
        out = self.pipeline("1f1b", "--ranks", "4", "--microbatches", "8")
        self.assertIn("a step takes 33, and 27.27 % of the ranks' time is idle", out)
        self.assertEqual([["0", "24", "9", "4"], ["3", "24", "9", "1"]], [out[4].split(), out[7].split()])

    def test_a_file_is_as_good_as_a_name(self):
        shape = ("--ranks", "4", "--microbatches", "8", "--chunks", "2")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mine.json")
            path.write_text("\n".join(self.pipeline("interleaved", *shape, "--json")))
            self.assertEqual(self.pipeline("interleaved", *shape, "--rank", "2"), self.pipeline(str(path), "--rank", "2"))
            # One micro-batch's forward is left out.
            path.write_text(path.read_text().replace('["F",3,1],', "", 1))
            code, out, err = self.run_to_end("pipeline", str(path))
        self.assertEqual((2, []), (code, out))
        self.assertEqual(["weftctl: rank 0, B 3 of chunk 1: P1: it comes before what it needs"], err)

    def test_draws(self):
        root = xml.etree.ElementTree.fromstring("\n".join(self.pipeline("zb-h1", "--svg")))
        titles = [node.text for node in root.iter("{http://www.w3.org/2000/svg}title")]
        self.assertEqual(4 * 8 * 3, len(titles))

    def test_what_cannot_be_is_one_line(self):
        for arguments in (("dualpipe",), ("interleaved", "--microbatches", "6"), ("gpipe", "--chunks", "2"), ("1f1b", "--rank", "4"),
                          ("1f1b", "--forward", "-1"), ("./nothing.json",), ("1f1b", "--json", "--svg"), ()):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("pipeline", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)


class Dump(LaunchedTest):
    def test_bad_files_are_one_line_each(self):
        for arguments, lines in (((), 1), (("/proc/none.wfr",), 1), ((__file__, "/dev/null", "/proc"), 3),
                                 (("--bogus", __file__), 1)):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("dump", *arguments)
                self.assertEqual((2, [], lines), (code, out, len(err)), err)
                self.assertTrue(all(line.startswith("weftctl: ") for line in err))

    def test_json_is_valid_without_a_readable_file(self):
        code, out, _ = self.run_to_end("dump", "--json", __file__)
        self.assertEqual(2, code)
        self.assertEqual({"version": 1, "dumps": []}, json.loads("\n".join(out)))


class Explain(LaunchedTest):
    def explain(self, *arguments):
        return self.run_to_end("explain", *arguments, environment=launched.clean_environment(WEFT_TUNE="static"))

    def lines(self, *arguments):
        code, out, err = self.explain(*arguments)
        self.assertEqual((0, []), (code, err))
        return dict(line.split(": ", 1) for line in out)

    def test_says_what_is_taken_and_what_is_not(self):
        lines = self.lines("all_reduce", "64M")
        self.assertEqual(("all_reduce on 2 ranks of one node", "staged", str(64 << 20)),
                         (lines["operation"], lines["algorithm"], lines["bytes per rank"]))
        self.assertRegex(lines["predicted time"], r"^[\d.]+ us, by a static model")
        self.assertRegex(lines["chunk"], r"^\d+ bytes")
        self.assertEqual({"inline", "slot", "direct", "single_copy"}, {name[4:] for name in lines if name.startswith("not ")})
        self.assertRegex(lines["not direct"], r"memory that its peers can reach.*; predicted [\d.]+ us$")

    def test_follows_its_options(self):
        self.assertEqual("inline", self.lines("all_reduce", "8")["algorithm"])
        self.assertEqual("direct", self.lines("all_reduce", "1MiB", "--symmetric")["algorithm"])
        self.assertEqual("all_gather on 8 ranks of one node", self.lines("all_gather", "64K", "--ranks", "8")["operation"])
        self.assertEqual("6", self.lines("all_reduce", "6", "--dtype", "bfloat16")["bytes per rank"])

    def test_json_has_the_same(self):
        code, out, err = self.explain("broadcast", "1M", "--json")
        self.assertEqual((0, []), (code, err))
        report = json.loads("\n".join(out))
        lines = self.lines("broadcast", "1M")
        rejected = {name[4:]: why for name, why in lines.items() if name.startswith("not ")}
        self.assertEqual(rejected, report.pop("rejected"))
        self.assertEqual(1, report.pop("version"))
        self.assertEqual({name.replace(" ", "_"): value for name, value in lines.items() if not name.startswith("not ")}, report)

    def test_bad_command_lines(self):
        for arguments, word in ((("all_reduce",), "BYTES"), (("reduce_all", "8"), "reduce_all"), (("gather_v", "8"), "gather_v"),
                                (("all_reduce", "7"), "float32"), (("all_reduce", "-8"), "8"), (("all_reduce", "x"), "x"),
                                (("all_reduce", "9999999999T"), "9999999999T"), (("all_reduce", "8", "--ranks", "0"), "0 ranks"),
                                (("all_reduce", "8", "--ranks", "65"), "65 ranks"), (("all_reduce", "8", "--dtype", "f"), '"f"')):
            with self.subTest(arguments):
                code, out, err = self.explain(*arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])


class ExplainNodes(LaunchedTest):
    def explain(self, *arguments):
        code, out, err = self.run_to_end("explain", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def rows(self, *arguments):
        return list(csv.DictReader(self.explain(*arguments, "--csv")))

    def test_table_has_every_operation_and_size(self):
        lines = self.explain("--nodes", "2x2")
        self.assertEqual("4 ranks on 2 nodes, float32; by a model, and not measured", lines[0])
        self.assertEqual("pieces: 1 of the node that has most", lines[3])
        self.assertEqual(6 + 1 + 8 * 5, len(lines))
        rows = self.rows("--nodes", "2x2")
        self.assertEqual(1 + 8 * 5, len(rows))
        for row in rows:
            self.assertGreater(int(row["predicted_ns"]), 15000, row)

    def test_orders_of_ranks_have_their_price(self):
        (nested,) = self.rows("all_reduce", "1M", "--nodes", "2x2")
        (turns,) = self.rows("all_reduce", "1M", "--nodes", "2x2:cyclic")
        (uneven,) = self.rows("all_reduce", "1M", "--nodes", "3,1")
        self.assertEqual([("1", 1 << 20), ("2", 3 << 19), ("2", 3 << 19)],
                         [(row["pieces"], int(row["node_bytes"]) // 4096 * 4096) for row in (nested, turns, uneven)])
        self.assertLess(int(nested["predicted_ns"]), int(turns["predicted_ns"]))
        (integers,) = self.rows("all_reduce", "1M", "--nodes", "2x2:cyclic", "--dtype", "int32")
        self.assertEqual(("1", 1 << 20), (integers["pieces"], int(integers["node_bytes"]) // 4096 * 4096))
        self.assertIn("pieces: 2 of the node that has most; 1 of integers, bits, min and max",
                      self.explain("all_reduce", "1M", "--nodes", "2x2:cyclic"))
        price = [line for line in self.explain("all_reduce", "1M", "--nodes", "2x2:cyclic") if line.startswith("price: ")]
        self.assertRegex(price[0], "2 pieces.*first: 0,2,1,3$")
        self.assertNotIn("price", "".join(self.explain("all_reduce", "1M", "--nodes", "3,1")))

    def test_links_are_those_asked_for(self):
        (row,) = self.rows("all_reduce", "8", "--nodes", "2x1", "--latency-us", "100", "--gbit", "1")
        self.assertEqual(("recursive_doubling", "1", str(2 * 3000 + 100_000 + 64)), (row["schedule"], row["levels"], row["predicted_ns"]))

    # Between distant nodes one message after the other costs most, and between near ones each byte does.
    def test_another_network_has_other_schedules(self):
        arguments = ("all_reduce", "40K", "--nodes", "4x1")
        (near,) = self.rows(*arguments, "--latency-us", "1", "--gbit", "0.1")
        (distant,) = self.rows(*arguments, "--latency-us", "10000", "--gbit", "100")
        self.assertNotEqual(near["schedule"], distant["schedule"])
        (large,) = self.rows("all_reduce", "64M", "--nodes", "2x2")
        self.assertEqual(("128", "1"), (large["segments"], near["segments"]))
        self.assertIn("(given)", self.explain(*arguments, "--gbit", "1")[1])
        self.assertIn("(default)", self.explain(*arguments)[1])

    def test_bad_command_lines(self):
        for arguments, word in ((("--nodes", "2"), "--nodes 2"), (("--nodes", "3,0"), "3,0"), (("--nodes", "2x300"), "2x300"), (("--nodes", ""), "--nodes"),
                                (("--nodes", "100x100"), "256 ranks"), (("--nodes", "1x4"), "two nodes"), (("sum", "--nodes", "2x2"), "sum"),
                                (("--nodes", "2x2", "--gbit", "0"), "--gbit 0"), (("--nodes", "2x2", "--latency-us", "nan"), "nan"),
                                (("all_reduce", "8", "--csv"), "--nodes"), (("--nodes", "2x2", "--json"), "--json")):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("explain", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])


class Tune(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = pathlib.Path(folder.name)

    def tune(self, *arguments, **environment):
        environment = launched.clean_environment(**{"XDG_CACHE_HOME": str(self.cache), **environment})
        code, out, err = self.run_to_end("tune", *arguments, environment=environment)
        self.assertEqual((0, []), (code, err))
        return out

    def tune_json(self, *arguments, **environment):
        return json.loads("\n".join(self.tune("--json", *arguments, **environment)))

    def test_measures_once_and_says_where_numbers_come_from(self):
        first = self.tune_json()
        self.assertEqual("measured", first["origin"])
        files = list(self.cache.glob("weft/*"))
        self.assertEqual([first["path"]], [str(file) for file in files])
        again = self.tune_json()
        self.assertEqual(("file", first["model"], first["path"]), (again["origin"], again["model"], again["path"]))
        self.assertIn(f"from {first['path']}, measured", self.tune()[1])
        self.assertEqual("measured", self.tune_json("--measure")["origin"])

    def test_static_touches_nothing(self):
        self.assertEqual("static", self.tune_json(WEFT_TUNE="static")["origin"])
        self.assertEqual([], os.listdir(self.cache))

    def test_predictions_are_there_for_what_was_chosen(self):
        report = self.tune_json(WEFT_TUNE="static")
        self.assertEqual([2, 4, 8], [tuning["ranks"] for tuning in report["tunings"]])
        self.assertEqual({2, 4, 8}, {row["ranks"] for row in report["predictions"]})
        for row in report["predictions"]:
            for chosen in (row["private"], row["symmetric"]):
                self.assertGreater(row["ns"][chosen], 0, row)

    def test_a_damaged_file_is_one_line_and_replaced(self):
        path = pathlib.Path(self.tune_json()["path"])
        path.write_text("{", encoding="ascii")
        code, out, err = self.run_to_end("tune", "--json", environment=launched.clean_environment(XDG_CACHE_HOME=str(self.cache)))
        self.assertEqual((0, 1), (code, len(err)), err)
        self.assertIn(str(path), err[0])
        self.assertEqual("measured", json.loads("\n".join(out))["origin"])
        self.assertEqual("file", self.tune_json()["origin"])

    def test_bad_command_lines(self):
        for arguments in (("--bogus",), ("x",)):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("tune", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)


class Plan(LaunchedTest):
    def plan(self, *arguments):
        code, out, err = self.run_to_end("plan", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def plan_json(self, *arguments):
        return json.loads("\n".join(self.plan("--json", *arguments)))

    def rows(self, *arguments):
        """The table: {strategy: {column: cell}}."""
        lines = self.plan(*arguments)
        head = next(i for i, line in enumerate(lines) if line.startswith("strategy "))
        names = lines[head].replace("x params", "x_params").split()
        cells = [line.split() for line in lines[head + 1:lines.index("", head)]]
        self.assertTrue(all(len(row) == len(names) for row in cells), lines)
        return {row[0]: dict(zip(names, row)) for row in cells}

    def test_published_tables(self):
        for arguments, digits, published in (
                (("--params", "7e9", "--ranks", "4"), 0, ("112", "70", "49", "28")),
                (("--params", "7.5B", "--ranks", "64", "--mix", "fp16"), 1, ("120.0", "31.4", "16.6", "1.9"))):
            with self.subTest(arguments):
                rows = self.rows(*arguments)
                self.assertEqual(published, tuple(f"{float(rows[name]['total']):.{digits}f}"
                                                  for name in ("ddp", "zero1", "zero2", "full-shard")))
                totals = {row["strategy"]: row["rest_bytes"]["total"] for row in self.plan_json(*arguments)["strategies"]}
                self.assertEqual(published, tuple(f"{totals[name] / 1e9:.{digits}f}"
                                                  for name in ("ddp", "zero1", "zero2", "full-shard")))

    def test_table_and_json_have_the_same(self):
        arguments = ("--params", "7B", "--ranks", "8", "--mix", "2,4,4,8", "--largest-unit", "250M", "--microbatches", "3",
                     "--accumulation", "every", "--shard-group", "4", "--budget", "40GB")
        table, report = self.rows(*arguments), self.plan_json(*arguments)
        self.assertEqual(["ddp", "zero1", "zero2", "shard-grad-op", "full-shard", "hybrid", "hpz", "fraction"],
                         [row["strategy"] for row in report["strategies"]])
        self.assertEqual(list(table), [row["strategy"] for row in report["strategies"]])

        def cell(value):
            return f"{value / 1e9:.2f}" if value else "-"
        for row in report["strategies"]:
            with self.subTest(row["strategy"]):
                rest = row["rest_bytes"]
                self.assertEqual({"strategy": row["strategy"], "params": cell(rest["params"]), "main": cell(rest["main"]),
                                  "gradients": cell(rest["gradients"]), "optimizer": cell(rest["optimizer"]),
                                  "total": cell(rest["total"]), "forward": cell(row["forward_bytes"]),
                                  "backward": cell(row["backward_bytes"]), "peak": cell(row["peak_bytes"]),
                                  "GB": cell(row["sent_bytes"]), "x_params": f"{row['sent_elements']['total'] / 7e9:.2f}",
                                  "fits": "yes" if row["fits"] else "no"}, table[row["strategy"]])
                self.assertEqual(row["fits"], row["peak_bytes"] <= 40e9)
        self.assertEqual({"params": 7e9, "ranks": 8, "element_bytes": {"params": 2, "main": 4, "gradients": 4, "optimizer": 8},
                          "largest_unit": 250e6, "micro_batches": 3, "accumulation": "every", "shard_group": 4,
                          "budget_bytes": 40e9, "views": "move", "offload": False, "offload_params": False}, report["input"])
        self.assertEqual(1, report["version"])

    def test_takes_the_least_traffic_that_fits(self):
        arguments = ("--params", "7B", "--ranks", "4", "--shard-group", "2")
        for budget in ("200GB", "60GB", "40GiB", "35GB", "20GB"):
            with self.subTest(budget):
                report = self.plan_json(*arguments, "--budget", budget)
                fitting = [row for row in report["strategies"] if row["fits"]]
                lines = self.plan(*arguments, "--budget", budget)
                if not fitting:
                    self.assertIsNone(report["choice"])
                    self.assertTrue(lines[-1].startswith("none fits 20.00 GB: full-shard takes least, "), lines[-1])
                    continue
                best = min(fitting, key=lambda row: (row["sent_bytes"], row["peak_bytes"]))
                self.assertEqual(best["strategy"], report["choice"])
                self.assertTrue(lines[-1].startswith(f"take {best['strategy']}: "), lines[-1])

    def test_without_group_or_budget_says_what_is_missing(self):
        lines = self.plan("--params", "1e6", "--ranks", "2")
        self.assertTrue(any(line.startswith("hybrid and hpz: with --shard-group") for line in lines))
        self.assertTrue(any("with --budget" in line for line in lines))
        report = self.plan_json("--params", "1e6", "--ranks", "2")
        self.assertEqual((None, None, None), (report["choice"], report["input"]["budget_bytes"], report["input"]["shard_group"]))
        self.assertEqual({None}, {row["fits"] for row in report["strategies"]})

    def test_the_page_shows_what_it_prints(self):
        page = (pathlib.Path(__file__).parents[2] / "docs" / "memory.md").read_text(encoding="utf-8").splitlines()
        command = next(line for line in page if line.startswith("    weftctl plan "))
        start = page.index(command) + 2
        printed = self.plan(*command.split()[2:])
        shown = [line[4:] for line in page[start:start + len(printed)]]
        self.assertEqual(printed, shown)

    def test_stable_views_have_a_price(self):
        arguments = ("--params", "7B", "--ranks", "8", "--shard-group", "4")
        moving = {row["strategy"]: row for row in self.plan_json(*arguments)["strategies"]}
        self.assertEqual({0.0}, {row["views_bytes"] for row in moving.values()})
        unit = 7e9 / 32 * 4
        for views, full_shard in (("stable", 1), ("apart", 31)):
            with self.subTest(views):
                report = self.plan_json(*arguments, "--views", views)
                self.assertEqual(views, report["input"]["views"])
                rows = {row["strategy"]: row for row in report["strategies"]}
                for name, row in rows.items():
                    self.assertEqual(moving[name]["peak_bytes"] + row["views_bytes"], row["peak_bytes"], name)
                self.assertEqual(0, rows["ddp"]["views_bytes"])
                self.assertAlmostEqual(full_shard * unit, rows["full-shard"]["views_bytes"], delta=unit / 100)
                lines = self.plan(*arguments, "--views", views)
                self.assertTrue(any(line.startswith("full-shard takes ") and f" for {views} views" in line for line in lines), lines)

    def test_what_is_offloaded_is_in_files(self):
        arguments = ("--params", "7B", "--ranks", "8", "--mix", "bf16")
        resident = {row["strategy"]: row for row in self.plan_json(*arguments)["strategies"]}
        report = self.plan_json(*arguments, "--offload")
        self.assertTrue(report["input"]["offload"])
        for row in report["strategies"]:
            before = resident[row["strategy"]]
            self.assertEqual(0, before["offload_bytes"])
            self.assertEqual(before["rest_bytes"]["main"] + before["rest_bytes"]["optimizer"], row["offload_bytes"])
            self.assertEqual((0, 64 * 2**20), (row["rest_bytes"]["main"], row["rest_bytes"]["optimizer"]))
            self.assertAlmostEqual(before["peak_bytes"] - row["offload_bytes"] + 64 * 2**20, row["peak_bytes"], delta=1)
        lines = self.plan(*arguments, "--offload")
        self.assertIn("zero1 has 10.50 GB in each rank's file, which an update reads and writes", lines)

    def test_params_that_are_sharded_at_rest_are_in_files_too(self):
        arguments = ("--params", "7B", "--ranks", "8", "--mix", "bf16", "--offload")
        state = {row["strategy"]: row for row in self.plan_json(*arguments)["strategies"]}
        report = self.plan_json(*arguments, "--offload-params")
        self.assertTrue(report["input"]["offload_params"])
        for row in report["strategies"]:
            before = state[row["strategy"]]
            sharded = row["strategy"] not in ("ddp", "zero1", "zero2")
            params = before["rest_bytes"]["params"]
            self.assertEqual(0 if sharded else params, row["rest_bytes"]["params"])
            self.assertEqual(before["offload_bytes"] + (params if sharded else 0), row["offload_bytes"])
        self.assertEqual(2, self.run_to_end("plan", "--params", "7B", "--ranks", "8", "--offload-params")[0])

    def test_numbers_keep_their_digits(self):
        for text, value in (("2851598336", 2851598336), ("2.851598336B", 2851598336), ("2851598.336K", 2851598336),
                            ("7e9", 7e9), ("1.5T", 1.5e12), ("3G", 3e9)):
            with self.subTest(text):
                self.assertEqual(value, self.plan_json("--params", text, "--ranks", "2")["input"]["params"])
        for text, value in (("1234567", 1234567), ("1.5GB", 1.5e9), ("2GiB", 2 << 30), ("3MiB", 3 << 20), ("4096B", 4096)):
            with self.subTest(text):
                self.assertEqual(value, self.plan_json("--params", "1e6", "--ranks", "2", "--budget", text)["input"]["budget_bytes"])

    def test_bad_command_lines(self):
        good = ("--params", "7e9", "--ranks", "4")
        for arguments, word in ((("--ranks", "4"), "--params"), (("--params", "7e9"), "--ranks"), ((*good, "x"), "x"),
                                (("--params", "seven", "--ranks", "4"), "seven"), (("--params", "7e9x", "--ranks", "4"), "7e9x"),
                                (("--params", "0", "--ranks", "4"), "0 params"), (("--params", "nan", "--ranks", "4"), "nan"),
                                (("--params", "1e400", "--ranks", "4"), "1e400"),
                                (("--params", "1e300T", "--ranks", "4"), "1e300T"), (("--params", "1e20", "--ranks", "4"), "1e+20 params"), (("--params", "-7e9", "--ranks", "4"), "-7e+09 params"),
                                (("--params", "7e9", "--ranks", "0"), "0 ranks"), (("--params", "7e9", "--ranks", "-1"), "-1 ranks"),
                                (("--params", "7e9", "--ranks", "many"), "many"), ((*good, "--mix", "fp8"), "fp8"),
                                ((*good, "--mix", "1,2,3"), "1,2,3"), ((*good, "--mix", "1,2,3,4,5"), "1,2,3,4,5"),
                                ((*good, "--mix", "1,2,,4"), "1,2,,4"), ((*good, "--mix", "0,2,3,4"), "0 (params)"),
                                ((*good, "--units", "0"), "--units 0"), ((*good, "--largest-unit", "8B"), "8e+09"),
                                ((*good, "--units", "2", "--largest-unit", "1B"), "--largest-unit"),
                                ((*good, "--microbatches", "0"), "0 micro-batches"), ((*good, "--accumulation", "never"), "never"),
                                ((*good, "--shard-group", "3"), "groups of 3"), ((*good, "--budget", "40G"), "40GiB"),
                                ((*good, "--budget", "0"), "above 0"), ((*good, "--views", "still"), "still"), ((*good, "--deepspeed"), "--deepspeed")):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("plan", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])


def msccl_ring(ranks, **change):
    """A ring all-reduce in place as MSCCL's XML: one thread block per GPU, a chunk per GPU. `change` replaces attributes of the first GPU's
    second step."""
    lines = [f'<algo name="ring" proto="Simple" nchannels="1" nchunksperloop="{ranks}" ngpus="{ranks}" coll="allreduce" inplace="1">']
    for gpu in range(ranks):
        lines.append(f'<gpu id="{gpu}" i_chunks="{ranks}" o_chunks="0" s_chunks="0">')
        lines.append(f'<tb id="0" send="{(gpu + 1) % ranks}" recv="{(gpu - 1) % ranks}" chan="0">')
        types = ["s", *["rrs"] * (ranks - 2), "rrcs", *["rcs"] * (ranks - 2), "r"]
        for number, kind in enumerate(types):
            chunk = (gpu - number) % ranks
            step = {"s": number, "type": kind, "srcbuf": "i", "srcoff": chunk, "dstbuf": "i", "dstoff": chunk, "cnt": 1, "depid": -1, "deps": -1,
                    "hasdep": 0}
            if (gpu, number) == (0, 1):
                step.update(change)
            lines.append("<step " + " ".join(f'{name}="{value}"' for name, value in step.items()) + "/>")
        lines.append("</tb></gpu>")
    return "\n".join([*lines, "</algo>\n"])


class Schedule(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, text, name="schedule"):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def run_schedule(self, *arguments):
        code, out, err = self.run_to_end("schedule", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def test_shows_ops_of_all_or_of_one(self):
        lines = self.run_schedule("show", "ring", "all_gather", "3", "--count", "5")
        self.assertEqual("ring all_gather of 3 participants, 5 units; window 2, can be in place", lines[0])
        self.assertEqual("participant 0: sends 10 elements and 0 accumulators", lines[1])
        self.assertEqual("     0 send to 1, tag 2: input[0, 5)", lines[2])
        one = self.run_schedule("show", "ring", "all_gather", "3", "--count", "5", "--participant", "2")
        self.assertEqual(lines[-len(one) + 1:], one[1:])
        self.assertIn("sums in any order", self.run_schedule("show", "ring", "all_reduce", "3", "--any-order")[0])
        # No table: one of many is shown without the others.
        self.assertLess(len(self.run_schedule("show", "tree_halving", "all_reduce", "65536", "--participant", "40000")), 100)

    def test_what_is_shown_for_programs_can_be_verified(self):
        for arguments in (("direct", "all_reduce", "5"), ("tree_halving", "all_reduce", "6"), ("binomial", "reduce", "7", "--root", "3"),
                          ("double_tree", "all_reduce", "4", "--any-order"), ("bruck", "barrier", "5"),
                          ("ring", "all_reduce", "6", "--any-order", "--group", "3")):
            path = self.file("\n".join(self.run_schedule("show", *arguments, "--json")))
            (line,) = self.run_schedule("verify", path)
            self.assertRegex(line, f"proved: .*{arguments[0]} {arguments[1]} of {arguments[2]} participants.*sha256 [0-9a-f]{{64}}$")

    def test_names_the_op_that_is_wrong(self):
        text = "\n".join(self.run_schedule("show", "direct", "all_reduce", "2", "--count", "10", "--json"))
        good = self.file(text, "good")
        bad = self.file(text.replace('"after":[[1,2]]', '"after":[[0,1]]', 1), "bad")
        code, out, err = self.run_to_end("schedule", "verify", good, bad)
        self.assertEqual((2, 1, 1), (code, len(out), len(err)), err)
        self.assertRegex(err[0], r"bad: participant 0 op \d+ .* in no order")

    def test_imports_msccl(self):
        path = self.file(msccl_ring(4))
        (line,) = self.run_schedule("verify", path)
        self.assertRegex(line, r"msccl ring all_reduce of 4 participants, 4 units; .* 24 messages, 6 levels; at most 6 elements")
        imported = self.file("\n".join(self.run_schedule("import", path)) + "\n", "imported")
        (again,) = self.run_schedule("verify", imported)
        self.assertEqual(line.split(": ", 1)[1], again.split(": ", 1)[1])

    def test_what_is_imported_is_carried_out_over_nodes(self):
        perf = pathlib.Path(launched.program).parent / "weft_perf"
        if not perf.exists():
            self.skipTest("weft_perf was not built")
        imported = self.file("\n".join(self.run_schedule("import", self.file(msccl_ring(4)))) + "\n", "ring.json")

        def run(path, *arguments):
            environment = launched.clean_environment(WEFT_FAKE_NODES="2", WEFT_SCHEDULE_FILE=path, WEFT_TUNE="static")
            command = [str(perf), "all_reduce", "--nprocs", "4", "-d", "int32", "-w", "1", "-n", "2", "-c", "1", *arguments]
            return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=launched.DEADLINE_S, check=False)

        # 16 elements and 65536, and 1 and 4099, which are no multiples of its four chunks.
        for first, last in (("64", "256K"), ("4", "4"), ("16396", "16396")):
            done = run(imported, "-b", first, "-e", last, "-f", "4096")
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        wrong = self.file(pathlib.Path(imported).read_text(encoding="utf-8").replace('"units":1', '"units":2', 1), "wrong.json")
        refused = run(wrong, "-b", "64", "-e", "64")
        self.assertEqual(3, refused.returncode, refused.stdout + refused.stderr)
        self.assertRegex(refused.stderr, r"wrong.json is not carried out: .*participant")

    def test_refuses_msccl_that_is_wrong(self):
        for change, word in (({"srcoff": 1}, "different places"), ({"type": "r"}, "is not sent"), ({"type": "x"}, "type x"), ({"cnt": -1}, "cnt"),
                             ({"depid": 3, "deps": 0}, "waits for step"), ({"depid": 0, "deps": 2}, "wait for each other")):
            with self.subTest(change):
                code, out, err = self.run_to_end("schedule", "import", self.file(msccl_ring(4, **change)))
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])

    def test_bad_files_are_one_line_each(self):
        bomb = '<!DOCTYPE a [<!ENTITY b "c">]><algo/>'
        custom = '<algo name="a" coll="custom" inplace="0" nchunksperloop="1" ngpus="0"/>'
        for text, word in (("", "JSON"), ("{}", "version"), ("<algo", "line 1"), (bomb, "document type"), (custom, "custom"), ("<a/>", "no algo")):
            with self.subTest(text):
                code, out, err = self.run_to_end("schedule", "verify", self.file(text))
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])

    def test_bad_command_lines(self):
        for arguments, word in (((), "subcommand"), (("show", "ring", "all_reduce"), "PARTICIPANTS"), (("show", "ring", "sum", "2"), "sum"),
                                (("show", "fast", "all_reduce", "2"), "fast"), (("show", "ring", "all_reduce", "2"), "in this order"),
                                (("show", "direct", "all_reduce", "6", "--group", "6"), "two groups or more"),
                                (("show", "direct", "all_reduce", "0"), "0 participants"), (("show", "direct", "gather", "2", "--root", "2"), "root 2"),
                                (("show", "direct", "gather", "2", "--participant", "2"), "participant 2"), (("verify", "/proc/none"), "/proc/none")):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("schedule", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])


class Topology(LaunchedTest):
    MACHINES = pathlib.Path(__file__).resolve().parent.parent / "topology" / "machines"

    def topology(self, *arguments, **environment):
        code, out, err = self.run_to_end("topology", *arguments, environment=launched.clean_environment(**environment))
        self.assertEqual((0, []), (code, err))
        return out

    def machine(self, name):
        return str(self.MACHINES / f"{name}.json")

    def test_shows_this_machine(self):
        out = self.topology("show")
        self.assertRegex(out[0], r", \d+ CPUs?, .*; from sysfs$")
        self.assertTrue(any("core" in line for line in out[1:]))

    def test_a_dump_can_take_the_place_of_the_machine(self):
        text = (self.MACHINES / "epyc_nps4.json").read_text(encoding="ascii").splitlines()
        self.assertEqual(text, self.topology("dump", self.machine("epyc_nps4")))
        self.assertEqual(text, self.topology("dump", WEFT_TOPOLOGY_FILE=self.machine("epyc_nps4")))
        self.assertIn("; from sysfs", self.topology("show", "sysfs", WEFT_TOPOLOGY_FILE=self.machine("two_cpus"))[0])

    def test_plans_the_binding_of_another_machine(self):
        out = self.topology("show", self.machine("xeon_snc2"), "--bind", "numa", "--ranks", "4")
        start = out.index("ranks bound to numa:")
        self.assertEqual(["  rank 0: CPUs 0-11,48-59", "  rank 1: CPUs 12-23,60-71"], out[start + 1:start + 3])

    def test_draws(self):
        root = xml.etree.ElementTree.fromstring(
            "\n".join(self.topology("svg", self.machine("two_cpus"), "--bind", "core", "--ranks", "2")))
        texts = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue({"package 0", "core 1", "rank 1"} <= set(texts), texts)

    def test_reads_what_lstopo_writes(self):
        self.assertEqual([
            "twins: A CPU @ 2.5GHz & more, 5 CPUs, 2 packages, 2 NUMA nodes, 1 L3 cache, 3 cores; from hwloc",
            "  package 0: CPUs 0-1",
            "    NUMA node 0, 2 GiB: CPUs 0-1",
            "      L3 cache 0, 16 MiB: CPUs 0-1",
            "        core 0: CPUs 0-1",
            "  package 1: CPUs 2-3,64",
            "    NUMA node 1, 1 GiB: CPUs 2-3,64",
            "      cores 1-2: CPUs 2-3,64",
            "NUMA distances:",
            "     0:  10  21",
            "     1:  21  10",
            "network devices:",
            "  eth9: ethernet, speed not known, NUMA node not known",
            "  ib0: infiniband, speed not known, RDMA mlx5_0, PCI 0000:84:00.0 behind 0000:80:02.0, near NUMA node 1",
        ], self.topology("show", str(self.MACHINES / "lstopo.xml")))

    def xml(self, text):
        with tempfile.NamedTemporaryFile("wb", suffix=".xml") as file:
            file.write(text)
            file.flush()
            return self.run_to_end("topology", "dump", file.name)

    def test_xml_that_is_none_of_lstopo_is_refused(self):
        good = (self.MACHINES / "lstopo.xml").read_bytes()
        for text, word in (
                (b"<", "unclosed token"), (b"<topology>", "version"), (b"<html/>", "no topology, but html"),
                (good.replace(b'version="2.0"', b'version="1.0"'), "version \"1.0\""), (b"<topology version='2.0'/>", "no CPUs"),
                (good.replace(b"0x00000003", b"0xf...f"), "no set"), (good.replace(b"0x00000001,,0x0000000c", b"0x1," * 400), "no set"),
                (good.replace(b'cache_size="16777216"', b'cache_size="-1"'), "no number"),
                (good.replace(b">10 21 <", b">10 x <"), "the distance x"),
                (good.replace(b'"hwloc2.dtd"', b'"hwloc2.dtd" [<!ENTITY a "aaaaaaaa">]'), "with declarations"),
                (b"<topology version='2.0'>" + b"<object>" * 1000, "without end"),
                (good.replace(b'os_index="1" cpuset="0x00000001,,0x0000000c"', b'os_index="0" cpuset="0x00000001,,0x0000000c"'),
                 "two of package 0")):
            with self.subTest(word):
                code, out, err = self.xml(text)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])

    def test_damaged_xml_does_no_harm(self):
        good = (self.MACHINES / "lstopo.xml").read_bytes()
        seed = int(os.environ.get("WEFT_TEST_SEED", "20261125"))
        draw = random.Random(seed)
        for _ in range(int(os.environ.get("TEST_ROUNDS", "60"))):
            text = bytearray(good)
            for _ in range(draw.randint(1, 3)):
                at, source, length = draw.randrange(len(text)), draw.randrange(len(text)), draw.randint(1, 80)
                values = list(re.finditer(rb'"([^"]*)"', text))
                change = draw.randint(0, 3)
                if change == 0:
                    text[at] = draw.randrange(256)
                elif change == 1:
                    del text[at:at + length]
                elif change == 2:
                    text[at:at] = text[source:source + length]
                elif values:
                    one, other = draw.choice(values), draw.choice(values)
                    text[one.start(1):one.end(1)] = other[1]
            with self.subTest(f"WEFT_TEST_SEED={seed}"):
                code, out, err = self.xml(bytes(text))
                self.assertIn(code, (0, 2), (err, bytes(text)))
                if code == 2:
                    self.assertEqual(([], 1), (out, len(err)), err)

    def test_hwloc_is_asked_by_its_name(self):
        code, out, err = self.run_to_end("topology", "show", "hwloc")
        if code != 0:
            self.assertEqual((2, [], 1), (code, out, len(err)))
            self.assertIn("hwloc", err[0])
        else:
            self.assertIn("; from hwloc", out[0])

    def test_tells_two_machines_apart(self):
        self.assertEqual([], self.topology("diff", self.machine("two_cpus"), self.machine("two_cpus")))
        code, out, err = self.run_to_end("topology", "diff", self.machine("two_cpus"), self.machine("cpus_in_turns"))
        self.assertEqual((1, []), (code, err))
        self.assertIn("- package 0: CPUs 0-1", out)
        self.assertIn("+ package 1: CPUs 1,3,5,7,9,11,13,15", out)

    def test_bad_command_lines(self):
        for arguments, word in (
                ((), "subcommand"), (("show", "/proc/none"), "opening /proc/none"), (("dump", __file__), "no JSON object"),
                (("show", "--ranks", "2"), "--bind"), (("show", "--bind", "socket"), "socket"),
                (("show", "--bind", "core", "--ranks", "0"), "--ranks"),
                (("svg", self.machine("two_cpus"), "--bind", "core", "--ranks", "3"), "3 ranks and 2 cores"),
                (("diff",), "FROM"), (("diff", self.machine("two_cpus"), "/proc/none"), "opening /proc/none")):
            with self.subTest(arguments):
                code, out, err = self.run_to_end("topology", *arguments)
                self.assertEqual((2, [], 1), (code, out, len(err)), err)
                self.assertIn(word, err[0])


if __name__ == "__main__":
    launched.main()
