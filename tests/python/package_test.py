"""The package as such: what importing it takes, which library it accepts, its types for mypy, its launcher, its document."""
import ast
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import unittest
from unittest import mock

import ranks
from ranks import RanksTest, launched

_DOCUMENT = ranks.ROOT / "docs" / "python.md"


def python(*arguments, cwd=None, **environment):
    return subprocess.run([sys.executable, "-B", *map(str, arguments)], env={**ranks.environment(), **environment}, capture_output=True, text=True,
                          timeout=launched.DEADLINE_S, check=False, cwd=cwd)


class Package(RanksTest):
    maxDiff = None
    def test_import_takes_little_with_it(self):
        done = python("-c", "import sys; before = set(sys.modules); import weft; print(*sorted(set(sys.modules) - before))")
        self.assertEqual(0, done.returncode, done.stderr)
        came = {name.split(".")[0] for name in done.stdout.split()}
        self.assertFalse(came & {"numpy", "asyncio", "torch", "ml_dtypes", "inspect", "dataclasses", "subprocess", "multiprocessing", "unittest"}, came)

    def test_modules_import_earlier_ones_only(self):
        order = ["_capi", "_library", *(f"core.{name}" for name in (
            "interrupt", "errors", "types", "dlpack", "arrays", "streams", "devices", "buffers", "pairs", "reductions", "calls", "completions", "batch", "work", "operations", "quick", "group",
            "collectives", "vectors", "lists", "messages", "bound", "shared", "memory", "reports", "probes", "members", "stores", "communicator", "config")), "__init__",
                 *(f"shard.{name}" for name in ("callbacks", "handles", "structs", "enums", "records", "arrays", "mesh", "policy", "allocator", "optimizer", "param", "unit",
                                                "step", "context", "__init__")), "checkpoint",
                 *(f"torch.{name}" for name in ("abort_hooks", "refusals", "tensors", "coalescing", "events", "works", "memory", "sparse", "collectives", "extension", "build_ext", "stores", "monitored_barrier", "nan_check", "membership", "groups", "ddp", "fsdp",
                                                "sharding.copies", "sharding.wrapping", "sharding.guards", "sharding.params", "sharding.passing", "sharding.turns", "sharding.layout", "sharding.states", "sharding.optimizers", "sharding.steps", "sharding.units", "sharding.manager", "sharding.__init__", "tracing", "__init__")),
                 *(f"jax.{name}" for name in ("versions", "order", "interruption", "groups", "elements", "operation", "collectives", "messages", "__init__")), "run"]
        files = {path.relative_to(ranks.SOURCE / "weft").with_suffix("").as_posix().replace("/", "."): path.read_text()
                 for path in (ranks.SOURCE / "weft").rglob("*.py")}
        self.assertEqual(sorted(files), sorted([*order, "core.__init__"]))
        for place, name in enumerate(order):
            for module, names in re.findall(r"^from weft\.?(\S*) import (.*)$", files[name], re.MULTILINE):
                # A name is a module of that package, or stands in that module or package.
                for word in names.split(", "):
                    other = ".".join(filter(None, (module, word.split(" as ")[0])))
                    found = next(known for known in (other, module, f"{module}.__init__".lstrip(".")) if known in files)
                    self.assertIn(found, order[:place], f"{name} imports {other}")

    def test_library_of_another_version_is_refused(self):
        import weft
        from weft import _capi, _library
        other = type("weft_call_t", (ctypes.Structure,), {"_fields_": [("struct_size", ctypes.c_size_t)]})
        with mock.patch.dict(_capi.STRUCTS, weft_call_t=other), mock.patch.object(_capi, "WEFT_VERSION_STRING", "7.8.9"):
            with self.assertRaisesRegex(ImportError, r"the package is of version 7\.8\.9, but .*libweft\.so\.0[.0-9]* of version 0\.\d+\.\d+: weft_call_t has \d+ bytes there and 8 here"):
                _library._load(_library.PATH)
        self.assertEqual(_library.version_text(_library.library.weft_version()), weft.__version__)

    def test_missing_and_foreign_libraries_are_named(self):
        for path, sentence in ((self.folder, "libweft.so.0 is not there; WEFT_LIBRARY_PATH is"), (self.folder / "x.so", "x.so is not there"),
                               ("", "is not there; WEFT_LIBRARY_PATH may name it"), (pathlib.Path(__file__), "cannot be loaded as weft .*: ")):
            done = python("-c", "import weft", WEFT_LIBRARY_PATH=str(path))
            self.assertRegex(done.stderr.splitlines()[-1], f"^ImportError: weft: .*{sentence}", path)

    def test_all_numbers_have_names(self):
        import weft
        from weft import _capi
        from weft.core import types
        header = (ranks.ROOT / "include" / "weft" / "types.h").read_text()

        def names(enum):
            return re.findall(r"^  WEFT_(\w+) =", header[header.index(f"typedef enum {enum} "):header.index(f"}} {enum}_t;")], re.MULTILINE)

        self.assertEqual(names("weft_result"), [result.name for result in weft.Result])
        self.assertEqual(names("weft_dtype"), [dtype.name for dtype in weft.DType])
        self.assertEqual([name for name in names("weft_op") if "CUSTOM" not in name], [op.name for op in weft.Op])
        for enum in (weft.Result, weft.DType, weft.Op):
            for member in enum:
                self.assertEqual(getattr(_capi, f"WEFT_{member.name}"), member)
        from weft._library import library
        for dtype in weft.DType:
            self.assertEqual(library.weft_dtype_size(dtype), types.ITEM_BYTES[dtype])
            self.assertEqual(library.weft_dtype_name(dtype).decode(), dtype.name.lower())
        for op in weft.Op:
            self.assertEqual(library.weft_op_name(op).decode(), op.name.lower())

    def test_show_config(self):
        done = python("-c", "import weft; weft.show_config()")
        self.assertEqual("", done.stderr)
        self.assertRegex(done.stdout, r"\Aweft 0\.\d+\.\d+, library 0\.\d+\.\d+\nlibrary: /.*libweft\.so\.0[.0-9]*\nmodules beside it: .*\nweftrun: /.*bin/weftrun\nPython: ")

    def test_run(self):
        from weft import run
        launcher = str(run.weftrun())
        for words, expected in (("-n 2 x.py -n 3", f"{launcher} -n 2 {sys.executable} x.py -n 3"), ("-n2 --elastic x.py", f"{launcher} -n2 --elastic {sys.executable} x.py"),
                                ("--nproc-per-node=2 ./x y.py", f"{launcher} --nproc-per-node=2 ./x y.py"), ("-n 2 -- x.py --", f"{launcher} -n 2 -- {sys.executable} x.py --"), ("-h", f"{launcher} -h"), ("-n", f"{launcher} -n"), ("", launcher)):
            self.assertEqual(expected.split(), run.command(words.split()), words)
        path = self.program("say(world.rank, world.size, sys.argv[1:])")
        done = python("-m", "weft.run", "-n", 2, path, "-n", "a b")
        self.assertEqual((0, ["[0] 0 2 ['-n', 'a b']", "[1] 1 2 ['-n', 'a b']"]), (done.returncode, sorted(done.stdout.splitlines())), done.stderr)

    def test_types(self):
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install mypy")
        program = self.folder / "typed.py"
        program.write_text("import weft\nworld = weft.init()\nnothing: None = world.all_reduce(b'')\nwork: weft.Work = world.all_reduce(b'', async_op=True)\n"
                           "source: int = world.recv(b'')\nwork.wait(timeout=0.5)\nreveal_type(work.exception())\nworld.all_reduce(b'', opp='max')\n")
        done = python("-m", "mypy", "--config-file", ranks.ROOT / "pyproject.toml", "--cache-dir", self.folder / "cache", "--python-version", "3.9", ranks.SOURCE / "weft", program)
        lines = [line for line in done.stdout.splitlines() if not re.search(r"note: +(Possible overload|def all_reduce)|^Found|note: Possible", line)]
        self.assertEqual(2, len(lines), done.stdout + done.stderr)
        self.assertIn("weft.core.errors.Error | None", lines[0].replace("Union[weft.core.errors.Error, None]", "weft.core.errors.Error | None"))
        self.assertIn('No overload variant of "all_reduce"', lines[1])

    @unittest.skipUnless(os.environ.get("TEST_CASES") == "all", "takes long: only with TEST_CASES=all")
    def test_types_are_those_at_run_time(self):
        """By mypy's stubtest, for which whatever a module imports is one of its own names. The table of C is compared elsewhere, torch and JAX are not here."""
        if not ranks.has_packages():
            self.skipTest("./dev setup could not install mypy")
        allowed = [r"weft\._capi\..*", r"weft\.(torch|jax)(\..*)?"]
        for path in (ranks.SOURCE / "weft").rglob("*.py"):
            module = ".".join(path.relative_to(ranks.SOURCE).with_suffix("").parts).replace(".__init__", "")
            names = {(name.asname or name.name).split(".")[0] for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, (ast.Import, ast.ImportFrom)) for name in node.names}
            allowed += [rf"{re.escape(module)}\.{name}(\..*)?" for name in names]
        allowlist = self.folder / "allowed.txt"
        allowlist.write_text("\n".join(allowed))
        done = python("-m", "mypy.stubtest", "weft", "--mypy-config-file", ranks.ROOT / "pyproject.toml", "--concise", "--allowlist", allowlist, "--ignore-unused-allowlist",
                      "--ignore-missing-stub", "--ignore-disjoint-bases", cwd=self.folder)
        self.assertEqual((0, ""), (done.returncode, done.stdout), done.stderr)

    def test_programs_of_the_document(self):
        """Each block of Python, those of sharding.md, and README.md's with numpy, as 2 ranks, and what the block of text behind it shows of its output."""
        found = ranks.programs_of(_DOCUMENT)
        self.assertGreaterEqual(len(found), 5)
        of_sharding = ranks.programs_of(_DOCUMENT.with_name("sharding.md"))
        self.assertEqual(3, len(of_sharding))
        found += of_sharding
        of_readme = [program for program in ranks.programs_of(ranks.ROOT / "README.md") if "numpy" in program[0]]
        self.assertEqual(1, len(of_readme))
        found += of_readme
        for code, shown in found:
            if "numpy" in code and not ranks.has_packages():
                continue
            with self.subTest(code):
                path = self.program(code, start="")
                done = python("-m", "weft.run", "-n", 2, path, cwd=self.folder)
                self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
                if shown:
                    self.assertEqual(sorted(shown.splitlines()), sorted(done.stdout.splitlines()))

    def test_document_has_every_name(self):
        import weft
        text = _DOCUMENT.read_text()
        missing = [name for name in weft.__all__ if name not in text and not name.startswith("_")]
        for kind, base in ((weft.Communicator, object), (weft.Work, object), (weft.Error, RuntimeError), (weft.Reduction, int), (weft.Bound, object),
                           (weft.Array, object), (weft.SharedArray, object), (weft.Registration, object), (weft.MemoryInfo, tuple), (weft.Stats, tuple)):
            missing += [f"{kind.__name__}.{name}" for name in {*dir(kind), *getattr(kind, "__annotations__", ())} - {*dir(base)}
                        if not name.startswith("_") and name not in text]
        self.assertEqual([], missing)


if __name__ == "__main__":
    ranks.take_arguments()
    ranks.main()
