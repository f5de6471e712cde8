"""What weft is measured for without its peers: the targets that compare weft with itself, or with nobody.

    figures = Alone(rounds=9, folder=folder, say=print, report=report).run()

Each part has a job of its own, so that the failure of one is not the next one's.
"""
from bench.compare import cells, launch, machine, measure
from bench.compare.jobs import Job, JobFailed

SIZES = tuple((64 << 10) * 4 ** power for power in range(6))  # 64 KiB to 64 MiB
TAIL_SIZES = (8, 1 << 10, 8 << 10, 64 << 10)
TAIL_RANKS = (4, 8)
TAIL_CALLS = 10_000
IDLE_S = 10
MEMORIES = ("private", "symmetric")
# Calls under way, and buffers that they cycle through.
FLIGHTS = ((1, 1), (4, 4))
_START_TIMEOUT_S = 60
_TIMEOUT_S = 120


def line_of(variant, calls, warmup, check=False):
    """The driver's command. variant: dtype, bytes, memory, sets, and flight, which is 0 for blocking calls."""
    cell = cells.Cell(2, "all_reduce", variant["dtype"], variant["bytes"], "hot", "in")
    return (measure.command(cell, variant["memory"], variant["sets"], calls, warmup, check, True)
            + (f" flight={variant['flight']}" if variant["flight"] else ""))


def variant_of(size, memory, dtype="float32", sets=1, flight=0):
    return {"dtype": dtype, "bytes": size, "memory": memory, "sets": sets, "flight": flight}


def dtype_pairs():
    """(what is told of it, the reference, what is judged): float32 and bfloat16 of as many bytes."""
    return [({"memory": memory, "bytes": size}, variant_of(size, memory), variant_of(size, memory, "bfloat16"))
            for memory in MEMORIES for size in SIZES]


def flight_pairs():
    """Likewise: blocking and asynchronous calls over the same buffers."""
    return [({"memory": memory, "bytes": size, "flight": flight}, variant_of(size, memory, sets=sets),
             variant_of(size, memory, sets=sets, flight=flight))
            for memory in MEMORIES for size in SIZES for flight, sets in FLIGHTS]


def tail_entry(answers, ranks, size, calls, steal_s, throttled_s):
    """Of the slowest rank in each respect, microseconds, and what excuses a maximum."""
    worst = {name: round(max(answer[f"{name}_s"] for answer in answers) * 1e6, 2) for name in ("median", "p999", "max")}
    return {"ranks": ranks, "bytes": size, "calls": calls, "median_us": worst["median"], "p999_us": worst["p999"],
            "max_us": worst["max"], "steal_s": round(steal_s, 3), "throttled_s": round(throttled_s, 3)}


def busiest_share(answers):
    """Of a core, of the rank that used most."""
    return max(answer["cpu_s"] / (answer["end_s"] - answer["begin_s"]) for answer in answers)


class Alone:
    """See above. One thread."""

    def __init__(self, rounds, folder, say, report):
        """folder: for the jobs' pipes; say(text) shows progress, report(name, sentence) is told of failures."""
        self._rounds = rounds
        self._folder = folder
        self._say = say
        self._report = report

    def run(self):
        """{"dtypes", "flights", "idle", "tails"}: lists of entries, as docs/formats/compare.md has them."""
        return {"dtypes": self._part("bfloat16", 2, lambda job: self._pairs(job, "bfloat16", dtype_pairs())),
                "flights": self._part("asynchronous", 2, lambda job: self._pairs(job, "asynchronous", flight_pairs())),
                "idle": self._part("idle", 2, self._idle),
                "tails": [entry for ranks in TAIL_RANKS
                          for entry in self._part(f"tail of {ranks} ranks", ranks, lambda job, n=ranks: self._tails(job, n))]}

    def _part(self, name, ranks, action):
        """Entries of one part; what was found before a failure stays, and the failure is an entry too."""
        job = Job(f"weft alone, {name}", *launch.weft_command(ranks), ranks, self._folder / f"alone-{ranks}")
        entries = []
        try:
            job.start(_START_TIMEOUT_S)
            for entry in action(job):
                entries.append(entry)
        except JobFailed as error:
            self._report(job.name, str(error))
            entries.append({"error": str(error)})
        finally:
            job.end()
        return entries

    def _pairs(self, job, title, pairs):
        """Reference and judged in turn, the first to go changing from round to round."""
        for number, (facts, *variants) in enumerate(pairs, 1):
            calls = [measure.call_count(self._seconds(job, variant)) for variant in variants]
            times = ([], [])
            for turn in range(self._rounds):
                for which in ((0, 1), (1, 0))[turn % 2]:
                    warmup = max(1, min(calls[which] // 10, 50))
                    answers = self._ask(job, line_of(variants[which], calls[which], warmup))
                    times[which].append(round(measure.slowest_us(answers, calls[which]), 4))
            told = ", ".join(f"{key} {value}" for key, value in facts.items())
            self._say(f"[{title} {number}/{len(pairs)}] {told}: {min(times[0]):.2f} us against {min(times[1]):.2f} us at best")
            yield dict(facts, reference_us=times[0], judged_us=times[1])

    def _seconds(self, job, variant):
        """Of a call, for a first idea; the result is compared here."""
        answers = self._ask(job, line_of(variant, 8, 4, check=True))
        if any(answer["wrong"] for answer in answers):
            raise JobFailed(f"{job.name}: {sum(answer['wrong'] for answer in answers)} values are wrong: {variant}")
        return measure.slowest_us(answers, 8) / 1e6

    @staticmethod
    def _ask(job, line):
        answers = job.ask(line, _TIMEOUT_S)
        refusal = next((answer["refusal"] for answer in answers if "refusal" in answer), None)
        if refusal:
            raise JobFailed(f"{job.name}: refused: {refusal} ({line})")
        return answers

    def _idle(self, job):
        """After blocking calls only, then after asynchronous ones, which leave a thread that makes progress."""
        for after, flight in (("blocking", 0), ("asynchronous", 4)):
            self._say(f"[idle] {IDLE_S} s after {after} calls")
            for size in (8, 1 << 20):
                self._ask(job, line_of(variant_of(size, "private", sets=4, flight=flight), 100, 1))
            yield {"after": after, "seconds": IDLE_S, "share": busiest_share(self._ask(job, f"op=idle calls={IDLE_S}"))}

    def _tails(self, job, ranks):
        for size in TAIL_SIZES:
            line = line_of(variant_of(size, "private"), TAIL_CALLS, 100) + " tail=1"
            steal_s, throttled_s = machine.steal_s(), machine.throttled_s()
            answers = self._ask(job, line)
            entry = tail_entry(answers, ranks, size, TAIL_CALLS, machine.steal_s() - steal_s, machine.throttled_s() - throttled_s)
            self._say(f"[tail] {ranks} ranks, {cells.size_text(size)}: p99.9 {entry['p999_us']} us, most {entry['max_us']} us")
            yield entry
