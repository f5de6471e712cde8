"""What --ab found: a verdict for each cell, and the page ab.md.

    python3 -B -m bench.compare.ab_page runs/compare/ab-DATE/ab.json      # writes the page again
"""
import dataclasses
import json
import pathlib
import sys

from bench.compare import intervals, sweeps
from bench.compare.cells import size_text
from bench.compare.markdown import ratio_text, time_text

LEAST_ROUNDS = 9
MARGIN = 1.03  # a cell is slower when its whole interval lies above, and faster when it lies below 1 / MARGIN
_FIELDS = ("ranks", "op", "dtype", "bytes", "buffers", "place", "memory")


@dataclasses.dataclass(frozen=True)
class AbFinding:
    """One cell, judged. Ratios are (time after / time before, low, high), or None where nothing was measured."""

    cell: sweeps.AbCell
    before: float  # medians, microseconds
    after: float
    ratio: tuple
    again: tuple   # of the second measurement, which cells have that seemed slower in the first

    @property
    def seems_slower(self):
        """In the first measurement."""
        return self.ratio is not None and self.ratio[1] > MARGIN

    @property
    def verdict(self):
        if self.ratio is None:
            return "not measured"
        if self.seems_slower:
            return "slower" if self.again is None or self.again[1] > MARGIN else "not slower again"
        return "faster" if self.ratio[2] < 1 / MARGIN else "same"


def fields_of(cell):
    """A cell as it stands in the results."""
    return {name: getattr(cell, name) for name in _FIELDS}


def cell_of(entry):
    return sweeps.AbCell(**{name: entry[name] for name in _FIELDS})


def judge(entry):
    """The finding of one entry of "cells"."""
    def ratio(before, after):
        return intervals.ratio_interval(after, before) if before else None

    def middle(times):
        return intervals.median(times) if times else None

    before, after = entry["before_us"], entry["after_us"]
    return AbFinding(cell_of(entry), middle(before), middle(after), ratio(before, after),
                     ratio(entry["again_before_us"], entry["again_after_us"]))


def _place(cell):
    return " in place" if cell.place == "in" else ""


def _with(found, verdict):
    return [finding for finding in found if finding.verdict == verdict]


def summary(results, found):
    """The last lines of the run: every cell that is slower, and how many are not."""
    slower = sorted(_with(found, "slower"), key=lambda finding: -finding.ratio[0])
    lines = [f"slower: {finding.cell.label}: {time_text(finding.before)} -> {time_text(finding.after)} us, "
             f"{ratio_text(finding.ratio)}" + (f", again {ratio_text(finding.again)}" if finding.again else "") for finding in slower]
    lines += [f"not measured: {finding.cell.label}" for finding in _with(found, "not measured")]
    mean = intervals.geometric_mean([finding.ratio[0] for finding in found if finding.ratio])
    lines.append(f"{len(found)} cells: {len(slower)} slower, {len(_with(found, 'not slower again'))} slower at first but not "
                 f"again, {len(_with(found, 'faster'))} faster; geometric mean of after / before "
                 + ("-" if mean is None else f"{mean:.3f}"))
    if results["rounds"] < LEAST_ROUNDS:
        lines.append(f"fewer than {LEAST_ROUNDS} rounds: the intervals mean little")
    lines += [f"{name}: " + ", ".join(f"{count} instructions per all_reduce of 8 bytes with {ranks} rank{'s' * (ranks != '1')}"
                                      for ranks, count in counts.items())
              for name, counts in results["instructions"].items() if counts]
    return lines


def _table(found):
    lines = ["| op | bytes | before | after | after / before [95 %] | again | |", "|---|---|---|---|---|---|---|"]
    for finding in found:
        verdict = f"**{finding.verdict}**" if finding.verdict in ("slower", "not measured") else finding.verdict
        lines.append(f"| {finding.cell.op}{_place(finding.cell)} | {size_text(finding.cell.bytes)} | {time_text(finding.before)} | "
                     f"{time_text(finding.after)} | {ratio_text(finding.ratio)} | {ratio_text(finding.again)} | {verdict} |")
    return lines


def _builds(results):
    lines = ["| build | its source is at | libweft.so (SHA-256) | folder |", "|---|---|---|---|"]
    lines += [f"| {name} | {build['commit'] or 'not known'} | {build['library_sha256'][:16]} | {build['folder']} |"
              for name, build in results["builds"].items()]
    if len({build["library_sha256"] for build in results["builds"].values()}) == 1:
        lines += ["", "Both builds have the same library: what differs is noise."]
    return lines


def _means(found):
    """A line per operation: the geometric mean of its ratios."""
    lines = ["| op | cells | geometric mean of after / before |", "|---|---|---|"]
    for op in dict.fromkeys(finding.cell.op for finding in found):
        ratios = [finding.ratio[0] for finding in found if finding.cell.op == op and finding.ratio]
        if ratios:
            lines.append(f"| {op} | {len(ratios)} | {intervals.geometric_mean(ratios):.3f} |")
    return lines


def render(results, found):
    """The whole page."""
    about = results["machine"]
    lines = ["# Two builds of weft", "",
             f"{about['date']}, {about['processor']}, {about['cores']} cores, Linux {about['kernel']}, load {about['load']} at the "
             f"beginning; {results['rounds']} rounds; the host took {results.get('steal_s', 0)} s of processor time.", "",
             *_builds(results), "", "## Summary", "", *(f"- {line}" for line in summary(results, found)), "", *_means(found)]
    tables = {}
    for finding in found:
        cell = finding.cell
        tables.setdefault(f"{cell.ranks} ranks, {cell.memory} memory, {cell.dtype}, {cell.buffers} buffers", []).append(finding)
    for title, group in tables.items():
        lines += ["", f"## {title}", "", *_table(group)]
    failures = [f"- {error}" for error in results["errors"]] or ["Nothing."]
    return "\n".join([*lines, "", "## What failed", "", *failures]) + "\n"


if __name__ == "__main__":
    json_path = pathlib.Path(sys.argv[1])
    read = json.loads(json_path.read_text())
    json_path.with_name("ab.md").write_text(render(read, [judge(entry) for entry in read["cells"]]))
