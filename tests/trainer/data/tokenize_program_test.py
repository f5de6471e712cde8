"""weft_train tokenize makes files of tokens of text, which are the text's tokens in order; and says what is wrong in one sentence."""
import array
import json
import os
import pathlib
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

weft_train, weft_test_tokenize = None, None  # from the command line

_DEADLINE_S = 240
_BAD_INPUT, _NOT_WRITTEN = 2, 74
_WORDS = ("the ", "cat's ", "été ", "1234 ", "return x;\n", "\n\n", "日本 ", "-- ", "<|endoftext|>", "template <typename T> ")
_GPT2, _LLAMA3 = (20240520, 1, "H"), (20240801, 7, "I")


def tokens_of(path, kind=_GPT2):
    """What a file of tokens has, as llm.c's reader takes it."""
    data = path.read_bytes()
    header = struct.unpack("<256i", data[:1024])
    magic, version, code = kind
    assert header[:2] == (magic, version), (path, header[:3])
    tokens = array.array(code, data[1024:])
    assert header[2] == len(tokens) and not any(header[3:]), (path, header[:4])
    return list(tokens)


def _spelled_bytes():
    """Each byte as vocabularies write it: what is printable in Latin-1 as itself, the others from U+0100 on."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


class TokenizeTest(unittest.TestCase):

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        self.texts = {}
        for seed, (name, size) in enumerate((("text/b.txt", 100_000), ("text/a/c.md", 300), ("text/a.txt", 20_000), ("text/z", 1))):
            self.write_text(name, seed, size)

    def write_text(self, name, seed, size):
        generator, text = random.Random(seed), ""
        while len(text) < size:
            text += generator.choice(_WORDS)
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode()[:size])
        self.texts[name] = path.read_bytes()

    def run_it(self, *arguments, code=0, **settings):
        done = subprocess.run([weft_train, "tokenize", *arguments], cwd=self.root, capture_output=True, text=True, timeout=_DEADLINE_S,
                              check=False, **settings)
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        if code == 0:
            self.assertEqual("", done.stderr)
        return done.stdout if code == 0 else done.stderr

    def refused(self, *arguments, code=_BAD_INPUT, **settings):
        """The sentence."""
        printed = self.run_it(*arguments, code=code, **settings)
        self.assertRegex(printed, r"\Aweft_train: [^\n]*\n\Z")
        return printed[len("weft_train: "):-1]

    def names(self, folder="data"):
        return sorted(path.name for path in (self.root / folder).iterdir())

    def set_of(self, name):
        return json.loads((self.root / f"{name}.json").read_text())

    def encoded(self, vocabulary, text, split="gpt2"):
        """The tokens of a text, by the tokenizer's own test program, all at once."""
        (self.root / "one").write_bytes(text)
        done = subprocess.run([weft_test_tokenize, "encode", vocabulary, split, "text", "one"], cwd=self.root, capture_output=True,
                              timeout=_DEADLINE_S, check=True)
        return list(array.array("I", done.stdout))

    # ---- what is written ----

    def test_bytes_are_tokens_and_all_of_them_are_there_in_order(self):
        printed = self.run_it("--tokenizer", "byte", "--out", "data/text", "--val-part", "0", "text")
        self.assertEqual(["text.json", "text_train_000000.bin"], self.names())
        order = ["text/a/c.md", "text/a.txt", "text/b.txt", "text/z"]
        self.assertEqual(list(b"".join(self.texts[name] for name in order)), tokens_of(self.root / "data/text_train_000000.bin"))
        self.assertIn("text   4 documents, 120.3 kB, in this order:\n" + "".join(f"       {name}\n" for name in order), printed)
        self.assertIn("vocab  256 tokens, the bytes\n", printed)
        self.assertIn("tokens 120301 to train on, 0 to validate; 1.00 bytes per token\n", printed)
        self.assertIn("wrote  data/text_train_000000.bin\nwrote  data/text.json\n", printed)
        self.assertEqual({"format": "weft tokens", "version": 1, "tokenizer": "byte", "vocabulary": 256, "documents": 4, "bytes": 120301,
                          "train": {"tokens": 120301, "files": ["text_train_000000.bin"]}, "validation": {"tokens": 0, "files": []}},
                         self.set_of("data/text"))

    def test_a_vocabulary_is_made_of_the_text_and_documents_begin_with_its_mark(self):
        for split in ("gpt2", "llama3"):
            printed = self.run_it("--tokenizer", "bpe:300", "--split", split, "--out", f"{split}/t", "--val-part", "0", "text")
            self.assertEqual(["t.json", "t_train_000000.bin", "tokenizer.json"], self.names(split))
            self.assertIn("vocab  300 tokens, made of 120.3 kB of the text\n", printed)
            expected = []
            for name in ("text/a/c.md", "text/a.txt", "text/b.txt", "text/z"):
                expected += [0, *self.encoded(f"{split}/tokenizer.json", self.texts[name], split)]
            self.assertEqual(expected, tokens_of(self.root / split / "t_train_000000.bin"))
            described = self.set_of(f"{split}/t")
            self.assertEqual(("tokenizer.json", 300, 0), tuple(described[key] for key in ("tokenizer", "vocabulary", "end_of_text")))
        # The same again, of a vocabulary's file: its copy lies beside the tokens.
        printed = self.run_it("--tokenizer", "gpt2", "--out", "again/t", "--val-part", "0", "text")
        self.assertIn("vocab  300 tokens, of gpt2\n", printed)
        for name in ("tokenizer.json", "t_train_000000.bin", "t.json"):
            self.assertEqual((self.root / "gpt2" / name).read_bytes(), (self.root / "again" / name).read_bytes())
        # Text with fewer frequent pairs than are wanted.
        printed = self.run_it("--tokenizer", "bpe:5000", "--out", "few/t", "text/a/c.md")
        self.assertRegex(printed, r"vocab  \d{3} tokens, made of 27\d bytes of the text; no other pair is there twice\n")

    def test_the_tokens_are_the_same_however_the_files_are_named_and_cut(self):
        self.run_it("--tokenizer", "byte", "--out", "one/t", "text")
        self.run_it("--tokenizer", "byte", "--out", "other/t", "--shard-tokens", "999", "text/z", "text/b.txt", "text/a", "./text/a.txt", "text/b.txt")
        for side in ("train", "val"):
            shards = sorted((self.root / "other").glob(f"t_{side}_*.bin"))
            parts = [tokens_of(path) for path in shards]
            self.assertEqual({999}, {len(part) for part in parts[:-1]})
            self.assertEqual(tokens_of(self.root / f"one/t_{side}_000000.bin"), sum(parts, []))
            described = self.set_of("other/t")["train" if side == "train" else "validation"]
            self.assertEqual([path.name for path in shards], described["files"])

    def test_a_part_of_every_large_text_validates_and_no_byte_is_on_both_sides(self):
        self.run_it("--tokenizer", "bpe:300", "--out", "data/t", "--val-part", "0.2", "text")
        train, val = (tokens_of(self.root / f"data/t_{side}_000000.bin") for side in ("train", "val"))
        vocabulary = "data/tokenizer.json"
        # Both large texts end with a fifth that validates, cut where a word ends.
        documents = []
        for token in val:
            if token == 0:
                documents.append([])
            else:
                documents[-1].append(token)
        texts = []
        for tokens in documents:
            (self.root / "words").write_bytes(array.array("I", tokens).tobytes())
            texts.append(subprocess.run([weft_test_tokenize, "decode", vocabulary, "words"], cwd=self.root, capture_output=True,
                                        timeout=_DEADLINE_S, check=True).stdout)
        large = [text for text in texts if len(text) > 1000]
        self.assertEqual(1, len(large), [len(text) for text in texts])
        whole = self.texts["text/b.txt"]
        self.assertTrue(whole.endswith(large[0]))
        self.assertLess(abs(len(large[0]) - len(whole) // 5), 100)
        # Together they are all of the text: nothing is lost, or there twice.
        (self.root / "words").write_bytes(array.array("I", [token for token in train if token != 0]).tobytes())
        trained = subprocess.run([weft_test_tokenize, "decode", vocabulary, "words"], cwd=self.root, capture_output=True,
                                 timeout=_DEADLINE_S, check=True).stdout
        self.assertEqual(sum(map(len, self.texts.values())), len(trained) + sum(map(len, texts)))
        self.assertIn(whole[:-len(large[0])], trained)

    def test_a_large_vocabulary_has_words_of_32_bits(self):
        # All pairs of bytes are tokens, and those that the text has are the last ones.
        spelled = _spelled_bytes()
        text = self.texts["text/b.txt"]
        there = set(zip(text, text[1:]))
        pairs = sorted(((a, b) for a in range(256) for b in range(256)), key=lambda pair: (pair in there, pair))
        vocabulary = {spelled[byte]: byte for byte in range(256)}
        merges = []
        for a, b in pairs:
            vocabulary[spelled[a] + spelled[b]] = len(vocabulary)
            merges.append(f"{spelled[a]} {spelled[b]}")
        self.assertEqual(65_792, len(vocabulary))
        (self.root / "large").mkdir()
        (self.root / "large/vocab.json").write_text(json.dumps(vocabulary))
        (self.root / "large/merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
        self.run_it("--tokenizer", "large", "--out", "data/t", "--val-part", "0", "text/b.txt")
        tokens = tokens_of(self.root / "data/t_train_000000.bin", _LLAMA3)
        self.assertGreater(max(tokens), 65_535)
        self.assertEqual(self.encoded("large", text), tokens)
        self.assertEqual(tokens, self.encoded("data/tokenizer.json", text))
        self.assertEqual(65_792, self.set_of("data/t")["vocabulary"])

    def test_more_documents_than_can_be_listed_are_counted(self):
        for i in range(30):
            self.write_text(f"many/{i:02}.txt", i, 100)
        self.write_text("many/.hidden", 1, 100)
        (self.root / "many/empty").write_bytes(b"")
        printed = self.run_it("--tokenizer", "byte", "--out", "data/t", "many")
        self.assertIn("       many/19.txt\n       and 10 more, to many/29.txt\n", printed)
        self.assertIn("       passed over 1 hidden file or folder (.hidden)\n       1 empty file\n", printed)

    # ---- bounds ----

    def many_links(self, links):
        """A folder of so many names of one text of 4 MB."""
        self.write_text("links/text", 7, 4_000_000)
        for i in range(links):
            os.link(self.root / "links/text", self.root / f"links/text{i:05}")

    def test_a_text_of_any_size_takes_little_memory(self):
        self.run_it("--tokenizer", "bpe:400", "--out", "data/t", "text")
        self.many_links(29)
        command = [weft_train, "tokenize", "--tokenizer", "data/tokenizer.json", "--out", "large/t", "links"]
        with open(os.devnull, "wb") as null:
            process = subprocess.Popen(command, cwd=self.root, stdout=null)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.assertEqual(0, process.returncode)
        self.assertEqual(120_000_000, self.set_of("large/t")["bytes"])
        self.assertLess(usage.ru_maxrss * 1024, 90_000_000)

    # ---- what goes wrong ----

    def test_what_will_not_do_is_said_in_one_sentence(self):
        (self.root / "picture").write_bytes(b"P\0NG")
        (self.root / "nothing").write_bytes(b"")
        (self.root / "file").write_bytes(b"a file")
        os.mkfifo(self.root / "fifo")
        words = {"--tokenizer": "byte", "--out": "data/t"}

        def refused(*files, **options):
            given = {**words, **{f"--{key.replace('_', '-')}": value for key, value in options.items()}}
            return self.refused(*(word for pair in given.items() for word in pair), *(files or ("text",)))

        self.assertEqual("tokenize absent: No such file or directory", refused("absent"))
        self.assertEqual("tokenize nothing: found no text but 1 empty file; name files or folders of text", refused("nothing"))
        self.assertEqual("tokenize picture: found no text but 1 file with NUL bytes, which is no text (picture); name files or folders of text",
                         refused("picture"))
        self.assertRegex(refused("fifo"), "tokenize fifo is neither a regular file nor a directory")
        self.assertRegex(refused(tokenizer="absent"), "absent: there is no such file or folder")
        self.assertRegex(refused(tokenizer="text/b.txt"), "text/b.txt: a vocabulary is a folder, a .json or a .bin")
        self.assertRegex(refused(tokenizer="bpe:12"), "--tokenizer bpe:12: 12 is no number of tokens from 257 to 1000000")
        self.assertRegex(refused(shard_tokens="0"), "--shard-tokens: 0 is out of range; use 1 to 2147483647")
        self.assertRegex(refused(shard_tokens="2147483648"), "--shard-tokens: 2147483648 is out of range; use 1 to 2147483647")
        self.assertRegex(refused(val_part="1"), "--val-part 1 is no part of the text; use 0 to less than 1")
        self.assertRegex(refused(val_part="nan"), "--val-part nan is no part of the text")
        self.assertRegex(refused(split="gpt3"), "--split gpt3 is unknown; use gpt2 or llama3")
        self.assertRegex(refused(out="data/"), "--out data/ has no name for the files of tokens; use FOLDER/NAME")
        self.assertRegex(refused(out="data/tokenizer"), "--out data/tokenizer has no name")
        self.assertRegex(refused(out="file/t"), "cannot write to file: Not a directory; choose another --out")
        self.assertRegex(self.refused("--out", "data/t", "text"), "--tokenizer is required; see weft_train tokenize --help")
        self.assertRegex(self.refused("--out", "data/t", "--tokenizer", "byte"), "FILES is required; see weft_train tokenize --help")
        self.assertRegex(refused("text", unknown="1"), "unknown")
        # Nothing of it has left anything.
        self.assertTrue(not (self.root / "data").exists() or self.names() == [])
        self.assertIn("--shard-tokens", self.run_it("--help"))

    def test_a_name_that_is_used_is_refused_and_so_is_another_vocabulary(self):
        self.run_it("--tokenizer", "bpe:300", "--out", "data/t", "text")
        before = {name: (self.root / "data" / name).read_bytes() for name in self.names()}
        self.assertRegex(self.refused("--tokenizer", "byte", "--out", "data/t", "text/z"),
                         r"data/t(_train_000000.bin|_val_000000.bin|.json) is there already; choose another --out, or remove the files of that name")
        self.assertRegex(self.refused("--tokenizer", "bpe:301", "--out", "data/u", "text"),
                         "data/tokenizer.json is another vocabulary than that of these tokens; choose another folder for --out")
        self.assertEqual(before, {name: (self.root / "data" / name).read_bytes() for name in self.names()})
        # With the same one there is room for more in the folder.
        self.run_it("--tokenizer", "data", "--out", "data/u", "text/a.txt")
        self.assertLess(set(before), set(self.names()))

    def test_a_full_disk_is_named_and_nothing_is_left(self):
        def limited():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))

        # A shard that is full is written when there is no room for the next one.
        self.assertRegex(self.refused("--tokenizer", "byte", "--out", "data/t", "--shard-tokens", "60000", "text", code=_NOT_WRITTEN,
                                      preexec_fn=limited, restore_signals=False),
                         r"cannot write to data/t_\w+_000000.bin.new: File too large; make room, or choose another --out")
        self.assertEqual([], self.names())

    def test_output_that_nobody_takes_is_named(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([weft_train, "tokenize", "--tokenizer", "byte", "--out", "data/t", "text"], cwd=self.root, stdout=full,
                                  stderr=subprocess.PIPE, text=True, timeout=_DEADLINE_S, check=False)
        self.assertEqual(_NOT_WRITTEN, done.returncode)
        self.assertEqual("weft_train: writing the output: No space left on device\n", done.stderr)
        self.assertEqual([], self.names())

    # ---- being ended ----

    def start_long(self):
        """One that counts words for minutes, and has the name by now."""
        if not (self.root / "links").exists():
            self.many_links(1000)
        process = subprocess.Popen([weft_train, "tokenize", "--tokenizer", "bpe:300", "--out", "data/t", "links"], cwd=self.root,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + _DEADLINE_S
        while not (self.root / "data/t.json.new").exists():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        return process

    def test_asked_to_end_it_leaves_nothing(self):
        process = self.start_long()
        self.assertRegex(self.refused("--tokenizer", "byte", "--out", "data/t", "text"),
                         "data/t.json is being written by another process; choose another --out")
        process.send_signal(signal.SIGTERM)
        _, printed = process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(143, process.returncode, printed)
        self.assertEqual("weft_train: tokenize: asked to end; nothing is written\n", printed)
        self.assertEqual([], self.names())

    def test_what_a_killed_one_leaves_is_in_nobodys_way(self):
        process = self.start_long()
        process.kill()
        process.communicate(timeout=_DEADLINE_S)
        self.assertEqual(["t.json.new"], self.names())
        for name in ("t_train_000099.bin.new", "t.tokenizer.json.new", "u_train_000000.bin.new"):
            (self.root / "data" / name).write_bytes(b"begun")
        self.run_it("--tokenizer", "byte", "--out", "data/t", "text")
        self.assertEqual(["t.json", "t_train_000000.bin", "t_val_000000.bin", "u_train_000000.bin.new"], self.names())


if __name__ == "__main__":
    weft_train, weft_test_tokenize = (os.path.abspath(path) for path in sys.argv[1:3])
    del sys.argv[1:3]
    unittest.main()
