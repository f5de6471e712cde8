"""weft/nccl_compat.h in the place of nccl.h: a program for NCCL runs on it, and where NVIDIA's header is found, names,
numbers, layouts and signatures are compared with it."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include"
_DEADLINE_S = 180
# What says which version a header is: the shim says 2.27, so that nobody includes nccl_device.h, and has no patches.
_VERSIONS = {"NCCL_MINOR", "NCCL_PATCH", "NCCL_VERSION_CODE"}
_PROBE = """#include <nccl.h>
#include <cstddef>
#include <cstdio>
template <typename T> const char* Name() { return __PRETTY_FUNCTION__; }
int main() {
%s
}
"""


# Streams are refused by the calls themselves, with a sentence.
_STREAMS = """#include <nccl.h>
#include <stdio.h>
int main(void) {
  ncclComm_t c;
  float x = 1, y;
  cudaStream_t s = (cudaStream_t)(void*)&x;
  if (ncclCommInitAll(&c, 1, NULL)) return 1;
  ncclResult_t r[] = {ncclAllReduce(&x, &y, 1, ncclFloat, ncclSum, c, s), ncclBcast(&x, 1, ncclFloat, 0, c, s),
                      ncclReduce(&x, &y, 1, ncclFloat, ncclSum, 0, c, s), ncclAllGather(&x, &y, 1, ncclFloat, c, s),
                      ncclReduceScatter(&x, &y, 1, ncclFloat, ncclSum, c, s), ncclAlltoAll(&x, &y, 1, ncclFloat, c, s),
                      ncclGather(&x, &y, 1, ncclFloat, 0, c, s), ncclScatter(&x, &y, 1, ncclFloat, 0, c, s),
                      ncclSend(&x, 1, ncclFloat, 0, c, s), ncclRecv(&y, 1, ncclFloat, 0, c, s)};
  for (size_t i = 0; i < sizeof r / sizeof *r; ++i) printf("%d", r[i]);
  return ncclCommDestroy(c);
}
"""


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=_DEADLINE_S, check=False, **options)
    if done.returncode:
        raise AssertionError(f"{' '.join(map(str, command))} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def shim_text():
    return "".join((INCLUDE / "weft" / f"nccl_{part}.h").read_text() for part in ("types", "compat", "calls"))


def probe_lines(text):
    """Statements that print everything about the names that the shim's text defines."""
    macros = set(re.findall(r"^#define (NCCL_(?!SUFFIX\b)[A-Z]\w+)\b(?!\()(?= \S)", text, re.MULTILINE))
    macros -= {"NCCL_CONFIG_INITIALIZER", "NCCL_COMM_NULL", "NCCL_CONFIG_UNDEF_PTR"}
    numbers = macros | set(re.findall(r"\b(nccl[A-Z]\w*) = ", text))
    fields = re.search(r"struct ncclConfig_v22800 \{(.*?)\}", text, re.DOTALL)[1]
    functions = set(re.findall(r"^(?:static inline )?(?:ncclResult_t|const char\*) (nccl\w+)\(", text, re.MULTILINE))
    lines = [f'  std::printf("{name} %lld\\n", (long long){name});' for name in sorted(numbers)]
    lines += [f'  std::printf("ncclConfig_t.{name} %zu\\n", offsetof(ncclConfig_t, {name}));'
              for name in re.findall(r"(\w+);", fields)]
    lines += [f'  std::printf("sizeof {name} %zu\\n", sizeof({name}));'
              for name in ("ncclConfig_t", "ncclUniqueId", "ncclResult_t", "ncclRedOp_t", "ncclDataType_t")]
    lines += ["  ncclConfig_t c = NCCL_CONFIG_INITIALIZER;",
              '  std::printf("config %u %d %d %d %d\\n", c.magic, c.blocking, c.splitShare, c.trafficClass, '
              "c.netName == nullptr && c.commName == nullptr);"]
    lines += [f'  std::printf("{name} %s\\n", Name<decltype(&{name})>());' for name in sorted(functions)]
    return lines, functions


def foreign_headers():
    """Folders that have NVIDIA's nccl.h, with the CUDA headers beside it."""
    homes = [os.environ.get("CUDA_HOME"), *map(str, sorted(pathlib.Path("/usr/local").glob("cuda*"))), "/usr/local", "/usr"]
    found = [pathlib.Path(home) / "include" for home in homes if home]
    return [folder for folder in found if (folder / "nccl.h").exists() and (folder / "cuda_runtime.h").exists()][:1]


class Nccl(unittest.TestCase):
    build = pathlib.Path(".")
    program = pathlib.Path("nccl_program.c")
    bench = []

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "shim").mkdir()
        (cls.folder / "shim" / "nccl.h").write_text("#include <weft/nccl_compat.h>\n")
        cls.with_shim = [f"-I{cls.folder / 'shim'}", f"-I{INCLUDE}"]

    def compile(self, source, name):
        program = self.folder / name
        run("cc", "-std=gnu99", "-Wall", "-Wextra", "-Werror", *self.with_shim, source, "-o", program,
            f"-L{self.build / 'lib'}", "-lweft", "-lpthread", f"-Wl,-rpath,{self.build / 'lib'}")
        return program

    def test_program_for_nccl_runs(self):
        program = self.compile(self.program, "program")
        for mode in ("one", "groups", "threads", "processes"):
            with self.subTest(mode):
                self.assertEqual(f"ok {mode}\n", run(program, mode, env=dict(os.environ, WEFT_TIMEOUT_S="60")))

    def test_program_of_the_document_prints_what_it_says(self):
        page = (ROOT / "docs" / "nccl.md").read_text()
        source = self.folder / "page.c"
        source.write_text(re.search(r"^```c\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1])
        expected = re.search(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)[1]
        self.assertEqual(expected, run(self.compile(source, "page"), env=dict(os.environ, WEFT_TIMEOUT_S="60")))

    def compile_bench(self, name, *flags):
        """A program made as nccl-tests is, over host memory."""
        program = self.folder / name
        run("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{self.bench[0].parent}", *self.with_shim, *flags, *self.bench,
            "-o", program, f"-L{self.build / 'lib'}", "-lweft", "-lpthread", f"-Wl,-rpath,{self.build / 'lib'}")
        return program

    def test_a_benchmark_made_as_nccl_tests_is_finds_nothing_wrong(self):
        program = self.compile_bench("bench")
        names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "sendrecv", "alltoall")
        expected = "".join(f"{name}: 0 wrong out of place, {'0 wrong' if name in names[:4] else 'none'} in place\n" for name in names)
        for threads, devices in ((1, 1), (1, 4), (1, 3), (4, 1), (2, 1)):
            with self.subTest(threads=threads, devices=devices):
                self.assertEqual(expected, run(program, threads, devices, env=dict(os.environ, WEFT_TIMEOUT_S="60")))

    def test_a_program_that_declares_the_last_error_itself_gets_the_sentence(self):
        source = self.folder / "declares.cc"
        source.write_text("#include <nccl.h>\n#include <cstdio>\nextern \"C\" char const* ncclGetLastError(ncclComm_t comm);\n"
                          "int main() { ncclComm_t c; auto sentence = &ncclGetLastError; "
                          "return ncclCommInitAll(&c, -1, NULL) == ncclInvalidArgument && std::puts(sentence(NULL)) < 0; }\n")
        run("c++", "-std=c++17", *self.with_shim, source, "-o", self.folder / "declares", f"-L{self.build / 'lib'}", "-lweft",
            f"-Wl,-rpath,{self.build / 'lib'}")
        self.assertIn("-1", run(self.folder / "declares"))

    def test_streams_are_refused(self):
        source = self.folder / "streams.c"
        source.write_text(_STREAMS)
        self.assertEqual("5" * 10, run(self.compile(source, "streams"), env=dict(os.environ, WEFT_TIMEOUT_S="20")))

    def test_program_is_one_for_nccl(self):
        if not foreign_headers():
            self.skipTest("no nccl.h of NVIDIA's on this machine")
        run("cc", "-std=gnu99", "-fsyntax-only", "-isystem", foreign_headers()[0], self.program)

    def probe(self, name, *where):
        lines, functions = probe_lines(shim_text())
        self.assertGreater(len(functions), 30)
        source = self.folder / f"{name}.cc"
        source.write_text(_PROBE % "\n".join(lines))
        run("c++", "-std=c++17", *where, source, "-o", self.folder / name, f"-L{self.build / 'lib'}",
            "-Wl,--unresolved-symbols=ignore-all", "-Wl,--as-needed", "-lweft", f"-Wl,-rpath,{self.build / 'lib'}")
        return [line for line in run(self.folder / name).splitlines() if line.split()[0] not in _VERSIONS]

    def test_agrees_with_the_header_of_nvidia(self):
        if not foreign_headers():
            self.skipTest("no nccl.h of NVIDIA's on this machine")
        header = pathlib.Path(foreign_headers()[0], "nccl.h").read_text()
        version = ".".join(re.search(rf"define NCCL_{part} (\d+)", header)[1] for part in ("MAJOR", "MINOR"))
        if version != "2.28":
            self.skipTest(f"NVIDIA's nccl.h on this machine is of {version}, the names are those of 2.28")
        theirs = self.probe("theirs", "-isystem", foreign_headers()[0])
        self.assertGreater(len(theirs), 100)
        self.assertEqual(theirs, self.probe("ours", *self.with_shim))

    def test_includes_with_cuda_headers_in_both_orders(self):
        if not foreign_headers():
            self.skipTest("no CUDA headers on this machine")
        names = ["cuda_runtime.h", "weft/nccl_compat.h"]
        for order in (names, names[::-1]):
            source = "".join(f"#include <{name}>\n" for name in order) + "int main(void) { return 0; }\n"
            for language in (("cc", "-std=c11", "-xc"), ("c++", "-std=c++17", "-xc++")):
                with self.subTest(order=order, language=language):
                    run(*language, "-fsyntax-only", "-Wall", "-Werror", f"-I{INCLUDE}", "-isystem", foreign_headers()[0], "-",
                        input=source)

    def test_document_has_every_function(self):
        _, functions = probe_lines(shim_text())
        page = (ROOT / "docs" / "nccl.md").read_text()
        self.assertEqual([], [name for name in sorted(functions) if f"`{name}`" not in page])


if __name__ == "__main__":
    Nccl.build = pathlib.Path(sys.argv.pop(1)).resolve()
    Nccl.program = pathlib.Path(sys.argv.pop(1)).resolve()
    Nccl.bench = [pathlib.Path(sys.argv.pop(1)).resolve() for _ in range(2)]
    unittest.main()
