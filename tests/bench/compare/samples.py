"""Results as ./dev compare stores them, with figures that a test can predict; and the way to its modules."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
sys.path.insert(0, str(ROOT))


def entry(us, error=None, refusal=None):
    return {"calls": 10, "us": us, "wrong": 0, "error": error, "refusal": refusal}


def cell(contestants, **changes):
    """A cell of 2 ranks, float32, hot, whose memcpy rate is 10 GB/s and whose barrier takes 1 us."""
    one = {"ranks": 2, "op": "all_reduce", "dtype": "float32", "bytes": 4096, "buffers": "hot", "place": "in", "sets": 1,
           "copy_bytes_per_s": [10e9] * 3, "sync_us": [1.0] * 3, "contestants": contestants, "seconds": 1.0, "steal_s": 0.0}
    return dict(one, **changes)


def results(cells, errors=()):
    return {"version": 1, "rounds": 3, "place": "in", "versions": {"weft": "0.1.0", "mpich": "5.0.2"}, "errors": list(errors),
            "settings": [{"name": "mpich/default", "ranks": 2, "title": "MPICH", "environment": {"A": "1"},
                          "arguments": ["-x"], "why": "what a user gets"}],
            "machine": {"processor": "A Processor", "cores": 2, "l2_bytes": 1 << 20, "l3_bytes": 32 << 20, "memory_bytes": 1 << 34,
                        "kernel": "6.1", "load": 0.0, "commit": "abc", "date": "2026-01-02T03:04:05+00:00"},
            "cells": cells}
