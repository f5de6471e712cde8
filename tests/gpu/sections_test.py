"""The programs of ./dev gpu run on a driver without a device: sections_test.py DRIVER KERNELS MACHINE.

DRIVER: the library of tests/device whose kernels are twins. So nothing here is about a GPU: it is about whether these programs find what
is wrong, count what ran, and name what the driver refuses.
"""
import json
import os
import subprocess
import sys
import unittest

CHECKS = {"reduce", "first", "merge", "located", "cast", "pieces", "fill", "squares", "update", "lamb", "digest"}


def ran(*command):
    """Exit code, lines of JSON, and what else it said."""
    done = subprocess.run(command, env=dict(os.environ, WEFT_CUDA_LIBRARY=DRIVER, FAKE_CUDA_DEVICES="2"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=100, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def cases(lines):
    found = {}
    for line in lines:
        if "cases" in line:
            found[line["check"]] = found.get(line["check"], 0) + line["cases"]
    return found


class Kernels(unittest.TestCase):
    def test_every_check_has_cases_that_are_right(self):
        code, lines, said = ran(KERNELS, "--sample", "--seed", "3")
        self.assertEqual(0, code, said)
        self.assertEqual(CHECKS, set(cases(lines)))
        self.assertEqual([{"seed": 3}], [line for line in lines if "seed" in line])
        self.assertEqual(0, sum(line["wrong"] for line in lines if "wrong" in line))

    def test_a_byte_that_is_wrong_is_found(self):
        code, lines, _ = ran(KERNELS, "--sample", "--plant", "40")
        errors = [line["error"] for line in lines if "error" in line]
        self.assertEqual((1, 1), (code, len(errors)))
        self.assertRegex(errors[0], r"^weft_\w+, .* is in [0-9a-f]+, expected [0-9a-f]+$")

    def test_large_reductions_are_compared_whole(self):
        code, lines, said = ran(KERNELS, "--large", "--count", "3000017")
        self.assertEqual((0, {"large": 2}), (code, cases(lines)), said)

    def test_figures_have_bounds_and_bars(self):
        code, lines, said = ran(KERNELS, "--figures", "--count", "4096")
        self.assertEqual(0, code, said)
        figures = {line["figure"]: line for line in lines if "figure" in line}
        self.assertEqual(0.85, figures["sum of 8 bfloat16"]["bar"])
        self.assertEqual(9 * 2 * 4096, figures["sum of 8 bfloat16"]["bytes"])
        self.assertEqual(0.8, figures["squares of bfloat16"]["bar"])
        self.assertEqual(28 * 4096, figures["adamw, bfloat16 gradients and cast"]["bytes"])
        self.assertNotIn("ratio", figures["copy D2D, the bound"])
        for name, figure in figures.items():
            self.assertTrue(figure["us"] and min(figure["us"]) >= 0, name)


class Machine(unittest.TestCase):
    def test_everything_is_answered_or_named(self):
        code, lines, said = ran(MACHINE, "--bytes", "65536")
        self.assertEqual(0, code, said)
        answered = {line["check"] for line in lines if "check" in line}
        for check in ("stream memory operations", "VMM by descriptor", "cudaIpc", "registered memfd"):
            self.assertIn(check, answered)
        # This driver refuses none of them.
        self.assertEqual([], [line for line in lines if "skipped" in line])
        facts = {line["fact"] for line in lines if "fact" in line}
        self.assertIn("device 0: name", facts)
        self.assertIn("copy D2D", {line["figure"] for line in lines if "figure" in line})


class WithoutADriver(unittest.TestCase):
    def test_it_ends_with_a_sentence(self):
        for program in ((KERNELS, "--sample"), (MACHINE,)):
            done = subprocess.run(program, env=dict(os.environ, WEFT_CUDA_LIBRARY="/proc/none/libcuda.so"), capture_output=True, text=True, timeout=100,
                                  check=False)
            self.assertEqual(1, done.returncode)
            self.assertIn("/proc/none/libcuda.so", done.stderr)


if __name__ == "__main__":
    DRIVER, KERNELS, MACHINE = sys.argv[1:4]
    del sys.argv[1:4]
    unittest.main()
