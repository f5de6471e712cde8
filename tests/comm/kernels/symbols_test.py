"""Fails if an object compiled for one instruction set offers the linker more than its entry points.

    symbols_test.py <nm> <archive> <objects>

Objects for one instruction set are those whose name ends in _avx2 or _avx512; there are to be so many.
An inline function that two objects define is kept once. Were the kept one compiled for AVX, a program
would die on a CPU without it. Static initialisers would run before anybody asks the CPU.
"""

import re
import subprocess
import sys

ENTRY = re.compile(
    r"^weft::(Find(Bits|Float|Float8|Integer|Premul)Kernel(Avx2|Avx512)\(weft_dtype, weft_op\)"
    r"|StreamCopy(Avx2|Avx512)\(void\*, void const\*, unsigned long\)"
    r"|(AdamW|OptimizerKernels|SquareBlocks)(Avx2|Avx512)\(\))$"
)
MEMBER = re.compile(r"^\w+_avx\d+\.cc\.o:$")


def main() -> int:
    nm, archive, objects = sys.argv[1], sys.argv[2], int(sys.argv[3])
    listing = subprocess.run([nm, "--defined-only", "-C", archive], check=True, capture_output=True, text=True).stdout
    members, entries, wrong, inside = 0, 0, [], False
    for line in listing.splitlines():
        if line.endswith(".o:"):
            inside = bool(MEMBER.match(line))
            members += inside
            member = line[:-1]
            continue
        parts = line.split(maxsplit=2)
        if not inside or len(parts) < 3:
            continue
        kind, name = parts[1], parts[2]
        if ENTRY.match(name):
            entries += 1
        elif name.startswith("_GLOBAL__sub_I") or (kind not in "trbdn" and not name.startswith("DW.ref.")):
            wrong.append(f"{member} defines {name} ({kind})")
    print("\n".join(wrong))
    if members != objects or entries != objects:
        print(f"{archive}: expected {objects} objects with one entry point each, found {members} with {entries}")
        return 1
    return 1 if wrong else 0


sys.exit(main())
