"""docs/api, tests/install/exports.txt and Python's _capi.py, made from the headers of include/weft, and docs/gpu.md. `./dev docs` runs this file.

One page per header: its top comment, then each symbol with its declaration and its comment; README.md has one line per
symbol. exports.txt has the functions that libweft.so must show. python_capi.py makes the third, workbench/gpu/page.py the last. api_test.py
fails when any of them is stale.
"""
import re
import sys

import c_header
import python_capi
import source_tree

sys.path.insert(0, str(source_tree.ROOT))
from workbench.gpu import page as gpu_page

FOLDER = "docs/api"
EXPORTS = "tests/install/exports.txt"
_MADE = "Made from the header by `./dev docs`."
# What becomes code: what a comment has in backticks, names, files.
_CODE = re.compile(r"`([^`\n]+)`|(?<!\w)((?:weft|WEFT|nccl|NCCL)_?\w+(?:::\w+)*(?:\(\))?|(?:weft/)?\w+\.(?:h|hpp|md)\b)(?!\w)")


def headers():
    """All headers of include/weft, those of C first."""
    result = []
    for path, text in sorted(source_tree.read_tree((".h", ".hpp")).items()):
        if path.startswith("include/weft/"):
            name = path[len("include/weft/"):]
            result.append((c_header.read if name.endswith(".h") else c_header.read_cxx)(name, text))
    return sorted(result, key=lambda header: (header.name.endswith(".hpp"), header.name))


def markdown(text):
    """Prose of a comment: names as code, and nothing else read as markup."""
    result, at = [], 0
    for match in _CODE.finditer(text):
        result += [_escaped(text[at:match.start()]), f"`{match[1] or match[2]}`"]
        at = match.end()
    return "".join(result) + _escaped(text[at:])


def _escaped(text):
    return re.sub(r"([*<>\[\]`|]|(?<!\w)_)", r"\\\1", text)


def blocks(comment):
    """A comment as Markdown: paragraphs and lists as such, what is indented as code."""
    lines, result, item = comment.splitlines(), [], False
    for line in lines:
        if not line.strip():
            item = False
        elif re.match(r"- ", line):
            item = True
        if line.startswith("  ") and not item:
            result.append(("code", line[2:]))
        else:
            result.append(("text", line))
    out = []
    for i, (kind, line) in enumerate(result):
        before = next((k for k, text in reversed(result[:i]) if text.strip()), "text") if i else "text"
        if kind == "code" and before == "text":
            out += ([""] if out and out[-1] else []) + ["```"]
        if kind == "text" and before == "code" and line.strip():
            while out and not out[-1]:
                out.pop()
            out += ["```", ""]
        out.append(line if kind == "code" else "- " + markdown(line[2:]) if line.startswith("- ") else markdown(line))
    if result and result[-1][0] == "code":
        out.append("```")
    return "\n".join(out)


def page_name(header_name):
    return header_name.replace(".hpp", "_hpp").replace(".h", "") + ".md"


def page(header):
    language = "cpp" if header.name.endswith(".hpp") else "c"
    parts = [f"# {header.name}", f"[include/weft/{header.name}](../../include/weft/{header.name}). {_MADE}", blocks(header.comment)]
    for symbol in header.symbols:
        parts += [f"## {symbol.name}", f"```{language}\n{symbol.code}\n```"]
        if symbol.comment:
            parts.append(blocks(symbol.comment))
    return "\n\n".join(parts) + "\n"


def first_sentence(comment):
    flat = " ".join(comment.split("\n\n")[0].split())
    match = re.match(r"(.*?[^.][.;])(?=\s|$)", flat)
    return (match[1] if match else flat).rstrip(".;")


def index(all_headers):
    parts = ["# The interface, header by header", f"{_MADE.replace('the header', 'the headers')} How the interface may "
             "change: [abi.md](../abi.md)."]
    for header in all_headers:
        name = page_name(header.name)
        lines = [f"## [{header.name}]({name})", "", markdown(first_sentence(header.comment)) + "."]
        rows = [f"- [{symbol.name}]({name}#{symbol.name.lower()})"
                + (f": {markdown(first_sentence(symbol.comment))}" if symbol.comment else "") for symbol in header.symbols]
        parts.append("\n".join(lines + ([""] + rows if rows else [])))
    return "\n\n".join(parts) + "\n"


def exports(all_headers):
    names = [symbol.name for header in all_headers for symbol in header.symbols
             if symbol.kind == "function" and header.name.endswith(".h")]
    return "\n".join(sorted(names)) + "\n"


def generated():
    """{path: text} of everything that is made."""
    all_headers = headers()
    result = {f"{FOLDER}/{page_name(header.name)}": page(header) for header in all_headers}
    result[f"{FOLDER}/README.md"] = index(all_headers)
    result[EXPORTS] = exports(all_headers)
    result[python_capi.PATH] = python_capi.text_of([(path[len("include/weft/"):], text) for path, text in source_tree.read_tree((".h",)).items()
                                                    if path.startswith("include/weft/")])
    result[gpu_page.PATH] = gpu_page.text(source_tree.ROOT)
    return result


def write():
    made = generated()
    folder = source_tree.ROOT / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.md"):
        if f"{FOLDER}/{path.name}" not in made:
            path.unlink()
    for name, text in made.items():
        path = source_tree.ROOT / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote {name}")


if __name__ == "__main__":
    write()
