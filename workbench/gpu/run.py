"""`./dev gpu run`: the sections of build/gpu/manifest.json on this machine's devices, and a report of what they found.

Needs Python and the driver alone. Sections run in the manifest's order. Whatever a section does, report.json is whole: it is written
after every section, and at the end of the time.

    report: {"schema", "commit", "dirty", "compiler", "date", "library", "driver", "cards", "seconds", "ended", "facts",
             "sections": [{"name", "state", "sources", "seconds", "steps": [...], ...findings.py}]}

States of a section: "passed", "wrong" (a case was), "failed" (a step ended badly), "hung" (one was killed), "unfinished" (some steps were left
out when the time was up or the run was told to end), "not run" (no case was).
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
from workbench.gpu.process import kill_running, run_limited
from workbench.gpu.sections import TOOLS
from workbench.gpu.table import table

SCHEMA = 1
NO_DEVICE = 77
PROBE_SECONDS = 30
SPARE_SECONDS = 10    # of the run's, for the report and what is slow to be killed
STEP_SECONDS_MIN = 3  # with less than that a step is not begun


class Told:
    """Whether a signal has told the run to end: what runs is killed, and the report finished. The signal raises nothing, because it comes anywhere: while
    a program is started, while the report is written, or when all is done."""

    def __init__(self):
        self.by = None  # the signal's name
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, self._end)

    def _end(self, number, _):
        self.by = self.by or signal.Signals(number).name


def environment(folder):
    """Programs find their libraries in build/gpu, and take the driver that the report names, not one of the tests'; nothing else of the machine
    is changed."""
    library = os.environ.get("WEFT_CUDA_LIBRARY") or LIBRARY
    return dict(os.environ, WEFT_CUDA_LIBRARY=library, LD_LIBRARY_PATH=os.pathsep.join(filter(None, (str(folder), os.environ.get("LD_LIBRARY_PATH")))))


def find_devices(folder, deadline, told):
    """What probe.py says; ends the run with 77 where there is no device."""
    said = []
    seconds = max(STEP_SECONDS_MIN, min(PROBE_SECONDS, deadline - SPARE_SECONDS - time.monotonic()))
    command = (sys.executable, "-B", ROOT / "workbench" / "gpu" / "probe.py")
    end = run_limited(command, ROOT, environment(folder), seconds, said.append, lambda: told.by)
    if told.by:
        raise Failure(f"gpu: the run was ended by {told.by} before a section ran; there is no report")
    if end.code is None:
        raise Failure(f"gpu: the driver did not say in {seconds:.0f} s which devices there are")
    try:
        found = json.loads(said[-1])
    except (ValueError, IndexError):
        raise Failure(f"gpu: asking the driver for devices ended with {end.code}: {' '.join(said[-2:])}") from None
    if "why" in found:
        raise Failure(f"gpu: this machine has no GPU that can be used: {found['why']}", NO_DEVICE)
    return found


class Run:
    def __init__(self, manifest, folder, out, started, deadline, told, devices):
        self.folder, self.out = folder, out
        self.started, self.deadline, self.told = started, deadline, told
        self.report = {"schema": SCHEMA, "commit": manifest["commit"], "dirty": manifest["dirty"], "compiler": manifest["compiler"],
                       "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}", **devices, "seconds": 0, "ended": "it has not", "facts": {},
                       "sections": []}

    def save(self):
        self.report["seconds"] = round(time.monotonic() - self.started, 1)
        self.out.replace("report.json", json.dumps(self.report, indent=1) + "\n")

    def sections(self, sections):
        """False: the run was told to end before all of them were done."""
        done = True
        for section in sections:
            done = done and not self.told.by and self.section(section)
        self.report["ended"] = "all sections had their turn" if done else f"by {self.told.by}, before all sections had their turn"
        self.save()
        return done

    def section(self, section):
        """False: the run was told to end in the middle of it."""
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
        finally:  # also when the runner fails: what was found is told
            entry.update(findings.as_json(), state=state_of(steps, findings), seconds=round(time.monotonic() - begun, 1))
            self.report["facts"].update(entry.pop("facts"))
            self.save()
        return all(step["state"] not in ("killed", "left out") for step in steps) or not self.told.by

    def step(self, step, findings):
        """What the report says of it."""
        seconds = min(step["seconds"], self.deadline - SPARE_SECONDS - time.monotonic())
        command, why = self.command(step)
        left_out = None
        if seconds < STEP_SECONDS_MIN and seconds < step["seconds"]:
            left_out = "no time was left for it"
        if self.told.by:
            left_out = f"the run was ended by {self.told.by}"
        if left_out or why:
            findings.skip(step["check"] or step["name"], left_out or why)
            return {"state": "left out" if left_out else "not run", "why": left_out or why}
        reader = READERS[step["reads"]](findings, step["check"] or step["name"])
        log = self.out.log(f"{step['name']}.txt" if step["reads"] == "sanitizer" else "log.txt")
        log.line(f"== {step['name']}")

        def on_line(text):
            log.line(text)
            reader.line(text)

        try:
            end = run_limited(command, self.folder, environment(self.folder), seconds, on_line, lambda: self.told.by)
        except OSError as error:
            return {"state": "failed", "why": f"{command[0]} could not be started: {error.strerror}"}
        right = reader.end(end.code)
        if end.code is None and self.told.by:
            return {"state": "killed", "why": f"the run was ended by {self.told.by}", "seconds": end.seconds}
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
    """Of a section. Nothing is above its evidence: without a case it is "not run", whatever its programs said. A step that the machine refuses does
    not make it unfinished: there it can never run."""
    states = {step["state"] for step in steps}
    if findings.total("wrong"):
        return "wrong"
    if "failed" in states or "begun" in states or findings.unreadable:
        return "failed"
    if "hung" in states:
        return "hung"
    if not findings.total("cases"):
        return "not run"
    return "unfinished" if states & {"killed", "left out"} else "passed"


def run(options):
    started = time.monotonic()
    told = Told()
    watchdog = threading.Timer(options.seconds, _give_up)
    watchdog.daemon = True
    watchdog.start()
    try:
        _run(options, started, told)
    finally:
        watchdog.cancel()


def _run(options, started, told):
    folder, deadline = options.folder, started + options.seconds
    manifest = manifests.load(folder)
    manifests.check(manifest, folder, ROOT)
    sections = manifest["sections"]
    if options.only:
        sections = [section for section in sections if section["name"] in options.only]
    devices = find_devices(folder, deadline, told)
    one_run = Run(manifest, folder, OutFolder(options.out), started, deadline, told, devices)
    print(f"on {len(devices['cards'])} x {devices['cards'][0]}, driver {devices['driver']} of {devices['library']}", flush=True)
    one_run.save()
    done = one_run.sections(sections)
    print(table(one_run.report), flush=True)
    bad = [section["name"] for section in one_run.report["sections"] if section["state"] in ("wrong", "failed", "hung")]
    if bad or not done:
        raise Failure(f"gpu: not right: {' '.join(bad) or 'the run was ended'}; {options.out / 'report.json'} says what")


def _give_up():
    """The last resort, when the runner itself stands still. The report is as whole as it was after the last section."""
    kill_running()
    print("gpu: the time is up and a section could not be ended; the report has those before it", file=sys.stderr, flush=True)
    os._exit(1)  # a process that waits in the driver would keep an orderly end waiting
