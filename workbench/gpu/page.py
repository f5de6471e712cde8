"""docs/gpu.md, made by `./dev docs`: what works on devices with which evidence. Made from features.py, the tree's tests and the reports in
docs/perf/gpu, so that no line of it says more than what ran.
"""
import json
import re
import statistics

from workbench.gpu.features import FEATURES
from workbench.gpu.reports import FOLDER, read_reports
from workbench.gpu.sections import SECTIONS
from workbench.gpu.sources import sources_hash

PATH = "docs/gpu.md"
_NOTHING = "–"
_NOT_RUN = "not run"

_HEAD = """# GPUs: what works with which evidence

Made by `./dev docs` from [workbench/gpu/features.py](../workbench/gpu/features.py), the tests, and the reports in `docs/perf/gpu`. Each
column is stronger than the one before, and none says more than what ran:

- *compiled*: how many kernels nvcc made for sm_80, 90, 100 and 120, without spills, within their budget of registers. For things that
  the host does the column is empty.
- *without a GPU*: the tests that run everywhere. `twin_*` compare the same sources, compiled for the CPU, with the CPU's kernels bit by
  bit; the others run on a driver without a device.
- *one GPU*, *several GPUs*: card, date and number of cases of the last report. A thing that the machine refused is not run.

Groups of device memory are not there yet. How kernels get the CPU's bits: [design/018](design/018-devices.md).
"""

_TAIL = """## To make a report

```sh
./dev gpu status                               # what is pending, and what runs first
./dev gpu build                                # where nvcc and a compiler are: fills build/gpu
./dev gpu run --seconds 440 --out gpu-report   # on the machine with the GPU, with the tree and build/gpu
```

That machine needs the driver, Python 3.9 and glibc 2.36; no git, no compiler, no setup. `run` refuses a tree whose sources are not those
that were built, and ends with 77 where there is no GPU. Each step of a section has a limit of time and is killed beyond it; `report.json`
is whole after every section. Nothing touches clocks, MPS or managed memory, and no device is reset. Copy the report to the name that the
last line of the run says, run `./dev docs`, and commit both.
"""


def test_names(root):
    """Of tests/device, as its CMakeLists.txt lists them."""
    path = root / "tests" / "device" / "CMakeLists.txt"
    return re.findall(r"^ *weft_(?:script_)?test\((\w+)", path.read_text(), re.MULTILINE) if path.exists() else []


def compiled(feature, kernels):
    count = sum(1 for name in kernels if feature.kernels and re.fullmatch(feature.kernels, name))
    return f"{count} kernels" if count > 1 else "1 kernel" if count else _NOTHING


def tested(feature, tests):
    return ", ".join(f"`{name}`" for name in tests if feature.tests and re.fullmatch(feature.tests, name)) or _NOTHING


def on_devices(feature, reports, hashes):
    """What the last report in which the feature ran says of it."""
    refused = None
    for report in reversed(reports):
        section = next((section for section in report["sections"] if section["name"] == feature.section), None)
        checks = [section["checks"].get(name) for name in feature.checks] if section else []
        where = f"{report['cards'][0]}, {report['date']}"
        if len(checks) == len(feature.checks) and all(check and check["cases"] for check in checks):
            return _ran(section, checks, where, hashes[feature.section])
        reasons = [reason for check in checks if check for reason in check["skipped"]]
        refused = refused or (f"{_NOT_RUN}: {reasons[0]} ({where})" if reasons else None)
    return (refused or _NOT_RUN).replace("|", "\\|")


def _ran(section, checks, where, sources):
    wrong = sum(check["wrong"] for check in checks)
    cases = sum(check["cases"] for check in checks)
    if wrong:
        return f"WRONG in {wrong} of {cases} cases: {where}"
    said = f"{where}: {cases} cases"
    if section["state"] != "passed":
        said += f"; its section was {section['state']}"
    if any(check["skipped"] for check in checks):
        said += "; a part was not run"
    return said + ("; sources changed since" if section["sources"] != sources else "")


def text(root):
    reports = read_reports(root)
    hashes = {section.name: sources_hash(section.sources, root) for section in SECTIONS}
    kernels = json.loads((root / "tests" / "device" / "register_budget.json").read_text())
    tests = test_names(root)
    one = [report for report in reports if len(report["cards"]) == 1]
    several = [report for report in reports if len(report["cards"]) > 1]
    rows = ["| what | compiled | without a GPU | one GPU | several GPUs |", "|---|---|---|---|---|"]
    rows += [f"| {feature.name} | {compiled(feature, kernels)} | {tested(feature, tests)} | {on_devices(feature, one, hashes)} "
             f"| {on_devices(feature, several, hashes)} |" for feature in FEATURES]
    return "\n".join([_HEAD, *rows, "", *_reports(reports), _TAIL])


def _reports(reports):
    lines = ["## Reports", ""]
    if not reports:
        return lines + ["None yet: no GPU has run weft.", ""]
    lines += ["| report | devices | driver | sections |", "|---|---|---|---|"]
    for report in reversed(reports):
        sections = ", ".join(f"{section['name']} {section['state']}" for section in report["sections"])
        lines.append(f"| [{report['date']}]({FOLDER[len('docs/'):]}/{report['file']}) | {len(report['cards'])} x {report['cards'][0]} "
                     f"| {report['driver']} | {sections} |")
    figures = [figure for section in reports[-1]["sections"] for figure in section["figures"]]
    if figures:
        lines += ["", f"Figures of the last one, {reports[-1]['cards'][0]}, {reports[-1]['date']}; the bound of a kernel is the run's own copy rate:", "",
                  "| what | bytes | us, median | of bound | bar |", "|---|---|---|---|---|"]
        lines += [f"| {figure['name']} | {figure.get('bytes', _NOTHING)} | {statistics.median(figure['us']):.2f} "
                  f"| {_ratio(figure, 'ratio')} | {_ratio(figure, 'bar')} |" for figure in figures]
    return lines + [""]


def _ratio(figure, name):
    return f"{figure[name]:.2f}" if name in figure else _NOTHING
