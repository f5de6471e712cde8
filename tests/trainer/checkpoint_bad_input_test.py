"""Checkpoints that are none for a run, or for anybody: weft_train ends with 2 before the first step, and weftctl too, each with one sentence
that says what is wrong and what to do."""
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

weft_train, weftctl = None, None  # from the command line

_DEADLINE_S = 60
_MODEL = {"--seq": 16, "--layers": 2, "--heads": 3, "--width": 15, "--batch": 12, "--steps": 30, "--eval-every": 0, "--checkpoint-every": 10}
_LATEST = "step-00000020"
# Root may do everything; without this it is a user like others.
_AS_A_USER = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-dac_override,-dac_read_search")


def crc32c(data):
    """Bit by bit: the texts are small."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def change_manifest(checkpoint, change):
    """As a program would that writes the format: the checksum is that of what was changed."""
    path = checkpoint / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest["crc32c"]
    change(manifest)
    text = json.dumps(manifest, separators=(",", ":"))[:-1]
    path.write_text(f'{text},"crc32c":"{crc32c(text.encode()):08x}"}}\n')


def write_safetensors(path, tensors):
    """{name: (dtype, shape, bytes)}"""
    header, end = {}, 0
    for name, (dtype, shape, count) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + count]}
        end += count
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end if end < 1 << 30 else 0))


class CheckpointBadInputTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.root = pathlib.Path(directory.name)
        cls.write_text("text", 5000)
        done = cls.train("--name", "good", "--steps", "20")
        assert done.returncode == 0, done.stderr

    @classmethod
    def write_text(cls, name, words):
        generator = random.Random(words)
        (cls.root / name).write_text("".join(generator.choice(("template ", "int ", "return ", "{\n", "; ")) for _ in range(words)))

    @classmethod
    def train(cls, *arguments, before=()):
        """Later arguments take the place of the standard ones."""
        options = {"--data": "text", **_MODEL}
        flags = []
        words = iter(map(str, arguments))
        for word in words:
            if word == "--init-partial":
                flags.append(word)
            else:
                options[word] = next(words)
        command = [*before, weft_train, *flags, *(str(word) for pair in options.items() for word in pair)]
        return subprocess.run(command, cwd=cls.root, env=dict(os.environ, WEFT_TUNE="static"), capture_output=True, text=True,
                              timeout=_DEADLINE_S)

    def setUp(self):
        self.run_directory = self.root / "runs" / self.id().rsplit(".", 1)[1]
        self.name = self.run_directory.name
        shutil.copytree(self.root / "runs" / "good", self.run_directory)
        self.checkpoints = self.run_directory / "checkpoints"
        self.latest = self.checkpoints / _LATEST

    def only_latest(self):
        shutil.rmtree(self.checkpoints / "step-00000010")

    def expect_sentence(self, done, wrong, then):
        lines = done.stderr.splitlines()
        self.assertEqual((2, 1), (done.returncode, len(lines)), done.stderr + done.stdout)
        self.assertNotIn("step 1/", done.stdout)
        self.assertRegex(lines[0], wrong)
        self.assertRegex(lines[0], then)
        self.assertNotIn("\t", lines[0])

    def refuse(self, wrong, then, *arguments, before=()):
        """weft_train with these arguments says what is wrong and what to do."""
        self.expect_sentence(self.train("--name", self.name, *arguments, before=before), wrong, then)

    def refuse_both(self, wrong, then):
        """Whether the run goes on, or another one is to begin with its weights."""
        self.refuse(wrong, then, "--resume", "auto")
        self.refuse(wrong, then, "--name", "new", "--init", f"runs/{self.name}")
        self.assertFalse((self.root / "runs" / "new").exists())

    def control(self, *arguments, before=()):
        return subprocess.run([*before, weftctl, "checkpoint", *map(str, arguments)], cwd=self.root, capture_output=True, text=True,
                              timeout=_DEADLINE_S)

    def refuse_control(self, wrong, then, *arguments, before=()):
        self.expect_sentence(self.control(*arguments, before=before), wrong, then)

    @contextlib.contextmanager
    def without_permission(self, path, mode):
        """What `before` begins a command of a user who may do `mode` alone."""
        if os.geteuid() == 0 and shutil.which("setpriv") is None:
            self.skipTest("root may do everything, and there is no setpriv to be another user")
        os.chmod(path, mode)
        try:
            yield _AS_A_USER if os.geteuid() == 0 else ()
        finally:
            os.chmod(path, 0o755)

    # ---- who may do what ----

    def test_a_directory_that_may_not_be_read(self):
        wrong, then = r"checkpoints: Permission denied", r"choose another directory, or let this user write and read there"
        with self.without_permission(self.checkpoints, 0o000) as before:
            self.refuse(wrong, then, "--resume", "auto", before=before)
            self.refuse(wrong, then, "--name", "new", "--init", f"runs/{self.name}", before=before)
            for arguments in (("list", self.checkpoints), ("show", self.checkpoints), ("verify", self.checkpoints),
                              ("export", self.checkpoints, "--to", "a.safetensors")):
                self.refuse_control(wrong, then, *arguments, before=before)

    def test_a_directory_that_may_not_be_written(self):
        with self.without_permission(self.checkpoints, 0o555) as before:
            self.refuse(rf"checkpoints cannot be saved in runs/{self.name}/checkpoints: {self.checkpoints}: Permission denied",
                        "choose another --run-dir or --name, or let this user write there", "--resume", "auto", before=before)
        with self.without_permission(self.run_directory, 0o555) as before:
            self.refuse(rf"cannot write to runs/{self.name}.*: Permission denied", "choose another --run-dir or --name", "--resume", "auto", before=before)
        shutil.rmtree(self.run_directory)
        self.run_directory.mkdir()
        with self.without_permission(self.run_directory, 0o555) as before:
            self.refuse(rf"cannot write to runs/{self.name}: Permission denied", "choose another --run-dir or --name", before=before)

    def test_a_file_where_the_directory_is_to_be(self):
        shutil.rmtree(self.run_directory)
        self.run_directory.mkdir()
        self.checkpoints.write_text("")
        self.refuse(f"{self.checkpoints} is no directory|{self.checkpoints.name}: Not a directory", "choose another|directory")
        self.refuse("cannot be read as safetensors", str(self.checkpoints), "--name", "new", "--init", self.checkpoints)

    def test_one_that_may_not_be_read_is_passed_over_for_the_one_before(self):
        with self.without_permission(self.latest, 0o000) as before:
            done = self.train("--name", self.name, "--resume", "auto", "--steps", "11", before=before)
            self.assertEqual(0, done.returncode, done.stderr)
            self.assertRegex(done.stderr, rf"{_LATEST} cannot be loaded; trying .* instead: .*Permission denied")
            self.assertIn(" on after step 10", done.stdout)

    # ---- what is there ----

    def test_nothing_there(self):
        shutil.rmtree(self.checkpoints)
        self.refuse("--resume runs/good/no: there is no checkpoint there", "give the directory of a run that has saved",
                    "--name", "new", "--resume", "runs/good/no")
        self.refuse(f"--init runs/{self.name}: there is no checkpoint there", "or a .safetensors file or a folder of them",
                    "--name", "new", "--init", f"runs/{self.name}")
        self.refuse_control("there is no checkpoint in nowhere", ".", "show", "nowhere")

    def test_two_beginnings(self):
        self.refuse("--init runs/good begins a new run and --resume runs/good goes on with one", "give one of them",
                    "--init", "runs/good", "--resume", "runs/good")

    def test_keep_0(self):
        self.refuse("--keep: 0 is out of range", "use 1 to", "--keep", 0)

    def test_another_model(self):
        for arguments, wrong in ((("--layers", 3), r"has no tensor block\.2\.ln1\.weight, of shape \[15\]"),
                                 (("--layers", 1), r"has tensor block\.1\.ln1\.weight, of shape \[15\], which this program has not"),
                                 (("--width", 30), r"has tensor wte with shape \[256, 15\], and this model has it with shape \[256, 30\]")):
            # A tensor that is left over is found after the options.
            resumed = r"its run had --layers 2, this one has --layers 1; use the same|another model"
            self.refuse(f"{wrong}|{resumed}", resumed, "--resume", "auto", *arguments)
            self.refuse(wrong, "another model", "--name", "new", "--init", f"runs/{self.name}", *arguments)
        self.refuse("its run had --heads 3, this one has --heads 5", "use the same", "--resume", "auto", "--heads", 5)

    def test_another_corpus_seed_or_sequence(self):
        self.write_text("other", 4000)
        self.refuse("its run read another text", "--changed text", "--resume", "auto", "--data", "other")
        self.refuse("--seed 1, this one has --seed 2", "use the same", "--resume", "auto", "--seed", 2)

    def test_another_optimizer(self):
        self.refuse(r"has a moment2 of tensor block\.0\.attn\.qkv\.weight, which this program has not", "load values only, or use the optimizer", "--resume", "auto", "--optimizer", "muon")

    def test_a_newer_version(self):
        self.only_latest()
        change_manifest(self.latest, lambda manifest: manifest.update(version=3))
        self.refuse_both(rf"{_LATEST}/manifest.json has version 3 of the format", "use a newer one")
        for arguments in (("show", self.checkpoints), ("verify", self.checkpoints), ("export", self.latest, "--to", "a.safetensors")):
            self.refuse_control("has version 3 of the format", "use a newer one", *arguments)

    def test_a_missing_file_of_a_rank(self):
        self.only_latest()
        (self.latest / "rank-00000.safetensors").unlink()
        self.refuse_both(r"none of the 1 checkpoints in .* is whole .*rank-00000\.safetensors: No such file", "weftctl checkpoint verify")
        done = self.control("verify", self.checkpoints)
        self.assertEqual((1, ""), (done.returncode, done.stderr))
        self.assertRegex(done.stdout, "damaged: .*rank-00000.safetensors")
        self.refuse_control("rank-00000.safetensors: No such file", ".", "export", self.latest, "--to", "a.safetensors")

    def test_another_type(self):
        self.only_latest()
        self.assertEqual(0, self.control("export", self.latest, "--to", f"{self.name}.safetensors").returncode)
        data = (self.root / f"{self.name}.safetensors").read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header = json.loads(data[8:8 + length])
        def write(file, dtype, divisor):
            write_safetensors(self.root / file, {name: (dtype, entry["shape"], (entry["data_offsets"][1] - entry["data_offsets"][0]) // divisor)
                                                 for name, entry in header.items() if name != "__metadata__"})

        write("integers.safetensors", "I32", 1)
        self.assertEqual(0, self.control("import", "integers.safetensors", f"integers-{self.name}").returncode)
        for init in (f"integers-{self.name}", "integers.safetensors"):
            self.refuse("has tensor wte as I32, and this model has it as F32", "use the types that it was saved with", "--name", "new", "--init", init)
        # Floating-point numbers of any type are numbers of this one.
        write("half.safetensors", "F16", 2)
        done = self.train("--name", "half", "--init", "half.safetensors")
        self.assertEqual(0, done.returncode, done.stderr)

    def test_files_of_others_that_are_none(self):
        (self.root / "bad.safetensors").write_bytes(b"no header at all")
        (self.root / "empty").mkdir(exist_ok=True)
        self.refuse("bad.safetensors cannot be read as safetensors", ".", "--name", "new", "--init", "bad.safetensors")
        self.refuse("--init empty: there is no checkpoint there", "or a .safetensors file", "--name", "new", "--init", "empty")
        self.refuse("--init 20: there is no checkpoint there", ".", "--name", "new", "--init", 20)
        self.refuse("--init-partial", "--init", "--init-partial")
        self.assertFalse((self.root / "runs" / "new").exists())

    def test_more_elements_than_there_can_be(self):
        self.only_latest()

        def claim(shape, end):
            def change(manifest):
                manifest["tensors"][0]["shape"] = shape
                manifest["tensors"][0]["cuts"] = [[0, 0, end]]
            return change

        good = (self.latest / "manifest.json").read_text()
        for shape, end in (([2**63], 2**63), ([2**63 - 1], 2**63 - 1), ([2**32, 2**31], 2**63), ([2**61], 2**61)):
            (self.latest / "manifest.json").write_text(good)
            change_manifest(self.latest, claim(shape, end))
            with self.subTest(shape):
                self.refuse_both(r"manifest.json|wte with shape", "another model|weftctl checkpoint verify")
                self.refuse_control("manifest.json|File too large", "number up to|no memory can hold|choose a file system", "export", self.latest, "--to", "b.safetensors")
                self.assertFalse((self.root / "b.safetensors").exists())
        for shape, count in (([2**63], 2**63), ([2**62, 2], 2**63), ([2**61], 2**63)):
            with self.subTest(shape):
                write_safetensors(self.root / "huge.safetensors", {"wte": ("F32", shape, count)})
                self.refuse_control("huge.safetensors cannot be read as safetensors", "no number up to|wte", "import", "huge.safetensors", "huge")
        self.assertFalse((self.root / "huge").exists())

    def test_texts_that_are_none(self):
        self.only_latest()
        path = self.latest / "manifest.json"
        good = path.read_bytes()
        for text in (b"", b"{}", good[:len(good) // 2], good.replace(b'"wte"', b'"wtf"'), os.urandom(1000)):
            path.write_bytes(text)
            self.refuse_both(r"none of the 1 checkpoints in .* is whole .*manifest\.json", "weftctl checkpoint verify")


if __name__ == "__main__":
    weft_train, weftctl = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
