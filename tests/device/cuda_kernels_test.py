#!/usr/bin/env python3
"""What ptxas reports of the kernels in libweft_cuda.so: cuda_kernels_test.py IMAGES TWIN_NAMES ARCHITECTURES.

IMAGES: the folder with a .fatbin and a .ptxas of each source. --accept writes the budget of registers anew, of a change that
moved it on purpose.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("comm/device/kernels/*.cu"), *ROOT.glob("shard/optimizer/device/*.cu")])
BUDGET = pathlib.Path(__file__).parent / "register_budget.json"
IMAGES_BYTES_MAX = 2 << 20
SLACK = 8  # registers: compilers differ a little; ptxas gives them out by eights

PROPERTIES = re.compile(
    r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<architecture>\d+)'\n"
    r".*Function properties for (?P=name)\n"
    r" *(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads\n"
    r".*Used (?P<registers>\d+) registers")


def images(folder, suffix):
    """The files of sources that there are: a folder of builds keeps those of others as well."""
    return [folder / f"{source.stem}.{suffix}" for source in SOURCES]


def reports(folder):
    """{(kernel, architecture): (stack, spill stores, spill loads, registers)}"""
    found = {}
    for path in images(folder, "ptxas"):
        for match in PROPERTIES.finditer(path.read_text()):
            key = match["name"], match["architecture"]
            assert key not in found, f"two kernels have the name {key}"
            found[key] = tuple(int(match[field]) for field in ("stack", "stores", "loads", "registers"))
    return found


def twins():
    """{kernel: its image}"""
    text = subprocess.run([TWIN_NAMES], check=True, capture_output=True, text=True, timeout=60).stdout
    return dict(line.split() for line in text.splitlines())


def registers_by_kernel(found):
    """{kernel: the most registers of all architectures}"""
    most = collections.defaultdict(int)
    for (name, _), (_, _, _, registers) in found.items():
        most[name] = max(most[name], registers)
    return dict(sorted(most.items()))


class Kernels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found = reports(IMAGES)

    def test_are_those_that_have_twins_for_every_architecture(self):
        self.assertEqual(sorted(self.found), sorted((name, architecture) for name in twins() for architecture in ARCHITECTURES))

    def test_are_in_the_images_that_host_code_asks_for(self):
        images_of = {match["name"]: path.stem for path in images(IMAGES, "ptxas") for match in PROPERTIES.finditer(path.read_text())}
        self.assertEqual(twins(), images_of)

    def test_stay_in_registers(self):
        spilled = {key: report[:3] for key, report in self.found.items() if any(report[:3])}
        self.assertEqual(spilled, {}, "bytes of stack, of spill stores, of spill loads")

    def test_keep_to_their_budget_of_registers(self):
        budget = json.loads(BUDGET.read_text())
        registers = registers_by_kernel(self.found)
        self.assertEqual(sorted(registers), sorted(budget), "new kernels: --accept")
        above = {name: (count, budget[name]) for name, count in registers.items() if count > budget[name] + SLACK}
        self.assertEqual(above, {}, "registers, and how many there were")

    def test_are_small(self):
        sizes = {path.stem: path.stat().st_size for path in images(IMAGES, "fatbin")}
        self.assertLessEqual(sum(sizes.values()), IMAGES_BYTES_MAX, sizes)


if __name__ == "__main__":
    arguments = [argument for argument in sys.argv[1:] if argument != "--accept"]
    IMAGES, TWIN_NAMES, ARCHITECTURES = pathlib.Path(arguments[0]), arguments[1], arguments[2].split(",")
    if "--accept" in sys.argv:
        BUDGET.write_text(json.dumps(registers_by_kernel(reports(IMAGES)), indent=0) + "\n")
        sys.exit(0)
    unittest.main(argv=sys.argv[:1])
