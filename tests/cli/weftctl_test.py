"""weftctl: its output formats and its answers to bad command lines."""
import json

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


if __name__ == "__main__":
    launched.main()
