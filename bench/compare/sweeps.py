"""What one weft_perf process measures for --ab: one operation at several sizes that make calls of similar length.

    for sweep in sweeps_of(ranks=[2], ops=["all_reduce"], dtypes=["float32"], buffers=["hot"], memories=["private"], sizes=SIZES):
        microseconds = measure(sweep, build, environment, calls=100, folder=folder)      # {cell: time}

A process starts in 20 ms, so small sizes, which take thousands of calls, and large ones, which take few, have processes of
their own.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from bench.compare import cells

# All that weft_perf measures, by its names.
OPERATIONS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "alltoall", "alltoallv", "gather", "scatter",
              "sendrecv", "hypercube", "barrier")
ONE_PLACE = ("alltoallv", "sendrecv", "barrier")  # the right half of weft_perf's table repeats the left
SIZES = tuple(8 ** power for power in range(1, 9))
MEMORIES = ("private", "symmetric")
_CLASS_LIMITS = (4 << 10, 256 << 10)  # the largest sizes of the first two classes; the third has no limit
_DTYPE_NAMES = {"float32": "float", "bfloat16": "bfloat16"}
_OPERATION_TIMEOUT_S = 60
_TIMEOUT_S = 180


class SweepFailed(Exception):
    """weft_perf failed; the text says which build, what was measured, and its last words."""


@dataclasses.dataclass(frozen=True)
class AbCell(cells.Cell):
    """A cell that says which memory its buffers are in."""

    memory: str

    @property
    def label(self):
        return f"{super().label}, {self.memory}"


@dataclasses.dataclass(frozen=True)
class Sweep:
    """What a process measures; `sizes` are a geometric series."""

    ranks: int
    op: str
    dtype: str
    buffers: str
    memory: str
    sizes: tuple

    @property
    def label(self):
        span = "" if self.op == "barrier" else " " + " to ".join(map(cells.size_text, sorted({self.sizes[0], self.sizes[-1]})))
        return f"{self.op}{span} {self.dtype} {self.buffers}, {self.ranks} ranks, {self.memory}"

    def cells(self, size):
        """{place: cell} of one size."""
        places = {"out_of_place": "out"} if self.op in ONE_PLACE else {"out_of_place": "out", "in_place": "in"}
        return {key: AbCell(self.ranks, self.op, self.dtype, size, self.buffers, place, self.memory)
                for key, place in places.items()}


def class_of(size):
    """0, 1 or 2: sizes of a class share a process and its number of calls."""
    return sum(size > limit for limit in _CLASS_LIMITS)


def series_of(sizes):
    """The sizes of each process: those of one class, cut into geometric series with a whole ratio."""
    parts = []
    for size in sorted(set(sizes)):
        last = parts[-1] if parts and class_of(parts[-1][0]) == class_of(size) else None
        if last and size % last[-1] == 0 and (len(last) == 1 or size * last[0] == last[1] * last[-1]):
            last.append(size)
        else:
            parts.append([size])
    return [tuple(series) for series in parts]


def sweeps_of(ranks, ops, dtypes, buffers, memories, sizes):
    """All sweeps, in the order in which a round measures them."""
    return [Sweep(count, op, dtype, kind, memory, series)
            for count in ranks for memory in memories for dtype in dtypes for kind in buffers for op in ops
            for series in ([(0,)] if op == "barrier" else series_of([size for size in sizes if size >= cells.DTYPES[dtype]]))]


def command(sweep, build, calls, output):
    """weft_perf's command line. Results are not compared: tests and --repro do that."""
    first, last = sweep.sizes[0], sweep.sizes[-1]
    ratio = sweep.sizes[1] // first if len(sweep.sizes) > 1 else 2
    warmup = max(2, min(calls // 10, 200))
    return [str(build.program), sweep.op, "--nprocs", str(sweep.ranks), "-b", str(first), "-e", str(last), "-f", str(ratio),
            "-d", _DTYPE_NAMES[sweep.dtype], "-n", str(calls), "-w", str(warmup), "-c", "0", "-a", "3",
            "-T", str(_OPERATION_TIMEOUT_S), "-J", str(output), *(["--hot"] if sweep.buffers == "hot" else []),
            *(["--symmetric"] if sweep.memory == "symmetric" else [])]


def times_of(sweep, text):
    """{cell: microseconds} from weft_perf's JSON. A size that leaves no whole chunk to a rank moves nothing and is no cell."""
    rows = json.loads(text)["results"]
    if not rows and sweep.op == "hypercube":
        return {}  # the number of ranks is no power of two
    if len(rows) != len(sweep.sizes):
        raise ValueError(f"{len(rows)} sizes instead of {len(sweep.sizes)}; is memory short?")
    return {cell: row[place]["time"] for row, size in zip(rows, sweep.sizes) if row["size"] or sweep.op == "barrier"
            for place, cell in sweep.cells(size).items()}


def measure(sweep, build, environment, calls, folder):
    """{cell: microseconds per call of the slowest rank}. Raises SweepFailed."""
    with tempfile.TemporaryDirectory(dir=folder) as here:
        output = pathlib.Path(here, "table.json")
        try:
            code, text = _run(command(sweep, build, calls, output), build.environment(environment))
            if code == 0:
                return times_of(sweep, output.read_text())
        except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
            raise SweepFailed(f"{build.name}: {sweep.label}: {error}") from None
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    raise SweepFailed(f"{build.name}: {sweep.label}: exit code {code}: " + (" | ".join(lines[-3:])[-500:] or "it wrote nothing"))


def _run(words, environment):
    """(exit code, output). The process and its ranks do not outlive this one."""
    guarded = (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + words
    process = subprocess.Popen(guarded, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    try:
        text, _ = process.communicate(timeout=_TIMEOUT_S)
        return process.returncode, text
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
