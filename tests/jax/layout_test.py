"""The structs of bindings/xla/ffi.h against the header that comes with JAX: the same places, the same numbers.

What ours declares is what the oldest version has; the newest may append.
"""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from jax_ranks import ROOT, main, ranks

# Ours -> theirs, and the fields in their order.
_STRUCTS = {
    ("Extension", "XLA_FFI_Extension_Base"): {"struct_size": "struct_size", "type": "type", "next": "next"},
    ("MetadataExtension", "XLA_FFI_Metadata_Extension"): {"metadata": "metadata"},
    ("Metadata", "XLA_FFI_Metadata"): {"version": "api_version", "traits": "traits"},
    ("Version", "XLA_FFI_Api_Version"): {"major": "major_version", "minor": "minor_version"},
    ("Buffer", "XLA_FFI_Buffer"): {"type": "dtype", "data": "data", "rank": "rank", "dims": "dims"},
    ("Buffers", "XLA_FFI_Args"): {"size": "size", "kinds": "types", "items": "args"},
    ("Buffers", "XLA_FFI_Rets"): {"size": "size", "kinds": "types", "items": "rets"},
    ("Attributes", "XLA_FFI_Attrs"): {"size": "size", "kinds": "types", "names": "names", "items": "attrs"},
    ("Span", "XLA_FFI_ByteSpan"): {"data": "ptr", "size": "len"},
    ("Scalar", "XLA_FFI_Scalar"): {"type": "dtype", "value": "value"},
    ("ErrorArguments", "XLA_FFI_Error_Create_Args"): {"message": "message", "code": "errc"},
    ("Api", "XLA_FFI_Api"): {"version": "api_version", "internal": "internal_api", "create_error": "XLA_FFI_Error_Create"},
    ("::XLA_FFI_CallFrame", "XLA_FFI_CallFrame"): {"struct_size": "struct_size", "extensions": "extension_start", "api": "api", "context": "ctx", "stage": "stage",
                                                   "operands": "args", "results": "rets", "attributes": "attrs"},
}
_NUMBERS = {"kMetadataExtension": "XLA_FFI_Extension_Metadata", "kBufferKind": "XLA_FFI_ArgType_BUFFER", "kScalarKind": "XLA_FFI_AttrType_SCALAR",
            "kExecuteStage": "XLA_FFI_ExecutionStage_EXECUTE"}


def printed(folder, name, includes, includes_from, expressions):
    """What a program of C++ prints of the expressions."""
    source, program = folder / f"{name}.cc", folder / name
    source.write_text("#include <cstddef>\n#include <cstdio>\n" + includes + "int main() {\n"
                      + "".join(f'  std::printf("%ld\\n", static_cast<long>({expression}));\n' for expression in expressions) + "}\n")
    done = subprocess.run(["g++", "-std=c++20", "-w", *(f"-I{path}" for path in includes_from), source, "-o", program], capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(done.stderr)
    return subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()


class Layout(unittest.TestCase):
    def test_it_is_that_of_this_jax(self):
        if shutil.which("g++") is None:
            self.skipTest("there is no g++")
        types = re.findall(r"^  k(\w+) = \d+,", (ROOT / "bindings" / "xla" / "ffi.h").read_text(), re.MULTILINE)
        header = (ranks.packages / "jaxlib" / "include" / "xla" / "ffi" / "api" / "c_api.h").read_text()
        known = [name for name in types if f"XLA_FFI_DataType_{name.upper()}" in header]
        self.assertGreater(len(known), 15)
        ours, theirs = [], []
        for (our, their), fields in _STRUCTS.items():
            ours += [f"offsetof({our}, {field})" for field in fields]
            theirs += [f"offsetof({their}, {field})" for field in fields.values()]
        ours += [*_NUMBERS, *(f"ElementType::k{name}" for name in known)]
        theirs += [*_NUMBERS.values(), *(f"XLA_FFI_DataType_{name.upper()}" for name in known)]
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            here = printed(folder, "ours", '#include "bindings/xla/ffi.h"\nusing namespace weft::xla;\n', [ROOT, ROOT / "include"], ours)
            there = printed(folder, "theirs", '#include "xla/ffi/api/c_api.h"\n', [ranks.packages / "jaxlib" / "include"], theirs)
        self.assertEqual(dict(zip(ours, here)), dict(zip(ours, there)))
        self.assertEqual(len(ours), len(here))


if __name__ == "__main__":
    main()
