"""The processes that a weftrun has started, for tests that send them signals."""
import os


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
