"""./dev compare --torch: which figures each target looks at, and its page."""
import unittest

import samples  # noqa: F401  (finds the tree)
from bench.compare import torch_calls, torch_memory

_ROUNDS = 9
_MIB = 1 << 20


def cell(op, size, weft, gloo):
    return {"op": op, "bytes": size, "us": {"weft": [weft] * _ROUNDS, **({"gloo": [gloo] * _ROUNDS} if gloo else {})}}


def step(kind, **milliseconds):
    names = ("silent", "gloo", "weft", "weft+", "managed")
    return {"kind": kind, "parameters": 5_000_000, "tokens": 32, "ms": {name: [milliseconds[name.replace("+", "_")]] * _ROUNDS for name in names},
            "losses": {name: [3.0, 2.0] for name in names if name != "silent"}}


def memory(**mebibytes):
    """Peaks of two ranks; of fully_shard with (weft's, plan)."""
    found = {}
    for name, (peaks, ours, plan) in mebibytes.items():
        found[name.replace("_", "+")] = {"peak": [one * _MIB for one in peaks], "rest": [one * _MIB for one in peaks], "ours": [ours * _MIB] * 2,
                                         "plan": [plan and plan * _MIB] * 2}
    return found


def results(cells=(), steps=(), measured=None):
    return {"rounds": _ROUNDS, "ranks": 2, "versions": {"torch": "2.0"}, "cells": list(cells), "steps": list(steps), "memory": measured or {},
            "machine": {"date": "2026-01-02", "processor": "one", "cores": 2, "load": 0.1, "commit": "abc"}}


def verdicts(found):
    return {target["target"]: (target["verdict"], target["figure"] and round(target["figure"], 3)) for target in found}


class Targets(unittest.TestCase):
    def test_operations(self):
        found = verdicts(torch_calls.judged(results([cell("all_reduce", 8, 10, 300), cell("all_reduce", 64 << 20, 10, 40), cell("future", 256 << 10, 160, None)])))
        self.assertEqual(("pass", 30.0), found["all_reduce 8: Gloo's time / weft's at least 20"])
        self.assertEqual(("fail", 4.0), found["all_reduce 64 Mi: Gloo's time / weft's at least 4.5"])
        self.assertEqual(("not measured", None), found["all_gather 64 Mi: Gloo's time / weft's at least 10"])
        self.assertEqual(("fail", 160), found["future of an all_reduce of 256 KiB that nobody waits for: at most 150 us"])

    def test_steps(self):
        found = verdicts(torch_calls.judged(results(steps=[step("fsdp", silent=100, gloo=200, weft=115, weft_=125, managed=120)])))
        self.assertEqual(("pass", 0.15), found["FSDP2: communication at most 20% of Gloo's"])
        self.assertEqual(("fail", 0.25), found["FSDP2 with fsdp.install: communication at most 20% of Gloo's"])
        self.assertEqual(("pass", 0.6), found["weft.torch.fully_shard, full_shard: step at most 0.7 times that of Gloo"])
        self.assertEqual(("fail", 1.043), found["weft.torch.fully_shard, full_shard: step at most 1.0 times that of FSDP2"])

    def test_memory(self):
        found = verdicts(torch_memory.judged(memory(weft=((100, 102), 0, None), managed=((90, 91), 101, 100), managed_=((110, 95), 40, 50))))
        self.assertEqual(["pass", "pass", "fail", "fail"], [verdict for verdict, _ in found.values()])
        self.assertEqual([0.896, 1.01, 1.015, 0.8], [figure for _, figure in found.values()])
        self.assertEqual({("not measured", None)}, set(verdicts(torch_memory.judged({})).values()))


class Page(unittest.TestCase):
    def test_all_of_it(self):
        chosen = results([cell("all_reduce", 8, 10, 300)], [step("fsdp", silent=100, gloo=200, weft=115, weft_=125, managed=120)],
                         memory(weft=((100, 102), 0, None), managed=((90, 91), 51, 50)))
        chosen["targets"] = torch_calls.judged(chosen)
        text = torch_calls.render(chosen)
        for line in ("| all_reduce | 8 | 10.0 (10.0-10.0) | 300 (300-300) | 30.00 [30.00, 30.00] |", "| FSDP2 over weft | 100, 102 | 100, 102 |  |  |",
                     "| weft.torch.fully_shard, torch's AdamW | 90, 91 | 90, 91 | 51, 51 | 50, 50 |"):
            self.assertIn(line, text)

    def test_without_a_model(self):
        chosen = results([cell("all_reduce", 8, 10, 300)])
        chosen["targets"] = []
        self.assertNotIn("Memory", torch_calls.render(chosen))


if __name__ == "__main__":
    unittest.main()
