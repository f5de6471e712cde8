"""What clang-tidy is run on: workbench/tidy.py."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))
from workbench.tidy import tidy_inputs

_TREE = {
    "trainer/isa.h": "enum class Isa { kScalar };",
    "trainer/vector.h": '#include "trainer/isa.h"\nconstexpr bool kScalar = Isa::WEFT_KERNEL_ISA == Isa::kScalar;',
    "trainer/ops_kernels.h": '#include "trainer/vector.h"',
    "trainer/beside.h": '#include "ops_kernels.h"',
    "trainer/ops_isa.cc": '#include "trainer/beside.h"\n#include "trainer/plain.h"',
    "trainer/plain.h": '#include "trainer/isa.h"',
    "trainer/run.h": "",
    "trainer/run.cc": '#include "trainer/run.h"',
    "examples/first.cc": "",
}


class TidyInputs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in _TREE.items():
            (self.root / name).parent.mkdir(exist_ok=True)
            (self.root / name).write_text(text)
        self.commands = [{"file": str(self.root / "trainer/run.cc"), "command": "c++ run.cc"}]
        self.commands += [{"file": str(self.root / "trainer/ops_isa.cc"), "command": f"c++ -DWEFT_KERNEL_ISA={isa} ops_isa.cc"} for isa in ("kScalar", "kAvx2")]

    def inputs(self, *names):
        return tidy_inputs(names, self.commands, self.root)

    def test_a_header_with_a_source_is_looked_at_with_it(self):
        self.assertEqual(["trainer/run.cc"], self.inputs("trainer/run.h"))
        self.assertEqual(["trainer/run.cc"], self.inputs("trainer/run.h", "trainer/run.cc"))

    def test_one_without_is_looked_at_alone(self):
        self.assertEqual(["trainer/isa.h", "trainer/plain.h"], self.inputs("trainer/plain.h", "trainer/isa.h"))

    def test_headers_of_kernels_are_looked_at_with_a_source_of_theirs(self):
        for header in ("trainer/vector.h", "trainer/ops_kernels.h", "trainer/beside.h"):
            with self.subTest(header):
                self.assertEqual(["trainer/ops_isa.cc"], self.inputs(header))

    def test_what_the_build_does_not_compile_is_left_out(self):
        self.assertEqual([], self.inputs("examples/first.cc"))


if __name__ == "__main__":
    unittest.main()
