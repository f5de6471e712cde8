"""A pass of ./dev validate without a program that trains: the order of runs, what is red, and what
the files and the verb say of it."""
import contextlib
import dataclasses
import io
import json
import math
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from known_outcomes import an_outcome, tensor, with_step, with_tensor
from workbench.commands import Failure
from workbench.validate import verb
from workbench.validate.matrix import BITWISE, CLOSE, Row
from workbench.validate.page import page
from workbench.validate.report import Report, report_md, table, validation_json
from workbench.validate.run import NOT_RUN, RED, REFERENCE, RIGHT, Run
from workbench.validate.settings import Settings
from workbench.validate.trial import NoOutcome, NotHere, Trial

MACHINE = {"processor": "<CPU>", "cores": 2, "kernel": "6.1", "commit": "abc", "date": "2026-01-02"}


class OfOutcomes:
    """A Trial whose runs are known: {name: an Outcome, the sentence of a failure, or an error}."""

    def __init__(self, folder, outcomes, instead=None):
        self.folder, self.outcomes, self.instead = folder, outcomes, instead or {}
        self.made = []
        folder.mkdir(exist_ok=True)

    def run(self, settings):
        (self.folder / "log").write_text(settings.name)
        self.made.append(settings.name)
        found = self.outcomes.get(settings.name, an_outcome())
        if isinstance(found, str):
            raise NoOutcome(found)
        if isinstance(found, Exception):
            raise found
        return found, self.instead.get(settings.name)


def a_row(strategy, kind=BITWISE, **more):
    settings = Settings({"strategy": strategy, **more})
    reference = None if "elastic" in more else settings.but({"strategy": "ddp"})
    return Row("presets", kind, settings, reference)


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def made(self, some, outcomes, instead=None, costs=None):
        trials = [OfOutcomes(self.folder / name, outcomes, instead)
                  for name in ("row", "reference")]
        run = Run(some, *trials, self.folder / "red")
        self.printed = io.StringIO()
        with contextlib.redirect_stdout(self.printed):
            run.make(costs or {})
        self.assertEqual([row.settings.name for row in some], trials[0].made)
        return run

    def report(self, run):
        return Report("quick", tuple(run.results), run.curves, MACHINE, 61.0)

    def test_a_reference_is_made_once_and_before_its_rows(self):
        run = self.made([a_row("zero1"), a_row("zero2"), a_row("zero1", ranks=4)], {})
        self.assertEqual([("ddp x2", REFERENCE), ("zero1 x2", BITWISE), ("zero2 x2", BITWISE),
                          ("ddp x4", REFERENCE), ("zero1 x4", BITWISE)],
                         [(one.name, one.kind) for one in run.results])
        self.assertEqual({RIGHT}, {one.verdict for one in run.results})
        self.assertEqual(1, len({one.hash for one in run.results}))
        self.assertFalse((self.folder / "red").exists())

    def test_a_red_row_is_said_at_once_and_what_it_left_is_kept(self):
        run = self.made([a_row("zero1"), a_row("zero2")],
                        {"zero1 x2": with_step(an_outcome(), 9, loss=1.0)})
        self.assertEqual([RIGHT, RED, RIGHT], [one.verdict for one in run.results])
        self.assertIn("RED: presets: zero1 x2: step 9 is the first that differs: loss is 1.0",
                      self.printed.getvalue())
        kept = self.folder / "red" / "zero1_x2"
        self.assertEqual("zero1 x2", (kept / "row" / "log").read_text())
        self.assertEqual("ddp x2", (kept / "reference" / "log").read_text())

    def test_a_run_that_failed_is_red_with_its_sentence(self):
        run = self.made([a_row("zero1")], {"zero1 x2": "weftrun ended with 7: | why"})
        self.assertEqual("weftrun ended with 7: | why", run.results[1].sentence)
        self.assertEqual("", run.results[1].hash)

    def test_rows_of_a_reference_that_failed_or_did_not_learn_are_red(self):
        flat = tuple({"loss": 5.0, "grad_norm": 1.0, "loss_max": 5.0} for _ in range(20))
        flat = dataclasses.replace(an_outcome(), steps=flat)
        not_learned = "the loss of its last step is not below that of its first"
        for reference, words in (("it ended with 7", "it ended with 7"), (flat, not_learned)):
            run = self.made([a_row("zero1")], {"ddp x2": reference, "zero1 x2": flat})
            self.assertEqual([RED, RED], [one.verdict for one in run.results])
            self.assertIn(f"its reference ddp x2 is red: {words}", run.results[1].sentence)

    def test_a_run_whose_ranks_change_is_compared_with_what_it_turned_out_to_be(self):
        row = a_row("ddp", elastic=(1, "lost"), ranks=3)
        spliced = Settings({"ranks": 3, "legs": ((4, (("ranks", 2),)),)})
        run = self.made([row], {}, {row.settings.name: spliced})
        self.assertEqual([("ddp x3 after-4:ranks=2", REFERENCE), (row.settings.name, BITWISE)],
                         [(one.name, one.kind) for one in run.results])
        self.assertEqual("ddp x3 after-4:ranks=2", run.results[1].reference)
        self.assertEqual(RIGHT, run.results[1].verdict)
        run = self.made([row], {row.settings.name: "no step shows it"})
        self.assertEqual("no step shows it", run.results[0].sentence)

    def test_what_this_machine_cannot_make_is_neither_right_nor_red(self):
        run = self.made([a_row("zero1"), a_row("zero2")],
                        {"ddp x2": NotHere("no product for this CPU")})
        self.assertEqual([NOT_RUN] * 3, [one.verdict for one in run.results])
        self.assertFalse((self.folder / "red").exists())
        report = self.report(run)
        self.assertIn("none red, 3 not run", report.summary())
        for text in (table(report), report_md(report), page(report)):
            self.assertIn("not run", text)
        self.assertRegex(table(report), r"zero1 x2 +bitwise +not run +ddp x2\n +its reference ddp "
                         "x2 is not run: no product for this CPU")

    def test_the_report_says_what_is_red_in_every_form(self):
        bad = with_tensor(with_step(an_outcome(), 9, grad_norm=math.inf), "wte@value",
                          tensor(1, math.nan, 3))
        run = self.made([a_row("zero1"), a_row("zero2"), a_row("hpz", CLOSE)],
                        {"zero1 x2": bad, "hpz x2": with_step(an_outcome(), 2, loss=4.8750001)})
        report = self.report(run)
        self.assertEqual("2 rows bitwise and 1 close against 1 references (2 hashes) in 1 min 01 s"
                         ": 1 red", report.summary())
        sentence = "step 9 is the first that differs: grad_norm is inf"
        for text in (table(report), report_md(report), page(report).replace("&#x27;", "'")):
            self.assertIn(sentence, text)
            self.assertIn("zero1 x2", text)
        self.assertRegex(table(report), r"zero2 x2 +bitwise +0 +0 +0 +same bits +ddp x2")
        self.assertRegex(table(report), r"hpz x2 +close +2.1e-08 +0 +0 +close +ddp x2")
        self.assertRegex(table(report), r"zero1 x2 +bitwise +0 +none +none +RED +ddp x2")
        found = json.loads(validation_json(report))
        self.assertEqual((1, "quick"), (found["version"], found["form"]))
        row = found["rows"][1]
        self.assertEqual(("zero1 x2", "ddp x2", RED, {"loss": 0, "grad_norm": None,
                                                      "params": None}),
                         (row["name"], row["reference"], row["verdict"], row["worst"]))
        self.assertEqual(20, len(found["outcomes"][found["rows"][0]["hash"]]["steps"]))

    def test_the_page_opens_offline_and_has_every_curve_once(self):
        run = self.made([a_row("zero1"), a_row("zero2"), a_row("hpz", CLOSE)],
                        {"hpz x2": with_step(an_outcome(), 2, loss=4.8750001)})
        text = page(self.report(run))
        for word in ("<script", "href", "src=", "url(", "@import"):
            self.assertNotIn(word, text)
        self.assertEqual(3, text.count("<svg"))
        self.assertEqual(2, text.count("<title>ddp x2 and 2 more</title>"))  # loss and norm
        self.assertIn("&lt;CPU&gt;", text)

    def test_costs_of_an_earlier_pass_tell_the_time_that_is_left(self):
        some = [a_row("zero1"), a_row("zero2")]
        run = self.made(some, {}, costs={"ddp x2": 1, "zero1 x2": 2, "zero2 x2": 3, "other": 9})
        self.assertEqual(0, run._progress.estimate.left)
        self.assertEqual(6, run._progress.estimate.known)
        run = self.made(some, {}, costs={"ddp x2": 1})
        self.assertEqual((3, 3), (run._progress.estimate.done, run._progress.estimate.total))


class Programs(unittest.TestCase):
    """A Trial of scripts in place of weftrun."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def trial(self, script, seconds=60):
        program = self.folder / "weftrun"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return Trial(self.folder, self.folder / "work", seconds)

    def check_no_outcome(self, pattern, script, settings, **more):
        with self.assertRaisesRegex(NoOutcome, pattern):
            self.trial(script, **more).run(settings)

    def test_a_program_that_fails_is_named_with_its_command_and_last_lines(self):
        self.check_no_outcome(r"WEFT_FAKE_NODES=2 \S+weftrun -n 4 \S+weft_train .*--strategy zero1 "
                              r".* ended with 7: two \| 2 \| four$",
                              "echo one; echo two; echo $WEFT_FAKE_NODES; echo four; exit 7",
                              Settings({"ranks": 4, "strategy": "zero1", "nodes": "2"}))

    def test_what_the_cpu_lacks_is_told_from_a_failure(self):
        said = "weft_train: --dtype bf16: oneDNN has no bfloat16 product for this CPU; use fp32"
        with self.assertRaisesRegex(NotHere, "^oneDNN has no bfloat16 product for this CPU$"):
            self.trial(f"echo '{said}' >&2; exit 2").run(Settings({"dtype": "bf16"}))

    def test_a_program_that_does_not_end_is_killed(self):
        self.check_no_outcome("took over 0.2 s", "sleep 600", Settings({}), seconds=0.2)

    def test_a_program_that_is_not_there_is_named(self):
        with self.assertRaisesRegex(NoOutcome, "weftrun .* cannot be started: .*No such file"):
            Trial(self.folder / "none", self.folder / "work").run(Settings({}))

    def test_a_program_that_leaves_nothing_has_no_outcome(self):
        self.check_no_outcome("metrics.jsonl cannot be read", "exit 0", Settings({}))

    def test_ranks_that_do_not_change_show_nothing(self):
        counted = self.folder / "count"
        self.check_no_outcome("no step shows that ranks were lost and came",
                              f"echo >>{counted}", Settings({"elastic": (1, "lost")}))
        self.assertEqual(3, len(counted.read_text()))  # it is tried again


class Verb(unittest.TestCase):
    def called(self, *arguments, build=None):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            verb.validate(list(arguments), build or self.fail)
        return printed.getvalue()

    def test_the_list_needs_no_program(self):
        text = self.called("--list", "--quick", "--only", "^presets: hpz x4")
        self.assertEqual("presets: hpz x4 accumulate=2 | bitwise | ddp x4 accumulate=2",
                         text.splitlines()[0])
        self.assertIn("2 rows", text)

    def test_what_chooses_no_row_is_refused(self):
        for pattern, words in (("(", "is no regular expression"), ("nothing", "no row matches")):
            with self.assertRaisesRegex(Failure, words) as caught:
                self.called("--only", pattern)
            self.assertEqual(2, caught.exception.code)

    def called_with(self, weftrun, out):
        """One row, by a script in place of weftrun."""
        (out / "weftrun").write_text(f"#!/bin/sh\n{weftrun}\n")
        (out / "weftrun").chmod(0o755)
        make = verb.make

        def make_with(chosen, form, _, where):
            return make(chosen, form, out, where)

        with mock.patch.object(verb, "make", make_with):
            self.called("--quick", "--only", "^presets: zero1 x2 accumulate=2$", "--out", str(out),
                        build=lambda targets: None)

    def test_a_red_row_fails_the_verb_with_its_sentence(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            for _ in range(2):  # what the first one has left is no hindrance
                with self.assertRaisesRegex(Failure, "2 of 2 rows are red; the first, ddp x2 "
                                            "accumulate=2: .* ended with 9") as caught:
                    self.called_with("exit 9", out)
            self.assertEqual(1, caught.exception.code)
            self.assertIn("ended with 9", (out / "report.html").read_text())
            self.assertEqual(2, len(json.loads((out / "validation.json").read_text())["rows"]))
            self.assertTrue((out / "red" / "zero1_x2_accumulate=2" / "row" / "log").exists())
            self.assertEqual({"weftrun", "red", "report.html", "report.md", "validation.json"},
                             {path.name for path in out.iterdir()})

    def test_what_proves_nothing_is_no_success(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(Failure, "no row was run: oneDNN has no bfloat16"):
                self.called_with("echo oneDNN has no bfloat16 product for this CPU; exit 2",
                                 pathlib.Path(folder))

    def test_a_folder_of_somebody_else_is_not_removed(self):
        with tempfile.TemporaryDirectory() as folder:
            kept = pathlib.Path(folder) / "red" / "wine"
            kept.mkdir(parents=True)
            with self.assertRaisesRegex(Failure, "red is there, and no pass .* has made it"):
                self.called_with("exit 9", pathlib.Path(folder))
            self.assertTrue(kept.exists())


if __name__ == "__main__":
    unittest.main()
