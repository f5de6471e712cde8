"""A GPT-2 and a Llama that transformers has made train in weft_train and go back: both have the same loss of them, before and after, and the same
greedy text."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

weft_train = None  # from the command line

_SKIPPED = 77  # as CMake knows it
_DEADLINE_S = 120
_SEQ, _VOCABULARY = 32, 300
_SHAPE = ("--layers", "2", "--width", "48", "--heads", "4", "--seq", str(_SEQ), "--vocabulary", str(_VOCABULARY))
_LLAMA = ("--arch", "llama", "--kv-heads", "2", "--hidden", "80", "--rope-theta", "500", "--norm-epsilon", "1e-6")


def write_tokens(path, tokens):
    """As llm.c does."""
    path.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + struct.pack(f"<{len(tokens)}H", *tokens))


class CausalLmTest:
    """What both have in common. shape: the options of the model; made(**more): one of transformers; loaded(folder)."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        torch.manual_seed(1)
        tokens = torch.randint(_VOCABULARY, (2000,)).tolist()
        write_tokens(self.root / "a_train_000000.bin", tokens)
        self.window = tokens[100:101 + _SEQ]
        write_tokens(self.root / "a_val_000000.bin", self.window)

    def run_it(self, *words, code=0):
        done = subprocess.run([weft_train, *words], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              timeout=_DEADLINE_S, check=False)
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def train(self, name, *more):
        """The loss of the window's second half, at the end."""
        self.run_it("--data", "*.bin", "--name", name, *self.shape, "--batch", "4", "--dtype", "fp32", "--warmup", "0", "--eval-every", "0", "--checkpoint-every",
                    "100", *more)
        return json.loads((self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()[-1])["val_loss"]

    def loss_of(self, model):
        """The same, as transformers computes it."""
        window = torch.tensor([self.window])
        with torch.no_grad():
            logits = model.eval()(window[:, :-1]).logits[0, _SEQ // 2:]
        return torch.nn.functional.cross_entropy(logits, window[0, 1 + _SEQ // 2:]).item()

    def test_goes_there_and_back_with_the_same_loss(self):
        for name, model in (("tied", self.made(tie_word_embeddings=True)), ("own", self.made(tie_word_embeddings=False))):
            with self.subTest(name):
                model.save_pretrained(self.root / name)
                more = ("--init", name, "--head", name, "--lr")
                begun = self.train(f"{name}-begun", *more, "1e-12", "--steps", "1")
                self.assertAlmostEqual(self.loss_of(model), begun, delta=2e-5)
                trained = self.train(f"{name}-trained", *more, "1e-3", "--steps", "30")
                self.assertGreater(abs(trained - begun), 1e-2)
                self.run_it("export", "--from", f"runs/{name}-trained", "--out", f"{name}-back")
                back, info = self.model_class().from_pretrained(self.root / f"{name}-back", output_loading_info=True)
                self.assertFalse(info["missing_keys"] or info["unexpected_keys"] or info["mismatched_keys"], info)
                self.assertAlmostEqual(trained, self.loss_of(back), delta=2e-5)

    def bytes_of(self, ids):
        """Of the text that tokens of the tokenizer are, up to one that has none."""
        shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
        byte_of = {chr(byte): byte for byte in shown} | {chr(256 + i): byte for i, byte in enumerate(sorted(set(range(256)) - set(shown)))}
        vocabulary = json.loads((self.root / "t" / "tokenizer.json").read_text())["model"]["vocab"]
        token_of = {number: token for token, number in vocabulary.items() if token != "<|endoftext|>"}
        text = b""
        for number in ids:
            if number not in token_of:
                break
            text += bytes(byte_of[char] for char in token_of[number])
        return text

    def greedy(self, model, prompt):
        """The prompt and what transformers' greedy text is, up to the end of the model's context."""
        ids = tokenizers.Tokenizer.from_file(str(self.root / "t" / "tokenizer.json")).encode(prompt).ids
        with torch.no_grad():
            made = model.eval().generate(torch.tensor([ids]), max_new_tokens=_SEQ - len(ids), do_sample=False, pad_token_id=0)
        return self.bytes_of(made[0].tolist())

    def sample(self, *words):
        done = subprocess.run([weft_train, "sample", "--temperature", "0", "--tokens", str(_SEQ), *words], cwd=self.root, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=_DEADLINE_S, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_samples_are_the_greedy_text_of_transformers_and_eval_has_its_loss(self):
        letters = torch.randint(97, 123, (4000,)).tolist()
        (self.root / "text").write_text("".join(chr(letter) if i % 5 else " " for i, letter in enumerate(letters)))
        self.run_it("tokenize", "--tokenizer", f"bpe:{_VOCABULARY}", "--out", "t/t", "text")
        tokenizer = (self.root / "t" / "tokenizer.json").read_bytes()
        prompt = "abc dxe"
        for name, model in (("tied", self.made(tie_word_embeddings=True)), ("own", self.made(tie_word_embeddings=False))):
            with self.subTest(name):
                model.save_pretrained(self.root / name)
                (self.root / name / "tokenizer.json").write_bytes(tokenizer)
                judged = json.loads(self.run_it("eval", "--from", name, "--data", "*.bin", "--dtype", "fp32", "--json"))
                self.assertAlmostEqual(self.loss_of(model), judged["loss"], delta=2e-5)
                expected = self.greedy(model, prompt)
                self.assertGreater(len(expected), len(prompt) + 5)
                self.assertEqual(expected, self.sample("--from", name, "--prompt", prompt)[:len(expected)])
                # And of what the run has made of it, which goes back.
                self.train(f"{name}-run", "--init", name, "--head", name, "--lr", "1e-3", "--steps", "20")
                self.run_it("export", "--from", f"runs/{name}-run", "--out", f"{name}-out")
                back = self.model_class().from_pretrained(self.root / f"{name}-out")
                sampled = self.sample("--from", f"runs/{name}-run", "--tokenizer", "t/tokenizer.json", "--prompt", prompt)
                expected = self.greedy(back, prompt)
                self.assertEqual(expected, sampled[:len(expected)])

    def expect_refusals(self, cases):
        self.made(tie_word_embeddings=True).save_pretrained(self.root / "model")
        base = ("--data", "*.bin", "--init", "model", "--steps", "1", "--batch", "4", "--dtype", "fp32")
        for change, expected in cases:
            with self.subTest(change):
                shape = list(self.shape)
                shape[shape.index(change[0]) + 1] = change[1]
                self.assertIn(expected, self.run_it(*base, *shape, code=2).splitlines()[-1])


class Gpt2Test(CausalLmTest, unittest.TestCase):
    shape = _SHAPE

    @staticmethod
    def model_class():
        return transformers.GPT2LMHeadModel

    @staticmethod
    def made(**more):
        config = transformers.GPT2Config(n_embd=48, n_layer=2, n_head=4, n_positions=_SEQ, vocab_size=_VOCABULARY, initializer_range=0.2, **more)
        return transformers.GPT2LMHeadModel(config)

    def test_a_model_of_another_shape_is_refused_with_one_sentence(self):
        self.expect_refusals(((("--width", "96"), "has the shape [300, 48], and this model's has [300, 96]"), (("--layers", "3"), "has no tensor h.2."),
                                 (("--layers", "1"), "has more than 1 layers"), (("--heads", "2"), "says 4 heads, and this model has 2")))


class LlamaTest(CausalLmTest, unittest.TestCase):
    shape = _SHAPE + _LLAMA

    @staticmethod
    def model_class():
        return transformers.LlamaForCausalLM

    @staticmethod
    def made(**more):
        config = transformers.LlamaConfig(hidden_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=80,
                                          max_position_embeddings=_SEQ, vocab_size=_VOCABULARY, initializer_range=0.2, rms_norm_eps=1e-6,
                                          rope_parameters={"rope_type": "default", "rope_theta": 500.0}, rope_theta=500.0, bos_token_id=None,
                                          eos_token_id=None, **more)
        return transformers.LlamaForCausalLM(config)

    def test_a_model_of_another_shape_is_refused_with_one_sentence(self):
        self.expect_refusals(((("--hidden", "96"), "has the shape [80, 48], and this model's has [96, 48]"), (("--layers", "3"), "has no tensor model.layers.2."),
                              (("--layers", "1"), "has more than 1 layers"), (("--heads", "8"), "says num_attention_heads 4, and this model has 8"),
                              (("--kv-heads", "4"), "says num_key_value_heads 2, and this model has 4"),
                              (("--rope-theta", "10000"), "says rope_theta 500, and this model has 10000"),
                              (("--norm-epsilon", "1e-5"), "says rms_norm_eps 1e-06, and this model has 1e-05")))


if __name__ == "__main__":
    weft_train, packages = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
    sys.path[1:1] = [str(packages), str(packages.parent / "torch")]
    os.environ.update(HF_HUB_OFFLINE="1", CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1", HF_HOME=tempfile.gettempdir())
    if not all((folder / "requirements.txt").exists() for folder in (packages, packages.parent / "torch")):
        print("SKIPPED: ./dev test hugging-face could not install what tests/hugging_face lists", file=sys.stderr)
        sys.exit(_SKIPPED)
    import tokenizers
    import torch
    import transformers
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    unittest.main()
