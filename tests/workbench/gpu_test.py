"""./dev gpu on a machine without a GPU: what run, status and docs/gpu.md make of sections that are right, wrong, hang, or say nothing.

The driver is a library of a few lines, named by WEFT_CUDA_LIBRARY; the sections' programs are scripts.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.commands import Failure
from workbench.gpu import build, manifest, page, process, table
from workbench.gpu.findings import Findings
from workbench.gpu.features import FEATURES
from workbench.gpu.lines import READERS
from workbench.gpu.out_folder import FILE_BYTES_MAX, FILES_MAX, OutFolder
from workbench.gpu.probe import LIBRARY
from workbench.gpu.reports import FOLDER, in_order, read_reports
from workbench.gpu.run import state_of
from workbench.gpu.sections import NAMES, SECTIONS, Section
from workbench.gpu.sources import file_hash, files_of, sources_hash
from workbench.gpu.status import status_lines

DRIVER = """
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned flags) {
  const char* hang = getenv("DRIVER_HANGS");
  if (hang && symlink("begun", hang) == 0) sleep(600);
  return flags;
}
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuDeviceGetCount(int* count) { *count = %d; return 0; }
int cuDeviceGet(int* device, int i) { *device = i; return 0; }
int cuDeviceGetName(char* name, int room, int device) { strncpy(name, "Test Card 1", room); return device; }
"""
SOURCE = "workbench/gpu/sections.py"  # any file of the tree: what the sections of these tests are made of
RIGHT = 'echo \'{"check": "adds", "cases": 3, "wrong": 0}\'; echo \'{"seed": 7}\'; echo \'{"figure": "copy", "bytes": 1000, "us": [2, 1, 3], "ratio": 0.9, "bar": 0.85}\''


class Ran:
    """A run of ./dev gpu run, as another process."""

    def __init__(self, folder, out, code, text):
        self.folder, self.out, self.code, self.text = folder, out, code, text

    def report(self):
        return json.loads((self.out / "report.json").read_text())

    def states(self):
        return {section["name"]: section["state"] for section in self.report()["sections"]}


class OnADriver(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.driver, cls.no_device = cls.folder / "driver.so", cls.folder / "no_device.so"
        for path, count in ((cls.driver, 1), (cls.no_device, 0)):
            subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-x", "c", "-o", path, "-"], input=DRIVER % count, text=True, check=True)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def made(self, scripts, seconds=20, sources=None, **step):
        """A folder as ./dev gpu build makes it, of sections that are one shell script each."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        sections = []
        for name, script in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{script}\n")
            (folder / name).chmod(0o755)
            sections.append({"name": name, "patterns": [SOURCE], "sources": sources or sources_hash([SOURCE], ROOT),
                             "steps": [{"name": name, "program": name, "arguments": [], "seconds": seconds, "reads": "lines", "check": "", "tool": "", **step}]})
        manifest.write(folder, {"schema": 1, "commit": "0" * 40, "dirty": False, "compiler": {},
                                "files": {name: file_hash(folder / name) for name in scripts}, "sections": sections})
        return folder

    def command(self, folder, out, *arguments):
        return [sys.executable, "-B", ROOT / "dev", "gpu", "run", "--folder", folder, "--out", out, *arguments]

    def environment(self, driver=None):
        """Of a bare machine: no git, no compiler, nothing but what a script needs."""
        bare = self.folder / "bin"
        if not bare.exists():
            bare.mkdir()
            for name in ("sh", "sleep", "cat"):
                (bare / name).symlink_to(shutil.which(name))
        return {"PATH": str(bare), "WEFT_CUDA_LIBRARY": str(driver or self.driver)}

    def ran(self, folder, *arguments, driver=None, environment=()):
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        done = subprocess.run(self.command(folder, out, *arguments), env={**self.environment(driver), **dict(environment)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=100, check=False)
        return Ran(folder, out, done.returncode, done.stdout)

    def test_what_is_right_is_counted(self):
        ran = self.ran(self.made({"one": RIGHT, "two": RIGHT}))
        self.assertEqual(0, ran.code, ran.text)
        report = ran.report()
        self.assertEqual({"one": "passed", "two": "passed"}, ran.states())
        self.assertEqual((["Test Card 1"], 13000, str(self.driver)), (report["cards"], report["driver"], report["library"]))
        section = report["sections"][0]
        self.assertEqual((3, 0, [7], [2, 1, 3]), (section["cases"], section["wrong"], section["seeds"], section["figures"][0]["us"]))
        self.assertRegex(ran.text, r"copy +1000 +2.00 +0.5 +0.90 +0.85\n")
        self.assertEqual("of no device: there is nothing to keep", ran.text.splitlines()[-1])
        self.assertIn(f"docs/perf/gpu/{report['date']}-test-card-1.json", table.table({**report, "library": LIBRARY}))

    def test_a_hung_section_is_killed_with_its_children_and_the_next_runs(self):
        pids = self.folder / "pids"
        hang = RIGHT + f"; sleep 600 & echo $! $$ >{pids}; sleep 600"
        started = time.monotonic()
        ran = self.ran(self.made({"hangs": hang, "then": RIGHT}, seconds=4))
        self.assertLess(time.monotonic() - started, 60)
        self.assertEqual(1, ran.code, ran.text)
        self.assertEqual({"hangs": "hung", "then": "passed"}, ran.states())
        self.assertEqual(3, ran.report()["sections"][0]["cases"])  # what it proved before is kept
        for pid in pids.read_text().split():
            wait_for_end(int(pid))

    def test_what_a_section_leaves_running_is_ended(self):
        pids = self.folder / "left"
        ran = self.ran(self.made({"leaves": RIGHT + f"; sleep 600 & echo $! >{pids}"}))
        self.assertEqual({"leaves": "passed"}, ran.states(), ran.text)
        wait_for_end(int(pids.read_text()))

    def test_the_report_is_whole_after_each_section(self):
        kept = self.folder / "kept.json"
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        folder = self.made({"one": RIGHT, "two": f"cat {out}/report.json >{kept}"})
        subprocess.run(self.command(folder, out), env=self.environment(), capture_output=True, timeout=100, check=False)
        self.assertEqual(["one"], [section["name"] for section in json.loads(kept.read_text())["sections"]])

    def test_a_run_that_is_told_to_end_leaves_a_report(self):
        begun = self.folder / "begun"
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        folder = self.made({"one": RIGHT, "two": RIGHT + f"; echo $$ >{begun}; sleep 600", "three": RIGHT}, seconds=500)
        with subprocess.Popen(self.command(folder, out), env=self.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for(lambda: begun.exists() and begun.read_text().strip())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(1, process.wait(60))
        ran = Ran(folder, out, 1, "")
        self.assertEqual({"one": "passed", "two": "unfinished"}, ran.states())
        self.assertIn("SIGTERM", ran.report()["ended"])
        self.assertEqual("the run was ended by SIGTERM", ran.report()["sections"][1]["steps"][0]["why"])
        wait_for_end(int(begun.read_text()))

    def ran_with(self, folder, patch, environment=()):
        """Of a runner in which `patch`, lines of Python, has sent signals where no test could from outside: its exit code, and the run."""
        out = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        code = ("import os, pathlib, signal, subprocess, sys, threading, types\nfrom workbench.commands import Failure\n"
                "from workbench.gpu import out_folder, process, run\n"
                f"def tell():\n    os.kill(os.getpid(), signal.SIGTERM)\n{patch}\n"
                f"options = types.SimpleNamespace(folder=pathlib.Path({str(folder)!r}), out=pathlib.Path({str(out)!r}), seconds=60, only=None)\n"
                "try:\n    run.run(options)\nexcept Failure as failure:\n    print(failure)\n    sys.exit(failure.code)\n")
        done = subprocess.run([sys.executable, "-B", "-c", code], cwd=ROOT, env={**self.environment(), **dict(environment)}, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=100, check=False)
        self.assertNotIn("Traceback", done.stdout)
        return Ran(folder, out, done.returncode, done.stdout)

    def test_a_signal_while_the_report_is_written_leaves_it_whole(self):
        ran = self.ran_with(self.made({"one": RIGHT, "two": RIGHT}), """
real = os.fsync
def fsync(file):
    if b'"one"' in pathlib.Path(f"/proc/self/fd/{file}").read_bytes():
        tell()
    real(file)
out_folder.os.fsync = fsync""")
        self.assertEqual((1, {"one": "passed"}), (ran.code, ran.states()), ran.text)
        self.assertIn("SIGTERM", ran.report()["ended"])

    def test_a_signal_when_all_is_done_changes_nothing(self):
        ran = self.ran_with(self.made({"one": RIGHT}), "made = run.table\nrun.table = lambda report: tell() or made(report)")
        self.assertEqual((0, {"one": "passed"}), (ran.code, ran.states()), ran.text)
        self.assertRegex(ran.text, r"copy +1000 +2.00")
        self.assertEqual("all sections had their turn", ran.report()["ended"])

    def test_a_signal_while_a_program_starts_leaves_nothing_running(self):
        pid = self.folder / "started"
        ran = self.ran_with(self.made({"one": RIGHT + "; exec sleep 600"}, seconds=50), f"""
made = subprocess.Popen
def popen(command, **options):
    child = made(command, **options)
    if command[0].endswith("/one"):
        pathlib.Path({str(pid)!r}).write_text(str(child.pid))
        tell()
    return child
process.subprocess.Popen = popen""")
        self.assertEqual(1, ran.code, ran.text)
        wait_for_end(int(pid.read_text()))
        self.assertIn("SIGTERM", ran.report()["ended"])

    def test_a_runner_that_stands_still_ends_with_what_it_started(self):
        pid = self.folder / "still"
        ran = self.ran_with(self.made({"one": f"echo $$ >{pid}; echo something; exec sleep 600"}, seconds=50), """
def line(log, text):
    if text == "something":
        threading.Timer(0.1, run._give_up).start()
        threading.Event().wait()
out_folder._Log.line = line""")
        self.assertEqual(1, ran.code, ran.text)
        self.assertIn("a section could not be ended", ran.text)
        wait_for(lambda: pid.exists() and pid.read_text().strip())
        wait_for(lambda: not alive(int(pid.read_text())))
        self.assertEqual([], ran.report()["sections"])

    def test_what_a_killed_program_had_said_is_read(self):
        said, lines = self.folder / "said", []
        end = process.run_limited(["sh", "-c", f"echo something; echo >{said}; exec sleep 600"], self.folder, None, 60, lines.append,
                                  lambda: wait_for(said.exists) or True)
        self.assertEqual((None, ["something"]), (end.code, lines))

    def test_the_time_of_the_run_is_also_the_probe_s(self):
        hangs = {"DRIVER_HANGS": str(self.folder / "asked")}
        ran = self.ran(self.made({"one": RIGHT}), "--seconds", "14", environment=hangs)
        self.assertEqual(1, ran.code, ran.text)
        self.assertRegex(ran.text, r"the driver did not say in [34] s which devices there are")

    def test_a_run_that_is_told_to_end_while_the_driver_hangs_ends(self):
        asked = self.folder / "told"
        ran = self.ran_with(self.made({"one": RIGHT}), f"""
def once_asked():
    while not os.path.lexists({str(asked)!r}):
        threading.Event().wait(0.02)
    tell()
threading.Thread(target=once_asked, daemon=True).start()""", {"DRIVER_HANGS": str(asked)})
        self.assertEqual(1, ran.code, ran.text)
        self.assertIn("the run was ended by SIGTERM before a section ran", ran.text)

    def test_a_section_of_which_steps_were_left_out_is_unfinished(self):
        folder = self.made({"one": RIGHT + "; sleep 5"}, seconds=500)
        made = manifest.load(folder)
        steps = made["sections"][0]["steps"]
        steps.append({**steps[0], "name": "two"})
        manifest.write(folder, made)
        for _ in range(4):  # a busy machine takes the first step's time away before it begins
            ran = self.ran(folder, "--seconds", "17")
            if ran.states() != {"one": "hung"}:
                break
        self.assertEqual({"one": "unfinished"}, ran.states(), ran.text)
        self.assertEqual(["ended", "left out"], [step["state"] for step in ran.report()["sections"][0]["steps"]])
        self.assertEqual(["two: no time was left for it"], ran.report()["sections"][0]["skipped"])

    def test_sections_without_time_left_are_not_run(self):
        ran = self.ran(self.made({"one": RIGHT + "; sleep 600", "two": RIGHT}, seconds=500), "--seconds", "17")
        self.assertEqual({"one": "hung", "two": "not run"}, ran.states(), ran.text)
        self.assertEqual(["two: no time was left for it"], ran.report()["sections"][1]["skipped"])

    def test_nothing_is_above_its_evidence(self):
        ran = self.ran(self.made({
            "wrong": 'echo \'{"check": "adds", "cases": 3, "wrong": 1, "error": "element 5"}\'',
            "says_nothing": "true",
            "crashes": RIGHT + "; kill -SEGV $$",
            "garbled": RIGHT + '; echo \'{"check": "adds", "cases": "many", "wrong": 0}\'',
            "refused": 'echo \'{"check": "adds", "skipped": "the driver says 801"}\''}))
        self.assertEqual({"wrong": "wrong", "says_nothing": "not run", "crashes": "failed", "garbled": "failed", "refused": "not run"}, ran.states())
        self.assertEqual(1, ran.code)
        self.assertIn("wrong, wrong: element 5", ran.text)
        self.assertIn("refused, not run: adds: the driver says 801", ran.text)

    def test_a_tool_that_is_not_there_is_named(self):
        ran = self.ran(self.made({"one": RIGHT}, reads="sanitizer", check="memcheck", tool="compute-sanitizer"))
        if "this machine has no compute-sanitizer" in ran.text:  # it may be where CUDA is installed
            self.assertEqual({"one": "not run"}, ran.states())
        self.assertNotEqual({"one": "passed"}, ran.states())

    def test_programs_take_the_driver_that_the_report_names(self):
        said = self.folder / "named"
        ran = self.ran(self.made({"one": RIGHT + f"; echo $WEFT_CUDA_LIBRARY >{said}"}))
        self.assertEqual(ran.report()["library"], said.read_text().strip())

    def test_only_takes_its_sections(self):
        ran = self.ran(self.made({"machine": RIGHT, "kernels": RIGHT}), "--only", "kernels")
        self.assertEqual({"kernels": "passed"}, ran.states(), ran.text)

    def test_without_a_gpu_it_ends_with_77(self):
        folder = self.made({"one": RIGHT})
        for driver, why in ((self.no_device, "knows no device"), (self.folder / "none.so", "none.so")):
            ran = self.ran(folder, driver=driver)
            self.assertEqual(77, ran.code, ran.text)
            self.assertIn(why, ran.text)
            self.assertFalse((ran.out / "report.json").exists())

    def test_other_sources_are_refused(self):
        ran = self.ran(self.made({"one": RIGHT}, sources="f" * 64))
        self.assertEqual(2, ran.code)
        self.assertIn("the sources of section one in this tree are not those that were built", ran.text)

    def test_other_files_and_no_manifest_are_refused(self):
        folder = self.made({"one": RIGHT})
        with open(folder / "one", "a") as file:
            file.write("true\n")
        ran = self.ran(folder)
        self.assertEqual(2, ran.code)
        self.assertIn("one is not the file that ./dev gpu build made", ran.text)
        (folder / "one").unlink()
        self.assertIn("one is not there", self.ran(folder).text)
        (folder / "manifest.json").unlink()
        self.assertEqual(2, self.ran(folder).code)


def alive(pid):
    """A zombie that nobody has waited for is not."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def wait_for(happened):
    deadline = time.monotonic() + 60
    while not happened():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


def wait_for_end(pid):
    """Of a process that was sent SIGKILL, which takes its time beside a load."""
    wait_for(lambda: not alive(pid))


class OutFolders(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.out = OutFolder(pathlib.Path(temporary.name) / "out")

    def test_names_are_plain_and_files_few(self):
        for name in ("a/b", "a b", "ä", "", ".hidden"):
            with self.assertRaises(ValueError):
                self.out.log(name)
        for i in range(FILES_MAX):
            self.out.replace(f"{i}.json", "{}")
        self.out.replace("0.json", "[]")
        with self.assertRaises(ValueError):
            self.out.log("more.txt")
        self.assertEqual([f"{i}.json" for i in range(FILES_MAX)], sorted(path.name for path in self.out.path.iterdir()))

    def test_files_are_not_large(self):
        log = self.out.log("log.txt")
        self.addCleanup(log.file.close)
        for _ in range(10):
            log.line("x" * (1 << 20))
        data = (self.out.path / "log.txt").read_bytes()
        self.assertLessEqual(len(data), FILE_BYTES_MAX)
        self.assertTrue(data.endswith(b"the rest is cut\n"))
        with self.assertRaises(ValueError):
            self.out.replace("report.json", "x" * (FILE_BYTES_MAX + 1))

    def test_the_tables_steps_fit(self):
        logs = {step.name for section in SECTIONS for step in section.steps if step.reads == "sanitizer"}
        self.assertLessEqual(len(logs) + len(("report.json", "log.txt")), FILES_MAX)


class Reading(unittest.TestCase):
    def read(self, kind, text, code=0):
        findings = Findings()
        reader = READERS[kind](findings, "check")
        for line in text.splitlines():
            reader.line(line)
        return findings, reader.end(code)

    def test_tests_of_googletest_are_cases(self):
        findings, right = self.read("gtest", "[ RUN      ] A.B\n" '{"figure": "allocation", "us": [7.5]}\n' "[       OK ] A.B (1 ms)\n[  FAILED  ] A.C, where GetParam() = 1 (2 ms)\nno peer access\n"
                                    "[  SKIPPED ] A.D (0 ms)\n[  FAILED  ] A.C, where GetParam() = 1\n 1 FAILED TEST\n", 1)
        self.assertFalse(right)
        self.assertEqual({"check": {"cases": 2, "wrong": 1, "errors": ["A.C failed"], "skipped": ["A.D: no peer access"]}}, findings.checks)
        self.assertEqual([{"name": "allocation", "us": [7.5]}], findings.figures)

    def test_a_sanitizer_counts_with_its_summary_alone(self):
        cases = '{"check": "reduce", "cases": 5, "wrong": 0}\n'
        findings, right = self.read("sanitizer", cases + "========= ERROR SUMMARY: 0 errors")
        self.assertEqual((5, 0, True), (findings.checks["check"]["cases"], findings.total("wrong"), right))
        findings, _ = self.read("sanitizer", cases + "========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)", 9)
        self.assertEqual((5, 2), (findings.checks["check"]["cases"], findings.total("wrong")))
        findings, _ = self.read("sanitizer", "========= Error: Device not supported. Please refer to the docs\n", 1)
        self.assertEqual((0, ["compute-sanitizer checked nothing: Error: Device not supported. Please refer to the docs"]),
                         (findings.total("cases"), findings.checks["check"]["skipped"]))
        findings, right = self.read("sanitizer", cases, None)
        self.assertEqual((0, False), (findings.total("cases"), right))

    def test_a_step_that_did_not_end_is_never_right(self):
        findings = Findings()
        findings.count("adds", 1)
        for state, wanted in (("ended", "passed"), ("not run", "passed"), ("begun", "failed"), ("failed", "failed"), ("hung", "hung"),
                              ("left out", "unfinished"), ("killed", "unfinished")):
            self.assertEqual(wanted, state_of([{"state": "ended"}, {"state": state}], findings))
            self.assertEqual(wanted if wanted in ("failed", "hung") else "not run", state_of([{"state": "ended"}, {"state": state}], Findings()))


class Kept(unittest.TestCase):
    """Reports in docs/perf/gpu of a tree of two sections."""

    SECTIONS = (Section("machine", ("m/*",), ()), Section("memory", ("e/*",), ()), Section("kernels", ("k/*",), ()))

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.root = pathlib.Path(temporary.name)
        for name in ("m/a", "e/a", "k/a"):
            (self.root / name).parent.mkdir()
            (self.root / name).write_text("1")
        (self.root / FOLDER).mkdir(parents=True)
        (self.root / "tests/device").mkdir(parents=True)
        (self.root / "tests/device/register_budget.json").write_text('{"weft_fill": 20, "weft_cast_a": 20, "weft_cast_b": 20}')
        (self.root / "tests/device/CMakeLists.txt").write_text("weft_test(twin_copy_test LABELS comm)\n")

    def keep(self, date, states, library=LIBRARY, cards=("Card",), checks=None):
        made = [{"name": name, "state": state, "sources": sources_hash(dict((s.name, s.sources) for s in self.SECTIONS)[name], self.root), "seconds": 1,
                 "cases": 4, "wrong": int(state == "wrong"), "skipped": [], "checks": checks or {}, "figures": [], "steps": []} for name, state in states.items()]
        report = {"schema": 1, "library": library, "cards": list(cards), "driver": 13000, "date": date, "sections": made}
        (self.root / FOLDER / f"{date}-card.json").write_text(json.dumps(report))

    def lines(self):
        return status_lines(self.root, self.SECTIONS)

    def test_without_reports_all_is_pending(self):
        self.assertEqual(["machine    pending: no report", "memory     pending: no report", "kernels    pending: no report"], self.lines())

    def test_a_report_stands_until_sources_change(self):
        self.keep("2026-11-01", {"machine": "passed", "memory": "passed", "kernels": "passed"})
        self.assertEqual(["machine    stands: Card, 2026-11-01, 4 cases", "memory     stands: Card, 2026-11-01, 4 cases",
                          "kernels    stands: Card, 2026-11-01, 4 cases"], self.lines())
        (self.root / "k/b").write_text("new")
        self.assertEqual(["machine", "kernels", "memory"], [line.split()[0] for line in self.lines()])
        self.assertEqual("kernels    pending: its sources changed since Card, 2026-11-01", self.lines()[1])

    def test_the_oldest_that_stands_runs_before_younger_ones(self):
        self.keep("2026-11-01", {"machine": "passed", "memory": "passed", "kernels": "passed"})
        self.keep("2026-11-02", {"memory": "passed", "kernels": "not run"})
        hashes = {section.name: sources_hash(section.sources, self.root) for section in self.SECTIONS}
        self.assertEqual(["machine", "kernels", "memory"], in_order(hashes, read_reports(self.root)))

    def test_what_was_wrong_or_hung_is_pending(self):
        self.keep("2026-11-01", {"machine": "passed", "memory": "passed", "kernels": "passed"})
        for state in ("hung", "unfinished"):
            self.keep("2026-11-02", {"memory": state})
            self.assertEqual(f"memory     pending: {state} on Card, 2026-11-02", self.lines()[1])

    def test_a_report_of_another_driver_is_refused(self):
        self.keep("2026-11-01", {"machine": "passed"}, library="build/tests/libfake_driver.so")
        with self.assertRaises(Failure) as refused:
            self.lines()
        self.assertIn("2026-11-01-card.json is no report of a real device", str(refused.exception))

    def cell(self, name, several=False):
        """Of the row that begins so."""
        text = page.text(self.root)
        row, = [line for line in text.splitlines() if line.startswith(f"| {name}")]
        return row.split(" | ")[4 if several else 3].rstrip(" |")

    def test_the_page_says_no_more_than_what_ran(self):
        check = {"cases": 9, "wrong": 0, "errors": [], "skipped": []}
        self.assertEqual("not run", self.cell("fill"))
        self.keep("2026-11-01", {"kernels": "hung"}, checks={"fill": check, "cast": {**check, "wrong": 2}, "pieces": {**check, "cases": 0, "skipped": ["no"]},
                                                             "reduce": check, "first": check})
        self.assertEqual("Card, 2026-11-01: 9 cases; its section was hung; sources changed since", self.cell("fill"))
        self.assertEqual("WRONG in 2 of 9 cases: Card, 2026-11-01", self.cell("copies"))
        self.assertEqual("not run: no (Card, 2026-11-01)", self.cell("many pieces"))
        self.assertEqual("not run", self.cell("reductions"))  # of three checks one is missing
        self.assertEqual("not run", self.cell("fill", several=True))
        self.keep("2026-11-02", {"kernels": "passed"}, cards=("Card", "Card"), checks={"fill": check})
        self.assertEqual("Card, 2026-11-02: 9 cases; sources changed since", self.cell("fill", several=True))

    def test_compiled_and_tested_are_looked_up(self):
        text = page.text(self.root)
        self.assertIn("| fill with a pattern | 1 kernel | `twin_copy_test` | not run | not run |", text)
        self.assertIn("| copies with another type and a factor | 2 kernels | `twin_copy_test` |", text)
        self.assertIn("| LAMB | – | – | not run | not run |", text)

    def test_the_tables_know_each_other(self):
        for feature in FEATURES:
            self.assertIn(feature.section, NAMES, feature.name)
        for section in SECTIONS:
            self.assertTrue(section.steps, section.name)
            self.assertTrue(files_of(section.sources, ROOT), section.name)
        names = page.test_names(ROOT)
        self.assertIn("twin_reduce_test", names)

    def test_a_real_driver_runs_no_test_that_steers_the_fake_one(self):
        for step in (step for section in SECTIONS for step in section.steps if step.tests):
            names = [name for name in page.test_names(ROOT) if re.fullmatch(step.tests, name)]
            self.assertTrue(names, step.name)
            for name in names:  # who can do without asks whether there is one: UseFakeDriver() is nullptr then
                self.assertNotIn("FakeDriver&", (ROOT / "tests/device" / f"{name}.cc").read_text(), name)


class Building(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name) / "gpu"

    def program(self, name, *options):
        path = self.folder.parent / name
        subprocess.run([os.environ.get("CXX", "g++"), "-x", "c++", "-o", path, "-", "-g", *options],
                       input="#include <string>\nint main(int n, char** v) { throw std::string(v[n - 1]); }\n", text=True, check=True)
        return path

    def test_files_are_real_stripped_and_need_nothing_but_glibc(self):
        self.program("own", "-static-libstdc++", "-static-libgcc")
        (self.folder.parent / "link").symlink_to("own")
        build.fill(self.folder, {"own": self.folder.parent / "link"})
        self.assertEqual(["own"], [path.name for path in self.folder.iterdir()])
        self.assertFalse((self.folder / "own").is_symlink())
        self.assertLess((self.folder / "own").stat().st_size, (self.folder.parent / "own").stat().st_size)
        with self.assertRaises(Failure) as refused:
            build.fill(self.folder, {"other": self.program("other")})
        self.assertIn("other needs libstdc++.so.6", str(refused.exception))

    def test_a_newer_glibc_is_refused(self):
        path = self.program("own", "-static-libstdc++", "-static-libgcc")
        with mock.patch.object(build, "GLIBC_MAX", (2, 1)), self.assertRaises(Failure) as refused:
            build.check_needs(path)
        self.assertIn("machines with a GPU have 2.1", str(refused.exception))

    def test_tree_and_folder_stay_small(self):
        self.folder.mkdir()
        build.check_size(self.folder)
        with open(self.folder / "large", "wb") as file:
            file.truncate(build.BYTES_MAX)
        with mock.patch.object(build, "output", lambda *_: "dev\n"), self.assertRaises(Failure) as refused:
            build.check_size(self.folder)
        self.assertIn("allowed are 60", str(refused.exception))


class Table(unittest.TestCase):
    def test_a_figure_below_its_bar_says_so(self):
        self.assertTrue(table.figure_line({"name": "sum", "bytes": 10, "us": [1], "ratio": 0.8, "bar": 0.85}).endswith("0.85  below it"))


if __name__ == "__main__":
    unittest.main()
