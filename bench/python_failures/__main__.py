"""Ctrl-C and killed ranks from Python: how soon a call that waits raises, and how soon the other ranks know whom to blame.

    python3 -B bench/python_failures [--build build/release] [--modules core,torch] [--rounds 30] [--kill] [--only WORDS] [--json FILE]

Three ranks. In each attempt ranks 0 and 1 wait in a call that rank 2 does not make.

- Interrupts: rank 0 gets SIGINT. "interrupt" is the time to its KeyboardInterrupt, "peer" the time to rank 1's exception, "late" that of rank 2, which
  makes the call afterwards. An interrupted wait for a work leaves the work alone: there the others come, and all must end well.
- --kill: rank 2 gets SIGKILL. "peer" is the time until both others have their exceptions.

"named" counts the exceptions of others that name the rank to blame. Packages (numpy, torch) are looked for in build/python and build/torch.
"""
import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from queue import Empty, SimpleQueue

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SIZE, ABSENT = 3, 2
INTERRUPT_S, PEER_S = 0.2, 1.0  # what is promised
_START_S, _ANSWER_S = 300, 20


class Silent(Exception):
    """A rank did not answer."""


class Rank:
    """One rank's process, and what it says."""

    def __init__(self, rank, folder, module, environment):
        self.rank = rank
        self._process = subprocess.Popen([sys.executable, "-B", HERE / "rank.py", str(rank), str(SIZE), folder, module], env=environment,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        self._said = SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()
        self.pid = None  # of the one that does the work

    def _listen(self):
        for line in self._process.stdout:
            if line.startswith(b"{"):
                self._said.put(json.loads(line))

    def tell(self, **command):
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self, seconds=_ANSWER_S):
        try:
            return self._said.get(timeout=seconds)
        except Empty:
            raise Silent(f"rank {self.rank} did not answer within {seconds} s") from None

    def said(self):
        """What it has said already, or None."""
        return None if self._said.empty() else self._said.get()

    def end(self):
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Ranks:
    """All ranks of one module of cases."""

    def __init__(self, module, environment, folder):
        self._module, self._environment, self._folder = f"{module}_cases", environment, folder
        self._attempts = 0
        self._start()

    def _start(self):
        self._all = [Rank(rank, self._folder, self._module, self._environment) for rank in range(SIZE)]

    def end(self):
        for rank in self._all:
            rank.end()

    def attempt(self, case, flags, kill):
        """{what: seconds, or a sentence if it went wrong}. After silence the ranks are new ones."""
        try:
            return self._attempt(case, flags, kill)
        except Silent as silence:
            self.end()
            self._start()
            return {"wrong": str(silence)}

    def _attempt(self, case, flags, kill):
        self._attempts += 1
        victim, second, absent = self._all[flags["victim"]], self._all[1 - flags["victim"]], self._all[ABSENT]
        self._all[0].tell(do="id", module=self._module)
        command = {"do": "attempt", "module": self._module, "case": case, "number": self._attempts, "port": free_port(), **self._all[0].answer(_START_S)}
        for rank in self._all:
            rank.tell(**command)
        for rank in self._all:
            rank.pid = rank.answer(_START_S)["ready"]
        time.sleep(random.uniform(0.2, 0.4))
        if early := victim.said():
            raise Silent(f"rank {victim.rank} did not wait: {early['outcome']} {early['text']}")
        begin = time.monotonic()
        if kill:
            os.kill(absent.pid, signal.SIGKILL)
            ended = [rank.answer() for rank in (victim, second)]
            result = {"peer": max(one["time"] for one in ended) - begin, "said": [one["text"] for one in ended],
                      "named": sum("rank 2" in one["text"] for one in ended), "asked": 2}
            self._leave(victim, second)
            return result
        os.kill(victim.pid, signal.SIGINT)
        mine = victim.answer()
        result = {"interrupt": mine["time"] - begin}
        if mine["outcome"] != "KeyboardInterrupt":
            result["wrong"] = f"rank {victim.rank}: {mine['outcome']} {mine['text']}"
        others = []
        if flags["told"]:
            others.append(second.answer())
            result["peer"] = others[-1]["time"] - begin
            if flags["late"]:
                begin = time.monotonic()
                absent.tell(call=True)
                others.append(absent.answer())
                result["late"] = others[-1]["time"] - begin
            result |= {"said": [one["text"] for one in others], "named": sum(f"rank {victim.rank}" in one["text"] for one in others), "asked": len(others)}
            if any(one["outcome"] == "returned" for one in others):
                result["wrong"] = "another rank's call returned"
        else:
            victim.tell(call=True)
            absent.tell(call=True)
            for rank in self._all:
                one = rank.answer()
                if one["outcome"] != "returned":
                    result["wrong"] = f"rank {rank.rank} after the interrupt: {one['outcome']} {one['text']}"
        self._leave(*self._all)
        return result

    def _leave(self, *ranks):
        for rank in ranks:
            rank.tell(call=False)
        for rank in ranks:
            rank.answer()


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def span(values):
    """Median and maximum in milliseconds."""
    return f"{statistics.median(values) * 1e3:.0f} ({max(values) * 1e3:.0f})" if values else "-"


def row_of(name, results, kill):
    def column(what):
        return [result[what] for result in results if what in result]

    wrong = column("wrong")
    row = {"case": name, "kill": kill, "attempts": len(results), **{what: column(what) for what in ("interrupt", "peer", "late")},
           "named": sum(column("named")), "asked": sum(column("asked")), "wrong": wrong, "said": next(iter(column("said")), [])}
    row["missed"] = bool(wrong) or max(row["interrupt"], default=0) > INTERRUPT_S or max(row["peer"] + row["late"], default=0) > PEER_S or row["named"] < row["asked"]
    return row


def line_of(row):
    named = f"{row['named']} of {row['asked']}" if row["asked"] else "-"
    cells = [row["case"], span(row["interrupt"]), span(row["peer"]), span(row["late"]), named]
    return "| " + " | ".join(cells) + " |" + (" missed" if row["missed"] else "") + (f" ({row['wrong'][0]})" if row["wrong"] else "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--packages", type=pathlib.Path, default=ROOT / "build", help="the folder of python/ and torch/; default build")
    parser.add_argument("--modules", default="core,torch")
    parser.add_argument("--rounds", type=int, default=30, help="default 30")
    parser.add_argument("--kill", action="store_true", help="SIGKILL for rank 2 in place of SIGINT for rank 0")
    parser.add_argument("--only", default="", help="cases whose names contain this")
    parser.add_argument("--json", type=pathlib.Path, help="writes all numbers there")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the ranks end, too
    rows = []
    for module in options.modules.split(","):
        packages = options.packages.resolve() / {"core": "python", "torch": "torch"}[module]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("WEFT_", "RANK", "WORLD_SIZE", "LOCAL_", "MASTER_"))}
        environment |= {"PYTHONPATH": f"{ROOT / 'bindings' / 'python' / 'src'}:{packages}", "WEFT_LIBRARY_PATH": str(options.build.resolve() / "lib"),
                        "WEFT_TUNE": "static", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        listed = subprocess.run([sys.executable, "-B", "-c", f"import sys; sys.path.insert(0, {str(HERE)!r}); import json, {module}_cases as m\n"
                                 "print(json.dumps({name: [case.told, case.late, case.victim] for name, case in m.CASES.items() "
                                 f"if {'case.mortal' if options.kill else 'case.interruptible'}}}))"], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        cases = {name: dict(zip(("told", "late", "victim"), flags)) for name, flags in json.loads(listed.stdout).items() if options.only in name}
        print(f"\n{module}, {'SIGKILL' if options.kill else 'SIGINT'}, {options.rounds} rounds; milliseconds: median (maximum)\n", flush=True)
        print("| call | interrupt | peer | late | named |\n|---|---|---|---|---|", flush=True)
        with tempfile.TemporaryDirectory(prefix="weft-failures-") as folder:
            ranks = Ranks(module, environment, folder)
            try:
                for name, flags in cases.items():
                    results = []
                    for _ in range(options.rounds):
                        results.append(ranks.attempt(name, flags, options.kill))
                        if sum("wrong" in result for result in results) >= 3:
                            break
                    rows.append(row_of(name, results, options.kill))
                    print(line_of(rows[-1]), flush=True)
            finally:
                ranks.end()
    if options.json:
        options.json.write_text(json.dumps({"version": 1, "rounds": options.rounds, "rows": rows}) + "\n")
    return any(row["missed"] for row in rows)


if __name__ == "__main__":
    sys.exit(main())
