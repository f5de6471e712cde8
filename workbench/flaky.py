"""Runs test programs many times beside a load, and says which fail now and then. `./dev flaky` and nightly run this.

    flaky = Flaky(programs("release", names), rounds=20, load=2, tree=tree_digest(), folder=build / "flaky" / "release-comm")
    flaky.run()                    # two programs at a time; what ran before in this folder, of the same tree, is not run again
    print(flaky.table())           # "" if nothing failed

A program that asserts a speed (label `speed`), or that ctest runs serially, runs with nothing beside it, after all others. Programs run
as ctest runs them: its environment, folder, and time limit, which is longer beside a load.

state.json in the folder is written after every run, so a pass that was cut off goes on where it was; the output of each failure is
kept beside it until the next pass begins.

Thread-safety: one thread calls; two of its own run programs.
"""
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from workbench.commands import ROOT, Estimate, Progress, environment, output

AT_A_TIME = 2
ALONE_LABEL = "speed"
# Ends with the process of that number, its parent, however and whenever that ends.
_BUSY = """import os, sys
while os.getppid() == int(sys.argv[1]):
    for _ in range(1000000): pass
"""
_SEED = re.compile(r"\bseeds?\b[^\d\n]{0,12}(\d+)", re.IGNORECASE)
_CASE = re.compile(r"^\[  FAILED  \] (\S+?)(?:,| |$)|^(?:FAIL|ERROR): (\S+)", re.MULTILINE)
GTEST_XML = "--gtest_output="
# As ctest starts programs: a shell that runs a pass in the background lets it ignore these, and programs that ignore a signal go on doing so.
_WITH_DEFAULT_SIGNALS = ("env", "--default-signal=HUP,INT,QUIT")


@dataclasses.dataclass
class Program:
    """A test as ctest would run it."""
    name: str
    command: list
    environment: dict
    folder: str
    timeout_s: float
    skip_code: int
    alone: bool


def list_tests(build):
    """Ctest's own list: what it runs, and how; without a command what is not built."""
    return json.loads(output("ctest", "--test-dir", build, "--show-only=json-v1"))["tests"]


def programs(preset, names, root=ROOT):
    """Those of `names` that have been built."""
    preset_environment = _environment_of(preset, root)
    return [program_of(entry, preset_environment) for entry in list_tests(root / "build" / preset) if entry["name"] in names and entry.get("command")]


def _environment_of(preset, root):
    """What the test preset sets: options of sanitizers."""
    for one in json.loads((root / "CMakePresets.json").read_text())["testPresets"]:
        if one["name"] == preset:
            return {name: value.replace("${sourceDir}", str(root)) for name, value in one.get("environment", {}).items()}
    return {}


def program_of(entry, preset_environment):
    found = {one["name"]: one["value"] for one in entry.get("properties", ())}
    own = dict(line.split("=", 1) for line in found.get("ENVIRONMENT", ()))
    alone = ALONE_LABEL in found.get("LABELS", ()) or bool(found.get("RUN_SERIAL"))
    # The counts of cases are those of the last run of ./dev test.
    command = [word for word in entry["command"] if not word.startswith(GTEST_XML)]
    return Program(entry["name"], command, {**preset_environment, **own}, found.get("WORKING_DIRECTORY", str(ROOT)),
                   found.get("TIMEOUT", 1500), found.get("SKIP_RETURN_CODE"), alone)


def tree_digest():
    """Of what is tested: the commit, and what differs from it."""
    text = (output("git", "rev-parse", "HEAD") or "") + (output("git", "diff", "HEAD") or "")
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Busy:
    """Processes that take the CPUs from those that are tested, while the context lasts."""

    def __init__(self, count):
        self.count = count
        self.processes = []

    def __enter__(self):
        self.processes = [subprocess.Popen([sys.executable, "-c", _BUSY, str(os.getpid())]) for _ in range(self.count)]

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


class Flaky:
    """One pass: each program `rounds` times. It goes on with the pass in `folder` if that was cut off, and of the same tree and the
    same programs. With `in_a_row`, a program's rounds follow each other in the order of `order_seed`, so that a pass that `minutes`
    cut off has tried some programs to the end. A run that is under way then does not count."""

    def __init__(self, to_run, rounds, load, tree, folder, in_a_row=False, order_seed=None, minutes=None):
        self.programs, self.rounds, self.load = {one.name: one for one in to_run}, rounds, load
        self.in_a_row, self.order_seed = in_a_row, order_seed
        self.until = time.monotonic() + 60 * minutes if minutes else None
        self.folder, self.state_file = folder, folder / "state.json"
        self.mutex = threading.Lock()
        self.children, self.stopping = set(), False
        self.state = self._state_to_go_on_with({"tree": tree, "rounds": rounds, "load": load, "programs": sorted(self.programs)})

    def _state_to_go_on_with(self, key):
        with contextlib.suppress(OSError, ValueError):
            found = json.loads(self.state_file.read_text())
            if not found["ended"] and not self.in_a_row:
                known = f"the pass of {found['started']}, which has made {self._count(found)} runs"
                differs = [name for name in key if found["key"][name] != key[name]]
                if not differs:
                    print(f"going on with {known} of {self.rounds * len(self.programs)}")
                    return found
                print(f"{known}, is given up: it had another {', another '.join(differs)}")
        shutil.rmtree(self.folder / "output", ignore_errors=True)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        seed = random.SystemRandom().randrange(10 ** 9) if self.order_seed is None else self.order_seed
        return {"version": 1, "key": key, "started": now, "ended": False, "seed": seed, "runs": {}}

    @staticmethod
    def _count(state):
        return sum(len(runs) for runs in state["runs"].values())

    def runs_made(self):
        return self._count(self.state)

    def run(self):
        """Returns whether it has come to its end: all rounds of all programs."""
        (self.folder / "output").mkdir(parents=True, exist_ok=True)
        self._save()
        print(f"{len(self.programs)} test programs {self.rounds} times, in the order of seed {self.state['seed']}", flush=True)
        estimate = Estimate("flaky", self._costs())
        progress = Progress(estimate)
        beside = [name for name in sorted(self.programs) if not self.programs[name].alone]
        with Busy(self.load):
            self._run_all(self._batches(beside), AT_A_TIME, progress)
        self._run_all(self._batches([name for name in sorted(self.programs) if self.programs[name].alone]), 1, progress)
        progress.clear()
        self.state["ended"] = self.runs_made() == self.rounds * len(self.programs)
        self._save()
        return self.state["ended"]

    def _costs(self):
        """Seconds by (program, round), as far as earlier runs tell."""
        known = {name: max(run["seconds"] for run in runs) for name, runs in self.state["runs"].items() if runs}
        return {(name, number): known.get(name, 1) for batch in self._batches(list(self.programs)) for name, number in batch} if known else {}

    def _batches(self, names):
        """[[(program, round)]]: what one thread runs one after the other, without those that were run."""
        chosen = random.Random(self.state["seed"])
        made = {name: {run["round"] for run in runs} for name, runs in self.state["runs"].items()}
        left = {name: [(name, number) for number in range(self.rounds) if number not in made.get(name, ())] for name in names}
        if self.in_a_row:
            return [left[name] for name in chosen.sample(names, len(names)) if left[name]]
        return [[(name, number)] for number in range(self.rounds) for name in chosen.sample(names, len(names)) if (name, number) in left[name]]

    def _run_all(self, batches, threads, progress):
        left, changed = list(batches), threading.Condition(self.mutex)
        running = set()

        def next_batch():
            """The first whose program does not run now: none runs beside itself, as none does under ctest."""
            with changed:
                while left:
                    batch = next((one for one in left if one[0][0] not in running), None)
                    if batch is not None:
                        left.remove(batch)
                        running.add(batch[0][0])
                        return batch
                    changed.wait()
            return None

        def run(batch):
            for name, number in batch:
                if self.stopping or (self.until and time.monotonic() > self.until):
                    return
                made = self._run_once(self.programs[name], number)
                if made is None:
                    return
                self._note(name, made, progress)

        def work():
            for batch in iter(next_batch, None):
                try:
                    run(batch)
                finally:
                    with changed:
                        running.discard(batch[0][0])
                        changed.notify_all()

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            try:
                workers = [pool.submit(work) for _ in range(threads)]
                # Not for good: a signal that comes just before a thread begins to wait does not wake it.
                while concurrent.futures.wait(workers, timeout=0.5).not_done:
                    pass
                for worker in workers:
                    worker.result()
            except BaseException:
                self._stop()  # the others end within a run of theirs
                raise

    def _stop(self):
        with self.mutex:
            self.stopping = True
            for child in self.children:
                _kill(child)

    def _run_once(self, program, number):
        """What came of it; None if the pass has ended before."""
        kept = self.folder / "output" / f"{program.name}-{number}.txt"
        start = time.monotonic()
        limit_s = program.timeout_s * (1 if program.alone else 2)
        until = min(start + limit_s, self.until or start + limit_s)
        with open(kept, "wb") as stream:
            with self.mutex:
                if self.stopping:
                    return None
                child = subprocess.Popen([*_WITH_DEFAULT_SIGNALS, *program.command], cwd=program.folder, env={**environment(), **program.environment}, stdin=subprocess.DEVNULL,
                                         stdout=stream, stderr=subprocess.STDOUT, start_new_session=True)
                self.children.add(child)
            try:
                code = child.wait(until - start)
                how = "ok" if code == 0 or code == program.skip_code else f"exit code {code}" if code > 0 else signal.Signals(-code).name
            except subprocess.TimeoutExpired:
                _kill(child)
                child.wait()
                how = f"over {limit_s:.0f} s" if until == start + limit_s else None
            with self.mutex:
                self.children.discard(child)
        if self.stopping or how is None:
            kept.unlink()
            return None
        run = {"round": number, "result": how, "seconds": round(time.monotonic() - start, 1)}
        if how == "ok":
            kept.unlink()
            return run
        text = kept.read_text(errors="replace")
        cases = sorted({match[1] or match[2] for match in _CASE.finditer(text)})
        return dict(run, cases=cases, seeds=sorted(set(_SEED.findall(text)), key=int), output=str(kept))

    def _note(self, name, run, progress):
        with self.mutex:
            self.state["runs"].setdefault(name, []).append(run)
            self._save()
            if run["result"] != "ok":
                progress.line(f"FAILED: {name}, {run['result']}: {', '.join(run['cases'])}; {_shown(run['output'])}")
            progress.estimate.update(self.runs_made(), self.rounds * len(self.programs), (name, run["round"]))
            progress.show()

    def _save(self):
        fresh = self.state_file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state))
        fresh.replace(self.state_file)

    def tried(self):
        """How many programs ran in all rounds."""
        return sum(len(runs) == self.rounds for runs in self.state["runs"].values())

    def failures(self):
        """{program: its runs that failed}"""
        failed = {name: [run for run in runs if run["result"] != "ok"] for name, runs in sorted(self.state["runs"].items())}
        return {name: runs for name, runs in failed.items() if runs}

    def table(self):
        """A line for each program that failed: how often, of how many runs, how, in which cases, with which seeds; and the outputs."""
        rows = [("program", "failed", "how", "cases", "seeds")]
        for name, runs in self.failures().items():
            def all_of(key):
                return ", ".join(sorted({one for run in runs for one in run[key]}))
            rows.append((name, f"{len(runs)} of {len(self.state['runs'][name])}", ", ".join(sorted({run["result"] for run in runs})),
                         all_of("cases") or "-", all_of("seeds") or "-"))
        if len(rows) == 1:
            return ""
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = ["  ".join([*(cell.ljust(width) for cell, width in zip(row, widths)), row[4]]) for row in rows]
        return "\n".join([*lines, "output:", *(_shown(run["output"]) for runs in self.failures().values() for run in runs)])


def _shown(path):
    path = pathlib.Path(path)
    return str(path.relative_to(ROOT) if ROOT in path.parents else path)


def _kill(child):
    """With all that it has started and that has not left its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
