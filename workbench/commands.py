"""Commands as ./dev runs them: shown, in the root of the tree, with the programs and libraries of a prefix.

    run("cmake", "--preset", "release")     # prints it, and raises Failure when it fails
    output("git", "rev-parse", "HEAD")      # what it prints, or None; not shown, changes nothing

Thread-safety: none of these keeps anything; lines that two threads print may mix.
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PREFIX_FILE = ROOT / "build" / ".prefix"


class Failure(Exception):
    """Ends the verb: one sentence for the user, and the exit code."""

    def __init__(self, message, code=1):
        super().__init__(message)
        self.code = code


def prefix():
    """The directory given to `setup --prefix`, or None."""
    text = os.environ.get("WEFT_PREFIX") or (PREFIX_FILE.read_text().strip() if PREFIX_FILE.exists() else "")
    return pathlib.Path(text) if text else None


def environment():
    """The environment of every command: this one, and the programs and libraries of the prefix."""
    result = dict(os.environ)
    result.setdefault("CCACHE_SLOPPINESS", "pch_defines,time_macros")  # else ccache keeps nothing of precompiled headers
    if prefix():
        usr = prefix() / "usr"
        libraries = [str(path) for path in sorted(usr.glob("lib/*-linux-gnu"))]
        result["WEFT_PREFIX"] = str(prefix())
        for name, paths in (("PATH", [str(usr / "bin")]), ("LD_LIBRARY_PATH", libraries),
                            ("PKG_CONFIG_PATH", [path + "/pkgconfig" for path in libraries])):
            result[name] = os.pathsep.join(paths + [result[name]] if result.get(name) else paths)
    return result


def show(command):
    shown = f"WEFT_PREFIX={prefix()} " if prefix() else ""
    print(f"+ {shown}{shlex.join(str(word) for word in command)}", flush=True)


def run(*command, check=True, **options):
    """Shows and runs a command in the root of the tree; returns its exit code."""
    show(command)
    try:
        code = subprocess.call([str(word) for word in command], cwd=options.pop("cwd", ROOT),
                               env=options.pop("env", environment()), **options)
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed; run ./dev setup") from None
    if check and code != 0:
        raise Failure(f"{command[0]} failed with exit code {code}", code if code > 0 else 128 - code)
    return code


def watch(command, pattern, hidden, estimate, env=None):
    """Runs a command whose lines tell how far it is; returns its exit code.

    `pattern` finds done, total and name in a line; lines in which `hidden` is found are not printed. On a terminal the
    estimate stands in the last line, elsewhere it is printed every half minute.
    """
    show(command)
    progress = Progress(estimate)
    try:
        process = subprocess.Popen([str(word) for word in command], cwd=ROOT, env=env or environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    except FileNotFoundError:
        raise Failure(f"{command[0]} is not installed; run ./dev setup") from None
    with process:
        for line in process.stdout:
            found = pattern.match(line)
            if found:
                estimate.update(int(found["done"]), int(found["total"]), found["name"])
            if not hidden.search(line):
                progress.line(line.rstrip("\n"))
            progress.show()
    progress.clear()
    return process.returncode


class Progress:
    """How far something is, in the last line of a terminal; elsewhere a line every half minute."""

    def __init__(self, estimate):
        self.estimate = estimate
        self.terminal = sys.stdout.isatty()
        self.printed = time.monotonic()

    def line(self, text):
        print(("\r\033[K" if self.terminal else "") + text, flush=True)

    def show(self):
        if self.terminal:
            width = shutil.get_terminal_size().columns - 1
            print("\r\033[K" + str(self.estimate)[:width], end="", flush=True)
        elif time.monotonic() - self.printed > 30 and self.estimate.total:
            self.printed = time.monotonic()
            print(f"  {self.estimate}", flush=True)

    def clear(self):
        if self.terminal:
            print("\r\033[K", end="", flush=True)


class Estimate:
    """How far a build or a test run is, and when it will be through.

    `costs` are seconds by name from an earlier run; without them all steps count alike.
    """

    def __init__(self, what, costs=None):
        self.what, self.costs = what, costs or {}
        self.start = time.monotonic()
        self.done = self.total = 0
        self.left = sum(self.costs.values())
        self.known = self.left

    def update(self, done, total, name):
        self.done, self.total = done, total
        self.left -= self.costs.get(name, 0)

    def __str__(self):
        gone = time.monotonic() - self.start
        share = 1 - self.left / self.known if self.known else self.done / max(self.total, 1)
        text = f"{self.what}: {self.done} of {self.total}, {duration(gone)} gone"
        return text + (f", about {duration(gone / share - gone)} left" if share > 0.02 else "")


def duration(seconds):
    return f"{int(seconds) // 60} min {int(seconds) % 60:02} s" if seconds >= 60 else f"{int(seconds)} s"


def output(*command):
    """What a command prints, or None when it fails; not shown, changes nothing."""
    done = subprocess.run(command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def core_count():
    return len(os.sched_getaffinity(0))
