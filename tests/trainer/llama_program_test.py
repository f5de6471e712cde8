"""A Llama in the files of transformers trains in weft_train, on several ranks, and goes back. The model is written out once more here, in plain
Python, and both have the same loss of it. Usage: llama_program_test.py WEFTRUN WEFT_TRAIN"""
import json
import math
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

weftrun = weft_train = None  # from the command line

_DEADLINE_S = 120
_SEQ, _VOCABULARY, _WIDTH, _LAYERS, _HEADS, _KV_HEADS, _HIDDEN = 12, 50, 16, 2, 4, 2, 24
_THETA, _EPSILON = 50.0, 1e-3
_DIM = _WIDTH // _HEADS
_SHAPE = {"arch": "llama", "layers": _LAYERS, "width": _WIDTH, "heads": _HEADS, "kv-heads": _KV_HEADS, "hidden": _HIDDEN, "seq": _SEQ,
          "vocabulary": _VOCABULARY, "rope-theta": _THETA, "norm-epsilon": _EPSILON}
_CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "num_attention_heads": _HEADS,
           "num_key_value_heads": _KV_HEADS, "rope_theta": _THETA, "rms_norm_eps": _EPSILON, "tie_word_embeddings": False, "head_dim": _DIM,
           "max_position_embeddings": _SEQ}


def shapes(tied):
    """Of all tensors, by name, as LlamaForCausalLM has them."""
    of = {"model.embed_tokens.weight": [_VOCABULARY, _WIDTH], "model.norm.weight": [_WIDTH]}
    for layer in range(_LAYERS):
        for name, shape in (("self_attn.q_proj", [_HEADS * _DIM, _WIDTH]), ("self_attn.k_proj", [_KV_HEADS * _DIM, _WIDTH]),
                            ("self_attn.v_proj", [_KV_HEADS * _DIM, _WIDTH]), ("self_attn.o_proj", [_WIDTH, _HEADS * _DIM]),
                            ("mlp.gate_proj", [_HIDDEN, _WIDTH]), ("mlp.up_proj", [_HIDDEN, _WIDTH]), ("mlp.down_proj", [_WIDTH, _HIDDEN]),
                            ("input_layernorm", [_WIDTH]), ("post_attention_layernorm", [_WIDTH])):
            of[f"model.layers.{layer}.{name}.weight"] = shape
    if not tied:
        of["lm_head.weight"] = [_VOCABULARY, _WIDTH]
    return of


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    data = path.read_bytes()
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:begin]).items():
        if name != "__metadata__":
            first, last = about["data_offsets"]
            tensors[name] = about["shape"], struct.unpack(f"<{(last - first) // 4}f", data[begin + first:begin + last])
    return tensors


def write_tokens(path, tokens):
    """As llm.c does."""
    path.write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) + struct.pack(f"<{len(tokens)}H", *tokens))


class Llama:
    """One sequence at a time, number by number."""

    def __init__(self, tensors):
        self.tensors = tensors

    def linear(self, x, name):
        (rows, columns), values = self.tensors[name]
        return [sum(values[i * columns + j] * x[j] for j in range(columns)) for i in range(rows)]

    def norm(self, x, name):
        root = math.sqrt(sum(v * v for v in x) / len(x) + _EPSILON)
        return [v / root * g for v, g in zip(x, self.tensors[name][1])]

    @staticmethod
    def turned(head, position):
        out, half = list(head), _DIM // 2
        for i in range(half):
            angle = position * _THETA**(-2 * i / _DIM)
            out[i] = head[i] * math.cos(angle) - head[half + i] * math.sin(angle)
            out[half + i] = head[half + i] * math.cos(angle) + head[i] * math.sin(angle)
        return out

    def attention(self, x, at):
        def heads(name):
            rows = [self.linear(row, f"{at}.self_attn.{name}_proj.weight") for row in x]
            return [[row[i:i + _DIM] for i in range(0, len(row), _DIM)] for row in rows]

        queries, keys, values = heads("q"), heads("k"), heads("v")
        queries, keys = ([[self.turned(head, t) for head in row] for t, row in enumerate(all_of)] for all_of in (queries, keys))
        out = []
        for t in range(len(x)):
            row = []
            for head in range(_HEADS):
                shared = head // (_HEADS // _KV_HEADS)
                p = [math.exp(sum(a * b for a, b in zip(queries[t][head], keys[s][shared])) / math.sqrt(_DIM)) for s in range(t + 1)]
                row += [sum(p[s] * values[s][shared][d] for s in range(t + 1)) / sum(p) for d in range(_DIM)]
            out.append(self.linear(row, f"{at}.self_attn.o_proj.weight"))
        return out

    def perceptron(self, x, at):
        gate, up = (self.linear(x, f"{at}.mlp.{name}_proj.weight") for name in ("gate", "up"))
        return self.linear([g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)], f"{at}.mlp.down_proj.weight")

    def loss(self, window):
        """Of the second half of a window's targets, as weft_train validates."""
        table = self.tensors["model.embed_tokens.weight"][1]
        x = [list(table[token * _WIDTH:(token + 1) * _WIDTH]) for token in window[:-1]]
        for layer in range(_LAYERS):
            at = f"model.layers.{layer}"
            added = self.attention([self.norm(row, f"{at}.input_layernorm.weight") for row in x], at)
            x = [[a + b for a, b in zip(row, more)] for row, more in zip(x, added)]
            added = [self.perceptron(self.norm(row, f"{at}.post_attention_layernorm.weight"), at) for row in x]
            x = [[a + b for a, b in zip(row, more)] for row, more in zip(x, added)]
        head = "lm_head.weight" if "lm_head.weight" in self.tensors else "model.embed_tokens.weight"
        losses = []
        for row, target in list(zip(x, window[1:]))[_SEQ // 2:]:
            logits = self.linear(self.norm(row, "model.norm.weight"), head)
            losses.append(math.log(sum(map(math.exp, logits))) - logits[target])
        return sum(losses) / len(losses)


class LlamaProgramTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        numbers = random.Random(1)
        tokens = [numbers.randrange(_VOCABULARY) for _ in range(1500)]
        write_tokens(self.root / "a_train_000000.bin", tokens)
        self.window = tokens[100:101 + _SEQ]
        write_tokens(self.root / "a_val_000000.bin", self.window)

    def make(self, name, tied=False, **config):
        """A folder with a model of random weights."""
        numbers = random.Random(2)
        tensors = {}
        for tensor, shape in shapes(tied).items():
            norm = len(shape) == 1
            tensors[tensor] = shape, [numbers.gauss(1, 0.3) if norm else numbers.gauss(0, 0.3) for _ in range(math.prod(shape))]
        (self.root / name).mkdir()
        write_safetensors(self.root / name / "model.safetensors", tensors)
        (self.root / name / "config.json").write_text(json.dumps({**_CONFIG, "tie_word_embeddings": tied, **config}))
        return read_safetensors(self.root / name / "model.safetensors")

    def run_it(self, *words, code=0, ranks=1, **shape):
        shape = {**_SHAPE, **{key.replace("_", "-"): value for key, value in shape.items()}} if words[0].startswith("-") else {}
        options = [word for key, value in shape.items() for word in (f"--{key}", str(value))]
        program = [weft_train] if ranks == 1 else [weftrun, "-n", str(ranks), weft_train]
        done = subprocess.run([*program, *words, *options], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=_DEADLINE_S, check=False)
        self.assertEqual(code, done.returncode, done.stdout)
        return done.stdout

    def train(self, name, *more, ranks=1, **shape):
        """The loss of the window's second half, at the end."""
        printed = self.run_it("--data", "*.bin", "--name", name, "--batch", "4", "--dtype", "fp32", "--warmup", "0", "--eval-every", "0", "--checkpoint-every",
                              "100", *more, ranks=ranks, **shape)
        self.assertIn("Llama, 2 layers x 16 wide, 4 heads over 2 of keys and values", printed)
        return json.loads((self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()[-1])["val_loss"]

    def export(self, name):
        printed = self.run_it("export", "--from", f"runs/{name}", "--out", f"{name}-back")
        self.assertIn("as LlamaForCausalLM", printed)
        return read_safetensors(self.root / f"{name}-back" / "model.safetensors")

    def test_has_the_loss_of_the_same_model_in_python_and_goes_back_as_it_was(self):
        for head in ("tied", "own"):
            with self.subTest(head):
                tensors = self.make(head, head == "tied")
                begun = self.train(f"{head}-begun", "--init", head, "--lr", "1e-12", "--weight-decay", "0", "--steps", "1", head=head)
                self.assertAlmostEqual(Llama(tensors).loss(self.window), begun, delta=1e-5)
                for saved in (head, f"runs/{head}-begun"):
                    printed = self.run_it("eval", "--from", saved, "--data", "*.bin", "--dtype", "fp32", "--strategy", "full-shard", "--json", ranks=2)
                    judged = json.loads(re.sub(r"^\[0\] ", "", printed, flags=re.MULTILINE))
                    self.assertAlmostEqual(begun, judged["loss"], delta=1e-5)
                back = self.export(f"{head}-begun")
                self.assertEqual(shapes(head == "tied"), {name: shape for name, (shape, _) in back.items()})
                for name, (_, values) in tensors.items():
                    self.assertLess(max(abs(a - b) for a, b in zip(values, back[name][1])), 1e-9, name)
                config = json.loads((self.root / f"{head}-begun-back" / "config.json").read_text())
                expected = {**_CONFIG, "tie_word_embeddings": head == "tied", "hidden_size": _WIDTH, "intermediate_size": _HIDDEN, "vocab_size": _VOCABULARY,
                            "num_hidden_layers": _LAYERS}
                self.assertEqual(expected, {key: config.get(key) for key in expected})

    def test_trains_on_ranks_resumes_and_goes_back(self):
        self.make("model")
        more = ("--init", "model", "--lr", "3e-3", "--strategy", "full-shard", "--recompute", "full")
        whole = self.train("whole", *more, "--steps", "12", ranks=2, head="own")
        part = ("--schedule", "constant")
        self.train("part", *more, *part, "--steps", "6", ranks=2, head="own")
        resumed = self.train("part", "--resume", "auto", *more[2:], *part, "--steps", "12", ranks=2, head="own")
        unbroken = self.train("unbroken", *more, *part, "--steps", "12", ranks=2, head="own")
        self.assertEqual(unbroken, resumed)
        back = Llama(self.export("whole"))
        self.assertAlmostEqual(back.loss(self.window), whole, delta=1e-5)
        again = self.train("again", "--init", "whole-back", "--lr", "1e-12", "--steps", "1", head="own")
        self.assertAlmostEqual(whole, again, delta=1e-5)
        refused = self.run_it("--data", "*.bin", "--name", "part", "--resume", "auto", "--steps", "13", code=2, head="own", norm_epsilon=1e-4)
        self.assertIn("norm-epsilon", refused)

    def test_what_is_another_model_is_refused_with_one_sentence(self):
        base = ("--data", "*.bin", "--steps", "1", "--batch", "4", "--dtype", "fp32", "--head", "own", "--name", "x", "--init")
        made = 0
        for config, expected in (({"rope_scaling": {"rope_type": "llama3", "factor": 32.0}}, "says rope_type llama3, which weft_train's Llama does not have"),
                                 ({"rope_parameters": {"rope_type": "yarn", "rope_theta": _THETA}}, "says rope_type yarn"),
                                 ({"rope_parameters": {"rope_type": "default", "rope_theta": 7.0}}, "says rope_theta 7, and this model has 50; give --rope-theta 7"),
                                 ({"attention_bias": True}, "says attention_bias true"), ({"mlp_bias": True}, "says mlp_bias true"),
                                 ({"model_type": "mistral"}, "says model_type mistral"), ({"hidden_act": "gelu"}, "says hidden_act gelu"),
                                 ({"num_attention_heads": 2}, "says num_attention_heads 2, and this model has 4; give --heads 2"),
                                 ({"rms_norm_eps": 1e-6}, "says rms_norm_eps 1e-06, and this model has 0.001; give --norm-epsilon 1e-06"),
                                 ({"head_dim": 8}, "says head_dim 8, and not width over heads, 4"),
                                 ({"tie_word_embeddings": True}, "says tie_word_embeddings true; give --head tied")):
            with self.subTest(expected):
                made += 1
                self.make(f"model{made}", **config)
                lines = self.run_it(*base, f"model{made}", code=2).splitlines()
                self.assertIn(expected, lines[-1])
        self.make("model")
        (self.root / "model" / "config.json").unlink()
        for shape, expected in (({"kv_heads": 4}, "self_attn.k_proj.weight has the shape [8, 16], and this model's has [16, 16]; give --width"),
                                ({"layers": 3}, "has no tensor model.layers.2."), ({"layers": 1}, "has more than 1 layers"),
                                ({"hidden": 32}, "mlp.gate_proj.weight has the shape [24, 16], and this model's has [32, 16]")):
            with self.subTest(expected):
                self.assertIn(expected, self.run_it(*base, "model", code=2, **shape).splitlines()[-1])
        tensors = read_safetensors(self.root / "model" / "model.safetensors")
        tensors["model.layers.0.self_attn.q_proj.bias"] = [_WIDTH], [0.0] * _WIDTH
        write_safetensors(self.root / "model" / "model.safetensors", tensors)
        self.assertIn("has a tensor model.layers.0.self_attn.q_proj.bias, and weft_train's Llama has no biases",
                      self.run_it(*base, "model", code=2).splitlines()[-1])
        other = subprocess.run([weft_train, "--seq", str(_SEQ), *base, "model"], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_DEADLINE_S,
                               check=False)
        self.assertEqual(2, other.returncode, other.stdout)
        self.assertIn("model is a Llama; give --arch llama", other.stdout)


if __name__ == "__main__":
    weftrun, weft_train = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
