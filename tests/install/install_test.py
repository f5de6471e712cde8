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
_CXX_PROGRAM = """#include <cstdio>
#include <weft/weft.hpp>
int main() {
  const weft::Group group = weft::Group::FromEnvironment();
  float x = 21;
  group.AllReduce(&x, &x, 1, WEFT_SUM);
  std::printf("%d %g\\n", weft::Version() / 10000 == WEFT_VERSION_MAJOR, x);
}
"""
_PROJECT = """cmake_minimum_required(VERSION 3.16)
project(user LANGUAGES %s)
find_package(weft 0.1 REQUIRED)
foreach(kind weft weft_static)
  add_executable(with_${kind} main.%s)
  target_link_libraries(with_${kind} PRIVATE weft::${kind})
endforeach()
"""
_EXPORTS = pathlib.Path(__file__).resolve().parent / "exports.txt"
# What libweft.so may need: the C and C++ libraries.
_MAY_NEED = re.compile(r"(libc|libm|libgcc_s|libstdc\+\+|libpthread|ld-linux[\w-]*)\.so\.\d+")
# libcrypto's names.
_OF_LIBCRYPTO = re.compile(r"(OPENSSL|CRYPTO|EVP|SHA\d+|ossl)_\w+")
# Names the linker itself adds, and the version node's name.
_MAY_SHOW = re.compile(r"WEFT_\d+|_init|_fini|__bss_start|_edata|_end")


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
        # As docs/embedding.md says.
        run("cmake", "--install", cls.build, "--prefix", cls.folder / "first", "--strip")
        # Used from another place than it was installed to.
        cls.prefix = cls.folder / "moved"
        (cls.folder / "first").rename(cls.prefix)
        cls.library = next(cls.prefix.glob("lib*/**/libweft.so"))
        cls.source = cls.folder / "main.c"
        cls.source.write_text(_PROGRAM)

    def check(self, program, **environment):
        self.assertEqual("1 21\n", run(program, env=dict(os.environ, **environment)))

    def test_module_for_ucx_is_found_beside_the_library(self):
        module = self.library.parent / "libweft_ucx.so"
        if not module.exists():
            self.skipTest("built without UCX")
        shown = [line.split()[-1] for line in run("nm", "-D", "--defined-only", module).splitlines()]
        self.assertEqual(["weft_ucx_module"], [name for name in shown if not _MAY_SHOW.fullmatch(name)])
        said = run(self.prefix / "bin" / "weft_perf", "all_reduce", "--nprocs", "2", "-b", "8", "-e", "8",
                   env=dict(os.environ, WEFT_FAKE_NODES="2", WEFT_TRANSPORT="ucx", WEFT_LOG="info"))
        self.assertIn("data between nodes goes over UCX", said)

    def test_module_for_io_uring_is_installed_and_shows_its_table_only(self):
        module = self.library.parent / "libweft_uring.so"
        if not module.exists():
            self.skipTest("built without io_uring")
        shown = [line.split()[-1] for line in run("nm", "-D", "--defined-only", module).splitlines()]
        self.assertEqual(["weft_uring_module"], [name for name in shown if not _MAY_SHOW.fullmatch(name)])

    def test_pkg_config(self):
        search = dict(os.environ, PKG_CONFIG_PATH=str(self.library.parent / "pkgconfig"))
        flags = run("pkg-config", "--cflags", "--libs", "weft", env=search).split()
        program = self.folder / "by_pkg_config"
        run("cc", "-std=c99", "-Wall", "-Werror", self.source, "-o", program, *flags)
        self.check(program, LD_LIBRARY_PATH=str(self.library.parent))

    def test_pkg_config_static(self):
        """Where libweft.so is not, and in a program that has no shared library at all."""
        only_static = self.folder / "only_static"
        shutil.copytree(self.prefix, only_static, symlinks=True)
        for path in only_static.glob("lib*/**/libweft.so*"):
            path.unlink()
        pc = next(only_static.glob("lib*/**/weft.pc"))
        flags = run("pkg-config", "--cflags", "--static", "--libs", "weft", env=dict(os.environ, PKG_CONFIG_PATH=str(pc.parent))).split()
        for name, compiler in (("c", ["cc", "-std=c99"]), ("cxx", ["c++", "-xc", self.source, "-xnone"]),
                               ("all", ["cc", "-static"])):
            with self.subTest(name):
                program = self.folder / f"static_by_{name}"
                # The linker warns about getaddrinfo in a program that is static altogether.
                run(*compiler, *([] if self.source in compiler else [self.source]), "-o", program, *flags)
                self.check(program)
                self.assertNotIn("libweft", subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                                   text=True, check=False).stdout)

    def test_cmake_shared_and_static(self):
        for language, suffix, text in (("C", "c", _PROGRAM), ("CXX", "cc", _CXX_PROGRAM)):
            with self.subTest(language):
                project = self.folder / language
                project.mkdir()
                (project / "CMakeLists.txt").write_text(_PROJECT % (language, suffix))
                (project / f"main.{suffix}").write_text(text)
                run("cmake", "-S", project, "-B", project / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={self.prefix}")
                run("cmake", "--build", project / "build")
                self.check(project / "build" / "with_weft")
                self.check(project / "build" / "with_weft_static")
                self.assertNotIn("libweft", run("ldd", project / "build" / "with_weft_static"))

    def test_nothing_is_larger_than_its_code(self):
        """What is installed has no debug information; of the archive only names that are linked with are left."""
        binaries = [self.library.resolve(), self.library.with_suffix(".a"), *(self.prefix / "bin").iterdir()]
        self.assertGreaterEqual(len(binaries), 3)
        for binary in binaries:
            with self.subTest(binary.name):
                self.assertNotIn(".debug_info", run("readelf", "-WS", binary))
        total = sum(binary.stat().st_size for binary in binaries)
        self.assertLess(total, 40 << 20, {binary.name: binary.stat().st_size for binary in binaries})

    def test_the_page_on_embedding_says_how(self):
        page = (_EXPORTS.parents[2] / "docs" / "embedding.md").read_text()
        self.assertIn("cmake --install build/release --prefix /opt/weft --strip\n", page)

    def test_every_header_is_installed(self):
        there = {path.name for path in (self.prefix / "include" / "weft").iterdir()}
        self.assertEqual({path.name for path in (_EXPORTS.parents[2] / "include" / "weft").glob("*.h*")}, there)

    def test_installed_program_finds_its_library(self):
        for name in ("weftrun", "weft_perf"):
            program = self.prefix / "bin" / name
            if program.exists():
                self.assertNotIn("not found", run("ldd", program))
                run(program, "--help")

    def test_library_shows_what_the_headers_declare(self):
        lines = run("nm", "-D", "--defined-only", self.library).splitlines()
        names = {line.split()[-1].split("@")[0] for line in lines} - {""}
        shown = {name for name in names if not _MAY_SHOW.fullmatch(name)}
        declared = set(_EXPORTS.read_text().split())
        self.assertGreater(len(declared), 50)
        self.assertEqual([], sorted(declared - shown), "declared in include/weft and not in libweft.so")
        self.assertEqual([], sorted(shown - declared), "in libweft.so and not declared; after a change of headers run ./dev docs")

    def test_archive_shows_what_the_headers_declare(self):
        archive = run("nm", "-g", "--defined-only", self.library.with_suffix(".a"))
        defined = [line.split() for line in archive.splitlines() if len(line.split()) == 3]
        # "u" are symbols that a whole program shares anyway.
        shown = {name for _, kind, name in defined if kind != "u"}
        declared = set(_EXPORTS.read_text().split())
        self.assertEqual([], sorted(declared - shown), "declared in include/weft and not in libweft.a")
        self.assertEqual([], sorted(shown - declared), "in libweft.a and not declared")

    def test_library_needs_little(self):
        needed = re.findall(r"\(NEEDED\).*\[(.+)\]", run("readelf", "-d", self.library))
        self.assertTrue(needed)
        self.assertEqual([], [name for name in needed if not _MAY_NEED.fullmatch(name)])
        self.assertIn("[libweft.so.0]", run("readelf", "-d", self.library))

    def test_thread_local_storage_is_small(self):
        """It is of the kind that all libraries of a process share 1.5 KB of (docs/abi.md)."""
        segments = re.findall(r"^\s*TLS\s+(.*)", run("readelf", "-lW", self.library), re.MULTILINE)
        self.assertEqual(1, len(segments))
        memory_bytes = int(segments[0].split()[4], 16)
        self.assertGreater(memory_bytes, 0)
        self.assertLessEqual(memory_bytes, 64)

    def test_no_libcrypto_is_needed(self):
        """What is used of it is inside, and no other copy in the program takes its place."""
        for binary in (self.library, self.library.with_suffix(".a")):
            with self.subTest(binary.name):
                dynamic = ["-D"] if binary is self.library else ["-g"]
                names = {line.split()[-1].split("@")[0] for line in run("nm", *dynamic, binary).splitlines() if line.strip()}
                self.assertEqual([], sorted(name for name in names if _OF_LIBCRYPTO.fullmatch(name)))


if __name__ == "__main__":
    Install.build = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
