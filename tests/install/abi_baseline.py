"""The binary interface of libweft.so as libabigail describes it, and what changed since the baseline.

    abi_baseline.py build/release            prints what changed; exit code 1 if it is more than additions
    abi_baseline.py build/release --accept   makes what it is now the baseline, tests/install/weft.abi

`./dev abi` builds the library and runs this. docs/abi.md says which changes are allowed.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BASELINE = ROOT / "tests" / "install" / "weft.abi"
HEADERS = ROOT / "include" / "weft"
TOOLS = ("abidw", "abidiff")


def installed():
    return all(shutil.which(tool) for tool in TOOLS)


def describe(library, headers, out):
    """Writes the interface: types of the public headers and exported functions, without paths of this machine."""
    subprocess.run(["abidw", "--headers-dir", headers, "--drop-private-types", "--exported-interfaces-only", "--no-corpus-path",
                    "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed", "--no-architecture", "--no-parameter-names",
                    "--out-file", out, pathlib.Path(library).resolve()], check=True, timeout=300)
    text = pathlib.Path(out)
    text.write_text(text.read_text().replace(f"{ROOT}/", ""))


def changes(before, now):
    """What an old program may notice: everything but added functions. "" if there is nothing."""
    done = subprocess.run(["abidiff", "--no-added-syms", "--no-architecture", before, now], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, timeout=300)
    if done.returncode & 3:
        raise RuntimeError(f"abidiff cannot compare: {done.stdout}")
    return done.stdout if done.returncode else ""


def changes_since_baseline(build):
    with tempfile.TemporaryDirectory() as folder:
        now = pathlib.Path(folder, "now.abi")
        describe(pathlib.Path(build, "lib", "libweft.so"), HEADERS, now)
        return changes(BASELINE, now)


def main(build, accept):
    if not installed():
        print("abidw and abidiff are missing; ./dev setup installs them (Debian: abigail-tools)", file=sys.stderr)
        return 1
    if accept:
        describe(pathlib.Path(build, "lib", "libweft.so"), HEADERS, BASELINE)
        print(f"wrote {BASELINE.relative_to(ROOT)}")
        return 0
    found = changes_since_baseline(build)
    print(found or "the binary interface is the baseline's, or has more functions")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], "--accept" in sys.argv[2:]))
