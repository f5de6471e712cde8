"""Our tokens are those of the tokenizers package: for vocabularies that it trains on the spot, for merges at random, and for ours, which it reads.

Text is this project's own, and characters at random. Skipped where the package is not there.
"""
import array
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

_SKIPPED = 77  # as CMake knows it
_ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(_ROOT / "build" / "tokenizers"))
try:
    import tokenizers
    from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers, trainers
except ImportError as error:
    print(f"skipped: {error}; ./dev test trainer installs it")
    sys.exit(_SKIPPED)

PROGRAM = sys.argv.pop(1)
SEED = int(os.environ.get("SEED", random.SystemRandom().randrange(2 ** 32)))
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITS = ("gpt2", "llama3")
# Characters that Unicode 15.0, which Debian's utf8proc knows, has no meaning for; the package's table is of 16.0.
YOUNGER = {chr(c) for low, high in (
    (0x1C89, 0x1C8A), (0xA7CB, 0xA7CD), (0xA7DA, 0xA7DC), (0x105C0, 0x105F3), (0x10D40, 0x10D85), (0x10EC2, 0x10EC4),
    (0x11380, 0x113E2), (0x116D0, 0x116E3), (0x11BC0, 0x11BF9), (0x13460, 0x143FA), (0x16100, 0x16139),
    (0x16D40, 0x16D79), (0x18CFF, 0x18CFF), (0x1CCF0, 0x1CCF9), (0x1E5D0, 0x1E5FA), (0x2EBF0, 0x2EE5D))
    for c in range(low, high + 1)}
CHARACTERS = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and chr(c) not in YOUNGER]


def pre_tokenizer(split):
    if split == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated", False),
                                    pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def theirs(split, model=None):
    tokenizer = tokenizers.Tokenizer(model or models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer(split)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def project_texts():
    """Some of the project's documents and sources, 500 KB."""
    files = sorted(path for folder in ("docs", "trainer", "base", "bindings/python") for path in (_ROOT / folder).rglob("*")
                   if path.suffix in (".md", ".h", ".cc", ".py"))
    texts, size = [], 0
    for path in files:
        texts.append(path.read_text(encoding="utf-8"))
        size += len(texts[-1])
        if size > 500_000:
            break
    return texts


def unicode_text(rng, count):
    """Characters of any script, and what the patterns look at more often."""
    common = list(" '\n\r\t.,!-") + ["  ", "'s", "'LL", "'\u017f", " a", "ab", "12", "3456", "\u00a0", "\u3000", "\u0085", "\u0301", "e\u0301",
                                     "\u4f60\u597d", "\U0001F411", "\u0663\u0664", "\u01c5", "<|endoftext|>"]
    return "".join(rng.choice(CHARACTERS) if rng.random() < 0.2 else rng.choice(common) for _ in range(count))


class Package(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"tokenizers {tokenizers.__version__}, SEED={SEED}", flush=True)
        cls.texts = project_texts()

    def setUp(self):
        self.rng = random.Random(SEED)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_ours(self, *arguments):
        done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, check=False, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr.decode())
        return done.stdout

    def file_of(self, text):
        path = self.folder / "text"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    def words(self, *arguments):
        return array.array("I", self.run_ours(*arguments)).tolist()

    def ours(self, vocabulary, split, text, special="text"):
        return self.words("encode", vocabulary, split, special, self.file_of(text))

    def assert_same_tokens(self, vocabulary, split, tokenizer, text, special="text"):
        tokenizer.encode_special_tokens = special == "text"
        wanted, found = tokenizer.encode(text, add_special_tokens=False).ids, self.ours(vocabulary, split, text, special)
        if wanted == found:
            return
        at = next((i for i, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
        begin = tokenizer.encode(text, add_special_tokens=False).offsets[at][0] if at < len(wanted) else len(text)
        self.fail(f"SEED={SEED} {split}: token {at} of {len(wanted)} and {len(found)}, at {text[max(begin - 20, 0):begin + 20]!r}: "
                  f"{wanted[at:at + 5]} and {found[at:at + 5]}")

    def train_theirs(self, split, vocabulary=2000):
        tokenizer = theirs(split)
        tokenizer.train_from_iterator(self.texts, trainers.BpeTrainer(
            vocab_size=vocabulary, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
        return tokenizer

    def test_pieces_of_characters_of_all_scripts(self):
        """Beside letters, numbers, spaces and apostrophes."""
        some = [c for c in CHARACTERS if "\0" < c < "\u3100"] + self.rng.sample(CHARACTERS, 20_000)
        for split in SPLITS:
            cut = pre_tokenizer(split) if split == "gpt2" else pre_tokenizers.Split(Regex(LLAMA3), "isolated", False)
            text = "".join(f"{c}{c}a{c} {c}'{c}1{c}\n" for c in some)
            wanted = [piece[1][1] for piece in cut.pre_tokenize_str(text)]
            # Offsets count characters.
            lengths = array.array("I", [len(c.encode()) for c in text])
            ends, total = array.array("Q", [0]), 0
            for length in lengths:
                total += length
                ends.append(total)
            self.assertEqual([ends[end] for end in wanted], self.words("pieces", split, self.file_of(text)), split)

    def test_vocabularies_that_the_package_trained(self):
        for split in SPLITS:
            tokenizer = self.train_theirs(split)
            (self.folder / "json").mkdir(exist_ok=True)
            tokenizer.save(str(self.folder / "json" / "tokenizer.json"))
            tokenizer.model.save(str(self.folder))
            for vocabulary in (self.folder / "json", self.folder / "vocab.json"):
                for text in ["".join(self.texts), unicode_text(self.rng, 100_000)]:
                    self.assert_same_tokens(vocabulary, split, tokenizer, text)
                self.assert_same_tokens(vocabulary, split, tokenizer, unicode_text(self.rng, 20_000), "special")
                self.assert_same_tokens(vocabulary, split, tokenizer, "a" * 100_000 + " " * 1000 + "x")

    def test_the_vocabulary_that_we_train_is_theirs(self):
        files = []
        for number, text in enumerate(self.texts):
            files.append(self.folder / f"{number}.txt")
            files[-1].write_text(text, encoding="utf-8", newline="")
        for split in SPLITS:
            self.run_ours("train", split, 2000, 2, self.folder, *files)
            ours, wanted = json.loads((self.folder / "tokenizer.json").read_text()), json.loads(self.train_theirs(split).to_str())
            self.assertEqual(wanted["model"]["merges"], ours["model"]["merges"], split)
            self.assertEqual(wanted["model"], ours["model"], split)
            self.assertEqual(wanted["added_tokens"], ours["added_tokens"])
            # The package reads it, and its pair of older files.
            text = unicode_text(self.rng, 20_000) + self.texts[0]
            self.assert_same_tokens(self.folder, split, tokenizers.Tokenizer.from_file(str(self.folder / "tokenizer.json")), text)
            older = theirs(split, models.BPE.from_file(str(self.folder / "vocab.json"), str(self.folder / "merges.txt")))
            self.assert_same_tokens(self.folder / "vocab.json", split, older, text)

    def test_merges_at_random_many_into_one_token(self):
        for _ in range(20):
            split = self.rng.choice(SPLITS)
            vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
            made, merges = list("abc"), []
            for _ in range(400):
                pair = (self.rng.choice(made), self.rng.choice(made))
                if pair in merges or len("".join(pair)) > 9:
                    continue
                merges.append(pair)
                if "".join(pair) not in vocabulary:
                    vocabulary["".join(pair)] = len(vocabulary)
                    made.append("".join(pair))
            self.rng.shuffle(merges)
            tokenizer = theirs(split, models.BPE(vocabulary, merges, ignore_merges=self.rng.random() < 0.3))
            tokenizer.save(str(self.folder / "tokenizer.json"))
            text = "".join(self.rng.choice("aaabbbccc ") for _ in range(20_000)) + "".join(self.rng.choice("abc") for _ in range(20_000))
            self.assert_same_tokens(self.folder, split, tokenizer, text)

    def test_added_tokens(self):
        tokenizer = self.train_theirs("gpt2", 400)
        tokenizer.add_special_tokens(["<|a b|>", "<|a", "<|endoftext|><|"])
        tokenizer.add_tokens(["  ", "    ", AddedToken("b|>", normalized=False), "endof", " the"])
        tokenizer.save(str(self.folder / "tokenizer.json"))
        parts = ["<|a b|>", "<|a", " b|>", "<|endoftext|>", "<|", "|>", "  ", "    ", " ", "the", " the", "endof", "a", "b", "\n"]
        for special in ("text", "special"):
            for _ in range(10):
                text = "".join(self.rng.choice(parts) for _ in range(2000))
                self.assert_same_tokens(self.folder, "gpt2", tokenizer, text, special)

    def test_any_bytes_come_back(self):
        self.train_theirs("llama3", 1000).save(str(self.folder / "tokenizer.json"))
        text = bytes(self.rng.randrange(256) for _ in range(100_000)) + "".join(self.texts)[:50_000].encode()[:-1]
        tokens = self.folder / "tokens"
        tokens.write_bytes(self.run_ours("encode", self.folder, "gpt2", "text", self.file_of(text)))
        self.assertEqual(text, self.run_ours("decode", self.folder, tokens))


if __name__ == "__main__":
    unittest.main()
