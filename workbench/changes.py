"""What a change has changed: since where it left main, or on main since the commit before.

    changed_tests("release", names)      # of these tests, the ones whose own sources are new or differ

Cases that moved from one source to another, as they were, change none of the two.
"""
import collections
import json
import re

from workbench.commands import ROOT, output

# What stands around cases, and moves with none of them.
_AROUND_CASES = re.compile(r"\s*(#include\b|#pragma\b|namespace\b|using\b|import\b|from\b|//|#|[{}]|$)")


def base_commit():
    """What this tree is compared with."""
    head = (output("git", "rev-parse", "HEAD") or "").strip()
    for other in ("origin/main", "main"):
        base = (output("git", "merge-base", "HEAD", other) or "").strip()
        if base and base != head:
            return base
    return "HEAD~1"


def changed_sources(diff):
    """Paths in the text of a `git diff -U0` that have lines that no other path lost, or lost some that no other one got."""
    lines = {"+": collections.defaultdict(collections.Counter), "-": collections.defaultdict(collections.Counter)}
    path = None
    for line in diff.splitlines():
        if line.startswith("diff --git "):
            path = line.rsplit(" b/", 1)[1]
        elif line[:1] in lines and not line.startswith(("+++ ", "--- ")) and not _AROUND_CASES.match(line[1:]):
            lines[line[0]][path][line[1:].strip()] += 1
    there = {sign: sum(lines[sign].values(), collections.Counter()) for sign in lines}
    changed = set()
    for sign, other in (("+", "-"), ("-", "+")):
        left = there[other].copy()
        for path in sorted(lines[sign]):
            if lines[sign][path] - left:
                changed.add(path)
            left -= lines[sign][path]
    return changed


def changed_files(root=ROOT):
    """Of the tests: what differs from the base, and what git does not know yet."""
    diff = output("git", "-C", str(root), "diff", "-U0", "-M", base_commit(), "--", "tests") or ""
    fresh = output("git", "-C", str(root), "ls-files", "--others", "--exclude-standard", "--", "tests") or ""
    return changed_sources(diff) | set(fresh.splitlines())


def changed_tests(preset, names):
    """Sorted: those of `names` that have a changed source, by test-sources.json of the build, which CMake writes."""
    sources = json.loads((ROOT / "build" / preset / "test-sources.json").read_text())
    changed = {str(ROOT / path) for path in changed_files()}
    return sorted(name for name in names if changed & set(sources.get(name, ())))
