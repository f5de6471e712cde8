"""weftctl: its output formats and its answers to bad command lines."""
import json
import os
import pathlib
import tempfile

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

    def test_help_lists_the_commands(self):
        code, out, _ = self.run_to_end("--help")
        self.assertEqual(0, code)
        self.assertTrue(any("options" in line for line in out))


class Dump(LaunchedTest):
    def test_bad_files_are_one_line_each(self):
        for arguments, lines in (((), 1), (("/nonexistent.wfr",), 1), ((__file__, "/dev/null", "/proc"), 3),
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
        self.assertRegex(lines["not direct"], r"private buffers.*; predicted [\d.]+ us$")

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


if __name__ == "__main__":
    launched.main()
