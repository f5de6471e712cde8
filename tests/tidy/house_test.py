"""The shape of the tree: a README in each folder, sources listed by name, and a report of long files."""
import ast
import re
import unittest

import source_tree

_WITH_README = ("base", "topology", "comm", "shard", "trainer", "cli", "bench", "examples")
_LIBRARY = ("base/", "topology/", "comm/", "shard/", "bindings/c/")
_LONG = 500


def folders_with_code(tree):
    folders = set()
    for path in tree:
        parts = path.split("/")[:-1]
        folders.update("/".join(parts[:depth + 1]) for depth in range(len(parts)))
    return folders


def unlisted_sources(sources, lists):
    """Sources that the CMakeLists.txt of their folder, or of a folder above, does not name."""
    found = []
    for path in sources:
        parts = path.split("/")
        for depth in range(len(parts) - 1, -1, -1):
            text = lists.get("/".join(parts[:depth] + ["CMakeLists.txt"]))
            if text and re.search(rf"(?<![\w/.]){re.escape('/'.join(parts[depth:]))}(?![\w.])", text):
                break
            # A list may name sources by stem, as in foreach(name a b) ... ${name}.cc.
            stem = parts[-1].rsplit(".", 1)[0]
            if text and depth == len(parts) - 1 and "foreach" in text and re.search(rf"\b{re.escape(stem)}\b|\b{re.escape(re.sub('_test$', '', stem))}\b", text):
                break
        else:
            found.append(path)
    return found


class House(unittest.TestCase):
    def test_every_folder_has_a_readme(self):
        tree = source_tree.read_tree()
        missing = [folder for folder in sorted(folders_with_code(tree))
                   if folder.split("/")[0] in _WITH_README and not (source_tree.ROOT / folder / "README.md").exists()]
        self.assertEqual([], missing)

    def test_sources_are_listed_by_name(self):
        lists = source_tree.read_tree(("CMakeLists.txt",))
        for path, text in lists.items():
            self.assertNotRegex(text, r"file\s*\(\s*GLOB", f"{path} lists sources by pattern")
        sources = [path for path in source_tree.read_tree((".cc", ".c")) if not path.startswith("cmake/")]
        self.assertEqual([], unlisted_sources(sources, lists))

    def test_an_unlisted_source_is_found(self):
        lists = {"base/CMakeLists.txt": "target_sources(weft_base PRIVATE\n  a.cc\n  sub/c.cc\n)\n"}
        self.assertEqual(["base/b.cc"], unlisted_sources(["base/a.cc", "base/b.cc", "base/sub/c.cc"], lists))
        self.assertEqual(["base/aa.cc"], unlisted_sources(["base/aa.cc"], lists))

    def test_shared_memory_has_no_name(self):
        """What has a name outlives a process that is killed."""
        sources = source_tree.read_tree((".cc", ".c", ".h"))
        named = [path for path, text in sources.items()
                 if path.startswith(_LIBRARY) and re.search(r"\bshm_open\s*\(|\"/dev/shm", text)]
        self.assertEqual([], named)

    def test_python_is_valid(self):
        for path, text in source_tree.read_tree((".py", "dev", "run")).items():
            with self.subTest(path):
                if path.endswith(".py") or text.startswith("#!/usr/bin/env python3"):
                    ast.parse(text, path, feature_version=(3, 9))

    def test_report_long_files(self):
        """Prints them; whether a file owns one thing is for its readers to judge."""
        tree = source_tree.read_tree((*source_tree.CODE_SUFFIXES, ".py", "dev"))
        self.assertTrue(tree)
        for path, text in sorted(tree.items(), key=lambda item: -item[1].count("\n")):
            if text.count("\n") > _LONG:
                print(f"long: {path} has {text.count(chr(10))} lines; does it own one thing?")


if __name__ == "__main__":
    unittest.main()
