"""docs/api, the export list and Python's declarations are those of the headers, and every comment says what a user must know."""
import re
import unittest

import api_pages
import c_header
import python_capi
import source_tree

# The NCCL names mean what they mean in nccl.h; docs/nccl.md has them all (tests/install/nccl_test.py).
_ELSEWHERE = ("nccl_",)
_THREADS = re.compile(r"[Tt]hread rule|[Aa]ny thread|belongs to the thread")
_RESULTS = re.compile(r"\bErrors\b|\b(?:INVALID_ARGUMENT|INVALID_USAGE|BAD_STATE|SYSTEM_ERROR|OUT_OF_MEMORY|UNSUPPORTED|MISMATCH)\b"
                      r"|\bWEFT_(?:IN_PROGRESS|SUCCESS|ABORTED)\b|[Nn]ever fails|result")
_SHAPES = re.compile(r"\[[^\]]+\]|\belements?\b|`bytes`|\bAs weft_\w+|\bweft_\w+ of every part|\bweft_send and weft_recv\b")
_BUFFER = re.compile(r"\bvoid\*\s*(?:in|out|factor)\b")


def flat(text):
    return " ".join(text.split())


def rules_of(header, by_name):
    """The top comment of a header, and of those whose rules it says it follows."""
    more = re.findall(r"[Rr]ules of (\w+\.h) hold", header.comment)
    return flat("\n".join([header.comment] + [by_name[name].comment for name in more if name in by_name]))


def violations(all_headers):
    by_name = {header.name: header for header in all_headers}
    found = []
    for header in all_headers:
        if len(header.comment) < 20:
            found.append(f"{header.name} does not say at its top what it is for")
        if header.name.startswith(_ELSEWHERE):
            continue
        rules = rules_of(header, by_name)
        for symbol in header.symbols:
            where = f"{header.name}: {symbol.name}"
            if not symbol.comment:
                found.append(f"{where} has no comment")
            if symbol.kind != "function" or header.name.endswith(".hpp"):
                continue
            comment = flat(symbol.comment)
            if not _THREADS.search(comment) and not _THREADS.search(rules):
                found.append(f"{where} does not say from which threads; \"Any thread.\" or a thread rule at the top")
            if re.search(r"WEFT_EXPORT\s+weft_result_t", symbol.code) and not _RESULTS.search(comment) \
                    and "Errors of all" not in rules:
                found.append(f"{where} does not say its errors; here, or \"Errors of all\" at the top")
            if _BUFFER.search(symbol.code) and not _SHAPES.search(comment):
                found.append(f"{where} does not say the shape of its buffers, as in \"out: [size * count]\"")
    return found


class Api(unittest.TestCase):
    maxDiff = None

    def test_pages_are_those_of_the_headers(self):
        made = api_pages.generated()
        there = {path: text for path, text in source_tree.read_tree((".md", "exports.txt", "_capi.py")).items()
                 if path.startswith(api_pages.FOLDER + "/") or path in (api_pages.EXPORTS, python_capi.PATH, api_pages.gpu_page.PATH)}
        stale = sorted(path for path in set(made) | set(there) if made.get(path) != there.get(path))
        self.assertEqual([], stale, "run ./dev docs and commit what it writes")

    def test_python_has_every_declaration(self):
        """What python_capi makes against the other list of functions, and a header with one of each kind."""
        made = api_pages.generated()
        self.assertEqual(made[api_pages.EXPORTS].split(), sorted(re.findall(r'^    "(weft_\w+)": \(', made[python_capi.PATH], re.MULTILINE)))
        text = ("/* Top. */\n#define WEFT_A_MAX 3u /* most */\ntypedef enum weft_a { WEFT_A_ONE = 1, WEFT_A_TWO } weft_a_t;\n"
                "typedef struct weft_b* weft_b_t;\ntypedef void (*weft_c_t)(weft_a_t a, void* user);\n"
                "typedef struct weft_d {\n  char name[WEFT_A_MAX]; /* ; */\n  const char* text;\n  int (*get)(void* user, const int* at);\n  weft_c_t c;\n"
                "} weft_d_t;\nWEFT_EXPORT size_t weft_e(weft_b_t b, weft_d_t* d, const int list[], double from);\nWEFT_EXPORT void weft_f(void);\n")
        module = python_capi.text_of([("x.h", text)])
        for line in ("WEFT_A_MAX = 3", "WEFT_A_TWO = 2", "weft_c_t = CFUNCTYPE(None, c_int, c_void_p)", '        ("name", c_char * WEFT_A_MAX),',
                     '        ("text", c_char_p),', '        ("get", CFUNCTYPE(c_int, c_void_p, c_void_p)),', '        ("c", weft_c_t),',
                     '    "weft_e": (c_size_t, (c_void_p, c_void_p, c_void_p, c_double)),', '    "weft_f": (None, ()),',
                     "        def weft_e(self, b: Pointer, d: Pointer, list: Pointer, from_: float, /) -> int: ..."):
            self.assertIn(line, module.splitlines())

    def test_every_symbol_is_documented(self):
        all_headers = api_pages.headers()
        self.assertGreater(sum(len(header.symbols) for header in all_headers), 150)
        self.assertEqual([], violations(all_headers))

    def test_every_declaration_is_seen(self):
        """The reader of headers against a plain search."""
        for name, text in source_tree.read_tree((".h",)).items():
            if name.startswith("include/weft/"):
                declared = re.findall(r"^WEFT_EXPORT[^(;]*?\b(weft_\w+)\s*\(", text, re.MULTILINE)
                seen = [symbol.name for symbol in c_header.read(name, text).symbols if symbol.kind == "function"]
                self.assertEqual(declared, seen, name)

    def found(self, text):
        return violations([c_header.read("x.h", "/* What it is for, at length. */\n#define WEFT_X_H_\n" + text)])

    def test_undocumented_symbols_are_found(self):
        self.assertEqual(["x.h: weft_a has no comment", "x.h: weft_a does not say from which threads; \"Any thread.\" or a "
                          "thread rule at the top"], self.found("WEFT_EXPORT int weft_a(void);\n"))
        self.assertEqual(["x.h: weft_a_t has no comment"], self.found("typedef struct weft_a {\n  int b; /* c */\n} weft_a_t;\n"))
        self.assertEqual(["x.h: weft_a_t has no comment"], self.found("typedef enum weft_a { WEFT_B = 0 } weft_a_t;\n"))
        self.assertEqual(["x.h: WEFT_A has no comment"], self.found("/* Of something else. */\n\n#define WEFT_A 1\n"))

    def test_comments_that_say_too_little_are_found(self):
        text = "/* Does it. Any thread. */\nWEFT_EXPORT weft_result_t weft_a(const void* in);\n"
        self.assertEqual(["errors;", "shape"], [re.search(r"its (errors;)|the (shape)", line)[0].split()[1]
                                               for line in self.found(text)])
        text = "/* Does it with in: [count]. Errors: INVALID_ARGUMENT. Any thread. */\n" + text.split("\n")[1] + "\n"
        self.assertEqual([], self.found(text))

    def test_comments_may_stand_behind_or_above_several(self):
        self.assertEqual([], self.found("#define WEFT_A 1 /* one */\n/* Two more. */\n#define WEFT_B 2\n#define WEFT_C 3\n"))

    def test_classes_are_shown_without_bodies(self):
        text = "// Top.\n\n// Owns: a thing.\nclass A {\n public:\n  // Makes: one.\n  A(int b) : b_(b) { Run(\"}\"); }\n  A(const A&) = delete;\n" \
               "  int Get() const;\n\n private:\n  int b_;\n};\n"
        symbols = c_header.read_cxx("a.hpp", text).symbols
        self.assertEqual(["class A {\n  // Makes: one.\n  A(int b);\n  int Get() const;\n};"], [symbol.code for symbol in symbols])

    def test_prose_is_not_read_as_markup(self):
        self.assertEqual(r"out\[r \* count\] of `weft_send()`, see `types.h`", api_pages.markdown("out[r * count] of weft_send(), see types.h"))


if __name__ == "__main__":
    unittest.main()
