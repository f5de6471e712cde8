"""`./dev gpu run`: the sections of build/gpu/manifest.json on this machine's devices, and a report of what they found.

Needs Python and the driver alone. Sections run in the manifest's order. Whatever a section does, report.json is whole: it is written
after every section, and at the end of the time.

    report: {"schema", "commit", "dirty", "compiler", "date", "library", "driver", "cards", "seconds", "ended", "facts",
             "sections": [{"name", "state", "sources", "seconds", "steps": [...], ...findings.py}]}

States of a section: "passed", "wrong" (a case was), "failed" (a step ended badly), "hung" (one was killed), "not run" (no case was).
"""
import datetime
import json
import os
import shutil
import signal
import sys
import threading
import time

from workbench.commands import ROOT, Failure
from workbench.gpu import manifest as manifests
from workbench.gpu.findings import Findings
from workbench.gpu.lines import READERS
from workbench.gpu.out_folder import OutFolder
from workbench.gpu.probe import LIBRARY
from workbench.gpu.process import run_limited
from workbench.gpu.sections import TOOLS
from workbench.gpu.table import table

SCHEMA = 1
NO_DEVICE = 77
PROBE_SECONDS = 30
SPARE_SECONDS = 10    # of the run's, for the report and what is slow to be killed
STEP_SECONDS_MIN = 3  # with less than that a step is not begun


class _TimeIsUp(Exception):
    """SIGTERM or SIGINT: the report is finished and the run ends."""


def _end(number, _):
    raise _TimeIsUp(signal.Signals(number).name)


def environment(folder):
    """Programs find their libraries in build/gpu, and take the driver that the report names, not one of the tests'; nothing else of the machine
    is changed."""
    library = os.environ.get("WEFT_CUDA_LIBRARY") or LIBRARY
    return dict(os.environ, WEFT_CUDA_LIBRARY=library, LD_LIBRARY_PATH=os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH")))))


def find_devices(folder):
    """What probe.py says; ends the run with 77 where there is no device."""
    said = []
    end = run_limited((sys.executable, "-B", ROOT / "workbench" / "gpu" / "probe.py"), ROOT, environment(folder), PROBE_SECONDS, said.append)
    if end.code is None:
        raise Failure(f"gpu: the driver did not say in {PROBE_SECONDS} s which devices there are")
    try:
        found = json.loads(said[-1])
    except (ValueError, IndexError):
        raise Failure(f"gpu: asking the driver for devices ended with {end.code}: {' '.join(said[-2:])}") from None
    if "why" in found:
        raise Failure(f"gpu: this machine has no GPU that can be used: {found['why']}", NO_DEVICE)
    return found


class Run:
    def __init__(self, manifest, folder, out, seconds, devices):
        self.folder, self.out = folder, out
        self.deadline = time.monotonic() + seconds
        self.started = time.monotonic()
        self.report = {"schema": SCHEMA, "commit": manifest["commit"], "dirty": manifest["dirty"], "compiler": manifest["compiler"],
                       "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", **devices, "seconds": 0, "ended": "it has not", "facts": {},
                       "sections": []}

    def save(self):
        self.report["seconds"] = round(time.monotonic() - self.started, 1)
        self.out.replace("report.json", json.dumps(self.report, indent=1) + "\n")

    def sections(self, sections):
        ended = "all sections had their turn"
        try:
            for section in sections:
                self.section(section)
        except _TimeIsUp as up:
            ended = f"by {up}, before all sections had their turn"
        self.report["ended"] = ended
        self.save()

    def section(self, section):
        findings, steps = Findings(), []
        entry = {"name": section["name"], "state": "not run", "sources": section["sources"], "seconds": 0, "steps": steps}
        self.report["sections"].append(entry)
        begun = time.monotonic()
        print(f"section {section['name']}", flush=True)
        try:
            for step in section["steps"]:
                steps.append({"name": step["name"], "state": "begun"})
                steps[-1].update(self.step(step, findings))
                print(f"  {step['name']}: {steps[-1]['state']}, {steps[-1].get('seconds', 0)} s", flush=True)
        finally:  # also when the run is told to end: what was found is told
            entry.update(findings.as_json(), state=state_of(steps, findings), seconds=round(time.monotonic() - begun, 1))
            self.report["facts"].update(entry.pop("facts"))
            self.save()

    def step(self, step, findings):
        """What the report says of it."""
        seconds = min(step["seconds"], self.deadline - SPARE_SECONDS - time.monotonic())
        command, why = self.command(step)
        if seconds < STEP_SECONDS_MIN and seconds < step["seconds"]:
            why = "no time was left for it"
        if why:
            findings.skip(step["check"] or step["name"], why)
            return {"state": "not run", "why": why}
        reader = READERS[step["reads"]](findings, step["check"] or step["name"])
        log = self.out.log(f"{step['name']}.txt" if step["reads"] == "sanitizer" else "log.txt")
        log.line(f"== {step['name']}")

        def on_line(text):
            log.line(text)
            reader.line(text)

        try:
            end = run_limited(command, self.folder, environment(self.folder), seconds, on_line)
        except OSError as error:
            return {"state": "failed", "why": f"{command[0]} could not be started: {error.strerror}"}
        right = reader.end(end.code)
        if end.code is None:
            return {"state": "hung", "why": f"it was killed after {end.seconds} s", "seconds": end.seconds}
        return {"state": "ended" if right else "failed", "code": end.code, "seconds": end.seconds}

    def command(self, step):
        """Its words, or why there are none."""
        program = [str(self.folder / step["program"])]
        if step["program"].endswith(".py"):
            program = [sys.executable, "-B", str(ROOT / "workbench" / "gpu" / step["program"])]
        if not step["program"]:
            return None, "it was not built"
        if not step["tool"]:
            return program + step["arguments"], None
        tool = next(filter(None, map(shutil.which, TOOLS[step["tool"]])), None)
        if tool is None:
            return None, f"this machine has no {step['tool']}"
        kind = ["--tool", step["name"]]
        return [tool, *kind, *program, *step["arguments"]], None


def state_of(steps, findings):
    """Of a section. Nothing is above its evidence: without a case it is "not run", whatever its programs said."""
    states = {step["state"] for step in steps}
    if findings.total("wrong"):
        return "wrong"
    if "failed" in states or "begun" in states or findings.unreadable:
        return "failed"
    if "hung" in states:
        return "hung"
    return "passed" if findings.total("cases") else "not run"


def run(options):
    folder = options.folder
    manifest = manifests.load(folder)
    manifests.check(manifest, folder, ROOT)
    sections = manifest["sections"]
    if options.only:
        sections = [section for section in sections if section["name"] in options.only]
    devices = find_devices(folder)
    one_run = Run(manifest, folder, OutFolder(options.out), options.seconds, devices)
    watchdog = threading.Timer(options.seconds, _give_up)
    watchdog.daemon = True
    watchdog.start()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    print(f"on {len(devices['cards'])} x {devices['cards'][0]}, driver {devices['driver']} of {devices['library']}", flush=True)
    one_run.save()
    one_run.sections(sections)
    watchdog.cancel()
    print(table(one_run.report), flush=True)
    bad = [section["name"] for section in one_run.report["sections"] if section["state"] in ("wrong", "failed", "hung")]
    if bad or len(one_run.report["sections"]) < len(sections):
        raise Failure(f"gpu: not right: {' '.join(bad) or 'the run was ended'}; {options.out / 'report.json'} says what")


def _give_up():
    """The last resort, when the runner itself stands still. The report is as whole as it was after the last section."""
    print("gpu: the time is up and a section could not be ended; the report has those before it", file=sys.stderr, flush=True)
    os._exit(1)  # a process that waits in the driver would keep an orderly end waiting
