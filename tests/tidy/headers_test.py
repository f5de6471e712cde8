"""Installed headers compile alone, as C99, C++17 and C++20, by each compiler, without a warning; and they are short."""
import concurrent.futures
import os
import shutil
import subprocess
import unittest

import source_tree

_WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
_LONGEST = 300


def _compile(compiler, standard, language, header):
    command = [compiler, f"-std={standard}", *_WARNINGS, f"-I{source_tree.ROOT / 'include'}", "-x", language, "-"]
    done = subprocess.run(command, input=f"#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n",
                          text=True, stderr=subprocess.PIPE, check=False)
    return done.stderr if done.returncode else ""


class Headers(unittest.TestCase):
    def setUp(self):
        tree = source_tree.read_tree((".h", ".hpp"))
        self.headers = {path[len("include/"):]: text for path, text in tree.items() if path.startswith("include/")}
        self.assertIn("weft/weft.h", self.headers)
        self.c_compilers = [os.environ.get("CC", "cc"), *filter(shutil.which, ["clang"])]
        self.cxx_compilers = [os.environ.get("CXX", "c++"), *filter(shutil.which, ["clang++"])]
        for compiler in self.c_compilers + self.cxx_compilers:
            self.assertTrue(shutil.which(compiler), f"no compiler {compiler}; run ./dev setup")

    def check(self, cases):
        """cases: arguments of _compile; as many at once as there are cores."""
        self.assertTrue(cases)
        with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            for case, complaint in zip(cases, pool.map(lambda case: _compile(*case), cases)):
                with self.subTest(case):
                    self.assertEqual("", complaint)

    def test_compile_alone_as_c99(self):
        self.check([(compiler, "c99", "c", header) for compiler in self.c_compilers for header in self.headers
                    if header.endswith(".h")])

    def test_compile_alone_as_cxx(self):
        self.check([(compiler, standard, "c++", header) for compiler in self.cxx_compilers for standard in ("c++17", "c++20")
                    for header in self.headers])

    def test_are_short(self):
        for header, text in self.headers.items():
            with self.subTest(header):
                self.assertLessEqual(text.count("\n"), _LONGEST)

    def test_umbrella_has_every_c_header(self):
        """Except the NCCL names, which a program asks for."""
        umbrella = {name for _, name, _ in source_tree.includes(self.headers["weft/weft.h"])}
        expected = {name for name in self.headers if name.endswith(".h") and not name.startswith("weft/nccl_")}
        expected -= {"weft/weft.h"}
        self.assertEqual(expected, umbrella)


if __name__ == "__main__":
    unittest.main()
