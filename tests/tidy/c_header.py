"""A header of include/weft as a list of what it declares, each with the comment that belongs to it.

    header = c_header.read("collective.h", text)
    header.comment                 the comment at the top, without its frame
    header.symbols[0].name         "weft_all_reduce"; .kind, .code, .comment too

Knows the C that these headers are written in and no more: block comments, one declaration at a time. Of a C++ header it
takes what stands at namespace level, with its // comment.
"""
import dataclasses
import re

# Macros that serve the headers themselves.
_OWN_MACROS = re.compile(r"WEFT_EXPORT|WEFT_(BEGIN|END)_DECLS|\w+_H(PP)?_")
_SECTION = re.compile(r"/\* -{4,} (.*?) -+ \*/")
_ITEM = re.compile(r"/\*.*?\*/|#[ \t]*\w+(?:\\\n|[^\n])*|\n[ \t]*\n|[^\s#/]|/(?!\*)", re.DOTALL)


@dataclasses.dataclass
class Symbol:
    kind: str  # function, inline function, other name (of a function), struct, enum, handle, callback, macro, class
    name: str
    code: str
    comment: str


@dataclasses.dataclass
class Header:
    name: str
    comment: str
    symbols: list


def plain(comment):
    """The text of a block comment."""
    text = re.sub(r"\A/\*[ \t]?|\s*\*/\Z", "", comment)
    return re.sub(r"^ \*(?: |$)", "", text, flags=re.MULTILINE).strip()


def plain_lines(comment):
    """The text of // lines."""
    return re.sub(r"^//(?: |$)", "", comment, flags=re.MULTILINE).strip()


def _end_of_declaration(text, start):
    """Behind the ; of a declaration, or behind the } of an inline function."""
    depth = 0
    inline = text.startswith("static inline", start)
    for match in re.finditer(r"/\*.*?\*/|\"(?:\\.|[^\"])*\"|'(?:\\.|[^'])'|[{};]", text[start:], re.DOTALL):
        depth += {"{": 1, "}": -1}.get(match[0], 0)
        if depth == 0 and (match[0] == ";" or match[0] == "}" and inline):
            return start + match.end()
    raise ValueError(f"a declaration does not end: {text[start:start + 60]}")


def _classify(code):
    """(kind, name) of a declaration, or None for what is no symbol."""
    if "WEFT_EXPORT" in code:
        return "function", re.search(r"\b(\w+)\s*\(", code.split("WEFT_EXPORT", 1)[1])[1]
    if "__asm__(" in code:
        return "other name", re.search(r"(\w+)\(", code)[1]
    if code.startswith("static inline"):
        return "inline function", re.search(r"(\w+)\(", code)[1]
    if re.match(r"typedef (struct|enum|union)\b[^;]*\{", code):
        return code.split()[1], re.search(r"(\w+);\Z", code)[1]
    callback = re.match(r"typedef [^;(]*\(\*(\w+)\)", code)
    if callback:
        return "callback", callback[1]
    if code.startswith("typedef"):
        return "handle", re.search(r"(\w+);\Z", code)[1]
    return None


def _trailing(text, end):
    """The comment on the rest of the line, and where it ends."""
    match = re.compile(r"[ \t]*(/\*.*?\*/)", re.DOTALL).match(text, end)
    return (plain(match[1]), match.end()) if match else ("", end)


def read(name, text):
    """A C header."""
    top = re.match(r"/\*.*?\*/", text, re.DOTALL)
    symbols, pending, shared, at = [], "", "", top.end() if top else 0
    while True:
        item = _ITEM.search(text, at)
        if item is None:
            return Header(name, plain(top[0]) if top else "", symbols)
        at = item.end()
        if item[0].startswith("/*"):
            pending = "" if _SECTION.match(item[0]) else plain(item[0])
            shared = pending
        elif item[0].isspace():
            pending = shared = ""
        elif item[0].startswith("#"):
            define = re.match(r"#\s*define\s+(\w+)", item[0])
            behind = re.search(r"/\*[^\\]*?\*/\s*\Z", item[0])
            code = item[0][:behind.start()] if behind else item[0]
            if define and not _OWN_MACROS.fullmatch(define[1]):
                symbols.append(Symbol("macro", define[1], code.strip(), plain(behind[0]) if behind else shared))
            pending = ""
        elif text.startswith(("WEFT_BEGIN_DECLS", "WEFT_END_DECLS"), item.start()):
            at = item.start() + len(re.match(r"\w+", text[item.start():])[0])
        else:
            at = _end_of_declaration(text, item.start())
            code = text[item.start():at]
            found = _classify(code)
            behind, at = _trailing(text, at)
            if found:
                if found[0] == "inline function":
                    code = code[:code.index("{")].strip() + ";"
                symbols.append(Symbol(*found, code, pending or behind))
            pending = ""


def public_members(text, at):
    """The public declarations of the class whose body begins at `at`, without bodies, with their comments."""
    members, chunk, depth, public = [], "", 0, False
    while depth >= 0:
        token = re.compile(r"//[^\n]*|\"(?:\\.|[^\"\\])*\"|(?:public|private|protected):|.", re.DOTALL).match(text, at)[0]
        at += len(token)
        if depth == 0 and token in ("public:", "private:", "protected:"):
            public, chunk = token == "public:", ""
            continue
        chunk += token if depth == 0 and token not in "{}" else ""
        before, depth = depth, depth + {"{": 1, "}": -1}.get(token, 0)
        if depth == before == 0 and token == ";" or before == 0 and depth == 1:
            # Of a constructor without what it initialises.
            declaration = re.sub(r"(\)(?: noexcept)?)\s*:\s(?!:).*\Z", r"\1", chunk.rstrip("; \n"), flags=re.DOTALL)
            declaration = re.sub(r"^ *// NOLINT.*\n", "", declaration, flags=re.MULTILINE)
            if public and not re.search(r"= delete\Z", declaration):
                members.append(re.sub(r"\A\s*\n(?=\s*\S)", "", declaration).rstrip() + ";")
            chunk = ""
    return members


def read_cxx(name, text):
    """A C++ header: classes and functions of the namespace."""
    top = re.match(r"(?://[^\n]*\n)+", text)
    pattern = re.compile(r"((?:^//[^\n]*\n)*)((?:^template [^\n]*\n)?^(?:(class|struct) (\w+)\b[^;{]*\{|using (\w+) =[^;]*;|"
                         r"(?:inline|constexpr) [^;{(]*?(\w+)\([^{;]*\{))", re.MULTILINE)
    symbols = []
    for match in pattern.finditer(text, top.end() if top else 0):
        kind = "class" if match[3] else "type" if match[5] else "function"
        code = match[2] if kind == "type" else match[2][:-1].strip() + ";"
        if kind == "class":
            code = match[2] + "\n" + "\n".join(public_members(text, match.end())) + "\n};"
        symbols.append(Symbol(kind, match[4] or match[5] or match[6], code, plain_lines(match[1])))
    return Header(name, plain_lines(top[0]) if top else "", symbols)
