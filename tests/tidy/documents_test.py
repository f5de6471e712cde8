"""Links between documents lead somewhere: the file exists, and the heading when one is named."""
import pathlib
import re
import unittest

import source_tree


def anchors(text):
    """The names that a renderer gives to the headings."""
    outside_code = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *#*$", outside_code, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(documents, exists):
    """documents: {path: text}; exists(path): whether a file or folder is there."""
    found = []
    for path, text in documents.items():
        outside_code = re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", outside_code):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            full = (pathlib.PurePosixPath(path).parent / name) if name else pathlib.PurePosixPath(path)
            normal = _normal(full)
            if not exists(normal):
                found.append(f"{path} links to {target}, which is not there")
            elif anchor and normal in documents and anchor not in anchors(documents[normal]):
                found.append(f"{path} links to {target}, but {normal} has no such heading")
    return found


def _normal(path):
    parts = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return "outside the tree"
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        documents = source_tree.read_tree((".md",))
        self.assertIn("README.md", documents)
        self.assertEqual([], broken_links(documents, lambda path: (source_tree.ROOT / path).exists()))

    def test_broken_links_are_found(self):
        documents = {"docs/a.md": "[b](b.md) [c](c.md#one-two) [d](c.md#three) [e](../../x) `[f](g)`", "docs/c.md": "# One, two"}
        found = broken_links(documents, lambda path: path in documents)
        self.assertEqual(["b.md,", "c.md#three,", "../../x,"], [sentence.split()[3] for sentence in found])

    def test_index_has_every_page(self):
        documents = source_tree.read_tree((".md",))
        index = documents["docs/README.md"]
        pages = [path[len("docs/"):] for path in documents if re.fullmatch(r"docs/((design|tutorials)/)?[\w-]+\.md", path)]
        self.assertEqual([], [page for page in pages if page != "README.md" and f"({page})" not in index])

    def test_every_result_code_is_explained(self):
        header = source_tree.read_tree(("types.h",))["include/weft/types.h"]
        codes = re.findall(r"^  (WEFT_\w+) =\s*(\d+)", header[:header.index("} weft_result_t;")], re.MULTILINE)
        self.assertGreater(len(codes), 15)
        rows = re.findall(r"^\| `(WEFT_\w+)` \| (\d+) \| \S", (source_tree.ROOT / "docs/errors.md").read_text(), re.MULTILINE)
        self.assertEqual(codes, rows)

    def test_documents_name_no_machine(self):
        """Paths of one machine and host names of its network do not belong in what is published."""
        documents = source_tree.read_tree((".md", ".py", ".cmake", ".txt", ".json", "dev", ".in", *source_tree.CODE_SUFFIXES))
        pattern = re.compile(r"(?<![\w.])/(?:home|work|root|Users)/\w+")
        found = [f"{path}: {match[0]}" for path, text in documents.items() for match in pattern.finditer(text)
                 if path != "tests/tidy/documents_test.py"]
        self.assertEqual([], found)


if __name__ == "__main__":
    unittest.main()
