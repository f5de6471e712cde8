"""A rank of bench/python_failures: python3 -B rank.py RANK SIZE FOLDER, then commands on stdin, one JSON object a line, and answers on stdout.

It forks the process that does the work, and again when that was killed, so that nothing is imported twice.
"""
import importlib
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
_ABSENT = 2  # the rank that does not come


def read():
    """The next command, or None at the end. Byte by byte: what one process reads too much the next one would miss."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return None
        line += byte
    return json.loads(line)


def say(**answer):
    os.write(1, json.dumps(answer).encode() + b"\n")


def outcome(call):
    """What became of a call, and when."""
    try:
        call()
        name, text = "returned", ""
    except BaseException as failure:  # KeyboardInterrupt first of all
        name, text = type(failure).__name__, str(failure)
    return {"time": time.monotonic(), "outcome": name, "text": text}


def attempt(case, place):
    """One attempt: prepares, then calls, the absent rank when it is told to, until there is nothing left to do."""
    call = case.prepare(place)
    say(ready=os.getpid())
    if place.rank != _ABSENT:
        say(**outcome(call))
    while read()["call"]:
        say(**outcome(call))


def work(rank, size, folder):
    while (command := read()) is not None:
        cases = importlib.import_module(command["module"])
        if command["do"] == "id":
            cases.offer(say)
            continue
        place = cases.Place(rank, size, folder / str(command["number"]), command)
        attempt(cases.CASES[command["case"]], place)
        place.leave()
        say(left=True)


def main():
    rank, size, folder, module = int(sys.argv[1]), int(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4]
    importlib.import_module(module)
    while True:
        child = os.fork()
        if child == 0:
            work(rank, size, folder)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return


if __name__ == "__main__":
    main()
