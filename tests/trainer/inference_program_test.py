"""weft_train eval and sample, on whatever saves models, and weft_train export --format llm.c, which is read back here by the layout that
llm.c's train_gpt2.py writes (write_model)."""
import array
import json
import math
import os
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unittest

weftrun, weft_train = None, None  # from the command line

_DEADLINE_S = 60
_SEQ, _WIDTH, _LAYERS, _HEADS = 24, 24, 2, 3
_VOCABULARY, _ROWS = 280, 384
_SHAPE = ("--seq", _SEQ, "--width", _WIDTH, "--layers", _LAYERS, "--heads", _HEADS)
_TRAINING = ("--batch", "8", "--warmup", "5", "--dtype", "fp32", "--eval-every", "0")


def bf16(value):
    """Rounded to nearest even, as 16 bits."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16


def read_safetensors(path):
    """{name: (shape, values)} of float32."""
    data = path.read_bytes()
    length = struct.unpack_from("<Q", data)[0]
    header, begin = json.loads(data[8:8 + length]), 8 + length
    return {name: (about["shape"], array.array("f", data[begin + about["data_offsets"][0]:begin + about["data_offsets"][1]]))
            for name, about in header.items() if name != "__metadata__"}


def read_llmc(path):
    """The header's words, and {name: values} in llm.c's names and layouts; bfloat16 as the 16 bits that they are."""
    data = path.read_bytes()
    header = struct.unpack_from("<256i", data)
    _, version, seq, _, layers, _, width, padded = header[:8]
    of_layer = (("ln_1.weight", width), ("ln_1.bias", width), ("attn.c_attn.weight", 3 * width * width), ("attn.c_attn.bias", 3 * width),
                ("attn.c_proj.weight", width * width), ("attn.c_proj.bias", width), ("ln_2.weight", width), ("ln_2.bias", width),
                ("mlp.c_fc.weight", 4 * width * width), ("mlp.c_fc.bias", 4 * width), ("mlp.c_proj.weight", 4 * width * width),
                ("mlp.c_proj.bias", width))
    counts = [("wte.weight", padded * width), ("wpe.weight", seq * width)]
    counts += [(f"h.{layer}.{name}", count) for name, count in of_layer for layer in range(layers)]
    counts += [("ln_f.weight", width), ("ln_f.bias", width)]
    kind, at, tensors = ("H" if version == 5 else "f"), 1024, {}
    for name, count in counts:
        values = array.array(kind)
        values.frombytes(data[at:at + count * values.itemsize])
        tensors[name] = values
        at += count * values.itemsize
    assert at == len(data), (at, len(data))
    return header, tensors


def turned(values, rows, columns):
    return [values[i * columns + j] for j in range(columns) for i in range(rows)]


def byte_of_char():
    """GPT-2's characters for bytes, as vocabularies have them."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {chr(char): byte for char, byte in [*((byte, byte) for byte in shown), *((256 + i, byte) for i, byte in enumerate(hidden))]}


class InferenceTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.root = pathlib.Path(directory.name)
        generator = random.Random(3)
        words = ("template ", "int ", "return ", "größe ", "{\n", "; ", "const ", "}\n")
        (cls.root / "text").write_text("".join(generator.choice(words) for _ in range(30000)))
        cls.run_it("tokenize", "--tokenizer", f"bpe:{_VOCABULARY}", "--out", "tokens/t", "text")
        cls.train("bytes", "--data", "text", "--lr", "0.02", "--steps", 60, "--checkpoint-every", 60, ranks=2)
        cls.train("own", "--data", "tokens", "--head", "own", "--lr", "0.02", "--steps", 40, "--checkpoint-every", 20, "--param-dtype", "bf16")
        cls.train("tied", "--data", "tokens", "--lr", "0.02", "--steps", 40, "--checkpoint-every", 40)

    @classmethod
    def run_it(cls, *words, code=0, ranks=0):
        """Standard output, of the program that is to end with that code."""
        done = cls.call(*words, ranks=ranks)
        if done.returncode != code:
            raise AssertionError(f"{words}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    @classmethod
    def call(cls, *words, ranks=0, cwd="."):
        launch = [weftrun, "-n", str(ranks)] if ranks else []
        done = subprocess.run([*launch, weft_train, *map(str, words)], cwd=cls.root / cwd, env=dict(os.environ, WEFT_TUNE="static"), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=_DEADLINE_S, check=False)
        if ranks:
            done.stdout, done.stderr = (re.sub(r"^\[0\] ", "", text, flags=re.MULTILINE) for text in (done.stdout, done.stderr))
        return done

    @classmethod
    def train(cls, name, *more, ranks=0):
        cls.run_it("--name", name, *_SHAPE, *_TRAINING, *more, ranks=ranks)

    def last_loss(self, name):
        return json.loads((self.root / "runs" / name / "metrics.jsonl").read_text().splitlines()[-1])["val_loss"]

    def eval(self, *words, ranks=0):
        lines = self.run_it("eval", "--json", "--dtype", "fp32", *words, ranks=ranks).splitlines()
        self.assertEqual(1, len(lines), lines)
        return json.loads(lines[0])

    def sample(self, *words, ranks=0):
        return self.run_it("sample", *words, ranks=ranks)

    def refuse(self, wrong, *words, ranks=0, cwd="."):
        done = self.call(*words, ranks=ranks, cwd=cwd)
        lines = [line for line in done.stderr.splitlines() if not line.startswith("weftrun")]
        self.assertEqual((2, 1), (done.returncode, len(lines)), done.stderr + done.stdout)
        self.assertRegex(lines[0], wrong)

    def test_eval_has_the_loss_of_the_runs_last_validation(self):
        for name in ("bytes", "own", "tied"):
            with self.subTest(name):
                loss = self.last_loss(name)
                for more, ranks in (((), 0), (("--batch", 3), 2), (("--strategy", "full-shard"), 3)):
                    got = self.eval("--from", f"runs/{name}", *more, ranks=ranks)
                    self.assertAlmostEqual(1, got["loss"] / loss, delta=2e-6)
                    self.assertAlmostEqual(math.exp(got["loss"]), got["perplexity"])
        one = self.eval("--from", "runs/own/checkpoints/step-00000020")
        self.assertNotAlmostEqual(1, one["loss"] / self.last_loss("own"), delta=1e-3)

    def test_eval_says_bits_per_byte_of_the_text_behind_the_tokens(self):
        got = self.eval("--from", "runs/bytes")
        self.assertEqual(got["tokens"], got["bytes"])
        self.assertAlmostEqual(got["loss"] / math.log(2), got["bits_per_byte"])
        got = self.eval("--from", "runs/tied", "--windows", 0)
        vocabulary = json.loads((self.root / "tokens" / "tokenizer.json").read_text())["model"]["vocab"]
        to_byte = byte_of_char()
        bytes_of = {number: len([to_byte[char] for char in token]) for token, number in vocabulary.items() if token != "<|endoftext|>"}
        data = (self.root / "tokens" / "t_val_000000.bin").read_bytes()
        tokens = struct.unpack(f"<{(len(data) - 1024) // 2}H", data[1024:])
        windows = (len(tokens) - 1) // _SEQ
        judged = [tokens[window * _SEQ + 1 + i] for window in range(windows) for i in range(_SEQ // 2, _SEQ)]
        self.assertEqual((windows, len(judged)), (got["windows"], got["tokens"]))
        self.assertEqual(sum(bytes_of.get(token, 0) for token in judged), got["bytes"])
        self.assertAlmostEqual(got["loss"] / math.log(2) * got["tokens"] / got["bytes"], got["bits_per_byte"])
        text = self.run_it("eval", "--from", "runs/tied", "--dtype", "fp32", "--windows", 0)
        self.assertIn(f"{got['loss']:.4f} nats per token, perplexity {got['perplexity']:.3f}, {got['bits_per_byte']:.4f} bits per byte", text)

    def test_a_sample_continues_the_prompt_and_is_a_function_of_its_options(self):
        for name, prompt in (("bytes", "return größe "), ("own", "return größe "), ("tied", "int ")):
            with self.subTest(name):
                words = ("--from", f"runs/{name}", "--prompt", prompt, "--tokens", 3 * _SEQ)
                text = self.sample(*words)
                self.assertTrue(text.startswith(prompt), text)
                self.assertGreater(len(text), len(prompt) + _SEQ)
                self.assertEqual(text, self.sample(*words))
                self.assertEqual(text, self.sample(*words, "--strategy", "full-shard", ranks=2))
                self.assertNotEqual(text, self.sample(*words, "--seed", 2))
                greedy = self.sample(*words, "--temperature", 0)
                self.assertEqual(greedy, self.sample(*words, "--top-k", 1, "--seed", 3))
                self.assertNotEqual(greedy, text)
                self.assertEqual(prompt + "\n", self.sample(*words[:-1], 0))
                self.assertEqual(greedy, self.sample("--init", *words[1:], "--temperature", 0))
        self.assertNotEqual("\n", self.sample("--from", "runs/own", "--tokens", 40))  # of a new document

    def test_llmc_has_each_number_where_transformers_has_it(self):
        self.run_it("export", "--from", "runs/tied", "--out", "theirs")
        self.run_it("export", "--from", "runs/tied", "--out", "files/tied.bin", "--format", "llm.c")
        self.run_it("export", "--from", "runs/tied", "--out", "files/half.bin", "--format", "llm.c", "--dtype", "bf16")
        self.assertEqual(["half.bin", "tied.bin"], sorted(os.listdir(self.root / "files")))
        theirs = read_safetensors(self.root / "theirs" / "model.safetensors")
        header, tensors = read_llmc(self.root / "files" / "tied.bin")
        half_header, halves = read_llmc(self.root / "files" / "half.bin")
        self.assertEqual((20240326, 3, _SEQ, _VOCABULARY, _LAYERS, _HEADS, _WIDTH, _ROWS), header[:8])
        self.assertEqual((5, *header[2:]), half_header[1:])
        self.assertFalse(any(header[8:]))
        self.assertEqual({name.removeprefix("transformer.") for name in theirs}, set(tensors))
        for name, (shape, values) in theirs.items():
            name = name.removeprefix("transformer.")
            # transformers' Conv1D has [in, out], llm.c's nn.Linear [out, in].
            expected = turned(values, *shape) if name.startswith("h.") and len(shape) == 2 else list(values)
            expected += [0.0] * ((_ROWS - _VOCABULARY) * _WIDTH if name == "wte.weight" else 0)
            self.assertEqual(expected, list(tensors[name]), name)
            self.assertEqual([bf16(value) for value in expected], list(halves[name]), name)

    def test_llmc_comes_back_the_same(self):
        self.run_it("export", "--from", "runs/tied", "--out", "again/tied.bin", "--format", "llm.c")
        self.run_it("export", "--from", "runs/tied", "--out", "again/half.bin", "--format", "llm.c", "--dtype", "bf16")
        expected = self.eval("--from", "runs/tied")["loss"]
        self.assertEqual(expected, self.eval("--from", "again/tied.bin", "--data", "tokens")["loss"])
        half = self.eval("--from", "again/half.bin", "--data", "tokens")["loss"]
        self.assertNotEqual(expected, half)
        self.assertAlmostEqual(1, half / expected, delta=1e-2)
        self.assertEqual(expected, self.eval("--from", "again/tied.bin", "--data", "tokens", "--strategy", "full-shard", "--batch", 4)["loss"])
        words = ("--prompt", "int ", "--tokens", 30)
        self.assertEqual(self.sample("--from", "runs/tied", *words),
                         self.sample("--from", "again/tied.bin", "--tokenizer", "tokens/tokenizer.json", *words))
        self.train("from-llmc", "--data", "tokens", "--init", "again/tied.bin", "--steps", 1, "--lr", "1e-12", ranks=2)
        self.assertAlmostEqual(1, self.last_loss("from-llmc") / expected, delta=2e-6)
        # A shorter context takes the first positions.
        self.run_it("--name", "shorter", *_SHAPE[2:], *_TRAINING, "--data", "tokens", "--init", "again/tied.bin", "--steps", 1, "--seq", 8)

    def test_what_transformers_would_save_is_judged_and_sampled(self):
        self.run_it("export", "--from", "runs/own", "--out", "hf")
        self.assertAlmostEqual(1, self.eval("--from", "hf", "--data", "tokens")["loss"] / self.eval("--from", "runs/own")["loss"], delta=2e-6)
        words = ("sample", "--from", "hf", "--prompt", "int ", "--tokens", 9)
        self.refuse("give --tokenizer", *words)
        (self.root / "hf" / "tokenizer.json").write_bytes((self.root / "tokens" / "tokenizer.json").read_bytes())
        self.assertTrue(self.run_it(*words).startswith("int "))
        (self.root / "hf" / "config.json").unlink()
        self.refuse("how many heads", *words)

    def test_bad_input_is_one_sentence(self):
        for verb, more in (("eval", ()), ("sample", ("--prompt", "x"))):
            self.refuse("--from is required", verb, *more)
            self.refuse("--from absent: there is no such file", verb, "--from", "absent", *more)
            self.refuse("--from tokens is no model", verb, "--from", "tokens", *more)
            self.refuse("--from text is no model", verb, "--from", "text", *more, ranks=2)
            self.refuse("--strategy magic is unknown", verb, "--from", "runs/own", "--strategy", "magic", *more)
            self.refuse("there is no backward; use full-shard", verb, "--from", "runs/own", "--strategy", "fraction", *more)
            self.refuse("--nonsense", verb, "--from", "runs/own", "--nonsense", *more, ranks=2)
        (self.root / "runs" / "empty").mkdir()
        (self.root / "runs" / "empty" / "config.json").write_text((self.root / "runs" / "own" / "config.json").read_text())
        self.refuse("there is no checkpoint", "eval", "--from", "runs/empty")
        self.refuse("--data absent", "eval", "--from", "runs/bytes", "--data", "absent", ranks=2)
        (self.root / "elsewhere").mkdir()
        self.refuse("the --data of the model's own run, as seen from here: --data text.*; give --data", "eval", "--from", self.root / "runs" / "bytes",
                    cwd="elsewhere")
        (self.root / "short").write_text("short text\n")
        self.refuse("needs at least 25", "eval", "--from", "runs/bytes", "--data", "short")
        self.refuse("make files of tokens", "eval", "--from", "runs/own", "--data", "text")
        self.refuse("the model reads bytes", "eval", "--from", "runs/bytes", "--data", "tokens")
        self.refuse("--dtype fp8 is unknown", "eval", "--from", "runs/own", "--dtype", "fp8")
        self.refuse("--prompt is empty", "sample", "--from", "runs/own", "--prompt", "")
        self.refuse("--temperature -1 is out of range", "sample", "--from", "runs/own", "--temperature", "-1")
        self.refuse("--temperature nan is out of range", "sample", "--from", "runs/own", "--temperature", "nan")
        self.refuse("--tokens: .* is no whole number", "sample", "--from", "runs/own", "--tokens", "some")
        self.refuse(f"the tokenizer has a vocabulary of {_VOCABULARY}", "sample", "--from", "runs/bytes", "--tokenizer", "tokens/tokenizer.json")

    def call_each(self, *words, own=(), before=""):
        """Two ranks, each with words of its own at the end."""
        with_own = before + 'eval "set -- \\"\\$@\\" \\$OWN$RANK"; exec "$@"'
        environment = dict(os.environ, WEFT_TUNE="static", **{f"OWN{rank}": text for rank, text in enumerate(own)})
        done = subprocess.run([weftrun, "-n", "2", "sh", "-c", with_own, "sh", weft_train, *map(str, words)], cwd=self.root, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=_DEADLINE_S, check=False)
        return done.returncode, *(re.sub(r"^\[0\] ", "", text, flags=re.MULTILINE) for text in (done.stdout, done.stderr))

    def test_rank_0_alone_chooses_the_tokens_and_the_end(self):
        words = ("sample", "--from", "runs/tied", "--prompt", "int ", "--tokens", 2 * _SEQ)
        for strategy in ("ddp", "full-shard"):
            base = (*words, "--strategy", strategy)
            text = self.run_it(*base)
            # A vocabulary in which rank 1 finds the end of the text at the first token, and one that rank 1 has not got.
            first = self.run_it(*base[:6], 1)[len("int "):-1]
            taken = next(token for token in self.vocabulary()["model"]["vocab"] if first == self.text_of(token))
            for wrong in (self.end_at(taken), "absent"):
                with self.subTest(strategy=strategy, wrong=wrong):
                    code, out, err = self.call_each(*base, own=("--tokenizer tokens/tokenizer.json", f"--tokenizer {wrong}"))
                    self.assertEqual((0, text), (code, out), err)

    def vocabulary(self):
        return json.loads((self.root / "tokens" / "tokenizer.json").read_text())

    @staticmethod
    def text_of(token):
        to_byte = byte_of_char()
        return bytes(to_byte[char] for char in token).decode("utf-8", "replace") if set(token) <= set(to_byte) else None

    def end_at(self, token):
        """A vocabulary with that token and the end of text changed over."""
        vocabulary = self.vocabulary()
        numbers = vocabulary["model"]["vocab"]
        added = next(entry for entry in vocabulary["added_tokens"] if entry["content"] == "<|endoftext|>")
        old, new = added["id"], numbers[token]
        numbers[token], added["id"] = old, new
        if "<|endoftext|>" in numbers:
            numbers["<|endoftext|>"] = new
        (self.root / "changed.json").write_text(json.dumps(vocabulary))
        return "changed.json"

    def test_ranks_whose_options_differ_end_with_one_sentence(self):
        for verb, option, values in (("eval", "--windows", (8, 9)), ("eval", "--batch", (2, 3)), ("eval", "--dtype", ("fp32", "auto")),
                                     ("sample", "--seed", (1, 2)), ("sample", "--prompt", ("int", "x")), ("sample", "--tokens", (3, 4)),
                                     ("sample", "--top-k", (0, 3)), ("sample", "--temperature", ("0.5", "0.6")),
                                     ("sample", "--strategy", ("ddp", "full-shard"))):
            with self.subTest(option):
                code, out, err = self.call_each(verb, "--from", "runs/own", own=[f"{option} {value}" for value in values])
                lines = [line for line in err.splitlines() if not line.startswith("weftrun")]
                self.assertEqual((2, 1, ""), (code, len(lines), out), err)
                quote = '"' if option == "--prompt" else ""
                self.assertIn(f"{option} is {quote}{values[0]}{quote} on rank 0, {quote}{values[1]}{quote} on rank 1; give all ranks the same", lines[0])

    def test_memory_is_that_of_the_windows_there_are(self):
        expected = self.eval("--from", "runs/own", "--windows", 8)["loss"]
        self.assertAlmostEqual(1, self.eval("--from", "runs/own", "--windows", 8, "--batch", 1000000, ranks=2)["loss"] / expected, delta=2e-6)

        # A model of 206 GB on each of four ranks; no byte of it is on the disk.
        seq, vocabulary, layers, width = 8, 256, 256, 4096
        numbers = (vocabulary + seq + 2) * width + layers * (12 * width * width + 13 * width)
        with open(self.root / "huge.bin", "wb") as file:
            file.write(struct.pack("<8i", 20240326, 3, seq, vocabulary, layers, 8, width, vocabulary))
            file.truncate(1024 + 4 * numbers)
        self.refuse("does not fit.* on the machine .*; use a smaller model or --batch, a --strategy that shards more, or more machines$", "eval", "--from",
                    "huge.bin", "--data", "text", ranks=4)
        self.refuse("does not fit.*; use a smaller model, a --strategy that shards more, or more machines$", "sample", "--from", "huge.bin", "--tokenizer",
                    "byte", ranks=4)

    def test_a_model_of_other_mathematics_is_refused(self):
        self.run_it("export", "--from", "runs/own", "--out", "other")
        path = self.root / "other" / "config.json"
        good = json.loads(path.read_text())
        for key, value in (("activation_function", "relu"), ("activation_function", "gelu"), ("layer_norm_epsilon", 1e-6), ("scale_attn_weights", False),
                           ("scale_attn_by_inverse_layer_idx", True), ("n_inner", 5 * _WIDTH), ("add_cross_attention", True)):
            with self.subTest(f"{key} {value}"):
                path.write_text(json.dumps({**good, key: value}))
                self.refuse(f"says {key} ", "eval", "--from", "other", "--data", "tokens", ranks=2)
        path.write_text(json.dumps({**good, "activation_function": "relu"}))
        self.refuse("says activation_function ", *_SHAPE, *_TRAINING, "--head", "own", "--data", "tokens", "--init", "other/model.safetensors", "--steps", 1)
        path.write_text(json.dumps({**good, "activation_function": "gelu_pytorch_tanh", "n_inner": None}))
        self.eval("--from", "other", "--data", "tokens", "--windows", 4)

    def test_files_of_llmc_that_are_none_are_refused(self):
        self.run_it("export", "--from", "runs/tied", "--out", "bad/good.bin", "--format", "llm.c")
        data = (self.root / "bad" / "good.bin").read_bytes()

        def changed(word, value):
            return data[:4 * word] + struct.pack("<i", value) + data[4 * word + 4:]

        for wrong, contents in (("it was cut off or is damaged", data[:-4]), ("it was cut off or is damaged", data + b"1234"), ("is no model", data[4:]),
                                ("is no file of weights", data[:1000]), ("version 1 of llm.c's format", changed(1, 1)), ("which is no size", changed(4, 0)),
                                ("which is no size", changed(6, -24)), ("a header that is of no model", changed(5, 5)),
                                ("a header that is of no model", changed(7, _VOCABULARY - 1)), ("it was cut off", changed(2, 1 << 20))):
            with self.subTest(wrong):
                (self.root / "bad" / "it.bin").write_bytes(contents)
                self.refuse(wrong, "eval", "--from", "bad/it.bin", "--data", "tokens")
        base = ("--data", "tokens", *_TRAINING, "--steps", 1, "--init", "bad/good.bin")
        for change, expected in (({"--width": 48}, "give --width 24"), ({"--layers": 3}, "give --layers 2"), ({"--heads": 2}, "give --heads 3"),
                                 ({"--seq": 32}, "give --seq 24"), ({"--vocabulary": 320}, f"give --vocabulary {_VOCABULARY}"), ({"--head": "own"}, "give --head tied")):
            with self.subTest(expected):
                shape = {**dict(zip(_SHAPE[::2], _SHAPE[1::2])), **change}
                self.refuse(expected, *base, *(word for pair in shape.items() for word in pair))
        self.refuse("a head of its own", "export", "--from", "runs/own", "--out", "bad/own.bin", "--format", "llm.c")
        self.refuse("bad/good.bin is there", "export", "--from", "runs/tied", "--out", "bad/good.bin", "--format", "llm.c")
        self.refuse("--format gguf is unknown", "export", "--from", "runs/tied", "--out", "x", "--format", "gguf")
        self.refuse("--dtype bf16 is for --format llm.c", "export", "--from", "runs/tied", "--out", "x", "--dtype", "bf16")
        self.assertFalse((self.root / "x").exists())

    def test_a_full_disk_is_said(self):
        for words in (("eval", "--from", "runs/own", "--dtype", "fp32"), ("sample", "--from", "runs/own", "--tokens", 5)):
            with open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([weft_train, *map(str, words)], cwd=self.root, stdout=full, stderr=subprocess.PIPE, text=True, timeout=_DEADLINE_S,
                                      check=False)
            self.assertEqual(74, done.returncode, done.stderr)
            self.assertIn("No space left on device", done.stderr)


if __name__ == "__main__":
    weftrun, weft_train = sys.argv.pop(1), sys.argv.pop(1)
    unittest.main()
