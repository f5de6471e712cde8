"""The reports that are kept, docs/perf/gpu/<date>-<card>.json, and what of them still stands.

    kept = read_reports(root)
    last_of("kernels", kept)             # (report, its section) of the last one in which it ran, or None
    stands(section, sources)             # whether it proved the sources of today

A report stands for what its sections ran on a real driver: one of another library (the tests' driver without a device) is refused.
"""
import json

from workbench.commands import Failure
from workbench.gpu.probe import LIBRARY
from workbench.gpu.run import SCHEMA

FOLDER = "docs/perf/gpu"


def read_reports(root):
    """By date, the last one last; "file" is the name of each."""
    found = []
    for path in sorted((root / FOLDER).glob("*.json")):
        try:
            report = json.loads(path.read_text())
            if report["schema"] != SCHEMA or report["library"] != LIBRARY or not report["cards"]:
                raise ValueError(f"schema {report['schema']} of {report['library']} with {len(report['cards'])} devices")
            found.append((report["date"], path.name, {**report, "file": path.name}))
        except (ValueError, KeyError, TypeError) as error:
            raise Failure(f"gpu: {path.relative_to(root)} is no report of a real device ({error})") from None
    return [report for _, _, report in sorted(found, key=lambda entry: entry[:2])]


def last_of(name, reports):
    for report in reversed(reports):
        for section in report["sections"]:
            if section["name"] == name and section["state"] != "not run":
                return report, section
    return None


def stands(section, sources):
    return section["state"] == "passed" and section["sources"] == sources


def in_order(hashes, reports):
    """Names of sections as they run: the machine, whose figures are what others are measured by, then those of which nothing stands, then by
    the age of their reports. hashes: {name: hash of its sources}, in the table's order."""
    def rank(name):
        last = last_of(name, reports)
        pending = last is None or not stands(last[1], hashes[name])
        return name != "machine", not pending, "" if pending else last[0]["date"]

    return sorted(hashes, key=rank)
