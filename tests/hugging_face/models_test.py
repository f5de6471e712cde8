"""What transformers and accelerate write is imported, and they load what is exported, with every bit: in one file, and in several with their index."""
import json
import os
import pathlib
import shutil
import sys
import tempfile
import unittest

_HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(_HERE.parent / "cli"))
import launched  # noqa: E402
from launched import LaunchedTest  # noqa: E402

_SKIPPED = 77  # as CMake knows it
_SHARD_BYTES = 20_000


def model_of(kind, dtype):
    """A small model with random values, which are drawn by its seed."""
    torch.manual_seed(1)
    if kind == "gpt2":  # its output layer is its embedding
        config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=101, n_positions=32)
        return transformers.GPT2LMHeadModel(config).to(dtype).eval()
    config = transformers.LlamaConfig(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=101)
    return transformers.LlamaForCausalLM(config).to(dtype).eval()


class Models(LaunchedTest):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def ask(self, *arguments):
        code, out, err = self.run_to_end("checkpoint", *arguments)
        self.assertEqual((0, []), (code, err))
        return out

    def compare(self, model, other):
        expected, found = model.state_dict(), other.state_dict()
        self.assertEqual(set(expected), set(found))
        for name, values in expected.items():
            self.assertEqual(values.dtype, found[name].dtype, name)
            self.assertTrue(torch.equal(values, found[name]), name)

    def load(self, model, folder):
        """With their config.json, which weft knows nothing of."""
        other, info = type(model).from_pretrained(folder, dtype="auto", output_loading_info=True)
        self.assertEqual([], [*info["unexpected_keys"], *info["mismatched_keys"], *info["missing_keys"]])
        self.compare(model, other)

    def load_by_accelerate(self, model, source):
        other = type(model)(model.config).to(next(model.parameters()).dtype)
        accelerate.load_checkpoint_in_model(other, str(source))
        other.tie_weights()
        self.compare(model, other)

    def go_round(self, kind, dtype, shard_bytes):
        model = model_of(kind, dtype)
        theirs, saved, ours = (self.root / name for name in ("theirs", "saved", "ours"))
        model.save_pretrained(theirs, **({"max_shard_size": shard_bytes} if shard_bytes else {}))
        shards = sorted(name for name in os.listdir(theirs) if ".safetensors" in name)
        self.assertEqual(shard_bytes is not None, len(shards) > 1, shards)
        self.ask("import", theirs, saved)
        ours.mkdir()
        shutil.copy(theirs / "config.json", ours)
        if shard_bytes:
            self.ask("export", saved, "--to", ours, "--shard-size", shard_bytes)
            # Other tensors may share a file, but names are theirs, and so is the index.
            index, other = (json.loads((folder / "model.safetensors.index.json").read_text()) for folder in (theirs, ours))
            self.assertEqual(set(index["weight_map"]), set(other["weight_map"]))
            self.assertEqual(index["metadata"]["total_size"], other["metadata"]["total_size"])
            self.assertEqual(set(index), set(other))
        else:
            self.ask("export", saved, "--to", ours / "model.safetensors")
            self.load_by_accelerate(model, ours / "model.safetensors")
        self.load(model, ours)
        self.load_by_accelerate(model, ours)
        # And on to another number of files.
        self.ask("import", ours, self.root / "again")
        shutil.rmtree(ours)
        ours.mkdir()
        shutil.copy(theirs / "config.json", ours)
        self.ask("export", self.root / "again", "--to", ours, "--shard-size", "1GB" if shard_bytes else _SHARD_BYTES)
        self.load(model, ours)

    def test_models_in_one_file(self):
        for kind, dtype in (("gpt2", torch.bfloat16), ("llama", torch.float32)):
            with self.subTest(f"{kind} {dtype}"):
                self.go_round(kind, dtype, None)
                self.clear()

    def test_models_in_shards(self):
        for kind, dtype in (("gpt2", torch.float32), ("llama", torch.float16)):
            with self.subTest(f"{kind} {dtype}"):
                self.go_round(kind, dtype, _SHARD_BYTES)
                self.clear()

    def clear(self):
        for folder in self.root.iterdir():
            shutil.rmtree(folder)

    def test_what_accelerate_saves_in_shards_is_imported(self):
        model = model_of("llama", torch.float32)
        accelerate.Accelerator(cpu=True).save_model(model, str(self.root / "theirs"), max_shard_size=_SHARD_BYTES)
        (line,) = self.ask("import", self.root / "theirs", self.root / "saved")
        self.assertRegex(line, r"\(\d+ files\)$")
        file = self.root / "model.safetensors"
        self.ask("export", self.root / "saved", "--to", file)
        with safetensors.safe_open(str(file), "pt") as opened:
            self.assertEqual("pt", opened.metadata()["format"])
            for name, values in model.state_dict().items():
                self.assertTrue(torch.equal(values, opened.get_tensor(name)), name)


if __name__ == "__main__":
    packages = pathlib.Path(sys.argv.pop(2))
    sys.path[1:1] = [str(packages), str(packages.parent / "torch")]
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", HF_HOME=tempfile.gettempdir())
    if not all((folder / "requirements.txt").exists() for folder in (packages, packages.parent / "torch")):
        print("SKIPPED: ./dev test hugging-face could not install what tests/hugging_face lists", file=sys.stderr)
        sys.exit(_SKIPPED)
    import accelerate
    import safetensors
    import torch
    import transformers
    print(f"transformers {transformers.__version__}, accelerate {accelerate.__version__}, safetensors {safetensors.__version__}, torch {torch.__version__}")
    launched.main()
