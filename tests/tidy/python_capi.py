"""bindings/python/src/weft/_capi.py, made from the headers of C. `./dev docs` writes it (api_pages.py), api_test.py fails when it is
stale.

Pointers of all kinds are c_void_p, which takes addresses, None, byref() and arrays; `const char*` is c_char_p; enums are c_int.
"""
import keyword
import re

import c_header
import source_tree

PATH = "bindings/python/src/weft/_capi.py"
# Other names for what the rest declares.
_LEFT_OUT = ("nccl_",)
_SCALARS = {
    "char": "c_char", "int": "c_int", "size_t": "c_size_t", "float": "c_float", "double": "c_double", "int32_t": "c_int32",
    "uint32_t": "c_uint32", "int64_t": "c_int64", "uint64_t": "c_uint64", "uint8_t": "c_uint8", "uint16_t": "c_uint16",
}
# What mypy sees of an argument.
_SEEN = {"c_void_p": "Pointer", "c_char_p": "bytes | None", "c_float": "float", "c_double": "float"}
_TOP = '''"""The C interface as ctypes sees it: structs, constants, and the types of all functions. Made from include/weft by `./dev docs`.

Nothing is loaded here: `Functions` binds a function of a loaded library when it is first asked for.
"""
# fmt: off
from __future__ import annotations

import ctypes
from ctypes import (CFUNCTYPE, Structure, c_char, c_char_p, c_double, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import TYPE_CHECKING, Any, Union

if TYPE_CHECKING:
    # An address, byref() of an object, an array of them, or None for NULL.
    Pointer = Union[int, c_void_p, ctypes.Array[Any], "ctypes._CArgObject", None]
'''
_FUNCTIONS_TOP = '''

class Functions:
    """The functions of a loaded library, bound when first used."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library

    if TYPE_CHECKING:
'''
_FUNCTIONS_END = '''    else:

        def __getattr__(self, name):
            if name not in FUNCTIONS:
                raise AttributeError(name)
            function = getattr(self._library, name)
            function.restype, function.argtypes = FUNCTIONS[name]
            setattr(self, name, function)
            return function
'''


class _Reader:
    """Types of C by their names, as the headers declare them one after the other."""

    def __init__(self):
        self.enums, self.structs, self.callbacks, self.handles, self.numbers = set(), {}, {}, set(), {}

    def ctype(self, text):
        """The ctypes name of `const weft_call_t*`, `size_t`..."""
        plain = re.sub(r"\b(?:const|struct|WEFT_EXPORT)\b", " ", text)
        base, stars = re.sub(r"[*\s]+", " ", plain).strip(), plain.count("*")
        if stars:
            return "c_char_p" if stars == 1 and base == "char" and "const" in text else "c_void_p"
        if base in _SCALARS:
            return _SCALARS[base]
        if base in self.enums:
            return "c_int"
        if base in self.handles:
            return "c_void_p"
        if base in self.structs or base in self.callbacks:
            return base
        raise ValueError(f"{base} is no type that stands before its use")

    def result(self, text):
        return "None" if re.sub(r"\bWEFT_EXPORT\b", "", text).strip() == "void" else self.ctype(text)

    def arguments(self, text):
        """[(name, ctypes name)] of what stands between the parentheses."""
        if text.strip() == "void":
            return []
        result = []
        for argument in text.split(","):
            match = re.fullmatch(r"\s*(.*?)\b(\w+)\s*(\[\w*\])?\s*", argument, re.DOTALL)
            result.append((match[2], self.ctype(match[1] + ("*" if match[3] else ""))))
        return result

    def prototype(self, head, arguments):
        return ", ".join([self.result(head)] + [kind for _, kind in self.arguments(arguments)])

    def number(self, text):
        """The Python literal of a number of C, or of a name for one."""
        text = text.replace("\\\n", " ").strip().strip("()").strip()
        if text in self.numbers:
            return text
        match = re.fullmatch(r"(-?(?:0x[0-9a-fA-F]+|\d+))[uU]?", text)
        return match[1] if match else text if re.fullmatch(r'"[^"]*"', text) else None


def _without_comments(code):
    return re.sub(r"/\*.*?\*/", " ", code, flags=re.DOTALL)


def _fields(reader, code):
    """[(name, ctypes expression)] of a struct."""
    fields = []
    for declaration in code[code.index("{") + 1:code.rindex("}")].split(";"):
        declaration = " ".join(declaration.split())
        if not declaration:
            continue
        pointer = re.fullmatch(r"(.*?)\(\*(\w+)\)\((.*)\)", declaration)
        if pointer:
            fields.append((pointer[2], f"CFUNCTYPE({reader.prototype(pointer[1], pointer[3])})"))
            continue
        match = re.fullmatch(r"(.*?)\b(\w+)\s*((?:\[\w+\])*)", declaration)
        kind = reader.ctype(match[1])
        for length in reversed(re.findall(r"\[(\w+)\]", match[3])):
            kind = f"{kind} * {length}"
        fields.append((match[2], kind))
    return fields


def _in_order(headers):
    """Headers behind those that they include at their top; some include more at their end."""
    by_name, done = dict(headers), []

    def visit(name):
        if name in by_name and name not in done:
            for _, included, _ in source_tree.includes(by_name[name].split("WEFT_BEGIN_DECLS\n", 1)[0]):
                visit(included[len("weft/"):])
            done.append(name)

    for name in sorted(by_name):
        visit(name)
    return [(name, by_name[name]) for name in done]


def _seen(kind, structs):
    return _SEEN.get(kind, kind if kind in structs else "Any" if kind.startswith("weft_") else "int")


def text_of(headers):
    """The module, from [(name, text)] of the headers of include/weft."""
    reader, parts, functions, stubs = _Reader(), [_TOP], [], []
    for name, text in _in_order([item for item in headers if not item[0].startswith(_LEFT_OUT)]):
        lines = []
        for symbol in c_header.read(name, text).symbols:
            code = _without_comments(symbol.code)
            if symbol.kind == "macro":
                value = reader.number(re.sub(r"#\s*define\s+\w+", "", code, count=1))
                if value is not None and not re.match(r"#\s*define\s+\w+\(", code):
                    reader.numbers[symbol.name] = value
                    lines.append(f"{symbol.name} = {value}")
            elif symbol.kind == "enum":
                reader.enums.add(symbol.name)
                following = 0
                for entry in code[code.index("{") + 1:code.rindex("}")].split(","):
                    if entry.strip():
                        key, _, value = (part.strip() for part in entry.partition("="))
                        literal = reader.number(value) if value else str(following)
                        following = int(literal, 0) + 1
                        reader.numbers[key] = literal
                        lines.append(f"{key} = {literal}")
            elif symbol.kind == "handle":
                reader.handles.add(symbol.name)
            elif symbol.kind == "callback":
                match = re.match(r"typedef\s+(.*?)\(\*\w+\)\((.*)\);", code, re.DOTALL)
                lines.append(f"{symbol.name} = CFUNCTYPE({reader.prototype(match[1], match[2])})")
                reader.callbacks[symbol.name] = True
            elif symbol.kind == "struct":
                fields = _fields(reader, code)
                reader.structs[symbol.name] = True
                lines.append(f"\n\nclass {symbol.name}(Structure):")
                lines += ["    _fields_ = [", *(f'        ("{field}", {kind}),' for field, kind in fields), "    ]\n"]
            elif symbol.kind == "function":
                match = re.match(r"(.*?)\b(\w+)\s*\((.*)\);", code, re.DOTALL)
                arguments, result = reader.arguments(match[3]), reader.result(match[1])
                kinds = ", ".join(kind for _, kind in arguments) + ("," if len(arguments) == 1 else "")
                functions.append(f'    "{symbol.name}": ({result}, ({kinds})),')
                shown = "".join(f", {argument}{'_' * keyword.iskeyword(argument)}: {_seen(kind, reader.structs)}" for argument, kind in arguments)
                outcome = "bytes" if result == "c_char_p" else _seen(result, reader.structs) if result != "None" else result
                stubs.append(f"        def {symbol.name}(self{shown}{', /' if shown else ''}) -> {outcome}: ...")
        if lines:
            parts.append(f"\n# {name}\n" + re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines)).lstrip("\n") + "\n")
    table = ["# All structs, by the names that weft_struct_size() knows.", "STRUCTS: dict[str, type[Structure]] = {"]
    table += [f'    "{struct}": {struct},' for struct in sorted(reader.structs)] + ["}", ""]
    table += ["# Result and arguments of every function.", "FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {", *sorted(functions), "}"]
    parts.append("\n" + "\n".join(table) + "\n")
    parts.append(_FUNCTIONS_TOP + "\n".join(sorted(stubs)) + "\n" + _FUNCTIONS_END)
    return re.sub(r"\n{4,}", "\n\n\n", "".join(parts))
