"""Makes the runs of the matrix, one after the other, and says of each row whether it is right.

    run = Run(rows, Trial(programs, out / "row"), Trial(programs, out / "reference"), out / "red")
    run.make(costs)        # {name: seconds} of an earlier run, for the time that is left
    run.results            # a Result per row, and per reference

A reference that failed, or did not learn, makes its rows red as well: they have proved nothing.
What this machine cannot make is not run, which is neither right nor red.

Thread-safety: one thread.
"""
import dataclasses
import re
import shutil
import time

from workbench.commands import Estimate, Progress
from workbench.validate.comparison import compare, learned
from workbench.validate.matrix import groups
from workbench.validate.trial import NoOutcome, NotHere

REFERENCE = "reference"  # the class of rows that others are compared with
RIGHT, RED, NOT_RUN = "right", "red", "not run"  # verdicts
_NAME_LETTERS_MAX = 100  # of a folder's name
_NOT_LEARNED = ("the loss of its last step is not below that of its first, so that runs like it "
                "prove nothing")


@dataclasses.dataclass(frozen=True)
class Result:
    """kind: bitwise, close, or reference. sentence: why it is not right. worst: differences as
    comparison.py has them, None where there was nothing to compare. hash: of all that the run left;
    "": it left nothing."""
    family: str
    kind: str
    name: str
    reference: str
    verdict: str
    sentence: str
    worst: dict
    by_step: tuple
    hash: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class _Made:
    """A run: its outcome, or None and why. verdict: right, as far as this run alone can tell.
    instead: settings of runs that do what it did."""
    outcome: object
    verdict: str
    why: str
    hash: str
    seconds: float
    instead: object


class Run:
    """`trial` makes rows, `reference_trial` what they are compared with. What a red row has left,
    and its reference, go to the folder `kept`."""

    def __init__(self, rows, trial, reference_trial, kept):
        self.rows, self.kept = rows, kept
        self.trial, self.reference_trial = trial, reference_trial
        self.results = []
        self.curves = {}  # {hash: (the steps of an outcome, {tensor: its hash})}
        self._progress = None
        self._counted = set()  # names in the estimate, of which a few are made twice

    def make(self, costs):
        grouped = groups(self.rows)
        names = [row.settings.name for row in self.rows]
        names += [reference.name for reference, _ in grouped if reference]
        known = all(name in costs for name in names)
        estimate = Estimate("validating", {name: costs[name] for name in names} if known else {})
        estimate.total = len(names)
        self._progress = Progress(estimate)
        for reference, rows in grouped:
            expected = self._reference(reference, rows[0].family) if reference else None
            for row in rows:
                self._row(row, reference, expected)
        self._progress.clear()

    def _reference(self, settings, family):
        """What it made; rows are compared with it if it is right."""
        made = self._made(self.reference_trial, settings)
        if made.outcome and not learned(made.outcome):
            made = dataclasses.replace(made, verdict=RED, why=_NOT_LEARNED)
        self._note(Result(family, REFERENCE, settings.name, "", made.verdict, made.why, None, (),
                          made.hash, made.seconds))
        return made

    def _row(self, row, reference, expected):
        made = self._made(self.trial, row.settings)
        if made.instead:
            reference = made.instead
            expected = self._reference(reference, row.family)
        verdict, why, worst, by_step = made.verdict, made.why, None, ()
        if verdict == RIGHT and expected.verdict != RIGHT:
            verdict = expected.verdict
            why = f"its reference {reference.name} is {verdict}: {expected.why}"
        elif verdict == RIGHT:
            found = compare(row.kind, made.outcome, expected.outcome)
            verdict, why = RIGHT if found.right else RED, found.sentence
            worst, by_step = found.worst, found.by_step
        self._note(Result(row.family, row.kind, row.settings.name,
                          reference.name if reference else "", verdict, why, worst, by_step,
                          made.hash, made.seconds))

    def _made(self, trial, settings):
        start = time.monotonic()
        outcome, instead, verdict, why, key = None, None, RIGHT, "", ""
        try:
            outcome, instead = trial.run(settings)
            key = outcome.digest()
            self.curves[key] = (outcome.steps, outcome.tensor_hashes())
        except NoOutcome as error:
            verdict, why = NOT_RUN if isinstance(error, NotHere) else RED, str(error)
        seconds = time.monotonic() - start
        estimate = self._progress.estimate
        done = estimate.done + 1
        name = None if settings.name in self._counted else settings.name
        self._counted.add(settings.name)
        estimate.update(done, max(estimate.total, done), name)
        self._progress.show()
        return _Made(outcome, verdict, why, key, seconds, instead)

    def _note(self, result):
        self.results.append(result)
        if result.verdict != RED:
            return
        self._progress.line(f"RED: {result.family}: {result.name}: {result.sentence}")
        folder = self.kept / re.sub(r"[^\w.,=-]+", "_", result.name)[:_NAME_LETTERS_MAX]
        if not folder.exists():
            shutil.copytree(self.reference_trial.folder, folder / "reference")
            if result.kind != REFERENCE:
                shutil.copytree(self.trial.folder, folder / "row")
