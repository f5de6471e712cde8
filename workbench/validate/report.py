"""What a whole pass of the matrix has found, as it is written to the out folder.

    report = Report("whole", tuple(run.results), run.curves, describe(ROOT), seconds)
    validation_json(report)     # for programs: docs/formats/validation.md
    table(report)               # lines for a terminal: each row
    report_md(report)           # a page: a line for each family, and for each reference

page.py makes report.html of it. Thread-safety: pure functions of their arguments.
"""
import collections
import dataclasses
import json
import math

from workbench.commands import duration
from workbench.validate.comparison import TOLERANCE
from workbench.validate.matrix import BITWISE, CLOSE, FAMILIES
from workbench.validate.run import NOT_RUN, RED, REFERENCE, RIGHT
from workbench.validate.settings import STEPS

VERSION = 1
_HASH_LETTERS = 12


@dataclasses.dataclass(frozen=True)
class Report:
    """form: whole, quick, or what --only chose. curves: {hash: (steps, {tensor: its hash})}.
    machine: as bench/compare/machine.py describes it, with commit and date."""
    form: str
    results: tuple
    curves: dict
    machine: dict
    seconds: float

    def red(self):
        return self.of(RED)

    def of(self, verdict):
        return [result for result in self.results if result.verdict == verdict]

    def summary(self):
        kinds = collections.Counter(result.kind for result in self.results)
        hashes = {result.hash for result in self.results if result.kind != CLOSE}
        return (f"{kinds[BITWISE]} rows bitwise and {kinds[CLOSE]} close against "
                f"{kinds[REFERENCE]} references ({len(hashes)} hashes) in "
                f"{duration(self.seconds)}: {len(self.red()) or 'none'} red"
                + (f", {len(self.of(NOT_RUN))} not run" if self.of(NOT_RUN) else ""))


def validation_json(report):
    rows = [{"family": one.family, "class": one.kind, "name": one.name,
             "reference": one.reference, "verdict": one.verdict, "sentence": one.sentence,
             "worst": {name: _finite(value) for name, value in (one.worst or {}).items()},
             "hash": one.hash, "seconds": round(one.seconds, 2)} for one in report.results]
    outcomes = {key: {"steps": [{name: _finite(value) for name, value in step.items()}
                                for step in steps], "tensors": tensors}
                for key, (steps, tensors) in report.curves.items()}
    return json.dumps({"version": VERSION, "form": report.form, "steps": STEPS,
                       "tolerance": TOLERANCE, "seconds": round(report.seconds, 1),
                       "machine": report.machine, "rows": rows, "outcomes": outcomes},
                      allow_nan=False) + "\n"


def _finite(value):
    return value if value is not None and math.isfinite(value) else None


def table(report):
    width = max([len(one.name) for one in report.results] + [3])
    lines = [f"{'row':{width}}  {'class':9}  {'loss':>7}  {'norm':>7}  {'params':>7}  "
             f"{'verdict':9}  reference"]
    family = None
    for one in report.results:
        if one.family != family:
            family = one.family
            lines.append(f"-- {family}: {_proves(family)}")
        worst = "  ".join(f"{cell:>7}" for cell in worst_cells(one))
        line = f"{one.name:{width}}  {one.kind:9}  {worst}  {said(one):9}  {one.reference}"
        lines.append(line.rstrip())
        if one.verdict != RIGHT:
            lines.append(f"   {one.sentence}")
    return "\n".join(lines + ["", report.summary()])


def _proves(name):
    return next((family.proves for family in FAMILIES if family.name == name), "")


def worst_cells(result):
    """Of loss, norm and params, each a few letters."""
    if result.worst is None:
        return ["", "", ""]
    return [shown(result.worst[name]) for name in ("loss", "grad_norm", "params")]


def shown(difference):
    if difference == 0:
        return "0"
    return f"{difference:.1e}" if math.isfinite(difference) else "none"


def said(result):
    """Its verdict in a cell: what is right says of what class."""
    if result.verdict == RIGHT:
        return {BITWISE: "same bits", CLOSE: "close"}.get(result.kind, "")
    return "RED" if result.verdict == RED else result.verdict


def report_md(report):
    """Families with their worst differences, references with their hashes, and what is red."""
    machine = report.machine
    lines = ["# Validation report", "",
             f"`./dev validate` ({report.form}) of commit {machine['commit']}, "
             f"{machine['date'][:10]}, on {machine['processor']}, {machine['cores']} cores.", "",
             f"{report.summary()}.", "",
             "| family | class | rows | references | worst loss | norm | params | verdict |",
             "|---|---|---|---|---|---|---|---|"]
    lines += [_family_line(name, [one for one in report.results if one.family == name
                                  and one.kind != REFERENCE])
              for name in dict.fromkeys(one.family for one in report.results)]
    lines += ["", "Rows of class bitwise have their reference's hash, of all that a run leaves:",
              "", "| reference | hash | rows bitwise | close |", "|---|---|---|---|"]
    lines += [_reference_line(one, report.results) for one in report.results
              if one.kind == REFERENCE]
    for verdict in (RED, NOT_RUN):
        if report.of(verdict):
            lines += ["", f"## {verdict.capitalize()}", ""]
            lines += [f"- {one.name}: {one.sentence}" for one in report.of(verdict)]
    return "\n".join(lines) + "\n"


def _family_line(name, rows):
    worst = [max((one.worst[number] for one in rows if one.worst), default=math.inf)
             for number in ("loss", "grad_norm", "params")]
    verdicts = collections.Counter(said(one) for one in rows)
    cells = [name, ", ".join(dict.fromkeys(one.kind for one in rows)), str(len(rows)),
             str(len({one.reference for one in rows})), *map(shown, worst),
             ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())]
    return f"| {' | '.join(cells)} |"


def _reference_line(reference, results):
    counts = [str(sum(one.reference == reference.name and one.kind == kind for one in results))
              for kind in (BITWISE, CLOSE)]
    cells = [reference.name, f"`{reference.hash[:_HASH_LETTERS]}`" if reference.hash else "none"]
    return f"| {' | '.join(cells + counts)} |"
