"""Reads what a step prints into findings, line by line, so that what a step had proved before it hung is kept.

    reader = READERS["gtest"](findings, "memory")
    reader.line("[       OK ] Memory.Comes (3 ms)")
    reader.end(code)                                # None: it was killed
"""
import json
import re


def add_json(findings, text):
    if not text.startswith("{"):
        return
    try:
        findings.add(json.loads(text))
    except ValueError:
        findings.unreadable.append(text[:200])


class Lines:
    """Of weft's own programs: findings.py says what they are; other lines are for the log alone."""

    def __init__(self, findings, check):
        self.findings, self.check = findings, check

    def line(self, text):
        add_json(self.findings, text)

    def end(self, code):
        """Whether the step may be called right."""
        return code == 0


class GTest:
    """Of GoogleTest: each test is a case. A test may print what weft's own programs print: figures."""

    _RESULT = re.compile(r"^\[ +(?P<result>OK|FAILED|SKIPPED) +\] (?P<name>\S+?),? (?:.*)?\(\d+ ms\)$")

    def __init__(self, findings, check):
        self.findings, self.check = findings, check
        self.before = ""  # the last line but results: why a test was skipped

    def line(self, text):
        found = self._RESULT.match(text)
        if not found:
            if text.startswith("{"):
                add_json(self.findings, text)
            elif text.strip() and not text.startswith("["):
                self.before = text.strip()
            return
        if found["result"] == "SKIPPED":
            self.findings.skip(self.check, f"{found['name']}: {self.before}")
        else:
            failed = found["result"] == "FAILED"
            self.findings.count(self.check, 1, int(failed), f"{found['name']} failed" if failed else None)

    def end(self, code):
        return code == 0


class Sanitizer:
    """Of compute-sanitizer over one of weft's programs, whose cases are the check's. Without the tool's summary nothing was checked."""

    _SUMMARY = re.compile(r"^=+ (?:ERROR|RACECHECK) SUMMARY: (?P<found>\d+) (?:error|hazard)")

    def __init__(self, findings, check):
        self.findings, self.check = findings, check
        self.cases, self.summary, self.last = 0, None, ""

    def line(self, text):
        summary = self._SUMMARY.match(text)
        if summary:
            self.summary = (self.summary or 0) + int(summary["found"])
        elif text.startswith("{"):
            try:
                self.cases += int(json.loads(text).get("cases", 0))
            except (TypeError, ValueError, AttributeError):
                pass
        elif text.startswith("=") and text.strip("= "):
            self.last = text.strip("= ")

    def end(self, code):
        if self.summary is None:
            self.findings.skip(self.check, f"compute-sanitizer checked nothing: {self.last or f'it ended with {code}'}")
            return code is not None  # refused: named as not run, not as wrong
        self.findings.count(self.check, self.cases, self.summary, f"{self.summary} found; see {self.check}.txt" if self.summary else None)
        return code == 0 or self.summary > 0  # what it found is counted as wrong already


READERS = {"lines": Lines, "gtest": GTest, "sanitizer": Sanitizer}
