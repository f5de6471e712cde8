"""`./dev gpu build`: puts into build/gpu what a machine with a GPU needs: programs, libweft_cuda.so, the manifest; real files, stripped.

They need a driver and glibc 2.36 and are built with the release preset: their targets link everything else in (tests/gpu/CMakeLists.txt).
"""
import json
import os
import re
import shutil

from workbench.commands import ROOT, Failure, output, run
from workbench.flaky import GTEST_XML, list_tests
from workbench.gpu import manifest as manifests
from workbench.gpu.reports import in_order, read_reports
from workbench.gpu.sections import SECTIONS
from workbench.gpu.sources import file_hash, sources_hash

RELEASE = ROOT / "build" / "release"
BYTES_MAX = 60 << 20  # of tracked files and build/gpu together
GLIBC_MAX = (2, 36)
# Beside these, which are parts of glibc, a program needs nothing. The driver is opened by name when a device is wanted.
LIBRARIES = re.compile(r"lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux-x86-64\.so\.2")
# Carried along where a program needs them: libweft, and the one of the compiler that it needs.
OWN_LIBRARIES = {"libweft.so.0": lambda: RELEASE / "lib" / "libweft.so.0",
                 "libgcc_s.so.1": lambda: (output("g++", "-print-file-name=libgcc_s.so.1") or "libgcc_s.so.1").strip()}
MODULE = RELEASE / "lib" / "libweft_cuda.so"
SECONDS = 440  # of a run, where there is no other reason


def build(options):
    folder = options.folder
    run(ROOT / "dev", "build", "weft_cuda", *sorted(programs()))
    tests = gtest_steps()
    if tests:
        run(ROOT / "dev", "build", *sorted(name for names in tests.values() for name in names))
    steps, files = steps_and_files(tests)
    fill(folder, {MODULE.name: MODULE, **files})
    check_size(folder)
    manifests.write(folder, manifest(folder, steps))
    check_size(folder)
    shown = folder.relative_to(ROOT) if ROOT in folder.parents else folder
    print(f"built {shown}: {len(os.listdir(folder))} files, {folder_bytes(folder) / 1e6:.1f} MB. On the machine with a GPU, with this tree and {shown} carried along:\n"
          f"  ./dev gpu run --seconds {SECONDS} --out $OUT")


def programs():
    """Targets, by the table; what is Python's is in the tree."""
    return {step.program for section in SECTIONS for step in section.steps if step.program and not step.program.endswith(".py")}


def gtest_steps():
    """{name of the step: names of the tests of tests/device that it runs}, as CMake has them."""
    sources = json.loads((RELEASE / "test-sources.json").read_text())
    found = {}
    for section in SECTIONS:
        for step in section.steps:
            names = [name for name in sources if step.tests and re.fullmatch(step.tests, name) and all("/tests/device/" in path for path in sources[name])]
            if names:
                found[step.name] = sorted(names)
    return found


def steps_and_files(tests):
    """{section: its steps as the manifest has them}, {name in build/gpu: where it is built}."""
    entries = {entry["name"]: entry.get("command", ()) for entry in list_tests(RELEASE)} if tests else {}
    files = {name: RELEASE / "tests" / name for name in programs()}
    steps = {}
    for section in SECTIONS:
        steps[section.name] = made = []
        for step in section.steps:
            plain = {"name": step.name, "program": step.program, "arguments": list(step.arguments), "seconds": step.seconds, "reads": step.reads,
                     "check": step.check, "tool": step.tool}
            for name in tests.get(step.name, ()) if step.tests else ():
                program, *arguments = entries[name]
                files[os.path.basename(program)] = program
                made.append({**plain, "name": name, "program": os.path.basename(program),
                             "arguments": [word for word in arguments if not word.startswith(GTEST_XML)]})
            if not step.tests or not tests.get(step.name):
                made.append(plain)
    return steps, files


def fill(folder, files):
    """Real files alone, so that whatever copies them need not know links."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    wanted = dict(files)
    left = list(files.values())
    while left:
        for library in needed(left.pop()):
            if library in OWN_LIBRARIES and library not in wanted:
                wanted[library] = OWN_LIBRARIES[library]()
                left.append(wanted[library])
    for name, source in sorted(wanted.items()):
        shutil.copyfile(os.path.realpath(source), folder / name)
        run("strip", "--strip-unneeded", folder / name)
        (folder / name).chmod(0o755)
        check_needs(folder / name)


def needed(path):
    said = output("readelf", "-dW", os.path.realpath(path))
    if said is None:
        raise Failure(f"gpu: readelf of binutils says nothing of {path}; is it built?")
    return re.findall(r"\(NEEDED\).*\[(.+)\]", said)


def check_needs(path):
    """A machine with a GPU has glibc and may have nothing else."""
    others = [name for name in needed(path) if not LIBRARIES.fullmatch(name) and name not in OWN_LIBRARIES]
    if others:
        raise Failure(f"gpu: {path.name} needs {' '.join(others)}, which a machine with a GPU may not have; link it in (tests/gpu/CMakeLists.txt)")
    versions = {tuple(map(int, version.split("."))) for version in re.findall(r"\bGLIBC_(\d+\.\d+)", output("readelf", "-VW", path) or "")}
    if versions and max(versions) > GLIBC_MAX:
        newest = ".".join(map(str, max(versions)))
        raise Failure(f"gpu: {path.name} needs glibc {newest}, machines with a GPU have {'.'.join(map(str, GLIBC_MAX))}; build it where glibc is not newer")


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def check_size(folder):
    tracked = [ROOT / name for name in (output("git", "ls-files") or "").splitlines()]
    together = sum(path.lstat().st_size for path in tracked if path.exists()) + folder_bytes(folder)
    if together > BYTES_MAX:
        raise Failure(f"gpu: tracked files and {folder.name} have {together / 2**20:.1f} MiB together, allowed are {BYTES_MAX >> 20}")


def manifest(folder, steps):
    by_name = {section.name: section for section in SECTIONS}
    hashes = {section.name: sources_hash(section.sources, ROOT) for section in SECTIONS}
    return {"schema": manifests.SCHEMA, "commit": (output("git", "rev-parse", "HEAD") or "unknown").strip(),
            "dirty": bool((output("git", "status", "--porcelain") or "").strip()), "compiler": compilers(),
            "files": {path.name: file_hash(path) for path in sorted(folder.iterdir())},
            "sections": [{"name": name, "patterns": list(by_name[name].sources), "sources": hashes[name], "steps": steps[name]}
                         for name in in_order(hashes, read_reports(ROOT))]}


def compilers():
    """As the release build's cache names them."""
    cache = dict(re.findall(r"^(\w+):\w+=(.*)$", (RELEASE / "CMakeCache.txt").read_text(), re.MULTILINE))
    host = (output(cache["CMAKE_CXX_COMPILER"], "--version") or "unknown").splitlines()[0]
    device = re.search(r"release (\S+), V(\S+)", output(cache.get("WEFT_NVCC", "nvcc"), "--version") or "")
    return {"c++": host, "nvcc": device[2] if device else "unknown"}
