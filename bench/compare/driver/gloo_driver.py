"""Gloo through torch.distributed behind the same protocol as driver.c.

    gloo_driver.py RANKS        starts that many ranks and waits for them; COMPARE_PIPES names the folder of the pipes

Sizes, buffers, values and the order of things are those of driver.c; the loop is Python's, as it is for torch's users.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import time

_PERIOD = 13
_DEFAULTS = {"dtype": "float32", "bytes": "0", "place": "out", "memory": "private", "sets": "1", "warmup": "0", "calls": "1",
             "check": "0", "keep": "0"}


def die_with_parent():
    """A rank is stopped most of the time: nothing else would end it when its launcher is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Rank:
    """One rank: its group, its buffers and the measurements. One thread."""

    def __init__(self, torch, distributed, rank, size):
        self._torch = torch
        self._distributed = distributed
        self._rank = rank
        self._size = size
        self._arena = None
        self._dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16}

    def execute(self, line):
        """The answer to one command."""
        words = dict(_DEFAULTS, **dict(word.split("=", 1) for word in line.split()))
        if words["memory"] == "symmetric":
            return {"refusal": "the library has no memory of its own"}
        if words["op"] == "copy":
            return {"refusal": "weft's driver measures memcpy"}
        count, in_count, out_count = self._extent(words)
        sets = self._place(words, count, in_count, out_count)
        try:
            return self._measure(words, sets)
        finally:
            if words["keep"] == "0":
                self._arena = None

    def _extent(self, words):
        total = int(words["bytes"]) // self._bytes(words)
        chunk = max(total // self._size & ~(16 // self._bytes(words) - 1), 1)
        everything = chunk * self._size
        return {"all_gather": (chunk, chunk, everything), "reduce_scatter": (chunk, everything, chunk),
                "all_to_all": (chunk, everything, everything), "barrier": (0, 0, 0)}.get(words["op"], (total, total, total))

    @staticmethod
    def _bytes(words):
        return 2 if words["dtype"] == "bfloat16" else 4

    def _place(self, words, count, in_count, out_count):
        """[(in, out)], cut from one arena, each buffer on pages of its own."""
        size = self._bytes(words)
        in_bytes, out_bytes = (-(-elements * size // 4096) * 4096 for elements in (in_count, out_count))
        one = words["op"] == "broadcast" or words["place"] == "in" and words["op"] in ("all_reduce", "all_gather")
        stride = max(in_bytes, out_bytes) if one else in_bytes + out_bytes
        needed = max(stride * int(words["sets"]), 4096) + 4096
        if self._arena is None or self._arena.numel() < needed:
            self._arena = None
            self._arena = self._torch.zeros(needed, dtype=self._torch.uint8)
        first = -self._arena.data_ptr() % 4096
        sets = []
        for index in range(int(words["sets"])):
            base = first + index * stride
            out = self._view(base if one else base + in_bytes, out_count, words)
            if one and words["op"] == "all_gather":
                sets.append((out[self._rank * count:(self._rank + 1) * count], out))
            else:
                sets.append((out if one else self._view(base, in_count, words), out))
        return sets

    def _view(self, begin, count, words):
        return self._arena[begin:begin + count * self._bytes(words)].view(self._dtypes[words["dtype"]])

    def _call(self, words):
        """The function of (in, out) that is timed."""
        distributed = self._distributed
        if words["op"] == "all_reduce":
            if words["place"] == "in":
                return lambda source, out: distributed.all_reduce(out)
            # torch reduces in place only: who wants both copies first.
            return lambda source, out: distributed.all_reduce(out.copy_(source))
        return {"all_gather": lambda source, out: distributed.all_gather_into_tensor(out, source),
                "reduce_scatter": lambda source, out: distributed.reduce_scatter_tensor(out, source),
                "broadcast": lambda source, out: distributed.broadcast(out, 0),
                "all_to_all": lambda source, out: distributed.all_to_all_single(out, source),
                "barrier": lambda source, out: distributed.barrier()}[words["op"]]

    def _measure(self, words, sets):
        accumulates = words["op"] == "all_reduce" and words["place"] == "in"
        check = words["check"] == "1"
        if check:
            for source, out in sets:
                self._fill(words, source, out, zero=accumulates)
        call = self._call(words)
        warmup, calls, many = int(words["warmup"]), int(words["calls"]), len(sets)
        self._distributed.barrier()
        for index in range(warmup):
            call(*sets[index % many])
        self._distributed.barrier()
        begin = time.monotonic()
        for index in range(warmup, warmup + calls):
            call(*sets[index % many])
        answer = {"begin_s": begin, "end_s": time.monotonic()}
        if check:
            source, out = sets[(warmup + calls - 1) % many]
            if accumulates:
                self._fill(words, source, out, zero=False)
                call(source, out)
            answer["wrong"] = int((out != self._expected(words, out)).sum())
            if accumulates:
                out.zero_()
        return answer

    def _values(self, rank, count, words, first=0):
        index = self._torch.arange(first, first + count, dtype=self._torch.int64)
        return ((index * 7 + rank * 3) % _PERIOD).to(self._dtypes[words["dtype"]])

    def _fill(self, words, source, out, zero):
        if zero:
            out.zero_()
            return
        out.fill_(float("nan"))
        if words["op"] != "broadcast" or self._rank == 0:
            source.copy_(self._values(self._rank, source.numel(), words))

    def _expected(self, words, out):
        """What must come out."""
        op, count = words["op"], out.numel()
        if op == "barrier":
            return out
        if op == "broadcast":
            return self._values(0, count, words)
        if op in ("all_reduce", "reduce_scatter"):
            first = self._rank * count if op == "reduce_scatter" else 0
            return sum(self._values(peer, count, words, first) for peer in range(self._size))
        chunk = count // self._size
        first = self._rank * chunk if op == "all_to_all" else 0
        return self._torch.cat([self._values(peer, chunk, words, first) for peer in range(self._size)])


def run_rank(rank, size):
    """Answers commands until the pipe says quit."""
    die_with_parent()
    if os.environ.get("COMPARE_CORES"):
        os.sched_setaffinity(0, {int(os.environ["COMPARE_CORES"].split(",")[rank])})
    import torch
    import torch.distributed
    folder = os.environ["COMPARE_PIPES"]
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=size)
    worker = Rank(torch, torch.distributed, rank, size)
    with open(f"{folder}/command.{rank}", encoding="utf-8") as commands, \
            open(f"{folder}/answer.{rank}", "w", encoding="utf-8") as answers:
        print(json.dumps({"pid": os.getpid(), "size": size, "version": f"torch {torch.__version__}"}), file=answers, flush=True)
        for line in commands:
            if line == "quit\n":
                break
            try:
                answer = worker.execute(line)
            except (RuntimeError, ValueError, TypeError, KeyError) as error:
                answer = {"failure": str(error).replace("\n", " ")[:300]}
            print(json.dumps(answer), file=answers, flush=True)
            if "failure" in answer:
                return 1
    return 0


def main():
    size = int(sys.argv[1])
    if len(sys.argv) > 2:
        return run_rank(int(sys.argv[2]), size)
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    ranks = [subprocess.Popen([sys.executable, "-B", __file__, str(size), str(rank)], env=environment)
             for rank in range(size)]
    return max(abs(process.wait()) for process in ranks)


if __name__ == "__main__":
    sys.exit(main())
