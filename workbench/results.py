"""What a run of ctest left: one entry per test program, and how many cases it executed.

    for entry in read(build / "ctest.xml", build / "test-results"):
        print(entry.name, entry.status, entry.cases, entry.failed)

ctest's report says how a program ended. GoogleTest's XML, or unittest's last lines, say how many cases it executed; any other
program counts as one case, and so does one that crashed or took too long, because neither left a count.
"""
import dataclasses
import re
import xml.etree.ElementTree

OUTPUT_OF_FAILURE = re.compile(r"Failure|Error|FAIL|ERROR|terminate")
# Of what a failed program printed: from the first failure on, and the last. Of a long log often the end alone is kept.
EXCERPT_LINES = 40


@dataclasses.dataclass
class Entry:
    """Status: "run" (right), "fail", "missing" (there is no such program), "skipped" or "disabled"."""
    name: str
    status: str
    seconds: float
    output: str
    cases: int
    failed: int

    def excerpt(self):
        """What it printed around its first failure, and last."""
        lines = self.output.splitlines()
        first = next((number for number, line in enumerate(lines) if OUTPUT_OF_FAILURE.search(line)), len(lines))
        last = max(first + EXCERPT_LINES, len(lines) - EXCERPT_LINES)
        left_out = ["[...]"] if first + EXCERPT_LINES < last else []
        return "\n".join([*lines[first:first + EXCERPT_LINES], *left_out, *lines[last:]])


def read(report, results):
    """The entries of ctest's report, with the counts of the XML files in the folder `results`; none without a report."""
    if not report.exists():
        return []
    return [_entry(element, results) for element in xml.etree.ElementTree.parse(report).getroot().iter("testcase")]


def _entry(element, results):
    name, status, text = element.get("name"), element.get("status"), element.findtext("system-out") or ""
    if status == "notrun":
        skipped = element.find("skipped")
        missing = skipped is not None and "Unable to find" in skipped.get("message", "")
        status = "missing" if missing else "skipped"
    cases, failed = _count(name, text, results) if status in ("run", "fail") else (0, 0)
    if status in ("fail", "missing"):
        cases, failed = max(cases, 1), max(failed, 1)
    return Entry(name, status, float(element.get("time")), text, cases, failed)


def _count(name, text, results):
    """(executed, failed) cases."""
    path = results / (name + ".xml")
    if path.exists():
        found = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
        return (sum(case.get("status") == "run" and case.get("result") != "skipped" for case in found),
                sum(case.find("failure") is not None for case in found))
    ran = re.search(r"^Ran (\d+) tests? in ", text, re.MULTILINE)
    if ran:
        skipped = re.search(r"skipped=(\d+)", text)
        return int(ran[1]) - int(skipped[1] if skipped else 0), 0
    return 1, 0
