"""weft and mpi4py from Python, on numpy arrays, behind the protocol of driver.c.

    python_driver.py weft       started by weftrun; COMPARE_PIPES names the folder of the pipes
    python_driver.py mpi4py     started by an mpiexec

A command is one of measure.py's with the word `call`: plain (arguments each time), bound (weft's comm.bind) or symmetric (plain, on arrays of weft.zeros). Values are small whole
numbers, exact in any order; the loop is Python's, as it is for those who call from Python.
"""
import ctypes
import json
import os
import signal
import sys
import time

import numpy

_PERIOD = 13
_PAGE = 4096
_DEFAULTS = {"bytes": "0", "call": "plain", "warmup": "0", "calls": "1", "check": "0"}
_ITEM_BYTES = 4  # float32


def die_with_parent():
    """A rank is stopped most of the time: nothing else would end it when its launcher is gone."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Weft:
    """The operations of weft: {name: function(in, out) -> what is called without arguments}."""

    def __init__(self):
        import weft
        self._zeros, self._world = weft.zeros, weft.init()
        self.rank, self.size, self.version = self._world.rank, self._world.size, f"weft {weft.__version__}"

    def barrier(self):
        self._world.barrier()

    def pages(self, count):
        return numpy.asarray(self._zeros(count, "float32"))

    def call(self, op, bound, source, out):
        if bound:
            bind = self._world.bind
            return {"all_reduce": lambda: bind.all_reduce(out), "reduce": lambda: bind.reduce(source, out), "broadcast": lambda: bind.broadcast(out),
                    "all_gather": lambda: bind.all_gather(None, out), "reduce_scatter": lambda: bind.reduce_scatter(source, out),
                    "all_to_all": lambda: bind.all_to_all(source, out)}[op]()
        world = self._world
        return {"all_reduce": lambda: world.all_reduce(out), "reduce": lambda: world.reduce(source, out), "broadcast": lambda: world.broadcast(out),
                "all_gather": lambda: world.all_gather(None, out), "reduce_scatter": lambda: world.reduce_scatter(source, out),
                "all_to_all": lambda: world.all_to_all(source, out)}[op]


class Mpi4py:
    """Likewise, of mpi4py over whichever MPI its launcher belongs to."""

    def __init__(self):
        import mpi4py
        from mpi4py import MPI
        self._mpi, self._world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size
        self.version = f"mpi4py {mpi4py.__version__}, {MPI.Get_library_version().rstrip(chr(0)).splitlines()[0].strip()}"

    def barrier(self):
        self._world.Barrier()

    def call(self, op, _, source, out):
        world, in_place = self._world, self._mpi.IN_PLACE
        return {"all_reduce": lambda: world.Allreduce(in_place, out), "reduce": lambda: world.Reduce(source, out), "broadcast": lambda: world.Bcast(out),
                "all_gather": lambda: world.Allgather(in_place, out), "reduce_scatter": lambda: world.Reduce_scatter_block(source, out),
                "all_to_all": lambda: world.Alltoall(source, out)}[op]


class Driver:
    """One rank: its library, its buffers and the measurements. One thread."""

    def __init__(self, library):
        self._library = library

    def execute(self, line):
        """The answer to one command."""
        words = dict(_DEFAULTS, **dict(word.split("=", 1) for word in line.split()))
        op, library = words["op"], self._library
        source, out = self._buffers(op, int(words["bytes"]), words["call"] == "symmetric")
        accumulates = op == "all_reduce"  # in place: zeros stay zeros
        check = words["check"] == "1"
        self._fill(op, source, out, zero=accumulates or not check)
        call = library.call(op, words["call"] == "bound", source, out)
        library.barrier()
        for _ in range(int(words["warmup"])):
            call()
        library.barrier()
        begin = time.monotonic()
        for _ in range(int(words["calls"])):
            call()
        answer = {"begin_s": begin, "end_s": time.monotonic()}
        if check:
            if accumulates:
                self._fill(op, source, out, zero=False)
                call()
            answer["wrong"] = self._wrong(op, out)
        return answer

    def _buffers(self, op, bytes_, symmetric):
        """(in, out), on pages of their own. in is a part of out where the operation runs in place."""
        pages = self._library.pages if symmetric else self._pages
        total = bytes_ // _ITEM_BYTES
        chunk = max(total // self._library.size & ~(16 // _ITEM_BYTES - 1), 1)
        whole = chunk * self._library.size
        out = pages({"all_gather": whole, "reduce_scatter": chunk, "all_to_all": whole}.get(op, total))
        if op in ("all_reduce", "broadcast"):
            return out, out
        if op == "all_gather":
            return out[self._library.rank * chunk:(self._library.rank + 1) * chunk], out
        return pages({"reduce": total}.get(op, whole)), out

    @staticmethod
    def _pages(count):
        block = numpy.zeros(count * _ITEM_BYTES + _PAGE, numpy.uint8)
        first = -block.ctypes.data % _PAGE
        return block[first:first + count * _ITEM_BYTES].view(numpy.float32)

    @staticmethod
    def _values(rank, count, first=0):
        return ((numpy.arange(first, first + count, dtype=numpy.int64) * 7 + rank * 3) % _PERIOD).astype(numpy.float32)

    def _fill(self, op, source, out, zero):
        if zero:
            out[:], source[:] = 0, 0
            return
        out[:] = numpy.nan
        if op != "broadcast" or self._library.rank == 0:
            source[:] = self._values(self._library.rank, source.size)

    def _wrong(self, op, out):
        rank, size, count = self._library.rank, self._library.size, out.size
        if op == "reduce" and rank != 0:
            return 0
        if op == "broadcast":
            expected = self._values(0, count)
        elif op in ("all_reduce", "reduce", "reduce_scatter"):
            first = rank * count if op == "reduce_scatter" else 0
            expected = sum(self._values(peer, count, first) for peer in range(size))
        else:
            chunk = count // size
            expected = numpy.concatenate([self._values(peer, chunk, rank * chunk if op == "all_to_all" else 0) for peer in range(size)])
        return int((out != expected).sum())


def main():
    die_with_parent()
    library = {"weft": Weft, "mpi4py": Mpi4py}[sys.argv[1]]()
    if os.environ.get("COMPARE_CORES"):
        os.sched_setaffinity(0, {int(os.environ["COMPARE_CORES"].split(",")[library.rank])})
    driver, folder = Driver(library), os.environ["COMPARE_PIPES"]
    with open(f"{folder}/command.{library.rank}", encoding="utf-8") as commands, \
            open(f"{folder}/answer.{library.rank}", "w", encoding="utf-8") as answers:
        print(json.dumps({"pid": os.getpid(), "size": library.size, "version": library.version}), file=answers, flush=True)
        for line in commands:
            if line == "quit\n":
                break
            try:
                answer = driver.execute(line)
            except Exception as error:  # whatever the library raises
                answer = {"failure": f"{type(error).__name__}: {error}".replace("\n", " ")[:300]}
            print(json.dumps(answer), file=answers, flush=True)
            if "failure" in answer:
                os._exit(1)  # an MPI would wait for its peers


if __name__ == "__main__":
    main()
