#!/usr/bin/env python3
"""The machine code in libweft_cuda.so, taken apart: machine_code_test.py IMAGES PACKAGES.

IMAGES: the folder with what nvcc left of each source: STEM/*.ptx and STEM/*.cubin, the very files that the images are made of.
PACKAGES: where the package nvidia-cuda-nvdisasm is; without it the test is skipped.

PTX is what was written. There each operation has a mark of its rounding, and ptxas joins none that has one with another. Machine code is
what ptxas made of it: a division or a root is a few instructions, multiply-adds among them, and a call of CUDA's own routine where the
number is rare. HFMA2 of the register that is always zero writes a constant.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import unittest

from cuda_kernels_test import SOURCES, reports

SKIPPED = 77  # as CMake knows it

OPERATION = re.compile(r"\b((?:add|sub|mul|fma|mad|div|sqrt|rcp)(?:\.\w+)*\.f(?:16|16x2|32|32x2|64))\b")
INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+\{?\s*(?:@!?U?P[T\d]+\s+)?(?P<code>[A-Z][A-Z0-9_.]*)\s*(?P<operands>.*?)\s*;")
FUSED = re.compile(r"[FDH]FMA|[A-Z]+MMA\b")
CONSTANT = re.compile(r"R\d+, -RZ, RZ, [^R]+")
BYTES = {"256": 32, "128": 16, "64": 8, "U16": 2, "S16": 2, "U8": 1, "S8": 1}  # of an access with this mark; 4 without one

ADAMW = r"weft_adamw_\w+"
DIVIDES = ADAMW + r"|weft_\w+_avg_\w+|weft_lamb_\w+"  # or takes a root
# AdamW's per element, as shard/optimizer/device/update.h has them: two more for the low half of a gradient of float64.
WRITTEN = collections.defaultdict(lambda: 23, weft_adamw_float64=25)
# Multiply-adds that nvcc 13.0 makes of one operation, beside its routines.
PARTS = {"fma.rn.f32": 1, "div.rn.f32": 5, "rcp.rn.f32": 2, "sqrt.rn.f32": 2, "div.rn.f64": 8, "sqrt.rn.f64": 5}

SIZES = {"float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2,
         "float8_e4m3": 1, "float8_e5m2": 1, "int8": 1, "uint8": 1, "bool": 1}
TYPE = f"({'|'.join(SIZES)})"

# The accesses of a kernel's loop over whole packets, in bytes. Where it is `alone` the loop has no others: the elements outside of packets
# have a loop of their own.
Packets = collections.namedtuple("Packets", "loads stores alone")


def access(elements, size):
    return min(16, elements * size)


def packets(name):
    def matches(pattern):
        return re.fullmatch(pattern.replace("TYPE", TYPE), name)

    if found := matches(r"weft_(reduce|first)_TYPE_\w+_any"):
        size = SIZES[found[2]]
        width = 2 if size == 8 else 4
        return Packets({access(width, size)}, {access(width, 4 if found[1] == "first" else size)}, False)
    if matches(r"weft_(reduce|first)_TYPE_\w+_[2-8]"):
        return Packets({16}, {16}, True)
    if found := matches(r"weft_merge_[a-z]+_TYPE"):
        size = SIZES[found[1]]
        return Packets({16}, {access(2 if size == 8 else 4, size)}, False)
    if found := matches(r"weft_cast_TYPE_TYPE"):
        sizes = SIZES[found[1]], SIZES[found[2]]
        width = min(8, 16 // min(sizes))
        return Packets({access(width, sizes[0])}, {access(width, sizes[1])}, True)
    if matches(r"weft_(min|max)_loc_TYPE|weft_digest_(chunks|parents)"):
        return Packets({16}, {16}, False)
    if matches(r"weft_gather|weft_scatter"):
        return Packets({16}, {16}, True)
    if matches(r"weft_fill"):
        return Packets(set(), {16}, True)
    if matches(r"weft_squares_TYPE"):
        return Packets({16}, set(), False)
    if found := matches(r"weft_lamb_moments_TYPE"):
        return Packets({16, access(4, SIZES[found[1]])}, {16}, False)
    if matches(r"weft_lamb_apply"):
        return Packets({16}, {16, 8}, True)  # 8: the cast to a type of two bytes
    if found := matches(r"weft_(?:adamw|sgd|lion|lars)_TYPE"):
        return Packets({16, access(4, SIZES[found[1]])}, {16, 8}, True)
    raise AssertionError(f"{name}: say here which accesses its loop has")


class Code:
    """The machine code of a kernel."""

    def __init__(self, lines):
        self.instructions = []  # (code, operands)
        self.routines_at = None  # the first instruction of CUDA's routines
        labels = {}
        for line in lines:
            if found := INSTRUCTION.match(line):
                self.instructions.append((found["code"], found["operands"]))
            elif line.startswith(".L_x_"):
                labels[line.rstrip(":")] = len(self.instructions)
            elif line.startswith("$__internal_") and self.routines_at is None:
                self.routines_at = len(self.instructions)
        self.loops = set()  # (first instruction, the jump back to it)
        for at, (code, operands) in enumerate(self.instructions):
            target = re.search(r"`\((\.L_x_\d+)\)", operands) if code.startswith("BRA") else None
            if target and labels.get(target[1], at + 1) <= at:
                self.loops.add((labels[target[1]], at))

    def fused(self, with_routines):
        """Multiply-adds: not those that write a constant."""
        return [f"{code} {operands}" for code, operands in self.instructions[:None if with_routines else self.routines_at]
                if FUSED.match(code) and not CONSTANT.fullmatch(operands)]

    def additions(self):
        return sum(code.split(".")[0] in ("FADD", "DADD") for code, _ in self.instructions[:self.routines_at])

    def accesses(self):
        """Of each loop: the bytes of its loads and of its stores."""
        for first, last in self.loops:
            found = {"LDG": set(), "STG": set()}
            for code, _ in self.instructions[first:last + 1]:
                kind, *marks = code.split(".")
                if kind in found:
                    found[kind].add(next((BYTES[mark] for mark in marks if mark in BYTES), 4))
            if any(found.values()):
                yield found["LDG"], found["STG"]


def take_apart(cubin):
    """{(kernel, architecture): Code}"""
    text = subprocess.run([NVDISASM, "-c", cubin], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
    architecture = re.search(r"\.target\s+sm_(\d+)", text)[1]
    sections = text.split("\t.section\t.text.")[1:]
    return {(section.split(",", 1)[0], architecture): Code(section.splitlines()) for section in sections}


def operations(ptx):
    """{(kernel, architecture): {operation of floats: how many}}"""
    text = ptx.read_text()
    architecture = re.search(r"\.target sm_(\d+)", text)[1]
    return {(entry[1], architecture): collections.Counter(OPERATION.findall(entry[2]))
            for entry in re.finditer(r"\.entry (\w+)\((.*?)\n\}\n", text, re.DOTALL)}


class MachineCode(unittest.TestCase):
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.code, cls.written = {}, {}
        folders = [IMAGES / source.stem for source in SOURCES]
        for folder in folders:
            for ptx in folder.glob("*.ptx"):
                cls.written.update(operations(ptx))
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for found in pool.map(take_apart, [cubin for folder in folders for cubin in folder.glob("*.cubin")]):
                cls.code.update(found)

    def test_is_there_of_every_kernel(self):
        kernels = sorted(reports(IMAGES))
        self.assertEqual(sorted(self.code), kernels)
        self.assertEqual(sorted(self.written), kernels)

    def test_comes_of_operations_that_may_not_be_joined(self):
        joinable = {key: operation for key, counts in self.written.items() for operation in counts if ".rn" not in operation}
        self.assertEqual(joinable, {}, "without a mark of rounding; is --fmad=false there?")

    def test_has_the_multiply_adds_that_are_written(self):
        for (name, architecture), counts in self.written.items():
            with self.subTest(kernel=name, architecture=architecture):
                expected = WRITTEN[name] * counts["div.rn.f32"] if re.fullmatch(ADAMW, name) else 0
                self.assertEqual(sum(count for operation, count in counts.items() if operation.startswith(("fma", "mad"))), expected)

    def test_of_sums_fuses_nothing(self):
        fused = {key: code.fused(with_routines=True) for key, code in self.code.items() if not re.fullmatch(DIVIDES, key[0])}
        self.assertEqual({key: found for key, found in fused.items() if found}, {})

    def test_fuses_else_in_divisions_and_roots(self):
        for key, code in self.code.items():
            with self.subTest(kernel=key[0], architecture=key[1]):
                expected = sum(PARTS.get(operation, 0) * count for operation, count in self.written[key].items())
                self.assertEqual(len(code.fused(with_routines=False)), expected)

    def test_of_averages_and_scaled_sums_adds_as_sums_do(self):
        for (name, architecture), code in self.code.items():
            if found := re.fullmatch(r"(\w+)_(?:avg|premul_sum)_([2-8])", name):
                with self.subTest(kernel=name, architecture=architecture):
                    self.assertEqual(code.additions(), self.code[f"{found[1]}_sum_{found[2]}", architecture].additions())

    def test_moves_whole_packets(self):
        for (name, architecture), code in self.code.items():
            with self.subTest(kernel=name, architecture=architecture):
                expected, found = packets(name), list(code.accesses())
                if expected.alone:
                    self.assertIn((expected.loads, expected.stores), found)
                else:
                    self.assertTrue(any(expected.loads <= loads and expected.stores <= stores for loads, stores in found), (expected, found))


if __name__ == "__main__":
    IMAGES, PACKAGES = (pathlib.Path(argument) for argument in sys.argv[1:])
    NVDISASM = next(PACKAGES.glob("nvidia/*/bin/nvdisasm"), None)
    if NVDISASM is None:
        print(f"{PACKAGES} has no nvdisasm, which is in the package nvidia-cuda-nvdisasm: ./dev setup installs it")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
