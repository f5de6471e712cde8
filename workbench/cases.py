"""Every case of every test program of a build: `python3 -B -m workbench.cases build/release >cases.txt`.

One line per case, "entry suite.case", sorted: the lists of two builds differ (`diff`) where a case came, went, or moved to another entry.
Tests that are scripts count their cases themselves and are not listed.
"""
import concurrent.futures
import pathlib
import subprocess
import sys

from workbench.commands import core_count
from workbench.flaky import GTEST_XML, list_tests, program_of


def cases_of(text):
    """[suite.case] in what --gtest_list_tests prints."""
    found, suite = [], ""
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if name.startswith("  "):
            found.append(suite + name.strip())
        elif name.endswith("."):
            suite = name
    return found


def listed(entry):
    program = program_of(entry, {})
    done = subprocess.run([*program.command, "--gtest_list_tests"], cwd=program.folder, stdout=subprocess.PIPE, text=True, check=True)
    return [f"{program.name} {case}" for case in cases_of(done.stdout)]


def main(build):
    entries = [entry for entry in list_tests(pathlib.Path(build)) if any(word.startswith(GTEST_XML) for word in entry.get("command", ()))]
    with concurrent.futures.ThreadPoolExecutor(core_count()) as pool:
        print("\n".join(sorted(line for lines in pool.map(listed, entries) for line in lines)))


if __name__ == "__main__":
    main(sys.argv[1])
