"""The safetensors package, which defines the format, reads what is exported and each rank's file: the names, shapes, types and bytes
that weftctl lists. And weftctl imports what the package writes. Without the package (./dev setup) the test is skipped."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import launched
from launched import LaunchedTest

_SKIPPED = 77  # as CMake knows it
# Of the package, by those of the files.
_TYPE_NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32", "U8": "uint8", "BOOL": "bool"}
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "U8": 1, "BOOL": 1}
_MAIN_STATES = ("main", "moment1", "moment2")  # float32, but those of float64 tensors

write_checkpoint = None  # the program, from the command line


def read_all(path):
    """By name: type, shape, bytes; by the package's two readers, which must agree. numpy has no bfloat16: of that the first one has the bytes."""
    tensors = {name: (tensor["dtype"], tensor["shape"], bytes(tensor["data"])) for name, tensor in safetensors.deserialize(path.read_bytes())}
    with safetensors.safe_open(str(path), "np") as opened:
        assert set(opened.keys()) == set(tensors), path
        for name, (dtype, shape, data) in tensors.items():
            piece = opened.get_slice(name)
            assert (piece.get_dtype(), piece.get_shape()) == (dtype, shape), (path, name)
            if dtype != "BF16":
                values = opened.get_tensor(name)
                assert (values.tobytes(), values.dtype, list(values.shape)) == (data, numpy.dtype(_TYPE_NAMES[dtype]), shape), (path, name)
    return tensors


class SafetensorsPackage(LaunchedTest):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)

    def ask(self, *arguments):
        code, out, err = self.run_to_end("checkpoint", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def compare(self, checkpoint):
        """All files of a checkpoint with what weftctl lists of it; returns what is exported of it."""
        shown = json.loads("\n".join(self.ask("show", "--json", checkpoint)))
        files = [read_all(pathlib.Path(checkpoint, f"rank-{rank:05}.safetensors")) for rank in range(shown["ranks"])]
        exported_file = self.root / f"{checkpoint.name}.safetensors"
        self.ask("export", checkpoint, "--to", exported_file)
        exported = read_all(exported_file)
        self.assertEqual({tensor["name"]: (tensor["dtype"], tensor["shape"]) for tensor in shown["tensors"]},
                         {name: (dtype, shape) for name, (dtype, shape, _) in exported.items()})
        listed = [set() for _ in files]
        for tensor in shown["tensors"]:
            for kind in tensor["kinds"]:
                dtype = "F32" if kind in _MAIN_STATES and tensor["dtype"] != "F64" else tensor["dtype"]
                whole = b""
                for cut in tensor["cuts"]:
                    name = f"{tensor['name']}@{kind}[{cut['begin']}:{cut['end']})"
                    listed[cut["rank"]].add(name)
                    found, shape, data = files[cut["rank"]][name]
                    self.assertEqual((dtype, [cut["end"] - cut["begin"]]), (found, shape), name)
                    self.assertEqual(shape[0] * _BYTES[dtype], len(data), name)
                    whole += data
                if kind == "value":
                    self.assertEqual(exported[tensor["name"]][2], whole, tensor["name"])
        self.assertEqual(listed, [set(file) for file in files])
        return exported

    def test_reads_what_any_number_of_ranks_has_written(self):
        exported = None
        for ranks in (1, 2, 5):
            directory = self.root / f"of{ranks}"
            subprocess.run([write_checkpoint, directory, str(ranks), "7", "0"], check=True, timeout=launched.DEADLINE_S)
            tensors = self.compare(directory / "step-00000007")
            (self.root / "step-00000007.safetensors").unlink()
            self.assertLessEqual({"BF16", "F32", "F64", "BOOL"}, {dtype for dtype, _, _ in tensors.values()})
            exported = exported or tensors
            self.assertEqual(exported, tensors)

    def test_what_it_writes_is_imported_and_reads_the_same(self):
        written = {}
        for number, (short, name) in enumerate(sorted(_TYPE_NAMES.items())):
            for shape in ([], [3], [2, 5], [0, 4]):
                count = 1
                for dimension in shape:
                    count *= dimension
                data = os.urandom(count * _BYTES[short]) if short != "BOOL" else bytes(i % 2 for i in range(count))
                written[f"{name}.{len(shape)}.{count} {number}"] = (short, shape, data)
        file = self.root / "theirs.safetensors"
        safetensors.serialize_file({name: {"dtype": _TYPE_NAMES[short], "shape": shape, "data": data}
                                    for name, (short, shape, data) in written.items()}, str(file), {"format": "np"})
        self.assertEqual(written, read_all(file))
        self.ask("import", file, self.root / "imported", "--step", 3)
        self.assertEqual(written, self.compare(self.root / "imported" / "step-00000003"))

    def test_its_own_arrays_come_back(self):
        theirs = {"w": numpy.arange(12, dtype=numpy.float32).reshape(3, 4), "i": numpy.arange(5), "s": numpy.float64(3).reshape(()),
                  "h": numpy.linspace(-2, 2, 9).astype(numpy.float16)}
        file, back = self.root / "theirs.safetensors", self.root / "back.safetensors"
        safetensors.numpy.save_file(theirs, str(file))
        self.ask("import", file, self.root / "new")
        self.ask("export", self.root / "new", "--to", back)
        again = safetensors.numpy.load_file(str(back))
        self.assertEqual(sorted(theirs), sorted(again))
        for name, values in theirs.items():
            numpy.testing.assert_array_equal(values, again[name])
            self.assertEqual(values.dtype, again[name].dtype)


if __name__ == "__main__":
    sys.path.insert(0, sys.argv.pop(3))
    write_checkpoint = sys.argv.pop(2)
    try:
        import numpy
        import safetensors.numpy
    except ImportError as missing:
        print(f"SKIPPED: {missing}; ./dev setup installs what tests/requirements.txt lists", file=sys.stderr)
        sys.exit(_SKIPPED)
    launched.main()
