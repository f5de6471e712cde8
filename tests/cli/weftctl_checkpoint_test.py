"""weftctl checkpoint: what it says of checkpoints, and that what goes out as one file comes in again."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import launched
from launched import LaunchedTest

write_checkpoint = None  # the program, from the command line

# Of tests/shard/checkpoint/made_up_state.cc.
TENSORS = {"embed.weight": ("BF16", [1000, 3]), "blocks.0.weight": ("F32", [7, 1000]), "blocks.0.scale": ("F32", []),
           "blocks.0.mask": ("BOOL", [5]), "none": ("F32", [0, 4]), 'head "quoted" \n é': ("F64", [1001])}
# All types of the format whose elements have bytes of their own.
SIZES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E5M2": 1, "F8_E4M3": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1, "F8_E5M2FNUZ": 1, "I16": 2, "U16": 2, "F16": 2,
         "BF16": 2, "I32": 4, "U32": 4, "F32": 4, "C64": 8, "F64": 8, "I64": 8, "U64": 8}


def read_header(path):
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length])


def read_safetensors(path):
    """By name: type, shape and bytes; strict, as the format's page has it."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    body, tensors, end = data[8 + length:], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = entry["data_offsets"]
        count = 1
        for dimension in entry["shape"]:
            count *= dimension
        assert first == end and last - first == count * SIZES[entry["dtype"]], (name, entry)
        assert first % SIZES[entry["dtype"]] == 0, (name, entry)
        tensors[name] = (entry["dtype"], entry["shape"], body[first:last])
        end = last
    assert end == len(body)
    return tensors


def write_safetensors(path, tensors, metadata=None):
    """In the order given, which need not be aligned."""
    header, end = {"__metadata__": metadata} if metadata else {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


def crc32c(data):
    """As the format's page has it."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


class Checkpoint(LaunchedTest):
    def setUp(self):
        super().setUp()
        self._directory = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self._directory.name)
        self.saved = self.root / "checkpoints"

    def tearDown(self):
        self._directory.cleanup()
        super().tearDown()

    def save(self, ranks=3, step=7, run=0, directory=None):
        subprocess.run([write_checkpoint, directory or self.saved, str(ranks), str(step), str(run)], check=True, timeout=60)

    def ask(self, *arguments):
        """Lines of stdout of a command that succeeds without a word on stderr."""
        code, out, err = self.run_to_end("checkpoint", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def refuse(self, *arguments):
        code, out, err = self.run_to_end("checkpoint", *arguments)
        self.assertEqual((2, [], 1), (code, out, len(err)), err)
        return err[0]

    def flip(self, path, at=-1):
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(data)

    def test_list_marks_the_latest_and_what_is_none(self):
        self.save(ranks=3, step=7)
        self.save(ranks=2, step=9)
        self.save(ranks=1, step=3, run=1)
        self.save(ranks=1, step=4, run=1)
        self.save(ranks=1, step=5, run=1)
        (self.saved / "step-00000004.r1/manifest.json").unlink()
        self.flip(self.saved / "step-00000005.r1/manifest.json", 20)
        listed = json.loads("\n".join(self.ask("list", "--json", self.saved)))
        self.assertEqual((1, str(self.saved)), (listed["version"], listed["directory"]))
        rows = listed["checkpoints"]
        self.assertEqual([(7, 0, 3, 6), (9, 0, 2, 6), (3, 1, 1, 6), (4, 1, None, None), (5, 1, None, None)],
                         [(row["step"], row["run"], row["ranks"], row["tensors"]) for row in rows])
        self.assertEqual([True, True, True, False, True], [row["committed"] for row in rows])
        self.assertEqual([False, False, True, False, False], [row["latest"] for row in rows])
        self.assertEqual([False] * 4 + [True], [row["problem"] is not None for row in rows])
        for row in rows:
            self.assertEqual(sum(file.stat().st_size for file in pathlib.Path(row["path"]).iterdir()), row["file_bytes"])
        lines = self.ask("list", self.saved)
        self.assertEqual(1 + 5, len(lines))
        self.assertTrue(lines[3].endswith("step-00000003.r1  latest"), lines)
        self.assertTrue(lines[4].endswith("not committed"), lines)
        self.assertRegex(lines[5], "damaged: .*manifest.json")

    def test_show_has_tensors_cuts_numbers_and_values(self):
        self.save(ranks=3)
        for path in (self.saved, self.saved / "step-00000007"):
            shown = json.loads("\n".join(self.ask("show", path, "--json")))
            self.assertEqual((1, 7, 3, 3), (shown["version"], shown["step"], shown["ranks"], shown["config_bytes"]))
            self.assertEqual(TENSORS, {one["name"]: (one["dtype"], one["shape"]) for one in shown["tensors"]})
            embed = shown["tensors"][0]
            self.assertEqual(["value", "main", "moment1", "moment2"], embed["kinds"])
            self.assertEqual([{"rank": rank, "begin": 1000 * rank, "end": 1000 * (rank + 1)} for rank in range(3)], embed["cuts"])
            self.assertEqual([{"name": "rng", "rank": None, "bytes": 10}, {"name": "large", "rank": None, "bytes": 1500}], shown["values"])
            self.assertEqual([], shown["optimizers"])  # no context has made it
            self.assertEqual({(False, None)}, {(one["frozen"], one["optimizer"]) for one in shown["tensors"]})
            self.assertEqual([("", 10, 12)], [(one["context"], one["update_count"], one["steps_begun"]) for one in shown["scalars"]])
        lines = self.ask("show", self.saved)
        self.assertRegex(lines[0], r"step-00000007: step 7, saved by 3 ranks; 6 tensors, [\d.]+ kB in all states$")
        self.assertIn("tensor embed.weight: BF16 [1000, 3]; value main moment1 moment2; cuts 0:[0:1000) 1:[1000:2000) 2:[2000:3000)", lines)
        self.assertTrue(any(line.startswith('tensor head "quoted" ? é: F64 [1001]; value; cuts') for line in lines), lines)
        self.assertIn("value rng: of all ranks, 10 bytes", lines)

    def test_verify_finds_every_damage(self):
        self.save(ranks=2, step=7)
        self.save(ranks=2, step=8)
        lines = self.ask("verify", self.saved)
        self.assertEqual(2, len(lines))
        self.assertTrue(all(": whole; 6 tensors, " in line for line in lines), lines)
        damaged = self.saved / "step-00000008"
        for file in sorted(damaged.iterdir()):
            for at in (0, file.stat().st_size // 2, -1):
                with self.subTest(f"{file.name} at {at}"):
                    self.flip(file, at)
                    code, out, err = self.run_to_end("checkpoint", "verify", damaged)
                    self.flip(file, at)
                    self.assertEqual((1, 1, []), (code, len(out), err))
                    self.assertRegex(out[0], f"^{damaged}: damaged: .*{file.name}")
        (damaged / "rank-00001.safetensors").unlink()
        code, out, err = self.run_to_end("checkpoint", "verify", self.saved)
        self.assertEqual((1, 2, []), (code, len(out), err))
        self.assertIn("whole", out[0])
        self.assertIn("rank-00001.safetensors", out[1])
        self.assertEqual(1, len(self.ask("verify", self.saved / "step-00000007")))

    def test_exports_are_the_same_whoever_saved(self):
        first = None
        for ranks in (1, 2, 3, 5, 8):
            directory, file = self.root / f"of{ranks}", self.root / f"{ranks}.safetensors"
            self.save(ranks=ranks, directory=directory)
            (line,) = self.ask("export", directory, "--to", file)
            self.assertRegex(line, rf"^{file}: 6 tensors, [\d.]+ kB, of {directory}/step-00000007$")
            tensors = read_safetensors(file)
            self.assertEqual(TENSORS, {name: (dtype, shape) for name, (dtype, shape, _) in tensors.items()})
            first = first or tensors
            self.assertEqual(first, tensors)

    def test_what_is_imported_is_exported(self):
        self.save()
        exported, again = self.root / "a.safetensors", self.root / "b.safetensors"
        self.ask("export", self.saved, "--to", exported)
        (line,) = self.ask("import", exported, self.saved)
        self.assertTrue(line.startswith(f"{self.saved}/step-00000000.r1: 6 tensors, "), line)
        self.assertIn("whole", self.ask("verify", f"{self.saved}/step-00000000.r1")[0])
        self.ask("export", self.saved, "--to", again)  # the latest is what was imported
        self.assertEqual(read_safetensors(exported), read_safetensors(again))

    def test_imports_what_other_programs_write(self):
        theirs = {"b.bias": ("F16", [3], os.urandom(6)), "a": ("U8", [1], b"x"), "w": ("F32", [2, 2], os.urandom(16)),
                  "s": ("I64", [], os.urandom(8)), "none": ("F32", [0], b"")}
        file, back = self.root / "theirs.safetensors", self.root / "back.safetensors"
        theirs.update({f"all.{dtype}": (dtype, [5], os.urandom(5 * size)) for dtype, size in SIZES.items()})
        write_safetensors(file, theirs, {"format": "pt", "license": "é"})
        self.ask("import", file, self.root / "new", "--step", 12)
        self.ask("export", self.root / "new/step-00000012", "--to", back)
        self.assertEqual(theirs, read_safetensors(back))
        self.assertEqual({"format": "pt", "license": "é"}, read_header(back)["__metadata__"])
        shown = json.loads("\n".join(self.ask("show", self.root / "new", "--json")))
        self.assertEqual((12, 1, [], ["__metadata__"]),
                         (shown["step"], shown["ranks"], shown["scalars"], [value["name"] for value in shown["values"]]))
        self.assertEqual({("value",)}, {tuple(one["kinds"]) for one in shown["tensors"]})

    def test_what_is_exported_in_shards_is_imported_by_index_and_folder(self):
        self.save(ranks=3)
        one, folder = self.root / "one.safetensors", self.root / "model"
        self.ask("export", self.saved, "--to", one)
        whole = read_safetensors(one)
        (line,) = self.ask("export", self.saved, "--to", folder, "--shard-size", "10KB")
        self.assertRegex(line, rf"^{folder}: 6 tensors, [\d.]+ kB, in model-00001-of-00003.safetensors to model.safetensors.index.json, of ")
        names = [f"model-{number:05}-of-00003.safetensors" for number in (1, 2, 3)]
        self.assertEqual(sorted([*names, "model.safetensors.index.json"]), sorted(os.listdir(folder)))
        index = json.loads((folder / "model.safetensors.index.json").read_text())
        self.assertEqual({"total_size": sum(len(data) for _, _, data in whole.values())}, index["metadata"])
        self.assertEqual(set(whole), set(index["weight_map"]))
        for name in names:
            self.assertEqual({"format": "pt"}, read_header(folder / name)["__metadata__"])
            tensors = read_safetensors(folder / name)
            self.assertEqual({tensor for tensor, file in index["weight_map"].items() if file == name}, set(tensors))
            self.assertTrue(len(tensors) == 1 or sum(len(data) for _, _, data in tensors.values()) <= 10_000)
        # As in a cache, whose files are links to where they are.
        linked = self.root / "linked"
        linked.mkdir()
        for name in os.listdir(folder):
            (linked / name).symlink_to(folder / name)
        for number, source in enumerate((folder, folder / "model.safetensors.index.json", linked)):
            back = self.root / f"back{number}.safetensors"
            (line,) = self.ask("import", source, self.root / f"new{number}")
            self.assertTrue(line.endswith(f", of {source} (3 files)"), line)
            self.ask("export", self.root / f"new{number}", "--to", back)
            self.assertEqual(whole, read_safetensors(back))
        # What fits is one file.
        (line,) = self.ask("export", self.saved, "--to", self.root / "fits", "--shard-size", "1MiB")
        self.assertIn("in model.safetensors, of ", line)
        self.assertEqual(["model.safetensors"], os.listdir(self.root / "fits"))
        self.assertEqual(whole, read_safetensors(self.root / "fits/model.safetensors"))
        self.assertIn("exists already", self.refuse("export", self.saved, "--to", folder, "--shard-size", "1MiB"))
        for size in ("0", "-1", "many", "5Q", ""):
            with self.subTest(size):
                self.refuse("export", self.saved, "--to", self.root / "bad", "--shard-size", size or "x")
        self.assertFalse((self.root / "bad").exists())

    def test_hostile_models_are_refused_and_leave_nothing(self):
        model, outside, new = self.root / "model", self.root / "outside.safetensors", self.root / "new"
        model.mkdir()
        write_safetensors(outside, {"secret": ("U8", [1], b"x")})
        write_safetensors(model / "a.safetensors", {"a": ("U8", [2], b"xx"), "b": ("U8", [1], b"x")})
        write_safetensors(model / "b.safetensors", {"c": ("U8", [2], b"xx")})
        index = model / "model.safetensors.index.json"
        for weights, words in (({"secret": "../outside.safetensors"}, ("tensor secret", "../outside.safetensors")),
                               ({"secret": str(outside)}, ("tensor secret", str(outside))),
                               ({"a": "a.safetensors", "c": "none.safetensors"}, ("tensor c", "none.safetensors", "not there")),
                               ({"a": "a.safetensors", "d": "b.safetensors"}, ("tensor d", "b.safetensors", "no such tensor"))):
            with self.subTest(weights):
                index.write_text(json.dumps({"weight_map": weights}))
                refused = self.refuse("import", model, new)
                for word in (str(index), *words):
                    self.assertIn(word, refused)
        write_safetensors(model / "b.safetensors", {"c": ("U8", [2], b"xx"), "a": ("U8", [2], b"yy")})
        index.write_text(json.dumps({"weight_map": {"a": "a.safetensors", "c": "b.safetensors"}}))
        refused = self.refuse("import", model, new)
        for word in ("tensor a is in two files", str(model / "a.safetensors"), str(model / "b.safetensors")):
            self.assertIn(word, refused)
        index.unlink()
        (model / "b.safetensors").write_bytes(struct.pack("<Q", 1 << 40) + b"{}")
        self.assertIn(str(model / "b.safetensors"), self.refuse("import", model, new))
        self.assertFalse(new.exists())

    def test_export_passes_over_what_is_damaged(self):
        self.save(step=7)
        self.save(step=8)
        self.flip(self.saved / "step-00000008/rank-00002.safetensors", 8000)
        file = self.root / "a.safetensors"
        code, out, err = self.run_to_end("checkpoint", "export", self.saved, "--to", file)
        self.assertEqual((0, 1, 1), (code, len(out), len(err)), err)
        self.assertTrue(out[0].endswith("step-00000007"), out)
        self.assertRegex(err[0], "step-00000008 is damaged; trying the one before: .*rank-00002.safetensors")
        file.unlink()
        self.assertIn("rank-00002", self.refuse("export", self.saved / "step-00000008", "--to", file))
        self.assertEqual({"checkpoints"}, set(os.listdir(self.root)))

    def test_pinned_ones_stay_until_they_are_unpinned(self):
        for step in (1, 2, 3, 4):
            self.save(step=step)
        self.assertEqual([f"{self.saved}/step-00000002: pinned"], self.ask("pin", self.saved / "step-00000002"))
        self.assertEqual([f"{self.saved}/step-00000004: pinned"], self.ask("pin", self.saved))  # the latest
        self.ask("pin", self.saved)
        lines = self.ask("list", self.saved)
        self.assertTrue(lines[2].endswith("step-00000002  pinned"), lines)
        self.assertTrue(lines[4].endswith("step-00000004  latest, pinned"), lines)
        rows = json.loads("\n".join(self.ask("list", "--json", self.saved)))["checkpoints"]
        self.assertEqual([False, True, False, True], [row["pinned"] for row in rows])
        self.assertEqual([f"{self.saved}/step-0000000{step}: removed" for step in (1, 3)], self.ask("prune", self.saved, "--keep-last", 1))
        self.assertEqual([], self.ask("prune", self.saved, "--keep-last", 1))
        self.assertEqual([f"{self.saved}/step-00000002: not pinned"], self.ask("unpin", self.saved / "step-00000002"))
        self.ask("unpin", self.saved / "step-00000002")
        self.assertIn("whole", self.ask("verify", self.saved / "step-00000002")[0])
        self.ask("prune", self.saved, "--keep-last", 1)
        self.assertEqual(["step-00000004"], os.listdir(self.saved))

    def test_prune_removes_what_is_outdated_and_what_failed_saves_have_left(self):
        for step in range(1, 7):
            self.save(step=step)
        (self.saved / "step-00000003/manifest.json").unlink()
        self.assertEqual([f"{self.saved}/step-00000003: removed"], self.ask("prune", self.saved))
        (self.saved / "step-00000001/eval").mkdir()
        code, out, err = self.run_to_end("checkpoint", "prune", self.saved, "--keep-last", 1, "--keep-every", 4)
        self.assertEqual((2, [f"{self.saved}/step-0000000{step}: removed" for step in (2, 5)], 1), (code, out, len(err)))
        self.assertIn("step-00000001 has eval in it", err[0])
        self.assertEqual({f"step-0000000{step}" for step in (1, 4, 6)}, set(os.listdir(self.saved)))
        self.assertIn("whole", self.ask("verify", self.saved / "step-00000001")[0])
        # Beside one that cannot be read nothing is outdated.
        self.flip(self.saved / "step-00000006/manifest.json", 20)
        self.assertIn("manifest.json", self.refuse("prune", self.saved, "--keep-last", 1))
        self.assertEqual({f"step-0000000{step}" for step in (1, 4, 6)}, set(os.listdir(self.saved)))

    def test_prune_is_refused_while_a_job_saves_there(self):
        self.save()
        text = {"format": "weft-checkpoint-lock", "version": 1, "token": "00000000000000aa", "host": "here", "boot_id": self.boot_id(),
                "pid_namespace": os.readlink("/proc/self/ns/pid"), "pid": os.getpid(), "start_time": self.start_time(), "job": "slurm-17.0"}
        self.lock(text)
        refusal = self.refuse("prune", self.saved, "--keep-last", 1)
        self.assertIn(f"another job saves in {self.saved}: process {os.getpid()} on host here of job slurm-17.0, which lives", refusal)
        file = self.root / "a.safetensors"
        write_safetensors(file, {"a": ("F32", [1], b"four")})
        self.assertIn("another job saves in", self.refuse("import", file, self.saved))
        # Of a process that has ended: its number is another one's now.
        self.lock({**text, "start_time": text["start_time"] + 1})
        self.assertEqual([], self.ask("prune", self.saved, "--keep-last", 1))
        self.assertEqual(["step-00000007"], os.listdir(self.saved))

    def lock(self, members):
        text = json.dumps(members, separators=(",", ":"))[:-1]
        (self.saved / "lock.json").write_text(f'{text},"crc32c":"{crc32c(text.encode()):08x}"}}\n')

    @staticmethod
    def boot_id():
        return pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    @staticmethod
    def start_time():
        return int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])

    def test_bad_command_lines_and_files(self):
        self.save()
        file = self.root / "a.safetensors"
        file.write_bytes(b"mine")
        new, none = self.root / "new", self.root / "none"
        for arguments, word in (
                ((), "subcommand"), (("list",), "DIR"), (("list", none), f"no checkpoint in {none}"), (("list", file), "a.safetensors"),
                (("show", none), "no checkpoint"), (("verify", self.root), "no checkpoint"), (("export", self.saved), "--to"),
                (("export", self.saved, "--to", file), "exists already"), (("export", self.saved, "--to", none / "x"), str(none)),
                (("export", none, "--to", file), "no checkpoint"), (("import", file), "DIR"), (("import", none, new), str(none)),
                (("import", file, new), "cannot be read as safetensors"), (("import", self.saved, new), str(self.saved)),
                (("pin", none), f"no checkpoint in {none}"), (("unpin", self.root), "no checkpoint"), (("prune",), "DIR"),
                (("prune", none), f"no checkpoint in {none}"), (("prune", self.saved, "--keep-last", "-1"), "--keep-last is -1"),
                (("import", file, new, "--step", "x"), "--step")):
            with self.subTest(arguments):
                self.assertIn(word, self.refuse(*arguments))
        self.assertEqual(b"mine", file.read_bytes())
        self.assertEqual({"checkpoints", "a.safetensors"}, set(os.listdir(self.root)))
        write_safetensors(file, {"a": ("I16", [1], b"xx")})
        self.assertIn("steps are 0 to 2^53", self.refuse("import", file, new, "--step", "-1"))
        write_safetensors(file, {"a.b": ("F4", [4], b"xx")})
        self.assertRegex(self.refuse("import", file, new), f'{file}.*tensor a.b of type "F4"')


if __name__ == "__main__":
    write_checkpoint = sys.argv.pop(2)
    launched.main()
