"""The arguments of `./dev validate`, and a pass from its beginning to its files."""
import argparse
import json
import pathlib
import re
import shutil
import tempfile
import time

from bench.compare.machine import describe
from workbench.commands import ROOT, Failure
from workbench.validate.matrix import FAMILIES, rows
from workbench.validate.page import page
from workbench.validate.report import Report, report_md, table, validation_json
from workbench.validate.run import NOT_RUN, REFERENCE, RIGHT, Run
from workbench.validate.trial import Trial

OUT = ROOT / "build" / "validation"
PROGRAMS = ("weftrun", "weft_train")


def parser():
    result = argparse.ArgumentParser(
        prog="./dev validate", description="Trains under every strategy and proves that the bits "
        "are the same: loss and gradient norm of each step, params and state after the last.")
    result.add_argument("--quick", action="store_true", help="the most telling rows, in a minute")
    result.add_argument("--only", metavar="REGEX",
                        help='of these, the rows whose "family: name" matches')
    result.add_argument("--out", type=pathlib.Path, default=OUT, metavar="DIR",
                        help="where the report goes; default build/validation")
    result.add_argument("--list", action="store_true", help="print the rows, and make none")
    return result


def validate(arguments, build):
    """`build(targets)` builds programs into build/release/bin. Raises Failure if a row is red."""
    options = parser().parse_args(arguments)
    chosen = _chosen(options.quick, options.only)
    if options.list:
        print(_listed(chosen))
        return
    build(PROGRAMS)
    form = "quick" if options.quick else "whole"
    report = make(chosen, form + (f", only {options.only}" if options.only else ""),
                  ROOT / "build" / "release" / "bin", options.out)
    print(table(report))
    print(f"wrote {options.out}/report.html, report.md, validation.json")
    if not any(one.kind != REFERENCE for one in report.of(RIGHT) + report.red()):
        raise Failure(f"validate: no row was run: {report.of(NOT_RUN)[0].sentence}")
    if report.red():
        first = report.red()[0]
        raise Failure(f"validate: {len(report.red())} of {len(report.results)} rows are red; the "
                      f"first, {first.name}: {first.sentence}; what they left is in "
                      f"{options.out}/red")


def _chosen(quick, only):
    try:
        pattern = re.compile(only or "")
    except re.error as error:
        raise Failure(f"validate: --only {only} is no regular expression ({error})", 2) from None
    found = [row for row in rows(quick) if pattern.search(f"{row.family}: {row.settings.name}")]
    if not found:
        raise Failure(f"validate: no row matches {only}; --list prints them", 2)
    return found


def _listed(chosen):
    proves = {family.name: family.proves for family in FAMILIES}
    lines = []
    for row in chosen:
        against = row.reference.name if row.reference else "runs spliced where ranks change"
        lines.append(f"{row.family}: {row.settings.name} | {row.kind} | {against}")
    families = dict.fromkeys(row.family for row in chosen)
    return "\n".join([*lines, "", *(f"{name}: {proves[name]}" for name in families),
                      f"{len(chosen)} rows"])


def make(chosen, form, programs, out):
    """Makes these rows and writes the three files; returns the Report."""
    out.mkdir(parents=True, exist_ok=True)
    red, file = out / "red", out / "validation.json"
    if red.exists() and not file.exists():
        raise Failure(f"validate: {red} is there, and no pass that was done has made it; remove "
                      "it, or name another folder by --out", 2)
    shutil.rmtree(red, ignore_errors=True)
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="work-", dir=out) as work:
        work = pathlib.Path(work)
        run = Run(chosen, Trial(programs, work / "row"), Trial(programs, work / "reference"), red)
        run.make(_costs(file))
    report = Report(form, tuple(run.results), run.curves, describe(ROOT),
                    time.monotonic() - start)
    file.write_text(validation_json(report))
    (out / "report.md").write_text(report_md(report))
    (out / "report.html").write_text(page(report))
    return report


def _costs(path):
    """{name: seconds} of the last pass that was written there."""
    try:
        return {row["name"]: row["seconds"] for row in json.loads(path.read_text())["rows"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
