"""./dev compare --nodes: ranks on several nodes, weft and its peers over TCP in one run, interleaved.

The nodes are network namespaces of this machine (lab.py). Three parts: one rank on each of two nodes, two on each, and two on each
with a cable of 1 Gbit/s, where bytes are what counts. Results: docs/formats/compare.md, "nodes.json".
"""
import argparse
import contextlib
import datetime
import json
import pathlib
import tempfile
import time

from bench.compare import cells, install, launch, machine, node_launch, node_page, targets
from bench.compare.arguments import parse_size, several
from bench.compare.contestants import Contestant, Field
from bench.compare.jobs import Job, JobFailed
from bench.compare.lab import Lab, LabFailed
from bench.compare.measure import CellRun, slowest_us
from bench.compare.peers import NODE_PEERS

VERSION = 1
NODES = 2
CABLE_MEGABITS = 1000
# Up to so many bytes a message of a peer that has no collectives goes there and back, and half of it is told; above, both ways at once.
ROUND_TRIP_BYTES = 8 << 10
_SIZES = {("all_reduce", 1): (8, 64, 1 << 10, 8 << 10, 64 << 10, 1 << 20, 8 << 20, 64 << 20),
          ("all_reduce", 2): (8, 8 << 10, 64 << 10, 1 << 20, 8 << 20)}
_OTHER_SIZES = {1: (8, 8 << 10, 1 << 20, 16 << 20), 2: (8 << 10, 1 << 20)}
_CABLE_SIZES = (4 << 20, 16 << 20)
_TRAFFIC_BYTES = 8 << 20
_TRAFFIC_CALLS = 5


def options_of(arguments):
    """The parsed command line."""
    parser = argparse.ArgumentParser(prog="./dev compare --nodes", description=__doc__)
    names = [peer.name for peer in NODE_PEERS]
    parser.add_argument("--ops", type=several(str, cells.OPERATIONS), default=list(cells.OPERATIONS), metavar="LIST")
    parser.add_argument("--sizes", type=several(parse_size), default=None, metavar="LIST", help="in place of those of the parts")
    parser.add_argument("--parts", type=several(str, ("2x1", "2x2", "cable")), default=["2x1", "2x2", "cable"], metavar="LIST",
                        help="default 2x1,2x2,cable")
    parser.add_argument("--peers", type=several(str, names), default=names, metavar="LIST", help="default all: " + ",".join(names))
    parser.add_argument("--rounds", type=int, default=9, help="default 9")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", help="default runs/compare/nodes-DATE")
    options = parser.parse_args(arguments)
    if options.rounds < 1:
        parser.error("at least 1 round")
    return options


def cells_of_part(part, ops, sizes):
    """What is measured in a part."""
    per_node = 1 if part == "2x1" else 2
    chosen = []
    for op in ops:
        if part == "cable":
            own = _CABLE_SIZES if op == "all_reduce" else ()
        else:
            own = _SIZES.get((op, per_node)) or _OTHER_SIZES[per_node]
        chosen += [cells.Cell(NODES * per_node, op, "float32", size, "hot", cells.place_of(op, "in")) for size in (sizes or own)]
    return chosen


def stand_in(cell):
    """What UCX does where others do a collective."""
    if cell.op != "all_reduce":
        return cell.op
    return "round_trip" if cell.bytes <= ROUND_TRIP_BYTES else "exchange"


class Run:
    """A whole run. One thread."""

    def __init__(self, options, say):
        self._options = options
        self._say = say
        out = options.out or install.ROOT / "runs" / "compare" / f"nodes-{datetime.datetime.now():%Y-%m-%d-%H%M%S}"
        self._out = out.resolve()
        self._results = {"version": VERSION, "machine": machine.describe(install.ROOT), "rounds": options.rounds, "versions": {},
                         "errors": [], "cells": [], "traffic": []}

    def run(self):
        """Returns the exit code."""
        began = time.monotonic()
        peers = launch.prepare([peer for peer in NODE_PEERS if peer.name in self._options.peers], self._report)
        self._out.mkdir(parents=True, exist_ok=True)
        # Sockets of the peers lie here; their paths must be short.
        with tempfile.TemporaryDirectory(prefix="weft-compare-") as folder:
            for part in self._options.parts:
                with Lab(NODES, CABLE_MEGABITS if part == "cable" else None, pathlib.Path(folder) / part) as lab:
                    self._measure_part(part, lab, peers, pathlib.Path(folder) / part)
        self._results["seconds"] = round(time.monotonic() - began)
        self._results["targets"] = node_page.judged(self._results)
        self._save()
        (self._out / "nodes.md").write_text(node_page.render(self._results))
        for target in self._results["targets"]:
            self._say(targets.said(target))
        self._say(f"wrote {self._out}")
        return 0

    def _contestants(self, lab, per_node, peers, folder):
        """weft first. UCX's driver knows two ranks."""
        ranks = lab.nodes * per_node
        weft = node_launch.weft_command(lab, per_node, "tcp")
        found = [Contestant("weft/private", Job("weft", *weft, ranks, folder / "weft"))]
        if any(peer.name == "ucx" for peer in peers):
            over_ucx = node_launch.weft_command(lab, per_node, "ucx")
            found.append(Contestant(f"{node_page.OVER_UCX}/private", Job(node_page.OVER_UCX, *over_ucx, ranks, folder / node_page.OVER_UCX)))
        for peer in peers:
            if peer.name == "ucx" and ranks != 2:
                continue
            for setting in peer.settings:
                name = f"{peer.name}/{setting.name}"
                job = Job(name, *node_launch.peer_command(peer.name, setting, lab, per_node), ranks, folder / name.replace("/", "-"))
                found.append(Contestant(name, job, stand_in=stand_in if peer.name == "ucx" else None))
        return found

    def _measure_part(self, part, lab, peers, folder):
        per_node = 1 if part == "2x1" else 2
        field = Field(self._contestants(lab, per_node, peers, folder), machine.core_count(), self._report)
        chosen = cells_of_part(part, self._options.ops, self._options.sizes)
        with contextlib.ExitStack() as ending:
            ending.callback(field.end)
            field.start(self._say)
            for contestant in field.running():
                self._results["versions"].setdefault(contestant.name.partition("/")[0], contestant.job.version)
            for number, cell in enumerate(chosen, 1):
                before = machine.steal_s()
                result = CellRun(cell, field, self._options.rounds, 0, keep=True, may_sit_out=False).run()
                result.update(part=part, steal_s=round(machine.steal_s() - before, 2))
                self._results["cells"].append(result)
                self._save()
                self._say(f"[{part} {number}/{len(chosen)}] {cell.label}: {node_page.one_line(result)}")
            if part != "cable":
                self._measure_traffic(part, lab, field, per_node)

    def _measure_traffic(self, part, lab, field, per_node):
        """What crosses the cables in a few calls of weft's, beside what theory has."""
        line = (f"op=all_reduce dtype=float32 bytes={_TRAFFIC_BYTES} place=in memory=private sets=1 warmup=0 "
                f"calls={_TRAFFIC_CALLS} check=0 keep=1")
        field.weft.ask(line, 60)
        before = [lab.sent_bytes(node) for node in range(lab.nodes)]
        answers = field.weft.ask(line, 60)
        sent = [lab.sent_bytes(node) - was for node, was in zip(range(lab.nodes), before)]
        theory = 2 * (lab.nodes - 1) * _TRAFFIC_BYTES // lab.nodes * _TRAFFIC_CALLS
        self._results["traffic"].append({"part": part, "ranks": lab.nodes * per_node, "bytes": _TRAFFIC_BYTES, "calls": _TRAFFIC_CALLS,
                                         "sent_bytes": sent, "theory_bytes": theory, "us": slowest_us(answers, _TRAFFIC_CALLS)})
        self._say(f"[{part}] sent {max(sent)} bytes per node, theory {theory}: {max(sent) / theory:.4f}")

    def _report(self, name, sentence):
        self._results["errors"].append({"name": name, "error": sentence})
        self._say(f"{name}: {sentence}")

    def _save(self):
        path = self._out / "nodes.json"
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(self._results) + "\n")
        draft.replace(path)


def main(arguments, say):
    try:
        return Run(options_of(arguments), say).run()
    except (JobFailed, LabFailed, install.InstallFailed) as error:
        say(str(error))
        return 1
