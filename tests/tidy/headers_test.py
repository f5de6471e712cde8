"""Installed headers compile alone, as C99 and as C++17, without a warning; and they are short enough to read."""
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
        self.c_compiler = os.environ.get("CC", "cc")
        self.cxx_compiler = os.environ.get("CXX", "c++")
        for compiler in (self.c_compiler, self.cxx_compiler):
            self.assertTrue(shutil.which(compiler), f"no compiler {compiler}; run ./dev setup")

    def test_compile_alone_as_c99(self):
        for header in self.headers:
            if header.endswith(".h"):
                with self.subTest(header):
                    self.assertEqual("", _compile(self.c_compiler, "c99", "c", header))

    def test_compile_alone_as_cxx17(self):
        for header in self.headers:
            with self.subTest(header):
                self.assertEqual("", _compile(self.cxx_compiler, "c++17", "c++", header))

    def test_are_short(self):
        for header, text in self.headers.items():
            with self.subTest(header):
                self.assertLessEqual(text.count("\n"), _LONGEST)

    def test_umbrella_has_every_c_header(self):
        umbrella = {name for _, name, _ in source_tree.includes(self.headers["weft/weft.h"])}
        expected = {name for name in self.headers if name.endswith(".h")} - {"weft/weft.h"}
        self.assertEqual(expected, umbrella)


if __name__ == "__main__":
    unittest.main()
