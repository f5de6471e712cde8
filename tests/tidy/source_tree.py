"""The source tree as the tidy tests see it: {path: text}, and text without comments and strings."""
import os
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
LAYERS = ("include", "base", "topology", "comm", "shard")
LEAVES = ("bindings", "cli", "trainer", "bench", "examples", "tests")
CODE_SUFFIXES = (".h", ".hpp", ".c", ".cc", ".cu", ".cuh")
IGNORED_FOLDERS = {"build", "runs", ".git", ".cache", "__pycache__", ".venv"}

# A comment, a string or character literal, whichever comes first; raw strings included.
_LEXEME = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)


def read_tree(suffixes=CODE_SUFFIXES, root=ROOT):
    """{path relative to the root: text} of all files with one of the suffixes."""
    tree = {}
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in IGNORED_FOLDERS)
        for name in sorted(names):
            if name.endswith(suffixes):
                path = pathlib.Path(folder, name)
                tree[path.relative_to(root).as_posix()] = path.read_text(encoding="utf-8")
    return tree


def strip(text, keep_strings=False):
    """Replaces comments, and string literals unless asked not to, by blanks; lines keep their numbers."""

    def blank(match):
        lexeme = match[0]
        if keep_strings and not lexeme.startswith(("//", "/*")):
            return lexeme
        return re.sub(r"[^\n]", " ", lexeme)

    return _LEXEME.sub(blank, text)


def includes(text):
    """[(line number, name, is quoted)] of the #include lines."""
    found = re.finditer(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', strip(text, keep_strings=True), re.MULTILINE)
    return [(text.count("\n", 0, match.start()) + 1, match[2], match[1] == '"') for match in found]


def lines_matching(text, pattern):
    """Numbers of the lines on which code, not comments or strings, matches."""
    stripped = strip(text)
    return sorted({stripped.count("\n", 0, match.start()) + 1 for match in re.finditer(pattern, stripped, re.MULTILINE)})


def top_folder(path):
    return path.split("/", 1)[0]
