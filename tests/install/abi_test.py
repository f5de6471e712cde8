"""The binary interface of libweft.so has changed by additions only since tests/install/weft.abi."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import abi_baseline

_HEADER = """#include <stddef.h>
struct weft_config { size_t struct_size; %s };
enum weft_code { WEFT_A = 0, %s };
enum weft_code weft_call(const struct weft_config* config%s);
%s
"""
_SOURCE = """#include "weft.h"
enum weft_code weft_call(const struct weft_config* config%s) { return config ? WEFT_A : WEFT_B; }
%s
"""


@unittest.skipUnless(abi_baseline.installed(), "no abidw; ./dev setup installs it")
class Abi(unittest.TestCase):
    build = pathlib.Path(".")

    def test_nothing_but_additions_since_the_baseline(self):
        found = abi_baseline.changes_since_baseline(self.build)
        self.assertEqual("", found, "an old program may notice; docs/abi.md says what is allowed. If it is intended: "
                                    "./dev abi --accept, and commit tests/install/weft.abi with the change")

    def test_baseline_names_no_machine(self):
        text = abi_baseline.BASELINE.read_text()
        self.assertIn("weft_all_reduce", text)
        self.assertNotIn(str(abi_baseline.ROOT), text)

    def described(self, folder, name, fields, codes="WEFT_B = 1", argument="", more=("", "")):
        """The description of a small library."""
        place = pathlib.Path(folder, name)
        place.mkdir()
        (place / "weft.h").write_text(_HEADER % (fields, codes, argument, more[0]))
        (place / "weft.c").write_text(_SOURCE % (argument, more[1]))
        subprocess.run(["cc", "-shared", "-fPIC", "-g", "-Wl,-soname,libweft.so.0", place / "weft.c", "-o", place / "libweft.so"],
                       check=True)
        abi_baseline.describe(place / "libweft.so", place, place / "abi")
        return place / "abi"

    def test_changes_that_old_programs_notice_are_found(self):
        with tempfile.TemporaryDirectory() as folder:
            before = self.described(folder, "before", "int a; int b;")
            for name, change in (("reordered", {"fields": "int b; int a;"}), ("retyped", {"fields": "int a; double b;"}),
                                 ("removed", {"fields": "int a;"}),
                                 ("renumbered", {"fields": "int a; int b;", "codes": "WEFT_B = 2"}),
                                 ("another argument", {"fields": "int a; int b;", "argument": ", int c"})):
                with self.subTest(name):
                    self.assertNotEqual("", abi_baseline.changes(before, self.described(folder, name, **change)))

    def test_an_added_code_is_no_change(self):
        with tempfile.TemporaryDirectory() as folder:
            before = self.described(folder, "before", "int a;")
            after = self.described(folder, "after", "int a;", codes="WEFT_B = 1, WEFT_C = 100")
            self.assertEqual("", abi_baseline.changes(before, after))

    def test_an_added_function_is_no_change(self):
        with tempfile.TemporaryDirectory() as folder:
            before = self.described(folder, "before", "int a;")
            after = self.described(folder, "after", "int a;", more=("int weft_new(void);", "int weft_new(void) { return 1; }"))
            self.assertEqual("", abi_baseline.changes(before, after))
            self.assertIn("weft_new", abi_baseline.changes(after, before))


if __name__ == "__main__":
    Abi.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
