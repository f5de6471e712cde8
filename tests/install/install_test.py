"""An installed weft serves pkg-config, CMake and a static link, may be moved, and shows nothing but weft_*."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

_PROGRAM = """#include <stdio.h>
#include <weft/weft.h>
int main(void) {
  weft_group_t group;
  float x = 21;
  if (weft_group_create_from_env(NULL, &group)) return 2;
  if (weft_all_reduce(&x, &x, 1, WEFT_FLOAT32, WEFT_SUM, group, NULL, NULL)) return 3;
  printf("%d %g\\n", weft_version() == WEFT_VERSION_MAJOR * 10000 + WEFT_VERSION_MINOR * 100 + WEFT_VERSION_PATCH, x);
  return weft_group_destroy(group);
}
"""
_PROJECT = """cmake_minimum_required(VERSION 3.16)
project(user C CXX)
find_package(weft 0.1 REQUIRED)
foreach(kind weft static)
  add_executable(with_${kind} main.c)
  target_link_libraries(with_${kind} PRIVATE weft::${kind})
endforeach()
"""
# What libweft.so may need: the C and C++ libraries, libcrypto.
_MAY_NEED = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|libcrypto|ld-linux[\w-]*)\.so\.\d+")
# Names the linker itself adds, and the version node's name.
_MAY_SHOW = re.compile(r"weft_\w+|WEFT_\d+|_init|_fini|__bss_start|_edata|_end")


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=240, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


class Install(unittest.TestCase):
    build = pathlib.Path(".")

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="weft-install-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        run("cmake", "--install", cls.build, "--prefix", cls.folder / "first")
        # Used from another place than it was installed to.
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libweft.so"))
        cls.source = cls.folder / "main.c"
        cls.source.write_text(_PROGRAM)

    def check(self, program, **environment):
        self.assertEqual("1 21\n", run(program, env=dict(os.environ, **environment)))

    def test_pkg_config(self):
        search = dict(os.environ, PKG_CONFIG_PATH=str(self.library.parent / "pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "weft", env=search).split()
        program = self.folder / "by_pkg_config"
        run("cc", "-std=c99", "-Wall", "-Werror", self.source, "-o", program, *flags)
        self.check(program, LD_LIBRARY_PATH=str(self.library.parent))

    def test_cmake_shared_and_static(self):
        project = self.folder / "project"
        project.mkdir()
        (project / "CMakeLists.txt").write_text(_PROJECT)
        shutil.copy(self.source, project)
        run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        self.check(project / "build" / "with_weft")
        self.check(project / "build" / "with_static")
        self.assertNotIn("libweft", run("ldd", project / "build" / "with_static"))

    def test_installed_program_finds_its_library(self):
        for name in ("weftrun", "weft_perf"):
            program = self.prefix / "bin" / name
            if program.exists():
                self.assertNotIn("not found", run("ldd", program))
                run(program, "--help")

    def test_library_shows_weft_names_only(self):
        names = [line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", self.library).splitlines()]
        self.assertIn("weft_all_reduce", names)
        self.assertEqual([], [name for name in names if not _MAY_SHOW.fullmatch(name)])
        archive = run("nm", "-g", "--defined-only", self.library.with_suffix(".a"))
        defined = [line.split() for line in archive.splitlines() if len(line.split()) == 3]
        # "u" are symbols that a whole program shares anyway.
        self.assertEqual([], [name for _, kind, name in defined if kind != "u" and not name.startswith("weft_")])

    def test_library_needs_little(self):
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", self.library))
        self.assertTrue(needed)
        self.assertEqual([], [name for name in needed if not _MAY_NEED.fullmatch(name)])
        self.assertIn("[libweft.so.0]", run("readelf", "-d", self.library))

    def test_every_declared_function_is_there(self):
        headers = "".join(path.read_text() for path in (self.prefix / "include" / "weft").glob("*.h"))
        declared = set(re.findall(r"^WEFT_EXPORT\s[^;(]*?\b(weft_\w+)\s*\(", headers, re.MULTILINE))
        self.assertGreater(len(declared), 50)
        names = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", self.library).splitlines()}
        self.assertEqual(set(), declared - names)


if __name__ == "__main__":
    Install.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
