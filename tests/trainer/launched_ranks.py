"""The processes that a weftrun has started, for tests that send them signals."""
import os
import time

ONE_STOP_S = 2  # signals that ask to end are one request for so long


def wait_for_ranks(launcher, count, deadline_s):
    """Rank and pid, once there are so many."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        found = ranks_of(launcher)
        if len(found) == count:
            return found
        time.sleep(0.01)
    raise AssertionError(f"{len(found)} of {count} ranks came")


def wait_until_blocked(pid, number, deadline_s):
    """Until the process has set its mask of signals, this one in it."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if number in _signals(pid, "SigBlk"):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not block {number!r}")


def wait_until_taken(pid, number, deadline_s):
    """Until the process has taken the signal that it was sent."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if number not in _signals(pid, "SigPnd") | _signals(pid, "ShdPnd"):
            return
        time.sleep(0.001)
    raise AssertionError(f"process {pid} does not take {number!r}")


def _signals(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        mask = int(dict(line.split(":", 1) for line in file)[field], 16)
    return {number for number in range(1, 65) if mask >> (number - 1) & 1}


def processes_of(launcher):
    """weftrun itself and all that it has started, as a scheduler finds them that signals all processes of a step."""
    parents = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                parents[int(entry)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [launcher]
    for pid in found:
        found.extend(child for child, parent in parents.items() if parent == pid)
    return found


def ranks_of(launcher):
    """Rank and pid of the processes that weftrun has started and that live."""
    found = {}
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
            if int(parent) != launcher or state == "Z":
                continue
            with open(f"/proc/{entry}/environ", encoding="ascii", errors="replace") as file:
                variables = dict(item.partition("=")[::2] for item in file.read().split("\0"))
        except OSError:
            continue
        if "RANK" in variables:
            found[int(variables["RANK"])] = int(entry)
    return found
