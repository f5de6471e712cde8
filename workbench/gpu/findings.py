"""What the steps of a section have found, as they print it: the part of a report that is about one section.

    findings = Findings()
    findings.add({"check": "reduce", "cases": 36, "wrong": 0})

A line is a JSON object, one of
    {"check": NAME, "cases": N, "wrong": N, "error": SENTENCE}    N tries, of which `wrong` were wrong; these add up
    {"check": NAME, "skipped": REASON}                            what the machine refuses: not run
    {"fact": NAME, "value": VALUE}
    {"seed": N}
    {"figure": NAME, "bytes": N, "us": [...], "bound_us": X, "ratio": X, "bar": X}    ratio, bound and bar as far as there are any
"""
ERRORS_KEPT = 5  # of a check
SKIPPED_KEPT = 20


class Findings:
    def __init__(self):
        self.checks = {}   # {name: {"cases", "wrong", "errors", "skipped"}}
        self.facts = {}
        self.seeds = []
        self.figures = []
        self.unreadable = []  # lines that are none of these

    def check(self, name):
        return self.checks.setdefault(name, {"cases": 0, "wrong": 0, "errors": [], "skipped": []})

    def count(self, name, cases=0, wrong=0, error=None):
        check = self.check(name)
        check["cases"] += cases
        check["wrong"] += wrong
        if error and len(check["errors"]) < ERRORS_KEPT:
            check["errors"].append(error)

    def skip(self, name, reason):
        check = self.check(name)
        if reason not in check["skipped"] and len(check["skipped"]) < SKIPPED_KEPT:
            check["skipped"].append(reason)

    def add(self, line):
        try:
            self._add(line)
        except (KeyError, TypeError, ValueError):
            self.unreadable.append(str(line)[:200])

    def _add(self, line):
        if "check" in line:
            name = _text(line["check"])
            if "skipped" in line:
                self.skip(name, _text(line["skipped"]))
            else:
                self.count(name, _count(line["cases"]), _count(line["wrong"]), line.get("error"))
        elif "figure" in line:
            _text(line["figure"])
            if not line["us"] or not all(isinstance(one, (int, float)) and one >= 0 for one in line["us"]):
                raise ValueError(line["us"])
            self.figures.append(dict({"name": line["figure"]}, **{name: line[name] for name in ("bytes", "us", "bound_us", "ratio", "bar") if name in line}))
        elif "fact" in line:
            self.facts[_text(line["fact"])] = line["value"]
        else:
            self.seeds.append(_count(line["seed"]))

    def total(self, what):
        return sum(check[what] for check in self.checks.values())

    def as_json(self):
        skipped = [f"{name}: {reason}" for name, check in self.checks.items() for reason in check["skipped"]]
        return {"cases": self.total("cases"), "wrong": self.total("wrong"), "seeds": self.seeds, "skipped": skipped, "checks": self.checks,
                "facts": self.facts, "figures": self.figures, **({"unreadable": self.unreadable[:ERRORS_KEPT]} if self.unreadable else {})}


def _text(value):
    if not isinstance(value, str) or not value:
        raise TypeError(value)
    return value


def _count(value):
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TypeError(value)
    return value
