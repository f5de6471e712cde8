"""One cell: calibrate everybody, then rounds in which everybody has one turn, and memory and the barrier one each."""
import time

from bench.compare import cells
from bench.compare.intervals import median
from bench.compare.jobs import JobFailed

TURN_S = 0.010          # what a turn should take
SMALL_CALLS = 200       # at least as many calls, unless that takes longer than the next line
SMALL_CALLS_S = 0.100
LEAST_CALLS = 3
MOST_CALLS = 20000
HOPELESS_CALL_S = 0.050  # who takes that long for a call, and HOPELESS_TIMES the quickest, makes one call per turn
HOPELESS_TIMES = 10
# Who is that much slower than the quickest peer after so many rounds, and takes that long for a turn, sits the rest out.
SITS_OUT_TIMES = 1.5
SITS_OUT_ROUNDS = 3
SITS_OUT_TURN_S = 0.2
CELL_TIMEOUT_S = 60
_CHECKED_BYTES = 2 << 20  # results up to this size are compared in every round, larger ones before and after
_SIDE_S = 0.004         # a turn of memcpy or of the barrier
_MOST_SIDE_CALLS = 200000


def call_count(seconds_per_call):
    """How many calls make a turn."""
    wanted = TURN_S / max(seconds_per_call, 1e-9)
    if seconds_per_call * SMALL_CALLS <= SMALL_CALLS_S:
        wanted = max(wanted, SMALL_CALLS)
    return round(min(max(wanted, LEAST_CALLS), MOST_CALLS))


def without_hope(seconds, quickest):
    """Whether a contestant's turns are cut to one call: it would take most of the run and be the best of no cell."""
    return seconds > HOPELESS_CALL_S and seconds > HOPELESS_TIMES * quickest


def command(cell, memory, sets, calls, warmup, check, keep, op=None):
    """The line that the drivers understand. op: in place of the cell's."""
    return (f"op={op or cell.op} dtype={cell.dtype} bytes={cell.bytes} place={cell.place} memory={memory} sets={sets} "
            f"calls={calls} warmup={warmup} check={int(check)} keep={int(keep)}")


def slowest_us(answers, calls):
    """Time per call: the greatest of the ranks' means."""
    return max(answer["end_s"] - answer["begin_s"] for answer in answers) / calls * 1e6


def copy_rate(answers, bytes_per_rank, cores):
    """Bytes per second of memcpy by all ranks at once: what a rank copies in a second of CPU time, times the ranks that run at
    a time. By the clock, ranks that share cores would seem as slow as the last one's beginning was late."""
    each = [bytes_per_rank / max(answer["cpu_s"], 1e-9) for answer in answers]
    return sum(each) / len(each) * min(len(each), cores)


def sitting_out(samples, turn_s):
    """Names of contestants that cannot be the best any more and are expensive.

    samples: {name: microseconds of its rounds}; turn_s: {name: wall time of its last turn, buffers and all}.
    """
    medians = {name: median(times) for name, times in samples.items() if len(times) >= SITS_OUT_ROUNDS}
    peers = [value for name, value in medians.items() if not name.startswith("weft/")]
    return {name for name, value in medians.items() if not name.startswith("weft/")
            and value > SITS_OUT_TIMES * min(peers) and turn_s[name] > SITS_OUT_TURN_S}


class CellRun:
    """The measurement of one cell. One thread; the field's jobs are its own while run() runs."""

    def __init__(self, cell, field, rounds, l3_bytes, keep, may_sit_out=True):
        """may_sit_out: contestants that cannot be the best any more need not take all their turns."""
        self._cell = cell
        self._field = field
        self._rounds = rounds
        self._sets = cells.set_count(cell, l3_bytes)
        self._keep = keep
        self._may_sit_out = may_sit_out
        self._entries = {}
        self._seconds = {}  # of a call, when calibrated
        self._turn_s = {}   # of the last turn
        self._copy_bytes_per_s = []
        self._heap_copy_bytes_per_s = []
        self._sync_us = []

    def run(self):
        """Returns the cell as it stands in the results."""
        taking_part = self._field.running()
        for contestant in taking_part:
            self._entries[contestant.name] = {"calls": 0, "us": [], "wrong": 0, "error": None, "refusal": None}
            self._guarded(contestant, self._calibrate)
        for name, seconds in self._seconds.items():
            if self._may_sit_out and without_hope(seconds, min(self._seconds.values())):
                self._entries[name]["calls"] = 1
        side_calls = self._calibrate_sides()
        for turn in range(self._rounds):
            self._measure_sides(side_calls)
            first = turn % max(len(taking_part), 1)
            out = (sitting_out({name: entry["us"] for name, entry in self._entries.items()}, self._turn_s)
                   if self._may_sit_out else ())
            for contestant in taking_part[first:] + taking_part[:first]:
                if self._goes_on(contestant) and contestant.name not in out:
                    self._guarded(contestant, self._measure)
        for contestant in taking_part:
            if self._goes_on(contestant):
                self._guarded(contestant, self._check)
        return {"ranks": self._cell.ranks, "op": self._cell.op, "dtype": self._cell.dtype, "bytes": self._cell.bytes,
                "buffers": self._cell.buffers, "place": self._cell.place, "sets": self._sets,
                "copy_bytes_per_s": self._copy_bytes_per_s, "heap_copy_bytes_per_s": self._heap_copy_bytes_per_s,
                "sync_us": self._sync_us, "contestants": self._entries}

    def _goes_on(self, contestant):
        entry = self._entries[contestant.name]
        return entry["error"] is None and entry["refusal"] is None

    def _guarded(self, contestant, action, *arguments):
        """A failure is the contestant's, not the run's; what a job did before it failed stays in the results."""
        try:
            action(contestant, *arguments)
        except JobFailed as error:
            self._entries[contestant.name]["error"] = str(error)
            self._field.failed(contestant, f"{self._cell.label}: {error}")
            for other in self._field.running():
                if other.job is contestant.job and other is not contestant:
                    self._entries.setdefault(other.name, {"calls": 0, "us": [], "wrong": 0, "refusal": None})
                    self._entries[other.name]["error"] = f"its job ended with {contestant.name}"

    def _ask(self, contestant, calls, warmup, check):
        line = command(self._cell, contestant.memory, self._sets, calls, warmup, check, self._keep, contestant.op_of(self._cell))
        answers = contestant.job.ask(line, CELL_TIMEOUT_S)
        entry = self._entries[contestant.name]
        refusal = next((answer["refusal"] for answer in answers if "refusal" in answer), None)
        if refusal:
            entry["refusal"] = refusal
            return None
        entry["wrong"] += sum(answer.get("wrong", 0) for answer in answers)
        if entry["wrong"]:
            entry["error"] = f"{entry['wrong']} values are wrong"
            self._field.wrong(contestant, f"{self._cell.label}: {entry['error']}")
        return answers

    def _calibrate(self, contestant):
        """One call, checked; then enough of them to know what one takes."""
        answers = self._ask(contestant, 1, 1, True)
        if answers is None:
            return
        seconds = slowest_us(answers, 1) / 1e6
        calls = int(min(max(0.002 / max(seconds, 1e-9), 1), SMALL_CALLS))
        if calls > 1:
            # Some libraries change their ways after a number of calls.
            answers = self._ask(contestant, calls, 10, False)
            seconds = slowest_us(answers, calls) / 1e6
        self._entries[contestant.name]["calls"] = call_count(seconds)
        self._seconds[contestant.name] = seconds

    def _measure(self, contestant):
        """One turn. Small hot results are compared each time; filling rotated buffers would warm them."""
        began = time.monotonic()
        calls = self._entries[contestant.name]["calls"]
        check = self._cell.buffers == "hot" and max(cells.in_and_out_bytes(self._cell)) <= _CHECKED_BYTES
        answers = self._ask(contestant, calls, max(0 if calls == 1 else 1, min(calls // 10, 50)), check)
        if answers is not None:
            self._entries[contestant.name]["us"].append(round(slowest_us(answers, calls), 4))
        self._turn_s[contestant.name] = time.monotonic() - began

    def _check(self, contestant):
        """After the last round: the same calls once more, not timed but compared."""
        self._ask(contestant, min(self._entries[contestant.name]["calls"], 2 * self._sets + 1), 0, True)

    def _side_bytes(self):
        """What is asked of weft's job beside the contestants: {operation and memory: bytes}."""
        sides = {("copy", "private"): max(cells.in_and_out_bytes(self._cell)) // 4 * 4, ("barrier", "private"): 4}
        heap = cells.heap_copy_bytes(self._cell)
        if heap and any(contestant.memory == "symmetric" and self._goes_on(contestant)
                        for contestant in self._field.running()):
            sides["copy", "symmetric"] = heap
        return sides

    def _side(self, side, count, calls, warmup):
        """Asks weft's job for memcpy or the barrier."""
        op, memory = side
        sets = self._sets if op == "copy" else 1
        line = (f"op={op} dtype=float32 bytes={count} place=out memory={memory} sets={sets} calls={calls} "
                f"warmup={warmup} keep={int(self._keep)}")
        return self._field.weft.ask(line, CELL_TIMEOUT_S)

    def _calibrate_sides(self):
        """{operation and memory: (bytes, calls)}."""
        sides = {}
        for side, count in self._side_bytes().items():
            seconds = slowest_us(self._side(side, count, 8, 1), 8) / 1e6
            sides[side] = count, int(min(max(_SIDE_S / max(seconds, 1e-9), LEAST_CALLS), _MOST_SIDE_CALLS))
        return sides

    def _measure_sides(self, sides):
        for side, (count, calls) in sides.items():
            answers = self._side(side, count, calls, 10 if side[0] == "barrier" else 1)
            if side[0] == "barrier":
                self._sync_us.append(slowest_us(answers, calls))
                continue
            rates = self._copy_bytes_per_s if side[1] == "private" else self._heap_copy_bytes_per_s
            rates.append(round(copy_rate(answers, count * calls, self._field.cores)))
