"""Fails if an object compiled for one instruction set offers the linker more than its entry points.

    symbols_test.py <nm> <object> ...

An inline function that two objects define is kept once. Were the kept one compiled for AVX, a program
would die on a CPU without it. Static initialisers would run before anybody asks the CPU.
"""

import re
import subprocess
import sys

# A function that is named for its instruction set.
ENTRY = re.compile(r"\bweft::\w+<\(weft::Isa\)[12]>\(")


def main() -> int:
    nm, objects = sys.argv[1], sys.argv[2:]
    wrong = []
    for path in objects:
        listing = subprocess.run([nm, "--defined-only", "-C", path], check=True, capture_output=True, text=True).stdout
        entries = 0
        for line in listing.splitlines():
            _, kind, name = line.split(maxsplit=2)
            if ENTRY.search(name) and kind == "T":
                entries += 1
            elif name.startswith("_GLOBAL__sub_I") or (kind not in "trbdn" and not name.startswith("DW.ref.")):
                wrong.append(f"{path} defines {name} ({kind})")
        if entries != 1:
            wrong.append(f"{path} has {entries} entry points, expected one")
    print("\n".join(wrong))
    return 1 if wrong or not objects else 0


sys.exit(main())
