"""What weft_train leaves for people to look at: metrics with the phases of steps, and the report of a run."""
import glob
import html.parser
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

weftrun, weft_train = None, None  # from the command line

_DEADLINE_S = 120
_WORDS = ("template ", "typename ", "class ", "int ", "return ", "const ", "auto ", "{\n", "}\n", "; ")
_SMALL = ("--data", "text", "--seq", "16", "--layers", "2", "--heads", "2", "--width", "24", "--batch", "8", "--warmup", "2", "--eval-every", "0")
_PHASES = ["data", "forward", "backward", "gather", "reduce", "optimizer", "checkpoint"]
_SVG = "{http://www.w3.org/2000/svg}"


class Outline(html.parser.HTMLParser):
    """Titles and cells of a page, and what it would fetch."""

    def __init__(self, text):
        super().__init__()
        self.titles, self.cells, self.fetched, self.tags, self._in = [], [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self._in = tag
        self.fetched += [value for name, value in attrs if name in ("href", "src", "xlink:href", "data", "action")]

    def handle_endtag(self, tag):
        self._in = None

    def handle_data(self, data):
        if self._in == "h2":
            self.titles.append(data)
        elif self._in in ("td", "th") and data.strip():
            self.cells.append(data)


class ReportProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        words = random.Random(1)
        (self.root / "text").write_text("".join(words.choice(_WORDS) for _ in range(5000)))

    def train(self, name, *options, ranks=2, code=0):
        launched = [weftrun, "-n", str(ranks), weft_train] if ranks > 1 else [weft_train]
        done = subprocess.run([*launched, *_SMALL, "--name", name, *options], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def metrics(self, name):
        return [json.loads(line) for line in (self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()]

    def test_phases_add_up_to_the_step_on_every_rank(self):
        for strategy in ("ddp", "full-shard"):
            self.train(strategy, "--steps", "120", "--strategy", strategy, "--checkpoint-every", "50")
            lines = self.metrics(strategy)
            self.assertEqual(120, len(lines))
            for line in lines:
                self.assertEqual(2, line["version"])
                self.assertEqual(_PHASES, list(line["phases_s"]))
                # Rounded to a microsecond each.
                self.assertLess(sum(line["phases_s"].values()), line["step_s"] + 1e-5, line)
                self.assertGreaterEqual(line["loss_max"], line["loss"])
            self.assert_phases_fill(lines)
            saved = [line["step"] for line in lines if line["phases_s"]["checkpoint"] > 0]
            self.assertEqual([50, 100, 120], saved)
            self.assertEqual([100, 120], [line["step"] for line in lines if "ranks" in line])
            for line in lines:
                for rank in line.get("ranks", []):
                    self.assertEqual(line["step"] - (100 if line["step"] > 100 else 0), rank["steps"])
                    self.assertEqual(0, rank["machine"])
                    self.assertGreater(rank["tok_s"], 0)
                    self.assertGreater(rank["peak_bytes"], 1 << 20)
                    self.assertLess(sum(rank["phases_s"].values()), rank["step_s"] + 1e-5)
                if "ranks" in line:
                    self.assert_phases_fill(line["ranks"])
                    self.assertEqual(2, len(line["ranks"]))
                    self.assertIn(line["slowest_rank"], (0, 1))

    def assert_phases_fill(self, lines):
        """That no phase is missing: what is in none of them is reading the clock. A busy machine may stop a rank there, too, but in few steps."""
        phases, steps = (sum(seconds) for seconds in ([sum(line["phases_s"].values()) for line in lines], [line["step_s"] for line in lines]))
        self.assertGreater(phases, 0.95 * steps)

    def check_report(self, name):
        """That both files are whole and say the same; returns the titles of their sections."""
        page = (self.root / "runs" / name / "report.html").read_text()
        outline = Outline(page)
        self.assertEqual([], outline.fetched)
        self.assertNotIn("script", outline.tags)
        self.assertNotIn("link", outline.tags)
        self.assertNotIn("@import", page)
        self.assertNotIn("url(", page)
        # Well-formed as XML, too, pictures with it.
        root = xml.etree.ElementTree.fromstring(page)
        for picture in root.iter(_SVG + "svg"):
            for element in picture.iter():
                for value in element.attrib.values():
                    self.assertNotRegex(value, r"nan|inf")
        markdown = (self.root / "runs" / name / "report.md").read_text().replace("\\", "")
        self.assertEqual(outline.titles, [line[3:] for line in markdown.splitlines() if line.startswith("## ")])
        for cell in outline.cells:
            self.assertIn(f"| {cell} |", markdown)
        self.show_in_browser(self.root / "runs" / name / "report.html", len(list(root.iter(_SVG + "svg"))))
        return outline.titles

    def show_in_browser(self, path, pictures):
        browser = shutil.which("chromium") or shutil.which("google-chrome")
        if browser is None:
            print("there is no browser; the page was parsed only")
            return
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", f"--user-data-dir={self.root}/browser"]
        done = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(pictures, done.stdout.count("<svg "), done.stdout)
        self.assertIn("</html>", done.stdout)
        picture = self.root / "page.png"
        subprocess.run([*command, f"--screenshot={picture}", "--window-size=1000,3000", path.as_uri()], capture_output=True,
                       timeout=_DEADLINE_S, check=True)
        self.assertGreater(picture.stat().st_size, 20000)  # a blank page has 5 kB

    def test_a_run_leaves_a_report_that_needs_no_network(self):
        printed = self.train("a", "--steps", "30", "--price-per-hour", "0.5", "--strategy", "full-shard")
        self.assertRegex(printed, r"wrote  .*runs/a/report.html, runs/a/report.md\n")
        titles = self.check_report("a")
        self.assertEqual(["Result", "Speed", "Where the time of a step goes", "Ranks", "Machines", "Memory", "Communication", "Cost", "Options"], titles)
        text = (self.root / "runs" / "a" / "report.md").read_text()
        for pattern in (r"\| validation loss \| \d\.\d+ nats per byte", r"\| tokens/s, all ranks \| \d+ \|", r"\| MFU, .* \| \d+\.\d % \|",
                        r"\| 1 \| 0 \| \d+ \| ", r"\| cost \| \S+ at 0.5 an hour \|", r"\| --strategy \| full-shard \|",
                        r"\| sent by a rank \| \S+ kB \|  \| \S+ kB: \d\.\d+ of it \|", r"Rank [01] computes the longest"):
            self.assertRegex(text, pattern)
        # Beside the mean of the losses the largest of a rank.
        self.assertIn(">largest of a rank</text>", (self.root / "runs" / "a" / "report.html").read_text())

    def test_a_run_that_goes_on_reports_what_it_did_itself(self):
        self.train("a", "--steps", "20", "--checkpoint-every", "10", ranks=1)
        self.train("a", "--steps", "30", "--checkpoint-every", "10", "--resume", "auto", ranks=1)
        self.assertNotIn("Communication", self.check_report("a"))
        text = (self.root / "runs" / "a" / "report.md").read_text()
        self.assertIn("| trained by this start | 10 steps, ", text)
        self.assertIn("in step 1, ", text)
        # No step is left: there is no speed to tell.
        self.train("a", "--steps", "30", "--checkpoint-every", "10", "--resume", "auto", ranks=1)
        self.assertNotIn("Speed", self.check_report("a"))
        # Nor what a step sent.
        self.train("a", "--steps", "30", "--checkpoint-every", "10", "--resume", "auto")
        self.assertIn("Communication", self.check_report("a"))
        self.assertRegex((self.root / "runs" / "a" / "report.md").read_text(), r"(?m)^\| reduced \| \S+ k?B \|  \|")

    def scalars(self, name):
        """{tag: {step: value}} of the run's events; sums are left to event_file_test."""

        def varint(data, at):
            value, shift = 0, 0
            while True:
                value |= (data[at] & 0x7f) << shift
                shift, at = shift + 7, at + 1
                if data[at - 1] < 0x80:
                    return value, at

        def fields(data):
            at, found = 0, []
            while at < len(data):
                key, at = varint(data, at)
                if key & 7 == 0:
                    value, at = varint(data, at)
                else:
                    size, at = varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
                    value, at = data[at:at + size], at + size
                found.append((key >> 3, value))
            return found

        found = {}
        for path in sorted(glob.glob(str(self.root / "runs" / name / "events.out.tfevents.*"))):
            data, at = pathlib.Path(path).read_bytes(), 0
            while at < len(data):
                size, = struct.unpack_from("<Q", data, at)
                event = dict(fields(data[at + 12:at + 12 + size]))
                at += size + 16
                if dict(fields(event.get(7, b""))).get(1) == 1:  # a start: TensorBoard forgets what comes anew
                    for steps in found.values():
                        for step in [step for step in steps if step >= event[2]]:
                            del steps[step]
                for _, value in fields(event.get(5, b"")):
                    value = dict(fields(value))
                    found.setdefault(value[1].decode(), {})[event[2]] = struct.unpack("<f", value[2])[0]
        return found

    def test_tensorboard_has_what_the_metrics_have(self):
        self.train("a", "--steps", "20", "--checkpoint-every", "10", "--tensorboard")
        # The second start makes steps anew that the first has shown, with other losses.
        shutil.rmtree(self.root / "runs" / "a" / "checkpoints" / "step-00000020")
        first = {line["step"]: line["loss"] for line in self.metrics("a")}
        self.train("a", "--steps", "30", "--checkpoint-every", "10", "--tensorboard", "--resume", "auto", "--lr", "0.01")
        scalars, lines = self.scalars("a"), self.metrics("a")
        self.assertEqual(list(range(1, 31)), [line["step"] for line in lines])
        self.assertNotEqual(first[20], lines[19]["loss"])
        for tag, field in (("loss/train", "loss"), ("loss/validation", "val_loss"), ("optimizer/gradient norm", "grad_norm")):
            want = {line["step"]: line[field] for line in lines if field in line}
            self.assertEqual(list(want), list(scalars[tag]))
            for step, value in want.items():
                self.assertAlmostEqual(value, scalars[tag][step], delta=1e-5)
        self.assertLessEqual({f"phases/{phase}" for phase in _PHASES}, set(scalars))

    def test_tensorboard_gets_the_line_that_was_cut_off(self):
        self.train("a", "--steps", "20", "--checkpoint-every", "10", ranks=1)
        path = self.root / "runs" / "a" / "metrics.jsonl"
        path.write_bytes(path.read_bytes()[:-10])
        self.train("a", "--steps", "21", "--checkpoint-every", "10", "--resume", "auto", "--tensorboard", ranks=1)
        lines, scalars = self.metrics("a"), self.scalars("a")
        self.assertEqual([20, 21], list(scalars["loss/train"]))
        self.assertAlmostEqual(lines[19]["loss"], scalars["loss/train"][20], delta=1e-5)
        # Of a step that another start has made nobody knows the phases.
        self.assertNotIn("phases_s", lines[19])
        self.assertEqual([21], list(scalars["phases/forward"]))

    def test_a_trace_has_the_chosen_steps_of_all_ranks(self):
        printed = self.train("a", "--steps", "8", "--trace", "3-5", "--strategy", "zero2")
        self.assertRegex(printed, r"(?m)^\[0\] wrote  runs/a/trace.json$")
        events = json.loads((self.root / "runs" / "a" / "trace.json").read_text())["traceEvents"]
        for rank in (0, 1):
            timed = [event for event in events if event["pid"] == rank and event["ph"] == "X"]
            self.assertEqual({3, 4, 5}, {event["args"]["step"] for event in timed})
            self.assertEqual(["step 3", "step 4", "step 5"], [event["name"] for event in timed if event["tid"] == 0])
            self.assertEqual({0, 1, 2, 3}, {event["tid"] for event in timed})
        # The ranks have one clock: step 4 begins on each before it ends on the other.
        steps = {event["pid"]: event for event in events if event["name"] == "step 4"}
        for rank in (0, 1):
            self.assertLess(steps[rank]["ts"], steps[1 - rank]["ts"] + steps[1 - rank]["dur"])
        # One that ends with the run, though it was to go on.
        self.train("b", "--steps", "4", "--trace", "3-9", ranks=1)
        self.assertTrue((self.root / "runs" / "b" / "trace.json").exists())
        self.assertIn("--trace 5-3 is no range of steps", self.train("c", "--trace", "5-3", ranks=1, code=2))

    def test_a_report_that_is_not_wanted_is_not_made(self):
        printed = self.train("a", "--steps", "3", "--report", "off", ranks=1)
        self.assertNotIn("report", printed)
        self.assertEqual({"config.json", "loss.svg", "metrics.jsonl", "sample.txt"}, set(os.listdir(self.root / "runs" / "a")))
        self.assertIn("--report no is unknown; use on or off", self.train("b", "--report", "no", ranks=1, code=2))


if __name__ == "__main__":
    weftrun, weft_train = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
