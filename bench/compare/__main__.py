"""./dev compare: installs and builds the peers, measures them interleaved with weft, writes JSON, Markdown and plots."""
import argparse
import datetime
import json
import pathlib
import signal
import sys
import tempfile
import time

from bench.compare import ab, alone, cells, findings, install, launch, machine, nodes, python_calls, report, targets, torch_calls, training
from bench.compare.arguments import parse_size, several
from bench.compare.contestants import Field, on_one_machine
from bench.compare.jobs import JobFailed
from bench.compare.measure import CellRun
from bench.compare.peers import PEERS

VERSION = 2


def options_of(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="./dev compare", description=__doc__,
                                     epilog="Two builds of weft in turns: ./dev compare --ab BEFORE AFTER. Ranks on several nodes: "
                                            "./dev compare --nodes. From Python: ./dev compare --python. torch.distributed: ./dev compare --torch. The trainer: ./dev compare --trainer. Each has a --help of its own.")
    names = [peer.name for peer in PEERS]
    parser.add_argument("--quick", action="store_true", help="2 ranks, float32, hot buffers, 3 rounds")
    parser.add_argument("--ops", type=several(str, cells.OPERATIONS), default=list(cells.OPERATIONS), metavar="LIST")
    parser.add_argument("--ranks", type=several(int), default=None, metavar="LIST", help="default 2,4,8")
    parser.add_argument("--dtypes", type=several(str, cells.DTYPES), default=None, metavar="LIST",
                        help="default float32,bfloat16")
    parser.add_argument("--sizes", type=several(parse_size), default=list(cells.SIZES), metavar="LIST",
                        help="default 8 to 16M by eights, and 64M")
    parser.add_argument("--buffers", type=several(str, cells.BUFFERS), default=None, metavar="LIST",
                        help="default hot,rotated")
    parser.add_argument("--place", choices=("in", "out"), default="in", help="all_reduce and all_gather; default in")
    parser.add_argument("--peers", type=several(str, names), default=names, metavar="LIST", help="default all: " + ",".join(names))
    parser.add_argument("--no-symmetric", action="store_true", help="leave out weft on memory from weft_mem_alloc")
    parser.add_argument("--alone", action="store_true", help="only what needs no peer: types, asynchronous, idle, tails")
    parser.add_argument("--rounds", type=int, default=None, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/DATE")
    options = parser.parse_args(arguments)
    quick = {"ranks": [2], "dtypes": ["float32"], "buffers": ["hot"], "rounds": 3}
    full = {"ranks": [2, 4, 8], "dtypes": list(cells.DTYPES), "buffers": list(cells.BUFFERS), "rounds": 9}
    for name, value in (quick if options.quick else full).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    if options.rounds < 1 or min(options.ranks) < 2:
        parser.error("at least 1 round and 2 ranks")
    return options


class Run:
    """A whole run, from the installation to the reports. One thread."""

    def __init__(self, options):
        self._options = options
        self._started = time.monotonic()
        out = options.out or install.ROOT / "runs" / "compare" / f"{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
        self._out = out.resolve()
        self._results = {"version": VERSION, "machine": machine.describe(install.ROOT), "rounds": options.rounds,
                         "place": options.place, "versions": {}, "settings": [], "errors": [], "cells": []}

    def run(self):
        """Returns the exit code: 0 when everything that takes part was measured."""
        wanted = [] if self._options.alone else [peer for peer in PEERS if peer.name in self._options.peers]
        peers = launch.prepare(wanted, self._report) if wanted else []
        self._out.mkdir(parents=True, exist_ok=True)
        # Sockets of the peers lie here; their paths must be short.
        with tempfile.TemporaryDirectory(prefix="weft-compare-") as folder:
            if not self._options.alone:
                self._measure_cells(peers, pathlib.Path(folder))
            if self._options.alone or not self._options.quick:
                self._results["alone"] = alone.Alone(self._options.rounds, pathlib.Path(folder), say, self._report).run()
        self._results["seconds"] = round(time.monotonic() - self._started)
        found = [findings.judge(result) for result in self._results["cells"]]
        self._results["targets"] = targets.judged(found, self._results.get("alone"), self._options.rounds)
        self._save()
        for target in self._results["targets"]:
            if target["verdict"] != "not measured":
                say(targets.said(target))
        report.write(self._out / "compare.json", say)
        say(f"wrote {self._out}")
        return 0

    def _measure_cells(self, peers, folder):
        """Everything that is measured against peers."""
        everything = cells.cells_of(self._options.ranks, self._options.dtypes, self._options.buffers, self._options.ops,
                                    self._options.sizes, self._options.place)
        components = "".join(launch.components_of(peer) for peer in peers)
        done = 0
        for ranks in self._options.ranks:
            cores = machine.core_count()
            field = Field(on_one_machine(ranks, cores, peers, components, folder, not self._options.no_symmetric), cores,
                          self._report)
            try:
                field.start(say)
                self._note(field, peers, ranks)
                for cell in (cell for cell in everything if cell.ranks == ranks):
                    done += 1
                    self._measure(cell, field, done, len(everything))
            finally:
                field.end()

    def _note(self, field, peers, ranks):
        """What runs, for the results."""
        titles = {peer.name: peer for peer in peers}
        for contestant in field.running():
            name, _, setting_name = contestant.name.partition("/")
            self._results["versions"].setdefault(name, contestant.job.version)
            setting = next((one for one in titles[name].settings if one.name == setting_name), None) if name in titles else None
            self._results["settings"].append({
                "name": contestant.name, "ranks": ranks, "title": titles[name].title if name in titles else "weft",
                "environment": setting.environment if setting else {}, "arguments": list(setting.arguments) if setting else [],
                "why": setting.why if setting else f"{setting_name} buffers"})

    def _measure(self, cell, field, number, total):
        l3 = machine.cache_bytes(3)
        needed = cells.set_bytes(cell) * cells.set_count(cell, l3) * cell.ranks * (len(field.running()) + 2)
        before = machine.steal_s()
        began = time.monotonic()
        result = CellRun(cell, field, self._options.rounds, l3, keep=needed < machine.available_bytes() * 0.4).run()
        result["seconds"] = round(time.monotonic() - began, 2)
        result["steal_s"] = round(machine.steal_s() - before, 2)
        self._results["cells"].append(result)
        self._save()
        elapsed = sum(one["seconds"] for one in self._results["cells"])
        left = elapsed / number * (total - number)
        say(f"[{number}/{total}, {left / 60:.0f} min left] {cell.label}: {report.one_line(result)}")

    def _report(self, name, sentence):
        self._results["errors"].append({"name": name, "error": sentence})
        say(f"{name}: {sentence}")

    def _save(self):
        """After every cell, so that a run that is cut off has something to show."""
        path = self._out / "compare.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(self._results) + "\n")
        draft.replace(path)


def say(text):
    """Shows a line of progress."""
    print(f"compare: {text}", file=sys.stderr, flush=True)


def main(arguments):
    # Jobs are ended on the way out, whoever asks for it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if "--ab" in arguments:
        return ab.main([word for word in arguments if word != "--ab"], say)
    try:
        if "--python" in arguments:
            return python_calls.main([word for word in arguments if word != "--python"], say)
        if "--torch" in arguments:
            return torch_calls.main([word for word in arguments if word != "--torch"], say)
        if "--trainer" in arguments:
            return training.main([word for word in arguments if word != "--trainer"], say)
        if "--nodes" in arguments:
            return nodes.main([word for word in arguments if word != "--nodes"], say)
        return Run(options_of(arguments)).run()
    except (install.InstallFailed, JobFailed) as error:
        print(f"compare: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
