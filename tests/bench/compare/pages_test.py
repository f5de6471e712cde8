"""compare.md: every table, every failure, no figure without its cell."""
import json
import pathlib
import tempfile
import unittest

import samples
from bench.compare import markdown, report


class Page(unittest.TestCase):
    def page(self):
        contestants = {"weft/private": samples.entry([2.0, 2.0, 2.0]), "weft/symmetric": samples.entry([1.0, 1.0, 1.0]),
                       "mpich/default": samples.entry([123.4, 123.4, 123.4]), "impi/shm": samples.entry([3.0, 3.0, 3.0]),
                       "openmpi/default": samples.entry([], refusal="this MPI has no bfloat16 to reduce")}
        cells = [samples.cell(contestants), samples.cell(contestants, buffers="rotated"), samples.cell(contestants, ranks=8)]
        return samples.results(cells, [{"name": "gloo", "error": "takes no part: exit code 1: no such package"}])

    def test_has_a_table_for_each_group(self):
        text = markdown.render(self.page())
        self.assertEqual(["## Targets", "## 2 ranks, float32, hot buffers", "## 2 ranks, float32, rotated buffers",
                          "## 8 ranks, float32, hot buffers", "## Versions and settings", "## What failed", "## Every target"],
                         [line for line in text.splitlines() if line.startswith("## ")])

    def test_rows_have_times_settings_ratios_and_shares(self):
        row = next(line for line in markdown.render(self.page()).splitlines() if line.startswith("| all_reduce"))
        self.assertEqual(["all_reduce in place", "4 Ki", "2.00", "2.00-2.00", "123 default", "**3.00 shm**", "1.50 [1.50, 1.50]",
                          "132%", "1.00", "3.00 [3.00, 3.00]", "182%"], [word.strip() for word in row.strip("|").split("|")])

    def test_tables_are_rectangular(self):
        width = 0
        for line in markdown.render(self.page()).splitlines():
            width = line.count("|") if line.startswith("|") and (not width or line.count("|") == width) else 0 \
                if not line.startswith("|") else self.fail(f"{width} columns above: {line}")

    def test_failures_and_what_is_missing_are_named(self):
        text = markdown.render(self.page())
        self.assertIn("- gloo: takes no part: exit code 1: no such package", text)
        self.assertIn("- openmpi/default, not available: this MPI has no bfloat16 to reduce (all_reduce float32)", text)
        self.assertIn("Nothing.", markdown.render(samples.results([])))

    def test_settings_stand_with_what_they_are_made_of(self):
        self.assertIn("| mpich/default | 2 | `A=1 -x` | what a user gets |", markdown.render(self.page()))

    def test_times_have_three_digits(self):
        self.assertEqual(["0.12", "9.99", "12.3", "123", "-"],
                         [markdown.time_text(time) for time in (0.1234, 9.987, 12.34, 123.4, None)])

    def test_progress_line(self):
        self.assertEqual("weft 2.00, impi/shm 3.00, ratio 1.50 [1.50, 1.50], 132% of the bound",
                         report.one_line(self.page()["cells"][0]))
        self.assertEqual("weft was not measured", report.one_line(samples.cell({"weft/private": samples.entry([], error="x")})))

    def test_reports_are_made_again_from_the_results(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "compare.json")
            path.write_text(json.dumps(samples.results([])))
            report.write(path, self.fail)
            self.assertIn("Nothing to judge.", (path.parent / "compare.md").read_text())


if __name__ == "__main__":
    unittest.main()
